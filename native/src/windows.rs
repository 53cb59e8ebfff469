//! Packets of a capture of any length in, what has ended out, window by window of its clock: memory is that of a window,
//! and of what is open.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Mutex};

use crate::capture::{Error, File, Progress, Take, read_all};
use crate::container::Packet;
use crate::decoder::{Contents, Decoder};
use crate::flows;
use crate::ring::Ring;

/// A window is closed when packets are later than its end by so much: by then RPC has sent again, over UDP or on another
/// interface, what it sends again soon, and queues have handed on what they held.
const LATE_NS: i64 = 2_000_000_000;

/// So many packets in a row from before a window, and its clock was set back; fewer are of another interface's clock.
const SET_BACK: u32 = 64;

/// Of packets, of connections, and of connections that ended: a decoder that has seen as much is to be replaced. Its
/// tables have room for twice as much.
const WORN_PACKETS: u32 = 1 << 30;
const WORN_FLOWS: usize = flows::MOST / 2;
const WORN_ENDED: usize = 1 << 17;
const MOST_TAKEN: u32 = 1 << 30;

/// What ended from `begin_ns` on, and before `end_ns`.
pub struct Window {
    pub begin_ns: i64,
    pub end_ns: i64,
    pub contents: Contents,
    pub behind: Behind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behind {
    More,
    /// Another decoder goes on: numbers in the next window are of that.
    Another,
    /// All was read.
    Nothing,
}

/// Of a capture that is read for days: what another thread sees of it, and asks for.
pub struct Live {
    pub ring: Mutex<Option<Ring>>,
    pub newest_ns: AtomicI64,
    /// A decoder that has seen much should be replaced soon, or memory and tables end.
    pub is_worn: AtomicBool,
    /// That is done with the first packet from then on.
    pub renew_ns: AtomicI64,
}

impl Live {
    /// `ring_bytes`: of packets that are kept; none are, if it is 0.
    pub fn new(ring_bytes: usize) -> Live {
        Live {
            ring: Mutex::new((ring_bytes > 0).then(|| Ring::new(ring_bytes))),
            newest_ns: AtomicI64::new(i64::MIN),
            is_worn: AtomicBool::new(false),
            renew_ns: AtomicI64::new(i64::MAX),
        }
    }

    #[inline]
    fn packet(&self, packet: &Packet<'_>) {
        if let Ok(mut ring) = self.ring.lock() {
            if let Some(ring) = ring.as_mut() {
                ring.packet(packet);
            }
        }
        self.newest_ns.store(packet.t_ns, Ordering::Relaxed);
    }
}

/// How many ops a window has at least, unless a clock was set back: the first one, and each behind it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size {
    pub first_ops: usize,
    pub least_ops: usize,
}

struct Windows<F> {
    decoder: Decoder,
    live: Option<Arc<Live>>,
    /// Packets; of a capture that is read for days they are counted anew before there are too many.
    taken: u32,
    width_ns: i64,
    begin_ns: i64,
    end_ns: i64,
    /// A packet of this time closes the window, if enough has ended in it.
    due_ns: i64,
    size: Size,
    is_first: bool,
    /// Packets in a row from before the window.
    early: u32,
    /// Takes the windows; false: no more are wanted.
    hand: F,
    is_wanted: bool,
}

impl<F: FnMut(Window) -> bool> Windows<F> {
    fn new(decoder: Decoder, width_ns: i64, size: Size, live: Option<Arc<Live>>, hand: F) -> Windows<F> {
        // Due at once, with the first packet.
        Windows {
            decoder,
            live,
            taken: 0,
            width_ns: width_ns.max(1),
            begin_ns: 0,
            end_ns: 0,
            due_ns: i64::MIN,
            size,
            is_first: true,
            early: 0,
            hand,
            is_wanted: true,
        }
    }

    /// No more packets: all that is left is the last window.
    fn end(mut self) -> Decoder {
        self.decoder.finish();
        let contents = self.decoder.contents();
        let end_ns = self.end_ns.max(contents.span_ns.map_or(i64::MIN, |span| span.1));
        (self.hand)(Window { begin_ns: self.begin_ns, end_ns, contents, behind: Behind::Nothing });
        self.decoder
    }

    /// The packet of this time is the first one of another decoder.
    #[cold]
    fn renew(&mut self, t_ns: i64) {
        if let Some(live) = &self.live {
            live.renew_ns.store(i64::MAX, Ordering::Relaxed);
            live.is_worn.store(false, Ordering::Relaxed);
        }
        if t_ns >= self.end_ns {
            let (begin_ns, end_ns) = (self.begin_ns, self.end_ns);
            let contents = self.decoder.cut(end_ns, t_ns);
            self.is_wanted &= (self.hand)(Window { begin_ns, end_ns, contents, behind: Behind::More });
            self.begin(end_ns);
        }
        let new = Decoder::new(self.decoder.ranks.clone());
        let mut old = std::mem::replace(&mut self.decoder, new);
        old.finish();
        let contents = old.contents();
        self.is_wanted &=
            (self.hand)(Window { begin_ns: self.begin_ns, end_ns: t_ns, contents, behind: Behind::Another });
        self.begin(t_ns);
        self.begin_ns = t_ns;
        self.early = 0;
    }

    fn look(&mut self, packet: &Packet<'_>) {
        let Some(live) = &self.live else { return };
        live.packet(packet);
        let is_due = packet.t_ns >= live.renew_ns.load(Ordering::Relaxed);
        if is_due && self.decoder.packets > 0 {
            self.renew(packet.t_ns);
        }
    }

    /// The window that holds `t_ns` is the next one. Windows begin at multiples of their width.
    fn begin(&mut self, t_ns: i64) {
        self.begin_ns = t_ns - t_ns.rem_euclid(self.width_ns);
        self.end_ns = self.begin_ns.saturating_add(self.width_ns);
        self.due_ns = self.end_ns.saturating_add(LATE_NS);
    }

    /// Before the first packet; or one comes that is late enough, or from before the window, as a clock was set back.
    #[cold]
    fn turn(&mut self, t_ns: i64) {
        if self.decoder.packets == 0 {
            return self.begin(t_ns);
        }
        self.early = 0;
        let least_ops = if self.is_first { self.size.first_ops } else { self.size.least_ops };
        if t_ns >= self.due_ns && self.decoder.pairing.ops.xid.len() < least_ops {
            // It goes on for as many widths as it takes for this packet to be none that closes it.
            let more = (t_ns - self.due_ns) / self.width_ns + 1;
            self.end_ns = self.end_ns.saturating_add(more.saturating_mul(self.width_ns));
            self.due_ns = self.end_ns.saturating_add(LATE_NS);
            return;
        }
        self.is_first = false;
        let (begin_ns, mut end_ns) = (self.begin_ns, self.end_ns);
        if t_ns < begin_ns {
            self.begin(t_ns);
        } else if t_ns.saturating_sub(end_ns) < self.width_ns.saturating_add(LATE_NS) {
            self.begin(end_ns);
        } else {
            self.begin(t_ns - LATE_NS); // windows without packets, of which there may be many
            end_ns = self.begin_ns;
        }
        let contents = self.decoder.cut(end_ns, t_ns);
        self.is_wanted &= (self.hand)(Window { begin_ns, end_ns, contents, behind: Behind::More });
        if let Some(live) = &self.live {
            let decoder = &self.decoder;
            let is_worn = decoder.packets >= WORN_PACKETS
                || decoder.flows.list.len() >= WORN_FLOWS
                || decoder.finished.len() >= WORN_ENDED;
            live.is_worn.store(is_worn, Ordering::Relaxed);
        }
    }
}

impl<F: FnMut(Window) -> bool> Take for Windows<F> {
    #[inline]
    fn packet(&mut self, packet: &Packet<'_>) {
        self.taken += 1;
        if self.live.is_some() {
            self.look(packet);
            if self.taken == MOST_TAKEN {
                self.taken = MOST_TAKEN / 2;
            }
        }
        if packet.t_ns < self.begin_ns - LATE_NS {
            self.early += 1;
        } else {
            self.early = 0;
        }
        if packet.t_ns >= self.due_ns || self.early >= SET_BACK {
            self.turn(packet.t_ns);
        }
        self.decoder.packet(packet);
    }

    fn packets(&self) -> u32 {
        self.taken
    }

    fn is_live(&self) -> bool {
        self.live.is_some()
    }

    fn full(&self) -> Option<Error> {
        if self.is_wanted { self.decoder.full() } else { Some(Error::Stopped) }
    }
}

/// Read captures one after the other, as one, and hand on what has ended in each `width_ns` of their clock. The last
/// window has what was open at the end, and the segments that `decoder` was told to keep. `live`: who looks on.
pub fn decode_windows<I>(
    inputs: I,
    decoder: Decoder,
    width_ns: i64,
    size: Size,
    live: Option<Arc<Live>>,
    progress: &Progress,
    hand: impl FnMut(Window) -> bool,
) -> Result<Vec<File>, Error>
where
    I: IntoIterator<Item = std::io::Result<Box<dyn Read + Send>>>,
{
    let mut windows = Windows::new(decoder, width_ns, size, live, hand);
    let files = read_all(inputs, &mut windows, progress)?;
    windows.end();
    Ok(files)
}

#[cfg(test)]
mod tests;
