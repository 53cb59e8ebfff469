//! Silences as columns.

use crate::place::NO_CONN;
use crate::table::table;

/// Rows kept of a capture; beyond it they are only counted.
pub(super) const MOST_ROWS: usize = if cfg!(test) { 64 } else { 1 << 20 };

table! {
    /// Silences of senders (`nfslat.model.details.Pauses`).
    pub struct Pauses of Pause {
        conn: i32,
        reconnect: i32,
        direction: i8,
        frame: i32,
        begin_ns: i64,
        end_ns: i64,
        heard_ns: i64,
        ended: i8,
        went: i8,
        in_message: i8,
        offset: i64,
        size: i32,
        size_before: i32,
        under_way: i64,
        under_way_end: i64,
        announced: i64,
        window: i64,
        window_least: i64,
        window_end: i64,
        duplicate_acks: i32,
        is_tail: i8,
        sent_ns: i64,
    }
    with {
        /// Rows beyond those that are kept.
        pub dropped: u64,
    }
}

impl Pauses {
    /// Keep a row, of a connection that has shown RPC.
    pub(super) fn push(&mut self, pause: Pause) {
        if pause.conn == NO_CONN as i32 {
            return;
        }
        if self.conn.len() >= MOST_ROWS {
            self.dropped += 1;
            return;
        }
        self.push_row(pause);
    }
}
