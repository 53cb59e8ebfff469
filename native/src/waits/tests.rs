//! Timelines in, the silences of their senders out. Client's data is direction 0.

use proptest::prelude::*;

use super::memory::{MOST_REMEMBERED, REMEMBERED};
use super::table::MOST_ROWS;
use super::*;
use crate::decoder::Decoder;
use crate::link::{ACK, FIN};
use crate::testing::*;

const MS: i64 = 1_000_000;
const NS: u8 = 7;

fn c(seq: u32) -> Tcp {
    tcp(CLIENT, SERVER).seq(seq)
}

fn s(seq: u32) -> Tcp {
    tcp(SERVER, CLIENT).seq(seq)
}

/// SYNs with window scale 7 for both, a call of 68 bytes, its reply of 32, and the ACK of that: frames 1 to 6, all at 0.
fn opened() -> Capture {
    let mut capture = Capture::new();
    capture.tcp(&syn(CLIENT, SERVER, 0).options(&[3, 3, NS]));
    capture.tcp(&syn_ack(SERVER, CLIENT, 0, 1).options(&[3, 3, NS]));
    capture.tcp(&c(1));
    capture.tcp(&c(1).data(&record(&read(1, 0, 4096))));
    capture.tcp(&s(1).ack(69).data(&record(&reply(1, &[]))));
    capture.tcp(&c(69).ack(33));
    capture
}

/// A reply of 32 + 4000 bytes, from number 33 on.
fn long_reply() -> Vec<u8> {
    record(&reply(2, &[0; 4000]))
}

/// `opened`, and the call that `long_reply` answers, at 0: frame 7. The ACK of it is 137.
fn called() -> Capture {
    let mut capture = opened();
    capture.tcp(&c(69).ack(33).data(&record(&read(2, 0, 4096))));
    capture
}

/// Direction, frame, begin, end and what was heard in us, what ended it, with what it went on.
type Line = (i8, i32, (i64, i64), Option<i64>, i8, i8);

fn lines(decoder: &Decoder) -> Vec<Line> {
    let of = &decoder.pauses;
    let line = |row: usize| {
        let heard = (of.heard_ns[row] >= 0).then_some(of.heard_ns[row] / 1000);
        let times = (of.begin_ns[row] / 1000, of.end_ns[row] / 1000);
        (of.direction[row], of.frame[row], times, heard, of.ended[row], of.went[row])
    };
    (0..of.conn.len()).map(line).collect()
}

fn line(direction: i8, frame: i32, times: (i64, i64), heard: Option<i64>, ended: Ended, went: Went) -> Line {
    (direction, frame, times, heard, ended as i8, went as i8)
}

/// A reply whose second half waits for the delayed ACK of the first.
#[test]
fn delayed_ack_in_a_message() {
    let mut capture = called();
    let data = long_reply();
    capture.at_us(100).tcp(&s(33).ack(137).data(&data[..1000])); // 8
    capture.at_us(40_100).tcp(&c(137).ack(1033).window(500)); // 9
    capture.at_us(40_150).tcp(&s(1033).ack(137).data(&data[1000..])); // 10
    let decoder = capture.end();
    assert_eq!(lines(&decoder), [line(1, 10, (100, 40_150), Some(40_100), Ended::Ack, Went::New)]);
    let of = &decoder.pauses;
    assert_eq!((of.conn[0], of.reconnect[0], of.in_message[0], of.offset[0]), (0, 0, 1, 1032));
    assert_eq!((of.size[0], of.size_before[0], of.under_way[0], of.under_way_end[0]), (3032, 1000, 1000, 0));
    assert_eq!((of.window[0], of.window_least[0], of.window_end[0]), (1000 << NS, 500 << NS, 500 << NS));
    assert_eq!((of.duplicate_acks[0], of.is_tail[0], of.sent_ns[0], of.dropped), (0, 0, -1, 0));
}

/// In a message 1 ms is a pause, whether data are under way or not, and less is none.
#[test]
fn short_pauses_in_a_message() {
    let mut capture = called();
    let data = long_reply();
    capture.at_us(100).tcp(&s(33).ack(137).data(&data[..1000]));
    capture.at_us(200).tcp(&c(137).ack(1033));
    capture.at_us(1_099).tcp(&s(1033).ack(137).data(&data[1000..2000]));
    capture.at_us(1_150).tcp(&c(137).ack(2033));
    capture.at_us(2_099).tcp(&s(2033).ack(137).data(&data[2000..])); // 12
    assert_eq!(lines(&capture.end()), [line(1, 12, (1_099, 2_099), Some(1_150), Ended::Ack, Went::New)]);
}

/// A call is lost on its way and sent again by the timer, twice: each has a row, and says when it was sent before.
#[test]
fn retransmission_timeouts() {
    let mut capture = called(); // frame 7 at 0
    let call = record(&read(2, 0, 4096));
    capture.at_us(200_000).tcp(&c(69).ack(33).data(&call)); // 8
    capture.at_us(600_000).tcp(&c(69).ack(33).data(&call)); // 9
    let decoder = capture.end();
    let expected = [
        line(0, 8, (0, 200_000), None, Ended::Nothing, Went::Repeated),
        line(0, 9, (200_000, 600_000), None, Ended::Nothing, Went::Repeated),
    ];
    assert_eq!(lines(&decoder), expected);
    let of = &decoder.pauses;
    assert_eq!(of.sent_ns, [0, 200 * MS]);
    assert_eq!((&of.in_message[..], &of.is_tail[..], &of.under_way[..]), (&[0, 0][..], &[1, 1][..], &[68, 68][..]));
}

/// Three duplicates have the sender repeat the first of five segments; it is not the last one that it sent.
#[test]
fn fast_retransmission() {
    let mut capture = called();
    let data = long_reply();
    for at in 0..4 {
        let part = &data[1000 * at..if at == 3 { data.len() } else { 1000 * at + 1000 }];
        capture.at_us(100 + at as i64).tcp(&s(33 + 1000 * at as u32).ack(137).data(part)); // 8 to 11
    }
    for us in [300, 310, 320] {
        capture.at_us(us).tcp(&c(137).ack(33)); // 12 to 14
    }
    capture.at_us(330).tcp(&s(33).ack(137).data(&data[..1000])); // 15
    let decoder = capture.end();
    assert_eq!(lines(&decoder), [line(1, 15, (103, 330), Some(320), Ended::Duplicate, Went::Repeated)]);
    let of = &decoder.pauses;
    assert_eq!((of.duplicate_acks[0], of.is_tail[0], of.sent_ns[0]), (3, 0, 100_000));
    assert_eq!((of.under_way[0], of.under_way_end[0], of.in_message[0]), (4032, 4032, 0));
}

/// With SACK blocks an ACK is a duplicate although the window grows; without, it is an update of the window.
#[test]
fn duplicates_with_another_window() {
    let sack = [1, 1, 5, 10, 0, 0, 4, 9, 0, 0, 8, 1];
    for (options, ended, duplicates) in [(&sack[..], Ended::Duplicate, 1), (&[][..], Ended::Window, 0)] {
        let mut capture = called();
        let data = long_reply();
        capture.at_us(100).tcp(&s(33).ack(137).data(&data[..1000]));
        capture.at_us(200).tcp(&c(137).ack(33).window(1001).options(options));
        capture.at_us(2_000).tcp(&s(1033).ack(137).data(&data[1000..]));
        let decoder = capture.end();
        assert_eq!(lines(&decoder), [line(1, 10, (100, 2_000), Some(200), ended, Went::New)]);
        assert_eq!(decoder.pauses.duplicate_acks, [duplicates]);
    }
}

/// The tail of a reply is lost: a probe repeats it when a part was acknowledged.
#[test]
fn tail_loss_probe() {
    let mut capture = called();
    let data = long_reply();
    capture.at_us(100).tcp(&s(33).ack(137).data(&data[..3000])); // 8
    capture.at_us(110).tcp(&s(3033).ack(137).data(&data[3000..])); // 9
    capture.at_us(200).tcp(&c(137).ack(3033)); // 10
    capture.at_us(15_000).tcp(&s(3033).ack(137).data(&data[3000..])); // 11
    let decoder = capture.end();
    assert_eq!(lines(&decoder), [line(1, 11, (110, 15_000), Some(200), Ended::Ack, Went::Repeated)]);
    let of = &decoder.pauses;
    assert_eq!((of.is_tail[0], of.sent_ns[0], of.under_way[0], of.under_way_end[0]), (1, 110_000, 4032, 1032));
}

/// A window closes; probes with and without a byte have rows, and the silence lasts until the window opens again.
#[test]
fn zero_window() {
    let mut capture = called();
    let data = long_reply();
    capture.at_us(0).tcp(&s(33).ack(137).data(&data[..1000])); // 8
    capture.at_us(100).tcp(&c(137).ack(1033).window(0)); // 9
    capture.at_us(200_000).tcp(&s(1032).ack(137)); // 10, Linux
    capture.at_us(200_100).tcp(&c(137).ack(1033).window(0)); // 11
    capture.at_us(600_000).tcp(&s(1033).ack(137).data(&data[1000..1001])); // 12, others
    capture.at_us(600_100).tcp(&c(137).ack(1033).window(0)); // 13
    capture.at_us(900_000).tcp(&c(137).ack(1033).window(20)); // 14
    capture.at_us(900_100).tcp(&s(1033).ack(137).data(&data[1000..])); // 15
    let decoder = capture.end();
    let expected = [
        line(1, 10, (0, 200_000), Some(100), Ended::Ack, Went::Probe),
        line(1, 12, (0, 600_000), Some(100), Ended::Ack, Went::Probe),
        line(1, 15, (0, 900_100), Some(900_000), Ended::Window, Went::Repeated), // of the byte of the probe
    ];
    assert_eq!(lines(&decoder), expected);
    let of = &decoder.pauses;
    assert_eq!(&of.window_least, &[0, 0, 0]);
    assert_eq!(&of.window_end, &[0, 0, 20 << NS]);
    assert_eq!(of.window, [1000 << NS; 3]);
}

/// Between messages a window that is too small for the next one holds it up, whatever the other side sends meanwhile.
#[test]
fn small_window_between_messages() {
    let mut capture = opened();
    let big = record(&write(3, 0, &[0; 2000]));
    capture.at_us(0).tcp(&c(69).ack(33).data(&record(&read(2, 0, 512)))); // 7
    capture.at_us(100).tcp(&s(33).ack(137).window(1).data(&record(&reply(2, &[])))); // 8: a window of 128
    capture.at_us(30_000).tcp(&s(65).ack(137).window(100)); // 9
    capture.at_us(30_100).tcp(&c(137).ack(65).data(&big)); // 10
    let decoder = capture.end();
    assert_eq!(lines(&decoder), [line(0, 10, (0, 30_100), Some(30_000), Ended::Window, Went::New)]);
    assert_eq!((decoder.pauses.window_least[0], decoder.pauses.in_message[0]), (128, 0));
}

/// Whoever waits for an answer does not pause, nor who has nothing to say when all was acknowledged at once; but who
/// sends only when the ACK has come does.
#[test]
fn between_messages() {
    let call = |xid| record(&read(xid, 0, 512));
    let mut capture = opened();
    capture.at_us(0).tcp(&c(69).ack(33).data(&call(2))); // 7
    capture.at_us(50_000).tcp(&s(33).ack(137).data(&record(&reply(2, &[])))); // 8
    capture.at_us(50_100).tcp(&c(137).ack(65).data(&call(3))); // 9
    capture.at_us(50_200).tcp(&s(65).ack(205)); // 10
    capture.at_us(99_000).tcp(&c(205).ack(65).data(&call(4))); // 11
    capture.at_us(139_000).tcp(&s(65).ack(273)); // 12
    capture.at_us(139_100).tcp(&c(273).ack(65).data(&call(5))); // 13
    let decoder = capture.end();
    assert_eq!(lines(&decoder), [line(0, 13, (99_000, 139_100), Some(139_000), Ended::Ack, Went::New)]);
    assert_eq!(decoder.pauses.in_message, [0]);
}

/// What the other side sends in the middle of a message does not hide a pause in it.
#[test]
fn data_of_the_other_side_in_a_message() {
    let mut capture = called();
    let data = long_reply();
    capture.at_us(0).tcp(&s(33).ack(137).data(&data[..1000])); // 8
    capture.at_us(300).tcp(&c(137).ack(33).data(&record(&read(3, 0, 512)))); // 9
    capture.at_us(5_000).tcp(&s(1033).ack(205).data(&data[1000..])); // 10
    assert_eq!(lines(&capture.end()), [line(1, 10, (0, 5_000), Some(300), Ended::Data, Went::New)]);
}

/// Where the capture lacks what was sent in between there was no silence; what fills the hole has a row.
#[test]
fn holes() {
    let mut capture = called();
    let data = long_reply();
    capture.at_us(0).tcp(&s(33).ack(137).data(&data[..1000])); // 8
    capture.at_us(30_000).tcp(&s(2033).ack(137).data(&data[2000..3000])); // 9: ahead of a hole
    capture.at_us(40_000).tcp(&s(1033).ack(137).data(&data[1000..2000])); // 10: fills it
    capture.at_us(42_000).tcp(&s(3033).ack(137).data(&data[3000..])); // 11
    let decoder = capture.end();
    let expected = [
        line(1, 10, (30_000, 40_000), None, Ended::Nothing, Went::Late),
        line(1, 11, (40_000, 42_000), None, Ended::Nothing, Went::New),
    ];
    assert_eq!(lines(&decoder), expected);
    assert_eq!((&decoder.pauses.sent_ns[..], &decoder.pauses.in_message[..]), (&[-1, -1][..], &[1, 1][..]));
}

/// A keep-alive with a byte, or without, ends no silence and is none; neither do FIN, RST and what was captured twice.
#[test]
fn what_is_no_data() {
    let mut capture = called();
    let data = long_reply();
    capture.at_us(0).tcp(&s(33).ack(137).id(1).data(&data[..1000])); // 8
    capture.at_us(1).tcp(&s(33).ack(137).id(1).data(&data[..1000])); // 9: the same packet
    capture.at_us(10_000).tcp(&s(1032).ack(137).data(&data[999..1000])); // 10
    capture.at_us(20_000).tcp(&s(1032).ack(137)); // 11
    capture.at_us(30_000).tcp(&s(1033).ack(137).data(&data[1000..])); // 12
    capture.at_us(90_000).tcp(&s(4065).ack(137).flags(FIN | ACK)); // 13
    let decoder = capture.end();
    assert_eq!(lines(&decoder), [line(1, 12, (0, 30_000), None, Ended::Nothing, Went::New)]);
}

/// A new connection between the same ports begins anew, with scales of its own.
#[test]
fn a_new_connection() {
    let mut capture = called();
    let data = long_reply();
    capture.at_us(0).tcp(&s(33).ack(137).data(&data[..1000]));
    capture.at_us(500_000).tcp(&syn(CLIENT, SERVER, 5000));
    capture.at_us(500_100).tcp(&syn_ack(SERVER, CLIENT, 9000, 5001).options(&[3, 3, 2]));
    capture.at_us(500_200).tcp(&c(5001).ack(9001).data(&record(&read(2, 0, 4096)))); // 11
    capture.at_us(500_300).tcp(&s(9001).ack(5069).data(&data[..1000])); // 12
    capture.at_us(503_000).tcp(&s(10001).ack(5069).data(&data[1000..])); // 13
    let decoder = capture.end();
    assert_eq!(lines(&decoder), [line(1, 13, (500_300, 503_000), None, Ended::Nothing, Went::New)]);
    let of = &decoder.pauses;
    assert_eq!((of.reconnect[0], of.offset[0], of.window[0]), (1, 1000, 1000)); // the client's SYN declined scaling
}

/// Without SYNs a window is not known, unless it is closed.
#[test]
fn without_a_handshake() {
    let mut capture = Capture::new();
    let data = long_reply();
    capture.tcp(&c(1).data(&record(&read(2, 0, 4096)))); // 1
    capture.at_us(0).tcp(&s(33).ack(69).data(&data[..1000])); // 2
    capture.at_us(100).tcp(&c(69).ack(1033).window(5)); // 3
    capture.at_us(2_000).tcp(&s(1033).ack(69).data(&data[1000..2000])); // 4
    capture.at_us(2_100).tcp(&c(69).ack(2033).window(0)); // 5
    capture.at_us(9_000).tcp(&c(69).ack(2033).window(5)); // 6
    capture.at_us(9_100).tcp(&s(2033).ack(69).data(&data[2000..])); // 7
    let of = capture.end().pauses;
    assert_eq!((of.frame, of.announced, of.window), (vec![4, 7], vec![-1, 5], vec![-1, -1]));
    assert_eq!((of.window_least, of.window_end), (vec![-1, 0], vec![-1, -1]));
}

/// With a snaplen that cuts all but the headers of RPC it is still known what is in a message.
#[test]
fn a_short_snaplen() {
    let mut capture = opened();
    capture.at_us(0).cut_tcp(&c(69).ack(33).data(&record(&read(2, 0, 4096))), 44); // 7
    let data = long_reply();
    capture.at_us(100).cut_tcp(&s(33).ack(137).data(&data[..1000]), 44); // 8
    capture.at_us(2_100).cut_tcp(&s(1033).ack(137).data(&data[1000..]), 44); // 9
    capture.at_us(30_000).tcp(&c(137).ack(4065)); // 10
    capture.at_us(30_100).cut_tcp(&s(4065).ack(137).data(&record(&reply(3, &[]))), 44); // 11
    assert_eq!(capture.end().pauses.in_message, [1, 0]);
}

/// What is not acknowledged is remembered, however many packets that are; what is, only the last ones.
#[test]
fn memory() {
    let mut memory = Memory::default();
    for at in 0..3000u64 {
        memory.push(at * 10, 10, at as i64, 0);
    }
    assert_eq!(memory.ring.len(), MOST_REMEMBERED);
    assert_eq!((memory.sent_ns(29_995), memory.sent_ns(30_000)), (Some(2999), None));
    assert_eq!((memory.sent_ns(19_760), memory.sent_ns(19_759)), (Some(1976), None));
    memory.push(19_760, 10, 5000, 0); // once more
    assert_eq!(memory.sent_ns(19_765), Some(5000));
    let mut memory = Memory::default();
    for at in 0..3000u64 {
        memory.push(at * 10, 10, at as i64, at * 10);
    }
    assert_eq!(memory.ring.len(), REMEMBERED);
    assert_eq!((memory.sent_ns(29_369), memory.sent_ns(29_360)), (Some(2936), Some(2936)));
    assert_eq!(memory.sent_ns(29_359), None);
}

/// Rows beyond the most that are kept are counted.
#[test]
fn the_most_rows() {
    let mut capture = called();
    let call = record(&read(2, 0, 4096));
    for _ in 0..MOST_ROWS + 3 {
        capture.later_us(1000).tcp(&c(69).ack(33).data(&call));
    }
    let of = capture.end().pauses;
    assert_eq!((of.conn.len(), of.sent_ns.len(), of.dropped), (MOST_ROWS, MOST_ROWS, 3));
}

#[derive(Clone, Debug)]
struct Any {
    us: i64,
    direction: bool,
    start: u64,
    len: u32,
    ack: Option<u64>,
    window: u16,
    went: Went,
    in_message: Option<bool>,
}

fn any_packet() -> impl Strategy<Value = Any> {
    let times = prop_oneof![4 => 0i64..100, 2 => 900i64..40_000, 1 => -5_000i64..0];
    let position =
        || prop_oneof![8 => (1u64 << 32)..(1 << 32) + 3000, 1 => any::<u32>().prop_map(|at| 1 << 32 | u64::from(at))];
    let went = prop::sample::select(vec![Went::New, Went::New, Went::Repeated, Went::Late, Went::Probe]);
    let windows = prop::sample::select(vec![0u16, 1, 100, u16::MAX]);
    let len = prop_oneof![2 => Just(0u32), 1 => Just(1u32), 3 => 1u32..2000];
    (times, any::<bool>(), position(), len, prop::option::of(position()), windows, went, any::<Option<bool>>())
        .prop_map(|(us, direction, start, len, ack, window, went, in_message)| Any {
            us,
            direction,
            start,
            len,
            ack,
            window,
            went,
            in_message,
        })
}

proptest! {
    #![proptest_config(cases(2000))]

    /// Whatever packets come: a pause ends after it began, what ended it was heard, and no window is less than the least.
    #[test]
    fn sums(packets in prop::collection::vec(any_packet(), 0..60), scale in prop::option::of(0u8..20)) {
        let (mut waits, mut out) = (Waits::default(), Pauses::default());
        if let Some(scale) = scale {
            let options = [3, 3, scale];
            (0..2).for_each(|direction| waits.syn(direction, &bare_syn(&options, 23)));
        }
        let mut t_ns = 0;
        for (number, of) in packets.iter().enumerate() {
            t_ns += of.us * 1000;
            let direction = usize::from(of.direction);
            let place = Place { conn: 0, reconnect: 0, direction, frame: number as u32, t_ns };
            let Any { start, len, ack, window, went, in_message, .. } = *of;
            waits.packet(&Seen { place, start, origin: 1 << 32, len, ack, window, options: &[], went, in_message }, &mut out);
        }
        let mut hangs = Hangs::default();
        for wait in waits.open([1 << 32; 2], [None; 2]) {
            hangs.push(&wait, 0, 0, (Cut::Nothing, -1));
        }
        for row in 0..hangs.conn.len() {
            let is_ack = hangs.awaits[row] == 1;
            prop_assert!(hangs.tries[row] > i32::from(is_ack) && (hangs.bytes[row] > 0 || !is_ack));
            prop_assert!((hangs.frame[row] as usize) < packets.len());
        }
        prop_assert!(out.frame.is_sorted());
        for row in 0..out.conn.len() {
            let packet = &packets[out.frame[row] as usize];
            prop_assert!(out.begin_ns[row] <= out.end_ns[row]);
            prop_assert_eq!(i64::from(out.size[row]), i64::from(packet.len));
            prop_assert_eq!(out.ended[row] == Ended::Nothing as i8, out.heard_ns[row] == -1);
            if out.window_least[row] >= 0 && out.window[row] >= 0 {
                prop_assert!(out.window_least[row] <= out.window[row]);
            }
            if out.window_least[row] >= 0 && out.window_end[row] >= 0 {
                prop_assert!(out.window_least[row] <= out.window_end[row]);
            }
            prop_assert!(out.offset[row] >= -1);
            let is_new = out.went[row] == Went::New as i8;
            prop_assert!(!is_new || out.end_ns[row] - out.begin_ns[row] >= MS);
            prop_assert!(out.sent_ns[row] == -1 || out.went[row] == Went::Repeated as i8);
        }
    }
}
