"""Two captures in, a picture of their clocks out: what each call and reply says of theta, the hulls, and the line.

    pip install '.[docs]'
    python docs/envelope.py SERVER CLIENT envelope.png [--measured SECONDS,THETA_MS,ERROR_MS ...]

`--measured` adds what was measured from outside: at so many seconds since 1970 on the client's clock theta was so much,
give or take so much.
"""

from __future__ import annotations

import argparse

import numpy as np
from matplotlib import pyplot
from matplotlib.axes import Axes

from nfslat import pipeline
from nfslat.clock.clock import Segment
from nfslat.clock.envelope import Points
from nfslat.decode.workspace import open_workspace
from nfslat.results import Correlation
from nfslat.select import Filters

_CALL, _REPLY, _LINE, _MEASURED = "#c2571a", "#1a6fc2", "#333333", "#2a9134"
_MS, _S = 1e6, 1e9


def main() -> None:
    """See above."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("server")
    parser.add_argument("client")
    parser.add_argument("picture")
    parser.add_argument("--measured", action="append", default=[], metavar="SECONDS,THETA_MS,ERROR_MS")
    options = parser.parse_args()
    with open_workspace([options.server, options.client], engine=None, quiet=True) as work:
        found = pipeline.correlate(
            *work.sources, work.engine, filters=Filters(), srt="nfslat", may_swap=True, progress=work.progress
        )
    measured = np.array([[float(value) for value in one.split(",")] for one in options.measured]).reshape(-1, 3)
    figure, (whole, detail) = pyplot.subplots(2, figsize=(9, 8), sharex=True, layout="constrained")
    segment = found.clock.main
    _draw(whole, found, segment, measured, level=False)
    _draw(detail, found, segment, measured, level=True)
    whole.set_ylabel("theta, ms")
    detail.set_ylabel("theta less the estimated line, ms")
    detail.set_xlabel("seconds on the client's clock")
    whole.legend(loc="upper right", fontsize="small")
    figure.savefig(options.picture, dpi=100)


def _draw(axes: Axes, found: Correlation, segment: Segment, measured: np.ndarray, *, level: bool) -> None:
    """All points of the ops, the corners of the hulls, all lines and the best; with `level` less that line."""

    def place(t_ns: np.ndarray, theta_ns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        line = segment.theta_ns + segment.slope * (t_ns - segment.t_ns) if level else 0
        return (t_ns - segment.begin_ns) / _S, (theta_ns - line) / _MS

    server, client = found.server.ops, found.client.ops
    s, c = found.matched.rows(slice(None))
    hull_c, hull_r = segment.lines.over, segment.lines.under
    for name, at, colour, hull in (("t1", "call", _CALL, hull_c), ("t3", "reply", _REPLY, hull_r)):
        sent, seen = getattr(client, name)[c], getattr(server, name)[s]
        bound = "below" if at == "call" else "above"
        axes.plot(*place(sent, seen - sent), ".", ms=2, color=colour, alpha=0.5, label=f"{at}: theta is {bound}")
        axes.plot(*place(*_on_clocks(segment, hull)), "-o", ms=4, lw=0.8, color=colour, label=f"hull of {at} points")
    t_ns = np.linspace(segment.begin_ns, segment.end_ns, 200)
    low, high = (np.array(bound) for bound in zip(*(segment.bounds_at(at) for at in t_ns), strict=True))
    axes.fill_between(place(t_ns, low)[0], place(t_ns, low)[1], place(t_ns, high)[1], color="#dddddd", label="possible")
    line = segment.theta_ns + segment.slope * (t_ns - segment.t_ns)
    axes.plot(*place(t_ns, line), color=_LINE, lw=1.2, label=f"estimate, {segment.slope * 1e6:+,.1f} ppm")
    if len(measured):
        at, theta = place(measured[:, 0] * _S, measured[:, 1] * _MS)
        axes.errorbar(at, theta, yerr=measured[:, 2], fmt="s", ms=4, color=_MEASURED, label="measured from outside")
    if level:
        axes.set_ylim(1.8 * (low - line).min() / _MS, 1.8 * (high - line).max() / _MS)


def _on_clocks(segment: Segment, points: Points) -> tuple[np.ndarray, np.ndarray]:
    return points.x + segment.x0_ns, points.y + segment.y0_ns


if __name__ == "__main__":
    main()
