"""Memory that was freed -> back to the system, of which glibc keeps what lies between other things."""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """Where much was freed and much more will be asked for; elsewhere than with glibc nothing happens."""
    if sys.platform == "linux" and (trim := getattr(ctypes.CDLL(None), "malloc_trim", None)):
        trim(0)
