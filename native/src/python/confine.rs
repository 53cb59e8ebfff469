//! What a thread, and whatever it starts, may still do: read files, write below the folders that it is told, compute.
//!
//! Landlock for files, TCP, signals and abstract sockets; seccomp for all other sockets, which Landlock does not know. Both
//! are of a thread, and children inherit them: so a thread that restricts itself, starts a program and ends needs no
//! launcher in between.

use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetStatus, Scope, path_beneath_rules,
};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// Linux 6.12; an older kernel gets what it knows of this.
const KNOWN: ABI = ABI::V6;

/// Restrict the calling thread for good. Returns what holds: "files" and "sockets", or less on old kernels.
#[pyfunction]
pub fn confine(writable: Vec<PathBuf>) -> PyResult<Vec<&'static str>> {
    let files = files(&writable).map_err(|problem| PyOSError::new_err(problem.to_string()))?;
    Ok([("files", files), ("sockets", sockets())]
        .into_iter()
        .filter(|(_, holds)| *holds)
        .map(|(what, _)| what)
        .collect())
}

fn files(writable: &[PathBuf]) -> Result<bool, landlock::RulesetError> {
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?
        .scope(Scope::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(["/"], AccessFs::from_read(KNOWN)))?
        .add_rules(path_beneath_rules(writable, AccessFs::from_all(KNOWN)))?;
    if let Ok(null) = PathFd::new("/dev/null") {
        rules =
            rules.add_rule(PathBeneath::new(null, AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate))?;
    }
    Ok(rules.restrict_self()?.ruleset != RulesetStatus::NotEnforced)
}

/// No socket of any family, and no io_uring, which could make one. False where the kernel or the processor has no such filter.
fn sockets() -> bool {
    let denied = [libc::SYS_socket, libc::SYS_io_uring_setup].map(|number| (number, Vec::new()));
    let filter = std::env::consts::ARCH.try_into().and_then(|processor| {
        let errno = SeccompAction::Errno(libc::EACCES as u32);
        SeccompFilter::new(denied.into(), SeccompAction::Allow, errno, processor)
    });
    let Ok(program) = filter.and_then(BpfProgram::try_from) else { return false };
    seccompiler::apply_filter(&program).is_ok()
}
