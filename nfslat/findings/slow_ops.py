"""Facts -> a finding on ops that the server answers late now and then, or for a part of the time."""

from __future__ import annotations

from typing import ClassVar

from nfslat.findings.diagnosis import Diagnosis, Evidence, LookAt, diagnosis
from nfslat.findings.facts import MATTERS, STORAGE_OPS, TICKS_ALIKE, Facts, SlowOps
from nfslat.findings.starved import late_beside_ms
from nfslat.findings.unseen import between
from nfslat.findings.words import ms, percent, times
from nfslat.inflight.split import APART, FEWEST
from nfslat.wire.above import Why

SLOW_OPS, STORAGE = "server-slow-ops", "server-storage"
# What packets show of storage, and what its own figure proves.
IN_THREAD, STORAGE_PROVEN = "in a thread of the server (file system, locks or disk)", "The server's storage is slow"
OR_PROCESSOR = "in a thread of the server (file system, locks, disk or a busy processor)"
_SLOW_MS = 5.0  # a healthy disk answers sooner
_SOME = 0.05  # of the whole; less is not worth a finding
RETRANSMISSION_MS = 250.0  # its timer, with what passes until its ACK (Linux: 200 ms at the least)
_LOSS_SHARE = 0.5  # of what ops that are not shown took: so much that losses may have made is not the server's
_BLIND = 0.25  # of the messages unseen: how many are slow is not known
_MANY = 1 / 3  # of the ops: as many wait in any queue that is busy for so much of the time
_UNSTABLE = 0.5  # of the slow ones: a server may answer those from memory
_OVERTAKEN = 0.5  # of the slow ones: the server as such did not stand still
_FEW_LIGHT = 3
_QUICK = 0.3  # of the time: storage that takes less is not what they wait for


class Late(Evidence, frozen=True, kw_only=True):
    """Of server-slow-ops; and of server-storage where it is slow now and then."""

    ops: tuple[str, ...]  # operations that are slow at times
    slow_ops: int  # so many of them are
    of_ops: int
    slow_ms: float  # median of those, in a thread
    others_ms: float  # median of the others
    mean_ms: float  # what the slow ones make of the mean over all ops
    begin: str | None  # they come in one part of the time: since when; null: not so, or from the beginning on
    end: str | None  # until when; null: not so, or until the end
    stalls: int  # times in which they come together; 0: they do not
    stall_ms: float | None  # how long these last, median
    every_s: float | None  # from one to the next, where they come regularly
    alone: bool  # they come one by one, as by chance
    overtaken_share: float  # of them: other ops came later and were answered sooner, and quickly
    light_quick: int  # ops that need neither data nor a name, came meanwhile and did not wait
    light_slow: int  # those that did
    storage_ms: float | None = None  # the storage's own mean
    tick_ms: float | None = None  # of stamps: either median may be off by so much
    share_slowest: float | None = None  # of the slowest 1 %

    @property
    def slow_part(self) -> str:
        """What a verdict says where they wait for storage."""
        if self.storage_ms is not None:
            return f"{STORAGE_PROVEN} at times: {self.which} take {ms(self.slow_ms)} ms"
        return f"Some operations take long {IN_THREAD}: {self.which} take {ms(self.slow_ms)} ms"

    @property
    def slow(self) -> str:
        """What each of them takes: ``318.3 ms``."""
        return f"{ms(self.slow_ms)} ms"

    @property
    def others(self) -> str:
        """What the others take, ms: ``0.41``."""
        at_most = self.tick_ms is not None and self.others_ms <= TICKS_ALIKE * self.tick_ms
        return f"up to {ms(self.others_ms)}" if at_most else ms(self.others_ms)

    @property
    def which(self) -> str:
        """``99 of 3,241 READs``."""
        return f"{self.slow_ops:,} of {self.of_ops:,} {_plural(self.ops)}"

    def losses(self, ops: int) -> float:
        """Each of the slow ones."""
        return self.slow_ops


class LateUnseen(Evidence, frozen=True, kw_only=True):
    """Evidence of server-slow-ops, where the captures do not show which are slow."""

    is_recorded: ClassVar[bool] = True
    slow_ops: int  # so many are not shown
    of_ops: int
    least_ms: float  # their mean time in the server, at the least
    most_ms: float
    others_ms: float  # mean of the others

    @property
    def which(self) -> str:
        """``26 of 1,777 operations that no capture shows``."""
        return f"{self.slow_ops:,} of {self.of_ops:,} operations, which no capture shows,"

    @property
    def slow(self) -> str:
        """What each of them takes: ``430.1 to 716.2 ms on average``."""
        return f"{between((self.least_ms, self.most_ms))} ms on average"

    @property
    def others(self) -> str:
        """What the others take, ms: ``5.58``."""
        return ms(self.others_ms)

    def losses(self, ops: int) -> float:
        """Each of the slow ones."""
        return self.slow_ops


def unseen_finding(f: Facts) -> Diagnosis | None:
    """Ops that the captures do not show took the server many times as long as those that they do: replies that come
    in one packet are those of calls that waited together."""
    u = f.unseen
    if u is None or not u.matters or u.ops < FEWEST or u.share > _BLIND:
        return None
    least_ms, most_ms = u.of_each_ms
    seen_ms = max(u.seen.server_ms, 0.0)
    share = least_ms * u.share / f.mean.total_ms
    if least_ms < max(f.long_ms, APART * seen_ms) or share < MATTERS:
        return None
    # What a reply waits in the server's socket for lost data, or for room, is time of the network.
    waits_ms = (f.lost_segments or 0) * RETRANSMISSION_MS
    none = f.kept_above.get(Why.NO_CONNECTION)
    if none is not None and none.longest_ms >= least_ms:
        return None  # they may have waited for a connection
    if waits_ms >= _LOSS_SHARE * least_ms * u.ops or max(u.seen.moved_ms.get("network", 0.0), 0.0) > _SOME * seen_ms:
        return None
    evidence = LateUnseen(
        slow_ops=u.ops,
        of_ops=f.ops + u.ops,
        least_ms=least_ms,
        most_ms=most_ms,
        others_ms=seen_ms,
    )
    text = (
        f"{evidence.which} take {evidence.slow} in the server, by their calls and the packets that hold their replies, "
        f"and the others {evidence.others} ms; whether it is the whole server, its threads or its storage is not known"
    )
    return diagnosis(SLOW_OPS, "server", text, share=share, confidence="likely", evidence=evidence, advice=_SERVER)


def slow_finding(f: Facts) -> Diagnosis | None:
    """Most of a server's time is made by ops that take many times as long as the others of their kind."""
    s = f.slow_ops
    if s is None or s.slow_ms < _SLOW_MS or f.share(s.mean_ms) < _SOME or f.unseen_share > _BLIND:
        return None
    if s.slow > _MANY * s.of and not _is_told_apart(s):
        return None
    if f.storage_ms is None and late_beside_ms(f, s):
        return None  # what they wait for may be a processor
    evidence = Late(
        ops=s.ops,
        slow_ops=s.slow,
        of_ops=s.of,
        slow_ms=s.slow_ms,
        others_ms=s.others_ms,
        mean_ms=s.mean_ms,
        begin=(s.part[0] or None) if s.part else None,
        end=(s.part[1] or None) if s.part else None,
        stalls=s.stalls,
        stall_ms=s.stall_ms if s.stalls else None,
        every_s=s.every_s or None,
        alone=s.alone,
        overtaken_share=s.overtaken,
        light_quick=s.light_quick,
        light_slow=s.light_slow,
        storage_ms=f.storage_ms,
        tick_ms=f.tick_ms,
    )
    text = (
        f"{evidence.which} ({percent(s.slow / s.of)}) take {ms(s.slow_ms)} ms in the server, and the others "
        f"{evidence.others} ms (medians){_how(s)}"
    )
    measured = f.storage_ms is not None and f.storage_ms >= _QUICK * f.in_thread_ms
    from_packets = f.storage_ms is None and _others_go_on(s) and s.unstable <= _UNSTABLE
    is_storage = STORAGE_OPS.issuperset(s.ops) and (measured or from_packets)
    if f.storage_ms is not None:
        text += f"; the storage's own figure is {ms(f.storage_ms)} ms on average"
    return diagnosis(
        STORAGE if is_storage else SLOW_OPS,
        "server",
        text + _beside(f, s),
        share=f.share_within("server", s.mean_ms),
        slowest=f.slowest_share(s.slowest_ms),
        confidence="certain" if is_storage and measured else "likely",
        evidence=evidence,
        advice=_STORAGE if is_storage else _SERVER,
    )


def _is_told_apart(s: SlowOps) -> bool:
    """How they come, or what goes on beside them, is more than that ops which meet others wait for them."""
    return bool(s.part is not None or s.stalls or s.every_s) or _others_go_on(s)


def _others_go_on(s: SlowOps) -> bool:
    return s.overtaken >= _OVERTAKEN and s.light_slow < max(_FEW_LIGHT, s.light_quick)


def _how(s: SlowOps) -> str:
    """How they come, where that is known."""
    if s.part is not None:
        begin, end = s.part
        span = f"from {begin} on" if not end else f"until {end}" if not begin else f"from {begin} to {end}"
        return f"; they come {span}"
    every = f"every {s.every_s:.3g} s" if s.every_s else ""
    if s.stalls:
        stalls = f"one stall of {ms(s.stall_ms)} ms" if s.stalls == 1 else f"{s.stalls:,} stalls of {ms(s.stall_ms)} ms"
        return f"; they come together, in {stalls}{every and f', {every}'}"
    if every:
        return f"; they come {every}"
    return "; they come one by one, as by chance" if s.alone else ""


def _beside(f: Facts, s: SlowOps) -> str:
    """What else the server did meanwhile, as far as that is known."""
    if s.light_slow >= _FEW_LIGHT and s.light_slow > s.light_quick:
        return f"; {times(s.light_slow, 'op')} that need no data wait as well: the whole server is stalled then"
    if _others_go_on(s):
        if s.light_quick >= _FEW_LIGHT:
            return f", while {times(s.light_quick, 'op')} that need no data are answered at once"
        return ", while others that come meanwhile are answered at once"
    if f.server is not None and f.server.cannot:
        return f"; whether they wait for a thread, for storage or for a lock cannot be told: {f.server.cannot}"
    # What is alone in the server waits for no thread.
    threads = "" if f.server is not None and f.server.max == 1 else ", its threads"
    return (
        f"; hardly any other is answered meanwhile, so whether it is the whole server{threads} or its storage is not "
        "known"
    )


def _plural(ops: tuple[str, ...]) -> str:
    *some, last = [f"{op}s" for op in ops]
    return f"{', '.join(some)} and {last}" if some else last


_STORAGE = LookAt(
    knob="the storage behind the server, or the file system's locks, at these moments",
    how=(
        "iostat -x 1 on the server: r_await, w_await and %util of the exported device, second by second",
        "dmesg -T: resets and timeouts of disks and paths; the array's log: cache flushes, snapshots, rebuilds",
        "nfslat show ... --slowest 3: which files and offsets",
    ),
    verify="the device's await at these moments against this figure",
)
_SERVER = LookAt(
    knob="what the server does at these moments",
    how=(
        "iostat -x 1 and vmstat 1 on the server: its storage, its run queue, and steal time, second by second",
        "grep ^th /proc/net/rpc/nfsd; cat /proc/fs/nfsd/pool_stats: threads, and who waits for one",
        "dmesg -T: hung tasks, resets of disks and paths, lockups",
        "# what runs at these moments: snapshots, backups, scrubs, garbage collection, migration",
        "nfslat ... --start and --end: the report for that part of the time alone",
    ),
    verify="the device's await at these moments against this figure: it is the storage, or it is not",
)
