//! Solaris snoop records in, packets out (RFC 1761).

use super::{Info, Order, Record, Stop, Time, check_length, longest_packet};
use crate::source::Source;

pub const MAGIC: [u8; 8] = *b"snoop\0\0\0";

/// Bytes of the file's header, and of a record's.
const HEADER: usize = 16;
const RECORD: usize = 24;
/// Padding that RFC 1761 does not ask for, as much as is taken for it.
const MOST_PADDING: u32 = 64 << 10;
/// Surveyor, which numbers links in its own way, has so many bytes of its own behind each packet.
const SURVEYOR: u32 = 16;

/// A snoop file behind its header.
pub struct Snoop {
    link: u16,
    longest: u32,
}

impl Snoop {
    /// Reads the file's header; None where it is of another version or link than is known here.
    pub fn open(source: &mut Source) -> Option<Snoop> {
        if !source.ensure(HEADER) {
            return None;
        }
        let version = Order::Big.u32(source.held(), 8);
        let link = link_of(Order::Big.u32(source.held(), 12))?;
        if source.ensure(HEADER + RECORD) {
            let [included, record] = [20, 24].map(|at| Order::Big.u32(source.held(), at));
            if record.saturating_sub(included.saturating_add(RECORD as u32)) >= SURVEYOR {
                return None;
            }
        }
        if version != 2 {
            return None;
        }
        source.take(HEADER);
        Some(Snoop { link, longest: longest_packet(link) })
    }

    /// The next packet.
    #[inline]
    pub fn next(&mut self, source: &mut Source, info: &mut Info) -> Result<Record, Stop> {
        if !source.ensure(RECORD) {
            return Err(if source.held().is_empty() { Stop::End } else { Stop::Cut });
        }
        let head = &source.held()[..RECORD];
        let [wire, captured, record, drops, seconds, micros] = [0, 4, 8, 12, 16, 20].map(|at| Order::Big.u32(head, at));
        check_length(captured, self.longest)?;
        let least = RECORD as u32 + captured;
        if !(least..=least + MOST_PADDING).contains(&record) {
            return Err(Stop::Bad(format!("comes a record of {record} bytes with a packet of {captured}")));
        }
        if !source.ensure(record as usize) {
            return Err(Stop::Cut);
        }
        info.dropped = info.dropped.max(drops.into()); // since the capture began
        let t_ns = i64::from(seconds) * 1_000_000_000 + i64::from(micros) * 1000;
        let start = source.take(record as usize) + RECORD;
        Ok(Record { time: Time::Ns(t_ns), link: self.link, start, captured, wire, interface: 0, id: 0 })
    }
}

/// The `LINKTYPE_` number of a snoop datalink type (iana.org/assignments/snoop-datalink-types, Solaris' dlpi.h).
fn link_of(datalink: u32) -> Option<u16> {
    Some(match datalink {
        0 | 4 => 1,
        2 => 6, // token ring
        8 => 10,
        9 | 14 => 0,
        26 => 242,
        0x8000_0005 => 226,
        _ => return None,
    })
}
