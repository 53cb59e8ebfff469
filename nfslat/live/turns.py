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
_END_S = 10.0  # until one that judges has done so
_TURN_S = 0.001  # in which another one takes its turn


class Over(Exception):
    """Whoever waits for packets waits no longer."""


class Turns:
    """Whose turn it is among the threads of a run."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._is_over = False
        # No lock of Python's own is waited for, which Ctrl-C may leave locked, and no join, which it may end too soon.
        self._ended: SimpleQueue[BaseException | None] = SimpleQueue()

    def wait(self) -> None:
        """Called in a turn, by whoever waits for packets: the turn is another one's meanwhile. Raises `Over`."""
        self._turn.release()
        time.sleep(_TURN_S)
        self._turn.acquire()
        if self._is_over:
            raise Over

    def run(self, tasks: Sequence[Callable[[], None]]) -> None:
        """Until all have ended. The first that raises something ends all, and it is raised; so does Ctrl-C."""
        running = 0
        try:
            for task in tasks:
                threading.Thread(target=self._run, args=(task,), daemon=True).start()
                running += 1
            while running:
                with contextlib.suppress(Empty):
                    problem = self._ended.get(timeout=_LOOK_S)
                    running -= 1
                    if problem is not None:
                        raise problem
        finally:
            self._is_over = True
            for _ in range(running):
                with contextlib.suppress(Empty):
                    self._ended.get(timeout=_END_S)

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
