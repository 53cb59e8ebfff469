//! The segments of a TCP connection in, what each host sent out: of the far one by its own clock.
//!
//! The twin of `nfslat/kernels/heard.py`, which says what the columns are.

use crate::call::NONE;
use crate::order::order;
use crate::segments::mark;

/// Columns of `segments::Segments`.
pub struct Rows<'a> {
    pub t_ns: &'a [i64],
    pub seq: &'a [i64],
    pub size: &'a [i32],
    pub ack: &'a [i64],
    pub ts_val: &'a [u32],
    pub marks: &'a [u8],
}

/// Columns of far's segments, and of near's.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Heard {
    pub place: Vec<i32>,
    pub t_ns: Vec<i64>,
    pub ticks: Vec<i64>,
    pub ack: Vec<i64>,
    pub seq: Vec<i64>,
    pub size: Vec<i32>,
    pub twice: Vec<u8>,
    pub sent_ns: Vec<i64>,
    pub end: Vec<i64>,
    pub again: Vec<u8>,
}

/// `near` is the direction in which the host of the capture sends.
pub fn heard(rows: &Rows, near: u8) -> Heard {
    let count = rows.t_ns.len();
    let far = rows.marks.iter().filter(|marks| **marks & mark::BACK != near).count();
    let mut out = Heard {
        place: vec![-1; count],
        t_ns: Vec::with_capacity(far),
        ticks: Vec::with_capacity(far),
        ack: Vec::with_capacity(far),
        seq: Vec::with_capacity(far),
        size: Vec::with_capacity(far),
        twice: Vec::with_capacity(far),
        sent_ns: Vec::new(),
        end: Vec::new(),
        again: Vec::new(),
    };
    let (mut tick, mut before) = (0, None);
    for (row, &marks) in rows.marks.iter().enumerate() {
        if marks & mark::BACK == near {
            if rows.size[row] > 0 && marks & mark::RST == 0 {
                out.place[row] = -2 - out.end.len() as i32;
                out.sent_ns.push(rows.t_ns[row]);
                out.end.push(rows.seq[row] + i64::from(rows.size[row]));
                out.again.push(u8::from(marks & mark::AGAIN != 0));
            }
        } else if rows.ts_val[row] != NONE && marks & (mark::SYN | mark::RST) == 0 {
            // Stamps wrap around (RFC 7323 section 5.2).
            tick += i64::from(rows.ts_val[row].wrapping_sub(before.unwrap_or(rows.ts_val[row])) as i32);
            before = Some(rows.ts_val[row]);
            out.place[row] = out.ticks.len() as i32;
            out.t_ns.push(rows.t_ns[row]);
            out.ticks.push(tick);
            out.ack.push(rows.ack[row]);
            out.seq.push(rows.seq[row]);
            out.size.push(rows.size[row]);
            out.twice.push(u8::from(marks & mark::TWICE != 0));
        }
    }
    if !out.ticks.is_sorted() {
        out.sort();
    }
    let first = out.ticks.first().copied().unwrap_or(0);
    out.ticks.iter_mut().for_each(|tick| *tick -= first);
    let mut acked = 0;
    for ack in &mut out.ack {
        acked = acked.max(*ack);
        *ack = acked;
    }
    out
}

impl Heard {
    /// By far's clock; what has one time in capture order.
    fn sort(&mut self) {
        let order = order(&self.ticks);
        let mut place_of = vec![0; order.len()];
        order.iter().zip(0..).for_each(|(&row, place)| place_of[row as usize] = place);
        self.place.iter_mut().filter(|place| **place >= 0).for_each(|place| *place = place_of[*place as usize]);
        fn in_order<T: Copy>(column: &mut Vec<T>, order: &[i64]) {
            *column = order.iter().map(|&row| column[row as usize]).collect();
        }
        in_order(&mut self.t_ns, &order);
        in_order(&mut self.ticks, &order);
        in_order(&mut self.ack, &order);
        in_order(&mut self.seq, &order);
        in_order(&mut self.size, &order);
        in_order(&mut self.twice, &order);
    }
}

/// In front of which of `column`, which ascends, each of `wanted` would stand: quick where these go up, too.
pub fn places<T: Ord>(column: &[T], wanted: &[T]) -> Vec<i64> {
    let mut at = 0;
    wanted.iter().map(|value| (at = place(column, value, at), at as i64).1).collect()
}

/// Places that are looked at one by one.
const NEAR: usize = 12;

/// The same of one, sought from `at` on: one by one, then in steps that double, then by halves.
pub fn place<T: Ord>(column: &[T], value: &T, at: usize) -> usize {
    let mut low;
    let (mut high, mut step) = (at, 1);
    if column.get(at).is_some_and(|one| one < value) {
        // As a rule it is a few places on, where a step at a time takes less than to halve what is in between.
        let ahead = &column[at + 1..column.len().min(at + 1 + NEAR)];
        match ahead.iter().position(|one| one >= value) {
            Some(more) => return at + 1 + more,
            None => low = at + ahead.len(),
        }
        loop {
            high = low + step;
            match column.get(high) {
                Some(one) if one < value => (low, step) = (high, step * 2),
                Some(_) => break,
                None => {
                    high = column.len();
                    break;
                }
            }
        }
    } else {
        loop {
            low = high.saturating_sub(step);
            if low == high || column[low] < *value {
                break;
            }
            (high, step) = (low, step * 2);
        }
    }
    low + column[low..high].partition_point(|one| one < value)
}

#[cfg(test)]
mod tests;
