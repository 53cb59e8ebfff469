"""What began -> a command of the user's, which gets it as JSON on its standard input and never holds anything up."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from queue import Empty, SimpleQueue
from threading import Thread

_MOST_S = 60.0
_MOST_AT_ONCE = 4
_STANDARD_ERROR = 2


class Command:
    """Runs it in the user's shell, for each event once; what it prints goes to standard error."""

    def __init__(self, command: str, most_s: float = _MOST_S) -> None:
        """After `most_s` it is ended."""
        self._command, self._most_s = command, most_s
        self._said: SimpleQueue[str] = SimpleQueue()
        self._threads: list[Thread] = []

    def tell(self, text: str) -> None:
        """Returns at once."""
        self._threads = [one for one in self._threads if one.is_alive()]
        if len(self._threads) >= _MOST_AT_ONCE:
            self._said.put(f"--exec: not run: {_MOST_AT_ONCE} of it are running")
            return
        thread = Thread(target=self._run, args=(text,), daemon=True)
        thread.start()
        self._threads.append(thread)

    def said(self) -> Iterator[str]:
        """What became of those that ended since this was asked for last."""
        while True:
            try:
                yield self._said.get_nowait()
            except Empty:
                return

    def end(self) -> None:
        """Those that run are waited for, as long as they may take."""
        for one in self._threads:
            one.join(self._most_s + 1)

    def _run(self, text: str) -> None:
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
                    self._said.put(f"--exec: ended after {self._most_s:g} s without an answer")
                    return
        except OSError as problem:
            self._said.put(f"--exec: {problem.strerror}")
            return
        self._said.put(f"--exec: exit status {process.returncode}")
