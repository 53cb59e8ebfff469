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

/// By block of time, a mean over its calls: nats, None where too many calls are forced; and what of them is for those.
pub type Nats = (Option<Vec<f64>>, Vec<f64>);

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

/// With `threads` threads, in `blocks` blocks of time; see `dispatch::starts`.
pub fn nats(sample: &Sample, blocks: usize, threads: usize, by_answer: bool, leaving: bool) -> Nats {
    let mut service_ns = Vec::new();
    for work in sample.pieces {
        let starts = dispatch::starts(work, threads, by_answer, leaving);
        let served = starts.iter().zip(work.reply_ns);
        service_ns.extend(served.map(|(&start, &reply)| if start == FORCED { FORCED } else { reply - start }));
    }
    let rows = service_ns.len();
    let mean = |amounts: &[f64]| -> Vec<f64> {
        let (mut sums, mut calls) = (vec![0.0; blocks], vec![0.0; blocks]);
        for (row, amount) in amounts.iter().enumerate() {
            sums[row * blocks / rows] += amount;
            calls[row * blocks / rows] += 1.0;
        }
        sums.iter().zip(calls).map(|(sum, calls)| sum / calls).collect()
    };
    let is_forced = |row: usize| service_ns[row] == FORCED;
    let shares = mean(&(0..rows).map(|row| f64::from(u8::from(is_forced(row)))).collect::<Vec<_>>());
    let forced = shares.iter().map(|share| share * FORCED_NATS).collect();
    // Turns that got out of step force many calls for a while, a wrong number forces some all the time. How wrong it is
    // is of no interest: with as many threads as calls are in flight none is forced.
    if median(shares) > MOST_FORCED {
        return (None, forced);
    }
    let mut nats = vec![0.0; rows];
    for (group, &unqueued) in sample.groups.iter().zip(sample.unqueued) {
        let (away, there): (Vec<usize>, Vec<usize>) = group.iter().map(|&row| row as usize).partition(|&row| is_forced(row));
        let times: Vec<i64> = there.iter().map(|&row| service_ns[row]).collect();
        let densities = if times.len() < FEW { vec![unqueued; times.len()] } else { log_spacings(&times, sample.resolution_ns) };
        there.iter().zip(densities).for_each(|(&row, density)| nats[row] = density);
        away.iter().for_each(|&row| nats[row] = unqueued + FORCED_NATS);
    }
    (Some(mean(&nats)), forced)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len() % 2 == 1 { values[middle] } else { f64::midpoint(values[middle - 1], values[middle]) }
}
