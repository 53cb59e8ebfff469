"""Facts -> findings on what hangs: a receiver that does not read, data that nobody acknowledges, calls that nobody
answers."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from nfslat.answer.model import Hang, Unanswered
from nfslat.findings.catalogue import CAUSE
from nfslat.findings.diagnosis import Diagnosis, Evidence, LookAt, diagnosis
from nfslat.findings.facts import Facts
from nfslat.findings.server import Reconnect
from nfslat.findings.words import lowered, ms, span, times

SHUT, UNACKNOWLEDGED, UNANSWERED = "window-stays-shut", "never-acknowledged", "calls-unanswered"
_OFTEN = 3  # tries, of which one would have come by
_LEADING_WAIT_MS = 10_000.0  # a call that is older leads, however many others were answered
_OTHER = {"server": "client", "client": "server"}
_UNTIL = {
    "nothing": "until the capture ended",
    "own-reset": "until it gave up with a RST",
    "reset": "until a RST came",
    "next-connection": "until the next connection between these ports",
}


class Hanging(Evidence, kw_only=True):
    """Of window-stays-shut and never-acknowledged."""

    connections: int
    still: int  # of them, those that hang to the capture's end
    calls: int  # on all of them, without a reply
    side: str  # server or client: who waits
    waiter: str  # address and port, of the connection that hangs longest; the rest is of that one, too
    other: str  # who it waits for
    since: str
    waits_ms: float
    tries: int  # probes of the window, or transmissions
    last_try_ms: float  # from `since` on
    frame: int  # of the last try, in the capture of who waits
    heard: str | None  # the last packet of the other end
    # tries while the other capture ran, too, and those of them that it shows
    compared: int | None = None
    arrived: int | None = None

    @property
    def how_long(self) -> str:
        """Of the one that hangs longest."""
        return span(self.waits_ms)


def hang_findings(facts: Facts) -> list[Diagnosis]:
    """One for each kind, and for whoever it comes from; those that hang still come first, then the longest."""
    groups: dict[tuple[str, str, str], list[Hang]] = {}
    for one in facts.hangs:
        groups.setdefault((one.awaits, one.side, _why(one)), []).append(one)
    return [*(_finding(why, group) for (_, _, why), group in groups.items()), *_unanswered_findings(facts)]


def with_path(found: Sequence[Diagnosis], hangs: Sequence[Diagnosis]) -> list[Diagnosis]:
    """`found`; a lost connection is the path's where the server's capture shows none of what was sent on it at last."""
    silent = [hang.evidence for hang in hangs if isinstance(hang.evidence, Hanging) and hang.layer == "network"]
    lost = sum(hang.connections for hang in silent if hang.side == "client" and hang.arrived == 0)
    return [
        replace(one, layer="network", text=f"{one.text}; the server's capture does not show what the client sent last")
        if isinstance(one.evidence, Reconnect) and lost >= (one.evidence.interruptions or 1)
        else one
        for one in found
    ]


def _why(one: Hang) -> str:
    """What is known of where it comes from."""
    if one.awaits == "window":
        return "answered" if one.heard is not None and one.heard > one.since else "silent"
    if one.compared is None:
        return "unknown"
    if one.acked:
        return "ack lost"
    return "taken" if one.arrived else "lost"


def _finding(why: str, hangs: Sequence[Hang]) -> Diagnosis:
    longest = hangs[0]
    host = _OTHER[longest.side]
    evidence = Hanging(
        connections=len(hangs),
        still=sum(one.cut == "nothing" for one in hangs),
        calls=sum(one.calls for one in hangs),
        side=longest.side,
        waiter=longest.waiter,
        other=longest.other,
        since=longest.since,
        waits_ms=longest.ms,
        tries=longest.tries,
        last_try_ms=longest.last_try_ms,
        frame=longest.frame,
        heard=longest.heard,
        compared=longest.compared,
        arrived=longest.arrived,
    )
    is_window = longest.awaits == "window"
    few = why == "lost" and (longest.compared or 0) < _OFTEN
    found = diagnosis(
        SHUT if is_window else UNACKNOWLEDGED,
        (_shut if is_window else _unacknowledged)(evidence, longest, host, why),
        layer=host if is_window or why == "taken" else "network",
        share=None,
        confidence="certain" if why in ("answered", "ack lost", "lost") and not few else "likely",
        evidence=evidence,
        advice=_of_reader(host) if is_window else _of_host(host) if why == "taken" else _of_path(host, why),
    )
    # Calls that a client has answered on another connection wait for nothing any more.
    matters = evidence.calls or (evidence.still and (is_window or longest.side == "server"))
    return found if matters else replace(found, severity="info")


def _shut(e: Hanging, longest: Hang, host: str, why: str) -> str:
    answers = "answers say that it is closed" if why == "answered" else "nothing came back"
    return (
        f"the {host} does not read: its TCP window ({e.other}) was closed for {span(e.waits_ms)}, "
        f"{_UNTIL[longest.cut]}, and the {e.side} ({e.waiter}) waits to send more; {times(e.tries, 'probe')}, "
        f"{answers}{_calls(e)}"
    )


def _unacknowledged(e: Hanging, longest: Hang, host: str, why: str) -> str:
    alive = e.heard is not None and e.heard > e.since
    until = f"for {span(e.waits_ms)}, {_UNTIL[longest.cut]}"
    text = (
        f"the {e.side} ({e.waiter}) sent the same data {times(e.tries, 'time')}, the last time after "
        f"{span(e.last_try_ms)}; {until}, no ACK came from the {host} ({e.other}), "
        f"{'which sends other packets' if alive else 'from which nothing came'}"
    )
    shown = f"{e.arrived} of {times(e.compared or 0, 'transmission')} are in the other capture"
    text += {
        "unknown": f": whether the path loses them, or the ACKs, or the {host} takes nothing, is not known",
        "lost": ": the other capture shows none of them, so they are lost in transit",
        "taken": f": {shown}, which shows no ACK, so the {host} takes nothing of it",
        "ack lost": f": {shown}, which shows the ACK, so ACKs are lost in transit back",
    }[why]
    return text + _calls(e)


def _calls(e: Hanging) -> str:
    have = f"{times(e.calls, 'call')} {'has' if e.calls == 1 else 'have'} no reply" if e.calls else ""
    if e.connections == 1:
        return f"; {have}" if have else ""
    return f". {e.connections:,} connections are like that{f', and {have} on them' if have else ''}"


def _of_reader(host: str) -> LookAt:
    threads = (
        "cat /proc/fs/nfsd/pool_stats; for p in $(pgrep nfsd); do cat /proc/$p/stack; done # what its threads wait for"
        if host == "server"
        else "dmesg -T; cat /proc/pressure/memory; ps -eLo state,wchan:32,comm | grep -e rpciod -e nfs"
    )
    return LookAt(
        knob=f"why the {host} does not read",
        how=(
            f"ss -tmi dport = :2049 or sport = :2049 # on the {host}: Recv-Q that stays, and skmem",
            threads,
            f"nstat -az TcpExtTCPToZeroWindowAdv TcpExtTCPRcvQDrop TcpExtTCPRcvCollapsed # on the {host}",
        ),
        verify=f"Recv-Q of the {host}'s socket is 0 again",
        risk="a new connection helps only as long as the peer reads",
        sources=("probing of closed windows: RFC 9293 section 3.8.6.1",),
    )


def _of_host(host: str) -> LookAt:
    return LookAt(
        knob=f"what the {host} does with packets that come",
        how=(
            f"nstat -az TcpInCsumErrors TcpExtPAWSEstab TcpExtTCPRcvQDrop TcpExtTCPBacklogDrop # on the {host}, twice",
            f"nft list ruleset; conntrack -S # on the {host}: rules apply after the point of capture",
            f"ss -tmi dport = :2049 or sport = :2049 # on the {host}: is the connection there?",
            "rpcinfo -T tcp SERVER nfs # from the client: is a new connection answered?",
        ),
        verify="TcpRetransSegs of the sender does not grow",
    )


def _of_path(host: str, why: str) -> LookAt:
    other = f"# or capture at the {host}, too: what arrives there tells the path from the host"
    return LookAt(
        knob="the path",
        how=(
            "ss -tio dport = :2049 or sport = :2049 # on the sender: backoff, unacked, lastrcv",
            "# firewalls in transit, and on both hosts: counters of rules that drop, and whether they still know "
            "the connection (conntrack -L -p tcp)",
            f"tracepath -n HOST # to the {host}: where small packets pass and large ones do not, it is the MTU",
            "rpcinfo -T tcp SERVER nfs # from the client: is a new connection answered?",
            *([other] if why == "unknown" else []),
        ),
        verify="TcpRetransSegs of the sender does not grow",
        sources=("retransmission timer and its back-off: RFC 6298 section 5.5",),
    )


class Waiting(Evidence, kw_only=True):
    """Figures of calls-unanswered; those of one call are the oldest's."""

    ops: str  # ``3 READs``
    calls: int
    server: str  # address and port
    client: str
    clients: int  # whose calls they are
    since: str
    waits_ms: float  # from then to the capture's end
    total_ms: float  # the same, over all of them
    mean_at_least_ms: float  # of the client SRT, with these calls
    sends: int
    last_sent: str
    xid: int
    frame: int
    acked: bool
    holed: bool
    arrived: int | None = None  # in the server's capture
    replied: int | None = None  # of them, those with a reply there
    answered: int  # other calls that the server answered meanwhile
    answered_others: int  # of them, those of other clients

    @property
    def wait(self) -> str:
        """What waits, since when, and what is known of it."""
        do, them = ("waits", "it") if self.calls == 1 else ("wait", "them")
        how_long = f"since {self.since[11:19]} UTC ({span(self.waits_ms)}, to the capture's end)"
        if self.replied:
            return f"{self.ops} {do} for a reply {how_long}, and the server's capture shows replies to {self.replied:,}"
        if self.holed:
            return f"{self.ops} {do} for a reply {how_long}: of what the server sent a part never comes, later data do"
        if self.arrived == 0:
            return f"{self.ops} {do} for a reply {how_long}: the server's capture does not show {them}"
        if self.acked or self.arrived:
            has = f"its TCP has {them}" if self.acked else f"its capture shows {them}"
            return f"{self.ops} {do} in the server {how_long}: {has}, its NFS has not answered"
        return f"{self.ops} {do} for a reply {how_long}"


def _unanswered_findings(facts: Facts) -> list[Diagnosis]:
    """One for each place where calls wait."""
    places: dict[tuple[str, bool], list[Unanswered]] = {}
    for group in facts.unanswered:
        places.setdefault(_place(group), []).append(group)
    answered_ms = facts.mean.total_ms * facts.ops
    return [_waiting(layer, waiting, facts.ops, answered_ms) for (layer, _), waiting in places.items()]


def _place(group: Unanswered) -> tuple[str, bool]:
    """The layer, and whether it is known."""
    if group.replied or group.holed or group.arrived == 0:
        return "network", True
    is_known = group.acked or bool(group.arrived)
    return "server" if is_known else "network", is_known


def _waiting(layer: str, groups: Sequence[Unanswered], ops: int, total_ms: float) -> Diagnosis:
    oldest, calls = groups[0], sum(group.calls for group in groups)
    waited_ms = sum(group.total_ms for group in groups)
    by_op: dict[str, int] = {}
    for group in groups:
        by_op[group.op] = by_op.get(group.op, 0) + group.calls
    names = [times(count, op) for op, count in sorted(by_op.items(), key=lambda item: -item[1])]
    listed = names[0] if len(names) == 1 else f"{times(calls, 'call')} ({', '.join(names[:3])})"
    known = [group for group in groups if group.arrived is not None]
    evidence = Waiting(
        ops=listed,
        calls=calls,
        server=oldest.server,
        client=oldest.client,
        clients=len({group.client.rpartition(":")[0] for group in groups}),
        since=oldest.since,
        waits_ms=oldest.longest_ms,
        total_ms=waited_ms,
        mean_at_least_ms=(total_ms + waited_ms) / (ops + calls),
        sends=oldest.sends,
        last_sent=oldest.last_sent,
        xid=oldest.xid,
        frame=oldest.frame,
        acked=all(group.acked for group in groups),
        holed=any(group.holed for group in groups),
        arrived=sum(group.arrived or 0 for group in known) if known else None,
        replied=sum(group.replied or 0 for group in known) if known else None,
        answered=oldest.answered,
        answered_others=oldest.answered_others,
    )
    is_long = oldest.longest_ms >= _LEADING_WAIT_MS
    is_known = _place(oldest)[1] and not evidence.replied
    waiting = diagnosis(
        UNANSWERED,
        _unanswered(evidence),
        layer=layer,
        share=None,
        confidence="certain" if is_long and is_known else "likely",
        evidence=evidence,
        advice=_of_server(oldest) if layer == "server" else _of_path("server", "taken"),
    )
    matters = is_long or waited_ms >= CAUSE * (total_ms + waited_ms)
    return waiting if matters else replace(waiting, severity="info")


def _unanswered(e: Waiting) -> str:
    again = "sent once"
    if e.sends > 1:
        again = f"the oldest was sent {times(e.sends, 'time')}, last at {e.last_sent[11:19]} UTC"
    others = f", {e.answered_others:,} of them of other clients" if e.answered_others else ""
    served = f"{times(e.answered, 'other call')} {'was' if e.answered == 1 else 'were'} answered meanwhile{others}"
    at_least = f"with their age the mean is {ms(e.mean_at_least_ms)} ms at the least"
    return f"{lowered(e.wait)}; {again} (XID 0x{e.xid:08x}, frame {e.frame}); {served}; {at_least}"


def _of_server(oldest: Unanswered) -> LookAt:
    return LookAt(
        knob="what the server does with these calls",
        how=(
            "for p in $(pgrep nfsd); do cat /proc/$p/stack; done # on the server: what its threads wait for",
            "dmesg -T | tail -50; cat /proc/pressure/io # on the server: hung tasks, errors of disks",
            f"nfslat show SERVER CLIENT --xid 0x{oldest.xid:08x} # the oldest of them, packet by packet",
        ),
        verify="rpcinfo -T tcp SERVER nfs answers, and cat /proc/self/mountstats counts replies again",
        risk="umount -f ends the wait with an error in the application",
    )
