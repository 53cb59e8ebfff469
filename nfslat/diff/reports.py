"""Two reports as JSON holds them -> findings that are new or gone, and what else they say of systems and captures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from nfslat.diff import judge
from nfslat.diff.model import FindingChange, Setting

Report = dict[str, Any]
# Of the mean: what explains less is an info in the report, too (docs/method.md), and stands below the tables.
_EVENT_SHARE = 0.1
_CAPTURE = "capture"  # layer of findings about the witness, not about the systems


def findings(a: Report, b: Report) -> list[FindingChange]:
    """What explains the time, new ones first; what the captures are like is in `notes`."""
    of_a, of_b = ({one["code"]: one for one in side["findings"] if one["layer"] != _CAPTURE} for side in (a, b))
    found = []
    for code in [*of_b, *(code for code in of_a if code not in of_b)]:
        old, new = of_a.get(code), of_b.get(code)
        said = new or old or {}
        found.append(
            FindingChange(
                code=code,
                layer=said["layer"],
                change="both" if old and new else "new" if new else "gone",
                share_a=old and old["share"],
                share_b=new and new["share"],
                ms_a=_ms(a, old),
                ms_b=_ms(b, new),
                confidence=said["confidence"],
                text=said["text"],
            )
        )
    order = ("new", "gone", "both")
    return sorted(found, key=lambda one: (order.index(one.change), -max(one.share_a or 0.0, one.share_b or 0.0)))


def _ms(report: Report, finding: dict[str, Any] | None) -> float | None:
    """What a finding explains of the mean, ms; 0 where the report does not have it."""
    if finding is None:
        return 0.0
    if finding["share"] is None or report["matched"]["total"] is None:
        return None
    # Shares are of the application's time where that is known: the first row of the stack, which holds all others.
    stack = [row for row in report["stack"] if row["depth"] == 0]
    whole = stack[0]["ms"] if stack else report["matched"]["total"]["client_ms"]["mean"]
    return float(finding["share"] * whole)


def notes(name: str, report: Report) -> list[str]:
    """What the report says against its own captures."""
    return [f"{name}: {one['text']}" for one in report["findings"] if one["layer"] == _CAPTURE]


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
    sent = [sum(row["bytes"] for row in _reliable(report)) for report in (a, b)]
    for what, of_row in _HAPPENS.items():
        counts = [sum(of_row(row) or 0 for row in _reliable(report)) for report in (a, b)]
        for name, here, there in (("A", 0, 1), ("B", 1, 0)):
            # Had both the same rate, each would have happened in the other run as often as bytes were sent in it.
            chance = sent[here] / sum(sent) if sum(sent) else 1.0
            if not counts[there] and counts[here] and chance ** counts[here] < judge.CERTAIN:
                said.append(f"Only in {name}: {what}: {counts[here]:,}, in {sent[here] / 1e6:,.0f} MB.")
    codes = [{one["code"] for one in side["findings"] if one["layer"] == _CAPTURE} for side in (a, b)]
    for name, here, there in (("A", 0, 1), ("B", 1, 0)):
        alone = sorted(codes[here] - codes[there])
        if alone:
            said.append(f"Only in {name}, of the captures: {', '.join(alone)}.")
    return said


def _reliable(report: Report) -> list[dict[str, Any]]:
    return [row for row in report["transport"] or [] if not row["caveats"]]


def settings(a: Report, b: Report) -> list[Setting]:
    """What differs, of systems and of how they were captured, as far as a report shows it."""
    return _differing(_SETTINGS, a, b)


def transport(a: Report, b: Report) -> list[Setting]:
    """What TCP and the clocks did, whether it differs or not, where either has any of it."""
    rows = [Setting(name, _text(of(a)), _text(of(b))) for name, of in _TRANSPORT.items()]
    return [row for row in rows if {row.a, row.b} - {"0", "-"}]


def stack(a: Report, b: Report) -> list[Setting]:
    """Layers of all ops, ms, where both reports have them: above the wire, storage and so on."""
    of_a, of_b = ({row["layer"]: row["ms"] for row in side["stack"] if row["op"] == "all"} for side in (a, b))
    return [Setting(layer, f"{ms:.3f}", f"{of_b[layer]:.3f}") for layer, ms in of_a.items() if layer in of_b]


def _differing(figures: dict[str, Callable[[Report], Any]], a: Report, b: Report) -> list[Setting]:
    rows = [Setting(name, _text(of(a)), _text(of(b))) for name, of in figures.items()]
    return [row for row in rows if row.a != row.b]


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list | tuple):
        return " to ".join(map(str, value)) if value else "-"
    return "yes" if value is True else "no" if value is False else str(value)


def _versions(report: Report) -> str:
    return ", ".join(sorted({row["version"] for row in report["matched"]["by_op"] if row["program"] == "NFS"}))


def _mount(report: Report, name: str) -> Any:
    inflight = report["inflight"]
    return inflight["client"]["mounts"][0][name] if inflight and inflight["client"]["mounts"] else None


def _inflight(report: Report, side: str, name: str) -> Any:
    return None if report["inflight"] is None else report["inflight"][side][name]


def _session(report: Report) -> Any:
    sessions = [] if report["inflight"] is None else report["inflight"]["sessions"]
    return next((one["limit"] for one in sessions if not one["callbacks"]), None)


def _threads(report: Report) -> Any:
    """The estimate and what the packets allow, where threads are a limit; else they show none."""
    if not _inflight(report, "server", "limited"):
        return "no limit seen"
    low, high = _inflight(report, "server", "threads_range") or (None, None)
    estimate = _inflight(report, "server", "threads_estimate")
    return f"{estimate}" if low == high else f"{estimate} ({low} to {high})"


def _in_effect(report: Report) -> dict[str, str]:
    """Settings that advice names with their value, which is what a snapshot or the packets say is in effect."""
    advised = [one["advice"] for one in report["findings"]]
    return {str(one["knob"]): str(one["value"]) for one in advised if "knob" in one and "value" in one}


def _knob(report: Report) -> str | None:
    known = _in_effect(report)
    return "; ".join(f"{name} = {value}" for name, value in sorted(known.items())) or None


def _captured(report: Report, name: str) -> Any:
    values = [report["captures"][side][name] for side in ("server", "client")]
    return values[0] if values[0] == values[1] else " and ".join(map(_text, values))


_SETTINGS: dict[str, Callable[[Report], Any]] = {
    "NFS version": _versions,
    "connections (nconnect)": lambda r: _mount(r, "nconnect"),
    "server threads that calls wait for": _threads,
    "what holds the client's calls in flight": lambda r: _inflight(r, "client", "held"),
    "client slots seen": lambda r: _inflight(r, "client", "slots_estimate"),
    "session slots in effect": _session,
    "settings in effect, by the advice": _knob,
    "snaplen": lambda r: _captured(r, "snaplen"),
    "SRT definition": lambda r: r["nfslat"]["srt"],
    "engine": lambda r: r["nfslat"]["engine"],
    "filters": lambda r: ", ".join(f"{k} {v}" for k, v in r["selection"]["filters"].items()),
}


def _sum(report: Report, of: Callable[[dict[str, Any]], int | None]) -> int | None:
    if report["transport"] is None:
        return None
    values = [of(row) for row in report["transport"]]
    return sum(value or 0 for value in values) if values else None


_TRANSPORT: dict[str, Callable[[Report], Any]] = {
    "segments lost, calls": lambda r: _sum(r, lambda row: row["lost_segments"] if row["way"] == "call" else 0),
    "segments lost, replies": lambda r: _sum(r, lambda row: row["lost_segments"] if row["way"] == "reply" else 0),
    "packets sent again": lambda r: _sum(r, lambda row: row["sent_again"]["packets"]),
    "packets that arrived again": lambda r: _sum(r, lambda row: row["arrived_again"]["packets"]),
    "packets doubled on the way": lambda r: _sum(r, lambda row: row.get("doubled") or 0),
    "packets that arrived late": lambda r: _sum(r, lambda row: row["arrived_late"]["packets"]),
    "ops with bytes sent again": lambda r: _sum(r, lambda row: row["ops_hit"]),
    "clock steps": lambda r: len(r["clock"]["steps"]),
}

_HAPPENS: dict[str, Callable[[dict[str, Any]], int | None]] = {
    "segments lost between the captures": lambda row: row["lost_segments"],
    "packets that arrived twice": lambda row: row["arrived_again"]["packets"],
    "packets that the network doubled": lambda row: row.get("doubled"),
}
