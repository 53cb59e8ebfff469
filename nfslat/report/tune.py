"""What was found -> text for a terminal of 80 columns (changes first, settings last), and the same as dictionaries."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from nfslat.answer import json
from nfslat.answer.tune import SCHEMA, Change, HostLine, Row, Tuning
from nfslat.report.blocks import Block, Gap, Item, Prose, Table, Title
from nfslat.report.text_layout import plain, shorten_left
from nfslat.report.text_writer import commands, labelled, write

_SETTING_AT_MOST = 35  # the longest name of a knob
_VALUE_AT_MOST = 9


def as_dict(found: Tuning) -> dict[str, Any]:
    """Names as in `Tuning`; only what JSON knows."""
    return {"schema": SCHEMA, **json.plain(found)}


def render(found: Tuning, *, width: int) -> str:
    """All of it, a line feed behind each line. No line is wider than `width` but a command that cannot be broken."""
    return write(_blocks(found), width=width)


def _blocks(found: Tuning) -> Iterator[Block]:
    yield from _summary(found)
    for number, change in enumerate(found.changes, 1):
        yield Gap()
        yield from _change(number, change)
    if found.remarks:
        yield Title("To know")
    for remark in found.remarks:
        ids = f" [{_ids(remark.sources)}]" if remark.sources else ""
        yield Item(f"{remark.host}: {remark.text}{ids}")
    for host in found.hosts:
        marked = {change.advice.knob for change in found.changes if change.host == host.name}
        yield from _host(host, [row for row in found.rows if row.host == host.name], marked)
    if found.warnings:
        yield Title("About the snapshots")
    for text in found.warnings:
        yield Prose(text, indent=2, hanging=2)
    yield Gap()
    yield Prose("docs/tuning.md has each fact by its name, and where it is written.")


def _summary(found: Tuning) -> Iterator[Block]:
    count = len(found.changes)
    if not count:
        judged = any(host.roles for host in found.hosts)
        yield Prose("Nothing here needs to change." if judged else "No NFS mount and no NFS server: nothing to assess.")
    else:
        yield Prose(f"{count} things to change, the most urgent first:" if count > 1 else "1 thing to change:")
    for number, change in enumerate(found.changes, 1):
        yield Prose(f"{_what(number, change)}{', measured' if change.measured else ''}", indent=2, hanging=3)
    if not any(change.measured for change in found.changes):
        yield Prose("From settings and counters alone. Captures show how many are needed: nfslat SERVER CLIENT")


def _what(number: int, change: Change) -> str:
    advice = change.advice
    return f"{number}. {change.host}: {advice.knob} {advice.value} -> {advice.suggested}"


def _change(number: int, change: Change) -> Iterator[Block]:
    advice = change.advice
    yield Prose(_what(number, change), hanging=3)
    yield labelled("why", " ".join(change.why))
    yield from commands(advice.how)
    for label, text in (("acts", advice.takes_effect), ("check", advice.verify), ("risk", advice.risk)):
        yield labelled(label, text)
    yield labelled("facts", _ids(advice.sources))


def _ids(sources: Sequence[str]) -> str:
    return ", ".join(source.partition(":")[0] for source in sources)


def _host(host: HostLine, rows: Sequence[Row], marked: set[str]) -> Iterator[Block]:
    system = f" ({host.system})" if host.system else ""
    yield Title(f"{host.name}: {host.roles or 'neither NFS mount nor NFS server'}{system}")
    if not rows:
        yield Prose("no setting of NFS in the snapshot", indent=2)
        return
    mark = bool(marked & {row.setting for row in rows})
    cells = [_cells(row, "!" if row.setting in marked else "") for row in rows]
    align, headers = "llrrrl", ["", "setting", "now", "default", "limit", "from"]
    if not mark:
        align, headers, cells = align[1:], headers[1:], [line[1:] for line in cells]
    yield Table(align, headers, cells, last="cut")
    for row in rows:
        for text in (row.note, f"configured is {row.configured}" if row.configured else ""):
            if text:
                yield Prose(f"{row.setting}: {text}", indent=2, hanging=2)


def _cells(row: Row, mark: str) -> list[str]:
    limits_by_the_last = row.setting in ("net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem")
    value = row.value.rpartition(" ")[2] if limits_by_the_last else row.value
    source = row.source
    for folder in ("/proc/sys/", "/sys/module/"):
        if source.startswith(folder):
            source = folder[:-1]  # the rest is the name of the setting again
    cells = (plain(cell) for cell in (row.setting, value, row.default, row.limit, source))
    rooms = (_SETTING_AT_MOST, _VALUE_AT_MOST, None, None, None)
    return [
        mark,
        *((cell if room is None else shorten_left(cell, room)) or "-" for cell, room in zip(cells, rooms, strict=True)),
    ]
