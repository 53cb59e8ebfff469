"""The catalogue of what makes captures and clocks a poor witness: a row for each code; no input, no output.

`catalogue` has the findings on where the time goes. The texts themselves are in figures/audit and `clock`, with their
figures; here is what the manual says of each.
"""

from __future__ import annotations

from nfslat.model.record import Record


class Warned(Record, kw_only=True):
    """A note on a capture, on both together or on their clocks."""

    code: str
    title: str
    costs: str  # what it does to the answer
    do: str


_RECAPTURE = "A larger buffer (tcpdump -B), a narrower filter or a smaller -s, and capture again."

WARNED = (
    Warned(
        code="no-overlap",
        title="The captures have less than half of their time in common",
        costs="Only operations in the common time are compared, and they may not be representative.",
        do="Start both captures before the load and stop them after it; `nfslat capture` does.",
    ),
    Warned(
        code="capture-two-clocks",
        title="Sent and received packets are stamped by two clocks",
        costs="Replies are moved by the difference; response times of this side are right to within the error that is "
        "said. Where replies were sorted before their calls they cannot be paired.",
        do="Capture with the host's clock (tcpdump -j host), and give the file as it was captured, not sorted.",
    ),
    Warned(
        code="two-clocks-suspected",
        title="No order of the two files makes sense, or only one with an absurd network",
        costs="No layer is named: the network's time is wrong by one amount for all ops.",
        do="Capture with the host's clock (tcpdump -j host), and check which file is whose.",
    ),
    Warned(
        code="capture-late-stamps",
        title="A capture stamps packets late",
        costs="By the TCP time stamps of the capture's own host, packets were with its TCP before the capture says "
        "that they came, and what it sent is stamped late, too. Times of single operations are off by as much, at this "
        "host and on the network, and one direction of the network seems slow.",
        do="Capture on the host itself with stamps of the kernel (tcpdump -j host), not the adapter's, not through a "
        "mirror port with a queue, nor by a program that stamps packets as it reads them.",
    ),
    Warned(
        code="capture-coarse-stamps",
        title="The time stamps tick too slowly for what they measure",
        costs="Each response time may be off by a tick; means of many are right to within what is said. Percentiles, "
        "slow operations, what is in flight, waits of TCP and round trips are ticks: none of them is judged, and a "
        "cause is named only where it takes many ticks, or counts tell.",
        do="Capture with finer stamps: tcpdump -J lists the clocks of an interface, -j and --time-stamp-precision "
        "choose, pcap and pcapng have room for nanoseconds; on Linux see that current_clocksource is no jiffies. Else "
        "capture on another host that sees the packets.",
    ),
    Warned(
        code="capture-clock-step",
        title="The clock was set while the capture ran",
        costs="Operations in flight at that moment have wrong times.",
        do="Let the host slew its clock (chronyd without makestep, ntpd -x) while you measure.",
    ),
    Warned(
        code="clock-step",
        title="The offset of the two clocks jumps",
        costs="Operations in flight at that moment have a wrong SRT in the raw data and are left out of all other "
        "figures. The offset before and after is found by itself.",
        do="Nothing for the answer. Look at the log of the host's time service if it happens again and again.",
    ),
    Warned(
        code="clock-unknown",
        title="No offset of the two clocks explains the ops",
        costs="Call and reply cannot be told apart on the network. Client SRT, server SRT and their difference need no "
        "common clock.",
        do="Check that the captures are of the same time, and that neither was edited or merged.",
    ),
    Warned(
        code="clock-drift",
        title="The two clocks run at different rates",
        costs="None: all times are converted to the client's clock.",
        do="Above 100 ppm a clock is being slewed, or its tick is set wrong: chronyc tracking.",
    ),
    Warned(
        code="files-missing",
        title="A file of a set is missing",
        costs="TCP went on between two files, and nothing is there of that time: the operations of it are missing.",
        do="Give all files of the set. Of a ring (tcpdump -W, dumpcap -b) those that were written over are gone: give "
        "it more files, or larger ones.",
    ),
    Warned(
        code="capture-drops",
        title="The capture host dropped packets",
        costs="TCP acknowledged data that was never captured. Ops are missing, most of them from the busiest "
        "moments, so means are biased towards the quiet ones.",
        do=_RECAPTURE,
    ),
    Warned(
        code="capture-interface-drops",
        title="The capturing host counted packets that it did not capture",
        costs="Ops may be missing.",
        do=_RECAPTURE,
    ),
    Warned(
        code="capture-unseen",
        title="Operations that the capture knows of and does not show make its means wrong",
        costs="With GRO, LRO or TSO a packet holds several messages, and a snaplen keeps the header of the first. "
        "Replies that come in a train are the slow ones. Bounds of the means with them are stated, and the verdict "
        "goes by these.",
        do="Capture whole packets: capture.sh --snaplen 0, tcpdump -s 0. Or switch GRO, LRO and TSO off while the "
        "capture runs (ethtool -K eth0 gro off lro off tso off), which costs processor time.",
    ),
    Warned(
        code="capture-truncated",
        title="RPC headers were not captured",
        costs="They lie beyond the snaplen or in lost packets; their ops are left out of all figures.",
        do="tcpdump -s 0 shows what lies beyond the snaplen.",
    ),
    Warned(
        code="capture-missing-calls",
        title="Calls are missing by the gaps in the client's XIDs",
        costs="A client numbers its calls one by one. Those that are not shown are left out of all figures.",
        do="tcpdump -s 0, or see capture-drops where packets were lost.",
    ),
    Warned(
        code="capture-unanswered",
        title="Calls without a reply",
        costs="They are left out of all figures. A few at the end of a capture are usual; many are a server that does "
        "not answer, or replies that were not captured.",
        do="Look at `--missed`, and capture for longer than the slowest op takes.",
    ),
    Warned(
        code="capture-orphans",
        title="Replies without a call",
        costs="They are left out of all figures. A few at the beginning of a capture are usual.",
        do="Look at `--missed`. Many of them in mid-capture are packets that were dropped.",
    ),
    Warned(
        code="capture-xids-again",
        title="Calls that came again after their answer",
        costs="They are taken for retransmitted by RPC. Where a client uses its XIDs again as soon, they are ops of "
        "their own, and missing from all figures.",
        do="tcpdump -s 0 shows what each asks for, which mostly tells them apart.",
    ),
    Warned(
        code="malformed-rpc",
        title="RPC messages that do not make sense",
        costs="They are not counted.",
        do="Look at them in Wireshark. A port that carries something else is left out by a capture filter.",
    ),
    Warned(
        code="rpc-with-tls",
        title="Connections are encrypted (RPC-with-TLS)",
        costs="The operations on them cannot be seen.",
        do="Capture a mount with xprtsec=none, or take the times from the hosts: mountstats, tracepoints.",
    ),
    Warned(
        code="capture-encrypted",
        title="Calls and replies are encrypted (sec=krb5p)",
        costs="Times, turns, threads and what TCP did are as ever. Errors, locks, delegations, sessions, sizes and "
        "files are not seen, nor operations of NFSv4: findings on these are not looked for.",
        do="mountstats of the client (--evidence) has times by operation; a mount with sec=krb5i shows all.",
    ),
    Warned(
        code="capture-cut-short",
        title="The file ends in the middle of a packet, or is damaged",
        costs="Everything before that was read; the rest is lost.",
        do="Stop tcpdump with Ctrl-C and wait until it has written its counts; compare checksums after copying.",
    ),
    Warned(
        code="files-overlap",
        title="Files of a set overlap in time",
        costs="They are no rotation of one capture. The native engine reads their packets in the order of their times, "
        "and what is in two files counts once; tshark reads one after the other, so that ops may occur twice.",
        do="Give the files of one capture; for --engine tshark merge those of several interfaces with mergecap.",
    ),
    Warned(
        code="capture-sorted",
        title="Packets stood behind later ones in the file",
        costs="None: up to 100 ms apart they are read in the order of their times, and have the numbers that they have "
        "in the file. Where the order of the file is the truer one, as TCP's numbers show (a clock that was set back, "
        "two clocks), it stays.",
        do="Nothing.",
    ),
    Warned(
        code="capture-damaged",
        title="Packets with damaged sequence numbers",
        costs="They are left out, as their receiver takes nothing of them either: numbers far from all others, and a "
        "wrong checksum. Of two in a row the second one is believed. A warning where they are more than 2 %.",
        do="ethtool -S on both hosts and the switch ports between them: what damages packets?",
    ),
    Warned(
        code="capture-untimed",
        title="Packets without a time",
        costs="They were given that of the packet before; latencies that begin or end with one are wrong.",
        do="Capture with a tool that stamps each packet (not with simple packet blocks of pcapng).",
    ),
    Warned(
        code="capture-misdated",
        title="An interface with impossible times",
        costs="Its packets were left out; those of the others were read.",
        do="Correct its clock, or the offset that the file gives it (if_tsoffset of pcapng).",
    ),
    Warned(
        code="capture-untracked",
        title="More connections than nfslat follows at once",
        costs="Packets of the rest were left out.",
        do="Capture 'port 2049' only.",
    ),
    Warned(
        code="capture-stalls-dropped",
        title="More of what TCP did than is kept",
        costs="What ops are charged with (losses, windows, holes) is too low.",
        do="Give a shorter capture, or fewer hosts.",
    ),
    Warned(
        code="capture-names-dropped",
        title="More file names than are kept",
        costs="Paths may be missing, or be those before a rename.",
        do="Give a shorter capture.",
    ),
    Warned(
        code="captures-overlap",
        title="How much of their time the captures have in common",
        costs="Ops outside of it are not compared.",
        do="Nothing.",
    ),
    Warned(
        code="capture-reordered",
        title="Packets with an earlier time than the packet before",
        costs="Response times may be off by as much. A warning where that is noticeable beside them.",
        do="On Linux the queues of a network card are stamped on several CPUs; nothing can be done but on the card.",
    ),
    Warned(
        code="capture-duplicates",
        title="Packets are in the file twice",
        costs="None: each counts once, with the time of its first copy.",
        do="Capture on one interface rather than on -i any, or mirror one port only.",
    ),
    Warned(
        code="capture-no-handshake",
        title="Connections began before the capture",
        costs="Their window scale is unknown, so a full window is recognised only where the sender repeatedly stops "
        "at its edge.",
        do="Where windows matter, remount while the capture runs.",
    ),
    Warned(
        code="capture-offload",
        title="Packets that TSO, GSO, GRO or LRO made large",
        costs="One stamp stands for up to 64 kB, so what the line takes is in the network's parts.",
        do="Nothing, mostly. ethtool -K IFACE tso off gso off gro off for the time of a capture shows the segments, "
        "and costs CPU.",
    ),
    Warned(
        code="capture-snaplen",
        title="How many of the bytes were captured",
        costs="None, where no headers are beyond the snaplen (capture-truncated) and offsets of READs and WRITEs "
        "are in it.",
        do="Nothing.",
    ),
    Warned(
        code="observer-effect",
        title="So many packets that capturing them costs time",
        costs="About 1 us of CPU a packet: the host is slower than without a capture.",
        do="Repeat with a narrow filter and a small -s, or at a mirror port, and compare.",
    ),
)
