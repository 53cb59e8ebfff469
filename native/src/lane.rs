//! Records of captures in, in the order in which they lie there; the packets in the order of their times out.
//!
//! Several queues of one adapter, several processors and pipes write what they took a while ago: records lie some ms
//! behind others that are later. They are put in order within a window, which is shorter than any step by which a clock
//! is set (128 ms at least: ntpd's `step`). What lies further behind is not moved, and nothing is where the order of the
//! file is the truer one: where a clock was set back by less, and where two clocks stamp what is sent and what comes.
//! TCP tells: a packet cannot acknowledge what is sent after it.
//!
//! Memory and time are spent where records are out of order, and on the first records of a capture, for nobody knows of
//! the first one that comes late before it does.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use hashbrown::HashMap;

use crate::container::Packet;
use crate::link::{self, ACK, Ends, FIN, Frame, RST, SYN, Segment};
use crate::take::Take;

/// Records are put in order that lie so far behind later ones, and so many of them, with so many bytes, at most.
const WINDOW_NS: i64 = 100_000_000;
const MOST_HELD: usize = if cfg!(test) { 64 } else { 1 << 16 };
const MOST_BYTES: usize = 64 << 20;
/// Records, of the first ones and behind any that came late, of which none leaves before its window is over.
const LOOKED_AT: u32 = if cfg!(test) { 256 } else { 1 << 16 };
/// Records, and their time, by which it is judged whether the stamps or the file have the truer order.
const TRIED: usize = if cfg!(test) { 32 } else { 1024 };
const TRIED_NS: i64 = 1_000_000_000;
/// Where nothing tells, what comes late only once may be a clock that was set.
const LEAST_LATE: usize = 2;
/// Runs of packets of which it is known where they lie in the files: 12 bytes each.
const MOST_RUNS: usize = 1 << 24;

/// A run of neighbours in a file, which were taken one after the other: the first of them is the packet `begin`, in the
/// order in which all were taken, and record `number` of its file; both count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub file: u16,
    pub begin: u32,
    pub number: u32,
}

/// Of the records of a file: how many were put in front of others, and from how far behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Late {
    pub records: u64,
    pub most_ns: i64,
}

/// A packet with bytes of its own.
#[derive(Default)]
pub struct Held {
    t_ns: i64,
    link: u16,
    wire_len: u32,
    interface: u32,
    id: u64,
    bytes: Vec<u8>,
}

impl Held {
    pub fn of(packet: &Packet<'_>) -> Held {
        let mut held = Held::default();
        held.set(packet);
        held
    }

    fn set(&mut self, packet: &Packet<'_>) {
        let Packet { t_ns, link, captured, wire_len, interface, id } = *packet;
        (self.t_ns, self.link, self.wire_len, self.interface, self.id) = (t_ns, link, wire_len, interface, id);
        self.bytes.clear();
        self.bytes.extend_from_slice(captured);
    }

    pub fn packet(&self) -> Packet<'_> {
        let Held { t_ns, link, wire_len, interface, id, .. } = *self;
        Packet { t_ns, link, captured: &self.bytes, wire_len, interface, id }
    }
}

/// Which record of which file it is.
#[derive(Clone, Copy)]
struct From {
    file: u16,
    number: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    /// Each record leaves as it comes.
    Pass,
    /// The same, for good.
    PassAll,
    /// Those of a window are held, and they are in order.
    Look,
    /// They are not, and whether they are to be put in order is yet to be judged.
    Try,
    /// The earliest of those held leaves.
    Sort,
}

/// Takes records, and hands packets to `taker`.
pub struct Lane<'a, T> {
    pub taker: &'a mut T,
    mode: Mode,
    /// The latest time so far, that of the last record, and the latest when what is tried began.
    high_ns: i64,
    previous_ns: i64,
    tried_since_ns: i64,
    /// How often time goes back in what is tried.
    tried_late: usize,
    /// So many more records are looked at.
    left: u32,
    /// Several files are read at once: no record is earlier that is still to come.
    floor_ns: Option<i64>,
    slots: Vec<(Held, From)>,
    free: Vec<usize>,
    /// In the order of the file, or else by time and order.
    in_line: VecDeque<usize>,
    by_time: BinaryHeap<Reverse<(i64, u64, usize)>>,
    taken: u64,
    bytes: usize,
    runs: Vec<Run>,
    expected: (u16, u32),
    handed: u32,
    /// Of each file, as far as any came late.
    pub late: Vec<Late>,
}

impl<'a, T: Take> Lane<'a, T> {
    pub fn new(taker: &'a mut T) -> Lane<'a, T> {
        let mode = match (taker.is_in_order(), taker.is_live()) {
            (true, _) => Mode::PassAll,
            (_, true) => Mode::Pass,
            _ => Mode::Look,
        };
        Lane {
            taker,
            mode,
            high_ns: i64::MIN,
            previous_ns: i64::MIN,
            tried_since_ns: 0,
            tried_late: 0,
            left: LOOKED_AT,
            floor_ns: None,
            slots: Vec::new(),
            free: Vec::new(),
            in_line: VecDeque::new(),
            by_time: BinaryHeap::new(),
            taken: 0,
            bytes: 0,
            runs: Vec::new(),
            expected: (u16::MAX, 0),
            handed: 0,
            late: Vec::new(),
        }
    }

    /// The next record, which has this number in its file.
    #[inline(always)]
    pub fn record(&mut self, packet: &Packet<'_>, file: u16, number: u32) {
        if self.mode == Mode::Pass && packet.t_ns >= self.high_ns {
            // They are not counted one by one: `caught_up` does that.
            self.high_ns = packet.t_ns;
            return self.taker.packet(packet);
        }
        self.unusual(packet, file, number);
    }

    /// The file with this number begins.
    pub fn begins(&mut self, file: usize) {
        self.taker.file(file);
        if self.mode == Mode::Pass {
            self.run(file as u16, 1, self.handed.wrapping_add(1));
        }
    }

    /// In front of record `number` of a file, or behind its last one: those that passed are counted.
    pub fn caught_up(&mut self, file: usize, number: u32) {
        if self.mode == Mode::Pass && self.expected.0 == file as u16 {
            self.handed = self.handed.wrapping_add(number.wrapping_sub(self.expected.1));
            self.expected.1 = number;
        }
    }

    #[inline(never)]
    fn hand(&mut self, packet: &Packet<'_>, file: u16, number: u32) {
        self.handed = self.handed.wrapping_add(1);
        if self.expected != (file, number) {
            self.run(file, number, self.handed);
        }
        self.expected.1 += 1;
        self.taker.packet(packet);
    }

    #[cold]
    fn run(&mut self, file: u16, number: u32, begin: u32) {
        self.expected = (file, number);
        if self.runs.len() < MOST_RUNS {
            self.runs.push(Run { file, begin, number });
        }
    }

    /// Where packets lay, where that is not in the order in which they were taken.
    pub fn moved(&self) -> &[Run] {
        let is_moved = self.runs.iter().any(|run| run.number != 1);
        if is_moved { &self.runs } else { &[] }
    }

    #[inline(never)]
    fn unusual(&mut self, packet: &Packet<'_>, file: u16, number: u32) {
        let late_ns = self.high_ns.saturating_sub(packet.t_ns);
        self.caught_up(usize::from(file), number);
        match self.mode {
            Mode::PassAll => return self.hand(packet, file, number),
            // A clock was set back, or it is no use to look for its place.
            _ if late_ns > WINDOW_NS && self.floor_ns.is_none() => {
                self.flush();
                self.high_ns = packet.t_ns;
                if self.mode == Mode::Pass {
                    return self.hand(packet, file, number);
                }
            }
            // What it should have been in front of is gone.
            Mode::Pass => (self.mode, self.left, self.high_ns) = (Mode::Look, LOOKED_AT, packet.t_ns),
            Mode::Look if late_ns > 0 => {
                (self.mode, self.tried_late, self.tried_since_ns) = (Mode::Try, 1, self.high_ns);
            }
            Mode::Try if packet.t_ns < self.previous_ns => self.tried_late += 1,
            Mode::Sort if late_ns > 0 && self.floor_ns.is_none() => {
                self.is_late(file, late_ns);
                self.left = LOOKED_AT;
            }
            _ => {}
        }
        self.high_ns = self.high_ns.max(packet.t_ns);
        self.previous_ns = packet.t_ns;
        self.hold(packet, file, number);
        match self.mode {
            Mode::Try => {
                let is_over = self.is_full() || self.high_ns.saturating_sub(self.tried_since_ns) > TRIED_NS;
                if is_over || self.in_line.len() >= TRIED + LEAST_LATE {
                    self.judge();
                }
            }
            _ => self.let_go(),
        }
        if matches!(self.mode, Mode::Look | Mode::Sort) && self.floor_ns.is_none() {
            self.left -= 1;
            if self.left == 0 {
                self.flush();
                self.mode = Mode::Pass;
                if self.expected != (file, number + 1) {
                    self.run(file, number + 1, self.handed.wrapping_add(1));
                }
            }
        }
    }

    fn is_late(&mut self, file: u16, late_ns: i64) {
        let file = usize::from(file);
        if self.late.len() <= file {
            self.late.resize(file + 1, Late::default());
        }
        self.late[file].records += 1;
        self.late[file].most_ns = self.late[file].most_ns.max(late_ns);
    }

    fn hold(&mut self, packet: &Packet<'_>, file: u16, number: u32) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push((Held::default(), From { file, number }));
            self.slots.len() - 1
        });
        self.slots[slot].0.set(packet);
        self.slots[slot].1 = From { file, number };
        self.bytes += packet.captured.len();
        self.taken += 1;
        if self.mode == Mode::Sort {
            self.by_time.push(Reverse((packet.t_ns, self.taken, slot)));
        } else {
            self.in_line.push_back(slot);
        }
    }

    fn is_full(&self) -> bool {
        self.in_line.len() + self.by_time.len() > MOST_HELD || self.bytes > MOST_BYTES
    }

    /// Those leave whose window is over.
    fn let_go(&mut self) {
        let until_ns = self.floor_ns.unwrap_or(self.high_ns).saturating_sub(WINDOW_NS);
        while let Some(slot) = self.first(until_ns) {
            self.leave(slot);
        }
    }

    #[inline]
    fn first(&mut self, until_ns: i64) -> Option<usize> {
        let is_full = self.is_full();
        if self.mode == Mode::Sort {
            let Reverse((t_ns, _, slot)) = *self.by_time.peek()?;
            return (is_full || t_ns <= until_ns).then(|| self.by_time.pop().map_or(slot, |_| slot));
        }
        let slot = *self.in_line.front()?;
        (is_full || self.slots[slot].0.t_ns <= until_ns).then(|| self.in_line.pop_front().unwrap_or(slot))
    }

    fn leave(&mut self, slot: usize) {
        let (held, from) = (std::mem::take(&mut self.slots[slot].0), self.slots[slot].1);
        self.bytes -= held.bytes.len();
        self.hand(&held.packet(), from.file, from.number);
        self.slots[slot].0 = held;
        self.free.push(slot);
    }

    /// Whether what is held is to be put in order.
    fn judge(&mut self) {
        let in_line: Vec<&Held> = self.in_line.iter().map(|slot| &self.slots[*slot].0).collect();
        let mut by_time = in_line.clone();
        by_time.sort_by_key(|held| held.t_ns);
        let (as_filed, as_stamped) = (contradictions(&in_line), contradictions(&by_time));
        if as_stamped < as_filed || (as_stamped == as_filed && self.tried_late >= LEAST_LATE) {
            self.sort();
        } else {
            self.flush();
            self.high_ns = self.previous_ns;
            (self.mode, self.left) =
                if self.tried_late < LEAST_LATE { (Mode::Look, LOOKED_AT) } else { (Mode::PassAll, 0) };
        }
    }

    /// From now on, with what is held.
    fn sort(&mut self) {
        (self.mode, self.left) = (Mode::Sort, LOOKED_AT);
        let mut high_ns = i64::MIN;
        for (slot, place) in std::mem::take(&mut self.in_line).into_iter().zip(0..) {
            let (t_ns, file) = (self.slots[slot].0.t_ns, self.slots[slot].1.file);
            if t_ns < high_ns {
                self.is_late(file, high_ns - t_ns);
            }
            high_ns = high_ns.max(t_ns);
            self.by_time.push(Reverse((t_ns, place, slot)));
        }
        self.let_go();
    }

    /// All that is held leaves.
    fn flush(&mut self) {
        if self.mode == Mode::Try {
            self.mode = Mode::Look;
        }
        while let Some(slot) = self.first(i64::MAX) {
            self.leave(slot);
        }
    }

    /// Several files are read at once, whose next records are no earlier than this; None: no more.
    pub fn merge(&mut self, floor_ns: Option<i64>) {
        if self.mode == Mode::PassAll {
            return;
        }
        match floor_ns {
            Some(_) if self.mode == Mode::Try => self.judge(),
            _ => {}
        }
        if floor_ns.is_some() && self.mode != Mode::Sort {
            self.sort();
        }
        self.floor_ns = floor_ns;
    }

    /// No more records.
    pub fn end(&mut self) {
        if self.mode == Mode::Try {
            self.judge();
        }
        self.flush();
    }
}

/// What is known of a direction of a connection.
#[derive(Clone, Copy, Default)]
struct Way {
    /// Behind the last byte, and what it acknowledged, as far as any was seen.
    high: Option<u32>,
    acked: Option<u32>,
}

/// How often packets in this order say what they cannot: TCP that acknowledges what is sent later, or less than before,
/// data that were acknowledged before, or behind later ones; replies of RPC over UDP in front of their calls.
fn contradictions(packets: &[&Held]) -> usize {
    let mut ways: HashMap<(u128, u128, u16, u16), [Way; 2]> = HashMap::new();
    let mut replies: HashMap<(u128, u128, u32), ()> = HashMap::new();
    let mut count = 0;
    for held in packets {
        let frame = link::dissect(held.link, &held.bytes, held.wire_len);
        let inner;
        let frame = match &frame {
            Frame::Fragment(part) if part.offset == 0 => {
                inner = link::dissect_payload(part.proto, part.src, part.dst, part.bytes, part.len);
                &inner
            }
            _ => &frame,
        };
        match frame {
            Frame::Tcp(ends, segment) => {
                let (key, direction) = key(ends);
                count += contradicts(ways.entry(key).or_default(), direction, segment);
            }
            Frame::Udp(ends, datagram) => {
                let Some([a, b, c, d, 0, 0, 0, kind @ (0 | 1)]) = datagram.bytes.first_chunk() else { continue };
                let xid = u32::from_be_bytes([*a, *b, *c, *d]);
                if *kind == 1 {
                    replies.insert((ends.dst, ends.src, xid), ());
                } else if replies.remove(&(ends.src, ends.dst, xid)).is_some() {
                    count += 1;
                }
            }
            Frame::Fragment(_) | Frame::Other => {}
        }
    }
    count
}

fn key(ends: &Ends) -> ((u128, u128, u16, u16), usize) {
    if (ends.src, ends.sport) <= (ends.dst, ends.dport) {
        ((ends.src, ends.dst, ends.sport, ends.dport), 0)
    } else {
        ((ends.dst, ends.src, ends.dport, ends.sport), 1)
    }
}

fn contradicts(ways: &mut [Way; 2], direction: usize, segment: &Segment<'_>) -> usize {
    let behind = |one: u32, other: u32| one.wrapping_sub(other) as i32;
    if segment.flags & RST != 0 {
        return 0;
    }
    let other = ways[1 - direction];
    let own = &mut ways[direction];
    let mut count = 0;
    let length = segment.len + u32::from(segment.flags & SYN != 0) + u32::from(segment.flags & FIN != 0);
    if segment.flags & SYN != 0 {
        *own = Way::default();
    }
    if let (Some(high), true) = (own.high, length > 0) {
        count += usize::from(behind(segment.seq, high) < 0);
    }
    let end = segment.seq.wrapping_add(length);
    own.high = Some(own.high.map_or(end, |high| if behind(end, high) > 0 { end } else { high }));
    if length > 0 {
        count += usize::from(other.acked.is_some_and(|acked| behind(acked, segment.seq) > 0));
    }
    if segment.flags & ACK != 0 {
        count += usize::from(other.high.is_some_and(|high| behind(segment.ack, high) > 0));
        count += usize::from(own.acked.is_some_and(|acked| behind(segment.ack, acked) < 0));
        let acked =
            own.acked.map_or(segment.ack, |acked| if behind(segment.ack, acked) > 0 { segment.ack } else { acked });
        own.acked = Some(acked);
    }
    count
}

#[cfg(test)]
mod tests;
