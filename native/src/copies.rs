//! TCP packets of a connection in, whether each was captured before out; bounded in memory.
//!
//! A capture of several interfaces (`tcpdump -i any`) or of a mirrored port shows packets twice, whole or cut up by the
//! lower device; so does a network that doubles them. TCP that sends bytes again says in the packet what it knows by
//! then. So bytes seen before, with the same ACK, window and options, are the same packet if one of these says so, too:
//!
//! - its IP identification is that packet's, or that of the piece of it that segmentation makes (base + number);
//! - it was seen on another interface, which has not seen that packet yet;
//! - its timestamp (RFC 7323) is older than the sender's clock was by then;
//! - it comes sooner than a timer of TCP runs out, and the receiver has asked for nothing since (V. Paxson, "Automated
//!   packet trace analysis of TCP implementations", 1997, section 3.1.2, knows doubled packets by the first half).
//!
//! Where it has asked, which on a short path may be quick, copies are those that come as often, and as long after their
//! packets, as copies do in this direction where nothing else can be meant.

mod sent;

use self::sent::{Sent, has_sack, is_plain, options_of, plain_options_of};
use crate::link::{ACK, FIN, RST, SYN, Segment};

/// Packets remembered of each direction: so many, and more while they are younger than this.
const FEW: usize = 64;
const MOST: usize = 1024;
/// The shortest timer of TCP: Linux probes for a lost tail after two ticks of its clock, 2 ms at least.
const TIMER_NS: i64 = 2_000_000;
/// What a queue between two interfaces may hold packets back; where there is but one, `TIMER_NS` will do.
const QUEUE_NS: i64 = 100_000_000;
/// Interfaces told apart.
const POINTS: usize = 8;
/// Sequence numbers this far apart are of another connection between the same ports.
const APART: i64 = 1 << 28;
/// The clock of timestamps is measured by so many of its ticks, and how often packets are seen by so many packets.
const TICKS: u32 = 16;
const SAMPLE: u32 = 8;
/// What the receiver of a direction lacks, as it last said.
#[derive(Clone, Copy, Default)]
#[cfg_attr(test, derive(PartialEq, Debug))]
struct Asked {
    t_ns: i64,
    ack: u32,
}

/// One direction.
#[derive(Default)]
#[cfg_attr(test, derive(PartialEq, Debug))]
struct Way {
    sends: Vec<Sent>,
    /// The oldest of them, once there is no room for more.
    oldest: usize,
    has_begun: bool,
    /// Position behind the highest byte; sequence numbers wrap, positions do not.
    high: i64,
    /// What it has acknowledged of the other direction, and the window that it said last.
    acked: Option<u32>,
    window: u16,
    /// What the receiver of this direction has asked for last.
    asked: Option<Asked>,
    /// When the clock of its sender was what: the first timestamp and the newest.
    clock: Option<[(i64, u32); 2]>,
    /// Packets that were seen once at least, twice, three and four times, or may have been.
    seen: [u32; 4],
    /// How long after a packet its copies came at least and at most, where nothing else can have been meant.
    apart_ns: Option<(i64, i64)>,
    /// Its sender gives one IP identification to several packets.
    repeats_ids: bool,
    /// The identification of the last packet.
    last_id: u16,
    /// As most are: its sender counts its packets, they were seen on one interface, and as many are remembered as need be.
    is_usual: bool,
    /// The first interface that has seen it, and the others, in the order of their bits.
    point: u32,
    other_points: Vec<u32>,
}

impl Way {
    #[inline]
    fn position(&self, seq: u32) -> i64 {
        self.high + i64::from(seq.wrapping_sub(self.high as u32) as i32)
    }

    fn begin(&mut self, seq: u32) {
        self.has_begun = true;
        self.high = 1 << 32 | i64::from(seq);
        self.sends.clear();
        self.oldest = 0;
        (self.acked, self.asked, self.clock) = (None, None, None);
    }

    /// The bit of an interface.
    #[inline]
    fn point(&mut self, point: u32) -> u8 {
        if self.point == point { 1 } else { self.other_point(point) }
    }

    #[cold]
    fn other_point(&mut self, point: u32) -> u8 {
        let known = self.other_points.iter().position(|one| *one == point);
        let number = known.unwrap_or_else(|| {
            if self.other_points.len() < POINTS - 1 {
                self.other_points.push(point);
            }
            self.other_points.len() - 1
        });
        2 << number
    }

    /// How often packets of this direction are in the capture. Interfaces that can be told apart do not count: each of
    /// them has its own.
    fn usual(&self) -> u8 {
        if !self.other_points.is_empty() {
            return 1;
        }
        // The packet that is asked about is one of them.
        let all = self.seen[0].saturating_sub(1).max(SAMPLE);
        1 + self.seen[1..].iter().take_while(|seen| u64::from(**seen) * 2 > u64::from(all)).count() as u8
    }

    /// Would a packet that was sent so long after another one have a newer timestamp than that?
    fn is_stale(&self, send: &Sent, apart_ns: i64) -> bool {
        let Some([first, newest]) = self.clock else { return false };
        if send.ts_val == 0 {
            return false;
        }
        let ticks = newest.1.wrapping_sub(first.1);
        let is_measured = (TICKS..=u32::MAX / 2).contains(&ticks) && newest.0 > first.0;
        (newest.1.wrapping_sub(send.ts_val) as i32) > 0
            || (is_measured && i128::from(apart_ns) * i128::from(ticks) >= 2 * i128::from(newest.0 - first.0))
    }

    /// Could a packet be sent at the request of what its receiver said after `since_ns`?
    fn is_asked_for(&self, send: &Sent, since_ns: i64) -> bool {
        self.asked.is_some_and(|asked| asked.t_ns >= since_ns && self.position(asked.ack) <= send.start)
    }

    /// Is `now` the packet `send`, or a piece of it, or it a piece of `now`, in which pieces have `size` bytes? They say
    /// the same.
    fn is_again(&self, other: &Way, send: &Sent, now: &Sent, size: u32) -> bool {
        // A host may give its ACKs of closed connections none, and all else one.
        if (send.ip_id | now.ip_id) != 0 && !self.repeats_ids {
            let is_piece = send.covers(now);
            return if is_piece { send.is_numbered_like(now, size) } else { now.is_numbered_like(send, size) };
        }
        let apart_ns = (now.t_ns - send.t_ns).abs();
        if send.points & now.points == 0 || self.is_stale(now, apart_ns) {
            return true;
        }
        apart_ns < TIMER_NS
            && (!self.may_be_another(other, send, now) || (send.times < self.usual() && self.is_usual_wait(apart_ns)))
    }

    /// Could TCP send `now` soon after `send`, which is just like it?
    fn may_be_another(&self, other: &Way, send: &Sent, now: &Sent) -> bool {
        if now.len > 0 {
            return send.is_late || self.is_asked_for(now, send.t_ns);
        }
        // Equal ACKs may be what tells of a loss, and each packet that fits nothing is answered by an equal RST.
        now.flags & RST != 0 || (self.acked == Some(now.ack) && other.lies_ahead_of(now.ack))
    }

    /// Do copies come so long after their packets?
    fn is_usual_wait(&self, apart_ns: i64) -> bool {
        self.apart_ns.is_none_or(|(least, most)| (least - least / 8..=most + most / 8).contains(&apart_ns))
    }

    /// Were data seen behind `ack`, or none at all?
    fn lies_ahead_of(&self, ack: u32) -> bool {
        !self.has_begun || self.position(ack) < self.high
    }

    /// `now` brings nothing new: was it captured before?
    #[cold]
    fn look_up(&mut self, other: &Way, now: &Sent) -> bool {
        let mut like = None;
        let mut parts = Vec::new();
        let oldest = self.oldest.min(self.sends.len());
        for at in (0..oldest).rev().chain((oldest..self.sends.len()).rev()) {
            if self.sends[at].ack != now.ack {
                continue;
            }
            let send = self.sends[at];
            if !send.is_like(now) || send.end() < now.start || now.end() < send.start {
                continue;
            }
            if send.covers(now) {
                if self.is_again(other, &send, now, send.piece) {
                    self.learn(other, &send, now);
                    self.count(at, now);
                    if now.start == send.start && now.len < send.len {
                        self.sends[at].piece = now.len;
                    }
                    return true;
                }
                let is_near = (now.t_ns - send.t_ns).abs() < TIMER_NS;
                like = like.or_else(|| (is_near && send.start == now.start && send.len == now.len).then_some(at));
            } else if send.len > 0 && send.start < now.end() && now.start < send.end() {
                parts.push(at);
            }
        }
        if now.len > 0 && self.are_all_of(other, now, &parts) {
            parts.iter().for_each(|at| self.count(*at, now));
            return true;
        }
        if let Some(at) = like {
            // It may be a copy all the same, and is not held against copies being usual.
            self.seen[0] = self.seen[0].saturating_sub(1);
            self.count_like(at);
        }
        false
    }

    /// `now` was captured before, as `send`.
    fn learn(&mut self, other: &Way, send: &Sent, now: &Sent) {
        let apart_ns = (now.t_ns - send.t_ns).abs();
        if apart_ns < TIMER_NS && !self.may_be_another(other, send, now) {
            let (least, most) = self.apart_ns.unwrap_or((apart_ns, apart_ns));
            self.apart_ns = Some((least.min(apart_ns), most.max(apart_ns)));
        }
    }

    /// Have these packets together all bytes of `now`, and is each of them in it?
    fn are_all_of(&self, other: &Way, now: &Sent, parts: &[usize]) -> bool {
        let parts = || parts.iter().map(|at| &self.sends[*at]);
        let size = parts().find(|part| part.start == now.start).map_or(0, |part| part.len);
        let same = parts().filter(|part| self.is_again(other, part, now, size));
        let mut ranges: Vec<(i64, i64)> = same.map(|part| (part.start, part.end())).collect();
        ranges.sort_unstable();
        let mut to = now.start;
        for (start, end) in ranges {
            if start > to {
                return false;
            }
            to = to.max(end);
        }
        to >= now.end()
    }

    /// A packet was seen once more: all of it, once its last byte is.
    fn count(&mut self, at: usize, now: &Sent) {
        let send = &mut self.sends[at];
        if now.end() < send.end() {
            return;
        }
        send.points |= now.points;
        send.times = send.times.saturating_add(1);
        self.count_like(at);
    }

    fn count_like(&mut self, at: usize) {
        let likes = &mut self.sends[at].likes;
        if let Some(seen) = self.seen.get_mut(usize::from(*likes)) {
            *seen += 1;
            *likes += 1;
        }
    }

    #[inline]
    fn push(&mut self, send: Sent) {
        self.seen[0] += 1;
        let counts = send.ip_id != 0 && !self.repeats_ids && self.other_points.is_empty();
        if self.sends.len() < FEW || (!counts && self.is_short(&send)) {
            self.grow(send);
            return;
        }
        // Whoever counts its packets may have some lie between copies, as ever; other copies are told by their time.
        if self.oldest >= self.sends.len() {
            self.oldest = 0;
        }
        self.sends[self.oldest] = send;
        self.oldest += 1;
    }

    /// Is what is remembered younger than copies may be?
    fn is_short(&self, send: &Sent) -> bool {
        let young_ns = if self.other_points.is_empty() { TIMER_NS } else { QUEUE_NS };
        let oldest = &self.sends[self.oldest % self.sends.len()];
        self.sends.len() < MOST && send.t_ns - oldest.t_ns < young_ns
    }

    #[cold]
    fn grow(&mut self, send: Sent) {
        let oldest = if self.sends.is_empty() { 0 } else { self.oldest % self.sends.len() };
        self.sends.rotate_left(oldest);
        self.oldest = 0;
        self.sends.push(send);
    }
}

/// Both directions of a connection.
#[derive(Default)]
#[cfg_attr(test, derive(PartialEq, Debug))]
pub struct Copies([Way; 2]);

impl Copies {
    /// Take a segment of a connection of which no more than the last is to be kept so far: it is no copy.
    #[cold]
    pub fn keep(&mut self, direction: usize, point: u32, segment: &Segment<'_>, t_ns: i64) {
        self.0[direction].sends.clear();
        self.0[direction].is_usual = false;
        self.is_copy(direction, point, segment, t_ns);
    }

    /// Was a segment captured before? `point` is the interface.
    #[inline(always)]
    pub fn is_copy(&mut self, direction: usize, point: u32, segment: &Segment<'_>, t_ns: i64) -> bool {
        let [forward, backward] = &mut self.0;
        let (own, other) = if direction == 0 { (forward, backward) } else { (backward, forward) };
        if own.is_usual_next(point, segment) {
            own.take_next(segment, t_ns);
            return false;
        }
        own.is_copy(other, point, segment, t_ns)
    }

    /// Does a segment go on so that it cannot be a copy (`Way::is_usual_next`)?
    #[inline(always)]
    pub fn is_usual_next(&self, direction: usize, point: u32, segment: &Segment<'_>) -> bool {
        self.0[direction].is_usual_next(point, segment)
    }

    /// Take one that does.
    #[inline(always)]
    pub fn take_next(&mut self, direction: usize, segment: &Segment<'_>, t_ns: i64) {
        self.0[direction].take_next(segment, t_ns);
    }
}

impl Way {
    /// Does a segment go on where the last one ended, or acknowledge more, with nothing about it but a timestamp, if that?
    #[inline(always)]
    fn is_usual_next(&self, point: u32, segment: &Segment<'_>) -> bool {
        let is_new = segment.len > 0 || (segment.flags == ACK && self.acks_more(segment));
        is_new
            && segment.seq == self.high as u32
            && self.is_usual
            && self.point == point
            && segment.flags & (ACK | SYN | FIN | RST) == ACK
            && segment.ip_id != self.last_id
            && segment.ip_id != 0
            && is_plain(segment.options)
    }

    /// It was not captured before then, and asks for nothing.
    #[inline(always)]
    fn take_next(&mut self, segment: &Segment<'_>, t_ns: i64) {
        let (ts_val, options) = plain_options_of(segment.options);
        self.tick(t_ns, ts_val);
        if self.acks_more(segment) {
            self.acked = Some(segment.ack);
        }
        self.window = segment.window;
        self.last_id = segment.ip_id;
        self.seen[0] += 1;
        let at = if self.oldest < self.sends.len() { self.oldest } else { 0 };
        self.oldest = at + 1;
        // Field by field: to copy them as one would wait for all to be in memory.
        let send = &mut self.sends[at];
        send.t_ns = t_ns;
        send.start = self.high;
        send.len = segment.len;
        send.piece = 0;
        send.ack = segment.ack;
        send.ts_val = ts_val;
        send.options = options;
        send.window = segment.window;
        send.ip_id = segment.ip_id;
        send.flags = segment.flags;
        (send.points, send.times, send.likes, send.is_late) = (1, 1, 1, false);
        self.high += i64::from(segment.len);
    }

    /// The same of any segment.
    fn is_copy(&mut self, other: &mut Way, point: u32, segment: &Segment<'_>, t_ns: i64) -> bool {
        if !self.has_begun {
            self.begin(segment.seq);
            self.point = point;
        }
        let start = self.position(segment.seq);
        let end = start + i64::from(segment.len);
        let (ts_val, options) = options_of(segment);
        let mut send = Sent {
            t_ns,
            start,
            len: segment.len,
            piece: 0,
            ack: segment.ack,
            ts_val,
            options,
            window: segment.window,
            ip_id: segment.ip_id,
            flags: segment.flags,
            points: self.point(point),
            times: 1,
            likes: 1,
            is_late: start < self.high,
        };
        let acks_more = self.acks_more(segment);
        let is_new = if segment.len > 0 { end > self.high } else { segment.flags == ACK && acks_more };
        let is_copy = !is_new && self.look_up(other, &send);
        if !is_copy {
            let is_elsewhere = !(-APART..=APART).contains(&(start - self.high));
            if is_elsewhere || segment.flags & SYN != 0 {
                self.begin(segment.seq);
                (send.start, send.is_late) = (self.high, false);
            }
            self.repeats_ids |= self.last_id == send.ip_id && send.ip_id != 0;
            self.last_id = send.ip_id;
            self.takes(other, segment, &send, acks_more);
            self.push(send);
        }
        self.is_usual = self.sends.len() >= FEW && !self.repeats_ids && self.other_points.is_empty();
        is_copy
    }

    /// The sender's clock was this.
    #[inline]
    fn tick(&mut self, t_ns: i64, ts_val: u32) {
        if ts_val == 0 {
            return;
        }
        match &mut self.clock {
            Some([_, newest]) if (ts_val.wrapping_sub(newest.1) as i32) <= 0 => {}
            Some([_, newest]) => *newest = (t_ns, ts_val),
            none => *none = Some([(t_ns, ts_val); 2]),
        }
    }

    #[inline]
    fn acks_more(&self, segment: &Segment<'_>) -> bool {
        self.acked.is_none_or(|acked| (segment.ack.wrapping_sub(acked) as i32) > 0)
    }

    /// What a packet that is no copy says.
    fn takes(&mut self, other: &mut Way, segment: &Segment<'_>, send: &Sent, acks_more: bool) {
        self.high = self.high.max(send.end());
        self.tick(send.t_ns, send.ts_val);
        if segment.flags & ACK == 0 || segment.flags & RST != 0 {
            return;
        }
        let is_equal = self.acked == Some(segment.ack) && segment.len == 0 && self.window == segment.window;
        if (is_equal && other.lies_ahead_of(segment.ack)) || has_sack(segment.options) {
            other.asked = Some(Asked { t_ns: send.t_ns, ack: segment.ack });
        }
        if acks_more {
            self.acked = Some(segment.ack);
        }
        self.window = segment.window;
    }
}

#[cfg(test)]
mod tests;
