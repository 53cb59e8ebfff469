"""One side, or two -> how much of their traffic the captures do not show, and what that does to the answer."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nfslat.answer.model import AuditNote
from nfslat.decode.file_gaps import FileGap
from nfslat.figures.audit.words import LEAN, MANY, be, have, note, size, some, span
from nfslat.model.tables import I64, Miss, State, hosts
from nfslat.model.units import iso
from nfslat.results import Correlation
from nfslat.tally.captures import CaptureTally

# Messages without a partner are no surprise where others are known to be missing: three for one, as those are "at
# least" and "about" so many, and one for as many lost bytes as the smallest call has.
_EXPLAINED, _SMALLEST = 3, 100


def missing_notes(tally: CaptureTally) -> list[AuditNote]:
    """Drops, headers and calls that a capture does not show, messages without a partner.

    Where one of them brings the others about, that one is the warning and says what it cost; the others are counted.
    """
    d = tally.facts
    hidden, missing = d.hidden, int(tally.shown.missing.sum())
    between = tally.between
    lost_ranges = max(d.lost_ranges - sum(gap.ranges for gap in between), 0)
    lost_bytes = max(d.lost_bytes - sum(gap.bytes for gap in between), 0)
    unanswered, orphans = d.states[State.NO_REPLY], d.states[State.NO_CALL]
    messages, calls = max(d.messages, 1), max(d.states[State.PAIRED] // 2 + unanswered + missing, 1)
    is_explained = unanswered + orphans <= _EXPLAINED * (hidden + missing) + d.lost_bytes / _SMALLEST
    is_much = max(hidden / messages, missing / calls) > MANY
    is_much |= is_explained and max(unanswered, orphans) > MANY * messages
    leading = "files" if between else "drops" if lost_ranges else ""
    if is_much and not leading:
        leading = "calls" if missing / calls > hidden / messages else "headers"

    not_shown = f"about {some(missing, 'call')} {be(missing)} not shown"
    no_reply, no_call = (
        f"{some(unanswered, 'call')} {have(unanswered)} no reply",
        f"{some(orphans, 'reply', 'replies')} {have(orphans)} no call",
    )
    costs = [not_shown] * bool(missing and leading != "calls")
    if is_explained:
        costs += [no_reply] * bool(unanswered) + [no_call] * bool(orphans)
    cost = f"; {', '.join(costs)}" if costs else ""

    dropped = (
        f"the capture host dropped packets: {some(lost_ranges, 'range')} of TCP data ({size(lost_bytes)}) "
        f"acknowledged but never captured{'' if between else cost}. {LEAN}. A larger buffer (tcpdump -B) or a smaller "
        "-s helps"
    )
    counted = (
        f"the capturing host itself counted {some(d.interface_drops, 'packet')} that it did not capture; ops may be "
        "missing. A larger buffer (tcpdump -B) or a smaller -s helps"
    )
    snaplen = tally.source.snaplen
    where = "lost packets" if snaplen is None else f"lost packets or beyond the snaplen of {snaplen:,}"
    more = "" if snaplen is None else ". tcpdump -s 0 shows what lies beyond the snaplen"
    headers = f"at least {some(hidden, 'RPC header')} {be(hidden)} not captured, in {where}"
    headers += f"{cost}. {LEAN}{more}" if leading == "headers" else "; their ops are left out"
    not_shown += ", by the gaps in the client's XIDs"
    if leading == "calls":
        not_shown += f"{cost}. {LEAN}{more}"
    return [
        note("files-missing", len(between), _between(between, cost), warn=True),
        note("capture-drops", lost_ranges, dropped, warn=True),
        note("capture-interface-drops", d.interface_drops, counted, warn=not d.lost_ranges),
        note("capture-truncated", hidden, headers, warn=leading == "headers"),
        note("capture-missing-calls", missing, not_shown, warn=leading == "calls"),
        note(
            "capture-unanswered",
            unanswered,
            f"{some(unanswered, 'call')} without a reply {be(unanswered)} left out",
            warn=not is_explained and unanswered > MANY * messages,
        ),
        note(
            "capture-orphans",
            orphans,
            f"{some(orphans, 'reply', 'replies')} without a call {be(orphans)} left out",
            warn=not is_explained and orphans > MANY * messages,
        ),
    ]


def _between(gaps: Sequence[FileGap], cost: str) -> str:
    """What is missing between files of a set, the longest gap by its names."""
    if not gaps:
        return ""
    longest = max(gaps, key=lambda gap: gap.end_ns - gap.begin_ns)
    begin, end = (iso(ns)[11:23] for ns in (longest.begin_ns, longest.end_ns))
    ranges, lost = sum(gap.ranges for gap in gaps), sum(gap.bytes for gap in gaps)
    more = f", and in {some(len(gaps) - 1, 'other gap')}" if len(gaps) > 1 else ""
    return (
        f"a file of the set is missing: between {Path(longest.before).name} and {Path(longest.behind).name} nothing is "
        f"there from {begin} to {end} UTC ({span(longest.end_ns - longest.begin_ns)}){more}, while TCP went on "
        f"({some(ranges, 'range')}, {size(lost)}){cost}. Give all files of the set"
    )


def strangers(c: Correlation, side: str) -> int:
    """Compared ops of `side` without a partner whose hosts do not both occur in the other capture: other clients, other
    servers. Behind NAT a host has another address in each, so this says nothing there."""
    return len(_of_strangers(c, side))


def stranger_hosts(c: Correlation, side: str) -> list[tuple[str, int, float]]:
    """Who they are, the busiest first: address, ops, and of all time that compared ops of `side` took its share."""
    one, other = (c.server, c.client) if side == "server" else (c.client, c.server)
    rows, known = _of_strangers(c, side), hosts(other.ops.connections)
    took_ns = one.ops.t3 - one.ops.t0
    all_ns = max(int(took_ns[c.compared(side)].sum()), 1)
    found: defaultdict[str, tuple[int, float]] = defaultdict(lambda: (0, 0.0))
    for conn in np.unique(one.ops.conn[rows]).tolist():
        of_conn = rows[one.ops.conn[rows] == conn]
        for host in hosts([one.ops.connections[conn]]) - known:
            ops, share = found[host]
            found[host] = ops + len(of_conn), share + int(took_ns[of_conn].sum()) / all_ns
    return sorted(((host, *figures) for host, figures in found.items()), key=lambda each: (-each[2], each[0]))


def _of_strangers(c: Correlation, side: str) -> I64:
    one, other = (c.server, c.client) if side == "server" else (c.client, c.server)
    known = hosts(other.ops.connections)
    foreign = np.array([not hosts([ends]) <= known for ends in one.ops.connections], dtype=np.bool_)
    unmatched = np.flatnonzero(c.compared(side) & (c.missed(side) == Miss.CONNECTION_UNMATCHED))
    return unmatched[foreign[one.ops.conn[unmatched]]] if len(unmatched) else unmatched
