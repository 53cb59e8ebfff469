"""Links, tunnels and file formats around the same packets: the same ops, and no need of Wireshark."""

from __future__ import annotations

import os
import struct
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import links
import numpy as np
import pytest

from nfslat.cli import main as cli
from nfslat.decode.engine import choose
from nfslat.decode.tools import Tools
from nfslat.model.decoded import Decoded
from nfslat.model.tables import Ops


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


# --- The same report without Wireshark --------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["snoop", "erf", "802.11", "radiotap", "NFLOG"])
@pytest.mark.parametrize("command", [[], ["transport"]])
def test_formats_and_links_give_the_report_of_pcap(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    form: str,
    command: list[str],
) -> None:
    """What is said of a pair of captures does not hang on how they were written, and Wireshark is not asked."""
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.chdir(tmp_path)
    said = []
    for name in ("pcap", form):
        for side in ("server", "client"):
            flow = links.ops(40)
            found = links.packets(flow.seen_by(side, there_ms=0.25, back_ms=0.25))
            if name in ("snoop", "erf"):
                {"snoop": links.write_snoop, "erf": links.write_erf}[name](tmp_path / side, found)
            else:
                link, wrap = links.LINKS.get(name, (1, links.plain))
                links.write_pcap(tmp_path / side, link, wrap, found)
        assert cli.main([*command, "server", "client"]) == 0
        said.append(capsys.readouterr().out.replace(f"  {name}, whole", "  pcap, whole").replace("nsecpcap", "pcap"))
    assert said[0] == said[1]
    assert len(said[0]) > 200


# --- What only Wireshark knows ----------------------------------------------------------------------------------------


def _pktap(ip: bytes) -> bytes:
    """macOS' pktap: a link that only Wireshark knows, around Ethernet."""
    return struct.pack("<III", 108, 1, 1) + bytes(96) + links.plain(ip)


def _strange(path: Path) -> Path:
    return links.write_pcap(path, 258, _pktap, links.packets(links.ops(3).seen_by("client")))


@pytest.mark.parametrize("form", ["pktap", pytest.param("nettl", marks=pytest.mark.long)])
def test_links_that_only_wireshark_knows_are_read_through_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tools: Tools, form: str
) -> None:
    """Reports, ``transport`` and ``show`` take what tshark finds as IP in such a capture."""
    paths = []
    for side in ("server", "client"):
        found = links.packets(links.ops(3).seen_by(side, there_ms=0.25, back_ms=0.25))
        plain = links.write_pcap(tmp_path / f"{side}.pcap", 1, links.plain, found)
        paths.append(tmp_path / side)
        if form == "pktap":
            links.write_pcap(paths[-1], 258, _pktap, found)
        else:
            subprocess.run([tools.editcap, "-F", "nettl", plain, paths[-1]], check=True, env=tools.environment)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    _assert_same(_read(paths[-1], scratch, find=lambda: tools).ops, _read(plain, scratch).ops)
    both = [str(path) for path in paths]
    for command in (both, ["transport", both[0]], ["show", *both, "--slowest", "1"]):
        capsys.readouterr()
        assert cli.main([*command, "--quiet"]) == 0, capsys.readouterr().err
    assert "Call at the server, frame 1\n" in capsys.readouterr().out


def test_a_link_that_nothing_knows_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without Wireshark, and where Wireshark finds no IP in it, each command says what link it is."""
    strange = _strange(tmp_path / "strange.pcap")
    meters = links.write_pcap(tmp_path / "meters.pcap", 195, bytes, [(10**18, bytes(20))])
    for command in (["transport"], []):
        assert cli.main([*command, str(meters)]) == 3
        assert "link type 195 (IEEE 802.15.4), in which neither" in capsys.readouterr().err
    monkeypatch.setenv("PATH", "/nowhere")
    for command in (["transport"], []):
        assert cli.main([*command, str(strange)]) == 3
        assert "link type 258 (macOS pktap), which only Wireshark may know" in capsys.readouterr().err


def test_a_strange_link_out_of_a_pipe_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe cannot be handed to Wireshark, so it is said what would help."""
    pipe = tmp_path / "pipe"
    for command in (["transport"], []):
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        data = _strange(tmp_path / "strange.pcap").read_bytes()
        writer = threading.Thread(target=pipe.write_bytes, args=(data,))
        writer.start()
        assert cli.main([*command, str(pipe)]) == 3
        writer.join()
        assert "of link type 258 (macOS pktap)" in capsys.readouterr().err


def test_a_capture_in_an_unknown_encapsulation_names_the_other_engine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], tools: Tools
) -> None:
    """Cisco's metadata is nothing that the native engine knows: it says what to do, and tshark reads it."""
    found = links.packets(links.ops(3).seen_by("client"))
    tag = bytes.fromhex("8909 0101 0001 0007")
    path = links.write_pcap(tmp_path / "cmd.pcap", 1, lambda ip: bytes(12) + tag + b"\x08\0" + ip, found)
    assert cli.main([str(path), "--engine", "native"]) == 3
    assert "try --engine tshark" in capsys.readouterr().err
    assert cli.main([str(path), "--engine", "tshark"]) == 0
