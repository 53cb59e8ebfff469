"""What `nfslat tune` found, for its renderers: changes in order, remarks, and a row for each setting."""

from __future__ import annotations

from nfslat.answer.advice import Advice
from nfslat.model.record import Record

SCHEMA = "nfslat.tune/1"


class HostLine(Record):
    """One host; two snapshots of it are one host, and its counters are those of the time between them."""

    name: str
    roles: str  # "client", "server", "client and server"; "" where there is neither mount nor NFS server
    system: str  # "Linux 6.1.176, debian 12"
    taken: str  # ISO 8601, of the later snapshot; "" where it is not told
    interval: bool  # two snapshots: counters are of the time between them


class Change(Record):
    """Something to set on `host`. `measured`: counters of that host show that somebody waits for it."""

    host: str
    measured: bool
    why: tuple[str, ...]
    advice: Advice
    weight: float  # larger is more urgent; the share of the time that is lost where that is measured


class Remark(Record):
    """Something to know that needs no command, or not yet; `sources` as in `Advice`."""

    host: str
    text: str
    sources: tuple[str, ...]


class Row(Record):
    """A setting: all texts; "" is "not known" or "none"."""

    host: str
    setting: str
    value: str  # in effect
    default: str
    limit: str
    source: str  # who says what is in effect
    configured: str = ""  # what a configuration file has, where it is something else: "128 in /etc/nfs.conf:12"
    note: str = ""  # what the default depends on


class Tuning(Record):
    """The answer. `changes` are the most urgent first; `warnings` are what could not be read of a snapshot."""

    hosts: tuple[HostLine, ...]
    changes: tuple[Change, ...]
    remarks: tuple[Remark, ...]
    rows: tuple[Row, ...]
    warnings: tuple[str, ...]
