"""What the server answered: statuses of the ops of each side, requests that were tried again, and lost state."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Self

from nfslat.answer import outcomes as answer
from nfslat.model.protocol import NULL, op_name, program_name, version_name
from nfslat.model.record import Record
from nfslat.model.statuses import Says, says, status_name
from nfslat.model.tables import Ops
from nfslat.model.units import iso, to_ms
from nfslat.outcomes.counts import Answered, answered, nfs_version, operation
from nfslat.outcomes.recovery import Recovery
from nfslat.outcomes.tries import Outcome, Request, fits_back_off
from nfslat.results import Side

MOST_RECOVERIES = 10_000  # that are listed


class Retries(Record):
    """Requests, one or more, that were tried again."""

    requests: int
    tries: int
    ended: Counter[Outcome]
    statuses: Counter[str]  # of the tries that were put off
    waited_ns: int  # from the first try to the last answer
    longest_ns: int
    between_ns: int
    first_ns: int  # the first try
    last_ns: int  # the last answer that put one off
    back_off_fits: int
    back_off_of: int

    @classmethod
    def of(cls, ops: Ops, some: Sequence[Request]) -> Self:
        """The sums over `some`."""
        fit, of = (sum(numbers) for numbers in zip(*(fits_back_off(one) for one in some), strict=True))
        put_off = put_off_rows(some)
        return cls(
            requests=len(some),
            tries=sum(len(one.tries) for one in some),
            ended=Counter(one.outcome for one in some),
            statuses=statuses_of(ops, put_off),
            waited_ns=sum(one.waited_ns for one in some),
            longest_ns=max(one.waited_ns for one in some),
            between_ns=sum(one.between_ns for one in some),
            first_ns=int(ops.t0[[one.tries[0] for one in some]].min()),
            last_ns=int(ops.t3[put_off].max()),
            back_off_fits=fit,
            back_off_of=of,
        )

    def __add__(self, later: Self) -> Self:
        """These, and those of a later block."""
        return type(self)(
            requests=self.requests + later.requests,
            tries=self.tries + later.tries,
            ended=self.ended + later.ended,
            statuses=self.statuses + later.statuses,
            waited_ns=self.waited_ns + later.waited_ns,
            longest_ns=max(self.longest_ns, later.longest_ns),
            between_ns=self.between_ns + later.between_ns,
            first_ns=min(self.first_ns, later.first_ns),
            last_ns=max(self.last_ns, later.last_ns),
            back_off_fits=self.back_off_fits + later.back_off_fits,
            back_off_of=self.back_off_of + later.back_off_of,
        )

    @property
    def mean_ms(self) -> float:
        """From the first try of a request to its last answer."""
        return to_ms(self.waited_ns / self.requests)


Statuses = Mapping[tuple[tuple[int, ...], int, int], Answered]  # by kind, status and operation that failed
Title = tuple[str, str, Says]  # operation, version and reason


class OutcomeTally(Record):
    """What the server answered: statuses by side, requests that were tried again, and recoveries."""

    statuses: Mapping[str, Statuses] = {}
    retries: Mapping[Title, Retries] = {}
    recoveries: tuple[answer.Recovery, ...] = ()

    @classmethod
    def empty(cls) -> Self:
        """The tally of no block at all."""
        return cls()

    @classmethod
    def of(
        cls,
        sides: Mapping[str, Side],
        seen_by: Side,
        tried: Sequence[Request] = (),
        recovered: Sequence[Recovery] = (),
    ) -> Self:
        """Statuses of the selected ops of each side; `tried` and `recovered` are of `seen_by`."""
        ops = seen_by.ops
        groups: dict[Title, list[Request]] = defaultdict(list)
        for one in tried:
            if one.waits_ns:
                kind = ops.kinds[ops.kind[one.tries[0]]]
                groups[operation(kind), version_name(kind.program, kind.version, kind.minor), one.reason].append(one)
        return cls(
            statuses={name: _answers(side) for name, side in sides.items()},
            retries={title: Retries.of(ops, some) for title, some in groups.items()},
            recoveries=tuple(_recovery(ops, one) for one in recovered[:MOST_RECOVERIES]),
        )

    def __add__(self, later: Self) -> Self:
        """This one, and a later block's."""
        statuses = {name: dict(answers) for name, answers in self.statuses.items()}
        for name, answers in later.statuses.items():
            mine = statuses.setdefault(name, {})
            for key, one in answers.items():
                mine[key] = one._replace(ops=mine[key].ops + one.ops) if key in mine else one
        retries = dict(self.retries)
        for title, some in later.retries.items():
            retries[title] = retries[title] + some if title in retries else some
        return type(self)(statuses, retries, (self.recoveries + later.recoveries)[:MOST_RECOVERIES])

    def rows(self) -> answer.Outcomes:
        """The section of the report."""
        return answer.Outcomes(
            statuses={name: _status_rows(answers) for name, answers in self.statuses.items()},
            tried_again=sorted(
                (_row(*title, retries) for title, retries in self.retries.items()),
                key=lambda row: (-row.between_ms, row.op, row.version, row.reason),
            ),
            recoveries=list(self.recoveries),
        )


def _answers(side: Side) -> Statuses:
    answers = answered(side.ops, side.decoded.details.failures, side.kept)
    return {(one.kind[:4], one.status, one.failed): one for one in answers}


def _status_rows(answers: Statuses) -> list[answer.StatusRow]:
    """How many ops were answered with which status: what went well first, the most frequent first."""
    rows = []
    for key in sorted(answers, key=lambda key: (key[1] != 0, -answers[key].ops, key)):
        kind, status, failed, ops = answers[key]
        rows.append(
            answer.StatusRow(
                program=program_name(kind.program),
                op=operation(kind),
                version=version_name(kind.program, kind.version, kind.minor),
                status=None if status == NULL else status,
                name=None if status == NULL else status_name(nfs_version(kind), status),
                means=says(nfs_version(kind), status).value,
                failed_op=None if failed == NULL else op_name(kind.program, kind.version, failed),
                count=ops,
            )
        )
    return rows


def put_off_rows(some: Sequence[Request]) -> list[int]:
    """Rows of the tries of `some` that were put off."""
    return [row for one in some for row in one.tries[: len(one.says)]]


def _row(op: str, version: str, reason: Says, retries: Retries) -> answer.TriedAgain:
    return answer.TriedAgain(
        op=op,
        version=version,
        reason=reason.value,
        statuses=dict(retries.statuses.most_common()),
        requests=retries.requests,
        tries=retries.tries,
        succeeded=retries.ended[Outcome.SUCCEEDED],
        failed=retries.ended[Outcome.FAILED],
        open=retries.ended[Outcome.OPEN],
        left=retries.ended[Outcome.LEFT],
        mean_ms=retries.mean_ms,
        max_ms=to_ms(retries.longest_ns),
        between_ms=to_ms(retries.between_ns),
        first=iso(retries.first_ns),
        last=iso(retries.last_ns),
        back_off_fits=retries.back_off_fits if retries.back_off_of else None,
        back_off_of=retries.back_off_of or None,
    )


def statuses_of(ops: Ops, rows: Sequence[int]) -> Counter[str]:
    """How many of the ops in `rows` have which status, by its name."""
    return Counter(
        status_name(nfs_version(ops.kinds[kind]), status)
        for kind, status in zip(ops.kind[list(rows)].tolist(), ops.status[list(rows)].tolist(), strict=True)
    )


def _recovery(ops: Ops, one: Recovery) -> answer.Recovery:
    calls: Counter[str] = Counter()
    for row in one.rows:
        kind, status = ops.kinds[ops.kind[row]], int(ops.status[row])
        calls[operation(kind) + (f" {status_name(nfs_version(kind), status)}" if status > 0 else "")] += 1
    return answer.Recovery(iso(one.begin_ns), to_ms(one.end_ns - one.begin_ns), dict(calls), one.calls, one.waited)
