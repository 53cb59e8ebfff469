"""Claims, pauses and simulated paths -> charges: exact, disjoint, of the right cause, none where nothing was wrong."""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scenario import Scenario
from simulated import Simulated
from wire_tables import MS, Op, decoded, ops

from nfslat.decode.engine import choose
from nfslat.decompose import PART_NAMES, ConstantOffset, Parts
from nfslat.figures.audit.capture import capture_notes
from nfslat.model.causes import CAUSES, CHARGES, LOSSES, Cause, code
from nfslat.model.details import Blocked, Ended, Loads, Pauses, Tcp, Went, no_details
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Matched
from nfslat.pipeline import analyse, correlate
from nfslat.results import Analysis
from nfslat.select import Filters
from nfslat.tally.captures import CaptureTally
from nfslat.wire.charges import rate
from nfslat.wire.charges.analysis import NET, Charged, charge
from nfslat.wire.charges.claims import WAITS, Claims, Pair, charged, exclusive, overlapping
from nfslat.wire.charges.late import Late
from nfslat.wire.charges.places import PLACES, place
from nfslat.wire.charges.rate import Plateau, packet_bytes
from nfslat.wire.charges.sending import InFront, socket_claims
from nfslat.wire.charges.silences import Silences
from nfslat.wire.resends import Waits

NOBODY = np.zeros(0, dtype=np.int64)
NOTHING_LOST = Waits(NOBODY, NOBODY, NOBODY, NOBODY.astype(np.bool_))


# --- Claims -----------------------------------------------------------------------------------------------------------


class Edges:
    """Instants that are given, six an op."""

    def __init__(self, rows: list[list[int]]) -> None:
        self._rows = np.array(rows, dtype=np.int64)

    def edges_ns(self, rows: I64) -> I64:
        """As `Instants`."""
        return np.asarray(self._rows[rows].T)


def _claims(rows: list[tuple[int, int, int, int, int]]) -> Claims:
    columns = [[one[i] for one in rows] for i in range(5)]
    types = (np.int64, np.int8, np.int8, np.int64, np.int64)
    return Claims(*(np.array(column, dtype=kind) for column, kind in zip(columns, types, strict=True)))


_CLAIM = st.tuples(
    st.integers(0, 2), st.integers(0, len(PLACES) - 1), st.integers(0, len(CHARGES) - 1), *[st.integers(-5, 30)] * 2
)


@given(st.lists(st.lists(st.integers(0, 25), min_size=6, max_size=6), min_size=3, max_size=3), st.lists(_CLAIM))
def test_charges_are_what_is_claimed_of_each_part_by_the_first_cause(
    edges: list[list[int]], rows: list[tuple[int, int, int, int, int]]
) -> None:
    """Nanosecond by nanosecond: each belongs to one cause at most, within its part; so no part is charged with more
    than it is, and a negative one with nothing."""
    found = charged(_claims(rows), Edges(edges))
    wanted: dict[tuple[int, int, int], int] = {}
    for row, six in enumerate(edges):
        for where, name in enumerate(PLACES):
            begin, end = {"before": (-9, six[0]), "after": (six[5], 40)}.get(
                name, (six[min(where, 4)], six[min(where, 4) + 1])
            )
            for t in range(begin, end):
                causes = [one[2] for one in rows if one[:2] == (row, where) and one[3] <= t < one[4]]
                if causes:
                    key = row, where, min(causes)
                    wanted[key] = wanted.get(key, 0) + 1
    keys = list(zip(found.row.tolist(), found.place.tolist(), found.cause.tolist(), strict=True))
    assert keys == sorted(wanted)
    assert dict(zip(keys, found.ns.tolist(), strict=True)) == wanted


_SPENT = st.tuples(st.integers(0, 1), st.integers(0, len(CHARGES) - 1), *[st.integers(-5, 30)] * 2)


@given(
    st.lists(_CLAIM), st.lists(_SPENT), st.lists(st.tuples(st.integers(0, 1), *[st.integers(0, 25)] * 2), max_size=3)
)
def test_what_went_on_in_front_is_charged_as_if_it_were_claimed(
    rows: list[tuple[int, int, int, int, int]],
    spent: list[tuple[int, int, int, int]],
    waits: list[tuple[int, int, int]],
) -> None:
    """A wait is one claim, whatever went on meanwhile in front of it, and comes to what a claim for each of these would
    have: of op n that is what is known of way 1 - n."""
    edges = Edges([[0, 0, 0, 25, 25, 25]] * 3)
    columns = [np.array([one[i] for one in spent], dtype=np.int64) for i in range(4)]
    stretches = exclusive(columns[0], columns[1].astype(np.int8), columns[2], columns[3])
    one_each = {op: (begin, end) for op, begin, end in waits}
    server = place("server")
    waiting = [(op, server, WAITS, begin, end) for op, (begin, end) in one_each.items()]
    each = [
        (op, server, cause, max(begin, first), min(end, last))
        for op, (begin, end) in one_each.items()
        for way, cause, first, last in spent
        if way == 1 - op
    ]
    found = charged(_claims([*rows, *waiting]), edges, InFront(stretches, np.array([1, 0, -1])))
    wanted = charged(_claims([*rows, *each]), edges)
    assert [column.tolist() for column in found] == [column.tolist() for column in wanted]


_SPAN = st.tuples(st.integers(0, 2), st.integers(0, 20), st.integers(0, 20))


@given(st.lists(_SPAN), st.lists(_SPAN))
def test_what_overlaps_is_found(spans: list[tuple[int, int, int]], asked: list[tuple[int, int, int]]) -> None:
    """All pairs with a key and more than a moment in common, and no others; whatever is nested in what."""
    spans, asked = [one for one in spans if one[2] > one[1]], [one for one in asked if one[2] > one[1]]
    columns = [np.array([one[i] for one in rows], dtype=np.int64) for rows in (spans, asked) for i in range(3)]
    at, which = overlapping(*columns)
    wanted = [
        (a, b)
        for a, one in enumerate(spans)
        for b, other in enumerate(asked)
        if one[0] == other[0] and one[1] < other[2] and other[1] < one[2]
    ]
    assert sorted(zip(at.tolist(), which.tolist(), strict=True)) == wanted


# --- Tables made by hand ----------------------------------------------------------------------------------------------

# Connection 0: the client sent first, so calls go in direction 0 and replies in direction 1. Times in ms.
CALL_WAY, REPLY_WAY = 0, 1


def _pauses(*rows: dict[str, Any]) -> Pauses:
    usual = {
        "conn": 0, "reconnect": 0, "direction": REPLY_WAY, "frame": 1, "heard_ns": NULL, "ended": Ended.ACK,
        "went": Went.NEW, "in_message": 1, "offset": 50_000, "size": 1448, "size_before": 1448, "under_way": 20_000,
        "under_way_end": 0, "announced": 60_000, "window": 60_000, "window_least": 60_000, "window_end": 60_000,
        "duplicate_acks": 0, "is_tail": 0, "sent_ns": NULL,
    }  # fmt: skip
    made = [usual | row for row in rows]
    return Pauses.from_columns({name: [row[name] for row in made] for name in Pauses.columns()})


def _tcp() -> Tcp:
    usual = dict.fromkeys(Tcp.columns(), 0) | {
        "mss": 1448,
        "rtt_min_ns": MS // 10,
        "first_seq": 1000,
        "seq_span": 1 << 20,
    }
    rows = [
        usual | {"direction": way, "bytes": 1 << 20, "data_packets": 100, "largest_payload": 1448} for way in (0, 1)
    ]
    return Tcp.from_columns({name: [row[name] for row in rows] for name in Tcp.columns()})


def _pair(
    server: list[Op],
    client: list[Op],
    *,
    at_server: dict[str, Any] | None = None,
    at_client: dict[str, Any] | None = None,
) -> Charged:
    """Charges of ops in the same order on both sides; the clocks are the same, and a way takes 0.5 ms at least."""
    sides = []
    for rows, tables in ((server, at_server), (client, at_client)):
        sides.append(decoded(ops(*rows), details=replace(no_details(), **{"tcp": _tcp(), **(tables or {})})))
    count = np.arange(len(server), dtype=np.int32)
    parts = Parts(sides[0].ops, sides[1].ops, Matched(count, count), ConstantOffset(0))
    return charge(sides[0], sides[1], parts, (NOTHING_LOST, NOTHING_LOST), np.array([MS // 2]))


def _ms(found: Charged) -> dict[tuple[str, str], float]:
    """Summed charges but for the distance and what is not explained; each part is what it is made of."""
    sums = found.sums()
    for part, whole in zip(PART_NAMES, found.parts.all_ns(), strict=True):
        assert sum(one.ns for (where, _), one in sums.items() if where == part) == int(whole.sum())
    return {
        (where, cause.value): one.ns / MS for (where, cause), one in sums.items() if cause not in (None, Cause.DISTANCE)
    }


def _op(*ms: float, xid: int = 1) -> Op:
    return Op((ms[0], ms[1], ms[2], ms[3]), xid)


def test_a_reply_that_waits_for_a_delayed_ack_in_its_middle() -> None:
    """41 ms between two packets of a reply, ended by an ACK that came 40 ms late: they are in reply_send."""
    pause = {"begin_ns": 11 * MS, "end_ns": 52 * MS, "heard_ns": 52 * MS - 1000}
    found = _pair([_op(1, 1, 10, 60)], [_op(0, 0, 11, 61)], at_server={"pauses": _pauses(pause)})
    assert _ms(found) == {("reply_send", "delayed-ack"): 41}
    assert found.delayed_acks["reply_send"].tolist() == [41 * MS - 1000]


def test_a_closed_window_in_the_middle_of_a_reply_and_in_front_of_others() -> None:
    """The client does not read for 100 ms: the reply that is being sent stretches; the next one, ready at some moment,
    waits in the server's socket, which its response time shows and the server did not make."""
    pause = {
        "begin_ns": 10 * MS, "end_ns": 110 * MS, "heard_ns": 110 * MS - 1000, "ended": Ended.WINDOW, "window_least": 0,
    }  # fmt: skip
    first, second = _op(1, 1, 9, 111), _op(40, 40, 111, 111, xid=2)
    found = _pair(
        [first, second], [_op(0, 0, 10, 112), _op(39, 39, 112, 112, xid=2)], at_server={"pauses": _pauses(pause)}
    )
    # Behind the window there are the rest of the reply in front, sent for another ms.
    assert _ms(found) == {
        ("reply_send", "zero-window"): 100, ("server", "zero-window"): 70, ("server", "head-of-line"): 1,
    }  # fmt: skip


def test_a_call_that_waits_in_its_middle_and_one_in_front_of_the_wire() -> None:
    """What stops the client's socket lies in call_send; in front of a call's first byte it is no part of any SRT."""
    window = {"ended": Ended.WINDOW, "window_least": 0, "direction": CALL_WAY}
    rows = (
        {"begin_ns": 2 * MS, "end_ns": 22 * MS, "heard_ns": 22 * MS - 1000, **window},
        {"begin_ns": 30 * MS, "end_ns": 60 * MS, "heard_ns": 60 * MS - 1000, "in_message": 0, **window},
    )
    client = [_op(0, 25, 40, 40), _op(60, 60, 64, 64, xid=2)]
    found = _pair([_op(1, 26, 39, 39), _op(61, 61, 63, 63, xid=2)], client, at_client={"pauses": _pauses(*rows)})
    assert _ms(found) == {("call_send", "zero-window"): 20, ("before", "zero-window"): 30}


def test_a_silent_application_keeps_nobody_waiting_in_the_socket() -> None:
    """A pause that nothing on the wire explains, in front of a reply: the server had not answered yet."""
    pause = {"begin_ns": 10 * MS, "end_ns": 60 * MS, "ended": Ended.NOTHING, "in_message": 0, "under_way_end": 20_000}
    server = [_op(1, 1, 9, 10), _op(5, 5, 60, 60, xid=2)]
    found = _pair(server, [_op(0, 0, 10, 11), _op(4, 4, 61, 61, xid=2)], at_server={"pauses": _pauses(pause)})
    assert _ms(found) == {}


def test_pauses_that_the_other_side_shows_are_not_its_own() -> None:
    """Calls that come in at the server with a silence between them are no business of its socket."""
    pause = {
        "begin_ns": 5 * MS, "end_ns": 45 * MS, "heard_ns": 45 * MS - 1000, "direction": CALL_WAY, "ended": Ended.WINDOW,
        "window_least": 0,
    }  # fmt: skip
    for side in ("at_server", "at_client"):
        way = CALL_WAY if side == "at_server" else REPLY_WAY
        found = _pair(
            [_op(1, 1, 50, 50)], [_op(0, 0, 51, 51)], **{side: {"pauses": _pauses(pause | {"direction": way})}}
        )
        assert _ms(found) == {}


def test_what_had_arrived_waits_behind_a_hole() -> None:
    """A call in the server's time, a reply behind the client's last byte; without events the hole is a loss."""
    blocked = [
        Blocked.from_columns({"op": [0], "is_reply": [is_reply], "until_ns": [until * MS]})
        for is_reply, until in ((0, 31), (1, 75))
    ]
    missing = {"events_dropped": 1}
    found = _pair(
        [_op(1, 1, 40, 40)],
        [_op(0, 0, 41, 41)],
        at_server={"blocked": blocked[0], **missing},
        at_client={"blocked": blocked[1], **missing},
    )
    assert _ms(found) == {("server", "behind-loss"): 30, ("after", "behind-loss"): 34}
    assert found.ns_of(LOSSES, slice(0, 1)).tolist() == [30 * MS]


def test_a_small_reply_behind_a_large_one() -> None:
    """A reply that follows the last byte of one that was sent for 30 ms waited for it since its call came, at most; one
    that follows later did not, nor did one whose call came later."""
    server = [_op(0, 0, 10, 40), _op(15, 15, 40, 40, xid=2), _op(20, 20, 60, 60, xid=3), _op(60.5, 60.5, 61, 61, xid=4)]
    client = [_op(-1, -1, 11, 41), _op(14, 14, 41, 41, xid=2), _op(19, 19, 61, 61, xid=3), _op(60, 60, 62, 62, xid=4)]
    found = _pair(server, client)
    assert _ms(found) == {("server", "head-of-line"): 25}


def test_replies_behind_many_others() -> None:
    """Of 300 replies, sent for 1 ms each and right behind one another, each waits for those that were sent since its
    call came, and not for the gaps between them; a wait is one claim, however many it is for."""
    gap, depth, count = 0.01, 64, 300
    every = 1 + gap
    server, client = [], []
    for n in range(count):
        sent = 1 + n * every
        came = max(sent - depth * every, 0.5)
        server.append(_op(came, came, sent, sent + 1, xid=n))
        client.append(_op(came - 0.5, came - 0.5, sent + 0.5, sent + 1.5, xid=n))
    found = _pair(server, client)
    wanted = sum(min(n, depth) for n in range(count))
    assert _ms(found) == {("server", "head-of-line"): pytest.approx(wanted, abs=1e-6)}
    pair = Pair(found.parts.server, found.parts.client, found.parts.matched, found.parts.clock)
    quiet = Silences(_pauses(), np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int8))
    claims, socket, _ = socket_claims(pair, quiet, _tcp())
    assert len(claims.row) == len(socket.row) == count - 1


def test_a_silence_counts_once() -> None:
    """A client that did not run for 100 ms, and then got what had waited a second for something else: one pause."""
    times = [(-1, 0, 1110), (0, 1, 1112), (990, 1050, 1100), (991, 1060, 1101), (997, 998, 999)]
    server = [_op(asked + 0.6, asked + 0.6, sent, sent, xid=n) for n, (asked, sent, _) in enumerate(times)]
    client = [_op(asked, asked, came, came, xid=n) for n, (asked, _, came) in enumerate(times)]
    (pause,) = _pair(server, client).pauses
    assert (pause.side, pause.end_ns) == ("client", 1100 * MS)


@pytest.mark.parametrize("late", [0, 220])
def test_a_path_that_holds_what_a_host_waits_for(late: int) -> None:
    """Four replies that are due at 10 ms come at 310 ms. A client that is silent all the while did not run; one that
    sent another call 220 ms later, when it should have had them, did: then the path held them."""
    times = [(0.1 * n, 9 + 0.2 * n, 310 + 0.01 * n) for n in range(4)] + [(-9, -8, -7), (400, 401, 402)]
    times.append((10 + late, 310.5, 311) if late else (7.9, 8.2, 9))
    server = [_op(asked + 0.1, asked + 0.1, sent, sent, xid=n) for n, (asked, sent, _) in enumerate(times)]
    client = [_op(asked, asked, came, came, xid=n) for n, (asked, _, came) in enumerate(times)]
    found = _pair(server, client)
    assert [one.side for one in found.pauses] == ([] if late else ["client"])
    ms = _ms(found)
    assert set(ms) == {("reply_net", "held" if late else "host-pause")}
    whole = sum(came - sent - found.half_trip_ns / MS for _, sent, came in times[:4])
    assert sum(ms.values()) == pytest.approx(whole, rel=0.01)


def test_what_the_ack_of_a_recovery_releases() -> None:
    """Sent again after 210 ms, and once more 3 ms later; a reply whose call had come meanwhile, and which follows in a
    round trip, waited for all of it; one that comes after two more round trips does not."""
    usual = {"went": Went.REPEATED, "ended": Ended.NOTHING, "in_message": 0, "is_tail": 1, "under_way_end": 20_000}
    pauses = _pauses(
        usual | {"begin_ns": 10 * MS, "end_ns": 220 * MS, "sent_ns": 10 * MS},
        usual | {"begin_ns": 220 * MS, "end_ns": 223 * MS, "sent_ns": 10 * MS, "frame": 2},
    )
    for wait, lost in ((1, 209), (7, 0)):
        sent = 223 + wait
        server = [_op(1, 1, 10, 10), _op(15, 15, sent, sent, xid=2)]
        client = [_op(0, 0, 11, 11), _op(14, 14, sent + 1, sent + 1, xid=2)]
        tcp = replace(_tcp(), rtt_count=np.full(len(_tcp()), 10), rtt_sum_ns=np.full(len(_tcp()), 30 * MS))
        found = _pair(server, client, at_server={"pauses": pauses, "tcp": tcp})
        losses = {cause.value for cause in LOSSES}
        charges = {cause: total for (part, cause), total in _ms(found).items() if part == "server" and cause in losses}
        assert sum(charges.values()) == pytest.approx(lost)


def test_the_distance_is_what_is_left_of_both_ways() -> None:
    """Half of the shortest round trip each, never more than the part; a negative part is charged with nothing."""
    server = [_op(1, 1, 2, 2), _op(11, 11, 12, 12, xid=2), _op(19, 19, 22, 22, xid=3)]
    client = [_op(0, 0, 3, 3), _op(10.8, 10.8, 13, 13, xid=2), _op(20, 20, 24, 24, xid=3)]
    found = _pair(server, client)
    assert found.half_trip_ns == MS // 2
    assert (found.distance_ns("call_net") / MS).tolist() == [0.5, 0.2, 0]
    assert (found.distance_ns("reply_net", np.array([2])) / MS).tolist() == [0.5]
    assert _ms(found) == {}
    assert (found.ns_of(frozenset({Cause.DISTANCE}), slice(0, 2)) / MS).tolist() == [1.0, 0.7]


def test_codes_stand_for_causes_and_places() -> None:
    """There and back."""
    assert [CAUSES[code(cause)] for cause in Cause] == list(Cause)
    assert [PLACES[place(name)] for name in PLACES] == list(PLACES)


# --- Simulated paths --------------------------------------------------------------------------------------------------


def _correlated(made: Simulated, folder: Path) -> Analysis:
    return _of(*made.run().write(folder), folder)


def _of(server: Path, client: Path, folder: Path) -> Analysis:
    def no_tools() -> Any:
        raise AssertionError("Wireshark's tools are not needed for this")

    engine = choose("native", no_tools, folder, rereads=False)
    return analyse(correlate(
        engine.open(str(server)), engine.open(str(client)), engine, filters=Filters(), srt="nfslat", may_swap=True,
        progress=lambda _: None,
    ))  # fmt: skip


def _charged(made: Simulated, folder: Path) -> tuple[Charged, dict[tuple[str, str], float]]:
    """Charges, and their means over the ops."""
    c = _correlated(made, folder)
    assert c.charges is not None
    return c.charges, {key: total / len(c.matched) for key, total in _ms(c.charges).items()}


@pytest.mark.parametrize(
    "made",
    [
        Simulated(ops=150),
        Simulated(ops=150, workers=32, delay_ms=10, jitter_ms=8, segment=1448),
        Simulated(ops=150, workers=32, delay_ms=20, service_ms=0.2),
        Simulated(ops=150, think_ms=5, jitter_ms=2),
        Simulated(ops=150, mbit=100, think_ms=30, segment=1448),
    ],
    ids=["near", "jitter", "far", "idle", "a link that is not full"],
)
def test_nothing_is_charged_where_nothing_is_wrong(made: Simulated, tmp_path: Path) -> None:
    """Distance, delay that comes and goes, and a server that takes its time are no stalls, and no full path."""
    found, means = _charged(made, tmp_path)
    assert not found.plateaus
    assert not found.pauses
    assert {cause for _, cause in means} <= {"held"}
    assert sum(means.values()) < 0.01 * found.parts.all_ns()[2].mean() / MS + 0.02


@pytest.mark.parametrize(
    ("mbit", "segment", "others"),
    [
        (10, 1448, {}),
        (20, 8320, {}),
        (50, 1448, {"delay_ms": 5, "workers": 32}),
        (100, 1448, {"workers": 32, "ops": 300}),
        (20, 1448, {"cwnd": 30_000}),
        (20, 1448, {"jitter_ms": 3.0}),
    ],
)
def test_a_path_that_is_full(mbit: float, segment: int, others: dict[str, Any], tmp_path: Path) -> None:
    """Its rate is found, to the headers, and what it costs: nearly all beyond the distance and the server's own time.
    With a small window the replies wait in the server's socket, and their time is the path's as well."""
    made = Simulated(**{"ops": 200, "mbit": mbit, "segment": segment, **others})
    found, means = _charged(made, tmp_path)
    (plateau,) = found.plateaus
    assert isinstance(plateau, Plateau)
    assert plateau.way == "reply"
    payload = 8320 / (-(-8324 // segment) * segment)  # of what the line was kept busy with
    assert plateau.bytes_per_s * 8 / 1e6 == pytest.approx(mbit * payload, rel=0.05)
    server_ms = found.parts.ns("server").mean() / MS
    socket_ms = made.in_socket_ms / len(found.parts.matched)
    assert means.get(("server", "bandwidth"), 0.0) == pytest.approx(socket_ms, abs=0.1 * socket_ms + made.service_ms)
    assert server_ms - means.get(("server", "bandwidth"), 0.0) < 2 * made.service_ms
    unexplained = found.sums()["reply_net", None].ns
    assert unexplained < 0.05 * found.net_ns["reply_net"].sum()


@pytest.mark.parametrize(("made", "mbit"), [
    (Simulated(ops=300, mbit=20, segment=1448), 20 * 8320 / (6 * 1448)),
    # No queue; and ACKs that take long where messages do not.
    (Simulated(ops=300, delay_ms=20, service_ms=0.2), None),
], ids=["full", "far"])  # fmt: skip
def test_a_path_that_is_full_and_shows_few_messages(made: Simulated, mbit: float | None, tmp_path: Path) -> None:
    """Three messages alone are too few to show a rate; TCP's round trips tell that all data stood in a queue, and what
    arrived in all that time shows it."""
    c = _correlated(made, tmp_path)
    few = c.matched.take(np.arange(100, 112, 4))
    parts = Parts(c.parts.server, c.parts.client, few, c.clock)
    found = charge(c.server.decoded, c.client.decoded, parts, (NOTHING_LOST, NOTHING_LOST), np.array([MS // 10]))
    rates = [one.bytes_per_s * 8 / 1e6 for one in found.plateaus]
    assert rates == ([pytest.approx(mbit, rel=0.05)] if mbit else [])
    share = sum(one.ns for (_, cause), one in found.sums().items() if cause is Cause.BANDWIDTH)
    assert (share > 0.8 * sum(int(part.sum()) for part in parts.all_ns())) == (mbit is not None)


def test_packets_that_were_merged() -> None:
    """Half of the bytes came in packets of ten segments: what passes at once is more than twice the mean packet."""
    tcp = replace(_tcp().take(np.array([0])), data_packets=np.array([110]), bytes=np.array([20 * 14_480 // 2]),
                  super_packets=np.array([10]), largest_payload=np.array([14_480]), mss=np.array([1448]))  # fmt: skip
    assert packet_bytes(tcp) == pytest.approx(2 * 144_800 / 110)  # nothing is left for the merged ones
    tcp = replace(tcp, bytes=np.array([289_600]))
    assert packet_bytes(tcp) == pytest.approx((14_480 + 1448) / 2)
    tcp = replace(tcp, super_packets=np.array([0]))
    assert packet_bytes(tcp) == pytest.approx(2 * 289_600 / 110)


@pytest.mark.parametrize("seed", range(5))
def test_merged_packets_at_random_are_no_full_path(seed: int) -> None:
    """However wide the windows: random arrivals are uneven by more than a few packets, those of a shaper are not."""
    rng, packet, stretch, count = np.random.default_rng(seed), 14_480, 10 * MS, 400
    waits = Late(np.zeros(1, dtype=np.int64), np.full(1, 50 * MS), np.ones(1, dtype=np.int64), 0)
    queues = rate._Queues(np.zeros(1, dtype=np.int64), np.full(1, count * stretch))
    for packets, is_full in ((rng.poisson(8, count), False), (8 + rng.integers(-1, 2, count), True)):
        loads = Loads(
            np.zeros(count, dtype=np.int32), np.ones(count, dtype=np.int8), np.arange(count) * stretch, packets * packet
        )
        found = rate._plateau(loads, queues, float(packet), waits)
        assert (found is not None) == is_full


def test_a_full_path_of_others(tmp_path: Path) -> None:
    """While the path to one client is full, replies to another one wait behind a large one in the server's socket: that
    is no wait for the path of the first."""
    full = Simulated(ops=200, mbit=20, segment=1448, cwnd=30_000).run()
    lines = list(full.lines)
    for i in range(4):
        t, xid = 20 + 100 * i, 9000 + 2 * i
        times = [t + 1 + 0.5 * k for k in range(64)]
        lines += [
            f"{t} > {t + 0.1} READ {xid} 0 524288 conn=b",
            f"{t + 5} > {t + 5.1} GETATTR {xid + 1} conn=b",
            f"{','.join(map(str, times))} < {','.join(f'{at + 0.1:.3f}' for at in times)} reply {xid} conn=b",
            f"{times[-1] + 0.01:.3f} < {times[-1] + 0.11:.3f} reply {xid + 1} conn=b",
        ]
    sees = {"sees": {"b": "10.0.0.3:701 > 10.0.0.2:2049"}}
    made = {"purpose": "two clients", "timeline": "\n".join(lines), "server": sees, "client": sees, "expect": {}}
    c = _of(*Scenario(made).write(tmp_path), tmp_path)
    assert c.charges is not None
    assert [one.client for one in c.charges.plateaus] == ["10.0.0.1"]
    of_other = np.flatnonzero(c.client.ops.xid[c.matched.client] >= 9000)
    causes = {(part, cause) for (part, cause), one in c.charges.sums(of_other).items() if cause and one.ns}
    assert causes == {("server", Cause.HEAD_OF_LINE), ("call_net", Cause.DISTANCE), ("reply_net", Cause.DISTANCE)}
    assert ("server", Cause.BANDWIDTH) in c.charges.sums()


def test_stamps_that_are_half_a_century_off(tmp_path: Path) -> None:
    """The first packets of both captures are of 1970: what there is to keep goes by the packets, not by the years."""
    files = Simulated(ops=200, mbit=20, segment=1448).run().write(tmp_path)
    for file in files:
        data, at = bytearray(file.read_bytes()), 24
        for _ in range(60):
            struct.pack_into("<I", data, at, 100)
            at += 16 + int(struct.unpack_from("<I", data, at + 8)[0])
        file.write_bytes(data)
    c = _of(*files, tmp_path)
    assert c.charges is not None
    _ms(c.charges)
    assert int((c.client.ops.t3 - c.client.ops.t0).max()) > 50 * 365 * 86_400 * 10**9


def test_rows_that_are_not_kept_are_told(tmp_path: Path) -> None:
    """Where pauses, blocked messages or stretches of payload were too many charges are too low; the audit says so."""
    side = _correlated(Simulated(ops=20), tmp_path).client
    details = replace(side.decoded.details, pauses_dropped=1, blocked_dropped=20, loads_dropped=300)
    cut = replace(side, decoded=replace(side.decoded, details=details))
    gaps = np.zeros(len(side.ops.connections), dtype=np.int64)
    notes = [{one.code: one for one in capture_notes(CaptureTally.of(of, gaps, "client", None))} for of in (side, cut)]
    (code_of,) = notes[1].keys() - notes[0].keys()
    assert (code_of, notes[1][code_of].severity, notes[1][code_of].count) == ("capture-stalls-dropped", "warning", 321)


def test_packets_that_overtake_each_other(tmp_path: Path) -> None:
    """A fourth of all packets is 5 ms late: who waits for bytes of its own, or in front of it, waits for reordering."""
    rng, lines = random.Random(3), []
    for xid in range(1, 200):
        begin = 2.0 * xid
        arrived = begin + 0.1 + 5 * (rng.random() < 0.25)
        ready = arrived + 0.5
        pieces = [ready + 0.1 + 0.002 * i + 5 * (rng.random() < 0.25) for i in range(6)]
        lines.append(f"{begin:.6f} > {arrived:.6f} READ {xid} 0 8192")
        sent, came = (",".join(f"{t:.6f}" for t in times) for times in ([ready + 0.002 * i for i in range(6)], pieces))
        lines.append(f"{sent} < {came} reply {xid}")
    files = Scenario({"purpose": "reordering", "timeline": "\n".join(lines), "expect": {}}).write(tmp_path)
    c = _of(*files, tmp_path)
    assert c.charges is not None
    means = {key: total / len(c.matched) for key, total in _ms(c.charges).items()}
    late = {part: c.charges.net_ns[part].mean() / MS - c.charges.half_trip_ns / MS for part in NET}
    assert means["call_net", "reordering"] == pytest.approx(late["call_net"], rel=0.1)
    assert means["reply_net", "reordering"] == pytest.approx(late["reply_net"], rel=0.1)
    assert means["server", "reordering"] > 0.1
    assert sum(total for (_, cause), total in means.items() if cause != "reordering") < 0.05


def test_a_client_that_does_not_run(tmp_path: Path) -> None:
    """300 ms in which it neither takes nor sends: the replies that were on the way to it piled up."""
    found, means = _charged(Simulated(ops=300, stop=(60.0, 300.0), think_ms=2), tmp_path)
    (pause,) = found.pauses
    assert pause.side == "client"
    assert (pause.end_ns - pause.begin_ns) / MS == pytest.approx(300, abs=5)
    assert set(means) == {("reply_net", "host-pause")}
    (charged_ops,) = [one.ops for (_, cause), one in found.sums().items() if cause is Cause.HOST_PAUSE]
    assert charged_ops == np.count_nonzero(found.net_ns["reply_net"] > 5 * MS)


def test_a_server_that_does_not_run(tmp_path: Path) -> None:
    """What was on the way to it, and what it had in hand: both waited for the host."""
    made = Simulated(ops=300, stop=(60.0, 300.0), stopped="server", think_ms=8.0, service_ms=5.0)
    found, means = _charged(made, tmp_path)
    (pause,) = found.pauses
    assert pause.side == "server"
    assert (pause.end_ns - pause.begin_ns) / MS == pytest.approx(300, abs=5)
    assert set(means) == {("call_net", "host-pause"), ("server", "host-pause")}
    assert 6 * 300 < sum(means.values()) * 300 < 8 * 300  # eight workers, some of which would have thought meanwhile


def test_replies_that_are_lost(tmp_path: Path) -> None:
    """Each loss is charged by what told of it, and those behind it wait at the client, in no SRT."""
    made = Simulated(ops=250, loss=0.01, segment=1448)
    found, means = _charged(made, tmp_path)
    assert made.lost > 10
    assert {key for key in means if key[0] in (*NET, "after")} >= {
        ("reply_net", "fast-retransmit"),
        ("after", "behind-loss"),
    }
    assert {cause for _, cause in means} <= {cause.value for cause in LOSSES}
    waits = sum(total for (part, _), total in means.items() if part == "reply_net")
    excess = (found.net_ns["reply_net"] - found.half_trip_ns).sum() / MS / len(found.parts.matched)
    assert waits == pytest.approx(excess, rel=0.1)


def test_what_is_not_known_is_not_charged(tmp_path: Path) -> None:
    """Without the tables of the native engine there is nothing to say, which is not nothing to charge."""
    c = _correlated(Simulated(ops=20), tmp_path)
    blind = replace(c.client, decoded=replace(c.client.decoded, details=no_details()))
    assert c.charges is not None
    assert analyse(replace(c, client=blind)).charges is None
