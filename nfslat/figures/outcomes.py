"""Each side, and requests that were tried again -> what the server answered: sections of the report, and facts."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nfslat.answer import outcomes as answer
from nfslat.findings.facts import PutOff
from nfslat.model.protocol import NULL, op_name, program_name, version_name
from nfslat.model.statuses import Says, says, status_name
from nfslat.model.tables import I32, I64, Ops
from nfslat.model.units import iso, to_ms, utc
from nfslat.outcomes.counts import answered, meanings, nfs_version, operation
from nfslat.outcomes.recovery import Recovery
from nfslat.outcomes.tries import Outcome, Request, fits_back_off
from nfslat.results import Side


def outcomes_of(
    sides: Mapping[str, Side], seen_by: Side, tried: Sequence[Request], recovered: Sequence[Recovery]
) -> answer.Outcomes:
    """Statuses of the selected ops of each side; `tried` and `recovered` are of `seen_by`."""
    ops = seen_by.ops
    return answer.Outcomes(
        statuses={name: status_rows(side) for name, side in sides.items()},
        tried_again=_tried_again(ops, [one for one in tried if one.waits_ns]),
        recoveries=[_recovery(ops, one) for one in recovered],
    )


def status_rows(side: Side) -> list[answer.StatusRow]:
    """How many of the selected ops were answered with which status."""
    rows = []
    for one in answered(side.ops, side.decoded.details.failures, side.kept):
        kind, status = one.kind, one.status
        failed = None if one.failed == NULL else op_name(kind.program, kind.version, one.failed)
        rows.append(
            answer.StatusRow(
                program=program_name(kind.program),
                op=operation(kind),
                version=version_name(kind.program, kind.version, kind.minor),
                status=None if status == NULL else status,
                name=None if status == NULL else status_name(nfs_version(kind), status),
                means=says(nfs_version(kind), status).value,
                failed_op=failed,
                count=one.ops,
            )
        )
    return rows


def _tried_again(ops: Ops, tried: Sequence[Request]) -> list[answer.TriedAgain]:
    groups: dict[tuple[str, str, Says], list[Request]] = defaultdict(list)
    for one in tried:
        kind = ops.kinds[ops.kind[one.tries[0]]]
        title = operation(kind), version_name(kind.program, kind.version, kind.minor)
        groups[*title, one.reason].append(one)
    rows = [_row(ops, *key, some) for key, some in groups.items()]
    return sorted(rows, key=lambda row: (-row.between_ms, row.op, row.version, row.reason))


class _Sums(NamedTuple):
    """Of requests, one or more, that were tried again."""

    tries: int
    ended: Counter[Outcome]
    mean_ms: float  # from the first try to the last answer
    longest_ms: float
    between_ns: int
    back_off_fits: int
    back_off_of: int

    @classmethod
    def of(cls, some: Sequence[Request]) -> _Sums:
        """Of all of `some`."""
        fit, of = (sum(numbers) for numbers in zip(*(fits_back_off(one) for one in some), strict=True))
        return cls(
            sum(len(one.tries) for one in some),
            Counter(one.outcome for one in some),
            to_ms(sum(one.waited_ns for one in some) / len(some)),
            to_ms(max(one.waited_ns for one in some)),
            sum(one.between_ns for one in some),
            fit,
            of,
        )


def _put_off_rows(some: Sequence[Request]) -> list[int]:
    """Of their tries those that were put off."""
    return [row for one in some for row in one.tries[: len(one.says)]]


def _row(ops: Ops, op: str, version: str, reason: Says, some: Sequence[Request]) -> answer.TriedAgain:
    sums, put_off = _Sums.of(some), _put_off_rows(some)
    return answer.TriedAgain(
        op=op,
        version=version,
        reason=reason.value,
        statuses=_statuses(ops, put_off),
        requests=len(some),
        tries=sums.tries,
        succeeded=sums.ended[Outcome.SUCCEEDED],
        failed=sums.ended[Outcome.FAILED],
        open=sums.ended[Outcome.OPEN],
        left=sums.ended[Outcome.LEFT],
        mean_ms=sums.mean_ms,
        max_ms=sums.longest_ms,
        between_ms=to_ms(sums.between_ns),
        first=iso(int(ops.t0[[one.tries[0] for one in some]].min())),
        last=iso(int(ops.t3[put_off].max())),
        back_off_fits=sums.back_off_fits if sums.back_off_of else None,
        back_off_of=sums.back_off_of or None,
    )


def _statuses(ops: Ops, rows: Sequence[int]) -> dict[str, int]:
    """By name, the most frequent first."""
    numbers = Counter(
        status_name(nfs_version(ops.kinds[kind]), status)
        for kind, status in zip(ops.kind[list(rows)].tolist(), ops.status[list(rows)].tolist(), strict=True)
    )
    return dict(numbers.most_common())


def _recovery(ops: Ops, one: Recovery) -> answer.Recovery:
    calls: Counter[str] = Counter()
    for row in one.rows:
        kind, status = ops.kinds[ops.kind[row]], int(ops.status[row])
        calls[operation(kind) + (f" {status_name(nfs_version(kind), status)}" if status > 0 else "")] += 1
    return answer.Recovery(iso(one.begin_ns), to_ms(one.end_ns - one.begin_ns), dict(calls), one.calls, one.waited)


def put_off_of(ops: Ops, tried: Sequence[Request], rows: I32 | I64, *, as_asked: bool) -> dict[str, PutOff]:
    """By reason (`Says`), the requests whose tries are among the ops in `rows`, and answers that no try helps.

    Their mean is over those ops; `as_asked` over what an application asked for, of which further tries are no part.
    """
    bad = np.flatnonzero(ops.status > 0)
    if not len(bad):
        return {}
    mine = np.zeros(len(ops), dtype=np.bool_)
    mine[rows] = True
    some = [one for one in tried if mine[one.tries[0]]]
    again = sum(len(one.tries) - 1 for one in some)
    over = max(len(rows) - again, 1) if as_asked else max(len(rows), 1)
    by_reason: dict[Says, list[Request]] = defaultdict(list)
    for one in some:
        by_reason[one.reason].append(one)
    found = {reason.value: _put_off(ops, of, over) for reason, of in by_reason.items()}
    bad = bad[mine[bad]]
    lost = bad[meanings(ops, bad) == list(Says).index(Says.LOST)] if len(bad) else bad
    return found | ({Says.LOST.value: _told(ops, lost.tolist())} if len(lost) else {})


def _put_off(ops: Ops, some: Sequence[Request], over: int) -> PutOff:
    waited = [one for one in some if one.waits_ns]
    told = _told(ops, _put_off_rows(some))
    if not waited:
        return told
    sums = _Sums.of(waited)
    return dataclasses.replace(
        told,
        requests=len(waited),
        tries=sums.tries,
        succeeded=sums.ended[Outcome.SUCCEEDED],
        open=sums.ended[Outcome.OPEN],
        mean_ms=sums.mean_ms,
        longest_ms=sums.longest_ms,
        total_between_ms=to_ms(sums.between_ns),
        between_ms=to_ms(sums.between_ns / over),
        back_off_fits=sums.back_off_fits,
        back_off_of=sums.back_off_of,
    )


def _told(ops: Ops, rows: Sequence[int]) -> PutOff:
    """Of answers alone."""
    labels = Counter(operation(ops.kinds[one]) for one in ops.kind[list(rows)].tolist())
    return PutOff(
        requests=0,
        tries=0,
        answers=len(rows),
        statuses=_statuses(ops, rows),
        ops=[name for name, _ in labels.most_common()],
        succeeded=0,
        open=0,
        mean_ms=0.0,
        longest_ms=0.0,
        total_between_ms=0.0,
        between_ms=0.0,
        since=utc(int(ops.t0[list(rows)].min()), digits=3),
        until=utc(int(ops.t3[list(rows)].max()), digits=3),
        back_off_fits=0,
        back_off_of=0,
    )
