"""A conversation's runs -> its turns, one row each: five instants, and the bytes of the stream."""

from __future__ import annotations

import numpy as np

from nfslat.model.protocol import NULL
from nfslat.model.tables import I32, I64, Table
from nfslat.tcp.packets import Kind
from nfslat.tcp.progress import Progress, Runs
from nfslat.tcp.stream import Stream


class TurnRows(Table):
    """One row a turn, in capture order; rows are those of `Talk.packets`, positions those of TCP's stream."""

    request_row: I32  # of the first packet
    request_last_row: I32
    response_row: I32
    response_last_row: I32
    request_ns: I64
    request_last_ns: I64
    response_ns: I64
    response_last_ns: I64
    request_whole_ns: I64  # when the last of its bytes went by that was not seen before
    response_whole_ns: I64
    next_ns: I64  # the next request's first byte; NULL in the last row
    request_begin: I64
    request_end: I64
    response_begin: I64
    response_end: I64

    @property
    def took_ns(self) -> I64:
        """First byte of the request to last byte of the response."""
        return self.response_last_ns - self.request_ns


def turn_rows(
    streams: tuple[Stream, Stream], stretches: Runs, ways: tuple[Progress, Progress], asker: int, t_ns: I64
) -> TurnRows:
    """Each run of the asker with the run behind it; `t_ns`: times of `Talk.packets` that do not run back."""
    first = stretches.rows[stretches.begin]
    last = _with_resent(streams, stretches, ways)
    asks = np.flatnonzero(stretches.direction[:-1] == asker)
    answers = asks + 1
    edges = {}
    for way, of in ((asker, asks), (1 - asker, answers)):
        at = np.searchsorted(ways[way].rows, first[of])
        until = np.searchsorted(ways[way].rows, stretches.rows[stretches.end[of] - 1])
        edges[way] = ways[way].low[at], ways[way].high[until]
    begins = t_ns[first[asks]]
    # A last run of the asker that nobody answered begins a turn no more, but ends the time between two.
    following = asks + 2
    next_ns = np.full(len(asks), NULL, dtype=np.int64)
    has_next = following < len(first)
    next_ns[has_next] = t_ns[first[following[has_next]]]
    return TurnRows.from_columns(
        {
            "request_row": first[asks],
            "request_last_row": last[asks],
            "response_row": first[answers],
            "response_last_row": last[answers],
            "request_ns": begins,
            "request_last_ns": t_ns[last[asks]],
            "response_ns": t_ns[first[answers]],
            "response_last_ns": t_ns[last[answers]],
            "request_whole_ns": t_ns[stretches.rows[stretches.end[asks] - 1]],
            "response_whole_ns": t_ns[stretches.rows[stretches.end[answers] - 1]],
            "next_ns": next_ns,
            "request_begin": edges[asker][0],
            "request_end": edges[asker][1],
            "response_begin": edges[1 - asker][0],
            "response_end": edges[1 - asker][1],
        }
    )


def _resent(one: Stream, new: Progress) -> I64:
    """Packets that only bring what was seen before, while the other side had not acknowledged it."""
    packets = one.packets
    again = np.flatnonzero(packets.kind[one.rows] == Kind.RETRANSMISSION)
    again = again[~np.isin(one.rows[again], new.rows)]
    known = np.append(one.covered, np.iinfo(np.int64).min)[one.heard[again] - 1]
    rows = one.rows[again]
    return rows[packets.seq[rows] + packets.size[rows] > known]


def _with_resent(streams: tuple[Stream, Stream], stretches: Runs, ways: tuple[Progress, Progress]) -> I64:
    """The last packet of each run; what its sender sends again before the next run belongs to it."""
    last = stretches.rows[stretches.end - 1]
    if not len(last):
        return last
    until = np.append(stretches.rows[stretches.begin[1:]], len(streams[0].packets))
    for way, one in enumerate(streams):
        mine = _resent(one, ways[way])
        if not len(mine):
            continue
        of = np.flatnonzero(stretches.direction == way)
        at = np.searchsorted(mine, until[of]) - 1
        last[of] = np.where(at >= 0, np.maximum(last[of], mine[at]), last[of])
    return last
