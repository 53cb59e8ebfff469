"""What was judged, and truth.json of each -> how often an answer is right by how sure it says it is, and a confusion of
causes and of thread limits, as Markdown for docs/measured.md.

What the server's threads were is the kernel's own word: pool_stats counts how often a connection with a call found an
idle thread (net/sunrpc/svc_xprt.c).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from laboratory.judged import NOT_JUDGED, RIGHT, Answer, Judged
from laboratory.measured import nfsd_threads

_Z = 1.96  # 95 % of a normal distribution lie within so many standard deviations
_LIMIT = "server-threads"
_OPEN = "cannot tell yet"
_FEW = 30  # connections with a call: fewer tell nothing
_NEVER, _OFTEN = 0.05, 0.2  # of them that found no idle thread
NO_LIMIT, BETWEEN, LIMITED, NOT_KNOWN = (
    "no: 95 % found one idle",
    "a few: 5 to 20 % found none",
    "yes: more than 20 % found none",
    "not known",
)
_SAID = ("certain, the number", "certain, another", "likely, the number", "likely, another", "nothing")


@dataclass(frozen=True)
class Threads:
    """What a server's kernel says of its threads."""

    counts: tuple[int, ...]  # how many there were, before and after
    waited: float | None  # share of the connections with a call that found no idle thread

    @property
    def state(self) -> str:
        """Whether calls waited for a thread."""
        if self.waited is None:
            return NOT_KNOWN
        return NO_LIMIT if self.waited <= _NEVER else LIMITED if self.waited > _OFTEN else BETWEEN


def threads_of(truth: Mapping[str, Any]) -> Threads:
    """From pool_stats and the line `th` of /proc/net/rpc/nfsd, before and after the load."""
    before, after = truth.get("before") or {}, truth.get("after") or {}
    pools = [_pools(one.get("pool_stats", "")) for one in (before, after)]
    enqueued, woken = (sum(one[at] for one in pools[1]) - sum(one[at] for one in pools[0]) for at in (2, 3))
    counts = tuple(dict.fromkeys(nfsd_threads(truth)))
    # A timeline may have set another number in between; nfsd that was restarted counts from 0.
    told = enqueued >= _FEW and 0 <= woken <= enqueued
    return Threads(counts, 1 - woken / enqueued if told else None)


def _pools(text: str) -> list[list[int]]:
    return [[int(word) for word in line.split()] for line in text.splitlines() if line[:1].isdigit()]


def said_of(answer: Answer, threads: Threads) -> str:
    """What an answer says of the server's threads, and whether the number is theirs."""
    sure = next((sure for code, _, sure in answer.findings if code == _LIMIT), None)
    if sure is None:
        return "nothing"
    numbers = {answer.threads, *answer.threads_of_phases}
    return f"{sure}, {'the number' if numbers.intersection(threads.counts) else 'another'}"


def markdown(judged: Sequence[Judged], truths: Sequence[Mapping[str, Any]]) -> str:
    """The tables; `truths` in the order of `judged`."""
    threads = [threads_of(one) for one in truths]
    parts = (_by_confidence(judged), _by_cause(judged, truths), _by_threads(judged, threads))
    return "\n\n".join("\n".join(one) for one in parts) + "\n"


def _by_confidence(judged: Sequence[Judged]) -> Iterator[str]:
    yield "| confidence | answers | right | of 100, with what chance allows |"
    yield "|---|--:|--:|---|"
    answers = [one for pair in judged for one in pair.answers if one.state != NOT_JUDGED]
    for name in ("high", "medium", "low", _OPEN, "all"):
        # Who cannot tell yet claims nothing that could be wrong with high confidence: a row of its own.
        some = [one for one in answers if name in (_OPEN if one.outcome == "undecided" else one.confidence, "all")]
        right = sum(one.state == RIGHT for one in some)
        low, high = wilson(right, len(some))
        share = f"{100 * right / len(some):.0f} ({100 * low:.0f} to {100 * high:.0f})" if some else ""
        yield f"| {name} | {len(some)} | {right} | {share} |"


def wilson(right: int, count: int) -> tuple[float, float]:
    """Between which shares the true one lies, with 95 % (Wilson 1927, "Probable Inference")."""
    if not count:
        return 0.0, 1.0
    share, width = right / count, _Z**2 / count
    middle = (share + width / 2) / (1 + width)
    half = _Z * math.sqrt(share * (1 - share) / count + width / (4 * count)) / (1 + width)
    return max(middle - half, 0.0), min(middle + half, 1.0)


def _said(one: Answer) -> str:
    """The cause of a fault; what leaves an answer open is none."""
    return _OPEN if one.outcome == "undecided" else one.cause or "none"


def _by_cause(judged: Sequence[Judged], truths: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    cells = Counter(
        (str((truth.get("cause") or {}).get("where", "not said")), _said(one))
        for pair, truth in zip(judged, truths, strict=True)
        for one in pair.answers
        if one.state != NOT_JUDGED
    )
    often: Counter[str] = Counter()
    for (_, said), count in cells.items():
        often[said] += count
    columns = sorted(often, key=lambda said: (-often[said], said))
    yield f"| injected | {' | '.join(columns)} |"
    yield f"|---|{'--:|' * len(columns)}"
    for where in sorted({where for where, _ in cells}):
        yield f"| {where} | {' | '.join(str(cells[where, said] or '') for said in columns)} |"


def _by_threads(judged: Sequence[Judged], threads: Sequence[Threads]) -> Iterator[str]:
    cells = Counter(
        (one.state, said_of(answer, one))
        for pair, one in zip(judged, threads, strict=True)
        for answer in pair.answers
        if answer.layer is not None
    )
    yield f"| calls waited for a thread | {' | '.join(_SAID)} |"
    yield f"|---|{'--:|' * len(_SAID)}"
    for state in (LIMITED, BETWEEN, NO_LIMIT, NOT_KNOWN):
        yield f"| {state} | {' | '.join(str(cells[state, said]) for said in _SAID)} |"
