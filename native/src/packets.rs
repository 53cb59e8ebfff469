//! Packets of a capture in, a row for each of its TCP packets out (`nfslat/tcp/packets.py`).

use crate::call::NONE;
use crate::capture::{Error, Take};
use crate::container::Packet;
use crate::conversations::{self, Conversations, Judged};
use crate::fragments::Fragments;
use crate::link::{self, Ends, Frame, SYN, Segment};
use crate::mptcp::{self, SignalRow, Signals};
use crate::order::grouped;
use crate::table::table;
use crate::traffic::{Place, each_option};

/// Rows: 64 bytes each.
pub const MOST_ROWS: usize = if cfg!(test) { 4096 } else { 1 << 26 };

table! {
    /// A row for each TCP packet (`nfslat.tcp.packets.Packets`).
    pub struct Packets of PacketRow {
        conversation: i32,
        direction: i8,
        frame: i32,
        t_ns: i64,
        seq: i64,
        size: i32,
        ack: i64,
        window: i32,
        flags: u8,
        kind: i8,
        ack_kind: i8,
        sacks: i8,
        is_dsack: i8,
        ip_id: i32,
        ts_val: u32,
        head: u64,
        head_size: i16,
    }
}

impl Packets {
    /// What it says of MPTCP is for others.
    #[inline]
    fn push<'a>(&mut self, place: &Place, ends: &Ends, segment: &Segment<'a>, judged: &Judged) -> Option<&'a [u8]> {
        let options = Options::of(segment);
        let head_size = segment.bytes.len().min(8);
        let mut head = [0; 8];
        head[..head_size].copy_from_slice(&segment.bytes[..head_size]);
        let is_v4 = ends.src >> 32 == 0xffff;
        self.push_row(PacketRow {
            conversation: place.conn as i32,
            direction: place.direction as i8,
            frame: place.frame as i32,
            t_ns: place.t_ns,
            seq: judged.seq,
            size: i32::try_from(segment.len).unwrap_or(i32::MAX),
            ack: judged.ack.unwrap_or(-1),
            window: i32::from(segment.window),
            flags: segment.flags,
            kind: judged.kind as i8,
            ack_kind: judged.ack_kind as i8,
            sacks: options.sacks,
            is_dsack: i8::from(options.is_dsack),
            ip_id: if is_v4 { i32::from(segment.ip_id) } else { -1 },
            ts_val: options.ts_val,
            head: u64::from_be_bytes(head),
            head_size: head_size as i16,
        });
        options.mptcp
    }
}

/// What a row keeps of the options.
pub struct Options<'a> {
    pub ts_val: u32,
    sacks: i8,
    pub is_dsack: bool,
    mptcp: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    #[inline]
    pub fn of(segment: &Segment<'a>) -> Options<'a> {
        let mut found = Options { ts_val: NONE, sacks: 0, is_dsack: false, mptcp: None };
        for option in each_option(segment.options) {
            match option {
                (8, [a, b, c, d, _, _, _, _]) => found.ts_val = u32::from_be_bytes([*a, *b, *c, *d]),
                (5, blocks) => {
                    found.sacks = (blocks.len() / 8) as i8;
                    found.is_dsack = is_dsack(segment.ack, blocks);
                }
                (mptcp::KIND, value) => found.mptcp = Some(value),
                _ => {}
            }
        }
        found
    }
}

/// Does the first block lie below the ACK, or within the second one (RFC 2883 section 4)?
fn is_dsack(ack: u32, blocks: &[u8]) -> bool {
    let word = |at: usize| blocks.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes);
    let is_below = |one: u32, other: u32| (one.wrapping_sub(other) as i32) < 0;
    let (Some(left), Some(right)) = (word(0), word(4)) else { return false };
    let within = |from: u32, to: u32| !is_below(left, from) && !is_below(to, right);
    is_below(left, ack) || matches!((word(8), word(12)), (Some(from), Some(to)) if within(from, to))
}

/// What is wanted of a capture.
#[derive(Default)]
pub struct Asked {
    /// Ports, either end; all where there are none.
    pub ports: Vec<u16>,
    /// Number of the only conversation whose rows are wanted.
    pub stream: Option<u32>,
}

impl Asked {
    fn has_port(&self, ends: Ends) -> bool {
        self.ports.is_empty() || self.ports.contains(&ends.sport) || self.ports.contains(&ends.dport)
    }
}

/// The TCP of one capture.
#[derive(Default)]
pub struct Trace {
    pub rows: Packets,
    /// What they say of the bytes of MPTCP connections.
    pub signals: Signals,
    pub conversations: Conversations,
    /// All packets; those that are no TCP; TCP that was not asked for; TCP that was captured twice.
    pub packets: u32,
    pub other: u64,
    pub skipped: u64,
    pub copies: u64,
    /// TCP whose sequence number was spoilt, by its checksum.
    pub damaged: u64,
    asked: Asked,
    fragments: Fragments,
}

impl Trace {
    pub fn new(asked: Asked) -> Trace {
        Trace { asked, ..Trace::default() }
    }

    #[inline]
    fn frame(&mut self, frame: &Frame<'_>, packet: &Packet<'_>) {
        match frame {
            Frame::Tcp(ends, segment) => self.segment(*ends, segment, packet),
            Frame::Fragment(part) => {
                let whole = self.fragments.take(part, self.packets, packet.t_ns);
                let inner = whole.as_ref().map_or(Frame::Other, |whole| {
                    link::dissect_payload(whole.proto, whole.src, whole.dst, &whole.bytes, whole.len)
                });
                match inner {
                    Frame::Fragment(_) => self.other += 1,
                    _ => self.frame(&inner, packet),
                }
            }
            Frame::Udp(..) | Frame::Other => self.other += 1,
        }
    }

    #[inline]
    fn segment(&mut self, ends: Ends, segment: &Segment<'_>, packet: &Packet<'_>) {
        if !self.asked.has_port(ends) {
            self.skipped += 1;
            return;
        }
        let (number, direction) = self.conversations.find(ends, segment);
        let is_wanted = self.asked.stream.is_none_or(|stream| stream as usize == number);
        let conversation = &mut self.conversations.list[number];
        if conversation.copies.is_copy(direction, packet.point(), segment, packet.t_ns) {
            conversation.ways[direction].copies += 1;
            *(if is_wanted { &mut self.copies } else { &mut self.skipped }) += 1;
            return;
        }
        if conversation.is_damaged(direction, segment) {
            *(if is_wanted { &mut self.damaged } else { &mut self.skipped }) += 1;
            return;
        }
        let judged = conversation.packet(segment, direction, &mut self.conversations.room);
        if is_wanted {
            let place = Place { conn: number as u32, reconnect: 0, direction, frame: self.packets, t_ns: packet.t_ns };
            if let Some(value) = self.rows.push(&place, &ends, segment, &judged) {
                self.mptcp(number, direction, value, segment.flags, true);
            }
        } else {
            self.skipped += 1;
            let is_opening = conversation.mptcp.as_ref().is_some_and(|subflow| subflow.is_opening());
            let may_tell = is_opening || segment.flags & SYN != 0;
            if let Some(value) = may_tell.then(|| mptcp::option(segment)).flatten() {
                self.mptcp(number, direction, value, segment.flags, false);
            }
        }
    }

    /// Put the rows of each conversation side by side; where each was before. None is pushed afterwards.
    pub fn by_conversation(&mut self) -> Vec<i32> {
        let grouped = grouped(&self.rows.conversation, self.conversations.list.len());
        let Some((order, _)) = grouped else { unreachable!("each row is of a conversation") };
        let rows: Vec<u32> = order.iter().map(|row| *row as u32).collect();
        if !rows.is_sorted() {
            self.rows.keep(&rows);
        }
        if !self.signals.row.is_empty() {
            let mut place = vec![0; rows.len()];
            rows.iter().zip(0..).for_each(|(row, now)| place[*row as usize] = now);
            self.signals.row.iter_mut().for_each(|row| *row = place[*row as usize]);
            let mut signals: Vec<u32> = (0..self.signals.row.len() as u32).collect();
            signals.sort_by_key(|signal| self.signals.row[*signal as usize]);
            self.signals.keep(&signals);
        }
        order
    }

    /// The MPTCP option of a packet, the last row if that has one.
    #[cold]
    fn mptcp(&mut self, number: usize, direction: usize, value: &[u8], flags: u8, has_row: bool) {
        let subflow = self.conversations.list[number].mptcp.get_or_insert_default();
        if let (Some(found), true) = (subflow.take(value, flags, direction), has_row) {
            self.signals.push_row(SignalRow { row: self.rows.frame.len() as i32 - 1, ..found });
        }
    }
}

impl Take for Trace {
    #[inline]
    fn packet(&mut self, packet: &Packet<'_>) {
        self.packets += 1;
        self.frame(&link::dissect(packet.link, packet.captured, packet.wire_len), packet);
    }

    fn packets(&self) -> u32 {
        self.packets
    }

    fn full(&self) -> Option<Error> {
        if self.rows.frame.len() > MOST_ROWS {
            return Some(Error::TooManyRows(MOST_ROWS));
        }
        self.conversations.is_full().then_some(Error::TooManyConversations(conversations::MOST))
    }
}

#[cfg(test)]
mod tests;
