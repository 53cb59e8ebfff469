"""What happened on the way -> the notes of the report, and the rows of clients that are not compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nfslat.fleet import model

_NAMED = 3


def warned(clients: Sequence[model.Client]) -> list[str]:
    """Whose captures have faults."""
    names = [one.name for one in clients if one.audit]
    if not names:
        return []
    shown = ", ".join(names[:_NAMED]) + (f" and {len(names) - _NAMED} more" if len(names) > _NAMED else "")
    return [f"the captures of {shown} have faults that their own reports tell (JSON: clients[].audit)"]


def lost(workers: Sequence[str], again: int) -> list[str]:
    """Workers that are gone, and how many of their tasks were done `again`."""
    if not workers:
        return []
    return [
        f"{len(workers)} worker{'s were' if len(workers) > 1 else ' was'} lost "
        f"({', '.join(sorted(set(workers)))}); {again or 'none'} of their tasks had to be done again"
    ]


def not_compared(name: str, problem: model.Problem, state: str) -> model.Client:
    """A client of which nothing is known but why."""
    nothing: dict[str, Any] = dict.fromkeys(
        "client_ms server_ms network_ms queue_ms application_ms excess verdict clock round_trip_ms lost_segments "
        "sent_again_share slots report set_apart inferred".split()
    )
    return model.Client(
        name=name, addresses=[], state=state, source="none", groups={}, ops=0, missed=0, findings=[],
        slots_held="cannot tell", in_flight_max=0, audit=[], outlier=False, why=problem.why, windows=[], command="",
        why_not_inferred="" if state == "failed" else problem.why, **nothing,
    )  # fmt: skip
