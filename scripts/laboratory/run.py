"""A scenario -> a folder with both captures, what the kernels said, and truth.json."""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from laboratory import boot, capture, causes, client, server, truth
from laboratory.guest import HERE, Guest, Kernel, LabError, Output
from laboratory.scenario import Cause, Load, Scenario

_SNAPSHOT = f"/old{HERE.parent}/snapshot.sh"  # as guests see it


def run(scenario: Scenario, kernel: Kernel, image: Path, results: Path) -> Path:
    """Boots the guests, injects, loads, captures; everything is in ``results/NAME`` then, or it is as it was before.

    Raises ``LabError``.
    """
    with boot.booted(scenario, kernel, image) as guests, tempfile.TemporaryDirectory(prefix="nfslat-lab-") as work:
        found = _experiment(scenario, guests)
        done = Path(work)
        (done / "scenario.toml").write_text(scenario.text)
        (done / "truth.json").write_text(json.dumps(found, indent=1) + "\n")
        for name, guest in guests.items():
            for made, kept in (("cap.pcap", "pcap"), ("trace", "trace")):
                if (guest.folder / made).exists():
                    _bring(guest.folder / made, done / f"{name}.{kept}.gz")
            for when in ("before", "after"):
                shutil.copy(guest.folder / f"{when}.txt", done / f"{name}.{when}.txt")
        folder = results / scenario.name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(done, folder)
    return folder


def _experiment(scenario: Scenario, guests: dict[str, Guest]) -> dict[str, Any]:
    nfsd, first, *_ = guests.values()
    boot.serve(scenario, guests)
    captures = capture.start(scenario, guests) if scenario.capture.from_mount else None
    mount = boot.mount(scenario, guests)
    clock_before = truth.clocks(nfsd, first)
    _snapshots(guests, "before")
    before, disk_before = truth.counters(nfsd, first), server.disk_of(nfsd)
    traced = [capture.start_trace(guest) for guest in guests.values()]
    captures = captures or capture.start(scenario, guests)
    begun, ran = time.monotonic(), {name: guest.processor_ns() for name, guest in guests.items()}
    outputs = _load(scenario, guests)
    wall_s = time.monotonic() - begun
    processors = {name: truth.processor_delta(ran[name], guest.processor_ns()) for name, guest in guests.items()}
    tcpdump = capture.end(guests, captures)
    if all(traced):
        for guest in guests.values():
            capture.end_trace(guest)
    after, disk_after = truth.counters(nfsd, first), server.disk_of(nfsd)
    _snapshots(guests, "after")
    return {
        "scenario": scenario.name,
        "description": scenario.description,
        "cause": cause_of(scenario.cause),
        "expect": scenario.expect,
        "clock_before": clock_before,
        "clock_after": truth.clocks(nfsd, first),
        "capture": tcpdump,
        "mount_cmd": mount,
        "mount": next((line for line in first.read("/proc/mounts").splitlines() if f" {client.MOUNTED} " in line), ""),
        "workload": _workload(scenario.load, outputs[0]) | {"host_wall_s": round(wall_s, 3)},
        "workload2": _workload(scenario.load2, outputs[1]) if scenario.load2 else None,
        "processors": processors,
        "disk_tick_ms": server.tick_ms(nfsd),
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


def _load(scenario: Scenario, guests: dict[str, Guest]) -> list[Output]:
    """Runs the loads, with what is injected beside and amid them; what each client's printed."""
    nfsd, *clients = guests.values()
    beside = causes.hogs(nfsd, clients, scenario)
    if scenario.load.server_script:
        beside.append((nfsd, nfsd.start(f"cd {server.EXPORT} && {{ {scenario.load.server_script.strip()}\n}}")))
    loads = [scenario.load, *([scenario.load2] if scenario.load2 else [])]
    started = [(guest, client.start_load(guest, load)) for guest, load in zip(clients, loads, strict=True)]
    middle = causes.during_load(nfsd, clients, scenario)
    steps, begun = causes.timeline(guests, scenario)
    outputs = [guest.finish(number, timeout_s=scenario.load.seconds * 4 + 60) for guest, number in started]
    middle.join()
    steps.join()
    for guest, number in (*beside, *begun):
        guest.finish(number, ended_by=signal.SIGKILL)
    for output in outputs:
        if output.status != 0:
            raise LabError(f"{scenario.name}: the load ended with {output.status}: {output.err.strip()[-300:]}")
    return outputs


def _workload(load: Load, output: Output) -> dict[str, Any]:
    return {"cmd": client.command(load), "rc": output.status} | client.result(load, output)


def cause_of(cause: Cause) -> dict[str, Any]:
    """What differs from a lab in which nothing is wrong."""
    healthy = asdict(Cause())
    return {"where": cause.where} | {name: one for name, one in asdict(cause).items() if one != healthy[name]}


def _snapshots(guests: dict[str, Guest], when: str) -> None:
    """Of all guests at once: a guest starts processes slowly, and a snapshot is hundreds."""
    taken = [(guest, guest.start(f"sh {_SNAPSHOT} >/lab/{when}.txt")) for guest in guests.values()]
    for guest, number in taken:
        guest.finish(number)


def _bring(source: Path, target: Path) -> None:
    """Compressed, without the time, so that the same bytes give the same file."""
    with source.open("rb") as plain, target.open("wb") as raw, gzip.GzipFile("", "wb", 6, raw, mtime=0) as packed:
        shutil.copyfileobj(plain, packed)
