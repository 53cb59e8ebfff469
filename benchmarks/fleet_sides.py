"""Measures what nfslat fleet makes of one side: a made fleet with all captures, the server's alone, the clients' alone,
and half of the clients'; against the first, in Markdown."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from bench import NFSLAT, Run, measure
from fleet_made.fleets import acceptance, small, twenty

_FLEETS = {"acceptance": acceptance, "twenty": twenty, "small": small}


def judged(captures: Sequence[Path], scratch: Path) -> tuple[dict[str, Any], Run]:
    """The fleet's report, and what it took."""
    answer = scratch / "answer.json"
    took = measure([NFSLAT, "fleet", *map(str, captures), "-q", "--workers", "2", "--json", str(answer)])
    return json.loads(answer.read_text()), took


def row(name: str, report: dict[str, Any], took: Run, measured: dict[str, Any]) -> str:
    """A line of the table."""
    true = {one["name"]: one for one in measured["clients"]}
    half = [one for one in report["clients"] if one["state"] == "inferred"]
    off = [abs(one["network_ms"]["mean"] - true[one["name"]]["network_ms"]["mean"]) for one in half]
    held = sum(ms <= one["inferred"]["mean_error_ms"] for ms, one in zip(off, half, strict=True))
    out = {one["name"] for one in report["clients"] if one["outlier"]}
    more = out - {one["name"] for one in measured["clients"] if one["outlier"]}
    verdict = report["verdict"]
    cells = [
        name,
        ", ".join(f"{count} {state}" for state, count in Counter(one["state"] for one in report["clients"]).items()),
        f"{median(off):.2f}, {max(off):.2f}" if off else "-",
        f"{held} of {len(half)}" if half else "-",
        f"{len(out)}, {len(more)} of them new",
        f"{verdict['outcome']}, {verdict['layer']}, {verdict['cause']}, {verdict['confidence']}",
        f"{took.cpu_s:.1f}",
        f"{max((one['peak_rss_bytes'] or 0 for one in report['run']['workers']), default=0) / 1e6:.0f}",
    ]
    return f"| {' | '.join(cells)} |"


def table(folder: Path, scratch: Path) -> Iterator[str]:
    """All four."""
    heads = "captures|clients|network mean off, ms (median, worst)|within the stated error|outliers|verdict|CPU, s|MB"
    yield f"| {' | '.join(heads.split('|'))} |"
    yield f"|{'---|' * len(heads.split('|'))}"
    server, clients = folder / "server", sorted((folder / "clients").iterdir())
    measured: dict[str, Any] = {}
    ways = {"all": [server, *clients], "server": [server], "clients": clients, "half": [server, *clients[::2]]}
    for name, captures in ways.items():
        report, took = judged(captures, scratch)
        measured = measured or report
        yield row(name, report, took, measured)


def main() -> None:
    """Make the fleet, and the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fleet", choices=sorted(_FLEETS), default="twenty")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made, scratch = Path(folder) / "made", Path(folder)
        _FLEETS[given.fleet](made, given.seed, stamped=True)
        for line in table(made, scratch):
            print(line, flush=True)


if __name__ == "__main__":
    main()
