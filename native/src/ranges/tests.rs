use proptest::prelude::*;

use super::*;
use crate::testing::cases;

#[test]
fn what_joins_on_is_new_and_what_leaves_a_hole_is_ahead() {
    let mut seen = Ranges::at(0);
    assert_eq!(seen.take(0, 10), Novelty::New);
    assert_eq!(seen.take(20, 30), Novelty::Ahead);
    assert_eq!(seen.take(12, 14), Novelty::Late);
    assert_eq!(seen.take(12, 14), Novelty::Repeated);
    assert_eq!(seen.take(0, 40), Novelty::Late);
    assert_eq!(seen.take(0, 41), Novelty::Repeated);
    assert_eq!((seen.high, seen.missing(41)), (41, 0));
}

#[test]
fn what_lies_in_front_of_the_first_byte_was_not_seen() {
    let mut seen = Ranges::at(100);
    seen.take(100, 110);
    assert_eq!(seen.take(80, 90), Novelty::Late);
    assert_eq!(seen.missing(110), 10);
    assert_eq!(seen.take(85, 95), Novelty::Late);
    assert_eq!(seen.take(80, 95), Novelty::Repeated);
    assert_eq!(seen.missing(110), 5);
}

#[test]
fn what_was_acknowledged_and_never_seen_is_missing() {
    let mut seen = Ranges::at(0);
    seen.take(0, 10);
    seen.take(20, 30);
    assert_eq!([5, 15, 30, 35].map(|acked| seen.missing(acked)), [0, 5, 10, 15]);
}

#[test]
fn holes_are_bounded_and_counted() {
    let mut seen = Ranges::at(0);
    for at in 0..10_000 {
        seen.take(2 * at + 1, 2 * at + 2);
    }
    assert!(seen.holes.len() <= MOST);
    assert_eq!(seen.missing(20_000), 10_000);
}

proptest! {
    #![proptest_config(cases(512))]

    /// The same as a list of bytes would say.
    #[test]
    fn the_holes_are_the_bytes_that_were_not_seen(pieces in prop::collection::vec((0..60_i64, 1..12_i64), 1..40)) {
        let mut seen = Ranges::at(pieces[0].0);
        let mut bytes = [false; 80];
        let (mut low, mut high) = (pieces[0].0, pieces[0].0);
        for (start, size) in pieces {
            let end = start + size;
            let piece = start as usize..end as usize;
            let late = start < low || (start..end.min(high)).any(|at| !bytes[at as usize]);
            let want = match start {
                _ if start == high => Novelty::New,
                _ if start > high => Novelty::Ahead,
                _ if late => Novelty::Late,
                _ => Novelty::Repeated,
            };
            prop_assert_eq!(seen.take(start, end), want);
            bytes[piece].fill(true);
            (low, high) = (low.min(start), high.max(end));
            for acked in low..80 {
                let missing = (low..acked).filter(|at| !bytes[*at as usize]).count();
                prop_assert_eq!(seen.missing(acked), missing as i64);
            }
        }
    }
}
