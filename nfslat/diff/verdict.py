"""What changed -> one sentence that says whether B is slower, faster, or nothing shows that it is either, and why."""

from __future__ import annotations

from collections.abc import Sequence

from nfslat.diff import judge
from nfslat.diff.compare import Compared
from nfslat.diff.model import Change, FindingChange, Load, Mix, Part, Row, Verdict
from nfslat.diff.runs import LAYER_OF
from nfslat.report.text_layout import ms

_WHAT = {
    "call_send": "sending the call",
    "network": "the network",
    "call_net": "the network, on the way to the server,",
    "reply_net": "the network, on the way back,",
    "queue": "the wait for a server thread",
    "in_thread": "the server, in a thread,",
    "server": "the server",
    "reply_send": "sending the reply",
    "lost": "the wait for lost data",
    "overtaken": "the wait for data that were overtaken",
    "held": "packets held on the way, or by a host that paused,",
    "window": "the wait for room in the receiver's TCP window",
    "delayed_ack": "the wait for ACKs that were kept back",
    "bandwidth": "the wait for a path that carries no more",
    "congestion_window": "the wait for ACKs",
    "sender": "the silence of senders in the middle of a message",
    "head_of_line": "the wait behind other replies",
    "distance": "the distance",
}
# Findings that a part of the response time can be the work of, beyond those of its layer.
_OF_PART = {
    "queue": ("server-threads", "server-storage", "server-queue-unknown", "connection-cap"),
    "in_thread": ("server-storage", "server-threads", "server-queue-unknown"),
    "lost": ("net-loss",),
    "held": ("host-pause",),
    "window": ("zero-window",),
    "delayed_ack": ("delayed-ack",),
    "bandwidth": ("bandwidth",),
    "head_of_line": ("head-of-line",),
    "distance": ("net-delay",),
}


def verdict(compared: Compared, found: Sequence[FindingChange], method: str) -> Verdict:
    """The row that says most leads: the one that changed most, weighted with its ops."""
    rows, mix, load = compared.rows, compared.mix, compared.load
    judged = [row for row in rows if row.verdict in ("slower", "faster")]
    if judged:
        return _changed(judged, mix, found)
    held = [row for row in rows if row.verdict == "load"]
    if held:
        return _load(held, load)
    moved = _moved_part([*compared.parts, *compared.causes], mix, load)
    if moved is not None:
        return _part(moved, mix, found)
    tiny = [row for row in rows if row.verdict == "not relevant"]
    if tiny:
        row = max(tiny, key=_weight)
        text = f"No relevant change: {label(row)} {figures(row.mean)}, certain but too little to matter."
        return Verdict("not relevant", None, None, text)
    if mix.same_mix is None or not any(row.mean is not None and row.mean.p is not None for row in rows):
        same = "" if mix.same_mix is not None else " Nothing that A does a lot of does B do, too."
        return Verdict(
            "unknown", None, None, f"Whether anything changed cannot be told: too few ops of one kind.{same}"
        )
    if method == "summaries" and mix.same_mix.relevant:
        text = (
            f"Whether anything changed cannot be told from summaries: at the same mix of ops {figures(mix.same_mix)}. "
            "Captures of the two runs, or --csv files, tell more."
        )
        return Verdict("unknown", None, None, text)
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


def _changed(judged: Sequence[Row], mix: Mix, found: Sequence[FindingChange]) -> Verdict:
    verdicts = {row.verdict for row in judged}
    lead = max(judged, key=_weight)
    if len(verdicts) == 1:
        change = lead.verdict
    else:
        same = mix.same_mix
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
    part = _leading(lead.parts, slower)
    layer = cause = None
    if part is not None:
        layer = part.layer
        moved = _cause(part, found, slower)
        cause = None if moved is None else moved.code
        verb = "adds" if slower else "spares"
        text += f". {_capital(_WHAT[part.name])} {verb} {ms(abs(part.change.difference))} ms of it"
        if moved is not None:
            text += f" ({_moved(moved)})"
    text += "."
    limit = next(
        (
            one
            for one in found
            if one.change == ("new" if slower else "gone") and one.share_a is None and one.share_b is None
        ),
        None,
    )
    if limit is not None and limit.code != cause:
        where = "New in B" if slower else "Gone in B"
        text += f" {where}: {limit.code} ({limit.confidence}): {limit.text}."
    return Verdict(change, layer, cause, text)


def _leading(parts: Sequence[Part], slower: bool) -> Part | None:
    """The part that makes most of the change."""
    sign = 1 if slower else -1
    lead = max((one for one in parts if one.depth == 0), key=lambda one: sign * one.change.difference, default=None)
    return lead if lead is not None and sign * lead.change.difference > 0 else None


def _cause(part: Part, found: Sequence[FindingChange], slower: bool) -> FindingChange | None:
    """The finding of that part, else of its layer, that grew (or shrank) most."""
    sign = 1 if slower else -1

    def growth(one: FindingChange) -> float:
        return 0.0 if one.ms_a is None or one.ms_b is None else sign * (one.ms_b - one.ms_a)

    of_part = [one for one in found if one.code in _OF_PART.get(part.name, ()) and growth(one) > 0]
    of_layer = [one for one in found if one.layer == part.layer and growth(one) > 0]
    return max(of_part or of_layer, key=growth, default=None)


def _moved(one: FindingChange) -> str:
    if one.change != "both":
        return f"{one.code} is {one.change}"
    if one.ms_a is None or one.ms_b is None:
        return one.code
    return f"{one.code}: {ms(one.ms_a)} -> {ms(one.ms_b)} ms"


def _load(held: Sequence[Row], load: Load) -> Verdict:
    row = max(held, key=_weight)
    name, figure = _certain_figure(row)
    level, rate = load.in_flight, load.ops_per_s
    more = row.mean is not None and row.mean.difference > 0
    text = f"The load is another one, and nothing shows that the systems are {'slower' if more else 'faster'}"
    if level is not None and rate is not None:
        text += (
            f": a call meets {level.a:.1f} -> {level.b:.1f} calls in flight, and {rate.a:.0f} -> {rate.b:.0f} ops/s "
            f"are done. With {'more' if more else 'fewer'} in flight {label(row)} takes {name}{figures(figure)}"
        )
        same = row.same_in_flight
        if same is not None and row.in_flight_share:
            text += f"; with as many, {ms(same.a)} -> {ms(same.b)} ms ({row.in_flight_share * 100:.0f} % of the ops)"
    return Verdict("load", None, None, text + ".")


def _moved_part(parts: Sequence[Part], mix: Mix, load: Load) -> Part | None:
    """A part that changed for certain where the whole varies too much to tell."""
    whole = abs(mix.raw.a)
    found = [
        one
        for one in parts
        if one.change.certain
        and one.change.relevant
        and abs(one.change.difference) >= judge.RELEVANT * whole
        and not judge.by_load(load, slower=one.change.difference > 0)
    ]
    # Where a cause is as certain as the part that it lies in, it says more.
    named = [one for one in found if one.name in _OF_PART]
    return max(named or found, key=lambda one: abs(one.change.difference), default=None)


def _part(part: Part, mix: Mix, found: Sequence[FindingChange]) -> Verdict:
    slower = part.change.difference > 0
    cause = _cause(part, found, slower)
    text = (
        f"B is {'slower' if slower else 'faster'} in part: {_WHAT[part.name].rstrip(',')} takes {figures(part.change)}"
    )
    if cause is not None:
        text += f" ({_moved(cause)})"
    same = mix.same_mix
    if same is not None:
        text += f"; the whole response time, {figures(same)}, varies too much by itself to be evidence"
    return Verdict(
        "slower" if slower else "faster", LAYER_OF.get(part.name, "network"), cause.code if cause else None, text + "."
    )


def _no_evidence(mix: Mix, rows: Sequence[Row]) -> str:
    text = "No evidence of a change"
    same = mix.same_mix
    if same is None:
        return text + "."
    text += f": at the same mix of ops {figures(same)}"
    if same.p is not None and same.p < judge.CERTAIN and not same.steady:
        text += "; that is less than the runs drift by themselves"
    elif same.low is not None and same.high is not None and not same.low <= 0 <= same.high:
        text += "; among all the figures that were looked at, chance makes one like that too often"
    known = [row for row in rows if row.mean is not None and row.mean.p is not None]
    least = max(known, key=lambda row: row.count_a + row.count_b)
    if least.mean is not None and least.mean.low is not None and least.mean.high is not None and least.mean.a > 0:
        reach = (least.mean.high - least.mean.low) / 2 / least.mean.a
        text += f". By how much {label(least)} changed is known to +/- {reach * 100:.0f} %"
    return text + "."


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
