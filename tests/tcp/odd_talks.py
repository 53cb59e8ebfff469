"""Conversations that hang, or in which something is odd, for tests of what is said of them."""

from __future__ import annotations

from timeline import Timeline

from nfslat.tcp.packets import ACK

BACKOFF = (200, 600, 1400, 3000, 6200, 12_600)  # ms after the first transmission: twice as long each time


def talk() -> Timeline:
    """A request and its answer, all acknowledged, at 20 ms."""
    line = Timeline()
    line.handshake(0)
    line.send(10, ">", 100)
    line.send(15, "<", 400)
    line.ack(20, ">")
    return line


def shut(*, probes: tuple[float, ...] = BACKOFF) -> Timeline:
    """The server's window closes at 101 ms; each probe is answered."""
    line = talk()
    line.send(100, ">", 1460)
    line.ack(101, "<", window=0)
    for at in probes:
        line.add(101 + at, ">", line.next[">"] - 1, 0, line.next["<"], ACK)
        line.ack(101.2 + at, "<")
    return line


def sent_again(at: tuple[float, ...] = BACKOFF) -> Timeline:
    """The last request is sent again and again; nothing comes any more."""
    line = talk()
    line.send(100, ">", 300)
    for ms in at:
        line.send(100 + ms, ">", 300, seq=100)
    return line


def bulk(segments: int = 30) -> Timeline:
    line = Timeline()
    line.handshake(0)
    for number in range(segments):
        line.send(10 + number, ">", 1000)
        line.ack(10.2 + number, "<")
    return line


def lost(duplicates: int) -> Timeline:
    """The packet at 5000 was lost in front of the capture; so many ACKs ask for it, and it is sent again at 40 ms."""
    line = bulk(5)
    for number in range(4):
        line.send(20 + number, ">", 1000, seq=6000 + 1000 * number, ack=0)
        if number < duplicates:
            line.ack(20.2 + number, "<", ack=5000)
    line.send(40, ">", 1000, seq=5000, ack=0)
    line.ack(40.2, "<", ack=10_000)
    return line


def with_fin(*, data_ms: float) -> Timeline:
    """A FIN at 20 ms ends the stream behind the last packet, which goes by at `data_ms`."""
    line = bulk(5)
    line.send(data_ms, ">", 1000)
    line.fin(20, ">")
    line.ack(22, "<", ack=6001)
    return line
