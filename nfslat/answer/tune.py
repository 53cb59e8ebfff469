"""What `nfslat tune` found, for its renderers: changes in order, remarks, and a row for each setting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

SCHEMA = "nfslat.tune/1"


@dataclass(frozen=True)
class Advice:
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


@dataclass(frozen=True)
class HostLine:
    """One host; two snapshots of it are one host, and its counters are those of the time between them."""

    name: str
    roles: str  # "client", "server", "client and server"; "" where there is neither mount nor NFS server
    system: str  # "Linux 6.1.176, debian 12"
    taken: str  # ISO 8601, of the later snapshot; "" where it is not told
    interval: bool  # two snapshots: counters are of the time between them


@dataclass(frozen=True)
class Change:
    """Something to set on `host`. `measured`: counters of that host show that somebody waits for it."""

    host: str
    measured: bool
    why: tuple[str, ...]
    advice: Advice
    weight: float  # larger is more urgent; the share of the time that is lost where that is measured


@dataclass(frozen=True)
class Remark:
    """Something to know that needs no command, or not yet; `sources` as in `Advice`."""

    host: str
    text: str
    sources: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """A setting: all texts; "" is "not known" or "none"."""

    host: str
    setting: str
    value: str  # in effect
    default: str
    limit: str
    source: str  # who says what is in effect
    configured: str = ""  # what a configuration file has, where it is something else: "128 in /etc/nfs.conf:12"
    note: str = ""  # what the default depends on


@dataclass(frozen=True)
class Tuning:
    """The answer. `changes` are the most urgent first; `warnings` are what could not be read of a snapshot."""

    hosts: tuple[HostLine, ...]
    changes: tuple[Change, ...]
    remarks: tuple[Remark, ...]
    rows: tuple[Row, ...]
    warnings: tuple[str, ...]
