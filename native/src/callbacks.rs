//! One operation of a CB_COMPOUND in, the cursor behind its arguments and what nfslat wants of them out.
//!
//! The XDR is that of RFC 7531 (NFSv4.0), 5662 (4.1) and 7863 (4.2). `None` ends the walk.

use crate::operations::{Arguments, handle, sequence};
use crate::protocol::{cb, delegation, layout};
use crate::xdr::Xdr;

/// Step over the arguments of a callback operation.
pub(crate) fn step<'a>(op: u16, xdr: &mut Xdr<'a>, to: &mut Arguments<'a>) -> Option<()> {
    // The handle stands behind what is skipped here; the rest of the arguments follows it.
    match op {
        cb::RECALL => xdr.fields("sw")?, // stateid, truncate, fh
        cb::NOTIFY => xdr.skip(16)?,     // stateid, fh, changes<>
        _ => {}
    }
    if matches!(op, cb::GETATTR | cb::RECALL | cb::NOTIFY | cb::PUSH_DELEG | cb::NOTIFY_LOCK | cb::OFFLOAD) {
        to.target.handle = Some(handle(xdr)?);
    }
    match op {
        cb::GETATTR => xdr.fields("b"), // attr_request
        cb::RECALL => Some(()),
        cb::LAYOUTRECALL => layoutrecall(xdr, to),
        cb::NOTIFY => xdr.each(notify),
        cb::PUSH_DELEG => open_delegation(xdr),
        cb::RECALL_ANY | cb::RECALLABLE_OBJ_AVAIL => xdr.fields("wb"), // objects_to_keep, type_mask
        cb::RECALL_SLOT => xdr.skip(4),                                // target_highest_slotid
        // As SEQUENCE, then referring_call_lists<> of a sessionid and calls<> (seqid, slotid)
        cb::SEQUENCE => {
            sequence(xdr, to)?;
            xdr.each(|list| {
                list.skip(16)?;
                list.skip_array(8)
            })
        }
        cb::WANTS_CANCELLED => xdr.fields("ww"),
        cb::NOTIFY_LOCK => xdr.fields("ho"), // lock_owner
        cb::NOTIFY_DEVICEID => xdr.each(notify),
        cb::OFFLOAD => offload(xdr),
        cb::ILLEGAL => Some(()),
        _ => None,
    }
}

/// CB_LAYOUTRECALL: type, iomode, changed, recall.
fn layoutrecall<'a>(xdr: &mut Xdr<'a>, to: &mut Arguments<'a>) -> Option<()> {
    xdr.skip(12)?;
    match xdr.u32()? {
        // fh, offset, length, stateid
        layout::FILE => {
            to.target.handle = Some(handle(xdr)?);
            xdr.fields("hhs")
        }
        layout::FSID => xdr.fields("hh"),
        layout::ALL => Some(()),
        _ => None,
    }
}

/// `notify4`: the mask and the list that belongs to it.
fn notify(xdr: &mut Xdr<'_>) -> Option<()> {
    xdr.fields("bo")
}

/// `open_delegation4`, which the result of OPEN holds as well.
pub(crate) fn open_delegation(xdr: &mut Xdr<'_>) -> Option<()> {
    let arm = match xdr.u32()? {
        delegation::NONE => "",
        // stateid, recall, permissions (type, flag, access_mask, who)
        delegation::READ | delegation::READ_ATTRS => "swwwwo",
        // The same with space_limit, of eight bytes either way
        delegation::WRITE | delegation::WRITE_ATTRS => "swwhwwwo",
        delegation::NONE_EXT => match xdr.u32()? {
            delegation::CONTENTION | delegation::RESOURCE => "w",
            _ => "",
        },
        _ => return None,
    };
    xdr.fields(arm)
}

/// CB_OFFLOAD: stateid, offload_info (RFC 7862 section 16.1).
fn offload(xdr: &mut Xdr<'_>) -> Option<()> {
    xdr.skip(16)?;
    if xdr.u32()? != 0 {
        return xdr.skip(8); // bytes_copied
    }
    xdr.skip_array(16)?; // callback_id<1>
    xdr.fields("hwh") // count, committed, writeverf
}
