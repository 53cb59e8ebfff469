//! Packets of two captures in, those that are the same out: by numbers, size, flags and, where senders count them, IP
//! identification and time stamp.

use hashbrown::HashMap;

use super::Rows;
use crate::link::ACK;

/// 2^64 over the golden ratio, which spreads bits (Knuth, TAOCP 6.4).
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;
const NUMBERS: i64 = 1 << 32;
/// Packets of a conversation that it is known by.
const KNOWN_BY: f64 = 4096.0;
const NONE: u32 = u32::MAX;
/// A bit of a place: a capture has fewer rows.
const TAKEN: u32 = 1 << 31;

fn mixed(numbers: &[i64]) -> u64 {
    numbers.iter().fold(0, |mixed: u64, number| {
        let mixed = (mixed ^ *number as u64).wrapping_mul(MIX);
        mixed ^ mixed >> 29
    })
}

/// One direction of a conversation in one capture.
pub struct End<'a> {
    pub rows: Rows<'a>,
    pub way: i8,
    /// Sequence numbers of position 0, of either direction; 0 where both captures count from the SYN.
    pub first: [i64; 2],
}

impl End<'_> {
    fn mine(&self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.rows.count()).filter(|row| self.rows.direction[*row] == self.way)
    }

    fn count(&self) -> usize {
        self.mine().count()
    }

    /// What a packet is known by.
    fn key(&self, row: usize, with_id: bool, from_syn: bool) -> u64 {
        let (rows, way) = (&self.rows, usize::from(self.way == 1));
        let number = |position: i64, way: usize| {
            if from_syn { position } else { (self.first[way] + position).rem_euclid(NUMBERS) }
        };
        let ack = if rows.flags[row] & ACK != 0 { number(rows.ack[row], 1 - way) } else { -1 };
        let known = [number(rows.seq[row], way), ack, rows.size[row].into(), rows.flags[row].into()];
        let ids = [i64::from(rows.ip_id[row]), i64::from(rows.ts_val[row])];
        if with_id { mixed(&[known[0], known[1], known[2], known[3], ids[0], ids[1]]) } else { mixed(&known) }
    }
}

/// Rows in both captures of the packets of one direction that are the same; of several alike the last ones of both are
/// taken for each other, as what was lost came before. Without IP identifications where most packets do not keep it.
pub fn same_packets(one: &End<'_>, two: &End<'_>, from_syn: bool) -> (Vec<i64>, Vec<i64>) {
    let few = one.count().min(two.count());
    let kept = pairs(one, two, true, from_syn);
    if kept.0.len() * 2 >= few {
        return kept;
    }
    let more = pairs(one, two, false, from_syn);
    if more.0.len() > kept.0.len() { more } else { kept }
}

fn pairs(one: &End<'_>, two: &End<'_>, with_id: bool, from_syn: bool) -> (Vec<i64>, Vec<i64>) {
    let keys: Vec<(usize, u64)> = one.mine().map(|row| (row, one.key(row, with_id, from_syn))).collect();
    // Of each key the place of the last row that is left, with `TAKEN` where none is; and in front of each place the one
    // that has its key.
    let mut table = vec![NONE; (2 * keys.len()).next_power_of_two().max(2)];
    let mut before = vec![NONE; keys.len()];
    let shift = u64::BITS - table.len().ilog2();
    let slot = |table: &[u32], key: u64| {
        let mut slot = (key.wrapping_mul(MIX) >> shift) as usize;
        while table[slot] != NONE && keys[(table[slot] & !TAKEN) as usize].1 != key {
            slot = (slot + 1) & (table.len() - 1);
        }
        slot
    };
    for (place, (_, key)) in keys.iter().enumerate() {
        let slot = slot(&table, *key);
        before[place] = std::mem::replace(&mut table[slot], place as u32);
    }
    let mut partner = vec![NONE; keys.len()];
    for row in two.mine().rev() {
        let slot = slot(&table, two.key(row, with_id, from_syn));
        let place = table[slot];
        if place & TAKEN == 0 {
            partner[place as usize] = row as u32;
            table[slot] = if before[place as usize] == NONE { place | TAKEN } else { before[place as usize] };
        }
    }
    let found = keys.iter().zip(partner).filter(|(_, other)| *other != NONE);
    found.map(|((row, _), other)| (*row as i64, i64::from(other))).unzip()
}

/// A conversation in the first capture and in the second one, whether directions are the other way round there, and how
/// many packets with payload say so: of long conversations those whose numbers have a small hash, which are the same ones
/// in both captures, whenever these begin. `firsts`: as in `End`, of each conversation.
pub fn votes(captures: [(Rows<'_>, &[[i64; 2]]); 2]) -> Vec<(i32, i32, bool, u32)> {
    let [one, two] = captures.map(|(rows, firsts)| prints(&rows, firsts));
    let mut votes: HashMap<(i32, i32, bool), u32> = HashMap::new();
    for (print, (conversation, way)) in &one {
        if let Some((other, other_way)) = two.get(print) {
            *votes.entry((*conversation, *other, way != other_way)).or_default() += 1;
        }
    }
    votes.into_iter().map(|((one, two, is_turned), count)| (one, two, is_turned, count)).collect()
}

/// Conversation and direction of the first packet of each print.
fn prints(rows: &Rows<'_>, firsts: &[[i64; 2]]) -> HashMap<u64, (i32, i8)> {
    let mut packets = vec![0_u32; firsts.len()];
    let data = || (0..rows.count()).filter(|row| rows.size[*row] > 0);
    data().for_each(|row| packets[rows.conversation[row] as usize] += 1);
    let mut out = HashMap::new();
    for row in data() {
        let (conversation, way) = (rows.conversation[row], rows.direction[row]);
        let first = firsts[conversation as usize][usize::from(way == 1)];
        let print = mixed(&[(first + rows.seq[row]).rem_euclid(NUMBERS), rows.size[row].into()]);
        let share = (KNOWN_BY / f64::from(packets[conversation as usize].max(1))).min(1.0);
        if print as f64 <= share * 2_f64.powi(64) {
            out.entry(print).or_insert((conversation, way));
        }
    }
    out
}
