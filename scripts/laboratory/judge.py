"""Results folders -> nfslat on each -> a table: what was injected, what nfslat says, right or wrong, and why wrong.

Two answers are judged for each pair of captures, from packets alone and with the application's latency known, and with
them each figure that was measured from outside (`measured`). Exit status 0: nothing is wrong; 1: something is, or a
figure is off; 2: usage; 3: there are no results.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import nfslat
from laboratory import calibration
from laboratory.expected import APPLICATION, PACKETS, BadExpectation, Both, Expected, expected
from laboratory.judged import NOT_JUDGED, RIGHT, WRONG, Answer, Judged, account, as_json
from laboratory.judged_text import headlines, injected_text, markdown, text, truth_text
from laboratory.measured import app_ms, numbers
from nfslat.answer import model
from nfslat.api import Options, Report
from nfslat.errors import InputError, NfslatError, UsageError
from nfslat.evidence.known import Known
from nfslat.export.output import Kind, output
from nfslat.findings.catalogue import SLOTS
from nfslat.report.text import render as text_report

_RESULTS = "lab-results"
_MATTERS = 0.1  # the share from which a finding counts as listed


@dataclass(frozen=True)
class Pair:
    """Two captures of a scenario, and what is known of how they came about."""

    name: str
    server: Path | None
    client: Path | None
    truth: Mapping[str, Any]
    which: str = ""  # "client2": not the first client
    shared: bool = False  # other clients of the same server are captured, too
    broken: str = ""  # why truth.json cannot be read


# --- Results ----------------------------------------------------------------------------------------------------------


def find_pairs(
    folders: Sequence[Path], only: Sequence[str] = (), expect: Mapping[str, Any] | None = None
) -> list[Pair]:
    """Each folder with a truth.json, in `folders` or right below them, by name; `expect` has tables for some of them.

    Raises ``InputError`` for no folder.
    """
    found: dict[Path, None] = {}
    for folder in folders:
        if not folder.is_dir():
            raise InputError(f"{folder}: no such folder; give one that scripts/lab run made")
        own = [folder] if (folder / "truth.json").is_file() else sorted(p.parent for p in folder.glob("*/truth.json"))
        found.update(dict.fromkeys(own))
    named = [one for one in found if not only or any(fnmatchcase(one.resolve().name, name) for name in only)]
    return [pair for folder in named for pair in _pairs_of(folder, expect or {})]


def _pairs_of(folder: Path, expect: Mapping[str, Any]) -> Iterator[Pair]:
    name = folder.resolve().name
    captures = {
        side: min(folder.glob(f"{side}.*cap*"), default=min(folder.glob(f"{side}.snoop*"), default=None))
        for side in ("server", "client")
    }
    others = sorted(
        (path for path in folder.glob("client[0-9]*") if re.match(r"client\d+\.(pcap|pcapng|cap|snoop)\b", path.name)),
        key=lambda path: int(re.findall(r"\d+", path.name)[0]),
    )
    try:
        truth = json.loads((folder / "truth.json").read_text())
        if not isinstance(truth, dict):
            raise ValueError("a table is wanted")
        if name in expect:
            truth["expect"] = expect[name]
    except (OSError, ValueError) as error:
        yield Pair(name, None, None, {}, broken=f"truth.json: {error}")
        return
    yield Pair(name, captures["server"], captures["client"], truth, shared=bool(others))
    for path in others:
        which = path.name.split(".")[0]
        # What is of one client only is its own; the rest is the run's.
        of_client = ("workload", "mountstats_ops_delta", "clock_before", "clock_after", "tcp_retrans_segs")
        own = {key: value for key, value in truth.items() if key not in of_client}
        own["workload"] = truth.get(which.replace("client", "workload"))
        own.update(truth.get(which) or {})
        yield Pair(f"{name}/{which}", captures["server"], path, own, which, shared=True)


# --- One pair ---------------------------------------------------------------------------------------------------------


def judge(pair: Pair) -> Judged:
    """Runs nfslat on the captures of `pair` and holds what it says against what is expected."""
    try:
        return _judged(pair, injected_text(pair.truth), truth_text(pair.truth))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        why = f"truth.json is not as scripts/lab run writes it: {type(error).__name__}: {error}"
        return Judged(pair.name, "", "", [Answer(known, WRONG, why=[why]) for known in (PACKETS, APPLICATION)], [])


def _judged(pair: Pair, injected: str, truth: str) -> Judged:

    def neither(state: str, why: str) -> Judged:
        answers = [Answer(known, state, why=[why]) for known in (PACKETS, APPLICATION)]
        return Judged(pair.name, injected, truth, answers, [])

    if pair.broken:
        return neither(WRONG, pair.broken)
    try:
        right = expected(pair.truth, pair.which)
    except BadExpectation as error:
        return neither(WRONG, str(error))
    if pair.server is None or pair.client is None:
        missing = "server" if pair.server is None else "client"
        return neither(NOT_JUDGED, f"there is no capture of the {missing}")
    try:
        alone = nfslat.correlate(pair.server, pair.client)
        reports = {PACKETS: alone}
        if app := app_ms(pair.truth):
            reports[APPLICATION] = Report(alone.correlation, Options(known=Known(app_ms=app)))
        answers = [_answer(known, reports.get(known), right) for known in (PACKETS, APPLICATION)]
    except NfslatError as error:
        return neither(WRONG, f"nfslat refuses: {error}")
    except Exception as error:  # one pair that nfslat breaks on must not hide the others
        return neither(WRONG, f"nfslat broke: {type(error).__name__}: {error}")
    figures = numbers(alone, pair.truth, right.packets, shared=pair.shared)
    return Judged(pair.name, injected, truth, answers, figures)


def _answer(known: str, report: Report | None, both: Both) -> Answer:
    if report is None:
        return Answer(known, NOT_JUDGED, why=["no application's latency was measured"])
    made = given(known, report.summary)
    right = both.of(known)
    if right is None:
        return dataclasses.replace(made, why=[both.why_not or "nothing is expected of it"])
    why = mistakes(made, right)
    return dataclasses.replace(made, state=WRONG if why else RIGHT, why=why)


def given(known: str, report: model.Report) -> Answer:
    """What a report says, not judged yet."""
    verdict, flying = report.verdict, report.inflight
    slots = next((one.evidence.get("slots_each") for one in report.findings if one.code in SLOTS), None)
    return Answer(
        known,
        NOT_JUDGED,
        outcome=verdict.outcome if verdict else None,
        layer=(verdict.layer or verdict.largest_layer or "unknown") if verdict else None,
        also=verdict.also if verdict else [],
        decides=verdict.next.causes if verdict and verdict.next else [],
        headline=verdict.text if verdict else "",
        lines=text_report(report).count("\n"),
        cause=(verdict.cause or "") if verdict else None,
        share=verdict.share if verdict else None,
        confidence=verdict.confidence if verdict else None,
        threads=flying.server.threads_estimate if flying else None,
        threads_of_phases=[one.threads_estimate for one in report.phases or () if one.threads_estimate],
        slots=slots,
        queue_ms=flying.server.queue_ms if flying else None,
        findings=[(one.code, one.share, one.confidence) for one in report.findings],
    )


def mistakes(answer: Answer, right: Expected) -> list[str]:
    """One line for each thing that is not as expected; none: all is right."""
    out = _wrong_outcome(answer, right)
    if right.confidence is not None and answer.confidence not in right.confidence:
        out.append(f"expected confidence {_or(right.confidence)}, got {_named(answer.confidence)}")
    any_share = {code for code, _, _ in answer.findings}
    counts = {code for code, share, _ in answer.findings if share is None or share >= _MATTERS}
    out += [f"expected {code} among the findings that matter" for code in right.findings if code not in counts]
    out += [f"expected {code} among the findings" for code in right.listed if code not in any_share]
    # What is only likely, and has no share without the application's time, blames nobody: slots look like workers.
    blamed = counts - {code for code, share, sure in answer.findings if share is None and sure != "certain"}
    out += [f"expected no {code} that matters" for code in right.absent if code in blamed]
    # A cause that begins or ends is found in the phase that has it.
    found = {"threads": (answer.threads, *answer.threads_of_phases), "slots": (answer.slots,)}
    for name, numbers_of in found.items():
        wanted = getattr(right, name)
        if wanted is not None and wanted not in numbers_of:
            out.append(f"expected {wanted} {name}, got {_named(numbers_of[0])}")
    return out


def _wrong_outcome(answer: Answer, right: Expected) -> list[str]:
    """What is wrong with fault, no fault, or cannot tell yet.

    Where a cause is expected, it is right to name it and whose it is, and right to say that it cannot be told where the
    next measurement decides just that. Where none is (""), only "no fault" is right. Where either is, both are.
    """
    causes = right.cause
    named = [one for one in causes or () if one]
    match answer.outcome:
        case "no-fault":
            if causes is not None and "" not in causes:
                return [f"expected cause {_or(causes)}, got no fault"]
        case "undecided":
            if any(one.startswith("capture-") for one in right.listed):
                return []  # captures that are known not to be whole cannot say that nothing is wrong
            if causes is not None and answer.cause not in named and not set(answer.decides) & set(named):
                return [f"expected cause {_or(causes)}, got undecided, and its next step decides {_or(answer.decides)}"]
            return []
        case "fault":
            if causes is not None and answer.cause not in named:
                return [f"expected cause {_or(causes)}, got {_named(answer.cause)}"]
    if right.layer is not None and answer.layer not in right.layer:
        return [f"expected layer {_or(right.layer)}, got {_named(answer.layer)}"]
    return []


def _or(wanted: Iterable[str]) -> str:
    return " or ".join(map(_named, wanted))


def _named(one: object) -> str:
    return "none" if one in ("", None) else str(one)


# --- The command ------------------------------------------------------------------------------------------------------


def parser() -> argparse.ArgumentParser:
    """Of `scripts/lab judge`."""
    made = argparse.ArgumentParser(
        prog="scripts/lab judge", description="Run nfslat on results of the lab and say where it is right."
    )
    made.add_argument(
        "results",
        nargs="*",
        metavar="RESULTS",
        help=f"folders that scripts/lab run made, or one of theirs ({_RESULTS})",
    )
    made.add_argument("--only", action="append", default=[], metavar="NAME", help="scenario, * and ? allowed; again")
    made.add_argument("--expect", metavar="FILE", help="TOML: tables [NAME] that stand for the [expect] of those runs")
    made.add_argument(
        "--calibration", action="store_true", help="print how often answers are right by how sure they say they are"
    )
    made.add_argument(
        "--headlines", action="store_true", help="print outcome, headline and lines of the report of each pair"
    )
    made.add_argument("--json", metavar="FILE", help="write all of it as JSON; - is standard output")
    made.add_argument("--markdown", action="store_true", help="print a Markdown table")
    return made


def main(argv: Sequence[str]) -> int:
    """Judges, prints, and returns the exit status."""
    asked = parser().parse_args(argv)
    try:
        return _run(asked)
    except NfslatError as error:
        print(f"lab judge: {error}", file=sys.stderr)  # noqa: T201
        return error.exit_status


def _read(path: str) -> Mapping[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path}: {error}") from error


def _run(asked: argparse.Namespace) -> int:
    folders = [Path(one) for one in asked.results or [_RESULTS]]
    pairs = find_pairs(folders, asked.only, _read(asked.expect) if asked.expect else None)
    if not pairs:
        wanted = f" that {' or '.join(asked.only)} names" if asked.only else ""
        raise InputError(f"{', '.join(map(str, folders))}: no results{wanted}; scripts/lab run makes them")
    judged = []
    for n, pair in enumerate(pairs, 1):
        if sys.stderr.isatty():
            sys.stderr.write(f"\r\033[K{n} of {len(pairs)}: {pair.name}")
            sys.stderr.flush()
        judged.append(judge(pair))
    if sys.stderr.isatty():
        sys.stderr.write("\r\033[K")
    if asked.json == "-" and (asked.markdown or asked.calibration or asked.headlines):
        raise UsageError("--json -, with --markdown, --calibration or --headlines: one of them to standard output")
    if asked.json:
        with output(asked.json, Kind.JSON, []) as out:
            if out is not None:
                json.dump(as_json(judged), out, indent=2, allow_nan=False)
                out.write("\n")
    if asked.headlines:
        sys.stdout.write(headlines(judged))
    elif asked.calibration:
        sys.stdout.write(calibration.markdown(judged, [pair.truth for pair in pairs]))
    elif asked.json != "-":
        sys.stdout.write(markdown(judged) if asked.markdown else text(judged))
    return account(judged).status
