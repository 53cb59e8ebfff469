"""The name of an Oracle wait event -> whether it reads or writes files, and whether the wait is the time of the I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class FileEvent(NamedTuple):
    """A wait event that is file I/O (Oracle Database Reference, appendix "Oracle Wait Events")."""

    op: str  # "READ" or "WRITE"
    # False: the session waits for I/Os that it gave out before, and not for all of each: the mean wait is not the mean
    # time of an I/O ("direct path read": "the data is asynchronously read"; "db file parallel write": DBWR waits until
    # some of the writes are complete).
    blocking: bool


FILE_EVENTS: Mapping[str, FileEvent] = {
    "db file sequential read": FileEvent("READ", True),
    "db file scattered read": FileEvent("READ", True),
    "db file parallel read": FileEvent("READ", True),  # several reads at once, waited for together
    "db file single write": FileEvent("WRITE", True),
    "db file parallel write": FileEvent("WRITE", False),
    "direct path read": FileEvent("READ", False),
    "direct path read temp": FileEvent("READ", False),
    "direct path write": FileEvent("WRITE", False),
    "direct path write temp": FileEvent("WRITE", False),
    "log file sequential read": FileEvent("READ", True),
    "log file single write": FileEvent("WRITE", True),
    "log file parallel write": FileEvent("WRITE", True),  # LGWR waits until all of them are written
    "control file sequential read": FileEvent("READ", True),
    "control file single write": FileEvent("WRITE", True),
    "control file parallel write": FileEvent("WRITE", True),
}
# A report has columns of 26 characters and more, and cuts longer names.
_CUT = 24


def file_event(name: str) -> FileEvent | None:
    """What `name` does, also where a report has cut the name; None where it is not the read or write of a file.

    "Disk file operations I/O" (open, close, resize) is none: it moves no data.
    """
    name = " ".join(name.split())
    if name in FILE_EVENTS:
        return FILE_EVENTS[name]
    if len(name) < _CUT:
        return None
    longer = {event for full, event in FILE_EVENTS.items() if full.startswith(name)}
    return longer.pop() if len(longer) == 1 else None
