"""What captures say of their own stamps -> which of them are late, and what waits in a host before it is captured."""

from __future__ import annotations

from nfslat.answer.model import AuditNote
from nfslat.figures.audit.words import note, some, span
from nfslat.model.units import to_ms
from nfslat.results import Analysis

_OF_THE_TIME = 0.05
_FEW = 50  # messages


def late_notes(c: Analysis) -> list[AuditNote]:
    """Captures that stamp packets late; nothing where ticks of TCP's clock are too long to know it."""
    out = []
    if len(c.matched) and c.client_srt_ns.mean() < c.server_srt_ns.mean():
        return []  # whose capture is whose is not known
    for name, own in c.own.items():
        if own.apart_ns:
            text = (
                f"in the {name}'s capture what came in is stamped {span(own.apart_ns)} later than what was sent, by "
                "the TCP time stamps (TSval): by two clocks (as tcpdump -j adapter_unsynced does), or late. All "
                "response times at this host and the network's are off by that; capture with the host's clock: "
                "tcpdump -j host"
            )
            out.append(note("capture-late-stamps", own.acknowledged, text, warn=True))
        elif own.is_late:
            came_ns = own.behind_ns[own.behind_ns > own.much_ns]
            sent_ns = own.waited_ns[own.waited_ns > own.much_ns]
            text = (
                f"the {name}'s capture stamps packets late: {some(len(came_ns), 'packet')} had been acknowledged, by "
                f"the TCP time stamps (TSval), up to {span(int(came_ns.max()))} before it says that they came in"
            )
            if len(sent_ns):
                text += (
                    f", and {len(sent_ns):,} of {some(len(own.waited_ns), 'packet')} sent are late by up to "
                    f"{span(int(sent_ns.max()))}"
                )
            text += (
                ". A mirror port, or a program that stamps packets as it reads them, does that; times of single "
                "operations are off by as much, at this host and on the network"
            )
            out.append(note("capture-late-stamps", len(came_ns) + len(sent_ns), text, warn=True))
    return out


def held_remarks(c: Analysis) -> list[str]:
    """What messages wait for in their sender on the mean, between TCP and the capture point: that is in the server's
    time, and of a client in none."""
    out = []
    for name, own in c.own.items():
        mean_ns = float((c.server_srt_ns if name == "server" else c.client_srt_ns).mean()) if len(c.matched) else 0.0
        is_known = own.messages >= _FEW and not own.is_late
        if not is_known or own.held_ns <= max(own.much_ns, _OF_THE_TIME * mean_ns):
            continue
        ms = f"{to_ms(own.held_ns):.2f} ms on average"
        where = (
            "between TCP and the capture point, by the TCP time stamps (TSval): in a queueing discipline (tc -s "
            "qdisc), in a driver, for a processor, or for a capture that stamps late"
        )
        if name == "server":
            mean = f"{to_ms(mean_ns):.2f} ms"
            text = f"of the server's {mean} replies wait {ms} {where}; that is in no thread, nor on a disk"
        else:
            text = f"calls wait {ms} in the client {where}; that is above the wire here, and in no response time"
        out.append(text)
    return out
