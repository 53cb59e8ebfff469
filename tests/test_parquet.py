"""Parquet: the matched ops as other programs read them, and a decoded capture that nfslat takes in place of its own."""

from __future__ import annotations

import dataclasses
import io
import json
import shutil
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from pathlib import Path
from types import UnionType
from typing import Any

import numpy as np
import pytest
from captures import SAMPLES, SHARED, WITH_NFS, Decoder, most_by_night, needs_captures
from examples import examples
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from test_op_table import ROOT, full, no_tools, rows_of_docs, sample

from nfslat import api
from nfslat.answer.model import Tool
from nfslat.cli import main as cli
from nfslat.decode.capture import File, Source
from nfslat.decode.engine import Engine, choose
from nfslat.decode.packed import pack
from nfslat.decode.stored import SCHEMA, open_source, read_side, write_side
from nfslat.decode.tools import find_tools
from nfslat.errors import InputError
from nfslat.evidence.known import Known
from nfslat.export.by_window import write_parquet
from nfslat.model.decoded import Decoded
from nfslat.model.record import kept_fields
from nfslat.model.segments import Segments, Wanted
from nfslat.model.tables import Loose
from nfslat.pipeline import analyse, correlate, inspect, report
from nfslat.results import Side
from nfslat.select import Filters

pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
PAIRS = sorted({path.parent for path in SAMPLES})
_BY_DAY = ("packet-loss", "session-slots")
LAB = [  # what the samples have not: clocks that step, callbacks, names, reconnects, IPv6 in a foreign format
    SHARED / "lab" / name
    for name in ("g_clock_step3s", "h_v42_metadata", "i_v41_callback_recall", "n_v3_nfsd_restart", "k_v3_dup")
]


def written(decoded: Decoded, source: Source, path: Path) -> Path:
    """The file of one side."""
    with path.open("wb") as out:
        write_side(decoded, source, out)
    return path


def read(path: Path) -> tuple[Source, Decoded]:
    """The side in a file."""
    return read_side(open_source(str(path), path), lambda _: None, segments=Wanted.SOME)


def differences(one: Any, other: Any, name: str) -> list[str]:
    """The fields, however deep, in which two values differ; nothing of how they are kept is used here."""
    if type(one) is not type(other):
        return [f"{name}: {type(one).__name__} and {type(other).__name__}"]
    if dataclasses.is_dataclass(one):
        return [
            found
            for field in kept_fields(type(one))
            for found in differences(getattr(one, field), getattr(other, field), f"{name}.{field}")
        ]
    if isinstance(one, list | tuple) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        return [found for number, pair in pairs for found in differences(*pair, f"{name}.{number}")]
    if isinstance(one, np.ndarray):
        return [] if one.dtype == other.dtype and np.array_equal(one, other) else [name]
    return [] if one == other else [name]


def lost(decoded: Decoded, source: Source, path: Path) -> list[str]:
    """What is not the same after a round trip, but for what is meant to be another."""
    there, again = read(written(decoded, source, path))
    assert there.stored
    assert there.name == str(path)
    assert {file.path for file in there.files} == {path}
    assert again.engine == f"{decoded.engine} (stored)"
    files = tuple(dataclasses.replace(file, path=old.path) for file, old in zip(there.files, source.files, strict=True))
    there = dataclasses.replace(there, name=source.name, files=files, stored=source.stored)
    again = dataclasses.replace(again, engine=decoded.engine)
    return differences(source, there, "source") + differences(decoded, again, "decoded")


@pytest.mark.parametrize("path", most_by_night(WITH_NFS))
def test_every_field_of_a_capture_comes_back(path: Path, decoder: Decoder, tmp_path: Path) -> None:
    """Ops, other messages, all tables of details, texts and counts of every capture there is are the same, exactly."""
    side = decoder.side("native", path)
    assert lost(side.decoded, side.source, tmp_path / "side.parquet") == []


# --- Whatever a side may hold -----------------------------------------------------------------------------------------


def made(hint: Any, numbers: np.random.Generator, rows: int = 0) -> Any:
    """Any value of a type; of tables `rows` rows of anything. Not by hypothesis, which is slow on so many fields."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    of_array = getattr(origin, "__value__", hint)  # since numpy 2.5 NDArray[X] is an alias of its own kind
    if typing.get_origin(of_array) is np.ndarray:
        dtype = np.dtype(inner[0] if of_array is not hint else inner[1].__args__[0])
        return np.frombuffer(numbers.bytes(rows * dtype.itemsize), dtype=dtype).copy()
    if dataclasses.is_dataclass(hint):
        hints, count = typing.get_type_hints(hint), int(numbers.integers(4))
        make: Any = hint
        kept = kept_fields(hint)
        return make(**{name: made(hints[name], numbers, count) for name in kept})
    if hint is Path:
        return Path("x")
    if isinstance(hint, type) and issubclass(hint, Enum):
        return list(hint)[numbers.integers(len(hint))]
    if isinstance(hint, type) and hasattr(hint, "_fields"):
        return hint(*(made(of, numbers) for of in typing.get_type_hints(hint).values()))
    if origin is tuple:
        return tuple(made(inner[0], numbers) for _ in range(numbers.integers(2, 4)))
    if origin in (dict, Mapping):
        return {made(inner[0], numbers): made(inner[1], numbers) for _ in range(numbers.integers(4))}
    if origin in (UnionType, typing.Union):
        return made(inner[0], numbers) if numbers.integers(2) else None
    letters = [chr(code) for code in (0, 34, 37, 92, 97, 233, 8230, 0x1F600, 0xDCFF)]
    plain: dict[Any, Callable[[], Any]] = {
        int: lambda: int(numbers.integers(1 << 62)) >> int(numbers.integers(62)),
        str: lambda: "".join(numbers.choice(letters, numbers.integers(5))),
        bool: lambda: bool(numbers.integers(2)),
        float: lambda: float(numbers.normal()),
        bytes: lambda: numbers.bytes(int(numbers.integers(5))),
    }
    return plain[hint]()


def leading_somewhere(decoded: Decoded) -> Decoded:
    """With connections and kinds that there are: two at least."""
    parts = {}
    for name in ("ops", "loose"):
        table = getattr(decoded, name)
        conn, kind = (np.abs(column % 2).astype(column.dtype) for column in (table.conn, table.kind))
        parts[name] = dataclasses.replace(
            table,
            conn=conn,
            kind=kind,
            direction=np.abs(table.direction % 2).astype(np.int8),
            connections=tuple(
                dataclasses.replace(
                    ends,
                    **{
                        name: text.replace("\udcff", "")
                        for name, text in dataclasses.asdict(ends).items()
                        if isinstance(text, str)
                    },
                    port_a=ends.port_a % 65536,
                    port_b=ends.port_b % 65536,
                )
                for ends in table.connections
            ),
        )
    callers = decoded.details.callers
    uid = np.resize(callers.uid, len(decoded.ops)) if len(callers) else callers.uid
    details = dataclasses.replace(decoded.details, callers=dataclasses.replace(callers, uid=uid.astype(np.uint32)))
    return dataclasses.replace(decoded, **parts, details=details)


@hypothesis_settings(max_examples=examples(25))
@given(seed=st.integers(0, 1 << 32))
def test_anything_that_a_side_can_hold_comes_back(seed: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Every field of every dataclass, also one that no capture here fills, is the same after the file as before."""
    numbers = np.random.default_rng(seed)
    decoded, source = leading_somewhere(made(Decoded, numbers)), made(Source, numbers)
    assert lost(decoded, source, tmp_path_factory.getbasetemp() / "any.parquet") == []


def test_a_type_that_is_new_is_no_field_that_is_lost() -> None:
    """A field whose type nobody thought of ends in an error, when the file is written."""

    @dataclasses.dataclass
    class New:
        ratio: complex

    New.__annotations__["ratio"] = complex
    with pytest.raises(TypeError, match="no way to keep"):
        pack(New, New(1j), "new", {})


# --- The same report --------------------------------------------------------------------------------------------------


def engine_for(scratch: Path) -> Engine:
    """The native one, without Wireshark."""
    return choose("native", no_tools, scratch, rereads=False)


def report_of(server: Source, client: Source, engine: Engine) -> str:
    """The report as JSON, without what tells files and engines apart."""
    found = correlate(server, client, engine, filters=Filters(), srt="nfslat", may_swap=True, progress=lambda _: None)
    tool = Tool("0", "any", "nfslat", "nfslat")
    text = json.dumps(report(analyse(found), tool, Filters(), Known()).to_dict())
    for source, name in ((server, "SERVER"), (client, "CLIENT")):
        text = text.replace(source.name, name)
    return text


@pytest.mark.parametrize(
    "folder",
    [
        *(pytest.param(pair, marks=() if pair.name in _BY_DAY else pytest.mark.long) for pair in PAIRS),
        *(pytest.param(lab, marks=[needs_captures, pytest.mark.long]) for lab in LAB),
    ],
    ids=lambda path: path.name,
)
def test_parquet_in_gives_the_report_of_the_captures(folder: Path, tmp_path: Path) -> None:
    """From two files of decoded sides comes the report that the captures give, in every figure and word."""
    engine = engine_for(tmp_path)
    captures = [engine.open(str(folder / f"{side}.pcap.gz")) for side in ("server", "client")]
    kept = []
    for source in captures:
        side = inspect(source, engine, filters=Filters(), progress=lambda _: None)
        name = tmp_path / f"{Path(source.name).name}.parquet"
        kept.append(engine.open(str(written(side.decoded, side.source, name))))
    wanted, found = report_of(captures[0], captures[1], engine), report_of(kept[0], kept[1], engine)
    for source, name in zip(captures, ("SERVER", "CLIENT"), strict=True):
        found = found.replace(source.name, name)  # the files of a capture keep their names: frames are theirs
    assert found == wanted


def test_one_side_from_parquet_and_one_from_its_capture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They go together, and the report says which engine decoded which."""
    server, client = (str(ROOT / "samples" / "packet-loss" / f"{side}.pcap.gz") for side in ("server", "client"))
    kept = str(stored_sample("packet-loss", tmp_path))
    answers = []
    for one in (server, kept):
        assert cli.main([one, client, "-q", "--json", "-"]) == 0
        answers.append(json.loads(capsys.readouterr().out))
    assert answers[1]["matched"] == answers[0]["matched"]
    assert answers[1]["findings"] == answers[0]["findings"]
    assert answers[1]["captures"]["server"]["path"] == kept
    engine = answers[0]["nfslat"]["engine"]
    assert answers[1]["nfslat"]["engine"] == f"{engine} (stored) and {engine}"


def stored_sample(name: str, folder: Path, side: str = "server") -> Path:
    """One side of a sample, decoded and written."""
    engine = engine_for(folder)
    source, decoded = engine.decode(engine.open(str(ROOT / "samples" / name / f"{side}.pcap.gz")), lambda _: None)
    return written(decoded, source, folder / f"{side}.parquet")


def reported(capture: Path, path: Path, engine: str = "native") -> Path:
    """The file that the report on one capture writes."""
    with path.open("wb") as out:
        api.inspect(capture, engine=engine).write_ops_parquet(out)
    return path


def segments_of(capture: Path, scratch: Path, engine: str = "native") -> list[Segments]:
    """The sample that a report on two captures has of one of them, which may be stored."""
    chosen = choose(engine, cache(lambda: find_tools(scratch)), scratch, rereads=False, segments=Wanted.SOME)
    return chosen.decode(chosen.open(str(capture)), lambda _: None)[1].segments


@pytest.mark.parametrize("side", ["server", "client"])
def test_the_segments_that_two_captures_have_are_stored(side: str, tmp_path: Path) -> None:
    """The other host's times were inferred from them before the file is written, and none of them is lost by that; nor
    when what was stored is stored again. Who asks for none gets none."""
    capture = ROOT / "samples" / "packet-loss" / f"{side}.pcap.gz"
    wanted = segments_of(capture, tmp_path)
    stored = reported(capture, tmp_path / "stored")
    again = reported(stored, tmp_path / "again")
    assert wanted
    for path in (stored, again):
        assert differences(wanted, segments_of(path, tmp_path), "segments") == []
    assert read_side(open_source("", stored), lambda _: None)[1].segments == []


@pytest.mark.long
@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_stores_no_segments(tmp_path: Path) -> None:
    """Two captures that it decodes have none, whatever was read for the report on one of them."""
    capture = ROOT / "samples" / "session-slots" / "server.pcap.gz"
    assert segments_of(capture, tmp_path, "tshark") == []
    assert segments_of(reported(capture, tmp_path / "stored", "tshark"), tmp_path) == []


def test_segments_out_of_order_are_refused(tmp_path: Path) -> None:
    """A file that was made so on purpose ends here: frames lead into tables."""
    side = sample("session-slots").server
    for frames in ([2, 1], [1, 1], [0, 1], [-5, 1]):
        columns = {name: frames if name == "frame" else [0, 0] for name in Segments.columns()}
        segments = [Segments.from_columns(columns)]
        path = written(dataclasses.replace(side.decoded, segments=segments), side.source, tmp_path / "x.parquet")
        assert "order of their frames" in refused(path)


def test_two_clocks_in_a_capture_are_told_of_again(decoder: Decoder, tmp_path: Path) -> None:
    """What was put on one clock before it was written says so when it is read, and is not amended twice."""
    from nfslat.model.decoded import Directions

    side = decoder.side("native", SAMPLES[0])
    amended = dataclasses.replace(
        side.decoded, directions=Directions(37_000_000_000, 36_999_999_000, 37_000_001_000, 0.0, 5, 9)
    )
    _, again = read(written(amended, side.source, tmp_path / "two.parquet"))
    assert again.directions == amended.directions
    assert Side(side.source, again, np.zeros(len(again.ops), np.int8)).directions == amended.directions


def test_what_was_stored_can_be_stored_again(tmp_path: Path) -> None:
    """The same bytes but for the name: nothing is lost or marked twice on the way."""
    first = stored_sample("packet-loss", tmp_path)
    source, decoded = read(first)
    second = written(
        decoded, dataclasses.replace(source, name=str(ROOT / "samples/packet-loss/server.pcap.gz")), tmp_path / "b"
    )
    assert second.read_bytes() == first.read_bytes()


def test_the_same_capture_gives_the_same_bytes(tmp_path: Path) -> None:
    """In a file, and in a pipe, which cannot be sought in."""

    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.data = b""

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            self.data += bytes(data)
            return len(data)

    pipe = Pipe()
    side = sample("packet-loss").server
    write_side(side.decoded, side.source, typing.cast(typing.BinaryIO, pipe))
    assert written(side.decoded, side.source, tmp_path / "a").read_bytes() == pipe.data


# --- What other programs see ------------------------------------------------------------------------------------------


def test_other_programs_read_the_ops_of_a_side(tmp_path: Path) -> None:
    """A row an op; names in words, null where nothing is known, units beside the columns, and no other row."""
    path = stored_sample("packet-loss", tmp_path)
    ops = read(path)[1].ops
    table = pq.read_table(path)
    assert table.num_rows == len(ops)
    assert table["t0"].to_pylist() == ops.t0.tolist()
    assert table.schema.field("t0").metadata[b"unit"] == b"ns"
    sizes = [None if size == 2**32 - 1 else size for size in ops.size.tolist()]
    assert table["size"].to_pylist() == sizes
    assert set(table["operation"].to_pylist()) >= {"READ", "WRITE"}
    ends = ops.connections[ops.conn[0]]
    row = table.slice(0, 1).to_pylist()[0]
    assert (row["caller"], row["caller_port"]) == ends.source(ops.direction[0])
    assert (row["called"], row["called_port"]) == ends.destination(ops.direction[0])


def test_matched_ops_are_written_as_they_are() -> None:
    """Each column of the table is in the file, with its unit; the file says what it is, and is the same twice."""
    table = full("session-slots")
    files = []
    for _ in range(2):
        out = io.BytesIO()
        write_parquet(table, out, command="nfslat a b --parquet c")
        files.append(out.getvalue())
    assert files[0] == files[1]
    found = pq.read_table(io.BytesIO(files[0]))
    for column in table.columns:
        assert found[column.name].to_pylist() == table[column.name].tolist(), column.name
        assert found.schema.field(column.name).metadata[b"unit"].decode() == column.unit
    about = json.loads(pq.read_metadata(io.BytesIO(files[0])).metadata[b"nfslat"])
    assert about["schema"] == "nfslat.ops/1"
    assert about["command"] == "nfslat a b --parquet c"


def test_the_docs_name_every_column_of_a_side(tmp_path: Path) -> None:
    """docs/outputs.md has a line for each column of the file, in their order, with its dtype and unit."""
    schema = pq.read_schema(stored_sample("session-slots", tmp_path))
    lines = [row[:3] for row in rows_of_docs("## One capture")]
    assert lines == [
        [
            field.name,
            "text" if "dictionary" in str(field.type) else str(field.type),
            (field.metadata or {}).get(b"unit", b"").decode(),
        ]
        for field in schema
    ]


# --- What is refused --------------------------------------------------------------------------------------------------


def refused(path: Path) -> str:
    """The one line that a file is refused with."""
    with pytest.raises(InputError) as problem:
        read(path)
    text = str(problem.value)
    assert text.startswith(f"{path}: ")
    assert "\n" not in text
    return text


def test_matched_ops_are_no_capture(tmp_path: Path) -> None:
    """The file of --parquet is taken for what it is."""
    path = tmp_path / "ops.parquet"
    with path.open("wb") as out:
        write_parquet(full("session-slots"), out)
    assert "matched ops of two captures (--parquet); give a capture, or a file of --ops-parquet" in refused(path)


def test_parquet_of_others_is_refused(tmp_path: Path) -> None:
    """Nothing is guessed from columns of another program."""
    import pyarrow as pa

    path = tmp_path / "other.parquet"
    pq.write_table(pa.table({"t0": [1, 2]}), path)
    assert "nfslat did not write; give a capture, or a file of --ops-parquet" in refused(path)


def test_another_version_of_the_form_is_refused(tmp_path: Path) -> None:
    """It says which one it is, and what to do."""
    path = stored_sample("session-slots", tmp_path)
    path.write_bytes(path.read_bytes().replace(SCHEMA.encode(), b"nfslat.side/9"))
    assert "'nfslat.side/9'" in refused(path)
    assert "make it again from the capture" in refused(path)


def test_what_another_program_wrote_again_is_refused(tmp_path: Path) -> None:
    """Rows that were taken out leave the rest of the file without them: no report is made of that."""
    path = stored_sample("session-slots", tmp_path)
    table = pq.read_table(path)
    about = pq.read_metadata(path).metadata
    for name, changed in (("all", table), ("some", table.slice(5)), ("told", table.replace_schema_metadata(about))):
        other = tmp_path / f"{name}.parquet"
        pq.write_table(changed, other)
        assert ("was changed" if name == "told" else "nfslat did not write") in refused(other)


def test_damage_is_found(tmp_path: Path) -> None:
    """Wherever a byte is another or the file ends early, it is refused, or every field is as it was."""
    path = stored_sample("session-slots", tmp_path)
    good, (source, decoded) = path.read_bytes(), read(path)
    numbers = np.random.default_rng(4)
    outcomes = set()
    for at in [*numbers.integers(4, len(good), examples(200)).tolist(), *range(len(good) - 6000, len(good), 197)]:
        flipped = bytearray(good)
        flipped[at] ^= 1 << int(numbers.integers(8))
        for data in (bytes(flipped), good[:at]):
            path.write_bytes(data)
            try:
                there, again = read(path)
            except InputError:
                outcomes.add("refused")
            else:
                assert differences(source, there, "") + differences(decoded, again, "") == []
                outcomes.add("read")
    assert "refused" in outcomes


def test_row_numbers_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    """A file that was made so on purpose ends here, not somewhere in the report."""
    side = sample("session-slots").server
    for field, value in (("conn", 99), ("conn", -1), ("kind", 99)):
        columns = {name: [value if name == field else 0] for name in Loose.columns()}
        loose = Loose.from_columns(columns, kinds=side.ops.kinds, connections=side.ops.connections)
        path = written(dataclasses.replace(side.decoded, loose=loose), side.source, tmp_path / "x.parquet")
        assert "leads nowhere" in refused(path)


@pytest.mark.parametrize("engine", ["native", "tshark"])
@pytest.mark.parametrize("argument", ["{0},{1}", "{0},{2}"])
def test_parquet_is_no_part_of_a_set(tmp_path: Path, engine: str, argument: str) -> None:
    """Two files, or one and a capture, are not put together."""
    one = stored_sample("session-slots", tmp_path)
    two = stored_sample("session-slots", tmp_path, "client")
    name = argument.format(one, two, ROOT / "samples/session-slots/server.pcap.gz")
    with pytest.raises(InputError, match="not as part of a set"):
        choose(engine, no_tools, tmp_path, rereads=False).open(name)


@pytest.mark.parametrize("engine", ["native", "tshark"])
def test_any_engine_takes_a_stored_side(tmp_path: Path, engine: str) -> None:
    """What was decoded before needs neither of them."""
    path = stored_sample("session-slots", tmp_path)
    chosen = choose(engine, no_tools, tmp_path, rereads=False)
    source = chosen.open(str(path))
    assert chosen.total(source) == 0
    assert differences(read(path)[1], chosen.decode(source, lambda _: None)[1], "") == []


@pytest.mark.parametrize("engine", ["native", "tshark"])
def test_what_looks_at_packets_again_asks_for_the_capture(tmp_path: Path, engine: str) -> None:
    """`nfslat show` and the like say so in one line, before anything is read."""
    path = stored_sample("session-slots", tmp_path)
    with pytest.raises(InputError, match="needs the packets; give the capture itself"):
        choose(engine, no_tools, tmp_path, rereads=True).open(str(path))


def test_transport_asks_for_the_capture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`nfslat transport` reads packets by itself."""
    assert cli.main(["transport", str(stored_sample("session-slots", tmp_path)), "-q"]) == 3
    assert "needs the packets; give the capture itself" in capsys.readouterr().err


def test_parquet_is_not_read_from_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of standard input is looked at, and refused with what to do."""
    path = stored_sample("session-slots", tmp_path)
    with path.open("rb") as stream:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(stream))
        with pytest.raises(InputError, match="Parquet is not read from a pipe; name the file"):
            choose("native", no_tools, tmp_path, rereads=True).open("-")


def test_a_side_without_ops_comes_back(tmp_path: Path) -> None:
    """No row, and all the rest."""
    side = sample("session-slots").server
    decoded = dataclasses.replace(
        side.decoded,
        ops=side.decoded.ops.take(slice(0)),
        details=dataclasses.replace(side.decoded.details, callers=side.decoded.details.callers.take(slice(0))),
    )
    file = File("a", Path("a"), "pcap", None, 0, 0, 0, False)
    assert lost(decoded, Source("a", (file,)), tmp_path / "none.parquet") == []
