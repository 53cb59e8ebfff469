"""Packets that a capture holds twice, and bytes that TCP sent twice: which is which, on any connection.

Both are made here, at the same time: what the two captures count must be what the ends of the connection did.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import wire
from grids import grid

from nfslat.decode.engine import choose
from nfslat.decode.tools import Tools
from nfslat.model.decoded import Decoded
from nfslat.tcp.both import correlate as correlate_traces
from nfslat.tcp.packets import Trace
from nfslat.tcp.reading import read_trace
from nfslat.wire.transport import Delivery, Way, deliveries

THERE_MS = 0.2
V6 = {"client": ("fd00::1", 700), "server": ("fd00::2", 2049)}
PIECE = 1448  # of an Ethernet packet with timestamps

Change = Callable[[list[wire.Seen]], list[wire.Seen]]


def _as_it_is(seen: list[wire.Seen]) -> list[wire.Seen]:
    return seen


@dataclass
class Made:
    """READs over a path that loses packets, 0.2 ms each way; what its ends did is counted as it is made."""

    tcp: wire.Tcp
    t_ms: float = 0
    lost: list[wire.Packet] = field(default_factory=list)
    late_ms: dict[int, float] = field(default_factory=dict)  # by the packet's id()
    sent_again: dict[Way, int] = field(default_factory=lambda: dict.fromkeys(Way, 0))  # bytes
    lost_bytes: dict[Way, int] = field(default_factory=lambda: dict.fromkeys(Way, 0))

    def lose(self, way: Way, packet: wire.Sent) -> None:
        self.lost.append(packet)
        self.lost_bytes[way] += len(packet.data)

    def again(self, way: Way, t_ms: float, old: wire.Sent) -> wire.Sent:
        self.sent_again[way] += len(old.data)
        return self.tcp.again(t_ms, old)

    def read(self, xid: int, what: str) -> None:
        """One READ, to which `what` happens; the next is 300 ms later."""
        t, tcp = self.t_ms, self.tcp
        (call,) = tcp.send(t, ">", wire.read(xid, 0, 4096))
        if what == "call lost":
            self.lose(Way.CALL, call)
        if what in ("call lost", "call for nothing"):
            t += 210
            self.again(Way.CALL, t, call)
        t += 1 + 2 * THERE_MS
        message = wire.reply(xid, wire.read3(4096))
        if what not in ("piece lost", "piece late"):
            (reply,) = tcp.send(t, "<", message)
            if what == "reply lost":
                self.lose(Way.REPLY, reply)
            if what in ("reply lost", "reply for nothing"):
                t += 210
                self.again(Way.REPLY, t, reply)
            tcp.ack(t + 2 * THERE_MS + 0.05, ">")
        else:
            first, second, _ = tcp.send(t, "<", message, cut=(1000, 1000), at=(t, t + 0.01, t + 0.02))
            if what == "piece lost":
                self.lose(Way.REPLY, second)
            else:
                self.late_ms[id(second)] = 0.4
            # Sent by the client, whose clock is ours: when it has the first, and the last in front of the second.
            tcp.ack(t + THERE_MS + 0.005, ">", first)
            tcp.ack(t + THERE_MS + 0.025, ">", first)
            again = self.again(Way.REPLY, t + 2 * THERE_MS + 0.03, second)
            tcp.ack(again.sent_ns / 1e6 + THERE_MS + 0.01, ">")
        self.t_ms += 300

    def seen_by(self, side: str) -> list[wire.Seen]:
        """In the order of their times; `sent_ns` is when the sender's capture shows a packet."""
        out = []
        sender = {"client": ">", "server": "<"}[side]
        for packet in self.tcp.packets:
            arrives = packet.way != sender
            if arrives and any(packet is one for one in self.lost):
                continue
            (seen,) = wire.Tcp(packets=[packet]).seen_by("client", back_ms=0)
            ms = (THERE_MS + self.late_ms.get(id(packet), 0)) if arrives else 0
            out.append(replace(seen, t_ns=seen.t_ns + round(ms * 1e6)))
        return sorted(out, key=lambda one: one.t_ns)


HAPPENS = ("call lost", "call for nothing", "reply lost", "reply for nothing", "piece lost", "piece late")


def _made(*happens: str, ipv6: bool = False, counts: bool = True, stamps_hz: int = 0) -> Made:
    """40 READs with nothing, then each of what happens twice, and something quiet behind it."""
    tcp = wire.Tcp(**(V6 if ipv6 else {}), counts=counts, stamps_hz=stamps_hz)
    tcp.syn(0)
    path = Made(tcp, t_ms=10)
    for number, what in enumerate(["nothing"] * 40 + [one for one in happens for _ in range(2)] + ["nothing"] * 3):
        path.read(number + 1, what)
    return path


def _no_tools() -> Tools:
    raise AssertionError("Wireshark's tools are not needed for this")


def _decoded(path: Path) -> Decoded:
    engine = choose("native", _no_tools, path.parent, rereads=False)
    return engine.decode(engine.open(str(path)), lambda _: None)[1]


def _trace(path: Path) -> Trace:
    engine = choose("native", _no_tools, path.parent, rereads=False)
    return read_trace(engine.open(str(path)), _no_tools, lambda _: None)


def _written(folder: Path, path: Made, server: Change, client: Change) -> tuple[Path, Path]:
    seen = {"server": server(path.seen_by("server")), "client": client(path.seen_by("client"))}
    one, other = (wire.write_pcap(folder / f"{side}.pcap", seen[side], nano=True) for side in ("server", "client"))
    return one, other


def _deliveries(server: Path, client: Path) -> dict[Way, Delivery]:
    found = deliveries(_decoded(server), _decoded(client), {0: 0})
    assert found is not None
    return {one.way: one for one in found}


def _holds(path: Made, files: tuple[Path, Path]) -> None:
    """What the captures count is what was done: sent again, and of that lost, and for nothing; by either command."""
    found = _deliveries(*files)
    for way in Way:
        again, lost = path.sent_again[way], path.lost_bytes[way]
        one = found[way]
        assert (one.sent_again.bytes, one.lost_bytes, one.arrived_again.bytes) == (again, lost, again - lost), way
        assert one.surplus_bytes == 0
    both = correlate_traces(*(_trace(file) for file in files[::-1]))
    (pair,) = both.pairs
    assert sum(passage.lost_bytes for passage in pair.passages) == sum(path.lost_bytes.values())


CONNECTIONS = {
    "identification": {},
    "no identification": {"counts": False},
    "no identification, timestamps": {"counts": False, "stamps_hz": 1000},
    "IPv6": {"ipv6": True},
    "IPv6, timestamps": {"ipv6": True, "stamps_hz": 1000},
    "IPv6, slow timestamps": {"ipv6": True, "stamps_hz": 100},
}
DOUBLED = {
    "once": _as_it_is,
    "2 us": lambda seen: wire.doubled(seen, 2),
    "100 us": lambda seen: wire.doubled(seen, 100),
    "1000 us": lambda seen: wire.doubled(seen, 1000),
    "pieces, 2 us": lambda seen: wire.doubled(seen, 2, size=PIECE),
    "pieces, 1000 us": lambda seen: wire.doubled(seen, 1000, size=PIECE),
}


@grid(doubled=DOUBLED, connection=CONNECTIONS, happens=[(), HAPPENS])
def test_what_was_lost_is_exact_whatever_is_in_a_capture_twice(
    tmp_path: Path, connection: str, doubled: str, happens: tuple[str, ...]
) -> None:
    """One capture shows all packets twice, then the other one, then both."""
    path = _made(*happens, **CONNECTIONS[connection])
    change = DOUBLED[doubled]
    for server, client in ((change, _as_it_is), (_as_it_is, change), (change, change)):
        _holds(path, _written(tmp_path, path, server, client))
