"""Example reports for the renderers' tests: one small one by hand, and random ones that keep the model's promises."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import strategies as st
from verdicts import blames

from nfslat.answer.model import (
    SCHEMA,
    AuditNote,
    Bucket,
    CapInFlight,
    Capture,
    CaptureFile,
    Charge,
    ClientInFlight,
    Clock,
    ClockStep,
    Completeness,
    ConnectionInFlight,
    Finding,
    InFlight,
    Level,
    MatchedOps,
    MatchedRow,
    MeanAndP99,
    MountInFlight,
    NextStep,
    Outcome,
    Parts,
    PartSummaries,
    RawRow,
    Report,
    Selection,
    ServerInFlight,
    SessionInFlight,
    StackRow,
    Summary,
    TcpAmount,
    Tool,
    Transport,
    Verdict,
    WhatIf,
)
from nfslat.answer.pictures import (
    Classes,
    Distribution,
    EnvelopePoint,
    Event,
    Flying,
    Heat,
    Moment,
    OverTime,
    Pictures,
    Piece,
    SlowOp,
    Way,
)
from nfslat.answer.pivots import IntervalRow, Intervals, Pivot, PivotRow
from nfslat.model.causes import CHARGES
from nfslat.model.protocol import _NAMES, op_name, program_name
from nfslat.model.tables import Miss, State
from nfslat.wire.charges.places import PLACES

_LABELS = ".1m .2m .5m 1m 2m 4m 8m 16m 33m 65m .1s .2s .5s 1s 2s 4s 8s 16s 33s 65s".split()
_BOUNDS_US: list[int | None] = [0, *(128 << i for i in range(len(_LABELS))), None]


def _histogram(counts: dict[str, int]) -> list[Bucket]:
    return [
        Bucket(us, label, counts.get(label, 0)) for us, label in zip(_BOUNDS_US, ["<0", *_LABELS, "more"], strict=True)
    ]


def _capture(side: str, packets: int, ops: int, messages: dict[str, int], programs: dict[str, int]) -> Capture:
    path = f"/data/{side}.pcap"
    return Capture(
        path=path,
        files=[CaptureFile(path, packets, 1)],
        format="pcap",
        snaplen=512,
        packets=packets,
        wire_bytes=None,
        captured_bytes=None,
        packet_kinds={"RPC": packets - 10, "other TCP": 10},
        first="2024-05-01T10:00:00.000000+00:00",
        last="2024-05-01T10:00:20.000000+00:00",
        duration_s=20.0,
        flows=1,
        messages=messages,
        ops=ops,
        programs=programs,
    )


def _in_flight() -> InFlight:
    """32 workers on one connection, before a server with four threads."""
    levels = [Level(1, 0.02, 60.0), Level(16, 0.18, 780.0), Level(31, 0.1, 785.0), Level(32, 0.7, 790.0)]
    connection = ConnectionInFlight("10.0.0.2:733", 991, 32, 32, 0.7, 0.41, (162.0, 215.0), "workers")
    mount = MountInFlight(
        "10.0.0.2", "10.0.0.1:2049", 991, 32, 27.5, 1, "workers", slots=None, at_limit_share=0.7, hint=None,
        connections=[connection],
    )  # fmt: skip
    return InFlight(
        server=ServerInFlight(
            server="10.0.0.1",
            servers=1,
            max=32,
            mean=27.1,
            levels=levels,
            knee=None,
            threads_lower_bound=4,
            lower_bound_seen=120,
            threads_estimate=4,
            threads_range=(4, 5),
            limited=True,
            waiting_share=0.96,
            queue_ms=14.2,
            queue_range_ms=(13.4, 14.2),
            service_ms=5.1,
            witnesses=12,
            held=0,
            unseen_first=0,
            cannot=None,
            instead=None,
        ),
        client=ClientInFlight(32, 27.5, levels, 16, None, 0.7, 0.41, False, "workers", [mount]),
        sessions=[],
        caps=[],
        hidden_share={"server": 0.0, "client": 0.031},
    )


def _findings() -> list[Finding]:
    """One with a setting, one with something to look at, and one that hardly matters."""
    threads = Finding(
        code="server-threads",
        layer="server",
        severity="warning",
        share=0.709,
        confidence="likely",
        text="calls wait 14.2 of the server's 19.3 ms for one of the server's 4 threads",
        evidence={"queue_ms": 14.2, "share_slowest": 0.888},
        advice={
            "knob": "nfsd.threads",
            "value": "4",
            "suggested": "64",
            "how": [
                "rpc.nfsd 64",
                "# for the next start, in /etc/nfs.conf under [nfsd]: threads=64; where that is not read, RPCNFSDCOUNT",
                "echo options a module with a parameter of its own some_parameter=64 >>/etc/modprobe.d/a-name.conf",
            ],
            "takes_effect": "at once, without a remount",
            "verify": "cat /proc/fs/nfsd/threads",
            "risk": "the server and its storage get more requests at once; a slow back end stays slow, and has a "
            "longer queue",
            "sources": ["threads-set: rpc.nfsd(8)"],
        },
    )
    storage = Finding(
        code="server-storage",
        layer="server",
        severity="warning",
        share=0.25,
        confidence="likely",
        text="READ and WRITE take 5.1 ms in the server once a thread has them",
        evidence={},
        advice={
            "knob": "the storage behind the server",
            "how": ["iostat -x 1 on the server", "nfslat ... --storage-ms"],
        },
    )
    delay = Finding("net-delay", "network", "info", 0.031, "certain", "the round trip is 0.62 ms", {}, {"knob": "path"})
    return [threads, storage, delay]


def _small() -> Report:
    """1,000 READs, 990 in both captures; the server needs 19.3 of the client's 20.0 ms, most of it for a thread."""
    server = Summary(19.30, 18.0, 30.0, 55.0, 111.0)
    client = Summary(20.02, 18.7, 30.8, 55.9, 112.4)
    total = MatchedRow(
        program="NFS",
        op="READ",
        version="3",
        count=990,
        client_ms=client,
        server_ms=server,
        network_ms=Summary(0.72, 0.70, 0.80, 1.1, 2.2),
        negative_network=0,
        parts_ms=Parts(0.0041, 0.3102, 19.30, 0.0955, 0.3102, 0.6204, 0.225),
        queue_ms=14.2,
    )
    slowest = MatchedRow(
        program="NFS",
        op="READ",
        version="3",
        count=10,
        client_ms=Summary(90.4, 88.0, 112.4, 112.4, 112.4),
        server_ms=Summary(89.2, 87.0, 111.0, 111.0, 111.0),
        network_ms=Summary(1.2, 1.1, 2.2, 2.2, 2.2),
        negative_network=0,
        parts_ms=Parts(0.004, 0.5, 89.2, 0.296, 0.4, 0.9, 0.23, 0.02, 0.0),
        queue_ms=80.3,
    )
    return Report(
        schema=SCHEMA,
        nfslat=Tool("0.1.0", "tshark 4.0.17", "nfslat server.pcap client.pcap", "nfslat"),
        captures={
            "server": _capture("server", 2300, 1000, {"PAIRED": 2000, "RETRANSMITTED": 2}, {"NFS": 1000}),
            "client": _capture("client", 2280, 995, {"PAIRED": 1990, "NO_REPLY": 3}, {"NFS": 995, "MOUNT": 4}),
        },
        raw={
            "server": [RawRow("NFS", "READ", "3", 1000, server, _histogram({"16m": 400, "33m": 590, ".2s": 10}))],
            "client": [RawRow("NFS", "READ", "3", 991, client, _histogram({"16m": 381, "33m": 600, ".2s": 10}))],
        },
        selection=Selection(filters={}, excluded={"server": {}, "client": {"RPC program is not NFS": 4}}),
        notes=[],
        matched=MatchedOps(
            processed={"server": 1000, "client": 991},
            ops=990,
            untimed=0,
            unmatched={
                "server": {"OUTSIDE_OVERLAP": 8, "NOT_CAPTURED_AT_CLIENT": 2},
                "client": {"NOT_CAPTURED_AT_SERVER": 1},
            },
            by_op=[total],
            total=total,
            slowest=slowest,
            parts=PartSummaries(
                call_send=Summary(0.0041, 0.004, 0.005, 0.006, 0.007),
                call_net=Summary(0.3102, 0.305, 0.4, 0.5, 1.1),
                server=server,
                reply_send=Summary(0.0955, 0.09, 0.1, 0.2, 0.4),
                reply_net=None,
                one_way_error=0.25,
            ),
            completeness=Completeness(0.998, 990, 992, {"not in the client's capture": 2}),
        ),
        clock=Clock(
            fits=True,
            theta_ms=7000.125,
            bound_ms=(6999.9, 7000.35),
            at="2024-05-01T10:00:10.000000+00:00",
            drift_ppm=0.0,
            drift_bound_ppm=(-3.25, 4.5),
            steps=[],
            rate_changes=0,
            messages=1980,
            contradicting=0,
        ),
        inflight=_in_flight(),
        findings=_findings(),
        verdict=blames(
            layer="server",
            cause="server-threads",
            share=0.964,
            share_slowest=0.987,
            confidence="high",
            text="Of 20.0 ms mean client SRT the server adds 19.3 ms (96.4 %), and 98.7 % of the slowest 1 %.",
            proof=["client SRT 20.0 ms", "server SRT 19.3 ms"],
            reasons=["99.0 % of the server's ops were matched", "no warning from the captures"],
        ),
    )


@pytest.fixture(scope="session")
def small() -> Callable[[], Report]:
    return _small


# ---- random reports ----

_ms = st.one_of(
    st.sampled_from([0.0, 0.0123, 1.23, 203.1, 9.9996, 9999.95, 1e-9]),
    st.floats(0, 1e7, allow_nan=False),
    st.floats(0, 5, allow_nan=False),
)
_count = st.one_of(st.integers(1, 100), st.integers(1, 99_999_999))
_text = st.one_of(
    st.text(max_size=300),
    st.sampled_from(
        ["/very/long" * 30 + "/file.pcap", "word " * 40, "\x1b[31mred\x1b[0m", "\u8cc7\u6599.pcap", "a\nb\tc"]
    ),
)
_share = st.none() | st.floats(0, 1) | st.floats(-1e6, 1e6)
_ops = st.one_of(
    st.sampled_from([(p, v, n) for (p, v), names in _NAMES.items() for n in range(len(names))]),
    st.sampled_from([(0x40000000, 1, 9), (200099, 1, 12345), (100003, 4, 99), (-1, -1, -1)]),
)
_version = st.sampled_from(["2", "3", "4", "4.0", "4.1", "4.2", "?"])


def _counts(names: list[str]) -> st.SearchStrategy[dict[str, int]]:
    return st.dictionaries(st.sampled_from(names), st.integers(0, 2_000_000_000))


_misses = _counts([miss.name for miss in Miss if miss is not Miss.MATCHED])


@st.composite
def _summary(draw: st.DrawFn) -> Summary:
    mean, *percentiles = draw(_ms), *sorted(draw(_ms) for _ in range(4))
    return Summary(mean, *percentiles)


def _difference(a: Summary, b: Summary) -> Summary:
    return Summary(a.mean - b.mean, a.p50 - b.p50, a.p95 - b.p95, a.p99 - b.p99, a.max - b.max)


@st.composite
def _raw_rows(draw: st.DrawFn) -> list[RawRow]:
    rows = []
    for program, version, op in draw(st.lists(_ops, max_size=4, unique=True)):
        counts = draw(_counts(["<0", *_LABELS, "more"]))
        name, shown = program_name(program), op_name(program, version, op)
        rows.append(RawRow(name, shown, draw(_version), draw(_count), draw(_summary()), _histogram(counts)))
    return rows


@st.composite
def _matched_row(draw: st.DrawFn, split: bool) -> MatchedRow:
    program, version, op = draw(_ops)
    client, server = draw(_summary()), draw(_summary())
    send, net, reply = draw(_ms), draw(_ms | _ms.map(lambda x: -x)), draw(_ms)
    there = net * draw(st.floats(0, 1))
    one_way = (there, net - there) if split else (None, None)
    waits = draw(st.none() | _ms), draw(st.none() | _ms)
    parts = Parts(send, one_way[0], server.mean, reply, one_way[1], net, draw(_ms) if split else None, *waits)
    return MatchedRow(
        program_name(program),
        op_name(program, version, op),
        draw(_version),
        draw(_count),
        client,
        server,
        _difference(client, server),
        draw(st.integers(0, 5)),
        parts,
        queue_ms=draw(st.none() | _ms),
    )


@st.composite
def _matched(draw: st.DrawFn, least_rows: int = 0) -> MatchedOps:
    split = draw(st.booleans())
    by_op = draw(st.lists(_matched_row(split), min_size=least_rows, max_size=3))
    unmatched = {side: draw(_misses) for side in ("server", "client")}
    total = draw(_matched_row(split)) if by_op else None
    ops, untimed = sum(row.count for row in by_op), draw(st.integers(0, 3))
    one_way = st.none() | _summary()
    parts = st.builds(PartSummaries, _summary(), one_way, _summary(), _summary(), one_way, st.none() | _ms)
    return MatchedOps(
        processed={side: ops + untimed + sum(reasons.values()) for side, reasons in unmatched.items()},
        ops=ops,
        untimed=untimed,
        unmatched=unmatched,
        by_op=by_op,
        total=total,
        slowest=draw(_matched_row(split)) if by_op else None,
        parts=draw(parts) if by_op else None,
        completeness=Completeness(draw(st.floats(0, 1)), ops, ops + 3, {"whole in neither capture": 3}),
    )


# What advice has in it is made by nfslat and no longer than a line of commands; anything may be missing.
_command = st.sampled_from(
    [
        "rpc.nfsd 64",
        "# or: " + "words that say more " * 9,
        "echo options sunrpc tcp_max_slot_table_entries=128 and more that makes it wider than a line >>/etc/some.conf",
        "echo 'set nfs:nfs3_max_threads=128' >>/etc/system",
        "",
    ]
)
_advice = st.just({}) | st.fixed_dictionaries(
    {},
    optional={
        "knob": _text,
        "value": _text,
        "suggested": _text,
        "how": st.lists(_command | st.text(max_size=20), max_size=3),
        "takes_effect": _text,
        "verify": _text,
        "risk": _text,
        "sources": st.lists(_text, max_size=1),
        "more": _text,
    },
)
_part = st.floats(0, 1)
_some = st.integers(0, 100) | st.integers(0, 10**9)
_few = st.integers(0, 99_999)
_maybe = st.none() | st.integers(1, 100) | st.integers(1, 10**6)
_held = st.sampled_from(["nothing", "slots", "likely slots", "workers", "slots or workers", "cannot tell"])


def _levels(most: int) -> st.SearchStrategy[list[Level]]:
    numbers = st.lists(st.integers(1, most), max_size=12, unique=True).map(sorted)
    return st.builds(lambda found: [Level(n, 1 / len(found), 1e3 / n) for n in found], numbers)


def _two(of: st.SearchStrategy[float]) -> st.SearchStrategy[tuple[float, float] | None]:
    return st.none() | st.tuples(of, of).map(lambda two: (min(two), max(two)))


@st.composite
def _in_flights(draw: st.DrawFn) -> InFlight:
    levels = st.sampled_from([1, 2, 8, 9, 511]).flatmap(_levels)
    low, estimate, high = sorted(draw(st.integers(1, 2000)) for _ in range(3))
    known = draw(st.booleans())
    queue = draw(st.none() | _ms)
    server = ServerInFlight(
        server=draw(_text),
        servers=draw(_some),
        max=draw(_some),
        mean=draw(_ms),
        levels=draw(levels),
        knee=draw(_maybe),
        threads_lower_bound=draw(_some),
        lower_bound_seen=draw(_some),
        threads_estimate=estimate if known else None,
        threads_range=(low, high) if known else None,
        limited=known and draw(st.booleans()),
        waiting_share=draw(_part),
        queue_ms=queue,
        queue_range_ms=draw(_two(_ms)),
        service_ms=None if queue is None else draw(_ms),
        witnesses=draw(_some),
        held=draw(_some),
        unseen_first=draw(_some),
        cannot=draw(st.none() | _text),
        instead=draw(st.none() | _text),
    )
    share = st.none() | _part
    connection = st.builds(ConnectionInFlight, _text, _some, _few, st.none() | _few, share, share, _two(_ms), _held)
    connections = st.lists(connection, max_size=3)
    mount = st.builds(
        MountInFlight, _text, _text, _some, _some, _ms, _some, _held, _maybe, share, st.none() | _text, connections
    )
    client = st.builds(
        ClientInFlight,
        _some,
        _ms,
        levels,
        _maybe,
        _maybe,
        share,
        share,
        st.booleans(),
        _held,
        st.lists(mount, max_size=9),
    )
    name = st.text("0123456789abcdef", min_size=32, max_size=32)
    session = st.builds(
        SessionInFlight, name, st.booleans(), _some, _some, *[_maybe] * 2, _some, _some, _maybe, share, share, _maybe,
        st.booleans(),
    )  # fmt: skip
    cap = st.builds(CapInFlight, _text, _some, _some, _part, _some, _ms, _ms, _some, st.none() | _ms, st.booleans())
    return InFlight(
        server,
        draw(client),
        draw(st.lists(session, max_size=9)),
        draw(st.lists(cap, max_size=2)),
        {side: draw(_part) for side in ("server", "client")},
    )


_figures = st.builds(MeanAndP99, _ms, _ms)
_outcome = st.builds(
    Outcome, _maybe, _maybe, _some, _ms, _figures, st.none() | _figures, _ms, _ms, st.none() | _part, st.none() | _part,
    st.sampled_from(["threads", "slots", "load"]),
)  # fmt: skip
_what_if = st.builds(
    WhatIf, _text, _text, _figures, _figures, *[st.none() | _ms] * 3, _outcome, _outcome, st.floats(-1, 10),
    *[_some] * 3, _text,
)  # fmt: skip


@st.composite
def _pivots(draw: st.DrawFn, rows_at_most: int = 3) -> Pivot:
    """Rows with and without ops; `others` stands for one group or more."""
    by = draw(st.sampled_from(["size", "client", "server", "connection", "file", "uid", "second", "slot"]))
    key = st.datetimes().map(lambda when: when.isoformat() + "Z") if by == "second" else _text
    figures = st.tuples(_summary(), _summary(), _summary()) | st.just((None, None, None))
    row = st.builds(
        lambda key, ops, size, unsized, rate, of, queue: PivotRow(
            key, ops if of[0] else 0, size, unsized, rate, *of, queue_ms=queue
        ),
        *(key, _count, st.none() | st.integers(0, 10**13), st.sampled_from([0, 0, 1, 9_999]), st.none() | _ms),
        *(figures, st.none() | _ms),
    )
    rows = draw(st.lists(row, max_size=rows_at_most))
    others = draw(st.none() | row) if rows else None
    return Pivot(by, len(rows) + (draw(st.integers(1, 10**6)) if others else 0), rows, others)


@st.composite
def _intervals(draw: st.DrawFn, at_most: int = 2) -> Intervals:
    rate, times = st.none() | _ms, st.tuples(_ms, _ms, _ms, _ms) | st.just((None, None, None, None))
    seconds, names = draw(st.sampled_from([0.001, 0.1, 1.0, 60.0, 86400.0])), ["READ", "WRITE", "GETATTR"]
    rows = []
    for number in range(draw(st.integers(0, at_most))):
        for op in ["all", *draw(st.lists(st.sampled_from(names), max_size=2, unique=True))]:
            figures = (draw(_count), draw(_ms), draw(st.none() | _some), draw(st.sampled_from([0, 3])))
            rates = draw(rate), draw(rate), draw(_few), *draw(times)
            begin, queue_ms = "2024-05-01T10:00:10.5Z", draw(st.none() | _ms)
            rows.append(IntervalRow(begin, number * seconds, op, *figures, *rates, queue_ms=queue_ms))
    return Intervals(seconds, rows)


@st.composite
def _captures(draw: st.DrawFn) -> Capture:
    kinds = draw(st.dictionaries(st.sampled_from(["RPC", "other TCP", "not IP", "ARP"]), st.integers(0, 10**9)))
    programs = draw(_counts(["NFS", "MOUNT", "NLM", "NFS_CB", "program 200099", "unknown"]))
    note = st.builds(AuditNote, _text, st.sampled_from(["info", "warning"]), _text, st.integers(0, 10**9))
    time = st.none() | st.datetimes().map(lambda when: when.isoformat() + "+00:00")
    return Capture(
        path=draw(_text),
        files=draw(st.lists(st.builds(CaptureFile, _text, st.integers(0, 99), st.integers(1, 99)), max_size=3)),
        format=draw(st.sampled_from(["pcap", "pcapng", "Wireshark/tcpdump/... - nanosecond libpcap (gzip)"])),
        snaplen=draw(st.none() | st.integers(0, 262144)),
        packets=sum(kinds.values()),
        wire_bytes=draw(st.none() | st.integers(0, 10**13)),
        captured_bytes=draw(st.none() | st.integers(0, 10**13)),
        packet_kinds=kinds,
        first=draw(time),
        last=draw(time),
        duration_s=draw(st.floats(0, 1e6)),
        flows=draw(st.integers(0, 10_000)),
        messages=draw(_counts([state.name for state in State])),
        ops=sum(programs.values()),
        programs=programs,
        audit=draw(st.lists(note, max_size=2)),
    )


_PARTS = ("call_send", "call_net", "server", "reply_send", "reply_net")


_event = st.builds(
    Event,
    st.sampled_from(["pause", "no-connection", "loss"]),
    st.sampled_from(["client", "server", None]),
    st.just("2024-05-01T10:00:10Z"),
    st.floats(-10, 10**4),
    _ms,
    st.none() | _ms,
)


@st.composite
def _pictures(draw: st.DrawFn) -> Pictures:
    """What all lists of bins and of classes have in common is that they are as long, and sum to the same."""
    bins, classes = draw(st.integers(1, 6)), draw(st.integers(1, 5))
    cells = st.lists(st.tuples(*[st.integers(0, n - 1) for n in (bins, classes)], st.integers(1, 10**6)), max_size=9)
    heat = sorted({(time, latency): ops for time, latency, ops in draw(cells)}.items()) or [((0, 0), 1)]
    cells_of_all = [(time, latency, ops) for (time, latency), ops in heat]
    ops = [sum(n for at, _, n in cells_of_all if at == time) for time in range(bins)]
    by_class = [sum(n for _, at, n in cells_of_all if at == latency) for latency in range(classes)]

    def row_of(of: st.SearchStrategy[float]) -> list[float]:
        return draw(st.lists(of, min_size=bins, max_size=bins))

    def means() -> list[float | None]:
        return [ms if n else None for ms, n in zip(row_of(_ms), ops, strict=True)]

    def flying(*names: str) -> Flying:
        limit = draw(st.none() | st.integers(1, 10**4))
        most = draw(st.lists(st.integers(0, 2000), min_size=bins, max_size=bins))
        return Flying([n / 2 for n in most], most, limit, None if limit is None else draw(st.sampled_from(names)))

    def way() -> Way:
        counts = draw(st.lists(st.integers(0, 10**5), min_size=bins, max_size=bins))
        counted = draw(st.booleans())
        return Way([ms if counted else None for ms in row_of(_ms)], counts, row_of(_ms))

    known, moment = draw(st.booleans()), st.just("2024-05-01T10:00:10Z")
    pair = st.tuples(_ms, _ms).map(lambda two: (-two[0], two[1]))
    point = st.builds(
        EnvelopePoint, _ms, st.none() | _ms.map(lambda ms: -ms), st.none() | _ms,
        _ms if known else st.none(), pair if known else st.none(),
    )  # fmt: skip
    side, number = st.sampled_from(["client", "server"]), st.integers(1, 10**9)
    moment_of = st.builds(Moment, _ms, side, st.sampled_from(["call, whole", "reply, first byte"]), number, _text)
    parts = st.fixed_dictionaries({part: st.none() | _ms if part.endswith("net") else _ms for part in _PARTS})
    operation = st.sampled_from([("NFS", "READ", "3"), ("NFS", "WRITE", "4.2"), ("program 200099", "?", "?")])
    slow = st.builds(
        lambda names, *others: SlowOp(*names, *others),
        operation,
        st.just("0x0badcafe"),
        *[st.sampled_from(["10.0.0.1:733", "[fd00::1]:2049"])] * 2,
        st.none() | st.integers(0, 2**32 - 2),
        st.none() | _text,
        st.none() | st.integers(0, 2**63 - 1),
        st.none() | st.integers(0, 2**31),
        moment,
        *[_ms] * 4,
        parts,
        st.none() | _ms,
        st.dictionaries(st.sampled_from([*CHARGES]), _ms, max_size=2),
        st.lists(st.builds(Piece, st.sampled_from(_PARTS), st.sampled_from([*CHARGES, "queue", "unexplained"]), _ms)),
        st.integers(1, 3),
        st.lists(moment_of, min_size=1, max_size=4),
        st.dictionaries(side, _text, max_size=2),
    )
    of_all = Distribution("", "all", "", sum(ops), 0, by_class, by_class, by_class)
    of_one = Distribution("NFS", "READ", "3", sum(ops), 0, by_class, by_class, by_class)
    return Pictures(
        classes=Classes(10, [round(1000 * 10 ** (at / 10)) / 1e6 for at in range(classes)]),
        distributions=[of_all, of_one],
        over_time=OverTime(
            begin=draw(moment),
            bin_ms=draw(st.sampled_from([1.0, 20.0, 5000.0])),
            bins=bins,
            ops=ops,
            client_ms=means(),
            server_ms=means(),
            network_ms=means(),
            client_p99_ms=means(),
            heat=Heat(cells_of_all, cells_of_all, cells_of_all),
            server=flying("threads"),
            client=flying("slots", "session slots"),
            call=draw(st.sampled_from([way(), None])),
            reply=draw(st.sampled_from([way(), None])),
            events=draw(st.lists(_event, max_size=3)),
        ),
        envelope=sorted(draw(st.lists(point, max_size=4)), key=lambda one: one.at_s),
        slowest=sorted(draw(st.lists(slow, max_size=3)), key=lambda one: -one.client_ms),
    )


@st.composite
def _reports(draw: st.DrawFn, compared: bool = False, pictured: bool = False) -> Report:
    """Any report, or with `compared` one that has matched ops."""
    sides = ["server", "client"] if compared else draw(st.sampled_from([["server", "client"], ["capture"]]))
    two = len(sides) == 2
    layers = ["server", "network", "client"]
    verdict = st.builds(
        Verdict,
        st.sampled_from(["fault", "no-fault", "undecided"]),
        st.none() | st.sampled_from(layers),
        st.none() | st.just("server-threads"),
        st.just([]),
        _share,
        _share,
        st.sampled_from(["high", "medium", "low"]),
        _text,
        st.none() | st.builds(NextStep, st.just("iostat -x 1 30"), _text, _text, st.just(["server-threads"])),
        st.none() | st.sampled_from(layers),
        _share,
        _share,
        st.just([]),
        st.lists(_text, max_size=3),
        st.lists(_text, max_size=3),
    )
    finding = st.builds(
        Finding,
        st.just("net-delay"),
        st.sampled_from([*layers, "capture"]),
        st.sampled_from(["info", "warning"]),
        _share,
        st.sampled_from(["certain", "likely"]),
        _text,
        st.dictionaries(_text, _ms, max_size=2) | st.builds(lambda share: {"share_slowest": share}, st.none() | _share),
        _advice,
    )
    stack = st.builds(StackRow, st.sampled_from(["all", "READ"]), _text, st.integers(0, 3), _ms, _share, _text)
    pair = st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9)).map(lambda two: (min(two), max(two)))
    amount, moment, number = st.floats(-1e9, 1e9), st.just("2024-05-01T10:00:10Z"), st.integers(0, 10**9)
    whose = st.sampled_from([("server", 1.5), ("client", -2.5), (None, None)])
    step = st.builds(
        lambda at, within, ms, bound, clock: ClockStep(at, within, ms, bound, *clock), moment, _ms, amount, pair, whose
    )
    steps = st.lists(step, max_size=2)
    known = st.builds(Clock, st.just(True), amount, pair, moment, amount, pair, steps, number, number, number)
    nothing = (st.just(False), *[st.none()] * 5, st.just([]))
    clock = known | st.builds(Clock, *nothing, number, number, number)
    note = st.builds(AuditNote, _text, st.sampled_from(["info", "warning"]), _text, st.integers(0, 10**9))
    data = st.builds(TcpAmount, number, st.none() | number, number)
    way, caveats = st.sampled_from(["call", "reply"]), st.lists(st.sampled_from(["partial", "new"]), max_size=2)
    tcp = (_text, _text, way, number, data, data, data, number, st.none() | number, number, caveats)
    counted = [name for name in Transport.__struct_fields__ if name != "doubled"]
    transport = st.builds(Transport, **dict(zip(counted, tcp, strict=True)), doubled=number)
    charged_to = st.sampled_from(PLACES), st.sampled_from([*CHARGES, "unexplained"])
    charge = st.builds(Charge, *charged_to, number, amount, amount, _share, amount, _share)
    return Report(
        schema=SCHEMA,
        nfslat=Tool("0.1.0", draw(_text), draw(_text), draw(st.sampled_from(["nfslat", "tshark"]))),
        captures={side: draw(_captures()) for side in sides},
        raw={side: draw(_raw_rows()) for side in sides},
        selection=Selection(
            filters=draw(st.dictionaries(_text, _text, max_size=2)),
            excluded={side: draw(st.dictionaries(_text, st.integers(0, 10**9), max_size=2)) for side in sides},
        ),
        notes=draw(st.lists(_text, max_size=2)),
        matched=draw(_matched(1) if compared else st.none() | _matched()) if two else None,
        clock=draw(st.none() | clock) if two else None,
        audit=draw(st.lists(note, max_size=2)) if two else [],
        transport=draw(st.none() | st.lists(transport, max_size=3)) if two else None,
        charges=draw(st.none() | st.lists(charge, max_size=5)) if two else None,
        inflight=draw(st.none() | _in_flights()) if two else None,
        what_if=draw(st.lists(_what_if, max_size=1)) if two else [],
        evidence=draw(st.lists(_text, max_size=2)) if two else [],
        stack=draw(st.lists(stack, max_size=4)) if two else [],
        findings=draw(st.lists(finding, max_size=2)),
        verdict=draw(st.none() | verdict) if two else None,
        pictures=draw(st.none() | _pictures()) if two and pictured else None,
        pivots=draw(st.lists(_pivots(), max_size=1)) if two else [],
        intervals=draw(st.none() | _intervals()) if two else None,
    )


@pytest.fixture(scope="session")
def reports() -> st.SearchStrategy[Report]:
    return _reports()


@pytest.fixture(scope="session")
def pivots() -> st.SearchStrategy[Pivot]:
    return _pivots(23)


@pytest.fixture(scope="session")
def intervals() -> st.SearchStrategy[Intervals]:
    return _intervals(23)


@pytest.fixture(scope="session")
def pictured() -> st.SearchStrategy[Report]:
    """Any report, also with what pictures are drawn from, which takes its time."""
    return _reports(pictured=True)


@pytest.fixture(scope="session")
def compared() -> st.SearchStrategy[Report]:
    return _reports(compared=True)


@pytest.fixture(scope="session")
def pictures() -> st.SearchStrategy[Pictures]:
    return _pictures()
