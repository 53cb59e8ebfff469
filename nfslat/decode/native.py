"""A source -> its ops, by the decoder of our own (native/), which follows messages in TCP sequence space.

What that decoder does not read (pktt, nettl and all else that Wireshark knows) is streamed through editcap; packets of
links that it does not know are what tshark finds in them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

from msgspec import structs

from nfslat.confined import refuse_ended
from nfslat.decode.capture import File, Runs, Source, expand, refuse_empty, refuse_stored, refuse_terminal, spool
from nfslat.decode.linktypes import link_name
from nfslat.decode.merge_tables import others_of
from nfslat.decode.tools import Tools
from nfslat.errors import InputError, ToolError
from nfslat.kernels.compiled import native as _native
from nfslat.model.decoded import Decoded
from nfslat.model.details import (
    Blocked,
    Callers,
    Details,
    Failures,
    Files,
    Hangs,
    Loads,
    Names,
    Others,
    Pauses,
    Replies,
    Resent,
    SessionLimits,
    Slots,
    Stream,
    Tcp,
    TcpEvents,
    Turns,
    Unanswered,
    Unread,
)
from nfslat.model.protocol import NULL
from nfslat.model.segments import Segments
from nfslat.model.tables import Connection, Kind, Loose, Ops, State

NAME = f"native {_native.VERSION}"
_POLL_S = 0.05
_STOP_S = 1.0


class _Result(Protocol):
    """What the decoder gives, whatever it was asked for."""

    @property
    def files(self) -> list[_native.File]: ...


_T = TypeVar("_T", bound=_Result)
_STANDARD_INPUT = Path("-")  # as the decoder calls it


def open_source(argument: str, tools: Callable[[], Tools], scratch: Path, *, rereads: bool) -> Source:
    """Resolve one command-line argument: a file, a pipe, a glob, a comma list, or ``-`` for standard input.

    `rereads`: tshark will read the same again, so that what it cannot (pipes, bzip2, xz) is kept in `scratch` for it.
    Raises ``InputError`` for what is missing, unreadable, empty or no capture, with the reason in one line.
    """
    if argument == "-":
        refuse_terminal()
    paths = [_STANDARD_INPUT] if argument == "-" else expand(argument, pipes=True)
    name = "standard input" if argument == "-" else argument
    if rereads and (argument == "-" or not paths[0].is_file()):
        paths = [spool(None if argument == "-" else paths[0], scratch)]
    elif argument == "-" or not paths[0].is_file():
        # A pipe can be read once only, so it is not looked at beforehand.
        return Source(name, (_unread(name, paths[0]),))
    names = [name] if len(paths) == 1 else [str(path) for path in paths]
    files = [_peek(name, path, tools, scratch, rereads=rereads) for name, path in zip(names, paths, strict=True)]
    kept = [file for file in files if file is not None]
    if not kept:
        refuse_empty(names[0])
    kept.sort(key=lambda file: (file.first_ns, file.name))
    return Source(name, tuple(kept))


def facts_of(source: Source, found: Sequence[_native.File]) -> dict[str, Any]:
    """What `found` tells of `source`, when its files were read: fields of `nfslat.model.decoded.Facts`."""
    return {
        "first_ns": min(file.first_ns for file in source.files),
        "last_ns": max(file.last_ns for file in source.files),
        "cut_short": any(file.cut_short for file in source.files),
        "interface_drops": sum(file.dropped for file in found),
        "untimed_packets": sum(file.untimed for file in found),
        "misdated_packets": sum(file.misdated for file in found),
    }


def read(
    source: Source,
    tools: Callable[[], Tools],
    progress: Callable[[int], None],
    work: Callable[[list[str], _native.Job], _T],
    *,
    may_be_empty: bool = False,
) -> tuple[Source, _T]:
    """Let `work` read the files of `source` at the paths that it is given; the result has one of `files` for each.

    Otherwise as `decode`. `may_be_empty`: a source without packets is not refused.
    """
    refuse_stored(source)
    with contextlib.ExitStack() as stack:
        paths = [stack.enter_context(readable(file, tools)) for file in source.files]
        result = _run(source, lambda job: work(paths, job), progress)
    source = was_read(source, result.files)
    if not may_be_empty and not source.files:
        refuse_empty(source.name)
    return source, result


def was_read(source: Source, found: Sequence[_native.File]) -> Source:
    """With what is known of its files now; those without packets are left out."""
    files = tuple(
        structs.replace(
            file,
            format=file.format if file.is_foreign or file.is_export else told.format,
            snaplen=told.snaplen,
            packets=told.packets,
            first_ns=told.first_ns,
            last_ns=told.last_ns,
            cut_short=file.cut_short or told.damage is not None,
            damage=told.damage or file.damage,
            strange_link=told.link,
            late=told.late,
            latest_ns=told.latest_ns,
            runs=Runs(told.run_begins, told.run_numbers) if len(told.run_begins) else None,
        )
        for file, told in zip(source.files, found, strict=True)
    )
    return structs.replace(source, files=tuple(file for file in files if file.packets))


def _unread(name: str, path: Path, first_ns: int = NULL) -> File:
    return File(name=name, path=path, format="", snaplen=None, packets=0, first_ns=first_ns, last_ns=0, cut_short=False)


def _peek(name: str, path: Path, tools: Callable[[], Tools], scratch: Path, *, rereads: bool) -> File | None:
    """The file with the time of its first packet, by which rotated files are put in order; None without packets."""
    is_whole = True
    if rereads:
        path, is_whole = _for_wireshark(name, path, scratch)
    try:
        form, first_ns, link = _native.peek(path)
    except _native.NotACapture:
        if not rereads:
            path, is_whole = _for_wireshark(name, path, scratch)
        from nfslat.decode import foreign  # noqa: PLC0415  (late: only for what only Wireshark reads)

        return foreign.file_of(name, path, tools, scratch, is_whole=is_whole)
    except (OSError, ValueError) as problem:
        raise InputError(
            f"cannot be read as a capture: {_reason(problem)}; is the file complete?", about=name
        ) from problem
    if first_ns is None:
        return None
    file = structs.replace(_unread(name, path, first_ns), format=form, cut_short=not is_whole)
    if link is None:
        return file
    if not rereads:
        path, is_whole = _for_wireshark(name, path, scratch)
        file = structs.replace(file, path=path, cut_short=not is_whole)
    from nfslat.decode import foreign  # noqa: PLC0415  (late, as above)

    return foreign.as_ip(file, link_name(link), tools, scratch)


def _for_wireshark(name: str, path: Path, scratch: Path) -> tuple[Path, bool]:
    from nfslat.decode.tshark.capinfos import decompressed  # noqa: PLC0415  (late, as above)

    return decompressed(name, path, scratch)


def _reason(problem: OSError | ValueError) -> str:
    return str(problem.args[0] if isinstance(problem, ValueError) else problem.strerror or problem.args[1])


@contextlib.contextmanager
def readable(file: File, tools: Callable[[], Tools]) -> Iterator[str]:
    """A path at which the decoder finds pcap or pcapng: the file itself, or a pipe from editcap."""
    if not file.is_foreign:
        yield os.fspath(file.path)
        return
    found = tools()
    with tempfile.TemporaryFile() as stderr:
        command = [found.editcap, "-F", "pcapng", os.fspath(file.path.absolute()), "-"]
        may = found.may([file.path])
        with found.start(command, may, stdout=subprocess.PIPE, stderr=stderr) as editcap:
            try:
                yield f"/dev/fd/{editcap.stdout.fileno()}" if editcap.stdout else ""
            except BaseException:
                editcap.kill()
                raise
        status = editcap.returncode
        refuse_ended("editcap", status, may, file.name)
        if status > 0 and not file.cut_short:
            from nfslat.decode.tshark.capinfos import why_not  # noqa: PLC0415

            stderr.seek(0)
            raise ToolError(why_not(stderr.read().decode(errors="replace")), about=file.name)


def _run(source: Source, work: Callable[[_native.Job], _T], progress: Callable[[int], None]) -> _T:
    """Run the decoder in a thread of its own, so that this one stays awake for Ctrl-C."""
    job = _native.Job()
    found: list[_T | Exception] = []

    def work_or_fail() -> None:
        try:
            found.append(work(job))
        except Exception as problem:
            found.append(problem)

    worker = threading.Thread(target=work_or_fail, name=f"decode {source.name}", daemon=True)
    worker.start()
    try:
        while worker.is_alive():
            worker.join(_POLL_S)
            progress(job.bytes)
        progress(job.bytes)  # all of it, however soon that was
    except BaseException:
        job.stop()
        # One that waits for a pipe which brings nothing does not hear of it; it ends with the process.
        worker.join(_STOP_S)
        raise
    (result,) = found
    if not isinstance(result, Exception):
        return result
    if isinstance(result, OSError | ValueError):
        raise refused(source, result) from result
    raise result


def refused(source: Source, problem: OSError | ValueError) -> InputError:
    """What the decoder says, in a line."""
    name = source.files[problem.args[-1]].name if isinstance(problem.args[-1], int) else source.name
    if isinstance(problem, _native.NotACapture):
        said = "neither pcap, pcapng, snoop nor ERF; other formats are read from files only: write it to a file first"
    else:
        said = f"cannot be read as a capture: {_reason(problem)}; is the file complete?"
    return InputError(said, about=name)


def _others(found: _native.Found) -> Others:
    """Streams in an order that is the same whatever was met first."""
    streams = tuple(Stream(*ends) for ends in found.streams)
    return others_of([Others(**found.tables.others, streams=streams, stretch_ns=found.other_stretch_ns)])


def decoded(found: _native.Found, **facts: Any) -> Decoded:
    """What the decoder found, and the `facts` that it cannot know."""
    tables, counts, dropped = found.tables, found.counts, found.dropped
    connections = tuple(Connection(*ends) for ends in found.connections)
    kinds = tuple(Kind(program, version, minor, op, tuple(ops)) for program, version, minor, op, ops, _ in found.kinds)
    names = tuple(found.names)
    return Decoded(
        ops=Ops(**tables.ops, kinds=kinds, connections=connections),
        loose=Loose(**tables.loose, kinds=kinds, connections=connections),
        engine=NAME,
        repeats={State.RETRANSMITTED: counts.repeated, State.DUPLICATE_FRAME: counts.duplicated},
        packet_kinds=counts.packet_kinds,
        hidden=counts.hidden,
        malformed=counts.malformed,
        duplicate_packets=counts.duplicate_packets,
        lost_ranges=counts.lost_ranges,
        lost_bytes=counts.lost_bytes,
        backward_times=counts.backward_times,
        largest_backward_ns=counts.largest_backward_ns,
        wire_bytes=counts.wire_bytes,
        captured_bytes=counts.captured_bytes,
        busiest_second_packets=counts.busiest_second_packets,
        tls_connections=counts.tls_connections,
        segments=[Segments(**columns) for columns in found.segments],
        **facts,
        details=Details(
            slots=Slots(**tables.slots, sessions=tuple(found.sessions)),
            names=Names(**tables.names, names=names),
            failures=Failures(**tables.failures),
            tcp=Tcp(**tables.tcp),
            events=TcpEvents(**tables.events),
            resent=Resent(**tables.resent),
            pauses=Pauses(**tables.pauses),
            blocked=Blocked(**tables.blocked),
            loads=Loads(**tables.loads, stretch_ns=found.load_stretch_ns),
            others=_others(found),
            unread=Unread(**tables.unread),
            hangs=Hangs(**tables.hangs),
            replies=Replies(**tables.replies),
            unanswered=Unanswered(**tables.unanswered),
            callers=Callers(**tables.callers),
            files=Files(**tables.files, names=names, handles=tuple(found.file_handles)),
            sessions=tuple(SessionLimits(t_ns, name, *limits) for t_ns, name, limits in found.created_sessions),
            turns=Turns(**tables.turns),
            events_dropped=dropped.events,
            resent_dropped=dropped.resent,
            pauses_dropped=dropped.pauses,
            blocked_dropped=dropped.blocked,
            loads_dropped=dropped.loads,
            unread_dropped=dropped.unread,
            hangs_dropped=dropped.hangs,
            files_dropped=dropped.files,
        ),
    )
