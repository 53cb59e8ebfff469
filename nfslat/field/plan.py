"""Hosts that answer -> whom each of them captures, and what that costs there; or why it is not to be done."""

from __future__ import annotations

import itertools
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from nfslat.errors import InputError, UsageError
from nfslat.field import cost, probe
from nfslat.field.hosts import Hosts, Voice
from nfslat.field.link import Link

MEASURE_S = 2  # of traffic, to know its rate: a burst longer than that is no burst
_ANSWER_S = 30.0


@dataclass(frozen=True)
class Wanted:
    """What is to be captured where; None leaves it to the hosts."""

    hosts: Mapping[str, str]  # as ssh takes them, of "server", "client", and further clients: "client2", "client3"
    seconds: int = 20
    port: int = 2049
    ssh: str = "ssh"
    snaplen: int = 0  # 0: whole packets, as far as that can be borne
    keep_free_mb: int = 512
    max_mb: int | None = None
    folder: str | None = None  # on the hosts
    server_address: str | None = None  # as the client sees it
    client_address: str | None = None  # as the server sees it
    interfaces: Mapping[str, str | None] | None = None
    only_client: bool = False  # else the calls of the server's other clients as well: they take threads, too
    force: bool = False

    @property
    def clients(self) -> list[str]:
        """Of the sides, those."""
        return [side for side in self.hosts if side != "server"]


@dataclass(frozen=True)
class Plan:
    """Of one host."""

    arguments: Sequence[str]  # of capture.sh: whom it captures, and where
    cost: cost.Cost
    folder: str  # there, with room for the files


def role(side: str) -> str:
    """Of the first client, the second and so on: client."""
    return side.rstrip(string.digits)


def plans(hosts: Hosts, wanted: Wanted) -> dict[str, Plan]:
    """Of each side; what they cost is said. Raises ``InputError`` and ``UsageError`` for what cannot be captured."""
    voice, links = hosts.voice, hosts.links
    facts = _probed(hosts, wanted)
    peers = _all_peers(hosts, facts, wanted)
    arguments = {
        side: ["--peer", ",".join(peers[side]), "--side", role(side), "--port", str(wanted.port)]
        + (["--interface", name] if (name := (wanted.interfaces or {}).get(side)) else [])
        + (["--force"] if wanted.force else [])
        for side in links
    }
    others = set() if wanted.only_client else _others(facts, peers, wanted)
    if others:
        voice.say(
            f"{links['server'].name}: it has other clients, too ({len(others)}), whose calls take threads as well: "
            "captured with it (not with --only-client)"
        )
        arguments["server"].append("--all-peers")
    costs, folders = _measured(hosts, arguments, wanted)
    _show(hosts, costs, wanted, voice)
    return {side: Plan(arguments[side], costs[side], folders[side]) for side in links}


def _probed(hosts: Hosts, wanted: Wanted) -> dict[str, probe.Facts]:
    for link in hosts.links.values():
        link.ask("probe", str(wanted.port))
    facts = {side: probe.parse(text) for side, text in hosts.ask(_ANSWER_S, "looking at it").items()}
    wrong = [
        problem for side, link in hosts.links.items() if (problem := _what_is_missing(facts[side], link)) is not None
    ]
    if wrong:
        raise InputError("; ".join(wrong))
    for one, other in itertools.combinations(facts, 2):
        if facts[one].identity == facts[other].identity:
            why = "there is no network between them to look at; capture once, with tcpdump -i lo, and give nfslat that "
            raise UsageError(
                f"--{role(one)} {wanted.hosts[one]} and --client {wanted.hosts[other]} are the same machine: "
                + (f"{why}one file" if one == "server" else "give one of them")
            )
    return facts


def _what_is_missing(facts: probe.Facts, link: Link) -> str | None:
    if not facts.tools:
        tool = "snoop" if facts.values.get("system") == "SunOS" else "tcpdump"
        return f"{link.name}: there is no tcpdump; install {tool} there"
    if facts.values.get("may") == "yes":
        return None
    host = link.host.rpartition("@")[2]
    if "sudo" not in facts.values:
        return f"{link.name}: capturing needs root, and there is no sudo; log in as root (root@{host})"
    return (
        f"{link.name}: capturing needs root, and sudo asks for a password there; log in as root (root@{host}), or "
        "allow this user sudo without a password (NOPASSWD)"
    )


def _others(facts: Mapping[str, probe.Facts], peers: Mapping[str, Sequence[str]], wanted: Wanted) -> set[probe.Address]:
    """Clients of the server that its filter would leave out; of a server alone, none."""
    if "server" not in facts or not wanted.clients:
        return set()
    each = [probe.other_clients(facts["server"], facts[side], wanted.port) for side in wanted.clients]
    found = set.intersection(*each)
    return found - {one for one in map(probe.address, peers["server"]) if one is not None}


def _all_peers(hosts: Hosts, facts: Mapping[str, probe.Facts], wanted: Wanted) -> dict[str, Sequence[str]]:
    """Whom each side captures: a server with several clients all of these."""
    if "server" not in facts or not wanted.clients:
        return {
            side: _peers_of_one(role(side), one, hosts.links[side], wanted, hosts.voice) for side, one in facts.items()
        }
    peers: dict[str, Sequence[str]] = {"server": []}
    for side in wanted.clients:
        links = {"server": hosts.links["server"], "client": hosts.links[side]}
        both = {"server": facts["server"], "client": facts[side]}
        found = _peers(Hosts(links, hosts.voice), both, wanted, hosts.voice)
        peers["server"] = [*peers["server"], *found["server"]]
        peers[side] = found["client"]
    return peers


def _peers(hosts: Hosts, facts: Mapping[str, probe.Facts], wanted: Wanted, voice: Voice) -> dict[str, Sequence[str]]:
    """Whom each of the two captures."""
    if wanted.server_address and wanted.client_address:
        return {"server": [wanted.client_address], "client": [wanted.server_address]}
    found = probe.find_peers(facts["server"], facts["client"], wanted.port)
    if found is None and (mounted := probe.mounted_server(facts["server"], facts["client"])) is not None:
        own = _own_address(hosts, mounted)
        if own is not None:
            found = probe.Peers((own,), (mounted,), "a mount without a connection (it is idle)")
    if found is None:
        _refuse_strangers(hosts, facts, wanted)
    peers: dict[str, Sequence[str]] = {
        "server": [wanted.client_address] if wanted.client_address else list(map(str, found.at_server)),
        "client": [wanted.server_address] if wanted.server_address else list(map(str, found.at_client)),
    }
    voice.say(f"found {found.how}: client {', '.join(peers['server'])}, server {', '.join(peers['client'])}")
    return peers


def _peers_of_one(side: str, facts: probe.Facts, link: Link, wanted: Wanted, voice: Voice) -> Sequence[str]:
    """Whom the only host captures: a client its server, a server all of its clients."""
    given = wanted.server_address if side == "client" else wanted.client_address
    if given:
        return [given]
    if side == "server":
        found = probe.clients_of(facts, wanted.port)
        if not found:
            raise InputError(
                f"{link.name}: no client is connected to its port {wanted.port}: is it mounted, and used now? Else "
                "give --client-addr"
            )
        voice.say(
            f"found {len(found)} client{'s' * (len(found) > 1)} of {link.name}: captured without any on their side"
        )
        return ["any"]
    found = probe.servers_of(facts, wanted.port)
    if not found:
        raise InputError(
            f"{link.name}: it has no connection to port {wanted.port}, and no mount says where its server is: is it "
            "mounted, and used now? Else give --server-addr"
        )
    names = ", ".join(map(str, found))
    several = f"it has {len(found)} servers, all captured (--server-addr takes one): "
    voice.say(f"{link.name}: {several if len(found) > 1 else 'its server is '}{names}")
    return [str(one) for one in found]


def _own_address(hosts: Hosts, server: probe.Address) -> probe.Address | None:
    """The client's, on the way to the server."""
    client = hosts.links["client"]
    client.ask("route", str(server))
    one = Hosts({"client": client}, hosts.voice)
    one.gather("end", _ANSWER_S, "looking for the way to the server")
    return probe.source_of_route(client.answer())


def _refuse_strangers(hosts: Hosts, facts: Mapping[str, probe.Facts], wanted: Wanted) -> NoReturn:
    server, client = (hosts.links[side].host for side in ("server", "client"))
    if probe.find_peers(facts["client"], facts["server"], wanted.port) is not None:
        raise UsageError(f"it is the other way round: give --server {client} --client {server}")
    counts = {side: len(facts[side].connections) for side in facts}
    raise InputError(
        f"there is no NFS connection between {server} and {client} (port {wanted.port}: {counts['server']} on the "
        f"server, {counts['client']} on the client, none of them common): is it mounted, and used now? Else give "
        "--server-addr and --client-addr"
    )


def _measured(
    hosts: Hosts, arguments: Mapping[str, Sequence[str]], wanted: Wanted
) -> tuple[dict[str, cost.Cost], dict[str, str]]:
    """What it costs on each host, and the folder in which each will have its files."""
    for side, link in hosts.links.items():
        folder = ["--dir", wanted.folder] if wanted.folder else []
        link.ask("measure", "--measure", str(MEASURE_S), *arguments[side], *folder)
    costs, folders = {}, {}
    for side, text in hosts.ask(_ANSWER_S + MEASURE_S, "measuring").items():
        measured = {key: value for key, colon, value in (line.partition(": ") for line in text.splitlines()) if colon}
        costs[side] = cost.estimate(
            measured, wanted.seconds, wanted.snaplen, keep_free_mb=wanted.keep_free_mb, max_mb=wanted.max_mb
        )
        folders[side] = measured.get("dir") or wanted.folder or "/tmp"  # noqa: S108 - of the host; it says which
    return costs, folders


def _show(hosts: Hosts, costs: Mapping[str, cost.Cost], wanted: Wanted, voice: Voice) -> None:
    """What it will cost; raises ``InputError`` where that is too much."""
    for side, one in costs.items():
        name = hosts.links[side].name
        if one.packets_per_s is None or one.bytes_per_s is None:
            voice.say(
                f"{name}: the rate of its NFS packets cannot be measured"
                + ("; the capture ends before its disk is full" if wanted.seconds else "")
            )
        else:
            free = "" if one.free_mb is None or not wanted.seconds else f" of {one.free_mb:,} MB free"
            span = f"{wanted.seconds} s of {cost.in_words(one.snaplen)} are"
            if not wanted.seconds:
                span = f"a second of {cost.in_words(one.snaplen)} is"
            voice.say(
                f"{name}: {one.packets_per_s:,} NFS packets/s, {one.bytes_per_s / 1e6:,.1f} MB/s; {span} at most "
                f"{one.file_mb:,} MB{free}, and {one.core_percent:.1f} % of one of {one.cpus} processors"
            )
        if one.snaplen != wanted.snaplen:
            voice.say(
                f"{name}: {cost.in_words(one.snaplen)} instead of {cost.in_words(wanted.snaplen)}, or it would "
                f"{'write' if wanted.seconds else 'send'} too much; operations may be missing whose headers are not "
                "the first of their packet (GRO, LRO, TSO), and these are often the slowest"
            )
        if one.doubt and one.packets_per_s is not None:
            voice.say(f"{name}: {one.doubt}; it looks closer before it starts, and may refuse (--force insists)")
    refused = [f"{hosts.links[side].name}: {one.refusal}" for side, one in costs.items() if one.refusal]
    if refused:
        raise InputError("; ".join(refused))
