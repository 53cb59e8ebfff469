//! Frames and RPC messages for tests, and a capture that takes them line by line: a timeline to check with a pencil.
//!
//! ```text
//! capture.at_us(100).tcp(&tcp(CLIENT, SERVER).seq(1).data(&record(&read(7, 0, 4096))));
//! ```

use proptest::test_runner::{Config, RngSeed};

use crate::columns::{State, WHOLE};
use crate::compound::tests::ranks;
use crate::container::Packet;
use crate::decoder::{Decoder, Wanted};
use crate::link::{ACK, Addr, Ends, SYN, Segment};
use crate::rpc::tests::build::{Bytes, words};

/// The last byte of a host's address, and its port.
pub type End = (u8, u16);

pub const CLIENT: End = (1, 700);
pub const SERVER: End = (2, 2049);
pub const HANDLE: &[u8] = b"a file";

/// The same cases in every run.
pub fn cases(cases: u32) -> Config {
    Config { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(2049), ..Config::default() }
}

// Addresses and headers.

pub fn v4(host: u8) -> [u8; 4] {
    [10, 0, 0, host]
}

pub fn v6(host: u8) -> [u8; 16] {
    let mut addr = [0; 16];
    (addr[0], addr[1], addr[15]) = (0xfd, 0x01, host);
    addr
}

/// An IPv4 address as `link` gives it.
pub fn addr4(host: u8) -> Addr {
    0xffff_0000_0000 | u128::from(u32::from_be_bytes(v4(host)))
}

pub fn addr6(host: u8) -> Addr {
    u128::from_be_bytes(v6(host))
}

pub fn ends4(from: End, to: End) -> Ends {
    Ends { src: addr4(from.0), dst: addr4(to.0), sport: from.1, dport: to.1 }
}

pub fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

pub fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    join(&[&[2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1], &kind.to_be_bytes(), payload])
}

/// An IPv4 header of 20 bytes; `fragment` is the field with flags and offset.
pub fn ipv4(src: u8, dst: u8, proto: u8, id: u16, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let length = ((20 + payload.len()) as u16).to_be_bytes();
    let head = [&[0x45, 0][..], &length, &id.to_be_bytes(), &fragment.to_be_bytes(), &[64, proto, 0, 0]];
    join(&[&head.concat(), &v4(src), &v4(dst), payload])
}

pub fn ipv6(src: u8, dst: u8, next: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16).to_be_bytes();
    join(&[&[0x60, 0, 0, 0], &length, &[next, 64], &v6(src), &v6(dst), payload])
}

pub fn udp(sport: u16, dport: u16, payload: &[u8]) -> Vec<u8> {
    let length = ((8 + payload.len()) as u16).to_be_bytes();
    join(&[&sport.to_be_bytes(), &dport.to_be_bytes(), &length, &[0, 0], payload])
}

/// A UDP datagram over IPv4 and Ethernet.
pub fn udp_frame(from: End, to: End, id: u16, payload: &[u8]) -> Vec<u8> {
    ethernet(0x0800, &ipv4(from.0, to.0, 17, id, 0, &udp(from.1, to.1, payload)))
}

/// A TCP segment, built field by field.
#[derive(Clone, Debug)]
pub struct Tcp {
    from: End,
    to: End,
    seq: u32,
    ack: u32,
    flags: u8,
    window: u16,
    options: Vec<u8>,
    data: Vec<u8>,
    id: u16,
}

/// A segment with ACK and neither data nor IP identification.
pub fn tcp(from: End, to: End) -> Tcp {
    Tcp { from, to, seq: 1, ack: 1, flags: ACK, window: 1000, options: Vec::new(), data: Vec::new(), id: 0 }
}

/// The segment that opens a connection.
pub fn syn(from: End, to: End, seq: u32) -> Tcp {
    tcp(from, to).seq(seq).ack(0).flags(SYN)
}

/// The one that answers it.
pub fn syn_ack(from: End, to: End, seq: u32, ack: u32) -> Tcp {
    tcp(from, to).seq(seq).ack(ack).flags(SYN | ACK)
}

/// A SYN with these options, in a header of so many bytes.
pub fn bare_syn(options: &[u8], header: u8) -> Segment<'_> {
    Segment { seq: 0, ack: 0, flags: SYN, window: 1, options, header, bytes: &[], len: 0, ip_id: 0, raw: &[] }
}

impl Tcp {
    pub fn seq(self, seq: u32) -> Tcp {
        Tcp { seq, ..self }
    }

    pub fn ack(self, ack: u32) -> Tcp {
        Tcp { ack, ..self }
    }

    pub fn flags(self, flags: u8) -> Tcp {
        Tcp { flags, ..self }
    }

    pub fn window(self, window: u16) -> Tcp {
        Tcp { window, ..self }
    }

    /// Options, filled up with no-operations.
    pub fn options(self, options: &[u8]) -> Tcp {
        let mut options = options.to_vec();
        options.resize(options.len().next_multiple_of(4), 1);
        Tcp { options, ..self }
    }

    pub fn data(self, data: &[u8]) -> Tcp {
        Tcp { data: data.to_vec(), ..self }
    }

    /// IPv4 identification.
    pub fn id(self, id: u16) -> Tcp {
        Tcp { id, ..self }
    }

    /// From the TCP header on.
    pub fn segment(&self) -> Vec<u8> {
        let ports = join(&[&self.from.1.to_be_bytes(), &self.to.1.to_be_bytes()]);
        let header = (20 + self.options.len()) as u8 / 4 * 16;
        let numbers = words(&[self.seq, self.ack]).0;
        let rest = join(&[&[header, self.flags], &self.window.to_be_bytes(), &[0; 4]]);
        join(&[&ports, &numbers, &rest, &self.options, &self.data])
    }

    /// From the IPv4 header on.
    pub fn packet(&self) -> Vec<u8> {
        ipv4(self.from.0, self.to.0, 6, self.id, 0, &self.segment())
    }

    /// On Ethernet.
    pub fn frame(&self) -> Vec<u8> {
        ethernet(0x0800, &self.packet())
    }

    /// Bytes in front of the data in `frame`.
    pub fn headers(&self) -> usize {
        14 + 20 + 20 + self.options.len()
    }
}

// RPC messages, from the XID on.

/// A call with AUTH_NONE: 40 bytes and the arguments.
pub fn call(xid: u32, program: [u32; 3], arguments: &Bytes) -> Vec<u8> {
    words(&[xid, 0, 2]).words(&program).words(&[0, 0, 0, 0]).raw(&arguments.0).0
}

/// NFSv3 READ of a file; 64 bytes where the handle has 5 to 8.
pub fn read_of(xid: u32, handle: &[u8], offset: u64, count: u32) -> Vec<u8> {
    call(xid, [100_003, 3, 6], &Bytes::default().opaque(handle).hypers(&[offset]).words(&[count]))
}

/// NFSv3 READ of `HANDLE`: 64 bytes, 68 as a record.
pub fn read(xid: u32, offset: u64, count: u32) -> Vec<u8> {
    read_of(xid, HANDLE, offset, count)
}

/// NFSv3 WRITE to `HANDLE`: 72 bytes and the data; with 24 bytes of data 100 as a record.
pub fn write(xid: u32, offset: u64, data: &[u8]) -> Vec<u8> {
    let arguments = Bytes::default().opaque(HANDLE).hypers(&[offset]).words(&[data.len() as u32, 2]).opaque(data);
    call(xid, [100_003, 3, 7], &arguments)
}

/// An accepted reply, NFS3_OK: 28 bytes and what follows; 32 as a record with nothing.
pub fn reply(xid: u32, more: &[u8]) -> Vec<u8> {
    words(&[xid, 1, 0, 0, 0, 0, 0]).raw(more).0
}

/// The message behind a record mark.
pub fn record(message: &[u8]) -> Vec<u8> {
    fragments(message, &[])
}

/// The message in record fragments of so many bytes; the last one takes what is left.
pub fn fragments(message: &[u8], lengths: &[usize]) -> Vec<u8> {
    let (mut out, mut rest) = (Vec::new(), message);
    for length in lengths {
        let (part, behind) = rest.split_at(*length);
        out.extend(join(&[&(*length as u32).to_be_bytes(), part]));
        rest = behind;
    }
    out.extend(join(&[&(1 << 31 | rest.len() as u32).to_be_bytes(), rest]));
    out
}

// The capture.

/// A decoder, and the clock of the host that captures.
pub struct Capture {
    decoder: Decoder,
    t_ns: i64,
    /// IPv4 identification of the next segment that names none.
    next_id: u16,
}

impl Capture {
    pub fn new() -> Capture {
        Capture { decoder: Decoder::new(ranks().clone()), t_ns: 0, next_id: 1 << 15 }
    }

    /// Keep these segments of connections.
    pub fn keep_segments(&mut self, wanted: Wanted) {
        self.decoder.keep_segments(wanted);
    }

    /// What follows is captured so many microseconds after the capture began.
    pub fn at_us(&mut self, us: i64) -> &mut Capture {
        self.t_ns = us * 1000;
        self
    }

    pub fn later_us(&mut self, us: i64) -> &mut Capture {
        self.t_ns += us * 1000;
        self
    }

    /// Take the first `kept` bytes of an Ethernet frame; its number.
    pub fn cut_frame(&mut self, frame: &[u8], kept: usize) -> u32 {
        let captured = &frame[..kept.min(frame.len())];
        self.decoder.packet(&Packet {
            t_ns: self.t_ns,
            link: 1,
            captured,
            wire_len: frame.len() as u32,
            interface: 0,
            id: 0,
        });
        self.decoder.packets
    }

    pub fn frame(&mut self, frame: &[u8]) -> u32 {
        self.cut_frame(frame, usize::MAX)
    }

    /// The next packet of its sender: what names no identification has one that no other packet has.
    pub fn tcp(&mut self, segment: &Tcp) -> u32 {
        self.cut_tcp(segment, usize::MAX)
    }

    /// Only the first `kept` bytes of its data.
    pub fn cut_tcp(&mut self, segment: &Tcp, kept: usize) -> u32 {
        let mut segment = segment.clone();
        if segment.id == 0 {
            segment.id = self.next_id;
            self.next_id = self.next_id.checked_add(1).unwrap_or(1 << 15);
        }
        self.cut_frame(&segment.frame(), segment.headers().saturating_add(kept))
    }

    pub fn udp(&mut self, from: End, to: End, id: u16, payload: &[u8]) -> u32 {
        self.frame(&udp_frame(from, to, id, payload))
    }

    /// Frames 1 to 3: SYN, SYN and ACK, ACK. The first byte of either side is the one with number 1.
    pub fn handshake(&mut self, client: End, server: End) {
        self.tcp(&syn(client, server, 0));
        self.tcp(&syn_ack(server, client, 0, 1));
        self.tcp(&tcp(client, server));
    }

    pub fn so_far(&self) -> &Decoder {
        &self.decoder
    }

    /// The end of the capture.
    pub fn end(mut self) -> Decoder {
        self.decoder.finish();
        self.decoder.pairing.ops.publish_flags(0);
        self.decoder
    }
}

/// One op in words: XID, frames of the call, frames of the reply, transmissions, whole.
pub type OpLine = (u32, (i32, i32), (i32, i32), i16, bool);

pub fn ops(decoder: &Decoder) -> Vec<OpLine> {
    let ops = &decoder.pairing.ops;
    let line = |row: usize| {
        let call = (ops.call_first_frame[row], ops.call_last_frame[row]);
        let reply = (ops.reply_first_frame[row], ops.reply_last_frame[row]);
        (ops.xid[row], call, reply, ops.transmissions[row], ops.flags[row] & WHOLE != 0)
    };
    (0..ops.t0.len()).map(line).collect()
}

/// One loose message in words: XID, frames, state, op.
pub type LooseLine = (u32, (i32, i32), State, i32);

pub fn loose(decoder: &Decoder) -> Vec<LooseLine> {
    let loose = &decoder.pairing.loose;
    let line = |row: usize| {
        let frames = (loose.first_frame[row], loose.last_frame[row]);
        (loose.xid[row], frames, state(loose.state[row]), loose.op[row])
    };
    (0..loose.op.len()).map(line).collect()
}

pub fn state(number: i8) -> State {
    [State::Paired, State::NoReply, State::NoCall, State::Retransmitted, State::DuplicateFrame][number as usize]
}
