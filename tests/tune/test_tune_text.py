"""The answer as text and as JSON, and the command: short, in 80 columns, one line for each problem."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from captures import SHARED, needs_captures
from hypothesis import example, given
from hypothesis import strategies as st
from tune_snapshots import STARVED, a_client, a_server, settings

from nfslat.cli import main as cli
from nfslat.evidence import counters
from nfslat.evidence.records import Setting, Snapshot
from nfslat.findings.tune.checks import check
from nfslat.findings.tune.knobs import BY_NAME, FACTS
from nfslat.report.tune import as_dict, render

_TEXT = """\
# nfslat snapshot 1
#### nfslat: host
system: Linux
release: 6.1.176
hostname: {name}
#### nfslat: values
{values}
#### nfslat: end
"""


def _file(folder: Path, name: str, values: str) -> str:
    path = folder / f"{name}.txt"
    path.write_text(_TEXT.format(name=name, values=values))
    return str(path)


def test_first_lines_say_what_to_change() -> None:
    """The first lines are a list of changes, the most urgent first, and which of them were measured."""
    text = render(check([a_client(slots=2, mount=STARVED), a_server(4, pools=())]), width=80)
    assert text.splitlines()[:2] == [
        "1 thing to change:",
        "  1. dbclient: sunrpc.tcp_max_slot_table_entries 2 -> 128, measured",
    ]
    assert render(check([a_client(), a_server()]), width=80).startswith("Nothing here needs to change.\n")


def test_changed_settings_are_marked_in_the_table() -> None:
    """A row that a change is about begins with an exclamation mark; without changes there is no such column."""
    text = render(check([a_client(slots=2, mount=STARVED)]), width=80)
    assert [line.split()[1] for line in text.splitlines() if line.startswith("!")] == [
        "sunrpc.tcp_max_slot_table_entries"
    ]
    assert "\n!" not in render(check([a_client()]), width=80)


def test_defaults_that_depend_on_a_version_say_on_which() -> None:
    """The default number of threads depends on nfs-utils, and the table says so below."""
    assert "  nfsd.threads: default 16 (nfs-utils from 2024-11; 8 before)\n" in render(check([a_server()]), width=80)


def test_printed_facts_are_in_the_document() -> None:
    """Every name behind a remark or an advice is a fact, and every setting printed is known."""
    off = settings(net__ipv4__tcp_sack=0, net__ipv4__tcp_window_scaling=0)
    client = a_client(2, STARVED, configured={"sunrpc.tcp_slot_entries": Setting("1", "x")})
    server = a_server(2, woken=1, settings={**a_server(2).settings, **off})
    found = check([client, server])
    text = render(found, width=80)
    shown = re.findall(r"\[([a-z0-9, \n-]+)\]", text.partition("To know")[2])
    shown += re.findall(r"^   facts   ((?:.*\n {11})*.*)", text, re.MULTILINE)
    names = {name for group in shown for name in re.findall(r"[a-z0-9-]+", group)}
    assert names
    assert names <= set(FACTS)
    assert {row.setting for row in found.rows if not row.setting.startswith("10.")} <= set(BY_NAME)


def test_commands_can_be_pasted_into_a_shell() -> None:
    """What stands behind "how", broken lines and remarks included, is shell; nothing in it is left open."""
    text = render(check([a_client(2, STARVED), a_server(2, woken=1)]), width=80)
    for block in re.findall(r"^   how     ((?:.*\n {11})*.*)", text, re.MULTILINE):
        commands = re.sub(r"^ {11}", "", block, flags=re.MULTILINE)
        done = subprocess.run(["sh", "-n"], input=commands, text=True, capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        assert all(len(line) <= 69 for line in commands.splitlines())


@example(name="", value="", path="\u0300\U00014647\U0001d300", device="")  # wide in Unicode 16
@given(
    name=st.text(max_size=90),
    value=st.text(max_size=60),
    path=st.text(max_size=120),
    device=st.text(max_size=90),
)
def test_no_line_is_wider_than_the_terminal(name: str, value: str, path: str, device: str) -> None:
    """Long names and anyone's text stay within 80 columns and cannot steer the terminal."""
    source = Setting(value, path)
    client = a_client(
        hostname=name,
        mount=replace(STARVED, device=device),
        settings={"sunrpc.tcp_max_slot_table_entries": source, "net.ipv4.tcp_rmem": source},
        configured={"sunrpc.tcp_max_slot_table_entries": Setting("7", path)},
        warnings=(path,),
    )
    for line in render(check([client, a_server()]), width=80).split("\n"):
        assert len(line) <= 80, line
        assert line.isprintable()


def test_json_has_everything_and_a_schema() -> None:
    """The JSON form has the same changes, remarks and rows as the text, and says which contract it keeps."""
    found = check([a_client(2, STARVED), a_server()])
    values = json.loads(json.dumps(as_dict(found), allow_nan=False))
    assert values["schema"] == "nfslat.tune/1"
    assert [len(values[name]) for name in ("hosts", "changes", "remarks", "rows")] == [
        len(found.hosts),
        len(found.changes),
        len(found.remarks),
        len(found.rows),
    ]
    assert values["changes"][0]["advice"] == found.changes[0].advice.as_dict()


def test_command_reads_snapshots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """nfslat tune takes files of scripts/snapshot.sh and prints the answer on standard output."""
    server = _file(tmp_path, "srv", "/proc/fs/nfsd/threads: 2")
    assert cli.main(["tune", server]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "  1. srv: nfsd.threads 2 -> 64"


def test_command_writes_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--json FILE writes it beside the text, and again over itself; - puts it in the place of the text."""
    server = _file(tmp_path, "srv", "/proc/fs/nfsd/threads: 2")
    target = tmp_path / "tune.json"
    for _ in range(2):
        assert cli.main(["tune", server, "--json", str(target)]) == 0
        assert capsys.readouterr().out.startswith("1 thing to change:")
    assert cli.main(["tune", server, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(target.read_text())


@pytest.mark.parametrize(
    ("content", "status", "says"),
    [
        (None, 3, "cannot be read"),
        ("", 3, "is empty"),
        ("hello\n", 3, "is not a snapshot"),
        ("# nfslat snapshot 1\n#### nfslat: host\nsystem: Linux\n#### nfslat: end\n", 3, "no setting of NFS"),
    ],
)
def test_problems_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None, status: int, says: str
) -> None:
    """A file that cannot be used ends the command with status 3 and one line that names it."""
    path = tmp_path / "x.txt"
    if content is not None:
        path.write_text(content)
    assert cli.main(["tune", str(path)]) == status
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert says in shown.err
    assert str(path) in shown.err


def test_usage_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a snapshot it is a usage error."""
    assert cli.main(["tune"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


# What was put in on purpose, by the beginning of the capture's name.
_CAUSES = {
    "b4_": ["nfsd.threads"],
    "b_": ["nfsd.threads"],
    "f_v42_nfsd_threads2": ["nfsd.threads"],
    "c2_": ["sunrpc.tcp_max_slot_table_entries"],
    "c_": ["sunrpc.tcp_max_slot_table_entries"],
    "m_": ["sunrpc.tcp_max_slot_table_entries"],
    "f_v41_session_slots2": ["nfs.max_session_slots"],
}


@needs_captures
@pytest.mark.parametrize("path", sorted(SHARED.glob("lab/*/truth.json")), ids=lambda path: str(path.parent.name))
def test_real_hosts_with_known_causes(path: Path) -> None:
    """On every lab pair the change that was needed is the only one, and a healthy pair has none."""
    truth = json.loads(path.read_text())
    told = truth["environment"]
    known = {f"sunrpc.{name}": Setting(value, "lab") for name, value in told["client_sysctl_sunrpc"].items()}
    known["nfs.max_session_slots"] = Setting(str(told["client_max_session_slots"]), "lab")
    snapshots = []
    for time, when in enumerate(("before", "after")):
        texts = truth[when]
        client = Snapshot("c", "Linux", told["client_kernel"], hostname="client", taken=str(time), settings=known)
        server = Snapshot("s", "Linux", told["server_kernel"], hostname="server", taken=str(time))
        threads = {"nfsd.threads": Setting(str(told["nfsd_threads"]), "lab")}
        snapshots += [
            replace(client, mounts=counters.mounts(texts["mountstats"], "lab")),
            replace(server, settings=threads, pools=counters.pools(texts["pool_stats"], "lab")),
        ]
    cause = next((knobs for start, knobs in _CAUSES.items() if path.parent.name.startswith(start)), [])
    found = check(snapshots)
    assert [change.advice.knob for change in found.changes] == cause
    assert all(change.measured for change in found.changes)
