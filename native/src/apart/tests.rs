//! Packets of many hosts in, the same sums as those of one decoder out.

use proptest::prelude::*;

use super::*;
use crate::compound::tests::ranks;
use crate::decoder::KINDS;
use crate::testing::*;

/// Frames 10 us apart.
fn apart(frames: &[Vec<u8>]) -> Apart {
    let mut apart = Apart::new(ranks().clone());
    for (number, frame) in frames.iter().enumerate() {
        let t_ns = 10_000 * number as i64;
        let packet = Packet { t_ns, link: 1, captured: frame, wire_len: frame.len() as u32, interface: 0, id: 0 };
        Take::packet(&mut apart, &packet);
    }
    apart.finish();
    apart
}

fn whole(frames: &[Vec<u8>]) -> Decoder {
    let mut capture = Capture::new();
    for (number, frame) in frames.iter().enumerate() {
        capture.at_us(10 * number as i64).frame(frame);
    }
    capture.end()
}

fn parts(apart: &Apart) -> impl Iterator<Item = &Decoder> {
    apart.parts.iter().chain([&apart.rest]).map(|part| &part.decoder)
}

/// Client, data of its stream from where to where, and whether it is of the server.
pub(crate) fn any_frames() -> impl Strategy<Value = Vec<Vec<u8>>> {
    let segment = (1u8..14, 0u32..6, any::<bool>(), 0usize..140, 0usize..140, 0u8..12);
    prop::collection::vec(segment, 0..200).prop_map(|segments| {
        let frame = |(host, xid, is_reply, from, len, kind): (u8, u32, bool, usize, usize, u8)| {
            let (client, server) = ((host, 700), (100, 2049));
            let message = if is_reply { reply(xid, &[7; 60]) } else { write(xid, 0, &[7; 24]) };
            let (from_end, to_end) = if is_reply { (server, client) } else { (client, server) };
            match kind {
                0 => udp_frame(from_end, to_end, 0, &message),
                1 => ethernet(0x0800, &ipv4(host, 100, 17, xid as u16, 0x2000, &udp(700, 2049, &message)[..64])),
                2 => ethernet(0x0800, &ipv4(host, 100, 17, xid as u16, 8, &udp(700, 2049, &message)[64..])),
                3 => ethernet(0x0806, &[0; 46]),
                _ => {
                    let stream: Vec<u8> = record(&message);
                    let from = from.min(stream.len());
                    let to = stream.len().min(from + len);
                    let segment = tcp(from_end, to_end).seq(1 + xid * 140 + from as u32).ack(1 + xid * 140);
                    segment.data(&stream[from..to]).frame()
                }
            }
        };
        segments.into_iter().map(frame).collect()
    })
}

proptest! {
    #![proptest_config(cases(500))]

    /// Packets, their kinds, messages and ops are those of one decoder; nothing is held when it is over; turns go up.
    #[test]
    fn sums(frames in any_frames()) {
        let (apart, whole) = (apart(&frames), whole(&frames));
        let sum = |of: fn(&Decoder) -> u64| (parts(&apart).map(of).sum::<u64>(), of(&whole));
        for kind in 0..KINDS.len() {
            prop_assert_eq!(parts(&apart).map(|part| part.kinds[kind]).sum::<u64>(), whole.kinds[kind]);
        }
        let both = [
            sum(|one| one.packets.into()),
            sum(|one| one.wire_bytes),
            sum(|one| one.captured_bytes),
            sum(|one| one.tally.messages),
            sum(|one| one.tally.hidden),
            sum(|one| one.tally.malformed),
            sum(|one| one.pairing.ops.t0.len() as u64),
            sum(|one| one.pairing.loose.op.len() as u64),
            sum(|one| one.repeated),
            sum(|one| one.duplicated),
        ];
        prop_assert!(both.iter().all(|(apart, whole)| apart == whole), "{both:?}");
        prop_assert_eq!((apart.held_bytes, apart.collected_bytes), (0, 0));
        prop_assert_eq!(apart.pace.busiest_second(), whole.pace.busiest_second());
        let mut frames: Vec<i32> = parts(&apart).flat_map(|part| part.pairing.ops.call_first_frame.clone()).collect();
        frames.sort_unstable();
        prop_assert_eq!(frames, whole.pairing.ops.call_first_frame);
        for part in apart.parts.iter().chain([&apart.rest]) {
            prop_assert_eq!(part.turns[0].len(), part.decoder.tally.connections.len());
            prop_assert_eq!(part.turns[1].len(), part.decoder.pairing.kinds.list.len());
            prop_assert!(part.turns.iter().all(|turns| turns.is_sorted()));
        }
    }
}

/// Those without RPC are counted with the rest; those that come when there are too many are decoded there.
#[test]
fn hosts() {
    let op = |host: u8| tcp((host, 700), SERVER).data(&record(&read(1, 0, 512))).frame();
    let noise = |host: u8| tcp((host, 700), SERVER).data(b"SSH-2.0").frame();
    let few = apart(&[op(10), noise(11), op(12)]);
    assert_eq!((few.parts.len(), few.rest.decoder.packets, few.rest.has_rpc()), (2, 1, false));
    let frames: Vec<_> = (0..MOST as u8).map(|host| noise(20 + host)).chain([op(10), op(12), op(12)]).collect();
    let many = apart(&frames);
    assert_eq!((many.parts.len(), many.rest.decoder.packets, many.rest.has_rpc()), (0, frames.len() as u32, true));
    assert_eq!(many.rest.turns[0], [9 << 32, 10 << 32]);
}

/// A connection tried in vain is met behind those with RPC of its hosts, in the turn of its first packet.
#[test]
fn connections_tried_in_vain() {
    let frames = [
        syn((10, 701), SERVER, 0),
        syn((10, 701), SERVER, 0),
        syn((10, 701), SERVER, 0),
        tcp((10, 700), SERVER).data(&record(&read(1, 0, 512))),
        syn((11, 701), SERVER, 0),
        syn((11, 701), SERVER, 0),
        syn((11, 701), SERVER, 0),
    ];
    let frames: Vec<_> = frames.iter().map(|one| one.frame()).collect();
    let (apart, whole) = (apart(&frames), whole(&frames));
    assert_eq!((apart.parts.len(), whole.tally.connections.len()), (1, 2));
    assert_eq!(apart.parts[0].turns[0], [4 << 32, END | 1 << 31 | 1]);
}

/// What is held ahead of holes is bounded for all hosts together, and so are their connections.
#[test]
fn memory_is_shared() {
    let held = |host: u8| {
        let from = (host, 700);
        [tcp(from, SERVER).data(&record(&read(1, 0, 512))), tcp(from, SERVER).seq(1000).data(&[7; 100])]
            .map(|one| one.frame())
    };
    let mut apart = Apart::new(ranks().clone());
    let frames: Vec<_> = (1..=MOST as u8).filter(|host| *host != SERVER.0).flat_map(held).collect();
    for captured in &frames {
        let packet = Packet { t_ns: 0, link: 1, captured, wire_len: captured.len() as u32, interface: 0, id: 0 };
        Take::packet(&mut apart, &packet);
    }
    assert_eq!(apart.held_bytes, 100 * (MOST - 1));
    for port in 0..3 * flows::MOST as u16 {
        for host in 1..=MOST as u8 {
            let captured = &tcp((host, 1000 + port), SERVER).data(b"GET /").frame();
            let packet = Packet { t_ns: 0, link: 1, captured, wire_len: captured.len() as u32, interface: 0, id: 0 };
            Take::packet(&mut apart, &packet);
        }
    }
    assert!(apart.flows <= flows::MOST + MOST);
    apart.finish();
    assert_eq!(apart.held_bytes, 0);
}

/// Segments are kept of the pairs that are not known, with the numbers of the whole capture, and of no others.
#[test]
fn segments_are_kept_but_of_known_hosts() {
    let host = |last: u8| 0xffff_0a00_0000 | u128::from(last);
    let mut apart = Apart::new(ranks().clone());
    apart.keep_segments([host(8)].into_iter().collect());
    for number in 0..4u32 {
        let client = (7 + (number % 2) as u8, 700);
        let frame =
            tcp(client, (100, 2049)).seq(1 + number * 100).ack(1).data(&record(&write(number, 0, &[7; 24]))).frame();
        let packet = Packet {
            t_ns: i64::from(number),
            link: 1,
            captured: &frame,
            wire_len: frame.len() as u32,
            interface: 0,
            id: 0,
        };
        Take::packet(&mut apart, &packet);
    }
    apart.finish();
    let kept: Vec<_> = apart.parts.iter().map(|part| part.decoder.segments.as_ref().map(Vec::len)).collect();
    assert_eq!(kept, [Some(1), None]);
    assert_eq!(apart.parts[0].decoder.segments.as_ref().unwrap()[0].frame, [1, 3]);
}
