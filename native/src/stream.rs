//! Segments of one direction of one TCP connection in, RPC messages with their first and last frame out.
//!
//! Everything happens in sequence space (RFC 9293 section 3.4): the record mark (RFC 5531 section 11) says where a
//! message ends, so its last frame is known even where a snaplen cut the bytes off. Segments ahead of a hole are held
//! until it is filled, or until it is plain that the capture does not have it; then the stream is followed from the next
//! place that can only be the beginning of a message. What TCP sends again changes nothing but counters.

use crate::feed::{Feed, Outcome};
use crate::link::Segment;
use crate::ops::Row;
use crate::plausible::{Plausible, plausible};

/// Bytes of a message that are looked at: its header and arguments up to what names it.
const HEAD: usize = 1024;
/// Longer messages do not exist: NFS reads and writes at most a few MiB at once.
const LONGEST: u32 = 64 << 20;
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
/// Beginnings of messages that a repeated segment is compared with.
const RECENT: usize = 64;
/// Visible bytes from which on a reply is believed in a stream that has shown no RPC yet: all up to accept_stat.
const WHOLE_REPLY_HEAD: usize = 28;
const ENOUGH: usize = 16;

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
    /// Stream positions of the last messages.
    recent: Vec<u64>,
    recent_at: usize,
}

/// What a segment was, for the counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Novelty {
    New,
    /// New, behind a hole of so many bytes.
    Ahead(u64),
    /// Fills a hole that later data had left.
    Late,
    /// All of it was seen before.
    Old,
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
    pub fin: bool,
    phase: Phase,
    fragment_end: u64,
    is_last_fragment: bool,
    /// The message being read.
    open: bool,
    delivered: bool,
    whole: bool,
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
            fin: false,
            phase: Phase::Lost,
            fragment_end: 0,
            is_last_fragment: true,
            open: false,
            delivered: false,
            whole: true,
            row: None,
            message_start: 0,
            first_frame: 0,
            first_ns: 0,
            last_frame: 0,
            last_ns: 0,
            is_rpc: false,
            waited: 0,
            given_up: (0, 0),
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
        self.fin = false;
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

    /// The other side has everything below `ack`.
    #[inline]
    pub fn acknowledged(&mut self, ack: u32) {
        if self.started {
            let position = unwrap(self.high, ack);
            if position > self.acked as i64 && position - (self.high as i64) < APART {
                self.acked = position as u64;
            }
        }
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
            feed.tally.came_late |= start < self.given_up.1 && end > self.given_up.0;
            return if segment.len <= 1 { Novelty::KeepAlive } else { Novelty::Old };
        }
        self.out_of_order(piece, feed)
    }

    /// Bytes that wait behind holes.
    pub fn held_bytes(&self) -> usize {
        self.buffers.as_ref().map_or(0, |buffers| buffers.held_bytes)
    }

    /// Does anything wait behind a hole?
    pub fn has_held(&self) -> bool {
        self.buffers.as_ref().is_some_and(|buffers| !buffers.held.is_empty())
    }

    /// How many messages begin in what a segment repeats, as far back as is remembered.
    pub fn repeated_messages(&self, seq: u32, len: u32) -> u64 {
        let Some(buffers) = &self.buffers else { return 0 };
        let start = unwrap(self.next, seq) as u64;
        let range = start..start + u64::from(len);
        buffers.recent.iter().filter(|begin| range.contains(begin)).count() as u64
    }

    fn out_of_order(&mut self, piece: Piece<'_>, feed: &mut Feed<'_>) -> Novelty {
        let piece = if piece.start < self.next { piece.from(self.next) } else { piece };
        let novelty = if piece.start > self.high {
            Novelty::Ahead(piece.start - self.high)
        } else if piece.start == self.high {
            Novelty::New
        } else if self.is_held(piece.start, piece.end) {
            return Novelty::Old;
        } else {
            Novelty::Late
        };
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
            self.release(feed);
        }
        novelty
    }

    fn first_held(&self) -> Option<u64> {
        Some(self.buffers.as_ref()?.held.first()?.start)
    }

    fn is_held(&self, start: u64, end: u64) -> bool {
        let Some(buffers) = &self.buffers else { return false };
        let mut at = start;
        for held in &buffers.held {
            if held.start <= at && held.end > at {
                at = held.end;
            }
        }
        at >= end
    }

    /// Keep a piece that lies ahead of a hole. Bytes that are held already were seen first there, so the rest of it.
    fn hold(&mut self, piece: Piece<'_>, feed: &mut Feed<'_>) {
        // In the middle of a body only the place of a segment matters.
        let in_body = self.phase == Phase::Body && piece.end <= self.fragment_end;
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
    }

    /// Take what is held and joins on.
    fn release(&mut self, feed: &mut Feed<'_>) {
        while self.first_held().is_some_and(|start| start <= self.next) {
            let Some(buffers) = &mut self.buffers else { return };
            let held = buffers.held.remove(0);
            buffers.held_bytes -= held.bytes.len();
            feed.tally.held_bytes -= held.bytes.len();
            if held.end > self.next {
                let Held { start, end, ref bytes, frame, t_ns } = held;
                self.take(Piece { start, end, bytes, frame, t_ns }.from(self.next), feed);
            }
        }
        if self.buffers.as_ref().is_some_and(|buffers| buffers.held.is_empty()) {
            self.waited = 0;
        }
    }

    /// A packet of the connection went by: is there a hole that nothing will fill any more?
    #[inline]
    pub fn settle(&mut self, t_ns: i64, feed: &mut Feed<'_>) {
        if self.has_held() {
            self.settle_holes(t_ns, feed);
        }
    }

    fn settle_holes(&mut self, t_ns: i64, feed: &mut Feed<'_>) {
        while let Some(buffers) = &self.buffers {
            let Some(first) = buffers.held.first() else { return };
            if self.acked >= first.start {
                self.waited += 1;
            }
            let waited_ns = t_ns - first.t_ns;
            let patient = (self.waited <= PATIENCE || (feed.tally.came_late && waited_ns < ACKED_NS))
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
        if self.started && self.acked > self.high + u64::from(self.fin) {
            self.lost_ranges += 1;
            self.lost_bytes += self.acked - self.high - u64::from(self.fin);
        }
        if matches!(self.phase, Phase::Head | Phase::Mark) && self.open && !self.delivered {
            self.deliver_head(feed);
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
            self.deliver_head(feed);
        }
        let within = self.phase == Phase::Body && end <= self.fragment_end;
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
        self.next = end;
    }

    /// The place of the next message is no longer known; `hidden`: but that one began is.
    fn lose(&mut self, feed: &mut Feed<'_>, hidden: bool) {
        let has_head = self.buffers.as_ref().is_some_and(|buffers| !buffers.head.is_empty());
        if hidden && has_head && !self.deliver_head(feed) {
            return; // it was none, and so the stream is lost already
        }
        // Where a message goes on in another fragment it is that one's mark that is missing, not a new message's.
        let goes_on = self.open && self.delivered && !self.is_last_fragment;
        self.whole = false;
        self.finish(feed);
        if hidden && !goes_on && self.is_rpc {
            feed.tally.hidden += 1;
        }
        self.phase = Phase::Lost;
        if let Some(buffers) = &mut self.buffers {
            buffers.head.clear();
            buffers.mark_len = 0;
        }
    }

    /// The last of a message's bytes is the one in the latest frame.
    #[inline]
    fn saw(&mut self, piece: Piece<'_>) {
        if piece.frame >= self.last_frame {
            (self.last_frame, self.last_ns) = (piece.frame, piece.t_ns);
        }
    }

    fn finish(&mut self, feed: &mut Feed<'_>) {
        if let Some(row) = self.row.take() {
            feed.pairing.finish(row, self.last_frame, self.last_ns, self.whole);
        }
        self.open = false;
    }

    #[inline]
    fn end_fragment(&mut self, feed: &mut Feed<'_>) {
        if self.is_last_fragment {
            self.finish(feed);
        }
        self.phase = Phase::Mark;
    }

    /// Take a piece that begins at `next`.
    fn take(&mut self, piece: Piece<'_>, feed: &mut Feed<'_>) {
        self.next = piece.end;
        let mut at = piece.start;
        while at < piece.end {
            match self.phase {
                Phase::Body => {
                    self.saw(piece);
                    at = piece.end.min(self.fragment_end);
                    if at == self.fragment_end {
                        self.end_fragment(feed);
                    }
                }
                Phase::Lost => match self.find(piece.at(at), feed) {
                    Some(skip) => {
                        at += skip as u64;
                        self.phase = Phase::Mark;
                    }
                    None => return,
                },
                Phase::Mark => match self.mark(piece, at, feed) {
                    Some(taken) => at += taken,
                    None => return,
                },
                Phase::Head => match self.head(piece, at, feed) {
                    Some(taken) => at += taken,
                    None => return,
                },
            }
        }
    }

    /// Read a record mark, or the part of it that is here; None where the stream was lost.
    fn mark(&mut self, piece: Piece<'_>, at: u64, feed: &mut Feed<'_>) -> Option<u64> {
        let bytes = piece.at(at);
        let split = self.buffers.as_ref().map_or(0, |buffers| buffers.mark_len);
        if bytes.is_empty() {
            self.lose(feed, true);
            return None;
        }
        if !self.open {
            self.open = true;
            self.delivered = false;
            self.whole = true;
            (self.first_frame, self.first_ns) = (piece.frame, piece.t_ns);
            (self.last_frame, self.last_ns) = (piece.frame, piece.t_ns);
            self.message_start = at;
        }
        self.saw(piece);
        let taken = bytes.len().min(4 - split);
        let mark = if taken == 4 {
            u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        } else {
            let buffers = self.buffers.get_or_insert_default();
            buffers.mark[split..split + taken].copy_from_slice(&bytes[..taken]);
            buffers.mark_len = split + taken;
            if buffers.mark_len < 4 {
                if at + (taken as u64) < piece.end {
                    self.lose(feed, true); // the rest of the mark was cut off
                    return None;
                }
                return Some(taken as u64);
            }
            buffers.mark_len = 0;
            u32::from_be_bytes(buffers.mark)
        };
        let len = mark & 0x7fff_ffff;
        self.is_last_fragment = mark >> 31 == 1;
        if len > LONGEST || (len == 0 && !self.delivered) {
            self.no_rpc(feed);
            return None;
        }
        self.fragment_end = at + taken as u64 + u64::from(len);
        self.phase = if self.delivered { Phase::Body } else { Phase::Head };
        if len == 0 {
            self.end_fragment(feed);
        }
        Some(taken as u64)
    }

    /// Collect the head of a message, and deliver it once there is enough of it.
    fn head(&mut self, piece: Piece<'_>, at: u64, feed: &mut Feed<'_>) -> Option<u64> {
        self.saw(piece);
        let left = (self.fragment_end - at) as usize;
        let here = (piece.end - at).min(left as u64) as usize;
        let bytes = piece.at(at);
        let bytes = &bytes[..bytes.len().min(here)];
        let is_cut = bytes.len() < here;
        let is_end = here == left && self.is_last_fragment;
        let collected = self.buffers.as_ref().map_or(0, |buffers| buffers.head.len());
        let is_enough = is_cut || is_end || collected + bytes.len() >= HEAD;
        if collected == 0 && is_enough {
            return self.deliver(bytes, feed).then_some(0);
        }
        let wanted = bytes.len().min(HEAD - collected.min(HEAD));
        self.buffers.get_or_insert_default().head.extend_from_slice(&bytes[..wanted]);
        if is_enough {
            return self.deliver_head(feed).then_some(0);
        }
        if here == left {
            self.phase = Phase::Mark; // of the next fragment
        }
        Some(here as u64)
    }

    /// Deliver what was collected; false where it is no RPC, and the stream is lost.
    fn deliver_head(&mut self, feed: &mut Feed<'_>) -> bool {
        let mut head = self.buffers.as_mut().map_or_else(Vec::new, |buffers| std::mem::take(&mut buffers.head));
        let done = self.deliver(&head, feed);
        head.clear();
        if let Some(buffers) = &mut self.buffers {
            buffers.head = head; // its memory serves the next one
        }
        done
    }

    fn deliver(&mut self, bytes: &[u8], feed: &mut Feed<'_>) -> bool {
        match feed.message(bytes, self.first_frame, self.first_ns) {
            Outcome::Row(row) => {
                self.row = Some(row);
                self.is_rpc = true;
                self.remember(self.message_start);
            }
            Outcome::Short if self.is_rpc => feed.tally.hidden += 1,
            Outcome::Short => {}
            Outcome::NotRpc => {
                self.no_rpc(feed);
                return false;
            }
        }
        self.delivered = true;
        self.phase = Phase::Body;
        true
    }

    /// What stands where a message should begin is none.
    fn no_rpc(&mut self, feed: &mut Feed<'_>) {
        feed.flow.is_tls |= feed.flow.asks_tls;
        if self.is_rpc && !feed.flow.is_tls {
            feed.tally.malformed += 1;
        }
        self.lose(feed, false);
    }

    /// Where in `bytes` a message begins, for a stream that is lost.
    fn find(&mut self, bytes: &[u8], feed: &Feed<'_>) -> Option<usize> {
        let looks = plausible(bytes, ENOUGH);
        let is_begin = match looks {
            Plausible::No => false,
            Plausible::Call => feed.fits(bytes, looks).unwrap_or(true),
            Plausible::Reply => {
                let is_enough = feed.knows_rpc() || bytes.len() >= WHOLE_REPLY_HEAD;
                feed.fits(bytes, looks).unwrap_or(is_enough)
            }
        };
        if is_begin {
            return Some(0);
        }
        if !feed.knows_rpc() {
            return None;
        }
        // Inside a segment data can look like anything, so that the XID has to speak for it, too.
        (1..bytes.len().saturating_sub(WHOLE_REPLY_HEAD)).find(|at| {
            let bytes = &bytes[*at..];
            let looks = if bytes[0] & 0x7f < 2 { plausible(bytes, WHOLE_REPLY_HEAD) } else { Plausible::No };
            looks != Plausible::No && feed.fits(bytes, looks) == Some(true)
        })
    }

    fn remember(&mut self, position: u64) {
        let buffers = self.buffers.get_or_insert_default();
        if buffers.recent.len() < RECENT {
            buffers.recent.push(position);
        } else {
            buffers.recent[buffers.recent_at] = position;
            buffers.recent_at = (buffers.recent_at + 1) % RECENT;
        }
    }
}

#[cfg(test)]
mod tests;
