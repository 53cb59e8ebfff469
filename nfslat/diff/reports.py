"""Two reports -> findings that are new or gone, and what else they say of systems and captures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nfslat.answer.model import Finding, Report, Transport
from nfslat.diff import judge
from nfslat.diff.model import FindingChange, Setting

# Of the mean: what explains less is an info in the report, too (docs/method.md), and stands below the tables.
_EVENT_SHARE = 0.1
_CAPTURE = "capture"  # layer of findings about the witness, not about the systems


def findings(a: Report, b: Report) -> list[FindingChange]:
    """What explains the time, new ones first; what the captures are like is in `notes`."""
    of_a, of_b = ({one.code: one for one in side.findings if one.layer != _CAPTURE} for side in (a, b))
    found = []
    for code in [*of_b, *(code for code in of_a if code not in of_b)]:
        old, new = of_a.get(code), of_b.get(code)
        said = new or of_a[code]
        found.append(
            FindingChange(
                code=code,
                layer=said.layer,
                change="both" if old and new else "new" if new else "gone",
                share_a=old.share if old else None,
                share_b=new.share if new else None,
                ms_a=_ms(a, old),
                ms_b=_ms(b, new),
                confidence=said.confidence,
                text=said.text,
            )
        )
    order = ("new", "gone", "both")
    return sorted(found, key=lambda one: (order.index(one.change), -max(one.share_a or 0.0, one.share_b or 0.0)))


def _ms(report: Report, finding: Finding | None) -> float | None:
    """What a finding explains of the mean, ms; 0 where the report does not have it."""
    if finding is None:
        return 0.0
    if finding.share is None or report.matched is None or report.matched.total is None:
        return None
    # Shares are of the application's time where that is known: the first row of the stack, which holds all others.
    stack = [row for row in report.stack if row.depth == 0]
    whole = stack[0].ms if stack else report.matched.total.client_ms.mean
    return finding.share * whole


def notes(name: str, report: Report) -> list[str]:
    """What the report says against its own captures."""
    return [f"{name}: {one.text}" for one in report.findings if one.layer == _CAPTURE]


def events(a: Report, b: Report, found: Sequence[FindingChange], *, level: bool) -> list[str]:
    """What one run has and the other has nothing of; findings only where no change of `level` speaks of them, or where
    they explain no share of the time (a host that stood still while nothing was under way)."""
    said = []
    for one in found:
        share = one.share_b if one.change == "new" else one.share_a
        if level and (share is not None or one.layer == _CAPTURE):
            continue
        if one.change != "both" and (share is None or share >= _EVENT_SHARE):
            of = "" if share is None else f", {share * 100:.0f} % of its mean"
            said.append(
                f"Only in {'B' if one.change == 'new' else 'A'}: {one.code} ({one.confidence}{of}): {one.text}."
            )
    sent = [sum(row.bytes for row in _reliable(report)) for report in (a, b)]
    for what, of_row in _HAPPENS.items():
        counts = [sum(of_row(row) or 0 for row in _reliable(report)) for report in (a, b)]
        for name, here, there in (("A", 0, 1), ("B", 1, 0)):
            # Had both the same rate, each would have happened in the other run as often as bytes were sent in it.
            chance = sent[here] / sum(sent) if sum(sent) else 1.0
            if not counts[there] and counts[here] and chance ** counts[here] < judge.CERTAIN:
                said.append(f"Only in {name}: {what}: {counts[here]:,}, in {sent[here] / 1e6:,.0f} MB.")
    codes = [{one.code for one in side.findings if one.layer == _CAPTURE} for side in (a, b)]
    for name, here, there in (("A", 0, 1), ("B", 1, 0)):
        alone = sorted(codes[here] - codes[there])
        if alone:
            said.append(f"Only in {name}, of the captures: {', '.join(alone)}.")
    return said


def _reliable(report: Report) -> list[Transport]:
    return [row for row in report.transport or [] if not row.caveats]


def settings(a: Report, b: Report) -> list[Setting]:
    """What differs, of systems and of how they were captured, as far as a report shows it."""
    rows = [Setting(name, _text(of(a)), _text(of(b))) for name, of in _SETTINGS.items()]
    return [row for row in rows if row.a != row.b]


def transport(a: Report, b: Report) -> list[Setting]:
    """What TCP and the clocks did, whether it differs or not, where either has any of it."""
    rows = [Setting(name, _text(of(a)), _text(of(b))) for name, of in _TRANSPORT.items()]
    return [row for row in rows if {row.a, row.b} - {"0", "-"}]


def stack(a: Report, b: Report) -> list[Setting]:
    """Layers of all ops, ms, where both reports have them: above the wire, storage and so on."""
    of_a, of_b = ({row.layer: row.ms for row in side.stack if row.op == "all"} for side in (a, b))
    return [Setting(layer, f"{ms:.3f}", f"{of_b[layer]:.3f}") for layer, ms in of_a.items() if layer in of_b]


def _text(value: str | int | None) -> str:
    return "-" if value is None else str(value)


def _versions(report: Report) -> str:
    rows = [] if report.matched is None else report.matched.by_op
    return ", ".join(sorted({row.version for row in rows if row.program == "NFS"}))


def _nconnect(report: Report) -> int | None:
    mounts = report.inflight.client.mounts if report.inflight else []
    return mounts[0].nconnect if mounts else None


def _session(report: Report) -> int | None:
    sessions = [] if report.inflight is None else report.inflight.sessions
    return next((one.limit for one in sessions if not one.callbacks), None)


def _threads(report: Report) -> str:
    """The estimate and what the packets allow, where threads are a limit; else they show none."""
    if report.inflight is None or not report.inflight.server.limited:
        return "no limit seen"
    low, high = report.inflight.server.threads_range or (None, None)
    estimate = report.inflight.server.threads_estimate
    return f"{estimate}" if low == high else f"{estimate} ({low} to {high})"


def _in_effect(report: Report) -> str | None:
    """Settings that advice names with their value, which is what a snapshot or the packets say is in effect."""
    advised = [one.advice for one in report.findings]
    known = {str(one["knob"]): str(one["value"]) for one in advised if "knob" in one and "value" in one}
    return "; ".join(f"{name} = {value}" for name, value in sorted(known.items())) or None


def _snaplen(report: Report) -> int | str | None:
    found = [report.captures[side].snaplen for side in ("server", "client") if side in report.captures]
    return found[0] if len(set(found)) == 1 else " and ".join(map(_text, found))


_SETTINGS: dict[str, Callable[[Report], str | int | None]] = {
    "NFS version": _versions,
    "connections (nconnect)": _nconnect,
    "server threads that calls wait for": _threads,
    "what holds the client's calls in flight": lambda r: r.inflight.client.held if r.inflight else None,
    "client slots seen": lambda r: r.inflight.client.slots_estimate if r.inflight else None,
    "session slots in effect": _session,
    "settings in effect, by the advice": _in_effect,
    "snaplen": _snaplen,
    "SRT definition": lambda r: r.nfslat.srt,
    "engine": lambda r: r.nfslat.engine,
    "filters": lambda r: ", ".join(f"{k} {v}" for k, v in r.selection.filters.items()),
}


def _sum(of: Callable[[Transport], int | None]) -> Callable[[Report], int | None]:
    return lambda report: sum(of(row) or 0 for row in report.transport) if report.transport else None


_TRANSPORT: dict[str, Callable[[Report], int | None]] = {
    "segments lost, calls": _sum(lambda row: row.lost_segments if row.way == "call" else 0),
    "segments lost, replies": _sum(lambda row: row.lost_segments if row.way == "reply" else 0),
    "packets retransmitted": _sum(lambda row: row.sent_again.packets),
    "packets that arrived again": _sum(lambda row: row.arrived_again.packets),
    "packets duplicated in transit": _sum(lambda row: row.doubled),
    "packets that arrived late": _sum(lambda row: row.arrived_late.packets),
    "ops with retransmitted bytes": _sum(lambda row: row.ops_hit),
    "clock steps": lambda r: len(r.clock.steps) if r.clock else None,
}

_HAPPENS: dict[str, Callable[[Transport], int | None]] = {
    "segments lost between the captures": lambda row: row.lost_segments,
    "packets that arrived twice": lambda row: row.arrived_again.packets,
    "packets that the network duplicated": lambda row: row.doubled,
}
