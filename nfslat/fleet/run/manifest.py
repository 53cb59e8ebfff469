"""FLEET.toml in, what it says of the server and the clients out; whatever is wrong in it, is said in one line.

server = ["server/*.pcap"]                # or [server] with files, addresses, threads
[clients.db01]
files = ["clients/db01/"]                 # relative to the manifest
addresses = ["10.0.0.17"]                 # where the packets do not tell
groups = { rack = "r7", site = "east" }   # in which the report looks for what is common
application_ms = 12.5                     # or { READ = 12.5, WRITE = 3 }
sessions = 32
[groups.rack]
r7 = ["10.0.7.0/24"]                      # by network, too
"""

from __future__ import annotations

import ipaddress
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from nfslat.errors import InputError, UsageError, nearest
from nfslat.evidence.known import parse_known
from nfslat.fleet.run import inputs, remote
from nfslat.fleet.run.inputs import Given, Input
from nfslat.select import parse_addresses

Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAME = re.compile(r"\w[\w.:@-]{0,99}")
_MOST_BYTES = 16 << 20
_MOST_THREADS = 1 << 20
_OF_SERVER = ("files", "addresses", "threads")
_OF_CLIENT = ("files", "addresses", "groups", "application_ms", "sessions")


@dataclass(frozen=True)
class ServerEntry:
    """What is said of the server."""

    files: tuple[Input, ...] = ()
    addresses: tuple[str, ...] = ()
    threads: int | None = None


@dataclass(frozen=True)
class ClientEntry:
    """What is said of a client. `application_ms` is by operation, or under "" for all, as in `evidence.known`."""

    name: str
    files: tuple[Input, ...] = ()
    addresses: tuple[str, ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict)
    application_ms: Mapping[str, float] = field(default_factory=dict)
    sessions: int | None = None


@dataclass(frozen=True)
class Manifest:
    """All of it, with the files that are there."""

    name: str
    server: ServerEntry = ServerEntry()
    clients: tuple[ClientEntry, ...] = ()
    networks: Mapping[str, tuple[tuple[str, Network], ...]] = field(default_factory=dict)  # dimension -> labels
    given: Given = field(default_factory=lambda: Given((), ()))  # files of all, and what cannot be read

    def owners(self) -> dict[str, str]:
        """`Input.identity` -> name of the client that a file is said to be of, "" for the server."""
        owners = {file.identity: "" for file in self.server.files}
        return owners | {file.identity: one.name for one in self.clients for file in one.files}

    def client(self, name: str) -> ClientEntry | None:
        """What is said of the client `name`."""
        return next((one for one in self.clients if one.name == name), None)

    def client_at(self, address: str) -> ClientEntry | None:
        """What is said of the client with this address."""
        return next((one for one in self.clients if address in one.addresses), None)

    def asked(self, name: str, addresses: Iterable[str]) -> dict[str, Any]:
        """What is said of a client, as fields of `nfslat.fleet.run.client.Request`."""
        own = self.client(name) or ClientEntry(name)
        return {
            "groups": self.labels(name, addresses),
            "application_ms": dict(own.application_ms),
            "sessions": own.sessions,
            "threads": self.server.threads,
        }

    def labels(self, name: str, addresses: Iterable[str]) -> dict[str, str]:
        """dimension -> label of a client: its own, or that of the smallest network that one of its addresses is in."""
        out: dict[str, str] = {}
        hosts = [ipaddress.ip_address(address) for address in addresses]
        for dimension, labels in self.networks.items():
            fitting = [(network.prefixlen, label) for label, network in labels for host in hosts if host in network]
            if fitting:
                out[dimension] = max(fitting)[1]
        entry = self.client(name)
        return out | dict(entry.groups if entry else {})


def read(path: str) -> Manifest:
    """The manifest at a path or URL.

    Raises ``InputError`` where it cannot be read, ``UsageError`` where it is wrong.
    """
    shown = remote.shown(path) if remote.is_url(path) else path
    text = _text(path, shown)
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise UsageError(f"{shown}: not TOML: {problem}") from problem
    return _Reading(shown, path.rpartition("/")[0] if remote.is_url(path) else os.path.dirname(path)).manifest(document)


def _text(path: str, shown: str) -> str:
    try:
        with remote.open_stream(path) as stream:
            return stream.read(_MOST_BYTES).decode()
    except UnicodeDecodeError as problem:
        raise UsageError(f"{shown}: not UTF-8 text; is this a manifest?") from problem
    except InputError:
        raise
    except Exception as problem:  # each remote file system has its own
        why = problem.strerror if isinstance(problem, OSError) and problem.strerror else remote.one_line(problem)
        raise InputError(f"cannot be read ({why}); give the manifest's path", about=shown) from problem


class _Reading:
    """Holds what was named, so that nothing is named twice."""

    def __init__(self, shown: str, base: str) -> None:
        self.shown = shown
        self.base = base
        self.owners: dict[str, str] = {}  # address or file -> key that it stands under
        self.given: list[Given] = []

    def manifest(self, document: dict[str, Any]) -> Manifest:
        self.known(document, "", ("server", "clients", "groups"))
        server = ServerEntry(**self.entry(document.get("server", []), "server", _OF_SERVER))
        clients = tuple(
            self.client(name, value) for name, value in self.table(document.get("clients", {}), "clients").items()
        )
        networks = {
            dimension: self.networks(value, f"groups.{dimension}")
            for dimension, value in self.table(document.get("groups", {}), "groups").items()
        }
        return Manifest(self.shown, server, clients, networks, inputs.merged(*self.given))

    def client(self, name: str, value: Any) -> ClientEntry:
        key = f"clients.{name}" if name.isprintable() else f"clients.{name!r}"
        if not _NAME.fullmatch(name):
            self.refuse(key, "a client's name has letters, digits and . : @ - _ only, at most 100, and begins with one")
        entry = ClientEntry(name, **self.entry(value, key, _OF_CLIENT))
        self.own_name(name, key, entry.addresses)
        return entry

    def entry(self, value: Any, key: str, fields: tuple[str, ...]) -> dict[str, Any]:
        """What is said of a host: a table with some of `fields`, or its files alone."""
        if not isinstance(value, dict):
            return {"files": self.files(value, key)}
        self.known(value, key, fields)
        return {name: getattr(self, name)(value[name], f"{key}.{name}") for name in fields if name in value}

    def own_name(self, name: str, key: str, addresses: tuple[str, ...]) -> None:
        """A client that is called like another one's address would be taken for that one."""
        try:
            address = str(ipaddress.ip_address(name))
        except ValueError:
            return
        if addresses and address not in addresses:
            self.refuse(key, "its name is an address that is not among its addresses; name it otherwise, or add it")

    def files(self, value: Any, key: str) -> tuple[Input, ...]:
        patterns = self.texts(value, key, "a path, a pattern or a URL")
        found: dict[str, Input] = {}
        for pattern in patterns:
            given = inputs.expand([self.located(pattern)])
            self.given.append(given)
            for file in given.files:
                self.once(file.identity, key.removesuffix(".files"), key, file.name)
                found.setdefault(file.identity, file)
        return tuple(found.values())

    def located(self, pattern: str) -> str:
        if remote.is_url(pattern) or os.path.isabs(pattern) or not self.base:
            return pattern
        return f"{self.base}/{pattern}" if remote.is_url(self.base) else os.path.join(self.base, pattern)

    def addresses(self, value: Any, key: str) -> tuple[str, ...]:
        out = []
        for text in self.texts(value, key, 'IP addresses in quotes: ["10.0.0.17"]'):
            try:
                (address,) = parse_addresses([text], key)
            except UsageError as problem:
                raise UsageError(f"{self.shown}: {problem}") from problem
            self.once(address, key.removesuffix(".addresses"), key, address)
            out.append(address)
        return tuple(dict.fromkeys(out))

    def networks(self, value: Any, key: str) -> tuple[tuple[str, Network], ...]:
        out: dict[Network, str] = {}
        for label, texts in self.table(value, key).items():
            for text in self.texts(texts, f"{key}.{label}", 'networks in quotes: ["10.0.7.0/24"]'):
                try:
                    network = ipaddress.ip_network(text)
                except ValueError as problem:
                    self.refuse(f"{key}.{label}", f"{text!r} is no network ({problem}); write 10.0.7.0/24")
                if out.setdefault(network, label) != label:
                    self.refuse(f"{key}.{label}", f"{text} stands under {key}.{out[network]}, too; leave one of them")
        return tuple((label, network) for network, label in out.items())

    def application_ms(self, value: Any, key: str) -> dict[str, float]:
        table = value if isinstance(value, dict) else {"": value}
        for number in table.values():
            if isinstance(number, bool) or not isinstance(number, int | float):
                self.refuse(key, "give milliseconds (12.5), or some for each operation ({ READ = 12.5, WRITE = 3 })")
        try:
            return parse_known([f"{name}={ms}" if name else f"{ms}" for name, ms in table.items()], key)
        except UsageError as problem:
            raise UsageError(f"{self.shown}: {problem}") from problem

    def groups(self, value: Any, key: str) -> dict[str, str]:
        labels = self.table(value, key)
        for dimension, label in labels.items():
            if not isinstance(label, str) or not label or not label.isprintable():
                self.refuse(f"{key}.{dimension}", 'give a label, a text in quotes: rack = "r7"')
        return labels

    def threads(self, value: Any, key: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= _MOST_THREADS:
            self.refuse(key, f"give a whole number from 1 to {_MOST_THREADS:,}")
        return int(value)

    sessions = threads

    def texts(self, value: Any, key: str, what: str) -> list[str]:
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(text, str) and text for text in values):
            self.refuse(key, f"give {what}, or a list of them")
        return list(values)

    def table(self, value: Any, key: str) -> dict[str, Any]:
        if not isinstance(value, dict):
            self.refuse(key, f"give a table: [{key}]")
        return dict(value)

    def known(self, table: dict[str, Any], key: str, allowed: tuple[str, ...]) -> None:
        for name in table:
            if name not in allowed:
                near = nearest(name, allowed)
                hint = f"did you mean {near}? " if near else ""
                place = f"{key}.{name}" if key else name
                self.refuse(place if place.isprintable() else repr(place), f"{hint}allowed here: {', '.join(allowed)}")

    def once(self, what: str, owner: str, key: str, name: str) -> None:
        other = self.owners.setdefault(what, owner)
        if other != owner:
            self.refuse(key, f"{name} is named under {other}, too; it can be of one only")

    def refuse(self, key: str, why: str) -> NoReturn:
        raise UsageError(f"{self.shown}: {key}: {why}")
