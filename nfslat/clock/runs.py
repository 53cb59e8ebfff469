"""Points in order of time -> runs of them that one line can explain, each with all its lines; wrong points left out.

A run ends where no line explains what follows as well. A few points that contradict the rest do not end it: the points
are looked at in windows, of each of which the tightest point of either kind may be wrong; and a window that fits
nothing on either side of it is passed over.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from nfslat.clock.envelope import Contradiction, Lines, Points, fit
from nfslat.model.tables import Bool

MOST_RUNS = 256  # more are no sign of clocks that were set, but of stamps without sense
_WINDOW, _MOST_WINDOWS = 32, 2048
_FEWEST_WINDOWS = 8
_TRIMMED = 8  # ops in a window from which on its tightest point may be wrong
_PEELED = 8  # points that may be taken out one by one, to explain what windows left
_LOOK_AHEAD = 2
_SEAM = 4  # windows between two runs in which it is worth to look closer
_BRIDGED = 2  # ops that may be in neither of two runs beside a third that only bridges them
_FEWEST = 4  # ops that make a run of their own between others


class Run(NamedTuple):
    """Rows `begin` to `end` and the lines that explain them, but for `contradicting` points."""

    begin: int
    end: int
    lines: Lines
    contradicting: int
    narrowest: float = 0.0  # distance of the points above and below the lines, in the window where it is least


def find_runs(over: Points, under: Points) -> list[Run]:
    """Runs of rows, in order; row i of `over` and of `under` belong together. Rows in no run fit none."""
    runs = _coarse_runs(over, under)
    # Windows are too coarse for what lies between runs: where the line breaks, or at either end.
    found: list[Run] = []
    for following in [*runs, None]:
        after = following
        begin, end = found[-1].end if found else 0, after.begin if after else len(over)
        is_seam = 0 < end - begin <= _SEAM * _window(len(over))  # more that fits nothing is no place of a break
        inside = find_runs(over.at(begin, end), under.at(begin, end)) if runs and is_seam else []
        for run in inside:
            inner = run._replace(begin=run.begin + begin, end=run.end + begin)
            if found and (longer := _joined(found[-1], inner, over, under)):
                found[-1] = longer
            elif after and (longer := _joined(inner, after, over, under)):
                after = longer
                break
            elif inner.end - inner.begin >= _FEWEST:
                found.append(inner)
        if after:
            found.append(after)
        if len(found) > MOST_RUNS:
            return found
    found = _without_bridges(found, over, under)
    for at, (before, after) in enumerate(pairwise(found)):
        found[at], found[at + 1] = _parted(before, after, over, under)
    return found


def _without_bridges(runs: list[Run], over: Points, under: Points) -> list[Run]:
    """Of three runs the middle one is none where the first explains its rows up to somewhere, and from there the third:
    it is a steep line that leads from one to the other, over a step."""
    found = list(runs)
    at = 1
    while at < len(found) - 1:
        before, after = found[at - 1], found[at + 1]
        begin, end = before.end, after.begin
        early, late = (
            possible(run.lines, over.at(begin, end), 1) & possible(run.lines, under.at(begin, end), -1)
            for run in (before, after)
        )
        wrong = np.concatenate([[0], np.cumsum(~early)]) + np.concatenate([np.cumsum(~late[::-1])[::-1], [0]])
        cut = begin + int(wrong.argmin())
        ranges = ((before, before.begin, cut), (after, cut, after.end)) if wrong.min() <= _BRIDGED else ()
        parts = [(run, a, b, explain(run.lines, over.at(a, b), under.at(a, b))) for run, a, b in ranges]
        if parts and all(lines for *_, lines in parts):
            found[at - 1 : at + 2] = [Run(a, b, *lines, run.narrowest) for run, a, b, lines in parts if lines]
        else:
            at += 1
    return found


def _parted(before: Run, after: Run, over: Points, under: Points) -> tuple[Run, Run]:
    """Two runs that meet, with the rows at the seam that only the other one explains given to that one."""
    if before.end != after.begin:
        return before, after
    begin, seam, end = before.begin, before.end, after.end

    def explains(run: Run, first: int, last: int) -> Bool:
        return possible(run.lines, over.at(first, last), 1) & possible(run.lines, under.at(first, last), -1)

    early = explains(before, seam, end) & ~explains(after, seam, end)
    late = explains(after, begin, seam) & ~explains(before, begin, seam)
    to_before, to_after = int(np.argmin(early)), int(np.argmin(late[::-1]))
    middle = seam + to_before - to_after
    if middle == seam:
        return before, after
    parts = (before, begin, middle), (after, middle, end)
    found = [(run, a, b, explain(run.lines, over.at(a, b), under.at(a, b))) for run, a, b in parts]
    if any(lines is None for *_, lines in found):
        return before, after
    one, two = (Run(a, b, *lines, run.narrowest) if lines else run for run, a, b, lines in found)
    return one, two


def _joined(before: Run, after: Run, over: Points, under: Points) -> Run | None:
    """Both runs and what is between them as one, where one line explains them."""
    long, short = sorted((before, after), key=lambda run: run.begin - run.end)
    bad = [np.count_nonzero(~possible(long.lines, points, sign)) for points, sign in short.lines.hulls]
    if sum(bad) > 1:
        return None
    begin, end = before.begin, after.end
    lines = explain(long.lines, over.at(begin, end), under.at(begin, end))
    return Run(begin, end, *lines, min(before.narrowest, after.narrowest)) if lines else None


def _coarse_runs(over: Points, under: Points) -> list[Run]:
    if not len(over):
        return []
    windows = _Windows.of(over, under)
    runs: list[Run] = []
    ranges = windows.split(trim=True)
    tried = len(ranges)
    for begin, end, skipped in ranges:
        if tried > MOST_RUNS:
            return []
        run = windows.explained(begin, end, skipped)
        if run is not None:
            runs.append(run)
            continue
        # The rate of a clock wanders, or a step is smaller than the second tightest points show.
        parts = windows.split(trim=False, begin=begin, end=end)
        tried += len(parts)
        for part in parts[:MOST_RUNS]:
            runs.append(windows.explained(*part) or windows.by_windows(*part))
    return runs


def _window(rows: int) -> int:
    """Rows in a window, of so many in all."""
    return max(min(_WINDOW, rows // _FEWEST_WINDOWS), 1, -(-rows // _MOST_WINDOWS))


class _Windows(NamedTuple):
    """Where windows of rows begin, and of each the tightest and the second tightest point of both kinds."""

    starts: list[int]  # and the end of the last one
    over: Points  # all points
    under: Points
    tightest: tuple[Points, Points]  # one a window
    second: tuple[Points, Points]
    fitted: dict[tuple[int, int, frozenset[int], bool], Lines | Contradiction]  # of ranges, as `_lines` is asked

    @classmethod
    def of(cls, over: Points, under: Points) -> _Windows:
        rows = len(over)
        size = _window(rows)
        starts = [*range(0, max(rows - size + 1, 1), size), rows]  # the last one takes what is left over
        trimmed = size >= _TRIMMED

        def nth(points: Points, sign: float, nth: int) -> Points:
            whole = (len(starts) - 2) * size
            tables = points.y[:whole].reshape(-1, size), points.y[whole:].reshape(1, -1)
            chosen = [np.argpartition(sign * table, nth, axis=1)[:, nth] for table in tables if table.size]
            at = np.concatenate(chosen) + starts[:-1]
            return Points(points.x[at], points.y[at])

        tightest = nth(over, 1, 0), nth(under, -1, 0)
        second = (nth(over, 1, 1), nth(under, -1, 1)) if trimmed else tightest
        return cls(starts, over, under, tightest, second, {})

    def split(self, *, trim: bool, begin: int = 0, end: int | None = None) -> list[tuple[int, int, set[int]]]:
        """Ranges of windows that a line explains, and which windows in them to pass over.

        Each was made as long as it can be; between two, what either explains is shared out evenly.
        """
        found = list(self._longest(begin, end, trim=trim))
        for at, ((first, reached, skipped), (begun, last, others)) in enumerate(pairwise(found)):
            if begun == reached:
                both = skipped | others
                possible_begins = range(first + 1, reached + 1)
                fits = partial(self._fits, end=last, skipped=both, trim=trim)
                middle = (possible_begins[bisect_left(possible_begins, x=True, key=fits)] + reached + 1) // 2
                found[at] = first, middle, {one for one in both if one < middle}
                found[at + 1] = middle, last, {one for one in both if one >= middle}
        return found

    def _longest(self, begin: int, end: int | None, *, trim: bool) -> Iterable[tuple[int, int, set[int]]]:
        end = len(self.starts) - 1 if end is None else end
        if self._fits(begin, end, set(), trim=trim):  # as nearly always
            yield begin, end, set()
            return
        while begin < end:
            skipped: set[int] = set()
            reached = self._reach(begin, end, skipped, trim=trim)
            while begin < reached < end - 1:
                ahead = min(reached + 1 + _LOOK_AHEAD, end)
                if not self._fits(begin, ahead, skipped | {reached}, trim=trim):
                    break
                skipped.add(reached)
                reached = self._reach(begin, end, skipped, trim=trim, known=ahead)
            if reached > begin:
                yield begin, reached, skipped
            begin = max(reached, begin + 1)

    def _reach(self, begin: int, end: int, skipped: set[int], *, trim: bool, known: int = 0) -> int:
        """How far from `begin` on windows are explained by one line; `known` are."""
        good, step = max(known, begin), 1
        while good < end and self._fits(begin, min(good + step, end), skipped, trim=trim):
            good = min(good + step, end)
            step *= 2
        bad = min(good + step, end + 1)
        while bad - good > 1:
            middle = (good + bad) // 2
            if self._fits(begin, middle, skipped, trim=trim):
                good = middle
            else:
                bad = middle
        return good

    def _fits(self, begin: int, end: int, skipped: set[int], *, trim: bool) -> bool:
        return isinstance(self._lines(begin, end, skipped, trim=trim), Lines)

    def _lines(self, begin: int, end: int, skipped: set[int], *, trim: bool) -> Lines | Contradiction:
        asked = begin, end, frozenset(skipped), trim
        if asked not in self.fitted:
            kept = [at for at in range(begin, end) if at not in skipped] if skipped else slice(begin, end)
            of_each = self.second if trim else self.tightest
            self.fitted[asked] = fit(*(Points(points.x[kept], points.y[kept]) for points in of_each))
        return self.fitted[asked]

    def explained(self, begin: int, end: int, skipped: set[int]) -> Run | None:
        """The run of a range of windows, with all its points but a few; None where no line explains so many."""
        for trim in (True, False):
            rough = self._lines(begin, end, skipped, trim=trim)
            if isinstance(rough, Lines):
                first, last = self.starts[begin], self.starts[end]
                over, under = (points.at(first, last) for points in (self.over, self.under))
                found = explain(rough, over, under)
                return Run(first, last, *found, self._narrowest(begin, end, found[0])) if found else None
        return None

    def _narrowest(self, begin: int, end: int, lines: Lines) -> float:
        over, under = (points.y[begin:end] - lines.best_b * points.x[begin:end] for points in self.second)
        return float(max((over - under).min(), 0.0))

    def by_windows(self, begin: int, end: int, skipped: set[int]) -> Run:
        """What one point a window says, where all of them contradict each other too much."""
        lines = self._lines(begin, end, skipped, trim=False)
        if not isinstance(lines, Lines):
            raise AssertionError("a range of windows that was split off has a line")
        first, last = self.starts[begin], self.starts[end]
        over, under = (points.at(first, last) for points in (self.over, self.under))
        bad = [np.count_nonzero(~possible(lines, points, sign)) for points, sign in ((over, 1), (under, -1))]
        return Run(first, last, lines, int(sum(bad)), self._narrowest(begin, end, lines))


def possible(lines: Lines, points: Points, sign: int) -> Bool:
    """To which points does at least one line keep? `sign` is 1 for points above the lines, -1 for those below."""
    middle = float(np.interp(lines.best_b, lines.b, (lines.lowest + lines.highest) / 2))
    out = np.asarray(sign * (points.y - middle - lines.best_b * points.x) >= 0)
    doubtful = np.flatnonzero(~out)
    low, high = lines.at(points.x[doubtful])
    out[doubtful] = sign * (points.y[doubtful] - (low if sign > 0 else high)) >= 0
    return out


def explain(rough: Lines, over: Points, under: Points) -> tuple[Lines, int] | None:
    """The lines that keep to all points but those that no `rough` line keeps to, and few more; and how many those are.

    None where that is not enough.
    """
    kept, left_out = [], 0
    for points, sign in ((over, 1), (under, -1)):
        good = possible(rough, points, sign)
        left_out += len(good) - int(np.count_nonzero(good))
        kept.append(Points(points.x[good], points.y[good]))
    over, under = kept
    for _ in range(_PEELED + 1):
        if not len(over) or not len(under):
            return None
        found = fit(over, under)
        if isinstance(found, Lines):
            return found, left_out
        # Take out the one point whose absence helps most.
        tries = [(over.without(row), under) for row in found.below] + [
            (over, under.without(row)) for row in found.above
        ]
        tries = [one for one in tries if len(one[0]) and len(one[1])]
        if not tries:
            return None
        over, under = min(tries, key=lambda one: _lack(fit(*one)))
        left_out += 1
    return None


def _lack(found: Lines | Contradiction) -> float:
    return found.by if isinstance(found, Contradiction) else -1.0
