"""Report -> the evidence that another team can check: who, when, what, three operations, what would refute the answer.

The page shows it beside the answer and copies it as Markdown; the Markdown report has it as a section.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, NamedTuple

from nfslat.answer.model import Capture, Clock, Completeness, Inferred, MatchedOps, Report
from nfslat.answer.words import OF_ONE, adding_up, complete, missing_ops, ms, percent
from nfslat.findings.catalogue import row
from nfslat.report.blocks import Block, Command, Item, Title
from nfslat.report.sections.inferred import basis
from nfslat.report.sections.pieces import largest, layer_of
from nfslat.report.sections.tables import is_in_ticks, op_label
from nfslat.report.text_layout import count, count_of, duration, shorten

if TYPE_CHECKING:
    from nfslat.answer.pictures import SlowOp

TITLE = "Evidence for the other team"
_OPS, _FILES, _MOUNTS = 3, 3, 3
_FRACTION = re.compile(r"(\.\d{3})\d*")
_PATH = 120


class Checked(NamedTuple):
    """An operation that can be looked up in the captures."""

    text: str
    filters: list[tuple[str, str]]  # whose capture, and Wireshark's display filter


class Handover(NamedTuple):
    """Names and texts; operations; what would refute the answer, empty where it blames nothing; and, of one capture,
    what to send along."""

    facts: list[tuple[str, str]]
    ops: list[Checked]
    refuted: str
    send: list[str]


def handover(report: Report) -> Handover | None:
    """None where two captures have no op in common: the other team could not check it."""
    if "capture" in report.captures:
        return _of_one(report)
    matched = report.matched
    if matched is None or matched.total is None:
        return None
    inferred = report.inferred
    facts = [(side.capitalize(), _capture(side, one, report)) for side, one in sorted(report.captures.items())]
    if inferred is not None:
        facts.append((inferred.side.capitalize(), f"{_who(inferred.side, report)}; {_not_captured(inferred)}"))
    facts += [
        *_where_and_when(report),
        ("Completeness", _completeness(matched.completeness, inferred=inferred is not None)),
        ("Means", _means(matched)),
    ]
    verdict = report.verdict
    cause = verdict.cause if verdict is not None and verdict.outcome == "fault" else None
    send = [] if inferred is None else _to_send(report, inferred.side)
    return Handover(facts, [_checked(one) for one in _chosen(report)], row(cause).refuted if cause else "", send)


def _of_one(report: Report) -> Handover | None:
    """Of a capture by itself, whose other side nothing is known of."""
    capture = report.captures["capture"]
    rows = sorted(report.raw.get("capture", []), key=lambda one: -one.count * one.srt_ms.mean)
    if not rows:
        return None
    servers = f"server {_who('server', report)}"
    facts = [("Capture", f"{_capture('client', capture, report)}; {servers}"), *_where_and_when(report)]
    calls = capture.messages.get("NO_REPLY", 0), capture.messages.get("NO_CALL", 0)
    none = "every call has its reply, every reply its call"
    said = f"{count_of(calls[0], 'call')} without a reply, {count(calls[1])} replies without their call"
    means = [f"{op_label(one.program, one.op)} {ms(one.srt_ms.mean)}" for one in rows[:_OPS]]
    if not is_in_ticks(capture):
        means = [f"{text} (p99 {ms(one.srt_ms.p99)})" for text, one in zip(means, rows, strict=False)]
    facts += [
        ("Completeness", f"{count_of(capture.ops, 'op')}; {said if any(calls) else none}"),
        ("Means", f"SRT in ms where it was captured: {', '.join(means)}"),
    ]
    slowest = [] if report.alone is None else report.alone.slowest
    ops = [
        Checked(
            f"{op_label(one.program, one.op)} v{one.version}, XID {one.xid}, from {one.client}, sent {_utc(one.at)} "
            f"UTC: {one.srt_ms:.{OF_ONE}f} ms",
            list(one.wireshark.items()),
        )
        for one in slowest
    ]
    cause = next((one.code for one in report.findings if one.severity == "warning"), None)
    return Handover(facts, ops, row(cause).refuted if cause else "", _to_send(report, "server"))


def handover_section(report: Report) -> Iterator[Block]:
    """For a ticket."""
    found = handover(report)
    if found is None:
        return
    yield Title(TITLE)
    for name, text in found.facts:
        yield Item(f"{name}: {text}")
    if found.refuted:
        yield Item(f"What would refute the answer: {found.refuted}")
    for number, one in enumerate(found.ops, 1):
        yield Item(f"Operation {number} to check in Wireshark: {one.text}")
        for side, text in one.filters:
            yield Command(
                "display filter" + (f", {side}'s capture" if side in ("client", "server") else ""), text, indent=2
            )
    for text in found.send:
        yield Item(f"To send along: {text}")


def _to_send(report: Report, side: str) -> list[str]:
    """What those who run the host that was not captured need, and what to ask them."""
    name = PurePath(next(iter(report.captures.values())).path).name
    if side == "client":
        return [
            "this box, and the packets of these operations (tshark -r CAPTURE -Y FILTER -w ops.pcapng)",
            "ask for a capture of the client, or its /proc/self/mountstats twice, of the same minute",
        ]
    return [
        f"this box: the provider finds the operations by time (UTC), the client's address and port, and XID; add the "
        f"name or ID of the file system behind {_who('server', report)}",
        f"the packets of these operations: tshark -r {name} -Y FILTER -w ops.pcapng",
        "ask for the service's own latency of these operations in these minutes, its throughput and IOPS limits and "
        "whether they were reached, and failovers or maintenance at that time",
    ]


def _not_captured(found: Inferred) -> str:
    means, bounds = ms(found.mean_error_ms), ms(found.op_error_ms)
    return (
        f"not captured: its times are inferred from {basis(found)}; means to +/- {means} ms, an op to +/- {bounds} ms"
    )


def _where_and_when(report: Report) -> list[tuple[str, str]]:
    return [
        ("Mount", "; ".join(_mounts(report)) or "not known"),
        ("Files", ", ".join(_files(report)) or "only their handles are in the captures"),
        ("Time", _time(report)),
    ]


def _capture(side: str, one: Capture, report: Report) -> str:
    kept = "whole packets" if one.snaplen is None else f"snaplen {count(one.snaplen)} bytes"
    return f"{_who(side, report)}; capture {PurePath(one.path).name}, {kept}, {count_of(one.packets, 'packet')}"


def _who(side: str, report: Report) -> str:
    mounts = [] if report.inflight is None else report.inflight.client.mounts
    hosts = dict.fromkeys(mount.client if side == "client" else _host(mount.server) for mount in mounts)
    who = ", ".join(
        [*list(hosts)[:_MOUNTS], *([f"{count(len(hosts) - _MOUNTS)} more"] if len(hosts) > _MOUNTS else [])]
    )
    return who or "address not known"


def _host(end: str) -> str:
    """``10.0.0.1:2049`` -> ``10.0.0.1``."""
    return end.rpartition(":")[0].strip("[]") or end


def _mounts(report: Report) -> Iterator[str]:
    by_op = report.raw.get("capture", []) if report.matched is None else report.matched.by_op
    versions = dict.fromkeys(one.version for one in by_op if one.program == "NFS")
    nfs = f"NFS v{', v'.join(versions)}" if versions else "NFS"
    mounts = [] if report.inflight is None else report.inflight.client.mounts
    for one in mounts[:_MOUNTS]:
        yield f"{one.client} to {one.server}, {nfs}, {count_of(one.nconnect, 'connection')}, {count_of(one.ops, 'op')}"
    if len(mounts) > _MOUNTS:
        yield f"{count(len(mounts) - _MOUNTS)} more"


def _files(report: Report) -> list[str]:
    slowest = report.slow_ops
    found = dict.fromkeys(one.path for one in slowest if one.path is not None)
    return [shorten(one, _PATH) for one in list(found)[:_FILES]]


def _time(report: Report) -> str:
    """Of the client's capture, or the only one, whose clock all times are; how far the server's is off."""
    side, one = next(
        (side, one) for side, one in report.captures.items() if side != "server" or len(report.captures) < 2
    )
    if one.first is None or one.last is None:
        return "not known"
    whose = "capturing host" if side == "capture" else side
    text = f"{_utc(one.first)} to {_utc(one.last)} UTC ({duration(one.duration_s * 1e3)}), by the {whose}'s clock"
    return text + _ahead(report.clock)


def _ahead(clock: Clock | None) -> str:
    if clock is None or clock.theta_ms is None:
        return ""
    way = "ahead of" if clock.theta_ms >= 0 else "behind"
    return f"; the server's is {duration(abs(clock.theta_ms))} {way} it" + (", and steps" if clock.steps else "")


def _utc(at: str) -> str:
    return _FRACTION.sub(r"\1", at).removesuffix("Z").removesuffix("+00:00").replace("T", " ")


def _completeness(one: Completeness, *, inferred: bool) -> str:
    of = f"({count(one.ops)} of {count(one.of)})"
    return f"{complete(one.share, inferred=inferred, missing=missing_ops(one.missing))} {of}"


def _means(matched: MatchedOps) -> str:
    said = []
    for name, one in (("mean", matched.total), ("slowest 1 %", matched.slowest)):
        if one is not None:
            (network, server), client = adding_up([one.network_ms.mean, one.server_ms.mean])
            said.append(f"{name}: client {client} ms = network {network} + server {server}")
    return "; ".join(said)


def _chosen(report: Report) -> Sequence[SlowOp]:
    """The slowest of those whose time mostly is the blamed layer's; then the slowest of the others."""
    slowest = report.slow_ops
    blamed = report.verdict.layer if report.verdict is not None else None
    return sorted(slowest, key=lambda one: layer_of(one.pieces) != blamed)[:_OPS]


def _checked(one: SlowOp) -> Checked:
    (network, server), client = adding_up([one.network_ms, one.server_ms], places=OF_ONE)
    mostly = largest(one)
    share = one.pieces[0].ms / whole if (whole := math.fsum(piece.ms for piece in one.pieces)) > 0 else None
    why = f"; mostly {mostly} ({percent(share)})" if mostly and share is not None else ""
    text = (
        f"{op_label(one.program, one.op)} v{one.version}, XID {one.xid}, from {one.client}, sent {_utc(one.at)} UTC: "
        f"client {client} ms = "
        f"network {network} + server {server}{why}"
    )
    return Checked(text, list(one.wireshark.items()))
