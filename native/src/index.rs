//! (connection and direction, XID) -> number: the hash table of the ops, laid out for XIDs that count up.
//!
//! Eight neighbouring XIDs share one line of the table, so that the next ones are found where the last one was. Clients
//! count in the byte order of their machine (Linux net/sunrpc/xprt.c, xprt_alloc_xid), so for each owner the first two
//! XIDs decide which end of the number counts.

use std::hash::{BuildHasher, RandomState};

use hashbrown::HashTable;

const WIDTH: usize = 8;
pub const EMPTY: u32 = u32::MAX;
/// XIDs of a client's calls under way are this near to each other, in the byte order in which they count.
const NEAR: u32 = 256;

#[derive(Clone, Copy)]
struct Line {
    owner: u32,
    block: u32,
    value: [u32; WIDTH],
}

impl Line {
    #[inline]
    fn is(&self, owner: u32, block: u32) -> bool {
        self.block == block && self.owner == owner
    }
}

/// Places of the newest lines, by owner and block; where two meet, the newer one has it.
const NEWEST: usize = 1024;

/// Lines of an owner, its last ones, that are looked through before all are searched.
const LAST_LINES: usize = 4;

/// XIDs that a lost stretch of a stream may have used up, in the order in which they count.
const STRETCH: u32 = 1 << 16;
/// Calls of an owner from which on it is known whether its XIDs count.
const ENOUGH: u32 = 8;

/// How the XIDs of one owner count.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Order {
    #[default]
    Unknown,
    First(u32),
    AsSent,
    Swapped,
}

/// The XIDs of one owner: in which order they count, the last one, and how many were near the one before.
#[derive(Clone, Default)]
struct Xids {
    order: Order,
    last: u32,
    near: u32,
    far: u32,
    /// Its lines whose block is above that of any before, with that block: all of them where XIDs count up, and none has
    /// to be hashed.
    run: Vec<(u32, u32)>,
}

impl Xids {
    /// A call with the next XID, as they count.
    #[inline]
    fn calls(&mut self, xid: u32) {
        let is_near = is_near(self.last, xid);
        (self.near, self.far) = (self.near + u32::from(is_near), self.far + u32::from(!is_near));
        self.last = xid;
    }
}

pub struct Index {
    /// In the order in which they came, so that those of calls under way are side by side.
    lines: Vec<Line>,
    /// Numbers of `lines` that are in no run: this table alone is read in no order.
    places: HashTable<u32>,
    /// Numbers of the newest ones, which are in the processor's nearest cache: nearly all that is looked for.
    newest: Vec<u32>,
    owners: Vec<Xids>,
    seed: u64,
}

impl Default for Index {
    fn default() -> Index {
        // Seeded anew in each process: no capture can be made so that all its XIDs meet in one place.
        let seed = RandomState::new().hash_one(0u8) | 1;
        Index { lines: Vec::new(), places: HashTable::new(), newest: Vec::new(), owners: Vec::new(), seed }
    }
}

impl Index {
    /// The XID with its fastest end lowest.
    #[inline]
    fn counted(&self, owner: u32, xid: u32) -> u32 {
        match self.owners.get(owner as usize) {
            Some(Xids { order: Order::Swapped, .. }) => xid.swap_bytes(),
            _ => xid,
        }
    }

    /// The line of a block of XIDs.
    #[inline]
    fn find(&self, owner: u32, block: u32) -> Option<usize> {
        match self.newest.get(slot(owner, block)) {
            Some(&at) if self.lines.get(at as usize).is_some_and(|line| line.is(owner, block)) => Some(at as usize),
            _ => self.look_up(owner, block),
        }
    }

    /// The same of one that is none of the newest.
    fn look_up(&self, owner: u32, block: u32) -> Option<usize> {
        let run = self.owners.get(owner as usize).map_or(&[][..], |known| &known.run);
        if run.last().is_some_and(|last| block <= last.0) {
            if let Some(near) = run.iter().rev().take(LAST_LINES).find(|known| known.0 == block) {
                return Some(near.1 as usize);
            }
            if let Ok(place) = run.binary_search_by_key(&block, |known| known.0) {
                return Some(run[place].1 as usize);
            }
        }
        let is_it = |at: &u32| self.lines[*at as usize].is(owner, block);
        self.places.find(hash(self.seed, owner, block), is_it).map(|at| *at as usize)
    }

    /// The number, or `EMPTY`.
    #[inline]
    pub fn get(&self, owner: u32, xid: u32) -> u32 {
        let xid = self.counted(owner, xid);
        self.find(owner, xid >> 3).map_or(EMPTY, |at| self.lines[at].value[xid as usize % WIDTH])
    }

    /// The number of an XID; where it has none, `value` becomes that of a call, and the answer is None.
    #[inline]
    pub fn claim(&mut self, owner: u32, xid: u32, value: u32) -> Option<u32> {
        let counted = match self.owners.get(owner as usize) {
            Some(Xids { order: Order::AsSent, .. }) => xid,
            Some(Xids { order: Order::Swapped, .. }) => xid.swap_bytes(),
            _ => return self.claim_first(owner, xid, value),
        };
        let block = counted >> 3;
        let at = match self.owners[owner as usize].run.last() {
            Some((last, at)) if *last == block => *at as usize,
            Some((last, _)) if *last < block => self.look_up(owner, block).unwrap_or_else(|| self.add(owner, block)),
            _ => self.find(owner, block).unwrap_or_else(|| self.add(owner, block)),
        };
        let number = &mut self.lines[at].value[counted as usize % WIDTH];
        if *number != EMPTY {
            return Some(*number);
        }
        *number = value;
        self.owners[owner as usize].calls(counted);
        None
    }

    /// The same as long as it is not known how the owner counts.
    #[cold]
    fn claim_first(&mut self, owner: u32, xid: u32, value: u32) -> Option<u32> {
        let found = self.get(owner, xid);
        if found == EMPTY {
            self.set(owner, xid, value);
        }
        (found != EMPTY).then_some(found)
    }

    /// Set or replace the number of a call.
    #[inline]
    pub fn set(&mut self, owner: u32, xid: u32, value: u32) {
        if !matches!(self.owners.get(owner as usize), Some(Xids { order: Order::AsSent | Order::Swapped, .. })) {
            self.decide(owner, xid);
        }
        let xid = self.counted(owner, xid);
        self.owners[owner as usize].calls(xid);
        self.put(owner, xid, value);
    }

    /// Set the number of a reply whose call was not seen: it tells nothing of how the owner counts.
    pub fn set_reply(&mut self, owner: u32, xid: u32, value: u32) {
        self.put(owner, self.counted(owner, xid), value);
    }

    /// Could the owner's next call have this XID? None where its XIDs do not count up, or too few were seen.
    pub fn expects(&self, owner: u32, xid: u32) -> Option<bool> {
        let known = self.owners.get(owner as usize)?;
        let counts = known.near >= ENOUGH && known.near > known.far;
        let apart = (self.counted(owner, xid).wrapping_sub(known.last) as i32).unsigned_abs();
        counts.then_some(apart <= STRETCH)
    }

    /// `value` becomes what `moved` says; `EMPTY` where it is no more.
    pub fn renumber(&mut self, moved: impl Fn(u32) -> u32) {
        self.places = HashTable::new();
        self.newest = Vec::new();
        self.owners.iter_mut().for_each(|known| known.run.clear());
        for line in std::mem::take(&mut self.lines) {
            for (at, value) in line.value.iter().enumerate().filter(|(_, value)| **value != EMPTY) {
                let value = moved(*value);
                if value != EMPTY {
                    self.put(line.owner, line.block << 3 | at as u32, value);
                }
            }
        }
    }

    #[inline]
    fn put(&mut self, owner: u32, counted: u32, value: u32) {
        let block = counted >> 3;
        let at = self.find(owner, block).unwrap_or_else(|| self.add(owner, block));
        self.lines[at].value[counted as usize % WIDTH] = value;
    }

    /// A new line.
    fn add(&mut self, owner: u32, block: u32) -> usize {
        let at = self.lines.len() as u32;
        self.lines.push(Line { owner, block, value: [EMPTY; WIDTH] });
        self.newest.resize(NEWEST, u32::MAX);
        self.newest[slot(owner, block)] = at;
        if self.owners.len() <= owner as usize {
            self.owners.resize(owner as usize + 1, Xids::default());
        }
        let run = &mut self.owners[owner as usize].run;
        if run.last().is_none_or(|last| block > last.0) {
            run.push((block, at));
        } else {
            self.place(at);
        }
        at as usize
    }

    /// Make a line be found that is in no run.
    fn place(&mut self, at: u32) {
        let (lines, seed) = (&self.lines, self.seed);
        let hash_of = |at: &u32| hash(seed, lines[*at as usize].owner, lines[*at as usize].block);
        self.places.insert_unique(hash_of(&at), at, hash_of);
    }

    fn decide(&mut self, owner: u32, xid: u32) {
        if self.owners.len() <= owner as usize {
            self.owners.resize(owner as usize + 1, Xids::default());
        }
        self.owners[owner as usize].order = match self.owners[owner as usize].order {
            Order::First(first) if first == xid => return,
            Order::First(first) if is_near(first.swap_bytes(), xid.swap_bytes()) && !is_near(first, xid) => {
                // The one that is there already moves to where it is looked for from now on.
                let value = self.get(owner, first);
                self.put(owner, first, EMPTY);
                // Lines of another order may lie above all that will come.
                std::mem::take(&mut self.owners[owner as usize].run).into_iter().for_each(|(_, at)| self.place(at));
                self.put(owner, first.swap_bytes(), value);
                Order::Swapped
            }
            Order::First(_) => Order::AsSent,
            _ => Order::First(xid),
        };
    }
}

#[inline]
fn hash(seed: u64, owner: u32, block: u32) -> u64 {
    let key = (u64::from(owner) << 32 | u64::from(block)) ^ seed.rotate_left(32);
    let wide = u128::from(key) * u128::from(seed | 0x9e37_79b9_7f4a_7c15);
    wide as u64 ^ (wide >> 64) as u64
}

/// Blocks of an owner that follow each other have slots that do.
#[inline]
fn slot(owner: u32, block: u32) -> usize {
    owner.wrapping_mul(37).wrapping_add(block) as usize % NEWEST
}

fn is_near(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32).unsigned_abs() <= NEAR
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is set last is found, for XIDs that count up in either byte order and for any others.
        #[test]
        fn finds_what_was_set(
            owners in prop::collection::vec((0u32..4, 0u32..3, any::<u32>()), 1..4),
            steps in prop::collection::vec((0usize..4, 0u32..40, 0u32..1000, any::<bool>()), 0..400),
        ) {
            let mut index = Index::default();
            let mut model: HashMap<(u32, u32), u32> = HashMap::new();
            for (which, step, value, claims) in steps {
                let (owner, order, base) = owners[which % owners.len()];
                let counted = base.wrapping_add(step);
                let xid = match order { 0 => counted, 1 => counted.swap_bytes(), _ => counted.wrapping_mul(0x9e37_79b9) };
                if claims {
                    prop_assert_eq!(index.claim(owner, xid, value), model.get(&(owner, xid)).copied());
                    model.entry((owner, xid)).or_insert(value);
                } else {
                    index.set(owner, xid, value);
                    model.insert((owner, xid), value);
                }
                prop_assert_eq!(index.get(owner, xid.wrapping_add(1)), *model.get(&(owner, xid.wrapping_add(1))).unwrap_or(&EMPTY));
            }
            for ((owner, xid), value) in model {
                prop_assert_eq!(index.get(owner, xid), value);
            }
        }
    }
}
