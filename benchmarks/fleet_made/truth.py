"""A story -> what is true of each client and of the server, for tests to compare with what a report says."""

from __future__ import annotations

from typing import Any

import numpy as np

from fleet_made.plan import MS, NAMES, S
from fleet_made.story import I64, Story


def truth(story: Story) -> dict[str, Any]:
    """As JSON. Halves: calls that came to the server before and after `busier_at_s`. Means in ms, of all ops.

    Response times are those of the wire, from packet to packet, as a report has them. What TCP holds back at the
    receiver behind something lost is part of the server's time for a call, and of nobody's for a reply.
    """
    plan = story.plan
    busier_ns = int(plan.busier_at_s * S)
    halves = [story.delivered[0] < busier_ns, story.delivered[0] >= busier_ns]
    everybody = np.ones(len(story.conn), dtype=bool)
    lost = np.zeros(len(plan.clients), dtype=np.int64)
    for way in (0, 1):
        first = story.client[story.direct[way] < 0]
        later = story.client[story.again[(story.again[:, 1] == way) & (story.again[:, 3] < 0), 0]]
        lost += np.bincount(np.concatenate((first, later)), minlength=len(lost))
    clients = []
    for number, one in enumerate(plan.clients):
        mine = story.client == number
        clients.append(
            {
                "name": one.name,
                "address": one.address,
                "group": one.group,
                "workers": one.workers,
                "slots": one.slots,
                "nconnect": one.nconnect,
                "delay_ms": one.delay_ms,
                "loss": one.loss,
                "clock_offset_ms": one.clock.offset_ms,
                "clock_drift_ppm": one.clock.drift_ppm,
                "lost_segments": int(lost[number]),
                **_figures(story, mine),
                "halves": [_figures(story, mine & half) for half in halves],
            }
        )
    return {
        "seed": plan.seed,
        "seconds": plan.seconds,
        "busier_at_s": plan.busier_at_s,
        "server": {
            "address": plan.server.address,
            "threads": plan.server.threads,
            "clock_offset_ms": plan.server.clock.offset_ms,
            "clock_drift_ppm": plan.server.clock.drift_ppm,
            "slow_file": plan.server.slow_file,
            **_figures(story, everybody),
            "halves": [_figures(story, half) for half in halves],
        },
        "clients": clients,
    }


def _figures(story: Story, which: np.ndarray[Any, np.dtype[np.bool_]]) -> dict[str, Any]:
    (sent, reply), (seen, back), (arrived, received) = story.sent, story.seen, story.delivered
    kinds = np.bincount(story.kind[which], minlength=len(NAMES)).tolist()
    return {
        "ops": int(which.sum()),
        "by_kind": dict(zip(NAMES, kinds, strict=True)),
        "application_ms": _mean(received - story.issued, which),
        "wait_for_slot_ms": _mean(sent - story.issued, which),
        "client_ms": _mean(back - sent, which),
        "network_ms": _mean(back - sent - (reply - seen), which),
        "server_ms": _mean(reply - seen, which),
        "behind_a_loss_ms": {"calls": _mean(arrived - seen, which), "replies": _mean(received - back, which)},
        "wait_for_thread_ms": _mean(story.start - arrived, which),
        "in_thread_ms": _mean(reply - story.start, which),
    }


def _mean(ns: I64, which: np.ndarray[Any, np.dtype[np.bool_]]) -> float | None:
    return round(float(ns[which].mean()) / MS, 6) if which.any() else None
