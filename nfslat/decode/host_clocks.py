"""One capture made of several hosts' -> the same with all its instants on one of their clocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

import numpy as np
from msgspec import structs

from nfslat.decode.capture import Source
from nfslat.decode.merge_tables import others_of
from nfslat.model.decoded import Decoded
from nfslat.model.details import Details, Others
from nfslat.model.protocol import NULL
from nfslat.model.record import declared
from nfslat.model.tables import I64, Table

_TOOK = frozenset("zero_window_ns stalled_ns rtt_sum_ns rtt_min_ns rtt_max_ns".split())  # no instants
T = TypeVar("T", bound=Table)


def moved(decoded: Decoded, by_ns: Mapping[str, int]) -> Decoded:
    """What is of connections with a host that `by_ns` has, by address, is so much earlier. Segments are left out."""
    ops, loose, details = decoded.ops, decoded.loose, decoded.details
    of_conn = np.array([_of((ends.addr_a, ends.addr_b), by_ns) for ends in ops.connections], dtype=np.int64)
    later = of_conn[ops.conn]
    found: dict[str, Any] = {"others": _others(details.others, by_ns)}
    for name in declared(Details):
        table = getattr(details, name)
        if name not in found and isinstance(table, Table) and any(map(_is_instant, table.columns())):
            conn = table.conn if hasattr(table, "conn") else ops.conn[table.op]  # type: ignore[attr-defined]
            found[name] = _earlier(table, of_conn[conn])
    first_ns, last_ns = decoded.first_ns, decoded.last_ns
    tcp = found["tcp"]
    if len(tcp):
        first_ns, last_ns = int(tcp.first_ns.min()), int(tcp.last_ns.max())
    elif len(ops):
        first_ns, last_ns = int((ops.t0 - later).min()), int((ops.t3 - later).max())
    return structs.replace(
        decoded,
        ops=dataclasses.replace(ops, **{name: getattr(ops, name) - later for name in ("t0", "t1", "t2", "t3")}),
        loose=_earlier(loose, of_conn[loose.conn]),
        details=structs.replace(details, **found),
        first_ns=first_ns,
        last_ns=last_ns,
        segments=[],
    )


def ran(source: Source, decoded: Decoded) -> Source:
    """Files of which nobody knows any more when each ran: while there were packets in any."""
    first_ns, last_ns = decoded.first_ns, decoded.last_ns
    files = tuple(structs.replace(one, first_ns=first_ns, last_ns=last_ns) for one in source.files)
    return structs.replace(source, files=files)


def _of(hosts: Iterable[str], by_ns: Mapping[str, int]) -> int:
    return next((by_ns[host] for host in hosts if host in by_ns), 0)


def _others(others: Others, by_ns: Mapping[str, int]) -> Others:
    """In stretches of the same length, which begin at its multiples."""
    of_stream = np.array([_of((ends.sender, ends.receiver), by_ns) for ends in others.streams], dtype=np.int64)
    return others_of([dataclasses.replace(others, begin_ns=others.begin_ns - of_stream[others.stream])])


def _is_instant(name: str) -> bool:
    return name.endswith("_ns") and name not in _TOOK


def _earlier(table: T, by_ns: I64) -> T:
    columns = {name: getattr(table, name) for name in table.columns() if _is_instant(name)}
    return dataclasses.replace(
        table, **{name: np.where(column == NULL, NULL, column - by_ns) for name, column in columns.items()}
    )
