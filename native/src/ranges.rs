//! Stretches of one direction of a TCP connection in, what was seen of their bytes before out; bounded in memory.

/// Holes remembered at once; beyond it the lowest is forgotten, and what fills it is taken for a repetition.
const MOST: usize = 1024;

/// What a stretch is, by what was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Novelty {
    /// It joins on to the highest byte.
    New,
    /// It lies behind it, with a hole in between.
    Ahead,
    /// Some of it fills holes, or lies in front of all that was seen.
    Late,
    /// Some of it was seen before, and nothing of it fills a hole; the rest is new.
    Repeated,
}

/// Positions are bytes; `low` is the first one seen, `high` is behind the last.
#[derive(Debug, Default)]
pub struct Ranges {
    low: i64,
    pub high: i64,
    /// What was not seen in between, in order.
    holes: Vec<(i64, i64)>,
    forgotten: i64,
}

impl Ranges {
    /// Nothing was seen yet; the next byte is the one at `position`.
    pub fn at(position: i64) -> Ranges {
        Ranges { low: position, high: position, ..Ranges::default() }
    }

    /// The first position seen.
    pub fn low(&self) -> i64 {
        self.low
    }

    /// Take `start..end`, which is not empty.
    #[inline]
    pub fn take(&mut self, start: i64, end: i64) -> Novelty {
        if start == self.high {
            self.high = end;
            return Novelty::New;
        }
        self.take_other(start, end)
    }

    #[cold]
    fn take_other(&mut self, start: i64, end: i64) -> Novelty {
        if start > self.high {
            self.holes.push((self.high, start));
            self.high = end;
            if self.holes.len() > MOST {
                let (from, to) = self.holes.remove(0);
                self.forgotten += to - from;
            }
            return Novelty::Ahead;
        }
        let mut is_late = false;
        if start < self.low {
            is_late = true;
            if end < self.low && self.holes.len() < MOST {
                self.holes.insert(0, (end, self.low));
            }
            self.low = start;
        }
        let at = self.holes.partition_point(|hole| hole.1 <= start);
        let until = at + self.holes[at..].partition_point(|hole| hole.0 < end);
        if at < until {
            is_late = true;
            let (first, last) = (self.holes[at], self.holes[until - 1]);
            let left = [(first.0, start.min(first.1)), (end.max(last.0), last.1)];
            self.holes.splice(at..until, left.into_iter().filter(|hole| hole.0 < hole.1));
        }
        self.high = self.high.max(end);
        if is_late { Novelty::Late } else { Novelty::Repeated }
    }

    /// How many bytes below `acked` were never seen, not counting those in front of the first one.
    pub fn missing(&self, acked: i64) -> i64 {
        let holes = self.holes.iter().map(|hole| (hole.1.min(acked) - hole.0).max(0)).sum::<i64>();
        self.forgotten + holes + (acked - self.high).max(0)
    }
}

#[cfg(test)]
mod tests;
