"""Packets that are held of a time -> captures in a folder, and the report that `nfslat` makes of these."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from nfslat import api
from nfslat.answer.model import Capture, Report
from nfslat.errors import InputError
from nfslat.model.units import iso

MORE = "a larger --ring holds more"


@dataclass(frozen=True)
class Captures:
    """Captures of one time in one folder, by their paths and numbers of packets: the server's and the client's, or that
    of the one host."""

    packets: Mapping[Path, int]
    from_ns: int | None = None  # when the first packet is, where there were earlier ones of that time; client's clock
    is_on_one_clock: bool = True

    @property
    def words(self) -> str:
        """How many packets there are, and which are missing."""
        clocks = "" if self.is_on_one_clock else ", each capture on its own clock"
        missing = "" if self.from_ns is None else f", {held_from(self.from_ns)}"
        return f"{sum(self.packets.values()):,} packets{clocks}{missing}"

    def report(self, *, pictures: bool = False) -> Report:
        """What `nfslat` says of them, run in their folder. Raises ``NfslatError`` as it does, and where a capture has
        no packets."""
        if empty := [path.stem for path, count in self.packets.items() if not count]:
            raise InputError(f"of that time no packet is held ({', '.join(empty)}): {MORE}")
        command = shlex.join(["nfslat", *(path.name for path in self.packets)])
        made = api.run(
            [str(path) for path in self.packets], api.Options(engine="native", in_stretches=True, command=command)
        )
        report = made.figures if pictures else made.summary
        captures = {side: _named_in_folder(capture) for side, capture in report.captures.items()}
        notes = [] if self.from_ns is None else [f"of this time packets are {held_from(self.from_ns)}"]
        return structs.replace(report, captures=captures, notes=[*report.notes, *notes])


def held_from(from_ns: int) -> str:
    """Words on packets of which the first ones are missing."""
    return f"held from {iso(from_ns)[11:19]} UTC on: {MORE}"


def _named_in_folder(capture: Capture) -> Capture:
    files = [structs.replace(file, path=Path(file.path).name) for file in capture.files]
    return structs.replace(capture, path=Path(capture.path).name, files=files)
