"""Ops with their time in a thread -> mean and slowest ops with other numbers of server threads or client slots."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from nfslat.errors import InputError, UsageError
from nfslat.inflight.play import Load, Order, Played, hand_overs_ns, play
from nfslat.kernels.order import ranked
from nfslat.model.tables import I64, Bool

MOST_OPS = 50_000  # that are played; half a second

_MATTERS = 0.1  # share of the time that an op takes: a wait above it is what limits
_FEW = 100  # ops; a mean over fewer is chance, and so is what the slowest of 100 is
_WRONG = 0.1  # the replay of what was captured should not be further off


class Figures(NamedTuple):
    """Of one population; p99 is nearest-rank."""

    mean_ns: float
    p99_ns: int


class Outcome(NamedTuple):
    """One play. Means and shares are over the ops that were called before the load began to run out."""

    threads: int | None  # None: no limit
    slots: int | None
    ops: int  # of those that count, that the figures are over: those played but for the end, when the load runs out
    ops_per_s: float
    client: Figures  # SRT at the client
    application: Figures | None  # and the wait for a slot; None: the capture does not show how many wait
    slot_wait_ns: float  # mean
    thread_wait_ns: float  # mean
    threads_busy: float | None  # share of the threads' time, 0 to 1; None: no limit
    slots_busy: float | None  # the same of the slot table that is used most
    limit: str  # where an op waits most: "threads", "slots", or "load" where it hardly waits: the callers' own pace


class WhatIf(NamedTuple):
    """What was captured, the same replayed with the numbers in effect, and with those asked for."""

    captured: Figures  # SRT at the client, of the ops that `before` is over
    before: Outcome
    after: Outcome
    error: float  # mean of `before` against `captured`, relative: how well the replay knows this load
    ops: int  # of ours that were played, ...
    ops_given: int  # ... of so many
    others: int  # that were played with them: of other clients, or in the server's capture only
    warning: str  # what is taken for granted


class Replay:
    """A load that is played once with each number of threads and slots, whoever asks."""

    def __init__(self, load: Load, most: int | None = None) -> None:
        """Of `load`, or of its busiest `most` ops (None: `MOST_OPS`)."""
        self._given, self._ours_given = len(load), int(np.count_nonzero(load.is_ours))
        self._load = _busiest(_in_order(load), MOST_OPS if most is None else most)
        self._played: dict[tuple[int | None, int | None, int | None], Played] = {}

    @cached_property
    def _order(self) -> Order:
        return Order.of(self._load)

    def what_if(
        self,
        ops: I64 | None = None,
        *,
        threads_now: int | None,
        slots_now: int | None,
        threads: int | None = None,
        slots: int | None = None,
        sessions: int | None = None,
    ) -> WhatIf:
        """Figures over our ops in `ops` (`Load.op`; None: all) with the numbers in effect (None: no limit was seen),
        and with `threads` and `slots` (None: as now).

        `slots` are those of each slot table. `sessions` is how many requests the application has open at any time;
        packets do not show it where slots are the limit. Raises ``UsageError`` where it is needed and for numbers below
        1, ``InputError`` where there is nothing to play.
        """
        for name, value in (("threads", threads), ("slots", slots), ("sessions", sessions)):
            if value is not None and value < 1:
                raise UsageError(f"{name}={value}: give 1 or more")
        load = self._load
        counts = load.is_ours if ops is None else load.is_ours & _among(load.op, ops)
        if not counts.any():
            raise InputError("there is no op to replay: the what-if needs ops whose time in a server thread is known")
        if slots_now is None:
            sessions = None  # nobody waits for a slot: what the application has open is seen
        elif sessions is None and slots is not None and slots > slots_now:
            raise UsageError(
                f"slots={slots}: packets do not show how many requests wait for a slot; "
                "give --sessions N, or the application's latency with --app-ms"
            )
        shows_waits = slots_now is None or sessions is not None
        before, of_before = self._measured(counts, threads_now, slots_now, sessions, shows_waits=shows_waits)
        numbers = threads or threads_now, slots or slots_now, sessions
        after, _ = self._measured(counts, *numbers, shows_waits=shows_waits)
        captured = _figures((load.received_ns - load.sent_ns)[of_before])
        error = before.client.mean_ns / captured.mean_ns - 1
        warning = _warning(load, self._given, min(before.ops, after.ops), sessions, error)
        ours = int(np.count_nonzero(load.is_ours))
        return WhatIf(captured, before, after, error, ours, self._ours_given, len(load) - ours, warning)

    def _measured(
        self, counts: Bool, threads: int | None, slots: int | None, sessions: int | None, *, shows_waits: bool
    ) -> tuple[Outcome, Bool]:
        """One play in figures of the ops that `counts` masks, and which of them they are over: those that were called
        before one of their callers had no more to do."""
        load, order, numbers = self._load, self._order, (threads, slots, sessions)
        if numbers not in self._played:
            self._played[numbers] = play(load, order, *numbers)
        played = self._played[numbers]
        ours = load.is_ours & _among(load.client, load.client[counts])
        end = _runs_out_ns(load, order, played, sessions, ours)
        over = counts & (played.issued <= end)
        slot_wait = played.sent - played.issued
        if sessions is not None:
            slot_wait = slot_wait - hand_overs_ns(load, order)
            if end > 0:
                over &= played.issued > 0  # all sessions begin at once, with no queue in front of them
        slot_wait, thread_wait = slot_wait[over], (played.started - played.arrived)[over]
        client, whole = (_figures((played.received - begun)[over]) for begun in (played.sent, played.issued))
        waits = {"threads": float(thread_wait.mean()), "slots": float(slot_wait.mean())}
        limit = max(waits, key=lambda name: waits[name])
        outcome = Outcome(
            threads=threads,
            slots=slots,
            ops=int(over.sum()),
            ops_per_s=int((ours & (played.received <= end)).sum()) * 1e9 / max(end, 1),
            client=client,
            application=whole if shows_waits else None,
            slot_wait_ns=waits["slots"],
            thread_wait_ns=waits["threads"],
            threads_busy=_busy(played.started, played.replied, end, threads),
            slots_busy=_busiest_table(load, played, end, slots),
            limit=limit if waits[limit] > _MATTERS * whole.mean_ns else "load",
        )
        return outcome, over


def _among(rows: I64, some: I64) -> Bool:
    """Which of `rows` are `some` of them."""
    is_one = np.zeros(int(max(rows.max(initial=-1), some.max(initial=-1))) + 1, dtype=np.bool_)
    is_one[some] = True
    return is_one[rows]


def _warning(load: Load, given: int, figures_over: int, sessions: int | None, error: float) -> str:
    out = [
        "The time in a thread stays what it was, and so do the pauses between a reply and the next call. "
        "Storage that has more to do at once may take longer: then the gain is smaller.",
        "The network is taken to have room for more.",
    ]
    if sessions is None:
        out.append("No more calls are made at once than were seen.")
    else:
        out.append(f"The application has {sessions} requests open at any time.")
    if len(load) < given:
        ours = int(np.count_nonzero(load.is_ours))
        of_them = "" if ours == len(load) else f" ({ours:,} of them in both captures)"
        out.append(f"Played are the busiest {len(load):,} ops in a row of {given:,}{of_them}.")
    if figures_over < _FEW:
        out.append(f"The figures are over {figures_over:,} op{'s' if figures_over != 1 else ''} only.")
    if abs(error) > _WRONG:
        out.append(f"With the numbers in effect the replay is {error:+.0%} off the capture's mean: do not rely on it.")
    return " ".join(out)


def _in_order(load: Load) -> Load:
    """By `sent_ns`, and without spans below zero, which reordered packets make."""
    load = load.take(np.argsort(load.sent_ns, kind="stable"))
    return replace(
        load,
        received_ns=np.maximum(load.received_ns, load.sent_ns + 1),
        network_ns=np.maximum(load.network_ns, 0),
        service_ns=np.maximum(load.service_ns, 0),
    )


def _busiest(load: Load, most: int) -> Load:
    """Of all `most` ops in a row those with the most of ours; where several have, those sent in the least time."""
    if len(load) <= most:
        return load
    took_ns = load.sent_ns[most - 1 :] - load.sent_ns[: len(load) - most + 1]
    before = np.concatenate(([0], np.cumsum(load.is_ours)))
    ours = before[most:] - before[: len(before) - most]
    begin = int(np.argmin(np.where(ours == ours.max(), took_ns, np.iinfo(np.int64).max)))
    return load.take(slice(begin, begin + most))


def _runs_out_ns(load: Load, order: Order, played: Played, sessions: int | None, ours: Bool) -> int:
    """When the first caller of `ours` has no more to do that was at work to the end: from then on the load is not that
    of old."""
    if sessions is not None:
        return int(played.issued[ours].max())
    is_last = ours & order.is_last & (load.received_ns >= load.sent_ns[ours].max())
    return int(played.received[is_last].min())


def _busiest_table(load: Load, played: Played, end_ns: int, slots: int | None) -> float | None:
    """Share of the time of its `slots` that is used of the slot table of ours that is used most."""
    if slots is None:
        return None
    ours = load.is_ours
    _, table = np.unique(load.slot_table[ours], return_inverse=True)
    used_ns = np.bincount(table, weights=_used_ns(played.sent[ours], played.received[ours], end_ns))
    return float(used_ns.max()) / (slots * max(end_ns, 1))


def _busy(begins: I64, ends: I64, end_ns: int, count: int | None) -> float | None:
    """Share of the time of `count` of them that is used up to `end_ns`."""
    if count is None:
        return None
    return float(_used_ns(begins, ends, end_ns).sum() / (count * max(end_ns, 1)))


def _used_ns(begins: I64, ends: I64, end_ns: int) -> I64:
    return np.maximum(np.minimum(ends, end_ns) - begins, 0)


def _figures(durations_ns: I64) -> Figures:
    return Figures(float(durations_ns.mean()), ranked(durations_ns, 99))
