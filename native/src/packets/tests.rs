//! Any packets in; the numbers of what comes out add up. tests/tcp/test_tcp_reading.py has what the columns say.

use proptest::prelude::*;

use super::*;
use crate::conversations;
use crate::link::{ACK, FIN, RST, SYN};
use crate::testing::*;

fn take(trace: &mut Trace, link: u16, frame: &[u8], kept: usize, t_ns: i64) {
    let captured = &frame[..kept.min(frame.len())];
    Take::packet(trace, &Packet { t_ns, link, captured, wire_len: frame.len() as u32, interface: 0, id: 0 });
}

fn lengths(rows: &Packets) -> Vec<usize> {
    let Packets { conversation, direction, frame, t_ns, seq, size, ack, window, flags, kind, ack_kind, .. } = rows;
    let Packets { sacks, is_dsack, ip_id, ts_val, head, head_size, .. } = rows;
    vec![
        conversation.len(),
        direction.len(),
        frame.len(),
        t_ns.len(),
        seq.len(),
        size.len(),
        ack.len(),
        window.len(),
        flags.len(),
        kind.len(),
        ack_kind.len(),
        sacks.len(),
        is_dsack.len(),
        ip_id.len(),
        ts_val.len(),
        head.len(),
        head_size.len(),
    ]
}

/// A segment that may follow others: numbers near by, or anywhere.
fn any_segment() -> impl Strategy<Value = Tcp> {
    let number = || prop_oneof![8 => 0..300_u32, 2 => (u32::MAX - 300)..=u32::MAX, 1 => any::<u32>()];
    let flags = prop_oneof![6 => Just(ACK), 1 => Just(SYN), 1 => Just(SYN | ACK), 1 => Just(FIN | ACK), 1 => Just(RST), 1 => any::<u8>()];
    let options = prop_oneof![4 => Just(Vec::new()), 1 => prop::collection::vec(any::<u8>(), 0..40)];
    let data = prop_oneof![2 => Just(0), 2 => Just(1_usize), 3 => 2..90_usize];
    let numbers = (number(), number(), prop_oneof![Just(0), Just(500_u16)], prop_oneof![Just(0), 1..4_u16]);
    (any::<bool>(), 0..3_u16, numbers, flags, options, data).prop_map(
        |(way, port, (seq, ack, window, id), flags, options, data)| {
            let client = (1, 700 + port);
            let segment = if way { tcp(client, SERVER) } else { tcp(SERVER, client) };
            let options = &options[..options.len() / 4 * 4];
            segment.seq(seq).ack(ack).flags(flags).window(window).id(id).options(options).data(&vec![7; data])
        },
    )
}

#[derive(Clone, Debug)]
enum Any {
    Segment(Tcp, usize),
    Part(Tcp, u16, bool),
    Noise(u16, Vec<u8>),
    Pause(i64),
}

fn any_packet() -> impl Strategy<Value = Any> {
    prop_oneof![
        12 => (any_segment(), prop_oneof![Just(999_usize), 40..140_usize]).prop_map(|(one, kept)| Any::Segment(one, kept)),
        1 => (any_segment(), 0..4_u16, any::<bool>()).prop_map(|(one, at, more)| Any::Part(one, at, more)),
        1 => (prop_oneof![Just(1_u16), Just(276), Just(101)], prop::collection::vec(any::<u8>(), 0..120))
            .prop_map(|(link, bytes)| Any::Noise(link, bytes)),
        1 => (-2_000_000_000..2_000_000_000_i64).prop_map(Any::Pause),
    ]
}

proptest! {
    #![proptest_config(cases(300))]

    /// A packet is a row, no TCP, not asked for, or a copy; a row's numbers are those of the wire.
    #[test]
    fn sums(packets in prop::collection::vec(any_packet(), 0..120), port in 698..704_u16, stream in 0..4_u32) {
        let asked = [
            Asked::default(),
            Asked { ports: vec![port, 9], stream: None },
            Asked { ports: Vec::new(), stream: Some(stream) },
        ];
        for asked in asked {
            let mut trace = Trace::new(asked);
            let mut t_ns = 1_000_000_000;
            for packet in &packets {
                t_ns += 10_000;
                match packet {
                    Any::Segment(one, kept) => take(&mut trace, 1, &one.frame(), *kept, t_ns),
                    Any::Part(one, at, more) => {
                        let frame = ethernet(0x0800, &ipv4(1, 2, 6, 7, at | u16::from(*more) << 13, &one.segment()));
                        take(&mut trace, 1, &frame, usize::MAX, t_ns);
                    }
                    Any::Noise(link, bytes) => take(&mut trace, *link, bytes, usize::MAX, t_ns),
                    Any::Pause(ns) => t_ns += ns,
                }
            }
            let rows = trace.rows.frame.len();
            prop_assert!(lengths(&trace.rows).into_iter().all(|length| length == rows));
            prop_assert_eq!(u64::from(trace.packets), rows as u64 + trace.other + trace.skipped + trace.copies + trace.damaged);
            let count = trace.conversations.list.len() as i32;
            prop_assert!(trace.rows.conversation.iter().all(|number| (0..count).contains(number)));
            prop_assert!(trace.rows.frame.is_sorted());
            prop_assert!(trace.rows.direction.iter().all(|way| *way == 0 || *way == 1));
            prop_assert!(trace.conversations.list.iter().all(|one| one.ways.iter().all(|way| way.lost_bytes() >= 0)));
        }
    }
}

#[test]
fn rows_and_conversations_are_bounded() {
    let mut trace = Trace::default();
    let frame = |ack| tcp(CLIENT, SERVER).ack(ack).frame();
    (0..=MOST_ROWS as u32).for_each(|ack| take(&mut trace, 1, &frame(ack), usize::MAX, 0));
    assert!(matches!(trace.full(), Some(Error::TooManyRows(_))));
    let mut trace = Trace::new(Asked { ports: vec![80], stream: None });
    for port in 0..=conversations::MOST as u16 {
        assert!(trace.full().is_none());
        take(&mut trace, 1, &tcp((1, 700 + port), SERVER).frame(), usize::MAX, 0);
        take(&mut trace, 1, &tcp((1, 700 + port), (2, 80)).frame(), usize::MAX, 0);
    }
    assert!(matches!(trace.full(), Some(Error::TooManyConversations(_))));
}

#[test]
fn the_options_of_a_row() {
    let block = |from: u32, to: u32| [from.to_be_bytes(), to.to_be_bytes()].concat();
    let options = |blocks: &[Vec<u8>]| {
        let sack = [&[1, 1, 5, 2 + 8 * blocks.len() as u8][..], &blocks.concat()].concat();
        let mut trace = Trace::default();
        take(&mut trace, 1, &tcp(CLIENT, SERVER).ack(1000).options(&sack).frame(), usize::MAX, 0);
        (trace.rows.sacks[0], trace.rows.is_dsack[0], trace.rows.ts_val[0])
    };
    assert_eq!(options(&[block(2000, 3000)]), (1, 0, NONE));
    assert_eq!(options(&[block(500, 600), block(2000, 3000)]), (2, 1, NONE));
    assert_eq!(options(&[block(2000, 2100), block(2000, 3000)]), (2, 1, NONE));
    assert_eq!(options(&[block(2000, 3001), block(2000, 3000), block(5, 6)]), (3, 0, NONE));
    let mut trace = Trace::default();
    let stamps = [&[1, 1, 8, 10][..], &77_u32.to_be_bytes(), &[0; 4]].concat();
    take(&mut trace, 1, &tcp(CLIENT, SERVER).options(&stamps).frame(), usize::MAX, 0);
    take(&mut trace, 1, &tcp(CLIENT, SERVER).options(&stamps).frame(), 60, 0);
    assert_eq!(trace.rows.ts_val, [77, NONE]);
}
