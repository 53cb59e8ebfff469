"""Lines of SQL*Net traces of several releases -> SDU, sizes and turns; cut, broken and hostile ones."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nfslat.errors import InputError
from nfslat.evidence.read import read_sqlnet_trace
from nfslat.evidence.sqlnet_trace import SqlnetTrace, parse

# A connect of an 11g client, as it prints it.
CONNECT = """\
(5304) [12-FEB-2019 17:25:10:600] nsopen: entry
(5304) [12-FEB-2019 17:25:10:600] nsopen: lcl[0]=0xf4ffefff, gbl[0]=0xfabf, tdu=32767, sdu=8192
(5304) [12-FEB-2019 17:25:10:647] nscon: sending NSPTCN packet
(5304) [12-FEB-2019 17:25:10:647] nspsend: entry
(5304) [12-FEB-2019 17:25:10:647] nspsend: plen=187, type=1
(5304) [12-FEB-2019 17:25:10:647] nttwr: socket 844 had bytes written=187
(5304) [12-FEB-2019 17:25:10:647] nspsend: 187 bytes to transport
(5304) [12-FEB-2019 17:25:10:647] nspsend: packet dump
(5304) [12-FEB-2019 17:25:10:647] nspsend: 28 53 44 55 3D 31 32 00  |(SDU=12.|
(5304) [12-FEB-2019 17:25:10:647] nsprecv: entry
(5304) [12-FEB-2019 17:25:10:647] nsprecv: reading frm transport...
(5304) [12-FEB-2019 17:25:10:804] nttrd: socket 844 had bytes read=8
(5304) [12-FEB-2019 17:25:10:804] nsprecv: 8 bytes from transport
(5304) [12-FEB-2019 17:25:10:804] nsprecv: tlen=8, plen=8, type=11
(5304) [12-FEB-2019 17:25:10:804] nscon: got NSPTRS packet
(5304) [12-FEB-2019 17:25:10:850] nsconneg: vsn=312, lov=300, opt=0x0, sdu=2048, tdu=32767, ntc=0x7f08
""".splitlines(keepends=True)

# Its queries.
QUERY = """\
(5304) [12-FEB-2019 17:25:11:100] nsbasic_bsd: entry
(5304) [12-FEB-2019 17:25:11:100] nsbasic_bsd: tot=0, plen=164.
(5304) [12-FEB-2019 17:25:11:100] nttfpwr: entry
(5304) [12-FEB-2019 17:25:11:100] nttfpwr: socket 844 had bytes written=164
(5304) [12-FEB-2019 17:25:11:100] nsbasic_bsd: packet dump
(5304) [12-FEB-2019 17:25:11:100] nsbasic_bsd: exit (0)
(5304) [12-FEB-2019 17:25:11:100] nsbasic_brc: entry: oln/tot=0
(5304) [12-FEB-2019 17:25:11:100] nttfprd: entry
(5304) [12-FEB-2019 17:25:11:150] nttfprd: socket 844 had bytes read=2048
(5304) [12-FEB-2019 17:25:11:150] nttfprd: exit
(5304) [12-FEB-2019 17:25:11:151] nttfprd: socket 844 had bytes read=613
(5304) [12-FEB-2019 17:25:11:151] nsbasic_brc: exit (0)
""".splitlines(keepends=True)


def test_a_packet_that_several_lines_tell_counts_once() -> None:
    """plen, bytes written and bytes to transport are one packet; the fast path is told by its socket."""
    trace = parse([*CONNECT, *QUERY, *QUERY])
    assert trace.sent == {164: 2, 187: 1}
    assert trace.received == {2048: 2, 613: 2, 8: 1}


def test_the_negotiated_sdu_counts() -> None:
    """nsopen says what this side wanted, nsconneg what came of it; the dump of a packet says nothing."""
    trace = parse(CONNECT)
    assert trace.sdu_bytes == 2048
    assert trace.notes[0] == "several SDU sizes are stated (2048 by nsconneg, 8192 by nsopen): 2048 bytes count"


@pytest.mark.parametrize(
    ("lines", "sdu"),
    [
        (["nsopen: lcl[0]=0x1, gbl[0]=0x2, tdu=32767, sdu=8192", "nscon: vsn=312, sdu=2048, tdu=32767"], 2048),
        (["nsopen: tdu=32767, sdu=0x2000"], 8192),
        (["nsc2addr: (DESCRIPTION=(SDU=65535)(ADDRESS=(HOST=a)))", "nsopen: tdu=1, sdu=8192"], 8192),
        (["nspsend: 2038 bytes to transport"], None),
    ],
)
def test_without_negotiation_the_smallest_stated_counts(lines: list[str], sdu: int | None) -> None:
    """The smaller side wins; where nobody states one it is not known."""
    trace = parse(lines)
    assert trace.sdu_bytes == sdu


def test_old_and_new_traces_without_some_lines_are_read() -> None:
    """SQL*Net 2 has only bytes to transport, without thread and time; 19c has plen and the writes of its socket."""
    old = parse(
        ["nspsend: 2038 bytes to transport", "nspsend: 613 bytes to transport", "nsprecv: 20 bytes from transport"]
    )
    assert (old.sent, old.received) == ({2038: 1, 613: 1}, {20: 1})
    new = parse(
        [
            "(10144) [24-JAN-2026 15:09:48:961] nspsend: plen=761, type=6",
            "(10144) [24-JAN-2026 15:09:48:962] nttmwr: socket 1712 had bytes written=761",
            "[000001 12-OCT-2009 10:03:39:163] nsprecv: 10 bytes from transport",
        ]
    )
    assert (new.sent, new.received.total()) == ({761: 1}, 1)
    reads = parse(["nttfpwr: socket 5 had bytes written=100", "nttfprd: socket 5 had bytes read=200"])
    assert (reads.sent, reads.received) == ({100: 1}, {200: 1})


def test_a_packet_in_two_reads_is_one() -> None:
    """plen tells the packet, the lines before it what each read brought."""
    lines = [
        "nsprecv: 1460 bytes from transport",
        "nsprecv: 588 bytes from transport",
        "nsprecv: tlen=2048, plen=2048, type=6",
    ]
    assert parse(lines).received == {2048: 1}


def test_sizes_without_sense_are_counted_and_left_out() -> None:
    """Zero and a billion are no sizes of packets; a trace of nothing else is refused."""
    lines = ["nspsend: plen=0, type=6", "nspsend: plen=999999999999, type=6", "nsopen: sdu=0, tdu=4294967295"]
    trace = parse([*lines, "nspsend: plen=10, type=6"])
    assert (trace.sent.total(), trace.sdu_bytes) == (1, None)
    assert any("3 lines" in note for note in trace.notes)
    with pytest.raises(InputError, match="without sizes"):
        parse(["nsopen: entry"])


def test_a_trace_with_an_sdu_only_says_what_is_missing() -> None:
    """Level ADMIN states the sizes agreed on, not those of packets."""
    assert any("SUPPORT" in note for note in parse(["nsopen: sdu=8192, tdu=8192"]).notes)


def test_a_flood_of_different_statements_does_not_grow() -> None:
    """What a broken file states is kept to a few dozen; the smallest of these counts."""
    trace = parse(f"nsopen: sdu={size}" for size in range(1000, 9000))
    assert trace.sdu_bytes == 1000
    assert trace.notes[0].count(" by nsopen") == 64


def test_files_are_read_as_they_come(tmp_path: Path) -> None:
    """Compressed, cut while compressed, UTF-16, with Windows line ends: the same trace."""
    whole = "".join([*CONNECT, *QUERY])
    packed = gzip.compress(whole.encode())
    for name, raw in {
        "plain": whole.encode(),
        "packed": packed,
        "windows": whole.replace("\n", "\r\n").encode("utf-16"),
    }.items():
        (tmp_path / name).write_bytes(raw)
        assert read_sqlnet_trace(str(tmp_path / name)) == parse([*CONNECT, *QUERY])
    (tmp_path / "cut").write_bytes(packed[:-20])
    assert read_sqlnet_trace(str(tmp_path / "cut")).sdu_bytes is not None


@pytest.mark.parametrize(
    ("raw", "says"),
    [(b"", "is no SQL.Net trace"), (b"hello\n" * 10, "is no SQL.Net trace"), (b"\xd4\xc3\xb2\xa1\0\0\0", "binary")],
)
def test_a_file_that_is_no_trace_is_refused(raw: bytes, says: str, tmp_path: Path) -> None:
    """One line with the file's name."""
    path = tmp_path / "some.trc"
    path.write_bytes(raw)
    for wrong, why in ((path, says), (tmp_path / "none", "cannot be read"), (tmp_path, "is not a file")):
        with pytest.raises(InputError, match=why) as problem:
            read_sqlnet_trace(str(wrong))
        assert str(problem.value).startswith(f"{wrong}: ")
        assert "\n" not in str(problem.value)


_ODD = st.sampled_from([line[:cut] for line in (*CONNECT, *QUERY) for cut in (20, 45, 60, 200)])


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(st.one_of(_ODD, st.text(max_size=80), st.sampled_from(CONNECT + QUERY)), max_size=40))
def test_lines_of_any_kind_are_read_or_left_out(lines: list[str]) -> None:
    """No traceback: a trace with sizes that make sense, or a refusal."""
    try:
        trace = parse(lines)
    except InputError:
        return
    assert isinstance(trace, SqlnetTrace)
    assert all(
        0 < size < 1 << 30 and count > 0 for moved in (trace.sent, trace.received) for size, count in moved.items()
    )


def test_a_binary_file_is_refused_with_what_is_wanted(tmp_path: Path) -> None:
    """A SQL*Net trace, and not the evidence of other commands."""
    path = tmp_path / "binary"
    path.write_bytes(b"\0\1\2")
    with pytest.raises(InputError, match="is binary: give a text file with a SQL"):
        read_sqlnet_trace(str(path))
