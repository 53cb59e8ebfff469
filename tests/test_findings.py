"""Facts made by hand -> findings: each code with its share, confidence, evidence and advice, and where it is silent."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfslat.answer.model import (
    CapInFlight,
    ClientInFlight,
    Clock,
    ConnectionInFlight,
    Finding,
    Hang,
    MatchedRow,
    MountInFlight,
    Parts,
    ServerInFlight,
    SessionInFlight,
    Summary,
    Unanswered,
)
from nfslat.evidence.known import data_bytes
from nfslat.evidence.records import Database, DatabaseTime, HostLoad, Mount, Setting, Snapshot, Xprt
from nfslat.findings.catalogue import CODES, ROWS
from nfslat.findings.client import Slots, client_findings
from nfslat.findings.clock import clock_findings
from nfslat.findings.connecting import connecting_findings
from nfslat.findings.database import database_findings
from nfslat.findings.diagnosis import Diagnosis, LookAt, diagnosis
from nfslat.findings.facts import (
    DATA_OPS,
    Connects,
    DelayedAcks,
    Facts,
    Failing,
    HostPauses,
    InPieces,
    InSeries,
    Jitter,
    KeptAbove,
    LateCalls,
    PutOff,
    Rate,
    Reconnects,
    Resent,
    SlowOps,
    Stalls,
    moved_ms,
)
from nfslat.findings.failing import failing_findings
from nfslat.findings.hanging import hang_findings
from nfslat.findings.hosts import host_findings
from nfslat.findings.layers import Layers
from nfslat.findings.manual import evidence_of, manual
from nfslat.findings.network import network_findings
from nfslat.findings.put_off import error_findings
from nfslat.findings.rank import ranked
from nfslat.findings.resent import resent_findings
from nfslat.findings.server import Unknown, server_findings, with_window
from nfslat.findings.tcp import tcp_findings
from nfslat.findings.unseen import WithUnseen
from nfslat.findings.verdict import Ground, unasked, verdict
from nfslat.findings.witness import WARNED
from nfslat.findings.words import ms, times
from nfslat.model.causes import CHARGES
from nfslat.model.protocol import NFS, NULL32
from nfslat.model.tables import Kind
from nfslat.report.blocks import Prose
from nfslat.report.sections.parts import clock_section
from nfslat.wire.above import Why
from nfslat.wire.connecting import Fate
from nfslat.wire.size_limit import SizeLimit

ROOT = Path(__file__).parents[1]
SOUND = Ground(ops=1000, complete=1.0, incomplete="", negative=0, clock_fits=True)
Findings = Callable[[Facts], list[Diagnosis]]


# --- Facts ------------------------------------------------------------------------------------------------------------


def server(**others: Any) -> ServerInFlight:
    """16 threads, as the packets show them."""
    usual = {
        "server": "10.0.0.2", "servers": 1, "max": 64, "mean": 40.0, "levels": [], "knee": 16,
        "threads_lower_bound": 15, "lower_bound_seen": 3, "threads_estimate": 16, "threads_range": (16, 16),
        "limited": True, "waiting_share": 0.9, "queue_ms": 47.0, "queue_range_ms": (47.0, 47.0), "service_ms": 1.0,
        "witnesses": 0, "held": 0, "unseen_first": 0, "cannot": None, "instead": None,
    }  # fmt: skip
    return ServerInFlight(**usual | others)  # type: ignore[arg-type]


UNLIMITED = server(threads_estimate=None, threads_range=None, limited=False, queue_ms=0.0)


def client(*levels: int, **others: Any) -> ClientInFlight:
    """A mount with connections that keep `levels` in flight."""
    ends = [ConnectionInFlight(f"10.0.0.1:{700 + n}", 1000, level, level, 0.95, 0.97, (60.0, 80.0), "likely slots")
            for n, level in enumerate(levels)]  # fmt: skip
    slots = sum(levels)
    mount = MountInFlight(
        "10.0.0.1", "10.0.0.2:2049", 1000, slots, slots - 0.1, len(levels), "likely slots", slots, 0.95, None, ends
    )
    usual = {
        "max": slots, "mean": slots - 0.1, "levels": [], "knee": None, "slots_estimate": slots, "at_limit_share": 0.95,
        "reply_clocked_share": 0.97, "limited": True, "held": "likely slots", "mounts": [mount],
    }  # fmt: skip
    return ClientInFlight(**usual | others)  # type: ignore[arg-type]


def session(**others: Any) -> SessionInFlight:
    """Two slots negotiated, and used."""
    usual = {
        "session": "00", "callbacks": False, "connections": 1, "ops": 1000, "slots_negotiated": 2, "target_slots": 2,
        "highest_slot_used": 1, "slots_used": 2, "limit": 2, "at_limit_share": 0.98, "reuse_share": 0.99,
        "own_limit": None, "limited": True,
    }  # fmt: skip
    return SessionInFlight(**usual | others)  # type: ignore[arg-type]


def row(op: str, count: int, server_ms: float, queue_ms: float | None = 0.0) -> MatchedRow:
    """Matched ops that took so long at the server."""
    one = Summary(server_ms, server_ms, server_ms, server_ms, server_ms)
    nothing = Summary(0, 0, 0, 0, 0)
    return MatchedRow("NFS", op, "3", count, one, one, nothing, 0, parts(server=server_ms), queue_ms=queue_ms)


def event(server_ms: float) -> MatchedRow:
    """READs of which a few make the mean: half of them take 0.4 ms."""
    one = row("READ", 900, server_ms)
    return replace(one, server_ms=replace(one.server_ms, p50=0.4))


def parts(**others: Any) -> Parts:
    """No network, but for what is said."""
    usual = {"call_send": 0.0, "call_net": 0.1, "server": 1.0, "reply_send": 0.0, "reply_net": 0.1, "net_both": 0.2}
    return Parts(**usual | {"one_way_error": 0.05} | others)


def cap(**others: Any) -> CapInFlight:
    """A connection that the server holds back."""
    usual = {
        "client": "10.0.0.1:700", "ops": 5000, "level": 128, "level_share": 0.9, "zero_windows": 40,
        "zero_window_ms": 300.0, "median_ms": 40.0, "others": 3, "others_median_ms": 1.0, "likely": True,
    }  # fmt: skip
    return CapInFlight(**usual | others)  # type: ignore[arg-type]


# The article's first test as its numbers give it, its second, and what makes each other finding.
THREADS = Facts(Layers(48, 1, 7, "READ"), queue_ms=47.0, server=server(), threads=16)
SLOTS = Facts(Layers(1, 0.5, 56.5), queue_ms=0.0, server=UNLIMITED, client=client(16), slots=16)
QUEUE = Facts(Layers(48, 1), Layers(96, 1), queue_ms=47.0, slowest_queue_ms=90.0, server=server())
STORAGE = Facts(
    Layers(20, 1),
    Layers(40, 1),
    by_op=(row("READ", 900, 21), row("GETATTR", 100, 0.1)),
    queue_ms=0.0,
    slowest_queue_ms=0.0,
    server=UNLIMITED,
)
SLOW = replace(
    STORAGE,
    slow_ops=SlowOps(("READ",), slow=90, of=900, slow_ms=200.0, others_ms=0.4, mean_ms=18.0, slowest_ms=39.0, stalls=3),
)
UNKNOWN = Facts(
    Layers(20, 1), Layers(40, 1), by_op=(row("READ", 1000, 20, None),), server=replace(UNLIMITED, cannot="too regular")
)
RECONNECT = Facts(Layers(10, 1), Layers(900, 1), by_op=(event(10),), queue_ms=0.0, server=UNLIMITED,
                  reconnects=Reconnects(8, 1000.0, 6.0))  # fmt: skip
CAP = Facts(Layers(3, 1), queue_ms=0.0, server=UNLIMITED, caps=(cap(),))
DELAY = Facts(Layers(1, 10), Layers(1, 12), least_round_trip_ms=9.0)
LOSS = Facts(
    Layers(1, 2),
    Layers(1, 200),
    parts=parts(call_retrans_wait=1.0, reply_retrans_wait=0.5),
    slowest_parts=parts(call_retrans_wait=100.0, reply_retrans_wait=50.0),
    lost_segments=12,
)
ASYMMETRY = Facts(Layers(1, 10), parts=parts(call_net=9.0, reply_net=1.0, one_way_error=0.5))

BETWEEN = Facts(Layers(1, 10), least_round_trip_ms=0.1)


def stalls(cause: str, parts_ms: dict[str, float], **others: Any) -> Stalls:
    """One cause, so much in each part, and ten times that in the slowest 1 %."""
    mean = {(part, cause): ms_of for part, ms_of in parts_ms.items()}
    slow = {key: 10 * ms_of for key, ms_of in mean.items()}
    return Stalls(mean_ms=mean, slowest_ms=slow, ops=dict.fromkeys(mean, 7), **others)


def kept(above_wire_ms: float, count: int = 2) -> KeptAbove:
    """Times in which nothing could leave the client, 3 s together."""
    return KeptAbove(count, 3000.0, 2000.0, "2026-01-02 03:04:05.678 UTC", above_wire_ms)


def _with_window(facts: Facts) -> list[Finding]:
    return with_window(facts, server_findings(facts))


def stalled(cause: str, parts_ms: dict[str, float], server_ms: float = 1.0, **others: Any) -> Facts:
    """3 ms at the client, of which the cause made what is said."""
    found = stalls(cause, parts_ms, **others)
    mean = Layers(server_ms, 3 - server_ms, moved_ms=moved_ms(found.mean_ms, server_ms, 3 - server_ms))
    slow = Layers(
        10 * server_ms, 30 - 10 * server_ms, moved_ms=moved_ms(found.slowest_ms, 10 * server_ms, 30 - 10 * server_ms)
    )
    return Facts(mean, slow, stalls=found)


LOST = stalled("fast-retransmit", {"call_net": 0.5, "reply_net": 0.4})
BLOCKED = stalled("behind-loss", {"server": 1.2, "after": 0.3}, server_ms=1.5)
ACKS = stalled("delayed-ack", {"reply_send": 0.9, "server": 0.3}, server_ms=1.5,
               delayed_acks={"reply_send": DelayedAcks(12, 40, 40.4)})  # fmt: skip
WINDOW = stalled("zero-window", {"call_send": 0.9})
NARROW = stalled("receive-window", {"reply_send": 0.9, "server": 0.3}, server_ms=1.5)
UNDER_WAY = stalled("congestion-window", {"reply_send": 0.9, "server": 0.3}, server_ms=1.5)
WHOSE = stalled("unknown-window", {"reply_send": 0.9, "server": 0.3}, server_ms=1.5)
OVERTAKEN = stalled("reordering", {"reply_net": 0.9, "server": 0.3}, server_ms=1.5)
HEAD = stalled("head-of-line", {"server": 1.2}, server_ms=1.5)
RATE = stalled("bandwidth", {"reply_net": 1.0, "reply_send": 0.5},
               rates=(Rate("reply", "10.0.0.1", "10.0.0.2", 19.2, 0.9),))  # fmt: skip
JITTER = Facts(
    Layers(1, 10), least_round_trip_ms=0.1, stalls=stalls("unexplained", {"reply_net": 9.0, "call_net": 0.5}),
    jitter={"reply_net": Jitter(2.0, 4.0, 9.0)},
)  # fmt: skip
STOPPED = stalled("host-pause", {"reply_net": 1.5}, host_pauses={"client": HostPauses(2, 1500.0, 1200.0)})
SESSION = Facts(
    Layers(3, 1, 180), queue_ms=0.0, server=UNLIMITED, client=client(2), sessions=(session(),), version="4.1"
)


def put_off(reason: str, status: str, **more: Any) -> Facts:
    """Of 2 ms an op on the wire and 6 ms between tries, those of four requests that took 10 s each."""
    told: dict[str, Any] = {
        "requests": 4, "tries": 20, "answers": 16, "statuses": {status: 16}, "ops": ["LOCK"], "succeeded": 4, "open": 0,
        "mean_ms": 10_000.0, "longest_ms": 11_000.0, "total_between_ms": 39_000.0, "between_ms": 6.0,
        "since": "2026-02-03 14:15:16.123 UTC", "until": "2026-02-03 14:15:26.123 UTC", "back_off_fits": 15,
        "back_off_of": 16,
    }  # fmt: skip
    return Facts(Layers(1, 1), put_off={reason: PutOff(**told | more)}, ops=100)


IN_GRACE, JUKEBOX = put_off("grace", "NFS4ERR_GRACE"), put_off("delay", "NFS3ERR_JUKEBOX")
GONE_SESSION = put_off("state", "NFS4ERR_BADSESSION")
DENIED = replace(put_off("locked", "NFS4ERR_DENIED"), mean=Layers(1, 1, 6, "LOCK"))
STALE = put_off("lost", "NFS3ERR_STALE", requests=0, tries=0, answers=30, between_ms=0.0)
SERIAL = Facts(Layers(1, 1), in_series=InSeries(400, 0.9, 900.0, 100, 300, 4))
RETRIED = {"requests", "tries", "statuses", "mean_ms", "longest_ms", "between_ms", "open", "back_off_fits"}
ABOVE = Facts(Layers(1, 1, 8), queue_ms=0.0, server=UNLIMITED)


def hangs(awaits: str, **more: Any) -> Facts:
    """One connection, on which a client waits for 19 s until the capture ends."""
    told: dict[str, Any] = {
        "capture": "client", "awaits": awaits, "side": "client", "waiter": "10.0.0.1:700", "other": "10.0.0.2:2049",
        "since": "2026-02-03T14:15:16.000000000Z", "ms": 19_000.0, "tries": 7, "last_try_ms": 12_600.0, "frame": 99,
        "bytes": 300, "heard": "2026-02-03T14:15:17.000000000Z", "cut": "nothing", "calls": 1,
    }  # fmt: skip
    return Facts(Layers(1, 1), hangs=[Hang(**told | more)])


HANG_SHUT, HANG_UNACKED = hangs("window"), hangs("ack", compared=7, arrived=0, acked=False)
UNANSWERED = Facts(
    Layers(0.2, 0.8),
    ops=40,
    unanswered=[
        Unanswered(
            capture="client", program="NFS", version="3", op="READ", client="10.0.0.1:700", server="10.0.0.2:2049",
            calls=3, since="2026-02-03T14:15:16.000000000Z", longest_ms=90_000.0, total_ms=269_000.0, sends=2,
            last_sent="2026-02-03T14:16:16.000000000Z", xid=99, frame=204, acked=True, holed=False, arrived=3,
            replied=0, answered=37, answered_others=12,
        )
    ],
)  # fmt: skip
CONNECTS = Facts(
    Layers(0.2, 0.8),
    kept_above={Why.CONNECTING: kept(87.0)},
    connects=Connects(3, 21_000.0, Fate.TO_SERVER, 0.94, 0),
)
TIMEOUTS = Facts(Layers(0.3, 900.0), ops=60, sent_again=Resent(60, 700.0, 60, "tcp"))
FAILING = Facts(
    Layers(0.3, 0.7),
    ops=200,
    failing=[Failing("WRITE", "NFS3ERR_NOSPC", 58, 100, ["10.0.0.1"], 1, [], "14:15:16 UTC", "14:15:17 UTC")],
)
WAITING = {"connections", "still", "calls", "side", "waiter", "other", "since", "waits_ms", "tries", "last_try_ms"}
SHUT = replace(ABOVE, kept_above={Why.WINDOW: kept(7.9)})

PIECES = Facts(
    Layers(1.1, 0.2), in_pieces=InPieces("db file scattered read", 58, "READ", 16.0, 8192.0, 21.3, 3.2, 17.6, 0.03)
)
DATABASE = Facts(Layers(0.4, 0.1), database=Database(DatabaseTime(63_180.0, 11_877.84, 2891.32), "AWR report x", True))
BUSY = Facts(Layers(0.4, 0.1), loads={"server": HostLoad("vmstat x", cpus=4, runnable=9.5, idle=0.01)})

# Where a code is found: the facts, the function, its layer, share, confidence, evidence that it must have, the knob.
CASES: dict[str, tuple[Facts, Findings, str, float | None, str, set[str], str]] = {
    "server-threads": (QUEUE, server_findings, "server", 47 / 49, "likely",
                       {"queue_ms", "in_thread_ms", "server_ms", "threads_estimate", "threads_range",
                        "threads_lower_bound", "most_in_flight", "witnesses", "share_slowest", "proven"},
                       "how many threads"),
    "server-storage": (STORAGE, server_findings, "server", 20 / 21, "likely",
                       {"in_thread_ms", "data_ops", "light_ops", "light_ms", "share_slowest"}, "the storage behind"),
    "server-slow-ops": (SLOW, server_findings, "server", 18 / 21, "likely",
                        {"ops", "slow_ops", "of_ops", "slow_ms", "others_ms", "stalls", "alone", "share_slowest"},
                        "what the server does"),
    "server-queue-unknown": (UNKNOWN, server_findings, "server", 20 / 21, "certain",
                             {"server_ms", "in_thread_ms", "share_slowest"}, "evidence from the server"),
    "reconnect": (RECONNECT, server_findings, "server", 6 / 11, "likely", {"ops", "mean_ms", "excess_ms"},
                  "the server's log"),
    "server-window": (SHUT, _with_window, "server", 0.79, "likely",
                      {"above_wire_ms", "counted_above_ms", "window_ms", "longest_ms"}, "the server's threads"),
    "connection-cap": (CAP, server_findings, "server", None, "likely", {"level", "zero_windows", "zero_window_ms"},
                       "nconnect"),
    "net-delay": (DELAY, network_findings, "network", 9 / 11, "certain",
                  {"least_round_trip_ms", "network_ms", "share_slowest"}, "the path"),
    "net-loss": (LOSS, tcp_findings, "network", 1.5 / 3, "certain",
                 {"wait_ms", "slowest_wait_ms", "lost_segments", "share_slowest"}, "the path"),
    "path-mtu": (replace(LOSS, size_limit=SizeLimit("reply", 12, 17_376, 4, 1500, 1136, 3_320_000_000, 0.0006)),
                 tcp_findings, "network", 1.5 / 3, "likely",
                 {"wait_ms", "slowest_wait_ms", "way", "vanished_segments", "passed_segments", "vanished_from_bytes",
                  "passed_to_bytes", "lasts_ms", "chance", "share_slowest"}, "the path MTU"),
    "net-asymmetry": (ASYMMETRY, network_findings, "network", 8 / 11, "likely",
                      {"call_net_ms", "reply_net_ms", "error_ms"}, ""),
    "net-jitter": (JITTER, network_findings, "network", 9 / 11, "likely", {"wait_ms", "low_ms", "high_ms", "ways"},
                   "the path"),
    "between-taps": (BETWEEN, network_findings, "network", 9.9 / 11, "likely",
                     {"network_ms", "explained_ms", "unexplained_ms"}, "which of the two it is"),
    "net-reordering": (OVERTAKEN, tcp_findings, "network", 0.4, "certain", {"wait_ms", "in_server_ms", "ops"},
                       "the path"),
    "delayed-ack": (ACKS, tcp_findings, "network", 0.4, "certain",
                    {"wait_ms", "slowest_wait_ms", "delayed_by", "timer_ms", "pauses", "ops"},
                    "delayed ACKs of the client"),
    "zero-window": (WINDOW, tcp_findings, "server", 0.3, "certain",
                    {"wait_ms", "closed_by", "in_server_ms", "ops"}, "the server: processor"),
    "receive-window": (NARROW, tcp_findings, "network", 0.4, "likely",
                       {"wait_ms", "narrowed_by", "in_server_ms", "ops"}, "net.ipv4.tcp_rmem of the client"),
    "congestion-window": (UNDER_WAY, tcp_findings, "network", 0.4, "likely",
                          {"wait_ms", "sender", "in_server_ms", "ops"}, "the path, and the sender's"),
    "unknown-window": (WHOSE, tcp_findings, "network", 0.4, "likely",
                       {"wait_ms", "sender", "in_server_ms", "ops"}, "which window it is: the server's cwnd"),
    "head-of-line": (HEAD, tcp_findings, "network", 0.4, "likely", {"wait_ms", "slowest_wait_ms", "ops"},
                     "nconnect"),
    "bandwidth": (RATE, tcp_findings, "network", 0.5, "likely",
                  {"wait_ms", "mbit_per_s", "way", "busy_share", "in_server_ms"}, "the path"),
    "host-pause": (STOPPED, host_findings, "client", 0.5, "likely", {"wait_ms", "pauses", "longest_ms", "ops"},
                   "the client's host"),
    "host-busy": (BUSY, host_findings, "server", None, "likely",
                  {"signs", "runnable_per_cpu", "idle_share", "steal_share", "swapped_kib_s", "cpu_pressure_share"},
                  "processors and memory"),
    "window-stays-shut": (HANG_SHUT, hang_findings, "server", None, "certain", WAITING, "why the server does not"),
    "never-acknowledged": (HANG_UNACKED, hang_findings, "network", None, "certain", WAITING | {"compared", "arrived"},
                           "the path"),
    "calls-unanswered": (UNANSWERED, hang_findings, "server", None, "certain",
                         {"ops", "calls", "waits_ms", "sends", "answered"}, "what the server does with these calls"),
    "syn-unanswered": (CONNECTS, connecting_findings, "network", None, "certain",
                       {"connections", "connecting_ms", "fate", "time_share", "above_wire_ms"}, "the path of SYNs"),
    "rpc-timeout": (TIMEOUTS, resent_findings, "client", None, "certain",
                    {"ops", "after_ms", "answered_twice", "by"}, "timeo of the mount"),
    "operations-fail": (FAILING, failing_findings, "server", None, "certain",
                        {"op", "status", "ops", "of", "ops_share", "clients", "client", "files"}, "space, or inodes"),
    "server-grace": (IN_GRACE, error_findings, "server", 0.75, "certain", RETRIED, "the server's start"),
    "server-delay": (JUKEBOX, error_findings, "server", 0.75, "certain", RETRIED, "what the server waits for"),
    "state-lost": (GONE_SESSION, error_findings, "server", 0.75, "likely", RETRIED, "why state was lost"),
    "handles-lost": (STALE, error_findings, "server", None, "likely", {"answers", "statuses", "answers_share"},
                     "the export"),
    "lock-wait": (DENIED, error_findings, "client", 6 / 8, "likely", RETRIED, "who holds the lock"),
    "client-slots": (SLOTS, client_findings, "client", 56.5 / 58, "certain",
                     {"slots", "at_limit_share", "reply_clocked_share", "above_wire_ms", "slot_wait_ms",
                      "sessions_needed"}, "sunrpc.tcp_max_slot_table_entries"),
    "session-slots": (SESSION, client_findings, "client", 180 / 184, "certain",
                      {"slots", "at_limit_share", "above_wire_ms"}, "nfs.max_session_slots"),
    "serial-calls": (SERIAL, client_findings, "client", None, "likely", {"calls", "wire_share", "files", "again"},
                     "how often the client asks"),
    "serial-pieces": (PIECES, client_findings, "client", None, "certain",
                      {"call", "calls", "ops", "op_ms", "call_ms", "above_wire_ms"}, "why the client sends the READs"),
    "database-no-wait": (DATABASE, database_findings, "client", None, "likely",
                         {"db_time_min", "no_wait_share", "cpu_share", "wait_share", "at_most", "of_these_captures"},
                         "run queue, paging"),
    "above-wire": (ABOVE, client_findings, "client", 0.8, "certain", {"above_wire_ms", "slot_wait_ms"},
                   "evidence from the client"),
}  # fmt: skip


def one(findings: list[Diagnosis], code: str) -> Finding:
    """As the report has it."""
    (found,) = [each for each in findings if each.code == code]
    return found.as_finding()


def codes(findings: list[Diagnosis]) -> list[str]:
    return sorted(each.code for each in findings)


def every(facts: Facts) -> list[Diagnosis]:
    """All findings, ranked."""
    stages = (server_findings, network_findings, tcp_findings, host_findings, client_findings)
    stages += (database_findings, error_findings, hang_findings, connecting_findings, resent_findings)
    stages += (failing_findings,)
    return ranked(with_window(facts, [one for stage in stages for one in stage(facts)]))


# --- Each code --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", CASES)
def test_each_finding(code: str) -> None:
    """Where the facts call for it, and only it: layer, share, severity, confidence, evidence, and what to change."""
    facts, function, layer, share, confidence, evidence, knob = CASES[code]
    assert codes(every(facts)) == [code]
    found = one(function(facts), code)
    weight = "info" if code in ("serial-calls", "host-busy") else "warning"
    assert (found.layer, found.severity, found.confidence) == (layer, weight, confidence)
    assert found.share == (None if share is None else pytest.approx(share))
    assert evidence <= found.evidence.keys()
    assert found.advice.get("knob", "").startswith(knob)
    assert bool(found.advice.get("how")) == bool(knob)
    assert "None" not in found.text
    assert not found.text.endswith(".")


@pytest.mark.parametrize(
    ("more", "layer", "confidence", "says"),
    [
        ({}, "network", "likely", "is not known"),
        ({"compared": 7, "arrived": 0, "acked": False}, "network", "certain", "shows none of them"),
        ({"compared": 2, "arrived": 0, "acked": False}, "network", "likely", "shows none of them"),
        ({"compared": 7, "arrived": 7, "acked": False}, "server", "likely", "the server takes nothing of it"),
        ({"compared": 7, "arrived": 3, "acked": True}, "network", "certain", "lost in transit back"),
        ({"side": "server", "compared": 7, "arrived": 1, "acked": False}, "client", "likely", "the client takes"),
    ],
)
def test_what_arrives_tells_the_path_from_the_host(
    more: dict[str, Any], layer: str, confidence: str, says: str
) -> None:
    """Of data that are never acknowledged: who it is, and how sure that is."""
    found = one(hang_findings(hangs("ack", **more)), "never-acknowledged")
    assert (found.layer, found.confidence) == (layer, confidence)
    assert says in found.text


@pytest.mark.parametrize(
    ("awaits", "side", "cut", "calls", "weight"),
    [
        ("ack", "client", "nothing", 1, "warning"),
        ("ack", "client", "nothing", 0, "info"),  # what it sent was answered on another connection
        ("ack", "server", "nothing", 0, "warning"),  # its client has no reply
        ("window", "client", "nothing", 0, "warning"),  # what it did not send is not captured
        ("window", "client", "reset", 0, "info"),
        ("ack", "client", "next-connection", 1, "warning"),
        ("ack", "server", "next-connection", 0, "info"),
    ],
)
def test_a_hang_for_which_nobody_waits_is_of_little_weight(
    awaits: str, side: str, cut: str, calls: int, weight: str
) -> None:
    """A connection that was given up, its calls answered on another one."""
    (found,) = hang_findings(hangs(awaits, side=side, cut=cut, calls=calls))
    assert found.severity == weight


def test_every_row_of_the_catalogue_has_a_case() -> None:
    """No finding is left untested, and none is tested that there is not."""
    assert CASES.keys() == CODES


def test_the_manual_is_the_catalogues() -> None:
    """docs/findings.md is what `scripts/generate` makes of the catalogue, and says what each figure of evidence is."""
    made = manual()
    assert (ROOT / "docs" / "findings.md").read_text() == made
    for one in ROWS:
        assert evidence_of(one)
        page = made.split(f"\n## {one.code}\n")[1].split("\n## ")[0]
        assert all(f"`{name}`" in page for name in CASES[one.code][5])


def test_the_manual_has_a_section_on_each_note_of_captures_and_clocks() -> None:
    """Every code that the audit or the clock can give has one, and no section is of a code that there is not."""
    sources = [*(ROOT / "nfslat" / "figures" / "audit").glob("*.py"), ROOT / "nfslat" / "findings" / "clock.py"]
    given = {
        node.args[0].value
        for path in sources
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("note", "_finding")
        if isinstance(node.args[0], ast.Constant)
    }
    assert {one.code for one in WARNED} == given
    assert len(WARNED) == len(given)
    assert not given & CODES


def test_codes_of_findings_are_written_in_the_catalogue_and_where_they_are_made_only() -> None:
    """Whoever adds a finding needs to know of no other place.

    Codes of a single word, and those that are names of causes as well, are left out where those have another meaning;
    facts of the tuning manual have ids of their own.
    """
    own = {"catalogue", "server", "slow_ops", "network", "tcp", "hosts", "hanging", "client", "database", "put_off"}
    own |= {"connecting", "resent", "failing"}
    codes = {code for code in CODES if "-" in code}
    elsewhere = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.value}"
        for path in (ROOT / "nfslat").rglob("*.py")
        if not (path.parent.name == "findings" and path.stem in own)
        if path.parent.name != "tune" and path != ROOT / "nfslat" / "model" / "causes.py"
        if any(code in (text := path.read_text()) for code in codes)  # to parse all modules takes its time
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in codes
    ]
    assert elsewhere == []


@pytest.mark.parametrize(
    ("code", "facts"),
    [
        # Less than 5 % of the time, of mean and slowest; a queue that is not known.
        ("server-threads", replace(QUEUE, queue_ms=2.0, slowest_queue_ms=2.0)),
        ("server-threads", replace(QUEUE, queue_ms=None)),
        # Data that take less than 5 ms; a few slow ops among quick ones; ops without data as slow; quick storage.
        ("server-storage", replace(STORAGE, by_op=(row("READ", 900, 4.9), row("GETATTR", 100, 0.1)))),
        ("server-storage", replace(STORAGE, by_op=(event(21), row("GETATTR", 100, 0.1)))),
        ("server-storage", replace(STORAGE, by_op=(row("READ", 900, 21), row("GETATTR", 100, 12)))),
        ("server-storage", replace(STORAGE, storage_ms=1.0)),
        ("server-storage", replace(STORAGE, by_op=(row("GETATTR", 100, 30),))),
        ("server-storage", replace(STORAGE, queue_ms=None)),
        # Nothing that takes 5 ms.
        ("server-queue-unknown", replace(UNKNOWN, mean=Layers(4.9, 1))),
        ("server-queue-unknown", replace(UNKNOWN, mean=Layers(6, 150))),
        # Ops that cost less than 1 % of the mean.
        ("reconnect", replace(RECONNECT, reconnects=Reconnects(1, 50.0, 0.1))),
        ("connection-cap", replace(CAP, caps=(cap(likely=False),))),
        # A round trip of a machine room; one that hardly matters.
        ("net-delay", replace(DELAY, least_round_trip_ms=0.9)),
        ("net-delay", replace(DELAY, mean=Layers(99, 10))),
        # Loss that costs nothing.
        ("net-loss", replace(LOSS, mean=Layers(200, 2), slowest=Layers(2000, 2))),
        ("net-loss", replace(LOSS, parts=parts())),
        # A difference within the clock's error, one of less than 1 ms, and clocks of which nothing is known.
        ("net-asymmetry", replace(ASYMMETRY, parts=parts(call_net=9.0, reply_net=1.0, one_way_error=4.0))),
        # A host that handles packets late does not do so with nearly each of them; and what costs next to nothing.
        ("net-jitter", replace(JITTER, jitter={})),
        ("net-jitter", replace(JITTER, jitter={"call_net": Jitter(2.0, 4.0, 9.0)})),
        ("between-taps", JITTER),
        ("between-taps", replace(BETWEEN, least_round_trip_ms=None)),
        ("between-taps", replace(BETWEEN, least_round_trip_ms=6.0)),
        ("between-taps", replace(BETWEEN, parts=parts(call_retrans_wait=6.0))),
        ("between-taps", replace(BETWEEN, mean=Layers(2, 0.9))),
        ("between-taps", replace(BETWEEN, mean=Layers(20, 2))),
        ("net-asymmetry", replace(ASYMMETRY, parts=parts(call_net=2.0, reply_net=1.1, one_way_error=0.01))),
        ("net-asymmetry", replace(ASYMMETRY, parts=parts(call_net=None, one_way_error=None))),
        # One direction that only waits for lost data.
        ("net-asymmetry", replace(ASYMMETRY, parts=parts(call_net=9.0, reply_net=1.0, call_retrans_wait=8.0))),
        # Stalls of less than 5 % of the mean (lost data: 1 %) and 10 % of the slowest; a rate, and a pause, that cost
        # nobody anything.
        ("net-loss", stalled("rto", {"reply_net": 0.02})),
        ("net-loss", stalled("behind-loss", {"after": 2.0})),
        ("net-reordering", stalled("reordering", {"reply_net": 0.02})),
        ("delayed-ack", stalled("delayed-ack", {"reply_send": 0.02})),
        ("zero-window", stalled("zero-window", {"call_send": 0.02})),
        ("zero-window", NARROW),  # open all the time
        ("receive-window", stalled("receive-window", {"call_send": 0.02})),
        ("congestion-window", stalled("congestion-window", {"call_send": 0.29})),  # of less than 10 % of the mean
        ("unknown-window", stalled("unknown-window", {"call_send": 0.29})),
        ("head-of-line", stalled("head-of-line", {"server": 0.02})),
        ("bandwidth", stalled("distance", {"reply_net": 1.0}, rates=RATE.stalls.rates if RATE.stalls else ())),
        ("bandwidth", stalled("bandwidth", {"reply_net": 1.0})),
        ("host-pause", stalled("rto", {"reply_net": 1.0}, host_pauses={"client": HostPauses(1, 80.0, 80.0)})),
        # A direction that carries no more than it can is not called slow besides.
        ("net-asymmetry", replace(RATE, parts=parts(call_net=0.1, reply_net=1.9, one_way_error=0.01))),
        # An application's time that hardly exceeds the wire's.
        ("client-slots", replace(SLOTS, mean=Layers(50, 48, 2))),
        ("session-slots", replace(SESSION, mean=Layers(50, 48, 2))),
        ("above-wire", replace(ABOVE, mean=Layers(50, 48, 2))),
        ("above-wire", replace(ABOVE, mean=Layers(1, 1))),
    ],
)  # fmt: skip
def test_below_its_threshold_a_finding_is_silent(code: str, facts: Facts) -> None:
    """Without the facts that it needs, or where it explains too little, it is not made."""
    assert code not in codes(every(facts))


def test_nothing_known_finds_nothing() -> None:
    """Facts that are all "not known" are no reason to blame anything."""
    assert every(Facts(Layers(1, 1))) == []
    assert every(Facts(Layers(0, 0))) == []


# --- Threads ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "confidence", "said"),
    [
        ({}, "likely", "for a limit of 16 at once, and"),
        ({"threads": 16}, "certain", "one of the server's 16 threads"),
        ({"queue_is_measured": True, "server": None}, "certain", "for a server thread"),
        ({"threads": 8}, "likely", "one of the server's 8 threads"),
        ({"woken_share": 0.03}, "certain", "one of the server's 16 threads"),
        ({"woken_share": 0.6}, "likely", "look alike"),
        ({"server": server(witnesses=5)}, "certain", "one of the server's 16 threads, and"),
        ({"server": server(witnesses=4)}, "likely", "look alike"),
        ({"server": server(threads_range=(15, 18))}, "likely", "a limit of 16 at once (15 to 18)"),
        ({"server": server(threads_estimate=1, threads_range=(1, 1))}, "likely", "a limit of 1 at once"),
        ({"server": server(threads_estimate=1, threads_range=(1, 1), witnesses=5)}, "certain", "the server's only"),
    ],
)
def test_a_wait_for_threads_is_certain_with_a_witness_only(changes: dict[str, Any], confidence: str, said: str) -> None:
    """Packets alone are likely; light ops that waited as long, a number of the server's own that agrees, sockets that
    find no idle thread, or a measurement make it certain, for storage that takes few requests at once looks alike."""
    found = one(server_findings(replace(QUEUE, **changes)), "server-threads")
    assert found.confidence == confidence
    assert said in found.text
    assert "47.00 of the server's 48.00 ms" in found.text


def test_a_limit_that_may_be_the_storages_has_no_number_of_threads_to_set() -> None:
    """What is an estimate of something that may not be threads is never "now", and the advice is to look."""
    found = one(server_findings(QUEUE), "server-threads")
    assert not {"value", "suggested"} & found.advice.keys()
    assert "cat /proc/fs/nfsd/threads" in found.advice["how"]
    sure = one(server_findings(replace(QUEUE, server=server(witnesses=5))), "server-threads")
    assert sure.advice["value"] == "16"


def test_sockets_that_find_an_idle_thread_refute_a_limit_of_threads() -> None:
    """Where pool_stats say that nearly each socket woke a thread at once, what calls wait for is something else."""
    found = one(server_findings(replace(QUEUE, woken_share=0.98)), "server-queue-unknown")
    assert "98.0 % of them found an idle thread" in found.text
    assert found.confidence == "certain"


def test_storage_is_named_where_no_number_of_threads_fits() -> None:
    """What speaks against threads does not speak for them being idle: the storage is named, and no more is said."""
    found = one(
        server_findings(replace(STORAGE, server=replace(UNLIMITED, instead="they share a disk"))), "server-storage"
    )
    assert "none waits for a thread" not in found.text
    assert "none waits for a thread" in one(server_findings(STORAGE), "server-storage").text


def test_more_threads_than_the_queue_shows_are_not_the_limit() -> None:
    """The server says that it has 64 threads, the packets show a queue that 16 at a time leave: it is another one."""
    (found,) = server_findings(replace(QUEUE, threads=64))
    assert (found.code, found.confidence) == ("server-queue-unknown", "likely")
    assert "16 calls at a time" in found.text
    assert found.as_finding().evidence["threads"] == 64
    (found,) = server_findings(replace(QUEUE, threads=64, server=server(threads_range=(14, 19))))
    assert "14 to 19 calls" in found.text


def test_storage_that_contains_the_queue_is_the_cause() -> None:
    """The storage's own figure is nearly the server's time, so what waits waits for the storage."""
    found = server_findings(replace(QUEUE, storage_ms=45.0))
    assert {each.code for each in found} == {"server-storage"}
    assert found[0].confidence == "certain"
    assert "45.00 ms" in found[0].text


def test_the_advice_names_the_command_of_the_servers_system() -> None:
    """sharectl on Solaris, rpc.nfsd on Linux, with the value in effect."""
    solaris = Snapshot("s", "SunOS", settings={"nfs.servers": Setting("16", "sharectl")})
    found = one(server_findings(replace(QUEUE, server_host=solaris, threads=16)), "server-threads")
    assert found.advice["knob"] == "nfs.servers"
    assert any(line.startswith("sharectl set -p servers=") for line in found.advice["how"])
    found = one(server_findings(replace(QUEUE, server_host=Snapshot("s", "Linux"), threads=16)), "server-threads")
    assert any(line.startswith("rpc.nfsd ") for line in found.advice["how"])
    assert found.advice["value"] == "16"


# --- Storage, and what cannot be told ---------------------------------------------------------------------------------


def test_the_storages_own_figure_makes_it_certain() -> None:
    """20 ms on the wire and 19 ms on the disk; with 5 ms on the disk the rest is of unknown make."""
    found = one(server_findings(replace(STORAGE, storage_ms=19.0)), "server-storage")
    assert (found.confidence, found.evidence["storage_ms"]) == ("certain", 19.0)
    (other,) = server_findings(replace(STORAGE, storage_ms=5.0))
    assert (other.code, other.confidence) == ("server-queue-unknown", "certain")
    assert "the storage takes 5.00 ms of it" in other.text


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"server": replace(UNLIMITED, cannot="only 20 calls: too few to tell")}, "only 20 calls"),
        ({"unseen_share": 0.4}, "40.0 % of the operations are not in the captures"),
        ({"by_op": (row("READ", 900, 21), row("GETATTR", 100, 12))}, "ops that need no data take 12.00 ms, too"),
        ({"by_op": (row("COMPOUND", 900, 21), row("CLOSE", 1, 0.1))}, "900 COMPOUNDs cannot be read, being encrypted"),
    ],
)
def test_what_the_packets_do_not_tell_is_said(changes: dict[str, Any], why: str) -> None:
    """A slow server whose time cannot be split: with the reason, and what would tell."""
    found = one(server_findings(replace(STORAGE, **changes)), "server-queue-unknown")
    assert why in found.text


@pytest.mark.parametrize(("storage_ms", "code"), [(None, "server-queue-unknown"), (19.0, "server-storage")])
def test_no_time_is_both_storages_and_unknown(storage_ms: float | None, code: str) -> None:
    """Where much is not captured the time in a thread is of unknown make, unless the storage's own figure is known."""
    assert codes(server_findings(replace(STORAGE, unseen_share=0.4, storage_ms=storage_ms))) == [code]


@pytest.mark.parametrize(("slowest_ms", "code"), [(108.6, "server-storage"), (21.0, "server-queue-unknown")])
def test_a_single_slow_light_op_is_no_queue(slowest_ms: float, code: str) -> None:
    """The first FSINFO of a mount waits for the server's look at its exports, and makes the mean of few light ops: the
    others say that storage is what READs wait for. Where several of them wait as long it is not known."""
    mean_ms = (29 * (0.2 if slowest_ms > 100 else 4.0) + slowest_ms) / 30
    light = row("FSINFO", 30, mean_ms)
    light = replace(light, server_ms=replace(light.server_ms, p50=0.2, max=slowest_ms))
    assert codes(server_findings(replace(STORAGE, by_op=(row("READ", 640, 25.6), light)))) == [code]


@pytest.mark.parametrize(
    ("writes", "commits", "code", "share"),
    [
        (("WRITE UNSTABLE", 900, 21), None, "server-queue-unknown", 20 / 21),
        (("WRITE UNSTABLE", 900, 10.5), ("COMMIT", 300, 31.5), "server-storage", 10 / 21),
        (("WRITE", 900, 21), None, "server-storage", 20 / 21),
    ],
)
def test_what_unstable_writes_take_is_no_figure_of_storage(
    writes: tuple[str, int, float], commits: tuple[str, int, float] | None, code: str, share: float
) -> None:
    """The server may answer them from memory, so that their time may be anything's; COMMITs beside them are storage's,
    with their own part of the time."""
    rows = [row(*one) for one in (writes, commits) if one is not None]
    (found,) = server_findings(replace(STORAGE, by_op=(*rows, row("GETATTR", 100, 0.1))))
    assert found.code == code
    assert found.share == pytest.approx(share)
    assert ("UNSTABLE" in found.text) == (code == "server-queue-unknown")


def test_threads_and_storage_side_by_side() -> None:
    """A queue for two threads that each wait 20 ms for the disk: both are said, with their shares."""
    facts = Facts(
        Layers(200, 1), Layers(300, 1), by_op=(row("READ", 900, 200, 180),), queue_ms=180.0, slowest_queue_ms=280.0,
        server=server(threads_estimate=2, threads_range=(2, 2), witnesses=50),
    )  # fmt: skip
    found = every(facts)
    assert [each.code for each in found] == ["server-threads", "server-storage"]
    assert sum(each.share or 0 for each in found) == pytest.approx(200 / 201)
    assert found[0].as_finding().evidence["share_slowest"] == found[0].slowest == pytest.approx(280 / 301)


@pytest.mark.parametrize(
    ("ppm", "bound_ppm", "found"),
    [(-10.9, (-4931.0, 4811.0), []), (1.1, (0.0, 3.0), []), (-10.9, (-15.0, -2.0), ["clock-drift"])],
)
def test_bounds_that_hold_no_drift_are_no_drift(ppm: float, bound_ppm: tuple[float, float], found: list[str]) -> None:
    """An estimate whose bounds allow 0 is no finding, and the report says that no drift is seen."""
    clock = Clock(True, 5.0, (4.9, 5.1), "2024-05-01T10:00:10Z", ppm, bound_ppm, [], 0, 100, 0)
    assert [one.code for one in clock_findings(clock)] == found
    said = "".join(block.text for block in clock_section(clock) if isinstance(block, Prose))
    assert ("No drift is seen" in said) == (not found)


def test_much_loss_is_told_whatever_it_costs() -> None:
    """Retransmitted within a millisecond it costs next to nothing; 1 % of the bytes lost is a line of little weight."""
    cheap = Facts(Layers(26, 2), stalls=stalls("fast-retransmit", {"reply_net": 0.01}))
    assert codes(tcp_findings(cheap)) == []
    (found,) = tcp_findings(replace(cheap, lost_share=0.01))
    assert (found.code, found.severity) == ("net-loss", "info")


# --- The client -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "share", "confidence", "said"),
    [
        # Packets alone: likely, and the share is not known.
        ({"mean": Layers(1, 0.5), "slots": None}, None, "likely", "give the application's mean (--app-ms)"),
        # The client counts the wait itself.
        ({"mean": Layers(1, 0.5), "slots": None, "slot_wait_ms": 50.0}, None, "certain", "counts 50.00 ms of wait"),
        # What it counts since its mount may have been before the captures.
        (
            {"mean": Layers(1, 0.5), "slots": None, "slot_wait_ms": 50.0, "since_mount": frozenset(("slot_wait_ms",))},
            None,
            "likely",
            "counts 50.00 ms of wait for a slot since its mount",
        ),
        (
            {"slots": None, "slot_wait_ms": 50.0, "since_mount": frozenset(("app_ms", "slot_wait_ms"))},
            56.5 / 58,
            "likely",
            "lie above the wire",
        ),
        (
            {"slots": None, "slot_wait_ms": 50.0, "since_mount": frozenset(("slot_wait_ms",))},
            56.5 / 58,
            "certain",
            "lie above the wire",
        ),
        # The application's time above the wire is large, or the client says that this is its number of slots.
        ({"slots": None}, 56.5 / 58, "certain", "16 calls in flight on its connection and hardly ever more (95.0 %"),
        ({"slots": 16, "mean": Layers(5, 5, 2)}, 2 / 12, "certain", "2.00 ms of the application's 12.00 ms"),
        ({"slots": None, "mean": Layers(5, 5, 2)}, 2 / 12, "likely", "lie above the wire"),
        # Several connections.
        ({"client": client(4, 4, 4, 4), "slots": 4}, 56.5 / 58, "certain", "on its 4 connections together"),
    ],
)
def test_slots_are_certain_with_outside_proof_only(
    changes: dict[str, Any], share: float | None, confidence: str, said: str
) -> None:
    """Workers look like slots on the wire: likely, until the application's or the client's own figures prove it."""
    found = one(client_findings(replace(SLOTS, **changes)), "client-slots")
    assert found.share == (None if share is None else pytest.approx(share))
    assert (found.confidence, found.evidence["slots"]) == (confidence, 16)
    assert said in found.text


def test_packets_alone_tell_slots_from_callers_only_where_callers_stand_in_line() -> None:
    """As many callers that each wait for a reply look like slots: what is seen is said, the measurement that decides
    and no number to set. Callers that take turns, a session's own number and what the client says decide it."""
    alone = replace(SLOTS, mean=Layers(1, 0.5), slots=None)
    (found,) = client_findings(alone)
    assert isinstance(found.evidence, Slots)
    assert not found.evidence.is_told
    assert found.headline == "Never more than 16 calls are in flight: 16 slots, or 16 callers; mountstats tells"
    assert "as many callers that each wait for a reply would look alike" in found.text
    assert isinstance(found.advice, LookAt)
    assert any("mountstats" in how for how in found.advice.how)
    same = {"sunrpc.tcp_max_slot_table_entries": Setting("16", "/proc/sys/sunrpc")}
    for told in (
        replace(alone, client=client(16, held="slots")),
        replace(alone, sessions=(session(),)),
        replace(alone, slots=16),
        replace(alone, slot_wait_ms=50.0),
        replace(alone, client_host=Snapshot("a", "Linux", settings=same)),
    ):
        (one_,) = client_findings(told)
        assert one_.headline.startswith("Requests queue in the client: all")
    (own,) = client_findings(replace(alone, sessions=(session(limited=False, own_limit=4),)))
    assert own.headline.startswith("Never more than 4 calls are in flight")
    # As many as were ever in use at once are no limit, and a wait that is next to nothing is none for a slot.
    mount = Mount("server:/", "/mnt", "3", xprts=(Xprt("tcp", 700, 9, 9, 0, 9, 0, max_slots=16),))
    (used,) = client_findings(replace(alone, client_host=Snapshot("a", "Linux", mounts=(mount,))))
    assert used.headline == found.headline
    assert codes(client_findings(replace(alone, slot_wait_ms=0.05))) == []
    assert codes(client_findings(replace(alone, slots=64))) == []


def test_slots_of_a_session_are_told_however_seldom_all_are_in_use() -> None:
    """The server says how many there are: a line of little weight where they are not what holds the client, and no
    reason for time above the wire."""
    seldom = session(limited=False, at_limit_share=0.08)
    facts = replace(SESSION, sessions=(seldom,), client=client(2, slots_estimate=None, limited=False, held="nothing"))
    alone = replace(facts, mean=Layers(1, 0.5), client=None)
    (found,) = client_findings(alone)
    assert (found.code, found.severity, found.share) == ("session-slots", "info", None)
    assert "8.0 % of the busy time" in found.text
    assert client_findings(replace(alone, sessions=(session(limited=False, at_limit_share=0.0),))) == []
    above = replace(alone, mean=Layers(1, 0.5, 20))
    assert {one.code: one.share is None for one in client_findings(above)} == {
        "session-slots": True,
        "above-wire": False,
    }


_TWO_CALLERS = replace(SLOTS, mean=Layers(1, 0.5), slots=None, client=client(2))
_LOSSY = Facts(Layers(26, 2), stalls=stalls("fast-retransmit", {"reply_net": 1.0}))


@pytest.mark.parametrize(
    ("facts", "figures", "said"),
    [
        # Threads: packets tell a limit, or none, or refute any number; the ratio of pool_stats decides.
        (QUEUE, {"woken_share": 0.028}, {"server-threads": "certain"}),
        (QUEUE, {"woken_share": 0.97}, {"server-queue-unknown": "certain"}),
        (QUEUE, {"woken_share": 0.6}, {"server-threads": "likely"}),
        (UNKNOWN, {"woken_share": 0.028}, {"server-threads": "certain", "server-queue-unknown": "certain"}),
        (UNKNOWN, {"woken_share": 0.97}, {"server-queue-unknown": "certain"}),
        # Slots: mountstats' queue.
        (_TWO_CALLERS, {"slot_wait_ms": 8.0}, {"client-slots": "certain"}),
        (_TWO_CALLERS, {"slot_wait_ms": 0.1}, {}),
        (_TWO_CALLERS, {"slot_wait_ms": 0.4}, {"client-slots": "likely"}),
        (replace(_TWO_CALLERS, sessions=(session(),)), {"slot_wait_ms": 8.0}, {"session-slots": "certain"}),
        (replace(_TWO_CALLERS, sessions=(session(),)), {"slot_wait_ms": 0.1}, {}),
        # Storage: the device's own time.
        (STORAGE, {"storage_ms": 19.0}, {"server-storage": "certain"}),
        (STORAGE, {"storage_ms": 0.6}, {"server-queue-unknown": "certain"}),
        # Loss: what neither host sent again was not lost; what they did may have been late.
        (_LOSSY, {"resent_share": 0.01}, {"net-loss": "certain"}),
        (_LOSSY, {"resent_share": 0.0}, {}),
        (_LOSSY, {"resent_share": 0.001}, {"net-loss": "certain"}),
        (Facts(Layers(1, 0.5)), {"resent_share": 0.03}, {}),
    ],
)
def test_what_hosts_count_speaks_for_a_finding_and_against_it(
    facts: Facts, figures: dict[str, float], said: dict[str, str]
) -> None:
    """What is measured beats what is inferred, in both directions; and no measurement is asked for that was given."""
    known = replace(facts, **figures)
    found = [one for make in (server_findings, client_findings, tcp_findings) for one in make(known)]
    assert {one.code: one.confidence for one in found} == said
    (name,) = figures
    asked = [one.counter for one in ROWS if one.counter is not None and getattr(known, one.counter.figure) is not None]
    assert known.measured == {one.step.command for one in asked}, name
    judged = unasked(verdict(known.mean, None, SOUND, ranked(found)), known.measured)
    assert judged.next is None or judged.next.command not in known.measured


def test_threads_that_the_server_counts_have_the_share_that_their_number_leaves() -> None:
    """Two threads, and more calls in flight: those that are more wait, as the levels say, whatever marks of the packets
    are off. Of a number that is not known no share is known; and where all of that is little it is no finding. A limit
    that packets find with the number that there is stays as it is, wait by wait."""
    counted = replace(UNKNOWN, woken_share=0.028, threads=2, least_queue_ms=12.0)
    found = one(server_findings(counted), "server-threads")
    assert (found.share, found.confidence) == (pytest.approx(12 / 21), "certain")
    assert "12.00 of the server's 20.00 ms for one of the server's 2 threads" in found.text
    assert "2.8 % of its queued sockets found an idle thread" in found.text
    unknown, *_ = server_findings(replace(counted, threads=None, least_queue_ms=None))
    assert (unknown.share, unknown.headline) == (None, "Calls queue in the server for a thread")
    leads = verdict(counted.mean, None, SOUND, ranked([unknown, *server_findings(UNKNOWN)]))
    assert (leads.outcome, leads.cause, leads.confidence) == ("fault", "server-threads", "high")
    serial = replace(counted, threads=None, least_queue_ms=None, server=server(max=1, limited=False, cannot="few"))
    assert "server-threads" not in codes(server_findings(serial))
    assert "server-threads" not in codes(server_findings(replace(counted, least_queue_ms=0.5)))
    assert "server-threads" not in codes(server_findings(replace(counted, woken_share=0.6)))
    fits = replace(QUEUE, woken_share=0.028, threads=16, least_queue_ms=40.0)
    assert one(server_findings(fits), "server-threads").share == pytest.approx(47 / 49)


def test_workers_are_no_slots_where_the_client_says_that_it_has_more() -> None:
    """Sixteen in flight of 65,536 slots are workers; unless it counts a wait for one."""
    tunable = {"sunrpc.tcp_max_slot_table_entries": Setting("65536", "/proc/sys/sunrpc")}
    more = replace(SLOTS, slots=None, client_host=Snapshot("client.txt", "Linux", settings=tunable))
    assert codes(client_findings(more)) == ["above-wire"]
    assert codes(client_findings(replace(more, mean=Layers(1, 0.5)))) == []
    assert codes(client_findings(replace(more, slot_wait_ms=50.0))) == ["client-slots"]
    mount = Mount("server:/", "/mnt", "3", xprts=(Xprt("tcp", 700, 9, 9, 0, 9, 0, max_slots=40),))
    assert codes(client_findings(replace(more, client_host=Snapshot("a", "Linux", mounts=(mount,))))) == ["above-wire"]
    same = {"sunrpc.tcp_max_slot_table_entries": Setting("16", "/proc/sys/sunrpc")}
    assert codes(client_findings(replace(more, client_host=Snapshot("a", "Linux", settings=same)))) == ["client-slots"]


def test_requests_wait_for_slots_only_where_more_are_open() -> None:
    """By Little's law 16 requests are open of a client that has 16 slots: a slow client, not one without slots."""
    for sessions, said in (
        (15.9, ["above-wire"]),
        (16.4, ["above-wire"]),
        (17.0, ["client-slots"]),
        (None, ["client-slots"]),
    ):
        assert codes(client_findings(replace(SLOTS, slots=None, sessions_open=sessions))) == said
    assert codes(client_findings(replace(SLOTS, slots=None, sessions_open=9.0, slot_wait_ms=50.0))) == ["client-slots"]


def test_what_moves_much_data_may_take_longer_in_a_thread() -> None:
    """8 KB that take 7 ms are slow; 256 KB that do are copied, and on their way to a disk, at 36 MB/s; 20 ms are slow
    again. Where the storage's own figure is known it decides."""
    quick = replace(STORAGE, mean=Layers(7, 1), by_op=(row("WRITE", 900, 7),))
    assert codes(server_findings(quick)) == ["server-storage"]
    large = replace(quick, data_bytes=262_144.0)
    assert codes(server_findings(large)) == []
    assert codes(server_findings(replace(large, storage_ms=7.0))) == ["server-storage"]
    slow = replace(large, mean=Layers(20, 1), by_op=(row("WRITE", 900, 20),))
    assert codes(server_findings(slow)) == ["server-storage"]


def test_sizes_beyond_the_snaplen_are_no_large_ones() -> None:
    """What READs ask for is not captured with 96 bytes: their mean is of those that show it, and 0 where none does."""
    sizes = np.array([8192, NULL32, 4096, NULL32, 100], dtype=np.uint32)
    for shown, mean in ((sizes, 6144.0), (np.full(5, NULL32, dtype=np.uint32), 0.0)):
        cut: Any = SimpleNamespace(
            client=SimpleNamespace(ops=SimpleNamespace(size=shown, kinds=[Kind(NFS, 3, 0, 6), Kind(NFS, 3, 0, 1)])),
            matched=SimpleNamespace(client=np.arange(5)),
            kind=np.array([0, 0, 0, 0, 1]),
        )
        assert data_bytes(cut, np.arange(5)) == mean


def test_calls_that_come_late_leave_open_whether_it_is_the_servers_processor() -> None:
    """A server that waits for a processor takes calls late, and goes on as late each time that its disk is done: 8 ms
    in which its capture shows nothing, and 20 in a thread, prove no storage, whether or not light ops are quick. The
    storage's own figure does, and so does a quickest tenth of the READs that takes as long as the others."""
    data = (row("READ", 900, 21),)
    late = replace(STORAGE, mean=Layers(20, 9), by_op=data, late=LateCalls(8.0, 21.0, 0.4))
    for others in ((), (row("GETATTR", 100, 0.1),), (row("GETATTR", 20, 1.2),)):
        (found,) = server_findings(replace(late, by_op=(*data, *others)))
        assert (found.code, found.confidence) == ("server-queue-unknown", "certain")
        assert "a processor may be what they wait for" in found.text
    little = replace(late, late=LateCalls(2.0, 21.0, 0.4))
    always = replace(late, late=LateCalls(8.0, 21.0, 19.0))
    for other in (little, always, replace(late, late=None), replace(late, storage_ms=19.0)):
        assert codes(server_findings(other)) == ["server-storage"]


def test_a_change_needs_the_processor_more_often_than_a_read() -> None:
    """Each of the writes that a change costs ends with a wait: of WRITEs that take 21 ms calls that are 3 ms late may
    explain as much as half, of READs not."""
    late = replace(STORAGE, mean=Layers(20, 9), late=LateCalls(3.0, 21.0, None))
    assert codes(server_findings(replace(late, by_op=(row("WRITE", 900, 21),)))) == ["server-queue-unknown"]
    assert codes(server_findings(replace(late, by_op=(row("READ", 900, 21),)))) == ["server-storage"]


def test_without_light_ops_beside_it_a_processor_is_not_ruled_out() -> None:
    """GETATTRs that are quick had their processor in time; READs alone may have waited for one."""
    (beside,) = server_findings(STORAGE)
    assert beside.headline == "Operations take long in a thread of the server (file system, locks or disk)"
    (alone,) = server_findings(replace(STORAGE, by_op=(row("READ", 900, 21),)))
    assert alone.headline == (
        "Operations take long in a thread of the server (file system, locks, disk or a busy processor)"
    )


def test_a_few_compounds_without_a_name_hide_nothing() -> None:
    """Some are cut off in every short capture; READs beside them say what the storage takes, and quick ones nothing."""
    mixed = (row("READ", 900, 21), row("COMPOUND", 90, 21), row("GETATTR", 100, 0.1))
    assert codes(server_findings(replace(STORAGE, by_op=mixed))) == ["server-storage"]
    few = (row("COMPOUND", 90, 21), row("GETATTR", 100, 0.1))
    assert codes(server_findings(replace(STORAGE, by_op=few))) == []
    quick = replace(STORAGE, mean=Layers(2, 1), by_op=(row("COMPOUND", 900, 2),))
    assert codes(server_findings(quick)) == []


def test_with_time_above_the_wire_a_flat_top_is_enough() -> None:
    """Where half of the application's time is above the wire, what could be workers is taken for slots."""
    flat = client(2, slots_estimate=None, limited=False, held="slots or workers")
    found = one(client_findings(replace(SLOTS, client=flat, slots=None)), "client-slots")
    assert found.evidence["slots"] == 2
    assert codes(client_findings(replace(SLOTS, client=flat, slots=None, mean=Layers(40, 40, 20)))) == ["above-wire"]
    moving = client(2, slots_estimate=None, limited=False, at_limit_share=0.3)
    assert codes(client_findings(replace(SLOTS, client=moving, slots=None))) == ["above-wire"]


def test_a_flat_top_of_what_is_seen_is_none_where_much_is_not() -> None:
    """Where a quarter of the ops is not in the captures, no level is one of slots."""
    flat = client(2, slots_estimate=None, limited=False, held="unknown")
    few = replace(SLOTS, client=flat, slots=None, unseen_share=0.24)
    assert codes(client_findings(few)) == ["client-slots"]
    assert codes(client_findings(replace(few, unseen_share=0.8))) == ["above-wire"]


def test_the_session_of_nfs_4_1_goes_before_the_connection() -> None:
    """Slots of a session are exact; its backchannel, and a session that is not at its limit, are passed over."""
    sessions = (session(callbacks=True), session())
    assert codes(client_findings(replace(SESSION, sessions=sessions))) == ["session-slots"]
    idle = session(limited=False)
    assert codes(client_findings(replace(SESSION, sessions=(idle,)))) == ["client-slots"]
    own = one(client_findings(replace(SESSION, sessions=(session(limited=False, own_limit=4),))), "session-slots")
    assert own.evidence["slots"] == 4


def test_sessions_that_the_application_needs_are_littles() -> None:
    """1,000 requests a second of 58 ms each are 58 at once."""
    assert replace(SLOTS, throughput_per_s=1000.0).sessions_needed == 58
    assert SLOTS.sessions_needed is None
    assert replace(QUEUE, throughput_per_s=1000.0).sessions_needed is None
    found = one(client_findings(replace(SLOTS, throughput_per_s=1000.0)), "client-slots")
    assert found.evidence["sessions_needed"] == 58
    assert found.advice["suggested"] == "128"


# --- The network ------------------------------------------------------------------------------------------------------


def test_the_direction_that_is_slower_is_named() -> None:
    """Call or reply, with the error of the difference."""
    assert "the call takes 8.00 ms longer than the reply (+/- 1.00 ms)" in network_findings(ASYMMETRY)[0].text
    reverse = replace(ASYMMETRY, parts=parts(call_net=1.0, reply_net=9.0, one_way_error=0.5))
    assert "the reply takes 8.00 ms longer than the call" in network_findings(reverse)[0].text


@pytest.mark.parametrize(("loss_ms", "said"), [(0.2, ["between-taps"]), (3.2, [])])
def test_what_is_not_shown_waits_for_nobody_knows_what(loss_ms: float, said: list[str]) -> None:
    """Where loss explains most of what is shown, what the ops took that are not shown is no evidence against it."""
    loss = Stalls({("reply_net", "fast-retransmit"): loss_ms}, {}, {})
    unseen = WithUnseen(80, 0.026, (0.4, 0.5), Layers(2.4, 4.5), (15.9, 15.9), (2.4, 2.4))
    facts = replace(BETWEEN, mean=unseen.layers(), unseen=unseen, stalls=loss)
    assert facts.is_reckoned
    assert codes([one for one in network_findings(facts) if one.code == "between-taps"]) == said


def test_time_between_the_taps_that_nothing_explains_is_not_called_the_networks() -> None:
    """A starved host looks like a slow path: both are named, at low confidence, with what decides between them."""
    found = every(BETWEEN)
    said = verdict(BETWEEN.mean, None, SOUND, found)
    assert (said.outcome, said.layer, said.largest_layer) == ("undecided", None, "network")
    assert (said.cause, said.confidence) == ("between-taps", "low")
    assert said.text.startswith("Cannot tell yet: nothing explains ")
    finding = found[0].as_finding()
    assert "between the two capture points: the path, or the hosts' own kernels" in finding.text
    how = "; ".join(finding.advice["how"])
    assert all(one in how for one in ("another client", "--evidence", "perf sched", "TCP timestamps"))


@pytest.mark.parametrize(
    ("cause", "is_explained"), [("distance", True), ("rto", True), ("bandwidth", True), ("held", False)]
)
def test_what_tcp_and_distance_explain_stays_the_networks(cause: str, is_explained: bool) -> None:
    """Loss, a full path and distance are the path's; packets that were held may be a late processor's."""
    rates = (Rate("reply", "10.0.0.1", "10.0.0.2", 19.2, 0.9),)
    facts = replace(BETWEEN, stalls=Stalls({("reply_net", cause): 8.0}, {}, {}, rates=rates))
    facts = replace(facts, least_round_trip_ms=8.0) if cause == "distance" else facts
    found = network_findings(facts)
    assert ("between-taps" in codes(found)) != is_explained
    found = ranked([*found, *tcp_findings(facts)])
    assert verdict(facts.mean, None, SOUND, found).outcome == ("fault" if is_explained else "undecided")


def test_loss_that_only_the_slowest_feel_is_found() -> None:
    """1 % of the mean and most of the slowest 1 %: a warning, ranked by what it explains there; also where the
    application's mean is known."""
    for above, share in ((None, 0.01), (150.0, 0.005)):
        facts = replace(LOSS, mean=Layers(140, 10, client_ms=above), slowest=Layers(20, 180))
        found = one(tcp_findings(facts), "net-loss")
        assert (found.share, found.severity) == (pytest.approx(share), "warning")
        assert found.evidence["share_slowest"] == pytest.approx(0.75)
    assert "12 segments lost" in found.text


# --- The order --------------------------------------------------------------------------------------------------------


def made(code: str, share: float | None, slowest: float | None = None) -> Diagnosis:
    nothing = Unknown(server_ms=0.0, in_thread_ms=0.0)
    return diagnosis(code, "server", code, share=share, slowest=slowest, confidence="likely", evidence=nothing)


def test_findings_are_ranked_by_what_they_explain() -> None:
    """By the share of the mean, or half of that of the slowest; unknown is a half; less than 10 % comes last."""
    found = [made("a", 0.2), made("b", 0.04, 0.05), made("c", None), made("d", 0.6), made("e", 0.05, 0.9)]
    assert [each.code for each in ranked(found)] == ["d", "c", "e", "a", "b"]
    assert [each.severity for each in ranked(found)] == ["warning"] * 4 + ["info"]


SHARES = st.none() | st.floats(0, 1)


@given(st.lists(st.tuples(SHARES, SHARES), max_size=8), st.randoms(use_true_random=False))
def test_the_order_does_not_hang_on_the_order(
    shares: list[tuple[float | None, float | None]], draw: random.Random
) -> None:
    """However they come, they are ranked alike, none is lost, and warnings stand before the rest."""
    found = [made(f"code-{n}", *both) for n, both in enumerate(shares)]
    mixed = draw.sample(found, len(found))
    assert ranked(mixed) == ranked(found)
    assert codes(ranked(found)) == codes(found)
    severities = [each.severity for each in ranked(found)]
    assert severities == sorted(severities, key=["warning", "info"].index)


_ms = st.integers(0, 10**6).map(lambda us: us / 1000)
_waits = st.none() | _ms


_PARTS = ("call_send", "call_net", "server", "reply_send", "reply_net")


@st.composite
def any_stalls(draw: st.DrawFn, server_ms: float, network_ms: float, slow: tuple[float, float], trips: float) -> Stalls:
    """Causes of any parts, which together are no more than the server's time, the network's, and each way's of that;
    `trips` is the share of the way there."""
    keys = draw(st.lists(st.tuples(st.sampled_from(_PARTS), st.sampled_from([one.value for one in CHARGES])),
                         min_size=1, max_size=6, unique=True))  # fmt: skip

    def split(server: float, network: float) -> dict[tuple[str, str], float]:
        whole = dict.fromkeys(_PARTS, network) | {
            "server": server, "call_net": network * trips, "reply_net": network * (1 - trips)
        }  # fmt: skip
        return {key: whole[key[0]] * draw(st.floats(0, 1 / len(keys))) for key in keys}

    pauses = st.dictionaries(st.sampled_from(["server", "client"]), st.builds(
        HostPauses, st.integers(1, 3), _ms, _ms, st.just(""), st.none() | st.just(7)))  # fmt: skip
    rates = RATE.stalls.rates if RATE.stalls else ()
    both = split(server_ms, network_ms), split(*slow)
    return Stalls(*both, dict.fromkeys(keys, 3), rates=rates, host_pauses=draw(pauses))


@st.composite
def any_facts(draw: st.DrawFn) -> Facts:
    """Parts that are not negative, and waits that lie within what they are a part of."""
    server_ms, network_ms, share = draw(_ms), draw(_ms), st.none() | st.floats(0, 1)
    slow_server_ms, slow_network_ms = server_ms + draw(_ms), network_ms + draw(_ms)

    def part(whole: float) -> float | None:
        of = draw(share)
        return None if of is None else whole * of

    limited = draw(st.booleans())
    queue_ms = part(server_ms) if limited else draw(st.sampled_from([None, 0.0]))
    trips = draw(st.floats(0, 1))
    stalls = draw(st.none() | any_stalls(server_ms, network_ms, (slow_server_ms, slow_network_ms), trips))
    moved = {} if stalls is None else moved_ms(stalls.mean_ms, server_ms, network_ms)
    slow_moved = {} if stalls is None else moved_ms(stalls.slowest_ms, slow_server_ms, slow_network_ms)
    return Facts(
        mean=Layers(server_ms, network_ms, draw(_waits), moved_ms=moved),
        slowest=Layers(slow_server_ms, slow_network_ms, moved_ms=slow_moved),
        stalls=stalls,
        parts=parts(
            call_net=network_ms * trips, reply_net=network_ms * (1 - trips), one_way_error=draw(_ms),
            call_retrans_wait=part(network_ms * trips), reply_retrans_wait=part(network_ms * (1 - trips)),
        ),
        slowest_parts=parts(call_retrans_wait=part(slow_network_ms), reply_retrans_wait=0.0),
        by_op=draw(st.lists(st.builds(row, st.sampled_from(["READ", "WRITE", "GETATTR"]), st.integers(1, 100), _ms),
                            max_size=3)),
        queue_ms=queue_ms,
        slowest_queue_ms=part(slow_server_ms),
        queue_is_measured=draw(st.booleans()),
        storage_ms=part(server_ms),
        least_round_trip_ms=part(network_ms),
        throughput_per_s=draw(st.none() | st.floats(1, 1e5)),
        lost_segments=draw(st.none() | st.integers(0, 100)),
        server=draw(st.none() | st.builds(server, witnesses=st.integers(0, 9), cannot=st.none() | st.just("few")))
        if limited else draw(st.sampled_from([None, UNLIMITED])),
        client=draw(st.sampled_from([None, client(2), client(16, 16), client(2, slots_estimate=None)])),
        sessions=draw(st.sampled_from([(), (session(),), (session(limited=False),)])),
        caps=draw(st.sampled_from([(), (cap(),), (cap(likely=False),)])),
        reconnects=draw(st.none() | st.builds(Reconnects, st.integers(1, 9), _ms, st.just(server_ms / 2))),
        kept_above=draw(st.dictionaries(st.sampled_from(list(Why)), st.builds(kept, _ms))),
        longest_ms=draw(_waits),
        unseen_share=draw(st.floats(0, 1)),
        threads=draw(st.none() | st.integers(1, 64)),
        slots=draw(st.none() | st.integers(1, 64)),
        slot_wait_ms=draw(_waits),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("facts", "code", "words"),
    [
        (LOST, "net-loss", ["0.900 ms on average", "0.900 ms by fast-retransmit"]),
        (BLOCKED, "net-loss", ["1.20 ms of it calls that had arrived waited", "the application waits 0.300 ms more"]),
        (ACKS, "delayed-ack", ["replies wait 1.20 ms", "the client keeps back", "Linux's 40 ms timer", "12 pauses"]),
        (WINDOW, "zero-window", ["calls wait 0.900 ms", "the server's TCP window is closed"]),
        (
            WHOSE,
            "unknown-window",
            ["replies wait 1.20 ms", "the client's receive window or the server's congestion window"],
        ),
        (RATE, "bandwidth", ["from server to client", "19.2 Mbit/s", "90.0 % of its busy time"]),
        (STOPPED, "host-pause", ["the client neither received nor sent anything 2 times", "up to 1200.0 ms"]),
    ],
)
def test_what_is_said_of_stalls(facts: Facts, code: str, words: list[str]) -> None:
    """Who waits for whom, how long, and by which timer or rate."""
    text = one(every(facts), code).text
    assert [word for word in words if word not in text] == []


def test_what_the_network_made_of_the_servers_time_is_the_networks() -> None:
    """Layers that sum as before; the network leads where the server's time is a wait for it, and the text says so."""
    for facts in (BLOCKED, HEAD, ACKS, STOPPED):
        mean = facts.mean
        assert sum(mean.ms(layer) for layer in ("server", "network", "client")) == pytest.approx(mean.total_ms)
        for each in every(facts):
            assert each.share is not None
            assert each.share <= mean.share(each.layer) + 1e-9
    found = tcp_findings(BLOCKED)
    said = verdict(BLOCKED.mean, BLOCKED.slowest, SOUND, found)
    assert (said.layer, said.cause) == ("network", "net-loss")
    assert ": 1.20 of 3.00 ms (40.0 %)" in said.text
    assert "1.50 in the server, 1.50 in the network" in said.text
    stopped = verdict(STOPPED.mean, STOPPED.slowest, SOUND, host_findings(STOPPED))
    assert (stopped.layer, stopped.cause) == ("client", "host-pause")
    assert stopped.text.startswith("The client was stalled ")
    assert (stopped.largest_layer, stopped.share) == (STOPPED.mean.by_srt.largest, pytest.approx(0.5))


# Parts of what their layer adds.
_OF_TIME = {
    *("server-threads", "server-storage", "server-queue-unknown", "net-loss", "net-reordering", "delayed-ack"),
    *("receive-window", "congestion-window", "unknown-window"),
    *("zero-window", "head-of-line", "bandwidth", "host-pause", "client-slots", "session-slots", "above-wire"),
}


@given(any_facts())
def test_shares_are_shares_whatever_the_facts(facts: Facts) -> None:
    """For any parts that are not negative each share lies in 0 to 1 and within its layer's, and texts are whole."""
    found = every(facts)
    mean = replace(facts.mean, kept_ms=facts.kept_by)
    for each in found:
        assert each.share is None or -1e-9 <= each.share <= 1 + 1e-9
        if each.code in _OF_TIME:
            # A host that did not run keeps requests above the wire that are its own client's.
            # A host that shuts its window is to blame for time that messages spend between the hosts.
            layers = {each.layer, "network"} if each.code == "zero-window" else {each.layer}
            of_layer = max(known.share(layer) for layer in layers for known in (mean, facts.mean))
            assert (each.share or 0.0) <= of_layer + 1e-9
        assert each.slowest is None or -1e-9 <= each.slowest <= 1 + 1e-9
        assert "None" not in each.text
        assert "nan" not in each.text
        assert each.confidence in ("certain", "likely")
    assert every(facts) == found
    said = verdict(facts.mean, facts.slowest or facts.mean, SOUND, found)
    assert said.cause is None or said.cause in codes(found)
    assert 2 <= len(said.proof) <= 3


# --- The article of 2013 ----------------------------------------------------------------------------------------------


def told(facts: Facts) -> tuple[str, str | None, Sequence[str], str]:
    found = verdict(facts.mean, facts.slowest or facts.mean, SOUND, every(facts))
    return found.layer, found.cause, found.proof, found.text


def test_the_articles_first_test() -> None:
    """1 ms in a thread, 48 on the server's wire, 49 on the client's, 56 at Oracle, 16 threads: the server's threads."""
    measured = replace(THREADS, server=None, queue_is_measured=True, storage_ms=1.0)
    for facts in (THREADS, measured):
        layer, cause, proof, text = told(facts)
        assert (layer, cause) == ("server", "server-threads")
        assert list(proof) == ["application 56.00 ms", "client SRT 49.00 ms", "server SRT 48.00 ms"]
        assert text == (
            "Calls queue in the server for one of its 16 threads: 47.00 of 56.00 ms of the application's READ time "
            "(83.9 %). A mean READ takes 56.00 ms: 7.00 above the wire in the client, 48.00 in the server, 1.00 in the "
            "network."
        )


def test_the_articles_second_test() -> None:
    """1 ms in the server, 1.5 at the client, 58 at Oracle, 16 slots: the client, above the wire."""
    for facts in (SLOTS, Facts(Layers(1, 0.5, 56.5), queue_ms=0.0, queue_is_measured=True, slots=16)):
        layer, cause, proof, text = told(facts)
        assert (layer, cause) == ("client", "client-slots")
        assert list(proof) == ["application 58.00 ms", "client SRT 1.50 ms", "server SRT 1.00 ms"]
        assert text.startswith("Requests queue in the client: all 16 RPC slots are in use")


# --- Words ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "said"), [(0.01234, "0.0123"), (1.0, "1.00"), (99.99, "99.99"), (123.4, "123.4")])
def test_figures_have_three_digits(value: float, said: str) -> None:
    """Never an exponent."""
    assert ms(value) == said
    assert [times(1, "thread"), times(2, "thread"), times(1234, "op")] == ["1 thread", "2 threads", "1,234 ops"]


def test_means_over_some_operations_are_weighted() -> None:
    """100 READs of 10 ms and 300 WRITEs of 20 ms, 5 ms of each a wait."""
    facts = Facts(Layers(1, 1), by_op=(row("READ", 100, 10, 5), row("WRITE", 300, 20, 5), row("GETATTR", 5, 1)))
    assert facts.op(DATA_OPS) == (400, 5.0, 12.5)
    assert facts.op(frozenset(("LINK",))) is None


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ((row("READ", 900, 20), row("WRITE", 90, 20)), "READ takes 20"),
        ((row("READ", 900, 20), row("WRITE", 900, 30)), "WRITE and READ take 25"),
        ((row("WRITE", 900, 0.3), row("COMMIT", 100, 90)), "COMMIT takes 9.27"),
        ((row("CREATE", 72, 60), row("REMOVE", 72, 50), row("MKDIR", 30, 55)), "CREATE, REMOVE and MKDIR take"),
    ],
)
def test_slow_storage_is_said_of_the_ops_that_wait_for_it(rows: tuple[MatchedRow, ...], said: str) -> None:
    """A load of new files or of COMMITs waits for the disk like one of READs, and the finding names what does."""
    facts = replace(STORAGE, by_op=(*rows, row("GETATTR", 100, 0.1)))
    (one,) = [each for each in server_findings(facts) if each.code == "server-storage"]
    assert one.text.startswith(said)


# --- What requests waited for above the wire --------------------------------------------------------------------------


def said_of(facts: Facts) -> tuple[list[Finding], Any]:
    """The findings, and the verdict as `nfslat.figures.findings` asks for it."""
    found = every(facts)
    ground = SOUND._replace(unseen_explain=facts.unseen_ms is not None)
    return found, verdict(replace(facts.mean, kept_ms=facts.kept_by), None, ground, found)


def test_time_without_a_connection_is_the_servers_not_the_clients() -> None:
    """Of 10 ms 8 lie above the wire, for 7.5 of which the client had no connection: that is the cause, with the 0.4
    that ops on the wire waited for it, and the rest stays the client's."""
    facts = replace(ABOVE, kept_above={Why.NO_CONNECTION: kept(7.5, 1)}, reconnects=Reconnects(1, 3000.0, 0.4))
    found, said = said_of(replace(facts, mean=Layers(1.5, 0.5, 8)))
    assert codes(found) == ["above-wire", "reconnect"]
    cut = one(found, "reconnect")
    assert (cut.layer, cut.confidence) == ("server", "likely")
    assert cut.share == pytest.approx(0.79)
    assert (
        "the client had no connection for 2000.0 ms (from 2026-01-02 03:04:05.678 UTC); 1 op was retransmitted"
        in cut.text
    )
    assert "up to 7.50 ms on average of what lies above the wire" in cut.text
    assert one(found, "above-wire").share == pytest.approx(0.05)
    assert (said.layer, said.cause, said.confidence, said.share) == (
        "server",
        "reconnect",
        "medium",
        pytest.approx(0.79),
    )
    assert ", and had none for 3.0 s: up to 7.90 of 10.00 ms of the application's time (79.0 %)." in said.text
    assert "8.00 above the wire in the client, 1.50 in the server, 0.50 in the network" in said.text


def test_no_op_needs_to_be_sent_again_for_a_connection_to_have_been_missing() -> None:
    """Nothing was under way as it ended: with the application's time it is a finding with a share, else without one;
    and none where it is less than 5 %."""
    facts = replace(ABOVE, kept_above={Why.NO_CONNECTION: kept(7.5)})
    (cut,) = [each for each in server_findings(facts) if each.code == "reconnect"]
    assert cut.share == pytest.approx(0.75)
    assert cut.as_finding().evidence["ops"] == 0
    assert "2 times, for up to 2000.0 ms" in cut.text
    wire = replace(facts, mean=Layers(1, 1))
    found, said = said_of(wire)
    assert [(each.code, each.share) for each in found] == [("reconnect", None)]
    assert "give the application's mean (--app-ms)" in found[0].text
    assert said.text.startswith("The client lost its connection, and had none for 3.0 s. What requests waited")
    assert codes(server_findings(replace(wire, kept_above={Why.NO_CONNECTION: kept(0.09)}))) == []
    little = replace(facts, kept_above={Why.NO_CONNECTION: kept(0.49)})
    assert codes(every(little)) == ["above-wire"]
    assert one(every(little), "above-wire").share == pytest.approx(0.8)


def test_a_closed_window_is_the_threads_where_calls_wait_for_those() -> None:
    """The server's threads are too few: then they also read too late, and what stands in the client's socket is theirs;
    no more than likely where that is the larger part."""
    queue = replace(QUEUE, mean=Layers(48, 1, 60), kept_above={Why.WINDOW: kept(58)}, threads=2)
    found, said = said_of(queue)
    assert "server-window" not in codes(found)
    threads = one(found, "server-threads")
    assert threads.share == pytest.approx((47 + 58) / 109)
    assert threads.confidence == "likely"
    assert "up to 58.00 ms on average of what lies above the wire are calls that waited" in threads.text
    assert (said.layer, said.cause) == ("server", "server-threads")
    assert "and up to 58.00 ms for room in its TCP window" in said.text
    some = replace(queue, kept_above={Why.WINDOW: kept(20)}, woken_share=0.0)
    assert one(every(some), "server-threads").confidence == "certain"


def test_bounds_that_are_more_than_there_is_share_it() -> None:
    """Five bounds of 6 ms each, and 8 ms above the wire: each has a fifth, and nothing is left."""
    pause = stalls("host-pause", {"reply_net": 0.1}, host_pauses={"client": HostPauses(1, 80.0, 80.0)})
    facts = replace(ABOVE, stalls=pause, kept_above={why: kept(6) for why in Why})
    assert [facts.kept_ms(why) for why in Why] == [pytest.approx(8 / 5)] * 5
    assert facts.above_ms == pytest.approx(0)
    found, said = said_of(facts)
    assert codes(found) == ["host-pause", "net-loss", "reconnect", "server-window"]
    assert said.share == one(found, said.cause).share


@pytest.mark.parametrize(
    ("unseen", "longest_ms", "confidence", "each_ms"),
    [
        (0.01, 802.0, "likely", "802.0"),  # 1 and 1 on the wire, and 8 / 0.01
        (0.01, 801.0, "certain", None),  # none of those that are seen took so long
        (0.5, 40.0, "likely", "18.00"),
        (0.5, 17.9, "certain", None),
        (0.0, 1e6, "certain", None),
        (0.5, None, "certain", None),
    ],
)
def test_ops_that_are_not_captured_may_be_what_lies_above_the_wire(
    unseen: float, longest_ms: float | None, confidence: str, each_ms: str | None
) -> None:
    """Where they would have to be no slower than the slowest that are seen, nobody can say that it is the client."""
    found, said = said_of(replace(ABOVE, unseen_share=unseen, longest_ms=longest_ms))
    above = one(found, "above-wire")
    assert above.confidence == confidence
    assert ("are not in the captures" in above.text) == (each_ms is not None)
    assert each_ms is None or f"if they took {each_ms} ms each" in above.text
    assert (said.outcome, said.cause, said.largest_layer) == ("undecided", "above-wire", "client")


def test_a_limit_of_slots_is_not_proven_by_time_that_may_be_of_unseen_ops() -> None:
    """Time above the wire proves that slots make a wait, unless ops that are not captured explain it."""
    plain = replace(SLOTS, slots=None)
    assert one(every(plain), "client-slots").confidence == "certain"
    found, said = said_of(replace(plain, unseen_share=0.1, longest_ms=1e4))
    assert one(found, "client-slots").confidence == "likely"
    assert said.confidence == "medium"


@given(any_facts())
def test_layers_add_up_whatever_was_kept_above_the_wire(facts: Facts) -> None:
    """What is the server's beside its response time is taken from the client; nothing else changes, and none of it is
    more than there is."""
    mean = replace(facts.mean, kept_ms=facts.kept_by)
    assert sum(mean.ms(layer) for layer in ("server", "network", "client")) == pytest.approx(mean.total_ms)
    left = facts.above_ms
    assert (left is None) == (facts.mean.client_ms is None)
    whole = (left or 0.0) + sum(facts.kept_ms(why) for why in Why)
    assert whole == pytest.approx(facts.mean.client_ms or whole)
    assert all(facts.kept_ms(why) >= 0 for why in Why)


def test_who_stands_by_for_a_lock_is_not_said_to_wait() -> None:
    """Without the application's time a lock that is asked for again and again is of little weight, and takes no share
    from a grace period beside it."""
    polled = put_off("locked", "NFS4ERR_DENIED", between_ms=3600.0).put_off
    alone = one(error_findings(replace(DELAY, put_off=polled, ops=100)), "lock-wait")
    assert (alone.share, alone.severity) == (None, "info")
    beside = one(error_findings(replace(IN_GRACE, put_off={**IN_GRACE.put_off, **polled})), "server-grace")
    assert beside.share == pytest.approx(0.75)
