"""What new users get wrong: each mistake ends with one line, which has the true reason and what to do instead."""

from __future__ import annotations

import gzip
from collections import defaultdict
from pathlib import Path

import pytest

from nfslat.cli import main as cli

SAMPLE = Path(__file__).parents[1] / "samples" / "server-threads"
SERVER, CLIENT = (str(SAMPLE / f"{side}.pcap.gz") for side in ("server", "client"))
BOTH = [SERVER, CLIENT]
SNAPSHOT = "# nfslat snapshot 1\n#### nfslat: host\nsystem: Linux\nhostname: nfs1\n"


@pytest.fixture(autouse=True)
def _where_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The files that are given by mistake."""
    packed = Path(SERVER).read_bytes()
    (tmp_path / "cut.pcap.gz").write_bytes(packed[:20])
    (tmp_path / "cut.pcap").write_bytes(gzip.decompress(packed)[:20])
    (tmp_path / "copy.pcap").write_bytes(gzip.decompress(packed))
    (tmp_path / "empty.pcap").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "notes.txt").write_text("the server is slow\n")
    (tmp_path / "printed.txt").write_text("12:00:01.000000 IP 10.0.0.1.2049 > 10.0.0.2.700: Flags [.], length 0\n")
    (tmp_path / "snapshot.txt").write_text(SNAPSHOT)
    (tmp_path / "report.json").write_text('{\n  "schema": "nfslat.report/2"\n}\n')
    (tmp_path / "ops.csv").write_text("xid,program,version,op,client\n0x1,NFS,3,READ,10.0.0.2\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ([], 2, "nfslat server.pcap client.pcap (see nfslat --help)"),
        ([*BOTH, "third.pcap"], 2, "3 captures, third.pcap is one too many"),
        (["show", *BOTH, "third.pcap", "--slowest", "1"], 2, "nfslat compares two"),
        (["transport", *BOTH, "third.pcap"], 2, "3 captures: give one, or one from each end"),
        ([SERVER, SERVER], 3, "is given twice"),
        ([SERVER, "copy.pcap"], 3, "one capture given twice; give the one taken on the server"),
        (["trasport", SERVER], 2, "did you mean transport?"),
        (["report", *BOTH], 2, "report is neither a command nor a file; nfslat SERVER CLIENT makes the report"),
        (["-q", "show", *BOTH], 2, "commands stand first: nfslat show ..."),
        ([*BOTH, "--htlm", "x.html"], 2, "no option --htlm; did you mean --html?"),
        (["show", *BOTH, "--slwest", "3"], 2, "did you mean --slowest? (see nfslat show --help)"),
        (["transport", SERVER, "--perfetto", "x.json"], 2, "it is one of nfslat"),
        ([*BOTH, "--html"], 2, "--html needs a value: --html FILE"),
        (["diff", "--before", "a.pcap"], 2, "--before needs two values: --before SERVER CLIENT"),
        ([*BOTH, "--op", "RAED"], 2, "did you mean READ?"),
        ([*BOTH, "--by", "clients"], 2, "did you mean client?"),
        ([*BOTH, "--engine", "wireshark"], 2, "--engine wireshark: not one of native, tshark"),
        ([*BOTH, "--start", "yesterday"], 2, "give seconds after the first packet (12.5, 2m) or 2026-01-31T12:00:05Z"),
        ([*BOTH, "--start", "5", "--end", "4"], 2, "not before"),
        ([*BOTH, "--start", "99999"], 3, "no op is left by the filters (--start 99999); run without them"),
        ([*BOTH, "--app-ms", "50min"], 2, "give milliseconds (58"),
        (["stack", "--app-ms", "50min"], 2, "give milliseconds, for example 58"),
        (["stack", "figures.txt"], 2, "nfslat stack takes options only"),
        (["stack", "--client-ms", "1", "--server-ms", "2"], 2, "is more than --client-ms 1, which contains it"),
        ([*BOTH, "--client-addr", "nfsclient"], 2, "not an IP address; names are not resolved"),
        ([*BOTH, "--interval", "1d"], 2, "give seconds, for example 1 or 0.1, or a time with its unit"),
        ([*BOTH, "--json", "notes.txt"], 2, "name another file, or say --overwrite"),
        ([*BOTH, "--json", "no/folder.json"], 3, "no/folder.json: cannot be written"),
        (["missing.pcap", CLIENT], 3, "missing.pcap: no such file"),
        (["missing*.pcap", CLIENT], 3, "no file matches; check the pattern"),
        (["folder", CLIENT], 3, "is a directory; name the capture files in it"),
        (["empty.pcap", CLIENT], 3, "the file is empty; was the capture stopped"),
        (["cut.pcap.gz", CLIENT], 3, "the compressed data end too early; is the file complete?"),
        (["cut.pcap", CLIENT], 3, "the file ends in it; is the file complete?"),
        (["notes.txt", CLIENT], 3, "a text, not a capture; give the file that tcpdump -w wrote"),
        (["printed.txt", CLIENT], 3, "write these with tcpdump -w FILE"),
        (["snapshot.txt", CLIENT], 3, "a snapshot, not a capture; give it with --server-snapshot"),
        (["report.json", CLIENT], 3, "nfslat diff compares two reports"),
        (["ops.csv", CLIENT], 3, "nfslat diff compares two such files"),
        ([*BOTH, "--server-snapshot", "notes.txt"], 3, "is not a snapshot: give what scripts/snapshot.sh prints"),
        (["--server-snapshot", *BOTH], 3, "give what scripts/snapshot.sh prints"),
        (["folder"], 3, "holds no capture named server.* or client.*"),
        (["show", *BOTH], 2, "(see nfslat show --help)"),
        (["show", *BOTH, "--xid", "0x1"], 3, "XIDs stand in the file that --csv writes"),
        (["diff", "report.json"], 2, "diff compares two runs, 1 given"),
        (["diff", *BOTH], 3, "--before SERVER CLIENT"),
        (["tune", SERVER], 3, "is not a text: give what scripts/snapshot.sh prints"),
        (["capture"], 2, "say --server HOST and --client HOST, or one of them"),
    ],
    ids=lambda value: " ".join(Path(word).name for word in value) if isinstance(value, list) else "",
)
def test_a_mistake_is_told_in_a_line(
    capsys: pytest.CaptureFixture[str], words: list[str], status: int, said: str
) -> None:
    """Exit status, an empty standard output, and one line with the reason and the way out."""
    got = cli.main(words)
    out, err = capsys.readouterr()
    assert (got, out) == (status, "")
    assert err.startswith("nfslat: ")
    assert err.count("\n") == 1
    assert said in err


def test_lists_have_commas_or_are_repeated(tmp_path: Path) -> None:
    """What takes several values takes them in both ways; a file with a comma in its name is one."""
    (tmp_path / "a,b.txt").touch()
    for words in (["--evidence", "old.txt,new.txt"], ["--evidence", "old.txt", "--evidence=new.txt"]):
        asked = cli.parser_of("nfslat").parse([*BOTH, *words, "--by", "size,file", "--evidence", "a,b.txt"])
        assert (asked.evidence, asked.by) == (["old.txt", "new.txt", "a,b.txt"], ["size", "file"])
    for name, more in (("show", []), ("extract", ["--out", "x.pcapng"])):
        assert cli.parser_of(name).parse([*BOTH, *more, "--xid", "0x10,18", "--xid", "17"]).xid == [16, 18, 17]


@pytest.mark.parametrize(
    ("text", "seconds"), [("2", 2.0), ("0.1", 0.1), ("50ms", 0.05), ("100ms", 0.1), ("1.5m", 90.0), ("1h", 3600.0)]
)
def test_a_time_has_a_unit_or_that_of_its_option(text: str, seconds: float) -> None:
    """In every option that takes one: seconds, or what the name of the option says."""
    assert cli.parser_of("nfslat").parse([*BOTH, "--interval", text]).interval_s == seconds
    assert cli.parser_of("live").parse([*BOTH, "--keep", text, "--interval", text]).keep == seconds
    unit = text if text[-1].isalpha() else f"{text}s"
    assert cli.parser_of("stack").parse(["--app-ms", unit]).app_ms == seconds * 1000
    assert cli.parser_of("stack").parse(["--app-ms", "58"]).app_ms == 58.0


def test_a_folder_with_both_captures_is_a_run(capsys: pytest.CaptureFixture[str]) -> None:
    """`nfslat DIR` says what it says of the two captures in it, as `nfslat diff` takes it."""
    said = []
    for words in ([str(SAMPLE)], BOTH):
        assert cli.main(words) == 0
        said.append(capsys.readouterr().out.rpartition("\n\n")[0])
    assert said[0] == said[1]


def test_help_is_a_word_too(capsys: pytest.CaptureFixture[str]) -> None:
    """`nfslat help` and `nfslat help COMMAND` print what --help prints."""
    said = []
    for words in (["help"], ["--help"], ["help", "stack"], ["stack", "--help"]):
        with pytest.raises(SystemExit) as end:
            cli.main(words)
        assert end.value.code == 0
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]
    assert said[2] == said[3] != said[0]


# --- One word, one meaning --------------------------------------------------------------------------------------------

# What the same option may take in two ways: a figure of its own operation, or one for all.
_ALIKE = ({"MS", "[OP=]MS"}, {"FILE", "DIR"})


def test_an_option_takes_the_same_in_every_command() -> None:
    """A word that two commands know asks for the same kind of value in both."""
    values: dict[str, set[str]] = defaultdict(set)
    for parser in map(cli.parser_of, (cli.REPORT, *cli.COMMANDS)):
        for action in parser._actions:
            if action.help != "==SUPPRESS==":
                for option in action.option_strings:
                    values[option].add(str(action.metavar or action.choices or "").partition("[,")[0])
    assert {option: kinds for option, kinds in values.items() if len(kinds) > 1 and kinds not in _ALIKE} == {}
