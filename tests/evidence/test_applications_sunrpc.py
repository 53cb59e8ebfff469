"""Tracepoints of the kernel's RPC -> rows by XID, and the rows that belong to the ops of a capture."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from captures import SHARED, Decoder, needs_captures
from hypothesis import given
from hypothesis import strategies as st

from nfslat.evidence.read import read
from nfslat.evidence.sunrpc_join import join
from nfslat.evidence.sunrpc_trace import SunrpcTrace, parse
from nfslat.evidence.sunrpc_trace import read as read_trace

DATA = Path(__file__).parent / "data"
S, MS, US = 10**9, 10**6, 1000


def trace_of(*rows: tuple[int, int, int]) -> SunrpcTrace:
    """Rows (XID, when it was sent in us, backlog in us) of a client, with 100 us on the wire."""
    lines = [
        f"a-1 [0] {(at + 105) // 10**6}.{(at + 105) % 10**6:06}: rpc_stats_latency: task:1@2 xid=0x{xid:08x} "
        f"nfsv3 READ backlog={backlog} rtt=100 execute={backlog + 105}\n"
        for xid, at, backlog in rows
    ]
    return parse(lines)


def ops(*pairs: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """(XID, ns) of ops as columns."""
    return np.array([xid for xid, _ in pairs], np.uint32), np.array([at for _, at in pairs], np.int64)


TAKEN = """\
            nfsd-84      [000] ..... 10.000100: svc_xprt_dequeue: server=1.1.1.1:2049 client=1.1.1.2:9 flags=BUSY|DATA wakeup-us=6
            nfsd-85      [000] ..... 10.000150: svc_xprt_dequeue: server=1.1.1.1:2049 client=1.1.1.2:9 flags=BUSY|DATA wakeup-us=7
            nfsd-84      [000] ..... 10.000200: svc_stats_latency: xid=0x00000001 server=1.1.1.1:2049 client=1.1.1.2:9 proc=READ execute-us=90
            nfsd-84      [000] ..... 10.000300: svc_xprt_dequeue: server=1.1.1.1:2049 client=1.1.1.2:9 flags=BUSY|DATA wakeup-us=206
            nfsd  85     [000] 10.000400: sunrpc:svc_stats_latency: xid=0x00000002 server=1.1.1.1:2049 proc=READ execute-us=200
            nfsd-84    (     84) [000] ..... 10.000500: svc_stats_latency: xid=0x00000003 server=1.1.1.1:2049 client=1.1.1.2:9 proc=READ execute-us=190
            nfsd-84      [000] ..... 10.000700: svc_xprt_dequeue: server=1.1.1.1:2049 client=1.1.1.2:9 flags=BUSY|DATA wakeup-us=50
            nfsd-84      [000] ..... 10.000800: svc_xprt_dequeue: server=1.1.1.1:2049 client=1.1.1.2:9 flags=BUSY|DATA wakeup-us=20
            nfsd-84      [000] ..... 10.000900: svc_stats_latency: xid=0x00000004 server=1.1.1.1:2049 client=1.1.1.2:9 proc=WRITE execute-us=90
            nfsd-84      [000] ..... 10.001000: svc_stats_latency: xid=0x00000005 server=1.1.1.1:2049 client=1.1.1.2:9 proc=READ execute-us=9
"""  # noqa: E501 - as the kernel prints them


def test_when_a_thread_took_a_call_and_what_woke_it() -> None:
    """Each answer belongs to what its thread took last; a thread that did not sleep was not woken for the call."""
    trace = parse(TAKEN.splitlines(keepends=True))
    us = [-1 if taken < 0 else taken // US - 10_000_000 for taken in trace.taken_ns.tolist()]
    assert dict(zip(trace.xid.tolist(), us, strict=True)) == {1: 100, 2: 150, 3: 300, 4: 800, 5: -1}
    # Nothing tells of a thread's first call whether it slept before it; call 4 came in two pieces.
    assert trace.wakeup_us.tolist() == [-1, -1, -1, 20, -1]


def test_a_dequeue_that_is_cut_is_no_dequeue() -> None:
    """The end of the file in the middle of a number: what a thread took is not known then."""
    lines = TAKEN.splitlines(keepends=True)
    trace = parse([lines[0].rstrip("\n"), lines[2]])
    assert (trace.taken_ns.tolist(), trace.unreadable) == ([-1], 0)


@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 3)), max_size=40), st.integers(0, 2**32 - 1))
def test_threads_do_not_mix_up_their_calls(steps: list[tuple[int, int]], first: int) -> None:
    """However threads take turns: an answer has the time of what its own thread took last, once."""
    lines = ["a-1 [0] 0.000001: svc_stats_latency: xid=0x00000000 execute-us=1\n"]
    held: dict[int, int] = {}
    true = [-1]
    for at, (thread, pieces) in enumerate(steps, 1):
        head = f"nfsd-{thread} [000] ..... {at}."
        if thread in held:
            lines.append(f"{head}5: svc_stats_latency: xid=0x{(first + at) % 2**32:08x} execute-us=1\n")
            true.append(held.pop(thread))
        else:
            lines += [f"{head}{piece}: svc_xprt_dequeue: wakeup-us=9\n" for piece in range(pieces)]
            held[thread] = at * S + (pieces - 1) * 100 * MS
    assert parse(lines).taken_ns.tolist() == true


def test_ops_are_found_whatever_the_clocks_say() -> None:
    """A trace counts since boot, a capture since 1970: the median of the differences puts them together."""
    trace = trace_of((1, 1000, 0), (2, 2000, 500), (3, 3000, 0))
    joined = join(trace, *ops((3, 10**18 + 3 * MS), (1, 10**18 + MS), (9, 10**18)))
    assert joined.row.tolist() == [2, 0, -1]
    assert joined.backlog_us.tolist() == [0, 0, -1]
    assert (joined.ambiguous, joined.missing) == (0, 1)


def test_the_sending_is_what_is_compared_not_the_end() -> None:
    """An RPC that waited 40 ms for a slot was on the wire at its end less the round trip."""
    trace = trace_of((1, 50_000, 40_000))
    assert trace.begin_ns.tolist() == [50_000 * US]


def test_an_xid_that_comes_back_is_told_by_time() -> None:
    """The offset is known from the others; the second occurrence is a minute later."""
    rows = [(number, number * 100, 0) for number in range(1, 20)] + [(7, 60_000_000, 900)]
    trace = trace_of(*rows)
    joined = join(trace, *ops((7, 60 * S + 5 * US), (7, 700 * US), *((xid, at * US) for xid, at, _ in rows[:5])))
    assert joined.row.tolist()[:2] == [19, 6]
    assert joined.backlog_us.tolist()[0] == 900
    assert joined.ambiguous == 0


def test_two_candidates_at_one_time_are_never_a_guess() -> None:
    """Two clients use one XID at once: both ops are ambiguous, and counted."""
    rows = [(number, number * 100, 0) for number in range(1, 20)] + [(7, 702, 900)]
    joined = join(trace_of(*rows), *ops((7, 701 * US), (7, 701 * US), (1, 100 * US), (2, 200 * US)))
    assert joined.row.tolist() == [-1, -1, 0, 1]
    assert (joined.ambiguous, joined.missing) == (2, 0)


def test_an_xid_far_away_in_time_is_another_rpc() -> None:
    """An hour later nothing of this RPC can be on its way."""
    rows = [(number, number * 100, 0) for number in range(1, 20)] + [(77, 3_600_000_000, 0)]
    joined = join(trace_of(*rows), *ops((77, 0), *((xid, at * US) for xid, at, _ in rows[:19])))
    assert joined.row.tolist()[0] == -1
    assert joined.missing == 1


def test_a_clock_that_counts_no_seconds_joins_what_occurs_once() -> None:
    """trace_clock "counter" and "x86-tsc" print whole numbers."""
    lines = [
        f"a-1 [0] {at}: rpc_stats_latency: task:1@2 xid=0x{xid:08x} nfsv3 READ backlog=1 rtt=2 execute=3\n"
        for xid, at in ((5, 100), (6, 200), (6, 300))
    ]
    trace = parse(lines)
    assert trace.t_ns.tolist() == [-1, -1, -1]
    joined = join(trace, *ops((5, S), (6, 2 * S)))
    assert joined.row.tolist() == [0, -1]
    assert (joined.ambiguous, joined.missing) == (1, 0)
    assert any("does not count seconds" in note for note in read_trace(lines, "x").notes)


def test_sides_are_kept_apart() -> None:
    """One host may be client and server: its rows are looked for on the side that is asked for."""
    trace = read(str(DATA / "app_sunrpc.txt")).record
    assert trace is not None
    calls = ops((0x260EAB5D, 975_040_050 * US), (0x260EAB5E, 975_048_000 * US))
    assert join(trace, *calls).execute_us.tolist() == [41026, 2032]
    assert join(trace, *calls, server=True).execute_us.tolist() == [900, 1900]
    assert join(trace, *calls, server=True).backlog_us.tolist() == [-1, -1]


TIMES = st.integers(0, 4 * 10**12)
ROWS = st.lists(st.tuples(st.integers(0, 5), TIMES, st.integers(0, 10**9)), min_size=1, max_size=30)
CALLS = st.lists(st.tuples(st.integers(0, 5), st.integers(-(2**61), 2**61)), max_size=30)


@given(ROWS, CALLS, st.booleans())
def test_every_op_has_a_row_or_is_counted(
    rows: list[tuple[int, int, int]], calls: list[tuple[int, int]], server: bool
) -> None:
    """No row for two ops, a row only with the op's XID, and the three counts add up."""
    trace = trace_of(*rows)
    xid, t_ns = ops(*calls)
    joined = join(trace, xid, t_ns, server=server)
    found = joined.row[joined.row >= 0]
    assert len(np.unique(found)) == len(found)
    assert (trace.xid[found] == xid[joined.row >= 0]).all()
    assert len(found) + joined.ambiguous + joined.missing == len(calls)
    if server:
        assert not len(found)


@given(
    st.lists(st.tuples(st.integers(0, 2**32 - 1), TIMES), min_size=1, max_size=30, unique_by=lambda row: row[0]),
    st.randoms(),
)
def test_ops_whose_xids_occur_once_are_all_found(rows: list[tuple[int, int]], random: object) -> None:
    """In any order, on any clock."""
    trace = trace_of(*((xid, at, 0) for xid, at in rows))
    shuffled = list(enumerate(rows))
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    joined = join(trace, *ops(*((xid, at * US + 17 * S) for _, (xid, at) in shuffled)))
    assert joined.row.tolist() == [number for number, _ in shuffled]


def test_no_ops_and_no_rows_of_that_side() -> None:
    """Nothing to join is no problem."""
    trace = trace_of((1, 1, 1))
    assert len(join(trace, *ops()).row) == 0
    assert join(trace, *ops((1, 1)), server=True).missing == 1


@needs_captures
@pytest.mark.parametrize("lab", ["b4_v3_rpc_retransmit", "c_v3_slots2", "n_v3_nfsd_restart"])
@pytest.mark.parametrize("side", ["client", "server"])
def test_every_op_of_a_real_capture_finds_its_own_line(decoder: Decoder, lab: str, side: str) -> None:
    """Traces made for real ops, with waits at random: resends and a restart of the server do not mislead."""
    made = decoder.side("native", SHARED / "lab" / lab / f"{side}.pcap.gz").ops
    waits = np.random.default_rng(3).integers(0, 400_000, len(made))
    server = side == "server"
    since_ns = made.t1 if server else made.t0
    end_us = (made.t2 if server else made.t3) // US - int(made.t0.min()) // US + 7_000_000
    took_us = end_us - (since_ns // US - int(made.t0.min()) // US + 7_000_000)
    lines = {}
    for row in np.argsort(end_us, kind="stable").tolist():
        xid, end, took, wait = int(made.xid[row]), int(end_us[row]), int(took_us[row]), int(waits[row])
        at = f"x-1 [0] {end // 10**6}.{end % 10**6:06}:"
        if server:  # a thread has the call at some time between its arrival and its answer
            lines[row] = f"{at} svc_stats_latency: xid=0x{xid:08x} proc=READ execute-us={took * wait // 400_000}\n"
        else:
            waited = f"backlog={wait} rtt={took} execute={wait + took}"
            lines[row] = f"{at} rpc_stats_latency: task:1@2 xid=0x{xid:08x} nfsv3 READ {waited}\n"
    joined = join(parse(lines.values()), made.xid, since_ns, server=server)
    assert np.array(list(lines))[joined.row].tolist() == list(range(len(made)))
    assert (joined.ambiguous, joined.missing) == (0, 0)
