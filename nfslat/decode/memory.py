"""Captures that are read all at once -> does memory bear it? It is asked while they are read, for files do not tell how
many operations are in them."""

from __future__ import annotations

import time
from collections.abc import Callable

from nfslat.errors import InputError
from nfslat.kernels.memory import available_memory, container_memory, resident_memory

_REST_OF_RUN_SHARE = 0.5  # of what was decoded takes the rest of a run besides
_LOOK_S = 0.5


def while_memory_lasts(progress: Callable[[int], None], advice: str) -> Callable[[int], None]:
    """`progress` of reading captures all at once, which raises ``InputError`` with `advice` where what was decoded so
    far leaves too little memory for the rest of the run: better than to be killed without a word."""
    before, looked_s = resident_memory(), time.monotonic()

    def checked(amount: int) -> None:
        nonlocal looked_s
        progress(amount)
        if time.monotonic() < looked_s + _LOOK_S:
            return
        looked_s, now = time.monotonic(), resident_memory()
        free = min(available_memory(), container_memory() - now)
        if _REST_OF_RUN_SHARE * (now - before) > free:
            raise InputError(
                f"memory is short: operations take {(now - before) / 1e9:,.1f} GB so far, and {free / 1e9:,.1f} GB is "
                f"free; {advice}"
            )

    return checked
