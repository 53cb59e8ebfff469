"""A `Correlation` -> the same, with captures that can be read again, and Wireshark's tools for that."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path

from msgspec import structs

from nfslat.decode import bundle
from nfslat.decode.capture import refuse_stored
from nfslat.decode.tools import Tools, located_tools
from nfslat.errors import UsageError
from nfslat.results import Correlation


@contextlib.contextmanager
def again(found: Correlation) -> Iterator[tuple[Correlation, Tools]]:
    """Tars of scripts/capture.sh are unpacked once more, for as long as the block lasts.

    Raises ``UsageError`` where a capture is not there any more: it came by a pipe, or in place of it stands a file of
    ops.
    """
    with tempfile.TemporaryDirectory(prefix="nfslat-") as scratch:
        server, client = (
            structs.replace(side, source=bundle.again(side.source, Path(scratch)))
            for side in (found.server, found.client)
        )
        for side in (server, client):
            refuse_stored(side.source)
            if not all(file.path.is_file() for file in side.source.files):
                raise UsageError(f"{side.source.name}: its packets are wanted again; name a file")
        yield structs.replace(found, server=server, client=client), located_tools(Path(scratch))
