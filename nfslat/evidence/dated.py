"""Evidence that says when and where it was measured, and the captures -> whether it is of their time and host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nfslat.evidence.oracle_ash import ON_CPU, Ash
from nfslat.evidence.oracle_waits import Waits
from nfslat.evidence.records import Database, Evidence, Latency, Snapshot
from nfslat.evidence.when import Fit

_CUT = 12  # characters of the narrowest column with names of hosts


@dataclass(frozen=True)
class Judged:
    """What is of the captures' time and host, or may be."""

    latencies: Sequence[Sequence[Latency]]  # of each file that has some
    database: Database | None
    unused: Sequence[str]  # why the others are left out
    notes: Sequence[str]


def judge(dated: Sequence[Evidence], captured_ns: tuple[int, int] | None, client: Snapshot | None) -> Judged:
    """Leave out what was measured at another time than the captures, or on another host than their client."""
    kept: list[tuple[Evidence, Fit]] = []
    unused: list[str] = []
    for one in dated:
        fit, why = _fits(one, captured_ns, client)
        if fit is Fit.NOT:
            unused.append(f"{one.name}: {why}; it is left out")
        else:
            kept.append((one, fit))
    notes = [f"{one.name}: {note}" for one, _ in kept for note in one.notes]
    return Judged([one.latencies for one, _ in kept if one.latencies], _database(kept), unused, notes)


def _fits(found: Evidence, captured_ns: tuple[int, int] | None, host: Snapshot | None) -> tuple[Fit, str]:
    """Whether it may be judged beside the captures, on whose `host` it ought to be; why not."""
    named = "" if host is None else host.hostname
    is_of_host = bool(named and found.host)
    if is_of_host and not _same(named, found.host):
        return Fit.NOT, f"is of the host {found.host}, and the captures' client is {named}"
    if found.span is None or captured_ns is None:
        return Fit.OPEN, ""
    fit = found.span.fits(*captured_ns, host.zone_min if host is not None and is_of_host else None)
    if fit is Fit.NOT:
        return fit, f"was measured from {found.span}, which is not when the captures ran"
    return (fit if is_of_host else Fit.OPEN), ""


def _database(found: Sequence[tuple[Evidence, Fit]]) -> Database | None:
    """The database time of the first report that has one, with the samples of its interval."""
    for one, fit in found:
        if not isinstance(one.record, Waits) or one.record.database is None:
            continue
        made = Database(one.record.database, f"{one.record.source} {one.name}", sure=fit is Fit.SURE)
        for other, _ in found:
            if isinstance(other.record, Ash) and _within(other, one) and ON_CPU in other.record.events:
                return replace(made, on_cpu_share=other.record.events[ON_CPU] / 100)
        return made
    return None


def _within(ash: Evidence, awr: Evidence) -> bool:
    """Of one host, by one clock."""
    if ash.span is None or awr.span is None or not _same(ash.host, awr.host):
        return False
    return awr.span.begin <= ash.span.begin and ash.span.end <= awr.span.end


def _same(one: str, other: str) -> bool:
    """Two names of a host: with a domain or without, and as a column of 12 or 16 characters cuts it."""
    short, long = sorted((name.partition(".")[0].casefold() for name in (one, other)), key=len)
    return short == long or (len(short) >= _CUT and long.startswith(short))
