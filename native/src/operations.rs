//! One operation of a COMPOUND in, the cursor behind its arguments and what nfslat wants of them out.
//!
//! The XDR is that of RFC 7531 (NFSv4.0), 5662 (4.1), 7863 (4.2) and 8276 (extended attributes). `None` ends the walk.

use crate::call::{ChannelAttrs, Channels, NONE, Sequence};
use crate::nfs::offset;
use crate::xdr::Xdr;

pub(crate) const PUTFH: u16 = 22;
pub(crate) const READ: u16 = 25;
pub(crate) const WRITE: u16 = 38;
pub(crate) const CREATE_SESSION: u16 = 43;
pub(crate) const SEQUENCE: u16 = 53;

/// What the arguments of the operations say.
#[derive(Default)]
pub(crate) struct Arguments<'a> {
    /// Of the present operation.
    pub target: Target<'a>,
    pub sequence: Option<Sequence>,
    pub create_session: Option<Channels>,
}

/// What one operation works on.
#[derive(Clone, Copy)]
pub(crate) struct Target<'a> {
    /// The operation's own handle, or that of the last PUTFH before it.
    pub handle: Option<&'a [u8]>,
    pub offset: i64,
    pub size: u32,
    pub name: Option<&'a [u8]>,
    /// RENAME: the other one.
    pub to_name: Option<&'a [u8]>,
}

impl Default for Target<'_> {
    fn default() -> Self {
        Self { handle: None, offset: -1, size: NONE, name: None, to_name: None }
    }
}

/// Step over the arguments of an operation.
pub(crate) fn step<'a>(op: u16, xdr: &mut Xdr<'a>, to: &mut Arguments<'a>) -> Option<()> {
    match op {
        PUTFH => to.target.handle = Some(handle(xdr)?),
        READ => {
            xdr.skip(16)?; // stateid
            to.target.offset = offset(xdr.u64()?);
            to.target.size = xdr.u32()?;
        }
        WRITE => {
            xdr.skip(16)?; // stateid
            to.target.offset = offset(xdr.u64()?);
            xdr.skip(4)?; // stable
            to.target.size = xdr.u32()?;
            xdr.take(to.target.size as usize)?;
        }
        // COMMIT
        5 => {
            to.target.offset = offset(xdr.u64()?);
            to.target.size = xdr.u32()?;
        }
        SEQUENCE => sequence(xdr, to)?,
        CREATE_SESSION => create_session(xdr, to)?,
        6 => create(xdr, to)?,
        18 => open(xdr, to)?,
        11 | 15 | 28 | 33 => to.target.name = Some(xdr.opaque()?), // LINK, LOOKUP, REMOVE, SECINFO: name
        // RENAME: oldname, newname
        29 => {
            to.target.name = Some(xdr.opaque()?);
            to.target.to_name = Some(xdr.opaque()?);
        }
        // Those with a union or an array in them.
        12 => lock(xdr)?,
        40 => {
            xdr.skip(4)?; // BACKCHANNEL_CTL: cb_program, sec_parms<>
            xdr.each(callback_sec_parms)?;
        }
        42 => exchange_id(xdr)?,
        49 => layoutcommit(xdr)?,
        51 => layoutreturn(xdr)?,
        55 => xdr.skip_array(16)?, // TEST_STATEID: stateids<>
        56 => want_delegation(xdr)?,
        60 => {
            xdr.fields("sshhhww")?; // COPY: stateids, offsets, count, consecutive, synchronous, source_server<>
            xdr.each(netloc)?;
        }
        61 => {
            xdr.skip(16)?; // COPY_NOTIFY: stateid, destination_server
            netloc(xdr)?;
        }
        64 => {
            xdr.fields("hhs")?; // LAYOUTERROR: offset, length, stateid, errors<> of deviceid, status, opnum
            xdr.skip_array(16 + 4 + 4)?;
        }
        _ => xdr.fields(plain(op)?)?,
    }
    Some(())
}

/// The arguments of those operations that only have to be stepped over, in the letters of `Xdr::fields`.
fn plain(op: u16) -> Option<&'static str> {
    Some(match op {
        3 => "w",           // ACCESS: access
        4 => "ws",          // CLOSE: seqid, stateid
        7 => "h",           // DELEGPURGE: clientid
        8 => "s",           // DELEGRETURN: stateid
        9 => "b",           // GETATTR: attr_request
        10 => "",           // GETFH
        13 => "whhho",      // LOCKT: locktype, offset, length, owner
        14 => "wwshh",      // LOCKU: locktype, seqid, stateid, offset, length
        16 => "",           // LOOKUPP
        17 => "bo",         // NVERIFY: attributes
        19 => "w",          // OPENATTR: createdir
        20 => "sw",         // OPEN_CONFIRM: stateid, seqid
        21 => "swww",       // OPEN_DOWNGRADE: stateid, seqid, share_access, share_deny
        23 => "",           // PUTPUBFH
        24 => "",           // PUTROOTFH
        26 => "hhwwb",      // READDIR: cookie, cookieverf, dircount, maxcount, attr_request
        27 => "",           // READLINK
        30 => "h",          // RENEW: clientid
        31 => "",           // RESTOREFH
        32 => "",           // SAVEFH
        34 => "sbo",        // SETATTR: stateid, attributes
        35 => "howoow",     // SETCLIENTID: verifier, id, cb_program, netid, addr, callback_ident
        36 => "hh",         // SETCLIENTID_CONFIRM: clientid, verifier
        37 => "bo",         // VERIFY: attributes
        39 => "ho",         // RELEASE_LOCKOWNER: owner
        41 => "sww",        // BIND_CONN_TO_SESSION: sessionid, dir, use_conn_in_rdma_mode
        44 => "s",          // DESTROY_SESSION: sessionid
        45 => "s",          // FREE_STATEID: stateid
        46 => "wbhwhwbb",   // GET_DIR_DELEGATION: signal, notifications, two delays (nfstime4), attributes of both
        47 => "swwb",       // GETDEVICEINFO: deviceid, layout_type, maxcount, notify_types
        48 => "wwhh",       // GETDEVICELIST: layout_type, maxdevices, cookie, cookieverf
        50 => "wwwhhhsw",   // LAYOUTGET: signal, layout_type, iomode, offset, length, minlength, stateid, maxcount
        52 => "w",          // SECINFO_NO_NAME: style
        54 => "oo",         // SET_SSV: ssv, digest
        57 => "h",          // DESTROY_CLIENTID: clientid
        58 => "w",          // RECLAIM_COMPLETE: one_fs
        59 => "shh",        // ALLOCATE: stateid, offset, length
        62 => "shh",        // DEALLOCATE: stateid, offset, length
        63 => "shhb",       // IO_ADVISE: stateid, offset, count, hints
        65 => "hhshhhhswo", // LAYOUTSTATS: offset, length, stateid, read and written (count, bytes), deviceid, update
        66 => "s",          // OFFLOAD_CANCEL: stateid
        67 => "s",          // OFFLOAD_STATUS: stateid
        68 => "shw",        // READ_PLUS: stateid, offset, count
        69 => "shw",        // SEEK: stateid, offset, what
        70 => "swhhhhwho",  // WRITE_SAME: stateid, stable, app_data_block4
        71 => "sshhh",      // CLONE: stateids, offsets, count
        72 => "o",          // GETXATTR: name
        73 => "woo",        // SETXATTR: option, key, value
        74 => "hw",         // LISTXATTRS: cookie, maxcount
        75 => "o",          // REMOVEXATTR: name
        10044 => "",        // ILLEGAL
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
        0 => "",      // AUTH_NONE
        1 => "wowwb", // AUTH_SYS: stamp, machinename, uid, gid, gids<> (words, as in a bitmap)
        6 => "woo",   // RPCSEC_GSS: service, handles of server and client
        _ => return None,
    };
    xdr.fields(arm)
}

/// CREATE: objtype, objname, createattrs.
fn create<'a>(xdr: &mut Xdr<'a>, to: &mut Arguments<'a>) -> Option<()> {
    let arm = match xdr.u32()? {
        3 | 4 => "ww", // a device: its numbers
        5 => "o",      // a symbolic link: its text
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
            0 | 1 => "bo", // UNCHECKED4, GUARDED4: createattrs
            2 => "h",      // EXCLUSIVE4: createverf
            3 => "hbo",    // EXCLUSIVE4_1: both
            _ => return None,
        };
        xdr.fields(arm)?;
    }
    match xdr.u32()? {
        0 | 3 => to.target.name = Some(xdr.opaque()?), // CLAIM_NULL, CLAIM_DELEGATE_PREV
        1 => xdr.skip(4)?,                             // CLAIM_PREVIOUS: delegate_type
        // CLAIM_DELEGATE_CUR
        2 => {
            xdr.skip(16)?; // stateid
            to.target.name = Some(xdr.opaque()?);
        }
        4 | 6 => {}         // CLAIM_FH, CLAIM_DELEG_PREV_FH
        5 => xdr.skip(16)?, // CLAIM_DELEG_CUR_FH: stateid
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
        0 => {}                 // SP4_NONE
        1 => xdr.fields("bb")?, // SP4_MACH_CRED: must_enforce, must_allow
        // SP4_SSV: the same, hash_algs<>, encr_algs<>, window, num_gss_handles
        2 => {
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
        1 => "hhso", // FILE: offset, length, stateid, body
        2 | 3 => "", // FSID, ALL
        _ => return None,
    };
    xdr.fields(arm)
}

/// WANT_DELEGATION: want, claim.
fn want_delegation(xdr: &mut Xdr<'_>) -> Option<()> {
    xdr.skip(4)?;
    let arm = match xdr.u32()? {
        1 => "w",    // CLAIM_PREVIOUS: delegate_type
        4 | 6 => "", // CLAIM_FH, CLAIM_DELEG_PREV_FH
        _ => return None,
    };
    xdr.fields(arm)
}

/// `netloc4`.
fn netloc(xdr: &mut Xdr<'_>) -> Option<()> {
    let arm = match xdr.u32()? {
        1 | 2 => "o", // a name, a URL
        3 => "oo",    // netid, addr
        _ => return None,
    };
    xdr.fields(arm)
}
