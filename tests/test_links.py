"""Links, tunnels and file formats around the same packets: the same ops, and no need of Wireshark."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import links
import numpy as np
import pytest
import wire
from captures import SHARED, needs_native

from nfslat.cli import main as cli
from nfslat.decode.engine import choose
from nfslat.decode.tools import Tools
from nfslat.errors import ToolError
from nfslat.model.decoded import Decoded
from nfslat.model.tables import Ops

pytestmark = needs_native


def _no_tools() -> NoReturn:
    raise AssertionError("Wireshark's tools are not needed for this")


def _read(path: Path, scratch: Path, engine: str = "native", find: Callable[[], Tools] = _no_tools) -> Decoded:
    chosen = choose(engine, find, scratch, rereads=False)
    return chosen.decode(chosen.open(str(path)), lambda _: None)[1]


def _assert_same(one: Ops, other: Ops) -> None:
    assert one.connections == other.connections
    assert len(one) == len(other) > 0
    for column in Ops.columns():
        np.testing.assert_array_equal(getattr(one, column), getattr(other, column), err_msg=column)


@pytest.mark.parametrize("name", links.LINKS)
def test_every_link_gives_the_ops_of_ethernet(tmp_path: Path, name: str) -> None:
    """Whatever stands in front of the IP packets, what is made of them is the same, in both directions."""
    found = links.packets(links.ops(3).seen_by("client"))
    link, wrap = links.LINKS[name]
    framed = links.write_pcap(tmp_path / "framed.pcap", link, wrap, found)
    plain = links.write_pcap(tmp_path / "plain.pcap", 101, bytes, found)
    _assert_same(_read(framed, tmp_path).ops, _read(plain, tmp_path).ops)


def test_every_link_is_what_tshark_takes_it_for(tmp_path: Path, tools: Tools) -> None:
    """The frames made here are no invention: tshark finds the same ops in all of them, at the same times."""
    every = []
    for number, (link, wrap) in enumerate(links.LINKS.values()):
        flow = links.ops(3, client=("10.0.0.1", 700 + number), xid=0x1000 * (1 + number))
        every.append((link, wrap, links.packets(flow.seen_by("client"))))
    path = links.write_pcapng(tmp_path / "every.pcapng", every)
    native, tshark = _read(path, tmp_path).ops, _read(path, tmp_path, "tshark", lambda: tools).ops
    names, seen = list(links.LINKS), {connection.port_a for connection in tshark.connections}
    assert {names[connection.port_a - 700] for connection in native.connections} == set(names)
    assert {name for port, name in enumerate(names, 700) if port not in seen} == links.UNKNOWN_TO_TSHARK
    known = np.isin(native.xid, tshark.xid)
    assert sorted(native.xid[known]) == sorted(tshark.xid)
    for column in ("t0", "t1", "t2", "t3"):
        ours, theirs = getattr(native, column)[known], getattr(tshark, column)
        np.testing.assert_array_equal(ours[np.argsort(native.xid[known])], theirs[np.argsort(tshark.xid)], column)
