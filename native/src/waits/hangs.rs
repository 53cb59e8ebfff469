//! What a sender asked again and again in, what it still waited for at the end out, as columns.

use crate::place::NO_CONN;
use crate::table::table;
use crate::traffic::Place;

/// Rows kept of a capture; beyond it they are only counted.
const MOST_ROWS: usize = if cfg!(test) { 64 } else { 1 << 16 };

/// For what a sender waits (`nfslat.model.details.Awaits`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum Awaits {
    Window = 0,
    Ack = 1,
}

/// What ended its connection (`nfslat.model.details.Cut`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum Cut {
    Nothing = 0,
    OwnReset = 1,
    Reset = 2,
    NextConnection = 3,
}

table! {
    /// What senders waited for to the last (`nfslat.model.details.Hangs`). `close` puts the rows into their order.
    pub struct Hangs of HangRow {
        conn: i32,
        reconnect: i32,
        direction: i8,
        awaits: i8,
        since_ns: i64,
        tries: i32,
        before_ns: i64,
        last_ns: i64,
        frame: i32,
        offset: i64,
        bytes: i64,
        went_on: i8,
        heard_ns: i64,
        cut: i8,
        until_ns: i64,
    }
    with {
        /// Rows beyond those that are kept.
        pub dropped: u64,
    }
}

impl Hangs {
    /// A row of a connection that has shown RPC.
    pub fn push(&mut self, wait: &Wait, conn: u32, reconnect: u32, (cut, until_ns): (Cut, i64)) {
        if conn == NO_CONN {
            return;
        }
        if self.conn.len() >= MOST_ROWS {
            self.dropped += 1;
            return;
        }
        self.push_row(HangRow {
            conn: conn as i32,
            reconnect: reconnect as i32,
            direction: wait.direction as i8,
            awaits: wait.awaits as i8,
            since_ns: wait.tries.since_ns,
            tries: wait.tries.count as i32,
            before_ns: wait.tries.before_ns,
            last_ns: wait.tries.last_ns,
            frame: wait.tries.frame as i32,
            offset: wait.offset,
            bytes: wait.bytes as i64,
            went_on: i8::from(wait.went_on),
            heard_ns: wait.heard_ns.unwrap_or(-1),
            cut: cut as i8,
            until_ns,
        });
    }

    /// By connection, reconnect, direction and what is awaited.
    pub fn close(&mut self) {
        let mut rows: Vec<u32> = (0..self.conn.len() as u32).collect();
        let key = |row: usize| (self.conn[row], self.reconnect[row], self.direction[row], self.awaits[row]);
        rows.sort_by_key(|row| key(*row as usize));
        self.keep(&rows);
    }
}

/// How often something was asked for: `since_ns` is when the wait began, the others are of the last two times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tries {
    since_ns: i64,
    count: u32,
    before_ns: i64,
    last_ns: i64,
    frame: u32,
}

impl Tries {
    fn none(since_ns: i64) -> Tries {
        Tries { since_ns, count: 0, before_ns: since_ns, last_ns: since_ns, frame: 0 }
    }

    fn again(&mut self, place: Place) {
        self.count = self.count.saturating_add(1);
        self.before_ns = self.last_ns;
        self.last_ns = place.t_ns;
        self.frame = place.frame;
    }
}

/// Transmissions of the bytes at one position.
#[derive(Clone, Copy)]
struct Sent {
    at: u64,
    tries: Tries,
    /// End of the highest byte sent when they went out for the second time.
    high: u64,
}

/// What one direction asked for again; there only where it did, or where its window was shut.
#[derive(Clone, Copy, Default)]
pub(super) struct Asked {
    shut: Option<Tries>,
    sent: Option<Sent>,
}

impl Asked {
    /// The window was open, or not known, and is shut.
    pub(super) fn shuts(&mut self, t_ns: i64) {
        self.shut = Some(Tries::none(t_ns));
    }

    /// A packet that the shut window has no room for.
    pub(super) fn probes(&mut self, place: Place) {
        if let Some(tries) = &mut self.shut {
            tries.again(place);
        }
    }

    /// The first byte that is not acknowledged, at `at`, went out again; `first_ns` is when it did before.
    pub(super) fn sends_again(&mut self, at: u64, first_ns: Option<i64>, high: u64, place: Place) {
        if let Some(sent) = self.sent.as_mut().filter(|sent| sent.at == at) {
            sent.tries.again(place);
            return;
        }
        // What is not remembered is left out: then it waits for longer than is known.
        let mut tries = Tries::none(first_ns.unwrap_or(place.t_ns));
        tries.count = u32::from(first_ns.is_some());
        tries.again(place);
        self.sent = Some(Sent { at, tries, high });
    }
}

/// What a direction waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    direction: usize,
    awaits: Awaits,
    tries: Tries,
    /// Of the first byte that is not acknowledged.
    offset: i64,
    bytes: u64,
    went_on: bool,
    /// When the other side was last heard of.
    heard_ns: Option<i64>,
}

/// RSTs of one direction behind which it said nothing more, and what both waited for when the first of them came.
pub struct Reset {
    /// Of this direction, up to the last of the RSTs.
    packets: u64,
    t_ns: i64,
    waits: Vec<Wait>,
}

impl Reset {
    /// A RST of a direction, which has sent so many packets before.
    pub fn comes(slot: &mut Option<Box<Reset>>, packets: u64, t_ns: i64, waits: impl FnOnce() -> Vec<Wait>) {
        match slot {
            Some(reset) if reset.packets == packets => reset.packets += 1,
            _ => *slot = Some(Box::new(Reset { packets: packets + 1, t_ns, waits: waits() })),
        }
    }

    /// That of both directions, of which each has sent so many packets, that ended the connection; and whose it was.
    pub fn first(both: &[Option<Box<Reset>>; 2], packets: [u64; 2]) -> Option<(usize, &Reset)> {
        let of = |direction: usize| Some((direction, both[direction].as_deref()?));
        let stands = |(direction, reset): &(usize, &Reset)| reset.packets == packets[*direction];
        (0..2).filter_map(of).filter(stands).min_by_key(|(_, reset)| reset.t_ns)
    }

    /// What was waited for, and how it ended; `direction` is that of the RST.
    pub fn waits(&self, direction: usize) -> impl Iterator<Item = (&Wait, (Cut, i64))> {
        let cut = move |wait: &Wait| if wait.direction == direction { Cut::OwnReset } else { Cut::Reset };
        self.waits.iter().map(move |wait| (wait, (cut(wait), self.t_ns)))
    }
}

/// Of a direction at the end, as it stands: positions, and is its window shut?
pub(super) struct Stand {
    pub(super) direction: usize,
    pub(super) origin: u64,
    pub(super) acked: u64,
    pub(super) high: u64,
    pub(super) is_shut: bool,
    pub(super) heard_ns: Option<i64>,
}

impl Asked {
    /// What it waits for still.
    pub(super) fn waits(&self, of: Stand) -> impl Iterator<Item = Wait> {
        let offset = of.acked.checked_sub(of.origin).map_or(-1, |offset| offset as i64);
        let bytes = of.high.saturating_sub(of.acked);
        let (direction, heard_ns) = (of.direction, of.heard_ns);
        let wait = move |awaits, tries, went_on| Wait { direction, awaits, tries, offset, bytes, went_on, heard_ns };
        let shut = self.shut.filter(|tries| of.is_shut && tries.count > 0);
        let sent = self.sent.filter(|sent| sent.at == of.acked && bytes > 0 && sent.tries.count > 1);
        let high = of.high;
        let window = shut.map(|tries| wait(Awaits::Window, tries, false));
        let ack = sent.map(|sent| wait(Awaits::Ack, sent.tries, high > sent.high));
        window.into_iter().chain(ack)
    }
}

#[cfg(test)]
mod tests;
