"""What was found -> text for a terminal of 80 columns (changes first, settings last), and the same as dictionaries."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

from tabulate import tabulate

from nfslat.answer import json
from nfslat.answer.tune import SCHEMA, Change, HostLine, Remark, Row, Tuning
from nfslat.report.text_layout import command_lines, plain

_LABEL = 8  # columns of "source  "
_SOURCE_AT_LEAST = 8
_SETTING_AT_MOST = 35  # the longest name of a knob
_VALUE_AT_MOST = 9


def as_dict(found: Tuning) -> dict[str, Any]:
    """Names as in `Tuning`; only what JSON knows."""
    return {"schema": SCHEMA, **json.plain(found)}


def render(found: Tuning, *, width: int) -> str:
    """All of it, a line feed behind each line. No line is wider than `width` but a command that cannot be broken."""
    lines = _summary(found, width)
    for number, change in enumerate(found.changes, 1):
        lines += ["", *_change(number, change, width)]
    if found.remarks:
        lines += ["", "To know"]
        lines += [line for remark in found.remarks for line in _remark(remark, width)]
    for host in found.hosts:
        marked = {change.advice.knob for change in found.changes if change.host == host.name}
        lines += ["", *_host(host, [row for row in found.rows if row.host == host.name], marked, width)]
    if found.warnings:
        lines += ["", "About the snapshots"]
        lines += [line for text in found.warnings for line in _wrap(text, width, "  ", "    ")]
    lines += ["", "docs/tuning.md has each fact by its name, and where it is written."]
    return "".join(line.rstrip() + "\n" for line in lines)


def _summary(found: Tuning, width: int) -> list[str]:
    count = len(found.changes)
    if not count:
        judged = any(host.roles for host in found.hosts)
        first = "Nothing here has to change." if judged else "No NFS mount and no NFS server: nothing to judge."
    else:
        first = f"{count} things to change, the most urgent first:" if count > 1 else "1 thing to change:"
    lines = _wrap(first, width)
    for number, change in enumerate(found.changes, 1):
        advice = change.advice
        seen = ", measured" if change.measured else ""
        text = f"{number}. {change.host}: {advice.knob} {advice.value} -> {advice.suggested}{seen}"
        lines += _wrap(text, width, "  ", "     ")
    if not any(change.measured for change in found.changes):
        hint = "From settings and counters alone. Captures measure how many are needed: nfslat SERVER CLIENT"
        lines += _wrap(hint, width)
    return lines


def _change(number: int, change: Change, width: int) -> list[str]:
    advice = change.advice
    lines = _wrap(f"{number}. {change.host}: {advice.knob} {advice.value} -> {advice.suggested}", width, "", "   ")
    lines += _labelled("why", " ".join(change.why), width)
    for place, command in enumerate(advice.how):
        label = "how" if place == 0 else ""
        if command.startswith("#"):
            lines += _labelled(label, command, width, "# ")
        else:
            lines += command_lines(f"{label:<{_LABEL}}", command, width, indent=3)
    for label, text in (("acts", advice.takes_effect), ("check", advice.verify), ("risk", advice.risk)):
        lines += _labelled(label, text, width)
    return lines + _labelled("facts", _ids(advice.sources), width)


def _ids(sources: Sequence[str]) -> str:
    return ", ".join(source.partition(":")[0] for source in sources)


def _labelled(label: str, text: str, width: int, hanging: str = "") -> list[str]:
    blank = " " * (3 + _LABEL)
    return _wrap(text, width, f"   {label:<{_LABEL}}", blank + hanging)


def _remark(remark: Remark, width: int) -> list[str]:
    ids = f" [{_ids(remark.sources)}]" if remark.sources else ""
    text = f"{remark.host}: {remark.text}{ids}"
    return _wrap(text, width, "- ", "  ")


def _host(host: HostLine, rows: Sequence[Row], marked: set[str], width: int) -> list[str]:
    title = f"{host.name}: {host.roles or 'neither NFS mount nor NFS server'}"
    title += f" ({host.system})" if host.system else ""
    lines = _wrap(title, width)
    if not rows:
        return [*lines, "  no setting of NFS in the snapshot"]
    mark = bool(marked & {row.setting for row in rows})
    cells = [_cells(row, "!" if row.setting in marked else "") for row in rows]
    headers = ["", "setting", "now", "default", "limit", "from"]
    cells, headers = (cells, headers) if mark else ([row[1:] for row in cells], headers[1:])
    wide = [max(len(headers[place]) + 2, *(len(row[place]) for row in cells)) for place in range(len(headers) - 1)]
    taken = sum(wide) + 2 * len(wide)  # tabulate makes a column two wider than its header, and two blanks go between
    room = max(width - taken, _SOURCE_AT_LEAST)
    align = ["left", "left", "right", "right", "right", "left"]
    table = tabulate(
        [[*row[:-1], _shorten(row[-1], room)] for row in cells],
        headers=headers,
        tablefmt="simple",
        disable_numparse=True,
        colalign=align if mark else align[1:],
    )
    lines += [line.rstrip() for line in table.splitlines()]
    for row in rows:
        if row.note:
            lines += _wrap(f"{row.setting}: {row.note}", width, "  ", "    ")
        if row.configured:
            lines += _wrap(f"{row.setting}: configured is {row.configured}", width, "  ", "    ")
    return lines


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
        *((cell if room is None else _shorten(cell, room)) or "-" for cell, room in zip(cells, rooms, strict=True)),
    ]


def _wrap(text: str, width: int, first: str = "", others: str = "") -> list[str]:
    return textwrap.wrap(
        plain(text), width, initial_indent=first, subsequent_indent=others, break_on_hyphens=False
    ) or [first]


def _shorten(text: str, room: int) -> str:
    """The end of a path says most: which file, which line."""
    return text if len(text) <= room else "..." + text[len(text) - room + 3 :]
