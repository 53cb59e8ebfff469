"""Names of what an op's time is charged to, and of the places in which it lies; no input, no output."""

from __future__ import annotations

from enum import StrEnum

from nfslat.decompose import PART_NAMES

# Beside the five parts there is time of which the client's SRT holds nothing: the application's alone.
BEFORE, AFTER = "before", "after"  # in front of the call's first byte, and behind the reply's last one, at the client
PLACES = (*PART_NAMES, BEFORE, AFTER)


class Cause(StrEnum):
    """What an op waited for. Where two claim the same time, the one that stands first here has it."""

    RTO = "rto"  # lost, and sent again when the sender's timer had run out (RFC 6298)
    TAIL_LOSS_PROBE = "tail-loss-probe"  # lost, with nothing behind it (RFC 8985 section 7)
    FAST_RETRANSMIT = "fast-retransmit"  # lost, and told by what arrived behind it (RFC 5681, RFC 6675)
    RPC_RETRANSMIT = "rpc-retransmit"  # sent again by RPC, not by TCP
    LOSS = "loss"  # sent again, and the capture does not show why
    BEHIND_LOSS = "behind-loss"  # it had arrived, and TCP kept it back for bytes in front of it that were lost
    REORDERING = "reordering"  # the same, or bytes of its own, and they had only been overtaken
    HOST_PAUSE = "host-pause"  # the host did not run, or its link did not, in either direction
    HELD = "held"  # packets of one direction were held, and released together
    ZERO_WINDOW = "zero-window"  # the receiver's buffer was full
    RECEIVE_WINDOW = "receive-window"  # the receiver's window was too small for the next segment
    DELAYED_ACK = "delayed-ack"  # the receiver kept its ACK back
    BANDWIDTH = "bandwidth"  # the path carried all that it carries
    UNKNOWN_WINDOW = "unknown-window"  # for an ACK; whether the receiver's window had room is not known
    CONGESTION_WINDOW = "congestion-window"  # the same, with room in the receiver's window
    SENDER = "sender"  # the application or the host that sends was silent in the middle of a message
    HEAD_OF_LINE = "head-of-line"  # other replies in front of it on the same connection were being sent
    DISTANCE = "distance"  # the shortest round trip, half of it each way


CAUSES = tuple(Cause)
LOSSES = frozenset({Cause.RTO, Cause.TAIL_LOSS_PROBE, Cause.FAST_RETRANSMIT, Cause.RPC_RETRANSMIT, Cause.LOSS,
                    Cause.BEHIND_LOSS})  # fmt: skip
# Of these the network is to blame, or the other end of it, even where they lie within the server's response time.
FROM_OUTSIDE = frozenset(
    {*LOSSES, Cause.REORDERING, Cause.ZERO_WINDOW, Cause.RECEIVE_WINDOW, Cause.DELAYED_ACK, Cause.UNKNOWN_WINDOW,
     Cause.CONGESTION_WINDOW, Cause.BANDWIDTH, Cause.HEAD_OF_LINE}
)  # fmt: skip


def code(cause: Cause) -> int:
    """What stands for `cause` in columns."""
    return CAUSES.index(cause)


def place(name: str) -> int:
    """What stands for a part, `BEFORE` or `AFTER` in columns."""
    return PLACES.index(name)
