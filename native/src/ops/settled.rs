//! Ops of which no more is to be expected in, a pairing of their own out; those that stay are numbered anew.

use hashbrown::{HashMap, HashSet};

use super::{EMPTY, ORPHAN, Pairing};
use crate::place::Row;

/// A server answers a call that came again, if at all, within that.
const LATE_ANSWERS_NS: i64 = 60_000_000_000;

/// Where the rows of a pairing have gone: -1 where they have left.
pub struct Moves {
    ops: Vec<i32>,
    loose: Vec<i32>,
}

impl Moves {
    /// The row of a message.
    pub fn of(&self, row: Row) -> Row {
        let moved = match row {
            Row::Call(op) | Row::Reply(op) => self.ops[op as usize],
            Row::Loose(message) => self.loose[message as usize],
            Row::Past => -1,
        };
        match row {
            _ if moved < 0 => Row::Past,
            Row::Call(_) => Row::Call(moved as u32),
            Row::Reply(_) => Row::Reply(moved as u32),
            _ => Row::Loose(moved as u32),
        }
    }
}

/// New numbers: of those that stay, and of those that leave, -1 for the others.
fn numbered(stays: &[bool]) -> (Vec<i32>, Vec<i32>) {
    let mut next = [0, 0];
    let mut number = |is_one: bool, which: usize| {
        next[which] += i32::from(is_one);
        if is_one { next[which] - 1 } else { -1 }
    };
    (stays.iter().map(|stays| number(*stays, 0)).collect(), stays.iter().map(|stays| number(!stays, 1)).collect())
}

fn rows(stays: &[bool], which: bool) -> Vec<u32> {
    (0..stays.len() as u32).filter(|row| stays[*row as usize] == which).collect()
}

impl Pairing {
    /// What ended before `before_ns`, calls without an answer before `given_up_ns`: to be closed as a whole capture is.
    ///
    /// `open` are messages of which not all was seen. An op stays as long as a call that waits has its XID: it may be that
    /// call, sent again on a new connection.
    pub fn split(&mut self, before_ns: i64, given_up_ns: i64, open: &[Row]) -> (Pairing, Moves) {
        let (ops, loose) = (&self.ops, &self.loose);
        let waits = |row: usize| ops.t2[row] == -1;
        let mut stays: Vec<bool> = (0..ops.t0.len())
            .map(|row| if waits(row) { ops.t1[row] >= given_up_ns } else { ops.t3[row].max(ops.t1[row]) >= before_ns })
            .collect();
        // Each time that RPC sent a call it may be answered.
        for (op, left_ns) in self.answers_to_come() {
            stays[op as usize] |= self.ops.t3[op as usize].max(left_ns) >= before_ns.saturating_sub(LATE_ANSWERS_NS);
        }
        let mut is_open = HashSet::new();
        for row in open {
            match *row {
                Row::Call(op) => stays[op as usize] = true,
                Row::Reply(op) => {
                    stays[op as usize] = true;
                    stays[self.answered_by(op)] = true;
                }
                Row::Loose(message) => {
                    is_open.insert(message);
                    if let Ok(op) = usize::try_from(loose.op[message as usize]) {
                        stays[op] = true;
                        stays[self.answered_by(op as u32)] = true;
                    }
                }
                Row::Past => {}
            }
        }
        let waiting: HashSet<u32> =
            (0..stays.len()).filter(|row| stays[*row] && waits(*row)).map(|row| ops.xid[row]).collect();
        if !waiting.is_empty() {
            stays.iter_mut().zip(&ops.xid).for_each(|(stays, xid)| *stays |= waiting.contains(xid));
        }
        let loose_stays: Vec<bool> = (0..loose.op.len())
            .map(|row| match usize::try_from(loose.op[row]) {
                Ok(op) => stays[op],
                Err(_) => loose.last_ns[row] >= before_ns || is_open.contains(&(row as u32)),
            })
            .collect();
        self.part(&stays, &loose_stays)
    }

    /// Ops that were called more often than they were answered so far, and when they were last called or answered.
    fn answers_to_come(&self) -> HashMap<u32, i64> {
        let called = |row: usize| i32::from(self.ops.transmissions[row]);
        let mut left: HashMap<u32, (i32, i64)> = (0..self.ops.t0.len())
            .filter(|row| called(*row) > 1 && self.ops.t2[*row] >= 0)
            .map(|row| (row as u32, (called(row) - 1, i64::MIN)))
            .collect();
        if !left.is_empty() {
            for (row, op) in self.loose.op.iter().enumerate().filter(|(_, op)| **op >= 0) {
                if let Some((count, last_ns)) = left.get_mut(&(*op as u32)) {
                    *count -= i32::from(self.loose.is_reply[row]);
                    *last_ns = (*last_ns).max(self.loose.last_ns[row]);
                }
            }
        }
        left.into_iter().filter(|(_, (count, _))| *count > 0).map(|(op, (_, last_ns))| (op, last_ns)).collect()
    }

    fn part(&mut self, stays: &[bool], loose_stays: &[bool]) -> (Pairing, Moves) {
        let ((staying, leaving), (loose_staying, loose_leaving)) = (numbered(stays), numbered(loose_stays));
        let (rest, out) = (rows(stays, true), rows(stays, false));
        let moves = Moves { ops: staying, loose: loose_staying };
        let left = Moves { ops: leaving, loose: loose_leaving };
        let leaves = |row: Row| Some(left.of(row)).filter(|row| *row != Row::Past);
        let loose_leaves: Vec<bool> = loose_stays.iter().map(|stays| !stays).collect();
        let gone = Pairing {
            ops: self.ops.rows(&out),
            callers: self.callers.rows(&out),
            loose: self.loose.split(&loose_leaves, &left.ops, &moves.ops),
            kinds: self.kinds.listed(),
            slots: self.slots.split(&left.ops, &moves.ops),
            names: self.names.split(&left.ops, &moves.ops),
            failures: self.failures.split(&left.ops, &moves.ops),
            files: self.files.split(&left.ops, &moves.ops),
            resent: self.resent.split(leaves, |row| moves.of(row)),
            blocked: self.blocked.split(leaves, |row| moves.of(row)),
            replies: std::mem::take(&mut self.replies),
            handed_on: self.handed_on.iter().filter_map(|(from, to)| both(&left.ops, *from, *to)).collect(),
            seen: self.seen.clone(),
            ..Pairing::default()
        };
        self.ops.keep(&rest);
        self.callers.keep(&rest);
        self.reply_ends = rest.iter().map(|row| self.reply_ends[*row as usize]).collect();
        self.index.renumber(|entry| {
            if entry & ORPHAN != 0 {
                let row = moves.loose[(entry & !ORPHAN) as usize];
                return if row < 0 { EMPTY } else { row as u32 | ORPHAN };
            }
            // Where the op has left, a call in front of it with its XID may still wait.
            let mut op = entry;
            while moves.ops[op as usize] < 0 {
                let Some(earlier) = self.superseded.get(&op) else { return EMPTY };
                op = *earlier;
            }
            moves.ops[op as usize] as u32
        });
        let kept = |map: &HashMap<u32, u32>| map.iter().filter_map(|(a, b)| both(&moves.ops, *a, *b)).collect();
        (self.superseded, self.handed_on) = (kept(&self.superseded), kept(&self.handed_on));
        (gone, moves)
    }
}

/// The new numbers of two ops; None where one of them is not there.
fn both(new_row: &[i32], a: u32, b: u32) -> Option<(u32, u32)> {
    let (a, b) = (new_row[a as usize], new_row[b as usize]);
    (a >= 0 && b >= 0).then_some((a as u32, b as u32))
}
