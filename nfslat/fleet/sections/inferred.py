"""Clients of which there is one capture -> words on what is inferred of them, which text and page have in common."""

from __future__ import annotations

from collections.abc import Sequence

from nfslat.answer.words import ms
from nfslat.fleet.model import Client, Fleet
from nfslat.fleet.sections.words import compared
from nfslat.report.text_layout import count, count_of, shorten

_WHOSE = {"client": "the clients'", "server": "the server's"}


def error(client: Client) -> str:
    """How far the mean of what is inferred may be off, ms; ``-`` where all is measured."""
    return "-" if client.inferred is None else ms(client.inferred.mean_error_ms, 2)


def inferred_line(fleet: Fleet) -> str:
    """Of whom there is one capture, and how good what is inferred of the other host is; "" where all is measured."""
    found = [one.inferred for one in compared(fleet.clients) if one.inferred is not None]
    if not found:
        return ""
    errors = sorted(one.mean_error_ms for one in found)
    low, high = ms(errors[0]), ms(errors[-1])
    sides = {one.side for one in found}
    whose = _WHOSE[sides.pop()] if len(sides) == 1 else "the other host's"
    of = count_of(len(fleet.clients), "client")
    who = of if len(found) == len(fleet.clients) else f"{count(len(found))} of {of}"
    return (
        f"For {who} there is one capture each, not two: {whose} times are inferred from TCP time stamps, means to +/- "
        f"{low if low == high else f'{low} to {high}'} ms."
    )


def why_not_inferred(clients: Sequence[Client]) -> str:
    """Why, of the first of them; "" where nothing was tried."""
    first = next((one for one in clients if one.why_not_inferred), None)
    return "" if first is None else f"{shorten(first.name, 40)}: {first.why_not_inferred}"
