//! RPC messages in capture order in, ops and loose messages as columns out: the pairing of one side.
//!
//! The twin of `nfslat/decode/tshark/pair.py`, which explains the rules; a test holds the two together. Messages are paired as they
//! come, by connection, direction of the call and XID. What TCP sent again is no message here (`stream`).

use hashbrown::HashMap;

use crate::call::{Call, Key, NONE, Sequence};
use crate::columns::{Caller, Callers, Failure, Failures, Loose, Names, Ops, Slots, State};
use crate::files::Files;
use crate::index::{EMPTY, Index};
use crate::kinds::Kinds;
use crate::link::Addr;
use crate::place::{Place, Row};
use crate::resent::{Blocked, Resent};
use crate::results::Results;
use crate::rpc::{Accept, ReplyHead};
use crate::unread::{Replies, Unanswered, UnansweredCall};

/// Two copies of one packet without an IP identification, and packets that the queues of a capture put in wrong order.
const COPY_NS: i64 = 1_000_000;

/// Entries of the index with this bit are replies without a call: rows of `loose`.
const ORPHAN: u32 = 1 << 31;
/// Op rows are 31 bits wide.
const MOST_ROWS: usize = (ORPHAN - 2) as usize;

#[derive(Default)]
pub struct Pairing {
    pub ops: Ops,
    pub callers: Callers,
    pub loose: Loose,
    pub kinds: Kinds,
    pub slots: Slots,
    pub names: Names,
    pub failures: Failures,
    pub files: Files,
    pub resent: Resent,
    pub blocked: Blocked,
    pub replies: Replies,
    pub unanswered: Unanswered,
    index: Index,
    /// Op -> the unanswered one whose XID it took over.
    superseded: HashMap<u32, u32>,
    /// Ops whose reply turned out to be another one's, and which.
    handed_on: HashMap<u32, u32>,
    /// Op -> where its reply ends in its stream, as `Place::acked`; 0 where that is not known.
    reply_ends: Vec<u32>,
    /// Connection -> XIDs that came again soon for what was surely another call.
    reused: HashMap<u32, u32>,
    /// First and last call or reply of each connection, ns.
    seen: Vec<(i64, i64)>,
}

#[inline]
fn owner(conn: i32, way: i8) -> u32 {
    (conn as u32) << 1 | way as u32
}

impl Pairing {
    /// Take a call whose header was seen.
    #[inline]
    pub fn call(&mut self, at: &Place, call: &Call<'_>) -> Row {
        let kind = self.kinds.of(call);
        self.saw(at);
        let owner = owner(at.conn as i32, at.direction as i8);
        match self.index.claim(owner, call.xid, self.ops.t0.len() as u32) {
            Some(entry) => self.call_with_known_xid(at, call, kind, (owner, entry)),
            None => Row::Call(self.new_op(at, call, kind)),
        }
    }

    /// Of its XID something was seen before: `entry` of the index of `owner`.
    #[inline(never)]
    fn call_with_known_xid(&mut self, at: &Place, call: &Call<'_>, kind: i16, (owner, entry): (u32, u32)) -> Row {
        if entry & ORPHAN != 0 {
            let orphan = (entry & !ORPHAN) as usize;
            let answered = self.loose.op[orphan];
            if answered >= 0 && self.is_sent_again(answered as usize, at, call, kind) {
                // Call and reply were both sent again.
                self.loose.state[orphan] = State::Retransmitted as i8;
                self.index.set(owner, call.xid, answered as u32);
                return self.call(at, call);
            }
            let late_ns = self.loose.first_ns[orphan] - at.t_ns;
            let adopts = self.loose.state[orphan] == State::NoCall as i8
                && (self.loose.first_frame[orphan] as u32 > at.frame || (0..COPY_NS).contains(&late_ns));
            let row = self.new_op(at, call, kind);
            if adopts {
                self.ops.adopt(row, orphan, &self.loose);
                self.loose.state[orphan] = State::Paired as i8;
                self.loose.op[orphan] = row as i32;
            }
            self.index.set(owner, call.xid, row);
            return Row::Call(row);
        }
        let earlier = entry as usize;
        if self.is_sent_again(earlier, at, call, kind) {
            let is_copy = at.may_be_copy && at.t_ns - self.ops.t0[earlier] < COPY_NS;
            let state = if is_copy { State::DuplicateFrame } else { State::Retransmitted };
            if !is_copy {
                let sends = &mut self.ops.transmissions[earlier];
                *sends = sends.saturating_add(1);
            }
            return Row::Loose(self.loose.push(at, call.xid, false, kind, state, entry as i32));
        }
        let row = self.new_op(at, call, kind);
        if self.is_acknowledged(earlier, at) {
            *self.reused.entry(at.conn).or_default() += 1;
        }
        if self.ops.t2[earlier] == -1 {
            self.superseded.insert(row, entry);
        }
        if self.ops.reply_first_frame[earlier] > at.frame as i32 {
            // This call was in the capture before that reply, and only held up by a hole: the answer is its.
            self.ops.hand_on(earlier, row as usize);
            self.reply_ends[row as usize] = std::mem::take(&mut self.reply_ends[earlier]);
            self.handed_on.insert(entry, row);
        }
        self.index.set(owner, call.xid, row);
        Row::Call(row)
    }

    /// The message that went to `row` has so many bytes, its record mark included, and ends there (`Place::acked`).
    #[inline]
    pub fn measured(&mut self, row: Row, bytes: u64, end: u32) {
        if let Row::Reply(row) = row {
            let row = row as usize;
            self.reply_ends[row] = end;
            self.replies.push(self.ops.kind[row], bytes, self.ops.size[row]);
        }
    }

    /// Take a reply; `results` reads what it says, given what was called.
    #[inline]
    pub fn reply(&mut self, at: &Place, head: &ReplyHead, results: impl FnOnce(&Key) -> Results) -> Row {
        self.saw(at);
        let owner = owner(at.conn as i32, 1 - at.direction as i8);
        let Some(row) = self.find(owner, head.xid).filter(|entry| *entry & ORPHAN == 0) else {
            return self.orphan(at, owner, head.xid, -1);
        };
        let Some(row) = self.called_before(row, at.frame) else {
            return Row::Loose(self.loose.push(at, head.xid, true, -1, State::NoCall, -1));
        };
        let op = row as usize;
        if self.ops.t2[op] == -1 {
            self.ops.answer(op, at, accept(head.accept));
            if head.accept == Accept::Success {
                let found = results(self.kinds.key(self.ops.kind[op]));
                self.answered(row, at.t_ns, &found);
            }
            return Row::Reply(row);
        }
        if at.is_early {
            return self.orphan(at, owner, head.xid, row as i32); // its call may be one that a hole holds up
        }
        let is_copy = at.may_be_copy && at.t_ns - self.ops.t2[op] < COPY_NS;
        let state = if is_copy { State::DuplicateFrame } else { State::Retransmitted };
        Row::Loose(self.loose.push(at, head.xid, true, -1, state, row as i32))
    }

    /// The op that a reply in `frame` can belong to: `row`, or an unanswered one with its XID before it.
    ///
    /// A reply that waited behind a hole may come up when its XID is in use again.
    #[inline]
    fn called_before(&self, mut row: u32, frame: u32) -> Option<u32> {
        while self.ops.call_first_frame[row as usize] > frame as i32 {
            row = *self.superseded.get(&row)?;
        }
        Some(row)
    }

    /// A reply without a call so far, or to op `answered` once more.
    #[cold]
    fn orphan(&mut self, at: &Place, owner: u32, xid: u32, answered: i32) -> Row {
        let row = self.loose.push(at, xid, true, -1, State::NoCall, answered);
        self.index.set_reply(owner, xid, row | ORPHAN);
        Row::Loose(row)
    }

    #[inline]
    fn answered(&mut self, row: u32, t_ns: i64, found: &Results) {
        self.ops.status[row as usize] = i16::try_from(found.status).unwrap_or(-1);
        if let Some(sequence) = &found.sequence {
            self.slots.answer(row, sequence);
        }
        if let Some(created) = &found.create_session {
            self.slots.created.push((t_ns, *created));
        }
        if found.status != 0 && found.results != NONE {
            self.failures.push_row(Failure { op: row as i32, results: found.results });
        }
    }

    /// Could the next call of this `direction` have this XID, or a reply to one? None where that cannot be told.
    pub fn expects(&self, conn: u32, direction: u8, xid: u32) -> Option<bool> {
        self.index.expects(owner(conn as i32, direction as i8), xid)
    }

    /// Is a call with this XID waiting for its reply? `direction` is that of the reply.
    pub fn awaits(&self, conn: u32, direction: u8, xid: u32) -> bool {
        let owner = owner(conn as i32, 1 - direction as i8);
        let entry = self.find(owner, xid);
        entry.is_some_and(|row| row & ORPHAN == 0 && self.ops.t2[row as usize] == -1)
    }

    /// The last byte of a message, or the last that was captured, was seen.
    #[inline]
    pub fn finish(&mut self, row: Row, frame: u32, t_ns: i64, whole: bool) {
        match row {
            Row::Call(row) => self.ops.end_call(row as usize, frame, t_ns, whole),
            Row::Reply(row) => self.ops.end_reply(self.answered_by(row), frame, t_ns, whole),
            Row::Loose(row) => {
                let at = row as usize;
                self.loose.finish(at, frame, t_ns, whole);
                if self.loose.state[at] == State::Paired as i8 {
                    self.ops.end_reply(self.answered_by(self.loose.op[at] as u32), frame, t_ns, whole);
                }
            }
            Row::Past => {}
        }
    }

    /// Is this a reply all of which is wanted, by `tell`?
    #[inline]
    pub fn awaits_all(&self, row: Row) -> bool {
        matches!(row, Row::Reply(op) if self.files.awaits(op))
    }

    /// A message from its XID on, as far as it was captured; it began at `t_ns`.
    #[inline]
    pub fn tell(&mut self, row: Row, message: &[u8], t_ns: i64) {
        if let Row::Reply(op) = row {
            self.files.answer(op, message, t_ns, &mut self.names);
        }
    }

    /// The op that has the reply which op `row` was given.
    #[inline]
    fn answered_by(&self, mut row: u32) -> usize {
        while self.ops.t2[row as usize] == -1 {
            let Some(next) = self.handed_on.get(&row) else { break };
            row = *next;
        }
        row as usize
    }

    #[inline]
    fn find(&self, owner: u32, xid: u32) -> Option<u32> {
        Some(self.index.get(owner, xid)).filter(|entry| *entry != EMPTY)
    }

    #[inline]
    fn saw(&mut self, at: &Place) {
        let conn = at.conn as usize;
        if conn >= self.seen.len() {
            self.seen.resize(conn + 1, (i64::MAX, i64::MIN));
        }
        let range = &mut self.seen[conn];
        *range = (range.0.min(at.t_ns), range.1.max(at.t_ns));
    }

    #[inline]
    fn new_op(&mut self, at: &Place, call: &Call<'_>, kind: i16) -> u32 {
        let row = self.ops.push(at, call, kind);
        self.callers.push_row(Caller { uid: call.uid });
        self.reply_ends.push(0);
        if let Some(sequence) = &call.sequence {
            self.slots.ask(row, sequence);
        }
        if let Some(name) = call.target.name {
            self.names.add(row, name);
        }
        self.files.ask(row, call);
        row
    }

    /// Everything was read: join what was sent again on a new connection, and leave only whole ops in `ops`, by call.
    ///
    /// `endpoints(conn, direction)`: address of the sender, address and port of the receiver.
    pub fn close(&mut self, endpoints: impl Fn(u32, u8) -> (Addr, Addr, u16)) {
        for (state, op) in self.loose.state.iter_mut().zip(&self.loose.op) {
            if *state == State::NoCall as i8 && *op >= 0 {
                *state = State::Retransmitted as i8; // an answer once more, and no other call for it turned up
            }
        }
        let merged = self.join_reconnects(endpoints);
        for row in 0..self.ops.t2.len() {
            if self.ops.t2[row] == -1 {
                self.loose.push_call(&self.ops, row, State::NoReply);
                self.unanswered.push_row(UnansweredCall {
                    conn: self.ops.conn[row],
                    frame: self.ops.call_first_frame[row],
                    xid: self.ops.xid[row],
                    size: self.ops.size[row],
                });
            }
        }
        self.unanswered.close();
        let order = self.ops.order();
        let new_row = order.as_ref().map(|order| {
            let mut new_row = vec![-1i32; self.ops.t0.len()];
            for (to, from) in order.iter().enumerate() {
                new_row[*from as usize] = to as i32;
            }
            new_row
        });
        let (mut resent, mut blocked) = (std::mem::take(&mut self.resent), std::mem::take(&mut self.blocked));
        let op_of = |row| {
            let (op, is_reply) = self.op_of(row, &merged)?;
            let op = new_row.as_ref().map_or(op, |new_row| new_row[op as usize]);
            (op >= 0).then_some((op, is_reply))
        };
        resent.close(op_of);
        blocked.close(op_of);
        (self.resent, self.blocked) = (resent, blocked);
        let (t2, reply_frame) = (&self.ops.t2, &self.ops.reply_first_frame);
        self.files.close(|row, t_ns| {
            // A reply that turned out to be another call's says nothing of what this one asked.
            let op = *merged.get(&row).unwrap_or(&row);
            let op = (t2[op as usize] == t_ns).then_some(op)?;
            Some((new_row.as_ref().map_or(op, |new_row| new_row[op as usize]), reply_frame[op as usize]))
        });
        if let (Some(order), Some(new_row)) = (order, new_row) {
            self.ops.keep(&order);
            self.callers.keep(&order);
            self.loose.renumber(&new_row);
            self.slots.renumber(&new_row);
            self.names.renumber(&new_row);
            self.failures.renumber(&new_row);
        } else {
            self.failures.sort();
        }
        self.loose.keep_loose();
        self.index = Index::default();
        self.superseded = HashMap::new();
        self.reply_ends = Vec::new();
    }

    /// The op whose call or reply a message is, and whether it is the reply; None of what is neither, as when RPC sent a
    /// call again.
    fn op_of(&self, row: Row, merged: &HashMap<i32, i32>) -> Option<(i32, bool)> {
        let answered = match row {
            Row::Call(row) => return (!merged.contains_key(&(row as i32))).then_some((row as i32, false)),
            Row::Reply(row) => row,
            Row::Loose(row) if self.loose.state[row as usize] == State::Paired as i8 => {
                self.loose.op[row as usize] as u32
            }
            Row::Loose(_) | Row::Past => return None,
        };
        let op = self.answered_by(answered) as i32;
        Some((*merged.get(&op).unwrap_or(&op), true))
    }

    /// More ops than a row number can say?
    pub fn is_full(&self) -> bool {
        self.ops.t0.len() >= MOST_ROWS || self.loose.op.len() >= MOST_ROWS
    }
}

impl Slots {
    fn ask(&mut self, row: u32, sequence: &Sequence) {
        let session = self.session(sequence.session);
        self.push(row, session, sequence.slot, sequence.seqid, sequence.highest_slot);
    }
}

/// `accept_stat`, or 8 and more where the reply was denied; -1 where it was not captured (`nfslat.model.tables.Ops`).
fn accept(stat: Accept) -> i8 {
    match stat {
        Accept::Success => 0,
        Accept::ProgUnavail => 1,
        Accept::ProgMismatch => 2,
        Accept::ProcUnavail => 3,
        Accept::GarbageArgs => 4,
        Accept::SystemErr => 5,
        Accept::RpcMismatch => 8,
        Accept::AuthError => 9,
        Accept::Unseen => -1,
    }
}

mod again;
mod reconnects;
mod settled;
pub use settled::Moves;
#[cfg(test)]
mod tests;
