//! An ERF record (Endace's Extensible Record Format, Endace_ERF_Types.pdf) in, where its packet is and what kind of link it is of out.
//!
//! ERF is a file format, and the link type `LINKTYPE_ERF` in others.

/// Bytes in front of extension headers.
pub const HEADER: usize = 16;
/// `LINKTYPE_ERF`: of records whose packets are of no link that is known here.
pub const LINK: u16 = 197;
/// A record without a packet.
pub const PAD: u8 = 48;
/// The last type that is assigned, except `PAD`.
const LAST: u8 = 29;

/// The fixed part of a record's header.
pub struct Head {
    /// 2^-32 seconds since 1970: the only field that is little-endian.
    stamp: u64,
    pub kind: u8,
    pub interface: u8,
    /// Bytes of the record, headers and padding included.
    pub record: usize,
    /// Bytes of the packet on the wire, with the frame check sequence where it was captured.
    pub wire: u32,
    /// Packets lost in front of this one.
    pub lost: u16,
}

impl Head {
    pub fn of(bytes: &[u8]) -> Option<Head> {
        let head: &[u8; HEADER] = bytes.first_chunk()?;
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let stamp = head.first_chunk().map_or(0, |stamp| u64::from_le_bytes(*stamp));
        let kind = head[8] & 0x7f;
        Some(Head {
            stamp,
            kind,
            interface: head[9] & 3,
            record: half(10).into(),
            wire: half(14).into(),
            // Of the types with a colour it is that.
            lost: if matches!(kind, 1 | 2) { half(12) } else { 0 },
        })
    }

    /// Whole seconds since 1970.
    pub fn seconds(&self) -> i64 {
        i64::from((self.stamp >> 32) as u32)
    }

    /// Nanoseconds since 1970: the nearest, so that those which became a stamp come back.
    pub fn t_ns(&self) -> i64 {
        let fraction = u128::from(self.stamp as u32) * 1_000_000_000;
        self.seconds() * 1_000_000_000 + ((fraction + (1 << 31)) >> 32) as i64
    }

    /// Is it of a type that exists?
    pub fn is_known(&self) -> bool {
        matches!(self.kind, 1..=LAST | PAD)
    }
}

/// The link type of the packet in the record that begins with `bytes`, and how many bytes are in front of it; None where
/// what it holds is not known here, or the headers are cut.
pub fn packet(bytes: &[u8]) -> Option<(u16, usize)> {
    const ETHERNET: u16 = 1;
    const PPP_SERIAL: u16 = 50; // or Cisco's HDLC: the record does not say
    const IPV4: u16 = 228;
    const IPV6: u16 = 229;
    let kind = bytes.get(8)?;
    let (mut more, mut at) = (kind & 0x80, HEADER);
    while more != 0 {
        more = bytes.get(at)? & 0x80;
        at += 8;
    }
    Some(match kind & 0x7f {
        // An offset and a byte of padding.
        2 | 11 | 16 | 20 => (ETHERNET, at + 2),
        1 | 10 | 15 | 19 => (PPP_SERIAL, at),
        // Behind the number of the channel.
        5 | 17 => (PPP_SERIAL, at + 4),
        22 => (IPV4, at),
        23 => (IPV6, at),
        _ => return None,
    })
}
