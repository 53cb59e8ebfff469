//! One host's capture: packets into a pcap file.

use std::fs::File;
use std::io::{self, BufWriter, Write};

use crate::options::Options;

pub const CLIENT: usize = 0;
pub const SERVER: usize = 1;

/// 2023-11-14 22:13:20 UTC, where the simulation's time begins.
const EPOCH_NS: i64 = 1_700_000_000_000_000_000;

/// Ethernet, IPv4, TCP with timestamps.
const HEADERS: usize = 14 + 20 + 32;

const ADDRESSES: [[u8; 4]; 2] = [[192, 0, 2, 2], [192, 0, 2, 1]];
const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]];

/// High ports: below 1024 some belong to other protocols, and programs that go by the port lose these connections.
pub fn client_port(connection: u16) -> u16 {
    44_000 + connection
}

pub const SYN: u8 = 0x02;
pub const ACK: u8 = 0x10;
pub const PUSH: u8 = 0x08;

/// A TCP segment without its payload.
pub struct Segment {
    pub connection: u16,
    /// The host that sends it.
    pub from: usize,
    pub sequence: u32,
    pub acknowledged: u32,
    pub flags: u8,
    pub length: u32,
}

pub struct Capture {
    out: BufWriter<File>,
    snaplen: usize,
    nanoseconds: bool,
    offset_ns: i64,
    drift: f64,
    ip_id: u16,
    bytes: u64,
    pub packets: u64,
    pub missed: u64,
    packet: Vec<u8>,
}

impl Capture {
    pub fn create(options: &Options, host: usize) -> io::Result<Capture> {
        let name = format!("{}.{}.pcap", options.prefix, ["client", "server"][host]);
        let mut out = BufWriter::with_capacity(1 << 20, File::create(name)?);
        let snaplen = if options.snaplen == 0 { 262_144 } else { options.snaplen as usize };
        let magic: u32 = if options.microseconds { 0xa1b2_c3d4 } else { 0xa1b2_3c4d };
        // Version 2.4, no time zone, no accuracy, Ethernet.
        for word in [magic, 0x0004_0002, 0, 0, snaplen as u32, 1] {
            out.write_all(&word.to_le_bytes())?;
        }
        Ok(Capture {
            out,
            snaplen,
            nanoseconds: !options.microseconds,
            offset_ns: if host == SERVER { (options.offset_s * 1e9) as i64 } else { 0 },
            drift: if host == SERVER { options.drift_ppm * 1e-6 } else { 0.0 },
            ip_id: 0,
            bytes: 24,
            packets: 0,
            missed: 0,
            packet: Vec::new(),
        })
    }

    /// This host's clock, given the simulation's time.
    pub fn clock(&self, now: i64) -> i64 {
        EPOCH_NS + self.offset_ns + now + (now as f64 * self.drift) as i64
    }

    /// Bytes of payload that are kept of a segment.
    pub fn kept(&self, segment: &Segment) -> usize {
        (segment.length as usize).min(self.snaplen.saturating_sub(HEADERS))
    }

    /// Writes a segment; `fill` puts into place what is not zero in the payload that is kept.
    pub fn write(&mut self, now: i64, segment: &Segment, fill: impl FnOnce(&mut [u8])) -> io::Result<()> {
        let kept = self.kept(segment);
        let wire = HEADERS + segment.length as usize;
        let captured = wire.min(self.snaplen);
        let time = self.clock(now);
        let fraction = time.rem_euclid(1_000_000_000) / if self.nanoseconds { 1 } else { 1000 };
        self.packet.clear();
        for word in [time.div_euclid(1_000_000_000) as u32, fraction as u32, captured as u32, wire as u32] {
            self.packet.extend_from_slice(&word.to_le_bytes());
        }
        self.headers(segment, now);
        self.packet.truncate(16 + captured);
        self.packet.resize(16 + captured, 0);
        if kept > 0 {
            fill(&mut self.packet[16 + HEADERS..]);
        }
        self.packets += 1;
        self.bytes += self.packet.len() as u64;
        self.out.write_all(&self.packet)
    }

    fn headers(&mut self, segment: &Segment, now: i64) {
        let to = 1 - segment.from;
        let packet = &mut self.packet;
        packet.extend_from_slice(&MACS[to]);
        packet.extend_from_slice(&MACS[segment.from]);
        packet.extend_from_slice(&[0x08, 0x00]);

        let ip = packet.len();
        packet.extend_from_slice(&[0x45, 0]);
        packet.extend_from_slice(&((HEADERS - 14) as u16 + segment.length as u16).to_be_bytes());
        packet.extend_from_slice(&self.ip_id.to_be_bytes());
        self.ip_id = self.ip_id.wrapping_add(1);
        packet.extend_from_slice(&[0x40, 0, 64, 6, 0, 0]);
        packet.extend_from_slice(&ADDRESSES[segment.from]);
        packet.extend_from_slice(&ADDRESSES[to]);
        let sum: u32 = packet[ip..].chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]]))).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = (sum & 0xffff) + (sum >> 16);
        packet[ip + 10..ip + 12].copy_from_slice(&(!(sum as u16)).to_be_bytes());

        let client = client_port(segment.connection);
        let ports = if segment.from == CLIENT { [client, 2049] } else { [2049, client] };
        packet.extend_from_slice(&ports[0].to_be_bytes());
        packet.extend_from_slice(&ports[1].to_be_bytes());
        packet.extend_from_slice(&segment.sequence.to_be_bytes());
        packet.extend_from_slice(&segment.acknowledged.to_be_bytes());
        // 32 bytes of header, a window of 8192. The sum is left open, as a host does that leaves it to its card.
        packet.extend_from_slice(&[0x80, segment.flags, 0x20, 0, 0, 0, 0, 0]);
        let milliseconds = (now / 1_000_000) as u32;
        packet.extend_from_slice(&[1, 1, 8, 10]);
        packet.extend_from_slice(&milliseconds.to_be_bytes());
        packet.extend_from_slice(&milliseconds.to_be_bytes());
    }

    /// Returns the size of the file.
    pub fn finish(mut self) -> io::Result<u64> {
        self.out.flush()?;
        Ok(self.bytes)
    }
}
