//! Arguments of a COMPOUND or CB_COMPOUND in, its operations, its main operation and what that works on out.

use crate::call::{Call, Target};
use crate::callbacks;
use crate::nfs;
use crate::operations::{self, Arguments};
use crate::protocol::is_callback;
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

impl Ranks {
    fn of(&self, callback: bool, op: u16) -> u8 {
        let ranks = if callback { &self.callback } else { &self.nfs };
        ranks.get(usize::from(op)).copied().unwrap_or(self.action)
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
    call.ops.complete = call.ops.as_slice().len() == count as usize;
    // Of a list that is not complete, only an operation that could be its purpose is believed.
    let (op, target) = main.filter(|_| seen == count || main_rank >= Some(ranks.action))?;
    call.op = op.into();
    call.target = target;
    if let Some(handle) = target.handle {
        call.fh = nfs::hash(handle);
    }
    Some(())
}

#[cfg(test)]
pub(crate) mod tests;
