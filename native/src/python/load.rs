//! What Python's stages ask of the rows of a load: exact sums, how regular its work is, how its client counts.

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::column;
use super::kernels::{Calls, Column, Times, work};
use crate::dispatch;
use crate::order::narrow_order;
use crate::regularity::{Sample, log_spacings as log_spacings_of, nats};
use crate::sums::{buckets as buckets_of, sums as sums_of};
use crate::xids::Steps;

/// Rows in the order of their replies (`nfslat.kernels.dispatch.Work`).
#[pyfunction]
pub(super) fn by_reply<'py>(py: Python<'py>, reply_ns: Times<'py>) -> PyResult<Column<'py, i32>> {
    let reply_ns = reply_ns.as_slice()?;
    Ok(column(py, py.detach(|| narrow_order(reply_ns))))
}

/// Calls without an answer when each one arrives (`nfslat.kernels.dispatch.in_flight`).
#[pyfunction]
pub(super) fn in_flight<'py>(py: Python<'py>, calls: Calls<'py>) -> PyResult<Column<'py, i32>> {
    let work = work(&calls)?;
    Ok(column(py, py.detach(|| dispatch::in_flight(&work))))
}

/// By block of time: nats, and what of them is for calls that are forced.
type Nats<'py> = (Column<'py, f64>, Column<'py, f64>);

/// How regular the work is with a number of threads (`nfslat.inflight.entropy.Scores`).
#[pyfunction]
#[allow(clippy::too_many_arguments, reason = "Python gives them by name")]
pub(super) fn regularity<'py>(
    py: Python<'py>,
    pieces: Vec<Calls<'py>>,
    groups: Vec<Times<'py>>,
    unqueued: Vec<f64>,
    resolution_ns: f64,
    blocks: usize,
    threads: usize,
    by_answer: bool,
    leaving: bool,
) -> PyResult<Option<Nats<'py>>> {
    let pieces = pieces.iter().map(work).collect::<PyResult<Vec<_>>>()?;
    let groups = groups.iter().map(|rows| Ok(rows.as_slice()?)).collect::<PyResult<Vec<_>>>()?;
    let sample = Sample { pieces: &pieces, groups: &groups, unqueued: &unqueued, resolution_ns };
    let found = py.detach(|| nats(&sample, blocks, threads, by_answer, leaving));
    Ok(found.map(|(nats, forced)| (column(py, nats), column(py, forced))))
}

/// Minus the log density at each of some times (`nfslat.inflight.entropy.Scores`).
#[pyfunction]
pub(super) fn log_spacings<'py>(py: Python<'py>, times: Times<'py>, resolution_ns: f64) -> PyResult<Column<'py, f64>> {
    let times = times.as_slice()?;
    Ok(column(py, py.detach(|| log_spacings_of(times, resolution_ns))))
}

/// Sums by group (`nfslat.kernels.exact.exact_sums`): a column, or where 64 bits do not hold them Python's integers.
#[pyfunction]
pub(super) fn sums<'py>(
    py: Python<'py>,
    groups: Option<Times<'py>>,
    values: &Bound<'py, PyAny>,
    count: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let groups = groups.as_ref().map(|groups| groups.as_slice()).transpose()?;
    let found = if let Ok(values) = values.extract::<Times<'py>>() {
        let values = values.as_slice()?;
        py.detach(|| sums_of(groups, values, count))
    } else if let Ok(values) = values.extract::<PyReadonlyArray1<'py, i32>>() {
        let values = values.as_slice()?;
        py.detach(|| sums_of(groups, values, count))
    } else {
        let values = values.extract::<PyReadonlyArray1<'py, bool>>()?;
        let values = values.as_slice()?;
        py.detach(|| sums_of(groups, values, count))
    };
    let found = found.ok_or_else(|| PyValueError::new_err("a group there is not, or not one for each value"))?;
    match found.iter().map(|&sum| i64::try_from(sum)).collect::<Result<Vec<_>, _>>() {
        Ok(sums) => Ok(column(py, sums).into_any()),
        Err(_) => Ok(found.into_pyobject(py)?.into_any()),
    }
}

/// How many durations are in each of so many buckets, powers of two of us (`nfslat.tally.stats.histogram`).
#[pyfunction]
pub(super) fn histogram(py: Python<'_>, durations_ns: Times<'_>, buckets: usize) -> PyResult<Vec<u64>> {
    let durations_ns = durations_ns.as_slice()?;
    Ok(py.detach(|| buckets_of(durations_ns, buckets)))
}

/// How XIDs are counted (`nfslat.decode.xid_gaps.Steps`).
#[pyfunction]
pub(super) fn xid_steps(
    py: Python<'_>,
    xids: PyReadonlyArray1<'_, u32>,
    largest: u64,
) -> PyResult<(bool, u64, u64, u64, u64)> {
    let xids = xids.as_slice()?;
    if xids.is_empty() {
        return Err(PyValueError::new_err("no XID"));
    }
    let Steps { is_wire, count, ones, total, left_out } = py.detach(|| Steps::of(xids, largest));
    Ok((is_wire, count, ones, total, left_out))
}
