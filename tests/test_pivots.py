"""Matched ops by size, client, file ... and by time: every op is in one group, and figures are those of its ops."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from captures import Decoder, needs_captures
from commands import BY as BY_OF_OPTIONS
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_tables import GETATTR, READ, WRITE, decoded, op, ops

import nfslat
from nfslat.answer.model import Summary
from nfslat.answer.pivots import IntervalRow, Pivot, PivotRow
from nfslat.clock.theta import find_clock
from nfslat.decode.capture import Source
from nfslat.errors import UsageError
from nfslat.export.op_table import op_table
from nfslat.figures import intervals as summarize_intervals
from nfslat.figures import pivots as summarize_pivots
from nfslat.figures.intervals import intervals_of
from nfslat.figures.matched import matched_ops
from nfslat.figures.pivots import BY, pivot_of
from nfslat.match.match import match
from nfslat.model.details import Callers, Details, Slots, no_details
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.tables import I32, Connection, Kind
from nfslat.pipeline import analyse
from nfslat.report.sections.all import blocks
from nfslat.report.text_writer import write
from nfslat.results import Analysis, Correlation, Side
from nfslat.tally.stats import summary_of

ALWAYS = (-(1 << 62), 1 << 62)
MS = 1_000_000
COMMIT = 21
CONNECTIONS = (
    Connection("tcp", "10.0.0.1", 700, "10.0.0.9", 2049),
    Connection("tcp", "10.0.0.1", 701, "10.0.0.9", 2049),
    Connection("tcp", "fd00::2", 700, "fd00::9", 2049),
)


@dataclass(frozen=True)
class Seen:
    """One op of both captures, ms."""

    at: float = 0.0
    client: float = 2.0
    server: float = 1.0
    op: int = READ
    size: int = 8192
    fh: int = 0xF11E
    conn: int = 0
    uid: int = NULL32
    server_uid: int = NULL32
    server_fh: int | None = None  # where it is another than `fh`


@dataclass(frozen=True)
class Named:
    """As `nfslat.names` gives paths."""

    of_op: I32
    texts: tuple[str, ...]
    partial: tuple[bool, ...]


def _pair(*seen: Seen, slots: Slots | None = None, kinds: Sequence[Kind] = ()) -> Analysis:
    """Ops in order of their calls; the server takes each 0.1 ms after it was sent. `kinds`: instead of the table's."""
    ordered = sorted(seen, key=lambda one: one.at)

    def side(at_server: bool) -> Side:
        rows = []
        for xid, one in enumerate(ordered):
            begin, srt = (one.at + 0.1, one.server) if at_server else (one.at, one.client)
            fh = one.fh if one.server_fh is None or not at_server else one.server_fh
            rows.append(op(begin, begin + srt, xid, op=one.op, size=one.size, fh=fh, conn=one.conn))
        table = ops(*rows, connections=CONNECTIONS)
        table = replace(table, kinds=tuple(kinds)) if kinds else table
        uids = [one.server_uid if at_server else one.uid for one in ordered]
        details: Details = no_details()
        if any(uid != NULL32 for uid in uids):
            details = replace(details, callers=Callers.from_columns({"uid": uids}))
        if slots is not None and not at_server:
            details = replace(details, slots=slots)
        return Side(Source("made", ()), decoded(table, details=details), np.zeros(len(table), dtype=np.int8))

    server, client = side(True), side(False)
    matching = match(server.ops, client.ops, ALWAYS, ALWAYS)
    matched = matching.matched
    clock = find_clock(server.ops, client.ops, matched)
    return analyse(Correlation(server, client, matching, matched, clock, "nfslat"))


def _all(pivot: Pivot) -> list[PivotRow]:
    return [*pivot.rows, *([pivot.others] if pivot.others is not None else [])]


def _ops(pivot: Pivot) -> dict[str, int]:
    return {row.key: row.ops for row in _all(pivot)}


# --- Groups -----------------------------------------------------------------------------------------------------------


def test_sizes_have_the_classes_that_users_know() -> None:
    """READs, then WRITEs, in the smallest class that holds their bytes; other operations and unknown sizes apart."""
    reads = [Seen(at, size=size) for at, size in enumerate((0, 4096, 4097, 8192, 1 << 20, (1 << 20) + 1, NULL32))]
    c = _pair(*reads, Seen(10, op=WRITE, size=65536), Seen(11, op=GETATTR, size=NULL32), Seen(12, op=COMMIT, size=8192))
    found = pivot_of(c, "size")
    assert list(_ops(found).items()) == [
        ("READ 4K", 2), ("READ 8K", 2), ("READ 1M", 1), ("READ more", 1), ("READ not known", 1), ("WRITE 64K", 1),
        ("other ops", 2),
    ]  # fmt: skip
    assert [row.bytes for row in found.rows] == [4096, 12289, 1 << 20, (1 << 20) + 1, None, 65536, 0]
    assert [row.without_size for row in found.rows] == [0, 0, 0, 0, 1, 0, 0]
    assert found.rows[4].mb_per_s is None


def test_clients_servers_and_connections() -> None:
    """A connection is the client's address and port; where there are several servers, with its server."""
    c = _pair(Seen(0, client=1), Seen(1, client=3), Seen(2, client=5, conn=1), Seen(3, client=7, conn=2))
    assert _ops(pivot_of(c, "client")) == {"10.0.0.1": 3, "fd00::2": 1}
    assert _ops(pivot_of(c, "server")) == {"10.0.0.9": 3, "fd00::9": 1}
    assert list(_ops(pivot_of(c, "connection"))) == [
        "[fd00::2]:700 to [fd00::9]:2049", "10.0.0.1:701 to 10.0.0.9:2049", "10.0.0.1:700 to 10.0.0.9:2049",
    ]  # fmt: skip
    one_server = _pair(Seen(0), Seen(1, conn=1, client=9))
    assert list(_ops(pivot_of(one_server, "connection"))) == ["10.0.0.1:701", "10.0.0.1:700"]


def test_most_time_of_the_client_comes_first() -> None:
    """Two slow ops stand in front of three quick ones."""
    c = _pair(*(Seen(at, client=20, fh=1) for at in range(2)), *(Seen(at, fh=2) for at in range(5, 8)))
    assert list(_ops(pivot_of(c, "file"))) == ["fh 0x00000001", "fh 0x00000002"]


def test_files_go_by_their_path_else_by_their_handle() -> None:
    """The handle may be in the server's capture only; without either, the file is not known."""
    handles = ((1, 1), (2, 2), (3, 3), (NULL32, 0xABC), (NULL32, NULL32), (3, 3))
    c = _pair(*(Seen(at, fh=client, server_fh=server) for at, (client, server) in enumerate(handles)))
    paths = Named(np.array([1, 0, 1, NULL, NULL, NULL], dtype=np.int32), ("/a", ".../b.dbf"), (False, True))
    want = {"/a": 1, ".../b.dbf": 2, "fh 0x00000abc": 1, "fh 0x00000003": 1, "not known": 1}
    assert _ops(pivot_of(c, "file", paths)) == want
    assert _ops(pivot_of(c, "file"))["fh 0x00000003"] == 2


def test_uids_are_the_clients_else_the_servers() -> None:
    """What neither capture shows (Kerberos, or a short snaplen) is not known."""
    c = _pair(Seen(0, uid=0, server_uid=5), Seen(1, server_uid=1000), Seen(2), Seen(3, uid=4294967294))
    assert _ops(pivot_of(c, "uid")) == {"0": 1, "1000": 1, "not known": 1, "4294967294": 1}


def test_seconds_count_from_the_first_matched_call() -> None:
    """By the call, in order of time, with the seconds in between in which nothing was called."""
    c = _pair(Seen(250, client=1500), Seen(1249.9), Seen(1250), Seen(3300, size=1_000_000))
    found = pivot_of(c, "second")
    assert [(row.key, row.ops) for row in found.rows] == [
        ("1970-01-01T00:00:00.250000000Z", 2),
        ("1970-01-01T00:00:01.250000000Z", 1),
        ("1970-01-01T00:00:02.250000000Z", 0),
        ("1970-01-01T00:00:03.250000000Z", 1),
    ]
    assert found.groups == 4
    empty = found.rows[2]
    assert (empty.client_ms, empty.server_ms, empty.network_ms, empty.queue_ms) == (None,) * 4
    assert (empty.bytes, empty.mb_per_s) == (0, 0)
    assert found.rows[3].mb_per_s == 1.0


def test_seconds_far_apart_have_no_rows_in_between() -> None:
    """A day with a call in the morning and one at night is two rows; where there are too many, the busiest stay."""
    c = _pair(Seen(0), Seen(86_400_000))
    assert [row.key for row in pivot_of(c, "second").rows] == [
        "1970-01-01T00:00:00.000000000Z",
        "1970-01-02T00:00:00.000000000Z",
    ]
    many = _pair(*(Seen(at * 1000, client=5 if at % 2 else 1) for at in range(6)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summarize_pivots, "MOST_ROWS", 3)
        found = pivot_of(many, "second")
    assert [row.key[17:19] for row in found.rows] == ["01", "03", "05"]
    assert found.others is not None
    assert (found.others.key, found.others.ops) == ("3 others", 3)
    assert found.others.mb_per_s == pytest.approx(8192 / 1e6)  # three READs in three seconds


def _slots(rows: Sequence[tuple[int, int, int]], sessions: int) -> Slots:
    columns: dict[str, list[int]] = {name: [0] * len(rows) for name in Slots.columns()}
    columns["op"], columns["session"], columns["slot"] = map(list, zip(*rows, strict=True))
    return Slots.from_columns(columns, sessions=tuple(bytes([number] * 16) for number in range(sessions)))


def test_slots_of_one_session_and_of_several() -> None:
    """A number is enough for one session; several are told apart by their ids."""
    v41 = [Kind(100003, 4, 1, 25)]
    one = _pair(*map(Seen, range(3)), slots=_slots([(0, 0, 0), (1, 0, 7), (2, 0, 0)], 1), kinds=v41)
    assert _ops(pivot_of(one, "slot")) == {"0": 2, "7": 1}
    two = _pair(*map(Seen, range(3)), slots=_slots([(0, 0, 0), (1, 1, 0), (2, 0, 0)], 2), kinds=v41)
    assert _ops(pivot_of(two, "slot")) == {f"0 of session {'00' * 16}": 2, f"0 of session {'01' * 16}": 1}


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        (Kind(100003, 3, NULL, READ), "no slot"),
        (Kind(100003, 4, 0, 25), "no slot"),
        (Kind(100003, 4, 1, 42), "no slot"),  # EXCHANGE_ID, before there is a session
        (Kind(100003, 4, 1, 25), "not known"),
        (Kind(100003, 4, NULL, 25), "not known"),
        (Kind(100003, NULL, NULL, NULL), "not known"),
    ],
)
def test_ops_without_a_slot(kind: Kind, says: str) -> None:
    """Before NFSv4.1 there are none; what is of NFSv4.1 had one, even where an engine does not tell."""
    assert _ops(pivot_of(_pair(Seen(), kinds=[kind]), "slot")) == {says: 1}


def test_what_is_no_grouping() -> None:
    """The answer names those that there are."""
    with pytest.raises(UsageError, match=r"--by host: there is no such grouping; take one of size, client, .*slot"):
        pivot_of(_pair(Seen()), "host")


def test_no_matched_ops() -> None:
    """Nothing is in no group, and in no interval."""
    c = _pair(Seen())
    nothing = replace(c, matched=c.matched.take(slice(0)))
    assert [pivot_of(nothing, by) for by in BY] == [Pivot(by, 0, [], None) for by in BY]
    assert intervals_of(nothing, 1.0).rows == []


# --- Figures ----------------------------------------------------------------------------------------------------------

_SEEN = st.builds(
    lambda at, client, share, *others: Seen(at, client, client * share, *others),
    st.integers(0, 4000),
    st.integers(0, 300).map(lambda tenths: tenths / 10),
    st.sampled_from([0.0, 0.5, 1.0]),
    st.sampled_from([READ, WRITE, GETATTR]),
    st.sampled_from([0, 512, 8192, 65536, 1 << 20, 1 << 21, NULL32]),
    st.sampled_from([1, 2, 3, NULL32]),
    st.integers(0, 2),
    st.sampled_from([0, 1000, NULL32]),
)


def _key(by: str, one: Seen, first_ms: float) -> str:
    """The plain way."""
    ends = CONNECTIONS[one.conn]
    if by == "size":
        fits = [k for k in (4, 8, 16, 32, 64, 128, 256, 512, 1024) if one.size <= k * 1024]
        name = "more" if not fits else "1M" if fits[0] == 1024 else f"{fits[0]}K"
        operation = "READ" if one.op == READ else "WRITE"
        return "other ops" if one.op == GETATTR else f"{operation} {'not known' if one.size == NULL32 else name}"
    if by == "second":
        return f"1970-01-01T00:00:{(first_ms + (one.at - first_ms) // 1000 * 1000) / 1000:012.9f}Z"
    return {
        "client": ends.addr_a,
        "server": ends.addr_b,
        "connection": f"{ends.addr_a} {ends.port_a}",
        "file": "not known" if one.fh == NULL32 else f"fh 0x{one.fh:08x}",
        "uid": "not known" if one.uid == NULL32 else str(one.uid),
        "slot": "no slot",
    }[by]


def _moved(seen: Sequence[Seen]) -> tuple[int, int]:
    """Bytes, and ops whose bytes are not known."""
    data = [one.size for one in seen if one.op != GETATTR]
    return sum(size for size in data if size != NULL32), data.count(NULL32)


def _summaries(seen: Sequence[Seen]) -> list[Summary | None]:
    """The times, rounded as the captures hold them."""
    if not seen:
        return [None] * 3
    client = np.array([round((one.at + one.client) * MS) - round(one.at * MS) for one in seen])
    server = np.array([round((one.at + 0.1 + one.server) * MS) - round((one.at + 0.1) * MS) for one in seen])
    return [summary_of(client), summary_of(server), summary_of(client - server)]


@given(seen=st.lists(_SEEN, min_size=1, max_size=30), most=st.sampled_from([1, 2, 1000]), by=st.sampled_from(BY))
@settings(max_examples=examples(80))
def test_groups_sum_to_the_whole(seen: list[Seen], most: int, by: str) -> None:
    """Any ops, however many groups are kept: each group, and all others together, have the figures of their ops."""
    c = _pair(*seen)
    first_ms = min(one.at for one in seen)
    groups: dict[str, list[Seen]] = defaultdict(list)
    for one in seen:
        groups[_key(by, one, first_ms)].append(one)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(summarize_pivots, "MOST_ROWS", most)
        found = pivot_of(c, by)
    rows = _all(found)
    assert sum(row.ops for row in rows) == len(seen)
    assert (sum(row.bytes or 0 for row in rows), sum(row.without_size for row in rows)) == _moved(seen)
    assert len(found.rows) == min(found.groups, most)
    assert found.groups == len(groups) + sum(row.ops == 0 for row in found.rows)
    kept: list[Seen] = []
    for row in found.rows:
        key = row.key if by != "connection" else row.key.split(" to ")[0].replace("]", "").replace("[", "")
        if by == "connection":
            key = " ".join(key.rsplit(":", 1))
        here = groups[key]
        kept += here
        assert (row.ops, row.bytes or 0, row.without_size) == (len(here), *_moved(here))
        assert [row.client_ms, row.server_ms, row.network_ms] == _summaries(here)
    left = [one for one in seen if one not in kept]
    if found.others is not None:
        assert [found.others.client_ms, found.others.server_ms, found.others.network_ms] == _summaries(left)
    else:
        assert not left


@given(seen=st.lists(_SEEN, min_size=1, max_size=30), seconds=st.sampled_from([0.25, 1.0, 3.0, 1e6]))
@settings(max_examples=examples(60))
def test_intervals_sum_to_the_whole(seen: list[Seen], seconds: float) -> None:
    """Any ops: each interval has those that were called in it, in all and by operation, and none is left out."""
    c = _pair(*seen)
    found = intervals_of(c, seconds)
    first_ms, names = min(one.at for one in seen), {READ: "READ", WRITE: "WRITE", GETATTR: "GETATTR"}
    cells: dict[tuple[int, str], list[Seen]] = defaultdict(list)
    for one in seen:
        for op_name in ("all", names[one.op]):
            cells[int((one.at - first_ms) // (seconds * 1000)), op_name].append(one)
    last = max(number for number, _ in cells)
    assert [row.begin_s for row in found.rows if row.op == "all"] == [number * seconds for number in range(last + 1)]
    assert {(round(row.begin_s / seconds), row.op) for row in found.rows if row.ops} == set(cells)
    for row in found.rows:
        here = cells.get((round(row.begin_s / seconds), row.op), [])
        size, unknown = _moved(here)
        assert (row.ops, row.bytes or 0, row.without_size) == (len(here), size, unknown)
        assert row.ops_per_s == pytest.approx(len(here) / seconds)
        assert row.kb_per_s is None or row.kb_per_s == pytest.approx(size / 1024 / seconds)
        of = (row.client_ms, row.client_p99_ms, row.server_ms, row.network_ms)
        client, server, network = _summaries(here)
        if client is None or server is None or network is None:
            assert of == (None,) * 4
        else:
            assert of == pytest.approx((client.mean, client.p99, server.mean, network.mean))
            assert row.client_p99_ms == client.p99


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 1e-10])
def test_what_is_no_interval(seconds: float) -> None:
    """Said in one line, with an example of what is."""
    with pytest.raises(UsageError, match=r"give a number of seconds above 0, 1 or 0\.1 for example"):
        intervals_of(_pair(Seen()), seconds)


def test_too_many_intervals_are_refused_with_one_that_works() -> None:
    """The suggestion is a round number, and it is enough."""
    c = _pair(Seen(0), Seen(1, op=WRITE), Seen(3_600_000))
    with pytest.raises(UsageError, match=r"this makes 3,600,001 rows or more, and 100,000 are the most") as refused:
        intervals_of(c, 0.001)
    suggestion = re.search(r"take --interval ([\d.]+),", str(refused.value))
    assert suggestion is not None
    assert float(suggestion[1]) == 0.2
    assert len(intervals_of(c, float(suggestion[1])).rows) <= summarize_intervals.MOST_ROWS


@pytest.mark.parametrize("seconds", [86_400.0, 1e12, 1e300])
def test_an_interval_may_be_longer_than_the_captures(seconds: float) -> None:
    """Then there is one."""
    assert [row.ops for row in intervals_of(_pair(Seen(0), Seen(5000)), seconds).rows] == [2, 2]


# --- Real captures ----------------------------------------------------------------------------------------------------


def _weighted(rows: Sequence[tuple[int, float | None]]) -> float:
    return sum(ops * ms for ops, ms in rows if ms is not None) / sum(ops for ops, _ in rows)


def _by_hand(c: Analysis, *names: str) -> dict[Any, list[int]]:
    """Client SRT of the ops by the columns `names` of the table of matched ops."""
    table = op_table(c)
    groups: dict[Any, list[int]] = defaultdict(list)
    columns = [table[name].tolist() for name in names]
    for *key, srt_ns in zip(*columns, table["client_srt_ns"].tolist(), strict=True):
        groups[tuple(key)].append(srt_ns)
    return groups


@needs_captures
@pytest.mark.parametrize(
    "scenario", ["f_v3_nconnect4", "f_v41_session_slots2", "h_v3_metadata", "b4_v3_rpc_retransmit"]
)
def test_figures_are_those_of_the_report(decoder: Decoder, scenario: str) -> None:
    """On real pairs, groups and intervals sum to the matched ops of each operation, and their means to the report's."""
    c = analyse(decoder.pair(scenario))
    report = matched_ops(c)
    assert report.total is not None
    for by in BY:
        rows = _all(pivot_of(c, by))
        assert sum(row.ops for row in rows) == report.ops
        mean = _weighted([(row.ops, row.client_ms.mean if row.client_ms else None) for row in rows])
        assert mean == pytest.approx(report.total.client_ms.mean, rel=1e-12)
        if report.total.queue_ms is not None:
            assert _weighted([(row.ops, row.queue_ms) for row in rows]) == pytest.approx(
                report.total.queue_ms, rel=1e-9
            )
    of_op: dict[str, list[IntervalRow]] = defaultdict(list)
    for row in intervals_of(c, 0.5).rows:
        of_op[row.op].append(row)
    every = of_op.pop("all")
    for want, found in [(report.total, every), *((row, of_op.pop(row.op)) for row in report.by_op)]:
        assert sum(row.ops for row in found) == want.count
        for name in ("client_ms", "server_ms", "network_ms"):
            mean = _weighted([(row.ops, getattr(row, name)) for row in found])
            assert mean == pytest.approx(getattr(want, name).mean, rel=1e-12)
    assert of_op == {}
    whole = {row.op: row.client_p99_ms for row in intervals_of(c, 1e6).rows}
    assert whole == {"all": report.total.client_ms.p99} | {row.op: row.client_ms.p99 for row in report.by_op}
    table = op_table(c)
    assert sum(row.retrans for row in every) == int((table["client_transmissions"] - 1).sum())


@needs_captures
def test_connections_of_a_mount_with_four(decoder: Decoder) -> None:
    """nconnect=4: the ops of each connection are those that the table of matched ops has of it."""
    c = analyse(decoder.pair("f_v3_nconnect4"))
    by_hand = {f"{address}:{port}": srts for (address, port), srts in _by_hand(c, "client", "client_port").items()}
    found = {row.key: row for row in pivot_of(c, "connection").rows}
    assert {key: row.client_ms for key, row in found.items()} == {
        key: summary_of(np.array(srts)) for key, srts in by_hand.items()
    }
    assert sum(row.ops > 100 for row in found.values()) == 4


@needs_captures
def test_slots_of_a_session_with_two(decoder: Decoder) -> None:
    """The client was held to two slots: 0 and 1 have all ops but those that came before the session."""
    c = analyse(decoder.pair("f_v41_session_slots2"))
    found = {row.key: row for row in pivot_of(c, "slot").rows}
    assert set(found) == {"0", "1", "no slot"}
    by_hand = _by_hand(c, "slot")
    assert {key: row.ops for key, row in found.items()} == {
        "no slot" if slot is None else str(slot): len(srts) for (slot,), srts in by_hand.items()
    }
    assert found["no slot"].ops < 10


@needs_captures
def test_sizes_of_small_files(decoder: Decoder) -> None:
    """Files of many sizes: each class has the READs and WRITEs of its sizes, and their bytes sum."""
    c = analyse(decoder.pair("h_v3_metadata"))
    found = {row.key: row for row in pivot_of(c, "size").rows}
    sizes: dict[str, list[int]] = defaultdict(list)
    table = op_table(c)
    for name, size in zip(table["op"].tolist(), table["size_bytes"].tolist(), strict=True):
        if name in ("READ", "WRITE"):
            sizes[f"{name} {max(4, 1 << ((size - 1) // 1024).bit_length())}K"].append(size)
    assert len(sizes) > 3
    assert {key: (row.ops, row.bytes) for key, row in found.items() if key != "other ops"} == {
        key: (len(of), sum(of)) for key, of in sizes.items()
    }


# --- Words ------------------------------------------------------------------------------------------------------------


ROOT = Path(__file__).parents[1]
DOCUMENT = (ROOT / "docs" / "outputs.md").read_text()
EXAMPLES = re.findall(
    r"^    nfslat (samples/\S+) (samples/\S+) --(by|interval) (\w+)\n\n```text\n(.*?)\n```", DOCUMENT, re.S | re.M
)


def test_the_names_of_groupings_are_the_same_everywhere() -> None:
    """The command line, the document and the code have one list, and the document has examples."""
    rows = re.findall(r"^\| `([a-z]+)` \|", DOCUMENT.split("| `--by` |")[1].split("\n\n")[0], re.MULTILINE)
    assert tuple(rows) == BY == BY_OF_OPTIONS
    assert {option for _, _, option, _, _ in EXAMPLES} == {"by", "interval"}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example[2]} {example[3]}")
def test_examples_of_the_document_are_real(example: tuple[str, str, str, str, str]) -> None:
    """What the document shows below a command is what it prints."""
    server, client, option, value, shown = example
    asked: dict[str, Any] = {"by": [value]} if option == "by" else {"interval_s": float(value)}
    found = nfslat.correlate(ROOT / server, ROOT / client, engine="native", **asked).summary
    assert shown in write(blocks(found, "pivots", "intervals"))
