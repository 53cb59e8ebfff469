"""The library gives what the command line gives, and its notebook runs."""

from __future__ import annotations

import dataclasses
import html
import importlib.util
import inspect
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import nfslat
from nfslat import api
from nfslat.cli import main as cli
from nfslat.cli.options import options
from nfslat.cli.outputs import name_files
from nfslat.errors import UsageError
from nfslat.report import notebook

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "samples" / "server-threads"
PAIR = (SAMPLE / "server.pcap.gz", SAMPLE / "client.pcap.gz")

# Options that are methods, and those about the screen.
_METHODS = {"markdown", "html", "png", "json", "csv", "parquet", "ops_parquet", "perfetto", "missed", "files"}
_SCREEN = {"full", "sections", "fail_on", "quiet", "overwrite"}


@pytest.fixture(scope="module")
def report() -> nfslat.Report:
    """A report on two captures, by the library."""
    return nfslat.correlate(*PAIR)


def test_the_library_gives_what_the_command_line_gives(
    report: nfslat.Report, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Text, JSON, Markdown and CSV of the library are those of the command, but for the command's own name."""
    names = [str(path) for path in PAIR]
    files = {option: tmp_path / option for option in ("json", "csv", "missed", "files")}
    assert cli.main([*names, *(f"--{option}={path}" for option, path in files.items())]) == 0
    assert report.text().split("\nnfslat 0")[0] == capsys.readouterr().out.split("\nnfslat 0")[0]
    for option in ("csv", "missed", "files"):
        out = io.StringIO(newline="")
        getattr(report, f"write_{option}")(out)
        assert out.getvalue().encode() == files[option].read_bytes()
    out = io.StringIO()
    report.write_json(out)
    by_library, by_command = json.loads(out.getvalue()), json.loads(files["json"].read_text())
    assert by_library.pop("nfslat")["engine"] == by_command.pop("nfslat")["engine"]
    assert by_library == by_command


def test_every_option_is_a_parameter() -> None:
    """What the command line can be asked for, the library can: as a parameter of `correlate`, or as a method."""
    of_report = {one.name for one in options() if "nfslat" in one.commands and one.names[-1].startswith("-")}
    assert of_report - _METHODS - _SCREEN == set(api.Request.__annotations__)
    methods = {name.removeprefix("write_") for name in dir(nfslat.Report)}
    assert methods >= _METHODS
    with pytest.raises(TypeError, match="no such parameter: hist"):
        nfslat.correlate(*PAIR, hist=True)  # type: ignore[call-arg]


def test_methods_take_what_the_commands_take() -> None:
    """With the options that the command has for it: text, single operations, and their packets."""
    parameters = set(inspect.signature(nfslat.Report.text).parameters)
    assert {"full", "sections", "width", "color"} <= parameters
    for name, words in (("show", {"xid", "slowest"}), ("shown", {"xid", "slowest"}), ("write_extract", {"context"})):
        assert words <= set(inspect.signature(getattr(nfslat.Report, name)).parameters), name


def test_tables_need_what_the_other_host_did(tmp_path: Path) -> None:
    """Of one capture whose packets are gone nothing is inferred: it has no matched ops, and says so."""
    stored = io.BytesIO()
    nfslat.inspect(PAIR[0]).write_ops_parquet(stored)
    (tmp_path / "ops.parquet").write_bytes(stored.getvalue())
    one = nfslat.inspect(tmp_path / "ops.parquet")
    assert "decoded before" in " ".join(one.figures.notes)
    with pytest.raises(UsageError, match="both captures"):
        one.write_csv(io.StringIO())
    with pytest.raises(UsageError, match="nothing is inferred"):
        nfslat.inspect(tmp_path / "ops.parquet", by=["size"])


def test_one_capture_has_all_that_two_have() -> None:
    """Every output that is about the comparison is made of one capture, too, and its figures say that they are
    inferred; only what lists ops of one capture that the other lacks needs the other."""
    one = nfslat.inspect(PAIR[1], by=["size"], interval_s=1.0, what_if=["threads=8"], app_ms=20.0, slo=["all=1ms"])
    assert one.figures.inferred is not None
    assert one.figures.inferred.side == "server"
    assert list(one.figures.captures) == list(one.figures.raw) == ["client"]
    assert one.figures.pivots
    assert one.figures.intervals is not None
    assert one.figures.what_if
    assert one.figures.pictures is not None
    for write in (one.write_csv, one.write_perfetto, one.write_json, one.write_files):
        out = io.StringIO()
        write(out)
        assert out.getvalue()
    with pytest.raises(UsageError, match="both captures"):
        one.write_missed(io.StringIO())


def test_single_operations_are_shown_and_extracted(report: nfslat.Report, capsys: pytest.CaptureFixture[str]) -> None:
    """`show` and `extract` of the library give what the commands give."""
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    assert cli.main(["show", *map(str, PAIR), "--slowest", "2"]) == 0
    text = capsys.readouterr().out
    assert report.show(slowest=2) == text
    xids = [one.xid for one in report.shown(slowest=2).ops]
    assert xids == re.findall(r"XID (0x\w{8})", text)[:2]
    out = io.BytesIO()
    assert [f"0x{one.xid:08x}" for one in report.write_extract(out, xid=[int(xid, 16) for xid in xids])] == xids
    assert out.getvalue().startswith(b"\x0a\x0d\x0d\x0a")


def test_names_of_files_are_read_where_something_may_show_them() -> None:
    """The text by itself is the same without them; what is written, --by, --markdown and --anonymize have them."""
    names = [str(path) for path in PAIR]
    without = api.run(names, api.Options(paths=False))
    assert without.text(full=True) == api.run(names, api.Options()).text(full=True)
    assert not any(len(side.decoded.details.files) for side in (without.tables.server, without.tables.client))
    with pytest.raises(RuntimeError, match="without what names files"):
        _ = without.paths
    parser = cli.parser_of(cli.REPORT)
    for more in (["--json", "a.json"], ["--csv", "-"], ["--by", "file"], ["--markdown"], ["--anonymize"]):
        assert name_files(parser.parse_args([*names, *more])), more
    assert not name_files(parser.parse_args([*names, "--full"]))


def test_packets_are_not_shown_of_what_has_none(report: nfslat.Report) -> None:
    """Wireshark's dissection shows what pseudonyms hide, and one capture has no matched ops: both are refused."""
    with pytest.raises(nfslat.UsageError):
        api.Report(report.tables, api.Options(anonymize=True)).show()
    one = nfslat.inspect(PAIR[0])
    with pytest.raises(nfslat.UsageError, match="both captures"):
        one.show()
    with pytest.raises(nfslat.UsageError, match="both captures"):
        one.write_extract(io.BytesIO())


def test_what_is_printed_of_objects_is_short(report: nfslat.Report) -> None:
    """In a notebook a report says what it is in a line, and so does its table."""
    assert repr(report) == f"<nfslat.Report on two captures: {len(report.ops)} matched ops>"
    assert repr(nfslat.inspect(PAIR[0])).startswith("<nfslat.Report on one capture: ")
    assert repr(report.ops) == f"<OpTable: {len(report.ops)} matched ops, {len(report.ops.column_names)} columns>"


def test_a_notebook_shows_the_answer(report: nfslat.Report) -> None:
    """Verdict, operations and findings as HTML that needs nothing else; of one capture what there is."""
    page = report._repr_html_()
    verdict = report.summary.verdict
    assert verdict is not None
    assert html.escape(verdict.text) in page
    assert "<td>READ</td>" in page
    assert all(f"<code>{one.code}</code>" in page for one in report.summary.findings[:5])
    assert len(page) < 10_000
    parsed = ElementTree.fromstring(f"<div>{page}</div>")  # noqa: S314  (ours)
    assert {one.tag for one in parsed.iter()} <= {
        *("div", "p", "b", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "code")
    }
    assert all(not one.attrib for one in parsed.iter())
    assert "<td>READ</td>" in nfslat.inspect(PAIR[0])._repr_html_()


def test_what_a_notebook_shows_is_escaped(report: nfslat.Report) -> None:
    """Nothing that stands in a capture becomes markup."""
    evil = "<script>alert(1)</script>\x1b[31m"
    verdict = report.summary.verdict
    assert verdict is not None
    finding = dataclasses.replace(report.summary.findings[0], text=evil)
    raw = {side: [dataclasses.replace(rows[0], op=evil)] for side, rows in report.summary.raw.items()}
    changed = dataclasses.replace(
        report.summary, verdict=dataclasses.replace(verdict, text=evil), findings=[finding], raw=raw
    )
    page = notebook.html(changed)
    assert "<script" not in page
    assert "\x1b" not in page
    assert page.count("&lt;script&gt;") == 3


def test_findings_are_rows(report: nfslat.Report) -> None:
    """Ranked as in the report, with the same keys in each, of which pandas makes a table."""
    rows = report.findings
    assert [row["code"] for row in rows] == [one.code for one in report.summary.findings]
    assert len({tuple(row) for row in rows}) == 1
    assert all(isinstance(value, str | float | int | None) for row in rows for value in row.values())
    pandas = pytest.importorskip("pandas")
    assert list(pandas.DataFrame(rows)["share"]) == [one.share for one in report.summary.findings]


def test_findings_on_the_captures_are_rows_too(report: nfslat.Report) -> None:
    """They have titles in a catalogue of their own."""
    finding = dataclasses.replace(report.summary.findings[0], code="capture-drops")
    assert [row["title"] for row in notebook.finding_rows([finding])] == ["The capture host dropped packets"]


def test_times_are_datetimes_in_pandas(report: nfslat.Report) -> None:
    """With times=True moments and lengths of time are pandas' own, to the ns, and null where they were."""
    pandas = pytest.importorskip("pandas")
    plain, timed = report.ops.to_pandas(), report.ops.to_pandas(times=True)
    assert list(plain.columns) == list(timed.columns)
    for column in report.ops.columns:
        kind = str(timed[column.name].dtype)
        if column.unit != "ns":
            assert kind == str(plain[column.name].dtype)
            continue
        is_moment = re.fullmatch(r"(client|server)_t[0-3]_ns", column.name) is not None
        assert kind == ("datetime64[ns, UTC]" if is_moment else "timedelta64[ns]")
        assert (timed[column.name].isna() == plain[column.name].isna()).all()
        known = plain[column.name].notna()
        origin = pandas.Timestamp(0, tz="UTC") if is_moment else pandas.Timedelta(0)
        ns = timed[column.name][known] - origin
        assert (ns // pandas.Timedelta(1, "ns") == plain[column.name][known].astype("int64")).all()


def test_functions_of_other_commands_are_where_the_documentation_says() -> None:
    """Each name in the docstring of the library leads to something that can be called."""
    assert api.__doc__ is not None
    named = re.findall(
        r"(nfslat(?:\.\w+)+)(?: and (\w+))?", api.__doc__.partition("of their own:")[2].split("Raises")[0]
    )
    assert len(named) >= 7
    for first, second in named:
        module, _, name = first.rpartition(".")
        for one in (name, second or name):
            assert callable(getattr(importlib.import_module(module), one))


def test_errors_are_names_of_the_package() -> None:
    """What may go wrong can be caught without knowing where it is defined, before anything was loaded."""
    script = (
        "import nfslat\n"
        "try: nfslat.correlate('no.pcap', 'none.pcap')\n"
        "except nfslat.InputError as problem: print(isinstance(problem, nfslat.NfslatError), problem)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("True no.pcap: ")


def test_import_is_light() -> None:
    """`import nfslat` and the help load neither numpy nor what draws."""
    script = (
        "import sys, nfslat.cli.main\n"
        "try: nfslat.cli.main.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'pyarrow', 'vl_convert', 'pandas'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_cells_of_the_notebook_run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Every cell of the example runs behind the one before, where pandas is."""
    for needed in ("pandas", "pyarrow", "vl_convert"):
        pytest.importorskip(needed)
    notebook = ROOT / "docs" / "library.ipynb"
    monkeypatch.chdir(notebook.parent)
    names: dict[str, object] = {}
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), notebook.name, "exec"), names)  # noqa: S102  (it is ours)
    assert "for one of its 2 threads" in capsys.readouterr().out


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A kernel runs every cell of the example, too, where there is one."""
    for needed in ("nbclient", "ipykernel", "pandas", "pyarrow", "vl_convert"):
        if importlib.util.find_spec(needed) is None:
            pytest.skip(f"{needed} is not installed")
    import nbclient
    import nbformat

    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    notebook = nbformat.read(ROOT / "docs" / "library.ipynb", as_version=4)
    client = nbclient.NotebookClient(
        notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(ROOT / "docs")}}
    )
    client.execute()
    texts = [output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", [])]
    assert any("for one of its 2 threads" in text for text in texts)
