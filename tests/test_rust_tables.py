"""What the Rust crate and Python both have to know is the same on both sides: numbers on the wire."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nfslat.constants import MOUNT, NFS, NFSACL, TRANSIENT_FIRST, op_name

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
