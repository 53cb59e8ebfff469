//! Starts and ends of ops in order of time: what was in flight in between.

use crate::order;

/// One start or end among all of them.
struct Event {
    t_ns: i64,
    is_start: bool,
    /// In flight when it has happened, and before anything of its time happened.
    level: usize,
    before: usize,
    since_ns: i64,
    until_ns: i64,
    follows_end: bool,
}

/// All events in order; ends come before starts of the same time. Both columns ascend.
///
/// An op that ends before it starts makes the count one too low for no time: it is 0 then.
fn sweep(starts: &[i64], ends: &[i64], mut visit: impl FnMut(&Event)) {
    let next = |column: &[i64], at: usize| column.get(at).copied().unwrap_or(i64::MAX);
    let (mut started, mut ended) = (0, 0);
    let (mut level, mut before) = (0_i64, 0_i64);
    let (mut start, mut end) = (next(starts, 0), next(ends, 0));
    let mut last_ns = start.min(end);
    let mut was_end = false;
    for at in 0..starts.len() + ends.len() {
        // Which comes next is as good as chance, so that nothing here depends on it but what is added.
        let is_start = ended == ends.len() || start < end;
        let t_ns = if is_start { start } else { end };
        before = if t_ns != last_ns || at == 0 { level } else { before };
        level += 2 * i64::from(is_start) - 1;
        started += usize::from(is_start);
        ended += usize::from(!is_start);
        (start, end) = (next(starts, started), next(ends, ended));
        let is_last = at + 1 == starts.len() + ends.len();
        let next_ns = if is_last { t_ns } else { start.min(end) };
        visit(&Event {
            t_ns,
            is_start,
            level: level.max(0) as usize,
            before: before.max(0) as usize,
            since_ns: t_ns - last_ns,
            until_ns: next_ns - t_ns,
            follows_end: was_end,
        });
        (last_ns, was_end) = (t_ns, !is_start);
    }
}

/// Starts and ends, each ascending, after the first start; what ends before it starts ends as it starts. None where
/// there are not as many of each.
pub fn in_order(starts: &[i64], ends: &[i64]) -> Option<(Vec<i64>, Vec<i64>)> {
    if starts.len() != ends.len() {
        return None;
    }
    let begin = starts.iter().copied().min().unwrap_or_default();
    let from: Vec<i64> = starts.iter().map(|start| start.wrapping_sub(begin)).collect();
    let to: Vec<i64> = starts.iter().zip(ends).map(|(start, end)| start.max(end).wrapping_sub(begin)).collect();
    Some((order::sorted(from), order::sorted(to)))
}

fn add(column: &mut Vec<i64>, at: usize, amount: i64) {
    if at >= column.len() {
        column.resize(at + 1, 0);
    }
    column[at] += amount;
}

/// Time with exactly so many in flight, and ends that came while so many were.
pub fn levels(starts: &[i64], ends: &[i64]) -> (Vec<i64>, Vec<i64>) {
    let (mut time_ns, mut ended) = (vec![0], vec![0]);
    sweep(starts, ends, |event| {
        add(&mut time_ns, event.level, event.until_ns);
        add(&mut ended, event.before, i64::from(!event.is_start));
    });
    let rows = time_ns.len().max(ended.len());
    time_ns.resize(rows, 0);
    ended.resize(rows, 0);
    (time_ns, ended)
}

/// Of each of `windows` windows of `width_ns` from time 0: ends, time, and ops times time; and what lies behind.
pub fn windows(starts: &[i64], ends: &[i64], width_ns: i64, windows: usize) -> [Vec<f64>; 3] {
    let mut columns = [vec![0.0; windows], vec![0.0; windows], vec![0.0; windows]];
    sweep(starts, ends, |event| {
        let at = (event.t_ns / width_ns) as usize;
        if at < windows {
            columns[0][at] += f64::from(u8::from(!event.is_start));
            columns[1][at] += event.until_ns as f64;
            columns[2][at] += event.level as f64 * event.until_ns as f64;
        }
    });
    columns
}

/// From an end to the start right behind it, where that makes more than `low` and at most `top` in flight.
pub fn turnarounds(starts: &[i64], ends: &[i64], low: usize, top: usize) -> Vec<i64> {
    let mut found = Vec::new();
    sweep(starts, ends, |event| {
        if event.is_start && event.follows_end && event.level > low && event.level <= top {
            found.push(event.since_ns);
        }
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_counted_by_level_and_ends_by_the_level_before() {
        // Two from 10 to 20, one from 0 to 10 and from 20 to 30.
        assert_eq!(levels(&[0, 10], &[20, 30]), (vec![0, 20, 10], vec![0, 1, 1]));
    }

    #[test]
    fn ends_at_one_time_count_at_the_level_before_it() {
        assert_eq!(levels(&[0, 0], &[10, 10]).1, [0, 0, 2]);
        assert_eq!(levels(&[0, 10], &[10, 20]).0, [0, 20]);
    }

    #[test]
    fn a_call_that_follows_a_reply_is_told() {
        assert_eq!(turnarounds(&[0, 0, 13], &[10, 20, 30], 1, 2), [3]);
        assert_eq!(turnarounds(&[0, 0, 13], &[10, 20, 30], 2, 2), [0_i64; 0]);
    }

    #[test]
    fn windows_hold_what_begins_in_them() {
        let [ended, time_ns, area] = windows(&[0, 10], &[20, 30], 20, 1);
        assert_eq!((ended, time_ns, area), (vec![0.0], vec![20.0], vec![30.0]));
    }

    #[test]
    fn nothing_is_nothing() {
        assert_eq!(levels(&[], &[]), (vec![0], vec![0]));
    }
}
