"""`--anonymize`: no output tells who or what, one thing has one pseudonym, and no figure moves."""

from __future__ import annotations

import io
import ipaddress
import json
import pickle
import re
import struct
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import wire
from captures import SHARED
from hypothesis import given
from hypothesis import strategies as st

import nfslat
from nfslat.answer.model import Report
from nfslat.cli import main as cli
from nfslat.decode.tools import Tools
from nfslat.errors import UsageError
from nfslat.evidence.known import Known
from nfslat.export.anonymous import Pseudonyms
from nfslat.export.anonymous_evidence import outside
from nfslat.report.charts.all import charts

DATA = Path(__file__).parent / "evidence" / "data"
LAB = SHARED / "lab"
needs_lab = pytest.mark.skipif(not LAB.is_dir(), reason="no ../shared/lab")
BY = ("size", "client", "server", "connection", "file", "uid", "slot")
TELLING = "Acme-Hospital.prod"  # in every name of a file that is given
MACHINE = b"ora-db-07.acme.example"
NAMES = (b"payroll-2026.xls", "зарплата.doc".encode("koi8-r"), b"=SUM(patients)", "病歴.txt".encode())
EXPORT, FH = b"/vol/oncology", bytes(range(100, 132))


def _opaque(data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + data + bytes(-len(data) % 4)


def _made(folder: Path, client: str = "10.0.0.1", server: str = "10.0.0.10", **seen: Any) -> tuple[Path, Path]:
    """A MOUNT, and for each of NAMES a LOOKUP and a READ; a pair of captures with telling names."""
    cred = wire._ints(1) + _opaque(wire._ints(0) + _opaque(MACHINE) + wire._ints(1000, 0, 0))
    mount, tcp = wire.Tcp((client, 812), (server, 20048)), wire.Tcp((client, 811), (server, 2049))
    mount.send(0, ">", wire.call(1, wire.MOUNT, 3, 1, _opaque(EXPORT), cred=cred))
    mount.send(1, "<", wire.reply(1, wire._ints(0) + _opaque(FH) + wire._ints(1, 1)))
    tcp.syn(2, scale=7)
    for at, name in enumerate(NAMES):
        of_file = bytes([at]) + FH[1:]
        tcp.send(5 + 10 * at, ">", wire.call(2 * at + 2, wire.NFS, 3, 3, _opaque(FH) + _opaque(name), cred=cred))
        tcp.send(6 + 10 * at, "<", wire.reply(2 * at + 2, wire._ints(0) + _opaque(of_file) + wire._ints(0, 0)))
        args = _opaque(of_file) + struct.pack(">QI", 0, 4096)
        tcp.send(8 + 10 * at, ">", wire.call(2 * at + 3, wire.NFS, 3, 6, args, cred=cred))
        tcp.send(9 + 10 * at, "<", wire.reply(2 * at + 3, wire.read3(4096)))
    folder = folder / TELLING
    folder.mkdir(parents=True)
    paths = []
    for side in ("server", "client"):
        of_side = seen if side == "server" else {}
        packets = [*mount.seen_by(side, **of_side), *tcp.seen_by(side, **of_side)]
        paths.append(wire.write_pcap(folder / f"{TELLING}-{side}.pcap", packets))
    return paths[0], paths[1]


def _outputs(report: nfslat.Report, folder: Path) -> dict[str, str]:
    """All that can be written of a report, as text; Parquet as what is in it, pictures as what they are drawn from."""
    pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    out = {"text": report.text(full=True) + report.text(sections=["histograms"]), "markdown": report.markdown()}
    out["pictures"] = json.dumps([chart.spec for chart in charts(report.figures)])
    for name in ("json", "csv", "perfetto", "missed", "files"):
        stream = io.StringIO(newline="")
        getattr(report, f"write_{name}")(stream)
        out[name] = stream.getvalue()
    packed = io.BytesIO()
    report.write_parquet(packed)
    table = pq.read_table(io.BytesIO(packed.getvalue()))
    kept = {str(key): str(value) for key, value in (table.schema.metadata or {}).items()}
    out["parquet"] = json.dumps([kept, table.to_pydict()], default=str) + packed.getvalue().decode("latin-1")
    pytest.importorskip("vl_convert")
    out["html"] = report.html()
    assert all(out.values())
    return out


@pytest.fixture(autouse=True)
def _page_without_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are the same in every page, and take their time."""
    monkeypatch.setattr("nfslat.report.html.page._library", lambda *_: "")


def _leaks(outputs: dict[str, str], secrets: Iterable[str]) -> list[tuple[str, str]]:
    """(output, secret) of what is found: as a word, or a part of a path, and not as a piece of a longer one."""
    secrets, found = list(secrets), []
    for name, text in outputs.items():
        words = set(re.findall(r"\w+", text))  # of handles there are many
        for secret in secrets:
            there = secret in words if secret.startswith("0x") else secret in text
            if there and re.search(rf"(?<![\w.]){re.escape(secret)}(?!\w|\.\d)", text):
                found.append((name, secret))
    return found


def _without_texts(value: Any) -> Any:
    """Figures, and where they stand."""
    if isinstance(value, dict):
        return [_without_texts(one) for one in value.values()]
    if isinstance(value, list):
        return [_without_texts(one) for one in value]
    return None if isinstance(value, str) else value


def _figures(report: nfslat.Report) -> Any:
    out = io.StringIO()
    report.write_json(out)
    found = json.loads(out.getvalue())
    found.pop("notes")
    return _without_texts(found)


# --- Nothing is told --------------------------------------------------------------------------------------------------

_FIELDS = (
    *("ip.addr", "ipv6.addr", "eth.addr", "nfs.fh.hash", "nfs.name", "nfs.pathname.component", "mount.path"),
    *("rpc.auth.machinename", "nfs.session_id4"),
)


def _secrets(captures: Iterable[Path], tools: Tools) -> set[str]:
    """What tshark finds in the captures."""
    found: set[str] = set()
    for capture in captures:
        asked = [part for field in _FIELDS for part in ("-e", field)]
        done = subprocess.run(
            [tools.tshark, "-n", "-r", str(capture), "-T", "fields", *asked, "-E", "separator=|", "-E", "aggregator=|"],
            capture_output=True,
            text=True,
            check=True,
            env=tools.environment,
        )
        found |= {cell for line in done.stdout.splitlines() for cell in line.split("|")}
    return found - {""}


@needs_lab
@pytest.mark.parametrize(
    "scenario",
    [pytest.param(name, marks=pytest.mark.long) for name in ("h_v3_metadata", "h_v42_metadata", "i_v3_ipv6")],
)
def test_nothing_that_tshark_finds_is_in_any_output(scenario: str, tools: Tools, tmp_path: Path) -> None:
    """Addresses, names, handles, sessions, machines and paths of real captures are in nothing that is written."""
    folder = tmp_path / TELLING
    folder.mkdir()
    pair = []
    for side in ("server", "client"):
        path = folder / f"{TELLING}-{side}.pcap.gz"
        path.symlink_to(LAB / scenario / f"{side}.pcap.gz")
        pair.append(path)
    plain, hidden = (nfslat.correlate(*pair, by=BY, interval_s=1, anonymize=anonymize) for anonymize in (False, True))
    shown, outputs = _outputs(plain, tmp_path), _outputs(hidden, tmp_path)
    secrets = _secrets(pair[-1:], tools)
    # Half of the words of a name are in the report's own: "meta", "f1". In paths they are not.
    words = {one for one in secrets if one.isalnum() and not one.startswith("0x") and len(one) < 16}
    secrets = secrets - words | {f"/{word}" for word in words} | {TELLING, str(tmp_path), "lab-client", "srv/export"}
    assert len({secret for _, secret in _leaks(shown, secrets)}) > 3  # they are there to be found
    assert _leaks(outputs, secrets) == []
    assert _figures(plain) == _figures(hidden)
    # Nor in the tables that the library gives.
    kept = [pickle.dumps(report.tables) for report in (plain, hidden)]
    inside = {one.encode() for one in secrets if "." in one or "::" in one or one == TELLING}
    inside |= {bytes.fromhex(one) for one in secrets if re.fullmatch(r"[0-9a-f]{32}", one)}
    assert [one for one in inside if one in kept[0]] != []
    assert [one for one in inside if one in kept[1]] == []


def test_nothing_of_a_made_capture_is_in_any_output(tmp_path: Path) -> None:
    """Names in any code page, formulas, exports, machines, and a filter by an address, in any output."""
    pair = _made(tmp_path)
    given: dict[str, Any] = {"by": BY, "name_encoding": "koi8-r", "client_addr": ["10.0.0.1"], "all_programs": True}
    plain, hidden = (nfslat.correlate(*pair, **given, anonymize=anonymize) for anonymize in (False, True))
    shown, outputs = _outputs(plain, tmp_path), _outputs(hidden, tmp_path)
    secrets = [
        "payroll",
        "зарплата",
        "SUM(patients)",
        "x3dSUM",
        "patients",
        "病歴",
        "oncology",
        "vol",
        "10.0.0.1",
        "10.0.0.10",
        "ora-db",
    ]
    found = {secret for _, secret in _leaks(shown, secrets)}
    assert found >= {"payroll", "зарплата", "patients", "病歴", "oncology", "10.0.0.1", "10.0.0.10"}
    assert _leaks(outputs, [*secrets, TELLING, "02:00:00:00:00:01"]) == []
    assert _figures(plain) == _figures(hidden)
    # The one address is the beginning of the other.
    assert set(re.findall(r"198\.18\.\d+\.\d+", outputs["csv"])) == {"198.18.0.1", "198.18.0.2"}


def test_a_pseudonym_is_the_same_in_all_outputs(tmp_path: Path, tools: Tools, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever is made first, in each run, and in the packets that `nfslat extract` writes."""
    pair = _made(tmp_path)
    one = nfslat.correlate(*pair, by=("file", "client"), anonymize=True)
    two = nfslat.correlate(*pair, by=("client", "file"), anonymize=True)
    csv, files = io.StringIO(), io.StringIO()
    two.write_files(files)
    two.write_csv(csv)
    again, figures = io.StringIO(), one.figures
    one.write_csv(again)
    assert csv.getvalue() == again.getvalue()
    paths = {str(row.key) for row in figures.pivots[0].rows}
    assert {line.split(",")[7] for line in files.getvalue().splitlines()[1:]} == paths
    assert figures.pictures is not None
    assert {op.path for op in figures.pictures.slowest} == paths
    client = figures.pivots[1].rows[0].key
    assert {op.client for op in figures.pictures.slowest} == {f"{client}:811"}
    monkeypatch.setattr("nfslat.decode.tools.find_tools", lambda scratch: tools)
    packets = io.BytesIO()
    assert len(one.write_extract(packets, slowest=2)) == 2
    assert ipaddress.ip_address(client).packed in packets.getvalue()
    for secret in (ipaddress.ip_address("10.0.0.1").packed, MACHINE, FH[1:], TELLING.encode()):
        assert secret not in packets.getvalue()
    with pytest.raises(UsageError, match="packets show"):
        one.show()


def test_both_sides_of_a_translator_have_pseudonyms(tmp_path: Path) -> None:
    """What the server's capture calls the client is another address, and has another pseudonym."""
    pair = _made(tmp_path, swap_addresses={"10.0.0.1": "172.31.9.9"})
    plain, hidden = (nfslat.correlate(*pair, anonymize=anonymize) for anonymize in (False, True))
    assert set(plain.ops["client_at_server"]) == {"172.31.9.9"}
    assert set(hidden.ops["client"]) == {"198.18.0.1"}
    assert set(hidden.ops["client_at_server"]) == {"198.18.0.3"}
    assert _leaks(_outputs(hidden, tmp_path), ["10.0.0.1", "10.0.0.10", "172.31.9.9"]) == []


def test_real_addresses_that_look_like_pseudonyms_are_replaced(tmp_path: Path) -> None:
    """A capture from the networks that pseudonyms come from: none of its addresses is one."""
    pair = _made(tmp_path, client="198.18.0.2", server="198.18.0.1")
    report = nfslat.correlate(*pair, by=("client", "server"), anonymize=True)
    outputs = _outputs(report, tmp_path)
    assert _leaks(outputs, ["198.18.0.1", "198.18.0.2"]) == []
    assert [pivot.rows[0].key for pivot in report.figures.pivots] == ["198.18.0.3", "198.18.0.4"]


def test_files_of_a_set_are_numbered(tmp_path: Path, tools: Tools) -> None:
    """By glob or list; the parts of a set keep their place, and Wireshark filters name them."""
    pair = _made(tmp_path)
    for path in pair:
        subprocess.run(
            [tools.editcap, "-c", "9", str(path), str(path)], check=True, capture_output=True, env=tools.environment
        )
        path.unlink()
    sets = [str(path.with_name(path.stem + "_*")) for path in pair]
    report = nfslat.correlate(*sets, anonymize=True)
    assert [file.path for file in report.figures.captures["server"].files] == ["server-1", "server-2", "server-3"]
    assert _leaks(_outputs(report, tmp_path), [TELLING, "payroll"]) == []


def test_one_capture_has_pseudonyms_too(tmp_path: Path) -> None:
    """It is called "capture"."""
    server, _ = _made(tmp_path)
    report = nfslat.inspect(server, anonymize=True)
    files, figures = io.StringIO(), io.StringIO()
    report.write_files(files)
    report.write_json(figures)
    outputs = {"text": report.text(), "files": files.getvalue(), "json": figures.getvalue()}
    assert _leaks(outputs, ["10.0.0.1", "10.0.0.10", "payroll", "oncology", TELLING]) == []
    assert json.loads(outputs["json"])["captures"]["capture"]["path"] == "capture"


def test_the_report_says_once_that_it_is_anonymized(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In the text and in Markdown; a report with real names does not say so."""
    pair = [str(path) for path in _made(tmp_path)]
    for options, count in ((["--anonymize"], 1), (["--anonymize", "--markdown"], 1), ([], 0)):
        assert cli.main([*pair, *options]) == 0
        assert capsys.readouterr().out.count("anonymized") == count


def test_a_stored_capture_is_never_anonymized(tmp_path: Path) -> None:
    """It stands for the capture, and says so in one line."""
    report = nfslat.inspect(_made(tmp_path)[0], anonymize=True)
    with pytest.raises(UsageError, match="stands for the capture"):
        report.write_ops_parquet(io.BytesIO())


# --- Evidence ---------------------------------------------------------------------------------------------------------


@needs_lab
def test_evidence_tells_neither_its_files_nor_its_hosts(tmp_path: Path) -> None:
    """Snapshots, mounts, traces: their names and what hosts mount from where have pseudonyms, those of the captures."""
    scenario = LAB / "c_v3_slots2"
    truth = json.loads((scenario / "truth.json").read_text())
    folder = tmp_path / TELLING
    folder.mkdir()
    snapshots = []
    for when in ("before", "after"):
        snapshots.append(folder / f"{TELLING}-{when}.txt")
        snapshots[-1].write_text(truth[when]["mountstats"])
    evidence = []
    for name in ("app_perf_sched.txt", "app_stacks.folded"):
        evidence.append(folder / f"{TELLING}.{name}")
        evidence[-1].write_bytes((DATA / name).read_bytes())
    given: dict[str, Any] = {"client_snapshot": snapshots, "evidence": evidence}
    pair = [scenario / f"{side}.pcap.gz" for side in ("server", "client")]
    plain, hidden = (nfslat.correlate(*pair, **given, anonymize=anonymize) for anonymize in (False, True))
    secrets = [TELLING, "10.77.0.1", "10.77.0.2", "/srv/export", "/mnt/nfs", "oracle_4242_db1", str(tmp_path)]
    outputs = _outputs(hidden, tmp_path)
    for said in ("evidence-1: nfsd waited", "evidence-1: process-1 waited", "evidence-2: ", "mountstats /name-"):
        assert said in outputs["json"]
    shown = {secret for _, secret in _leaks({"json": _outputs(plain, tmp_path)["json"]}, secrets)}
    assert shown >= {TELLING, "10.77.0.1", "/mnt/nfs", "oracle_4242_db1"}
    assert _leaks(outputs, secrets) == []
    assert _figures(plain) == _figures(hidden)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("fio time", "fio evidence"),  # a file with an everyday name
        ("time: takes other times on the wire", "evidence: takes other times on the wire"),
        ("it takes more time on the wire", "it takes more time on the wire"),
        ("nfsiostat /mnt/a b", "nfsiostat /name-1/name-2 b"),
        ("/mnt/x (filer:/vol/y) is no longer mounted", "/name-1/name-2 (host-1:/name-3/name-4) is no longer mounted"),
        ("/mnt/x ([fd00::9]:/vol) was mounted", "/name-1/name-2 ([2001:db8::1]:/name-3) was mounted"),
        ("/mnt/x (10.9.9.9:/vol) was mounted", "/name-1/name-2 (198.18.0.1:/name-3) was mounted"),
        ("time: ora_lgwr_X waited 1.5 ms for a processor", "evidence: process-1 waited 1.5 ms for a processor"),
        ("time: nfsd waited 1.5 ms for a processor", "evidence: nfsd waited 1.5 ms for a processor"),
        ("/proc/net/rpc/nfsd, th", "/proc/net/rpc/nfsd, th"),
        ("32 sessions / 12.5 per s", "32 sessions / 12.5 per s"),
        ("READ and WRITE: 1.2 ms/op", "READ and WRITE: 1.2 ms/op"),
    ],
)
def test_texts_of_evidence(text: str, shown: str) -> None:
    """Paths, devices, processes and files are replaced, where they stand as such, and nothing else is."""
    known = Known(sources={"app_ms": text})
    out, notes = outside(Pseudonyms(), known, [text], ["time"])
    assert out.sources == {"app_ms": shown}
    assert notes == (shown,)


# --- Texts ------------------------------------------------------------------------------------------------------------

_ADDRESSES = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6)).filter(
    lambda one: not (one.is_loopback or one.is_unspecified or int(one) == 0xFFFFFFFF)
)
_AROUND: tuple[Callable[[str], str], ...] = (
    lambda one: one,
    lambda one: f"from {one}, which",
    lambda one: f"[{one}]:2049" if ":" in one else f"{one}:2049",
    lambda one: f"addr={one},",
    lambda one: f"({one})",
    lambda one: f"{one}: no reply",
    lambda one: f"{one}.",
    lambda one: f"[{one}]:/export" if ":" in one else f"{one}:/export",
)


@given(_ADDRESSES, st.sampled_from(_AROUND))
def test_an_address_is_found_in_any_text(address: ipaddress.IPv4Address, around: Callable[[str], str]) -> None:
    """With a port, in brackets, in front of a colon, at the end of a sentence; what is around it stays."""
    names = Pseudonyms()
    assert names.texts(around(str(address))) == around(names.address(str(address)))
    assert names.address(str(address)) != str(address)


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-21T02:21:01.118375Z",
        "12:34:56",
        "4.0.17",
        "std::cc and ::",
        "1.5 of 3.25.",
        "127.0.0.1 and ::1",
        "0x0a000001",
        "READ 8K: 12,345 ops",
    ],
)
def test_what_is_no_address_stays(text: str) -> None:
    """Times, versions and figures; and this host, which is everywhere the same."""
    assert Pseudonyms().texts(text) == text


def test_the_engine_is_no_address(tmp_path: Path) -> None:
    """A version with four numbers stays where a version stands."""
    report = nfslat.correlate(*_made(tmp_path)).figures
    assert isinstance(report, Report)
    from dataclasses import replace

    tool = replace(report.nfslat, version="4.0.17.1", engine="tshark 4.0.17.1")
    out = Pseudonyms().report(replace(report, nfslat=tool))
    assert (out.nfslat.version, out.nfslat.engine) == ("4.0.17.1", "tshark 4.0.17.1")


@given(st.lists(st.ip_addresses(v=4), unique=True, min_size=2, max_size=40))
def test_pseudonyms_are_one_to_one(addresses: list[ipaddress.IPv4Address]) -> None:
    """Two addresses have two pseudonyms, however they are written; IPv4 in IPv6 keeps to its own."""
    names = Pseudonyms()
    shown = [names.address(str(one)) for one in addresses]
    assert len(set(shown)) == len(shown)
    assert [names.address(f"::ffff:{one}") for one in addresses] == [
        f"::ffff:{pseudonym}" if pseudonym != str(one) else f"::ffff:{one}"
        for one, pseudonym in zip(addresses, shown, strict=True)
    ]
