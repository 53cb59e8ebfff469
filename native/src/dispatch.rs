//! When each call must have been taken by a thread of the server, if there were so many threads.

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
/// A free thread takes the first call of the stream that has waited longest since a call was taken from it, as knfsd
/// does (`svc_xprt_enqueue`, `svc_xprt_received` in net/sunrpc/svc_xprt.c). Replies come when they came; one of a call
/// that has no thread shows that the calls of its stream up to it had one. Panics where a row is out of range.
pub fn starts(work: &Work, threads: usize) -> Vec<i64> {
    let rows = work.arrival_ns.len();
    let streams = work.stream.iter().max().map_or(0, |&last| last as usize + 1);
    let mut waiting: Vec<Stream> = (0..streams).map(|_| Stream { first: NONE, last: NONE, is_ready: false }).collect();
    let mut after = vec![NONE; rows];
    let mut start = vec![FORCED; rows];
    let mut is_taken = vec![false; rows];
    let mut ready = std::collections::VecDeque::new();
    let (mut busy, mut arrived) = (0, 0);
    for answered in work.by_reply.chunk_by(|&one, &next| work.reply_ns[one as usize] == work.reply_ns[next as usize]) {
        let now = work.reply_ns[answered[0] as usize];
        while arrived < rows && work.arrival_ns[arrived] <= now {
            let number = work.stream[arrived] as usize;
            let stream = &mut waiting[number];
            if stream.first == NONE {
                stream.first = arrived as i32;
            } else {
                after[stream.last as usize] = arrived as i32;
            }
            stream.last = arrived as i32;
            if !stream.is_ready {
                stream.is_ready = true;
                ready.push_back(number);
            }
            take(&mut waiting, &mut ready, &after, &mut busy, threads, |taken| {
                start[taken] = work.arrival_ns[arrived];
                is_taken[taken] = true;
            });
            arrived += 1;
        }
        // A thread may answer one call, take the next and answer that, all at one time.
        let mut left: Vec<i32> = answered.to_vec();
        while !left.is_empty() {
            let (with, without): (Vec<i32>, Vec<i32>) = left.iter().partition(|&&row| is_taken[row as usize]);
            busy -= with.len();
            left = without;
            if with.is_empty() {
                busy += force(&mut waiting[work.stream[left[0] as usize] as usize], left[0], &after, &mut is_taken);
                left.remove(0);
            }
            take(&mut waiting, &mut ready, &after, &mut busy, threads, |taken| {
                start[taken] = now;
                is_taken[taken] = true;
            });
        }
    }
    start
}

/// The calls of a stream up to `row`, which is answered, have had threads; how many of them keep theirs.
fn force(stream: &mut Stream, row: i32, after: &[i32], is_taken: &mut [bool]) -> usize {
    let mut others = 0;
    while stream.first != NONE {
        let taken = stream.first;
        stream.first = after[taken as usize];
        is_taken[taken as usize] = true;
        if taken == row {
            break;
        }
        others += 1;
    }
    others
}

/// Give calls to threads as long as there are both.
fn take(
    waiting: &mut [Stream],
    ready: &mut std::collections::VecDeque<usize>,
    after: &[i32],
    busy: &mut usize,
    threads: usize,
    mut begin: impl FnMut(usize),
) {
    while *busy < threads {
        let Some(number) = ready.pop_front() else { return };
        let stream = &mut waiting[number];
        stream.is_ready = false;
        if stream.first == NONE {
            continue; // its calls were all forced
        }
        begin(stream.first as usize);
        *busy += 1;
        stream.first = after[stream.first as usize];
        if stream.first != NONE {
            stream.is_ready = true;
            ready.push_back(number);
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
        starts(&Work { arrival_ns: &arrival_ns, reply_ns: &reply_ns, stream: &stream, by_reply: &by_reply }, threads)
    }

    #[test]
    fn a_thread_takes_the_next_call_when_it_has_answered_one() {
        assert_eq!(of(&[(0, 0, 10), (0, 1, 20), (0, 2, 30)], 1), [0, 10, 20]);
        assert_eq!(of(&[(0, 0, 10), (0, 1, 20), (0, 2, 30)], 2), [0, 1, 10]);
        assert_eq!(of(&[(0, 0, 10), (0, 1, 20), (0, 2, 30)], 3), [0, 1, 2]);
    }

    #[test]
    fn streams_take_turns() {
        // At 10 a call of the second stream is next, though three of the first came before it.
        let calls = [(0, 0, 10), (0, 1, 30), (0, 2, 40), (1, 3, 20)];
        assert_eq!(of(&calls, 1), [0, 10, 30, FORCED]);
        let calls = [(0, 0, 10), (0, 1, 20), (0, 2, 40), (1, 3, 30)];
        assert_eq!(of(&calls, 1), [0, 10, 30, 20]);
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
