"""The messages of one capture as tshark shows them: the wide table between dissection and pairing (`pair`)."""

from __future__ import annotations

from array import array

from nfslat.model.tables import I8, I32, I64, Bool, Connection, Table


class Messages(Table):
    """RPC messages of one capture, in the order in which the dissector shows them; one row a message.

    Invariants: first_ns and last_ns are those of frames first_frame and last_frame; frame is where the dissector shows
    the message (on whole captures the frame that completes it, on cut ones the first). seq is the position of the
    record mark in its TCP direction, unwrapped, NULL for UDP and where it could not be followed; end that of the first
    byte behind it; acked is up to where its sender had acknowledged the other direction; at_once: it came in turn,
    and all in front of it was acknowledged.
    """

    conn: I32  # row of `connections`
    stream: I32  # the reconnects of one `conn` have different numbers
    direction: I8
    frame: I64
    t_ns: I64
    first_frame: I64
    first_ns: I64
    last_frame: I64
    last_ns: I64
    whole: Bool  # every byte of it is in the capture, so that last_ns is exact
    seq: I64
    end: I64
    acked: I64
    at_once: Bool
    ip_id: I32
    xid: I64
    is_reply: I8
    program: I64  # NULL in replies: the call says it
    version: I64
    minor: I64  # NFSv4 minor version
    op: I64  # procedure; NFSv4: main operation of the COMPOUND
    offset: I64
    size: I64
    fh: I64
    connections: tuple[Connection, ...] = ()

    def check(self) -> None:
        """Raise ``ValueError`` where an invariant does not hold."""
        if len(self) and (self.conn.min() < 0 or self.conn.max() >= len(self.connections)):
            raise ValueError("messages: conn out of range")
        if ((self.is_reply == 0) & (self.xid < 0)).any():
            raise ValueError("messages: a call without an XID")
        if (self.first_frame > self.last_frame).any() or (self.first_frame < 1).any():
            raise ValueError("messages: first frame after last frame")


def empty_columns() -> dict[str, array[int]]:
    """An empty array of 64-bit integers for each column of `Messages`, to fill and hand to ``from_columns``."""
    return {name: array("q") for name in Messages.columns()}
