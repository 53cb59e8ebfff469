"""Guests under load, causes that begin and end -> captures that grow, `nfslat live` on them, and what was injected.

A run leaves its captures: the judging is tried again on them without guests (``live_judged``).
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from laboratory import boot, client, live_judged, truth
from laboratory.guest import Guest, Kernel, LabError
from laboratory.scenario import Injected, Scenario

FOLDER = Path(__file__).parent / "watched"
SIDES = ("server", "client")
TRUTH = "truth.json"
_CAPTURED = "/run/captured"  # where a guest has the folder of the results
_LOOK_S = 0.05
_WAITED_S = 0.03  # of that for which a guest waited: the machine was busy
_DISK = "disk.txt"
_AT_MOST = 40  # moments


@dataclass(frozen=True)
class Times:
    """In s."""

    warm: float = 40.0
    lasting: float = 45.0  # of a cause
    between: float = 45.0


# One process each time, and few of them: a guest starts processes slowly.
_COUNTS = f"""
begun=$(date +%s.%N); read -r first _ </proc/uptime; echo $begun $first >/lab/{_DISK}
while sleep 2; do
    read -r now _ </proc/uptime
    while read -r _ _ name reads _ _ read_ms writes _ _ write_ms _; do
        [ "$name" != dm-0 ] || echo $now $((reads + writes)) $((read_ms + write_ms)) >>/lab/{_DISK}
    done </proc/diskstats
done
"""


def watch_command(captures: list[str], interval_s: float, out: Path) -> list[str]:
    """`nfslat live` as it is judged."""
    options = f"--interval {interval_s:g} --when fault --at-most {_AT_MOST}"
    files = ["--out", str(out / "moments"), "--json", str(out / "live.json")]
    return [sys.executable, "-m", "nfslat", "live", *captures, *options.split(), *files]


def record(scenario: Scenario, kernel: Kernel, image: Path, folder: Path, interval_s: float, times: Times) -> None:
    """Leaves both captures, `truth.json` and what `nfslat live` said in `folder`. Raises ``LabError``."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with boot.booted(scenario, kernel, image) as guests:
        boot.serve(scenario, guests)
        boot.mount(scenario, guests)
        for guest in guests.values():
            guest.run("modprobe sch_netem 2>/dev/null || :")
        captures = {name: _capture(scenario, guests[name], folder) for name in SIDES}
        guests["client"].start(client.load_script(scenario.load, seconds=3600))
        with _watched(folder, interval_s) as watching, _Busy(guests) as busy:
            before = truth.clocks(guests["server"], guests["client"])
            guests["server"].start(_COUNTS)
            begun_s = time.time()
            time.sleep(times.warm)
            injected = [_inject(guests, one, times) for one in scenario.inject]
            ended_s = time.time()
            after = truth.clocks(guests["server"], guests["client"])
            time.sleep(interval_s + 4)  # that of the last stretch, and what live waits for
            said = {name: guests[name].finish(number, ended_by=signal.SIGINT).err for name, number in captures.items()}
            time.sleep(2)
            is_watching = watching.poll() is None
        disk = _of_disk((guests["server"].folder / _DISK).read_text())
    found = {
        "scenario": scenario.name,
        "interval_s": interval_s,
        "begin_s": begun_s,
        "end_s": ended_s,
        "clock_before": before,
        "clock_after": after,
        "injected": injected,
        "busy": busy.found,
        "disk": disk,
        "tcpdump": said,
        "is_watching": is_watching,
    }
    (folder / "scenario.toml").write_text(scenario.text)
    (folder / TRUTH).write_text(json.dumps(found, indent=1) + "\n")


def again(folder: Path, interval_s: float) -> list[str]:
    """What `nfslat live` of today says of the captures of a run, in stretches of another length if wanted; lines.

    It leaves that in a folder of its own there.
    """
    out = folder / f"again-{interval_s:g}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    with (out / "live.txt").open("wb") as said:
        command = watch_command([str(folder / f"{name}.pcap") for name in SIDES], interval_s, out)
        subprocess.run(command, stdout=said, stderr=subprocess.STDOUT, check=False)
    return judged(folder, out, interval_s)


def judged(folder: Path, out: Path, interval_s: float) -> list[str]:
    """What was wrong and what was right in what `nfslat live` left in `out`, of the run in `folder`; lines."""
    found = json.loads((folder / TRUTH).read_text()) | {"interval_s": interval_s}
    stretches = live_judged.stretches_of((out / "live.json").read_text())
    ended = (
        [] if out != folder or found["is_watching"] else ["nfslat live ended before the run: what follows is of a part"]
    )
    return ended + list(live_judged.told(found, stretches, live_judged.moments_of(out / "moments")))


def _capture(scenario: Scenario, guest: Guest, folder: Path) -> int:
    """Through hostfs, so that this machine sees the file grow."""
    one = scenario.capture
    guest.run(f"mkdir -p {_CAPTURED}; mount -t hostfs -o {folder.resolve()} hostfs {_CAPTURED}")
    path = f"{_CAPTURED}/{guest.name}.pcap"
    command = (
        f"tcpdump -i {one.interface} -s {one.snaplen} -B {one.buffer_kb} {one.options} -Z root -w {path} port 2049"
    )
    number = guest.start(f"exec {command}")
    guest.run(f"for i in $(seq 200); do test -s {path} && exit; sleep 0.05; done; exit 1")
    return number


@contextmanager
def _watched(folder: Path, interval_s: float) -> Iterator[subprocess.Popen[bytes]]:
    """`nfslat live` on the growing captures."""
    command = watch_command([str(folder / f"{name}.pcap") for name in SIDES], interval_s, folder)
    with (folder / "live.txt").open("wb") as out:
        process = subprocess.Popen([*command, "--follow"], stdout=out, stderr=subprocess.STDOUT)
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(60)
            except subprocess.TimeoutExpired as error:
                process.kill()
                raise LabError("nfslat live did not end") from error


def _of_disk(text: str) -> list[tuple[float, int, int]]:
    """By the server's clock: requests of its disk so far, and the ms that they took."""
    first, *rest = [[float(word) for word in line.split()] for line in text.splitlines()]
    return [(round(first[0] + now - first[1], 2), int(count), int(ms)) for now, count, ms in rest]


def _inject(guests: dict[str, Guest], one: Injected, times: Times) -> dict[str, Any]:
    """Begins and ends it; from when to when each of them took effect, by this machine's clock."""
    begin = _at_once(guests, one.begin)
    time.sleep(times.lasting if one.for_s is None else one.for_s)
    end = _at_once(guests, one.end)
    time.sleep(times.between)
    return {"name": one.name, "right": one.right, "begin": begin, "end": end}


def _at_once(guests: dict[str, Guest], scripts: dict[str, str]) -> tuple[float, float]:
    before_s = time.time()
    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(guests[name].run, script) for name, script in scripts.items()]:
            done.result()
    return before_s, time.time()


@dataclass
class _Busy:
    """Notes when guests waited for a processor of this machine: what is late then is no fault of nfslat's.

    A guest is one thread of this machine's: while it waits, all of it stands still.
    """

    guests: dict[str, Guest]
    found: list[tuple[float, str, float]] = field(default_factory=list)  # until when, which, for how long
    _is_over: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> _Busy:
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _look(self) -> None:
        last = {name: guest.processor_ns()[1] for name, guest in self.guests.items()}
        while not self._is_over.wait(_LOOK_S):
            for name, guest in self.guests.items():
                waited_ns = guest.processor_ns()[1]
                waited_s = (waited_ns - last[name]) / 1e9
                last[name] = waited_ns
                if waited_s >= _WAITED_S:
                    self.found.append((round(time.time(), 3), name, round(waited_s, 3)))
