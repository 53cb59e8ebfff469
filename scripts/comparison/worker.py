"""Cases, one on each line of standard input -> their outputs, a file each; runs in a checkout's own Python."""

from __future__ import annotations

import gzip
import json
import os
import resource
import shutil
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from comparison.outputs import Masks, as_text


def main() -> None:
    """Run cases until there are no more. Of the checkout, only `nfslat.cli.main` is relied upon."""
    checkout = Path(sys.argv[1])
    # Standard input and output of our own, before those of the cases take their place.
    tasks, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    import nfslat  # noqa: PLC0415  (one that does not load is a problem to answer with)
    from nfslat.cli import main as found  # noqa: PLC0415  (a module, or the function in older checkouts)

    call: Any = getattr(found, "main", found)

    if not Path(nfslat.__file__).resolve().is_relative_to(checkout):
        sys.exit(f"compare: {sys.executable} has nfslat from {nfslat.__file__}, not from {checkout}")
    _say_warnings_alike()
    masks = Masks(((os.getcwd(), "<cwd>"), (str(checkout), "<checkout>")), nfslat.__version__)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in tasks:
        task = json.loads(line)
        content = {"key": task["key"], "outputs": run(task["steps"], call, masks)}
        whole = Path(task["to"])
        whole.parent.mkdir(parents=True, exist_ok=True)
        part = whole.with_suffix(".part")
        part.write_bytes(gzip.compress(json.dumps(content).encode(), 1))
        part.replace(whole)
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        print(json.dumps({"cpu": sum(each.ru_utime + each.ru_stime for each in used)}), file=answers, flush=True)


def _say_warnings_alike() -> None:
    """Each time, not only the first in a process, and without the place in the sources, which may move."""

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        print(f"{category.__name__}: {message}", file=sys.stderr)

    warnings.showwarning = show
    for category in (RuntimeWarning, UserWarning):
        warnings.simplefilter("always", category)


def run(steps: Sequence[Sequence[str]], call: Callable[[Sequence[str]], int], masks: Masks) -> dict[str, str]:
    """The outputs of one case by their names: what was printed, how it ended, and the files in `out`."""
    outputs = {}
    for folder in ("out", "scratch"):
        shutil.rmtree(folder, ignore_errors=True)
        os.mkdir(folder)
    for number, step in enumerate(steps, 1):
        which = f"{number}: " if len(steps) > 1 else ""
        printed, said, end = _call(step, call)
        outputs[f"{which}standard output"] = masks.masked(printed)
        outputs[f"{which}status and standard error"] = masks.masked(f"{end}\n{said}")
    for file in sorted(Path("out").rglob("*")):
        if file.is_file():
            outputs[file.name] = masks.masked(as_text(file))
    return outputs


def _call(step: Sequence[str], call: Callable[[Sequence[str]], int]) -> tuple[str, str, str]:
    saved = [os.dup(fd) for fd in (1, 2)]
    names = ("scratch.stdout", "scratch.stderr")
    for fd, name in zip((1, 2), names, strict=True):
        to = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(to, fd)
        os.close(to)
    # New ones each time: a command may have closed or replaced them.
    sys.stdout, sys.stderr = (open(fd, "w", encoding="utf-8", closefd=False) for fd in (1, 2))  # noqa: SIM115
    sys.argv = ["nfslat", *step]
    try:
        end = f"exit status {call(list(step))}"
    except SystemExit as given:
        end = f"exit status {given.code}"
    except Exception as problem:
        end = f"{type(problem).__name__}: {problem}"
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for fd, copy in zip((1, 2), saved, strict=True):
            os.dup2(copy, fd)
            os.close(copy)
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
    printed, said = (Path(name).read_bytes().decode("utf-8", "surrogateescape") for name in names)
    return printed, said, end


if __name__ == "__main__":
    main()
