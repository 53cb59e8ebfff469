//! A segment in, what is remembered of it and whether another one may be it out.

use crate::link::{ACK, FIN, RST, SYN, Segment};
use crate::traffic::each_option;

/// Flags that all pieces of a packet have.
const TELLING: u8 = SYN | RST | ACK;
/// The options of nearly all packets begin so: two bytes of nothing in front of the timestamps.
const PLAIN: [u8; 4] = [1, 1, TIMESTAMPS, 10];
const TIMESTAMPS: u8 = 8;
const SACK: u8 = 5;

/// A packet that was sent, as it was first seen.
#[derive(Clone, Copy)]
#[cfg_attr(test, derive(PartialEq, Debug))]
pub struct Sent {
    pub t_ns: i64,
    /// Position of the first byte.
    pub start: i64,
    pub len: u32,
    /// Of its first piece, 0 before that was seen.
    pub piece: u32,
    pub ack: u32,
    /// 0 where there is none.
    pub ts_val: u32,
    /// All options but `ts_val`, in short.
    pub options: u32,
    pub window: u16,
    pub ip_id: u16,
    pub flags: u8,
    /// Interfaces that have seen it: a bit each.
    pub points: u8,
    /// How often it was seen, and how often that which may have been it.
    pub times: u8,
    pub likes: u8,
    /// Later data were seen before it, so that its receiver may have asked for it already.
    pub is_late: bool,
}

impl Sent {
    pub fn end(&self) -> i64 {
        self.start + i64::from(self.len)
    }

    /// Does it say what `other` says, whatever bytes are in the two?
    pub fn is_like(&self, other: &Sent) -> bool {
        (self.ack, self.ts_val, self.options) == (other.ack, other.ts_val, other.options)
            && self.window == other.window
            && (self.flags ^ other.flags) & if self.len == 0 { TELLING | FIN } else { TELLING } == 0
    }

    pub fn covers(&self, other: &Sent) -> bool {
        self.start <= other.start && other.end() <= self.end() && (self.len == 0) == (other.len == 0)
    }

    /// Does the identification say that a packet is this one, or a piece of it? Segmentation numbers the pieces, of
    /// `size` bytes but for the last, from that of the whole on.
    pub fn is_numbered_like(&self, piece: &Sent, size: u32) -> bool {
        let (number, before) = (piece.ip_id.wrapping_sub(self.ip_id), piece.start - self.start);
        before == i64::from(number) * i64::from(size) && (before == 0) == (number == 0)
    }
}

/// Are there no options but timestamps, if any?
#[inline(always)]
pub fn is_plain(options: &[u8]) -> bool {
    options.is_empty() || (options.len() == 12 && options.first_chunk() == Some(&PLAIN))
}

/// Timestamp of options that are plain, 0 where there is none, and what else they say, in short.
#[inline(always)]
pub fn plain_options_of(options: &[u8]) -> (u32, u32) {
    let word =
        |at: usize| options.get(at..at + 4).map_or(0, |word| u32::from_be_bytes(word.try_into().unwrap_or_default()));
    (word(4), word(8))
}

/// The same of any.
#[inline]
pub fn options_of(segment: &Segment<'_>) -> (u32, u32) {
    if is_plain(segment.options) { plain_options_of(segment.options) } else { other_options(segment.options) }
}

#[cold]
fn other_options(options: &[u8]) -> (u32, u32) {
    let ts_val = each_option(options).find_map(|option| match option {
        (TIMESTAMPS, [a, b, c, d, ..]) => Some(u32::from_be_bytes([*a, *b, *c, *d])),
        _ => None,
    });
    let all = options.iter().fold(0_u32, |sum, byte| sum.rotate_left(5) ^ u32::from(*byte));
    (ts_val.unwrap_or(0), all)
}

#[inline]
pub fn has_sack(options: &[u8]) -> bool {
    // 12 bytes are timestamps, or one block without them.
    let may_have = options.len() > 12 || options.get(2) == Some(&SACK) || options.first() == Some(&SACK);
    may_have && each_option(options).any(|(kind, value)| kind == SACK && value.len() >= 8)
}
