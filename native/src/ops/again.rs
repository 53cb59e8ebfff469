//! A call that has the XID of another one: is it that call, sent again?

use super::{COPY_NS, Pairing};
use crate::call::{Call, NONE};
use crate::place::Place;

/// A call that comes again after its answer has left was sent before the answer arrived (`nfslat/decode/tshark/pair.py`).
pub(super) const LATE_RETRANSMISSION_NS: i64 = 1_000_000_000;
/// Unless the answer may have been lost: over UDP, or with the connection that carried it.
pub(super) const LOST_ANSWER_NS: i64 = 180_000_000_000;
/// A client's timer takes longer (`nfslat/decode/tshark/pair.py`).
pub(super) const LEAST_TIMER_NS: i64 = 50_000_000;
/// XIDs of a connection that were surely in use again soon, from which on any may be.
pub(super) const ENOUGH_REUSED: u32 = 8;

impl Pairing {
    pub(super) fn is_sent_again(&self, row: usize, at: &Place, call: &Call<'_>, kind: i16) -> bool {
        let ops = &self.ops;
        let same = self.asks_the_same(row, kind, call.target.offset, call.target.size, call.fh);
        if !same || ops.t2[row] == -1 {
            return same;
        }
        if self.is_used_again(row, at) {
            return false;
        }
        let since_ns = at.t_ns - ops.t3[row];
        let answer_may_be_lost = at.is_udp || ops.t2[row] < at.since_ns;
        let limit = if answer_may_be_lost && call.fh != NONE { LOST_ANSWER_NS } else { LATE_RETRANSMISSION_NS };
        since_ns < limit
    }

    /// Is a call with the XID of an answered op, which asks for the same as far as can be seen, surely another one?
    ///
    /// What RPC sends again was sent before the answer arrived, by a timer that takes its time. So a call is another one
    /// where it comes sooner, and over TCP acknowledges the answer, too. It may acknowledge the answer, after a
    /// timer's time, without having seen it, where it waited in the socket or was lost in front of the tap.
    fn is_used_again(&self, row: usize, at: &Place) -> bool {
        let ops = &self.ops;
        let since_ns = at.t_ns - ops.t0[row];
        let is_soon = ops.transmissions[row] == 1 && since_ns < LEAST_TIMER_NS;
        if at.is_udp {
            return is_soon && !(at.may_be_copy && since_ns < COPY_NS);
        }
        let may_be_any = || self.reused.get(&at.conn).is_some_and(|reused| *reused >= ENOUGH_REUSED);
        self.is_acknowledged(row, at) && (is_soon || at.at_once || may_be_any())
    }

    /// Had the sender of a call acknowledged, not long after it came, the answer to `row` on this TCP connection?
    pub(super) fn is_acknowledged(&self, row: usize, at: &Place) -> bool {
        let (ops, end) = (&self.ops, self.reply_ends[row]);
        let is_here = ops.t2[row] != -1 && ops.t2[row] >= at.since_ns && at.t_ns - ops.t3[row] < LATE_RETRANSMISSION_NS;
        is_here && end != 0 && at.acked.is_some_and(|acked| acked.wrapping_sub(end) as i32 >= 0)
    }

    /// Does op `row` ask for the same thing, as far as both calls show it?
    pub(super) fn asks_the_same(&self, row: usize, kind: i16, offset: i64, size: u32, fh: u32) -> bool {
        let ops = &self.ops;
        let agree = |a: u32, b: u32| a == NONE || b == NONE || a == b;
        self.kinds.same_request(ops.kind[row], kind).unwrap_or_else(|| {
            let offsets = ops.offset[row] == -1 || offset == -1 || ops.offset[row] == offset;
            offsets && agree(ops.size[row], size) && agree(ops.fh[row], fh)
        })
    }
}
