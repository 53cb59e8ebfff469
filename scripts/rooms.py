"""The rooms of nfslat and their imports -> docs/rooms.svg, the picture in docs/architecture.md (scripts/generate)."""

from __future__ import annotations

import ast
import re
import textwrap
from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape

PACKAGE = Path(__file__).resolve().parents[1] / "nfslat"
# From the top: what stands in a line may import what stands above it, and its own room.
ROOMS = """
    errors confined model kernels clock match select host_pairs decompose decode peer wire inflight outcomes results
    compare answer tally analyse names evidence findings figures pipeline flow report export packets tcp api diff
    series fleet field live sizes cli
""".split()
MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
}
# Imported by nearly every room: their arrows would hide the others.
_EVERYWHERE = ("errors", "model")
_IMPORT = re.compile(r"^[ \t]*((?:from [\w.]+ )?import (?:\([^)]*\)|.+))$", re.MULTILINE)
_NAMED = re.compile(r"""["'](nfslat\.[\w.]+)["']""")
_ROW, _TOP, _LEFT, _BOX, _TEXT = 38, 34, 230, 96, 84  # px; _TEXT in characters
_STYLE = """
text { font: 13px sans-serif; fill: #222 } .name { font-weight: bold; text-anchor: middle }
.said { fill: #555; font-size: 12px }
rect { fill: #eef3fa; stroke: #5b7ba6 } .everywhere rect { fill: #f6f6f6; stroke: #aaa }
path { fill: none; stroke: #2f5f9e; stroke-width: 1.4; marker-end: url(#head) }
path.implied { stroke: #bbb; stroke-width: .5; marker-end: none }
"""


@cache
def imports(name: str) -> frozenset[str]:
    """Modules that `name` imports, at once or late, or names in a string as cli.main does its commands."""
    source = MODULES[name].read_text(encoding="utf-8")
    found = set(_NAMED.findall(source))
    # To parse whole modules takes ten times as long.
    for statement in _IMPORT.findall(source):
        (node,) = ast.parse(statement).body
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            if node.level:
                raise ValueError(f"{MODULES[name]}: {statement}: import by the whole name, from nfslat")
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
    modules = {text.removeprefix("nfslat.") for text in found}
    return frozenset(module for module in modules if module in MODULES) - {name}


def picture() -> str:
    """Rooms from top to bottom, an arrow from each to those that import it; faint where longer ways imply it."""
    above: dict[str, set[str]] = {room: set() for room in ROOMS}
    for name in MODULES:
        room = name.split(".")[0]
        if room in above:
            above[room] |= {other.split(".")[0] for other in imports(name)} - {room, *_EVERYWHERE}
    behind: dict[str, set[str]] = {}
    for room in ROOMS:
        behind[room] = above[room].union(*(behind[other] for other in above[room]))
    faint: list[str] = []
    plain: list[str] = []
    for room in ROOMS:
        for other in sorted(above[room], key=ROOMS.index):
            implied = any(other in behind[between] for between in above[room])
            (faint if implied else plain).append(_arrow(other, room, implied=implied))
    height = _TOP + _ROW * len(ROOMS)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 900 {height}" width="900" height="{height}">',
            f"<style>{_STYLE}</style>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0 8 4 0 8z" style="fill:#2f5f9e;stroke:none;marker-end:none"/></marker></defs>',
            '<rect width="900" height="100%" style="fill:#fff;stroke:none"/>',
            f'<text class="said" x="{_LEFT}" y="20">Arrows lead from a room to those that import it; faint where rooms '
            "between the two do, too. Nearly all import the grey ones.</text>",
            *faint,
            *plain,
            *map(_room, ROOMS),
            "</svg>",
        ]
    )


def _arrow(source: str, target: str, *, implied: bool) -> str:
    """From the left of a box to the left of another further down: the wider apart, the further out."""
    start, end = (_TOP + _ROW * ROOMS.index(room) + _ROW // 2 for room in (source, target))
    start, end = start + 4, end - 4
    out = _LEFT - 14 - 9 * (ROOMS.index(target) - ROOMS.index(source))
    kind = ' class="implied"' if implied else ""
    return f'<path{kind} d="M{_LEFT} {start}C{out} {start} {out} {end} {_LEFT} {end}"/>'


def _room(room: str) -> str:
    y = _TOP + _ROW * ROOMS.index(room)
    path = MODULES[room]
    said = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[0]
    lines = textwrap.wrap(said.replace("`", "").replace(" -> ", " \N{RIGHTWARDS ARROW} "), _TEXT)
    first = y + _ROW // 2 + (4 if len(lines) == 1 else -3)
    words = "".join(
        f'<text class="said" x="{_LEFT + _BOX + 12}" y="{first + 15 * number}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    )
    name = f"{room}/" if path.name == "__init__.py" else room
    kind = ' class="everywhere"' if room in _EVERYWHERE else ""
    return (
        f'<g{kind}><rect x="{_LEFT}" y="{y + 5}" width="{_BOX}" height="{_ROW - 10}" rx="4"/>'
        f'<text class="name" x="{_LEFT + _BOX // 2}" y="{y + _ROW // 2 + 4}">{name}</text>{words}</g>'
    )
