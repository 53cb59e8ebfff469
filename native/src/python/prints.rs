//! Packets that a capture has twice, as Python sees them (`nfslat/decode/twice.py`), and what it holds that is not read.

use std::sync::Arc;

use numpy::PyReadonlyArray1;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::{Job, failure, open, table};
use crate::capture::{Error, read_all};
use crate::container::{Error as ContainerError, Reader};
use crate::prints::{Printer, Unreadable};
use crate::split::share_out as share;

/// A row for each packet of captures, one after the other, as one; of the first so many at least, where `wanted` is given.
#[pyfunction]
#[pyo3(signature = (paths, job, wanted = None))]
pub(super) fn prints(
    py: Python<'_>,
    paths: Vec<std::path::PathBuf>,
    job: &Job,
    wanted: Option<usize>,
) -> PyResult<Py<PyDict>> {
    let progress = Arc::clone(&job.0);
    let mut printer = Printer::new(wanted);
    match py.detach(|| read_all(paths.iter().map(open), &mut printer, &progress)) {
        Err(Error::Stopped) if wanted.is_some_and(|wanted| printer.rows.print.len() >= wanted) => {}
        done => drop(done.map_err(failure)?),
    }
    table(py, printer.rows.take_columns())
}

/// Write each packet to that of `outs` which `shares` says of it.
#[pyfunction]
pub(super) fn share_out(
    py: Python<'_>,
    paths: Vec<std::path::PathBuf>,
    outs: Vec<std::path::PathBuf>,
    shares: PyReadonlyArray1<'_, u8>,
    job: &Job,
) -> PyResult<()> {
    let progress = Arc::clone(&job.0);
    let shares = shares.as_slice()?.to_vec();
    py.detach(|| share(paths.iter().map(open), &outs, &shares, &progress)).map_err(failure)
}

/// So many packets are looked at.
const LOOKED_AT: u64 = 1 << 16;

/// Of the first packets: how many, RDMA, RDMA with NFS, and TLS on NFS's port.
#[pyfunction]
pub(super) fn unreadable(py: Python<'_>, path: std::path::PathBuf) -> PyResult<(u64, u64, u64, u64)> {
    py.detach(|| {
        let failed = |error| failure(Error::Container { file: 0, error });
        let input = open(&path).map_err(|error| failed(ContainerError::Io(error)))?;
        let mut reader = Reader::open(input).map_err(failed)?;
        let mut seen = Unreadable::default();
        while seen.packets < LOOKED_AT {
            match reader.next() {
                Ok(Some(packet)) => seen.look(&packet),
                Ok(None) => break,
                Err(_) => seen.packets += 1,
            }
        }
        Ok((seen.packets, seen.rdma, seen.rdma_nfs, seen.tls))
    })
}
