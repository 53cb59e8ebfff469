//! The segments of one direction in, what each is out.

use crate::link::{FIN, RST, SYN, Segment};
use crate::ranges::{Novelty, Ranges};
use crate::traffic::each_option;

/// What is kept of the beginning of a direction.
pub(super) const HEAD: usize = 4096;
/// No window is larger (RFC 7323 section 2.3), so no ACK goes further at once, but for what the capture lost.
const LARGEST_WINDOW: i64 = 1 << 30;
/// Further from what was seen, nothing but a gap in the capture, or a spoilt number, brings a segment.
const FAR: i64 = 1 << 16;
/// So many duplicate ACKs make a sender send again what they ask for (RFC 5681 section 3.2).
const DUPLICATES: u8 = 3;

/// What the payload of a packet is (`nfslat.tcp.packets.Kind`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i8)]
pub enum Kind {
    #[default]
    None = 0,
    New = 1,
    Ahead = 2,
    Retransmission = 3,
    OutOfOrder = 4,
    KeepAlive = 5,
    ZeroWindowProbe = 6,
}

/// What a packet says to the other side (`nfslat.tcp.packets.AckKind`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum AckKind {
    None = 0,
    Advances = 1,
    Duplicate = 2,
    WindowUpdate = 3,
    KeepAlive = 4,
}

/// One direction: what was seen of it, and what the other side has acknowledged.
#[derive(Default)]
pub struct Way {
    /// Sequence number of position 0; none where neither a packet of this direction nor an ACK of it was seen.
    pub first_seq: Option<u32>,
    pub saw_syn: bool,
    pub mss: Option<u16>,
    pub timestamps: bool,
    pub head: Vec<u8>,
    pub copies: u64,
    pub(super) has_sent: bool,
    has_data: bool,
    /// The last packet with payload was left out (`Conversation::is_damaged`).
    pub(super) doubted: bool,
    pub(super) seen: Ranges,
    pub(super) fin: Option<i64>,
    /// The byte behind the highest one went out as a probe of a closed window.
    probed: bool,
    acked: Option<i64>,
    /// Duplicate ACKs that ask for the byte at `acked`.
    duplicates: u8,
    /// TSval of the last packet that left a hole in front of it.
    overtaker: Option<u32>,
    /// As this direction's last packet announced it, not scaled; none before, and of a SYN.
    pub(super) window: Option<u16>,
    pub(super) last: Kind,
    /// Position of the byte that is wanted next for `head`.
    head_at: i64,
}

impl Way {
    /// Nothing is known of it but the sequence number of position 0.
    pub(super) fn starts_over(&mut self, first_seq: u32) {
        *self = Way { first_seq: Some(first_seq), copies: self.copies, ..Way::default() };
    }

    /// A position near by; sequence numbers wrap, positions do not.
    pub(super) fn position(&self, seq: u32) -> i64 {
        let near = self.near();
        let first = self.first_seq.unwrap_or(seq);
        near + i64::from(seq.wrapping_sub(first.wrapping_add(near as u32)) as i32)
    }

    pub(super) fn near(&self) -> i64 {
        self.seen.high.max(self.acked.unwrap_or(0))
    }

    #[inline]
    pub(super) fn is_far(&self, start: i64) -> bool {
        start > self.near() + FAR || start + FAR < self.seen.low()
    }

    /// Bytes that were acknowledged and never captured.
    pub fn lost_bytes(&self) -> i64 {
        let acked = self.acked.unwrap_or(0);
        self.seen.missing(acked - i64::from(self.fin.is_some_and(|fin| acked > fin)))
    }

    pub(super) fn begins_at(&mut self, position: i64) {
        self.seen = Ranges::at(position);
        self.head_at = position;
    }

    pub(super) fn options(&mut self, segment: &Segment<'_>) {
        self.saw_syn = true;
        (self.mss, self.timestamps) = (None, false);
        for option in each_option(segment.options) {
            match option {
                (2, [high, low]) => self.mss = Some(u16::from_be_bytes([*high, *low])),
                (8, [_, _, _, _, _, _, _, _]) => self.timestamps = true,
                _ => {}
            }
        }
    }

    /// The other side has everything below `ack`.
    fn acknowledged(&mut self, ack: i64) {
        if self.acked.is_some_and(|acked| ack <= acked) || ack - self.near() > LARGEST_WINDOW {
            return;
        }
        let is_next = ack == self.seen.high + 1;
        if self.probed && is_next {
            self.seen.take(self.seen.high, ack);
        } else if is_next && self.has_sent && !self.has_data && !self.saw_syn && self.fin.is_none() {
            // What was seen first was a keep-alive, which has the number of the byte before.
            self.begins_at(ack);
        }
        self.acked = Some(ack);
        self.duplicates = 0;
    }

    pub(super) fn kind(&mut self, segment: &Segment<'_>, start: i64, is_closed: bool) -> Kind {
        let next = self.seen.high.max(self.fin.map_or(i64::MIN, |fin| fin + 1));
        let is_plain = segment.flags & (SYN | FIN | RST) == 0;
        if segment.len <= 1
            && is_plain
            && start + 1 == next
            && self.has_sent
            && self.acked.is_some_and(|acked| acked > start)
        {
            return Kind::KeepAlive;
        }
        if segment.len == 0 || segment.flags & RST != 0 {
            return Kind::None;
        }
        if segment.len == 1 && is_closed && start == self.seen.high && self.has_sent {
            self.probed = true;
            return Kind::ZeroWindowProbe;
        }
        self.has_data = true;
        self.probed = false;
        let end = start + i64::from(segment.len);
        match self.seen.take(start, end) {
            // The FIN that ends the stream was there before it.
            Novelty::New | Novelty::Ahead if self.fin.is_some_and(|fin| end <= fin) => self.late(segment, start),
            Novelty::New => Kind::New,
            Novelty::Ahead => {
                self.overtaker = ts_val(segment);
                Kind::Ahead
            }
            Novelty::Late => self.late(segment, start),
            Novelty::Repeated => Kind::Retransmission,
        }
    }

    /// What fills a hole was overtaken, or lost in front of the capture and sent again: that is sure of what duplicate
    /// ACKs asked for, unless its timestamp says that it was sent in front of what overtook it.
    #[cold]
    fn late(&self, segment: &Segment<'_>, start: i64) -> Kind {
        let is_asked_for = self.duplicates >= DUPLICATES && self.acked == Some(start);
        let is_newer = match (ts_val(segment), self.overtaker) {
            (Some(own), Some(overtaker)) => (own.wrapping_sub(overtaker) as i32) > 0,
            _ => true,
        };
        if is_asked_for && is_newer { Kind::Retransmission } else { Kind::OutOfOrder }
    }

    pub(super) fn add_head(&mut self, start: i64, segment: &Segment<'_>, room: &mut usize) {
        let wanted = HEAD.min(self.head.len() + *room);
        if self.head.len() >= wanted || start > self.head_at || start + i64::from(segment.len) <= self.head_at {
            return;
        }
        let piece = segment.bytes.get((self.head_at - start) as usize..).unwrap_or(&[]);
        let piece = &piece[..piece.len().min(wanted - self.head.len())];
        self.head.extend_from_slice(piece);
        *room -= piece.len();
        // Where bytes were not captured it ends for good.
        let is_whole = segment.bytes.len() == segment.len as usize;
        self.head_at = if is_whole { start + i64::from(segment.len) } else { i64::MAX };
    }

    /// What an ACK says of the bytes of `other`, and remember it.
    #[inline]
    pub(super) fn says(&mut self, other: &mut Way, segment: &Segment<'_>, kind: Kind, ack: i64) -> AckKind {
        if segment.flags & RST != 0 {
            return AckKind::None;
        }
        if segment.flags & SYN != 0 {
            other.acknowledged(ack);
            return AckKind::None; // its window is not scaled, and no byte is acknowledged yet
        }
        let advances = other.acked.is_none_or(|acked| ack > acked);
        if other.acked.is_some_and(|acked| ack < acked) {
            return AckKind::None; // overtaken, so its window is old, too
        }
        let before = self.window.replace(segment.window);
        let is_same = before == Some(segment.window);
        if advances {
            other.acknowledged(ack);
            return AckKind::Advances;
        }
        if segment.len > 0 || segment.flags & FIN != 0 || before.is_none() {
            return AckKind::None;
        }
        match other.last {
            Kind::KeepAlive | Kind::ZeroWindowProbe if is_same && kind == Kind::None => AckKind::KeepAlive,
            _ if !is_same => AckKind::WindowUpdate,
            _ if kind == Kind::None && ack < other.seen.high => {
                other.duplicates = other.duplicates.saturating_add(1);
                AckKind::Duplicate
            }
            _ => AckKind::None,
        }
    }
}

/// TSval of the timestamps option (RFC 7323 section 3.2).
fn ts_val(segment: &Segment<'_>) -> Option<u32> {
    each_option(segment.options).find(|(kind, _)| *kind == 8)?.1.get(..4)?.try_into().ok().map(u32::from_be_bytes)
}
