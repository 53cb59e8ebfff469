"""What a capture lost is told from the acknowledgements, and nothing else is called lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nfslat.decode.tshark.coverage import Coverage


def _coverage(*events: tuple[str, int, int]) -> Coverage:
    made = Coverage()
    made.begin(0)
    for what, start, end in events:
        if what == "seen":
            made.seen(start, end)
        else:
            made.acknowledged(end)
    return made


def test_a_segment_that_was_acknowledged_and_never_seen_is_lost() -> None:
    """Bytes 100 to 200 are missing between two segments, and the receiver has all 300."""
    assert _coverage(("seen", 0, 100), ("seen", 200, 300), ("ack", 0, 300)).lost() == (1, 100)


def test_a_gap_that_nobody_acknowledged_is_not_lost() -> None:
    """The receiver still waits for bytes 100 to 200: the network lost them, not the capture."""
    assert _coverage(("seen", 0, 100), ("seen", 200, 300), ("ack", 0, 100)).lost() == (0, 0)


def test_a_packet_behind_its_acknowledgement_is_not_lost() -> None:
    """A capture may write the acknowledgement first (several queues); the late packet fills the hole."""
    assert _coverage(("ack", 0, 300), ("seen", 0, 150)).lost() == (1, 150)
    assert _coverage(("ack", 0, 300), ("seen", 0, 150), ("seen", 150, 300)).lost() == (0, 0)


def test_a_new_connection_keeps_the_count_of_the_old_one() -> None:
    """Port reuse: a SYN begins anew, what was lost before stays lost."""
    made = _coverage(("seen", 0, 100), ("ack", 0, 150))
    made.begin(10_000)
    made.seen(10_000, 10_100)
    made.acknowledged(10_100)
    assert made.lost() == (1, 50)


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20), st.booleans()), max_size=40),
)
def test_lost_bytes_are_those_below_the_highest_acknowledgement_that_were_never_seen(
    events: list[tuple[int, int, bool]],
) -> None:
    """For segments and acknowledgements in any order the bytes counted as lost equal a byte-by-byte account."""
    made = Coverage()
    made.begin(0)
    seen: set[int] = set()
    top = 0
    for start, length, is_ack in events:
        if is_ack:
            made.acknowledged(start + length)
            top = max(top, start + length)
        else:
            made.seen(start, start + length)
            seen |= set(range(start, start + length))
    assert made.lost()[1] == len(set(range(top)) - seen)
