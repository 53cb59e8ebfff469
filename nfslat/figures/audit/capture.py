"""What was counted of a capture -> what is wrong, or merely remarkable, with it, and what that does to the answer."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from nfslat.answer.model import AuditNote
from nfslat.decode.capture import Source
from nfslat.figures.audit.missing import missing_notes
from nfslat.figures.audit.words import MANY, be, have, note, share, size, some, span
from nfslat.model.decoded import Decoded
from nfslat.model.details import Tcp
from nfslat.model.tables import State
from nfslat.model.units import to_ms
from nfslat.tally.captures import CaptureTally, Ticking

_REORDERED, _NOTICEABLE = 0.001, 0.01  # of the packets; of a response time
_SET_NS = 100_000_000  # packets change places by less; a clock is set by more (ntpd: by 128 ms or more, chrony: 1 s)
_EVERY_PACKET = 0.4  # of the packets: all were captured twice, but for those that came before a copy can be told
_MERGED, _LONG = 0.05, 32_000  # of the packets with data: fewer are of no consequence; bytes: 0.25 ms at 1 Gbit/s
# A tap copies each packet on the CPU that sends or receives it. On Linux 6.18 with dumpcap -s 128 a packet took 0.8 us
# longer for it (loopback, round trips of 2 x 200 bytes, 300,000 packets/s), and dumpcap kept another CPU busy.
_TAP_NS = 1_000
_SEALED = 0.5  # of the ops: else it is damage, or what lies in holes
_RATE = 200_000  # packets/s: a fifth of a CPU


def capture_notes(tally: CaptureTally) -> list[AuditNote]:
    """Notes on one capture, most serious first; each counts something."""
    found = [
        *_clock_notes(tally),
        *_tick_notes(tally.ticking),
        *_file_notes(tally),
        *missing_notes(tally),
        *_again_notes(tally),
        *_sealed_notes(tally),
        *_reading_notes(tally.facts),
        *_packet_notes(tally),
    ]
    return sorted((one for one in found if one.count), key=lambda one: one.severity != "warning")


def _clock_notes(tally: CaptureTally) -> list[AuditNote]:
    d, directions = tally.facts, tally.facts.directions
    if directions is not None:
        text = (
            f"sent and received packets are stamped by two clocks, {span(directions.delta_ns)} apart (as tcpdump -j "
            "adapter_unsynced does); replies were shifted by that much, and response times here are right to within "
            f"{span(directions.error_ns)}. Capture with the host's clock: tcpdump -j host"
        )
        return [note("capture-two-clocks", max(d.backward_times, directions.backward), text, warn=True)]
    early, by_ns = _replies_before_calls(tally)
    if early:
        text = (
            f"{some(early, 'reply', 'replies')} {be(early)} stamped before their calls, by {span(by_ns)}, and could "
            "not be paired: sent and received packets are stamped by two clocks, and the file was sorted by time. "
            "Give the file as captured"
        )
        return [note("capture-two-clocks", early, text, warn=True)]
    if not d.backward_times:
        return []
    back_ns, packets = d.largest_backward_ns, sum(d.packet_kinds.values())
    is_rare = d.backward_times <= max(_REORDERED * packets, 1)
    if back_ns is not None and back_ns >= _SET_NS and is_rare and not _overlapping_files(tally.source):
        text = (
            f"time goes back by {span(back_ns)} within the file: the clock was set while the capture ran, and "
            "operations in flight at that moment have wrong times"
        )
        return [note("capture-clock-step", d.backward_times, text, warn=True)]
    text = f"{some(d.backward_times, 'packet')} with an earlier time than the one before"
    if back_ns is not None:
        text += f", by up to {span(back_ns)}; response times may be off by that"
    if not _is_native(d):
        text += ". --engine native reads packets in the order of their times"
    matters = back_ns is None or back_ns > _NOTICEABLE * tally.odd.took_ns / max(tally.ops, 1)
    return [note("capture-reordered", d.backward_times, text, warn=not is_rare and matters)]


def _tick_notes(ticking: Ticking) -> list[AuditNote]:
    """Stamps by a clock that goes in steps; a note of its own says more where there are two clocks."""
    if not ticking.ns:
        return []
    text = (
        f"the time stamps of {some(ticking.ops, 'op')} tick every {to_ms(ticking.ns):g} ms: each response time may be "
        f"off by as much, their mean by {to_ms(ticking.error_ns):.3g} ms. The clock that made them, or the file's "
        "format, is no finer"
    )
    more = "; percentiles, what is in flight and what operations wait for are not judged" if ticking.is_coarse else ""
    return [note("capture-coarse-stamps", ticking.ops, text + more, warn=ticking.is_coarse)]


def _replies_before_calls(tally: CaptureTally) -> tuple[int, int]:
    """Replies without a call that are older than a call without a reply with their XID: how many, and by how much.

    None where they are few: an XID that was used again.
    """
    d, odd = tally.facts, tally.odd
    least = MANY * d.messages
    is_many = min(d.states[State.NO_REPLY], d.states[State.NO_CALL]) > least and odd.early > least
    return (odd.early, odd.early_ns) if is_many and odd.early * 2 > odd.paired_xids else (0, 0)


def _overlapping_files(source: Source) -> int:
    return sum(b.first_ns < a.last_ns for a, b in pairwise(source.files))


def _is_native(d: Decoded) -> bool:
    return d.engine.startswith("native")


def _overlap_copies(d: Decoded) -> str:
    copies = d.duplicate_packets
    both = f"; {some(copies, 'packet')} {be(copies)} there twice and count once" if copies else ""
    return f". Their packets were read in the order of their times{both}"


def _file_notes(tally: CaptureTally) -> list[AuditNote]:
    d, files = tally.facts, tally.source.files
    said = [file.damage for file in files if file.damage]
    late, latest_ns = sum(file.late for file in files), max((file.latest_ns for file in files), default=0)
    damage = f" ({said[0]})" if said else ""
    return [
        note(
            "capture-cut-short",
            int(d.cut_short),
            f"the file ends in the middle of a packet, or is damaged{damage}; everything before that was read",
            warn=True,
        ),
        note(
            "files-overlap",
            _overlapping_files(tally.source),
            "files of the set overlap in time: they are no rotation of one capture"
            + (_overlap_copies(d) if _is_native(d) else ", and were read one after the other"),
            warn=not _is_native(d),
        ),
        note(
            "capture-sorted",
            late,
            f"{some(late, 'packet')} stood behind later ones in the file, by up to {span(latest_ns)}, as where several "
            "queues are captured: read in the order of their times",
        ),
    ]


def _again_notes(tally: CaptureTally) -> list[AuditNote]:
    """Calls that came again after their answer: over UDP, or with its connection, that may have been lost."""
    after = tally.shown.again
    text = (
        f"{some(after, 'call')} ({share(after, tally.ops)} of the ops) came again soon after the answer, with "
        f"the same XID and the same request as far as it is shown, and {be(after)} taken for retransmitted. Where a "
        "client uses its XIDs again as soon, they are ops of their own, and not counted. tcpdump -s 0 shows what "
        "each asks for"
    )
    return [note("capture-xids-again", after, text, warn=tally.shown.again_on_tcp > MANY * tally.ops)]


def _sealed_notes(tally: CaptureTally) -> list[AuditNote]:
    """Whole packets whose results cannot be read."""
    sealed = tally.odd.sealed
    if tally.source.snaplen is not None or sealed < _SEALED * tally.ops:
        return []
    text = (
        f"{some(sealed, 'op')} ({share(sealed, tally.ops)}) {be(sealed)} encrypted (sec=krb5p): times, turns and what "
        "TCP did are seen, and of NFSv4 no operation, of any version no status, file or size. mountstats of the client "
        "(--evidence) has times by operation"
    )
    return [note("capture-encrypted", sealed, text, warn=True)]


def _reading_notes(d: Decoded) -> list[AuditNote]:
    untracked, damaged = (d.packet_kinds.get(kind, 0) for kind in ("untracked", "tcp damaged"))
    return [
        note(
            "rpc-with-tls",
            d.tls_connections,
            f"{some(d.tls_connections, 'connection')} {be(d.tls_connections)} encrypted (RPC-with-TLS); the operations "
            "on them cannot be seen",
            warn=True,
        ),
        note(
            "capture-untracked",
            untracked,
            f"{some(untracked, 'packet')} {'belongs' if untracked == 1 else 'belong'} to more connections than "
            "nfslat follows at once; capture 'port 2049' only",
            warn=True,
        ),
        note(
            "capture-damaged",
            damaged,
            f"{some(damaged, 'TCP packet')} {be(damaged)} left out, with a sequence number far from all others and a "
            "bad checksum: damaged in transit",
            warn=damaged > MANY * sum(d.packet_kinds.values()),
        ),
        note(
            "capture-untimed",
            d.untimed_packets,
            f"{some(d.untimed_packets, 'packet')} {have(d.untimed_packets)} no time in the capture file and were "
            "given that of the packet before; latencies that begin or end with one are wrong",
            warn=True,
        ),
        note(
            "capture-misdated",
            d.misdated_packets,
            f"{some(d.misdated_packets, 'packet')} {be(d.misdated_packets)} of an interface that dates all its packets "
            f"before 1970 or after 2200; nothing of {'it' if d.misdated_packets == 1 else 'them'} is in the figures",
            warn=True,
        ),
        note(
            "capture-stalls-dropped",
            d.details.stalls_dropped,
            f"{some(d.details.stalls_dropped, 'row')} of what TCP did (pauses, messages beyond gaps, payload by "
            f"time) {be(d.details.stalls_dropped)} beyond those that are kept: what ops are charged with is too low. "
            "Give a shorter capture, or fewer hosts",
            warn=True,
        ),
        note(
            "capture-names-dropped",
            d.details.files_dropped,
            f"{some(d.details.files_dropped, 'row')} of what replies say of file names "
            f"{be(d.details.files_dropped)} beyond those that are kept: paths may be missing, or be those before a "
            "rename. Give a shorter capture",
        ),
        note(
            "malformed-rpc",
            d.malformed,
            f"{some(d.malformed, 'RPC message')} {'does' if d.malformed == 1 else 'do'} not make sense and are not "
            "counted",
            warn=d.malformed > MANY * d.messages,
        ),
    ]


def _packet_notes(tally: CaptureTally) -> list[AuditNote]:
    d, tcp = tally.facts, tally.facts.details.tcp
    packets = sum(d.packet_kinds.values())
    rate, copies = d.busiest_second_packets or 0, d.duplicate_packets
    observer = (
        f"up to {some(rate, 'packet')} in a second: capturing one costs about {_TAP_NS // 1000} us of the CPU that "
        f"sends or receives it, {rate * _TAP_NS / 1e7:.0f} % of one CPU in that second, so the host is slower than "
        "without a capture. Repeat with a narrow filter and a small -s, or at a mirror port, and compare"
    )
    if copies > _EVERY_PACKET * packets:
        why = "tcpdump -i any, a bridge or a bond; each is counted once, at the time of its first copy"
    else:
        why = "duplicated in transit, or by a mirror port; each is counted once, at the time of its first copy"
    merged, with_data = int(tcp.super_packets.sum()), int(tcp.data_packets.sum())
    largest = int(tcp.largest_payload.max(initial=0))
    offload = f"{some(merged, 'TSO/GRO packet')}: one stamp for up to {size(largest)}"
    if largest >= _LONG:
        offload += (
            f" ({share(merged, with_data)} of the packets with data). Outgoing ones are stamped before transmission, "
            "incoming ones when merged, so serialisation time is in the network parts, not in sending"
        )
    late, connections = _without_handshake(tcp)
    wire, captured = d.wire_bytes or 0, d.captured_bytes or 0
    return [
        note("observer-effect", rate if rate >= _RATE else 0, observer, warn=True),
        note(
            "capture-duplicates",
            copies,
            f"{some(copies, 'packet')} ({share(copies, packets)}) {be(copies)} in the file twice: {why}",
        ),
        note(
            "capture-no-handshake",
            late,
            f"{late:,} of {some(connections, 'TCP connection')} began before the capture: their window scale is "
            "unknown, so a full window is recognised only where the sender repeatedly stops at its edge",
        ),
        note("capture-offload", merged if merged > _MERGED * with_data else 0, offload),
        note("capture-snaplen", max(wire - captured, 0), f"{_of(captured, wire)} captured{_cut(tally)}"),
    ]


def _without_handshake(tcp: Tcp) -> tuple[int, int]:
    """TCP connections with data of which a SYN is not in the capture, and all with data."""
    _, number = np.unique((tcp.conn.astype(np.int64) << 32) + tcp.reconnect, return_inverse=True)
    has_data = np.bincount(number, weights=tcp.data_packets) > 0
    unseen = np.bincount(number, weights=tcp.saw_syn == 0) > 0
    return int(np.count_nonzero(has_data & unseen)), int(np.count_nonzero(has_data))


def _of(part: int, whole: int) -> str:
    """``8.0 of 44.9 MB``."""
    digits, unit = size(whole).rsplit(" ", 1)
    scale = {"GB": 1e9, "MB": 1e6, "kB": 1e3}.get(unit)
    return f"{part / scale:.1f} of {digits} {unit}" if scale else f"{part:,} of {digits} {unit}"


def _cut(tally: CaptureTally) -> str:
    """What that does."""
    unknown = tally.odd.without_offset
    if unknown > MANY * tally.ops:
        return f"; {some(unknown, 'READ or WRITE', 'READs and WRITEs')} without an offset are matched by XID alone"
    # Headers that are behind it have a note of their own.
    return "" if tally.facts.hidden else "; no figure needs the rest"
