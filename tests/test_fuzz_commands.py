"""Whole commands on mutated captures end in an answer, or in a line that says what to do."""

from __future__ import annotations

from pathlib import Path

import fuzz_commands
import pytest


@pytest.mark.parametrize(
    "seed",
    [*range(8), 146, 1034, 777094, 779244, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(8, 50))],
)
def test_some_commands(tmp_path: Path, seed: int) -> None:
    """No traceback, no warning, no status but the documented ones, and no second line on standard error."""
    assert fuzz_commands.run(fuzz_commands.command(seed, tmp_path)) in (0, 2, 3)


@pytest.mark.long
def test_many_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same of so many that nobody has looked at each."""
    assert fuzz_commands.main(2000, 10_000, tmp_path) == 0, capsys.readouterr().out


def test_what_fails_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An exception and a warning in a stage are failures; they do not end as an answer."""
    arguments = fuzz_commands.command(0, tmp_path)

    def fails(*_: object, **__: object) -> int:
        raise ZeroDivisionError("odd")

    monkeypatch.setattr("nfslat.cli.report.make", fails)
    monkeypatch.setattr("nfslat.cli.transport.make", fails)
    with pytest.raises(fuzz_commands.Finding, match="ZeroDivisionError: odd"):
        fuzz_commands.run(arguments)
    monkeypatch.setattr("nfslat.cli.outputs.run", lambda *_: 9)
    with pytest.raises(fuzz_commands.Finding, match="status 9"):
        fuzz_commands.run(arguments)
