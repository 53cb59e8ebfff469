"""NFS over TCP that hangs, or only looks so, packet by packet, for tests of what is said of it."""

from __future__ import annotations

import wire

BACKOFF = (200, 600, 1400, 3000, 6200, 12_600)  # ms after the first transmission: twice as long each time
AT = 1000.0  # ms: when the connection begins to hang
END = 20_000.0  # of the captures, which another connection keeps going
SYN, RST, ACK = 0x02, 0x14, 0x10


def served(port: int = 700, host: str = "10.0.0.1") -> wire.Tcp:
    """Calls and their replies, all acknowledged, until 200 ms."""
    tcp = wire.Tcp(client=(host, port))
    tcp.syn(0)
    for number in range(20):
        ask(tcp, 10.0 * (number + 1), number + 1)
    return tcp


def ask(tcp: wire.Tcp, t_ms: float, xid: int) -> None:
    """A call, its reply and the ACK of that."""
    tcp.send(t_ms, ">", wire.read(xid, count=64))
    tcp.send(t_ms + 1, "<", wire.reply(xid, wire.read3(64)))
    tcp.ack(t_ms + 2, ">")


def others(until_ms: float = END) -> wire.Tcp:
    """A connection that is served all the time."""
    tcp = served(701)
    for number in range(int(until_ms // 500) + 1):
        ask(tcp, 300 + number * (until_ms - 400) / (until_ms // 500), 1000 + number)
    return tcp


def sent_again(
    at: tuple[float, ...] = BACKOFF, way: str = ">", *, port: int = 700, host: str = "10.0.0.1"
) -> tuple[wire.Tcp, list[wire.Sent]]:
    """The last message that goes one way is sent again and again; and its transmissions."""
    tcp = served(port, host)
    if way == ">":
        tries = tcp.send(AT, ">", wire.read(99))
    else:
        tcp.send(AT - 1, ">", wire.read(99))
        tries = tcp.send(AT, "<", wire.reply(99, wire.read3(64)))
    tries += [tcp.again(AT + ms, tries[0]) for ms in at]
    return tcp, tries


def shut(probes: tuple[float, ...] = BACKOFF, *, answered: bool = True) -> wire.Tcp:
    """The server shuts its window when it has a WRITE; what is more is not sent, and the window is probed."""
    tcp = served()
    tcp.send(AT - 1, ">", wire.write(99, count=512))
    tcp.window["<"] = 0
    tcp.ack(AT, "<")
    for ms in probes:
        tcp.raw(AT + ms, ">", tcp.next[">"] - 1, b"", flags=ACK)
        if answered:
            tcp.ack(AT + ms + 0.3, "<")
    return tcp
