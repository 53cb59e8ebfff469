"""A guest and a scenario -> an NFS client that has mounted the server's export, and the load that it runs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from laboratory.guest import HERE, Guest, Output
from laboratory.scenario import Load, Scenario
from laboratory.server import EXPORT

MOUNTED = "/mnt/nfs"


def prepare(guest: Guest, scenario: Scenario) -> None:
    """What has to be set before the first mount: slot tables, slots of sessions, buffers of TCP."""
    cause = scenario.cause
    script = "modprobe -a sunrpc nfs nfsv3 nfsv4 2>/dev/null || :\nmkdir -p /run/rpc_pipefs /var/lib/nfs/sm /mnt/nfs\n"
    # The mount of v4 asks for it, and rpc.statd is for locks, which v3 mounts here go without.
    script += "mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs\n"
    if cause.slots is not None:
        for name in ("tcp_slot_table_entries", "tcp_max_slot_table_entries"):
            script += f"echo {cause.slots} >/proc/sys/sunrpc/{name}\n"
    if cause.max_session_slots is not None:
        script += f"echo {cause.max_session_slots} >/sys/module/nfs/parameters/max_session_slots\n"
    guest.run(script)


def mount_command(server: Guest, scenario: Scenario) -> str:
    """As a person would type it."""
    mount = scenario.mount
    # Locks of v3 would need rpc.statd on the client.
    options = [f"vers={mount.vers}", "proto=tcp6" if mount.ipv6 else "proto=tcp"]
    options += ["nolock"] if mount.vers == "3" else []
    options += [f"sec={mount.sec}"] if mount.sec else []
    options += [mount.options] if mount.options else []
    address = f"[{server.address6}]" if mount.ipv6 else server.address
    # For NFSv4 the export is the root of the server's tree (fsid=0).
    return f"mount -t nfs -o {','.join(options)} {address}:{EXPORT if mount.vers == '3' else '/'} {MOUNTED}"


def command(load: Load) -> str:
    """The load as a script of sh."""
    if load.app:
        return f"python3 -S -E $LAB_WORKLOAD {load.app} seconds={load.seconds:g}"
    return load.script.strip() or _fio_command(load)


def _fio_command(load: Load) -> str:
    rate = f"--rate_iops={load.iops},{load.iops}" if load.iops else ""
    return (
        f"fio --name=db --filename={MOUNTED}/data.bin --direct=1 --bs={load.block} --rw={load.pattern} "
        f"--rwmixread={load.mix_pct} --ioengine=psync --thread --numjobs={load.jobs} --runtime={load.seconds:g} "
        f"--time_based --group_reporting --randrepeat=0 --norandommap {rate} {load.options} --output-format=json"
    )


def load_script(load: Load, *, seconds: float | None = None) -> str:
    """The load as a script of sh, for ``seconds`` instead of its own time if that is given."""
    script = command(load if seconds is None else replace(load, seconds=seconds))
    if load.script and seconds is not None:
        script = f"while :; do {script}\n done"
    return f"export LAB_WORKLOAD=/old{HERE}/workload.py; cd {MOUNTED} && {{ {script}\n}}"


def start_load(guest: Guest, load: Load) -> int:
    """Starts the load; its number, for ``Guest.finish``."""
    return guest.start(load_script(load))


def result(load: Load, output: Output) -> dict[str, Any]:
    """What the load measured of itself: workload.py's calls and means by operation, or fio's."""
    if load.app:
        found: dict[str, Any] = json.loads(output.out.splitlines()[-1])
        return found
    begin = output.out.find("{")
    return {"fio": None if load.script or begin < 0 else _fio_result(output.out[begin:])}


def _fio_result(text: str) -> dict[str, Any]:
    """By direction: means and percentiles in ms."""
    job = json.loads(text)["jobs"][0]
    found: dict[str, Any] = {"job_runtime_ms": job["job_runtime"]}
    for direction in ("read", "write"):
        one = job[direction]
        if one["total_ios"]:
            percentiles = one["clat_ns"].get("percentile", {})
            found[direction] = {
                "ios": one["total_ios"],
                "iops": round(one["iops"], 1),
                "clat_mean_ms": round(one["clat_ns"]["mean"] / 1e6, 3),
                "clat_max_ms": round(one["clat_ns"]["max"] / 1e6, 3),
                "p50_ms": round(percentiles.get("50.000000", 0) / 1e6, 3),
                "p99_ms": round(percentiles.get("99.000000", 0) / 1e6, 3),
                "lat_mean_ms": round(one["lat_ns"]["mean"] / 1e6, 3),
            }
    return found
