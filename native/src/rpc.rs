//! Bytes from the XID on in, what the RPC message says out: the header here (RFC 5531 section 9, RPCSEC_GSS of RFC 2203
//! and 5403, AUTH_TLS of RFC 9289), the arguments in `nfs` and `compound`.
//!
//! The bytes may end anywhere. What they do not reach is unknown; what they do is not changed by what would follow.

use crate::call::{Call, Gss, NONE};
use crate::compound::{self, Ranks};
use crate::nfs;
use crate::protocol::{AUTH_NONE, AUTH_SYS, LONGEST_AUTH, MOUNT, NFS, NLM, RPCSEC_GSS, message};
use crate::xdr::Xdr;

const RPC_VERSION: u32 = 2;

/// The header of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHead {
    pub xid: u32,
    pub accept: Accept,
    /// Why it was denied for its credential (`auth_stat`); `NONE` where it was not.
    pub auth_stat: u32,
    /// Flavor of the verifier. RPCSEC_GSS says that the results may be wrapped, even if the call's credential was not
    /// captured.
    pub verifier: u32,
    /// The verifier says STARTTLS: what follows on this connection is TLS (RFC 9289 section 4.1).
    pub starttls: bool,
    /// Where the results begin; the end of the bytes where there are none or they were not captured.
    pub results_at: usize,
}

/// `accept_stat`, and behind it the two ways in which a reply is denied (RFC 5531 section 9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum Accept {
    /// Not captured.
    Unseen = -1,
    Success,
    ProgUnavail,
    ProgMismatch,
    ProcUnavail,
    GarbageArgs,
    SystemErr,
    RpcMismatch,
    AuthError,
}

/// Why bytes are not the start of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bad {
    /// They end before the procedure of a call, or before the type of a reply.
    Short,
    /// They say what no call (or reply) says.
    NotRpc,
}

/// What a call says; `ranks` find the main operation of a COMPOUND.
pub fn parse_call<'a>(bytes: &'a [u8], ranks: &Ranks) -> Result<Call<'a>, Bad> {
    let mut call = Call::default();
    read_call(&mut call, bytes, ranks)?;
    Ok(call)
}

/// The same into a `call` that says nothing yet: to move one costs as much as to read it.
#[inline]
pub(crate) fn read_call<'a>(call: &mut Call<'a>, bytes: &'a [u8], ranks: &Ranks) -> Result<(), Bad> {
    let mut xdr = Xdr::new(bytes);
    let Some([xid, kind, version, words @ ..]) = xdr.words::<6>() else { return Err(short_call(bytes)) };
    if kind != message::CALL || version != RPC_VERSION {
        return Err(Bad::NotRpc);
    }
    (call.xid, [call.program, call.version, call.procedure]) = (xid, words);
    call.op = call.procedure;
    if let Some(mut arguments) = arguments(call, xdr)? {
        call.arguments = arguments.rest();
        // Arguments that end too early leave unknown what they would have said: that is no failure.
        let _ = match call.program {
            NFS if call.version == 2 || call.version == 3 => nfs::arguments(call, &mut arguments),
            MOUNT => nfs::mount_arguments(call, &mut arguments),
            NLM => nfs::lock_arguments(call, &mut arguments),
            _ if call.is_compound() => compound::arguments(call, &mut arguments, ranks),
            _ => None,
        };
    }
    Ok(())
}

/// Why bytes that end before the procedure are no call.
#[cold]
fn short_call(bytes: &[u8]) -> Bad {
    let mut xdr = Xdr::new(bytes);
    let _ = xdr.u32();
    let says_other = |word: Option<u32>, expected| word.is_some_and(|word| word != expected);
    let is_other = says_other(xdr.u32(), message::CALL) || says_other(xdr.u32(), RPC_VERSION);
    if is_other { Bad::NotRpc } else { Bad::Short }
}

/// Read credential and verifier into `call`: the arguments, where they are reached and can be read.
#[inline]
fn arguments<'a>(call: &mut Call<'a>, mut xdr: Xdr<'a>) -> Result<Option<Xdr<'a>>, Bad> {
    let Some(credential) = authenticator(&mut xdr)? else {
        return Ok(None);
    };
    call.flavor = credential.flavor;
    match credential.flavor {
        RPCSEC_GSS => call.gss = gss(credential.body),
        AUTH_SYS => call.uid = uid(credential.body).unwrap_or(NONE),
        _ => {}
    }
    if !credential.whole || !authenticator(&mut xdr)?.is_some_and(|verifier| verifier.whole) {
        return Ok(None);
    }
    Ok(match (credential.flavor, call.gss) {
        (RPCSEC_GSS, Some(gss)) if gss.procedure == Gss::DATA => match gss.service {
            Gss::SERVICE_NONE | Gss::CHANNEL_PROT => Some(xdr),
            Gss::INTEGRITY => integrity(xdr, Some(gss.seq)),
            _ => None,
        },
        (RPCSEC_GSS, _) => None, // tokens
        _ => Some(xdr),
    })
}

/// `rpc_gss_integ_data` (RFC 2203 section 5.3.2.2): what it wraps, behind the sequence number of the credential.
pub(crate) fn integrity(mut xdr: Xdr<'_>, expected: Option<u32>) -> Option<Xdr<'_>> {
    let length = usize::try_from(xdr.u32()?).ok()?;
    let body = xdr.rest();
    let mut body = Xdr::new(&body[..length.min(body.len())]);
    let seq = body.u32()?;
    expected.is_none_or(|expected| expected == seq).then_some(body)
}

struct Authenticator<'a> {
    flavor: u32,
    /// As much of it as was captured.
    body: &'a [u8],
    whole: bool,
}

/// A credential or verifier (`opaque_auth`, RFC 5531 section 8.2); `None` where flavor and length were not captured.
#[inline]
fn authenticator<'a>(xdr: &mut Xdr<'a>) -> Result<Option<Authenticator<'a>>, Bad> {
    let Some([flavor, length]) = xdr.words() else {
        return Ok(None);
    };
    if length > LONGEST_AUTH {
        return Err(Bad::NotRpc);
    }
    let rest = xdr.rest();
    let body = xdr.take(length as usize);
    Ok(Some(Authenticator { flavor, body: body.unwrap_or(rest), whole: body.is_some() }))
}

fn gss(body: &[u8]) -> Option<Gss> {
    let mut xdr = Xdr::new(body);
    Some(Gss { version: xdr.u32()?, procedure: xdr.u32()?, seq: xdr.u32()?, service: xdr.u32()? })
}

/// `authsys_parms` (RFC 5531 appendix A): stamp, machinename, uid, and the groups.
#[inline]
fn uid(body: &[u8]) -> Option<u32> {
    let mut xdr = Xdr::new(body);
    xdr.u32()?;
    xdr.opaque()?;
    xdr.u32()
}

/// The header of a reply.
#[inline]
pub fn parse_reply(bytes: &[u8]) -> Result<ReplyHead, Bad> {
    let mut xdr = Xdr::new(bytes);
    let [xid, kind] = xdr.words().ok_or(Bad::Short)?;
    if kind != message::REPLY {
        return Err(Bad::NotRpc);
    }
    let mut head = ReplyHead {
        xid,
        accept: Accept::Unseen,
        auth_stat: NONE,
        verifier: NONE,
        starttls: false,
        results_at: bytes.len(),
    };
    match xdr.u32() {
        None => {}
        Some(message::MSG_ACCEPTED) => accepted(&mut head, xdr)?,
        Some(message::MSG_DENIED) => denied(&mut head, xdr)?,
        Some(_) => return Err(Bad::NotRpc),
    }
    Ok(head)
}

#[inline]
fn accepted(head: &mut ReplyHead, mut xdr: Xdr<'_>) -> Result<(), Bad> {
    let Some(verifier) = authenticator(&mut xdr)? else {
        return Ok(());
    };
    head.verifier = verifier.flavor;
    head.starttls = verifier.flavor == AUTH_NONE && verifier.body == b"STARTTLS";
    if !verifier.whole {
        return Ok(());
    }
    head.accept = match xdr.u32() {
        None => Accept::Unseen,
        Some(message::SUCCESS) => {
            head.results_at -= xdr.rest().len();
            Accept::Success
        }
        Some(message::PROG_UNAVAIL) => Accept::ProgUnavail,
        Some(message::PROG_MISMATCH) => Accept::ProgMismatch,
        Some(message::PROC_UNAVAIL) => Accept::ProcUnavail,
        Some(message::GARBAGE_ARGS) => Accept::GarbageArgs,
        Some(message::SYSTEM_ERR) => Accept::SystemErr,
        Some(_) => return Err(Bad::NotRpc),
    };
    Ok(())
}

fn denied(head: &mut ReplyHead, mut xdr: Xdr<'_>) -> Result<(), Bad> {
    head.accept = match xdr.u32() {
        None => Accept::Unseen,
        Some(message::RPC_MISMATCH) => Accept::RpcMismatch,
        Some(message::AUTH_ERROR) => {
            head.auth_stat = xdr.u32().unwrap_or(NONE);
            Accept::AuthError
        }
        Some(_) => return Err(Bad::NotRpc),
    };
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
