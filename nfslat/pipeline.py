"""The map: capture files in, a report out; every stage once, in order, with what goes into it and what comes out.

`correlate`: two capture files -> `Correlation`
    decode      capture file -> its ops: calls are paired with their replies there; a thread a side
    directions  ops of one side -> the same, where its file has two clocks for what was sent and what was received
    match       ops + ops -> matched ops; the sides are exchanged where the files were given in the wrong order
    own stamps  segments of one side -> how late its capture stamps what its host sends, and receives
    clock       matched ops -> what is known of the two clocks, without ops whose stamps are late; of few ops, with ACKs
    settle      matched ops + clock -> matched ops: what only time can tell
    select      ops + filters -> the ones that the user asked for
    decompose   matched ops + clock -> the parts of each

`analyse`: `Correlation` -> `Analysis`
    missing     ops of one side -> calls that its capture does not show
    resends     matched ops + what each side sent again -> how long they waited for it
    charges     matched ops + parts + waits + round trip -> what the time of each is charged to
    in flight   ops of both sides + waits in the server's socket -> levels, threads, slots, sessions, calls in series
    outcomes    the client's ops -> requests that the server put off with errors, and state that was made anew
    times       matched ops + clock -> response times at the client and at the server

`report`: `Analysis` + what is known from outside (`nfslat.evidence.outside`, which needs it, too) -> the report
    figures     of threads and slots, captures, matched ops, clocks, what TCP did, and the stack of latencies
    findings    those figures + what is known -> causes, ranked, and the verdict
    what if     the same + other limits -> replays
    tables      `Analysis` -> pivots and intervals, where they are asked for
    pictures    `Analysis` + the report -> what a page draws; `Side` + the report where there is one capture

`infer_other`: one capture with its segments -> `Correlation`, whose other side is inferred (`nfslat.peer`); then
`analyse` and `report` as of two

Where that cannot be, one capture by itself goes through `inspect` (decode, directions, select) and `report_one_side`
(missing, in flight, figures). A stage takes what it needs as arguments and keeps nothing; each command calls the entry
points that it needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from msgspec import structs

from nfslat.analyse import analyse, with_threads, within
from nfslat.answer import model
from nfslat.compare import compare, infer_other, side_of
from nfslat.decode.capture import UNBOUNDED, Source
from nfslat.decode.engine import Engine
from nfslat.decode.sides import Progress, decode, decode_up_to
from nfslat.kernels.at_once import at_once
from nfslat.model.units import to_ms
from nfslat.results import Analysis, Correlation, Side
from nfslat.select import Filters, refuse_nothing_left, select

if TYPE_CHECKING:
    from nfslat.evidence.known import Known
    from nfslat.figures.whatif import Asked
    from nfslat.model.thresholds import Threshold

__all__ = ["analyse", "compare", "correlate", "infer_other", "inspect", "report", "side_of", "with_threads", "within"]


def correlate(
    server: Source,
    client: Source,
    engine: Engine,
    *,
    filters: Filters,
    srt: str,
    may_swap: bool,
    progress: Progress,
    most_ops: int = UNBOUNDED,
) -> Correlation:
    """Two captures of the same traffic, compared.

    Raises ``InputError`` where a capture holds no NFS, or the two have no op in common, and `TooManyOpsError` where one
    has more than `most_ops` operations.
    """
    of_server, of_client = decode_up_to(most_ops, server, client, engine, progress, all_programs=filters.all_programs)
    found = compare(side_of(*of_server), side_of(*of_client), filters=filters, srt=srt, may_swap=may_swap)
    refuse_nothing_left(filters, found.server.reasons, found.client.reasons)
    return found


def inspect(source: Source, engine: Engine, *, filters: Filters, progress: Progress) -> Side:
    """One capture by itself. Raises ``InputError`` where it holds no NFS, or the filters leave nothing of it."""
    side = side_of(*decode(source, engine, progress, all_programs=filters.all_programs))
    reasons = select(side.ops, filters, side.ops.t0, side.decoded.first_ns)
    refuse_nothing_left(filters, reasons)
    return structs.replace(side, reasons=reasons)


def report(
    c: Analysis,
    tool: model.Tool,
    filters: Filters,
    known: Known,
    *,
    evidence: Sequence[str] = (),
    asked: Sequence[Asked] = (),
    slo: Sequence[Threshold] = (),
    sessions: int | None = None,
    borders: Sequence[int] | None = None,
    brief: bool = False,
) -> model.Report:
    """The report on two captures; `evidence` is what there is to say of evidence from outside, `borders` are where
    phases begin, if that is known already; `brief`: without rows that nothing is judged by.

    Raises what `nfslat.figures.whatif.what_if` does.
    """
    from nfslat.figures.audit.late import late_notes
    from nfslat.figures.audit.pair import pair_notes, remarks
    from nfslat.figures.called import called_of
    from nfslat.figures.findings import contradictions, findings_of_hangs, judge
    from nfslat.figures.inferred import inferred_of
    from nfslat.figures.inflight import inflight_of
    from nfslat.figures.matched import matched_ops, sums_by_operation
    from nfslat.figures.objectives import objectives_of
    from nfslat.figures.parts import pairs_of, phases_of
    from nfslat.figures.report import Said, Sums, report_of
    from nfslat.figures.stack import stack
    from nfslat.figures.ticks import objective_error_ms
    from nfslat.figures.whatif import in_effect, what_if
    from nfslat.findings.parts import lead_by_parts
    from nfslat.findings.verdict import unasked
    from nfslat.tally.captures import CaptureTally

    sides = c.measured
    inflight = inflight_of(c, brief=brief)
    with at_once(len(sides), len(c.client.ops)) as pool:
        definition = None if brief else tool.srt
        counted = {
            name: pool.submit(CaptureTally.of, side, c.missing_calls[name], name, definition)
            for name, side in sides.items()
        }
        by_op = pool.submit(sums_by_operation, c)
        remarked = () if brief else remarks(c, application_known=bool(known.app_ms))
        sums, layers = Sums.of(c, filters, brief=brief), stack(known, c)
        matched = matched_ops(c, brief=brief, sums=by_op.result())
        captures = {name: tally.result() for name, tally in counted.items()}
    transport = None if sums.transport is None else sums.transport.rows()
    waits, hidden = sums.unanswered.rows(), max(tally.share for tally in sums.unseen.values())
    answered_ms = float(to_ms(c.client_srt_ns.mean())) if len(c.matched) else 0.0
    hanging = findings_of_hangs(sums.hangs.rows(), waits, len(c.matched), answered_ms)
    off_ms = partial(objective_error_ms, c)
    objectives = objectives_of(by_op.result(), known, slo, hidden_share=hidden, unanswered=waits or (), off_ms=off_ms)
    judged = judge(c, known, matched, inflight, transport, hanging, objectives)
    causes, verdict, facts = (judged.causes, judged.verdict, judged.facts) if judged else ([], None, None)
    of_hosts, pairs = pairs_of(c, known, transport)
    phases = phases_of(c, known, borders)
    if judged is not None:
        whole = judged.whole(inflight)
        of_parts = lead_by_parts(pairs, whole, of_hosts=True)
        if of_parts is not None:
            phases = []  # of all pairs together: another mix of hosts is no other state of any
        causes, verdict = of_parts or lead_by_parts(phases, whole) or (causes, judged.verdict)
        verdict = unasked(verdict, judged.facts.measured)
    now = None if facts is None else in_effect(c, known, facts, causes, sessions=sessions)
    replays, unanswered = what_if(c, asked, now)
    said = Said(
        causes=causes,
        hanging=hanging,
        verdict=verdict,
        audit=pair_notes(c) if c.inferred is None else late_notes(c),
        notes=(unanswered, remarked, layers.notes, contradictions(known, inflight.server)),
        stack=layers.rows,
        phases=[phase.row for phase in phases],
        pairs=of_hosts,
    )
    return structs.replace(
        report_of(tool, filters, captures, sums, matched, inflight, said),
        called={} if brief else called_of(sides, filters),
        what_if=replays,
        evidence=list(evidence),
        inferred=inferred_of(c),
    )
