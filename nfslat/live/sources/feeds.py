"""What the feeds of a run missed -> what its rows say of it: no cause is made of a time without packets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from msgspec import structs

from nfslat.decode.capture import Source
from nfslat.live.sources.feed import Feed, Gap
from nfslat.live.watch import Stretch
from nfslat.model.units import NS_PER_S

_AFTER_GAP_NS = 2 * NS_PER_S  # what was under way when packets came again has its beginning in the gap
_SERVER = "server"
# The share of packets, dropped by the kernel, above which the rest passed for healthy where these alone showed a fault.
_MOST_DROPPED = 0.05


class Speaker:
    """Gives lines to the user; who takes them may change."""

    def __init__(self, to: Callable[[str], None]) -> None:
        self.to = to

    def __call__(self, text: str) -> None:
        """Say a line."""
        self.to(text)


class View:
    """What is judged together: one host, or a client with its server; and what was missed of it."""

    def __init__(
        self, feeds: Mapping[str, Feed], paths: Sequence[str], names: Sequence[str] = (), client: str | None = None
    ) -> None:
        """`feeds`: by side, where packets come by them. `paths`, and `names` for people: the server's, then the
        client's; `client`: which one it is, where there are several."""
        self.paths, self.client = list(paths), client
        self._feeds, self._names = feeds, list(names) or self.paths
        self._dropped = dict.fromkeys(feeds, 0)  # as the last row said it
        self._came = dict.fromkeys(feeds, 0)  # packets, by then
        self.name = " and ".join(self._names)  # for people

    def named(self, sources: Sequence[Source]) -> list[Source]:
        """These, opened, with names for people in place of pipes."""
        return [_named(source, name) for source, name in zip(sources, self._names, strict=True)]

    def judged(self, stretch: Stretch) -> Stretch:
        """With what was missed meanwhile."""
        known = {side: feed for side, feed in self._feeds.items() if feed.dropped is not None}
        dropped = {side: (feed.dropped or 0) - self._dropped[side] for side, feed in known.items()}
        self._dropped |= {side: feed.dropped or 0 for side, feed in known.items()}
        shares = [(self._dropped_share(feed, dropped[side], side), feed.name) for side, feed in known.items()]
        percents = [feed.cpu_percent for feed in self._feeds.values() if feed.cpu_percent is not None]
        row = structs.replace(
            stretch.row,
            client=self.client,
            dropped=sum(dropped.values()) if known else None,
            capture_cpu_percent=max(percents, default=None),
        )
        for side, feed in self._feeds.items():
            later_ns = stretch.pair.later_ns if side == _SERVER else 0
            gap = _gap_in(feed, stretch.pair.begin_ns - later_ns, stretch.pair.end_ns - later_ns)
            if gap is not None:
                why = gap.why.rstrip(".")
                row = row.undecided(f"A time without packets of {feed.name}: {why}. Nothing is judged.")
                return dataclasses.replace(stretch, row=dataclasses.replace(row, gap=side), report=None)
        share, name = max(shares, default=(0.0, ""))
        if share > _MOST_DROPPED and row.outcome == "no-fault":
            row = row.undecided(
                f"The kernel of {name} dropped {share:.0%} of the packets: what they would show is not known. The "
                "others show no fault."
            )
        return dataclasses.replace(stretch, row=row)

    def _dropped_share(self, feed: Feed, dropped: int, side: str) -> float:
        """The share of its packets that was dropped since the last row, or when that was asked for last."""
        came, self._came[side] = feed.splice.packets - self._came[side], feed.splice.packets
        return max(dropped / max(came + dropped, 1), feed.dropped_share)


class Feeds:
    """The views and feeds of a run."""

    def __init__(
        self,
        views: Sequence[View],
        feeds: Sequence[Feed] = (),
        close: Callable[[], None] = lambda: None,
        speaker: Speaker | None = None,
    ) -> None:
        """`close` ends what writes into the feeds; what has to be said of them goes through the speaker."""
        self.views, self.close = views, close
        self.speaker = speaker or Speaker(lambda _: None)
        self._feeds = feeds
        for feed in feeds:
            feed.when_failed = self._end
        if any(feed.failed is not None for feed in feeds):
            self._end()

    def _end(self) -> None:
        """One has failed: with the others alone there would be no more stretches, or none that tell."""
        for feed in self._feeds:
            feed.end()

    def refuse_failed(self) -> None:
        """Raise the ``NfslatError`` with which a feed ended, where one did."""
        for feed in self._feeds:
            if feed.failed is not None:
                raise feed.failed


def views_of(feeds: Mapping[str, Feed], clients: Mapping[str, str]) -> list[View]:
    """Views of hosts by side: the server's feed is read with each client's. `clients`: what rows call them."""
    if not clients:
        return [View(feeds, [feed.paths[0] for feed in feeds.values()], [feed.name for feed in feeds.values()])]
    views = []
    for number, (side, client) in enumerate(clients.items()):
        by_side = {_SERVER: feeds[_SERVER]} if _SERVER in feeds else {}
        by_side["client"] = feeds[side]
        paths = [feed.paths[number if name == _SERVER else 0] for name, feed in by_side.items()]
        names = [feed.name for feed in by_side.values()]
        views.append(View(by_side, paths, names, client if len(clients) > 1 else None))
    return views


def _named(source: Source, name: str) -> Source:
    return structs.replace(source, name=name, files=tuple(structs.replace(file, name=name) for file in source.files))


def _gap_in(feed: Feed, begin_ns: int, end_ns: int) -> Gap | None:
    for gap in tuple(feed.gaps):
        if gap.begin_ns < end_ns and (gap.end_ns is None or gap.end_ns + _AFTER_GAP_NS > begin_ns):
            return gap
    return None
