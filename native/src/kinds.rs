//! What a call asks for in, a small number for it out: the table of kinds that the ops refer to.

use hashbrown::HashMap;

use crate::call::{Call, Key, NONE};
use crate::protocol::{COMPOUND, NFS, is_compound};

/// Program, version, minor version, main operation and list of operations of a call, and its RPCSEC_GSS service
/// (`Key::service`).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Kind {
    pub program: u32,
    pub version: u32,
    pub minor: u32,
    pub op: u32,
    pub service: u32,
    pub ops: Vec<u16>,
}

impl Kind {
    /// Is it that of a call, whose service is known?
    fn is_of(&self, call: &Call<'_>, service: u32) -> bool {
        (self.program, self.version, self.minor, self.op, self.service)
            == (call.program, call.version, call.minor, call.op, service)
            && self.ops == call.ops.as_slice()
    }

    fn key(&self) -> Key {
        Key {
            program: self.program,
            version: self.version,
            // Operations of a COMPOUND have numbers from 3 on.
            procedure: if is_compound(self.program, self.version, COMPOUND) { self.op.min(COMPOUND) } else { self.op },
            minor: self.minor,
            service: self.service,
        }
    }
}

/// How many kinds are told apart by their list of operations; beyond it the list is left out.
const KINDS_WITH_LISTS: usize = 4096;
const MOST_KINDS: usize = i16::MAX as usize - 1;
/// A power of 2.
const RECENT: usize = 32;

#[derive(Default)]
pub struct Kinds {
    pub list: Vec<Kind>,
    /// `Kind::key` of each of them.
    keys: Vec<Key>,
    known: HashMap<Kind, i16>,
    /// NFSv3 procedures, the fast way; 0 is none, else one more than the kind.
    v3: [i16; 32],
    /// Other kinds that were asked for last, so that most calls need no list of their own: by operation and length of it.
    recent: [i16; RECENT],
}

impl Kinds {
    #[inline]
    pub fn of(&mut self, call: &Call<'_>) -> i16 {
        let plain_v3 =
            call.program == NFS && call.version == 3 && call.op < 32 && call.gss.is_none() && call.flavor != NONE;
        if plain_v3 && self.v3[call.op as usize] != 0 {
            return self.v3[call.op as usize] - 1;
        }
        let service = Key::from(call).service;
        let place = (call.op as usize ^ call.ops.as_slice().len() << 2) % RECENT;
        match self.list.get(self.recent[place] as usize) {
            Some(kind) if kind.is_of(call, service) => self.recent[place],
            _ => {
                self.recent[place] = self.look_up(call, service, plain_v3);
                self.recent[place]
            }
        }
    }

    #[inline(never)]
    fn look_up(&mut self, call: &Call<'_>, service: u32, plain_v3: bool) -> i16 {
        let mut kind = Kind {
            program: call.program,
            version: call.version,
            minor: call.minor,
            op: call.op,
            service,
            ops: call.ops.as_slice().to_vec(),
        };
        if self.list.len() >= KINDS_WITH_LISTS && !self.known.contains_key(&kind) {
            kind.ops.clear();
        }
        if let Some(row) = self.known.get(&kind) {
            return *row;
        }
        if self.list.len() >= MOST_KINDS {
            return 0; // a capture made to have so many; what it says is wrong anyway
        }
        let row = self.list.len() as i16;
        self.keys.push(kind.key());
        self.list.push(kind.clone());
        self.known.insert(kind, row);
        if plain_v3 {
            self.v3[call.op as usize] = row + 1;
        }
        row
    }

    /// What ops refer to, without what finds it.
    pub fn listed(&self) -> Kinds {
        Kinds { list: self.list.clone(), ..Kinds::default() }
    }

    /// What replies to calls of a kind are read by.
    #[inline]
    pub fn key(&self, kind: i16) -> &Key {
        &self.keys[kind as usize]
    }

    /// Do calls of two kinds ask for the same thing? None where their arguments decide.
    pub fn same_request(&self, a: i16, b: i16) -> Option<bool> {
        let (a, b) = (&self.list[a as usize], &self.list[b as usize]);
        if a.program != b.program || a.version != b.version {
            return Some(false);
        }
        if a.version == 4 && (a.op == COMPOUND || b.op == COMPOUND) {
            return Some(true); // a COMPOUND whose operations are encrypted or cut off
        }
        if a.op != b.op && a.op != NONE && b.op != NONE {
            return Some(false);
        }
        None // their arguments decide
    }
}
