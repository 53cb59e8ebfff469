"""A proxy of the real kernel's TCP between a client and a server, in three network namespaces: what is said of it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from spaces import Spaces
from two_hosts import TESTS, missing

import nfslat

_HAPROXY = """
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
listen nfs
  bind 10.77.8.1:2049
  server one 10.77.9.2:2049
"""
_PROXIES = {
    "socat": "exec socat TCP-LISTEN:2049,bind=10.77.8.1,fork,reuseaddr,nodelay TCP:10.77.9.2:2049,nodelay",
    "haproxy": "exec haproxy -db -f haproxy.cfg",
    "router": "sysctl -qw net.ipv4.ip_forward=1",
}

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(missing()), reason=missing() or "-"),
    pytest.mark.parametrize("proxy", _PROXIES),
]


@pytest.fixture
def captured(proxy: str, tmp_path: Path) -> Path:
    """A folder with server.pcap and client.pcap of the same seconds."""
    if proxy != "router" and shutil.which(proxy) is None:
        pytest.skip(f"{proxy} is not installed")
    number = os.getpid()
    client, box, server = names = [f"nfslat{one}{number}" for one in "cps"]
    (tmp_path / "haproxy.cfg").write_text(_HAPROXY)
    with contextlib.ExitStack() as stack:
        spaces = Spaces(stack, tmp_path, names)
        for (one, address), (other, its) in (
            ((client, "10.77.8.2"), (box, "10.77.8.1")),
            ((server, "10.77.9.2"), (box, "10.77.9.1")),
        ):
            inner = "near" if one == client else "far"
            spaces.run(f"ip link add eth0 netns {one} type veth peer name {inner} netns {other}")
            for name, link, here in ((one, "eth0", address), (other, inner, its)):
                spaces.address(name, link, here)
            spaces.run(f"ip -n {one} route add default via {its}")
        spaces.start(box, _PROXIES[proxy])
        traffic = f"{sys.executable} {TESTS / 'field' / 'nfs_traffic.py'}"
        spaces.start(server, f"exec {traffic} serve 10.77.9.2")
        spaces.start(client, f"exec {traffic} call {'10.77.9.2' if proxy == 'router' else '10.77.8.1'}")
        for name, side in ((server, "server"), (client, "client")):
            spaces.start(name, f"exec tcpdump -Z root -i eth0 -U -w {side}.pcap port 2049")
        time.sleep(6)
    return tmp_path


def test_a_box_that_ends_tcp_is_named(proxy: str, captured: Path) -> None:
    """Between two captures a proxy is told from a router by its sequence numbers, with its addresses on both sides."""
    report = nfslat.correlate(captured / "server.pcap", captured / "client.pcap").summary
    assert report.matched is not None
    assert report.matched.ops > 100
    said = [one for one in report.notes if "TCP ends between the hosts" in one]
    assert len(said) == (proxy != "router")
    if said:
        assert "10.77.8.1" in said[0]
        assert "10.77.9.1" in said[0]
