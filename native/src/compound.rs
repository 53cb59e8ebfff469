//! Arguments of a COMPOUND or CB_COMPOUND in, its operations, its main operation and what that works on out.

use crate::callbacks;
use crate::nfs;
use crate::operations::{self, Arguments, Target};
use crate::rpc::{Call, is_callback};
use crate::xdr::Xdr;

/// How much an operation says about what its COMPOUND is for. Given from Python, where names and ranks belong together.
#[derive(Clone, Debug, Default)]
pub struct Ranks {
    /// By operation number; those behind the end have the rank `action`.
    pub nfs: Vec<u8>,
    pub callback: Vec<u8>,
    /// From this rank on an operation names its COMPOUND even where later ones are not seen.
    pub action: u8,
}

/// The operations of a COMPOUND in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ops {
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

impl Ranks {
    fn of(&self, callback: bool, op: u16) -> u8 {
        let ranks = if callback { &self.callback } else { &self.nfs };
        ranks.get(usize::from(op)).copied().unwrap_or(self.action)
    }
}

impl Ops {
    /// Longer COMPOUNDs are walked to their end, but listed no further.
    pub const MOST: usize = 24;

    /// The operation numbers.
    pub fn as_slice(&self) -> &[u16] {
        &self.list[..usize::from(self.len)]
    }

    fn push(&mut self, op: u16) {
        if let Some(place) = self.list.get_mut(usize::from(self.len)) {
            *place = op;
            self.len += 1;
        }
    }
}

/// Fill `call`; `None` where the bytes end before the first operation.
///
/// The main operation is the first of the highest rank, as `main_op` in nfslat/model/protocol.py has it.
pub(crate) fn arguments<'a>(call: &mut Call<'a>, xdr: &mut Xdr<'a>, ranks: &Ranks) -> Option<()> {
    let callback = is_callback(call.program);
    xdr.opaque()?; // tag
    call.minor = xdr.u32()?;
    if callback {
        xdr.u32()?; // callback_ident
    }
    let count = xdr.u32()?;
    let (mut main, mut main_rank) = (None, None);
    let mut found = Arguments::default();
    let mut seen = 0;
    while seen < count {
        // Numbers that do not fit are of no operation: there the walk has lost its way.
        let Some(op) = xdr.u32().and_then(|op| u16::try_from(op).ok()) else {
            break;
        };
        seen += 1;
        call.ops.push(op);
        found.target = Target { handle: found.target.handle, ..Target::default() };
        let end = if callback { callbacks::step(op, xdr, &mut found) } else { operations::step(op, xdr, &mut found) };
        let rank = Some(ranks.of(callback, op));
        if rank > main_rank {
            (main, main_rank) = (Some((op, found.target)), rank);
        }
        if end.is_none() {
            break;
        }
    }
    call.sequence = found.sequence;
    call.create_session = found.create_session;
    call.ops.complete = usize::from(call.ops.len) == count as usize;
    // Of a list that is not complete, only an operation that could be its purpose is believed.
    let (op, target) = main.filter(|_| seen == count || main_rank >= Some(ranks.action))?;
    call.op = op.into();
    call.offset = target.offset;
    call.size = target.size;
    call.name = target.name;
    if let Some(handle) = target.handle {
        call.fh = nfs::hash(handle);
    }
    Some(())
}

#[cfg(test)]
pub(crate) mod tests;
