"""What a finding says, with evidence and advice as typed fields -> a finding of the report, whose JSON holds both."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Self

from msgspec import structs

from nfslat.answer.advice import Advice
from nfslat.answer.model import Finding
from nfslat.findings.catalogue import row
from nfslat.findings.facts import MATTERS
from nfslat.findings.layers import Layers
from nfslat.findings.words import lowered
from nfslat.model.record import Record


class Evidence(Record, kw_only=True):
    """The figures that a finding rests on; a class of its own for each kind, in the order that the JSON has.

    What may be None by default is not in the JSON where it is; of evidence in evidence, the fields stand there.
    A finding that knows its share of the slowest 1 % has a field ``share_slowest``, which `diagnosis` fills.
    """

    # Its time is on record, whatever ops that are not shown waited for.
    is_recorded: ClassVar[bool] = False

    def as_dict(self) -> dict[str, Any]:
        """As the report has it."""
        out: dict[str, Any] = {}
        for name, value in structs.asdict(self).items():
            if isinstance(value, Evidence):
                out |= value.as_dict()
            elif value is not None or name not in self.where_known():
                out[name] = list(value) if isinstance(value, tuple) else value
        return out

    @classmethod
    def where_known(cls) -> list[str]:
        """Names of what may be left out of the JSON."""
        defaults = cls.__struct_defaults__
        fields = cls.__struct_fields__[len(cls.__struct_fields__) - len(defaults) :]
        return [name for name, default in zip(fields, defaults, strict=True) if default is None]

    @classmethod
    def read(cls, found: Finding) -> Self:
        """Of a finding of the report. Raises ``TypeError`` where it has other fields; none of them may be inlined."""
        return cls(**found.evidence)

    @property
    def of_part(self) -> Self:
        """The same beside figures of more ops, of whose slowest 1 % it knows nothing."""
        if "share_slowest" not in self.__struct_fields__:
            return self
        return structs.replace(self, share_slowest=None)

    @property
    def may_be_more(self) -> bool:
        """Is there time above the wire of which no share can be said?"""
        return False

    def is_at_work(self, share: float | None, mean: Layers) -> bool:
        """Was a limit reached, or a host or a connection gone, for so long that what waits above the wire matters?
        `share` is what is known of what that costs."""
        return False

    def losses(self, ops: int) -> float:
        """In how many of `ops` a reply that is lost whole would look like this in the client's capture; infinite where
        none does."""
        return float("inf")


class LookAt(Record, kw_only=True):
    """Advice where there is no value to set: what to look at, and how."""

    knob: str = ""  # "": that of its row in the catalogue
    how: tuple[str, ...]
    takes_effect: str = ""
    verify: str = ""
    risk: str = ""
    sources: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """As the report has it: without what is not said."""
        said = structs.asdict(self)
        return {name: list(value) if isinstance(value, tuple) else value for name, value in said.items() if value}


class Gain(NamedTuple):
    """What mending it would give."""

    ms: float  # by how much the mean would be shorter
    by: str  # "replay" of the load, or "bound": what it explains, so that it cannot be more
    words: str = ""  # of a replay, as a sentence without its full stop


class Diagnosis(Record):
    """A finding while it is reasoned on; `code` is a row of the catalogue."""

    code: str
    layer: str
    severity: str  # "warning", or "info" where it explains less than 10 % of the mean and of the slowest ops
    share: float | None  # of the mean; None: not known
    slowest: float | None  # of the slowest 1 %
    confidence: str  # "certain" or "likely"
    text: str
    evidence: Evidence
    advice: Advice | LookAt | None
    gain: Gain | None = None

    @property
    def headline(self) -> str:
        """What a verdict says of it, as a sentence without its full stop."""
        return row(self.code).said_of(self.evidence, self.layer)

    def as_finding(self) -> Finding:
        """As the report has it."""
        advice = {} if self.advice is None else self.advice.as_dict()
        return Finding(
            self.code,
            self.layer,
            self.severity,
            self.share,
            self.confidence,
            self.text if self.gain is None or not self.gain.words else f"{self.text}; {lowered(self.gain.words)}",
            self.evidence.as_dict(),
            advice,
            gain_ms=None if self.gain is None else self.gain.ms,
            gain_by=None if self.gain is None else self.gain.by,
        )


def diagnosis(
    code: str,
    layer: str,
    text: str,
    *,
    share: float | None,
    slowest: float | None = None,
    confidence: str,
    evidence: Evidence,
    advice: Advice | LookAt | None = None,
) -> Diagnosis:
    """One with its severity."""
    known = [one for one in (share, slowest) if one is not None]
    severity = "warning" if not known or max(known) >= MATTERS else "info"
    if isinstance(advice, LookAt) and not advice.knob:
        advice = structs.replace(advice, knob=row(code).knob)
    if slowest is not None:
        evidence = structs.replace(evidence, share_slowest=slowest)
    return Diagnosis(code, layer, severity, share, slowest, confidence, text, evidence, advice)
