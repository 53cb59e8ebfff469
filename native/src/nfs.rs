//! Arguments of an NFSv2 (RFC 1094), NFSv3 (RFC 1813) or MOUNT call in, its handle, offset, size and name out.

use crate::call::{Call, NONE};
use crate::xdr::Xdr;

/// Length of every NFSv2 handle (RFC 1094 section 2.3.3), and the longest of NFSv3 (RFC 1813 section 2.4).
pub(crate) const FHSIZE: usize = 32;
const NFS3_FHSIZE: usize = 64;

/// Fill `call`; `None` where the bytes end before everything is known.
pub(crate) fn arguments<'a>(call: &mut Call<'a>, xdr: &mut Xdr<'a>) -> Option<()> {
    match call.version {
        3 => version3(call, xdr),
        _ => version2(call, xdr),
    }
}

fn version3<'a>(call: &mut Call<'a>, xdr: &mut Xdr<'a>) -> Option<()> {
    if !matches!(call.procedure, 1..=21) {
        return None;
    }
    call.fh = hash(nfs_fh3(xdr)?);
    match call.procedure {
        // READ, WRITE and COMMIT begin alike: offset, count; that of a WRITE is its data's (RFC 1813 section 3.3.7).
        6 | 7 | 21 => {
            call.offset = offset(xdr.u64()?);
            call.size = xdr.u32()?;
        }
        // LOOKUP, CREATE, MKDIR, SYMLINK, MKNOD, REMOVE, RMDIR, RENAME
        3 | 8..=14 => call.name = Some(xdr.opaque()?),
        // LINK: the file, then the directory and the name in it
        15 => {
            nfs_fh3(xdr)?;
            call.name = Some(xdr.opaque()?);
        }
        _ => {}
    }
    Some(())
}

pub(crate) fn nfs_fh3<'a>(xdr: &mut Xdr<'a>) -> Option<&'a [u8]> {
    xdr.opaque().filter(|handle| handle.len() <= NFS3_FHSIZE)
}

fn version2<'a>(call: &mut Call<'a>, xdr: &mut Xdr<'a>) -> Option<()> {
    // NULL, and ROOT and WRITECACHE, which are obsolete, have no arguments.
    if !matches!(call.procedure, 1 | 2 | 4..=6 | 8..=17) {
        return None;
    }
    call.fh = hash(xdr.take(FHSIZE)?);
    match call.procedure {
        // READ: offset, count
        6 => {
            call.offset = xdr.u32()?.into();
            call.size = xdr.u32()?;
        }
        // WRITE: beginoffset, offset, totalcount, data; the first and third are unused (RFC 1094 section 2.2.9).
        8 => {
            xdr.skip(4)?;
            call.offset = xdr.u32()?.into();
            xdr.skip(4)?;
            call.size = xdr.u32()?;
        }
        // LOOKUP, CREATE, REMOVE, RENAME, SYMLINK, MKDIR, RMDIR
        4 | 9 | 10 | 11 | 13..=15 => call.name = Some(xdr.opaque()?),
        // LINK: the file, then the directory and the name in it
        12 => {
            xdr.skip(FHSIZE)?;
            call.name = Some(xdr.opaque()?);
        }
        _ => {}
    }
    Some(())
}

/// The path that MNT and UMNT name (RFC 1813 sections 5.2.1 and 5.2.3; as in RFC 1094 appendix A).
pub(crate) fn mount_arguments<'a>(call: &mut Call<'a>, xdr: &mut Xdr<'a>) -> Option<()> {
    if matches!(call.procedure, 1 | 3) {
        call.name = Some(xdr.opaque()?);
    }
    Some(())
}

/// The hash of a handle as Wireshark makes it; the empty one (the public handle of RFC 2054) has none there.
pub(crate) fn hash(handle: &[u8]) -> u32 {
    if handle.is_empty() { NONE } else { crc32fast::hash(handle) }
}

/// An offset for a signed column: -1 from 2^63 on.
pub(crate) fn offset(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(-1)
}
