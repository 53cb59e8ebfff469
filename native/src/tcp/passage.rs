//! One direction of a conversation in two captures in, what became of its packets and bytes out
//! (`nfslat/tcp/passage.py`).

use super::{Rows, kind};
use crate::heard::place;

/// One capture of the direction.
pub struct Side<'a> {
    pub rows: Rows<'a>,
    /// What the direction is called there.
    pub way: i8,
    /// Rows that are in both, in order of the first capture's.
    pub same: &'a [i64],
    /// From when to when the other capture ran.
    pub ran: (i64, i64),
    /// What is added to its positions.
    pub shift: i64,
}

/// What became of a packet: places in `Passage::fates`.
enum Fate {
    Same,
    Outside,
    NoPayload,
    /// At the receiver's side more often there than it was sent; so the next one.
    Missed,
    Lost,
    Recut,
}

/// `nfslat.tcp.passage.Passage`.
#[derive(Default)]
pub struct Passage {
    pub fates: [[i64; 6]; 2],
    pub bytes: i64,
    pub sent_bytes: i64,
    pub lost_bytes: i64,
    pub missed_bytes: i64,
    pub surplus_bytes: i64,
    pub reordered: i64,
    /// Rows of the sender's.
    pub needless: Vec<i64>,
}

/// A packet with payload.
struct Span {
    row: usize,
    begin: i64,
    end: i64,
    is_inside: bool,
    is_same: bool,
}

/// How many stretches of bytes in front of each edge are so.
#[derive(Default)]
struct Before {
    edges: Vec<i64>,
    lost: Vec<u32>,
    missed: Vec<u32>,
    surplus: Vec<u32>,
    not_come: Vec<u32>,
}

/// `sender`: which of the sides is at its sender's end; `half_trip_ns`: about how long the way takes.
pub fn passage(sides: &[Side<'_>; 2], sender: usize, half_trip_ns: i64) -> Passage {
    let receiver = &sides[1 - sender];
    let back = (0..receiver.rows.count()).filter(|row| receiver.rows.direction[*row] != receiver.way);
    let acked = back.map(|row| receiver.rows.ack[row]).max().unwrap_or(-1) + receiver.shift;
    let mut out = Passage::default();
    let spans = [0, 1].map(|side| spans(&sides[side], side == sender, acked, half_trip_ns, &mut out.fates[side]));
    let before = out.count(&spans, sender, acked);
    for (side, spans) in spans.iter().enumerate() {
        let (mut from, mut to) = (0, 0);
        for span in spans {
            from = place(&before.edges, &span.begin, from);
            to = place(&before.edges, &span.end, to);
            let any = |sums: &[u32]| sums[to] > sums[from];
            let (worse, bad) =
                if side == sender { (&before.missed, &before.lost) } else { (&before.surplus, &before.surplus) };
            let fate = match span {
                Span { is_same: true, .. } => Fate::Same,
                Span { is_inside: false, .. } => Fate::Outside,
                _ if any(worse) => Fate::Missed,
                _ if any(bad) => Fate::Lost,
                _ => Fate::Recut,
            };
            out.fates[side][fate as usize] += 1;
            let is_again = side == sender && sides[side].rows.kind[span.row] == kind::RETRANSMISSION;
            if is_again && span.is_inside && !any(&before.not_come) {
                out.needless.push(span.row as i64);
            }
        }
    }
    let (sent, arrived) = (&sides[sender], &sides[1 - sender]);
    let both = sent.same.iter().zip(arrived.same);
    out.reordered = both.fold(0, |count, (left, came)| {
        let is_in_order = matches!(sent.rows.kind[*left as usize], kind::NEW | kind::AHEAD);
        count + i64::from(is_in_order && arrived.rows.kind[*came as usize] == kind::OUT_OF_ORDER)
    });
    out
}

/// The packets with payload; the fates of the others are counted.
fn spans(side: &Side<'_>, is_sender: bool, acked: i64, half_trip_ns: i64, fates: &mut [i64; 6]) -> Vec<Span> {
    let Side { rows, way, same, ran: (low, high), shift } = side;
    let mut is_same = vec![false; rows.count()];
    same.iter().for_each(|row| is_same[*row as usize] = true);
    // What is on its way when the other capture begins or ends may be in one of the two only; but what the receiver's
    // capture shows acknowledged arrived before it ended.
    let (early, late) = if is_sender { (0, -2 * half_trip_ns) } else { (2 * half_trip_ns, 0) };
    let mut out = Vec::new();
    for row in (0..rows.count()).filter(|row| rows.direction[*row] == *way) {
        let (begin, end) = (rows.seq[row] + shift, rows.end(row) + shift);
        let is_ended = rows.t_ns[row] > high + late && (!is_sender || end > acked);
        let is_inside = (rows.t_ns[row] >= low + early && !is_ended) || is_same[row];
        if begin < end {
            out.push(Span { row, begin, end, is_inside, is_same: is_same[row] });
        } else {
            let fate = if is_same[row] {
                Fate::Same
            } else if is_inside {
                Fate::NoPayload
            } else {
                Fate::Outside
            };
            fates[fate as usize] += 1;
        }
    }
    out
}

impl Passage {
    /// Goes over the bytes from edge to edge, where the number of their copies changes in either capture.
    fn count(&mut self, spans: &[Vec<Span>; 2], sender: usize, acked: i64) -> Before {
        let mut changes: Vec<(i64, u8, i8)> = Vec::with_capacity(2 * (spans[0].len() + spans[1].len()));
        for (side, spans) in spans.iter().enumerate() {
            let group = |span: &Span| if span.is_inside { u8::from(side != sender) } else { 2 };
            changes.extend(spans.iter().map(|span| (span.begin, group(span), 1)));
            changes.extend(spans.iter().map(|span| (span.end, group(span), -1)));
        }
        // Each of the four is in order for the most part.
        changes.sort_by_key(|change| change.0);
        let mut before = Before::default();
        let (mut lost, mut missed, mut surplus, mut not_come) = (0, 0, 0, 0);
        // Copies at the sender and at the receiver, and in packets at the edge of either capture: of bytes in those it
        // cannot be said how often they should be at the other end.
        let mut copies = [0_i64; 3];
        let mut at = 0;
        while at < changes.len() {
            let edge = changes[at].0;
            while changes.get(at).is_some_and(|change| change.0 == edge) {
                copies[usize::from(changes[at].1)] += i64::from(changes[at].2);
                at += 1;
            }
            before.edges.push(edge);
            before.lost.push(lost);
            before.missed.push(missed);
            before.surplus.push(surplus);
            before.not_come.push(not_come);
            let Some((next, ..)) = changes.get(at) else { break };
            let (width, [sent, arrived, unsure]) = (next - edge, copies);
            let is_sure = unsure == 0;
            let is_missed = is_sure && sent > 0 && arrived == 0 && *next <= acked;
            // What was acknowledged did arrive, once at least.
            let gone = if is_sure { (sent - arrived).max(0) - i64::from(is_missed) } else { 0 };
            let more = if is_sure { (arrived - sent).max(0) } else { 0 };
            self.bytes += if sent > 0 { width } else { 0 };
            self.sent_bytes += width * sent;
            self.lost_bytes += width * gone;
            self.missed_bytes += if is_missed { width } else { 0 };
            self.surplus_bytes += width * more;
            lost += u32::from(gone > 0);
            missed += u32::from(is_missed);
            surplus += u32::from(more > 0);
            not_come += u32::from(!(is_sure && arrived >= sent));
        }
        before
    }
}
