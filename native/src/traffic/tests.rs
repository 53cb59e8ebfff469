//! Hand-made timelines in, the counters of one direction out. Client's data is direction 0.

use super::{Event, Events, MOST_EVENTS, Place};
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
    capture.at_us(-500).handshake(CLIENT, SERVER);
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
    // Client's and server's, the handshake's and what carries no data too.
    let times = decoder.finished.iter().map(|one| one.traffic.last_ns - one.traffic.first_ns);
    assert_eq!(times.collect::<Vec<_>>(), [1_500_000, 2_200_000]);
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
    assert_eq!((client.window_scale, client.mss, client.syns), (Some(7), Some(1460), 1));
    assert_eq!((server.window_scale, server.mss, server.syns), (Some(14), None, 1));

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

/// A packet with more payload than the smaller of both segment sizes was put together by the host, or is to be cut by it.
#[test]
fn super_packets() {
    let sizes = |of_client: &[u8], of_server: &[u8], lengths: &[usize]| {
        let mut capture = Capture::new();
        capture.tcp(&syn(CLIENT, SERVER, 0).options(of_client));
        capture.tcp(&syn_ack(SERVER, CLIENT, 0, 1).options(of_server));
        capture.tcp(&c(1).data(&record(&read(1, 0, 512))));
        let mut seq = 69;
        for length in lengths {
            capture.tcp(&c(seq).data(&vec![0; *length]));
            seq += *length as u32;
        }
        let client = &capture.end().finished[0].traffic;
        (client.super_packets, client.largest_payload)
    };
    let (ethernet, jumbo) = ([2, 4, 5, 180], [2, 4, 34, 240]); // 1460 and 8944
    assert_eq!(sizes(&ethernet, &ethernet, &[1448, 1460, 1461, 65160]), (2, 65160));
    assert_eq!(sizes(&jumbo, &ethernet, &[1460, 1461]), (1, 1461));
    assert_eq!(sizes(&ethernet, &jumbo, &[1460, 1461]), (1, 1461));
    assert_eq!(sizes(&jumbo, &[], &[8944, 8945]), (1, 8945));
    assert_eq!(sizes(&[], &[2, 4, 0, 0], &[8948, 8949]), (1, 8949));
}

/// The sizes of one connection do not hold for the next between the same ports.
#[test]
fn super_packets_of_a_reconnect() {
    let mut capture = opened();
    capture.tcp(&syn(CLIENT, SERVER, 900_000).options(&[2, 4, 5, 180]));
    capture.tcp(&c(900_001).data(&vec![0; 3000]));
    capture.tcp(&syn(CLIENT, SERVER, 1_900_000));
    capture.tcp(&c(1_900_001).data(&vec![0; 3000]));
    let decoder = capture.end();
    let of_client = decoder.finished.iter().filter(|done| done.direction == 0);
    assert_eq!(of_client.map(|done| done.traffic.super_packets).collect::<Vec<_>>(), [0, 1, 0]);
}

/// Where a direction begins, and how far it got, in numbers that wrap and a span that does not.
#[test]
fn range_of_sequence_numbers() {
    let range = |decoder: &Decoder, row: usize| decoder.finished[row].range;
    let mut capture = Capture::new();
    capture.tcp(&syn(CLIENT, SERVER, u32::MAX - 30));
    capture.tcp(&c(u32::MAX - 29).data(&record(&read(1, 0, 512))));
    capture.tcp(&c(u32::MAX - 29 + 20).data(&record(&read(1, 0, 512))[20..])); // again
    capture.tcp(&s(0)); // says nothing of its own bytes
    let decoder = capture.end();
    assert_eq!((range(&decoder, 0), range(&decoder, 1)), (Some((u32::MAX - 29, 68)), None));

    let mut capture = Capture::new();
    capture.tcp(&c(500).data(&record(&read(1, 0, 512))));
    capture.tcp(&c(1000).data(&[0; 10])); // behind a hole
    let mut seq = 1010u32;
    let step = 1 << 26; // with a hole in front of each
    for _ in 0..(5u64 << 30) / step {
        capture.later_us(11_000_000).tcp(&c(seq).data(&[0; 9])); // so that none is waited for
        seq = seq.wrapping_add(step as u32);
    }
    assert_eq!(range(&capture.end(), 0), Some((500, (5 << 30) + 510 - step + 9)));
}

/// An event names its place in the stream, counted from the first byte, and the connection between the same endpoints.
#[test]
fn place_of_an_event() {
    let call = record(&read(2, 0, 512));
    let mut capture = opened();
    capture.tcp(&c(1).data(&record(&read(1, 0, 512)))); // again, from the beginning
    capture.tcp(&c(137).data(&call)); // behind a hole
    capture.tcp(&syn(CLIENT, SERVER, u32::MAX - 40));
    capture.tcp(&syn_ack(SERVER, CLIENT, 0, u32::MAX - 39));
    capture.tcp(&c(u32::MAX - 39).data(&call));
    capture.tcp(&c(20).data(&call[60..])); // again, behind the wrap
    capture.at_us(200_000).tcp(&s(30)); // a stall has no place
    let events = capture.end().events;
    let places: Vec<_> = events.kind.iter().zip(&events.reconnect).zip(&events.offset).collect();
    let [retransmission, gap, stall] = [Event::Retransmission, Event::Gap, Event::Stall].map(|kind| kind as i8);
    let expected = [(retransmission, 0, 0), (gap, 0, 136), (retransmission, 1, 60), (stall, 1, -1)];
    assert_eq!(places, expected.iter().map(|(kind, reconnect, at)| ((kind, reconnect), at)).collect::<Vec<_>>());
}

/// Events beyond the limit are only counted.
#[test]
fn events_are_bounded() {
    let mut events = Events::default();
    for _ in 0..MOST_EVENTS + 5 {
        events.push(Event::Gap, Place { conn: 0, reconnect: 0, direction: 0, frame: 1, t_ns: 0 }, Some(7), 1);
    }
    assert_eq!((events.kind.len(), events.value.len(), events.dropped), (MOST_EVENTS, MOST_EVENTS, 5));
}
