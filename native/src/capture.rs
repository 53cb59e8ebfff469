//! Capture files in; what each was out, and their packets, one after the other, handed to whoever takes them.

use std::fmt;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::container::{self, Packet, Reader};

/// Frame numbers are 31 bits wide.
const MOST_PACKETS: u32 = i32::MAX as u32;
const PROGRESS_PACKETS: u32 = 4096;
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
}

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
}

/// Let `taker` have the packets of captures one after the other, as one.
pub fn read_all<I>(inputs: I, taker: &mut impl Take, progress: &Progress) -> Result<Vec<File>, Error>
where
    I: IntoIterator<Item = std::io::Result<Box<dyn Read + Send>>>,
{
    let mut files = Vec::new();
    for (file, input) in inputs.into_iter().enumerate() {
        let failed = |error| Error::Container { file, error };
        let input = input.map_err(|error| failed(container::Error::Io(error)))?;
        let mut reader = Reader::open(input).map_err(failed)?;
        taker.file(file);
        files.push(read(&mut reader, taker, file, progress)?);
    }
    Ok(files)
}

fn read(reader: &mut Reader, taker: &mut impl Take, file: usize, progress: &Progress) -> Result<File, Error> {
    let before = (taker.packets(), progress.bytes.load(Ordering::Relaxed));
    let (mut first_ns, mut last_ns, mut link) = (i64::MAX, i64::MIN, None);
    let mut clocks = Clocks::default();
    loop {
        let packet = match reader.next_held() {
            Some(packet) => packet,
            None => match reader.next() {
                Ok(Some(packet)) => packet,
                Ok(None) => break,
                Err(error) => {
                    if let container::Error::TimeOutOfRange { interface, .. } = error {
                        clocks.is_wrong(interface, Error::Container { file, error })?;
                        continue;
                    }
                    return Err(Error::Container { file, error });
                }
            },
        };
        if !(0..LATEST_NS).contains(&packet.t_ns) {
            let number = taker.packets().wrapping_sub(before.0) + clocks.waiting + 1;
            clocks.is_wrong(packet.interface, Error::Time { file, packet: number })?;
            continue;
        }
        clocks.is_right(packet.interface)?;
        if clocks.waiting > 0 {
            for _ in 0..std::mem::take(&mut clocks.waiting) {
                taker.packet(&Packet { link: NO_LINK, captured: &[], wire_len: 0, id: 0, ..packet });
            }
        }
        if taker.packets() == MOST_PACKETS {
            return Err(Error::TooMany);
        }
        link.get_or_insert(packet.link);
        first_ns = first_ns.min(packet.t_ns);
        last_ns = last_ns.max(packet.t_ns);
        taker.packet(&packet);
        if taker.packets() % PROGRESS_PACKETS == 0 {
            progress.packets.store(u64::from(taker.packets()), Ordering::Relaxed);
            progress.bytes.store(before.1 + reader.bytes_read(), Ordering::Relaxed);
            if progress.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            if let Some(error) = taker.full() {
                return Err(error);
            }
        }
    }
    clocks.end()?;
    for _ in 0..clocks.waiting {
        taker.packet(&Packet { t_ns: last_ns, link: NO_LINK, captured: &[], wire_len: 0, interface: 0, id: 0 });
    }
    progress.packets.store(u64::from(taker.packets()), Ordering::Relaxed);
    progress.bytes.store(before.1 + reader.bytes_read(), Ordering::Relaxed);
    let info = reader.info();
    Ok(File {
        format: info.format,
        snaplen: info.snaplen,
        packets: taker.packets().wrapping_sub(before.0),
        first_ns,
        last_ns,
        damage: info.damage.clone(),
        dropped: info.dropped,
        untimed: info.untimed,
        link,
        misdated: clocks.misdated,
    })
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
