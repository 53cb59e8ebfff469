"""Arguments and manifests -> files; and their bytes, wherever these are."""

from __future__ import annotations

import bz2
import gzip
import http.server
import io
import lzma
import os
import pickle
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import links
import pytest
from fleet_captures import at, rotated, talk
from hypothesis import given
from hypothesis import strategies as st
from wire import write_pcap

from nfslat import _native
from nfslat.errors import InputError, NfslatError, UsageError
from nfslat.fleet.run import fetch, inputs, manifest, remote
from nfslat.fleet.run.fetch import head, readable, unpacked
from nfslat.fleet.run.inputs import expand, merged
from nfslat.fleet.run.points import find_points

fsspec = pytest.importorskip("fsspec")
A, B = "10.0.0.11", "10.0.0.12"


@pytest.fixture
def memory() -> Iterator[Any]:
    """fsspec's file system in memory, empty."""
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    fs.pseudo_dirs[:] = [""]
    yield fs
    fs.store.clear()


@pytest.fixture
def capture(tmp_path: Path) -> bytes:
    """Some capture."""
    return write_pcap(tmp_path / "some.cap", at("client", talk(A))).read_bytes()


def _names(given_: inputs.Given) -> list[str]:
    return [file.name for file in given_.files]


# --- Arguments --------------------------------------------------------------------------------------------------------


def test_files_directories_and_patterns(capture: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory gives its captures and those below, in the order of the numbers in their names; no others."""
    folder = tmp_path / "given"
    for name in ("c/2.pcap", "c/10.pcap", "c/sub/1.cap", "c/.hidden", "c/.git/x.pcap", "s[1].pcap", "s1.pcap"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(capture)
    (folder / "c" / "notes.txt").write_text("taken at 3 a.m.")
    os.mkfifo(folder / "c" / "pipe.pcap")
    (folder / "c" / "gone.pcap").symlink_to("nowhere")
    monkeypatch.chdir(folder)
    assert _names(expand(["c"])) == ["c/2.pcap", "c/10.pcap", "c/sub/1.cap"]
    assert _names(expand(["c/*.pcap", "c/2.pcap", "./c/../c/10.pcap"])) == ["c/2.pcap", "c/10.pcap"]
    assert _names(expand(["s[1].pcap"])) == ["s[1].pcap"]  # an existing file wins
    assert _names(expand(["s*"])) == ["s1.pcap", "s[1].pcap"]
    assert _names(expand(["*/", "s1.pcap"])) == ["c/2.pcap", "c/10.pcap", "c/sub/1.cap", "s1.pcap"]
    one = expand(["s1.pcap"]).files[0]
    facts = (folder / "s1.pcap").stat()
    assert one.url == str(folder / "s1.pcap")
    assert one.size_bytes == len(capture)
    assert all(str(fact) in one.token for fact in (f"{facts.st_ino:x}", facts.st_size, facts.st_mtime_ns))
    assert pickle.loads(pickle.dumps(one)) == one  # noqa: S301  (our own)
    (folder / "link.pcap").symlink_to("s1.pcap")
    assert len(expand(["s1.pcap", "link.pcap", "file://" + str(folder / "s1.pcap")]).files) == 1


def test_what_is_wrong_with_one_does_not_stop_the_others(capture: bytes, tmp_path: Path) -> None:
    """Each problem is one line with the name and what to do."""
    good = tmp_path / "good.pcap"
    good.write_bytes(capture)
    (tmp_path / "empty.pcap").touch()
    (tmp_path / "text.pcap").write_text("no capture at all")
    (tmp_path / "x.erf").write_bytes(b"\1" * 100)
    (tmp_path / "none").mkdir()
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.log").write_text("text")
    os.mkfifo(tmp_path / "pipe")
    names = ["gone.pcap", "no*match", "empty.pcap", "text.pcap", "x.erf", "none", "texts", "pipe"]
    given_ = expand([str(good), *(str(tmp_path / name) for name in names), ""])
    assert _names(given_) == [str(good)]
    assert [Path(problem.name).name for problem in given_.problems] == [*names, "''"]
    says = ["no such", "no file", "empty", "editcap", "editcap", "is empty", "none of its 1", "neither a file", "empty"]
    assert all(part in problem.why for part, problem in zip(says, given_.problems, strict=True))
    assert all(problem.fatal and "\n" not in problem.why for problem in given_.problems)


def test_an_empty_file_that_tcpdump_has_just_begun_is_no_loss(capture: bytes, tmp_path: Path) -> None:
    """Among others, in a directory or a pattern, it is left out, said, and no failure."""
    (tmp_path / "c1.pcap").write_bytes(capture)
    (tmp_path / "c2.pcap").touch()
    for argument in (tmp_path, tmp_path / "c*"):
        given_ = expand([str(argument)])
        assert len(given_.files) == 1 + (argument == tmp_path)  # and the fixture's
        assert [problem.fatal for problem in given_.problems] == [False]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_named(capture: bytes, tmp_path: Path) -> None:
    """Its permissions are the reason, in a directory, too."""
    (tmp_path / "c.pcap").write_bytes(capture)
    (tmp_path / "c.pcap").chmod(0)
    assert all("permissions" in expand([str(name)]).problems[0].why for name in (tmp_path, tmp_path / "c.pcap"))


def test_names_may_hold_anything(capture: bytes, tmp_path: Path) -> None:
    """Names with spaces, commas, line ends, escapes and bytes that are no UTF-8 are found, looked at and assigned."""
    a, b = talk(A), talk(B)
    server = write_pcap(tmp_path / "s\x1b[31m,\n*.pcap", at("server", a, b))
    folder = Path(os.fsdecode(os.fsencode(tmp_path) + b"/c \xff;rm -rf"))
    folder.mkdir()
    write_pcap(folder / "-a[?]'\".pcap", at("client", a))
    points = find_points(expand([str(server), str(folder)]).files)
    assert [file.name for file in points.server.files] == [str(server)]
    assert [file.name for file in points.clients[0].files] == [str(folder / "-a[?]'\".pcap")]


def _kind(data: bytes, folder: Path) -> str:
    """What a file with these bytes is taken for."""
    path = folder / "any"
    path.write_bytes(data)
    given_ = expand([str(path)])
    return ("tar" if given_.files[0].is_tar else "capture") if given_.files else ""


def test_packed_files_are_what_is_in_them(capture: bytes, tmp_path: Path) -> None:
    """Packed captures and tars are known by their content; packed texts are no captures."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as out:
        member = tarfile.TarInfo("capture.pcap")
        member.size = len(capture)
        out.addfile(member, io.BytesIO(capture))
    for pack in (bytes, gzip.compress, bz2.compress, lzma.compress):
        kept = pack(capture)[:4096] if pack in (bytes, gzip.compress) else pack(capture)
        assert _kind(kept, tmp_path) == "capture"
        assert _kind(pack(tar.getvalue()), tmp_path) == "tar"
        assert _kind(pack(b"text " * 1000), tmp_path) == ""
    assert _kind(b"\x28\xb5\x2f\xfd....", tmp_path) == "capture"  # zstd that is damaged


def test_erf_is_known_by_its_records(tmp_path: Path) -> None:
    """ERF has no magic number: whole records that follow each other make it a capture, one header does not."""
    data = links.write_erf(tmp_path / "erf", links.packets(links.ops(9).seen_by("client"))).read_bytes()
    assert _kind(data, tmp_path) == _kind(gzip.compress(data), tmp_path) == "capture"
    assert _kind(data[:16], tmp_path) == _kind(bytes(400), tmp_path) == ""


@given(st.binary(max_size=600), st.sampled_from([b"", b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\0"]))
def test_first_bytes_may_be_anything(data: bytes, first: bytes) -> None:
    """No bytes make it fail."""
    with tempfile.TemporaryDirectory() as folder:
        assert _kind(first + data, Path(folder)) in ("capture", "tar", "")


# --- Remote -----------------------------------------------------------------------------------------------------------


def test_urls_with_patterns_and_directories(memory: Any, capture: bytes) -> None:
    """URLs are read like paths: a file, a pattern, a directory."""
    for name in ("/c/1.pcap", "/c/sub/2.pcap", "/c/.hidden/3.pcap"):
        memory.pipe(name, capture)
    memory.pipe("/c/readme.txt", b"text")
    assert _names(expand(["memory://c/1.pcap", "memory:///c/1.pcap"])) == ["memory:///c/1.pcap"]
    assert _names(expand(["memory://c/*.pcap"])) == ["memory:///c/1.pcap"]
    assert _names(expand(["memory://c"])) == ["memory:///c/1.pcap", "memory:///c/sub/2.pcap"]
    token = expand(["memory://c/1.pcap"]).files[0].token
    memory.pipe("/c/1.pcap", capture + capture[24:])
    assert expand(["memory://c/1.pcap"]).files[0].token != token


def test_urls_that_lead_nowhere(memory: Any) -> None:
    """A protocol without its package, an unknown one, a missing file: a line each, without the password."""
    urls = ["nonsense://x/y", "memory://gone", "memory://a*b", "zip://a::memory://b"]
    given_ = expand(urls)
    assert given_.files == ()
    assert len(given_.problems) == len(urls)
    for url in ("sftp://me:secret@host/x", "https://host/x?sig=secret"):
        assert "secret" not in remote.shown(url)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """What fsspec says is missing, the user reads."""

    def missing(*_: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    (problem,) = expand(["s3://bucket/x.pcap"]).problems
    assert problem.name == "s3://bucket/x.pcap"
    assert "s3fs" in problem.why


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing."""


def test_a_fleet_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Captures on a plain web server are found, assigned and read."""
    pytest.importorskip("aiohttp", reason="fsspec reads HTTP with it")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    a, b = talk(A), talk(B)
    files = rotated(tmp_path / "www", at("server", a, b), 2, "s{}.pcap")
    write_pcap(tmp_path / "www" / "a.pcap", at("client", a))
    web = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), lambda *args: _Quiet(*args, directory=str(tmp_path / "www"))
    )
    thread = threading.Thread(target=web.serve_forever, daemon=True)
    thread.start()
    try:
        base = f"http://127.0.0.1:{web.server_address[1]}/"
        given_ = expand([base, f"{base}gone.pcap"])
        assert [problem.name for problem in given_.problems] == [f"{base}gone.pcap"]
        points = find_points(given_.files)
        assert [file.url for file in points.server.files] == [f"{base}s0.pcap", f"{base}s1.pcap"]
        assert [client.name for client in points.clients] == [A]
        with readable(points.server.files, tmp_path) as paths:
            assert b"".join(path.read_bytes() for path in paths) == b"".join(file.read_bytes() for file in files)
    finally:
        web.shutdown()
        web.server_close()
        thread.join()


# --- Bytes ------------------------------------------------------------------------------------------------------------


def _decode(paths: list[Path]) -> int:
    found = _native.decode([str(path) for path in paths], b"", b"", 4, _native.Job())
    return len(found.tables.ops["xid"])


def test_remote_files_come_through_pipes(memory: Any, tmp_path: Path) -> None:
    """The decoder reads remote and local files as one capture; only pipes are on disk, and gone after."""
    parts = rotated(tmp_path / "parts", at("client", talk(A, calls=400)), 3)
    for number, part in enumerate(parts):
        memory.pipe(f"/{number}.pcap", part.read_bytes())
    files = expand(["memory://0.pcap", str(parts[1]), "memory://2.pcap"]).files
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with readable(files, scratch) as paths:
        assert [path.is_fifo() for path in paths] == [True, False, True]
        assert _decode(paths) == 400
    assert list(scratch.iterdir()) == []
    assert not any(thread.name == "fetch" for thread in threading.enumerate())


@pytest.mark.parametrize("read_bytes", [0, 10, 100_000])
def test_leaving_early_hangs_nothing(read_bytes: int, memory: Any, tmp_path: Path) -> None:
    """Where the reader gives up, at once or in the middle of a file, the thread ends and the pipes are gone."""
    for name in "ab":
        memory.pipe(f"/{name}.pcap", bytes.fromhex("d4c3b2a1") + bytes(8 << 20))
    files = expand(["memory://a.pcap", "memory://b.pcap"]).files
    begin = time.monotonic()
    paths: list[Path] = []

    def give_up() -> None:
        with readable(files, tmp_path) as given_:
            paths.extend(given_)
            if read_bytes:
                with paths[0].open("rb") as stream:
                    stream.read(read_bytes)
                    raise KeyError
            raise KeyError

    with pytest.raises(KeyError):
        give_up()
    assert time.monotonic() - begin < fetch._STOP_S
    assert not any(path.exists() for path in paths)
    assert not any(thread.name == "fetch" for thread in threading.enumerate())


def test_what_fails_at_the_other_end_is_said(
    memory: Any, capture: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that vanishes or breaks off is named, whatever the decoder made of what came; the reader does not hang."""
    for name in "ab":
        memory.pipe(f"/{name}.pcap", capture)
    files = expand(["memory://a.pcap", "memory://b.pcap"]).files
    memory.rm("/a.pcap")

    def read_all() -> None:
        with readable(files, tmp_path) as paths:
            for path in paths:
                path.read_bytes()

    def decode() -> None:
        with readable(files, tmp_path) as paths:
            _decode(paths)

    with pytest.raises(InputError, match=r"memory:///a\.pcap: is gone"):
        read_all()
    with pytest.raises(InputError, match=r"memory:///a\.pcap: is gone"):
        decode()
    memory.pipe("/a.pcap", capture[:-10])
    with pytest.raises(InputError, match=r"a\.pcap: ended after"):
        decode()
    monkeypatch.setattr("nfslat.fleet.run.remote.open_stream", lambda _: _raise(OSError("broken\nline")))
    with pytest.raises(InputError, match=r"a\.pcap: cannot be fetched: broken line"):
        head(files[0], tmp_path)


def _raise(problem: Exception) -> Any:
    raise problem


def test_tars_give_their_captures_in_time_order(memory: Any, tmp_path: Path) -> None:
    """A tar of capture.sh, here or remote, is read as the files in it, in time order, though a ring wrapped; what it
    says of the host comes along."""
    facts = tmp_path / "facts.txt"
    facts.write_text("side: client\n")
    parts = rotated(tmp_path / "parts", at("client", talk(A, calls=90)), 3)
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w:gz") as out:
        for number, part in zip((1, 2, 0), parts, strict=True):
            out.add(part, f"./capture.pcap{number}")
        out.add(facts, "./facts.txt")
    (tmp_path / "a.tar.gz").write_bytes(tar.getvalue())
    memory.pipe("/a.tar.gz", tar.getvalue())
    for one in expand([str(tmp_path / "a.tar.gz"), "memory://a.tar.gz"]).files:
        assert one.is_tar
        paths, rest = unpacked(one, tmp_path)
        assert [path.read_bytes() for path in paths] == [part.read_bytes() for part in parts]
        assert rest.side == "client"
        assert head(one, tmp_path).read_bytes() == parts[0].read_bytes()


def test_the_head_is_the_beginning(memory: Any, tmp_path: Path) -> None:
    """2 MiB of a long file; a short local one is its own head."""
    data = bytes.fromhex("d4c3b2a1") + os.urandom(3 << 20)
    memory.pipe("/x.pcap", data)
    (tmp_path / "x.pcap").write_bytes(data)
    (tmp_path / "short.pcap").write_bytes(data[:1000])
    long, short, away = expand([str(tmp_path / "x.pcap"), str(tmp_path / "short.pcap"), "memory://x.pcap"]).files
    assert head(long, tmp_path).read_bytes() == head(away, tmp_path).read_bytes() == data[: 2 << 20]
    assert head(short, tmp_path) == tmp_path / "short.pcap"
    assert fetch.tail(long, 100) == fetch.tail(away, 100) == data[-100:]


# --- Manifest ---------------------------------------------------------------------------------------------------------


def test_a_manifest(capture: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are found from where the manifest is; labels come from a client's own words, else the smallest network."""
    (tmp_path / "f" / "a").mkdir(parents=True)
    for name in ("s1.pcap", "a/1.pcap", "b.pcap"):
        (tmp_path / "f" / name).write_bytes(capture)
    (tmp_path / "f" / "FLEET.toml").write_text(
        """
clients.db02 = "b.pcap"
clients.db01.files = ["a/", "gone.pcap"]
clients.db01.addresses = ["10.0.0.11", "fd00::0:1"]
clients.db01.groups = { rack = "r9", site = "east" }
clients.db01.application_ms = { READ = 12.5, write = 3 }
clients.db01.sessions = 32
server = { files = ["s*.pcap"], addresses = ["10.0.0.2"], threads = 16 }
[groups.rack]
r7 = ["10.0.0.0/24"]
r8 = "10.0.0.12"
"""
    )
    monkeypatch.chdir(tmp_path)
    found = manifest.read("f/FLEET.toml")
    assert [file.name for file in found.server.files] == ["f/s1.pcap"]
    assert (found.server.addresses, found.server.threads) == (("10.0.0.2",), 16)
    db01 = found.client("db01")
    assert db01 is not None
    assert [file.name for file in db01.files] == ["f/a/1.pcap"]
    assert (db01.addresses, db01.sessions) == (("10.0.0.11", "fd00::1"), 32)
    assert db01.application_ms == {"READ": 12.5, "WRITE": 3.0}
    assert [problem.name for problem in found.given.problems] == ["f/gone.pcap"]
    assert sorted(_names(merged(found.given, expand(["f"])))) == ["f/a/1.pcap", "f/b.pcap", "f/s1.pcap"]
    assert found.labels("db01", ["10.0.0.11"]) == {"rack": "r9", "site": "east"}
    assert found.labels("other", ["10.0.0.12"]) == {"rack": "r8"}
    assert found.labels("other", ["10.0.0.13", "fd00::2"]) == {"rack": "r7"}
    assert found.labels("other", ["10.1.0.13"]) == {}
    assert found.asked("10.0.0.12", ["10.0.0.12"])["groups"] == {"rack": "r8"}  # of a client that it does not name, too
    assert found.client_at("fd00::1") == db01
    assert pickle.loads(pickle.dumps(found)) == found  # noqa: S301  (our own)


def test_a_manifest_at_a_url(memory: Any, capture: bytes) -> None:
    """What it names lies beside it there."""
    memory.pipe("/f/s.pcap", capture)
    memory.pipe("/f/FLEET.toml", b'server = "s.pcap"\nclients.a = "/nowhere.pcap"\n')
    found = manifest.read("memory://f/FLEET.toml")
    assert [file.name for file in found.server.files] == ["memory:///f/s.pcap"]
    assert [problem.name for problem in found.given.problems] == ["/nowhere.pcap"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("server = [", "not TOML"),
        ("servr = []", "servr: did you mean server"),
        ("server = 5", "server: give a path"),
        ("server = ['']", "server: give a path"),
        ("server = {thread = 4}", "server.thread: did you mean threads"),
        ("server = {threads = 0}", "server.threads: give a whole number"),
        ("server = {threads = true}", "server.threads: give a whole number"),
        ("server = {addresses = ['db01']}", "not an IP address"),
        ("clients = []", "clients: give a table"),
        ("clients.'../x' = []", "letters, digits"),
        ("clients.'a\\u000ab' = []", "letters, digits"),
        ("clients.'10.0.0.1'.addresses = ['10.0.0.2']", "its name is an address"),
        ("clients.a.addresses = ['10.0.0.1']\nclients.b.addresses = '10.0.0.1'", "under clients.a, too"),
        ("server = {addresses = '::1'}\nclients.b.addresses = '0::1'", "under server, too"),
        ("clients.a.groups.rack = 7", "clients.a.groups.rack: give a label"),
        ("clients.a.application_ms = 'slow'", "clients.a.application_ms: give milliseconds"),
        ("clients.a.application_ms = -1", "give milliseconds"),
        ("clients.a.application_ms = {REED = 1}", "did you mean READ"),
        ("clients.a.sessions = 1.5", "clients.a.sessions: give a whole number"),
        ("groups.rack = ['10.0.0.0/8']", "groups.rack: give a table"),
        ("groups.rack.r1 = '10.0.0.1/8'", "is no network"),
        ("groups.rack.r1 = '10.0.0.0/8'\ngroups.rack.r2 = '10.0.0.0/8'", "under groups.rack.r1, too"),
        ("clients.a = 'x.pcap'\nclients.b = './x.pcap'", "under clients.a, too"),
        ("server = 'x.pcap'\nclients.b = 'x*'", "under server, too"),
    ],
)
def test_what_is_wrong_in_a_manifest_is_one_line(text: str, says: str, capture: bytes, tmp_path: Path) -> None:
    """File, key, and what is allowed."""
    (tmp_path / "x.pcap").write_bytes(capture)
    path = tmp_path / "FLEET.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        manifest.read(str(path))
    assert says in str(caught.value)
    assert str(caught.value).startswith(f"{path}: ")
    assert text.startswith("server = [") or "\n" not in str(caught.value)


_VALUES = st.recursive(
    st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.just("10.0.0.1"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["files", "addresses", "threads", "groups", "rack", "db01", "application_ms", "READ"]),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["server", "clients", "groups"]), _VALUES))
def test_no_manifest_makes_it_fail(document: dict[str, Any]) -> None:
    """Any TOML is read or refused."""
    said = "FLEET.toml: "
    try:
        manifest._Reading("FLEET.toml", "/nonexistent-base").manifest(document)
    except NfslatError as problem:
        said = str(problem)
    assert said.startswith("FLEET.toml: ")


def test_a_manifest_that_cannot_be_read(tmp_path: Path) -> None:
    """Missing or no text: one line."""
    with pytest.raises(InputError, match="No such file"):
        manifest.read(str(tmp_path / "gone.toml"))
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        manifest.read(str(tmp_path / "x.toml"))
