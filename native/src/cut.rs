//! Packets of one file in, those of some messages out, as a capture in which a dissector sees what it sees in the whole.
//!
//! With the packets of a message go those with which its connection begins: sequence numbers count from them.

use std::io;
use std::path::PathBuf;

use hashbrown::HashMap;

use crate::capture::{Error, Progress, Take, read_all};
use crate::container::Packet;
use crate::link::{self, ACK, Addr, Ends, Frame, SYN};
use crate::split::Slice;

/// Packets between two numbers of the file, both included, from one end of a connection to the other; None: all of them.
#[derive(Clone, Copy)]
pub struct Span {
    pub first: u32,
    pub last: u32,
    pub ends: Option<Ends>,
}

type Way = (Addr, u16, Addr, u16);

fn way(ends: &Ends) -> Way {
    (ends.src, ends.sport, ends.dst, ends.dport)
}

fn back(ends: &Ends) -> Way {
    (ends.dst, ends.dport, ends.src, ends.sport)
}

/// Takes the packets of one file, in its order.
struct Cut<'a> {
    out: Slice,
    /// By their first packets.
    spans: &'a [Span],
    begun: usize,
    active: Vec<Span>,
    /// Connection and direction of what is looked for; of each direction whether it is known where its numbers begin.
    ways: HashMap<Way, (usize, usize)>,
    has_begun: Vec<[bool; 2]>,
    last: u32,
    packets: u32,
    numbers: Vec<u32>,
    failed: Option<io::Error>,
}

impl<'a> Cut<'a> {
    fn new(out: Slice, spans: &'a [Span]) -> Cut<'a> {
        let (mut ways, mut has_begun) = (HashMap::new(), Vec::new());
        for ends in spans.iter().filter_map(|span| span.ends) {
            ways.entry(way(&ends)).or_insert_with(|| {
                has_begun.push([false; 2]);
                (has_begun.len() - 1, 0)
            });
            let connection = ways[&way(&ends)];
            ways.entry(back(&ends)).or_insert((connection.0, 1 - connection.1));
        }
        let last = spans.iter().map(|span| span.last).max().unwrap_or_default();
        Cut {
            out,
            spans,
            begun: 0,
            active: Vec::new(),
            ways,
            has_begun,
            last,
            packets: 0,
            numbers: Vec::new(),
            failed: None,
        }
    }

    /// Does its connection begin with this segment, as far as the file shows? A SYN begins a new one.
    fn is_begin(&mut self, ends: &Ends, flags: u8) -> bool {
        let Some((connection, direction)) = self.ways.get(&way(ends)).copied() else { return false };
        let has_begun = &mut self.has_begun[connection];
        let has_ack = flags & ACK != 0;
        if flags & SYN != 0 {
            has_begun[direction] = true;
            has_begun[1 - direction] = has_ack;
            return true;
        }
        let is_known = has_begun[0] && has_begun[1];
        has_begun[direction] = true;
        has_begun[1 - direction] |= has_ack;
        !is_known
    }

    fn is_wanted(&mut self, packet: &Packet<'_>) -> bool {
        let number = self.packets;
        while let Some(span) = self.spans.get(self.begun).filter(|span| span.first <= number) {
            self.active.push(*span);
            self.begun += 1;
        }
        self.active.retain(|span| span.last >= number);
        if self.ways.is_empty() {
            return !self.active.is_empty();
        }
        let frame = link::dissect(packet.link, packet.captured, packet.wire_len);
        let is_begin = matches!(&frame, Frame::Tcp(ends, segment) if self.is_begin(ends, segment.flags));
        let is_of = |span: &Span| match (&span.ends, &frame) {
            (None, _) => true,
            (Some(wanted), Frame::Tcp(ends, _) | Frame::Udp(ends, _)) => wanted == ends,
            (Some(wanted), Frame::Fragment(part)) => (wanted.src, wanted.dst) == (part.src, part.dst),
            (Some(_), Frame::Other) => false,
        };
        is_begin || self.active.iter().any(is_of)
    }
}

impl Take for Cut<'_> {
    fn packet(&mut self, packet: &Packet<'_>) {
        self.packets += 1;
        if self.packets > self.last || !self.is_wanted(packet) {
            return;
        }
        match self.out.packet(packet, self.packets) {
            Ok(()) => self.numbers.push(self.packets),
            Err(error) => self.failed = self.failed.take().or(Some(error)),
        }
    }

    fn packets(&self) -> u32 {
        self.packets
    }

    fn full(&self) -> Option<Error> {
        (self.packets >= self.last).then_some(Error::Stopped)
    }

    fn is_in_order(&self) -> bool {
        true
    }
}

/// Write to `out` what is in `spans`, which are in the order of their first packets; the numbers of these packets.
pub fn cut(input: io::Result<Box<dyn io::Read + Send>>, out: &PathBuf, spans: &[Span]) -> Result<Vec<u32>, Error> {
    let failed = |error| Error::Write { out: 0, error };
    let mut cut = Cut::new(Slice::create(out).map_err(failed)?, spans);
    match read_all([input], &mut cut, &Progress::default()) {
        Err(Error::Stopped) => {}
        done => drop(done?),
    }
    cut.failed.map_or(Ok(()), Err).map_err(failed)?;
    cut.out.flush().map_err(failed)?;
    Ok(cut.numbers)
}

#[cfg(test)]
mod tests;
