"""Two clocks in one file: nothing is found where one stamps all packets, and what was made is found and amended."""

from __future__ import annotations

import dataclasses
import gzip
import ipaddress
import struct
from pathlib import Path

import numpy as np
import pytest
from captures import SAMPLES, WITH_NFS, Decoder, id_of, most_by_night
from grids import grid
from wire_tables import Op, op
from wire_tables import ops as table

from nfslat.decode.directions import find_directions, on_one_clock, ops_on_one_clock
from nfslat.decode.engine import choose
from nfslat.model.decoded import Decoded, Directions
from nfslat.model.details import TcpEvent
from nfslat.model.protocol import NFS, NULL
from nfslat.model.tables import I64, Ops
from nfslat.pipeline import inspect
from nfslat.results import Side
from nfslat.select import Filters, is_reverse

US, MS, S = 1_000, 1_000_000, 1_000_000_000
CALLBACK = 0x40000000
ENGINE = "native"
LOSS = next(path for path in SAMPLES if id_of(path) == "packet-loss/client.pcap.gz")


def _apart(ops: Ops, delta_ns: int | I64) -> Ops:
    """The same packets, but those that travel as replies do are stamped by a clock that is `delta_ns` ahead."""
    reverse = ops.spread(is_reverse(ops))
    calls, replies = np.where(reverse, delta_ns, 0), np.where(reverse, 0, delta_ns)
    moved = {"t0": ops.t0 + calls, "t1": ops.t1 + calls, "t2": ops.t2 + replies, "t3": ops.t3 + replies}
    return dataclasses.replace(ops, **{name: column.astype(np.int64) for name, column in moved.items()})


def _found(ops: Ops) -> Directions:
    found = find_directions(ops)
    assert found is not None
    return found


def _is_amended(ops: Ops, made: Ops, found: Directions) -> None:
    """Every duration within an op is what it was, to within what `found` says."""
    after = ops_on_one_clock(made, found)
    for begin, end in (("t0", "t3"), ("t1", "t2"), ("t0", "t1"), ("t2", "t3")):
        one, other = (getattr(which, end) - getattr(which, begin) for which in (ops, after))
        assert np.abs(one - other).max() <= found.error_ns
    assert after.take(slice(0, 0)).kinds == ops.kinds


# --- One clock --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", most_by_night(WITH_NFS))
def test_real_captures_have_one_clock(path: Path, decoder: Decoder) -> None:
    """No public capture and none of the lab is suspected: not those with packets out of order, nor with a clock set."""
    assert find_directions(decoder.side(ENGINE, path).ops) is None


@pytest.mark.parametrize("by_ns", [-3 * S, -200 * US, 200 * US, 3 * S])
@pytest.mark.parametrize("path", SAMPLES, ids=id_of)
def test_a_clock_that_was_set_is_one_clock(path: Path, by_ns: int, decoder: Decoder) -> None:
    """A clock that jumps once, either way, stamps both directions all the same."""
    ops = decoder.side(ENGINE, path).ops
    middle_ns = int(np.median(ops.t1))
    stepped = {name: np.where((t := getattr(ops, name)) > middle_ns, t + by_ns, t) for name in ("t0", "t1", "t2", "t3")}
    assert find_directions(dataclasses.replace(ops, **stepped)) is None


@pytest.mark.parametrize("way", ["calls", "replies"])
@pytest.mark.parametrize("path", SAMPLES, ids=id_of)
def test_a_few_packets_out_of_order_are_no_second_clock(path: Path, way: str, decoder: Decoder) -> None:
    """One packet in a hundred that came to the file up to 100 us late (as in the corpus), or 5 s, makes no clock."""
    ops = decoder.side(ENGINE, path).ops
    random = np.random.default_rng(7)
    for late_ns in (100 * US, 5 * S):
        by_ns = np.where(random.random(len(ops)) < 0.01, random.integers(0, late_ns, len(ops)), 0)
        if way == "calls":
            made = dataclasses.replace(ops, t0=ops.t0 - by_ns, t1=ops.t1 - by_ns)
        else:
            made = dataclasses.replace(ops, t2=ops.t2 - by_ns, t3=ops.t3 - by_ns)
        assert find_directions(made) is None


def test_wrong_stamps_in_traffic_with_long_gaps_are_no_second_clock() -> None:
    """Every fourth reply is stamped 30 ms early, and 96 ms go by before the next call: clocks could be 26 to 96 ms
    apart by that, which is too little to say that they are."""
    rows = [op(100 * n, 100 * n + (-26 if n % 4 == 3 else 4), n) for n in range(200)]
    assert find_directions(table(*rows)) is None


@pytest.mark.parametrize("count", [0, 1, 3])
def test_too_few_ops_tell_of_nothing(count: int) -> None:
    """A handful of ops, however wrong their times, may have been put into the file in the wrong order."""
    assert find_directions(_apart(table(*(op(10 * n, 10 * n + 2, n) for n in range(count))), 5 * S)) is None


# --- Two clocks -------------------------------------------------------------------------------------------------------


@grid(path=SAMPLES, sign=[1, -1], delta_ns=[5 * MS, 20 * MS, 5 * S, 37 * S])
def test_clocks_that_are_apart_are_found_and_amended(path: Path, sign: int, delta_ns: int, decoder: Decoder) -> None:
    """Whichever clock is ahead, in the server's capture or in the client's: the bounds hold what was made, and response
    times are right again to within their error, which the traffic makes as small as its shortest gaps."""
    ops = decoder.side(ENGINE, path).ops
    made = _apart(ops, sign * delta_ns)
    found = _found(made)
    assert found.lo_ns <= sign * delta_ns <= found.hi_ns
    assert found.lo_ns <= found.delta_ns <= found.hi_ns
    assert found.error_ns < 200 * US
    assert (found.ppm, found.backward > 0) == (0, True)
    _is_amended(ops, made, found)


@pytest.mark.parametrize(
    ("name", "delta_ns"),
    [
        ("packet-loss/client.pcap.gz", 50 * US),
        ("packet-loss/server.pcap.gz", -50 * US),
        ("packet-loss/client.pcap.gz", -100 * US),
        ("packet-loss/server.pcap.gz", 100 * US),
        ("slow-network/server.pcap.gz", 100 * US),
        ("slow-network/client.pcap.gz", -100 * US),
    ],
)
def test_clocks_are_found_as_near_as_the_traffic_is_dense(name: str, delta_ns: int, decoder: Decoder) -> None:
    """50 us are seen where replies and calls follow each other within less, and amended."""
    ops = decoder.side(ENGINE, next(path for path in SAMPLES if id_of(path) == name)).ops
    made = _apart(ops, delta_ns)
    found = _found(made)
    assert found.lo_ns <= delta_ns <= found.hi_ns
    _is_amended(ops, made, found)


@pytest.mark.parametrize("path", [path for path in WITH_NFS if path not in SAMPLES], ids=id_of)
def test_what_is_found_in_real_captures_holds_what_was_made(path: Path, decoder: Decoder) -> None:
    """Over the lab and the corpus: a second and more is always found, and whatever is found holds the truth, and leaves
    response times at most half as wrong as they were."""
    ops = decoder.side("native", path).ops
    for delta_ns in (50 * US, 1 * MS, 50 * MS, 1 * S, 37 * S):
        for signed_ns in (delta_ns, -delta_ns):
            found = find_directions(_apart(ops, signed_ns))
            assert found is not None or delta_ns < S
            if found is not None:
                assert found.lo_ns <= signed_ns <= found.hi_ns
                assert abs(found.delta_ns - signed_ns) <= delta_ns / 2


@pytest.mark.parametrize("ppm", [-50, 20, 200])
def test_clocks_that_drift_apart_are_put_together_all_along(ppm: int, decoder: Decoder) -> None:
    """An adapter's clock that runs free drifts away from the host's: the line that fits is what is amended by."""
    ops = decoder.side(ENGINE, LOSS).ops
    away_ns = ops.t0 - ops.t0[0]
    made = _apart(ops, 37 * S + np.rint(away_ns * ppm / 1e6).astype(np.int64))
    found = _found(made)
    assert found.ppm == pytest.approx(ppm, abs=5)
    assert found.error_ns < 50 * US
    after = ops_on_one_clock(made, found)
    # The slope, too, is known only so well.
    assert np.abs((after.t2 - after.t1) - (ops.t2 - ops.t1)).max() < 50 * US


def test_callbacks_travel_the_other_way() -> None:
    """A callback's call is stamped by the clock of the replies, and its reply by that of the calls."""
    rows: list[Op] = []
    for n in range(200):
        rows.append(op(10 * n, 10 * n + 2, 2 * n, program=NFS))
        rows.append(op(10 * n + 5, 10 * n + 6, 2 * n + 1, direction=1, program=CALLBACK, version=1))
    ops = table(*rows)
    assert find_directions(ops) is None
    made = _apart(ops, -S)
    assert (made.t0[1::2] == ops.t0[1::2] - S).all()
    found = _found(made)
    # The shortest gaps: 1 ms from callback to reply, 2 ms from call to reply, 3 and 4 ms in between.
    assert found.lo_ns <= -S <= found.hi_ns
    _is_amended(ops, made, found)


def test_many_ops_are_looked_at_in_runs(decoder: Decoder) -> None:
    """Of very many ops some runs, evenly spread, tell the same as all."""
    ops = decoder.side(ENGINE, LOSS).ops
    rounds = 100
    number = np.repeat(np.arange(rounds), len(ops))
    later_ns, frames = int(ops.t3.max() - ops.t0.min()) + MS, int(ops.reply_last_frame.max())
    columns = {name: np.tile(getattr(ops, name), rounds) for name in Ops.columns()}
    for name in ("t0", "t1", "t2", "t3"):
        columns[name] += number * later_ns
    for name in columns:
        if name.endswith("frame"):
            columns[name] += (number * frames).astype(np.int32)
    many = Ops(**columns, kinds=ops.kinds, connections=ops.connections)
    assert len(many) > 65_536
    assert find_directions(many) is None
    few, found = _found(_apart(ops, -5 * S)), _found(_apart(many, -5 * S))
    assert found.lo_ns <= -5 * S <= found.hi_ns
    assert found.error_ns == pytest.approx(few.error_ns, abs=10 * US)


# --- Whole files ------------------------------------------------------------------------------------------------------


def _stamped_apart(source: Path, target: Path, sender: str, delta_ns: int, *, is_sorted: bool = False) -> Path:
    """A copy of a little-endian microsecond pcap in which the packets of `sender` are stamped by another clock."""
    data, at, out = gzip.decompress(source.read_bytes()), 24, []
    address = ipaddress.ip_address(sender).packed
    while at < len(data):
        seconds, us, length, whole = struct.unpack_from("<IIII", data, at)
        frame = data[at + 16 : at + 16 + length]
        t_us = seconds * 1_000_000 + us + (delta_ns // US if frame[26:30] == address else 0)
        out.append((t_us, struct.pack("<IIII", *divmod(t_us, 1_000_000), length, whole) + frame))
        at += 16 + length
    if is_sorted:
        out.sort(key=lambda packet: packet[0])
    target.write_bytes(data[:24] + b"".join(packet for _, packet in out))
    return target


def _read(path: Path, engine: str, decoder: Decoder, scratch: Path) -> tuple[Decoded, Side]:
    """As decoded, and as the rest of nfslat gets it."""
    chosen = choose(engine, lambda: decoder.tools, scratch, rereads=False)
    source = chosen.open(str(path))
    side = inspect(source, chosen, filters=Filters(), progress=lambda _: None)
    return chosen.decode(source, lambda _: None)[1], side


@pytest.mark.parametrize("delta_ns", [37 * S, -20 * MS])
@pytest.mark.parametrize("name", ["packet-loss/client.pcap.gz", "server-threads/server.pcap.gz"])
def test_a_file_of_two_clocks_is_put_on_one(
    name: str, delta_ns: int, engine: str, decoder: Decoder, tmp_path: Path
) -> None:
    """Decoded and amended, it holds the ops of the untouched file, with their times to within the error; so have loose
    messages, round trips, events and the range of the capture. Of stalls nothing is known any more."""
    path = next(path for path in SAMPLES if id_of(path) == name)
    want = decoder.side(engine, path).decoded
    server = want.ops.connections[0].addr_b
    made, side = _read(_stamped_apart(path, tmp_path / "two.pcap", server, delta_ns), engine, decoder, tmp_path)
    found = _found(made.ops)
    assert found.lo_ns <= delta_ns <= found.hi_ns
    after = on_one_clock(made, found)
    assert side.directions == found
    assert (side.ops.t2 == after.ops.t2).all()
    assert (after.ops.xid == want.ops.xid).all()
    for name_ in ("t0", "t1", "t2", "t3"):
        assert np.abs(getattr(after.ops, name_) - getattr(want.ops, name_)).max() <= found.error_ns
    assert len(after.loose) == len(want.loose)
    assert np.abs(after.loose.first_ns - want.loose.first_ns).max(initial=0) <= found.error_ns
    assert np.abs(after.loose.last_ns - want.loose.last_ns).max(initial=0) <= found.error_ns
    for one, other in ((after.first_ns, want.first_ns), (after.last_ns, want.last_ns)):
        assert abs(one - other) <= found.error_ns + MS  # the first packets of the two directions are apart, too
    tcp, untouched = after.details.tcp, want.details.tcp
    same = (untouched.rtt_count > 0) & (tcp.rtt_count == untouched.rtt_count)
    assert np.abs(tcp.rtt_min_ns - untouched.rtt_min_ns)[same].max(initial=0) <= found.error_ns
    longest = same & (tcp.rtt_max_ns != NULL)
    assert np.abs(tcp.rtt_max_ns - untouched.rtt_max_ns)[longest].max(initial=0) <= found.error_ns
    assert (tcp.rtt_sum_ns[same] - untouched.rtt_sum_ns[same] <= found.error_ns * untouched.rtt_count[same]).all()
    assert (tcp.stalls == NULL).all()
    resent, before = after.details.resent, want.details.resent
    assert (resent.op == before.op).all()
    assert np.abs(resent.t_ns - before.t_ns).max(initial=0) <= found.error_ns
    pauses, before_pauses = after.details.pauses, want.details.pauses
    assert (pauses.frame == before_pauses.frame).all()
    for name_ in ("begin_ns", "end_ns", "heard_ns", "sent_ns"):
        times, true_times = getattr(pauses, name_), getattr(before_pauses, name_)
        assert ((times == NULL) == (true_times == NULL)).all()
        assert np.abs(times - true_times).max(initial=0) <= found.error_ns
    blocked, before_blocked = after.details.blocked, want.details.blocked
    assert (blocked.op == before_blocked.op).all()
    assert np.abs(blocked.until_ns - before_blocked.until_ns).max(initial=0) <= found.error_ns
    loads, before_loads = after.details.loads, want.details.loads
    assert loads.bytes.sum() == before_loads.bytes.sum()
    assert (loads.begin_ns % loads.stretch_ns == 0).all()
    first_ns, before_ns = loads.begin_ns.min(initial=0), before_loads.begin_ns.min(initial=0)
    assert abs(first_ns - before_ns) <= found.error_ns + loads.stretch_ns
    events = after.details.events
    before_events = want.details.events.take(want.details.events.kind != TcpEvent.STALL)
    assert (events.kind == before_events.kind).all()
    assert np.abs(events.t_ns - before_events.t_ns).max(initial=0) <= found.error_ns


def test_a_sorted_file_has_lost_what_tells(decoder: Decoder, engine: str, tmp_path: Path) -> None:
    """Once its packets are in the order of their stamps nothing in the file says that there are two clocks."""
    path = next(path for path in SAMPLES if id_of(path) == "server-threads/server.pcap.gz")
    server = decoder.side(engine, path).ops.connections[0].addr_b
    made = _stamped_apart(path, tmp_path / "sorted.pcap", server, 5 * MS, is_sorted=True)
    decoded, side = _read(made, engine, decoder, tmp_path)
    assert find_directions(decoded.ops) is side.directions is None
