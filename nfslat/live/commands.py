"""What began -> a command of the user's, which gets it as JSON on its standard input and never holds anything up."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from queue import SimpleQueue
from threading import Thread

_MOST_SECONDS = 60.0
_MOST_RUNNING = 4
_STANDARD_ERROR = 2


class Command:
    """Runs it in the user's shell, for each event once; what it prints goes to standard error."""

    def __init__(self, command: str, most_s: float = _MOST_SECONDS) -> None:
        """After `most_s` it is ended."""
        self._command, self._most_s = command, most_s
        self._lines: SimpleQueue[str] = SimpleQueue()
        self._threads: list[Thread] = []

    def run(self, text: str) -> None:
        """Run it with this on its standard input; returns at once."""
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if len(self._threads) >= _MOST_RUNNING:
            self._lines.put(f"--exec: not run: {_MOST_RUNNING} of it are running")
            return
        self._threads.append(Thread(target=lambda: self._lines.put(self._ran(text)), daemon=True))
        self._threads[-1].start()

    def lines(self) -> Iterator[str]:
        """What became of those that ended since this was asked for last."""
        while not self._lines.empty():
            yield self._lines.get()

    def end(self) -> None:
        """Wait for those that run, as long as they may take."""
        for thread in self._threads:
            thread.join(self._most_s + 1)

    def _ran(self, text: str) -> str:
        try:
            with subprocess.Popen(
                ["/bin/sh", "-c", self._command],  # as the user gave it: data go to its standard input only
                stdin=subprocess.PIPE,
                stdout=_STANDARD_ERROR,
                text=True,
                start_new_session=True,
            ) as process:
                try:
                    process.communicate(text, timeout=self._most_s)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.communicate()
                    return f"--exec: ended after {self._most_s:g} s without an answer"
        except OSError as problem:
            return f"--exec: {problem.strerror}"
        return f"--exec: exit status {process.returncode}"
