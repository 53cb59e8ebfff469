"""A host, a value in effect and the number needed -> what to set, the commands, when it acts, how to check, the risk.

What findings print as advice, and `nfslat tune` too. Without a snapshot the Linux commands are given and other systems
named. A command is a line that can be typed as root; a line that begins with # is for the reader.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nfslat.answer.advice import Advice
from nfslat.findings.tune.form import MORE_LOAD, PER_CONNECTION, REMOUNT, linux_slots, sources, told, with_headroom
from nfslat.findings.tune.slots import slots

if TYPE_CHECKING:
    from nfslat.evidence.records import Snapshot

__all__ = ["Advice", "connection_cap", "slots", "tcp_switch", "threads"]

_MOST_CONNECTIONS = 16  # fact nconnect


def threads(snapshot: Snapshot | None, in_effect: int | None, needed: int | None) -> Advice:
    """More NFS server threads; `snapshot` is the server's.

    `needed` is the most calls that were in flight at the server: with that many threads none of them would have waited.
    """
    system = "" if snapshot is None else snapshot.system
    suggested = _suggested_threads(system, in_effect, needed)
    risk = f"{MORE_LOAD}; a slow back end stays slow, and its queue grows"
    if system == "SunOS":
        return Advice(
            knob="nfs.servers",
            value=told(in_effect),
            suggested=str(suggested),
            how=(
                f"sharectl set -p servers={suggested} nfs",
                "svcadm restart svc:/network/nfs/server:default",
            ),
            takes_effect="when nfs/server is restarted; clients wait a few seconds meanwhile",
            verify="sharectl get -p servers nfs",
            risk=f"{risk}; threads are made only when they are needed",
            sources=sources("solaris-threads", "solaris-set", "solaris-case"),
        )
    if system == "FreeBSD":
        return Advice(
            knob="vfs.nfsd.maxthreads",
            value=told(in_effect),
            suggested=str(suggested),
            how=(
                f"sysctl vfs.nfsd.maxthreads={suggested}",
                f"# for the next start add to nfs_server_flags in /etc/rc.conf: --maxthreads {suggested}",
            ),
            takes_effect="at once",
            verify="sysctl vfs.nfsd.maxthreads vfs.nfsd.threads",
            risk=risk,
            sources=sources("freebsd-threads"),
        )
    if system == "AIX":
        return Advice(
            knob="nfs_max_threads",
            value=told(in_effect),
            suggested="3891",
            how=("chnfs -n 3891",),
            takes_effect="chnfs restarts nfsd; clients wait a few seconds meanwhile",
            verify="nfso -o nfs_max_threads",
            risk=risk,
            sources=sources("aix-threads"),
        )
    older = snapshot is not None and re.match(r"(?:rhel|centos|ol) [4-7]\b", snapshot.distribution) is not None
    linux = (
        f"rpc.nfsd {suggested}",
        f"# or: nfsdctl threads {suggested}; or: echo {suggested} >/proc/fs/nfsd/threads",
        f"# for the next start, in /etc/sysconfig/nfs: RPCNFSDCOUNT={suggested}"
        if older
        else f"# for the next start, in /etc/nfs.conf under [nfsd]: threads={suggested}",
    )
    others = (
        f"# Solaris: sharectl set -p servers={suggested} nfs; FreeBSD: nfsd --maxthreads {suggested};"
        " AIX: chnfs -n; a filer: see its manual",
    )
    return Advice(
        knob="nfsd.threads",
        value=told(in_effect),
        suggested=str(suggested),
        how=linux if system == "Linux" else (*linux, *others),
        takes_effect="at once, without a remount",
        verify="cat /proc/fs/nfsd/threads; in /proc/fs/nfsd/pool_stats threads-woken keeps up with sockets-enqueued",
        risk=f"{risk}; each thread has a buffer of up to 1 MiB",
        sources=sources("threads-set", "threads-default", "threads-memory", "pool-stats")
        + (sources("threads-older") if older else ())
        + (() if system == "Linux" else sources("solaris-set", "freebsd-threads", "aix-threads")),
    )


def _suggested_threads(system: str, in_effect: int | None, needed: int | None) -> int:
    if needed is not None:
        return max(with_headroom(needed), in_effect or 0)
    if system == "SunOS" and (in_effect or 0) < 512:
        return 512  # fact solaris-case
    return 64 if (in_effect or 0) < 64 else 2 * (in_effect or 0)


def connection_cap(snapshot: Snapshot | None, in_effect: int | None, needed: int | None) -> Advice:
    """A server that takes no more than `in_effect` requests of one connection; `needed` is for all connections.

    `snapshot` is the server's: the limit of a Linux server is a setting of its own
    (``svc_rpc_per_connection_limit``). For others the advice is for the clients, which need no snapshot.
    """
    cap = in_effect or PER_CONNECTION
    connections = min(max(-(-with_headroom(needed) // cap) if needed else 2, 2), _MOST_CONNECTIONS)
    knob = "sunrpc.tcp_max_slot_table_entries"
    own = None if snapshot is None else snapshot.setting("sunrpc.svc_rpc_per_connection_limit")
    if own:
        return Advice(
            knob="sunrpc.svc_rpc_per_connection_limit",
            value=str(own),
            suggested="0",
            how=("echo 0 >/sys/module/sunrpc/parameters/svc_rpc_per_connection_limit",),
            takes_effect="for calls that arrive afterwards",
            verify="cat /sys/module/sunrpc/parameters/svc_rpc_per_connection_limit",
            risk="one client can take all threads of the server",
            sources=sources("connection-limit"),
        )
    return Advice(
        knob="nconnect",
        value=told(in_effect) if in_effect is None else f"{in_effect} requests in flight on a connection",
        suggested=f"nconnect={connections}, and no more than {cap} slots a connection",
        how=(
            *linux_slots(knob, cap),
            f"# in /etc/fstab, or mount -o, for every mount of that server: nconnect={connections}",
        ),
        takes_effect=REMOUNT,
        verify="ss -tn dport = :2049 shows the connections; the server's window no longer shrinks (capture)",
        risk=MORE_LOAD,
        sources=sources("connection-cap", "nconnect", "nconnect-slots", "slots-when"),
    )


def tcp_switch(name: str, value: str) -> Advice:
    """A TCP feature of Linux that is switched off and should be on: `name` as sysctl has it."""
    return Advice(
        knob=name,
        value=value,
        suggested="1",
        how=(
            f"sysctl -w {name}=1",
            f"# for the next boot take {name}={value} out of /etc/sysctl.conf and /etc/sysctl.d",
        ),
        takes_effect="for new connections only: unmount every mount of that server first, or restart the NFS server",
        verify=f"sysctl {name}",
        risk="none known: 1 is the default, but someone may have had a reason to change it",
        sources=sources("tcp-scaling" if "scaling" in name else "tcp-sack"),
    )
