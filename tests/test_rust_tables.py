"""What the Rust crate and Python both say is the same: numbers on the wire, columns of tables."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from nfslat.decode.twice import Prints
from nfslat.model.details import (
    Blocked,
    Callers,
    Failures,
    Files,
    Hangs,
    Loads,
    Names,
    Others,
    Pauses,
    Replies,
    Resent,
    Slots,
    Tcp,
    TcpEvents,
    Turns,
    Unanswered,
    Unread,
)
from nfslat.model.protocol import MOUNT, NFS, NFSACL, TRANSIENT_FIRST, op_name
from nfslat.model.segments import Segments
from nfslat.model.tables import Loose, Ops, Table
from nfslat.tcp.mptcp import Signals
from nfslat.tcp.packets import Packets

SOURCES = Path(__file__).parents[1] / "native" / "src"


def _numbers(module: str) -> dict[int, str]:
    """The constants of a module of protocol.rs."""
    found = re.search(rf"pub mod {module} \{{(.*?)\n\}}", (SOURCES / "protocol.rs").read_text(), re.DOTALL)
    assert found is not None
    return {int(number): name for name, number in re.findall(r"(\w+) = (\d+),", found[1])}


@pytest.mark.parametrize(
    ("module", "program", "version", "first"),
    [
        ("mount", MOUNT, 3, 0),
        ("v2", NFS, 2, 0),
        ("v3", NFS, 3, 0),
        ("acl", NFSACL, 2, 0),
        ("op", NFS, 4, 3),
        ("cb", TRANSIENT_FIRST, 4, 3),
    ],
)
def test_operations_have_one_name(module: str, program: int, version: int, first: int) -> None:
    """Rust names every operation that Python names, and by the same name; callbacks without their prefix."""
    rust = {number: name for number, name in _numbers(module).items() if name != "ILLEGAL"}
    named = {number: op_name(program, version, number).removeprefix("CB_") for number in range(first, 100)}
    assert rust == {number: name for number, name in named.items() if not re.fullmatch(r"(OP|PROC)\d+", name)}


_TABLES: tuple[type[Table], ...] = (
    *(Ops, Loose, Callers, Slots, Names, Failures, Files, Resent, Tcp, TcpEvents, Pauses, Blocked, Hangs, Loads, Turns),
    *(Unread, Unanswered, Replies, Others),
    *(Packets, Signals, Segments, Prints),
)
_DTYPES = {f"{kind}{bits}": f"{letter}{bits}" for kind, letter in (("I", "i"), ("U", "u")) for bits in (8, 16, 32, 64)}


def _rust_tables() -> dict[str, dict[str, str]]:
    """The columns of each `table!` of the crate, by the Python table that its comment names."""
    declared = re.compile(r"table! \{\n((?: *///[^\n]*\n)+) *pub struct \w+ of \w+ \{\n(.*?)\n    \}", re.DOTALL)
    found: dict[str, dict[str, str]] = {}
    for path in SOURCES.rglob("*.rs"):
        for about, columns in declared.findall(path.read_text()):
            (name,) = re.findall(r"`nfslat\.[\w.]*?(\w+)`", about)
            assert name not in found
            found[name] = dict(re.findall(r"^ *(\w+): (\w+),", columns, re.MULTILINE))
    return found


@pytest.mark.parametrize("table", _TABLES)
def test_tables_have_the_same_columns(table: type[Table]) -> None:
    """Names, dtypes and order of the columns that the decoder hands over are those of the Python table."""
    types = {field.name: str(field.type) for field in dataclasses.fields(table)}
    columns = [(name, _DTYPES[types[name]]) for name in table.columns()]
    assert list(_rust_tables()[table.__name__].items()) == columns


def test_every_rust_table_has_a_python_table() -> None:
    """No table of the crate goes unchecked."""
    assert _rust_tables().keys() == {table.__name__ for table in _TABLES}
