//! Capture files in, one `Decoder` that has read them all out, with what each file was.

use std::fmt;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::compound::Ranks;
use crate::container::{self, Reader};
use crate::decoder::Decoder;

/// Frame numbers are 31 bits wide.
const MOST_PACKETS: u32 = i32::MAX as u32;
const PROGRESS_PACKETS: u32 = 4096;

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
}

/// Why nothing came of it; `file` counts from 0.
#[derive(Debug)]
pub enum Error {
    Container {
        file: usize,
        error: container::Error,
    },
    /// A packet is dated before 1970 (or after 2262, which is the same in 64 bits).
    Time {
        file: usize,
        packet: u32,
    },
    TooMany,
    Stopped,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Container { error, .. } => error.fmt(out),
            Error::Time { packet, .. } => {
                write!(out, "packet {packet} is dated before 1970; correct the times with editcap -t")
            }
            Error::TooMany => write!(out, "more than {MOST_PACKETS} packets or ops; cut the capture with editcap -c"),
            Error::Stopped => write!(out, "stopped"),
        }
    }
}

impl std::error::Error for Error {}

/// Read captures one after the other, as one.
pub fn decode<I>(inputs: I, ranks: Ranks, progress: &Progress) -> Result<(Decoder, Vec<File>), Error>
where
    I: IntoIterator<Item = std::io::Result<Box<dyn Read + Send>>>,
{
    let mut decoder = Decoder::new(ranks);
    let mut files = Vec::new();
    for (file, input) in inputs.into_iter().enumerate() {
        let failed = |error| Error::Container { file, error };
        let input = input.map_err(|error| failed(container::Error::Io(error)))?;
        let mut reader = Reader::open(input).map_err(failed)?;
        files.push(read(&mut reader, &mut decoder, file, progress)?);
    }
    decoder.finish();
    Ok((decoder, files))
}

fn read(reader: &mut Reader, decoder: &mut Decoder, file: usize, progress: &Progress) -> Result<File, Error> {
    let before = (decoder.packets, progress.bytes.load(Ordering::Relaxed));
    let (mut first_ns, mut last_ns) = (i64::MAX, i64::MIN);
    while let Some(packet) = reader.next().map_err(|error| Error::Container { file, error })? {
        if packet.t_ns < 0 {
            return Err(Error::Time { file, packet: decoder.packets - before.0 + 1 });
        }
        if decoder.packets == MOST_PACKETS {
            return Err(Error::TooMany);
        }
        first_ns = first_ns.min(packet.t_ns);
        last_ns = last_ns.max(packet.t_ns);
        decoder.packet(&packet);
        if decoder.packets.is_multiple_of(PROGRESS_PACKETS) {
            progress.packets.store(u64::from(decoder.packets), Ordering::Relaxed);
            progress.bytes.store(before.1 + reader.bytes_read(), Ordering::Relaxed);
            if progress.stop.load(Ordering::Relaxed) {
                return Err(Error::Stopped);
            }
            if decoder.pairing.is_full() {
                return Err(Error::TooMany);
            }
        }
    }
    progress.packets.store(u64::from(decoder.packets), Ordering::Relaxed);
    progress.bytes.store(before.1 + reader.bytes_read(), Ordering::Relaxed);
    let info = reader.info();
    Ok(File {
        format: info.format,
        snaplen: info.snaplen,
        packets: decoder.packets - before.0,
        first_ns,
        last_ns,
        damage: info.damage.clone(),
        dropped: info.dropped,
        untimed: info.untimed,
    })
}
