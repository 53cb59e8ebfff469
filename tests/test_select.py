"""Filters: which ops are shown, why the others are not, and the points in time that users write."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_tables import GETATTR, MS, READ, WRITE, Op, decoded, op, ops

from nfslat.decode.capture import Source
from nfslat.errors import UsageError
from nfslat.match.match import match
from nfslat.model.tables import Connection, Ops
from nfslat.results import Side
from nfslat.select import (
    REASONS,
    Filters,
    Moment,
    excluded,
    is_reverse,
    op_labels,
    parse_addresses,
    parse_moment,
    select,
    select_both,
)

MOUNT, NLM, CALLBACK = 100005, 100021, 0x40000000
# The first connection is the client's, of the second the server spoke first, the third is another client's.
ENDS = (
    Connection("tcp", "10.0.0.1", 700, "10.0.0.2", 2049),
    Connection("tcp", "10.0.0.2", 2049, "10.0.0.1", 701),
    Connection("tcp", "10.0.0.9", 700, "10.0.0.2", 20049),
)
SECOND = 1_000_000_000


def table(*rows: Op) -> Ops:
    return ops(*rows, connections=ENDS)


def why(made: Ops, **filters: object) -> list[str]:
    """The reason of each op, "" for the selected ones; the capture begins at 0."""
    reasons = select(made, Filters(**filters), made.t0, 0)  # type: ignore[arg-type]
    return ["" if not reason else REASONS[reason] for reason in reasons.tolist()]


# --- Filters ----------------------------------------------------------------------------------------------------------


def test_without_filters_all_nfs_ops_are_shown() -> None:
    """Other programs are left out under their own reason, and shown when asked for."""
    made = table(op(0, 1, 1), op(2, 3, 2, program=MOUNT))
    assert why(made) == ["", "other RPC programs than NFS"]
    assert why(made, all_programs=True) == ["", ""]


def test_op_names_of_any_version() -> None:
    """READ is procedure 6 in NFSv3 and operation 25 in NFSv4; both are READ."""
    made = table(op(0, 1, 1, op=READ), op(2, 3, 2, op=25, version=4), op(4, 5, 3, op=WRITE))
    assert [op_labels(made.kinds)[kind] for kind in made.kind] == ["READ", "READ", "WRITE"]
    assert why(made, ops=frozenset({"READ"})) == ["", "", "not --op"]


def test_client_server_and_port_are_those_of_the_call() -> None:
    """Whoever spoke first on the connection: the caller is the client, the called one the server."""
    made = table(op(0, 1, 1, conn=0), op(2, 3, 2, conn=1, direction=1), op(4, 5, 3, conn=2))
    assert why(made, clients=frozenset({"10.0.0.1"})) == ["", "", "not --client-addr"]
    assert why(made, servers=frozenset({"10.0.0.1"})) == ["not --server-addr"] * 3
    assert why(made, ports=frozenset({20049})) == ["not --port", "not --port", ""]


def test_callbacks_belong_to_the_client_that_is_called() -> None:
    """The server calls back: --client-addr still names the NFS client, and --server-addr the NFS server."""
    made = table(op(0, 1, 1), op(2, 3, 2, conn=0, direction=1, program=CALLBACK, version=1, op=4))
    assert made.spread(is_reverse(made)).tolist() == [False, True]
    assert why(made, all_programs=True, clients=frozenset({"10.0.0.1"})) == ["", ""]
    assert why(made, all_programs=True, servers=frozenset({"10.0.0.2"})) == ["", ""]


def test_lock_calls_from_the_server_are_reverse() -> None:
    """NLM GRANTED runs from the NFS server to its client; NLM LOCK does not."""
    lock = op(2, 3, 2, program=NLM, version=4, op=2)
    made = table(op(0, 1, 1), lock, lock.but(at_ms=(4, 4, 5, 5), direction=1, op=5))
    assert made.spread(is_reverse(made)).tolist() == [False, False, True]


def test_a_time_range_is_half_open() -> None:
    """--start is in, --end is out: neighbouring ranges share no op."""
    made = table(*(op(t, t + 500, t) for t in (0, 1000, 2000)))
    start, end = parse_moment("1"), parse_moment("2")
    assert why(made, start=start, end=end) == ["before --start", "", "at or after --end"]


def test_the_first_filter_that_fails_is_the_reason() -> None:
    """Each op is left out once."""
    made = table(op(0, 1, 1, op=WRITE, conn=2))
    assert why(made, ops=frozenset({"READ"}), clients=frozenset({"10.0.0.1"})) == ["not --op"]


_OPS = st.lists(
    st.builds(
        op,
        st.integers(0, 50),
        st.integers(51, 90),
        st.integers(1, 9),
        conn=st.integers(0, 2),
        direction=st.integers(0, 1),
        program=st.sampled_from((100003, 100003, MOUNT, NLM, CALLBACK)),
        op=st.sampled_from((GETATTR, READ, WRITE)),
    ),
    max_size=15,
)
_FILTERS = st.builds(
    Filters,
    ops=st.frozensets(st.sampled_from(("READ", "WRITE", "GETATTR")), max_size=2),
    clients=st.frozensets(st.sampled_from(("10.0.0.1", "10.0.0.9")), max_size=1),
    servers=st.frozensets(st.sampled_from(("10.0.0.1", "10.0.0.2")), max_size=1),
    ports=st.frozensets(st.sampled_from((2049, 701, 20049)), max_size=2),
    start=st.none() | st.integers(0, 60).map(lambda ms: Moment(ms * MS, absolute=False, text="")),
    end=st.none() | st.integers(0, 60).map(lambda ms: Moment(ms * MS, absolute=False, text="")),
    all_programs=st.booleans(),
)


@given(_OPS, _FILTERS)
def test_reasons_and_kept_are_all(rows: list[Op], filters: Filters) -> None:
    """What is left out, by reason, and what is shown sum to the ops."""
    made = table(*rows)
    reasons = select(made, filters, made.t0, 0)
    assert len(reasons) == len(made)
    assert sum(excluded(reasons).values()) + int((reasons == 0).sum()) == len(made)
    assert all(excluded(reasons).values()), "no reason without an op"


@given(_OPS, _FILTERS, _FILTERS)
def test_one_more_filter_never_shows_more(rows: list[Op], one: Filters, two: Filters) -> None:
    """Filters narrow: what two filters keep, each of them keeps."""
    made = table(*rows)
    both = Filters(ops=one.ops, clients=two.clients, start=one.start, end=two.end, all_programs=True)
    kept = select(made, both, made.t0, 0) == 0
    for part in (Filters(ops=one.ops, all_programs=True), Filters(clients=two.clients, all_programs=True)):
        assert not (kept & (select(made, part, made.t0, 0) != 0)).any()


# --- Both sides -------------------------------------------------------------------------------------------------------


def side(*rows: Op, first_ms: float, connections: tuple[Connection, ...] = ENDS) -> Side:
    first_ns = round(first_ms * MS)
    made = ops(*rows, connections=connections)
    held = decoded(made, first_ns, first_ns + 100 * SECOND)
    return Side(Source("made", ()), held, np.zeros(len(made), dtype=np.int8))


def selected(server: Side, client: Side, filters: Filters) -> tuple[list[str], list[str]]:
    ranges = [(one.decoded.first_ns, one.decoded.last_ns) for one in (server, client)]
    found = match(server.ops, client.ops, ranges[0], ranges[1])
    m = found.matched
    one, two = select_both(server.ops, client.ops, m, filters, client.decoded.first_ns)
    assert (one[m.server] == two[m.client]).all(), "both rows of a matched op share one fate"
    return tuple(["" if not r else REASONS[r] for r in reasons.tolist()] for reasons in (one, two))  # type: ignore[return-value]


def test_start_and_end_are_on_the_client_s_clock_for_both_sides() -> None:
    """Server 7 s ahead, 1 s to 3 s of the client's capture: also for the server's op that has no partner."""
    client = side(*(op(t, t + 100, t) for t in (0, 1500, 5000)), first_ms=0)
    server = side(*(op(7000 + t, 7000 + t + 50, t) for t in (0, 1500, 1600, 5000)), first_ms=7000)
    filters = Filters(start=parse_moment("1s"), end=parse_moment("3s"))
    before, after = "before --start", "at or after --end"
    assert selected(server, client, filters) == ([before, "", "", after], [before, "", after])


def test_an_address_that_only_one_side_sees_selects_on_both() -> None:
    """NAT: the client is 10.0.0.1 in its own capture and 192.0.2.1 in the server's; either name finds the op."""
    nat = (Connection("tcp", "192.0.2.1", 4000, "10.0.0.2", 2049),)
    client, server = side(op(0, 5, 7), first_ms=0), side(op(1, 4, 7), first_ms=0, connections=nat)
    for name in ("10.0.0.1", "192.0.2.1"):
        assert selected(server, client, Filters(clients=frozenset({name}))) == ([""], [""])
    assert selected(server, client, Filters(clients=frozenset({"10.0.0.3"}))) == (
        ["not --client-addr"],
        ["not --client-addr"],
    )


# --- Points in time ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0),
        ("12.5", 12_500_000_000),
        ("+90", 90 * SECOND),
        ("90s", 90 * SECOND),
        ("2m", 120 * SECOND),
        ("1.5h", 5400 * SECOND),
        ("250ms", 250_000_000),
        ("100us", 100_000),
        ("0.000000001", 1),
    ],
)
def test_times_after_the_first_packet(text: str, ns: int) -> None:
    """Seconds, or a number with its unit, to the nanosecond."""
    moment = parse_moment(text)
    assert (moment.ns, moment.absolute, moment.on_clock(100)) == (ns, False, 100 + ns)


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("1700000000", 1_700_000_000 * SECOND),
        ("1700000000.123456789", 1_700_000_000_123_456_789),
        ("2023-11-14T22:13:20Z", 1_700_000_000 * SECOND),
        ("2023-11-14T23:13:20+01:00", 1_700_000_000 * SECOND),
        ("2023-11-14T22:13:20.000001", 1_700_000_000_000_001_000),
        ("2023-11-14 22:13:20", 1_700_000_000 * SECOND),
        ("2023-11-14", 1_699_920_000 * SECOND),
    ],
)
def test_absolute_times(text: str, ns: int) -> None:
    """Seconds since 1970 or ISO 8601, in UTC where no zone is said; the capture's beginning does not matter."""
    moment = parse_moment(text)
    assert (moment.ns, moment.absolute, moment.on_clock(100)) == (ns, True, ns)


@pytest.mark.parametrize("text", ["", "soon", "-5", "5 s", "1e999", "5d", "12:00", "2023-13-01", "inf", "nan"])
def test_what_is_no_time_is_a_usage_error_that_shows_a_right_one(text: str) -> None:
    """The message repeats what was given and says what would do."""
    with pytest.raises(UsageError, match=r"is not understood; give seconds"):
        parse_moment(text)


@given(st.text(max_size=12))
def test_any_text_is_a_time_or_a_usage_error(text: str) -> None:
    """No other exception comes out."""
    try:
        moment = parse_moment(text)
    except UsageError:
        return
    assert isinstance(moment.ns, int)


@given(st.integers(0, 99_999_999), st.integers(0, 999_999_999))
def test_decimal_seconds_are_exact(seconds: int, ns: int) -> None:
    """No binary fraction on the way."""
    assert parse_moment(f"{seconds}.{ns:09}").ns == seconds * SECOND + ns


# --- Addresses --------------------------------------------------------------------------------------------------------


def test_addresses_are_written_as_wireshark_writes_them() -> None:
    """Lower case, zeros left out."""
    assert parse_addresses(["FD00:0:0::01", "10.0.0.1"], "--client") == {"fd00::1", "10.0.0.1"}


@pytest.mark.parametrize("text", ["nfs.example.com", "10.0.0", "", "10.0.0.0/8"])
def test_what_is_no_address_is_a_usage_error(text: str) -> None:
    """Names are not resolved, and the message says so."""
    with pytest.raises(UsageError, match=r"--client .*not an IP address"):
        parse_addresses([text], "--client")
