"""NFSv3 over UDP, between hosts and on a path with times of their own -> the captures of both."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

import wire

_LONG_MS = 60_000.0


@dataclass(frozen=True)
class Load:
    """Means in ms of what is drawn at random: what the server takes for a READ, and for the GETATTRs beside them; what
    packets wait on the path each way, beyond 0.1 ms."""

    read_ms: float = 5.0
    getattr_ms: float = 0.05
    queue_ms: float = 0.05
    getattrs: float = 0.4  # of the calls
    ops: int = 600
    clients: int = 1
    seed: int = 1


def captures(load: Load, folder: Path) -> tuple[Path, Path]:
    """The server's and the client's. Each client calls, waits for the reply, thinks for a while, and calls again."""
    rng = random.Random(load.seed)
    seen: dict[str, list[wire.Seen]] = {"server": [], "client": []}
    for client in range(load.clients):
        at = rng.random()
        for number in range(load.ops):
            xid, is_read = client << 16 | number + 1, rng.random() >= load.getattrs
            flow = wire.Udp(client=(f"10.0.0.{100 + client}", 700))
            call = wire.read(xid) if is_read else wire.getattr3(xid)
            work_ms = 0.02 + rng.expovariate(1 / (load.read_ms if is_read else load.getattr_ms))
            out_ms, back_ms = (0.1 + rng.expovariate(1 / load.queue_ms) for _ in range(2))
            flow.send(at, ">", call)
            flow.send(at + out_ms + work_ms, "<", wire.reply(xid, wire.read3() if is_read else wire.GETATTR3))
            for side in seen:
                seen[side] += flow.seen_by(side, there_ms=out_ms, back_ms=back_ms)
            at += min(out_ms + work_ms + back_ms, _LONG_MS) + 0.02 + rng.expovariate(0.5)
    return tuple(  # type: ignore[return-value]
        wire.write_pcap(folder / f"{side}.pcap", of_side, nano=True) for side, of_side in seen.items()
    )
