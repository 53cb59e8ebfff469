"""The arithmetic of `nfslat packets`: the examples of the literature, limits, sums, the command and its errors."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from commands import answered
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nfslat.errors import UsageError
from nfslat.sizes.payload import READ_HEADER, WRITE_HEADER, Fetch, Run, Runs, Sqlnet, Wire, cut, fetching, transfer

DOCS = Path(__file__).parents[1] / "docs" / "packets.md"


def command(arguments: str) -> tuple[str, dict[str, Any]]:
    """(text, JSON) of `nfslat packets ARGUMENTS`."""
    status, text, found = answered("packets", arguments.split())
    assert status == 0
    return text, found


def sizes(runs: list[dict[str, int]] | Runs) -> list[int]:
    """Each piece by itself."""
    pairs = [(r.count, r.size) if isinstance(r, Run) else (r["count"], r["size"]) for r in runs]
    return [size for count, size in pairs for _ in range(count)]


# --- Examples of the literature ---------------------------------------------------------------------------------------


def test_six_rows_in_arrays_of_three_with_an_sdu_of_2_kb() -> None:
    """Rows of 1511, 410, 730, 300, 200 and 500 bytes: 2038 + 613 + 1000 bytes of data."""
    text, found = command("--sdu 2048 --array-size 3 --row 1511,410,730,300,200,500")
    fetches = found["sqlnet"]["fetches"]
    assert [fetch["row_bytes"] for fetch in fetches] == [1511 + 410 + 730, 300 + 200 + 500]
    assert [size for fetch in fetches for size in sizes(fetch["unit_data"])] == [2038, 613, 1000]
    assert [size for fetch in fetches for size in sizes(fetch["units"])] == [2048, 623, 1010]
    assert "2038 + 613" in text


def test_fifteen_rows_of_20_bytes_make_a_packet_of_350() -> None:
    """15 x 20 of rows, 10 of SQL*Net, 40 of IP and TCP."""
    text, found = command("--sdu 2048 --array-size 15 --row 20")
    (fetch,) = found["sqlnet"]["fetches"]
    assert sizes(fetch["packets"]) == [350]
    assert "300 of rows + 1 x 10 of SDU headers + 1 x 40 of IP and TCP headers = 350 bytes" in " ".join(text.split())


def test_1550_bytes_with_a_1_kb_sdu_are_two_packets_of_1600_together() -> None:
    """15 x 100 + 10 + 40 = 1550 in one packet; in two the headers come twice: 1600 bytes, 1000 + 600 where 1 KB is a
    packet of 1000 with its headers."""
    (whole,) = command("--sdu 2048 --mss 2048 --array-size 15 --row 100")[1]["sqlnet"]["fetches"]
    assert sizes(whole["packets"]) == [1550]
    for sdu, packets in ((960, [1000, 600]), (1024, [1064, 536])):
        (fetch,) = command(f"--sdu {sdu} --array-size 15 --row 100")[1]["sqlnet"]["fetches"]
        assert sizes(fetch["packets"]) == packets
        assert fetch["packet_bytes"] == 1600


def test_1550_bytes_of_data_and_50_of_headers_cut_at_1000() -> None:
    """The other reading: the message is 1550 + 10 + 40 bytes, and 1 KB of it goes first."""
    (fetch,) = command("--sdu 1000 --headers sdu=0,fetch=50 --array-size 1 --row 1550")[1]["sqlnet"]["fetches"]
    assert sizes(fetch["unit_data"]) == [1000, 600]


def test_the_page_about_it_shows_what_the_commands_print() -> None:
    """Each command of docs/packets.md runs, and the figures beside it are in its output."""
    page = DOCS.read_text(encoding="utf-8")
    commands = re.findall(r"^    nfslat packets (.+)$", page, re.MULTILINE)
    assert len(commands) >= 5
    for arguments in commands:
        text, _ = command(arguments)
        shown = page.split(f"nfslat packets {arguments}\n", 1)[1].split("```text\n", 1)[1].split("```", 1)[0]
        for line in shown.splitlines():
            assert line in text, (arguments, line)


# --- NFS --------------------------------------------------------------------------------------------------------------


def test_reads_of_32_kb_end_in_a_runt_each() -> None:
    """READ3 replies have 132 bytes with their record mark in front of the data: 22 full segments and one of 780."""
    text, found = command("--rsize 32768 --mss 1460 --bytes 1048576 --rtt-ms 0.5")
    (read,) = found["nfs"]
    assert (read["op"], read["header"], read["total"]["round_trips"]) == ("READ", 132, 32)
    assert read["messages"][0]["segments"] == [{"count": 22, "size": 1460}, {"count": 1, "size": 780}]
    assert (read["total"]["segments"], read["total"]["runts"], read["total"]["round_trip_ms"]) == (736, 32, 16.0)
    assert "22 x 1460 + 780" in text


def test_headers_of_nfs_are_those_of_real_captures() -> None:
    """A Linux client and knfsd, 8 KB: tshark shows records of 8320 and 8304 bytes, without the record mark."""
    assert (8192 + READ_HEADER, 8192 + WRITE_HEADER) == (4 + 8320, 4 + 8304)


def test_the_rest_of_a_file_is_padded_to_four_bytes() -> None:
    """The last READ of a file brings what is left."""
    read = transfer("READ", 1000, 2101, Wire(), None, 100)
    assert [(m.times, m.file_bytes, m.bytes) for m in read.messages] == [(2, 1000, 1100), (1, 101, 204)]
    assert read.total.payload_bytes == 2101


# --- Sums and limits --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("total", "pieces"), [(0, []), (1, [1]), (9, [9]), (10, [10]), (11, [10, 1]), (20, [10, 10]), (21, [10, 10, 1])]
)
def test_pieces_at_the_limit(total: int, pieces: list[int]) -> None:
    """What fits exactly needs no piece more."""
    assert sizes(cut(total, 10)) == pieces


def test_a_fetch_that_fills_an_sdu_exactly() -> None:
    """2038 bytes fill an SDU of 2048, 2039 need a second one."""
    one, two = (fetching(Sqlnet(2048, 1, (size,), 1), Wire()).fetches[0] for size in (2038, 2039))
    assert (sizes(one.units), sizes(two.units)) == ([2048], [2048, 11])


def test_short_frames_are_padded() -> None:
    """Ethernet has no frames below 64 bytes."""
    assert fetching(Sqlnet(2048, 1, (1,), 1, sdu_header=0), Wire()).total.wire_bytes == 64
    assert fetching(Sqlnet(2048, 1, (1,), 1, sdu_header=0), Wire(ethernet_header=0)).total.wire_bytes == 41


def test_billions_of_rows_take_no_time() -> None:
    """Fetches of one kind are calculated once."""
    found = fetching(Sqlnet(8192, 7, (100, 200, 300), 10**12), Wire())
    assert found.total.payload_bytes == 10**12 // 3 * 600 + 100
    assert found.total.round_trips == -(-(10**12) // 7)


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.integers(1, 5000), min_size=1, max_size=7),
    st.integers(1, 60),
    st.integers(1, 20),
    st.integers(20, 9000),
    st.integers(1, 3000),
    st.integers(0, 19),
    st.integers(0, 100),
)
def test_all_of_it_adds_up(
    rows: list[int], row_count: int, array_size: int, sdu: int, mss: int, header: int, front: int
) -> None:
    """Rows are in fetches, data in SDUs, SDUs in segments, to the byte; no piece is larger than it may be."""
    asked = Sqlnet(sdu, array_size, tuple(rows), row_count, header, front)
    found = fetching(asked, Wire(mss=mss), 0.5)
    each = [rows[i % len(rows)] for i in range(row_count)]
    by_hand = sorted(
        (len(part), sum(part)) for part in (each[i : i + array_size] for i in range(0, row_count, array_size))
    )
    assert sorted((k.rows, k.row_bytes) for k in found.fetches for _ in range(k.times)) == by_hand
    for kind in found.fetches:
        _adds_up(kind, asked, mss)
    total = found.total
    assert total.payload_bytes == sum(each)
    assert total.data_bytes == sum(each) + front * total.round_trips
    assert total.unit_bytes == total.data_bytes + header * total.units
    assert total.packet_bytes == total.unit_bytes + 40 * total.segments
    assert total.wire_bytes >= total.packet_bytes + 18 * total.segments
    assert total.round_trips == -(-row_count // array_size)
    assert total.round_trip_ms == total.round_trips * 0.5
    for other in found.alternatives:
        assert other.total.payload_bytes == total.payload_bytes
        assert other.saved_round_trips == total.round_trips - other.total.round_trips >= 0
        assert other.saved_wire_bytes == total.wire_bytes - other.total.wire_bytes


def _adds_up(kind: Fetch, asked: Sqlnet, mss: int) -> None:
    data, units, segments = sizes(kind.unit_data), sizes(kind.units), sizes(kind.segments)
    assert sum(data) == kind.data_bytes == kind.row_bytes + asked.fetch_header
    assert [size + asked.sdu_header for size in data] == units
    assert sum(segments) == sum(units) == kind.unit_bytes
    assert all(size == asked.sdu for size in units[:-1])
    assert max(units) <= asked.sdu
    assert max(segments) <= mss
    assert sum(-(-unit // mss) for unit in units) == len(segments)
    assert sum(sizes(kind.packets)) == kind.packet_bytes


@settings(max_examples=examples(100), deadline=None)
@given(st.integers(1, 10**7), st.integers(1, 10**6), st.integers(1, 9000), st.sampled_from(["READ", "WRITE"]))
def test_a_file_is_in_its_messages(file_bytes: int, size: int, mss: int, op: str) -> None:
    """File data, headers and padding are in the segments, to the byte."""
    found = transfer(op, size, file_bytes, Wire(mss=mss), None, None)
    assert sum(m.times * m.file_bytes for m in found.messages) == file_bytes == found.total.payload_bytes
    for message in found.messages:
        assert message.bytes - message.file_bytes - found.header in range(4)
        assert sum(run.count * run.size for run in message.segments) == message.bytes
    assert found.total.round_trips == -(-file_bytes // size)


# --- The command ------------------------------------------------------------------------------------------------------


def test_what_larger_sizes_save_is_shown() -> None:
    """A million rows by 15: an array of 100 saves most round trips, 8 KB and 64 KB are set beside 2 KB."""
    text, found = command("--sdu 2048 --array-size 15 --row 120 --rows 1000000 --rtt-ms 0.4")
    others = found["sqlnet"]["alternatives"]
    assert [other["array_size"] for other in others] == [100, 1000, 1000]
    assert others[0]["saved_round_trips"] == 66_667 - 10_000
    assert others[0]["saved_ms"] == pytest.approx((66_667 - 10_000) * 0.4)
    assert "What other sizes would make" in text


def test_turns_and_their_time_are_in_the_first_line() -> None:
    """72,000 round trips of 200 ms are 4 h."""
    text, _ = command("--row 20 --array-size 1 --rows 72000 --rtt-ms 200")
    assert "72,000 round trips, 4.00 h one after another" in " ".join(text.split())


def test_what_oracle_advises_is_shown_with_its_source() -> None:
    """70 bytes more than the message, and who says so; nothing where it fits."""
    text = " ".join(command("--sdu 2048 --array-size 3 --row 1511,410,730")[0].split())
    assert "2,721 here" in text
    assert "Configuring Session Data Unit" in text
    assert "advice" not in command("--sdu 8192 --array-size 3 --row 100")[0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("", "give --row"),
        ("--bytes 5 --row 3", "--rsize or --wsize"),
        ("--rows 5 --rsize 8192", "give --row"),
        ("--row 20 --sdu 10", "no room for data"),
        ("--row 20 --sdu 8 --headers sdu=8", "no room for data"),
    ],
)
def test_what_makes_no_sense_is_one_line(arguments: str, says: str) -> None:
    """Usage errors say what to give."""
    with pytest.raises(UsageError, match=says) as problem:
        command(arguments)
    assert "\n" not in str(problem.value)


@pytest.mark.parametrize(
    "arguments",
    ["--row 0", "--row 1,,2", "--row -5", "--row x", "--row 1e9", "--row ²", "--mss 0", f"--row {10**30}",
     "--rtt-ms nan", "--rtt-ms -1", "--rows 0", "--array-size 0", "--sdu 0", "--rsize 0",
     "--row " + ",".join(["1"] * 1001)],
)  # fmt: skip
def test_values_that_are_none_are_usage_errors(arguments: str) -> None:
    """Numbers from 1 on, and times."""
    with pytest.raises(UsageError, match=r"give a whole number|give milliseconds|at most 1000|needs a value"):
        command(arguments)


def test_no_line_is_wider_than_the_terminal() -> None:
    """80 columns, whatever the sizes."""
    for arguments in (
        "--row " + ",".join(str(size) for size in range(100, 140)) + " --rows 123456789 --array-size 7 --sdu 512",
        "--row 1000000000 --rows 1000000000 --sdu 600 --mss 1",
        "--rsize 1048575 --wsize 7 --bytes 1000000000001 --rtt-ms 100",
    ):
        assert max(map(len, command(arguments)[0].splitlines())) <= 80


@pytest.mark.parametrize(("sdu", "is_remarked"), [(11, True), (512, False), (2_097_152, False), (99_999_999, True)])
def test_an_sdu_that_no_release_takes_has_a_remark(sdu: int, is_remarked: bool) -> None:
    """512 bytes to 2 MB, by Oracle's guide; the arithmetic is shown all the same."""
    text, found = command(f"--sdu {sdu} --row 100")
    assert ("No Oracle release takes an SDU" in " ".join(text.split())) == is_remarked
    assert found["sqlnet"]["total"]["payload_bytes"] == 1500


def test_large_counts_are_told_to_the_last_digit() -> None:
    """A table that is too wide goes without SDUs and segments, and times have the same decimals in all rows."""
    text, _ = command("--row 100 --rows 5000000000 --array-size 1 --rtt-ms 0.1")
    assert "e+" not in text
    assert "5,000,000,000  840,000,000,000  500,000,000" in text
    assert max(map(len, text.splitlines())) <= 80
    assert "1 byte by NFS READ" in command("--rsize 1 --bytes 1")[0]
