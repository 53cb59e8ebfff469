"""What tshark said of captures that tests make and read, kept in tests/oracle/; the native engine is held against it.

What is kept is tshark's own output, line by line: by day the engine that reads it runs as ever, on everything behind
the process, and what it makes of a capture is compared with what the native one makes of it. ``scripts/test --oracle``
asks tshark anew and writes the files; a capture that is in none of them is asked about on the spot.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import NamedTuple
from unittest import mock

from nfslat.decode.capture import Source
from nfslat.decode.tools import Tools
from nfslat.decode.tshark import capinfos
from nfslat.decode.tshark import cells as tshark_cells
from nfslat.decode.tshark import engine as tshark
from nfslat.errors import InputError, ToolError
from nfslat.model.decoded import Decoded, Reassembly
from nfslat.model.protocol import NULL, NULL32
from nfslat.model.tables import Ops, State

FOLDER = Path(__file__).parent / "oracle"
_LINES = tshark._lines  # before anything puts something else in its place
_COMPOUND = 1  # all that is known of an op whose operations were not shown

# Everything that is known of an op but status and accept, which tshark is not asked for.
_COLUMNS = (
    *("offset", "size", "fh", "transmissions", "t0", "t1", "t2", "t3", "whole", "shown_call_ns", "shown_reply_ns"),
    *("call_first_frame", "call_last_frame", "reply_first_frame", "reply_last_frame"),
)
_STATES = [state for state in State if state is not State.PAIRED]
_FACTS = ("lost_ranges", "lost_bytes", "backward_times", "tls_connections", "first_ns", "last_ns")


# --- Two engines ------------------------------------------------------------------------------------------------------


class _Key(NamedTuple):
    """What the ops of both engines are joined by; several with one key are compared in their order."""

    connection: tuple[str, tuple[str, int], tuple[str, int]]
    sender: tuple[str, int]
    xid: int


class Compared(NamedTuple):
    """Ops of two engines, joined."""

    only_native: list[int]  # rows
    only_tshark: int
    in_order: bool
    unknown: Counter[str]  # fields that only the native engine knows
    different: Counter[str]  # fields in which the two contradict each other


def compared(native: Ops, other: Ops) -> Compared:
    """The native engine's ops with tshark's."""
    keys, rows = _keys(native), _values(native)
    by_key: dict[_Key, list[int]] = defaultdict(list)
    for row, key in enumerate(keys):
        by_key[key].append(row)
    unknown: Counter[str] = Counter()
    different: Counter[str] = Counter()
    common: list[int] = []
    only_tshark = 0
    for key, theirs in zip(_keys(other), _values(other), strict=True):
        if not by_key[key]:
            only_tshark += 1
            continue
        common.append(by_key[key].pop(0))
        ours = rows[common[-1]]
        if ours == theirs:
            continue
        for name, mine, value in zip(("kind", *_COLUMNS), ours, theirs, strict=True):
            if mine != value:
                (unknown if _is_unknown(name, value) else different)[name] += 1
    left = sorted(set(range(len(keys))) - set(common))
    return Compared(left, only_tshark, common == sorted(common), unknown, different)


def _keys(ops: Ops) -> list[_Key]:
    rows = zip(ops.conn.tolist(), ops.direction.tolist(), ops.xid.tolist(), strict=True)
    return [_Key(ops.connections[conn].key, ops.connections[conn].source(way), xid) for conn, way, xid in rows]


def _values(ops: Ops) -> list[tuple[object, ...]]:
    kinds = [kind[:4] for kind in ops.kinds]
    return list(
        zip(
            (kinds[kind] for kind in ops.kind.tolist()),
            *(getattr(ops, name).tolist() for name in _COLUMNS),
            strict=True,
        )
    )


def _is_unknown(name: str, value: object) -> bool:
    if name == "kind":
        return isinstance(value, tuple) and value[1:2] == (4,) and value[3] == _COMPOUND
    return name in ("offset", "size", "fh") and value in (NULL, NULL32)


def cells(native: Decoded, other: Decoded) -> list[str]:
    """The two on one capture as cells of engine_differences.md; a number for both, or native's and tshark's."""
    found = compared(native.ops, other.ops)
    assert not found.only_tshark, f"{found.only_tshark} ops that only tshark has"
    assert found.in_order, "the ops are not in the same order"
    ours, theirs = native.states, other.states
    counts = [(len(native.ops), len(other.ops)), *((ours[state], theirs[state]) for state in _STATES)]
    return [str(mine) if mine == its else f"{mine} / {its}" for mine, its in counts] + [
        ", ".join(f"{name} {count}" for name, count in sorted(fields.items())) or "-"
        for fields in (found.unknown, found.different)
    ]


def _differs(native: Decoded, other: Decoded) -> str:
    """In what the two are not the same, in words; nothing where they are."""
    names = ["ops", *(state.name for state in _STATES), "unknown to tshark", "different"]
    try:
        said = dict(zip(names, cells(native, other), strict=True))
    except AssertionError as problem:
        return str(problem)
    said |= {name: f"{getattr(native, name)} / {getattr(other, name)}" for name in _FACTS if _of(native, other, name)}
    said["packets"] = f"{sum(native.packet_kinds.values())} / {sum(other.packet_kinds.values())}"
    if sum(native.packet_kinds.values()) == sum(other.packet_kinds.values()):
        del said["packets"]
    last = ("unknown to tshark", "different")
    return "; ".join(f"{name} {text}" for name, text in said.items() if (text != "-" if name in last else "/" in text))


def _of(native: Decoded, other: Decoded, name: str) -> bool:
    return bool(getattr(native, name) != getattr(other, name))


# --- What is kept -----------------------------------------------------------------------------------------------------


class Absent(Exception):
    """tshark was not asked this."""


@dataclass
class Answers:
    """tshark's output on the captures of one group of tests; the file is read when it is first wanted."""

    path: Path
    texts: dict[str, str] = field(default_factory=dict)  # by a sum of each
    captures: dict[str, dict[str, str]] = field(default_factory=dict)  # capture -> what was asked -> sum, or "differs"

    @classmethod
    def load(cls, path: Path) -> Answers:
        if not path.exists():
            return cls(path)
        kept = json.loads(lzma.decompress(path.read_bytes()))
        return cls(path, kept["texts"], kept["captures"] if kept["asked"] == _asked() else {})

    def keep(self, capture: str, asked: str, text: str) -> None:
        name = hashlib.sha256(text.encode()).hexdigest()[:16]
        self.texts[name] = text
        self.captures.setdefault(capture, {})[asked] = name

    def text(self, capture: str, asked: str) -> str:
        try:
            return self.texts[self.captures[capture][asked]]
        except KeyError:
            raise Absent(f"{capture}: {asked}") from None

    def write(self, still_there: Callable[[str], bool]) -> None:
        """What is kept of tests that are no more goes."""
        captures = {name: self.captures[name] for name in sorted(self.captures) if still_there(name)}
        wanted = {text for kept in captures.values() for asked, text in kept.items() if asked != "differs"}
        kept = {"asked": _asked(), "captures": captures, "texts": {name: self.texts[name] for name in sorted(wanted)}}
        data = lzma.compress(json.dumps(kept, separators=(",", ":")).encode(), preset=9 | lzma.PRESET_EXTREME)
        self.path.parent.mkdir(exist_ok=True)
        self.path.write_bytes(data)


def _asked() -> str:
    """A sum of what tshark is asked for: after a change of it, nothing that was kept is an answer."""
    commands = [[*tshark.preferences(how), *_output(form)] for how in Reassembly for form in ("columns", "fields")]
    return hashlib.sha256(json.dumps(commands).encode()).hexdigest()[:16]


def _output(form: str) -> list[str]:
    return tshark_cells.column_arguments() if form == "columns" else tshark_cells.field_arguments()


class Oracle:
    """The answers of this run. `anew`: tshark is asked, and what it says is kept."""

    def __init__(self, tools: Callable[[], Tools], scratch: Path, *, anew: bool) -> None:
        self.tools, self._scratch, self.anew = tools, scratch, anew
        self.groups: dict[str, Answers] = {}
        self._held: set[tuple[str, str]] = set()
        self._lock = Lock()  # both captures of a pair are decoded at once, and the module has one `_lines`

    def group(self, name: str) -> Answers:
        if name not in self.groups:
            self.groups[name] = Answers.load(FOLDER / f"{name}.xz")
        return self.groups[name]

    def hold(self, group: str, capture: str, source: Source, native: Decoded, *, once: bool = False) -> None:
        """`native` is what tshark makes of `source`, or differs from it as it did when tshark was asked.

        `once`: the capture does not change, so that looking at it a second time shows nothing new.
        """
        with self._lock:
            if once and (group, capture) in self._held:
                return
            self._held.add((group, capture))
            kept = self.group(group)
            if not (self.anew or kept.path.exists()):
                return  # tshark was never asked about captures of these tests
            if any(file.runs is not None for file in source.files):
                return  # tshark reads packets in the order of the files
            if self.anew:
                differs = self._compare(group, capture, source, native)
                kept.captures.setdefault(capture, {})["differs"] = differs
                return
            differs = self._compare(group, capture, source, native)
        was = kept.captures.get(capture, {}).get("differs", "")
        assert differs == was, f"{capture}: native / tshark: {differs or 'no difference'}; it was: {was or 'none'}"

    def _compare(self, group: str, capture: str, source: Source, native: Decoded) -> str:
        try:
            return _differs(native, self.decode(group, capture, source))
        except (InputError, ToolError) as problem:
            return f"tshark: {type(problem).__name__}"

    def said(self, capture: str, command: Sequence[str], ask: Callable[[], str]) -> str:
        """What tshark prints when it is given `command` and a sample."""
        kept, asked = self.group("samples"), " ".join(command)
        if self.anew or asked not in kept.captures.get(capture, {}):
            kept.keep(capture, asked, ask())
        return kept.text(capture, asked)

    def decode(self, group: str, capture: str, source: Source) -> Decoded:
        """What the engine "tshark" makes of `source`, by what was kept of it where there is that."""
        kept = self.group(group)
        if not self.anew and capture in kept.captures:
            try:
                with mock.patch.object(tshark, "_lines", _replayed(kept, capture)):
                    return tshark.decode(source, _no_tools(), _silent)
            except Absent:
                pass
        tools = self.tools()
        paths = ",".join(os.fspath(file.path) for file in source.files)
        with mock.patch.object(tshark, "_lines", _recorded(kept, capture)):
            return tshark.decode(capinfos.open_source(paths, tools, self._scratch), tools, _silent)


def _no_tools() -> Tools:
    return Tools("tshark", "capinfos", "editcap", "mergecap", "kept", {})


def _silent(_: int) -> None:
    """Nobody waits."""


_Lines = Callable[[Source, Tools, Reassembly, str], Generator[str, None, None]]


def _replayed(kept: Answers, capture: str) -> _Lines:
    def lines(source: Source, tools: Tools, how: Reassembly, form: str) -> Generator[str, None, None]:
        yield from kept.text(capture, f"{how.name} {form}").split("\n")[:-1]

    return lines


def _recorded(kept: Answers, capture: str) -> _Lines:
    def lines(source: Source, tools: Tools, how: Reassembly, form: str) -> Generator[str, None, None]:
        out = []
        for line in _LINES(source, tools, how, form):
            out.append(line)
            yield line
        kept.keep(capture, f"{how.name} {form}", "".join(f"{line}\n" for line in out))

    return lines


def name_in(source: Source, folder: Path) -> str:
    """A name for a capture that is the same in every run: where its files lie below the folder of their test."""
    parts = [file.path.relative_to(folder).parts[1:] for file in source.files]  # the first has a number of the run's
    return ",".join("/".join(each) for each in parts)
