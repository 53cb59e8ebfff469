"""What was judged -> the table of `scripts/lab judge` for a terminal, and as Markdown."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from laboratory.judged import NOT_JUDGED, RIGHT, WRONG, Answer, Judged, account
from laboratory.measured import OFF, OK, UNKNOWN, Number, app_ms, disk_ms, kernel_ops
from nfslat.findings.words import ms, times

_WIDTH = 100


def injected_text(truth: Mapping[str, Any]) -> str:
    """The cause in a line: where, and with which figures."""
    cause = truth.get("cause") or {}
    return " ".join([str(cause.get("where", "not said")), *(_setting(k, v) for k, v in cause.items() if k != "where")])


def _setting(key: str, value: object) -> str:
    if isinstance(value, Mapping):
        shown = {name: value[name] for name in sorted(value)}
        same = len(set(map(str, shown.values()))) == 1
        value = f"{next(iter(shown.values()))} each way" if same else ", ".join(f"{k} {v}" for k, v in shown.items())
    return f"{key}={value}"


def truth_text(truth: Mapping[str, Any]) -> str:
    """What application, client's kernel and server's disk say, READ/WRITE in ms."""
    kernel = kernel_ops(truth)
    said = {
        "application": app_ms(truth),
        "kernel's queue": {op: one["avg_queue_ms"] for op, one in kernel.items()},
        "kernel's rtt": {op: one["avg_rtt_ms"] for op, one in kernel.items()},
        "disk": disk_ms(truth),
    }
    return ", ".join(
        f"{who} {'/'.join(_figure(means.get(op)) for op in ('READ', 'WRITE'))}" for who, means in said.items() if means
    )


def answer_text(answer: Answer) -> str:
    """Verdict, share, confidence, and what was counted."""
    if answer.layer is None:
        return answer.state
    share = "" if answer.share is None else f" {answer.share * 100:.0f} %"
    counted = [
        f", {times(number, noun)}"
        for number, noun in ((answer.threads, "thread"), (answer.slots, "slot"))
        if number is not None
    ]
    queue = f", {ms(answer.queue_ms)} ms queue" if answer.queue_ms else ""
    return f"{answer.layer} / {answer.cause or '-'}{share} {answer.confidence}{''.join(counted)}{queue}: {answer.state}"


def number_text(number: Number) -> str:
    """Found against true."""
    if number.state == UNKNOWN:
        return f"{number.name}: not known"
    found = "none" if number.found is None else _figure(number.found)
    if number.low is None and number.state == OK:
        text = f"{number.name} {found} <= {_figure(number.high)}"
    else:
        text = f"{number.name} {found} of {_figure(number.true)}"
    unit = f" {number.unit}" if number.unit in ("ms", "ppm", "s") else ""
    return f"{'OFF ' if number.state == OFF else ''}{text}{unit}"


def _figure(value: float | None) -> str:
    if value is None:
        return "-"
    if value == int(value):
        return f"{int(value)}"
    return f"{value:.1f}" if abs(value) >= 100 else f"{value:.3g}"


def _ranked(answer: Answer) -> str:
    shown = [f"{code} {'?' if share is None else f'{share * 100:.0f} %'}" for code, share, _ in answer.findings]
    return ", ".join(shown) or "none"


def why_lines(one: Judged) -> list[str]:
    """What is wrong, a line each, with the ranked findings; then what is off."""
    out = []
    for answer in one.answers:
        if answer.state == WRONG:
            out += [f"{answer.known}: {why}" for why in answer.why]
            if answer.layer is not None:
                out.append(f"{answer.known}: got {answer_text(answer).rsplit(':', 1)[0]}; findings: {_ranked(answer)}")
    return out + [f"{number_text(number)}; allowed {allowed(number)}: {number.why}" for number in one.off]


def allowed(number: Number) -> str:
    """The range in which a figure is right."""
    if number.low is None:
        return f"up to {_figure(number.high)}"
    return f"{_figure(number.low)} to {_figure(number.high)}"


def account_lines(judged: Sequence[Judged]) -> list[str]:
    """The sums in words."""
    a = account(judged)
    total = sum(a.answers.values())
    return [
        f"{len(judged)} pairs: " + ", ".join(f"{count} {state}" for state, count in a.scenarios.items()),
        f"{total} answers: " + ", ".join(f"{count} {state}" for state, count in a.answers.items()),
        *(f"  not judged, {count}: {why}" for why, count in a.not_judged.items()),
        f"{sum(a.numbers.values())} figures: {a.numbers[OK]} as measured, {a.numbers[OFF]} off, "
        f"{a.numbers[UNKNOWN]} not known",
    ]


def text(judged: Sequence[Judged]) -> str:
    """The table for a terminal of 100 columns, what is wrong below it, and the sums."""
    lines = ["READ/WRITE in ms; figures: found of measured, or found <= most", ""]
    for one in judged:
        mark = one.state + (f", {len(one.off)} off" if one.off else "")
        lines.append(f"{mark:<17}{one.name:<26}{_cut(one.injected, _WIDTH - 43)}")
        rows = [("truth, ms", one.truth or "-")]
        rows += [(answer.known, answer_text(answer)) for answer in one.answers]
        # Nothing where nothing was injected is left to the JSON.
        known = [
            number_text(number)
            for number in one.numbers
            if number.state == OFF or (number.state == OK and (number.found or number.true))
        ]
        rows.append(("figures", "; ".join(known) or "-"))
        for name, value in rows:
            lines += textwrap.wrap(
                value, _WIDTH, initial_indent=f"  {name:<13}", subsequent_indent=" " * 15, break_on_hyphens=False
            )
    wrong = [one for one in judged if why_lines(one)]
    if wrong:
        lines += ["", "Wrong, or off"]
        for one in wrong:
            for why in why_lines(one):
                lines += textwrap.wrap(f"{one.name}: {why}", _WIDTH, subsequent_indent="    ", break_on_hyphens=False)
    return "\n".join([*lines, "", *account_lines(judged)]) + "\n"


def _cut(value: str, width: int) -> str:
    return value if len(value) <= width else f"{value[: width - 3]}..."


def markdown(judged: Sequence[Judged]) -> str:
    """The same as one table with a row a pair."""
    head = ("scenario", "injected", "truth, ms (READ/WRITE)", "packets alone", "application known", "figures", "")
    rows = [head, ("---",) * len(head)]
    for one in judged:
        of_state = Counter(number.state for number in one.numbers)
        figures = f"{of_state[OK]} as measured" + (f", {of_state[OFF]} off" if one.off else "")
        rows.append((one.name, one.injected, one.truth, *map(answer_text, one.answers), figures, one.state))
    table = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    wrong = [f"- {one.name}: {why}" for one in judged for why in why_lines(one)]
    sums = [f"- {line.strip()}" for line in account_lines(judged)]
    return "\n".join([*table, "", *([*wrong, ""] if wrong else []), *sums]) + "\n"


def headlines(judged: Sequence[Judged]) -> str:
    """Of each answer its outcome, what the headline says and how long the default report is, as Markdown; below it how
    long the reports are, and how many outcomes of each kind were right."""
    rows = [(one, answer) for one in judged for answer in one.answers if answer.outcome is not None]
    lines = ["| pair | injected | known | outcome | sure | headline | lines | |", "|---|---|---|---|---|---|--:|---|"]
    for one, answer in rows:
        words = answer.headline.replace("|", "/")
        lines.append(
            f"| {one.name} | {one.injected} | {answer.known} | {answer.outcome} | {answer.confidence} | {words} | "
            f"{answer.lines} | {answer.state} |"
        )
    lengths = sorted(answer.lines for _, answer in rows)
    outcomes = Counter((answer.outcome, answer.state) for _, answer in rows)
    lines += ["", "| outcome | right | wrong | not judged |", "|---|--:|--:|--:|"]
    for outcome in ("fault", "no-fault", "undecided"):
        counts = " | ".join(str(outcomes[outcome, state]) for state in (RIGHT, WRONG, NOT_JUDGED))
        lines.append(f"| {outcome} | {counts} |")
    if lengths:
        lines += ["", f"Lines of the default report: median {lengths[len(lengths) // 2]}, most {lengths[-1]}."]
    return "\n".join(lines) + "\n"
