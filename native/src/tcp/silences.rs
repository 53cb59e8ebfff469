//! One direction of a conversation in, every silence of its sender out, as it saw it, and what each of them waited for
//! (`nfslat/tcp/silences.py`).

use super::stalls::{self, Cause, DELAYED_ACK_NS, Known, RTO_MIN_NS, awaited, silence_ns};
use super::stream::{NULL, View, is_syn, sent_before};
use super::{PSH, ack_kind, kind};
use crate::call::NONE;
use crate::heard::place;
use crate::waits::{Ended, Pause, Went};

/// A shorter one is the pace of a sender that has not stopped: no host answers an ACK much faster.
const LEAST_NS: i64 = 100_000;
/// To the sender and back: below this the capture is at its end.
const FAR_NS: i64 = 100_000;
/// The way to the sender and back may take longer than the shortest one by this part of it.
const JITTER: i64 = 4;
const NO_EDGE: i64 = i64::MAX;

/// What is known beside the packets.
pub struct Beside<'a> {
    /// By how many bits the receiver's windows are shifted.
    pub shift: Option<u32>,
    /// The bytes of a full segment; -1: not known.
    pub mss: i64,
    /// From the capture to the receiver and to the sender, and back, and how much later the sender hears what passes the
    /// capture; and from end to end and back. -1: not known.
    pub near_ns: i64,
    pub far_ns: i64,
    pub shift_ns: i64,
    pub whole_ns: i64,
    /// Rows of what was sent again for nothing.
    pub needless: &'a [i64],
    /// Of a subflow of MPTCP.
    pub level: Option<Level<'a>>,
}

/// Columns of `nfslat.tcp.mptcp.Level` for the data of a direction.
#[derive(Clone, Copy)]
pub struct Level<'a> {
    pub edge: &'a [i64],
    pub sent: &'a [i64],
    pub is_current: &'a [bool],
    pub is_shut: &'a [bool],
}

impl Level<'_> {
    /// Bytes that the receiver takes, as was said by packet `row`, beyond what was sent by packet `until`.
    fn room(&self, row: usize, until: usize) -> i64 {
        if self.edge[row] == NULL { NULL } else { (self.edge[row] - self.sent[until]).max(0) }
    }
}

/// Columns of `nfslat.tcp.silences.Silences`.
#[derive(Default)]
pub struct Silences {
    pub pauses: Vec<Pause>,
    pub heard: Vec<i64>,
    pub causes: Vec<Cause>,
    pub held_ns: Vec<i64>,
    pub data_ns: Vec<i64>,
    pub at: Vec<usize>,
}

pub fn silences(one: &View<'_>, way: i8, beside: &Beside<'_>) -> Silences {
    let mut out = Sender::new(one, beside).silences(way);
    stalls::tell_windows(&mut out.pauses);
    out.causes = stalls::classify(&out.pauses, |row| Known {
        rtt_ns: beside.whole_ns,
        far_ns: 0,
        mss: beside.mss,
        jitter_ns: jitter_ns(&out.pauses[row], beside.shift_ns),
    });
    out.judge(one, beside);
    out.hold(beside);
    out
}

/// How much longer than the shortest one the way to the sender and back may be, seen from the far end. Where a sender with
/// nothing more to send goes on some time after an ACK, that is chance as a rule; not where the ACK was held back: few
/// senders wait so long, and again and again just for that.
fn jitter_ns(pause: &Pause, far_ns: i64) -> i64 {
    let is_held = pause.heard_ns != NULL && pause.heard_ns - pause.begin_ns >= DELAYED_ACK_NS.0 + far_ns;
    if pause.in_message != 0 || is_held { far_ns / JITTER } else { 0 }
}

/// Times that never go back.
fn growing(rows: &[i64], t_ns: &[i64]) -> Vec<i64> {
    let mut last = i64::MIN;
    rows.iter().map(|row| (last = last.max(t_ns[*row as usize]), last).1).collect()
}

/// What the sender of a direction saw: what it heard came so much later than it passed the capture as the way there and
/// back takes at the least.
struct Sender<'a> {
    one: &'a View<'a>,
    beside: &'a Beside<'a>,
    data_ns: Vec<i64>,
    said_ns: Vec<i64>,
    /// How many of `View::said` it had heard when it sent each of `View::rows`.
    heard: Vec<i64>,
    /// With each of `View::said`, where its window ends, and the duplicate ACKs since one covered more.
    edges: Vec<i64>,
    duplicates: Vec<i32>,
}

impl<'a> Sender<'a> {
    fn new(one: &'a View<'a>, beside: &'a Beside<'a>) -> Sender<'a> {
        let data_ns = growing(one.rows, one.packets.t_ns);
        let mut said_ns = growing(one.said, one.packets.t_ns);
        let mut heard = one.heard.to_vec();
        if beside.shift_ns > FAR_NS {
            said_ns.iter_mut().for_each(|ns| *ns += beside.shift_ns);
            let mut at = 0;
            heard = data_ns.iter().map(|ns| (at = place(&said_ns, &(ns + 1), at), at as i64).1).collect();
        }
        let mut out = Sender { one, beside, data_ns, said_ns, heard, edges: Vec::new(), duplicates: Vec::new() };
        out.edges = out.edges();
        let mut since = 0;
        let count = |row: &i64| {
            let row = *row as usize;
            since =
                if one.packets.ack_kind[row] == ack_kind::ADVANCES { 0 } else { since + i32::from(out.is_hole(row)) };
            since
        };
        out.duplicates = one.said.iter().map(count).collect();
        out
    }

    fn edges(&self) -> Vec<i64> {
        let (one, packets, level) = (self.one, &self.one.packets, self.beside.level);
        let mut sent = 0;
        let edge = |(at, row): (usize, &i64)| {
            let row = *row as usize;
            let is_syn = is_syn(packets, row);
            let known = match level {
                // What the connection's window leaves, behind what went out by this subflow.
                Some(level) => {
                    while one.rows.get(sent).is_some_and(|data| (*data as usize) < row) {
                        sent += 1;
                    }
                    let high = if sent == 0 { 0 } else { one.high[sent - 1] };
                    Some(level.room(row, row)).filter(|room| *room != NULL).map(|room| high + room)
                }
                None if is_syn => Some(packets.ack[row] + i64::from(packets.window[row])),
                None => self.beside.shift.map(|shift| packets.ack[row] + (i64::from(packets.window[row]) << shift)),
            };
            let is_shut = level.map_or(packets.window[row] == 0, |level| level.is_shut[row]);
            let is_current = level.map_or(packets.ack[row] == one.covered[at], |level| level.is_current[row]);
            // A closed window is closed whatever the scale.
            known.filter(|edge| *edge != NULL).unwrap_or(match is_shut && is_current && !is_syn {
                true => one.covered[at],
                false => NO_EDGE,
            })
        };
        one.said.iter().enumerate().map(edge).collect()
    }

    /// Does an ACK tell of a hole? Duplicates do, and those with SACK blocks whatever their window (RFC 6675 section 2).
    fn is_hole(&self, row: usize) -> bool {
        let packets = &self.one.packets;
        let is_sacked = packets.sacks[row] > packets.is_dsack[row];
        packets.ack_kind[row] == ack_kind::DUPLICATE || (packets.ack_kind[row] == ack_kind::WINDOW_UPDATE && is_sacked)
    }

    fn ended(&self, row: usize) -> Ended {
        match self.one.packets.ack_kind[row] {
            _ if self.one.packets.size[row] > 0 => Ended::Data,
            _ if self.is_hole(row) => Ended::Duplicate,
            ack_kind::ADVANCES => Ended::Ack,
            ack_kind::WINDOW_UPDATE => Ended::Window,
            _ => Ended::Nothing,
        }
    }

    /// Behind the highest byte that the sender knew of as acknowledged when it had heard so many; none beyond what it is
    /// known to have sent.
    fn acked(&self, heard: usize, high: i64) -> i64 {
        if heard == 0 { high.min(0) } else { self.one.covered[heard - 1].max(0).min(high) }
    }

    /// What the receiver takes from the highest acknowledged byte on; -1 where nobody knows.
    fn room(&self, heard: usize, high: i64) -> i64 {
        let edge = if heard == 0 { NO_EDGE } else { self.edges[heard - 1] };
        if edge == NO_EDGE { NULL } else { (edge - self.acked(heard, high)).max(0) }
    }

    /// Had the sender more to send behind a packet? 1: yes; 0: no; -1: it does not show.
    ///
    /// It sets PSH where a write ends, or its buffer is empty (RFC 9293 section 3.9.1). But Linux sets it on each packet of
    /// several segments (tcp_output.c, __tcp_transmit_skb), and where a write ends with more behind it: on full segments it
    /// says nothing. What is not full, and pushed, was all there was. What is sent again may be cut elsewhere.
    fn has_more(&self, row: usize) -> i8 {
        let packets = &self.one.packets;
        match packets.flags[row] & PSH {
            0 => 1,
            _ if self.beside.mss != NULL && i64::from(packets.size[row]) % self.beside.mss == 0 => -1,
            _ => 0,
        }
    }

    fn silences(self, way: i8) -> Silences {
        let (one, packets) = (self.one, &self.one.packets);
        let mut out = Silences::default();
        let mut in_message = -1;
        let mut repeats = Vec::new();
        for at in 0..one.rows.len() {
            let row = one.rows[at] as usize;
            let went = went(one.kind(at));
            if at > 0 && (self.data_ns[at] - self.data_ns[at - 1] >= LEAST_NS || went != Went::New) {
                if went == Went::Repeated {
                    repeats.push(at);
                }
                out.at.push(at);
                let (pause, heard) = self.pause(at, way, went, in_message);
                out.pauses.push(pause);
                out.heard.push(heard);
            }
            if packets.end(row) == one.high[at] && one.kind(at) != kind::RETRANSMISSION {
                in_message = self.has_more(row);
            }
        }
        let before = sent_before(one, &repeats);
        for (pause, at) in out.pauses.iter_mut().zip(&out.at) {
            pause.sent_ns = before.get(at).map_or(NULL, |before| self.data_ns[*before]);
        }
        out.data_ns = self.data_ns;
        out
    }

    /// The silence in front of packet `at`, and the row of what was heard last in it.
    fn pause(&self, at: usize, way: i8, went: Went, in_message: i8) -> (Pause, i64) {
        let (one, packets) = (self.one, &self.one.packets);
        let (now, before) = (one.rows[at] as usize, one.rows[at - 1] as usize);
        // How many it had heard when the silence began, and when it ended; nothing is sent in between.
        let (first, last) = (self.heard[at - 1] as usize, self.heard[at] as usize);
        let high = one.high[at - 1];
        let said = (last > first).then(|| one.said[last - 1] as usize);
        let (acked, acked_end) = (self.acked(first, high), self.acked(last, high));
        let mut window = self.room(first, high);
        if let Some(level) = self.beside.level {
            // Other subflows take of the window, too, until the next one is heard.
            let left = level.room(before, said.unwrap_or(before));
            window = if left == NULL { window } else { high - acked + left };
        }
        let counts_here = |row: &usize| !is_syn(packets, *row) && self.beside.level.is_none();
        let announcing = (first > 0).then(|| one.said[first - 1] as usize).filter(counts_here);
        // The least from the last one heard in front of the silence up to the last one in it.
        let rooms = (first + 1..=last).map(|heard| self.room(heard, high)).chain([window]);
        let pause = Pause {
            conn: 0,
            reconnect: 0,
            direction: way,
            frame: packets.frame[now],
            begin_ns: self.data_ns[at - 1],
            end_ns: self.data_ns[at],
            heard_ns: if said.is_some() { self.said_ns[last - 1] } else { NULL },
            ended: said.map_or(Ended::Nothing, |row| self.ended(row)) as i8,
            went: went as i8,
            in_message,
            offset: packets.seq[now],
            size: packets.size[now],
            size_before: packets.size[before],
            under_way: high - acked,
            under_way_end: high - acked_end,
            announced: announcing.map_or(NULL, |row| packets.window[row].into()),
            window,
            window_least: rooms.filter(|room| *room != NULL).min().unwrap_or(NULL),
            window_end: self.room(last, high),
            duplicate_acks: if last == 0 { 0 } else { self.duplicates[last - 1] },
            is_tail: i8::from(went == Went::Repeated && packets.end(now) >= high),
            sent_ns: NULL,
        };
        (pause, said.map_or(NULL, |row| row as i64))
    }
}

fn went(of: i8) -> Went {
    match of {
        kind::RETRANSMISSION => Went::Repeated,
        kind::OUT_OF_ORDER => Went::Late,
        kind::KEEP_ALIVE | kind::ZERO_WINDOW_PROBE => Went::Probe,
        _ => Went::New,
    }
}

impl Silences {
    /// What the pauses alone do not tell.
    fn judge(&mut self, one: &View<'_>, beside: &Beside<'_>) {
        let is_far = beside.shift_ns > FAR_NS || (beside.far_ns == NULL && beside.near_ns <= FAR_NS);
        let overtaken = sent_earlier(one);
        // The most that was under way since the last loss.
        let mut most = 0;
        for ((pause, cause), at) in self.pauses.iter().zip(&mut self.causes).zip(&self.at) {
            let (in_message, loses) = (pause.in_message != 0, cause.is_loss());
            let size = i64::from(pause.size);
            let segment = if beside.mss == NULL { size } else { size.min(beside.mss) };
            // It had room for as much as was under way since the last loss. Who has less under way, had sent all that
            // there was, and goes on when an ACK comes was held by something else: its application had written nothing.
            let had_room = most > pause.under_way && !in_message && !loses;
            most = if loses { pause.under_way } else { most.max(pause.under_way) };
            if had_room && matches!(cause, Cause::CongestionWindow | Cause::UnknownWindow) {
                *cause = Cause::Sender;
            }
            if *cause == Cause::Sender && in_message {
                // It had more to send, and waited for nothing else.
                if pause.window != NULL && pause.under_way + segment > pause.window {
                    *cause = Cause::ReceiveWindow;
                } else if is_far && is_between_flights(pause) {
                    *cause = awaited(pause);
                }
            }
            // What is missing in front of a packet was sent meanwhile: that the sender was silent is not known, unless it
            // had more to send, and its timer has not gone off.
            if one.kind(*at) == kind::AHEAD {
                let goes_on = in_message && silence_ns(pause) < RTO_MIN_NS;
                *cause = if goes_on { Cause::Overtaken } else { Cause::Unknown };
            }
            if pause.went == Went::Late as i8 && overtaken.get(*at).is_some_and(|was| *was) {
                *cause = Cause::Overtaken;
            }
            if beside.needless.binary_search(&one.rows[*at]).is_ok() {
                *cause = Cause::Spurious;
            }
        }
    }

    /// For how long delayed ACKs were held, which a timer can have done.
    fn hold(&mut self, beside: &Beside<'_>) {
        self.held_ns = vec![0; self.pauses.len()];
        let away = beside.shift_ns + beside.near_ns.max(0);
        let delayed: Vec<usize> = (0..self.pauses.len()).filter(|row| self.causes[*row] == Cause::DelayedAck).collect();
        let held = |row: &usize| {
            let pause = &self.pauses[*row];
            (pause.heard_ns - pause.begin_ns - away).max(0).min(silence_ns(pause))
        };
        let held_ns: Vec<i64> = delayed.iter().map(held).collect();
        for ((row, is_timed), held_ns) in delayed.into_iter().zip(stalls::by_timer(&held_ns)).zip(held_ns) {
            if is_timed {
                self.held_ns[row] = held_ns;
            } else {
                self.causes[row] = awaited(&self.pauses[row]);
            }
        }
    }
}

/// Far from the sender: is a silence behind a full segment that between a flight and the next one? All was acknowledged, by
/// the shortest way; with what queues there, the ACK that lets the sender go on takes longer. It has not sent all that
/// there was; and what is longer than a retransmission timeout is no round trip.
fn is_between_flights(pause: &Pause) -> bool {
    pause.ended == Ended::Ack as i8 && pause.under_way_end == 0 && silence_ns(pause) < RTO_MIN_NS
}

/// Which packets have an older time stamp than one in front of them? What is sent again has a new one (RFC 7323). Empty
/// where not all have stamps.
fn sent_earlier(one: &View<'_>) -> Vec<bool> {
    let stamps = || one.rows.iter().map(|row| one.packets.ts_val[*row as usize]);
    let Some(first) = stamps().next().filter(|_| stamps().all(|stamp| stamp != NONE)) else { return Vec::new() };
    let mut latest = i32::MIN;
    // Wraps as it does.
    stamps()
        .map(|stamp| stamp.wrapping_sub(first) as i32)
        .map(|since| (latest = latest.max(since), since < latest).1)
        .collect()
}
