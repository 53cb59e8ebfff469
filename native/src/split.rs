//! Packets of one capture in, slices of it by pairs of IP addresses out, each a capture that can be decoded by itself.
//!
//! A slice is pcapng with times in ns; a packet has its number in what was split as its `epb_packetid`. So decoders in
//! other processes, on other hosts, find all that they need in it.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufWriter, Read, Write};
use std::path::PathBuf;

use hashbrown::HashMap;

use crate::capture::{Error, File, Progress, Take, read_all};
use crate::container::Packet;
use crate::feed::Hosts;
use crate::fragments::Key;
use crate::link::{self, Addr, Fragment, Frame};

const BUFFER: usize = 256 << 10;
const SECOND_NS: i64 = 1_000_000_000;
/// Packets in fragments whose addresses are not those of what is in them: so many are remembered.
const TUNNELLED: usize = 1024;

/// Which slice holds the packets of two addresses. The same everywhere: slices of several splits belong together.
#[inline]
pub fn slice_of((low, high): Hosts, slices: usize) -> usize {
    let fold = |addr: Addr| (addr as u64 ^ (addr >> 64) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (fold(low) ^ fold(high).rotate_left(29)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    ((u128::from(mixed) * slices as u128) >> 64) as usize
}

/// Packets of the whole seconds since a given time, and steps back in time.
pub struct Pace {
    since_ns: i64,
    /// Of the seconds before the present one.
    seconds: BTreeMap<i64, u64>,
    present: (i64, u64),
    pub backward_times: u64,
    pub largest_backward_ns: i64,
    /// Of the first packet and of the last one, as they are in the capture; None without one.
    pub ends_ns: Option<(i64, i64)>,
}

impl Pace {
    fn new(since_ns: i64) -> Pace {
        let (seconds, present) = (BTreeMap::new(), (0, 0));
        Pace { since_ns, seconds, present, backward_times: 0, largest_backward_ns: 0, ends_ns: None }
    }

    #[inline]
    fn packet(&mut self, t_ns: i64) {
        let (first_ns, previous_ns) = self.ends_ns.unwrap_or((t_ns, t_ns));
        if t_ns < previous_ns {
            self.backward_times += 1;
            self.largest_backward_ns = self.largest_backward_ns.max(previous_ns - t_ns);
        }
        self.ends_ns = Some((first_ns, t_ns));
        let second = (t_ns - self.since_ns).div_euclid(SECOND_NS);
        if second != self.present.0 {
            self.turn(second);
        }
        self.present.1 += 1;
    }

    #[cold]
    fn turn(&mut self, second: i64) {
        let (before, packets) = std::mem::replace(&mut self.present, (second, 0));
        if packets > 0 {
            *self.seconds.entry(before).or_default() += packets;
        }
    }

    /// Seconds with packets, and how many.
    pub fn seconds(&mut self) -> (Vec<i64>, Vec<i64>) {
        self.turn(self.present.0);
        self.seconds.iter().map(|(second, packets)| (*second, *packets as i64)).unzip()
    }
}

/// One slice.
pub struct Slice {
    out: BufWriter<fs::File>,
    /// Link types and interfaces of what was split, by their interface numbers here.
    interfaces: Vec<(u16, u32)>,
}

impl Slice {
    pub fn create(path: &PathBuf) -> io::Result<Slice> {
        let mut out = BufWriter::with_capacity(BUFFER, fs::File::create(path)?);
        // Section Header Block: its length is not known.
        for word in [0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28_u32] {
            out.write_all(&word.to_le_bytes())?;
        }
        Ok(Slice { out, interfaces: Vec::new() })
    }

    #[inline]
    pub fn packet(&mut self, packet: &Packet<'_>, number: u32) -> io::Result<()> {
        let known = self.interfaces.iter().position(|known| *known == (packet.link, packet.interface));
        let interface = match known {
            Some(interface) => interface as u32,
            None => self.interface(packet.link, packet.interface)?,
        };
        let captured = packet.captured.len();
        let padding = captured.next_multiple_of(4) - captured;
        let length = (12 + 20 + captured + padding + 12 + 4) as u32;
        let t_ns = packet.t_ns as u64;
        let head = [6, length, interface, (t_ns >> 32) as u32, t_ns as u32, captured as u32, packet.wire_len];
        let mut fixed = [0; 28];
        fixed.chunks_exact_mut(4).zip(head).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
        // Padding, epb_packetid, the end of the options, and the length once more.
        let tail = [5 | 8 << 16, number, 0, 0, length];
        let mut behind = [0; 3 + 20];
        behind[3..].chunks_exact_mut(4).zip(tail).for_each(|(bytes, word)| bytes.copy_from_slice(&word.to_le_bytes()));
        self.out.write_all(&fixed)?;
        self.out.write_all(packet.captured)?;
        self.out.write_all(&behind[3 - padding..])
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// An Interface Description Block with `if_tsresol` 9.
    #[cold]
    fn interface(&mut self, link: u16, interface: u32) -> io::Result<u32> {
        self.interfaces.push((link, interface));
        for word in [1, 32, u32::from(link), 0, 9 | 1 << 16, 9, 0, 32_u32] {
            self.out.write_all(&word.to_le_bytes())?;
        }
        Ok(self.interfaces.len() as u32 - 1)
    }
}

/// Takes the packets of one capture.
pub struct Split {
    slices: Vec<Slice>,
    /// Addresses of what is in a tunnel, by the fragments of the tunnel.
    tunnelled: HashMap<Key, Hosts>,
    pub pace: Pace,
    pub packets: u32,
    failed: Option<(usize, io::Error)>,
}

impl Split {
    /// Slices at `outs`; seconds count from `since_ns`.
    pub fn create(outs: &[PathBuf], since_ns: i64) -> Result<Split, Error> {
        let slices = outs.iter().enumerate();
        let slices = slices.map(|(out, path)| Slice::create(path).map_err(|error| Error::Write { out, error }));
        Ok(Split {
            slices: slices.collect::<Result<_, _>>()?,
            tunnelled: HashMap::new(),
            pace: Pace::new(since_ns),
            packets: 0,
            failed: None,
        })
    }

    /// The addresses by which a fragment goes. Of a tunnel, other addresses are in the first one, and the others go where
    /// that went: one that comes in front of it goes astray.
    #[cold]
    fn hosts_of(&mut self, part: &Fragment<'_>) -> Hosts {
        let key = Key::from(part);
        let outer = sorted(part.src, part.dst);
        if part.offset > 0 {
            return self.tunnelled.get(&key).copied().unwrap_or(outer);
        }
        let inner = link::dissect_payload(part.proto, part.src, part.dst, part.bytes, part.len);
        let hosts = match inner {
            Frame::Tcp(ends, _) | Frame::Udp(ends, _) => sorted(ends.src, ends.dst),
            Frame::Fragment(_) | Frame::Other => outer,
        };
        if hosts == outer {
            self.tunnelled.remove(&key);
        } else {
            if self.tunnelled.len() >= TUNNELLED {
                self.tunnelled.clear(); // identifications come again, so that most of them are old
            }
            self.tunnelled.insert(key, hosts);
        }
        hosts
    }

    fn finish(&mut self) -> Result<(), Error> {
        for (out, slice) in self.slices.iter_mut().enumerate() {
            slice.flush().map_err(|error| Error::Write { out, error })?;
        }
        self.full().map_or(Ok(()), Err)
    }
}

fn sorted(one: Addr, other: Addr) -> Hosts {
    if one <= other { (one, other) } else { (other, one) }
}

impl Take for Split {
    #[inline]
    fn packet(&mut self, packet: &Packet<'_>) {
        self.packets += 1;
        self.pace.packet(packet.t_ns);
        let slice = match link::dissect(packet.link, packet.captured, packet.wire_len) {
            Frame::Tcp(ends, _) | Frame::Udp(ends, _) => slice_of(sorted(ends.src, ends.dst), self.slices.len()),
            Frame::Fragment(part) => slice_of(self.hosts_of(&part), self.slices.len()),
            Frame::Other => 0,
        };
        if let Err(error) = self.slices[slice].packet(packet, self.packets) {
            self.failed.get_or_insert((slice, error));
        }
    }

    fn packets(&self) -> u32 {
        self.packets
    }

    fn full(&self) -> Option<Error> {
        let (out, error) = self.failed.as_ref()?;
        let error = match error.raw_os_error() {
            Some(number) => io::Error::from_raw_os_error(number),
            None => io::Error::new(error.kind(), error.to_string()),
        };
        Some(Error::Write { out: *out, error })
    }
}

/// Split captures, one after the other, as one, into slices at `outs`, of which there is one at least.
pub fn split<I>(inputs: I, outs: &[PathBuf], since_ns: i64, progress: &Progress) -> Result<(Split, Vec<File>), Error>
where
    I: IntoIterator<Item = io::Result<Box<dyn Read + Send>>>,
{
    let mut split = Split::create(outs, since_ns)?;
    let files = read_all(inputs, &mut split, progress)?;
    split.finish()?;
    Ok((split, files))
}

/// Writes some of the packets of a capture to each of several files.
struct Shares<'a> {
    outs: Vec<Slice>,
    /// For each packet, in the order in which they are taken: the file that it goes to; any other number: none.
    share_of: &'a [u8],
    packets: u32,
    failed: Option<(usize, io::Error)>,
}

impl Take for Shares<'_> {
    #[inline]
    fn packet(&mut self, packet: &Packet<'_>) {
        self.packets += 1;
        let share = self.share_of.get(self.packets as usize - 1).map_or(usize::MAX, |share| usize::from(*share));
        let Some(out) = self.outs.get_mut(share) else { return };
        if let Err(error) = out.packet(packet, self.packets) {
            self.failed.get_or_insert((share, error));
        }
    }

    fn packets(&self) -> u32 {
        self.packets
    }

    fn full(&self) -> Option<Error> {
        let (out, error) = self.failed.as_ref()?;
        Some(Error::Write { out: *out, error: io::Error::new(error.kind(), error.to_string()) })
    }
}

/// Write each packet of captures, one after the other, as one, to that of `outs` which `share_of` says.
pub fn share_out<I>(inputs: I, outs: &[PathBuf], share_of: &[u8], progress: &Progress) -> Result<(), Error>
where
    I: IntoIterator<Item = io::Result<Box<dyn Read + Send>>>,
{
    let slices = outs.iter().enumerate();
    let slices = slices.map(|(out, path)| Slice::create(path).map_err(|error| Error::Write { out, error }));
    let mut shares = Shares { outs: slices.collect::<Result<_, _>>()?, share_of, packets: 0, failed: None };
    read_all(inputs, &mut shares, progress)?;
    for (out, slice) in shares.outs.iter_mut().enumerate() {
        slice.flush().map_err(|error| Error::Write { out, error })?;
    }
    shares.full().map_or(Ok(()), Err)
}

#[cfg(test)]
mod tests;
