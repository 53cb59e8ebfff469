"""What ``nfsdctl status`` prints, or ynl's dump of rpc-status-get -> who holds the threads of a Linux NFS server.

The kernel (6.8 and later) lists the calls that its threads work on: XID, flags, program, procedure, version, when the
thread got the call (us of a clock that begins with the boot), addresses, ports, and the operations of a COMPOUND
(Documentation/netlink/specs/nfsd.yaml, fs/nfsd/nfsctl.c). nfsdctl (nfs-utils) prints a line for each; the XID as the
host's processor reads it, so that its bytes are turned on x86, and no IPv6 addresses. ynl prints Python or JSON. Lines
of ``date +%s.%N`` between dumps say when they were made.

Read from these sources; no output of a server was at hand.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from nfslat.errors import InputError
from nfslat.evidence.kinds import NFSDCTL
from nfslat.evidence.records import Evidence
from nfslat.model.protocol import NFS, main_op, op_name
from nfslat.model.record import Record
from nfslat.results import Analysis
from nfslat.select import op_labels

_LONGEST, _MOST = 4096, 500_000
_LINE = re.compile(NFSDCTL)
_INSTANT = re.compile(r"(\d{9,11}\.\d{1,9})\s*$")
_PAIR = re.compile(r"""['"]([\w-]{1,40})['"]: ?(?:(-?\d{1,19})|['"]([\w.:]{1,60})['"]|\[([^\]]{0,600})\])""")
_ADDRESS = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}$")
_V4 = {op_name(NFS, 4, number): number for number in range(3, 76)}
_FEW = 4


class Held(Record):
    """A call that a thread works on."""

    xid: int  # as it was printed
    op: str
    client: str  # address; "": not printed
    port: int | None


class Dump(Record):
    """All of them at one instant."""

    at_s: float | None  # since 1970; None: not told
    calls: tuple[Held, ...]


def read(lines: Iterable[str], _: str) -> Evidence:
    """Who holds threads, in dumps in their order; raises ``InputError`` where nobody can be read.

    Without instants a call that is listed once more begins the next dump.
    """
    dumps: list[tuple[float | None, list[Held]]] = [(None, [])]
    seen: set[tuple[int, str, int | None]] = set()
    unreadable = count = 0
    fields: dict[str, str] = {}
    for line in lines:
        text = line[:_LONGEST]
        if stamp := _INSTANT.match(text):
            dumps.append((float(stamp[1]), []))
            seen = set()
            continue
        calls: list[Held] = []
        if printed := _LINE.match(text):
            calls += _held(_fields_of(printed))
        else:
            for pair in _PAIR.finditer(line):
                # No field comes twice in a call.
                if pair[1] in fields:
                    calls += _held(fields)
                    fields = {}
                fields[pair[1]] = next(value for value in (*pair.groups()[1:], "") if value is not None)
            if "}" in line:
                calls += _held(fields)
                fields = {}
            unreadable += "0x" in text and not calls
        for call in calls:
            key = (call.xid, call.client, call.port)
            if key in seen and dumps[-1][0] is None:
                dumps.append((None, []))
                seen = set()
            seen.add(key)
            count += 1
            if count <= _MOST:
                dumps[-1][1].append(call)
    kept = tuple(Dump(at, tuple(calls)) for at, calls in dumps if at is not None or calls)
    if not any(one.calls for one in kept):
        raise InputError("no call in a thread: give what nfsdctl status prints while there is load")
    return Evidence((), _notes(kept, unreadable), kept)


def _fields_of(line: re.Match[str]) -> dict[str, str]:
    """What nfsdctl prints, by the names that ynl has."""
    rest = line[9].split()
    return {
        "xid": str(int(line[1], 16)),
        "prog": line[3],
        "version": line[5] or line[6],
        "proc": line[4] or line[7],
        "saddr4": rest[0] if rest and _ADDRESS.match(rest[0]) else "",
        "sport": next((word for word in rest if word.isascii() and word.isdigit()), ""),
        "compound-ops": " ".join(str(_V4[name]) for word in rest if (name := word.removeprefix("OP_")) in _V4),
    }


def _held(of: Mapping[str, str]) -> list[Held]:
    try:
        xid, program, version, procedure = (int(of[key]) for key in ("xid", "prog", "version", "proc"))
    except (KeyError, ValueError):
        return []
    ops = [int(word) for word in re.findall(r"\d{1,3}", of.get("compound-ops", ""))]
    port = re.fullmatch(r"\d{1,5}", of.get("sport", ""), re.ASCII)
    # Of a COMPOUND the operation that it is for.
    op = op_name(program, version, main_op(ops) if ops else procedure)
    client = of.get("saddr4") or of.get("saddr6") or ""
    return [Held(xid & 0xFFFFFFFF, op, client, int(port[0]) if port else None)]


def _notes(dumps: Sequence[Dump], unreadable: int) -> tuple[str, ...]:
    """How many threads are held, for what, and by whom."""
    held = [len(dump.calls) for dump in dumps]
    calls = [call for dump in dumps for call in dump.calls]
    when = "at that instant" if len(held) == 1 else f"at {len(held):,} instants"
    most = max(held)
    often = sum(one == most for one in held) / len(held)
    text = f"{when} {np.mean(held):.3g} {'thread' if sum(held) == len(held) else 'threads'} worked on calls"
    if len(held) > 1:
        text += f", {most} at most ({often:.0%} of the instants)"
    said = [f"{text}: {_shares(Counter(call.op for call in calls))}"]
    clients = Counter(call.client for call in calls if call.client)
    if len(clients) > 1:
        said.append(f"threads were held by {_shares(clients)}")
    if unreadable:
        said.append(f"lines that could not be read: {unreadable}")
    return tuple(said)


def _shares(counts: Counter[str]) -> str:
    whole = counts.total()
    named = [f"{name} {count / whole:.0%}" for name, count in counts.most_common(_FEW)]
    return ", ".join(named) + (f", and {len(counts) - _FEW} more" if len(counts) > _FEW else "")


def joined(dumps: Sequence[Dump], c: Analysis) -> list[str]:
    """Which calls of the captures held threads, and for how long the longest had been there."""
    ops, rows = c.server.ops, dict[int, list[int]]()
    # The bytes of an XID may be turned; all of a file's or none of them.
    turned = {call.xid: int.from_bytes(call.xid.to_bytes(4, "big"), "little") for dump in dumps for call in dump.calls}
    for row in np.flatnonzero(np.isin(ops.xid, np.array([*turned, *turned.values()], dtype=np.int64))).tolist():
        rows.setdefault(int(ops.xid[row]), []).append(row)
    plain = sum(xid in rows for xid in turned) >= sum(xid in rows for xid in turned.values())
    known = {xid: rows[key] for xid, other in turned.items() if (key := xid if plain else other) in rows}
    if not known:
        return [f"none of its {len(turned):,} calls is in the captures: it is of another time or server"]
    text = f"{len(known):,} of {len(turned):,} calls that held a thread are in the captures"
    longest, of = 0.0, None
    for dump in dumps:
        if dump.at_s is None:
            continue
        for row in (row for call in dump.calls for row in known.get(call.xid, ())):
            since = dump.at_s - float(ops.t1[row]) / 1e9
            if longest < since and dump.at_s * 1e9 <= float(ops.t3[row]):
                longest, of = since, row
    if of is not None:
        text += f"; the longest had been there for {longest * 1e3:.3g} ms ({op_labels(ops.kinds)[ops.kind[of]]})"
    return [text]
