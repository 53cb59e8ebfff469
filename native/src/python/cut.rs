//! Some packets of a file, as Python has them written (`nfslat/packets/cut.py`).

use std::net::IpAddr;
use std::path::PathBuf;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::prelude::*;

use super::{column, failure, open};
use crate::cut::{Span, cut as write};
use crate::link::{Addr, Ends};

/// First packets, last packets, and the row of `ways` that they go: below 0 any.
type Spans<'py> = (PyReadonlyArray1<'py, u32>, PyReadonlyArray1<'py, u32>, PyReadonlyArray1<'py, i32>);

/// Write what is in `spans`, in the order of their first packets, to `out`; the numbers of these packets.
#[pyfunction]
pub(super) fn cut<'py>(
    py: Python<'py>,
    path: PathBuf,
    out: PathBuf,
    spans: Spans<'py>,
    ways: Vec<(String, u16, String, u16)>,
) -> PyResult<Bound<'py, PyArray1<u32>>> {
    let ways: Vec<Option<Ends>> = ways.iter().map(ends_of).collect();
    let (first, last, way) = (spans.0.as_slice()?, spans.1.as_slice()?, spans.2.as_slice()?);
    let ends = way.iter().map(|way| usize::try_from(*way).ok().and_then(|way| ways.get(way).copied().flatten()));
    let numbers = first.iter().zip(last).zip(ends);
    let spans: Vec<Span> = numbers.map(|((first, last), ends)| Span { first: *first, last: *last, ends }).collect();
    let numbers = py.detach(|| write(open(&path), &out, &spans)).map_err(failure)?;
    Ok(column(py, numbers))
}

/// None: of addresses that are not written as they are here.
fn ends_of((src, sport, dst, dport): &(String, u16, String, u16)) -> Option<Ends> {
    Some(Ends { src: addr(src)?, dst: addr(dst)?, sport: *sport, dport: *dport })
}

fn addr(text: &str) -> Option<Addr> {
    Some(match text.parse().ok()? {
        IpAddr::V4(addr) => addr.to_ipv6_mapped().into(),
        IpAddr::V6(addr) => addr.into(),
    })
}
