"""An `Analysis` and other numbers of threads or slots -> what a replay with them says (`nfslat.inflight.replay`)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nfslat.answer import model
from nfslat.errors import InputError, UsageError
from nfslat.inflight import replay
from nfslat.inflight.jobs import find_jobs
from nfslat.inflight.play import Load
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64
from nfslat.model.units import to_ms
from nfslat.results import Analysis
from nfslat.select import client_ends, is_reverse

_MOST = 1 << 20


@dataclass(frozen=True)
class Asked:
    """One ``--what-if``."""

    text: str
    threads: int | None = None
    slots: int | None = None


def parse_asked(text: str) -> Asked:
    """``threads=64``, ``slots=128`` or both with a comma. Raises ``UsageError`` for anything else."""
    found: dict[str, int] = {}
    for part in text.split(","):
        one = re.fullmatch(r"\s*(threads|slots)=(\d{1,7})\s*", part)
        if one is None or one[1] in found or not 0 < int(one[2]) <= _MOST:
            raise UsageError(f"--what-if {text}: give threads=64, slots=128 (of each connection) or both with a comma")
        found[one[1]] = int(one[2])
    return Asked(text, found.get("threads"), found.get("slots"))


def what_if(
    c: Analysis, asked: Sequence[Asked], *, threads: int | None, slots: int | None, sessions: int | None
) -> tuple[list[model.WhatIf], list[str]]:
    """One replay for each of `asked`; `threads` and `slots` (of each connection or session) limit now, None: none does.

    And notes on those that have no answer, because the packets do not tell the time in a thread. Raises ``UsageError``
    as `replay.what_if` does.
    """
    if not asked:
        return [], []
    none = f"--what-if {', '.join(one.text for one in asked)} has no answer"
    if c.inflight.load.threads.cannot:
        return [], [f"{none}: the time in a server thread is not known: {c.inflight.load.threads.cannot}"]
    if not len(c.matched):
        return [], [f"{none}: no op is seen in both captures"]
    load = load_of(c)
    try:
        return [_one(load, one, threads, slots, sessions) for one in asked], []
    except InputError as error:
        return [], [f"{none}: {error}"]


def _one(load: Load, asked: Asked, threads: int | None, slots: int | None, sessions: int | None) -> model.WhatIf:
    found = replay.what_if(
        load, threads_now=threads, slots_now=slots, threads=asked.threads, slots=asked.slots, sessions=sessions
    )
    return model.WhatIf(
        asked=asked.text,
        captured_ms=_figures(found.captured),
        before=_outcome(found.before),
        after=_outcome(found.after),
        error=found.error,
        ops=found.ops,
        ops_given=found.ops_given,
        warning=found.warning,
    )


def _figures(figures: replay.Figures) -> model.MeanAndP99:
    return model.MeanAndP99(to_ms(figures.mean_ns), to_ms(figures.p99_ns))


def _outcome(one: replay.Outcome) -> model.Outcome:
    return model.Outcome(
        threads=one.threads,
        slots=one.slots,
        ops=one.ops,
        ops_per_s=one.ops_per_s,
        client_ms=_figures(one.client),
        application_ms=None if one.application is None else _figures(one.application),
        slot_wait_ms=to_ms(one.slot_wait_ns),
        thread_wait_ms=to_ms(one.thread_wait_ns),
        threads_busy=one.threads_busy,
        slots_busy=one.slots_busy,
        limit=one.limit,
    )


def load_of(c: Analysis) -> Load:
    """The matched ops, and what else the server did meanwhile, for other clients, as far as its capture shows it."""
    server, client = c.matched.rows(slice(None))
    ops, at_server = c.client.ops, c.server.ops
    queue = np.maximum(c.inflight.load.queue_ns, 0)
    theta = c.clock.main.theta_ns if c.clock.fits else int(np.median(at_server.t1[server] - ops.t1[client]))
    jobs = find_jobs(at_server, c.server.decoded.loose, is_reverse(at_server))
    others = np.setdiff1d(jobs.op[jobs.op != NULL], server)
    ours = at_server.t1[server].min(), at_server.t2[server].max()
    others = others[(at_server.t2[others] >= ours[0]) & (at_server.t1[others] <= ours[1])]
    return Load.from_columns(
        {
            "conn": np.concatenate((at_server.conn[server], at_server.conn[others])),
            "client": np.concatenate((_clients(c)[ops.conn[client]], len(ops.connections) + at_server.conn[others])),
            "slot_table": np.concatenate((_slot_tables(c)[client], np.full(len(others), NULL))),
            "sent_ns": np.concatenate((ops.t0[client], at_server.t1[others] - theta)),
            "received_ns": np.concatenate((ops.t3[client], at_server.t2[others] - theta)),
            "network_ns": np.concatenate((c.client_srt_ns - c.server_srt_ns, np.zeros(len(others), dtype=np.int64))),
            "service_ns": np.concatenate(
                [at_server.t2[rows] - at_server.t1[rows] - queue[rows] for rows in (server, others)]
            ),
            "is_ours": np.arange(len(server) + len(others)) < len(server),
        }
    )


def _clients(c: Analysis) -> I64:
    """Number of the client of each connection of the client's capture."""
    names = [address for address, _ in client_ends(c.client.ops)]
    numbers = {name: at for at, name in enumerate(dict.fromkeys(names))}
    return np.array([numbers[name] for name in names], dtype=np.int64)


def _slot_tables(c: Analysis) -> I64:
    """Of each of the client's ops: its connection, or its NFSv4.1 session."""
    ops, slots = c.client.ops, c.client.decoded.details.slots
    tables = ops.conn.astype(np.int64)
    tables[slots.op] = len(ops.connections) + slots.session.astype(np.int64)
    return tables
