//! The numbers of RPC and NFS by their names.

/// Program numbers (RFC 5531 section 13, Linux include/uapi/linux/nfsacl.h).
pub const NFS: u32 = 100_003;
pub const MOUNT: u32 = 100_005;
pub const NLM: u32 = 100_021;
pub const NFSACL: u32 = 100_227;

/// Callback programs of NFSv4 come from the transient range (RFC 5531 section 8.4.2).
pub fn is_callback(program: u32) -> bool {
    (0x4000_0000..=0x5fff_ffff).contains(&program)
}

/// Is a call an NFSv4 COMPOUND or CB_COMPOUND?
pub fn is_compound(program: u32, version: u32, procedure: u32) -> bool {
    procedure == COMPOUND && ((program == NFS && version == 4) || is_callback(program))
}

/// The one procedure of NFSv4 and of its callbacks but NULL (RFC 8881 sections 16.2 and 20.2).
pub const COMPOUND: u32 = 1;

/// Flavors of credentials and verifiers (RFC 5531 section 8.2, RFC 9289 section 4.1).
pub const AUTH_NONE: u32 = 0;
pub const AUTH_SYS: u32 = 1;
pub const RPCSEC_GSS: u32 = 6;
pub const AUTH_TLS: u32 = 7;
/// The longest body that an authenticator may have (RFC 5531 section 8.2).
pub const LONGEST_AUTH: u32 = 400;

/// A constant for each name.
macro_rules! numbers {
    ($number:ty: $($name:ident = $value:literal,)*) => {
        $(pub const $name: $number = $value;)*
    };
}

/// `msg_type`, `reply_stat`, `accept_stat` and `reject_stat` (RFC 5531 section 9).
pub mod message {
    numbers! { u32:
        CALL = 0, REPLY = 1,
        MSG_ACCEPTED = 0, MSG_DENIED = 1,
        SUCCESS = 0, PROG_UNAVAIL = 1, PROG_MISMATCH = 2, PROC_UNAVAIL = 3, GARBAGE_ARGS = 4, SYSTEM_ERR = 5,
        RPC_MISMATCH = 0, AUTH_ERROR = 1,
    }
}

/// Procedures of MOUNT, all versions (RFC 1813 section 5.2).
pub mod mount {
    numbers! { u32: NULL = 0, MNT = 1, DUMP = 2, UMNT = 3, UMNTALL = 4, EXPORT = 5, }
}

/// Procedures of NLM (RFC 1813 section 6.1): those up to UNLOCK name a lock of a client's.
pub mod nlm {
    numbers! { u32: TEST = 1, LOCK = 2, CANCEL = 3, UNLOCK = 4, GRANTED = 5, SHARE = 20, NM_LOCK = 22, }
}

/// Procedures of NFSv2 (RFC 1094 section 2.2).
pub mod v2 {
    numbers! { u32:
        NULL = 0, GETATTR = 1, SETATTR = 2, ROOT = 3, LOOKUP = 4, READLINK = 5, READ = 6, WRCACHE = 7, WRITE = 8,
        CREATE = 9, REMOVE = 10, RENAME = 11, LINK = 12, SYMLINK = 13, MKDIR = 14, RMDIR = 15, READDIR = 16,
        STATFS = 17,
    }
}

/// Procedures of NFSv3 (RFC 1813 section 3.3).
pub mod v3 {
    numbers! { u32:
        NULL = 0, GETATTR = 1, SETATTR = 2, LOOKUP = 3, ACCESS = 4, READLINK = 5, READ = 6, WRITE = 7, CREATE = 8,
        MKDIR = 9, SYMLINK = 10, MKNOD = 11, REMOVE = 12, RMDIR = 13, RENAME = 14, LINK = 15, READDIR = 16,
        READDIRPLUS = 17, FSSTAT = 18, FSINFO = 19, PATHCONF = 20, COMMIT = 21,
    }
}

/// Procedures of NFSACL version 2; version 3 has GETXATTRDIR for the third, and no more (Linux fs/nfsd/acl.h).
pub mod acl {
    numbers! { u32: NULL = 0, GETACL = 1, SETACL = 2, GETATTR = 3, ACCESS = 4, GETXATTRDIR = 5, }
}

/// Operations of a COMPOUND (RFC 8881 section 16.2.1, RFC 7862 section 15, RFC 8276 section 8.4).
pub mod op {
    numbers! { u16:
        ACCESS = 3, CLOSE = 4, COMMIT = 5, CREATE = 6, DELEGPURGE = 7, DELEGRETURN = 8, GETATTR = 9, GETFH = 10,
        LINK = 11, LOCK = 12, LOCKT = 13, LOCKU = 14, LOOKUP = 15, LOOKUPP = 16, NVERIFY = 17, OPEN = 18,
        OPENATTR = 19, OPEN_CONFIRM = 20, OPEN_DOWNGRADE = 21, PUTFH = 22, PUTPUBFH = 23, PUTROOTFH = 24, READ = 25,
        READDIR = 26, READLINK = 27, REMOVE = 28, RENAME = 29, RENEW = 30, RESTOREFH = 31, SAVEFH = 32, SECINFO = 33,
        SETATTR = 34, SETCLIENTID = 35, SETCLIENTID_CONFIRM = 36, VERIFY = 37, WRITE = 38, RELEASE_LOCKOWNER = 39,
        BACKCHANNEL_CTL = 40, BIND_CONN_TO_SESSION = 41, EXCHANGE_ID = 42, CREATE_SESSION = 43, DESTROY_SESSION = 44,
        FREE_STATEID = 45, GET_DIR_DELEGATION = 46, GETDEVICEINFO = 47, GETDEVICELIST = 48, LAYOUTCOMMIT = 49,
        LAYOUTGET = 50, LAYOUTRETURN = 51, SECINFO_NO_NAME = 52, SEQUENCE = 53, SET_SSV = 54, TEST_STATEID = 55,
        WANT_DELEGATION = 56, DESTROY_CLIENTID = 57, RECLAIM_COMPLETE = 58, ALLOCATE = 59, COPY = 60,
        COPY_NOTIFY = 61, DEALLOCATE = 62, IO_ADVISE = 63, LAYOUTERROR = 64, LAYOUTSTATS = 65, OFFLOAD_CANCEL = 66,
        OFFLOAD_STATUS = 67, READ_PLUS = 68, SEEK = 69, WRITE_SAME = 70, CLONE = 71, GETXATTR = 72, SETXATTR = 73,
        LISTXATTRS = 74, REMOVEXATTR = 75, ILLEGAL = 10044,
    }
}

/// Operations of a CB_COMPOUND (RFC 8881 section 20.2, RFC 7862 section 16).
pub mod cb {
    numbers! { u16:
        GETATTR = 3, RECALL = 4, LAYOUTRECALL = 5, NOTIFY = 6, PUSH_DELEG = 7, RECALL_ANY = 8,
        RECALLABLE_OBJ_AVAIL = 9, RECALL_SLOT = 10, SEQUENCE = 11, WANTS_CANCELLED = 12, NOTIFY_LOCK = 13,
        NOTIFY_DEVICEID = 14, OFFLOAD = 15, ILLEGAL = 10044,
    }
}

/// `nfs_ftype4`, as far as the arguments of CREATE go by it.
pub mod file_type {
    numbers! { u32: BLOCK = 3, CHARACTER = 4, SYMLINK = 5, }
}

/// `createmode4`.
pub mod create_mode {
    numbers! { u32: UNCHECKED = 0, GUARDED = 1, EXCLUSIVE = 2, EXCLUSIVE_1 = 3, }
}

/// `open_claim_type4`.
pub mod claim {
    numbers! { u32:
        NULL = 0, PREVIOUS = 1, DELEGATE_CUR = 2, DELEGATE_PREV = 3, FH = 4, DELEG_CUR_FH = 5, DELEG_PREV_FH = 6,
    }
}

/// `open_delegation_type4`, and of OPEN_DELEGATE_NONE_EXT the reasons (`why_no_delegation4`) that say one thing more.
pub mod delegation {
    numbers! { u32:
        NONE = 0, READ = 1, WRITE = 2, NONE_EXT = 3, READ_ATTRS = 4, WRITE_ATTRS = 5,
        CONTENTION = 1, RESOURCE = 2,
    }
}

/// `state_protect_how4`.
pub mod protect {
    numbers! { u32: NONE = 0, MACH_CRED = 1, SSV = 2, }
}

/// `layoutreturn_type4` and `layoutrecall_type4`.
pub mod layout {
    numbers! { u32: FILE = 1, FSID = 2, ALL = 3, }
}

/// `layouttype4` (RFC 8881 section 3.3.13, RFC 8435 section 3).
pub mod layout_type {
    numbers! { u32: FILES = 1, FLEXIBLE = 4, }
}

/// `netloc_type4`.
pub mod netloc {
    numbers! { u32: NAME = 1, URL = 2, NETADDR = 3, }
}
