//! Segments of one direction of one TCP connection in, RPC messages with their first and last frame out.
//!
//! Everything happens in sequence space (RFC 9293 section 3.4): the record mark (RFC 5531 section 11) says where a
//! message ends, so its last frame is known even where a snaplen cut the bytes off. Segments ahead of a hole are held
//! until it is filled, or until it is plain that the capture does not have it; then the stream is followed from the next
//! place that can only be the beginning of a message. What TCP sends again changes nothing but counters, and the list of
//! the messages in it.

use std::cmp::Ordering;

use crate::feed::Feed;
use crate::link::{Addr, Segment};
use crate::place::Row;
use crate::resent::{Again, Recent, Stretch};
use crate::unread::{Open, Unread};

/// What is held ahead of a hole, per direction: segments, and bytes of them.
const HELD: usize = 1024;
const HELD_BYTES: usize = 4 << 20;
const HELD_BYTES_IN_ALL: usize = 256 << 20;
/// Packets of a connection that may still bring what the receiver has acknowledged already: the queues of a network
/// card may be captured in another order than they were received in.
const PATIENCE: u32 = 4;
/// How long such data are waited for once some have come that late: then something on the way (a middlebox, a generator of
/// captures) acknowledges what it sends on later.
const ACKED_NS: i64 = 1_000_000_000;
/// After so long nothing more is to be expected, acknowledged or not: several retransmission timeouts.
const PATIENCE_NS: i64 = 10_000_000_000;
/// Sequence numbers this far apart are of another connection between the same ports whose beginning was not captured.
const APART: i64 = 1 << 28;
/// Further from what was seen, nothing but a gap in the capture, or a spoilt number, brings a segment.
const FAR: i64 = 1 << 16;

/// A stretch of the stream as one packet showed it; `bytes` are the captured front of it.
#[derive(Clone, Copy)]
struct Piece<'a> {
    start: u64,
    end: u64,
    bytes: &'a [u8],
    frame: u32,
    t_ns: i64,
}

impl<'a> Piece<'a> {
    fn from(self, start: u64) -> Piece<'a> {
        let skip = (start - self.start) as usize;
        Piece { start, bytes: self.bytes.get(skip..).unwrap_or(&[]), ..self }
    }

    fn until(self, end: u64) -> Piece<'a> {
        let len = (end - self.start) as usize;
        Piece { end, bytes: &self.bytes[..self.bytes.len().min(len)], ..self }
    }

    fn at(&self, position: u64) -> &'a [u8] {
        self.bytes.get((position - self.start) as usize..).unwrap_or(&[])
    }
}

struct Held {
    start: u64,
    end: u64,
    bytes: Box<[u8]>,
    frame: u32,
    t_ns: i64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Where the next message begins is not known.
    Lost,
    /// The next byte belongs to a record mark.
    Mark,
    /// In the bytes of a message that are looked at.
    Head,
    /// Behind them.
    Body,
}

/// What is kept only for a direction that has something of it.
#[derive(Default)]
struct Buffers {
    mark: [u8; 4],
    mark_len: usize,
    head: Vec<u8>,
    held: Vec<Held>,
    held_bytes: usize,
    recent: Recent,
    /// The message that is collected, without record marks, and the place in the stream up to which it is.
    whole: Vec<u8>,
    whole_to: u64,
}

/// What a segment was, for the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Novelty {
    New,
    /// New, behind a hole of so many bytes.
    Ahead(u64),
    /// So many bytes of it were seen before, and so many messages begin in these, as far back as is remembered; so many
    /// bytes fill holes that later data had left. The rest is new.
    Again {
        repeated: u32,
        messages: u64,
        late: u32,
    },
    /// Old, and outside what the receiver could have missed: a keep-alive.
    KeepAlive,
}

pub struct Stream {
    pub started: bool,
    initial: u64,
    /// All below was taken or given up.
    next: u64,
    /// End of the highest byte seen.
    pub high: u64,
    /// Acknowledged by the other side up to here.
    pub acked: u64,
    /// Where it ends, by its FIN.
    fin: Option<u64>,
    /// The last segment with data was left out (`is_damaged`).
    doubted: bool,
    phase: Phase,
    fragment_end: u64,
    is_last_fragment: bool,
    /// The message being read.
    open: bool,
    delivered: bool,
    /// It goes on in fragments whose marks were not read yet.
    end_unknown: bool,
    whole: bool,
    /// All of the message is wanted (`Buffers::whole`).
    collects: bool,
    row: Option<Row>,
    message_start: u64,
    first_frame: u32,
    first_ns: i64,
    last_frame: u32,
    last_ns: i64,
    /// A message was read here before.
    is_rpc: bool,
    waited: u32,
    /// The last hole that was not waited for any longer.
    given_up: (u64, u64),
    /// The packet that has just filled a hole, as long as what waited behind it is taken: frame and time; 0 else.
    filled_by: (u32, i64),
    /// When the last bytes that were taken went by.
    taken_ns: i64,
    /// The stretch in which the messages that begin cannot be read.
    unread: Open,
    /// The message that is being read is such a one, though its length is known.
    is_unread: bool,
    /// Something waits behind a hole (`Buffers::held`): here, for it is asked of both directions with each packet.
    holds: bool,
    buffers: Option<Box<Buffers>>,
    pub lost_ranges: u32,
    pub lost_bytes: u64,
}

impl Default for Stream {
    fn default() -> Stream {
        Stream {
            started: false,
            initial: 0,
            next: 0,
            high: 0,
            acked: 0,
            fin: None,
            doubted: false,
            phase: Phase::Lost,
            fragment_end: 0,
            is_last_fragment: true,
            open: false,
            delivered: false,
            end_unknown: false,
            whole: true,
            collects: false,
            row: None,
            message_start: 0,
            first_frame: 0,
            first_ns: 0,
            last_frame: 0,
            last_ns: 0,
            is_rpc: false,
            waited: 0,
            given_up: (0, 0),
            filled_by: (0, 0),
            taken_ns: i64::MIN,
            unread: Open::default(),
            is_unread: false,
            holds: false,
            buffers: None,
            lost_ranges: 0,
            lost_bytes: 0,
        }
    }
}

/// `seq` as a position in the stream near `near`: sequence numbers wrap, positions do not.
#[inline]
fn unwrap(near: u64, seq: u32) -> i64 {
    near as i64 + i64::from(seq.wrapping_sub(near as u32) as i32)
}

impl Stream {
    fn begin(&mut self, position: u64, phase: Phase) {
        self.started = true;
        self.initial = position;
        (self.next, self.high, self.acked) = (position, position, position);
        self.fin = None;
        self.phase = phase;
        self.waited = 0;
    }

    /// Is `seq` of a SYN the beginning of another stream than this one?
    pub fn is_new(&self, seq: u32) -> bool {
        self.started && self.initial as u32 != seq.wrapping_add(1)
    }

    /// A SYN: the first byte has the number behind it.
    pub fn syn(&mut self, seq: u32) {
        if !self.started {
            // Positions start far from 0, so that what lies in front of the first byte has a place, too.
            self.begin(1 << 32 | u64::from(seq.wrapping_add(1)), Phase::Mark);
        }
    }

    /// Position of a byte of this direction that a packet of it names, and of the first one there is.
    #[inline]
    pub fn position(&self, seq: u32) -> (u64, u64) {
        (unwrap(self.next, seq) as u64, self.initial)
    }

    /// Is a message not complete at the highest byte seen? None where the stream is lost, or a hole hides it.
    #[inline]
    pub fn in_message(&self) -> Option<bool> {
        match self.phase {
            Phase::Lost => None,
            Phase::Mark if self.next == self.high => Some(self.open),
            Phase::Mark => None,
            Phase::Head | Phase::Body => self.in_body(),
        }
    }

    fn in_body(&self) -> Option<bool> {
        match self.fragment_end.cmp(&self.high) {
            Ordering::Greater => Some(true),
            Ordering::Equal => Some(!self.is_last_fragment),
            Ordering::Less => None,
        }
    }

    /// The other side has everything below `ack`: its position, None where it cannot be one of this connection.
    #[inline]
    pub fn acknowledged(&mut self, ack: u32) -> Option<u64> {
        let position = unwrap(self.high, ack);
        if !self.started || position - (self.high as i64) >= APART {
            return None;
        }
        self.acked = self.acked.max(position as u64);
        Some(position as u64)
    }

    /// Does a segment with data lie far from all that was seen, and was its number spoilt, for its checksum is wrong? Its
    /// receiver takes nothing of it. Of two in a row the second one is believed: an adapter that joins segments leaves
    /// wrong sums.
    #[inline]
    pub fn is_damaged(&mut self, segment: &Segment<'_>, hosts: (Addr, Addr)) -> bool {
        if segment.seq == self.next as u32 {
            self.doubted = false;
            return false;
        }
        let start = unwrap(self.next, segment.seq);
        let is_far = start > self.high.max(self.acked) as i64 + FAR || start + FAR < self.initial as i64;
        self.doubted = self.started && is_far && !self.doubted && segment.is_damaged(hosts);
        self.doubted
    }

    /// Take the data of one segment (not empty).
    #[inline]
    pub fn segment(&mut self, segment: &Segment<'_>, frame: u32, t_ns: i64, feed: &mut Feed<'_>) -> Novelty {
        if !self.started {
            self.begin(1 << 32 | u64::from(segment.seq), Phase::Lost);
        }
        let start = unwrap(self.next, segment.seq);
        if (start - self.next as i64).abs() > APART {
            self.close(feed);
            *self = Stream {
                is_rpc: self.is_rpc,
                lost_ranges: self.lost_ranges,
                lost_bytes: self.lost_bytes,
                ..Stream::default()
            };
            self.begin(1 << 32 | u64::from(segment.seq), Phase::Lost);
            return self.segment(segment, frame, t_ns, feed);
        }
        let start = start as u64;
        let end = start + u64::from(segment.len);
        let piece = Piece { start, end, bytes: segment.bytes, frame, t_ns };
        if start == self.next && !self.has_held() {
            self.high = end.max(self.high);
            self.take(piece, feed);
            return Novelty::New;
        }
        if end <= self.next {
            if start < self.given_up.1 && end > self.given_up.0 {
                feed.tally.came_late(feed.flow.hosts);
            }
            return if segment.len <= 1 { Novelty::KeepAlive } else { self.again(piece, feed) };
        }
        self.out_of_order(piece, feed)
    }

    /// Is `seq` the number of the next byte, where nothing waits and no FIN was seen?
    #[inline(always)]
    pub fn goes_on(&self, seq: u32) -> bool {
        self.started && !self.holds && self.fin.is_none() && seq == self.next as u32
    }

    /// As `segment`, of one that `goes_on`, where all of its bytes lie within a message of which no more is read; false
    /// where they do not, and nothing was done.
    #[inline(always)]
    pub fn takes_body(&mut self, len: u32, frame: u32, t_ns: i64) -> bool {
        self.doubted = false;
        let end = self.next + u64::from(len);
        let is_body = self.phase == Phase::Body && end < self.fragment_end && !self.collects;
        if is_body {
            (self.next, self.high) = (end, self.high.max(end));
            self.taken_ns = t_ns;
            self.saw(frame, t_ns);
        }
        is_body
    }

    /// As `segment`, of one that `goes_on`, with `len` bytes of which `bytes` were captured.
    #[inline(always)]
    pub fn takes_next(&mut self, bytes: &[u8], len: u32, frame: u32, t_ns: i64, feed: &mut Feed<'_>) {
        let (start, end) = (self.next, self.next + u64::from(len));
        self.high = self.high.max(end);
        self.take(Piece { start, end, bytes, frame, t_ns }, feed);
    }

    /// A FIN.
    #[cold]
    pub fn fin_comes(&mut self, segment: &Segment<'_>) {
        self.fin = Some(self.position(segment.seq).0 + u64::from(segment.len));
    }

    /// What a segment is by what came before, where the FIN behind it may have overtaken it.
    #[inline(always)]
    pub fn in_front_of_fin(&self, segment: &Segment<'_>, novelty: Novelty) -> Novelty {
        match self.fin {
            Some(fin) if novelty == Novelty::New && self.position(segment.seq).0 + u64::from(segment.len) <= fin => {
                Novelty::Again { repeated: 0, messages: 0, late: segment.len }
            }
            _ => novelty,
        }
    }

    /// The row of the message that is being read.
    pub fn row(&self) -> Option<Row> {
        self.row
    }

    /// Rows have left, and those that stay have new numbers (`Decoder::cut`).
    pub fn renumber(&mut self, moved: impl Fn(Row) -> Row) {
        self.row = self.row.map(&moved);
        if let Some(buffers) = &mut self.buffers {
            buffers.recent.renumber(moved);
        }
    }

    /// Which row of `old` is that of the stretch which is open: it stays, in `new` (`Decoder::cut`).
    pub fn stay_unread(&mut self, old: &Unread, new: &mut Unread) -> Option<u32> {
        self.unread.stay(old, new)
    }

    /// Sequence number of the first byte, that of the SYN not counted, and how many there are up to the highest one seen.
    pub fn range(&self) -> Option<(u32, u64)> {
        self.started.then(|| (self.initial as u32, self.high - self.initial))
    }

    /// From the first byte on, how many the other side has acknowledged.
    pub fn acked_bytes(&self) -> Option<u64> {
        self.started.then(|| self.acked.saturating_sub(self.initial))
    }

    /// How many bytes behind the first one of the direction `seq` is; None in front of it.
    pub fn offset(&self, seq: u32) -> Option<i64> {
        let offset = unwrap(self.next, seq) - self.initial as i64;
        (self.started && offset >= 0).then_some(offset)
    }

    /// Bytes that wait behind holes.
    pub fn held_bytes(&self) -> usize {
        self.buffers.as_ref().map_or(0, |buffers| buffers.held_bytes)
    }

    /// Does anything wait behind a hole?
    #[inline(always)]
    pub fn has_held(&self) -> bool {
        self.holds
    }

    /// How many messages begin in what a segment repeats, as far back as is remembered.
    pub fn repeated_messages(&self, seq: u32, len: u32) -> u64 {
        let Some(buffers) = &self.buffers else { return 0 };
        let start = unwrap(self.next, seq) as u64;
        buffers.recent.beginnings(&(start..start + u64::from(len)))
    }

    /// In front of which position have all messages been read?
    fn known(&self) -> u64 {
        if self.open && (!self.delivered || self.end_unknown) {
            self.message_start
        } else if self.phase == Phase::Body {
            self.fragment_end
        } else {
            self.next
        }
    }

    /// What of a piece below `high` was seen before, and what fills holes: counted, and remembered for its messages.
    #[cold]
    fn again(&mut self, piece: Piece<'_>, feed: &mut Feed<'_>) -> Novelty {
        let (mut repeated, mut late, mut messages) = (0, 0, 0);
        let end = piece.end.min(self.high);
        let (mut at, mut held) = (piece.start, 0);
        while at < end {
            let (kind, mut until) = self.seen_from(at, &mut held);
            while until < end {
                let (next_kind, further) = self.seen_from(until, &mut held);
                if next_kind != kind {
                    break;
                }
                until = further;
            }
            let until = until.min(end);
            let known = self.known();
            if self.buffers.is_some() || until > known {
                let stretch = Stretch { start: at, end: until, kind, frame: piece.frame, t_ns: piece.t_ns };
                let recent = &mut self.buffers.get_or_insert_default().recent;
                recent.stretch(stretch, known, feed.knows_rpc(), &mut feed.pairing.resent);
                messages += if kind == Again::Repeated { recent.beginnings(&(at..until)) } else { 0 };
            }
            *(if kind == Again::Repeated { &mut repeated } else { &mut late }) += (until - at) as u32;
            at = until;
        }
        // What comes once more is no longer late.
        let (lost_from, lost_to) = self.given_up;
        if piece.start <= lost_from {
            self.given_up.0 = lost_from.max(end.min(lost_to));
        } else if end >= lost_to {
            self.given_up.1 = lost_to.min(piece.start);
        }
        Novelty::Again { repeated, late, messages }
    }

    /// Was the byte at a position below `high` seen before, and up to where does the same hold? `held` is the first
    /// piece behind a hole that may matter; positions are asked for in their order.
    fn seen_from(&self, at: u64, held: &mut usize) -> (Again, u64) {
        if at >= self.next {
            let pieces = self.buffers.as_ref().map_or(&[][..], |buffers| &buffers.held);
            *held += pieces[*held..].iter().take_while(|piece| piece.end <= at).count();
            return match pieces.get(*held) {
                Some(piece) if piece.start <= at => (Again::Repeated, piece.end),
                piece => (Again::Late, piece.map_or(self.high, |piece| piece.start)),
            };
        }
        let (lost_from, lost_to) = self.given_up;
        match at {
            _ if at < self.initial => (Again::Late, self.initial), // from before the capture began
            _ if at < lost_from => (Again::Repeated, lost_from.min(self.next)),
            _ if at < lost_to => (Again::Late, lost_to), // it comes after all
            _ => (Again::Repeated, self.next),
        }
    }

    fn out_of_order(&mut self, piece: Piece<'_>, feed: &mut Feed<'_>) -> Novelty {
        let novelty = match piece.start {
            start if start > self.high => Novelty::Ahead(start - self.high),
            start if start == self.high => Novelty::New,
            _ => self.again(piece, feed),
        };
        let piece = if piece.start < self.next { piece.from(self.next) } else { piece };
        if matches!(novelty, Novelty::Again { late: 0, .. }) && piece.end <= self.high {
            return novelty;
        }
        self.high = self.high.max(piece.end);
        if piece.start > self.next {
            self.hold(piece, feed);
            return novelty;
        }
        // What is held was there first, so its own times count.
        let mut rest = piece;
        while rest.end > self.next {
            if rest.start < self.next {
                rest = rest.from(self.next);
            }
            let until = self.first_held().unwrap_or(u64::MAX).min(rest.end);
            if until > self.next {
                self.take(rest.until(until), feed);
            }
            self.filled_by = (piece.frame, piece.t_ns);
            self.release(feed);
            self.filled_by = (0, 0);
        }
        novelty
    }

    fn first_held(&self) -> Option<u64> {
        Some(self.buffers.as_ref()?.held.first()?.start)
    }

    /// Keep a piece that lies ahead of a hole. Bytes that are held already were seen first there, so the rest of it.
    fn hold(&mut self, piece: Piece<'_>, feed: &mut Feed<'_>) {
        // In the middle of a body only the place of a segment matters.
        let in_body = self.phase == Phase::Body && piece.end <= self.fragment_end && !self.collects;
        let buffers = self.buffers.get_or_insert_default();
        let mut at = buffers.held.partition_point(|held| held.end <= piece.start);
        let mut rest = piece;
        while rest.start < rest.end {
            let (start, end) = buffers.held.get(at).map_or((u64::MAX, u64::MAX), |held| (held.start, held.end));
            if rest.start < start {
                let Piece { start, end, bytes, frame, t_ns } = rest.until(rest.end.min(start));
                let bytes: Box<[u8]> = if in_body { Box::default() } else { bytes.into() };
                buffers.held_bytes += bytes.len();
                feed.tally.held_bytes += bytes.len();
                buffers.held.insert(at, Held { start, end, bytes, frame, t_ns });
                at += 1;
            }
            rest = rest.from(rest.end.min(end));
            at += 1;
        }
        self.holds = !buffers.held.is_empty();
    }

    /// Take what is held and joins on.
    fn release(&mut self, feed: &mut Feed<'_>) {
        while self.first_held().is_some_and(|start| start <= self.next) {
            let Some(buffers) = &mut self.buffers else { return };
            let held = buffers.held.remove(0);
            self.holds = !buffers.held.is_empty();
            buffers.held_bytes -= held.bytes.len();
            feed.tally.held_bytes -= held.bytes.len();
            if held.end > self.next {
                let Held { start, end, ref bytes, frame, t_ns } = held;
                self.take(Piece { start, end, bytes, frame, t_ns }.from(self.next), feed);
            }
        }
        if !self.holds {
            self.waited = 0;
        }
    }

    /// A packet of the connection went by: is there a hole that nothing will fill any more?
    #[inline(always)]
    pub fn settle(&mut self, t_ns: i64, feed: &mut Feed<'_>) {
        if self.has_held() {
            self.settle_holes(t_ns, feed);
        }
    }

    #[cold]
    fn settle_holes(&mut self, t_ns: i64, feed: &mut Feed<'_>) {
        while let Some(buffers) = &self.buffers {
            let Some(first) = buffers.held.first() else { return };
            if self.acked >= first.start {
                self.waited += 1;
            }
            let waited_ns = t_ns - first.t_ns;
            let patient = (self.waited <= PATIENCE || (waited_ns < ACKED_NS && feed.tally.is_late(feed.flow.hosts)))
                && waited_ns < PATIENCE_NS
                && buffers.held.len() <= HELD
                && buffers.held_bytes <= HELD_BYTES
                && feed.tally.held_bytes <= HELD_BYTES_IN_ALL;
            if patient {
                return;
            }
            self.give_up(feed);
        }
    }

    /// When the first segment was held that still is; i64::MAX where there is none.
    pub fn holds_since_ns(&self) -> i64 {
        self.buffers.as_ref().and_then(|buffers| buffers.held.first()).map_or(i64::MAX, |first| first.t_ns)
    }

    /// A packet comes after a long silence: what was held all that time comes in front of it.
    pub fn expire(&mut self, t_ns: i64, feed: &mut Feed<'_>) {
        while self.holds_since_ns() <= t_ns - PATIENCE_NS {
            self.give_up(feed);
        }
    }

    /// The capture does not have what is missing in front of the first held segment.
    fn give_up(&mut self, feed: &mut Feed<'_>) {
        let Some(end) = self.first_held() else { return };
        if self.acked >= end {
            self.lost_ranges += 1;
            self.lost_bytes += end - self.next;
        }
        self.given_up = (self.next, end);
        self.skip(end, feed);
        self.waited = 0;
        self.release(feed);
    }

    /// The stream ends: what is held will not be waited for, and the message being read stays as it is.
    pub fn close(&mut self, feed: &mut Feed<'_>) {
        while self.has_held() {
            self.give_up(feed);
        }
        let seen = self.high + u64::from(self.fin.is_some());
        if self.started && self.acked > seen {
            self.lost_ranges += 1;
            self.lost_bytes += self.acked - seen;
        }
        if matches!(self.phase, Phase::Head | Phase::Mark) && self.open && !self.delivered {
            self.deliver_head(self.next, feed);
        }
        self.whole = false;
        self.finish(feed);
        self.buffers = None;
        self.started = false;
        self.phase = Phase::Lost;
    }

    /// Bytes up to `end` were not captured.
    fn skip(&mut self, end: u64, feed: &mut Feed<'_>) {
        if self.phase == Phase::Head {
            self.deliver_head(self.next, feed);
        }
        let within = self.phase == Phase::Body && end <= self.fragment_end;
        let from = if self.phase == Phase::Body { self.fragment_end } else { self.next };
        if self.phase == Phase::Body {
            self.whole = false;
        }
        if within {
            self.next = end;
            if end == self.fragment_end {
                self.end_fragment(feed);
            }
            return;
        }
        if self.phase != Phase::Lost {
            self.lose(feed, true);
        }
        let first = self.buffers.as_ref().and_then(|buffers| buffers.held.first());
        let until_ns = first.map_or(self.taken_ns, |first| first.t_ns);
        let from_ns = if self.taken_ns == i64::MIN { until_ns } else { self.taken_ns.min(until_ns) };
        self.cannot_read(end - from, from_ns, until_ns, feed);
        self.next = end;
    }
}

mod messages;
#[cfg(test)]
mod tests;
