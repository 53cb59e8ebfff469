"""The files of one capture point -> one Parquet file for each pair of hosts in it, kept under a name of their contents.

This is what a worker does first. The name is a hash of the bytes of all files and of what decodes them, so that a
later run, or the same one after a break, finds what was done; it may lie on another worker's disk under the same URL.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import TypeVar

import numpy as np
import xxhash

from nfslat.decode import bundle, native, stored
from nfslat.decode.apart import Apart, decode_apart
from nfslat.decode.capture import Bundle, File, Source, refuse_empty
from nfslat.decode.tools import Tools, find_tools
from nfslat.errors import InputError, NfslatError, NoPacketsError
from nfslat.fleet.model import Problem
from nfslat.fleet.run.fetch import content_hash, readable
from nfslat.fleet.run.inputs import Input
from nfslat.fleet.run.kept import read, write
from nfslat.fleet.run.kept_segments import write_segments
from nfslat.fleet.run.memo import Memo
from nfslat.fleet.run.store import Store
from nfslat.model.decoded import Decoded
from nfslat.model.protocol import NFS
from nfslat.select import client_ends, is_reverse

T = TypeVar("T")
_FORM = "nfslat.shards/3"
_STORED = " (stored)"
FACTS = "facts.parquet"  # what is known of a capture as a whole
_NEAR = "near"  # all of a folder in one file, as this run reads it


@dataclass(frozen=True)
class Shard:
    """What two hosts had to say to each other at one capture point."""

    name: str  # in the store
    hosts: tuple[str, ...]  # addresses, one or two
    callers: tuple[str, ...]  # those of them that call NFS; callbacks do not count
    ops: int
    segments: str = ""  # name of their TCP segments, where they are kept: of hosts of which there is one capture


@dataclass(frozen=True)
class Decode:
    """One capture point, decoded."""

    shards: tuple[Shard, ...]
    facts: str  # name of what is known of the capture as a whole
    files: int
    bytes: int
    packets: int
    ops: int
    first_ns: int
    last_ns: int
    cached: bool
    problems: tuple[Problem, ...] = ()
    damaged: tuple[tuple[int, str, str], ...] = ()  # (number of the file, what in it, why it was not read to its end)


def decode_point(store: Store, title: str, inputs: Sequence[Input], captured: Collection[str] | None = None) -> Decode:
    """Decode the files of one point, unless that was done before. A file that cannot be read is left out, and named.

    `captured`: addresses of hosts with a capture of their own; of all others the TCP segments are kept, too, for what
    is to be inferred. None: of nobody. Raises ``InputError`` where nothing is left.
    """
    with tempfile.TemporaryDirectory(prefix="nfslat-") as folder:
        scratch = Path(folder)

        def work(good: Sequence[Input], key: str, problems: list[Problem]) -> Decode:
            if (done := kept_decode(store, key, good, problems, captured)) is not None:
                return done
            with opened(title, good, scratch) as (source, tools):
                apart = decode_apart(source, tools, lambda _: None, without=captured)
            shards = write_shards(store, f"shards/{key}", apart, captured, with_facts=True)
            return keep_decode(store, key, shards, apart.source, apart.facts, good, problems)

        return with_good(store, title, inputs, scratch, work)


def keep_whole(store: Store, one: Input, apart: Apart) -> Decode:
    """What `decode_point` makes of one file for a run that keeps nothing, where it has been decoded already."""
    key = name_of([one.token])
    files = tuple(dataclasses.replace(file, name=one.name) for file in apart.source.files)
    apart = dataclasses.replace(apart, source=dataclasses.replace(apart.source, files=files))
    shards = write_shards(store, f"shards/{key}", apart, with_facts=True)
    return keep_decode(store, key, shards, apart.source, apart.facts, [one], [])


def with_good(
    store: Store,
    title: str,
    inputs: Sequence[Input],
    scratch: Path,
    work: Callable[[Sequence[Input], str, list[Problem]], T],
) -> T:
    """Let `work` have those of `inputs` that can be read, a name made of their bytes, and what is wrong with others.

    Raises ``InputError`` where nothing is left.
    """
    # What is known of files by their dates is this machine's own affair.
    memo = Memo(Path(store.place("hashes")) if store.is_local else scratch / "hashes")
    good = list(inputs)
    problems: list[Problem] = []
    hashes = {one.url: one.token for one in inputs}
    if store.kept:
        good, hashes, problems = _hashed(inputs, memo)
    while True:
        if not good:
            raise InputError(f"none of its files can be read: {problems[0].what}: {problems[0].why}", about=title)
        try:
            return work(good, name_of(hashes[one.url] for one in good), problems)
        except BadFile as bad:
            good = [one for one in good if one != bad.file]
            problems.append(_left_out(bad.file.name, bad.why))


class BadFile(Exception):
    """One of the files is none that can be read."""

    def __init__(self, file: Input, why: str) -> None:
        super().__init__(why)
        self.file, self.why = file, why


def _left_out(name: str, why: str) -> Problem:
    return Problem(name, why, "the time in it is missing on this side")


def _hashed(inputs: Sequence[Input], memo: Memo) -> tuple[list[Input], dict[str, str], list[Problem]]:
    good, hashes, problems = [], {}, []
    for one in inputs:
        try:
            hashes[one.url] = content_hash(one, memo)
            good.append(one)
        except (OSError, NfslatError) as problem:
            problems.append(_left_out(one.name, _reason(problem).removeprefix(f"{one.name}: ")))
    return good, hashes, problems


def _reason(problem: Exception) -> str:
    return (problem.strerror if isinstance(problem, OSError) else None) or str(problem) or type(problem).__name__


def name_of(hashes: Iterable[str]) -> str:
    """One name of several, and of what decodes."""
    return xxhash.xxh3_128_hexdigest("\n".join([_FORM, stored.SCHEMA, native.NAME, *hashes]).encode())


def kept_decode(
    store: Store,
    key: str,
    inputs: Sequence[Input],
    problems: Sequence[Problem],
    captured: Collection[str] | None,
) -> Decode | None:
    """What a run before made of the same bytes, if it has all that is needed now."""
    if not store.kept:
        return None
    kept = store.read_json(f"shards/{key}/index.json")
    try:
        shards = tuple(
            Shard(one["name"], tuple(one["hosts"]), tuple(one["callers"]), one["ops"], one["segments"])
            for one in kept.pop("shards")
        )
        damaged = tuple((at, part, why) for at, part, why in kept.pop("damaged"))
        problems = (*problems, *_not_read(inputs, damaged))
        found = Decode(**kept | {"shards": shards, "damaged": damaged, "cached": True, "problems": problems})
    except (AttributeError, IndexError, KeyError, TypeError, ValueError):
        return None
    if not all(one.segments for one in shards if _needs_segments(one.hosts, captured)):
        return None
    names = (found.facts, *(one.name for one in shards), *(one.segments for one in shards if one.segments))
    return found if all(map(store.has, names)) else None


def _needs_segments(hosts: Collection[str], captured: Collection[str] | None) -> bool:
    return captured is not None and not set(hosts) & set(captured)


def write_shards(
    store: Store, folder: str, apart: Apart, captured: Collection[str] | None = None, *, with_facts: bool = False
) -> tuple[Shard, ...]:
    """A file for each pair of hosts; one for their segments, where they are kept; and what is known of the capture."""
    shards = []
    made = {}
    source = dataclasses.replace(apart.source, files=())  # the same for all of them, and may be thousands
    for number, (hosts, decoded) in enumerate(apart.hosts):
        name = f"{number:05}.parquet"
        segments = f"{folder}/{number:05}.segments" if _needs_segments(hosts, captured) else ""
        if segments:
            write_segments(store, segments, decoded.segments)
            decoded.segments.clear()
        made[name] = source, decoded
        shards.append(Shard(f"{folder}/{name}", tuple(sorted(hosts)), _callers(decoded), len(decoded.ops), segments))
    write_decoded(store, folder, made | ({FACTS: (apart.source, apart.facts)} if with_facts else {}))
    return tuple(shards)


def keep_decode(
    store: Store,
    key: str,
    shards: Sequence[Shard],
    source: Source,
    facts: Decoded,
    inputs: Sequence[Input],
    problems: Sequence[Problem],
) -> Decode:
    """Write that all is there, shards and `facts`."""
    damaged = _damaged(source, inputs)
    done = Decode(
        shards=tuple(shards),
        facts=f"shards/{key}/{FACTS}",
        files=len(source.files),
        bytes=sum(one.size_bytes for one in inputs),
        packets=sum(facts.packet_kinds.values()),
        ops=sum(one.ops for one in shards),
        first_ns=facts.first_ns,
        last_ns=facts.last_ns,
        cached=False,
        problems=(*problems, *_not_read(inputs, damaged)),
        damaged=damaged,
    )
    if store.kept:
        kept = dataclasses.asdict(done)
        store.write_json(f"shards/{key}/index.json", {k: v for k, v in kept.items() if k not in ("cached", "problems")})
    return done


def _damaged(source: Source, inputs: Sequence[Input]) -> tuple[tuple[int, str, str], ...]:
    """By numbers: the next run may know the same files by other names."""
    return tuple(
        (at, file.name.removeprefix(one.name), file.damage or "it ends in the middle of a packet")
        for at, one in enumerate(inputs)
        for file in source.files
        if file.cut_short and (file.name == one.name or file.name.startswith(f"{one.name}: "))
    )


def _not_read(inputs: Sequence[Input], damaged: Sequence[tuple[int, str, str]]) -> list[Problem]:
    cost = "what comes behind that in this file is missing on this side"
    return [
        Problem(f"{inputs[at].name}{part}", f"is damaged, or was not copied to its end: {why}", cost)
        for at, part, why in damaged
    ]


@contextlib.contextmanager
def opened(title: str, inputs: Sequence[Input], scratch: Path) -> Iterator[tuple[Source, Callable[[], Tools]]]:
    """All files as one source, to be read once within the block; and what finds Wireshark. Raises ``BadFile``."""
    tools = cache(lambda: find_tools(scratch))
    try:
        with contextlib.ExitStack() as stack:
            yield _open(title, inputs, stack, tools, scratch), tools
    except InputError as problem:
        # One that is not a file of this host is looked at for the first time when it is decoded.
        bad = next((one for one in inputs if one.name == problem.about), None)
        if bad is None:
            raise
        raise BadFile(bad, problem.why) from problem


def _open(
    title: str, inputs: Sequence[Input], stack: contextlib.ExitStack, tools: Callable[[], Tools], scratch: Path
) -> Source:
    """All files as one source, tars of scripts/capture.sh unpacked. Raises ``BadFile``."""
    plain = [one for one in inputs if not one.is_tar]
    paths = iter(stack.enter_context(readable(plain, scratch)))
    files: list[File] = []
    said: Bundle | None = None
    for one in inputs:
        try:
            if one.is_tar and not one.is_remote:
                parts, said = bundle.unpack(one.name, Path(one.url), scratch)
            else:
                parts = stack.enter_context(readable([one], scratch)) if one.is_tar else [next(paths)]
            for part in parts:
                name = one.name if len(parts) == 1 else f"{one.name}: {part.name}"
                source = native.open_source(str(part), tools, scratch, rereads=False)
                files += [dataclasses.replace(file, name=name) for file in source.files]
        except NoPacketsError:
            pass  # a rotated file that was just begun is no loss
        except InputError as problem:
            raise BadFile(one, problem.beside(one.url)) from problem
    if not files:
        refuse_empty(title)
    return Source(title, tuple(sorted(files, key=lambda file: file.first_ns)), bundle=said)


def write_decoded(store: Store, folder: str, made: Mapping[str, tuple[Source, Decoded]]) -> None:
    """All that is decoded in a folder, by name: nothing is added to it later."""
    if store.near and store.is_twice:  # as this run reads it: several times, and at no cost
        with store.own.writing(f"{folder}/{_NEAR}") as out:
            write(made, out)
    if store.kept:  # as the next one does, or the user
        for name, (source, decoded) in made.items():
            with store.writing(f"{folder}/{name}") as out:
                stored.write_side(decoded, source, out, quick=True)


def _callers(decoded: Decoded) -> tuple[str, ...]:
    """Addresses that call NFS."""
    ops = decoded.ops
    reverse, ends = is_reverse(ops), client_ends(ops)
    nfs = np.array([ops.kinds[kind].program == NFS for kind in ops.classes.kind], dtype=np.bool_)
    return tuple(sorted({ends[conn][0] for conn in ops.classes.conn[nfs & ~reverse].tolist()}))


@lru_cache(maxsize=2)  # those of the server are the same for all its clients
def read_facts(store: Store, name: str) -> tuple[Source, Decoded]:
    """What is known of a capture as a whole. Raises as `read_shard`."""
    with store.scratch() as scratch:
        return read_shard(store, name, scratch)


def read_shard(store: Store, name: str, scratch: Path) -> tuple[Source, Decoded]:
    """What was decoded, as if it had just been. Raises ``InputError`` where it is not there, or damaged."""
    folder, _, in_folder = name.rpartition("/")
    if store.near and os.path.exists(near := store.own.place(f"{folder}/{_NEAR}")):
        source, decoded = read(near, in_folder)
        return source, decoded
    try:
        with store.local(name, scratch) as path:
            source, decoded = stored.read_side(stored.open_source(store.place(name), path), lambda _: None)
    except OSError as problem:
        raise InputError(f"{_reason(problem)}; was the folder cleared?", about=store.place(name)) from problem
    except InputError as problem:
        store.remove([f"{'/'.join(name.split('/')[:2])}/index.json"])
        raise InputError("is damaged; run again, and its capture is decoded anew", about=store.place(name)) from problem
    return source, dataclasses.replace(decoded, engine=decoded.engine.removesuffix(_STORED))
