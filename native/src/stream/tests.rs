//! Records cut into segments at random in, the frames of their first and last byte out, held against byte positions.

use std::collections::BTreeMap;
use std::fmt;

use proptest::prelude::*;

use super::{HELD_BYTES, PATIENCE};
use crate::columns::State;
use crate::decoder::Decoder;
use crate::link::{ACK, FIN, RST};
use crate::testing::*;
use crate::traffic::Event;

/// A record of the stream under test, which runs from CLIENT to SERVER.
#[derive(Clone, Debug)]
struct Record {
    xid: u32,
    is_reply: bool,
    /// Its call is sent in the other direction before the stream begins (a reply answers it).
    is_awaited: bool,
    /// Sent offsets: of the first mark, and of the byte behind the last.
    start: usize,
    end: usize,
    /// Where each fragment's mark is, and how many bytes are behind it.
    marks: Vec<(usize, usize)>,
}

/// XID of a call of the other side, which shows that the connection speaks RPC.
const OPENER: u32 = 0x6000_0000;

/// A byte stream and what it consists of.
#[derive(Clone)]
struct Sent {
    records: Vec<Record>,
    bytes: Vec<u8>,
}

impl fmt::Debug for Sent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.records.iter().try_for_each(|one| writeln!(out, "\n    {one:?}"))
    }
}

/// Data in a message: zeros, noise, or what looks like an RPC record itself (a file that is a capture).
#[derive(Clone, Copy, Debug)]
enum Payload {
    Zeros,
    Noise,
    Nested,
}

fn payload(kind: Payload, len: usize) -> Vec<u8> {
    let mut bytes = match kind {
        Payload::Zeros => Vec::new(),
        Payload::Noise => (0..len as u32).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 13) as u8).collect(),
        Payload::Nested => record(&read(0xdead_beef, 0, 4096)).repeat(len / 68 + 1),
    };
    bytes.resize(len, 0);
    bytes
}

fn any_record() -> impl Strategy<Value = (bool, bool, Payload, usize, Vec<usize>)> {
    let payload = prop_oneof![Just(Payload::Zeros), Just(Payload::Noise), Just(Payload::Nested)];
    let length = prop_oneof![3 => 0usize..64, 3 => 64usize..2000, 1 => 2000usize..9000];
    let cuts = prop_oneof![3 => Just(vec![]), 1 => prop::collection::vec(1usize..3000, 1..4)];
    (any::<bool>(), any::<bool>(), payload, length.prop_map(|length| length * 4), cuts)
}

fn streams(nested: bool) -> impl Strategy<Value = Sent> {
    prop::collection::vec(any_record(), 1..14).prop_map(move |specs| {
        let mut stream = Sent { records: Vec::new(), bytes: Vec::new() };
        for (number, (is_reply, is_awaited, kind, len, cuts)) in specs.into_iter().enumerate() {
            let kind = if nested || !matches!(kind, Payload::Nested) { kind } else { Payload::Noise };
            let xid = 0x7000_0000 + 0x0101 * number as u32;
            let data = payload(kind, len);
            let message = if is_reply { reply(xid, &data) } else { write(xid, 0, &data) };
            let mut lengths = cuts;
            while lengths.iter().sum::<usize>() >= message.len() {
                lengths.pop();
            }
            let start = stream.bytes.len();
            stream.bytes.extend(fragments(&message, &lengths));
            lengths.push(message.len() - lengths.iter().sum::<usize>());
            let mut at = start;
            let mut marks = Vec::new();
            for length in lengths {
                marks.push((at, length));
                at += 4 + length;
            }
            let end = stream.bytes.len();
            stream.records.push(Record { xid, is_reply, is_awaited, start, end, marks });
        }
        stream
    })
}

fn isns() -> impl Strategy<Value = u32> {
    prop_oneof![any::<u32>(), u32::MAX - 20_000..=u32::MAX]
}

/// Lengths of segments, to be taken round and round: bytes of a slow typist, of Ethernet, of offload.
fn cuts() -> impl Strategy<Value = Vec<usize>> {
    let length = prop_oneof![1 => 1usize..8, 2 => 8usize..200, 4 => 200usize..1449, 1 => 1448usize..65_000];
    prop::collection::vec(length, 1..40)
}

/// The stream's segments as ranges of it, in order.
fn segments(len: usize, cuts: &[usize]) -> Vec<(usize, usize)> {
    let mut out = Vec::new();
    let mut at = 0;
    for cut in cuts.iter().cycle() {
        if at == len {
            break;
        }
        let end = len.min(at + cut);
        out.push((at, end));
        at = end;
    }
    out
}

/// Record, by its number, frame, and whether this brought bytes late: so many bytes.
type Again = BTreeMap<(usize, u32, i8), i64>;

/// The capture of one connection, whose stream under test is sent segment by segment.
struct Test<'a> {
    capture: Capture,
    stream: &'a Sent,
    isn: u32,
    /// Bytes that the other side has sent.
    answered: u32,
    id: u16,
    /// By stream offset, the frame that showed it first; 0: none.
    first_seen: Vec<u32>,
    /// End of the highest byte that was seen.
    high: usize,
    again: Again,
}

impl<'a> Test<'a> {
    /// With SYN the connection's beginning is captured, and the calls that the stream's replies answer.
    fn new(stream: &'a Sent, isn: u32, with_syn: bool) -> Test<'a> {
        let first_seen = vec![0; stream.bytes.len()];
        let mut test = Test {
            capture: Capture::new(),
            stream,
            isn,
            answered: 0,
            id: 0,
            first_seen,
            high: 0,
            again: BTreeMap::new(),
        };
        if with_syn {
            test.capture.tcp(&syn(CLIENT, SERVER, isn));
            test.capture.tcp(&syn_ack(SERVER, CLIENT, 0, isn.wrapping_add(1)));
            for one in stream.records.iter().filter(|one| one.is_reply && one.is_awaited) {
                test.answer(&read(one.xid, 0, 4096), 0);
            }
        }
        test
    }

    /// The first `kept` bytes of the segment with a range of the stream; its frame.
    fn cut(&mut self, (start, end): (usize, usize), kept: usize) -> u32 {
        self.id = self.id.wrapping_add(1).max(1);
        let seq = self.isn.wrapping_add(1 + start as u32);
        let segment = tcp(CLIENT, SERVER).seq(seq).id(self.id).data(&self.stream.bytes[start..end]);
        let frame = self.capture.later_us(1).cut_tcp(&segment, kept);
        let is_keep_alive = end - start <= 1 && self.first_seen[..end].iter().all(|seen| *seen != 0);
        for at in (start..end.min(self.high)).filter(|_| !is_keep_alive) {
            let record = self.stream.records.iter().position(|one| at < one.end).unwrap();
            *self.again.entry((record, frame, i8::from(self.first_seen[at] == 0))).or_default() += 1;
        }
        self.high = self.high.max(end);
        self.first_seen[start..end].iter_mut().filter(|seen| **seen == 0).for_each(|seen| *seen = frame);
        frame
    }

    fn send(&mut self, range: (usize, usize)) -> u32 {
        self.cut(range, usize::MAX)
    }

    /// The same packet once more.
    fn send_copy(&mut self, (start, end): (usize, usize)) {
        let seq = self.isn.wrapping_add(1 + start as u32);
        let segment = tcp(CLIENT, SERVER).seq(seq).id(self.id).data(&self.stream.bytes[start..end]);
        self.capture.later_us(1).tcp(&segment);
    }

    /// The other side acknowledges the stream up to an offset.
    fn ack(&mut self, offset: usize) {
        let ack = self.isn.wrapping_add(1 + offset as u32);
        self.capture.later_us(1).tcp(&tcp(SERVER, CLIENT).seq(1 + self.answered).ack(ack));
    }

    /// A message of the other side, which acknowledges the stream up to an offset.
    fn answer(&mut self, message: &[u8], offset: usize) {
        let ack = self.isn.wrapping_add(1 + offset as u32);
        let data = record(message);
        self.capture.later_us(1).tcp(&tcp(SERVER, CLIENT).seq(1 + self.answered).ack(ack).data(&data));
        self.answered += data.len() as u32;
    }

    /// Every call of the stream is answered, so that it becomes an op. What was found, by record: frames, and is it whole?
    fn end(mut self) -> (Vec<Option<Found>>, Decoder) {
        let len = self.stream.bytes.len();
        self.ack(len);
        for one in self.stream.records.iter().filter(|one| !one.is_reply) {
            self.answer(&reply(one.xid, &[]), len);
        }
        let decoder = self.capture.end();
        let (ops, loose) = (ops(&decoder), loose(&decoder));
        let find = |one: &Record| {
            let op = ops.iter().find(|op| op.0 == one.xid);
            let alone = loose.iter().find(|other| other.0 == one.xid && one.is_reply && other.2 == State::NoCall);
            match (op, alone) {
                (Some((_, call, reply, _, whole)), None) => {
                    let (first, last) = if one.is_reply { *reply } else { *call };
                    Some(Found { first: first as u32, last: last as u32, whole: Some(*whole) })
                }
                (None, Some((_, (first, last), ..))) => {
                    Some(Found { first: *first as u32, last: *last as u32, whole: None })
                }
                (None, None) => None,
                (Some(_), Some(_)) => panic!("{one:?} was found twice"),
            }
        };
        let found = self.stream.records.iter().map(find).collect();
        // Nobody else's XID, and every one once.
        let known = |xid| xid == OPENER || self.stream.records.iter().any(|one| one.xid == xid);
        assert!(ops.iter().all(|op| known(op.0)) && loose.iter().all(|one| known(one.0)), "an XID was invented");
        assert!(loose.iter().all(|one| one.2 == State::NoCall || one.2 == State::NoReply), "sent again: {loose:?}");
        (found, decoder)
    }
}

/// What the decoder says of a record; `whole` is not said of a reply alone.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Found {
    first: u32,
    last: u32,
    whole: Option<bool>,
}

/// Where a record's first byte was seen first, and by when all of its bytes that were seen had been.
fn frames(one: &Record, first_seen: &[u32]) -> (u32, u32) {
    (first_seen[one.start], *first_seen[one.start..one.end].iter().max().unwrap())
}

/// What was sent again or came late is known to the byte, of every message that is in an op; the others are counted.
fn all_resent(stream: &Sent, again: &Again, decoder: &Decoder) -> Result<(), TestCaseError> {
    let (resent, ops) = (&decoder.pairing.resent, &decoder.pairing.ops);
    let mut expected = BTreeMap::new();
    let mut in_no_op = 0;
    for ((record, frame, kind), bytes) in again {
        let one = &stream.records[*record];
        if one.is_reply && !ops.xid.contains(&one.xid) {
            in_no_op += 1;
        } else {
            expected.insert((one.xid, one.is_reply, *frame, *kind), *bytes);
        }
    }
    let mut found = BTreeMap::new();
    for row in 0..resent.op.len() {
        let xid = ops.xid[resent.op[row] as usize];
        let key = (xid, resent.is_reply[row] == 1, resent.frame[row] as u32, resent.kind[row]);
        let known = found.insert(key, resent.bytes[row]);
        prop_assert_eq!(known, None, "one row a message, segment and kind");
    }
    if resent.dropped <= in_no_op {
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!(resent.dropped, in_no_op);
    }
    // Of hundreds of tiny segments in one message not all are kept.
    prop_assert!(found.iter().all(|(key, bytes)| expected.get(key) == Some(bytes)));
    prop_assert!(resent.op.iter().zip(&resent.frame).is_sorted());
    Ok(())
}

/// A message is blocked if all of it was there before all in front of it was, until that was.
fn all_blocked(stream: &Sent, first_seen: &[u32], decoder: &Decoder) -> Result<(), TestCaseError> {
    let (blocked, ops) = (&decoder.pairing.blocked, &decoder.pairing.ops);
    let found: Vec<(u32, bool, i64)> = (0..blocked.op.len())
        .map(|row| (ops.xid[blocked.op[row] as usize], blocked.is_reply[row] == 1, blocked.until_ns[row]))
        .collect();
    let is_in_op = |one: &&Record| ops.xid.contains(&one.xid);
    let mut expected: Vec<(u32, bool, i64)> = Vec::new();
    for one in stream.records.iter().filter(is_in_op) {
        let (last, filled) = (frames(one, first_seen).1, *first_seen[..one.end].iter().max().unwrap());
        if filled > last {
            expected.push((one.xid, one.is_reply, 1000 * i64::from(filled - 2))); // both SYNs come at 0
        }
    }
    expected.sort_by_key(|(xid, ..)| ops.xid.iter().position(|op| op == xid));
    prop_assert_eq!(found, expected);
    Ok(())
}

/// Every record was found, with exactly its frames.
fn all_found(stream: &Sent, found: &[Option<Found>], first_seen: &[u32]) -> Result<(), TestCaseError> {
    for (one, found) in stream.records.iter().zip(found) {
        let Some(found) = found else { return Err(TestCaseError::fail(format!("{one:?} was not found"))) };
        prop_assert_eq!((found.first, found.last), frames(one, first_seen), "{:?}", one);
        prop_assert_ne!(found.whole, Some(false), "{:?}", one);
    }
    Ok(())
}

/// Where no sync is needed any more: does the segment show a record's beginning in front, or within it, plainly?
fn shows_beginning(one: &Record, segment: (usize, usize), kept: usize) -> bool {
    let visible = segment.1.min(segment.0.saturating_add(kept));
    let (_, first_fragment) = one.marks[0];
    let is_plain = one.marks.len() == 1 || (first_fragment >= 40 && first_fragment % 4 == 0);
    is_plain && one.start == segment.0 && visible >= one.start + 32.min(4 + first_fragment)
}

proptest! {
    #![proptest_config(cases(256))]

    /// In order: every message is found once, from the segment of its first byte to that of its last.
    #[test]
    fn in_order(stream in streams(true), isn in isns(), cuts in cuts()) {
        let mut test = Test::new(&stream, isn, true);
        for segment in segments(stream.bytes.len(), &cuts) {
            test.send(segment);
        }
        let first_seen = test.first_seen.clone();
        let (found, decoder) = test.end();
        all_found(&stream, &found, &first_seen)?;
        prop_assert_eq!((decoder.tally.hidden, decoder.tally.malformed, decoder.tally.held_bytes), (0, 0, 0));
    }

    /// Without a SYN all is found from the first segment that begins with a message.
    #[test]
    fn in_order_without_syn(stream in streams(false), isn in isns(), cuts in cuts(), skip in 0usize..5000) {
        let mut test = Test::new(&stream, isn, false);
        let skip = skip.min(stream.bytes.len() - 1);
        let segments = segments(stream.bytes.len() - skip, &cuts);
        let segments: Vec<_> = segments.iter().map(|(start, end)| (start + skip, end + skip)).collect();
        for segment in &segments {
            test.send(*segment);
        }
        let first_seen = test.first_seen.clone();
        let (found, decoder) = test.end();
        let sync = stream.records.iter().position(|one| segments.iter().any(|at| shows_beginning(one, *at, usize::MAX)));
        for (number, one) in stream.records.iter().enumerate() {
            match found[number] {
                Some(found) => {
                    prop_assert_eq!((found.first, found.last), frames(one, &first_seen), "{:?}", one);
                    prop_assert_ne!(found.whole, Some(false));
                }
                None => prop_assert!(sync.is_none_or(|sync| number < sync), "{one:?} was not found"),
            }
        }
        prop_assert_eq!(decoder.tally.malformed, 0);
    }

    /// Reordered, doubled, and sent again with other boundaries: a byte counts where it was seen first, and its message is
    /// known for each segment that brought it again, or late.
    #[test]
    fn out_of_order(
        stream in streams(true),
        isn in isns(),
        cuts in cuts(),
        jitter in prop::collection::vec(0usize..12, 1..40),
        copies in prop::collection::vec((any::<prop::sample::Index>(), 0usize..20, any::<bool>()), 0..6),
        repeats in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 1usize..4000), 0..8),
        acks in any::<bool>(),
    ) {
        let mut test = Test::new(&stream, isn, true);
        test.answer(&read(OPENER, 0, 4096), 0);
        let len = stream.bytes.len();
        // What the receiver acknowledges as if it had all is not waited for long.
        let (most, copies, repeats) = if acks { (3, vec![], vec![]) } else { (12, copies, repeats) };
        let mut order: Vec<(usize, (usize, usize))> = segments(len, &cuts)
            .into_iter()
            .zip(jitter.iter().cycle())
            .enumerate()
            .map(|(number, (segment, jitter))| (number + jitter % most, segment))
            .collect();
        for (which, later, _) in &copies {
            let (at, segment) = order[which.index(order.len())];
            order.push((at + later, segment));
        }
        for (at, start, length) in &repeats {
            let (at, start) = (at.index(order.len()), start.index(len));
            order.push((at, (start, len.min(start + length))));
        }
        order.sort_by_key(|(at, _)| *at);
        for (number, (_, segment)) in order.iter().enumerate() {
            test.send(*segment);
            if copies.get(number % 7).is_some_and(|copy| copy.2) {
                test.send_copy(*segment);
            }
            if acks {
                // The receiver has all, in whatever order it was captured.
                test.ack(len.min(segment.1));
            }
        }
        let (first_seen, again) = (test.first_seen.clone(), test.again.clone());
        let (found, decoder) = test.end();
        all_found(&stream, &found, &first_seen)?;
        prop_assert_eq!((decoder.tally.hidden, decoder.tally.malformed, decoder.tally.held_bytes), (0, 0, 0));
        all_resent(&stream, &again, &decoder)?;
        all_blocked(&stream, &first_seen, &decoder)?;
        let lost: u64 = decoder.finished.iter().map(|done| done.lost_bytes).sum();
        prop_assert_eq!(lost, 0);
    }

    /// A snaplen: what is found has its true frames, and at least what a plain reading of the rules finds is found.
    #[test]
    fn cut_by_snaplen(stream in streams(false), isn in isns(), cuts in cuts(), kept in 0usize..300, with_syn in any::<bool>()) {
        let mut test = Test::new(&stream, isn, with_syn);
        let segments = segments(stream.bytes.len(), &cuts);
        let mut visible = Vec::new();
        for (start, end) in &segments {
            test.cut((*start, *end), kept);
            visible.extend((*start..*end).map(|at| at - start < kept));
        }
        let first_seen = test.first_seen.clone();
        let (found, _) = test.end();
        let mut in_sync = with_syn;
        for (one, found) in stream.records.iter().zip(&found) {
            in_sync |= segments.iter().any(|segment| shows_beginning(one, *segment, kept));
            // Followed as long as the marks are seen, and found if enough bytes in a row are.
            let marks_seen = one.marks.iter().take_while(|(at, _)| visible[*at..at + 4].iter().all(|seen| *seen)).count();
            let bytes = one.marks[..marks_seen].iter().flat_map(|(at, length)| at + 4..at + 4 + length);
            let header = bytes.take_while(|at| visible[*at]).count();
            let must = in_sync && header >= if one.is_reply { 8 } else { 24 };
            in_sync &= marks_seen == one.marks.len();
            match found {
                Some(found) if marks_seen == one.marks.len() => {
                    prop_assert_eq!((found.first, found.last), frames(one, &first_seen), "{:?}", one);
                    prop_assert_ne!(found.whole, Some(false), "{:?}", one);
                }
                // Where it ends is not known, so it must not seem to be.
                Some(found) => {
                    prop_assert_eq!(found.first, first_seen[one.start], "{:?}", one);
                    prop_assert!(found.last <= frames(one, &first_seen).1);
                    prop_assert_ne!(found.whole, Some(true), "{:?}", one);
                }
                None => prop_assert!(!must, "{one:?} was not found"),
            }
        }
    }

    /// Where every mark is captured, each message is found or hidden.
    #[test]
    fn hidden_headers_are_counted(stream in streams(false), isn in isns(), kept in 4usize..80, cuts in prop::collection::vec(80usize..2000, 1..9)) {
        let mut test = Test::new(&stream, isn, true);
        let mut opener = Vec::new();
        for (number, one) in stream.records.iter().enumerate() {
            // Marks begin segments, as if the sender had put each fragment into segments of its own.
            for (at, length) in &one.marks {
                for (start, end) in segments(4 + length, &cuts) {
                    // The first one is whole: from then on the connection is one of RPC.
                    test.cut((at + start, at + end), if number == 0 { usize::MAX } else { kept });
                }
            }
            opener.push(one.xid);
        }
        let first_seen = test.first_seen.clone();
        let (found, decoder) = test.end();
        for (one, found) in stream.records.iter().zip(&found).filter_map(|(one, found)| found.map(|found| (one, found))) {
            prop_assert_eq!((found.first, found.last), frames(one, &first_seen), "{:?}", one);
        }
        let found = found.iter().flatten().count();
        prop_assert_eq!(found + decoder.tally.hidden as usize, stream.records.len());
        prop_assert_eq!(decoder.tally.malformed, 0);
    }

    /// Packets that the capture lost: counted to the byte; what they did not touch is found from the next beginning on.
    #[test]
    fn dropped_by_the_capture(
        stream in streams(false),
        isn in isns(),
        cuts in cuts(),
        drops in prop::collection::vec(prop::bool::weighted(0.15), 1..60),
        pause_us in prop_oneof![Just(1i64), Just(100_000), Just(900_000)],
        ack_every in 1usize..6,
    ) {
        let mut test = Test::new(&stream, isn, true);
        let segments = segments(stream.bytes.len(), &cuts);
        let mut lost: Vec<(usize, usize)> = Vec::new();
        for (number, (segment, is_lost)) in segments.iter().zip(drops.iter().cycle()).enumerate() {
            if *is_lost {
                match lost.last_mut() {
                    Some(last) if last.1 == segment.0 => last.1 = segment.1,
                    _ => lost.push(*segment),
                }
                test.capture.later_us(pause_us);
            } else {
                test.capture.later_us(pause_us);
                test.send(*segment);
            }
            if number % ack_every == 0 {
                test.ack(segment.1);
            }
        }
        let first_seen = test.first_seen.clone();
        let (found, decoder) = test.end();
        let mut in_sync = true;
        for (one, found) in stream.records.iter().zip(&found) {
            let seen = |from: usize, to: usize| first_seen[from..to].iter().all(|frame| *frame != 0);
            let is_whole = seen(one.start, one.end);
            let is_kept = |segment: &&(usize, usize)| first_seen[segment.0] != 0;
            in_sync |= segments.iter().filter(is_kept).any(|segment| shows_beginning(one, *segment, usize::MAX));
            match found {
                Some(found) => {
                    prop_assert_eq!(found.first, first_seen[one.start], "{:?}", one);
                    prop_assert_ne!(found.whole, Some(!is_whole), "{:?}", one);
                    if is_whole {
                        prop_assert_eq!(found.last, frames(one, &first_seen).1, "{:?}", one);
                    }
                }
                None => prop_assert!(!(in_sync && is_whole), "{one:?} was not found"),
            }
            // A hole that reaches over a fragment's end hides where the next one begins.
            in_sync &= one.marks.iter().all(|(at, _)| seen(*at, at + 4));
        }
        let of_stream: Vec<_> = decoder.finished.iter().filter(|done| done.direction == 0).collect();
        let ranges: u32 = of_stream.iter().map(|done| done.lost_ranges).sum();
        let bytes: u64 = of_stream.iter().map(|done| done.lost_bytes).sum();
        let is_rpc = !of_stream.is_empty();
        if is_rpc {
            prop_assert_eq!(bytes as usize, lost.iter().map(|range| range.1 - range.0).sum::<usize>());
            prop_assert_eq!(ranges as usize, lost.len());
        }
        prop_assert_eq!(decoder.tally.held_bytes, 0);
    }
}

proptest! {
    #![proptest_config(cases(256))]

    /// Whatever is lost, cut, doubled or reordered: no XID is invented, and what is found began where it says.
    #[test]
    fn all_at_once(
        stream in streams(false),
        isn in isns(),
        cuts in cuts(),
        steps in prop::collection::vec((0usize..12, prop::bool::weighted(0.1), 0i64..400_000, 0usize..6), 1..40),
        kept in prop_oneof![Just(usize::MAX), 0usize..300],
        with_syn in any::<bool>(),
    ) {
        let mut test = Test::new(&stream, isn, with_syn);
        let mut order: Vec<_> = segments(stream.bytes.len(), &cuts)
            .into_iter()
            .zip(steps.iter().cycle())
            .enumerate()
            .map(|(number, (segment, step))| (number + step.0, segment, *step))
            .collect();
        order.sort_by_key(|(at, ..)| *at);
        for (_, segment, (_, is_lost, pause_us, acks)) in order {
            test.capture.later_us(pause_us);
            if !is_lost {
                test.cut(segment, kept);
            }
            for _ in 1..acks {
                test.ack(segment.1);
            }
        }
        let first_seen = test.first_seen.clone();
        let (found, decoder) = test.end();
        for (one, found) in stream.records.iter().zip(&found).filter_map(|(one, found)| found.map(|found| (one, found))) {
            prop_assert_eq!(found.first, first_seen[one.start], "{:?}", one);
            prop_assert!(found.last <= frames(one, &first_seen).1, "{:?}", one);
        }
        prop_assert_eq!((decoder.tally.malformed, decoder.tally.held_bytes), (0, 0));
    }
}

// Timelines. record(read) has 68 bytes, record(write) with 24 bytes of data 100, record(reply) 32.

fn c(seq: u32) -> Tcp {
    tcp(CLIENT, SERVER).seq(seq)
}

fn s(seq: u32) -> Tcp {
    tcp(SERVER, CLIENT).seq(seq)
}

/// Of one direction of all connections: lost ranges and bytes.
fn lost(decoder: &Decoder, direction: u8) -> (u32, u64) {
    let of_direction = decoder.finished.iter().filter(|done| done.direction == direction);
    of_direction.fold((0, 0), |(ranges, bytes), done| (ranges + done.lost_ranges, bytes + done.lost_bytes))
}

fn events(decoder: &Decoder, kind: Event) -> Vec<(i32, i64)> {
    let events = &decoder.events;
    let rows = (0..events.kind.len()).filter(|row| events.kind[*row] == kind as i8);
    rows.map(|row| (events.frame[row], events.value[row])).collect()
}

/// A SYN with another number ends a connection: the half message of the old one is closed, the new one is followed.
#[test]
fn ports_used_again() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER); // frames 1 to 3
    capture.tcp(&c(1).data(&record(&read(1, 0, 512)))); // 4
    capture.tcp(&s(1).ack(69).data(&record(&reply(1, &[0; 100]))[..60])); // 5: 60 of 132 bytes
    capture.at_us(1000).tcp(&syn(CLIENT, SERVER, 500_000)); // 6
    capture.tcp(&syn_ack(SERVER, CLIENT, 900_000, 500_001)); // 7
    capture.tcp(&c(500_001).ack(900_001).data(&record(&read(2, 0, 512)))); // 8
    capture.tcp(&s(900_001).ack(500_069).data(&record(&reply(2, &[])))); // 9
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(1, (4, 4), (5, 5), 1, false), (2, (8, 8), (9, 9), 1, true)]);
    assert_eq!((loose(&decoder), decoder.tally.connections.len()), (vec![], 1));
    let parts: Vec<_> = decoder.finished.iter().map(|done| (done.reconnect, done.direction)).collect();
    assert_eq!(parts, [(0, 0), (0, 1), (1, 0), (1, 1)]);
    assert_eq!((lost(&decoder, 0), lost(&decoder, 1)), ((0, 0), (0, 0)));
}

/// A SYN that is sent again, or is captured behind the first data, does not begin another connection.
#[test]
fn syn_again() {
    let mut capture = Capture::new();
    capture.at_us(0).tcp(&syn(CLIENT, SERVER, 0).id(1)); // 1
    capture.at_us(1_000_000).tcp(&syn(CLIENT, SERVER, 0).id(2)); // 2
    capture.tcp(&syn_ack(SERVER, CLIENT, 0, 1)); // 3
    capture.tcp(&c(1).data(&record(&read(1, 0, 512)))); // 4
    capture.tcp(&syn(CLIENT, SERVER, 0).id(1)); // 5
    capture.tcp(&s(1).ack(69).data(&record(&reply(1, &[])))); // 6
    capture.tcp(&syn_ack(SERVER, CLIENT, 0, 1)); // 7
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(1, (4, 4), (6, 6), 1, true)]);
    assert_eq!(decoder.connection(0).reconnects, 0);
}

/// A server's SYN alone is enough to know that the connection is a new one.
#[test]
fn only_the_answer_to_the_syn() {
    let mut capture = Capture::new();
    capture.tcp(&c(7_000_000).data(&record(&read(1, 0, 512)))); // 1
    capture.tcp(&s(8_000_000).ack(7_000_068).data(&record(&reply(1, &[])))); // 2
    capture.tcp(&syn_ack(SERVER, CLIENT, 20, 10)); // 3
    capture.tcp(&c(10).ack(21).data(&record(&read(2, 0, 512)))); // 4
    capture.tcp(&s(21).ack(78).data(&record(&reply(2, &[])))); // 5
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(1, (1, 1), (2, 2), 1, true), (2, (4, 4), (5, 5), 1, true)]);
    assert_eq!(decoder.connection(0).reconnects, 1);
}

/// Numbers that are far from the last ones are of a connection whose SYN is not in the capture; nothing counts as lost.
#[test]
fn jump_of_sequence_numbers() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER); // 1 to 3
    capture.tcp(&c(1).data(&record(&read(1, 0, 512)))); // 4
    capture.tcp(&s(1).ack(69).data(&record(&reply(1, &[])))); // 5
    capture.tcp(&c(1 << 30).ack(3 << 30).data(&record(&read(2, 0, 512)))); // 6
    capture.tcp(&s(3 << 30).ack((1 << 30) + 68).data(&record(&reply(2, &[])))); // 7
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(1, (4, 4), (5, 5), 1, true), (2, (6, 6), (7, 7), 1, true)]);
    assert_eq!((lost(&decoder, 0), lost(&decoder, 1)), ((0, 0), (0, 0)));
}

/// Keep-alives, with the byte before the next one or with none, are no retransmissions and change nothing.
#[test]
fn keep_alives() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&c(1).data(&record(&read(1, 0, 512)))); // 4
    capture.tcp(&c(68).data(&[0])); // 5: byte 68 again
    capture.tcp(&c(68)); // 6: none
    capture.tcp(&s(1).ack(69).data(&record(&reply(1, &[])))); // 7
    capture.tcp(&c(69).data(&record(&read(2, 0, 512)))); // 8
    capture.tcp(&s(33).ack(137).data(&record(&reply(2, &[])))); // 9
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(1, (4, 4), (7, 7), 1, true), (2, (8, 8), (9, 9), 1, true)]);
    let client = &decoder.finished[0].traffic;
    assert_eq!((client.keep_alives, client.retransmissions, client.packets, client.data_packets), (1, 0, 6, 3));
}

/// What a FIN has overtaken is late, and nothing is lost; what comes in front of it is new.
#[test]
fn fin_overtakes_data() {
    let reply = record(&reply(1, &[]));
    for (data_us, late) in [(1000, 0), (3000, 1)] {
        let mut capture = Capture::new();
        capture.tcp(&syn(CLIENT, SERVER, 0));
        capture.tcp(&syn_ack(SERVER, CLIENT, 0, 1));
        capture.tcp(&c(1).ack(1).data(&record(&read(1, 0, 512))));
        let mut both = [(data_us, s(1).ack(69).data(&reply)), (2000, s(33).ack(69).flags(ACK | FIN))];
        both.sort_by_key(|(us, _)| *us);
        for (us, segment) in both {
            capture.at_us(us).tcp(&segment);
        }
        capture.at_us(4000).tcp(&c(69).ack(34));
        let decoder = capture.end();
        let done = decoder.finished.iter().find(|done| done.direction == 1).unwrap();
        assert_eq!((done.traffic.out_of_order, done.traffic.retransmissions, done.lost_bytes), (late, 0, 0));
        assert_eq!(decoder.events.kind.len(), late as usize);
        assert_eq!(ops(&decoder).len(), 1);
    }
}

/// FIN takes a number that holds no byte; its ACK covers nothing that was lost, and no more does what RST says.
#[test]
fn fin_and_rst() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&c(1).data(&record(&read(1, 0, 512)))); // 4
    capture.tcp(&s(1).ack(69).data(&record(&reply(1, &[]))).flags(ACK | FIN)); // 5
    capture.tcp(&c(69).ack(34).flags(ACK | FIN)); // 6
    capture.tcp(&s(34).ack(70)); // 7
    capture.tcp(&c(70).ack(9999).flags(ACK | RST)); // 8
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(1, (4, 4), (5, 5), 1, true)]);
    assert_eq!((lost(&decoder, 0), lost(&decoder, 1)), ((0, 0), (0, 0)));
}

/// What the receiver has acknowledged at the end of a capture and the capture has not is lost.
#[test]
fn lost_at_the_end() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&c(1).data(&record(&write(1, 0, &[0; 924]))[..400])); // 4: 400 of 1000
    capture.tcp(&s(1).ack(1001).data(&record(&reply(1, &[])))); // 5
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(1, (4, 4), (5, 5), 1, false)]);
    assert_eq!((lost(&decoder, 0), lost(&decoder, 1)), ((1, 600), (0, 0)));
}

/// A hole within the data of a WRITE costs its wholeness and nothing else: where it ends is known.
#[test]
fn hole_in_a_body() {
    let data = record(&write(1, 0, &[7; 3924])); // 4000 bytes
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&c(1).data(&data[..2000])); // 4
    capture.tcp(&c(3001).data(&join(&[&data[3000..], &record(&read(2, 0, 512))]))); // 5: without 2001 to 3000
    capture.tcp(&s(1).ack(4069).data(&join(&[&record(&reply(1, &[])), &record(&reply(2, &[]))]))); // 6
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(1, (4, 5), (6, 6), 1, false), (2, (5, 5), (6, 6), 1, true)]);
    assert_eq!((lost(&decoder, 0), decoder.tally.hidden), ((1, 1000), 0));
    assert_eq!(events(&decoder, Event::Gap), [(5, 1000)]);
}

/// A hole that hides where a message begins: it is counted, and the next one that begins a segment is found.
#[test]
fn hole_over_a_beginning() {
    let data = join(&[&record(&write(1, 0, &[7; 924])), &record(&read(2, 0, 512)), &record(&read(3, 0, 512))]);
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&c(1).data(&data[..500])); // 4
    capture.tcp(&c(1021).data(&data[1020..1068])); // 5: without 501 to 1020; READ 2 begins at 1001
    capture.tcp(&c(1069).data(&data[1068..])); // 6
    capture.tcp(&s(1).ack(1137).data(&record(&reply(3, &[])))); // 7
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(3, (6, 6), (7, 7), 1, true)]);
    assert_eq!(loose(&decoder), [(1, (4, 4), State::NoReply, -1)]);
    assert_eq!((lost(&decoder, 0), decoder.tally.hidden, decoder.tally.malformed), ((1, 520), 1, 0));
}

/// Data that the receiver has acknowledged may come some packets late; then it is given up.
#[test]
fn patience_with_what_is_acknowledged() {
    for (packets, is_found) in [(PATIENCE, true), (PATIENCE + 1, false)] {
        let mut capture = Capture::new();
        capture.handshake(CLIENT, SERVER);
        capture.tcp(&c(69).data(&record(&read(2, 0, 512)))); // 4: READ 1 is missing
        for _ in 0..packets {
            capture.tcp(&s(1).ack(137)); // 5 and so on
        }
        capture.tcp(&c(1).data(&record(&read(1, 0, 512))));
        let decoder = capture.end();
        let xids: Vec<u32> = loose(&decoder).iter().map(|one| one.0).collect();
        assert_eq!(xids, if is_found { vec![2, 1] } else { vec![2] });
        assert_eq!(lost(&decoder, 0), if is_found { (0, 0) } else { (1, 68) });
    }
}

/// Once acknowledged data have come late, others are awaited for a second.
#[test]
fn patience_with_a_middlebox() {
    for (later_us, is_found) in [(900_000, true), (1_100_000, false)] {
        let mut capture = Capture::new();
        capture.handshake(CLIENT, SERVER);
        for (first, xid, us) in [(1, 10, 0), (137, 20, later_us)] {
            capture.at_us(us).tcp(&c(first + 68).data(&record(&read(xid + 1, 0, 512)))); // READ 10 or 20 is missing
            for _ in 0..20 {
                capture.tcp(&s(1).ack(first + 136));
            }
            capture.at_us(us + later_us).tcp(&s(1).ack(first + 136));
            capture.tcp(&c(first).data(&record(&read(xid, 0, 512)))); // too late the first time
        }
        let decoder = capture.end();
        let xids: Vec<u32> = loose(&decoder).iter().map(|one| one.0).collect();
        assert_eq!(xids, if is_found { vec![11, 21, 20] } else { vec![11, 21] });
    }
}

/// Data that nobody has acknowledged was lost on the way to the receiver: it is awaited for ten seconds.
#[test]
fn patience_with_what_is_not_acknowledged() {
    for (later_us, is_found) in [(9_900_000, true), (10_100_000, false)] {
        let mut capture = Capture::new();
        capture.handshake(CLIENT, SERVER);
        capture.tcp(&c(69).data(&record(&read(2, 0, 512)))); // 4: READ 1 is missing
        for number in 0..99 {
            capture.at_us(number * 1000).tcp(&s(1).ack(1)); // 5 to 103
        }
        capture.at_us(later_us).tcp(&s(1).ack(1)); // 104
        capture.tcp(&c(1).data(&record(&read(1, 0, 512)))); // 105
        let decoder = capture.end();
        let xids: Vec<u32> = loose(&decoder).iter().map(|one| one.0).collect();
        assert_eq!(xids, if is_found { vec![2, 1] } else { vec![2] });
        assert_eq!(lost(&decoder, 0), (0, 0));
    }
}

/// What is held ahead of a hole that is never filled is bounded.
#[test]
fn held_data_is_bounded() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&c(1).data(&record(&read(1, 0, 512)))); // 4
    let mut most = 0;
    for number in 0..3000 {
        capture.tcp(&c(1069 + 10_000 * number).data(&[7; 9000])); // a hole before each
        most = most.max(capture.so_far().tally.held_bytes);
    }
    assert!(most <= HELD_BYTES + 9000, "{most}");
    assert_eq!(capture.end().tally.held_bytes, 0);
}

/// Messages in what TCP sends again are counted, and are no messages once more.
#[test]
fn sent_again_by_tcp() {
    let both = join(&[&record(&read(1, 0, 512)), &record(&read(2, 0, 512))]);
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&c(1).id(11).data(&both)); // 4
    capture.at_us(200_000).tcp(&c(1).id(12).data(&both)); // 5
    capture.tcp(&s(1).ack(137).data(&join(&[&record(&reply(1, &[])), &record(&reply(2, &[]))]))); // 6
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(1, (4, 4), (6, 6), 1, true), (2, (4, 4), (6, 6), 1, true)]);
    assert_eq!((decoder.repeated, decoder.duplicated, decoder.tally.messages), (2, 0, 4));
    assert_eq!(events(&decoder, Event::Retransmission), [(5, 136)]);
}

/// Protocols that are no RPC give no messages, whatever their first bytes would say as a record mark.
#[test]
fn other_protocols() {
    let tls = join(&[&[22, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3], &[0x5a; 500]]);
    let smb = join(&[&[0, 0, 0, 96, 0xfe], b"SMB", &[64, 0, 0, 0, 0, 0], &[0; 88]]);
    let iscsi = join(&[&[0x43, 0x87, 0, 0, 0, 0, 1, 0], &[0; 300]]);
    let kafka = join(&[&[0, 0, 0, 60, 0, 3, 0, 9, 0, 0, 0, 0], &[0, 8], b"consumer", &[0; 42]]);
    for first in [tls, smb, iscsi, kafka, b"GET / HTTP/1.1\r\n\r\n".to_vec(), vec![0; 1000], vec![0xff; 1000]] {
        let mut capture = Capture::new();
        capture.handshake(CLIENT, SERVER);
        capture.tcp(&c(1).data(&first));
        capture.tcp(&s(1).ack(1 + first.len() as u32).data(&first));
        let decoder = capture.end();
        assert_eq!((decoder.tally.messages, decoder.tally.hidden, decoder.tally.malformed), (0, 0, 0), "{first:?}");
        assert_eq!(decoder.tally.connections.len(), 0);
    }
}

/// Bytes in an RPC stream that are no record are counted once, and the next message that begins a segment is found.
#[test]
fn malformed_record() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.tcp(&c(1).data(&record(&read(1, 0, 512)))); // 4
    capture.tcp(&c(69).data(&[0xee; 100])); // 5
    capture.tcp(&c(169).data(&[0xee; 100])); // 6
    capture.tcp(&c(269).data(&record(&read(2, 0, 512)))); // 7
    let decoder = capture.end();
    let found: Vec<_> = loose(&decoder).iter().map(|one| (one.0, one.1)).collect();
    assert_eq!((found, decoder.tally.malformed), (vec![(1, (4, 4)), (2, (7, 7))], 1));
}

/// A message in fragments whose second mark is not captured is found, and nobody says where it ends.
#[test]
fn second_mark_not_captured() {
    let data = fragments(&write(1, 0, &[7; 928]), &[500]); // marks at 1 and 505, 1008 bytes
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.cut_tcp(&c(1).data(&data[..600]), 100); // 4
    capture.cut_tcp(&c(601).data(&data[600..]), 100); // 5
    capture.tcp(&s(1).ack(1009).data(&record(&reply(1, &[])))); // 6
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(1, (4, 4), (6, 6), 1, false)]);
    assert_eq!((decoder.tally.hidden, decoder.tally.malformed), (0, 0));
}
