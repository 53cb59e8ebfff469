"""A sunrpc trace and the captures -> what is known of each op: waits for a slot, times in a thread."""

from __future__ import annotations

import dataclasses

import numpy as np

from nfslat.evidence.known import Known, Traced, data_ops
from nfslat.evidence.sunrpc_join import Joined, join
from nfslat.evidence.sunrpc_trace import SunrpcTrace
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64
from nfslat.model.units import NS_PER_US, to_ms
from nfslat.results import Analysis


def traced(known: Known, name: str, trace: SunrpcTrace, c: Analysis) -> tuple[Known, list[str]]:
    """Slot waits and times in a thread, op by op."""
    client, server = c.client.ops, c.server.ops
    at_client = join(trace, client.xid, client.t0)
    at_server = join(trace, server.xid, server.t1, server=True)
    found = Traced(
        slot_wait_ns=_ns(_slot_wait(at_client))[c.matched.client],
        execute_ns=_ns(at_client.execute_us)[c.matched.client],
        thread_ns=_ns(at_server.execute_us)[c.matched.server],
    )
    notes = []
    for side, joined in (("client", at_client), ("server", at_server)):
        rows = int(np.count_nonzero(joined.row >= 0))
        if rows or joined.ambiguous:
            notes.append(
                f"{name}: {rows:,} of {len(joined.row):,} ops of the {side}'s capture are in the trace"
                + (f", {joined.ambiguous:,} more cannot be told apart" if joined.ambiguous else "")
            )
    if known.traced is not None:  # a trace of the other host
        pairs = zip(_columns(found), _columns(known.traced), strict=True)
        found = Traced(*(np.where(new == NULL, old, new) for new, old in pairs))
    known = dataclasses.replace(known, traced=found)
    for field_name, column in (
        ("app_ms", found.execute_ns),
        ("slot_wait_ms", found.slot_wait_ns),
        ("thread_ms", found.thread_ns),
    ):
        by_op = {}
        for op in data_ops(c):
            values = column[c.rows_of([op])]
            values = values[values >= 0]
            if len(values):
                by_op[op] = float(to_ms(values.mean()))
        if by_op:
            known = known.having(field_name, by_op, f"sunrpc trace {name}")
    return known, notes


def _columns(one: Traced) -> tuple[I64, I64, I64]:
    return one.slot_wait_ns, one.execute_ns, one.thread_ns


def _slot_wait(joined: Joined) -> I64:
    return np.where(joined.slot_us >= 0, joined.slot_us, joined.backlog_us)


def _ns(us: I64) -> I64:
    return np.where(us >= 0, us * NS_PER_US, -1)
