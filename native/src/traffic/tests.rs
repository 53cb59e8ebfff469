//! Hand-made timelines in, the counters of one direction out. Client's data is direction 0.

use super::{Event, Events, MOST_EVENTS};
use crate::decoder::Decoder;
use crate::link::{ACK, RST};
use crate::testing::*;

const MS: i64 = 1_000_000;

fn c(seq: u32) -> Tcp {
    tcp(CLIENT, SERVER).seq(seq)
}

fn s(ack: u32) -> Tcp {
    tcp(SERVER, CLIENT).ack(ack)
}

/// (kind, direction, frame, value)
fn events(decoder: &Decoder) -> Vec<(i8, i8, i32, i64)> {
    let events = &decoder.events;
    (0..events.kind.len())
        .map(|row| (events.kind[row], events.direction[row], events.frame[row], events.value[row]))
        .collect()
}

/// A connection that shows RPC: frames 1 to 5, of which the last is the reply; both sides have acknowledged all of it.
fn opened() -> Capture {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&c(1).data(&record(&read(1, 0, 512)))); // bytes 1 to 68
    capture.tcp(&s(69).data(&record(&reply(1, &[])))); // bytes 1 to 32
    capture.tcp(&c(69).ack(33));
    capture
}

/// One round trip at a time is timed: from the data to the ACK that covers it.
#[test]
fn round_trips() {
    let call = record(&read(2, 0, 512));
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.at_us(0).tcp(&c(1).data(&call)); // timed
    capture.at_us(100).tcp(&c(69).data(&call)); // not: the one before is
    capture.at_us(200).tcp(&s(68)); // not all of the first
    capture.at_us(300).tcp(&s(137)); // 300 us
    capture.at_us(1000).tcp(&c(137).data(&call));
    capture.at_us(1700).tcp(&s(205)); // 700 us
    let decoder = capture.end();
    let client = &decoder.finished[0].traffic;
    assert_eq!((client.rtt_count, client.rtt_sum_ns), (2, MS));
    assert_eq!((client.rtt_min_ns, client.rtt_max_ns), (300_000, 700_000));
    assert_eq!((client.packets, client.data_packets, client.bytes), (5, 3, 204));
}

/// What was sent again is not timed, for nobody knows which of the two is acknowledged.
#[test]
fn no_round_trip_of_a_retransmission() {
    let mut capture = opened();
    let call = record(&read(2, 0, 512));
    capture.at_us(0).tcp(&c(69).id(1).data(&call)); // 7
    capture.at_us(20_000).tcp(&c(69).id(2).data(&call)); // 8
    capture.at_us(20_100).tcp(&s(137)); // 9
    let decoder = capture.end();
    let client = &decoder.finished[0].traffic;
    assert_eq!((client.rtt_count, client.retransmissions, client.retransmitted_bytes), (1, 1, 68)); // the call's of before
    assert_eq!(events(&decoder), [(Event::Retransmission as i8, 0, 8, 68)]);
    assert_eq!(decoder.repeated, 1);
}

/// Scale and segment size are those of a SYN; without one, or without the options, they are not known.
#[test]
fn options_of_the_syn() {
    let mut capture = Capture::new();
    capture.tcp(&syn(CLIENT, SERVER, 0).options(&[2, 4, 5, 180, 1, 3, 3, 7, 4, 2]));
    capture.tcp(&syn_ack(SERVER, CLIENT, 0, 1).options(&[3, 3, 200, 0, 2, 4, 1, 1])); // beyond 14; behind the end
    capture.tcp(&c(1).data(&record(&read(1, 0, 512))));
    let decoder = capture.end();
    let [client, server] = [0, 1].map(|side: usize| &decoder.finished[side].traffic);
    assert_eq!((client.window_scale, client.mss, client.saw_syn), (Some(7), Some(1460), true));
    assert_eq!((server.window_scale, server.mss, server.saw_syn), (Some(14), None, true));

    for damaged in [&[3, 0, 7][..], &[3, 1], &[2, 60, 1], &[2, 3, 9], &[8]] {
        let mut capture = Capture::new();
        capture.tcp(&syn(CLIENT, SERVER, 0).options(damaged));
        capture.tcp(&c(1).data(&record(&read(1, 0, 512))));
        let client = &capture.end().finished[0].traffic;
        assert_eq!((client.window_scale, client.mss), (None, None), "{damaged:?}");
    }
}

/// A window of 0 counts against the sender's direction, once, and lasts until the next one that is open.
#[test]
fn zero_window() {
    let mut capture = opened();
    capture.at_us(1000).tcp(&s(69).window(0)); // 7: the server's window is shut
    capture.at_us(5000).tcp(&s(69).window(0)); // 8
    capture.at_us(6000).tcp(&s(69).window(0).flags(ACK | RST)); // 9: says nothing of it
    capture.at_us(9000).tcp(&s(69).window(64)); // 10
    capture.at_us(9500).tcp(&s(69).window(0)); // 11: and is shut to the end
    let decoder = capture.end();
    let [client, server] = [0, 1].map(|side: usize| &decoder.finished[side].traffic);
    assert_eq!((client.zero_windows, client.zero_window_ns), (2, 8 * MS));
    assert_eq!((server.zero_windows, server.zero_window_ns), (0, 0));
    assert_eq!(events(&decoder), [(Event::ZeroWindow as i8, 0, 10, 8 * MS)]);
}

/// Silence with data under way is a stall of their direction; without any it is none, however long.
#[test]
fn stalls() {
    let call = record(&read(2, 0, 512));
    let mut capture = opened();
    capture.at_us(100_000).tcp(&c(69).ack(33).data(&call)); // 7: nothing was under way
    capture.at_us(129_999).tcp(&c(137).ack(33).data(&call)); // 8: short of 30 ms
    capture.at_us(229_999).tcp(&s(205)); // 9: 100 ms
    capture.at_us(900_000).tcp(&c(205).ack(33)); // 10
    let decoder = capture.end();
    let [client, server] = [0, 1].map(|side: usize| &decoder.finished[side].traffic);
    assert_eq!((client.stalls, client.stalled_ns), (1, 100 * MS));
    assert_eq!((server.stalls, server.stalled_ns), (0, 0));
    assert_eq!(events(&decoder), [(Event::Stall as i8, 0, 9, 100 * MS)]);
}

/// Data behind a hole, and the segment that fills it: neither is a retransmission.
#[test]
fn out_of_order() {
    let call = |xid| record(&read(xid, 0, 512));
    let mut capture = opened();
    capture.tcp(&c(137).data(&call(3))); // 7: 69 to 136 are missing
    capture.tcp(&c(205).data(&call(4))); // 8: joins on to what is there
    capture.tcp(&c(69).data(&call(2))); // 9
    let decoder = capture.end();
    let client = &decoder.finished[0].traffic;
    assert_eq!((client.out_of_order, client.retransmissions), (1, 0));
    assert_eq!(events(&decoder), [(Event::Gap as i8, 0, 7, 68), (Event::OutOfOrder as i8, 0, 9, 68)]);
}

/// Events beyond the limit are only counted.
#[test]
fn events_are_bounded() {
    let mut events = Events::default();
    for _ in 0..MOST_EVENTS + 5 {
        events.push(Event::Gap, 0, 0, 1, 0, 1);
    }
    assert_eq!((events.kind.len(), events.value.len(), events.dropped), (MOST_EVENTS, MOST_EVENTS, 5));
}
