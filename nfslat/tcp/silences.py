"""One side's packets -> every silence of that sender, as it saw it, and what each of them waited for.

The same columns as the decoder's `Pauses`, with no lower bound but 0.1 ms, and those that did not end with new data; so
one classifier serves both. A capture at the receiver's end, or between the two, is put into the sender's view first:
what came from the receiver is taken for as much later as the way to the sender and back takes at the least. Where its
time goes back it stands still here.

This is the one place that says what a sender waited for: turns, round trips and limits all count from it.
"""

from __future__ import annotations

from nfslat.kernels.compiled import native
from nfslat.model.details import Pauses
from nfslat.model.record import Record
from nfslat.model.tables import I8, I64
from nfslat.tcp.floors import Floors
from nfslat.tcp.stream import Stream


class Silences(Record, eq=False):
    """Silences of one direction, in order; rows are those of `Talk.packets`, NULL where there is none."""

    pauses: Pauses
    heard: I64  # row of the last packet of the other side in between
    causes: I8  # `causes.code`
    held_ns: I64  # for how long the receiver kept the ACK to itself, of a delayed one; else 0
    data: I64  # rows of all packets with payload, in order of sending, those that end no silence included
    data_ns: I64  # when they were sent, never going back
    at: I64  # places in `data` of the packets that end a silence; the one before each began it


def silences(one: Stream, floors: Floors, mss: int | None, needless: I64) -> Silences:
    """The silences of one sender. `mss`: a full segment's bytes, None where that is not known; `needless`: rows, in
    order, of what was sent again though it had arrived."""
    way, talk = one.direction, one.talk
    ways_ns = floors.near_ns(way), floors.far_ns(way), floors.shift_ns(way), floors.whole_ns
    pauses, heard, causes, held_ns, data_ns, at = native.silences(
        one, needless, talk.level, talk.conversation.shift(1 - way), mss, ways_ns
    )
    return Silences(Pauses(**pauses), heard, causes, held_ns, one.rows, data_ns, at)
