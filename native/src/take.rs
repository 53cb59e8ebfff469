//! What packets are handed to, one after the other, and why that ends.

use std::fmt;

use crate::container::{self, Packet};

/// Frame numbers are 31 bits wide.
pub const MOST_PACKETS: u32 = i32::MAX as u32;

/// Why nothing came of it; `file` counts from 0.
#[derive(Debug)]
pub enum Error {
    Container {
        file: usize,
        error: container::Error,
    },
    /// A packet is dated before 1970 or after 2200 (`LATEST_NS`).
    Time {
        file: usize,
        packet: u32,
    },
    /// What was to be written cannot be; `out` counts from 0.
    Write {
        out: usize,
        error: std::io::Error,
    },
    /// A packet of a slice has no number, or one that does not come behind that of the packet before.
    Number {
        file: usize,
        packet: u32,
    },
    TooMany,
    /// More TCP packets, or connections, than this.
    TooManyRows(usize),
    TooManyConversations(usize),
    Stopped,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Container { error, .. } => error.fmt(out),
            Error::Time { packet, .. } => {
                write!(out, "packet {packet} is dated before 1970 or after 2200; correct the times with editcap -t")
            }
            Error::Write { error, .. } => error.fmt(out),
            Error::Number { packet, .. } => write!(out, "packet {packet} has not the number of one of a slice"),
            Error::TooMany => write!(out, "more than {MOST_PACKETS} packets or ops; cut the capture with editcap -c"),
            Error::TooManyRows(most) => write!(
                out,
                "more than {most} TCP packets; choose some with --port or --stream, or cut the capture with editcap -c"
            ),
            Error::TooManyConversations(most) => write!(
                out,
                "more than {most} TCP connections; choose some with --port, or cut the capture with editcap -c"
            ),
            Error::Stopped => write!(out, "stopped"),
        }
    }
}

impl std::error::Error for Error {}

/// What takes the packets of a capture, one after the other.
pub trait Take {
    fn packet(&mut self, packet: &Packet<'_>);
    /// The file with this number, from 0, comes next.
    fn file(&mut self, _number: usize) {}
    /// How many it has taken.
    fn packets(&self) -> u32;
    /// Why it takes no more.
    fn full(&self) -> Option<Error>;
    /// Are packets in their order already, whatever their times say?
    fn is_in_order(&self) -> bool {
        false
    }
    /// Does somebody wait for each packet?
    fn is_live(&self) -> bool {
        false
    }
}
