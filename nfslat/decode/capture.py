"""Capture argument -> the files that it names, in the form in which the engines pass them on."""

from __future__ import annotations

import contextlib
import glob
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np

from nfslat.decode.room import keep
from nfslat.errors import InputError, NoPacketsError, UsageError
from nfslat.model.record import Record
from nfslat.model.tables import I32, I64, U32

_COPY_BYTES = 1 << 20

_NOT_CAPTURES = (".json", ".csv", ".txt", ".md", ".log")
UNBOUNDED = (1 << 63) - 1  # operations of a capture
MOST_JOINED_OPS = 1 << 21  # of a capture that is judged as a whole: some 300 bytes each, of both sides


class Runs(NamedTuple):
    """Neighbours in a file that were read one after the other: the first of each run is packet `begin` of those that
    were read, and `number` of the file. Both count from 1."""

    begin: U32
    number: U32


class File(Record):
    """One capture file: `name` as the user knows it, `path` where its bytes can be read by Wireshark."""

    name: str
    path: Path
    format: str
    snaplen: int | None  # bytes; None where packets are whole
    packets: int
    first_ns: int
    last_ns: int
    cut_short: bool  # the file ends in the middle of a packet
    is_foreign: bool = False  # only Wireshark reads its format
    is_export: bool = False  # `path` has the IP packets of it as Wireshark found them: frames are numbered there
    strange_link: int | None = None  # link type of its first packet, where the native decoder does not know it
    damage: str = ""  # why reading stopped before the end, where that is known
    late: int = 0  # packets that were put in front of later ones, from at most `latest_ns` behind them
    latest_ns: int = 0
    # None: packets were read in the file's order. What is stored has the numbers of the order in which they were read.
    runs: Runs | None = None
    OF_THIS_RUN = ("runs",)


class Bundle(Record):
    """A tar of scripts/capture.sh, and what it says of the host besides the packets (`nfslat.decode.bundle`)."""

    name: str  # as the user knows it
    path: Path
    facts: Mapping[str, str]  # lines "key: value"
    snapshots: Mapping[str, str]  # texts by their names, that before the capture first

    @property
    def side(self) -> str | None:
        """The host that it was taken on, "client" or "server"; None where whoever took it did not say."""
        side = self.facts.get("side")
        return side if side in ("client", "server") else None

    @property
    def dropped(self) -> int:
        """Packets that the capturing kernel says it had no room for; 0 where it does not say."""
        text = self.facts.get("packets_dropped_kernel", "")
        return int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else 0


class Source(Record, dict=True):
    """One side's capture: its files in time order, read as one."""

    name: str
    files: tuple[File, ...]
    stored: bool = False  # decoded before (`nfslat.decode.stored`): the ops are there, the packets are not
    bundle: Bundle | None = None  # what the files were unpacked from
    made_from: str = ""  # in words, where the files were made of those that were given (`nfslat.decode.twice`)

    @property
    def dropped(self) -> int:
        """Packets that the capturing host says it lost, where that is not written in the files."""
        return 0 if self.bundle is None else self.bundle.dropped

    @property
    def packets(self) -> int:
        """Packets in all files; for the native engine known only when they are read."""
        return sum(file.packets for file in self.files)

    @property
    def snaplen(self) -> int | None:
        """Smallest snaplen in force, bytes; None where every packet is whole."""
        return min((file.snaplen for file in self.files if file.snaplen is not None), default=None)

    @cached_property
    def _moved(self) -> tuple[I64, I64] | None:
        """Packets from which on, in the order in which they were read, so much more is the number that counts through
        the files; None where that is the order of the files."""
        begins, more, before = [], [], 0
        for file in self.files:
            if file.runs is not None:
                begins.append(file.runs.begin.astype(np.int64))
                more.append(file.runs.number.astype(np.int64) + before - begins[-1])
            before += file.packets
        if not begins:
            return None
        all_begins = np.concatenate(begins)
        order = np.argsort(all_begins)
        return all_begins[order], np.concatenate(more)[order]

    def numbered(self, frames: I32) -> I32:
        """Numbers of packets that count through the files, for those in the order in which they were read."""
        if self._moved is None:
            return frames
        begins, more = self._moved
        at = np.maximum(np.searchsorted(begins, frames, side="right") - 1, 0)
        return np.where(frames > 0, frames + more[at], frames).astype(np.int32)

    def locate(self, frame: int) -> tuple[File, int]:
        """File and frame number in it, for the number of a packet in the order in which they were read."""
        if self._moved is not None:
            frame = int(self.numbered(np.array([frame], dtype=np.int32))[0])
        for file in self.files:
            if frame <= file.packets:
                return file, frame
            frame -= file.packets
        return self.files[-1], frame + self.files[-1].packets


def captures_of(names: Sequence[str]) -> list[str]:
    """The captures of a run: those that are named, or those in the one folder that is, the server's and the client's or
    one of them. Raises ``InputError`` where it holds none, or more than one of a side."""
    if len(names) != 1 or not os.path.isdir(names[0]):
        return list(names)
    folder = Path(names[0])
    found = []
    for side in ("server", "client"):
        own = sorted(
            path.name
            for path in folder.iterdir()
            if path.name.split(".")[0] == side and path.suffix not in _NOT_CAPTURES and path.is_file()
        )
        if len(own) > 1:
            raise InputError(f"{folder}: holds {len(own)} captures named {side}.* ({', '.join(own)}); name the two")
        found += [str(folder / one) for one in own]
    if not found:
        raise InputError(f"{folder}: holds no capture named server.* or client.*; name the two")
    return found


def is_parquet(path: Path) -> bool:
    """Does the file begin like Parquet (github.com/apache/parquet-format), as no capture does?"""
    with path.open("rb") as stream:
        return stream.read(4) == b"PAR1"


def refuse_stored(source: Source) -> None:
    """Raise ``InputError`` where the packets of `source` are wanted, and it has none."""
    if source.stored:
        raise InputError(
            "holds ops (--ops-parquet), and this needs the packets; give the capture itself", about=source.name
        )


def refuse_empty(name: str) -> NoReturn:
    """Raise ``NoPacketsError``."""
    raise NoPacketsError("the capture holds no packets; check the interface and filter it was taken with", about=name)


def expand(argument: str, *, pipes: bool = False) -> list[Path]:
    """Files that an argument names; an existing file wins over its reading as a glob or a list.

    `pipes`: one pipe by itself will do, too. Raises ``InputError`` for what is missing, unreadable or empty.
    """
    if not argument:
        raise UsageError("an empty capture name was given")
    if pipes and Path(argument).is_fifo():
        return [Path(argument)]
    if Path(argument).exists():
        return [_readable(Path(argument))]
    names: list[str] = []
    for part in argument.split(","):
        if glob.has_magic(part) and not Path(part).exists():
            found = sorted(glob.glob(part))
            if not found:
                raise InputError("no file matches; check the pattern", about=part)
            names += found
        elif part:
            names.append(part)
    if not names:
        raise UsageError("an empty capture name was given")
    unique = {os.path.realpath(name): name for name in names}
    paths = [Path(name) for name in unique.values()]
    # A running tcpdump -C or -G has just begun its newest file; that is no reason to refuse the others.
    begun = [path for path in paths if path.is_file() and not path.stat().st_size]
    return [_readable(path) for path in paths if path not in begun or begun == paths]


def _readable(path: Path) -> Path:
    if not path.exists():
        raise InputError("no such file", about=path)
    if path.is_dir():
        raise InputError(f"is a directory; name the capture files in it, for example '{path}/*.pcap'", about=path)
    if path.is_fifo():
        raise InputError(
            "a named pipe, which only the native engine reads, and not as part of a set; pipe it in as '-'", about=path
        )
    if not path.is_file():
        raise InputError(
            "neither a file nor a pipe; write the capture to a file first, or pipe it in as '-'", about=path
        )
    try:
        with path.open("rb") as stream:
            if not stream.read(1):
                raise InputError("the file is empty; was the capture stopped before it was written out?", about=path)
    except OSError as problem:
        raise InputError(f"cannot be read ({problem.strerror}); check its permissions", about=path) from problem
    return path


def refuse_terminal() -> None:
    """Raise ``UsageError`` where standard input is closed or a terminal."""
    if sys.stdin is None or sys.stdin.isatty():
        raise UsageError("'-' reads a capture from standard input, which is closed or a terminal; pipe a capture in")


def spool(source: Path | None, scratch: Path) -> Path:
    """Keep what comes out of a pipe (None: standard input) in a file; ``InputError`` where nothing comes."""
    path = scratch / "stdin"
    feed = contextlib.nullcontext(sys.stdin.buffer) if source is None else source.open("rb")
    with feed as stream:
        keep(iter(lambda: stream.read(_COPY_BYTES), b""), path, str(source or "standard input"))
    if not path.stat().st_size:
        raise InputError("the file is empty; did the command that feeds it fail?", about=source or "standard input")
    if is_parquet(path):
        raise InputError("Parquet is not read from a pipe; name the file", about=source or "standard input")
    return path
