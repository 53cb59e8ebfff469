"""The name of a setting, and the system that has it -> default, limit and the sourced facts that nfslat may print.

Nothing about a knob is printed that is not in `FACTS`; docs/tuning.md has the same rows, which a test holds. Sources
with a file and line are of Linux 6.12.117 unless they say otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from nfslat.evidence.records import Snapshot


class Fact(NamedTuple):
    """One thing that is known, and where it is written."""

    text: str
    source: str


_AZURE = "Azure NetApp Files: Linux concurrency best practices"
MOST_SLOTS = 65536  # facts slots-ceiling and slots-first: so many are never in flight
_IP_SYSCTL = "Documentation/networking/ip-sysctl.rst"

FACTS: Mapping[str, Fact] = {
    "slots-ceiling": Fact(
        "`sunrpc.tcp_max_slot_table_entries` is the ceiling of each connection's slot table; default 65536",
        "net/sunrpc/xprtsock.c:75",
    ),
    "slots-first": Fact(
        "`sunrpc.tcp_slot_table_entries` is what a connection starts with and keeps; default 2, range 2 to 65536",
        "include/linux/sunrpc/xprt.h:22-25, net/sunrpc/xprtsock.c:74",
    ),
    "slots-udp": Fact("`sunrpc.udp_slot_table_entries` defaults to 16", "net/sunrpc/xprtsock.c:73"),
    "slots-fixed": Fact(
        "A kernel without `sunrpc.tcp_max_slot_table_entries` has a fixed table that is set at the mount:"
        " `sunrpc.tcp_slot_table_entries`, default 16, limit 128. RHEL 6 has the growing table from 6.3 on",
        "include/linux/sunrpc/xprt.h of Linux 3.0; Azure: SAP HANA on NFS",
    ),
    "slots-when": Fact(
        "Slot settings hold for new connections: every mount of that server is unmounted first", "SUSE KB 000019281"
    ),
    "slots-boot": Fact(
        "sysctl.d is applied early at boot and misses sunrpc, which is loaded later; modprobe.d is read with it",
        "sysctl.d(5); SAP note 3024346; module_param_named in net/sunrpc/xprtsock.c",
    ),
    "slots-misspelt": Fact("Vendor pages misspell the knob, `sunrpc.max_tcp_slot_table_entries` for instance", _AZURE),
    "backlog": Fact(
        "A connection's wait for slots: sum of waiting requests over transmissions (`bklog_u / sends` in mountstats)",
        "net/sunrpc/xprtsock.c:2948; nfs-iostat.py of nfs-utils",
    ),
    "queue-time": Fact(
        "mountstats' queue time of an operation is its last transmission less its start; a resend lengthens it",
        "net/sunrpc/stats.c:159-231",
    ),
    "session-slots": Fact(
        "`nfs.max_session_slots`, NFSv4.1 and later: default 64 (16 in kernels 3.x), ceiling 1024",
        "fs/nfs/nfs4session.h:12-14",
    ),
    "session-callbacks": Fact(
        "`nfs.max_session_cb_slots`: default 16 (1 before 2019)", "fs/nfs/nfs4session.h; commit 067c46967160"
    ),
    "session-set": Fact(
        "`options nfs max_session_slots=N` in modprobe.d and a reboot; the module parameter can be written, too, and a"
        " new session takes it",
        f"{_AZURE}; module_param in fs/nfs/super.c",
    ),
    "session-shared": Fact(
        "All connections of a session share its slots: nconnect does not multiply them", f"{_AZURE}, NFSv4.1 example 2"
    ),
    "session-granted": Fact(
        "The server grants slots: Linux 6.12 up to 160 a session, less by the memory of its duplicate reply cache;"
        " from 6.14 on demand, up to 2048",
        "fs/nfsd/state.h:217; commit c2340cd75a0c",
    ),
    "session-wait": Fact(
        "Who waits for a session slot is not in the transport's backlog: that can be 0 while the queue time is long",
        "fs/nfs/nfs4proc.c; net/sunrpc/sched.c:824",
    ),
    "v40-slots": Fact(
        "NFSv4.0 has a table of 1024 slots and negotiates nothing: the connection's slots are what counts",
        "fs/nfs/nfs4client.c:351",
    ),
    "nconnect": Fact("`nconnect` makes 1 to 16 connections to a server", "nfs(5); fs/nfs/fs_context.c:37"),
    "nconnect-slots": Fact(
        "Each connection has a slot table: with NFSv3 nconnect multiplies the slots", f"{_AZURE}, NFSv3 example 3"
    ),
    "connection-cap": Fact(
        "ONTAP and Azure NetApp Files take 128 requests at once from a connection, and 180 from an NFSv4.1 session;"
        " above it they shrink the window (EMS `nblade.execsOverLimit`)",
        f"{_AZURE}; ONTAP EMS reference",
    ),
    "transfer-size": Fact("`rsize` and `wsize` go up to 1048576 bytes", "nfs(5)"),
    "payload": Fact("A Linux server carries up to 1 MiB in a call", "include/linux/sunrpc/svc.h:131"),
    "timeo": Fact("`timeo` of a TCP mount is 60 s (600 tenths), then 60 s more each time up to 600 s", "nfs(5)"),
    "threads-default": Fact(
        "A Linux server starts 16 threads with nfs-utils from 2024-11 on, 8 before; the kernel does not matter",
        "nfs-utils commit eb5abb5c; nfsdctl(8)",
    ),
    "threads-set": Fact(
        "Linux: `rpc.nfsd N`, `nfsdctl threads N` or a number written to /proc/fs/nfsd/threads act at once;"
        " `threads=` in [nfsd] of /etc/nfs.conf is for the next start",
        "rpc.nfsd(8), nfsdctl(8), nfs.conf(5)",
    ),
    "threads-older": Fact(
        "RHEL 4 to 7 read `RPCNFSDCOUNT` in /etc/sysconfig/nfs for the next start",
        "Red Hat: How to increase the number of threads created by the NFS daemon in RHEL 4, 5, 6 and 7?;"
        " comments of /etc/sysconfig/nfs",
    ),
    "threads-memory": Fact(
        "Linux sizes a thread's payload buffer at 1/4096 of memory, at most 1 MiB (from 4 GiB of memory on)",
        "nfsd_get_default_max_blksize in fs/nfsd/nfssvc.c",
    ),
    "pool-stats": Fact(
        "pool_stats counts each enqueue of a socket and each thread that was woken for one: where threads are free"
        " the two agree. Real knfsd: 0.02 to 0.04 woken per enqueue with too few threads, 0.9 to 1.0 without",
        "net/sunrpc/svc_xprt.c (6.1, 6.12); measured on 33 pairs of hosts like those of samples/README.md",
    ),
    "connections-kept": Fact(
        "nfsd keeps `max_connections` connections, or (threads + 3) x 20 where that is 0, and closes the oldest beyond;"
        " from Linux 6.14 and 6.12.54 on only connections that never used a file handle count, and the setting is gone",
        "net/sunrpc/svc_xprt.c of Linux 6.1, svc_check_conn_limits; commit eccbbc7c00a5",
    ),
    "connection-limit": Fact("`sunrpc.svc_rpc_per_connection_limit`: default 0, no limit", "net/sunrpc/svc_xprt.c:26"),
    "solaris-threads": Fact(
        "Solaris: `servers` of `sharectl get nfs`, 16 by default in Solaris 10 and OpenSolaris, 1024 from 11.2 on;"
        " threads are made when needed",
        "Oracle: nfsd daemon, Solaris 11.4; nfsd(1M)",
    ),
    "solaris-set": Fact(
        "`sharectl set -p servers=N nfs`, then the nfs/server service is restarted",
        "sharectl(8); Oracle Solaris 11.2 Tunable Parameters Reference Manual",
    ),
    "solaris-case": Fact(
        "A Solaris server with 16 threads took 48 ms, 1 ms of it in a thread: `sharectl set -p servers=512 nfs`",
        "TCP Trace Analysis for NFS (2013)",
    ),
    "solaris-client": Fact(
        "Solaris client: `nfs:nfs3_max_threads` 8 for each file system, read at the mount, are the threads of"
        " asynchronous I/O: read-ahead, writes of pages, commit; `rpcmod:clnt_max_conns` 1",
        "Oracle Solaris 11.2 Tunable Parameters Reference Manual, chapter 3",
    ),
    "freebsd-threads": Fact(
        "FreeBSD: 8 threads for each CPU; `--minthreads` and `--maxthreads` of nfsd, or the sysctls"
        " `vfs.nfsd.minthreads` and `vfs.nfsd.maxthreads`",
        "nfsd(8); sys/rpc/svc.c",
    ),
    "aix-threads": Fact(
        "AIX makes up to 3891 threads as needed, which is the default and the most: `nfs_max_threads` of nfso, whose -o"
        " shows a value; `chnfs -n N` restarts the daemons",
        "IBM AIX 7.3: number of necessary nfsd threads; nfso and chnfs commands",
    ),
    "tcp-buffers": Fact(
        "The third number of `net.ipv4.tcp_rmem` and `tcp_wmem` is the most that TCP gives one connection",
        _IP_SYSCTL,
    ),
    "tcp-scaling": Fact(
        "`net.ipv4.tcp_window_scaling` is 1 by default; without it 65535 bytes can be in flight",
        f"{_IP_SYSCTL}; RFC 7323 section 1.1",
    ),
    "tcp-sack": Fact(
        "`net.ipv4.tcp_sack` is 1 by default; without it a sender learns of one lost segment a round trip",
        f"{_IP_SYSCTL}; RFC 2018 section 1",
    ),
    "tcp-idle": Fact(
        "`net.ipv4.tcp_slow_start_after_idle` is 1 by default: after an idle RTO the congestion window restarts",
        _IP_SYSCTL,
    ),
    "tcp-rto": Fact(
        "A Linux retransmission timer is 200 ms at least (`tcp_rto_min_us`, route option `rto_min`)",
        "include/net/tcp.h:156-162",
    ),
    "little": Fact(
        "In flight = rate x latency (Little's law). nfslat suggests half as much again, rounded up to a power of two",
        f"{_AZURE}; the half and the rounding are nfslat's own rule",
    ),
}


class Knob(NamedTuple):
    """A setting as it is printed: `name` as in a snapshot, who has it, default and limit in words, ids of its facts."""

    name: str
    side: str  # "client", "server" or "both"
    default: str
    limit: str
    facts: tuple[str, ...]
    note: str = ""  # what the default depends on


KNOBS: tuple[Knob, ...] = (
    Knob("sunrpc.tcp_max_slot_table_entries", "client", "65536", "65536", ("slots-ceiling", "slots-when")),
    Knob("sunrpc.tcp_slot_table_entries", "client", "2", "65536", ("slots-first", "slots-fixed", "slots-when")),
    Knob("sunrpc.udp_slot_table_entries", "client", "16", "", ("slots-udp",)),
    Knob("nfs.max_session_slots", "client", "64", "1024", ("session-slots", "session-set")),
    Knob("nfs.max_session_cb_slots", "client", "16", "", ("session-callbacks",)),
    Knob("nfs:nfs3_max_threads", "client", "8", "", ("solaris-client",)),
    Knob("rpcmod:clnt_max_conns", "client", "1", "", ("solaris-client",)),
    Knob(
        "nfsd.threads",
        "server",
        "16 or 8",
        "",
        ("threads-default", "threads-set"),
        "default 16 (nfs-utils from 2024-11; 8 before)",
    ),
    Knob(
        "nfs.servers",
        "server",
        "16, 1024",
        "",
        ("solaris-threads", "solaris-set"),
        "default 1024 from Solaris 11.2 on; 16 in Solaris 10",
    ),
    Knob("vfs.nfsd.minthreads", "server", "8 a CPU", "", ("freebsd-threads",)),
    Knob("vfs.nfsd.maxthreads", "server", "8 a CPU", "", ("freebsd-threads",)),
    Knob("nfsd.max_block_size", "server", "1048576", "1048576", ("payload", "threads-memory")),
    Knob("sunrpc.svc_rpc_per_connection_limit", "server", "0 (none)", "", ("connection-limit",)),
    Knob("net.ipv4.tcp_rmem", "both", "memory", "", ("tcp-buffers",)),
    Knob("net.ipv4.tcp_wmem", "both", "memory", "", ("tcp-buffers",)),
    Knob("net.ipv4.tcp_window_scaling", "both", "1", "1", ("tcp-scaling",)),
    Knob("net.ipv4.tcp_sack", "both", "1", "1", ("tcp-sack",)),
    Knob("net.ipv4.tcp_slow_start_after_idle", "both", "1", "1", ("tcp-idle",)),
    Knob("net.ipv4.tcp_rto_min_us", "both", "200000", "", ("tcp-rto",)),
)
BY_NAME: Mapping[str, Knob] = {knob.name: knob for knob in KNOBS}

# Where a configuration file names a setting otherwise than the running system does.
CONFIGURED_AS: Mapping[str, str] = {"nfs.conf:nfsd.threads": "nfsd.threads", "RPCNFSDCOUNT": "nfsd.threads"}

# Real names beside those above, so that none of them is taken for a slip of the pen: sysctls and parameters of the
# sunrpc, nfs and nfsd modules, and keys of nfs.conf [nfsd] (nfs.conf(5)).
OTHER_NAMES = frozenset(
    """
    sunrpc.max_resvport sunrpc.min_resvport sunrpc.tcp_fin_timeout sunrpc.transports sunrpc.nfs_debug sunrpc.nfsd_debug
    sunrpc.nlm_debug sunrpc.rpc_debug sunrpc.rdma_slot_table_entries sunrpc.rdma_max_inline_read
    sunrpc.rdma_max_inline_write sunrpc.rdma_inline_write_padding sunrpc.rdma_pad_optimize sunrpc.rdma_memreg_strategy
    sunrpc.auth_hashtable_size sunrpc.auth_max_cred_cachesize sunrpc.pool_mode nfs.callback_tcpport
    nfs.callback_nr_threads nfs.nfs_idmap_cache_timeout nfs.nfs4_disable_idmapping nfs.nfs4_unique_id
    nfs.send_implementation_id nfs.recover_lost_locks nfs.delay_retrans nfs.nfs_access_max_cachesize
    nfs.enable_ino64 nfs.nfs_mountpoint_expiry_timeout nfsd.nfs4_disable_idmapping nfsd.cltrack_prog
    nfsd.cltrack_legacy_disable nfsd.inter_copy_offload_enable nfsd.nfsd4_ssc_umount_timeout
    nfs.conf:nfsd.threads nfs.conf:nfsd.min-threads nfs.conf:nfsd.debug nfs.conf:nfsd.host nfs.conf:nfsd.scope
    nfs.conf:nfsd.port nfs.conf:nfsd.grace-time nfs.conf:nfsd.lease-time nfs.conf:nfsd.udp nfs.conf:nfsd.tcp
    nfs.conf:nfsd.vers2 nfs.conf:nfsd.vers3 nfs.conf:nfsd.vers4 nfs.conf:nfsd.vers4.0 nfs.conf:nfsd.vers4.1
    nfs.conf:nfsd.vers4.2 nfs.conf:nfsd.rdma nfs.conf:nfsd.rdma-port nfs.conf:nfsd.logbackend
    """.split()
)


def kernel(snapshot: Snapshot) -> tuple[int, int] | None:
    """The first two numbers of a Linux release; None where it is not Linux or not told."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})", snapshot.release) if snapshot.system == "Linux" else None
    return (int(found[1]), int(found[2])) if found else None


def has_fixed_slots(snapshot: Snapshot) -> bool:
    """Whether this host's slot table does not grow (fact ``slots-fixed``). What it shows goes before its version."""
    if "sunrpc.tcp_max_slot_table_entries" in snapshot.settings:
        return False
    if "sunrpc.tcp_slot_table_entries" in snapshot.settings:
        return True
    version = kernel(snapshot)
    red_hat = re.match(r"(?:rhel|centos|ol) 6\.(\d+)", snapshot.distribution)
    if red_hat:
        return int(red_hat[1]) < 3
    return version is not None and version <= (3, 0)


def default_of(knob: Knob, snapshot: Snapshot) -> str:
    """The default of `knob` on this host, in words; "" where that is not known."""
    if knob.name == "sunrpc.tcp_slot_table_entries" and has_fixed_slots(snapshot):
        return "16"
    if knob.name.startswith("vfs.nfsd.") and snapshot.cpus:
        return str(8 * snapshot.cpus)
    version = kernel(snapshot)
    if knob.name == "nfs.max_session_slots" and version is not None and version < (4, 0):
        return "16"
    return knob.default


def limit_of(knob: Knob, snapshot: Snapshot) -> str:
    """The limit of `knob` on this host, in words; "" where there is none or none is known."""
    if knob.name in ("sunrpc.tcp_slot_table_entries", "sunrpc.udp_slot_table_entries"):
        return "128" if has_fixed_slots(snapshot) else "65536"
    return knob.limit
