"""Calls of an application that were made up, what goes over the wire for them, and which ops each waited for."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from wire import Tcp, call, reply, write_pcap

from nfslat.decode import blocks, native
from nfslat.decode.tools import find_tools
from nfslat.evidence.calls import Joined
from nfslat.evidence.strace import Call
from nfslat.model.tables import Ops


def commit(xid: int, fh: bytes) -> bytes:
    return call(xid, 100003, 3, 21, len(fh).to_bytes(4, "big") + fh + bytes(12))


@dataclass
class Made:
    """Threads that call, what goes over the wire for it, and which ops each call waited for."""

    calls: list[Call] = field(default_factory=list)
    truth: list[set[int]] = field(default_factory=list)  # XIDs
    sent: list[tuple[float, float, int, bytes]] = field(default_factory=list)  # call, reply, XID, message; us
    servers: dict[int, tuple[float, float]] = field(default_factory=dict)  # XID -> when the server had and sent it
    xid: int = 0x1000

    def op(self, begin: float, end: float, made: Any) -> int:
        """An op on the client's wire, of which the server has most."""
        self.xid += 1
        self.sent.append((begin, end, self.xid, made(self.xid)))
        self.servers[self.xid] = begin + 0.1 * (end - begin), end - 0.1 * (end - begin)
        return self.xid


def captures_of(made: Made, folder: Path) -> list[Path]:
    """The server's file and the client's."""
    return [capture_of(made, folder, name) for name in ("server", "client")]


def capture_of(made: Made, folder: Path, side: str) -> Path:
    """The file of one of them."""
    tcp = Tcp(client=("10.77.0.2", 700), server=("10.77.0.1", 2049))
    messages = []
    for begin, end, xid, message in made.sent:
        first, last = made.servers[xid] if side == "server" else (begin, end)
        messages += [(first, ">", message), (last, "<", reply(xid))]
    for t_us, way, message in sorted(messages, key=lambda one: one[0]):
        tcp.send(t_us / 1000, way, message)
    return write_pcap(folder / f"{side}.pcap", tcp.seen_by("client", back_ms=0))


def client_ops(made: Made, folder: Path) -> Ops:
    """What the client's file holds."""
    return ops_of(capture_of(made, folder, "client"))


def ops_of(path: Path) -> Ops:
    source = native.open_source(str(path), find_tools, path.parent, rereads=False)
    return blocks.decode(source, find_tools, lambda _: None)[1].ops


def judged(made: Made, joined: Joined, ops: Ops) -> tuple[int, int, int]:
    """Calls that were joined wrongly; those that were joined; and those that could have been."""
    wrong = right = 0
    for rows, cached, truth in zip(joined.ops, joined.cached.tolist(), made.truth, strict=True):
        if rows or cached:
            good = {int(ops.xid[row]) for row in rows} == truth
            right, wrong = right + good, wrong + (not good)
    return wrong, right, int(np.count_nonzero(joined.seen))
