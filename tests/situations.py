"""Situations that people ask about in public: packets made up for each, and what is right to say of them.

The questions are from mailing lists, bug trackers and sites of questions and answers; times and addresses are invented.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import wire

DELAYED_ACK_MS = 40  # Linux
FIN, SYN, RST, RST_ACK, ACK = 0x11, 0x02, 0x04, 0x14, 0x10
CLIENT, SERVER = "10.0.0.1", "10.0.0.2"
ENOENT, STALE, DQUOT3, JUKEBOX = 2, 70, 69, 10008
DELAY, GRACE, EXPIRED, MOVED, BADSESSION, MISORDERED, DQUOT4 = 10008, 10013, 10011, 10019, 10052, 10063, 69


@dataclass
class World:
    """What two capture points see: connections with the way of each, and packets that one of the captures lacks."""

    flows: list[tuple[wire.Tcp | wire.Udp, dict[str, float]]] = field(default_factory=list)
    lost: dict[str, list[wire.Packet]] = field(default_factory=lambda: {"server": [], "client": []})
    xid: int = 0x1000

    def add(self, flow: wire.Tcp | wire.Udp, there_ms: float = 0.1, back_ms: float = 0.1) -> None:
        """One more connection, and how long its packets travel."""
        self.flows.append((flow, {"there_ms": there_ms, "back_ms": back_ms}))

    def tcp(self, port: int = 700, *, rtt_ms: float = 0.2, at: float | None = 0, **more: int) -> wire.Tcp:
        """A connection, with its handshake where `at` says when."""
        flow = wire.Tcp(client=(CLIENT, port), server=(SERVER, more.get("to", 2049)), stamps_hz=1000)
        self.add(flow, rtt_ms / 2, rtt_ms / 2)
        if at is not None:
            self.opened(flow, at, rtt_ms)
        return flow

    def opened(self, flow: wire.Tcp, at: float, rtt_ms: float = 0.2) -> None:
        """The handshake, with the path's time in it."""
        flow.raw(at, ">", flow.next[">"] - 1, b"", ack=0, flags=SYN)
        flow.raw(at + rtt_ms / 2 + 0.02, "<", flow.next["<"] - 1, b"", ack=flow.next[">"], flags=SYN | ACK)
        flow.raw(at + rtt_ms + 0.04, ">", flow.next[">"], b"", flags=ACK)

    def next_xid(self) -> int:
        self.xid += 1
        return self.xid

    def op(
        self,
        flow: wire.Tcp,
        at: float,
        server_ms: float = 0.5,
        call: Callable[[int], bytes] = wire.getattr3,
        body: bytes = wire.GETATTR3,
        *,
        rtt_ms: float = 0.2,
    ) -> float:
        """A call, its reply, the ACK of that; and when the client has the reply."""
        xid = self.next_xid()
        flow.send(at, ">", call(xid))
        sent = at + rtt_ms / 2 + server_ms
        if server_ms > DELAYED_ACK_MS:
            flow.ack(at + rtt_ms / 2 + DELAYED_ACK_MS, "<")
        flow.send(sent, "<", wire.reply(xid, body))
        flow.ack(sent + rtt_ms / 2 + 0.04, ">")
        return sent + rtt_ms / 2 + 0.05

    def seen_by(self, side: str) -> list[list[wire.Seen]]:
        """The server's clock is 3 s ahead."""
        lost = self.lost[side]
        return [flow.seen_by(side, theta_ms=3000, without=lost, **way) for flow, way in self.flows]


@dataclass(frozen=True)
class Right:
    """What is right: outcome, layer and cause of the verdict; a set has all that may be said."""

    outcome: str
    layer: str | None = None  # None: any
    causes: frozenset[str] = frozenset()  # empty: any
    finding: str = ""  # that there is, too
    missing: str = ""  # why nfslat does not say it; "": it does


@dataclass(frozen=True)
class Situation:
    """A question, the packets of it, what is right from both captures and from the client's alone."""

    name: str
    asks: str
    make: Callable[[], World]
    both: Right
    client: Right


def fault(layer: str | None, *causes: str) -> Right:
    """A fault of a layer, by one of these causes."""
    return Right("fault", layer, frozenset(causes))


def not_yet(right: Right, why: str) -> Right:
    """What is right and is not said."""
    return replace(right, missing=why)


HEALTHY = Right("no-fault")
SITUATIONS: list[Situation] = []


def situation(
    asks: str, both: Right, client: Right | None = None
) -> Callable[[Callable[[], World]], Callable[[], World]]:
    """Adds what makes its packets to the table."""

    def add(make: Callable[[], World]) -> Callable[[], World]:
        SITUATIONS.append(Situation(make.__name__, asks, make, both, client or both))
        return make

    return add


# --- Calls, replies ---------------------------------------------------------------------------------------------------


def failed3(status: int) -> bytes:
    """The body of a reply to an NFSv3 operation that failed."""
    return struct.pack(">III", status, 0, 0)


def ops4(*ops: bytes, slot: int = 0, seqid: int = 1) -> Callable[[int], bytes]:
    """A COMPOUND with SEQUENCE in front."""
    return lambda xid: wire.compound(xid, wire.v4_sequence(slot, seqid), *ops)


def failed4(status: int, *before: bytes, op: int) -> bytes:
    """The results of a COMPOUND whose last operation failed."""
    results = [*before, struct.pack(">II", op, status)]
    return struct.pack(">I", status) + struct.pack(">II", 0, len(results)) + b"".join(results)


def reads(
    world: World,
    flow: wire.Tcp,
    begin: float,
    count: int,
    *,
    each_ms: float = 20,
    server_ms: float = 0.5,
    size: int = 64,
) -> float:
    """Quick READs one after the other; and when the next would come."""
    for number in range(count):
        at = begin + number * each_ms
        world.op(flow, at, server_ms, lambda xid: wire.read(xid, count=size), wire.read3(size))
    return begin + count * each_ms


def _times(mean: float, seed: int = 1) -> Iterator[float]:
    rng = random.Random(seed)
    while True:
        yield rng.expovariate(1 / mean)


# --- Connections ------------------------------------------------------------------------------------------------------


@situation(
    "A firewall forgets idle connections: the first access behind a pause hangs for a minute, then all is well",
    fault("network", "reconnect", "net-loss"),
    fault(None, "reconnect"),  # the client's packets do not tell a firewall from a server that is gone
)
def idle_connection_forgotten() -> World:
    world = World()
    old = world.tcp(700)
    end = reads(world, old, 10, 100) + 900_000
    xid = world.next_xid()
    first = old.send(end, ">", wire.read(xid, count=64))
    lost = [*first, *(old.again(end + 200 * (2**number - 1), *first) for number in range(1, 9))]
    world.lost["server"] += lost
    begin = end + 60_000
    lost.append(old.raw(begin - 1, ">", old.next[">"], b"", flags=RST_ACK))
    world.lost["server"].append(lost[-1])
    new = world.tcp(701, at=begin)
    new.send(begin + 1, ">", wire.read(xid, count=64))
    new.send(begin + 1.6, "<", wire.reply(xid, wire.read3(64)))
    new.ack(begin + 1.8, ">")
    reads(world, new, begin + 20, 100)
    return world


@situation(
    "The client comes back from the same port, the server still has the old connection and answers SYNs with an ACK",
    fault("network", "syn-unanswered"),
)
def port_used_again_behind_nat() -> World:
    world = World()
    old = world.tcp(700)
    end = reads(world, old, 10, 100)
    new = wire.Tcp(client=(CLIENT, 700), isn=(900_001, 700_001), stamps_hz=1000)
    world.add(new)
    for wait in (0, 1000, 3000, 7000, 15_000, 31_000):
        new.raw(end + 10_000 + wait, ">", new.next[">"] - 1, b"", ack=0, flags=SYN)
        old.ack(end + 10_000.12 + wait, "<")  # of the old connection (RFC 5961)
        reset = new.raw(end + 10_000.3 + wait, ">", old.next[">"], b"", ack=0, flags=RST)
        world.lost["server"].append(reset)  # a firewall takes it for what belongs to no connection
    return world


def silent_syns(port: int, *, to: tuple[str, int] = (SERVER, 2049)) -> tuple[World, wire.Tcp, list[wire.Sent]]:
    """A mount that was idle, its connection closed; then SYNs from `port`, and nothing else, to the end."""
    world = World()
    old = world.tcp(700)
    end = reads(world, old, 10, 100)
    old.raw(end + 300_000, ">", old.next[">"], b"", flags=FIN)
    old.raw(end + 300_000.2, "<", old.next["<"], b"", flags=FIN)
    new = wire.Tcp(client=(CLIENT, port), server=to, isn=(900_001, 700_001), stamps_hz=1000)
    world.add(new)
    tries = [end + 900_000 + wait for wait in (0, 1000, 3000, 7000, 15_000, 31_000, 63_000)]
    syns = [new.raw(at, ">", new.next[">"] - 1, b"", ack=0, flags=SYN) for at in tries]
    reads(world, world.tcp(705), end + 890_000, 100, each_ms=750)  # another mount goes on
    return world, new, syns


def _dropped_syns(port: int, *, to: tuple[str, int] = (SERVER, 2049)) -> World:
    """Of these SYNs none comes to the server."""
    world, _, syns = silent_syns(port, to=to)
    world.lost["server"] += syns
    return world


@situation(
    "A mount that was idle hangs: the client opens the same port again, a firewall drops the SYNs of what it remembers",
    fault("network", "syn-unanswered"),
)
def old_port_opened_in_vain() -> World:
    return _dropped_syns(700)


@situation(
    "The same from another port: the SYNs of a connection that never carries a call are dropped",
    fault("network", "syn-unanswered"),
)
def new_port_opened_in_vain() -> World:
    return _dropped_syns(710)


@situation(
    "The same of another server, to which no connection carries a call",
    not_yet(fault("network", "syn-unanswered"), "the decoder has rows only for hosts and ports that carry RPC"),
)
def other_server_opened_in_vain() -> World:
    return _dropped_syns(710, to=("10.0.0.3", 2049))


@situation(
    "nfsd does not run: each SYN is answered with a reset",
    fault("server", "reconnect"),
)
def connection_refused() -> World:
    world = World()
    end = reads(world, world.tcp(700), 10, 100)
    begin = end + 1000
    old = world.flows[0][0]
    assert isinstance(old, wire.Tcp)
    xid = world.next_xid()
    old.send(begin, ">", wire.read(xid, count=64))
    old.raw(begin + 0.2, "<", old.next["<"], b"", flags=RST_ACK)
    for number in range(10):
        flow = world.tcp(701 + number, at=None)
        flow.raw(begin + 1 + 3000 * number, ">", flow.next[">"] - 1, b"", ack=0, flags=SYN)
        flow.raw(begin + 1.12 + 3000 * number, "<", 0, b"", flags=RST_ACK)
    new = world.tcp(720, at=begin + 30_000)
    new.send(begin + 30_001, ">", wire.read(xid, count=64))
    new.send(begin + 30_001.6, "<", wire.reply(xid, wire.read3(64)))
    reads(world, new, begin + 30_010, 100)
    return world


@situation("A reset far outside the window (somebody else's, or forged) is ignored, the connection goes on", HEALTHY)
def reset_out_of_window() -> World:
    world = World()
    flow = world.tcp()
    end = reads(world, flow, 10, 150)
    flow.raw(end - 5, "<", flow.next["<"] + 900_000_000, b"", flags=RST)
    reads(world, flow, end, 150)
    return world


@situation("Keep-alives of an idle mount, a few calls to renew the lease", HEALTHY)
def idle_mount() -> World:
    world = World()
    flow = world.tcp()
    for number in range(60):
        at = 10 + 20_000.0 * number
        world.op(flow, at, 0.3, ops4(seqid=number + 1), wire.v4_results(wire.V4_SEQUENCE_OK))
        flow.raw(at + 10_000, ">", flow.next[">"] - 1, b"", flags=ACK)
        flow.ack(at + 10_000.3, "<")
    return world


# --- Paths ------------------------------------------------------------------------------------------------------------


def _lossy(world: World, flow: wire.Tcp, begin: float, count: int, every: int, lost: int) -> None:
    """READs, of which each so many-th loses segment number `lost` of its reply, which is sent again 200 ms later."""
    for number in range(count):
        at, xid = begin + 5.0 * number, world.next_xid()
        flow.send(at, ">", wire.read(xid, count=8192))
        sent = flow.send(at + 0.6, "<", wire.reply(xid, wire.read3(8192)), cut=(1448,) * 5)
        if every and number % every == 1:
            begin += 205
            world.lost["client"].append(sent[lost])
            if lost < len(sent) - 1:
                flow.ack(at + 1.4, ">", sent[lost - 1])
            flow.again(at + 201, sent[lost])
            flow.ack(at + 201.2, ">")
        else:
            flow.ack(at + 1.4, ">")


@situation(
    "One of four connections (nconnect) goes by a bad link of a bond and loses packets, the others are fine",
    fault("network", "net-loss"),
)
def one_link_of_a_bond() -> World:
    world = World()
    for number in range(4):
        _lossy(world, world.tcp(700 + number), 10, 100, 10 if number == 2 else 0, 3)
    return world


@situation(
    "The client's ring is full: replies that left the server are not taken by the client and come again",
    fault("network", "net-loss"),
    Right("undecided", None, frozenset(["between-taps"])),  # the last segment of a reply: nothing is behind the hole
)
def ring_of_the_client_is_full() -> World:
    world = World()
    _lossy(world, world.tcp(), 10, 300, 12, 5)
    return world


@situation(
    "Small calls pass, large replies never do (MTU of a tunnel, ICMP is filtered): ls works, cat hangs",
    fault("network", "never-acknowledged", "net-loss", "calls-unanswered"),
)
def large_packets_never_pass() -> World:
    world = World()
    flow = world.tcp()
    end = reads(world, flow, 10, 100)
    xid, last = world.next_xid(), [sent for sent in flow.packets if sent.way == "<"][-1]
    assert isinstance(last, wire.Sent)
    flow.send(end, ">", wire.read(xid, count=8192))
    sent = flow.send(end + 0.6, "<", wire.reply(xid, wire.read3(8192)), cut=(1448,) * 5)
    flow.ack(end + 1.3, ">", last)  # again what it had before
    again = [flow.again(end + 200 * (2**number - 1), sent[0]) for number in range(1, 8)]
    world.lost["client"] += [*sent[:5], *again]  # the last is small, and arrives
    other = world.tcp(701)
    reads(world, other, end, 100, each_ms=400)
    return world


@situation(
    "git status over a VPN: one small call after the other, 40 ms each",
    fault("network", "net-delay"),
    not_yet(fault("network", "net-delay"), "what is inferred of such quick replies is taken for less sure than it is"),
)
def far_server() -> World:
    world = World()
    flow = world.tcp(rtt_ms=40)
    at = 100.0
    for number in range(200):
        fh = bytes([number % 100]) + wire.FH[1:]
        at = 0.1 + world.op(flow, at, 0.2, lambda xid, fh=fh: wire.getattr3(xid, fh), rtt_ms=40)
    return world


@situation(
    "WRITEs by UDP: fragments are lost on the path, each such call is sent again after 1.1 s",
    fault("network", "net-loss"),
    not_yet(fault("network", "net-loss"), "that the answer to the second try is as quick as any is not looked at"),
)
def fragments_of_writes_lost() -> World:
    world = World()
    udp = wire.Udp(client=(CLIENT, 700))
    world.add(udp)
    at = 0.0
    for number in range(200):
        xid = world.next_xid()
        call = wire.write(xid, offset=8192 * number)
        sent = udp.send(at, ">", call, mtu=1500)
        if number % 20 == 3:
            world.lost["server"].append(sent[2])
            at += 1100
            udp.send(at, ">", call, mtu=1500)
        udp.send(at + 1.3, "<", wire.reply(xid, wire.WRITE3))
        at += 3
    return world


# --- Windows ----------------------------------------------------------------------------------------------------------


@situation(
    "The server does not read its socket: its window is 0 for seconds while the client wants to write",
    fault("server", "zero-window", "server-window"),
)
def window_of_the_server_shut() -> World:
    world = World()
    flow = world.tcp()
    for number in range(40):
        at, xid = 10 + 1200.0 * number, world.next_xid()
        message = wire.record(wire.write(xid, count=8192))
        first = flow.send(at, ">", wire.Framed(message[:4096]))
        flow.window["<"] = 0
        flow.ack(at + 0.2, "<", first[0])
        for probe in (200, 600):
            flow.raw(at + probe, ">", flow.next[">"] - 1, b"", flags=ACK)
            flow.ack(at + probe + 0.2, "<")
        flow.window["<"] = 0xFFFF
        flow.ack(at + 1000, "<")
        flow.send(at + 1000.2, ">", wire.Framed(message[4096:]))
        flow.send(at + 1001, "<", wire.reply(xid, wire.WRITE3))
        flow.ack(at + 1001.3, ">")
    return world


@situation(
    "The client does not take its replies: its window is 0, the server waits with half a reply",
    fault("client", "zero-window"),
    not_yet(fault("client", "zero-window"), "one capture has no pauses of the sender that was not captured"),
)
def window_of_the_client_shut() -> World:
    world = World()
    flow = world.tcp()
    for number in range(40):
        at, xid = 10 + 1200.0 * number, world.next_xid()
        message = wire.record(wire.reply(xid, wire.read3(8192)))
        flow.send(at, ">", wire.read(xid))
        first = flow.send(at + 0.5, "<", wire.Framed(message[:4096]))
        flow.window[">"] = 0
        flow.ack(at + 0.7, ">", first[0])
        for probe in (200, 600):
            flow.raw(at + probe, "<", flow.next["<"] - 1, b"", flags=ACK)
            flow.ack(at + probe + 0.2, ">")
        flow.window[">"] = 0xFFFF
        flow.ack(at + 1000, ">")
        flow.send(at + 1000.2, "<", wire.Framed(message[4096:]))
        flow.ack(at + 1000.5, ">")
    return world


# --- Servers ----------------------------------------------------------------------------------------------------------


@situation("mkfs works, and then every COMMIT takes 200 ms", fault("server", "server-storage", "server-slow-ops"))
def commits_are_slow() -> World:
    world = World()
    flow, at, slow = world.tcp(), 10.0, _times(200)

    def commit(xid: int) -> bytes:
        return wire.call(xid, wire.NFS, 3, 21, struct.pack(">I", 32) + wire.FH + bytes(12))

    for _ in range(120):
        for piece in range(4):
            at = world.op(flow, at, 0.3, lambda xid, at=piece: wire.write(xid, 64 * at, 64, stable=0), wire.WRITE3)
        at = 0.2 + world.op(flow, at, 100 + next(slow) / 2, commit, struct.pack(">III", 0, 0, 0) + bytes(8))
    return world


@situation(
    "dd oflag=dsync, a database's log: one FILE_SYNC WRITE at a time, 8 ms each",
    fault("server", "server-storage", "server-queue-unknown"),
)
def synchronous_writes() -> World:
    world = World()
    flow, at, slow = world.tcp(), 10.0, _times(4)
    for number in range(400):
        at = 0.05 + world.op(
            flow, at, 4 + next(slow), lambda xid, at=number: wire.write(xid, 4096 * at, 4096), wire.WRITE3
        )
    return world


@situation(
    "ls of a folder with a million names: READDIRs one after the other, 30 ms each",
    fault("server", "server-storage", "server-queue-unknown", "server-slow-ops"),
)
def huge_folder() -> World:
    world = World()
    flow, at, slow = world.tcp(), 10.0, _times(15)
    for number in range(150):
        arguments = struct.pack(">I", 32) + wire.FH + struct.pack(">QQI", number * 100, 0, 4096)
        body = struct.pack(">II", 0, 0) + bytes(8) + bytes(4000) + struct.pack(">II", 0, 0)
        at = 0.3 + world.op(
            flow, at, 15 + next(slow), lambda xid, a=arguments: wire.call(xid, wire.NFS, 3, 16, a), body
        )
    return world


@situation(
    "Every few minutes an access takes 15 s (the server asks LDAP for groups), all else is quick",
    fault("server", "server-slow-ops", "server-storage"),
)
def groups_are_looked_up() -> World:
    world = World()
    flow, at = world.tcp(), 10.0
    for number in range(400):
        at = 20 + world.op(flow, at, 15_000 if number % 100 == 50 else 0.4)
    return world


@situation("Replies come in another order than calls: slow READs beside quick GETATTRs of another program", HEALTHY)
def answers_out_of_order() -> World:
    world = World()
    flow = world.tcp()
    events: list[tuple[float, str, bytes]] = []
    for number in range(300):
        at, first, second = 10 + 20.0 * number, world.next_xid(), world.next_xid()
        events += [(at, ">", wire.read(first, count=64)), (at + 0.05, ">", wire.getattr3(second))]
        events += [
            (at + 0.4, "<", wire.reply(second, wire.GETATTR3)),
            (at + 0.8, "<", wire.reply(first, wire.read3(64))),
        ]
    for at, way, message in sorted(events):
        flow.send(at, way, message)
        if way == "<":
            flow.ack(at + 0.15, ">")
    return world


# --- Answers that are errors ------------------------------------------------------------------------------------------


@situation(
    "The export was made anew: stat of each file says Stale file handle, in a loop",
    fault("server", "handles-lost", "operations-fail"),
)
def stale_handles() -> World:
    world = World()
    flow = world.tcp()
    for number in range(500):
        world.op(flow, 10 + 4.0 * number, 0.3, body=failed3(STALE)[:4] if number % 5 else wire.GETATTR3)
    return world


@situation(
    "Users write until their quota is used up (NFSv4): EDQUOT for half of all WRITEs",
    fault("server", "operations-fail"),
)
def quota_of_nfs4() -> World:
    world = World()
    flow = world.tcp()
    good = wire.v4_results(wire.V4_SEQUENCE_OK, wire.V4_PUTFH_OK, struct.pack(">IIII", 38, 0, 64, 2) + bytes(8))
    bad = failed4(DQUOT4, wire.V4_SEQUENCE_OK, wire.V4_PUTFH_OK, op=38)
    for number in range(300):
        call = ops4(wire.v4_putfh(), wire.v4_write(64 * number, 64), seqid=number + 1)
        world.op(flow, 10 + 4.0 * number, 0.5, call, bad if number % 3 else good)
    return world


@situation(
    "A file comes back from tape: READs are answered NFS3ERR_JUKEBOX, again after 5 s each time",
    fault("server", "server-delay"),
)
def jukebox() -> World:
    world = World()
    flow = world.tcp()
    for file in range(6):
        fh = bytes([file]) + wire.FH[1:]
        for number in range(5):
            body = failed3(JUKEBOX)[:8] if number < 4 else wire.read3(64)
            at = 10 + 25_000.0 * file + 5000.0 * number
            world.op(flow, at, 0.4, lambda xid, fh=fh: wire.read(xid, count=64, fh=fh), body)
    return world


def _open(name: bytes, seqid: int) -> Callable[[int], bytes]:
    """OPEN of a name in a folder, after RFC 8881 section 18.16."""
    owner = struct.pack(">IIIQI", 0, 1, 0, 7, 4) + b"abcd"
    claim = struct.pack(">I", 0) + struct.pack(">II", 0, len(name)) + name + bytes(-len(name) % 4)
    return ops4(wire.v4_putfh(), struct.pack(">I", 18) + owner + claim, seqid=seqid)


@situation(
    "Delegations are called back, and the client's firewall drops callbacks: OPENs are put off until the lease ends",
    fault("server", "server-delay"),
)
def callbacks_do_not_arrive() -> World:
    world = World()
    flow = world.tcp()
    seqid, at = 0, 10.0
    for file in range(4):
        waits = [100.0 * 2**number for number in range(8)] + [15_000.0] * 4
        for wait in waits:
            seqid += 1
            body = failed4(DELAY, wire.V4_SEQUENCE_OK, wire.V4_PUTFH_OK, op=18)
            at = wait + world.op(flow, at, 0.5, _open(b"file%d" % file, seqid), body)
        seqid += 1
        stateid = struct.pack(">II", 18, 0) + bytes(16) + bytes(20) + struct.pack(">IIII", 0, 0, 0, 0)
        good = wire.v4_results(wire.V4_SEQUENCE_OK, wire.V4_PUTFH_OK, stateid)
        at = 10 + world.op(flow, at, 0.5, _open(b"file%d" % file, seqid), good)
    return world


@situation(
    "The server was started anew: OPENs are answered NFS4ERR_GRACE for a minute and a half",
    fault("server", "server-grace"),
)
def grace() -> World:
    world = World()
    flow = world.tcp()
    seqid, at = 0, 10.0
    for wait in [100.0 * 2**number for number in range(8)] + [15_000.0] * 5:
        seqid += 1
        body = failed4(GRACE, wire.V4_SEQUENCE_OK, wire.V4_PUTFH_OK, op=18)
        at = wait + world.op(flow, at, 0.5, _open(b"file", seqid), body)
    stateid = struct.pack(">II", 18, 0) + bytes(16) + bytes(20) + struct.pack(">IIII", 0, 0, 0, 0)
    for number in range(40):
        seqid += 1
        good = wire.v4_results(wire.V4_SEQUENCE_OK, wire.V4_PUTFH_OK, stateid)
        at = 5 + world.op(flow, at, 0.5, _open(b"file%d" % number, seqid), good)
    return world


@situation(
    "Two clients have one name: leases end again and again, READs are answered NFS4ERR_EXPIRED",
    fault("server", "state-lost"),
)
def expired() -> World:
    world = World()
    flow = world.tcp()
    good = wire.v4_results(wire.V4_SEQUENCE_OK, wire.V4_PUTFH_OK, wire.v4_read_ok(64))
    bad = failed4(EXPIRED, wire.V4_SEQUENCE_OK, wire.V4_PUTFH_OK, op=25)
    for number in range(400):
        call = ops4(wire.v4_putfh(), wire.v4_read(64 * number, 64), seqid=number + 1)
        world.op(flow, 10 + 4.0 * number, 0.4, call, bad if number % 3 == 1 else good)
    return world


@situation(
    "Each second SEQUENCE is answered SEQ_MISORDERED, the client asks again at once, processors are busy",
    fault("server", "state-lost", "operations-fail"),
)
def sequence_misordered() -> World:
    world = World()
    flow = world.tcp()
    good = wire.v4_results(wire.V4_SEQUENCE_OK, wire.V4_PUTFH_OK, wire.v4_read_ok(64))
    for number in range(400):
        call = ops4(wire.v4_putfh(), wire.v4_read(64 * (number // 2), 64), seqid=number // 2 + 1)
        world.op(flow, 10 + 4.0 * number, 0.4, call, good if number % 2 else failed4(MISORDERED, op=53))
    return world


@situation(
    "A file system has moved and the client does not follow: NFS4ERR_MOVED for each access",
    fault("server", "operations-fail"),
)
def moved() -> World:
    world = World()
    flow = world.tcp()
    bad = failed4(MOVED, wire.V4_SEQUENCE_OK, wire.V4_PUTFH_OK, op=9)
    for number in range(300):
        call = ops4(wire.v4_putfh(), wire.V4_GETATTR, seqid=number + 1)
        world.op(flow, 10 + 4.0 * number, 0.4, call, bad)
    return world


# --- RPC --------------------------------------------------------------------------------------------------------------


def denied(xid: int, auth_status: int) -> bytes:
    """MSG_DENIED, AUTH_ERROR (RFC 5531 section 9)."""
    return struct.pack(">IIIII", xid, 1, 1, 1, auth_status)


@situation(
    "The server lost its GSS contexts: calls are denied with RPCSEC_GSS_CTXPROBLEM until the client has a new one",
    fault("server", "operations-fail"),
)
def gss_contexts_lost() -> World:
    world = World()
    flow = world.tcp()
    for number in range(300):
        at, xid = 10 + 4.0 * number, world.next_xid()
        flow.send(at, ">", wire.getattr3(xid))
        flow.send(at + 0.5, "<", wire.reply(xid, wire.GETATTR3) if number % 3 == 0 else denied(xid, 14))
        flow.ack(at + 0.7, ">")
    return world


def _sealed(xid: int, size: int) -> bytes:
    """What privacy of RPCSEC_GSS leaves of arguments or results (RFC 2203 section 5.3.2.3)."""
    return struct.pack(">I", size) + random.Random(xid).randbytes(size)


@situation(
    "sec=krb5p: 8 ms for each call, and no packet says of which operation",
    Right("undecided", None, frozenset(["server-queue-unknown"])),  # it is the server, and data or not, nobody sees
)
def encrypted_calls() -> World:
    world = World()
    flow, at, slow = world.tcp(), 10.0, _times(4)
    verifier = struct.pack(">II", 6, 28) + bytes(28)
    for number in range(300):
        xid, took = world.next_xid(), 4 + next(slow)
        credential = struct.pack(">IIIIII", 6, 24, 1, 0, number + 1, 3) + struct.pack(">I", 4) + b"ctx1"
        header = struct.pack(">IIIIII", xid, 0, 2, wire.NFS, 4, 1)
        flow.send(at, ">", header + credential + verifier + _sealed(xid, 200))
        flow.send(
            at + took, "<", struct.pack(">III", xid, 1, 0) + verifier + bytes(4) + _sealed(xid, 180 + number % 2 * 4000)
        )
        flow.ack(at + took + 0.14, ">")
        at += took + 0.4
    return world


@situation(
    "mount says access denied: MNT is answered MNT3ERR_ACCES, again and again by autofs",
    fault("server", "operations-fail"),
)
def mount_refused() -> World:
    world = World()
    flow = world.tcp(to=20048)
    path = struct.pack(">I", 8) + b"/export0"
    for number in range(30):
        world.op(
            flow, 10 + 2000.0 * number, 1.0, lambda xid: wire.call(xid, wire.MOUNT, 3, 1, path), struct.pack(">I", 13)
        )
    return world


@situation("Mounts beside READs: one path of ten does not exist, and nobody asks for it again", HEALTHY)
def mounts_as_ever() -> World:
    world = World()
    flow = world.tcp(to=20048)
    for number in range(10):
        path = struct.pack(">I", 8) + b"/export%d" % number
        body = struct.pack(">I", 2) if number == 7 else struct.pack(">II", 0, 32) + wire.FH + struct.pack(">II", 1, 1)
        world.op(flow, 10 + 2000.0 * number, 1.0, lambda xid, path=path: wire.call(xid, wire.MOUNT, 3, 1, path), body)
    reads(world, world.tcp(), 10, 300)
    return world


@situation(
    "A firewall drops UDP 111: mount asks the portmapper five times and gives up", fault("network", "calls-unanswered")
)
def portmapper_blocked() -> World:
    world = World()
    udp = wire.Udp(client=(CLIENT, 800), server=(SERVER, 111))
    world.add(udp)
    getport = struct.pack(">IIII", wire.MOUNT, 3, 6, 0)
    for at in (0.0, 5000.0, 10_000.0, 15_000.0, 20_000.0):
        world.lost["server"] += udp.send(at, ">", wire.call(7, wire.PORTMAP, 2, 3, getport, cred=wire.AUTH_NONE))
    reads(world, world.tcp(), 10, 60, each_ms=400)  # another mount, which does not ask
    return world


_TEST, _LOCK = 1, 2


def _locks(procedure: int, denies: Callable[[int], bool]) -> World:
    """A lock of NLM is asked for each second, and denied or not, beside READs."""
    world = World()
    flow = world.tcp(to=4045)

    def ask(xid: int) -> bytes:
        cookie, owner = struct.pack(">II", 4, xid), struct.pack(">I", 4) + b"host"
        body = cookie + bytes(4 * procedure) + owner + struct.pack(">I", 32) + wire.FH
        return wire.call(
            xid, 100021, 4, procedure, body + struct.pack(">I", 4) + b"ownr" + struct.pack(">IQQ", 1, 0, 0)
        )

    for number in range(120):
        answer = struct.pack(">III", 4, world.xid + 1, int(denies(number)))
        world.op(flow, 10 + 1000.0 * number, 0.5, ask, answer)
    reads(world, world.tcp(), 10, 300, each_ms=400)
    return world


@situation(
    "lockd: a program waits for a lock of NFSv3, NLM answers DENIED and it asks again each second",
    fault("client", "lock-wait"),
)
def nlm_denied() -> World:
    return _locks(_LOCK, lambda number: number % 12 != 11)


@situation("lockd: each lock is granted when it is asked for, one in ten a try later", HEALTHY)
def nlm_granted() -> World:
    return _locks(_LOCK, lambda number: number % 20 == 19)


@situation("A program that stands by looks each second whether somebody has the lock, and never waits for it", HEALTHY)
def nlm_looked_at() -> World:
    return _locks(_TEST, lambda number: number % 12 != 11)


# --- Clients ----------------------------------------------------------------------------------------------------------


@situation("One slow program: a call each 50 ms, each answered in half a millisecond", HEALTHY)
def slow_program() -> World:
    world = World()
    reads(world, world.tcp(), 10, 300, each_ms=50)
    return world


@situation(
    "noac: a program that stats the same 20 files all the time, one after the other",
    replace(HEALTHY, finding="serial-calls"),
)
def attributes_are_not_cached() -> World:
    world = World()
    flow, at = world.tcp(), 10.0
    for number in range(1200):
        fh = bytes([number % 20]) + wire.FH[1:]
        at = 0.03 + world.op(flow, at, 0.15, lambda xid, fh=fh: wire.getattr3(xid, fh))
    return world


@situation(
    "sunrpc.tcp_slot_table_entries=2: sixteen programs read, and no more than two calls are ever in flight",
    Right("undecided", finding="client-slots"),  # two programs would look alike
)
def two_slots() -> World:
    world = World()
    flow, slow, rng = world.tcp(), _times(1.5), random.Random(3)
    free, waiting, events = [10.0, 10.0], [0.0] * 16, []
    while len(events) < 3000:
        at = max(min(free), min(waiting)) + 0.02
        free.remove(min(free))
        waiting.remove(min(waiting))
        done = at + 0.3 + next(slow)
        xid = world.next_xid()
        events += [
            (at, ">", wire.read(xid, 64 * rng.randrange(9999), 64)),
            (done - 0.15, "<", wire.reply(xid, wire.read3(64))),
        ]
        free.append(done)
        waiting.append(done + 0.1)
    for at, way, message in sorted(events):
        flow.send(at, way, message)
        if way == "<":
            flow.ack(at + 0.14, ">")
    return world


@situation("A client without the capability tries minor versions: MINOR_VERS_MISMATCH once, then all is well", HEALTHY)
def minor_version_once() -> World:
    world = World()
    flow = world.tcp()
    world.op(
        flow, 5, 0.3, lambda xid: wire.compound(xid, struct.pack(">I", 9), minor=2), struct.pack(">III", 10021, 0, 0)
    )
    reads(world, flow, 10, 200)
    return world


@situation(
    "The server is restarted again and again: resets, and the client is back after 2 s", fault("server", "reconnect")
)
def resets_again_and_again() -> World:
    world = World()
    at = 10.0
    for number in range(6):
        flow = world.tcp(700 + number, at=at)
        if number:
            flow.send(at + 0.5, ">", wire.read(world.xid, count=64))
            flow.send(at + 1.1, "<", wire.reply(world.xid, wire.read3(64)))
            flow.ack(at + 1.3, ">")
        at = reads(world, flow, at + 10, 30)
        flow.send(at, ">", wire.read(world.next_xid(), count=64))
        flow.raw(at + 0.3, "<", flow.next["<"], b"", flags=RST_ACK)
        at += 2000
    flow = world.tcp(720, at=at)
    flow.send(at + 0.5, ">", wire.read(world.xid, count=64))
    flow.send(at + 1.1, "<", wire.reply(world.xid, wire.read3(64)))
    return world
