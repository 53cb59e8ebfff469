use proptest::prelude::*;

use super::super::{At, Wanted};
use super::*;
use crate::compound::tests::ranks;
use crate::container::Packet;
use crate::link;
use crate::link::{ACK, FIN, RST};
use crate::table::Columns;
use crate::testing::*;

/// Everything that leaves a decoder which took these packets, and how many of them went the short way.
fn contents(
    packets: &[(i64, Vec<u8>, usize)],
    wanted: Wanted,
    is_short: bool,
) -> (Vec<(&'static str, Columns)>, String, u32) {
    let mut decoder = Decoder::new(ranks().clone());
    decoder.keep_segments(wanted);
    let mut taken = 0;
    for (t_ns, frame, kept) in packets {
        let captured = &frame[..*kept.min(&frame.len())];
        let packet = Packet { t_ns: *t_ns, link: 1, captured, wire_len: frame.len() as u32, interface: 0, id: 0 };
        if !is_short {
            decoder.flows.forget_recent();
        }
        decoder.see(At::of(&packet, decoder.number + 1));
        let usual = link::plain(1, captured).and_then(|(ends, segment)| decoder.usual(&ends, &segment));
        taken += u32::from(usual.is_some());
        let kind = usual.unwrap_or_else(|| decoder.unusual(&packet));
        decoder.kinds[kind as usize] += 1;
    }
    decoder.finish();
    let mut all = decoder.contents();
    let counts = &all.counts;
    let counted = format!(
        "{:?} {:?} {:?}",
        (counts.kinds, counts.hidden, counts.malformed, counts.duplicate_packets, counts.repeated, counts.duplicated),
        (counts.lost_ranges, counts.lost_bytes, counts.wire_bytes, counts.captured_bytes, counts.busiest_second),
        (all.span_ns, all.connections, all.pairing.kinds.list.len()),
    );
    let pairing = &mut all.pairing;
    let mut tables = vec![
        ("ops", pairing.ops.take_columns()),
        ("loose", pairing.loose.take_columns()),
        ("resent", pairing.resent.take_columns()),
        ("blocked", pairing.blocked.take_columns()),
        ("replies", pairing.replies.take_columns()),
        ("unanswered", pairing.unanswered.take_columns()),
        ("tcp", all.tcp.take_columns()),
        ("events", all.events.take_columns()),
        ("pauses", all.pauses.take_columns()),
        ("hangs", all.hangs.take_columns()),
        ("loads", all.loads.take_columns()),
        ("unread", all.unread.take_columns()),
    ];
    tables.extend(all.segments.iter_mut().map(|one| ("segments", one.take_columns())));
    (tables, counted, taken)
}

/// A connection on which both sides send calls and replies in segments of any size, and now and then something happens.
#[derive(Clone, Debug)]
struct Step {
    is_back: bool,
    what: u32,
    size: usize,
    wait_us: i64,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let wait_us = prop_oneof![20 => 0i64..400, 3 => 900i64..3000, 1 => 20_000i64..60_000];
    let size = prop_oneof![Just(0usize), 1usize..60, 60usize..2000];
    let one = (any::<bool>(), 0u32..300, size, wait_us);
    prop::collection::vec(
        one.prop_map(|(is_back, what, size, wait_us)| Step { is_back, what, size, wait_us }),
        250..500,
    )
}

/// Frames of such a connection, their times, and how many bytes of each were kept.
fn packets(steps: &[Step], snaplen: usize) -> Vec<(i64, Vec<u8>, usize)> {
    let mut out: Vec<(i64, Vec<u8>, usize)> = Vec::new();
    let mut streams: [Vec<u8>; 2] = Default::default();
    let (mut sent, mut acked) = ([0usize; 2], [0usize; 2]);
    let (mut xid, mut t_ns) = (7, 1_000_000_000);
    for (step, id) in steps.iter().zip(1u16..) {
        t_ns += step.wait_us * 1000;
        let way = usize::from(step.is_back);
        let (from, to) = [(CLIENT, SERVER), (SERVER, CLIENT)][way];
        if step.what == 0 && out.len() > 9 {
            let again = out[out.len() - 1 - step.size % 9].clone();
            out.push((t_ns, again.1, again.2));
            continue;
        }
        while step.what > 60 && streams[way].len() < sent[way] + step.size {
            let data = vec![7; step.size * 2 % 700];
            let message = if way == 0 { write(xid, 0, &data) } else { reply(xid - (step.what % 3), &data) };
            xid += u32::from(way == 0);
            streams[way].extend(record(&message));
        }
        let begin = sent[way] + if step.what == 1 { step.size } else { 0 };
        let begin = begin.saturating_sub(if step.what == 2 { step.size } else { 0 }).min(streams[way].len());
        let end = streams[way].len().min(begin + step.size);
        let ack = match step.what {
            3 => acked[way].saturating_sub(9),
            4..60 => acked[way],
            _ => sent[1 - way],
        };
        acked[way] = acked[way].max(ack);
        let segment = tcp(from, to).seq(1 + begin as u32).ack(1 + ack as u32).id(if step.what == 5 { 9 } else { id });
        let segment = match step.what {
            6 if out.len() > 300 => segment.flags(ACK | FIN),
            7 if out.len() > 300 => segment.flags(RST),
            8 => segment.window(0),
            9 => segment.options(&[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2]),
            _ => segment.options(&[1, 1, 8, 10, 0, 0, (id >> 8) as u8, id as u8, 0, 0, 0, 1]),
        };
        sent[way] = sent[way].max(end);
        out.push((t_ns, segment.data(&streams[way][begin..end]).frame(), snaplen));
    }
    out
}

proptest! {
    #![proptest_config(cases(100))]

    /// What goes on as usual takes the short way, which comes to the same as the long one, whatever lies in between.
    #[test]
    fn the_short_way_is_the_long_one(
        steps in steps(),
        snaplen in prop_oneof![3 => Just(usize::MAX), 1 => 100usize..400],
        wanted in prop_oneof![Just(Wanted::None), Just(Wanted::Some), Just(Wanted::All)],
    ) {
        let packets = packets(&steps, snaplen);
        let (short, short_counts, taken) = contents(&packets, wanted, true);
        let (long, long_counts, none) = contents(&packets, wanted, false);
        prop_assert_eq!(none, 0);
        prop_assert!(taken > 0 || packets.len() < 250);
        prop_assert_eq!(short_counts, long_counts);
        prop_assert_eq!(short.len(), long.len());
        for ((name, short), (_, long)) in short.iter().zip(&long) {
            prop_assert_eq!(short, long, "{}", name);
        }
    }
}
