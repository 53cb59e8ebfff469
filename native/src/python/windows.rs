//! A capture in windows, as Python sees it (`nfslat/decode/windows.py`): a thread decodes, and waits for who takes them.

use std::io::{BufWriter, Write};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use super::found::Found;
use super::{File, Job, failure, of_files, open};
use crate::apart::Turns;
use crate::capture::{self, Error};
use crate::compound::Ranks;
use crate::decoder::{Decoder, Wanted};
use crate::ring::{Ring, Written};
use crate::windows::{Behind, Live, Size, Window, decode_windows};

/// Begin and end of a window, whether another decoder goes on or all was read, and what ended in it.
type Taken = (i64, i64, (bool, bool), Found);

enum Told {
    Window(Box<Window>),
    End(Result<Vec<capture::File>, Error>),
}

/// The windows of a capture, one after the other.
#[pyclass(frozen, module = "nfslat._native")]
pub(super) struct Windows {
    told: Mutex<Option<Receiver<Told>>>,
    /// What came while nobody took it.
    next: Mutex<Option<Told>>,
    files: Mutex<Vec<Py<File>>>,
    live: Option<Arc<Live>>,
}

const POLL: Duration = Duration::from_millis(50);

impl Windows {
    fn wait(&self) -> Result<Told, RecvTimeoutError> {
        if let Some(next) = self.next.lock().ok().and_then(|mut next| next.take()) {
            return Ok(next);
        }
        let mut told = self.told.lock().map_err(|_| RecvTimeoutError::Disconnected)?;
        let next = told.as_ref().ok_or(RecvTimeoutError::Disconnected)?.recv_timeout(POLL);
        if !matches!(next, Ok(Told::Window(_)) | Err(RecvTimeoutError::Timeout)) {
            *told = None;
        }
        next
    }
}

#[pymethods]
impl Windows {
    #[new]
    #[pyo3(signature = (paths, width_ns, nfs_ranks, callback_ranks, action_rank, job, ring_bytes = None, first_ops = 0, least_ops = 0, segments = 0, files = true))]
    #[allow(clippy::too_many_arguments, reason = "Python gives them by name")]
    fn new(
        paths: Vec<std::path::PathBuf>,
        width_ns: i64,
        nfs_ranks: Vec<u8>,
        callback_ranks: Vec<u8>,
        action_rank: u8,
        job: &Job,
        ring_bytes: Option<usize>,
        first_ops: usize,
        least_ops: usize,
        segments: u8,
        files: bool,
    ) -> Windows {
        let live = ring_bytes.map(|bytes| Arc::new(Live::new(bytes)));
        let looks_on = live.clone();
        let progress = Arc::clone(&job.0);
        let ranks = Ranks { nfs: nfs_ranks, callback: callback_ranks, action: action_rank };
        let mut decoder = Decoder::new(ranks);
        decoder.keep_segments([Wanted::None, Wanted::Some, Wanted::All][usize::from(segments.min(2))]);
        decoder.pairing.files.is_unwanted = !files;
        let size = Size { first_ops, least_ops };
        // One waits while the next is made: no more than two are in memory, beside that which is looked at.
        let (sender, told) = sync_channel(1);
        thread::spawn(move || {
            let hand = |window| sender.send(Told::Window(Box::new(window))).is_ok();
            let done = decode_windows(paths.iter().map(open), decoder, width_ns, size, looks_on, &progress, hand);
            let _ = sender.send(Told::End(done)); // whoever asked may have gone
        });
        Windows { told: Mutex::new(Some(told)), next: Mutex::default(), files: Mutex::default(), live }
    }

    /// Is there something to take, after so long at most?
    fn ready(&self, py: Python<'_>) -> bool {
        match py.detach(|| self.wait()) {
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
            Ok(told) => {
                if let Ok(mut next) = self.next.lock() {
                    *next = Some(told);
                }
                true
            }
        }
    }

    /// When the next window began and ended, whether numbers behind it are others, or all was read, and what ended in
    /// it; None when there is no more.
    fn take(&self, py: Python<'_>) -> PyResult<Option<Taken>> {
        // A capture that is still being made may bring nothing for long, and Ctrl-C is to be heard meanwhile.
        let told = loop {
            match py.detach(|| self.wait()) {
                Err(RecvTimeoutError::Timeout) => py.check_signals()?,
                told => break told.ok(),
            }
        };
        match told {
            Some(Told::Window(window)) => {
                let Window { begin_ns, end_ns, contents, behind } = *window;
                let is_cut = contents.counts.captured_bytes < contents.counts.wire_bytes;
                let found = Found::new(py, contents, Turns::default(), is_cut, Vec::new())?;
                Ok(Some((begin_ns, end_ns, (behind == Behind::Another, behind == Behind::Nothing), found)))
            }
            Some(Told::End(done)) => {
                let files = of_files(py, done.map_err(failure)?)?;
                if let Ok(mut own) = self.files.lock() {
                    *own = files;
                }
                Ok(None)
            }
            None => Ok(None),
        }
    }

    /// What each file was, when all windows are taken.
    #[getter]
    fn files(&self, py: Python<'_>) -> Vec<Py<File>> {
        self.files.lock().map(|files| files.iter().map(|file| file.clone_ref(py)).collect()).unwrap_or_default()
    }

    /// Time of the newest packet that was read; None without one, and where nobody looks on.
    #[getter]
    fn newest_ns(&self) -> Option<i64> {
        let newest_ns = self.live.as_ref()?.newest_ns.load(Ordering::Relaxed);
        (newest_ns > i64::MIN).then_some(newest_ns)
    }

    /// Has the decoder seen so much that it should be replaced?
    #[getter]
    fn is_worn(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.is_worn.load(Ordering::Relaxed))
    }

    /// Replace it with the first packet from then on.
    fn renew(&self, t_ns: i64) {
        if let Some(live) = &self.live {
            live.renew_ns.store(t_ns, Ordering::Relaxed);
        }
    }

    /// Write what the ring holds of a time as pcapng, with times that are so much later: packets, and the times of the
    /// first and the last of them as they were captured.
    fn write_packets(
        &self,
        py: Python<'_>,
        path: std::path::PathBuf,
        begin_ns: i64,
        end_ns: i64,
        later_ns: i64,
        name: &str,
    ) -> PyResult<(u64, i64, i64)> {
        let written = py.detach(|| -> std::io::Result<Written> {
            let mut out = BufWriter::new(std::fs::File::create(path)?);
            let ring = self.live.as_ref().and_then(|live| live.ring.lock().ok());
            let held = ring.and_then(|mut ring| ring.as_mut().map(Ring::held));
            let written = match held {
                Some(held) => held.write(&mut out, begin_ns, end_ns, later_ns, name)?,
                None => Written::default(),
            };
            out.flush()?;
            Ok(written)
        })?;
        Ok((written.packets, written.first_ns, written.last_ns))
    }
}
