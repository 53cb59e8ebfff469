//! Packets in capture order in, everything that is known of one capture out.

use std::io::Read;

use hashbrown::HashSet;

use crate::capture::{Error, File, Progress, Take, read_all};
use crate::compound::Ranks;
use crate::container::Packet;
use crate::feed::{Feed, Outcome, Tally};
use crate::flows::{Flow, Flows, Print};
use crate::fragments::{Fragments, Incomplete};
use crate::link::{self, Datagram, Ends, FIN, Frame, RST, SYN, Segment};
use crate::loads::AllLoads;
use crate::ops::Pairing;
use crate::pace::Pace;
use crate::place::{NO_CONN, Row};
use crate::plausible::{Plausible, plausible};
use crate::segments::{About, Segments};
use crate::stream::{Novelty, Stream};
use crate::traffic::{Event, Events, Place, STALL_NS, Traffic};
use crate::unread::Unread;
use crate::waits::{Cut, Glance, Hangs, Pauses, Reset, Seen, Went};
pub use contents::{Contents, Counts};
pub use tcp::Tcp;

/// Segments kept of a capture: 40 bytes each; and of those that a sample has.
const MOST_SEGMENTS: usize = if cfg!(test) { 4096 } else { 1 << 26 };
const MOST_SAMPLED: usize = if cfg!(test) { 1024 } else { 1 << 18 };
/// A sample is of stretches of so many packets (a power of two), for what a segment answers is near it.
const STRETCH: u32 = if cfg!(test) { 6 } else { 12 };

/// Directions of connections that were tried in vain: so many are kept.
const MOST_IN_VAIN: usize = if cfg!(test) { 8 } else { 4096 };
/// SYNs, and SYN-ACKs in vain: with fewer nothing shows that anybody waited.
const LEAST_IN_VAIN: u64 = 3;
/// Behind all first packets.
const IN_VAIN: u32 = 1 << 31;

/// A call that was not answered for so long is not waited for any longer, where a capture is read in windows.
pub const GIVEN_UP_NS: i64 = 600_000_000_000;

/// Every packet is of one kind.
#[derive(Clone, Copy)]
pub enum Kind {
    Rpc,
    TcpData,
    TcpControl,
    Udp,
    IpFragment,
    Other,
    /// There were too many connections to follow this one.
    Untracked,
    /// With a number that was spoilt (`Stream::is_damaged`): left out.
    Damaged,
}

/// Their names in the report, in the order of `Kind`.
pub const KINDS: [&str; 8] =
    ["rpc", "tcp data", "tcp control", "udp", "ip fragment", "other", "untracked", "tcp damaged"];

/// What of a packet counts, whatever is in it.
#[derive(Clone, Copy)]
pub struct At {
    /// In its capture; the first is 1.
    pub number: u32,
    pub t_ns: i64,
    pub wire_len: u32,
    pub captured: u32,
    /// `Packet::point`.
    pub point: u32,
}

impl At {
    #[inline]
    pub fn of(packet: &Packet<'_>, number: u32) -> At {
        let captured = packet.captured.len() as u32;
        At { number, t_ns: packet.t_ns, wire_len: packet.wire_len, captured, point: packet.point() }
    }
}

/// A direction of a TCP connection that is over, or at the end of the capture.
#[derive(Clone)]
pub struct Finished {
    pub conn: u32,
    pub reconnect: u32,
    pub direction: u8,
    /// `Stream::range`.
    pub range: Option<(u32, u64)>,
    /// `Stream::acked_bytes`.
    pub acked: Option<u64>,
    pub traffic: Traffic,
    pub lost_ranges: u32,
    pub lost_bytes: u64,
}

/// Holds the state of one capture.
pub struct Decoder {
    pub ranks: Ranks,
    pub pairing: Pairing,
    pub tally: Tally,
    pub events: Events,
    pub pauses: Pauses,
    pub hangs: Hangs,
    pub loads: AllLoads,
    pub finished: Vec<Finished>,
    /// Those of connections without RPC on which nothing but SYNs went by, with the flow and its first packet: until all
    /// is over nobody knows which ports carry RPC.
    in_vain: Vec<(usize, u32, Finished)>,
    /// Of each TCP connection with RPC, in the order of their first packets, where they are asked for.
    /// None are left where there were too many.
    pub segments: Option<Vec<Segments>>,
    pub is_sampled: bool,
    kept: usize,
    /// Stretches whose number has one of these bits are not in the sample.
    thinned: u32,
    pub kinds: [u64; KINDS.len()],
    /// How many it was given.
    pub packets: u32,
    /// What the last of them was in its capture, of which others may have had a part (`apart`).
    number: u32,
    /// Where it was seen.
    point: u32,
    pub duplicate_packets: u64,
    /// Messages in what TCP sent again, and in what was captured twice; they have no row.
    pub repeated: u64,
    pub duplicated: u64,
    pub wire_bytes: u64,
    pub captured_bytes: u64,
    pub pace: Pace,
    pub first_ns: i64,
    pub last_ns: i64,
    now_ns: i64,
    pub flows: Flows,
    fragments: Fragments,
}

impl Decoder {
    pub fn new(ranks: Ranks) -> Decoder {
        Decoder {
            ranks,
            pairing: Pairing::default(),
            tally: Tally::default(),
            events: Events::default(),
            pauses: Pauses::default(),
            hangs: Hangs::default(),
            loads: AllLoads::default(),
            finished: Vec::new(),
            in_vain: Vec::new(),
            segments: None,
            is_sampled: false,
            kept: 0,
            thinned: 0,
            kinds: [0; KINDS.len()],
            packets: 0,
            number: 0,
            point: 0,
            duplicate_packets: 0,
            repeated: 0,
            duplicated: 0,
            wire_bytes: 0,
            captured_bytes: 0,
            pace: Pace::default(),
            first_ns: i64::MAX,
            last_ns: i64::MIN,
            now_ns: i64::MIN,
            flows: Flows::default(),
            fragments: Fragments::default(),
        }
    }

    /// Take the next packet of the capture.
    #[inline(always)]
    pub fn packet(&mut self, packet: &Packet<'_>) {
        let at = At::of(packet, self.number + 1);
        self.see(at);
        // Not by `and_then`: where its closure is not inlined, all of the segment goes through memory.
        let usual = match link::plain(packet.link, packet.captured) {
            Some((ends, segment)) => self.usual(&ends, &segment),
            None => None,
        };
        let kind = match usual {
            Some(kind) => kind,
            None => self.unusual(packet),
        };
        self.kinds[kind as usize] += 1;
    }

    #[inline(never)]
    fn unusual(&mut self, packet: &Packet<'_>) -> Kind {
        let frame = link::dissect(packet.link, packet.captured, packet.wire_len);
        self.frame(&frame, self.number, packet.t_ns, packet.wire_len)
    }

    /// The same, dissected; of one that was put together, `first` is number and time of the first part.
    #[inline]
    pub fn dissected(&mut self, frame: &Frame<'_>, at: At, first: (u32, i64)) {
        self.see(at);
        let kind = self.frame(frame, first.0, first.1, at.wire_len);
        self.kinds[kind as usize] += 1;
    }

    /// A packet of which nothing more is wanted than that it is there.
    pub fn count(&mut self, at: At, kind: Kind) {
        self.see(at);
        self.kinds[kind as usize] += 1;
    }

    #[inline(always)]
    fn see(&mut self, at: At) {
        let At { number, t_ns, wire_len, captured, point } = at;
        self.packets += 1;
        self.number = number;
        self.point = point;
        self.pace.packet(t_ns);
        self.now_ns = t_ns;
        self.wire_bytes += u64::from(wire_len);
        self.captured_bytes += u64::from(captured);
        self.first_ns = self.first_ns.min(t_ns);
        self.last_ns = self.last_ns.max(t_ns);
    }

    /// The packets of another one that saw no RPC.
    pub fn fold(&mut self, other: &Decoder) {
        self.packets += other.packets;
        self.kinds.iter_mut().zip(other.kinds).for_each(|(own, more)| *own += more);
        self.wire_bytes += other.wire_bytes;
        self.captured_bytes += other.captured_bytes;
        self.loads.fold(&other.loads);
        self.first_ns = self.first_ns.min(other.first_ns);
        self.last_ns = self.last_ns.max(other.last_ns);
    }

    fn frame(&mut self, frame: &Frame<'_>, first_frame: u32, first_ns: i64, wire_len: u32) -> Kind {
        match frame {
            Frame::Tcp(ends, segment) => {
                self.usual(ends, segment).unwrap_or_else(|| self.tcp(ends, segment, self.now_ns))
            }
            Frame::Udp(ends, datagram) => self.udp(*ends, datagram, first_frame, first_ns, wire_len),
            Frame::Fragment(part) => {
                let whole = self.fragments.take(part, self.number, self.now_ns);
                for incomplete in self.fragments.incomplete() {
                    self.incomplete(&incomplete);
                }
                let Some(whole) = whole else { return Kind::IpFragment };
                let inner = link::dissect_payload(whole.proto, whole.src, whole.dst, &whole.bytes, whole.len);
                match inner {
                    Frame::Fragment(_) | Frame::Other => Kind::IpFragment,
                    _ => self.frame(&inner, whole.first_frame, whole.first_ns, wire_len),
                }
            }
            Frame::Other => Kind::Other,
        }
    }

    /// A datagram of which a fragment is missing. Where that is the first one, with the ports, it is of a connection with
    /// RPC between the same hosts.
    #[cold]
    pub fn incomplete(&mut self, lost: &Incomplete) {
        if lost.proto != 17 {
            return;
        }
        let word =
            |at: usize| lost.bytes.get(at..at + 4).map(|word| u32::from_be_bytes(word.try_into().unwrap_or_default()));
        let ports = word(0).map(|ports| ((ports >> 16) as u16, ports as u16));
        let of_ends = |ends: &Ends| {
            let is_there = (ends.src, ends.dst) == (lost.src, lost.dst);
            is_there && ports.is_none_or(|ports| ports == (ends.sport, ends.dport))
        };
        let flow = self.flows.list.iter().find_map(|flow| {
            let direction = [0, 1].iter().position(|way| of_ends(&flow.ends(*way)))?;
            (flow.shared.is_udp && flow.shared.conn != NO_CONN).then_some((flow.shared.conn, direction))
        });
        let Some((conn, direction)) = flow else { return };
        let xid = word(8).filter(|_| matches!(word(12), Some(0 | 1)));
        let place = Place { conn, reconnect: 0, direction, frame: lost.first_frame, t_ns: lost.first_ns };
        self.events.push(Event::Incomplete, place, xid.map(i64::from), lost.len.into());
    }

    fn udp(&mut self, ends: Ends, datagram: &Datagram<'_>, frame: u32, t_ns: i64, wire_len: u32) -> Kind {
        let found = self.flows.find(&ends, true, t_ns, &mut self.tally.held_bytes);
        let Some((number, direction)) = found else { return Kind::Untracked };
        let flow = &mut self.flows.list[number];
        flow.begins_in(self.number);
        // Some senders never change the identification: XID and direction tell their messages apart.
        let word = |at: usize| {
            datagram.bytes.get(at..at + 4).map_or(0, |word| u32::from_be_bytes(word.try_into().unwrap_or_default()))
        };
        let print = Print { ip_id: datagram.ip_id, seq: word(0), ack: word(4), len: wire_len };
        if flow.is_copy(direction, print) {
            self.duplicate_packets += 1;
            let is_message = print.ack <= 1;
            self.duplicated += u64::from(is_message);
            return if is_message { Kind::Rpc } else { Kind::Udp };
        }
        let mut feed = Feed::new(&mut self.pairing, &mut self.tally, &mut flow.shared, &self.ranks, direction);
        feed.may_be_copy = datagram.ip_id == 0;
        // A datagram is taken for RPC if all of its header makes sense, or if its endpoints have spoken RPC before.
        if !feed.knows_rpc() && !is_rpc(datagram.bytes) {
            flow.loads[direction].data((NO_CONN, direction), &ends, datagram.len, t_ns, &mut self.loads);
            return Kind::Udp;
        }
        match feed.message(datagram.bytes, frame, t_ns) {
            Outcome::Row(row) => {
                self.pairing.tell(row, datagram.bytes, t_ns);
                self.pairing.finish(row, self.number, self.now_ns, true);
                Kind::Rpc
            }
            Outcome::Short => {
                self.tally.hidden += u64::from(flow.shared.conn != NO_CONN);
                Kind::Udp
            }
            Outcome::NotRpc => {
                self.tally.malformed += u64::from(flow.shared.conn != NO_CONN);
                Kind::Udp
            }
        }
    }

    #[inline]
    fn tcp(&mut self, ends: &Ends, segment: &Segment<'_>, t_ns: i64) -> Kind {
        let found = self.flows.find(ends, false, t_ns, &mut self.tally.held_bytes);
        let Some((number, direction)) = found else { return Kind::Untracked };
        let flow = &mut self.flows.list[number];
        flow.begins_in(self.number);
        let control = if segment.len == 0 { Kind::TcpControl } else { Kind::TcpData };
        if flow.is_segment_copy(direction, self.point, segment, t_ns) {
            self.duplicate_packets += 1;
            flow.traffic[direction].duplicates += 1;
            if segment.len > 0 {
                self.duplicated += flow.streams[direction].repeated_messages(segment.seq, segment.len);
                if flow.shared.conn != NO_CONN {
                    let bytes = i64::from(segment.len);
                    let offset = flow.streams[direction].offset(segment.seq);
                    let (conn, reconnect) = (flow.shared.conn, flow.reconnects);
                    let place = Place { conn, reconnect, direction, frame: self.number, t_ns };
                    self.events.push(Event::Duplicate, place, offset, bytes);
                }
            }
            return control;
        }
        if segment.len > 0 && flow.streams[direction].is_damaged(segment, (ends.src, ends.dst)) {
            return Kind::Damaged;
        }
        if segment.flags & SYN != 0 {
            self.syn(number, direction, segment, t_ns);
        } else if segment.flags & RST != 0 {
            self.reset(number, direction, t_ns);
        }
        let flow = &mut self.flows.list[number];
        let messages = self.tally.messages;
        let [forward, backward] = &mut flow.streams;
        let (own, other) = if direction == 0 { (forward, backward) } else { (backward, forward) };
        let [forward, backward] = &mut flow.traffic;
        let (sent, back) = if direction == 0 { (forward, backward) } else { (backward, forward) };
        sent.packet(t_ns);

        let silent_ns = t_ns - flow.last_ns;
        flow.last_ns = t_ns;
        let conn = flow.shared.conn;
        let place = Place { conn, reconnect: flow.reconnects, direction, frame: self.number, t_ns };
        if silent_ns >= STALL_NS && conn != NO_CONN {
            for (stream, traffic, way) in [(&*own, &mut *sent, direction), (&*other, &mut *back, 1 - direction)] {
                if stream.high > stream.acked {
                    traffic.stalled(silent_ns);
                    self.events.push(Event::Stall, Place { direction: way, ..place }, None, silent_ns);
                }
            }
        }
        let mut ack = None;
        if segment.flags & link::ACK != 0 && segment.flags & (RST | SYN) == 0 {
            ack = other.acknowledged(segment.ack);
            back.acknowledged(other.acked, t_ns);
            let closed_ns = back.window(segment, t_ns).filter(|_| conn != NO_CONN);
            if let Some(closed_ns) = closed_ns {
                self.events.push(Event::ZeroWindow, Place { direction: 1 - direction, ..place }, None, closed_ns);
            }
        }
        let mut feed = Feed::new(&mut self.pairing, &mut self.tally, &mut flow.shared, &self.ranks, direction);
        if own.has_held() || other.has_held() {
            let mut sides = [(direction, &mut *own), (1 - direction, &mut *other)];
            sides.sort_by_key(|(_, side)| side.holds_since_ns());
            for (way, side) in sides {
                feed.direction = way as u8;
                side.expire(t_ns, &mut feed);
            }
            feed.direction = direction as u8;
        }
        feed.is_early = other.has_held();
        let in_message = own.in_message();
        let mut went = Went::New;
        let is_closed = sent.is_closed();
        if segment.len > 0 {
            sent.data(segment.len);
            flow.loads[direction].data((feed.flow.conn, direction), ends, segment.len, t_ns, &mut self.loads);
            feed.acked = other.started.then_some(other.acked as u32);
            let novelty = own.segment(segment, self.number, t_ns, &mut feed);
            feed.acked = None;
            let novelty = own.in_front_of_fin(segment, novelty);
            if novelty == Novelty::New {
                sent.sent(own.high, t_ns);
            } else {
                went = Went::from(novelty);
                self.repeated += sent.not_just_new(novelty);
                if feed.knows_rpc() {
                    self.events.of(novelty, Place { conn: feed.flow.conn, ..place }, own.offset(segment.seq));
                }
            }
        }
        if segment.flags & (SYN | RST) == 0 {
            let (start, origin) = own.position(segment.seq);
            let Segment { len, window, options, .. } = *segment;
            let all = || {
                let place = Place { conn: feed.flow.conn, ..place };
                Seen { place, start, origin, len, ack, window, options, went, in_message }
            };
            flow.waits.glance(Glance { direction, t_ns, start, len, ack, window, went }, all, &mut self.pauses);
        }
        own.settle(t_ns, &mut feed);
        feed.direction = 1 - direction as u8;
        feed.is_early = own.has_held();
        other.settle(t_ns, &mut feed);
        if segment.flags & FIN != 0 {
            own.fin_comes(segment);
        }
        if self.segments.is_some() {
            let is_probe = is_closed && segment.len == 1 && went == Went::New;
            let again = is_probe || matches!(went, Went::Repeated | Went::Probe);
            self.keep(number, segment, About { direction, frame: self.number, t_ns, again, is_rpc: false });
        }
        if self.tally.messages > messages { Kind::Rpc } else { control }
    }

    /// To be said before the first packet.
    pub fn keep_segments(&mut self, wanted: Wanted) {
        self.segments = (wanted != Wanted::None).then(Vec::new);
        self.is_sampled = wanted == Wanted::Some;
    }

    /// A segment, as a row.
    fn keep(&mut self, number: usize, segment: &Segment<'_>, about: About) {
        if self.flows.list[number].talk.as_ref().is_some_and(|talk| talk.is_over(about.direction, segment)) {
            self.end_talk(number);
        }
        let is_left_out = self.is_left_out(about.frame);
        let flow = &mut self.flows.list[number];
        let is_rpc = flow.shared.conn != NO_CONN;
        let talk = flow.talk.get_or_insert_default();
        if is_left_out {
            talk.pass(segment, about.direction);
            return;
        }
        talk.take(segment, &About { is_rpc, ..about });
        self.kept += 1;
        if self.is_sampled {
            while self.kept > MOST_SAMPLED {
                self.thin();
            }
        } else if self.kept > MOST_SEGMENTS {
            self.segments = None;
            self.flows.list.iter_mut().for_each(|flow| flow.talk = None);
        }
    }

    fn is_left_out(&self, frame: u32) -> bool {
        (frame >> STRETCH) & self.thinned != 0
    }

    /// Every other stretch of the sample goes.
    #[cold]
    fn thin(&mut self) {
        self.thinned = self.thinned << 1 | 1;
        let mut segments = self.segments.take().unwrap_or_default();
        let mut talks: Vec<_> = self.flows.list.iter_mut().map(|flow| flow.talk.take()).collect();
        self.kept = 0;
        for rows in &mut segments {
            let inside = |at: &u32| !self.is_left_out(rows.frame[*at as usize] as u32);
            let left: Vec<u32> = (0..rows.frame.len() as u32).filter(inside).collect();
            rows.keep(&left);
            self.kept += left.len();
        }
        for talk in talks.iter_mut().flatten() {
            talk.rows.retain(|row| !self.is_left_out(row.frame as u32));
            self.kept += talk.rows.len();
        }
        segments.retain(|rows| !rows.frame.is_empty());
        self.segments = Some(segments);
        self.flows.list.iter_mut().zip(talks).for_each(|(flow, talk)| flow.talk = talk);
    }

    fn end_talk(&mut self, number: usize) {
        let flow = &mut self.flows.list[number];
        let is_rpc = flow.shared.conn != NO_CONN;
        let talk = flow.talk.take().filter(|talk| is_rpc && !talk.rows.is_empty());
        if let (Some(talk), Some(segments)) = (talk, &mut self.segments) {
            segments.push(Segments::of(talk.rows));
        }
    }

    /// A SYN: the beginning of a connection, or of another one between the same endpoints.
    fn syn(&mut self, number: usize, direction: usize, segment: &Segment<'_>, t_ns: i64) {
        let flow = &self.flows.list[number];
        let is_new = flow.streams[direction].is_new(segment.seq);
        let opens = segment.flags & link::ACK == 0;
        // A SYN of the other side that is new has ended both already.
        if is_new && (opens || flow.streams[1 - direction].started) {
            self.end(number, (Cut::NextConnection, t_ns));
            let flow = &mut self.flows.list[number];
            flow.reconnects += 1;
            flow.shared.since_ns = t_ns;
        }
        let flow = &mut self.flows.list[number];
        flow.streams[direction].syn(segment.seq);
        flow.traffic[direction].syn(segment.options);
        flow.waits.syn(direction, segment);
        Traffic::agree(&mut flow.traffic);
    }

    /// A RST, which has not been counted yet.
    #[cold]
    fn reset(&mut self, number: usize, direction: usize, t_ns: i64) {
        let flow = &mut self.flows.list[number];
        if flow.shared.conn != NO_CONN {
            let packets = flow.traffic[direction].packets;
            let mut slot = flow.resets[direction].take();
            Reset::comes(&mut slot, packets, t_ns, || flow.open_waits());
            flow.resets[direction] = slot;
        }
    }

    /// What the ends of a connection waited for to the last.
    fn hang(&mut self, number: usize, cut: (Cut, i64)) {
        let flow = &mut self.flows.list[number];
        let (conn, reconnect) = (flow.shared.conn, flow.reconnects);
        let resets = std::mem::take(&mut flow.resets);
        let packets = [0, 1].map(|direction: usize| flow.traffic[direction].packets);
        if let Some((direction, reset)) = Reset::first(&resets, packets) {
            reset.waits(direction).for_each(|(wait, cut)| self.hangs.push(wait, conn, reconnect, cut));
        } else {
            flow.open_waits().iter().for_each(|wait| self.hangs.push(wait, conn, reconnect, cut));
        }
        flow.waits = Default::default();
    }

    /// Both directions of a connection are over.
    fn end(&mut self, number: usize, cut: (Cut, i64)) {
        self.hang(number, cut);
        self.end_talk(number);
        let flow = &mut self.flows.list[number];
        let is_in_vain = flow.shared.conn == NO_CONN && Traffic::is_in_vain(&flow.traffic, LEAST_IN_VAIN);
        for direction in 0..2 {
            std::mem::take(&mut flow.loads[direction]).end(
                (flow.loaded_conn(), direction),
                &flow.ends(direction),
                &mut self.loads,
            );
            let mut feed = Feed::new(&mut self.pairing, &mut self.tally, &mut flow.shared, &self.ranks, direction);
            let mut stream = std::mem::take(&mut flow.streams[direction]);
            let (range, acked) = (stream.range(), stream.acked_bytes());
            stream.close(&mut feed);
            let traffic = std::mem::take(&mut flow.traffic[direction]);
            if traffic.packets == 0 || flow.shared.conn == NO_CONN && !is_in_vain {
                continue;
            }
            let done = Finished {
                conn: flow.shared.conn,
                reconnect: flow.reconnects,
                direction: direction as u8,
                range,
                acked,
                traffic,
                lost_ranges: stream.lost_ranges,
                lost_bytes: stream.lost_bytes,
            };
            if !is_in_vain {
                self.finished.push(done);
            } else if self.in_vain.len() < MOST_IN_VAIN {
                self.in_vain.push((number, flow.begun, done));
            }
        }
    }

    /// What was tried in vain to a port that carries RPC between the same hosts is a connection as those with RPC are,
    /// behind these; `begun` is told each, in order.
    fn number_in_vain(&mut self, mut begun: impl FnMut(&Decoder, u32)) {
        let is_tried = |flow: &Flow| flow.shared.conn == NO_CONN && Traffic::is_in_vain(&flow.traffic, LEAST_IN_VAIN);
        let open: Vec<_> = (0..self.flows.list.len()).filter(|&number| is_tried(&self.flows.list[number])).collect();
        if open.is_empty() && self.in_vain.is_empty() {
            return;
        }
        let known =
            (0..self.tally.connections.len()).flat_map(|conn| [0, 1].map(|way| self.connection(conn).ends(way)));
        let known: HashSet<_> = known.map(|ends| (ends.src, ends.dst, ends.dport)).collect();
        let carries = |flow: &Flow| known.contains(&(flow.first.src, flow.first.dst, flow.first.dport));
        let mut in_vain = std::mem::take(&mut self.in_vain);
        in_vain.sort_by_key(|(_, begun, done)| (*begun, done.reconnect, done.direction));
        for (number, first, done) in in_vain {
            let flow = &self.flows.list[number];
            if flow.begun != first {
                continue;
            }
            if !carries(flow) {
                self.in_vain.push((number, first, done)); // RPC may come to that port
                continue;
            }
            let conn = self.number(number);
            self.finished.push(Finished { conn, ..done });
            begun(self, first);
        }
        for number in open {
            if carries(&self.flows.list[number]) {
                self.number(number);
            }
        }
    }

    /// The connection that a flow is, from now on if it was none.
    fn number(&mut self, flow: usize) -> u32 {
        let conn = &mut self.flows.list[flow].shared.conn;
        if *conn == NO_CONN {
            *conn = self.tally.connections.len() as u32;
            self.tally.connections.push(flow as u32);
        }
        *conn
    }

    /// No more packets: settle everything that is open.
    pub fn finish(&mut self) {
        self.finish_each(|_, _| {});
    }

    /// The same; `ended` is told the first packet of each connection, in turn, and then of those tried in vain.
    pub fn finish_each(&mut self, mut ended: impl FnMut(&Decoder, u32)) {
        self.fragments.end();
        for incomplete in self.fragments.incomplete() {
            self.incomplete(&incomplete);
        }
        for number in 0..self.flows.list.len() {
            self.end(number, (Cut::Nothing, -1));
            ended(self, self.flows.list[number].begun);
        }
        self.number_in_vain(|decoder, begun| ended(decoder, IN_VAIN | begun));
        self.close();
        if let Some(segments) = &mut self.segments {
            segments.sort_by_key(|one| one.frame[0]);
        }
    }

    /// Put the tables into the order in which they leave.
    fn close(&mut self) {
        let flows = &self.flows.list;
        let connections = &self.tally.connections;
        self.pairing.close(|conn, direction| {
            let ends = flows[connections[conn as usize] as usize].first;
            let (from, to) = ((ends.src, ends.sport), (ends.dst, ends.dport));
            let (from, to) = if direction == 0 { (from, to) } else { (to, from) };
            (from.0, to.0, to.1)
        });
        self.loads.close();
        self.hangs.close();
        self.tally.unread.close();
        self.finished.sort_by_key(|done| (done.conn, done.reconnect, done.direction));
    }

    /// What ended before `before_ns`, and calls without an answer for longer than `GIVEN_UP_NS`, leave; all else goes on.
    /// `now_ns` is earlier where a clock was set back: by that, calls are waited for.
    ///
    /// What is counted of packets is counted since the last time; of TCP's directions, since they began.
    pub fn cut(&mut self, before_ns: i64, now_ns: i64) -> Contents {
        let open: Vec<Row> = self.flows.list.iter().flat_map(|flow| &flow.streams).filter_map(Stream::row).collect();
        let (settled, moves) = self.pairing.split(before_ns, before_ns.min(now_ns).saturating_sub(GIVEN_UP_NS), &open);
        self.number_in_vain(|_, _| {});
        let over = self.finished.len();
        let (mut unread, mut open_unread) = (Unread::default(), Vec::new());
        for flow in &mut self.flows.list {
            let conn = flow.shared.conn;
            for direction in 0..2 {
                flow.streams[direction].renumber(|row| moves.of(row));
                open_unread.extend(flow.streams[direction].stay_unread(&self.tally.unread, &mut unread));
                if conn == NO_CONN {
                    continue;
                }
                std::mem::take(&mut flow.loads[direction]).end(
                    (flow.loaded_conn(), direction),
                    &flow.ends(direction),
                    &mut self.loads,
                );
                if flow.traffic[direction].packets > 0 {
                    let stream = &flow.streams[direction];
                    self.finished.push(Finished {
                        conn,
                        reconnect: flow.reconnects,
                        direction: direction as u8,
                        range: stream.range(),
                        acked: stream.acked_bytes(),
                        traffic: flow.traffic[direction].clone(),
                        lost_ranges: stream.lost_ranges,
                        lost_bytes: stream.lost_bytes,
                    });
                }
            }
        }
        let ended = self.finished[..over].to_vec();
        let rest = std::mem::replace(&mut self.pairing, settled);
        self.tally.unread.leave_out(&open_unread);
        self.close();
        // Segments are of connections, which go on: they leave when all is over.
        let segments = self.segments.take();
        let contents = self.contents();
        (self.pairing, self.finished, self.segments) = (rest, ended, segments);
        self.tally.unread = unread;
        contents
    }

    /// The flow of a connection.
    pub fn connection(&self, conn: usize) -> &Flow {
        &self.flows.list[self.tally.connections[conn] as usize]
    }
}

impl Take for Decoder {
    #[inline(always)]
    fn packet(&mut self, packet: &Packet<'_>) {
        Decoder::packet(self, packet);
    }

    fn packets(&self) -> u32 {
        self.packets
    }

    fn full(&self) -> Option<Error> {
        self.pairing.is_full().then_some(Error::TooMany)
    }
}

/// Which segments of connections are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    None,
    /// A sample: stretches of packets all over the capture.
    Some,
    All,
}

/// Read the ops of captures one after the other, as one; and the segments of their connections, and what replies say of
/// files, where they are asked for.
pub fn decode<I>(
    inputs: I,
    ranks: Ranks,
    segments: Wanted,
    files: bool,
    progress: &Progress,
) -> Result<(Decoder, Vec<File>), Error>
where
    I: IntoIterator<Item = std::io::Result<Box<dyn Read + Send>>>,
{
    let mut decoder = Decoder::new(ranks);
    decoder.keep_segments(segments);
    decoder.pairing.files.is_unwanted = !files;
    let files = read_all(inputs, &mut decoder, progress)?;
    decoder.finish();
    Ok((decoder, files))
}

/// Could a datagram of endpoints that have not spoken RPC before be an RPC message?
fn is_rpc(bytes: &[u8]) -> bool {
    // Over TCP the same bytes stand behind a record mark.
    let mut record = [0; 64];
    let visible = bytes.len().min(record.len() - 4);
    record[..4].copy_from_slice(&(1 << 31 | bytes.len() as u32).to_be_bytes());
    record[4..4 + visible].copy_from_slice(&bytes[..visible]);
    plausible(&record[..4 + visible], 28) != Plausible::No
}

mod contents;
mod tcp;
#[cfg(test)]
mod tests;
mod usual;
