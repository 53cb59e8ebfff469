"""Whole pairs of captures, changed in ways that must not change the answer: other clocks, swapped files, lost packets.

Each pair is read once as it is; then one file is changed, packet by packet, and what nfslat says is compared.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import random
import struct
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import wire
from examples import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nfslat.cli import main as cli

SAMPLES = Path(__file__).parents[1] / "samples"
PARTS = ("call_send", "call_net", "server", "reply_send", "reply_net")
MS, S = 1_000_000, 1_000_000_000
YEAR_NS = 31_557_600 * S
_PACKETS = 500  # of each file of a sample
_ROUND_TRIP_MS = 25  # of the slowest op of the slowest network
_MATCHED_SHARE = 0.8  # of ops of which nothing is missing: with an XID in use again some cannot be told apart
_few = settings(max_examples=examples(12))


class Packet(NamedTuple):
    t_ns: int
    frame: bytes  # as far as it was captured
    length: int


Capture = tuple[Packet, ...]
Row = dict[str, str]


@dataclass(frozen=True)
class Answer:
    """A report, and the matched ops of its CSV file by the frame of the client's call and what else names them."""

    report: dict[str, Any]
    rows: dict[tuple[str, ...], Row]

    def srt_ns(self, side: str) -> dict[tuple[str, ...], int]:
        return {key: int(row[f"{side}_srt_ns"]) for key, row in self.rows.items()}

    @property
    def layer(self) -> str:
        return str(self.report["verdict"]["largest_layer"])


def _read(path: Path) -> Capture:
    """The first packets of a little-endian pcap file with microseconds."""
    data, at = gzip.decompress(path.read_bytes()), 24
    out: list[Packet] = []
    assert data[:4] == struct.pack("<I", 0xA1B2C3D4)
    while at < len(data) and len(out) < _PACKETS:
        seconds, us, kept, length = struct.unpack_from("<IIII", data, at)
        out.append(Packet(seconds * S + us * 1000, data[at + 16 : at + 16 + kept], length))
        at += 16 + kept
    return tuple(out)


def _write(path: Path, capture: Capture) -> str:
    out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262_144, 1)]
    for packet in capture:
        out += [struct.pack("<IIII", *divmod(packet.t_ns, S), len(packet.frame), packet.length), packet.frame]
    path.write_bytes(b"".join(out))
    return str(path)


@cache
def ask(server: Capture, client: Capture) -> Answer:
    """What nfslat says of the two. Parts are held to sum to the client SRT, to the nanosecond, whatever was done."""
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()) as out:
        folder = Path(name)
        # The files are called after what they hold, so that a report says the same whichever comes first.
        files = [_write(folder / f"{hash(capture):x}.pcap", capture) for capture in (server, client)]
        assert cli.main([*files, "--json", "-", "--csv", str(folder / "ops.csv")]) == 0
        with (folder / "ops.csv").open() as file:
            rows = list(csv.DictReader(file))
    report = json.loads(out.getvalue().replace(name, ""))
    for row in rows:
        if row["call_net_ns"]:
            parts = sum(int(row[f"{part}_ns"]) for part in PARTS)
            assert parts == int(row["client_t3_ns"]) - int(row["client_t0_ns"])
    keyed: dict[tuple[str, ...], Row] = {
        (row["xid"], row["client_call_first_frame"], row["server_call_first_frame"]): row for row in rows
    }
    assert len(keyed) == len(rows)
    return Answer(report, keyed)


# --- Pairs ------------------------------------------------------------------------------------------------------------


def _made() -> dict[str, Capture]:
    """Ops of two connections, one every 7 ms, with 1 to 13 ms at the server; large ones are in several segments."""
    flows = [wire.Tcp(client=("10.0.0.1", port), isn=(port * 1000, port * 5000)) for port in (700, 701)]
    for i in range(150):
        flow, t_ms, xid = flows[i % 2], 7.0 * i, 0x100 + i // 2
        if i % 3:
            flow.send(t_ms, ">", wire.read(xid, 8192 * i))
            flow.send(t_ms + 1 + i * 5 % 13, "<", wire.reply(xid, wire.read3()), cut=[1448] * 4)
        else:
            flow.send(t_ms, ">", wire.write(xid, 8192 * i), cut=[1448] * 4)
            flow.send(t_ms + 2 + i * 5 % 13, "<", wire.reply(xid, wire.WRITE3))
    return {side: _seen(flows, side) for side in ("server", "client")}


def _at(side: str, flow: wire.Tcp) -> list[wire.Seen]:
    return flow.seen_by(side, there_ms=0.3, back_ms=0.4, theta_ms=12_345)


def _seen(flows: list[wire.Tcp], side: str) -> Capture:
    packets = [one for flow in flows for one in _at(side, flow)]
    packets.sort(key=lambda one: one.t_ns)
    return tuple(Packet(one.t_ns, one.frame, len(one.frame)) for one in packets)


PAIRS: dict[str, Callable[[], dict[str, Capture]]] = {"made": cache(_made)}
for _sample in ("server-threads", "slow-network"):
    PAIRS[_sample] = cache(
        lambda name=_sample: {side: _read(SAMPLES / name / f"{side}.pcap.gz") for side in ("server", "client")}
    )

any_pair = pytest.mark.parametrize("name", PAIRS)
# Each pair and each side by day, both sides of each pair by night.
any_side_of_any_pair = pytest.mark.parametrize(
    ("name", "side"),
    [
        pytest.param(name, side, marks=pytest.mark.long if (number + (side == "client")) % 2 else ())
        for number, name in enumerate(PAIRS)
        for side in ("server", "client")
    ],
)


def _changed(name: str, side: str, change: Callable[[int], int]) -> tuple[Answer, Answer]:
    """Before and after the times of one side's packets were changed."""
    pair = PAIRS[name]()
    after = pair | {side: tuple(packet._replace(t_ns=change(packet.t_ns)) for packet in pair[side])}
    return ask(pair["server"], pair["client"]), ask(after["server"], after["client"])


# --- Clocks -----------------------------------------------------------------------------------------------------------


@any_side_of_any_pair
@_few
@given(shift_ns=st.integers(-40 * YEAR_NS, 40 * YEAR_NS))
@example(shift_ns=-9_007_199_253_368_241)  # 104 days: behind 2**53, where a float holds no odd nanosecond
def test_a_clock_that_is_off_changes_nothing(name: str, side: str, shift_ns: int) -> None:
    """One file's clock is off by any amount: the same ops with the same SRTs and parts, and the same verdict, word by
    word; theta alone is another one."""
    before, after = _changed(name, side, lambda t_ns: t_ns + shift_ns)
    assert after.rows.keys() == before.rows.keys()
    for key, row in before.rows.items():
        for figure in ("client_srt_ns", "server_srt_ns", "network_ns", *(f"{part}_ns" for part in PARTS)):
            assert after.rows[key][figure] == row[figure], figure
    assert after.report["verdict"] == before.report["verdict"]
    theta_ms = [answer.report["clock"]["theta_ms"] for answer in (before, after)]
    sign = 1 if side == "server" else -1
    assert theta_ms[1] - theta_ms[0] == pytest.approx(sign * shift_ns / MS, rel=1e-12, abs=1e-6)


@any_side_of_any_pair
@_few
@given(ppm=st.integers(-5000, 5000))
@example(ppm=-5000)  # 290 ms are then shorter at the client than at the server, and the files in the right order still
@example(ppm=5000)
def test_a_clock_that_is_fast_changes_nothing_but_its_own_unit(name: str, side: str, ppm: int) -> None:
    """One file's clock is fast or slow: its raw SRTs are stretched by just that, the other's are what they were. Those
    of the comparison are off by no more than the two clocks differ, and the verdict names the same layer."""
    first_ns = PAIRS[name]()[side][0].t_ns
    before, after = _changed(name, side, lambda t_ns: first_ns + round((t_ns - first_ns) * (1 + ppm / 1e6)))
    assert after.rows.keys() == before.rows.keys()
    other = "client" if side == "server" else "server"
    assert after.report["raw"][other] == before.report["raw"][other]
    for was, now in zip(before.report["raw"][side], after.report["raw"][side], strict=True):
        assert now["srt_ms"]["mean"] == pytest.approx(was["srt_ms"]["mean"] * (1 + ppm / 1e6), rel=1e-6, abs=1e-5)
    for which in ("server", "client"):
        was_ns, now_ns = before.srt_ns(which), after.srt_ns(which)
        assert all(abs(now_ns[key] - was_ns[key]) <= 0.0102 * was_ns[key] + 1 for key in was_ns)
    assert after.layer == before.layer


@any_side_of_any_pair
@_few
@given(
    at=st.floats(0.25, 0.75),  # what a handful of ops before or behind it say is not taken for a step
    by_ms=st.one_of(st.integers(100, 86_400_000), st.integers(-86_400_000, -100)),
)
@example(at=0.5, by_ms=-100)  # about as long as these captures show nothing that tells of the clocks
@example(at=0.5, by_ms=100)
@example(at=0.3125, by_ms=-700_000)  # by longer than a window waits for an answer
def test_a_clock_that_is_set_changes_only_what_was_under_way(name: str, side: str, at: float, by_ms: int) -> None:
    """One file's clock is set forward or back: it was set when the report says, and the other one is not said to have
    been. Every op that is given a time has the one that it had before, those that are not were under way then, and the
    verdict names the same layer."""
    packets = PAIRS[name]()[side]
    step_ns = packets[round(at * len(packets))].t_ns
    before, after = _changed(name, side, lambda t_ns: t_ns + (by_ms * MS if t_ns >= step_ns else 0))
    (step,) = after.report["clock"]["steps"]
    assert step["ms"] == pytest.approx(by_ms if side == "server" else -by_ms, abs=_ROUND_TRIP_MS)
    assert step["clock"] in (side, None)
    # What is known of it is known from packets that were on their way.
    not_before_ns = _ns_of(step["at"]) - _ROUND_TRIP_MS * MS
    not_after_ns = _ns_of(step["at"]) + (step["within_ms"] + _ROUND_TRIP_MS) * MS
    theta_ms = before.report["clock"]["theta_ms"] if side == "server" else 0
    assert not_before_ns <= step_ns - theta_ms * MS <= not_after_ns
    assert after.report["matched"]["ops"] + after.report["matched"]["untimed"] == len(before.rows)
    for which in ("server", "client"):
        was_ns = before.srt_ns(which)
        # A server's figures are put on the client's clock, whose rate is known a little better or worse now.
        assert all(abs(ns - was_ns[key]) <= 0.001 * was_ns[key] + 1 for key, ns in after.srt_ns(which).items())
    for key in before.rows.keys() - after.rows.keys():
        begins_ns, ends_ns = (int(before.rows[key][f"client_t{i}_ns"]) for i in (0, 3))
        assert begins_ns <= not_after_ns
        assert ends_ns >= not_before_ns
    assert after.layer == before.layer


def _ns_of(when: str) -> int:
    """2023-11-14T22:13:23.903093000Z in ns since 1970."""
    whole, fraction = when.rstrip("Z").split(".")
    return round(datetime.fromisoformat(f"{whole}+00:00").timestamp()) * S + int(fraction)


# --- Files ------------------------------------------------------------------------------------------------------------


@any_pair
def test_the_order_of_the_files_does_not_matter(name: str) -> None:
    """The client's file first: the same report, but for the command and the note that says so."""
    pair = PAIRS[name]()
    right, wrong = ask(pair["server"], pair["client"]), ask(pair["client"], pair["server"])
    assert wrong.rows == right.rows
    (said,) = [note for note in wrong.report["notes"] if note not in right.report["notes"]]
    assert "client first" in said
    assert _without(wrong.report, said) == _without(right.report, said)


def _without(report: dict[str, Any], note: str) -> dict[str, Any]:
    kept = [other for other in report["notes"] if other != note]
    return report | {"notes": kept, "nfslat": report["nfslat"] | {"command": ""}}


# --- Lost packets -----------------------------------------------------------------------------------------------------


class Truth(NamedTuple):
    """Captures, and which op each packet of them belongs to, by its time."""

    captures: dict[str, Capture]
    op_at: dict[str, dict[int, int]]


@cache
def _truth(xids: int) -> Truth:
    """200 ops on two connections, one every 50 ms; `xids` of each have different XIDs, then those come again. Every
    third is a GETATTR of one file, which asks for the same each time."""
    flows = [wire.Tcp(client=("10.0.0.1", port), isn=(port * 1000, port * 5000)) for port in (700, 701)]
    op_of: dict[int, int] = {}
    for i in range(200):
        flow, t_ms, xid = flows[i % 2], 50.0 * i, 0x100 + i // 2 % xids
        what = i % 3
        request = (wire.getattr3(xid), wire.read(xid, 8192 * i), wire.write(xid, 8192 * i, 4096))[what]
        answer = (wire.GETATTR3, wire.read3(), wire.WRITE3)[what]
        call = flow.send(t_ms, ">", request, cut=[1448] * 2 if what == 2 else [])
        reply = flow.send(t_ms + 2 + i * 5 % 13, "<", wire.reply(xid, answer), cut=[1448] * 3 if what == 1 else [])
        op_of |= {id(packet): i for packet in (*call, *reply)}
    op_at = {
        side: {
            one.t_ns: op_of[id(packet)]
            for flow in flows
            for packet, one in zip(flow.packets, _at(side, flow), strict=True)
        }
        for side in ("server", "client")
    }
    return Truth({side: _seen(flows, side) for side in op_at}, op_at)


@pytest.mark.parametrize(
    ("xids", "side"),
    [
        pytest.param(xids, side, id=f"{side}-{xids}_xids", marks=() if side == by_day else pytest.mark.long)
        for xids, by_day in ((100, "server"), (40, "client"), (17, "server"))
        for side in ("server", "client")
    ],
)
@settings(max_examples=examples(25))
@given(seed=st.integers(0, 1 << 32), share=st.sampled_from([0.01, 0.05, 0.2, 0.5]))
def test_lost_packets_make_no_wrong_match(xids: int, side: str, seed: int, share: float) -> None:
    """Any packets are missing in one capture: what is still matched is the same op from its first packet to its last,
    each op that is not has a reason, and those of which nothing is missing are matched but for a few."""
    truth, chance = _truth(xids), random.Random(seed)
    kept = tuple(packet for packet in truth.captures[side] if chance.random() >= share)
    found = ask(*(truth.captures | {side: kept}).values())
    for row in found.rows.values():
        which = {truth.op_at[one].get(int(row[f"{one}_t{i}_ns"])) for one in truth.op_at for i in range(4)}
        assert len(which) == 1, (which, row)
        assert None not in which
    matched = found.report["matched"]
    for one in truth.captures:
        assert matched["processed"][one] == len(found.rows) + sum(matched["unmatched"][one].values())
    left = {packet.t_ns for packet in kept}
    harmed = {op for t_ns, op in truth.op_at[side].items() if t_ns not in left}
    assert len(found.rows) >= _MATCHED_SHARE * (len(set(truth.op_at[side].values())) - len(harmed))


# --- The article ------------------------------------------------------------------------------------------------------

AT_SERVER, AT_CLIENT = 12_493, 13_481  # raw counts of "TCP Trace Analysis for NFS" (2013), which gives 25,974 for both


@cache
def _long() -> tuple[Capture, Capture]:
    """So many ops, one a millisecond, as the two see them; the client's capture ran longer. Replies are cut."""
    tcp = wire.Tcp()
    for i in range(AT_CLIENT):
        tcp.send(i, ">", wire.read(0x1000 + i, 512 * i, 512))
        tcp.send(i + 0.5, "<", wire.reply(0x1000 + i, wire.read3(512)))
    server, client = (
        tuple(Packet(one.t_ns, one.frame[:200], len(one.frame)) for one in tcp.seen_by(side))
        for side in ("server", "client")
    )
    return server[: 2 * AT_SERVER], client


@pytest.mark.parametrize("copies", [pytest.param(1, marks=pytest.mark.long), 2], ids=["once", "every_frame_twice"])
def test_counts_of_the_size_of_the_article_explain_themselves(copies: int) -> None:
    """The client's capture ran longer, and in a second run holds every frame twice: its packets are twice as many, its
    unique messages and ops are not; and what the client has more than the server has its reason."""
    server, client = _long()
    client = tuple(packet._replace(t_ns=packet.t_ns + 2000 * copy) for packet in client for copy in range(copies))
    report = ask(server, client).report
    at_server, at_client = report["captures"]["server"], report["captures"]["client"]
    assert (at_server["packets"], at_client["packets"]) == (2 * AT_SERVER, 2 * AT_CLIENT * copies)
    copied = 2 * AT_CLIENT * (copies - 1)
    wanted = Counter(PAIRED=2 * AT_CLIENT, DUPLICATE_FRAME=copied)
    assert (at_server["messages"], at_client["messages"]) == ({"PAIRED": 2 * AT_SERVER}, dict(+wanted))
    assert (at_server["ops"], at_client["ops"]) == (AT_SERVER, AT_CLIENT)
    assert [row["count"] for row in report["raw"]["server"]] == [AT_SERVER]
    assert [row["count"] for row in report["raw"]["client"]] == [AT_CLIENT]
    for capture, count in ((at_server, 0), (at_client, copied)):
        assert [note["count"] for note in capture["audit"] if note["code"] == "capture-duplicates"] == [count] * (
            count > 0
        )
        assert not [note for note in capture["audit"] if note["severity"] == "warning"]
    assert report["matched"]["ops"] == AT_SERVER
    assert report["matched"]["unmatched"] == {"server": {}, "client": {"OUTSIDE_OVERLAP": AT_CLIENT - AT_SERVER}}
    assert any(f"{AT_CLIENT - AT_SERVER} of the {AT_CLIENT} ops" in note for note in report["notes"])
