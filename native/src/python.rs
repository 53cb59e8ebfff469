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
use crate::decoder::{Decoder, KINDS, Tcp, decode as read};
use crate::dispatch;
use crate::kernels;
use crate::sweep;
use crate::table::{Columns, Values};

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

/// The columns of a table by their names.
fn table(py: Python<'_>, columns: Columns) -> PyResult<Bound<'_, PyDict>> {
    let out = PyDict::new(py);
    for (name, values) in columns {
        match values {
            Values::I8(values) => out.set_item(name, column(py, values)),
            Values::I16(values) => out.set_item(name, column(py, values)),
            Values::I32(values) => out.set_item(name, column(py, values)),
            Values::I64(values) => out.set_item(name, column(py, values)),
            Values::U8(values) => out.set_item(name, column(py, values)),
            Values::U32(values) => out.set_item(name, column(py, values)),
            Values::U64(values) => out.set_item(name, column(py, values)),
        }?;
    }
    Ok(out)
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
    out.set_item("ops", table(py, ops.take_columns())?)?;
    out.set_item("callers", table(py, pairing.callers.take_columns())?)?;
    let loose = &mut pairing.loose;
    out.set_item("loose", table(py, loose.take_columns())?)?;
    let slots = &mut pairing.slots;
    out.set_item("slots", table(py, slots.take_columns())?)?;
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
    out.set_item("file_news", table(py, news.take_columns())?)?;
    out.set_item("file_handles", strings(py, news.handles.iter())?)?;
    out.set_item("files_dropped", news.dropped)?;
    let names = &mut pairing.names;
    out.set_item("names", table(py, names.take_columns())?)?;
    out.set_item("name_list", strings(py, names.iter())?)?;
    let failures = &mut pairing.failures;
    out.set_item("failures", table(py, failures.take_columns())?)?;
    let resent = &mut pairing.resent;
    out.set_item("resent", table(py, resent.take_columns())?)?;
    out.set_item("resent_dropped", resent.dropped)?;
    let blocked = &mut pairing.blocked;
    out.set_item("blocked", table(py, blocked.take_columns())?)?;
    out.set_item("blocked_dropped", blocked.dropped)?;

    let events = &mut decoder.events;
    out.set_item("tcp_events", table(py, events.take_columns())?)?;
    out.set_item("tcp_events_dropped", decoder.events.dropped)?;
    out.set_item("pauses_dropped", decoder.pauses.dropped)?;
    out.set_item("pauses", table(py, decoder.pauses.take_columns())?)?;
    let loads = table(py, decoder.loads.columns().take_columns())?;
    loads.set_item("stretch_ns", decoder.loads.stretch_ns)?;
    out.set_item("loads", loads)?;
    out.set_item("loads_dropped", decoder.loads.dropped)?;
    out.set_item("tcp", table(py, Tcp::of(&decoder.finished).take_columns())?)?;
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

/// An address as Wireshark prints it.
fn text(addr: u128) -> String {
    let addr = Ipv6Addr::from(addr);
    addr.to_ipv4_mapped().map_or_else(|| addr.to_string(), |v4| v4.to_string())
}

/// `nfslat.kernels.join.JoinSide`: connection, kind and XID of each op, and two small tables.
type JoinSide<'py> = (
    PyReadonlyArray1<'py, i32>,
    PyReadonlyArray1<'py, i16>,
    PyReadonlyArray1<'py, u32>,
    PyReadonlyArray1<'py, i32>,
    PyReadonlyArray1<'py, i32>,
);
/// Partner of each of the client's rows; rows of the keys that are not alone, and how many each group of them has.
type Joined<'py> = (Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<i32>>);

/// Join the ops of two sides (`nfslat.kernels.join.join`).
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
