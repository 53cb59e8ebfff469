use super::*;
use crate::decoder::{Decoder, Wanted};
use crate::link::FIN;
use crate::testing::*;

fn segment(seq: u32, ack: u32, len: u32, flags: u8) -> Segment<'static> {
    Segment { seq, ack, flags, len, ..bare_syn(&[], 20) }
}

fn about(direction: usize, frame: u32) -> About {
    About { direction, frame, t_ns: i64::from(frame) * 1_000, again: false, is_rpc: true }
}

/// Positions of what a talk takes: (direction, segment) one after the other.
fn positions(all: &[(usize, Segment<'static>)]) -> Vec<(i64, i64)> {
    let mut talk = Talk::default();
    for (frame, (direction, one)) in all.iter().enumerate() {
        talk.take(one, &about(*direction, frame as u32 + 1));
    }
    talk.rows.iter().map(|row| (row.seq, row.ack)).collect()
}

#[test]
fn positions_begin_behind_the_syn_and_do_not_wrap() {
    let last = u32::MAX;
    let found = positions(&[
        (0, segment(last - 9, 0, 0, SYN)),
        (1, segment(70, last - 8, 0, SYN | ACK)),
        (0, segment(last - 8, 71, 20, ACK)),
        (1, segment(71, 11, 0, ACK)),
        (0, segment(11, 71, 5, ACK)),
    ]);
    assert_eq!(found, [(0, -1), (0, 0), (0, 0), (0, 20), (20, 0)]);
}

#[test]
fn without_a_syn_they_begin_with_what_was_seen_first() {
    let found =
        positions(&[(1, segment(500, 900, 0, ACK)), (0, segment(900, 500, 10, ACK)), (0, segment(890, 500, 10, ACK))]);
    assert_eq!(found, [(0, 0), (0, 0), (-10, 0)]);
}

#[test]
fn a_number_that_cannot_be_moves_nothing() {
    let found =
        positions(&[(0, segment(0, 0, 10, ACK)), (1, segment(0, 1 << 30, 0, ACK)), (0, segment(10, 0, 10, ACK))]);
    assert_eq!(found, [(0, 0), (0, -1), (10, 0)]);
}

#[test]
fn data_that_lie_far_off_are_of_another_connection() {
    let mut talk = Talk::default();
    talk.take(&segment(0, 0, 10, ACK), &about(0, 1));
    assert!(!talk.is_over(0, &segment(1 << 28, 0, 1, ACK)));
    assert!(talk.is_over(0, &segment(1 << 29, 0, 1, ACK)));
    assert!(!talk.is_over(0, &segment(1 << 29, 0, 0, FIN | ACK)));
}

#[test]
fn before_there_is_rpc_little_is_kept_and_nothing_that_was_captured_twice() {
    let mut talk = Talk::default();
    for frame in 1..=3 * FEW as u32 {
        let one = segment(frame, 0, 1, ACK);
        talk.take(&one, &About { is_rpc: false, ..about(0, frame) });
        talk.take(&one, &About { is_rpc: false, ..about(0, frame) });
    }
    assert!(talk.rows.len() <= FEW);
    assert_eq!(talk.rows.last().map(|row| row.frame), Some(3 * FEW as i32));
    let each: std::collections::HashSet<_> = talk.rows.iter().map(|row| row.frame).collect();
    assert_eq!(each.len(), talk.rows.len());
}

fn decoded(asked: Wanted) -> Decoder {
    let mut capture = Capture::new();
    capture.keep_segments(asked);
    capture.handshake(CLIENT, SERVER);
    capture.later_us(100).tcp(&tcp(CLIENT, SERVER).data(&record(&read(7, 0, 4096))));
    capture.later_us(100).tcp(&tcp(SERVER, CLIENT).data(&record(&reply(7, &[]))));
    capture.tcp(&tcp((1, 800), (3, 443)).data(b"no RPC"));
    capture.end()
}

#[test]
fn segments_are_those_of_connections_with_rpc_where_they_are_asked_for() {
    assert!(decoded(Wanted::None).segments.is_none());
    let all = decoded(Wanted::All).segments.unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!(all[0].frame, [1, 2, 3, 4, 5]);
    assert_eq!(all[0].marks, [mark::SYN, mark::SYN | mark::BACK, 0, 0, mark::BACK]);
}

#[test]
fn too_many_are_given_up() {
    let mut capture = Capture::new();
    capture.keep_segments(Wanted::All);
    capture.handshake(CLIENT, SERVER);
    for xid in 0..4200 {
        let call = record(&read(xid, 0, 4096));
        capture.later_us(100).tcp(&tcp(CLIENT, SERVER).seq(1 + xid * call.len() as u32).data(&call));
    }
    let found = capture.end();
    assert!(found.segments.is_none());
    assert_eq!(found.tally.messages, 4200);
}

/// Calls of one connection, their replies, and a third of another connection.
fn many(wanted: Wanted, packets: u32) -> Decoder {
    let mut capture = Capture::new();
    capture.keep_segments(wanted);
    let mut sent = [1, 1, 1];
    for at in 0..packets {
        let (xid, which) = (at / 3, (at % 3) as usize);
        let message = if which == 1 { record(&reply(xid, &[])) } else { record(&read(xid, 0, 4096)) };
        let ends = [(CLIENT, SERVER), (SERVER, CLIENT), ((7, 900), SERVER)][which];
        capture.later_us(100).tcp(&tcp(ends.0, ends.1).seq(sent[which]).ack(sent[1 - which.min(1)]).data(&message));
        sent[which] += message.len() as u32;
    }
    capture.end()
}

#[test]
fn a_sample_is_of_whole_stretches_all_over_the_capture() {
    let (all, some) = (many(Wanted::All, 4000).segments.unwrap(), many(Wanted::Some, 4000).segments.unwrap());
    assert_eq!((all.len(), some.len()), (2, 2));
    let mut frames = Vec::new();
    for (all, some) in all.iter().zip(&some) {
        frames.extend(some.frame.iter().copied());
        // Positions are those of the whole stream.
        for (row, frame) in some.frame.iter().enumerate() {
            let there = all.frame.binary_search(frame).unwrap();
            assert_eq!((some.seq[row], some.ack[row]), (all.seq[there], all.ack[there]));
        }
    }
    frames.sort_unstable();
    // Of 62 stretches of 64 packets every fourth is what 1,024 rows have room for.
    let wanted: Vec<i32> = (1..=4000).filter(|frame| (frame >> 6) % 4 == 0).collect();
    assert_eq!(frames, wanted);
}

#[test]
fn a_sample_of_few_is_all_of_them() {
    let (all, some) = (many(Wanted::All, 900).segments.unwrap(), many(Wanted::Some, 900).segments.unwrap());
    let frames = |found: &[Segments]| found.iter().map(|one| one.frame.clone()).collect::<Vec<_>>();
    assert_eq!(frames(&some), frames(&all));
}

proptest::proptest! {
    #![proptest_config(cases(300))]

    #[test]
    fn positions_are_those_of_a_stream_that_never_wraps(
        isn in proptest::prelude::any::<u32>(),
        steps in proptest::collection::vec((-70_000i64..(1 << 27), 1u32..70_000), 1..60),
    ) {
        let mut at = 0;
        let mut wanted = Vec::new();
        let mut talk = Talk::default();
        for (frame, (step, len)) in steps.into_iter().enumerate() {
            at += if frame == 0 { 0 } else { step };
            wanted.push(at);
            talk.take(&segment(isn.wrapping_add(at as u32), 0, len, ACK), &about(0, frame as u32 + 1));
        }
        proptest::prop_assert_eq!(talk.rows.iter().map(|row| row.seq).collect::<Vec<_>>(), wanted);
    }
}
