use proptest::prelude::*;

use super::*;
use crate::link::{Frame, dissect};
use crate::testing::*;

const US: i64 = 1000;
const MS: i64 = 1_000_000;

/// A segment, its interface, and when it was seen.
type Seen = (Tcp, u32, i64);

/// What each of some segments is: those of `CLIENT` go one way, all others the other one.
fn copies(segments: &[Seen]) -> Vec<bool> {
    let mut copies = Copies::default();
    let is_copy = |(segment, point, t_ns): &Seen| {
        let bytes = segment.frame();
        let Frame::Tcp(ends, segment) = dissect(1, &bytes, bytes.len() as u32) else { panic!("no segment") };
        copies.is_copy(usize::from(ends.sport != CLIENT.1), *point, &segment, *t_ns)
    };
    segments.iter().map(is_copy).collect()
}

/// How many of them are copies, one of them every so often.
fn among(segments: &[Tcp], apart_ns: i64) -> Vec<bool> {
    let seen = segments.iter().enumerate();
    copies(&seen.map(|(number, segment)| (segment.clone(), 0, number as i64 * apart_ns)).collect::<Vec<Seen>>())
}

fn data(seq: u32) -> Tcp {
    tcp(CLIENT, SERVER).seq(seq).data(b"data")
}

fn stamped(segment: Tcp, ts_val: u32) -> Tcp {
    let [a, b, c, d] = ts_val.to_be_bytes();
    segment.options(&[1, 1, 8, 10, a, b, c, d, 0, 0, 0, 9])
}

/// An ACK of the other side that shows a hole: it selects what lies behind.
fn sack(ack: u32, from: u32) -> Tcp {
    let [left, right] = [from.to_be_bytes(), from.wrapping_add(4).to_be_bytes()];
    tcp(SERVER, CLIENT).ack(ack).options(&[&[1, 1, 5, 10][..], &left, &right].concat())
}

#[test]
fn the_same_identification_and_numbers_are_a_copy() {
    let with_id = |id: u16| data(7).id(id);
    let segments = [with_id(5), with_id(6), with_id(5), with_id(5)];
    assert_eq!(among(&segments, US), [false, false, true, true]);
    assert_eq!(among(&segments, 1000 * MS), [false, false, true, true]);
    assert_eq!(among(&[with_id(5), with_id(5).window(9)], US), [false; 2]);
    assert_eq!(among(&[with_id(5), with_id(0)], US), [false; 2]);
}

/// Hardware that cuts packets up may give all pieces one identification: then it tells nothing.
#[test]
fn a_sender_that_repeats_identifications_is_not_believed() {
    let segments = [data(7).id(5), data(11).id(5), data(7).id(5)];
    assert_eq!(among(&segments, 300 * MS), [false; 3]);
    assert_eq!(among(&segments, US), [false, false, true]);
}

#[test]
fn without_identification_another_interface_tells_however_late() {
    for apart in [US, 50 * MS] {
        let points = [(data(7), 1), (data(7), 2), (data(7), 3), (data(7), 1), (data(7), 2), (data(11), 2)];
        let seen = points.into_iter().zip(0..).map(|((segment, point), number)| (segment, point, number * apart));
        let again = apart == US; // sooner than any timer
        assert_eq!(copies(&seen.collect::<Vec<Seen>>()), [false, true, true, again, true, false]);
    }
}

#[test]
fn without_identification_what_comes_sooner_than_any_timer_is_a_copy() {
    for apart in [2 * US, 900 * US] {
        assert_eq!(among(&[data(7), data(7), data(7)], apart), [false, true, true]);
    }
    assert_eq!(among(&[data(7), data(7)], 200 * MS), [false; 2]);
    assert_eq!(among(&[data(7), data(7).ack(3)], US), [false; 2]);
}

/// A fast retransmission on a short path: the receiver has asked for it in between.
#[test]
fn what_the_receiver_asked_for_was_sent_again() {
    let lost = [data(7), data(11), sack(7, 11), data(7)];
    assert_eq!(among(&lost, 100 * US), [false; 4]);
    // It asked for what lies behind: nothing makes TCP send this again.
    let other = [data(7), data(11), data(15), sack(11, 15), data(7)];
    assert_eq!(among(&other, 100 * US), [false, false, false, false, true]);
    let duplicate = tcp(SERVER, CLIENT).ack(7);
    let without_sack = [duplicate.clone(), data(7), data(11), duplicate, data(7)];
    assert_eq!(among(&without_sack, 100 * US), [false; 5]);
}

/// Where each packet is seen twice, copies come as long after it as ever, and as often, whatever is asked for.
#[test]
fn where_all_is_doubled_a_retransmission_is_doubled_too() {
    for (apart, again) in [(20 * US, 300 * US), (1000 * US, 300 * US)] {
        let mut seen: Vec<Seen> = Vec::new();
        let mut twice = |segment: Tcp, t_ns: i64| seen.extend([(segment.clone(), 0, t_ns), (segment, 0, t_ns + apart)]);
        (0..20).for_each(|number| twice(data(7 + 4 * number), 5 * MS * i64::from(number)));
        twice(data(87), 100 * MS);
        twice(sack(87, 91), 100 * MS + 200 * US);
        twice(data(87), 100 * MS + again);
        seen.sort_by_key(|one| one.2);
        let found = copies(&seen);
        let sent = found.iter().filter(|is_copy| !**is_copy).count();
        // Of the other direction two equal ACKs are all that there is: what is usual there is not known.
        assert_eq!((sent, found.len()), (24, 46), "{apart}");
    }
}

/// An old timestamp: TCP says the present one in whatever it sends.
#[test]
fn a_timestamp_that_is_past_tells_however_late() {
    let one = stamped(data(7), 1000);
    assert_eq!(among(&[one.clone(), stamped(data(11), 1004), one.clone()], 4 * MS), [false, false, true]);
    assert_eq!(among(&[one.clone(), stamped(data(11), 1004), stamped(data(7), 1008)], 4 * MS), [false; 3]);
    // Nothing came in between, but the clock is known to tick each ms.
    let mut seen: Vec<Seen> = (0..20).map(|n| (stamped(data(7 + 4 * n), 1000 + n), 0, i64::from(n) * MS)).collect();
    seen.push((stamped(data(83), 1019), 0, 23 * MS));
    assert_eq!(copies(&seen).iter().position(|is_copy| *is_copy), Some(20));
    seen[20] = (stamped(data(83), 1023), 0, 23 * MS);
    assert!(copies(&seen).iter().all(|is_copy| !is_copy));
}

/// A lower device shows the pieces of what an upper one shows whole; an upper one may put them together.
#[test]
fn pieces_and_the_whole_are_the_same_packets() {
    let whole = |id: u16| tcp(CLIENT, SERVER).seq(1).data(&[7; 250]).id(id);
    let piece = |number: u32, id: u16| {
        let len = if number < 2 { 100 } else { 50 };
        tcp(CLIENT, SERVER).seq(1 + 100 * number).data(&vec![7; len]).id(id)
    };
    for (first, step) in [(40, 1), (0, 0)] {
        let pieces = [piece(0, first), piece(1, first + step), piece(2, first + 2 * step)];
        let cut: Vec<Tcp> = [whole(first)].into_iter().chain(pieces.clone()).collect();
        assert_eq!(among(&cut, 10 * US), [false, true, true, true]);
        let joined: Vec<Tcp> = pieces.into_iter().chain([whole(first)]).collect();
        assert_eq!(among(&joined, 10 * US), [false, false, false, true]);
    }
    // The sender has numbered other packets since: each of these was sent again.
    let again = [whole(40), piece(0, 43), piece(1, 44), piece(2, 45)];
    assert_eq!(among(&again, 10 * US), [false; 4]);
    // Its next packet has its last bytes again: were it a piece, there would be a first one.
    assert_eq!(among(&[whole(40), piece(2, 41)], 10 * US), [false; 2]);
}

/// ACKs that are equal: of one packet, or of a receiver that lacks data and has no SACK.
#[test]
fn equal_acks_are_copies_where_nothing_can_be_lost() {
    let ack = || tcp(SERVER, CLIENT).ack(11);
    assert_eq!(among(&[data(7), ack(), ack()], US), [false, false, true]);
    assert_eq!(among(&[data(7), data(11), ack(), ack(), ack()], US), [false; 5]);
}

#[test]
fn another_connection_begins_anew() {
    let segments = [data(7), data(11), syn(CLIENT, SERVER, 3), syn(CLIENT, SERVER, 3), data(7), data(7)];
    assert_eq!(among(&segments, 100 * US), [false, false, false, true, false, true]);
    let apart = [data(7), syn(CLIENT, SERVER, 3), data(7), data(11)];
    assert_eq!(among(&apart, 100 * MS), [false; 4]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// What is usual takes the short way, which comes to the same as the long one, whatever lies in between.
    #[test]
    fn the_short_way_is_the_long_one(
        steps in prop::collection::vec((0..40_u32, any::<bool>(), 0..3000_i64), 200..400),
        wraps in any::<bool>(),
        is_stamped in any::<bool>(),
    ) {
        let (mut short, mut long) = (Copies::default(), Copies::default());
        let first: u32 = if wraps { u32::MAX - 500 } else { 7 };
        let (mut next, mut t_ns, mut taken_short) = ([first; 2], 0, 0);
        let mut sent: Vec<(Tcp, usize)> = Vec::new();
        for ((what, is_back, wait_us), number) in steps.into_iter().zip(1_u32..) {
            t_ns += wait_us * US;
            let way = usize::from(is_back);
            let (from, to) = [(CLIENT, SERVER), (SERVER, CLIENT)][way];
            let plain = tcp(from, to).seq(next[way]).ack(next[1 - way]).id(number as u16);
            let plain = if is_stamped { stamped(plain, 1000 + number) } else { plain };
            let (segment, way) = match what {
                0..2 if !sent.is_empty() => sent[sent.len() - 1 - (what as usize * 5) % sent.len()].clone(),
                2 => (plain.seq(next[way].wrapping_sub(9)).data(b"again"), way),
                3 => (plain.seq(next[way].wrapping_add(4)).data(b"hole"), way),
                4 => (plain.data(b"no id").id(0), way),
                5 => (sack(next[1 - way], next[1 - way].wrapping_add(8)), 1),
                6 => (plain.flags(ACK | FIN).data(b"fin"), way),
                7 if number > 150 => (plain.options(&[1, 1, 1, 1]).data(b"odd"), way),
                8..20 => (plain, way),
                _ => (plain.data(b"data"), way),
            };
            sent.push((segment.clone(), way));
            let bytes = segment.frame();
            let Frame::Tcp(_, segment) = dissect(1, &bytes, bytes.len() as u32) else { panic!("no segment") };
            let point = u32::from(what == 39 && number > 250);
            taken_short += u32::from(short.0[way].is_usual_next(point, &segment));
            (long.0[0].is_usual, long.0[1].is_usual) = (false, false);
            prop_assert_eq!(
                short.is_copy(way, point, &segment, t_ns),
                long.is_copy(way, point, &segment, t_ns)
            );
            (long.0[0].is_usual, long.0[1].is_usual) = (short.0[0].is_usual, short.0[1].is_usual);
            prop_assert_eq!(&short, &long);
            next[way] = if short.0[way].has_begun { short.0[way].high as u32 } else { first };
        }
        prop_assert!(taken_short > 0);
    }
}
