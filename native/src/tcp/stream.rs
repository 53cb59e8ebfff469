//! One direction of a conversation in, its packets with payload, what its receiver said to them, and what follows of both
//! out (`nfslat/tcp/stream.py`).

use hashbrown::{HashMap, HashSet};

use super::{Rows, kind};
use crate::heard::place;
use crate::link::{RST, SYN};
use crate::tcp::stalls::RTO_MIN_NS;

pub const NULL: i64 = -1;
/// To the receiver and back: the capture is at its end.
const AT_END_NS: i64 = 100_000;
/// A wake-up of a busy host.
const AT_ONCE_NS: i64 = 2_000_000;
/// Of hosts whose ways are shorter: there a shorter time proves nothing.
const JITTER_NS: i64 = 200_000;
/// An answer that comes sooner than the shortest way less a part of it is none.
const SURE: i64 = 4;

/// `nfslat.tcp.stream.Stream`; columns of `rows` and of `said`.
#[derive(Default)]
pub struct Stream {
    pub rows: Vec<i64>,
    pub high: Vec<i64>,
    pub acked: Vec<i64>,
    pub heard: Vec<i64>,
    pub said: Vec<i64>,
    pub covered: Vec<i64>,
}

impl Stream {
    pub fn of(rows: &Rows<'_>, way: i8) -> Stream {
        let mut out = Stream::default();
        let (mut high, mut covered) = (i64::MIN, i64::MIN);
        for row in 0..rows.count() {
            if rows.direction[row] == way {
                if rows.size[row] > 0 {
                    high = high.max(rows.end(row));
                    out.rows.push(row as i64);
                    out.high.push(high);
                    out.heard.push(out.said.len() as i64);
                }
            } else if rows.ack[row] != NULL && rows.flags[row] & RST == 0 {
                covered = covered.max(rows.ack[row]);
                out.said.push(row as i64);
                out.covered.push(covered);
            }
        }
        let mut at = 0;
        let first = |row: &i64| (at = place(&out.covered, &rows.end(*row as usize), at), at as i64).1;
        out.acked = out.rows.iter().map(first).collect();
        out
    }
}

/// A `Stream` as Python gives it back.
#[derive(Clone, Copy)]
pub struct View<'a> {
    pub packets: Rows<'a>,
    pub rows: &'a [i64],
    pub high: &'a [i64],
    pub acked: &'a [i64],
    pub heard: &'a [i64],
    pub said: &'a [i64],
    pub covered: &'a [i64],
}

impl<'a> View<'a> {
    pub fn kind(&self, at: usize) -> i8 {
        self.packets.kind[self.rows[at] as usize]
    }

    fn is_fresh(&self, at: usize) -> bool {
        matches!(self.kind(at), kind::NEW | kind::AHEAD)
    }

    /// Row and time of what was said there; None behind the last.
    fn saying(&self, at: usize) -> Option<(i64, i64)> {
        self.said.get(at).map(|row| (*row, self.packets.t_ns[*row as usize]))
    }

    /// Places in `rows` of a kind.
    fn of_kind(&self, kind: i8) -> impl Iterator<Item = usize> {
        (0..self.rows.len()).filter(move |at| self.kind(*at) == kind)
    }

    /// Where the bytes at `rows[at]` lie.
    fn span(&self, at: usize) -> (i64, i64) {
        let row = self.rows[at] as usize;
        (self.packets.seq[row], self.packets.end(row))
    }
}

/// Columns of `nfslat.tcp.progress.Progress`.
#[derive(Default)]
pub struct Progress {
    pub rows: Vec<i64>,
    pub t_ns: Vec<i64>,
    pub low: Vec<i64>,
    pub high: Vec<i64>,
    pub acked_row: Vec<i64>,
    pub acked_ns: Vec<i64>,
}

/// What one side sent that was not seen before, and when the other side acknowledged it.
pub fn progress(one: &View<'_>) -> Progress {
    let is_data = |at: &usize| !matches!(one.kind(*at), kind::KEEP_ALIVE | kind::ZERO_WINDOW_PROBE);
    let data: Vec<usize> = (0..one.rows.len()).filter(is_data).collect();
    let rows: Vec<i64> = data.iter().map(|at| one.rows[*at]).collect();
    let unseen: HashSet<i64> = never_seen(&one.packets, &rows).into_iter().map(|at| rows[at as usize]).collect();
    let mut out = Progress::default();
    let mut before = None;
    for at in data {
        let (seq, end) = one.span(at);
        let low = before.unwrap_or(seq);
        let high = before.map_or(end, |before: i64| before.max(end));
        before = Some(high);
        // A packet that is sent again may reach further than it did.
        if high <= low && one.kind(at) != kind::OUT_OF_ORDER && !unseen.contains(&one.rows[at]) {
            continue;
        }
        // One that fills a hole is acknowledged with all that is behind it.
        let acked = if end < high { one.covered.partition_point(|to| *to < high) } else { one.acked[at] as usize };
        let (acked_row, acked_ns) = one.saying(acked).unwrap_or((NULL, NULL));
        out.rows.push(one.rows[at]);
        out.t_ns.push(one.packets.t_ns[one.rows[at] as usize]);
        out.low.push(low);
        out.high.push(high);
        out.acked_row.push(acked_row);
        out.acked_ns.push(acked_ns);
    }
    out
}

/// Places in `rows` of what was sent again though it was never seen, as duplicate ACKs asked for it; in order of the bytes.
pub fn never_seen(packets: &Rows<'_>, rows: &[i64]) -> Vec<i64> {
    let kind = |row: i64| packets.kind[row as usize];
    let seq = |row: i64| packets.seq[row as usize];
    let of_kind = |wanted| (0..rows.len()).filter(move |at| kind(rows[*at]) == wanted);
    let mut again: Vec<usize> = of_kind(kind::RETRANSMISSION).collect();
    if again.is_empty() {
        return Vec::new();
    }
    again.sort_by_key(|at| seq(rows[*at]));
    again.dedup_by_key(|at| seq(rows[*at]));
    let fresh: Vec<i64> = rows.iter().copied().filter(|row| matches!(kind(*row), kind::NEW | kind::AHEAD)).collect();
    let late: HashSet<i64> = of_kind(kind::OUT_OF_ORDER).map(|at| seq(rows[at])).collect();
    let is_unseen = |at: &usize| {
        let begin = seq(rows[*at]);
        let first = fresh.partition_point(|row| packets.end(*row as usize) <= begin);
        fresh.get(first).is_some_and(|row| seq(*row) > begin) && !late.contains(&begin)
    };
    again.into_iter().filter(is_unseen).map(|at| at as i64).collect()
}

/// `nfslat.tcp.floors.Samples`.
#[derive(Default)]
pub struct Samples {
    pub sent: Vec<i64>,
    pub covered: Vec<i64>,
    pub rtt_ns: Vec<i64>,
    pub repaired: i64,
    pub uncovered: i64,
}

/// All round trips of what one side sends, as seen where the capture was taken.
pub fn samples(one: &View<'_>) -> Samples {
    let again: Vec<usize> = one.of_kind(kind::RETRANSMISSION).collect();
    let late = one.of_kind(kind::OUT_OF_ORDER);
    let tainted = tainted(one, again.iter().copied().chain(late));
    let overlaps = Overlaps::new(again.iter().map(|at| one.span(*at)).collect());
    let mut out = Samples::default();
    for at in 0..one.rows.len() {
        if matches!(one.kind(at), kind::RETRANSMISSION | kind::OUT_OF_ORDER) {
            out.repaired += 1;
        }
        if !one.is_fresh(at) {
            continue;
        }
        let (row, first) = (one.rows[at], one.acked[at] as usize);
        let sent_ns = one.packets.t_ns[row as usize];
        let Some((ack, ns)) = one.saying(first).filter(|(ack, ns)| *ack > row && *ns >= sent_ns) else {
            out.uncovered += 1;
            continue;
        };
        if tainted.get(first).is_some_and(|taints| *taints > 0) || overlaps.has(one.span(at)) {
            out.repaired += 1;
        } else {
            out.sent.push(row);
            out.covered.push(ack);
            out.rtt_ns.push(ns - sent_ns);
        }
    }
    out
}

/// Bytes, by where they begin, with the furthest end of those up to each.
struct Overlaps(Vec<(i64, i64)>);

impl Overlaps {
    fn new(mut spans: Vec<(i64, i64)>) -> Overlaps {
        spans.sort_by_key(|span| span.0);
        let mut reach = i64::MIN;
        spans.iter_mut().for_each(|span| (reach = reach.max(span.1), span.1 = reach).1);
        Overlaps(spans)
    }

    /// Does any of them hold a byte of these?
    fn has(&self, (begin, end): (i64, i64)) -> bool {
        let in_front = self.0.partition_point(|span| span.0 < end);
        in_front > 0 && self.0[in_front - 1].1 > begin
    }
}

/// How many packets of `again` each of `said` is the first to cover bytes of; empty without any of them.
fn tainted(one: &View<'_>, again: impl Iterator<Item = usize>) -> Vec<i64> {
    let mut change: Vec<i64> = Vec::new();
    for at in again {
        let (begin, end) = one.span(at);
        let first = one.covered.partition_point(|to| *to <= begin);
        let last = one.covered.partition_point(|to| *to < end);
        if one.said.get(last).is_some_and(|ack| *ack > one.rows[at]) {
            change.resize(one.said.len() + 2, 0);
            change[first] += 1;
            change[last + 1] -= 1;
        }
    }
    let mut sum = 0;
    change.iter_mut().for_each(|count| (sum += *count, *count = sum).1);
    change
}

/// Rows of what was sent again although it had arrived (`nfslat.tcp.shared`). `near_ns` and `far_ns`: from the
/// capture to the receiver and to the sender, and back; -1 where it is not known.
pub fn needless(one: &View<'_>, near_ns: i64, far_ns: i64) -> Vec<i64> {
    let packets = &one.packets;
    let again: Vec<usize> = one.of_kind(kind::RETRANSMISSION).collect();
    let is_proven = |at: &usize| {
        let t_ns = packets.t_ns[one.rows[*at] as usize];
        // When it was acknowledged, here; what nobody acknowledges is that at no time.
        let acked_ns = one.saying(one.acked[*at] as usize).map_or(i64::MAX, |(_, ns)| ns);
        if acked_ns <= t_ns {
            // The sender had not heard of it; else that ACK was lost behind the capture, and this is what it cost.
            return far_ns != NULL && t_ns - acked_ns <= far_ns + far_ns / SURE + AT_ONCE_NS;
        }
        // At the receiver's end what was seen before has arrived before.
        let is_at_end = near_ns <= AT_END_NS && AT_END_NS < far_ns;
        near_ns != NULL && (is_at_end || acked_ns - t_ns < near_ns - (near_ns / SURE).max(JITTER_NS))
    };
    let mut proven: Vec<bool> = again.iter().map(is_proven).collect();
    tell_twice(one, &again, near_ns.max(0), &mut proven);
    again.iter().zip(proven).filter(|(_, proven)| *proven).map(|(at, _)| one.rows[*at]).collect()
}

/// Which repeats D-SACKs tell of: each of one, the last one that can have come to the receiver by then. A capture keeps no
/// blocks, only that there is one: below the acknowledged byte where it is the only one.
fn tell_twice(one: &View<'_>, again: &[usize], near_ns: i64, proven: &mut [bool]) {
    let packets = &one.packets;
    let mut is_told = vec![false; again.len()];
    for row in one.said.iter().map(|row| *row as usize).filter(|row| packets.is_dsack[*row] != 0) {
        let now = packets.t_ns[row];
        let can = |place: &usize| {
            let t_ns = packets.t_ns[one.rows[again[*place]] as usize];
            let is_below = packets.sacks[row] != 1 || one.span(again[*place]).1 <= packets.ack[row];
            let came = t_ns <= now - near_ns + near_ns / SURE && t_ns >= now - 2 * near_ns - RTO_MIN_NS;
            !is_told[*place] && came && is_below
        };
        if let Some(last) = (0..again.len()).rev().find(can) {
            is_told[last] = true;
            proven[last] = true;
        }
    }
}

/// Where each of some packets with payload, at places in `View::rows`, was sent before: the first time, or with the repeat
/// in front of it that begins with the same byte.
pub fn sent_before(one: &View<'_>, repeats: &[usize]) -> HashMap<usize, usize> {
    let fresh: Vec<usize> = (0..one.rows.len()).filter(|at| !repeats.is_empty() && one.is_fresh(*at)).collect();
    let mut repeated: HashMap<i64, usize> = HashMap::new();
    let mut out = HashMap::new();
    for at in repeats {
        let begin = one.span(*at).0;
        let first = fresh.partition_point(|at| one.span(*at).1 <= begin);
        if let Some(before) = repeated.insert(begin, *at).or_else(|| fresh.get(first).copied()) {
            out.insert(*at, before);
        }
    }
    out
}

/// Does the window of what was said count otherwise: not scaled?
pub fn is_syn(packets: &Rows<'_>, row: usize) -> bool {
    packets.flags[row] & SYN != 0
}
