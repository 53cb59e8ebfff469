"""A tar that scripts/capture.sh made, or any tar or zip of captures -> these as files, and what it says of a host.

It may come from a host that nobody trusts. So it is read as a stream of members, of which only plain files are looked
at that have known names, or begin like a capture; where they go is ours to say, and nothing else of the archive has
any effect.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import re
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, NoReturn, cast

from msgspec import structs

from nfslat.decode.capture import Bundle, Source
from nfslat.decode.room import refuse_no_room
from nfslat.errors import InputError

_BLOCK = tarfile.BLOCKSIZE
_COPY_BYTES = 1 << 20
_TEXT_BYTES = 64 << 20  # as much as is read of a snapshot elsewhere; one has some 100 KiB
_MOST_MEMBERS = 10_000  # a ring has some ten files
_CAPTURE = re.compile(r"capture\.(?:pcap|snoop)[0-9]{0,6}")
_SNAPSHOTS = ("before.txt", "after.txt")
_FACTS = "facts.txt"
_SIZE = re.compile(rb"(?:^|\n)[0-9]{1,3} size=([0-9]{1,18})\n")
_OPENERS: dict[bytes, Callable[[Path], object]] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}
_WITHOUT_BLOCKS = {
    tarfile.LNKTYPE,
    tarfile.SYMTYPE,
    tarfile.CHRTYPE,
    tarfile.BLKTYPE,
    tarfile.DIRTYPE,
    tarfile.FIFOTYPE,
}
_MAGIC_AT, _MAGIC = 257, b"ustar"  # POSIX.1-1988 and GNU alike
_ZIP = b"PK\x03\x04"
_DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError)
# What a capture begins with: pcap of either byte order, in us, in ns, and modified; pcapng; snoop. And what these may
# be packed by.
_BEGINS = (
    *(b"\xa1\xb2\xc3\xd4", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1"),
    *(b"\xa1\xb2\xcd\x34", b"\x34\xcd\xb2\xa1", b"\n\r\r\n", b"snoop\0\0\0"),
)
_PACKED = (b"\x1f\x8b\x08", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"\x04\x22\x4d\x18")
_PACKED_CAPTURE = re.compile(r"\.(?:p?cap|pcapng|snoop|dmp)[0-9]*\.[a-z0-9]+$", re.IGNORECASE)
_HEAD_BYTES = 8
_SAFE = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_NAME = 100
# What tcpdump -C and -W, dumpcap -b and tcpdump -G number the files of one capture by.
_NUMBER = re.compile(r"(?<=cap)[0-9]+(?=$|\.)|(?<=pcapng)[0-9]+(?=$|\.)|_[0-9]{5}_[0-9]{8,14}|[0-9]{6,}")
_NAMED = 3
_ANY_UNPACKED, _MOST_RATIO = 1 << 30, 2000  # as of what is packed by itself (native/src/source.rs)


def is_bundle(path: Path) -> bool:
    """Does the file, unpacked where it is packed, begin with the header of a tar or zip, as no capture does?"""
    try:
        if is_zip(path):
            return True
        with _opened(path) as stream:
            header = stream.read(_BLOCK)
        tarfile.TarInfo.frombuf(header, "utf-8", "surrogateescape")
    except (tarfile.HeaderError, *_DAMAGED):
        return False
    # The checksum alone is no sign: it is a small number, which one capture in some thousands has at its place, too.
    return header[_MAGIC_AT:].startswith(_MAGIC)


def is_zip(path: Path) -> bool:
    """Does the file begin like a zip that is not empty?"""
    with path.open("rb") as stream:
        return stream.read(len(_ZIP)) == _ZIP


def unpack(name: str, path: Path, scratch: Path) -> tuple[list[Path], Bundle]:
    """Write the captures of the tar or zip at `path` into a new folder in `scratch`; `name` is what the user calls it.

    Raises ``InputError`` where it is cut short or damaged, holds no capture or several that are no set, or does not fit
    on the disk.
    """
    folder = Path(tempfile.mkdtemp(prefix="tar-", dir=scratch))
    if is_zip(path):
        return _refuse_several(name, _unzip(name, path, folder)), Bundle(name, path, {}, {})
    captures: list[Path] = []
    others: list[Path] = []
    texts: dict[str, str] = {}
    member = ""
    try:
        with _opened(path) as stream:
            for member, size in _members(name, stream):
                if _CAPTURE.fullmatch(member):
                    if folder / member in captures:
                        _refuse(name, f"holds {member} twice")
                    captures.append(folder / member)
                    _copy(name, stream, captures[-1], size)
                elif member in (*_SNAPSHOTS, _FACTS) and size <= _TEXT_BYTES:
                    texts[member] = _exactly(stream, size).decode(errors="replace")
                else:
                    head = _exactly(stream, min(size, _HEAD_BYTES))
                    if member and not captures and _is_capture(member, head):
                        others.append(_place(folder, member, others))
                        _copy(name, stream, others[-1], size, head)
                    else:
                        _skip(stream, size - len(head))
                _skip(stream, -size % _BLOCK)
    except EOFError:
        _refuse(name, f"ends in the middle{f' of {member}' if member else ''}")
    except zlib.error as problem:
        _refuse(name, f"is damaged ({problem})")
    except (OSError, lzma.LZMAError) as problem:
        if isinstance(problem, OSError) and problem.filename is not None:
            raise
        _refuse(name, f"is damaged ({problem})")
    if captures:
        for other in others:
            other.unlink()
    elif others:
        return _refuse_several(name, others), Bundle(name, path, {}, {})
    if not captures:
        raise InputError(
            "a tar without a capture (capture.pcap); give one that capture.sh made, or the capture itself", about=name
        )
    filled = [capture for capture in sorted(captures) if capture.stat().st_size]
    if not filled:
        raise InputError("its captures are empty; tcpdump.txt in it says why", about=name)
    facts = dict(_facts(texts.get(_FACTS, "")))
    snapshots = {f"{name}: {one}": texts[one] for one in _SNAPSHOTS if texts.get(one, "").strip()}
    return filled, Bundle(name, path, facts, snapshots)


def named(source: Source, name: str, bundle: Bundle) -> Source:
    """`source`, opened from what `unpack` wrote, under the names that its user knows."""
    several = len(source.files) > 1
    files = tuple(structs.replace(file, name=f"{name}: {file.path.name}" if several else name) for file in source.files)
    return structs.replace(source, name=name, files=files, bundle=bundle)


def again(source: Source, scratch: Path) -> Source:
    """`source` with files in `scratch`, where those that it was opened from are gone; any other source as it is."""
    if source.bundle is None or all(file.path.is_file() for file in source.files):
        return source
    paths, _ = unpack(source.name, source.bundle.path, scratch)
    at = {path.name: path for path in paths}
    files = tuple(structs.replace(file, path=at.get(file.path.name, file.path)) for file in source.files)
    return structs.replace(source, files=files)


def _members(name: str, stream: BinaryIO) -> Iterator[tuple[str, int]]:
    """Name and size of each plain file; the caller reads its blocks. "" stands for a member that is something else.

    The headers are tarfile's to read, the members not: it takes extended headers and maps of sparse files into memory,
    whatever their size. Of these only a size is of use here, which has no place in the header from 8 GiB on.
    """
    extended: int | None = None
    for _ in range(_MOST_MEMBERS):
        block = _exactly(stream, _BLOCK)
        if not any(block):
            return  # the end of the archive
        try:
            header = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except tarfile.HeaderError as problem:
            _refuse(name, f"is damaged ({problem})")
        if header.size < 0:
            _refuse(name, "is damaged (a member of less than nothing)")
        if header.type == tarfile.XHDTYPE and header.size <= _COPY_BYTES:
            found = _SIZE.search(_exactly(stream, header.size))
            extended = int(found[1]) if found else None
            _skip(stream, -header.size % _BLOCK)
            continue
        is_plain = header.type in (tarfile.REGTYPE, tarfile.AREGTYPE)
        # A link or a folder has no blocks, whatever its header says of a size.
        size = 0 if header.type in _WITHOUT_BLOCKS else header.size
        if is_plain and extended is not None:
            size, extended = extended, None
        yield (header.name.removeprefix("./") if is_plain else ""), size
    _refuse(name, f"holds more than {_MOST_MEMBERS:,} members")


def _unzip(name: str, path: Path, folder: Path) -> list[Path]:
    """The captures of a zip, of which no more is read than what is packed so small may hold."""
    captures: list[Path] = []
    left = max(_ANY_UNPACKED, _MOST_RATIO * path.stat().st_size)
    try:
        with zipfile.ZipFile(path) as archive:
            members = [member for member in archive.infolist() if not member.is_dir()]
            if len(members) > _MOST_MEMBERS:
                _refuse(name, f"holds more than {_MOST_MEMBERS:,} members")
            if any(member.flag_bits & 1 for member in members):
                raise InputError("the archive is encrypted; unzip it, and give the capture itself", about=name)
            for member in members:
                with archive.open(member) as stream:
                    head = stream.read(_HEAD_BYTES)
                    if not _is_capture(member.filename, head):
                        continue
                    left -= member.file_size
                    if left < 0:
                        _refuse(name, f"comes to over {_MOST_RATIO} times its size")
                    captures.append(_place(folder, member.filename, captures))
                    _copy(name, cast(BinaryIO, stream), captures[-1], member.file_size, head)
    except (zipfile.BadZipFile, NotImplementedError, *_DAMAGED) as problem:
        if isinstance(problem, OSError) and problem.filename is not None:
            raise
        _refuse(name, f"is damaged ({str(problem) or type(problem).__name__})")
    if not captures:
        raise InputError("a zip without a capture; give the file that tcpdump -w wrote", about=name)
    return captures


def _is_capture(member: str, head: bytes) -> bool:
    return head.startswith(_BEGINS) or (head.startswith(_PACKED) and _PACKED_CAPTURE.search(member) is not None)


def _place(folder: Path, member: str, others: list[Path]) -> Path:
    """Where a member goes: its last name, as far as that is harmless, and no other's."""
    last = _SAFE.sub("_", member.replace("\\", "/").rsplit("/", 1)[-1])[-_LONGEST_NAME:].lstrip(".-") or "capture"
    names = {path.name for path in others}
    return folder / (last if last not in names else f"{len(others)}-{last}")


def _refuse_several(name: str, captures: list[Path]) -> list[Path]:
    """Files of one capture, in the order of their names. Raises ``InputError`` where they are several captures."""
    if len({_NUMBER.sub("", path.name) for path in captures}) > 1:
        named = ", ".join(path.name for path in captures[:_NAMED]) + (", ..." if len(captures) > _NAMED else "")
        raise InputError(
            f"the archive holds {len(captures)} captures ({named}): unpack it, and name the one that was taken on the "
            "server and the one that was taken on the client",
            about=name,
        )
    return sorted(captures)


def _copy(name: str, stream: BinaryIO, target: Path, size: int, head: bytes = b"") -> None:
    """`head`: what was read of the `size` bytes already."""
    refuse_no_room(size, target.parent, f"{name}: {target.name} in it")
    with target.open("xb") as out:
        out.write(head)
        for chunk in _chunks(stream, size - len(head)):
            out.write(chunk)


def _skip(stream: BinaryIO, size: int) -> None:
    for _ in _chunks(stream, size):
        pass


def _exactly(stream: BinaryIO, size: int) -> bytes:
    return b"".join(_chunks(stream, size))


def _chunks(stream: BinaryIO, size: int) -> Iterator[bytes]:
    while size:
        chunk = stream.read(min(size, _COPY_BYTES))
        if not chunk:
            raise EOFError
        size -= len(chunk)
        yield chunk


def _facts(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        key, colon, value = line.partition(":")
        if colon:
            yield key.strip(), value.strip()


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    with path.open("rb") as plain:
        head = plain.read(6)
        opener = next((opener for magic, opener in _OPENERS.items() if head.startswith(magic)), None)
        plain.seek(0)
        if opener is None:
            yield plain
            return
    with cast(BinaryIO, opener(path)) as stream:
        yield stream


def _refuse(name: str, why: str) -> NoReturn:
    raise InputError(f"the archive {why}; copy it from the host again, or capture again", about=name)
