//! Endpoints in, the connection that they belong to out; bounded in number.

use hashbrown::HashMap;

use crate::copies::Copies;
use crate::feed::Shared;
use crate::link::{Addr, Ends, Segment};
use crate::loads::Load;
use crate::place::NO_CONN;
use crate::segments::Talk;
use crate::stream::Stream;
use crate::traffic::Traffic;
use crate::waits::{Reset, Wait, Waits};

/// Connections kept at once. Beyond it those without RPC that have been silent longest are forgotten.
pub const MOST: usize = if cfg!(test) { 64 } else { 1 << 17 };
/// A power of 2.
const RECENT: usize = 4096;
/// Where many decoders share the memory: to begin with, and so many for each connection.
const FEW_RECENT: usize = 64;
const RECENT_EACH: usize = 8;
/// Datagrams between two copies of one.
const COPIES: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    low: (Addr, u16),
    high: (Addr, u16),
    is_udp: bool,
}

/// What tells a datagram from its neighbours, and a copy of it not.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Print {
    pub ip_id: u16,
    pub seq: u32,
    pub ack: u32,
    pub len: u32,
}

/// A TCP connection, all its reconnects included, or a pair of UDP endpoints. Direction 0 is that of its first packet.
pub struct Flow {
    key: Key,
    pub first: Ends,
    pub shared: Shared,
    pub streams: [Stream; 2],
    pub traffic: [Traffic; 2],
    pub waits: Waits,
    pub resets: [Option<Box<Reset>>; 2],
    pub loads: [Load; 2],
    /// Kept where it is asked for.
    pub talk: Option<Box<Talk>>,
    /// How many TCP connections there were before between these endpoints.
    pub reconnects: u32,
    /// Number of its first packet in the capture.
    pub begun: u32,
    pub last_ns: i64,
    last_packet: u64,
    /// The last datagram of each direction, as long as there was no RPC.
    last: [Print; 2],
    datagrams: Option<Box<[[Print; COPIES]; 2]>>,
    /// Made for the first segment with data: a capture may hold very many connections that have none.
    pub copies: Option<Box<Copies>>,
}

impl Flow {
    /// It has a packet with this number.
    #[inline]
    pub fn begins_in(&mut self, number: u32) {
        if self.begun == 0 {
            self.begun = number;
        }
    }

    /// The connection that its loads are of. Datagrams with RPC are in none: what is counted over UDP came before them.
    pub fn loaded_conn(&self) -> u32 {
        if self.shared.is_udp { NO_CONN } else { self.shared.conn }
    }

    /// From whom to whom in a direction.
    pub fn ends(&self, direction: usize) -> Ends {
        let Ends { src, dst, sport, dport } = self.first;
        if direction == 0 { self.first } else { Ends { src: dst, dst: src, sport: dport, dport: sport } }
    }

    /// What its ends wait for now.
    pub fn open_waits(&self) -> Vec<Wait> {
        let heard_ns = |other: &Traffic| (other.packets > 0).then_some(other.last_ns);
        let [forward, backward] = &self.traffic;
        let origins = [0, 1].map(|direction: usize| self.streams[direction].position(0).1);
        self.waits.open(origins, [heard_ns(backward), heard_ns(forward)])
    }

    /// Was this segment captured before (`Copies`)? Told of connections that have shown RPC.
    #[inline]
    pub fn is_segment_copy(&mut self, direction: usize, point: u32, segment: &Segment<'_>, t_ns: i64) -> bool {
        let is_rpc = self.shared.conn != NO_CONN;
        match &mut self.copies {
            Some(copies) if is_rpc => return copies.is_copy(direction, point, segment, t_ns),
            Some(copies) => copies.keep(direction, point, segment, t_ns),
            none if segment.len > 0 => none.get_or_insert_default().keep(direction, point, segment, t_ns),
            _ => {}
        }
        false
    }

    /// Was this very datagram captured just before? Only where its sender counts its packets (IPv4 identification).
    #[inline]
    pub fn is_copy(&mut self, direction: usize, print: Print) -> bool {
        if print.ip_id == 0 {
            return false;
        }
        if self.shared.conn == NO_CONN {
            self.last[direction] = print;
            return false;
        }
        let last = self.last;
        let copies = self.datagrams.get_or_insert_with(|| {
            let mut copies = Box::new([[Print::default(); COPIES]; 2]);
            copies.iter_mut().zip(last).for_each(|(copies, last)| copies[usize::from(last.ip_id) % COPIES] = last);
            copies
        });
        let slot = &mut copies[direction][usize::from(print.ip_id) % COPIES];
        let is_copy = *slot == print;
        *slot = print;
        is_copy
    }
}

#[derive(Clone, Copy)]
struct Recent {
    ends: Ends,
    is_udp: bool,
    direction: u8,
    flow: u32,
}

pub struct Flows {
    pub list: Vec<Flow>,
    /// No more than so many.
    pub most: usize,
    free: Vec<u32>,
    by_key: HashMap<Key, u32>,
    /// The last ones, so that most packets need no hashing.
    recent: Vec<Option<Recent>>,
    packets: u64,
    /// Not before this packet is it tried again to make room.
    try_again_at: u64,
}

impl Default for Flows {
    fn default() -> Flows {
        Flows::with(RECENT)
    }
}

impl Flows {
    /// One of many, most of which have few connections.
    pub fn small() -> Flows {
        Flows::with(FEW_RECENT)
    }

    fn with(recent: usize) -> Flows {
        Flows {
            list: Vec::new(),
            most: MOST,
            free: Vec::new(),
            by_key: HashMap::new(),
            recent: vec![None; recent],
            packets: 0,
            try_again_at: 0,
        }
    }

    /// The flow of a packet and its direction; None where there are too many connections already.
    ///
    /// `held_bytes` is what all streams hold; it becomes less where connections are forgotten.
    #[inline]
    pub fn find(&mut self, ends: &Ends, is_udp: bool, t_ns: i64, held_bytes: &mut usize) -> Option<(usize, usize)> {
        match self.recent(ends, is_udp) {
            Some((flow, direction)) => {
                self.is_used(flow);
                Some((flow, direction))
            }
            None => self.find_again(*ends, is_udp, t_ns, held_bytes),
        }
    }

    /// The same, where it is one of the last ones; `is_used` is to be said of it then.
    #[inline(always)]
    pub fn recent(&self, ends: &Ends, is_udp: bool) -> Option<(usize, usize)> {
        match &self.recent[self.slot(ends)] {
            Some(known) if known.ends == *ends && known.is_udp == is_udp => {
                Some((known.flow as usize, usize::from(known.direction)))
            }
            _ => None,
        }
    }

    /// None of them is one of the last ones.
    #[cfg(test)]
    pub fn forget_recent(&mut self) {
        self.recent.fill(None);
    }

    /// A packet of a flow.
    #[inline(always)]
    pub fn is_used(&mut self, flow: usize) {
        self.packets += 1;
        self.list[flow].last_packet = self.packets;
    }

    /// Where the flow of these ends is among the last ones.
    #[inline(always)]
    fn slot(&self, ends: &Ends) -> usize {
        let mixed = ends.sport ^ ends.dport.rotate_left(5) ^ (ends.src as u16).rotate_left(3) ^ ends.dst as u16;
        usize::from(mixed ^ mixed >> 10) & (self.recent.len() - 1)
    }

    #[cold]
    fn find_again(&mut self, ends: Ends, is_udp: bool, t_ns: i64, held_bytes: &mut usize) -> Option<(usize, usize)> {
        self.packets += 1;
        let flow = self.look_up(ends, is_udp, t_ns, held_bytes)?;
        let found = &mut self.list[flow as usize];
        found.last_packet = self.packets;
        let direction = u8::from(found.first != ends);
        let slot = self.slot(&ends);
        self.recent[slot] = Some(Recent { ends, is_udp, direction, flow });
        Some((flow as usize, usize::from(direction)))
    }

    fn look_up(&mut self, ends: Ends, is_udp: bool, t_ns: i64, held_bytes: &mut usize) -> Option<u32> {
        let (one, other) = ((ends.src, ends.sport), (ends.dst, ends.dport));
        let key = Key { low: one.min(other), high: one.max(other), is_udp };
        if let Some(flow) = self.by_key.get(&key) {
            return Some(*flow);
        }
        if self.by_key.len() >= self.most && self.packets >= self.try_again_at {
            self.forget(held_bytes);
            // Where nearly all have shown RPC it makes little room, and looks at all of them.
            self.try_again_at = self.packets + (MOST / 64) as u64;
        }
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.list.len() < self.most => self.list.len() as u32,
            None => return None,
        };
        let flow = Flow {
            key,
            first: ends,
            shared: Shared {
                flow: number,
                hosts: (key.low.0, key.high.0),
                conn: NO_CONN,
                is_udp,
                asks_tls: false,
                is_tls: false,
                since_ns: i64::MIN,
            },
            streams: Default::default(),
            traffic: Default::default(),
            waits: Waits::default(),
            resets: Default::default(),
            loads: Default::default(),
            talk: None,
            reconnects: 0,
            begun: 0,
            last_ns: t_ns,
            last_packet: 0,
            last: Default::default(),
            datagrams: None,
            copies: None,
        };
        if (number as usize) < self.list.len() {
            self.list[number as usize] = flow;
        } else {
            self.list.push(flow);
            let wanted = (RECENT_EACH * self.list.len()).next_power_of_two().min(RECENT);
            if wanted > self.recent.len() {
                self.recent = vec![None; wanted];
            }
        }
        self.by_key.insert(key, number);
        Some(number)
    }

    /// Make room: the half of the connections without RPC whose last packet lies longest back.
    fn forget(&mut self, held_bytes: &mut usize) {
        let mut idle: Vec<(u64, u32)> = self
            .by_key
            .values()
            .map(|flow| (self.list[*flow as usize].last_packet, *flow))
            .filter(|(_, flow)| self.list[*flow as usize].shared.conn == NO_CONN)
            .collect();
        idle.sort_unstable();
        idle.truncate(idle.len().div_ceil(2));
        for (_, flow) in idle {
            self.by_key.remove(&self.list[flow as usize].key);
            let streams = std::mem::take(&mut self.list[flow as usize].streams);
            self.list[flow as usize].waits = Waits::default();
            self.list[flow as usize].resets = Default::default();
            self.list[flow as usize].copies = None;
            self.list[flow as usize].talk = None;
            *held_bytes -= streams.iter().map(Stream::held_bytes).sum::<usize>();
            self.free.push(flow);
        }
        self.recent.fill(None);
    }
}

#[cfg(test)]
mod tests;
