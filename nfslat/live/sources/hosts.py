"""Hosts -> their packets over ssh, as `nfslat capture` finds and filters them, for as long as somebody reads.

Nothing is written on a host but scripts of some KB, in memory. A host that is lost is asked again and again; what is
missing meanwhile is a gap, of which no cause is made.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from nfslat.errors import InputError, NfslatError
from nfslat.field import cost
from nfslat.field.hosts import SAID_BEFORE, Hosts, Voice, connect
from nfslat.field.link import Event, Link, connect_s, wait_for
from nfslat.field.plan import Plan, Wanted, plans
from nfslat.live.sources.feed import Feed

_IN_MEMORY = "memory"  # where agent.sh has its files
_START_S = 90.0  # capture.sh looks at the traffic once more where there is much
_BEAT_S = 10.0  # agent.sh ends a minute after the last one
_LOOK_S = 0.5
_AGAIN_S = (1.0, 2.0, 5.0, 10.0, 30.0, 60.0)  # until a host is asked again: the last one for ever
_CALM, _MOST_CALM = 12, 720  # counts of 5 s in a row with little traffic, until more bytes of a packet are captured
_LASTED_S = 60.0  # a stream that went so well for so long begins with the first of these once more
_TOO_MUCH_CPU = "7"  # status of capture.sh
_MB = 1 << 20


@dataclass
class _Stream:
    """What is known of one host."""

    link: Link
    plan: Plan
    feed: Feed
    snaplen: int
    state: str = "greeting"  # then "starting", "streaming", "waiting" until it is asked again, "over"
    until: float = 0.0  # the state lasts no longer; of ``time.monotonic``
    since: float = 0.0  # it streams
    tries: int = 0
    dropped: int = 0  # packets, before this stream of it
    packets: int = 0  # that had come when drops were asked for last
    looked: tuple[float, int] = (0.0, 0)  # when its bytes were counted, and these
    heavy: int = 0  # times in a row that they were too many
    wider: list[int] = field(default_factory=list)  # snaplens that were too much for its traffic, the last one behind
    wire: tuple[int, int] = (0, 0)  # packets, and bytes of them on the wire, when they were counted last
    calm: int = 0  # times in a row that the last one of these would be little
    patience: int = _CALM  # so many of them are awaited; the double after each time
    why: str = ""  # it said last


class Streams:
    """The packets of some hosts, from the moment on that all capture."""

    def __init__(self, wanted: Wanted, max_cpu: int, voice: Voice) -> None:
        """Log in, look, and begin. Raises ``InputError`` and ``UsageError`` for what cannot begin."""
        self._wanted, self._max_cpu, self._voice = wanted, max_cpu, voice
        self._stack = contextlib.ExitStack()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="streams")
        with contextlib.ExitStack() as stack:
            self._links = connect(wanted.hosts, wanted.ssh, _IN_MEMORY, 0, voice, stack)
            self._events = next(iter(self._links.values())).events
            # The server's packets are read with those of each client.
            readers = {side: max(len(wanted.clients), 1) if side == "server" else 1 for side in wanted.hosts}
            planned = plans(Hosts(self._links, voice), wanted)
            self._streams = {
                side: _Stream(link, planned[side], Feed(side, link.name, readers[side]), planned[side].cost.snaplen)
                for side, link in self._links.items()
            }
            for stream in self._streams.values():
                stack.callback(stream.feed.close)
                self._start(stream)
            self._await_all()
            self._stack = stack.pop_all()
        *others, last = (stream.link.name for stream in self._streams.values())
        names = " and ".join([", ".join(others), last] if others else [last])
        voice.say(f"{names}: packets come; Ctrl-C ends it")
        self._thread.start()

    @property
    def feeds(self) -> Mapping[str, Feed]:
        """They by side."""
        return {side: stream.feed for side, stream in self._streams.items()}

    def close(self) -> None:
        """Hang up, and wait until the hosts are clean."""
        self._is_over.set()
        for stream in self._streams.values():
            stream.feed.close()
        if self._thread.is_alive():
            self._thread.join(_LOOK_S * 4)
        self._stack.close()
        for stream in self._streams.values():
            stream.feed.end(stream.feed.failed)

    def _start(self, stream: _Stream) -> None:
        stream.link.stream = stream.feed.take
        stream.state, stream.until = "starting", time.monotonic() + _START_S
        limits = ["--snaplen", str(stream.snaplen), "--max-cpu", str(self._max_cpu), "--yes"]
        stream.link.ask("stream", *stream.plan.arguments, *limits)

    def _await_all(self) -> None:
        """Until all capture; the first thing that goes wrong with one raises."""
        while late := [stream for stream in self._streams.values() if stream.state != "streaming"]:
            self._voice.progress(f"starting: {', '.join(stream.link.name for stream in late)} ")
            event = wait_for(self._events, min(stream.until for stream in late))
            if event is None:
                raise InputError(f"{late[0].link.name} does not answer (starting): is it overloaded? Try again")
            stream = self._streams[event.link.side]
            if event.what in ("gone", "done"):
                time.sleep(_LOOK_S)  # until all that it said is here
                raise InputError(f"{event.link.name}: {_last(event.link)}")
            self._heard(stream, event)
        self._voice.progress("")

    def _run(self) -> None:
        """Look after the streams until they are closed."""
        beat = 0.0
        while not self._is_over.is_set():
            event = wait_for(self._events, time.monotonic() + _LOOK_S)
            now = time.monotonic()
            if event is not None and event.link is self._links.get(event.link.side):
                self._heard(self._streams[event.link.side], event)
            for stream in self._streams.values():
                self._look_after(stream, now)
                if now - beat > _BEAT_S and stream.state in ("starting", "streaming"):
                    stream.link.ask("beat")
                with contextlib.suppress(OSError):
                    stream.feed.tick()
            if now - beat > _BEAT_S:
                beat = now

    def _heard(self, stream: _Stream, event: Event) -> None:
        match event.what:
            case "hello":
                self._start(stream)
            case "ready":
                self._begins(stream, event.text)
            case "counts":
                self._counted(stream, event.text)
            case "folder" | "full":
                stream.why = f"cannot write in {event.text}: is the disk full?"
            case "done":
                self._ended(stream, event.text)
            case "gone" if stream.state not in ("waiting", "over"):
                why = _last(stream.link) if stream.link.greeted else stream.link.why_gone()
                self._lost(stream, stream.why or why)
            case "said" if event.text.startswith("nfslat: ") and not SAID_BEFORE.search(event.text):
                stream.why = event.text.removeprefix("nfslat: ")
                if stream.state == "starting":
                    self._voice.say(f"{stream.link.name}: {stream.why}")

    def _begins(self, stream: _Stream, text: str) -> None:
        """It captures, with so many bytes of a packet, on such an interface."""
        if stream.since:
            self._voice.say(f"{stream.link.name}: packets come again")
        snaplen = text.partition(" ")[0]
        if snaplen.isascii() and snaplen.isdecimal():
            stream.snaplen = int(snaplen[:9])
        stream.state, stream.since, stream.heavy = "streaming", time.monotonic(), 0
        stream.dropped = stream.feed.dropped or 0
        stream.looked = stream.since, stream.feed.splice.bytes

    def _counted(self, stream: _Stream, text: str) -> None:
        """Packets so far, those of them that were dropped, per cent of a processor; some may be missing."""
        feed, words = stream.feed, text.split(" ")
        numbers = [int(word[:15]) if word.isascii() and word.isdecimal() else None for word in words]
        if len(numbers) != 3:
            return
        was_dropped = feed.dropped or 0
        if numbers[1] is not None:
            feed.dropped = stream.dropped + numbers[1]
            lost, came = feed.dropped - was_dropped, feed.splice.packets - stream.packets
            feed.dropped_share = lost / max(lost + came, 1)
            stream.packets = feed.splice.packets
        feed.cpu_percent = numbers[2]
        now, was = time.monotonic(), stream.looked
        stream.looked = now, feed.splice.bytes
        # A burst is borne, unless packets are dropped for it.
        most = cost.limits().max_stream_mb * _MB * (1 if (feed.dropped or 0) > was_dropped else 2)
        stream.heavy = stream.heavy + 1 if stream.looked[1] - was[1] > most * (now - was[0]) else 0
        before, is_calm = stream.snaplen, self._is_calm(stream, now - was[0])
        if stream.heavy >= 2 and not self._wanted.force and self._shorten(stream):
            stream.wider.append(before)
            self._again(stream, f"it sent more than {most // _MB} MB/s", 0.0)
        elif is_calm:
            stream.calm, stream.patience = 0, min(stream.patience * 2, _MOST_CALM)
            stream.snaplen = stream.wider.pop()
            self._again(stream, f"{cost.in_words(stream.snaplen)} once more: its traffic is less", 0.0)

    def _is_calm(self, stream: _Stream, seconds: float) -> bool:
        """For so long that more bytes of a packet would be less than half of what may be sent."""
        splice, (packets, wire) = stream.feed.splice, stream.wire
        stream.wire = splice.packets, splice.wire_bytes
        if not stream.wider:
            return False
        would = splice.wire_bytes - wire
        if stream.wider[-1]:
            would = min(would, (splice.packets - packets) * stream.wider[-1])
        is_little = would < cost.limits().max_stream_mb * _MB / 2 * seconds
        stream.calm = stream.calm + 1 if is_little else 0
        return stream.calm >= stream.patience

    def _ended(self, stream: _Stream, status: str) -> None:
        """The capture has ended by itself."""
        if status == _TOO_MUCH_CPU:
            if not self._shorten(stream):
                self._over(
                    stream, InputError(f"{stream.link.name}: {stream.why}, with {stream.snaplen} bytes of a packet")
                )
                return
            self._again(stream, stream.why, 0.0)
        else:
            self._lost(stream, stream.why or f"tcpdump ended ({status})")

    def _shorten(self, stream: _Stream) -> bool:
        """Fewer bytes of a packet from now on, unless they are the fewest already."""
        shorter = cost.shorter(stream.snaplen, cost.limits().floor_v4)
        if stream.snaplen and shorter >= stream.snaplen:
            return False
        self._voice.say(
            f"{stream.link.name}: {cost.in_words(shorter)} from now on instead of {cost.in_words(stream.snaplen)}"
        )
        stream.snaplen = shorter
        return True

    def _lost(self, stream: _Stream, why: str) -> None:
        now = time.monotonic()
        if stream.state == "streaming" and now - stream.since > _LASTED_S:
            stream.tries = 0
        wait_s = _AGAIN_S[min(stream.tries, len(_AGAIN_S) - 1)]
        stream.tries += 1
        self._again(stream, why, wait_s)

    def _again(self, stream: _Stream, why: str, wait_s: float) -> None:
        stream.state, stream.until, stream.why = "waiting", time.monotonic() + wait_s, ""
        stream.link.kill()
        stream.feed.lose(why)
        self._voice.say(f"{stream.link.name}: no packets ({why}); asked again in {wait_s:.0f} s")

    def _over(self, stream: _Stream, problem: NfslatError) -> None:
        stream.state = "over"
        stream.link.kill()
        stream.feed.end(problem)

    def _look_after(self, stream: _Stream, now: float) -> None:
        """What has waited long enough."""
        if stream.state in ("streaming", "over") or now < stream.until:
            return
        if stream.state != "waiting":
            self._lost(stream, "it does not answer")
            return
        if stream.link.is_reading:
            return
        side = stream.link.side
        stream.feed.begin()
        link = Link(side, stream.link.host, self._wanted.ssh, self._events, batch=True)
        link.send_agent(_IN_MEMORY, 0)
        self._links[side] = stream.link = link
        stream.state, stream.until = "greeting", now + connect_s(batch=True)


def _last(link: Link) -> str:
    """What a host, or ssh, said last, in a line."""
    lines = [line for line in link.said if line.strip() and not SAID_BEFORE.search(line)]
    return lines[-1].removeprefix("nfslat: ")[:200] if lines else "the connection was lost"
