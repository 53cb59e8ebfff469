"""A results folder -> nfslat's times held against the kernel's own, RPC by RPC, by XID.

What the kernel says comes from tracepoints of sunrpc that the guests record (`EVENTS_SERVER`, `EVENTS_CLIENT`); what
nfslat says from the captures of the same RPCs. The fields, and between which instants they lie, as in Linux 6.12:

    client   rq_xtime                 rpc_stats_latency rtt begins: the call is about to go to the socket (xprtsock.c)
             t0 ... t3                nfslat's client SRT: first byte of the call to last byte of the reply
             xprt_lookup_rqst         rtt ends: a worker has read the reply's XID (xprt.c); its last byte may come later
    server   t1                       nfslat's server SRT begins: last byte of the call
             svc_xprt_dequeue         a thread has taken the connection, and reads the call (svc_xprt.c, svc_recv)
             rq_stime                 svc_stats_latency execute begins: the call has been read (svc_handle_xprt)
             svc_send                 execute ends: the reply is about to go to the socket
             t2                       nfslat's server SRT ends: first byte of the reply
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import nfslat
from nfslat.decompose import srt_ns
from nfslat.errors import InputError, NfslatError
from nfslat.evidence.read import read
from nfslat.evidence.sunrpc_join import Joined, join
from nfslat.evidence.sunrpc_trace import SunrpcTrace
from nfslat.export.output import Kind, output
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool
from nfslat.results import Analysis, Side

from .compared import Comparison, Coverage, Difference, Row, as_json
from .compared_text import text

# What a guest records, of /sys/kernel/tracing/events/sunrpc. No more than needed, for recording costs the guest time:
# two events an RPC on each side. Taking a connection has no XID; the thread's next answer has it. svc_xprt_enqueue is
# not among them: it comes several times an RPC, and not at all for calls that wait in a socket behind another.
EVENTS_SERVER = ("svc_xprt_dequeue", "svc_stats_latency")
# xprt_reserve tells the wait for a slot from the wait to send, which nfslat's own evidence reader (--app) makes use of.
EVENTS_CLIENT = ("rpc_stats_latency", "xprt_reserve")
# The wall clock (no leap seconds are set in a guest), which is the capture's: instants of both can be compared. The
# default, local, counts ticks of 1 ms in User-Mode Linux.
TRACE_CLOCK = "tai"
# An RPC takes 190 bytes on the server and 121 on the client: 170,000 RPCs. What does not fit pushes out the oldest.
BUFFER_KB = 32_768

_NS_PER_US = 1_000
_STEADY_NS = 100_000  # from RPC to RPC the quickest of many differ by less; a clock that drifts or is set, by more
_SAME_CLOCK_NS = 3600 * 10**9  # no call waits so long; a clock that counts since boot is further away than that


def compare(folder: Path) -> list[Row]:
    """The differences alone. Raises ``InputError`` where captures or traces cannot be read or are not there."""
    return examine(folder).rows


def examine(folder: Path) -> Comparison:
    """All that can be compared in a results folder. Raises ``InputError`` where what it takes is not there."""
    captures = {side: folder / f"{side}.pcap.gz" for side in ("server", "client")}
    for path in captures.values():
        if not path.is_file():
            raise InputError(f"{path}: no such file: give a folder that scripts/lab run made")
    traces = {side: folder / f"{side}.trace.gz" for side in captures}
    if not any(path.is_file() for path in traces.values()):
        raise InputError(f"{folder}: no trace: the guests' kernel has no tracepoints (scripts/lab run --kernel traced)")
    c = nfslat.correlate(captures["server"], captures["client"]).correlation
    if c.swapped:
        raise InputError(f"{folder}: the captures are the wrong way round: server.pcap.gz is the client's")
    differences: list[Difference] = []
    coverage: list[Coverage] = []
    notes: list[str] = []
    for side, compared in (("client", _client), ("server", _server)):
        if not traces[side].is_file():
            notes.append(f"no {traces[side].name}: nothing of the {side} is compared")
            continue
        trace = read(str(traces[side])).record
        if not isinstance(trace, SunrpcTrace):
            raise InputError(f"{traces[side]}: not a trace of the kernel")
        joined, covered = _join(getattr(c, side), side, trace)
        coverage.append(covered)
        differences += compared(c, trace, joined, notes)
    return Comparison(folder.resolve().name, tuple(differences), tuple(coverage), tuple(notes))


# --- Which RPC of the trace an op is ----------------------------------------------------------------------------------


def _join(found: Side, side: str, trace: SunrpcTrace) -> tuple[Joined, Coverage]:
    """`Joined` of all ops of the side, -1 in those that are not to be compared; and what became of them."""
    ops, forward = found.ops, found.forward
    at_server = side == "server"
    call_ns = ops.t1 if at_server else ops.t0
    joined = join(trace, ops.xid, call_ns, server=at_server)
    # An op is counted for the first reason that holds.
    left = forward.copy()

    def those(mask: Bool) -> int:
        nonlocal left
        count = int(np.count_nonzero(left & mask))
        left = left & ~mask
        return count

    own = np.flatnonzero(trace.side == (1 if at_server else 0))
    sent_again, not_whole = those(ops.transmissions > 1), those(~ops.whole)
    compared = left & (joined.row >= 0)
    left = left & ~compared
    outside = those(_outside(trace, own, joined, call_ns))
    ambiguous = those(np.isin(ops.xid, trace.xid[own]))
    return _only(joined, compared), Coverage(
        side=side,
        ops=int(np.count_nonzero(forward)),
        joined=int(np.count_nonzero(compared)),
        sent_again=sent_again,
        not_whole=not_whole,
        outside=outside,
        ambiguous=ambiguous,
        missing=int(np.count_nonzero(left)),
        traced=len(own),
        unreadable=trace.unreadable,
    )


def _outside(trace: SunrpcTrace, own: I64, joined: Joined, call_ns: I64) -> Bool:
    """Calls before the first or after the last RPC of the trace; the joined ones tell how its clock differs."""
    begin_ns = trace.begin_ns[own]
    there = np.flatnonzero(joined.row >= 0)
    if not len(there) or (begin_ns < 0).any():
        return np.zeros(len(call_ns), dtype=np.bool_)
    behind_ns = int(np.median(trace.begin_ns[joined.row[there]] - call_ns[there]))
    at_ns = call_ns + behind_ns
    return np.asarray((at_ns < begin_ns.min()) | (at_ns > begin_ns.max()))


def _only(joined: Joined, kept: Bool) -> Joined:
    columns = {
        name: np.where(kept, getattr(joined, name), -1) for name in ("row", "backlog_us", "slot_us", "execute_us")
    }
    return Joined(**columns, ambiguous=joined.ambiguous, missing=joined.missing)


# --- The differences --------------------------------------------------------------------------------------------------


def _client(c: Analysis, trace: SunrpcTrace, joined: Joined, notes: list[str]) -> list[Difference]:
    ops = c.client.ops
    rows = np.flatnonzero(joined.row >= 0)
    # The kernel prints 0 for an RPC that was ended before a reply came.
    rows = rows[trace.rtt_us[joined.row[rows]] > 0]
    at = joined.row[rows]
    srt, rtt = srt_ns(ops, "nfslat", "client", rows), trace.rtt_us[at] * _NS_PER_US
    made = _difference("client SRT - rtt", srt, rtt)
    sent = trace.begin_ns[at]
    ahead = _ahead("client", sent + rtt - ops.t2[rows], notes)
    if ahead is not None:
        made += _difference("unsent + first byte - rtt", ops.t2[rows] - (sent - ahead), rtt)
    return made


def _server(c: Analysis, trace: SunrpcTrace, joined: Joined, notes: list[str]) -> list[Difference]:
    ops = c.server.ops
    rows = np.flatnonzero(joined.row >= 0)
    at = joined.row[rows]
    srt, execute = srt_ns(ops, "nfslat", "server", rows), joined.execute_us[rows] * _NS_PER_US
    made = _difference("server SRT - execute", srt, execute)
    load = c.inflight.load
    queue = load.queue_ns[rows]
    if load.threads.cannot:
        notes.append(f"nfslat says nothing of the wait for a thread: {load.threads.cannot}")
        queue = np.full(len(rows), NULL)
    told = queue != NULL
    made += _difference("server SRT - queue - execute", (srt - queue)[told], execute[told])
    taken = trace.taken_ns[at]
    traced = taken >= 0
    if not traced.any():
        notes.append("no svc_xprt_dequeue in the server's trace: what calls waited for a thread is not known")
    elif (behind := _ahead("server", ops.t2[rows] - trace.t_ns[at], notes)) is not None:
        wait = taken + behind - ops.t1[rows]
        made += _difference("server SRT - (wait + execute)", srt[traced], (wait + execute)[traced])
        made += _difference("queue - wait", queue[traced & told], wait[traced & told])
        slept = traced & (trace.wakeup_us[at] >= 0)
        made += _difference("wait - wakeup", wait[slept], trace.wakeup_us[at[slept]] * _NS_PER_US)
    return made


def _ahead(side: str, lag_ns: I64, notes: list[str]) -> int | None:
    """How far the clock of `lag_ns`'s later instants is ahead of that of the earlier ones; None where that changes.

    `lag_ns` has for each RPC, in order of time, what lies between two instants of which one follows the other at once
    if nothing keeps it, one of the trace and one of the capture. 0 is said where both are on one clock.
    """
    if not len(lag_ns) or abs(int(np.median(lag_ns))) <= _SAME_CLOCK_NS:
        return 0
    first, second = (int(half.min()) for half in np.array_split(lag_ns, 2)) if len(lag_ns) > 1 else (0, _SAME_CLOCK_NS)
    if abs(first - second) > _STEADY_NS:
        notes.append(
            f"the {side}'s trace is not on its capture's clock, and the two run apart: take trace_clock {TRACE_CLOCK}"
        )
        return None
    notes.append(
        f"the {side}'s trace is not on its capture's clock (trace_clock {TRACE_CLOCK} is): they were put together by "
        "the RPC that was quickest from one to the other"
    )
    return min(first, second)


def _difference(name: str, found_ns: I64, true_ns: I64) -> list[Difference]:
    """One, or none where there is nothing to compare."""
    return [Difference(name, found_ns, true_ns)] if len(found_ns) else []


# --- The command ------------------------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """Of `scripts/lab compare`."""
    made = argparse.ArgumentParser(
        prog="scripts/lab compare", description="Hold nfslat's times against the kernel's own, RPC by RPC."
    )
    made.add_argument("results", nargs="+", metavar="RESULTS", help="folder of one scenario, or one of such folders")
    made.add_argument("--json", metavar="FILE", help="write all of it as JSON; - is standard output")
    return made


def main(argv: Sequence[str]) -> int:
    """Compares, prints, and returns the exit status."""
    asked = parser().parse_args(argv)
    try:
        found = [examine(folder) for one in asked.results for folder in _folders(Path(one))]
        if asked.json:
            with output(asked.json, Kind.JSON, []) as out:
                if out is not None:
                    json.dump(as_json(found), out, indent=2, allow_nan=False)
                    out.write("\n")
        if asked.json != "-":
            sys.stdout.write(text(found))
    except NfslatError as error:
        print(f"lab compare: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_status
    return 0


def _folders(path: Path) -> list[Path]:
    """`path`, or those of its folders that have a trace."""
    if (path / "server.pcap.gz").exists() or not path.is_dir():
        return [path]
    folders = sorted({trace.parent for trace in path.glob("*/*.trace.gz")})
    if not folders:
        raise InputError(f"{path}: no traces: give a folder that scripts/lab run --kernel traced made")
    return folders
