"""Conversations with something to see in their graphs, for tests of pictures, charts and pages."""

from __future__ import annotations

from pathlib import Path

from timeline import Timeline

from nfslat.tcp import model, report
from nfslat.tcp.packets import ACK, SYN, Trace

TOOL = model.Tool("0", "test", "nfslat transport")
SCALE = 7


def wan(bursts: int = 60, *, every: int = 10, late_ms: float = 40, rtt_ms: float = 8, again: int = 0) -> Timeline:
    """Four packets of a Data Guard that ships redo, 2 ms apart, over and over; the ACK of each `every`th four comes
    `late_ms` late and covers them all. `again` of the bursts lose a packet, which is sent once more 300 ms later."""
    line = Timeline(mss=1448, scale=SCALE)
    line.windows["<"] = 500
    # Captured at the sender.
    line.add(0, ">", -1, 0, None, SYN)
    line.add(rtt_ms, "<", -1, 0, 0, SYN | ACK)
    line.add(rtt_ms + 0.05, ">", 0, 0, 0, ACK)
    at = 20.0
    for burst in range(bursts):
        sent = line.next[">"]
        for number in range(4):
            line.send(at + 2 * number, ">", 1448 if number < 3 else 3844)
        if every and burst % every == every // 2:
            line.ack(at + rtt_ms + late_ms, "<")
            at += late_ms - 6
        else:
            for number in range(4):
                covered = sent + sum((1448, 1448, 1448, 3844)[: number + 1])
                line.ack(at + 2 * number + rtt_ms, "<", ack=covered)
        at += 6 + rtt_ms + 0.1
        if burst < again:
            lost = line.send(at, ">", 1448)
            line.send(at + 300, ">", 1448, seq=lost.seq)
            line.ack(at + 300 + rtt_ms, "<")
            at += 300 + rtt_ms + 0.1
    return line


def report_of(trace: Trace, *, drawn: int = 8) -> model.Report:
    """The report on one capture, with what graphs are drawn from."""
    return report.make([trace], None, TOOL, stream=None, top=1, trace=None, drawn=drawn)


def capture(folder: Path, line: Timeline, name: str = "line.pcap") -> Path:
    """A file of it."""
    return line.write(folder / name)
