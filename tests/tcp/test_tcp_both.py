"""Two traces of one path: what of it is in both, what was lost, which end is which."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from timeline import MS, Line, Timeline

from nfslat.errors import InputError
from nfslat.tcp.both import Both, correlate
from nfslat.tcp.packets import Trace
from nfslat.tcp.passage import Fate


def _moved(trace: Trace, *, there_ms: float = 0, back_ms: float = 0, clock_ms: float = 0) -> Trace:
    """What a capture at the other end shows: packets come later, or were earlier, and its clock is another one."""
    p = trace.packets
    t_ns = p.t_ns + np.where(p.direction == 0, round(there_ms * MS), round(back_ms * MS)) + round(clock_ms * MS)
    order = np.argsort(t_ns, kind="stable")
    moved = dataclasses.replace(p, t_ns=t_ns).take(order)
    moved = dataclasses.replace(moved, frame=np.arange(1, len(p) + 1, dtype=np.int32))
    return dataclasses.replace(trace, packets=moved, first_ns=int(moved.t_ns[0]), last_ns=int(moved.t_ns[-1]))


def _turns(count: int = 20, line: Timeline | None = None) -> Timeline:
    line = line or Timeline()
    line.handshake(0, rtt_ms=20)
    for turn in range(count):
        line.send(30 + 50 * turn, ">", 100)
        line.send(52 + 50 * turn, "<", 1000)
    return line


def _far(trace: Trace) -> Trace:
    return _moved(trace, there_ms=10, back_ms=-10, clock_ms=5000)


def _at_both_ends(line: Timeline, *lost: Line, unseen: Line | None = None) -> Both:
    """`lost` never reach the other end; the server's capture drops `unseen`."""
    at_server = line.trace(
        without=[
            one for one in (*lost, unseen) if one is not None and ((one in lost and one.way == ">") or one is unseen)
        ]
    )
    return correlate(line.trace(), _far(at_server))


@pytest.mark.parametrize("turned", [False, True])
def test_packets_and_clocks_of_both_ends_are_found_in_either_order(turned: bool) -> None:
    """All packets are in both, the round trip and theta are exact, and each direction's sender is at the right end."""
    near = _turns().trace()
    both = correlate(_far(near), near) if turned else correlate(near, _far(near))
    (pair,) = both.pairs
    assert set(abs(pair.trips_ns)) == {20 * MS}
    assert [passage.sender for passage in pair.passages] == ([1, 0] if turned else [0, 1])
    assert [sum(passage.fates[0].values()) for passage in pair.passages] == [22, 21]
    assert all(set(fates) == {Fate.SAME} for passage in pair.passages for fates in passage.fates)
    assert both.theta is not None
    low, high = both.theta.clock.main.bounds_at(0)
    assert low <= (-5000 if turned else 5000) * MS <= high


def test_what_was_sent_again_and_arrived_once_was_lost() -> None:
    """The first copy is lost, the second is in both; nothing is said to be missed or doubled."""
    line = _turns()
    first = line.send(2000, ">", 300)
    line.send(2300, ">", 300, seq=first.seq)
    line.ack(2321, "<")
    both = _at_both_ends(line, first)
    there = both.pairs[0].passages[0]
    assert (there.lost_bytes, there.missed_bytes, there.surplus_bytes) == (300, 0, 0)
    assert there.fates[0][Fate.LOST] == 1
    assert Fate.LOST not in there.fates[1]


def test_a_retransmission_for_nothing_is_in_both() -> None:
    """Both copies arrived, so nothing was lost."""
    line = _turns()
    first = line.send(2000, ">", 300)
    line.send(2300, ">", 300, seq=first.seq)
    line.ack(2321, "<")
    there = _at_both_ends(line).pairs[0].passages[0]
    assert (there.lost_bytes, there.fates[0]) == (0, there.fates[1])


def test_what_was_acknowledged_and_never_seen_was_not_captured() -> None:
    """The receiver has it, for it says so; only its capture has not."""
    line = _turns()
    missed = line.send(2000, ">", 300)
    line.ack(2021, "<")
    there = _at_both_ends(line, unseen=missed).pairs[0].passages[0]
    assert (there.lost_bytes, there.missed_bytes) == (0, 300)
    assert there.fates[0][Fate.NOT_CAPTURED] == 1


def test_offload_cuts_packets_up_and_nothing_is_lost() -> None:
    """One large packet at the sender is four at the receiver: the same bytes."""
    near, far = _turns(), _turns()
    near.send(2000, ">", 4000)
    for piece in range(4):
        far.send(2000 + piece / 100, ">", 1000)
    for line in (near, far):
        line.ack(2021, "<")
    both = correlate(near.trace(), _far(far.trace()))
    there = both.pairs[0].passages[0]
    assert (there.lost_bytes, there.missed_bytes, there.surplus_bytes) == (0, 0, 0)
    assert (there.fates[0][Fate.RECUT], there.fates[1][Fate.RECUT]) == (1, 4)


def test_addresses_that_are_rewritten_do_not_hide_a_conversation() -> None:
    """NAT: only the numbers are the same."""
    near, far = _turns(), _turns(line=Timeline(client=("192.0.2.7", 61_000)))
    both = correlate(near.trace(), _far(far.trace()))
    assert both.pairs[0].passages[0].fates[0] == {Fate.SAME: 22}


def test_numbers_that_are_rewritten_do_not_hide_a_conversation() -> None:
    """A firewall that chooses sequence numbers anew: only the endpoints and the positions are the same."""
    near, far = _turns(), _turns(line=Timeline(isn=(77_000, 99_000)))
    both = correlate(near.trace(), _far(far.trace()))
    assert both.pairs[0].passages[0].fates[0] == {Fate.SAME: 22}


def test_packets_while_the_other_capture_did_not_run_are_named() -> None:
    """The second capture stops half way: the rest of the first is outside, not lost."""
    line = _turns()
    both = correlate(line.trace(), _far(line.trace(without=line.in_order()[23:])))
    there = both.pairs[0].passages[0]
    assert there.lost_bytes == 0
    assert there.fates[0][Fate.OUTSIDE] == 10
    assert sum(there.fates[0].values()) == 22


def test_traces_without_a_common_conversation_are_refused() -> None:
    """One line says so."""
    with pytest.raises(InputError, match="no TCP conversation in common"):
        correlate(_turns().trace(), _turns(line=Timeline(client=("192.0.2.7", 61_000), isn=(9, 99))).trace())


@given(st.sets(st.integers(0, 19)), st.sets(st.integers(0, 19)), st.booleans())
def test_the_packets_of_each_capture_add_up(lost: set[int], unseen: set[int], turned: bool) -> None:
    """Whatever is lost, sent again or not captured: every packet has one fate, the bytes lost are right."""
    line = Timeline()
    line.handshake(0, rtt_ms=20)
    gone = []
    for turn in range(20):
        first = line.send(100 * turn + 30, ">", 100)
        if turn in lost:
            gone.append(first)
            line.send(100 * turn + 60, ">", 100, seq=first.seq)
        elif turn in unseen:
            gone.append(first)
        line.send(100 * turn + 90, "<", 500)
    near, far = line.trace(), _far(line.trace(without=gone))
    both = correlate(far, near) if turned else correlate(near, far)
    there = both.pairs[0].passages[0]
    for side in (0, 1):
        packets = both.traces[side].packets
        assert sum(there.fates[side].values()) == int(np.count_nonzero(packets.direction == 0))
    assert there.lost_bytes == 100 * len(lost)
    assert there.missed_bytes == 100 * len(unseen - lost)
    assert there.surplus_bytes == 0
