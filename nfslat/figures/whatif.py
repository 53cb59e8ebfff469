"""An `Analysis` and other numbers of threads or slots -> what a replay with them says (`nfslat.inflight.replay`)."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import structs

from nfslat.answer import model
from nfslat.errors import InputError, UsageError
from nfslat.evidence.known import Known
from nfslat.figures.matched import row_of
from nfslat.findings.client import Slots
from nfslat.findings.diagnosis import Diagnosis
from nfslat.findings.facts import Facts
from nfslat.inflight.shared import ServerShare
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64
from nfslat.model.units import to_ms
from nfslat.results import Analysis
from nfslat.select import client_ends

if TYPE_CHECKING:
    from nfslat.inflight import replay
    from nfslat.inflight.play import Load
    from nfslat.inflight.replay import Replay

_MOST = 1 << 20


class Asked(NamedTuple):
    """One ``--what-if``."""

    text: str
    threads: int | None = None
    slots: int | None = None


class InEffect(NamedTuple):
    """What a replay is held against. The gain of a finding and ``--what-if`` have it from here: they never differ."""

    rows: I64  # matched ops that the report's mean is of
    of: str  # their operations; "" is all
    application_ms: float | None  # what the application sees of them, where that is known
    threads: int | None  # None: no limit
    slots: int | None  # of each connection or session; None: no limit
    sessions: int | None  # requests that the application has open at any time


def in_effect(
    c: Analysis, known: Known, f: Facts, findings: Iterable[Diagnosis], *, sessions: int | None = None
) -> InEffect:
    """`sessions` is what somebody gave, before what Little's law says."""
    has_application = f.mean.client_ms is not None
    limits = [one for one in findings if isinstance(one.evidence, Slots)]
    slots = max(limits, key=lambda one: one.share or 0.0, default=None)
    return InEffect(
        rows=known.population(c) if has_application else np.arange(len(c.matched)),
        of=f.mean.ops,
        application_ms=f.mean.total_ms if has_application else None,
        threads=f.threads or (None if f.server is None else f.server.threads_estimate),
        slots=slots.evidence.slots_each if slots is not None and isinstance(slots.evidence, Slots) else None,
        sessions=f.sessions_needed if sessions is None else sessions,
    )


def parse_asked(text: str) -> Asked:
    """``threads=64``, ``slots=128`` or both with a comma. Raises ``UsageError`` for anything else."""
    found: dict[str, int] = {}
    for part in text.split(","):
        one = re.fullmatch(r"\s*(threads|slots)=(\d{1,7})\s*", part)
        if one is None or one[1] in found or not 0 < int(one[2]) <= _MOST:
            raise UsageError(f"--what-if {text}: give threads=64, slots=128 (of each connection) or both with a comma")
        found[one[1]] = int(one[2])
    return Asked(text, found.get("threads"), found.get("slots"))


def what_if(c: Analysis, asked: Sequence[Asked], now: InEffect | None) -> tuple[list[model.WhatIf], list[str]]:
    """One replay for each of `asked`; `now` is None where no op is matched.

    And notes on those that have no answer, because the packets do not tell the time in a thread. Raises ``UsageError``
    as `replay.what_if` does.
    """
    if not asked:
        return [], []
    none = f"--what-if {', '.join(one.text for one in asked)} has no answer"
    if c.inflight.load.threads.cannot:
        return [], [f"{none}: the time in a server thread is not known: {c.inflight.load.threads.cannot}"]
    if now is None:
        return [], [f"{none}: no op is seen in both captures"]
    try:
        return [replayed(c, now, one) for one in asked], []
    except InputError as error:
        return [], [f"{none}: {error}"]


def replayed(c: Analysis, now: InEffect, asked: Asked) -> model.WhatIf:
    """One replay. What it expects is the report's mean, less as much as the replays differ: what both have wrong, and
    the ops at the end, which have no successors to play, take nothing from it. Raises what `replay.what_if` does."""
    if c.inflight.load.servers > 1:
        raise InputError("these are ops of several servers, each with threads of its own; --server-addr takes one")
    ops = c.matched.server[now.rows].astype(np.int64)
    found = _replay_of(c, with_slots=bool(now.slots or asked.slots)).what_if(
        ops if c.share is None else c.share.rows[ops],
        threads_now=now.threads,
        slots_now=now.slots,
        threads=asked.threads,
        slots=asked.slots,
        sessions=now.sessions,
    )
    row = row_of(c, ("", now.of, ""), now.rows)
    before, after = found.before.client, found.after.client
    client = model.MeanAndP99(row.client_ms.mean, row.client_ms.p99)
    expected = model.MeanAndP99(
        client.mean * after.mean_ns / before.mean_ns, client.p99 * after.p99_ns / max(before.p99_ns, 1)
    )
    application_ms = None
    if now.application_ms is not None:
        wait = found.before.application, found.after.application
        # Where slots are no limit, only what is on the wire changes.
        application_ms = now.application_ms + expected.mean - client.mean
        if now.slots is not None and now.sessions is not None and wait[0] is not None and wait[1] is not None:
            application_ms = now.application_ms * wait[1].mean_ns / wait[0].mean_ns
    return model.WhatIf(
        asked=asked.text,
        of=now.of,
        client_ms=client,
        expected_client_ms=expected,
        application_ms=now.application_ms,
        expected_application_ms=application_ms,
        thread_wait_ms=row.queue_ms,
        before=_outcome(found.before),
        after=_outcome(found.after),
        error=found.error,
        ops=found.ops,
        ops_given=found.ops_given,
        others=found.others,
        warning=found.warning,
    )


def joined(some: Sequence[model.WhatIf]) -> model.WhatIf:
    """What was asked of blocks of the ops, as of all of them: means weighted by the ops that were played, and so are
    percentiles. Raises ``IndexError`` where there are none."""
    ops = [of.ops for of in some]

    def mean(figures: Sequence[float | None]) -> float | None:
        known = [(figure, count) for figure, count in zip(figures, ops, strict=True) if figure is not None]
        weight = sum(count for _, count in known)
        return sum(figure * count for figure, count in known) / weight if weight else None

    def of_all(rows: Sequence[Any]) -> Any:
        """Rows of one class: what is no mean is summed, or is the first one's."""
        changed: dict[str, Any] = {}
        for one in dataclasses.fields(rows[0]):
            values = [getattr(row, one.name) for row in rows]
            value = next((known for known in values if known is not None), None)
            if dataclasses.is_dataclass(value):
                changed[one.name] = of_all([value if known is None else known for known in values])
            elif one.name in _COUNTS:
                changed[one.name] = sum(values)
            elif isinstance(value, float):
                changed[one.name] = mean(values)
        return structs.replace(rows[0], **changed)

    made: model.WhatIf = of_all(some)
    return made


_COUNTS = ("ops", "ops_given", "others")


def with_figures(replay: model.WhatIf, row: model.MatchedRow) -> model.WhatIf:
    """The same of the ops of `row`, of which parts were replayed: what it expects differs as much from these."""
    before, after = replay.client_ms, replay.expected_client_ms
    client = model.MeanAndP99(row.client_ms.mean, row.client_ms.p99)
    expected = model.MeanAndP99(
        client.mean * after.mean / max(before.mean, 1e-9), client.p99 * after.p99 / max(before.p99, 1e-9)
    )
    return structs.replace(replay, client_ms=client, expected_client_ms=expected)


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


def _replay_of(c: Analysis, *, with_slots: bool) -> Replay:
    """What a server did for all its clients, played once for all of them. Where slots are played, those of one client
    are: its ops, and what else the server did meanwhile, as far as its capture shows it."""
    share = c.share or whole_of(c)
    if c.share is None or not with_slots:
        return share.server.replay(share.load)
    from nfslat.inflight.replay import Replay  # noqa: PLC0415  (most runs replay nothing)

    return Replay(load_of(c, share))


def shows_most(c: Analysis) -> bool:
    """Is what takes the server's threads known? Where its side holds one client's ops alone, what the others asked is
    not, and a play without it has threads to spare."""
    return c.share is not None or 2 * len(c.server.ops) >= c.inflight.load.threads.calls


def whole_of(c: Analysis) -> ServerShare:
    """The only server of `c`, with whatever `c` holds of it."""
    server, ops = c.whole_server, c.server.ops
    every = ServerShare(server, np.arange(len(ops)), np.arange(len(ops.connections)), lambda: load_of(c, every))
    return every


def load_of(c: Analysis, share: ServerShare, at: slice | I64 = slice(None)) -> Load:
    """The matched ops `at`, which are all of one server, `share`; and what else that did meanwhile, as far as its
    capture shows it."""
    server, client = c.matched.rows(at)
    ops, at_server, rows = c.client.ops, c.server.ops, share.rows[c.matched.server[at]]
    queue = share.server.wide.load.queue_ns[rows] if c.share is None else c.inflight.load.queue_ns[server]
    callers, network = _callers(c)[ops.conn[client]], (c.client_srt_ns - c.server_srt_ns)[at]
    theta = c.clock.main.theta_ns if c.clock.fits else int(np.median(at_server.t1[server] - ops.t1[client]))
    sent = ops.t0[client]
    if (not c.clock.fits or c.clock.steps) and len(callers) and (callers != callers[0]).any():
        # Each client may have a clock of its own: all by the server's, then, as if calls took half of the way.
        theta, sent = 0, at_server.t1[server] - network // 2
    others = share.server.others(rows)
    nothing = np.zeros(len(others.op), dtype=np.int64)
    service = at_server.t2[server] - at_server.t1[server] - np.maximum(queue, 0)
    from nfslat.inflight.play import Load  # noqa: PLC0415  (likewise)

    return Load.from_columns(
        {
            "conn": np.concatenate((share.conns[at_server.conn[server]], others.conn)),
            "client": np.concatenate((callers, len(ops.connections) + others.conn)),
            "slot_table": np.concatenate((_slot_tables(c)[client], np.full(len(nothing), NULL))),
            "sent_ns": np.concatenate((sent, others.t1 - theta)),
            "received_ns": np.concatenate((sent + ops.t3[client] - ops.t0[client], others.t2 - theta)),
            "network_ns": np.concatenate((network, nothing)),
            "service_ns": np.concatenate((service, others.t2 - others.t1 - others.queue_ns)),
            "is_ours": np.arange(len(server) + len(nothing)) < len(server),
            "op": np.concatenate((rows, others.op)),
        }
    )


def _callers(c: Analysis) -> I64:
    """Number of the two hosts of each connection, by the client's capture: a reply releases calls of the same two."""
    numbers: dict[tuple[str, frozenset[str]], int] = {}
    clients, ends = client_ends(c.client.ops), c.client.ops.connections
    pairs = [(client, frozenset((one.addr_a, one.addr_b))) for (client, _), one in zip(clients, ends, strict=True)]
    return np.array([numbers.setdefault(pair, len(numbers)) for pair in pairs], dtype=np.int64)


def _slot_tables(c: Analysis) -> I64:
    """Of each of the client's ops: its connection, or its NFSv4.1 session."""
    ops, slots = c.client.ops, c.client.decoded.details.slots
    tables = ops.conn.astype(np.int64)
    tables[slots.op] = len(ops.connections) + slots.session.astype(np.int64)
    return tables
