//! TCP packets in, whether this very packet was captured just before out; a table of fixed size.
//!
//! A capture of several interfaces (`tcpdump -i any`), or of a mirrored port, shows packets twice; so does a network that
//! doubles them. What TCP sends again is another packet.

use crate::link::Segment;

/// Packets remembered: so many of each direction, as long as few are busy at a time.
const OF_EACH: usize = 64;
const SLOTS: usize = 8192;
/// Between two copies. Identifications of IPv4 come again after 65,536 packets of their sender.
const NEAR_NS: u64 = 1_000_000_000;

/// What tells a packet from its neighbours, and a copy of it not.
#[derive(Clone, Copy, Default)]
struct Print {
    t_ns: i64,
    /// Conversation and direction, from 1 on.
    way: u32,
    seq: u32,
    ack: u32,
    len: u32,
    options: u32,
    point: u32,
    ip_id: u16,
    window: u16,
    flags: u8,
}

impl Print {
    fn is_same(&self, other: &Print) -> bool {
        (self.seq, self.ack, self.len, self.options) == (other.seq, other.ack, other.len, other.options)
            && (self.ip_id, self.window, self.flags) == (other.ip_id, other.window, other.flags)
    }
}

pub struct Copies(Box<[Print]>);

impl Default for Copies {
    fn default() -> Copies {
        Copies(vec![Print::default(); SLOTS].into())
    }
}

impl Copies {
    /// Is a segment the one that came just before? `way` numbers the directions of all conversations, `point` the
    /// interfaces. `repeats_ids` becomes true once the direction is seen to give several packets one identification.
    ///
    /// Where the identification tells nothing (IPv6, or always the same) only what another interface shows is a copy.
    #[inline]
    pub fn is_copy(
        &mut self,
        way: usize,
        point: u32,
        segment: &Segment<'_>,
        t_ns: i64,
        repeats_ids: &mut bool,
    ) -> bool {
        let print = Print {
            t_ns,
            way: way as u32 + 1,
            seq: segment.seq,
            ack: segment.ack,
            len: segment.len,
            options: segment.options.iter().fold(0_u32, |sum, byte| sum.rotate_left(5) ^ u32::from(*byte)),
            point,
            ip_id: segment.ip_id,
            window: segment.window,
            flags: segment.flags,
        };
        let tells = segment.ip_id != 0 && !*repeats_ids;
        let within = if tells { usize::from(segment.ip_id) } else { (segment.seq ^ segment.ack >> 3) as usize };
        let slot = &mut self.0[(way * OF_EACH + within % OF_EACH) % SLOTS];
        let is_near = slot.way == print.way && t_ns.abs_diff(slot.t_ns) < NEAR_NS;
        if is_near && slot.is_same(&print) && (tells || slot.point != point) {
            return true;
        }
        *repeats_ids |= is_near && tells && slot.ip_id == print.ip_id && !slot.is_same(&print);
        *slot = print;
        false
    }
}

#[cfg(test)]
mod tests;
