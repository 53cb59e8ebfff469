"""The library gives what the command line gives, and its notebook runs."""

from __future__ import annotations

import importlib.util
import inspect
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

import nfslat
from nfslat import api, cli, report_command
from nfslat.errors import UsageError
from nfslat.help import report_parser

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "samples" / "server-threads"
PAIR = (SAMPLE / "server.pcap.gz", SAMPLE / "client.pcap.gz")

# Options under another name, and those that are methods, of the shell, or about the screen.
_RENAMED = {"interval": "interval_s", "no_swap": "may_swap", "client": "client_addr"}
_METHODS = {"markdown", "html", "png", "json", "csv", "parquet", "ops_parquet", "perfetto", "missed", "files"}
_SCREEN = {"hist", "quiet", "help", "help_all", "completion", "version"}


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
    from nfslat.summarize_pivots import BY

    assert set(report_command.BY) == set(BY)


def test_import_is_light() -> None:
    """`import nfslat` and the help load neither numpy nor what draws."""
    script = (
        "import sys, nfslat.cli\n"
        "try: nfslat.cli.main(['--help'])\n"
        "except SystemExit: pass\n"
        "print(sorted({'numpy', 'pyarrow', 'vl_convert', 'pandas'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stderr.strip() == "[]"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_the_notebook_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Every cell of the example runs, where pandas and a kernel are."""
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
    assert any("wait for one of its 2 threads" in text for text in texts)
