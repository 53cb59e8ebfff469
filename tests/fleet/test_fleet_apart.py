"""A capture taken apart by addresses, cut into files: put together it is what it was, exactly."""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import msgspec
import numpy as np
import pytest
import wire
from apart_captures import any_fleet, cut, interleaved, many_pairs, records, tunnelled
from captures import SAMPLES, WITH_NFS, Decoder, most_by_night
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from test_parquet import differences

from nfslat.decode.apart import Apart, decode_apart
from nfslat.decode.blocks import decode
from nfslat.decode.capture import Source
from nfslat.decode.engine import choose
from nfslat.decode.merge import merge, packets
from nfslat.decode.stored import open_source, read_side, write_side
from nfslat.decode.tools import Tools
from nfslat.model.decoded import Decoded
from nfslat.model.details import Details, Slots, no_details
from nfslat.model.segments import Wanted
from nfslat.model.tables import hosts


def _no_tools() -> NoReturn:
    raise AssertionError("Wireshark's tools are not needed for this")


def _quiet(_: int) -> None:
    """Nobody is told of the progress."""


def opened(paths: Path | Sequence[Path], scratch: Path) -> Source:
    """One file, or several as a set."""
    argument = str(paths) if isinstance(paths, Path) else ",".join(map(str, paths))
    return choose("native", _no_tools, scratch, rereads=False).open(argument)


def as_plain(decoded: Decoded) -> Decoded:
    """Without what only parts of a capture have."""
    return dataclasses.replace(decoded, details=dataclasses.replace(decoded.details, turns=no_details().turns))


def together(parts: Apart) -> Decoded:
    """All that is known of all hosts as one."""
    return merge([part for _, part in parts.hosts], parts.facts)


def unlike_plain(source: Source, parts: Apart) -> list[str]:
    """In which fields what was taken apart is, together, not what one decoder makes of all."""
    wanted_source, wanted = decode(source, _no_tools, _quiet)
    return differences(wanted_source, parts.source, "source") + differences(
        wanted, as_plain(together(parts)), "decoded"
    )


@pytest.mark.parametrize("path", most_by_night(WITH_NFS))
def test_a_capture_apart_is_the_capture(path: Path, decoder: Decoder, tmp_path: Path) -> None:
    """Of every capture there is, all fields of all hosts put together are those of a plain decode."""

    def tools() -> Tools:
        return decoder.tools

    source = choose("native", tools, tmp_path, rereads=False).open(str(path))
    wanted_source, wanted = decode(source, tools, _quiet)
    parts = decode_apart(source, tools, _quiet)
    assert differences(wanted_source, parts.source, "source") == []
    assert differences(wanted, as_plain(together(parts)), "decoded") == []


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real captures at the same time, each under addresses of its own; packets of several have the same time."""
    return interleaved(SAMPLES, tmp_path_factory.mktemp("mixed") / "mixed.pcap", most=3000)


def test_many_hosts_at_once(mixed: Path, tmp_path: Path) -> None:
    """Sessions, names, kinds and connections of many hosts that come by turns get the numbers of a plain decode."""
    source = opened(mixed, tmp_path)
    parts = decode_apart(source, _no_tools, _quiet)
    assert len(parts.hosts) == len(SAMPLES)
    assert unlike_plain(source, parts) == []
    for addresses, part in parts.hosts:
        assert hosts(part.ops.connections) == addresses
        assert sum(part.packet_kinds.values()) > 2 * len(part.ops) > 0
    assert sum(parts.facts.packet_kinds.values()) == parts.source.packets


def test_segments_of_the_hosts_that_are_not_known(mixed: Path, tmp_path: Path) -> None:
    """Those of a plain decode, with its frames, host by host; of known ones there are none, and the ops are the
    same."""
    source = opened(mixed, tmp_path)
    bare = decode_apart(source, _no_tools, _quiet)
    known = sorted(bare.hosts[0][0])[:1]
    parts = decode_apart(source, _no_tools, _quiet, without=known)
    plain = {one.frame[0]: one for one in decode(source, _no_tools, _quiet, segments=Wanted.ALL)[1].segments}
    kept = {one.frame[0]: one for _, part in parts.hosts for one in part.segments}
    of_known = [part for addresses, part in parts.hosts if set(known) & addresses]
    assert of_known
    assert not any(part.segments for part in of_known)
    assert 0 < len(kept) < len(plain)
    for frame, one in kept.items():
        assert all(np.array_equal(getattr(one, name), getattr(plain[frame], name)) for name in one.columns())
    for (_, wanted), (_, found) in zip(bare.hosts, parts.hosts, strict=True):
        assert len(wanted.ops) == len(found.ops)


@settings(max_examples=examples(60))
@given(seed=st.integers(0, 1 << 32))
def test_any_fleet(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """TCP, UDP, fragments, callbacks, reconnects, losses, copies, VLAN, IPv6: apart it is the same."""
    folder = tmp_path_factory.mktemp("any")
    path = wire.write_pcap(folder / "any.pcap", *any_fleet(seed), nano=True, snaplen=200 if seed % 4 == 0 else 262_144)
    parts = decode_apart(opened(path, folder), _no_tools, _quiet)
    assert unlike_plain(opened(path, folder), parts) == []


def in_order(pcap: bytes, places: Sequence[int]) -> list[int]:
    """Those places at which a file may begin so that a set in the order of the files' first times is in theirs."""
    times = [int.from_bytes(one[:4], "little") * 10**9 + int.from_bytes(one[4:8], "little") for one in records(pcap)]
    kept: list[int] = []
    for place in sorted(places):
        if 0 < place < len(times) and times[place] >= times[kept[-1] if kept else 0]:
            kept.append(place)
    return kept


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few thousand packets, of which many are parts of a message, of several clients."""
    return interleaved(SAMPLES[::3], tmp_path_factory.mktemp("busy") / "busy.pcap", most=600)


@settings(max_examples=examples(40))
@given(data=st.data(), files=st.sampled_from([2, 7, 50]))
def test_cut_anywhere(data: st.DataObject, files: int, busy: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A capture in files that begin at any packets is that capture; what a packet's frame number leads to, too."""
    pcap, folder = busy.read_bytes(), tmp_path_factory.mktemp("cut")
    place = st.integers(1, len(records(pcap)) - 1)
    places = in_order(pcap, data.draw(st.lists(place, min_size=files - 1, max_size=files - 1)))
    whole, one = decode(opened(busy, folder), _no_tools, _quiet)
    source = opened(cut(pcap, places, folder), folder)
    there, found = decode(source, _no_tools, _quiet)
    assert len(there.files) == len(set(places)) + 1
    assert differences(one, found, "decoded") == []
    assert there.packets == whole.packets
    begin = data.draw(st.sampled_from([0, *places]))
    assert there.locate(begin + 1)[1] == 1
    assert differences(one, as_plain(together(decode_apart(source, _no_tools, _quiet))), "apart") == []


def test_cut_between_all_packets_of_an_op(tmp_path: Path) -> None:
    """In front of each packet of ops in several segments, some of them late: cut into two files, and into one each."""
    tcp = wire.Tcp()
    tcp.syn(0)
    for xid in range(1, 4):
        late = tcp.send(
            10 * xid, ">", wire.write(xid, 0, 3000), cut=[30, 1448], at=[10 * xid, 10 * xid + 2, 10 * xid + 1]
        )
        tcp.again(10 * xid + 3, late[1])
        tcp.send(10 * xid + 4, "<", wire.reply(xid, wire.WRITE3), cut=[2, 20])
    pcap = wire.write_pcap(tmp_path / "whole.pcap", tcp.seen_by("client")).read_bytes()
    _, wanted = decode(opened(tmp_path / "whole.pcap", tmp_path), _no_tools, _quiet)
    assert len(wanted.ops) == 3
    count = len(records(pcap))
    for number, places in enumerate([*([place] for place in range(1, count)), range(1, count)]):
        folder = tmp_path / str(number)
        folder.mkdir()
        source = opened(cut(pcap, places, folder), folder)
        assert differences(wanted, decode(source, _no_tools, _quiet)[1], "decoded") == []
        assert unlike_plain(source, decode_apart(source, _no_tools, _quiet)) == []


@pytest.mark.parametrize("mtu", [0xFFFF, 600])
def test_tunnels_in_fragments(tmp_path: Path, mtu: int) -> None:
    """The addresses are those of the innermost packet, also where the fragments of a tunnel have others."""
    frames: list[wire.Seen] = []
    for host in ("10.0.0.8", "10.0.0.9"):
        tcp = wire.Tcp((host, 700))
        for xid in range(1, 6):
            tcp.send(10 * xid, ">", wire.read(xid))
            tcp.send(10 * xid + 1, "<", wire.reply(xid, wire.read3(1200)))
        frames += tcp.seen_by("client")
    path = wire.write_pcap(tmp_path / "tunnel.pcap", tunnelled(sorted(frames, key=lambda one: one.t_ns), mtu))
    source = opened(path, tmp_path)
    parts = decode_apart(source, _no_tools, _quiet)
    assert {name: len(part.ops) for name, part in parts.hosts} == {
        frozenset(("10.0.0.2", "10.0.0.8")): 5,
        frozenset(("10.0.0.2", "10.0.0.9")): 5,
    }
    assert unlike_plain(source, parts) == []


def test_hosts_without_rpc_are_only_counted(tmp_path: Path) -> None:
    """They are no hosts; their packets are in the facts of the capture."""
    path = wire.write_pcap(tmp_path / "noise.pcap", *many_pairs(50))
    parts = decode_apart(opened(path, tmp_path), _no_tools, _quiet)
    assert [sorted(name) for name, _ in parts.hosts] == [["10.0.0.2", "10.0.0.8"], ["10.0.0.2", "10.0.0.9"]]
    assert parts.facts.packet_kinds["udp"] == 50
    assert [part.packet_kinds["rpc"] for _, part in parts.hosts] == [2, 2]
    assert (len(parts.facts.ops), len(parts.facts.loose), parts.facts.messages) == (0, 0, 0)


def test_connections_tried_in_vain(tmp_path: Path) -> None:
    """They are their hosts', behind those with RPC, and none of hosts without."""
    flows = list(many_pairs(2))
    for number, (client, server) in enumerate([(8, 2), (9, 2), (8, 2), (8, 3), (7, 2)]):
        flow = wire.Tcp(client=(f"10.0.0.{client}", 800 + number), server=(f"10.0.0.{server}", 2049))
        for at in (0, 1000, 3000):
            flow.raw(at + 5 - number, ">", flow.next[">"] - 1, b"", ack=0, flags=2)
        flows.append(flow.seen_by("server"))
    source = opened(wire.write_pcap(tmp_path / "vain.pcap", *flows), tmp_path)
    parts = decode_apart(source, _no_tools, _quiet)
    assert [len(part.ops.connections) for _, part in parts.hosts] == [3, 2]
    assert unlike_plain(source, parts) == []


def test_more_pairs_than_are_kept_apart(tmp_path: Path) -> None:
    """Those that come behind 4096 others are one entry, and nothing of them is lost."""
    path = wire.write_pcap(tmp_path / "pairs.pcap", *many_pairs(4096))
    source = opened(path, tmp_path)
    parts = decode_apart(source, _no_tools, _quiet)
    assert [name for name, _ in parts.hosts] == [frozenset(("10.0.0.2", "10.0.0.8", "10.0.0.9"))]
    assert (len(parts.facts.ops), parts.facts.messages) == (0, 0)
    assert unlike_plain(source, parts) == []


def test_parts_are_stored_and_come_back(mixed: Path, tmp_path: Path) -> None:
    """What is written of each host, and read again, gives the capture again; the engine says that it was stored."""
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    source = opened(mixed, tmp_path)
    parts = decode_apart(source, _no_tools, _quiet)
    kept = []
    for number, part in enumerate([parts.facts, *(part for _, part in parts.hosts)]):
        path = tmp_path / f"{number}.parquet"
        with path.open("wb") as out:
            write_side(part, parts.source, out)
        kept.append(read_side(open_source(str(path), path), _quiet)[1])
    again = merge(kept[1:], kept[0])
    assert again.engine == f"{parts.facts.engine} (stored)"
    assert differences(together(parts), dataclasses.replace(again, engine=parts.facts.engine), "decoded") == []


@pytest.fixture(scope="module")
def parts(mixed: Path, tmp_path_factory: pytest.TempPathFactory) -> Apart:
    """Many hosts."""
    return decode_apart(opened(mixed, tmp_path_factory.mktemp("parts")), _no_tools, _quiet)


@settings(max_examples=examples(10))
@given(data=st.data())
def test_parts_are_merged_in_any_order_and_in_steps(data: st.DataObject, parts: Apart) -> None:
    """Hosts in any order, and groups of them that were merged before, give the same."""
    every = data.draw(st.permutations([part for _, part in parts.hosts]))
    at = sorted(data.draw(st.lists(st.integers(1, len(every)), max_size=3)))
    groups = [every[begin:end] for begin, end in zip([0, *at], [*at, len(every)], strict=True) if begin < end]
    found = merge([merge(group) for group in groups], parts.facts)
    assert differences(together(parts), found, "decoded") == []


def test_one_host_with_the_facts_of_the_capture(parts: Apart) -> None:
    """Its messages are its own, and what is known of the packets is that of all."""
    facts = dataclasses.replace(parts.facts, interface_drops=7, cut_short=True)
    _, part = parts.hosts[3]
    one = merge([part], facts)
    assert one.ops is part.ops
    assert (one.interface_drops, one.cut_short, one.packet_kinds) == (7, True, facts.packet_kinds)
    assert one.messages == part.messages
    assert merge([], facts).messages == 0


def test_without_facts_packets_are_those_of_the_parts(parts: Apart) -> None:
    """Counts are summed; the busiest second of several is not known."""
    two = [part for _, part in parts.hosts[:2]]
    found = merge(two)
    assert found.packet_kinds["rpc"] == sum(part.packet_kinds["rpc"] for part in two)
    assert found.busiest_second_packets is None
    assert packets(two)["wire_bytes"] == found.wire_bytes


def test_what_is_no_part_is_refused(parts: Apart, mixed: Path, tmp_path: Path) -> None:
    """Two captures, two engines, facts with messages, and nothing at all are not put together."""
    _, plain = decode(opened(mixed, tmp_path), _no_tools, _quiet)
    with pytest.raises(ValueError, match="decoded apart"):
        merge([plain, plain])
    _, part = parts.hosts[0]
    with pytest.raises(ValueError, match="one engine"):
        merge([part, dataclasses.replace(part, engine="tshark 4")])
    with pytest.raises(ValueError, match="no messages"):
        merge([part], plain)
    with pytest.raises(ValueError, match="nothing"):
        merge([])


def test_a_table_that_is_new_is_none_that_is_lost(parts: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    """A field of the details, or a column as wide as a row number, that nobody brings over ends in an error."""
    from nfslat.decode import merge_tables

    two = [part for _, part in parts.hosts[:2]]
    new = msgspec.defstruct("New", [("more", Slots | None, None)], bases=(Details,), frozen=True)
    with monkeypatch.context() as context:
        context.setattr(merge_tables, "Details", new)
        with pytest.raises(TypeError, match=r"Details: no way to merge \['more'\]"):
            merge(two)
    merge_tables.check.cache_clear()
    monkeypatch.setattr(merge_tables, "_NO_ROWS", merge_tables._NO_ROWS - {"frame"})
    with pytest.raises(TypeError, match=r"are these rows\? \['frame'\]"):
        merge(two)
    merge_tables.check.cache_clear()


def test_loads_of_different_stretches_get_the_longest(parts: Apart) -> None:
    """Where one part had to take longer stretches, those of the others are put together; no byte is lost."""
    two = [part for _, part in parts.hosts[:2]]
    before = merge(two).details.loads
    longer = dataclasses.replace(two[1].details.loads, stretch_ns=4 * before.stretch_ns)
    begin_ns = longer.begin_ns - longer.begin_ns % longer.stretch_ns
    longer = dataclasses.replace(longer, begin_ns=begin_ns)
    two[1] = dataclasses.replace(two[1], details=dataclasses.replace(two[1].details, loads=longer))
    loads = merge(two).details.loads
    assert loads.stretch_ns == 4 * before.stretch_ns
    assert (loads.begin_ns % loads.stretch_ns == 0).all()
    assert loads.bytes.sum() == before.bytes.sum()
    keys = np.stack([loads.begin_ns, loads.conn, loads.direction])
    assert len(np.unique(keys, axis=1).T) == len(loads)


@pytest.mark.parametrize("path", SAMPLES[:2], ids=lambda path: path.parent.name)
def test_what_another_process_gets_is_the_same(path: Path, tmp_path: Path) -> None:
    """Tables go there without the columns that have no rows, and have them again behind it."""
    source = opened(path, tmp_path)
    _, decoded = decode(source, _no_tools, _quiet)
    assert not len(decoded.details.blocked)
    there = pickle.loads(pickle.dumps(decoded))  # noqa: S301 - what was written here
    assert not differences(decoded, there, "capture")
