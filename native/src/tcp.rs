//! Passes over the packets of one TCP conversation (`nfslat/tcp`): each goes over its rows once, in capture order.

pub mod late;
pub mod passage;
pub mod same;
pub mod silences;
pub mod stalls;
pub mod stream;

/// A bit of `Rows::flags`.
const PSH: u8 = 0x08;

/// Kinds of payload (`nfslat.tcp.packets.Kind`).
pub mod kind {
    pub const NEW: i8 = 1;
    pub const AHEAD: i8 = 2;
    pub const RETRANSMISSION: i8 = 3;
    pub const OUT_OF_ORDER: i8 = 4;
    pub const KEEP_ALIVE: i8 = 5;
    pub const ZERO_WINDOW_PROBE: i8 = 6;
}

/// What a packet says to the other side (`nfslat.tcp.packets.AckKind`).
mod ack_kind {
    pub const ADVANCES: i8 = 1;
    pub const DUPLICATE: i8 = 2;
    pub const WINDOW_UPDATE: i8 = 3;
}

/// Columns of `packets::Packets`, of all conversations or of one.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    pub conversation: &'a [i32],
    pub direction: &'a [i8],
    pub frame: &'a [i32],
    pub t_ns: &'a [i64],
    pub seq: &'a [i64],
    pub size: &'a [i32],
    pub ack: &'a [i64],
    pub window: &'a [i32],
    pub flags: &'a [u8],
    pub kind: &'a [i8],
    pub ack_kind: &'a [i8],
    pub sacks: &'a [i8],
    pub is_dsack: &'a [i8],
    pub ip_id: &'a [i32],
    pub ts_val: &'a [u32],
}

impl Rows<'_> {
    pub fn count(&self) -> usize {
        self.t_ns.len()
    }

    /// Behind the last byte.
    #[inline]
    pub fn end(&self, row: usize) -> i64 {
        self.seq[row] + i64::from(self.size[row])
    }
}
