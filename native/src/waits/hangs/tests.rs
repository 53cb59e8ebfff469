//! Timelines in, what their senders waited for to the last out. Client's data is direction 0.

use super::*;
use crate::decoder::Decoder;
use crate::link::{ACK, RST};
use crate::testing::*;

fn c(seq: u32) -> Tcp {
    tcp(CLIENT, SERVER).seq(seq)
}

fn s(seq: u32) -> Tcp {
    tcp(SERVER, CLIENT).seq(seq)
}

/// SYNs, and a call of 68 bytes with its reply of 32: frames 1 to 5, all at 0.
fn served() -> Capture {
    let mut capture = Capture::new();
    capture.tcp(&syn(CLIENT, SERVER, 0));
    capture.tcp(&syn_ack(SERVER, CLIENT, 0, 1));
    capture.tcp(&c(1));
    capture.tcp(&c(1).ack(1).data(&record(&read(1, 0, 4096))));
    capture.tcp(&s(1).ack(69).data(&record(&reply(1, &[]))));
    capture
}

/// Direction, what is awaited, its times in us (began, last but one, last), tries, frame, offset and bytes.
type Line = (i8, i8, (i64, i64, i64), i32, i32, (i64, i64));

fn lines(decoder: &Decoder) -> Vec<Line> {
    let of = &decoder.hangs;
    let line = |row: usize| {
        let times = (of.since_ns[row] / 1000, of.before_ns[row] / 1000, of.last_ns[row] / 1000);
        let place = (of.offset[row], of.bytes[row]);
        (of.direction[row], of.awaits[row], times, of.tries[row], of.frame[row], place)
    };
    (0..of.conn.len()).map(line).collect()
}

/// The same call three times behind the one that was answered.
fn sent_again() -> Capture {
    let mut capture = served();
    for us in [1000, 201_000, 601_000] {
        capture.at_us(us).tcp(&c(69).ack(33).data(&record(&read(2, 0, 4096)))); // 6 to 8
    }
    capture
}

/// Transmissions of what is not acknowledged, up to an ACK of it; another's ACK changes nothing.
#[test]
fn transmissions() {
    let waits = (0, Awaits::Ack as i8, (1000, 201_000, 601_000), 3, 8, (68, 68));
    let decoder = sent_again().end();
    assert_eq!(lines(&decoder), [waits]);
    assert_eq!((decoder.hangs.heard_ns[0], decoder.hangs.went_on[0]), (0, 0));
    assert_eq!((decoder.hangs.cut[0], decoder.hangs.until_ns[0]), (Cut::Nothing as i8, -1));
    let mut capture = sent_again();
    capture.at_us(700_000).tcp(&s(33).ack(69));
    let decoder = capture.end();
    assert_eq!(lines(&decoder), [waits]);
    assert_eq!(decoder.hangs.heard_ns, [700_000_000]);
    let mut capture = sent_again();
    capture.at_us(700_000).tcp(&s(33).ack(137));
    assert!(lines(&capture.end()).is_empty());
}

/// Only transmissions of the first byte that is not acknowledged count, and new ones once another is the first.
#[test]
fn the_first_byte_that_is_not_acknowledged() {
    let mut capture = served();
    let call = |xid| record(&read(xid, 0, 4096));
    for us in [1000, 2000] {
        capture.at_us(us).tcp(&c(69).ack(33).data(&call(2))); // 6 and 7
        capture.at_us(us + 500).tcp(&c(137).ack(33).data(&call(3)));
    }
    capture.at_us(3000).tcp(&s(33).ack(137));
    for us in [300_000, 900_000] {
        capture.at_us(us).tcp(&c(137).ack(33).data(&call(3))); // 11 and 12
    }
    // Its first transmission is not remembered, but the one before these.
    assert_eq!(lines(&capture.end()), [(0, 1, (2500, 300_000, 900_000), 3, 12, (136, 68))]);
}

/// New bytes behind the second transmission, of one that hears nothing: a mirror of one direction.
#[test]
fn one_direction() {
    let mut capture = Capture::new();
    let call = |xid| record(&read(xid, 0, 4096));
    for us in [1000, 201_000, 601_000] {
        capture.at_us(us).tcp(&c(1).data(&call(1)));
    }
    capture.at_us(700_000).tcp(&c(69).data(&call(2)));
    let of = capture.end().hangs;
    assert_eq!((of.tries, of.went_on, of.heard_ns, of.bytes), (vec![3], vec![1], vec![-1], vec![136]));
}

/// A shut window: since when, and every packet that it has no room for; one that opens and shuts again begins anew.
#[test]
fn windows() {
    let mut capture = served();
    capture.at_us(1000).tcp(&c(69).ack(33).window(0)); // 6
    assert!(lines(&capture.end()).is_empty());
    let mut capture = served();
    capture.at_us(1000).tcp(&c(69).ack(33).window(0)); // 6
    capture.at_us(201_000).tcp(&s(32).ack(69)); // 7, Linux
    capture.at_us(201_100).tcp(&c(69).ack(33).window(0)); // 8
    capture.at_us(601_000).tcp(&s(33).ack(69).data(&[0])); // 9, others
    capture.at_us(601_100).tcp(&c(69).ack(34).window(0)); // 10: it was taken, and there is no room still
    let waits = (1, Awaits::Window as i8, (1000, 201_000, 601_000), 2, 9);
    let (direction, awaits, times, tries, frame, _) = lines(&capture.end())[0];
    assert_eq!((direction, awaits, times, tries, frame), waits);
}

/// A RST behind which its sender says nothing ends it, whatever the other one goes on with; any other does not.
#[test]
fn resets() {
    for (reset, cut) in [(c(137), Cut::OwnReset), (s(33), Cut::Reset)] {
        let mut capture = sent_again();
        capture.at_us(800_000).tcp(&reset.flags(RST | ACK)); // 9
        if cut == Cut::Reset {
            capture.at_us(900_000).tcp(&c(69).ack(33).data(&record(&read(2, 0, 4096))));
            capture.at_us(900_100).tcp(&s(33).flags(RST));
        }
        let decoder = capture.end();
        assert_eq!(lines(&decoder), [(0, 1, (1000, 201_000, 601_000), 3, 8, (68, 68))]);
        assert_eq!((decoder.hangs.cut[0], decoder.hangs.until_ns[0]), (cut as i8, 800_000_000));
    }
    let mut capture = sent_again();
    capture.at_us(800_000).tcp(&s(33).flags(RST));
    capture.at_us(900_000).tcp(&s(33).ack(69));
    assert_eq!(capture.end().hangs.cut, [Cut::Nothing as i8]);
}

/// The next connection between the same ports ends it, and begins with none.
#[test]
fn the_next_connection() {
    let mut capture = sent_again();
    capture.at_us(800_000).tcp(&syn(CLIENT, SERVER, 5000));
    let of = capture.end().hangs;
    assert_eq!((of.cut, of.until_ns, of.reconnect), (vec![Cut::NextConnection as i8], vec![800_000_000], vec![0]));
}

/// Rows beyond the most that are kept are counted.
#[test]
fn the_most_rows() {
    let mut capture = Capture::new();
    for number in 0..MOST_ROWS as u32 + 3 {
        let seq = 1 + number * 100_000;
        capture.later_us(1000).tcp(&syn(CLIENT, SERVER, seq - 1));
        for _ in 0..2 {
            capture.later_us(1000).tcp(&c(seq).data(&record(&read(number, 0, 4096))));
        }
    }
    let of = capture.end().hangs;
    assert_eq!((of.conn.len(), of.until_ns.len(), of.dropped), (MOST_ROWS, MOST_ROWS, 3));
}
