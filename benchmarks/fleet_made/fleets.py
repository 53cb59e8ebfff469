"""The fleets that tests and the benchmark use: who is in them, and what ails whom."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from fleet_made.captures import make
from fleet_made.plan import ClientPlan, Clock, Plan, ServerPlan

FAR = "slow path"
FEW_SLOTS = "few slots"


def acceptance(
    folder: Path, seed: int = 1, *, nano: bool = False, files: int = 1, stamped: bool = False
) -> dict[str, Any]:
    """100 clients: 7, a whole subnet, behind a slow path; one with 2 slots; too few threads in the second half."""
    return make(acceptance_plan(seed), folder, nano=nano, files=files, stamped=stamped)


def twenty(folder: Path, seed: int = 1, *, nano: bool = False, files: int = 1, stamped: bool = False) -> dict[str, Any]:
    """20 clients with the same troubles, 3 of them behind a slow path."""
    return make(twenty_plan(seed), folder, nano=nano, files=files, stamped=stamped)


def small(folder: Path, seed: int = 1, *, nano: bool = False, files: int = 1, stamped: bool = False) -> dict[str, Any]:
    """12 clients with the same troubles: 2 behind a slow path, one with 2 slots."""
    return make(small_plan(seed), folder, nano=nano, files=files, stamped=stamped)


def acceptance_plan(seed: int) -> Plan:
    """400 workers; 8 threads serve 5,100 ops/s."""
    far = [f"10.9.7.{host}" for host in range(11, 18)]
    near = [f"10.9.{subnet}.{host}" for subnet in (1, 2, 3, 4, 5, 6) for host in range(11, 27)][:93]
    few = {"think_ms": 12.0, "workers": 16}
    return _plan(seed, near, far, few, {"think_ms": 125.0}, seconds=50.0, load_factor=2.5, threads=8)


def twenty_plan(seed: int) -> Plan:
    """126 workers; 5 threads serve 3,100 ops/s."""
    far = [f"10.9.7.{host}" for host in (11, 12, 13)]
    near = [f"10.9.{subnet}.{host}" for subnet in (1, 2, 3) for host in range(11, 17)][:17]
    few = {"think_ms": 25.0, "workers": 16}
    return _plan(seed, near, far, few, {"think_ms": 70.0, "workers": 6}, seconds=12.0, load_factor=4.5, threads=5)


def small_plan(seed: int) -> Plan:
    """88 workers; 4 threads serve 2,500 ops/s."""
    far = [f"10.9.7.{host}" for host in (11, 12)]
    near = [f"10.9.{subnet}.{host}" for subnet in (1, 2) for host in range(11, 16)]
    few = {"think_ms": 25.0, "workers": 16}
    return _plan(seed, near, far, few, {"think_ms": 70.0, "workers": 8}, seconds=12.0, load_factor=5.0, threads=4)


def _plan(
    seed: int,
    near: list[str],
    far: list[str],
    few_slots: dict[str, Any],
    others: dict[str, Any],
    *,
    seconds: float,
    load_factor: float,
    threads: int,
) -> Plan:
    rng = random.Random(seed)  # noqa: S311 - a load, no secret
    few = near[len(near) // 3]
    clients = []
    for number, address in enumerate(near + far):
        plan: dict[str, Any] = others | {"delay_ms": round(rng.uniform(0.05, 0.15), 3)}
        if address in far:
            plan |= {"group": FAR, "delay_ms": plan["delay_ms"] + 8.0, "loss": 0.005, "jitter_ms": 0.2}
        elif address == few:
            plan |= {"group": FEW_SLOTS, "slots": 2} | few_slots
        elif number % 10 == 5:
            plan |= {"nconnect": 2}
        clock = Clock(round(rng.uniform(-400, 400), 3), round(rng.uniform(-20, 20), 2))
        clients.append(
            ClientPlan(f"c{number:03}", address, clock=clock, start_ms=round(rng.uniform(50, 500), 3), **plan)
        )
    server = ServerPlan(threads=threads, clock=Clock(round(rng.uniform(-400, 400), 3), round(rng.uniform(-20, 20), 2)))
    return Plan(tuple(clients), server, seconds=seconds, busier_at_s=seconds / 2, load_factor=load_factor, seed=seed)
