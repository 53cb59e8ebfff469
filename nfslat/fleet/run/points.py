"""Files in, capture points out: one of the server, one of each client, by the addresses and times in their packets."""

from __future__ import annotations

import ipaddress
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from nfslat.answer.words import some_of
from nfslat.errors import InputError
from nfslat.fleet.run import roles
from nfslat.fleet.run.capture import CaptureFacts
from nfslat.fleet.run.heads import Head, look
from nfslat.fleet.run.inputs import Input, Problem, by_numbers
from nfslat.fleet.run.manifest import Manifest
from nfslat.fleet.run.roles import CLIENT, SERVER, Common, Unit

_MANIFEST = "say whose the files are in a manifest (--manifest)"


@dataclass(frozen=True)
class Point:
    """One place where packets were captured."""

    role: str  # "server" or "client"
    name: str  # a client's: the manifest's, or its address; the server's address
    addresses: tuple[str, ...]  # a client's, as the server sees them first; the server's
    files: tuple[Input, ...]  # in time order
    facts: CaptureFacts | None = None  # of its only file, where that was read to its end when it was looked at


@dataclass(frozen=True)
class Points:
    """All points of a fleet, and what is of none."""

    server: Point | None  # None: there is no capture of it
    clients: tuple[Point, ...]  # without files: what a manifest names, and the server's capture may show
    unused: tuple[Problem, ...]
    notes: tuple[str, ...]


def find_points(files: Sequence[Input], manifest: Manifest | None = None) -> Points:
    """Look at all files, several at once, and `assign` them."""
    with ThreadPoolExecutor(max_workers=min(os.cpu_count() or 1, 8)) as pool:
        return assign(list(pool.map(look, files)), manifest)


def assign(heads: Sequence[Head], manifest: Manifest | None = None) -> Points:
    """Whose is each file? `heads` in the order in which the files were given.

    Raises ``InputError`` where nothing in them is a capture of either.
    """
    return _Assignment(heads, manifest or Manifest("")).points()


@dataclass(frozen=True)
class _Group:
    """Captures of one client."""

    name: str  # in the manifest; "" where it has none
    keys: set[str]  # addresses in the packets
    addresses: list[str]
    units: list[Unit]


def _joined(groups: Iterable[_Group]) -> list[_Group]:
    """Captures of one host become one client: those that the manifest calls alike, or that share an address."""
    out: list[_Group] = []
    for group in groups:
        made = group
        for one in list(out):
            alike = one.name == made.name if one.name and made.name else bool(one.keys & made.keys)
            if alike:
                out.remove(one)
                addresses = list(dict.fromkeys([*one.addresses, *made.addresses]))
                made = _Group(one.name or made.name, one.keys | made.keys, addresses, [*one.units, *made.units])
        out.append(made)
    return out


class _Assignment:
    """What becomes of the files, step by step."""

    def __init__(self, heads: Sequence[Head], manifest: Manifest) -> None:
        self.manifest = manifest
        self.owners = manifest.owners()
        self.heads = heads
        self.unused: list[Problem] = []
        self.notes: list[str] = []

    def points(self) -> Points:
        active, quiet = self.sorted_out()
        units = roles.make_units(active, self.owners)
        servers = self.server_addresses(units)
        roles.restrict(units, servers)
        common = Common(units)
        roles.give_roles(units, common)
        more = servers | self.further_addresses(units, servers)
        if more != servers:
            servers = more
            roles.restrict(units, servers)
            for unit in units:
                unit.role, unit.by_order = "", False
            roles.give_roles(units, common)
        of_server = [unit for unit in units if unit.role == SERVER]
        of_server = self.each_once(of_server, units, common)
        clients = self.clients(units, of_server, servers, common)
        self.place(quiet, of_server, clients)
        if not of_server and not clients:
            why = f": {self.unused[0].name}: {self.unused[0].why}" if self.unused else ""
            raise InputError(f"no capture of the server {_shown(servers)}, nor of a client of it{why}; {_MANIFEST}")
        self.tell_what_is_inferred(servers, of_server, clients)
        if any(unit.by_order for unit in units):
            self.notes.append(
                f"nothing but the order of the arguments says that {_names_of(of_server)} was taken on the "
                f"server; {_MANIFEST} where it was not"
            )
        point = _point(SERVER, _in_order(servers)[0], _in_order(servers), of_server) if of_server else None
        made = [_point(CLIENT, name, addresses, those) for name, (addresses, those) in clients.items()]
        if of_server:
            self.tell_of_hidden(made, of_server)
            made += [
                Point(CLIENT, one.name, one.addresses, ())
                for one in self.manifest.clients
                if one.addresses and one.name not in clients
            ]
        made.sort(key=lambda client: by_numbers(client.name))
        return Points(point, tuple(made), tuple(self.unused), tuple(self.notes))

    def sorted_out(self) -> tuple[list[Head], list[Head]]:
        """(those with NFS, those without) of the files that can be read; each packet once."""
        if not self.heads:
            raise InputError("no capture is left to look at; give the server's files and the clients'")
        active: list[Head] = []
        quiet: list[Head] = []
        seen: dict[int, list[Head]] = defaultdict(list)
        for head in self.heads:
            if head.problem:
                self.unused.append(Problem(head.file.name, head.problem))
            elif head.first_ns is None:
                self.unused.append(Problem(head.file.name, "the capture holds no packets", fatal=False))
            elif not head.pairs:
                quiet.append(head)
            elif (same := next((one for one in seen[head.first_ns] if roles.is_same(one, head)), None)) is not None:
                why = f"the same packets as in {same.file.name}; one of the two is enough"
                self.unused.append(Problem(head.file.name, why, fatal=False))
            else:
                active.append(head)
                seen[head.first_ns].append(head)
        if not active:
            first = f" ({self.unused[0].name}: {self.unused[0].why})" if self.unused and not quiet else ""
            raise InputError(
                f"no NFS calls at the beginning of any of {len(self.heads):,} files{first}; "
                "were they taken on the interface that NFS goes through?"
            )
        return active, quiet

    def server_addresses(self, units: Sequence[Unit]) -> set[str]:
        """Addresses of the server: the manifest's, or the one that most clients call."""
        if self.manifest.server.addresses:
            return set(self.manifest.server.addresses)
        named = [unit for unit in units if unit.owner == ""]
        callers: dict[str, set[str]] = defaultdict(set)
        shown: Counter[str] = Counter()
        for unit in named or units:
            for client, server in {(pair.client, pair.server) for head in unit.heads for pair in head.pairs}:
                callers[server].add(client)
                shown[server] += 1
        # Of equals the one that more files show, then the one that is named first: max takes the first of equals.
        return {max(callers, key=lambda server: (len(callers[server] - {server}), shown[server]))}

    def further_addresses(self, units: Sequence[Unit], servers: set[str]) -> set[str]:
        """What else is called in the server's own captures, by others than the server."""
        return {
            pair.server
            for unit in units
            if unit.role == SERVER
            for head in unit.heads
            for pair in head.pairs
            if pair.client not in servers and pair.near != CLIENT
        }

    def each_once(self, those: list[Unit], units: Sequence[Unit], common: Common) -> list[Unit]:
        """Without what shows the same ops as a larger capture at the same end."""
        at = {id(unit): number for number, unit in enumerate(units)}
        kept: list[Unit] = []
        for unit in sorted(those, key=lambda unit: -unit.size_bytes):
            twin = next((one for one in kept if common.share(at[id(one)], at[id(unit)])), None)
            if twin is None or unit.owner is not None:
                kept.append(unit)
                continue
            names = _names_of([twin])
            self.leave(unit, f"shows the same calls from the same end as {names}; one of the two is enough", False)
        return sorted(kept, key=lambda unit: unit.order)

    def clients(
        self, units: Sequence[Unit], of_server: Sequence[Unit], servers: set[str], common: Common
    ) -> dict[str, tuple[list[str], list[Unit]]]:
        """name -> (addresses, units) of each client."""
        shown = {client for unit in of_server for client in unit.clients}
        all_shown = bool(of_server) and all(unit.is_whole for unit in of_server)
        groups: list[_Group] = []
        for unit in units:
            if unit.role == SERVER:
                continue
            own = _in_order(unit.clients)
            outer = [] if own and shown & set(own) else roles.addresses_behind(unit, of_server)
            entry = self.manifest.client(unit.owner) if unit.owner else None
            entry = entry or next((e for a in (*own, *outer) if (e := self.manifest.client_at(a)) is not None), None)
            told = list(entry.addresses) if entry else []
            if not own and not outer and not told:
                self.leave_stranger(unit, servers)
                continue
            addresses = list(dict.fromkeys([*outer, *told, *own]))
            if all_shown and not shown & set(addresses):
                why = f"the server's capture does not show {some_of(addresses)}"
                hint = f"where its address is another one there, {_MANIFEST} with the addresses that the server sees"
                self.leave(unit, f"{why}; were both taken at the same time? {hint}")
                continue
            if outer:
                names = _names_of([unit])
                self.notes.append(f"{names}: the server sees this client as {some_of(outer)} (same calls)")
            groups.append(_Group(entry.name if entry else "", {*own, *outer}, addresses, [unit]))
        return {
            group.name or group.addresses[0]: (group.addresses, self.each_once(group.units, units, common))
            for group in _joined(groups)
        }

    def place(
        self, quiet: Sequence[Head], of_server: Sequence[Unit], clients: dict[str, tuple[list[str], list[Unit]]]
    ) -> None:
        """Files without NFS stay in the rotation that they are part of."""
        points = {"": list(of_server)} if of_server else {}
        points |= {name: those for name, (_, those) in clients.items()}
        families: dict[str, set[str]] = defaultdict(set)
        for name, those in points.items():
            for unit in those:
                for head in unit.heads:
                    families[roles.family_of(head)].add(name)
        for head in quiet:
            owner = self.owners.get(head.file.identity)
            fitting = families.get(roles.family_of(head), set()) if owner is None else {owner} & points.keys()
            if len(fitting) == 1:
                points[next(iter(fitting))][0].heads.append(head)
            else:
                why = "no NFS calls at its beginning; where there are some later on, name it in a manifest (--manifest)"
                self.unused.append(Problem(head.file.name, why, fatal=owner is not None))

    def leave_stranger(self, unit: Unit, servers: set[str]) -> None:
        pairs = [pair for head in unit.heads for pair in head.pairs]
        called = _shown({pair.server for pair in pairs})
        callers = len({pair.client for pair in pairs})
        who = f"{callers:,} clients call" if callers > 1 else f"{pairs[0].client} calls"
        self.leave(
            unit,
            f"{who} {called}, not {_shown(servers)}, which most clients share; where both are one server, or addresses "
            "are translated in between, name its addresses in a manifest (--manifest)",
        )

    def leave(self, unit: Unit, why: str, fatal: bool = True) -> None:
        self.unused += [Problem(head.file.name, why, fatal) for head in unit.heads]

    def tell_what_is_inferred(
        self, servers: set[str], of_server: Sequence[Unit], clients: dict[str, tuple[list[str], list[Unit]]]
    ) -> None:
        if not of_server:
            self.notes.append(
                f"there is no capture of the server {_shown(servers)}: its times are inferred from each client's own "
                "capture, by that client's clock; of its threads, which serve all, nothing is known"
            )
        elif not clients:
            self.notes.append(
                f"there is no capture of a client of the server {_shown(servers)}: what each of them saw is inferred "
                "from the server's, as far as its packets bear it"
            )

    def tell_of_hidden(self, clients: Sequence[Point], of_server: Sequence[Unit]) -> None:
        shown = {client for unit in of_server for client in unit.clients}
        hidden = [client.name for client in clients if not shown & set(client.addresses)]
        if hidden:
            self.notes.append(f"the beginning of the server's capture does not show {some_of(hidden)}; later parts may")


def _point(role: str, name: str, addresses: Sequence[str], units: Sequence[Unit]) -> Point:
    heads = roles.in_time(head for unit in units for head in unit.heads)
    facts = heads[0].facts if len(heads) == 1 else None
    return Point(role, name, tuple(addresses), tuple(head.file for head in heads), facts)


def _names_of(units: Iterable[Unit]) -> str:
    return some_of([head.file.name for unit in units for head in unit.heads])


def _shown(addresses: Iterable[str]) -> str:
    return some_of(_in_order(addresses))


def _in_order(addresses: Iterable[str]) -> list[str]:
    return sorted(addresses, key=lambda text: (":" in text, int(ipaddress.ip_address(text))))
