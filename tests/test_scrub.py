"""`nfslat extract --anonymize`: packets that tell neither who nor what, and can still be measured."""

from __future__ import annotations

import ipaddress
import itertools
import re
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import wire
from captures import SHARED
from hypothesis import given
from hypothesis import strategies as st

from nfslat.cli import main as cli
from nfslat.decode.tools import Tools
from nfslat.export.anonymous import Pseudonyms
from nfslat.packets.extract.scrub import scrub

ROOT = Path(__file__).parents[1]
LINK_TYPES = (0, 1, 12, 101, 108, 113, 228, 229, 276, 127, 195)
ETHERNET, RAW, NULL, SLL, SLL2 = 1, 101, 0, 113, 276

OURS, THEIRS = "10.11.12.13", "fd00:1234::5678"
NAME = b"payroll-2026.xls"
CRED = wire._ints(1) + wire._opaque(wire._ints(0) + wire._opaque(b"ora-db-07.acme.example") + wire._ints(1000, 0, 0))
LOOKUP = wire.call(0x11223344, wire.NFS, 3, 3, wire._opaque(wire.FH) + wire._opaque(NAME), cred=CRED)
CALL_BYTES, REPLY_BYTES = 28, 28  # record mark, XID to procedure; record mark, XID to accept_stat


def _ip(packets: Sequence[wire.Packet]) -> list[bytes]:
    return [packet.ip for packet in packets]


def _tcp(host: str = OURS) -> list[bytes]:
    """A call in two segments, and its reply."""
    tcp = wire.Tcp((host, 811), (str(ipaddress.ip_address(host) + 1), 2049))
    tcp.send(0, ">", LOOKUP, cut=(80,))
    tcp.send(1, "<", wire.reply(0x11223344, wire._ints(0) + wire._opaque(wire.OTHER_FH)))
    return _ip(tcp.packets)


def _clean(packet: bytes, link_type: int = RAW) -> bytes:
    return scrub(packet, link_type, Pseudonyms().address)


def _has_secret(data: bytes) -> bool:
    secrets = [NAME, b"acme", wire.FH[4:12], wire.OTHER_FH[4:12]]
    for host in (OURS, THEIRS):
        secrets += [(ipaddress.ip_address(host) + more).packed for more in (0, 1)]
    return any(secret in data for secret in secrets)


def test_of_a_call_the_header_stays() -> None:
    """Up to the procedure, before the credential; of a segment in the middle nothing; of a reply up to its status."""
    first, second, reply = _tcp()
    assert _clean(first)[40:] == first[40 : 40 + CALL_BYTES]
    assert _clean(second)[40:] == b""
    assert _clean(reply)[40:] == reply[40 : 40 + REPLY_BYTES]
    assert _has_secret(first)
    assert _has_secret(reply)


def test_what_is_in_front_of_the_payload_stays_but_for_addresses() -> None:
    """Ports, numbers, flags and window; lengths are those of the wire; both checksums are made new."""
    first = _tcp()[0]
    clean = _clean(first)
    assert clean[:10] == first[:10]
    assert clean[20:36] == first[20:36]
    assert clean[38:40] == first[38:40]
    assert ipaddress.ip_address(clean[12:16]) == ipaddress.ip_address("198.18.0.1")
    total = sum(struct.unpack(">10H", clean[:20]))
    assert (total & 0xFFFF) + (total >> 16) == 0xFFFF


def _around(ip: bytes) -> dict[str, tuple[int, bytes, int]]:
    """Link type, frame, and where IP begins in it."""
    kind = struct.pack(">H", 0x0800 if ip[0] >> 4 == 4 else 0x86DD)
    macs, mac = bytes.fromhex("525400770001 525400770002"), bytes.fromhex("525400770001")
    return {
        "ethernet": (ETHERNET, macs + kind + ip, 14),
        "vlan": (ETHERNET, macs + b"\x81\x00\x00\x07" + kind + ip, 18),
        "qinq": (ETHERNET, macs + b"\x88\xa8\x00\x07\x81\x00\x00\x08" + kind + ip, 22),
        "sll": (SLL, struct.pack(">HHH", 0, 1, 6) + mac + bytes(2) + kind + ip, 16),
        "sll2": (SLL2, kind + struct.pack(">HIHBB", 0, 3, 1, 0, 6) + mac + bytes(2) + ip, 20),
        "raw": (RAW, ip, 0),
        "loopback": (NULL, struct.pack("<I", 2 if ip[0] >> 4 == 4 else 30) + ip, 4),
    }


@pytest.mark.parametrize("host", [OURS, THEIRS])
@pytest.mark.parametrize("around", _around(b"\x45"))
def test_every_link_layer_is_understood(host: str, around: str) -> None:
    """The same is left of a packet whatever stands in front of it; MAC addresses have pseudonyms."""
    for ip in _tcp(host):
        link_type, frame, at = _around(ip)[around]
        clean = _clean(frame, link_type)
        assert clean[at:] == _clean(ip)
        assert len(clean) > at + 20
        assert not _has_secret(clean)
        assert bytes.fromhex("5254007700") not in clean
    assert len(clean[:at]) == at


def test_addresses_are_the_same_in_all_packets() -> None:
    """Each MAC and IP address has one pseudonym, whatever packet it is in."""
    names = Pseudonyms()
    frames = [_around(ip)["ethernet"][1] for ip in (*_tcp(), *_tcp())]
    clean = [scrub(frame, ETHERNET, names.address) for frame in frames]
    assert clean[:3] == clean[3:]
    assert len({frame[:12] for frame in clean}) == 1
    assert {frame[26:30] for frame in clean} == {ipaddress.ip_address(f"198.18.0.{n}").packed for n in (1, 2)}


def test_options_that_may_tell_are_left_out() -> None:
    """IP options (routes) and TCP options with addresses or keys become no-ops; times, SACK and window scale stay."""
    known = b"\x01\x01\x08\x0a" + bytes(range(8)) + b"\x03\x03\x07\x01"
    secret = b"\x1e\x08\x03\x00" + ipaddress.ip_address(OURS).packed  # MPTCP ADD_ADDR
    ends = ipaddress.ip_address(OURS).packed + ipaddress.ip_address("10.11.12.14").packed
    route = b"\x07\x08\x04" + ipaddress.ip_address(OURS).packed + b"\x00"
    tcp = struct.pack(">HHIIBBHHH", 811, 2049, 1, 1, 11 << 4, 0x18, 9, 7, 0) + known + secret
    head = struct.pack(">BBHHHBBH", 0x47, 0, 28 + len(tcp), 1, 0, 64, 6, 0) + ends + route
    clean = _clean(head + tcp)
    assert clean[20:28] == b"\x01" * 8
    assert clean[48:] == known + b"\x01" * 8
    assert not _has_secret(clean)


@pytest.mark.parametrize("host", [OURS, THEIRS])
def test_of_datagrams_the_header_stays(host: str) -> None:
    """UDP has no record mark; of an IP fragment behind the first one only the IP header is left."""
    udp = wire.Udp((host, 811), (str(ipaddress.ip_address(host) + 1), 2049))
    whole = udp.send(0, ">", LOOKUP)[0].ip
    pieces = _ip(udp.send(1, ">", LOOKUP + bytes(2000), mtu=1280))
    length = 20 if ":" not in host else 40
    assert _clean(whole)[length + 8 :] == LOOKUP[:24]
    more = 0 if ":" not in host else 8
    assert _clean(pieces[0])[length + more + 8 :] == LOOKUP[:24]
    assert [len(_clean(piece)) for piece in pieces[1:]] == [length + more] * (len(pieces) - 1)
    assert not any(map(_has_secret, map(_clean, [whole, *pieces])))


def test_of_what_is_not_understood_nothing_stays() -> None:
    """Tunnels, ARP, ICMP, extension headers and other link types: the headers in front of them at most."""
    inner = _around(_tcp()[0])["ethernet"][1]
    tunnel = wire.vxlan(inner, ">", 42)
    assert len(_clean(tunnel, ETHERNET)) == 14 + 20 + 8
    assert _clean(tunnel[:12] + b"\x08\x06" + inner, ETHERNET)[12:] == b"\x08\x06"
    for protocol in (1, 4, 41, 47, 50, 132):
        packet = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(inner), 1, 0, 64, protocol, 0) + inner[26:34] + inner
        assert len(_clean(packet)) == 20
    routing = struct.pack(">IHBB", 6 << 28, len(inner), 43, 64) + bytes(32) + inner
    assert len(_clean(routing)) == 40
    assert _clean(inner, 127) == b""


def test_a_verifier_is_in_zeros() -> None:
    """That of RPCSEC_GSS stands in front of the status of a reply."""
    tcp = wire.Tcp((OURS, 811), ("10.11.12.14", 2049))
    body = wire._ints(7, 1, 0, 6) + wire._opaque(b"acme-signature-") + wire._ints(0) + wire.OTHER_FH
    ip = tcp.send(0, "<", body)[0].ip
    assert _clean(ip)[40:] == ip[40:64] + bytes(16) + wire._ints(0)
    denied = tcp.send(1, "<", wire._ints(8, 1, 1, 1, 5))[0].ip
    assert _clean(denied)[40:] == denied[40:60]


@given(st.sampled_from(LINK_TYPES), st.binary(max_size=120))
def test_any_bytes_do(link_type: int, packet: bytes) -> None:
    """Whatever it is: no error, and no more than there was."""
    assert len(_clean(packet, link_type)) <= len(packet)


@given(
    st.sampled_from([*_tcp(), *_tcp(THEIRS)]),
    st.sampled_from(sorted(_around(b"\x45"))),
    st.integers(0, 300),
    st.lists(st.tuples(st.integers(0, 59), st.integers(0, 255)), max_size=3),
)
def test_no_secret_is_left_of_a_packet_cut_or_damaged(
    ip: bytes, around: str, length: int, damage: list[tuple[int, int]]
) -> None:
    """With any snaplen and wrong bytes in headers: what is behind them is not shown."""
    link_type, frame, at = _around(ip)[around]
    broken = bytearray(frame)
    for where, byte in damage:
        # The addresses themselves are what they are.
        if where < len(broken) - at and where not in range(8, 40 if ip[0] >> 4 == 6 else 20):
            broken[at + where] = byte
    assert not _has_secret(_clean(bytes(broken[:length]), link_type))


# --- The command ------------------------------------------------------------------------------------------------------

_SECRETS = ("nfs.fhandle", "nfs.name", "nfs.pathname.component", "rpc.auth.machinename", "nfs.session_id4", "nfs.data")


def _shown(path: Path, tools: Tools, *fields: str) -> list[list[str]]:
    done = subprocess.run(
        [tools.tshark, "-n", "-r", str(path), "-T", "fields", *(part for one in fields for part in ("-e", one))],
        capture_output=True,
        text=True,
        check=True,
        env=tools.environment,
    )
    assert [line for line in done.stderr.splitlines() if not line.startswith("Running as")] == []
    return [line.split("\t") for line in done.stdout.splitlines()]


def _pairs() -> list[object]:
    found: list[object] = [pytest.param(ROOT / "samples" / "server-threads", id="sample")]
    for name in ("h_v42_metadata", "i_v3_ipv6", "i_v3_any_sll2", "i_v3_fmt_snoop"):
        folder = SHARED / "lab" / name
        marks = [pytest.mark.skipif(not folder.is_dir(), reason="no lab"), pytest.mark.long]
        found.append(pytest.param(folder, id=name, marks=marks))
    return found


@pytest.mark.parametrize("folder", _pairs())
def test_extracted_packets_tell_nothing_and_are_measured_the_same(
    folder: Path, tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """tshark reads both files alike: times, numbers and comments; of what the one shows, the other holds no byte."""
    monkeypatch.setattr("nfslat.decode.workspace.find_tools", lambda scratch: tools)
    telling = tmp_path / "Acme-Hospital"
    telling.mkdir()
    pair = []
    for side in ("server", "client"):
        path = next(folder.glob(f"{side}.*"))
        pair.append(str(telling / f"Acme-Hospital-{path.name}"))
        Path(pair[-1]).symlink_to(path)
    plain, clean = tmp_path / "plain.pcapng", tmp_path / "clean.pcapng"
    assert cli.main(["extract", *pair, "--slowest", "6", "--context", "--out", str(plain)]) == 0
    said = ["--json", str(tmp_path / "said.json")]
    assert cli.main(["extract", *pair, "--slowest", "6", "--context", "--anonymize", "--out", str(clean), *said]) == 0
    capsys.readouterr()
    same = ("frame.time_epoch", "frame.len", "frame.interface_name", "tcp.seq_raw", "tcp.ack_raw", "tcp.len")
    same += ("tcp.options.timestamp.tsval", "tcp.window_size_value", "frame.comment")
    where = ("eth.src", "eth.dst", "ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "sll.src.eth")
    of_plain = _shown(plain, tools, *same, *where, *_SECRETS)
    of_clean = _shown(clean, tools, *same, "rpc.xid", "rpc.time")
    assert [row[: len(same)] for row in of_plain] == [row[: len(same)] for row in of_clean]
    assert any(time for *_, xid, time in of_clean if xid)
    data = clean.read_bytes()
    assert b"Acme" not in data + (tmp_path / "said.json").read_bytes()
    addresses, secrets = set(), set()
    for row in of_plain:
        own, told = row[len(same) : -len(_SECRETS)], row[-len(_SECRETS) :]
        addresses |= set(itertools.chain.from_iterable(cell.split(",") for cell in own)) - {""}
        secrets |= {cell for one in told for cell in one.split(",") if len(cell) > 3}
    assert addresses
    assert secrets
    packed = {
        bytes.fromhex(one.replace(":", ""))
        if re.fullmatch(r"[0-9a-f]{2}(:[0-9a-f]{2}){5}", one)
        else ipaddress.ip_address(one).packed
        for one in addresses
    }
    packed |= {one.encode() for one in secrets | addresses}
    packed |= {bytes.fromhex(one)[:16] for one in secrets if re.fullmatch(r"([0-9a-f]{2}){8,}", one)}
    assert [one for one in packed if one in data] == []
    assert any(one in plain.read_bytes() for one in packed)
