"""The arithmetic of payload -> text for a terminal of 80 columns."""

from __future__ import annotations

from collections.abc import Iterator

from nfslat.answer.words import decimals, ms, percent
from nfslat.report.blocks import Block, Gap, Prose, Table, Title
from nfslat.report.text_layout import count, count_of
from nfslat.report.text_writer import write
from nfslat.sizes.payload import Fetch, Fetching, Runs, Sqlnet, Total, Transfer, Wire

_MOST_KINDS = 8
# Oracle Database Net Services Administrator's Guide 23ai, 14.2 "Configuring Session Data Unit"; the same since 10.2.
_GUIDE_MARGIN, _GUIDE_LEAST, _GUIDE_LARGEST = 70, 512, 2_097_152
_GUIDE = "Oracle Net Services Administrator's Guide, Configuring Session Data Unit"


def render(fetching: Fetching | None, transfers: tuple[Transfer, ...], *, width: int) -> str:
    """All of it, a line feed behind each line."""
    return write(_blocks(fetching, transfers), width=width)


def _blocks(fetching: Fetching | None, transfers: tuple[Transfer, ...]) -> Iterator[Block]:
    if fetching is not None:
        yield from _fetching(fetching)
    for transfer in transfers:
        yield from _transfer(transfer)


def pieces(runs: Runs) -> str:
    """``2038 + 613``, ``15 x 1460 + 12``."""
    return " + ".join(f"{run.count} x {run.size}" if run.count > 1 else str(run.size) for run in runs)


def _fetching(found: Fetching) -> Iterator[Block]:
    asked, total = found.asked, found.total
    yield Title(
        f"{count_of(asked.row_count, 'row')} of SQL*Net, array size {asked.array_size}, SDU {asked.sdu}: "
        f"{_trips(total)}"
    )
    yield Prose(_bytes(total, "of rows"))
    yield Gap()
    headers = ["fetches", "rows", "bytes", "data in the SDUs", "TCP segments"]
    rows: list[list[int | str]] = [
        [kind.times, kind.rows, kind.row_bytes, pieces(kind.unit_data), pieces(kind.segments)]
        for kind in found.fetches[:_MOST_KINDS]
    ]
    yield _table("rrrll", headers, rows)
    if len(found.fetches) > _MOST_KINDS:
        others = found.fetches[_MOST_KINDS:]
        fetches = count_of(sum(kind.times for kind in others), "fetch").replace("fetchs", "fetches")
        yield Prose(f"and {len(others)} more kinds, {fetches}")
    yield Gap()
    yield Prose(_one_fetch(found.fetches[0], asked, found.wire))
    yield Prose(_assumed(asked, found.wire))
    largest = max(kind.data_bytes for kind in found.fetches)
    yield Prose(_advice(asked, largest))
    if found.alternatives:
        yield from _alternatives(found)


def _trips(total: Total) -> str:
    trips = f"{count_of(total.round_trips, 'round trip')}"
    return trips if total.round_trip_ms is None else f"{trips}, {_long(total.round_trip_ms)} one after another"


def _long(duration_ms: float) -> str:
    """``6.40 ms``, ``26.7 s``, ``4.00 h``."""
    for unit, unit_ms in (("h", 3_600_000), ("min", 60_000), ("s", 1000)):
        if duration_ms >= 2 * unit_ms:
            return f"{ms(duration_ms / unit_ms)} {unit}"
    return f"{ms(duration_ms)} ms"


def _bytes(total: Total, what: str) -> str:
    return (
        f"{count_of(total.payload_bytes, 'byte')} {what} in {count_of(total.segments, 'TCP segment')} "
        f"({count(total.runts)} smaller than the MSS): {count(total.packet_bytes)} bytes with IP and TCP headers, "
        f"{count(total.wire_bytes)} on the wire, of which {percent(total.payload_share)} is payload."
    )


def _one_fetch(fetch: Fetch, asked: Sqlnet, wire: Wire) -> str:
    """How the bytes of a fetch come about."""
    units, segments = sum(run.count for run in fetch.units), sum(run.count for run in fetch.segments)
    terms = [f"{count(fetch.row_bytes)} of rows"]
    terms += [f"{asked.fetch_header} in front of them"] * (asked.fetch_header > 0)
    terms += [f"{units} x {asked.sdu_header} of SDU headers"] * (asked.sdu_header > 0)
    terms += [f"{segments} x {wire.ip_tcp_header} of IP and TCP headers"] * (wire.ip_tcp_header > 0)
    first = f"The {'first ' if fetch.times > 1 or asked.row_count > fetch.rows else ''}fetch: "
    packets = f" (packets of {pieces(fetch.packets)})" if segments > 1 else ""
    return f"{first}{' + '.join(terms)} = {count(fetch.packet_bytes)} bytes{packets}."


def _assumed(asked: Sqlnet, wire: Wire) -> str:
    sdu = f"a header of {asked.sdu_header} bytes in each SDU, part of its size; " if asked.sdu_header else ""
    fetch = f"{asked.fetch_header} bytes in front of the rows of each fetch; " if asked.fetch_header else ""
    return (
        f"Counted: {sdu}{fetch}{_wire(wire)}. An SDU is "
        "one write, sent at once. Not counted: the requests, the call that executes the query, a last fetch that "
        "brings no row, ACKs."
    )


def _wire(wire: Wire) -> str:
    ethernet = f" and {wire.ethernet_header} of Ethernet" if wire.ethernet_header else ""
    return f"MSS {wire.mss}, {wire.ip_tcp_header} bytes of IP and TCP headers{ethernet} for each segment"


def _advice(asked: Sqlnet, largest: int) -> str:
    if not _GUIDE_LEAST <= asked.sdu <= _GUIDE_LARGEST:
        return (
            f"No Oracle release takes an SDU of {count(asked.sdu)} bytes: it is {count(_GUIDE_LEAST)} to "
            f"{count(_GUIDE_LARGEST)} (up to 11.2: 65,535; {_GUIDE})."
        )
    wanted = largest + _GUIDE_MARGIN
    if wanted <= asked.sdu or wanted > _GUIDE_LARGEST:
        return ""
    return (
        f"The largest fetch has {count(largest)} bytes. Oracle's advice is an SDU of 70 bytes more than the messages "
        f"that are sent most, {count(wanted)} here, at both sides: the smaller one counts ({_GUIDE})."
    )


def _alternatives(found: Fetching) -> Iterator[Block]:
    yield Title("What other sizes would make of the same rows (as asked first)")
    headers = ["SDU", "array size", "round trips", "SDUs", "segments", "bytes on wire"]
    headers += [] if found.rtt_ms is None else ["ms"]
    choices = [(found.asked.sdu, found.asked.array_size, found.total)]
    choices += [(other.sdu, other.array_size, other.total) for other in found.alternatives]
    # Round trips, bytes and time are what it is about: the others give way to exact numbers.
    yield _table("r" * len(headers), headers, _numbers(choices), spare=(3, 4))
    yield Prose(
        "A larger array saves round trips. A larger SDU saves headers and small segments, not round trips: the SDUs of "
        "a fetch follow each other without a request in between."
    )


def _numbers(choices: list[tuple[int, int, Total]]) -> list[list[int | str]]:
    durations = [total.round_trip_ms for *_, total in choices if total.round_trip_ms is not None]
    places = decimals(max(durations)) if durations else 0  # the same in all rows
    rows: list[list[int | str]] = []
    for sdu, array_size, total in choices:
        numbers = [sdu, array_size, total.round_trips, total.units, total.segments, total.wire_bytes]
        rows.append([*numbers, *([] if total.round_trip_ms is None else [f"{total.round_trip_ms:,.{places}f}"])])
    return rows


def _table(align: str, headers: list[str], rows: list[list[int | str]], spare: tuple[int, ...] = ()) -> Table:
    """With all digits of counts; one that is too wide goes without `spare` columns, which --json has."""
    narrowest = Table(align, headers, [[str(cell) for cell in row] for row in rows])
    if not spare:
        return Table(align, headers, rows, narrower=narrowest)
    kept = [at for at in range(len(headers)) if at not in spare]
    narrower = Table(
        "".join(align[at] for at in kept),
        [headers[at] for at in kept],
        [[row[at] for at in kept] for row in rows],
        narrower=narrowest,
    )
    return Table(align, headers, rows, narrower=narrower)


def _transfer(found: Transfer) -> Iterator[Block]:
    total, size = found.total, "rsize" if found.op == "READ" else "wsize"
    message = "reply" if found.op == "READ" else "call"
    yield Title(f"{count_of(total.payload_bytes, 'byte')} by NFS {found.op}, {size} {found.size}: {_trips(total)}")
    yield Prose(_bytes(total, "of file data"))
    yield Gap()
    headers = ["RPCs", "data", f"bytes of a {message}", "TCP segments"]
    rows = [[count(one.times), count(one.file_bytes), count(one.bytes), pieces(one.segments)] for one in found.messages]
    yield Table("rrrl", headers, rows)
    yield Gap()
    yield Prose(
        f"Counted: {found.header} bytes of record mark, RPC and NFS in front of the data of each {message}, data "
        f"padded to four bytes; {_wire(found.wire)}; no segment shared by two messages. Not counted: "
        f"the {'calls' if found.op == 'READ' else 'replies'}, ACKs. RPCs in flight together share a round trip."
    )
