//! Capture files in; what each was out, and their packets, one after the other, handed to whoever takes them.

use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::container::{self, Packet, Reader};
use crate::lane::{Held, Lane, Late, Run};
use crate::take::MOST_PACKETS;
pub use crate::take::{Error, Take};

const PROGRESS_RECORDS: u64 = 4096;
/// The year 2200. No packet is later, and 64 bits hold what sums of such times come to.
const LATEST_NS: i64 = 7_258_118_400_000_000_000;

/// Seen by another thread while a capture is read.
#[derive(Default)]
pub struct Progress {
    /// Read so far: bytes of the files as they are, and packets.
    pub bytes: AtomicU64,
    pub packets: AtomicU64,
    pub stop: AtomicBool,
}

/// What one file was; times are ns since 1970.
pub struct File {
    pub format: &'static str,
    pub snaplen: Option<u32>,
    pub packets: u32,
    pub first_ns: i64,
    pub last_ns: i64,
    pub damage: Option<String>,
    pub dropped: u64,
    pub untimed: u64,
    /// Link type of the first packet.
    pub link: Option<u16>,
    /// Packets that were left out, as their interface's times are wrong and another one's right.
    pub misdated: u64,
    /// Packets that were put in front of later ones.
    pub late: Late,
    /// Where its packets lay, where that is not the order in which they were taken.
    pub runs: Vec<Run>,
}

/// Let `taker` have the packets of captures in the order of their times, as one: one file behind the other, and together
/// where they overlap.
pub fn read_all<I>(inputs: I, taker: &mut impl Take, progress: &Progress) -> Result<Vec<File>, Error>
where
    I: IntoIterator<Item = std::io::Result<Box<dyn Read + Send>>>,
{
    let is_in_order = taker.is_in_order();
    let mut inputs = inputs.into_iter().enumerate();
    let mut lane = Lane::new(taker);
    let mut reads = Reads { progress, records: 0, bytes_before: progress.bytes.load(Ordering::Relaxed) };
    let mut files: Vec<(usize, File)> = Vec::new();
    // Those that are read, and the one behind them: where it begins is known by then.
    let mut open: Vec<Opened> = Vec::new();
    let mut next = Opened::next(&mut inputs)?;
    loop {
        let overlaps = |next: &Opened| !is_in_order && open.iter().any(|one| next.begins_in(one));
        if open.is_empty() || next.as_ref().is_some_and(overlaps) {
            let Some(mut opened) = next.take() else { break };
            next = Opened::next(&mut inputs)?;
            open.iter().for_each(|one| lane.caught_up(one.file, one.packets.wrapping_add(1)));
            lane.begins(opened.file);
            for (first, number) in std::mem::take(&mut opened.first) {
                lane.record(&first.packet(), opened.file as u16, number);
                reads.records += 1;
            }
            open.push(opened);
            continue;
        }
        let floor_ns = open.iter().map(|one| one.last_ns).min().unwrap_or_default();
        lane.merge((open.len() > 1).then_some(floor_ns));
        let at = open.iter().position(|one| one.last_ns == floor_ns).unwrap_or_default();
        let until_ns = match &next {
            _ if open.len() > 1 => i64::MIN,
            Some(next) if !is_in_order && next.packets > 0 => next.last_ns,
            _ => i64::MAX,
        };
        if !open[at].read(&mut lane, &mut reads, until_ns)? {
            let done = open.swap_remove(at);
            lane.caught_up(done.file, done.packets.wrapping_add(1));
            reads.bytes_before += done.reader.bytes_read();
            reads.report(0);
            files.push((done.file, done.end()));
        }
    }
    lane.end();
    files.sort_by_key(|(file, _)| *file);
    let mut files: Vec<File> = files.into_iter().map(|(_, file)| file).collect();
    files.iter_mut().zip(&lane.late).for_each(|(file, late)| file.late = *late);
    lane.moved().iter().for_each(|run| files[usize::from(run.file)].runs.push(*run));
    Ok(files)
}

/// What was read so far, of all files.
struct Reads<'a> {
    progress: &'a Progress,
    records: u64,
    /// Of the files that were read to their ends.
    bytes_before: u64,
}

impl Reads<'_> {
    /// With so many bytes of a file that is being read.
    fn report(&self, bytes: u64) {
        self.progress.packets.store(self.records, Ordering::Relaxed);
        self.progress.bytes.store(self.bytes_before + bytes, Ordering::Relaxed);
    }
}

/// A file that is being read.
struct Opened {
    reader: Reader,
    file: usize,
    /// What was read to know when it begins, with numbers.
    first: Vec<(Held, u32)>,
    packets: u32,
    first_ns: i64,
    last_ns: i64,
    link: Option<u16>,
    clocks: Clocks,
}

impl Opened {
    /// The next one, as far as its first packet; None behind the last.
    fn next(
        inputs: &mut impl Iterator<Item = (usize, std::io::Result<Box<dyn Read + Send>>)>,
    ) -> Result<Option<Opened>, Error> {
        let Some((file, input)) = inputs.next() else { return Ok(None) };
        let failed = |error| Error::Container { file, error };
        let input = input.map_err(|error| failed(container::Error::Io(error)))?;
        let reader = Reader::open(input).map_err(failed)?;
        let (first, clocks) = (Vec::new(), Clocks::default());
        let mut opened =
            Opened { reader, file, first, packets: 0, first_ns: i64::MAX, last_ns: i64::MIN, link: None, clocks };
        let mut first = Vec::new();
        opened.step(|packet, number| first.push((Held::of(packet), number)))?;
        opened.first = first;
        Ok(Some(opened))
    }

    /// Does it begin before what was read of another one ends?
    fn begins_in(&self, other: &Opened) -> bool {
        self.packets > 0 && self.first_ns < other.last_ns
    }

    /// Hand on records until one is later than `until_ns`; false: there are no more.
    #[inline]
    fn read<T: Take>(&mut self, lane: &mut Lane<'_, T>, reads: &mut Reads<'_>, until_ns: i64) -> Result<bool, Error> {
        let file = self.file as u16;
        loop {
            if !self.step(|packet, number| lane.record(packet, file, number))? {
                return Ok(false);
            }
            reads.records += 1;
            if reads.records % PROGRESS_RECORDS == 0 {
                reads.report(self.reader.bytes_read());
                if reads.progress.stop.load(Ordering::Relaxed) {
                    return Err(Error::Stopped);
                }
                if let Some(error) = lane.taker.full() {
                    return Err(error);
                }
                if lane.taker.packets() > MOST_PACKETS {
                    return Err(Error::TooMany);
                }
            }
            if self.last_ns > until_ns {
                return Ok(true);
            }
        }
    }

    /// Hand on the next record, which is dated right, and in front of it those that are not, with its time; false: there
    /// is none.
    #[inline(always)]
    fn step(&mut self, mut hand: impl FnMut(&Packet<'_>, u32)) -> Result<bool, Error> {
        let file = self.file;
        let packet = loop {
            let packet = match self.reader.next_held() {
                Some(packet) => packet,
                None => match self.reader.next() {
                    Ok(Some(packet)) => packet,
                    Ok(None) => break None,
                    Err(error) => {
                        if let container::Error::TimeOutOfRange { interface, .. } = error {
                            self.clocks.is_wrong(interface, Error::Container { file, error })?;
                            continue;
                        }
                        return Err(Error::Container { file, error });
                    }
                },
            };
            if (0..LATEST_NS).contains(&packet.t_ns) {
                break Some(packet);
            }
            let number = self.packets + self.clocks.waiting + 1;
            self.clocks.is_wrong(packet.interface, Error::Time { file, packet: number })?;
        };
        let Some(packet) = packet else {
            self.clocks.end()?;
            let t_ns = self.last_ns;
            left_out(&mut self.clocks.waiting, &mut self.packets, t_ns, &mut hand);
            return Ok(false);
        };
        self.clocks.is_right(packet.interface)?;
        if self.clocks.waiting > 0 {
            left_out(&mut self.clocks.waiting, &mut self.packets, packet.t_ns, &mut hand);
        }
        self.link.get_or_insert(packet.link);
        self.first_ns = self.first_ns.min(packet.t_ns);
        self.last_ns = self.last_ns.max(packet.t_ns);
        self.packets = self.packets.wrapping_add(1);
        hand(&packet, self.packets);
        Ok(true)
    }

    fn end(self) -> File {
        let info = self.reader.info();
        File {
            format: info.format,
            snaplen: info.snaplen,
            packets: self.packets,
            first_ns: self.first_ns,
            last_ns: self.last_ns,
            damage: info.damage.clone(),
            dropped: info.dropped,
            untimed: info.untimed,
            link: self.link,
            misdated: self.clocks.misdated,
            late: Late::default(),
            runs: Vec::new(),
        }
    }
}

/// Hand on as many packets as wait, of which nothing is read, with this time.
#[cold]
#[inline(never)]
fn left_out(waiting: &mut u32, packets: &mut u32, t_ns: i64, hand: &mut dyn FnMut(&Packet<'_>, u32)) {
    for _ in 0..std::mem::take(waiting) {
        *packets += 1;
        hand(&Packet { t_ns, link: NO_LINK, captured: &[], wire_len: 0, interface: 0, id: 0 }, *packets);
    }
}

/// No link type that is known: its packets are counted, and nothing is read of them.
const NO_LINK: u16 = u16::MAX;
/// Interfaces whose times are looked at.
const MOST_CLOCKS: usize = 64;

/// Which interfaces date their packets right, and which do not: a capture is refused for the latter only where there are
/// none of the former, or where an interface does both.
#[derive(Default)]
struct Clocks {
    right: Vec<u32>,
    wrong: Vec<u32>,
    recent: Option<u32>,
    refused: Option<Error>,
    misdated: u64,
    /// Packets that were left out, and not counted by the taker yet: they get the time of the next one.
    waiting: u32,
}

impl Clocks {
    #[inline]
    fn is_right(&mut self, interface: u32) -> Result<(), Error> {
        if self.recent == Some(interface) { Ok(()) } else { self.is_right_now(interface) }
    }

    #[cold]
    fn is_right_now(&mut self, interface: u32) -> Result<(), Error> {
        self.recent = Some(interface);
        if self.wrong.contains(&interface) {
            self.refused.take().map_or(Ok(()), Err)?;
        }
        if !self.right.contains(&interface) && self.right.len() < MOST_CLOCKS {
            self.right.push(interface);
        }
        Ok(())
    }

    #[cold]
    fn is_wrong(&mut self, interface: u32, error: Error) -> Result<(), Error> {
        if !self.wrong.contains(&interface) {
            if self.right.len().max(self.wrong.len()) >= MOST_CLOCKS || self.right.contains(&interface) {
                return Err(error);
            }
            self.wrong.push(interface);
        }
        self.refused.get_or_insert(error);
        self.misdated += 1;
        self.waiting += 1;
        Ok(())
    }

    /// Without any packet that is dated right there is nothing to be read.
    fn end(&mut self) -> Result<(), Error> {
        match self.refused.take() {
            Some(error) if self.right.is_empty() => Err(error),
            _ => Ok(()),
        }
    }
}
