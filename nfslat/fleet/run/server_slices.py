"""A server's capture that is too large for one task -> tasks that decode it in slices, each when it is possible."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

from nfslat.fleet.run import sliced
from nfslat.fleet.run.points import Point
from nfslat.fleet.run.pool import Pool
from nfslat.fleet.run.shards import Decode
from nfslat.fleet.run.sliced import PlaceDone, SplitDone
from nfslat.fleet.run.store import Store

_PRIORITY = 10  # everything waits for it


@dataclass
class InSlices:
    """`done` gets what `nfslat.fleet.run.shards.decode_point` gives, or `failed` why there is nothing."""

    pool: Pool
    store: Store
    server: Point
    done: Callable[[Decode], None]
    failed: Callable[[str], None]
    problem: Callable[[str, str, str], object]  # what, why, and what the report lacks for it
    step: Callable[[str], None]
    captured: Collection[str] | None = None  # see `nfslat.fleet.run.shards.decode_point`
    _since_ns: int = 0
    _splits: dict[int, SplitDone] = field(default_factory=dict)
    _places: dict[int, PlaceDone] = field(default_factory=dict)
    _left: int = 0  # tasks that split and are not done

    def begin(self) -> None:
        """Submit the first task."""
        self._parts = sliced.groups(self.server.files)
        self._count = sliced.slices(self.server.files)
        self._submit(self._begins, self.failed, sliced.begins_ns, self.server.files)

    def _submit(
        self, done: Callable[[Any], None], failed: Callable[[str], None], function: Callable[..., Any], *given: Any
    ) -> None:
        self.pool.submit(done, failed, function, *given, priority=_PRIORITY)

    def _begins(self, since_ns: int) -> None:
        self._since_ns = since_ns
        told = self.store, self.server.name, self._parts, self._count, since_ns, self.captured
        self._submit(self._looked, lambda _: self._looked(None), sliced.kept, *told)

    def _looked(self, kept: Decode | None) -> None:
        if kept is not None:
            self.done(kept)
            return
        self._left = len(self._parts)
        for number, files in enumerate(self._parts):
            self._submit(
                self._split(number), self._lost(number), sliced.split_some, self.store, self.server.name, files,
                self._count, self._since_ns,
            )  # fmt: skip

    def _split(self, number: int) -> Callable[[SplitDone], None]:
        def done(found: SplitDone) -> None:
            self._splits[number] = found
            self.step(f"split part {number + 1} of {len(self._parts)} of the server's capture")
            self._one_less()

        return done

    def _lost(self, number: int) -> Callable[[str], None]:
        def failed(why: str) -> None:
            self.problem(f"part {number + 1} of the server's capture", why, "the time in it is missing")
            self._one_less()

        return failed

    def _one_less(self) -> None:
        self._left -= 1
        if self._left:
            return
        splits = [self._splits[number] for number in sorted(self._splits)]
        if not splits:
            self.failed("none of its files can be read")
            return
        for place in range(self._count):
            self._submit(
                self._decoded(place, splits), self.failed, sliced.decode_place, self.store, splits, place, self.captured
            )

    def _decoded(self, place: int, splits: list[SplitDone]) -> Callable[[PlaceDone], None]:
        def done(found: PlaceDone) -> None:
            self._places[place] = found
            self.step(f"decoded slice {len(self._places)} of {self._count} of the server's capture")
            if len(self._places) == self._count:
                places = [self._places[one] for one in range(self._count)]
                self._submit(self.done, self.failed, sliced.gather, self.store, splits, places)

        return done
