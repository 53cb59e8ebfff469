//! Silences of a sender in, what each of them waited for out (`nfslat.wire.stalls`, where the sources of it are said).

use hashbrown::HashMap;

use crate::waits::{Ended, Pause, Went};

const MS: i64 = 1_000_000;
const NULL: i64 = -1;
/// Linux and FreeBSD; Solaris has 400, RFC 6298 a second: there all the more.
pub const RTO_MIN_NS: i64 = 200 * MS;
/// 40 ms, a tick early, to 500 (RFC 1122), a tick late.
pub const DELAYED_ACK_NS: (i64, i64) = (30 * MS, 550 * MS);
/// An answer to what was heard comes within so much: a wake-up of a busy or virtual host.
pub const AT_ONCE_NS: i64 = 2 * MS;
/// Parts of the silence: a 20th where that is more, an 8th where that is less.
const AT_ONCE_LEAST: i64 = 20;
const AT_ONCE_MOST: i64 = 8;
/// Of the slowest kernel clock: timers go off so much early or late.
const TICK_NS: i64 = 10 * MS;
/// Two ticks of the slowest clock, which Linux adds to a probe's timer, and a wake-up.
const PROBE_SLACK_NS: i64 = 25 * MS;
/// RFC 5681.
const DUP_ACKS: i32 = 3;
/// From one repeat to the next, where round trips are shorter: a busy host's jitter.
const RECOVERY_NS: i64 = 5 * MS;
/// Timers of delayed ACKs: name in ms, from, to, of the time that the ACK was held. They count in ticks of up to 10 ms,
/// of which the first is under way when they are set.
const TIMERS_MS: [(i64, i64, i64); 5] = [(40, 30, 49), (50, 49, 60), (100, 90, 115), (200, 190, 230), (500, 475, 575)];
/// A time that is longer by more than this part of the one before it is of another timer.
const APART: i64 = 5;
/// With fewer a time without a name is chance.
const TIMES: usize = 3;
/// RFC 7323 section 2.3.
pub const MOST_SHIFT: u32 = 14;
/// Stops to the byte; by chance one in some hundred is, for full segments and windows have no common measure.
const STOPS: usize = 8;
/// Of the stops may lie beyond: a window that was taken back, or what was sent again.
const ODD: f64 = 0.01;
/// No segment is larger (jumbo frames); what is, will be cut up by offload.
const SEGMENT: i64 = 8948;

/// Causes of silences: places in `nfslat.model.causes.CAUSES`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i8)]
pub enum Cause {
    Rto = 0,
    TailLossProbe = 1,
    FastRetransmit = 2,
    ZeroWindow = 9,
    ReceiveWindow = 10,
    DelayedAck = 11,
    UnknownWindow = 13,
    CongestionWindow = 14,
    Sender = 15,
    Recovery = 18,
    Overtaken = 19,
    Spurious = 20,
    Unknown = 24,
}

impl Cause {
    pub fn is_loss(self) -> bool {
        matches!(self, Cause::Rto | Cause::TailLossProbe | Cause::FastRetransmit | Cause::Recovery)
    }
}

/// What is known beside a pause: round trips from the capture to the receiver and to the sender, the MSS, -1 where it is
/// not known, and how much later than the shortest way to the sender and back takes an answer may come.
#[derive(Clone, Copy)]
pub struct Known {
    pub rtt_ns: i64,
    pub far_ns: i64,
    pub mss: i64,
    pub jitter_ns: i64,
}

/// 0 where nothing was sent before.
pub fn silence_ns(pause: &Pause) -> i64 {
    if pause.begin_ns == NULL { 0 } else { pause.end_ns - pause.begin_ns }
}

/// What a sender waits for that an ACK lets go on, and that does not lack room in a window that is known.
pub fn awaited(pause: &Pause) -> Cause {
    if pause.window == NULL { Cause::UnknownWindow } else { Cause::CongestionWindow }
}

/// The cause of each pause.
pub fn classify(pauses: &[Pause], known: impl Fn(usize) -> Known) -> Vec<Cause> {
    // The last repeat of each direction of a connection: the one that may have begun a recovery.
    let mut repeats: HashMap<(i32, i32, i8), usize> = HashMap::new();
    let mut causes = Vec::with_capacity(pauses.len());
    for (row, pause) in pauses.iter().enumerate() {
        let rule = Rule::new(pause, known(row));
        causes.push(match pause.went {
            went if went == Went::Probe as i8 => match pause.window_end {
                NULL => Cause::Unknown,
                0 => Cause::ZeroWindow,
                _ => Cause::Sender,
            },
            went if went == Went::New as i8 => rule.of_new(),
            _ => {
                let before = repeats.insert((pause.conn, pause.reconnect, pause.direction), row);
                rule.of_repeat(before.is_some_and(|before| rule.is_in_recovery(&pauses[before])))
            }
        });
    }
    causes
}

/// A pause with what several rules ask of it.
struct Rule<'a> {
    pause: &'a Pause,
    known: Known,
    silence: i64,

    /// From the last data to what was heard last, and from there to what it went on with.
    until_heard: i64,
    since_heard: i64,
    at_once: bool,
    too_soon: bool,
    acked: bool,
    round_trips: i64,
}

impl Rule<'_> {
    fn new(pause: &Pause, known: Known) -> Rule<'_> {
        let (hears, silence, far) = (pause.heard_ns != NULL, silence_ns(pause), known.far_ns);
        let until_heard = if hears && pause.begin_ns != NULL { pause.heard_ns - pause.begin_ns } else { 0 };
        let since_heard = if hears { pause.end_ns - pause.heard_ns } else { silence };
        let slack = AT_ONCE_NS.min(silence.div_euclid(AT_ONCE_MOST)).max(silence.div_euclid(AT_ONCE_LEAST));
        // Without a figure of the way to the sender a fourth of the wait passes for it.
        let way = if far == NULL { until_heard.div_euclid(4) } else { far + far.div_euclid(4) };
        Rule {
            pause,
            known,
            silence,

            until_heard,
            since_heard,
            at_once: hears && since_heard <= way + slack + known.jitter_ns,
            // Data that come sooner after an ACK than the way to the sender and back is long were not released by it.
            too_soon: hears && far > AT_ONCE_NS && since_heard < far - far.div_euclid(4),
            acked: hears && pause.under_way_end < pause.under_way,
            // End to end.
            round_trips: known.rtt_ns.max(0) + far.max(0),
        }
    }

    fn ended(&self, by: Ended) -> bool {
        self.pause.ended == by as i8
    }

    /// New data were sent.
    fn of_new(&self) -> Cause {
        let (pause, known) = (self.pause, &self.known);
        let size = i64::from(pause.size);
        let segment = if known.mss == NULL { size } else { size.min(known.mss) };
        let answers = self.ended(Ended::Ack) || self.ended(Ended::Window) || self.ended(Ended::Data);
        let released = answers && self.at_once && !self.too_soon;
        // A window that could not take the segment even with all acknowledged, at whichever side it is looked at; and
        // nothing else opens when only the window moves.
        let is_full = (pause.window != NULL && pause.under_way + segment > pause.window)
            || (pause.window_least != NULL && pause.window_least < segment)
            || (pause.window == NULL && self.ended(Ended::Window));
        // The other side's data end its turn, but for the middle of a message.
        let in_turn = !self.ended(Ended::Data) || pause.in_message == 1;
        let late = self.until_heard - known.rtt_ns.max(0);
        // The timer's ACK covers all that has come: where more stays under way it is the path that is slow.
        let by_timer = self.until_heard >= DELAYED_ACK_NS.0
            && late <= DELAYED_ACK_NS.1
            && late >= known.rtt_ns.max(DELAYED_ACK_NS.0 / 2)
            && pause.under_way_end == 0;
        if released && pause.window_least == 0 {
            Cause::ZeroWindow
        } else if released && is_full {
            Cause::ReceiveWindow
        } else if released && self.acked && in_turn {
            if by_timer { Cause::DelayedAck } else { awaited(pause) }
        } else if self.probes_with_new() {
            Cause::TailLossProbe
        } else if self.ended(Ended::Duplicate) && self.at_once && !self.too_soon {
            // Limited transmit (RFC 3042), and what recovery lets through.
            Cause::CongestionWindow
        } else if !self.too_soon {
            Cause::Sender
        } else {
            Cause::Unknown
        }
    }

    /// A tail-loss probe may be a new segment, if there is one: in the middle of a message there is.
    fn probes_with_new(&self) -> bool {
        let (pause, Known { rtt_ns, mss, .. }) = (self.pause, self.known);
        let least = 2 * rtt_ns - rtt_ns.div_euclid(8);
        self.ended(Ended::Nothing)
            && pause.in_message == 1
            && rtt_ns != NULL
            && mss != NULL
            && i64::from(pause.size) <= mss
            && pause.under_way_end > pause.size_before.into()
            && self.silence >= least.max(AT_ONCE_NS)
            && self.silence <= 2 * least + PROBE_SLACK_NS
    }

    /// Bytes were sent again, or came late.
    fn of_repeat(&self, in_recovery: bool) -> Cause {
        let pause = self.pause;
        let is_late = pause.went == Went::Late as i8;
        let since_sent = if pause.sent_ns == NULL { self.silence } else { pause.end_ns - pause.sent_ns };
        let is_told = pause.duplicate_acks > 0;
        // A timer ended it: nothing was heard, or it was heard long ago; and a round trip is over. Or all was
        // acknowledged, and it sent again: that ACK was lost behind the capture, and a timer went off.
        let quiet = (self.round_trips + self.round_trips / 2).max(AT_ONCE_NS);
        let waited = (self.since_heard > quiet && !self.at_once) || (pause.under_way_end == 0 && !is_told && !is_late);
        let is_rto = waited && since_sent >= RTO_MIN_NS - TICK_NS;
        // Only a probe sends the end of what is under way again and leaves what is in front of it.
        let probes = waited && pause.is_tail == 1 && !is_told;
        let follows = in_recovery && !waited;
        if self.at_once && pause.window_least == 0 && pause.window_end > 0 && !is_told {
            Cause::ZeroWindow
        } else if probes && (!is_rto || i64::from(pause.size) < pause.under_way_end) {
            Cause::TailLossProbe
        } else if is_rto {
            Cause::Rto
        } else if is_late && !follows && self.is_too_soon_to_be_sent_again() {
            Cause::Overtaken
        } else if follows {
            Cause::Recovery
        } else if is_told || self.acked {
            Cause::FastRetransmit
        } else if waited && pause.is_tail == 0 {
            Cause::Rto
        } else {
            Cause::Unknown
        }
    }

    /// Can the sender not have known of the hole? At its end no duplicate ACK tells; at the other the way does.
    fn is_too_soon_to_be_sent_again(&self) -> bool {
        let (far, duplicates) = (self.known.far_ns, self.pause.duplicate_acks);
        if far != NULL && far >= self.known.rtt_ns {
            return duplicates < DUP_ACKS && self.silence < far - far.div_euclid(4);
        }
        duplicates == 0 && self.silence < (self.round_trips / 2).max(AT_ONCE_NS)
    }

    /// Is it of the recovery that the repeat `before` it began? The same duplicate ACKs and more may have told of both; or
    /// it follows soon: an ACK for the first, which shows the next hole, takes a round trip.
    fn is_in_recovery(&self, before: &Pause) -> bool {
        let since = self.pause.end_ns - before.end_ns;
        let same_acks = before.duplicate_acks > 0 && self.pause.duplicate_acks >= before.duplicate_acks;
        let is_told = same_acks && since < RTO_MIN_NS && self.pause.offset > before.offset;
        is_told || since < (2 * self.round_trips).max(RECOVERY_NS)
    }
}

/// Windows that no handshake scales, where they are told after all (`nfslat.wire.stalls.with_windows`).
pub fn tell_windows(pauses: &mut [Pause]) {
    let mut asked: HashMap<(i32, i32, i8), Vec<usize>> = HashMap::new();
    for (row, pause) in pauses.iter().enumerate().filter(|(_, pause)| pause.window == NULL && pause.announced > 0) {
        asked.entry((pause.conn, pause.reconnect, pause.direction)).or_default().push(row);
    }
    for rows in asked.into_values() {
        let stop = |row: &usize| (pauses[*row].under_way, pauses[*row].announced, pauses[*row].went == Went::New as i8);
        let stops: Vec<(i64, i64, bool)> = rows.iter().map(stop).collect();
        let (least, is_exact) = shift_of(&stops);
        for row in rows {
            let pause = &mut pauses[row];
            let window = pause.announced << least;
            let has_room = pause.under_way + i64::from(pause.size).min(SEGMENT) <= window;
            pause.window = if has_room || is_exact { window } else { NULL };
        }
    }
}

/// By how many bits the windows of one receiver are shifted, at least; and whether by just so many. Of the stops of its
/// sender: bytes in flight, the window as it stands in the header, and whether the sender went on with new bytes.
pub fn shift_of(stops: &[(i64, i64, bool)]) -> (u32, bool) {
    for shift in 0..=MOST_SHIFT {
        let room = |stop: &&(i64, i64, bool)| (stop.1 << shift) - stop.0;
        // A byte beyond it is a probe's.
        if stops.iter().filter(|stop| room(stop) < -1).count() as f64 <= ODD * stops.len() as f64 {
            return (shift, stops.iter().filter(|stop| room(stop) == 0 && stop.2).count() >= STOPS);
        }
    }
    (MOST_SHIFT, false)
}

/// The delayed-ACK timer that goes with an ACK held so long (`nfslat.wire.stalls.timer_ms`).
pub fn timer_ms(held_ns: i64) -> Option<i64> {
    let timer = TIMERS_MS.iter().find(|(_, least, most)| (least * MS..most * MS).contains(&held_ns));
    timer.map(|(name, ..)| *name)
}

/// For each ACK the name of the timer that held it (-1: none that is known), and how many ACKs there are of that. One
/// receiver has one timer, which goes off a little late or early: times near each other are of the one of their median.
pub fn timers_ms(held_ns: &[i64]) -> Vec<(i64, usize)> {
    let mut order: Vec<usize> = (0..held_ns.len()).collect();
    order.sort_by_key(|row| held_ns[*row]);
    let mut out = vec![(NULL, 0); held_ns.len()];
    for cluster in order.chunk_by(|one, next| held_ns[*next] - held_ns[*one] <= held_ns[*one].max(0) / APART) {
        let timer = timer_ms(held_ns[cluster[(cluster.len() - 1) / 2]]).unwrap_or(NULL);
        cluster.iter().for_each(|row| out[*row] = (timer, cluster.len()));
    }
    out
}

/// Which ACKs can a timer have held? Those near a known one, and others that come again and again: a single one that is
/// late by no timer's time was held by the path, or a host.
pub fn by_timer(held_ns: &[i64]) -> Vec<bool> {
    timers_ms(held_ns).into_iter().map(|(timer, times)| timer != NULL || times >= TIMES).collect()
}
