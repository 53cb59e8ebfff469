"""A client's capture in which replies alone acknowledge the calls: what the handshake says of the path."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import wire
from captures import SHARED

from nfslat import api

_WAY = 0.1  # ms, either way, where nothing is on it
_Draw = Callable[[random.Random, int], float]


class Load(NamedTuple):
    """One call after the other: what the server takes, and what the way there adds, ms, by number."""

    server: _Draw
    there: _Draw = lambda *_: 0.0
    size: int = 4096  # of a WRITE; 0: READs
    calls: int = 200
    opened_ms: float = 2 * _WAY  # of the handshake; 0: not captured
    wait_ms: float = 0.1  # from there to the first call
    at_once: int = 1
    connections: int = 1


def _capture(load: Load, folder: Path) -> Path:
    """The client's capture."""
    rng = random.Random(3)
    seen: list[Any] = []
    for number in range(load.connections):
        tcp = wire.Tcp(client=("192.0.2.10", 700 + number), server=("192.0.2.1", 2049), stamps_hz=1000)
        if load.opened_ms:
            tcp.raw(1, ">", tcp.next[">"] - 1, b"", ack=0, flags=0x02)
            tcp.raw(1 + load.opened_ms - _WAY, "<", tcp.next["<"] - 1, b"", ack=tcp.next[">"], flags=0x12)
            tcp.raw(1 + load.opened_ms, ">", tcp.next[">"], b"", flags=0x10)
        at = 1 + load.opened_ms + load.wait_ms
        events: list[tuple[float, str, bytes, float]] = []  # when, which way, what, and when the server has it
        free, there = [at] * load.at_once, 0.0
        for call in range(load.calls):
            turn = min(range(load.at_once), key=lambda one: free[one])
            begin, xid = free[turn], 1 + call
            message = wire.write(xid, call * 4096, load.size) if load.size else wire.read(xid, call * 8192, 8192)
            answer = wire.WRITE3 if load.size else wire.read3(8192)
            there = max(there, begin + _WAY + load.there(rng, call))  # none overtakes another
            done = there + load.server(rng, call)
            events += [(begin, ">", message, there), (done, "<", wire.reply(xid, answer), done)]
            free[turn] = done + _WAY + 0.4
        had: list[tuple[float, int]] = []
        for when, way, message, arrives in sorted(events, key=lambda one: one[0]):
            acked = max((end for at, end in had if at <= when), default=tcp.isn[0])
            tcp.raw(when, way, tcp.next[way], wire.record(message), ack=acked if way == "<" else None)
            tcp.next[way] += len(wire.record(message))
            had += [(arrives, tcp.next[way])] if way == ">" else []
        seen += tcp.seen_by("client", back_ms=_WAY)
    return wire.write_pcap(folder / "client.pcap", sorted(seen, key=lambda one: one.t_ns))


def _slow(rng: random.Random, _: int) -> float:
    return rng.lognormvariate(3.0, 0.25)


def _quick(rng: random.Random, _: int) -> float:
    return rng.uniform(0.15, 0.25)


def _constant(ms: float) -> _Draw:
    return lambda *_: ms


def _far(_: random.Random, call: int) -> float:
    """The path becomes longer after a third of the calls."""
    return 20.0 if call > 60 else 0.0


def _queued(rng: random.Random, _: int) -> float:
    return rng.uniform(10.0, 30.0)


def _later_queued(rng: random.Random, call: int) -> float:
    return rng.uniform(10.0, 30.0) if call > 60 else 0.0


@pytest.mark.parametrize("load", [Load(_slow), Load(_slow, size=0), Load(_slow, size=0, opened_ms=1.0)])
def test_calls_that_are_as_slow_right_after_a_quick_handshake_are_the_servers(load: Load, tmp_path: Path) -> None:
    """20 ms each, one at a time: the error of the mean leaves the server most of it, and holds the truth."""
    report = api.inspect(str(_capture(load, tmp_path)))
    verdict = report.verdict
    assert verdict is not None
    assert (verdict.outcome, verdict.layer, verdict.confidence) == ("fault", "server", "medium")
    inferred = report.figures.inferred
    assert inferred is not None
    assert inferred.mean_error_ms < (13 if load.size else 4)
    rng = random.Random(3)
    truth = sum(_slow(rng, call) for call in range(load.calls)) / load.calls
    matched = report.figures.matched
    assert matched is not None
    assert matched.total is not None
    assert abs(matched.total.server_ms.mean - truth) <= inferred.mean_error_ms


@pytest.mark.parametrize(
    "load",
    [
        pytest.param(
            Load(_quick, _constant(20.0)), id="a line of a fixed rate, behind a bucket that the SYN finds full"
        ),
        pytest.param(Load(_quick, _far), id="a path that becomes longer"),
        pytest.param(Load(_quick, _far, size=0), id="a path that becomes longer, and small calls"),
        pytest.param(Load(_quick, _later_queued, size=0), id="a queue of other traffic that comes later"),
        pytest.param(Load(_quick, _queued, opened_ms=15.0), id="a queue that the handshake meets, too"),
        pytest.param(Load(_quick, _queued, opened_ms=0), id="no handshake"),
        pytest.param(Load(_quick, _queued, wait_ms=5_000), id="a handshake long before"),
        pytest.param(Load(_quick, _queued, at_once=4), id="calls at once, which may queue behind each other"),
        pytest.param(Load(_quick, _queued, connections=2), id="another connection, behind which they may queue"),
    ],
)
def test_what_the_path_may_take_is_not_the_servers(load: Load, tmp_path: Path) -> None:
    """0.2 ms in the server: it is not accused."""
    verdict = api.inspect(str(_capture(load, tmp_path))).verdict
    assert verdict is None or verdict.layer != "server"
    assert verdict is None or verdict.confidence == "low"


def test_one_sync_write_at_a_time_from_the_clients_capture_alone_is_the_server() -> None:
    """Of 4 KB and 20 ms each, and the handshake takes 0.2 ms."""
    path = SHARED / "broken" / "public" / "10_sync_writes_client_only_client.pcap.gz"
    if not path.exists():
        pytest.skip("the capture is not here")
    verdict = api.inspect(str(path)).verdict
    assert verdict is not None
    assert (verdict.outcome, verdict.layer, verdict.cause) == ("fault", "server", "server-storage")
