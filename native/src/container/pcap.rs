//! pcap records in, packets out (draft-ietf-opsawg-pcap; for A. Kuznetsov's modified records libpcap's sf-pcap.c).

use super::{Order, Record, Stop, Time, check_length, longest_packet};
use crate::source::Source;

/// Bytes of the file's header.
const HEADER: usize = 24;

/// What the magic number says.
#[derive(Clone, Copy)]
pub struct Variant {
    /// The name that `capinfos -M` has for it.
    pub name: &'static str,
    order: Order,
    /// Nanoseconds in the smaller unit of a record's time.
    unit_ns: i64,
    /// Bytes in front of each packet.
    record: usize,
}

impl Variant {
    /// The variant that a file begins with.
    pub fn of(first: [u8; 8]) -> Option<Variant> {
        [Order::Little, Order::Big].into_iter().find_map(|order| {
            let (name, unit_ns, record) = match order.u32(&first, 0) {
                0xa1b2_c3d4 => ("pcap", 1000, 16),
                0xa1b2_3c4d => ("nsecpcap", 1, 16),
                // 8 bytes more: the interface's index, protocol and packet type in a kernel that is long gone.
                0xa1b2_cd34 => ("modpcap", 1000, 24),
                _ => return None,
            };
            Some(Variant { name, order, unit_ns, record })
        })
    }
}

/// The order of a record's two lengths: until version 2.2 that on the wire came first, in 2.3 with some writers.
#[derive(Clone, Copy)]
enum Lengths {
    InOrder,
    Swapped,
    ByValue,
}

/// A pcap file behind its header.
pub struct Pcap {
    variant: Variant,
    lengths: Lengths,
    pub link: u16,
    longest: u32,
}

impl Pcap {
    /// Reads the file's header.
    pub fn open(variant: Variant, source: &mut Source) -> Result<Pcap, Stop> {
        if !source.ensure(HEADER) {
            return Err(Stop::Cut);
        }
        let header = source.held();
        let (major, minor) = (variant.order.u16(header, 4), variant.order.u16(header, 6));
        if major != 2 {
            return Err(Stop::Bad(format!("pcap version {major}.{minor} is not known")));
        }
        let lengths = match minor {
            0..3 => Lengths::Swapped,
            3 => Lengths::ByValue,
            _ => Lengths::InOrder,
        };
        // The upper half says how long the frame check sequence is; its bytes are counted as the packet's.
        let link = variant.order.u32(header, 20) as u16;
        source.take(HEADER);
        Ok(Pcap { variant, lengths, link, longest: longest_packet(link) })
    }

    /// The next packet.
    #[inline]
    pub fn next(&mut self, source: &mut Source) -> Result<Record, Stop> {
        let Variant { order, unit_ns, record, .. } = self.variant;
        if !source.ensure(record) {
            return Err(if source.held().is_empty() { Stop::End } else { Stop::Cut });
        }
        let head = &source.held()[..16];
        let [seconds, fraction, mut captured, mut wire] = [0, 4, 8, 12].map(|at| order.u32(head, at));
        match self.lengths {
            Lengths::InOrder => {}
            Lengths::ByValue if captured <= wire => {}
            Lengths::ByValue | Lengths::Swapped => (captured, wire) = (wire, captured),
        }
        if head.iter().all(|byte| *byte == 0) {
            return Err(Stop::Bad("comes one of nothing".to_owned()));
        }
        check_length(captured, self.longest)?;
        let length = record + captured as usize;
        if !source.ensure(length) {
            return Err(Stop::Cut);
        }
        // The sum of two 32-bit numbers times at most 10^9 and 10^3: 64 bits hold it.
        let t_ns = i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * unit_ns;
        let start = source.take(length) + record;
        Ok(Record { time: Time::Ns(t_ns), link: self.link, start, captured, wire, interface: 0, id: 0 })
    }

    /// The same where the next packet is held and has its lengths in order: its time, both lengths, and the bytes taken
    /// up. None, and nothing is taken, where it takes more to tell.
    #[inline(always)]
    pub fn held(&self, held: &[u8]) -> Option<(i64, u32, u32, usize)> {
        let Variant { order, unit_ns, record, .. } = self.variant;
        let head: &[u8; 16] = held.first_chunk()?;
        let (seconds, fraction) = (order.u32(head, 0), order.u32(head, 4));
        let (captured, wire) = (order.u32(head, 8), order.u32(head, 12));
        let length = record + captured as usize;
        let is_usual =
            matches!(self.lengths, Lengths::InOrder) && captured <= wire && captured <= self.longest && wire > 0;
        let t_ns = i64::from(seconds) * 1_000_000_000 + i64::from(fraction) * unit_ns;
        (is_usual && length <= held.len()).then_some((t_ns, captured, wire, record))
    }
}
