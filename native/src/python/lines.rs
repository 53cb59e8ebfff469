//! Lines of text, as Python has them made of columns (`nfslat/export/csv.py`).

use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::lines::{Cells, Column, Form, cell, lines};

/// The columns of a table.
#[pyclass(frozen, module = "nfslat._native")]
pub(super) struct Lines(Vec<Column>);

type Values<'py> = (Option<PyReadonlyArray1<'py, i64>>, Option<PyReadonlyArray1<'py, bool>>);

#[pymethods]
impl Lines {
    /// For each what stands in front of it always, and where it is not null; its form, and its texts.
    #[new]
    fn new(columns: Vec<(String, String, String, Option<Vec<String>>)>) -> PyResult<Lines> {
        let made = |(always, before, form, texts): (String, String, String, Option<Vec<String>>)| {
            let is_cell = form == "cell";
            let texts = texts
                .map(|texts| texts.into_iter().map(|text| if is_cell { cell(&text) } else { text.into() }).collect());
            let form = Form::of(if is_cell { "text" } else { &form }, texts)?;
            Some(Column { always: always.into(), before: before.into(), form })
        };
        let columns: Option<Vec<_>> = columns.into_iter().map(made).collect();
        columns.map(Lines).ok_or_else(|| PyValueError::new_err("a column of no form"))
    }

    /// Some rows.
    fn of(&self, py: Python<'_>, cells: Vec<Values<'_>>, rows: usize) -> PyResult<String> {
        let cells: Vec<_> = cells
            .iter()
            .map(|(values, null)| {
                let values = values.as_ref().map(|values| values.as_slice()).transpose()?;
                Ok(Cells { values, null: null.as_ref().map(|null| null.as_slice()).transpose()? })
            })
            .collect::<PyResult<_>>()?;
        let made = py.detach(|| lines(&self.0, &cells, rows));
        made.ok_or_else(|| PyValueError::new_err("columns that are no table"))
    }
}
