"""Facts -> a finding on calls that their client sends again while the server still works on them (timeo)."""

from __future__ import annotations

from typing import ClassVar

from nfslat.findings.diagnosis import Diagnosis, Evidence, LookAt, diagnosis
from nfslat.findings.facts import Facts
from nfslat.findings.layers import Layers
from nfslat.findings.words import percent, span, times

CODE = "rpc-timeout"
_LEADING_SHARE = 0.2  # of the operations
_LEAST_OPS, _LEAST_SHARE = 5, 0.01
_USUAL_MS = 10_000.0  # whoever waits for that long has a timeout as it should be (nfs(5): 60 s by TCP)


class SentAgain(Evidence, frozen=True, kw_only=True):
    """What the finding rpc-timeout rests on."""

    is_recorded: ClassVar[bool] = True
    ops: int  # whose call was sent again while its connection stood
    ops_share: float
    after_ms: float  # median, from the first transmission to the second
    answered_twice: int  # of these operations: the server worked on them twice
    by: str  # tcp or udp

    @property
    def again(self) -> str:
        """What a verdict says of it."""
        twice = f", and the server works on {self.answered_twice:,} of them twice" if self.answered_twice else ""
        return (
            f"The client sends {percent(self.ops_share)} of its calls again after {span(self.after_ms)} without an "
            f"answer{twice}"
        )

    def is_at_work(self, share: float | None, mean: Layers) -> bool:
        """It is so of many operations."""
        return self.ops_share >= _LEADING_SHARE


def resent_findings(f: Facts) -> list[Diagnosis]:
    """At most one finding: a timer that is shorter than the server takes."""
    again = f.sent_again
    if again is None or again.ops < _LEAST_OPS or again.ops < _LEAST_SHARE * f.ops or again.after_ms >= _USUAL_MS:
        return []
    timeo = round(again.after_ms / 100)
    evidence = SentAgain(
        ops=again.ops,
        ops_share=again.ops / max(f.ops, 1),
        after_ms=again.after_ms,
        answered_twice=again.answered_twice,
        by=again.by,
    )
    twice = f"; {times(again.answered_twice, 'op')} were answered twice" if again.answered_twice else ""
    text = (
        f"{times(again.ops, 'call')} of {times(f.ops, 'op')} went out again on the same connection, each "
        f"{span(again.after_ms)} after it was sent first: that is timeo={timeo}, which is less than the server "
        f"takes{twice}. Each is work for the server once more; its response times are real"
    )
    return [diagnosis(CODE, "client", text, share=None, confidence="certain", evidence=evidence, advice=_ADVICE)]


_ADVICE = LookAt(
    how=(
        "grep -o 'timeo=[0-9]*,retrans=[0-9]*' /proc/mounts # on the client: tenths of a second",
        "# mount with timeo=600,retrans=2 (what TCP has without the option), or leave the option out",
    ),
    takes_effect="at the next mount",
    verify="nfsstat -rc: retrans does not grow",
    sources=("nfs(5): timeo, retrans",),
)
