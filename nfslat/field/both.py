"""One host or two -> a tar of scripts/capture.sh from each, of the same seconds; nothing stays on the hosts.

Both are asked at once, and whatever goes wrong with one ends the work on the other as well.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from nfslat.errors import InputError, UsageError
from nfslat.field import cost, probe
from nfslat.field.hosts import Hosts, Voice, connect
from nfslat.field.link import Link

MEASURE_S = 2  # of traffic, to know its rate: a burst longer than that is no burst
_ANSWER_S = 30.0
_READY_S = 90.0  # capture.sh takes a snapshot before, and looks at the traffic once more where there is much
_STALL_S = 60.0  # nothing came of a tar for so long
_AFTER_S = 120.0  # snapshot, clock and counters once more
_ENDED_EARLY = "nfslat: ended early"  # says capture.sh
_LATE_S = 15.0  # after its time a capture that does not say that it has ended is asked for its tar all the same


@dataclass(frozen=True)
class Wanted:
    """What is to be captured where; None leaves it to the hosts."""

    hosts: Mapping[str, str]  # of "server" and "client", or of one of them, as ssh takes them
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


def capture(wanted: Wanted, into: Path, voice: Voice) -> dict[str, Path]:
    """The tar of each side, in the folder `into`.

    Ctrl-C while it captures ends it early, with what there is; at any other moment, and the second one, it gives up.
    Raises ``InputError`` for all that can go wrong with a host, ``UsageError`` for hosts that make no sense.
    """
    with contextlib.ExitStack() as stack:
        links = connect(wanted.hosts, wanted.ssh, wanted.folder or "", wanted.seconds, voice, stack)
        hosts = Hosts(links, voice)
        facts = _probed(hosts, wanted)
        peers = _peers(hosts, facts, wanted, voice)
        arguments = {
            side: ["--peer", ",".join(peers[side]), "--side", side, "--port", str(wanted.port)]
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
        _refuse_full_home(costs, into)
        if not voice.confirm():
            raise InputError("nothing was captured")
        for side, link in links.items():
            link.tar = into / f"{side}.tar"
            limits = ["--seconds", wanted.seconds, "--snaplen", costs[side].snaplen]
            limits += ["--keep-free-mb", wanted.keep_free_mb]
            limits += ["--max-mb", wanted.max_mb] if wanted.max_mb else []
            link.ask("start", folders[side], *arguments[side], *map(str, limits), "--yes")
        hosts.echo = True
        try:
            _record(hosts, wanted, voice)
            _bring_home(hosts, voice)
        except BaseException:
            voice.progress("")
            _drop_unfinished(links.values(), voice)
            raise
        voice.progress("")
        return {side: link.tar for side, link in links.items() if link.tar is not None}


def _probed(hosts: Hosts, wanted: Wanted) -> dict[str, probe.Facts]:
    for link in hosts.links.values():
        link.ask("probe", str(wanted.port))
    facts = {side: probe.parse(text) for side, text in hosts.ask(_ANSWER_S, "looking at it").items()}
    wrong = [
        problem for side, link in hosts.links.items() if (problem := _what_is_missing(facts[side], link)) is not None
    ]
    if wrong:
        raise InputError("; ".join(wrong))
    if len(facts) > 1 and facts["server"].identity == facts["client"].identity:
        raise UsageError(
            f"--server {wanted.hosts['server']} and --client {wanted.hosts['client']} are the same machine: there is "
            "no network between them to look at; capture once, with tcpdump -i lo, and give nfslat that one file"
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
    if len(facts) < 2:
        return set()
    found = probe.other_clients(facts["server"], facts["client"], wanted.port)
    return found - {one for one in map(probe.address, peers["server"]) if one is not None}


def _peers(hosts: Hosts, facts: Mapping[str, probe.Facts], wanted: Wanted, voice: Voice) -> dict[str, Sequence[str]]:
    """Whom each side captures."""
    if len(facts) == 1:
        (side,) = facts
        return {side: _peers_of_one(side, facts[side], hosts.links[side], wanted, voice)}
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
                f"{name}: the rate of its NFS packets cannot be measured; the capture ends before its disk is full"
            )
        else:
            free = "" if one.free_mb is None else f" of {one.free_mb:,} MB free"
            voice.say(
                f"{name}: {one.packets_per_s:,} NFS packets/s, {one.bytes_per_s / 1e6:,.1f} MB/s; {wanted.seconds} s "
                f"of {cost.in_words(one.snaplen)} are at most {one.file_mb:,} MB{free}, and {one.core_percent:.1f} % "
                f"of one of {one.cpus} processors"
            )
        if one.snaplen != wanted.snaplen:
            voice.say(
                f"{name}: {cost.in_words(one.snaplen)} instead of {cost.in_words(wanted.snaplen)}, or it would write "
                "too much; operations may be missing whose headers are not the first of their packet (GRO, LRO, TSO), "
                "and these are often the slowest"
            )
        if one.doubt and one.packets_per_s is not None:
            voice.say(f"{name}: {one.doubt}; it looks closer before it starts, and may refuse (--force insists)")
    refused = [f"{hosts.links[side].name}: {one.refusal}" for side, one in costs.items() if one.refusal]
    if refused:
        raise InputError("; ".join(refused))


def _refuse_full_home(costs: Mapping[str, cost.Cost], into: Path) -> None:
    needed_mb, free_mb = sum(one.file_mb or 0 for one in costs.values()), shutil.disk_usage(into).free >> 20
    if needed_mb > free_mb:
        raise InputError(
            f"{into}: the captures may take {needed_mb:,} MB, and {free_mb:,} are free; give another --out"
        )


def _record(hosts: Hosts, wanted: Wanted, voice: Voice) -> None:
    """Until the captures have ended on both hosts."""
    ready = [when for when, _ in hosts.gather("ready", _READY_S, "starting the capture").values()]
    is_alone = len(ready) == 1
    apart = "" if is_alone else f"; they started {max(ready) - min(ready):.2f} s apart"
    voice.say(
        f"{'it captures' if is_alone else 'both capture'} now, for {wanted.seconds} s{apart}. Ctrl-C ends it early"
    )
    begin, end = max(ready), max(ready) + wanted.seconds + _LATE_S
    running, why = set(hosts.links), ""
    try:
        while running and not why and (now := time.monotonic()) < end:
            voice.progress(f"capturing: {min(now - begin, wanted.seconds):.0f} of {wanted.seconds} s")
            event = hosts.next(min(end, now + 1))
            if event is not None and event.what == "captured":
                running.discard(event.link.side)
            if event is not None and event.what == "said" and event.text.startswith(_ENDED_EARLY) and not is_alone:
                why = "stopping the other one as well, for only what both captured can be compared"
    except KeyboardInterrupt:
        why = f"stopping{'' if is_alone else ' both'}; what was captured is brought home (Ctrl-C again gives up)"
    if why:
        voice.say(why)
        for link in hosts.links.values():
            link.ask("stop")
        end = time.monotonic() + _LATE_S
        while running and time.monotonic() < end:
            event = hosts.next(end)
            if event is not None and event.what == "captured":
                running.discard(event.link.side)


def _bring_home(hosts: Hosts, voice: Voice) -> None:
    links = hosts.links.values()
    for link in links:
        link.ask("go")
    started = moved = time.monotonic()
    came = 0
    while not all(link.complete for link in links):
        now = time.monotonic()
        event = hosts.next(now + 1)
        if event is not None and event.what == "sent":
            event.link.finished = True
            event.link.ask("bye")
        total = sum(link.received_bytes for link in links)
        if total > came or event is not None:
            moved, came = time.monotonic(), total
        elif now - moved > (_STALL_S if came else _AFTER_S) and now - started > _STALL_S:
            late = next(link for link in links if not link.complete)
            raise InputError(f"{late.name}: its capture does not arrive; the connection hangs. Try again")
        voice.progress(f"bringing home: {came / 1e6:,.1f} MB")


def _drop_unfinished(links: Iterable[Link], voice: Voice) -> None:
    for link in links:
        if link.complete:
            voice.say(f"{link.tar} is complete, and kept")
        elif link.tar is not None:
            link.tar.unlink(missing_ok=True)
