"""Blocks of matched ops, one after the other -> paths of their files, with what blocks before told of the handles."""

from __future__ import annotations

import numpy as np

from nfslat.figures.op_columns import Labels, numbers_of
from nfslat.figures.op_columns import Paths as Named
from nfslat.model.protocol import NULL
from nfslat.model.tables import I64, Bool
from nfslat.names.paths import Paths, is_named_by_handle, paths_of
from nfslat.results import Analysis

_MOST_FILES = 1 << 20  # of which the path is kept, some 200 bytes each


class PathsSoFar:
    """Paths by the CRC-32 of the file's handle."""

    def __init__(self, encoding: str | None) -> None:
        """No path is known; `encoding` as of `paths_of`."""
        self._encoding = encoding
        self._of_handle: dict[int, tuple[str, bool]] = {}  # and whether it is partial

    def of(self, c: Analysis) -> Paths:
        """The path of each matched op of the next block."""
        own = paths_of(c, self._encoding)
        rows, handles = self._handles(c, own)
        of_op, texts, partial = own.of_op.copy(), list(own.texts), list(own.partial)
        row_of: dict[tuple[str, bool], int] = {}
        found, place = np.unique(handles, return_inverse=True)
        path = own.of_op[rows]
        best = np.full(len(found), NULL, dtype=np.int32)
        is_whole = (path != NULL) & ~np.array([*partial, False], dtype=np.bool_)[path]
        best[place[path != NULL]] = path[path != NULL]
        best[place[is_whole]] = path[is_whole]
        for at, handle in enumerate(found.tolist()):
            known, row = self._of_handle.get(handle), int(best[at])
            if row != NULL and (known is None or known[1] or not partial[row]):
                if known is not None or len(self._of_handle) < _MOST_FILES:
                    self._of_handle[handle] = texts[row], partial[row]
            elif known is not None:
                if known not in row_of:
                    row_of[known] = len(texts)
                    texts.append(known[0])
                    partial.append(known[1])
                best[at] = row_of[known]
        is_worse = ~is_whole & (best[place] != NULL)
        of_op[rows[is_worse]] = best[place[is_worse]]
        return Paths(of_op, tuple(texts), tuple(partial), own.to_of_op)

    @staticmethod
    def _handles(c: Analysis, paths: Named) -> tuple[I64, I64]:
        """Matched ops that work on the file of their handle, and these."""
        is_its: Bool = np.array([is_named_by_handle(kind) for kind in c.client.ops.kinds], dtype=np.bool_)
        handles = numbers_of(c, Labels(c, paths), paths, "fh_crc32")
        rows = np.flatnonzero(is_its[c.kind] & (handles != NULL))
        return rows, handles[rows]
