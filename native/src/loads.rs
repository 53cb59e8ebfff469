//! Payload of data packets in, its bytes by stretch of time out (`nfslat.model.details.Loads`, `Others`).

use hashbrown::HashMap;

use crate::link::{Addr, Ends};
use crate::place::NO_CONN;
use crate::table::table;

/// What the stretches are as long as their rows fit.
pub const STRETCH_NS: i64 = 10_000_000;
/// Beyond so many rows the stretches become twice as long.
const MOST_ROWS: usize = if cfg!(test) { 64 } else { 1 << 20 };
/// Where even such stretches do not help there are more directions than rows: what comes then is only counted.
const LONGEST_NS: i64 = 1 << 61;

/// Streams without RPC that have a number; those that come later are not followed.
const MOST_STREAMS: usize = if cfg!(test) { 8 } else { 4096 };

/// Of one direction: the stretch that its last data packet is in, and the bytes in it so far.
#[derive(Default)]
pub struct Load {
    begin_ns: i64,
    stretch_ns: i64,
    bytes: u64,
}

impl Load {
    /// A packet with data, from `ends.src`. What came in the stretch in which the connection first shows RPC is RPC's.
    #[inline]
    pub fn data(&mut self, (conn, direction): (u32, usize), ends: &Ends, len: u32, t_ns: i64, all: &mut AllLoads) {
        if t_ns.wrapping_sub(self.begin_ns) as u64 >= self.stretch_ns as u64 {
            self.turn((conn, direction), ends, t_ns, all);
        }
        self.bytes += u64::from(len);
    }

    #[cold]
    fn turn(&mut self, (conn, direction): (u32, usize), ends: &Ends, t_ns: i64, all: &mut AllLoads) {
        self.end((conn, direction), ends, all);
        self.stretch_ns = if conn == NO_CONN { &all.others } else { &all.of_rpc }.stretch_ns;
        self.begin_ns = t_ns - t_ns.rem_euclid(self.stretch_ns);
    }

    /// No more data.
    pub fn end(&mut self, (conn, direction): (u32, usize), ends: &Ends, all: &mut AllLoads) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes == 0 {
            return;
        }
        let row = Row { begin_ns: self.begin_ns, conn, direction: direction as u8, bytes };
        if conn != NO_CONN {
            all.of_rpc.push(row);
        } else if let Some(stream) = all.stream(ends) {
            all.others.push(Row { conn: stream, direction: 0, ..row });
        }
    }
}

/// Those of connections with RPC, and those of all other streams that the capture holds.
#[derive(Default)]
pub struct AllLoads {
    pub of_rpc: Loads,
    /// Each direction is a stream of its own, whose number stands in place of a connection's.
    others: Loads,
    /// Who sends to whom, by the streams' numbers.
    streams: Vec<Ends>,
    numbers: HashMap<(Addr, Addr, u16, u16), u32>,
}

impl AllLoads {
    /// The number of what these ends send; None where there are too many.
    fn stream(&mut self, ends: &Ends) -> Option<u32> {
        let key = (ends.src, ends.dst, ends.sport, ends.dport);
        if let Some(number) = self.numbers.get(&key) {
            return Some(*number);
        }
        if self.streams.len() >= MOST_STREAMS {
            return None;
        }
        let number = self.streams.len() as u32;
        self.streams.push(*ends);
        self.numbers.insert(key, number);
        Some(number)
    }

    /// What another one has of other streams, which this one may not have: each packet went to one of them.
    pub fn fold(&mut self, more: &AllLoads) {
        for row in &more.others.rows {
            if let Some(stream) = self.stream(&more.streams[row.conn as usize]) {
                self.others.push(Row { conn: stream, ..*row });
            }
        }
    }

    pub fn close(&mut self) {
        self.of_rpc.close();
        self.others.close();
    }

    /// The rows of other streams, which leave; the streams stay as they are numbered.
    pub fn take_others(&mut self) -> Others {
        let LoadColumns { conn, begin_ns, bytes, .. } = self.others.take_columns();
        Others {
            columns: OtherColumns { stream: conn, begin_ns, bytes },
            streams: self.streams.clone(),
            stretch_ns: self.others.stretch_ns,
        }
    }
}

/// `nfslat.model.details.Others`.
pub struct Others {
    pub columns: OtherColumns,
    pub streams: Vec<Ends>,
    pub stretch_ns: i64,
}

#[derive(Clone, Copy)]
struct Row {
    begin_ns: i64,
    conn: u32,
    direction: u8,
    bytes: u64,
}

impl Row {
    fn key(&self) -> (i64, u32, u8) {
        (self.begin_ns, self.conn, self.direction)
    }
}

table! {
    /// `nfslat.model.details.Loads`.
    pub struct LoadColumns of LoadRow {
        conn: i32,
        direction: i8,
        begin_ns: i64,
        bytes: i64,
    }
}

table! {
    /// `nfslat.model.details.Others`.
    pub struct OtherColumns of OtherRow {
        stream: i32,
        begin_ns: i64,
        bytes: i64,
    }
}

/// Rows by time, connection and direction once it is closed.
pub struct Loads {
    rows: Vec<Row>,
    pub stretch_ns: i64,
    /// Rows beyond those that are kept.
    pub dropped: u64,
}

impl Default for Loads {
    fn default() -> Loads {
        Loads { rows: Vec::new(), stretch_ns: STRETCH_NS, dropped: 0 }
    }
}

impl Loads {
    fn push(&mut self, row: Row) {
        if self.rows.len() >= MOST_ROWS && self.stretch_ns >= LONGEST_NS {
            self.dropped += 1;
            return;
        }
        self.rows.push(row);
        if self.rows.len() > MOST_ROWS {
            self.merge();
            // Half empty, so that it is not done all the time.
            while self.rows.len() > MOST_ROWS / 2 && self.stretch_ns < LONGEST_NS {
                self.stretch_ns *= 2;
                self.merge();
            }
            let most = self.rows.len().min(MOST_ROWS);
            self.dropped += self.rows.drain(most..).count() as u64;
        }
    }

    /// One row for each stretch of each direction.
    fn merge(&mut self) {
        for row in &mut self.rows {
            row.begin_ns -= row.begin_ns.rem_euclid(self.stretch_ns);
        }
        self.rows.sort_unstable_by_key(Row::key);
        self.rows.dedup_by(|later, first| {
            let is_same = later.key() == first.key();
            first.bytes += if is_same { later.bytes } else { 0 };
            is_same
        });
    }

    pub fn close(&mut self) {
        self.merge();
    }

    /// Its rows, which leave it.
    pub fn take_columns(&mut self) -> LoadColumns {
        let columns = self.columns();
        self.rows.clear();
        columns
    }

    pub fn columns(&self) -> LoadColumns {
        let mut columns = LoadColumns::default();
        for row in &self.rows {
            columns.push_row(LoadRow {
                conn: row.conn as i32,
                direction: row.direction as i8,
                begin_ns: row.begin_ns,
                bytes: row.bytes as i64,
            });
        }
        columns
    }
}

#[cfg(test)]
mod tests;
