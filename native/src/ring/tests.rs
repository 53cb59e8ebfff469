//! Packets of any length and time go in; the newest come out of what a reader of captures makes of it.

use proptest::prelude::*;

use super::*;
use crate::container::Reader;
use crate::testing::cases;

type Plain = (i64, u16, Vec<u8>, u32, u32);

fn read(file: Vec<u8>) -> Vec<(i64, u16, Vec<u8>, u32)> {
    let mut reader = Reader::open(Box::new(io::Cursor::new(file))).unwrap();
    let mut found = Vec::new();
    while let Some(packet) = reader.next().unwrap() {
        found.push((packet.t_ns, packet.link, packet.captured.to_vec(), packet.wire_len));
    }
    found
}

fn ring(packets: &[Plain], most: usize) -> Ring {
    let mut ring = Ring::new(most);
    for (t_ns, link, captured, more, interface) in packets {
        let wire_len = captured.len() as u32 + more;
        ring.packet(&Packet { t_ns: *t_ns, link: *link, captured, wire_len, interface: *interface, id: 0 });
    }
    ring
}

proptest! {
    #![proptest_config(cases(200))]

    /// What is written is what was captured in the time that was asked for, the newest of it, with its times moved; and
    /// memory is bounded.
    #[test]
    fn the_newest(
        packets in prop::collection::vec(
            (0..1_000_000i64, prop_oneof![Just(1u16), Just(276)], prop::collection::vec(any::<u8>(), 0..300), 0..9u32, 0..3u32),
            0..60,
        ),
        most in 2_048usize..9_000,
        begin in 0..500_000i64,
        length in 0..1_000_000i64,
        later in 0..99i64,
    ) {
        let mut ring = ring(&packets, most);
        prop_assert!(ring.held <= most);
        let held = ring.held();
        prop_assert_eq!(held.0.iter().map(|block| block.bytes.capacity()).sum::<usize>(), ring.held);
        let mut out = Vec::new();
        let written = held.write(&mut out, begin, begin + length, later, "client").unwrap();
        let found = read(out);
        prop_assert_eq!(written.packets, found.len() as u64);
        let wanted: Vec<_> = packets
            .iter()
            .filter(|one| (begin..=begin + length).contains(&one.0))
            .map(|(t_ns, link, captured, more, _)| (t_ns + later, *link, captured.clone(), captured.len() as u32 + more))
            .collect();
        prop_assert!(wanted.ends_with(&found));
        let bytes: usize = packets.iter().map(|one| HEAD + one.2.len()).sum();
        if bytes <= 1_024 {
            prop_assert_eq!(&found, &wanted);
        }
        if let Some(first) = found.iter().map(|one| one.0).min() {
            prop_assert_eq!(written.first_ns, first - later);
        }
    }
}

/// Of a packet that is longer than a block there is one block.
#[test]
fn a_long_packet() {
    let packets = [(1, 1, vec![7; 1_500], 0, 0), (2, 1, vec![8; 10], 0, 0)];
    let mut out = Vec::new();
    assert_eq!(
        ring(&packets, 4_096).held().write(&mut out, 0, 9, 0, "s").unwrap(),
        Written { packets: 2, first_ns: 1, last_ns: 2 }
    );
    assert_eq!(read(out).len(), 2);
}
