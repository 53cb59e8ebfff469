"""What the feeds of a run missed -> what its rows say of it: no cause is made of a time without packets."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

from nfslat.decode.capture import Source
from nfslat.live.sources.feed import Feed, Gap
from nfslat.live.watch import Stretch
from nfslat.model.units import NS_PER_S

# What was under way when packets came again has its beginning in the gap.
_AFTER_NS = 2 * NS_PER_S


class Speaker:
    """Tells the user; to whom that is left may change."""

    def __init__(self, to: Callable[[str], None]) -> None:
        """At first."""
        self.to = to

    def __call__(self, text: str) -> None:
        """A line."""
        self.to(text)


class Feeds:
    """Of one side or two: what the decoder reads, and what is known of it."""

    def __init__(self, feeds: Mapping[str, Feed], close: Callable[[], None], plain: Sequence[str] = ()) -> None:
        """`close` ends what writes into them. `plain`: captures that are read as they are, in place of any."""
        self._feeds, self._close, self._plain = feeds, close, list(plain)
        self.speaker = Speaker(lambda _: None)
        for feed in feeds.values():
            feed.when_failed = self._end
        if any(feed.failed is not None for feed in feeds.values()):
            self._end()
        self._dropped = dict.fromkeys(feeds, 0)  # as the last row said it

    @property
    def paths(self) -> list[str]:
        """The server's, then the client's."""
        return self._plain or [feed.path for feed in self._feeds.values()]

    def named(self, sources: Sequence[Source]) -> list[Source]:
        """These, opened, with names for people in place of pipes."""
        names = {feed.path: feed.name for feed in self._feeds.values()}
        return [_named(one, names.get(one.name, one.name)) for one in sources]

    def told(self, stretch: Stretch) -> Stretch:
        """With what was missed meanwhile."""
        row = stretch.row
        known = {side: feed for side, feed in self._feeds.items() if feed.dropped is not None}
        dropped = {side: (feed.dropped or 0) - self._dropped[side] for side, feed in known.items()}
        self._dropped |= {side: feed.dropped or 0 for side, feed in known.items()}
        percents = [feed.cpu_percent for feed in self._feeds.values() if feed.cpu_percent is not None]
        row = dataclasses.replace(
            row,
            dropped=sum(dropped.values()) if known else None,
            capture_cpu_percent=max(percents, default=None),
        )
        for side, feed in self._feeds.items():
            later_ns = stretch.pair.later_ns if side == "server" else 0
            gap = _gap_in(feed, stretch.pair.begin_ns - later_ns, stretch.pair.end_ns - later_ns)
            if gap is not None:
                why = gap.why.rstrip(".")
                text = f"A time without packets of {feed.name}: {why}. Nothing is judged."
                row = dataclasses.replace(
                    row, outcome="undecided", layer=None, cause=None, confidence="low", gap=side, text=text
                )
                return dataclasses.replace(stretch, row=row, report=None)
        return dataclasses.replace(stretch, row=row)

    def _end(self) -> None:
        """One has failed: with the others alone there would be no more stretches, or none that tell."""
        for feed in self._feeds.values():
            feed.end()

    def refuse_failed(self) -> None:
        """Raise the ``NfslatError`` with which a feed ended, where one did."""
        for feed in self._feeds.values():
            if feed.failed is not None:
                raise feed.failed

    def close(self) -> None:
        """Nothing is captured any more."""
        self._close()


def _named(source: Source, name: str) -> Source:
    return dataclasses.replace(
        source, name=name, files=tuple(dataclasses.replace(file, name=name) for file in source.files)
    )


def _gap_in(feed: Feed, begin_ns: int, end_ns: int) -> Gap | None:
    for gap in tuple(feed.gaps):
        if gap.begin_ns < end_ns and (gap.end_ns is None or gap.end_ns + _AFTER_NS > begin_ns):
            return gap
    return None
