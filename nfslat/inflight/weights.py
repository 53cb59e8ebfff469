"""What each mark of a pool of threads adds to the log odds of one, between knots of its figure.

Made on 2026-11-27 of 1131 replays, 918 of them of pools: samples of the loads of seeds 2, 4 and 6, more of those kinds
that were seldom right; 53 simulated servers that lose threads in the middle (half weight), shared/lab, and simulated
pairs of shared/broken. The command that makes it anew, from as many loads of all kinds:

    python benchmarks/pool_weights.py --seeds 2 4 6 --share 0.25 --lab ../shared/lab --write
"""

from typing import NamedTuple


class Weight(NamedTuple):
    """A broken line, flat outside of its knots; `unseen` where a capture does not show the mark."""

    knots: tuple[float, ...]
    log_odds: tuple[float, ...]
    unseen: float


INTERCEPT = 6.4  # of a pool that looks as most do
WEIGHTS = {
    "light calls wait": Weight((0.0, 0.48, 0.93), (-0.6, 0.0, 0.0), -1.05),
    "light calls forced": Weight((0.0, 1.0), (0.0, -4.68), 0.0),
    "light calls as slow": Weight((0.0, 0.5, 0.96), (0.09, -3.73, -4.57), -1.59),
    "times grow below T": Weight((0.0, 0.59), (0.0, -2.37), 0.0),
    "answers in groups": Weight((0.0, 1.0), (0.0, -7.29), 0.0),
    "standstills": Weight((0.0, 0.44, 0.99), (0.0, -1.65, -2.62), 0.0),
    "unlike the unqueued": Weight((0.0, 0.86), (0.0, -4.76), 0.0),
    "fewer fit better": Weight((0.0, 0.63), (0.0, -6.59), 0.0),
    "answers in turn": Weight((0.19, 1.0), (-1.58, 0.0), -1.58),
    "bound reached": Weight((-0.83, 2.53), (-0.6, 0.17), -0.48),
    "forced": Weight((0.0, 0.03), (0.0, -3.6), 0.0),
    "nats gained": Weight((-0.1, 5.36), (-0.56, 1.21), -0.56),
    "halves differ": Weight((0.0, 0.74), (0.0, -1.37), 0.0),
    "number": Weight((0.0, 3.0), (0.33, -0.65), 0.33),
}
