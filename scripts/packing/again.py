"""An archive in, the same without day and machine on which it was made out: files in order, one time, no owner.

again.py ARCHIVE.tar.gz EPOCH
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import tarfile


def again(path: str, epoch: int) -> None:
    """Write the tar at `path` anew."""
    packed = io.BytesIO()
    with (
        tarfile.open(path) as old,
        gzip.GzipFile("", "wb", 9, packed, mtime=epoch) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid, member.uname, member.gname = epoch, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    with open(path + ".new", "wb") as out:
        out.write(packed.getvalue())
    os.replace(path + ".new", path)


if __name__ == "__main__":
    again(sys.argv[1], int(sys.argv[2]))
