//! Payload of data packets in, its bytes by stretch of time out (`nfslat.model.details.Loads`).

use crate::place::NO_CONN;
use crate::table::table;

/// What the stretches are as long as their rows fit.
pub const STRETCH_NS: i64 = 10_000_000;
/// Beyond so many rows the stretches become twice as long.
const MOST_ROWS: usize = if cfg!(test) { 64 } else { 1 << 20 };
/// Where even such stretches do not help there are more directions than rows: what comes then is only counted.
const LONGEST_NS: i64 = 1 << 61;

/// Of one direction: the stretch that its last data packet is in, and the bytes in it so far.
#[derive(Default)]
pub struct Load {
    begin_ns: i64,
    stretch_ns: i64,
    bytes: u64,
}

impl Load {
    /// A packet with data. What came before the connection showed RPC counts if it is in the same stretch as that.
    #[inline]
    pub fn data(&mut self, conn: u32, direction: usize, len: u32, t_ns: i64, loads: &mut Loads) {
        if t_ns.wrapping_sub(self.begin_ns) as u64 >= self.stretch_ns as u64 {
            self.turn(conn, direction, t_ns, loads);
        }
        self.bytes += u64::from(len);
    }

    #[cold]
    fn turn(&mut self, conn: u32, direction: usize, t_ns: i64, loads: &mut Loads) {
        self.end(conn, direction, loads);
        self.stretch_ns = loads.stretch_ns;
        self.begin_ns = t_ns - t_ns.rem_euclid(self.stretch_ns);
    }

    /// No more data.
    pub fn end(&mut self, conn: u32, direction: usize, loads: &mut Loads) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes > 0 && conn != NO_CONN {
            loads.push(Row { begin_ns: self.begin_ns, conn, direction: direction as u8, bytes });
        }
    }
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
