//! Bytes in, packets out: pcap and pcapng of either byte order, snoop and ERF, compressed or not, as far as the file can be read.

use std::fmt;
use std::io::{self, Read};

use crate::source::Source;

mod erf;
mod pcap;
mod pcapng;
mod snoop;
#[cfg(test)]
mod tests;

/// One packet as its container holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Nanoseconds since 1970-01-01 UTC by the clock of the capturing host, rounded down.
    pub t_ns: i64,
    /// `LINKTYPE_` number (draft-ietf-opsawg-pcaplinktype), as the file has it.
    pub link: u16,
    /// The bytes that were kept.
    pub captured: &'a [u8],
    /// Bytes that the packet had on the wire; never below `captured.len()`.
    pub wire_len: u32,
    /// 0 in pcap and snoop; in pcapng the interface's number in its section, in ERF that of the card's port.
    pub interface: u32,
    /// `epb_packetid` of pcapng; 0 where there is none.
    pub id: u64,
}

/// LINKTYPE_LINUX_SLL2 says which interface a packet was seen on.
const SLL2: u16 = 276;

impl Packet<'_> {
    /// A number for the interface that it was seen on; 0 where the capture does not say.
    #[inline]
    pub fn point(&self) -> u32 {
        if self.link != SLL2 {
            return self.interface;
        }
        self.captured.get(4..8).and_then(|word| word.try_into().ok()).map_or(0, u32::from_be_bytes)
    }
}

/// What a file says of itself, as far as it was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// The file type in the words of `capinfos -M`: `pcap`, `nsecpcap`, `modpcap`, `pcapng`, `snoop` or
    /// `erf`.
    pub format: &'static str,
    /// Bytes kept of the longest packet among those that were cut; none where all are whole.
    pub snaplen: Option<u32>,
    /// Packets that the capturing host counted as lost.
    pub dropped: u64,
    /// Why reading stopped before the end of the input.
    pub damage: Option<String>,
    /// Packets without a time of their own: they have that of the packet before.
    pub untimed: u64,
    /// Packets of which more bytes were kept than the file says were on the wire.
    pub over_long: u64,
}

/// Reads the packets of one capture in the file's order.
pub struct Reader {
    source: Source,
    format: Format,
    info: Info,
    packets: u64,
    last_ns: i64,
    over: bool,
}

enum Format {
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Pcapng),
    Snoop(snoop::Snoop),
    Erf,
}

/// A packet whose bytes are still in the source.
struct Record {
    time: Time,
    link: u16,
    /// Where its bytes are: see `Source::taken`.
    start: usize,
    captured: u32,
    wire: u32,
    interface: u32,
    id: u64,
}

/// When a packet was captured, as far as its container says.
enum Time {
    Ns(i64),
    /// Not in 64 bits.
    OutOfRange,
    Unknown,
}

impl From<i128> for Time {
    #[inline]
    fn from(t_ns: i128) -> Time {
        t_ns.try_into().map_or(Time::OutOfRange, Time::Ns)
    }
}

/// Why no further record can be read.
enum Stop {
    /// The input ends where a record would begin.
    End,
    /// It ends before the record does.
    Cut,
    /// The record is not what the format allows, which is ...
    Bad(String),
}

impl Reader {
    /// Reads the file's header, through a decompressor where the first bytes ask for one.
    pub fn open(input: Box<dyn Read + Send>) -> Result<Reader, Error> {
        let mut source = Source::open(input).map_err(Error::Io)?;
        source.ensure(8);
        let mut first = [0; 8];
        let length = source.held().len().min(first.len());
        first[..length].copy_from_slice(&source.held()[..length]);

        let opened = if let Some(variant) = pcap::Variant::of(first) {
            pcap::Pcap::open(variant, &mut source).map(|file| (Format::Pcap(file), variant.name))
        } else if first.starts_with(&pcapng::MAGIC) {
            pcapng::Pcapng::open(&mut source).map(|file| (Format::Pcapng(file), "pcapng"))
        } else if let Some(file) = (first == snoop::MAGIC).then(|| snoop::Snoop::open(&mut source)).flatten() {
            Ok((Format::Snoop(file), "snoop"))
        } else if erf::looks_like_it(&mut source) {
            Ok((Format::Erf, "erf"))
        } else {
            return Err(match source.failure() {
                Some(error) => Error::Io(error),
                None if length == 0 => Error::Empty,
                None => Error::NotACapture(first),
            });
        };
        let (format, name) = opened.map_err(|stop| match (source.failure(), stop) {
            (Some(error), _) => Error::Io(error),
            (None, Stop::Bad(reason)) => Error::Header(reason),
            (None, Stop::Cut | Stop::End) => Error::Header("the file ends in it".to_owned()),
        })?;
        let info = Info { format: name, ..Info::default() };
        Ok(Reader { source, format, info, packets: 0, last_ns: 0, over: false })
    }

    /// The next packet; none at the end of the input, and where the file is damaged: `info` then says how.
    ///
    /// After `TimeOutOfRange` it goes on with the packet behind that one.
    #[inline]
    #[allow(clippy::should_implement_trait, reason = "an Iterator cannot lend")]
    pub fn next(&mut self) -> Result<Option<Packet<'_>>, Error> {
        if self.over {
            return Ok(None);
        }
        let read = match &mut self.format {
            Format::Pcap(file) => file.next(&mut self.source),
            Format::Pcapng(file) => file.next(&mut self.source, &mut self.info),
            Format::Snoop(file) => file.next(&mut self.source, &mut self.info),
            Format::Erf => erf::next(&mut self.source, &mut self.info),
        };
        let record = match read {
            Ok(record) => record,
            Err(stop) => {
                self.stop(stop);
                return Ok(None);
            }
        };
        self.packets += 1;
        if record.captured != record.wire {
            self.note_lengths(&record);
        }
        match record.time {
            Time::Ns(t_ns) => self.last_ns = t_ns,
            Time::OutOfRange => {
                return Err(Error::TimeOutOfRange { packet: self.packets, interface: record.interface });
            }
            Time::Unknown => self.info.untimed += 1,
        }
        Ok(Some(Packet {
            t_ns: self.last_ns,
            link: record.link,
            captured: self.source.taken(record.start, record.captured as usize),
            wire_len: record.wire.max(record.captured),
            interface: record.interface,
            id: record.id,
        }))
    }

    /// The same, where it takes nothing but to look at what is held already; None where it takes more.
    #[inline(always)]
    pub fn next_held(&mut self) -> Option<Packet<'_>> {
        let Format::Pcap(file) = &self.format else { return None };
        let (t_ns, captured, wire_len, header) = file.held(self.source.held())?;
        let start = self.source.take(header + captured as usize) + header;
        self.packets += 1;
        self.last_ns = t_ns;
        if captured != wire_len {
            self.info.snaplen = self.info.snaplen.max(Some(captured));
        }
        let captured = self.source.taken(start, captured as usize);
        Some(Packet { t_ns, link: file.link, captured, wire_len, interface: 0, id: 0 })
    }

    /// What the file says of itself, as far as it was read.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Bytes of the input, still compressed, that were read so far.
    pub fn bytes_read(&self) -> u64 {
        self.source.input_bytes()
    }

    #[inline]
    fn note_lengths(&mut self, record: &Record) {
        if record.captured > record.wire {
            self.info.over_long += 1;
        } else {
            self.info.snaplen = self.info.snaplen.max(Some(record.captured));
        }
    }

    #[cold]
    fn stop(&mut self, stop: Stop) {
        self.over = true;
        let place = match self.packets {
            0 => "before the first packet".to_owned(),
            packets => format!("after packet {packets}"),
        };
        self.info.damage = match (self.source.failure(), stop) {
            (Some(error), _) => Some(format!("{place} the file cannot be read: {error}")),
            (None, Stop::End) => None,
            (None, Stop::Cut) => Some(format!("{place} the file ends in the middle of a record")),
            (None, Stop::Bad(_)) if self.source.held().starts_with(&[0; LEAST_ZEROS]) => {
                Some(format!("{place} {ZEROS}"))
            }
            (None, Stop::Bad(reason)) => Some(format!("{place} {reason}")),
        };
    }
}

/// The byte order of a file or section.
#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

impl Order {
    #[inline(always)]
    fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let bytes = [bytes[at], bytes[at + 1]];
        match self {
            Order::Little => u16::from_le_bytes(bytes),
            Order::Big => u16::from_be_bytes(bytes),
        }
    }

    #[inline(always)]
    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }
}

/// The most bytes that a packet can have: Wireshark's `wtap_max_snaplen_for_encap()`, which libpcap's limits agree with.
fn longest_packet(link: u16) -> u32 {
    const USB_PCAP: u16 = 249;
    const DBUS: u16 = 231;
    const EBHSCR: u16 = 279;
    match link {
        DBUS | USB_PCAP => 128 << 20,
        EBHSCR => 32 << 20,
        _ => 256 << 10,
    }
}

/// Where a file was not written to its end, zeros may stand for the rest, and zeros are no record.
const ZEROS: &str =
    "comes a record of zeros: the file was not written to its end, as when a host crashes or its disk is full";
const LEAST_ZEROS: usize = 16;

fn check_length(captured: u32, longest: u32) -> Result<(), Stop> {
    if captured <= longest {
        return Ok(());
    }
    Err(Stop::Bad(format!("comes one of {captured} bytes, and {longest} are the most that one can have")))
}

/// Why nothing of a capture can be read, or not the time of one packet.
#[derive(Debug)]
pub enum Error {
    /// The input has no bytes, or none are left when it is decompressed.
    Empty,
    /// Of no format that is read here: the first bytes, after decompression, and zeros where there are fewer.
    NotACapture([u8; 8]),
    /// The file's header says that it cannot be read.
    Header(String),
    /// The input, or its decompressor, fails before the end of the header.
    Io(io::Error),
    /// The time is before 1677 or after 2262.
    TimeOutOfRange {
        /// Its place in the file; the first is 1.
        packet: u64,
        /// The interface's number in its section.
        interface: u32,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Empty => write!(f, "the file is empty"),
            Error::NotACapture(first) => {
                write!(f, "neither a pcap, pcapng, snoop nor ERF file: it begins with the bytes")?;
                first.iter().try_for_each(|byte| write!(f, " {byte:02x}"))
            }
            Error::Header(reason) => write!(f, "the file's header cannot be read: {reason}"),
            Error::Io(error) => write!(f, "the file cannot be read: {error}"),
            Error::TimeOutOfRange { packet, interface } => {
                write!(f, "packet {packet}, of interface {interface}, has a time outside of the years 1678 to 2261")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(error) => Some(error),
            _ => None,
        }
    }
}
