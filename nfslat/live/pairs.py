"""Two captures in windows -> the ops that ended in each window of the client's clock, matched with the server's.

The server's windows are read on until they hold what the client's ops were answered with; what is left of them waits
for the next windows of the client. By how much the two clocks differ is learned from the ops, and may change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field

from nfslat import pipeline
from nfslat.decode.capture import Source
from nfslat.decode.in_line import in_line, parted
from nfslat.decode.windows import Window
from nfslat.errors import InputError
from nfslat.match.match import Matching, match
from nfslat.model.decoded import Decoded
from nfslat.model.tables import Matched, Miss, Ops
from nfslat.model.units import NS_PER_S
from nfslat.results import Correlation, Side
from nfslat.select import Filters

# An op of the server's that has no partner after so long has none: by then TCP has given up, or the client's capture
# lacks it.
_HELD_NS = 60 * NS_PER_S
_LATE_NS = NS_PER_S  # an op of the client's that ended so shortly before a window does may be in the server's next one
_TRIED = 60  # windows without any op in common, from the beginning
_MOST_HELD = 20_000_000  # ops


@dataclass(frozen=True)
class Pair:
    """A window of the client's clock. `found` is None where it has no op that the server's capture has, too."""

    begin_ns: int
    end_ns: int
    client: Decoded
    found: Correlation | None
    unmatched: int  # of the server's ops, those that were given up meanwhile


@dataclass
class _Reader:
    source: Source
    windows: Iterator[Window]
    held: list[Decoded] = field(default_factory=list)
    end_ns: int | None = None  # all that ended before was read; None: nothing so far
    is_over: bool = False

    def read(self) -> Window | None:
        """One window more."""
        window = next(self.windows, None)
        if window is None:
            self.is_over = True
            return None
        self.held.append(window.decoded)
        self.end_ns = window.end_ns
        return window

    def read_to(self, end_ns: int) -> None:
        """All that ended before."""
        while not self.is_over and (self.end_ns is None or self.end_ns < end_ns):
            self.read()
            _refuse_too_much(self.held)

    def joined(self) -> Decoded:
        """What is held as one table, which it stays."""
        self.held = [in_line(self.held)]
        return self.held[0]


def pairs(server: tuple[Source, Iterator[Window]], client: tuple[Source, Iterator[Window]], srt: str) -> Iterator[Pair]:
    """Each window of the client's clock, as soon as both captures have it; the first one may be longer.

    Raises ``InputError`` where the two have nothing in common for long.
    """
    of_server, of_client = _Reader(*server), _Reader(*client)
    later_ns, begin_ns, end_ns, tried = None, None, 0, 0  # nothing is known of the clocks
    while (window := of_client.read()) is not None:
        begin_ns = window.begin_ns if begin_ns is None else min(begin_ns, window.begin_ns)  # clocks are set back
        if later_ns is None:
            of_server.read()  # as much of either: they are about of one time
            later_ns = _first_later_ns(of_server, of_client)
        if later_ns is None:
            tried += 1
            if tried >= _TRIED and any(len(one.ops) for one in of_client.held):
                raise _nothing_in_common(of_client.source, tried)
            continue
        of_server.read_to(window.end_ns - later_ns)
        pair = _pair(of_server, of_client, (begin_ns, window.end_ns), later_ns, srt)
        if pair.found is not None:
            both = pair.found.server.ops, pair.found.client.ops
            later_ns = _later_ns(*both, pair.found.matching.matched) or later_ns
        yield pair
        begin_ns, end_ns = None, window.end_ns
    if not any(len(one.ops) for one in of_client.held):
        return
    if later_ns is None:
        raise _nothing_in_common(of_client.source, tried)
    while not of_server.is_over:
        of_server.read()
    yield _pair(of_server, of_client, (end_ns - _LATE_NS, end_ns), later_ns, srt)


def _nothing_in_common(client: Source, tried: int) -> InputError:
    return InputError(
        f"no operation of its first {tried} windows is in the server's capture; were both taken at the same time, of "
        "the same traffic?",
        about=client.name,
    )


def _first_later_ns(server: _Reader, client: _Reader) -> int | None:
    if not (server.held and client.held):
        return None
    other, own = server.joined(), client.joined()
    return _later_ns(other.ops, own.ops, _matching(other, own).matched)


def _matching(server: Decoded, client: Decoded) -> Matching:
    ran = [[(one.first_ns, one.last_ns)] for one in (server, client)]
    return match(server.ops, client.ops, ran[0], ran[1], (server.details.tcp, client.details.tcp))


def _pair(server: _Reader, client: _Reader, window_ns: tuple[int, int], later_ns: int, srt: str) -> Pair:
    """What ended in a window; of either side what may have its partner in the next one is held."""
    end_ns = window_ns[1]
    own = client.joined()
    if not server.held:
        client.held = []
        return Pair(*window_ns, own, None, 0)
    other = server.joined()
    first = _matching(other, own)
    comes = (first.unmatched.client != Miss.MATCHED) & (own.ops.t3 >= end_ns - _LATE_NS) & (not server.is_over)
    own, later = parted(own, ~comes, end_ns)
    until_ns = end_ns - later_ns
    fates = first.unmatched.server
    # What the server did for others takes its threads, too.
    goes = (fates == Miss.MATCHED) | ((fates == Miss.CONNECTION_UNMATCHED) & (other.ops.t3 < until_ns))
    now, rest = parted(other, goes, until_ns)
    vain = rest.ops.t3 < until_ns - _HELD_NS
    server.held = [parted(rest, ~vain)[0] if vain.any() else rest]
    client.held = [later]
    found = None
    if len(first.matched):
        sides = [_side(reader.source, one) for reader, one in ((server, now), (client, own))]
        found = pipeline.compare(*sides, filters=Filters(), srt=srt, may_swap=False)
    return Pair(*window_ns, own, found, int(vain.sum()))


def _side(source: Source, decoded: Decoded) -> Side:
    """As if the capture had run for the time of these packets."""
    file = dataclasses.replace(source.files[0], first_ns=decoded.first_ns, last_ns=decoded.last_ns)
    return pipeline.side_of(dataclasses.replace(source, files=(file,)), decoded)


def _later_ns(server: Ops, client: Ops, matched: Matched) -> int | None:
    """The client's clock minus the server's, and the least that a reply takes; None where no op is in both."""
    return int((client.t3[matched.client] - server.t3[matched.server]).min()) if len(matched) else None


def _refuse_too_much(held: list[Decoded]) -> None:
    if sum(len(one.ops) for one in held) > _MOST_HELD:
        raise InputError(
            f"the server's capture runs {_MOST_HELD:,} operations ahead of the client's: begin both at the same time"
        )
