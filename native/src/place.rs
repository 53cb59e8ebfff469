//! Where and when a message was seen, and the row that it went to.

/// The connection of a flow that has shown no RPC.
pub const NO_CONN: u32 = u32::MAX;

/// Where and when a message was seen.
#[derive(Clone, Copy)]
pub struct Place {
    pub conn: u32,
    /// 0: from the connection's endpoint a to b.
    pub direction: u8,
    pub frame: u32,
    pub t_ns: i64,
    pub is_udp: bool,
    /// A UDP packet that cannot be told from a copy of it by its IP identification.
    pub may_be_copy: bool,
    /// Messages of the other direction wait behind a hole, so that what is seen of this one may be ahead of them.
    pub is_early: bool,
    /// When the present TCP connection of these endpoints began; `i64::MIN` for the first.
    pub since_ns: i64,
    /// Up to where its sender had acknowledged the other direction: the low half of a stream's position. None over UDP,
    /// and where that is not known.
    pub acked: Option<u32>,
    /// It came in its turn, and all in front of it was acknowledged: it cannot have waited in its sender's socket.
    pub at_once: bool,
}

/// The row that a message went to; it is told when the last byte of the message has been seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    Call(u32),
    Reply(u32),
    Loose(u32),
    /// It has left the decoder (`windows`).
    Past,
}
