#!/bin/sh
# Prints what nfslat wants to know of a host, server or client, as one text: see --help.
# Plain POSIX sh on purpose, without anything else of nfslat: it is copied to hosts that have neither bash nor Python.
set -u
# What programs print is read by another: no translations. The first folder has the POSIX tools of Solaris.
LC_ALL=C PATH=/usr/xpg4/bin:$PATH:/usr/sbin:/sbin
export LC_ALL PATH

usage() {
    cat <<'END'
usage: snapshot.sh >FILE

Prints NFS statistics and settings of this host to standard output, for "nfslat --client-snapshot FILE",
"nfslat --server-snapshot FILE" and "nfslat tune FILE". Take one before and one after the load that is looked at.

It collects: kernel and distribution, host name, addresses, memory, processors; NFS mounts with their counters; counters
and threads of the NFS server; sysctl and module parameters of sunrpc, nfs and TCP, and the lines of configuration files
that set them; TCP connections with port 2049 and their state; counters of processors, memory and disks. Of Solaris and
FreeBSD, what corresponds.
It changes nothing, sends nothing and asks no other host. It reads no file of a mount and prints no key, no password, no
name of a file and no list of exports; the places and options of mounts, and host names and addresses, are in it.
It needs no root. What only root may read is named; with root it is more complete.
END
}

case $#:${1-} in
0:) ;;
1:--help | 1:-h) usage && exit ;;
*) usage >&2 && exit 2 ;;
esac

uid=$(id -u 2>/dev/null) || uid=
system=$(uname -s)

section() { printf '#### nfslat: %s\n' "$1"; }

have() { command -v "$1" >/dev/null 2>&1; }

# What stands where something exists and cannot be read; nfslat looks for it.
unreadable() {
    if [ "$uid" = 0 ]; then echo '(not readable: refused)'; else echo '(not readable: needs root)'; fi
}

# A section for each of these files.
files() {
    for path; do
        [ -f "$path" ] || continue
        section "$path"
        # awk ends the last line if nobody else did.
        { [ -r "$path" ] && awk '{ print }' "$path" 2>/dev/null; } || unreadable
    done
}

# "FILE: VALUE" for each of these files of one line, but those whose names end in $1 (/: all).
values() {
    but=$1
    shift
    for path; do
        shift
        case $path in *"$but") ;; *) [ ! -f "$path" ] || set -- "$@" "$path" ;; esac
    done
    [ $# -gt 0 ] || return 0
    # There are a hundred of them: one process, and one for each only where it finds a file that it cannot read.
    if all=$(awk 'BEGIN { for (i = 1; i < ARGC; i++) {
        for (value = ""; (got = (getline line <ARGV[i])) > 0; value = line) if (value != "") exit 1
        if (got < 0) exit 1
        close(ARGV[i])
        print ARGV[i] ": " value
    } }' "$@" 2>/dev/null); then
        printf '%s\n' "$all"
        return
    fi
    for path; do
        # cat, because read takes a byte at a time and the kernel gives some files only whole.
        if [ -r "$path" ] && value=$(cat "$path" 2>/dev/null); then
            printf '%s: %s\n' "$path" "$value"
        else
            printf '%s: ' "$path"
            unreadable
        fi
    done
}

# "FILE:LINE:TEXT" for the lines of files that an awk condition chooses; $1 names the section.
lines() {
    title=$1 condition=$2
    shift 2
    section "$title"
    for path; do
        [ -f "$path" ] || continue
        if [ -r "$path" ]; then
            awk "$condition"' { print FILENAME ":" FNR ":" $0 }' "$path" 2>/dev/null
        else
            printf '%s: ' "$path"
            unreadable
        fi
    done
}

# A section with what a command prints, if there is that command.
output() {
    have "$1" || return 0
    section "$*"
    "$@" </dev/null 2>/dev/null || unreadable
}

fact() { [ -z "$2" ] || printf '%s: %s\n' "$1" "$2"; }

echo '# nfslat snapshot 1'
section host
fact system "$system"
fact release "$(uname -r)"
fact version "$(uname -v)"
fact machine "$(uname -m)"
fact hostname "$(uname -n)"
fact taken "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
fact zone "$(date +%z)"
fact uid "$uid"
fact cpus "$(getconf _NPROCESSORS_ONLN 2>/dev/null || getconf NPROCESSORS_ONLN 2>/dev/null || nproc 2>/dev/null)"
case $system in
Linux)
    fact memory_bytes "$(awk '/^MemTotal:/ { printf "%.0f", $2 * 1024 }' /proc/meminfo 2>/dev/null)"
    fact boot "$(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
    ;;
SunOS)
    fact memory_bytes "$(prtconf 2>/dev/null | awk '/^Memory size:/ { printf "%.0f", $3 * 1048576 }')"
    fact boot "$(kstat -p unix:0:system_misc:boot_time 2>/dev/null | awk '{ print $2 }')"
    ;;
*)
    fact memory_bytes "$(sysctl -n hw.physmem 2>/dev/null)"
    fact boot "$(sysctl -n kern.boot_id 2>/dev/null)"
    ;;
esac
files /etc/os-release /etc/release

section addresses
if have ip; then ip -o addr show; elif have ifconfig; then ifconfig -a; fi 2>/dev/null </dev/null

section connections
# Numbers only: a name would be asked of a name server. Established ones only.
if have ss; then
    ss -tino state established '( sport = :2049 or dport = :2049 )'
else
    netstat -an | awk '/ESTAB/ && /[.:]2049[ \t]/'
fi 2>/dev/null </dev/null

case $system in
Linux)
    section /proc/self/mountstats
    awk '/^device / { nfs = / with fstype nfs4?( |$)/ } nfs' /proc/self/mountstats 2>/dev/null || unreadable
    section /proc/mounts
    awk '$3 ~ /^nfs4?$/' /proc/mounts 2>/dev/null
    files /proc/net/rpc/nfs /proc/net/rpc/nfsd /proc/fs/nfsd/pool_stats /proc/fs/nfsd/portlist
    if [ -f /proc/net/rpc/nfsd ] && [ ! -f /proc/fs/nfsd/threads ]; then
        section /proc/fs/nfsd
        echo '(not readable: the nfsd file system is not mounted)'
    fi

    # How busy processors, memory and disks were, by the difference of two snapshots.
    section /proc/stat
    awk '/^cpu /' /proc/stat 2>/dev/null
    section /proc/vmstat
    awk '/^(pgmajfault|pswpin|pswpout|numa_pages_migrated) /' /proc/vmstat 2>/dev/null
    files /proc/diskstats /proc/pressure/cpu /proc/pressure/memory

    section values
    values / /proc/fs/nfsd/threads /proc/fs/nfsd/pool_threads /proc/fs/nfsd/versions \
        /proc/fs/nfsd/max_block_size /proc/fs/nfsd/max_connections /proc/fs/nfsd/min_threads \
        /proc/fs/nfsd/nfsv4leasetime /proc/fs/nfsd/nfsv4gracetime
    values / /proc/sys/sunrpc/*slot* /proc/sys/sunrpc/*resvport /proc/sys/sunrpc/tcp_fin_timeout /proc/sys/fs/nfs/* \
        /proc/sys/net/core/*mem* /proc/sys/net/core/netdev_max_backlog /proc/sys/net/core/somaxconn \
        /proc/sys/vm/dirty_* /proc/sys/kernel/numa_balancing
    # The key of TCP Fast Open is a secret.
    values _key /proc/sys/net/ipv4/tcp_*
    for module in sunrpc nfs nfsv3 nfsv4 nfsd lockd nfs_layout_nfsv41_files rpcrdma xprtrdma; do
        # What identifies the client to a server is nobody's business.
        values unique_id /sys/module/"$module"/parameters/*
    done

    section 'kernel command line'
    # No name of its own here: the rest of the line is not collected.
    awk '{ for (i = 1; i <= NF; i++) if ($i ~ /^(sunrpc|nfs|nfsd|nfsv4|lockd)\./) print "/proc/cmdline:1:" $i }' \
        /proc/cmdline 2>/dev/null

    # Lines with a misspelt name are wanted too, so the conditions are wide.
    code='!/^[ \t]*[#;]/ && '
    lines sysctl.d "$code"'/sunrpc|slot|nfs|tcp_|net[.\/]core/ && !/_key/' /usr/lib/sysctl.d/*.conf \
        /usr/local/lib/sysctl.d/*.conf /run/sysctl.d/*.conf /etc/sysctl.d/*.conf /etc/sysctl.conf
    lines modprobe.d "$code"'/^[ \t]*options/ && /sunrpc|rpc|slot|nfs|lockd/ && !/unique_id/' \
        /usr/lib/modprobe.d/*.conf /run/modprobe.d/*.conf /etc/modprobe.d/*.conf /etc/modprobe.conf
    # Of nfs.conf the sections of the server and its helpers: others may name keytabs and hosts.
    lines nfs.conf "$code"'/^[ \t]*\[/ { keep = /nfs|lockd|mountd/ } '"$code"'/[^ \t]/ && (keep || /^[ \t]*\[/)' \
        /usr/etc/nfs.conf /usr/etc/nfs.conf.d/*.conf /etc/nfs.conf /etc/nfs.conf.d/*.conf
    lines nfsmount.conf "$code"'/[^ \t]/' /usr/etc/nfsmount.conf /etc/nfsmount.conf /etc/nfsmount.conf.d/*.conf
    lines 'shell variables' "$code"'/^(RPCNFSDCOUNT|RPCNFSDARGS|NFSD_COUNT|USE_KERNEL_NFSD_NUMBER)=/' \
        /etc/default/nfs-kernel-server /etc/sysconfig/nfs

    section /proc/net/snmp
    awk '/^Tcp:/' /proc/net/snmp 2>/dev/null
    # Programs that only print their version with these options; rpc.nfsd would start a server.
    output mount.nfs -V
    output nfsdctl --version
    ;;
SunOS)
    output sharectl get nfs
    lines /etc/system '!/^[ \t]*\*/ && /nfs|rpcmod|tcp/' /etc/system
    lines 'shell variables' '!/^[ \t]*#/ && /^[A-Z_]*=/' /etc/default/nfs
    output nfsstat -s
    output nfsstat -c
    output nfsstat -m
    ;;
*)
    section sysctl
    for tree in vfs.nfsd vfs.nfs vfs.nfs_common net.inet.tcp.sendspace net.inet.tcp.recvspace \
        net.inet.tcp.sendbuf_max net.inet.tcp.recvbuf_max net.inet.tcp.delayed_ack kern.ipc.maxsockbuf; do
        sysctl "$tree" 2>/dev/null </dev/null
    done
    lines sysctl.d '!/^[ \t]*#/ && /nfs|tcp|maxsockbuf/' /etc/sysctl.conf /etc/sysctl.conf.local
    lines 'shell variables' '!/^[ \t]*#/ && /^(nfs|mountd|rpc)/' /etc/rc.conf /etc/rc.conf.local
    output nfsstat -e
    output nfsstat -m
    ;;
esac
section end
