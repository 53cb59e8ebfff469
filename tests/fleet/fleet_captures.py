"""Captures of one server and several clients, written by hand: calls in, pcap files as each of them sees these out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from wire import GETATTR3, NFS, Seen, Sent, Tcp, getattr3, null, reply, write_pcap

SERVER = "10.0.0.2"


def talk(
    client: str, *, server: str = SERVER, calls: int = 20, begin_ms: float = 0, every_ms: float = 10, port: int = 700
) -> Tcp:
    """A connection with one call after the other, which the server answers after 2 ms and acknowledges at once."""
    tcp = Tcp(client=(client, port), server=(server, 2049))
    seed = sum(client.encode()) << 16
    for at in range(calls):
        t_ms = begin_ms + at * every_ms
        xid = seed + 0x9E37 * (at + int(begin_ms) + port)
        tcp.send(t_ms, ">", getattr3(xid))
        tcp.send(t_ms + 2, "<", reply(xid, GETATTR3))
    return tcp


def acknowledged(tcp: Tcp) -> Tcp:
    """The same with an acknowledgement for each message at once, as kernels send it: captures show their place."""
    for packet in list(tcp.packets):
        assert isinstance(packet, Sent)
        if packet.way == "<":
            tcp.ack(packet.sent_ns / 1e6 + 1.001, ">", packet)
        else:
            tcp.ack(packet.sent_ns / 1e6 + 0.001, "<", packet)
    return tcp


def at(side: str, *talks: Tcp, swap: dict[str, str] | None = None) -> list[Seen]:
    """What `side` captures of them; a packet is under way for 1 ms."""
    seen = [packet for tcp in talks for packet in tcp.seen_by(side, there_ms=1, back_ms=1, swap_addresses=swap)]
    return sorted(seen, key=lambda packet: packet.t_ns)


def rotated(folder: Path, seen: Sequence[Seen], parts: int, name: str = "cap{}.pcap") -> list[Path]:
    """The packets in so many files, one after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(seen) // parts)
    return [
        write_pcap(folder / name.format(part), list(seen[part * size : (part + 1) * size])) for part in range(parts)
    ]


def other_traffic(count: int = 5, begin_ms: float = 0) -> list[Seen]:
    """RPC that is not NFS."""
    tcp = Tcp(client=("10.0.0.1", 800), server=(SERVER, 111))
    for number in range(count):
        tcp.send(begin_ms + number, ">", null(number + 1, program=NFS - 3, version=2))
        tcp.send(begin_ms + number + 0.5, "<", reply(number + 1))
    return tcp.seen_by("client")
