"""Tokens of files -> hashes of their content, once worked out: small files in a folder that many processes share."""

from __future__ import annotations

import contextlib
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import xxhash

from nfslat.export.output import private_folder

_HEX_DIGITS = 32


@dataclass(frozen=True)
class Memo:
    """Hashes by token, each in a small file of its own; any number of processes may use the folder at once."""

    folder: Path

    def get(self, token: str) -> str | None:
        """The hash of the file with this token; None where it is not known, or what stands there is damaged."""
        try:
            text = self._path(token).read_text(encoding="ascii")
        except (OSError, ValueError):
            return None
        kept, _, checked = text.rstrip("\n").partition(" ")
        is_hash = len(kept) == _HEX_DIGITS and not kept.strip("0123456789abcdef")
        return kept if is_hash and checked == _seal(token, kept) else None

    def put(self, token: str, known: str) -> None:
        """Remember it; where that is not possible, it will be worked out again."""
        with contextlib.suppress(OSError):
            private_folder(self.folder)
            handle, part = tempfile.mkstemp(prefix="part-", dir=self.folder)
            try:
                with os.fdopen(handle, "w", encoding="ascii") as out:
                    out.write(f"{known} {_seal(token, known)}\n")
                os.replace(part, self._path(token))
            except OSError:
                os.unlink(part)
                raise

    def _path(self, token: str) -> Path:
        return self.folder / xxhash.xxh3_128_hexdigest(token.encode("utf-8", "surrogateescape"))


def _seal(token: str, known: str) -> str:
    """Ties a hash to its token, and shows where a file was cut or two got mixed up."""
    return xxhash.xxh3_64_hexdigest(f"{token} {known}".encode("utf-8", "surrogateescape"))
