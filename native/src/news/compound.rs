//! Operations of an NFSv4 COMPOUND and their results, walked side by side, in; what they say of handles and names out.
//!
//! What a step leads to is known by its handle only once a GETFH tells it. Until then it is known by the way to it: the
//! last handle in front of it, and the names from there.

use super::{Event, News, layouts};
use crate::operations::{self, Arguments};
use crate::protocol::op;
use crate::results;
use crate::xdr::Xdr;

/// What a current or saved filehandle is.
#[derive(Clone, Default)]
struct Place<'a> {
    handle: Option<&'a [u8]>,
    /// Without a handle: it is reached from here, by `path`; where that is empty nothing is known.
    from: Option<&'a [u8]>,
    path: Vec<u8>,
    /// It is reached from the root of the server, whose handle is not known.
    is_below_root: bool,
}

impl<'a> Place<'a> {
    fn of(handle: &'a [u8]) -> Place<'a> {
        Place { handle: Some(handle), ..Place::default() }
    }

    fn root() -> Place<'a> {
        Place { path: b"/".to_vec(), is_below_root: true, ..Place::default() }
    }

    fn child(&self, name: Option<&[u8]>) -> Place<'a> {
        // RFC 8881 section 14.5: a component has no slash. One that has would look like a way of several names.
        let Some(name) = name.filter(|name| !name.contains(&b'/')) else {
            return Place { from: self.handle, ..Place::default() };
        };
        if self.handle.is_some() || self.path.is_empty() {
            return Place { from: self.handle, path: name.to_vec(), ..Place::default() };
        }
        let slash = if self.path.ends_with(b"/") { &b""[..] } else { b"/" };
        Place { path: [&self.path, slash, name].concat(), ..self.clone() }
    }

    /// Where the way up from a directory leads is not known before its handle is.
    fn parent(&self) -> Place<'a> {
        self.handle.map_or_else(Place::default, |_| self.child(Some(b"..")))
    }

    fn name(&self) -> Option<&[u8]> {
        (!self.path.is_empty()).then_some(&self.path)
    }

    /// What is said where this turns out to have a handle, or stays without one.
    fn news<'b>(&'b self, handle: Option<&'b [u8]>) -> News<'b> {
        let event = if self.is_below_root { Event::Root } else { Event::Found };
        News { handle, ..News::of(event, (self.from, self.name())) }
    }
}

pub(super) fn read<'a>(mut call: Xdr<'a>, mut reply: Xdr<'a>, hear: &mut impl FnMut(News<'_>)) -> Option<()> {
    call.fields("ow")?; // tag, minorversion
    reply.fields("wo")?; // status, tag
    let mut walk = Walk { current: Place::default(), saved: Place::default(), hear };
    let count = call.u32()?.min(reply.u32()?);
    for _ in 0..count {
        if walk.step(&mut call, &mut reply).is_none() {
            break;
        }
    }
    // The last place, of which no handle was seen.
    if walk.current.handle.is_none() {
        let last = walk.current.news(None);
        (walk.hear)(last);
    }
    Some(())
}

struct Walk<'a, 'h, F> {
    current: Place<'a>,
    saved: Place<'a>,
    hear: &'h mut F,
}

impl<'a, F: FnMut(News<'_>)> Walk<'a, '_, F> {
    /// One operation and its result. None: the walk cannot go on.
    fn step(&mut self, call: &mut Xdr<'a>, reply: &mut Xdr<'a>) -> Option<()> {
        let op = call.u32()?;
        if reply.u32()? != op || reply.u32()? != 0 {
            return None; // another COMPOUND's, or the operation that failed
        }
        let op = u16::try_from(op).ok()?;
        let mut found = Arguments::default();
        let device = call.rest().get(..layouts::DEVICE_ID);
        let arguments = operations::step(op, call, &mut found);
        let name = found.target.name;
        match op {
            op::PUTFH => self.current = found.target.handle.map_or_else(Place::default, Place::of),
            op::PUTROOTFH => self.current = Place::root(),
            // After SECINFO the current filehandle is none (RFC 8881 section 2.6.3.1.1.8), or the directory's, in NFSv4.0.
            op::PUTPUBFH | op::SECINFO | op::SECINFO_NO_NAME => self.current = Place::default(),
            op::SAVEFH => self.saved = self.current.clone(),
            op::RESTOREFH => self.current = self.saved.clone(),
            op::LOOKUP | op::CREATE => self.current = self.current.child(name),
            op::LOOKUPP => self.current = self.current.parent(),
            op::OPEN if name.is_some() => self.current = self.current.child(name),
            op::LINK => (self.hear)(self.current.child(name).news(self.saved.handle)),
            op::REMOVE => {
                let gone = self.current.child(name);
                (self.hear)(News { event: Event::Removed, ..gone.news(None) });
            }
            op::RENAME => {
                let (from, to) = (self.saved.child(name), self.current.child(found.target.to_name));
                (self.hear)(super::renamed((from.from, from.name()), (to.from, to.name())));
            }
            op::READDIR => self.listing(reply)?,
            op::LAYOUTGET => layouts::layouts(self.current.handle, reply, self.hear)?,
            op::GETDEVICEINFO => layouts::device(device, reply, self.hear)?,
            op::GETFH => {
                let handle = operations::handle(reply)?;
                self.is(handle);
            }
            op::GETATTR => {
                if let Some(handle) = attributes(reply)? {
                    self.is(handle);
                }
            }
            _ => {}
        }
        if !matches!(op, op::READDIR | op::GETFH | op::GETATTR | op::LAYOUTGET | op::GETDEVICEINFO) {
            results::step(op, reply)?;
        }
        arguments
    }

    /// The current filehandle turns out to be `handle`.
    fn is(&mut self, handle: &'a [u8]) {
        if handle.is_empty() {
            return;
        }
        if self.current.handle.is_none() {
            (self.hear)(self.current.news(Some(handle)));
        }
        self.current = Place::of(handle);
    }

    /// READDIR: cookieverf, entries (cookie, name, attributes), eof.
    fn listing(&mut self, reply: &mut Xdr<'a>) -> Option<()> {
        reply.skip(8)?;
        while reply.bool()? {
            reply.skip(8)?;
            let name = reply.opaque()?;
            if let Some(handle) = attributes(reply)? {
                (self.hear)(self.current.child(Some(name)).news(Some(handle)));
            }
        }
        reply.skip(4)
    }
}

/// Step over attributes (`fattr4`, RFC 7531); the handle among them.
fn attributes<'a>(xdr: &mut Xdr<'a>) -> Option<Option<&'a [u8]>> {
    const ACL: usize = 12;
    const FILEHANDLE: usize = 19;
    /// Of the attributes in front of it, in the letters of `Xdr::fields`.
    const BEFORE: [&str; FILEHANDLE] =
        ["b", "w", "w", "h", "h", "w", "w", "w", "hh", "w", "w", "w", "", "w", "w", "w", "w", "w", "w"];
    let words = usize::try_from(xdr.u32()?).ok()?;
    let mut bitmap = Xdr::new(xdr.take(words.checked_mul(4)?)?);
    let mask = bitmap.u32().unwrap_or(0);
    // As many of the values as were captured; behind those that are cut off nothing else is.
    let length = usize::try_from(xdr.u32()?).ok()?;
    let rest = xdr.rest();
    let values = xdr.take(length).unwrap_or_else(|| {
        *xdr = Xdr::new(&[]);
        rest
    });
    let mut values = Xdr::new(values);
    if mask >> FILEHANDLE & 1 == 0 {
        return Some(None);
    }
    let mut handle = || {
        for (number, letters) in BEFORE.iter().enumerate().filter(|(number, _)| mask >> number & 1 == 1) {
            match number {
                ACL => values.each(|entry| entry.fields("wwwo"))?,
                _ => values.fields(letters)?,
            }
        }
        operations::handle(&mut values).filter(|handle| !handle.is_empty())
    };
    Some(handle())
}
