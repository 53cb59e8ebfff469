"""The sources of evidence, a row each: how its text is told from others, what reads it, and what it gives.

The readers are named, not imported, and the marks are not compiled before a file is read: help and usual runs, which
read no evidence, do not wait for them.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable
from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from nfslat.evidence.records import Evidence


class Mark(Enum):
    """What it means that a line has the mark of a kind."""

    SURE = "only this kind has such a line"
    UNSURE = "other text may have it, too: it counts where no line of the file is sure"
    MOST = "other text may have it, too: it counts where most lines have it"


class Kind(NamedTuple):
    """What an application or a tracer prints, and --evidence takes."""

    name: str
    words: str  # in lists of what can be read
    reader: str  # module:function, from lines and the file's name to `Evidence`
    marks: tuple[str, ...]  # expressions, one of which its lines begin with
    mark: Mark = Mark.SURE
    html: bool = False  # it may be written in HTML, too
    longest: int = 4096  # characters of a line in which its mark stands

    def belongs(self, line: str) -> bool:
        """Whether the line has the mark of this kind."""
        return _compiled(self.marks).match(line[: self.longest]) is not None

    def read(self, lines: Iterable[str], name: str) -> Evidence:
        """What the file `name` says; raises ``InputError`` where it holds nothing."""
        module, _, function = self.reader.partition(":")
        evidence: Evidence = getattr(importlib.import_module(f"nfslat.evidence.{module}"), function)(lines, name)
        return evidence


@cache
def _compiled(marks: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{mark})" for mark in marks))


_UNITS = r"nsecs?|ns|nanoseconds?|usecs?|[uµμ]s|microseconds?|msecs?|ms|milliseconds?|seconds?|secs?"
# In a heading: "(us)", "AVG_ms", "avg us", "in microseconds"; a lone "s" has to be in brackets.
UNIT_WORDS = rf"{_UNITS}|s"
HEADING_UNIT = rf"(?i:\(({UNIT_WORDS})\)|(?<=[a-z]_)({UNIT_WORDS})\b|\b({_UNITS})\b)"
# The headings of each tool of sysstat, procps and Solaris.
HOST_TOOLS = {
    "iostat": r"\s*Device:?\s(?=.*\s(?:r_await|await|svctm)(?:\s|$))|.*\sasvc_t\s.*\sdevice\s*$",
    "vmstat": r"\s*r\s+b\s(?=.*\sswpd\s)(?=.*\ssi\s).*\sso(?:\s|$)",
    "mpstat": r"(?=.*(?:^|\s)CPU\s).*\s%idle(?:\s|$)",
    "pidstat": r"(?=.*(?:^|\s)PID\s).*\sCommand\s*$",
}
HOST_HEAD = r"(?:Linux|SunOS|AIX) \S{1,80} \(([^()\s]{1,255})\)\s{1,20}(\S{6,10})(?:\s.{0,80}?\((\d{1,5}) CPUs?\))?"
OSWATCHER = r"zzz \*\*\*\s{0,9}\w{3} (\w{3}) {1,2}(\d{1,2}) (\d\d):(\d\d):(\d\d) (?:([AP]M) )?(?:(\S{1,9}) )?(\d{4})"
SYSSTAT_JSON = r'\s*\{\s*"sysstat"'
STRACE = r"(?:\[pid {1,8}(\d{1,10})\] |(\d{1,10}) {1,8})?(\d{9,11})\.(\d{6}) (?=\w|<\.\.\. )"
NFSDCTL = (
    r"\s{0,4}0x([0-9a-f]{8}) 0x([0-9a-f]{8}) (\d{1,10}) (?:(\d{1,10}) NFS(\d{1,3})|NFS(\d{1,3}) (\d{1,10}))"
    r" (-?\d{1,19})((?: \S{1,60}){0,60})\s*$"
)
SLOWER = r"Tracing ([A-Za-z]{2,5}\d?) operations(?: (?:that are )?slower than (\d{1,9}) ms)?"
SLOWER_COLUMNS = r"TIME\s{1,20}COMM\s{1,20}PID\s{1,10}T\s{1,10}BYTES\s{1,10}OFF_KB\s{1,10}LAT\(ms\)"
MOUNTSTATS = r"Stats for (\S.{0,4000}) mounted on (/.{0,4000}):\s*$"
PERF_SCHED = r"(?=.* ms \|)(?=.*\| avg:).*\| max:"
FRAME = r"\s*\[<[0-9a-fA-Fx]{1,18}>\] ([A-Za-z_.][\w.$]{0,200})(?:\+0x|\s|$)"
FIO_LAT = (
    r"\s{1,8}(clat|lat) \((nsec|usec|msec|sec)\)\s?: min=\s?[\d.]{1,20}[kM]?, max=\s?([\d.]{1,20})([kM]?), "
    r"avg=\s?([\d.]{1,20})(?=,)"
)

# Of two kinds that are sure of a line the first has it.
KINDS = (
    Kind("10046 trace", "Oracle 10046 trace", "oracle_trace:trace", ("WAIT #", "PARSING IN CURSOR #")),
    Kind(
        "wait events",
        "AWR or wait histogram",
        "oracle_reports:waits",
        (
            ".*(?:WORKLOAD REPOSITORY|STATSPACK report|Foreground Events|Timed Events|Wait Event Histogram)",
            "(?i:(?=.*WAIT_TIME_MI(?:LLI|CRO)).*WAIT_COUNT)",
        ),
        html=True,
    ),
    Kind("ASH report", "ASH report", "oracle_reports:ash", (".*(?:ASH Report|Analysis Begin Time:)",), html=True),
    Kind(
        "data files",
        "list of Oracle data files",
        "oracle_trace:data_files",
        (r'(?i:[^\w#]{0,40}"?(?:FILE#|FILE_ID)"?[^\w#/]{1,80}"?(?:NAME|FILE_NAME)"?\W{0,300}$)',),
        Mark.UNSURE,
    ),
    Kind(
        "DTrace",
        "DTrace",
        "dtrace:read",
        (
            ".*- Distribution -",
            r"(?!.{200}).*\b(?:op-[a-z]{1,20}-(?:start|done)|rfs[34]_[a-z_]{1,20})\b.{0,40}\d",
            rf"(?!.{{200}})(?=.*(?i:avg|average|mean|lat)).*(?:{HEADING_UNIT})",
        ),
        Mark.UNSURE,
    ),
    Kind(
        "sunrpc trace",
        "sunrpc tracepoints",
        "sunrpc_trace:read",
        ("# tracer:", r".*\d:(?: | {1,4}sunrpc:)(?:rpc|svc|xprt)_\w{1,40}:"),
    ),
    Kind("perf sched", "perf sched latency", "stacks:perf_sched", (PERF_SCHED,)),
    Kind(
        "host statistics",
        "iostat, vmstat, mpstat, pidstat",
        "host_statistics:read",
        (OSWATCHER, HOST_HEAD, SYSSTAT_JSON, *HOST_TOOLS.values()),
    ),
    Kind(
        "rpc status",
        "nfsdctl status",
        "nfsd_status:read",
        (NFSDCTL, r"\s*\[?\{?\s*['\"](?:compound-ops|daddr[46]|dport|flags|xid)['\"]:"),
    ),
    Kind("ss", "ss -tin", "sockets:read", (r"(?:.*?(?<!\w)(?:rto|rtt|wscale|cwnd):\d){3}",)),
    Kind("strace", "strace -ttt -T -yy", "strace:read", (rf"{STRACE}(?:\w{{2,30}}\(|<\.\.\. \w{{1,20}} resumed>)",)),
    Kind(
        "bcc",
        "nfsslower, fsslower, biolatency",
        "bcc:read",
        (SLOWER, SLOWER_COLUMNS, "Tracing block device I/O"),
    ),
    Kind(
        "folded stacks",
        "folded stacks",
        "stacks:folded",
        (r"[^\t;\r\n]*;[^\t\r\n]* \d{1,15}(?:\.\d{1,6})?[\r\n]*$", FRAME),
        Mark.MOST,
        longest=1 << 20,
    ),
    Kind("mountstats", "mountstats", "client_tools:mountstats", (MOUNTSTATS,), longest=9000),
    Kind(
        "nfsstat",
        "nfsstat",
        "client_tools:nfsstat",
        (
            r"(?:Client|Server) (?:rpc|nfs|NFSv[234])(?: stats| v[234](?: operations)?)?:",
            r"\s*nfs v[234] (?:client|serv)",
        ),
    ),
    Kind(
        "nfsiostat", "nfsiostat", "client_tools:nfsiostat", (r"\S.{0,4000}? mounted on .{1,4000}:\s*$",), longest=9000
    ),
    Kind("fio", "fio", "fio:read", ('.*"fio version"', r"fio-\d", FIO_LAT)),
)
