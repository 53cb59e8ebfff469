"""Two captures in windows -> the ops that ended in each window of the client's clock, matched with the server's.

The server's windows are read on until they hold what the client's ops were answered with; what is left of them waits
for the next windows of the client. By how much the two clocks differ is learned from the ops, and may change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from msgspec import structs

from nfslat.analyse import analyse
from nfslat.compare import compare, side_of
from nfslat.decode.capture import Source
from nfslat.decode.in_line import parted
from nfslat.decode.windows import Window
from nfslat.errors import InputError
from nfslat.findings.words import times
from nfslat.flow.alone import Lone
from nfslat.flow.gaps import Gapped, Gaps
from nfslat.flow.reader import Reader
from nfslat.match.match import Matching, match
from nfslat.model.decoded import Decoded
from nfslat.model.tables import Matched, Miss, Ops, State
from nfslat.model.units import NS_PER_S
from nfslat.results import Analysis, Correlation, Side
from nfslat.select import Filters

# An op of the server's that has no partner after so long has none: by then TCP has given up, or the client's capture
# lacks it.
_HELD_NS = 60 * NS_PER_S
_LATE_NS = NS_PER_S  # an op of the client's that ended so shortly before a window does may be in the server's next one
_AHEAD_NS = 600 * NS_PER_S  # between two windows: more is no pause, but a clock that was set
_EVER_NS = 1 << 62
_MOST_LEAD_NS = _HELD_NS // 2
_DOUBLINGS = 16  # of the shortest window, 1 ms: as much as that
_TRIED = 60  # windows without any op in common, from the beginning
_MOST_HELD = 20_000_000  # ops


@dataclass(frozen=True)
class Pair:
    """A window of the client's clock. `found` is None where it has no op that the server's capture has, too; else
    `analysis` is that of what began in it, with what the windows before tell of it."""

    begin_ns: int
    end_ns: int
    client: Decoded
    found: Correlation | None
    later_ns: int = 0  # about so much later the client's clock is than the server's
    lone: Lone = field(default_factory=Lone)  # of the server's ops, those that were given up meanwhile
    given_up: tuple[Ops, ...] = ()  # the same one by one, where ops are selected by time
    filters: Filters = field(default_factory=Filters)  # with times on the client's clock
    # from when to when, client's clock, where nothing is found; None: not known
    server_ran_ns: tuple[int, int] | None = None
    # Of the server's ops, those that were called again, and whose partner the client's capture may still bring: its
    # decoder keeps such an op for as long as it may be answered once more.
    sent_again: int = 0
    analysis: Analysis | None = None
    is_rest: bool = False  # what was held when the captures ended: it may have no op of the client's


class Exchanged(Exception):
    """By their packets the captures were given client first."""


def pairs(
    server: Gapped, client: Gapped, srt: str, *, may_swap: bool = False, filters: Filters | None = None
) -> Iterator[Pair]:
    """Each window of the client's clock, as soon as both captures have it; the first one may be longer.

    Raises ``InputError`` where the two have nothing in common for long, and, if `may_swap`, `Exchanged`.
    """
    filters = filters or Filters()
    of_server, of_client = Reader(server), Reader(client)
    of_server.beside(of_client)
    of_client.beside(of_server)
    clocks = _Clocks(of_server, of_client)
    begin_ns, end_ns = None, 0
    while (window := of_client.read()) is not None:
        filters, end_ns = filters.since(of_client.first_ns or 0), window.end_ns
        begin_ns = window.begin_ns if begin_ns is None else min(begin_ns, window.begin_ns)  # clocks are set back
        later_ns = clocks.later_ns(window)
        del window  # what it holds is in two tables from now on
        if later_ns is not None:
            pair = _pair(of_server, of_client, (begin_ns, end_ns), later_ns, srt, filters, may_swap=may_swap)
            may_swap &= pair.found is None  # the first one tells
            clocks.learn(pair)
        elif clocks.are_met or not of_client.ops:
            pair = _unmatched(of_server, of_client, (begin_ns, end_ns), clocks.last_ns, filters)
        else:
            continue  # what follows may be in the server's capture, and bring this along
        begin_ns = None
        yield _analysed(pair, server.gaps, client.gaps)
        del pair  # before the next one is made
    if clocks.last_ns is None and not of_client.ops:
        return
    if clocks.last_ns is None:
        raise _nothing_in_common(of_client.source, clocks.tried)
    of_server.read_to(end_ns - clocks.last_ns + _LATE_NS, _HELD_NS)
    of_server.is_over = True
    of_client.is_over = True
    rest = _pair(of_server, of_client, (end_ns - _LATE_NS, end_ns), clocks.last_ns, srt, filters, may_swap=may_swap)
    if len(rest.client.ops) or rest.lone.ops:
        yield dataclasses.replace(_analysed(rest, server.gaps, client.gaps), is_rest=True)


def _analysed(pair: Pair, *gaps: Gaps) -> Pair:
    """With its analysis; `gaps` of the server's capture and the client's are told."""
    if pair.found is None:
        return pair
    begins_ns = pair.begin_ns - pair.later_ns, pair.begin_ns
    sides = [_begun(side, ns) for side, ns in zip((pair.found.server, pair.found.client), begins_ns, strict=True)]
    told = [of.told(len(side.ops.connections)) for of, side in zip(gaps, sides, strict=True)]
    window = structs.replace(pair.found, server=sides[0], client=sides[1])
    c = analyse(window, missing={"server": told[0], "client": told[1]}, of_a_stretch=True)
    if pair.filters.leaves_out:  # it is no whole: nobody knows how much is hidden of what they leave
        c = dataclasses.replace(c, unseen=dict.fromkeys(c.unseen))
    return dataclasses.replace(pair, analysis=c)


def _begun(side: Side, begin_ns: int) -> Side:
    """As a capture that begins with the window: what was over before it is none of its, nor are calls that were sent
    before it and given up in it, which were missing in their own."""
    decoded = structs.replace(side.decoded, first_ns=max(side.decoded.first_ns, begin_ns))
    is_late = (decoded.loose.state == State.NO_REPLY) & (decoded.loose.first_ns < begin_ns)
    if is_late.any():
        loose, asked = decoded.loose.take(~is_late), decoded.details.unanswered
        unanswered = asked.take(np.isin(asked.frame, loose.first_frame))
        details = structs.replace(decoded.details, unanswered=unanswered)
        decoded = structs.replace(decoded, loose=loose, details=details)
    return structs.replace(side, decoded=decoded)


class _Clocks:
    """By how much the client's clock is later, with the least that a reply takes; learned from what both have."""

    def __init__(self, server: Reader, client: Reader) -> None:
        """Nothing is known."""
        self._server, self._client = server, client
        self.last_ns: int | None = None  # as it was known last
        self.tried = 0  # windows with ops, none of them in both
        self._seeks = True
        self._since: tuple[int, int] | None = None  # where the two were read from on

    @property
    def are_met(self) -> bool:
        """Was some op in both?"""
        return self.last_ns is not None

    def later_ns(self, window: Window) -> int | None:
        """None where it is not known; else the server is read as far as the window needs it."""
        if self.last_ns is None or self._seeks:
            return self._sought(window)
        need_ns = window.end_ns - self.last_ns
        if self._is_ahead(need_ns):
            self._server.read()  # it may have been idle, too
        if self._is_ahead(need_ns):
            self._seek(window.end_ns)
            return None
        self._server.read_to(need_ns, _held_ns(window))
        return self.last_ns

    def _is_ahead(self, need_ns: int) -> bool:
        """Of all that was read of the server, by more than a pause: a single packet may be dated so."""
        return self._server.end_ns is not None and need_ns - self._server.end_ns > _AHEAD_NS

    def _sought(self, window: Window) -> int | None:
        """As much of either is read: what ends at the same distance from the beginning is about of one time."""
        server, client = self._server, self._client
        if server.end_ns is None:
            server.read()
        if self._since is None:
            self._since = server.begin_ns or 0, client.begin_ns or 0
        if window.end_ns < self._since[1]:  # set back since
            self._since = server.end_ns or 0, window.begin_ns
        # Where a clock was set, the server is further behind with each window that passed since.
        lead_ns = 0
        if self.are_met:
            lead_ns = (window.end_ns - window.begin_ns) * (2 ** min(self.tried, _DOUBLINGS) - 1)
        need_ns = self._since[0] + window.end_ns - self._since[1] + min(lead_ns, _MOST_LEAD_NS)
        if self._is_ahead(need_ns):
            server.read()
        else:
            server.read_to(need_ns, _HELD_NS if self.are_met else _EVER_NS)
        if not client.ops:
            return None
        if server.held:
            other, own = server.joined(), client.joined()
            found = _later_ns(other.ops, own.ops, _matching(other, own).matched)
            if found is not None:
                self.last_ns, self._seeks = found, False
                if not self._is_ahead(window.end_ns - found):
                    server.read_to(window.end_ns - found, _held_ns(window))
                return found
        self.tried += 1
        if self.are_met:
            server.forget((server.end_ns or 0) - _HELD_NS)  # nothing may be in common any more
        if not self.are_met and self.tried >= _TRIED:
            raise _nothing_in_common(client.source, self.tried)
        if server.ops > _MOST_HELD:
            raise InputError(
                f"no operation of its first {server.ops:,} is in the client's capture", about=server.source.name
            )
        return None

    def learn(self, pair: Pair) -> None:
        """From a window; where it has ops and none is in both, a clock may have been set."""
        if pair.found is not None:
            both = pair.found.server.ops, pair.found.client.ops
            found = _later_ns(*both, pair.found.matching.matched)
            self.last_ns = self.last_ns if found is None else found
            self.tried = 0
        elif len(pair.client.ops):
            self._seek(pair.end_ns)

    def _seek(self, client_ns: int) -> None:
        """A clock may have been set: what both have is sought from here on, as at the beginning."""
        self._seeks = True
        self._since = self._server.end_ns or 0, client_ns


def _held_ns(window: Window) -> int:
    """Before its end; windows are longer where nothing came for long."""
    return _HELD_NS + window.end_ns - window.begin_ns


def _nothing_in_common(client: Source, tried: int) -> InputError:
    return InputError(
        f"no operation of its first {times(tried, 'window')} is in the server's capture; were both taken at the same "
        "time, of the same traffic?",
        about=client.name,
    )


def _matching(server: Decoded, client: Decoded) -> Matching:
    ran = [[(one.first_ns, one.last_ns)] for one in (server, client)]
    return match(server.ops, client.ops, ran[0], ran[1], (server.details.tcp, client.details.tcp))


def _pair(
    server: Reader,
    client: Reader,
    window_ns: tuple[int, int],
    later_ns: int,
    srt: str,
    filters: Filters,
    *,
    may_swap: bool,
) -> Pair:
    """What ended in a window; of either side what may have its partner in the next one is held."""
    if not server.held:
        return _unmatched(server, client, window_ns, later_ns, filters)
    end_ns = window_ns[1]
    left, server.dropped = server.dropped, []
    own, other = client.joined(), server.joined()
    client.held, server.held = [], []  # each table goes as soon as it is parted
    first = _matching(other, own)
    comes = (first.unmatched.client != Miss.MATCHED) & (own.ops.t3 >= end_ns - _LATE_NS) & (not server.is_over)
    own, later = parted(own, ~comes, end_ns)
    client.held = [later]
    until_ns = end_ns - later_ns
    fates = first.unmatched.server
    # What the server did for others takes its threads, too.
    goes = (fates == Miss.MATCHED) | ((fates == Miss.CONNECTION_UNMATCHED) & (other.ops.t3 < until_ns))
    now, rest = parted(other, goes, until_ns)
    del other
    vain = (rest.ops.t3 < until_ns - _HELD_NS) | client.is_over
    begin_ns = window_ns[0] - later_ns
    again = (rest.ops.transmissions > 1) & (rest.ops.t3 >= begin_ns) & (rest.ops.t3 < until_ns)
    sent_again = int(np.count_nonzero(again))
    if vain.any():
        left.append(rest.ops.take(vain))
        rest, _ = parted(rest, ~vain)
    server.held = [rest]
    is_met, found = len(first.matched) > 0, None
    del rest, first, fates  # to compare takes memory
    if is_met:
        sides = [_side(reader, one) for reader, one in ((server, now), (client, own))]
        found = compare(*sides, filters=filters, srt=srt, may_swap=may_swap)
        if found.swapped:
            raise Exchanged
    else:
        left.append(now.ops)
    pair = Pair(*window_ns, own, found, later_ns, sent_again=sent_again, filters=filters)
    return _with_lost(pair, server, client, left)


def _unmatched(
    server: Reader, client: Reader, window_ns: tuple[int, int], later_ns: int | None, filters: Filters
) -> Pair:
    """A window whose ops are not in the server's capture."""
    own = client.joined()
    client.held = [parted(own, np.ones(len(own.ops), dtype=np.bool_))[1]]
    if later_ns is None:
        return Pair(*window_ns, own, None, filters=filters)
    left, server.dropped = server.dropped, []
    return _with_lost(Pair(*window_ns, own, None, later_ns, filters=filters), server, client, left)


def _with_lost(pair: Pair, server: Reader, client: Reader, left: Sequence[Ops]) -> Pair:
    """With the server's ops `left`, which have no partner."""
    ran_ns, later_ns, filters = _ran_ns(client, -pair.later_ns), pair.later_ns, pair.filters
    return dataclasses.replace(
        pair,
        lone=sum((Lone.of(ops, ran_ns, filters, later_ns) for ops in left), Lone()),
        given_up=tuple(left) if filters.by_time else (),
        server_ran_ns=_ran_ns(server, later_ns),
    )


def _ran_ns(reader: Reader, later_ns: int) -> tuple[int, int]:
    """When a capture ran, on a clock that is so much later than its own."""
    begin_ns, end_ns = reader.ran_ns
    return begin_ns + later_ns, end_ns + later_ns if reader.is_over else _EVER_NS


def _side(reader: Reader, decoded: Decoded) -> Side:
    """As if the capture had run until now."""
    first_ns, last_ns = reader.ran_ns
    source = reader.source
    file = structs.replace(source.files[0], first_ns=first_ns, last_ns=last_ns)
    return side_of(structs.replace(source, files=(file,)), decoded)


def _later_ns(server: Ops, client: Ops, matched: Matched) -> int | None:
    """The client's clock minus the server's, and the least that a reply takes; None where no op is in both."""
    return int((client.t3[matched.client] - server.t3[matched.server]).min()) if len(matched) else None
