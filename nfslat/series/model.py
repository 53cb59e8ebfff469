"""What a series of runs shows -> the answer of `nfslat series` as dataclasses, for text, page and JSON
(``nfslat.series/1``, series/schema.json).

Durations are float ms, None is "not known".
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from nfslat.answer.contract import Count, Document, HowSure, Must, Positive
from nfslat.model.record import Record

SCHEMA = "nfslat.series/1"
PARTS = ["above", "network", "queue", "beyond", "in_thread"]  # from the application down to the storage
PartName = Annotated[str, Must(enum=PARTS)]
Outcome = Annotated[str, Must(enum=["from-load", "throughout", "storage", "none", "falls", "cannot-tell", "no-loads"])]


class Point(Record):
    """One run. Means are over READ and WRITE where it has some, else over all ops."""

    name: str
    kind: Annotated[str, Must(enum=["captures", "csv", "report"])]
    load: float | None  # None: none was given
    ops: Count  # that the means are over
    ops_per_s: float | None  # of the time with any op in flight
    in_flight: float | None  # mean at the client, over that time
    application_ms: float | None  # as it was given, or as the report has it
    client_ms: float  # client SRT
    network_ms: float  # client SRT less server SRT
    server_ms: float  # server SRT
    queue_ms: float | None  # of it, the wait for a thread
    storage_ms: float | None  # as it was given, or as the report has it
    # the time from the application, or else from the client's wire, down to the storage, or else to a thread
    disparity_ms: float
    disparity_error_ms: float | None  # standard error of that; None: from a report, which has no single ops
    threads: Positive | None  # of the server, where calls wait for one
    slots: Positive | None  # of the client, where they hold its calls
    cause: str | None  # code of the finding that its verdict names


class Growth(Record):
    """What a part adds from the loads before the growth to the highest one."""

    part: PartName
    before_ms: float
    after_ms: float
    share: float | None  # of the growth of the disparity; None for what is not in it


class Fit(Record):
    """How well a shape goes with the disparity: a level, a line, or both with a sharp or a soft bend between."""

    shape: Annotated[str, Must(enum=["level", "line", "bend", "soft"])]
    parameters: Count
    chi2: float | None  # squared distances in standard errors; None where errors are not known
    degrees: Count  # of freedom
    p: float | None  # that chance alone makes it fit so badly
    from_load: float | None  # of the bend
    per_load_ms: float | None  # slope, behind the bend


class Verdict(Record):
    """The load from which the latency grows away from the storage's, and what makes it."""

    outcome: Outcome
    confidence: HowSure
    from_load: float | None  # best estimate
    from_low: float | None  # 95 % interval, or the runs between which it lies
    from_high: float | None
    per_load_ms: float | None  # growth behind it
    part: PartName | None  # that makes most of the growth
    cause: str | None  # code of the finding that grew with it
    limit: Positive | None  # threads, or slots
    limit_load: float | None  # at which so many calls are in flight, interpolated between runs
    next: str | None  # what to measure
    text: str


class Step(Record):
    """A run against the one before it, as `nfslat diff` compares them; for runs without loads."""

    a: str
    b: str
    change: str
    layer: str | None
    cause: str | None
    text: str


class Series(Document):
    """What nfslat series --json writes."""

    made_by: ClassVar[str] = "nfslat series RUN... --json"

    schema: Annotated[str, Must(const=SCHEMA)]
    nfslat: str  # version
    engine: str  # what decoded the captures, as the runs' reports say
    command: str  # the command line
    unit: str  # of the loads: "users"
    top: Annotated[str, Must(enum=["application", "client"])]  # where the disparity begins
    bottom: Annotated[str, Must(enum=["storage", "in_thread", "server"])]  # where it ends
    verdict: Verdict
    points: list[Point]  # by load, or in the order in which they were given
    growth: list[Growth]
    fits: list[Fit]
    steps: list[Step] = []
    notes: list[str] = []
