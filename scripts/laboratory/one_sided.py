"""Folders with both captures of a load -> what nfslat says with each of them alone, held against what it says with two.

With two captures the other host's times are measured; so its answer is the truth here, for times as for the verdict.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tabulate import tabulate

import nfslat
from laboratory.unstamped import unstamped
from nfslat.answer.model import Verdict
from nfslat.errors import InputError, NfslatError
from nfslat.model.tables import F64, I64, Bool
from nfslat.results import Analysis

_NS_PER_MS = 1e6
_STAMPED_NS = 100_000  # two captures do not agree to better: each stamps a packet a little off the wire
_ALIGN = ("left", "left", *["right"] * 8, "left", "left", "left")
_HEAD = [
    *("pair", "half", "client SRT", "server, 2", "server, 1", "said to", "median", "p95", "held", "inferred"),
    *("with two", "with one", "same"),
]


@dataclass(frozen=True)
class Half:
    """What one capture says; times in ms, errors those of the inferred figure of single ops."""

    pair: str
    side: str  # whose capture it is
    client_ms: float
    true_ms: float  # mean server SRT, or of the server's half the client SRT less that
    found_ms: float
    said_ms: float  # how far its mean may be off, by its own account
    median_ms: float
    p95_ms: float
    held: float  # share of ops whose bounds hold the truth
    inferred: float  # share of the ops that two captures match
    truth: Verdict
    verdict: Verdict
    layers_agree: bool

    @property
    def is_within(self) -> bool:
        """Is the mean as good as it is said to be?"""
        return abs(self.found_ms - self.true_ms) <= self.said_ms

    @property
    def agrees(self) -> str:
        """ "yes", "open" (one capture cannot tell), "no"."""
        one, two = self.verdict, self.truth
        if (one.outcome, one.layer, one.cause) == (two.outcome, two.layer, two.cause):
            return "yes"
        if one.outcome == "undecided":
            return "open"
        return "layer" if (one.outcome, one.layer) == (two.outcome, two.layer) else "no"


def main(arguments: Sequence[str]) -> int:
    """0 done, 3 nothing that could be compared."""
    parser = argparse.ArgumentParser(prog="scripts/lab one-sided", description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="holds server.pcap* and client.pcap*")
    parser.add_argument("--markdown", action="store_true", help="as Markdown; docs/measured.md has the sums")
    parser.add_argument(
        "--without-stamps", action="store_true", help="each alone without its TCP time stamps, as a box may remove them"
    )
    options = parser.parse_args(arguments)
    found: list[Half] = []
    for folder in options.folders:
        try:
            found += halves(folder, without_stamps=options.without_stamps)
        except NfslatError as error:
            sys.stderr.write(f"{folder}: {error}\n")
    sys.stdout.write(compact(found) if options.markdown else table(found))
    return 0 if found else 3


def halves(folder: Path, *, without_stamps: bool = False) -> Iterator[Half]:
    """Of one pair. Raises ``InputError`` where it is none, or nothing is inferred."""
    files = {side: found[0] for side in ("server", "client") if (found := sorted(folder.glob(f"{side}.pcap*")))}
    if len(files) < 2:
        raise InputError(f"{folder}: no server.pcap* and client.pcap* in it")
    both = nfslat.correlate(files["server"], files["client"])
    truth, verdict = both.correlation, both.verdict
    if verdict is None:
        raise InputError(f"{folder}: no op is in both captures")
    for side in ("client", "server"):
        given = files["client" if (side == "client") != truth.swapped else "server"]
        alone = _alone(given, without_stamps=without_stamps)
        if alone.summary.inferred is None or alone.verdict is None:
            sys.stderr.write(f"{folder.name}, {side}: {' '.join(alone.summary.notes)}\n")
            continue
        if alone.summary.inferred.side == side:
            sys.stderr.write(f"{folder.name}, {side}: it was taken for the other host's\n")
            continue
        yield half(folder.name, side, truth, verdict, alone.correlation, alone.verdict)


def _alone(capture: Path, *, without_stamps: bool) -> nfslat.Report:
    if not without_stamps:
        return nfslat.inspect(capture)
    with tempfile.TemporaryDirectory() as scratch:
        return nfslat.inspect(unstamped(capture, Path(scratch) / f"{capture.name}.pcap"))


def half(pair: str, side: str, truth: Analysis, verdict: Verdict, one: Analysis, said: Verdict) -> Half:
    """One capture against two; `side` is whose it is."""
    inferred = one.inferred
    if inferred is None:
        raise ValueError("nothing is inferred")
    mine = _same(truth, one, side)
    true_ns = truth.server_srt_ns if side == "client" else truth.client_srt_ns
    place = np.full(len(getattr(one, side).ops) + 1, -1)
    place[one.matched.client] = np.arange(len(one.matched))
    rows = place[mine]
    known = rows >= 0
    found_ns = (one.server_srt_ns if side == "client" else one.client_srt_ns)[rows[known]]
    true_ns, own = true_ns[known], mine[known].astype(np.int64)
    errors: F64 = np.abs(found_ns - true_ns) / _NS_PER_MS
    held = true_ns >= inferred.low_ns[own] - _STAMPED_NS
    held &= true_ns <= inferred.high_ns[own] + _STAMPED_NS
    means = true_ns.mean() / _NS_PER_MS, found_ns.mean() / _NS_PER_MS
    server_ms = truth.server_srt_ns[known].mean() / _NS_PER_MS
    network = [client - server for client, server in _layers(side, means, truth, known)]
    largest = [
        np.argmax([server, trip])
        for server, trip in zip((means if side == "client" else (server_ms, server_ms)), network, strict=True)
    ]
    return Half(
        pair,
        side,
        truth.client_srt_ns.mean() / _NS_PER_MS,
        *means,
        inferred.mean_error_ns(own) / _NS_PER_MS,
        float(np.median(errors)),
        float(np.quantile(errors, 0.95)),
        float(held.mean()),
        float(known.mean()),
        verdict,
        said,
        bool(largest[0] == largest[1]),
    )


def _same(truth: Analysis, one: Analysis, side: str) -> I64:
    """The row in `one` of each matched op of `truth`, -1 without: time stamps have a say in what is an op."""
    with_two = getattr(truth, side).ops.call_first_frame[getattr(truth.matched, side)]
    alone = getattr(one, side).ops.call_first_frame
    order = np.argsort(alone, kind="stable")
    at = np.minimum(np.searchsorted(alone[order], with_two), len(alone) - 1)
    return np.where(alone[order[at]] == with_two, order[at], -1)


def _layers(side: str, means: tuple[float, float], truth: Analysis, known: Bool) -> list[tuple[float, float]]:
    """Mean client and server SRT, with two captures and with one."""
    client_ms, server_ms = (srt[known].mean() / _NS_PER_MS for srt in (truth.client_srt_ns, truth.server_srt_ns))
    return [(client_ms, one) if side == "client" else (one, server_ms) for one in means]


def compact(found: Sequence[Half]) -> str:
    """A row a pair: what the client's capture says of the server, and the server's of the client."""
    rows: dict[str, list[str]] = {}
    for one in found:
        row = rows.setdefault(one.pair, [one.pair, "", *[""] * 4, "", *[""] * 4])
        at = 1 if one.side == "client" else 6
        cells = (one.true_ms, one.found_ms, one.said_ms)
        row[at : at + 5] = [*(f"{ms:.2f}" for ms in cells), f"{one.median_ms:.2f}", one.agrees]
    head = [
        "ms",
        "server",
        "one capture",
        "+/-",
        "an op",
        "verdict",
        "client",
        "one capture",
        "+/-",
        "an op",
        "verdict",
    ]
    align = ("left", *["right"] * 4, "left", *["right"] * 4, "left")
    out = tabulate(list(rows.values()), head, tablefmt="github", disable_numparse=True, colalign=align)
    return f"{out}\n\n{summary(found)}\n"


def table(found: Sequence[Half]) -> str:
    """A row a half, and what they come to."""
    rows = [
        [
            one.pair,
            one.side,
            f"{one.client_ms:.2f}",
            f"{one.true_ms:.2f}",
            f"{one.found_ms:.2f}",
            f"{one.said_ms:.2f}{'' if one.is_within else ' !'}",
            f"{one.median_ms:.2f}",
            f"{one.p95_ms:.2f}",
            f"{one.held * 100:.1f} %",
            f"{one.inferred * 100:.0f} %",
            _words(one.truth),
            _words(one.verdict),
            one.agrees,
        ]
        for one in found
    ]
    out = tabulate(
        rows,
        _HEAD,
        tablefmt="simple",
        disable_numparse=True,
        colalign=_ALIGN,
    )
    return f"{out}\n\n{summary(found)}\n"


def _words(verdict: Verdict) -> str:
    return " ".join(filter(None, (verdict.outcome, verdict.layer, verdict.cause)))


def summary(found: Sequence[Half]) -> str:
    """A line for each kind of half."""
    lines = []
    for side in ("client", "server"):
        some = [one for one in found if one.side == side]
        if not some:
            continue
        agrees = [one.agrees for one in some]
        sure = sum(one.agrees == "no" and one.verdict.confidence == "high" for one in some)
        lines.append(
            f"{side}'s capture, {len(some)} pairs: the mean is within what is said in "
            f"{sum(one.is_within for one in some)}; "
            f"bounds of an op hold the truth in {np.mean([one.held for one in some]) * 100:.1f} % of the ops, "
            f"at least {min(one.held for one in some) * 100:.1f} %; median error of an op "
            f"{np.median([one.median_ms for one in some]):.2f} ms; largest layer the same in "
            f"{sum(one.layers_agree for one in some)}; verdict the same in {agrees.count('yes')}, the same layer in "
            f"{agrees.count('layer')} more, open in {agrees.count('open')}, another in {agrees.count('no')}, "
            f"of these with high confidence {sure}"
        )
    return "\n".join(lines)
