//! Packets of one capture in, what is known of each pair of IP addresses that shows RPC out: a `Decoder` for each.
//!
//! A server's capture holds all of its clients, and nothing that is made of one of them depends on another. Frame numbers
//! are those of the whole capture. What each decoder met in which turn is kept, so that `nfslat/decode/merge.py` can put
//! their tables together in the order in which one decoder for all makes them.

use std::io::Read;

use hashbrown::{HashMap, HashSet};

use crate::capture::{Error, File, Progress, Take, read_all};
use crate::compound::Ranks;
use crate::container::Packet;
use crate::decoder::{At, Decoder, Kind, Wanted};
use crate::feed::Hosts;
use crate::flows::{self, Flows};
use crate::fragments::Fragments;
use crate::link::{self, Addr, Frame};
use crate::pace::Pace;
use crate::table::table;

/// Pairs with a decoder of their own; those that come later share one.
const MOST: usize = if cfg!(test) { 8 } else { 4096 };
/// The last ones, so that most packets need no hashing; a power of 2.
const RECENT: usize = 256;
/// The turn of what is met when there are no more packets, but for the connection that it is of.
const END: u64 = (i32::MAX as u64) << 32;

/// What is numbered in the order in which it is met; a turn for each.
pub const LISTS: [&str; 6] = ["connection", "kind", "session", "name", "handle", "created"];

table! {
    /// When the items of each list were met, list after list (`nfslat.model.details.Turns`).
    pub struct Turns of Turn {
        of: i8,
        turn: i64,
        service: i64,
    }
}

/// The packets of one pair of addresses.
pub struct Part {
    /// Those that all its packets have; None where it is what is left.
    pub hosts: Option<Hosts>,
    pub decoder: Decoder,
    /// Of each list of `LISTS`, in its order: when each item was met. They never go back.
    pub turns: [Vec<u64>; LISTS.len()],
}

impl Part {
    fn new(hosts: Option<Hosts>, ranks: Ranks) -> Part {
        let mut decoder = Decoder::new(ranks);
        decoder.flows = Flows::small();
        Part { hosts, decoder, turns: Default::default() }
    }

    /// What is new was met in this turn.
    #[inline]
    fn note(decoder: &Decoder, turns: &mut [Vec<u64>; LISTS.len()], turn: u64) {
        let pairing = &decoder.pairing;
        let lengths = [
            decoder.tally.connections.len(),
            pairing.kinds.list.len(),
            pairing.slots.sessions.len(),
            pairing.names.count(),
            pairing.files.handles.count(),
            pairing.slots.created.len(),
        ];
        for (turns, length) in turns.iter_mut().zip(lengths) {
            if turns.len() < length {
                turns.resize(length, turn);
            }
        }
    }

    fn finish(&mut self) {
        let Part { decoder, turns, .. } = self;
        decoder.finish_each(|decoder, begun| Part::note(decoder, turns, END | u64::from(begun)));
    }

    pub fn turns(&self) -> Turns {
        let mut table = Turns::default();
        for (number, turns) in self.turns.iter().enumerate() {
            let mut kinds = self.decoder.pairing.kinds.list.iter().filter(|_| LISTS[number] == "kind");
            for turn in turns {
                let service = kinds.next().map_or(-1, |kind| i64::from(kind.service));
                table.push_row(Turn { of: number as i8, turn: *turn as i64, service });
            }
        }
        table
    }

    /// Did it show RPC?
    pub fn has_rpc(&self) -> bool {
        !self.decoder.tally.connections.is_empty()
    }
}

/// Takes the packets of one capture.
pub struct Apart {
    ranks: Ranks,
    /// Segments are kept of pairs in which none of these hosts is; None: of no pair.
    without: Option<HashSet<Addr>>,
    /// In the order in which they showed RPC, once it is over; what is in none of them is in `rest`.
    pub parts: Vec<Part>,
    pub rest: Part,
    /// Of all packets.
    pub pace: Pace,
    packets: u32,
    /// Of a slice's files: what to add to the numbers that their packets have.
    offsets: Option<Vec<u32>>,
    file: usize,
    /// Packets in front of this file, and the number of the last packet.
    before: u32,
    number: u32,
    /// File, and number in it of a packet that has not the number of one of a slice.
    astray: Option<(usize, u32)>,
    by_hosts: HashMap<Hosts, u32>,
    recent: Vec<(Hosts, u32)>,
    /// Of all parts: so that together they hold no more than one decoder does.
    fragments: Fragments,
    flows: usize,
    held_bytes: usize,
    collected_bytes: usize,
}

impl Apart {
    pub fn new(ranks: Ranks) -> Apart {
        Apart {
            rest: Part::new(None, ranks.clone()),
            ranks,
            without: None,
            parts: Vec::new(),
            pace: Pace::default(),
            packets: 0,
            offsets: None,
            file: 0,
            before: 0,
            number: 0,
            astray: None,
            by_hosts: HashMap::new(),
            // No packet is from nobody to nobody, and if one is, it goes to the first part.
            recent: vec![((0, 0), u32::MAX); RECENT],
            fragments: Fragments::default(),
            flows: 0,
            held_bytes: 0,
            collected_bytes: 0,
        }
    }

    /// Keep segments, but for pairs with one of `without`; to be said before the first packet.
    pub fn keep_segments(&mut self, without: HashSet<Addr>) {
        self.rest.decoder.keep_segments(Wanted::All);
        self.without = Some(without);
    }

    /// Of slices (`split`): of each file how many packets were in what was split before.
    pub fn of_slices(ranks: Ranks, offsets: Vec<u32>) -> Apart {
        Apart { offsets: Some(offsets), ..Apart::new(ranks) }
    }

    /// The number in its slice as that in the whole capture. They go up.
    fn numbered(&self, offsets: &[u32], id: u64) -> Option<u32> {
        let offset = u64::from(*offsets.get(self.file)?);
        let number = u32::try_from(id.checked_add(offset)?).ok()?;
        (id > 0 && number > self.number && number <= i32::MAX as u32).then_some(number)
    }

    /// The part of a pair of addresses, in either order.
    #[inline]
    fn part(&mut self, one: Addr, other: Addr) -> &mut Part {
        let hosts = if one <= other { (one, other) } else { (other, one) };
        let mixed = (one ^ other) as u64;
        let slot = (mixed ^ mixed >> 8 ^ mixed >> 19) as usize & (RECENT - 1);
        let (known, number) = self.recent[slot];
        if known == hosts && number != u32::MAX {
            return &mut self.parts[number as usize];
        }
        self.look_up(hosts, slot)
    }

    fn look_up(&mut self, hosts: Hosts, slot: usize) -> &mut Part {
        let number = match self.by_hosts.get(&hosts) {
            Some(number) => *number,
            None if self.parts.len() >= MOST => return &mut self.rest,
            None => {
                let number = self.parts.len() as u32;
                let mut part = Part::new(Some(hosts), self.ranks.clone());
                if self.without.as_ref().is_some_and(|known| !known.contains(&hosts.0) && !known.contains(&hosts.1)) {
                    part.decoder.keep_segments(Wanted::All);
                }
                self.parts.push(part);
                self.by_hosts.insert(hosts, number);
                number
            }
        };
        self.recent[slot] = (hosts, number);
        &mut self.parts[number as usize]
    }

    /// Hand a packet to the part of its addresses.
    #[inline]
    fn hand(&mut self, (src, dst): (Addr, Addr), frame: &Frame<'_>, at: At, first: (u32, i64)) {
        let (flows, held_bytes, collected_bytes) = (self.flows, self.held_bytes, self.collected_bytes);
        let part = self.part(src, dst);
        let Part { decoder, turns, .. } = part;
        let before = decoder.flows.list.len();
        if flows >= flows::MOST {
            decoder.flows.most = before.max(1);
        }
        (decoder.tally.held_bytes, decoder.tally.collected_bytes) = (held_bytes, collected_bytes);
        decoder.dissected(frame, at, first);
        Part::note(decoder, turns, u64::from(at.number) << 32);
        let flows = flows + decoder.flows.list.len() - before;
        let (held_bytes, collected_bytes) = (decoder.tally.held_bytes, decoder.tally.collected_bytes);
        (self.flows, self.held_bytes, self.collected_bytes) = (flows, held_bytes, collected_bytes);
    }

    fn incomplete(&mut self) {
        for lost in self.fragments.incomplete() {
            self.part(lost.src, lost.dst).decoder.incomplete(&lost);
        }
    }

    /// No more packets. Parts without RPC become part of the rest.
    fn finish(&mut self) {
        self.fragments.end();
        self.incomplete();
        for part in self.parts.iter_mut().chain([&mut self.rest]) {
            part.decoder.tally.held_bytes = self.held_bytes;
            part.decoder.tally.collected_bytes = self.collected_bytes;
            part.finish();
            self.held_bytes = part.decoder.tally.held_bytes;
            self.collected_bytes = part.decoder.tally.collected_bytes;
        }
        let rest = &mut self.rest.decoder;
        self.parts.retain(|part| {
            if !part.has_rpc() {
                rest.fold(&part.decoder);
            }
            part.has_rpc()
        });
        self.parts.sort_by_key(|part| part.turns[0].first().copied());
        self.by_hosts = HashMap::new();
        self.recent = Vec::new();
    }
}

impl Take for Apart {
    #[inline]
    fn packet(&mut self, packet: &Packet<'_>) {
        self.packets += 1;
        self.number = match &self.offsets {
            None => self.packets,
            Some(offsets) => match self.numbered(offsets, packet.id) {
                Some(number) => number,
                None => {
                    self.astray.get_or_insert((self.file, self.packets - self.before));
                    return;
                }
            },
        };
        self.pace.packet(packet.t_ns);
        let at = At::of(packet, self.number);
        let own = (at.number, at.t_ns);
        let frame = link::dissect(packet.link, packet.captured, packet.wire_len);
        match &frame {
            Frame::Tcp(ends, _) | Frame::Udp(ends, _) => self.hand((ends.src, ends.dst), &frame, at, own),
            Frame::Other => self.rest.decoder.count(at, Kind::Other),
            Frame::Fragment(part) => {
                // Of a tunnel the packet is another pair's than its fragments.
                let outer = (part.src, part.dst);
                let whole = self.fragments.take(part, at.number, at.t_ns);
                self.incomplete();
                let inner = whole.as_ref().map_or(Frame::Other, |whole| {
                    link::dissect_payload(whole.proto, whole.src, whole.dst, &whole.bytes, whole.len)
                });
                let first = whole.as_ref().map_or(own, |whole| (whole.first_frame, whole.first_ns));
                match &inner {
                    Frame::Tcp(ends, _) | Frame::Udp(ends, _) => self.hand((ends.src, ends.dst), &inner, at, first),
                    Frame::Fragment(_) | Frame::Other => {
                        self.part(outer.0, outer.1).decoder.count(at, Kind::IpFragment);
                    }
                }
            }
        }
    }

    fn file(&mut self, number: usize) {
        self.file = number;
        self.before = self.packets;
    }

    fn packets(&self) -> u32 {
        self.packets
    }

    /// Those of slices are: `Split` took them so.
    fn is_in_order(&self) -> bool {
        self.offsets.is_some()
    }

    fn full(&self) -> Option<Error> {
        if let Some((file, packet)) = self.astray {
            return Some(Error::Number { file, packet });
        }
        let parts = self.parts.iter().chain([&self.rest]);
        parts.map(|part| &part.decoder).any(|decoder| decoder.pairing.is_full()).then_some(Error::TooMany)
    }
}

/// Let `apart` read the ops of captures one after the other, as one.
pub fn decode_apart<I>(inputs: I, mut apart: Apart, progress: &Progress) -> Result<(Apart, Vec<File>), Error>
where
    I: IntoIterator<Item = std::io::Result<Box<dyn Read + Send>>>,
{
    let files = read_all(inputs, &mut apart, progress)?;
    apart.full().map_or(Ok(()), Err)?;
    apart.finish();
    Ok((apart, files))
}

#[cfg(test)]
pub(crate) mod tests;
