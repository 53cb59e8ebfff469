//! Times from data to the ACKs that cover them in, how many there were and of which length out, window by window.

/// So long is a window of a capture that is one.
pub const WHOLE_NS: i64 = i64::MAX;

/// Of some time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Timed {
    pub count: u32,
    pub sum_ns: i64,
    /// The shortest and the longest; where there is none, those of the window before.
    pub bounds_ns: Option<(i64, i64)>,
}

impl Timed {
    fn add(&mut self, other: &Timed) {
        let all = self.bounds_ns.filter(|_| self.count > 0).into_iter().chain(other.bounds_ns);
        self.bounds_ns = all.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1)));
        self.count += other.count;
        self.sum_ns += other.sum_ns;
    }
}

/// Of one direction, as seen where the capture was taken. A path may become longer from one window to the next, so that
/// each has its own, though packets that are later were read by then.
#[derive(Clone, Default)]
pub struct RoundTrips {
    before: Timed,
    of_window: Vec<(i64, Timed)>,
}

impl RoundTrips {
    /// One that ended at `t_ns`.
    pub fn push(&mut self, rtt_ns: i64, t_ns: i64, width_ns: i64) {
        let window = t_ns.div_euclid(width_ns);
        if self.of_window.last().is_none_or(|last| last.0 != window) {
            self.of_window.push((window, Timed::default()));
        }
        if let Some((_, timed)) = self.of_window.last_mut() {
            timed.add(&Timed { count: 1, sum_ns: rtt_ns, bounds_ns: Some((rtt_ns, rtt_ns)) });
        }
    }

    /// Those that ended before this time, the begin of a window; they are forgotten.
    pub fn until(&mut self, t_ns: i64, width_ns: i64) -> RoundTrips {
        let first = t_ns.div_euclid(width_ns);
        let (past, rest) = std::mem::take(&mut self.of_window).into_iter().partition(|(window, _)| *window < first);
        let told = RoundTrips { before: self.before, of_window: past };
        *self = RoundTrips { before: Timed { count: 0, sum_ns: 0, ..told.timed() }, of_window: rest };
        told
    }

    /// All of them.
    pub fn timed(&self) -> Timed {
        self.of_window.iter().fold(self.before, |mut all, (_, timed)| {
            all.add(timed);
            all
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    /// Windows are told apart by when a round trip ended, a later one may be known by then, and where a window has none
    /// the lengths are those of before, and of no count.
    #[test]
    fn each_window_has_its_own() {
        let mut trips = RoundTrips::default();
        for (rtt_ms, t_ms) in [(1, 100), (3, 900), (30, 1500), (2, 800), (40, 3100)] {
            trips.push(rtt_ms * MS, t_ms * MS, 1000 * MS);
        }
        let told: Vec<_> = (1..=4).map(|second| trips.until(second * 1000 * MS, 1000 * MS).timed()).collect();
        let timed =
            |count, sum, least, most| Timed { count, sum_ns: sum * MS, bounds_ns: Some((least * MS, most * MS)) };
        assert_eq!(told, [timed(3, 6, 1, 3), timed(1, 30, 30, 30), timed(0, 0, 30, 30), timed(1, 40, 40, 40)]);
    }

    /// A capture that is one has all of them, and none is no length.
    #[test]
    fn a_whole() {
        let mut trips = RoundTrips::default();
        assert_eq!(trips.timed(), Timed::default());
        (1..=3).for_each(|at| trips.push(at * MS, -at * 1000 * MS, WHOLE_NS));
        assert_eq!(trips.timed(), Timed { count: 3, sum_ns: 6 * MS, bounds_ns: Some((MS, 3 * MS)) });
    }
}
