"""What to change: one setting, as findings and `nfslat tune` advise it."""

from __future__ import annotations

from typing import Any, cast

from nfslat.model.record import Record


class Advice(Record):
    """One setting to change. Texts are one line each and need no other context; `sources` begin with the fact's id."""

    knob: str  # the setting as the system names it, or what to look at
    value: str  # in effect; "not known"
    suggested: str  # the value to set
    how: tuple[str, ...]  # with `suggested`, commands for root, # begins a remark; else where to look
    takes_effect: str  # when it acts
    verify: str  # how to check it
    risk: str  # what may go wrong
    sources: tuple[str, ...]  # "fact id: where it is written"; the ids are rows of docs/tuning.md

    def as_dict(self) -> dict[str, Any]:
        """For the JSON report: names as above, lists for tuples."""
        from nfslat.answer.json import plain  # noqa: PLC0415  (as in contract.Document)

        return cast(dict[str, Any], plain(self))
