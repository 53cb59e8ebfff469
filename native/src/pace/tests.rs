//! Times in, the busiest second out.

use std::collections::HashMap;

use proptest::prelude::*;

use super::Pace;
use crate::testing::cases;

const MS: i64 = 1_000_000;

fn busiest(times_ns: &[i64]) -> u32 {
    let mut pace = Pace::default();
    times_ns.iter().for_each(|t_ns| pace.packet(*t_ns));
    pace.busiest_second()
}

/// Seconds count from the first packet: what is within one of them counts together, the last nanosecond included.
#[test]
fn seconds_of_the_first_packet() {
    assert_eq!(busiest(&[]), 0);
    assert_eq!(busiest(&[700 * MS]), 1);
    assert_eq!(busiest(&[700 * MS, 1699 * MS, 1700 * MS, 2700 * MS]), 2);
    assert_eq!(busiest(&[700 * MS, 1700 * MS - 1]), 2);
    assert_eq!(busiest(&[0, i64::MAX, i64::MAX - 1]), 2);
}

/// A packet with an earlier time belongs to its own second, in front of the first packet, too.
#[test]
fn times_that_go_back() {
    let t = |ms: i64| 1_700_000_000_000 * MS + ms * MS;
    assert_eq!(busiest(&[t(0), t(1500), t(500), t(1600), t(600), t(700)]), 4);
    assert_eq!(busiest(&[t(0), t(-1), t(-999), t(-1001)]), 2);
    let mut pace = Pace::default();
    [t(0), t(30), t(10), t(40), t(25)].into_iter().for_each(|t_ns| pace.packet(t_ns));
    assert_eq!((pace.backward_times, pace.largest_backward_ns), (2, 20 * MS));
}

proptest! {
    #![proptest_config(cases(256))]

    /// As a table of all seconds says, as long as times do not go back by a minute.
    #[test]
    fn as_a_table_says(steps in prop::collection::vec(-4_000i64..5_000, 1..200), first in 0i64..10_000) {
        let mut t_ms = 20_000_000 + first;
        let mut times = vec![t_ms * MS];
        for step in steps {
            // Not further back than the window reaches from the latest packet.
            t_ms = (t_ms + step).max(times.iter().max().unwrap() / MS - 60_000);
            times.push(t_ms * MS);
        }
        let mut seconds: HashMap<i64, u32> = HashMap::new();
        for t_ns in &times {
            *seconds.entry((t_ns - times[0]).div_euclid(1000 * MS)).or_default() += 1;
        }
        prop_assert_eq!(busiest(&times), *seconds.values().max().unwrap());
    }
}
