"""What TCP did in blocks, joined: the same however the blocks are joined, and lost is what did not arrive."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nfslat.tally.transport import Direction, TransportTally
from nfslat.wire.transport import Amount, Caveat, Way

amounts = st.builds(Amount, st.integers(0, 9), st.none() | st.integers(0, 9), st.integers(0, 5000))


@st.composite
def tallies(draw: st.DrawFn) -> TransportTally:
    """Of a block in which some of three connections have data."""
    if draw(st.integers(0, 9)) == 0:
        return TransportTally(None)
    found = {}
    for conn in draw(st.sets(st.integers(0, 2))):
        ends = draw(st.permutations([f"c:{conn}", f"s:{conn}"]))
        for way in draw(st.sets(st.sampled_from(Way))):
            found[min(ends), max(ends), way] = Direction(
                conn=conn,
                ends=(ends[0], ends[1]),
                is_caller_known=draw(st.booleans()),
                bytes=draw(st.integers(0, 9000)),
                sent_again=draw(amounts),
                arrived_again=draw(amounts),
                arrived_late=draw(amounts),
                segment_size=draw(st.none() | st.integers(500, 1460)),
                doubled=draw(st.integers(0, 3)),
                ops_hit=draw(st.integers(0, 9)),
                caveats=frozenset(draw(st.sets(st.sampled_from(Caveat)))),
            )
    return TransportTally(found)


@given(tallies(), tallies(), tallies())
def test_blocks_are_joined_in_any_grouping(a: TransportTally, b: TransportTally, c: TransportTally) -> None:
    """(a + b) + c is a + (b + c), and nothing added changes nothing."""
    assert (a + b) + c == a + (b + c)
    assert a + TransportTally.empty() == a == TransportTally.empty() + a


def _direction(sent: Amount, arrived: Amount, *caveats: Caveat, caller: int = 0) -> TransportTally:
    ends = ("c:1", "s:2049") if caller == 0 else ("s:2049", "c:1")
    return TransportTally(
        {
            ("c:1", "s:2049", Way.CALL): Direction(
                conn=0,
                ends=ends,
                is_caller_known=caller == 0,
                bytes=100,
                sent_again=sent,
                arrived_again=arrived,
                arrived_late=Amount(0, 0, 0),
                segment_size=1000,
                doubled=0,
                ops_hit=1,
                caveats=frozenset(caveats),
            )
        }
    )


def test_a_copy_that_arrives_in_the_next_block_was_not_lost() -> None:
    """Lost is what was sent again in all blocks, less what arrived again in all; how the span of a direction compares
    is what the last block says of it, and who calls what a block with calls says."""
    none, two = Amount(0, 0, 0), Amount(2, 2, 2000)
    first = _direction(two, none, Caveat.PARTIAL)
    rows = (first + _direction(none, Amount(1, 1, 1000), caller=1)).rows()
    assert rows is not None
    (row,) = rows
    assert (row.lost_segments, row.lost_bytes, row.ops_hit, row.caveats) == (1, 1000, 2, [])
    assert (row.client, row.server) == ("c:1", "s:2049")


def test_counters_of_all_packets_are_not_added_to_what_they_hold() -> None:
    """Where events were dropped, the later block counts from the first packet on."""
    first = _direction(Amount(2, 2, 2000), Amount(0, 0, 0))
    rows = (first + _direction(Amount(5, None, 5000), Amount(1, None, 900), Caveat.EVENTS_DROPPED)).rows()
    assert rows is not None
    assert (rows[0].sent_again.packets, rows[0].lost_bytes, rows[0].lost_segments) == (5, 4100, None)


def test_what_no_engine_says_is_not_known() -> None:
    """One block of which TCP is not told makes all of it unknown."""
    assert (TransportTally(None) + TransportTally.empty()).rows() is None
    assert TransportTally.empty().rows() == []
