//! Passes over packets of TCP conversations, as Python sees them (`nfslat/tcp`).

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{column, table};
use crate::tcp::late::{self, RoundTrips, Waits};
use crate::tcp::same::{self, End};
use crate::tcp::silences::{self as pausing, Beside};
use crate::tcp::stalls::{self, Known};
use crate::tcp::stream::{self as streams, View};
use crate::tcp::{Rows, passage as passages};
use crate::waits::{Pause, Pauses as PauseTable};

type In<'py, T> = PyReadonlyArray1<'py, T>;
type Out<'py, T> = Bound<'py, PyArray1<T>>;

/// An object of Python's with columns, and what Rust sees of it.
macro_rules! views {
    ($($(#[$about:meta])* $name:ident as $view:ident { $($column:ident: $type:ty,)* })*) => {
        $($(#[$about])*
        #[derive(FromPyObject)]
        struct $name<'py> {
            $($column: In<'py, $type>,)*
        }

        impl $name<'_> {
            fn view(&self) -> PyResult<$view<'_>> {
                Ok($view { $($column: self.$column.as_slice()?,)* })
            }
        })*
    };
}

views! {
    /// `nfslat.tcp.packets.Packets`.
    Packets as Rows {
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
    }
    /// `nfslat.tcp.floors.Samples`.
    Samples as RoundTrips { covered: i64, rtt_ns: i64, }
    /// `nfslat.tcp.silences.Silences`.
    Silences as Waits { causes: i8, heard: i64, held_ns: i64, }
}

/// `nfslat.tcp.stream.Stream`.
#[derive(FromPyObject)]
struct Stream<'py> {
    packets: Packets<'py>,
    direction: i8,
    rows: In<'py, i64>,
    high: In<'py, i64>,
    acked: In<'py, i64>,
    heard: In<'py, i64>,
    said: In<'py, i64>,
    covered: In<'py, i64>,
}

impl Stream<'_> {
    fn view(&self) -> PyResult<View<'_>> {
        Ok(View {
            packets: self.packets.view()?,
            rows: self.rows.as_slice()?,
            high: self.high.as_slice()?,
            acked: self.acked.as_slice()?,
            heard: self.heard.as_slice()?,
            said: self.said.as_slice()?,
            covered: self.covered.as_slice()?,
        })
    }
}

/// Columns of `nfslat.model.details.Pauses`.
macro_rules! pauses {
    ($($column:ident: $type:ty,)*) => {
        #[derive(FromPyObject)]
        struct Pauses<'py> {
            $($column: In<'py, $type>,)*
        }

        impl Pauses<'_> {
            fn rows(&self) -> PyResult<Vec<Pause>> {
                $(let $column = self.$column.as_array();)*
                Ok((0..self.end_ns.as_array().len()).map(|row| Pause { $($column: $column[row],)* }).collect())
            }
        }
    };
}

pauses! {
    conn: i32,
    reconnect: i32,
    direction: i8,
    frame: i32,
    begin_ns: i64,
    end_ns: i64,
    heard_ns: i64,
    ended: i8,
    went: i8,
    in_message: i8,
    offset: i64,
    size: i32,
    size_before: i32,
    under_way: i64,
    under_way_end: i64,
    announced: i64,
    window: i64,
    window_least: i64,
    window_end: i64,
    duplicate_acks: i32,
    is_tail: i8,
    sent_ns: i64,
}

/// The causes of pauses (`nfslat.wire.stalls.classify`); of round trips and MSS a number for each.
#[pyfunction]
fn classify<'py>(
    py: Python<'py>,
    pauses: Pauses<'py>,
    rtt_min_ns: In<'py, i64>,
    mss: In<'py, i64>,
    sender_rtt_ns: In<'py, i64>,
) -> PyResult<Out<'py, i8>> {
    let rows = pauses.rows()?;
    let (rtt_ns, mss, far_ns) = (rtt_min_ns.as_array(), mss.as_array(), sender_rtt_ns.as_array());
    let known = |row| Known { rtt_ns: rtt_ns[row], far_ns: far_ns[row], mss: mss[row], jitter_ns: 0 };
    Ok(column(py, stalls::classify(&rows, known).into_iter().map(|cause| cause as i8).collect()))
}

/// Windows of pauses, where they are told after all (`nfslat.wire.stalls.with_windows`).
#[pyfunction]
fn told_windows<'py>(py: Python<'py>, pauses: Pauses<'py>) -> PyResult<Out<'py, i64>> {
    let mut rows = pauses.rows()?;
    stalls::tell_windows(&mut rows);
    Ok(column(py, rows.iter().map(|pause| pause.window).collect()))
}

/// The timer that holds an ACK for so long (`nfslat.wire.stalls.timer_ms`).
#[pyfunction]
fn timer_ms(held_ns: i64) -> Option<i64> {
    stalls::timer_ms(held_ns)
}

/// The timers of several ACKs, and how many ACKs there are of each (`nfslat.wire.stalls.timers_ms`).
#[pyfunction]
fn timers_ms<'py>(py: Python<'py>, held_ns: In<'py, i64>) -> PyResult<(Out<'py, i64>, Out<'py, i64>)> {
    let timers = stalls::timers_ms(held_ns.as_slice()?);
    let (timers, members) = timers.into_iter().map(|(timer, times)| (timer, times as i64)).unzip();
    Ok((column(py, timers), column(py, members)))
}

/// Columns of `nfslat.tcp.stream.Stream`.
#[pyfunction]
fn stream<'py>(py: Python<'py>, packets: Packets<'py>, direction: i8) -> PyResult<[Out<'py, i64>; 6]> {
    let rows = packets.view()?;
    let found = py.detach(|| streams::Stream::of(&rows, direction));
    let streams::Stream { rows, high, acked, heard, said, covered } = found;
    Ok([rows, high, acked, heard, said, covered].map(|one| column(py, one)))
}

/// Columns of `nfslat.tcp.progress.Progress`.
#[pyfunction]
fn progress<'py>(py: Python<'py>, one: Stream<'py>) -> PyResult<[Out<'py, i64>; 6]> {
    let view = one.view()?;
    let streams::Progress { rows, t_ns, low, high, acked_row, acked_ns } = py.detach(|| streams::progress(&view));
    Ok([rows, t_ns, low, high, acked_row, acked_ns].map(|one| column(py, one)))
}

/// Places in `rows` of what was sent again though it was never seen (`nfslat.tcp.packets.Kind`).
#[pyfunction]
fn never_seen<'py>(py: Python<'py>, packets: Packets<'py>, rows: In<'py, i64>) -> PyResult<Out<'py, i64>> {
    Ok(column(py, streams::never_seen(&packets.view()?, rows.as_slice()?)))
}

/// Fields of `nfslat.tcp.floors.Samples`.
type Sampled<'py> = (Out<'py, i64>, Out<'py, i64>, Out<'py, i64>, i64, i64);

/// `nfslat.tcp.floors.Samples`.
#[pyfunction]
fn samples<'py>(py: Python<'py>, one: Stream<'py>) -> PyResult<Sampled<'py>> {
    let view = one.view()?;
    let found = py.detach(|| streams::samples(&view));
    let (sent, covered, rtt_ns) = (column(py, found.sent), column(py, found.covered), column(py, found.rtt_ns));
    Ok((sent, covered, rtt_ns, found.repaired, found.uncovered))
}

/// Rows of what was sent again for nothing (`nfslat.tcp.stream`).
#[pyfunction]
fn needless<'py>(py: Python<'py>, one: Stream<'py>, near_ns: i64, far_ns: i64) -> PyResult<Out<'py, i64>> {
    Ok(column(py, streams::needless(&one.view()?, near_ns, far_ns)))
}

/// `nfslat.tcp.mptcp.Level`.
#[derive(FromPyObject)]
struct Level<'py> {
    edge: [In<'py, i64>; 2],
    sent: [In<'py, i64>; 2],
    is_current: In<'py, bool>,
    is_shut: In<'py, bool>,
}

/// Columns of `nfslat.tcp.silences.Silences`.
type Judged<'py> = (Py<PyDict>, Out<'py, i64>, Out<'py, i8>, Out<'py, i64>, Out<'py, i64>, Out<'py, i64>);

/// What a sender waited for (`nfslat.tcp.silences`); `ways_ns`: from the capture to the receiver, to the sender, what the
/// sender hears later, and from end to end.
#[pyfunction]
#[pyo3(signature = (one, needless, level, shift, mss, ways_ns))]
fn silences<'py>(
    py: Python<'py>,
    one: Stream<'py>,
    needless: In<'py, i64>,
    level: Option<Level<'py>>,
    shift: Option<u32>,
    mss: Option<i64>,
    ways_ns: [i64; 4],
) -> PyResult<Judged<'py>> {
    let way = usize::from(one.direction == 1);
    let level = level.as_ref().map(|level| {
        let (edge, sent) = (level.edge[way].as_slice()?, level.sent[way].as_slice()?);
        let (is_current, is_shut) = (level.is_current.as_slice()?, level.is_shut.as_slice()?);
        Ok::<_, PyErr>(pausing::Level { edge, sent, is_current, is_shut })
    });
    let [near_ns, far_ns, shift_ns, whole_ns] = ways_ns;
    let (mss, needless, level) = (mss.unwrap_or(-1), needless.as_slice()?, level.transpose()?);
    let beside = Beside { shift, mss, near_ns, far_ns, shift_ns, whole_ns, needless, level };
    let view = one.view()?;
    let found = py.detach(|| pausing::silences(&view, one.direction, &beside));
    let mut pauses = PauseTable::default();
    found.pauses.into_iter().for_each(|pause| pauses.push_row(pause));
    let causes = found.causes.into_iter().map(|cause| cause as i8).collect();
    let at = found.at.into_iter().map(|at| at as i64).collect();
    let (heard, held_ns, data_ns) = (column(py, found.heard), column(py, found.held_ns), column(py, found.data_ns));
    Ok((table(py, pauses.take_columns())?, heard, column(py, causes), held_ns, data_ns, column(py, at)))
}

/// Conversations of two captures that share packets with payload (`nfslat.tcp.same`).
#[pyfunction]
fn shared_packets(
    py: Python<'_>,
    captures: [Packets<'_>; 2],
    firsts: [Vec<[i64; 2]>; 2],
) -> PyResult<Vec<(i32, i32, bool, u32)>> {
    let rows = [captures[0].view()?, captures[1].view()?];
    Ok(py.detach(|| same::votes([(rows[0], &firsts[0]), (rows[1], &firsts[1])])))
}

/// Rows of the packets of one direction that both captures of a conversation have (`nfslat.tcp.same`).
#[pyfunction]
fn same_packets<'py>(
    py: Python<'py>,
    captures: [Packets<'py>; 2],
    ways: [i8; 2],
    firsts: [[i64; 2]; 2],
    from_syn: bool,
) -> PyResult<(Out<'py, i64>, Out<'py, i64>)> {
    let end =
        |at: usize| -> PyResult<End<'_>> { Ok(End { rows: captures[at].view()?, way: ways[at], first: firsts[at] }) };
    let (one, two) = (end(0)?, end(1)?);
    let found = py.detach(|| same::same_packets(&one, &two, from_syn));
    Ok((column(py, found.0), column(py, found.1)))
}

/// Packets of either capture by what became of them, sums of bytes, and rows of what was sent again for nothing.
type Passed<'py> = ([[i64; 6]; 2], [i64; 6], Out<'py, i64>);

/// What `nfslat.tcp.passage.passage` makes of both captures of a direction.
#[pyfunction]
#[pyo3(signature = (captures, ways, same, ran, shift, sender, half_trip_ns))]
#[allow(clippy::too_many_arguments, reason = "Python gives them by name")]
fn passage<'py>(
    py: Python<'py>,
    captures: [Packets<'py>; 2],
    ways: [i8; 2],
    same: [In<'py, i64>; 2],
    ran: [(i64, i64); 2],
    shift: i64,
    sender: usize,
    half_trip_ns: i64,
) -> PyResult<Passed<'py>> {
    let side = |at: usize, shift: i64| -> PyResult<passages::Side<'_>> {
        Ok(passages::Side {
            rows: captures[at].view()?,
            way: ways[at],
            same: same[at].as_slice()?,
            ran: ran[at],
            shift,
        })
    };
    let sides = [side(0, 0)?, side(1, shift)?];
    let found = py.detach(|| passages::passage(&sides, sender, half_trip_ns));
    let sums =
        [found.bytes, found.sent_bytes, found.lost_bytes, found.missed_bytes, found.surplus_bytes, found.reordered];
    Ok((found.fates, sums, column(py, found.needless)))
}

/// Columns of `nfslat.tcp.rounds.LateAcks`.
#[pyfunction]
fn late_acks<'py>(
    py: Python<'py>,
    one: Stream<'py>,
    samples: Samples<'py>,
    silences: Silences<'py>,
    near_ns: i64,
) -> PyResult<[Out<'py, i64>; 4]> {
    let (trips, waits) = (samples.view()?, silences.view()?);
    let late::LateAcks { acks, since_ns, held_ns, lost_ns } =
        late::late_acks(&one.view()?, &trips, &waits, near_ns.max(0));
    Ok([acks, since_ns, held_ns, lost_ns].map(|one| column(py, one)))
}

pub(super) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("RTO_MIN_NS", stalls::RTO_MIN_NS)?;
    module.add("DELAYED_ACK_NS", stalls::DELAYED_ACK_NS)?;
    module.add_function(wrap_pyfunction!(shared_packets, module)?)?;
    module.add_function(wrap_pyfunction!(same_packets, module)?)?;
    module.add_function(wrap_pyfunction!(passage, module)?)?;
    module.add_function(wrap_pyfunction!(classify, module)?)?;
    module.add_function(wrap_pyfunction!(told_windows, module)?)?;
    module.add_function(wrap_pyfunction!(timer_ms, module)?)?;
    module.add_function(wrap_pyfunction!(timers_ms, module)?)?;
    module.add_function(wrap_pyfunction!(stream, module)?)?;
    module.add_function(wrap_pyfunction!(progress, module)?)?;
    module.add_function(wrap_pyfunction!(never_seen, module)?)?;
    module.add_function(wrap_pyfunction!(samples, module)?)?;
    module.add_function(wrap_pyfunction!(needless, module)?)?;
    module.add_function(wrap_pyfunction!(silences, module)?)?;
    module.add_function(wrap_pyfunction!(late_acks, module)?)
}
