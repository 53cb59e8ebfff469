"""A guest and a scenario -> an NFS client that has mounted the server's export, and the load that it runs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from laboratory.guest import Guest, Output
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


def fio_command(load: Load) -> str:
    """The fio command of a load, "" if it is a script."""
    if load.script:
        return ""
    rate = f"--rate_iops={load.iops},{load.iops}" if load.iops else ""
    return (
        f"fio --name=db --filename={MOUNTED}/data.bin --direct=1 --bs={load.block} --rw={load.pattern} "
        f"--rwmixread={load.mix_pct} --ioengine=psync --thread --numjobs={load.jobs} --runtime={load.seconds:g} "
        f"--time_based --group_reporting --randrepeat=0 --norandommap {rate} {load.options} --output-format=json"
    )


def load_script(load: Load, *, seconds: float | None = None) -> str:
    """The load as a script of sh, for ``seconds`` instead of its own time if that is given."""
    if seconds is None:
        return f"cd {MOUNTED} && {{ {load.script.strip() or fio_command(load)}\n}}"
    again = f"while :; do {load.script.strip()}\n done"
    return f"cd {MOUNTED} && {{ {again if load.script else fio_command(replace(load, seconds=seconds))}\n}}"


def start_load(guest: Guest, load: Load) -> int:
    """Starts the load; its number, for ``Guest.finish``."""
    return guest.start(load_script(load))


def fio_result(output: Output) -> dict[str, Any] | None:
    """What fio measured, by direction: means and percentiles in ms; None for another load."""
    begin = output.out.find("{")
    if begin < 0:
        return None
    job = json.loads(output.out[begin:])["jobs"][0]
    result: dict[str, Any] = {"job_runtime_ms": job["job_runtime"]}
    for direction in ("read", "write"):
        one = job[direction]
        if one["total_ios"]:
            percentiles = one["clat_ns"].get("percentile", {})
            result[direction] = {
                "ios": one["total_ios"],
                "iops": round(one["iops"], 1),
                "clat_mean_ms": round(one["clat_ns"]["mean"] / 1e6, 3),
                "clat_max_ms": round(one["clat_ns"]["max"] / 1e6, 3),
                "p50_ms": round(percentiles.get("50.000000", 0) / 1e6, 3),
                "p99_ms": round(percentiles.get("99.000000", 0) / 1e6, 3),
                "lat_mean_ms": round(one["lat_ns"]["mean"] / 1e6, 3),
            }
    return result
