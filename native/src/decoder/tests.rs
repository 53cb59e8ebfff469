//! Packets of every kind in, sums that come out even.

use proptest::prelude::*;

use super::*;
use crate::columns::State;
use crate::link::ACK;
use crate::testing::*;

/// One packet of a capture in which everything happens.
#[derive(Clone, Debug)]
enum Packets {
    /// Ports, direction, number of the first byte, messages, bytes of them, captured bytes, flags, identification.
    Tcp(u16, bool, u32, Vec<Message>, (usize, usize), usize, u8, u16),
    Udp(u16, bool, Message, usize, u16),
    Part(u16, u16, bool, Message),
    Noise(Vec<u8>),
    Pause(i64),
}

#[derive(Clone, Debug)]
struct Message {
    xid: u32,
    is_reply: bool,
    data: usize,
}

fn bytes(one: &Message) -> Vec<u8> {
    let data = vec![7; one.data];
    if one.is_reply { reply(one.xid, &data) } else { write(one.xid, 0, &data) }
}

fn any_message() -> impl Strategy<Value = Message> {
    (0u32..12, any::<bool>(), prop_oneof![Just(0usize), 0usize..1500]).prop_map(|(xid, is_reply, data)| Message {
        xid,
        is_reply,
        data,
    })
}

fn any_packet() -> impl Strategy<Value = Packets> {
    let seq = prop_oneof![8 => 0u32..4000, 1 => any::<u32>()];
    let flags = prop::sample::select(vec![ACK, ACK, ACK, ACK, SYN, SYN | ACK, FIN | ACK, RST]);
    let kept = prop_oneof![3 => Just(usize::MAX), 1 => 0usize..200];
    let messages = prop::collection::vec(any_message(), 0..3);
    let range = (prop_oneof![Just(0usize), 0usize..300], prop_oneof![Just(9000usize), 0usize..400]);
    prop_oneof![
        8 => (0u16..3, any::<bool>(), seq, messages, range, kept.clone(), flags, 0u16..5)
            .prop_map(|(port, way, seq, all, range, kept, flags, id)| Packets::Tcp(port, way, seq, all, range, kept, flags, id)),
        2 => (0u16..3, any::<bool>(), any_message(), kept, 0u16..5)
            .prop_map(|(port, way, one, kept, id)| Packets::Udp(port, way, one, kept, id)),
        1 => (0u16..3, 0u16..20, any::<bool>(), any_message())
            .prop_map(|(id, offset, more, one)| Packets::Part(id, offset, more, one)),
        1 => prop::collection::vec(any::<u8>(), 0..80).prop_map(Packets::Noise),
        1 => (-1_000_000i64..12_000_000).prop_map(Packets::Pause),
    ]
}

proptest! {
    #![proptest_config(cases(1000))]

    /// Whatever is in a capture: a packet has one kind, a message one state, and no more than there are frames are named.
    #[test]
    fn sums(packets in prop::collection::vec(any_packet(), 0..120)) {
        let mut capture = Capture::new();
        capture.at_us(100_000_000);
        for packet in &packets {
            capture.later_us(10);
            match packet {
                Packets::Tcp(port, way, seq, messages, (from, to), kept, flags, id) => {
                    let stream: Vec<u8> = messages.iter().flat_map(|one| record(&bytes(one))).collect();
                    let from = *from.min(&stream.len());
                    let client = (1, 700 + port);
                    let segment = if *way { tcp(client, SERVER) } else { tcp(SERVER, client) };
                    let segment = segment.seq(*seq).ack(*seq).flags(*flags).id(*id);
                    capture.cut_tcp(&segment.data(&stream[from..stream.len().min(from + to)]), *kept);
                }
                Packets::Udp(port, way, one, kept, id) => {
                    let client = (1, 700 + port);
                    let (from, to) = if *way { (client, SERVER) } else { (SERVER, client) };
                    let frame = udp_frame(from, to, *id, &bytes(one));
                    capture.cut_frame(&frame, *kept);
                }
                Packets::Part(id, offset, more, one) => {
                    let datagram = udp(700, 2049, &bytes(one));
                    let field = offset | u16::from(*more) << 13;
                    capture.frame(&ethernet(0x0800, &ipv4(1, 2, 17, *id, field, &datagram)));
                }
                Packets::Noise(bytes) => { capture.frame(bytes); }
                Packets::Pause(us) => { capture.later_us(*us); }
            }
        }
        let decoder = capture.end();
        prop_assert_eq!(decoder.kinds.iter().sum::<u64>(), u64::from(decoder.packets));
        prop_assert_eq!(decoder.tally.held_bytes, 0);
        let pairing = &decoder.pairing;
        let (ops, loose) = (&pairing.ops, &pairing.loose);
        prop_assert_eq!(2 * ops.t0.len() as u64 + loose.op.len() as u64, decoder.tally.messages);
        prop_assert!(ops.call_first_frame.is_sorted() && loose.first_frame.is_sorted());
        let frames = 1..=decoder.packets as i32;
        for row in 0..ops.t0.len() {
            prop_assert!(ops.call_first_frame[row] <= ops.call_last_frame[row]);
            prop_assert!(ops.reply_first_frame[row] <= ops.reply_last_frame[row]);
            prop_assert!([ops.call_first_frame[row], ops.reply_first_frame[row]].iter().all(|frame| frames.contains(frame)));
            prop_assert!(frames.contains(&ops.call_last_frame[row]) && frames.contains(&ops.reply_last_frame[row]));
            prop_assert!((ops.conn[row] as usize) < decoder.tally.connections.len());
        }
        for row in 0..loose.op.len() {
            prop_assert!(loose.first_frame[row] <= loose.last_frame[row]);
            prop_assert!(frames.contains(&loose.first_frame[row]) && frames.contains(&loose.last_frame[row]));
            prop_assert!((-1..ops.t0.len() as i32).contains(&loose.op[row]));
            prop_assert_ne!(state(loose.state[row]), State::Paired);
            if loose.op[row] >= 0 {
                prop_assert_eq!(loose.xid[row], ops.xid[loose.op[row] as usize]);
            }
        }
        let pauses = &decoder.pauses;
        prop_assert!(pauses.frame.is_sorted() && pauses.frame.iter().all(|frame| frames.contains(frame)));
        prop_assert!(pauses.begin_ns.iter().zip(&pauses.end_ns).all(|(begin_ns, end_ns)| begin_ns <= end_ns));
        prop_assert!(pauses.conn.iter().all(|conn| (*conn as usize) < decoder.tally.connections.len()));
        let sent: u64 = decoder.finished.iter().map(|done| done.traffic.bytes).sum();
        prop_assert!(decoder.loads.of_rpc.columns().bytes.iter().sum::<i64>() as u64 <= sent);
        let blocked = &pairing.blocked;
        prop_assert!(blocked.op.iter().zip(&blocked.is_reply).is_sorted());
        prop_assert!(blocked.op.iter().all(|op| (0..ops.t0.len() as i32).contains(op)));
        let resent = &pairing.resent;
        prop_assert!(resent.op.iter().zip(&resent.frame).is_sorted());
        for row in 0..resent.op.len() {
            prop_assert!((0..ops.t0.len() as i32).contains(&resent.op[row]) && frames.contains(&resent.frame[row]));
            prop_assert!(resent.bytes[row] > 0);
        }
        for done in &decoder.finished {
            let traffic = &done.traffic;
            prop_assert!(traffic.retransmitted_bytes + traffic.late_bytes <= traffic.bytes);
            prop_assert!(u64::from(traffic.largest_payload) <= traffic.bytes && traffic.super_packets <= traffic.data_packets);
        }
        prop_assert!(decoder.pace.busiest_second() <= decoder.packets);
    }

    /// Packets that are in the file twice (same identification) change nothing but the count of duplicates.
    #[test]
    fn copies_change_nothing(
        messages in prop::collection::vec((any_message(), prop::option::of(0usize..20)), 1..40),
        is_udp in any::<bool>(),
    ) {
        let decode = |with_copies: bool| {
            let mut capture = Capture::new();
            let mut seq = [1u32, 1];
            let mut later: Vec<(usize, Vec<u8>)> = Vec::new();
            let mut copies = 0;
            for (number, (one, copy)) in messages.iter().enumerate() {
                let way = usize::from(one.is_reply);
                let (from, to) = if one.is_reply { (SERVER, CLIENT) } else { (CLIENT, SERVER) };
                let id = 1 + number as u16;
                let frame = if is_udp {
                    udp_frame(from, to, id, &bytes(one))
                } else {
                    let data = record(&bytes(one));
                    let segment = tcp(from, to).seq(seq[way]).ack(seq[1 - way]).id(id).data(&data);
                    seq[way] += data.len() as u32;
                    segment.frame()
                };
                capture.at_us(100 * number as i64).frame(&frame);
                if let Some(copy) = copy {
                    later.push((number + copy, frame));
                }
                let (now, still): (Vec<_>, Vec<_>) = later.into_iter().partition(|(at, _)| *at <= number);
                later = still;
                for (_, frame) in now {
                    copies += 1;
                    if with_copies {
                        capture.later_us(1).frame(&frame);
                    }
                }
            }
            (capture.end(), copies)
        };
        let ((plain, _), (doubled, copies)) = (decode(false), decode(true));
        let (a, b) = (&plain.pairing, &doubled.pairing);
        prop_assert_eq!((&a.ops.t0, &a.ops.t1, &a.ops.t2, &a.ops.t3), (&b.ops.t0, &b.ops.t1, &b.ops.t2, &b.ops.t3));
        prop_assert_eq!((&a.ops.xid, &a.ops.transmissions), (&b.ops.xid, &b.ops.transmissions));
        prop_assert_eq!((&a.loose.xid, &a.loose.first_ns), (&b.loose.xid, &b.loose.first_ns));
        prop_assert_eq!((&a.loose.state, &a.loose.op), (&b.loose.state, &b.loose.op));
        prop_assert_eq!((doubled.duplicate_packets, doubled.duplicated), (copies, copies));
        prop_assert_eq!((doubled.repeated, plain.duplicate_packets), (0, 0));
        prop_assert_eq!(doubled.tally.messages, plain.tally.messages);
        for (a, b) in plain.finished.iter().zip(&doubled.finished) {
            let (a, b) = (&a.traffic, &b.traffic);
            prop_assert_eq!((a.packets, a.bytes, a.rtt_count), (b.packets, b.bytes, b.rtt_count));
            prop_assert_eq!((b.retransmissions, b.out_of_order), (0, 0));
        }
    }
}

/// Every kind of packet is counted as what it is.
#[test]
fn kinds() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER); // three of tcp control
    capture.tcp(&tcp(CLIENT, SERVER).data(&record(&write(1, 0, &[7; 2924])[..]))); // rpc
    capture.tcp(&tcp((1, 701), (2, 22)).data(b"SSH-2.0-OpenSSH\r\n")); // tcp data
    capture.udp((1, 5353), (2, 53), 1, &[1; 40]); // udp
    capture.udp(CLIENT, SERVER, 1, &read(1, 0, 512)); // rpc
    capture.frame(&ethernet(0x0800, &ipv4(1, 2, 17, 9, 0x2000, &[0; 64]))); // ip fragment
    capture.frame(&ethernet(0x0806, &[0; 46])); // other
    assert_eq!(capture.end().kinds, [2, 1, 3, 1, 1, 1, 0, 0]);
}

/// Bytes on the wire and in the file are summed over all packets, whatever is in them.
#[test]
fn sizes() {
    let mut capture = Capture::new();
    capture.cut_frame(&[0; 1000], 96);
    capture.cut_frame(&[0; 60], 96);
    capture.tcp(&tcp(CLIENT, SERVER).data(&[1; 46])); // 100
    let decoder = capture.end();
    assert_eq!((decoder.wire_bytes, decoder.captured_bytes), (1160, 256));
}

/// Times that go back are counted, and the capture's ends are the earliest and the latest.
#[test]
fn times_that_go_back() {
    let mut capture = Capture::new();
    for us in [50, 40, 60, 60, 10] {
        capture.at_us(us).frame(&[]);
    }
    let decoder = capture.end();
    assert_eq!((decoder.pace.backward_times, decoder.first_ns, decoder.last_ns), (2, 10_000, 60_000));
}

/// SYNs to a port that carries RPC between the same hosts, which nobody answers, or whose answers nobody hears, have rows
/// behind the others; those that are refused or heard have none, nor have other ports, nor two SYNs.
#[test]
fn connections_tried_in_vain() {
    let mut capture = Capture::new();
    let port = |number: u16| (CLIENT.0, number);
    let again = |capture: &mut Capture, from: End, to: End, isn: u32, tries: u32| {
        for _ in 0..tries {
            capture.later_us(1_000_000).tcp(&syn(from, to, isn));
        }
    };
    again(&mut capture, port(900), SERVER, 50, 3); // and then with another number
    again(&mut capture, port(900), SERVER, 70, 4);
    capture.tcp(&tcp(CLIENT, SERVER).data(&record(&read(1, 0, 512))));
    again(&mut capture, port(901), SERVER, 0, 1);
    for _ in 0..2 {
        capture.tcp(&syn_ack(SERVER, port(901), 0, 1));
    }
    again(&mut capture, port(902), SERVER, 0, 3);
    capture.tcp(&tcp(SERVER, port(902)).flags(RST | ACK));
    capture.handshake(port(903), SERVER);
    again(&mut capture, port(904), (SERVER.0, 111), 0, 5);
    again(&mut capture, port(905), SERVER, 0, 2);
    again(&mut capture, port(906), (77, SERVER.1), 0, 5);
    let decoder = capture.end();
    let rows: Vec<_> = decoder
        .finished
        .iter()
        .map(|done| {
            let ends = decoder.connection(done.conn as usize).first;
            (ends.sport, done.reconnect, done.direction, done.traffic.packets, done.traffic.syns)
        })
        .collect();
    let expected = [(CLIENT.1, 0, 0, 1, 0), (900, 0, 0, 3, 3), (900, 1, 0, 4, 4), (901, 0, 0, 1, 1), (901, 0, 1, 2, 2)];
    assert_eq!(rows, expected);
}
