"""A scenario and a command -> the guests with the load running, sshd in each, and the command beside them.

For whoever wants to look around, and for trying ``nfslat capture`` on real hosts.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from laboratory import boot, client
from laboratory.guest import Guest, Kernel
from laboratory.scenario import Scenario

_AS_FAST = 3600.0  # s: longer than anybody stays


def visit(scenario: Scenario, kernel: Kernel, image: Path, command: str) -> int:
    """Runs a command of sh while the load runs; its status. ``$LAB_SSH server`` is a shell on the server, and so on."""
    with boot.booted(scenario, kernel, image) as guests, tempfile.TemporaryDirectory(prefix="nfslat-ssh-") as folder:
        boot.serve(scenario, guests)
        boot.mount(scenario, guests)
        configuration = _ssh(guests, Path(folder))
        _, *clients = guests.values()
        for guest, load in zip(clients, [scenario.load, scenario.load2], strict=False):
            if load is not None:
                guest.start(client.load_script(load, seconds=_AS_FAST))
        environment = os.environ | {"LAB_SSH": f"ssh -F {configuration}"}
        return subprocess.run(["sh", "-c", command], env=environment, check=False).returncode


def _ssh(guests: dict[str, Guest], folder: Path) -> Path:
    """Starts sshd in each guest, with keys made for this visit; the client's configuration file."""
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    known, lines = [], []
    for name, guest in guests.items():
        guest.run(
            f"""
            mkdir -p /run/sshd /root/.ssh
            ssh-keygen -q -t ed25519 -N '' -f /run/sshd/host
            printf '%s\\n' '{key.with_suffix(".pub").read_text().strip()}' >/run/sshd/authorized
            /usr/sbin/sshd -f /dev/null -h /run/sshd/host -o StrictModes=no -o PermitRootLogin=yes \\
                -o AuthorizedKeysFile=/run/sshd/authorized
            """
        )
        address = f"10.78.{guest.number}.2"
        known.append(f"{address} {guest.read('/run/sshd/host.pub')}")
        lines += [f"Host {name}", f"    HostName {address}"]
    (folder / "known").write_text("".join(known))
    lines += ["Host *", "    User root", f"    IdentityFile {key}", f"    UserKnownHostsFile {folder}/known", ""]
    configuration = folder / "config"
    configuration.write_text("\n".join(lines))
    return configuration
