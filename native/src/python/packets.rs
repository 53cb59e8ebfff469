//! The packets of TCP conversations, as Python sees them (`nfslat/tcp/packets.py`).

use std::sync::Arc;

use numpy::PyArray1;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};

use super::found::Ends;
use super::{File, Job, column, failure, of_files, open, table, text};
use crate::capture::read_all;
use crate::conversations::Conversation;
use crate::packets::{Asked, Trace as Rows};

/// The TCP of a capture.
#[pyclass(frozen, get_all, module = "nfslat._native")]
pub(super) struct Trace {
    packets: Py<PyDict>,
    places: Py<PyArray1<i32>>,
    signals: Py<PyDict>,
    conversations: Py<PyList>,
    total_packets: u32,
    other_packets: u64,
    skipped_packets: u64,
    copies: u64,
    damaged: u64,
    files: Vec<Py<File>>,
}

/// The TCP packets of captures, one after the other, as one.
#[pyfunction]
#[pyo3(signature = (paths, ports, stream, job))]
pub(super) fn packets(
    py: Python<'_>,
    paths: Vec<std::path::PathBuf>,
    ports: Vec<u16>,
    stream: Option<u32>,
    job: &Job,
) -> PyResult<Trace> {
    let progress = Arc::clone(&job.0);
    let done = py.detach(|| {
        let mut trace = Rows::new(Asked { ports, stream });
        let files = read_all(paths.iter().map(open), &mut trace, &progress)?;
        let places = trace.by_conversation();
        Ok((trace, places, files))
    });
    let (mut trace, places, files) = done.map_err(failure)?;
    let list = PyList::empty(py);
    for one in &trace.conversations.list {
        let ends = one.ends;
        let ends: Ends = ("tcp", text(ends.src), ends.sport, text(ends.dst), ends.dport);
        let subflow = one.mptcp.as_ref().filter(|subflow| subflow.is_agreed);
        let subflow = subflow.map(|one| (one.version, (one.keys[0], one.keys[1]), one.joins));
        list.append((ends, one.reconnect, way(py, one, 0)?, way(py, one, 1)?, subflow))?;
    }
    Ok(Trace {
        packets: table(py, trace.rows.take_columns())?,
        places: column(py, places).unbind(),
        signals: table(py, trace.signals.take_columns())?,
        conversations: list.unbind(),
        total_packets: trace.packets,
        other_packets: trace.other,
        skipped_packets: trace.skipped,
        copies: trace.copies,
        damaged: trace.damaged,
        files: of_files(py, files)?,
    })
}

/// `nfslat.tcp.packets.Way`.
fn way<'py>(py: Python<'py>, conversation: &Conversation, direction: usize) -> PyResult<Bound<'py, PyDict>> {
    let way = &conversation.ways[direction];
    let out = PyDict::new(py);
    out.set_item("first_seq", way.first_seq.map_or(-1, i64::from))?;
    out.set_item("saw_syn", way.saw_syn)?;
    out.set_item("mss", way.mss)?;
    out.set_item("window_scale", conversation.scale(direction))?;
    out.set_item("timestamps", way.timestamps)?;
    out.set_item("head", PyBytes::new(py, &way.head))?;
    out.set_item("copies", way.copies)?;
    out.set_item("lost_bytes", way.lost_bytes())?;
    Ok(out)
}
