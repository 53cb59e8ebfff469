"""A path between two hosts that takes its time: `python slow_path.py CLIENT SERVER MS` joins two network namespaces.

Each gets a device `eth0` whose packets this program carries to the other one, MS later and in order, and up to as much
again while others are held.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import select
import struct
import subprocess
import sys
import time
from collections import deque

_TUNSETIFF, _IFF_TUN, _IFF_NO_PI = 0x400454CA, 0x0001, 0x1000  # linux/if_tun.h


def _device(space: str) -> int:
    """Its file; the device goes with it."""
    name = f"{space}t"[-15:]
    file = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(file, _TUNSETIFF, struct.pack("16sH14x", name.encode(), _IFF_TUN | _IFF_NO_PI))
    subprocess.run(["ip", "link", "set", name, "netns", space, "name", "eth0"], check=True)
    return file


def main(spaces: list[str], least_s: float) -> None:
    files = [_device(space) for space in spaces]
    ways: dict[int, deque[tuple[float, bytes]]] = {file: deque() for file in files}  # to each: when, what
    rng = random.Random(1)
    while True:
        due = min((way[0][0] for way in ways.values() if way), default=time.monotonic() + 1)
        ready, _, _ = select.select(files, [], [], max(due - time.monotonic(), 0))
        for file in ready:
            way = ways[files[1 - files.index(file)]]
            at = time.monotonic() + least_s * (1 + max(rng.gauss(-0.5, 0.5), 0))
            way.append((max(at, way[-1][0] if way else 0), os.read(file, 65536)))
        for file, way in ways.items():
            while way and way[0][0] <= time.monotonic():
                with contextlib.suppress(OSError):  # it is not up yet
                    os.write(file, way.popleft()[1])


if __name__ == "__main__":
    main(sys.argv[1:3], float(sys.argv[3]) / 1e3)
