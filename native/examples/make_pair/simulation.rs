//! Clients, servers and the network between them, as events in the order of their times.
//!
//! All times are in nanoseconds since the simulation's start.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use crate::capture::{ACK, CLIENT, Capture, PUSH, SERVER, SYN, Segment};
use crate::messages::{self, CALL, HEADER, REPLY};
use crate::options::Options;
use crate::random::Random;
use crate::truth::Op;

/// A TCP that has lost a segment sends it again after this time.
const TCP_TIMEOUT_NS: i64 = 200_000_000;
/// A client that has no reply sends its call again after this time.
const RPC_TIMEOUT_NS: i64 = 60_000_000;
/// A receiver acknowledges every second full segment.
const ACK_BYTES: u64 = 2896;
/// 10 Gbit/s.
const NS_PER_BYTE: f64 = 0.8;

/// Spread of the service times: a lognormal distribution with this sigma.
const SIGMA: f64 = 0.6;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A slot has thought and sends its next call.
    Issue { connection: u16 },
    /// What waits for others in a direction has waited long enough.
    Flush { connection: u16, kind: u8 },
    /// The next segment of a flight passes a host's capture.
    Pass { flight: u32, host: u8 },
    /// A segment that was lost is sent again.
    Again { flight: u32, from: u64, to: u64 },
    /// It arrives.
    Late { flight: u32, from: u64, to: u64 },
    /// A whole message reaches the program on the other side.
    Deliver { op: u32, kind: u8, copy: bool },
    /// The server has done its work.
    Reply { op: u32, copy: bool },
    /// The client's patience is at an end.
    Retransmit { op: u32 },
    /// A receiver sends an acknowledgement, in the direction of that kind.
    Acknowledge { connection: u16, kind: u8, acknowledged: u64 },
    /// A segment without payload passes a host's capture.
    Bare { connection: u16, kind: u8, host: u8, flags: u8, acknowledged: u64, sequence: u64 },
}

#[derive(Clone, Copy)]
struct Message {
    op: u32,
    kind: u8,
    /// A second copy of the call or the reply.
    copy: bool,
    /// Where it starts in the stream.
    start: u64,
    total: u64,
}

/// What was handed to TCP in one go. A flight goes in the direction of its messages' kind, and a segment is part of one.
#[derive(Default)]
struct Flight {
    connection: u16,
    kind: usize,
    start: u64,
    end: u64,
    acknowledged: u64,
    messages: Vec<Message>,
    /// Length of its first segment, where that is a short one; 0: as long as the others.
    short: u64,
    /// By host: where the next segment starts, and when the first one passes.
    next: [u64; 2],
    begins: [i64; 2],
    /// Events that still need it.
    pending: u32,
}

/// One direction of a connection: that of the calls, or that of the replies.
#[derive(Clone, Default)]
struct Direction {
    sent: u64,
    /// What has passed the sender's capture.
    passed: u64,
    received: u64,
    unacknowledged: u64,
    waiting: Vec<Message>,
    flush_is_due: bool,
    sender_is_free: i64,
    receiver_is_free: i64,
    /// Until then a hole in the stream keeps from the program what came behind it; and where the hole starts.
    hole_until: i64,
    hole: u64,
}

impl Direction {
    /// All bytes before this one have arrived.
    fn complete(&self, now: i64) -> u64 {
        if now < self.hole_until { self.received.min(self.hole) } else { self.received }
    }
}

#[derive(Clone, Default)]
struct Connection {
    directions: [Direction; 2],
    initial: [u32; 2],
    first_xid: u32,
    calls: u64,
    in_flight: Vec<u32>,
}

pub struct Simulation<'a> {
    options: &'a Options,
    random: Random,
    events: BinaryHeap<Reverse<(i64, u64, Event)>>,
    event_number: u64,
    connections: Vec<Connection>,
    flights: Vec<Flight>,
    free: Vec<u32>,
    ops: Vec<Op>,
    captures: [Capture; 2],
    decoys: Vec<u8>,
    head: Vec<u8>,
}

/// The host that sends messages of a kind.
fn sender(kind: usize) -> usize {
    if kind == CALL { CLIENT } else { SERVER }
}

impl<'a> Simulation<'a> {
    pub fn new(options: &'a Options) -> io::Result<Simulation<'a>> {
        let mut simulation = Simulation {
            options,
            random: Random::new(options.seed),
            events: BinaryHeap::new(),
            event_number: 0,
            connections: vec![Connection::default(); options.connections as usize],
            flights: Vec::new(),
            free: Vec::new(),
            ops: Vec::with_capacity(options.ops as usize),
            captures: [Capture::create(options, CLIENT)?, Capture::create(options, SERVER)?],
            decoys: if options.decoys { messages::decoys() } else { Vec::new() },
            head: Vec::new(),
        };
        for connection in 0..options.connections as u16 {
            simulation.open(connection);
        }
        Ok(simulation)
    }

    /// The handshake, and the first call of each slot.
    fn open(&mut self, connection: u16) {
        let initial = [self.random.bits() as u32, self.random.bits() as u32];
        let first_xid = if self.options.same_xids { 0x5a00_0000 } else { self.random.bits() as u32 };
        let one = &mut self.connections[usize::from(connection)];
        (one.initial, one.first_xid) = (initial, first_xid);
        for direction in &mut one.directions {
            (direction.sent, direction.passed, direction.received) = (1, 1, 1);
        }
        let way = self.way();
        for (step, flags) in [SYN, SYN | ACK, ACK].into_iter().enumerate() {
            let kind = (step % 2) as u8;
            let (sequence, acknowledged) = (u64::from(step == 2), u64::from(step > 0));
            let begins = step as i64 * (way + 5_000);
            for (host, at) in [(sender(usize::from(kind)), begins), (1 - sender(usize::from(kind)), begins + way)] {
                self.at(at, Event::Bare { connection, kind, host: host as u8, flags, acknowledged, sequence });
            }
        }
        for _ in 0..self.options.slots {
            let first = 3 * (way + 5_000) + self.random.below(2_000_000) as i64;
            self.at(first, Event::Issue { connection });
        }
    }

    fn at(&mut self, time: i64, event: Event) {
        self.event_number += 1;
        self.events.push(Reverse((time, self.event_number, event)));
    }

    /// The way from host to host: constant but for a tenth.
    fn way(&mut self) -> i64 {
        (self.options.network_us * 1000.0 * (1.0 + 0.1 * self.random.unit())) as i64
    }

    pub fn run(mut self) -> io::Result<(Vec<Op>, [Capture; 2])> {
        while let Some(Reverse((now, _, event))) = self.events.pop() {
            match event {
                Event::Issue { connection } => self.issue(now, connection),
                Event::Flush { connection, kind } => self.flush(now, connection, usize::from(kind)),
                Event::Pass { flight, host } => self.pass(now, flight, usize::from(host))?,
                Event::Again { flight, from, to } => {
                    self.record(now, flight, sender(self.flights[flight as usize].kind), from, to)?;
                    let way = self.way();
                    self.at(now + way, Event::Late { flight, from, to });
                }
                Event::Late { flight, from, to } => {
                    let kind = self.flights[flight as usize].kind;
                    self.record(now, flight, 1 - sender(kind), from, to)?;
                    self.arrive(now, flight, from, to);
                    self.done(flight);
                }
                Event::Deliver { op, kind, copy } => {
                    if usize::from(kind) == CALL {
                        self.serve(now, op, copy);
                    } else if !copy {
                        self.complete(now, op);
                    }
                }
                Event::Reply { op, copy } => self.send(now, op, REPLY, copy),
                Event::Retransmit { op } => self.send(now, op, CALL, true),
                Event::Acknowledge { connection, kind, acknowledged } => {
                    self.acknowledge(now, connection, kind, acknowledged)?;
                }
                Event::Bare { connection, kind, host, flags, acknowledged, sequence } => {
                    let kind = usize::from(kind);
                    let segment = self.segment(connection, kind, sequence, acknowledged, flags, 0);
                    self.capture(now, usize::from(host), &segment, None)?;
                }
            }
        }
        Ok((self.ops, self.captures))
    }

    // Programs.

    fn issue(&mut self, now: i64, number: u16) {
        if self.ops.len() as u64 == self.options.ops {
            return;
        }
        let mut draw = self.random.below(100);
        let (procedure, _) = messages::MIX
            .into_iter()
            .find(|(_, share)| {
                let found = draw < *share;
                draw = draw.saturating_sub(*share);
                found
            })
            .unwrap_or(messages::MIX[0]);
        let connection = &mut self.connections[usize::from(number)];
        let xid = loop {
            let count = if self.options.xids == 0 { connection.calls } else { connection.calls % self.options.xids };
            connection.calls += 1;
            let xid = connection.first_xid.wrapping_add(count as u32);
            if self.options.xids == 0 || !connection.in_flight.contains(&xid) {
                break xid;
            }
        };
        if self.options.xids != 0 {
            connection.in_flight.push(xid);
        }
        let op = self.ops.len() as u32;
        self.ops.push(Op { xid, connection: number, procedure, ..Op::default() });
        self.send(now, op, CALL, false);
    }

    /// The server works on a call; a copy of a call gets nothing, or a copy of the reply.
    fn serve(&mut self, now: i64, op: u32, copy: bool) {
        if copy {
            if self.random.happens(0.5) {
                self.at(now + RPC_TIMEOUT_NS / 4, Event::Reply { op, copy: true });
            }
            return;
        }
        let relative = match self.ops[op as usize].procedure {
            messages::READ => 1.0,
            messages::WRITE => 1.5,
            _ => 0.3,
        };
        let spread = (SIGMA * self.random.normal() - SIGMA * SIGMA / 2.0).exp();
        let mut service = (self.options.service_us * 1000.0 * relative * spread) as i64;
        if self.random.happens(self.options.retransmit) {
            self.ops[op as usize].retransmitted = true;
            self.at(now + RPC_TIMEOUT_NS, Event::Retransmit { op });
            service += RPC_TIMEOUT_NS + RPC_TIMEOUT_NS / 8;
        }
        self.at(now + service, Event::Reply { op, copy: false });
    }

    fn complete(&mut self, now: i64, op: u32) {
        let Op { connection, xid, .. } = self.ops[op as usize];
        if self.options.xids != 0 {
            self.connections[usize::from(connection)].in_flight.retain(|used| *used != xid);
        }
        let think = (self.random.exponential(self.options.think_us) * 1000.0) as i64;
        self.at(now + think, Event::Issue { connection });
    }

    // TCP.

    fn send(&mut self, now: i64, op: u32, kind: usize, copy: bool) {
        let Op { connection, xid, procedure, .. } = self.ops[op as usize];
        messages::head(&mut self.head, kind, u64::from(op), xid, procedure, self.options.size);
        let total = self.head.len() as u64 + messages::data(kind, procedure, self.options.size);
        let wait = self.random.happens(self.options.coalesce);
        let direction = &mut self.connections[usize::from(connection)].directions[kind];
        direction.waiting.push(Message { op, kind: kind as u8, copy, start: 0, total });
        if !wait || direction.waiting.len() >= 8 {
            self.flush(now, connection, kind);
        } else if !direction.flush_is_due {
            direction.flush_is_due = true;
            let patience = 30_000 + self.random.below(30_000) as i64;
            self.at(now + patience, Event::Flush { connection, kind: kind as u8 });
        }
    }

    fn flush(&mut self, now: i64, number: u16, kind: usize) {
        let short = if self.random.happens(self.options.split) { 1 + self.random.below(60) } else { 0 };
        let way = self.way();
        let connection = &mut self.connections[usize::from(number)];
        let acknowledged = connection.directions[1 - kind].complete(now);
        let direction = &mut connection.directions[kind];
        direction.flush_is_due = false;
        if direction.waiting.is_empty() {
            return;
        }
        let index = self.free.pop().unwrap_or_else(|| {
            self.flights.push(Flight::default());
            self.flights.len() as u32 - 1
        });
        let flight = &mut self.flights[index as usize];
        flight.messages.clear();
        flight.messages.append(&mut direction.waiting);
        (flight.connection, flight.kind, flight.acknowledged) = (number, kind, acknowledged);
        flight.start = direction.sent;
        for message in &mut flight.messages {
            message.start = direction.sent;
            direction.sent += message.total;
        }
        flight.end = direction.sent;
        flight.short = if short < flight.end - flight.start { short } else { 0 };
        flight.next = [flight.start; 2];
        let sent = now.max(direction.sender_is_free);
        let received = (sent + way).max(direction.receiver_is_free + 100);
        let length = ((flight.end - flight.start) as f64 * NS_PER_BYTE) as i64;
        (direction.sender_is_free, direction.receiver_is_free) = (sent + length + 200, received + length + 200);
        let host = sender(kind);
        flight.begins[host] = sent;
        flight.begins[1 - host] = received;
        flight.pending = 2;
        self.at(sent, Event::Pass { flight: index, host: host as u8 });
        self.at(received, Event::Pass { flight: index, host: 1 - host as u8 });
    }

    fn pass(&mut self, now: i64, index: u32, host: usize) -> io::Result<()> {
        let flight = &self.flights[index as usize];
        let from = flight.next[host];
        let longest = if from == flight.start && flight.short > 0 { flight.short } else { self.options.segment[host] };
        let to = (from + longest).min(flight.end);
        let arrives = host != sender(flight.kind);
        if arrives && self.random.happens(self.options.loss) {
            // The hole is there from now on; what is sent again comes with another event.
            let kind = flight.kind;
            let again = now + TCP_TIMEOUT_NS;
            let direction = &mut self.connections[usize::from(flight.connection)].directions[kind];
            direction.hole = if now < direction.hole_until { direction.hole.min(from) } else { from };
            direction.hole_until = direction.hole_until.max(again + 2 * (self.options.network_us * 1000.0) as i64);
            self.flights[index as usize].pending += 1;
            self.at(again, Event::Again { flight: index, from, to });
        } else {
            self.record(now, index, host, from, to)?;
            if arrives {
                self.arrive(now, index, from, to);
            }
        }
        let flight = &mut self.flights[index as usize];
        if !arrives {
            self.connections[usize::from(flight.connection)].directions[flight.kind].passed = to;
        }
        flight.next[host] = to;
        if to < flight.end {
            let next = flight.begins[host] + ((to - flight.start) as f64 * NS_PER_BYTE) as i64;
            self.at(next.max(now + 1), Event::Pass { flight: index, host: host as u8 });
        } else {
            self.done(index);
        }
        Ok(())
    }

    fn done(&mut self, index: u32) {
        let flight = &mut self.flights[index as usize];
        flight.pending -= 1;
        if flight.pending == 0 {
            self.free.push(index);
        }
    }

    /// Takes a segment in: acknowledges, and delivers the messages that end in it.
    fn arrive(&mut self, now: i64, index: u32, from: u64, to: u64) {
        let flight = &self.flights[index as usize];
        let (number, kind) = (flight.connection, flight.kind);
        let connection = &mut self.connections[usize::from(number)];
        let direction = &mut connection.directions[kind];
        direction.received = direction.received.max(to);
        direction.unacknowledged += to - from;
        let deliver = now.max(direction.hole_until) + 1000;
        let acknowledge = direction.unacknowledged >= ACK_BYTES && now >= direction.hole_until;
        if acknowledge {
            direction.unacknowledged = 0;
        }
        let acknowledged = direction.complete(now);
        for place in 0..self.flights[index as usize].messages.len() {
            let message = self.flights[index as usize].messages[place];
            let end = message.start + message.total;
            if end > from && end <= to {
                self.at(deliver, Event::Deliver { op: message.op, kind: message.kind, copy: message.copy });
            }
        }
        if acknowledge {
            let kind = 1 - kind as u8;
            self.at(now + 1500, Event::Acknowledge { connection: number, kind, acknowledged });
        }
    }

    /// Nothing overtakes on the way, so the acknowledgement arrives after what was sent before.
    fn acknowledge(&mut self, now: i64, number: u16, kind: u8, acknowledged: u64) -> io::Result<()> {
        let way = self.way();
        let direction = &self.connections[usize::from(number)].directions[usize::from(kind)];
        let (sequence, arrives) = (direction.passed, direction.receiver_is_free.max(now + way));
        let host = sender(usize::from(kind));
        let segment = self.segment(number, usize::from(kind), sequence, acknowledged, ACK, 0);
        self.capture(now, host, &segment, None)?;
        let host = 1 - host as u8;
        self.at(arrives, Event::Bare { connection: number, kind, host, flags: ACK, acknowledged, sequence });
        Ok(())
    }

    // Captures.

    fn segment(&self, number: u16, kind: usize, sequence: u64, acknowledged: u64, flags: u8, length: u64) -> Segment {
        let initial = self.connections[usize::from(number)].initial;
        Segment {
            connection: number,
            from: sender(kind),
            sequence: initial[kind].wrapping_add(sequence as u32),
            acknowledged: if flags & ACK == 0 { 0 } else { initial[1 - kind].wrapping_add(acknowledged as u32) },
            flags,
            length: length as u32,
        }
    }

    /// A segment of a flight passes a host: into its capture and the truth with it.
    fn record(&mut self, now: i64, index: u32, host: usize, from: u64, to: u64) -> io::Result<()> {
        let flight = &self.flights[index as usize];
        let (number, kind, acknowledged) = (flight.connection, flight.kind, flight.acknowledged);
        let segment = self.segment(number, kind, from, acknowledged, ACK | PUSH, to - from);
        let time = self.captures[host].clock(now);
        for message in &flight.messages {
            if message.copy || message.start >= to || message.start + message.total <= from {
                continue;
            }
            let op = &mut self.ops[message.op as usize];
            let (first, last) = (&mut op.first_ns[kind][host], &mut op.last_ns[kind][host]);
            if message.start >= from && *first == 0 {
                *first = time;
            }
            // Each byte passes once before the message is complete, whether it comes in time or late.
            let passed = &mut op.passed[kind][host];
            *passed += (to.min(message.start + message.total) - from.max(message.start)) as u32;
            if u64::from(*passed) >= message.total && *last == 0 {
                *last = time;
            }
        }
        self.capture(now, host, &segment, Some((index, from)))
    }

    fn capture(&mut self, now: i64, host: usize, segment: &Segment, of: Option<(u32, u64)>) -> io::Result<()> {
        if self.random.happens(self.options.drop[host]) {
            self.captures[host].missed += 1;
            return Ok(());
        }
        let capture = &mut self.captures[host];
        let Some((index, from)) = of else {
            return capture.write(now, segment, |_| {});
        };
        let kept = from + capture.kept(segment) as u64;
        let flight = &self.flights[index as usize];
        let (ops, head, size, decoys) = (&mut self.ops, &mut self.head, self.options.size, &self.decoys);
        capture.write(now, segment, |payload| {
            for message in &flight.messages {
                if message.start >= kept {
                    break;
                }
                let end = message.start + message.total;
                if end <= from {
                    continue;
                }
                let kind = usize::from(message.kind);
                let op = &mut ops[message.op as usize];
                let header_end = message.start + u64::from(HEADER[kind]);
                if !message.copy && header_end > from {
                    for place in message.start.max(from)..header_end.min(kept) {
                        op.seen[kind][host] |= 1 << (place - message.start);
                    }
                }
                let data = messages::data(kind, op.procedure, size);
                let head_end = end - data;
                if head_end > from {
                    messages::head(head, kind, u64::from(message.op), op.xid, op.procedure, size);
                    copy(payload, from, message.start, head);
                }
                if !decoys.is_empty() {
                    let mut start = head_end;
                    while start < end.min(kept) {
                        let length = (end - start).min(decoys.len() as u64);
                        copy(payload, from, start, &decoys[..length as usize]);
                        start += length;
                    }
                }
            }
        })
    }
}

/// Puts `bytes`, which are at `start` in the stream, into that part of the stream that is at `from`.
fn copy(part: &mut [u8], from: u64, start: u64, bytes: &[u8]) {
    let (to, end) = (from + part.len() as u64, start + bytes.len() as u64);
    let (low, high) = (start.max(from), end.min(to));
    if low < high {
        part[(low - from) as usize..(high - from) as usize]
            .copy_from_slice(&bytes[(low - start) as usize..(high - start) as usize]);
    }
}
