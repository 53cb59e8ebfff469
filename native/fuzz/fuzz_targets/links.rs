//! Any bytes as one frame of each link that is known: what is found in it was captured. The first byte says how much of it was cut off.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nfslat_native::link::{Frame, dissect};

const LINKS: [u16; 24] =
    [0, 1, 6, 9, 10, 12, 50, 51, 101, 104, 105, 113, 119, 127, 163, 192, 197, 204, 205, 226, 229, 239, 242, 276];

fuzz_target!(|data: &[u8]| {
    let Some((more, frame)) = data.split_first() else { return };
    for link in LINKS {
        let (seen, len) = match dissect(link, frame, frame.len() as u32 + u32::from(*more)) {
            Frame::Tcp(_, segment) => (segment.bytes.len(), segment.len),
            Frame::Udp(_, datagram) => (datagram.bytes.len(), datagram.len),
            Frame::Fragment(part) => (part.bytes.len(), part.len),
            Frame::Other => (0, 0),
        };
        assert!(seen <= len as usize && seen <= frame.len());
    }
});
