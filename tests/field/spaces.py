"""Names of hosts -> network namespaces, and what runs in them; all of it is gone in the end. For root, on Linux."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from two_hosts import TESTS


class Spaces:
    """As long as `stack` is open; programs run in `folder`."""

    def __init__(self, stack: ExitStack, folder: Path, names: Sequence[str]) -> None:
        """One for each of `names`, with a loopback."""
        self._stack, self._folder = stack, folder
        for name in names:
            self.run(f"ip netns add {name}")
            stack.callback(self.run, f"ip netns del {name}")
            self.run(f"ip -n {name} link set lo up")

    @staticmethod
    def run(line: str) -> None:
        """A command, to its end."""
        subprocess.run(line.split(), check=True, capture_output=True)

    def address(self, name: str, link: str, address: str) -> None:
        """A link of a host is up, with an address."""
        self.run(f"ip -n {name} addr add {address}/24 dev {link}")
        self.run(f"ip -n {name} link set {link} up")

    def start(self, name: str, line: str) -> None:
        """A shell's command on a host."""
        process = subprocess.Popen(
            ["ip", "netns", "exec", name, "sh", "-c", line],
            cwd=self._folder,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.terminate)
