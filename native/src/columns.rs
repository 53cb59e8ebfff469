//! The tables that leave the decoder, as columns; one push a row, dtypes as in `nfslat/tables.py`.
//!
//! Null is -1, in unsigned columns 2^32 - 1 (`NONE`). Times are ns since 1970, frames 1-based.

use hashbrown::HashMap;

use crate::call::{Call, NONE};
use crate::interned::Interned;
use crate::place::Place;
use crate::results::{SequenceResult, SessionResult};

/// The one state in which a message ends (`nfslat.tables.State`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum State {
    Paired = 0,
    NoReply = 1,
    NoCall = 2,
    Retransmitted = 3,
    DuplicateFrame = 4,
}

/// Bits of `Ops::flags` (`nfslat.tables`). Before `close` the first is set for the call, `REPLY_WHOLE` for the reply.
pub const WHOLE: u8 = 1;
pub const CALL_SHOWN_LAST: u8 = 2;
pub const REPLY_SHOWN_LAST: u8 = 4;
const REPLY_WHOLE: u8 = 8;

/// In `Ops::t2`: no reply so far; the row was merged into another one.
const UNANSWERED: i64 = -1;
const MERGED: i64 = -2;

#[derive(Default)]
pub struct Ops {
    pub conn: Vec<i32>,
    pub direction: Vec<i8>,
    pub xid: Vec<u32>,
    pub kind: Vec<i16>,
    pub offset: Vec<i64>,
    pub size: Vec<u32>,
    pub fh: Vec<u32>,
    pub t0: Vec<i64>,
    pub t1: Vec<i64>,
    pub t2: Vec<i64>,
    pub t3: Vec<i64>,
    pub call_first_frame: Vec<i32>,
    pub call_last_frame: Vec<i32>,
    pub reply_first_frame: Vec<i32>,
    pub reply_last_frame: Vec<i32>,
    pub transmissions: Vec<i16>,
    /// `nfslat.details.Callers`.
    pub uid: Vec<u32>,
    pub status: Vec<i16>,
    pub accept: Vec<i8>,
    pub flags: Vec<u8>,
}

/// Leave only `rows` of the columns of a table, in that order.
macro_rules! keep {
    ($table:ident, $rows:ident, $($name:ident)*) => {
        $($table.$name = $rows.iter().map(|row| $table.$name[*row as usize]).collect();)*
    };
}

/// Do the same to every column of an `Ops`.
macro_rules! each_column {
    ($ops:expr, $column:ident => $what:expr) => {{
        macro_rules! one {
            ($name:ident) => {{
                let $column = &mut $ops.$name;
                $what;
            }};
        }
        one!(conn);
        one!(direction);
        one!(xid);
        one!(kind);
        one!(offset);
        one!(size);
        one!(fh);
        one!(t0);
        one!(t1);
        one!(t2);
        one!(t3);
        one!(call_first_frame);
        one!(call_last_frame);
        one!(reply_first_frame);
        one!(reply_last_frame);
        one!(transmissions);
        one!(uid);
        one!(status);
        one!(accept);
        one!(flags);
    }};
}

impl Ops {
    pub fn push(&mut self, at: Place, call: &Call<'_>, kind: i16) -> u32 {
        let row = self.t0.len() as u32;
        self.conn.push(at.conn as i32);
        self.direction.push(at.direction as i8);
        self.xid.push(call.xid);
        self.kind.push(kind);
        self.offset.push(call.offset);
        self.size.push(call.size);
        self.fh.push(call.fh);
        self.t0.push(at.t_ns);
        self.t1.push(at.t_ns);
        self.t2.push(UNANSWERED);
        self.t3.push(UNANSWERED);
        self.call_first_frame.push(at.frame as i32);
        self.call_last_frame.push(at.frame as i32);
        self.reply_first_frame.push(-1);
        self.reply_last_frame.push(-1);
        self.transmissions.push(1);
        self.uid.push(call.uid);
        self.status.push(-1);
        self.accept.push(-1);
        self.flags.push(0);
        row
    }

    #[inline]
    pub fn answer(&mut self, row: usize, at: Place, accept: i8) {
        self.t2[row] = at.t_ns;
        self.t3[row] = at.t_ns;
        self.reply_first_frame[row] = at.frame as i32;
        self.reply_last_frame[row] = at.frame as i32;
        self.accept[row] = accept;
    }

    /// The reply `orphan`, which was seen before its call, belongs to `row`.
    pub fn adopt(&mut self, row: u32, orphan: usize, loose: &Loose) {
        let row = row as usize;
        self.t2[row] = loose.first_ns[orphan];
        self.t3[row] = loose.last_ns[orphan];
        self.reply_first_frame[row] = loose.first_frame[orphan];
        self.reply_last_frame[row] = loose.last_frame[orphan];
        if loose.whole[orphan] {
            self.flags[row] |= REPLY_WHOLE;
        }
    }

    #[inline]
    pub fn end_call(&mut self, row: usize, frame: u32, t_ns: i64, whole: bool) {
        self.t1[row] = t_ns;
        self.call_last_frame[row] = frame as i32;
        if whole {
            self.flags[row] |= WHOLE;
        }
    }

    #[inline]
    pub fn end_reply(&mut self, row: usize, frame: u32, t_ns: i64, whole: bool) {
        self.t3[row] = t_ns;
        self.reply_last_frame[row] = frame as i32;
        if whole {
            self.flags[row] |= REPLY_WHOLE;
        }
    }

    /// The reply of op `from` is that of op `to`.
    pub fn hand_on(&mut self, from: usize, to: usize) {
        self.t2[to] = std::mem::replace(&mut self.t2[from], UNANSWERED);
        self.t3[to] = std::mem::replace(&mut self.t3[from], UNANSWERED);
        self.reply_first_frame[to] = std::mem::replace(&mut self.reply_first_frame[from], -1);
        self.reply_last_frame[to] = std::mem::replace(&mut self.reply_last_frame[from], -1);
        self.status[to] = std::mem::replace(&mut self.status[from], -1);
        self.accept[to] = std::mem::replace(&mut self.accept[from], -1);
        self.flags[to] |= self.flags[from] & REPLY_WHOLE;
        self.flags[from] &= !REPLY_WHOLE;
    }

    /// `later` is `first`, sent again on another connection: its answer, if any, is the answer.
    pub fn merge(&mut self, first: usize, later: usize) {
        if self.t2[later] >= 0 {
            self.conn[first] = self.conn[later];
            self.direction[first] = self.direction[later];
            self.t2[first] = self.t2[later];
            self.t3[first] = self.t3[later];
            self.reply_first_frame[first] = self.reply_first_frame[later];
            self.reply_last_frame[first] = self.reply_last_frame[later];
            self.status[first] = self.status[later];
            self.accept[first] = self.accept[later];
            self.flags[first] |= self.flags[later] & REPLY_WHOLE;
        }
        self.transmissions[first] = self.transmissions[first].saturating_add(self.transmissions[later]);
        self.t2[later] = MERGED;
    }

    /// Rows of the answered ops in the order of their calls; None where that is all of them as they are.
    pub fn order(&self) -> Option<Vec<u32>> {
        let in_order = self.call_first_frame.windows(2).all(|pair| pair[0] <= pair[1]);
        if in_order && self.t2.iter().all(|t2| *t2 >= 0) {
            return None;
        }
        let mut rows: Vec<u32> = (0..self.t0.len() as u32).filter(|row| self.t2[*row as usize] >= 0).collect();
        rows.sort_by_key(|row| self.call_first_frame[*row as usize]); // stable
        Some(rows)
    }

    pub fn keep(&mut self, order: &[u32]) {
        each_column!(self, column => *column = order.iter().map(|row| column[*row as usize]).collect());
    }

    /// The flags as they are published: whole only where both messages are, and where a dissector shows them.
    pub fn publish_flags(&mut self, shown: u8) {
        for flags in &mut self.flags {
            let whole = *flags & (WHOLE | REPLY_WHOLE) == WHOLE | REPLY_WHOLE;
            *flags = shown | if whole { WHOLE } else { 0 };
        }
    }
}

/// Messages that are in no op.
#[derive(Default)]
pub struct Loose {
    pub conn: Vec<i32>,
    pub direction: Vec<i8>,
    pub is_reply: Vec<i8>,
    pub xid: Vec<u32>,
    pub kind: Vec<i16>,
    pub state: Vec<i8>,
    pub op: Vec<i32>,
    pub first_frame: Vec<i32>,
    pub last_frame: Vec<i32>,
    pub first_ns: Vec<i64>,
    pub last_ns: Vec<i64>,
    whole: Vec<bool>,
}

impl Loose {
    pub fn push(&mut self, at: Place, xid: u32, is_reply: bool, kind: i16, state: State, op: i32) -> u32 {
        let row = self.op.len() as u32;
        self.conn.push(at.conn as i32);
        self.direction.push(at.direction as i8);
        self.is_reply.push(i8::from(is_reply));
        self.xid.push(xid);
        self.kind.push(kind);
        self.state.push(state as i8);
        self.op.push(op);
        self.first_frame.push(at.frame as i32);
        self.last_frame.push(at.frame as i32);
        self.first_ns.push(at.t_ns);
        self.last_ns.push(at.t_ns);
        self.whole.push(false);
        row
    }

    /// The call of `ops` in `row`, which belongs to no op of its own.
    pub fn push_call(&mut self, ops: &Ops, row: usize, state: State) {
        self.conn.push(ops.conn[row]);
        self.direction.push(ops.direction[row]);
        self.is_reply.push(0);
        self.xid.push(ops.xid[row]);
        self.kind.push(ops.kind[row]);
        self.state.push(state as i8);
        self.op.push(-1);
        self.first_frame.push(ops.call_first_frame[row]);
        self.last_frame.push(ops.call_last_frame[row]);
        self.first_ns.push(ops.t0[row]);
        self.last_ns.push(ops.t1[row]);
        self.whole.push(false);
    }

    #[inline]
    pub fn finish(&mut self, row: usize, frame: u32, t_ns: i64, whole: bool) {
        self.last_frame[row] = frame as i32;
        self.last_ns[row] = t_ns;
        self.whole[row] = whole;
    }

    pub fn renumber(&mut self, new_row: &[i32]) {
        for op in self.op.iter_mut().filter(|op| **op >= 0) {
            *op = new_row[*op as usize];
        }
    }

    /// Without the replies that found their call after all, in capture order.
    pub fn keep_loose(&mut self) {
        let paired = State::Paired as i8;
        let mut rows: Vec<u32> = (0..self.op.len() as u32).filter(|row| self.state[*row as usize] != paired).collect();
        rows.sort_by_key(|row| self.first_frame[*row as usize]);
        keep!(self, rows, conn direction is_reply xid kind state op first_frame last_frame first_ns last_ns);
        self.whole = Vec::new();
    }
}

/// What SEQUENCE (RFC 8881 section 18.46) said, one row an op that has one.
#[derive(Default)]
pub struct Slots {
    pub op: Vec<i32>,
    pub session: Vec<i16>,
    pub slot: Vec<u32>,
    pub seqid: Vec<u32>,
    pub highest: Vec<u32>,
    pub reply_highest: Vec<u32>,
    pub target_highest: Vec<u32>,
    pub sessions: Vec<[u8; 16]>,
    /// What CREATE_SESSION granted, and when.
    pub created: Vec<(i64, SessionResult)>,
    known: HashMap<[u8; 16], i16>,
}

impl Slots {
    pub fn session(&mut self, id: [u8; 16]) -> i16 {
        let next = self.sessions.len();
        if next >= i16::MAX as usize && !self.known.contains_key(&id) {
            return -1;
        }
        *self.known.entry(id).or_insert_with(|| {
            self.sessions.push(id);
            next as i16
        })
    }

    pub fn push(&mut self, op: u32, session: i16, slot: u32, seqid: u32, highest: u32) {
        self.op.push(op as i32);
        self.session.push(session);
        self.slot.push(slot);
        self.seqid.push(seqid);
        self.highest.push(highest);
        self.reply_highest.push(NONE);
        self.target_highest.push(NONE);
    }

    /// Rows are in the order of `op`, so that the one of an op is found by halving.
    pub fn answer(&mut self, op: u32, result: &SequenceResult) {
        if let Ok(row) = self.op.binary_search(&(op as i32)) {
            self.reply_highest[row] = result.highest_slot;
            self.target_highest[row] = result.target_highest_slot;
        }
    }

    /// The answers of rows that were merged go to the rows that they were merged into.
    pub fn merge(&mut self, merged: &HashMap<i32, i32>) {
        if merged.is_empty() {
            return;
        }
        for row in 0..self.op.len() {
            let into = merged.get(&self.op[row]).and_then(|first| self.op.binary_search(first).ok());
            if let Some(into) = into
                && self.reply_highest[row] != NONE
            {
                self.reply_highest[into] = self.reply_highest[row];
                self.target_highest[into] = self.target_highest[row];
            }
        }
    }

    pub fn renumber(&mut self, new_row: &[i32]) {
        let rows = rows_by_op(&mut self.op, new_row);
        keep!(self, rows, op session slot seqid highest reply_highest target_highest);
    }
}

/// Names of files in calls, each kept once; those that only replies have are among them.
#[derive(Default)]
pub struct Names {
    pub op: Vec<i32>,
    pub name: Vec<i32>,
    interned: Interned,
}

/// What is kept of names, all together.
const MOST_NAME_BYTES: usize = 64 << 20;

impl Names {
    pub fn add(&mut self, op: u32, name: &[u8]) {
        if let Some(number) = self.number(name) {
            self.op.push(op as i32);
            self.name.push(number);
        }
    }

    /// The number of a name; None where there are too many.
    pub fn number(&mut self, name: &[u8]) -> Option<i32> {
        self.interned.number(name, MOST_NAME_BYTES)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.interned.count()
    }

    /// All of them, in the order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.interned.iter()
    }

    pub fn renumber(&mut self, new_row: &[i32]) {
        let rows = rows_by_op(&mut self.op, new_row);
        keep!(self, rows, op name);
    }
}

/// COMPOUNDs that failed: how many results the reply has; the last of their operations is the one that failed.
#[derive(Default)]
pub struct Failures {
    pub op: Vec<i32>,
    pub results: Vec<u32>,
}

impl Failures {
    /// By op: they came in the order of the replies.
    pub fn sort(&mut self) {
        if !self.op.is_sorted() {
            let mut rows: Vec<u32> = (0..self.op.len() as u32).collect();
            rows.sort_by_key(|row| self.op[*row as usize]);
            keep!(self, rows, op results);
        }
    }

    pub fn renumber(&mut self, new_row: &[i32]) {
        let rows = rows_by_op(&mut self.op, new_row);
        keep!(self, rows, op results);
    }
}

/// Give the ops in a table their new numbers; the rows whose op is still there, in the order of these numbers.
fn rows_by_op(ops: &mut [i32], new_row: &[i32]) -> Vec<u32> {
    for op in ops.iter_mut() {
        *op = new_row[*op as usize];
    }
    let mut rows: Vec<u32> = (0..ops.len() as u32).filter(|row| ops[*row as usize] >= 0).collect();
    rows.sort_by_key(|row| ops[*row as usize]);
    rows
}
