"""What tests need that may not be there: the native engine, and real captures.

The captures lie beside the checkout and are not part of it; where they are missing the samples take their place. Each
is decoded once with each engine, however many tests and processes look at it.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from nfslat.decode.capture import Source
from nfslat.decode.engine import Engine, choose
from nfslat.decode.tools import Tools
from nfslat.decode.tshark import engine as tshark
from nfslat.errors import InputError
from nfslat.kernels.compiled import is_built
from nfslat.model.decoded import Decoded
from nfslat.pipeline import correlate, inspect
from nfslat.results import Correlation, Side
from nfslat.select import Filters

T = TypeVar("T")
_BY_TSHARK = tshark.decode  # as it is where a test has put `Decoder.by_tshark` in its place
SHARED = Path(__file__).parents[2] / "shared"
SAMPLES = sorted(Path(__file__).parents[1].glob("samples/*/*.gz"))
SHARED_CAPTURES = sorted(SHARED.glob("lab/*/*.gz")) + [
    path for path in sorted(SHARED.glob("corpus/*")) if not path.name.endswith((".md", "SUMS"))
]
needs_captures = pytest.mark.skipif(not SHARED_CAPTURES, reason="no captures at ../shared: lab and corpus left out")
CAPTURES = SHARED_CAPTURES or SAMPLES  # the samples are taken from the lab

needs_native = pytest.mark.skipif(
    not is_built(),
    reason="the native decoder was not compiled (scripts/test compiles it where Rust is installed)",
)

_WITHOUT_NFS = ("tcptrace", "Oracle", "mptcpanalyzer", "solaris.snoop")  # they are there to be refused
WITH_NFS = [path for path in CAPTURES if not any(part in path.name for part in _WITHOUT_NFS)]
WITHOUT_NFS = [path for path in CAPTURES if path not in WITH_NFS]


def name_of(path: Path) -> str:
    """The scenario of the lab, or the file of the corpus."""
    return path.parent.name if path.parent.parent.name in ("lab", "samples") else path.name


def id_of(path: Path) -> str:
    """How pytest names a test on this capture."""
    return f"{path.parent.name}/{path.name}"


@dataclass(frozen=True)
class Decoder:
    """Decodes captures, and keeps what came of them in `folder`, which all test processes of one run share."""

    tools: Tools
    folder: Path
    scratch: Path

    def side(self, engine: str, path: Path) -> Side:
        """One capture as `engine` sees it, nothing filtered away. Raises ``InputError`` where it holds no NFS."""
        kept = self.folder / f"{engine}-{id_of(path).replace('/', '-')}"
        if kept.exists():
            side: Side = pickle.loads(kept.read_bytes())  # noqa: S301  (written below, by this run)
            return side
        chosen = choose(engine, lambda: self.tools, self.scratch, rereads=False)
        return self._keep(kept, inspect(chosen.open(str(path)), chosen, filters=Filters(), progress=lambda _: None))

    def by_tshark(self, source: Source, tools: Tools, progress: Callable[[int], None]) -> Decoded:
        """`nfslat.decode.tshark.engine.decode`; of a sample, which no test changes, once for all tests."""
        paths = [file.path for file in source.files]
        if len(paths) > 1 or paths[0] not in SAMPLES:
            return _BY_TSHARK(source, tools, progress)
        kept = self.folder / f"sample-{id_of(paths[0]).replace('/', '-')}"
        if kept.exists():
            progress(source.packets)
            decoded: Decoded = pickle.loads(kept.read_bytes())  # noqa: S301  (written below, by this run)
            return decoded
        return self._keep(kept, _BY_TSHARK(source, tools, progress))

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
