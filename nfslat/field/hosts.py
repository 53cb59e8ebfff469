"""Two connections -> what both hosts say, or the first thing that goes wrong with one of them."""

from __future__ import annotations

import contextlib
import queue
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from nfslat.errors import InputError
from nfslat.field.link import Event, Link, connect_s, wait_for

_CLEAN_S = 12.0  # for a host to clean up
_LAST_S = 0.3  # what a host said on standard error comes in beside its answer
SAID_BEFORE = re.compile(r"NFS packets/s, .*( free in |MB/s of )")  # by capture.sh, what was measured here
_TAR_IS_THERE = ("0", "3")  # statuses of capture.sh; 3: it ended early


@dataclass(frozen=True)
class Voice:
    """How the user is told, and asked."""

    say: Callable[[str], None]
    progress: Callable[[str], None]  # replaces what it said last; "" clears it
    confirm: Callable[[], bool]
    terminal: bool  # somebody can type a password


class Hosts:
    """Both links, and what they say."""

    def __init__(self, links: Mapping[str, Link], voice: Voice) -> None:
        self.links = links
        self.echo = False  # pass on what capture.sh says
        self.voice = voice
        self._events = next(iter(links.values())).events

    def gather(self, what: str, within_s: float, doing: str) -> dict[str, tuple[float, str]]:
        """When, and with which words, each link said `what`. Raises ``InputError`` where one does not."""
        found: dict[str, tuple[float, str]] = {}
        deadline = time.monotonic() + within_s
        try:
            while len(found) < len(self.links):
                late = [link.name for side, link in self.links.items() if side not in found]
                self.voice.progress(f"{doing}: {', '.join(late)} ")
                event = self.next(deadline)
                if event is None or time.monotonic() > deadline:  # it may say a lot, and never this
                    raise InputError(f"{late[0]} does not answer ({doing}): is it overloaded? Try again")
                if event.what == what:
                    found[event.link.side] = time.monotonic(), event.text
        finally:
            self.voice.progress("")
        return found

    def next(self, deadline: float) -> Event | None:
        """The next event; those that mean failure raise ``InputError``."""
        event = wait_for(self._events, deadline)
        if event is None:
            return None
        link = event.link
        match event.what:
            case "gone" if not link.finished:
                if not link.greeted:
                    raise InputError(link.why_gone())
                link.refuse_gone()
            case "folder":
                raise InputError(f"{link.name}: cannot make a folder in {event.text}; give another one with --dir")
            case "full":
                raise InputError(f"{link.name}: cannot write in {event.text}, the disk may be full; give another --dir")
            case "end" if self.echo and event.text != "0":
                raise InputError(f"{link.name}: cannot make a folder for its capture; give another one with --dir")
            case "done" if event.text not in _TAR_IS_THERE:
                self.refuse(link, "the capture failed")
            case "said" if self.echo and event.text.startswith("nfslat: ") and not SAID_BEFORE.search(event.text):
                self.voice.say(f"{link.name}: {event.text.removeprefix('nfslat: ')}")
        return event

    def ask(self, within_s: float, doing: str) -> dict[str, str]:
        """The answers to what was asked; one with a status that is not 0 raises."""
        ends = self.gather("end", within_s, doing)
        for side, (_, status) in ends.items():
            if status != "0":
                self.refuse(self.links[side], f"{doing} failed")
        return {side: link.answer() for side, link in self.links.items()}

    def refuse(self, link: Link, what: str) -> NoReturn:
        """Raise ``InputError`` with what the host said last."""
        time.sleep(_LAST_S)
        said = [line for line in link.said if line.strip()]
        ours = [line.removeprefix("nfslat: ") for line in said if line.startswith("nfslat: ")]
        raise InputError(f"{link.name}: {(ours or said or [what])[-1]}")


def connect(
    hosts: Mapping[str, str], ssh: str, folder: str, seconds: int, voice: Voice, stack: contextlib.ExitStack
) -> dict[str, Link]:
    """A connection to each of `hosts` (side -> as ssh takes it), which `stack` ends. Raises ``InputError``."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    links: dict[str, Link] = {}
    stack.callback(lambda: hang_up(list(links.values()), voice))
    batch = not voice.terminal
    for side, host in hosts.items():
        links[side] = Link(side, host, ssh, events, batch=batch)
        links[side].send_agent(folder, seconds)
        if not batch:
            # One after the other, so that two do not ask for a password at the same time.
            Hosts({side: links[side]}, voice).gather("hello", connect_s(batch=batch), "login")
    if batch:
        Hosts(links, voice).gather("hello", connect_s(batch=batch), "login")
    return links


def hang_up(links: Sequence[Link], voice: Voice) -> None:
    """Both at once: a host that hangs must not keep the other one from being told."""
    voice.progress("waiting until the hosts are clean")
    threads = [threading.Thread(target=link.close, args=(_CLEAN_S,), daemon=True) for link in links]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except KeyboardInterrupt:
        for link in links:
            link.kill()
    finally:
        voice.progress("")
