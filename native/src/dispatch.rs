//! When each call must have been taken by a thread of the server, if there were so many threads.

use std::cmp::Reverse;
use std::collections::VecDeque;

/// A call that was answered although the model had not given it a thread.
pub const FORCED: i64 = -1;

/// Calls in the order of their arrival, and the order in which they were answered.
pub struct Work<'a> {
    pub arrival_ns: &'a [i64],
    pub reply_ns: &'a [i64],
    /// The stream that each call came in, from 0.
    pub stream: &'a [i32],
    /// Rows in the order of their replies.
    pub by_reply: &'a [i32],
}

/// Calls of one stream that wait for a thread, in their order.
struct Stream {
    first: i32,
    last: i32,
    is_ready: bool,
}

const NONE: i32 = -1;

/// Start of each call with `threads` threads, or `FORCED`.
///
/// Streams stand in a line, as in knfsd (`svc_xprt_enqueue`, `svc_xprt_received` in net/sunrpc/svc_xprt.c). A free
/// thread takes the first call of the first, which goes to the tail, whether it has more calls or not: what comes until
/// its turn is taken then. One that has none when its turn comes leaves the line. Replies come when they came; one of a
/// call that has no thread shows that the calls of its stream up to it had one, and that calls of other streams were given
/// theirs too early. Panics where a row is out of range.
///
/// In a server whose connections are `leaving`, one that has no more calls leaves the line at once.
///
/// Which of the calls in threads was not there yet is a guess: the one that was taken last, or the one that is answered
/// last (`by_answer`).
pub fn starts(work: &Work, threads: usize, by_answer: bool, leaving: bool) -> Vec<i64> {
    starts_unless(work, threads, by_answer, leaving, |_| false).unwrap_or_default()
}

/// The same; None as soon as `is_enough` is true of a row whose call is answered without a thread.
pub fn starts_unless(
    work: &Work,
    threads: usize,
    by_answer: bool,
    leaving: bool,
    mut is_enough: impl FnMut(usize) -> bool,
) -> Option<Vec<i64>> {
    let rows = work.arrival_ns.len();
    let mut model = Model { by_answer, leaving, ..Model::new(work, threads) };
    let mut arrived = 0;
    for answered in work.by_reply.chunk_by(|&one, &next| work.reply_ns[one as usize] == work.reply_ns[next as usize]) {
        let now = work.reply_ns[answered[0] as usize];
        while arrived < rows && work.arrival_ns[arrived] <= now {
            if model.busy < threads {
                model.take_at_once(arrived);
            } else {
                model.arrive(arrived);
            }
            arrived += 1;
        }
        // As nearly always.
        if answered.len() == 1 && model.state[answered[0] as usize] == State::InThread {
            model.state[answered[0] as usize] = State::Answered;
            model.busy -= 1;
            model.take(now);
            continue;
        }
        // A thread may answer one call, take the next and answer that, all at one time.
        let mut left: Vec<i32> = answered.to_vec();
        while !left.is_empty() {
            let (with, without): (Vec<i32>, Vec<i32>) =
                left.iter().partition(|&&row| model.state[row as usize] == State::InThread);
            for &row in &with {
                model.state[row as usize] = State::Answered;
            }
            model.busy -= with.len();
            left = without;
            if with.is_empty() {
                let row = left.remove(0) as usize;
                if is_enough(row) {
                    return None;
                }
                model.force(row);
            }
            model.take(now);
        }
    }
    Some(model.start)
}

/// The most calls that were in threads at once, whatever the server is like, and how often so many were.
///
/// A call is in a thread no later than when a younger one of its stream is answered. Replies of one time count as one
/// after another.
pub fn bound(work: &Work) -> (i64, i64) {
    let streams = work.stream.iter().max().map_or(0, |&last| last as usize + 1);
    let (mut calls, mut shown_of) = (vec![0_i64; streams], vec![0_i64; streams]);
    let place: Vec<i64> = work
        .stream
        .iter()
        .map(|&number| {
            calls[number as usize] += 1;
            calls[number as usize]
        })
        .collect();
    let (mut shown, mut answered, mut most, mut times) = (0, 0, 0, 0);
    for at_once in work.by_reply.chunk_by(|&one, &next| work.reply_ns[one as usize] == work.reply_ns[next as usize]) {
        for &row in at_once {
            let number = work.stream[row as usize] as usize;
            shown += (place[row as usize] - shown_of[number]).max(0);
            shown_of[number] = shown_of[number].max(place[row as usize]);
        }
        answered += at_once.len() as i64;
        let inside = shown - answered + 1;
        if inside > most {
            (most, times) = (inside, 0);
        }
        times += i64::from(inside == most);
    }
    (most, times)
}

/// Calls without an answer when each one arrives, itself included; what is answered at that time is.
pub fn in_flight(work: &Work) -> Vec<i32> {
    let mut replies = work.by_reply.iter().map(|&row| work.reply_ns[row as usize]).peekable();
    let mut answered = 0;
    let at_arrival = work.arrival_ns.iter().zip(1..).map(|(&now, arrived)| {
        while replies.next_if(|&reply_ns| reply_ns <= now).is_some() {
            answered += 1;
        }
        arrived - answered
    });
    at_arrival.collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    InThread,
    Answered,
}

struct Model<'a> {
    work: &'a Work<'a>,
    threads: usize,
    by_answer: bool,
    leaving: bool,
    busy: usize,
    waiting: Vec<Stream>,
    /// The next call of the same stream.
    after: Vec<i32>,
    start: Vec<i64>,
    state: Vec<State>,
    /// Streams in the order of their turns.
    ready: VecDeque<usize>,
    /// Calls in the order in which threads took them; those that are answered are taken away from the end only.
    given: Vec<i32>,
}

/// So far back calls are looked for that were given a thread too early, and turns that are to be changed.
const FEW: usize = 64;

impl<'a> Model<'a> {
    fn new(work: &'a Work<'a>, threads: usize) -> Self {
        let rows = work.arrival_ns.len();
        let streams = work.stream.iter().max().map_or(0, |&last| last as usize + 1);
        Self {
            work,
            threads,
            by_answer: false,
            leaving: false,
            busy: 0,
            waiting: (0..streams).map(|_| Stream { first: NONE, last: NONE, is_ready: false }).collect(),
            after: vec![NONE; rows],
            start: vec![FORCED; rows],
            state: vec![State::Waiting; rows],
            ready: VecDeque::new(),
            given: Vec::new(),
        }
    }

    fn arrive(&mut self, row: usize) {
        let number = self.work.stream[row] as usize;
        let stream = &mut self.waiting[number];
        if stream.last != NONE {
            self.after[stream.last as usize] = row as i32;
        }
        if stream.first == NONE {
            stream.first = row as i32;
        }
        stream.last = row as i32;
        if !stream.is_ready {
            stream.is_ready = true;
            self.ready.push_back(number);
        }
    }

    /// A call arrives while a thread is idle, so that no other one waits and no stream is in the line.
    fn take_at_once(&mut self, row: usize) {
        self.start[row] = self.work.arrival_ns[row];
        self.state[row] = State::InThread;
        self.given.push(row as i32);
        self.busy += 1;
        let number = self.work.stream[row] as usize;
        let stream = &mut self.waiting[number];
        if stream.last != NONE {
            self.after[stream.last as usize] = row as i32;
        }
        stream.last = row as i32;
        // As long as there are idle threads it has its turn again at once, and leaves the line.
        stream.is_ready = !self.leaving && self.busy == self.threads;
        if stream.is_ready {
            self.ready.push_back(number);
        }
    }

    /// Give calls to threads as long as there are both.
    fn take(&mut self, now: i64) {
        while self.busy < self.threads {
            let Some(number) = self.ready.pop_front() else { return };
            let stream = &mut self.waiting[number];
            stream.is_ready = false;
            let row = stream.first;
            if row == NONE {
                continue; // nothing has come since its last turn: it leaves the line
            }
            self.start[row as usize] = now;
            self.state[row as usize] = State::InThread;
            self.given.push(row);
            self.busy += 1;
            stream.first = self.after[row as usize];
            if self.leaving && stream.first == NONE {
                continue;
            }
            stream.is_ready = true;
            self.ready.push_back(number);
        }
    }

    /// `row` is answered and had no thread: it and the calls of its stream before it have had one all the same.
    fn force(&mut self, row: usize) {
        let number = self.work.stream[row] as usize;
        let mut others = 0;
        loop {
            let taken = self.waiting[number].first as usize;
            self.waiting[number].first = self.after[taken];
            if taken == row {
                break;
            }
            self.state[taken] = State::InThread;
            others += 1;
        }
        self.state[row] = State::Answered;
        self.turn(number, false);
        self.busy += others;
        for _ in 0..(self.busy + 1).saturating_sub(self.threads).min(others + 1) {
            if !self.give_back(number) {
                break;
            }
        }
    }

    /// The call of another stream that was taken last, or is answered last, waits again; was there one?
    fn give_back(&mut self, except: usize) -> bool {
        while self.given.last().is_some_and(|&row| self.state[row as usize] == State::Answered) {
            self.given.pop();
        }
        let may_wait = |row: i32| {
            let number = self.work.stream[row as usize] as usize;
            let is_last_of_stream = self.after[row as usize] == self.waiting[number].first;
            number != except && self.state[row as usize] == State::InThread && is_last_of_stream
        };
        let mut found = self.given.iter().rev().take(FEW).enumerate().filter(|&(_, &row)| may_wait(row));
        let chosen = if self.by_answer {
            found.max_by_key(|&(back, &row)| (self.work.reply_ns[row as usize], Reverse(back)))
        } else {
            found.next()
        };
        let Some((place, _)) = chosen else { return false };
        let row = self.given.remove(self.given.len() - 1 - place);
        self.start[row as usize] = FORCED;
        self.state[row as usize] = State::Waiting;
        self.busy -= 1;
        let number = self.work.stream[row as usize] as usize;
        let stream = &mut self.waiting[number];
        stream.first = row;
        if !stream.is_ready {
            stream.is_ready = true;
            self.ready.push_back(number);
        }
        self.turn(number, true);
        true
    }

    /// The stream has its turn next, or last, if it has any.
    fn turn(&mut self, number: usize, is_next: bool) {
        let found = if is_next {
            self.ready.iter().rev().take(FEW).position(|&other| other == number).map(|back| self.ready.len() - 1 - back)
        } else {
            self.ready.iter().take(FEW).position(|&other| other == number)
        };
        let Some(place) = found else { return };
        self.ready.remove(place);
        if is_next {
            self.ready.push_front(number);
        } else {
            self.ready.push_back(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Calls of (stream, arrival, reply), in the order of arrival.
    fn of(calls: &[(i32, i64, i64)], threads: usize) -> Vec<i64> {
        let stream: Vec<i32> = calls.iter().map(|call| call.0).collect();
        let arrival_ns: Vec<i64> = calls.iter().map(|call| call.1).collect();
        let reply_ns: Vec<i64> = calls.iter().map(|call| call.2).collect();
        let mut by_reply: Vec<i32> = (0..calls.len() as i32).collect();
        by_reply.sort_by_key(|&row| reply_ns[row as usize]);
        starts(
            &Work { arrival_ns: &arrival_ns, reply_ns: &reply_ns, stream: &stream, by_reply: &by_reply },
            threads,
            false,
            false,
        )
    }

    #[test]
    fn calls_older_than_an_answered_one_are_in_threads() {
        let bound_of = |calls: &[(i64, i64)]| {
            let reply_ns: Vec<i64> = calls.iter().map(|call| call.1).collect();
            let arrival_ns: Vec<i64> = calls.iter().map(|call| call.0).collect();
            let mut by_reply: Vec<i32> = (0..calls.len() as i32).collect();
            by_reply.sort_by_key(|&row| reply_ns[row as usize]);
            let stream = vec![0; calls.len()];
            bound(&Work { arrival_ns: &arrival_ns, reply_ns: &reply_ns, stream: &stream, by_reply: &by_reply })
        };
        assert_eq!(bound_of(&[(0, 10), (1, 20), (2, 30)]), (1, 3));
        assert_eq!(bound_of(&[(0, 30), (1, 20), (2, 10)]), (3, 1));
        assert_eq!(bound_of(&[(0, 10), (1, 10)]), (1, 1));
        assert_eq!(bound_of(&[]), (0, 0));
    }

    #[test]
    fn a_thread_takes_the_next_call_when_it_has_answered_one() {
        assert_eq!(of(&[(0, 0, 10), (0, 1, 20), (0, 2, 30)], 1), [0, 10, 20]);
        assert_eq!(of(&[(0, 0, 10), (0, 1, 20), (0, 2, 30)], 2), [0, 1, 10]);
        assert_eq!(of(&[(0, 0, 10), (0, 1, 20), (0, 2, 30)], 3), [0, 1, 2]);
    }

    #[test]
    fn streams_take_turns() {
        // At 10 a call of the second stream should have been next, as its reply shows: the first stream waits on.
        let calls = [(0, 0, 10), (0, 1, 30), (0, 2, 40), (1, 3, 20)];
        assert_eq!(of(&calls, 1), [0, 20, 30, FORCED]);
        let calls = [(0, 0, 10), (0, 1, 20), (0, 2, 40), (1, 3, 30)];
        assert_eq!(of(&calls, 1), [0, 10, 30, 20]);
    }

    #[test]
    fn a_stream_without_calls_keeps_its_turn() {
        // The first has no more when its call is taken. What it sends at 5 is taken in front of what came before.
        let calls = [(0, 0, 10), (1, 1, 30), (1, 2, 40), (0, 5, 20)];
        assert_eq!(of(&calls, 1), [0, 20, 30, 10]);
        // Its turn comes while a thread is idle: it leaves the line, and stands behind the other with what it sends.
        let calls = [(0, 0, 1), (1, 2, 10), (1, 3, 20), (0, 5, 30)];
        assert_eq!(of(&calls, 1), [0, 2, 10, 20]);
    }

    #[test]
    fn a_reply_out_of_turn_shows_that_its_stream_had_more_threads() {
        assert_eq!(of(&[(0, 0, 30), (0, 1, 20), (0, 2, 10), (0, 3, 40)], 1), [0, FORCED, FORCED, 30]);
    }

    #[test]
    fn an_idle_thread_takes_a_call_at_once() {
        assert_eq!(of(&[(0, 0, 10), (0, 50, 60), (1, 60, 70)], 1), [0, 50, 60]);
    }
}
