"""scripts/compare: what it masks, what it finds to differ, and how it counts."""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from comparison import cases
from comparison.cases import Case, Inputs, Pair
from comparison.outputs import Count, Masks, as_text, difference, page
from comparison.worker import run

SCRIPT = Path(__file__).parents[1] / "scripts" / "compare"
MASKS = Masks((("/tmp/here", "<cwd>"), ("/src/old", "<checkout>")), "0.1.0")  # noqa: S108 - names, no files


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("/tmp/here/out/a.json: exists", "<cwd>/out/a.json: exists"),  # noqa: S108
        ('"version": "0.1.0", "engine": "native 0.1.0"', '"version": "VERSION", "engine": "native VERSION"'),
        ("nfslat 0.1.0\n", "nfslat VERSION\n"),
        ("nfslat-a1b2_c3d/x.pcap", "nfslat-SCRATCH/x.pcap"),
        ("tcp://127.0.0.1:41605 and on", "tcp://127.0.0.1:PORT and on"),
        ('"peak_rss_bytes": 203173888,', '"peak_rss_bytes": MEASURED,'),
        (
            "This machine: 1 worker on vm, at most 203.2 MB of memory each (limit 22.7\n  GB); 4.4 s. Tasks: 26"
            " done, 0 cached, 0 failed,\n  0 again.\nNext",
            "This machine: 1 worker COST Tasks: 26 done, 0 cached, 0 failed, 0 again.\nNext",
        ),
    ],
)
def test_masks_what_two_runs_cannot_share(text: str, masked: str) -> None:
    """Places, versions, scratch names, ports and what a fleet's run cost."""
    assert MASKS.masked(text) == masked


@pytest.mark.parametrize("text", ["mean 0.1.0", "10.1.0 ms", "nfslat 0.1.02", "0.530 of 0.808 ms", '"wall_ms": 3.2'])
def test_masks_no_figure(text: str) -> None:
    """What only looks like a version or a measured time stays to be compared."""
    assert MASKS.masked(text) == text


def test_difference_is_short_and_names_its_place() -> None:
    """The line, context around it, and no more lines than asked for."""
    old = [f"line {number}" for number in range(1000)]
    new = [*old[:700], "changed", *old[701:]]
    found = difference("\n".join(old), "\n".join(new), 12)
    assert found[0] == "@@ line 701 @@"
    assert found[1:] == [" line 698", " line 699", "-line 700", "+changed", " line 701", " line 702"]
    assert difference("\n".join(old), "\n".join(new), 3) == [*found[:3], "..."]
    assert difference("same", "same", 12) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [("a\n", "a"), ("a\n", "a\n\n"), ("a\r\n", "a\n"), ("a \n", "a\n"), ("", "\n"), ("a\udcff", "a\\udcff")],
)
def test_every_byte_counts(old: str, new: str) -> None:
    """Ends of lines, blanks and bytes that are no text make a difference that is shown."""
    found = difference(old, new, 12)
    assert [line for line in found if line.startswith(("-", "+"))]


def test_a_long_line_is_cut_where_it_differs() -> None:
    """JSON on one line is shown around what differs, not whole."""
    found = difference("x" * 50_000 + "1" + "y" * 500, "x" * 50_000 + "2" + "y" * 500, 12)
    assert max(map(len, found)) < 200
    assert len(found) <= 13


def test_a_page_is_reduced_to_its_tags_text_and_charts() -> None:
    """A style is its digest, so that a change of it is one line; a chart's specification stays, indented."""
    chart = '<script type="application/json" id="spec-a">{"mark":"bar"}</script>'
    one, other = (page(f"<html><style>{style}</style><p>12 ms</p>{chart}") for style in ("p {}", "q {}"))
    assert '\n "mark": "bar"\n' in one
    assert "\n<p>12 ms\n" in one
    assert "p {}" not in one
    assert one != other
    assert page("<p>12 ms</p>") != page("<p>13 ms</p>")


def test_parquet_counts_as_a_table(tmp_path: Path) -> None:
    """Another compression is the same table; another value, type or note is not."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pyarrow.table({"ns": [1, 2]})
    others = {
        "value": pyarrow.table({"ns": [1, 3]}),
        "type": pyarrow.table({"ns": pyarrow.array([1, 2], pyarrow.int32())}),
        "note": table.replace_schema_metadata({"command": "x"}),
    }
    texts = {}
    for name, content in {"plain": table, **others}.items():
        parquet.write_table(content, tmp_path / f"{name}.parquet")
        texts[name] = as_text(tmp_path / f"{name}.parquet")
    parquet.write_table(table, tmp_path / "packed.parquet", compression="gzip")
    assert as_text(tmp_path / "packed.parquet") == texts["plain"]
    assert len(set(texts.values())) == len(texts)


def test_counts_outputs_and_cases() -> None:
    """An output that only one of them writes differs, too."""
    count = Count()
    assert count.add({"text": "a", "json": "b"}, {"text": "a", "json": "b"}, 12) == []
    said = count.add({"text": "a", "csv": "c"}, {"text": "b", "more": "d"}, 12)
    assert [line for line in said if line.startswith("  ") and line[2] != " "] == ["  csv", "  more", "  text"]
    assert "    only the old one writes it" in said
    assert "    only the new one writes it" in said
    assert str(count) == "5 outputs of 2 cases: 2 equal, 3 differ"


def test_a_case_is_all_that_it_prints_writes_and_ends_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard output and error, exit status or exception of each step, and the files in `out`, not in `scratch`."""
    monkeypatch.chdir(tmp_path)

    def call(words: Sequence[str]) -> int:
        print("says", *words)
        print("oops", file=sys.stderr)
        os.write(1, b"and below\n")
        if words[0] == "raise":
            raise ValueError("no")
        if words[0] == "exit":
            raise SystemExit(2)
        Path("out/file.csv").write_text("1,2\n")
        Path("scratch/file.csv").write_text("3,4\n")
        return 0

    outputs = run((("write",), ("exit",), ("raise", "it")), call, MASKS)
    assert outputs["1: standard output"].splitlines() == ["and below", "says write"]
    assert outputs["1: status and standard error"] == "exit status 0\noops\n"
    assert outputs["2: status and standard error"] == "exit status 2\noops\n"
    assert outputs["3: status and standard error"] == "ValueError: no\noops\n"
    assert outputs["file.csv"] == "1,2\n"
    assert len(outputs) == 7


def test_pairs_are_found_however_deep(tmp_path: Path) -> None:
    """server.* beside client.*, not what else lies there; two folders of one name stay apart."""
    for name in ("a/server.pcap.gz", "a/client.pcap.gz", "a/client.txt", "b/c/server.pcapng", "b/c/client.snoop"):
        for top in ("x/lab", "y/lab"):
            (tmp_path / top / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / top / name).touch()
    (tmp_path / "x/lab/server.pcap").touch()
    inputs = Inputs()
    found = cases.pairs(tmp_path / "x" / "lab", inputs)
    assert found == [
        Pair("lab/a", "lab/a/server.pcap.gz", "lab/a/client.pcap.gz"),
        Pair("lab/b/c", "lab/b/c/server.pcapng", "lab/b/c/client.snoop"),
    ]
    assert [pair.name for pair in cases.pairs(tmp_path / "y" / "lab", inputs)] == ["lab-2/a", "lab-2/b/c"]
    reads = Case("x", (("diff", "lab/a", "lab-2/b/c/server.pcapng"),))
    assert set(inputs.of(reads)) == {"lab/a/client.pcap.gz", "lab/a/server.pcap.gz", "lab-2/b/c/server.pcapng"}


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
def test_two_checkouts_are_compared_and_one_is_kept(tmp_path: Path) -> None:
    """Equal ones exit with 0, a changed word with 1 and its name; what is kept of a commit is not run again."""
    for name in ("old", "new"):
        checkout = tmp_path / name
        (checkout / "nfslat").mkdir(parents=True)
        (checkout / "nfslat" / "__init__.py").write_text("__version__ = '0.1.0'\n")
        (checkout / "nfslat" / "cli.py").write_text("def main(argv):\n    print('slow', *argv)\n    return 0\n")
        for pair in ("a", "b"):
            (checkout / "samples" / pair).mkdir(parents=True)
            for side in ("server", "client"):
                (checkout / "samples" / pair / f"{side}.pcap.gz").write_bytes(gzip.compress(b"packets"))
        (checkout / "tests").mkdir()
        for fixture in cases.FIXTURES:
            (checkout / "tests" / fixture).touch()
    (tmp_path / "old" / ".gitignore").write_text("__pycache__/\n")
    git = ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", str(tmp_path / "old")]
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "old"]):
        subprocess.run([*git, *words], check=True)

    def compare(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(SCRIPT), str(tmp_path / "old"), str(tmp_path / "new"), *words]
        return subprocess.run(
            [*command, "--cases", "samples/?/*", "--kept", str(tmp_path / "kept")],
            capture_output=True,
            text=True,
            check=False,
        )

    equal = compare()
    assert equal.returncode == 0, equal.stderr
    assert equal.stdout.endswith(" equal, 0 differ\n")
    assert "samples/a/report: same\n" in equal.stdout

    (tmp_path / "new" / "nfslat" / "cli.py").write_text("def main(argv):\n    print('quicker', *argv)\n    return 0\n")
    changed = compare("--cases", "samples/a/page")
    assert changed.returncode == 1
    assert "samples/a/page: differs\n" in changed.stdout
    assert "    -slow samples/a/server.pcap.gz" in changed.stdout
    assert "    +quicker samples/a/server.pcap.gz" in changed.stdout
    assert f"{tmp_path / 'old'}: 0 cases" in changed.stderr

    (tmp_path / "new" / "nfslat" / "cli.py").write_text("import missing\n")
    assert compare().returncode == 3
