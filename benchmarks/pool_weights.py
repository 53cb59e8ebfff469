"""Fits the weights by which `nfslat.inflight.fit` adds up the marks of a pool of threads.

    python benchmarks/pool_weights.py --seeds 2 4 --lab LAB --write     # fits, and writes nfslat/inflight/weights.py
    python benchmarks/pool_weights.py --seeds 3 5                       # how right the probability is: ten bins

Each load of `thread_rivals`, and each stretch of each capture below `--lab`, is searched for the number that fits best,
and the figures of its marks are taken. Whether that number is right, and the limit, is what a logistic regression
predicts in which each mark's part is a broken line that may only rise, or only fall (`Mark.sign`). Small weights are
preferred, so what was seen seldom says little. A seed takes some five minutes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import shlex
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import thread_rivals

from nfslat import api
from nfslat.inflight import fit, threads, weights

F64 = npt.NDArray[np.float64]

_CANNOT_TELL = 0.1  # weight of servers that packets cannot tell from threads (*): a disk that takes exactly so many
_AGAINST = 1.5  # weight of another load that is no pool: a wrong number is worse than none
_OF_LAB = 4.0  # weight of a stretch of a real capture beside a simulated load
_QUANTILES = (0.02, 0.98)  # of a mark's figures: the knots of its line
_APART = 0.3  # of the range of a mark's figures, at least from one knot to the next
_SMALL = 0.1  # how much small weights are preferred: their standard deviation is 1 / sqrt(that)
_ROUNDS = 4_000


class Example(NamedTuple):
    """A number that fits best, the figures of its marks, and whether it is right."""

    title: str
    weight: float
    is_right: bool
    marks: dict[str, float | None]
    probability: float  # by the weights as they are


class _Recorder:
    """Stands for `fit.fit` in a search, and remembers what that was asked."""

    def __init__(self) -> None:
        self.replays: list[fit.Replay] = []

    def __call__(self, replay: fit.Replay) -> tuple[float, str]:
        self.replays.append(replay)
        return 1.0, ""


def simulated(case: tuple[int, int, int, int, int]) -> Example | None:
    """Of a load of `thread_rivals`; None: no number comes up."""
    recorder = _Recorder()
    threads.fit = recorder  # type: ignore[assignment]
    answer = thread_rivals.run(case)
    if not recorder.replays or not answer.sure:
        return None
    is_right = answer.is_limit and answer.right
    weight = _CANNOT_TELL if "(*)" in answer.title else 1.0 if is_right else _AGAINST
    return _example(answer.title, weight, is_right, recorder.replays[-1])


def captured(folder: Path) -> Iterator[Example]:
    """Each stretch of a pair of the laboratory."""
    truth = json.loads((folder / "truth.json").read_text())
    numbers = set(_numbers(truth.get("expect", {}))) | (
        set(_numbers(truth.get("cause", {}))) if truth.get("cause", {}).get("where") == "server-threads" else set()
    )
    recorder = _Recorder()
    threads.fit = recorder  # type: ignore[assignment]
    captures = [str(next(folder.glob(f"{side}.pcap*"))) for side in ("server", "client")]
    _ = api.run(captures, api.Options()).summary
    for replay in recorder.replays:
        yield _example(folder.name, _OF_LAB / len(recorder.replays), replay.threads in numbers, replay)


def _numbers(tree: object) -> Iterator[int]:
    """Every number of threads in a truth."""
    if isinstance(tree, dict):
        for name, value in tree.items():
            if name in ("threads", "nfsd_threads") and isinstance(value, int):
                yield value
            else:
                yield from _numbers(value)


def _example(title: str, weight: float, is_right: bool, replay: fit.Replay) -> Example:
    figures = fit.marks(replay)
    return Example(title, weight, is_right, figures, fit.probability(figures) if weights.WEIGHTS else 0.5)


def fitted(examples: list[Example]) -> tuple[float, dict[str, weights.Weight]]:
    """Intercept, and the weight of each mark, so that a usual pool's figure counts 0."""
    y = np.array([one.is_right for one in examples], dtype=np.float64)
    weight = np.array([one.weight for one in examples])
    columns, signs, knots = [np.ones(len(y))], [0], {}
    for mark in fit.MARKS:
        figures = np.array([np.nan if (x := one.marks[mark.name]) is None else x for one in examples])
        seen = ~np.isnan(figures)
        sides = [figures[seen & (y == side)] for side in (0.0, 1.0)]
        at = np.concatenate([np.quantile(side, _QUANTILES) for side in sides if len(side)] or [np.zeros(1)])
        at = np.unique(np.round(at, 2))
        knots[mark.name] = at = at[np.append(True, np.diff(at) > _APART * np.ptp(at))]
        columns.append((~seen).astype(np.float64))
        signs.append(min(mark.sign, 0))  # what is not seen speaks no more for a pool than the best figure
        for low, high in itertools.pairwise(at):
            columns.append(np.where(seen, np.clip((np.nan_to_num(figures) - low) / (high - low), 0, 1), 0.0))
            signs.append(mark.sign)
    found = iter(_regression(np.column_stack(columns), y, weight, np.array(signs)))
    intercept, table = float(next(found)), {}
    for mark in fit.MARKS:
        unseen = float(next(found))
        line = np.append(0.0, np.cumsum([next(found) for _ in knots[mark.name][1:]]))
        seen_of_pools = [x for one in examples if one.is_right and (x := one.marks[mark.name]) is not None]
        usual = float(np.interp(np.median(seen_of_pools), knots[mark.name], line)) if seen_of_pools else 0.0
        intercept += usual
        table[mark.name] = weights.Weight(
            tuple(knots[mark.name].tolist()), tuple(np.round(line - usual, 2).tolist()), round(unseen - usual, 2)
        )
    return round(intercept, 2), table


def _regression(x: F64, y: F64, weight: F64, signs: npt.NDArray[np.int64]) -> F64:
    """Logistic, by accelerated projected gradients; coefficients have the sign that is wanted."""
    step = 1 / (np.linalg.norm(x * np.sqrt(weight)[:, None], 2) ** 2 / 4 + _SMALL)
    small = np.append(0.0, np.full(x.shape[1] - 1, _SMALL))
    beta = ahead = np.zeros(x.shape[1])
    for turn in range(_ROUNDS):
        p = 1 / (1 + np.exp(-x @ ahead))
        new = ahead - step * (x.T @ (weight * (p - y)) + small * ahead)
        new = np.where(signs * new < 0, 0.0, new)
        beta, ahead = new, new + turn / (turn + 3) * (new - beta)
    return np.asarray(beta)


def reliability(examples: list[Example]) -> str:
    """Ten bins of the probability: how many, what it says on average, how many are right."""
    rows = ["| probability | answers | mean | right |", "|---|--:|--:|--:|"]
    for low in np.arange(10) / 10:
        inside = [one for one in examples if low <= one.probability < low + 0.1 + (low == 0.9)]
        cells = (
            f"{np.mean([one.probability for one in inside]):.3f}",
            f"{np.mean([one.is_right for one in inside]):.3f}",
        )
        rows.append(
            f"| {low:.1f} to {low + 0.1:.1f} | {len(inside)} | " + " | ".join(cells if inside else ("", "")) + " |"
        )
    return "\n".join(rows)


def _module(examples: list[Example]) -> str:
    intercept, table = fitted(examples)
    pools = sum(one.is_right for one in examples)
    lines = [
        '"""What each mark of a pool of threads adds to the log odds of one, between knots of its figure.',
        "",
        f"Made on {datetime.now(UTC):%Y-%m-%d} of {len(examples)} replays, {pools} of them of pools, by",
        f"python benchmarks/pool_weights.py {shlex.join(sys.argv[1:])}",
        '"""',
        "",
        "from typing import NamedTuple",
        "",
        "",
        "class Weight(NamedTuple):",
        '    """A broken line, flat outside of its knots; `unseen` where a capture does not show the mark."""',
        "",
        "    knots: tuple[float, ...]",
        "    log_odds: tuple[float, ...]",
        "    unseen: float",
        "",
        "",
        f"INTERCEPT = {intercept}  # of a pool that looks as most do",
        "WEIGHTS = {",
        *(f'    "{name}": Weight({one.knots}, {one.log_odds}, {one.unseen}),' for name, one in table.items()),
        "}",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Fit, or test."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[2], metavar="SEED")
    parser.add_argument("--share", type=float, default=1.0, help="of the loads of each seed (%(default)s)")
    parser.add_argument("--lab", type=Path, nargs="*", default=[], help="folders of runs of the laboratory")
    parser.add_argument("--write", action="store_true", help="write the table; else the probability is tested")
    parser.add_argument("--jobs", type=int, default=2, help="processes (%(default)s)")
    given = parser.parse_args()
    cases = [case for seed in given.seeds for case in thread_rivals.cases([seed])]
    cases = [case for case in cases if random.Random(str(case)).random() < given.share]  # noqa: S311
    with ProcessPoolExecutor(given.jobs) as pool:
        examples = [one for one in pool.map(simulated, cases, chunksize=8) if one is not None]
    for lab in given.lab:
        examples += [one for truth in sorted(lab.glob("*/truth.json")) for one in captured(truth.parent)]
    if given.write:
        Path(weights.__file__).write_text(_module(examples))
    else:
        print(reliability(examples))


if __name__ == "__main__":
    main()
