"""On a terminal: a progress bar on standard error and a little colour; neither where they would do harm."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from functools import cache
from pathlib import Path

import pytest

SAMPLE = Path(__file__).parents[1] / "samples" / "slow-network"
COMMAND = [sys.executable, "-m", "nfslat", str(SAMPLE / "server.pcap.gz"), str(SAMPLE / "client.pcap.gz")]


@cache  # what is printed of the samples is the same each time
def _on_a_terminal(*options: str, out: bool, err: bool, **environment: str) -> tuple[str, str]:
    """Run with standard output and error each on a terminal of 80 columns or on a pipe; what they received."""
    pipes = {}
    for name, is_terminal in (("stdout", out), ("stderr", err)):
        if is_terminal:
            try:
                ours, theirs = pty.openpty()
            except OSError as problem:  # a container without /dev/pts
                pytest.skip(f"no terminal to be had here: {problem}")
            fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        else:
            ours, theirs = os.pipe()
        pipes[name] = ours, theirs
    env = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
    process = subprocess.Popen(
        [*COMMAND, *options],
        stdin=subprocess.DEVNULL,
        stdout=pipes["stdout"][1],
        stderr=pipes["stderr"][1],
        env=env | {"TERM": "xterm"} | environment,
    )
    texts = []
    for ours, theirs in pipes.values():
        os.close(theirs)
        data = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # how Linux says that the other end of a terminal is closed
                break
            if not chunk:
                break
            data += chunk
        os.close(ours)
        texts.append(data.decode())
    assert process.wait() == 0
    return texts[0], texts[1]


def test_a_progress_bar_on_a_terminal_and_none_with_quiet(engine: str) -> None:
    """Standard error shows how far the reading is, in per cent; ``-q`` keeps it empty."""
    _, err = _on_a_terminal("--engine", engine, out=False, err=True)
    assert "reading" in err
    assert re.search(r"\d+%", err)
    assert _on_a_terminal("--engine", engine, "-q", out=False, err=True)[1] == ""


@pytest.mark.parametrize(
    "environment", [{"NO_COLOR": "1"}, pytest.param({"TERM": "dumb"}, marks=pytest.mark.long)], ids=str
)
def test_colour_only_where_it_is_wanted(environment: dict[str, str]) -> None:
    """A terminal gets colour, NO_COLOR and TERM=dumb take it away, and the words are the same."""
    plain, err = _on_a_terminal(out=False, err=False)
    assert err == ""
    coloured, _ = _on_a_terminal(out=True, err=False)
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured).replace("\r\n", "\n") == plain
    bare, _ = _on_a_terminal(out=True, err=False, **environment)
    assert bare.replace("\r\n", "\n") == plain
