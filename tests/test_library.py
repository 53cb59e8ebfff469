"""The library gives what the command line gives, and its notebook runs."""

from __future__ import annotations

import importlib.util
import inspect
import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import nfslat
from nfslat import api
from nfslat.cli import main as cli
from nfslat.cli import report as report_command
from nfslat.cli.help import report_parser
from nfslat.errors import UsageError

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "samples" / "server-threads"
PAIR = (SAMPLE / "server.pcap.gz", SAMPLE / "client.pcap.gz")

# Options under another name, and those that are methods, of the shell, or about the screen.
_RENAMED = {"interval": "interval_s", "no_swap": "may_swap", "client": "client_addr"}
_METHODS = {"markdown", "html", "png", "json", "csv", "parquet", "ops_parquet", "perfetto", "missed", "files"}
_SCREEN = {"full", "sections", "hist", "quiet", "fail_on", "help", "help_all", "completion", "version", "overwrite"}


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
    options = {
        name.removeprefix("--").replace("-", "_")
        for action in report_parser(cli.COMMANDS)._actions
        for name in action.option_strings[-1:]
    }
    parameters = set(inspect.signature(api.correlate).parameters)
    assert {_RENAMED.get(name, name) for name in options - _METHODS - _SCREEN} == parameters - {"server", "client"}
    methods = {name.removeprefix("write_") for name in dir(nfslat.Report)}
    assert methods >= _METHODS


def test_tables_need_both_captures() -> None:
    """A report on one capture has no matched ops, and says so."""
    one = nfslat.inspect(PAIR[0])
    with pytest.raises(UsageError, match="both captures"):
        one.write_csv(io.StringIO())


def test_the_names_of_by_are_those_of_the_pivots() -> None:
    """The command line offers each pivot that there is."""
    from nfslat.figures.pivots import BY

    assert set(report_command.BY) == set(BY)


def test_single_operations_are_shown_and_extracted(report: nfslat.Report, capsys: pytest.CaptureFixture[str]) -> None:
    """`show` and `extract` of the library give what the commands give."""
    if shutil.which("tshark") is None:
        pytest.skip("tshark is not installed")
    assert cli.main(["show", *map(str, PAIR), "--slowest", "2"]) == 0
    assert report.show(slowest=2) == capsys.readouterr().out
    out = io.BytesIO()
    written = report.write_extract(out, slowest=2)
    again = io.BytesIO()
    assert report.write_extract(again, xid=[one.xid for one in written]) == written
    assert out.getvalue() == again.getvalue()
    assert out.getvalue().startswith(b"\x0a\x0d\x0d\x0a")


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
