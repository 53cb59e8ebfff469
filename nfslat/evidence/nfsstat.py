"""What nfsstat prints (Linux, Solaris) -> calls, calls that were sent again, and the share of each operation.

A table is a line of names and a line of as many numbers, with shares behind them or not, under a title. Linux:
nfs-utils utils/nfsstat/nfsstat.c (``print_numbers``, ``print_callstats``, and ``print_callstats_list`` of ``nfsstat
-l``); Solaris: its manual, nfsstat(1M). The counters go back to when the host started, or were set to 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nfslat.errors import InputError
from nfslat.evidence.records import Evidence

_TITLE = re.compile(
    r"(?:(Client|Server) (?:rpc|nfs|NFSv\d|packet|reply|io|read|file)\b.{0,40}|Version (\d): \(\d{1,19} calls\)"
    r"|NFSv(\d): \(\d{1,19} operations\)|Connection(?: oriented|less))\s*:?\s*$"
)
_SURE_LINE = re.compile(
    r"(?:(?:Client|Server) (?:rpc|nfs|NFSv[234])(?: stats| v[234](?: operations)?)?:|\s*nfs v[234] (?:client|serv))"
)
_LISTED_ROW = re.compile(r"\s{0,8}nfs v(\d) (client|server|servop)\s{1,16}([a-z][\w-]{1,24}):\s{1,16}(\d{1,19})\s*$")
_NAME = re.compile(r"[a-z][a-z0-9_/-]{1,24}")
_NUMBER = re.compile(r"(\d{1,19})(?:\s{1,12}\d{1,3}%)?(?=\s|$)")
_LONGEST_LINE = 400  # characters of a line that are looked at
_MOST_OPERATIONS = 3  # operations of a host
_LEAST_SHARE = 0.05  # of the operations
_MANY_AGAIN = 0.001  # of the calls
# Names of the kernel's client -> operations on the wire.
_ON_WIRE = {"open_noat": "OPEN", "open_noattr": "OPEN", "open_conf": "OPEN_CONFIRM", "open_dgrd": "OPEN_DOWNGRADE",
            "rel_lkowner": "RELEASE_LOCKOWNER", "statfs": "FSSTAT"}  # fmt: skip
_NAMES = {"open_noat": "OPEN_NOATTR"}
_NO_OPERATION = ("null", "compound")  # procedures that hold others, or nothing
# Of NFSv4 the server counts what stands around the main operation, too.
_AROUND = ("putfh", "putrootfh", "getfh", "savefh", "restorefh", "sequence", "getattr")
_AGAIN = ("retrans", "dupreqs")


@dataclass(frozen=True)
class Host:
    """The tables of one role of a host."""

    calls: int | None = None  # RPCs; None: not told
    again: int | None = None  # of these, sent again (client), or known from before (server)
    bad: int = 0  # refused by the RPC layer
    operations: Mapping[str, int] = field(default_factory=dict)  # by the host's name of it


@dataclass(frozen=True)
class Nfsstat:
    """By role: "client" and "server"."""

    hosts: Mapping[str, Host]


def belongs(line: str) -> bool:
    """Whether only nfsstat prints such a line."""
    return _SURE_LINE.match(line[:_LONGEST_LINE]) is not None


def evidence(lines: Iterable[str], _: str) -> Evidence:
    """What a host counted, as notes; raises ``InputError`` where there is no table."""
    return Evidence((), record=parse(lines))


def parse(lines: Iterable[str]) -> Nfsstat:
    """Read the tables, of several readings the last; raises ``InputError`` where there is none."""
    rpc: dict[str, dict[str, int]] = {}
    operations: dict[str, dict[str, int]] = {}
    role, version, in_rpc, names = "", "", False, list[str]()
    for line in lines:
        text = line[:_LONGEST_LINE].rstrip()
        if listed := _LISTED_ROW.match(text):
            role = "client" if listed[2] == "client" else "server"
            if listed[3] != "total":
                operations.setdefault(role, {})[f"{listed[1]} {listed[3]}"] = int(listed[4])
        elif title := _TITLE.match(text):
            role = title[1].lower() if title[1] else role
            number = re.search(r"v(\d)", text)
            version = title[2] or title[3] or (number[1] if number else version)
            in_rpc = " rpc" in text or text.startswith("Connection")
            names = []
        elif not role or not text.strip():
            names = []
        elif all(_NAME.fullmatch(word) for word in text.split()):
            names = text.split()
        elif names:
            numbers = [int(number) for number in _NUMBER.findall(text)]
            if len(numbers) == len(names):
                table = dict(zip(names, numbers, strict=True))
                if "%" in text:
                    operations.setdefault(role, {}).update({f"{version} {name}": n for name, n in table.items()})
                elif in_rpc:
                    _add_rpc(rpc.setdefault(role, {}), table)
            names = []
    hosts = {role: _host(role, rpc.get(role, {}), operations.get(role, {})) for role in ("client", "server")}
    kept = {role: host for role, host in hosts.items() if host.calls or host.operations}
    if not kept:
        raise InputError("no table of nfsstat can be read: give all that nfsstat -c or -s printed")
    return Nfsstat(kept)


def _add_rpc(known: dict[str, int], table: Mapping[str, int]) -> None:
    """Solaris prints a table of connections and one without: the one in use is the larger."""
    if table.get("calls", 0) >= known.get("calls", 0):
        known |= table


def _host(role: str, rpc: Mapping[str, int], operations: Mapping[str, int]) -> Host:
    sums: dict[str, int] = {}
    for key, count in operations.items():
        version, _, name = key.partition(" ")
        around = role == "server" and version == "4" and name in _AROUND
        if count and name not in _NO_OPERATION and not around:
            sums[name] = sums.get(name, 0) + count
    again = next((rpc[name] for name in _AGAIN if name in rpc), rpc.get("timeouts"))
    return Host(rpc.get("calls"), again, rpc.get("badcalls", 0), sums)


def beside(counted: Nfsstat, share_of: Mapping[str, float], resent: int | None) -> tuple[list[str], list[str]]:
    """What a host counts, beside the captures; and why that is of no use for them.

    `share_of` is the share of each operation among those of the captures, `resent` how many of their calls were sent
    again (None: not known).
    """
    notes: list[str] = []
    unused: list[str] = []
    for role, host in counted.hosts.items():
        if host.calls:
            notes += _calls(role, host, resent)
        total = sum(host.operations.values())
        rows = sorted(host.operations.items(), key=lambda row: -row[1])
        most = [(name, count / total) for name, count in rows if count >= _LEAST_SHARE * total][:_MOST_OPERATIONS]
        if not most:
            continue
        shown = ", ".join(f"{share:.1%} {_NAMES.get(name, name.upper())}" for name, share in most)
        here = ", ".join(f"{share_of.get(_on_wire(name), 0.0):.1%}" for name, _ in most)
        notes.append(f"the {role} counts {shown} since its counters began; in the captures that is {here}")
        if not any(share_of.get(_on_wire(name)) for name, _ in most):
            unused.append(f"the operations that the {role} counts most ({shown}) are not in the captures, which are "
                          "of another load than most of what it counts")  # fmt: skip
    return notes, unused


def _calls(role: str, host: Host, resent: int | None) -> list[str]:
    calls = host.calls or 0
    text = f"the {role} counts {calls:,} calls since its counters began"
    if host.again is not None:
        share = host.again / calls
        what = "sent again" if role == "client" else "known from before (sent again by a client)"
        text += f", {host.again:,} of them {what} ({share:.{2 if share < _MANY_AGAIN else 1}%})"
        if host.again and resent is not None:
            here = "none" if not resent else f"{resent:,}"
            text += f"; in the captures {here} {'was' if resent < 2 else 'were'}"
    if host.bad:
        text += f"; {host.bad:,} were refused or failed in the RPC layer (badcalls)"
    return [text]


def _on_wire(name: str) -> str:
    return _ON_WIRE.get(name, name.upper())
