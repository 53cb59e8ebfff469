//! A capture decoded by pairs of addresses, as Python sees it (`nfslat/decode/apart.py`).

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::{Job, column, failure, is_cut, of_files, open, result, table, text};
use crate::apart::{Apart, Part, decode_apart as read};
use crate::capture::File;
use crate::compound::Ranks;
use crate::split::split as write;

/// Decode captures, one after the other, as one; a result for each pair of addresses with RPC, and one for all else.
#[pyfunction]
#[pyo3(signature = (paths, nfs_ranks, callback_ranks, action_rank, job))]
pub(super) fn decode_apart<'py>(
    py: Python<'py>,
    paths: Vec<std::path::PathBuf>,
    nfs_ranks: Vec<u8>,
    callback_ranks: Vec<u8>,
    action_rank: u8,
    job: &Job,
) -> PyResult<Bound<'py, PyDict>> {
    let progress = Arc::clone(&job.0);
    let ranks = Ranks { nfs: nfs_ranks, callback: callback_ranks, action: action_rank };
    let done = py.detach(|| read(paths.iter().map(open), Apart::new(ranks), &progress));
    let (apart, files) = done.map_err(failure)?;
    apart_result(py, apart, &files, is_cut(&files))
}

/// Decode slices of a capture that `split` made, those of a place in all splits, as one.
#[pyfunction]
#[pyo3(signature = (paths, offsets, is_cut, nfs_ranks, callback_ranks, action_rank, job))]
#[allow(clippy::too_many_arguments, reason = "it is Python that calls it")]
pub(super) fn decode_slices<'py>(
    py: Python<'py>,
    paths: Vec<std::path::PathBuf>,
    offsets: Vec<u32>,
    is_cut: bool,
    nfs_ranks: Vec<u8>,
    callback_ranks: Vec<u8>,
    action_rank: u8,
    job: &Job,
) -> PyResult<Bound<'py, PyDict>> {
    let progress = Arc::clone(&job.0);
    let ranks = Ranks { nfs: nfs_ranks, callback: callback_ranks, action: action_rank };
    let done = py.detach(|| read(paths.iter().map(open), Apart::of_slices(ranks, offsets), &progress));
    let (apart, files) = done.map_err(failure)?;
    apart_result(py, apart, &files, is_cut)
}

/// Split captures, one after the other, as one, into slices by the addresses of the packets.
#[pyfunction]
#[pyo3(signature = (paths, outs, since_ns, job))]
pub(super) fn split<'py>(
    py: Python<'py>,
    paths: Vec<std::path::PathBuf>,
    outs: Vec<std::path::PathBuf>,
    since_ns: i64,
    job: &Job,
) -> PyResult<Bound<'py, PyDict>> {
    if outs.is_empty() {
        return Err(PyValueError::new_err("one slice at least"));
    }
    let progress = Arc::clone(&job.0);
    let done = py.detach(|| write(paths.iter().map(open), &outs, since_ns, &progress));
    let (mut split, files) = done.map_err(failure)?;
    let out = PyDict::new(py);
    let (seconds, counts) = split.pace.seconds();
    out.set_item("seconds", column(py, seconds))?;
    out.set_item("counts", column(py, counts))?;
    out.set_item("backward_times", split.pace.backward_times)?;
    out.set_item("largest_backward_ns", split.pace.largest_backward_ns)?;
    out.set_item("ends_ns", split.pace.ends_ns)?;
    out.set_item("files", of_files(py, &files)?)?;
    Ok(out)
}

fn apart_result<'py>(py: Python<'py>, apart: Apart, files: &[File], is_cut: bool) -> PyResult<Bound<'py, PyDict>> {
    let out = PyDict::new(py);
    let hosts = PyList::empty(py);
    for part in apart.parts {
        let (one, other) = part.hosts.unwrap_or_default();
        hosts.append((text(one), text(other), found(py, part, is_cut)?))?;
    }
    out.set_item("hosts", hosts)?;
    out.set_item("rest", found(py, apart.rest, is_cut)?)?;
    // Of all packets.
    out.set_item("busiest_second_packets", apart.pace.busiest_second())?;
    out.set_item("backward_times", apart.pace.backward_times)?;
    out.set_item("largest_backward_ns", apart.pace.largest_backward_ns)?;
    out.set_item("files", of_files(py, files)?)?;
    Ok(out)
}

fn found<'py>(py: Python<'py>, part: Part, is_cut: bool) -> PyResult<Bound<'py, PyDict>> {
    let mut turns = part.turns();
    let decoder = part.decoder;
    let is_empty = decoder.packets == 0;
    let (first_ns, last_ns) = (decoder.first_ns, decoder.last_ns);
    let out = result(py, decoder, is_cut)?;
    out.set_item("first_ns", if is_empty { 0 } else { first_ns })?;
    out.set_item("last_ns", if is_empty { 0 } else { last_ns })?;
    out.set_item("turns", table(py, turns.take_columns())?)?;
    Ok(out)
}
