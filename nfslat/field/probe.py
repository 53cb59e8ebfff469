"""What two hosts print of themselves -> by which addresses each sees the other's NFS.

ssh goes by a management network as often as not, and a host has many addresses. So both are asked for theirs and for
their connections to the port of NFS: one with both ends on the two hosts is what is to be captured.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator
from dataclasses import dataclass

from nfslat.errors import InputError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
_INET = re.compile(r"\binet6?\s+(?:addr:\s*)?([0-9a-fA-F:.]+)")
# ss, netstat of Linux, and of Solaris and BSD, which put a full stop in front of the port.
_END = re.compile(r"\[?([0-9a-fA-F:.]+?)(?:%[^\s\]]+)?\]?(?:%[^\s:]+)?[:.]([0-9]{1,5})")
_MOUNTED = re.compile(r"(?:^|[\s,])addr=([0-9a-fA-F:.]+)")
_SOURCE = re.compile(r"\bsrc ([0-9a-fA-F:.]+)")


@dataclass(frozen=True)
class Connection:
    """A connection as one host sees it."""

    local: Address
    local_port: int
    remote: Address
    remote_port: int


@dataclass(frozen=True)
class Facts:
    """What a host said; None where it did not."""

    values: dict[str, str]  # lines "key: value" of which there is one
    tools: tuple[str, ...]  # paths of tcpdump and snoop
    addresses: frozenset[Address]
    connections: tuple[Connection, ...]
    mounted: tuple[Address, ...]  # servers, as the options of mounts say

    @property
    def identity(self) -> tuple[str, ...]:
        """The same for two views of one machine and its network; containers have a network of their own."""
        boot, net = self.values.get("boot", ""), self.values.get("net", "")
        if boot:
            return boot, net
        return self.values.get("hostname", ""), *sorted(map(str, self.addresses))


@dataclass(frozen=True)
class Peers:
    """Whom each side captures: addresses of the client as the server sees them, and the other way round."""

    at_server: tuple[Address, ...]
    at_client: tuple[Address, ...]
    how: str  # in a sentence


def parse(text: str) -> Facts:
    """Of what agent.sh's `probe` prints; lines that make no sense are left out."""
    values: dict[str, str] = {}
    tools: list[str] = []
    addresses: set[Address] = set()
    connections: dict[Connection, None] = {}
    mounted: dict[Address, None] = {}
    for line in text.splitlines():
        key, colon, value = line.partition(": ")
        if not colon:
            continue
        match key:
            case "tool":
                tools.append(value.strip())
            case "address":
                addresses.update(one for text in _INET.findall(value) if (one := address(text)) is not None)
            case "connection":
                if (found := _connection(value)) is not None:
                    connections[found] = None
            case "mount":
                mounted |= {one: None for text in _MOUNTED.findall(value) if (one := address(text)) is not None}
            case _:
                values.setdefault(key, value.strip())
    ours = frozenset(one for one in addresses if not one.is_loopback)
    return Facts(values, tuple(tools), ours, tuple(connections), tuple(mounted))


def address(text: str) -> Address | None:
    """An address, in the form in which packets have it; None for anything else."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None
    return mapped or found


def source_of_route(text: str) -> Address | None:
    """The host's own address on the way that ``ip route get`` printed."""
    found = _SOURCE.search(text)
    return address(found[1]) if found else None


def find_peers(server: Facts, client: Facts, port: int) -> Peers | None:
    """By the connections that there are; None without one between the two hosts.

    Where addresses are translated on the way the ends do not agree; one end and the client's port then have to.
    Raises ``InputError`` where that leaves a choice.
    """
    served = [one for one in server.connections if one.local_port == port]
    called = [one for one in client.connections if one.remote_port == port]
    same = [
        (s, c)
        for s in served
        for c in called
        if (s.local, s.remote, s.remote_port) == (c.remote, c.local, c.local_port)
    ]
    if same:
        return _peers(same, f"{_count(same)} to port {port}")
    half = [(s, c) for s in served for c in called if s.remote_port == c.local_port and _one_end(s, c, server, client)]
    if half:
        return _peers(half, f"{_count(half)} to port {port}, with addresses translated (NAT)")
    # Both ends, or the port, are rewritten: only where nothing else can be meant.
    strangers = [one for one in served if not one.remote.is_loopback and one.remote not in client.addresses]
    aims = [one for one in called if not one.remote.is_loopback and one.remote not in server.addresses]
    to_server = [one for one in called if one.remote in server.addresses]
    if to_server and strangers:
        seen = {one.remote for one in strangers}
        if len(seen) > 1:
            raise InputError(
                f"addresses are translated between the two hosts, and {len(seen)} clients are connected to the server: "
                "say which it is with --client-addr, as the server sees it"
            )
        pairs = [(one, to_server[0]) for one in strangers[:1]]
        return _peers(pairs, f"a connection to port {port}, with the client's address translated (NAT)")
    if aims and any(one.remote in client.addresses for one in served):
        pairs = [(one, aims[0]) for one in served if one.remote in client.addresses]
        if len({one.remote for one in aims}) > 1:
            raise InputError(
                "addresses are translated between the two hosts, and the client is connected to several servers: say "
                "which it is with --server-addr, as the client sees it"
            )
        return _peers(pairs[:1], f"a connection to port {port}, with the server's address translated (NAT)")
    return None


def mounted_server(server: Facts, client: Facts) -> Address | None:
    """The server's address in the client's mounts: NFS closes a connection that is idle for minutes."""
    return next((one for one in client.mounted if one in server.addresses), None)


def other_clients(server: Facts, client: Facts, port: int) -> set[Address]:
    """Who is connected to the server, and is neither of the two hosts by an address of its own."""
    served = {one.remote for one in server.connections if one.local_port == port and not one.remote.is_loopback}
    return served - server.addresses - client.addresses


def clients_of(server: Facts, port: int) -> list[Address]:
    """Who is connected to a server of which alone is known."""
    return sorted({one.remote for one in server.connections if one.local_port == port}, key=str)


def servers_of(client: Facts, port: int) -> list[Address]:
    """Whom a client of which alone is known has connections with, else whom its mounts name. A proxy on the loopback
    (as of EFS with TLS) is one only where there is no other."""
    found = {one.remote for one in client.connections if one.remote_port == port} or set(client.mounted)
    return sorted({one for one in found if not one.is_loopback} or found, key=str)


def _one_end(s: Connection, c: Connection, server: Facts, client: Facts) -> bool:
    return (s.local == c.remote and c.remote in server.addresses) or (
        s.remote == c.local and s.remote in client.addresses
    )


def _peers(pairs: list[tuple[Connection, Connection]], how: str) -> Peers:
    at_server = dict.fromkeys(s.remote for s, _ in pairs)
    at_client = dict.fromkeys(c.remote for _, c in pairs)
    return Peers(tuple(sorted(at_server, key=str)), tuple(sorted(at_client, key=str)), how)


def _count(pairs: list[tuple[Connection, Connection]]) -> str:
    return f"{len(pairs)} connections" if len(pairs) > 1 else "a connection"


def _connection(text: str) -> Connection | None:
    ends = list(_ends(text))
    return Connection(*ends[0], *ends[1]) if len(ends) >= 2 else None


def _ends(text: str) -> Iterator[tuple[Address, int]]:
    for word in text.split():
        found = _END.fullmatch(word)
        if found and (one := address(found[1])) is not None and 0 < int(found[2]) < 1 << 16:
            yield one, int(found[2])
