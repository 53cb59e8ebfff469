//! Packets of one capture in, what tells each from all others out, so that those which are there twice are found, at any
//! distance (`nfslat/decode/twice.py`).

use std::hash::{BuildHasher, Hasher};

use crate::capture::{Error, Take};
use crate::container::Packet;
use crate::link::{self, ACK, Addr, FIN, Frame, SYN};
use crate::packets::Options;
use crate::table::table;

/// Rows: 38 bytes each.
const MOST_ROWS: usize = if cfg!(test) { 4096 } else { 1 << 26 };

table! {
    /// A row for each packet, whatever it is (`nfslat.decode.twice.Prints`).
    pub struct Prints of PrintRow {
        /// 0: it may be like others.
        print: u64,
        t_ns: i64,
        /// Its connection, and in which direction of that it goes.
        of: u64,
        direction: i8,
        /// Where it was seen (`Packet::point`).
        point: u32,
        /// Of TCP, the number behind its last byte, and what it acknowledges, where it does.
        end: u32,
        ack: u32,
        has_ack: u8,
    }
}

/// Takes the packets of one capture.
#[derive(Default)]
pub struct Printer {
    pub rows: Prints,
    /// Of the first packets only so many are wanted.
    wanted: Option<usize>,
    hasher: hashbrown::DefaultHashBuilder,
}

impl Printer {
    pub fn new(wanted: Option<usize>) -> Printer {
        Printer { wanted, ..Printer::default() }
    }

    fn sum(&self, words: &[u128]) -> u64 {
        let mut hasher = self.hasher.build_hasher();
        words.iter().for_each(|word| hasher.write_u128(*word));
        hasher.finish().max(1)
    }

    fn row(&self, packet: &Packet<'_>) -> PrintRow {
        let mut row = PrintRow {
            print: 0,
            t_ns: packet.t_ns,
            of: 0,
            direction: 0,
            point: packet.point(),
            end: 0,
            ack: 0,
            has_ack: 0,
        };
        let mut hosts = |src: Addr, dst: Addr, sport: u16, dport: u16| {
            let (one, other) = ((src, sport), (dst, dport));
            row.direction = i8::from(one > other);
            let (low, high) = if one <= other { (one, other) } else { (other, one) };
            row.of = self.sum(&[low.0, high.0, u128::from(low.1) << 16 | u128::from(high.1)]);
        };
        match link::dissect(packet.link, packet.captured, packet.wire_len) {
            Frame::Tcp(ends, segment) => {
                hosts(ends.src, ends.dst, ends.sport, ends.dport);
                let ts_val = Options::of(&segment).ts_val;
                let numbers = u128::from(segment.seq) << 32 | u128::from(segment.ack);
                let marks = u128::from(segment.flags) << 48 | u128::from(segment.ip_id) << 32 | u128::from(ts_val);
                // Not its length: the sender's adapter may cut it, and that of the receiver put it together again.
                row.print = self.sum(&[u128::from(row.of), row.direction as u128, numbers, marks]);
                let flags = u32::from(segment.flags & SYN != 0) + u32::from(segment.flags & FIN != 0);
                row.end = segment.seq.wrapping_add(segment.len).wrapping_add(flags);
                (row.ack, row.has_ack) = (segment.ack, u8::from(segment.flags & ACK != 0));
            }
            Frame::Udp(ends, datagram) => {
                hosts(ends.src, ends.dst, ends.sport, ends.dport);
                let front = datagram.bytes.first_chunk::<8>().map_or(0, |front| u64::from_be_bytes(*front));
                let marks = u128::from(front) << 48 | u128::from(datagram.ip_id) << 32 | u128::from(datagram.len);
                row.print = self.sum(&[u128::from(row.of), row.direction as u128, marks]);
            }
            Frame::Fragment(part) => {
                hosts(part.src, part.dst, 0, 0);
                let marks = u128::from(part.id) << 64 | u128::from(part.offset) << 32 | u128::from(part.len);
                row.print = self.sum(&[u128::from(row.of), row.direction as u128, marks]);
            }
            Frame::Other => {}
        }
        row
    }
}

impl Take for Printer {
    fn packet(&mut self, packet: &Packet<'_>) {
        let row = self.row(packet);
        self.rows.push_row(row);
    }

    fn packets(&self) -> u32 {
        self.rows.print.len() as u32
    }

    fn full(&self) -> Option<Error> {
        if self.wanted.is_some_and(|wanted| self.rows.print.len() >= wanted) {
            return Some(Error::Stopped);
        }
        (self.rows.print.len() > MOST_ROWS).then_some(Error::TooManyRows(MOST_ROWS))
    }
}

/// What packets carry that is not read here: of the first ones of a capture, how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unreadable {
    pub packets: u64,
    /// RDMA over Ethernet, and those of them in which a call of NFS stands.
    pub rdma: u64,
    pub rdma_nfs: u64,
    /// TLS on NFS's port.
    pub tls: u64,
}

impl Unreadable {
    const ROCE_V1: [u8; 2] = [0x89, 0x15];
    const ROCE_V2: u16 = 4791;
    const NFS_PORT: u16 = 2049;
    const NFS: [u8; 4] = [0, 1, 0x86, 0xa3];

    pub fn look(&mut self, packet: &Packet<'_>) {
        self.packets += 1;
        let bytes = match link::dissect(packet.link, packet.captured, packet.wire_len) {
            Frame::Udp(ends, datagram) if ends.dport == Self::ROCE_V2 => datagram.bytes,
            Frame::Tcp(ends, segment) if ends.sport == Self::NFS_PORT || ends.dport == Self::NFS_PORT => {
                // A record of a known type and version, and no longer than one may be (RFC 8446 section 5.1).
                let is_record = matches!(*segment.bytes, [0x14..=0x17, 3, 0..=4, high, ..] if high <= 0x41);
                self.tls += u64::from(is_record);
                return;
            }
            Frame::Other if packet.link == 1 && packet.captured.get(12..14) == Some(&Self::ROCE_V1) => {
                &packet.captured[14..]
            }
            _ => return,
        };
        self.rdma += 1;
        self.rdma_nfs += u64::from(bytes.windows(4).take(256).any(|word| *word == Self::NFS));
    }
}
