"""Snapshots made by hand, with the values of two hosts on which the cause was put in on purpose (samples/README.md)."""

from __future__ import annotations

from nfslat.evidence.records import Mount, NfsdStats, OpStats, Pool, Setting, Snapshot, Xprt


def a_mount(**differs: object) -> Mount:
    """A mount of 10.77.0.1 that was hardly used."""
    values: dict[str, object] = {
        "device": "10.77.0.1:/srv/export",
        "path": "/mnt/nfs",
        "version": "3",
        "options": {"vers": "3", "proto": "tcp", "addr": "10.77.0.1", "rsize": "131072", "timeo": "600"},
        "age_s": 18,
        "xprts": (Xprt("tcp", 765, sends=7, receives=7, bad_xids=0, req_u=7, backlog_u=0),),
    }
    return Mount(**{**values, **differs})  # type: ignore[arg-type]


# READ and xprt of the samples' client-slots, 2 slots: mountstats after the load.
STARVED = a_mount(
    ops={"READ": OpStats(317, 317, 0, 34236, 2637440, 130632, 6337, 136981)},
    xprts=(Xprt("tcp", 765, sends=544, receives=544, bad_xids=0, req_u=1013, backlog_u=9765, max_slots=2),),
)
# A healthy one.
CONTENT = a_mount(
    ops={"READ": OpStats(2561, 2561, 0, 276588, 21307520, 289, 5457, 5829)},
    xprts=(Xprt("tcp", 790, sends=5144, receives=5144, bad_xids=0, req_u=10210, backlog_u=0, max_slots=8),),
)


def settings(**values: object) -> dict[str, Setting]:
    """``sunrpc__tcp_slot_table_entries=2``: two underscores stand for the dot."""
    return {
        name.replace("__", "."): Setting(str(value), f"/proc/sys/{name.replace('__', '/')}")
        for name, value in values.items()
    }


def a_client(slots: int = 65536, mount: Mount = CONTENT, **differs: object) -> Snapshot:
    """A Linux 6.1 client at 10.77.0.2."""
    values: dict[str, object] = {
        "name": "client.txt",
        "system": "Linux",
        "release": "6.1.176",
        "distribution": "debian 12",
        "hostname": "dbclient",
        "settings": settings(
            sunrpc__tcp_slot_table_entries=2,
            sunrpc__tcp_max_slot_table_entries=slots,
            sunrpc__udp_slot_table_entries=16,
            nfs__max_session_slots=64,
        ),
        "mounts": (mount,),
        "addresses": ("10.77.0.2",),
    }
    return Snapshot(**{**values, **differs})  # type: ignore[arg-type]


def a_server(threads: int = 16, woken: int = 18797, **differs: object) -> Snapshot:
    """A Linux 6.1 server at 10.77.0.1; of 18799 sockets queued, `woken` found a free thread."""
    values: dict[str, object] = {
        "name": "server.txt",
        "system": "Linux",
        "release": "6.1.176",
        "hostname": "nfsserver",
        "settings": settings(nfsd__threads=threads),
        "nfsd": NfsdStats(threads),
        "pools": (Pool(0, 18799, 18799, woken, 0),),
        "addresses": ("10.77.0.1",),
        "clients": ("10.77.0.2",),
    }
    return Snapshot(**{**values, **differs})  # type: ignore[arg-type]
