"""An `Analysis` -> what TCP and the path made of its ops' time: facts for findings."""

from __future__ import annotations

from collections import Counter

import numpy as np

from nfslat.answer.figures import UNEXPLAINED
from nfslat.findings.facts import HOG, DelayedAcks, Hog, HostPauses, Rate, Stalls
from nfslat.model.tables import I64
from nfslat.model.units import to_ms, utc
from nfslat.results import Analysis
from nfslat.tally.stats import slowest
from nfslat.wire.charges.analysis import Charged
from nfslat.wire.charges.hosts import Pause
from nfslat.wire.charges.rate import Plateau
from nfslat.wire.stalls import timer_ms


def stalls_of(c: Analysis, rows: I64 | None) -> Stalls | None:
    """Facts on the matched ops in `rows`, or on all; None where nothing is known."""
    charges = c.charges
    if charges is None:
        return None
    sums = charges.sums(rows)
    ops = len(c.matched) if rows is None else len(rows)
    return Stalls(
        mean_ms={
            (part, UNEXPLAINED if cause is None else cause.value): to_ms(one.ns / max(ops, 1))
            for (part, cause), one in sums.items()
        },
        ops={(part, cause.value): one.ops for (part, cause), one in sums.items() if cause is not None},
        slowest_ms=_slowest(c, charges),
        delayed_acks=_delayed_acks(charges),
        rates=tuple(
            Rate(one.way, one.client, one.server, one.bytes_per_s * 8 / 1e6, one.share, _hog(one))
            for one in charges.plateaus
        ),
        host_pauses=_host_pauses(charges),
    )


def _hog(full: Plateau) -> Hog | None:
    if not full.sharers:
        return None
    most = full.sharers[0]
    share = min(most.bytes_per_s / full.bytes_per_s, 1.0)
    return Hog(most.name, share) if share >= HOG else None


def _slowest(c: Analysis, charges: Charged) -> dict[tuple[str, str], float]:
    tail = slowest(c.client_srt_ns)
    sums = charges.sums(np.sort(tail))
    return {
        (part, UNEXPLAINED if cause is None else cause.value): to_ms(one.ns / len(tail))
        for (part, cause), one in sums.items()
    }


def _delayed_acks(charges: Charged) -> dict[str, DelayedAcks]:
    found = {}
    for part, held_ns in charges.delayed_acks.items():
        if len(held_ns):
            timers = Counter(timer_ms(held) for held in held_ns.tolist())
            most, _ = timers.most_common(1)[0]
            found[part] = DelayedAcks(len(held_ns), most, float(to_ms(np.median(held_ns))))
    return found


def _host_pauses(charges: Charged) -> dict[str, HostPauses]:
    """Of each side."""
    found = {}
    for side in ("server", "client"):
        pauses = [one for one in charges.pauses if one.side == side]
        if not pauses:
            continue
        longest = max(pauses, key=_length_ns)
        found[side] = HostPauses(
            count=len(pauses),
            total_ms=to_ms(sum(map(_length_ns, pauses))),
            longest_ms=to_ms(_length_ns(longest)),
            at=utc(longest.begin_ns, digits=3),
            frame=longest.frame,
        )
    return found


def _length_ns(pause: Pause) -> int:
    return pause.end_ns - pause.begin_ns
