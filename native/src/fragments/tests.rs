//! Fragments in any order in, the payload at the one that completes it out.

use proptest::prelude::*;

use super::*;
use crate::columns::State;
use crate::rpc::tests::build::words;
use crate::testing::*;

const MORE: u16 = 0x2000;

fn part(id: u32, offset: u32, more: bool, bytes: &[u8]) -> Fragment<'_> {
    Fragment { src: 1, dst: 2, id, proto: 17, offset, more, bytes, len: bytes.len() as u32 }
}

proptest! {
    #![proptest_config(cases(512))]

    /// In any order, doubled and overlapping: the payload is there with the fragment that covers its last byte.
    #[test]
    fn any_order(
        words in 1usize..400,
        cuts in prop::collection::vec(1usize..60, 1..20),
        extra in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..6),
        keys in prop::collection::vec(any::<u32>(), 40),
        tail in 0usize..8,
    ) {
        let payload: Vec<u8> = (0..words * 8 + tail).map(|at| (at / 3) as u8).collect();
        let total = payload.len();
        let mut ranges = Vec::new();
        let mut at = 0;
        for cut in cuts.iter().cycle() {
            let end = total.min(at + cut * 8);
            ranges.push((at, end));
            at = end;
            if at == total {
                break;
            }
        }
        for (start, end) in extra {
            let start = start.index(words) * 8;
            let end = start + 8 + end.index(words) * 8;
            ranges.push((start, if end >= total - 8 { total } else { end }));
        }
        let mut order: Vec<_> = ranges.into_iter().zip(keys.iter().cycle()).collect();
        order.sort_by_key(|(_, key)| **key);

        let mut fragments = Fragments::default();
        let mut covered = vec![false; total];
        for (number, ((start, end), _)) in order.iter().enumerate() {
            let whole = fragments.take(&part(7, *start as u32, *end < total, &payload[*start..*end]), 10 + number as u32, 0);
            covered[*start..*end].fill(true);
            let is_whole = covered.iter().all(|seen| *seen);
            prop_assert_eq!(whole.is_some(), is_whole);
            if let Some(whole) = whole {
                prop_assert_eq!((whole.len as usize, whole.first_frame), (total, 10));
                prop_assert!(payload.starts_with(&whole.bytes));
                prop_assert_eq!((fragments.open.len(), fragments.order.len()), (0, 0));
                break;
            }
        }
    }

    /// Fragments of any kind, lengths that lie among them, leave no more behind than is allowed.
    #[test]
    fn any_fragments(parts in prop::collection::vec((0u32..4, 0u32..9000, any::<bool>(), 0usize..90), 0..200)) {
        let mut fragments = Fragments::default();
        for (number, (id, offset, more, len)) in parts.iter().enumerate() {
            let bytes = vec![*id as u8; *len];
            let whole = fragments.take(&part(*id, offset * 8, *more, &bytes), number as u32, 0);
            prop_assert!(whole.is_none_or(|whole| whole.bytes.len() <= whole.len as usize && whole.len <= LARGEST));
            prop_assert_eq!(fragments.open.len(), fragments.order.len());
            for partial in fragments.open.values() {
                prop_assert!(partial.ranges.windows(2).all(|pair| pair[0].1 < pair[1].0) && partial.ranges.len() <= RANGES);
            }
        }
    }
}

/// Packets of which something is missing are never put together, and the oldest make room for others.
#[test]
fn bounded() {
    let mut fragments = Fragments::default();
    let bytes = vec![1; 1480];
    for id in 0..5000 {
        assert!(fragments.take(&part(id, 0, true, &bytes), id, 0).is_none());
        assert!(fragments.take(&part(id, 2960, false, &bytes), id, 0).is_none());
    }
    assert_eq!((fragments.open.len(), fragments.order.len()), (OPEN, OPEN));
    assert!(fragments.take(&part(10, 1480, true, &bytes), 6000, 0).is_none()); // forgotten
    assert!(fragments.take(&part(4999, 1480, true, &bytes), 6000, 0).is_some());
    // One packet in more pieces than there are of any
    for number in 0..4000 {
        assert!(fragments.take(&part(9999, 16 * number, true, &bytes[..8]), 1, 0).is_none());
    }
    let most = fragments.open.values().map(|partial| partial.ranges.len()).max();
    assert_eq!(most, Some(RANGES));
}

/// What ends behind 64 KiB, or is empty, is no fragment of anything.
#[test]
fn impossible() {
    let mut fragments = Fragments::default();
    let bytes = [0; 100];
    assert!(fragments.take(&part(1, LARGEST - 50, false, &bytes), 1, 0).is_none());
    assert!(fragments.take(&part(1, 0, true, &[]), 1, 0).is_none());
    assert!(fragments.open.is_empty());
}

/// An identification that comes again after half a minute is that of another packet.
#[test]
fn identification_used_again() {
    let mut fragments = Fragments::default();
    assert!(fragments.take(&part(1, 0, true, &[1; 80]), 1, 0).is_none());
    assert!(fragments.take(&part(1, 0, true, &[2; 80]), 50, PATIENCE_NS + 1).is_none());
    let whole = fragments.take(&part(1, 80, false, &[2; 80]), 51, PATIENCE_NS + 2).unwrap();
    assert_eq!((whole.first_frame, whole.first_ns, whole.bytes), (50, PATIENCE_NS + 1, vec![2; 160]));
    assert_eq!((fragments.open.len(), fragments.order.len()), (0, 0));
}

/// The frames of a call in IPv4 fragments are that of the first one captured and that of the one that completes it.
#[test]
fn call_in_fragments() {
    let datagram = udp(CLIENT.1, SERVER.1, &write(1, 0, &[7; 2920])); // 8 + 2992 bytes: 1480, 1480, 40
    let fragment = |at: usize, end: usize, more: u16| {
        let field = (at / 8) as u16 | more;
        ethernet(0x0800, &ipv4(CLIENT.0, SERVER.0, 17, 77, field, &datagram[at..end]))
    };
    let mut capture = Capture::new();
    capture.at_us(10).frame(&fragment(1480, 2960, MORE)); // 1
    capture.at_us(20).frame(&fragment(0, 1480, MORE)); // 2
    capture.at_us(30).frame(&fragment(1480, 2960, MORE)); // 3: again
    capture.at_us(40).frame(&fragment(2960, 3000, 0)); // 4
    capture.at_us(50).udp(SERVER, CLIENT, 5, &reply(1, &[])); // 5
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(1, (1, 4), (5, 5), 1, true)]);
    assert_eq!((decoder.pairing.ops.t0[0], decoder.pairing.ops.t1[0]), (10_000, 40_000));
    assert_eq!(decoder.pairing.ops.size[0], 2920);
    assert_eq!(decoder.kinds, [2, 0, 0, 0, 3, 0, 0, 0]); // the last fragment is RPC, as the reply is
}

/// A reply in IPv6 fragments, cut by a snaplen: what names it is in the first one.
#[test]
fn reply_in_fragments_over_ipv6() {
    let call = ethernet(0x86dd, &ipv6(CLIENT.0, SERVER.0, 17, &udp(CLIENT.1, SERVER.1, &read(1, 0, 2000))));
    let datagram = udp(SERVER.1, CLIENT.1, &reply(1, &[7; 2000])); // 2036 bytes
    let fragment = |at: usize, end: usize, more: u16| {
        let head = join(&[&[17, 0], &(at as u16 | more).to_be_bytes(), &words(&[0xabcd]).0]);
        ethernet(0x86dd, &ipv6(SERVER.0, CLIENT.0, 44, &join(&[&head, &datagram[at..end]])))
    };
    let mut capture = Capture::new();
    capture.frame(&call); // 1
    capture.cut_frame(&fragment(0, 1448, 1), 128); // 2
    capture.cut_frame(&fragment(1448, 2036, 0), 128); // 3
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(1, (1, 1), (2, 3), 1, true)]);
}

/// A message of which a fragment was not captured is not there; the reply to it is without a call.
#[test]
fn fragment_missing() {
    let datagram = udp(CLIENT.1, SERVER.1, &write(1, 0, &[7; 2920]));
    let mut capture = Capture::new();
    capture.frame(&ethernet(0x0800, &ipv4(CLIENT.0, SERVER.0, 17, 77, MORE, &datagram[..1480]))); // 1
    capture.frame(&ethernet(0x0800, &ipv4(CLIENT.0, SERVER.0, 17, 77, 370, &datagram[2960..]))); // 2
    capture.udp(SERVER, CLIENT, 5, &reply(1, &[])); // 3
    let decoder = capture.end();
    assert_eq!(loose(&decoder), [(1, (3, 3), State::NoCall, -1)]);
    assert_eq!(decoder.kinds, [1, 0, 0, 0, 2, 0, 0, 0]);
}
