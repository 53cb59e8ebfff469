"""What ``ss -tino`` prints -> the state of each TCP connection, as its host's kernel has it.

Sources: ss(8); iproute2 misc/ss.c, tcp_stats_print. rtt, rto and ato are ms; cwnd is segments; retrans is those in
flight, then all since the connection began; wscale is the peer's shift, then that of this host.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from nfslat.errors import InputError
from nfslat.evidence.printed import address_of
from nfslat.evidence.records import Evidence, Socket

if TYPE_CHECKING:  # help, which lists what can be read, does not wait for numpy
    from nfslat.model.tables import Connection

_END = re.compile(r"(?:\[([0-9a-fA-F:.]{2,45})\]|([0-9a-fA-F:.]{2,45}))(?:%\w{1,15})?:(\d{1,5})$")
_FIGURE = re.compile(
    r"(?<![\w(])(\w{1,20}):(\d{1,18}(?:\.\d{1,9})?)(?:[/,](\d{1,18}(?:\.\d{1,9})?))?(?=\s|$)", re.ASCII
)
_TOLD = re.compile(r"(?<!\w)(?:rto|rtt|wscale|cwnd):\d")
_LONGEST, _MOST = 4096, 10_000


def read(lines: Iterable[str], _: str) -> Evidence:
    """Connections, which are joined with those of the captures; raises ``InputError`` where none has figures."""
    if not (sockets := every(lines)):
        raise InputError("no TCP connection with its figures can be read: give what ss -tino prints")
    return Evidence(record=sockets)


def every(lines: Iterable[str]) -> tuple[Socket, ...]:
    """Those that have figures."""
    found: list[Socket] = []
    for line in lines:
        text = line[:_LONGEST]
        ends = [end for word in text.split()[:8] if (end := _endpoint(word))] if not text[:1].isspace() else []
        told = {name: tuple(float(one) for one in (a, b) if one) for name, a, b in _FIGURE.findall(text)}
        if len(ends) >= 2 and len(found) < _MOST:
            ports = {str(port) for _, port in ends}
            found.append(Socket(ends[0], ends[1], {} if not _TOLD.search(text) else _without(told, ports)))
        elif found and not found[-1].figures and _TOLD.search(text):
            found[-1] = Socket(found[-1].local, found[-1].peer, told)
    return tuple(one for one in found if one.figures)


def _without(told: Mapping[str, tuple[float, ...]], ports: set[str]) -> dict[str, tuple[float, ...]]:
    return {name: values for name, values in told.items() if not (name.isdigit() and str(int(values[0])) in ports)}


def _endpoint(word: str) -> tuple[str, int] | None:
    match = _END.match(word)
    address = address_of(match[1] or match[2], local=True) if match and int(match[3]) <= 65_535 else ""
    return (address, int(match[3])) if match and address else None


def of_connections(sockets: Iterable[Socket], connections: Iterable[Connection], clients: set[str]) -> list[str]:
    """A sentence for each connection of the captures that ss shows; `clients` are the addresses of clients."""
    known = {one.key for one in connections if one.transport == "tcp"}
    said = []
    for one in sockets:
        if ("tcp", *sorted([one.local, one.peer])) in known:
            side = "client" if one.local[0] in clients else "server"
            said.append(f"{_named(one.local)} to {_named(one.peer)}, as the {side} has it: {', '.join(_words(one))}")
    return said


def _named(end: tuple[str, int]) -> str:
    return f"[{end[0]}]:{end[1]}" if ":" in end[0] else f"{end[0]}:{end[1]}"


def _words(one: Socket) -> Sequence[str]:
    said = []
    for name, words in (
        ("rtt", "rtt {:g} ms"),
        ("minrtt", "at least {:g} ms"),
        ("ato", "ACKs delayed by up to {:g} ms (ato)"),
        ("cwnd", "cwnd {:g} segments"),
        ("mss", "mss {:g}"),
        ("rto", "rto {:g} ms"),
    ):
        value = one.figure(name)
        said += [] if value is None else [words.format(value)]
    theirs, own = one.figure("wscale"), one.figure("wscale", 1)
    if theirs is not None and own is not None:
        said.append(f"window scale {own:g}, the peer's {theirs:g}")
    again = one.figure("retrans", 1)
    said.append(f"{int(again or 0):,} segments retransmitted since it began")
    return said
