"""NFS through stunnel, as cloud file systems are mounted: one capture of the client's loopback, by the real kernel."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from spaces import Spaces
from two_hosts import TESTS, missing

import nfslat

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(missing()), reason=missing() or "-"),
    pytest.mark.skipif(
        not all(map(shutil.which, ("stunnel", "openssl"))), reason="stunnel or openssl is not installed"
    ),
]
_CONFIG = """
foreground = yes
pid =
[nfs]
{}
"""
_NEAR = "client = yes\naccept = 127.0.0.1:2049\nconnect = 10.77.9.2:20490"
_FAR = "accept = 10.77.9.2:20490\nconnect = 127.0.0.1:2049\ncert = both.pem"
_SERVICE_MS = 2  # of the server behind it (`nfs_traffic`)


@pytest.fixture
def captured(tmp_path: Path) -> Path:
    """A capture of the client's loopback; the server is on another host, behind the other end of the tunnel."""
    number = os.getpid()
    client, server = f"nfslatc{number}", f"nfslats{number}"
    (tmp_path / "near.conf").write_text(_CONFIG.format(_NEAR))
    (tmp_path / "far.conf").write_text(_CONFIG.format(_FAR))
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 1 -subj /CN=nfs -keyout key.pem -out cert.pem"
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "both.pem").write_text((tmp_path / "key.pem").read_text() + (tmp_path / "cert.pem").read_text())
    with contextlib.ExitStack() as stack:
        spaces = Spaces(stack, tmp_path, (client, server))
        spaces.run(f"ip link add eth0 netns {client} type veth peer name eth0 netns {server}")
        for name, address in ((client, "10.77.9.1"), (server, "10.77.9.2")):
            spaces.address(name, "eth0", address)
        traffic = f"{sys.executable} {TESTS / 'field' / 'nfs_traffic.py'}"
        spaces.start(server, f"exec {traffic} serve 127.0.0.1")
        spaces.start(server, "exec stunnel far.conf")
        spaces.start(client, "exec stunnel near.conf")
        spaces.start(client, "exec tcpdump -Z root -i lo -U -w lo.pcap port 2049")
        spaces.start(client, f"exec {traffic} call 127.0.0.1")
        time.sleep(6)
    return tmp_path / "lo.pcap"


def test_what_looks_like_the_server_is_the_tunnel(captured: Path) -> None:
    """The loopback is told, and that what answers there may be a proxy, whose time holds the way to the real server."""
    report = nfslat.inspect(captured).summary
    assert report.matched is not None
    assert report.matched.total is not None
    assert report.matched.total.client_ms.mean > _SERVICE_MS
    assert report.inferred is not None
    assert report.inferred.taken_at == "loopback"
    said = " ".join(report.notes)
    assert "what looks like the server may be a proxy (efs-proxy, stunnel)" in said
