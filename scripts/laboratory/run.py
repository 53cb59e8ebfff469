"""A scenario -> a folder with both captures, what the kernels said, and truth.json."""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from laboratory import causes, client, compare, kerberos, server, truth
from laboratory.guest import Guest, Kernel, LabError
from laboratory.scenario import Cause, Scenario

_SNAPSHOT = Path(__file__).parents[1] / "snapshot.sh"
_TRACING = "/sys/kernel/tracing"
_NUMBERS = {"server": 1, "client": 2, "client2": 3}


def run(scenario: Scenario, kernel: Kernel, image: Path, results: Path) -> Path:
    """Boots the guests, injects, loads, captures; everything is in ``results/NAME`` then, or it is as it was before.

    The machine has been isolated and has the network for three guests. Raises ``LabError``.
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
        found = _experiment(scenario, guests)
        done = work / "done"
        done.mkdir()
        (done / "scenario.toml").write_text(scenario.text)
        (done / "truth.json").write_text(json.dumps(found, indent=1) + "\n")
        for name, guest in guests.items():
            _bring(guest.folder / "cap.pcap", done / f"{name}.pcap.gz")
            if (guest.folder / "trace").exists():
                _bring(guest.folder / "trace", done / f"{name}.trace.gz")
            for when in ("before", "after"):
                shutil.copy(guest.folder / f"{when}.txt", done / f"{name}.{when}.txt")
        folder = results / scenario.name
        shutil.rmtree(folder, ignore_errors=True)
        results.mkdir(parents=True, exist_ok=True)
        shutil.copytree(done, folder)
    return folder


def _experiment(scenario: Scenario, guests: dict[str, Guest]) -> dict[str, Any]:
    nfsd, first = guests["server"], guests["client"]
    clients = [guest for name, guest in guests.items() if name != "server"]
    causes.before_mount(nfsd, clients, scenario)
    server.start(nfsd, scenario)
    for guest in clients:
        client.prepare(guest, scenario)
    if scenario.mount.sec:
        kerberos.start(nfsd, clients)
    if scenario.capture.from_mount:
        captures = _start_captures(scenario, guests)
    mount = client.mount_command(nfsd, scenario)
    for guest in clients:
        guest.run(mount)
    server.slow_disk(nfsd, scenario)
    causes.before_load(nfsd, clients, scenario)
    clock_before = truth.clocks(nfsd, first)
    _snapshots(guests, "before")
    before, disk_before = truth.counters(nfsd, first), server.disk_of(nfsd)
    traced = [_start_trace(guest, name) for name, guest in guests.items()]
    if not scenario.capture.from_mount:
        captures = _start_captures(scenario, guests)

    busy = causes.hogs(nfsd, clients, scenario)
    begun = time.monotonic()
    local = (
        nfsd.start(f"cd {server.EXPORT} && {{ {scenario.load.server_script.strip()}\n}}")
        if scenario.load.server_script
        else None
    )
    loads = [client.start_load(first, scenario.load)]
    loads += [client.start_load(guest, scenario.load2) for guest in clients[1:] if scenario.load2]
    middle = causes.during_load(nfsd, clients, scenario)
    outputs = [
        guest.finish(number, timeout_s=scenario.load.seconds * 4 + 60)
        for guest, number in zip(clients, loads, strict=True)
    ]
    wall_s = time.monotonic() - begun
    middle.join()
    for guest, number in busy:
        guest.finish(number, ended_by=signal.SIGKILL)
    if local is not None:
        nfsd.finish(local, ended_by=signal.SIGTERM)

    tcpdump = _end_captures(scenario, guests, captures)
    if all(traced):
        for guest in guests.values():
            guest.run(f"echo 0 >{_TRACING}/tracing_on; cat {_TRACING}/trace >/lab/trace", timeout_s=120)
    after, disk_after = truth.counters(nfsd, first), server.disk_of(nfsd)
    _snapshots(guests, "after")
    clock_after = truth.clocks(nfsd, first)
    for output in outputs:
        if output.status != 0:
            raise LabError(f"{scenario.name}: the load ended with {output.status}: {output.err.strip()[-300:]}")
    return {
        "scenario": scenario.name,
        "description": scenario.description,
        "cause": _cause(scenario.cause),
        "expect": scenario.expect,
        "clock_before": clock_before,
        "clock_after": clock_after,
        "capture": tcpdump,
        "mount_cmd": mount,
        "mount": next((line for line in first.read("/proc/mounts").splitlines() if f" {client.MOUNTED} " in line), ""),
        "workload": {
            "cmd": client.fio_command(scenario.load) or scenario.load.script.strip(),
            "host_wall_s": round(wall_s, 3),
            "rc": outputs[0].status,
            "fio": client.fio_result(outputs[0]),
        },
        "workload2": {
            "cmd": client.fio_command(scenario.load2) or scenario.load2.script.strip(),
            "fio": client.fio_result(outputs[1]),
        }
        if scenario.load2
        else None,
        "server_storage": {"diskstats_delta_during_load": truth.disk_delta(disk_before, disk_after)},
        "tcp_retrans_segs": {
            side: truth.retransmitted(before[f"{side}_tcp"], after[f"{side}_tcp"]) for side in ("client", "server")
        },
        "mountstats_ops_delta": truth.mountstats_delta(before["mountstats"], after["mountstats"]),
        "before": before,
        "after": after,
        "traces": all(traced),
        "kernel": nfsd.run("uname -r").out.strip(),
    }


def _cause(cause: Cause) -> dict[str, Any]:
    """What differs from a lab in which nothing is wrong."""
    healthy = asdict(Cause())
    return {"where": cause.where} | {
        one.name: getattr(cause, one.name) for one in fields(cause) if getattr(cause, one.name) != healthy[one.name]
    }


def _snapshots(guests: dict[str, Guest], when: str) -> None:
    """Of all guests at once: a guest starts processes slowly, and a snapshot is hundreds."""
    taken = [(guest, guest.start(f"sh {_SNAPSHOT} >/lab/{when}.txt")) for guest in guests.values()]
    for guest, number in taken:
        guest.finish(number)


def _start_trace(guest: Guest, name: str) -> bool:
    """Records the events that say what became of each XID; False where the kernel has none."""
    if guest.run(f"test -d {_TRACING}/events/sunrpc", check=False).status != 0:
        return False
    events = compare.EVENTS_SERVER if name == "server" else compare.EVENTS_CLIENT
    enable = "\n".join(f"echo 1 >{_TRACING}/events/sunrpc/{event}/enable" for event in events)
    guest.run(
        f"echo {compare.TRACE_CLOCK} >{_TRACING}/trace_clock\necho {compare.BUFFER_KB} >{_TRACING}/buffer_size_kb\n{enable}"
    )
    return True


def _start_captures(scenario: Scenario, guests: dict[str, Guest]) -> dict[str, tuple[str, int]]:
    """Starts tcpdump everywhere and waits until it listens: by name the command and its number."""
    capture = scenario.capture
    clients = [guest for name, guest in guests.items() if name != "server"]
    others = {"server": clients[:1] if capture.first_client_only else clients}
    started = {}
    for name, guest in guests.items():
        peers = others.get(name, [guests["server"]])
        filter_ = " or ".join(f"host {peer.address6 if scenario.mount.ipv6 else peer.address}" for peer in peers)
        buffer_kb = capture.client_buffer_kb if name == "client" and capture.client_buffer_kb else capture.buffer_kb
        count = f"-c {capture.server_packets} " if name == "server" and capture.server_packets else ""
        command = (
            f"tcpdump -i {capture.interface} -s {capture.snaplen} -B {buffer_kb} {capture.options} {count}"
            f"-Z root -w cap.pcap {filter_}"
        )
        started[name] = (command, guest.start(f"cd /run && exec {command} 2>tcpdump.txt"))
    for guest in guests.values():
        guest.run("for i in $(seq 200); do grep -qs listening /run/tcpdump.txt && exit; sleep 0.05; done; exit 1")
    return started


def _end_captures(scenario: Scenario, guests: dict[str, Guest], started: dict[str, tuple[str, int]]) -> dict[str, Any]:
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


def _bring(source: Path, target: Path) -> None:
    """Compressed, without the time, so that the same bytes give the same file."""
    with source.open("rb") as plain, target.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        shutil.copyfileobj(plain, packed)
