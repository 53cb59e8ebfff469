"""Fleet -> the clients in the text report: full rows of those that stand out, a dense grid of all others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby

from nfslat.answer.words import adding_up, ms, some_of
from nfslat.fleet.model import Client, Fleet, Pattern
from nfslat.fleet.sections import words
from nfslat.report.blocks import Block, Cell, Figure, Fitted, Gap, Item, Lines, Prose, Title
from nfslat.report.columns import Column, table
from nfslat.report.text_layout import count, plain, shorten

_MOST_ROWS = 20  # full ones; further outliers stand in the grid
_LEAST_ROWS = 3
_ALL_ROWS = 12  # of so few clients all have one
_MOST_CELLS = 160  # of the grid; of more clients it shows the worst
_WORST = 20
_NAME = 24  # columns of a name


@dataclass(frozen=True)
class Arranged:
    """Clients by how they are shown; each one is in exactly one place. With their ranks, from 1."""

    rows: list[tuple[int, Client]]
    grid: list[tuple[int, Client]]
    left: list[tuple[int, Client]]  # only counted
    apart: dict[str, list[Client]]  # not compared, by state


def arrange(clients: Sequence[Client], *, all_clients: bool = False) -> Arranged:
    """Who gets a row of figures, who a cell, and who is only counted."""
    ranked = list(enumerate(words.compared(clients), 1))
    most = len(ranked) if all_clients else _MOST_ROWS
    rows = [one for one in ranked if one[1].outlier][:most]
    if len(ranked) <= _ALL_ROWS:
        rows = ranked
    elif len(rows) < _LEAST_ROWS:
        more = [one for one in ranked if one not in rows][: _LEAST_ROWS - len(rows)]
        rows = sorted([*rows, *more], key=lambda one: one[0])
    taken = {rank for rank, _ in rows}
    others = [one for one in ranked if one[0] not in taken]
    cells = len(others) if all_clients or len(others) <= _MOST_CELLS else _WORST
    return Arranged(rows, others[:cells], others[cells:], words.not_compared(clients))


def clients_section(fleet: Fleet, *, all_clients: bool = False) -> Iterator[Block]:
    """All clients: rows, grid, and those that could not be compared."""
    arranged = arrange(fleet.clients, all_clients=all_clients)
    ranked = words.compared(fleet.clients)
    out = sum(one.outlier for one in ranked)
    yield Title(
        f"Clients: {count(out)} of {count(len(ranked))} stand{'s' if out == 1 else ''} out (means in ms)"
        if ranked
        else "Clients: none could be compared"
    )
    if arranged.rows:
        yield from _rows(arranged.rows, _groups(fleet.patterns))
    if arranged.grid:
        yield Gap()
        yield Fitted(partial(_grid, arranged, [one.name for one in fleet.clients]))
    for state, found in arranged.apart.items():
        most = len(found) if all_clients else _WORST
        all_of_them = " (--all-clients)" if len(found) > most else ""
        why = f" ({words.STATES[state]})" if state in words.STATES else ""
        names = some_of([shorten(one.name, _NAME) for one in found], most)
        yield Prose(f"{state.capitalize()}{why}, {count(len(found))}: {names}{all_of_them}.", hanging=2)
        if reason := words.why_not_inferred(found):
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


def _rows(rows: list[tuple[int, Client]], groups: dict[str, str]) -> Iterator[Block]:
    """A table; below it why they stand out, once for neighbours of which the same is to be said."""
    inferred = any(client.inferred for _, client in rows)
    yield table(rows, [column for column in _COLUMNS if column is not _ERROR or inferred])
    for why, those in groupby(rows, lambda row: groups.get(row[1].name, row[1].why)):
        if why:
            yield Item(f"{_ranks([rank for rank, _ in those])}: {plain(why)}", style="dim")


def _ranks(ranks: Sequence[int]) -> str:
    is_run = len(ranks) > 1 and ranks[-1] - ranks[0] == len(ranks) - 1
    return f"{ranks[0]} to {ranks[-1]}" if is_run else ", ".join(map(str, ranks))


def _part(one: Client, name: str) -> Figure:
    """A part of the client SRT, or all of it, with digits that add up."""
    network, server = words.mean_ms(one, "network"), words.mean_ms(one, "server")
    shown, whole = adding_up([network, server], 2)
    texts = {"client": whole, "network": shown[0], "server": shown[1]}
    return Figure(texts[name], words.mean_ms(one, name))


def _dash(value: float | None) -> str:
    return "-" if value is None else ms(value, 2)


def _excess_s(value: float) -> str:
    shown = f"{value:,.1f}" if abs(value) < 10_000 else words.seconds(value)
    return "0.0" if shown == "-0.0" else shown


def _of(head: str, show: Callable[[Client], Cell], style: str = "right", goes: int = 0) -> Column:
    return Column(head, lambda row: show(row[1]), style, goes)


_ERROR = _of("inferred\n+/-", words.error)
_COLUMNS = (
    Column("client", lambda row: f"{row[0]} {shorten(row[1].name, _NAME)}"),
    _of("ops", lambda one: words.few_digits(one.ops), goes=4),
    _of("client\nSRT", lambda one: _part(one, "client"), "ms"),
    _of("= net-\nwork", lambda one: _part(one, "network"), "ms"),
    _of("+\nserver", lambda one: _part(one, "server"), "ms"),
    _of("of it\nqueue", lambda one: _dash(one.queue_ms), "ms", 6),
    _ERROR,
    _of("excess\ns", lambda one: None if one.excess is None else _excess_s(one.excess.total_s)),
    _of("p99\nms", lambda one: _dash(one.client_ms.p99 if one.client_ms else None), "ms", 3),
    _of("lost", words.lost, goes=2),
    _of("clock\n+/-", lambda one: words.clock_error(one.clock), goes=1),
    _of("slots", words.slots_of, goes=5),
    _of("layer and\ncause", lambda one: shorten(words.cause_of(one), 20), "text"),
    _of("sure", lambda one: None if (by := words.blamed(one)) is None else shorten(by.confidence, 7), "text", 7),
)


# ---- the grid ----


def _grid(arranged: Arranged, names: Sequence[str], width: int) -> Iterator[Block]:
    """Name, mean client SRT and layer of each, from the top down, in the order of the ranks."""
    prefix = words.common_prefix(names)
    short = [shorten(client.name.removeprefix(prefix), _NAME) for _, client in arranged.grid]
    texts = [ms(words.mean_ms(client, "client"), 2) for _, client in arranged.grid]
    after = [len(text.partition(".")[2]) + ("." in text) for text in texts]
    means = [text + " " * (max(after) - own) for text, own in zip(texts, after, strict=True)]  # points below each other
    clients = [client for _, client in arranged.grid]
    letters = [words.letter(words.layer_of(one)) + "~" * (one.inferred is not None) for one in clients]
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
        slowest = max(words.mean_ms(client, "client") for _, client in arranged.left)
        yield Prose(
            f"and {count(len(arranged.left))} more that suffer less, mean client SRT up to {ms(slowest)} ms; "
            "--all-clients shows all."
        )


def _layers(clients: Iterable[Client]) -> str:
    """``S server 80, N network 12``."""
    by = Counter(words.layer_of(one) for one in clients)
    names = [*(name for name in words.LETTERS if by[name]), *(name for name in by if name not in words.LETTERS)]
    return ", ".join(f"{words.letter(name)} {plain(name)} {count(by[name])}" for name in names)
