//! Packets in, the newest of them out, as pcapng: what went by around a moment that matters. It is bounded in bytes.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;

use crate::container::Packet;

/// Packets are forgotten so many bytes at a time.
const BLOCK: usize = if cfg!(test) { 1 << 10 } else { 1 << 20 };
/// Of a packet, in front of its bytes: time, captured and wire length, link type, interface.
const HEAD: usize = 8 + 4 + 4 + 2 + 4;

#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    last_ns: i64,
}

/// The newest packets of a capture.
pub struct Ring {
    most: usize,
    full: VecDeque<Arc<Block>>,
    newest: Block,
    /// Of all blocks: memory of the oldest one is that of the next.
    held: usize,
}

/// What it held once.
pub struct Held(Vec<Arc<Block>>);

/// What was written: packets, and the times of the first and the last of them, as they were captured.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Written {
    pub packets: u64,
    pub first_ns: i64,
    pub last_ns: i64,
}

impl Ring {
    /// Of so many bytes at most; two blocks at least.
    pub fn new(most: usize) -> Ring {
        Ring { most: most.max(2 * BLOCK), full: VecDeque::new(), newest: Block::default(), held: 0 }
    }

    #[inline]
    pub fn packet(&mut self, packet: &Packet<'_>) {
        let needs = HEAD + packet.captured.len();
        if self.newest.bytes.len() + needs > self.newest.bytes.capacity() {
            self.turn(needs);
        }
        self.newest.last_ns = self.newest.last_ns.max(packet.t_ns);
        let bytes = &mut self.newest.bytes;
        bytes.extend_from_slice(&packet.t_ns.to_le_bytes());
        bytes.extend_from_slice(&(packet.captured.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&packet.wire_len.to_le_bytes());
        bytes.extend_from_slice(&packet.link.to_le_bytes());
        bytes.extend_from_slice(&packet.interface.to_le_bytes());
        bytes.extend_from_slice(packet.captured);
    }

    /// The next block, for which the oldest ones go.
    #[cold]
    fn turn(&mut self, needs: usize) {
        self.close();
        let size = needs.max(BLOCK);
        let mut spare = Vec::new();
        while self.held + size > self.most {
            let Some(oldest) = self.full.pop_front() else { break };
            self.held -= oldest.bytes.capacity();
            spare = Arc::into_inner(oldest).map_or_else(Vec::new, |block| block.bytes);
        }
        spare.clear();
        spare.reserve_exact(size);
        self.held += spare.capacity();
        self.newest = Block { bytes: spare, last_ns: i64::MIN };
    }

    fn close(&mut self) {
        let newest = std::mem::take(&mut self.newest);
        if newest.bytes.capacity() > 0 {
            self.full.push_back(Arc::new(newest));
        }
    }

    /// What it holds now: to be written while more packets come.
    pub fn held(&mut self) -> Held {
        self.close();
        Held(self.full.iter().map(Arc::clone).collect())
    }
}

impl Held {
    /// All from `begin_ns` up to `end_ns` as pcapng, of interfaces with this name; `later_ns` is added to their times.
    pub fn write(
        &self,
        out: &mut impl Write,
        begin_ns: i64,
        end_ns: i64,
        later_ns: i64,
        name: &str,
    ) -> io::Result<Written> {
        let mut interfaces: Vec<(u16, u32)> = Vec::new();
        let mut written = Written { packets: 0, first_ns: i64::MAX, last_ns: i64::MIN };
        words(out, &[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28])?;
        for block in self.0.iter().filter(|block| block.last_ns >= begin_ns) {
            let mut rest = block.bytes.as_slice();
            while let Some((packet, behind)) = next(rest) {
                rest = behind;
                if packet.t_ns < begin_ns || packet.t_ns > end_ns {
                    continue;
                }
                let key = (packet.link, packet.interface);
                let number = match interfaces.iter().position(|known| *known == key) {
                    Some(number) => number,
                    None => {
                        interface(out, packet.link, name)?;
                        interfaces.push(key);
                        interfaces.len() - 1
                    }
                };
                let t_ns = packet.t_ns.saturating_add(later_ns).max(0) as u64;
                let captured = packet.captured.len();
                let padding = captured.next_multiple_of(4) - captured;
                let length = (32 + captured + padding) as u32;
                let head =
                    [6, length, number as u32, (t_ns >> 32) as u32, t_ns as u32, captured as u32, packet.wire_len];
                words(out, &head)?;
                out.write_all(packet.captured)?;
                out.write_all(&[0; 3][..padding])?;
                words(out, &[length])?;
                written.packets += 1;
                written.first_ns = written.first_ns.min(packet.t_ns);
                written.last_ns = written.last_ns.max(packet.t_ns);
            }
        }
        Ok(if written.packets == 0 { Written::default() } else { written })
    }
}

/// The first of packets, and those behind it.
fn next(bytes: &[u8]) -> Option<(Packet<'_>, &[u8])> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let word = |at: usize| head[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
    let (captured, rest) = rest.split_at_checked(word(8) as usize)?;
    let t_ns = head[..8].try_into().map_or(0, i64::from_le_bytes);
    let link = head[16..18].try_into().map_or(0, u16::from_le_bytes);
    Some((Packet { t_ns, link, captured, wire_len: word(12), interface: word(18), id: 0 }, rest))
}

fn words(out: &mut impl Write, words: &[u32]) -> io::Result<()> {
    words.iter().try_for_each(|word| out.write_all(&word.to_le_bytes()))
}

/// An Interface Description Block with `if_name`, and times in ns (`if_tsresol`).
fn interface(out: &mut impl Write, link: u16, name: &str) -> io::Result<()> {
    let padding = name.len().next_multiple_of(4) - name.len();
    let length = (20 + 4 + name.len() + padding + 8 + 4) as u32;
    words(out, &[1, length, u32::from(link), 0, 2 | (name.len() as u32) << 16])?;
    out.write_all(name.as_bytes())?;
    out.write_all(&[0; 3][..padding])?;
    words(out, &[9 | 1 << 16, 9, 0, length])
}

#[cfg(test)]
mod tests;
