//! What Python sees of the decoder: a few functions, what they give, and the object by which a running one is watched
//! and stopped.
//!
//! `nfslat/_native.pyi` is the manual.

use std::fs::File as Input;
use std::io::Read;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use numpy::{Element, PyArray1};
use pyo3::exceptions::{PyInterruptedError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::apart::Turns;
use crate::capture::{self, Error, Progress};
use crate::compound::Ranks;
use crate::container::{Error as ContainerError, Packet, Reader};
use crate::decoder::{Wanted, decode as read};
use crate::table::{Columns, Values};
use crate::{erf, link};
use found::Found;

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
#[pyo3(signature = (paths, nfs_ranks, callback_ranks, action_rank, job, segments = 0, files = true))]
#[allow(clippy::too_many_arguments, reason = "Python gives them by name")]
fn decode(
    py: Python<'_>,
    paths: Vec<std::path::PathBuf>,
    nfs_ranks: Vec<u8>,
    callback_ranks: Vec<u8>,
    action_rank: u8,
    job: &Job,
    segments: u8,
    files: bool,
) -> PyResult<Found> {
    let segments = [Wanted::None, Wanted::Some, Wanted::All][usize::from(segments.min(2))];
    let progress = Arc::clone(&job.0);
    let ranks = Ranks { nfs: nfs_ranks, callback: callback_ranks, action: action_rank };
    let done = py.detach(|| read(paths.iter().map(open), ranks, segments, files, &progress));
    let (mut decoder, captures) = done.map_err(failure)?;
    let is_cut = is_cut(&captures);
    Found::new(py, decoder.contents(), Turns::default(), is_cut, of_files(py, captures)?)
}

fn open(path: &std::path::PathBuf) -> std::io::Result<Box<dyn Read + Send>> {
    // As it is, for it may be a socket, or someone else's, which cannot be opened by name.
    if path.as_os_str() == "-" { Ok(Box::new(std::io::stdin())) } else { Ok(Box::new(Input::open(path)?)) }
}

/// Packets that are looked at to find one of a known link.
const LOOKED_AT: usize = 32;
/// The same, for a time that can be: an interface whose times cannot may come first.
const DATED_AT: u32 = 4096;

/// Format of a capture, the time of its first packet in ns since 1970, and the link type of that, where none of the first
/// packets is of a known one.
#[pyfunction]
fn peek(py: Python<'_>, path: std::path::PathBuf) -> PyResult<(&'static str, Option<i64>, Option<u16>)> {
    py.detach(|| {
        let failed = |error| failure(Error::Container { file: 0, error });
        let input = Input::open(path).map_err(|error| failed(ContainerError::Io(error)))?;
        let mut reader = Reader::open(Box::new(input)).map_err(failed)?;
        let is_known = |packet: &Packet<'_>| link::is_known(packet.link, packet.captured);
        let mut odd = None;
        let mut left = DATED_AT;
        let first = loop {
            let read = reader.next().map(|packet| packet.map(|packet| (packet.t_ns, packet.link, is_known(&packet))));
            left -= 1;
            match read {
                Err(ContainerError::TimeOutOfRange { .. }) | Ok(Some((i64::MIN..0, ..))) if left > 0 => {
                    odd.get_or_insert(read);
                }
                Ok(None) => break odd.unwrap_or(Ok(None)),
                _ => break read,
            }
        };
        let first = first.map_err(failed)?;
        let format = reader.info().format;
        let Some((t_ns, link, mut known)) = first else { return Ok((format, None, None)) };
        for _ in 1..LOOKED_AT {
            match (known, reader.next()) {
                (false, Ok(Some(packet))) => known = is_known(&packet),
                _ => break,
            }
        }
        Ok((format, Some(t_ns), (!known).then_some(link)))
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
fn table(py: Python<'_>, columns: Columns) -> PyResult<Py<PyDict>> {
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
    Ok(out.unbind())
}

mod apart;
#[cfg(target_os = "linux")]
mod confine;
mod cut;
mod found;
mod kernels;
mod lines;
mod load;
mod packets;
mod prints;
mod tcp;
mod windows;

fn is_cut(files: &[capture::File]) -> bool {
    files.iter().any(|file| file.snaplen.is_some())
}

/// What one file was.
#[pyclass(frozen, get_all, module = "nfslat._native")]
struct File {
    format: &'static str,
    snaplen: Option<u32>,
    packets: u32,
    first_ns: i64,
    last_ns: i64,
    damage: Option<String>,
    dropped: u64,
    untimed: u64,
    link: Option<u16>,
    misdated: u64,
    late: u64,
    latest_ns: i64,
    run_begins: Py<PyArray1<u32>>,
    run_numbers: Py<PyArray1<u32>>,
}

fn of_files(py: Python<'_>, files: Vec<capture::File>) -> PyResult<Vec<Py<File>>> {
    let of = |file: capture::File| {
        let is_empty = file.packets == 0;
        let (first_ns, last_ns) = if is_empty { (0, 0) } else { (file.first_ns, file.last_ns) };
        let capture::File { format, snaplen, packets, damage, dropped, untimed, misdated, link, late, runs, .. } = file;
        let (late, latest_ns) = (late.records, late.most_ns);
        let (run_begins, run_numbers) = runs.iter().map(|run| (run.begin, run.number)).unzip();
        let (run_begins, run_numbers) = (column(py, run_begins).unbind(), column(py, run_numbers).unbind());
        let link = link.filter(|link| *link != erf::LINK && !link::is_known(*link, &[]));
        let of_packets = File {
            format,
            snaplen,
            packets,
            first_ns,
            last_ns,
            damage,
            dropped,
            untimed,
            link,
            misdated,
            late,
            latest_ns,
            run_begins,
            run_numbers,
        };
        Py::new(py, of_packets)
    };
    files.into_iter().map(of).collect()
}

/// An address as Wireshark prints it.
fn text(addr: u128) -> String {
    let addr = Ipv6Addr::from(addr);
    addr.to_ipv4_mapped().map_or_else(|| addr.to_string(), |v4| v4.to_string())
}

/// The native half of nfslat.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
    module.add("NotACapture", module.py().get_type::<NotACapture>())?;
    module.add_class::<Job>()?;
    module.add_class::<File>()?;
    module.add_class::<found::Tables>()?;
    module.add_class::<found::Dropped>()?;
    module.add_class::<found::Counts>()?;
    module.add_class::<found::Found>()?;
    module.add_class::<apart::Parts>()?;
    module.add_class::<apart::Slices>()?;
    module.add_class::<packets::Trace>()?;
    module.add_class::<windows::Windows>()?;
    module.add_class::<lines::Lines>()?;
    module.add_function(wrap_pyfunction!(cut::cut, module)?)?;
    #[cfg(target_os = "linux")]
    module.add_function(wrap_pyfunction!(confine::confine, module)?)?;
    module.add_function(wrap_pyfunction!(peek, module)?)?;
    module.add_function(wrap_pyfunction!(decode, module)?)?;
    module.add_function(wrap_pyfunction!(apart::decode_apart, module)?)?;
    module.add_function(wrap_pyfunction!(apart::decode_slices, module)?)?;
    module.add_function(wrap_pyfunction!(apart::split, module)?)?;
    module.add_function(wrap_pyfunction!(packets::packets, module)?)?;
    tcp::register(module)?;
    module.add_function(wrap_pyfunction!(prints::prints, module)?)?;
    module.add_function(wrap_pyfunction!(prints::share_out, module)?)?;
    module.add_function(wrap_pyfunction!(prints::unreadable, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::join, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::heard_of, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::order, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::ranks, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::grouped, module)?)?;
    module.add_function(wrap_pyfunction!(load::regularity, module)?)?;
    module.add_function(wrap_pyfunction!(load::log_spacings, module)?)?;
    module.add_function(wrap_pyfunction!(load::sums, module)?)?;
    module.add_function(wrap_pyfunction!(load::histogram, module)?)?;
    module.add_function(wrap_pyfunction!(load::xid_steps, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::in_order, module)?)?;
    module.add_function(wrap_pyfunction!(load::in_flight, module)?)?;
    module.add_function(wrap_pyfunction!(load::by_reply, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::places, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::starts, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::bound, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::levels, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::windows, module)?)?;
    module.add_function(wrap_pyfunction!(kernels::turnarounds, module)?)
}
