//! One operation of a COMPOUND in, the cursor behind its arguments and what nfslat wants of them out.
//!
//! The XDR is that of RFC 7531 (NFSv4.0), 5662 (4.1), 7863 (4.2) and 8276 (extended attributes). `None` ends the walk.

use crate::call::{ChannelAttrs, Channels, Sequence, Target};
use crate::nfs::{UNSTABLE, offset};
use crate::protocol::{AUTH_NONE, AUTH_SYS, RPCSEC_GSS, claim, create_mode, file_type, layout, netloc, op, protect};
use crate::xdr::Xdr;

/// What the arguments of the operations say.
#[derive(Default)]
pub(crate) struct Arguments<'a> {
    /// Of the present operation.
    pub target: Target<'a>,
    pub sequence: Option<Sequence>,
    pub create_session: Option<Channels>,
}

/// Step over the arguments of an operation.
pub(crate) fn step<'a>(op: u16, xdr: &mut Xdr<'a>, to: &mut Arguments<'a>) -> Option<()> {
    match op {
        op::PUTFH => to.target.handle = Some(handle(xdr)?),
        op::READ => {
            xdr.skip(16)?; // stateid
            to.target.offset = offset(xdr.u64()?);
            to.target.size = xdr.u32()?;
        }
        op::WRITE => {
            xdr.skip(16)?; // stateid
            to.target.offset = offset(xdr.u64()?);
            to.target.unstable = xdr.u32()? == UNSTABLE;
            to.target.size = xdr.u32()?;
            xdr.take(to.target.size as usize)?;
        }
        op::COMMIT => {
            to.target.offset = offset(xdr.u64()?);
            to.target.size = xdr.u32()?;
        }
        op::SEQUENCE => sequence(xdr, to)?,
        op::CREATE_SESSION => create_session(xdr, to)?,
        op::CREATE => create(xdr, to)?,
        op::OPEN => open(xdr, to)?,
        op::LINK | op::LOOKUP | op::REMOVE | op::SECINFO => to.target.name = Some(xdr.opaque()?),
        op::RENAME => {
            to.target.name = Some(xdr.opaque()?);
            to.target.to_name = Some(xdr.opaque()?);
        }
        // Those with a union or an array in them.
        op::LOCK => lock(xdr)?,
        op::BACKCHANNEL_CTL => {
            xdr.skip(4)?; // cb_program, sec_parms<>
            xdr.each(callback_sec_parms)?;
        }
        op::EXCHANGE_ID => exchange_id(xdr)?,
        op::LAYOUTCOMMIT => layoutcommit(xdr)?,
        op::LAYOUTRETURN => layoutreturn(xdr)?,
        op::TEST_STATEID => xdr.skip_array(16)?, // stateids<>
        op::WANT_DELEGATION => want_delegation(xdr)?,
        op::COPY => {
            xdr.fields("sshhhww")?; // stateids, offsets, count, consecutive, synchronous, source_server<>
            xdr.each(netloc)?;
        }
        op::COPY_NOTIFY => {
            xdr.skip(16)?; // stateid, destination_server
            netloc(xdr)?;
        }
        op::LAYOUTERROR => {
            xdr.fields("hhs")?; // offset, length, stateid, errors<> of deviceid, status, opnum
            xdr.skip_array(16 + 4 + 4)?;
        }
        _ => xdr.fields(plain(op)?)?,
    }
    Some(())
}

/// The arguments of those operations that only have to be stepped over, in the letters of `Xdr::fields`.
fn plain(op: u16) -> Option<&'static str> {
    Some(match op {
        op::ACCESS => "w",      // access
        op::CLOSE => "ws",      // seqid, stateid
        op::DELEGPURGE => "h",  // clientid
        op::DELEGRETURN => "s", // stateid
        op::GETATTR => "b",     // attr_request
        op::GETFH => "",
        op::LOCKT => "whhho", // locktype, offset, length, owner
        op::LOCKU => "wwshh", // locktype, seqid, stateid, offset, length
        op::LOOKUPP => "",
        op::NVERIFY => "bo",          // attributes
        op::OPENATTR => "w",          // createdir
        op::OPEN_CONFIRM => "sw",     // stateid, seqid
        op::OPEN_DOWNGRADE => "swww", // stateid, seqid, share_access, share_deny
        op::PUTPUBFH => "",
        op::PUTROOTFH => "",
        op::READDIR => "hhwwb", // cookie, cookieverf, dircount, maxcount, attr_request
        op::READLINK => "",
        op::RENEW => "h", // clientid
        op::RESTOREFH => "",
        op::SAVEFH => "",
        op::SETATTR => "sbo",                 // stateid, attributes
        op::SETCLIENTID => "howoow",          // verifier, id, cb_program, netid, addr, callback_ident
        op::SETCLIENTID_CONFIRM => "hh",      // clientid, verifier
        op::VERIFY => "bo",                   // attributes
        op::RELEASE_LOCKOWNER => "ho",        // owner
        op::BIND_CONN_TO_SESSION => "sww",    // sessionid, dir, use_conn_in_rdma_mode
        op::DESTROY_SESSION => "s",           // sessionid
        op::FREE_STATEID => "s",              // stateid
        op::GET_DIR_DELEGATION => "wbhwhwbb", // signal, notifications, two delays (nfstime4), attributes of both
        op::GETDEVICEINFO => "swwb",          // deviceid, layout_type, maxcount, notify_types
        op::GETDEVICELIST => "wwhh",          // layout_type, maxdevices, cookie, cookieverf
        op::LAYOUTGET => "wwwhhhsw", // signal, layout_type, iomode, offset, length, minlength, stateid, maxcount
        op::SECINFO_NO_NAME => "w",  // style
        op::SET_SSV => "oo",         // ssv, digest
        op::DESTROY_CLIENTID => "h", // clientid
        op::RECLAIM_COMPLETE => "w", // one_fs
        op::ALLOCATE => "shh",       // stateid, offset, length
        op::DEALLOCATE => "shh",     // stateid, offset, length
        op::IO_ADVISE => "shhb",     // stateid, offset, count, hints
        op::LAYOUTSTATS => "hhshhhhswo", // offset, length, stateid, read and written (count, bytes), deviceid, update
        op::OFFLOAD_CANCEL => "s",   // stateid
        op::OFFLOAD_STATUS => "s",   // stateid
        op::READ_PLUS => "shw",      // stateid, offset, count
        op::SEEK => "shw",           // stateid, offset, what
        op::WRITE_SAME => "swhhhhwho", // stateid, stable, app_data_block4
        op::CLONE => "sshhh",        // stateids, offsets, count
        op::GETXATTR => "o",         // name
        op::SETXATTR => "woo",       // option, key, value
        op::LISTXATTRS => "hw",      // cookie, maxcount
        op::REMOVEXATTR => "o",      // name
        op::ILLEGAL => "",
        _ => return None,
    })
}

pub(crate) fn handle<'a>(xdr: &mut Xdr<'a>) -> Option<&'a [u8]> {
    const NFS4_FHSIZE: usize = 128;
    xdr.opaque().filter(|handle| handle.len() <= NFS4_FHSIZE)
}

/// SEQUENCE, and the start of CB_SEQUENCE. A second one in a COMPOUND is an error, and says nothing here.
pub(crate) fn sequence(xdr: &mut Xdr<'_>, to: &mut Arguments<'_>) -> Option<()> {
    let found = Sequence {
        session: xdr.array()?,
        seqid: xdr.u32()?,
        slot: xdr.u32()?,
        highest_slot: xdr.u32()?,
        cachethis: xdr.u32()? != 0,
    };
    to.sequence.get_or_insert(found);
    Some(())
}

/// CREATE_SESSION: clientid, sequence, flags, both channels, cb_program, sec_parms<>.
fn create_session(xdr: &mut Xdr<'_>, to: &mut Arguments<'_>) -> Option<()> {
    xdr.fields("hww")?;
    let found = Channels { fore: channel_attrs(xdr)?, back: channel_attrs(xdr)? };
    to.create_session.get_or_insert(found);
    xdr.skip(4)?;
    xdr.each(callback_sec_parms)
}

/// `channel_attrs4`: headerpadsize, what is wanted, rdma_ird<1>.
pub(crate) fn channel_attrs(xdr: &mut Xdr<'_>) -> Option<ChannelAttrs> {
    xdr.skip(4)?;
    let found = ChannelAttrs {
        maxrequestsize: xdr.u32()?,
        maxresponsesize: xdr.u32()?,
        maxresponsesize_cached: xdr.u32()?,
        maxoperations: xdr.u32()?,
        maxrequests: xdr.u32()?,
    };
    xdr.skip_array(4)?;
    Some(found)
}

fn callback_sec_parms(xdr: &mut Xdr<'_>) -> Option<()> {
    let arm = match xdr.u32()? {
        AUTH_NONE => "",
        AUTH_SYS => "wowwb", // stamp, machinename, uid, gid, gids<> (words, as in a bitmap)
        RPCSEC_GSS => "woo", // service, handles of server and client
        _ => return None,
    };
    xdr.fields(arm)
}

/// CREATE: objtype, objname, createattrs.
fn create<'a>(xdr: &mut Xdr<'a>, to: &mut Arguments<'a>) -> Option<()> {
    let arm = match xdr.u32()? {
        file_type::BLOCK | file_type::CHARACTER => "ww", // a device: its numbers
        file_type::SYMLINK => "o",                       // its text
        _ => "",
    };
    xdr.fields(arm)?;
    to.target.name = Some(xdr.opaque()?);
    xdr.fields("bo")
}

/// OPEN: seqid, share_access, share_deny, owner, openhow, claim.
fn open<'a>(xdr: &mut Xdr<'a>, to: &mut Arguments<'a>) -> Option<()> {
    xdr.fields("wwwho")?;
    if xdr.bool()? {
        let arm = match xdr.u32()? {
            create_mode::UNCHECKED | create_mode::GUARDED => "bo", // createattrs
            create_mode::EXCLUSIVE => "h",                         // createverf
            create_mode::EXCLUSIVE_1 => "hbo",                     // both
            _ => return None,
        };
        xdr.fields(arm)?;
    }
    match xdr.u32()? {
        claim::NULL | claim::DELEGATE_PREV => to.target.name = Some(xdr.opaque()?),
        claim::PREVIOUS => xdr.skip(4)?, // delegate_type
        claim::DELEGATE_CUR => {
            xdr.skip(16)?; // stateid
            to.target.name = Some(xdr.opaque()?);
        }
        claim::FH | claim::DELEG_PREV_FH => {}
        claim::DELEG_CUR_FH => xdr.skip(16)?, // stateid
        _ => return None,
    }
    Some(())
}

/// LOCK: locktype, reclaim, offset, length, locker.
fn lock(xdr: &mut Xdr<'_>) -> Option<()> {
    xdr.fields("wwhh")?;
    // A new lock owner: open_seqid, open_stateid, lock_seqid, lock_owner; or one that exists: lock_stateid, lock_seqid.
    let arm = if xdr.bool()? { "wswho" } else { "sw" };
    xdr.fields(arm)
}

/// EXCHANGE_ID: clientowner, flags, state_protect, client_impl_id<1> (domain, name, date).
fn exchange_id(xdr: &mut Xdr<'_>) -> Option<()> {
    xdr.fields("how")?;
    match xdr.u32()? {
        protect::NONE => {}
        protect::MACH_CRED => xdr.fields("bb")?, // must_enforce, must_allow
        // The same, hash_algs<>, encr_algs<>, window, num_gss_handles
        protect::SSV => {
            xdr.fields("bb")?;
            xdr.each(|algorithm| algorithm.fields("o"))?;
            xdr.each(|algorithm| algorithm.fields("o"))?;
            xdr.fields("ww")?;
        }
        _ => return None,
    }
    xdr.each(|implementation| implementation.fields("oohw"))
}

/// LAYOUTCOMMIT: offset, length, reclaim, stateid, last_write_offset, time_modify, layoutupdate.
fn layoutcommit(xdr: &mut Xdr<'_>) -> Option<()> {
    xdr.fields("hhws")?;
    xdr.skip_optional(8)?;
    xdr.skip_optional(12)?;
    xdr.fields("wo")
}

/// LAYOUTRETURN: reclaim, layout_type, iomode, layoutreturn.
fn layoutreturn(xdr: &mut Xdr<'_>) -> Option<()> {
    xdr.skip(12)?;
    let arm = match xdr.u32()? {
        layout::FILE => "hhso", // offset, length, stateid, body
        layout::FSID | layout::ALL => "",
        _ => return None,
    };
    xdr.fields(arm)
}

/// WANT_DELEGATION: want, claim.
fn want_delegation(xdr: &mut Xdr<'_>) -> Option<()> {
    xdr.skip(4)?;
    let arm = match xdr.u32()? {
        claim::PREVIOUS => "w", // delegate_type
        claim::FH | claim::DELEG_PREV_FH => "",
        _ => return None,
    };
    xdr.fields(arm)
}

/// `netloc4`.
fn netloc(xdr: &mut Xdr<'_>) -> Option<()> {
    let arm = match xdr.u32()? {
        netloc::NAME | netloc::URL => "o",
        netloc::NETADDR => "oo", // netid, addr
        _ => return None,
    };
    xdr.fields(arm)
}
