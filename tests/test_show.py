"""`nfslat show`: one op in full, from real captures."""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import subprocess
from decimal import Decimal
from pathlib import Path

import pytest

from nfslat import pipeline
from nfslat.cli import main as cli
from nfslat.decode.engine import choose
from nfslat.decode.tools import Tools
from nfslat.errors import InputError, ToolError
from nfslat.figures.wireshark import in_filter
from nfslat.model.tables import Miss
from nfslat.packets import show
from nfslat.packets.dissect import Part, dissect
from nfslat.packets.model import Shown
from nfslat.results import Correlation
from nfslat.select import REASONS, Filters

pytestmark = pytest.mark.usefixtures("engine")

# Where the captures are: a folder each, with server.pcap.gz and client.pcap.gz in it. The samples are always there.
ROOT = Path(__file__).parents[1]
FOLDERS = (ROOT / "samples", ROOT.parent / "shared" / "lab")

SLOTS = "client-slots"  # NFSv3, cut at 512 bytes
V41 = "session-slots"
WHOLE = "i_v3_full_1M"  # whole packets, 1 MiB a READ or WRITE
SCENARIOS = [
    *(SLOTS, V41, WHOLE),
    *(
        pytest.param(name, marks=pytest.mark.long)
        for name in ("i_v3_fmt_snoop", "i_v3_snap96", "n_v3_nfsd_restart", "g_clock_step3s")
    ),
]


def _pair(scenario: str) -> list[str]:
    folder = next((folder / scenario for folder in FOLDERS if (folder / scenario).is_dir()), None)
    if folder is None:
        pytest.skip(f"no captures of {scenario} in ../shared/lab")
    return [str(folder / f"{side}.pcap.gz") for side in ("server", "client")]


_TEXTS: dict[str, dict[tuple[str, ...], str]] = {}


@pytest.fixture
def shown(engine: str) -> dict[tuple[str, ...], str]:
    """Texts made so far with this engine: many tests look at one."""
    return _TEXTS.setdefault(engine, {})


def _show(
    shown: dict[tuple[str, ...], str], capsys: pytest.CaptureFixture[str], scenario: str, *options: str
) -> list[str]:
    """The lines of ``nfslat show`` for a scenario's pair; it must end well and say nothing on standard error."""
    key = (scenario, *options)
    if key not in shown:
        status = cli.main(["show", *_pair(scenario), *options])
        out, err = capsys.readouterr()
        assert (status, err) == (0, "")
        shown[key] = out
    return shown[key].splitlines()


def _correlate(scenario: str, tools: Tools, tmp_path: Path, **filters: frozenset[str]) -> Correlation:
    engine = choose(None, lambda: tools, tmp_path, rereads=True)
    server, client = (engine.open(name) for name in _pair(scenario))
    return pipeline.correlate(
        server, client, engine, filters=Filters(**filters), srt="nfslat", may_swap=True, progress=lambda _: None
    )


def _cells(lines: list[str], first_header: str) -> list[list[str]]:
    """The rows of the table whose header line begins with `first_header`."""
    start = next(at for at, line in enumerate(lines) if re.match(rf" *{first_header}\b.*  ", line))
    rows = []
    for line in lines[start + 2 :]:
        if not line:
            break
        rows.append(re.split(r"  +", line.strip()))
    return rows


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_lines_fit_a_terminal_and_a_mail(
    shown: dict[tuple[str, ...], str], capsys: pytest.CaptureFixture[str], scenario: str
) -> None:
    """No line is longer than 80 columns, and nothing but ASCII is printed, whatever the capture."""
    lines = _show(shown, capsys, scenario, "--slowest", "1")
    assert max(map(len, lines)) <= 80
    assert "\n".join(lines).isascii()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_five_parts_sum_to_the_client_srt(
    shown: dict[tuple[str, ...], str], capsys: pytest.CaptureFixture[str], scenario: str
) -> None:
    """The printed parts add up, to the last digit, to the printed sum, to the SRT in the title and to the last time."""
    lines = _show(shown, capsys, scenario, "--slowest", "1")
    rows = {row[0]: Decimal(row[1]) for row in _cells(lines, "part")}
    total = rows.pop("sum")
    assert list(rows) == ["call_send", "call_net", "server", "reply_send", "reply_net"]
    assert sum(rows.values()) == total
    title = next(line for line in lines if line.startswith("client SRT"))
    client, server, network = (Decimal(number) for number in re.findall(r"(-?[\d.]+) ms", title))
    assert client == total == server + network
    assert server == rows["server"]
    packets = _cells(lines, "t ms")
    assert [Decimal(row[0]) for row in packets if row[1] == "client"][-1] == total


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_gaps_lead_from_one_packet_to_the_next(
    shown: dict[tuple[str, ...], str], capsys: pytest.CaptureFixture[str], scenario: str
) -> None:
    """Each time in the timeline is the one above it plus its gap; the client's call is at 0."""
    packets = _cells(_show(shown, capsys, scenario, "--slowest", "1"), "t ms")
    assert Decimal(packets[0][0]) == 0
    for above, row in itertools.pairwise(packets):
        assert Decimal(row[0]) == Decimal(above[0]) + Decimal(row[-1])


@pytest.mark.parametrize(
    "scenario", [pytest.param(SLOTS, marks=pytest.mark.long), V41, pytest.param(WHOLE, marks=pytest.mark.long)]
)
def test_wireshark_finds_the_op_in_the_frames_named(
    shown: dict[tuple[str, ...], str], capsys: pytest.CaptureFixture[str], tools: Tools, scenario: str
) -> None:
    """Each printed display filter is valid, and those of one file select all frames of its timeline."""
    lines = _show(shown, capsys, scenario, "--slowest", "1")
    for name, path in zip(("server", "client"), _pair(scenario), strict=True):
        start = next(at for at, line in enumerate(lines) if line.startswith(f"  {name}: "))
        filters = [line.strip() for line in lines[start + 1 : start + 3]]
        assert [text.split()[0] for text in filters] == ["frame.number", "rpc.xid"]
        command = [tools.tshark, "-r", path, "-Y", filters[0], "-T", "fields", "-e", "frame.number"]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=tools.environment)
        in_timeline = {row[2] for row in _cells(lines, "t ms") if row[1] == name}
        assert set(done.stdout.split()) == in_timeline


def test_a_message_that_both_sides_saw_alike_is_printed_once(
    shown: dict[tuple[str, ...], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Call and reply are dissected in full at the client; the server's copy is said to be the same."""
    lines = _show(shown, capsys, V41, "--slowest", "1")
    text = "\n".join(lines)
    order = [text.index(f"{what} at the {side}, frame") for what in ("Call", "Reply") for side in ("client", "server")]
    assert order == sorted(order)
    assert text.count("same at the server as at the client") == 2
    assert text.count("Remote Procedure Call, Type:Call") == text.count("Remote Procedure Call, Type:Reply") == 1
    # Nested as Wireshark nests it: the session's slot below SEQUENCE, below the COMPOUND's operations, below NFS.
    levels = ("Network File System", "Operations", "Opcode: SEQUENCE", "slot id")
    depths = [
        next(len(line) - len(line.lstrip()) for line in lines if line.lstrip().startswith(level)) for level in levels
    ]
    assert depths == [2, 4, 6, 8]


def test_a_cut_packet_is_said_to_be_cut(shown: dict[tuple[str, ...], str], capsys: pytest.CaptureFixture[str]) -> None:
    """Where the snaplen ends a message early, the text says how much of the frame was kept."""
    text = "\n".join(_show(shown, capsys, SLOTS, "--slowest", "1"))
    assert re.search(r"the capture kept 512 of the frame's \d+ bytes: the dissection ends early", text)
    whole = "\n".join(_show(shown, capsys, WHOLE, "--slowest", "1"))
    assert "the capture kept" not in whole


def test_a_message_over_many_frames_is_dissected_where_it_is_complete(
    shown: dict[tuple[str, ...], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """On whole packets a reply of 1 MiB is shown in its last frame, together with what it was put together from."""
    lines = _show(shown, capsys, WHOLE, "--slowest", "1")
    last = [row[2] for row in _cells(lines, "t ms") if row[1] == "client"][-1]
    assert f"Reply at the client, frame {last}" in lines
    assert any(line.startswith("  Wireshark put it together from ") for line in lines)


def test_an_xid_names_the_op_of_the_slowest(
    shown: dict[tuple[str, ...], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """--xid with the XID that --slowest printed, be it in decimals, shows the very same op."""
    slowest = _show(shown, capsys, SLOTS, "--slowest", "1")
    found = re.search(r"XID (0x[0-9a-f]{8})", slowest[0])
    assert found is not None
    assert _show(shown, capsys, SLOTS, "--xid", str(int(found[1], 16))) == slowest


def test_slowest_are_in_order(shown: dict[tuple[str, ...], str], capsys: pytest.CaptureFixture[str]) -> None:
    """--slowest N prints N ops, the longest client SRT first, none of the others being longer."""
    lines = _show(shown, capsys, SLOTS, "--slowest", "3")
    srts = [Decimal(line.split()[2]) for line in lines if line.startswith("client SRT")]
    assert len(srts) == 3
    assert srts == sorted(srts, reverse=True)


def test_a_retransmitted_call_is_in_the_timeline(
    shown: dict[tuple[str, ...], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """An RPC that was sent again shows the later transmission, and when it was."""
    lines = _show(shown, capsys, "b4_v3_rpc_retransmit", "--slowest", "1")
    again = [row for row in _cells(lines, "t ms") if row[4] == "call retransmitted"]
    assert [row[1] for row in again] == ["client", "server"]
    text = " ".join(lines)
    assert f"the call was seen 2 times at the client, the last one {again[0][0]} ms after the first" in text


def test_an_op_behind_a_step_is_placed_by_the_clock_as_it_is_then(
    shown: dict[tuple[str, ...], str], capsys: pytest.CaptureFixture[str]
) -> None:
    """A clock was set by 3 s in the middle: ops behind it have the new offset, and parts that make sense."""
    lines = _show(shown, capsys, "g_clock_step3s", "--start", "10", "--slowest", "1")
    assert "by an offset of -2665.0" in " ".join(lines)
    parts = {row[0]: Decimal(row[1]) for row in _cells(lines, "part")}
    assert all(0 <= parts[name] < 30 for name in ("call_net", "server", "reply_net"))


def test_an_unknown_xid_is_one_line_and_status_3(capsys: pytest.CaptureFixture[str]) -> None:
    """An XID that no capture holds is an input error, in one line."""
    assert cli.main(["show", *_pair(SLOTS), "--xid", "0x00000001"]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "0x00000001 is in neither capture" in err


def test_neither_option_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Without --xid and --slowest there is nothing to show: status 2, before any capture is read."""
    assert cli.main(["show", "server.pcap", "client.pcap"]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1


def test_an_unmatched_xid_is_explained(tools: Tools, tmp_path: Path) -> None:
    """An op that one capture lacks is refused with the frames where it was seen and the reason of the miss."""
    found = _correlate("j_v3_partial_overlap", tools, tmp_path)
    row = int((found.matching.unmatched.client == Miss.OUTSIDE_OVERLAP).argmax())
    ops = found.client.ops
    with pytest.raises(InputError) as caught:
        show.by_xid(found, int(ops.xid[row]))
    text = str(caught.value)
    assert "\n" not in text
    assert f"frames {ops.call_first_frame[row]}, {ops.reply_first_frame[row]}" in text
    assert "the other capture was not running then" in text


def test_a_filtered_xid_is_explained(tools: Tools, tmp_path: Path) -> None:
    """An op that a filter left out is refused with the name of that filter."""
    found = _correlate(SLOTS, tools, tmp_path, ops=frozenset({"READ"}))
    row = int((found.client.reasons == REASONS.index("not --op")).argmax())
    with pytest.raises(InputError, match="left out: not --op"):
        show.by_xid(found, int(found.client.ops.xid[row]))


@pytest.mark.parametrize("option", ["--slowest", pytest.param("--xid", marks=pytest.mark.long)])
def test_rotated_files_are_named_with_their_own_frame_numbers(
    tmp_path: Path, tools: Tools, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    """In a set of files each packet is named by its file and its number there, and is dissected from that file."""
    names = _pair(SLOTS)
    for side, path in zip(("server", "client"), names, strict=True):
        command = [str(Path(tools.tshark).with_name("editcap")), "-c", "1000", path, str(tmp_path / f"{side}.pcap")]
        subprocess.run(command, check=True, capture_output=True, env=tools.environment)
    found = _correlate(SLOTS, tools, tmp_path)
    row = show.slowest_ops(found, 1)[0]
    ops, at = found.client.ops, int(found.matched.client[row])
    wanted = "1" if option == "--slowest" else str(int(ops.xid[at]))
    assert cli.main(["show", f"{tmp_path}/server_*", f"{tmp_path}/client_*", option, wanted]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    frame = int(ops.call_first_frame[at])
    assert frame > 1000
    file = sorted(tmp_path.glob("client_*"))[(frame - 1) // 1000].name
    assert f"Call at the client, frame {(frame - 1) % 1000 + 1} of {file}\n" in out
    assert max(map(len, out.splitlines())) <= 80


@pytest.mark.parametrize("scenario", ["packet-loss", pytest.param("f_v41_baseline", marks=pytest.mark.long)])
def test_of_several_rpcs_in_a_frame_the_one_asked_for_is_shown(tools: Tools, tmp_path: Path, scenario: str) -> None:
    """A frame that carries several calls or replies gives the one with our XID and nothing of its neighbours."""
    found = _correlate(scenario, tools, tmp_path)
    ops = found.client.ops
    # The captures are cut at 512 bytes: there a message is shown where it begins.
    frames = ops.call_first_frame
    frame = next(frame for frame in frames.tolist() if (frames == frame).sum() > 1)
    here = [(int(xid), False) for xid in ops.xid[frames == frame]]
    wanted = [(which, [frame]) for which in here]
    shown = dissect([Part(found.client, found.client.source.files[0], wanted)], tools)
    assert len(shown) == len(set(here)) > 1
    for (_, _, (xid, _)), message in shown.items():
        xids = [line.text for line in message.lines if line.name == "rpc.xid"]
        assert xids == [f"XID: 0x{xid:08x} ({xid})"]


@pytest.mark.parametrize("program", ["missing", "failing", "talking"])
def test_a_tshark_that_fails_is_a_tool_error(tools: Tools, tmp_path: Path, program: str) -> None:
    """tshark missing or failing while the dissection is made ends in one line, with no traceback and no hang."""
    found = _correlate(SLOTS, tools, tmp_path)
    tshark = tmp_path / "tshark"
    if program != "missing":
        # More than a pipe holds, so that it waits until somebody reads it.
        warnings = "exec 1>&-; yes warning | head -n 20000 >&2" if program == "talking" else ":"
        tshark.write_text(f"#!/bin/sh\n{warnings}\necho 'tshark: no more memory' >&2\nexit 1\n")
        tshark.chmod(0o700)
    broken = dataclasses.replace(tools, tshark=str(tshark))
    expected = "does not start" if program == "missing" else "no more memory"
    with pytest.raises(ToolError, match=expected):
        "".join(show.render(found, show.slowest_ops(found, 1), broken))


def test_frames_are_written_as_a_wireshark_set() -> None:
    """Runs of three and more frames become a range, so that long messages stay readable."""
    assert in_filter([9, 3, 8, 7, 3]) == "3, 7..9"
    assert in_filter([1, 2]) == "1, 2"


@pytest.mark.parametrize("command", [["show", "--slowest", "1"], ["--json", "-"]])
def test_a_code_page_that_is_none_is_an_error_at_once(
    command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said before captures are opened, and nothing is written."""
    none = str(tmp_path / "none.pcap")
    at = 1 if command[0] == "show" else 0
    arguments = [*command[:at], none, none, *command[at:], "--name-encoding", "klingon"]
    assert cli.main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("nfslat: --name-encoding 'klingon'")
    assert err.count("\n") == 1


def test_json_says_what_the_text_says(shown: dict[tuple[str, ...], str], capsys: pytest.CaptureFixture[str]) -> None:
    """The same ops, times, packets, parts and dissection, as its schema has them; nothing else is printed."""
    lines = _show(shown, capsys, SLOTS, "--slowest", "3")
    assert cli.main(["show", *_pair(SLOTS), "--slowest", "3", "-q", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    pytest.importorskip("jsonschema").validate(found, Shown.json_schema())
    text = "\n".join(lines)
    assert [one["xid"] in text for one in found["ops"]] == [True] * 3
    for one in found["ops"]:
        assert one["op"].startswith("NFSv3 ")
        assert sum(one["parts_ms"].values()) == pytest.approx(one["client_ms"], abs=1e-6)
        assert one["client_ms"] == pytest.approx(one["server_ms"] + one["network_ms"], abs=1e-6)
        assert [(said["message"], said["side"]) for said in one["messages"]] == [
            ("call", "client"), ("call", "server"), ("reply", "client"), ("reply", "server"),
        ]  # fmt: skip
        assert all(any("XID" in line["text"] for line in said["lines"]) for said in one["messages"])
        assert {moment["side"] for moment in one["packets"]} == {"client", "server"}
    first = found["ops"][0]
    rows = _cells(lines[: lines.index("op 2 of 3")], "t ms")
    assert [(row[1], int(row[2]), row[4]) for row in rows] == [
        (one["side"], one["frame"], one["what"]) for one in first["packets"]
    ]
    assert set(first["wireshark"]) == {"client", "server"}
