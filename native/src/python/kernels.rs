//! Inner loops of later stages, as Python sees them; each has a twin there.

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::column;
use crate::dispatch;
use crate::heard;
use crate::kernels;
use crate::order as ordering;
use crate::sweep;

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

/// Join the ops of two sides (`nfslat.kernels.join`).
#[pyfunction]
pub(super) fn join<'py>(
    py: Python<'py>,
    server: JoinSide<'py>,
    client: JoinSide<'py>,
    places: usize,
) -> PyResult<Joined<'py>> {
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

/// `nfslat.kernels.dispatch.Work`: arrival, reply and stream of each call, and the order of the replies.
pub(super) type Calls<'py> =
    (PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i64>, PyReadonlyArray1<'py, i32>, PyReadonlyArray1<'py, i32>);

pub(super) fn work<'a>((arrival_ns, reply_ns, stream, by_reply): &'a Calls<'_>) -> PyResult<dispatch::Work<'a>> {
    Ok(dispatch::Work {
        arrival_ns: arrival_ns.as_slice()?,
        reply_ns: reply_ns.as_slice()?,
        stream: stream.as_slice()?,
        by_reply: by_reply.as_slice()?,
    })
}

/// Start of each call if the server had so many threads (`nfslat.kernels.dispatch.starts`).
#[pyfunction]
pub(super) fn starts<'py>(
    py: Python<'py>,
    calls: Calls<'py>,
    threads: usize,
    by_answer: bool,
    leaving: bool,
) -> PyResult<Bound<'py, PyArray1<i64>>> {
    let work = work(&calls)?;
    let found = py.detach(|| dispatch::starts(&work, threads, by_answer, leaving));
    Ok(column(py, found))
}

/// Threads that must exist, and how often so many were seen (`nfslat.kernels.dispatch.most_at_once`).
#[pyfunction]
pub(super) fn bound(py: Python<'_>, calls: Calls<'_>) -> PyResult<(i64, i64)> {
    let work = work(&calls)?;
    Ok(py.detach(|| dispatch::bound(&work)))
}

pub(super) type Times<'py> = PyReadonlyArray1<'py, i64>;
pub(super) type Column<'py, T> = Bound<'py, PyArray1<T>>;

/// Starts and ends, each ascending (`nfslat.kernels.levels.in_order`).
#[pyfunction]
pub(super) fn in_order<'py>(
    py: Python<'py>,
    starts: Times<'py>,
    ends: Times<'py>,
) -> PyResult<(Column<'py, i64>, Column<'py, i64>)> {
    let (starts, ends) = (starts.as_slice()?, ends.as_slice()?);
    let found = py.detach(|| sweep::in_order(starts, ends));
    let (starts, ends) = found.ok_or_else(|| PyValueError::new_err("not as many ends as starts"))?;
    Ok((column(py, starts), column(py, ends)))
}

/// Time and ends by the number in flight (`nfslat.kernels.levels.time_and_ends`).
#[pyfunction]
pub(super) fn levels<'py>(
    py: Python<'py>,
    starts: Times<'py>,
    ends: Times<'py>,
) -> PyResult<(Column<'py, i64>, Column<'py, i64>)> {
    let (starts, ends) = (starts.as_slice()?, ends.as_slice()?);
    let (time_ns, ended) = py.detach(|| sweep::levels(starts, ends));
    Ok((column(py, time_ns), column(py, ended)))
}

/// Ends, time, and ops times time of each window (`nfslat.kernels.levels.windows_of`).
#[pyfunction]
pub(super) fn windows<'py>(
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

/// From an end to the start behind it (`nfslat.kernels.levels.turnarounds_ns`).
#[pyfunction]
pub(super) fn turnarounds<'py>(
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

/// Columns of `nfslat.model.segments.Segments`, from `t_ns` on without `frame`.
type Rows<'py> = (
    PyReadonlyArray1<'py, i64>,
    PyReadonlyArray1<'py, i64>,
    PyReadonlyArray1<'py, i32>,
    PyReadonlyArray1<'py, i64>,
    PyReadonlyArray1<'py, u32>,
    PyReadonlyArray1<'py, u8>,
);
/// What `nfslat.kernels.heard.heard` is made of.
type Heard<'py> = (
    (Column<'py, i64>, Column<'py, i64>, Column<'py, i64>, Column<'py, i64>, Column<'py, i32>, Column<'py, u8>),
    (Column<'py, i64>, Column<'py, i64>, Column<'py, u8>),
    Column<'py, i32>,
);

/// What each host of a connection sent (`nfslat.kernels.heard.heard`).
#[pyfunction]
#[pyo3(name = "heard")]
pub(super) fn heard_of<'py>(py: Python<'py>, rows: Rows<'py>, near: u8) -> PyResult<Heard<'py>> {
    let (t_ns, seq, size, ack, ts_val, marks) = &rows;
    let rows = heard::Rows {
        t_ns: t_ns.as_slice()?,
        seq: seq.as_slice()?,
        size: size.as_slice()?,
        ack: ack.as_slice()?,
        ts_val: ts_val.as_slice()?,
        marks: marks.as_slice()?,
    };
    let found = py.detach(|| heard::heard(&rows, near));
    let of_far = (
        column(py, found.t_ns),
        column(py, found.ticks),
        column(py, found.ack),
        column(py, found.seq),
        column(py, found.size),
        column(py, found.twice),
    );
    let of_near = (column(py, found.sent_ns), column(py, found.end), column(py, found.again));
    Ok((of_far, of_near, column(py, found.place)))
}

/// Where values stand in a column that ascends (`nfslat.kernels.heard.places`); both of 32 bits, or of 64.
#[pyfunction]
pub(super) fn places<'py>(
    py: Python<'py>,
    ascending: &Bound<'py, PyAny>,
    wanted: &Bound<'py, PyAny>,
) -> PyResult<Column<'py, i64>> {
    if let (Ok(one), Ok(two)) = (ascending.extract::<Times<'py>>(), wanted.extract::<Times<'py>>()) {
        let (one, two) = (one.as_slice()?, two.as_slice()?);
        return Ok(column(py, py.detach(|| heard::places(one, two))));
    }
    type Narrow<'py> = PyReadonlyArray1<'py, i32>;
    let (Ok(one), Ok(two)) = (ascending.extract::<Narrow<'py>>(), wanted.extract::<Narrow<'py>>()) else {
        return Err(PyValueError::new_err("columns of one type, int32 or int64"));
    };
    let (one, two) = (one.as_slice()?, two.as_slice()?);
    Ok(column(py, py.detach(|| heard::places(one, two))))
}

/// Rows in ascending order (`nfslat.kernels.order.argsort`).
#[pyfunction]
pub(super) fn order<'py>(py: Python<'py>, values: Times<'py>) -> PyResult<Column<'py, i64>> {
    let values = values.as_slice()?;
    Ok(column(py, py.detach(|| ordering::order(values))))
}

/// Rows of groups side by side, and how many each has (`nfslat.kernels.order.side_by_side`).
#[pyfunction]
pub(super) fn grouped<'py>(
    py: Python<'py>,
    groups: PyReadonlyArray1<'py, i32>,
    count: usize,
) -> PyResult<(Column<'py, i32>, Column<'py, i64>)> {
    let groups = groups.as_slice()?;
    let found = py.detach(|| ordering::grouped(groups, count));
    let (rows, sizes) = found.ok_or_else(|| PyValueError::new_err("there are not so many groups"))?;
    Ok((column(py, rows), column(py, sizes)))
}

/// What stands at some places of numbers, of 64 bits or of 32, in order (`nfslat.kernels.order.ranks`).
#[pyfunction]
pub(super) fn ranks(py: Python<'_>, values: &Bound<'_, PyAny>, places: Vec<usize>) -> PyResult<Vec<i64>> {
    let found = if let Ok(values) = values.extract::<PyReadonlyArray1<'_, i32>>() {
        let values = values.as_slice()?;
        py.detach(|| ordering::ranks(values, &places))
    } else {
        let values = values.extract::<Times<'_>>()?;
        let values = values.as_slice()?;
        py.detach(|| ordering::ranks(values, &places))
    };
    found.ok_or_else(|| PyValueError::new_err("there are not so many numbers"))
}
