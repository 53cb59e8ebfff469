//! Arguments of an NFSv2 (RFC 1094), NFSv3, MOUNT or NLM call (RFC 1813) in, its handle, offset, size and name out.

use crate::call::{Call, NONE};
use crate::protocol::{mount, nlm, v2, v3};
use crate::xdr::Xdr;

/// Length of every NFSv2 handle (RFC 1094 section 2.3.3), and the longest of NFSv3 (RFC 1813 section 2.4).
pub(crate) const FHSIZE: usize = 32;
const NFS3_FHSIZE: usize = 64;
/// Of `stable_how` (RFC 1813 section 3.3.7) and `stable_how4` (RFC 8881 section 18.32).
pub(crate) const UNSTABLE: u32 = 0;

/// Fill `call`; `None` where the bytes end before everything is known.
pub(crate) fn arguments<'a>(call: &mut Call<'a>, xdr: &mut Xdr<'a>) -> Option<()> {
    match call.version {
        3 => version3(call, xdr),
        _ => version2(call, xdr),
    }
}

fn version3<'a>(call: &mut Call<'a>, xdr: &mut Xdr<'a>) -> Option<()> {
    if !matches!(call.procedure, v3::GETATTR..=v3::COMMIT) {
        return None;
    }
    call.fh = hash(nfs_fh3(xdr)?);
    match call.procedure {
        // They begin alike: offset, count; that of a WRITE is its data's (RFC 1813 section 3.3.7).
        v3::READ | v3::WRITE | v3::COMMIT => {
            call.target.offset = offset(xdr.u64()?);
            call.target.size = xdr.u32()?;
            call.target.unstable = call.procedure == v3::WRITE && xdr.u32() == Some(UNSTABLE);
        }
        v3::LOOKUP | v3::CREATE | v3::MKDIR | v3::SYMLINK | v3::MKNOD | v3::REMOVE | v3::RMDIR | v3::RENAME => {
            call.target.name = Some(xdr.opaque()?)
        }
        // The file, then the directory and the name in it
        v3::LINK => {
            nfs_fh3(xdr)?;
            call.target.name = Some(xdr.opaque()?);
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
    if !matches!(call.procedure, v2::GETATTR..=v2::STATFS) || matches!(call.procedure, v2::ROOT | v2::WRCACHE) {
        return None;
    }
    call.fh = hash(xdr.take(FHSIZE)?);
    match call.procedure {
        v2::READ => {
            call.target.offset = xdr.u32()?.into();
            call.target.size = xdr.u32()?;
        }
        // beginoffset, offset, totalcount, data; the first and third are unused (RFC 1094 section 2.2.9).
        v2::WRITE => {
            xdr.skip(4)?;
            call.target.offset = xdr.u32()?.into();
            xdr.skip(4)?;
            call.target.size = xdr.u32()?;
        }
        v2::LOOKUP | v2::CREATE | v2::REMOVE | v2::RENAME | v2::SYMLINK | v2::MKDIR | v2::RMDIR => {
            call.target.name = Some(xdr.opaque()?)
        }
        // The file, then the directory and the name in it
        v2::LINK => {
            xdr.skip(FHSIZE)?;
            call.target.name = Some(xdr.opaque()?);
        }
        _ => {}
    }
    Some(())
}

/// The path that MNT and UMNT name (RFC 1813 sections 5.2.1 and 5.2.3; as in RFC 1094 appendix A).
pub(crate) fn mount_arguments<'a>(call: &mut Call<'a>, xdr: &mut Xdr<'a>) -> Option<()> {
    if matches!(call.procedure, mount::MNT | mount::UMNT) {
        call.target.name = Some(xdr.opaque()?);
    }
    Some(())
}

/// The file, and where the lock begins, that NLM is asked about (RFC 1813 section 6.3; offsets had 32 bits before).
pub(crate) fn lock_arguments<'a>(call: &mut Call<'a>, xdr: &mut Xdr<'a>) -> Option<()> {
    xdr.opaque()?; // cookie
    xdr.skip(match call.procedure {
        nlm::TEST => 4,               // exclusive
        nlm::LOCK | nlm::CANCEL => 8, // block, exclusive
        nlm::UNLOCK => 0,
        _ => return None,
    })?;
    xdr.opaque()?; // caller_name
    call.fh = hash(nfs_fh3(xdr)?);
    xdr.opaque()?; // owner
    xdr.skip(4)?; // svid
    call.target.offset = if call.version == 4 { offset(xdr.u64()?) } else { xdr.u32()?.into() };
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
