"""`nfslat show` names the files of the ops that it shows."""

from __future__ import annotations

from pathlib import Path

import pytest
import wire

from nfslat import pipeline
from nfslat.cli import main as cli
from nfslat.decode.engine import choose
from nfslat.decode.tools import Tools
from nfslat.packets import show
from nfslat.select import Filters


def _named_op(folder: Path) -> tuple[list[str], str]:
    """A pair of captures in which a file of a long, partly Russian name is renamed; and its path."""
    name, long = "книга.doc", "日" * 60
    handle, attributes = bytes(28) + b"file", wire._ints(0)
    tcp = wire.Tcp()
    both = [
        (
            wire.call(1, wire.NFS, 3, 3, wire._opaque(wire.FH) + wire._opaque(name.encode("koi8-r"))),
            wire._ints(0) + wire._opaque(handle) + attributes * 2,
        ),
        (wire.read(2, 0, 64, handle), wire.read3(64)),
        (
            wire.call(
                3,
                wire.NFS,
                3,
                14,
                b"".join(
                    map(wire._opaque, (wire.FH, name.encode("koi8-r"), wire.FH, f"{long}\n".encode())),
                ),
            ),
            wire._ints(0, 0, 0, 0, 0),
        ),
    ]
    for xid, (message, results) in enumerate(both, 1):
        tcp.send(10 * xid, ">", message)
        tcp.send(10 * xid + 2 * xid, "<", wire.reply(xid, results))
    paths = [wire.write_pcap(folder / f"{side}.pcap", tcp.seen_by(side)) for side in ("server", "client")]
    return [str(path) for path in paths], f".../{name}"


def test_the_path_of_the_file_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of ops by handle, too; of a RENAME both names, in full, on lines that fit; in the code page that is asked for."""
    captures, path = _named_op(tmp_path)
    assert cli.main(["show", *captures, "--slowest", "3", "--engine", "native", "--name-encoding", "koi8-r"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("path ")] == 3 * [f"path {path}"]
    at = next(at for at, line in enumerate(lines) if line.startswith("renamed to "))
    assert lines[at : at + 2] == ["renamed to .../" + 32 * "日", "  " + 28 * "日" + r"\n"]


def test_a_path_is_shown_as_the_terminal_can(tmp_path: Path, tools: Tools) -> None:
    """What the stream's encoding lacks is escaped by its code; without the code page its bytes are shown."""
    (server, client), _ = _named_op(tmp_path)
    engine = choose("native", lambda: tools, tmp_path, rereads=True)
    found = pipeline.correlate(
        *map(engine.open, (server, client)),
        engine,
        filters=Filters(),
        srt="nfslat",
        may_swap=True,
        progress=lambda _: None,
    )

    def shown(charset: str, encoding: str | None) -> list[str]:
        text = "".join(show.render(found, [1], tools, charset=charset, name_encoding=encoding))
        return [line for line in text.splitlines() if line.startswith("path ")]

    assert shown("ascii", None) == [r"path .../\xcb\xce\xc9\xc7\xc1.doc"]
    assert shown("ascii", "koi8-r") == [r"path .../\u043a\u043d\u0438\u0433\u0430.doc"]
