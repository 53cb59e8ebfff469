//! TCP segments in, the conversation of each out, and what the segment is in it; nothing per packet is kept.
//!
//! `nfslat/tcp/packets.py` says what the kinds mean. Positions are bytes from the first one of a direction.

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use crate::copies::Copies;
use crate::link::{ACK, Addr, Ends, FIN, RST, SYN, Segment};
use crate::mptcp::Subflow;
use crate::scales::Scales;
use way::HEAD;
pub use way::{AckKind, Kind, Way};

/// Conversations of one capture. Each is about 1 KiB here, and as much in Python.
pub const MOST: usize = if cfg!(test) { 64 } else { 1 << 18 };
/// What is kept of the beginnings of all directions.
const HEADS: usize = if cfg!(test) { 3 * HEAD } else { 64 << 20 };
/// Sequence numbers this far apart are of another connection between the same ports whose SYN was not captured.
const APART: i64 = 1 << 28;

/// A segment in its conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judged {
    /// Position of the first byte of payload; of a SYN without any that of the SYN, -1.
    pub seq: i64,
    pub ack: Option<i64>,
    pub kind: Kind,
    pub ack_kind: AckKind,
}

/// A TCP connection; direction 0 is that of its first packet.
pub struct Conversation {
    pub ends: Ends,
    pub reconnect: u32,
    pub ways: [Way; 2],
    pub copies: Copies,
    /// Of those with options of MPTCP.
    pub mptcp: Option<Box<Subflow>>,
    scales: Scales,
}

impl Conversation {
    fn new(ends: Ends, reconnect: u32) -> Conversation {
        Conversation {
            ends,
            reconnect,
            ways: Default::default(),
            copies: Copies::default(),
            mptcp: None,
            scales: Scales::default(),
        }
    }

    /// By how many bits windows in packets of a direction are shifted; none where that is not known.
    pub fn scale(&self, direction: usize) -> Option<u8> {
        self.scales.of(direction)
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
        jump.abs() > APART
            && self.is_elsewhere(direction, segment, jump)
            && (own.doubted || !segment.is_damaged((self.ends.src, self.ends.dst)))
    }

    /// Does a segment lie far from all that was seen, and was its number spoilt, for its checksum is wrong? Its receiver
    /// takes nothing of it. Of two in a row the second one is believed: an adapter that joins segments leaves wrong sums.
    #[inline]
    pub fn is_damaged(&mut self, direction: usize, segment: &Segment<'_>) -> bool {
        let own = &mut self.ways[direction];
        if segment.len == 0 || !own.has_sent {
            return false;
        }
        let far = own.is_far(own.position(segment.seq));
        own.doubted = far && !own.doubted && segment.is_damaged((self.ends.src, self.ends.dst));
        own.doubted
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
    pub fn packet(&mut self, segment: &Segment<'_>, direction: usize, room: &mut usize) -> Judged {
        let is_syn = segment.flags & SYN != 0;
        let [forward, backward] = &mut self.ways;
        let (own, other) = if direction == 0 { (forward, backward) } else { (backward, forward) };

        let begin = segment.seq.wrapping_add(u32::from(is_syn));
        if own.first_seq.is_none() || (is_syn && own.first_seq != Some(begin)) {
            // The second: a SYN that was sent again with another number.
            own.starts_over(begin);
        }
        let start = own.position(begin);
        let ack = (segment.flags & ACK != 0).then(|| {
            other.first_seq.get_or_insert(segment.ack);
            other.position(segment.ack)
        });
        if is_syn {
            own.options(segment);
            self.scales.syn(direction, segment);
        }
        if !own.has_sent && segment.flags & RST == 0 {
            own.begins_at(start);
        }
        let kind = own.kind(segment, start, other.window == Some(0));
        own.has_sent |= segment.flags & RST == 0;
        if segment.len > 0 && kind != Kind::None && kind != Kind::KeepAlive {
            own.add_head(start, segment, room);
        }
        if segment.flags & (FIN | RST) == FIN {
            own.fin = Some(start + i64::from(segment.len));
        }
        let ack_kind = ack.map_or(AckKind::None, |ack| own.says(other, segment, kind, ack));
        own.last = kind;
        let seq = if is_syn && segment.len == 0 { start - 1 } else { start };
        Judged { seq, ack, kind, ack_kind }
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
mod way;
