"""Parts, loads and limits in words."""

from __future__ import annotations

from nfslat.report.text_layout import count_of

_FEW = 5  # of which tenths matter
WHAT = {
    "above": "above the client's wire",
    "network": "network",
    "queue": "wait for a thread",
    "beyond": "in a thread, beyond the storage",
    "in_thread": "in a thread",
}
_TOPS = {"application": "the application's latency", "client": "the response time at the client"}
_BOTTOMS = {
    "storage": "the storage's latency",
    "in_thread": "the time in a server thread",
    "server": "the response time at the server",
}


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
        return (
            "The wait for a server thread"
            if number is None
            else (f"The wait for one of the server's {count_of(number, 'thread')}")
        )
    if part == "above":
        return (
            "Time above the client's wire"
            if number is None
            else (f"The wait for one of the client's {count_of(number, 'slot')}")
        )
    return {"network": "The network", "beyond": "The server beyond its storage (file system, locks)"}[part]
