//! One operation of a CB_COMPOUND in, the cursor behind its arguments and what nfslat wants of them out.
//!
//! The XDR is that of RFC 7531 (NFSv4.0), 5662 (4.1) and 7863 (4.2). `None` ends the walk.

use crate::operations::{Arguments, handle, sequence};
use crate::xdr::Xdr;

pub(crate) const CB_SEQUENCE: u16 = 11;

/// Step over the arguments of a callback operation.
pub(crate) fn step<'a>(op: u16, xdr: &mut Xdr<'a>, to: &mut Arguments<'a>) -> Option<()> {
    // The handle stands behind what is skipped here; the rest of the arguments follows it.
    match op {
        4 => xdr.fields("sw")?, // CB_RECALL: stateid, truncate, fh
        6 => xdr.skip(16)?,     // CB_NOTIFY: stateid, fh, changes<>
        _ => {}
    }
    if matches!(op, 3 | 4 | 6 | 7 | 13 | 15) {
        to.target.handle = Some(handle(xdr)?);
    }
    match op {
        3 => xdr.fields("b"), // CB_GETATTR: attr_request
        4 => Some(()),        // CB_RECALL
        5 => layoutrecall(xdr, to),
        6 => xdr.each(notify),     // CB_NOTIFY
        7 => open_delegation(xdr), // CB_PUSH_DELEG
        8 | 9 => xdr.fields("wb"), // CB_RECALL_ANY, CB_RECALLABLE_OBJ_AVAIL: objects_to_keep, type_mask
        10 => xdr.skip(4),         // CB_RECALL_SLOT: target_highest_slotid
        // CB_SEQUENCE: as SEQUENCE, then referring_call_lists<> of a sessionid and calls<> (seqid, slotid)
        CB_SEQUENCE => {
            sequence(xdr, to)?;
            xdr.each(|list| {
                list.skip(16)?;
                list.skip_array(8)
            })
        }
        12 => xdr.fields("ww"), // CB_WANTS_CANCELLED
        13 => xdr.fields("ho"), // CB_NOTIFY_LOCK: lock_owner
        14 => xdr.each(notify), // CB_NOTIFY_DEVICEID: changes<>
        15 => offload(xdr),
        10044 => Some(()), // CB_ILLEGAL
        _ => None,
    }
}

/// CB_LAYOUTRECALL: type, iomode, changed, recall.
fn layoutrecall<'a>(xdr: &mut Xdr<'a>, to: &mut Arguments<'a>) -> Option<()> {
    xdr.skip(12)?;
    match xdr.u32()? {
        // FILE: fh, offset, length, stateid
        1 => {
            to.target.handle = Some(handle(xdr)?);
            xdr.fields("hhs")
        }
        2 => xdr.fields("hh"), // FSID
        3 => Some(()),         // ALL
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
        0 => "",             // NONE
        1 | 4 => "swwwwo",   // READ: stateid, recall, permissions (type, flag, access_mask, who)
        2 | 5 => "swwhwwwo", // WRITE: the same with space_limit, of eight bytes either way
        // NONE_EXT: CONTENTION and RESOURCE say one thing more
        3 => match xdr.u32()? {
            1 | 2 => "w",
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
