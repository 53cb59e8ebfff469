//! Arguments of a call and its results in, which file handle is which name in which directory out.
//!
//! NFSv2 (RFC 1094), NFSv3 (RFC 1813), NFSv4 (RFC 7531, 5662, 7863) and MOUNT (RFC 1094 appendix A, RFC 1813 appendix I).
//! Only what succeeded says anything. Bytes that end too early, or that are none of these, end the reading; what was
//! said before stands.

use crate::call::{Call, Key};
use crate::nfs::{FHSIZE, nfs_fh3};
use crate::protocol::{MOUNT, NFS};
use crate::xdr::Xdr;

/// What one row of `nfslat.details.Files` says (`nfslat.details.FileEvent`).
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
        (NFS, 3) => matches!(call.procedure, 3 | 8..=15 | 17),
        (NFS, 2) => matches!(call.procedure, 4 | 9..=15),
        (MOUNT, 1..=3) => call.procedure == 1,
        // CREATE, LINK, LOOKUP, LOOKUPP, OPEN, PUTROOTFH, READDIR, REMOVE, RENAME
        (NFS, 4) => call.ops.as_slice().iter().any(|op| matches!(op, 6 | 11 | 15 | 16 | 18 | 24 | 26 | 28 | 29)),
        _ => false,
    }
}

/// Let `hear` have what the results of a call say, where its arguments are `arguments`. None: they end too early.
pub fn read(key: &Key, arguments: &[u8], results: Xdr<'_>, mut hear: impl FnMut(News<'_>)) -> Option<()> {
    let arguments = Xdr::new(arguments);
    match (key.program, key.version, key.procedure) {
        (NFS, 2, procedure) => version2(procedure, arguments, results, &mut hear),
        (NFS, 3, procedure) => version3(procedure, arguments, results, &mut hear),
        (NFS, 4, 1) => compound::read(arguments, results, &mut hear),
        (MOUNT, version, 1) => mount(version, arguments, results, &mut hear),
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

fn mount(version: u32, mut arguments: Xdr<'_>, mut results: Xdr<'_>, hear: &mut impl FnMut(News<'_>)) -> Option<()> {
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
        // LOOKUP, CREATE, MKDIR: the handle comes first
        4 | 9 | 14 => News { handle: handle2(&mut results), ..News::of(Event::Found, entry2(&mut call)) },
        13 => News::of(Event::Found, entry2(&mut call)), // SYMLINK: no more than the status
        10 | 15 => News::of(Event::Removed, entry2(&mut call)), // REMOVE, RMDIR
        // LINK: the file, then the directory and the name in it
        12 => News { handle: handle2(&mut call), ..News::of(Event::Found, entry2(&mut call)) },
        11 => renamed(entry2(&mut call), entry2(&mut call)),
        _ => return None,
    });
    Some(())
}

fn version3(procedure: u32, mut call: Xdr<'_>, mut results: Xdr<'_>, hear: &mut impl FnMut(News<'_>)) -> Option<()> {
    succeeded(&mut results)?;
    hear(match procedure {
        3 => News { handle: handle3(&mut results), ..News::of(Event::Found, entry3(&mut call)) }, // LOOKUP
        // CREATE, MKDIR, SYMLINK, MKNOD: the handle is optional
        8..=11 => {
            let handle = if results.bool() == Some(true) { handle3(&mut results) } else { None };
            News { handle, ..News::of(Event::Found, entry3(&mut call)) }
        }
        12 | 13 => News::of(Event::Removed, entry3(&mut call)), // REMOVE, RMDIR
        14 => renamed(entry3(&mut call), entry3(&mut call)),
        // LINK: the file, then the directory and the name in it
        15 => News { handle: handle3(&mut call), ..News::of(Event::Found, entry3(&mut call)) },
        17 => return readdirplus(handle3(&mut call), results, hear),
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
#[cfg(test)]
mod tests;
