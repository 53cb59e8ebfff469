"""A server's capture that several tasks split and decode gives what one task makes of it, and is found again."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import pytest
from captures import needs_native
from fleet_made.fleets import small

from nfslat.fleet.run import sliced
from nfslat.fleet.run.inputs import Input, expand
from nfslat.fleet.run.pair import Parts, read_side
from nfslat.fleet.run.shards import Decode, decode_point
from nfslat.fleet.run.store import Store

pytestmark = needs_native


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Input]:
    """The capture of a server with 12 clients, in five rotated files."""
    folder = tmp_path_factory.mktemp("made")
    small(folder, files=5)
    found = expand([str(folder / "server")]).files
    assert len(found) == 5
    return found


def _in_slices(store: Store, files: Sequence[Input], *, count: int, each_bytes: int) -> Decode:
    since_ns = sliced.begins_ns(files)
    parts = sliced.groups(files, each_bytes)
    kept = sliced.kept(store, "server", parts, count, since_ns)
    if kept is not None:
        return kept
    splits = [sliced.split_some(store, "server", part, count, since_ns) for part in parts]
    return sliced.gather(store, splits, [sliced.decode_place(store, splits, place) for place in range(count)])


@pytest.mark.parametrize(("count", "each_bytes"), [(2, 1), (5, 10_000_000), (16, 1 << 40)])
def test_slices_give_the_shards_of_the_whole(
    files: Sequence[Input], count: int, each_bytes: int, tmp_path: Path
) -> None:
    """Ops, facts, and what is counted are equal in every field, whatever the number of slices and of tasks; nothing is
    left of the slices, and a second run decodes nothing."""
    plain, other = Store(str(tmp_path / "plain")), Store(str(tmp_path / "sliced"))
    whole, made = decode_point(plain, "server", files), _in_slices(other, files, count=count, each_bytes=each_bytes)
    sides = []
    for store, decode in ((plain, whole), (other, made)):
        names = tuple(one.name for one in decode.shards)
        sides.append(read_side(store, Parts(names, decode.facts), tmp_path).decoded)
    for field in dataclasses.fields(sides[0]):
        assert str(getattr(sides[0], field.name)) == str(getattr(sides[1], field.name)), field.name
    assert (sides[0].ops.t3 == sides[1].ops.t3).all()
    assert [(one.hosts, one.callers, one.ops) for one in whole.shards] == [
        (one.hosts, one.callers, one.ops) for one in made.shards
    ]
    assert not list((tmp_path / "sliced" / "slices").rglob("*.pcapng"))
    again = _in_slices(other, files, count=count, each_bytes=each_bytes)
    assert again == dataclasses.replace(made, cached=True)


def test_what_was_split_is_not_split_again(files: Sequence[Input], tmp_path: Path) -> None:
    """A run that ended while it split goes on with the files that it had not done."""
    store = Store(str(tmp_path))
    since_ns = sliced.begins_ns(files)
    first = sliced.split_some(store, "server", files[:2], 3, since_ns)
    again = sliced.split_some(store, "server", files[:2], 3, since_ns)
    assert (first.cached, again.cached) == (False, True)
    assert again.names == first.names
    assert str(again.split) == str(first.split)


def test_a_file_that_cannot_be_read_is_left_out_and_named(files: Sequence[Input], tmp_path: Path) -> None:
    """The others of its task are split all the same."""
    wrong = tmp_path / "wrong.pcap"
    wrong.write_bytes(b"no capture")
    bad = dataclasses.replace(files[1], url=str(wrong), name="wrong.pcap", size_bytes=10)
    made = sliced.split_some(Store(str(tmp_path / "out")), "server", [files[0], bad], 2, 0)
    assert [(one.what, one.fatal) for one in made.problems] == [("wrong.pcap", True)]
    assert made.inputs == (files[0],)
