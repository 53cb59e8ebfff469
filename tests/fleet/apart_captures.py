"""Captures of many pairs of addresses for tests of what takes them apart: made by hand, and put together of real ones.

Times are coarse, so that packets of several clients have the same one.
"""

from __future__ import annotations

import gzip
import ipaddress
import itertools
import random
import struct
from collections.abc import Sequence
from pathlib import Path

import wire
from wire import Seen, Tcp, Udp

_LINK = 20  # place of the link type in a pcap header
_HEADER = 24


def lookup(xid: int, name: bytes, directory: bytes = wire.FH) -> bytes:
    """A call that names a file."""
    return wire.call(xid, wire.NFS, 3, 3, wire._opaque(directory) + wire._opaque(name))


def found(xid: int, handle: bytes) -> bytes:
    """Its reply."""
    return wire.reply(xid, wire._ints(0) + wire._opaque(handle) + wire._ints(0, 0))


def sequence(session: bytes, slot: int) -> bytes:
    """SEQUENCE on a session."""
    return wire._ints(53) + session + wire._ints(1, slot, 63, 0)


def _messages(numbers: random.Random, xid: int) -> tuple[bytes, bytes]:
    """A call and its reply. Names, handles and sessions are the same with several clients, some COMPOUNDs with one."""
    kind = numbers.randrange(8)
    if kind == 0:
        return wire.getattr3(xid), wire.reply(xid, wire.GETATTR3)
    if kind == 1:
        size = numbers.choice([0, 512, 4096])
        return wire.write(xid, numbers.randrange(1 << 20), size), wire.reply(xid, wire.WRITE3)
    if kind in (2, 3):
        name = b"file %d" % numbers.randrange(12)
        return lookup(xid, name), found(xid, name.ljust(32, b"."))
    if kind == 4:
        return wire.rename(xid), wire.reply(xid, wire.RENAME3)
    if kind == 5:
        session = bytes([numbers.randrange(4)]) * 16
        ops = [wire.v4_putfh(), wire.V4_GETATTR, wire.v4_read(0, 512)][: numbers.randrange(1, 4)]
        results = wire._ints(53, 0) + session + wire._ints(1, 0, 63, 63, 0)
        status = numbers.choice([0, 0, 10008])  # NFS4ERR_DELAY
        said = wire._ints(status) + wire._opaque(b"") + wire._ints(2) + results + wire._ints(22, status)
        return wire.compound(xid, sequence(session, numbers.randrange(4)), *ops), wire.reply(xid, said)
    size = numbers.choice([512, 8192])
    return wire.read(xid, numbers.randrange(1 << 20), size), wire.reply(xid, wire.read3(size))


def _tcp(numbers: random.Random, flow: Tcp) -> list[wire.Packet]:
    """Ops on a connection, and which of its packets the capture has not."""
    if numbers.random() < 0.5:
        flow.syn(numbers.randrange(20))
    xid = numbers.choice([1, numbers.randrange(1 << 32)])
    for _ in range(numbers.randrange(1, 12)):
        t_ms = numbers.randrange(300)
        xid = (xid + 1) % (1 << 32)
        call, reply = _messages(numbers, xid)
        cut = [numbers.randrange(1, 60)] if numbers.random() < 0.3 else []
        sent = flow.send(t_ms, ">", call, cut=cut)
        if numbers.random() < 0.2:
            flow.again(t_ms + numbers.randrange(50), sent[0])
        if numbers.random() < 0.2:
            flow.copy(t_ms + 1, sent[-1])
        if numbers.random() < 0.9:
            flow.send(t_ms + numbers.randrange(1, 40), "<", reply, cut=[1448] if len(reply) > 4000 else [])
        if numbers.random() < 0.2:
            flow.ack(t_ms + 45, ">")
    return [packet for packet in flow.packets if numbers.random() < 0.03]


def _udp(numbers: random.Random, flow: Udp) -> list[wire.Packet]:
    for xid in range(numbers.randrange(1, 5)):
        t_ms = numbers.randrange(300)
        call, reply = _messages(numbers, xid)
        flow.send(t_ms, ">", call, mtu=numbers.choice([600, 0xFFFF]))
        if numbers.random() < 0.9:
            flow.send(t_ms + numbers.randrange(1, 40), "<", reply, mtu=1500)
    return []


def any_fleet(seed: int) -> list[list[Seen]]:
    """What a capture sees of clients of one server: TCP, UDP in fragments, callbacks, reconnects, VLAN, IPv6, noise."""
    numbers = random.Random(seed)
    seen: list[list[Seen]] = []
    for _ in range(numbers.randrange(2, 7)):
        host = numbers.randrange(20, 26)
        is_v6 = numbers.random() < 0.25
        net, server = ("fd00::", "fd00::2") if is_v6 else ("10.0.0.", "10.0.0.2")
        client = (f"{net}{host}", numbers.randrange(700, 703))
        vlan = numbers.choice([None, None, 7])
        kind = numbers.randrange(6)
        if kind == 0:
            udp = Udp(client, (server, 2049), vlan)
            seen.append(udp.seen_by("client", without=_udp(numbers, udp)))
            continue
        ends = (
            ((server, 900), (client[0], 4045)) if kind == 1 else (client, (server, 2049))
        )  # 1: a callback's connection
        tcp = Tcp(*ends, vlan, isn=(numbers.randrange(1, 1 << 32), numbers.randrange(1 << 32)))
        seen.append(tcp.seen_by("client", without=_tcp(numbers, tcp)))
        if kind == 2:  # what was not answered comes again on a new connection
            last = Tcp(*ends, vlan, isn=(77, 99))
            last.syn(700)
            _tcp(numbers, last)
            seen.append([Seen(one.t_ns + 700 * wire.MS, one.frame) for one in last.seen_by("client")])
    noise = Udp(("10.0.0.77", 53), ("10.0.0.2", 5353))
    for at in range(numbers.randrange(3)):
        noise.send(at, ">", b"no message", mtu=0xFFFF)
    seen += [noise.seen_by("client"), [Seen(wire.EPOCH_NS, bytes(60))]]
    return seen


def tunnelled(frames: Sequence[Seen], mtu: int) -> list[Seen]:
    """The frames in VXLAN between two other hosts, in fragments where they are larger than `mtu`."""
    out = []
    for number, one in enumerate(frames):
        inner = struct.pack(">II", 0x08000000, 5 << 8) + one.frame
        datagram = struct.pack(">HHHH", 49_152, 4789, 8 + len(inner), 0) + inner
        ends = (("172.16.0.1", 49_152), ("172.16.0.2", 4789))
        for ip in wire._ip(ends, 17, number + 1, datagram, mtu):
            out.append(Seen(one.t_ns, wire._ethernet(ip, None)))
    return out


def records(pcap: bytes) -> list[bytes]:
    """The records of a pcap file in this machine's byte order, each with its header."""
    out, at = [], _HEADER
    while at + 16 <= len(pcap):
        (kept,) = struct.unpack_from("<I", pcap, at + 8)
        out.append(pcap[at : at + 16 + kept])
        at += 16 + kept
    return out


def cut(pcap: bytes, places: Sequence[int], folder: Path) -> list[Path]:
    """The file as several that begin at records (from 0) `places`; none is empty."""
    all_records = records(pcap)
    bounds = [0, *sorted({place for place in places if 0 < place < len(all_records)}), len(all_records)]
    paths = []
    for number, (begin, end) in enumerate(itertools.pairwise(bounds)):
        paths.append(folder / f"{number:05d}.pcap")
        paths[-1].write_bytes(pcap[:_HEADER] + b"".join(all_records[begin:end]))
    return paths


def interleaved(captures: Sequence[Path], out: Path, *, most: int) -> Path:
    """Up to `most` packets of each capture as one, from the same instant on; each in an IPv4 network of its own."""
    rows: list[tuple[int, int, bytes]] = []
    for number, path in enumerate(captures):
        pcap = gzip.decompress(path.read_bytes())
        (link,) = struct.unpack_from("<I", pcap, _LINK)
        assert (pcap[:4], link) == (bytes.fromhex("d4c3b2a1"), 1)
        begin_us = 0
        for at, record in enumerate(records(pcap)[:most]):
            seconds, us, kept, wire_len = struct.unpack_from("<IIII", record)
            begin_us = begin_us or seconds * 10**6 + us
            frame = bytearray(record[16:])
            if frame[12:14] == b"\x08\x00":
                for place in (26, 30):
                    frame[place + 1] = (frame[place + 1] + 16 * number) % 256
            t_us = wire.EPOCH_NS // 1000 + seconds * 10**6 + us - begin_us
            head = struct.pack("<IIII", *divmod(t_us, 10**6), kept, wire_len)
            rows.append((t_us, at, head + frame))
    rows.sort(key=lambda row: row[0])
    header = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262_144, 1)
    out.write_bytes(header + b"".join(record for _, _, record in rows))
    return out


def many_pairs(pairs: int) -> list[list[Seen]]:
    """So many pairs without RPC, a packet of each, and behind them two clients with an op each."""
    seen = []
    for number in range(pairs):
        noise = Udp((str(ipaddress.ip_address((11 << 24) + number)), 999), ("10.0.0.2", 998))
        noise.send(0, ">", b"no message")
        seen.append(noise.seen_by("client"))
    for host in ("10.0.0.8", "10.0.0.9"):
        tcp = Tcp((host, 700))
        tcp.send(5, ">", wire.getattr3(1))
        tcp.send(6, "<", wire.reply(1, wire.GETATTR3))
        seen.append(tcp.seen_by("client"))
    return seen
