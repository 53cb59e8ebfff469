"""Names of files in real captures, against what is known of them, and against tshark."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from captures import SHARED, Decoder, needs_captures
from told import renamed_to, shown
from wire import NFS, Tcp, _ints, _opaque, call, read, read3, reply, write_pcap

from nfslat.decode.engine import Engine, choose
from nfslat.figures.audit.capture import capture_notes
from nfslat.model.protocol import NULL, NULL32
from nfslat.names.paths import Paths, paths_of, paths_of_side
from nfslat.pipeline import correlate
from nfslat.results import Correlation
from nfslat.select import Filters, op_labels
from nfslat.tally.captures import CaptureTally

ROOT, DIRECTORY = bytes(28) + b"root", bytes(28) + b"dire"
NAMES = {
    b"utf8": ("日本語の表.dbf".encode(), None, "日本語の表.dbf"),
    b"sjis": ("ソースコード.txt".encode("shift_jis"), "shift_jis", "ソースコード.txt"),  # a trail byte is a backslash
    b"koi8": ("отчёт.doc".encode("koi8-r"), "koi8-r", "отчёт.doc"),
    b"none": (b"\xff\xfe\x80 raw", "shift_jis", r"\xff\xfe\x80 raw"),
    b"evil": (b'a\x1b]0;owned\x07\n,"=1\xe2\x80\xae', None, r"a\x1b]0;owned\x07\n" + ',"=1' + r"\u202e"),
}


def _engine(decoder: Decoder) -> Engine:
    return choose("native", lambda: decoder.tools, decoder.scratch, rereads=False)


def _traffic() -> Tcp:
    """MNT would be on another port: the export's root is looked up in a directory without a name."""
    tcp = Tcp()
    xid, t_ms = 0x100, 0.0

    def ask(message: bytes, answer: bytes) -> None:
        nonlocal xid, t_ms
        tcp.send(t_ms, ">", message)
        tcp.send(t_ms + 0.5, "<", reply(xid, answer))
        xid, t_ms = xid + 1, t_ms + 2

    attributes = _ints(1) + bytes(84)
    found = _ints(0) + _opaque(DIRECTORY) + attributes + attributes
    ask(call(xid, NFS, 3, 3, _opaque(ROOT) + _opaque(b"dir")), found)
    for key, (name, _, _) in NAMES.items():
        handle = bytes(28) + key
        found = _ints(0) + _opaque(handle) + attributes + attributes
        ask(call(xid, NFS, 3, 3, _opaque(DIRECTORY) + _opaque(name)), found)
        ask(read(xid, 4096, 100, handle), read3(100))
    return tcp


def _pair(decoder: Decoder, tmp_path: Path, *, snaplen: int = 65_535) -> Correlation:
    tcp = _traffic()
    paths = {
        "server": write_pcap(tmp_path / "server.pcap", tcp.seen_by("server", theta_ms=5000), snaplen=snaplen),
        "client": write_pcap(tmp_path / "client.pcap", tcp.seen_by("client")),
    }
    engine = _engine(decoder)
    sources = [engine.open(str(paths[side])) for side in ("server", "client")]
    return correlate(*sources, engine, filters=Filters(), srt="nfslat", may_swap=True, progress=lambda _: None)


@pytest.mark.parametrize("key", NAMES, ids=lambda key: key.decode())
def test_names_of_all_scripts_come_out_of_a_capture(key: bytes, decoder: Decoder, tmp_path: Path) -> None:
    """UTF-8, Shift-JIS, KOI8-R, bytes that are nothing and bytes that attack: LOOKUP and READ show the same path."""
    _, encoding, text = NAMES[key]
    got = shown(paths_of(_pair(decoder, tmp_path), encoding))
    at = 1 + 2 * list(NAMES).index(key)
    assert got[at : at + 2] == [f".../dir/{text}"] * 2


def test_one_capture_helps_the_other(decoder: Decoder, tmp_path: Path) -> None:
    """Where one capture is cut in front of handles and names, the other one has them."""
    c = _pair(decoder, tmp_path, snaplen=110)
    assert None not in shown(paths_of(c))
    assert shown(paths_of_side(c.server))[2] is None


def test_what_only_another_client_did_counts(decoder: Decoder, tmp_path: Path) -> None:
    """A RENAME by a client that only the server's capture shows is put in its place on the client's clock."""
    ours, other = Tcp(), Tcp(client=("10.0.0.9", 701))
    attributes = _ints(1) + bytes(84)
    handle = bytes(28) + b"file"
    ours.send(0, ">", call(1, NFS, 3, 3, _opaque(ROOT) + _opaque(b"a")))
    ours.send(1, "<", reply(1, _ints(0) + _opaque(handle) + attributes + attributes))
    for n in range(10):
        ours.send(10 + 10 * n, ">", read(2 + n, 0, 100, handle))
        ours.send(11 + 10 * n, "<", reply(2 + n, read3(100)))
    other.send(52, ">", call(99, NFS, 3, 14, _opaque(ROOT) + _opaque(b"a") + _opaque(ROOT) + _opaque(b"b")))
    other.send(53, "<", reply(99, _ints(0, 0, 0, 0, 0)))
    server = write_pcap(
        tmp_path / "server.pcap",
        ours.seen_by("server", theta_ms=3_600_000),
        other.seen_by("server", theta_ms=3_600_000),
    )
    client = write_pcap(tmp_path / "client.pcap", ours.seen_by("client"))
    engine = _engine(decoder)
    sources = [engine.open(str(path)) for path in (server, client)]
    c = correlate(*sources, engine, filters=Filters(), srt="nfslat", may_swap=True, progress=lambda _: None)
    assert shown(paths_of(c)) == [".../a"] + 5 * [".../a"] + 5 * [".../b"]


def test_a_server_behind_nat_is_one_server(decoder: Decoder, tmp_path: Path) -> None:
    """It has another address in its own capture; what that says of handles holds for the client's all the same."""
    tcp = _traffic()
    seen = tcp.seen_by("server", swap_addresses={"10.0.0.2": "192.168.7.7"})
    server = write_pcap(tmp_path / "server.pcap", seen)
    # The client's capture is cut in front of handles and names.
    client = write_pcap(tmp_path / "client.pcap", tcp.seen_by("client"), snaplen=110)
    engine = _engine(decoder)
    sources = [engine.open(str(path)) for path in (server, client)]
    c = correlate(*sources, engine, filters=Filters(), srt="nfslat", may_swap=True, progress=lambda _: None)
    assert None not in shown(paths_of(c))


def _of_ops(c: Correlation, paths: Paths, *names: str) -> list[tuple[int, int, str | None]]:
    """Frame at the client, hash and path of the matched ops with one of these names."""
    ops = c.client.ops
    labels = op_labels(ops.kinds)
    texts = shown(paths)
    rows = c.matched.client.tolist()
    return [
        (int(ops.call_first_frame[row]), int(ops.fh[row]), text)
        for row, text in zip(rows, texts, strict=True)
        if labels[ops.kind[row]] in names
    ]


@needs_captures
@pytest.mark.parametrize("scenario", ["h_v3_metadata", "h_v42_metadata", "i_v3_buffered_readahead", "d3_v3_loss1"])
def test_every_read_and_write_that_shows_a_handle_is_named(scenario: str, decoder: Decoder) -> None:
    """From the mount on the captures show every name: whatever has a handle has a whole path."""
    c = decoder.pair(scenario)
    ops = _of_ops(c, paths_of(c), "READ", "WRITE", "COMMIT")
    assert len(ops) > 100
    assert [one for one in ops if one[1] != NULL32 and (one[2] is None or not one[2].startswith("/"))] == []


def _by_tshark(decoder: Decoder, scenario: str, field: str) -> dict[int, str]:
    """Name of the file of each call's frame, as Wireshark finds it."""
    capture = SHARED / "lab" / scenario / "client.pcap.gz"
    snoop = [option for one in ("file_name", "file_full_name") for option in ("-o", f"nfs.{one}_snooping:TRUE")]
    command = [decoder.tools.tshark, "-n", "-r", str(capture), *snoop, "-Y", "rpc.msgtyp == 0 and nfs"]
    command += ["-T", "fields", "-e", "frame.number", "-e", field]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=decoder.tools.environment)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    return {int(frame): name for frame, name in rows if name and "," not in name}


@needs_captures
def test_paths_are_those_that_tshark_finds(decoder: Decoder) -> None:
    """NFSv3: READs and WRITEs have the full name of Wireshark's name snooping, which begins with the server."""
    c = decoder.pair("h_v3_metadata")
    theirs = _by_tshark(decoder, "h_v3_metadata", "nfs.full_name")
    ours = {frame: f"10.77.0.1:{path}" for frame, _, path in _of_ops(c, paths_of(c), "READ", "WRITE")}
    assert len(ours) == 225
    assert {frame: theirs[frame] for frame in ours} == ours


@needs_captures
def test_names_are_those_that_tshark_finds(decoder: Decoder) -> None:
    """NFSv4: there Wireshark knows names without directories; those of the READs are the last parts of ours."""
    c = decoder.pair("h_v42_metadata")
    theirs = _by_tshark(decoder, "h_v42_metadata", "nfs.name")
    ours = {frame: path.rpartition("/")[2] for frame, _, path in _of_ops(c, paths_of(c), "READ") if path}
    assert len(ours) == 25
    assert {frame: theirs[frame] for frame in ours} == ours


def test_names_that_are_not_kept_are_told(decoder: Decoder, tmp_path: Path) -> None:
    """Where replies named more files than are kept, paths may be missing or old; the audit says so, and why."""
    side = _pair(decoder, tmp_path).client
    cut = replace(side, decoded=replace(side.decoded, details=replace(side.decoded.details, files_dropped=321)))
    gaps = np.zeros(len(side.ops.connections), dtype=np.int64)
    notes = [{one.code: one for one in capture_notes(CaptureTally.of(of, gaps, "client", None))} for of in (side, cut)]
    assert notes[1].keys() - notes[0].keys() == {"capture-names-dropped"}
    assert notes[1]["capture-names-dropped"].count == 321
    assert "321 rows" in notes[1]["capture-names-dropped"].text


def test_some_rows_alone_have_the_same_paths(decoder: Decoder, tmp_path: Path) -> None:
    """Asked for a few ops, in any order, these have the paths that they have among all; the others have none."""
    c = _pair(decoder, tmp_path)
    whole = shown(paths_of(c, "koi8-r"))
    for rows in ([], [3], [7, 0, 7, 4], list(range(len(whole)))):
        some = paths_of(c, "koi8-r", np.array(rows, dtype=np.int64))
        assert shown(some) == [text if row in rows else None for row, text in enumerate(whole)]
        assert len(some.texts) == len({whole[row] for row in rows})


@needs_captures
@pytest.mark.parametrize("scenario", ["h_v3_metadata", "h_v42_metadata"])
def test_rows_of_real_captures_have_the_same_paths(scenario: str, decoder: Decoder) -> None:
    """With RENAMEs, and what only the server's capture shows."""
    c = decoder.pair(scenario)
    whole = paths_of(c)
    rows = np.arange(0, len(c.matched), 7)
    some = paths_of(c, rows=rows)
    assert [shown(some)[row] for row in rows] == [shown(whole)[row] for row in rows]
    renamed = np.flatnonzero(whole.to_of_op != NULL)
    assert len(renamed)
    assert [renamed_to(paths_of(c, rows=renamed))[row] for row in renamed] == [
        renamed_to(whole)[row] for row in renamed
    ]
