//! A TCP segment that goes on as usual in, all that it can change done: the short way of nearly all packets.
//!
//! What is left out of `Decoder::tcp` here is what cannot come of such a segment; a test holds the two together.

use super::{Decoder, Kind};
use crate::feed::Feed;
use crate::link::{Ends, Segment};
use crate::place::NO_CONN;
use crate::segments::About;
use crate::traffic::{Place, STALL_NS};
use crate::waits::{Glance, Seen, Went};

impl Decoder {
    /// None where a segment is another one; nothing was done then.
    ///
    /// It belongs to a connection with RPC on which nothing is missing or waits, has no flag but ACK and PSH, no options
    /// but timestamps and an open window; its number is that of the next byte, and it was not captured before.
    #[inline(always)]
    pub(super) fn usual(&mut self, ends: &Ends, segment: &Segment<'_>) -> Option<Kind> {
        let (number, direction) = self.flows.recent(ends, false)?;
        let t_ns = self.now_ns;
        let flow = &mut self.flows.list[number];
        let [forward, backward] = &mut flow.streams;
        let (own, other) = if direction == 0 { (forward, backward) } else { (backward, forward) };
        let [forward, backward] = &mut flow.traffic;
        let (sent, back) = if direction == 0 { (forward, backward) } else { (backward, forward) };
        let conn = flow.shared.conn;
        let copies = flow.copies.as_mut()?;
        let is_usual = conn != NO_CONN
            && t_ns - flow.last_ns < STALL_NS
            && own.goes_on(segment.seq)
            && !other.has_held()
            && segment.window != 0
            && !back.is_closed()
            && copies.is_usual_next(direction, self.point, segment);
        if !is_usual {
            return None;
        }
        let ack = other.acknowledged(segment.ack)?;
        copies.take_next(direction, segment, t_ns);
        sent.packet(t_ns);
        flow.last_ns = t_ns;
        back.acknowledged(other.acked, t_ns);

        let Segment { seq, len, window, .. } = *segment;
        let (start, _) = own.position(seq);
        let glance = Glance { direction, t_ns, start, len, ack: Some(ack), window, went: Went::New };
        let is_done = flow.waits.usual(glance, ack);
        let again = len == 1 && sent.is_closed(); // a probe
        self.flows.is_used(number);
        if self.segments.is_some() {
            self.keep(number, segment, About { direction, frame: self.number, t_ns, again, is_rpc: true });
        }
        if !is_done {
            self.glance((number, direction), (seq, len), ack, window, segment.options);
        }
        if len == 0 {
            return Some(Kind::TcpControl);
        }
        let flow = &mut self.flows.list[number];
        let (own, sent) = (&mut flow.streams[direction], &mut flow.traffic[direction]);
        sent.data(len);
        sent.sent(own.high.max(start + u64::from(len)), t_ns);
        flow.loads[direction].data((conn, direction), ends, len, t_ns, &mut self.loads);
        if own.takes_body(len, self.number, t_ns) {
            return Some(Kind::TcpData);
        }
        Some(self.usual_data((number, direction), segment.bytes, len))
    }

    /// What `Waits` has to see of such a segment, in front of what its stream makes of it.
    #[inline(never)]
    fn glance(
        &mut self,
        (number, direction): (usize, usize),
        (seq, len): (u32, u32),
        ack: u64,
        window: u16,
        options: &[u8],
    ) {
        let (frame, t_ns) = (self.number, self.now_ns);
        let flow = &mut self.flows.list[number];
        let own = &flow.streams[direction];
        let ((start, origin), in_message) = (own.position(seq), own.in_message());
        let place = Place { conn: flow.shared.conn, reconnect: flow.reconnects, direction, frame, t_ns };
        let (ack, went) = (Some(ack), Went::New);
        let seen = Seen { place, start, origin, len, ack, window, options, went, in_message };
        flow.waits.packet(&seen, &mut self.pauses);
    }

    /// The data of such a segment, in which a message begins or ends.
    #[inline(never)]
    fn usual_data(&mut self, (number, direction): (usize, usize), bytes: &[u8], len: u32) -> Kind {
        let flow = &mut self.flows.list[number];
        let messages = self.tally.messages;
        let mut feed = Feed::new(&mut self.pairing, &mut self.tally, &mut flow.shared, &self.ranks, direction);
        feed.acked = Some(flow.streams[1 - direction].acked as u32);
        flow.streams[direction].takes_next(bytes, len, self.number, self.now_ns, &mut feed);
        if self.tally.messages > messages { Kind::Rpc } else { Kind::TcpData }
    }
}

#[cfg(test)]
mod tests;
