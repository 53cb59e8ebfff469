"""Heads of files -> units, files that were taken one after the other at one place, and whose each unit is.

The order of what is believed: the manifest; response times of the same ops in two units (at the server they are
shorter); the end from which acknowledgements come back at once; how many clients call; the order of the arguments.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from nfslat.fleet.run.heads import Head, Sample
from nfslat.fleet.run.inputs import by_numbers

SERVER, CLIENT = "server", "client"
_DIGITS = re.compile(r"\d+")
_MOST_HOMES = 4  # addresses of one client; more of them are many clients
_ENOUGH_COMMON = 3  # calls that two heads share for them to be the same, whatever their addresses
_OVERLAP = 10  # one part in so many of the shorter file may be at the time of the other: packets swap places


@dataclass
class Unit:
    """Files that can be one capture: nothing in them speaks against it. `owner` is what the manifest says."""

    heads: list[Head]
    order: int  # of the first one, among all that were given
    owner: str | None = None
    role: str = ""
    by_order: bool = False  # only the order of the arguments speaks for its role
    family: str = ""  # names that differ in digits only
    calls: set[tuple[str, str]] = field(default_factory=set)  # (client, server) as far as they are of the server

    @property
    def clients(self) -> set[str]:
        """Addresses that call the server."""
        return {client for client, _ in self.calls}

    def near(self) -> str:
        """The end that all of its pairs, as far as they tell, are near to."""
        found = {pair.near for head in self.heads for pair in head.pairs if (pair.client, pair.server) in self.calls}
        found.discard("")
        return found.pop() if len(found) == 1 else ""

    @property
    def size_bytes(self) -> int:
        """Bytes of its files."""
        return sum(head.file.size_bytes for head in self.heads)

    @property
    def is_whole(self) -> bool:
        """Do the heads show all there is?"""
        return all(head.is_whole for head in self.heads)


def family_of(head: Head) -> str:
    """Equal for files of one folder whose names differ in digits only."""
    folder, _, name = head.file.url.rpartition("/")
    return f"{folder}/{_DIGITS.sub('#', name)}"


def in_time(heads: Iterable[Head]) -> list[Head]:
    """By their first packets."""
    return sorted(heads, key=lambda head: (head.first_ns or 0, by_numbers(os.path.basename(head.file.name))))


def make_units(heads: Sequence[Head], owners: Mapping[str, str]) -> list[Unit]:
    """Heads with NFS -> units, in the order in which they were given."""
    order = {id(head): at for at, head in enumerate(heads)}
    named: dict[str, list[Head]] = defaultdict(list)
    families: dict[str, list[Head]] = defaultdict(list)
    for head in heads:
        owner = owners.get(head.file.identity)
        if owner is None:
            families[family_of(head)].append(head)
        else:
            named[owner].append(head)
    units = [Unit(in_time(those), order[id(those[0])], owner) for owner, those in named.items()]
    for family, those in families.items():
        of_family: list[Unit] = []
        for head in in_time(those):
            fitting = next((unit for unit in of_family if _continues(unit, head)), None)
            if fitting is None:
                of_family.append(Unit([head], order[id(head)], family=family))
            else:
                fitting.heads.append(head)
                fitting.order = min(fitting.order, order[id(head)])
        units += of_family
    return sorted(units, key=lambda unit: unit.order)


def at_once(one: Head, other: Head) -> bool:
    """Were both files written at the same time?"""
    if one.first_ns is None or other.first_ns is None or one.last_ns is None or other.last_ns is None:
        return False
    common = min(one.last_ns, other.last_ns) - max(one.first_ns, other.first_ns)
    shorter = min(one.last_ns - one.first_ns, other.last_ns - other.first_ns)
    return common > shorter // _OVERLAP


def _continues(unit: Unit, head: Head) -> bool:
    """Can `head` be of the same rotation: the same clients, seen from the same end, at another time?"""
    if not any(head.clients & other.clients for other in unit.heads):
        return False
    near = {(pair.client, pair.server): pair.near for other in unit.heads for pair in other.pairs if pair.near}
    if any(pair.near and near.get((pair.client, pair.server), pair.near) != pair.near for pair in head.pairs):
        return False
    return not any(at_once(head, other) for other in unit.heads)


def restrict(units: Sequence[Unit], servers: Collection[str]) -> None:
    """Look at the calls to these addresses only. What the server calls of itself is no client's."""
    for unit in units:
        pairs = {(pair.client, pair.server) for head in unit.heads for pair in head.pairs}
        unit.calls = {pair for pair in pairs if pair[1] in servers and (pair[0] not in servers or len(pairs) == 1)}


Key = tuple[object, ...]


class Common:
    """Which ops are in the heads of several units, and in which of them they took longer."""

    def __init__(self, units: Sequence[Unit]) -> None:
        index: dict[Key, list[tuple[int, int]]] = defaultdict(list)
        for at, unit in enumerate(units):
            for sample in _samples(unit):
                index[sample.ends, sample.xid, sample.asks].append((at, sample.srt_ns))
        self._longer: Counter[tuple[int, int]] = Counter()
        self._common: dict[int, set[int]] = defaultdict(set)
        for seen in index.values():
            for one, one_ns in seen:
                for other, other_ns in seen:
                    if one != other:
                        self._common[one].add(other)
                        self._longer[one, other] += one_ns > other_ns

    def votes(self, at: int) -> int:
        """Units that say that unit `at` is the client's, less those that say the server's."""
        found = 0
        for other in self._common[at]:
            longer, shorter = self._longer[at, other], self._longer[other, at]
            found += (longer > shorter) - (longer < shorter)
        return found

    def share(self, one: int, other: int) -> bool:
        """Have they an op in common?"""
        return other in self._common[one]


def _samples(unit: Unit) -> Iterable[Sample]:
    return (sample for head in unit.heads for sample in head.samples)


def give_roles(units: Sequence[Unit], common: Common) -> None:
    """Whose is each unit that shows calls of the server?"""
    there = [(at, unit) for at, unit in enumerate(units) if unit.calls or unit.owner is not None]
    for at, unit in there:
        unit.role = _role(at, unit, units, common)
    servers = [unit for _, unit in there if unit.role == SERVER]
    for _, unit in there:
        knowing = [server for server in servers if server.calls & unit.calls]
        if unit.role or not knowing:
            continue
        # A part of a rotation in which only one client shows for a while.
        unit.role = SERVER if any(server.family == unit.family for server in knowing if unit.family) else CLIENT
    for _, unit in there:
        if unit.role:
            continue
        same = [other for _, other in there if other is not unit and other.calls & unit.calls]
        if any(other.role == CLIENT for other in same):
            unit.role = SERVER
        elif any(not other.role for other in same):
            unit.role, unit.by_order = SERVER, True
            for other in same:
                if not other.role:
                    other.role, other.by_order = CLIENT, True
        else:
            unit.role = CLIENT


def _role(at: int, unit: Unit, units: Sequence[Unit], common: Common) -> str:
    if unit.owner is not None:
        return CLIENT if unit.owner else SERVER
    if votes := common.votes(at):
        return CLIENT if votes > 0 else SERVER
    near = unit.near()
    if len(unit.clients) > 1:
        others = [other for other in units if other is not unit and other.clients & unit.clients]
        # Others that call the server, too, were captured at their own end: so may this one.
        is_one_host = near == CLIENT and len(unit.clients) <= _MOST_HOMES and (bool(others) or _is_of_clients(units))
        return CLIENT if is_one_host else SERVER
    return near


def _is_of_clients(units: Sequence[Unit]) -> bool:
    called = [unit for unit in units if unit.calls]
    return len(called) > 1 and all(unit.near() == CLIENT for unit in called)


def is_same(one: Head, other: Head) -> bool:
    """Do both hold the same packets: the same calls, that took equally long to the nanosecond?"""
    times = {(sample.ends, sample.xid, sample.asks): sample.srt_ns for sample in one.samples}
    both = [
        (times[key], sample.srt_ns)
        for sample in other.samples
        if (key := (sample.ends, sample.xid, sample.asks)) in times
    ]
    return len(both) >= _ENOUGH_COMMON and all(a == b for a, b in both)


def addresses_behind(unit: Unit, of_server: Iterable[Unit]) -> list[str]:
    """Addresses as which the server sees a client whose calls it shows from elsewhere: NAT."""
    own = {(sample.xid, sample.asks) for head in unit.heads for sample in head.samples}
    found: Counter[str] = Counter()
    for server in of_server:
        for head in server.heads:
            found.update({(s.xid, s.asks): s.ends[0] for s in head.samples if (s.xid, s.asks) in own}.values())
    return [address for address, count in found.most_common() if count >= _ENOUGH_COMMON]
