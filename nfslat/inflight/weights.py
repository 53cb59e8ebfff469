"""What each mark of a pool of threads adds to the log odds of one, between knots of its figure.

Made on 2026-11-27 of 1078 replays, 918 of them of pools, by
python benchmarks/pool_weights.py --seeds 2 4 6 --share 0.25 --lab ../shared/lab ../shared/broken --write
(of seed 4 more of the loads that were seldom right, and of `broken` the four pairs of simulated hosts).
"""

from typing import NamedTuple


class Weight(NamedTuple):
    """A broken line, flat outside of its knots; `unseen` where a capture does not show the mark."""

    knots: tuple[float, ...]
    log_odds: tuple[float, ...]
    unseen: float


INTERCEPT = 6.47  # of a pool that looks as most do
WEIGHTS = {
    "light calls wait": Weight((0.0, 0.48, 0.93), (0.0, 0.0, 0.0), -0.06),
    "light calls forced": Weight((0.0, 1.0), (0.0, -4.79), 0.0),
    "light calls overtake": Weight((0.0, 1.0), (0.0, 0.0), 0.0),
    "light calls as slow": Weight((0.0, 0.5, 0.93), (0.12, -4.66, -4.75), -2.58),
    "times grow below T": Weight((0.0, 0.59), (0.0, -2.45), 0.0),
    "answers in groups": Weight((0.0, 1.0), (0.0, -6.74), 0.0),
    "standstills": Weight((0.0, 0.44, 0.99), (0.0, -1.88, -2.9), 0.0),
    "work grows": Weight((-0.12, 0.65), (0.09, -0.5), 0.09),
    "unlike the unqueued": Weight((0.0, 0.42, 0.87), (0.0, -1.84, -1.84), 0.0),
    "fewer fit better": Weight((0.0, 0.19), (0.0, -3.19), 0.0),
    "answers in turn": Weight((0.19, 1.0), (-2.05, 0.0), -2.05),
    "bound reached": Weight((-0.86, 2.82), (-0.46, 0.18), -0.59),
    "forced": Weight((0.0, 0.03), (0.0, -3.89), 0.0),
    "nats gained": Weight((-0.2, 5.41), (-0.39, 0.79), -0.39),
    "halves differ": Weight((0.0,), (0.0,), 0.0),
    "number": Weight((0.0, 3.0), (0.45, -0.89), 0.45),
}
