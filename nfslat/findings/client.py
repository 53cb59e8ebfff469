"""Facts -> findings on the client, above the wire: RPC slots, session slots, or what nothing explains."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from nfslat.findings.diagnosis import Diagnosis, Evidence, LookAt, diagnosis
from nfslat.findings.facts import Facts
from nfslat.findings.layers import Layers
from nfslat.findings.tune import advice
from nfslat.findings.words import ms, percent, span, times
from nfslat.wire.above import Why

SESSION_SLOTS = "session-slots"
ABOVE = "above-wire"
_HELD_BY_SLOTS = "slots"  # `ClientInFlight.held`
_SOME = 0.05
_AT_LIMIT = 0.5  # of the busy time, where the application's time is known to lie above the wire
_PROVES = 0.3  # of the application's time above the wire: the wait that slots make is seen from outside
_ASKED_AGAIN = 0.3  # of calls in series
_PER_LISTING = 10  # calls about files that a READDIR listed
_HIDDEN = 0.25  # of the ops not in the captures: no level in flight says anything (as in `inflight.slots`)
_LEAST_PIECES = 3.0  # operations of a call: two are soon done
_ON_WIRE = 0.5  # of a call: so much its operations take, and not what keeps them
_KEPT = {
    Why.HOST_PAUSE: "the client did not run for a while",
    Why.NO_CONNECTION: "the client had no connection for a while",
    Why.CONNECTING: "a new connection was not answered",
    Why.WINDOW: "the server's TCP window had no room for it",
    Why.LOSS: "it queued behind lost data",
}


class Slots(Evidence, kw_only=True):
    """Of client-slots and session-slots."""

    slots: int  # of the mount, or of the session
    slots_each: int  # of each connection, or of the session
    at_limit_share: float | None  # of the busy time, with all of them in use
    reply_clocked_share: float | None  # of the calls, those that went out as a reply came
    above_wire_ms: float | None  # of the application's mean
    slot_wait_ms: float | None  # as the client counts it
    sessions_needed: int | None  # requests that the application has open at once, by Little's law
    # Packets alone, and as many callers that each wait for a reply would look alike: whether there is a limit is open.
    is_told: bool = True

    @property
    def all_slots(self) -> str:
        """``Requests queue in the client: all 2 RPC slots are in use 89 % of the time``; else what is seen."""
        if not self.is_told:
            return self._either
        slots = "its only RPC slot is" if self.slots == 1 else f"all {self.slots} RPC slots are"
        return f"Requests queue in the client: {slots}{self.in_use}"

    @property
    def of_session(self) -> str:
        """``Requests queue in the client: all 2 slots of its NFSv4.1 session are in use 89 % of the time``."""
        if not self.is_told:
            return self._either
        slots = "the only slot" if self.slots == 1 else f"all {self.slots} slots"
        are = "is" if self.slots == 1 else "are"
        return f"Requests queue in the client: {slots} of its NFSv4.1 session {are}{self.in_use}"

    def is_at_work(self, share: float | None, mean: Layers) -> bool:
        """Packets tell that it is one of slots, and not what it costs."""
        return share is None and self.is_told

    @property
    def _either(self) -> str:
        number = times(self.slots, "call")
        return (
            f"Never more than {number} {'is' if self.slots == 1 else 'are'} in flight: {times(self.slots, 'slot')}, or "
            f"{times(self.slots, 'caller')}; mountstats tells"
        )

    @property
    def in_use(self) -> str:
        """For how much of the busy time, as far as that is known."""
        if self.at_limit_share is None:
            return " in use"
        return f" in use {percent(self.at_limit_share)} of the time"


class AboveWire(Evidence, kw_only=True):
    """Evidence of the finding above-wire."""

    above_wire_ms: float  # of the application's mean
    paused_ms: float  # of that, at most, while the client did not run
    no_connection_ms: float  # while it had no connection
    connecting_ms: float
    window_ms: float  # while the server's window had no room
    behind_loss_ms: float  # behind data that were lost
    slot_wait_ms: float | None  # as the client counts it
    unseen_share: float  # of the messages, those that are not captured
    unseen_ms: float | None  # what each of their ops would have to take to explain all of it


class Serial(Evidence, kw_only=True):
    """Evidence of the finding serial-calls."""

    calls: int
    wire_share: float  # of all response times
    elapsed_ms: float  # from the first call to the last reply
    files: int
    again: int  # of the calls, those that ask what was answered less than 3 s before
    listings: int  # READDIRs whose replies hold no attributes


class Pieces(Evidence, kw_only=True):
    """The parts of a call, of serial-pieces."""

    call: str  # of the application, or its wait
    calls: int
    op: str
    ops: float  # of each call
    size_bytes: float  # of each of them
    call_ms: float
    op_ms: float  # of each of them, on the wire
    network_ms: float  # of a call, all its operations together
    server_ms: float
    above_wire_ms: float  # before, between and behind them
    is_joined: bool = True  # each call with its own; else it is as long as these

    @property
    def why(self) -> str:
        """What they have to do with the call."""
        return "because it is" if self.is_joined else "as long as"

    @property
    def sum(self) -> str:
        """``16.0 READs of 8 KB in a row, 1.30 ms each: 17.6 in the server, 3.20 in the network, 0.56 above ...``."""
        size = f"{self.size_bytes / 1024:.3g} KB" if self.size_bytes >= 1024 else f"{self.size_bytes:.0f} bytes"
        return (
            f"{self.ops:.1f} {self.op}s of {size} in a row, {ms(self.op_ms)} ms each: {ms(self.server_ms)} in the "
            f"server, {ms(self.network_ms)} in the network, {ms(self.above_wire_ms)} above the wire"
        )


def client_findings(facts: Facts) -> list[Diagnosis]:
    """In no order."""
    slots = _slots(facts)
    above = None if slots is not None and slots.share else _above(facts)
    return [one for one in (slots, above, _pieces(facts), _serial(facts)) if one is not None]


def _serial(f: Facts) -> Diagnosis | None:
    """One caller that asks what files are, one after the other: of little weight, for no call is slow by that."""
    s = f.in_series
    if s is None:
        return None
    each = s.calls / max(s.files, 1)
    text = (
        f"one caller asks what {times(s.files, 'file')} {'is' if s.files == 1 else 'are'}, with {s.calls:,} calls "
        f"({each:.1f} a file), each sent after the previous answer had arrived: {span(s.elapsed_ms)}, and "
        f"{percent(s.share)} of all response times"
    )
    if s.again >= _ASKED_AGAIN * s.calls:
        text += (
            f"; {s.again:,} of them repeat a question answered less than 3 s before: noac or a short actimeo, or "
            "files that are opened again and again"
        )
    if s.listings and s.calls - s.listings >= _PER_LISTING * s.listings:
        text += f"; {times(s.listings, 'READDIR')} listed names only; READDIRPLUS returns attributes with them"
    found = diagnosis(
        "serial-calls",
        "client",
        text + "; fewer calls, or several at once, would take less time, however quick each of them is",
        share=None,
        confidence="likely",
        evidence=Serial(
            calls=s.calls,
            wire_share=s.share,
            elapsed_ms=s.elapsed_ms,
            files=s.files,
            again=s.again,
            listings=s.listings,
        ),
        advice=LookAt(
            how=(
                "grep nfs /proc/mounts",
                "# on the client: mount options (noac, actimeo, lookupcache, nordirplus)",
                "# the program: does it stat every file (ls -l, find, backup), and could it do so in parallel?",
            ),
        ),
    )
    return replace(found, severity="info")


def _pieces(f: Facts) -> Diagnosis | None:
    """A call of the application that is several operations, each sent as the answer to the one before has come."""
    p = f.in_pieces
    if p is None or p.network_ms + p.server_ms < _ON_WIRE * p.total_ms:
        return None
    on_wire_ms = p.network_ms + p.server_ms
    evidence = Pieces(
        call=p.call,
        calls=p.calls,
        op=p.op,
        ops=p.ops,
        size_bytes=p.size,
        call_ms=p.total_ms,
        op_ms=on_wire_ms / p.ops,
        network_ms=p.network_ms,
        server_ms=p.server_ms,
        above_wire_ms=p.total_ms - on_wire_ms,
        is_joined=p.is_joined,
    )
    how = f"{p.calls:,} calls, joined with their operations" if p.is_joined else "it goes on where that one ended"
    pieces = diagnosis(
        "serial-pieces",
        "client",
        f"a {p.call} takes {ms(p.total_ms)} ms, {evidence.why} {evidence.sum}; each is sent {ms(p.gap_ms)} ms after "
        f"the answer to the one before, so that none of them waits for a slot ({how})",
        share=None,
        confidence="certain" if p.is_joined else "likely",
        evidence=evidence,
        advice=LookAt(
            knob=f"why the client sends the {p.op}s of a call one after the other",
            how=(
                "grep -E 'rsize|wsize' /proc/mounts",
                "# an rsize (wsize) below what the application asks for splits each call: mount with a larger one",
                "# Oracle: Direct NFS (dNFS) sends the parts of a multi-block read at once, and larger ones",
                "# uname -r: older kernels send what readv asks for, with direct I/O, one buffer after the other",
            ),
            verify=f"fewer or larger {p.op}s for each call, or several in flight at once",
        ),
    )
    return pieces if p.ops >= _LEAST_PIECES else replace(pieces, severity="info")


def _slots(f: Facts) -> Diagnosis | None:
    """A number of slots that is reached for most of the time: from packets alone likely, with outside proof certain."""
    above = f.above_ms
    limit = _limit(f)
    if limit is None:
        return None
    code, count, share_at, where = limit.code, limit.slots, limit.at_limit_share, limit.where
    counted = f.counted(code)
    if counted is False or (counted is None and above is not None and f.share(above) < _SOME):
        return None  # as many callers, then
    if code == "client-slots" and f.is_in_turn and not counted:
        return None  # what waits for a slot is not sent at once
    version = f.version or ("4.1" if code == SESSION_SLOTS else "3")
    mounts = f.client.mounts if f.client else ()
    connections = mounts[0].nconnect if mounts and code == "client-slots" else 1
    # A setting of each connection: what is needed divides among them.
    each = None if f.sessions_needed is None else -(-f.sessions_needed // connections)
    if code == "client-slots" and not counted:
        if _slots_there_are(f) > count // connections:
            return None
        if f.sessions_open is not None and f.sessions_open < count + 0.5:
            return None  # no request is open that has no slot: the client is slow with those that have one
    is_set = f.slots == count // connections or _ceiling(f) == count // connections
    is_told = limit.is_told or above is not None or bool(counted) or is_set
    proves = above is not None and f.share(above) >= _PROVES and f.unseen_ms is None and not f.is_reckoned
    proves = proves and not f.lacks_processors  # of which that time may be
    # What a client counts since its mount may be of another time.
    proves = proves and "app_ms" not in f.since_mount
    is_of_time = "slot_wait_ms" not in f.since_mount
    proven = (counted and is_of_time) or proves or (above is not None and f.slots == count // connections)
    text = (
        f"the client keeps {times(count, 'call')} in flight {where} and hardly ever more"
        if f.client is not None
        else f"the client has {times(count, 'slot')} on each connection"
    )
    if not limit.is_at_work:
        text = f"the client has {times(count, 'call')} in flight at times {where}"
    if share_at is not None:
        text += f" ({percent(share_at)} of the busy time)"
    share = f.share(above) if above is not None and limit.is_at_work else None
    if above is not None and share is not None:
        confidence = "certain" if f.client is not None and (proven or code == SESSION_SLOTS) else "likely"
        of = f"{f.mean.said(above)} ms of the application's {f.mean.said(f.mean.total_ms)} ms"
        text += f"; {of} lie above the wire, where requests wait for a slot"
    elif counted and f.slot_wait_ms is not None:
        confidence = "certain" if is_of_time else "likely"
        since = "" if is_of_time else " since its mount"
        text += f"; the client counts {ms(f.slot_wait_ms)} ms of wait for a slot{since}"
    else:
        confidence = "likely"
        if not is_told:
            text += "; as many callers that each wait for a reply would look alike, and the client's mountstats tell"
        text += "; requests that wait for a slot are not on the wire: give the application's mean (--app-ms)"
    found = diagnosis(
        code,
        "client",
        text,
        share=share,
        confidence=confidence,
        evidence=Slots(
            slots=count,
            slots_each=count // connections,
            at_limit_share=share_at,
            reply_clocked_share=f.client.reply_clocked_share if f.client else None,
            above_wire_ms=above,
            slot_wait_ms=f.slot_wait_ms,
            sessions_needed=f.sessions_needed,
            is_told=is_told,
        ),
        advice=advice.slots(f.client_host, count // connections, each, version, _granted(f)) if is_told else _ASK,
    )
    return found if limit.is_at_work else replace(found, severity="info")


_ASK = LookAt(
    knob="how many slots the client has, and whether requests wait for one",
    how=(
        "sysctl sunrpc.tcp_slot_table_entries sunrpc.tcp_max_slot_table_entries; cat /proc/self/mountstats",
        "nfslat ... --client-snapshot BEFORE AFTER (scripts/snapshot.sh), or --app-ms",
    ),
    verify="if it has as many as are in flight here, they are the limit; if more, the application asks no faster",
)


def _granted(f: Facts) -> int | None:
    """Slots of the session that the server gave, and now wants used; None where there is none, or it is not known."""
    return next((one.limit for one in f.sessions if not one.callbacks), None)


def _slots_there_are(f: Facts) -> int:
    """At least so many on a connection, as is said or as the client says and counts; 0 where nothing is known."""
    mounts = f.client_host.mounts if f.client_host is not None else ()
    return max([f.slots or 0, _ceiling(f) or 0, *(xprt.max_slots or 0 for mount in mounts for xprt in mount.xprts)])


def _ceiling(f: Facts) -> int | None:
    return None if f.client_host is None else f.client_host.setting("sunrpc.tcp_max_slot_table_entries")


class _Limit(NamedTuple):
    code: str
    slots: int
    at_limit_share: float | None  # of the busy time
    where: str  # in a session, where one is known, else on the mount's connections
    is_told: bool  # packets tell that it is one of slots
    is_at_work: bool = True  # for so long that it may be what makes requests slow


def _limit(f: Facts) -> _Limit | None:
    c = f.client
    are_slots = c is not None and c.held == _HELD_BY_SLOTS
    session = next((held for held in f.sessions if not held.callbacks), None)
    in_session = "in its NFSv4.1 session"
    if session is not None and session.limited and session.limit is not None:
        return _Limit(SESSION_SLOTS, session.limit, session.at_limit_share, in_session, is_told=True)
    if session is not None and session.own_limit is not None:
        share = c.at_limit_share if c else None
        return _Limit(SESSION_SLOTS, session.own_limit, share, in_session, is_told=are_slots)
    if c is not None and c.slots_estimate is not None:
        return _Limit("client-slots", c.slots_estimate, c.at_limit_share, _where(f), is_told=are_slots)
    # With time above the wire, a number that is hardly ever exceeded is enough, even where workers could look alike.
    # So it is where the client counts a wait.
    seen = f.unseen_share < _HIDDEN
    is_above = f.above_ms is not None and f.share(f.above_ms) >= _AT_LIMIT
    if c is not None and (is_above or f.counted("client-slots")) and c.mounts and seen:
        levels = [one.level for one in c.mounts[0].connections]
        at_limit = c.at_limit_share is not None and c.at_limit_share >= _AT_LIMIT
        if at_limit and None not in levels:
            slots = sum(level for level in levels if level)
            return _Limit("client-slots", slots, c.at_limit_share, _where(f), is_told=are_slots)
    if session is not None and session.limit is not None and session.at_limit_share:
        return _Limit(SESSION_SLOTS, session.limit, session.at_limit_share, in_session, is_told=True, is_at_work=False)
    if f.slots is not None and c is None and f.mean.client_ms is not None:
        return _Limit("client-slots", f.slots, None, "", is_told=True)
    return None


def _where(f: Facts) -> str:
    connections = f.client.mounts[0].nconnect if f.client and f.client.mounts else 1
    return "on its connection" if connections == 1 else f"on its {connections} connections together"


def _above(f: Facts) -> Diagnosis | None:
    """Time between the application and the wire that no limit explains, nor that nothing could leave the client."""
    above, left = f.mean.client_ms, f.above_ms
    if above is None or left is None or f.share(left) < _SOME:
        return None
    kept = {why: f.kept_ms(why) for why in _KEPT}
    wait = (
        ""
        if f.slot_wait_ms is None
        else f", {ms(f.slot_wait_ms)} ms of it before an RPC is sent, as the client counts it"
    )
    unseen = f.unseen_ms
    return diagnosis(
        "above-wire",
        "client",
        f"{f.mean.said(above)} ms of the application's {f.mean.said(f.mean.total_ms)} ms lie above the client's "
        f"wire{wait}"
        + "".join(f", up to {ms(one)} ms of it because {_KEPT[why]}" for why, one in kept.items() if one)
        + ", and no slot limit is seen to be reached: look at the run queue, paging, the page cache, the application"
        + (
            ""
            if unseen is None
            else f"; {percent(f.unseen_share)} of the operations are not in the captures, and if they took "
            f"{ms(unseen)} ms each, as some do, that explains all of it"
        ),
        share=f.share(left),
        confidence="certain" if unseen is None and not f.is_reckoned else "likely",
        evidence=AboveWire(
            above_wire_ms=above,
            paused_ms=kept[Why.HOST_PAUSE],
            no_connection_ms=kept[Why.NO_CONNECTION],
            connecting_ms=kept[Why.CONNECTING],
            window_ms=kept[Why.WINDOW],
            behind_loss_ms=kept[Why.LOSS],
            slot_wait_ms=f.slot_wait_ms,
            unseen_share=f.unseen_share,
            unseen_ms=unseen,
        ),
        advice=LookAt(
            how=(
                "scripts/snapshot.sh before and after, then nfslat ... --client-snapshot BEFORE AFTER",
                "perf sched latency, vmstat 1, pidstat -w -p PID 1",
            ),
        ),
    )
