"""Connections of two captures: which are one, through NAT, proxies, load balancers and reconnects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import wire
from captures import Decoder
from hypothesis import given
from hypothesis import strategies as st
from wire_tables import GETATTR, READ, WRITE, Op, op, ops

from nfslat.match.match import Matching, match
from nfslat.model.details import Tcp
from nfslat.model.protocol import NULL
from nfslat.model.tables import Connection, Miss
from nfslat.results import Side

ALWAYS = (-(1 << 62), 1 << 62)
_CLIENT = tuple(Connection("tcp", "10.0.0.1", 700 + port, "10.0.0.2", 2049) for port in range(6))
_BEHIND_NAT = tuple(Connection("tcp", "192.0.2.1", 40_000 + port, "10.0.0.2", 2049) for port in range(6))
_CROSSED = (*_CLIENT[1::-1], *_CLIENT[2:])  # ports 700 and 701 are exchanged on the way
Numbers = dict[int, list[tuple[int, int]]]  # connection -> where the calls and where the replies begin, each reconnect


def run(
    server: list[Op],
    client: list[Op],
    ends: tuple[Connection, ...] = _BEHIND_NAT,
    numbers: tuple[Numbers, Numbers] | None = None,
    *,
    span: int = 100_000,
    turned: bool = False,
) -> Matching:
    """Match, with the ends that the server's capture has. `turned`: it names the ends of its connections the other way
    round, for it saw the server's packet first."""
    used = 1 + max(row.conn for row in (*server, *client))
    ends = ends[:used]
    if turned:
        ends = tuple(Connection(one.transport, one.addr_b, one.port_b, one.addr_a, one.port_a) for one in ends)
        server = [row.but(direction=1 - row.direction) for row in server]
    tcp = None if numbers is None else (_tcp(numbers[0], span, turned=turned), _tcp(numbers[1], span))
    return match(ops(*server, connections=ends), ops(*client, connections=_CLIENT[:used]), ALWAYS, ALWAYS, tcp)


def _tcp(numbers: Numbers, span: int, *, turned: bool = False) -> Tcp:
    rows: dict[str, list[int]] = {name: [] for name in Tcp.columns()}
    for conn, begins in numbers.items():
        for reconnect, firsts in enumerate(begins):
            for is_reply, first in enumerate(firsts):
                known = {"conn": conn, "reconnect": reconnect, "direction": is_reply ^ turned}
                known |= {"first_seq": first, "seq_span": NULL if first == NULL else span}
                for name, column in rows.items():
                    column.append(known.get(name, 0))
    return Tcp.from_columns(rows)


def many(count: int, first_xid: int, conn: int = 0, **others: int) -> list[Op]:
    """Ops one millisecond apart, each with an offset of its own."""
    return [
        op(i, i + 0.5, first_xid + i, **({"conn": conn, "offset": 8192 * i, "truth": first_xid + i} | others))
        for i in range(count)
    ]


def mixed(count: int, first_xid: int, conn: int, *, seed: int) -> list[Op]:
    """Ops of which a short snaplen shows what they are, and no argument."""
    chosen = np.random.default_rng(seed).choice([GETATTR, READ, WRITE], count).tolist()
    rows = many(count, first_xid, conn, offset=NULL, size=NULL, fh=NULL)
    return [row.but(op=kind) for row, kind in zip(rows, chosen, strict=True)]


def moved(rows: list[Op], to: dict[int, int]) -> list[Op]:
    """The same ops on other connections, by number."""
    return [row.but(conn=to[row.conn]) for row in rows]


def linked(found: Matching) -> dict[int, set[int]]:
    """Connections of the server by those of the client that they are one with."""
    links = found.links
    return {
        c: set(np.flatnonzero(links.server == links.client[c]).tolist())
        for c in np.flatnonzero(links.client != NULL).tolist()
    }


# --- By shared ops ----------------------------------------------------------------------------------------------------


def test_ports_that_are_exchanged_on_the_way() -> None:
    """Client ports 700 and 701 are 701 and 700 at the server: equal ends share nothing, crosswise all is shared."""
    client = many(20, 1000) + many(20, 5000, 1)
    found = run(client, client, _CROSSED)
    assert linked(found) == {0: {0}, 1: {1}}
    assert len(found.matched) == 40


def test_equal_ends_are_believed_where_nothing_better_is_found() -> None:
    """Two connections share no op, for one capture began when the other had ended; they stay what they are."""
    found = run(many(20, 1000) + many(20, 3000, 1), many(20, 5000) + many(20, 7000, 1), _CLIENT)
    assert linked(found) == {0: {0}, 1: {1}}
    assert set(found.unmatched.client.tolist()) == {Miss.NOT_CAPTURED_AT_SERVER}


def test_equal_ends_with_other_ops_under_the_same_xids_are_not_believed() -> None:
    """All XIDs are the same, and most are of different operations: the three pairs that would come out by accident do
    not."""
    client = many(15, 1000, offset=NULL)
    server = [row.but(op=READ if i < 3 else GETATTR) for i, row in enumerate(client)]
    found = run(server, client, _CLIENT)
    assert len(found.matched) == 0
    assert set(found.unmatched.server.tolist()) == {Miss.CONNECTION_UNMATCHED}


def test_the_same_xids_with_other_arguments_on_each_connection() -> None:
    """Two connections behind a NAT count from the same XID: their offsets tell which is which."""
    client = many(20, 1000) + [row.but(conn=1, offset=row.offset + 4096) for row in many(20, 1000)]
    found = run(moved(client, {0: 1, 1: 0}), client)
    assert linked(found) == {0: {1}, 1: {0}}
    assert len(found.matched) == 40


def test_the_same_xids_and_no_arguments_but_other_operations() -> None:
    """A short snaplen hides all arguments: no XID is of one connection only, but each pair but the right one has XIDs
    that are of different operations."""
    client = [row for conn in range(3) for row in mixed(60, 1000, conn, seed=conn)]
    found = run(moved(client, {0: 2, 1: 0, 2: 1}), client)
    assert linked(found) == {0: {2}, 1: {0}, 2: {1}}
    assert len(found.matched) == 180


def test_captures_that_share_a_tenth_behind_a_nat() -> None:
    """The server's capture ends soon after the client's begins: less than half of either is shared, but all of what
    lies in between."""
    rows = many(1000, 1000) + many(1000, 9000, 1)
    found = run([row for row in rows if row.at_ms[0] < 550], [row for row in rows if row.at_ms[0] >= 450])
    assert linked(found) == {0: {0}, 1: {1}}
    assert len(found.matched) == 200


def test_counters_that_cross_by_accident_are_no_shared_ops() -> None:
    """A stranger counts through the same XIDs with the same operation, arguments unseen: half of some stretch of it
    agreeing says nothing."""
    hidden = {"offset": NULL, "size": NULL, "fh": NULL}
    found = run(many(1000, 1000, **hidden), many(1000, 1900, **hidden))
    assert linked(found) == {}


# --- Several for one --------------------------------------------------------------------------------------------------


def test_a_reconnect_that_a_nat_gives_another_port() -> None:
    """The client has one connection, used twice; the server sees two: all ops are matched, first half and second."""
    client = many(40, 1000)
    server = [row.but(conn=0 if i < 25 else 1) for i, row in enumerate(client)]
    found = run(server, client)
    assert linked(found) == {0: {0, 1}}
    assert len(found.matched) == 40


def test_a_reconnect_whose_first_half_has_equal_ends() -> None:
    """Behind the NAT the first connection keeps its port, the second one gets another: it is found by what is left."""
    client = many(40, 1000)
    server = [row.but(conn=0 if i < 25 else 1) for i, row in enumerate(client)]
    found = run(server, client, (_CLIENT[0], *_BEHIND_NAT[1:]))
    assert linked(found) == {0: {0, 1}}
    assert len(found.matched) == 40


def test_a_client_that_reconnects_from_another_port_and_a_nat_that_hides_it() -> None:
    """The other way round: two connections of the client are one at the server."""
    client = [row.but(conn=0 if i < 25 else 1) for i, row in enumerate(many(40, 1000))]
    found = run([row.but(conn=0) for row in client], client)
    assert linked(found) == {0: {0}, 1: {0}}
    assert len(found.matched) == 40


def test_a_load_balancer_that_spreads_the_calls_of_a_connection() -> None:
    """One connection of the client, three to the server, used in turn."""
    client = many(60, 1000)
    found = run([row.but(conn=i % 3) for i, row in enumerate(client)], client)
    assert linked(found) == {0: {0, 1, 2}}
    assert len(found.matched) == 60


def test_one_op_is_not_enough_for_one_more_connection() -> None:
    """Another client's only call has the XID of one that the server's capture dropped: that connection is no part of
    the one that was found."""
    client = many(40, 1000)
    server = [*client[:30], client[35].but(conn=1)]
    found = run(server, client)
    assert linked(found) == {0: {0}}
    assert len(found.matched) == 30


def test_two_that_could_both_be_it_are_none() -> None:
    """Three ops of each of two connections are in one: as many for the one as for the other, and few."""
    client = [row.but(conn=i % 2) for i, row in enumerate(many(6, 1000))]
    assert linked(run([row.but(conn=0) for row in client], client)) == {}


def test_tcp_is_not_udp() -> None:
    """The same ops over another transport are other connections, whatever they share."""
    udp = tuple(replace(one, transport="udp") for one in _BEHIND_NAT)
    assert linked(run(many(20, 1000), many(20, 1000), udp)) == {}


# --- By sequence numbers ----------------------------------------------------------------------------------------------

_ALIKE = many(20, 1000, offset=0) + many(
    20, 1000, 1, offset=0
)  # two connections that ask for the same with the same XIDs
_FIRST: Numbers = {0: [(5_000_000, 1 << 31)], 1: [(900_000_000, 77_000_000)]}
_MOVED: Numbers = {1: _FIRST[0], 0: _FIRST[1]}


@pytest.mark.parametrize("turned", [False, True], ids=["same_direction", "ends_named_the_other_way_round"])
def test_sequence_numbers_tell_equal_connections_apart(turned: bool) -> None:
    """Same XIDs, same arguments, other ends: the ranges of the sequence numbers say which is which."""
    found = run(moved(_ALIKE, {0: 1, 1: 0}), _ALIKE, numbers=(_MOVED, _FIRST), turned=turned)
    assert linked(found) == {0: {1}, 1: {0}}
    assert len(found.matched) == 40


def test_without_sequence_numbers_equal_connections_are_not_guessed_at() -> None:
    """The same, and nothing is known of TCP (tshark): nobody can tell."""
    assert linked(run(moved(_ALIKE, {0: 1, 1: 0}), _ALIKE)) == {}


def test_equal_ends_against_sequence_numbers() -> None:
    """Ports are exchanged on the way, XIDs and arguments fit crosswise as well as straight: sequence numbers decide."""
    found = run(_ALIKE, _ALIKE, _CROSSED, (_FIRST, _FIRST))
    assert linked(found) == {0: {0}, 1: {1}}
    assert len(found.matched) == 40


def test_sequence_numbers_wrap() -> None:
    """The ranges go past 2^32, and begin at different places at the two sides."""
    end = (1 << 32) - 50_000
    client: Numbers = {0: [(end, 10)], 1: [(1 << 30, 1 << 29)]}
    server: Numbers = {1: [(30_000, 40_000)], 0: [(1 << 30, 1 << 29)]}
    found = run(moved(_ALIKE, {0: 1, 1: 0}), _ALIKE, numbers=(server, client))
    assert linked(found) == {0: {1}, 1: {0}}


def test_each_reconnect_has_a_range_of_its_own() -> None:
    """The client's connection has two ranges, and the server knows the second one under another port, with one op."""
    client = many(20, 1000)
    server = [row.but(conn=0 if i < 19 else 1) for i, row in enumerate(client)]
    numbers: tuple[Numbers, Numbers] = (
        {0: [(5_000_000, 1 << 31)], 1: [(70_000_000, 1 << 20)]},
        {0: [(5_000_000, 1 << 31), (70_000_000, 1 << 20)]},
    )
    found = run(server, client, numbers=numbers)
    assert linked(found) == {0: {0, 1}}
    assert len(found.matched) == 20


@pytest.mark.parametrize("ends", [_CLIENT, _BEHIND_NAT], ids=["transparent", "with_another_address"])
def test_a_proxy_has_sequence_numbers_of_its_own(ends: tuple[Connection, ...]) -> None:
    """Sequence numbers that differ are no reason to part what shares its ops."""
    client = many(20, 1000) + many(20, 5000, 1)
    server: Numbers = {0: [(1_000, 2_000)], 1: [(3_000_000_000, 4_000_000_000)]}
    found = run(client, client, ends, (server, _FIRST))
    assert linked(found) == {0: {0}, 1: {1}}
    assert len(found.matched) == 40


def test_ranges_that_meet_by_accident_tell_nothing() -> None:
    """After some gigabytes the ranges of strangers meet too: with them nobody is told apart."""
    numbers: tuple[Numbers, Numbers] = ({0: [(0, 0)], 1: [(1 << 31, 1 << 31)]}, {0: [(1, 1)], 1: [(5, 5)]})
    assert linked(run(_ALIKE, _ALIKE, numbers=numbers, span=3 << 30)) == {}


def test_directions_of_which_nothing_was_seen() -> None:
    """A connection without a first sequence number has no range, and is found by its ops."""
    unknown: Numbers = {0: [(NULL, NULL)], 1: [(NULL, 5)]}
    client = many(20, 1000) + many(20, 5000, 1)
    assert linked(run(client, client, numbers=(unknown, _FIRST))) == {0: {0}, 1: {1}}


@pytest.mark.parametrize("proxy", [False, True], ids=["nat", "proxy"])
def test_captures_of_equal_connections_behind_a_nat(decoder: Decoder, tmp_path: Path, proxy: bool) -> None:
    """Whole captures: three connections with the same XIDs and requests, other addresses and ports at the server. What
    the decoder says of their sequence numbers tells them apart; a proxy has its own, and they are unmatched."""

    def capture(side: str, ends: list[tuple[str, int]], isn: list[tuple[int, int]]) -> Side:
        flows = []
        for number, (end, first) in enumerate(zip(ends, isn, strict=True)):
            flow = wire.Tcp(client=end, isn=first)
            for i in range(5):
                flow.send(10 * i + number, ">", wire.getattr3(i))
                flow.send(10 * i + number + 5, "<", wire.reply(i, wire.GETATTR3))
            flows.append(flow.seen_by(side))
        return decoder.side("native", wire.write_pcap(tmp_path / f"equal-{proxy}-{side}.pcap", *flows))

    numbers = [(1000 * i, 5 << 20 + i) for i in (1, 2, 3)]
    ports = [("192.0.2.1", 40_000 + port) for port in (2, 0, 1)]
    client = capture("client", [("10.0.0.1", 700 + port) for port in range(3)], numbers)
    server = capture("server", ports, [(one + 99_999, other + 1) for one, other in numbers] if proxy else numbers)
    tcp = server.decoded.details.tcp, client.decoded.details.tcp
    found = match(server.ops, client.ops, ALWAYS, ALWAYS, tcp)
    assert len(found.matched) == (0 if proxy else 15)
    for c, rows in linked(found).items():
        assert [server.ops.connections[row].source(0) for row in rows] == [
            ports[client.ops.connections[c].port_a - 700]
        ]


# --- For any ops ------------------------------------------------------------------------------------------------------


@st.composite
def sides(draw: st.DrawFn) -> tuple[list[Op], list[Op]]:
    """Up to four connections with XIDs of their own; what each side sees of them, most of each connection."""
    client = [
        # Few ops in common tell too little where others ask for the same, which is left unmatched.
        row
        for conn in range(draw(st.integers(1, 4)))
        for row in many(draw(st.integers(9, 15)), 1000 * conn, conn)
    ]
    hidden = draw(st.lists(st.booleans(), min_size=len(client), max_size=len(client)))
    server = [row.but(offset=NULL) if hide else row for row, hide in zip(client, hidden, strict=True)]
    out = []
    for rows in (server, client):
        dropped = draw(st.sets(st.integers(0, 3), max_size=1))
        out.append([row for row in rows if row.truth % 1000 // 3 not in dropped or row.truth % 3 == 0])
    return out[0], out[1]


@given(sides(), st.permutations(range(4)), st.booleans())
def test_other_ends_change_nothing(both: tuple[list[Op], list[Op]], order: list[int], only_ports: bool) -> None:
    """A NAT renames the ends, or exchanges the ports: the same ops are matched as without it, one by one."""
    server, client = both
    plain = run(server, client, _CLIENT)
    ends = tuple(_CLIENT[order.index(at)] for at in range(4)) if only_ports else _BEHIND_NAT
    moved_server = moved(server, dict(enumerate(order))) if not only_ports else server
    renamed = run(moved_server, client, ends)
    assert _pairs(renamed) == _pairs(plain)


def _pairs(found: Matching) -> set[tuple[int, int]]:
    return set(zip(found.matched.server.tolist(), found.matched.client.tolist(), strict=True))


_ROW = st.builds(
    op,
    st.integers(0, 1000),
    st.integers(1001, 2000),
    st.integers(1, 6),
    conn=st.integers(0, 2),
    op=st.sampled_from((GETATTR, WRITE)),
    offset=st.sampled_from((0, 4096, NULL)),
)
_MIRROR = {
    Miss.NOT_CAPTURED_AT_SERVER: Miss.NOT_CAPTURED_AT_CLIENT,
    Miss.NOT_CAPTURED_AT_CLIENT: Miss.NOT_CAPTURED_AT_SERVER,
}


@given(st.lists(_ROW, max_size=14), st.lists(_ROW, max_size=14), st.booleans())
def test_the_sides_can_be_exchanged(server: list[Op], client: list[Op], nat: bool) -> None:
    """Server for client and client for server: the same pairs, and for each op the same reason, seen from there."""
    one = ops(*server, connections=_BEHIND_NAT if nat else _CLIENT)
    two = ops(*client, connections=_CLIENT)
    found, mirror = match(one, two, ALWAYS, ALWAYS), match(two, one, ALWAYS, ALWAYS)
    assert {(c, s) for s, c in _pairs(found)} == _pairs(mirror)
    for fates, seen in (
        (found.unmatched.server, mirror.unmatched.client),
        (found.unmatched.client, mirror.unmatched.server),
    ):
        assert [_MIRROR.get(Miss(fate), fate) for fate in fates.tolist()] == seen.tolist()
