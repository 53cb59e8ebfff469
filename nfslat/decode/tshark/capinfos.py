"""Capture argument -> one source for tshark: rotated files in time order, decompressed, and what capinfos says."""

from __future__ import annotations

import bz2
import csv
import io
import lzma
import os
import re
from collections.abc import Callable
from pathlib import Path

from msgspec import structs

from nfslat.decode.capture import File, Source, expand, refuse_empty, refuse_terminal, spool
from nfslat.decode.room import keep
from nfslat.decode.texts import refuse_text
from nfslat.decode.tools import Tools
from nfslat.decode.tshark.reader import nanoseconds
from nfslat.errors import InputError

# Formats that Wireshark does not open by itself, by their first bytes.
_OPENERS: dict[bytes, Callable[[Path], bz2.BZ2File | lzma.LZMAFile]] = {
    b"BZh": bz2.BZ2File,
    b"\xfd7zXZ\x00": lzma.LZMAFile,
}
_COPY_BYTES = 1 << 20


def open_source(argument: str, tools: Tools, scratch: Path) -> Source:
    """Resolve one command-line argument: a file, a glob, a comma list, or ``-`` for standard input.

    `scratch` is a directory for decompressed copies (bzip2, xz) and for standard input, which Wireshark cannot seek.
    Raises ``InputError`` for what is missing, unreadable, empty or no capture, with the reason in one line.
    """
    if argument == "-":
        refuse_terminal()
    paths = [spool(None, scratch)] if argument == "-" else expand(argument)
    names = ["standard input"] if argument == "-" else [str(path) for path in paths]
    files = []
    for name, path in zip(names, paths, strict=True):
        plain, is_whole = decompressed(name, path, scratch)
        file = inspect(name, plain, tools, scratch)
        if file.first_ns <= 0:  # Wireshark takes some texts for media files
            refuse_text(name, plain)
        files.append(file if is_whole else structs.replace(file, cut_short=True))
    kept = [file for file in files if file.packets]
    if not kept:
        refuse_empty(names[0])
    kept.sort(key=lambda file: (file.first_ns, file.name))
    return Source("standard input" if argument == "-" else argument, tuple(kept))


def decompressed(name: str, path: Path, scratch: Path) -> tuple[Path, bool]:
    """A file that Wireshark opens, decompressed into `scratch` where need be, and whether it is all there.

    Raises ``InputError`` where it cannot be decompressed.
    """
    with path.open("rb") as stream:
        head = stream.read(6)
    opener = next((opener for magic, opener in _OPENERS.items() if head.startswith(magic)), None)
    if opener is None:
        return path, True
    target = new_file(scratch, path)
    try:
        with opener(path) as packed:
            # read1 gives what there is, so that nothing in front of a missing end is lost.
            keep(iter(lambda: packed.read1(_COPY_BYTES), b""), target, name, path.stat().st_size)
    except EOFError:
        return target, False  # the end is missing: what came out is still worth reading
    except (OSError, lzma.LZMAError) as problem:
        raise InputError(f"cannot be decompressed ({problem}); is the file complete?", about=name) from problem
    return target, True


def inspect(name: str, path: Path, tools: Tools, scratch: Path) -> File:
    """Ask capinfos for format, snaplen, packets and time range."""
    asked = ("-T", "-Q", "-t", "-E", "-c", "-l", "-a", "-e", "-S", "-M")
    done = tools.run([tools.capinfos, *asked, os.fspath(path.absolute())], path, about=name)
    said = done.stderr.decode(errors="replace")
    rows = list(csv.DictReader(io.StringIO(done.stdout.decode(errors="replace")), delimiter="\t"))
    if not rows:
        refuse_text(name, path)
        readable = re.search(r"after reading ([1-9]\d*) packets", said)
        if readable is None:
            raise InputError(why_not(said), about=name)
        # Damaged in the middle: what stands in front of the damage is good.
        whole_part = new_file(scratch, path)
        command = [tools.tshark, "-r", os.fspath(path.absolute()), "-c", readable[1], "-w", os.fspath(whole_part)]
        tools.run(command, path, scratch, about=name)
        return structs.replace(inspect(name, whole_part, tools, scratch), cut_short=True)
    row = rows[0]
    inferred = row.get("Packet size limit max (inferred)", "n/a")
    problem = re.search(r"cut short|truncated|damaged|corrupt|error occurred", said)
    packets = int(row["Number of packets"])
    return File(
        name=name,
        path=path,
        format=row["File type"],
        snaplen=int(inferred) if inferred.isdigit() else None,
        packets=packets,
        first_ns=_moment(row["Start time"]),
        last_ns=_moment(row["End time"]),
        cut_short=problem is not None,
    )


def new_file(scratch: Path, like: Path) -> Path:
    """A name in `scratch` that nothing has."""
    return scratch / f"{len(list(scratch.iterdir()))}-{like.stem}"


def why_not(said: str) -> str:
    """One line of advice out of what capinfos printed."""
    if "isn't a capture file" in said or "doesn't understand" in said:
        return "not a packet capture that Wireshark knows; give the file that tcpdump -w wrote"
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("Running as")]
    # capinfos puts the reason in brackets on a line of its own, behind a line that only names the file.
    reason = next((line for line in lines if line.startswith("(")), lines[0] if lines else "")
    reason = re.sub(r'The file "[^"]*"', "the file", reason.removeprefix("capinfos: ")).strip("().")
    return f"cannot be read as a capture{f': {reason}' if reason else ''}; is the file complete?"


def _moment(seconds: str) -> int:
    """capinfos' time -> int ns since 1970; 0 where it prints none (no packets, or packets without times)."""
    try:
        return nanoseconds(seconds)
    except ValueError:
        return 0
