//! Timelines in, the messages that were sent again or came late out. record(read) has 68 bytes, record(reply) 32.

use super::{Again, MOST_ROWS, RECENT, Recent, Resent, Stretch, WAITING};
use crate::decoder::Decoder;
use crate::link::ACK;
use crate::place::Row;
use crate::testing::*;

const REPEATED: i8 = Again::Repeated as i8;
const LATE: i8 = Again::Late as i8;

fn c(seq: u32) -> Tcp {
    tcp(CLIENT, SERVER).seq(seq)
}

fn s(seq: u32) -> Tcp {
    tcp(SERVER, CLIENT).seq(seq)
}

fn call(xid: u32) -> Vec<u8> {
    record(&read(xid, 0, 512))
}

fn answer(xid: u32) -> Vec<u8> {
    record(&reply(xid, &[]))
}

/// XID, is it the reply, kind, frame, bytes.
fn resent(decoder: &Decoder) -> Vec<(u32, bool, i8, i32, i64)> {
    let (resent, xid) = (&decoder.pairing.resent, &decoder.pairing.ops.xid);
    let line = |row: usize| {
        let op = resent.op[row] as usize;
        (xid[op], resent.is_reply[row] == 1, resent.kind[row], resent.frame[row], resent.bytes[row])
    };
    (0..resent.op.len()).map(line).collect()
}

/// XID, is it the reply, until when it was blocked.
fn blocked(decoder: &Decoder) -> Vec<(u32, bool, i64)> {
    let (blocked, xid) = (&decoder.pairing.blocked, &decoder.pairing.ops.xid);
    let line = |row: usize| (xid[blocked.op[row] as usize], blocked.is_reply[row] == 1, blocked.until_ns[row]);
    (0..blocked.op.len()).map(line).collect()
}

/// A call behind a lost segment waits until that one has come; so does a reply. What was sent again itself does not.
#[test]
fn blocked_behind_a_hole() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER); // 1 to 3
    capture.at_us(0).tcp(&c(1).data(&call(1))); // 4
    capture.at_us(100).tcp(&c(137).data(&call(3))); // 5: the second is missing
    capture.at_us(200).tcp(&c(205).data(&call(4)[..30])); // 6
    capture.at_us(300).tcp(&c(69).data(&call(2))); // 7
    capture.at_us(400).tcp(&c(235).data(&call(4)[30..])); // 8
    capture.at_us(500).tcp(&s(33).ack(273).data(&answer(2))); // 9
    capture.at_us(600).tcp(&s(65).ack(273).data(&join(&[&answer(3), &answer(4)]))); // 10
    capture.at_us(900).tcp(&s(1).ack(273).data(&answer(1))); // 11
    let decoder = capture.end();
    let expected = [(3, false, 300_000), (3, true, 900_000), (4, true, 900_000), (2, true, 900_000)];
    assert_eq!(blocked(&decoder), expected);
    assert_eq!(decoder.pairing.ops.t1, [0, 100_000, 400_000, 300_000]); // by the calls' first frames
}

/// Behind a hole that was given up, or to which nothing came until the capture ended, nobody knows how long it waited.
#[test]
fn not_blocked_behind_what_never_came() {
    for acks in [0, 6] {
        let mut capture = Capture::new();
        capture.handshake(CLIENT, SERVER);
        capture.at_us(0).tcp(&c(1).data(&call(1)));
        capture.at_us(100).tcp(&c(137).data(&call(3)));
        for _ in 0..acks {
            capture.later_us(1).tcp(&s(1).ack(205));
        }
        capture.at_us(300).tcp(&s(1).ack(205).data(&join(&[&answer(1), &answer(2), &answer(3)])));
        assert_eq!(blocked(&capture.end()), []);
    }
}

/// Every message with bytes in what was sent again is named, calls and replies, with these bytes and the segment's frame.
#[test]
fn sent_again() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER); // 1 to 3
    capture.tcp(&c(1).data(&join(&[&call(1), &call(2), &call(3)]))); // 4: three calls of 68 bytes
    capture.tcp(&s(1).ack(205).data(&join(&[&answer(1), &answer(2), &answer(3)]))); // 5
    capture.at_us(900).tcp(&c(1).data(&join(&[&call(1), &call(2), &call(3)])[..100])); // 6: the first, 32 of the second
    capture.tcp(&s(33).data(&join(&[&answer(2), &answer(3)]))); // 7
    capture.tcp(&c(204).data(&call(3)[67..])); // 8: one byte is a keep-alive
    let decoder = capture.end();
    assert_eq!(
        resent(&decoder),
        [
            (1, false, REPEATED, 6, 68),
            (2, false, REPEATED, 6, 32),
            (2, true, REPEATED, 7, 32),
            (3, true, REPEATED, 7, 32)
        ]
    );
    assert_eq!((decoder.pairing.resent.t_ns[0], decoder.pairing.resent.dropped), (900_000, 0));
}

/// A segment that is partly old and partly new names the messages of its old bytes only.
#[test]
fn partly_new() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&c(1).data(&join(&[&call(1), &call(2)])[..100])); // 4: 32 bytes of call 2
    capture.tcp(&c(1).data(&join(&[&call(1), &call(2), &call(3)]))); // 5: from the beginning on
    capture.tcp(&s(1).ack(205).data(&join(&[&answer(1), &answer(2), &answer(3)]))); // 6
    let decoder = capture.end();
    assert_eq!(resent(&decoder), [(1, false, REPEATED, 5, 68), (2, false, REPEATED, 5, 32)]);
    let client = &decoder.finished[0].traffic;
    assert_eq!((client.retransmissions, client.retransmitted_bytes, client.out_of_order), (1, 100, 0));
    assert_eq!(decoder.repeated, 1); // of call 2 nothing was known then
}

/// What fills a hole came late: the messages that have bytes in it are named, and what lay behind the hole is not.
#[test]
fn came_late() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&c(1).data(&call(1))); // 4
    capture.tcp(&c(205).data(&call(4))); // 5: calls 2 and 3 are missing
    capture.tcp(&c(69).data(&join(&[&call(2), &call(3)]))); // 6
    capture.tcp(&s(1).ack(273).data(&join(&[&answer(1), &answer(2), &answer(3), &answer(4)]))); // 7
    let decoder = capture.end();
    assert_eq!(resent(&decoder), [(2, false, LATE, 6, 68), (3, false, LATE, 6, 68)]);
    let client = &decoder.finished[0].traffic;
    assert_eq!((client.out_of_order, client.late_bytes, client.retransmissions), (1, 136, 0));
}

/// Behind a hole nothing is known of messages yet: what comes again there is named when the hole is filled.
#[test]
fn behind_a_hole() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&c(69).data(&join(&[&call(2), &call(3)]))); // 4: call 1 is missing
    capture.tcp(&c(103).data(&join(&[&call(2), &call(3)])[34..])); // 5: again, without 34 bytes of call 2
    capture.tcp(&c(341).data(&call(6))); // 6: calls 4 and 5 are missing, too
    capture.tcp(&c(205).data(&call(4))); // 7
    capture.tcp(&c(1).data(&call(1))); // 8
    capture.tcp(&c(273).data(&call(5))); // 9
    let answers: Vec<u8> = (1..=6).flat_map(answer).collect();
    capture.tcp(&s(1).ack(409).data(&answers)); // 10
    let decoder = capture.end();
    assert_eq!(
        resent(&decoder),
        [
            (2, false, REPEATED, 5, 34),
            (3, false, REPEATED, 5, 68),
            (4, false, LATE, 7, 68),
            (1, false, LATE, 8, 68),
            (5, false, LATE, 9, 68)
        ]
    );
}

/// One segment over seen bytes, a hole, and seen bytes again: one row for each kind, with the sum of its bytes.
#[test]
fn old_and_late_in_one_segment() {
    let data = record(&write(1, 0, &[7; 924])); // 1000 bytes
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&c(1).data(&data[..300])); // 4
    capture.tcp(&c(501).data(&data[500..600])); // 5: without 301 to 500
    capture.tcp(&c(701).data(&data[700..800])); // 6: without 601 to 700
    capture.tcp(&c(201).data(&data[200..])); // 7: all from 201 on, of which 801 to 1000 are new
    capture.tcp(&s(1).ack(1001).data(&answer(1))); // 8
    let decoder = capture.end();
    assert_eq!(resent(&decoder), [(1, false, REPEATED, 7, 300), (1, false, LATE, 7, 300)]);
    let client = &decoder.finished[0].traffic;
    assert_eq!((client.retransmissions, client.retransmitted_bytes), (1, 300));
    assert_eq!((client.out_of_order, client.late_bytes), (1, 300));
}

/// A message in several record fragments has its bytes of all of them, wherever the retransmission falls.
#[test]
fn several_fragments() {
    let message = write(1, 0, &[7; 928]); // 1000 bytes
    let data = fragments(&message, &[300, 300]); // marks at 0, 304, 608; 1012 bytes
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&c(1).data(&data[..400])); // 4
    capture.tcp(&c(1).data(&data[..400])); // 5: the message goes on
    capture.tcp(&c(401).data(&data[400..])); // 6
    capture.tcp(&c(201).data(&data[200..])); // 7
    capture.tcp(&s(1).ack(1013).data(&answer(1))); // 8
    assert_eq!(resent(&capture.end()), [(1, false, REPEATED, 5, 400), (1, false, REPEATED, 7, 812)]);
}

/// A header in several segments: what comes again in front of its last byte is the message's, too.
#[test]
fn header_not_complete() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&c(1).data(&call(1)[..2])); // 4: half a record mark
    capture.tcp(&c(1).data(&call(1)[..2])); // 5
    capture.tcp(&c(3).data(&call(1)[2..30])); // 6
    capture.tcp(&c(1).data(&call(1)[..30])); // 7
    capture.tcp(&c(31).data(&call(1)[30..])); // 8
    capture.tcp(&s(1).ack(69).data(&answer(1))); // 9
    assert_eq!(resent(&capture.end()), [(1, false, REPEATED, 5, 2), (1, false, REPEATED, 7, 30)]);
}

/// The very packet captured twice is no retransmission.
#[test]
fn captured_twice() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&c(1).id(7).data(&call(1))); // 4
    capture.tcp(&c(1).id(7).data(&call(1))); // 5
    capture.tcp(&s(1).ack(69).data(&answer(1))); // 6
    let decoder = capture.end();
    assert_eq!((resent(&decoder), decoder.duplicate_packets), (vec![], 1));
}

/// Messages that end in no op are counted: an unanswered call, a reply without a call, what RPC sends again.
#[test]
fn messages_in_no_op() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&c(1).data(&call(1))); // 4: never answered
    capture.tcp(&c(1).data(&call(1))); // 5
    capture.tcp(&c(69).data(&call(2))); // 6
    capture.tcp(&s(1).data(&answer(9))); // 7: nobody called
    capture.tcp(&s(1).data(&answer(9))); // 8
    capture.tcp(&c(137).data(&call(2))); // 9: RPC asks again
    capture.tcp(&c(137).data(&call(2))); // 10: and TCP sends that again
    capture.tcp(&s(33).data(&answer(2))); // 11
    capture.tcp(&s(33).data(&answer(2))); // 12
    let decoder = capture.end();
    assert_eq!((resent(&decoder), decoder.pairing.resent.dropped), (vec![(2, true, REPEATED, 12, 32)], 3));
}

/// Rows follow their ops through everything that gives these other numbers: a reply in front of its call, ops that a
/// hole held up, a call that goes on over a new connection.
#[test]
fn ops_with_new_numbers() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER); // 1 to 3
    capture.at_us(0).tcp(&c(1).data(&call(1))); // 4: answered on the next connection
    capture.tcp(&c(1).data(&call(1))); // 5
    capture.tcp(&c(137).data(&call(3))); // 6: call 2 is missing
    capture.tcp(&s(1).ack(1).data(&answer(3))); // 7: in front of its call, as far as can be seen
    capture.tcp(&s(1).ack(1).data(&answer(3))); // 8
    capture.tcp(&c(69).data(&call(2))); // 9
    capture.tcp(&s(33).ack(205).data(&answer(2))); // 10
    let new = (CLIENT.0, CLIENT.1 + 1);
    capture.at_us(2_000_000).handshake(new, SERVER); // 11 to 13
    capture.tcp(&tcp(new, SERVER).seq(1).data(&call(1))); // 14
    capture.tcp(&tcp(new, SERVER).seq(1).data(&call(1))); // 15: of a call that is not the op's
    capture.tcp(&tcp(SERVER, new).seq(1).ack(69).data(&answer(1))); // 16
    capture.tcp(&tcp(SERVER, new).seq(1).ack(69).data(&answer(1))); // 17
    let decoder = capture.end();
    assert_eq!(decoder.pairing.ops.xid, [1, 3, 2]);
    assert_eq!(
        resent(&decoder),
        [(1, false, REPEATED, 5, 68), (1, true, REPEATED, 17, 32), (3, true, REPEATED, 8, 32), (2, false, LATE, 9, 68)]
    );
    assert_eq!(decoder.pairing.resent.dropped, 1);
}

/// What was given up as lost and comes after all was not seen before; the second time it was.
#[test]
fn after_it_was_given_up() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&c(1).data(&call(1))); // 4
    capture.tcp(&c(137).data(&call(3))); // 5: call 2 is missing
    for _ in 0..5 {
        capture.tcp(&s(1).ack(205)); // 6 to 10
    }
    capture.tcp(&c(69).data(&call(2))); // 11
    capture.tcp(&c(35).data(&join(&[&call(1), &call(2), &call(3)])[34..])); // 12
    let decoder = capture.end();
    let client = &decoder.finished[0].traffic;
    assert_eq!((client.out_of_order, client.late_bytes), (1, 68));
    assert_eq!((client.retransmissions, client.retransmitted_bytes), (1, 170));
}

/// What is older than the first byte that was captured was not seen before either, and has no place behind it.
#[test]
fn from_before_the_capture() {
    let mut capture = Capture::new();
    capture.tcp(&c(69).data(&call(2))); // 1
    capture.tcp(&s(1).ack(137).data(&answer(2))); // 2
    capture.tcp(&c(1).data(&join(&[&call(1), &call(2)]))); // 3
    let decoder = capture.end();
    assert_eq!(resent(&decoder), [(2, false, REPEATED, 3, 68)]);
    let client = &decoder.finished[0].traffic;
    assert_eq!((client.late_bytes, client.retransmitted_bytes), (68, 68));
    assert_eq!(decoder.events.offset, [-1, -1]);
}

/// A connection that is reset and begins again with other numbers has nothing in common with the one before.
#[test]
fn other_connections() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&c(1).data(&call(1)));
    capture.tcp(&syn(CLIENT, SERVER, 5000));
    capture.tcp(&syn_ack(SERVER, CLIENT, 0, 5001).flags(ACK));
    capture.tcp(&c(5001).data(&call(1)));
    assert_eq!(capture.end().pairing.resent.dropped, 0);
}

/// Rows beyond the limit, and stretches that wait for too long, are only counted.
#[test]
fn bounded() {
    let stretch = |frame: u32, start: u64| Stretch { start, end: start + 10, kind: Again::Late, frame, t_ns: 0 };
    let mut resent = Resent::default();
    for frame in 0..MOST_ROWS as u32 + 5 {
        resent.push(Row::Call(0), &stretch(frame, 0), 1);
    }
    assert_eq!((resent.row.len(), resent.bytes.len(), resent.dropped), (MOST_ROWS, MOST_ROWS, 5));

    let (mut recent, mut resent) = (Recent::default(), Resent::default());
    for frame in 0..WAITING as u32 + 5 {
        recent.stretch(stretch(frame, 100), 50, true, &mut resent);
    }
    assert_eq!((recent.waiting.len(), resent.dropped), (WAITING, 5));
    recent.message(100, 200, Row::Call(0), &mut resent);
    assert_eq!((recent.waiting.len(), resent.row.len()), (0, WAITING));
}

/// The last messages of a direction are remembered, and those before them no more.
#[test]
fn as_far_as_is_remembered() {
    let (mut recent, mut resent) = (Recent::default(), Resent::default());
    for number in 0..RECENT as u64 + 10 {
        recent.message(100 * number, 100 * number + 100, Row::Call(number as u32), &mut resent);
    }
    let end = 100 * (RECENT as u64 + 10);
    let all = Stretch { start: 0, end, kind: Again::Repeated, frame: 1, t_ns: 0 };
    recent.stretch(all, end, true, &mut resent);
    assert_eq!(resent.row, (10..RECENT as u32 + 10).map(Row::Call).collect::<Vec<_>>());
    assert_eq!(recent.beginnings(&(0..end)), RECENT as u64);
}
