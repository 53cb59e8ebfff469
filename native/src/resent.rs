//! Stretches of a stream that a segment brought again, or late, in; the messages that have bytes in them out.
//!
//! A message is known once its record mark and its header were read, a stretch as soon as its segment comes; whichever
//! is first waits for the other: the last messages of a direction are remembered, and so are stretches of which some
//! message is not known yet (it lies behind a hole, or its header is not complete).

use std::ops::Range;

use crate::place::Row;
use crate::table::table;

/// Messages that are remembered, by direction.
const RECENT: usize = 64;
/// Stretches that wait for their messages, by direction: of a connection with RPC, and of one without so far.
const WAITING: usize = 256;
const WAITING_WITHOUT_RPC: usize = 8;
/// Rows kept of a capture; beyond it they are only counted.
const MOST_ROWS: usize = 1 << 21;

/// What a segment did to the bytes (`nfslat.model.details.Again`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum Again {
    /// They were seen before.
    Repeated = 0,
    /// They fill a hole that later data had left.
    Late = 1,
}

/// Bytes of a stream, by position, that the segment in `frame` brought again, or late.
#[derive(Clone, Copy)]
pub struct Stretch {
    pub start: u64,
    pub end: u64,
    pub kind: Again,
    pub frame: u32,
    pub t_ns: i64,
}

table! {
    /// Messages with bytes in segments that TCP sent again: one row a message, segment and kind (`nfslat.model.details.Resent`).
    /// `close` puts them into the order of `op`, and those of an op into that of `frame`.
    pub struct Resent of ResentRow {
        op: i32,
        is_reply: i8,
        kind: i8,
        frame: i32,
        t_ns: i64,
        bytes: i64,
    }
    with {
        row: Vec<Row>,
        /// Rows that are not in the table: their message ended in no op, or there were too many.
        pub dropped: u64,
    }
}

impl Resent {
    fn push(&mut self, row: Row, stretch: &Stretch, bytes: u64) {
        // A segment may hold a message's old bytes on both sides of late ones.
        for at in (self.row.len().saturating_sub(2)..self.row.len()).rev() {
            let is_same = self.row[at] == row && self.frame[at] == stretch.frame as i32;
            if is_same && self.kind[at] == stretch.kind as i8 {
                self.bytes[at] += bytes as i64;
                return;
            }
        }
        if self.row.len() >= MOST_ROWS {
            self.dropped += 1;
            return;
        }
        self.row.push(row);
        self.push_row(ResentRow {
            op: -1,
            is_reply: 0,
            kind: stretch.kind as i8,
            frame: stretch.frame as i32,
            t_ns: stretch.t_ns,
            bytes: bytes as i64,
        });
    }

    /// Name the ops: `op_of` gives the op of a message and whether the message is its reply, None where it is in none.
    pub fn close(&mut self, op_of: impl Fn(Row) -> Option<(i32, bool)>) {
        let mut rows: Vec<(i32, i32, u32)> = Vec::with_capacity(self.row.len());
        for (number, row) in std::mem::take(&mut self.row).into_iter().enumerate() {
            let Some((op, is_reply)) = op_of(row) else {
                self.dropped += 1;
                continue;
            };
            (self.op[number], self.is_reply[number]) = (op, i8::from(is_reply));
            rows.push((op, self.frame[number], number as u32));
        }
        rows.sort_unstable();
        self.keep(&rows.iter().map(|row| row.2).collect::<Vec<u32>>());
    }
}

table! {
    /// Messages that were complete before a hole in front of them was filled (`nfslat.model.details.Blocked`). `close` puts them
    /// into the order of their columns.
    pub struct Blocked of BlockedRow {
        op: i32,
        is_reply: i8,
        until_ns: i64,
    }
    with {
        row: Vec<Row>,
        /// Rows beyond those that are kept.
        pub dropped: u64,
    }
}

impl Blocked {
    /// The hole in front of a message was filled just now.
    #[cold]
    pub fn push(&mut self, row: Row, until_ns: i64) {
        if self.row.len() >= MOST_ROWS {
            self.dropped += 1;
            return;
        }
        self.row.push(row);
        self.push_row(BlockedRow { op: -1, is_reply: 0, until_ns });
    }

    /// As `Resent::close`; messages in no op are left out.
    pub fn close(&mut self, op_of: impl Fn(Row) -> Option<(i32, bool)>) {
        let mut rows: Vec<(i32, i8, i64, u32)> = Vec::with_capacity(self.row.len());
        for (number, row) in std::mem::take(&mut self.row).into_iter().enumerate() {
            if let Some((op, is_reply)) = op_of(row) {
                (self.op[number], self.is_reply[number]) = (op, i8::from(is_reply));
                rows.push((op, i8::from(is_reply), self.until_ns[number], number as u32));
            }
        }
        rows.sort_unstable();
        self.keep(&rows.iter().map(|row| row.3).collect::<Vec<u32>>());
    }
}

macro_rules! split {
    ($($table:ident),*) => {
        $(impl $table {
            /// The rows whose message `leaves`, as a table of their own; the others stay, with messages that are numbered anew.
            pub fn split(&mut self, leaves: impl Fn(Row) -> Option<Row>, stays: impl Fn(Row) -> Row) -> $table {
                let (out, rest): (Vec<u32>, Vec<u32>) =
                    (0..self.row.len() as u32).partition(|row| leaves(self.row[*row as usize]).is_some());
                let mut gone = self.rows(&out);
                gone.row = out.iter().filter_map(|row| leaves(self.row[*row as usize])).collect();
                gone.dropped = std::mem::take(&mut self.dropped);
                self.row = rest.iter().map(|row| stays(self.row[*row as usize])).collect();
                self.keep(&rest);
                gone
            }
        })*
    };
}

split! { Resent, Blocked }

/// A message, from its record mark on.
#[derive(Clone, Copy)]
struct Message {
    start: u64,
    /// As long as it is not known where the message ends: `start`.
    end: u64,
    row: Row,
}

/// The last messages of one direction, and the stretches that wait for the next ones.
#[derive(Default)]
pub struct Recent {
    messages: Vec<Message>,
    /// The oldest of them, once there are `RECENT`.
    oldest: usize,
    waiting: Vec<Stretch>,
}

impl Recent {
    /// A message was read; `end` is `start` as long as it is not known. Messages come in the order of the stream.
    #[inline]
    pub fn message(&mut self, start: u64, end: u64, row: Row, resent: &mut Resent) {
        let message = Message { start, end, row };
        if self.messages.len() < RECENT {
            self.messages.push(message);
        } else {
            // One by one: to copy them as one would wait for all to be in memory.
            let oldest = &mut self.messages[self.oldest];
            (oldest.start, oldest.end, oldest.row) = (start, end, row);
            self.oldest = (self.oldest + 1) % RECENT;
        }
        if !self.waiting.is_empty() {
            self.settle(message, resent);
        }
    }

    /// It is known now where the newest message ends.
    pub fn ends(&mut self, end: u64, resent: &mut Resent) {
        let newest = (self.oldest + self.messages.len().saturating_sub(1)) % RECENT;
        let Some(message) = self.messages.get_mut(newest) else { return };
        message.end = end;
        let message = *message;
        self.settle(message, resent);
    }

    /// Rows have new numbers.
    pub fn renumber(&mut self, moved: impl Fn(Row) -> Row) {
        self.messages.iter_mut().for_each(|message| message.row = moved(message.row));
    }

    /// How many messages begin in a range, as far back as is remembered.
    pub fn beginnings(&self, range: &Range<u64>) -> u64 {
        self.messages.iter().filter(|message| range.contains(&message.start)).count() as u64
    }

    /// A segment brought `stretch` again, or late; all messages in front of `known` have been read.
    pub fn stretch(&mut self, stretch: Stretch, known: u64, is_rpc: bool, resent: &mut Resent) {
        let (newer, older) = self.messages.split_at(self.oldest);
        for message in older.iter().chain(newer) {
            take(message, &stretch, resent);
        }
        if stretch.end <= known {
            return;
        }
        if self.waiting.len() >= if is_rpc { WAITING } else { WAITING_WITHOUT_RPC } {
            resent.dropped += u64::from(is_rpc);
            return;
        }
        self.waiting.push(Stretch { start: stretch.start.max(known), ..stretch });
    }

    #[cold]
    fn settle(&mut self, message: Message, resent: &mut Resent) {
        for stretch in &self.waiting {
            take(&message, stretch, resent);
        }
        self.waiting.retain(|stretch| stretch.end > message.end);
    }
}

/// The bytes that a message has in a stretch.
fn take(message: &Message, stretch: &Stretch, resent: &mut Resent) {
    let (start, end) = (message.start.max(stretch.start), message.end.min(stretch.end));
    if start < end {
        resent.push(message.row, stretch, end - start);
    }
}

#[cfg(test)]
mod tests;
