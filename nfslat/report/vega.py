"""Charts -> what draws them: Vega's script for a page, and PNG pictures; by V8, in a process of its own.

Where memory is short V8 ends its process: not the one that has a report to print.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import struct
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from nfslat import confined
from nfslat.errors import PictureError, ToolError, UsageError
from nfslat.report.charts.chart import VEGA_LITE, Spec

_NAME = "V8, which draws the pictures,"
_SECONDS = 300  # of the processor: the script takes some 4, a picture 1
# It is told where packages are, and knows nothing of nfslat. What it is asked and what it answers is long.
_PROGRAM = """
import json, struct, sys
asked = json.load(sys.stdin)
sys.path[:] = asked["path"]
import vl_convert
if asked["specs"] is None:
    made = [vl_convert.javascript_bundle(vl_version=asked["version"]).encode()]
else:
    more = {"vl_version": asked["version"], "scale": asked["scale"], "config": asked["config"]}
    made = [vl_convert.vegalite_to_png(spec, **more) for spec in asked["specs"]]
for one in made:
    sys.stdout.buffer.write(struct.pack(">Q", len(one)) + one)
"""


def library() -> str:
    """Vega, Vega-Lite and vega-embed as one script. It is the same until one of them is another, so it is kept.

    Raises ``UsageError`` without vl-convert-python, ``PictureError`` where V8 fails.
    """
    kept = _kept(f"vega-{_version()}-{VEGA_LITE}.js")
    script = _read(kept)
    if script is None:
        script = _ask()[0]
        _write(kept, script)
    return script.decode()


def pngs(specs: Sequence[Spec], config: Spec, scale: float) -> list[bytes]:
    """A picture of each. Raises as `library`."""
    _version()
    return _ask(specs=list(specs), config=config, scale=scale) if specs else []


def _version() -> str:
    try:
        import vl_convert  # noqa: PLC0415  (an extra)
    except ImportError as problem:
        raise UsageError("pictures need vl-convert-python: pip install 'nfslat[html]'") from problem
    return str(vl_convert.__version__)  # type: ignore[attr-defined]  # not in its stubs


def _ask(specs: list[Spec] | None = None, config: Spec | None = None, scale: float = 1) -> list[bytes]:
    asked = {"path": sys.path, "version": VEGA_LITE, "specs": specs, "config": config, "scale": scale}
    # Not those of tshark: V8 reserves more addresses than any machine has memory.
    may = confined.Limits(seconds=confined.number_of(confined.SECONDS, _SECONDS))
    command, given = [sys.executable, "-I", "-S", "-c", _PROGRAM], json.dumps(asked).encode()
    try:
        done = confined.run(command, may, name=_NAME, given=given)
    except ToolError as problem:
        raise PictureError(problem.why) from problem
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or [f"exit status {done.returncode}"]
        raise PictureError(f"{_NAME} failed: {said[0]}")
    made, at = [], 0
    while at < len(done.stdout):
        end = at + 8 + struct.unpack_from(">Q", done.stdout, at)[0]
        made.append(done.stdout[at + 8 : end])
        at = end
    return made


def _kept(name: str) -> Path | None:
    """Where a file is kept from run to run: in a folder of ours. None where there is none, as with another's HOME."""
    try:
        folder = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        there = next(one for one in (folder, *folder.parents) if one.exists())
        return folder / "nfslat" / name if there.stat().st_uid == os.geteuid() else None
    except (OSError, RuntimeError):
        return None


def _read(kept: Path | None) -> bytes | None:
    """What was kept, if it is ours and whole."""
    try:
        if kept is None or kept.stat().st_uid != os.geteuid():
            return None
        said, _, script = kept.read_bytes().partition(b"\n")
    except OSError:
        return None
    return script if said.decode(errors="replace") == hashlib.sha256(script).hexdigest() else None


def _write(kept: Path | None, script: bytes) -> None:
    """Keep it if that can be done: next time costs what this time did, otherwise."""
    if kept is None:
        return
    with contextlib.suppress(OSError):
        kept.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as file:
            try:
                file.write(f"{hashlib.sha256(script).hexdigest()}\n".encode() + script)
                file.close()
                os.replace(file.name, kept)
            except OSError:
                Path(file.name).unlink(missing_ok=True)
