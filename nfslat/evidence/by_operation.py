"""Evidence on single operations -> joined with those of the captures: RPCs by XID, calls and waits by file, bytes and
time; what is counted of each operation stands beside what the captures have of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from nfslat.evidence import bcc, client_tools
from nfslat.evidence.calls import of_calls, of_waits
from nfslat.evidence.known import Known
from nfslat.evidence.nfsd_status import Status, joined
from nfslat.evidence.oracle_trace import DataFiles, Trace10046
from nfslat.evidence.records import Evidence
from nfslat.evidence.strace import Strace
from nfslat.evidence.sunrpc_trace import SunrpcTrace
from nfslat.evidence.traced import traced
from nfslat.model.units import to_ms
from nfslat.results import Analysis

_KINDS = (SunrpcTrace, Strace, Status, Trace10046, DataFiles, bcc.SlowCalls, client_tools.Nfsstat)


def is_joined(found: Evidence) -> bool:
    """Is it put beside the operations of the captures, or some of them?"""
    return isinstance(found.record, _KINDS)


def has_means(found: Evidence) -> bool:
    """Is it of use beyond the operations that are joined? The application's waits are, joined or not; means over all
    RPCs of a trace are not."""
    return isinstance(found.record, Trace10046) or not is_joined(found)


def join(known: Known, files: Sequence[Evidence], c: Analysis) -> tuple[Known, list[str], list[str]]:
    """What is known with them; what is of no use; and what a reader has to know."""
    unused: list[str] = []
    notes: list[str] = []
    paths: dict[int, str] = {}
    has_waits = any(isinstance(one.record, Trace10046) and one.record.places for one in files)
    for one in files:
        if isinstance(one.record, DataFiles):
            paths |= one.record.paths
            if not has_waits:
                unused.append(f"{one.name}: names data files, and no 10046 trace says which of them was waited for")
    for one in sorted(files, key=lambda each: _KINDS.index(type(each.record))):
        name, record = one.name, one.record
        if isinstance(record, SunrpcTrace):
            known, said = traced(known, name, record, c)
            notes += said
            if not said:
                unused.append(f"{name}: none of its RPCs is in the captures: it is of another time or host")
        elif isinstance(record, Strace):
            calls = of_calls(name, record.calls, c)
            known = dataclasses.replace(known, calls=(*known.calls, *calls.means))
            known = known.having("app_ms", dict(calls.app_ms), f"strace {name}") if calls.app_ms else known
            (notes if calls.means else unused).extend(calls.notes)
        elif isinstance(record, Status):
            notes += joined(name, record, c)
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
