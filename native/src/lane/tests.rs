use super::*;
use crate::capture::Error;
use crate::testing::{CLIENT, SERVER, syn, tcp};

/// What was taken: time, and the first byte of the packet.
#[derive(Default)]
struct Taken {
    packets: Vec<(i64, u8)>,
}

impl Take for Taken {
    fn packet(&mut self, packet: &Packet<'_>) {
        self.packets.push((packet.t_ns, packet.captured.first().copied().unwrap_or_default()));
    }

    fn packets(&self) -> u32 {
        self.packets.len() as u32
    }

    fn full(&self) -> Option<Error> {
        None
    }
}

const MS: i64 = 1_000_000;

fn packet(t_ns: i64, captured: &[u8]) -> Packet<'_> {
    Packet { t_ns, link: 1, captured, wire_len: captured.len() as u32, interface: 0, id: 0 }
}

/// The times in which packets with these times leave, where they come from, and what was put in front of others.
fn through(records: &[(i64, &[u8])]) -> (Vec<i64>, Vec<Run>, Late) {
    let mut taken = Taken::default();
    let mut lane = Lane::new(&mut taken);
    for ((t_ns, bytes), number) in records.iter().zip(1..) {
        lane.record(&packet(*t_ns, bytes), 0, number);
    }
    lane.caught_up(0, records.len() as u32 + 1);
    lane.end();
    let (runs, late) = (lane.moved().to_vec(), lane.late.first().copied().unwrap_or_default());
    (taken.packets.iter().map(|packet| packet.0).collect(), runs, late)
}

#[test]
fn packets_of_several_queues_leave_in_the_order_of_their_times() {
    let times = [0, 5, 3, 9, 4, 12, 11].map(|ms| ms * MS);
    let records: Vec<(i64, &[u8])> = times.iter().map(|t_ns| (*t_ns, &[][..])).collect();
    let (left, runs, late) = through(&records);
    assert_eq!(left, [0, 3, 4, 5, 9, 11, 12].map(|ms| ms * MS));
    assert_eq!(late, Late { records: 3, most_ns: 5 * MS });
    let places: Vec<(u32, u32)> = runs.iter().map(|run| (run.begin, run.number)).collect();
    assert_eq!(places, [(1, 1), (2, 3), (3, 5), (4, 2), (5, 4), (6, 7), (7, 6)]);
}

#[test]
fn what_is_in_order_stays_as_it_is() {
    let records: Vec<(i64, &[u8])> = (0..300).map(|ms| (ms * MS, &[][..])).collect();
    let (left, runs, late) = through(&records);
    assert!(left.is_sorted() && left.len() == 300);
    assert_eq!((runs, late), (Vec::new(), Late::default()));
}

/// A call and its reply, and the ACK of that, again and again: one frame each.
fn talk(rounds: u32) -> Vec<Vec<u8>> {
    let mut frames = vec![syn(CLIENT, SERVER, 99).frame(), syn(SERVER, CLIENT, 199).ack(100).frame()];
    for round in 0..rounds {
        let (asked, told) = (100 + round * 4, 200 + round * 4);
        frames.push(tcp(CLIENT, SERVER).seq(asked).ack(told).data(b"call").frame());
        frames.push(tcp(SERVER, CLIENT).seq(told).ack(asked + 4).data(b"told").frame());
    }
    frames
}

#[test]
fn a_clock_that_is_set_back_by_little_is_no_disorder() {
    let frames = talk(40);
    let stamped = frames.iter().zip(0..).map(|(frame, at)| (at * MS - i64::from(at > 40) * 30 * MS, frame.as_slice()));
    let records: Vec<(i64, &[u8])> = stamped.collect();
    let (left, runs, late) = through(&records);
    assert_eq!(left, records.iter().map(|record| record.0).collect::<Vec<_>>());
    assert_eq!((runs, late), (Vec::new(), Late::default()));
}

#[test]
fn a_clock_that_is_set_back_by_much_is_no_disorder() {
    let records: Vec<(i64, &[u8])> = (0..100).map(|at| (at * MS - i64::from(at > 50) * 5000 * MS, &[][..])).collect();
    let (left, runs, _) = through(&records);
    assert_eq!(left, records.iter().map(|record| record.0).collect::<Vec<_>>());
    assert!(runs.is_empty());
}

#[test]
fn two_clocks_for_what_is_sent_and_what_comes_are_no_disorder() {
    for ahead_ms in [-20, 20] {
        let frames = talk(60);
        let stamped = frames.iter().zip(0..).map(|(frame, at)| (at * MS + (at & 1) * ahead_ms * MS, frame.as_slice()));
        let records: Vec<(i64, &[u8])> = stamped.collect();
        let (left, ..) = through(&records);
        assert_eq!(left, records.iter().map(|record| record.0).collect::<Vec<_>>());
    }
}

/// Each connection is over before the next packet would come, so that all of one direction stands in front of the other.
#[test]
fn two_clocks_are_told_by_short_connections() {
    let frames: Vec<Vec<u8>> = (0..20).flat_map(|_| talk(1)).collect();
    let at = |place: usize| (place as i64 / 4 * 50 + place as i64 % 4) * MS - (place as i64 & 1) * 20 * MS;
    let records: Vec<(i64, &[u8])> = frames.iter().enumerate().map(|(place, frame)| (at(place), &frame[..])).collect();
    assert_eq!(through(&records).0, records.iter().map(|record| record.0).collect::<Vec<_>>());
}

#[test]
fn tcp_whose_queues_are_written_in_turns_is_put_in_order() {
    let frames = talk(60);
    let mut records: Vec<(i64, &[u8])> =
        frames.iter().zip(0..).map(|(frame, at)| (at * MS, frame.as_slice())).collect();
    for some in records.chunks_mut(12) {
        some.sort_by_key(|(t_ns, _)| ((t_ns / MS) & 1, *t_ns));
    }
    let (left, runs, late) = through(&records);
    assert!(left.is_sorted() && !runs.is_empty() && late.most_ns == 9 * MS);
}

/// Behind so many in order that none is looked at, one is too late for its place, and those behind it are put in order.
#[test]
fn disorder_that_begins_late_is_seen() {
    let calm = i64::from(LOOKED_AT) + 10;
    let times = (0..calm).chain([0, -3, 4, 2, 9, 8, 14, 12].map(|more| calm + 5 + more));
    let records: Vec<(i64, &[u8])> = times.map(|ms| (ms * MS, &[][..])).collect();
    let (left, runs, late) = through(&records);
    assert_eq!(left.iter().zip(&left[1..]).filter(|(one, other)| one > other).count(), 1);
    assert_eq!((runs[0], late.records), (Run { file: 0, begin: 1, number: 1 }, 3));
    let behind = runs[1..].iter().map(|run| (i64::from(run.begin) - calm, i64::from(run.number) - calm));
    let behind: Vec<(i64, i64)> = behind.collect();
    assert_eq!(behind, [(3, 4), (4, 3), (5, 6), (6, 5), (7, 8), (8, 7)]);
}

#[test]
fn no_more_is_held_than_may_be() {
    let mut taken = Taken::default();
    let mut lane = Lane::new(&mut taken);
    for number in 1..2000_u32 {
        lane.record(&packet(i64::from(number ^ 1), &[0; 100]), 0, number);
        assert!(lane.in_line.len() + lane.by_time.len() <= MOST_HELD + 1);
        assert!(lane.slots.len() <= MOST_HELD + 2);
    }
    lane.end();
    assert!(taken.packets.is_sorted() && taken.packets.len() == 1999);
}

proptest::proptest! {
    #![proptest_config(crate::testing::cases(200))]

    /// Each packet leaves once, whatever the times are, and its place in the file is known.
    #[test]
    fn each_packet_leaves_once(steps in proptest::collection::vec(-40_i64..60, 0..400), far in 0_usize..400) {
        let mut t_ns = 1000 * MS;
        let times: Vec<i64> = steps.iter().enumerate().map(|(at, step)| {
            t_ns += step * MS / 2 - i64::from(at == far) * 800 * MS;
            t_ns
        }).collect();
        let records: Vec<(i64, &[u8])> = times.iter().map(|t_ns| (*t_ns, &[][..])).collect();
        let (left, runs, _) = through(&records);
        let mut number = 0;
        for (at, t_ns) in left.iter().enumerate() {
            number = match runs.iter().find(|run| run.begin as usize == at + 1) {
                Some(run) => run.number,
                None => number + 1,
            };
            proptest::prop_assert_eq!(*t_ns, times[number as usize - 1]);
        }
        let (mut left, mut times) = (left, times);
        left.sort_unstable();
        times.sort_unstable();
        proptest::prop_assert_eq!(left, times);
    }
}
