//! Round trips and silences of a direction in, the ACKs that a timer sent out (`nfslat.tcp.rounds.LateAcks`).

use hashbrown::HashSet;

use super::stalls::{Cause, DELAYED_ACK_NS, by_timer};
use super::stream::{View, is_syn};

/// Columns of `nfslat.tcp.rounds.LateAcks`.
#[derive(Default)]
pub struct LateAcks {
    pub acks: Vec<i64>,
    pub since_ns: Vec<i64>,
    pub held_ns: Vec<i64>,
    pub lost_ns: Vec<i64>,
}

/// Columns of `nfslat.tcp.floors.Samples` that are asked for.
pub struct RoundTrips<'a> {
    pub covered: &'a [i64],
    pub rtt_ns: &'a [i64],
}

/// Columns of `nfslat.tcp.silences.Silences` that are asked for.
pub struct Waits<'a> {
    pub causes: &'a [i8],
    pub heard: &'a [i64],
    pub held_ns: &'a [i64],
}

/// ACKs that a timer sent, and those that the sender stood still for; `near_ns`: to the receiver and back.
pub fn late_acks(one: &View<'_>, trips: &RoundTrips<'_>, waits: &Waits<'_>, near_ns: i64) -> LateAcks {
    let packets = &one.packets;
    let (RoundTrips { covered, rtt_ns }, Waits { causes, heard, held_ns }) = (trips, waits);
    let delayed = (0..causes.len()).filter(|at| causes[*at] == Cause::DelayedAck as i8);
    let waits: Vec<(i64, i64)> = delayed.map(|at| (heard[at], held_ns[at])).collect();
    let waited: HashSet<i64> = waits.iter().map(|wait| wait.0).collect();
    // The oldest data of each ACK come first.
    let oldest = (0..covered.len()).filter(|at| *at == 0 || covered[*at] != covered[at - 1]);
    let acks: Vec<(i64, i64)> = oldest.map(|at| (covered[at], rtt_ns[at])).collect();
    let mut late: Vec<(i64, i64, i64)> = Vec::new();
    for &(ack, since) in &acks {
        let (row, over) = (ack as usize, since - near_ns);
        let may_be = packets.size[row] == 0 && !is_syn(packets, row) && over >= near_ns;
        if may_be && (DELAYED_ACK_NS.0..=DELAYED_ACK_NS.1).contains(&over) && !waited.contains(&ack) {
            late.push((ack, since, 0));
        }
    }
    if !late.is_empty() {
        // A timer's ACK covers all that can have come to the receiver; a slow path leaves some under way.
        let mut last = i64::MIN;
        let sent_ns = one.rows.iter().map(|row| (last = last.max(packets.t_ns[*row as usize]), last).1);
        let sent_ns: Vec<i64> = sent_ns.collect();
        late.retain(|(ack, ..)| {
            let came_ns = packets.t_ns[*ack as usize] - near_ns - near_ns / 2;
            let sent = sent_ns.partition_point(|ns| *ns <= came_ns);
            one.high[sent.saturating_sub(1)] <= packets.ack[*ack as usize]
        });
    }
    for (ack, held) in waits {
        // The ACK for data that were repaired has no sample: it was held since the sender fell silent.
        let at = acks.partition_point(|one| one.0 < ack);
        let since = acks.get(at).filter(|one| one.0 == ack).map_or(held + near_ns, |one| one.1);
        late.push((ack, since, held));
    }
    late.sort_by_key(|ack| ack.0);
    let held_ns: Vec<i64> = late.iter().map(|ack| ack.1 - near_ns).collect();
    let mut out = LateAcks::default();
    for (((ack, since_ns, lost_ns), is_timed), held_ns) in late.into_iter().zip(by_timer(&held_ns)).zip(held_ns) {
        if is_timed || lost_ns > 0 {
            out.acks.push(ack);
            out.since_ns.push(since_ns);
            out.held_ns.push(held_ns);
            out.lost_ns.push(lost_ns);
        }
    }
    out
}
