"""Text of /proc/net/rpc/nfsd -> what a Linux NFS server counted. Source: Linux fs/nfsd/stats.c, net/sunrpc/stats.c."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from nfslat.errors import InputError
from nfslat.evidence.counters import counters, grown
from nfslat.evidence.records import NfsdStats
from nfslat.model.protocol import NFS, op_name

_CALLS = {"proc2": 2, "proc3": 3, "proc4": 4, "proc4ops": 4}  # line -> NFS version
_FIELDS = {"io": 2, "net": 4, "rpc": 2}  # line -> numbers that are read of it


def read(text: str, name: str) -> NfsdStats:
    """The counters since nfsd was loaded. Raises ``InputError`` where a line is not as a kernel prints it.

    `calls` adds up the versions: READ is the procedure of NFSv2 and v3 and the operation of NFSv4.
    """
    calls: Counter[str] = Counter()
    values: dict[str, list[int]] = {}
    threads = None
    for number, line in enumerate(text.split("\n"), 1):
        key, *words = line.split() or [""]
        where = f"{name}, line {number}"
        if key in _CALLS:
            declared, *counts = counters(words, 1, where)
            if len(counts) < declared:
                raise InputError(f"{where}: {len(counts)} of {declared} counters of {key}: is the text cut short?")
            calls.update({op_name(NFS, _CALLS[key], op): count for op, count in enumerate(counts[:declared]) if count})
        elif key in _FIELDS:
            values[key] = counters(words, _FIELDS[key], where)
        elif key == "th":
            threads = counters(words[:1], 1, where)[0]
    if threads is None or "net" not in values or "rpc" not in values:
        raise InputError(f"{name}: the lines th, net and rpc of /proc/net/rpc/nfsd are missing: is the text cut short?")
    read_bytes, written_bytes, *_ = values.get("io", [0, 0])
    return NfsdStats(
        threads=threads,
        calls=dict(calls),
        read_bytes=read_bytes,
        written_bytes=written_bytes,
        tcp_connections=values["net"][3],
        rpc_calls=values["rpc"][0],
        bad_calls=values["rpc"][1],
    )


def difference(before: NfsdStats, after: NfsdStats) -> tuple[NfsdStats | None, list[str]]:
    """Growth of the counters, with the later thread count; None where they began anew, and the second part says so."""
    names = list(dict.fromkeys([*before.calls, *after.calls]))
    fields = ("read_bytes", "written_bytes", "tcp_connections", "rpc_calls", "bad_calls")
    old = [before.calls.get(name, 0) for name in names] + [getattr(before, field) for field in fields]
    new = [after.calls.get(name, 0) for name in names] + [getattr(after, field) for field in fields]
    growth = grown(old, new)
    if growth is None:
        # Most of them have 32 bits, so that a busy server is through in days.
        return None, ["/proc/net/rpc/nfsd: counters went back (a restart, or they ran over): it is left out"]
    notes = []
    if before.threads != after.threads:
        notes.append(f"nfsd had {before.threads} threads before and has {after.threads} now")
    calls = {name: count for name, count in zip(names, growth, strict=False) if count}
    return replace(after, calls=calls, **dict(zip(fields, growth[len(names) :], strict=True))), notes
