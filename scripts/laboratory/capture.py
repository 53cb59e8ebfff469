"""Guests with a load -> what tcpdump captures in each of them, and what their kernels trace of each RPC."""

from __future__ import annotations

import signal
import time
from typing import Any

from laboratory import compare
from laboratory.guest import Guest
from laboratory.scenario import Scenario

_TRACING = "/sys/kernel/tracing"


def start_trace(guest: Guest) -> bool:
    """Records the events that say what became of each XID; False where the kernel has none."""
    if guest.run(f"test -d {_TRACING}/events/sunrpc", check=False).status != 0:
        return False
    events = compare.EVENTS_SERVER if guest.name == "server" else compare.EVENTS_CLIENT
    enable = "\n".join(f"echo 1 >{_TRACING}/events/sunrpc/{event}/enable" for event in events)
    guest.run(
        f"cd {_TRACING}\necho {compare.TRACE_CLOCK} >trace_clock\necho {compare.BUFFER_KB} >buffer_size_kb\n{enable}"
    )
    return True


def end_trace(guest: Guest) -> None:
    """Leaves what was recorded in the guest's folder, as ``trace``."""
    guest.run(f"echo 0 >{_TRACING}/tracing_on; cat {_TRACING}/trace >/lab/trace", timeout_s=120)


def start(scenario: Scenario, guests: dict[str, Guest]) -> dict[str, tuple[str, int]]:
    """Starts tcpdump everywhere and waits until it listens: by name the command and its number."""
    capture = scenario.capture
    clients = [guest for name, guest in guests.items() if name != "server"]
    others = {"server": clients[:1] if capture.first_client_only else clients}
    started = {}
    for name, guest in guests.items():
        if capture.first_client_only and name == "client2":
            continue  # nothing to match it with
        peers = others.get(name, [guests["server"]])
        filter_ = " or ".join(f"host {peer.address6 if scenario.mount.ipv6 else peer.address}" for peer in peers)
        buffer_kb = capture.client_buffer_kb if name == "client" and capture.client_buffer_kb else capture.buffer_kb
        count = f"-c {capture.server_packets} " if name == "server" and capture.server_packets else ""
        command = (
            f"tcpdump -i {capture.interface} -s {capture.snaplen} -B {buffer_kb} {capture.options} {count}"
            f"-Z root -w cap.pcap {filter_}"
        )
        started[name] = (command, guest.start(f"cd /run && exec {command} 2>tcpdump.txt"))
    for name in started:
        guests[name].run(
            "for i in $(seq 200); do grep -qs listening /run/tcpdump.txt && exit; sleep 0.05; done; exit 1"
        )
    return started


def end(guests: dict[str, Guest], started: dict[str, tuple[str, int]]) -> dict[str, Any]:
    """Ends what ``start`` began; ``cap.pcap`` is in the guests' folders then. By name the command and its counts."""
    time.sleep(1.2)  # tcpdump is given packets by blocks, which end after 1 s at the latest
    found = {}
    for name, (command, number) in started.items():
        guests[name].finish(number, ended_by=signal.SIGINT)
        guests[name].run("cp /run/cap.pcap /lab/")
        found[name] = {
            "cmd": command,
            "result": guests[name].read("/run/tcpdump.txt").splitlines(),
            "bytes": (guests[name].folder / "cap.pcap").stat().st_size,
        }
    return found
