"""What both hosts count, before and after the load -> what truth.json says of it.

Nothing of nfslat's own readers is used: a truth that shared their mistakes would be none.
"""

from __future__ import annotations

from typing import Any

from laboratory.guest import Clock, Guest

_FILES = {
    "client": {
        "mountstats": "/proc/self/mountstats",
        "client_rpc": "/proc/net/rpc/nfs",
        "client_tcp": "/proc/net/snmp",
    },
    "server": {
        "server_rpc_nfsd": "/proc/net/rpc/nfsd",
        "pool_stats": "/proc/fs/nfsd/pool_stats",
        "server_tcp": "/proc/net/snmp",
    },
}
_RETRANSMITTED = 12  # field of RetransSegs in the line of values (net/ipv4/proc.c)


def counters(server: Guest, client: Guest) -> dict[str, str]:
    """The kernels' own counters, as their files print them."""
    found = {}
    for guest, side in ((server, "server"), (client, "client")):
        for name, path in _FILES[side].items():
            lines = guest.read(path).splitlines(keepends=True)
            if path.endswith("snmp"):
                lines = [line for line in lines if line.startswith("Tcp:")]
            if path.endswith("mountstats"):
                first = next((at for at, line in enumerate(lines) if " with fstype nfs" in line), len(lines))
                lines = lines[first:]
            found[name] = "".join(lines)
    return found


def mountstats_delta(before: str, after: str) -> dict[str, dict[str, float]]:
    """Operations between two readings: how many, and the means of the client's own times (net/sunrpc/stats.c)."""
    first, last = _per_op(before), _per_op(after)
    found = {}
    for name, counts in last.items():
        ops, transmissions, timeouts, _, _, queue, rtt, execute, *_ = (
            now - then for now, then in zip(counts, first.get(name, [0] * len(counts)), strict=True)
        )
        if ops:
            found[name] = {
                "ops": ops,
                "trans": transmissions,
                "timeouts": timeouts,
                "avg_queue_ms": round(queue / ops, 3),
                "avg_rtt_ms": round(rtt / ops, 3),
                "avg_exe_ms": round(execute / ops, 3),
            }
    return found


def _per_op(text: str) -> dict[str, list[int]]:
    """Counts by operation of the first mount; connections (``xprt:``) and what stands before are passed over."""
    found: dict[str, list[int]] = {}
    per_op = False
    for line in text.splitlines()[1:]:
        name, _, numbers = line.strip().partition(":")
        if line.startswith("device"):
            break
        if name == "per-op statistics":
            per_op = True
        elif per_op and numbers:
            found[name] = [int(number) for number in numbers.split()]
    return found


def retransmitted(before: str, after: str) -> int:
    """Segments that a host's TCP sent again."""
    return int(after.splitlines()[-1].split()[_RETRANSMITTED]) - int(before.splitlines()[-1].split()[_RETRANSMITTED])


def disk_delta(before: dict[str, int], after: dict[str, int]) -> dict[str, float]:
    """What the server's disk did, and the mean time of a request."""
    delta: dict[str, float] = {name: after[name] - before[name] for name in after}
    for kind in ("read", "write"):
        requests = delta[f"{kind}s"]
        delta[f"avg_{kind}_ms"] = round(delta[f"{kind}_ms"] / requests, 3) if requests else 0.0
    return delta


def processor_delta(before: tuple[int, int], after: tuple[int, int]) -> dict[str, float]:
    """What of the load a guest's kernel ran, and waited for a processor of the machine, which is busy with others."""
    ran_ns, waited_ns = (b - a for a, b in zip(before, after, strict=True))
    return {"ran_s": round(ran_ns / 1e9, 3), "waited_s": round(waited_ns / 1e9, 3)}


def clocks(server: Guest, client: Guest) -> dict[str, Any]:
    """Both clocks against the host's, and what that says of one against the other."""
    there, here = server.clock(), client.clock()
    return {
        "server_minus_host": _clock(there),
        "client_minus_host": _clock(here),
        "client_minus_server_s": round(here.offset_s - there.offset_s, 6),
        "uncertainty_s": round(here.uncertainty_s + there.uncertainty_s, 6),
    }


def _clock(clock: Clock) -> dict[str, float]:
    return {
        "offset_s": clock.offset_s,
        "uncertainty_s": clock.uncertainty_s,
        "host_time_s": clock.host_time_s,
    }
