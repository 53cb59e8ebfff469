"""The table of settings of NFS (``settings.txt``) -> what may be printed of each on this host, and what to do to it.

Nothing about a setting is printed that is not in the table; docs/tuning.md has the same rows, which a test holds.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from nfslat.answer.advice import Advice

if TYPE_CHECKING:
    from nfslat.evidence.records import Snapshot

TABLE = os.path.join(os.path.dirname(__file__), "settings.txt")
MOST_SLOTS = 65536  # facts slots-ceiling and slots-first: so many are never in flight
PER_CONNECTION = 128  # fact connection-cap
# Where a configuration file names a setting otherwise than the running system does.
CONFIGURED_AS: Mapping[str, str] = {"nfs.conf:nfsd.threads": "nfsd.threads", "RPCNFSDCOUNT": "nfsd.threads"}


class Fact(NamedTuple):
    """One thing that is known, and where it is written."""

    text: str
    source: str


class Knob(NamedTuple):
    """A setting as it is printed: `name` as in a snapshot, who has it, default and limit in words, ids of its facts."""

    name: str
    side: str  # "client", "server" or "both"
    default: str
    limit: str
    facts: tuple[str, ...]
    note: str = ""  # what the default depends on


class Remedy(NamedTuple):
    """How something is changed on one system; braces stand for what is put in their place."""

    knob: str
    how: tuple[str, ...]
    acts: str
    check: str
    risk: str
    facts: tuple[str, ...]

    def advice(
        self,
        value: int | str | None,
        suggested: int | str,
        *,
        first: Sequence[str] = (),
        risk: str = "",
        facts: Sequence[str] = (),
        **words: object,
    ) -> Advice:
        """The value in effect, and the one that is needed; `first` stands in front of the commands, `risk` and `facts`
        are added."""

        def filled(text: str) -> str:
            return text.format_map({"n": suggested, "value": value, **words})

        return Advice(
            knob=filled(self.knob),
            value="not known" if value is None else str(value),
            suggested=str(suggested),
            how=(*first, *map(filled, self.how)),
            takes_effect=self.acts,
            verify=filled(self.check),
            risk=self.risk + risk,
            sources=sources(*self.facts, *facts),
        )


def _blocks() -> dict[str, list[str]]:
    # As a part of the package, which may be in an archive.
    text = __spec__.loader.get_data(TABLE).decode()  # type: ignore[union-attr]
    blocks: dict[str, list[str]] = {}
    for block in re.split(r"^\[", text, flags=re.MULTILINE)[1:]:
        name, _, rest = block.partition("]\n")
        blocks[name] = [line for line in rest.splitlines() if line]
    return blocks


def _knob(line: str) -> Knob:
    name, side, default, limit, facts, *note = line.split(" | ")
    return Knob(name, side, default, limit.removeprefix("-"), tuple(facts.split()), *note)


def _remedy(lines: Sequence[str]) -> Remedy:
    words = [line.partition(" ")[::2] for line in lines]
    last = dict(words)
    how = tuple(text for word, text in words if word == "how")
    return Remedy(last["knob"], how, last["acts"], last["check"], last["risk"], tuple(last["facts"].split()))


_TABLE = _blocks()
FACTS: Mapping[str, Fact] = {
    name: Fact(text, source) for name, text, source in (line.split(" | ") for line in _TABLE.pop("facts"))
}
KNOBS = tuple(map(_knob, _TABLE.pop("settings")))
BY_NAME: Mapping[str, Knob] = {knob.name: knob for knob in KNOBS}
OTHER_NAMES = frozenset(" ".join(_TABLE.pop("names")).split())  # of settings that are real, too
REMEDIES: Mapping[str, Remedy] = {name: _remedy(lines) for name, lines in _TABLE.items()}


def sources(*ids: str) -> tuple[str, ...]:
    """The facts' ids with where they are written. Raises ``KeyError`` for a fact that there is not."""
    return tuple(f"{name}: {FACTS[name].source}" for name in ids)


def count_of(number: int, noun: str) -> str:
    """``1 call``, ``16 calls``."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def kernel(snapshot: Snapshot) -> tuple[int, int] | None:
    """The first two numbers of a Linux release; None where it is not Linux or not told."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})", snapshot.release) if snapshot.system == "Linux" else None
    return (int(found[1]), int(found[2])) if found else None


def has_fixed_slots(snapshot: Snapshot) -> bool:
    """Whether this host's slot table does not grow (fact ``slots-fixed``). What it shows goes before its version."""
    if "sunrpc.tcp_max_slot_table_entries" in snapshot.settings:
        return False
    if "sunrpc.tcp_slot_table_entries" in snapshot.settings:
        return True
    version = kernel(snapshot)
    red_hat = re.match(r"(?:rhel|centos|ol) 6\.(\d+)", snapshot.distribution)
    if red_hat:
        return int(red_hat[1]) < 3
    return version is not None and version <= (3, 0)


def default_of(knob: Knob, snapshot: Snapshot) -> str:
    """The default of `knob` on this host, in words; "" where that is not known."""
    if knob.name == "sunrpc.tcp_slot_table_entries" and has_fixed_slots(snapshot):
        return "16"
    if knob.name.startswith("vfs.nfsd.") and snapshot.cpus:
        return str(8 * snapshot.cpus)
    version = kernel(snapshot)
    if knob.name == "nfs.max_session_slots" and version is not None and version < (4, 0):
        return "16"
    return knob.default


def limit_of(knob: Knob, snapshot: Snapshot) -> str:
    """The limit of `knob` on this host, in words; "" where there is none or none is known."""
    if knob.name in ("sunrpc.tcp_slot_table_entries", "sunrpc.udp_slot_table_entries"):
        return "128" if has_fixed_slots(snapshot) else "65536"
    return knob.limit
