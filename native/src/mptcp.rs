//! MPTCP options (RFC 8684, version 0: RFC 6824) in; which connection a subflow is of, and what its packets say of the bytes
//! of that, out.

use crate::link::{ACK, SYN, Segment};
use crate::table::table;
use crate::traffic::each_option;

pub const KIND: u8 = 30;
const CAPABLE: u8 = 0;
const JOIN: u8 = 1;
const DSS: u8 = 2;

/// Bits of `SignalRow::has`.
pub const DATA_ACK: u8 = 1;
pub const MAPPING: u8 = 2;
/// The mapping begins with the connection's first byte, whose number only the sender's key tells.
pub const FIRST: u8 = 4;

table! {
    /// A row for each packet that says something of the connection's bytes (`nfslat.tcp.mptcp.Signals`).
    pub struct Signals of SignalRow {
        /// Of `Packets`.
        row: i32,
        has: u8,
        /// The low 32 bits of the DATA_ACK.
        ack: u32,
        /// The low 32 bits of the number of the first byte that is mapped.
        seq: u32,
        /// Where that is in the subflow: 1 is its first byte.
        start: u32,
        size: i32,
    }
}

/// What the options of one TCP connection say of the MPTCP connection that it is of.
#[derive(Default)]
pub struct Subflow {
    /// Of MP_CAPABLE.
    pub version: Option<u8>,
    /// Of the sender of each direction.
    pub keys: [Option<u64>; 2],
    /// MP_JOIN: direction of the SYN, and the token of its receiver.
    pub joins: Option<(usize, u32)>,
    /// Both ends speak MPTCP, as far as the capture shows.
    pub is_agreed: bool,
}

impl Subflow {
    /// May another packet tell a key?
    pub fn is_opening(&self) -> bool {
        self.version.is_some() && self.keys.contains(&None)
    }

    /// Take the value of an option of a packet of `direction`; what it says of the connection's bytes.
    pub fn take(&mut self, value: &[u8], flags: u8, direction: usize) -> Option<SignalRow> {
        let head = *value.first()?;
        let is_syn = flags & SYN != 0;
        self.is_agreed |= !is_syn || flags & ACK != 0;
        match head >> 4 {
            CAPABLE => self.capable(value, direction, is_syn),
            JOIN => {
                if flags & (SYN | ACK) == SYN {
                    self.joins = value.get(2..6).and_then(|token| Some((direction, word(token)?)));
                }
                None
            }
            DSS if !is_syn => dss(value),
            _ => None,
        }
    }

    /// MP_CAPABLE: version, flags, the sender's key, the receiver's, the length of the data behind it.
    fn capable(&mut self, value: &[u8], direction: usize, is_syn: bool) -> Option<SignalRow> {
        let key = |at: usize| value.get(at..at + 8)?.try_into().ok().map(u64::from_be_bytes);
        if is_syn && key(2).is_some() && self.keys[direction].is_some_and(|known| Some(known) != key(2)) {
            *self = Subflow { is_agreed: self.is_agreed, ..Subflow::default() }; // another try
        }
        self.version = Some(value[0] & 15);
        for (way, at) in [(direction, 2), (1 - direction, 10)] {
            self.keys[way] = self.keys[way].or(key(at));
        }
        let size = u16::from_be_bytes([*value.get(18)?, *value.get(19)?]);
        Some(SignalRow { row: 0, has: MAPPING | FIRST, ack: 0, seq: 0, start: 1, size: size.into() })
    }
}

/// DSS: flags, DATA_ACK, number of the first byte in the connection, in the subflow, and how many there are.
fn dss(value: &[u8]) -> Option<SignalRow> {
    let flags = *value.get(1)?;
    let mut rest = value.get(2..)?;
    let mut take = |size: usize| {
        let (head, tail) = rest.split_at_checked(size)?;
        rest = tail;
        word(&head[size - 4..])
    };
    let size = |is_long: bool| if is_long { 8 } else { 4 };
    let mut found = SignalRow { row: 0, has: 0, ack: 0, seq: 0, start: 0, size: 0 };
    if flags & 1 != 0 {
        (found.has, found.ack) = (DATA_ACK, take(size(flags & 2 != 0))?);
    }
    if flags & 4 != 0 {
        let (seq, start) = (take(size(flags & 8 != 0)), take(4));
        if let (Some(seq), Some(start), [high, low, ..]) = (seq, start, rest) {
            (found.seq, found.start, found.size) = (seq, start, u16::from_be_bytes([*high, *low]).into());
            found.has |= MAPPING;
        }
    }
    (found.has != 0).then_some(found)
}

fn word(bytes: &[u8]) -> Option<u32> {
    bytes.try_into().ok().map(u32::from_be_bytes)
}

/// The MPTCP option of a segment.
pub fn option<'a>(segment: &Segment<'a>) -> Option<&'a [u8]> {
    each_option(segment.options).find(|(kind, _)| *kind == KIND).map(|(_, value)| value)
}

#[cfg(test)]
mod tests;
