"""Round trips, delayed ACKs and packets that were held -> a section of the report."""

from __future__ import annotations

from collections.abc import Iterator

from nfslat.answer.words import ms, percent
from nfslat.clock.tick import bears_means
from nfslat.report.blocks import Block, Gap, Prose, Title
from nfslat.report.columns import Column, columns, table
from nfslat.report.text_layout import count, count_of, duration
from nfslat.tcp.floors import Place
from nfslat.tcp.rounds import DelayedAcks, HeldBack, Rounds
from nfslat.tcp.setup import Setup
from nfslat.tcp.waits import Waits

_TIMERS = {40: "Linux", 50: "Solaris", 100: "Solaris", 200: "Windows or BSD", 500: "the most that RFC 1122 allows"}
_SHOWN = 3  # episodes of held packets


def rounds_section(found: Waits, tick_ms: float | None = None) -> Iterator[Block]:
    """How long the connection took to set up, and data to be acknowledged, and what that cost; nothing of single round
    trips where the stamps tick too slowly."""
    if found.setup is not None and found.setup.is_repeated:
        yield Title("Connection set-up")
        yield Prose(_setup(found.setup, found.rounds[found.setup.opener].sender), hanging=2, style="bold")
    with_data = [one for one in found.rounds if one.trips is not None or one.delayed or one.held]
    if not with_data:
        return
    yield Title("Round trips (data to the ACK that covers it)")
    trips_of = [one.trips for one in with_data if one.trips is not None]
    if tick_ms is not None and any(bears_means(tick_ms, trips.mean_ms) for trips in trips_of):
        yield Prose(f"Stamps that tick every {tick_ms:g} ms do not tell them, nor where the capture was taken.")
        return
    delayed = [one for one in with_data if one.delayed]
    for one in delayed:
        yield Prose(_delayed_answer(one), hanging=2, style="bold" if one.delayed_lost_ms else "")
    for one in with_data:
        if one.held:
            yield Prose(_held_answer(one), hanging=2)
    if not delayed and not any(one.held for one in with_data):
        yield Prose("No ACK was delayed by a timer, and no packets were held back.")
    yield Gap()
    if trips_of:
        yield table([one for one in with_data if one.trips is not None], _TRIPS)
        yield Prose(_where(found), style="dim")
    repaired = [f"{count(one.repaired)} from {one.sender}" for one in with_data if one.repaired]
    if repaired:
        yield Prose(
            f"Without retransmitted packets and those whose ACK waited for one: {', '.join(repaired)}. Their round "
            "trips say nothing about the path (Karn's algorithm).",
            style="dim",
        )
    costly = [(one, cluster) for one in delayed for cluster in one.delayed if cluster.waited_for]
    if costly:
        yield Gap()
        yield table(costly, _DELAYED)
        for _, cluster in costly:
            yield Prose(
                f"{_timer(cluster)}, waited for: {_frames(cluster.waited_for, cluster.waited_frames)}.", hanging=2
            )


def _setup(one: Setup, opener: str) -> str:
    took = "It was not answered" if one.ms is None else f"It took {duration(one.ms)}"
    frames = ", ".join(str(frame) for frame in one.frames)
    return (
        f"{took}: {opener} sent {count_of(one.syns, 'SYN')} (frames {frames}), {duration(one.waited_ms)} from the "
        f"first to the last; {count_of(one.syn_acks, 'answer')}. What is lost there is retransmitted after a second, "
        "then two, four ..."
    )


def _delayed_answer(one: Rounds) -> str:
    waited = sum(cluster.waited_for for cluster in one.delayed)
    if not waited:
        which = "; ".join(f"{_timer(cluster)}: {_frames(cluster.count, cluster.frames)}" for cluster in one.delayed)
        return (
            f"{one.receiver} sent {count_of(one.delayed_count, 'ACK')} late, by a timer, at no cost: {one.sender} had "
            f"nothing that waited for {'it' if one.delayed_count == 1 else 'them'} ({which})."
        )
    worst = max(one.delayed, key=lambda cluster: cluster.lost_ms)
    about = f"about {worst.timer_ms} ms" if worst.timer_ms is not None else f"{ms(worst.median_ms)} ms"
    idle = one.delayed_count - waited
    beside = f" {count(idle)} more cost nothing." if idle else ""
    return (
        f"Delayed ACKs cost {one.sender} {duration(one.delayed_lost_ms)}, {percent(one.delayed_share)} of the run: "
        f"it was stalled for {count_of(waited, 'ACK')} that {one.receiver} held back, most of them for "
        f"{about}.{beside}"
    )


def _held_answer(one: Rounds) -> str:
    worst = sorted(one.held, key=lambda episode: -episode.peak_ms)[:_SHOWN]
    share = percent(one.held_ms / one.total_ms if one.total_ms else None)
    return (
        f"Packets from {one.sender}, or their ACKs, were held back and released together {times(one.held_count)}, "
        f"{ms(one.held_ms)} ms in all, {share} of the run: round trips jump, then fall linearly. A host, an adapter, "
        f"a hypervisor or a firewall stalled. The longest: {'; '.join(_episode(episode) for episode in worst)}."
    )


def times(number: int) -> str:
    """``once``, ``1,000 times``."""
    return "once" if number == 1 else f"{count(number)} times"


def _episode(episode: HeldBack) -> str:
    return (
        f"{ms(episode.peak_ms)} ms at {ms(episode.at_ms)} ms (frame {episode.frame}, {count(episode.packets)} packets, "
        f"slope {episode.slope:.2f})"
    )


def _where(found: Waits) -> str:
    if found.place is Place.BOTH_ENDS:
        return "Two captures: each direction is judged by the one from its sender's end."
    place = {
        Place.AT_A: f"at {found.rounds[0].sender}, or near it",
        Place.AT_B: f"at {found.rounds[1].sender}, or near it",
        Place.BETWEEN: "between the two",
        Place.UNKNOWN: "at a point that it does not reveal",
    }[found.place]
    ways = [
        f"{ms(way)} ms to {name} and back"
        for way, name in ((found.to_a_ms, found.rounds[0].sender), (found.to_b_ms, found.rounds[1].sender))
        if way is not None
    ]
    return (
        f"The capture appears to be taken {place}; the shortest round trips from there: "
        f"{', '.join(ways) or 'not known'}."
    )


_TRIPS = (
    *(*columns("text", "sender data from, ms"), *columns("count", "trips.count samples")),
    *columns("ms", *(f"trips.{name}_ms {name}" for name in ("min", "p50", "p95", "p99", "max"))),
)
_DELAYED = (
    *columns("text", "0.sender delayed ACKs for"),
    Column("timer", lambda row: "other" if row[1].timer_ms is None else f"{row[1].timer_ms} ms", "right"),
    *columns("count", "1.count ACKs", "1.waited_for waited for"),
    *(*columns("ms", "1.median_ms median", "1.lost_ms lost ms"), *columns("share", "1.share of run")),
)


def _timer(cluster: DelayedAcks) -> str:
    return "no known timer" if cluster.timer_ms is None else f"{cluster.timer_ms} ms, {_TIMERS[cluster.timer_ms]}"


def _frames(total: int, frames: tuple[int, ...]) -> str:
    more = f" and {count(total - len(frames))} more" if total > len(frames) else ""
    return f"frame{'s' if total > 1 else ''} {', '.join(str(frame) for frame in frames)}{more}"
