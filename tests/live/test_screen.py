"""`nfslat live --screen`: what stands on it, and what its keys do."""

from __future__ import annotations

import asyncio
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_captures import pairs_of
from textual.pilot import Pilot
from textual.widgets import Static

from nfslat.cli.main import main
from nfslat.errors import InputError
from nfslat.live.screen import Layers, Screen, slowest_of
from nfslat.live.watch import Stretch

ROOT = Path(__file__).parents[2]
SERVER, CLIENT = (ROOT / "samples" / "server-threads" / f"{side}.pcap.gz" for side in ("server", "client"))


@pytest.fixture(scope="module")
def stretches() -> list[Stretch]:
    """Of the sample, in which calls come to wait for a thread."""
    return [Stretch.of(pair) for pair in pairs_of(SERVER, CLIENT, 2.0)]


Act = Callable[[Screen, Pilot[None]], Any]


def _on(screen: Screen, act: Act, size: tuple[int, int] = (80, 24), rows: int = 0) -> None:
    """With the screen up, and so many rows on it."""

    async def all_of_it() -> None:
        async with screen.run_test(size=size) as pilot:
            for _ in range(200):
                await pilot.pause(0.02)
                if len(screen.rows) >= rows:
                    break
            await act(screen, pilot)

    asyncio.run(all_of_it())


def _text(screen: Screen, name: str) -> str:
    return str(screen.query_one(f"#{name}", Static).render())


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
def test_what_stands_on_it(stretches: list[Stretch], size: tuple[int, int]) -> None:
    """The verdict of the last stretch, lines as without it, what began and ended and when, the slowest operations; a
    column a stretch, as high as its mean."""

    async def look(screen: Screen, pilot: Pilot[None]) -> None:
        await pilot.pause()
        assert "nfs1 and db1" in _text(screen, "title")
        assert "server-threads" in _text(screen, "title")
        assert _text(screen, "answer").startswith("Calls queue in the server for one of its 2 threads")
        lines = _text(screen, "rows").splitlines()
        assert lines[0].split() == "ops/s MB/s client p99 net- wait in".split()
        times = [line.split()[0] for line in lines[2:]]
        assert times == sorted(times, reverse=True)
        assert len(times) == len(stretches)
        assert max(map(len, lines)) <= 80
        began = _text(screen, "began").splitlines()
        assert began[0].endswith(" server-threads")
        assert began[1].endswith(" cannot tell")
        slow = [float(line.split(": ")[1].split()[0]) for line in _text(screen, "slowest").splitlines()]
        assert slow == sorted(slow, reverse=True)
        most = max(int(one.pair.analysis.client_srt_ns.max()) for one in stretches if one.pair.analysis is not None)
        assert slow[0] == pytest.approx(most / 1e6, rel=0.01)
        columns = str(screen.query_one(Layers).render()).splitlines()[1:]
        heights = [sum(line[10 + at : 11 + at].strip() != "" for line in columns) for at in range(len(stretches))]
        means = [one.row.client_ms or 0.0 for one in stretches]
        assert heights[means.index(max(means))] == len(columns)
        assert [height * max(means) / len(columns) for height in heights] == pytest.approx(
            means, abs=max(means) / len(columns)
        )

    _on(Screen(iter(stretches), "nfs1 and db1", str), look, size, len(stretches))


def test_pause_and_write(stretches: list[Stretch]) -> None:
    """Paused, what is shown stands still, and what came meanwhile is there afterwards; a key asks for a report."""
    asked = []

    def write() -> str:
        asked.append(True)
        return "written to out"

    async def act(screen: Screen, pilot: Pilot[None]) -> None:
        await pilot.press("p")
        before = _text(screen, "rows")
        screen.add(stretches[0].row, [])
        await pilot.pause()
        assert _text(screen, "rows") == before
        assert "paused" in _text(screen, "title")
        await pilot.press("space")
        assert len(_text(screen, "rows").splitlines()) == len(before.splitlines()) + 1
        await pilot.press("w")
        await pilot.pause()
        assert asked == [True]
        assert [one.message for one in screen._notifications] == ["the captures have ended", "written to out"]
        await pilot.press("q")

    _on(Screen(iter(stretches), "x", write), act, rows=len(stretches))


def test_a_capture_that_cannot_be_read_ends_it(stretches: list[Stretch]) -> None:
    """What went wrong is kept for whoever started it."""

    def fails() -> Iterator[Stretch]:
        yield stretches[0]
        raise InputError("is damaged")

    async def nothing(screen: Screen, pilot: Pilot[None]) -> None:
        await pilot.pause(0.2)

    screen = Screen(fails(), "x", str)
    _on(screen, nothing, rows=1)
    assert str(screen.failed) == "is damaged"


def test_the_slowest_are_those_of_the_capture(stretches: list[Stretch]) -> None:
    """Three of a stretch, with operation and server SRT."""
    c = stretches[-1].pair.analysis
    assert c is not None
    found = slowest_of(c)
    assert [round(one.client_ms * 1e6) for one in found] == sorted(c.client_srt_ns.tolist(), reverse=True)[:3]
    assert all(one.op in ("READ", "WRITE", "GETATTR") and one.server_ms < one.client_ms for one in found)


def test_without_a_terminal_it_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """In a line, which says what is no terminal."""
    assert main(["live", "--screen", str(SERVER), str(CLIENT)]) == 2
    said = capsys.readouterr().err
    assert said == "nfslat: --screen needs a terminal, and standard input is none; without it there are lines\n"


def test_in_a_terminal() -> None:
    """The whole command, in a terminal of its own: it draws, and ends by a key with status 0 and what there was."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "nfslat", "live", "--screen", "--interval=2", str(SERVER), str(CLIENT)]
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        came = b""
        while b"server-threads" not in came:
            came += os.read(ours, 65536)
        os.write(ours, b"q")
        came = b""
        while True:
            try:
                came += os.read(ours, 65536)
            except OSError:  # it has closed its end
                break
    os.close(ours)
    assert process.returncode == 0
    *_, last = came.split(b"\x1b[?1049l")  # from where on the terminal is as before
    assert re.search(rb"\d stretch(es)?, [\d,]+ operations, 02:07:40 to .* UTC", last)
