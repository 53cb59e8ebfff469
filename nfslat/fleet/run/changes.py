"""Windows of time and the number of threads that each shows -> which of them agree, and the phases that they make."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from nfslat.inflight.threads import Threads

_SAME, _CHANGED = 1.2, 1.4  # times as many threads
_MOSTLY = 0.75  # of the windows on each side of a change are nearer to their own side
_SHORT = 0.05  # of the time: one window that is less is no phase
_LONG = 0.2  # of the waits at the worst time; shorter ones are another state
_FLICKER = 2  # windows between those that are limited


class Run(NamedTuple):
    """Windows side by side: `begin` up to, but not at, `end`."""

    begin: int
    end: int
    threads: Threads | None  # that limited it; None: nothing did
    cannot: str = ""  # why it is not known whether something did


def runs(is_limited: Sequence[bool], told_by: Sequence[Threads], queue_ms: Sequence[float]) -> list[Run]:
    """Windows side by side that are limited by one number of threads, or are not; what only flickers is left out.

    `queue_ms` are mean waits for a thread. Where they are long for a while, and are there but short at another time,
    these are two runs: a limit that is only just met is another state of a server than a queue.
    """
    longest = float(np.quantile([ms for ms, limited in zip(queue_ms, is_limited, strict=True) if limited] or [0], 0.9))
    marks: list[tuple[int | None, bool] | str] = [
        (one.estimate, ms >= _LONG * longest) if limited else one.cannot
        for limited, one, ms in zip(is_limited, told_by, queue_ms, strict=True)
    ]
    while True:
        found, begin = [], 0
        for mark, windows in groupby(marks):
            end = begin + len(list(windows))
            found.append((begin, end, mark))
            begin = end
        brief = [
            (end - begin, at) for at, (begin, end, _) in enumerate(found) if not _is_phase(end - begin, len(marks))
        ]
        if not brief or len(found) == 1:
            break
        _, at = min(brief)
        beside = [found[near] for near in (at - 1, at + 1) if 0 <= near < len(found)]
        begin, end, _ = found[at]
        marks[begin:end] = [max(beside, key=lambda one: one[1] - one[0])[2]] * (end - begin)
    out = []
    for begin, end, mark in found:
        if isinstance(mark, str):
            out.append(Run(begin, end, None, mark))
        else:
            by = next((one for one in told_by[begin:end] if one.estimate == mark[0]), None)
            out.append(Run(begin, end, by))
    return out


def _is_phase(windows: int, of: int) -> bool:
    return windows >= 2 or windows >= _SHORT * of


def is_same(one: float | None, other: float | None, times: float = _SAME) -> bool:
    """Are two numbers one, as far as can be told?"""
    if one is None or other is None:
        return one is other
    return max(one, other) <= max(times * min(one, other), min(one, other) + 1)


def is_more(bound: int, threads: float) -> bool:
    """Are so many more than were seen that there cannot be only so few?"""
    return bound > threads and not is_same(bound, threads)


def stable(alone: Sequence[Threads | None], least: Sequence[int]) -> list[tuple[list[int], float]]:
    """Windows that a limit shows in, by the number of threads that they agree on: changes of it in time are looked for.

    Those that do not last are left out; a gap that is no more than flicker belongs to what is around it.
    """
    limited = [
        (at, one.estimate)
        for at, (one, bound) in enumerate(zip(alone, least, strict=True))
        # A window in which more threads are seen than its sample has: there it changed.
        if one is not None and one.estimate is not None and not is_more(bound, one.estimate)
    ]
    out = []
    for part in _split(limited, len(alone)):
        threads = float(np.median([estimate for _, estimate in part]))
        windows: list[int] = []
        pieces: list[list[int]] = []
        for at, _ in part:
            gap = range(windows[-1] + 1, at) if windows else range(0)
            if windows and (len(gap) > _FLICKER or any(is_more(least[window], threads) for window in gap)):
                pieces.append(windows)
                windows = []
                gap = range(0)
            windows += [*gap, at]
        pieces.append(windows)
        lasting = [at for piece in pieces if _is_phase(len(piece), len(alone)) for at in piece]
        if lasting:
            out.append((lasting, threads))
    return out


def _split(limited: list[tuple[int, int]], windows: int) -> list[list[tuple[int, int]]]:
    """The same in as many parts as the number of threads changes in time, where it does so for good."""
    if not limited:
        return []
    logs = np.log([threads for _, threads in limited])
    best: tuple[float, int] | None = None
    for at in range(1, len(limited)):
        sides = logs[:at], logs[at:]
        if not all(_is_phase(len(side), windows) for side in sides):
            continue
        middles = [float(np.median(side)) for side in sides]
        if abs(middles[0] - middles[1]) < np.log(_CHANGED):
            continue
        is_own = (
            np.abs(side - middle) <= np.abs(side - other)
            for side, middle, other in zip(sides, middles, middles[::-1], strict=True)
        )
        if min(float(one.mean()) for one in is_own) < _MOSTLY:
            continue
        misfit = sum(float(np.abs(side - middle).sum()) for side, middle in zip(sides, middles, strict=True))
        if best is None or misfit < best[0]:
            best = misfit, at
    if best is None:
        return [limited]
    return _split(limited[: best[1]], windows) + _split(limited[best[1] :], windows)
