//! Packets with gaps between them in, windows out: each message is in exactly one of them.

use proptest::prelude::*;

use super::*;
use crate::apart::tests::any_frames;
use crate::compound::tests::ranks;
use crate::testing::*;

const MS: i64 = 1_000_000;

/// Frames, each so many ms after the one before, which may be less than nothing.
fn windows(frames: &[Vec<u8>], gaps: &[i64], width_ns: i64, least_ops: usize) -> (Vec<Window>, Decoder) {
    let mut found = Vec::new();
    let hand = |window| {
        found.push(window);
        true
    };
    let size = Size { first_ops: least_ops, least_ops };
    let mut windows = Windows::new(Decoder::new(ranks().clone()), width_ns, size, None, hand);
    let mut t_ns = 1_000_000 * MS;
    for (frame, gap) in frames.iter().zip(gaps.iter().cycle()) {
        t_ns += gap * MS;
        let packet = Packet { t_ns, link: 1, captured: frame, wire_len: frame.len() as u32, interface: 0, id: 0 };
        Take::packet(&mut windows, &packet);
    }
    let decoder = windows.end();
    (found, decoder)
}

proptest! {
    #![proptest_config(cases(500))]

    /// However packets are spread over time, wherever they are cut, and however many ops a window needs: messages and packets add up, rows lead to rows
    /// that are there, and what ended in a window did so before its end.
    #[test]
    fn sums(
        frames in any_frames(),
        gaps in prop::collection::vec(-900i64..4000, 1..40),
        width in 1i64..5000,
        least_ops in prop_oneof![Just(0usize), 1..8usize],
    ) {
        let (found, decoder) = windows(&frames, &gaps, width * MS, least_ops);
        let sum = |of: fn(&Contents) -> u64| found.iter().map(|window| of(&window.contents)).sum::<u64>();
        prop_assert_eq!(sum(|one| one.counts.kinds.iter().sum()), frames.len() as u64);
        let rows = sum(|one| 2 * one.pairing.ops.t0.len() as u64 + one.pairing.loose.op.len() as u64);
        prop_assert_eq!(rows, decoder.tally.messages);
        for (number, window) in found.iter().enumerate() {
            let pairing = &window.contents.pairing;
            let ops = pairing.ops.t0.len() as i32;
            prop_assert_eq!(pairing.callers.uid.len() as i32, ops);
            let leads = [&pairing.loose.op, &pairing.names.op, &pairing.slots.op, &pairing.failures.op];
            prop_assert!(leads.iter().all(|rows| rows.iter().all(|op| (-1..ops).contains(op))));
            let resent = pairing.resent.op.iter().chain(&pairing.blocked.op).chain(&pairing.files.op);
            prop_assert!(resent.clone().all(|op| (0..ops).contains(op)));
            let connections = window.contents.connections.len();
            prop_assert!(pairing.ops.conn.iter().all(|conn| (*conn as usize) < connections));
            if number + 1 < found.len() {
                prop_assert!(pairing.ops.t3.iter().all(|t3| *t3 < window.end_ns));
            }
        }
    }
}

/// A capture whose clock jumps by a century is not cut into the windows in between.
#[test]
fn gaps() {
    let op = |host: u8| [tcp((host, 700), SERVER).data(&record(&read(1, 0, 512))).frame(), vec![0; 60]];
    let frames: Vec<_> = (10..14).flat_map(op).collect();
    let (found, _) = windows(&frames, &[0, 3_000_000_000_000, -3_000_000_000_000], 1000 * MS, 0);
    assert!(found.len() < 12, "{}", found.len());
    assert_eq!(found.iter().map(|one| one.contents.pairing.loose.op.len()).sum::<usize>(), 4);
}

/// Who has enough is handed no more, and the reading ends.
#[test]
fn enough() {
    let mut windows = Windows::new(Decoder::new(ranks().clone()), 1000 * MS, Size::default(), None, |_| false);
    let frame = tcp((10, 700), SERVER).data(&record(&read(1, 0, 512))).frame();
    for second in 0..20 {
        let t_ns = second * 1000 * MS;
        let packet = Packet { t_ns, link: 1, captured: &frame, wire_len: frame.len() as u32, interface: 0, id: 0 };
        Take::packet(&mut windows, &packet);
    }
    assert!(matches!(windows.full(), Some(Error::Stopped)));
}

/// A decoder that is replaced in mid-capture hands out all that it has, says so, and nothing is lost or counted twice.
#[test]
fn a_decoder_is_replaced() {
    let (mut found, mut renewed) = (Vec::new(), 0);
    let hand = |window: Window| {
        renewed += usize::from(window.behind == Behind::Another);
        found.push((window.begin_ns, window.end_ns, window.contents.counts.kinds.iter().sum::<u64>()));
        true
    };
    let live = Arc::new(Live::new(1 << 20));
    let mut windows =
        Windows::new(Decoder::new(ranks().clone()), 1000 * MS, Size::default(), Some(Arc::clone(&live)), hand);
    let frame = [0; 60];
    for number in 0..100 {
        let packet = Packet { t_ns: number * 100 * MS, link: 1, captured: &frame, wire_len: 60, interface: 0, id: 0 };
        Take::packet(&mut windows, &packet);
        if number == 42 {
            live.renew_ns.store(5_550 * MS, Ordering::Relaxed);
        }
    }
    assert_eq!(windows.packets(), 100);
    windows.end();
    assert_eq!(renewed, 1);
    assert_eq!(found.iter().map(|one| one.2).sum::<u64>(), 100);
    assert!(found.windows(2).all(|pair| pair[0].1 == pair[1].0), "{found:?}");
    assert!(found.iter().any(|one| one.1 == 5_600 * MS));
    assert_eq!(live.newest_ns.load(Ordering::Relaxed), 9_900 * MS);
}
