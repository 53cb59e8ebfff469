"""What tests need that may not be there: real captures.

The captures lie beside the checkout and are not part of it; where they are missing the samples take their place. Each
is decoded once with each engine, however many tests and processes look at it.
"""

from __future__ import annotations

import dataclasses
import pickle
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import pytest
from kept_answers import Oracle

from nfslat.decode.engine import Engine, choose
from nfslat.decode.tools import Tools
from nfslat.errors import InputError
from nfslat.pipeline import correlate, inspect
from nfslat.results import Correlation, Side
from nfslat.select import Filters

T = TypeVar("T")
SHARED = Path(__file__).parents[2] / "shared"
SAMPLES = sorted(Path(__file__).parents[1].glob("samples/*/*.gz"))
SHARED_CAPTURES = sorted(SHARED.glob("lab/*/*.gz")) + [
    path for path in sorted(SHARED.glob("corpus/*")) if not path.name.endswith((".md", "SUMS"))
]
needs_captures = pytest.mark.skipif(not SHARED_CAPTURES, reason="no captures at ../shared: lab and corpus left out")
CAPTURES = SHARED_CAPTURES or SAMPLES  # the samples are taken from the lab

_WITHOUT_NFS = ("tcptrace", "Oracle", "mptcpanalyzer", "solaris.snoop")  # they are there to be refused
WITH_NFS = [path for path in CAPTURES if not any(part in path.name for part in _WITHOUT_NFS)]
WITHOUT_NFS = [path for path in CAPTURES if path not in WITH_NFS]


def name_of(path: Path) -> str:
    """The scenario of the lab, or the file of the corpus."""
    return path.parent.name if path.parent.parent.name in ("lab", "samples") else path.name


def id_of(path: Path) -> str:
    """How pytest names a test on this capture."""
    return f"{path.parent.name}/{path.name}"


def asked(paths: list[Path]) -> list[Any]:
    """For tests that hold `paths` against tshark: what it says of samples is kept, the others wait for the night."""
    return [
        *(pytest.param(path, id=id_of(path), marks=pytest.mark.oracle) for path in SAMPLES),
        *(pytest.param(path, id=id_of(path), marks=pytest.mark.long) for path in paths if path not in SAMPLES),
    ]


def most_by_night(paths: list[Path]) -> list[Any]:
    """For what holds of any capture: samples and public captures by day, those of the lab, which are many, by night."""
    every = [*paths, *(path for path in SAMPLES if path not in paths)]
    return [
        pytest.param(path, id=id_of(path), marks=pytest.mark.long if path.is_relative_to(SHARED / "lab") else ())
        for path in every
    ]


@dataclass(frozen=True)
class Decoder:
    """Decodes captures, and keeps what came of them in `folder`, which all test processes of one run share."""

    oracle: Oracle
    folder: Path
    scratch: Path

    @property
    def tools(self) -> Tools:
        return self.oracle.tools()

    def side(self, engine: str, path: Path) -> Side:
        """One capture as `engine` sees it, nothing filtered away. Raises ``InputError`` where it holds no NFS.

        What tshark says of a sample is what was kept of it.
        """
        kept = self.folder / f"{engine}-{id_of(path).replace('/', '-')}"
        if kept.exists():
            side: Side = pickle.loads(kept.read_bytes())  # noqa: S301  (written below, by this run)
            return side
        chosen = choose(engine, self.oracle.tools, self.scratch, rereads=False)
        if engine == "tshark" and path in SAMPLES:
            name = f"samples/{id_of(path)}"
            chosen = dataclasses.replace(
                chosen, decode=lambda source, _: (source, self.oracle.decode("samples", name, source))
            )
        return self._keep(kept, inspect(chosen.open(str(path)), chosen, filters=Filters(), progress=lambda _: None))

    def _keep(self, kept: Path, made: T) -> T:
        part = self.scratch / kept.name
        part.write_bytes(pickle.dumps(made))
        part.rename(kept)  # at once: another process may be looking
        return made

    def pair(self, scenario: str) -> Correlation:
        """Both captures of a scenario of the lab, as the native engine sees them."""
        captures = [
            path
            for side in ("server", "client")
            for path in sorted((SHARED / "lab" / scenario).glob(f"{side}.*"))
            if path.suffix != ".json"
        ]
        server, client = (self.side("native", path) for path in captures)
        kept = {side.source: side.decoded for side in (server, client)}

        def no_tools() -> Tools:
            raise InputError("no tool is needed for what is decoded")

        engine = Engine(no_tools, lambda _: server.source, lambda _: 0, "B", lambda source, _: (source, kept[source]))
        return correlate(
            server.source,
            client.source,
            engine,
            filters=Filters(),
            srt="nfslat",
            may_swap=True,
            progress=lambda _: None,
        )
