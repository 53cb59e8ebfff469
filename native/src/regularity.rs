//! How regular the work of a server would be with a number of threads (`nfslat/inflight/entropy.py`).

use crate::dispatch::{self, FORCED, Work};
use crate::order;

/// Calls of one operation with fewer times have no density.
const FEW: usize = 8;
/// Nats that a call costs which is answered without a thread: e^-7, one in a thousand.
const FORCED_NATS: f64 = 7.0;
/// Of the calls, in half of the blocks; with the right number it is well below 1 %.
const MOST_FORCED: f64 = 0.03;

/// What a search looks at.
pub struct Sample<'a> {
    /// Pieces of the load, each played by itself; rows are numbered through them.
    pub pieces: &'a [Work<'a>],
    /// Rows of each operation, ascending.
    pub groups: &'a [&'a [i64]],
    /// Mean nats of each operation's calls if none waited: what those cost of which there are too few.
    pub unqueued: &'a [f64],
    /// Times of work that are closer are the same, ns.
    pub resolution_ns: f64,
}

/// By block of time, a mean over its calls: nats, and what of them is for calls that are forced.
pub type Nats = (Vec<f64>, Vec<f64>);

/// Minus the log density at each of `times`, ns, from how far its neighbours are (Vasicek 1976); 0 where there are too
/// few.
pub fn log_spacings(times: &[i64], resolution_ns: f64) -> Vec<f64> {
    if times.len() < FEW {
        return vec![0.0; times.len()];
    }
    let near = ((times.len() as f64).sqrt() as usize).max(2);
    let mut nats = order::spacings(times, near, resolution_ns);
    nats.iter_mut().for_each(|spacing| *spacing = spacing.ln());
    nats
}

/// With `threads` threads, in `blocks` blocks of time; see `dispatch::starts`. None where too many calls are forced.
pub fn nats(sample: &Sample, blocks: usize, threads: usize, by_answer: bool, leaving: bool) -> Option<Nats> {
    let rows: usize = sample.pieces.iter().map(|work| work.reply_ns.len()).sum();
    let ends: Vec<usize> = (1..=blocks).map(|block| (block * rows).div_ceil(blocks)).collect();
    let mean = |amounts: &[f64]| -> Vec<f64> {
        let begins = std::iter::once(0).chain(ends.iter().copied());
        let parts = begins.zip(&ends).map(|(begin, &end)| &amounts[begin..end]);
        parts.map(|part| part.iter().fold(0.0, |sum, amount| sum + amount) / part.len() as f64).collect()
    };
    // Turns that got out of step force many calls for a while, a wrong number forces some all the time. How wrong it is
    // is of no interest: with as many threads as calls are in flight none is forced.
    let (mut forced, mut wrong) = (vec![0; blocks], 0);
    let mut service_ns = Vec::with_capacity(rows);
    for work in sample.pieces {
        let before = service_ns.len();
        let is_wrong = |row: usize| {
            let block = (before + row) * blocks / rows;
            forced[block] += 1;
            let calls = ends[block] - if block == 0 { 0 } else { ends[block - 1] };
            let is_much = |count: usize| count as f64 / calls as f64 > MOST_FORCED;
            wrong += usize::from(is_much(forced[block]) && !is_much(forced[block] - 1));
            wrong > blocks / 2
        };
        let starts = dispatch::starts_unless(work, threads, by_answer, leaving, is_wrong)?;
        let served = starts.iter().zip(work.reply_ns);
        service_ns.extend(served.map(|(&start, &reply)| if start == FORCED { FORCED } else { reply - start }));
    }
    let is_forced = |row: usize| service_ns[row] == FORCED;
    let shares = mean(&(0..rows).map(|row| f64::from(u8::from(is_forced(row)))).collect::<Vec<_>>());
    let forced = shares.iter().map(|share| share * FORCED_NATS).collect();
    if median(shares) > MOST_FORCED {
        return None;
    }
    let mut nats = vec![0.0; rows];
    for (group, &unqueued) in sample.groups.iter().zip(sample.unqueued) {
        let (away, there): (Vec<usize>, Vec<usize>) =
            group.iter().map(|&row| row as usize).partition(|&row| is_forced(row));
        let times: Vec<i64> = there.iter().map(|&row| service_ns[row]).collect();
        let densities =
            if times.len() < FEW { vec![unqueued; times.len()] } else { log_spacings(&times, sample.resolution_ns) };
        there.iter().zip(densities).for_each(|(&row, density)| nats[row] = density);
        away.iter().for_each(|&row| nats[row] = unqueued + FORCED_NATS);
    }
    Some((mean(&nats), forced))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}
