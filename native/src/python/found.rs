//! What a decoder found, as Python sees it (`nfslat/_native.pyi`).

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use super::{File, table, text};
use crate::apart::Turns;
use crate::call::NONE;
use crate::columns::{CALL_SHOWN_LAST, REPLY_SHOWN_LAST};
use crate::decoder::{self, Contents, KINDS};
use crate::kinds::Kind;
use crate::link;
use crate::results::SessionResult;

/// Transport, address and port of the endpoint that sent first, and of the other one.
pub(super) type Ends = (&'static str, String, u16, String, u16);
/// Program, version, minor version, operation, list of operations; -1 where not known. RPCSEC_GSS service.
type KindRow = (i64, i64, i64, i64, Vec<u16>, u32);
/// When, the session, and what `nfslat.model.details.SessionLimits` has of it.
type Created = (i64, Py<PyBytes>, (u32, u32, u32, u32, u32));

/// The tables, each as a dict of arrays by column.
#[pyclass(frozen, get_all, module = "nfslat._native")]
pub(super) struct Tables {
    ops: Py<PyDict>,
    callers: Py<PyDict>,
    loose: Py<PyDict>,
    slots: Py<PyDict>,
    names: Py<PyDict>,
    failures: Py<PyDict>,
    files: Py<PyDict>,
    resent: Py<PyDict>,
    blocked: Py<PyDict>,
    tcp: Py<PyDict>,
    events: Py<PyDict>,
    pauses: Py<PyDict>,
    hangs: Py<PyDict>,
    loads: Py<PyDict>,
    others: Py<PyDict>,
    unread: Py<PyDict>,
    replies: Py<PyDict>,
    unanswered: Py<PyDict>,
    turns: Py<PyDict>,
}

/// Rows of tables beyond those that are kept.
#[pyclass(frozen, get_all, module = "nfslat._native")]
pub(super) struct Dropped {
    files: u64,
    resent: u64,
    blocked: u64,
    events: u64,
    pauses: u64,
    hangs: u64,
    loads: u64,
    unread: u64,
}

/// What is counted.
#[pyclass(frozen, get_all, module = "nfslat._native")]
pub(super) struct Counts {
    packet_kinds: Py<PyDict>,
    hidden: u64,
    malformed: u64,
    duplicate_packets: u64,
    repeated: u64,
    duplicated: u64,
    lost_ranges: u64,
    lost_bytes: u64,
    wire_bytes: u64,
    captured_bytes: u64,
    tls_connections: usize,
    busiest_second_packets: u32,
    backward_times: u64,
    largest_backward_ns: i64,
}

/// All of it.
#[pyclass(frozen, get_all, module = "nfslat._native")]
pub(super) struct Found {
    tables: Py<Tables>,
    connections: Py<PyList>,
    segments: Py<PyList>,
    kinds: Py<PyList>,
    sessions: Py<PyList>,
    created_sessions: Py<PyList>,
    names: Py<PyList>,
    file_handles: Py<PyList>,
    load_stretch_ns: i64,
    streams: Py<PyList>,
    other_stretch_ns: i64,
    dropped: Py<Dropped>,
    counts: Py<Counts>,
    first_ns: i64,
    last_ns: i64,
    pub(super) files: Vec<Py<File>>,
}

impl Found {
    /// `files`: those that were read for it alone.
    pub(super) fn new(
        py: Python<'_>,
        contents: Contents,
        mut turns: Turns,
        is_cut: bool,
        files: Vec<Py<File>>,
    ) -> PyResult<Found> {
        let Contents {
            mut pairing, mut tcp, mut events, mut pauses, mut hangs, mut loads, mut others, mut unread, ..
        } = contents;
        let segments = PyList::empty(py);
        for mut one in contents.segments {
            segments.append(table(py, one.take_columns())?)?;
        }
        // A dissector that puts a message together shows it where it is complete; one that sees cut packets, where it begins.
        pairing.ops.publish_flags(if is_cut { 0 } else { CALL_SHOWN_LAST | REPLY_SHOWN_LAST });
        pairing.replies.close();
        let dropped = Dropped {
            files: pairing.files.dropped,
            resent: pairing.resent.dropped,
            blocked: pairing.blocked.dropped,
            events: events.dropped,
            pauses: pauses.dropped,
            hangs: hangs.dropped,
            loads: contents.loads_dropped,
            unread: unread.dropped,
        };
        let tables = Tables {
            ops: table(py, pairing.ops.take_columns())?,
            callers: table(py, pairing.callers.take_columns())?,
            loose: table(py, pairing.loose.take_columns())?,
            slots: table(py, pairing.slots.take_columns())?,
            names: table(py, pairing.names.take_columns())?,
            failures: table(py, pairing.failures.take_columns())?,
            files: table(py, pairing.files.take_columns())?,
            resent: table(py, pairing.resent.take_columns())?,
            blocked: table(py, pairing.blocked.take_columns())?,
            tcp: table(py, tcp.take_columns())?,
            events: table(py, events.take_columns())?,
            pauses: table(py, pauses.take_columns())?,
            hangs: table(py, hangs.take_columns())?,
            loads: table(py, loads.take_columns())?,
            others: table(py, others.columns.take_columns())?,
            unread: table(py, unread.take_columns())?,
            replies: table(py, pairing.replies.take_columns())?,
            unanswered: table(py, pairing.unanswered.take_columns())?,
            turns: table(py, turns.take_columns())?,
        };
        let (first_ns, last_ns) = contents.span_ns.unwrap_or_default();
        Ok(Found {
            tables: Py::new(py, tables)?,
            connections: PyList::new(py, contents.connections.iter().map(ends))?.unbind(),
            segments: segments.unbind(),
            kinds: PyList::new(py, pairing.kinds.list.iter().map(kind))?.unbind(),
            sessions: PyList::new(py, pairing.slots.sessions.iter().map(|id| PyBytes::new(py, id)))?.unbind(),
            created_sessions: PyList::new(py, pairing.slots.created.iter().map(|one| created(py, one)))?.unbind(),
            names: strings(py, pairing.names.iter())?,
            file_handles: strings(py, pairing.files.handles.iter())?,
            load_stretch_ns: contents.load_stretch_ns,
            streams: PyList::new(py, others.streams.iter().map(stream))?.unbind(),
            other_stretch_ns: others.stretch_ns,
            dropped: Py::new(py, dropped)?,
            counts: Py::new(py, counts(py, &contents.counts)?)?,
            first_ns,
            last_ns,
            files,
        })
    }
}

/// Who sends to whom.
fn stream(ends: &link::Ends) -> (String, u16, String, u16) {
    (text(ends.src), ends.sport, text(ends.dst), ends.dport)
}

fn ends((is_udp, ends): &(bool, link::Ends)) -> Ends {
    (if *is_udp { "udp" } else { "tcp" }, text(ends.src), ends.sport, text(ends.dst), ends.dport)
}

fn kind(kind: &Kind) -> KindRow {
    let known = |value: u32| if value == NONE { -1 } else { i64::from(value) };
    let numbers = [kind.program, kind.version, kind.minor, kind.op].map(known);
    (numbers[0], numbers[1], numbers[2], numbers[3], kind.ops.clone(), kind.service)
}

fn created(py: Python<'_>, (t_ns, session): &(i64, SessionResult)) -> Created {
    let (fore, back) = (session.channels.fore, session.channels.back);
    let limits = (fore.maxrequests, fore.maxoperations, fore.maxrequestsize, fore.maxresponsesize, back.maxrequests);
    (*t_ns, PyBytes::new(py, &session.session).unbind(), limits)
}

fn strings<'a>(py: Python<'_>, all: impl ExactSizeIterator<Item = &'a [u8]>) -> PyResult<Py<PyList>> {
    Ok(PyList::new(py, all.map(|one| PyBytes::new(py, one)))?.unbind())
}

fn counts(py: Python<'_>, found: &decoder::Counts) -> PyResult<Counts> {
    let packet_kinds = PyDict::new(py);
    for (name, count) in KINDS.iter().zip(found.kinds) {
        packet_kinds.set_item(name, count)?;
    }
    Ok(Counts {
        packet_kinds: packet_kinds.unbind(),
        hidden: found.hidden,
        malformed: found.malformed,
        duplicate_packets: found.duplicate_packets,
        repeated: found.repeated,
        duplicated: found.duplicated,
        lost_ranges: found.lost_ranges,
        lost_bytes: found.lost_bytes,
        wire_bytes: found.wire_bytes,
        captured_bytes: found.captured_bytes,
        tls_connections: found.tls_connections,
        busiest_second_packets: found.busiest_second,
        backward_times: found.backward_times,
        largest_backward_ns: found.largest_backward_ns,
    })
}
