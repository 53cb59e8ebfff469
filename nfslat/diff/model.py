"""What changed -> the answer of `nfslat diff` as dataclasses, for text and JSON (``nfslat.diff/1``, diff/schema.json).

Durations are float ms, differences are B less A, None is "not known".
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from nfslat.answer.contract import Document, Layer, Must
from nfslat.model.record import Record

SCHEMA = "nfslat.diff/1"
RowVerdict = Annotated[
    str,
    Must(
        enum=[
            "slower", "faster", "no evidence", "not relevant", "load", "too few ops", "only in A", "only in B"
        ]
    ),
]  # fmt: skip


class Change(Record):
    """Of one figure. An interval is of 95 % confidence for this figure alone; None where nothing gives one."""

    a: float
    b: float
    difference: float
    low: float | None
    high: float | None
    p: float | None  # of no difference, as it is after all comparisons that were made (Holm)
    steady: bool  # it is more than the two runs drift by themselves
    certain: bool  # p is below 1 %, and it is steady
    relevant: bool  # it is 2 % or more, and 50 us or more where it is a duration


class Part(Record):
    """Of the response time on the client's wire; rows of depth 0 sum to it."""

    name: str
    layer: Layer  # as the verdict of a report counts them
    depth: int  # 1: a part of the row of depth 0 above it
    change: Change


class Row(Record):
    """One operation, of one size class where both runs show sizes."""

    op: str
    size: str | None  # "8 KB": more than 4 and up to 8; None where sizes are not compared
    size_bytes: int | None  # upper bound of the class
    count_a: int
    count_b: int
    mean: Change | None  # None where it is in one run only
    p50: Change | None
    p99: Change | None  # None where the slowest ops are too few
    server: Change | None  # server SRT
    network: Change | None  # client SRT less server SRT
    same_in_flight: Change | None  # of ops that met as many others in flight; weighted, so a and b are not the means
    in_flight_share: float | None  # share of the ops of both runs that could be so compared
    parts: list[Part]
    verdict: RowVerdict


class Mix(Record):
    """Difference of the means of all ops = within + mix, exactly."""

    raw: Change
    within_ms: float  # by ops of the same kind that take longer or shorter, at the mean of the two shares
    mix_ms: float  # by other shares of the kinds
    same_mix: Change | None  # of the kinds that both have, at the mean of their shares
    covered_a: float  # share of the ops of A whose kind B has, too
    covered_b: float


class Load(Record):
    """What was asked of the system."""

    ops_per_s: Change | None
    # mean that a call meets at the client, itself included; of reports the mean over busy time
    in_flight: Change | None
    shared: float  # share of the load that is the same: 1 where the shares of all kinds are the same
    differs: list[str]  # how it is another load, in words; empty where it is the same


class FindingChange(Record):
    """A finding of the two reports."""

    code: str
    layer: str
    change: Annotated[str, Must(enum=["new", "gone", "both"])]
    share_a: float | None  # of its run's mean
    share_b: float | None
    ms_a: float | None
    ms_b: float | None
    confidence: str
    text: str  # as B has it, of what is gone as A had it


class Setting(Record):
    """Something that the reports say of the systems or of how they were captured."""

    name: str
    a: str
    b: str


class Check(Record):
    """One threshold of --check. It is crossed, too, where it cannot be decided."""

    text: str
    a: float | None  # ms
    b: float | None
    difference: float | None
    limit_ms: float | None
    result: Annotated[str, Must(enum=["passed", "crossed", "undecided"])]
    reason: str


class RunInfo(Record):
    """Where the figures of a run come from."""

    name: str
    kind: Annotated[str, Must(enum=["captures", "csv", "report"])]
    ops: int
    mean_ms: float
    verdict: str | None  # of its report


class Verdict(Record):
    """What B is, against A."""

    change: Annotated[str, Must(enum=["slower", "faster", "mixed", "none", "not relevant", "load", "unknown"])]
    layer: str | None  # that adds, or spares, most of it
    cause: str | None  # code of the finding that moved with it
    text: str


class Diff(Document):
    """What nfslat diff --json writes. Durations are milliseconds, differences are B less A, None is not known."""

    made_by: ClassVar[str] = "nfslat diff A B --json"

    schema: Annotated[str, Must(const=SCHEMA)]
    nfslat: str  # version
    a: RunInfo
    b: RunInfo
    # slices, or summaries where one run is a report without single ops
    method: Annotated[str, Must(enum=["slices", "summaries"])]
    verdict: Verdict
    load: Load
    mix: Mix
    rows: list[Row]
    layers: list[Part]  # the parts of each added up, at the same mix
    parts: list[Part]  # means over the ops of the same kinds, at the same mix
    # what only one of the runs has, and of a pair that was split where else its response times change, in words
    events: list[str]
    # what TCP and the path made of it, at the same mix; they overlap with parts, not with each other
    causes: list[Part]
    findings: list[FindingChange]
    settings: list[Setting]
    transport: list[Setting]  # lost and repeated segments, clock steps
    stack: list[Setting]  # what the reports say of the layers above and below the wire, ms
    checks: list[Check] = []
    notes: list[str] = []
