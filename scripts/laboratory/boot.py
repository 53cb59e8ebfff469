"""A scenario -> its guests: booted, the export mounted, and in effect what the scenario injects from the start."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from laboratory import causes, client, kerberos, server
from laboratory.guest import Guest, Kernel
from laboratory.scenario import Scenario

_NUMBERS = {"server": 1, "client": 2, "client2": 3}


@contextmanager
def booted(scenario: Scenario, kernel: Kernel, image: Path) -> Iterator[dict[str, Guest]]:
    """The guests by name, and with them the folder in which each has its own (``Guest.folder``), until the end.

    The machine has been isolated and has the network for three guests (``host``). Raises ``LabError``.
    """
    names = ["server", "client", *(["client2"] if scenario.load2 else [])]
    with ExitStack() as stack:
        # Memory, since what the guests write there must not wait for this machine's disk.
        work = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nfslat-lab-", dir="/dev/shm")))
        guests: dict[str, Guest] = {}
        for name in names:
            guests[name] = Guest(name, _NUMBERS[name], kernel, work / name, disk=image if name == "server" else None)
            stack.callback(guests[name].stop)
        for guest in guests.values():
            guest.wait()
        yield guests


def serve(scenario: Scenario, guests: dict[str, Guest]) -> None:
    """The NFS server serves, and the clients could mount."""
    nfsd, *clients = guests.values()
    causes.before_mount(nfsd, clients, scenario)
    server.start(nfsd, scenario)
    for guest in clients:
        client.prepare(guest, scenario)
    if scenario.mount.sec:
        kerberos.start(nfsd, clients)


def mount(scenario: Scenario, guests: dict[str, Guest]) -> str:
    """Mounts, and injects what stands from the start; the command of the mount."""
    nfsd, *clients = guests.values()
    command = client.mount_command(nfsd, scenario)
    for guest in clients:
        guest.run(command)
    server.slow_disk(nfsd, scenario)
    causes.before_load(nfsd, clients, scenario)
    return command
