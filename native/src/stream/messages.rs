//! Pieces of a stream, one joining on to the other, in; messages out. The other half of `Stream`.

use super::{Phase, Piece, Stream};
use crate::feed::{Feed, Outcome};
use crate::place::Row;
use crate::plausible::{Plausible, plausible};
use crate::unread::Bytes;

/// Bytes of a message that are looked at: its header and arguments up to what names it.
const HEAD: usize = 1024;
/// Bytes of a record mark.
const MARK: u64 = 4;
/// Longer messages do not exist: NFS reads and writes at most a few MiB at once.
const LONGEST: u32 = 64 << 20;
/// Visible bytes from which on a reply is believed in a stream that has shown no RPC yet: all up to accept_stat.
const WHOLE_REPLY_HEAD: usize = 28;
const ENOUGH: usize = 16;
/// Of a reply that is wanted whole, and of all of them at once.
const MOST_COLLECTED: usize = 1 << 20;
const MOST_COLLECTED_IN_ALL: usize = 64 << 20;

impl Stream {
    /// The place of the next message is no longer known; `hidden`: but that one began is.
    pub(super) fn lose(&mut self, feed: &mut Feed<'_>, hidden: bool) {
        let has_head = self.buffers.as_ref().is_some_and(|buffers| !buffers.head.is_empty());
        if hidden && has_head && !self.deliver_head(self.next, feed) {
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

    /// So many of the next bytes belong to messages whose beginnings cannot be read.
    #[cold]
    pub(super) fn cannot_read(&mut self, bytes: u64, begin_ns: i64, end_ns: i64, feed: &mut Feed<'_>) {
        if bytes > 0 && feed.knows_rpc() {
            let bytes = Bytes { conn: feed.flow.conn, direction: feed.direction, begin_ns, end_ns, bytes };
            self.unread.push(&bytes, &mut feed.tally.unread);
        }
    }

    /// The last of a message's bytes is the one in the latest frame.
    #[inline(always)]
    pub(super) fn saw(&mut self, frame: u32, t_ns: i64) {
        if frame >= self.last_frame {
            (self.last_frame, self.last_ns) = (frame, t_ns);
        }
    }

    #[inline]
    pub(super) fn finish(&mut self, feed: &mut Feed<'_>) {
        if self.end_unknown {
            self.ends(feed);
        }
        if let Some(row) = self.row.take() {
            if self.collects {
                self.tell(row, feed);
            }
            if self.filled_by.0 > self.last_frame {
                feed.pairing.blocked.push(row, self.filled_by.1);
            }
            feed.pairing.finish(row, self.last_frame, self.last_ns, self.whole);
        }
        if std::mem::take(&mut self.is_unread) {
            self.unread.until(self.last_ns, &mut feed.tally.unread);
            self.unread.end();
        }
        self.open = false;
    }

    #[inline]
    pub(super) fn end_fragment(&mut self, feed: &mut Feed<'_>) {
        if self.is_last_fragment {
            self.finish(feed);
        }
        self.phase = Phase::Mark;
    }

    /// Take a piece that begins at `next`.
    #[inline(always)]
    pub(super) fn take(&mut self, piece: Piece<'_>, feed: &mut Feed<'_>) {
        self.next = piece.end;
        self.taken_ns = piece.t_ns;
        let mut at = piece.start;
        while let Some(head) = self.usual_head(piece, at) {
            at += MARK;
            if !self.deliver(head, at + head.len() as u64, feed) {
                return self.cannot_read(piece.end - at, piece.t_ns, piece.t_ns, feed);
            }
            if self.collects {
                break;
            }
            at = piece.end.min(self.fragment_end);
            if at == self.fragment_end {
                self.end_fragment(feed);
            }
        }
        if at < piece.end {
            self.take_from(at, piece, feed);
        }
    }

    /// The same from `at` on.
    fn take_from(&mut self, mut at: u64, piece: Piece<'_>, feed: &mut Feed<'_>) {
        while at < piece.end {
            match self.phase {
                Phase::Body if self.collects => at = self.collect_body(piece, at, feed),
                Phase::Body => {
                    self.saw(piece.frame, piece.t_ns);
                    at = piece.end.min(self.fragment_end);
                    if at == self.fragment_end {
                        self.end_fragment(feed);
                    }
                }
                Phase::Lost => match self.find(piece.at(at), feed) {
                    Some(skip) => {
                        self.cannot_read(skip as u64, piece.t_ns, piece.t_ns, feed);
                        self.unread.end();
                        at += skip as u64;
                        self.phase = Phase::Mark;
                    }
                    None => return self.cannot_read(piece.end - at, piece.t_ns, piece.t_ns, feed),
                },
                Phase::Mark => match self.mark(piece, at, feed) {
                    Some(taken) => at += taken,
                    None => return self.cannot_read(piece.end - at, piece.t_ns, piece.t_ns, feed),
                },
                Phase::Head => match self.head(piece, at, feed) {
                    Some(taken) => at += taken,
                    None => return self.cannot_read(piece.end - at, piece.t_ns, piece.t_ns, feed),
                },
            }
        }
    }

    /// The head of a message in one fragment, where mark and head are all here: as `mark` and `head` have it, in one go.
    #[inline(always)]
    fn usual_head<'a>(&mut self, piece: Piece<'a>, at: u64) -> Option<&'a [u8]> {
        if self.phase != Phase::Mark {
            return None;
        }
        let (mark, bytes) = piece.at(at).split_first_chunk::<{ MARK as usize }>()?;
        let mark = u32::from_be_bytes(*mark);
        let len = mark & 0x7fff_ffff;
        let here = piece.end.checked_sub(at + MARK)?.min(u64::from(len)) as usize;
        let bytes = &bytes[..bytes.len().min(here)];
        let is_enough = bytes.len() < here || here == len as usize || bytes.len() >= HEAD;
        if self.open || mark >> 31 == 0 || len > LONGEST || here == 0 || !is_enough {
            return None;
        }
        (self.open, self.delivered, self.whole, self.is_last_fragment) = (true, false, true, true);
        (self.first_frame, self.first_ns) = (piece.frame, piece.t_ns);
        (self.last_frame, self.last_ns) = (piece.frame, piece.t_ns);
        self.message_start = at;
        self.fragment_end = at + MARK + u64::from(len);
        self.phase = Phase::Head;
        Some(bytes)
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
        self.saw(piece.frame, piece.t_ns);
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
        match &mut self.buffers {
            Some(buffers) if self.collects && buffers.whole_to == self.fragment_end => {
                buffers.whole_to = at + taken as u64;
            }
            _ => {}
        }
        self.fragment_end = at + taken as u64 + u64::from(len);
        if self.end_unknown && self.is_last_fragment {
            self.ends(feed);
        }
        self.phase = if self.delivered { Phase::Body } else { Phase::Head };
        if len == 0 {
            self.end_fragment(feed);
        }
        Some(taken as u64)
    }

    /// Collect the head of a message, and deliver it once there is enough of it.
    fn head(&mut self, piece: Piece<'_>, at: u64, feed: &mut Feed<'_>) -> Option<u64> {
        self.saw(piece.frame, piece.t_ns);
        let left = (self.fragment_end - at) as usize;
        let here = (piece.end - at).min(left as u64) as usize;
        let bytes = piece.at(at);
        let bytes = &bytes[..bytes.len().min(here)];
        let is_cut = bytes.len() < here;
        let is_end = here == left && self.is_last_fragment;
        let collected = self.buffers.as_ref().map_or(0, |buffers| buffers.head.len());
        let is_enough = is_cut || is_end || collected + bytes.len() >= HEAD;
        if collected == 0 && is_enough {
            return self.deliver(bytes, at + bytes.len() as u64, feed).then_some(0);
        }
        let wanted = bytes.len().min(HEAD - collected.min(HEAD));
        self.buffers.get_or_insert_default().head.extend_from_slice(&bytes[..wanted]);
        if is_enough {
            return self.deliver_head(at + wanted as u64, feed).then_some(0);
        }
        if here == left {
            self.phase = Phase::Mark; // of the next fragment
        }
        Some(here as u64)
    }

    /// Deliver what was collected, up to the place `to`; false where it is no RPC, and the stream is lost.
    pub(super) fn deliver_head(&mut self, to: u64, feed: &mut Feed<'_>) -> bool {
        let mut head = self.buffers.as_mut().map_or_else(Vec::new, |buffers| std::mem::take(&mut buffers.head));
        let done = self.deliver(&head, to, feed);
        head.clear();
        if let Some(buffers) = &mut self.buffers {
            buffers.head = head; // its memory serves the next one
        }
        done
    }

    fn deliver(&mut self, bytes: &[u8], to: u64, feed: &mut Feed<'_>) -> bool {
        feed.at_once = self.acked >= self.message_start && self.filled_by.0 == 0 && !self.has_held();
        match feed.message(bytes, self.first_frame, self.first_ns) {
            Outcome::Row(row) => {
                self.row = Some(row);
                self.is_rpc = true;
                self.end_unknown = !self.is_last_fragment;
                let end = if self.end_unknown { self.message_start } else { self.fragment_end };
                if !self.end_unknown {
                    feed.pairing.measured(row, end - self.message_start, end as u32);
                }
                let recent = &mut self.buffers.get_or_insert_default().recent;
                recent.message(self.message_start, end, row, &mut feed.pairing.resent);
                if feed.pairing.awaits_all(row) {
                    if to == self.fragment_end && self.is_last_fragment {
                        feed.pairing.tell(row, bytes, self.first_ns); // it is all here
                    } else {
                        self.begin_collecting(bytes, to, feed);
                    }
                }
            }
            Outcome::Short if self.is_rpc => {
                feed.tally.hidden += 1;
                if self.is_last_fragment {
                    self.cannot_read(self.fragment_end - self.message_start, self.first_ns, self.last_ns, feed);
                    self.is_unread = true;
                }
            }
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

    /// Keep what is seen of a message up to the place `to`, and what follows.
    #[cold]
    fn begin_collecting(&mut self, bytes: &[u8], to: u64, feed: &mut Feed<'_>) {
        let buffers = self.buffers.get_or_insert_default();
        buffers.whole.extend_from_slice(bytes);
        buffers.whole_to = to;
        feed.tally.collected_bytes += bytes.len();
        self.collects = true;
    }

    /// As `take` of a body, from `at` on; the place up to which it goes.
    #[cold]
    fn collect_body(&mut self, piece: Piece<'_>, at: u64, feed: &mut Feed<'_>) -> u64 {
        self.saw(piece.frame, piece.t_ns);
        let end = piece.end.min(self.fragment_end);
        self.collect(piece, at, end, feed);
        if end == self.fragment_end {
            self.end_fragment(feed);
        }
        end
    }

    /// Bytes of the message from `from` to `to`. Those behind a place that was not captured are of no use.
    fn collect(&mut self, piece: Piece<'_>, from: u64, to: u64, feed: &mut Feed<'_>) {
        let Some(buffers) = &mut self.buffers else { return };
        if buffers.whole_to < from || buffers.whole_to >= to {
            return;
        }
        let bytes = piece.at(buffers.whole_to);
        let bytes = &bytes[..bytes.len().min((to - buffers.whole_to) as usize)];
        let in_all = feed.tally.collected_bytes + bytes.len();
        if buffers.whole.len() + bytes.len() > MOST_COLLECTED || in_all > MOST_COLLECTED_IN_ALL {
            buffers.whole_to = 0;
            return;
        }
        feed.tally.collected_bytes = in_all;
        buffers.whole.extend_from_slice(bytes);
        buffers.whole_to += bytes.len() as u64;
    }

    #[cold]
    fn tell(&mut self, row: Row, feed: &mut Feed<'_>) {
        self.collects = false;
        let Some(buffers) = &mut self.buffers else { return };
        let message = std::mem::take(&mut buffers.whole); // its memory is not kept: few messages are as long
        feed.tally.collected_bytes -= message.len();
        feed.pairing.tell(row, &message, self.first_ns);
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

    /// Where the message in fragments ends is known now, or as well as it ever will be.
    #[cold]
    fn ends(&mut self, feed: &mut Feed<'_>) {
        self.end_unknown = false;
        if let Some(buffers) = &mut self.buffers {
            buffers.recent.ends(self.fragment_end, &mut feed.pairing.resent);
        }
    }
}
