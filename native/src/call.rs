//! What a call says: filled by `rpc`, `nfs` and `compound`, and what the pairing goes by.

use crate::protocol::{RPCSEC_GSS, is_compound};

/// "Not known" in every `u32` that this parser gives.
pub const NONE: u32 = u32::MAX;

/// What a call says, as far as its bytes were captured.
#[derive(Clone, Debug, PartialEq)]
pub struct Call<'a> {
    pub xid: u32,
    pub program: u32,
    pub version: u32,
    pub procedure: u32,
    /// Flavor of the credential; `NONE` if not captured.
    pub flavor: u32,
    /// The RPCSEC_GSS credential.
    pub gss: Option<Gss>,
    /// Of the AUTH_SYS credential; `NONE` of another one.
    pub uid: u32,
    /// The procedure; for a COMPOUND the number of its main operation, or 1 where it has none or is unseen.
    pub op: u32,
    /// Minor version of NFSv4 and its callbacks.
    pub minor: u32,
    /// CRC-32 (Wireshark's nfs.fh.hash) of the handle that the main operation works on.
    pub fh: u32,
    /// What the call, or the main operation of a COMPOUND, works on.
    pub target: Target<'a>,
    /// COMPOUND: its operations.
    pub ops: OpList,
    /// Arguments of SEQUENCE or CB_SEQUENCE.
    pub sequence: Option<Sequence>,
    /// What CREATE_SESSION asks for.
    pub create_session: Option<Channels>,
    /// All of its arguments that can be read.
    pub arguments: &'a [u8],
}

/// What an operation works on, as its arguments say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target<'a> {
    /// NFSv4: the operation's own handle, or that of the last PUTFH before it.
    pub handle: Option<&'a [u8]>,
    /// Of READ, WRITE and COMMIT; -1 where unknown or from 2^63 on.
    pub offset: i64,
    /// READ and COMMIT: bytes asked for; WRITE: bytes sent.
    pub size: u32,
    /// WRITE: the server may answer before the data are on stable storage (RFC 1813 section 3.3.7, RFC 8881 18.32).
    pub unstable: bool,
    /// Name of the file, within the handle's directory; MOUNT: the path.
    pub name: Option<&'a [u8]>,
    /// RENAME of NFSv4: the other one.
    pub to_name: Option<&'a [u8]>,
}

impl Default for Target<'_> {
    fn default() -> Self {
        Self { handle: None, offset: -1, size: NONE, unstable: false, name: None, to_name: None }
    }
}

/// Credential of RPCSEC_GSS (RFC 2203 section 5.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gss {
    pub version: u32,
    /// 0 DATA, 1 INIT, 2 CONTINUE_INIT, 3 DESTROY, 4 BIND_CHANNEL.
    pub procedure: u32,
    pub seq: u32,
    pub service: u32,
}

impl Gss {
    pub const DATA: u32 = 0;
    pub const SERVICE_NONE: u32 = 1;
    pub const INTEGRITY: u32 = 2;
    pub const PRIVACY: u32 = 3;
    /// RFC 5403 section 3.4: the channel below protects the data, which RPC leaves as they are.
    pub const CHANNEL_PROT: u32 = 4;
}

impl Default for Call<'_> {
    /// One that says nothing.
    fn default() -> Self {
        Self {
            xid: NONE,
            program: NONE,
            version: NONE,
            procedure: NONE,
            flavor: NONE,
            gss: None,
            uid: NONE,
            op: NONE,
            minor: NONE,
            fh: NONE,
            target: Target::default(),
            ops: OpList::default(),
            sequence: None,
            create_session: None,
            arguments: &[],
        }
    }
}

impl Call<'_> {
    /// Is this an NFSv4 COMPOUND or CB_COMPOUND?
    pub fn is_compound(&self) -> bool {
        is_compound(self.program, self.version, self.procedure)
    }
}

/// The operations of a COMPOUND in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpList {
    list: [u16; Self::MOST],
    len: u8,
    /// The list holds all of them.
    pub complete: bool,
}

/// Arguments of SEQUENCE (RFC 8881 section 18.46) or CB_SEQUENCE (section 20.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sequence {
    pub session: [u8; 16],
    pub seqid: u32,
    pub slot: u32,
    pub highest_slot: u32,
    pub cachethis: bool,
}

/// `channel_attrs4` (RFC 8881 section 18.36) without what concerns padding and RDMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelAttrs {
    pub maxrequestsize: u32,
    pub maxresponsesize: u32,
    pub maxresponsesize_cached: u32,
    pub maxoperations: u32,
    pub maxrequests: u32,
}

/// Both channels of a session, as CREATE_SESSION asks for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels {
    pub fore: ChannelAttrs,
    pub back: ChannelAttrs,
}

impl OpList {
    /// Longer COMPOUNDs are walked to their end, but listed no further.
    pub const MOST: usize = 24;

    /// The operation numbers.
    pub fn as_slice(&self) -> &[u16] {
        &self.list[..usize::from(self.len)]
    }

    pub(crate) fn push(&mut self, op: u16) {
        if let Some(place) = self.list.get_mut(usize::from(self.len)) {
            *place = op;
            self.len += 1;
        }
    }
}

/// What has to be known of a call to read its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    pub program: u32,
    pub version: u32,
    pub procedure: u32,
    pub minor: u32,
    /// Service of RPCSEC_GSS, `NONE` without it; `Gss::PRIVACY` stands for all results that cannot be read.
    pub service: u32,
}

impl From<&Call<'_>> for Key {
    #[inline]
    fn from(call: &Call<'_>) -> Self {
        let service = match (call.flavor, call.gss) {
            (_, Some(gss)) if gss.procedure == Gss::DATA => gss.service,
            (RPCSEC_GSS | NONE, _) => Gss::PRIVACY, // tokens, or not known
            _ => NONE,
        };
        Self { program: call.program, version: call.version, procedure: call.procedure, minor: call.minor, service }
    }
}
