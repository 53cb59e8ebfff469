//! Bytes in, whether an RPC record could begin there out: to find the way again in a TCP stream with holes.

use crate::protocol::{AUTH_NONE, AUTH_SYS, AUTH_TLS, LONGEST_AUTH, RPCSEC_GSS, message};
use crate::xdr::Xdr;

/// What could begin at the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plausible {
    No,
    Call,
    Reply,
}

/// Mark, XID, message type, and the RPC version or the reply's status.
const LEAST_VISIBLE: usize = 16;
/// A call as far as its procedure, a reply as far as `accept_stat`.
const HEADER_VISIBLE: usize = 28;
/// Longer records are not sent by NFS, whose READs and WRITEs end at a few MiB.
const LONGEST_RECORD: usize = 16 << 20;
/// Headers with nothing in their credential and verifier. A denied reply has only `auth_stat` or two versions.
const SHORTEST_CALL: usize = 40;
const SHORTEST_REPLY: usize = 24;
const AUTH_ERROR_REPLY: usize = 20;
const RPC_MISMATCH_REPLY: usize = 24;

/// Could `bytes`, from a record mark on, be the start of an RPC record? As much is tested as is there.
///
/// Fewer than `min` bytes (16 in any case) are too few to say so, unless they are the whole record. Sixteen agree by
/// chance at one position in 2^72 of random data, but data are not random: where every position is tried, ask for 28.
#[inline]
pub fn plausible(bytes: &[u8], min: usize) -> Plausible {
    let Some(&[a, b, c, d, e, f, g, h, 0, 0, 0, kind @ (0 | 1)]) = bytes.first_chunk() else {
        return Plausible::No;
    };
    let mark = u32::from_be_bytes([a, b, c, d]);
    let (last, length) = (mark >> 31 == 1, (mark & 0x7fff_ffff) as usize);
    if bytes.len() < LEAST_VISIBLE
        || length < AUTH_ERROR_REPLY
        || bytes.len() < min.min(4 + length)
        || length > LONGEST_RECORD
    {
        return Plausible::No;
    }
    // RFC 5531 section 11: a record may come in fragments, and all but the last have the top bit clear. Those who send
    // such records cut them where a buffer is full, behind the header and on a word. But small integers look like that
    // too: so all of the header has to speak for it, and an XID that is none of them (XIDs begin at random).
    let xid = u32::from_be_bytes([e, f, g, h]);
    if !last && (bytes.len() < HEADER_VISIBLE || length % 4 != 0 || xid < 1 << 16) {
        return Plausible::No;
    }
    // A header that the record has no room for is none.
    let cut = !last || bytes.len() < 4 + length;
    let xdr = Xdr::new(&bytes[12..bytes.len().min(4 + length)]);
    let (sound, found) = if kind == 0 {
        (length >= SHORTEST_CALL && call(xdr).unwrap_or(cut), Plausible::Call)
    } else {
        (reply(xdr, length, last).unwrap_or(cut), Plausible::Reply)
    };
    if sound { found } else { Plausible::No }
}

/// From `rpcvers` on; `None` where the bytes end and nothing spoke against it.
fn call(mut xdr: Xdr<'_>) -> Option<bool> {
    if xdr.u32()? != 2 || !is_program(xdr.u32()?) || xdr.u32()? > 100 || xdr.u32()? > 1000 {
        return Some(false);
    }
    let credential = authenticator(&mut xdr, |flavor, body| match flavor {
        AUTH_NONE | AUTH_TLS => body == 0,
        // RFC 5531 appendix A, RFC 2203 section 5.3.1: AUTH_SYS and RPCSEC_GSS hold five words at least.
        AUTH_SYS | RPCSEC_GSS => body >= 20,
        _ => true,
    });
    Some(credential? && authenticator(&mut xdr, |_, _| true)?)
}

/// From `reply_stat` on; `None` where the bytes end and nothing spoke against it.
fn reply(mut xdr: Xdr<'_>, length: usize, last: bool) -> Option<bool> {
    match xdr.u32()? {
        message::MSG_ACCEPTED if length >= SHORTEST_REPLY => {
            // RFC 9289 section 4.1: where TLS begins, the verifier of AUTH_NONE says STARTTLS.
            let verifier = authenticator(&mut xdr, |flavor, body| flavor != AUTH_NONE || body == 0 || body == 8);
            Some(verifier? && xdr.u32()? <= message::SYSTEM_ERR)
        }
        message::MSG_DENIED if last => Some(match xdr.u32()? {
            message::RPC_MISMATCH => length == RPC_MISMATCH_REPLY,
            message::AUTH_ERROR => length == AUTH_ERROR_REPLY,
            _ => false,
        }),
        _ => Some(false),
    }
}

/// Programs that are assigned (RFC 5531 section 13: by Sun, then IANA), user defined or transient.
fn is_program(program: u32) -> bool {
    matches!(program, 100_000..=400_000 | 0x2000_0000..=0x5fff_ffff)
}

/// A credential or verifier: is its flavor known, and its length such that it `holds`?
fn authenticator(xdr: &mut Xdr<'_>, holds: impl Fn(u32, u32) -> bool) -> Option<bool> {
    let flavor = xdr.u32()?;
    // NONE, SYS, SHORT, DH, RPCSEC_GSS, TLS, and the pseudo-flavors of RPCSEC_GSS (RFC 2623 section 2.2)
    if !matches!(flavor, 0..=3 | 6 | 7 | 390_000..=390_999) {
        return Some(false);
    }
    let length = xdr.u32()?;
    if length > LONGEST_AUTH || !holds(flavor, length) {
        return Some(false);
    }
    xdr.take(length as usize)?;
    Some(true)
}

#[cfg(test)]
mod tests;
