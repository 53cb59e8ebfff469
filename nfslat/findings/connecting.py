"""Facts -> a finding on connections whose SYNs are lost or not answered: requests wait until one comes through."""

from __future__ import annotations

from typing import ClassVar

from nfslat.findings.catalogue import CAUSE
from nfslat.findings.diagnosis import Diagnosis, Evidence, LookAt, diagnosis
from nfslat.findings.facts import Facts
from nfslat.findings.layers import Layers
from nfslat.findings.words import ms, percent, span, times
from nfslat.wire.above import Why
from nfslat.wire.connecting import Fate

CODE = "syn-unanswered"
_LEAST_SHARE = 0.05  # of the mean
_WHERE = {
    Fate.UNKNOWN: "lost on the path, or not answered by the server",
    Fate.TO_SERVER: "lost in transit to the server, whose capture does not show them",
    Fate.TO_CLIENT: "answered, and the answers lost in transit back",
    Fate.IN_SERVER: "answered late or not at all by the server, whose capture shows them",
    Fate.OLDER: "answered with ACKs of an older connection between the same ports, and no SYN",
}


class Connecting(Evidence, frozen=True, kw_only=True):
    """What the finding syn-unanswered rests on."""

    is_recorded: ClassVar[bool] = True
    connections: int
    connecting_ms: float  # in all, from the first SYN to an answer
    longest_ms: float
    at: str  # when the longest began
    fate: str  # of the SYNs: unknown, to-server, to-client, in-server or older
    still: int  # connections that were not open when the capture ended
    time_share: float | None  # of the time in which operations were seen
    above_wire_ms: float  # mean, at most: what requests waited meanwhile
    counted_above_ms: float  # of that what is counted, where the application's time is known

    @property
    def lost(self) -> str:
        """What a verdict says of it."""
        how_many = times(self.connections, "connection")
        where = _WHERE[Fate[self.fate.upper().replace("-", "_")]]
        if self.still == self.connections:
            tried = f"{self.still:,} connections are" if self.still > 1 else "a connection is"
            return f"SYNs are {where}: {tried} not open after {span(self.connecting_ms)}, when the capture ends"
        return f"SYNs are {where}: {how_many} took {span(self.connecting_ms)} to be opened"

    @property
    def may_be_more(self) -> bool:
        """Requests waited for a connection."""
        return True

    def is_at_work(self, share: float | None, mean: Layers) -> bool:
        """Requests waited until one was open, and for how long no application says."""
        return mean.client_ms is None and self.above_wire_ms >= CAUSE * mean.total_ms


def connecting_findings(f: Facts) -> list[Diagnosis]:
    """At most one finding: what passes until connections are open."""
    kept, opened = f.kept_above.get(Why.CONNECTING), f.connects
    if kept is None or opened is None:
        return []
    counted = f.kept_ms(Why.CONNECTING)
    if not counted and (f.mean.client_ms is not None or f.share(kept.above_wire_ms) < _LEAST_SHARE):
        return []
    evidence = Connecting(
        connections=opened.connections,
        connecting_ms=opened.total_ms,
        longest_ms=kept.longest_ms,
        at=kept.at,
        fate=opened.fate.name.lower().replace("_", "-"),
        still=opened.still,
        time_share=opened.time_share,
        above_wire_ms=kept.above_wire_ms,
        counted_above_ms=counted,
    )
    of_time = "" if opened.time_share is None else f", {percent(opened.time_share)} of the time of the capture"
    waits = (
        f"up to {ms(counted)} ms on average of what lies above the wire are requests that waited for it"
        if counted
        else f"requests that waited for it are not on the wire, up to {ms(kept.above_wire_ms)} ms for each op"
    )
    still = f", or the capture ended, as it did for {opened.still:,} of them" if opened.still else ""
    text = (
        f"{times(opened.connections, 'connection')} had no answer to the first SYN, and "
        f"{span(opened.total_ms)} passed until they were open{still}{of_time} (the longest {span(kept.longest_ms)}, "
        f"from {kept.at}): SYNs were {_WHERE[opened.fate]}; {waits}"
    )
    is_server = opened.fate is Fate.IN_SERVER
    return [
        diagnosis(
            CODE,
            "server" if is_server else "network",
            text,
            share=min(f.share(counted), 1.0) if counted else None,
            confidence="likely" if opened.fate in (Fate.UNKNOWN, Fate.OLDER) else "certain",
            evidence=evidence,
            advice=_ADVICE_SERVER if is_server else _ADVICE_PORT if opened.fate is Fate.OLDER else _ADVICE_PATH,
        )
    ]


_ADVICE_PATH = LookAt(
    knob="the path of SYNs",
    how=(
        "# firewalls and NAT in transit: limits of new connections, tables of connections that are full "
        "(conntrack -S: drop, insert_failed)",
        "ss -tno state syn-sent # on the client, while it happens",
        "nstat -az TcpExtListenDrops TcpExtListenOverflows TcpExtTCPReqQFullDrop # on the server",
    ),
    verify="nstat -az TcpExtTCPSynRetrans on the client does not grow",
    sources=("retransmission of SYNs: RFC 6298 section 2.1",),
)
_ADVICE_PORT = LookAt(
    knob="the port that is used again",
    how=(
        "# NAT, load balancers and firewalls in transit: which give a port away again, or drop the client's RSTs",
        "ss -tn dst SERVER # on the client, ss -tn src :2049 on the server: does one still have the old connection?",
        "# a mount with vers=4.1 or newer takes another port each time; NFSv3 and 4.0 come back from the same",
    ),
    verify="the next SYN is answered with a SYN",
    sources=("SYNs on a connection that stands: RFC 5961 section 4",),
)
_ADVICE_SERVER = LookAt(
    knob="the server's queue of new connections",
    how=(
        "nstat -az TcpExtListenDrops TcpExtListenOverflows TcpExtTCPReqQFullDrop # on the server",
        "ss -tln sport = :2049 # on the server: Recv-Q beside Send-Q, the length of the queue",
        "# limits of connections: nfsd's threads times 20 and more (dmesg: too many open connections)",
    ),
    verify="nstat -az TcpExtTCPSynRetrans on the client does not grow",
)
