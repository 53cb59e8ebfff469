"""A guest with a disk and a scenario -> a Linux NFS server that exports it, the disk as slow as the scenario wants."""

from __future__ import annotations

from laboratory import kerberos
from laboratory.guest import Guest
from laboratory.scenario import Cause, Scenario

EXPORT = "/srv/export"
DISK = "/dev/mapper/disk"
_QUEUE = "/dev/loop0"  # on the disk, where it takes few requests at once
# In sectors: 8 KB, so that a READ of 8 KB is one request of the disk. Without any read-ahead it would be two, one page
# after the other, and with the usual 128 KB the server would have what clients ask for next.
_READ_AHEAD = 16


def start(guest: Guest, scenario: Scenario) -> None:
    """Disk, export, knfsd and its helpers, in the order that works; the disk's delay comes with ``slow_disk``."""
    sec = scenario.mount.sec
    security = f",sec={sec},{kerberos.EXPORT_OPTIONS}" if sec else ""
    guest.run(
        f"""
        modprobe dm-delay 2>/dev/null || :
        {_table("create", 0, 0)}
        dmsetup mknodes
        mkdir -p /srv/disk {EXPORT}
        {_queue(scenario.cause)}
        mount -o noatime {_mounted(scenario.cause)} /srv/disk
        mount --bind /srv/disk/export {EXPORT}
        chmod 1777 {EXPORT}

        modprobe nfsd 2>/dev/null || :
        mkdir -p /run/rpc_pipefs /var/lib/nfs/rpc_pipefs /var/lib/nfs/sm /var/lib/nfs/sm.bak /var/lib/nfs/nfsdcld \\
            /var/lib/nfs/v4recovery
        : >/var/lib/nfs/etab; : >/var/lib/nfs/rmtab; : >/etc/exports
        mount -t rpc_pipefs rpc_pipefs /run/rpc_pipefs
        mount -t nfsd nfsd /proc/fs/nfsd
        rpcbind -w
        rpc.statd --no-notify 2>/dev/null
        nfsdcld 2>/dev/null || :
        # After a restart, a client that asks for locks is not to wait for the 90 s of grace.
        echo 10 >/proc/fs/nfsd/nfsv4leasetime
        echo 10 >/proc/fs/nfsd/nfsv4gracetime
        modprobe lockd 2>/dev/null || :
        echo 10 >/proc/sys/fs/nfs/nlm_grace_period
        # Operations of 1 MB; only before there are threads.
        echo 1048576 >/proc/fs/nfsd/max_block_size
        exportfs -i -o rw,sync,no_root_squash,insecure,no_subtree_check,fsid=0{security} '*:{EXPORT}'
        rpc.nfsd {scenario.cause.nfsd_threads}
        # No client of an earlier time has anything to claim. (nfsd knows that; its locks wait for lockd's grace, too.)
        echo Y >/proc/fs/lockd/nlm_end_grace
        rpc.mountd
        """
    )


def slow_disk(guest: Guest, scenario: Scenario) -> None:
    """Gives the disk its delay, with nothing cached before it; how long a read then takes is to be measured."""
    delay = scenario.cause.dm_delay_ms
    read_ms, write_ms = (delay["read"], delay["write"]) if isinstance(delay, dict) else (delay, delay)
    own = scenario.cause.disk_table
    guest.run(
        f"""
        cd {EXPORT}
        {scenario.load.prepare.strip() or ":"}
        cd /
        sync
        dmsetup suspend --noudevsync disk
        {_reload(own) if own else _table("reload", read_ms, write_ms, scenario.cause.dm_delay_far_ms)}
        dmsetup resume --noudevsync disk
        for disk in {DISK} {_mounted(scenario.cause)}; do blockdev --setra {_READ_AHEAD} $disk; done
        echo 3 >/proc/sys/vm/drop_caches
        """
    )


def _mounted(cause: Cause) -> str:
    return _QUEUE if cause.disk_takes else DISK


def _queue(cause: Cause) -> str:
    """A loop device works on what it is given one by one, or with direct I/O on as many as it has tags."""
    if not cause.disk_takes:
        return ":"
    tags = f"echo {cause.disk_takes} >/sys/block/loop0/queue/nr_requests" if cause.disk_takes > 1 else ":"
    direct = "on" if cause.disk_takes > 1 else "off"
    return f"modprobe loop 2>/dev/null || :; losetup --direct-io={direct} {_QUEUE} {DISK}; {tags}"


def _reload(own: str) -> str:
    node = "[ -e /dev/ubda ] || mknod /dev/ubda b 98 0; disk=/dev/ubda; all=$(blockdev --getsz $disk)"
    return f"{node}; {{ {own.strip()}\n}} | dmsetup reload --noudevsync disk"


def _table(verb: str, read_ms: float, write_ms: float, far_ms: float | None = None) -> str:
    """The dmsetup command that gives the disk its delays; its second half another one, if there is one."""
    node = "[ -e /dev/ubda ] || mknod /dev/ubda b 98 0; all=$(blockdev --getsz /dev/ubda)"
    near = f"delay /dev/ubda 0 {read_ms:.0f} /dev/ubda 0 {write_ms:.0f}"
    if far_ms is None:
        return f'{node}; echo "0 $all {near}" | dmsetup {verb} --noudevsync disk'
    far = f"delay /dev/ubda $half {far_ms:.0f} /dev/ubda $half {far_ms:.0f}"
    return (
        f"{node}; half=$((all / 2)); "
        f'printf \'%s\\n\' "0 $half {near}" "$half $((all - half)) {far}" | dmsetup {verb} --noudevsync disk'
    )


def disk_of(guest: Guest) -> dict[str, int]:
    """The counters so far of the disk that the file system is on: requests by kind, and the ms that they took, the wait
    in its queue among them (Documentation/admin-guide/iostats)."""
    words = guest.run("grep -E ' (dm-0|loop0) [1-9]' /proc/diskstats | sort -k3 | tail -n 1").out.split()
    return {"reads": int(words[3]), "read_ms": int(words[6]), "writes": int(words[7]), "write_ms": int(words[10])}


def tick_ms(guest: Guest) -> float:
    """Of the guest's kernel, in which it counts the times of disks, as it was compiled; Debian's does not say."""
    return 1000 / int(guest.run("zcat /proc/config.gz 2>/dev/null | sed -n 's/^CONFIG_HZ=//p'").out or 100)
