"""Simulated traffic (`queues`) of several clients and servers -> captures as each host, or a tap, takes them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import wire
from queue_captures import flow
from queues import Traffic


@dataclass(frozen=True)
class Talk:
    """What passes between two hosts; clocks are so many seconds ahead of true time."""

    client: str
    server: str
    traffic: Traffic
    server_s: float = 0.0
    client_s: float = 0.0


def at_servers(path: Path, *talks: Talk) -> Path:
    """What servers see, in one file."""
    return _write(path, "server", talks)


def at_clients(path: Path, *talks: Talk) -> Path:
    """What clients see, in one file."""
    return _write(path, "client", talks)


def _write(path: Path, side: str, talks: tuple[Talk, ...]) -> Path:
    flows = []
    for talk in talks:
        traffic, ahead_ns = talk.traffic, round((talk.server_s if side == "server" else talk.client_s) * 1e9)
        for conn in np.unique(traffic.conn).tolist():
            mine = traffic.take(np.flatnonzero(traffic.conn == conn))
            times = (mine.arrival_ns, mine.reply_ns) if side == "server" else (mine.sent_ns, mine.received_ns)
            ends = (talk.client, 700 + conn), (talk.server, 2049)
            # Two hosts have XIDs of their own, as clients begin them at random.
            first_xid = 100_000 * sum(map(int, (talk.client + "." + talk.server).split(".")))
            flows.append(flow(mine, *(one + ahead_ns for one in times), ends, first_xid))
    wire.write_pcap(path, *(one.seen_by("client", back_ms=0) for one in flows))
    return path
