"""Help, man page and shell completion say what the parsers say."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

import pytest
from commands import BY

from nfslat.cli import main as cli
from nfslat.cli.help import SHELLS

ROOT = Path(__file__).parents[1]
SHELL = ROOT / "nfslat" / "cli" / "shell"
_OPTIONS = sorted(name for name in cli.parser_of(cli.REPORT).options() if name.startswith("--"))


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    """scripts/generate as a module."""
    for needed in ("shtab", "argparse_manpage"):
        pytest.importorskip(needed)
    path = str(ROOT / "scripts" / "generate")
    spec = importlib.util.spec_from_loader("generate", SourceFileLoader("generate", path))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as end:
        cli.main(list(arguments))
    assert end.value.code == 0
    return capsys.readouterr().out


def test_help_is_one_screen_with_everything(capsys: pytest.CaptureFixture[str]) -> None:
    """--help fits 40 lines of 80 columns, begins with examples, and names each option and each command."""
    text = _printed(capsys, "--help")
    assert len(text.splitlines()) <= 40
    assert max(map(len, text.splitlines())) <= 80
    assert {option for option in _OPTIONS if f"{option} " not in text.replace("\n", " ")} == set()
    assert set(cli.COMMANDS) <= set(text.split("\ncommands")[1].split("\n\n")[0].split())
    assert text.index("examples:") < text.index("--engine")
    assert "man nfslat" not in text  # which works where a package was installed, and not in a checkout


def test_help_all_has_a_sentence_for_each_option(capsys: pytest.CaptureFixture[str]) -> None:
    """--help-all names each option, and each has a help text."""
    text = _printed(capsys, "--help-all")
    assert {option for option in _OPTIONS if option not in text} == set()
    assert all(action.help for action in cli.parser_of(cli.REPORT)._actions)


def test_what_is_generated_is_up_to_date(generator: ModuleType) -> None:
    """Each file that scripts/generate writes is what it would write now; where usage lines of the man page end is
    another matter, which argparse of each Python settles anew."""

    def text_of(file: str, text: str) -> str:
        return " ".join(text.split()) if file.endswith(".1") else text

    files = generator.FILES
    stale = [one for one in files if text_of(one, (ROOT / one).read_text()) != text_of(one, generator.generated(one))]
    assert stale == [], "run scripts/generate"


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_is_printed(capsys: pytest.CaptureFixture[str], shell: str) -> None:
    """--completion prints the script that is part of the package."""
    assert _printed(capsys, "--completion", shell) == (SHELL / SHELLS[shell]).read_text()


# $1: the script, $2: the line, behind which Tab is pressed on a terminal of zsh's own; a file takes the words.
_ZSH = r"""
offered=$(mktemp)
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "offered=$offered; autoload -Uz compinit; compinit -D; eval \"\$(<$1)\""
zpty -w shell 'compadd() { local -a some; builtin compadd -O some "$@"; print -rl -- $some >>$offered'
zpty -w shell 'builtin compadd "$@" }'
zpty -w shell 'tab() { zle complete-word; print that is all >>$offered }; zle -N tab; bindkey "^I" tab; print READ""Y'
zpty -r -m shell before '*READY*'
zpty -n -w shell "$2"$'\t'
until grep -qx 'that is all' $offered; do sleep 0.1; done
grep -vx 'that is all' $offered
rm $offered
"""
_OFFERS = {
    "bash": [
        "bash",
        "-c",
        'source $1; COMP_WORDS=($2 ""); [ "${2% }" != "$2" ] || unset "COMP_WORDS[-1]"; '
        'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _shtab_nfslat 2>/dev/null; printf "%s\\n" "${COMPREPLY[@]}"',
        "bash",
    ],
    "zsh": ["zsh", "-f", "-c", _ZSH, "zsh"],
    "fish": ["fish", "--no-config", "-c", "source $argv[1]; complete -C $argv[2]"],
}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("tr", {"transport"}),
        ("server.pcap ", {"server.pcap"}),
        ("", {"show", "server.pcap"}),
        ("show --xi", {"--xid"}),
        ("show ser", {"server.pcap"}),
        ("--by ", set(BY)),
        ("--by size ser", {"server.pcap"}),
        ("--html ser", {"server.pcap"}),
        ("server.pcap server.pcap --perf", {"--perfetto"}),
    ],
)
def test_a_shell_completes(tmp_path: Path, shell: str, line: str, some: set[str]) -> None:
    """Each shell offers commands and files where captures stand, options, and their values."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    (tmp_path / "server.pcap").touch()
    command = [*_OFFERS[shell], str(SHELL / SHELLS[shell]), f"nfslat {line}"]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    assert some <= set(found.stdout.split())


@pytest.mark.skipif(shutil.which("fish") is None, reason="there is no fish")
@pytest.mark.parametrize("command", ["", *cli.COMMANDS])
def test_fish_knows_each_option_of_each_command(command: str) -> None:
    """All of those that help shows, and no others."""
    wanted = {name for name in cli.parser_of(command or cli.REPORT).options() if name.startswith("--")}
    script = f"source {SHELL / 'nfslat.fish'}; complete -C 'nfslat {command} --'"
    found = subprocess.run(["fish", "-N", "-c", script], capture_output=True, text=True, check=True)
    assert {line.split("\t")[0] for line in found.stdout.splitlines()} == wanted


@pytest.mark.skipif(shutil.which("groff") is None, reason="there is no groff")
def test_the_man_page_is_one() -> None:
    """groff reads the page without a complaint, and it names each command."""
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", str(SHELL / "nfslat.1")], capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    text = " ".join(re.sub(r"\x1b\[\d*m|.\x08", "", done.stdout).split())
    assert all(f"nfslat {name}" in text for name in cli.COMMANDS)
