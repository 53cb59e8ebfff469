"""Fleets with figures that could be true, for the tests of what shows them; and any fleet at all, for hypothesis."""

from __future__ import annotations

import dataclasses
import math
import statistics
import types
import typing
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from hypothesis import strategies as st
from verdicts import blames

from nfslat.answer.contract import Must
from nfslat.answer.figures import Summary
from nfslat.answer.model import Clock, Inferred, Level, NextStep, ServerInFlight, Tool
from nfslat.answer.read import field_types
from nfslat.fleet.model import (
    SCHEMA,
    Brief,
    Captures,
    Client,
    ClientWindow,
    Excess,
    Fleet,
    FleetVerdict,
    OpRow,
    Pattern,
    Phase,
    Problem,
    Run,
    Server,
    ServerWindow,
    SetApart,
    Worker,
)

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\"'&\u202egnp.exe\udc80\x1b[31m\u2028{{7*7}}"
WINDOWS, WINDOW_S = 60, 10.0
THREADS, QUEUE_MS, SERVICE_MS, NETWORK_MS = 8, 21.0, 3.1, 0.42  # the wait from half time on
FAR_MS, SLOW_SUBNET = 16.0, "10.9.3.0/24"  # behind a slow path
_BEGIN = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)


def at(seconds: float) -> str:
    """A moment, so long after the begin."""
    return (_BEGIN + timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")


def summary(mean: float, tail: float = 3.0) -> Summary:
    """Of durations that are spread about as those of a server are."""
    return Summary(mean, 0.8 * mean, (1 + tail) / 2 * mean, tail * mean, 2.2 * tail * mean)


@cache  # a thousand take as long as a hundred tests; nobody changes what they are given
def story(clients: int = 100, *, ipv6: bool = False) -> Fleet:
    """Too few threads for everybody from half time on; up to 7 clients behind a slow path, and one with 2 slots.

    The first one is of the slow path, with two it is the second that has few slots.
    """
    far = min(7, clients - 1) if clients > 1 else 0
    made = [_client(i, i < far, i == far and clients > 1, ipv6) for i in range(clients)]
    typical = [statistics.median(getattr(c, f"{part}_ms").mean for c in made) for part in ("network", "server")]
    queues = statistics.median(c.queue_ms or 0.0 for c in made)
    made = [_with_excess(c, typical[0], typical[1] - queues, queues) for c in made]
    made.sort(key=lambda c: -c.excess.total_s if c.excess else 0.0)
    ops = sum(c.ops for c in made)
    windows = _server_windows(made)
    client, server, network = (summary(_over(made, part)) for part in ("client", "server", "network"))
    queue_ms = sum((c.queue_ms or 0.0) * c.ops for c in made) / ops
    total = OpRow("NFS", "all", "4.1", ops, 0, client, server, network, queue_ms=queue_ms)
    return Fleet(
        schema=SCHEMA,
        nfslat=Tool("0.9.0", "native 0.9.0", "nfslat fleet server/*.pcap clients/*/", "nfslat"),
        run=Run(
            "local", "http://127.0.0.1:8787/status",
            [Worker(f"tcp://127.0.0.1:4{i}001", "host-a", 412_000_000 + i, 2_000_000_000, 120) for i in range(2)],
            188.4, {"done": 214, "cached": 26, "again": 1, "failed": 0}, "out",
        ),
        captures=Captures(
            8 + 2 * clients, 61_000_000 * clients, 210_000 * clients, ops + 5_200, ops + 40, ops, 0, at(0),
            at(WINDOWS * WINDOW_S),
        ),
        relative_error=0.01,
        window_s=WINDOW_S,
        server=_server(made, windows, ops + 5_200),
        by_op=_by_op(total),
        total=total,
        clients=made,
        patterns=_patterns(made, ops),
        problems=[
            Problem("clients/db-104/eth0.pcap3", "the file ends in the middle of a packet",
                    "12 s of 10.9.4.17 from 09:08:31 on", fatal=False),
        ],
        notes=["3 clients call the server and were not captured: only the server's side of them is known."],
        verdict=FleetVerdict(
            "fault", "server", "server-threads", "high",
            "From 09:05:00 on calls of all clients wait 21 ms for one of the server's 8 threads: 72 % of the time of "
            "all ops."
            + (f" {far} of {SLOW_SUBNET} take 16 ms longer on the network all the time, with loss; one client has 2 "
               "slots." if far else ""),
            NextStep("cat /proc/fs/nfsd/pool_stats", "the server", "whether calls wait for a thread", []), "server",
            ["every client slows down in the same windows", "the queue is seen in the server's own capture"],
        ),
    )  # fmt: skip


def few() -> Fleet:
    """One client."""
    return story(1)


def without_server() -> Fleet:
    """No capture of the server can be read, and no client's either: nothing is known."""
    fleet = story(3)
    failed = [
        dataclasses.replace(
            c, state=state, source="none", ops=0, missed=0,
            client_ms=None, server_ms=None, network_ms=None, queue_ms=None,
            excess=None, verdict=None, findings=[], clock=None, round_trip_ms=None, lost_segments=None,
            sent_again_share=None, slots=None, slots_held="cannot tell", in_flight_max=0, outlier=False,
            set_apart=None, why="", windows=[], report=None,
        )
        for c, state in zip(fleet.clients, ("failed", "client only", "failed"), strict=True)
    ]  # fmt: skip
    return dataclasses.replace(
        fleet, clients=failed, server=None, by_op=[], total=None, patterns=[],
        captures=Captures(0, 0, 0, 0, 0, 0, 0, None, None),
        problems=[Problem("server/eth0.pcap", "it is no capture", "all that is the server's")],
        run=dataclasses.replace(fleet.run, dashboard=None, workers=[], out=None, tasks={"failed": 4}),
        verdict=FleetVerdict(
            "undecided", None, None, "low", "No client could be compared with the server.", None, None, []
        ),
    )  # fmt: skip


def mixed() -> Fleet:
    """A hundred, of which some have one capture, failed, or lack figures."""
    fleet = story(100)
    blank = without_server().clients[0]
    states = {90: "server only", 91: "server only", 92: "client only", 93: "failed"}
    clients = [
        dataclasses.replace(
            blank,
            name=c.name,
            addresses=c.addresses,
            state=states[i],
            groups=c.groups,
            why_not_inferred="its packets have no TCP time stamps" if states[i] == "client only" else "",
        )
        if i in states
        else c
        for i, c in enumerate(fleet.clients)
    ]
    for i, (side, error_ms) in {40: ("client", 0.21), 41: ("server", 1.4), 94: ("client", 0.3)}.items():
        found = Inferred(side, "server" if side == "client" else "client", clients[i].ops, 0, error_ms, 0.4, 1.0, 0.2)
        clients[i] = dataclasses.replace(
            clients[i], state="inferred", source=found.taken_at, inferred=found, clock=None, lost_segments=None
        )
    clients[95] = dataclasses.replace(clients[95], queue_ms=None, verdict=None, clock=None, excess=None, windows=[])
    half = sum(one.ops for one in clients if one.inferred)
    captures = dataclasses.replace(fleet.captures, matched_ops=fleet.captures.matched_ops - half, inferred_ops=half)
    assert fleet.total is not None
    return dataclasses.replace(
        fleet, clients=clients, captures=captures, total=dataclasses.replace(fleet.total, inferred=half)
    )


def hostile() -> Fleet:
    """Names and texts that somebody else wrote."""
    fleet = story(12)
    first, *others = fleet.clients
    evil = dataclasses.replace(
        first, name=EVIL, addresses=[EVIL], groups={EVIL: EVIL}, why=EVIL, why_not_inferred=EVIL,
        command=f"nfslat '{EVIL}'",
        report=f"javascript:alert(1)//{EVIL}", slots_held=EVIL, audit=[EVIL],
        findings=[Brief(EVIL, EVIL, 0.1, EVIL, EVIL)],
        verdict=blames(EVIL, EVIL, None, None, EVIL, EVIL, [EVIL], [EVIL]),
    )  # fmt: skip
    wide = dataclasses.replace(others[0], name="\u30d0" * 40 + "e\u0301" + "x" * 90, outlier=True)
    pattern = dataclasses.replace(
        fleet.patterns[0], cause=EVIL, dimension=EVIL, value=EVIL, text=EVIL, clients=[EVIL], layer=EVIL
    )
    assert fleet.server is not None
    return dataclasses.replace(
        fleet, clients=[evil, wide, *others[1:]], patterns=[pattern, *fleet.patterns],
        problems=[Problem(EVIL, EVIL, EVIL)], notes=[EVIL],
        server=dataclasses.replace(fleet.server, name=EVIL, addresses=[EVIL], clients_not_captured=[EVIL]),
        run=dataclasses.replace(fleet.run, scheduler=EVIL, dashboard=f"javascript:{EVIL}", out=EVIL),
        nfslat=dataclasses.replace(fleet.nfslat, command=EVIL),
        verdict=FleetVerdict(EVIL, EVIL, EVIL, EVIL, EVIL, NextStep(EVIL, EVIL, EVIL, [EVIL]), EVIL, [EVIL]),
    )  # fmt: skip


# ---- the parts of the story ----


def _network_ms(far: bool, i: int) -> float:
    return NETWORK_MS * (0.85 + 0.3 * _chance(i)) + (FAR_MS * (0.95 + 0.1 * _chance(i + 7)) if far else 0.0)


def _chance(i: int) -> float:
    """The same number from 0 to 1 for the same `i`."""
    return math.modf(i * 0.6180339887498949 + 0.137)[0]


def _client(i: int, far: bool, few_slots: bool, ipv6: bool) -> Client:
    subnet = 3 if far else (1, 2, 4, 5)[i % 4]
    name = f"fd00:9:{subnet}::{i + 17:x}" if ipv6 else f"10.9.{subnet}.{i % 230 + 11}"
    windows = []
    for w in range(WINDOWS):
        late = w >= WINDOWS // 2
        ops = 0 if i % 17 == 5 and 20 <= w < 24 else int(180 + 90 * _chance(3 * i + w) + 40 * math.sin(w / 9))
        queue = QUEUE_MS * (0.9 + 0.2 * _chance(w)) if late else 0.0
        service, network = SERVICE_MS * (0.9 + 0.2 * _chance(i + 2 * w)), _network_ms(far, i)
        server = service + queue
        window = ClientWindow(ops, network + server, server, network, queue, None, None, None)
        windows.append(window if ops else ClientWindow(0, *[None] * 7))
    ops = sum(w.ops for w in windows)
    network, server, queue = (
        sum((getattr(w, f"{part}_ms") or 0.0) * w.ops for w in windows) / ops for part in ("network", "server", "queue")
    )
    layer, cause = ("network", "net-loss") if far else ("server", "server-threads")
    layer, cause = ("client", "client-slots") if few_slots else (layer, cause)
    why = "16 ms longer on the network than others, 0.4 % of segments lost" if far else ""
    why = "2 slots hold it: calls wait above the wire" if few_slots else why
    text = why or "calls wait for one of the server's 8 threads"
    return Client(
        name=name,
        addresses=[name],
        state="compared",
        source="both",
        groups={"subnet": f"10.9.{subnet}.0/24", "nfs": "4.1", "connections": "1", "path": "routed" if far else "lan"},
        ops=ops,
        missed=i % 3,
        client_ms=summary(network + server, 4.5 if far else 3.2),
        server_ms=summary(server),
        network_ms=summary(network),
        queue_ms=queue,
        application_ms=network + server + 9.3 if few_slots else None,
        excess=None,
        verdict=blames(layer, cause, 0.6, 0.7, "medium" if few_slots else "high", text),
        findings=[Brief(cause, layer, 0.6, "likely" if few_slots else "certain", text)],
        clock=Clock(True, 1.2, (1.12, 1.28), at(300), 0.4, (0.1, 0.7), [], 0, 2 * ops, 0),
        round_trip_ms=0.2 + (FAR_MS - 1 if far else 0.0),
        lost_segments=180 + 11 * i if far else i % 2,
        sent_again_share=0.004 if far else 0.0,
        slots=2 if few_slots else None,
        slots_held="likely slots" if few_slots else "nothing",
        in_flight_max=2 if few_slots else 16,
        audit=[],
        outlier=far or few_slots,
        set_apart=SetApart(layer, cause, "medium" if few_slots else "high") if far or few_slots else None,
        why=why,
        inferred=None,
        why_not_inferred="",
        windows=windows,
        report=f"out/reports/{name.replace(':', '_')}.json",
        command=f"nfslat --only-client {name} server/eth0.pcap clients/{name}/eth0.pcap",
    )


def _with_excess(c: Client, network_ms: float, service_ms: float, queue_ms: float) -> Client:
    """Against the typical client."""
    windows = []
    for w in c.windows:
        if w.network_ms is None or w.server_ms is None:
            windows.append(w)
            continue
        more = w.network_ms - network_ms, w.server_ms - service_ms - queue_ms
        more_of = {"excess_ms": sum(more), "network_excess_ms": more[0], "server_excess_ms": more[1]}
        windows.append(dataclasses.replace(w, **more_of))
    assert c.network_ms is not None
    assert c.server_ms is not None
    assert c.queue_ms is not None
    parts = (c.network_ms.mean - network_ms, c.server_ms.mean - c.queue_ms - service_ms, c.queue_ms - queue_ms)
    on_way, inside, wait = (part * c.ops / 1e3 for part in parts)
    excess = Excess(on_way + inside + wait, on_way, inside, wait, sum(parts))
    return dataclasses.replace(c, windows=windows, excess=excess)


def _over(made: list[Client], part: str) -> float:
    return math.fsum(getattr(c, f"{part}_ms").mean * c.ops for c in made) / sum(c.ops for c in made)


def _server_windows(made: list[Client]) -> list[ServerWindow]:
    found = []
    for w in range(WINDOWS):
        of = [c.windows[w] for c in made]
        ops = sum(one.ops for one in of)
        server, queue = (
            sum((getattr(one, f"{part}_ms") or 0.0) * one.ops for one in of) / ops if ops else None
            for part in ("server", "queue")
        )
        late = w >= WINDOWS // 2
        flying = ops / WINDOW_S * (server or 0.0) / 1e3
        found.append(
            ServerWindow(
                at(w * WINDOW_S), at((w + 1) * WINDOW_S), ops, ops / WINDOW_S, flying, int(2 * flying) + 2,
                server, THREADS if late else 6, THREADS if late else None, (8, 9) if late else None, late, queue,
            )
        )  # fmt: skip
    return found


def _server(made: list[Client], windows: list[ServerWindow], ops: int) -> Server:
    half = WINDOWS // 2
    phases = []
    for part, limited in ((windows[:half], False), (windows[half:], True)):
        n = sum(w.ops for w in part)
        queue, server = (
            sum((getattr(w, f"{key}_ms") or 0.0) * w.ops for w in part) / n if n else None
            for key in ("queue", "server")
        )
        phases.append(
            Phase(part[0].begin, part[-1].end, limited, THREADS if limited else None, (8, 9) if limited else None, n,
                  queue, server)
        )  # fmt: skip
    most = max(w.in_flight_max for w in windows)
    inflight = ServerInFlight(
        "10.0.0.1", 1, most, sum(w.in_flight_mean for w in windows) / WINDOWS, [Level(1, 1.0, 900.0)], 8, THREADS, 412,
        THREADS, (8, 9), True, 0.48, QUEUE_MS / 2, (QUEUE_MS / 2 - 1, QUEUE_MS / 2 + 1), SERVICE_MS, 130, 2, 0,
        None, None,
    )  # fmt: skip
    unseen = ["10.9.6.11", "10.9.6.12", "10.9.6.13"]
    return Server(
        "10.0.0.1", ["10.0.0.1", "10.0.1.1"], len(made) + len(unseen), unseen, ops, inflight, windows, phases
    )  # fmt: skip


def _by_op(total: OpRow) -> list[OpRow]:
    shares = {"READ": 0.61, "WRITE": 0.2, "GETATTR": 0.15}
    rows = [
        dataclasses.replace(total, op=op, count=int(total.count * share), version="4.1") for op, share in shares.items()
    ]
    left = total.count - sum(row.count for row in rows)
    return [*rows, dataclasses.replace(total, op="LOOKUP", count=left, queue_ms=None)]


def _patterns(made: list[Client], ops: int) -> list[Pattern]:
    far = [c for c in made if c.groups["subnet"] == SLOW_SUBNET]
    slots = [c for c in made if c.slots is not None]
    half_s = WINDOWS / 2 * WINDOW_S
    found = [
        Pattern(
            scope="all", layer="server", cause="server-threads", clients=[c.name for c in made], of=len(made),
            begin=at(half_s), end=at(2 * half_s), effect_ms=QUEUE_MS, excess_s=ops / 2 * QUEUE_MS / 1e3, share=0.72,
            confidence="high", evidence={"threads": THREADS},
            text="calls of all clients wait for a server thread: it has 8 (8 to 9), and 21 ms is the mean wait",
        )
    ]  # fmt: skip
    if far:
        found.append(
            Pattern(
                scope="group", layer="network", cause="net-loss", dimension="subnet", value=SLOW_SUBNET,
                clients=[c.name for c in far], of=len(far), effect_ms=FAR_MS,
                excess_s=sum(c.excess.network_s for c in far if c.excess), share=0.06, confidence="high",
                p_value=0.00031,
                text=f"ops of the clients in {SLOW_SUBNET} take 16 ms longer on the network, and lose 0.4 % of the "
                "segments",
            )
        )  # fmt: skip
    found += [
        Pattern(
            scope="one", layer="client", cause="client-slots", clients=[c.name], of=1, effect_ms=9.3,
            excess_s=c.ops * 9.3e-3, share=0.01, confidence="medium",
            text=f"{c.name} has 2 slots: its application waits 9.3 ms above the wire",
        )
        for c in slots
    ]  # fmt: skip
    return found


# ---- any fleet ----

_TEXT = st.text(max_size=12) | st.sampled_from(["10.9.3.17", "fd00::1", "db-1", EVIL])
_CHOICES = {
    "state": ["compared", "server only", "client only", "failed"],
    "layer": ["server", "network", "client", "unknown"],
    "confidence": ["high", "medium", "low"],
    "scope": ["all", "group", "one"],
    "srt": ["nfslat", "tshark"],
    "slots_held": ["nothing", "slots", "likely slots", "workers", "slots or workers", "cannot tell"],
    "schema": [SCHEMA],
}
_SHARES = {"waiting_share", "share", "limit_probability"}
_SIGNED = {"total_s", "network_s", "server_s", "queue_s", "mean_ms", "excess_ms", "effect_ms", "excess_s"}
_SIGNED |= {"network_excess_ms", "server_excess_ms"}


def fleets() -> st.SearchStrategy[Fleet]:
    """Any fleet that its types and the JSON schema allow."""
    return typing.cast("st.SearchStrategy[Fleet]", _of(Fleet, ""))


def _of(kind: Any, name: str) -> st.SearchStrategy[Any]:
    """Values of a field of this type and name."""
    origin, of = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        words = next(
            (mark.keywords["enum"] for mark in of[1:] if isinstance(mark, Must) and "enum" in mark.keywords), None
        )
        return _of(of[0], name) if words is None or of[0] is not str else st.sampled_from(list(words))
    if origin in (types.UnionType, typing.Union):
        return st.one_of(*(_of(one, name) for one in reversed(of)))
    if kind is type(None):
        return st.none()
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        hints = field_types(kind)
        fields = {f.name: _of(hints[f.name], f.name) for f in dataclasses.fields(kind)}
        if kind is Brief:
            fields["confidence"] = st.sampled_from(["certain", "likely"])
            fields["layer"] = st.sampled_from(["server", "network", "client", "capture"])
        if kind is SetApart:
            fields["layer"] = st.sampled_from(["server", "network", "client"])
        return st.builds(kind, **fields)
    if origin is list:
        return st.lists(_of(of[0], name), max_size=3)
    if origin is tuple:
        return st.tuples(*(_of(one, name) for one in of))
    if kind is Any:
        return st.none() | st.integers(-9, 9) | _TEXT
    if origin is dict:
        return st.dictionaries(_TEXT, _of(of[1], name), max_size=2) if name != "tasks" else st.dictionaries(
            st.sampled_from(["done", "cached", "again", "failed"]), st.integers(0, 10**6), max_size=4
        )  # fmt: skip
    if kind is bool:
        return st.booleans()
    if kind is int:
        return st.integers(1, 10**9)
    if kind is float:
        low = 0.0 if name not in _SIGNED else -1e6
        return st.floats(low, 1.0 if name in _SHARES or name == "p_value" else 1e9 if low == 0 else 1e6)
    if kind is str:
        if name in ("begin", "end", "at"):
            return st.integers(0, 90_000).map(at)
        return st.sampled_from(_CHOICES[name]) if name in _CHOICES else _TEXT
    raise TypeError(f"{name}: {kind}")
