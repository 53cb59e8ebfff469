"""docs/monitoring/nfslat-live.service: what systemd says of it, and that nfslat takes its options."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from nfslat.cli.main import main

SERVICE = Path(__file__).parents[2] / "docs" / "monitoring" / "nfslat-live.service"
_MOST_EXPOSED = 2.0  # of 10


def _installed(tmp_path: Path) -> Path:
    """As if nfslat were there."""
    path = tmp_path / SERVICE.name
    path.write_text(SERVICE.read_text().replace("/usr/bin/nfslat", shutil.which("true") or "/bin/true"))
    return path


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_takes_it(tmp_path: Path) -> None:
    """Without a word; and it confines what it starts."""
    verify = subprocess.run(
        ["systemd-analyze", "verify", str(_installed(tmp_path))], capture_output=True, text=True, check=False
    )
    assert (verify.returncode, verify.stderr) == (0, "")
    security = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", str(_installed(tmp_path))],
        capture_output=True,
        text=True,
        check=False,
    )
    if "unrecognized option" in security.stderr:
        pytest.skip("this systemd does not judge units that are not loaded")
    level = re.search(r"exposure level for .*: ([\d.]+)", security.stdout)
    assert level is not None, security.stderr
    assert float(level[1]) < _MOST_EXPOSED


def test_nfslat_takes_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command line is one: only the host is missing."""
    monkeypatch.chdir(tmp_path)
    (command,) = re.findall(r"^ExecStart=((?:.*\\\n)*.*)$", SERVICE.read_text(), re.MULTILINE)
    words = shlex.split(command.replace("\\\n", " ").replace("/var/lib/nfslat", str(tmp_path)))
    port = words.index("--metrics-port")
    assert main([*words[1:port], *words[port + 2 :], "--ssh=false"]) == 3
    assert "gives no shell; try: ssh ${" in capsys.readouterr().err
