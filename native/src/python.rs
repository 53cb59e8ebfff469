//! What Python sees of the decoder.

use pyo3::prelude::*;

/// The native half of nfslat.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("VERSION", env!("CARGO_PKG_VERSION"))
}
