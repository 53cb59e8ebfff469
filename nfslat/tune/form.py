"""The form that every advice has, and the words and numbers that several of them share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from nfslat.tune.knobs import FACTS

PER_CONNECTION = 128  # fact connection-cap
MORE_LOAD = "the server and its storage get more requests at once"
REMOUNT = "for new connections only: unmount every mount of that server first, then mount again"


@dataclass(frozen=True)
class Advice:
    """One setting to change. Texts are one line each and need no other context; `sources` begin with the fact's id."""

    knob: str  # as the system names it
    value: str  # in effect; "not known"
    suggested: str
    how: tuple[str, ...]  # commands for root; a line that begins with # is a remark
    takes_effect: str
    verify: str
    risk: str
    sources: tuple[str, ...]  # "fact id: where it is written"; the ids are rows of docs/tuning.md

    def as_dict(self) -> dict[str, Any]:
        """For the JSON report: names as above, lists for tuples."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def sources(*ids: str) -> tuple[str, ...]:
    """The facts' ids with where they are written. Raises ``KeyError`` for a fact that there is not."""
    return tuple(f"{name}: {FACTS[name].source}" for name in ids)


def with_headroom(needed: int) -> int:
    """Half as much again as `needed`, rounded up to a power of two (fact ``little``)."""
    return 1 << max((needed * 3 + 1) // 2 - 1, 0).bit_length()


def linux_slots(knob: str, suggested: int) -> tuple[str, ...]:
    """The commands that set a sunrpc slot setting of a Linux client, now and after the next boot."""
    return (
        f"sysctl -w {knob}={suggested}",
        f"echo options {knob.replace('.', ' ')}={suggested} >>/etc/modprobe.d/sunrpc.conf",
        "# sysctl.d alone does not do: it is read before sunrpc is loaded",
    )


def told(value: int | None) -> str:
    """A number, or that it is not known."""
    return "not known" if value is None else str(value)


def count_of(number: int, noun: str) -> str:
    """``1 call``, ``16 calls``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"
