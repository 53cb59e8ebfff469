"""A report and truth.json of its run -> each figure that was measured from outside, and whether nfslat's agrees.

What is allowed stands beside each with its reason. A figure that nobody measured, or whose two sides are not about the
same thing, is "unknown" and says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from laboratory.expected import SLOW_DISK_MS, Expected
from laboratory.truth import mountstats_delta
from nfslat.answer import model
from nfslat.api import Report
from nfslat.select import op_labels

OK, OFF, UNKNOWN = "ok", "off", "unknown"
_TICK_MS = 10.0  # of the kernels of Debian's User-Mode-Linux
_DATA = ("READ", "WRITE")
_NS_PER_MS, _NS_PER_S = 1e6, 1e9
_OF_MOUNT = frozenset({"FSINFO", "EXCHANGE_ID", "SETCLIENTID"})  # once, when a client mounts
_SAME_OPS = 0.02  # of the ops: so far two counts of them may be apart
_BUSY_MS = 0.3  # half of what a client SRT may be short of: one of two waits for a processor


@dataclass(frozen=True)
class Number:
    """One figure, found and true, both in `unit`; right within `low` to `high` (None: no bound on that side)."""

    name: str
    found: float | None
    true: float | None
    low: float | None
    high: float | None
    unit: str
    why: str  # the reason of the tolerance, or why nothing can be said

    def __post_init__(self) -> None:
        for value in (self.found, self.true, self.low, self.high):
            if value is not None and not isinstance(value, (int, float, np.number)):
                raise TypeError(f"{self.name}: {value!r} is no number")

    @property
    def state(self) -> str:
        """Is it what was measured?"""
        if self.found is None and self.true is not None and self.low is not None:
            return OFF  # it should have been found
        if self.found is None or self.true is None:
            return UNKNOWN
        low = self.found if self.low is None else self.low
        high = self.found if self.high is None else self.high
        return OK if low <= self.found <= high else OFF


def _unknown(name: str, why: str) -> Number:
    return Number(name, None, None, None, None, "", why)


def numbers(report: Report, truth: Mapping[str, Any], right: Expected | None, *, shared: bool = False) -> list[Number]:
    """All that can be held against `truth`; `right` says which threads were set. `shared`: other clients use the
    server, so that its kernel's counters are not this client's alone."""
    unmeasured = right.unmeasured if right is not None else ()
    return [
        _unknown(one.name, "the scenario says that it is not measured") if one.name in unmeasured else one
        for one in _all(report, truth, right, shared=shared)
    ]


def _all(report: Report, truth: Mapping[str, Any], right: Expected | None, *, shared: bool) -> list[Number]:
    found = report.summary
    rows = {row.op: row for row in found.matched.by_op} if found.matched is not None else {}
    return [
        *_threads(found, truth),
        *_in_thread(rows, truth, right),
        *_network(found, truth),
        *_clock(report, truth),
        *_retransmitted(found, truth, shared=shared),
        *_ops(report, truth),
        *_client_srt(found, rows, truth),
        *_client_srt_of_all(report, truth),
        *_above(found, rows, truth),
        *_pauses(report, truth),
    ]


def app_ms(truth: Mapping[str, Any]) -> dict[str, float]:
    """The application's own means by operation: `workload.app_ms`, else fio's, where each request is an op of its own
    (direct I/O)."""
    load = truth.get("workload") or {}
    if load.get("app_ms"):
        return {str(op).upper(): float(one) for op, one in load["app_ms"].items()}
    if "direct=1" in str(load.get("cmd", "")) and load.get("app"):
        means = load["app"].get("lat") or {}
        return {op: float(means[op.lower()]["mean_ms"]) for op in _DATA if means.get(op.lower())}
    if "--direct=0" in str(load.get("cmd", "")):
        return {}
    fio = load.get("fio") or {}
    return {op: fio[op.lower()]["lat_mean_ms"] for op in _DATA if (fio.get(op.lower()) or {}).get("lat_mean_ms")}


def disk_ms(truth: Mapping[str, Any]) -> dict[str, float]:
    """What the server's disk took for each of its reads and writes, mean."""
    disk = (truth.get("server_storage") or {}).get("diskstats_delta_during_load") or {}
    means = {op: disk.get(f"avg_{op.lower()}_ms") for op in _DATA}
    return {op: one for op, one in means.items() if one is not None}


def kernel_ops(truth: Mapping[str, Any]) -> dict[str, Mapping[str, float]]:
    """READ and WRITE as the client's kernel counts them (mountstats), of the time of the load."""
    ops = truth.get("mountstats_ops_delta") or {}
    return {op: ops[op] for op in _DATA if (ops.get(op) or {}).get("ops")}


def nfsd_threads(truth: Mapping[str, Any]) -> list[int]:
    """How many the server had before and after the load, as far as its kernel was asked (/proc/net/rpc/nfsd)."""
    texts = [(truth.get(when) or {}).get("server_rpc_nfsd", "") for when in ("before", "after")]
    return [int(line[1]) for text in texts if (line := re.search(r"^th (\d+)", text, re.M))]


def _threads(found: model.Report, truth: Mapping[str, Any]) -> Iterator[Number]:
    """No more threads may be proven than there are."""
    there = (truth.get("environment") or {}).get("nfsd_threads")
    if there is None:
        there = max(nfsd_threads(truth), default=None)
    if there is None or found.inflight is None:
        yield _unknown("threads proven", "nobody says how many there are")
        return
    bound = found.inflight.server.threads_lower_bound
    yield Number("threads proven", bound, there, None, there, "", "a bound: exact, and never more than there are")


def _in_thread(
    rows: Mapping[str, model.MatchedRow], truth: Mapping[str, Any], right: Expected | None
) -> Iterator[Number]:
    """READs without the wait for a thread take what the disk takes."""
    name, disk, read = "READ in a thread", disk_ms(truth).get("READ"), rows.get("READ")
    limited = right is not None and right.threads is not None
    if read is None or disk is None or not (limited or disk >= SLOW_DISK_MS):
        yield _unknown(name, "the disk is quick: the server's own work is most of it")
        return
    service = read.server_ms.mean - (read.queue_ms or 0.0)
    # A request ends on a tick of the kernel, in which dm-delay looks, and began somewhere in one that is counted whole:
    # half a tick too long on average (block/blk-core.c counts jiffies).
    half_tick = float(truth.get("disk_tick_ms") or _TICK_MS) / 2
    why = f"-{half_tick:g} ms, half a tick of the guests' kernel, in which the disk counts, and +/- 6 %"
    yield Number(name, service, disk, 0.94 * (disk - half_tick), 1.06 * disk + 0.5, "ms", why)


def _network(found: model.Report, truth: Mapping[str, Any]) -> Iterator[Number]:
    """netem's delay both ways is in every op's network part."""
    name, cause = "network, median", truth.get("cause") or {}
    delay = cause.get("delay_ms")
    if not isinstance(delay, Mapping) or found.matched is None or found.matched.total is None:
        yield _unknown(name, "no delay was injected")
        return
    if cause.get("rate_mbit") or cause.get("rate_kbit") or cause.get("reorder_pct"):
        yield _unknown(name, "a queue, or another order, adds what nobody measured")
        return
    both = sum(delay.values())
    jitter = cause.get("jitter_ms") or 0.0
    spread = sum(jitter.values()) if isinstance(jitter, Mapping) else 2 * jitter
    why = "-0 +2 ms: the two guests and their bridge take a millisecond or two of their own"
    yield Number(name, found.matched.total.network_ms.p50, both, both - spread - 0.05, both + spread + 2.0, "ms", why)


def _clock(report: Report, truth: Mapping[str, Any]) -> Iterator[Number]:
    """theta before and after the load, its drift, and what a clock was set by."""
    measured = [truth.get(when) or {} for when in ("clock_before", "clock_after")]
    clock = report.correlation.clock
    if not all(measured):
        yield _unknown("theta", "nobody measured the clocks")
        return
    if not clock.segments:
        yield Number("theta", None, _theta_ms(measured[0]), 0.0, 0.0, "ms", "no clock was found")
        return
    doubts_ms = [one["uncertainty_s"] * 1e3 for one in measured]
    at_ns = [
        (one["client_minus_host"]["host_time_s"] + one["client_minus_host"]["offset_s"]) * _NS_PER_S for one in measured
    ]
    ends = (clock.segments[0], clock.segments[-1])
    for when, segment, one, doubt_ms, t_ns in zip(("before", "after"), ends, measured, doubts_ms, at_ns, strict=True):
        low, high = (bound / _NS_PER_MS for bound in segment.bounds_at(t_ns))
        true = _theta_ms(one)
        found = (segment.theta_ns + segment.slope * (t_ns - segment.t_ns)) / _NS_PER_MS
        half = (high - low) / 2
        why = f"+/- {half:.3g} ms, the bound that nfslat states, and {doubt_ms:.3g} ms, how well it was measured"
        yield Number(f"theta {when}", found, true, true - doubt_ms - (high - found), true + doubt_ms + (found - low),
                     "ms", why)  # fmt: skip
    jump_ms = sum(step.jump_ns for step in clock.steps) / _NS_PER_MS
    change_ms = _theta_ms(measured[1]) - _theta_ms(measured[0])
    span_ms = (at_ns[1] - at_ns[0]) / _NS_PER_MS + jump_ms
    if (truth.get("cause") or {}).get("clock_step_s"):
        within = sum(doubts_ms) + 0.3 + 100e-6 * span_ms
        why = f"+/- {within:.3g} ms: how well it was measured, and 0.1 ms a second for what the clocks drift"
        yield Number("clock set by", jump_ms, change_ms, change_ms - within, change_ms + within, "ms", why)
    else:
        yield Number("clock steps", len(clock.steps), 0, 0, 0, "", "no clock was set")
    drift = (change_ms - jump_ms) / span_ms * 1e6
    room = max(0.05 * abs(drift), 5 + sum(doubts_ms) / span_ms * 1e6)
    why = f"+/- {room:.3g} ppm: 5 %, or 5 ppm and how well it was measured"
    yield Number("drift", clock.main.slope * 1e6, drift, drift - room, drift + room, "ppm", why)


def _theta_ms(measured: Mapping[str, Any]) -> float:
    return float(-measured["client_minus_server_s"] * 1e3)


def _retransmitted(found: model.Report, truth: Mapping[str, Any], *, shared: bool) -> Iterator[Number]:
    """Segments sent again are those that each kernel counts (RetransSegs); no more can be lost."""
    counted = truth.get("tcp_retrans_segs")
    if not isinstance(counted, Mapping) or found.transport is None:
        yield _unknown("retransmitted", "nobody counted")
        return
    commands = [str((one or {}).get("cmd", "")) for one in (truth.get("capture") or {}).values()]
    partial = bool((truth.get("cause") or {}).get("partial_overlap")) or any(" -c " in one for one in commands)
    for side, way, sent in (("client", "call", "calls"), ("server", "reply", "replies")):
        flows = [one for one in found.transport if one.way == way]
        again = [one.sent_again.segments for one in flows if one.sent_again.segments is not None]
        lost = [one.lost_segments for one in flows if one.lost_segments is not None]
        true = counted.get(side)
        if true is None or len(again) < len(flows) or len(lost) < len(flows):
            why = "nobody counted" if true is None else "no SYN shows how long segments are"
            yield _unknown(f"{sent} retransmitted", why)
            continue
        drops = any("sender-drops" in one.caveats for one in flows)
        whole = not (partial or drops or (shared and side == "server"))
        why = (
            "exact: both captures ran all the time"
            if whole
            else "no more: the sender's capture is not whole, or its kernel counts other clients' as well"
        )
        yield Number(f"{sent} retransmitted", sum(again), true, true if whole else None, true, "segments", why)
        yield Number(f"{sent} lost", sum(lost), true, None, true, "segments", "no more than were retransmitted")


def _ops(report: Report, truth: Mapping[str, Any]) -> Iterator[Number]:
    """READ and WRITE that nfslat counts at the client, matched or missed, are those that the kernel there counts, but
    for the share of which it says that the capture does not show it."""
    name, counted, found = "READ and WRITE", kernel_ops(truth), report.summary
    fio = (truth.get("workload") or {}).get("fio") or {}
    true, source = sum(int(one["ops"]) for one in counted.values()), "mountstats"
    if not counted:
        true, source = sum(int((fio.get(op.lower()) or {}).get("ios") or 0) for op in _DATA), "fio"
    if not true or found.inflight is None:
        yield _unknown(name, "nobody counted")
        return
    client = report.correlation.client
    wanted = np.array([label in _DATA for label in op_labels(client.ops.kinds)], dtype=np.bool_)
    seen = int(np.count_nonzero(wanted[client.ops.kind] & client.forward))
    unseen = found.inflight.hidden_share["client"]
    why = f"-{100 * unseen + 2:.0f} %: what nfslat says its capture does not show, and 2 %; {source} counts"
    yield Number(name, seen, true, true * (1 - unseen - 0.02) - 2, true + 2, "ops", why)


def _weighted(
    rows: Mapping[str, model.MatchedRow], counted: Mapping[str, Mapping[str, float]], figure: str
) -> tuple[list[str], int, float]:
    """The operations of which at least half were matched, their ops, and the kernel's mean over them."""
    ops = [op for op in counted if op in rows and rows[op].count >= 0.5 * counted[op]["ops"]]
    weight = sum(rows[op].count for op in ops)
    return ops, weight, sum(rows[op].count * counted[op][figure] for op in ops) / weight if weight else 0.0


def _client_srt(
    found: model.Report, rows: Mapping[str, model.MatchedRow], truth: Mapping[str, Any]
) -> Iterator[Number]:
    """Client SRT is what the client's kernel takes for the round trip (mountstats), by operation, weighted."""
    name, counted = "client SRT", kernel_ops(truth)
    ops, weight, rtt = _weighted(rows, counted, "avg_rtt_ms")
    if not weight:
        yield _unknown(name, "mountstats does not tell, or half of its ops are not in the captures")
        return
    if any(counted[op].get("trans", 0) > counted[op]["ops"] for op in ops):
        yield _unknown(name, "RPC sent calls again: the kernel's figure counts from the last sending")
        return
    srt = sum(rows[op].count * rows[op].client_ms.mean for op in ops) / weight
    sending = sum(rows[op].count * rows[op].parts_ms.call_send for op in ops) / weight
    # The application gets a reply when what was lost in front of it is there.
    waits = sum(one.total_ms for one in found.charges or () if one.part == "after") / weight
    why = (
        "-0.6 ms -5 %, +0.1 ms +3 %: the kernel begins before the capture and ends when its processor has time, "
        "and it counts a call that is long to send from the last time it tried"
    )
    number = Number(name, srt + waits, rtt, 0.95 * rtt - 0.6, 1.03 * rtt + 0.1 + sending, "ms", why)
    yield _unless_unseen(number, rtt - srt - waits, weight, counted, ops, truth)


def _client_srt_of_all(report: Report, truth: Mapping[str, Any]) -> Iterator[Number]:
    """nfslat's bounds of the mean over all operations, those included that the client's capture only knows of, hold the
    kernel's mean over all that it counted. Found is what of the bounds is nearest to the truth."""
    name, counted = "client SRT, all ops", _counted_of_capture(report, truth)
    ops = sum(int(one["ops"]) for one in counted.values())
    if why := _not_of_the_wire(report, truth, counted, ops):
        yield _unknown(name, why)
        return
    c, side = report.correlation, report.correlation.client
    seen, unseen = side.forward, c.unseen["client"]
    hidden, low_ns, high_ns = (unseen.ops, unseen.low_ns, unseen.high_ns) if unseen is not None else (0, 0.0, 0.0)
    known = int(np.count_nonzero(seen)) + hidden
    if abs(known - ops) > _SAME_OPS * ops + 2:
        yield _unknown(name, f"not the same ops: mountstats counts {ops}, and the capture knows of {known}")
        return
    rtt = sum(one["ops"] * one["avg_rtt_ms"] for one in counted.values()) / ops
    seen_ns = float((side.ops.t3 - side.ops.t0)[seen].sum())
    waits = sum(one.total_ms for one in report.summary.charges or () if one.part == "after") / known
    low, high = ((seen_ns + one) / _NS_PER_MS / known + waits for one in (low_ns, high_ns))
    total = report.summary.matched.total if report.summary.matched is not None else None
    in_parts = total.parts_ms.call_send + total.parts_ms.reply_send if total is not None else 0.0
    why = (
        f"{low:.3g} to {high:.3g} ms over {known} ops, {hidden} of them not shown; -0.6 ms -5 %, +0.1 ms +3 % and "
        f"{in_parts:.2g} ms as messages are long to send: the kernel ends when it reads a reply's first bytes, which "
        "its processor has to have time for, and it prints whole ms for each operation"
    )
    most = 1.03 * (rtt + len(counted) / ops) + 0.1 + in_parts
    yield Number(name, min(max(rtt, low), high), rtt, 0.95 * rtt - 0.6, most, "ms", why)


def _not_of_the_wire(
    report: Report, truth: Mapping[str, Any], counted: Mapping[str, Mapping[str, float]], ops: int
) -> str:
    """Why the kernel's mean is of other times than those between the packets; empty: it is not."""
    if not ops:
        return "nobody counted"
    if sum(one.get("trans", 0) for one in counted.values()) > ops:
        return "RPC sent calls again: the kernel's figure counts from the last sending"
    if (truth.get("cause") or {}).get("stall_s"):
        return "the client was stopped: replies that it had and did not read yet are in flight to its kernel alone"
    if report.correlation.clock.steps:
        return "a clock was set: nfslat states no bounds"
    load = truth.get("mountstats_ops_delta") or counted
    # From the reply's XID to the end of the task there is nothing to wait for but the processor, as from the packet to
    # the XID.
    total = {key: sum(one["ops"] * one[f"avg_{key}_ms"] for one in load.values()) for key in ("exe", "queue", "rtt")}
    wait_ms = (total["exe"] - total["queue"] - total["rtt"]) / sum(one["ops"] for one in load.values())
    if wait_ms > _BUSY_MS:
        return f"the client's processor was busy: even with the reply read its kernel took {wait_ms:.2g} ms for each op"
    return ""


def _counted_of_capture(report: Report, truth: Mapping[str, Any]) -> Mapping[str, Mapping[str, float]]:
    """mountstats by operation, over the time of the client's capture: since the mount, where the capture shows an
    operation of it."""
    delta = truth.get("mountstats_ops_delta") or {}
    since_mount = mountstats_delta("", (truth.get("after") or {}).get("mountstats") or "")
    side = report.correlation.client
    shown = {op_labels(side.ops.kinds)[kind] for kind in np.unique(side.ops.kind[side.forward]).tolist()}
    return since_mount if since_mount and shown & _OF_MOUNT - delta.keys() else delta


def _above(found: model.Report, rows: Mapping[str, model.MatchedRow], truth: Mapping[str, Any]) -> Iterator[Number]:
    """What lies above the wire is the kernel's wait for a slot, and what the application waits for its processor."""
    name, app = "above the wire", app_ms(truth)
    counted = {op: one for op, one in kernel_ops(truth).items() if op in app}
    ops, weight, queue = _weighted(rows, counted, "avg_queue_ms")
    if not weight:
        yield _unknown(name, "no application's latency, or no mountstats")
        return
    if any(counted[op].get("trans", 0) > counted[op]["ops"] for op in ops):
        yield _unknown(name, "RPC sent calls again: the kernel counts what they took till then as queue")
        return
    whole = sum(rows[op].count * app[op] for op in ops) / weight
    above = whole - sum(rows[op].count * rows[op].client_ms.mean for op in ops) / weight
    most = whole - _weighted(rows, counted, "avg_rtt_ms")[2]
    room = 0.6 + 0.05 * whole
    low, high = queue, max(queue, most)
    why = (
        f"+/- {room:.3g} ms, as of the SRT: between mountstats' queue ({queue:.3g}) and the application less its "
        f"rtt ({most:.3g})"
    )
    number = Number(name, above, high, low - room, high + room, "ms", why)
    yield _unless_unseen(number, above - high, weight, counted, ops, truth)


def _unless_unseen(
    number: Number,
    short_ms: float,
    seen: int,
    counted: Mapping[str, Mapping[str, float]],
    ops: Sequence[str],
    truth: Mapping[str, Any],
) -> Number:
    """The figure, or that it is not known: ops that the captures do not show are in the kernel's mean alone.

    `short_ms` is what the mean of the ops seen is short of. If the others took no longer than the application's slowest
    request, they can be all of it.
    """
    unseen = sum(counted[op]["ops"] for op in ops) - seen
    fio = (truth.get("workload") or {}).get("fio") or {}
    slowest_ms = max((float((fio.get(op.lower()) or {}).get("clat_max_ms") or 0.0) for op in ops), default=0.0)
    if number.state == OFF and short_ms > 0 and unseen > 0 and short_ms * (seen + unseen) / unseen <= slowest_ms:
        each_ms = short_ms * (seen + unseen) / unseen
        return _unknown(
            number.name, f"{unseen:.0f} ops are not in the captures, and may have taken {each_ms:.3g} ms more"
        )
    return number


def _pauses(report: Report, truth: Mapping[str, Any]) -> Iterator[Number]:
    """A host that was stopped stood still for so long."""
    cause = truth.get("cause") or {}
    charges = report.correlation.charges
    if charges is None:
        yield _unknown("hosts was stalled", "nothing is known of the clocks")
        return
    for side, key in (("client", "stall_s"), ("server", "server_stall_s")):
        stall_s = float(cause.get(key) or 0.0)
        if not stall_s:
            # A guest is a process of a busy machine: that it never waited nobody knows.
            yield _unknown(f"{side} was stalled", "this host was not stopped")
            continue
        found = sum(one.end_ns - one.begin_ns for one in charges.pauses if one.side == side) / _NS_PER_S
        why = "+/- 5 %: what shows it are packets before and behind it"
        yield Number(f"{side} was stalled", found, stall_s, 0.95 * stall_s, 1.05 * stall_s, "s", why)
