"""The files of one capture point -> what was decoded of them, by pairs of hosts.

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

from nfslat.decode import bundle, native
from nfslat.decode.apart import Apart, decode_apart
from nfslat.decode.capture import Bundle, File, Source, refuse_empty
from nfslat.decode.tools import Tools, find_tools
from nfslat.errors import InputError, NoPacketsError
from nfslat.fleet.model import Problem
from nfslat.fleet.run.fetch import readable
from nfslat.fleet.run.inputs import Input


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


def decode_point(
    title: str, inputs: Sequence[Input], captured: Collection[str] | None = None
) -> tuple[Apart, CaptureFacts]:
    """Decode the files of one point. `captured`: addresses of hosts with a capture of their own; of all others the TCP
    segments are kept, too, for what is to be inferred. None: of nobody. Raises ``InputError`` where nothing is left.
    """
    good = list(inputs)
    problems: list[Problem] = []
    with tempfile.TemporaryDirectory(prefix="nfslat-") as folder:
        while good:
            try:
                with _opened(title, good, Path(folder)) as (source, tools):
                    apart = decode_apart(source, tools, lambda _: None, without=captured)
                return apart, facts_of(apart, good, problems)
            except _BadFileError as bad:
                good.remove(bad.file)
                problems.append(Problem(bad.file.name, bad.why, "the time in it is missing on this side"))
    raise InputError(f"none of its files can be read: {problems[0].what}: {problems[0].why}", about=title)


def facts_of(apart: Apart, inputs: Sequence[Input], problems: Sequence[Problem] = ()) -> CaptureFacts:
    """`problems` are those of files that were left out of `inputs`."""
    return CaptureFacts(
        files=len(apart.source.files),
        bytes=sum(one.size_bytes for one in inputs),
        packets=sum(apart.facts.packet_kinds.values()),
        ops=sum(len(decoded.ops) for _, decoded in apart.hosts),
        first_ns=apart.facts.first_ns,
        last_ns=apart.facts.last_ns,
        problems=(*problems, *_damaged(apart.source, inputs)),
    )


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
            if one.is_tar and not one.is_remote:
                parts, taken = bundle.unpack(one.name, Path(one.url), scratch)
            else:
                parts = stack.enter_context(readable([one], scratch)) if one.is_tar else [next(paths)]
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
