//! Byte strings in, small numbers out: each is kept once, one behind the other.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

#[derive(Clone, Default)]
pub struct Interned {
    /// Where each string ends in `bytes`.
    ends: Vec<u32>,
    bytes: Vec<u8>,
    known: HashTable<i32>,
    hasher: DefaultHashBuilder,
}

impl Interned {
    /// The number of a string; None where it would be a new one, and all of them together take `most` bytes already.
    pub fn number(&mut self, string: &[u8], most: usize) -> Option<i32> {
        let hash = self.hasher.hash_one(string);
        let (ends, bytes) = (&self.ends, &self.bytes);
        if let Some(known) = self.known.find(hash, |known| one(ends, bytes, *known) == string) {
            return Some(*known);
        }
        if self.bytes.len() + 16 * self.ends.len() + string.len() > most {
            return None;
        }
        let number = self.ends.len() as i32;
        self.bytes.extend_from_slice(string);
        self.ends.push(self.bytes.len() as u32);
        let (ends, bytes, hasher) = (&self.ends, &self.bytes, &self.hasher);
        self.known.insert_unique(hash, number, |known| hasher.hash_one(one(ends, bytes, *known)));
        Some(number)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// All of them, in the order of their numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.ends.len() as i32).map(|number| one(&self.ends, &self.bytes, number))
    }
}

fn one<'a>(ends: &[u32], bytes: &'a [u8], number: i32) -> &'a [u8] {
    let at = number as usize;
    let start = if at == 0 { 0 } else { ends[at - 1] as usize };
    &bytes[start..ends[at] as usize]
}
