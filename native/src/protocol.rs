//! The numbers of RPC and NFS by their names.

/// Program numbers (RFC 5531 section 13, Linux include/uapi/linux/nfsacl.h).
pub const NFS: u32 = 100_003;
pub const MOUNT: u32 = 100_005;
pub const NFSACL: u32 = 100_227;

/// Flavors of credentials and verifiers (RFC 5531 section 8.2, RFC 9289 section 4.1).
pub const AUTH_NONE: u32 = 0;
pub const AUTH_SYS: u32 = 1;
pub const RPCSEC_GSS: u32 = 6;
pub const AUTH_TLS: u32 = 7;
/// The longest body that an authenticator may have (RFC 5531 section 8.2).
pub const LONGEST_AUTH: u32 = 400;

/// Callback programs of NFSv4 come from the transient range (RFC 5531 section 8.4.2).
pub fn is_callback(program: u32) -> bool {
    (0x4000_0000..=0x5fff_ffff).contains(&program)
}

/// Is a call an NFSv4 COMPOUND or CB_COMPOUND?
pub fn is_compound(program: u32, version: u32, procedure: u32) -> bool {
    procedure == 1 && ((program == NFS && version == 4) || is_callback(program))
}
