"""Work that several threads may do at once, or this one where that takes less time than to start a thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")
_FEW = 1 << 15  # rows


class _Here(Executor):
    def submit(self, work: Callable[..., T], /, *arguments: Any, **named: Any) -> Future[T]:
        done: Future[T] = Future()
        try:
            done.set_result(work(*arguments, **named))
        except BaseException as problem:
            done.set_exception(problem)
        return done


def at_once(threads: int, rows: int) -> Executor:
    """`threads` for work on columns of `rows` rows: numpy and the compiled loops let go of Python's lock meanwhile."""
    return ThreadPoolExecutor(threads) if rows >= _FEW else _Here()
