"""Simulated traffic (`queues`) -> two captures of it, as its server and its client would take them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from queues import Traffic
from wire import MS, Tcp, getattr3, read, record, reply, write, write_pcap

from nfslat.model.tables import I64

_FIRST_XID = 0x1000


def write_captures(traffic: Traffic, folder: Path) -> tuple[Path, Path]:
    """The server's and the client's file; each op is a call and a reply in a packet of its own.

    XIDs count up in the order in which the calls leave, as Linux counts them. A reply is "ok" and nothing else: what
    counts is when it comes.
    """
    server, client = [], []
    for conn in np.unique(traffic.conn).tolist():
        mine = traffic.take(np.flatnonzero(traffic.conn == conn))
        ends = ("10.77.0.2", 700 + conn), ("10.77.0.1", 2049)
        server.append(flow(mine, mine.arrival_ns, mine.reply_ns, ends))
        client.append(flow(mine, mine.sent_ns, mine.received_ns, ends))
    paths = folder / "server.pcap", folder / "client.pcap"
    for path, flows in zip(paths, (server, client), strict=True):
        write_pcap(path, *(flow.seen_by("client", back_ms=0) for flow in flows))
    return paths


def flow(
    mine: Traffic,
    calls_ns: I64,
    replies_ns: I64,
    ends: tuple[tuple[str, int], tuple[str, int]],
    first_xid: int = _FIRST_XID,
) -> Tcp:
    """The TCP connection of `mine` between the client's and the server's address and port. An end acknowledges what is
    there, and not what is still on its way: TCP's round trips are those of the path."""
    messages = []
    for row, kind in enumerate(mine.kind.tolist()):
        xid = int.from_bytes((first_xid + row).to_bytes(4, "big"), "little")
        what = getattr3(xid) if kind == "GETATTR" else (read if kind == "READ" else write)(xid, offset=8192 * row)
        messages += [(int(calls_ns[row]), ">", record(what), row), (int(replies_ns[row]), "<", record(reply(xid)), row)]
    messages.sort(key=lambda one: one[0])
    tcp = Tcp(client=ends[0], server=ends[1])
    left = {">": (mine.sent_ns, mine.received_ns), "<": (mine.reply_ns, mine.arrival_ns)}  # and when others came there
    came = {way: np.maximum.accumulate(np.sort(ns)) for way, (_, ns) in left.items()}
    upto = {way: [tcp.next["<" if way == ">" else ">"]] for way in left}
    for _, way, message, _ in messages:
        back = upto["<" if way == ">" else ">"]
        back.append(back[-1] + len(message))
    for t_ns, way, message, row in messages:
        there = int(np.searchsorted(came[way], left[way][0][row], "right"))
        tcp.raw(t_ns / MS, way, tcp.next[way], message, ack=upto[way][there])
        tcp.next[way] += len(message)
    return tcp
