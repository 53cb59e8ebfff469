"""Evidence on single operations -> joined with those of the captures: RPCs by XID, calls and waits by file, bytes and
time; what is counted of each operation stands beside what the captures have of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from nfslat.evidence import bcc, client_tools, nfsd_status, sunrpc_join
from nfslat.evidence.calls import of_calls
from nfslat.evidence.known import Known, Traced, data_ops
from nfslat.evidence.oracle_files import of_waits
from nfslat.evidence.oracle_trace import DataFiles, Trace10046
from nfslat.evidence.records import Evidence
from nfslat.evidence.strace import Strace
from nfslat.evidence.sunrpc_trace import SunrpcTrace
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64
from nfslat.model.units import NS_PER_US, to_ms
from nfslat.results import Analysis

_RECORDS = (
    SunrpcTrace,
    Strace,
    nfsd_status.Status,
    Trace10046,
    DataFiles,
    bcc.SlowCalls,
    client_tools.Nfsstat,
)


def is_joined(evidence: Evidence) -> bool:
    """Is it put beside the operations of the captures, or some of them?"""
    return isinstance(evidence.record, _RECORDS)


def has_means(evidence: Evidence) -> bool:
    """Is it of use beyond the operations that are joined? The application's waits are, joined or not; means over all
    RPCs of a trace are not."""
    return isinstance(evidence.record, Trace10046) or not is_joined(evidence)


def join(known: Known, files: Sequence[Evidence], c: Analysis) -> tuple[Known, list[str], list[str]]:
    """What is known with them; what is of no use; and what a reader has to know."""
    unused: list[str] = []
    notes: list[str] = []
    paths: dict[int, str] = {}
    has_waits = any(isinstance(file.record, Trace10046) and file.record.places for file in files)
    for file in files:
        if isinstance(file.record, DataFiles):
            paths |= file.record.paths
            if not has_waits:
                unused.append(f"{file.name}: names data files, and no 10046 trace says which of them was waited for")
    for file in sorted(files, key=lambda each: _RECORDS.index(type(each.record))):
        name, record = file.name, file.record
        if isinstance(record, SunrpcTrace):
            known, remarks = _traced(known, name, record, c)
            notes += remarks
            if not remarks:
                unused.append(f"{name}: none of its RPCs is in the captures: it is of another time or host")
        elif isinstance(record, Strace):
            calls = of_calls(name, record.calls, c)
            known = dataclasses.replace(known, calls=(*known.calls, *calls.means))
            known = known.having("app_ms", dict(calls.app_ms), f"strace {name}") if calls.app_ms else known
            (notes if calls.means else unused).extend(calls.notes)
        elif isinstance(record, nfsd_status.Status):
            notes += nfsd_status.joined(name, record, c)
        elif isinstance(record, Trace10046) and record.places:
            calls = of_waits(name, record.places, paths, c)
            known = dataclasses.replace(known, calls=(*known.calls, *calls.means))
            notes += calls.notes
        elif isinstance(record, bcc.SlowCalls | client_tools.Nfsstat):
            remarks, of_no_use = _beside(record, c)
            notes += [f"{name}: {each}" for each in remarks]
            unused += [f"{name}: {each}" for each in of_no_use]
    return known, unused, notes


def _beside(record: bcc.SlowCalls | client_tools.Nfsstat, c: Analysis) -> tuple[list[str], list[str]]:
    """What is counted of each operation, beside the captures; and why it is of no use."""
    if isinstance(record, bcc.SlowCalls):
        slowest = {op: float(to_ms(c.client_srt_ns[c.rows_of([op])].max())) for op in c.ops_of}
        return bcc.beside(record, slowest)
    total = sum(c.ops_of.values())
    calls = c.client if c.inferred is None or c.inferred.side != "client" else c.server
    resent = int(np.count_nonzero(calls.ops.transmissions[calls.forward] > 1))
    return client_tools.beside(record, {op: count / total for op, count in c.ops_of.items()}, resent)


def _traced(known: Known, name: str, trace: SunrpcTrace, c: Analysis) -> tuple[Known, list[str]]:
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
                f"{name}: {rows:,} of {len(of_side.row):,} ops of the {side}'s capture are in the trace"
                + (f", {of_side.ambiguous:,} more cannot be told apart" if of_side.ambiguous else "")
            )
    if known.traced is not None:  # a trace of the other host
        found = Traced(*(np.where(new == NULL, old, new) for new, old in zip(found, known.traced, strict=True)))
    known = dataclasses.replace(known, traced=found)
    for field, column in zip(("slot_wait_ms", "app_ms", "thread_ms"), found, strict=True):
        by_op = {}
        for op in data_ops(c):
            values = column[c.rows_of([op])]
            if (values >= 0).any():
                by_op[op] = float(to_ms(values[values >= 0].mean()))
        if by_op:
            known = known.having(field, by_op, f"sunrpc trace {name}")
    return known, notes


def _ns(us: I64) -> I64:
    return np.where(us >= 0, us * NS_PER_US, -1)
