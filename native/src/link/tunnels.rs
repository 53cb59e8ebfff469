//! Packets within packets.

use super::frames::{by_ethertype, ethernet};
use super::{Frame, View, ip, wireless};

/// What a datagram to `port` has in it, where that is the port of a tunnel and there is one.
#[inline]
pub(super) fn over_udp(port: u16, view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    match port {
        // 8472 is what Linux used before the port was assigned.
        4789 | 8472 => vxlan(view, depth),
        4790 => vxlan_gpe(view, depth),
        5247 => capwap(view, depth),
        6081 => geneve(view, depth),
        4754 => gre(view, depth), // RFC 8086
        2152 => gtp(view, depth),
        _ => None,
    }
}

/// RFC 7348 section 5: it has a network's number, and all other bits are to be ignored.
fn vxlan(view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    if view.u8(0)? & 0x08 == 0 {
        return None;
    }
    ethernet(view.skip(8)?, depth.checked_sub(1)?)
}

/// draft-ietf-nvo3-vxlan-gpe: it says what comes next.
fn vxlan_gpe(view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    const HAS_NUMBER: u8 = 0x08;
    const HAS_NEXT: u8 = 0x04;
    const VERSION: u8 = 0x30;
    let flags = view.u8(0)?;
    if flags & (VERSION | HAS_NUMBER) != HAS_NUMBER {
        return None;
    }
    let next = if flags & HAS_NEXT == 0 { 3 } else { view.u8(3)? };
    gpe_next(next, view.skip(8)?, depth.checked_sub(1)?)
}

/// By the numbers of VXLAN-GPE, which NSH has, too.
fn gpe_next(next: u8, inner: View<'_>, depth: u32) -> Option<Frame<'_>> {
    match next {
        1 | 2 => ip(inner, depth),
        3 => ethernet(inner, depth),
        4 => nsh(inner, depth),
        5 => mpls(inner, depth),
        _ => None,
    }
}

/// RFC 8300 section 2.2: its length is in words of 4 bytes.
pub(super) fn nsh(view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    let words = usize::from(view.u8(1)? & 0x3f);
    if words < 2 {
        return None;
    }
    gpe_next(view.u8(3)?, view.skip(4 * words)?, depth.checked_sub(1)?)
}

/// What an access point hands to its controller (RFC 5415 section 4.3), where it is not encrypted: a frame of Ethernet, or
/// as it was in the air, of which Cisco's have the two bytes of the frame control in the other order.
fn capwap(view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    const NATIVE: u8 = 0x01;
    const FRAGMENT_OR_KEEPALIVE: u8 = 0x80 | 0x08;
    let [length, third, flags] = [view.u8(1)? >> 3, view.u8(2)?, view.u8(3)?];
    if view.u8(0)? != 0 || length < 2 || flags & FRAGMENT_OR_KEEPALIVE != 0 {
        return None;
    }
    let (inner, depth) = (view.skip(4 * usize::from(length))?, depth.checked_sub(1)?);
    if third & NATIVE == 0 { ethernet(inner, depth) } else { wireless::of_controller(inner, depth) }
}

/// RFC 8926 section 3.4.
fn geneve(view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    let first = view.u8(0)?;
    if first >> 6 != 0 {
        return None;
    }
    let kind = view.u16(2)?;
    let inner = view.skip(8 + usize::from(first & 0x3f) * 4)?;
    if kind == 0x6558 { ethernet(inner, depth.checked_sub(1)?) } else { by_ethertype(kind, inner, depth) }
}

/// GTP-U, by which mobile networks carry packets (3GPP TS 29.281 section 5).
fn gtp(view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    const PACKET: u8 = 0xff;
    let first = view.u8(0)?;
    if first & 0xf0 != 0x30 || view.u8(1)? != PACKET {
        return None;
    }
    let mut front = if first & 7 == 0 { 8 } else { 12 };
    let mut next = if first & 4 == 0 { 0 } else { view.u8(11)? };
    while next != 0 {
        // A length in words of 4 bytes first, the next one's type last.
        let length = usize::from(view.u8(front)?) * 4;
        front += length.max(4);
        next = view.u8(front - 1)?;
    }
    ip(view.skip(front)?, depth.checked_sub(1)?)
}

/// RFC 2784 and 2890; with ERSPAN, by which switches send what a mirror port sees.
pub(super) fn gre(view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    let flags = view.u16(0)?;
    let kind = view.u16(2)?;
    if flags & 0x4007 != 0 {
        return None; // source routing, or version 1 (PPTP)
    }
    let options = [0x8000, 0x2000, 0x1000].iter().filter(|bit| flags & **bit != 0).count();
    let inner = view.skip(4 + 4 * options)?;
    let depth = depth.checked_sub(1)?;
    match kind {
        0x6558 => ethernet(inner, depth),
        0x88be if flags & 0x1000 == 0 => ethernet(inner, depth), // ERSPAN type I has no header of its own
        0x88be => ethernet(inner.skip(8)?, depth),
        0x22eb => ethernet(inner.skip(if inner.u8(11)? & 1 == 1 { 20 } else { 12 })?, depth),
        // Aruba's access points: the frame as it was in the air
        0x8200..=0x83ff if kind & 0x0f == 0 => wireless::data_frame(inner, false, depth),
        _ => by_ethertype(kind, inner, depth),
    }
}

pub(super) fn mpls(mut view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    loop {
        let bottom = view.u8(2)? & 1 == 1;
        view = view.skip(4)?;
        if bottom {
            break;
        }
    }
    match view.u8(0)? >> 4 {
        4 | 6 => ip(view, depth),
        // A pseudowire's control word (RFC 4385), or an address that begins like one.
        0 => ethernet(view.skip(4)?, depth).or_else(|| ethernet(view, depth)),
        _ => ethernet(view, depth),
    }
}
