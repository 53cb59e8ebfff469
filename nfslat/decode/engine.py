"""The name of an engine in, what opens captures and decodes them out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from nfslat.decode import bundle
from nfslat.decode.capture import Source, expand, is_parquet, refuse_stored
from nfslat.decode.tools import Tools
from nfslat.errors import InputError
from nfslat.model.decoded import Decoded
from nfslat.model.record import Record
from nfslat.model.segments import Wanted

if TYPE_CHECKING:
    from nfslat.decode.blocks import Blocks

ENGINES = ("native", "tshark")
DEFAULT = "native"


class Engine(Record):
    """What one run decodes with. `tools` finds Wireshark's programs when they are needed; raises ``ToolError``."""

    tools: Callable[[], Tools]
    open: Callable[[str], Source]
    total: Callable[[Source], int]  # what progress counts up to; 0 where it is not known
    unit: str  # of progress
    decode: Callable[[Source, Callable[[int], None]], tuple[Source, Decoded]]
    segments: Wanted = Wanted.NONE  # of TCP connections, with what it decodes
    # The same, block by block, of which the first has so many operations at least; None: it reads captures as a whole.
    blocks: Callable[..., Blocks] | None = None


def choose(
    name: str | None,
    tools: Callable[[], Tools],
    scratch: Path,
    *,
    rereads: bool,
    segments: Wanted = Wanted.NONE,
    files: bool = True,
) -> Engine:
    """The engine called `name`; None is the native one. Either takes what was decoded before.

    `rereads`: what comes in by standard input is wanted again later, so it is kept in `scratch`. `segments`: which of
    TCP connections are wanted; tshark gives none. `files`: whether what replies say of files is.
    """
    engine = _with_bundles(_decoder(name, tools, scratch, rereads=rereads, segments=segments, files=files), scratch)
    return _with_stored(engine, rereads=rereads, segments=segments)


def _decoder(
    name: str | None, tools: Callable[[], Tools], scratch: Path, *, rereads: bool, segments: Wanted, files: bool
) -> Engine:
    if (name or DEFAULT) == "tshark":
        from nfslat.decode.tshark import capinfos  # noqa: PLC0415  (late: the usual run does without)
        from nfslat.decode.tshark import engine as tshark  # noqa: PLC0415

        return Engine(
            tools=tools,
            open=lambda argument: capinfos.open_source(argument, tools(), scratch),
            total=lambda source: source.packets,
            unit=" packets",
            decode=lambda source, progress: (source, tshark.decode(source, tools(), progress)),
        )
    from nfslat.decode import blocks, native  # noqa: PLC0415  (late: what tshark reads does without)

    return Engine(
        tools=tools,
        open=lambda argument: native.open_source(argument, tools, scratch, rereads=rereads),
        total=lambda source: sum(file.path.stat().st_size for file in source.files if file.path.is_file()),
        unit="B",
        decode=lambda source, progress: blocks.decode(source, tools, progress, segments=segments, files=files),
        segments=segments,
        blocks=lambda source, first_ops: blocks.Blocks(
            source, tools, segments=segments, files=files, first_ops=first_ops
        ),
    )


def _with_bundles(engine: Engine, scratch: Path) -> Engine:
    """`engine`, for tars of scripts/capture.sh, too."""

    def open_source(argument: str) -> Source:
        paths = [] if argument == "-" else expand(argument, pipes=True)
        tars = [path for path in paths if path.is_file() and bundle.is_bundle(path)]
        if not tars:
            return engine.open(argument)
        if len(paths) > 1:
            raise InputError(
                "an archive is read by itself, not as part of a set; name this one file alone", about=tars[0]
            )
        found, told = bundle.unpack(argument, paths[0], scratch)
        try:
            source = engine.open(",".join(map(str, found)))
        except InputError as problem:
            path = Path(problem.about)
            if path not in found:
                raise
            raise problem.named(argument if len(found) == 1 else f"{argument}: {path.name}") from problem
        return bundle.named(source, argument, told)

    def decode(source: Source, progress: Callable[[int], None]) -> tuple[Source, Decoded]:
        source, decoded = engine.decode(source, progress)
        dropped = max(decoded.interface_drops, source.dropped)
        return source, structs.replace(decoded, interface_drops=dropped)

    return structs.replace(engine, open=open_source, decode=decode)


def _with_stored(engine: Engine, *, rereads: bool, segments: Wanted) -> Engine:
    """`engine`, for files of `nfslat.decode.stored`, too."""

    def open_source(argument: str) -> Source:
        paths = [] if argument == "-" else expand(argument, pipes=True)
        parquet = [path for path in paths if path.is_file() and is_parquet(path)]
        if not parquet:
            return engine.open(argument)
        if len(paths) > 1:
            raise InputError(
                "Parquet is read by itself, not as part of a set; name this one file alone", about=parquet[0]
            )
        from nfslat.decode import stored  # noqa: PLC0415  (late: needs pyarrow, and the usual run does without)

        source = stored.open_source(argument, paths[0])
        if rereads:
            refuse_stored(source)
        return source

    def decode(source: Source, progress: Callable[[int], None]) -> tuple[Source, Decoded]:
        if not source.stored:
            return engine.decode(source, progress)
        from nfslat.decode import stored  # noqa: PLC0415  (as above)

        return stored.read_side(source, progress, segments=segments)

    def total(source: Source) -> int:
        return 0 if source.stored else engine.total(source)  # read at once

    return structs.replace(engine, open=open_source, decode=decode, total=total)
