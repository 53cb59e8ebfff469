"""Facts -> findings on what TCP made of the path: loss, order, ACKs, windows, what stands in front, a full path."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple

from nfslat.findings.catalogue import SYMPTOM, row
from nfslat.findings.diagnosis import Diagnosis, Evidence, LookAt, diagnosis
from nfslat.findings.facts import Facts, Stalls, worth
from nfslat.findings.words import ms, percent, times
from nfslat.model.causes import LOSSES, Cause, Charge
from nfslat.model.units import to_ms
from nfslat.wire.above import Why
from nfslat.wire.size_limit import SizeLimit

PATH_MTU = "path-mtu"
_OFTEN = 0.005  # of the bytes: worth a line whatever it costs now
_LOSS = 0.01  # of the mean, or of what is lost: loss is never as it should be
_OF_MEAN = 0.10  # ACKs take a round trip by nature, so waits for them are told of where they matter only
_TO_SERVER = ("call_send", "call_net")  # parts in which a call waits
_TIMERS = {40: "Linux's 40 ms", 50: "Solaris' 50 ms", 100: "Solaris' 100 ms", 200: "the 200 ms of Windows and BSD"}


class Waits(Evidence, frozen=True, kw_only=True):
    """Of all findings on what TCP made of the path."""

    is_recorded: ClassVar[bool] = True
    wait_ms: float  # mean
    slowest_wait_ms: float | None  # of the slowest 1 %
    own: Evidence | None = None  # of one kind alone
    ops: int | None = None  # that waited, at least
    share_slowest: float | None = None  # of the slowest 1 %


class Loss(Evidence, frozen=True, kw_only=True):
    """Evidence of the finding net-loss."""

    lost_segments: int | None  # between the captures
    spurious_segments: int | None  # sent again although they had arrived
    by_recovery_ms: dict[str, float] | None = None  # by what told of the loss
    behind_loss_ms: float | None = None  # had arrived, behind what had not
    after_reply_ms: float | None = None  # of the application, behind a reply's end
    kept_above_ms: float | None = None  # at most: stood in the client
    incomplete_datagrams: int | None = None  # UDP's, that came without a fragment


class LostBySize(Waits, frozen=True, kw_only=True):
    """Evidence of the finding path-mtu."""

    way: str  # in which large ones vanish: "call" or "reply"
    vanished_segments: int  # TCP segments that never arrived, each time that they were sent
    passed_segments: int  # smaller ones that were sent meanwhile, and arrived
    vanished_from_bytes: int  # the smallest that vanished, as an IPv4 packet
    passed_to_bytes: int  # the largest that arrived meanwhile
    lasts_ms: float  # from the first that vanished to the last
    chance: float  # of this, at most, by loss that does not care for size


class Reordering(Evidence, frozen=True, kw_only=True):
    """Evidence of the finding net-reordering."""

    in_server_ms: float  # of it what looks like the server's response time


class DelayedAck(Evidence, frozen=True, kw_only=True):
    """Evidence of the finding delayed-ack."""

    delayed_by: str  # server or client
    timer_ms: int | None  # that goes with most of the pauses
    pauses: int | None


class ZeroWindow(Evidence, frozen=True, kw_only=True):
    """Evidence of the finding zero-window."""

    closed_by: str  # server or client
    in_server_ms: float  # of it what looks like the server's response time


class ReceiveWindow(Evidence, frozen=True, kw_only=True):
    """Evidence of the finding receive-window."""

    narrowed_by: str  # server or client
    in_server_ms: float  # of it what looks like the server's response time


class SendersWindow(Evidence, frozen=True, kw_only=True):
    """Of congestion-window and unknown-window."""

    sender: str  # server or client
    in_server_ms: float  # of it what looks like the server's response time


class Bandwidth(Evidence, frozen=True, kw_only=True):
    """Of bandwidth."""

    in_server_ms: float  # of it what looks like the server's response time
    mbit_per_s: float  # payload
    way: str  # call or reply
    busy_share: float  # of the time in which it carried any
    hog: str | None = None  # who else has most of it
    hog_share: float | None = None


class _Said(NamedTuple):
    """What one kind of finding says."""

    text: str
    confidence: str
    advice: LookAt
    evidence: Evidence | None = None  # beside the waits, and the ops that they hit
    layer: str = "network"


def tcp_findings(facts: Facts) -> list[Diagnosis]:
    """In no order."""
    found = [_loss(facts)]
    if (stalls := facts.stalls) is not None:
        for code, say in _KINDS.items():
            causes = row(code).causes
            waits, slowest = stalls.ms(causes), stalls.slow_ms(causes)
            if row(code).least == SYMPTOM and facts.share(waits) < _OF_MEAN:
                continue
            if worth(facts, waits, slowest):
                ops = stalls.hits(causes)
                found.append(_finding(facts, code, waits, slowest, say(stalls, waits), ops))
    return [one for one in found if one is not None]


def _finding(
    f: Facts, code: str, waits: float, slowest: float | None, said: _Said | None, ops: int | None, kept: float = 0.0
) -> Diagnosis | None:
    """`kept` is what lies above the wire, beside the `waits` of ops that are on it."""
    if said is None:
        return None
    return diagnosis(
        code,
        said.layer,
        said.text,
        share=f.share_within("network", waits) + f.share(kept),
        slowest=f.slowest_share(slowest),
        confidence=said.confidence,
        evidence=Waits(wait_ms=waits, slowest_wait_ms=slowest, own=said.evidence, ops=ops),
        advice=said.advice,
    )


def _end(stalls: Stalls, causes: frozenset[Charge], waits: float) -> bool:
    """Is it the server's end that most of the waits are for? Calls wait for it, replies for the client's."""
    by_server = stalls.ms(causes, _TO_SERVER)
    return by_server > waits - by_server


def _inside(stalls: Stalls, causes: frozenset[Charge]) -> tuple[float, str]:
    """What of the waits looks like the server's response time, and how a finding says so."""
    within = stalls.ms(causes, ("server",))
    return within, "" if not within else f"; {ms(within)} ms of it look like the server's response time"


_SWITCHES = "ethtool -S on both hosts and the switch ports between them: errors, drops, pause frames"
_OF_PATH = LookAt(
    knob="the path",
    how=(_SWITCHES,),
    verify="nstat -az TcpRetransSegs on both hosts does not grow",
)
_OF_SIZE = LookAt(
    knob="the path MTU: the smallest MTU of all links between the hosts",
    how=(
        "ping -M do -s 1472 CLIENT # on the server, and SERVER on the client: 1,500 bytes (-s 8972: 9,000); the "
        "largest that is answered, and 28 bytes, is the path MTU",
        "ip link show: mtu on both hosts, the switch ports, tunnels and VPNs between them: the same everywhere",
        "until then MSS clamping: ip route change ... advmss (MTU - 40), or iptables -t mangle ... TCPMSS "
        "--clamp-mss-to-pmtu",
        "ICMP type 3 code 4 (IPv6: packet too big) passes all firewalls, else net.ipv4.tcp_mtu_probing=1",
    ),
    verify="ping -M do with the MTU of the hosts is answered, and nstat -az TcpRetransSegs does not grow",
    risk="a smaller MSS costs processor time a byte",
)
_OF_FRAGMENTS = LookAt(
    knob="the mount: TCP",
    how=(
        "mount with proto=tcp; over UDP a datagram is lost with any of its fragments",
        "else a smaller rsize and wsize: fewer fragments",
        _SWITCHES,
    ),
    verify="nstat -az IpReasmFails on both hosts does not grow",
)


def _by_size(f: Facts, limit: SizeLimit, waits: float, slowest: float | None, kept: float) -> Diagnosis:
    end = "server" if limit.way == "reply" else "client"
    return diagnosis(
        PATH_MTU,
        "network",
        f"ops wait {ms(waits)} ms on average for lost data: of what the {end} sent within {ms(to_ms(limit.lasts_ns))} "
        f"ms all {times(limit.lost, 'packet')} of {limit.lost_from:,} bytes or more vanished, as often as they were "
        f"sent, and all {limit.passed:,} of up to {limit.passed_to:,} bytes arrived",
        share=f.share_within("network", waits) + f.share(kept),
        slowest=f.slowest_share(slowest),
        confidence="likely",
        evidence=LostBySize(
            wait_ms=waits,
            slowest_wait_ms=slowest,
            way=limit.way,
            vanished_segments=limit.lost,
            passed_segments=limit.passed,
            vanished_from_bytes=limit.lost_from,
            passed_to_bytes=limit.passed_to,
            lasts_ms=to_ms(limit.lasts_ns),
            chance=limit.chance,
        ),
        advice=_OF_SIZE,
    )


def _loss(f: Facts) -> Diagnosis | None:
    """Waits until lost segments were sent again; loss that costs nothing is no finding, unless much is lost."""
    waits, slowest = _waits_ms(f.parts), _waits_ms(f.slowest_parts)
    kinds = ""
    by_kind = behind = after = None
    if f.stalls is not None:
        waits, slowest = f.stalls.ms(LOSSES), f.stalls.slow_ms(LOSSES)
        by_kind = {kind.value: f.stalls.ms({kind}) for kind in Cause if kind in LOSSES and f.stalls.ms({kind})}
        after = f.stalls.ms({Cause.BEHIND_LOSS}, ("after",))
        behind = by_kind.pop(Cause.BEHIND_LOSS.value, 0.0)
        if by_kind and waits:
            most = sorted(by_kind.items(), key=lambda one: -one[1])
            names = [f"{ms(wait)} ms by {kind}" for kind, wait in most if wait >= _LOSS * waits]
            kinds = f": {', '.join(names)}"
        if behind:
            kinds += f"; {ms(behind)} ms of it calls that had arrived waited at the server behind missing data"
        if after:
            kinds += f"; the application waits {ms(after)} ms more, for replies that had arrived behind a gap"
    if f.incomplete:
        kinds += (
            f"; {times(f.incomplete, 'UDP datagram')} came without one of the fragments, and the whole was sent again "
            "when RPC's timer ran out"
        )
    kept, stops = f.kept_ms(Why.LOSS), f.kept_above.get(Why.LOSS)
    if f.counted("net-loss") is False:
        return None  # what neither host sent again was not lost, but missed by a capture
    if waits is None or not (worth(f, waits, slowest or 0.0, _LOSS) or kept or f.lost_share >= _OFTEN):
        return None
    if kept and stops is not None:
        kinds += (
            f"; up to {ms(kept)} ms more waited in the client behind lost data, which it retransmitted after "
            f"{ms(stops.longest_ms)} ms at the longest"
        )
    if f.size_limit is not None:
        return _by_size(f, f.size_limit, waits, slowest, kept)
    lost = "" if f.lost_segments is None else f" ({times(f.lost_segments, 'segment')} lost between the captures)"
    said = _Said(
        f"ops wait {ms(waits)} ms on average for lost data{lost}"
        + ("" if slowest is None else f", the slowest 1 % {ms(slowest)} ms")
        + kinds,
        "likely" if kept > waits else "certain",
        _OF_FRAGMENTS if f.incomplete else _OF_PATH,
        Loss(
            lost_segments=f.lost_segments,
            incomplete_datagrams=f.incomplete or None,
            spurious_segments=f.spurious_segments,
            by_recovery_ms=by_kind,
            behind_loss_ms=behind,
            after_reply_ms=after,
            kept_above_ms=kept if kept and stops is not None else None,
        ),
    )
    ops = None if f.stalls is None else f.stalls.hits(LOSSES)
    return _finding(f, "net-loss", waits, slowest, said, ops, kept)


def _waits_ms(parts: object) -> float | None:
    waits = [getattr(parts, name, None) for name in ("call_retrans_wait", "reply_retrans_wait")]
    known = [wait for wait in waits if wait is not None]
    return sum(known) if known else None


_OVERTAKEN = row("net-reordering").causes


def _reordering(stalls: Stalls, waits: float) -> _Said:
    """Messages that wait for bytes which others had overtaken."""
    within, inside = _inside(stalls, _OVERTAKEN)
    return _Said(
        f"ops wait {ms(waits)} ms on average for packets that arrived out of order{inside}",
        "certain",
        LookAt(
            knob="the path",
            how=(
                "# links that are used together: balance by connection (hash of addresses and ports), not by packet",
                "# on the receiver: ethtool -x, ethtool -l: one connection's packets belong in one receive queue",
            ),
            verify="nstat -az TcpExtTCPOFOQueue on both hosts does not grow",
        ),
        Reordering(in_server_ms=within),
    )


_ACKS = row("delayed-ack").causes


def _delayed_ack(stalls: Stalls, waits: float) -> _Said:
    """A sender that waits for an ACK which its receiver keeps back."""
    who, part, sent = (
        ("server", "call_send", "calls") if _end(stalls, _ACKS, waits) else ("client", "reply_send", "replies")
    )
    acks = stalls.delayed_acks.get(part)
    timer = acks.timer_ms if acks is not None else None
    named = f", by {_TIMERS[timer]} timer" if timer in _TIMERS else f", by a timer of {timer} ms" if timer else ""
    count = "" if acks is None else f" ({times(acks.count, 'pause')})"
    return _Said(
        f"{sent} wait {ms(waits)} ms on average for ACKs that the {who} keeps back{named}{count}: their sender could "
        "send no more before one arrived",
        "certain" if timer is not None else "likely",
        LookAt(
            knob=f"delayed ACKs of the {who}",
            how=(
                "# Linux: ip route change NETWORK ... quickack 1, on the host that delays",
                "# Windows: TcpAckFrequency=1 for the interface in the registry, then a reboot",
                "# a larger message in one piece (rsize, wsize), or a sender with more window, needs no ACK in between",
            ),
            verify="the pauses of this length are gone from a new capture",
            risk="more ACKs: a few percent of CPU and of small packets. Nagle is not to blame between Linux NFS "
            "peers, which both set TCP_NODELAY",
        ),
        DelayedAck(delayed_by=who, timer_ms=timer, pauses=acks.count if acks else None),
    )


_CLOSED, _NARROW = row("zero-window").causes, row("receive-window").causes


def _zero_window(stalls: Stalls, waits: float) -> _Said:
    """A receiver whose buffer is full: its application does not read."""
    who, sent = ("server", "calls") if _end(stalls, _CLOSED, waits) else ("client", "replies")
    within, inside = _inside(stalls, _CLOSED)
    return _Said(
        f"{sent} wait {ms(waits)} ms on average because the {who}'s TCP window is closed: the {who} does not read as "
        f"fast as data arrive{inside}",
        "certain",
        LookAt(
            knob=f"the {who}: processor, memory, socket buffers",
            how=(
                f"# on the {who}: vmstat 1, mpstat -P ALL 1, nstat -az TcpExtTCPRcvCollapsed TcpExtTCPToZeroWindowAdv",
                "ss -tmi dport = :2049 or sport = :2049 # rcv_space, and skmem: rb is the receive buffer",
                "sysctl net.ipv4.tcp_rmem # its third figure is what the buffer grows to",
            ),
            verify="no zero windows in a new capture",
            risk="a larger buffer hides a reader that is too slow but does not make it faster",
        ),
        ZeroWindow(closed_by=who, in_server_ms=within),
        who,
    )


def _receive_window(stalls: Stalls, waits: float) -> _Said:
    """A receiver whose window is open, and smaller than what the path has under way."""
    who, sent = ("server", "calls") if _end(stalls, _NARROW, waits) else ("client", "replies")
    within, inside = _inside(stalls, _NARROW)
    return _Said(
        f"{sent} wait {ms(waits)} ms on average because the {who}'s TCP window, though open, has no room for the "
        f"next segment: its buffer is smaller than the bandwidth-delay product, or the {who} reads late{inside}",
        "likely",
        LookAt(
            knob=f"net.ipv4.tcp_rmem of the {who}",
            how=(
                "# its third figure: twice the bandwidth-delay product or more, as about half of a buffer is window",
                f"sysctl net.ipv4.tcp_rmem # on the {who}; a program's own SO_RCVBUF ends autotuning",
                "ss -tmi dport = :2049 or sport = :2049 # rcv_space, and skmem: rb is the receive buffer",
            ),
            takes_effect="at a new connection: the window's scale is chosen with the SYN",
            verify="no full windows in a new capture, and the time to send a large message is down",
            risk="memory: each connection may take that much (net.ipv4.tcp_mem limits the sum); if the reader is "
            "late a larger buffer only hides it",
            sources=(
                "tcp_rmem, tcp_adv_win_scale: Documentation/networking/ip-sysctl.rst",
                "window and its scale: RFC 9293 section 3.8.6, RFC 7323 section 2",
            ),
        ),
        ReceiveWindow(narrowed_by=who, in_server_ms=within),
    )


_UNDER_WAY = row("congestion-window").causes


def _congestion_window(stalls: Stalls, waits: float) -> _Said:
    """A sender that may have no more under way, and waits for the path's round trip."""
    who, sent = ("client", "calls") if _end(stalls, _UNDER_WAY, waits) else ("server", "replies")
    within, inside = _inside(stalls, _UNDER_WAY)
    return _Said(
        f"{sent} wait {ms(waits)} ms on average for ACKs in transit to the {who}, with room in the receiver's "
        f"window: the path's round trip, and its congestion window{inside}",
        "likely",
        LookAt(
            knob="the path, and the sender's congestion window",
            how=(
                f"ss -ti dport = :2049 or sport = :2049 # on the {who}: cwnd, ssthresh, rtt, retrans",
                "# losses make the window small: ethtool -S on both hosts and the switch ports between them",
                "mount -o nconnect=4 ... # each connection has a congestion window of its own",
                "sysctl net.ipv4.tcp_slow_start_after_idle # 1: the window falls back when a connection was idle",
            ),
            verify="ss -ti: a larger cwnd, and these waits are down in a new capture",
            risk="a larger rsize or wsize does not help: a message waits for more round trips then; more "
            "connections take more of a path that others share",
            sources=(
                "congestion window: RFC 5681; after idle: RFC 5681 section 4.1, Documentation/networking/ip-sysctl.rst",
                "nconnect: nfs(5)",
            ),
        ),
        SendersWindow(sender=who, in_server_ms=within),
    )


_WHOSE = row("unknown-window").causes


def _unknown_window(stalls: Stalls, waits: float) -> _Said:
    """A sender with a full window, of which the captures do not tell whose it is."""
    sender, receiver, sent = (
        ("client", "server", "calls") if _end(stalls, _WHOSE, waits) else ("server", "client", "replies")
    )
    within, inside = _inside(stalls, _WHOSE)
    return _Said(
        f"{sent} wait {ms(waits)} ms on average for an ACK that lets the {sender} send more: a TCP window was full, "
        f"the {receiver}'s receive window or the {sender}'s congestion window. Which one cannot be told, because the "
        f"captures lack the handshake, which holds the window scale{inside}",
        "likely",
        LookAt(
            knob=f"which window it is: the {sender}'s cwnd, the {receiver}'s receive buffer",
            how=(
                f"ss -tmi dport = :2049 or sport = :2049 # on the {sender}: bytes in flight are cwnd x mss, or snd_wnd",
                f"ss -tmi dport = :2049 or sport = :2049 # on the {receiver}: skmem: rb is the receive buffer; and "
                "sysctl net.ipv4.tcp_rmem",
                "# or capture from before the mount, on both hosts: with the handshake nfslat tells",
            ),
            verify="the same waits are receive-window or congestion-window in a new capture with the handshake",
            risk="ss shows the moment: run it while the waits are there",
            sources=("scale of windows: RFC 7323 section 2.2",),
        ),
        SendersWindow(sender=sender, in_server_ms=within),
    )


def _head_of_line(_: Stalls, waits: float) -> _Said:
    """Replies that stand behind others, mostly larger ones, in the server's socket."""
    return _Said(
        f"replies wait up to {ms(waits)} ms on average behind others that take long to send on the same connection; "
        "it looks like server response time",
        "likely",
        LookAt(
            knob="nconnect",
            how=(
                "mount -o nconnect=4 ... # up to 16 connections, over which the client spreads its calls",
                "mount -o rsize=131072 ... # smaller replies let others through sooner",
            ),
            takes_effect="at a new mount: unmount every mount of that server first",
            verify="small ops are as fast beside large ones as without them",
            risk="smaller rsize: more ops for the same data, so less throughput where the distance is long",
        ),
    )


_FULL = row("bandwidth").causes


def _bandwidth(stalls: Stalls, waits: float) -> _Said | None:
    """A path that carries no more."""
    if not stalls.rates:
        return None
    rate = max(stalls.rates, key=lambda one: one.share)
    way = "from client to server" if rate.way == "call" else "from server to client"
    within, inside = _inside(stalls, _FULL)
    hog = rate.hog
    of_hog = "" if hog is None else f", and {percent(hog.share)} of it is of {hog.name}"
    return _Said(
        f"ops wait {ms(waits)} ms on average because the path {way} carries no more than {rate.mbit_per_s:.3g} Mbit/s "
        f"of payload, which it does for {percent(rate.share)} of its busy time{of_hog}{inside}",
        "likely",
        LookAt(
            knob="the path",
            how=(
                "ethtool on both hosts: the speed that was negotiated; tc qdisc show: shapers",
                "iperf3 -c SERVER, and with -R: what the path carries without NFS",
            ),
            verify="payload at a higher rate than this in a new capture",
            risk="more slots or connections make the queue longer, not the path faster",
        ),
        Bandwidth(
            in_server_ms=within,
            mbit_per_s=rate.mbit_per_s,
            way=rate.way,
            busy_share=rate.share,
            hog=hog.name if hog else None,
            hog_share=hog.share if hog else None,
        ),
    )


# What each of these codes says of the waits for its causes; None: nothing after all.
_KINDS: dict[str, Callable[[Stalls, float], _Said | None]] = {
    "net-reordering": _reordering,
    "delayed-ack": _delayed_ack,
    "zero-window": _zero_window,
    "receive-window": _receive_window,
    "congestion-window": _congestion_window,
    "unknown-window": _unknown_window,
    "head-of-line": _head_of_line,
    "bandwidth": _bandwidth,
}
