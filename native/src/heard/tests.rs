use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn places_are_those_of_a_search_by_halves(
        mut column in prop::collection::vec(-20i64..20, 0..40),
        wanted in prop::collection::vec(-25i64..25, 0..40),
    ) {
        column.sort_unstable();
        let halves: Vec<i64> = wanted.iter().map(|one| column.partition_point(|row| row < one) as i64).collect();
        prop_assert_eq!(places(&column, &wanted), halves);
    }
}

#[test]
fn far_s_segments_stand_in_the_order_of_its_clock_and_near_s_in_that_of_the_capture() {
    let far = mark::BACK;
    let rows = Rows {
        t_ns: &[10, 20, 30, 40, 50, 60],
        seq: &[0, 0, 100, 5, 0, 9],
        size: &[100, 5, 50, 4, 100, 0],
        ack: &[0, 150, 9, 100, 9, 150],
        ts_val: &[7, 0, 7, u32::MAX - 1, 8, NONE],
        marks: &[0, far, 0, far, mark::AGAIN, far],
    };
    let found = heard(&rows, 0);
    assert_eq!(found.place, [-2, 1, -3, 0, -4, -1]);
    assert_eq!((found.ticks, found.ack, found.t_ns), (vec![0, 2], vec![100, 150], vec![40, 20]));
    assert_eq!((found.seq, found.size, found.twice), (vec![5, 0], vec![4, 5], vec![0, 0]));
    assert_eq!((found.sent_ns, found.end, found.again), (vec![10, 30, 50], vec![100, 150, 100], vec![0, 0, 1]));
}
