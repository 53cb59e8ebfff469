//! The segments of one TCP connection in, a row for each out (`nfslat.model.segments`): what the time stamps in them are
//! read from where there is a capture of one host alone.

use crate::link::{ACK, RST, SYN, Segment};
use crate::packets::Options;
use crate::table::table;

/// Rows that are kept of a connection before it shows RPC.
const FEW: usize = 256;
/// Among so many of them it is looked for one that was captured twice: copies are told where RPC is known.
const NEAR: usize = 8;
/// TCP sends nothing twice so soon.
const SOON_NS: i64 = 2_000_000;
/// Sequence numbers this far apart are of another connection between the same ports.
const APART: i64 = 1 << 28;

/// Bits of `Segments.marks`; those of flags are where TCP has them.
pub mod mark {
    use crate::link;
    /// Of direction 1.
    pub const BACK: u8 = 0x01;
    pub const SYN: u8 = link::SYN;
    pub const RST: u8 = link::RST;
    /// Bytes that were sent before, and probes of a closed window.
    pub const AGAIN: u8 = 0x08;
    /// Says of bytes that they came twice (RFC 2883).
    pub const TWICE: u8 = 0x20;
}

table! {
    /// The segments of a connection (`nfslat.model.segments.Segments`), without what was captured twice. Positions are
    /// bytes from the first one of a direction.
    pub struct Segments of SegmentRow {
        frame: i32,
        t_ns: i64,
        seq: i64,
        size: i32,
        /// In the other direction; -1 without the flag, and where it cannot be.
        ack: i64,
        ts_val: u32,
        marks: u8,
    }
}

impl Segments {
    /// Rows as columns.
    pub fn of(rows: Vec<SegmentRow>) -> Segments {
        let mut columns = Segments::default();
        rows.into_iter().for_each(|row| columns.push_row(row));
        columns
    }
}

/// What is known of a segment besides itself.
pub struct About {
    pub direction: usize,
    pub frame: u32,
    pub t_ns: i64,
    pub again: bool,
    pub is_rpc: bool,
}

/// A connection, from one SYN to the next.
#[derive(Default)]
pub struct Talk {
    /// Not in columns yet: where many connections take turns, each column would be far from where the last one was.
    pub rows: Vec<SegmentRow>,
    /// The highest number of either direction, and its position.
    near: [Option<(u32, i64)>; 2],
}

impl Talk {
    /// Is a segment of another connection, whose SYN was not captured?
    pub fn is_over(&self, direction: usize, segment: &Segment<'_>) -> bool {
        let jump = |(near, _): (u32, i64)| i64::from(segment.seq.wrapping_sub(near) as i32);
        segment.len > 0 && self.near[direction].is_some_and(|near| jump(near).abs() > APART)
    }

    pub fn take(&mut self, segment: &Segment<'_>, about: &About) {
        let About { direction, frame, t_ns, again, is_rpc } = *about;
        let is_syn = segment.flags & SYN != 0;
        let seq = self.position(direction, segment.seq.wrapping_add(u32::from(is_syn)), segment.len);
        let ack = if segment.flags & ACK == 0 { -1 } else { self.position(1 - direction, segment.ack, 0) };
        let ack = if ack < self.near[1 - direction].map_or(0, |(_, position)| position) + APART { ack } else { -1 };
        let options = Options::of(segment);
        let mut marks = segment.flags & (SYN | RST) | if direction == 1 { mark::BACK } else { 0 };
        marks |= if again { mark::AGAIN } else { 0 } | if options.is_dsack { mark::TWICE } else { 0 };
        let size = i32::try_from(segment.len).unwrap_or(i32::MAX);
        let row = SegmentRow { frame: frame as i32, t_ns, seq, size, ack, ts_val: options.ts_val, marks };
        if !is_rpc {
            if self.has(&row) {
                return;
            }
            if self.rows.len() >= FEW {
                self.rows.drain(..FEW / 2);
            }
        }
        self.rows.push(row);
    }

    /// One that is in no row: positions go on.
    pub fn pass(&mut self, segment: &Segment<'_>, direction: usize) {
        let is_syn = segment.flags & SYN != 0;
        self.position(direction, segment.seq.wrapping_add(u32::from(is_syn)), segment.len);
        if segment.flags & ACK != 0 {
            self.position(1 - direction, segment.ack, 0);
        }
    }

    /// Positions do not wrap. Only data go far.
    fn position(&mut self, direction: usize, number: u32, len: u32) -> i64 {
        let (near, position) = *self.near[direction].get_or_insert((number, 0));
        let jump = i64::from(number.wrapping_sub(near) as i32);
        let end = jump + i64::from(len);
        if end > 0 && (jump < APART || len > 0) {
            self.near[direction] = Some((number.wrapping_add(len), position + end));
        }
        position + jump
    }

    /// Was it captured just before?
    #[cold]
    fn has(&self, row: &SegmentRow) -> bool {
        self.rows.iter().rev().take(NEAR).any(|known| {
            known.seq == row.seq
                && known.size == row.size
                && known.ack == row.ack
                && known.ts_val == row.ts_val
                && (known.marks ^ row.marks) & !mark::AGAIN == 0
                && row.t_ns - known.t_ns < SOON_NS
        })
    }
}

#[cfg(test)]
mod tests;
