"""The part of the report on ops in flight: threads of the server, slots of the client, sessions.

Same conventions as `nfslat.answer.model`.
"""

from __future__ import annotations

from typing import Annotated

from nfslat.answer.contract import BothSides, Count, Must, Positive, Share
from nfslat.model.record import Record

Held = Annotated[str, Must(enum=["nothing", "slots", "likely slots", "workers", "slots or workers", "cannot tell"])]


class Level(Record):
    """Time with so many ops in flight."""

    in_flight: Positive  # ops whose call has been seen and whose reply has not
    share: Share  # share of the time in which any op is in flight
    ops_per_s: float  # ops answered per second of the time at this level


class ServerInFlight(Record):
    """The threads of a server, as its capture shows them; of all NFS ops there, whatever was selected."""

    server: str  # address of the server; of several the one with most ops
    servers: Count  # addresses in the capture that answer NFS calls
    max: Count  # most ops in flight at once
    mean: float  # mean ops in flight, over the time in which any are
    levels: list[Level]  # one row a level that occurs, up to 511
    # the level from which on throughput hardly grows; None where none is seen. By itself no limit
    knee: Positive | None
    threads_lower_bound: Count  # so many threads exist, whatever the server is like
    lower_bound_seen: Count  # how many times the capture shows that
    threads_estimate: Positive | None  # number of threads; None where nothing shows how many there are
    threads_range: tuple[int, int] | None  # fewest and most threads that the packets allow
    limited: bool  # calls wait for a thread
    waiting_share: Share  # share of the calls that wait for a thread
    queue_ms: float | None  # mean wait for a thread over matched ops, ms; None where the packets do not tell
    queue_range_ms: tuple[float, float] | None  # the same with the most and with the fewest threads of the range, ms
    service_ms: float | None  # mean time in a thread over matched ops, ms; with queue_ms it is the mean server SRT
    witnesses: Count  # calls of little work that waited as long as the others: a queue for threads, not for storage
    held: Count  # ops left out, which a server may hold back without a thread
    unseen_first: Count  # ops whose first transmission is not in the capture; their arrival is taken from their XID
    cannot: str | None  # why there is no answer on threads; None where there is one
    instead: str | None  # what speaks against any number of threads, where calls wait as if for some
    # how likely calls wait for a pool of threads, as its marks add up; None where nothing waits as if for one
    limit_probability: Share | None = None


class ConnectionInFlight(Record):
    """What a client keeps in flight on one connection."""

    client: str  # address and port of the client; of a session with several connections, one of them
    ops: Count  # ops on it
    max: Count  # most in flight at once
    level: Count | None  # the level that is hardly ever exceeded; None where no op took time
    at_limit_share: Share | None  # share of the busy time at that level
    # of the calls that fill that level, those that come right behind a reply; None where there are too few
    reply_clocked_share: Share | None
    # from those replies to those calls: median and third quartile, microseconds
    turnaround_us: tuple[float, float] | None
    held: Held  # by what the number in flight is held; slots are never more than likely from packets


class MountInFlight(Record):
    """One client address and one server address and port."""

    client: str  # address of the client
    server: str  # address and port of the server
    ops: Count  # ops between them
    max: Count  # most in flight at once, on all connections
    mean: float  # mean in flight, over the time in which any are
    nconnect: Count  # connections in use at the same time
    held: Held  # what holds most of its ops
    slots: Positive | None  # slots of all its connections together; None where slots are not likely to hold it
    # share of the busy time at the level that is hardly ever exceeded, a mean over its connections by their ops
    at_limit_share: Share | None
    hint: str | None  # what is known for such a number of slots; no proof
    # its connections, most ops first; those with less than a tenth of the ops are left out
    connections: list[ConnectionInFlight]


class ClientInFlight(Record):
    """Ops in flight at the client; the fields from `slots_estimate` on are of the mount with most ops."""

    max: Count  # most ops in flight at once
    mean: float  # mean ops in flight, over the time in which any are
    levels: list[Level]  # one row a level that occurs, up to 511
    # the level from which on throughput hardly grows; None where none is seen. By itself no limit
    knee: Positive | None
    slots_estimate: Positive | None  # slots of all its connections together; None where slots are not likely to hold it
    at_limit_share: Share | None  # share of the busy time at the level that is hardly ever exceeded
    reply_clocked_share: Share | None  # of the calls that fill that level, those that come right behind a reply
    limited: bool  # likely by slots
    held: Held  # by what the number in flight is held
    mounts: list[MountInFlight]  # pairs of a client and a server, most ops first
    # files or directories that take turns, as they do where their callers stand in line for a slot; None: they do not
    callers_in_line: Positive | None = None


class SessionInFlight(Record):
    """One channel of an NFSv4.1 session; exact, from SEQUENCE and CREATE_SESSION."""

    session: str  # session id, hexadecimal
    callbacks: bool  # the backchannel, on which the server calls
    connections: Count  # connections that carry it
    ops: Count  # ops in it
    slots_negotiated: Count | None  # slots that CREATE_SESSION granted; None where it is not in the capture
    target_slots: Count | None  # slots that the server wants used, by the last reply that says so; None where none does
    highest_slot_used: Count  # highest slot that was used, counted from 0
    slots_used: Count  # different slots that were used
    limit: Count | None  # slots in effect; None where they are not known
    at_limit_share: Share | None  # share of the busy time with all of them in use
    reuse_share: Share | None  # of the uses of a slot, those right behind the reply to its last one
    own_limit: Count | None  # fewer slots, to which the client keeps by itself; None where it does not
    limited: bool  # calls wait for a slot


class CapInFlight(Record):
    """A connection with many ops in flight whose window the server closed."""

    client: str  # address and port of the client
    ops: Count  # ops on it
    level: Count  # ops in flight that are hardly ever exceeded
    level_share: Share  # share of the busy time at that level
    zero_windows: Count  # times that the server closed its window
    zero_window_ms: float  # for how long in all, ms
    median_ms: float  # median server SRT on it, ms
    others: Count  # other connections of the server
    others_median_ms: float | None  # their median server SRT meanwhile, ms; None where there are none
    likely: bool  # a limit for each connection is likely


class InFlight(Record):
    """Ops whose call has been seen and whose reply has not."""

    server: ServerInFlight
    client: ClientInFlight
    sessions: list[SessionInFlight]  # NFSv4.1 sessions, one row a channel
    caps: list[CapInFlight]  # connections whose window the server closed
    # by side, share of the ops that the capture does not hold: levels are too low by so much
    hidden_share: BothSides[Share]
