//! Messages in capture order in, ops and loose messages out, held against a model that is as slow as it is plain.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::again::{ENOUGH_REUSED, LATE_RETRANSMISSION_NS, LEAST_TIMER_NS, LOST_ANSWER_NS};
use super::{COPY_NS, Pairing, Place};
use crate::call::NONE;
use crate::columns::State;
use crate::compound::tests::ranks;
use crate::rpc::tests::build::{self, Bytes, XID, nfs4, words};
use crate::rpc::{parse_call, parse_reply};
use crate::testing::*;

/// What a call asks for, as far as it was captured: procedure, offset, count, handle.
type Request = (u32, Option<u64>, Option<u32>, Option<u8>);

const REQUESTS: [Request; 6] = [
    (6, Some(0), Some(512), Some(b'a')),
    (6, Some(512), Some(512), Some(b'a')),
    (6, Some(0), Some(1024), Some(b'a')),
    (6, Some(0), Some(512), Some(b'b')),
    (7, Some(0), Some(512), Some(b'a')),
    (6, None, None, None), // cut off behind the header
];

/// Connections: over UDP, and the host of the client. Those from one host go to the same port of one server.
const CONNECTIONS: [(bool, u8); 4] = [(false, 1), (false, 1), (true, 1), (false, 3)];

#[derive(Clone, Copy, Debug)]
struct Message {
    conn: usize,
    /// Direction of the call.
    way: u8,
    xid: u32,
    request: Option<Request>,
    t_ns: i64,
    frame: u32,
    may_be_copy: bool,
    /// Since when the connection is there.
    since_ns: i64,
    /// A call acknowledges all replies in front of it; all calls in front of it were acknowledged.
    acks: bool,
    at_once: bool,
}

/// (connection, server's call, XID), a call's request or a reply, ns since the last one, may be a copy, taken late,
/// reconnected before, acknowledges the replies, at once.
type Step = ((usize, bool, u32), Option<usize>, i64, bool, bool, bool, (bool, bool));

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let place = (prop_oneof![4 => 0usize..2, 1 => 2usize..4], prop::bool::weighted(0.1), 0u32..3);
    let request = prop_oneof![3 => Just(Some(0usize)), 2 => (0..REQUESTS.len()).prop_map(Some), 4 => Just(None)];
    let pause = prop::sample::select(vec![1_000, 400_000, 2_000_000, 600_000_000, 2_000_000_000, 200_000_000_000]);
    let step = (
        place,
        request,
        pause,
        any::<bool>(),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.1),
        any::<(bool, bool)>(),
    );
    prop::collection::vec(step, 1..60)
}

fn messages(steps: &[Step]) -> Vec<Message> {
    let mut now_ns = 0;
    let mut since = [i64::MIN; CONNECTIONS.len()];
    let mut out = Vec::new();
    for (number, ((conn, is_callback, xid), request, pause_ns, may_be_copy, is_late, reconnects, (acks, at_once))) in
        steps.iter().enumerate()
    {
        now_ns += pause_ns;
        let is_udp = CONNECTIONS[*conn].0;
        if *reconnects && !is_udp {
            since[*conn] = now_ns;
        }
        // A call that was held behind a hole was captured before what was taken before it.
        let late = if *is_late && request.is_some() { number.min(3) as u32 } else { 0 };
        out.push(Message {
            conn: *conn,
            way: u8::from(*is_callback),
            xid: *xid,
            request: request.map(|which| REQUESTS[which]),
            t_ns: now_ns - 300_000 * i64::from(late),
            frame: 100 * (1 + number as u32 - late) + number as u32,
            may_be_copy: *may_be_copy && is_udp,
            since_ns: since[*conn],
            acks: *acks && !is_udp,
            at_once: *at_once,
        });
    }
    out
}

// The model.

#[derive(Clone, Debug)]
struct Op {
    calls: Vec<usize>,
    reply: Option<usize>,
    /// Its other messages.
    again: Vec<usize>,
    /// Call after which a new connection must begin.
    last_call: usize,
    /// It is known where its reply ends.
    has_end: bool,
}

#[derive(Clone, Copy)]
enum Entry {
    Op(usize),
    Orphan(usize),
}

fn agree(a: Request, b: Request) -> bool {
    fn same<T: PartialEq>(a: Option<T>, b: Option<T>) -> bool {
        a.is_none() || b.is_none() || a == b
    }
    a.0 == b.0 && same(a.1, b.1) && same(a.2, b.2) && same(a.3, b.3)
}

/// The state of every message, and the ops.
fn model(all: &[Message]) -> (Vec<State>, Vec<Op>) {
    let mut states = vec![State::NoReply; all.len()];
    let mut ops: Vec<Op> = Vec::new();
    let mut entries: BTreeMap<(usize, u8, u32), Entry> = BTreeMap::new();
    let mut reused = [0; CONNECTIONS.len()];
    for (at, one) in all.iter().enumerate() {
        let entry = entries.get(&(one.conn, one.way, one.xid)).copied();
        let copy_or_again = |of: usize| {
            let is_copy = one.may_be_copy && one.t_ns - all[of].t_ns < COPY_NS;
            if is_copy { State::DuplicateFrame } else { State::Retransmitted }
        };
        let Some(request) = one.request else {
            match entry {
                Some(Entry::Op(op)) => match ops[op].reply {
                    None => {
                        (ops[op].reply, ops[op].has_end) = (Some(at), true);
                        states[ops[op].calls[0]] = State::Paired;
                        states[at] = State::Paired;
                    }
                    Some(reply) => {
                        states[at] = copy_or_again(reply);
                        ops[op].again.push(at);
                    }
                },
                _ => {
                    states[at] = State::NoCall;
                    entries.insert((one.conn, one.way, one.xid), Entry::Orphan(at));
                }
            }
            continue;
        };
        let (mut adopted, mut has_end) = (None, false);
        let acknowledges = |op: &Op| {
            let is_soon =
                |reply: usize| all[reply].t_ns >= one.since_ns && one.t_ns - all[reply].t_ns < LATE_RETRANSMISSION_NS;
            one.acks && op.has_end && op.reply.is_some_and(is_soon)
        };
        match entry {
            Some(Entry::Op(op)) if agree(all[ops[op].calls[0]].request.unwrap(), request) => {
                let may_be_again = ops[op].reply.is_none_or(|reply| {
                    let is_lost = CONNECTIONS[one.conn].0 || all[reply].t_ns < one.since_ns;
                    let limit = if is_lost && request.3.is_some() { LOST_ANSWER_NS } else { LATE_RETRANSMISSION_NS };
                    one.t_ns - all[reply].t_ns < limit
                });
                let since_ns = one.t_ns - all[ops[op].calls[0]].t_ns;
                let is_soon = ops[op].calls.len() == 1 && since_ns < LEAST_TIMER_NS;
                let is_another = ops[op].reply.is_some()
                    && if CONNECTIONS[one.conn].0 {
                        is_soon && !(one.may_be_copy && since_ns < COPY_NS)
                    } else {
                        acknowledges(&ops[op]) && (is_soon || one.at_once || reused[one.conn] >= ENOUGH_REUSED)
                    };
                if may_be_again && !is_another {
                    states[at] = copy_or_again(ops[op].calls[0]);
                    if states[at] == State::Retransmitted {
                        ops[op].calls.push(at);
                        if ops[op].reply.is_none() {
                            ops[op].last_call = at;
                        }
                    }
                    ops[op].again.push(at);
                    continue;
                }
            }
            Some(Entry::Orphan(reply)) => {
                let late_ns = all[reply].t_ns - one.t_ns;
                if all[reply].frame > one.frame || (0..COPY_NS).contains(&late_ns) {
                    adopted = Some(reply);
                    states[reply] = State::Paired;
                    states[at] = State::Paired;
                }
            }
            _ => {}
        }
        if let Some(Entry::Op(op)) = entry {
            if acknowledges(&ops[op]) {
                reused[one.conn] += 1;
            }
            // The call was in the capture before the reply that another one took: so it is this one's.
            if ops[op].reply.is_some_and(|reply| all[reply].frame > one.frame) {
                adopted = ops[op].reply.take();
                has_end = std::mem::take(&mut ops[op].has_end);
                ops[op].last_call = *ops[op].calls.last().unwrap();
                states[ops[op].calls[0]] = State::NoReply;
                states[at] = State::Paired;
            }
        }
        entries.insert((one.conn, one.way, one.xid), Entry::Op(ops.len()));
        ops.push(Op { calls: vec![at], reply: adopted, again: Vec::new(), last_call: at, has_end });
    }
    join(all, &mut states, &mut ops);
    ops.retain(|op| op.reply.is_some());
    ops.sort_by_key(|op| all[op.calls[0]].frame);
    (states, ops)
}

/// An unanswered call that comes again on a connection of the same ends that began after it.
fn join(all: &[Message], states: &mut [State], ops: &mut Vec<Op>) {
    let times = |conn| all.iter().filter(move |one| one.conn == conn).map(|one| one.t_ns);
    ops.sort_by_key(|op| all[op.calls[0]].t_ns);
    let continues = |op: &Op, later: &Op| {
        let (first, old, new) = (&all[op.calls[0]], &all[op.last_call], &all[later.calls[0]]);
        let same_ends = CONNECTIONS[old.conn].1 == CONNECTIONS[new.conn].1 && (old.way, new.way) == (0, 0);
        (first.xid == new.xid && old.conn != new.conn && same_ends)
            && times(new.conn).min() >= Some(old.t_ns)
            && times(old.conn).max() <= Some(new.t_ns)
            && agree(first.request.unwrap(), new.request.unwrap())
    };
    let mut at = 0;
    while at < ops.len() {
        let op = &ops[at];
        let later = (at + 1..ops.len()).find(|later| op.reply.is_none() && continues(op, &ops[*later]));
        let Some(later) = later else {
            at += 1;
            continue;
        };
        let later = ops.remove(later);
        states[later.calls[0]] = State::Retransmitted;
        states[ops[at].calls[0]] = if later.reply.is_some() { State::Paired } else { State::NoReply };
        let op = &mut ops[at];
        op.reply = later.reply;
        op.again.push(later.calls[0]);
        op.again.extend(later.again);
        op.calls.extend(later.calls);
        op.last_call = later.last_call;
    }
}

/// What the decoder's pairing makes of the messages.
fn pair(all: &[Message]) -> Pairing {
    let mut pairing = Pairing::default();
    for (number, one) in all.iter().enumerate() {
        let place = Place {
            conn: one.conn as u32,
            direction: if one.request.is_some() { one.way } else { 1 - one.way },
            frame: one.frame,
            t_ns: one.t_ns,
            is_udp: CONNECTIONS[one.conn].0,
            may_be_copy: one.may_be_copy,
            is_early: false,
            since_ns: one.since_ns,
            acked: one.acks.then_some(number as u32),
            at_once: one.at_once,
        };
        let row = match one.request {
            Some((procedure, offset, count, handle)) => {
                let mut bytes = read_of(one.xid, &[handle.unwrap_or(0)], offset.unwrap_or(0), count.unwrap_or(0));
                bytes[23] = procedure as u8;
                let seen = if handle.is_some() { bytes.len() } else { 40 };
                let call = parse_call(&bytes[..seen], ranks()).unwrap();
                assert_eq!(call.fh != NONE, handle.is_some());
                pairing.call(&place, &call)
            }
            None => {
                let bytes = reply(one.xid, &[]);
                let head = parse_reply(&bytes).unwrap();
                let results = &bytes[head.results_at..];
                pairing.reply(&place, &head, |key| crate::results::parse_results(results, key))
            }
        };
        pairing.measured(row, 100, 1 + number as u32);
        pairing.finish(row, one.frame, one.t_ns, true);
    }
    pairing.close(|conn, direction| {
        let (client, server) = ((u128::from(CONNECTIONS[conn as usize].1), 700 + conn as u16), (99, 2049));
        if direction == 0 { (client.0, server.0, server.1) } else { (server.0, client.0, client.1) }
    });
    pairing
}

proptest! {
    #![proptest_config(cases(2000))]

    /// Every message has one state, which is that of the model, and ops are in the order of their calls.
    #[test]
    fn as_the_model_says(steps in steps()) {
        let all = messages(&steps);
        let (states, ops) = model(&all);
        let found = pair(&all);

        let lines: Vec<_> = (0..found.ops.t0.len())
            .map(|row| {
                let ops = &found.ops;
                let frames = (ops.call_first_frame[row] as u32, ops.reply_first_frame[row] as u32);
                (frames, ops.transmissions[row] as usize, ops.conn[row] as usize, ops.xid[row])
            })
            .collect();
        let expected: Vec<_> = ops
            .iter()
            .map(|op| {
                let (call, reply) = (&all[op.calls[0]], &all[op.reply.unwrap()]);
                ((call.frame, reply.frame), op.calls.len(), reply.conn, call.xid)
            })
            .collect();
        prop_assert_eq!(lines, expected);

        let mut owners = vec![-1; all.len()];
        for (row, op) in ops.iter().enumerate() {
            op.again.iter().for_each(|at| owners[*at] = row as i32);
        }
        let loose = &found.loose;
        let lines: Vec<_> =
            (0..loose.op.len()).map(|row| (loose.first_frame[row] as u32, state(loose.state[row]), loose.op[row])).collect();
        let mut expected: Vec<_> = (0..all.len())
            .filter(|at| states[*at] != State::Paired)
            .map(|at| (all[at].frame, states[at], owners[at]))
            .collect();
        expected.sort_by_key(|line| line.0);
        prop_assert_eq!(lines, expected);
        prop_assert_eq!(2 * found.ops.t0.len() + loose.op.len(), all.len());
    }
}

// Timelines.

fn c(seq: u32, message: &[u8]) -> Tcp {
    tcp(CLIENT, SERVER).seq(seq).data(&record(message))
}

fn s(seq: u32, message: &[u8]) -> Tcp {
    tcp(SERVER, CLIENT).seq(seq).data(&record(message))
}

/// A call that RPC sends again on its connection and that is answered once is one op, from its first transmission on.
#[test]
fn sent_twice_answered_once() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.at_us(0).tcp(&c(1, &read(7, 0, 512))); // 4
    capture.at_us(60_000_000).tcp(&c(69, &read(7, 0, 512))); // 5
    capture.at_us(60_001_000).tcp(&s(1, &reply(7, &[]))); // 6
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(7, (4, 4), (6, 6), 2, true)]);
    assert_eq!(loose(&decoder), [(7, (5, 5), State::Retransmitted, 0)]);
    assert_eq!((decoder.pairing.ops.t0[0], decoder.pairing.ops.t2[0]), (0, 60_001_000_000));
}

/// Answered twice, the first answer counts and the other one belongs to the same op.
#[test]
fn sent_twice_answered_twice() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.at_us(0).tcp(&c(1, &read(7, 0, 512))); // 4
    capture.at_us(100).tcp(&c(69, &read(7, 0, 512))); // 5
    capture.at_us(200).tcp(&s(1, &reply(7, &[]))); // 6
    capture.at_us(300).tcp(&s(33, &reply(7, &[]))); // 7
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(7, (4, 4), (6, 6), 2, true)]);
    assert_eq!(loose(&decoder), [(7, (5, 5), State::Retransmitted, 0), (7, (7, 7), State::Retransmitted, 0)]);
}

/// An XID that is used again for something else is a new op at once.
#[test]
fn xid_for_another_request() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.at_us(0).tcp(&c(1, &read(7, 0, 512))); // 4
    capture.at_us(100).tcp(&s(1, &reply(7, &[]))); // 5
    capture.at_us(200).tcp(&c(69, &read(7, 512, 512))); // 6
    capture.at_us(300).tcp(&s(33, &reply(7, &[]))); // 7
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(7, (4, 4), (5, 5), 1, true), (7, (6, 6), (7, 7), 1, true)]);
}

/// The same request with the XID of an answered one is a late retransmission within a second, later it is a new op.
#[test]
fn xid_for_the_same_request() {
    for (again_us, is_new) in [(999_000, false), (1_001_000, true)] {
        let mut capture = Capture::new();
        capture.handshake(CLIENT, SERVER);
        capture.at_us(0).tcp(&c(1, &read(7, 0, 512))); // 4
        capture.at_us(0).tcp(&s(1, &reply(7, &[]))); // 5
        capture.at_us(again_us).tcp(&c(69, &read(7, 0, 512))); // 6
        capture.at_us(again_us).tcp(&s(33, &reply(7, &[]))); // 7
        let decoder = capture.end();
        let again = (7, (6, 6), (7, 7), 1, true);
        assert_eq!(ops(&decoder)[1..], if is_new { vec![again] } else { vec![] });
        assert_eq!(ops(&decoder)[0].3, if is_new { 1 } else { 2 });
    }
}

/// A call that acknowledges the answer is a new one, since no timer runs out as soon; or later, where nothing in front of
/// it was on the way, so that it did not wait in the socket. One that does not was sent before the answer arrived.
#[test]
fn xid_in_use_again_soon() {
    for (again_us, acked, call_acked, is_new) in [
        (13_000, 33, 69, true),
        (13_000, 32, 69, false), // all but the last byte of the answer
        (13_000, 33, 1, true),
        (900_000, 33, 69, true),
        (900_000, 33, 68, false),
        (900_000, 32, 69, false),
    ] {
        let mut capture = Capture::new();
        capture.handshake(CLIENT, SERVER);
        capture.at_us(0).tcp(&c(1, &read(7, 0, 512))); // 4
        capture.at_us(100).tcp(&s(1, &reply(7, &[])).ack(call_acked)); // 5: 32 bytes
        capture.at_us(again_us).tcp(&c(69, &read(7, 0, 512)).ack(acked)); // 6
        capture.at_us(again_us + 100).tcp(&s(33, &reply(7, &[]))); // 7
        let decoder = capture.end();
        let again = (7, (6, 6), (7, 7), 1, true);
        assert_eq!(ops(&decoder)[1..], if is_new { vec![again] } else { vec![] }, "{again_us} {acked} {call_acked}");
        assert_eq!(ops(&decoder)[0].3, if is_new { 1 } else { 2 });
    }
}

/// Where XIDs come again soon all the time, one that comes again after a timer's time is a new call, too, whatever is on
/// the way in front of it.
#[test]
fn xids_that_are_used_again_all_the_time() {
    for (times, is_new) in [(8, false), (9, true)] {
        let mut capture = Capture::new();
        capture.handshake(CLIENT, SERVER);
        for n in 0..times {
            let at = i64::from(n) * 10_000;
            capture.at_us(at).tcp(&c(1 + 68 * n, &read(7, 0, 512)).ack(1 + 32 * n));
            capture.at_us(at + 100).tcp(&s(1 + 32 * n, &reply(7, &[])));
        }
        let last = i64::from(times) * 10_000 + 200_000;
        capture.at_us(last).tcp(&c(1 + 68 * times, &read(7, 0, 512)).ack(1 + 32 * times));
        capture.at_us(last + 100).tcp(&s(1 + 32 * times, &reply(7, &[])));
        assert_eq!(ops(&capture.end()).len() as u32, times + u32::from(is_new));
    }
}

/// Over UDP there is but the time: no timer runs out within 50 ms.
#[test]
fn xid_in_use_again_soon_over_udp() {
    for (again_us, is_new) in [(49_000, true), (51_000, false)] {
        let mut capture = Capture::new();
        for (at_us, id) in [(0, 1), (again_us, 3)] {
            capture.at_us(at_us).udp(CLIENT, SERVER, id, &read(7, 0, 512));
            capture.at_us(at_us + 100).udp(SERVER, CLIENT, id + 1, &reply(7, &[]));
        }
        let decoder = capture.end();
        assert_eq!(ops(&decoder).len(), if is_new { 2 } else { 1 });
        assert_eq!(ops(&decoder)[0].3, if is_new { 1 } else { 2 });
    }
}

/// Between the same ports, on a new connection: the answer was lost with the old one, so the op is the same for minutes.
#[test]
fn same_ports_after_the_answer() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.at_us(0).tcp(&c(1, &read(7, 0, 512))); // 4
    capture.at_us(100).tcp(&s(1, &reply(7, &[]))); // 5
    capture.at_us(60_000_000).tcp(&syn(CLIENT, SERVER, 5_000_000)); // 6
    capture.tcp(&syn_ack(SERVER, CLIENT, 6_000_000, 5_000_001)); // 7
    capture.tcp(&c(5_000_001, &read(7, 0, 512))); // 8
    capture.tcp(&s(6_000_001, &reply(7, &[]))); // 9
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(7, (4, 4), (5, 5), 2, true)]);
    assert_eq!(loose(&decoder), [(7, (8, 8), State::Retransmitted, 0), (7, (9, 9), State::Retransmitted, 0)]);
}

/// A call without an answer that comes again from other ports is one op: of the connection that brought the answer.
#[test]
fn reconnect_from_other_ports() {
    let ports: [End; 3] = [(1, 700), (1, 701), (1, 702)];
    let mut capture = Capture::new();
    for (number, client) in ports.iter().enumerate() {
        capture.at_us(60_000_000 * number as i64).handshake(*client, SERVER); // 1 to 3, 5 to 7, 9 to 11
        capture.tcp(&tcp(*client, SERVER).data(&record(&read(7, 0, 512)))); // 4, 8, 12
    }
    capture.tcp(&tcp(SERVER, ports[2]).data(&record(&reply(7, &[])))); // 13
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(7, (4, 4), (13, 13), 3, true)]);
    assert_eq!(decoder.pairing.ops.conn, [2]);
    assert_eq!(loose(&decoder), [(7, (8, 8), State::Retransmitted, 0), (7, (12, 12), State::Retransmitted, 0)]);
}

/// Connections that live at the same time may use one XID for the same request: those are two ops.
#[test]
fn live_connections() {
    let other: End = (1, 701);
    let mut capture = Capture::new();
    capture.at_us(0).handshake(CLIENT, SERVER); // 1 to 3
    capture.at_us(1).tcp(&c(1, &read(7, 0, 512))); // 4
    capture.at_us(2).handshake(other, SERVER); // 5 to 7
    capture.at_us(3).tcp(&tcp(other, SERVER).data(&record(&read(7, 0, 512)))); // 8
    capture.at_us(4).tcp(&tcp(SERVER, other).data(&record(&reply(7, &[])))); // 9
    capture.at_us(5).tcp(&c(69, &read(8, 0, 512))); // 10
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(7, (8, 8), (9, 9), 1, true)]);
    assert_eq!(loose(&decoder), [(7, (4, 4), State::NoReply, -1), (8, (10, 10), State::NoReply, -1)]);
}

/// What the reply on the new connection says is kept with the op: status, failed operation, slots.
#[test]
fn reconnect_keeps_what_the_reply_says() {
    let other: End = (1, 701);
    let sequence = Bytes::default().id().words(&[42, 3, 17, 0]);
    let call = nfs4(&[(53, sequence), (22, Bytes::default().opaque(HANDLE)), (9, words(&[0]))]);
    let results = words(&[70]).opaque(b"").words(&[2, 53, 0]).id().words(&[42, 3, 19, 29, 0, 22, 70]); // NFS4ERR_STALE
    let mut capture = Capture::new();
    capture.at_us(0).handshake(CLIENT, SERVER); // 1 to 3
    capture.tcp(&c(1, &call)); // 4
    capture.at_us(60_000_000).handshake(other, SERVER); // 5 to 7
    capture.tcp(&tcp(other, SERVER).data(&record(&call))); // 8
    capture.tcp(&tcp(SERVER, other).data(&record(&build::reply(&results)))); // 9
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(XID, (4, 4), (9, 9), 2, true)]);
    let pairing = &decoder.pairing;
    assert_eq!((&pairing.ops.status, &pairing.failures.op, &pairing.failures.results), (&vec![70], &vec![0], &vec![2]));
    assert_eq!((&pairing.slots.op, &pairing.slots.highest), (&vec![0], &vec![17]));
    assert_eq!((&pairing.slots.reply_highest, &pairing.slots.target_highest), (&vec![19], &vec![29]));
}

/// A reply that the capture has in front of its call is paired where it is less than a millisecond younger.
#[test]
fn reply_in_front_of_its_call() {
    for (reply_us, is_paired) in [(1000, true), (1999, true), (2001, false), (999, false)] {
        let mut capture = Capture::new();
        capture.handshake(CLIENT, SERVER);
        capture.at_us(reply_us).tcp(&s(1, &reply(7, &[]))); // 4
        capture.at_us(1000).tcp(&c(1, &read(7, 0, 512))); // 5
        let decoder = capture.end();
        if is_paired {
            assert_eq!((ops(&decoder), loose(&decoder)), (vec![(7, (5, 5), (4, 4), 1, true)], vec![]));
        } else {
            let alone = vec![(7, (4, 4), State::NoCall, -1), (7, (5, 5), State::NoReply, -1)];
            assert_eq!((ops(&decoder), loose(&decoder)), (vec![], alone), "{reply_us}");
        }
    }
}

/// A call that waited behind a hole finds the reply that was captured after it and taken before it.
#[test]
fn call_behind_a_hole() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.at_us(0).tcp(&c(69, &read(8, 0, 512))); // 4: READ 7 is missing in front
    capture.at_us(500_000).tcp(&s(1, &reply(8, &[])).ack(137)); // 5
    capture.at_us(600_000).tcp(&c(1, &read(7, 0, 512))); // 6
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(8, (4, 4), (5, 5), 1, true)]);
    assert_eq!(loose(&decoder), [(7, (6, 6), State::NoReply, -1)]);
}

/// The reply to a call that waited behind a hole was taken for that of an older op: it moves, and ends where it ends.
#[test]
fn reply_that_is_handed_on() {
    let long = record(&reply(7, &[5; 2968])); // 3000 bytes
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.at_us(0).tcp(&c(1, &read(7, 0, 512))); // 4: never answered
    capture.at_us(500_000).tcp(&c(137, &read(7, 512, 512))); // 5: READ 6 is missing in front
    capture.at_us(600_000).tcp(&tcp(SERVER, CLIENT).seq(1).ack(205).data(&long[..2000])); // 6
    capture.at_us(600_100).tcp(&c(69, &read(6, 0, 512))); // 7
    capture.at_us(600_200).tcp(&tcp(SERVER, CLIENT).seq(2001).ack(205).data(&long[2000..])); // 8
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(7, (5, 5), (6, 8), 1, true)]);
    let no_reply = [(7, (4, 4), State::NoReply, -1), (6, (7, 7), State::NoReply, -1)];
    assert_eq!(loose(&decoder), no_reply);
}

/// The answer to a call that waits behind a hole is kept for it where the XID was answered before.
#[test]
fn xid_used_again_behind_a_hole() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.at_us(0).tcp(&c(1, &read(7, 0, 512))); // 4
    capture.at_us(100).tcp(&s(1, &reply(7, &[]))); // 5
    capture.at_us(200).tcp(&c(137, &read(7, 512, 512))); // 6: READ 8 is missing in front
    capture.at_us(300).tcp(&s(33, &reply(7, &[]))); // 7
    capture.at_us(400).tcp(&c(69, &read(8, 0, 512))); // 8
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(7, (4, 4), (5, 5), 1, true), (7, (6, 6), (7, 7), 1, true)]);
    assert_eq!(loose(&decoder), [(8, (8, 8), State::NoReply, -1)]);
}

/// A call that was sent again and waits behind a hole, and the second answer that overtakes it, both belong to the op.
#[test]
fn sent_again_behind_a_hole() {
    let mut capture = Capture::new();
    capture.handshake(CLIENT, SERVER);
    capture.at_us(0).tcp(&c(1, &read(7, 0, 512))); // 4
    capture.at_us(100).tcp(&c(137, &read(7, 0, 512))); // 5: READ 8 is missing in front
    capture.at_us(200).tcp(&s(1, &reply(7, &[]))); // 6
    capture.at_us(300).tcp(&s(33, &reply(7, &[]))); // 7
    capture.at_us(400).tcp(&c(69, &read(8, 0, 512))); // 8
    let decoder = capture.end();
    assert_eq!(ops(&decoder), [(7, (4, 4), (6, 6), 2, true)]);
    let again = [(7, (5, 5), State::Retransmitted, 0), (7, (7, 7), State::Retransmitted, 0)];
    assert_eq!(loose(&decoder)[..2], again);
}

/// Over UDP the same datagram twice within a millisecond is a copy where there is no IP identification to tell.
#[test]
fn copies_over_udp() {
    for (id, again_us, expected) in [
        (0, 900, State::DuplicateFrame),
        (0, 1100, State::Retransmitted),
        (5, 900, State::Retransmitted), // another identification: sent again
    ] {
        let mut capture = Capture::new();
        capture.at_us(0).udp(CLIENT, SERVER, id, &read(7, 0, 512)); // 1
        capture.at_us(again_us).udp(CLIENT, SERVER, if id == 0 { 0 } else { 6 }, &read(7, 0, 512)); // 2
        capture.at_us(2000).udp(SERVER, CLIENT, 9, &reply(7, &[])); // 3
        let decoder = capture.end();
        let transmissions = if expected == State::Retransmitted { 2 } else { 1 };
        assert_eq!(ops(&decoder), [(7, (1, 1), (3, 3), transmissions, true)]);
        assert_eq!(loose(&decoder), [(7, (2, 2), expected, 0)]);
    }
}
