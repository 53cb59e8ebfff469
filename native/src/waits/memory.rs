//! Data packets of one direction in, when a byte of them was last sent out.

/// Data packets of a direction whose times are remembered: so many at least, and all that are not acknowledged, up to
/// the second number.
pub(super) const REMEMBERED: usize = 64;
pub(super) const MOST_REMEMBERED: usize = 1024;

/// When bytes went out. Positions are cut to 32 bits: what is remembered is near by.
#[derive(Clone, Copy)]
pub(super) struct Sent {
    start: u32,
    len: u32,
    t_ns: i64,
}

/// The last data packets of a direction.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) ring: Vec<Sent>,
    /// The oldest, once the ring is full.
    oldest: usize,
}

impl Memory {
    #[inline(always)]
    pub(super) fn push(&mut self, start: u64, len: u32, t_ns: i64, acked: u64) {
        match self.ring.get_mut(self.oldest) {
            Some(sent) if sent.start.wrapping_add(sent.len).wrapping_sub(acked as u32) as i32 <= 0 => {
                // One by one: to copy them as one would wait for all to be in memory.
                sent.start = start as u32;
                sent.len = len;
                sent.t_ns = t_ns;
                self.oldest = if self.oldest + 1 == self.ring.len() { 0 } else { self.oldest + 1 };
            }
            _ => self.grow(start, len, t_ns),
        }
    }

    #[cold]
    fn grow(&mut self, start: u64, len: u32, t_ns: i64) {
        let sent = Sent { start: start as u32, len, t_ns };
        if self.ring.len() >= MOST_REMEMBERED {
            self.ring[self.oldest] = sent;
            self.oldest = (self.oldest + 1) % MOST_REMEMBERED;
            return;
        }
        self.ring.rotate_left(self.oldest);
        self.ring.push(sent);
        // Behind the end as long as the ring may grow in any case.
        self.oldest = if self.ring.len() < REMEMBERED { self.ring.len() } else { 0 };
    }

    /// When the byte at a position was last sent.
    pub(super) fn sent_ns(&self, at: u64) -> Option<i64> {
        let (newer, older) = self.ring.split_at(self.oldest);
        let mut newest_first = newer.iter().rev().chain(older.iter().rev());
        newest_first.find(|sent| (at as u32).wrapping_sub(sent.start) < sent.len).map(|sent| sent.t_ns)
    }
}
