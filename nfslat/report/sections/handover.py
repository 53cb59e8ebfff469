"""Report -> the evidence that another team can check: who, when, what, three operations, what would refute the answer.

The page shows it beside the answer and copies it as Markdown; the Markdown report has it as a section.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from nfslat.answer.model import Capture, Clock, Completeness, MatchedOps, Report
from nfslat.answer.pictures import SlowOp
from nfslat.findings.catalogue import row
from nfslat.report.blocks import Block, Command, Item, Title
from nfslat.report.sections.pieces import largest, layer_of
from nfslat.report.sections.tables import op_label
from nfslat.report.text_layout import adding_up, count, count_of, duration, percent, shorten

TITLE = "Evidence for the other team"
_OPS, _FILES, _MOUNTS = 3, 3, 3
_FRACTION = re.compile(r"(\.\d{3})\d*")
_PATH = 120


@dataclass(frozen=True)
class Checked:
    """An operation that can be looked up in both captures."""

    text: str
    filters: list[tuple[str, str]]  # whose capture, and Wireshark's display filter


@dataclass(frozen=True)
class Handover:
    """Names and texts; operations; what would refute the answer, empty where it blames nothing."""

    facts: list[tuple[str, str]]
    ops: list[Checked]
    refuted: str


def handover(report: Report) -> Handover | None:
    """None where no op is in both captures, as where there is only one: the other team could not check it."""
    matched = report.matched
    if matched is None or matched.total is None or report.inferred is not None:
        return None
    facts = [(side.capitalize(), _capture(side, one, report)) for side, one in sorted(report.captures.items())]
    facts += [
        ("Mount", "; ".join(_mounts(report)) or "not known"),
        ("Files", ", ".join(_files(report)) or "only their handles are in the captures"),
        ("Time", _time(report)),
        ("Completeness", _completeness(matched.completeness)),
        ("Means", _means(matched)),
    ]
    verdict = report.verdict
    cause = verdict.cause if verdict is not None and verdict.outcome == "fault" else None
    return Handover(facts, [_checked(one) for one in _chosen(report)], row(cause).refuted if cause else "")


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
            yield Command(f"display filter, {side}'s capture", text, indent=2)


def _capture(side: str, one: Capture, report: Report) -> str:
    mounts = [] if report.inflight is None else report.inflight.client.mounts
    hosts = dict.fromkeys(mount.client if side == "client" else _host(mount.server) for mount in mounts)
    who = ", ".join(
        [*list(hosts)[:_MOUNTS], *([f"{count(len(hosts) - _MOUNTS)} more"] if len(hosts) > _MOUNTS else [])]
    )
    kept = "whole packets" if one.snaplen is None else f"snaplen {count(one.snaplen)} bytes"
    return f"{who or 'address not known'}; capture {PurePath(one.path).name}, {kept}, {count_of(one.packets, 'packet')}"


def _host(end: str) -> str:
    """``10.0.0.1:2049`` -> ``10.0.0.1``."""
    return end.rpartition(":")[0].strip("[]") or end


def _mounts(report: Report) -> Iterator[str]:
    versions = (
        dict.fromkeys(one.version for one in report.matched.by_op if one.program == "NFS") if report.matched else {}
    )
    nfs = f"NFS v{', v'.join(versions)}" if versions else "NFS"
    mounts = [] if report.inflight is None else report.inflight.client.mounts
    for one in mounts[:_MOUNTS]:
        yield f"{one.client} to {one.server}, {nfs}, {count_of(one.nconnect, 'connection')}, {count_of(one.ops, 'op')}"
    if len(mounts) > _MOUNTS:
        yield f"{count(len(mounts) - _MOUNTS)} more"


def _files(report: Report) -> list[str]:
    slowest = [] if report.pictures is None else report.pictures.slowest
    found = dict.fromkeys(one.path for one in slowest if one.path is not None)
    return [shorten(one, _PATH) for one in list(found)[:_FILES]]


def _time(report: Report) -> str:
    """Of the client's capture, whose clock all times are; how far the server's is off, for its logs."""
    one = report.captures["client"]
    if one.first is None or one.last is None:
        return "not known"
    text = f"{_utc(one.first)} to {_utc(one.last)} UTC ({duration(one.duration_s * 1e3)}), by the client's clock"
    return text + _ahead(report.clock)


def _ahead(clock: Clock | None) -> str:
    if clock is None or clock.theta_ms is None:
        return ""
    way = "ahead of" if clock.theta_ms >= 0 else "behind"
    return f"; the server's is {duration(abs(clock.theta_ms))} {way} it" + (", and steps" if clock.steps else "")


def _utc(at: str) -> str:
    return _FRACTION.sub(r"\1", at).removesuffix("Z").removesuffix("+00:00").replace("T", " ")


def _completeness(one: Completeness) -> str:
    text = f"{percent(one.share)} of the {count(one.of)} operations of this time are in both captures"
    why = ", ".join(f"{count(n)} {reason}" for reason, n in one.missing.items() if n)
    return f"{text}; of the rest {why}" if why else text


def _means(matched: MatchedOps) -> str:
    said = []
    for name, one in (("mean", matched.total), ("slowest 1 %", matched.slowest)):
        if one is not None:
            (network, server), client = adding_up([one.network_ms.mean, one.server_ms.mean])
            said.append(f"{name}: client {client} ms = network {network} + server {server}")
    return "; ".join(said)


def _chosen(report: Report) -> Sequence[SlowOp]:
    """The slowest of those whose time mostly is the blamed layer's; then the slowest of the others."""
    slowest = [] if report.pictures is None else report.pictures.slowest
    blamed = report.verdict.layer if report.verdict is not None else None
    return sorted(slowest, key=lambda one: layer_of(one.pieces) != blamed)[:_OPS]


def _checked(one: SlowOp) -> Checked:
    (network, server), client = adding_up([one.network_ms, one.server_ms])
    mostly = largest(one)
    share = one.pieces[0].ms / whole if (whole := math.fsum(piece.ms for piece in one.pieces)) > 0 else None
    why = f"; mostly {mostly} ({percent(share)})" if mostly and share is not None else ""
    text = (
        f"{op_label(one.program, one.op)} v{one.version}, XID {one.xid}, sent {_utc(one.at)} UTC: client {client} ms = "
        f"network {network} + server {server}{why}"
    )
    return Checked(text, list(one.wireshark.items()))
