//! Ops of all connections in, those that a client began again on a new connection joined out.

use hashbrown::HashMap;

use super::Pairing;
use crate::columns::State;
use crate::link::Addr;

/// Ops with one XID that are looked at for what continues a call. A client has a handful of them; more are made up.
const LOOK_AHEAD: usize = 256;

impl Pairing {
    /// A call that was never answered and came again on a new connection is one op (`pair._join_across_connections`).
    /// The ops that are no more, and those that they went to.
    pub(super) fn join_reconnects(&mut self, endpoints: impl Fn(u32, u8) -> (Addr, Addr, u16)) -> HashMap<i32, i32> {
        let mut by_xid: HashMap<u32, Vec<u32>> = HashMap::new();
        for (row, t2) in self.ops.t2.iter().enumerate() {
            if *t2 == -1 {
                by_xid.entry(self.ops.xid[row]).or_default();
            }
        }
        if by_xid.is_empty() || self.seen.len() < 2 {
            return HashMap::new();
        }
        for (row, xid) in self.ops.xid.iter().enumerate() {
            if let Some(rows) = by_xid.get_mut(xid) {
                rows.push(row as u32);
            }
        }
        // When each unanswered call was sent last on its own connection, where that was more than once.
        let mut last_ns: HashMap<u32, i64> = HashMap::new();
        for (row, op) in self.loose.op.iter().enumerate() {
            let is_call_again = self.loose.state[row] == State::Retransmitted as i8 && self.loose.is_reply[row] == 0;
            if is_call_again && self.ops.t2[*op as usize] == -1 {
                last_ns.insert(*op as u32, self.loose.first_ns[row]);
            }
        }
        let mut merged: HashMap<i32, i32> = HashMap::new();
        let mut groups: Vec<(u32, Vec<u32>)> = by_xid.into_iter().collect();
        groups.sort_by_key(|group| group.0); // a hash table has no order that is the same twice
        for (_, rows) in &mut groups {
            rows.sort_by_key(|row| self.ops.t0[*row as usize]);
            for (at, &first) in rows.iter().enumerate() {
                let mut sent = first;
                // One that was merged is answered by -2, and no longer looked at.
                while self.ops.t2[first as usize] == -1 {
                    let sent_ns = last_ns.get(&sent).copied().unwrap_or(self.ops.t0[sent as usize]);
                    let continues = |later: &&u32| {
                        self.ops.t2[**later as usize] >= -1
                            && self.is_same_request(first, **later)
                            && self.is_on_next_connection(sent, sent_ns, **later, &endpoints)
                    };
                    let Some(&later) = rows[at + 1..].iter().take(LOOK_AHEAD).find(continues) else { break };
                    self.loose.push_call(&self.ops, later as usize, State::Retransmitted);
                    let last = self.loose.op.len() - 1;
                    self.loose.op[last] = first as i32;
                    self.ops.merge(first as usize, later as usize);
                    merged.insert(later as i32, first as i32);
                    sent = later;
                }
            }
        }
        // What was said of the row that is no more is said of the one that it went to.
        self.slots.merge(&merged);
        for op in self.loose.op.iter_mut().chain(&mut self.failures.op) {
            *op = *merged.get(op).unwrap_or(op);
        }
        merged
    }

    fn is_same_request(&self, a: u32, b: u32) -> bool {
        let (ops, b) = (&self.ops, b as usize);
        self.asks_the_same(a as usize, ops.kind[b], ops.offset[b], ops.size[b], ops.fh[b])
    }

    fn is_on_next_connection(
        &self,
        old: u32,
        sent_ns: i64,
        new: u32,
        endpoints: &impl Fn(u32, u8) -> (Addr, Addr, u16),
    ) -> bool {
        let (ops, old, new) = (&self.ops, old as usize, new as usize);
        let (from, to) = (ops.conn[old] as usize, ops.conn[new] as usize);
        let later = from != to && self.seen[to].0 >= sent_ns && self.seen[from].1 <= ops.t0[new];
        later && endpoints(from as u32, ops.direction[old] as u8) == endpoints(to as u32, ops.direction[new] as u8)
    }
}
