//! TCP segments in, the conversation of each out, and what the segment is in it; nothing per packet is kept.
//!
//! `nfslat/tcp/packets.py` says what the kinds mean. Positions are bytes from the first one of a direction.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use crate::link::{ACK, Addr, Ends, FIN, RST, SYN, Segment};
use crate::ranges::{Novelty, Ranges};
use crate::traffic::{Place, each_option};
use crate::waits::{Pauses, Seen, Waits, Went};

/// Conversations of one capture. Each is about 1 KiB here, and as much in Python.
pub const MOST: usize = if cfg!(test) { 64 } else { 1 << 18 };
/// What is kept of the beginning of a direction, and of all of them.
const HEAD: usize = 4096;
const HEADS: usize = if cfg!(test) { 3 * HEAD } else { 64 << 20 };
/// Sequence numbers this far apart are of another connection between the same ports whose SYN was not captured.
const APART: i64 = 1 << 28;
/// No window is larger (RFC 7323 section 2.3), so no ACK goes further at once, but for what the capture lost.
const LARGEST_WINDOW: i64 = 1 << 30;
/// Far from 0, so that what lies in front of the first byte has a place, too, where positions have no sign.
const FIRST: u64 = 1 << 32;

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

/// A segment in its conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Position of the first byte of payload; of a SYN without any that of the SYN, -1.
    pub seq: i64,
    pub ack: Option<i64>,
    pub kind: Kind,
    pub ack_kind: AckKind,
}

/// One direction: what was seen of it, and what the other side has acknowledged.
#[derive(Default)]
pub struct Way {
    /// Sequence number of position 0; none where neither a packet of this direction nor an ACK of it was seen.
    pub first_seq: Option<u32>,
    pub saw_syn: bool,
    pub mss: Option<u16>,
    pub sack_permitted: bool,
    pub timestamps: bool,
    pub head: Vec<u8>,
    pub copies: u64,
    /// Its sender gives one IP identification to several packets.
    pub repeats_ids: bool,
    has_sent: bool,
    has_data: bool,
    seen: Ranges,
    fin: Option<i64>,
    /// The byte behind the highest one went out as a probe of a closed window.
    probed: bool,
    acked: Option<i64>,
    /// As this direction's last packet announced it, not scaled; none before, and of a SYN.
    window: Option<u16>,
    last: Kind,
    /// Position of the byte that is wanted next for `head`.
    head_at: i64,
}

impl Way {
    /// A position near by; sequence numbers wrap, positions do not.
    fn position(&self, seq: u32) -> i64 {
        let near = self.near();
        let first = self.first_seq.unwrap_or(seq);
        near + i64::from(seq.wrapping_sub(first.wrapping_add(near as u32)) as i32)
    }

    fn near(&self) -> i64 {
        self.seen.high.max(self.acked.unwrap_or(0))
    }

    /// Bytes that were acknowledged and never captured.
    pub fn lost_bytes(&self) -> i64 {
        let acked = self.acked.unwrap_or(0);
        self.seen.missing(acked - i64::from(self.fin.is_some_and(|fin| acked > fin)))
    }

    fn begins_at(&mut self, position: i64) {
        self.seen = Ranges::at(position);
        self.head_at = position;
    }

    fn options(&mut self, segment: &Segment<'_>) {
        self.saw_syn = true;
        (self.mss, self.sack_permitted, self.timestamps) = (None, false, false);
        for option in each_option(segment.options) {
            match option {
                (2, [high, low]) => self.mss = Some(u16::from_be_bytes([*high, *low])),
                (4, []) => self.sack_permitted = true,
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
    }

    fn kind(&mut self, segment: &Segment<'_>, start: i64, is_closed: bool) -> Kind {
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
        match self.seen.take(start, start + i64::from(segment.len)) {
            Novelty::New => Kind::New,
            Novelty::Ahead => Kind::Ahead,
            Novelty::Late => Kind::OutOfOrder,
            Novelty::Repeated => Kind::Retransmission,
        }
    }

    fn add_head(&mut self, start: i64, segment: &Segment<'_>, room: &mut usize) {
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
}

/// A TCP connection; direction 0 is that of its first packet.
pub struct Conversation {
    pub ends: Ends,
    pub reconnect: u32,
    pub ways: [Way; 2],
    waits: Waits,
}

impl Conversation {
    fn new(ends: Ends, reconnect: u32) -> Conversation {
        Conversation { ends, reconnect, ways: Default::default(), waits: Waits::default() }
    }

    /// By how many bits windows in packets of a direction are shifted; none where that is not known.
    pub fn scale(&self, direction: usize) -> Option<u8> {
        self.waits.scale(direction)
    }

    /// Is a segment of another connection between the same ports?
    #[inline]
    fn is_over(&self, direction: usize, segment: &Segment<'_>) -> bool {
        let own = &self.ways[direction];
        let Some(first) = own.first_seq else { return false };
        if segment.flags & SYN != 0 {
            let other = &self.ways[1 - direction];
            let is_answer = segment.flags & ACK != 0;
            // A server may choose another number when it answers the same SYN again (SYN cookies), and may have answered
            // it first from an old connection (RFC 5961 section 4).
            let is_ours = is_answer && (!own.has_sent || (other.saw_syn && other.first_seq == Some(segment.ack)));
            return first != segment.seq.wrapping_add(1) && !is_ours;
        }
        if segment.len == 0 || segment.flags & RST != 0 || !own.has_sent {
            return false;
        }
        let jump = own.position(segment.seq) - own.near();
        jump.abs() > APART && self.is_elsewhere(direction, segment, jump)
    }

    /// What is far behind all that was seen is not of this connection. What is far ahead may be, where the capture lost
    /// much: then its ACK still fits.
    #[cold]
    fn is_elsewhere(&self, direction: usize, segment: &Segment<'_>, jump: i64) -> bool {
        let other = &self.ways[1 - direction];
        let fits = segment.flags & ACK != 0
            && other.first_seq.is_some()
            && (other.position(segment.ack) - other.near()).abs() <= APART;
        jump < 0 || !fits
    }

    /// Take the next segment.
    #[inline]
    pub fn packet(&mut self, segment: &Segment<'_>, place: Place, room: &mut usize, pauses: &mut Pauses) -> Judged {
        let direction = place.direction;
        let is_syn = segment.flags & SYN != 0;
        let is_closed = self.waits.is_closed(direction);
        let [forward, backward] = &mut self.ways;
        let (own, other) = if direction == 0 { (forward, backward) } else { (backward, forward) };

        let begin = segment.seq.wrapping_add(u32::from(is_syn));
        if own.first_seq.is_none() || (is_syn && own.first_seq != Some(begin)) {
            // The second: a SYN that was sent again with another number.
            *own = Way { first_seq: Some(begin), copies: own.copies, ..Way::default() };
        }
        let start = own.position(begin);
        let ack = (segment.flags & ACK != 0).then(|| {
            other.first_seq.get_or_insert(segment.ack);
            other.position(segment.ack)
        });
        if is_syn {
            own.options(segment);
            self.waits.syn(direction, segment);
        }
        if !own.has_sent && segment.flags & RST == 0 {
            own.begins_at(start);
        }
        let kind = own.kind(segment, start, is_closed);
        own.has_sent |= segment.flags & RST == 0;
        if segment.len > 0 && kind != Kind::None && kind != Kind::KeepAlive {
            own.add_head(start, segment, room);
        }
        if segment.flags & (FIN | RST) == FIN {
            own.fin = Some(start + i64::from(segment.len));
        }
        let ack_kind = ack.map_or(AckKind::None, |ack| said(own, other, segment, kind, ack));
        own.last = kind;
        if segment.flags & (SYN | RST) == 0 {
            let went = match kind {
                Kind::Retransmission => Went::Repeated,
                Kind::OutOfOrder => Went::Late,
                Kind::KeepAlive => Went::Probe,
                _ => Went::New,
            };
            let at = |position: i64| (FIRST as i64 + position).max(0) as u64;
            let ack = ack.map(at);
            let (len, window, options) = (segment.len, segment.window, segment.options);
            let seen =
                Seen { place, start: at(start), origin: FIRST, len, ack, window, options, went, in_message: None };
            self.waits.packet(&seen, pauses);
        }
        let seq = if is_syn && segment.len == 0 { start - 1 } else { start };
        Judged { seq, ack, kind, ack_kind }
    }
}

/// What an ACK says of the bytes of `other`, and remember it.
#[inline]
fn said(own: &mut Way, other: &mut Way, segment: &Segment<'_>, kind: Kind, ack: i64) -> AckKind {
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
    let before = own.window.replace(segment.window);
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
        _ if kind == Kind::None && ack < other.seen.high => AckKind::Duplicate,
        _ => AckKind::None,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    low: (Addr, u16),
    high: (Addr, u16),
}

/// All of one capture, in the order of their first packets.
pub struct Conversations {
    pub list: Vec<Conversation>,
    /// The last conversation between two endpoints.
    by_key: HashMap<Key, u32>,
    /// The conversation of the packet before, which is often that of the next one.
    recent: Option<(Key, u32)>,
    /// Bytes of heads that may still be kept.
    pub room: usize,
}

impl Default for Conversations {
    fn default() -> Conversations {
        Conversations { list: Vec::new(), by_key: HashMap::new(), recent: None, room: HEADS }
    }
}

impl Conversations {
    /// The conversation of a segment, and its direction in it.
    #[inline]
    pub fn find(&mut self, ends: Ends, segment: &Segment<'_>) -> (usize, usize) {
        let (one, two) = ((ends.src, ends.sport), (ends.dst, ends.dport));
        let key = if one <= two { Key { low: one, high: two } } else { Key { low: two, high: one } };
        let number = match self.recent {
            Some((recent, number)) if recent == key => number as usize,
            _ => self.look_up(key, ends),
        };
        let found = &self.list[number];
        let direction = usize::from(found.ends != ends);
        if !found.is_over(direction, segment) {
            self.recent = Some((key, number as u32));
            return (number, direction);
        }
        (self.follow(key, ends, number), 0)
    }

    fn look_up(&mut self, key: Key, ends: Ends) -> usize {
        match self.by_key.entry(key) {
            Entry::Occupied(found) => *found.get() as usize,
            Entry::Vacant(free) => {
                free.insert(self.list.len() as u32);
                self.list.push(Conversation::new(ends, 0));
                self.list.len() - 1
            }
        }
    }

    /// Another connection between the same ends as that of `before`.
    fn follow(&mut self, key: Key, ends: Ends, before: usize) -> usize {
        let number = self.list.len();
        self.list.push(Conversation::new(ends, self.list[before].reconnect + 1));
        self.by_key.insert(key, number as u32);
        self.recent = Some((key, number as u32));
        number
    }

    pub fn is_full(&self) -> bool {
        self.list.len() > MOST
    }
}

#[cfg(test)]
mod tests;
