"""A layer, a cause and shares -> a verdict as the report has it, for reports that are made by hand."""

from __future__ import annotations

from collections.abc import Sequence

from nfslat.answer.model import Verdict


def blames(
    layer: str,
    cause: str | None,
    share: float | None,
    share_slowest: float | None,
    confidence: str,
    text: str,
    proof: Sequence[str] = (),
    reasons: Sequence[str] = (),
) -> Verdict:
    """A fault of `layer` where there is a cause, else none; the layer is the largest, and `share` its."""
    return Verdict(
        outcome="no-fault" if cause is None else "fault",
        layer=None if cause is None else layer,
        cause=cause,
        also=[],
        share=share,
        share_slowest=share_slowest,
        confidence=confidence,
        text=text,
        next=None,
        largest_layer=layer,
        largest_share=share,
        largest_share_slowest=share_slowest,
        objectives=[],
        proof=list(proof),
        reasons=list(reasons),
    )
