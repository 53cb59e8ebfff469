//! A capture decoded by pairs of addresses, as Python sees it (`nfslat/decode/apart.py`).

use std::net::IpAddr;
use std::sync::Arc;

use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::found::Found;
use super::{File, Job, column, failure, is_cut, of_files, open, text};
use crate::apart::{Apart, Part, decode_apart as read};
use crate::capture;
use crate::compound::Ranks;
use crate::link::Addr;
use crate::split::split as write;

/// A capture by pairs of addresses.
#[pyclass(frozen, get_all, module = "nfslat._native")]
pub(super) struct Parts {
    hosts: Vec<(String, String, Py<Found>)>,
    rest: Py<Found>,
    // Of all packets.
    busiest_second_packets: u32,
    backward_times: u64,
    largest_backward_ns: i64,
    files: Vec<Py<File>>,
}

/// What `split` saw of the packets that no slice tells alone.
#[pyclass(frozen, get_all, module = "nfslat._native")]
pub(super) struct Slices {
    seconds: Py<PyArray1<i64>>,
    counts: Py<PyArray1<i64>>,
    backward_times: u64,
    largest_backward_ns: i64,
    ends_ns: Option<(i64, i64)>,
    files: Vec<Py<File>>,
}

impl Parts {
    fn new(py: Python<'_>, apart: Apart, files: Vec<capture::File>, is_cut: bool) -> PyResult<Parts> {
        let found = |mut part: Part| {
            let turns = part.turns();
            Py::new(py, Found::new(py, part.decoder.contents(), turns, is_cut, Vec::new())?)
        };
        let hosts = apart.parts.into_iter().map(|part| {
            let (one, other) = part.hosts.unwrap_or_default();
            Ok((text(one), text(other), found(part)?))
        });
        Ok(Parts {
            hosts: hosts.collect::<PyResult<_>>()?,
            rest: found(apart.rest)?,
            busiest_second_packets: apart.pace.busiest_second(),
            backward_times: apart.pace.backward_times,
            largest_backward_ns: apart.pace.largest_backward_ns,
            files: of_files(py, files)?,
        })
    }
}

/// Keep segments of pairs of addresses in which none of `without` is; None: of no pair.
fn with_segments(mut apart: Apart, without: Option<Vec<String>>) -> PyResult<Apart> {
    let Some(without) = without else { return Ok(apart) };
    let hosts = without.iter().map(|text| text.parse().map(number).map_err(|_| PyValueError::new_err(text.clone())));
    apart.keep_segments(hosts.collect::<PyResult<_>>()?);
    Ok(apart)
}

/// As packets have it (`link::Addr`).
fn number(address: IpAddr) -> Addr {
    match address {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

/// Decode captures, one after the other, as one; a result for each pair of addresses with RPC, and one for all else.
#[pyfunction]
#[pyo3(signature = (paths, nfs_ranks, callback_ranks, action_rank, job, without = None))]
pub(super) fn decode_apart(
    py: Python<'_>,
    paths: Vec<std::path::PathBuf>,
    nfs_ranks: Vec<u8>,
    callback_ranks: Vec<u8>,
    action_rank: u8,
    job: &Job,
    without: Option<Vec<String>>,
) -> PyResult<Parts> {
    let progress = Arc::clone(&job.0);
    let ranks = Ranks { nfs: nfs_ranks, callback: callback_ranks, action: action_rank };
    let apart = with_segments(Apart::new(ranks), without)?;
    let done = py.detach(|| read(paths.iter().map(open), apart, &progress));
    let (apart, files) = done.map_err(failure)?;
    let is_cut = is_cut(&files);
    Parts::new(py, apart, files, is_cut)
}

/// Decode slices of a capture that `split` made, those of a place in all splits, as one.
#[pyfunction]
#[pyo3(signature = (paths, offsets, is_cut, nfs_ranks, callback_ranks, action_rank, job, without = None))]
#[allow(clippy::too_many_arguments, reason = "it is Python that calls it")]
pub(super) fn decode_slices(
    py: Python<'_>,
    paths: Vec<std::path::PathBuf>,
    offsets: Vec<u32>,
    is_cut: bool,
    nfs_ranks: Vec<u8>,
    callback_ranks: Vec<u8>,
    action_rank: u8,
    job: &Job,
    without: Option<Vec<String>>,
) -> PyResult<Parts> {
    let progress = Arc::clone(&job.0);
    let ranks = Ranks { nfs: nfs_ranks, callback: callback_ranks, action: action_rank };
    let apart = with_segments(Apart::of_slices(ranks, offsets), without)?;
    let done = py.detach(|| read(paths.iter().map(open), apart, &progress));
    let (apart, files) = done.map_err(failure)?;
    Parts::new(py, apart, files, is_cut)
}

/// Split captures, one after the other, as one, into slices by the addresses of the packets.
#[pyfunction]
#[pyo3(signature = (paths, outs, since_ns, job))]
pub(super) fn split(
    py: Python<'_>,
    paths: Vec<std::path::PathBuf>,
    outs: Vec<std::path::PathBuf>,
    since_ns: i64,
    job: &Job,
) -> PyResult<Slices> {
    if outs.is_empty() {
        return Err(PyValueError::new_err("one slice at least"));
    }
    let progress = Arc::clone(&job.0);
    let done = py.detach(|| write(paths.iter().map(open), &outs, since_ns, &progress));
    let (mut split, files) = done.map_err(failure)?;
    let (seconds, counts) = split.pace.seconds();
    Ok(Slices {
        seconds: column(py, seconds).unbind(),
        counts: column(py, counts).unbind(),
        backward_times: split.pace.backward_times,
        largest_backward_ns: split.pace.largest_backward_ns,
        ends_ns: split.pace.ends_ns,
        files: of_files(py, files)?,
    })
}
