//! Results of LAYOUTGET and GETDEVICEINFO (pNFS) in, the handles that files have at data servers, and where these are, out.
//!
//! The layouts of files (RFC 8881 section 13) and flexible ones (RFC 8435): data servers of others speak no NFS.

use super::{Event, News};
use crate::operations;
use crate::protocol::layout_type;
use crate::xdr::Xdr;

/// `deviceid4`.
pub(super) const DEVICE_ID: usize = 16;

/// LAYOUTGET: return_on_close, stateid, layouts (offset, length, iomode, type, body) of `file`.
pub(super) fn layouts<'a>(file: Option<&'a [u8]>, xdr: &mut Xdr<'a>, hear: &mut impl FnMut(News<'_>)) -> Option<()> {
    xdr.fields("ws")?;
    xdr.each(|xdr| {
        xdr.fields("hhw")?;
        let (kind, mut body) = body(xdr)?;
        let mut tell = |device: &[u8], handle: Option<&[u8]>| {
            hear(News { handle: file, to_directory: handle, ..News::of(Event::LaidOut, (Some(device), None)) });
        };
        // What is cut off, or is no layout, is not told; the next one stands where its length says.
        let _ = match kind {
            layout_type::FILES => of_files(&mut body, file, &mut tell),
            layout_type::FLEXIBLE => flexible(&mut body, &mut tell),
            _ => Some(()),
        };
        Some(())
    })
}

/// GETDEVICEINFO of the device `device`: its address, notifications.
pub(super) fn device<'a>(device: Option<&'a [u8]>, xdr: &mut Xdr<'a>, hear: &mut impl FnMut(News<'_>)) -> Option<()> {
    let (kind, mut body) = body(xdr)?;
    let mut addresses = |xdr: &mut Xdr<'a>| {
        xdr.each(|xdr| {
            xdr.opaque()?; // netid
            let address = xdr.opaque()?;
            hear(News { handle: device, ..News::of(Event::Device, (None, Some(address))) });
            Some(())
        })
    };
    let _ = match kind {
        // Stripe indices, and for each data server the addresses that lead to it (RFC 8881 section 13.2.1)
        layout_type::FILES => body.skip_array(4).and_then(|()| body.each(&mut addresses)),
        layout_type::FLEXIBLE => addresses(&mut body), // then what versions of NFS it speaks (RFC 8435 section 4.1)
        _ => Some(()),
    };
    xdr.fields("b")
}

/// Layout type, and as much of the body as was captured.
fn body<'a>(xdr: &mut Xdr<'a>) -> Option<(u32, Xdr<'a>)> {
    let kind = xdr.u32()?;
    let length = usize::try_from(xdr.u32()?).ok()?;
    let rest = xdr.rest();
    let body = xdr.take(length).unwrap_or_else(|| {
        *xdr = Xdr::new(&[]);
        rest
    });
    Some((kind, Xdr::new(body)))
}

/// `nfsv4_1_file_layout4`: deviceid, util, first_stripe_index, pattern_offset, fh_list.
fn of_files<'a>(
    xdr: &mut Xdr<'a>,
    file: Option<&'a [u8]>,
    tell: &mut impl FnMut(&'a [u8], Option<&'a [u8]>),
) -> Option<()> {
    let device = xdr.take(DEVICE_ID)?;
    xdr.fields("wwh")?;
    let count = xdr.u32()?;
    if count == 0 {
        tell(device, file); // the handle is the same everywhere
    }
    for _ in 0..count {
        tell(device, Some(handle(xdr)?));
    }
    Some(())
}

/// `ff_layout4`: stripe_unit, mirrors of data servers each (deviceid, efficiency, stateid, a handle for each version that
/// the server speaks, user, group), flags, stats_collect_hint.
fn flexible<'a>(xdr: &mut Xdr<'a>, tell: &mut impl FnMut(&'a [u8], Option<&'a [u8]>)) -> Option<()> {
    xdr.fields("h")?;
    xdr.each(|mirror| {
        mirror.each(|server| {
            let device = server.take(DEVICE_ID)?;
            server.fields("ws")?;
            server.each(|server| {
                tell(device, Some(handle(server)?));
                Some(())
            })?;
            server.fields("oo")
        })
    })
}

/// None where it is too long, or empty: that is no file's.
fn handle<'a>(xdr: &mut Xdr<'a>) -> Option<&'a [u8]> {
    operations::handle(xdr).filter(|handle| !handle.is_empty())
}
