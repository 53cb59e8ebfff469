//! Calls that name files and their replies in, rows of which handle is which name out (`nfslat.model.details.Files`).

use hashbrown::HashMap;

use crate::call::{Call, Key};
use crate::columns::Names;
use crate::interned::Interned;
use crate::news::{self, News};
use crate::results::clear;
use crate::rpc::{Accept, parse_reply};
use crate::table::table;

/// Rows kept of a capture; beyond it they are only counted.
const MOST_ROWS: usize = if cfg!(test) { 64 } else { 4 << 20 };
const MOST_HANDLE_BYTES: usize = 128 << 20;
/// Of a call's arguments, and of those of all calls that wait for their replies.
const ARGUMENTS: usize = 2048;
const MOST_WAITING_BYTES: usize = 64 << 20;

/// What a call asked.
struct Asked {
    key: Key,
    arguments: Box<[u8]>,
}

table! {
    /// Which handle is which name (`nfslat.model.details.Files`).
    pub struct Files of FileRow {
        op: i32,
        event: i8,
        t_ns: i64,
        directory: i32,
        name: i32,
        handle: i32,
        to_directory: i32,
        to_name: i32,
    }
    with {
        pub handles: Interned,
        /// Rows beyond those that are kept, and calls beyond those that are remembered.
        pub dropped: u64,
        /// Nobody will ask: calls are not looked at.
        pub is_unwanted: bool,
        asked: HashMap<u32, Asked>,
        waiting_bytes: usize,
    }
}

impl Files {
    /// A call, whose op is in row `op`.
    #[inline]
    pub fn ask(&mut self, op: u32, call: &Call<'_>) {
        if !self.is_unwanted && news::asks(call) {
            self.remember(op, call);
        }
    }

    fn remember(&mut self, op: u32, call: &Call<'_>) {
        let arguments = &call.arguments[..call.arguments.len().min(ARGUMENTS)];
        let size = size_of::<(u32, Asked)>() + arguments.len();
        if self.waiting_bytes + size > MOST_WAITING_BYTES {
            self.dropped += 1;
            return;
        }
        self.waiting_bytes += size;
        self.asked.insert(op, Asked { key: Key::from(call), arguments: arguments.into() });
    }

    /// Is all of the reply to this op wanted?
    #[inline]
    pub fn awaits(&self, op: u32) -> bool {
        !self.asked.is_empty() && self.asked.contains_key(&op)
    }

    /// The reply to `op`, from its XID on, as far as it was captured. It began at `t_ns`. Names get numbers of `names`.
    #[inline]
    pub fn answer(&mut self, op: u32, reply: &[u8], t_ns: i64, names: &mut Names) {
        if self.asked.is_empty() {
            return;
        }
        let Some(asked) = self.asked.remove(&op) else { return };
        self.waiting_bytes -= size_of::<(u32, Asked)>() + asked.arguments.len();
        let Ok(head) = parse_reply(reply) else { return };
        let results = reply.get(head.results_at..).and_then(|results| clear(results, &asked.key));
        if let Some(results) = results.filter(|_| head.accept == Accept::Success) {
            // Where it ends too early, what was told before stands.
            let _ = news::read(&asked.key, &asked.arguments, results, |news| self.push(op, t_ns, &news, names));
        }
    }

    fn push(&mut self, op: u32, t_ns: i64, news: &News<'_>, names: &mut Names) {
        if !news.is_any() {
            return;
        }
        let Some(row) = (self.op.len() < MOST_ROWS).then(|| self.numbers(news, names)).flatten() else {
            self.dropped += 1;
            return;
        };
        let [directory, name, handle, to_directory, to_name] = row;
        let event = news.event as i8;
        self.push_row(FileRow { op: op as i32, event, t_ns, directory, name, handle, to_directory, to_name });
    }

    /// None where there is no room for all of them.
    fn numbers(&mut self, news: &News<'_>, names: &mut Names) -> Option<[i32; 5]> {
        let handles = &mut self.handles;
        let mut handle =
            |bytes: Option<&[u8]>| bytes.map_or(Some(-1), |bytes| handles.number(bytes, MOST_HANDLE_BYTES));
        let (directory, found, to_directory) =
            (handle(news.directory)?, handle(news.handle)?, handle(news.to_directory)?);
        let mut name = |bytes: Option<&[u8]>| bytes.map_or(Some(-1), |bytes| names.number(bytes));
        Some([directory, name(news.name)?, found, to_directory, name(news.to_name)?])
    }

    /// What was told of ops that leave, as a table of its own; `new_row` of those that leave, and of those that stay, is
    /// -1 for the others.
    pub fn split(&mut self, leaves: &[i32], stays: &[i32]) -> Files {
        let (out, rest): (Vec<u32>, Vec<u32>) =
            (0..self.op.len() as u32).partition(|row| leaves[self.op[*row as usize] as usize] >= 0);
        let mut gone = self.rows(&out);
        gone.op.iter_mut().for_each(|op| *op = leaves[*op as usize]);
        gone.handles = self.handles.clone();
        gone.dropped = std::mem::take(&mut self.dropped);
        self.keep(&rest);
        self.op.iter_mut().for_each(|op| *op = stays[*op as usize]);
        for (op, asked) in std::mem::take(&mut self.asked) {
            if stays[op as usize] >= 0 {
                self.asked.insert(stays[op as usize] as u32, asked);
            } else {
                self.waiting_bytes -= size_of::<(u32, Asked)>() + asked.arguments.len();
            }
        }
        gone
    }

    /// Name the ops: `op_of` gives the op that has the reply which op `row` was given at a time, and the first frame of
    /// that reply; None where none has. Rows are in the order of their replies.
    pub fn close(&mut self, op_of: impl Fn(i32, i64) -> Option<(i32, i32)>) {
        let mut rows: Vec<(i64, i32, u32)> = Vec::with_capacity(self.op.len());
        for (row, (op, t_ns)) in self.op.iter_mut().zip(&self.t_ns).enumerate() {
            if let Some((found, frame)) = op_of(*op, *t_ns) {
                *op = found;
                rows.push((*t_ns, frame, row as u32));
            }
        }
        let is_in_order = rows.len() == self.op.len() && rows.is_sorted();
        if !is_in_order {
            rows.sort_unstable();
            self.keep(&rows.iter().map(|row| row.2).collect::<Vec<u32>>());
        }
        self.asked = HashMap::new();
        self.waiting_bytes = 0;
    }
}

#[cfg(test)]
mod tests;
