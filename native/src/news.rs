//! Arguments of a call and its results in, which file handle is which name in which directory out, or which data server's.
//!
//! NFSv2 (RFC 1094), NFSv3 (RFC 1813), NFSv4 (RFC 7531, 5662, 7863) and MOUNT (RFC 1094 appendix A, RFC 1813 appendix I).
//! Only what succeeded says anything. Bytes that end too early, or that are none of these, end the reading; what was
//! said before stands.

use crate::call::{Call, Key};
use crate::nfs::{FHSIZE, nfs_fh3};
use crate::protocol::{COMPOUND, MOUNT, NFS, mount, op, v2, v3};
use crate::xdr::Xdr;

/// What one row of `nfslat.model.details.Files` says (`nfslat.model.details.FileEvent`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum Event {
    /// `name` in `directory` is `handle`.
    Found = 0,
    /// `handle` is what the path `name` leads to.
    Root = 1,
    /// `name` in `directory` is from now on `to_name` in `to_directory`.
    Renamed = 2,
    /// `name` in `directory` is gone.
    Removed = 3,
    /// Data of the file `handle` are at the device `directory`, under the handle `to_directory`.
    LaidOut = 4,
    /// The device `handle` is a server at `name`, a universal address (RFC 5665).
    Device = 5,
}

/// One of them; None is what was not captured, or not said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News<'a> {
    pub event: Event,
    pub directory: Option<&'a [u8]>,
    pub name: Option<&'a [u8]>,
    pub handle: Option<&'a [u8]>,
    pub to_directory: Option<&'a [u8]>,
    pub to_name: Option<&'a [u8]>,
}

/// A directory, and a name in it.
type Entry<'a> = (Option<&'a [u8]>, Option<&'a [u8]>);

impl<'a> News<'a> {
    fn of(event: Event, (directory, name): Entry<'a>) -> News<'a> {
        News { event, directory, name, handle: None, to_directory: None, to_name: None }
    }

    /// One thing alone says nothing of how a handle and a name belong together.
    pub fn is_any(&self) -> bool {
        let News { event: _, directory, name, handle, to_directory, to_name } = self;
        [directory, name, handle, to_directory, to_name].iter().filter(|known| known.is_some()).count() >= 2
    }
}

/// May the reply to this call name a file?
#[inline]
pub fn asks(call: &Call<'_>) -> bool {
    match (call.program, call.version) {
        (NFS, 3) => matches!(call.procedure, v3::LOOKUP | v3::CREATE..=v3::LINK | v3::READDIRPLUS),
        (NFS, 2) => matches!(call.procedure, v2::LOOKUP | v2::CREATE..=v2::RMDIR),
        (MOUNT, 1..=3) => call.procedure == mount::MNT,
        (NFS, 4) => call.ops.as_slice().iter().any(|op| names(*op)),
        _ => false,
    }
}

/// May an operation of a COMPOUND name a file?
fn names(op: u16) -> bool {
    matches!(
        op,
        op::CREATE
            | op::GETDEVICEINFO
            | op::LAYOUTGET
            | op::LINK
            | op::LOOKUP
            | op::LOOKUPP
            | op::OPEN
            | op::PUTROOTFH
            | op::READDIR
            | op::REMOVE
            | op::RENAME
    )
}

/// Let `hear` have what the results of a call say, where its arguments are `arguments`. None: they end too early.
pub fn read(key: &Key, arguments: &[u8], results: Xdr<'_>, mut hear: impl FnMut(News<'_>)) -> Option<()> {
    let arguments = Xdr::new(arguments);
    match (key.program, key.version, key.procedure) {
        (NFS, 2, procedure) => version2(procedure, arguments, results, &mut hear),
        (NFS, 3, procedure) => version3(procedure, arguments, results, &mut hear),
        (NFS, 4, COMPOUND) => compound::read(arguments, results, &mut hear),
        (MOUNT, version, mount::MNT) => mounted(version, arguments, results, &mut hear),
        _ => None,
    }
}

/// What `read` finds; where it finds nothing, nothing behind it is read either.
fn or_end<'a, T>(xdr: &mut Xdr<'a>, read: impl FnOnce(&mut Xdr<'a>) -> Option<T>) -> Option<T> {
    let found = read(xdr);
    if found.is_none() {
        *xdr = Xdr::new(&[]);
    }
    found
}

/// A handle; the empty one (the public handle of RFC 2054) is another directory at each server.
fn handle3<'a>(xdr: &mut Xdr<'a>) -> Option<&'a [u8]> {
    or_end(xdr, nfs_fh3).filter(|handle| !handle.is_empty())
}

fn handle2<'a>(xdr: &mut Xdr<'a>) -> Option<&'a [u8]> {
    or_end(xdr, |xdr| xdr.take(FHSIZE))
}

fn entry3<'a>(xdr: &mut Xdr<'a>) -> Entry<'a> {
    (handle3(xdr), or_end(xdr, Xdr::opaque))
}

fn entry2<'a>(xdr: &mut Xdr<'a>) -> Entry<'a> {
    (handle2(xdr), or_end(xdr, Xdr::opaque))
}

fn mounted(version: u32, mut arguments: Xdr<'_>, mut results: Xdr<'_>, hear: &mut impl FnMut(News<'_>)) -> Option<()> {
    succeeded(&mut results)?;
    let handle = if version == 3 { handle3(&mut results) } else { handle2(&mut results) };
    hear(News { handle, ..News::of(Event::Root, (None, arguments.opaque())) });
    Some(())
}

fn succeeded(results: &mut Xdr<'_>) -> Option<()> {
    (results.u32()? == 0).then_some(())
}

fn version2(procedure: u32, mut call: Xdr<'_>, mut results: Xdr<'_>, hear: &mut impl FnMut(News<'_>)) -> Option<()> {
    succeeded(&mut results)?;
    hear(match procedure {
        // The handle comes first
        v2::LOOKUP | v2::CREATE | v2::MKDIR => {
            News { handle: handle2(&mut results), ..News::of(Event::Found, entry2(&mut call)) }
        }
        v2::SYMLINK => News::of(Event::Found, entry2(&mut call)), // no more than the status
        v2::REMOVE | v2::RMDIR => News::of(Event::Removed, entry2(&mut call)),
        // The file, then the directory and the name in it
        v2::LINK => News { handle: handle2(&mut call), ..News::of(Event::Found, entry2(&mut call)) },
        v2::RENAME => renamed(entry2(&mut call), entry2(&mut call)),
        _ => return None,
    });
    Some(())
}

fn version3(procedure: u32, mut call: Xdr<'_>, mut results: Xdr<'_>, hear: &mut impl FnMut(News<'_>)) -> Option<()> {
    succeeded(&mut results)?;
    hear(match procedure {
        v3::LOOKUP => News { handle: handle3(&mut results), ..News::of(Event::Found, entry3(&mut call)) },
        // The handle is optional
        v3::CREATE | v3::MKDIR | v3::SYMLINK | v3::MKNOD => {
            let handle = if results.bool() == Some(true) { handle3(&mut results) } else { None };
            News { handle, ..News::of(Event::Found, entry3(&mut call)) }
        }
        v3::REMOVE | v3::RMDIR => News::of(Event::Removed, entry3(&mut call)),
        v3::RENAME => renamed(entry3(&mut call), entry3(&mut call)),
        // The file, then the directory and the name in it
        v3::LINK => News { handle: handle3(&mut call), ..News::of(Event::Found, entry3(&mut call)) },
        v3::READDIRPLUS => return readdirplus(handle3(&mut call), results, hear),
        _ => return None,
    });
    Some(())
}

fn renamed<'a>(from: Entry<'a>, (to_directory, to_name): Entry<'a>) -> News<'a> {
    News { to_directory, to_name, ..News::of(Event::Renamed, from) }
}

/// READDIRPLUS: attributes of the directory, cookieverf, entries (fileid, name, cookie, attributes and handle).
fn readdirplus(directory: Option<&[u8]>, mut xdr: Xdr<'_>, hear: &mut impl FnMut(News<'_>)) -> Option<()> {
    const FATTR3: usize = 84;
    xdr.skip_optional(FATTR3)?;
    xdr.skip(8)?;
    while xdr.bool()? {
        xdr.skip(8)?;
        let name = xdr.opaque()?;
        xdr.skip(8)?;
        xdr.skip_optional(FATTR3)?;
        let handle = if xdr.bool()? { Some(nfs_fh3(&mut xdr)?) } else { None };
        if handle.is_some_and(|handle| !handle.is_empty()) && name != b"." {
            hear(News { handle, ..News::of(Event::Found, (directory, Some(name))) });
        }
    }
    Some(())
}

mod compound;
mod layouts;
#[cfg(test)]
mod tests;
