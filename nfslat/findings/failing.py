"""Facts -> findings on operations that the server answers with errors which are no part of normal life."""

from __future__ import annotations

from msgspec.structs import replace

from nfslat.findings.diagnosis import Diagnosis, Evidence, LookAt, diagnosis
from nfslat.findings.facts import Facts, Failing
from nfslat.findings.layers import Layers
from nfslat.findings.words import percent, times
from nfslat.model.statuses import RPC_STATUSES, rpc_status_name

CODE = "operations-fail"
_LEADING_SHARE = 0.5  # of an operation
_LEADING_OF_ALL = 0.01  # of all operations, too: a few of a rare one lead nothing
_LEAST_OPS, _LEAST_SHARE = 5, 0.1  # that are worth a warning
_LEAST_REFUSED, _LEAST_REFUSED_SHARE = 20, 0.2  # answers to who asks what it may: a search meets some anywhere
# What a server says when it cannot, and not because of what was asked.
_GRAVE = frozenset(
    "NOSPC DQUOT IO NXIO NODEV ROFS SERVERFAULT RESOURCE FBIG MOVED BADOWNER BADXDR NOLOCKS FAILED".split()
) | {rpc_status_name(accept) for accept in RPC_STATUSES}
_REFUSED = frozenset("ACCES PERM NAMETOOLONG".split())
_MOUNTING = "MNT"  # with any error nothing is mounted
# A client that asks for these has asked before whether it may.
_CHECKED = frozenset("READ WRITE COMMIT CREATE MKDIR SYMLINK MKNOD REMOVE RMDIR RENAME LINK SETATTR".split())
_WHAT_TO_DO = {
    "NOSPC": ("df -h; df -i # on the server: the exported file system", "space, or inodes, of the file system"),
    "DQUOT": ("repquota -a # on the server", "the quota of that user"),
    "IO": ("dmesg -T | tail -50; smartctl -a DISK # on the server", "the server's disks and file system"),
    "ROFS": ("grep ' ro' /proc/mounts; dmesg -T | tail -50; exportfs -v # on the server", "why it is read-only"),
    "SERVERFAULT": ("journalctl -u nfs-server --since '-1 h'; dmesg -T | tail -50 # on the server", "its log"),
    "ACCES": ("exportfs -v # on the server: root_squash, anonuid, sec=; id USER on both hosts", "rights and exports"),
    "PERM": ("exportfs -v # on the server: root_squash, anonuid, sec=; id USER on both hosts", "rights and exports"),
    "MOVED": ("exportfs -v # on the server: refer=; nfsstat -m # on the client: what it mounts", "where it moved to"),
    "BADOWNER": ("nfsidmap -l; grep Domain /etc/idmapd.conf # on both hosts", "names of users and groups"),
    rpc_status_name(9): (
        "journalctl -u gssproxy -u rpc-svcgssd -u rpc-gssd --since '-1 h'; klist -k # on both hosts; exportfs -v: sec=",
        "credentials: GSS contexts, sec= of the export",
    ),
}
_ELSE = ("journalctl -u nfs-server --since '-1 h' # on the server", "what the server says of it")


class Failed(Evidence, kw_only=True):
    """What the finding operations-fail rests on."""

    op: str
    status: str
    ops: int  # answered so
    of: int  # of this operation
    ops_share: float
    of_all: float  # of all operations
    clients: int
    client: str  # with most of them
    files: int  # as far as handles are seen

    @property
    def fail(self) -> str:
        """What a verdict says of it."""
        return f"{percent(self.ops_share)} of the {self.op}s fail: {times(self.ops, 'time')} {self.status}"

    def is_at_work(self, share: float | None, mean: Layers) -> bool:
        """It is most of an operation, and of more than a few calls."""
        return self.ops_share >= _LEADING_SHARE and self.of_all >= _LEADING_OF_ALL


def failing_findings(f: Facts) -> list[Diagnosis]:
    """One for each operation and status that stands out, those with the largest share first."""
    made = [_finding(f, group) for group in f.failing if _is_worth_it(group)]
    return sorted(made, key=lambda finding: -finding.evidence.ops_share)  # type: ignore[attr-defined]  # `Failed`


def _plain(status: str) -> str:
    return status.removeprefix("NLM4_").removeprefix("DENIED_").rpartition("ERR_")[2]


def _is_grave(group: Failing) -> bool:
    name = _plain(group.status)
    return group.op == _MOUNTING or name in _GRAVE or (name in _REFUSED and group.op in _CHECKED)


def _is_worth_it(group: Failing) -> bool:
    share = group.ops / group.of
    if _is_grave(group):
        return group.ops >= _LEAST_OPS and share >= _LEAST_SHARE
    is_refused = _plain(group.status) in _REFUSED
    return is_refused and group.ops >= _LEAST_REFUSED and share >= _LEAST_REFUSED_SHARE


def _finding(f: Facts, group: Failing) -> Diagnosis:
    how, knob = _WHAT_TO_DO.get(_plain(group.status), _ELSE)
    evidence = Failed(
        op=group.op,
        status=group.status,
        ops=group.ops,
        of=group.of,
        ops_share=group.ops / group.of,
        of_all=group.ops / max(f.ops, 1),
        clients=len(group.clients),
        client=group.clients[0],
        files=group.files,
    )
    of_files = f" on {times(group.files, 'file')}" if group.files else ""
    names = f" ({', '.join(group.names)})" if group.names else ""
    of_clients = group.clients[0] if len(group.clients) == 1 else f"{len(group.clients):,} clients"
    text = (
        f"the server answers {group.ops:,} of {times(group.of, group.op)} ({percent(evidence.ops_share)}) with "
        f"{group.status}: calls of {of_clients}{of_files}{names}, from {group.since} to {group.until}; an application "
        "sees an error, however quick the answer is"
    )
    found = diagnosis(
        CODE,
        "server",
        text,
        share=None,
        confidence="certain",
        evidence=evidence,
        advice=LookAt(
            knob=knob,
            how=(how, "# which calls: nfslat ... --csv ops.csv, column status"),
            verify=f"no {group.status} in a new capture",
        ),
    )
    return found if _is_grave(group) else replace(found, severity="info")
