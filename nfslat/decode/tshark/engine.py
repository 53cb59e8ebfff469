"""A source -> its ops, with Wireshark's tshark as the dissector; memory grows with messages, not packets.

tshark prints one line a packet, which is read as a stream. Two forms of output carry the same cells: columns
(``-T tabs``), for which tshark need not build a printable tree and which take about half the time, and ``-T fields``.
A column holds at most 2047 bytes; where a frame has more messages than fit, the capture is read again with fields.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Callable, Generator
from typing import Any

from nfslat.confined import refuse_ended
from nfslat.decode.capture import Source
from nfslat.decode.tools import Tools
from nfslat.decode.tshark import cells
from nfslat.decode.tshark.cells import UnreadableLine
from nfslat.decode.tshark.pair import pair
from nfslat.decode.tshark.reader import Dissected, Reader
from nfslat.errors import ToolError
from nfslat.model.decoded import Decoded, Facts, Reassembly
from nfslat.model.record import declared

_PROGRESS_PACKETS = 4096


def decode(source: Source, tools: Tools, progress: Callable[[int], None]) -> Decoded:
    """Dissect `source` and pair its calls with its replies; see `dissect`."""
    found = dissect(source, tools, progress)
    paired = pair(found.messages)
    facts = {name: getattr(found, name) for name in declared(Facts)}
    engine = f"tshark {tools.version}"
    return Decoded(ops=paired.ops, loose=paired.loose, engine=engine, reassembly=found.reassembly, **facts)


def dissect(source: Source, tools: Tools, progress: Callable[[int], None], *, form: str = "columns") -> Dissected:
    """The messages of `source`; `progress` is called with the number of packets read so far.

    Raises ``InputError`` where tshark cannot read the file, ``ToolError`` where tshark fails.
    """
    if source.snaplen is not None:
        return read(source, tools, progress, Reassembly.OFF, form=form)
    found = read(source, tools, progress, Reassembly.ANY_ORDER, form=form)
    if not found.lost_ranges:
        return found
    # A packet that the capture lost is awaited for good, and everything behind it on its connection is lost with it.
    again = read(source, tools, progress, Reassembly.IN_ORDER, form=form)
    return max(found, again, key=lambda reading: len(reading.messages))


def read(
    source: Source, tools: Tools, progress: Callable[[int], None], reassembly: Reassembly, *, form: str = "columns"
) -> Dissected:
    """One reading of `source` with the `reassembly` asked for; see `dissect`."""
    reader = Reader(reassembly)
    split = cells.split_columns if form == "columns" else cells.split_fields
    try:
        with contextlib.closing(_lines(source, tools, reassembly, form)) as lines:
            for line in lines:
                reader.packet(split(line))
                if reader.packets % _PROGRESS_PACKETS == 0:
                    progress(reader.packets)
    except UnreadableLine as problem:
        if form != "columns":
            raise ToolError(
                f"tshark printed what nfslat does not understand: {problem}", about=source.name
            ) from problem
    else:
        progress(reader.packets)
        return reader.result(cut_short=any(file.cut_short for file in source.files), form=form)
    return read(source, tools, progress, reassembly, form="fields")


def preferences(reassembly: Reassembly) -> list[str]:
    """Every tshark preference that changes what is found, set so that the user's own do not matter.

    On whole packets TCP reassembly finds headers anywhere in the stream. On packets cut by a snaplen it loses them, so
    each segment is dissected on its own and its records are followed in sequence space (`streams`).
    """
    reassemble = reassembly is not Reassembly.OFF
    values = {
        "tcp.desegment_tcp_streams": reassemble,
        "tcp.reassemble_out_of_order": reassembly is Reassembly.ANY_ORDER,
        "tcp.analyze_sequence_numbers": True,
        "tcp.relative_sequence_numbers": True,  # without it tshark stumbles where sequence numbers wrap
        "tcp.try_heuristic_first": True,  # else a dissector registered for a client port below 1024 takes the packets
        "tcp.check_checksum": False,  # offload leaves checksums unset
        "udp.check_checksum": False,
        "udp.try_heuristic_first": True,
        "ip.check_checksum": False,
        "ip.defragment": True,
        "ip.tso_support": True,
        "ipv6.defragment": True,
        "rpc.desegment_rpc_over_tcp": True,
        "rpc.defragment_rpc_over_tcp": True,
        # Else a reply whose call is not in the capture hides every message behind it. On cut captures the place of a
        # header found that way, and with it the message's last byte, would not be known.
        "rpc.find_fragment_start": reassemble,
        "rpc.dissect_unknown_programs": False,
        "nfs.file_name_snooping": False,
        "nfs.fhandle_find_both_reqrep": False,
    }
    return [part for name, value in values.items() for part in ("-o", f"{name}:{str(value).upper()}")]


def _command(tools: Tools, path: str, reassembly: Reassembly, form: str) -> list[str]:
    output = cells.column_arguments() if form == "columns" else cells.field_arguments()
    return [tools.tshark, "-n", "-r", path, *preferences(reassembly), *output]


def _lines(source: Source, tools: Tools, reassembly: Reassembly, form: str) -> Generator[str, None, None]:
    """Start tshark (behind mergecap for a set of files) and yield its lines, one a packet."""
    paths = [os.fspath(file.path.absolute()) for file in source.files]
    may = tools.may([file.path for file in source.files])
    children: list[subprocess.Popen[Any]] = []
    with tempfile.TemporaryFile() as stderr:
        try:
            feed = None
            if len(paths) > 1:
                merge = [tools.mergecap, "-a", "-w", "-", *paths]
                feeder = tools.start(merge, may, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                children.append(feeder)
                feed = feeder.stdout
            tshark = tools.start(
                _command(tools, "-" if feed else paths[0], reassembly, form),
                may,
                stdin=feed or subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=stderr,
                encoding="utf-8",
                errors="replace",
            )
            children.append(tshark)
            if feed is not None:
                feed.close()  # tshark's now: so mergecap notices when tshark ends
            for line in tshark.stdout or ():
                yield line.rstrip("\n")
            status = tshark.wait()
        finally:
            for child in children:
                child.kill()
                child.wait()
                if child.stdout is not None:
                    child.stdout.close()
        refuse_ended("tshark", status, may, source.name)
        # What was read in front of a damaged packet is good; capinfos found the damage, and the audit says so.
        if status and not any(file.cut_short for file in source.files):
            stderr.seek(0)
            said = [line for line in stderr.read().decode(errors="replace").splitlines() if line.startswith("tshark:")]
            message = said[-1].removeprefix("tshark: ") if said else f"exit status {status}"
            raise ToolError(f"tshark says: {message}", about=source.name)
