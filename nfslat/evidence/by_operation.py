"""Evidence on single operations -> joined with those of the captures: RPCs by XID, calls and waits by file, bytes and
time; what is counted of each operation stands beside what the captures have of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec import structs

from nfslat.evidence import bcc, client_tools, nfsd_status, sunrpc_join
from nfslat.evidence.calls import of_calls
from nfslat.evidence.known import Known, Traced, data_ops
from nfslat.evidence.oracle_files import of_waits
from nfslat.evidence.oracle_trace import Wait
from nfslat.evidence.records import Evidence
from nfslat.evidence.strace import Call
from nfslat.evidence.sunrpc_trace import SunrpcTrace
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64
from nfslat.model.units import NS_PER_US, to_ms
from nfslat.results import Analysis

Said = tuple[Known, list[str], list[str]]  # what is known, what a reader has to know, what is of no use


def is_joined(evidence: Evidence) -> bool:
    """Is it put beside the operations of the captures, or some of them?"""
    return evidence.kind in _JOINS


def has_means(evidence: Evidence) -> bool:
    """Is it of use beyond the operations that are joined? The application's waits are, joined or not; means over all
    RPCs of a trace are not."""
    return evidence.kind == _WAITS or not is_joined(evidence)


def join(known: Known, files: Sequence[Evidence], c: Analysis) -> Said:
    """The evidence that `is_joined`, beside the operations of the captures."""
    notes, unused = list[str](), list[str]()
    paths: dict[int, str] = {}
    for file in (file for file in files if file.kind == _DATA_FILES):
        paths |= file.record
        if not any(other.kind == _WAITS and other.record for other in files):
            unused.append(f"{file.name}: names data files, and no 10046 trace says which of them was waited for")
    joins = _JOINS | {_WAITS: partial(_waits, paths)}
    order = list(joins)
    for file in sorted(files, key=lambda each: order.index(each.kind)):
        known, remarks, of_no_use = joins[file.kind](known, file.name, file.record, c)
        notes += [f"{file.name}: {each}" for each in remarks]
        unused += [f"{file.name}: {each}" for each in of_no_use]
    return known, notes, unused


def _waits(paths: Mapping[int, str], known: Known, name: str, places: Sequence[Wait], c: Analysis) -> Said:
    if not places:
        return known, [], []
    calls = of_waits(name, places, paths, c)
    return structs.replace(known, calls=(*known.calls, *calls.means)), calls.notes, []


def _calls(known: Known, name: str, record: Sequence[Call], c: Analysis) -> Said:
    calls = of_calls(name, record, c)
    known = structs.replace(known, calls=(*known.calls, *calls.means))
    known = known.having("app_ms", dict(calls.app_ms), f"strace {name}") if calls.app_ms else known
    return (known, calls.notes, []) if calls.means else (known, [], calls.notes)


def _slow_calls(known: Known, _: str, record: Mapping[str, list[float]], c: Analysis) -> Said:
    slowest = {op: float(to_ms(c.client_srt_ns[c.rows_of([op])].max())) for op in c.ops_of}
    return known, *bcc.beside(record, slowest)


def _counts(known: Known, _: str, record: Mapping[str, client_tools.Host], c: Analysis) -> Said:
    total = sum(c.ops_of.values())
    calls = c.client if c.inferred is None or c.inferred.side != "client" else c.server
    resent = int(np.count_nonzero(calls.ops.transmissions[calls.forward] > 1))
    return known, *client_tools.beside(record, {op: count / total for op, count in c.ops_of.items()}, resent)


def _traced(known: Known, name: str, trace: SunrpcTrace, c: Analysis) -> Said:
    """Slot waits and times in a thread, op by op."""
    client, server = c.client.ops, c.server.ops
    at_client = sunrpc_join.join(trace, client.xid, client.t0)
    at_server = sunrpc_join.join(trace, server.xid, server.t1, server=True)
    slot_us = np.where(at_client.slot_us >= 0, at_client.slot_us, at_client.backlog_us)
    found = Traced(
        slot_wait_ns=_ns(slot_us)[c.matched.client],
        execute_ns=_ns(at_client.execute_us)[c.matched.client],
        thread_ns=_ns(at_server.execute_us)[c.matched.server],
    )
    notes = []
    for side, of_side in (("client", at_client), ("server", at_server)):
        rows = int(np.count_nonzero(of_side.row >= 0))
        if rows or of_side.ambiguous:
            notes.append(
                f"{rows:,} of {len(of_side.row):,} ops of the {side}'s capture are in the trace"
                + (f", {of_side.ambiguous:,} more cannot be told apart" if of_side.ambiguous else "")
            )
    if known.traced is not None:  # a trace of the other host
        found = Traced(*(np.where(new == NULL, old, new) for new, old in zip(found, known.traced, strict=True)))
    known = structs.replace(known, traced=found)
    for field, column in zip(("slot_wait_ms", "app_ms", "thread_ms"), found, strict=True):
        by_op = {}
        for op in data_ops(c):
            values = column[c.rows_of([op])]
            if (values >= 0).any():
                by_op[op] = float(to_ms(values[values >= 0].mean()))
        if by_op:
            known = known.having(field, by_op, f"sunrpc trace {name}")
    return known, notes, [] if notes else ["none of its RPCs is in the captures: it is of another time or host"]


def _ns(us: I64) -> I64:
    return np.where(us >= 0, us * NS_PER_US, -1)


_WAITS, _DATA_FILES = "10046 trace", "data files"
# Kind of evidence -> what joins it, in this order.
_JOINS: dict[str, Callable[[Known, str, Any, Analysis], Said]] = {
    "sunrpc trace": _traced,
    "strace": _calls,
    "rpc status": lambda known, _, record, c: (known, nfsd_status.joined(record, c), []),
    _WAITS: partial(_waits, {}),
    _DATA_FILES: lambda known, *_: (known, [], []),
    "bcc": _slow_calls,
    "nfsstat": _counts,
}
