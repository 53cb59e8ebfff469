"""The files of a server's capture that is too large for one task -> the same shards as `nfslat.fleet.run.shards` makes.

split    some neighbouring files -> slices, each with the packets of some pairs of hosts     a task for each GB or so
place    one slice of all splits -> shards of its pairs of hosts                             a task for each slice
gather   what all of them know of the capture as a whole                                     one task

What was split or decoded before is found again. Slices take as much room as the files; they go when all is decoded.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shutil
import tempfile
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from nfslat.decode import native, split
from nfslat.decode.apart import Apart
from nfslat.decode.capture import Source
from nfslat.decode.packed import pack, unpack
from nfslat.decode.split import Split
from nfslat.decode.tools import find_tools
from nfslat.errors import InputError
from nfslat.fleet.model import Problem
from nfslat.fleet.run.fetch import head
from nfslat.fleet.run.inputs import Input
from nfslat.fleet.run.memo import Memo
from nfslat.fleet.run.shards import (
    FACTS,
    Decode,
    Shard,
    keep_decode,
    kept_decode,
    name_of,
    opened,
    with_good,
    write_decoded,
    write_shards,
)
from nfslat.fleet.run.store import COPY_BYTES, Store
from nfslat.model.decoded import Decoded

WHOLE_BYTES = 4 << 30  # of files; a capture with fewer is decoded by one task
_SLICE_BYTES = 2 << 30  # of packets in a slice, where hosts are alike
_TASK_BYTES = 1 << 30  # of files that one task splits
_MOST_SLICES = 64
_PLAIN = [field.name for field in dataclasses.fields(Split) if field.name not in ("source", "slices")]


@dataclass(frozen=True)
class SplitDone:
    """Some files, split; `names` are of the slices in the store."""

    key: str
    inputs: tuple[Input, ...]  # those of the files that can be read
    names: tuple[str, ...]
    split: Split
    problems: tuple[Problem, ...]
    cached: bool


@dataclass(frozen=True)
class PlaceDone:
    """One slice of all splits, decoded."""

    shards: tuple[Shard, ...]
    turns: tuple[int, ...]  # of each shard: when its hosts showed RPC, among all of the capture
    facts: Decoded


def groups(inputs: Sequence[Input], task_bytes: int = _TASK_BYTES) -> list[list[Input]]:
    """The files, in their order, by the task that splits them."""
    out: list[list[Input]] = []
    for one in inputs:
        if not out or sum(other.size_bytes for other in out[-1]) >= task_bytes:
            out.append([])
        out[-1].append(one)
    return out


def slices(inputs: Sequence[Input], slice_bytes: int = _SLICE_BYTES) -> int:
    """Into how many the capture is cut."""
    return min(max(-(-sum(one.size_bytes for one in inputs) // slice_bytes), 2), _MOST_SLICES)


def begins_ns(inputs: Sequence[Input]) -> int:
    """Time of the first packet of the capture."""
    with tempfile.TemporaryDirectory(prefix="nfslat-") as folder:
        scratch = Path(folder)
        tools = cache(lambda: find_tools(scratch))
        for one in inputs:
            with contextlib.suppress(InputError):
                return native.open_source(str(head(one, scratch)), tools, scratch, rereads=False).files[0].first_ns
    return 0


def split_some(store: Store, title: str, inputs: Sequence[Input], count: int, since_ns: int) -> SplitDone:
    """Split some files into `count` slices. Raises ``InputError`` where none of them can be read."""
    with tempfile.TemporaryDirectory(prefix="nfslat-") as folder:
        scratch = Path(folder)

        def work(good: Sequence[Input], key: str, problems: list[Problem]) -> SplitDone:
            key = f"{key}-{count}-{since_ns}"
            names = tuple(f"slices/{key}/{place:03}.pcapng" for place in range(count))
            told = (key, tuple(good), names)
            if (found := _kept_split(store, key, names)) is not None:
                return SplitDone(*told, found, tuple(problems), cached=True)
            with opened(title, good, scratch) as (source, tools), _places(store, names, scratch) as paths:
                made = split.split(source, paths, tools, lambda _: None, since_ns=since_ns)
            made = dataclasses.replace(made, slices=())  # `names` are theirs
            rest = {
                name: np.asarray(getattr(made, name)).tolist() for name in _PLAIN if getattr(made, name) is not None
            }
            source = pack(Source, made.source, "source", {})
            store.write_json(f"slices/{key}/index.json", {"source": source, "rest": rest})
            return SplitDone(*told, made, tuple(problems), cached=False)

        return with_good(store, title, inputs, scratch, work)


def _kept_split(store: Store, key: str, names: Sequence[str]) -> Split | None:
    kept = store.read_json(f"slices/{key}/index.json")
    try:
        rest = dict.fromkeys(_PLAIN) | kept["rest"]
        rest |= {name: np.array(rest[name], dtype=np.int64) for name in ("second", "count")}
        rest["ends_ns"] = None if rest["ends_ns"] is None else tuple(rest["ends_ns"])
        found = Split(source=unpack(Source, kept["source"], "source", _no_tables), slices=(), **rest)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return found if all(store.has(name) for name in names) else None


def _no_tables(name: str, _: dict[str, Any]) -> NoReturn:
    raise KeyError(name)


@contextlib.contextmanager
def _places(store: Store, names: Sequence[str], scratch: Path) -> Iterator[list[Path]]:
    """Paths to write to, whose files are in the store when the block is done."""
    if store.is_local:
        with contextlib.ExitStack() as stack:
            yield [Path(stack.enter_context(store.writing(name)).name) for name in names]
        return
    paths = [scratch / Path(name).name for name in names]
    yield paths
    for path, name in zip(paths, names, strict=True):
        with store.writing(name) as out, path.open("rb") as file:
            shutil.copyfileobj(file, out, COPY_BYTES)
        path.unlink()


def decode_place(
    store: Store, splits: Sequence[SplitDone], place: int, captured: Collection[str] | None = None
) -> PlaceDone:
    """Decode one slice of all `splits`, which are in the order of their files. `captured`: see `decode_point`."""
    with tempfile.TemporaryDirectory(prefix="nfslat-") as folder, contextlib.ExitStack() as stack:
        here = []
        for one in splits:
            path = stack.enter_context(store.local(one.names[place], Path(folder)))
            here.append(dataclasses.replace(one.split, slices=(path,)))
        apart = split.decode_slice(here, 0, lambda _: None, without=captured)
    shards = write_shards(store, f"{_folder(splits)}/{place:03}", apart, captured)
    turns = tuple(int(decoded.details.turns.turn[0]) for _, decoded in apart.hosts)
    return PlaceDone(shards, turns, apart.facts)


def gather(store: Store, splits: Sequence[SplitDone], places: Sequence[PlaceDone]) -> Decode:
    """What `decode_point` gives; the slices are taken away."""
    source = split.whole([one.split for one in splits])
    aparts = [Apart(source, one.facts, ()) for one in places]
    facts = split.gather([one.split for one in splits], aparts).facts
    by_turn = sorted(
        (turn, shard.name, shard) for one in places for turn, shard in zip(one.turns, one.shards, strict=True)
    )
    inputs = [file for one in splits for file in one.inputs]
    problems = [problem for one in splits for problem in one.problems]
    write_decoded(store, _folder(splits), {FACTS: (source, facts)})
    done = keep_decode(store, _key(splits), [shard for *_, shard in by_turn], source, facts, inputs, problems)
    for one in splits:
        store.remove([f"slices/{one.key}/index.json", *one.names])
    return done


def kept(
    store: Store,
    title: str,
    parts: Sequence[Sequence[Input]],
    count: int,
    since_ns: int,
    captured: Collection[str] | None = None,
) -> Decode | None:
    """What a run before made of the same files, where it is known without reading them all."""
    memo = Memo(Path(store.place("hashes")))
    if not store.is_local or any(memo.get(one.token) is None for part in parts for one in part):
        return None
    problems: list[Problem] = []
    files: list[Input] = []
    keys = []
    with tempfile.TemporaryDirectory(prefix="nfslat-") as folder:

        def named(good: Sequence[Input], key: str, said: list[Problem]) -> str:
            files.extend(good)
            problems.extend(said)
            return f"{key}-{count}-{since_ns}"

        keys = [with_good(store, title, part, Path(folder), named) for part in parts]
    return kept_decode(store, name_of(keys), files, problems, captured)


def _key(splits: Sequence[SplitDone]) -> str:
    return name_of(one.key for one in splits)


def _folder(splits: Sequence[SplitDone]) -> str:
    return f"shards/{_key(splits)}"
