"""Two runs -> what changed, which is the better baseline, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nfslat import __version__
from nfslat.answer.words import ms, percent
from nfslat.diff import judge
from nfslat.diff.model import Setting
from nfslat.diff.tcp.figures import figures, is_change, signed
from nfslat.diff.tcp.model import SCHEMA, Conversation, Figure, SizeMode, TransportDiff, TransportVerdict
from nfslat.diff.tcp.read import Run
from nfslat.report.text_layout import count, count_of
from nfslat.tcp.charts.sizes import explained
from nfslat.tcp.model import Detail
from nfslat.tcp.sizes import WaySizes

_OFTEN = 0.05  # of the packets: a size that is rarer in both is not shown
_WHOLE = ("turns", "round trip", "rate with data to send")  # of all that the conversation does
_WHY = {
    "drift": "the two drift as much by themselves",
    "chance": "of so many figures one may differ so by chance",
}
_NOTHING = (("no SQL*Net", "no SQL*Net"), ("none seen", "none seen"), ("not known", "not known"))
_ALSO = 3  # other changes in the answer; the table has all


def compare(a: Run, b: Run) -> TransportDiff:
    """B against A."""
    turned = is_turned(a.detail, b.detail)
    found = figures(a.detail, b.detail, turned=turned)
    of = verdict(found)
    return TransportDiff(
        schema=SCHEMA,
        nfslat=__version__,
        a=_conversation(a, turned=False),
        b=_conversation(b, turned=turned),
        verdict=of,
        figures=found,
        sizes=list(_sizes(a.detail, b.detail, turned)),
        settings=_settings(a.detail, b.detail, turned),
        notes=list(_notes(a, b, found, turned, of.change)),
    )


def is_turned(a: Detail, b: Detail) -> bool:
    """Are the endpoints of B the other way round? By addresses, by ports, else by who sent more."""

    def alike(turned: bool) -> tuple[int, int, bool]:
        pairs = list(zip((a.a, a.b), (b.b, b.a) if turned else (b.a, b.b), strict=True))
        hosts = sum(x.rpartition(":")[0] == y.rpartition(":")[0] for x, y in pairs)
        ports = sum(x.rpartition(":")[2] == y.rpartition(":")[2] for x, y in pairs)
        sent = [[way.bytes for way in one.counts] for one in (a, b)]
        return hosts, ports, (sent[0][0] > sent[0][1]) == ((sent[1][0] > sent[1][1]) != turned)

    return alike(turned=True) > alike(turned=False)


def _conversation(run: Run, *, turned: bool) -> Conversation:
    one = run.detail
    ends = (one.b, one.a) if turned else (one.a, one.b)
    sent = [way.bytes for way in one.counts]
    return Conversation(
        name=run.name,
        kind=run.kind,
        a=ends[0],
        b=ends[1],
        begin=one.begin,
        duration_s=one.duration_s,
        packets=sum(way.packets for way in one.counts),
        bytes=(sent[turned], sent[not turned]),
        others=run.others,
    )


def verdict(found: Sequence[Figure]) -> TransportVerdict:
    """What speaks leads, in the order of the figures: turns before rates, rates before single round trips."""
    speak = [one for one in found if one.speaks]
    moved = [one for one in speak if is_change(one.change)]
    if moved:
        worse = [one for one in moved if signed(one) > 0]
        if worse and len(worse) < len(moved) and moved[0].name != "turns":
            text = f"B is slower in part and faster in part: {said(worse[0])}, but {said(_first(moved, worse))}."
            return TransportVerdict("mixed", None, text)
        change, better = ("slower", "A") if signed(moved[0]) > 0 else ("faster", "B")
        own = [one for one in moved if (signed(one) > 0) == (change == "slower")]
        # Of waits and losses alone it is not known how long anything took.
        word = change if own[0].name in _WHOLE else {"slower": "worse", "faster": "better"}[change]
        text = f"B is {word}: {said(own[0])}. {better} is the better baseline.{_also(own[0], found)}"
        return TransportVerdict(change, better, text)
    known = [one for one in speak if one.change.p is not None]
    if not known:
        text = "Whether anything changed cannot be told: too few turns, round trips or data in one of the two."
        return TransportVerdict("unknown", None, text)
    held = [(one, why) for one in speak if (why := judge.held_back(one.change)) is not None]
    if held:
        first, why = held[0]
        word = "slower" if signed(first) > 0 else "faster"
        return TransportVerdict("unknown", None, f"B may be {word}: {said(first)}, but {_WHY[why]}.")
    certain = [one for one in speak if one.change.certain]
    if certain:
        return TransportVerdict("not relevant", None, f"No relevant change: {said(certain[0])}, too small to matter.")
    text = f"No difference beyond chance: {said(known[0])}."
    if known[0].name not in _WHOLE:
        text = "No difference beyond chance in what TCP made its senders wait for and retransmit."
    return TransportVerdict("none", None, text)


def _first(moved: Sequence[Figure], worse: Sequence[Figure]) -> Figure:
    return next(one for one in moved if one not in worse)


def _also(first: Figure, found: Sequence[Figure]) -> str:
    """What else changed for certain: what explains it."""
    others = [one for one in found if one is not first and is_change(one.change)]
    # Waits before what only describes.
    others.sort(key=lambda one: (not one.speaks, not one.name.startswith("wait ")))
    return f" Also: {'; '.join(said(one, interval=False) for one in others[:_ALSO])}." if others else ""


def said(one: Figure, *, interval: bool = True) -> str:
    """``turns 2.00 -> 42.1 ms (+40.1, 95 % CI 39.8 to 40.4)``."""
    change, of = one.change, f" from {one.of}" if one.of else ""
    text = f"{one.name}{of} {number(change.a, one.unit)} -> {number(change.b, one.unit)} {one.unit}"
    if not interval:
        return text
    inside = difference(one)
    if change.low is not None and change.high is not None:
        inside += f", 95 % CI {number(change.low, one.unit)} to {number(change.high, one.unit)}"
    return f"{text} ({inside})"


def difference(one: Figure) -> str:
    """With its sign; what rounds to nothing has none."""
    text = number(abs(one.change.difference), one.unit)
    sign = "" if not text.strip("0.") else "+" if one.change.difference > 0 else "-"
    return sign + text


def number(value: float, unit: str) -> str:
    """With the digits that go with its unit."""
    if unit == "bytes":
        return count(round(value))
    return ms(value) if unit in ("ms", "ms/s") else f"{value:.3g}"


def _way(one: Detail, at: int, turned: bool) -> WaySizes:
    return one.sizes.ways[1 - at if turned else at]


def _sizes(a: Detail, b: Detail, turned: bool) -> Iterator[SizeMode]:
    for at in (0, 1):
        ways = _way(a, at, False), _way(b, at, turned)
        shares = [{mode.bytes: mode.share for mode in way.modes} for way in ways]
        for size in sorted({*shares[0], *shares[1]}, reverse=True):
            x, y = (of.get(size, 0.0) for of in shares)
            if max(x, y) >= _OFTEN:
                what = explained(a, ways[0], size) or explained(b, ways[1], size)
                yield SizeMode(ways[0].sender, size, x, y, what)


def _settings(a: Detail, b: Detail, turned: bool) -> list[Setting]:
    """What both agreed on, and what was seen of it."""
    pairs: list[tuple[str, str, str]] = []
    for at in (0, 1):
        other = 1 - at if turned else at
        x, y = a.waits.windows[at], b.waits.windows[other]
        pairs += [
            (f"window scale of {x.receiver}", _known(x.scale), _known(y.scale)),
            (f"window of {x.receiver}, typical", _known(x.window_typical_bytes), _known(y.window_typical_bytes)),
            (f"full segment from {x.sender}", _known(x.mss), _known(y.mss)),
            (f"delayed-ACK timer of {x.receiver}", _timers(a, at), _timers(b, other)),
        ]
    sdu, other_sdu = (_known(one.sqlnet.sdu_bytes) if one.sqlnet is not None else "no SQL*Net" for one in (a, b))
    pairs += [("SDU of SQL*Net", sdu, other_sdu), ("how they talk", a.turns.shape.value, b.turns.shape.value)]
    return [Setting(*pair) for pair in pairs if pair[1:] not in _NOTHING]


def _known(value: int | None) -> str:
    return "not known" if value is None else count(value)


def _timers(one: Detail, at: int) -> str:
    timers = [f"{late.timer_ms} ms ({count(late.count)})" for late in one.waits.rounds[at].delayed if late.timer_ms]
    return ", ".join(timers) or "none seen"


def _notes(a: Run, b: Run, found: Sequence[Figure], turned: bool, change: str) -> Iterator[str]:
    for name, run in (("A", a), ("B", b)):
        if run.others:
            more = count_of(run.others, "more conversation")
            yield f"{name} has {more}; the one with most packets is compared"
    x, y = a.detail, b.detail
    ends = (y.b, y.a) if turned else (y.a, y.b)
    if [end.rpartition(":")[0] for end in ends] != [end.rpartition(":")[0] for end in (x.a, x.b)]:
        yield "the two are between different hosts: a path of another length is a difference, too"
    if x.waits.place is not y.waits.place:
        yield f"captured at different places ({x.waits.place.value}, {y.waits.place.value}): round trips are not alike"
    rates = [one for one in found if one.name in ("rate", "turns per second") and is_change(one.change)]
    # What is slower does less: that is no other load. More is.
    if rates and not (change == "slower" and rates[0].change.difference < 0):
        yield f"another load: {said(rates[0], interval=False)}"
    worst = max(_repeated(one) for one in (x, y))
    if worst >= _OFTEN:
        yield f"up to {percent(worst)} of the packets with data are retransmissions: round trips are of the others"


def _repeated(one: Detail) -> float:
    """Share of the packets with data."""
    packets = sum(way.data_packets for way in one.counts)
    return sum(way.retransmissions for way in one.counts) / packets if packets else 0.0
