"""Whose the pairs of hosts in a server's capture are: of clients, the server itself, hosts that call each other."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from apart_captures import any_fleet
from fleet_captures import SERVER, acknowledged, at, talk
from hypothesis import given
from hypothesis import strategies as st
from wire import Seen, write_pcap

from nfslat.decode.merge import merge
from nfslat.fleet.run.capture import decode_by_hosts
from nfslat.fleet.run.client import Request, compare_client
from nfslat.fleet.run.finished import report_names
from nfslat.fleet.run.inputs import expand
from nfslat.fleet.run.points import Point
from nfslat.fleet.run.server import Callers, ServerCapture, callers_of

A, B = "10.0.0.3", "10.0.0.4"


Pair = tuple[list[str], set[str]]  # two hosts, and which of them call


def found_in(pairs: list[Pair], *servers: str) -> Callers:
    """Who calls the server with these addresses."""
    return callers_of(pairs, frozenset(servers))


def test_a_client_has_all_that_its_addresses_show() -> None:
    """Each pair once, in order, those without a call of NFS, too."""
    pairs = [([A, SERVER], {A}), ([B, SERVER], {B}), ([A, "10.0.0.9"], set()), ([A, B], {A, B})]
    found = found_in(pairs, SERVER, "10.0.0.9")
    assert found.names == (A, B)
    assert (found.rows([A]), found.rows([B]), found.rows([B, A]), found.rows(["10.0.0.7"])) == (
        [0, 2, 3], [1, 3], [0, 1, 2, 3], [],
    )  # fmt: skip


def test_a_server_is_a_client_only_of_itself() -> None:
    """What it calls elsewhere makes it none, and what it calls at home is not what others call there."""
    others = [([A, SERVER], {A}), ([B, SERVER], {B})]
    assert found_in([*others, ([SERVER, "10.0.0.99"], {SERVER})], SERVER).names == (A, B)
    found = found_in([*others, ([SERVER], {SERVER})], SERVER)
    assert (found.names, found.rows([SERVER])) == ((SERVER, A, B) if SERVER < A else (A, B, SERVER), [2])
    found = found_in([*others, (["10.0.0.1", SERVER], {"10.0.0.1"})], SERVER, "10.0.0.1")
    assert found.rows(["10.0.0.1"]) == [2]


@given(st.lists(st.text("ab:@_-.A", min_size=1, max_size=4), unique=True))
def test_each_report_has_a_name_of_its_own(names: list[str]) -> None:
    """Also where a file system knows no capitals, and takes no colons."""
    found = report_names(names)
    assert found.keys() == set(names)
    assert len({one.casefold() for one in found.values()}) == len(names)
    assert not any(set(":@ /") & set(one.removeprefix("clients/")) for one in found.values())
    assert report_names(names[::-1]) == found


def written(seen: Sequence[Seen], name: str, folder: Path) -> Point:
    """A point with one capture."""
    path = write_pcap(folder / name, sorted(seen, key=lambda packet: packet.t_ns))
    return Point("", SERVER, (SERVER,), expand([str(path)]).files)


def test_without_the_others_nothing_is_said_of_threads(tmp_path: Path) -> None:
    """By one client's calls alone any number of threads could be found: where those of the others are not known, that
    is what its report says, and no wait is summed up."""
    clients = {
        f"10.0.1.{one}": acknowledged(talk(f"10.0.1.{one}", begin_ms=one, calls=150, every_ms=3)) for one in (1, 2, 3)
    }
    name = "10.0.1.2"
    server = ServerCapture(written(at("server", *clients.values()), "server.pcap", tmp_path), [name])
    own = written(at("client", clients[name]), "client.pcap", tmp_path).files
    half = server.half([name])
    assert half is not None
    for is_shared in (False, True):
        request = Request(name, (name,), own, half[0], server.windows, is_shared=is_shared, report_name="report.json")
        done = compare_client(request)
        assert done.summary is not None
        assert done.report is not None
        report = json.loads(done.report)
        assert done.summary.ops == 150
        assert report["captures"]["client"]["path"] == str(tmp_path / "client.pcap")
        assert ("other clients" in json.dumps(report["inflight"]["server"])) == is_shared
        assert (done.summary.queue_ms is None) == is_shared


def test_hosts_that_call_each_other_are_two_clients(tmp_path: Path) -> None:
    """What one pair of hosts has to say to each other is of both: each of them has its own calls of it."""
    there, back = talk(A, calls=20), talk(B, server=A, begin_ms=1, calls=11, port=900)
    elsewhere = talk(A, server=B, begin_ms=2, calls=7, port=901)
    server = ServerCapture(written(at("server", there, back, elsewhere), "server.pcap", tmp_path))
    assert server.callers.names == (A, B)
    ops = {}
    for name in server.callers.names:
        half = server.half([name])
        assert half is not None
        summary = compare_client(Request(name, (name,), (), half[0], server.windows)).summary
        assert summary is not None
        ops[name] = summary.ops
    assert ops == {A: 27, B: 11}


@pytest.mark.parametrize("seed", range(20))
def test_a_client_gets_the_waits_of_its_own_ops(seed: int, tmp_path: Path) -> None:
    """What a client is given of what the server did for all has a row for each op of its part, in their order."""
    seen = [packet for packets in any_fleet(seed) for packet in packets]
    point = written(seen, "x.pcap", tmp_path)
    server = ServerCapture(point)
    apart, _ = decode_by_hosts(point.name, point.files, ())
    whole = merge([part for _, part in apart.hosts], apart.facts).ops
    for name in () if server.is_of_one_client else server.callers.names:
        rows = server.rows_of(server.callers.rows([name]))
        half = server.half([name])
        assert half is not None
        own = merge(half[0].parts, half[0].facts).ops
        for column in ("xid", "t1", "t2", "transmissions", "status", "direction"):
            assert np.array_equal(getattr(whole, column)[rows], getattr(own, column))
        assert half[1] is not None
        assert len(half[1].load.queue_ns) == len(own)
