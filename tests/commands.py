"""A command of nfslat in this process -> its exit status, its text, and its JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from typing import Any

from nfslat.cli import main as cli
from nfslat.cli.options import options
from nfslat.cli.outputs import Run

BY = tuple(next(one for one in options() if "--by" in one.names).how["one of"].split())


def answered(name: str, arguments: Sequence[str]) -> tuple[int, str, dict[str, Any]]:
    """Of ``nfslat NAME ARGUMENTS``, which writes no files."""
    asked = cli.parser_of(name).parse(arguments)
    command, run = cli.module_of(name), Run(f"nfslat {name}")
    command.inputs(asked)
    with run.stack:
        made = command.make(asked, run)
        text, out = made.text(), io.StringIO()
        made.json(out)
    return made.status(), text, json.loads(out.getvalue())
