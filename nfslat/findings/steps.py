"""What can be measured next: a command, where it is to be run, and what it decides; no input, no output.

Rows of the catalogue name those that decide about them.
"""

from __future__ import annotations

from typing import NamedTuple


class Step(NamedTuple):
    """One measurement."""

    command: str  # to be pasted into a shell
    where: str  # on which host, and when
    decides: str  # what it tells, and how nfslat is given it


SCHED = Step(
    "perf sched record -o sched.data -- sleep 10; perf sched latency -i sched.data >sched.txt",
    "both hosts, under the same load",
    "whether a host handles packets late, or the path is slow: tasks that wait for a processor as long as that "
    "(--evidence sched.txt)",
)
NO_CPU = Step(
    "perf sched record -o sched.data -- sleep 10; perf sched latency -i sched.data >sched.txt; "
    "for i in $(seq 100); do tail -n +1 /proc/[0-9]*/stack; sleep 0.1; done >stacks.txt; vmstat 1 10",
    "the host of the database, as root, under the same load",
    "whether its sessions wait for a processor (--evidence sched.txt) or in the kernel (--evidence stacks.txt), or "
    "memory is short (si, so)",
)
ONE_WAY = Step(
    "tc -s qdisc show; ip -s link; ss -tmi '( dport = :2049 or sport = :2049 )'",
    "the host that sends in the slower direction, under the same load",
    "whether that direction is shaped, full, or waits in its sender's socket: backlog and drops of the queue, Send-Q",
)
CLIENT = Step(
    "cat /proc/self/mountstats >before.txt; sleep 10; cat /proc/self/mountstats >after.txt",
    "the client, under the same load",
    "how long requests wait in the client before they are sent (--client-snapshot before.txt,after.txt)",
)
THREADS = Step(
    "cat /proc/fs/nfsd/pool_stats >before.txt; sleep 10; cat /proc/fs/nfsd/pool_stats >after.txt; "
    "cat /proc/fs/nfsd/threads",
    "the server, under the same load",
    "whether calls wait for a thread (--server-snapshot before.txt,after.txt, and --threads N)",
)
DISK = Step(
    "S_TIME_FORMAT=ISO iostat -xt 1 30 >iostat.txt",
    "the server, while captures are made under the same load",
    "whether it is the disk: r_await and w_await of the exported device beside this figure (--server-snapshot "
    "iostat.txt, or --storage-ms MS)",
)
LOSS = Step(
    "nstat -az TcpRetransSegs TcpExtTCPLostRetransmit TcpExtTCPTimeouts; ethtool -S eth0 | grep -iE 'drop|err|fifo'",
    "both hosts, twice, under the same load",
    "where packets are lost: counters that grow",
)
MTU = Step(
    "ping -M do -c 3 -s 1472 SERVER; ping -M do -c 3 -s 1372 SERVER",
    "the client; and with its address on the server; -s 8972 where the MTU is 9,000",
    "whether the path drops packets of the hosts' own MTU without a word: the first is not answered, and the second is",
)
STEAL = Step(
    "vmstat 1 30; dmesg -T | tail -50",
    "the host that was stalled",
    "whether a hypervisor took its processor (st), or the host hung",
)
LOG = Step(
    "journalctl -u nfs-server --since '-1 h'; dmesg -T | tail -50",
    "the server",
    "whether the server was restarted, or something between the hosts ended the connection",
)
NFSD = Step(
    "for p in $(pgrep nfsd); do cat /proc/$p/stack; done >nfsd.txt; dmesg -T | tail -50; cat /proc/fs/nfsd/pool_stats",
    "the server, now, while calls have no answer",
    "what its threads wait for: the file system, a disk, a lock, another client's delegation",
)
SYNS = Step(
    "nstat -az TcpExtTCPSynRetrans TcpExtListenDrops TcpExtListenOverflows; conntrack -S",
    "both hosts, twice, under the same load",
    "whether SYNs are lost on the path (SynRetrans grows at the client alone) or dropped by the server (ListenDrops)",
)
LOCKS = Step(
    "cat /proc/locks /proc/fs/nfsd/clients/*/states",
    "the server, while requests wait",
    "who holds the locks and delegations that requests wait for",
)
WINDOW = Step(
    "ss -tmi '( dport = :2049 or sport = :2049 )'",
    "both hosts, under the same load",
    "whose window is full: cwnd of the sender, rcv_space and Recv-Q of the receiver",
)
PING = Step(
    "ping -c 100 -i 0.2 SERVER; mtr -rwc 100 SERVER",
    "the client, under the same load",
    "whether the path varies as these messages do (mdev beside min), and from which hop on",
)
BANDWIDTH = Step(
    "iperf3 -c SERVER -t 10; iperf3 -c SERVER -t 10 -R",
    "the client, with iperf3 -s on the server",
    "whether the path carries more than this load used",
)
_CAPTURE = "tcpdump -i any -s 0 -B 65536 -w /tmp/$(hostname).pcap port 2049"
WHOLE_PACKETS = Step(
    _CAPTURE,
    "both hosts at the same time",
    "what the operations that these captures do not show waited for: whole packets, and a buffer that drops none",
)
ALL_FILES = Step(
    "ls -l --time-style=full-iso",
    "the folder that the capture was written to",
    "the file of the set that is missing: with it these operations are there",
)
AGAIN = Step(
    _CAPTURE,
    "both hosts at the same time",
    "what these time stamps hide: name the server's file first (nfslat server.pcap client.pcap)",
)
FINER = Step(
    f"cat /sys/devices/system/clocksource/clocksource0/current_clocksource; {_CAPTURE}",
    "both hosts at the same time, or another host that sees their packets, where a clock ticks slowly",
    "what these time stamps are too coarse for: with microseconds (tcpdump -J lists what an interface has, -j and "
    "--time-stamp-precision choose; pcap or pcapng as file format)",
)
LONGER = Step(
    f"timeout 60 {_CAPTURE}",
    "both hosts at the same time, while it is slow",
    "the rest: a minute has enough operations to judge by",
)
FROM_HOSTS = Step(
    "nfslat capture --server SERVER --client CLIENT",
    "anywhere, under the same load",
    "why: it captures on both hosts, and says what explains the time",
)
