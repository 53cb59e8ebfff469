"""A host and the command for ssh -> one connection to it, on which its shell answers questions and sends one file.

The shell runs `agent.sh`. Whatever it says comes in as an `Event`; connections share a queue, so that whoever waits
sees both hosts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import secrets
import shlex
import shutil
import string
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import IO, NoReturn

from nfslat.decode.room import RESERVE_BYTES
from nfslat.errors import InputError, UsageError

SCRIPTS = ("capture.sh", "snapshot.sh")
_CONNECT_S = 20  # until a host says hello where no one can be asked for a password
# Ctrl-C is for nfslat: it stops the captures, for which it needs the connection.
_DEAF = 'trap "" INT; exec "$@"'
_LONGEST_S = 3600  # a host that was forgotten cleans up by itself
_COPY_BYTES = 1 << 18
_SAID_LINES = 40
# What a host says is held in memory: 100,000 connections are some 10 MiB.
_LINE_BYTES, _HEARD_BYTES = 1 << 16, 16 << 20
_EVENT_BYTES = 100  # of a line, however short
_HEARD_PER_S = 1024  # bytes that nobody minds: a stream says for months how it is
_KEEPALIVE_S, _KEEPALIVES = 5, 4  # a host that says nothing for so long is gone
# Asks for no terminal and starts no forwarding of the user's; what he gives with --ssh stands in front, and wins.
_OPTIONS = {
    "ServerAliveInterval": str(_KEEPALIVE_S),
    "ServerAliveCountMax": str(_KEEPALIVES),
    "ConnectTimeout": "10",
    "RequestTTY": "no",
    "RemoteCommand": "none",
    "ClearAllForwardings": "yes",
}
LOCAL = "iface:"  # in front of an interface of this machine, in place of a host
# Understood by the shells of Bourne, csh and fish alike. The first is Solaris's that knows POSIX.
_REMOTE = "test -x /usr/xpg4/bin/sh && /usr/xpg4/bin/sh -s || sh -s"
# What ssh and login shells say, and what to do about it; the first that fits.
_REASONS = (
    ("Could not resolve hostname", "is not known by that name; check the name, or give user@address"),
    ("REMOTE HOST IDENTIFICATION HAS CHANGED", "shows another host key than before; find out why, then ssh-keygen -R"),
    ("Host key verification failed", "has a host key that is not known here; log in with ssh once and accept it"),
    ("Permission denied", "takes none of the keys; try: ssh {host} true, or ssh-add, or --ssh 'ssh -i KEY'"),
    ("Too many authentication failures", "takes none of the keys; try --ssh 'ssh -o IdentitiesOnly=yes -i KEY'"),
    ("Connection refused", "refuses the connection; does sshd run there, on another port (--ssh 'ssh -p PORT')?"),
    ("timed out", "does not answer; check the address, and that a firewall lets ssh through"),
    ("No route to host", "cannot be reached; check the address and the network"),
    ("Network is unreachable", "cannot be reached; check the address and the network"),
    ("not currently available", "gives no shell to this user; log in as another one (user@host)"),
    ("not available", "gives no shell to this user; log in as another one (user@host)"),
)


@dataclass(frozen=True)
class Event:
    """What a host did: "hello", "end" of an answer, "sent", "gone" (with what was last said), or what agent.sh says."""

    link: Link
    what: str
    text: str = ""


class Link:
    """A connection. Its methods are for one thread; what they start comes in by the queue."""

    def __init__(self, side: str, host: str, ssh: str, events: queue.SimpleQueue[Event], *, batch: bool) -> None:
        """Begin to connect; `side`: server, client, client2 and so on; `batch`: without a terminal to ask at. Raises
        ``UsageError`` where there is no ssh."""
        self.side, self.host = side, host
        self.tar: Path | None = None  # where the file goes
        self.stream: Callable[[bytes], None] | None = None  # takes packets as they come
        self.received_bytes = 0
        self.greeted = self.finished = False  # it said hello; all of its tar was sent
        self.events = events
        self.said: deque[str] = deque(maxlen=_SAID_LINES)  # on standard error
        self.printed: deque[str] = deque(maxlen=_SAID_LINES)  # in front of hello, by the login shell
        self._answer: list[str] = []
        self._arrived = False
        self._token = f"nfslat-{secrets.token_hex(8)}"
        self._failed_file: OSError | None = None
        command = _command_of(ssh, host, batch=batch)
        if shutil.which(command[0]) is None:
            raise UsageError(f"--ssh {ssh!r} cannot be started: there is no program {command[0]}")
        try:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", _DEAF, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        except OSError as problem:
            raise UsageError(f"--ssh {ssh!r} cannot be started: {problem.strerror}") from problem
        self._readers = [
            threading.Thread(target=read, daemon=True, name=f"{side} {read.__name__}")
            for read in (self._read_output, self._read_errors)
        ]
        for reader in reversed(self._readers):  # the first one waits for the second
            reader.start()

    @property
    def complete(self) -> bool:
        """The tar is here, all of it."""
        return self.finished and self._arrived

    @property
    def is_reading(self) -> bool:
        """What it has sent may still come."""
        return any(reader.is_alive() for reader in self._readers)

    @property
    def name(self) -> str:
        """How messages call it."""
        return f"{self.host.removeprefix(LOCAL)} ({self.side.rstrip(string.digits)})"

    def send_agent(self, folder: str, limit_s: int) -> None:
        """What runs there; it says hello."""
        text = "".join(
            f"cat >\"$dir/{name}\" <<'{self._token}' || return\n{_script(name)}\n{self._token}\n" for name in SCRIPTS
        )
        # In braces, so that the shell has read all of it before it runs any: what follows is for agent.sh to read.
        self._send(
            f"{{\ntoken={self._token} base={shlex.quote(folder)} limit={_LONGEST_S + limit_s}\n"
            f"scripts() {{\n{text}}}\n{_script('agent.sh')}}}\n"
        )

    def ask(self, *words: str) -> None:
        """Call a function of agent.sh."""
        self._send(shlex.join(words) + "\n")

    def answer(self) -> str:
        """What was printed since the last time."""
        text, self._answer = "\n".join(self._answer), []
        return text

    def close(self, wait_s: float = 0.0) -> None:
        """Hang up, which makes the other side clean up; and wait for that, but not longer than `wait_s`."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(OSError):  # it hung up before
                self._process.stdin.close()
        try:
            self._process.wait(wait_s)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """Hang up at once. The other side notices, and cleans up by itself."""
        self._process.kill()
        self._process.wait()

    def why_gone(self) -> str:
        """In a line what went wrong, and what to do, as far as ssh and the login shell said it."""
        text = "\n".join([*self.said, *self.printed])
        if reason := _reason_in(text, self.host):
            return f"{self.name} {reason}"
        last = next((line for line in reversed([*self.printed, *self.said]) if line.strip()), "")
        return f"{self.name} gives no shell; try: ssh {self.host} true{f' (it said: {last[:200]})' if last else ''}"

    def refuse_gone(self) -> NoReturn:
        """Raise ``InputError`` for a connection that ended in the middle of its work."""
        if self._failed_file is not None:
            raise InputError(f"{self.tar}: {self._failed_file.strerror}; free some space, or give another --out")
        last = next((line for line in reversed(self.said) if line.strip()), "")
        raise InputError(
            f"{self.name}: the connection was lost{f' ({last[:200]})' if last else ''}; the capture is given up, and "
            "what was started there ends by itself. Try again"
        )

    def _send(self, text: str) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it is a pipe
        with contextlib.suppress(OSError, ValueError):  # it hung up, which its reader finds out
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()

    def _put(self, what: str, text: str = "") -> None:
        self.events.put(Event(self, what, text))

    def _lines(self, stream: IO[bytes]) -> Iterator[str]:
        """As they can be shown on a terminal; a host that has no end of them is hung up on."""
        heard, since = 0.0, time.monotonic()
        with stream:
            while raw := stream.readline(_LINE_BYTES):
                now = time.monotonic()
                heard = max(0.0, heard - (now - since) * _HEARD_PER_S) + len(raw) + _EVENT_BYTES
                since = now
                if heard > _HEARD_BYTES:
                    self.said.append("it has no end of answers")
                    self._process.kill()
                    return
                line = raw.decode(errors="replace").rstrip("\r\n")
                yield line if line.isprintable() else "".join(c if c.isprintable() else " " for c in line)

    def _read_errors(self) -> None:
        assert self._process.stderr is not None  # noqa: S101 - it is a pipe
        for line in self._lines(self._process.stderr):
            if line.startswith(f"{self._token} "):
                what, _, text = line.partition(" ")[2].partition(" ")
                if what != "alive":
                    self._put(what, text)
            else:
                self.said.append(line)
                self._put("said", line)

    def _read_output(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - it is a pipe
        output, is_up = self._process.stdout, False
        for line in self._lines(output):
            # A message of the day may end without a line feed.
            before, found, after = line.partition(f"{self._token} ")
            if not found:
                (self._answer if is_up else self.printed).append(line)
            elif after == "hello":
                self.greeted = is_up = True
                self._put("hello")
            elif after == "tar":
                self._read_tar(output)
            elif after == "stream":
                self._read_stream(output)
            else:
                if before:
                    self._answer.append(before)
                what, _, text = after.partition(" ")
                self._put(what, text)
        self._process.wait()
        self._readers[1].join(1)  # so that what was said last is known
        self._put("gone")

    def _read_stream(self, output: IO[bytes]) -> None:
        if self.stream is None:
            self._refuse_packets()
            return
        try:
            while chunk := output.read1(_COPY_BYTES):  # type: ignore[attr-defined]
                self.stream(chunk)
        except (OSError, InputError) as problem:  # nobody reads on, or it is no capture
            self.said.append(str(problem))
            self._process.kill()

    def _refuse_packets(self) -> None:
        self.said.append("it sends packets that nobody asked for")
        self._process.kill()

    def _read_tar(self, output: IO[bytes]) -> None:
        if self.tar is None:
            self._refuse_packets()
            return
        try:
            with open(self.tar, "xb", opener=_private) as out:
                while chunk := output.read1(_COPY_BYTES):  # type: ignore[attr-defined]
                    # A host may send without end.
                    if shutil.disk_usage(self.tar.parent).free - len(chunk) < RESERVE_BYTES:
                        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                    out.write(chunk)
                    self.received_bytes += len(chunk)
            self._arrived = True
        except OSError as problem:
            self._failed_file = problem
            self._process.kill()


def _private(path: str, flags: int) -> int:
    """A file of packets is read by nobody else."""
    return os.open(path, flags, 0o600)


def wait_for(events: queue.SimpleQueue[Event], deadline: float) -> Event | None:
    """The next event; None when the time (of ``time.monotonic``) is over."""
    try:
        return events.get(timeout=max(0.0, deadline - time.monotonic()))
    except queue.Empty:
        return None


def connect_s(*, batch: bool) -> float:
    """How long to wait for hello: whoever types a password may take his time."""
    return _CONNECT_S if batch else 180.0


def _script(name: str) -> str:
    """Without comments: together they fit into a pipe, so that a host that does not read them holds up nobody."""
    text = resources.files("nfslat.field").joinpath(name).read_text(encoding="utf-8")
    return "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#"))


def _reason_in(text: str, host: str) -> str:
    """What is wrong, and what to do, where it is known; else nothing."""
    return next((reason.format(host=host) for key, reason in _REASONS if key in text), "")


def _command_of(ssh: str, host: str, *, batch: bool) -> Sequence[str]:
    """`batch`: it asks for no password. Raises ``UsageError``."""
    if host.startswith(LOCAL):
        return ["sh", "-c", _REMOTE]
    try:
        words = shlex.split(ssh)
    except ValueError as problem:
        raise UsageError(f"--ssh {ssh!r}: {problem}") from problem
    if not words:
        raise UsageError("--ssh: give a command, for example 'ssh -p 2222'")
    if (
        not host
        or host.startswith("-")
        or any(character.isspace() or not character.isprintable() for character in host)
    ):
        raise UsageError(f"{host!r} is no host; give a name, an address, or user@host")
    options = {**_OPTIONS, **({"BatchMode": "yes"} if batch else {})}
    return [*words, *(word for pair in options.items() for word in ("-o", "=".join(pair))), "--", host, _REMOTE]
