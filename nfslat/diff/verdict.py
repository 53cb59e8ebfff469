"""What changed -> one sentence that says whether B is slower, faster, or nothing shows that it is either, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nfslat.answer.words import capital, ms
from nfslat.diff import judge, reports
from nfslat.diff.compare import Compared, compare
from nfslat.diff.model import Change, FindingChange, Load, Mix, Part, Row, Verdict
from nfslat.diff.parts import PARTS
from nfslat.diff.runs import Run, comparable
from nfslat.findings.catalogue import explaining

_WHAT = {
    "network": "the network",
    "server": "the server",
    "client": "the client",
    **{name: one.words for name, one in PARTS.items()},
    "lost": "the wait for lost data",
    "overtaken": "the wait for out-of-order data",
    "held": "packets held in transit, or by a host that paused,",
    "window": "the wait for room in the receiver's TCP window",
    "delayed_ack": "the wait for delayed ACKs",
    "bandwidth": "the wait for a saturated path",
    "congestion_window": "the wait for ACKs",
    "sender": "senders that were silent in mid-message",
    "head_of_line": "the wait behind other replies",
    "distance": "the distance",
}


def between(a: Run, b: Run) -> tuple[Compared, list[FindingChange], str, Verdict]:
    """What changed between two runs, in figures, in findings, by which method, and in a sentence."""
    method = "summaries" if a.single is None or b.single is None else "slices"
    compared, found = compare(*comparable(a, b)), reports.findings(a.report, b.report)
    return compared, found, method, verdict(compared, found, method)


def verdict(compared: Compared, found: Sequence[FindingChange], method: str) -> Verdict:
    """The row that says most leads: the one that changed most, weighted with its ops."""
    rows, mix, load = compared.rows, compared.mix, compared.load
    judged = [row for row in rows if row.verdict in ("slower", "faster")]
    if judged:
        return _changed(judged, compared, found)
    held = [row for row in rows if row.verdict == "load"]
    if held:
        return _load(held, load)
    moved = _moved_part(compared)
    if moved is not None:
        return _part(moved, compared, found)
    tiny = [row for row in rows if row.verdict == "not relevant"]
    if tiny:
        row = max(tiny, key=_weight)
        text = f"No relevant change: {label(row)} {figures(row.mean)}, significant but too small to matter."
        return Verdict("not relevant", None, None, text)
    if mix.same_mix is None or not any(row.mean is not None and row.mean.p is not None for row in rows):
        same = "" if mix.same_mix is not None else " No kind of operation is frequent in both A and B."
        return Verdict(
            "unknown", None, None, f"Whether anything changed cannot be told: too few ops of one kind.{same}"
        )
    if method == "summaries" and mix.same_mix.relevant:
        text = (
            "Whether anything changed cannot be told from summaries: at the same mix of ops "
            f"{figures(mix.same_mix)}. Captures of the two runs say more."
        )
        return Verdict("unknown", None, None, text)
    why = judge.held_back(mix.same_mix)
    if why is not None:
        return Verdict("unknown", None, None, _perhaps(mix.same_mix, why, rows))
    return Verdict("none", None, None, _no_evidence(mix, rows))


def label(row: Row) -> str:
    """``READ 8 KB``."""
    return row.op if row.size is None else f"{row.op} {row.size}"


def figures(change: Change | None) -> str:
    """``2.0 -> 13.4 ms (+11.4, 95 % CI 11.1 to 11.8)``."""
    if change is None:
        return ""
    sign = "+" if change.difference >= 0 else "-"
    text = f"{ms(change.a)} -> {ms(change.b)} ms ({sign}{ms(abs(change.difference))}"
    if change.low is not None and change.high is not None:
        text += f", 95 % CI {ms(change.low)} to {ms(change.high)}"
    return text + ")"


def _weight(row: Row) -> float:
    difference = 0.0 if row.mean is None else abs(row.mean.difference)
    return difference * (row.count_a + row.count_b)


def _certain_figure(row: Row) -> tuple[str, Change | None]:
    """The figure that speaks: the mean where it is certain."""
    for name in ("mean", "p50", "p99"):
        one = getattr(row, name)
        if one is not None and one.certain and one.relevant:
            return {"mean": "", "p50": "median ", "p99": "p99 "}[name], one
    return "", row.mean


def _changed(judged: Sequence[Row], compared: Compared, found: Sequence[FindingChange]) -> Verdict:
    verdicts = {row.verdict for row in judged}
    lead = max(judged, key=_weight)
    if len(verdicts) == 1:
        change = lead.verdict
    else:
        same = compared.mix.same_mix
        clear = same is not None and same.certain and same.relevant
        change = ("slower" if same.difference > 0 else "faster") if same is not None and clear else "mixed"
        lead = max((row for row in judged if change in ("mixed", row.verdict)), key=_weight)
    name, figure = _certain_figure(lead)
    slower = lead.verdict == "slower"
    text = f"B is {'slower' if slower else 'faster'}: {label(lead)} {name}{figures(figure)}"
    if change == "mixed":
        text = f"B is slower in some and faster in others: {label(lead)} {name}{figures(figure)}"
    others = [row for row in judged if row is not lead]
    if others:
        most = max(others, key=_weight)
        named, other = _certain_figure(most)
        rest = f" and {len(others) - 1} more" if len(others) > 1 else ""
        text += f"; {label(most)} {named}{'' if other is None else f'{ms(other.a)} -> {ms(other.b)} ms'}{rest}"
    # A report has what TCP made of it over all ops, not by operation.
    of_all = all(part.name != "tcp_waits" for part in lead.parts) and any(p.name == "tcp_waits" for p in compared.parts)
    part, of_that = _leading(compared.parts if of_all else lead.parts, slower)
    layer = code = None
    if part is not None:
        layer = part.layer
        said, code = _cause(part, compared, found, slower)
        verb = "adds" if slower else "spares"
        text += f". {capital(_WHAT[part.name])} {verb} {ms(abs(part.change.difference))} ms"
        text += " at the same mix of ops" if of_all else _of_mean(lead, name)
        if of_that is not None:
            text += f", {ms(abs(of_that.change.difference))} ms of that {PARTS[of_that.name].of_that}"
        text += said + _doubt(part, compared)
    text += "."
    limit = next(
        (
            one
            for one in found
            if one.change == ("new" if slower else "gone") and one.share_a is None and one.share_b is None
        ),
        None,
    )
    if limit is not None and limit.code != code:
        where = "New in B" if slower else "Gone in B"
        text += f" {where}: {limit.code} ({limit.confidence}): {limit.text}."
    return Verdict(change, layer, code, text)


def _doubt(part: Part, compared: Compared) -> str:
    """What the table says of the part that is named, where it is no evidence by itself."""
    shown = compared.layers if part.name == "network" else compared.parts
    change = next((one.change for one in shown if one.name == part.name), None)
    if change is None or change.p is None or change.certain:
        return ""
    return f", which alone is {judge.in_a_sentence(change)}"


def _of_mean(lead: Row, name: str) -> str:
    """Parts are of the mean, which may not be the figure that was said."""
    return " of it" if not name or lead.mean is None else f" of the {ms(abs(lead.mean.difference))} ms in its mean"


def _load(held: Sequence[Row], load: Load) -> Verdict:
    row = max(held, key=_weight)
    name, figure = _certain_figure(row)
    level, rate = load.in_flight, load.ops_per_s
    more = row.mean is not None and row.mean.difference > 0
    text = f"The load is different, and nothing shows that the systems are {'slower' if more else 'faster'}"
    if level is not None and rate is not None:
        text += (
            f": a call meets {level.a:.1f} -> {level.b:.1f} calls in flight, and {rate.a:.0f} -> {rate.b:.0f} ops/s "
            f"are done. With {'more' if more else 'fewer'} in flight {label(row)} takes {name}{figures(figure)}"
        )
        same = row.same_in_flight
        if same is not None and row.in_flight_share:
            text += f"; with as many, {ms(same.a)} -> {ms(same.b)} ms ({row.in_flight_share * 100:.0f} % of the ops)"
    return Verdict("load", None, None, text + ".")


def _moved_part(compared: Compared) -> Part | None:
    """A layer, or a cause, that changed for certain where the whole varies too much to tell.

    The parts of a layer, and the causes, take time from each other (a path that is full from the first packet on shows
    no distance): a cause speaks only where by its own interval the layer moved the same way.
    """
    layers = {one.name: one for one in compared.layers}
    network = layers["network"].change if "network" in layers else None
    found = [one for one in layers.values() if _speaks(one, compared)]
    if network is not None and network.low is not None and network.high is not None:
        found += [
            one
            for one in compared.causes
            if _speaks(one, compared) and (network.low > 0 if one.change.difference > 0 else network.high < 0)
        ]
    # Where a cause is as certain as the layer that it lies in, it says more.
    named = [one for one in found if explaining(one.name)]
    return max(named or found, key=lambda one: abs(one.change.difference), default=None)


def _speaks(one: Part, compared: Compared) -> bool:
    change = one.change
    of_whole = abs(change.difference) >= judge.RELEVANT * abs(compared.mix.raw.a)
    by_load = judge.by_load(compared.load, slower=change.difference > 0)
    return change.certain and change.relevant and of_whole and not by_load


def _part(part: Part, compared: Compared, found: Sequence[FindingChange]) -> Verdict:
    slower = part.change.difference > 0
    said, code = _cause(part, compared, found, slower)
    what = _WHAT[part.name].rstrip(",")
    text = f"B is {'slower' if slower else 'faster'} in part: {what} takes {figures(part.change)}{said}"
    same = compared.mix.same_mix
    if same is not None:
        text += f"; the whole response time, {figures(same)}, is {judge.in_a_sentence(same)}"
    return Verdict("slower" if slower else "faster", part.layer, code, text + ".")


def _perhaps(same: Change, why: str, rows: Sequence[Row]) -> str:
    """Its own interval leaves 0 out, and it is no evidence all the same."""
    text = f"B may be {'slower' if same.difference > 0 else 'faster'}: at the same mix of ops {figures(same)}. "
    if why == "drift":
        text += "That is within normal variation: each run changes as much by itself"
    else:
        text += "That is not significant: among all the figures that were looked at, chance makes one like it"
    return f"{text}. Compare more runs, or longer ones{_known(rows)}."


def _no_evidence(mix: Mix, rows: Sequence[Row]) -> str:
    text = "No evidence of a change"
    if mix.same_mix is None:
        return text + "."
    text += f": at the same mix of ops {figures(mix.same_mix)}"
    held = [row for row in rows if judge.held_back(row.mean) is not None]
    if held:
        row = max(held, key=_weight)
        way = "slower" if row.mean is not None and row.mean.difference > 0 else "faster"
        why = "" if row.mean is None else judge.in_a_sentence(row.mean)
        text += f". {label(row)} may be {way}, {figures(row.mean)}, which is {why}"
    return f"{text}{_known(rows)}."


def _known(rows: Sequence[Row]) -> str:
    """How well what there is most of is known."""
    known = [row for row in rows if row.mean is not None and row.mean.p is not None]
    most = max(known, key=lambda row: row.count_a + row.count_b, default=None)
    if most is None or most.mean is None or most.mean.low is None or most.mean.high is None or most.mean.a <= 0:
        return ""
    reach = (most.mean.high - most.mean.low) / 2 / most.mean.a
    return f". By how much {label(most)} changed is known to +/- {reach * 100:.0f} %"


def _leading(parts: Sequence[Part], slower: bool) -> tuple[Part | None, Part | None]:
    """What makes most of the change: the network as a whole, or a part of another layer; and what of the network lies
    where one would not look for it, if that is most of one of its parts' changes."""
    sign = 1 if slower else -1
    by_layer: dict[str, list[Part]] = {}
    for part in parts:
        if part.depth == 0:
            by_layer.setdefault(part.layer, []).append(part)
    if not by_layer:
        return None, None

    def growth(of: Sequence[Part]) -> float:
        return sign * math.fsum(one.change.difference for one in of)

    layer = max(by_layer, key=lambda name: growth(by_layer[name]))
    if growth(by_layer[layer]) <= 0:
        return None, None
    most = max(by_layer[layer], key=lambda one: growth([one]))
    if layer != "network":
        return most, None
    sums = [math.fsum(getattr(one.change, side) for one in by_layer[layer]) for side in ("a", "b")]
    inner = max(
        (one for one in by_layer[layer] if PARTS[one.name].of_that), key=lambda one: growth([one]), default=None
    )
    known = inner if inner is not None and inner.change.relevant and growth([inner]) > 0 else None
    return Part("network", "network", 0, judge.change(sums[0], sums[1], None)), known


def _cause(part: Part, compared: Compared, found: Sequence[FindingChange], slower: bool) -> tuple[str, str | None]:
    """In words, and its code: the finding of that part, else of its layer, that grew (or shrank) most.

    Where there is none, it is what TCP and the path made of at least half of the network's.
    """
    sign = 1 if slower else -1

    def growth(one: FindingChange) -> float:
        return 0.0 if one.ms_a is None or one.ms_b is None else sign * (one.ms_b - one.ms_a)

    of_part = [one for one in found if one.code in explaining(part.name) and growth(one) > 0]
    of_layer = [one for one in found if one.layer == part.layer and growth(one) > 0]
    most = max(of_part or of_layer, key=growth, default=None)
    if most is not None:
        return f" ({_moved(most)})", most.code
    if part.layer != "network" or explaining(part.name):
        return "", next(iter(explaining(part.name)), None) if part.layer == "network" else None
    charge = max(compared.causes, key=lambda one: sign * one.change.difference, default=None)
    if charge is None or 2 * sign * charge.change.difference < sign * part.change.difference:
        return "", None
    words = _WHAT[charge.name].rstrip(",")
    return f" ({words}: {ms(charge.change.a)} -> {ms(charge.change.b)} ms)", next(iter(explaining(charge.name)), None)


def _moved(one: FindingChange) -> str:
    if one.change != "both":
        return f"{one.code} is {one.change}"
    if one.ms_a is None or one.ms_b is None:
        return one.code
    return f"{one.code}: {ms(one.ms_a)} -> {ms(one.ms_b)} ms"
