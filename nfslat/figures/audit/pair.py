"""Two sides together -> what must be said about the comparison: time in common, clocks, what was left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from nfslat.answer.model import AuditNote
from nfslat.figures.audit.late import held_remarks, late_notes
from nfslat.figures.audit.missing import stranger_hosts, strangers
from nfslat.figures.audit.words import note, some, span
from nfslat.inflight.slots import Held
from nfslat.match import overlap
from nfslat.match.sequences import apart
from nfslat.model.tables import Connection, Miss, Ops
from nfslat.model.units import to_s
from nfslat.peer.inferred import Inferred
from nfslat.results import Analysis, Correlation, Order
from nfslat.select import is_reverse

_SIDES = ("server", "client")
_HALF, _ALL = 0.5, 0.99  # of a capture
_FEW_OPS, _PLENTY = 20, 50_000  # ops that can tell of the network, and that are enough to
_NEARLY_ALL, _ALIKE = 0.9, 0.25  # of the ops; of the amount
_NO_NETWORK_NS = 1_000_000_000
_NAMED = 3  # other hosts


def pair_notes(c: Analysis) -> list[AuditNote]:
    """What the two captures can bear together, most serious first."""
    found = [*late_notes(c), *_clock_notes(c), overlap_note(_common(c), *_outside(c, "client"))]
    return sorted((one for one in found if one.count), key=lambda one: one.severity != "warning")


class Common(NamedTuple):
    """The time that both captures show, on the client's clock, and its share of each."""

    ns: int
    of_server: float
    of_client: float


Ran = tuple[int, int, int]  # when a capture began and ended, on its clock, and how long it ran, ns


def common(server: Ran, client: Ran, theta_ns: tuple[int, int]) -> Common:
    """Of captures that ran so, whose clocks were so far apart at first and at last."""
    (server_begin, server_end, server_ns), (begin, end, client_ns) = server, client
    late, early = max(server_begin - theta_ns[0] - begin, 0), max(end - server_end + theta_ns[1], 0)
    ns = max(client_ns - late - early, 0)
    return Common(ns, min(ns / server_ns, 1.0), min(ns / client_ns, 1.0))


def _common(c: Correlation) -> Common:
    m = c.matching.matched
    # Each end by the matched op that is nearest to it, so that a clock which was set in between does no harm.
    first, last = overlap.offsets(c.server.ops, c.client.ops, m.take(np.array([0, len(m) - 1]))).tolist()
    return common(_ran(c, "server"), _ran(c, "client"), (first, last))


def _ran(c: Correlation, name: str) -> Ran:
    """When a capture began and ended, on its clock, and how long it ran: not the same where its clock was set."""
    side = c.server if name == "server" else c.client
    begin, end, ops = side.decoded.first_ns, side.decoded.last_ns, side.ops
    if c.clock.steps and len(ops):
        # The earliest and the latest stamp need not be those of the first and the last packet then.
        begin, end = int(ops.t0[0]), int(ops.t3[np.argmax(ops.reply_last_frame)])
    set_by_ns = sum(step.set_by_ns or 0 for step in c.clock.steps if step.clock == name)
    return begin, end, max(end - begin - set_by_ns, 1)


def _outside(c: Correlation, side: str) -> tuple[int, int]:
    """Ops of `side` that happened while the other capture was not running, and all that are compared."""
    compared = c.compared(side)
    return int(np.count_nonzero(compared & (c.missed(side) == Miss.OUTSIDE_OVERLAP))), int(np.count_nonzero(compared))


def overlap_note(common: Common, outside: int, compared: int) -> AuditNote:
    """Of the client's `compared` ops, so many happened while the other capture was not running."""
    text = (
        f"the captures have {to_s(common.ns):,.1f} s in common, {common.of_server * 100:.0f} % of the server's and "
        f"{common.of_client * 100:.0f} % of the client's; only operations in that time are compared"
    )
    if max(common.of_server, common.of_client) < _HALF:
        return note("no-overlap", compared - outside, f"{text}, and they may not be representative", warn=True)
    return note("captures-overlap", compared - outside, text)


def _clock_notes(c: Analysis) -> list[AuditNote]:
    """Two clocks in one capture that was sorted by time: the network time is wrong by the same amount for all ops.

    Nothing tells in which capture, nor by how much: the amount less the true network time. Where the files were
    exchanged because of it, it is positive, and cannot be told from a network that takes so long.
    """
    count = len(c.matched)
    if count < _FEW_OPS:
        return []
    some_of_them = slice(None, None, max(count // _PLENTY, 1))
    network_ns = c.client_srt_ns[some_of_them] - c.server_srt_ns[some_of_them]
    low, middle, high = (int(ns) for ns in np.percentile(network_ns, [25, 50, 75]))
    if high - low > _ALIKE * abs(middle):
        return []
    below = int(np.count_nonzero(c.client_srt_ns < c.server_srt_ns))
    if below > _NEARLY_ALL * count:
        text = (
            f"the server takes longer than the client by {span(middle)} for nearly all operations ({below:,} of "
            f"{count:,}): in one capture sent and received packets are stamped by two clocks, or the files are the "
            "wrong way round. No layer can be named"
        )
        return [note("two-clocks-suspected", below, text, warn=True)]
    if c.swapped and middle > _NO_NETWORK_NS:
        text = (
            f"the files were exchanged, and now the network takes {span(middle)} for nearly all operations, which no "
            "network does: in one capture sent and received packets are stamped by two clocks. No layer can be named"
        )
        return [note("two-clocks-suspected", count, text, warn=True)]
    return []


def exchanged(server: str, client: str) -> str:
    """What is said where captures of these names were given client first."""
    return (
        f"the captures were given client first: by the packets {server} is the server's, {client} the client's, and so "
        "they are read (--no-swap keeps the order given)"
    )


def remarks(c: Analysis, *, application_known: bool) -> list[str]:
    """What else must be said about the comparison."""
    out = [] if c.inferred is None else _inferred(c.inferred, c)
    made_from = c.server.source.made_from or c.client.source.made_from
    if made_from:
        out.append(made_from)
    if c.swapped and not made_from:
        out.append(exchanged(c.server.source.name, c.client.source.name))
    elif c.order is Order.UNCLEAR:
        out.append(
            f"the packets do not tell which capture is the server's: {c.server.source.name} is taken for it, as it was "
            "given first"
        )
    if not application_known:
        out += above_the_wire(c)
    out += _moved(c)
    for name in _SIDES:
        if count := strangers(c, name):
            who = [f"{host} ({ops:,} ops, {share * 100:.1f} %)" for host, ops, share in stranger_hosts(c, name)]
            out.append(
                f"{count} ops in the {name}'s capture belong to hosts that are not in the other one (share of the "
                f"time of all operations there): {_some(who)}"
            )
    out += held_remarks(c)
    out += left_out(_common(c), {name: _outside(c, name) for name in _SIDES})
    out += _between(c)
    reverse = max(
        int(np.count_nonzero(side.kept & side.ops.spread(is_reverse(side.ops)))) for side in (c.server, c.client)
    )
    if reverse:
        out.append(f"{reverse} calls from the server to the client (callbacks) are in the raw data only")
    retransmitted = int(np.count_nonzero(c.client.ops.transmissions[c.matched.client] > 1))
    if retransmitted:
        out.append(
            f"{retransmitted} ops were retransmitted by RPC (timeo ran out, or a new connection); their client SRT "
            "counts from the first transmission"
        )
    return out


def _moved(c: Correlation) -> list[str]:
    """Clocks of several hosts in one capture."""
    out = []
    for name, by_ns in c.moved_ns.items():
        away = [f"{host} {to_s(ns):+,.3f} s" for host, ns in by_ns.items() if ns]
        if away:
            first = next(host for host, ns in by_ns.items() if not ns)
            out.append(
                f"the {name}'s capture has the clocks of several hosts, which were put on that of {first}: "
                f"{_some(away)}"
            )
    return out


def _between(c: Analysis) -> list[str]:
    """A box that ends TCP: nobody else gives the bytes of a call other sequence numbers, but for some firewalls."""
    if c.inferred is not None:
        return []
    server, client = ((side.ops, side.decoded.details.tcp) for side in (c.server, c.client))
    found, known = apart(server, client, c.matched)
    if not found:
        return []
    near = _ends(client[0], {row for _, row in found}, Connection.destination)
    far = _ends(server[0], {row for row, _ in found}, Connection.source)
    return [
        f"TCP ends between the hosts: {len(found)} of {known} matched connections have other sequence numbers in each "
        f"capture, as with a proxy or a load balancer (the client's server is {_some(near)}, the server's client "
        f"{_some(far)}); some firewalls rewrite them, too. The time that such a box takes is the network's here, "
        "and each capture shows the round trips and losses of its own TCP; a capture on the box tells"
    ]


def _ends(ops: Ops, conns: set[int], end: Callable[[Connection, int], tuple[str, int]]) -> list[str]:
    """Addresses of those who answer or call on some connections."""
    of = zip(ops.classes.conn.tolist(), ops.classes.direction.tolist(), is_reverse(ops).tolist(), strict=True)
    return sorted({end(ops.connections[row], way)[0] for row, way, back in of if row in conns and not back})


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return ", ".join(names[:_NAMED]) + more


def _inferred(found: Inferred, c: Analysis) -> list[str]:
    """What one capture cannot tell, and where it was taken."""
    near = "client" if found.side == "server" else "server"
    out = [
        f"only the {near} was captured: a CPU of either host that is late to take packets looks like the network or "
        f"the {found.side}, and pauses of the {found.side}'s TCP are not seen. A capture of it at the same time, or "
        f"its snapshots (--{found.side}-snapshot), would show them"
    ]
    if found.taken_at == "loopback":
        out.insert(
            0,
            "both ends of the connection are on this host: what looks like the server may be a proxy (efs-proxy, "
            "stunnel), and its time then holds the way to the server behind it; capture between the two as well",
        )
    unclocked = int(np.count_nonzero(~found.clocked[c.matched.client]))
    if unclocked:
        out.append(
            f"no clock of the {found.side}'s is in the packets of {some(unclocked, 'op')}: UDP has none, and TCP has "
            "one in its time stamps (RFC 7323; Linux: sysctl net.ipv4.tcp_timestamps), which are off, or which a box "
            "on the path removes or writes over. Their times lie between bounds by acknowledgements, replies and other "
            "ops. That nothing arrives before it was sent is certain; that messages wait on the path as those do that "
            "are answered at once holds for about 95 % of the ops"
        )
    over_udp = np.array([ends.transport == "udp" for ends in c.client.ops.connections], dtype=np.bool_)
    if near == "server" and (left_out := int(np.count_nonzero(c.server.kept & over_udp[c.server.ops.conn]))):
        out.append(
            f"{some(left_out, 'op')} over UDP are left out: in a capture of the server no packet says when a client "
            "had the reply"
        )
    if np.isnan(found.vantage.client_ns) and np.isnan(found.vantage.server_ns):
        out.append(
            "packets over UDP do not say where they were captured: this is taken for the capture of a client. If it is "
            "the server's, its SRT is that of the server"
        )
    return out


def above_the_wire(c: Analysis) -> list[str]:
    """That it is not in the captures; nothing where slots are seen to be the limit, for the finding says it then."""
    mounts = c.inflight.mounts[:1]
    session = next((one for one in c.inflight.sessions if not one.callbacks), None)
    of_session = session is not None and (session.limited or session.own_limit is not None)
    if of_session or any(mount.slots is not None for mount in mounts):
        return []
    text = (
        "requests may also be queueing in the client (for a slot, or in the application), which packets cannot "
        "show: give the application's own mean with --app-ms to include that"
    )
    for mount in mounts if not c.coarse_ns else ():
        if mount.held is Held.EITHER:
            level = sum(one.level or 0 for one in mount.connections)
            text += (
                f". {level} calls are in flight most of the time, and hardly ever more: either that many slots, with "
                "other requests waiting above the wire, or that many workers. --app-ms tells which"
            )
            if mount.taking_turns is not None:
                text += (
                    f". About {mount.taking_turns} files or directories take turns, as they do when callers queue for "
                    "a slot, or when workers visit them one after the other"
                )
    return [text]


def left_out(common: Common, outside: Mapping[str, tuple[int, int]]) -> list[str]:
    """The same of both sides: ops that happened while the other capture was not running, and all."""
    parts = [
        f"{count} of the {compared} ops of the {name}'s capture" for name, (count, compared) in outside.items() if count
    ]
    if not parts:
        return []
    return [
        f"the captures overlap only in part, for {to_s(common.ns):,.1f} s: {' and '.join(parts)} happened while the "
        "other was not running, and are left out"
    ]
