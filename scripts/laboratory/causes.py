"""Guests and a scenario -> what it injects: on the network, clocks and processors, and in the middle of the load."""

from __future__ import annotations

import threading
import time

from laboratory.guest import Guest
from laboratory.scenario import Cause, Scenario

# A policer that drops what is longer than MTU and Ethernet header (tc-police(8)); its rate limits nothing.
_MTU_HOLE = (
    "modprobe -a cls_matchall act_police sch_ingress 2>/dev/null || :; tc qdisc add dev vec0 clsact; "
    "tc filter add dev vec0 egress matchall action police rate 10gbit burst 100m mtu 1414 conform-exceed drop/pipe"
)
_NETEM = {"delay_ms": "delay {}ms", "loss_pct": "loss {}%", "dup_pct": "duplicate {}%", "rate_mbit": "rate {}mbit"}


def before_mount(server: Guest, clients: list[Guest], scenario: Scenario) -> None:
    """What connections take over when they are made: the size of packets and of TCP's buffers."""
    cause = scenario.cause
    for guest in (server, *clients):
        receive_bytes = cause.server_rmem_bytes if guest is server else cause.client_rmem_bytes
        if receive_bytes is not None:
            guest.run(f"echo 4096 {receive_bytes} {receive_bytes} >/proc/sys/net/ipv4/tcp_rmem")
        if cause.mtu is not None:
            guest.run(f"ip link set vec0 mtu {cause.mtu}; ip link set br0 mtu {cause.mtu}")
    if cause.mtu_hole_s:
        # What TCP hands down is what the wire has: a queue would drop many segments as a single packet.
        server.run("for card in vec0 br0; do ip link set $card gso_max_segs 1; done")


def before_load(server: Guest, clients: list[Guest], scenario: Scenario) -> None:
    """Network and clocks."""
    cause = scenario.cause
    for guest in clients:
        _netem(guest, cause, "client_to_server")
    _netem(server, cause, "server_to_client")
    if cause.clock_offset_s:
        _step(clients[0], cause.clock_offset_s)
    if cause.clock_drift_ppm:
        # One tick of the kernel's 100 Hz is 10,000 us; 100 ppm a us of it (adjtimex(2)).
        tick = 10000 + round(cause.clock_drift_ppm / 100)
        clients[0].run(
            "python3 - <<'END'\nimport ctypes\n"
            "class Timex(ctypes.Structure):\n"
            "    _fields_ = [('modes', ctypes.c_uint), ('head', ctypes.c_long * 10), ('tick', ctypes.c_long),\n"
            "                ('rest', ctypes.c_char * 256)]\n"
            f"timex = Timex(modes=0x4000, tick={tick})  # ADJ_TICK\n"
            "assert ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex)) >= 0, ctypes.get_errno()\nEND"
        )


def hogs(server: Guest, clients: list[Guest], scenario: Scenario) -> list[tuple[Guest, int]]:
    """Starts the busy processes, which somebody has to end."""
    wanted = [(server, scenario.cause.server_cpu_hogs), (clients[0], scenario.cause.client_cpu_hogs)]
    return [(guest, guest.start("while :; do :; done")) for guest, count in wanted for _ in range(count)]


def timeline(guests: dict[str, Guest], scenario: Scenario) -> tuple[threading.Thread, list[tuple[Guest, int]]]:
    """Starts the clock of the scenario's steps: the thread ends with the last one; what was started has to be ended."""
    begun: list[tuple[Guest, int]] = []
    start_s = time.monotonic()

    def act() -> None:
        for step in sorted(scenario.cause.timeline, key=lambda one: one.at_s):
            time.sleep(max(start_s + step.at_s - time.monotonic(), 0.0))
            begun.append((guests[step.on], guests[step.on].start(step.script)))

    thread = threading.Thread(target=act)
    thread.start()
    return thread, begun


def during_load(server: Guest, clients: list[Guest], scenario: Scenario) -> threading.Thread:
    """Starts what comes in the middle of the load; the thread ends when that is over."""
    cause = scenario.cause

    def act() -> None:
        if cause.stutter_ms:
            end = time.monotonic() + scenario.load.seconds
            while time.monotonic() < end:
                server.pause(cause.stutter_ms / 1000)
                time.sleep(0.2 - cause.stutter_ms / 1000)
            return
        time.sleep(scenario.load.seconds * 0.4)
        if cause.stall_s:
            clients[0].pause(cause.stall_s)
        if cause.server_stall_s:
            server.pause(cause.server_stall_s)
        if cause.clock_step_s:
            _step(clients[0], cause.clock_step_s)
        if cause.link_down_s:
            for guest in (server, *clients):
                guest.run("modprobe sch_netem 2>/dev/null || :; tc qdisc replace dev vec0 root netem loss 100%")
            time.sleep(cause.link_down_s)
            for guest in (server, *clients):
                guest.run("tc qdisc del dev vec0 root")
        if cause.mtu_hole_s:
            server.run(_MTU_HOLE)
            time.sleep(cause.mtu_hole_s)
            server.run("tc qdisc del dev vec0 clsact")
        if cause.disk_hang_s:
            server.run("dmsetup suspend --noudevsync --nolockfs --noflush disk")
            time.sleep(cause.disk_hang_s)
            server.run("dmsetup resume --noudevsync disk")
        if cause.nfsd_restart_s:
            server.run("rpc.nfsd 0")
            time.sleep(cause.nfsd_restart_s)
            server.run(f"rpc.nfsd {cause.nfsd_threads}")

    thread = threading.Thread(target=act)
    thread.start()
    return thread


def _netem(guest: Guest, cause: Cause, way: str) -> None:
    words = [text.format(getattr(cause, name)[way]) for name, text in _NETEM.items() if way in getattr(cause, name)]
    if way in cause.jitter_ms:
        # Delays of their own for each packet reorder them; that is another cause.
        words[0:1] = [f"delay {cause.delay_ms[way]}ms {cause.jitter_ms[way]}ms distribution normal"]
    if way in cause.reorder_pct:
        words.append(f"reorder {100 - cause.reorder_pct[way]}%")
    if words:
        guest.run(
            f"modprobe sch_netem 2>/dev/null || :; tc qdisc replace dev vec0 root netem {' '.join(words)} limit 10000"
        )


def _step(guest: Guest, seconds: float) -> None:
    guest.run(f"python3 -c 'import time; time.clock_settime(0, time.time() + {seconds})'")
