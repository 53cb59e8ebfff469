"""The folder or URL of a run: what clients came to, in files named by what they are made of, and each client's report.

A file appears only when all of it is written. What is read there may have been changed by whoever gave us the folder:
of pickled values only those of our own tables are made, and what is damaged is not there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import io
import itertools
import json
import os
import pickle
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from nfslat import __version__
from nfslat.answer.model import Report
from nfslat.answer.words import some_of
from nfslat.decode import native
from nfslat.errors import InputError, NfslatError
from nfslat.export.output import private_folder
from nfslat.fleet.run.inputs import Input
from nfslat.fleet.run.remote import file_system, is_url, one_line
from nfslat.model.record import Record

T = TypeVar("T")
_FORM = "nfslat.finished/1"
_RUN = "run.json"
FOLDERS = ("clients", "finished")  # in the folder of a run
_ERRORS_OF_A_FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
_MOST_CLIENTS_NAMED = 5
# What a kept value is made of, beside records, dataclasses and named tuples of these packages.
_OURS = ("nfslat.answer.", "nfslat.fleet.", "nfslat.tally.")
_NUMPY = {("numpy", "dtype"), ("numpy", "ndarray"), ("numpy", "_reconstruct"), ("numpy", "_frombuffer")}
_NUMPY |= {("numpy", "scalar")}


def key_of(files: Sequence[Input], *options: Any) -> str | None:
    """A name for what is made of `files` with `options`; None where nothing tells that a file has changed."""
    tokens = [one.token for one in files]
    if any(token.startswith("weak:") for token in tokens):
        return None
    made_of = repr((_FORM, __version__, native.NAME, tokens, options))
    return hashlib.sha256(made_of.encode("utf-8", "surrogateescape")).hexdigest()[:32]


@dataclass(frozen=True)
class RunFolder:
    """`url`: an absolute path, or what fsspec opens."""

    url: str

    def get(self, key: str | None, wanted: type[T]) -> T | None:
        """What an earlier run put there; None where there is nothing, or nothing that can be read."""
        content = None if key is None else self.read(f"finished/{key}")
        if content is None:
            return None
        try:
            value = _Unpickler(io.BytesIO(content)).load()
        except Exception:  # whatever a damaged file makes of it
            return None
        return value if isinstance(value, wanted) else None

    def put(self, key: str | None, value: Any) -> None:
        """Keep it for a later run. Raises ``OSError``."""
        if key is not None:
            self.write(f"finished/{key}", pickle.dumps(value, 5))

    def read(self, name: str) -> bytes | None:
        """The bytes of a file; None where it is not there."""
        try:
            place = self.place(name)
            if not is_url(self.url):
                return Path(place).read_bytes()
            fs, path = file_system(place)
            return bytes(fs.cat_file(path))
        except Exception:  # each file system has its own
            return None

    def holds(self, name: str, wanted_hash: str) -> bool:
        """Is there a file by this name, with these bytes (SHA-256)?"""
        content = self.read(name)
        return content is not None and hashlib.sha256(content).hexdigest() == wanted_hash

    def write(self, name: str, content: bytes) -> None:
        """Raises ``OSError`` with the name of the place."""
        place = self.place(name)
        try:
            if is_url(self.url):
                _write_away(place, content)
                return
            target = Path(place)
            private_folder(target.parent)
            handle, part = tempfile.mkstemp(prefix=f".{target.name[:40]}-", dir=target.parent)
            try:
                with os.fdopen(handle, "wb") as out:
                    out.write(content)
                os.replace(part, target)
            except BaseException:
                os.unlink(part)
                raise
        except OSError as problem:
            if problem.errno is None:
                raise
            raise OSError(problem.errno, os.strerror(problem.errno), place) from problem

    def place(self, name: str) -> str:
        """Path or URL of `name`. Raises ``InputError`` for one that leads out of here."""
        place = f"{self.url.rstrip('/')}/{name}"
        parts = name.split("/")
        is_inside = not {"", ".", ".."}.intersection(parts) and name.isprintable() and "\\" not in name
        if is_inside and not is_url(self.url):
            folders = os.path.realpath(self.url), os.path.realpath(place)
            is_inside = os.path.commonpath(folders) == folders[0]
        if not is_inside:
            raise InputError(f"holds a name that leads out of it ({name!r}); make the run anew", about=self.url)
        return place

    def check(self) -> None:
        """Raises ``InputError`` where nothing can be written, or it holds what no run has made."""
        if not is_url(self.url) and os.path.isdir(self.url):
            held = sorted(name for name in os.listdir(self.url) if not name.startswith("."))
            if held and not {_RUN, *FOLDERS}.intersection(held):
                raise InputError(
                    f"--out {self.url}: holds other things ({held[0]}); name a folder of its own, made if need be"
                )
        try:
            self.write(f"{FOLDERS[1]}/tried", b"tried")
            if self.read(f"{FOLDERS[1]}/tried") != b"tried":
                raise InputError(f"--out {self.url}: what is written there cannot be read again; name another place")
        except NfslatError:
            raise
        except Exception as problem:  # each file system has its own
            is_full = isinstance(problem, OSError) and problem.errno in _ERRORS_OF_A_FULL_DISK
            why = (problem.strerror if isinstance(problem, OSError) else None) or " ".join(str(problem).split())
            todo = "make room, or name" if is_full else "name"
            raise InputError(f"--out {self.url}: cannot be written ({why}); {todo} another place") from None
        finally:
            with contextlib.suppress(Exception):
                place = self.place(f"{FOLDERS[1]}/tried")
                if is_url(self.url):
                    fs, path = file_system(place)
                    fs.rm(path)
                else:
                    os.unlink(place)

    def write_reports(self, names: dict[str, str]) -> None:
        """Keep by which name the report of each client is kept. Raises ``OSError``."""
        self.write(_RUN, json.dumps({"reports": names}, indent=1).encode())

    def report(self, client: str) -> Report:
        """The two-sided report of a client. Raises ``InputError`` where there is none."""
        content = self.read(_RUN)
        if content is None:
            raise InputError(
                "no run of 'nfslat fleet --out' is kept there, or it was not finished; run it again", about=self.url
            )
        try:
            names = dict(json.loads(content)["reports"])
        except (KeyError, TypeError, ValueError) as problem:
            raise InputError(
                f"{self.url}/{_RUN}: is damaged, or of another version; run nfslat fleet --out again"
            ) from problem
        if client not in names:
            known = some_of(list(names), _MOST_CLIENTS_NAMED)
            raise InputError(f"no client with a report in that run, which has {known}", about=client)
        place = self.place(str(names[client]))
        text = self.read(str(names[client]))
        if text is None:
            raise InputError("is gone; run again with the same --out", about=place)
        return Report.from_json(text.decode("utf-8", "replace"), place)


def report_names(clients: Sequence[str]) -> dict[str, str]:
    """Where the report of each client is kept: a name for each that all file systems take, and tell apart."""
    names: dict[str, str] = {}
    used: set[str] = set()
    for client in sorted(clients):
        plain = "".join(letter if letter.isalnum() or letter in ".-" else "_" for letter in client)[:100]
        candidates = itertools.chain([plain], (f"{plain}-{n}" for n in itertools.count(2)))
        name = next(one for one in candidates if one.casefold() not in used)
        used.add(name.casefold())
        names[client] = f"{FOLDERS[0]}/{name}.json"
    return names


def _write_away(place: str, content: bytes) -> None:
    fs, path = file_system(place)
    try:
        with contextlib.suppress(OSError, NotImplementedError):
            fs.makedirs(path.rpartition("/")[0], exist_ok=True)
        fs.pipe_file(path, content)
    except Exception as problem:  # each file system has its own
        raise OSError(f"{place}: {one_line(problem)}") from problem


def _record(kind: Any, fields: dict[str, Any]) -> Record:
    if not (isinstance(kind, type) and issubclass(kind, Record)):
        raise pickle.UnpicklingError(f"{kind!r} is no record")
    return kind(**fields)


class _Unpickler(pickle.Unpickler):
    """Makes tables of ours, and arrays: nothing that does more than to hold values."""

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("numpy") and ("numpy", name) in _NUMPY:
            return super().find_class(module, name)
        if (module, name) == ("msgspec._utils", "rebuild"):  # of records whose fields have to be named
            return _record
        if module.startswith(_OURS) and module in sys.modules:
            held = getattr(sys.modules[module], name, None)
            if isinstance(held, type) and (dataclasses.is_dataclass(held) or hasattr(held, "_fields")):
                return held
        raise pickle.UnpicklingError(f"{module}.{name} is not kept by any run")
