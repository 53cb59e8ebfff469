"""Real kernels that send no TCP time stamps: each host's capture alone, against what both say."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from halves import beside
from spaces import Spaces
from two_hosts import TESTS, missing, wait_until

import nfslat

_STAMPED_NS = 100_000  # what two captures may differ by, each stamping a little off the wire

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(missing()), reason=missing() or "-"),
    pytest.mark.skipif(not Path("/dev/net/tun").exists(), reason="there is no /dev/net/tun"),
    pytest.mark.parametrize("delay_ms", [1, 8]),
]


@pytest.fixture
def captured(delay_ms: int, tmp_path: Path) -> Path:
    """A folder with server.pcap and client.pcap of the same seconds, on a path that takes so long each way."""
    client, server = names = [f"nfslat{one}{os.getpid()}" for one in "cs"]
    with contextlib.ExitStack() as stack:
        spaces = Spaces(stack, tmp_path, names)
        path = [sys.executable, str(Path(__file__).with_name("slow_path.py")), client, server, str(delay_ms)]
        carrier = stack.enter_context(subprocess.Popen(path))
        stack.callback(carrier.terminate)
        wait_until(lambda: all(_has_device(name) for name in names))
        for name, address in ((client, "10.77.8.2"), (server, "10.77.8.1")):
            spaces.address(name, "eth0", address)
            spaces.run(f"ip netns exec {name} sysctl -qw net.ipv4.tcp_timestamps=0")
        for name, side in ((server, "server"), (client, "client")):
            spaces.start(name, f"exec tcpdump -Z root -i eth0 -U -w {side}.pcap port 2049")
        traffic = f"{sys.executable} {TESTS / 'field' / 'nfs_traffic.py'}"
        spaces.start(server, f"exec {traffic} serve 10.77.8.1")
        time.sleep(1)
        spaces.start(client, f"exec {traffic} call 10.77.8.1")
        time.sleep(6)
    return tmp_path


def _has_device(name: str) -> bool:
    return "eth0" in subprocess.run(["ip", "-n", name, "link"], capture_output=True, text=True, check=True).stdout


def test_each_half_holds_the_truth(delay_ms: int, captured: Path) -> None:
    """Bounds hold in 95 % of the ops, the mean is as good as it says, and no verdict names the server for the path."""
    both = nfslat.correlate(captured / "server.pcap", captured / "client.pcap").correlation
    assert len(both.matched) > 100
    for side in ("client", "server"):
        report = nfslat.inspect(captured / f"{side}.pcap")
        one, said = report.correlation, report.figures.inferred
        assert one.inferred is not None
        assert said is not None
        assert one.inferred.taken_at == side
        assert said.unstamped == said.ops
        assert report.verdict is not None
        assert report.verdict.layer in (None, "network")
        known, rows, true_ns, found_ns = beside(both, one, side)
        assert known > 0.95
        low_ns, high_ns = (getattr(one.inferred, name)[rows] for name in ("low_ns", "high_ns"))
        assert np.mean((true_ns >= low_ns - _STAMPED_NS) & (true_ns <= high_ns + _STAMPED_NS)) >= 0.95
        assert abs(found_ns.mean() - true_ns.mean()) / 1e6 <= said.mean_error_ms
        assert one.inferred.round_trip_ns / 1e6 >= 2 * delay_ms
