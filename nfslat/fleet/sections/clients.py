"""Fleet -> the clients in the text report: full rows of those that stand out, a dense grid of all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from nfslat.answer.words import adding_up, ms
from nfslat.fleet.model import Client, Fleet, Pattern
from nfslat.fleet.sections.inferred import error, why_not_inferred
from nfslat.fleet.sections.words import (
    LETTERS,
    STATES,
    blamed,
    cause_of,
    clock_error,
    common_prefix,
    compared,
    few_digits,
    layer_of,
    letter,
    lost,
    not_compared,
    seconds,
    slots_of,
)
from nfslat.report.blocks import Block, Fitted, Gap, Lines, Prose, Title
from nfslat.report.text_layout import count, plain, shorten
from nfslat.report.text_writer import PROSE_WIDTH

_MOST_ROWS = 20  # full ones; further outliers stand in the grid
_LEAST_ROWS = 3
_ALL_ROWS = 12  # of so few clients all have one
_MOST_CELLS = 160  # of the grid; of more clients it shows the worst
_WORST = 20
_NAME, _NARROWEST = 24, 9  # columns of a name


@dataclass(frozen=True)
class Arranged:
    """Clients by how they are shown; each one is in exactly one place. With their ranks, from 1."""

    rows: list[tuple[int, Client]]
    grid: list[tuple[int, Client]]
    left: list[tuple[int, Client]]  # only counted
    apart: dict[str, list[Client]]  # not compared, by state


@dataclass(frozen=True)
class _Column:
    key: str
    heads: tuple[str, str]
    cells: list[str]
    right: bool = True

    @property
    def width(self) -> int:
        return max(map(len, (*self.heads, *self.cells)))


def arrange(clients: Sequence[Client], *, all_clients: bool = False) -> Arranged:
    """Who gets a row of figures, who a cell, and who is only counted."""
    ranked = list(enumerate(compared(clients), 1))
    most = len(ranked) if all_clients else _MOST_ROWS
    rows = [one for one in ranked if one[1].outlier][:most]
    if len(ranked) <= _ALL_ROWS:
        rows = ranked
    elif len(rows) < _LEAST_ROWS:
        rows = sorted([*rows, *[one for one in ranked if one not in rows][: _LEAST_ROWS - len(rows)]], key=_rank)
    taken = {rank for rank, _ in rows}
    others = [one for one in ranked if one[0] not in taken]
    cells = len(others) if all_clients or len(others) <= _MOST_CELLS else _WORST
    return Arranged(rows, others[:cells], others[cells:], not_compared(clients))


def _rank(one: tuple[int, Client]) -> int:
    return one[0]


def clients_section(fleet: Fleet, *, all_clients: bool = False) -> Iterator[Block]:
    """All clients: rows, grid, and those that could not be compared."""
    arranged = arrange(fleet.clients, all_clients=all_clients)
    ranked = compared(fleet.clients)
    out = sum(one.outlier for one in ranked)
    yield Title(
        f"Clients: {count(out)} of {count(len(ranked))} stand{'s' if out == 1 else ''} out (means in ms)"
        if ranked
        else "Clients: none could be compared"
    )
    if arranged.rows:
        yield Fitted(partial(_rows, arranged.rows, _groups(fleet.patterns)))
    if arranged.grid:
        yield Gap()
        yield Fitted(partial(_grid, arranged, [one.name for one in fleet.clients]))
    for state, found in arranged.apart.items():
        most = len(found) if all_clients else _WORST
        more = f" and {count(len(found) - most)} more (--all-clients)" if len(found) > most else ""
        why = f" ({STATES[state]})" if state in STATES else ""
        names = ", ".join(shorten(one.name, _NAME) for one in found[:most])
        yield Prose(f"{state.capitalize()}{why}, {count(len(found))}: {names}{more}.", hanging=2)
        if reason := why_not_inferred(found):
            yield Prose(f"{reason}.", indent=2, hanging=2)


# ---- full rows ----


def _groups(patterns: Sequence[Pattern]) -> dict[str, str]:
    """Client -> the group of which more is said above; the first one is what adds most."""
    found: dict[str, str] = {}
    for one in patterns:
        if one.scope == "group" and one.dimension is not None and len(one.clients) > 1:
            for name in one.clients:
                found.setdefault(name, f"{one.dimension} {one.value or ''}".rstrip() + ", see above")
    return found


def _rows(rows: list[tuple[int, Client]], groups: dict[str, str], width: int) -> Iterator[Block]:
    """A table; below the rows why they stand out, once for neighbours of which the same is to be said."""
    columns = _columns([client for _, client in rows], [rank for rank, _ in rows])
    missing: set[str] = set()
    for key in ("sure", "cause", "slots", "clock", "p99", "lost", "queue", "ops"):
        if _width(columns) <= width:
            break
        columns = [one for one in columns if one.key != key]
        missing.add(key)
    too_much = _width(columns) - width
    if too_much > 0:
        name = next(one for one in columns if one.key == "name")
        room = max(name.width - too_much, _NARROWEST)
        cells = [shorten(cell, room) for cell in name.cells]
        columns = [_Column("name", name.heads, cells, right=False) if one.key == "name" else one for one in columns]
    yield Lines([_line(columns, [one.heads[i] for one in columns]) for i in (0, 1)])
    yield Lines(["-" * min(_width(columns), width)])
    said = [_said(client, missing, groups) for _, client in rows]
    for i in range(len(rows)):
        yield Lines([_line(columns, [one.cells[i] for one in columns])])
        if any(said[i]) and (i + 1 == len(rows) or said[i + 1] != said[i]):
            first = next(k for k in range(i, -1, -1) if k == 0 or said[k - 1] != said[i])
            who = _ranks([rank for rank, _ in rows[first : i + 1]])
            yield Prose(_below(who, said[i], min(width, PROSE_WIDTH) - 4), indent=4, hanging=2, style="dim")


def _ranks(ranks: Sequence[int]) -> str:
    """Of which rows something is said; "" of one, above which it stands."""
    if len(ranks) == 1:
        return ""
    return f"{ranks[0]} to {ranks[-1]}: " if ranks[-1] - ranks[0] == len(ranks) - 1 else f"these {len(ranks)}: "


def _said(client: Client, missing: set[str], groups: dict[str, str]) -> tuple[str, str]:
    """What stands below a row: what sets the client apart, and what the row has no room for."""
    why = plain(groups.get(client.name, client.why))
    own = []
    found = blamed(client)
    if found is not None and "cause" in missing:
        own.append(cause_of(client))
    if found is not None and "sure" in missing and (why or own):
        own.append(shorten(found.confidence, 7))
    return why, ", ".join(own)


def _below(who: str, said: tuple[str, str], room: int) -> str:
    """The same as a line."""
    why, blamed = said
    if not why:
        return who + blamed
    blamed = f" ({blamed})" if blamed else ""
    text = who + why
    return (text if len(text) + len(blamed) <= room else f"{text[: room - len(blamed) - 3].rstrip()}...") + blamed


def _columns(clients: Sequence[Client], ranks: Sequence[int]) -> list[_Column]:
    sums = [adding_up([_mean(one, "network"), _mean(one, "server")], 2) for one in clients]
    queue = [None if one.queue_ms is None else ms(one.queue_ms, 2) for one in clients]
    p99 = [ms(one.client_ms.p99, 2) if one.client_ms is not None else "-" for one in clients]
    cells: list[tuple[str, tuple[str, str], list[str]]] = [
        ("rank", ("", "#"), [str(rank) for rank in ranks]),
        ("name", ("", "client"), [shorten(one.name, _NAME) for one in clients]),
        ("ops", ("", "ops"), [few_digits(one.ops) for one in clients]),
        ("srt", ("client", "SRT"), _points([total for _, total in sums])),
        ("", ("", "="), ["="] * len(clients)),
        ("network", ("net-", "work"), _points([parts[0] for parts, _ in sums])),
        ("", ("", "+"), ["+"] * len(clients)),
        ("server", ("", "server"), _points([parts[1] for parts, _ in sums])),
        ("queue", ("of it", "queue"), _points([text or "-" for text in queue])),
        ("inferred", ("inferred", "+/-"), [error(one) for one in clients]),
        ("excess", ("excess", "s"), ["-" if one.excess is None else _excess_s(one.excess.total_s) for one in clients]),
        ("p99", ("p99", "ms"), _points(p99)),
        ("lost", ("", "lost"), [lost(one) for one in clients]),
        ("clock", ("clock", "+/-"), [clock_error(one.clock) for one in clients]),
        ("slots", ("", "slots"), [slots_of(one) for one in clients]),
        ("cause", ("layer and", "cause"), [shorten(cause_of(one), 20) for one in clients]),
        ("sure", ("", "sure"), [_sure(one) for one in clients]),
    ]
    left = ("name", "cause", "sure")
    shown = [one for one in cells if one[0] != "inferred" or any(client.inferred for client in clients)]
    return [_Column(key, heads, text, right=key not in left) for key, heads, text in shown]


def _excess_s(value: float) -> str:
    shown = f"{value:,.1f}" if abs(value) < 10_000 else seconds(value)
    return "0.0" if shown == "-0.0" else shown


def _sure(client: Client) -> str:
    by = blamed(client)
    found = "-" if by is None else by.confidence
    return "med." if found == "medium" else shorten(found, 7)


def _mean(client: Client, part: str) -> float:
    summary = getattr(client, f"{part}_ms")
    return 0.0 if summary is None else float(summary.mean)


def _points(cells: Sequence[str]) -> list[str]:
    """Decimal points below each other."""
    after = [len(cell.partition(".")[2]) + 1 if "." in cell else 0 for cell in cells]
    most = max(after, default=0)
    return [cell + " " * (most - own) for cell, own in zip(cells, after, strict=True)]


def _line(columns: Sequence[_Column], cells: Sequence[str]) -> str:
    placed = [
        cell.rjust(one.width) if one.right else cell.ljust(one.width) for one, cell in zip(columns, cells, strict=True)
    ]
    return " ".join(placed).rstrip()


def _width(columns: Sequence[_Column]) -> int:
    return sum(one.width for one in columns) + len(columns) - 1


# ---- the grid ----


def _grid(arranged: Arranged, names: Sequence[str], width: int) -> Iterator[Block]:
    """Name, mean client SRT and layer of each, from the top down, in the order of the ranks."""
    prefix = common_prefix(names)
    short = [shorten(client.name.removeprefix(prefix), _NAME) for _, client in arranged.grid]
    means = _points([ms(_mean(client, "client"), 2) for _, client in arranged.grid])
    letters = [letter(layer_of(client)) + "~" * (client.inferred is not None) for _, client in arranged.grid]
    marked = " ~: inferred." if any("~" in one for one in letters) else ""
    wide = max(map(len, letters))
    name, mean = max(map(len, short)), max(map(len, means))
    cells = [f"{n:<{name}} {m:>{mean}} {x:<{wide}}" for n, m, x in zip(short, means, letters, strict=True)]
    across = max((width + 3) // (len(cells[0]) + 3), 1)
    down = -(-len(cells) // across)
    ranks = [rank for rank, _ in arranged.grid]
    of = [*arranged.grid, *arranged.left]
    yield Prose(
        f"{'The others' if arranged.rows else 'All'}, {count(len(of))}, from rank {ranks[0]} on: mean client SRT, ms, "
        f"and the layer that the client's own report blames ({_layers(client for _, client in of)})."
        + (f" Names without {prefix} in front." if prefix else "")
        + marked,
        hanging=2,
    )
    yield Lines(["   ".join(cells[i::down]).rstrip() for i in range(down)])
    if arranged.left:
        slowest = max(_mean(client, "client") for _, client in arranged.left)
        yield Prose(
            f"and {count(len(arranged.left))} more that suffer less, mean client SRT up to {ms(slowest)} ms; "
            "--all-clients shows all."
        )


def _layers(clients: Iterable[Client]) -> str:
    """``S server 80, N network 12``."""
    by = Counter(layer_of(one) for one in clients)
    names = [*(name for name in LETTERS if by[name]), *(name for name in by if name not in LETTERS)]
    return ", ".join(f"{letter(name)} {plain(name)} {count(by[name])}" for name in names)
