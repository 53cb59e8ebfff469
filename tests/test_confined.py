"""Programs that take apart what a stranger wrote: what they may take, and what they may not do."""

from __future__ import annotations

import platform
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nfslat import confined
from nfslat.cli import main as cli
from nfslat.confined import Limits
from nfslat.decode.tools import Tools, find_tools
from nfslat.errors import ToolError, UsageError

SAMPLE = Path(__file__).parents[1] / "samples" / "server-threads"


def _holds() -> list[str]:
    """What this machine can keep from a program."""
    try:
        from nfslat._native import confine
    except ImportError:
        return []
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(confine, []).result()


def _linux() -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", platform.release())[:2]))


HOLDS = _holds()
needs_files = pytest.mark.skipif("files" not in HOLDS, reason="not compiled, or a kernel without Landlock")
needs_sockets = pytest.mark.skipif("sockets" not in HOLDS, reason="not compiled, or a kernel without seccomp")


def _sh(script: str, may: Limits) -> subprocess.CompletedProcess[bytes]:
    return confined.run(["sh", "-c", script], may, about="x.pcap")


@needs_files
def test_nothing_is_written_outside_of_the_folder(tmp_path: Path) -> None:
    """Neither a new file, nor into an old one, nor over it, nor away with it; reading goes on, and so do we."""
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir(), outside.mkdir()
    old = outside / "old"
    old.write_text("kept")
    refused = "echo b >out/b; echo b >out/old; rm out/old; mv in/a out/a"
    script = f"cd {tmp_path}; echo a >in/a; cat out/old; echo >/dev/null; {refused}"
    done = _sh(script, Limits(folder=inside))
    assert done.stdout == b"kept"
    assert done.stderr.lower().count(b"denied") == 4
    assert (old.read_text(), [path.name for path in outside.iterdir()]) == ("kept", ["old"])
    assert (inside / "a").read_text() == "a\n"
    (outside / "ours").write_text("")
    nowhere = _sh(f"echo a >{inside}/c", Limits())
    assert nowhere.returncode
    assert not (inside / "c").exists()


@needs_sockets
@pytest.mark.parametrize("family", ["AF_INET", "AF_INET6", "AF_UNIX", "AF_NETLINK"])
def test_no_socket_is_opened(family: str) -> None:
    """Of no family: neither the network, nor a daemon of this machine."""
    script = f"import socket; socket.socket(socket.{family}, socket.SOCK_DGRAM)"
    done = confined.run([sys.executable, "-c", script], Limits())
    assert b"PermissionError" in done.stderr


@needs_files
@pytest.mark.skipif(_linux() < (6, 12), reason="Landlock knows signals from Linux 6.12 on")
def test_no_other_process_is_ended() -> None:
    """A signal to a process of the same user that is not confined."""
    with subprocess.Popen(["sleep", "60"]) as other:
        done = _sh(f"kill {other.pid} || echo refused", Limits())
        assert other.poll() is None
        other.kill()
    assert done.stdout == b"refused\n"


def test_what_is_too_large_for_the_disk_ends_in_a_line(tmp_path: Path) -> None:
    """What a program unpacks does not fill the disk: it is ended where the file reaches the limit."""
    with pytest.raises(ToolError, match=r"does not fit in .*; set TMPDIR"):
        _sh(f"exec head -c 3000000 /dev/zero >{tmp_path}/x", Limits(folder=tmp_path, file=1 << 20))
    assert (tmp_path / "x").stat().st_size <= 1 << 20


def test_memory_has_an_end() -> None:
    """More than it may have is not given, and there is no core file."""
    ask = f"{sys.executable} -c 'import mmap; mmap.mmap(-1, 1 << 30)'"
    assert _sh(ask, Limits(memory=1 << 29)).returncode == 1
    assert _sh(ask, Limits()).returncode == 0
    assert _sh("ulimit -c", Limits()).stdout == b"0\n"


def test_what_dies_of_a_signal_ends_in_a_line() -> None:
    """A dissector that crashes; not what ended because nobody reads it any more."""
    with pytest.raises(ToolError, match=r"sh died of SIGSEGV: .* 4 GiB; NFSLAT_TOOL_GIB"):
        _sh("kill -SEGV $$", Limits(memory=4 << 30))
    assert _sh("kill -PIPE $$", Limits()).returncode == -signal.SIGPIPE


def test_a_limit_that_is_lower_already_stays(tmp_path: Path) -> None:
    """What the user, or a container, has set is not raised, and nothing is said of it."""
    program = """
from nfslat import confined
done = confined.run(["sh", "-c", "ulimit -t; echo on"], confined.Limits(seconds=500, memory=1 << 40))
print(done.returncode, done.stdout, done.stderr)"""
    script = 'ulimit -t 100; exec "$0" -c "$1"'
    done = subprocess.run(["sh", "-c", script, sys.executable, program], capture_output=True, check=True, text=True)
    assert done.stdout == "0 b'100\\non\\n' b''\n"


def test_more_may_be_read_for_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time grows with the file; the environment has the last word, and has to be a number."""
    path = tmp_path / "x"
    path.write_bytes(bytes(2_000_000))
    few, more = confined.limits([]).seconds, confined.limits([path]).seconds
    assert few is not None
    assert more == few + 100
    monkeypatch.setenv("NFSLAT_TOOL_SECONDS", "7")
    monkeypatch.setenv("NFSLAT_TOOL_GIB", "3")
    may = confined.limits([path])
    assert (may.seconds, may.memory) == (7, 3 << 30)
    for wrong in ("x", "0", "-1", "1.5", "1" * 30):
        monkeypatch.setenv("NFSLAT_TOOL_GIB", wrong)
        with pytest.raises(UsageError, match="NFSLAT_TOOL_GIB"):
            confined.limits([path])


def _wrapper(folder: Path, name: str, path: str, script: str) -> None:
    """A program in front of the one at `path`."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f'#!/bin/sh\n{script}\nexec {path} "$@"\n')
    (folder / name).chmod(0o755)


@pytest.mark.parametrize(
    "command", [["show", "--slowest", "1"], pytest.param(["--engine", "tshark"], marks=pytest.mark.long)]
)
def test_a_dissector_that_hangs(
    tools: Tools,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: list[str],
) -> None:
    """The whole command ends with status 3 and a line that says how long it took, and what gives it more."""
    # The client's capture, and what is cut out of it.
    loop = 'case " $* " in *" -r "*client*|*" -r "*/0.pcapng*) while :; do :; done ;; esac'
    _wrapper(tmp_path / "bin", "tshark", tools.tshark, loop)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    monkeypatch.setenv("NFSLAT_TOOL_SECONDS", "1")
    status = cli.main([*command, str(SAMPLE / "server.pcap.gz"), str(SAMPLE / "client.pcap.gz")])
    err = capsys.readouterr().err
    assert (status, err.count("\n")) == (3, 1)
    assert re.search(r"client\.pcap\.gz: tshark was still busy after 1 s of processor time .* NFSLAT_TOOL_SECONDS", err)


@needs_files
def test_tools_that_do_not_run_confined_run_as_they_are(
    tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those of a snap, whose own launcher needs rights; the limits hold all the same."""
    _wrapper(tmp_path / "bin", "capinfos", tools.capinfos, f"echo >>{tmp_path}/launched || exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    (tmp_path / "scratch").mkdir()
    found = find_tools(tmp_path / "scratch")
    assert not found.are_confined
    path = SAMPLE / "server.pcap.gz"
    assert found.run([found.capinfos, "-c", str(path)], path).returncode == 0
    assert tools.are_confined


def test_without_the_compiled_half_there_are_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is said of it, and the program runs."""
    monkeypatch.setitem(sys.modules, "nfslat._native", None)
    done = _sh("ulimit -c", Limits())
    assert (done.returncode, done.stdout, done.stderr) == (0, b"0\n", b"")
