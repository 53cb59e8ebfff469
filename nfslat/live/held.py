"""Packets that are held of a time -> captures in a folder, and the report that `nfslat` makes of these."""

from __future__ import annotations

import dataclasses
import shlex
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nfslat import api
from nfslat.answer.model import Capture, Report
from nfslat.errors import NfslatError


@dataclass(frozen=True)
class Captures:
    """Captures of one time, in one folder: the server's and the client's, or that of the one host."""

    paths: tuple[Path, ...]
    words: str  # how many packets they have, and which ones are missing
    are_whole: bool  # every packet of the time was still held

    def report(self, *, pictures: bool = False) -> Report:
        """What `nfslat` says of them, run in their folder. Raises ``NfslatError`` as it does."""
        command = shlex.join(["nfslat", *(path.name for path in self.paths)])
        options = api.Options(engine="native", in_stretches=True, command=command)
        made = api.run([str(path) for path in self.paths], options)
        report = made.figures if pictures else made.summary
        captures = {side: _named_in_folder(capture) for side, capture in report.captures.items()}
        return dataclasses.replace(report, captures=captures)


def report_on_packets(write: Callable[[Path], Captures]) -> Report | None:
    """The report on what `write` writes to a folder that is gone afterwards; None where packets are missing, or where
    `nfslat` makes nothing of them."""
    try:
        with tempfile.TemporaryDirectory(prefix="nfslat-") as folder:
            captures = write(Path(folder))
            return captures.report() if captures.are_whole else None
    except (NfslatError, OSError):
        return None


def _named_in_folder(capture: Capture) -> Capture:
    files = [dataclasses.replace(file, path=Path(file.path).name) for file in capture.files]
    return dataclasses.replace(capture, path=Path(capture.path).name, files=files)
