//! Silences in, columns out.

use super::{Ended, Went};
use crate::place::NO_CONN;
use crate::traffic::Place;

/// Rows kept of a capture; beyond it they are only counted.
pub(super) const MOST_ROWS: usize = if cfg!(test) { 64 } else { 1 << 20 };

/// One row, but for its place.
pub(super) struct Pause {
    pub(super) begin_ns: i64,
    pub(super) heard_ns: i64,
    pub(super) ended: Ended,
    pub(super) went: Went,
    pub(super) in_message: Option<bool>,
    pub(super) offset: Option<u64>,
    pub(super) size: u32,
    pub(super) size_before: u32,
    pub(super) under_way: u32,
    pub(super) under_way_end: u32,
    pub(super) announced: i64,
    pub(super) window: i64,
    pub(super) window_least: i64,
    pub(super) window_end: i64,
    pub(super) duplicate_acks: u16,
    pub(super) is_tail: bool,
    pub(super) sent_ns: Option<i64>,
}

macro_rules! table {
    ($($name:ident: $type:ty = $value:expr;)*) => {
        /// The rows (`nfslat.details.Pauses`).
        #[derive(Default)]
        pub struct Pauses {
            $(pub $name: Vec<$type>,)*
            /// Rows beyond those that are kept.
            pub dropped: u64,
        }

        impl Pauses {
            pub(super) fn push(&mut self, place: Place, pause: Pause) {
                if place.conn == NO_CONN {
                    return;
                }
                if self.conn.len() >= MOST_ROWS {
                    self.dropped += 1;
                    return;
                }
                $(self.$name.push(($value)(&place, &pause));)*
            }
        }
    };
}

table! {
    conn: i32 = |at: &Place, _: &Pause| at.conn as i32;
    reconnect: i32 = |at: &Place, _: &Pause| at.reconnect as i32;
    direction: i8 = |at: &Place, _: &Pause| at.direction as i8;
    frame: i32 = |at: &Place, _: &Pause| at.frame as i32;
    begin_ns: i64 = |_: &Place, of: &Pause| of.begin_ns;
    end_ns: i64 = |at: &Place, _: &Pause| at.t_ns;
    heard_ns: i64 = |_: &Place, of: &Pause| of.heard_ns;
    ended: i8 = |_: &Place, of: &Pause| of.ended as i8;
    went: i8 = |_: &Place, of: &Pause| of.went as i8;
    in_message: i8 = |_: &Place, of: &Pause| of.in_message.map_or(-1, i8::from);
    offset: i64 = |_: &Place, of: &Pause| of.offset.map_or(-1, |offset| offset as i64);
    size: i32 = |_: &Place, of: &Pause| of.size as i32;
    size_before: i32 = |_: &Place, of: &Pause| of.size_before as i32;
    under_way: i64 = |_: &Place, of: &Pause| of.under_way.into();
    under_way_end: i64 = |_: &Place, of: &Pause| of.under_way_end.into();
    announced: i64 = |_: &Place, of: &Pause| of.announced;
    window: i64 = |_: &Place, of: &Pause| of.window;
    window_least: i64 = |_: &Place, of: &Pause| of.window_least;
    window_end: i64 = |_: &Place, of: &Pause| of.window_end;
    duplicate_acks: i32 = |_: &Place, of: &Pause| of.duplicate_acks.into();
    is_tail: i8 = |_: &Place, of: &Pause| i8::from(of.is_tail);
    sent_ns: i64 = |_: &Place, of: &Pause| of.sent_ns.unwrap_or(-1);
}
