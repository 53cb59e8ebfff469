"""One matched op, its wait for a thread and its charges -> the pieces of its client SRT, the largest first."""

from __future__ import annotations

from collections.abc import Mapping

from nfslat.answer.figures import IN_THREAD, NETWORK, NO_CONNECTION, QUEUE, UNEXPLAINED
from nfslat.answer.pictures import Piece
from nfslat.decompose import PART_NAMES
from nfslat.model.units import to_ms

_SERVER = PART_NAMES.index("server")
_WAYS = tuple(PART_NAMES.index(name) for name in ("call_net", "reply_net"))


def pieces_of(
    parts_ns: tuple[int, ...],
    charges_ns: Mapping[tuple[str, str], int],
    queue_ns: int | None,
    *,
    split: bool,
    unconnected_ns: int = 0,
) -> list[Piece]:
    """They sum to the parts. `charges_ns` is by part and cause; `queue_ns` None: the packets do not tell; without
    `split` the clocks do not tell call_net from reply_net, and both together are the network. `unconnected_ns` is how
    long there was no connection while the call was to be sent anew: no thread worked on it then.

    What is charged to TCP within the server's part lies in front of the queue (a call behind a hole) or behind the
    thread (a reply in the socket), so the queue and the time in a thread divide what it leaves.
    """
    left = dict(zip(PART_NAMES, parts_ns, strict=True))
    found: dict[tuple[str, str], int] = {}
    for (part, cause), ns in charges_ns.items():
        found[part, cause] = ns
        left[part] -= ns
    if not split:
        left[NETWORK] = sum(left.pop(PART_NAMES[way]) for way in _WAYS)
    server = PART_NAMES[_SERVER]
    found[server, NO_CONNECTION] = max(min(unconnected_ns, left[server]), 0)
    left[server] -= found[server, NO_CONNECTION]
    if queue_ns is not None:
        found[server, QUEUE] = max(min(queue_ns, left[server]), 0)
        found[server, IN_THREAD] = left.pop(server) - found[server, QUEUE]
    found |= {(part, UNEXPLAINED): ns for part, ns in left.items()}
    in_order = sorted(found.items(), key=lambda one: -one[1])
    return [Piece(part, cause, to_ms(ns)) for (part, cause), ns in in_order if ns]
