"""What happened on the way -> the notes of the report, its rows of clients that are not compared, and of captures."""

from __future__ import annotations

from collections.abc import Sequence

from nfslat.fleet import model
from nfslat.fleet.run.capture import CaptureFacts
from nfslat.model.units import iso

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
    alone = "" if state == "failed" else problem.why
    return model.Client(name=name, addresses=[], state=state, source="none", why=problem.why, why_not_inferred=alone)


def captures_of(
    server: CaptureFacts | None, clients: Sequence[CaptureFacts], total: model.OpRow | None
) -> model.Captures:
    """`total`: the ops of which there are times of both sides."""
    every = [*([server] if server is not None else []), *clients]
    at = every if server is None else [server]  # whose clock it is
    return model.Captures(
        files=sum(one.files for one in every),
        bytes=sum(one.bytes for one in every),
        packets=sum(one.packets for one in every),
        server_ops=0 if server is None else server.ops,
        client_ops=sum(one.ops for one in clients),
        matched_ops=0 if total is None else total.count - total.inferred,
        inferred_ops=0 if total is None else total.inferred,
        begin=iso(min(one.first_ns for one in at)),
        end=iso(max(one.last_ns for one in at)),
    )
