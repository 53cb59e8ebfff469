"""Several clients -> each watched by a thread of its own, one of which runs at a time.

They share what prints, and what a reader waits for comes by itself: so it costs nothing to take turns.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

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
        # No lock of Python's own is waited for, which Ctrl-C may leave locked, and no join, which it may end too soon.
        self._ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def wait(self) -> None:
        """Called in a turn, by whoever waits for packets: the turn is another one's meanwhile. Raises `Over`."""
        self._turn.release()
        time.sleep(_OTHERS_S)
        self._turn.acquire()
        if self._is_over:
            raise Over

    def run(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Until all have ended. The first that raises something ends all, and it is raised; so does Ctrl-C."""
        running = 0
        try:
            for one in tasks:
                threading.Thread(target=self._run, args=(one,), daemon=True).start()
                running += 1
            while running:
                with contextlib.suppress(Empty):
                    problem = self._ended.get(timeout=_LOOK_S)
                    running -= 1
                    if problem is not None:
                        raise problem
        finally:
            self._is_over = True
            while running:
                with contextlib.suppress(Empty):
                    self._ended.get(timeout=_LOOK_S)
                    running -= 1

    def _run(self, task: Callable[[], None]) -> None:
        failed: BaseException | None = None
        with self._turn:
            try:
                task()
            except Over:
                pass
            except BaseException as problem:  # is raised where somebody waits for the end
                failed = problem
        self._ended.put(failed)
