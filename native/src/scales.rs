//! The SYNs of a TCP connection in, by how many bits its windows are shifted out (RFC 7323 section 2.2).

use crate::link::Segment;
use crate::traffic::each_option;

/// What a SYN says of window scaling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shift {
    /// No SYN was captured, or not enough of it.
    #[default]
    Unseen,
    Without,
    By(u8),
}

/// Both directions of one connection.
#[derive(Default)]
pub struct Scales {
    /// By the direction of the SYN.
    shifts: [Shift; 2],
}

impl Scales {
    /// A SYN of a connection that is not known yet, or the same once more.
    pub fn syn(&mut self, direction: usize, segment: &Segment<'_>) {
        let is_cut = segment.options.len() + 20 < usize::from(segment.header);
        self.shifts[direction] = match each_option(segment.options).find(|(kind, value)| *kind == 3 && value.len() == 1)
        {
            Some((_, shift)) => Shift::By(shift[0].min(14)),
            None if is_cut => Shift::Unseen,
            None => Shift::Without,
        };
    }

    /// By how many bits windows in packets of a direction are shifted; None: not known.
    pub fn of(&self, direction: usize) -> Option<u8> {
        match (self.shifts[direction], self.shifts[1 - direction]) {
            (Shift::Without, _) | (_, Shift::Without) => Some(0),
            (Shift::By(shift), Shift::By(_)) => Some(shift),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
