//! ERF records in, packets out. The format has no magic number: the first records have to look like some.

use super::{Info, Record, Stop, Time};
use crate::erf::{HEADER, Head, LINK, PAD, packet};
use crate::source::Source;

/// Records that are looked at before a file is taken for ERF.
const LOOKED_AT: usize = 16;
/// So many must be right where the file is cut behind them.
const LEAST: usize = 3;
/// Between one record and the next: those of several ports need not be in order.
const LONGEST_BACK_S: i64 = 1;
const LONGEST_STEP_S: i64 = 365 * 86_400;

/// Do the first bytes look like ERF? It reads as far as it must.
pub fn looks_like_it(source: &mut Source) -> bool {
    let (mut at, mut before) = (0, None);
    for number in 0..LOOKED_AT {
        if !source.ensure(at + HEADER) {
            return number > 0 && (source.held().len() == at || number >= LEAST);
        }
        let bytes = &source.held()[at..];
        let Some(head) = Head::of(bytes).filter(Head::is_known) else { return false };
        let seconds = head.seconds();
        let step = seconds - before.unwrap_or(seconds);
        let front = packet(bytes).map_or(HEADER, |(_, front)| front);
        if head.record < front || (head.kind != PAD && !(-LONGEST_BACK_S..=LONGEST_STEP_S).contains(&step)) {
            return false;
        }
        if head.kind != PAD {
            before = Some(seconds);
        }
        at += head.record;
        if !source.ensure(at) {
            return number >= LEAST;
        }
    }
    true
}

/// The next packet.
#[inline]
pub fn next(source: &mut Source, info: &mut Info) -> Result<Record, Stop> {
    loop {
        if !source.ensure(HEADER) {
            return Err(if source.held().is_empty() { Stop::End } else { Stop::Cut });
        }
        let Some(head) = Head::of(source.held()) else { return Err(Stop::Cut) };
        if head.record < HEADER {
            return Err(Stop::Bad(format!("comes a record of {} bytes, which is too short", head.record)));
        }
        if !source.ensure(head.record) {
            return Err(Stop::Cut);
        }
        let found = packet(&source.held()[..head.record]).filter(|(_, front)| *front <= head.record);
        let start = source.take(head.record);
        if head.kind == PAD {
            continue;
        }
        info.dropped += u64::from(head.lost);
        // A record of another kind stays as it is.
        let (link, front) = found.unwrap_or((LINK, 0));
        let held = (head.record - front) as u32;
        let wire = if front == 0 { held } else { head.wire };
        return Ok(Record {
            time: Time::Ns(head.t_ns()),
            link,
            start: start + front,
            captured: held.min(wire), // the rest is padding
            wire,
            interface: head.interface.into(),
            id: 0,
        });
    }
}
