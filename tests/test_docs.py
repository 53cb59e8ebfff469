"""The documents say what the program does: options, states, output and links are held against it."""

from __future__ import annotations

import json
import pkgutil
import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from nfslat.cli import main as cli
from nfslat.decode.tools import MINIMUM
from nfslat.model.tables import Miss, State

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
USE = (ROOT / "docs" / "use.md").read_text()
METHOD = (ROOT / "docs" / "method.md").read_text()


def _options(parser: object) -> set[str]:
    return {
        name
        for action in parser._actions  # type: ignore[attr-defined]
        for name in action.option_strings
        if name not in ("-h", "--help", "--version", "--quiet")
    }


@pytest.mark.parametrize("text", [README, USE], ids=["README.md", "use.md"])
def test_documents_name_no_option_that_is_not_there(text: str) -> None:
    """Options that README and docs/use.md name are those of nfslat or of its commands."""
    parsers = map(cli.parser_of, (cli.REPORT, *cli.COMMANDS))
    known = set().union(*map(_options, parsers))
    shown = re.findall(r"^    nfslat .*|`[^`\n]+`", re.sub(r"pip install.*", "", text), re.MULTILINE)
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", " ".join(shown))) - known == set()


@pytest.mark.usefixtures("engine")
def test_readme_shows_real_output(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The first command of the README prints the lines that the README shows."""
    monkeypatch.chdir(ROOT)
    command = next(line.strip() for line in README.splitlines() if line.startswith("    scripts/nfslat "))
    assert cli.main(shlex.split(command)[1:]) == 0
    shown = README.split("```")[1].strip("\n")
    assert capsys.readouterr().out.startswith(shown)


def test_readme_first_screen_has_the_two_commands() -> None:
    """Both set-up commands stand in the first 25 lines, and they exist."""
    first = README.splitlines()[:25]
    for script in ("scripts/nfslat", "scripts/test"):
        assert any(line.strip().startswith(script) for line in first)
        assert (ROOT / script).stat().st_mode & 0o111


@pytest.mark.parametrize("path", sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("samples/**/*.md")]))
def test_links_lead_to_files(path: Path) -> None:
    """Every relative link of every document leads to a file, and one to a section to a heading that is there."""
    for target, _, section in re.findall(r"\]\(([^)#]*)(#([^)]+))?\)", path.read_text()):
        if "://" not in target:
            file = path.parent / target if target else path
            assert file.exists(), f"{path.name}: {target}"
            assert not section or section in _sections(file), f"{path.name}: {target}#{section}"


@cache
def _sections(path: Path) -> set[str]:
    """Names of a document's headings in links, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", path.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _prose(path: Path) -> str:
    """A document; of a program its comments and docstrings."""
    text = path.read_text()
    # No tokens: to make them of all programs takes as long as a hundred tests.
    return "\n".join(_WORDS.findall(text)) if path.suffix == ".py" else text


_WORDS = re.compile(r'#.*|"""[\s\S]*?"""')


@cache
def _is_there(name: str) -> bool:
    """A path below the root, a module, or what is in a module; schemas and captures are passed over."""
    if name.startswith("nfslat/"):
        return (ROOT / name).exists()
    # Where there is no Rust there is no `_native`.
    if not re.search(r"/\d$|\.(?:pcap|bash|1)$|^nfslat\._native", name):
        try:
            pkgutil.resolve_name(name)
        except (ImportError, AttributeError):
            return False
    return True


@pytest.mark.parametrize(
    "pattern", ["*.md", "docs/*.md", "nfslat/**/*.py", "tests/**/*.py", "scripts/**/*.py", "native/src/**/*.rs"]
)
def test_modules_that_are_named_are_there(pattern: str) -> None:
    """Documents, comments and docstrings name modules, and what is in them, as they are called now."""
    named = {
        (str(path.relative_to(ROOT)), found.rstrip("."))
        for path in ROOT.glob(pattern)
        for found in re.findall(r"(?<![\w/.])nfslat[./][a-z_][\w./]*", _prose(path))
    }
    assert {(path, name) for path, name in named if not _is_there(name)} == set()


def test_method_names_every_state_and_miss() -> None:
    """The tables of states and of reasons in the method are complete and name nothing else."""
    assert set(re.findall(r"`([A-Z_]{5,})`", METHOD)) == {
        *(state.name for state in State),
        *(miss.name for miss in Miss if miss is not Miss.MATCHED),
    }


def test_readme_names_the_oldest_tshark() -> None:
    """The README and the code agree on the oldest Wireshark."""
    assert f"command-line tools {MINIMUM[0]}.{MINIMUM[1]} or newer" in " ".join(README.split())


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("sample", sorted(path.parent.name for path in ROOT.glob("samples/*/server.pcap.gz")))
def test_commands_of_the_samples_give_the_right_layer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, sample: str
) -> None:
    """Each sample's README has a command, and its answer names the layer that the README says is right."""
    monkeypatch.chdir(ROOT)
    text = (ROOT / "samples" / sample / "README.md").read_text()
    command = re.search(r"^    scripts/nfslat ((?:.*\\\n)*.*)", text, re.MULTILINE)
    layer = re.search(r"\*\*Right answer: the (\w+)", text)
    assert command is not None
    assert layer is not None
    assert cli.main([*shlex.split(command[1].replace("\\\n", " ")), "--json", "-"]) == 0
    verdict = json.loads(capsys.readouterr().out)["verdict"]
    assert (verdict["outcome"], verdict["layer"]) == ("fault", layer[1])
    if sample == "packet-loss":  # its README says that only the slowest 1 % are the network's
        assert verdict["share"] < 0.1
        assert verdict["share_slowest"] > 0.5
