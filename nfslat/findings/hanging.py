"""Facts -> findings on connections that hang: a receiver that does not read, data that nobody acknowledges."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from nfslat.answer.model import Hang
from nfslat.findings.catalogue import HANGS
from nfslat.findings.diagnosis import OPTIONAL, Diagnosis, Evidence, LookAt, diagnosis
from nfslat.findings.facts import Facts
from nfslat.findings.words import span, times

_OFTEN = 3  # tries, of which one would have come by
_OTHER = {"server": "client", "client": "server"}
_UNTIL = {
    "nothing": "until the capture ended",
    "own-reset": "until it gave up with a RST",
    "reset": "until a RST came",
    "next-connection": "until the next connection between these ports",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Hanging(Evidence):
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
    compared: int | None = field(default=None, metadata=OPTIONAL)
    arrived: int | None = field(default=None, metadata=OPTIONAL)

    @property
    def how_long(self) -> str:
        """Of the one that hangs longest."""
        return span(self.waits_ms)


def hang_findings(facts: Facts) -> list[Diagnosis]:
    """One for each kind, and for whoever it comes from; those that hang still come first, then the longest."""
    groups: dict[tuple[str, str, str], list[Hang]] = {}
    for one in facts.hangs:
        groups.setdefault((one.awaits, one.side, _why(one)), []).append(one)
    return [_finding(why, group) for (_, _, why), group in groups.items()]


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
        HANGS[0 if is_window else 1],
        host if is_window or why == "taken" else "network",
        (_shut if is_window else _unacknowledged)(evidence, longest, host, why),
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
