"""NFSv4.1 sessions: their slots are on the wire, and so is how long all of them were in use."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from captures import SHARED, Decoder, needs_captures, needs_native
from hypothesis import given
from hypothesis import strategies as st
from wire_tables import Op, op, ops

from nfslat.inflight.levels import hidden_share
from nfslat.inflight.sessions import Session, sessions
from nfslat.model.details import Details, SessionLimits, Slots, no_details
from nfslat.model.protocol import NFS, NULL32

ONE, TWO = b"1" * 16, b"2" * 16
CALLBACK = 0x40000000


@dataclass(frozen=True)
class Seq:
    """An op with SEQUENCE (ms), or with CB_SEQUENCE."""

    start: float
    end: float
    slot: int
    seqid: int = 1
    session: bytes = ONE
    conn: int = 0
    callback: bool = False
    target: int = 1  # highest slot; NULL32: no reply shows it


def _sessions(*made: Seq, limits: tuple[SessionLimits, ...] = (), hidden: float = 0.0) -> tuple[Session, ...]:
    made = tuple(sorted(made, key=lambda seq: seq.start))
    rows: list[Op] = [
        op(
            s.start,
            s.end,
            xid,
            conn=s.conn,
            version=4,
            direction=int(s.callback),
            program=CALLBACK if s.callback else NFS,
        )
        for xid, s in enumerate(made, 1)
    ]
    table = ops(*rows)
    details = _details(made, limits)
    return sessions(table, details, np.ones(len(table), dtype=np.bool_), hidden)


def _details(made: tuple[Seq, ...], limits: tuple[SessionLimits, ...]) -> Details:
    names = tuple(dict.fromkeys(s.session for s in made))
    columns: dict[str, Any] = {
        "op": range(len(made)),
        "session": [names.index(s.session) for s in made],
        "slot": [s.slot for s in made],
        "seqid": [s.seqid for s in made],
        "highest": [s.slot for s in made],
        "reply_highest": [s.target for s in made],
        "target_highest": [s.target for s in made],
    }
    slots = Slots.from_columns({name: list(column) for name, column in columns.items()}, sessions=names)
    return replace(no_details(), slots=slots, sessions=limits)


def _granted(session: bytes, fore: int, back: int = 1) -> SessionLimits:
    return SessionLimits(0, session, fore, 16, 1 << 20, 1 << 20, back)


def test_a_session_with_both_slots_in_use_by_pencil() -> None:
    """Two slots, both in use for 20.95 of 30 ms busy; slot 0 is used again 0.05 ms after its reply, slot 1 after 9."""
    (found,) = _sessions(
        Seq(0, 20, 0), Seq(0, 21, 1), Seq(20.05, 25, 0, 2), Seq(30, 35, 1, 2), limits=(_granted(ONE, 2),)
    )
    assert (found.negotiated, found.target, found.limit) == (2, (2, 2, 2), 2)
    assert (found.highest_slot, found.slots_used, found.ops, found.connections) == (1, 2, 4, (0,))
    assert found.at_limit_share == pytest.approx(20.95 / 30)
    assert found.limited
    assert found.reuse_share == 0.5
    assert found.reuse_us == pytest.approx(((50 + 9000) / 2, 50 + 0.75 * 8950))


def test_slots_belong_to_the_session_not_to_its_connections() -> None:
    """One op on each of two connections: the session has two in flight."""
    (found,) = _sessions(Seq(0, 10, 0), Seq(0, 10, 1, conn=1))
    assert found.connections == (0, 1)
    assert found.at_limit_share == 1.0


def test_the_backchannel_has_slots_of_its_own() -> None:
    """CB_SEQUENCE counts for the server's calls, with what CREATE_SESSION granted for the backchannel."""
    fore, back = _sessions(
        Seq(0, 10, 0), Seq(11, 12, 0, 2), Seq(3, 5, 0, callback=True, target=15), limits=(_granted(ONE, 2, 16),)
    )
    assert (fore.callbacks, fore.ops, fore.negotiated) == (False, 2, 2)
    assert (back.callbacks, back.ops, back.negotiated, back.limit) == (True, 1, 16, 16)


def test_two_sessions_are_two() -> None:
    """Two clients with one slot in use each have not two in use."""
    both = _sessions(Seq(0, 10, 0), Seq(20, 30, 0, 2), Seq(0, 10, 0, session=TWO), limits=(_granted(TWO, 64),))
    assert [(one.session, one.ops, one.negotiated) for one in both] == [(ONE, 2, None), (TWO, 1, 64)]


def test_a_session_that_was_granted_twice_has_what_was_granted_last() -> None:
    """A CREATE_SESSION that is answered again, with other limits: the last answer counts, for its session only."""
    both = _sessions(
        Seq(0, 10, 0),
        Seq(0, 10, 0, session=TWO),
        limits=(_granted(ONE, 16), _granted(TWO, 64), _granted(ONE, 8)),
    )
    assert {one.session: one.negotiated for one in both} == {ONE: 8, TWO: 64}


def test_the_last_target_is_the_limit() -> None:
    """A server may want fewer slots used than it granted, and say so in any reply."""
    (found,) = _sessions(Seq(0, 10, 0, target=29), Seq(20, 30, 0, 2, target=4), limits=(_granted(ONE, 30),))
    assert (found.target, found.limit) == ((5, 30, 5), 5)


@pytest.mark.parametrize(("full", "two", "is_limited"), [(39, 30, True), (39, 40, False), (15, 5, False)])
def test_a_limit_is_where_what_is_in_use_piles_up(full: int, two: int, is_limited: bool) -> None:
    """A busy client fills free slots late: all three are in use for 39 % of the busy time, and for longer than two or
    one. That says that more is asked for; a level that is reached and left again does not, nor one that is seldom."""
    one = 100 - full - two
    made = [Seq(0, 100, 0, target=2), Seq(one, 100, 1, target=2), Seq(one + two, 100, 2, target=2)]
    (found,) = _sessions(*made, limits=(_granted(ONE, 3),))
    assert found.limit == 3
    assert found.at_limit_share == pytest.approx(full / 100)
    assert found.limited is is_limited


def test_without_target_and_create_session_the_limit_is_not_known() -> None:
    """What no message shows is None; CREATE_SESSION alone is enough."""
    shown = Seq(0, 10, 0, target=NULL32)
    (found,) = _sessions(shown)
    assert (found.negotiated, found.target, found.limit, found.at_limit_share) == (None, None, None, None)
    assert not found.limited
    (found,) = _sessions(shown, limits=(_granted(ONE, 1),))
    assert (found.limit, found.at_limit_share) == (1, 1.0)


def test_a_reuse_with_a_missing_call_in_between_is_not_measured() -> None:
    """The slot's sequence id jumps from 1 to 3: one use was not captured, and when it ended is not known."""
    (found,) = _sessions(Seq(0, 10, 0, 1), Seq(30, 40, 0, 3))
    assert (found.reuse_share, found.reuse_us) == (None, None)


def test_with_much_hidden_the_share_is_not_told() -> None:
    """With 40 % of the ops hidden nobody knows how many slots were in use."""
    (found,) = _sessions(Seq(0, 10, 0), Seq(0, 10, 1), hidden=0.4)
    assert (found.limit, found.at_limit_share, found.limited) == (2, None, False)


def test_a_client_that_stays_below_what_the_server_gives() -> None:
    """Two in flight all the time, refilled at once, though 30 slots are granted: two are the client's own, likely."""
    made = [
        Seq(10 * i + 0.05 * i + slot * 5, 10 * i + 0.05 * i + slot * 5 + 10, slot, i + 1, target=29)
        for i in range(200)
        for slot in (0, 1)
    ]
    (found,) = _sessions(*made, limits=(_granted(ONE, 30),))
    assert (found.limit, found.limited, found.own_limit, found.slots_used) == (30, False, 2, 2)


def test_no_sequence_no_session() -> None:
    """NFSv3, or an engine that does not show them."""
    assert _sessions() == ()


@given(
    st.lists(
        st.tuples(
            st.integers(0, 50),
            st.integers(0, 20),
            st.sampled_from([0, 1, 5, 70_000, NULL32 - 1]),
            st.integers(0, NULL32),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_any_slot_ids_are_counted(made: list[tuple[int, int, int, int]]) -> None:
    """Slot and sequence ids that no sane client sends are counted as they stand, and shares stay shares."""
    (found,) = _sessions(*(Seq(start, start + length, slot, seqid) for start, length, slot, seqid in made))
    assert found.slots_used == len({slot for _, _, slot, _ in made})
    assert found.highest_slot == max(slot for _, _, slot, _ in made)
    assert found.at_limit_share is None or 0 <= found.at_limit_share <= 1
    assert found.reuse_share is None or 0 <= found.reuse_share <= 1


# Slots negotiated, highest slot used, and whether all were in use for most of the busy time.
_LAB = {
    "f_v41_baseline": (30, 7, False),
    "f_v41_session_slots2": (2, 1, True),
    "f_v42_nfsd_threads2": (30, 29, True),  # 32 jobs, so that two of them wait: mountstats says so too
    "h_v42_metadata": (30, 0, False),
    "i_v41_callback_recall": (30, 0, False),
}


@needs_captures
@needs_native
@pytest.mark.parametrize("name", _LAB)
def test_sessions_of_the_lab(decoder: Decoder, name: str) -> None:
    """On real captures the negotiated slots, those used, and whether they are the limit are what the lab says."""
    side = decoder.side("native", SHARED / "lab" / name / "client.pcap.gz")
    every = np.ones(len(side.ops), dtype=np.bool_)
    found = sessions(side.ops, side.decoded.details, every, hidden_share(side.decoded.states))
    fore = [one for one in found if not one.callbacks]
    assert [(one.negotiated, one.highest_slot, one.limited) for one in fore] == [_LAB[name]]
    assert len(found) - len(fore) == (name == "i_v41_callback_recall")
