"""What changed between two TCP conversations, as dataclasses (``nfslat.tcpdiff/1``)."""

from __future__ import annotations

from typing import Annotated, ClassVar

from nfslat.answer.contract import Document, Must
from nfslat.diff.model import Change, Setting
from nfslat.model.record import Record

SCHEMA = "nfslat.tcpdiff/1"


class Conversation(Record):
    """What was compared of a run: its conversation with most packets."""

    name: str
    kind: Annotated[str, Must(enum=["capture", "report"])]
    a: str  # the two of B are in the order of A's
    b: str
    begin: str
    duration_s: float
    packets: int
    bytes: tuple[int, int]
    others: int  # conversations of the run that were not compared


class Figure(Record):
    """One figure of both runs."""

    name: str
    of: str  # the endpoint that sends, as A has it; empty: of both
    unit: str
    better: Annotated[str | None, Must(enum=["lower", "higher", None])]  # None: it is no measure of good and bad
    speaks: bool  # for or against a run; others explain
    change: Change


class SizeMode(Record):
    """A size of packets that comes often in either run."""

    of: str
    bytes: int
    share_a: float  # of the packets; 0: not among those that come often
    share_b: float
    what: str  # that explains it; empty where nothing does


class TransportVerdict(Record):
    """What B is, against A."""

    change: Annotated[str, Must(enum=["slower", "faster", "mixed", "none", "not relevant", "unknown"])]
    better: Annotated[str | None, Must(enum=["A", "B", None])]  # the better baseline
    text: str


class TransportDiff(Document):
    """What nfslat diff --json writes of TCP conversations. Durations are milliseconds, differences are B less A, None
    is not known."""

    made_by: ClassVar[str] = "nfslat diff --transport A B --json"

    schema: Annotated[str, Must(const=SCHEMA)]
    nfslat: str  # version
    a: Conversation
    b: Conversation
    verdict: TransportVerdict
    figures: list[Figure]
    sizes: list[SizeMode]
    settings: list[Setting]  # how the two were set up, and what was seen of it
    notes: list[str]
