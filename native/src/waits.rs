//! The packets of a TCP connection in, the silences of its senders out, with what ended each.
//!
//! Knows nothing of RPC and keeps nothing per packet, but the times of what is not acknowledged yet.
//! `nfslat/model/details.py` (`Pauses`) says what the columns mean.

use crate::link::Segment;
use crate::scales::Scales;
use crate::stream::Novelty;
use crate::traffic::{Place, each_option};
use hangs::{Asked, Stand};
pub use hangs::{Cut, Hangs, Reset, Wait};
use memory::Memory;
pub use table::{Pause, Pauses};

/// In the middle of a message a sender has no reason to be silent: it has the bytes.
const IN_MESSAGE_NS: u64 = 1_000_000;
/// Between messages it may have nothing to say. Half of the shortest delayed ACK there is (40 ms on Linux).
const UNDER_WAY_NS: i64 = 20_000_000;
/// Positions this far apart are of another connection between the same ports whose beginning was not captured.
const APART: u64 = 1 << 28;
/// No window was announced so far. More than any, so that it is the least one only where there is no other.
const UNKNOWN: u32 = u32::MAX;
const NO_SCALE: u8 = u8::MAX;
/// SACK in a packet's options (RFC 2018 section 3).
const SACK: u8 = 5;

/// What a sender had received since its pause began (`nfslat.model.details.Ended`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i8)]
pub enum Ended {
    #[default]
    Nothing = 0,
    Ack = 1,
    Window = 2,
    Duplicate = 3,
    Data = 4,
}

/// With what a sender went on (`nfslat.model.details.Went`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum Went {
    New = 0,
    Repeated = 1,
    Late = 2,
    Probe = 3,
}

impl From<Novelty> for Went {
    fn from(novelty: Novelty) -> Went {
        match novelty {
            Novelty::New | Novelty::Ahead(_) | Novelty::Again { repeated: 0, late: 0, .. } => Went::New,
            Novelty::Again { repeated: 0, .. } => Went::Late,
            Novelty::Again { .. } => Went::Repeated,
            Novelty::KeepAlive => Went::Probe,
        }
    }
}

/// A packet that is neither SYN nor RST, and was not captured before.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    pub place: Place,
    /// Position of the first byte in the stream of `place.direction`, and of the first byte that this stream has.
    pub start: u64,
    pub origin: u64,
    pub len: u32,
    /// Position in the other direction's stream; None without an ACK, or where that stream is not known yet.
    pub ack: Option<u64>,
    /// As it is in the header.
    pub window: u16,
    pub options: &'a [u8],
    /// `Probe` where a single byte is none of the next ones: a keep-alive, unless the window is closed.
    pub went: Went,
    /// Was a message not complete at the highest byte before this packet? None: not known.
    pub in_message: Option<bool>,
}

/// What of a `Seen` every packet needs; the rest is put together for those few that may end a pause.
#[derive(Clone, Copy)]
pub struct Glance {
    pub direction: usize,
    pub t_ns: i64,
    pub start: u64,
    pub len: u32,
    pub ack: Option<u64>,
    pub window: u16,
    pub went: Went,
}

/// One direction: what its sender has sent, and what it has heard since. A line of the cache, as far as most packets go.
#[repr(align(64))]
struct Way {
    /// Of the last packet with data; i64::MIN before the first.
    last_ns: i64,
    /// End of the highest byte sent, and of the highest acknowledged.
    high: u64,
    acked: u64,
    /// Of the last packet of the other side that says something; i64::MIN: none.
    heard_ns: i64,
    /// When all was acknowledged; i64::MAX: not yet.
    done_ns: i64,
    last_len: u32,
    /// Bytes that were under way behind the last packet with data.
    under_way: u32,
    /// As the receiver announced them, not scaled: the last one, that behind the last packet with data, the least since.
    window: u32,
    window_begin: u32,
    window_least: u32,
    duplicates: u16,
    ended: Ended,
    heard_data: bool,
    /// Of these windows.
    scale: u8,
    memory: Memory,
    /// What it asked for again; nothing as a rule.
    asked: Option<Box<Asked>>,
}

impl Default for Way {
    fn default() -> Way {
        Way {
            last_ns: i64::MIN,
            high: 0,
            acked: 0,
            heard_ns: i64::MIN,
            done_ns: i64::MAX,
            last_len: 0,
            under_way: 0,
            window: UNKNOWN,
            window_begin: UNKNOWN,
            window_least: UNKNOWN,
            duplicates: 0,
            ended: Ended::Nothing,
            heard_data: false,
            scale: NO_SCALE,
            memory: Memory::default(),
            asked: None,
        }
    }
}

impl Way {
    /// A packet with data of this direction.
    #[inline(always)]
    fn sends<'a>(&mut self, seen: Glance, all: impl FnOnce() -> Seen<'a>, out: &mut Pauses) {
        let t_ns = seen.t_ns;
        let silent_ns = t_ns.wrapping_sub(self.last_ns) as u64; // huge in front of the first, and where time goes back
        let is_usual = silent_ns < IN_MESSAGE_NS && seen.went == Went::New && seen.start == self.high;
        if is_usual || self.goes_on(all(), out) {
            self.sent(seen);
        }
    }

    /// Data went out that were no probe.
    #[inline(always)]
    fn sent(&mut self, seen: Glance) {
        self.high = self.high.max(seen.start + u64::from(seen.len));
        self.last_ns = seen.t_ns;
        self.last_len = seen.len;
        self.under_way = self.under_way_now();
        self.window_begin = self.window;
        self.window_least = self.window;
        self.heard_ns = i64::MIN;
        self.done_ns = i64::MAX;
        self.ended = Ended::Nothing;
        self.heard_data = false;
        self.memory.push(seen.start, seen.len, seen.t_ns, self.acked);
    }

    /// Windows are below 2^30, so that no sender has more than that under way.
    #[inline(always)]
    fn under_way_now(&self) -> u32 {
        self.high.saturating_sub(self.acked) as u32
    }

    /// Bytes of an announced window.
    fn bytes(&self, window: u32) -> Option<u64> {
        match (window, self.scale) {
            (0, _) => Some(0),
            (UNKNOWN, _) | (_, NO_SCALE) => None,
            _ => Some(u64::from(window) << self.scale),
        }
    }

    /// The same, where it may end a pause; false where its data are none, but a probe.
    #[cold]
    fn goes_on(&mut self, seen: Seen<'_>, out: &mut Pauses) -> bool {
        let is_first = self.last_ns == i64::MIN;
        if (self.high != 0 && seen.start.abs_diff(self.high) > APART) || (is_first && self.high == 0) {
            let (acked, scale, window) = (self.acked, self.scale, self.window);
            let acked = if acked.abs_diff(seen.start) > APART { seen.start } else { acked };
            let asked = self.asked.take().filter(|_| is_first);
            *self = Way { high: seen.start, acked, scale, window, asked, ..Way::default() };
            return true;
        }
        let is_closed = self.window == 0;
        let is_probe = seen.went == Went::Probe || (is_closed && seen.len == 1);
        let went = if is_probe { Went::Probe } else { seen.went };
        if is_probe && !is_closed {
            return false; // a keep-alive
        }
        if is_closed && went != Went::New {
            self.asked.get_or_insert_default().probes(seen.place);
        }
        let end = seen.start + u64::from(seen.len);
        if !is_probe && (seen.start..end).contains(&self.acked) && self.acked < self.high {
            let first_ns = self.memory.sent_ns(self.acked);
            let asked = self.asked.get_or_insert_default();
            asked.sends_again(self.acked, first_ns, self.high.max(end), seen.place);
        }
        let silent_ns = if is_first { 0 } else { seen.place.t_ns.saturating_sub(self.last_ns) };
        let in_message = silent_ns >= IN_MESSAGE_NS as i64 && seen.in_message == Some(true);
        // An ACK in front of the data is of another clock: how long it was awaited is not known then.
        let is_done = (self.last_ns..seen.place.t_ns).contains(&self.done_ns);
        let until_ns = if is_done { self.done_ns } else { seen.place.t_ns };
        let waits_for_ack = self.under_way > 0 && until_ns.saturating_sub(self.last_ns) >= UNDER_WAY_NS;
        let is_shut = self.bytes(self.window_least).is_some_and(|least| least < u64::from(seen.len));
        let is_waiting = silent_ns >= UNDER_WAY_NS && (is_shut || (waits_for_ack && !self.heard_data));
        // With a hole in front it was no silence: what is missing went out in it.
        let is_next = seen.start <= self.high;
        if went != Went::New || (!is_first && is_next && (in_message || is_waiting)) {
            self.row(&seen, went, out);
        }
        !is_probe
    }

    fn row(&self, seen: &Seen<'_>, went: Went, out: &mut Pauses) {
        let known = |t_ns: i64| if t_ns == i64::MIN { -1 } else { t_ns };
        let bytes = |window: u32| self.bytes(window).map_or(-1, |bytes| bytes as i64);
        let place = seen.place;
        let is_again = matches!(went, Went::Repeated | Went::Late);
        let sent_ns = if went == Went::Repeated { self.memory.sent_ns(seen.start) } else { None };
        out.push(Pause {
            conn: place.conn as i32,
            reconnect: place.reconnect as i32,
            direction: place.direction as i8,
            frame: place.frame as i32,
            begin_ns: known(self.last_ns).min(place.t_ns),
            end_ns: place.t_ns,
            heard_ns: known(self.heard_ns),
            ended: self.ended as i8,
            went: went as i8,
            in_message: seen.in_message.map_or(-1, i8::from),
            offset: seen.start.checked_sub(seen.origin).map_or(-1, |offset| offset as i64),
            size: seen.len as i32,
            size_before: self.last_len as i32,
            under_way: self.under_way.into(),
            under_way_end: self.under_way_now().into(),
            announced: if self.window_begin == UNKNOWN { -1 } else { self.window_begin.into() },
            window: bytes(self.window_begin),
            window_least: bytes(self.window_least),
            window_end: bytes(self.window),
            duplicate_acks: self.duplicates.into(),
            is_tail: i8::from(is_again && seen.start + u64::from(seen.len) >= self.high),
            sent_ns: sent_ns.unwrap_or(-1),
        });
    }

    /// A packet of the other side.
    #[inline(always)]
    fn hears<'a>(&mut self, seen: Glance, all: impl FnOnce() -> Seen<'a>) {
        let t_ns = seen.t_ns;
        if seen.len > 0 && seen.went != Went::Probe {
            self.heard(t_ns, Ended::Data);
            self.heard_data = true;
        }
        let Some(ack) = seen.ack else { return };
        if ack < self.acked {
            return; // overtaken, so its window is old, too
        }
        if ack > self.acked {
            self.hears_ack(seen, ack);
        } else if seen.len == 0 {
            self.hears_again(all());
        }
        if seen.window == 0 {
            self.shuts(t_ns);
        }
        self.window = u32::from(seen.window);
        self.window_least = self.window_least.min(self.window);
    }

    /// One that covers more.
    #[inline(always)]
    fn hears_ack(&mut self, seen: Glance, ack: u64) {
        self.acked = ack;
        self.duplicates = 0;
        if seen.len == 0 {
            self.heard(seen.t_ns, Ended::Ack);
        }
        if ack >= self.high && self.done_ns == i64::MAX {
            self.done_ns = seen.t_ns;
        }
    }

    #[cold]
    fn shuts(&mut self, t_ns: i64) {
        if self.window != 0 {
            self.asked.get_or_insert_default().shuts(t_ns);
        }
    }

    /// An ACK without data that covers nothing more.
    #[cold]
    fn hears_again(&mut self, seen: Seen<'_>) {
        let is_under_way = self.high > self.acked;
        // Receivers may open their window further with each duplicate; SACK tells that it is one (RFC 6675 section 2).
        if is_under_way && (u32::from(seen.window) == self.window || has_sack(seen.options)) {
            self.duplicates = self.duplicates.saturating_add(1);
            let ended = if self.ended == Ended::Nothing { Ended::Duplicate } else { self.ended };
            self.heard(seen.place.t_ns, ended);
        } else if u32::from(seen.window) > self.window {
            self.heard(seen.place.t_ns, Ended::Window);
        }
    }

    #[inline(always)]
    fn heard(&mut self, t_ns: i64, ended: Ended) {
        self.heard_ns = t_ns;
        self.ended = ended;
    }

    /// A packet without data: is it a probe of a closed window? Linux sends them so, with the number of the byte before.
    #[cold]
    fn probes(&mut self, seen: Seen<'_>, out: &mut Pauses) {
        if self.last_ns != i64::MIN && seen.start + 1 == self.acked {
            self.asked.get_or_insert_default().probes(seen.place);
            self.row(&seen, Went::Probe, out);
        }
    }
}

fn has_sack(options: &[u8]) -> bool {
    each_option(options).any(|(kind, value)| kind == SACK && value.len() >= 8)
}

/// Both directions of one connection.
#[derive(Default)]
pub struct Waits {
    /// Made for the first packet with data: a capture may hold very many connections that have none.
    ways: Option<Box<[Way; 2]>>,
    scales: Scales,
}

impl Waits {
    /// A SYN of a connection that is not known yet, or the same once more. Its own window, which is never scaled, goes
    /// without notice: it holds for the first packets only.
    pub fn syn(&mut self, direction: usize, segment: &Segment<'_>) {
        self.scales.syn(direction, segment);
        self.set_scales();
    }

    fn set_scales(&mut self) {
        let scales = [self.scales.of(1), self.scales.of(0)]; // of what a direction hears from the other
        for (way, scale) in self.ways.iter_mut().flat_map(|ways| ways.iter_mut()).zip(scales) {
            way.scale = scale.unwrap_or(NO_SCALE);
        }
    }

    /// The next packet of the connection.
    pub fn packet(&mut self, seen: &Seen<'_>, out: &mut Pauses) {
        let Seen { start, len, ack, window, went, place: Place { direction, t_ns, .. }, .. } = *seen;
        self.glance(Glance { direction, t_ns, start, len, ack, window, went }, || *seen, out);
    }

    /// The same, where `all` is worth to be put together only if it is needed.
    #[inline(always)]
    pub fn glance<'a>(&mut self, seen: Glance, all: impl Fn() -> Seen<'a>, out: &mut Pauses) {
        let Some([forward, backward]) = self.ways.as_deref_mut() else {
            if seen.len > 0 {
                self.begin(all(), out);
            }
            return;
        };
        let (own, other) = if seen.direction == 0 { (forward, backward) } else { (backward, forward) };
        if seen.len > 0 {
            own.sends(seen, &all, out);
        } else if own.window == 0 && seen.start < own.high {
            own.probes(all(), out);
        }
        other.hears(seen, all);
    }

    /// The same of a packet with an ACK, an open window and new bytes, if any, that ends no pause and says nothing once
    /// more; false where it may, and nothing was done.
    #[inline(always)]
    pub fn usual(&mut self, seen: Glance, ack: u64) -> bool {
        let Some([forward, backward]) = self.ways.as_deref_mut() else { return false };
        let (own, other) = if seen.direction == 0 { (forward, backward) } else { (backward, forward) };
        let is_usual = if seen.len > 0 {
            (seen.t_ns.wrapping_sub(own.last_ns) as u64) < IN_MESSAGE_NS && seen.start == own.high && ack >= other.acked
        } else {
            own.window != 0 && ack > other.acked
        };
        if !is_usual {
            return false;
        }
        if seen.len > 0 {
            own.sent(seen);
            other.heard(seen.t_ns, Ended::Data);
            other.heard_data = true;
        }
        if ack > other.acked {
            other.hears_ack(seen, ack);
        }
        other.window = u32::from(seen.window);
        other.window_least = other.window_least.min(other.window);
        true
    }

    /// What both directions wait for now; of each the position of its first byte, and when the other was last heard of.
    pub fn open(&self, origins: [u64; 2], heard_ns: [Option<i64>; 2]) -> Vec<Wait> {
        let Some(ways) = self.ways.as_deref() else { return Vec::new() };
        let stand = |direction: usize| {
            let Way { acked, high, window, .. } = ways[direction];
            let (origin, heard_ns) = (origins[direction], heard_ns[direction]);
            Stand { direction, origin, acked, high, is_shut: window == 0, heard_ns }
        };
        let waits = |direction: usize| ways[direction].asked.iter().flat_map(move |one| one.waits(stand(direction)));
        (0..2).flat_map(waits).collect()
    }

    #[cold]
    fn begin(&mut self, seen: Seen<'_>, out: &mut Pauses) {
        self.ways = Some(Box::default());
        self.set_scales();
        self.packet(&seen, out);
    }
}

mod hangs;
mod memory;
mod table;
#[cfg(test)]
mod tests;
