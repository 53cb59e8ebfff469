//! The times of packets in, the busiest second and the largest step back out.

const SECOND_NS: u64 = 1_000_000_000;
/// Seconds whose packets are still counted when time has gone on, or back: those of a minute, and a power of two.
const WINDOW: usize = 64;

/// Seconds count from the first packet; in memory that does not grow.
pub struct Pace {
    /// Most packets in one second of the capture's clock, of those that are over.
    most: u32,
    first_ns: i64,
    /// Packets of the second that began at `since_ns`.
    since_ns: i64,
    packets: u32,
    /// The packets of other seconds, in the places that their numbers have in the window.
    window: [(i64, u32); WINDOW],
    pub backward_times: u64,
    pub largest_backward_ns: i64,
    previous_ns: i64,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            most: 0,
            first_ns: i64::MIN,
            since_ns: i64::MIN,
            packets: 0,
            window: [(i64::MIN, 0); WINDOW],
            backward_times: 0,
            largest_backward_ns: 0,
            previous_ns: i64::MIN,
        }
    }
}

impl Pace {
    /// The next packet, with a time since 1970.
    #[inline]
    pub fn packet(&mut self, t_ns: i64) {
        if t_ns < self.previous_ns {
            self.backward_times += 1;
            self.largest_backward_ns = self.largest_backward_ns.max(self.previous_ns - t_ns);
        }
        self.previous_ns = t_ns;
        if t_ns.wrapping_sub(self.since_ns) as u64 >= SECOND_NS {
            self.turn(t_ns);
        }
        self.packets += 1;
    }

    /// Go on to the second of `t_ns`, which may have been there before.
    #[cold]
    fn turn(&mut self, t_ns: i64) {
        if self.first_ns == i64::MIN {
            self.first_ns = t_ns;
        } else {
            self.window[Self::place(self.second(self.since_ns))] = (self.since_ns, self.packets);
            self.most = self.most.max(self.packets);
        }
        let second = self.second(t_ns);
        self.since_ns = self.first_ns + second * SECOND_NS as i64;
        let (since_ns, packets) = self.window[Self::place(second)];
        self.packets = if since_ns == self.since_ns { packets } else { 0 };
    }

    /// Most packets in one second of the capture's clock. Where times go back by more than a minute, what was counted
    /// before of the seconds that come again is not added.
    pub fn busiest_second(&self) -> u32 {
        self.most.max(self.packets)
    }

    fn second(&self, t_ns: i64) -> i64 {
        (t_ns - self.first_ns).div_euclid(SECOND_NS as i64)
    }

    fn place(second: i64) -> usize {
        second.rem_euclid(WINDOW as i64) as usize
    }
}

#[cfg(test)]
mod tests;
