"""Which file is whose: by the addresses, times and calls in the packets."""

from __future__ import annotations

import pickle
import random
from pathlib import Path

import pytest
from captures import SHARED
from examples import examples
from fleet_captures import SERVER, acknowledged, at, other_traffic, rotated, talk
from hypothesis import given, settings
from hypothesis import strategies as st
from wire import write_pcap

from nfslat.errors import InputError, NfslatError
from nfslat.fleet.run import manifest, tails
from nfslat.fleet.run.capture import decode_whole
from nfslat.fleet.run.heads import Head, Pair, look
from nfslat.fleet.run.inputs import Input, expand
from nfslat.fleet.run.points import Points, assign, find_points
from nfslat.kernels.compiled import native

SAMPLES = Path(__file__).parents[2] / "samples"
LAB = sorted({path.parent for path in (SHARED / "lab").glob("*/server.pcap.gz")})
_BY_DAY = ("d_v3_netdelay5", "i_v3_any_sll2", "i_v3_fmt_snoop")  # a path, every interface, a format of Wireshark's
A, B, C = "10.0.0.11", "10.0.0.12", "10.0.0.13"


def _points(*arguments: Path | str, toml: Path | None = None) -> Points:
    given_ = expand([str(argument) for argument in arguments])
    assert given_.problems == ()
    return find_points(given_.files, manifest.read(str(toml)) if toml else None)


def _files(points: Points) -> dict[str, list[str]]:
    """Point -> names of its files."""
    all_of = {client.name: client.files for client in points.clients}
    if points.server is not None:
        all_of["server"] = points.server.files
    return {name: [Path(file.name).name for file in files] for name, files in all_of.items()}


@pytest.mark.parametrize(
    "folder",
    [
        *(pytest.param(path.parent, id=path.parent.name) for path in sorted(SAMPLES.glob("*/server.pcap.gz"))),
        *(
            pytest.param(folder, id=folder.name, marks=() if folder.name in _BY_DAY else pytest.mark.long)
            for folder in LAB
        ),
    ],
)
def test_real_pairs_in_either_order_and_in_one_directory(folder: Path, tmp_path: Path) -> None:
    """Whichever comes first, and if both lie in one folder under names that say nothing, each finds its side."""
    for name, side in (("x1.cap", "client"), ("x2.cap", "server")):
        (tmp_path / name).symlink_to(folder / f"{side}.pcap.gz")
    given_ = expand([str(tmp_path)])
    for files in (given_.files, given_.files[::-1]):
        points = find_points(files)
        assert _files(points).pop("server") == ["x2.cap"]
        assert [[Path(file.name).name for file in client.files] for client in points.clients] == [["x1.cap"]]
        assert points.unused == () == points.notes


def test_what_is_known_of_a_small_capture_is_what_a_task_finds() -> None:
    """How many files, packets and operations, and its time."""
    (client,) = find_points(expand([str(SAMPLES / "client-slots")]).files).clients
    assert client.facts == decode_whole(client.name, client.files)[2]


def test_two_clients_in_rotated_files(tmp_path: Path) -> None:
    """Rotated files of the server and of two clients become three points, each in time order, whatever the names."""
    a, b = talk(A), talk(B, begin_ms=3)
    rotated(tmp_path / "server", at("server", a, b), 12)
    rotated(tmp_path / "clients" / "one", at("client", a), 3, "{}.pcap")
    for path, new in zip(rotated(tmp_path / "clients" / "two", at("client", b), 3), "zyx", strict=True):
        path.rename(path.with_name(f"{new}.pcap"))
    points = _points(tmp_path / "server", tmp_path / "clients")
    assert _files(points) == {
        "server": [f"cap{number}.pcap" for number in range(12)],
        A: ["0.pcap", "1.pcap", "2.pcap"],
        B: ["z.pcap", "y.pcap", "x.pcap"],
    }
    assert points.server.addresses == (SERVER,)
    assert [client.addresses for client in points.clients] == [(A,), (B,)]
    assert pickle.loads(pickle.dumps(points)) == points  # noqa: S301  (our own)


def test_a_flat_directory_with_names_that_look_like_a_rotation(tmp_path: Path) -> None:
    """cap1 to cap3 that ran at the same time are three captures and no rotation."""
    a, b = talk(A), talk(B, begin_ms=3)
    for number, seen in enumerate([at("client", a), at("server", a, b), at("client", b)]):
        write_pcap(tmp_path / f"cap{number}.pcap", seen)
    assert _files(_points(tmp_path)) == {"server": ["cap1.pcap"], A: ["cap0.pcap"], B: ["cap2.pcap"]}


def test_a_quiet_file_stays_in_its_rotation(tmp_path: Path) -> None:
    """A rotated file without any NFS belongs to its siblings; a lone one is left out, and it is said why."""
    a = talk(A)
    seen = at("server", a, talk(B))
    write_pcap(tmp_path / "s1.pcap", seen[:20])
    write_pcap(tmp_path / "s2.pcap", other_traffic(begin_ms=500))
    write_pcap(tmp_path / "s3.pcap", at("server", talk(A, begin_ms=600), talk(B, begin_ms=600)))
    write_pcap(tmp_path / "client.pcap", at("client", a))
    write_pcap(tmp_path / "alone.pcap", other_traffic())
    points = _points(tmp_path)
    assert _files(points) == {"server": ["s1.pcap", "s2.pcap", "s3.pcap"], A: ["client.pcap"]}
    assert [Path(one.name).name for one in points.unused] == ["alone.pcap"]
    assert "no NFS calls" in points.unused[0].why


def test_a_client_with_several_addresses(tmp_path: Path) -> None:
    """A capture with two clients is a client's where each call takes longer there than in the other capture."""
    a, b, c = talk(A), talk(B), talk(C)
    write_pcap(tmp_path / "x.pcap", at("client", a, b))
    write_pcap(tmp_path / "y.pcap", at("server", a, b, c))
    points = _points(tmp_path / "x.pcap", tmp_path / "y.pcap")
    assert _files(points) == {"server": ["y.pcap"], A: ["x.pcap"]}
    assert points.clients[0].addresses == (A, B)


def test_two_captures_of_one_client_one_after_the_other_are_one_point(tmp_path: Path) -> None:
    """Different names and folders do not matter: one address is one client."""
    early, late = talk(A), talk(A, begin_ms=1000)
    write_pcap(tmp_path / "s.pcap", at("server", early, late, talk(B)))
    (tmp_path / "day2").mkdir()
    write_pcap(tmp_path / "day2" / "a.pcap", at("client", late))
    write_pcap(tmp_path / "z.pcap", at("client", early))
    assert _files(_points(tmp_path)) == {"server": ["s.pcap"], A: ["z.pcap", "a.pcap"]}


def test_a_client_behind_nat_is_found_by_its_calls(tmp_path: Path) -> None:
    """Where both ends know each other by other addresses, the same XIDs of the same calls tell who is who."""
    a, b = talk(A), talk(B)
    write_pcap(tmp_path / "s.pcap", at("server", a, b))
    write_pcap(tmp_path / "a.pcap", at("client", a, swap={A: "192.168.1.5", SERVER: "192.168.9.9"}))
    write_pcap(tmp_path / "b.pcap", at("client", b))
    points = _points(tmp_path)
    assert _files(points) == {"server": ["s.pcap"], A: ["a.pcap"], B: ["b.pcap"]}
    assert any("same calls" in note for note in points.notes)


def test_the_end_that_acknowledgements_come_from_tells_without_a_common_call(tmp_path: Path) -> None:
    """Captures of one client that have no call in common are told apart by the round trips that each shows."""
    early, late = acknowledged(talk(A)), acknowledged(talk(A, begin_ms=300))
    write_pcap(tmp_path / "x.pcap", at("client", early))
    write_pcap(tmp_path / "y.pcap", at("server", late))
    points = _points(tmp_path / "x.pcap", tmp_path / "y.pcap")
    assert _files(points) == {"server": ["y.pcap"], A: ["x.pcap"]}
    assert points.notes == ()


def test_the_order_of_the_arguments_is_the_last_resort_and_said(tmp_path: Path) -> None:
    """Where nothing in the packets tells, the server's comes first, and the report says on what that rests."""
    write_pcap(tmp_path / "x.pcap", at("client", talk(A)))
    write_pcap(tmp_path / "y.pcap", at("server", talk(A, begin_ms=300)))
    points = _points(tmp_path / "x.pcap", tmp_path / "y.pcap")
    assert _files(points) == {"server": ["x.pcap"], A: ["y.pcap"]}
    assert "order of the arguments" in points.notes[0]


def test_a_second_server_is_left_out(tmp_path: Path) -> None:
    """The server that most clients share is meant; the other one and its client are named."""
    a, b, c = talk(A), talk(B), talk(C, server="10.0.9.9")
    write_pcap(tmp_path / "s.pcap", at("server", a, b))
    write_pcap(tmp_path / "t.pcap", at("server", c))
    write_pcap(tmp_path / "a.pcap", at("client", a))
    write_pcap(tmp_path / "c.pcap", at("client", c))
    points = _points(tmp_path)
    assert _files(points) == {"server": ["s.pcap"], A: ["a.pcap"]}
    assert sorted(Path(one.name).name for one in points.unused) == ["c.pcap", "t.pcap"]
    assert all("10.0.9.9" in one.why for one in points.unused)


def test_a_client_that_the_server_does_not_show_is_left_out(tmp_path: Path) -> None:
    """It was called, but at another time: there is nothing to compare."""
    a, b = talk(A), talk(B)
    write_pcap(tmp_path / "s.pcap", at("server", a, b))
    write_pcap(tmp_path / "a.pcap", at("client", a))
    write_pcap(tmp_path / "c.pcap", at("client", talk(C)))
    points = _points(tmp_path)
    assert _files(points) == {"server": ["s.pcap"], A: ["a.pcap"]}
    assert C in points.unused[0].why


def test_a_copy_counts_once(tmp_path: Path) -> None:
    """The same packets under two names are one file."""
    a, b = talk(A), talk(B)
    write_pcap(tmp_path / "s.pcap", at("server", a, b))
    write_pcap(tmp_path / "a.pcap", at("client", a))
    (tmp_path / "copy.pcap").write_bytes((tmp_path / "a.pcap").read_bytes())
    points = _points(tmp_path)
    assert _files(points) == {"server": ["s.pcap"], A: ["a.pcap"]}
    assert "same packets" in points.unused[0].why
    assert not points.unused[0].fatal


def test_a_server_that_is_a_client_elsewhere(tmp_path: Path) -> None:
    """What the server calls of another server is no client's call."""
    a, b, own = talk(A), talk(B), talk(SERVER, server="10.0.9.9")
    write_pcap(tmp_path / "s.pcap", at("server", a, b, own))
    write_pcap(tmp_path / "a.pcap", at("client", a))
    points = _points(tmp_path)
    assert points.server.addresses == (SERVER,)
    assert _files(points) == {"server": ["s.pcap"], A: ["a.pcap"]}


def test_the_manifest_has_the_last_word(tmp_path: Path) -> None:
    """Names, files and addresses of a manifest stand against what the packets seem to say."""
    a, b = talk(A), talk(B)
    write_pcap(tmp_path / "x.pcap", at("client", a, b))
    write_pcap(tmp_path / "y.pcap", at("server", a, b))
    write_pcap(tmp_path / "q.pcap", other_traffic(begin_ms=900))
    toml = tmp_path / "FLEET.toml"
    toml.write_text('server = "x.pcap"\n[clients.db01]\nfiles = ["y.pcap", "q.pcap"]\n')
    placed = manifest.read(str(toml))
    points = find_points(placed.given.files, placed)
    assert _files(points) == {"server": ["x.pcap"], "db01": ["y.pcap", "q.pcap"]}
    toml.write_text(f'[clients.db01]\naddresses = ["{B}", "{A}"]\n')
    assert _files(_points(tmp_path / "x.pcap", tmp_path / "y.pcap", toml=toml)) == {
        "server": ["y.pcap"],
        "db01": ["x.pcap"],
    }


@pytest.mark.parametrize(
    ("which", "says"),
    [((), "no capture is left"), (("q",), "no NFS calls")],
)
def test_what_is_missing_is_said_in_one_line(which: tuple[str, ...], says: str, tmp_path: Path) -> None:
    """Without a file, without NFS: an error that says what to give."""
    files = [write_pcap(tmp_path / f"{name}.pcap", other_traffic()) for name in which]
    with pytest.raises(InputError, match=says) as caught:
        _points(*files)
    assert "\n" not in str(caught.value)


def test_one_end_is_enough_and_that_is_said(tmp_path: Path) -> None:
    """The server's capture alone, or clients' alone, are points; a note says whose times will be inferred."""
    a, b = talk(A), talk(B)
    alone = _points(write_pcap(tmp_path / "s.pcap", at("server", a, b)))
    assert _files(alone) == {"server": ["s.pcap"]}
    assert "no capture of a client" in alone.notes[0]
    ends = {A: acknowledged(a), B: acknowledged(b)}
    files = [write_pcap(tmp_path / f"{name}.pcap", at("client", one)) for name, one in ends.items()]
    points = _points(*files)
    assert points.server is None
    assert _files(points) == {A: [f"{A}.pcap"], B: [f"{B}.pcap"]}
    assert "no capture of the server" in points.notes[0]


def test_a_client_with_two_addresses_is_one_where_no_server_was_captured(tmp_path: Path) -> None:
    """Beside others that were captured at their own end it is not taken for the server."""
    both = at("client", acknowledged(talk(A)), acknowledged(talk(B)))
    points = _points(
        write_pcap(tmp_path / "1.pcap", both), write_pcap(tmp_path / "2.pcap", at("client", acknowledged(talk(C))))
    )
    assert points.server is None
    assert [client.addresses for client in points.clients] == [(A, B), (C,)]


def test_a_manifest_names_clients_that_could_not_be_captured(tmp_path: Path) -> None:
    """By their addresses they are points without files, beside a capture of the server."""
    server = write_pcap(tmp_path / "s.pcap", at("server", talk(A), talk(B)))
    toml = tmp_path / "FLEET.toml"
    toml.write_text(f'[clients.db01]\naddresses = ["{A}"]\n')
    (named,) = _points(server, toml=toml).clients
    assert (named.name, named.addresses, named.files) == ("db01", (A,), ())


def test_files_that_cannot_be_decoded_do_not_stop_the_others(tmp_path: Path) -> None:
    """A damaged one is named with the reason, one without packets is no loss."""
    a, b = talk(A), talk(B)
    write_pcap(tmp_path / "s.pcap", at("server", a, b))
    whole = write_pcap(tmp_path / "a.pcap", at("client", a)).read_bytes()
    (tmp_path / "bad.pcap.gz").write_bytes(b"\x1f\x8b\x08 no gzip at all")
    (tmp_path / "begun.pcap").write_bytes(whole[:24])
    points = _points(tmp_path)
    assert _files(points) == {"server": ["s.pcap"], A: ["a.pcap"]}
    assert {Path(one.name).name: one.fatal for one in points.unused} == {"bad.pcap.gz": True, "begun.pcap": False}


def test_the_order_in_which_files_are_given_does_not_matter(tmp_path: Path) -> None:
    """Where the packets tell, the points are the same for every order of the arguments."""
    a, b = talk(A), talk(B, begin_ms=3)
    rotated(tmp_path / "server", at("server", a, b), 4)
    rotated(tmp_path / "a", at("client", a), 2)
    write_pcap(tmp_path / "b.pcap", at("client", b))
    files = list(expand([str(tmp_path)]).files)
    heads = {file: look(file) for file in files}
    expected = assign([heads[file] for file in files])
    for seed in range(10):
        random.Random(seed).shuffle(files)
        assert assign([heads[file] for file in files]) == expected


def _input(number: int, folder: int) -> Input:
    return Input(f"/f{folder}/cap{number}.pcap", f"f{folder}/cap{number}.pcap", 1000 + number, f"{number}")


_HEADS = st.builds(
    lambda number, folder, pairs, begin, length: Head(
        _input(number, folder), tuple(sorted(set(pairs), key=str)), begin, begin + length
    ),
    st.integers(0, 10_000),
    st.integers(0, 2),
    st.lists(
        st.builds(
            Pair,
            st.sampled_from(["10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1"]),
            st.sampled_from(["10.0.0.2", "10.0.0.8", "10.0.0.9"]),
            st.sampled_from(["", "client", "server"]),
        ),
        max_size=4,
    ),
    st.integers(0, 1000),
    st.integers(0, 300),
)


@settings(max_examples=examples(200))
@given(st.lists(_HEADS, max_size=8, unique_by=lambda head: head.file.url))
def test_each_file_ends_in_one_place(heads: list[Head]) -> None:
    """Whatever the packets show, a file is of one point or is left out with a reason; or the error is one line."""
    refused = ""
    try:
        points = assign(heads)
    except NfslatError as problem:
        refused = str(problem)
    if refused:
        assert "\n" not in refused
        return
    placed = [file.name for point in (points.server, *points.clients) if point for file in point.files]
    assert sorted(placed + [one.name for one in points.unused]) == sorted(head.file.name for head in heads)
    assert len({client.name for client in points.clients}) == len(points.clients)
    assert all(one.why for one in points.unused)


def _end_ns(first: bytes, last: bytes, folder: Path) -> int | None:
    """The time of the last packet of a file with these first and last bytes."""
    found = tails.last_packet(first, last)
    if found is None:
        return None
    (folder / "last").write_bytes(found)
    return native.peek(folder / "last")[1]


def test_the_end_of_a_file_is_read_from_its_last_bytes(tmp_path: Path) -> None:
    """Of pcap, cut in a packet or not, the time of the last whole packet; of anything else None, never a guess."""
    seen = at("server", talk(A, calls=200))
    for nano in (False, True):
        data = write_pcap(tmp_path / "x.pcap", seen, nano=nano).read_bytes()
        last = seen[-1].t_ns // (1 if nano else 1000) * (1 if nano else 1000)
        assert _end_ns(data[:4096], data[-4096:], tmp_path) == last
        before = _end_ns(data[:4096], data[-4096:-3], tmp_path)
        assert before is not None
        assert before < last
    assert tails.last_packet(data[:4096], bytes(4096)) is None
    assert tails.last_packet(b"\x1f\x8b" + bytes(100), data[-4096:]) is None


@settings(max_examples=examples(100))
@given(st.binary(max_size=200), st.binary(max_size=400), st.sampled_from(["d4c3b2a1", "a1b23c4d", "0a0d0d0a"]))
def test_last_bytes_may_be_anything(first: bytes, last: bytes, magic: str) -> None:
    """No bytes make it fail."""
    tails.last_packet(bytes.fromhex(magic) + first, last)


def test_the_end_of_real_pcapng(tmp_path: Path) -> None:
    """The last block of a real pcapng file has the time that a whole decode finds."""
    import gzip

    path = SHARED / "lab" / "i_v3_fmt_pcapng" / "server.pcap.gz"
    if not path.exists():
        pytest.skip("no captures at ../shared")
    data = gzip.decompress(path.read_bytes())
    (tmp_path / "x.pcapng").write_bytes(data)
    head = look(expand([str(tmp_path / "x.pcapng")]).files[0])
    assert head.is_whole == (len(data) <= 2 << 20)
    assert abs((_end_ns(data[:65536], data[-65536:], tmp_path) or 0) - (head.last_ns or 0)) < 1_000_000_000
