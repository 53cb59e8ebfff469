//! TCP segments of one direction in, counters and events of its transport out (nothing per packet is kept).

use crate::link::{ACK, RST, SYN, Segment};
use crate::stream::Novelty;
use crate::table::table;

/// Silence of a connection with data under way that is worth an event: the shortest delayed ACK is 40 ms.
pub const STALL_NS: i64 = 30_000_000;
/// Events kept of a capture; beyond it they are only counted.
const MOST_EVENTS: usize = 1 << 21;
/// The largest payload of one packet where no segment size was agreed on: Ethernet's jumbo frames, 9000 bytes, less the
/// headers of IPv4 and TCP and TCP's timestamps.
const LARGEST_PAYLOAD: u32 = 8948;

/// What an event is about (`nfslat.model.details.TcpEvent`); `value` is in the unit named.
#[derive(Clone, Copy)]
#[repr(i8)]
pub enum Event {
    /// Bytes seen before were sent again: bytes.
    Retransmission = 0,
    /// The same packet was captured again: bytes.
    Duplicate = 1,
    /// Filled a hole that later data, or the FIN, had left: bytes.
    OutOfOrder = 2,
    /// Bytes ahead of everything seen, with a hole in front: bytes of the hole.
    Gap = 3,
    /// The receiver of this direction closed its window, and opened it again: ns in between.
    ZeroWindow = 4,
    /// Nothing was seen on the connection while data of this direction were under way: ns.
    Stall = 5,
    /// A datagram of which a fragment is not in the capture; its XID stands for the offset, where that is known: bytes.
    Incomplete = 6,
}

/// Where and when something happened.
#[derive(Clone, Copy)]
pub struct Place {
    pub conn: u32,
    pub reconnect: u32,
    pub direction: usize,
    pub frame: u32,
    pub t_ns: i64,
}

table! {
    /// What happened on connections (`nfslat.model.details.TcpEvents`).
    pub struct Events of EventRow {
        kind: i8,
        conn: i32,
        reconnect: i32,
        direction: i8,
        frame: i32,
        t_ns: i64,
        /// `Stream::offset` of the segment, -1 without one.
        offset: i64,
        value: i64,
    }
    with {
        pub dropped: u64,
    }
}

impl Events {
    /// What a segment was that is not just the next one.
    #[cold]
    pub fn of(&mut self, novelty: Novelty, place: Place, offset: Option<i64>) {
        match novelty {
            Novelty::Ahead(hole) => self.push(Event::Gap, place, offset, hole as i64),
            Novelty::Again { repeated, late, .. } => {
                if repeated > 0 {
                    self.push(Event::Retransmission, place, offset, i64::from(repeated));
                }
                if late > 0 {
                    self.push(Event::OutOfOrder, place, offset, i64::from(late));
                }
            }
            Novelty::New | Novelty::KeepAlive => {}
        }
    }

    pub fn push(&mut self, kind: Event, place: Place, offset: Option<i64>, value: i64) {
        if self.kind.len() >= MOST_EVENTS {
            self.dropped += 1;
            return;
        }
        self.push_row(EventRow {
            kind: kind as i8,
            conn: place.conn as i32,
            reconnect: place.reconnect as i32,
            direction: place.direction as i8,
            frame: place.frame as i32,
            t_ns: place.t_ns,
            offset: offset.unwrap_or(-1),
            value,
        });
    }
}

/// Kind and value of each option that is whole (RFC 9293 section 3.1).
pub fn each_option(mut options: &[u8]) -> impl Iterator<Item = (u8, &[u8])> {
    std::iter::from_fn(move || {
        while let [1, rest @ ..] = options {
            options = rest;
        }
        let [kind, size, ..] = options else { return None };
        let value = options.get(2..usize::from(*size)).filter(|_| *kind > 1)?;
        options = &options[usize::from(*size)..];
        Some((*kind, value))
    })
}

/// The most payload that a packet of a direction may have.
#[derive(Clone)]
struct SegmentSize(u32);

impl Default for SegmentSize {
    fn default() -> SegmentSize {
        SegmentSize(LARGEST_PAYLOAD)
    }
}

/// One direction of one TCP connection, in numbers.
#[derive(Clone, Default)]
pub struct Traffic {
    pub packets: u64,
    /// Of all packets, the SYN and the last FIN or RST too; 0 where there is none.
    pub first_ns: i64,
    pub last_ns: i64,
    pub data_packets: u64,
    /// TCP payload, retransmissions included.
    pub bytes: u64,
    pub largest_payload: u32,
    /// Data packets with more payload than a segment may have: segmentation offload shows such.
    pub super_packets: u64,
    segment_size: SegmentSize,
    /// Packets with bytes that were seen before, and these bytes.
    pub retransmissions: u32,
    pub retransmitted_bytes: u64,
    pub duplicates: u32,
    /// Packets with bytes that fill holes, or that the FIN overtook, and these bytes.
    pub out_of_order: u32,
    pub late_bytes: u64,
    pub keep_alives: u32,
    pub zero_windows: u32,
    pub zero_window_ns: i64,
    pub stalls: u32,
    pub stalled_ns: i64,
    /// From the SYN; None without one, or without the option in it.
    pub window_scale: Option<u8>,
    pub mss: Option<u16>,
    pub syns: u32,
    /// Data to the ACK that covers it, as seen where the capture was taken.
    pub rtt_count: u32,
    pub rtt_sum_ns: i64,
    pub rtt_min_ns: i64,
    pub rtt_max_ns: i64,
    zero_since_ns: Option<i64>,
    /// End of the data whose ACK is awaited, and when they were seen.
    sample: Option<(u64, i64)>,
}

impl Traffic {
    /// Options of a SYN (RFC 9293 section 3.2, RFC 7323 section 2).
    pub fn syn(&mut self, options: &[u8]) {
        self.syns += 1;
        for option in each_option(options) {
            match option {
                (2, [high, low]) => self.mss = Some(u16::from_be_bytes([*high, *low])),
                (3, [shift]) => self.window_scale = Some((*shift).min(14)),
                _ => {}
            }
        }
    }

    /// What both sides keep to, as far as it was seen: nobody sends more than the other one takes, nor more than fits
    /// into a packet of its own network, and that is what it says in its own SYN (RFC 9293 section 3.7.1).
    pub fn agree(both: &mut [Traffic; 2]) {
        let known = both.iter().filter_map(|one| one.mss).filter(|mss| *mss > 0).min();
        for one in both {
            one.segment_size = known.map_or_else(SegmentSize::default, |mss| SegmentSize(u32::from(mss)));
        }
    }

    /// Nothing but SYNs without data went by, this many or more; answers to them among them, to which nobody said a word.
    pub fn is_in_vain(both: &[Traffic; 2], least: u64) -> bool {
        let is_bare = both.iter().all(|one| one.packets == u64::from(one.syns) && one.data_packets == 0);
        is_bare && both[0].packets + both[1].packets >= least
    }

    /// A packet, whatever is in it.
    #[inline]
    pub fn packet(&mut self, t_ns: i64) {
        if self.packets == 0 {
            self.first_ns = t_ns;
        }
        self.last_ns = t_ns;
        self.packets += 1;
    }

    /// A data packet with so many bytes of payload.
    #[inline]
    pub fn data(&mut self, len: u32) {
        self.data_packets += 1;
        self.bytes += u64::from(len);
        self.largest_payload = self.largest_payload.max(len);
        self.super_packets += u64::from(len > self.segment_size.0);
    }

    /// Count a segment that is not just the next one; how many messages it repeats.
    #[cold]
    pub fn not_just_new(&mut self, novelty: Novelty) -> u64 {
        match novelty {
            Novelty::New | Novelty::Ahead(_) => 0,
            Novelty::KeepAlive => {
                self.keep_alives += 1;
                0
            }
            Novelty::Again { repeated, messages, late } => {
                if repeated > 0 {
                    self.retransmissions += 1;
                    self.retransmitted_bytes += u64::from(repeated);
                    // What was sent again cannot be timed (Karn and Partridge 1987).
                    self.sample = None;
                }
                if late > 0 {
                    self.out_of_order += 1;
                    self.late_bytes += u64::from(late);
                }
                messages
            }
        }
    }

    /// Data up to `end` went out: time the ACK of it, one at a time.
    #[inline]
    pub fn sent(&mut self, end: u64, t_ns: i64) {
        if self.sample.is_none() {
            self.sample = Some((end, t_ns));
        }
    }

    /// The other side has acknowledged up to `acked`.
    #[inline(always)]
    pub fn acknowledged(&mut self, acked: u64, t_ns: i64) {
        if let Some((_, since_ns)) = self.sample.filter(|(end, _)| acked >= *end) {
            let rtt_ns = t_ns - since_ns;
            self.rtt_min_ns = if self.rtt_count == 0 { rtt_ns } else { self.rtt_min_ns.min(rtt_ns) };
            self.rtt_max_ns = if self.rtt_count == 0 { rtt_ns } else { self.rtt_max_ns.max(rtt_ns) };
            self.rtt_sum_ns += rtt_ns;
            self.rtt_count += 1;
            self.sample = None;
        }
    }

    /// The receiver of this direction announced a window; Some(ns) where it had been closed until now.
    #[inline]
    pub fn window(&mut self, segment: &Segment<'_>, t_ns: i64) -> Option<i64> {
        if segment.flags & (SYN | RST) != 0 || segment.flags & ACK == 0 {
            return None;
        }
        if segment.window == 0 {
            if self.zero_since_ns.is_none() {
                self.zero_since_ns = Some(t_ns);
                self.zero_windows += 1;
            }
            return None;
        }
        let closed_ns = t_ns - self.zero_since_ns.take()?;
        self.zero_window_ns += closed_ns;
        Some(closed_ns)
    }

    /// Does the receiver of this direction take nothing now?
    #[inline]
    pub fn is_closed(&self) -> bool {
        self.zero_since_ns.is_some()
    }

    /// Nothing was seen for `silent_ns`, at least `STALL_NS`, with data of this direction under way.
    pub fn stalled(&mut self, silent_ns: i64) {
        self.stalls += 1;
        self.stalled_ns += silent_ns;
    }
}

#[cfg(test)]
mod tests;
