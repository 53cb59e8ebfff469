"""Parts, loads and limits in words."""

from __future__ import annotations

from typing import NamedTuple

from nfslat.report.text_layout import count_of

_FEW = 5  # of which tenths matter


class Part(NamedTuple):
    """A part of the latency in words; `mark` is a character that tells it from the others without colours."""

    words: str
    layer: str
    mark: str
    head: str  # of its column


# From the application down to the storage.
PARTS = {
    "above": Part("above the client's wire", "client", "a", "above\nwire"),
    "network": Part("network", "network", "n", "network"),
    "queue": Part("wait for a thread", "server", "w", "wait for\nthread"),
    "beyond": Part("in a thread, beyond the storage", "server", "b", "beyond\nstorage"),
    "in_thread": Part("in a thread", "server", "#", "in a\nthread"),
}
# What the last part is where that is no thread.
_LAST = {"storage": Part("storage", "server", "#", "storage"), "server": Part("at the server", "server", "#", "server")}
_TOPS = {"application": "the application's latency", "client": "the response time at the client"}
_BOTTOMS = {
    "storage": "the storage's latency",
    "in_thread": "the time in a server thread",
    "server": "the response time at the server",
}


def parts_down_to(bottom: str) -> dict[str, Part]:
    """By their names, as the reader of a series that ends there calls them."""
    return {**PARTS, "in_thread": _LAST.get(bottom, PARTS["in_thread"])}


def amount(load: float) -> str:
    """``16``, ``1,000``, ``2.5``: of more than a few the next whole number."""
    return f"{load:,.0f}" if load >= _FEW or float(load).is_integer() else f"{load:,.2g}"


def of_loads(load: float, unit: str) -> str:
    """``16 users``; ``a load of 16`` where nothing says what it counts."""
    if unit == "load":
        return f"a load of {amount(load)}"
    return f"{amount(load)} {unit.removesuffix('s') if load == 1 else unit}"


def between(top: str) -> str:
    """What a disparity begins with."""
    return _TOPS[top]


def below(bottom: str) -> str:
    """What it ends at."""
    return _BOTTOMS[bottom]


def limited(part: str, number: int | None) -> str:
    """What makes the growth, as the begin of a sentence."""
    if part == "queue":
        of = f"one of the server's {count_of(number, 'thread')}" if number is not None else "a server thread"
        return f"The wait for {of}"
    if part == "above":
        slot = f"The wait for one of the client's {count_of(number, 'slot')}" if number is not None else ""
        return slot or "Time above the client's wire"
    return {"network": "The network", "beyond": "The server beyond its storage (file system, locks)"}[part]
