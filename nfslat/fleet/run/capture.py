"""The files of one capture point -> what was decoded of them, as one capture or by pairs of hosts.

A file that cannot be read is left out, and named.
"""

from __future__ import annotations

import contextlib
import dataclasses
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from nfslat.decode import native
from nfslat.decode.apart import Apart, decode_apart
from nfslat.decode.blocks import decode
from nfslat.decode.capture import Bundle, File, Source, refuse_empty
from nfslat.decode.tools import Tools, find_tools
from nfslat.decode.twice import refuse_merged
from nfslat.errors import InputError, NoPacketsError
from nfslat.fleet.model import Problem
from nfslat.fleet.run.fetch import readable, unpacked
from nfslat.fleet.run.inputs import Input
from nfslat.model.decoded import Decoded
from nfslat.model.segments import Wanted

T = TypeVar("T")


@dataclass(frozen=True)
class CaptureFacts:
    """What a report says of a capture as a whole."""

    files: int
    bytes: int
    packets: int
    ops: int
    first_ns: int
    last_ns: int
    problems: tuple[Problem, ...] = ()  # files that were left out, or are damaged


def decode_whole(
    title: str, inputs: Sequence[Input], segments: Wanted = Wanted.NONE
) -> tuple[Source, Decoded, CaptureFacts]:
    """Decode the files of one point as one capture. Raises ``InputError`` where nothing is left."""
    (source, decoded), good, problems = _decoded(
        title, inputs, lambda source, tools: decode(source, tools, lambda _: None, segments=segments)
    )
    refuse_merged(source, [decoded])
    return source, decoded, facts_of(source, decoded, len(decoded.ops), good, problems)


def decode_by_hosts(title: str, inputs: Sequence[Input], without: Collection[str]) -> tuple[Apart, CaptureFacts]:
    """The same by pairs of hosts. `without`: of pairs in which none of these addresses is the TCP segments are kept."""
    apart, good, problems = _decoded(
        title, inputs, lambda source, tools: decode_apart(source, tools, lambda _: None, without=without)
    )
    refuse_merged(apart.source, [part for _, part in apart.hosts])
    ops = sum(len(part.ops) for _, part in apart.hosts)
    return apart, facts_of(apart.source, apart.facts, ops, good, problems)


def facts_of(
    source: Source, decoded: Decoded, ops: int, inputs: Sequence[Input], problems: Sequence[Problem] = ()
) -> CaptureFacts:
    """`decoded` says what is known of the packets, `problems` are those of files that were left out of `inputs`."""
    return CaptureFacts(
        files=len(source.files),
        bytes=sum(file.size_bytes for file in inputs),
        packets=sum(decoded.packet_kinds.values()),
        ops=ops,
        first_ns=decoded.first_ns,
        last_ns=decoded.last_ns,
        problems=(*problems, *_damaged(source, inputs)),
    )


def _decoded(
    title: str, inputs: Sequence[Input], work: Callable[[Source, Callable[[], Tools]], T]
) -> tuple[T, list[Input], list[Problem]]:
    """What `work` makes of the files that can be read, those, and what is wrong with the others."""
    good = list(inputs)
    problems: list[Problem] = []
    with tempfile.TemporaryDirectory(prefix="nfslat-") as folder:
        while good:
            try:
                with _opened(title, good, Path(folder)) as (source, tools):
                    return work(source, tools), good, problems
            except _BadFileError as bad:
                good.remove(bad.file)
                problems.append(Problem(bad.file.name, bad.why, "the time in it is missing on this side"))
    raise InputError(f"none of its files can be read: {problems[0].what}: {problems[0].why}", about=title)


class _BadFileError(Exception):
    """One of the files is none that can be read."""

    def __init__(self, file: Input, why: str) -> None:
        super().__init__(why)
        self.file, self.why = file, why


def _damaged(source: Source, inputs: Sequence[Input]) -> list[Problem]:
    cost = "what comes behind that in this file is missing on this side"
    return [
        Problem(
            file.name,
            f"is damaged, or was not copied to its end: {file.damage or 'it ends in the middle of a packet'}",
            cost,
        )
        for one in inputs
        for file in source.files
        if file.cut_short and (file.name == one.name or file.name.startswith(f"{one.name}: "))
    ]


@contextlib.contextmanager
def _opened(title: str, inputs: Sequence[Input], scratch: Path) -> Iterator[tuple[Source, Callable[[], Tools]]]:
    """The files as one source, to be read once within the block; and what finds Wireshark. Raises ``_BadFileError``."""
    tools = cache(lambda: find_tools(scratch))
    try:
        with contextlib.ExitStack() as stack:
            yield _open(title, inputs, stack, tools, scratch), tools
    except InputError as problem:
        # One that is not a file of this host is looked at for the first time when it is decoded.
        bad = next((one for one in inputs if one.name == problem.about), None)
        if bad is None:
            raise
        raise _BadFileError(bad, problem.why) from problem


def _open(
    title: str, inputs: Sequence[Input], stack: contextlib.ExitStack, tools: Callable[[], Tools], scratch: Path
) -> Source:
    """The files as one source, tars of scripts/capture.sh unpacked. Raises ``_BadFileError``."""
    plain = [one for one in inputs if not one.is_tar]
    paths = iter(stack.enter_context(readable(plain, scratch)))
    files: list[File] = []
    taken: Bundle | None = None
    for one in inputs:
        try:
            parts, taken = unpacked(one, scratch) if one.is_tar else ([next(paths)], taken)
            for part in parts:
                name = one.name if len(parts) == 1 else f"{one.name}: {part.name}"
                source = native.open_source(str(part), tools, scratch, rereads=False)
                files += [dataclasses.replace(file, name=name) for file in source.files]
        except NoPacketsError:
            pass  # a rotated file that was just begun is no loss
        except InputError as problem:
            raise _BadFileError(one, problem.beside(one.url)) from problem
    if not files:
        refuse_empty(title)
    return Source(title, tuple(sorted(files, key=lambda file: file.first_ns)), bundle=taken)
