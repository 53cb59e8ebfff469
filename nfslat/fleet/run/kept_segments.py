"""TCP segments of two hosts -> a file in the store, and back: what an inference needs and no shard keeps."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from nfslat.errors import InputError
from nfslat.fleet.run.store import Store
from nfslat.model.segments import Segments

_COUNTS = "segments"  # of each connection; the other arrays are columns of all of them


def write_segments(store: Store, name: str, talks: Sequence[Segments]) -> None:
    """As numpy keeps arrays (npz), connection after connection; a column at a time: no more than one is copied."""
    with store.writing(name) as out, zipfile.ZipFile(out, "w") as file:
        for of in (_COUNTS, *Segments.columns()):
            with file.open(f"{of}.npy", "w", force_zip64=True) as column:
                parts = [np.array([len(one)]) if of == _COUNTS else getattr(one, of) for one in talks]
                np.lib.format.write_array(column, np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64))


def read_segments(store: Store, name: str, scratch: Path) -> list[Segments]:
    """What was written. Raises ``InputError`` where it is not there, or damaged."""
    try:
        with store.local(name, scratch) as path, path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
            ends = np.cumsum(kept[_COUNTS])[:-1]
            columns = {of: np.split(kept[of], ends) for of in Segments.columns()}
            return [Segments(**{of: parts[at] for of, parts in columns.items()}) for at in range(len(kept[_COUNTS]))]
    except (OSError, ValueError, LookupError, zipfile.BadZipFile) as problem:
        store.remove([f"{'/'.join(name.split('/')[:2])}/index.json"])
        raise InputError("is damaged; run again, and its capture is decoded anew", about=store.place(name)) from problem
