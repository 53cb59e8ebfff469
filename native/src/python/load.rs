//! What Python's stages ask of the rows of a load: exact sums, and how regular its work is.

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::column;
use super::kernels::{Calls, Column, Times, work};
use crate::regularity::{Sample, log_spacings as log_spacings_of, nats};
use crate::sums::sums as sums_of;

/// By block of time: nats, None where too many calls are forced, and what of them is for those.
type Nats<'py> = (Option<Column<'py, f64>>, Column<'py, f64>);

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
) -> PyResult<Nats<'py>> {
    let pieces = pieces.iter().map(work).collect::<PyResult<Vec<_>>>()?;
    let groups = groups.iter().map(|rows| Ok(rows.as_slice()?)).collect::<PyResult<Vec<_>>>()?;
    let sample = Sample { pieces: &pieces, groups: &groups, unqueued: &unqueued, resolution_ns };
    let (by_block, forced) = py.detach(|| nats(&sample, blocks, threads, by_answer, leaving));
    Ok((by_block.map(|nats| column(py, nats)), column(py, forced)))
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
