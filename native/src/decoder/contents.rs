//! What a decoder has found so far, as it leaves.

use super::{Decoder, Finished, KINDS, Tcp};
use crate::link::Ends;
use crate::loads::{LoadColumns, Others};
use crate::ops::Pairing;
use crate::segments::Segments;
use crate::traffic::Events;
use crate::unread::Unread;
use crate::waits::{Hangs, Pauses};

/// What is counted of packets and messages.
pub struct Counts {
    pub kinds: [u64; KINDS.len()],
    pub hidden: u64,
    pub malformed: u64,
    pub duplicate_packets: u64,
    pub repeated: u64,
    pub duplicated: u64,
    pub lost_ranges: u64,
    pub lost_bytes: u64,
    pub wire_bytes: u64,
    pub captured_bytes: u64,
    pub tls_connections: usize,
    pub busiest_second: u32,
    pub backward_times: u64,
    pub largest_backward_ns: i64,
}

/// Tables whose rows are in their order, what they refer to, and what is counted.
pub struct Contents {
    pub pairing: Pairing,
    pub tcp: Tcp,
    pub events: Events,
    pub pauses: Pauses,
    pub hangs: Hangs,
    pub loads: LoadColumns,
    pub load_stretch_ns: i64,
    pub loads_dropped: u64,
    pub others: Others,
    pub unread: Unread,
    pub segments: Vec<Segments>,
    /// Is it UDP, and between which endpoints.
    pub connections: Vec<(bool, Ends)>,
    pub counts: Counts,
    /// Of its packets; None without any.
    pub span_ns: Option<(i64, i64)>,
}

impl Decoder {
    /// All that it has, which is taken out of it; what packets are counted by begins anew.
    pub fn contents(&mut self) -> Contents {
        let connections = (0..self.tally.connections.len())
            .map(|conn| self.connection(conn))
            .map(|flow| (flow.shared.is_udp, flow.first));
        let connections = connections.collect();
        let span_ns = (self.first_ns <= self.last_ns).then_some((self.first_ns, self.last_ns));
        (self.first_ns, self.last_ns) = (i64::MAX, i64::MIN);
        Contents {
            counts: self.counts(),
            connections,
            span_ns,
            tcp: Tcp::of(&self.finished),
            pairing: std::mem::take(&mut self.pairing),
            events: std::mem::take(&mut self.events),
            pauses: std::mem::take(&mut self.pauses),
            hangs: std::mem::take(&mut self.hangs),
            loads: self.loads.of_rpc.take_columns(),
            load_stretch_ns: self.loads.of_rpc.stretch_ns,
            loads_dropped: std::mem::take(&mut self.loads.of_rpc.dropped),
            others: self.loads.take_others(),
            unread: std::mem::take(&mut self.tally.unread),
            segments: self.segments.as_mut().map(std::mem::take).unwrap_or_default(),
        }
    }

    fn counts(&mut self) -> Counts {
        let lost = |of: fn(&Finished) -> u64| self.finished.iter().map(of).sum();
        Counts {
            lost_ranges: lost(|done| u64::from(done.lost_ranges)),
            lost_bytes: lost(|done| done.lost_bytes),
            kinds: std::mem::take(&mut self.kinds),
            hidden: std::mem::take(&mut self.tally.hidden),
            malformed: std::mem::take(&mut self.tally.malformed),
            duplicate_packets: std::mem::take(&mut self.duplicate_packets),
            repeated: std::mem::take(&mut self.repeated),
            duplicated: std::mem::take(&mut self.duplicated),
            wire_bytes: std::mem::take(&mut self.wire_bytes),
            captured_bytes: std::mem::take(&mut self.captured_bytes),
            tls_connections: self.flows.list.iter().filter(|flow| flow.shared.is_tls).count(),
            busiest_second: self.pace.busiest_second(),
            backward_times: std::mem::take(&mut self.pace.backward_times),
            largest_backward_ns: self.pace.largest_backward_ns,
        }
    }
}
