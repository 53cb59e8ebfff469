"""The sources of evidence, a row each: how its text is told from others, what reads it, and what it gives.

The parsers are named, not imported: help and usual runs, which read no evidence, do not wait for them.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

if TYPE_CHECKING:
    from nfslat.evidence.records import Evidence


class Mark(Enum):
    """What it means that a line ``belongs`` to a kind."""

    SURE = "only this kind has such a line"
    UNSURE = "other text may have it, too: it counts where no line of the file is sure"
    MOST = "other text may have it, too: it counts where most lines have it"


class Parser(Protocol):
    """A module that reads one kind."""

    def belongs(self, line: str) -> bool:
        """Whether the line has the mark of this kind."""

    def evidence(self, lines: Iterable[str], name: str) -> Evidence:
        """What the file `name` says; raises ``InputError`` where it holds nothing."""


class Kind(NamedTuple):
    """What an application or a tracer prints, and --evidence takes."""

    name: str
    words: str  # in lists of what can be read
    module: str
    mark: Mark = Mark.SURE
    html: bool = False  # it may be written in HTML, too

    @property
    def parser(self) -> Parser:
        """Its module."""
        return cast(Parser, importlib.import_module(self.module))


# Of two kinds that are sure of a line the first has it.
KINDS = (
    Kind("10046 trace", "Oracle 10046 trace", "nfslat.evidence.oracle_trace"),
    Kind("wait events", "AWR or wait histogram", "nfslat.evidence.oracle_waits", html=True),
    Kind("ASH report", "ASH report", "nfslat.evidence.oracle_ash", html=True),
    Kind("data files", "list of Oracle data files", "nfslat.evidence.oracle_files", Mark.UNSURE),
    Kind("DTrace", "DTrace", "nfslat.evidence.dtrace", Mark.UNSURE),
    Kind("sunrpc trace", "sunrpc tracepoints", "nfslat.evidence.sunrpc_trace"),
    Kind("perf sched", "perf sched latency", "nfslat.evidence.perf_sched"),
    Kind("host statistics", "iostat, vmstat, mpstat, pidstat", "nfslat.evidence.host_statistics"),
    Kind("rpc status", "nfsdctl status", "nfslat.evidence.nfsd_status"),
    Kind("ss", "ss -tin", "nfslat.evidence.sockets"),
    Kind("strace", "strace -ttt -T -yy", "nfslat.evidence.strace"),
    Kind("bcc", "nfsslower, fsslower, biolatency", "nfslat.evidence.bcc"),
    Kind("folded stacks", "folded stacks", "nfslat.evidence.folded", Mark.MOST),
    Kind("mountstats", "mountstats", "nfslat.evidence.mountstats_tool"),
    Kind("nfsstat", "nfsstat", "nfslat.evidence.nfsstat"),
    Kind("nfsiostat", "nfsiostat", "nfslat.evidence.nfsiostat"),
    Kind("fio", "fio", "nfslat.evidence.fio"),
)
