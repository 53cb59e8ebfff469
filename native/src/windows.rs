//! Packets of a capture of any length in, what has ended out, window by window of its clock: memory is that of a window,
//! and of what is open.

use std::io::Read;

use crate::capture::{Error, File, Progress, Take, read_all};
use crate::compound::Ranks;
use crate::container::Packet;
use crate::decoder::{Contents, Decoder};

/// A window is closed when packets are later than its end by so much: by then RPC has sent again, over UDP or on another
/// interface, what it sends again soon, and queues have handed on what they held.
const LATE_NS: i64 = 2_000_000_000;

/// So many packets in a row from before a window, and its clock was set back; fewer are of another interface's clock.
const SET_BACK: u32 = 64;

/// What ended from `begin_ns` on, and before `end_ns`.
pub struct Window {
    pub begin_ns: i64,
    pub end_ns: i64,
    pub contents: Contents,
}

struct Windows<F> {
    decoder: Decoder,
    width_ns: i64,
    begin_ns: i64,
    end_ns: i64,
    /// A packet of this time closes the window.
    due_ns: i64,
    /// Packets in a row from before the window.
    early: u32,
    /// Takes the windows; false: no more are wanted.
    hand: F,
    is_wanted: bool,
}

impl<F: FnMut(Window) -> bool> Windows<F> {
    fn new(ranks: Ranks, width_ns: i64, hand: F) -> Windows<F> {
        let decoder = Decoder::new(ranks);
        // Due at once, with the first packet.
        Windows {
            decoder,
            width_ns: width_ns.max(1),
            begin_ns: 0,
            end_ns: 0,
            due_ns: i64::MIN,
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
        (self.hand)(Window { begin_ns: self.begin_ns, end_ns, contents });
        self.decoder
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
        let (begin_ns, mut end_ns) = (self.begin_ns, self.end_ns);
        if t_ns < begin_ns {
            self.begin(t_ns);
        } else if t_ns.saturating_sub(end_ns) < self.width_ns.saturating_add(LATE_NS) {
            self.begin(end_ns);
        } else {
            self.begin(t_ns - LATE_NS); // windows without packets, of which there may be many
            end_ns = self.begin_ns;
        }
        let contents = self.decoder.cut(end_ns);
        self.is_wanted &= (self.hand)(Window { begin_ns, end_ns, contents });
    }
}

impl<F: FnMut(Window) -> bool> Take for Windows<F> {
    #[inline]
    fn packet(&mut self, packet: &Packet<'_>) {
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
        self.decoder.packets
    }

    fn full(&self) -> Option<Error> {
        if self.is_wanted { self.decoder.full() } else { Some(Error::Stopped) }
    }
}

/// Read captures one after the other, as one, and hand on what has ended in each `width_ns` of their clock. The last
/// window has what was open at the end, too.
pub fn decode_windows<I>(
    inputs: I,
    ranks: Ranks,
    width_ns: i64,
    progress: &Progress,
    hand: impl FnMut(Window) -> bool,
) -> Result<Vec<File>, Error>
where
    I: IntoIterator<Item = std::io::Result<Box<dyn Read + Send>>>,
{
    let mut windows = Windows::new(ranks, width_ns, hand);
    let files = read_all(inputs, &mut windows, progress)?;
    windows.end();
    Ok(files)
}

#[cfg(test)]
mod tests;
