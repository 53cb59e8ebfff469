//! The tables of ops and of messages in no op, and what their calls and replies say.

use hashbrown::HashMap;

use crate::call::{Call, NONE};
use crate::interned::Interned;
use crate::place::Place;
use crate::results::{SequenceResult, SessionResult};
use crate::table::table;

/// The one state in which a message ends (`nfslat.model.tables.State`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum State {
    Paired = 0,
    NoReply = 1,
    NoCall = 2,
    Retransmitted = 3,
    DuplicateFrame = 4,
}

/// Bits of `Ops::flags` (`nfslat.model.tables`). Before `close` the first is set for the call, `REPLY_WHOLE` for the reply.
pub const WHOLE: u8 = 1;
pub const CALL_SHOWN_LAST: u8 = 2;
pub const REPLY_SHOWN_LAST: u8 = 4;
const REPLY_WHOLE: u8 = 8;
pub const UNSTABLE_WRITE: u8 = 16;

/// In `Ops::t2`: no reply so far; the row was merged into another one.
const UNANSWERED: i64 = -1;
const MERGED: i64 = -2;

table! {
    /// `nfslat.model.tables.Ops`.
    pub struct Ops of Op {
        conn: i32,
        direction: i8,
        xid: u32,
        kind: i16,
        offset: i64,
        size: u32,
        fh: u32,
        t0: i64,
        t1: i64,
        t2: i64,
        t3: i64,
        call_first_frame: i32,
        call_last_frame: i32,
        reply_first_frame: i32,
        reply_last_frame: i32,
        transmissions: i16,
        status: i16,
        accept: i8,
        flags: u8,
    }
}

table! {
    /// On whose behalf calls were made: a row an op (`nfslat.model.details.Callers`).
    pub struct Callers of Caller {
        uid: u32,
    }
}

/// What an op has of its reply.
struct Answer {
    t2: i64,
    t3: i64,
    first_frame: i32,
    last_frame: i32,
    status: i16,
    accept: i8,
}

const NO_ANSWER: Answer =
    Answer { t2: UNANSWERED, t3: UNANSWERED, first_frame: -1, last_frame: -1, status: -1, accept: -1 };

impl Ops {
    #[inline]
    pub fn push(&mut self, at: &Place, call: &Call<'_>, kind: i16) -> u32 {
        let row = self.t0.len() as u32;
        self.push_row(Op {
            conn: at.conn as i32,
            direction: at.direction as i8,
            xid: call.xid,
            kind,
            offset: call.target.offset,
            size: call.target.size,
            fh: call.fh,
            t0: at.t_ns,
            t1: at.t_ns,
            t2: UNANSWERED,
            t3: UNANSWERED,
            call_first_frame: at.frame as i32,
            call_last_frame: at.frame as i32,
            reply_first_frame: -1,
            reply_last_frame: -1,
            transmissions: 1,
            status: -1,
            accept: -1,
            flags: if call.target.unstable { UNSTABLE_WRITE } else { 0 },
        });
        row
    }

    fn answer_of(&self, row: usize) -> Answer {
        Answer {
            t2: self.t2[row],
            t3: self.t3[row],
            first_frame: self.reply_first_frame[row],
            last_frame: self.reply_last_frame[row],
            status: self.status[row],
            accept: self.accept[row],
        }
    }

    fn set_answer(&mut self, row: usize, answer: Answer) {
        self.t2[row] = answer.t2;
        self.t3[row] = answer.t3;
        self.reply_first_frame[row] = answer.first_frame;
        self.reply_last_frame[row] = answer.last_frame;
        self.status[row] = answer.status;
        self.accept[row] = answer.accept;
    }

    #[inline]
    pub fn answer(&mut self, row: usize, at: &Place, accept: i8) {
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
        self.set_answer(to, self.answer_of(from));
        self.set_answer(from, NO_ANSWER);
        self.flags[to] |= self.flags[from] & REPLY_WHOLE;
        self.flags[from] &= !REPLY_WHOLE;
    }

    /// `later` is `first`, sent again on another connection: its answer, if any, is the answer.
    pub fn merge(&mut self, first: usize, later: usize) {
        if self.t2[later] >= 0 {
            self.conn[first] = self.conn[later];
            self.direction[first] = self.direction[later];
            self.set_answer(first, self.answer_of(later));
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

    /// The flags as they are published: whole only where both messages are, and where a dissector shows them.
    pub fn publish_flags(&mut self, shown: u8) {
        for flags in &mut self.flags {
            let whole = *flags & (WHOLE | REPLY_WHOLE) == WHOLE | REPLY_WHOLE;
            *flags = shown | *flags & UNSTABLE_WRITE | if whole { WHOLE } else { 0 };
        }
    }
}

table! {
    /// Messages that are in no op (`nfslat.model.tables.Loose`).
    pub struct Loose of LooseMessage {
        conn: i32,
        direction: i8,
        is_reply: i8,
        xid: u32,
        kind: i16,
        state: i8,
        op: i32,
        first_frame: i32,
        last_frame: i32,
        first_ns: i64,
        last_ns: i64,
    }
    with {
        whole: Vec<bool>,
    }
}

impl Loose {
    pub fn push(&mut self, at: &Place, xid: u32, is_reply: bool, kind: i16, state: State, op: i32) -> u32 {
        let row = self.op.len() as u32;
        self.push_row(LooseMessage {
            conn: at.conn as i32,
            direction: at.direction as i8,
            is_reply: i8::from(is_reply),
            xid,
            kind,
            state: state as i8,
            op,
            first_frame: at.frame as i32,
            last_frame: at.frame as i32,
            first_ns: at.t_ns,
            last_ns: at.t_ns,
        });
        self.whole.push(false);
        row
    }

    /// The call of `ops` in `row`, which belongs to no op of its own.
    pub fn push_call(&mut self, ops: &Ops, row: usize, state: State) {
        self.push_row(LooseMessage {
            conn: ops.conn[row],
            direction: ops.direction[row],
            is_reply: 0,
            xid: ops.xid[row],
            kind: ops.kind[row],
            state: state as i8,
            op: -1,
            first_frame: ops.call_first_frame[row],
            last_frame: ops.call_last_frame[row],
            first_ns: ops.t0[row],
            last_ns: ops.t1[row],
        });
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
        self.keep(&rows);
        self.whole = Vec::new();
    }
}

table! {
    /// What SEQUENCE (RFC 8881 section 18.46) said, one row an op that has one (`nfslat.model.details.Slots`).
    pub struct Slots of Slot {
        op: i32,
        session: i16,
        slot: u32,
        seqid: u32,
        highest: u32,
        reply_highest: u32,
        target_highest: u32,
    }
    with {
        pub sessions: Vec<[u8; 16]>,
        /// What CREATE_SESSION granted, and when.
        pub created: Vec<(i64, SessionResult)>,
        known: HashMap<[u8; 16], i16>,
    }
}

/// Rows of `Slots` among which replies look for their calls first.
const NEWEST_SLOTS: usize = 64;

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
        let op = op as i32;
        self.push_row(Slot { op, session, slot, seqid, highest, reply_highest: NONE, target_highest: NONE });
    }

    /// Rows are in the order of `op`, so that the one of an op is found by halving: as a rule it is one of the last.
    pub fn answer(&mut self, op: u32, result: &SequenceResult) {
        let last = self.op.len().saturating_sub(NEWEST_SLOTS);
        let from = if self.op.get(last).is_some_and(|first| *first <= op as i32) { last } else { 0 };
        if let Ok(row) = self.op[from..].binary_search(&(op as i32)) {
            let row = from + row;
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
            let Some(first) = merged.get(&self.op[row]).filter(|_| self.reply_highest[row] != NONE) else { continue };
            if let Ok(into) = self.op.binary_search(first) {
                self.reply_highest[into] = self.reply_highest[row];
                self.target_highest[into] = self.target_highest[row];
            }
        }
    }

    pub fn renumber(&mut self, new_row: &[i32]) {
        let rows = rows_by_op(&mut self.op, new_row);
        self.keep(&rows);
    }
}

table! {
    /// Names of files in calls, each kept once; those that only replies have are among them (`nfslat.model.details.Names`).
    pub struct Names of Name {
        op: i32,
        name: i32,
    }
    with {
        interned: Interned,
    }
}

/// What is kept of names, all together.
const MOST_NAME_BYTES: usize = 64 << 20;

impl Names {
    pub fn add(&mut self, op: u32, name: &[u8]) {
        if let Some(name) = self.number(name) {
            self.push_row(Name { op: op as i32, name });
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
        self.keep(&rows);
    }
}

table! {
    /// COMPOUNDs that failed: how many results the reply has; the last of their operations is the one that failed
    /// (`nfslat.model.details.Failures`).
    pub struct Failures of Failure {
        op: i32,
        results: u32,
    }
}

impl Failures {
    /// By op: they came in the order of the replies.
    pub fn sort(&mut self) {
        if !self.op.is_sorted() {
            let mut rows: Vec<u32> = (0..self.op.len() as u32).collect();
            rows.sort_by_key(|row| self.op[*row as usize]);
            self.keep(&rows);
        }
    }

    pub fn renumber(&mut self, new_row: &[i32]) {
        let rows = rows_by_op(&mut self.op, new_row);
        self.keep(&rows);
    }
}

/// Part a table whose rows are of ops: `$leaves` and `$stays` are the new numbers of the ops, -1 for the others.
macro_rules! part {
    ($table:expr, $leaves:expr, $stays:expr) => {{
        let table = $table;
        let (out, rest): (Vec<u32>, Vec<u32>) =
            (0..table.op.len() as u32).partition(|row| $leaves[table.op[*row as usize] as usize] >= 0);
        let mut gone = table.rows(&out);
        gone.op.iter_mut().for_each(|op| *op = $leaves[*op as usize]);
        table.keep(&rest);
        table.op.iter_mut().for_each(|op| *op = $stays[*op as usize]);
        gone
    }};
}

impl Slots {
    /// Rows of ops that leave, with all sessions, and what was granted so far.
    pub fn split(&mut self, leaves: &[i32], stays: &[i32]) -> Slots {
        let gone = part!(&mut *self, leaves, stays);
        Slots { sessions: self.sessions.clone(), created: std::mem::take(&mut self.created), ..gone }
    }
}

impl Names {
    /// Rows of ops that leave, with all names.
    pub fn split(&mut self, leaves: &[i32], stays: &[i32]) -> Names {
        let gone = part!(&mut *self, leaves, stays);
        Names { interned: self.interned.clone(), ..gone }
    }
}

impl Failures {
    /// Rows of ops that leave.
    pub fn split(&mut self, leaves: &[i32], stays: &[i32]) -> Failures {
        part!(&mut *self, leaves, stays)
    }
}

impl Loose {
    /// Messages for which `leaves` is set; ops have the numbers `of_leaving` and `of_staying`.
    pub fn split(&mut self, leaves: &[bool], of_leaving: &[i32], of_staying: &[i32]) -> Loose {
        let (out, rest): (Vec<u32>, Vec<u32>) = (0..self.op.len() as u32).partition(|row| leaves[*row as usize]);
        let renumber = |table: &mut Loose, new_row: &[i32]| {
            table.op.iter_mut().filter(|op| **op >= 0).for_each(|op| *op = new_row[*op as usize]);
        };
        let mut gone = self.rows(&out);
        gone.whole = out.iter().map(|row| self.whole[*row as usize]).collect();
        renumber(&mut gone, of_leaving);
        self.whole = rest.iter().map(|row| self.whole[*row as usize]).collect();
        self.keep(&rest);
        renumber(self, of_staying);
        gone
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
