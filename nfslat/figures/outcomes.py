"""Requests that were tried again -> facts on what the server put off, for findings."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import numpy as np
from msgspec import structs

from nfslat.findings.facts import Failing, PutOff
from nfslat.model.details import Names
from nfslat.model.protocol import NULL32
from nfslat.model.statuses import Says, rpc_status_name, status_name
from nfslat.model.tables import I32, I64, U32, Ops
from nfslat.model.units import to_ms, utc
from nfslat.outcomes.counts import meanings, nfs_version, operation
from nfslat.outcomes.tries import Outcome, Request
from nfslat.tally.outcomes import Retries, put_off_rows, statuses_of


def put_off_of(ops: Ops, tried: Sequence[Request], rows: I32 | I64, there: Ops, *, as_asked: bool) -> dict[str, PutOff]:
    """By reason (`Says`), the requests whose tries are among the ops in `rows`, and answers that no try helps.

    Their mean is over those ops; `as_asked` over what an application asked for, of which further tries are no part.
    `there` are the ops of the server's capture, which may show who holds what they wait for.
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
    put_off = {
        reason.value: structs.replace(
            _put_off(ops, of, over), holders=_holders(there, ops.fh[put_off_rows(of)], reason)
        )
        for reason, of in by_reason.items()
    }
    bad = bad[mine[bad]]
    lost = bad[meanings(ops, bad) == list(Says).index(Says.LOST)] if len(bad) else bad
    return put_off | ({Says.LOST.value: _put_off_answers(ops, lost.tolist())} if len(lost) else {})


_HOLDERS = {
    Says.LOCKED: ("LOCK", True),
    Says.DELAY: ("CB_RECALL", False),
}  # the operation, and whether its caller is it


def _holders(there: Ops, files: U32, reason: Says) -> list[tuple[str, int]]:
    """Clients that have locks on `files`, or of whom the server asks delegations of them back, and how often."""
    if reason not in _HOLDERS:
        return []
    name, is_caller = _HOLDERS[reason]
    is_it = np.array([operation(kind) == name for kind in there.kinds], dtype=np.bool_)
    rows = np.flatnonzero(is_it[there.kind] & (there.status == 0) & np.isin(there.fh, files[files != NULL32]))
    ways = there.conn[rows].astype(np.int64) * 2 + (there.direction[rows] if is_caller else 1 - there.direction[rows])
    return Counter(there.connections[way >> 1].source(way & 1)[0] for way in ways.tolist()).most_common()


_NAMES_SHOWN = 3


def failing_of(ops: Ops, names: Names, rows: I32 | I64) -> list[Failing]:
    """By operation and status, the ops in `rows` that are answered with an error."""
    rows = np.asarray(rows, dtype=np.int64)
    bad = rows[(ops.status[rows] > 0) | (ops.accept[rows] > 0)]
    if not len(bad):
        return []
    of_op = np.array([operation(kind) for kind in ops.kinds])
    every = Counter(of_op[ops.kind[rows]].tolist())
    labels, versions = of_op[ops.kind[bad]], np.array([nfs_version(kind) for kind in ops.kinds])[ops.kind[bad]]
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    columns = labels, versions, ops.status[bad], ops.accept[bad]
    for at, label, version, status, accept in zip(bad.tolist(), *(column.tolist() for column in columns), strict=True):
        groups[label, status_name(version, status) if accept <= 0 else rpc_status_name(accept)].append(at)
    return [_failing(ops, names, key, every[key[0]], np.array(at)) for key, at in groups.items()]


def _failing(ops: Ops, names: Names, key: tuple[str, str], of: int, rows: I64) -> Failing:
    clients = Counter(
        ops.connections[way >> 1].source(way & 1)[0]
        for way in (ops.conn[rows].astype(np.int64) * 2 + ops.direction[rows]).tolist()
    )
    files = ops.fh[rows]
    at = names.name[np.isin(names.op, rows)]
    shown = [names.names[name].decode(errors="replace") for name in np.unique(at)[:_NAMES_SHOWN].tolist()]
    return Failing(
        *key,
        ops=len(rows),
        of=of,
        clients=[client for client, _ in clients.most_common()],
        files=len(np.unique(files[files != NULL32])),
        names=[plain_name(name) for name in shown],
        since=utc(int(ops.t0[rows].min()), digits=3),
        until=utc(int(ops.t3[rows].max()), digits=3),
    )


def plain_name(name: str) -> str:
    """A name that may be printed: of a hostile one nothing but letters, digits and common signs is left."""
    return "".join(char if char.isprintable() and char.isascii() else "?" for char in name[:64])


def _put_off(ops: Ops, some: Sequence[Request], over: int) -> PutOff:
    waited = [one for one in some if one.waits_ns]
    answers = _put_off_answers(ops, put_off_rows(some))
    if not waited:
        return answers
    sums = Retries.of(ops, waited)
    return structs.replace(
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
