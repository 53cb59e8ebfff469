"""A command of nfslat in this process -> its exit status, its text, and its JSON."""

from __future__ import annotations

import contextlib
import io
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nfslat.cli import main as cli
from nfslat.cli import outputs
from nfslat.cli.options import options

BY = tuple(next(one for one in options() if "--by" in one.names).how["one of"].split())


def answered(name: str, arguments: Sequence[str]) -> tuple[int, str, dict[str, Any]]:
    """Of ``nfslat NAME ARGUMENTS``."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "answer.json")
        asked = cli.parser_of(name).parse([*arguments, "--json", str(place)])
        where, out = outputs.Run(f"nfslat {name}", contextlib.ExitStack()), io.StringIO()
        status = outputs.run(cli.module_of(name), asked, where, out)
        return status, out.getvalue(), json.loads(place.read_text())
