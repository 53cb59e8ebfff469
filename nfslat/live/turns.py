"""Several clients -> each watched by a thread of its own, one of which runs at a time.

They share what prints, and what a reader waits for comes by itself: so it costs nothing to take turns.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

_LOOK_S = 0.2
_OTHERS_S = 0.001  # in which another one takes its turn


class Over(Exception):
    """Whoever waits for packets waits no longer."""


class Turns:
    """Of one run."""

    def __init__(self) -> None:
        """Nothing runs yet."""
        self._turn = threading.Lock()
        self._is_over = False
        self._failed: list[BaseException] = []

    def wait(self) -> None:
        """Called in a turn, by whoever waits for packets: the turn is another one's meanwhile. Raises `Over`."""
        self._turn.release()
        time.sleep(_OTHERS_S)
        self._turn.acquire()
        if self._is_over:
            raise Over

    def run(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Until all have ended. The first that raises something ends all, and it is raised; so does Ctrl-C."""
        threads = [threading.Thread(target=self._run, args=(one,), daemon=True) for one in tasks]
        try:
            for one in threads:
                one.start()
            while any(one.is_alive() for one in threads) and not self._failed:
                for one in threads:
                    one.join(_LOOK_S)
        finally:
            self._is_over = True
            for one in threads:
                one.join()
        for problem in self._failed:
            raise problem

    def _run(self, task: Callable[[], None]) -> None:
        with self._turn:
            try:
                task()
            except Over:
                pass
            except BaseException as problem:  # is raised where somebody waits for the end
                self._failed.append(problem)
