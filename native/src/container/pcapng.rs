//! pcapng blocks in, packets out (draft-ietf-opsawg-pcapng, whose names are used here).

use super::{Info, Order, Record, Stop, Time, check_length, longest_packet};
use crate::source::Source;

/// The type of a Section Header Block: the same in both byte orders.
pub const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const INTERFACE_STATISTICS: u32 = 5;
const ENHANCED_PACKET: u32 = 6;

/// Bytes of a block around its body: type and length in front, the length once more behind.
const FRAME: usize = 12;
const BODY: usize = 8;
/// The longest packet of any link type with room for options, as Wireshark has it. Unknown blocks may be longer.
const LONGEST_BLOCK: u32 = (128 << 20) + (128 << 10);
/// Interfaces of a section that are told apart: each takes memory, and 20 bytes of a file.
const MOST_INTERFACES: usize = 1 << 16;

/// A pcapng file behind its first Section Header Block.
pub struct Pcapng {
    order: Order,
    interfaces: Vec<Interface>,
}

/// What the section said of one interface so far.
struct Interface {
    link: u16,
    snaplen: u32,
    clock: Clock,
    /// Packets lost: the last count of an Interface Statistics Block, which the whole section is in ...
    dropped: Option<u64>,
    /// ... else the sum of the packets' own counts.
    dropped_between: u64,
}

/// What a time stamp counts.
struct Clock {
    /// A time stamp times `multiplier` by `divisor` is in nanoseconds.
    multiplier: u128,
    divisor: u128,
    offset_s: i64,
}

/// A block that is whole in the source.
struct Block {
    kind: u32,
    start: usize,
    body: usize,
}

impl Pcapng {
    /// Reads the first Section Header Block.
    pub fn open(source: &mut Source) -> Result<Pcapng, Stop> {
        let mut file = Pcapng { order: Order::Little, interfaces: Vec::new() };
        let first = file.block(source)?;
        file.section(source.taken(first.start, first.body))?;
        Ok(file)
    }

    /// The next packet; what blocks in front of it say goes into `info`.
    #[inline]
    pub fn next(&mut self, source: &mut Source, info: &mut Info) -> Result<Record, Stop> {
        loop {
            let block = self.block(source)?;
            let body = source.taken(block.start, block.body);
            let record = match block.kind {
                ENHANCED_PACKET => self.enhanced_packet(body, info)?,
                PACKET => self.packet(body, info)?,
                SIMPLE_PACKET => self.simple_packet(body)?,
                SECTION_HEADER => {
                    self.section(body)?;
                    continue;
                }
                INTERFACE_DESCRIPTION => {
                    if self.interfaces.len() >= MOST_INTERFACES {
                        return Err(Stop::Bad(format!("comes interface {MOST_INTERFACES} of one section")));
                    }
                    self.interfaces.push(Interface::new(body, self.order)?);
                    continue;
                }
                INTERFACE_STATISTICS => {
                    self.statistics(body, info)?;
                    continue;
                }
                _ => continue,
            };
            return Ok(Record { start: block.start + record.start, ..record });
        }
    }

    /// The next block: whole if it is one that is known, else without its body.
    #[inline]
    fn block(&mut self, source: &mut Source) -> Result<Block, Stop> {
        if !source.ensure(FRAME) {
            return Err(if source.held().is_empty() { Stop::End } else { Stop::Cut });
        }
        let head = source.held();
        if head.starts_with(&MAGIC) {
            self.order = match head[BODY..FRAME] {
                [0x4d, 0x3c, 0x2b, 0x1a] => Order::Little,
                [0x1a, 0x2b, 0x3c, 0x4d] => Order::Big,
                _ => {
                    return Err(Stop::Bad("comes a section without a byte-order magic".to_owned()));
                }
            };
        }
        let (kind, stated) = (self.order.u32(head, 0), self.order.u32(head, 4));
        let bad = |what: &str| Err(Stop::Bad(format!("comes a block of type {kind} {what}")));
        // Some writers do not count the padding; Wireshark accepts that, too.
        let length = u64::from(stated).next_multiple_of(4);
        if length < FRAME as u64 {
            return bad(&format!("and {stated} bytes, which is too short"));
        }
        let known = matches!(
            kind,
            SECTION_HEADER | INTERFACE_DESCRIPTION..=SIMPLE_PACKET | INTERFACE_STATISTICS | ENHANCED_PACKET
        );
        if !known {
            return match source.skip(length) {
                true => Ok(Block { kind, start: 0, body: 0 }),
                false => Err(Stop::Cut),
            };
        }
        if stated > LONGEST_BLOCK {
            return bad(&format!("and {stated} bytes, which is too long"));
        }
        let length = length as usize;
        if !source.ensure(length) {
            return Err(Stop::Cut);
        }
        let again = self.order.u32(source.held(), length - 4);
        if again != stated {
            return bad(&format!("with two lengths, {stated} and {again}"));
        }
        Ok(Block { kind, start: source.take(length) + BODY, body: length - FRAME })
    }

    fn section(&mut self, body: &[u8]) -> Result<(), Stop> {
        at_least(body, 16)?;
        let (major, minor) = (self.order.u16(body, 4), self.order.u16(body, 6));
        if major != 1 {
            return Err(Stop::Bad(format!("pcapng version {major}.{minor} is not known")));
        }
        self.interfaces.clear();
        Ok(())
    }

    fn statistics(&mut self, body: &[u8], info: &mut Info) -> Result<(), Stop> {
        const IFDROP: u16 = 5;
        const OSDROP: u16 = 7;
        at_least(body, 12)?;
        let order = self.order;
        let counts = options(&body[12..], order).filter(|(code, _)| matches!(*code, IFDROP | OSDROP));
        let counts = counts.filter_map(|(_, value)| order.u64(value));
        if let Some(sum) = counts.reduce(u64::saturating_add) {
            let interface = self.interface(order.u32(body, 0))?;
            let before = interface.dropped();
            interface.dropped = Some(sum);
            info.dropped = info.dropped.saturating_sub(before).saturating_add(sum);
        }
        Ok(())
    }

    #[inline]
    fn interface(&mut self, number: u32) -> Result<&mut Interface, Stop> {
        let unknown = || Stop::Bad(format!("comes a block of interface {number}, which was not described"));
        self.interfaces.get_mut(number as usize).ok_or_else(unknown)
    }

    #[inline]
    fn enhanced_packet(&mut self, body: &[u8], info: &mut Info) -> Result<Record, Stop> {
        const FIXED: usize = 20;
        const DROPCOUNT: u16 = 4;
        const PACKETID: u16 = 5;
        at_least(body, FIXED)?;
        let order = self.order;
        let [number, high, low, captured, wire] = [0, 4, 8, 12, 16].map(|at| order.u32(body, at));
        let interface = self.interface(number)?;
        check_length(captured, longest_packet(interface.link))?;
        let rest = padded_rest(body, FIXED, captured)?;
        let mut id = 0;
        if !rest.is_empty() {
            let mut count = None;
            for (code, value) in options(rest, order) {
                match code {
                    DROPCOUNT if count.is_none() => count = Some(order.u64(value).unwrap_or(0)),
                    PACKETID => id = order.u64(value).unwrap_or(0),
                    _ => {}
                }
            }
            interface.dropped_before(count.unwrap_or(0), info);
        }
        let time = interface.clock.t_ns(high, low).into();
        Ok(Record { time, link: interface.link, start: FIXED, captured, wire, interface: number, id })
    }

    /// The obsolete Packet Block.
    fn packet(&mut self, body: &[u8], info: &mut Info) -> Result<Record, Stop> {
        const FIXED: usize = 20;
        const UNKNOWN: u16 = 0xffff;
        at_least(body, FIXED)?;
        let (number, drops) = (self.order.u16(body, 0).into(), self.order.u16(body, 2));
        let [high, low, captured, wire] = [4, 8, 12, 16].map(|at| self.order.u32(body, at));
        let interface = self.interface(number)?;
        check_length(captured, longest_packet(interface.link))?;
        padded_rest(body, FIXED, captured)?;
        if drops != UNKNOWN {
            interface.dropped_before(drops.into(), info);
        }
        let time = interface.clock.t_ns(high, low).into();
        Ok(Record { time, link: interface.link, start: FIXED, captured, wire, interface: number, id: 0 })
    }

    /// A Simple Packet Block: of the section's first interface, without a time, and cut as that interface cuts.
    fn simple_packet(&mut self, body: &[u8]) -> Result<Record, Stop> {
        const FIXED: usize = 4;
        at_least(body, FIXED)?;
        let wire = self.order.u32(body, 0);
        let interface = self.interface(0)?;
        let captured = if interface.snaplen == 0 { wire } else { wire.min(interface.snaplen) };
        check_length(captured, longest_packet(interface.link))?;
        padded_rest(body, FIXED, captured)?;
        Ok(Record { time: Time::Unknown, link: interface.link, start: FIXED, captured, wire, interface: 0, id: 0 })
    }
}

impl Interface {
    fn new(body: &[u8], order: Order) -> Result<Interface, Stop> {
        const TSRESOL: u16 = 9;
        const TSOFFSET: u16 = 14;
        at_least(body, 8)?;
        let (mut resolution, mut offset_s) = (6, 0);
        for (code, value) in options(&body[8..], order) {
            match (code, value) {
                (TSRESOL, &[byte]) => resolution = byte,
                (TSOFFSET, value) => offset_s = order.u64(value).unwrap_or(0) as i64,
                _ => {}
            }
        }
        let clock = Clock::new(resolution, offset_s);
        let (link, snaplen) = (order.u16(body, 0), order.u32(body, 4));
        Ok(Interface { link, snaplen, clock, dropped: None, dropped_between: 0 })
    }

    fn dropped(&self) -> u64 {
        self.dropped.unwrap_or(self.dropped_between)
    }

    fn dropped_before(&mut self, packets: u64, info: &mut Info) {
        self.dropped_between = self.dropped_between.saturating_add(packets);
        if self.dropped.is_none() {
            info.dropped = info.dropped.saturating_add(packets);
        }
    }
}

impl Clock {
    /// `if_tsresol`: the upper bit says whether the others are a negative power of 2 or of 10.
    fn new(resolution: u8, offset_s: i64) -> Clock {
        const NS_PER_S: u128 = 1_000_000_000;
        let power = u32::from(resolution & 0x7f);
        let (multiplier, divisor) = match resolution {
            0x80.. => (NS_PER_S, 1 << power),
            0..=9 => (10_u128.pow(9 - power), 1),
            // Beyond 10^-38 s even the largest time stamp is less than one nanosecond.
            10.. => (1, 10_u128.checked_pow(power - 9).unwrap_or(u128::MAX)),
        };
        Clock { multiplier, divisor, offset_s }
    }

    /// Exact: 64 bits times at most 10^9.
    #[inline]
    fn t_ns(&self, high: u32, low: u32) -> i128 {
        let mut t_ns = u128::from(u64::from(high) << 32 | u64::from(low)) * self.multiplier;
        if self.divisor != 1 {
            t_ns /= self.divisor;
        }
        t_ns as i128 + i128::from(self.offset_s) * 1_000_000_000
    }
}

impl Order {
    fn u64(self, bytes: &[u8]) -> Option<u64> {
        let bytes = bytes.try_into().ok()?;
        Some(match self {
            Order::Little => u64::from_le_bytes(bytes),
            Order::Big => u64::from_be_bytes(bytes),
        })
    }
}

#[inline]
fn at_least(body: &[u8], length: usize) -> Result<(), Stop> {
    match body.len() {
        held if held < length => Err(Stop::Bad(format!("comes a block with {held} bytes in place of {length}"))),
        _ => Ok(()),
    }
}

/// What is behind `captured` bytes at `fixed` and their padding.
#[inline]
fn padded_rest(body: &[u8], fixed: usize, captured: u32) -> Result<&[u8], Stop> {
    let end = fixed + captured as usize;
    at_least(body, end)?;
    Ok(body.get(end.next_multiple_of(4)..).unwrap_or_default())
}

/// Code and value of each option, as far as they are whole.
fn options(mut bytes: &[u8], order: Order) -> impl Iterator<Item = (u16, &[u8])> {
    const END: u16 = 0;
    std::iter::from_fn(move || {
        let head = bytes.get(..4)?;
        let (code, length) = (order.u16(head, 0), usize::from(order.u16(head, 2)));
        let value = bytes.get(4..4 + length)?;
        bytes = bytes.get((4 + length).next_multiple_of(4)..).unwrap_or_default();
        (code != END).then_some((code, value))
    })
}
