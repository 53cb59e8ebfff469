//! Kinds of links: what stands in front of the first IP packet.

use super::{ETHERNET, Frame, View, ip, ipv4, ipv6, tunnels, wireless};
use crate::erf;

/// Is it one that `by_link` takes apart? Of ERF that depends on the record.
pub fn is_known(link: u16, captured: &[u8]) -> bool {
    match link {
        0 | 1 | 6 | 9 | 10 | 12 | 14 | 50 | 51 | 101 | 104 | 105 | 108 | 113 | 119 | 127 | 163 | 192 | 204 | 205 => {
            true
        }
        erf::LINK => erf::packet(captured).is_some(),
        226 | 228 | 229 | 239 | 242 | 276 => true,
        _ => false,
    }
}

/// `link` is a `LINKTYPE_` number (tcpdump.org/linktypes.html).
#[inline]
pub(super) fn by_link(link: u16, view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    match link {
        ETHERNET => ethernet(view, depth),
        // BSD loopback: the address family in the byte order of the host that captured; OpenBSD's in network order.
        0 | 108 => {
            let family = view.u32(0)?;
            let family = if family > 0xffff { family.swap_bytes() } else { family };
            match family {
                2 => ipv4(view.skip(4)?, depth),
                10 | 23 | 24 | 28 | 30 => ipv6(view.skip(4)?, depth),
                _ => None,
            }
        }
        12 | 14 | 101 | 228 | 229 => ip(view, depth),
        // Linux "cooked" captures, as tcpdump -i any writes them (LINKTYPE_LINUX_SLL and _SLL2).
        113 => by_ethertype(view.u16(14)?, view.skip(16)?, depth),
        276 => by_ethertype(view.u16(0)?, view.skip(20)?, depth),
        6 => token_ring(view, depth),
        10 => fddi(view, depth),
        // PPP, in whose place some devices write Cisco's HDLC
        9 | 50 | 104 => serial(view, depth),
        51 => ppp(view.skip(6)?, depth),
        // PPP and HDLC behind a byte for the direction
        204 | 205 => serial(view.skip(1)?, depth),
        105 | 119 | 127 | 163 => wireless::by_link(link, view, depth),
        192 => packet_information(view, depth.checked_sub(1)?),
        erf::LINK => {
            let (link, front) = erf::packet(view.bytes)?;
            by_link(link, view.skip(front)?, depth.checked_sub(1)?)
        }
        // Solaris' ipnet: 24 bytes on zones and interfaces
        226 => ip(view.skip(24)?, depth),
        239 => nflog(view, depth),
        // IP over InfiniBand: the global route header, and RFC 4391 section 6
        242 => by_ethertype(view.u16(40)?, view.skip(44)?, depth),
        _ => None,
    }
}

pub(super) fn ethernet(view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    by_ethertype(view.u16(12)?, view.skip(14)?, depth)
}

pub(super) fn by_ethertype(mut kind: u16, mut view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    let depth = depth.checked_sub(1)?;
    loop {
        match kind {
            0x0800 => return ipv4(view, depth),
            0x86dd => return ipv6(view, depth),
            // 802.1Q, 802.1ad and their ancestors
            0x8100 | 0x88a8 | 0x9100 | 0x9200 => {
                kind = view.u16(2)?;
                view = view.skip(4)?;
            }
            // VNTag, and the tag of HSR and PRP
            0x8926 | 0x892f => {
                kind = view.u16(4)?;
                view = view.skip(6)?;
            }
            // 802.1BR
            0x893f => {
                kind = view.u16(6)?;
                view = view.skip(8)?;
            }
            // 802.1ah: a service's number, and a whole frame
            0x88e7 => return ethernet(view.skip(4)?, depth),
            0x8847 | 0x8848 => return tunnels::mpls(view, depth),
            0x894f => return tunnels::nsh(view, depth),
            // PPPoE session (RFC 2516): 6 bytes in front of PPP
            0x8864 => return ppp(view.skip(6)?, depth),
            // 802.3: the field is a length
            0..=1535 => return llc(view, depth),
            _ => return None,
        }
    }
}

/// IEEE 802.2: SNAP (RFC 1042), or IP by its own number.
pub(super) fn llc(view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    match view.u32(0)? >> 8 {
        0x00aa_aa03 => by_ethertype(view.u16(6)?, view.skip(8)?, depth),
        0x0006_0603 => ipv4(view.skip(3)?, depth),
        _ => None,
    }
}

/// A frame control, the addresses, and LLC where it says so (RFC 1390).
fn fddi(view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    if view.u8(0)? & 0x70 != 0x50 {
        return None;
    }
    llc(view.skip(13)?, depth)
}

/// The first bit of the source says whether a route stands behind it (RFC 1042).
fn token_ring(view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    if view.u8(1)? >> 6 != 1 {
        return None;
    }
    let route = if view.u8(8)? & 0x80 != 0 { usize::from(view.u8(14)? & 0x1f) } else { 0 };
    llc(view.skip(14 + route)?, depth)
}

/// PPP or Cisco's HDLC, by the address in front.
fn serial(view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    match view.u16(0)? {
        0x0f00 | 0x8f00 => by_ethertype(view.u16(2)?, view.skip(4)?, depth),
        _ => ppp(view, depth),
    }
}

/// With HDLC's address and control in front or without (RFC 1662); the protocol may be compressed to one byte (RFC 1661
/// section 6.5), which is odd as no first byte of two is.
fn ppp(view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    let view = if view.u16(0)? == 0xff03 { view.skip(2)? } else { view };
    let first = view.u8(0)?;
    let (protocol, inner) =
        if first & 1 == 1 { (u16::from(first), view.skip(1)?) } else { (view.u16(0)?, view.skip(2)?) };
    match protocol {
        0x0021 => ipv4(inner, depth),
        0x0057 => ipv6(inner, depth),
        0x0281 => tunnels::mpls(inner, depth),
        _ => None,
    }
}

/// Per-packet information (CACE PPI): its length, and what kind of link it stands in front of, are little-endian.
fn packet_information(view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    let length = view.u16(2)?.swap_bytes();
    let link = u16::try_from(view.u32(4)?.swap_bytes()).ok()?;
    by_link(link, view.skip(length.into())?, depth)
}

/// Linux' netfilter log: fields of length, type and value, in the byte order of the host that captured.
fn nflog(view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    const PAYLOAD: u16 = 9;
    let mut view = view.skip(4)?;
    // No type is above 255.
    let is_little = view.u8(2)? != 0;
    let ordered = |value: u16| if is_little { value.swap_bytes() } else { value };
    loop {
        let (length, kind) = (usize::from(ordered(view.u16(0)?)), ordered(view.u16(2)?) & 0x7fff);
        let value = length.checked_sub(4)?;
        if kind == PAYLOAD {
            return ip(view.skip(4)?.limit(value), depth);
        }
        view = view.skip(length.next_multiple_of(4))?;
    }
}
