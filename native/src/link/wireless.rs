//! IEEE 802.11: data frames that are not encrypted, behind whatever header the radio left.

use super::frames::llc;
use super::{Frame, View};

const PRISM: u16 = 119;
const RADIOTAP: u16 = 127;
const AVS: u16 = 163;

/// A frame of one of the link types for it.
pub(super) fn by_link(link: u16, view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    match link {
        PRISM => data_frame(view.skip(prism(view)?)?, false, depth),
        AVS => data_frame(view.skip(view.u32(4)? as usize)?, false, depth),
        RADIOTAP => {
            let length = view.u16(2)?.swap_bytes();
            data_frame(view.skip(length.into())?, is_padded(view)?, depth)
        }
        _ => data_frame(view, false, depth),
    }
}

/// Length of the header of Prism cards, which is in the byte order of the host, or of AVS in its place.
fn prism(view: View<'_>) -> Option<usize> {
    let (code, length) = (view.u32(0)?, view.u32(4)?);
    let is_little = code > 0xffff && code & 0xffff_f000 != 0x8021_1000;
    Some(if is_little { length.swap_bytes() } else { length } as usize)
}

/// Does radiotap say that the header behind it is filled up to a multiple of 4 bytes (radiotap.org, Flags)?
fn is_padded(view: View<'_>) -> Option<bool> {
    const TSFT: u32 = 1;
    const FLAGS: u32 = 2;
    const MORE: u32 = 1 << 31;
    let present = view.u32(4)?.swap_bytes();
    let (mut word, mut at) = (present, 8);
    while word & MORE != 0 {
        word = view.u32(at)?.swap_bytes();
        at += 4;
    }
    if present & FLAGS == 0 {
        return Some(false);
    }
    if present & TSFT != 0 {
        at = at.next_multiple_of(8) + 8;
    }
    Some(view.u8(at)? & 0x20 != 0)
}

/// IEEE 802.11 section 9.3.2. Of several packets in one frame (A-MSDU) it is the first.
pub(super) fn data_frame(view: View<'_>, is_padded: bool, depth: u32) -> Option<Frame<'_>> {
    data_frame_of(view.u16(0)?, view, is_padded, depth)
}

/// The same, where the two bytes of the frame control may stand in the other order.
pub(super) fn of_controller(view: View<'_>, depth: u32) -> Option<Frame<'_>> {
    const VERSION_AND_TYPE: u16 = 0x0f00;
    const DATA: u16 = 0x0800;
    let control = view.u16(0)?;
    let control = if control & VERSION_AND_TYPE == DATA { control } else { control.swap_bytes() };
    data_frame_of(control, view, false, depth)
}

fn data_frame_of(control: u16, view: View<'_>, is_padded: bool, depth: u32) -> Option<Frame<'_>> {
    let [kind, flags] = control.to_be_bytes();
    let has_data = kind & 0x4f == 0x08;
    let (is_part, is_encrypted) = (flags & 0x04 != 0, flags & 0x40 != 0);
    if !has_data || is_part || is_encrypted || view.u8(22)? & 0x0f != 0 {
        return None;
    }
    let mut header = if flags & 3 == 3 { 30 } else { 24 }; // four addresses between access points
    let mut is_several = false;
    if kind & 0x80 != 0 {
        is_several = view.u8(header)? & 0x80 != 0;
        header += if flags & 0x80 == 0 { 2 } else { 6 };
    }
    if is_padded {
        header = header.next_multiple_of(4);
    }
    let inner = view.skip(header)?;
    if is_several { llc(inner.skip(14)?.limit(inner.u16(12)?.into()), depth) } else { llc(inner, depth) }
}
