"""Which of a server's shards are whose: clients, the server itself, hosts that call each other; and their names."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from apart_captures import any_fleet
from captures import needs_native
from fleet_captures import SERVER, acknowledged, at, talk
from hypothesis import given
from hypothesis import strategies as st
from wire import Seen, write_pcap

from nfslat.decode import native
from nfslat.decode.apart import decode_apart
from nfslat.decode.merge import merge
from nfslat.decode.tools import Tools
from nfslat.fleet.compare.windows import plan
from nfslat.fleet.run.callers import Callers, callers_of
from nfslat.fleet.run.inputs import expand
from nfslat.fleet.run.joined import joined, slim
from nfslat.fleet.run.pair import Parts, Request, compare_client, kept_names
from nfslat.fleet.run.shards import Decode, Shard, decode_point
from nfslat.fleet.run.store import Store
from nfslat.pipeline import side_of

pytestmark = needs_native
A, B = "10.0.0.3", "10.0.0.4"


def shard(hosts: Sequence[str], callers: Sequence[str]) -> Shard:
    """One with a single op."""
    return Shard("x", tuple(hosts), tuple(callers), 1)


def test_a_client_has_all_that_its_addresses_show() -> None:
    """Each shard once, in order, those without a call of NFS, too."""
    shards = [shard([A, SERVER], [A]), shard([B, SERVER], [B]), shard([A, "10.0.0.9"], []), shard([A, B], [A, B])]
    found = callers_of(shards, [SERVER, "10.0.0.9"])
    assert found.names == (A, B)
    assert (found.rows([A]), found.rows([B]), found.rows([B, A]), found.rows(["10.0.0.7"])) == (
        [0, 2, 3], [1, 3], [0, 1, 2, 3], [],
    )  # fmt: skip


def test_a_server_is_a_client_only_of_itself() -> None:
    """What it calls elsewhere makes it none, and what it calls at home is not what others call there."""
    others = [shard([A, SERVER], [A]), shard([B, SERVER], [B])]
    assert callers_of([*others, shard([SERVER, "10.0.0.99"], [SERVER])], [SERVER]).names == (A, B)
    found = callers_of([*others, shard([SERVER], [SERVER])], [SERVER])
    assert (found.names, found.rows([SERVER])) == ((SERVER, A, B) if SERVER < A else (A, B, SERVER), [2])
    found = callers_of([*others, shard(["10.0.0.1", SERVER], ["10.0.0.1"])], [SERVER, "10.0.0.1"])
    assert found.rows(["10.0.0.1"]) == [2]


@given(st.lists(st.text("ab:@_-.A", min_size=1, max_size=4), unique=True))
def test_each_report_has_a_name_of_its_own(names: list[str]) -> None:
    """Also where a file system knows no capitals, and takes no colons."""
    found = kept_names(names)
    assert found.keys() == set(names)
    assert len({one.casefold() for one in found.values()}) == len(names)
    assert not any(set(":@ /") & set(one.removeprefix("clients/")) for one in found.values())
    assert kept_names(names[::-1]) == found


def decoded(seen: Sequence[Seen], name: str, folder: Path) -> Decode:
    """What the fleet makes of one capture."""
    path = write_pcap(folder / name, sorted(seen, key=lambda packet: packet.t_ns))
    return decode_point(Store(str(folder / "out")), name, expand([str(path)]).files)


def parts(found: Decode, rows: Sequence[int]) -> Parts:
    """Some of its shards."""
    return Parts(tuple(found.shards[row].name for row in rows), found.facts)


def test_without_the_others_nothing_is_said_of_threads(tmp_path: Path) -> None:
    """By one client's calls alone any number of threads could be found: where those of the others are not known, that
    is what its report says, and no wait is summed up."""
    clients = {
        f"10.0.1.{one}": acknowledged(talk(f"10.0.1.{one}", begin_ms=one, calls=150, every_ms=3)) for one in (1, 2, 3)
    }
    server = decoded(at("server", *clients.values()), "server.pcap", tmp_path)
    own = decoded(at("client", clients["10.0.1.2"]), "client.pcap", tmp_path)
    whose = callers_of(server.shards, [SERVER])
    windows = plan(server.first_ns, server.last_ns, server.ops)
    store = Store(str(tmp_path / "out"))
    for is_shared in (False, True):
        request = Request(
            "10.0.1.2", ("10.0.1.2",), parts(server, whose.rows(["10.0.1.2"])), parts(own, [0]), is_shared=is_shared,
            kept="report.json",
        )  # fmt: skip
        summary = compare_client(store, request, windows)
        report = json.loads((tmp_path / "out" / "report.json").read_text(encoding="utf-8"))
        assert summary.ops == 150
        assert report["captures"]["client"]["path"] == str(tmp_path / "client.pcap")
        assert ("other clients" in json.dumps(report["inflight"]["server"])) == is_shared
        assert (summary.queue_ms is None) == is_shared


def test_hosts_that_call_each_other_are_two_clients(tmp_path: Path) -> None:
    """One pair of hosts is one shard: each of them has its own calls of it."""
    there, back = talk(A, calls=20), talk(B, server=A, begin_ms=1, calls=11, port=900)
    elsewhere = talk(A, server=B, begin_ms=2, calls=7, port=901)
    found = decoded(at("server", there, back, elsewhere), "server.pcap", tmp_path)
    whose: Callers = callers_of(found.shards, [SERVER])
    assert whose.names == (A, B)
    store, windows = Store(str(tmp_path / "out")), plan(found.first_ns, found.last_ns, found.ops)
    ops = {}
    for name in whose.names:
        request = Request(name, (name,), parts(found, whose.rows([name])), None)
        ops[name] = compare_client(store, request, windows).ops
    assert ops == {A: 27, B: 11}


@pytest.mark.parametrize("seed", range(20))
def test_ops_of_some_parts_stand_in_the_order_of_the_whole(seed: int, tmp_path: Path) -> None:
    """What `Wide.for_parts` takes of the whole is, row by row, what the merged parts hold: their queue is their own."""
    seen = [packet for packets in any_fleet(seed) for packet in packets]
    path = write_pcap(tmp_path / "x.pcap", sorted(seen, key=lambda packet: packet.t_ns))

    def no_tools() -> Tools:
        raise AssertionError

    source = native.open_source(str(path), no_tools, tmp_path, rereads=False)
    apart = decode_apart(source, no_tools, lambda _: None)
    every = [one for _, one in apart.hosts]
    whole, rows = joined([slim(side_of(apart.source, one).decoded) for one in every], apart.facts)
    chance = random.Random(seed)
    for _ in range(3):
        some = sorted(chance.sample(range(len(every)), chance.randint(1, len(every))))
        own = merge([every[at] for at in some], apart.facts).ops
        here = np.sort(np.concatenate([rows[at] for at in some]))
        for name in ("xid", "t1", "t2", "transmissions", "status", "direction"):
            assert np.array_equal(getattr(whole.ops, name)[here], getattr(own, name))
