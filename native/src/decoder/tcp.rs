//! Directions of TCP connections that are over, as a table.

use super::Finished;
use crate::table::table;

table! {
    /// One row a direction of a TCP connection (`nfslat.model.details.Tcp`).
    pub struct Tcp of TcpRow {
        conn: i64,
        reconnect: i64,
        direction: i64,
        packets: i64,
        first_ns: i64,
        last_ns: i64,
        data_packets: i64,
        bytes: i64,
        largest_payload: i64,
        super_packets: i64,
        first_seq: i64,
        seq_span: i64,
        acked_span: i64,
        retransmissions: i64,
        retransmitted_bytes: i64,
        duplicates: i64,
        out_of_order: i64,
        late_bytes: i64,
        keep_alives: i64,
        lost_ranges: i64,
        lost_bytes: i64,
        zero_windows: i64,
        zero_window_ns: i64,
        stalls: i64,
        stalled_ns: i64,
        saw_syn: i64,
        window_scale: i64,
        mss: i64,
        rtt_count: i64,
        rtt_sum_ns: i64,
        rtt_min_ns: i64,
        rtt_max_ns: i64,
    }
}

impl From<&Finished> for TcpRow {
    fn from(done: &Finished) -> TcpRow {
        let traffic = &done.traffic;
        let has_rtt = traffic.rtt_count > 0;
        TcpRow {
            conn: done.conn.into(),
            reconnect: done.reconnect.into(),
            direction: done.direction.into(),
            packets: traffic.packets as i64,
            first_ns: traffic.first_ns,
            last_ns: traffic.last_ns,
            data_packets: traffic.data_packets as i64,
            bytes: traffic.bytes as i64,
            largest_payload: traffic.largest_payload.into(),
            super_packets: traffic.super_packets as i64,
            first_seq: done.range.map_or(-1, |range| i64::from(range.0)),
            seq_span: done.range.map_or(-1, |range| range.1 as i64),
            acked_span: done.acked.map_or(-1, |acked| acked as i64),
            retransmissions: traffic.retransmissions.into(),
            retransmitted_bytes: traffic.retransmitted_bytes as i64,
            duplicates: traffic.duplicates.into(),
            out_of_order: traffic.out_of_order.into(),
            late_bytes: traffic.late_bytes as i64,
            keep_alives: traffic.keep_alives.into(),
            lost_ranges: done.lost_ranges.into(),
            lost_bytes: done.lost_bytes as i64,
            zero_windows: traffic.zero_windows.into(),
            zero_window_ns: traffic.zero_window_ns,
            stalls: traffic.stalls.into(),
            stalled_ns: traffic.stalled_ns,
            saw_syn: (traffic.syns > 0).into(),
            window_scale: traffic.window_scale.map_or(-1, i64::from),
            mss: traffic.mss.map_or(-1, i64::from),
            rtt_count: traffic.rtt_count.into(),
            rtt_sum_ns: traffic.rtt_sum_ns,
            rtt_min_ns: if has_rtt { traffic.rtt_min_ns } else { -1 },
            rtt_max_ns: if has_rtt { traffic.rtt_max_ns } else { -1 },
        }
    }
}

impl Tcp {
    pub fn of(finished: &[Finished]) -> Tcp {
        let mut table = Tcp::default();
        finished.iter().for_each(|done| table.push_row(done.into()));
        table
    }
}
