"""What was injected and what `nfslat live` said -> when each cause was named, when its end was, and what was wrong."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SETTLES_S = 2.0  # what is in flight when something ends is answered soon
_QUIET, _UNDECIDED = "no fault", "cannot tell"


@dataclass(frozen=True)
class Stretch:
    """One line of JSON of `nfslat live`; times are s of the client's clock."""

    begin_s: float
    end_s: float
    answer: str  # a cause, or one of the two above
    ended: tuple[str, ...]
    ops: int


@dataclass(frozen=True)
class Cause:
    """One that was injected; s of the client's clock."""

    name: str
    right: tuple[str, ...]
    begin_s: tuple[float, float]  # it took effect in between
    end_s: tuple[float, float]

    def is_beside(self, one: Stretch) -> bool:
        """Is it what a stretch tells of, or may be?"""
        return one.end_s > self.begin_s[0] and one.begin_s < self.end_s[1] + _SETTLES_S

    def is_all_of(self, one: Stretch) -> bool:
        """Did it last from the begin of a stretch to its end?"""
        return self.begin_s[1] <= one.begin_s and one.end_s <= self.end_s[0]


def stretches_of(text: str) -> list[Stretch]:
    """Of the JSON lines."""
    found = []
    for line in text.splitlines():
        row = json.loads(line)
        if not row["ops"]:
            continue
        is_named = row["outcome"] == "fault" and row["confidence"] != "low"
        answer = row["cause"] if is_named else _QUIET if row["outcome"] == "no-fault" else _UNDECIDED
        ended = tuple(one["what"] for one in row["ended"])
        found.append(Stretch(_seconds(row["begin"]), _seconds(row["end"]), answer, ended, row["ops"]))
    return found


def causes_of(truth: dict[str, Any]) -> list[Cause]:
    """Of the truth, whose times are of this machine's clock."""
    more_s = truth["clock_before"]["client_minus_host"]["offset_s"]
    return [
        Cause(
            one["name"],
            tuple(one["right"]),
            (one["begin"][0] + more_s, one["begin"][1] + more_s),
            (one["end"][0] + more_s, one["end"][1] + more_s),
        )
        for one in truth["injected"]
    ]


def told(truth: dict[str, Any], stretches: list[Stretch], moments: list[tuple[float, str, str]]) -> Iterator[str]:
    """Lines. `moments`: when each began, what live's report of it says, and what plain `nfslat` says of its packets."""
    interval_s = truth["interval_s"]
    causes = causes_of(truth)
    yield f"stretches of {interval_s:g} s"
    for cause in causes:
        yield f"{cause.name}: {', '.join(_of_cause(cause, stretches, interval_s))}"
        for begin_s, said, plain in moments:
            if cause.begin_s[0] - interval_s <= begin_s < cause.end_s[1] + _SETTLES_S:
                verdict = "right" if plain in cause.right else "WRONG"
                yield f"    moment of {_clock(begin_s)}: report {said}; nfslat on its packets {plain}: {verdict}"
    begin_s, end_s = (
        truth[name] + truth["clock_before"]["client_minus_host"]["offset_s"] for name in ("begin_s", "end_s")
    )
    healthy = [
        one
        for one in stretches
        if begin_s <= one.begin_s and one.end_s <= end_s and not any(cause.is_beside(one) for cause in causes)
    ]
    answers = Counter(one.answer for one in healthy)
    yield f"healthy: {len(healthy)} stretches: {_counted(answers)}"
    for one in healthy:
        if one.answer not in (_QUIET, _UNDECIDED):
            yield f"    {_clock(one.begin_s)} {one.answer}; {_busy(truth, one)}"


def _of_cause(cause: Cause, stretches: list[Stretch], interval_s: float) -> Iterator[str]:
    beside = [one for one in stretches if cause.is_beside(one)]
    first = next((at for at, one in enumerate(beside) if one.end_s > cause.begin_s[1]), 0)
    named = next((at for at, one in enumerate(beside) if one.answer in cause.right), None)
    if named is None:
        yield "NOT named"
    else:
        late_s = beside[named].end_s - cause.begin_s[1]
        yield f"named in stretch {max(named - first, 0) + 1}, {late_s:.0f} s after it began"
        over = [one for one in stretches if one.end_s > beside[named].end_s and set(one.ended) & {*cause.right}]
        if not over:
            yield "end NOT said"
        else:
            late_s = over[0].end_s - cause.end_s[1]
            yield f"end said {late_s:.0f} s after it" if late_s >= 0 else f"end said {-late_s:.0f} s TOO EARLY"
    inside = [one for one in beside if cause.is_all_of(one)]
    if inside:
        yield f"{len(inside)} whole stretches: {_counted(Counter(one.answer for one in inside))}"
    wrong = Counter(one.answer for one in beside if one.answer not in (*cause.right, _QUIET, _UNDECIDED))
    if wrong:
        yield f"OTHERS NAMED: {_counted(wrong)}"


def moments_of(folder: Path) -> list[tuple[float, str, str]]:
    """Those that `nfslat live` wrote to `folder`."""
    found = []
    for one in sorted(folder.glob("*Z-*")):
        stamp = datetime.datetime.strptime(one.name[:15], "%Y%m%dT%H%M%S").replace(tzinfo=datetime.UTC)
        said = json.loads((one / "report.json").read_text())
        done = subprocess.run(
            [sys.executable, "-m", "nfslat", "server.pcapng", "client.pcapng", "--json", "-", "-q"],
            cwd=one, capture_output=True, text=True, check=False,
        )  # fmt: skip
        plain = json.loads(done.stdout) if done.returncode == 0 else None
        found.append((stamp.timestamp(), _answer(said), done.stderr.strip() if plain is None else _answer(plain)))
    return found


def _answer(report: dict[str, Any]) -> str:
    verdict = report["verdict"]
    if verdict is None or verdict["outcome"] == "undecided":
        return _UNDECIDED
    return verdict["cause"] if verdict["outcome"] == "fault" else _QUIET


def _busy(truth: dict[str, Any], one: Stretch) -> str:
    """For how long guests were held up by this machine then, and what the server's disk took."""
    more_s = truth["clock_before"]["client_minus_host"]["offset_s"]
    held: dict[str, list[float]] = {}
    for at_s, name, waited_s in truth["busy"]:
        if one.begin_s <= at_s + more_s <= one.end_s:
            held.setdefault(name, []).append(waited_s)
    said = [f"the {name} was held up {_times(some)}, for up to {max(some) * 1e3:.0f} ms" for name, some in held.items()]
    to_client_s = truth["clock_before"]["client_minus_server_s"]
    counts = [row for row in truth.get("disk", ()) if one.begin_s <= row[0] + to_client_s <= one.end_s]
    if len(counts) > 1 and counts[-1][1] > counts[0][1]:
        mean_ms = (counts[-1][2] - counts[0][2]) / (counts[-1][1] - counts[0][1])
        said.append(f"a request of its disk took {mean_ms:.1f} ms")
    return "; ".join(said) or "nothing held the guests up"


def _times(some: list[float]) -> str:
    return "once" if len(some) == 1 else f"{len(some)} times"


def _counted(answers: Counter[str]) -> str:
    return ", ".join(f"{count} {answer}" for answer, count in answers.most_common())


def _seconds(moment: str) -> float:
    return datetime.datetime.fromisoformat(moment[:26].rstrip("Z") + "+00:00").timestamp()


def _clock(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).strftime("%H:%M:%S")
