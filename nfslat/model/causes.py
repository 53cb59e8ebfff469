"""What time is waited for: one name a cause, whichever table it stands in, and the words for it; no input or output."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, get_args

from nfslat.model.record import Record


class Cause(StrEnum):
    """What an op waited for (`Charge`), a silent sender of TCP (`Stall`), or a sender in all its time (`Limit`).

    Columns of charges and stalls hold its place here (`code`). Where two charges claim the same time, the one that
    stands first has it.
    """

    RTO = "rto"  # lost, and sent again when the sender's timer had run out (RFC 6298); each backoff is a stall
    TAIL_LOSS_PROBE = "tail-loss-probe"  # lost, with nothing behind it (RFC 8985 section 7)
    FAST_RETRANSMIT = "fast-retransmit"  # lost, and told by duplicate ACKs or SACKs (RFC 5681, RFC 6675)
    RPC_RETRANSMIT = "rpc-retransmit"  # sent again by RPC, not by TCP
    LOSS = "loss"  # sent again, and the capture does not show why; as a limit: until it was sent again, whatever told
    BEHIND_LOSS = "behind-loss"  # it had arrived, and TCP kept it back for bytes in front of it that were lost
    REORDERING = "reordering"  # the same, or bytes of its own, and they had only been overtaken
    HOST_PAUSE = "host-pause"  # the host did not run, or its link did not, in either direction
    HELD = "held"  # packets of one direction were held, and released together
    ZERO_WINDOW = "zero-window"  # the receiver's buffer was full
    RECEIVE_WINDOW = "receive-window"  # open, and too small for the next segment; as a limit: or closed
    DELAYED_ACK = "delayed-ack"  # the receiver kept its ACK back
    BANDWIDTH = "bandwidth"  # the path carried all that it carries
    UNKNOWN_WINDOW = "unknown-window"  # an ACK let it go on; whether the receiver's window had room is not known
    CONGESTION_WINDOW = "congestion-window"  # the same, with room in the receiver's window
    SENDER = "sender"  # nothing on the wire: the application or the host that sends was silent
    HEAD_OF_LINE = "head-of-line"  # other replies in front of it on the same connection were being sent
    DISTANCE = "distance"  # the shortest round trip, half of it each way
    RECOVERY = "recovery"  # what is sent again beside a fast retransmit: little or no silence each
    OVERTAKEN = "overtaken"  # no wait: the network brought packets in another order
    SPURIOUS = "spurious"  # it sent again what had arrived; not told by `stalls.classify`, which sees a pause alone
    CONGESTION = "congestion"  # `CONGESTION_WINDOW`, under the name that it has in `nfslat transport`
    PACE = "pace"  # it did not wait: the pace of the host, its adapter and the path
    APPLICATION = "application"  # nothing to send, or the other side's turn
    UNKNOWN = "unknown"  # the capture does not show it; near the receiver this is the pace of path and sender


# Which may stand in which table. Limits have this order in reports, and their sums hold every one of them.
Charge = Literal[
    Cause.RTO, Cause.TAIL_LOSS_PROBE, Cause.FAST_RETRANSMIT, Cause.RPC_RETRANSMIT, Cause.LOSS, Cause.BEHIND_LOSS,
    Cause.REORDERING, Cause.HOST_PAUSE, Cause.HELD, Cause.ZERO_WINDOW, Cause.RECEIVE_WINDOW, Cause.DELAYED_ACK,
    Cause.BANDWIDTH, Cause.UNKNOWN_WINDOW, Cause.CONGESTION_WINDOW, Cause.SENDER, Cause.HEAD_OF_LINE, Cause.DISTANCE,
]  # fmt: skip
Stall = Literal[
    Cause.RTO, Cause.TAIL_LOSS_PROBE, Cause.FAST_RETRANSMIT, Cause.RECOVERY, Cause.ZERO_WINDOW, Cause.RECEIVE_WINDOW,
    Cause.DELAYED_ACK, Cause.CONGESTION_WINDOW, Cause.UNKNOWN_WINDOW, Cause.SENDER, Cause.OVERTAKEN, Cause.UNKNOWN,
    Cause.SPURIOUS,
]  # fmt: skip
Limit = Literal[
    Cause.RECEIVE_WINDOW, Cause.CONGESTION, Cause.UNKNOWN_WINDOW, Cause.DELAYED_ACK, Cause.LOSS, Cause.SPURIOUS,
    Cause.PACE, Cause.APPLICATION, Cause.UNKNOWN,
]  # fmt: skip
CAUSES = tuple(Cause)
CHARGES: tuple[Charge, ...] = get_args(Charge)
STALLS: tuple[Stall, ...] = get_args(Stall)
LIMITS: tuple[Limit, ...] = get_args(Limit)

# Charges of which the network is to blame, or the other end of it, even where they lie within the server's response
# time; those of them that are losses; and the stalls that are.
LOSSES: frozenset[Charge] = frozenset(
    {Cause.RTO, Cause.TAIL_LOSS_PROBE, Cause.FAST_RETRANSMIT, Cause.RPC_RETRANSMIT, Cause.LOSS, Cause.BEHIND_LOSS}
)
LOSS_STALLS: frozenset[Stall] = frozenset({Cause.RTO, Cause.TAIL_LOSS_PROBE, Cause.FAST_RETRANSMIT, Cause.RECOVERY})
FROM_OUTSIDE: frozenset[Charge] = frozenset(
    {*LOSSES, Cause.REORDERING, Cause.ZERO_WINDOW, Cause.RECEIVE_WINDOW, Cause.DELAYED_ACK, Cause.UNKNOWN_WINDOW,
     Cause.CONGESTION_WINDOW, Cause.BANDWIDTH, Cause.HEAD_OF_LINE}
)  # fmt: skip


class Words(Record):
    """What a cause is called where, and as what it stands elsewhere."""

    op: str = ""  # what an op waits for, or because
    column: str = ""  # of the table of ops, which may sum several causes
    sender: str = ""  # what a silent sender waits for
    charge: Charge | None = None  # as what the wait of a sender is charged to ops; None: costs nobody anything
    as_limit: Limit = Cause.UNKNOWN  # as what the wait of a sender counts among the limits
    limit: str = ""  # what limits a sender
    limited: str = ""  # the same in a sentence
    cost: str = ""  # what it cost both senders


WORDS: dict[Cause, Words] = {
    Cause.RTO: Words(
        op="lost: retransmission timeout",
        column="lost",
        sender="a retransmission timeout",
        charge=Cause.RTO,
        as_limit=Cause.LOSS,
    ),
    Cause.TAIL_LOSS_PROBE: Words(
        op="lost: tail-loss probe",
        column="lost",
        sender="a tail-loss probe",
        charge=Cause.TAIL_LOSS_PROBE,
        as_limit=Cause.LOSS,
    ),
    Cause.FAST_RETRANSMIT: Words(
        op="lost: fast retransmit",
        column="lost",
        sender="a fast retransmit",
        charge=Cause.FAST_RETRANSMIT,
        as_limit=Cause.LOSS,
    ),
    Cause.RPC_RETRANSMIT: Words(op="lost: retransmitted by RPC", column="lost"),
    Cause.LOSS: Words(
        op="lost: retransmitted",
        column="lost",
        limit="loss",
        limited="the sender waited to retransmit lost data",
        cost="loss: until it was retransmitted",
    ),
    Cause.BEHIND_LOSS: Words(op="arrived, queued behind lost data", column="lost"),
    Cause.REORDERING: Words(op="arrived, queued behind late data", column="overtaken"),
    Cause.HOST_PAUSE: Words(op="receiving host paused", column="held"),
    Cause.HELD: Words(op="held, then released together", column="held"),
    Cause.ZERO_WINDOW: Words(
        op="receiver's window closed",
        column="window",
        sender="a window to open",
        charge=Cause.ZERO_WINDOW,
        as_limit=Cause.RECEIVE_WINDOW,
    ),
    Cause.RECEIVE_WINDOW: Words(
        op="receiver's window too small",
        column="window",
        sender="room in the window",
        charge=Cause.RECEIVE_WINDOW,
        as_limit=Cause.RECEIVE_WINDOW,
        limit="receive window",
        limited="the receiver's window limited the sender",
        cost="the receiver's window",
    ),
    Cause.DELAYED_ACK: Words(
        op="delayed ACK of the receiver",
        column="delayed_ack",
        sender="a delayed ACK",
        charge=Cause.DELAYED_ACK,
        as_limit=Cause.DELAYED_ACK,
        limit="delayed ACK",
        limited="the sender waited for delayed ACKs",
        cost="delayed ACKs",
    ),
    Cause.BANDWIDTH: Words(op="path saturated", column="bandwidth"),
    Cause.UNKNOWN_WINDOW: Words(
        op="an ACK (some window full)",
        column="congestion_window",
        sender="an ACK, or a window",
        charge=Cause.UNKNOWN_WINDOW,
        as_limit=Cause.UNKNOWN_WINDOW,
        limit="window, whose not known",
        limited="a window limited the sender (it went on when an ACK came): the receiver's or the congestion window, "
        "which cannot be told without the handshake",
        cost="a window that was full, the receiver's or the congestion window",
    ),
    Cause.CONGESTION_WINDOW: Words(
        op="an ACK (congestion window)",
        column="congestion_window",
        sender="an ACK in transit",
        charge=Cause.CONGESTION_WINDOW,
        as_limit=Cause.CONGESTION,
    ),
    Cause.SENDER: Words(
        op="sender silent in mid-message",
        column="sender",
        sender="its own application",
        charge=Cause.SENDER,
        as_limit=Cause.APPLICATION,
    ),
    Cause.HEAD_OF_LINE: Words(op="behind other replies, at most", column="head_of_line"),
    Cause.DISTANCE: Words(op="shortest way", column="distance"),
    Cause.RECOVERY: Words(sender="more retransmissions", charge=Cause.LOSS, as_limit=Cause.LOSS),
    Cause.OVERTAKEN: Words(sender="overtaken packets", as_limit=Cause.PACE),
    Cause.SPURIOUS: Words(
        sender="a spurious retransmission",
        as_limit=Cause.SPURIOUS,
        limit="spurious retransmissions",
        limited="the sender retransmitted spuriously",
        cost="spurious retransmissions",
    ),
    Cause.CONGESTION: Words(
        limit="congestion window",
        limited="the congestion window limited the sender (it went on when an ACK came)",
        cost="the congestion window: for ACKs in transit",
    ),
    Cause.PACE: Words(
        limit="pace of host and path",
        limited="the sender waited for nothing; its own, its host's or the path's pace set the rate",
    ),
    Cause.APPLICATION: Words(limit="application, other's turn"),
    Cause.UNKNOWN: Words(sender="what is not captured", limit="not known"),
}


def code(cause: Cause) -> int:
    """What stands for `cause` in columns."""
    return CAUSES.index(cause)


def in_words(cause: str) -> str:
    """What an op waits for, as tables of charges say it; what is no cause, as a report may have it, stays as it is."""
    known = WORDS[Cause(cause)].op if cause in CHARGES else ""
    return known or cause


def columns() -> dict[str, frozenset[Charge]]:
    """Columns of the table of ops, in their order, with the causes whose time each of them sums."""
    names = dict.fromkeys(WORDS[cause].column for cause in CHARGES)
    return {name: frozenset(cause for cause in CHARGES if WORDS[cause].column == name) for name in names}
