//! Bytes of an accepted reply from its results on in, with what its call was; status, sizes and session limits out.

use crate::call::{Channels, Gss, Key, NONE};
use crate::callbacks;
use crate::operations;
use crate::protocol::{MOUNT, NFS, NFSACL, NLM, acl, cb, is_callback, is_compound, mount, nlm, op, v2, v3};
use crate::rpc::integrity;
use crate::xdr::Xdr;

/// What the results say; `NONE` where nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Results {
    /// The status: the first word of the results of every procedure but NULL of NFS, and of MNT; NLM's is behind a cookie.
    pub status: u32,
    /// COMPOUND: number of results, one an operation; where `status` is not 0, the last one failed.
    pub results: u32,
    pub sequence: Option<SequenceResult>,
    pub create_session: Option<SessionResult>,
    /// READ: bytes returned; WRITE: bytes written.
    pub size: u32,
}

/// Results of SEQUENCE (RFC 8881 section 18.46) or CB_SEQUENCE (section 20.9), which has no flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SequenceResult {
    pub session: [u8; 16],
    pub seqid: u32,
    pub slot: u32,
    pub highest_slot: u32,
    pub target_highest_slot: u32,
    pub flags: u32,
}

/// Results of CREATE_SESSION (RFC 8881 section 18.36): what the server grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionResult {
    pub session: [u8; 16],
    pub seqid: u32,
    pub flags: u32,
    pub channels: Channels,
}

/// What the results of a call that was `Accept::Success` say.
pub fn parse_results(bytes: &[u8], call: &Key) -> Results {
    let mut results = Results { status: NONE, results: NONE, sequence: None, create_session: None, size: NONE };
    if let Some(mut xdr) = clear(bytes, call) {
        // Results that end too early leave unknown what they would have said: that is no failure.
        let _ = read(&mut results, &mut xdr, call);
    }
    results
}

/// Results without what RPCSEC_GSS wraps them in; None where they are encrypted.
pub(crate) fn clear<'a>(bytes: &'a [u8], call: &Key) -> Option<Xdr<'a>> {
    let xdr = Xdr::new(bytes);
    match call.service {
        NONE | Gss::SERVICE_NONE | Gss::CHANNEL_PROT => Some(xdr),
        Gss::INTEGRITY => integrity(xdr, None),
        _ => None,
    }
}

fn read(to: &mut Results, xdr: &mut Xdr<'_>, call: &Key) -> Option<()> {
    match (call.program, call.version, call.procedure) {
        (NFS, 2, v2::ROOT | v2::WRCACHE) => None, // void
        (NFS, 2, v2::GETATTR..=v2::STATFS) => version2(to, xdr, call.procedure),
        (NFS, 3, v3::GETATTR..=v3::COMMIT) => version3(to, xdr, call.procedure),
        (NFSACL, 2 | 3, acl::GETACL..=acl::GETXATTRDIR) | (MOUNT, 1..=3, mount::MNT) => {
            to.status = xdr.u32()?;
            Some(())
        }
        (NLM, 1..=4, nlm::TEST..=nlm::GRANTED | nlm::SHARE..=nlm::NM_LOCK) => {
            xdr.opaque()?; // cookie
            to.status = xdr.u32()?;
            Some(())
        }
        (program, version, procedure) if is_compound(program, version, procedure) => {
            compound(to, xdr, is_callback(program))
        }
        _ => None,
    }
}

fn version2(to: &mut Results, xdr: &mut Xdr<'_>, procedure: u32) -> Option<()> {
    const FATTR: usize = 68;
    to.status = xdr.u32()?;
    if to.status == 0 && procedure == v2::READ {
        xdr.skip(FATTR)?;
        to.size = xdr.u32()?;
    }
    Some(())
}

fn version3(to: &mut Results, xdr: &mut Xdr<'_>, procedure: u32) -> Option<()> {
    const FATTR3: usize = 84;
    const WCC_ATTR: usize = 24;
    to.status = xdr.u32()?;
    if to.status == 0 && matches!(procedure, v3::READ | v3::WRITE) {
        if procedure == v3::WRITE {
            xdr.skip_optional(WCC_ATTR)?;
        }
        xdr.skip_optional(FATTR3)?;
        to.size = xdr.u32()?;
    }
    Some(())
}

/// Walk the results as far as SEQUENCE, CREATE_SESSION and the first READ or WRITE need it.
fn compound(to: &mut Results, xdr: &mut Xdr<'_>, callback: bool) -> Option<()> {
    to.status = xdr.u32()?;
    xdr.opaque()?; // tag
    to.results = xdr.u32()?;
    for _ in 0..to.results {
        let op = u16::try_from(xdr.u32()?).ok()?;
        if xdr.u32()? != 0 {
            return None; // the last one: nothing that is wanted follows a failure
        }
        match op {
            cb::SEQUENCE if callback => to.sequence = Some(sequence(xdr, true)?),
            _ if callback => return None,
            op::SEQUENCE => to.sequence = Some(sequence(xdr, false)?),
            op::CREATE_SESSION => to.create_session = Some(session(xdr)?),
            op::READ => {
                xdr.skip(4)?; // eof
                to.size = xdr.u32()?;
                return Some(());
            }
            op::WRITE => {
                to.size = xdr.u32()?;
                return Some(());
            }
            _ => step(op, xdr)?,
        }
    }
    Some(())
}

/// Step over the results of an operation that succeeded; `None` for those that nothing wanted stands behind.
pub(crate) fn step(op: u16, xdr: &mut Xdr<'_>) -> Option<()> {
    match op {
        op::DELEGRETURN
        | op::LOCKT
        | op::LOOKUP
        | op::LOOKUPP
        | op::NVERIFY
        | op::OPENATTR
        | op::PUTFH
        | op::PUTPUBFH
        | op::PUTROOTFH
        | op::RENEW
        | op::RESTOREFH
        | op::SAVEFH
        | op::SETCLIENTID_CONFIRM
        | op::VERIFY
        | op::RELEASE_LOCKOWNER
        | op::FREE_STATEID
        | op::RECLAIM_COMPLETE
        | op::ALLOCATE
        | op::DEALLOCATE => Some(()),
        op::ACCESS => xdr.fields("ww"), // supported, access
        op::CLOSE | op::LOCK | op::LOCKU | op::OPEN_CONFIRM | op::OPEN_DOWNGRADE => xdr.fields("s"), // stateid
        op::COMMIT => xdr.fields("h"),  // writeverf
        op::CREATE => xdr.fields("whhb"), // cinfo, attrset
        op::GETATTR => xdr.fields("bo"), // attributes
        op::GETFH => xdr.fields("o"),   // object
        op::LINK | op::REMOVE => xdr.fields("whh"), // cinfo
        op::READ => xdr.fields("wo"),   // eof, data
        op::READLINK => xdr.fields("o"), // link
        op::RENAME => xdr.fields("whhwhh"), // cinfo of both
        op::SETATTR => xdr.fields("b"), // attrsset
        op::WRITE => xdr.fields("wwh"), // count, committed, writeverf
        op::SEQUENCE => xdr.fields("swwwww"),
        // stateid, cinfo (atomic, before, after), rflags, attrset, delegation
        op::OPEN => {
            xdr.fields("swhhwb")?;
            callbacks::open_delegation(xdr)
        }
        _ => None,
    }
}

fn sequence(xdr: &mut Xdr<'_>, callback: bool) -> Option<SequenceResult> {
    Some(SequenceResult {
        session: xdr.array()?,
        seqid: xdr.u32()?,
        slot: xdr.u32()?,
        highest_slot: xdr.u32()?,
        target_highest_slot: xdr.u32()?,
        flags: if callback { NONE } else { xdr.u32()? },
    })
}

fn session(xdr: &mut Xdr<'_>) -> Option<SessionResult> {
    let (session, seqid, flags) = (xdr.array()?, xdr.u32()?, xdr.u32()?);
    let fore = operations::channel_attrs(xdr)?;
    let back = operations::channel_attrs(xdr)?;
    Some(SessionResult { session, seqid, flags, channels: Channels { fore, back } })
}

#[cfg(test)]
mod tests;
