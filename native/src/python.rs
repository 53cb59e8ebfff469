//! What Python sees of the decoder: one function, and the object by which a running one is watched and stopped.
//!
//! `nfslat/_native.pyi` is the manual.

use std::fs::File as Input;
use std::io::Read;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use numpy::{Element, PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyInterruptedError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use crate::call::NONE;
use crate::capture::{Error, File, Progress};
use crate::columns::{CALL_SHOWN_LAST, REPLY_SHOWN_LAST};
use crate::compound::Ranks;
use crate::container::{Error as ContainerError, Reader};
use crate::decoder::{Decoder, KINDS, decode as read};
use crate::dispatch;
use crate::kernels;
use crate::loads::Loads;
use crate::sweep;
use crate::waits::Pauses;

pyo3::create_exception!(_native, NotACapture, PyValueError, "The bytes are of no format that this decoder reads.");

/// A running `decode`, seen from another thread.
#[pyclass(frozen, module = "nfslat._native")]
#[derive(Default)]
struct Job(Arc<Progress>);

#[pymethods]
impl Job {
    #[new]
    fn new() -> Job {
        Job::default()
    }

    /// Bytes of the files read so far.
    #[getter]
    fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    /// Packets read so far.
    #[getter]
    fn packets(&self) -> u64 {
        self.0.packets.load(Ordering::Relaxed)
    }

    /// Make `decode` end with `InterruptedError`.
    fn stop(&self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// Decode captures, one after the other, as one.
#[pyfunction]
#[pyo3(signature = (paths, nfs_ranks, callback_ranks, action_rank, job))]
fn decode<'py>(
    py: Python<'py>,
    paths: Vec<std::path::PathBuf>,
    nfs_ranks: Vec<u8>,
    callback_ranks: Vec<u8>,
    action_rank: u8,
    job: &Job,
) -> PyResult<Bound<'py, PyDict>> {
    let progress = Arc::clone(&job.0);
    let ranks = Ranks { nfs: nfs_ranks, callback: callback_ranks, action: action_rank };
    let done = py.detach(|| read(paths.iter().map(open), ranks, &progress));
    let (decoder, files) = done.map_err(failure)?;
    let out = result(py, decoder, is_cut(&files))?;
    out.set_item("files", of_files(py, &files)?)?;
    Ok(out)
}

fn open(path: &std::path::PathBuf) -> std::io::Result<Box<dyn Read + Send>> {
    // As it is, for it may be a socket, or someone else's, which cannot be opened by name.
    if path.as_os_str() == "-" { Ok(Box::new(std::io::stdin())) } else { Ok(Box::new(Input::open(path)?)) }
}

/// Format of a capture, and the time of its first packet in ns since 1970.
#[pyfunction]
fn peek(py: Python<'_>, path: std::path::PathBuf) -> PyResult<(&'static str, Option<i64>)> {
    py.detach(|| {
        let failed = |error| failure(Error::Container { file: 0, error });
        let input = Input::open(path).map_err(|error| failed(ContainerError::Io(error)))?;
        let mut reader = Reader::open(Box::new(input)).map_err(failed)?;
        let first_ns = reader.next().map_err(failed)?.map(|packet| packet.t_ns);
        Ok((reader.info().format, first_ns))
    })
}

fn failure(error: Error) -> PyErr {
    let text = error.to_string();
    match error {
        Error::Stopped => PyInterruptedError::new_err(text),
        Error::Container { file, error: ContainerError::NotACapture(_) } => NotACapture::new_err((text, file)),
        Error::Container { file, error: ContainerError::Io(io) } => match io.raw_os_error() {
            Some(number) => PyOSError::new_err((number, io.to_string(), file)),
            None => PyValueError::new_err((text, file)),
        },
        Error::Write { error, .. } => PyOSError::new_err((error.raw_os_error(), error.to_string())),
        Error::Container { file, .. } | Error::Time { file, .. } | Error::Number { file, .. } => {
            PyValueError::new_err((text, file))
        }
        Error::TooMany | Error::TooManyRows(_) | Error::TooManyConversations(_) => PyValueError::new_err((text, 0)),
    }
}

/// A column as a numpy array that owns its memory; nothing is copied.
fn column<T: Element>(py: Python<'_>, mut values: Vec<T>) -> Bound<'_, PyArray1<T>> {
    values.shrink_to_fit();
    PyArray1::from_vec(py, values)
}

macro_rules! columns {
    ($py:expr, $table:expr, $($name:ident)*) => {{
        let columns = PyDict::new($py);
        $(columns.set_item(stringify!($name), column($py, std::mem::take(&mut $table.$name)))?;)*
        columns
    }};
}

mod apart;
mod packets;

fn is_cut(files: &[File]) -> bool {
    files.iter().any(|file| file.snaplen.is_some())
}

/// What one decoder found.
fn result<'py>(py: Python<'py>, mut decoder: Decoder, is_cut: bool) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);

    let connections = PyList::empty(py);
    for conn in 0..decoder.tally.connections.len() {
        let flow = decoder.connection(conn);
        let transport = if flow.shared.is_udp { "udp" } else { "tcp" };
        let ends = flow.first;
        connections.append((transport, text(ends.src), ends.sport, text(ends.dst), ends.dport))?;
    }
    out.set_item("connections", connections)?;
    out.set_item("tls_connections", decoder.flows.list.iter().filter(|flow| flow.shared.is_tls).count())?;

    let mut pairing = std::mem::take(&mut decoder.pairing);
    // A dissector that puts a message together shows it where it is complete; one that sees cut packets, where it begins.
    pairing.ops.publish_flags(if is_cut { 0 } else { CALL_SHOWN_LAST | REPLY_SHOWN_LAST });
    let kinds = PyList::empty(py);
    for kind in &pairing.kinds.list {
        let known = |value: u32| if value == NONE { -1 } else { i64::from(value) };
        let ops: Vec<u16> = kind.ops.clone();
        kinds.append((
            known(kind.program),
            known(kind.version),
            known(kind.minor),
            known(kind.op),
            ops,
            kind.service,
        ))?;
    }
    out.set_item("kinds", kinds)?;
    let ops = &mut pairing.ops;
    out.set_item(
        "ops",
        columns!(py, ops, conn direction xid kind offset size fh t0 t1 t2 t3 call_first_frame call_last_frame
            reply_first_frame reply_last_frame transmissions status accept flags),
    )?;
    out.set_item("callers", columns!(py, ops, uid))?;
    let loose = &mut pairing.loose;
    out.set_item(
        "loose",
        columns!(py, loose, conn direction is_reply xid kind state op first_frame last_frame first_ns last_ns),
    )?;
    let slots = &mut pairing.slots;
    out.set_item("slots", columns!(py, slots, op session slot seqid highest reply_highest target_highest))?;
    out.set_item("sessions", sessions(py, &slots.sessions)?)?;
    let created = PyList::empty(py);
    for (t_ns, session) in &slots.created {
        let (fore, back) = (session.channels.fore, session.channels.back);
        let limits =
            (fore.maxrequests, fore.maxoperations, fore.maxrequestsize, fore.maxresponsesize, back.maxrequests);
        created.append((*t_ns, PyBytes::new(py, &session.session), limits))?;
    }
    out.set_item("created_sessions", created)?;
    let news = &mut pairing.files;
    out.set_item("file_news", columns!(py, news, op event t_ns directory name handle to_directory to_name))?;
    out.set_item("file_handles", strings(py, news.handles.iter())?)?;
    out.set_item("files_dropped", news.dropped)?;
    let names = &mut pairing.names;
    out.set_item("names", columns!(py, names, op name))?;
    out.set_item("name_list", strings(py, names.iter())?)?;
    let failures = &mut pairing.failures;
    out.set_item("failures", columns!(py, failures, op results))?;
    let resent = &mut pairing.resent;
    out.set_item("resent", columns!(py, resent, op is_reply kind frame t_ns bytes))?;
    out.set_item("resent_dropped", resent.dropped)?;
    let blocked = &mut pairing.blocked;
    out.set_item("blocked", columns!(py, blocked, op is_reply until_ns))?;
    out.set_item("blocked_dropped", blocked.dropped)?;

    let events = &mut decoder.events;
    out.set_item("tcp_events", columns!(py, events, kind conn reconnect direction frame t_ns offset value))?;
    out.set_item("tcp_events_dropped", decoder.events.dropped)?;
    out.set_item("pauses_dropped", decoder.pauses.dropped)?;
    out.set_item("pauses", pauses(py, &mut decoder.pauses)?)?;
    out.set_item("loads", loads(py, &decoder.loads)?)?;
    out.set_item("loads_dropped", decoder.loads.dropped)?;
    out.set_item("tcp", traffic(py, &decoder)?)?;
    out.set_item("lost_ranges", decoder.finished.iter().map(|done| u64::from(done.lost_ranges)).sum::<u64>())?;
    out.set_item("lost_bytes", decoder.finished.iter().map(|done| done.lost_bytes).sum::<u64>())?;

    let packet_kinds = PyDict::new(py);
    for (name, count) in KINDS.iter().zip(decoder.kinds) {
        packet_kinds.set_item(name, count)?;
    }
    out.set_item("packet_kinds", packet_kinds)?;
    for (name, count) in [
        ("hidden", decoder.tally.hidden),
        ("malformed", decoder.tally.malformed),
        ("duplicate_packets", decoder.duplicate_packets),
        ("repeated", decoder.repeated),
        ("duplicated", decoder.duplicated),
        ("wire_bytes", decoder.wire_bytes),
        ("captured_bytes", decoder.captured_bytes),
        ("busiest_second_packets", u64::from(decoder.pace.busiest_second())),
        ("backward_times", decoder.pace.backward_times),
        ("largest_backward_ns", decoder.pace.largest_backward_ns as u64),
    ] {
        out.set_item(name, count)?;
    }
    Ok(out)
}

fn of_files<'py>(py: Python<'py>, files: &[File]) -> PyResult<Bound<'py, PyList>> {
    let out = PyList::empty(py);
    for file in files {
        let one = PyDict::new(py);
        one.set_item("format", file.format)?;
        one.set_item("snaplen", file.snaplen)?;
        one.set_item("packets", file.packets)?;
        one.set_item("first_ns", if file.packets == 0 { 0 } else { file.first_ns })?;
        one.set_item("last_ns", if file.packets == 0 { 0 } else { file.last_ns })?;
        one.set_item("damage", file.damage.as_deref())?;
        one.set_item("dropped", file.dropped)?;
        one.set_item("untimed", file.untimed)?;
        out.append(one)?;
    }
    Ok(out)
}

fn sessions<'py>(py: Python<'py>, ids: &[[u8; 16]]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, ids.iter().map(|id| PyBytes::new(py, id)))
}

fn strings<'py, 'a>(py: Python<'py>, all: impl ExactSizeIterator<Item = &'a [u8]>) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, all.map(|one| PyBytes::new(py, one)))
}

/// Silences of senders.
fn pauses<'py>(py: Python<'py>, pauses: &mut Pauses) -> PyResult<Bound<'py, PyDict>> {
    Ok(columns!(py, pauses, conn reconnect direction frame begin_ns end_ns heard_ns ended went in_message offset size
        size_before under_way under_way_end announced window window_least window_end duplicate_acks is_tail sent_ns))
}

fn loads<'py>(py: Python<'py>, loads: &Loads) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    out.set_item("conn", column(py, loads.conn()))?;
    out.set_item("direction", column(py, loads.direction()))?;
    out.set_item("begin_ns", column(py, loads.begin_ns()))?;
    out.set_item("bytes", column(py, loads.bytes()))?;
    out.set_item("stretch_ns", loads.stretch_ns)?;
    Ok(out)
}

/// One row a direction of a TCP connection.
fn traffic<'py>(py: Python<'py>, decoder: &Decoder) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    macro_rules! put {
        ($($name:literal $done:ident => $value:expr;)*) => {
            $(out.set_item($name, column(py, decoder.finished.iter().map(|$done| $value as i64).collect::<Vec<i64>>()))?;)*
        };
    }
    put! {
        "conn" d => d.conn;
        "reconnect" d => d.reconnect;
        "direction" d => d.direction;
        "packets" d => d.traffic.packets;
        "first_ns" d => d.traffic.first_ns;
        "last_ns" d => d.traffic.last_ns;
        "data_packets" d => d.traffic.data_packets;
        "bytes" d => d.traffic.bytes;
        "largest_payload" d => d.traffic.largest_payload;
        "super_packets" d => d.traffic.super_packets;
        "first_seq" d => d.range.map_or(-1, |range| i64::from(range.0));
        "seq_span" d => d.range.map_or(-1, |range| range.1 as i64);
        "retransmissions" d => d.traffic.retransmissions;
        "retransmitted_bytes" d => d.traffic.retransmitted_bytes;
        "duplicates" d => d.traffic.duplicates;
        "out_of_order" d => d.traffic.out_of_order;
        "late_bytes" d => d.traffic.late_bytes;
        "keep_alives" d => d.traffic.keep_alives;
        "lost_ranges" d => d.lost_ranges;
        "lost_bytes" d => d.lost_bytes;
        "zero_windows" d => d.traffic.zero_windows;
        "zero_window_ns" d => d.traffic.zero_window_ns;
        "stalls" d => d.traffic.stalls;
        "stalled_ns" d => d.traffic.stalled_ns;
        "saw_syn" d => d.traffic.saw_syn;
        "window_scale" d => d.traffic.window_scale.map_or(-1, i64::from);
        "mss" d => d.traffic.mss.map_or(-1, i64::from);
        "rtt_count" d => d.traffic.rtt_count;
        "rtt_sum_ns" d => d.traffic.rtt_sum_ns;
        "rtt_min_ns" d => if d.traffic.rtt_count == 0 { -1 } else { d.traffic.rtt_min_ns };
        "rtt_max_ns" d => if d.traffic.rtt_count == 0 { -1 } else { d.traffic.rtt_max_ns };
    }
    Ok(out)
}

/// An address as Wireshark prints it.
fn text(addr: u128) -> String {
    let addr = Ipv6Addr::from(addr);
    addr.to_ipv4_mapped().map_or_else(|| addr.to_string(), |v4| v4.to_string())
}

/// `nfslat.kernels.JoinSide`: connection, kind and XID of each op, and two small tables.
type JoinSide<'py> = (
    PyReadonlyArray1<'py, i32>,
    PyReadonlyArray1<'py, i16>,
    PyReadonlyArray1<'py, u32>,
    PyReadonlyArray1<'py, i32>,
    PyReadonlyArray1<'py, i32>,
);
/// Partner of each of the client's rows; rows of the keys that are not alone, and how many each group of them has.
type Joined<'py> = (Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i32>>);

/// Join the ops of two sides (`nfslat.kernels.join`).
#[pyfunction]
fn join<'py>(py: Python<'py>, server: JoinSide<'py>, client: JoinSide<'py>, places: usize) -> PyResult<Joined<'py>> {
    let (one, two) = (side(&server)?, side(&client)?);
    let found = py.detach(|| kernels::join(&one, &two, places));
    let sizes = found.sizes.into_iter().flatten().collect();
    Ok((column(py, found.partner), column(py, found.several), column(py, sizes)))
}

fn side<'a>((conn, kind, xid, place, number): &'a JoinSide<'_>) -> PyResult<kernels::Side<'a>> {
    Ok(kernels::Side {
        conn: conn.as_slice()?,
        kind: kind.as_slice()?,
        xid: xid.as_slice()?,
        place: place.as_slice()?,
        number: number.as_slice()?,
    })
}

/// `nfslat.inflight.dispatch.Work`: arrival, reply and stream of each call, and the order of the replies.
type Calls<'py> =
    (PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i32>, PyReadonlyArray1<'py, i32>);

fn work<'a>((arrival_ns, reply_ns, stream, by_reply): &'a Calls<'_>) -> PyResult<dispatch::Work<'a>> {
    Ok(dispatch::Work {
        arrival_ns: arrival_ns.as_slice()?,
        reply_ns: reply_ns.as_slice()?,
        stream: stream.as_slice()?,
        by_reply: by_reply.as_slice()?,
    })
}

/// Start of each call if the server had so many threads (`nfslat.inflight.dispatch.starts`).
#[pyfunction]
fn starts<'py>(
    py: Python<'py>,
    calls: Calls<'py>,
    threads: usize,
    by_answer: bool,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let work = work(&calls)?;
    let found = py.detach(|| dispatch::starts(&work, threads, by_answer));
    Ok(column(py, found))
}

/// Threads that must exist, and how often so many were seen (`nfslat.inflight.threads.lower_bound`).
#[pyfunction]
fn bound(py: Python<'_>, calls: Calls<'_>) -> PyResult<(i64, i64)> {
    let work = work(&calls)?;
    Ok(py.detach(|| dispatch::bound(&work)))
}

type Times<'py> = PyReadonlyArray1<'py, i64>;
type Column<'py, T> = Bound<'py, PyArray1<T>>;

/// Time and ends by the number in flight (`nfslat.inflight.levels.levels_of`).
#[pyfunction]
fn levels<'py>(
    py: Python<'py>,
    starts: Times<'py>,
    ends: Times<'py>,
) -> PyResult<(Column<'py, i64>, Column<'py, i64>)> {
    let (starts, ends) = (starts.as_slice()?, ends.as_slice()?);
    let (time_ns, ended) = py.detach(|| sweep::levels(starts, ends));
    Ok((column(py, time_ns), column(py, ended)))
}

/// Ends, time, and ops times time of each window (`nfslat.inflight.levels.knee`).
#[pyfunction]
fn windows<'py>(
    py: Python<'py>,
    starts: Times<'py>,
    ends: Times<'py>,
    width_ns: i64,
    count: usize,
) -> PyResult<[Column<'py, f64>; 3]> {
    let (starts, ends) = (starts.as_slice()?, ends.as_slice()?);
    let columns = py.detach(|| sweep::windows(starts, ends, width_ns.max(1), count));
    Ok(columns.map(|one| column(py, one)))
}

/// From an end to the start behind it (`nfslat.inflight.slots`).
#[pyfunction]
fn turnarounds<'py>(
    py: Python<'py>,
    starts: Times<'py>,
    ends: Times<'py>,
    low: usize,
    top: usize,
) -> PyResult<Column<'py, i64>> {
    let (starts, ends) = (starts.as_slice()?, ends.as_slice()?);
    let found = py.detach(|| sweep::turnarounds(starts, ends, low, top));
    Ok(column(py, found))
}

/// The native half of nfslat.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add("NotACapture", module.py().get_type::<NotACapture>())?;
    module.add_class::<Job>()?;
    module.add_function(wrap_pyfunction!(peek, module)?)?;
    module.add_function(wrap_pyfunction!(decode, module)?)?;
    module.add_function(wrap_pyfunction!(apart::decode_apart, module)?)?;
    module.add_function(wrap_pyfunction!(apart::decode_slices, module)?)?;
    module.add_function(wrap_pyfunction!(apart::split, module)?)?;
    module.add_function(wrap_pyfunction!(packets::packets, module)?)?;
    module.add_function(wrap_pyfunction!(join, module)?)?;
    module.add_function(wrap_pyfunction!(starts, module)?)?;
    module.add_function(wrap_pyfunction!(bound, module)?)?;
    module.add_function(wrap_pyfunction!(levels, module)?)?;
    module.add_function(wrap_pyfunction!(windows, module)?)?;
    module.add_function(wrap_pyfunction!(turnarounds, module)?)
}
