//! Segments in, what each is in its conversation out; tests/tcp/test_tcp_reading.py has whole captures.

use super::*;
use crate::link::{Frame, dissect};
use crate::testing::*;

/// Conversations that take segment after segment.
#[derive(Default)]
struct Seen {
    all: Conversations,
}

impl Seen {
    /// Number of the conversation, direction in it, and what the segment is.
    fn take(&mut self, segment: &Tcp) -> (usize, usize, Judged) {
        let bytes = segment.frame();
        let Frame::Tcp(ends, segment) = dissect(1, &bytes, bytes.len() as u32) else { panic!("no segment") };
        let (number, direction) = self.all.find(ends, &segment);
        let room = &mut self.all.room;
        (number, direction, self.all.list[number].packet(&segment, direction, room))
    }

    fn kinds(&mut self, segments: &[Tcp]) -> Vec<(usize, Kind)> {
        segments.iter().map(|segment| self.take(segment)).map(|(number, _, judged)| (number, judged.kind)).collect()
    }
}

#[test]
fn positions_go_on_where_numbers_wrap() {
    let mut seen = Seen::default();
    seen.take(&syn(CLIENT, SERVER, u32::MAX - 5));
    seen.take(&syn_ack(SERVER, CLIENT, 99, u32::MAX - 4));
    let data = tcp(CLIENT, SERVER).ack(100).data(b"12345678");
    let at = |judged: Judged| (judged.seq, judged.ack, judged.kind);
    assert_eq!(at(seen.take(&data.clone().seq(u32::MAX - 4)).2), (0, Some(0), Kind::New));
    assert_eq!(at(seen.take(&data.clone().seq(3)).2), (8, Some(0), Kind::New));
    assert_eq!(at(seen.take(&data.seq(u32::MAX)).2), (4, Some(0), Kind::Retransmission));
    assert_eq!(at(seen.take(&tcp(SERVER, CLIENT).seq(100).ack(11)).2), (0, Some(16), Kind::None));
}

/// A reset says nothing of bytes, whatever it carries; a SYN may carry some (TCP Fast Open).
#[test]
fn what_resets_and_syns_carry() {
    let mut seen = Seen::default();
    let opened = seen.take(&syn(CLIENT, SERVER, 9).data(b"early"));
    assert_eq!((opened.2.seq, opened.2.kind), (0, Kind::New));
    assert_eq!(seen.take(&syn_ack(SERVER, CLIENT, 0, 15)).2.seq, -1);
    assert_eq!(
        seen.kinds(&[tcp(CLIENT, SERVER).seq(15).flags(RST).data(b"why"), tcp(CLIENT, SERVER).seq(15).data(b"x")]),
        [(0, Kind::None), (0, Kind::New)]
    );
}

#[test]
fn a_syn_with_another_number_begins_another_conversation() {
    let mut seen = Seen::default();
    let segments = [
        syn(CLIENT, SERVER, 9),
        syn(CLIENT, SERVER, 9),
        tcp(CLIENT, SERVER).seq(10).data(b"x"),
        syn(CLIENT, SERVER, 77),
        syn_ack(SERVER, CLIENT, 5, 78),
        syn_ack(SERVER, CLIENT, 6, 78),
        tcp(SERVER, CLIENT).seq(7).data(b"x"),
        syn(SERVER, CLIENT, 1000),
    ];
    let numbers: Vec<usize> = seen.kinds(&segments).into_iter().map(|one| one.0).collect();
    assert_eq!(numbers, [0, 0, 0, 1, 1, 1, 1, 2]);
    assert_eq!(seen.all.list.iter().map(|one| one.reconnect).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(seen.all.list[1].ways[1].first_seq, Some(7));
    assert_eq!(seen.all.list[2].ends, ends4(SERVER, CLIENT));
}

#[test]
fn heads_are_bounded_in_all() {
    let mut seen = Seen::default();
    for port in 0..8 {
        let segment = tcp((1, port), SERVER).data(&[7; 5000]);
        seen.take(&segment);
    }
    let sizes: Vec<usize> = seen.all.list.iter().map(|one| one.ways[0].head.len()).collect();
    assert_eq!(sizes, [HEAD, HEAD, HEAD, 0, 0, 0, 0, 0]);
    assert_eq!(seen.all.room, 0);
}

/// An ACK further than any window is not believed: the numbers behind it would be lost.
#[test]
fn a_wild_ack_changes_nothing() {
    let mut seen = Seen::default();
    let data = tcp(CLIENT, SERVER).data(b"12345678");
    seen.take(&data.clone().seq(100));
    seen.take(&tcp(SERVER, CLIENT).ack(108));
    seen.take(&tcp(SERVER, CLIENT).ack(108 + (3 << 29)));
    assert_eq!(seen.all.list[0].ways[0].lost_bytes(), 0);
    assert_eq!(seen.take(&data.seq(108)).2.kind, Kind::New);
}

/// A timestamps option behind two NOPs.
fn stamped(ts_val: u32) -> [u8; 12] {
    let [a, b, c, d] = ts_val.to_be_bytes();
    [1, 1, 8, 10, a, b, c, d, 0, 0, 0, 0]
}

/// Four bytes at 10, then four at 18, as what lies between was lost or overtaken; so many ACKs ask for it.
fn with_hole(duplicates: usize, options: &[u8]) -> Vec<Tcp> {
    let data = |seq| tcp(CLIENT, SERVER).seq(seq).ack(100).options(options).data(b"four");
    let ack = || tcp(SERVER, CLIENT).seq(100).ack(14);
    let mut segments = vec![data(10), ack(), data(18)];
    segments.extend((0..duplicates).map(|_| ack()));
    segments
}

fn kind_behind(segments: Vec<Tcp>, last: Tcp) -> Kind {
    Seen::default().kinds(&[segments, vec![last]].concat()).pop().unwrap().1
}

#[test]
fn what_three_duplicate_acks_asked_for_was_sent_again() {
    let last = |options: &[u8]| tcp(CLIENT, SERVER).seq(14).ack(100).options(options).data(b"lost");
    assert_eq!(kind_behind(with_hole(3, &[]), last(&[])), Kind::Retransmission);
    assert_eq!(kind_behind(with_hole(2, &[]), last(&[])), Kind::OutOfOrder);
    assert_eq!(kind_behind(with_hole(3, &stamped(5)), last(&stamped(6))), Kind::Retransmission);
    // Sent in front of what overtook it, or in the same tick.
    assert_eq!(kind_behind(with_hole(3, &stamped(5)), last(&stamped(4))), Kind::OutOfOrder);
    assert_eq!(kind_behind(with_hole(3, &stamped(5)), last(&stamped(5))), Kind::OutOfOrder);
    // The ACKs ask for another byte.
    let other = tcp(CLIENT, SERVER).seq(16).ack(100).data(b"xx");
    assert_eq!(kind_behind(with_hole(3, &[]), other), Kind::OutOfOrder);
}

#[test]
fn data_behind_the_fin_that_overtook_them_are_out_of_order() {
    let data = |seq| tcp(CLIENT, SERVER).seq(seq).ack(100).data(b"four");
    let fin = |seq| tcp(CLIENT, SERVER).seq(seq).ack(100).flags(FIN | ACK);
    let mut seen = Seen::default();
    let kinds = [Kind::New, Kind::None, Kind::OutOfOrder].map(|kind| (0, kind));
    assert_eq!(seen.kinds(&[data(10), fin(18), data(14)]), kinds);
    let in_order = [Kind::New, Kind::New, Kind::None, Kind::Retransmission].map(|kind| (0, kind));
    assert_eq!(Seen::default().kinds(&[data(10), data(14), fin(18), data(14)]), in_order);
}
