"""Requests that were tried again -> facts on what the server put off, for findings."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np

from nfslat.findings.facts import PutOff
from nfslat.model.statuses import Says
from nfslat.model.tables import I32, I64, Ops
from nfslat.model.units import to_ms, utc
from nfslat.outcomes.counts import meanings, operation
from nfslat.outcomes.tries import Outcome, Request
from nfslat.tally.outcomes import Retries, put_off_rows, statuses_of


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
    put_off = {reason.value: _put_off(ops, of, over) for reason, of in by_reason.items()}
    bad = bad[mine[bad]]
    lost = bad[meanings(ops, bad) == list(Says).index(Says.LOST)] if len(bad) else bad
    return put_off | ({Says.LOST.value: _put_off_answers(ops, lost.tolist())} if len(lost) else {})


def _put_off(ops: Ops, some: Sequence[Request], over: int) -> PutOff:
    waited = [one for one in some if one.waits_ns]
    answers = _put_off_answers(ops, put_off_rows(some))
    if not waited:
        return answers
    sums = Retries.of(ops, waited)
    return dataclasses.replace(
        answers,
        requests=sums.requests,
        tries=sums.tries,
        succeeded=sums.ended[Outcome.SUCCEEDED],
        open=sums.ended[Outcome.OPEN],
        mean_ms=sums.mean_ms,
        longest_ms=to_ms(sums.longest_ns),
        total_between_ms=to_ms(sums.between_ns),
        between_ms=to_ms(sums.between_ns / over),
        back_off_fits=sums.back_off_fits,
        back_off_of=sums.back_off_of,
    )


def _put_off_answers(ops: Ops, rows: Sequence[int]) -> PutOff:
    """What the answers in `rows` say, whether or not a further try came."""
    labels = Counter(operation(ops.kinds[one]) for one in ops.kind[list(rows)].tolist())
    return PutOff(
        requests=0,
        tries=0,
        answers=len(rows),
        statuses=dict(statuses_of(ops, rows).most_common()),
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
