"""What hosts print of themselves -> whom each of them captures; what they measured -> what a capture costs."""

from __future__ import annotations

import ipaddress
from importlib import resources
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfslat.errors import InputError
from nfslat.field import cost, probe
from nfslat.field.link import SCRIPTS

_LINUX = """\
system: Linux
hostname: nfs1
tool: /usr/bin/tcpdump
boot: 1b4e
net: net:[4026531840]
address: 1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever preferred_lft forever
address: 2: eth0    inet {address}/24 brd 10.0.0.255 scope global eth0\\       valid_lft forever
address: 2: eth0    inet6 fe80::1/64 scope link \\       valid_lft forever preferred_lft forever
connection: Recv-Q Send-Q Local Address:Port Peer Address:Port Process
"""
_SOLARIS = """\
system: SunOS
address: net0: flags=1000843<UP> mtu 1500 index 2
address:         inet 10.0.0.2 netmask ffffff00 broadcast 10.0.0.255
connection: 10.0.0.2.1023        10.0.0.1.2049        64240      0 128872      0 ESTABLISHED
"""


def _host(address: str, *connections: str) -> probe.Facts:
    lines = "".join(f"connection: 0      0      {one}\n" for one in connections)
    return probe.parse(_LINUX.format(address=address) + lines)


def _peers(server: probe.Facts, client: probe.Facts) -> tuple[list[str], list[str]] | None:
    found = probe.find_peers(server, client, 2049)
    return None if found is None else (list(map(str, found.at_server)), list(map(str, found.at_client)))


def test_a_connection_with_both_ends_on_the_hosts_is_it() -> None:
    """Of many connections of either host, and whatever addresses ssh uses."""
    server = _host("10.0.0.1", "10.0.0.1:2049 10.0.0.9:700", "10.0.0.1:2049 10.0.0.2:800", "10.0.0.1:801 10.0.0.2:2049")
    client = _host("10.0.0.2", "10.0.0.2:900 10.0.0.8:2049", "10.0.0.2:800   10.0.0.1:2049")
    assert _peers(server, client) == (["10.0.0.2"], ["10.0.0.1"])


def test_addresses_are_those_of_packets() -> None:
    """An IPv4 connection of an IPv6 socket, a zone, and Solaris's netstat."""
    server = _host("10.0.0.1", "[::ffff:10.0.0.1]:2049 [::ffff:10.0.0.2]:800", "[fe80::1%eth0]:2049 [fe80::2%eth0]:77")
    client = _host("10.0.0.2", "10.0.0.2:800 10.0.0.1:2049", "[fe80::2]%eth0:77 [fe80::1]%eth0:2049")
    assert _peers(server, client) == (["10.0.0.2", "fe80::2"], ["10.0.0.1", "fe80::1"])
    solaris = probe.parse(_SOLARIS)
    assert _peers(_host("10.0.0.1", "10.0.0.1:2049 10.0.0.2:1023"), solaris) == (["10.0.0.2"], ["10.0.0.1"])


def test_translated_addresses_are_taken_as_each_side_sees_them() -> None:
    """The client's behind a gateway, with its port or without, and the server's behind a virtual address."""
    client = _host("192.168.0.2", "192.168.0.2:800 10.0.0.1:2049")
    for port in (800, 34567):
        server = _host("10.0.0.1", f"10.0.0.1:2049 203.0.113.7:{port}")
        assert _peers(server, client) == (["203.0.113.7"], ["10.0.0.1"])
    server = _host("10.0.0.1", "10.0.0.1:2049 192.168.0.2:800")
    client = _host("192.168.0.2", "192.168.0.2:800 198.51.100.1:2049")
    assert _peers(server, client) == (["192.168.0.2"], ["198.51.100.1"])


def test_where_translation_leaves_a_choice_the_user_has_it() -> None:
    """Two clients behind gateways: it does not guess."""
    server = _host("10.0.0.1", "10.0.0.1:2049 203.0.113.7:5000", "10.0.0.1:2049 203.0.113.8:5001")
    with pytest.raises(InputError, match="--client-addr"):
        probe.find_peers(server, _host("192.168.0.2", "192.168.0.2:800 10.0.0.1:2049"), 2049)


def test_other_clients_are_those_of_neither_host() -> None:
    """Their calls take the server's threads; the client's other addresses, and the server's own, are no others."""
    ends = ("10.0.0.2:800", "10.0.0.1:801", "127.0.0.1:802", "10.0.0.9:803", "10.0.0.9:804")
    server = _host("10.0.0.1", *(f"10.0.0.1:2049 {end}" for end in ends), "10.0.0.1:900 10.0.0.8:2049")
    assert set(map(str, probe.other_clients(server, _host("10.0.0.2"), 2049))) == {"10.0.0.9"}


def test_without_a_common_connection_there_are_no_peers() -> None:
    """Others' connections are not taken for it; a mount of the server's address tells of one that is idle."""
    server = _host("10.0.0.1", "10.0.0.1:2049 10.0.0.9:700")
    client = probe.parse(
        _LINUX.format(address="10.0.0.2")
        + "connection: 0 0 10.0.0.2:900 10.0.0.8:2049\n"
        + "mount: rw,vers=3,mountaddr=10.0.0.7,addr=10.0.0.8\nmount: rw,vers=4.2,clientaddr=10.0.0.2,addr=10.0.0.1\n"
    )
    assert _peers(server, client) is None
    assert str(probe.mounted_server(server, client)) == "10.0.0.1"
    route = "10.0.0.1 dev eth1 src 10.0.0.2 uid 0 \\    cache"
    assert str(probe.source_of_route(route)) == "10.0.0.2"


def test_hosts_are_the_same_by_machine_and_network() -> None:
    """A name for another address is the same host, a container with a network of its own is not."""
    facts = _host("10.0.0.1")
    assert facts.identity == _host("10.0.0.3").identity
    other = probe.parse(_LINUX.format(address="10.0.0.1").replace("4026531840", "4026532000"))
    assert facts.identity != other.identity
    assert facts.tools == ("/usr/bin/tcpdump",)
    assert ipaddress.ip_address("127.0.0.1") not in facts.addresses


@given(st.text(max_size=300), st.lists(st.sampled_from(["address: ", "connection: ", "mount: ", "cpus: ", "x"])))
def test_whatever_a_host_prints_is_read(noise: str, keys: list[str]) -> None:
    """No line of it ends the work; two hosts that say nothing of use have no peers."""
    facts = probe.parse("\n".join(key + noise for key in keys))
    assert all(not one.is_loopback for one in facts.addresses)
    assert probe.find_peers(facts, probe.parse(""), 2049) is None


@given(st.ip_addresses(), st.integers(1, 65535), st.ip_addresses(), st.integers(1, 65535))
def test_connections_are_read_as_ss_prints_them(near: probe.Address, a: int, far: probe.Address, b: int) -> None:
    """Any two addresses and ports."""
    ends = " ".join(f"[{one}]:{port}" if one.version == 6 else f"{one}:{port}" for one, port in ((near, a), (far, b)))
    (found,) = probe.parse(f"connection: 0 0 {ends}").connections
    assert (found.local, found.local_port) == (probe.address(str(near)), a)
    assert (found.remote, found.remote_port) == (probe.address(str(far)), b)


def _measured(packets: int, payload: int, **more: object) -> dict[str, str]:
    facts = {"packets_per_s": packets, "bytes_per_s": payload, "cpus": 4, "disk_free_mb": 100_000, "nfsv4": "yes"}
    return {key: str(value) for key, value in (facts | more).items()}


def test_the_cost_is_that_of_what_was_measured() -> None:
    """1,000 packets/s of 1,000 bytes at 512: 528 bytes each in the file, a second more than asked for."""
    one = cost.estimate(_measured(1000, 1_000_000), 20, 512, keep_free_mb=512)
    assert (one.file_mb, one.snaplen, one.refusal, one.doubt) == (-(-1000 * 528 * 21 // (1 << 20)), 512, "", "")
    assert one.core_percent == 1000 * cost.limits().cost_ns / 1e7


def test_the_snaplen_is_lowered_where_too_much_would_be_written() -> None:
    """Not below what holds the headers, which NFSv4 has more of."""
    busy = _measured(200_000, 2_000_000_000)
    assert cost.estimate(busy, 20, 512, keep_free_mb=0).snaplen == cost.limits().floor_v4
    assert cost.estimate(busy | {"nfsv4": "no"}, 20, 512, keep_free_mb=0).snaplen < cost.limits().floor_v4


def test_whole_packets_are_kept_where_they_can_be_borne() -> None:
    """A snaplen hides headers in packets that were put together, so it is for what would be too much for a disk."""
    calm = _measured(1000, 1_000_000)
    assert cost.estimate(calm, 20, 0, keep_free_mb=0).snaplen == 0
    assert cost.estimate(calm, 20, 0, keep_free_mb=0).file_mb == -(-1000 * (1000 + 66 + 16) * 21 // (1 << 20))
    usual = cost.limits().usual_snaplen
    assert cost.estimate(_measured(100_000, 200_000_000) | {"nfsv4": "no"}, 20, 0, keep_free_mb=0).snaplen < usual
    assert cost.estimate(_measured(50_000, 200_000_000), 20, 0, keep_free_mb=0).snaplen == usual
    small = cost.estimate(calm | {"disk_free_mb": "15"}, 20, 0, keep_free_mb=0)
    assert (small.snaplen, small.refusal) == (usual, "")


def test_a_capture_that_does_not_fit_or_slows_the_host_is_not_waved_through() -> None:
    """A disk without room is refused, a rate above the limits is doubted, and what is not known is not made up."""
    assert "--max-mb" in cost.estimate(_measured(1000, 10**6, disk_free_mb=515), 20, 512, keep_free_mb=512).refusal
    assert not cost.estimate(_measured(1000, 10**6, disk_free_mb=515), 20, 512, keep_free_mb=512, max_mb=2).refusal
    assert "of a processor" in cost.estimate(_measured(900_000, 10**9), 20, 512, keep_free_mb=512).doubt
    unknown = cost.estimate({"cpus": "2"}, 20, 512, keep_free_mb=512)
    assert (unknown.file_mb, unknown.core_percent, unknown.refusal) == (None, None, "")


@given(st.integers(0, 10**7), st.integers(0, 10**11), st.integers(1, 86_400), st.integers(96, 65_535))
def test_the_estimate_is_an_upper_bound_that_grows(packets: int, payload: int, seconds: int, snaplen: int) -> None:
    """A file is never estimated to be less than its packets take cut off, nor smaller for more seconds."""
    one = cost.estimate(_measured(packets, payload), seconds, snaplen, keep_free_mb=0)
    more = cost.estimate(_measured(packets, payload), seconds + 60, snaplen, keep_free_mb=0)
    assert one.file_mb is not None
    assert more.file_mb is not None
    assert 0 <= one.file_mb <= more.file_mb
    assert one.snaplen <= snaplen


def test_what_is_sent_is_what_stands_in_scripts() -> None:
    """The package holds the scripts themselves, whether it is a checkout or was installed."""
    for name in SCRIPTS:
        ours = resources.files("nfslat.field").joinpath(name).read_text(encoding="utf-8")
        assert ours == (Path(__file__).parents[2] / "scripts" / name).read_text(encoding="utf-8")


def test_limits_are_those_of_the_script() -> None:
    """All of them are found in capture.sh, so that none is said twice."""
    assert cost.limits().max_packets > cost.limits().max_write_mb > 0
