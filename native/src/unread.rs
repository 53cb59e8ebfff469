//! Stretches of a stream in which messages begin that nobody can see, as rows; and sizes by which those can be counted:
//! what calls without a reply asked for, and the bytes of replies (`nfslat.model.details`: `Unread`, `Unanswered`, `Replies`).

use crate::call::NONE;
use crate::table::table;

/// Packets of a stretch that come within so long of the first of them are one row.
const SAME_NS: i64 = 100_000;
/// Beyond so many rows they are only counted.
const MOST_ROWS: usize = if cfg!(test) { 64 } else { 1 << 20 };

table! {
    /// `nfslat.model.details.Unread`. `close` puts the rows into the order of their columns.
    pub struct Unread of UnreadRow {
        conn: i32,
        direction: i8,
        begins: i8,
        begin_ns: i64,
        end_ns: i64,
        bytes: i64,
    }
    with {
        /// Rows beyond those that are kept.
        pub dropped: u64,
    }
}

/// What one direction has to remember of it.
#[derive(Clone, Copy, Default)]
pub struct Open {
    /// The last row of the stretch that is open; None between stretches, and where it was not kept.
    row: Option<u32>,
    goes_on: bool,
}

/// Bytes of a stretch, and between which instants they went by.
pub struct Bytes {
    pub conn: u32,
    pub direction: u8,
    pub begin_ns: i64,
    pub end_ns: i64,
    pub bytes: u64,
}

impl Open {
    /// The next bytes of the stretch that is open, or the first ones of another.
    #[cold]
    pub fn push(&mut self, bytes: &Bytes, unread: &mut Unread) {
        let begins = !self.goes_on;
        self.goes_on = true;
        if let Some(row) = self.row.filter(|_| !begins) {
            let row = row as usize;
            if (0..=SAME_NS).contains(&bytes.end_ns.saturating_sub(unread.begin_ns[row])) {
                unread.end_ns[row] = unread.end_ns[row].max(bytes.end_ns);
                unread.bytes[row] += bytes.bytes as i64;
                return;
            }
        }
        self.row = None;
        if unread.conn.len() >= MOST_ROWS {
            unread.dropped += 1;
            return;
        }
        self.row = Some(unread.conn.len() as u32);
        unread.push_row(UnreadRow {
            conn: bytes.conn as i32,
            direction: bytes.direction as i8,
            begins: i8::from(begins),
            begin_ns: bytes.begin_ns,
            end_ns: bytes.end_ns,
            bytes: bytes.bytes as i64,
        });
    }

    /// The last bytes of the stretch went by as late as that.
    pub fn until(&mut self, end_ns: i64, unread: &mut Unread) {
        if let Some(row) = self.row {
            unread.end_ns[row as usize] = unread.end_ns[row as usize].max(end_ns);
        }
    }

    /// Rows of `old` leave: that of the stretch that is open goes to `new`, for it may still grow. Which one that was.
    pub fn stay(&mut self, old: &Unread, new: &mut Unread) -> Option<u32> {
        let row = self.row?;
        let at = row as usize;
        self.row = Some(new.conn.len() as u32);
        new.push_row(UnreadRow {
            conn: old.conn[at],
            direction: old.direction[at],
            begins: old.begins[at],
            begin_ns: old.begin_ns[at],
            end_ns: old.end_ns[at],
            bytes: old.bytes[at],
        });
        Some(row)
    }

    /// A message was found behind it.
    #[inline]
    pub fn end(&mut self) {
        (self.row, self.goes_on) = (None, false);
    }
}

impl Unread {
    /// Without these rows.
    pub fn leave_out(&mut self, rows: &[u32]) {
        let mut stays = vec![true; self.conn.len()];
        rows.iter().for_each(|row| stays[*row as usize] = false);
        let kept: Vec<u32> = (0..stays.len() as u32).filter(|row| stays[*row as usize]).collect();
        self.keep(&kept);
    }

    /// By connection and direction, each in the order of its stream.
    pub fn close(&mut self) {
        let mut rows: Vec<u32> = (0..self.conn.len() as u32).collect();
        rows.sort_by_key(|row| (self.conn[*row as usize], self.direction[*row as usize]));
        self.keep(&rows);
    }
}

table! {
    /// `nfslat.model.details.Replies`.
    pub struct Replies of ReplyRow {
        kind: i16,
        count: i64,
        short: i64,
        least: i64,
        most: i64,
    }
    with {
        /// Row of each kind; `NONE` where it has none.
        row_of: Vec<u32>,
    }
}

impl Replies {
    /// A reply of so many bytes, to a call of `kind` that asked for or brought `size` bytes (`NONE`: neither).
    #[inline]
    pub fn push(&mut self, kind: i16, bytes: u64, size: u32) {
        let short = size != NONE && bytes < u64::from(size);
        let bytes = if size == NONE || short { bytes } else { bytes - u64::from(size) } as i64;
        match self.row_of.get(kind as usize) {
            Some(row) if *row != NONE => {
                let row = *row as usize;
                self.count[row] += 1;
                self.short[row] += i64::from(short);
                self.least[row] = self.least[row].min(bytes);
                self.most[row] = self.most[row].max(bytes);
            }
            _ => self.first(ReplyRow { kind, count: 1, short: i64::from(short), least: bytes, most: bytes }),
        }
    }

    /// By kind.
    pub fn close(&mut self) {
        let mut rows: Vec<u32> = (0..self.kind.len() as u32).collect();
        rows.sort_by_key(|row| self.kind[*row as usize]);
        self.keep(&rows);
        self.row_of.clear();
    }

    #[cold]
    fn first(&mut self, row: ReplyRow) {
        let kind = row.kind.max(0) as usize;
        if self.row_of.len() <= kind {
            self.row_of.resize(kind + 1, NONE);
        }
        self.row_of[kind] = self.kind.len() as u32;
        self.push_row(row);
    }
}

table! {
    /// `nfslat.model.details.Unanswered`.
    pub struct Unanswered of UnansweredCall {
        conn: i32,
        frame: i32,
        xid: u32,
        size: u32,
    }
}

impl Unanswered {
    /// By frame.
    pub fn close(&mut self) {
        let mut rows: Vec<u32> = (0..self.frame.len() as u32).collect();
        rows.sort_by_key(|row| self.frame[*row as usize]);
        self.keep(&rows);
    }
}

#[cfg(test)]
mod tests;
