"""What a decoder may know of a capture beside its ops: SEQUENCE slots, names, failures, and what TCP did.

Same conventions as `nfslat.model.tables`. Only the native engine fills these tables; tshark's are empty.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from msgspec import field

from nfslat.model.record import Record
from nfslat.model.tables import I8, I16, I32, I64, U32, Table


class Again(IntEnum):
    """How a segment brought bytes of a message once more, or not in their turn."""

    REPEATED = 0  # they were seen before
    LATE = 1  # they fill a hole that later data had left


class TcpEvent(IntEnum):
    """Kind of an event on a connection; what its value counts stands behind it. All but the last are TCP's."""

    RETRANSMISSION = 0  # bytes of a segment that were seen before
    DUPLICATE = 1  # bytes of a packet that was captured twice
    OUT_OF_ORDER = 2  # bytes of a segment that fill a hole which later data, or the FIN, had left
    GAP = 3  # bytes of a hole that opens
    ZERO_WINDOW = 4  # ns for which the receiver of this direction had closed its window
    STALL = 5  # ns without a packet on the connection while data of this direction were under way
    INCOMPLETE = 6  # bytes that are there of a UDP datagram of which a fragment is missing; its offset is the XID


class Ended(IntEnum):
    """What a sender had received since its pause began, right before it went on."""

    NOTHING = 0  # so its own timer, or its application, ended it
    ACK = 1  # an ACK without data that covers more
    WINDOW = 2  # nothing more is covered, but the window grew
    DUPLICATE = 3  # duplicate ACKs only
    DATA = 4  # data of the other side


class Awaits(IntEnum):
    """For what a sender waits that asks for it again and again."""

    WINDOW = 0  # the other end's window is shut, and it probes it
    ACK = 1  # of bytes that it sends again and again


class Cut(IntEnum):
    """What ended a connection."""

    NOTHING = 0  # it stood when the capture ended
    OWN_RESET = 1  # a RST of the end in question
    RESET = 2  # a RST of the other end
    NEXT_CONNECTION = 3  # a SYN of another one between the same ports


class FileEvent(IntEnum):
    """What a row of `Files` says."""

    FOUND = 0  # `name` in `directory` is `handle`: LOOKUP, CREATE, OPEN, READDIRPLUS, LINK ...
    ROOT = 1  # `handle` is what the path `name` leads to: MOUNT, PUTROOTFH
    RENAMED = 2  # `name` in `directory` is from now on `to_name` in `to_directory`
    REMOVED = 3  # `name` in `directory` is gone
    LAID_OUT = 4  # data of the file `handle` are at the device `directory`, under the handle `to_directory`: LAYOUTGET
    DEVICE = 5  # the device `handle` is a server at `name`, a universal address: GETDEVICEINFO


class Went(IntEnum):
    """With what a sender went on."""

    NEW = 0
    REPEATED = 1  # bytes that were seen before
    LATE = 2  # bytes that fill a hole: lost in front of the capture, and sent again; or overtaken
    PROBE = 3  # of a closed window, or a keep-alive


class Slots(Table):
    """SEQUENCE (RFC 8881 section 18.46) of NFSv4.1 and later, and CB_SEQUENCE: one row an op that has it, by op."""

    op: I32  # row of Ops
    session: I16  # row of `sessions`
    slot: U32
    seqid: U32
    highest: U32  # highest slot in use by the client
    reply_highest: U32  # highest slot that the server would accept
    target_highest: U32  # highest slot that the server wants used
    sessions: tuple[bytes, ...] = ()  # 16 bytes each


class SessionLimits(Record):
    """What CREATE_SESSION granted (RFC 8881 section 18.36); channel limits as the server answered them."""

    t_ns: int  # of the reply's first byte
    session: bytes
    fore_requests: int  # ca_maxrequests: slots
    fore_operations: int
    fore_request_bytes: int
    fore_response_bytes: int
    back_requests: int


class Names(Table):
    """The file name in a call's arguments, one row an op that shows one, in row order."""

    op: I32
    name: I32  # row of `names`
    names: tuple[bytes, ...] = ()


class Callers(Table):
    """On whose behalf calls were made: a row an op, in the order of Ops; none where an engine does not tell."""

    uid: U32  # of the AUTH_SYS credential (RFC 5531 appendix A); NULL32: another flavor, or not captured


class Files(Table):
    """What calls and their replies say of which file handle is which file, in order of the replies.

    Only what succeeded. A reply that names many files (READDIRPLUS) has a row for each.
    """

    op: I32  # row of Ops
    event: I8  # `FileEvent`
    t_ns: I64  # of the reply's first byte
    directory: I32  # row of `handles`; NULL: not captured
    name: I32  # row of `names`; NULL: not captured
    handle: I32  # row of `handles`; NULL: not captured, or it does not say
    to_directory: I32  # of RENAMED and LAID_OUT; NULL else
    to_name: I32
    names: tuple[bytes, ...] = ()
    handles: tuple[bytes, ...] = ()


class Failures(Table):
    """COMPOUNDs with a status that is not 0: results in the reply; the last is of the operation that failed."""

    op: I32
    results: U32


class Resent(Table):
    """Ops that a TCP retransmission touched at this side: a row for each message and segment with bytes of it that were
    sent again, or came late; by op and frame.

    A segment that is both has a row of either kind; one that is partly new counts with its other bytes. Rows are of
    the call and of the reply that the op is made of; of each direction the last 64 messages are remembered. A packet
    that was captured twice is in no row.
    """

    op: I32  # row of Ops
    is_reply: I8
    kind: I8  # `Again`
    frame: I32  # of the segment
    t_ns: I64  # of the segment
    bytes: I64  # of the message (record marks included) in the segment, those of `kind`


class Tcp(Table):
    """One row a direction of a TCP connection that carried RPC; a reconnect has rows of its own. Times in ns.

    So has what was tried in vain, three packets or more and all of them SYNs, where others between the same hosts carry
    RPC to that port.

    The bytes seen are those from `first_seq` on, `seq_span` of them, with holes where something was lost. Where the
    numbers jump (the SYN of a new connection was not captured) both are of what came last.
    """

    conn: I64
    reconnect: I64  # 0 for the first connection between these endpoints
    direction: I64
    packets: I64
    first_ns: I64  # of all packets: the SYN, and what ended it (FIN, RST), too
    last_ns: I64
    data_packets: I64
    bytes: I64  # payload, retransmissions included
    largest_payload: I64  # bytes in one packet
    super_packets: I64  # data packets with more than the smaller of both MSS, or than 8948 bytes where none is known
    first_seq: I64  # sequence number of the first byte, ISN + 1 where the SYN was seen; NULL where nothing was
    seq_span: I64  # bytes from there to the highest one seen; sequence numbers wrap, this does not; NULL likewise
    acked_span: I64  # bytes from there that the other end was seen to acknowledge; NULL likewise
    retransmissions: I64  # packets with bytes that were seen before
    retransmitted_bytes: I64  # those bytes
    duplicates: I64  # packets captured twice
    out_of_order: I64  # packets with bytes that fill holes which later data, or the FIN, had left
    late_bytes: I64  # those bytes
    keep_alives: I64
    lost_ranges: I64  # acknowledged, never captured
    lost_bytes: I64
    zero_windows: I64
    zero_window_ns: I64
    stalls: I64
    stalled_ns: I64
    saw_syn: I64
    window_scale: I64  # shift count; NULL where no SYN with the option was captured
    mss: I64  # bytes, as the sender of this direction announced what it takes; NULL likewise
    rtt_count: I64  # samples: data to the ACK that covers it, as seen where the capture was taken
    rtt_sum_ns: I64
    rtt_min_ns: I64
    rtt_max_ns: I64


class TcpEvents(Table):
    """What happened on connections that carried RPC, in capture order; no row for what went well. A datagram that lacks
    a fragment is known as such when nobody waits for that any more, so that its row comes late."""

    kind: I8  # `TcpEvent`
    conn: I32
    reconnect: I32  # as in `Tcp`
    direction: I8
    frame: I32
    t_ns: I64
    offset: I64  # bytes from `Tcp.first_seq` to the segment's first one; NULL if before, and for ZERO_WINDOW and STALL
    value: I64


class Pauses(Table):
    """Silences of one direction of a TCP connection that its sender may not have wanted, in capture order.

    One row where new data follow (without a hole in front) 1 ms or more of silence of that direction in the middle of
    an RPC message; 20 ms or more of silence in which data were under way for 20 ms and the other side sent none (else
    it was its turn), or in which the window was smaller than what is sent now; and, however short, where data are not
    new. A silence counts from the last packet with data. A PROBE does not end it: the row of what follows covers both.
    Between two messages (`in_message` 0) a sender may just have had nothing to say. Positions as `TcpEvents.offset`.
    """

    conn: I32
    reconnect: I32
    direction: I8
    frame: I32  # of the packet that ends it
    begin_ns: I64  # of the last packet with data before; NULL where there was none
    end_ns: I64
    heard_ns: I64  # of the last packet of the other side in between that `Ended` knows, duplicates too; NULL: NOTHING
    ended: I8  # `Ended`
    went: I8  # `Went`
    in_message: I8  # 1: inside an RPC message; 0: between two; NULL: not known
    offset: I64  # of the first byte that is sent now
    size: I32  # bytes of payload in that packet
    size_before: I32  # bytes in the one before the pause
    under_way: I64  # bytes sent and not acknowledged when it began
    under_way_end: I64  # when it ended, in front of the packet that ends it
    announced: I64  # the window as it stood in the header when it began, not scaled; NULL: none so far, but a SYN's
    window: I64  # bytes from the highest acknowledged one that the receiver took when it began; NULL: not known (scale)
    window_least: I64  # the least of it until it ended
    window_end: I64
    duplicate_acks: I32  # since an ACK covered more
    is_tail: I8  # 1: what is sent once more, or late, reaches up to the highest byte that was sent before
    sent_ns: I64  # when the first byte was last sent before; NULL unless REPEATED, or too long ago


class Hangs(Table):
    """What senders had asked for again, and did not have when the capture or their connection ended: a row a direction
    and `Awaits`, by connection, reconnect and direction.

    WINDOW where a shut window was probed, or bytes were sent in spite of it, once at the least; ACK where the first
    byte that is not acknowledged was sent twice at the least. Whether that is long enough to say that it hangs
    `nfslat.wire.hanging` decides. A RST counts as the end if its sender says nothing more.
    """

    conn: I32
    reconnect: I32
    direction: I8  # in which the one who waits sends
    awaits: I8  # `Awaits`
    since_ns: I64  # when the window was shut, or the byte first sent, as far as that is remembered
    tries: I32  # probes, or transmissions
    before_ns: I64  # of the last but one; of a single probe `since_ns`
    last_ns: I64  # of the last one
    frame: I32  # of the last one
    offset: I64  # bytes from `Tcp.first_seq` to the first one that is not acknowledged; NULL if before
    bytes: I64  # sent and not acknowledged
    went_on: I8  # ACK: 1 where bytes were sent that were new when the byte had gone out twice
    heard_ns: I64  # of the last packet of the other end; NULL: there was none
    cut: I8  # `Cut`
    until_ns: I64  # when that came; NULL of NOTHING


class Blocked(Table):
    """Messages that arrived whole while bytes in front of them were missing, which TCP then keeps from its user.

    By op; only where the hole was filled later. A call waited from its t1 on, a reply from its t3. At the sender's side
    the rows mean nothing.
    """

    op: I32  # row of Ops
    is_reply: I8
    until_ns: I64  # when the last hole in front of its end was filled


class Loads(Table):
    """Payload that went by, one row a direction of a connection and stretch of `stretch_ns` with any, in time order.

    From the stretch on in which the connection first shows RPC; packets that were captured twice count once.
    """

    conn: I32
    direction: I8
    begin_ns: I64  # a multiple of `stretch_ns`
    bytes: I64  # retransmissions included
    stretch_ns: int = 10_000_000  # doubled until what is kept fits


class Stream(NamedTuple):
    """One direction of a TCP connection or of a pair of UDP ports that showed no RPC."""

    sender: str
    sender_port: int
    receiver: str
    receiver_port: int


class Others(Table):
    """Payload of streams without RPC, one row a stream and stretch of `stretch_ns` with any, in time order.

    Of the first 4,096 streams. What a connection carried before it showed RPC is here.
    """

    stream: I32  # row of `streams`
    begin_ns: I64  # a multiple of `stretch_ns`
    bytes: I64  # of TCP retransmissions included; of UDP the datagrams
    streams: tuple[Stream, ...] = ()
    stretch_ns: int = 10_000_000  # doubled until what is kept fits


class Unread(Table):
    """Bytes of messages whose headers are not in the capture: behind the snaplen, in a hole, or where the place of the
    next message is not known. By connection and direction, each in the order of its stream.

    A stretch of such bytes goes from one message that can be read to the next one; it has a row for each packet (for
    those within 0.1 ms one, for a hole one). On a connection that has not shown RPC yet there are none.
    """

    conn: I32
    direction: I8
    begins: I8  # 1: first row of a stretch
    begin_ns: I64  # of the first packet; of a hole: of the last packet in front of it
    end_ns: I64  # of the last packet; of a hole: of the first packet behind it
    bytes: I64


class Replies(Table):
    """How long replies are, record marks included: one row a kind of call, by kind.

    Of a reply to a call that names a size (READ: asked for; WRITE: sent) only what it has beyond that counts, or all of
    it where it is `short`er; other replies count with all their bytes. Replies in several fragments are in no row.
    """

    kind: I16  # row of `Ops.kinds`
    count: I64
    short: I64  # of them, those with fewer bytes than the size
    least: I64  # bytes
    most: I64


class Unanswered(Table):
    """What the calls asked for that are in `Loose` as NO_REPLY, one row each, by frame."""

    conn: I32
    frame: I32  # first one of the call
    xid: U32
    size: U32  # as `Ops.size`


class Met(IntEnum):
    """What a decoder numbers in the order in which it meets it."""

    CONNECTION = 0  # row of `Ops.connections`
    KIND = 1  # of `Ops.kinds`
    SESSION = 2  # of `Slots.sessions`
    NAME = 3  # of `Names.names`
    HANDLE = 4  # of `Files.handles`
    CREATED = 5  # of `Details.sessions`


class Turns(Table):
    """When the items of each list of `Met` were met, list after list; empty but for a part of a capture.

    By these the tables of all parts can be put together in the order of the whole capture (`nfslat.decode.merge`).
    """

    of: I8  # `Met`
    turn: I64  # of one list they never go back; no two parts share one
    service: I64  # of a KIND: RPCSEC_GSS service, by which the decoder tells kinds apart, too; NULL else


class Details(Record):
    """All of them. What ends in `_dropped` counts rows beyond those that are kept.

    `resent_dropped` counts messages in no op, too.
    """

    slots: Slots
    names: Names
    failures: Failures
    tcp: Tcp
    events: TcpEvents
    resent: Resent
    pauses: Pauses
    blocked: Blocked
    loads: Loads
    callers: Callers = field(default_factory=Callers.empty)
    files: Files = field(default_factory=Files.empty)
    others: Others = field(default_factory=Others.empty)
    unread: Unread = field(default_factory=Unread.empty)
    replies: Replies = field(default_factory=Replies.empty)
    unanswered: Unanswered = field(default_factory=Unanswered.empty)
    hangs: Hangs = field(default_factory=Hangs.empty)
    sessions: tuple[SessionLimits, ...] = ()
    turns: Turns = field(default_factory=Turns.empty)
    events_dropped: int = 0
    resent_dropped: int = 0
    pauses_dropped: int = 0
    blocked_dropped: int = 0
    loads_dropped: int = 0
    files_dropped: int = 0
    unread_dropped: int = 0
    hangs_dropped: int = 0

    @property
    def stalls_dropped(self) -> int:
        """Rows that the charges of ops (`nfslat.wire.charges`) are too low by."""
        return self.pauses_dropped + self.blocked_dropped + self.loads_dropped


def no_details() -> Details:
    """Empty tables."""
    return Details(
        slots=Slots.empty(),
        names=Names.empty(),
        failures=Failures.empty(),
        tcp=Tcp.empty(),
        events=TcpEvents.empty(),
        resent=Resent.empty(),
        pauses=Pauses.empty(),
        blocked=Blocked.empty(),
        loads=Loads.empty(),
    )


def name_of(names: Names, op: int) -> bytes | None:
    """The file name that op row `op` shows; None where it shows none."""
    at = int(np.searchsorted(names.op, op))
    return names.names[names.name[at]] if at < len(names) and names.op[at] == op else None
