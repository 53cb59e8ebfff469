//! IP fragments in, whole payloads out, within a bound of memory (RFC 791 section 3.2, RFC 8200 section 4.5).

use std::collections::VecDeque;

use hashbrown::HashMap;

use crate::link::{Addr, Fragment};

/// Packets put together at once: with 64 KiB each at most 64 MiB. A sender of UDP has far fewer under way.
const OPEN: usize = 1024;
/// How long Linux waits for the rest of a packet. Identifications come again: what is older is of another packet.
const PATIENCE_NS: i64 = 30_000_000_000;
const LARGEST: u32 = 1 << 16;
/// Ranges of one packet: 64 KiB in fragments of 576 bytes are 120.
const RANGES: usize = 512;

/// Whose a fragment is.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    src: Addr,
    dst: Addr,
    id: u32,
    proto: u8,
}

impl From<&Fragment<'_>> for Key {
    fn from(part: &Fragment<'_>) -> Key {
        Key { src: part.src, dst: part.dst, id: part.id, proto: part.proto }
    }
}

/// A packet whose fragments have all been seen. `bytes` is what was captured of the front of its payload.
pub struct Whole {
    pub src: Addr,
    pub dst: Addr,
    pub proto: u8,
    pub bytes: Vec<u8>,
    pub len: u32,
    pub first_frame: u32,
    pub first_ns: i64,
}

/// A packet of which a fragment was not seen for longer than anybody waits for one.
#[derive(Debug)]
pub struct Incomplete {
    pub src: Addr,
    pub dst: Addr,
    pub proto: u8,
    /// What was captured of the front of its payload; nothing where it is the first fragment that is missing.
    pub bytes: Vec<u8>,
    /// How much of the payload was seen.
    pub len: u32,
    pub first_frame: u32,
    pub first_ns: i64,
}

struct Partial {
    /// Byte ranges seen, in order, none touching the next.
    ranges: Vec<(u32, u32)>,
    total: Option<u32>,
    bytes: Vec<u8>,
    first_frame: u32,
    first_ns: i64,
}

#[derive(Default)]
pub struct Fragments {
    open: HashMap<Key, Partial>,
    order: VecDeque<Key>,
    /// Until somebody takes them (`incomplete`).
    given_up: Vec<Incomplete>,
}

impl Fragments {
    /// Take one fragment; the payload, once nothing is missing any more.
    pub fn take(&mut self, part: &Fragment<'_>, frame: u32, t_ns: i64) -> Option<Whole> {
        let key = Key::from(part);
        let end = part.offset.checked_add(part.len)?;
        if end > LARGEST || part.len == 0 {
            return None;
        }
        let is_old = |partial: &Partial| t_ns - partial.first_ns > PATIENCE_NS;
        if self.open.get(&key).is_some_and(is_old) {
            self.give_up(&key);
        }
        if let Some(oldest) = self.order.front().copied().filter(|oldest| self.open.get(oldest).is_some_and(is_old)) {
            self.give_up(&oldest);
        }
        if !self.open.contains_key(&key) {
            self.order.push_back(key);
            if self.order.len() > OPEN {
                let oldest = *self.order.front()?;
                self.give_up(&oldest);
            }
        }
        let partial = self.open.entry(key).or_insert_with(|| Partial {
            ranges: Vec::new(),
            total: None,
            bytes: Vec::new(),
            first_frame: frame,
            first_ns: t_ns,
        });
        if partial.ranges.len() < RANGES {
            cover(&mut partial.ranges, part.offset, end);
        }
        if !part.more {
            partial.total = Some(end);
        }
        // Only what joins on to what is there: heads lie in the first fragment.
        if part.offset as usize == partial.bytes.len() {
            partial.bytes.extend_from_slice(part.bytes);
        }
        let total = partial.total?;
        if partial.ranges.as_slice() != [(0, total)] {
            return None;
        }
        let done = self.remove(&key)?;
        Some(Whole {
            src: key.src,
            dst: key.dst,
            proto: key.proto,
            bytes: done.bytes,
            len: total,
            first_frame: done.first_frame,
            first_ns: done.first_ns,
        })
    }

    fn give_up(&mut self, key: &Key) {
        let Some(partial) = self.remove(key) else { return };
        let Partial { ranges, bytes, first_frame, first_ns, .. } = partial;
        let len = ranges.iter().map(|(start, end)| end - start).sum();
        let Key { src, dst, proto, .. } = *key;
        self.given_up.push(Incomplete { src, dst, proto, bytes, len, first_frame, first_ns });
    }

    /// What was given up since it was asked the last time, in the order of the first fragments.
    #[inline]
    pub fn incomplete(&mut self) -> Vec<Incomplete> {
        std::mem::take(&mut self.given_up)
    }

    /// No more fragments.
    pub fn end(&mut self) {
        for key in std::mem::take(&mut self.order) {
            self.give_up(&key);
        }
    }

    fn remove(&mut self, key: &Key) -> Option<Partial> {
        if let Some(at) = self.order.iter().position(|open| open == key) {
            self.order.remove(at);
        }
        self.open.remove(key)
    }
}

/// Add `start..end` to sorted ranges, merging the ones that it touches.
fn cover(ranges: &mut Vec<(u32, u32)>, start: u32, end: u32) {
    let from = ranges.partition_point(|range| range.1 < start);
    let to = ranges.partition_point(|range| range.0 <= end);
    let joined = ranges[from..to].iter().fold((start, end), |all, range| (all.0.min(range.0), all.1.max(range.1)));
    ranges.splice(from..to, [joined]);
}

#[cfg(test)]
mod tests;
