//! A captured frame in, the innermost TCP segment, UDP datagram or IP fragment in it out; nothing is allocated.
//!
//! Lengths on the wire are carried beside the captured bytes, since a snaplen cuts the second and not the first. Where a
//! header itself is cut off, the frame is `Other`. Tunnels are followed to the innermost packet (`DEPTH` of them at most).

pub use frames::is_known;

mod frames;
mod tunnels;
mod wireless;

const DEPTH: u32 = 6;
const ETHERNET: u16 = 1;

/// An address; IPv4 as ::ffff:a.b.c.d (RFC 4291 section 2.5.5.2).
pub type Addr = u128;

/// What a frame carries.
#[derive(Debug)]
pub enum Frame<'a> {
    Tcp(Ends, Segment<'a>),
    Udp(Ends, Datagram<'a>),
    Fragment(Fragment<'a>),
    Other,
}

/// Source and destination.
#[derive(Clone, Copy, Debug)]
pub struct Ends {
    pub src: Addr,
    pub dst: Addr,
    pub sport: u16,
    pub dport: u16,
}

impl PartialEq for Ends {
    /// In registers: compared for every packet, and what is derived calls memcmp.
    #[inline]
    fn eq(&self, other: &Ends) -> bool {
        let ports = (self.sport ^ other.sport) | (self.dport ^ other.dport);
        (self.src ^ other.src) | (self.dst ^ other.dst) | u128::from(ports) == 0
    }
}

/// A TCP segment (RFC 9293 section 3.1). `bytes` is the captured part of its `len` bytes of data.
#[derive(Debug)]
pub struct Segment<'a> {
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub options: &'a [u8],
    /// Bytes of the header, its options included, whether they were captured or not.
    pub header: u8,
    pub bytes: &'a [u8],
    pub len: u32,
    /// IPv4 identification; 0 where there is none.
    pub ip_id: u16,
    /// What was captured of header and data.
    pub raw: &'a [u8],
}

impl Segment<'_> {
    /// Is the checksum (RFC 9293 section 3.1) of no segment between these hosts? Not known, so false, where some of it was
    /// not captured, or where the host leaves it to the adapter: 0, or the sum of the pseudo-header alone.
    #[cold]
    pub fn is_damaged(&self, (src, dst): (Addr, Addr)) -> bool {
        let length = usize::from(self.header) + self.len as usize;
        let Some(raw) = self.raw.get(..length) else { return false };
        let stored = u16::from_be_bytes([raw[16], raw[17]]);
        let hosts = [src, dst].map(|host| if host >> 32 == 0xffff { host & 0xffff_ffff } else { host });
        let words = raw.chunks(2).map(|pair| u64::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u64::from(*low)));
        let parts = hosts.map(|host| (0..8).map(|at| (host >> (16 * at)) as u64 & 0xffff).sum::<u64>());
        let pseudo = parts[0] + parts[1] + 6;
        let is_left_out = [0, length as u64].iter().any(|length| fold(pseudo + length) == stored);
        stored != 0 && !is_left_out && fold(pseudo + length as u64 + words.sum::<u64>()) != u16::MAX
    }
}

/// The sum of ones' complement in 16 bits.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    sum as u16
}

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;

/// A UDP datagram; `bytes` is the captured part of its payload.
#[derive(Debug)]
pub struct Datagram<'a> {
    pub bytes: &'a [u8],
    pub len: u32,
    pub ip_id: u16,
}

/// A fragment of an IP packet: `len` bytes at `offset` of its payload, of which `bytes` were captured.
#[derive(Debug)]
pub struct Fragment<'a> {
    pub src: Addr,
    pub dst: Addr,
    pub id: u32,
    pub proto: u8,
    pub offset: u32,
    pub more: bool,
    pub bytes: &'a [u8],
    pub len: u32,
}

/// The captured bytes from here on, and how many there were on the wire.
#[derive(Clone, Copy)]
struct View<'a> {
    bytes: &'a [u8],
    wire: usize,
}

impl<'a> View<'a> {
    #[inline]
    fn skip(self, n: usize) -> Option<View<'a>> {
        Some(View { bytes: self.bytes.get(n..)?, wire: self.wire.checked_sub(n)? })
    }

    /// Only the first `wire` bytes: what follows is padding.
    #[inline]
    fn limit(self, wire: usize) -> View<'a> {
        View { bytes: &self.bytes[..self.bytes.len().min(wire)], wire }
    }

    #[inline]
    fn u8(self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    #[inline]
    fn u16(self, at: usize) -> Option<u16> {
        Some(u16::from_be_bytes(self.bytes.get(at..at + 2)?.try_into().ok()?))
    }

    #[inline]
    fn u32(self, at: usize) -> Option<u32> {
        Some(u32::from_be_bytes(self.bytes.get(at..at + 4)?.try_into().ok()?))
    }
}

/// Take `captured`, a frame of link type `link` (a LINKTYPE_ number) that had `wire` bytes, apart.
#[inline]
pub fn dissect(link: u16, captured: &[u8], wire: u32) -> Frame<'_> {
    if let Some((ends, segment)) = plain(link, captured) {
        return Frame::Tcp(ends, segment);
    }
    frames::by_link(link, View { bytes: captured, wire: wire as usize }, DEPTH).unwrap_or(Frame::Other)
}

/// TCP over IPv4 over Ethernet with nothing in between and its header whole, which nearly all packets are: the same as
/// below, in one go.
#[inline(always)]
pub fn plain(link: u16, captured: &[u8]) -> Option<(Ends, Segment<'_>)> {
    if link != ETHERNET {
        return None;
    }
    let head: &[u8; 54] = captured.first_chunk()?;
    let word = |at: usize| u32::from_be_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    let fragment = half(20) & 0x3fff;
    let is_plain = (half(12) ^ 0x0800) | u16::from(head[14] ^ 0x45) | u16::from(head[23] ^ 6) | fragment == 0;
    let total = usize::from(half(16));
    let header = usize::from(head[46] >> 4) * 4;
    if !is_plain || total < 20 + header || header < 20 {
        return None;
    }
    let raw = &captured[34..captured.len().min(14 + total)];
    let (front, bytes) = raw.split_at_checked(header)?;
    let segment = Segment {
        seq: word(38),
        ack: word(42),
        flags: head[47],
        window: half(48),
        options: &front[20..],
        header: header as u8,
        bytes,
        len: (total - 20 - header) as u32,
        ip_id: half(18),
        raw,
    };
    Some((Ends { src: mapped(word(26)), dst: mapped(word(30)), sport: half(34), dport: half(36) }, segment))
}

/// Take apart the payload of an IP packet that was put together from fragments.
pub fn dissect_payload(proto: u8, src: Addr, dst: Addr, captured: &[u8], wire: u32) -> Frame<'_> {
    let view = View { bytes: captured, wire: wire as usize };
    transport(proto, src, dst, 0, view, DEPTH).unwrap_or(Frame::Other)
}

fn ip(view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    match view.u8(0)? >> 4 {
        4 => ipv4(view, depth),
        6 => ipv6(view, depth),
        _ => None,
    }
}

#[inline]
fn ipv4(view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    let head: &[u8; 20] = view.bytes.get(..20)?.try_into().ok()?;
    let header = usize::from(head[0] & 15) * 4;
    if head[0] >> 4 != 4 || header < 20 {
        return None;
    }
    let total = usize::from(u16::from_be_bytes([head[2], head[3]]));
    // Segmentation offload leaves the length 0 where it does not fit: then the frame's own length has to do.
    let view = view.limit(if total == 0 { view.wire } else { total });
    let src = mapped(u32::from_be_bytes([head[12], head[13], head[14], head[15]]));
    let dst = mapped(u32::from_be_bytes([head[16], head[17], head[18], head[19]]));
    let id = u16::from_be_bytes([head[4], head[5]]);
    let fragment = u16::from_be_bytes([head[6], head[7]]);
    let payload = view.skip(header)?;
    if fragment & 0x3fff != 0 {
        return Some(Frame::Fragment(Fragment {
            src,
            dst,
            id: u32::from(id),
            proto: head[9],
            offset: u32::from(fragment & 0x1fff) * 8,
            more: fragment & 0x2000 != 0,
            bytes: payload.bytes,
            len: payload.wire as u32,
        }));
    }
    transport(head[9], src, dst, id, payload, depth)
}

fn mapped(v4: u32) -> Addr {
    0xffff_0000_0000 | u128::from(v4)
}

fn ipv6(view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    let head: &[u8; 40] = view.bytes.get(..40)?.try_into().ok()?;
    if head[0] >> 4 != 6 {
        return None;
    }
    let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
    let view = view.limit(if length == 0 { view.wire } else { 40 + length }); // 0: a jumbogram (BIG TCP)
    let src = u128::from_be_bytes(head[8..24].try_into().ok()?);
    let dst = u128::from_be_bytes(head[24..40].try_into().ok()?);
    let mut next = head[6];
    let mut view = view.skip(40)?;
    for _ in 0..16 {
        let size = match next {
            0 | 43 | 60 | 135 | 139 | 140 => usize::from(view.u8(1)?) * 8 + 8,
            51 => usize::from(view.u8(1)?) * 4 + 8,
            44 => {
                let proto = view.u8(0)?;
                let field = view.u16(2)?;
                let id = view.u32(4)?;
                let payload = view.skip(8)?;
                if field & 0xfff9 != 0 {
                    let (bytes, len) = (payload.bytes, payload.wire as u32);
                    let (offset, more) = (u32::from(field & 0xfff8), field & 1 == 1);
                    return Some(Frame::Fragment(Fragment { src, dst, id, proto, offset, more, bytes, len }));
                }
                8
            }
            _ => return transport(next, src, dst, 0, view, depth),
        };
        next = view.u8(0)?;
        view = view.skip(size)?;
    }
    None
}

#[inline]
fn transport(proto: u8, src: Addr, dst: Addr, ip_id: u16, view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    match proto {
        6 => tcp(src, dst, ip_id, view),
        17 => udp(src, dst, ip_id, view, depth),
        4 => ipv4(view, depth.checked_sub(1)?),
        41 => ipv6(view, depth.checked_sub(1)?),
        47 => tunnels::gre(view, depth),
        _ => None,
    }
}

#[inline]
fn tcp(src: Addr, dst: Addr, ip_id: u16, view: View<'_>) -> Option<Frame<'_>> {
    let head: &[u8; 20] = view.bytes.get(..20)?.try_into().ok()?;
    let header = usize::from(head[12] >> 4) * 4;
    if header < 20 {
        return None;
    }
    let len = view.wire.checked_sub(header)?;
    let segment = Segment {
        seq: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
        ack: u32::from_be_bytes([head[8], head[9], head[10], head[11]]),
        flags: head[13],
        window: u16::from_be_bytes([head[14], head[15]]),
        options: &view.bytes[20..header.min(view.bytes.len())],
        header: header as u8,
        bytes: view.bytes.get(header..).unwrap_or(&[]),
        len: len as u32,
        ip_id,
        raw: view.bytes,
    };
    let sport = u16::from_be_bytes([head[0], head[1]]);
    let dport = u16::from_be_bytes([head[2], head[3]]);
    Some(Frame::Tcp(Ends { src, dst, sport, dport }, segment))
}

fn udp(src: Addr, dst: Addr, ip_id: u16, view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    let head: &[u8; 8] = view.bytes.get(..8)?.try_into().ok()?;
    let sport = u16::from_be_bytes([head[0], head[1]]);
    let dport = u16::from_be_bytes([head[2], head[3]]);
    let length = usize::from(u16::from_be_bytes([head[4], head[5]]));
    let payload = view.limit(if length < 8 { view.wire } else { length.min(view.wire) }).skip(8)?;
    let inner = tunnels::over_udp(dport, payload, depth);
    if inner.is_some() {
        return inner;
    }
    let datagram = Datagram { bytes: payload.bytes, len: payload.wire as u32, ip_id };
    Some(Frame::Udp(Ends { src, dst, sport, dport }, datagram))
}

#[cfg(test)]
mod tests;
