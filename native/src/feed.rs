//! The bytes of one message in, its row in the pairing out: what a stream or a datagram hands its messages to.

use hashbrown::HashSet;

use crate::call::Call;
use crate::compound::Ranks;
use crate::link::Addr;
use crate::ops::Pairing;
use crate::place::{NO_CONN, Place, Row};
use crate::plausible::Plausible;
use crate::protocol::{AUTH_TLS, is_callback};
use crate::results::parse_results;
use crate::rpc::{Bad, parse_reply, read_call};
use crate::unread::Unread;

/// The two addresses of a connection, the lower one first.
pub type Hosts = (Addr, Addr);

/// Hosts that are remembered to have something between them that captures wrongly.
const MOST_LATE: usize = 1 << 16;

/// What is counted over the whole capture.
#[derive(Default)]
pub struct Tally {
    /// Messages known to begin where their header was not captured.
    pub hidden: u64,
    pub malformed: u64,
    /// Calls and replies that have a row.
    pub messages: u64,
    /// Hosts of which data came that had been acknowledged, and given up, before.
    came_late: HashSet<Hosts>,
    /// Bytes that streams hold ahead of holes, and of replies that are wanted whole.
    pub held_bytes: usize,
    pub collected_bytes: usize,
    /// Flow of each connection that has shown RPC.
    pub connections: Vec<u32>,
    /// Where messages begin that cannot be read.
    pub unread: Unread,
}

impl Tally {
    /// What is held of a stream between them was given up too early. It goes by hosts, since what is on the way between
    /// them is to blame; and so that what is made of them does not depend on what else is in the capture.
    #[cold]
    pub fn came_late(&mut self, hosts: Hosts) {
        if self.came_late.len() < MOST_LATE {
            self.came_late.insert(hosts);
        }
    }

    /// Has anything come late between them?
    pub fn is_late(&self, hosts: Hosts) -> bool {
        self.came_late.contains(&hosts)
    }
}

/// What the two directions of a connection share.
pub struct Shared {
    pub flow: u32,
    pub hosts: Hosts,
    /// Row among the connections with RPC; none so far: `u32::MAX`.
    pub conn: u32,
    pub is_udp: bool,
    /// A call asked for TLS; the server agreed, or what followed was no RPC (RFC 9289 section 4.1).
    pub asks_tls: bool,
    pub is_tls: bool,
    /// When the present TCP connection began; `i64::MIN` for the first between these endpoints.
    pub since_ns: i64,
}

/// Where messages go.
pub struct Feed<'a> {
    pub pairing: &'a mut Pairing,
    pub tally: &'a mut Tally,
    pub flow: &'a mut Shared,
    pub ranks: &'a Ranks,
    pub direction: u8,
    pub may_be_copy: bool,
    /// Messages of the other direction wait behind a hole.
    pub is_early: bool,
    /// `Place::acked` and `Place::at_once` of what comes next.
    pub acked: Option<u32>,
    pub at_once: bool,
}

pub enum Outcome {
    Row(Row),
    /// The header is cut off.
    Short,
    NotRpc,
}

impl<'a> Feed<'a> {
    /// For what is seen in `direction` of `flow`.
    pub fn new(
        pairing: &'a mut Pairing,
        tally: &'a mut Tally,
        flow: &'a mut Shared,
        ranks: &'a Ranks,
        direction: usize,
    ) -> Feed<'a> {
        Feed {
            pairing,
            tally,
            flow,
            ranks,
            direction: direction as u8,
            may_be_copy: false,
            is_early: false,
            acked: None,
            at_once: false,
        }
    }

    /// Take a message that begins with `bytes` (its XID first), first seen in `frame`.
    #[inline(always)]
    pub fn message(&mut self, bytes: &[u8], frame: u32, t_ns: i64) -> Outcome {
        let Some(&[_, _, _, _, 0, 0, 0, kind @ (0 | 1)]) = bytes.first_chunk() else {
            return if bytes.len() < 8 { Outcome::Short } else { Outcome::NotRpc };
        };
        let read = if kind == 0 { self.call(bytes, frame, t_ns) } else { self.reply(bytes, frame, t_ns) };
        match read {
            Ok(row) => Outcome::Row(row),
            Err(Bad::Short) => Outcome::Short,
            Err(Bad::NotRpc) => Outcome::NotRpc,
        }
    }

    #[inline(always)]
    fn call(&mut self, bytes: &[u8], frame: u32, t_ns: i64) -> Result<Row, Bad> {
        let mut call = Call::default();
        read_call(&mut call, bytes, self.ranks)?;
        self.flow.asks_tls |= call.flavor == AUTH_TLS;
        let at = self.place(frame, t_ns);
        self.tally.messages += 1;
        Ok(self.pairing.call(&at, &call))
    }

    #[inline(always)]
    fn reply(&mut self, bytes: &[u8], frame: u32, t_ns: i64) -> Result<Row, Bad> {
        let head = parse_reply(bytes)?;
        self.flow.is_tls |= head.starttls;
        let at = self.place(frame, t_ns);
        let results = bytes.get(head.results_at..).unwrap_or(&[]);
        self.tally.messages += 1;
        Ok(self.pairing.reply(&at, &head, |key| parse_results(results, key)))
    }

    /// Has this connection shown RPC?
    pub fn knows_rpc(&self) -> bool {
        self.flow.conn != NO_CONN
    }

    /// Is what `bytes` (a record mark first) look like one of this connection's next calls, or the reply to one? None
    /// where the XIDs of the connection do not tell.
    pub fn fits(&self, bytes: &[u8], looks: Plausible) -> Option<bool> {
        let word = |at: usize| bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).map(u32::from_be_bytes);
        let xid = word(4)?;
        if self.flow.conn == NO_CONN {
            return None;
        }
        let expects = |direction: u8| self.pairing.expects(self.flow.conn, direction, xid);
        let (ours, theirs) = (expects(self.direction), expects(1 - self.direction));
        if looks == Plausible::Call {
            // From a side that is being called come callbacks, if anything.
            return ours.or_else(|| theirs.map(|_| word(16).is_some_and(is_callback)));
        }
        if self.pairing.awaits(self.flow.conn, self.direction, xid) {
            return Some(true);
        }
        theirs.or(ours.map(|_| false))
    }

    #[inline(always)]
    fn place(&mut self, frame: u32, t_ns: i64) -> Place {
        if self.flow.conn == NO_CONN {
            self.flow.conn = self.tally.connections.len() as u32;
            self.tally.connections.push(self.flow.flow);
        }
        Place {
            conn: self.flow.conn,
            direction: self.direction,
            frame,
            t_ns,
            is_udp: self.flow.is_udp,
            may_be_copy: self.may_be_copy,
            is_early: self.is_early,
            since_ns: self.flow.since_ns,
            acked: self.acked,
            at_once: self.at_once,
        }
    }
}
