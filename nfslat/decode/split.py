"""A capture too large for one process -> slices of it by IP addresses, which several tasks write, and several decode.

Each task splits some files of the capture into the same number of slices (`split`); then each place, with the slices
that all tasks put there, is decoded by itself (`decode_slice`). `gather` makes of it what `decode_apart` makes of the
whole capture in one pass. Two things may differ: nothing may be made of the fragments of a tunnel whose first one does
not come first, or is in another task's files; and the bounds of a decoder hold for each slice.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nfslat import _native
from nfslat.decode.apart import Apart, apart
from nfslat.decode.capture import File, Source, refuse_empty
from nfslat.decode.merge import merge
from nfslat.decode.native import read
from nfslat.decode.tools import Tools
from nfslat.errors import InputError
from nfslat.model.protocol import RANK_ACTION, op_ranks
from nfslat.model.tables import I64


@dataclass(frozen=True)
class Split:
    """What one task made of its files, and what it saw of the packets that no slice tells alone."""

    source: Source  # its files, in their order
    slices: tuple[Path, ...]
    second: I64  # seconds with packets, from `split`'s `since_ns` on
    count: I64  # packets in each
    ends_ns: tuple[int, int] | None  # times of the first and of the last packet, as they are in the files
    backward_times: int
    largest_backward_ns: int
    interface_drops: int
    untimed_packets: int
    misdated_packets: int


def split(
    source: Source,
    slices: Sequence[Path],
    tools: Callable[[], Tools],
    progress: Callable[[int], None],
    *,
    since_ns: int,
) -> Split:
    """Write the packets of `source`, some neighbouring files of a capture, into `slices`.

    `since_ns` is the time of the capture's first packet (`File.first_ns` of its first file). Raises ``InputError``
    where nothing can be read, or a slice cannot be written.
    """

    def work(paths: list[str], job: _native.Job) -> _native.Slices:
        try:
            return _native.split(paths, list(slices), since_ns, job)
        except OSError as problem:
            if problem.filename is not None:  # one of those that are read
                raise
            folder = os.fspath(slices[0].parent)
            raise InputError(
                f"its slices cannot be written to {folder}: {problem.strerror}", about=source.name
            ) from problem

    source, found = read(source, tools, progress, work, may_be_empty=True)
    return Split(
        source=source,
        slices=tuple(slices),
        second=found.seconds,
        count=found.counts,
        ends_ns=found.ends_ns,
        backward_times=found.backward_times,
        largest_backward_ns=found.largest_backward_ns,
        interface_drops=sum(file.dropped for file in found.files),
        untimed_packets=sum(file.untimed for file in found.files),
        misdated_packets=sum(file.misdated for file in found.files),
    )


def decode_slice(
    splits: Sequence[Split], place: int, progress: Callable[[int], None], *, without: Collection[str] | None = None
) -> Apart:
    """The slice in one place of all `splits`, which are in the order of their files; `facts` are those of its packets.

    Frame numbers are those of the whole capture. `without`: see `decode_apart`.
    """
    but = None if without is None else sorted(without)
    source = whole(splits)
    sizes = [part.source.packets for part in splits]
    offsets = [sum(sizes[:number]) for number in range(len(sizes))]
    ranks = op_ranks(callback=False), op_ranks(callback=True)
    is_cut = source.snaplen is not None

    def work(paths: list[str], job: _native.Job) -> _native.Parts:
        return _native.decode_slices(paths, offsets, is_cut, *ranks, RANK_ACTION, job, but)

    paths = [part.slices[place] for part in splits]
    files = tuple(File(os.fspath(path), path, "pcapng", None, 0, 0, 0, cut_short=False) for path in paths)
    own, found = read(Source(source.name, files), _no_tools, progress, work, may_be_empty=True)
    return dataclasses.replace(apart(own, found, cut_short=_is_cut_short(source)), source=source)


def gather(splits: Sequence[Split], slices: Sequence[Apart]) -> Apart:
    """All slices of a capture as one."""
    source = whole(splits)
    if not source.files:
        refuse_empty(source.name)
    ends_ns = [part.ends_ns for part in splits if part.ends_ns is not None]
    steps_ns = [before[1] - after[0] for before, after in itertools.pairwise(ends_ns)]
    back_ns = [step for step in steps_ns if step > 0]
    facts = dataclasses.replace(
        merge([part.facts for part in slices]),
        busiest_second_packets=_busiest(splits),
        backward_times=sum(part.backward_times for part in splits) + len(back_ns),
        largest_backward_ns=max([*(part.largest_backward_ns for part in splits), *back_ns]),
        first_ns=min(file.first_ns for file in source.files),
        last_ns=max(file.last_ns for file in source.files),
        cut_short=_is_cut_short(source),
        interface_drops=sum(part.interface_drops for part in splits),
        untimed_packets=sum(part.untimed_packets for part in splits),
        misdated_packets=sum(part.misdated_packets for part in splits),
    )
    hosts = [host for part in slices for host in part.hosts]
    hosts.sort(key=lambda host: int(host[1].details.turns.turn[0]))
    return Apart(source, facts, tuple(hosts))


def whole(splits: Sequence[Split]) -> Source:
    """The source of which each split has some files."""
    return dataclasses.replace(splits[0].source, files=tuple(file for part in splits for file in part.source.files))


def _busiest(splits: Sequence[Split]) -> int:
    second = np.concatenate([part.second for part in splits])
    _, at = np.unique(second, return_inverse=True)
    return int(np.bincount(at, weights=np.concatenate([part.count for part in splits])).max(initial=0))


def _is_cut_short(source: Source) -> bool:
    return any(file.cut_short for file in source.files)


def _no_tools() -> Tools:
    raise InputError("slices are read without Wireshark")
