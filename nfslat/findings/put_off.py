"""Facts -> findings on NFS errors: requests that were put off and tried again, and what the server has no more."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from nfslat.findings.diagnosis import Diagnosis, Evidence, LookAt, diagnosis
from nfslat.findings.facts import Facts, PutOff
from nfslat.findings.words import ms, percent, span, times

GRACE, DELAY, LOCKS, STATE, LOST = "server-grace", "server-delay", "lock-wait", "state-lost", "handles-lost"
_CODES = {"grace": GRACE, "delay": DELAY, "locked": LOCKS, "state": STATE}
# Whose it is. A lock is held by an application, of this client or of another.
_LAYERS = {"grace": "server", "delay": "server", "locked": "client", "state": "server"}
_SOME = 0.05  # of all the time of requests
# A delegation that is called back has its file's next user come again, once, 0.1 s later: that is no problem.
_LONG_MS, _OFTEN = 1000.0, 3  # a request that waited so long, or so many further tries
_LEAST_SUCCEEDED = 10  # requests that had a lock after several tries
_STORM, _STORM_SHARE = 20, 0.1  # answers, and their share of the ops
_FITS = 0.7  # of the waits for the next try that Linux makes: timers run late, and recovery begins anew


class TriedAgain(Evidence, kw_only=True):
    """Of server-grace, server-delay, lock-wait and state-lost."""

    requests: int  # that were tried again, at least
    tries: int  # of these
    answers: int  # that put requests off
    answers_of: int  # calls of these operations
    statuses: Mapping[str, int]  # of these answers
    succeeded: int  # requests
    open: int  # requests that were put off to the end of the capture: their times are at least those
    mean_ms: float  # of the requests, from the first try to the last answer
    longest_ms: float
    total_between_ms: float  # of all of them what passed between tries, which no response time holds
    between_ms: float  # the same as a mean over the ops, of an application's time no more than there is
    since: str  # the first of these answers' calls, client's clock
    until: str  # the last answer
    back_off_fits: int  # waits for the next try that a client's known back-off makes
    back_off_of: int
    recoveries: int  # times in which the client made its session or leases anew
    recovery_ms: float  # all of these
    # clients that had locks on these files, or were asked for delegations of them, and how often; the most first
    holders: Mapping[str, int] = {}

    @property
    def each(self) -> str:
        """``4 requests took 60.2 s each from the first try to the last answer``."""
        if self.requests == 1:
            return f"1 request took {span(self.longest_ms)} from its first try to the last answer"
        most = "" if span(self.longest_ms) == span(self.mean_ms) else f", {span(self.longest_ms)} at most"
        return f"{self.requests:,} requests took {span(self.mean_ms)} each{most} from the first try to the last answer"

    @property
    def answered(self) -> str:
        """``answered NFS4ERR_GRACE 40 times``."""
        name = next(iter(self.statuses))
        of = f" of {self.answers_of:,}" if self.answers_of > self.statuses[name] else ""
        return f"answered {name} {self.statuses[name]:,}{of} {'time' if self.answers_of == 1 else 'times'}"

    @property
    def tried(self) -> str:
        """What a verdict says: both, or of requests that nobody tried again the answers."""
        return f"{self.each}, {self.answered}" if self.requests else f"it {self.answered}"


class Lost(Evidence, kw_only=True):
    """Of handles-lost."""

    answers: int
    statuses: Mapping[str, int]
    answers_share: float  # of the ops

    @property
    def answered(self) -> str:
        """``NFS3ERR_STALE 40 times``."""
        name = next(iter(self.statuses))
        return f"{name} {times(self.statuses[name], 'time')}"


def error_findings(facts: Facts) -> list[Diagnosis]:
    """In no order."""
    found = [_tried_again(facts, reason, facts.put_off[reason]) for reason in _CODES if reason in facts.put_off]
    return [one for one in (*found, _lost(facts)) if one is not None]


def put_off_by_layer(f: Facts) -> dict[str, float]:
    """Of an application's time what passes between tries, by the layer other than the client that put them off."""
    if f.mean.client_ms is None:
        return {}
    out: dict[str, float] = {}
    for reason, layer in _LAYERS.items():
        if layer != "client" and f.put_off_ms(reason):
            out[layer] = out.get(layer, 0.0) + f.put_off_ms(reason)
    return out


def _tried_again(f: Facts, reason: str, p: PutOff) -> Diagnosis | None:
    share = f.put_off_share(reason)
    waits = share >= _SOME and (p.longest_ms >= _LONG_MS or p.tries - p.requests >= _OFTEN)
    storm = reason == "state" and p.answers >= max(_STORM, _STORM_SHARE * f.ops)
    if not (waits or storm):
        return None
    evidence = TriedAgain(
        **{name: getattr(p, name) for name in TriedAgain.__dataclass_fields__ if name in PutOff.__dataclass_fields__}
        | {"statuses": dict(p.statuses), "holders": dict(p.holders), "between_ms": f.put_off_ms(reason)},
        answers_of=sum(row.count for row in f.by_op if row.op in p.ops),
        recoveries=len(f.recoveries),
        recovery_ms=sum(one for _, one in f.recoveries),
    )
    # Nobody may wait for a lock that is looked at again and again, as by a program that stands by: an application's
    # time tells, or many who get it in the end.
    is_contended = p.succeeded >= _LEAST_SUCCEEDED and p.succeeded >= p.requests / 2
    known = reason != "locked" or f.mean.client_ms is not None or is_contended
    fits = p.back_off_of and p.back_off_fits >= _FITS * p.back_off_of
    found = diagnosis(
        _CODES[reason],
        _text(f, reason, evidence, p, share, is_known=known),
        layer=_LAYERS[reason],
        share=share if waits and known else None,
        confidence="certain" if reason in ("grace", "delay") and fits else "likely",
        evidence=evidence,
        advice=_ADVICE[reason],
    )
    return found if known else replace(found, severity="info")


_WHY = {
    "grace": "the server was in its grace period, as after a start or a failover, in which clients may reclaim the "
    "locks and open files they had, but get nothing new",
    "delay": "the server told clients to retry later: it is recalling a delegation from another client, or is "
    "waiting for something itself",
    "locked": "another client held the lock, and whoever waits for it polls",
    "state": "the server did not know the session, the lease or the state that requests went by: it was restarted, "
    "or had not heard of the client for too long, or the client mixed its requests up",
}


_HOLD = {"locked": "Locks on these files are given to", "delay": "Delegations of these files are called back from"}


def _text(f: Facts, reason: str, e: TriedAgain, p: PutOff, share: float, *, is_known: bool) -> str:
    answers = ", ".join(f"{count:,} {name}" for name, count in p.statuses.items())
    of = f"{' and '.join(p.ops[:3])}{' and others' if len(p.ops) > 3 else ''}"
    text = f"{_WHY[reason]}: it answered {answers} to {of} from {p.since} to {p.until}"
    if p.requests:
        whole = "of the application's time" if f.mean.client_ms is not None else "of all the time of requests"
        much = f", {percent(share)} {whole}" if is_known else ""
        text += (
            f". {e.each}, {p.tries:,} tries in all; {span(p.total_between_ms)} of it passed between tries{much}, and "
            "no response time holds it"
        )
        if not much:
            text += (
                "; whether anybody waited for it, or stood by, the application knows: give its mean (--app-ms LOCK=)"
            )
    if p.open:
        still = "it was" if p.requests == 1 else f"{p.open:,} of them were"
        text += f". {still[0].upper()}{still[1:]} still put off when the capture ended: at least that long"
    if e.holders and reason in _HOLD:
        listed = ", ".join(f"{client} ({times(count, 'time')})" for client, count in list(e.holders.items())[:3])
        text += f". {_HOLD[reason]} {listed}"
    if f.recoveries and reason in ("grace", "state"):
        at, took = f.recoveries[0]
        more = f", and {times(len(f.recoveries) - 1, 'time')} more" if len(f.recoveries) > 1 else ""
        text += f". The client re-established its state at {at}, which took {ms(took)} ms{more}"
    return text


def _lost(f: Facts) -> Diagnosis | None:
    p = f.put_off.get("lost")
    if p is None or p.answers < max(_STORM, _STORM_SHARE * f.ops):
        return None
    answers = ", ".join(f"{count:,} {name}" for name, count in p.statuses.items())
    return diagnosis(
        LOST,
        f"{percent(p.answers / f.ops)} of the calls ask for what the server no longer has: it answered {answers} to "
        f"{' and '.join(p.ops[:3])} from {p.since} to {p.until}; a file that another client removed, or a file "
        "system that was exported or restored",
        share=None,
        confidence="likely",
        evidence=Lost(answers=p.answers, statuses=dict(p.statuses), answers_share=p.answers / f.ops),
        advice=LookAt(
            how=(
                "# on the client: which mount, and whether its files are there: stat on it; umount and mount it again",
                "# on the server: exportfs -v (fsid= the same as before?), and whether the file system is mounted",
            ),
        ),
    )


_ADVICE = {
    "grace": LookAt(
        how=(
            "# on the server: who restarted it, and when: journalctl -u nfs-server",
            "cat /proc/fs/nfsd/nfsv4gracetime /proc/fs/nfsd/nfsv4leasetime",
            "# nfsdcld has to run: with it the grace period ends as soon as all clients have their state back",
        ),
        verify="no NFS4ERR_GRACE in a new capture of a restart for longer than clients need to claim their locks",
        risk="a grace period that is too short lets others take locks that clients still think they have",
    ),
    "delay": LookAt(
        how=(
            "# on the server: who has delegations and opens: cat /proc/fs/nfsd/clients/*/states",
            "# NFSv3: mountd that does not answer, file systems that fetch files from tape: journalctl -u nfs-mountd",
        ),
        verify="no NFS4ERR_DELAY or NFS3ERR_JUKEBOX in a new capture",
        risk="without delegations (sysctl fs.leases-enable=0 on the server) clients open and close files by asking",
    ),
    "locked": LookAt(
        how=("# on the server: cat /proc/locks, and for NFSv4 cat /proc/fs/nfsd/clients/*/states",),
        verify="no NFS4ERR_DENIED, NFS4ERR_LOCKED or NLM4_DENIED in a new capture",
    ),
    "state": LookAt(
        how=(
            "# on the server: was it started anew (journalctl -u nfs-server), has it let a lease expire (dmesg -T)?",
            "# on the client: two hosts with one name share a client ID: cat /sys/module/nfs/parameters/"
            "nfs4_unique_id, hostname",
            "# a client that slept, or was cut off, for longer than the lease: cat /proc/fs/nfsd/nfsv4leasetime",
        ),
        verify="no such status in a new capture",
    ),
}
