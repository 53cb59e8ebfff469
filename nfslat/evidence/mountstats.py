"""Text of /proc/self/mountstats -> the NFS mounts, what they did between two readings, and their mean latencies.

Sources: Linux fs/nfs/super.c (``nfs_show_stats``), net/sunrpc/stats.c (per-op lines), net/sunrpc/xprtsock.c and
net/sunrpc/xprtrdma/transport.c (``*_print_stats``), as of 6.1 and 6.12; docs/evidence.md says what the figures mean.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, replace
from typing import Any

from nfslat.evidence.counters import counters, grown
from nfslat.evidence.records import Latency, Mount, OpStats, Xprt

_DEVICE = re.compile(r"device (\S+) mounted on (\S+) with fstype (\S+)")
_OPERATION = re.compile(r"\s+([A-Z][A-Z0-9_]*):(.*)")
_ESCAPE = re.compile(r"\\([0-7]{3})")
DATA = frozenset(("READ", "READ_PLUS", "WRITE"))  # reads and writes
# What stands between the name of a transport and its queue lengths.
_TCP = "source_port bind connects connect_time idle_s sends receives bad_xids req_u backlog_u".split()
_XPRT_FIELDS = {
    "tcp": _TCP,
    "rdma": _TCP,  # its further counters are of chunks, not of slots
    "udp": [name for name in _TCP if name not in ("connects", "connect_time", "idle_s")],
    "local": _TCP[1:],
}
_SLOT_FIELDS = ["max_slots", "sending_u", "pending_u"]  # old kernels end with backlog_u


def read(text: str, name: str) -> tuple[Mount, ...]:
    """The NFS mounts in `text`, in its order; other file systems are passed over.

    Raises ``InputError`` with `name` and the line where a line of a mount is not as a kernel prints it.
    """
    mounts: list[Mount] = []
    ops: dict[str, OpStats] = {}
    xprts: list[Xprt] = []
    facts: dict[str, str] = {}
    device: re.Match[str] | None = None

    def close() -> None:
        if device:
            mounts.append(_mount(device, facts, ops, xprts, name))
        ops.clear()
        xprts.clear()
        facts.clear()

    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("device "):
            close()
            device = _DEVICE.match(line)
            if device and device[3] not in ("nfs", "nfs4"):
                device = None
        elif line.startswith("no device mounted on "):
            close()
            device = None
        elif device is None:
            continue
        elif operation := _OPERATION.fullmatch(line):
            ops[operation[1]] = _op(operation[2].split(), f"{name}, line {number}")
        elif line.lstrip().startswith("xprt:"):
            if xprt := _xprt(line.split()[1:], f"{name}, line {number}"):
                xprts.append(xprt)
        else:
            key, _, value = line.strip().partition(":")
            facts.setdefault(key, value.strip())
    close()
    return tuple(mounts)


def _mount(
    device: re.Match[str], facts: dict[str, str], ops: dict[str, OpStats], xprts: list[Xprt], name: str
) -> Mount:
    options = options_of(facts.get("opts", ""))
    age = counters([facts["age"]], 1, f"{name}, age of {device[2]}")[0] if "age" in facts else None
    return Mount(
        device=unescaped(device[1]),
        path=unescaped(device[2]),
        version=version_of(options),
        options=options,
        age_s=age,
        ops=dict(ops),
        xprts=tuple(xprts),
    )


def options_of(text: str) -> dict[str, str]:
    """``rw,vers=3`` as ``{"rw": "", "vers": "3"}``."""
    pairs = (option.partition("=") for option in text.split(",") if option)
    return {key: value for key, _, value in pairs}


def version_of(options: Mapping[str, str]) -> str:
    """``"3"``, ``"4.1"`` from the options of a mount; old kernels print the minor version on its own."""
    version = options.get("vers", "")
    minor = options.get("minorversion")
    return f"{version}.{minor}" if version == "4" and minor else version


def unescaped(word: str) -> str:
    r"""A path as it is: /proc writes blanks and backslashes as ``\040`` and ``\134``; a line feed stays ``\012``."""
    return _ESCAPE.sub(lambda octal: code if (code := chr(int(octal[1], 8))).isprintable() else octal[0], word)


def _op(words: list[str], where: str) -> OpStats:
    values = counters(words, 8, where)
    return replace(OpStats(*values[:8]), errors=values[8] if len(values) > 8 else None)


def _xprt(words: list[str], where: str) -> Xprt | None:
    """None for a transport that is not known: its fields are not either."""
    transport = words[0] if words else ""
    names = _XPRT_FIELDS.get(transport)
    if names is None:
        return None
    values = counters(words[1:], len(names), where)
    if transport != "rdma" and len(values) >= len(names) + len(_SLOT_FIELDS):
        names = names + _SLOT_FIELDS
    told = {key: value for key, value in zip(names, values, strict=False) if key in Xprt.__dataclass_fields__}
    return Xprt(**{"transport": transport, "source_port": 0, **told})  # type: ignore[arg-type]  # strings and counts


def difference(before: Sequence[Mount], after: Sequence[Mount]) -> tuple[tuple[Mount, ...], list[str]]:
    """What each mount did between two readings: a mount whose counters are the growth, whose age is the interval.

    `max_slots` and `idle_s` are those of the later reading: they do not add up. Mounts that went or began anew are left
    out; of one that came all is growth. The second part says so.
    """
    old = _by_place(before)
    new = _by_place(after)
    notes = [f"{old[key].path} ({old[key].device}) is no longer mounted" for key in old if key not in new]
    grew: list[Mount] = []
    for key, mount in new.items():
        place = f"{mount.path} ({mount.device})"
        if key not in old:
            notes.append(f"{place} was mounted in between: its figures are those since then")
            grew.append(mount)
            continue
        delta, said = _mount_difference(old[key], mount)
        notes += [f"{place} {each}" for each in said]
        if delta is not None:
            grew.append(delta)
    return tuple(grew), notes


def _by_place(mounts: Iterable[Mount]) -> dict[tuple[str, str, int], Mount]:
    """A place can be mounted over; the copies keep their order."""
    seen: Counter[tuple[str, str]] = Counter()
    places = {}
    for mount in mounts:
        place = mount.device, mount.path
        places[*place, seen[place]] = mount
        seen[place] += 1
    return places


def _mount_difference(before: Mount, after: Mount) -> tuple[Mount | None, list[str]]:
    anew = "was mounted again in between: what it did before is lost, and it is left out"
    age = None
    if before.age_s is not None and after.age_s is not None:
        age = after.age_s - before.age_s
        if age < 0:
            return None, [anew]
    ops = {}
    for op, stats in after.ops.items():
        delta = _op_difference(before.ops.get(op), stats)
        if delta is None:
            return None, [anew]
        ops[op] = delta
    notes = []
    if before.options != after.options:
        notes.append("was remounted with other options in between")
    xprts = _xprt_differences(before.xprts, after.xprts)
    if xprts is None:
        notes.append("has other connections than before: their counters are left out")
    return replace(after, age_s=age, ops=ops, xprts=xprts or ()), notes


def _op_difference(before: OpStats | None, after: OpStats) -> OpStats | None:
    if before is None:
        return after
    *old, old_errors = astuple(before)
    *new, new_errors = astuple(after)
    growth = grown(old, new)
    if growth is None:
        return None
    errors = new_errors - old_errors if old_errors is not None and new_errors is not None else None
    return replace(OpStats(*growth), errors=errors)


def _xprt_differences(before: Sequence[Xprt], after: Sequence[Xprt]) -> tuple[Xprt, ...] | None:
    """None where they cannot be the same connections. The port is no proof: a reconnect may change it."""
    if [each.transport for each in before] != [each.transport for each in after]:
        return None
    deltas = []
    for old, new in zip(before, after, strict=True):
        names = [
            name
            for name in ("sends", "receives", "bad_xids", "req_u", "backlog_u", "sending_u", "pending_u", "connects")
            if getattr(old, name) is not None and getattr(new, name) is not None
        ]
        growth = grown([getattr(old, name) for name in names], [getattr(new, name) for name in names])
        if growth is None:
            return None
        deltas.append(replace(new, **dict[str, Any](zip(names, growth, strict=True))))
    return tuple(deltas)


def latencies(mount: Mount, source: str) -> list[Latency]:
    """Means of each operation that was done, then (op "") of reads and writes together, in three layers.

    "client" is from the start of the RPC task to its end, "slot wait" from there to the last transmission, "client
    wire" from there to the reply. An operation that was never done has no latency. `server` is that of the mount.
    """
    rows = [(op, stats) for op, stats in mount.ops.items() if stats.ops > 0]
    data = [stats for op, stats in rows if op in DATA]
    if data:
        sums = [sum(column) for column in zip(*(astuple(each)[:8] for each in data), strict=True)]
        rows.append(("", OpStats(*sums)))
    return [
        Latency(layer, op, total_ms / stats.ops, stats.ops, source, server=mount.server)
        for op, stats in rows
        for layer, total_ms in (
            ("client", stats.execute_ms),
            ("slot wait", stats.queue_ms),
            ("client wire", stats.rtt_ms),
        )
    ]


def queue_tells(ops: int, transmissions: int) -> bool:
    """Whether so few calls were sent again that the queue time is that before the first sending: at most 1 %.

    The kernel counts up to the last sending, so one call that was sent again after 60 s weighs like thousands.
    """
    return 100 * (transmissions - ops) <= ops


def mean_backlog(xprt: Xprt) -> float | None:
    """Requests that waited for a slot, as the mean over all transmissions; None without any.

    NFSv4.1 waits for a slot of its session instead, and is 0 here.
    """
    return xprt.backlog_u / xprt.sends if xprt.sends > 0 else None
