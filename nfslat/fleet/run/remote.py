"""A URL in, its fsspec file system out, with what goes wrong there said in one line."""

from __future__ import annotations

import re
from typing import Any, BinaryIO, cast

from nfslat.errors import InputError

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_PASSWORD = re.compile(r"(://[^/@:]*:)[^/@]*@")
_HTTP = ("http://", "https://")
# What a file system may say of a file that differs when its bytes do.
_TELLING = frozenset(
    "etag e_tag content-md5 digest last-modified last_modified lastmodified mtime modified created sha256 md5 crc32c "
    "md5hash generation versionid version_id updated checksum content_md5 hex".split()
)


def is_url(text: str) -> bool:
    """Does `text` begin with a protocol?"""
    return _URL.match(text) is not None


def shown(url: str) -> str:
    """`url` as it may stand in a report: without a password, and without what is behind "?", which may be a key."""
    return _PASSWORD.sub(r"\1***@", url.split("?", 1)[0] if url.startswith(_HTTP) else url)


def file_system(url: str) -> tuple[Any, str]:
    """(fsspec file system, path in it). Raises ``InputError`` for a protocol that is not known or has no package."""
    import fsspec  # noqa: PLC0415  (late: most runs read local files)

    if "::" in url:
        raise InputError("URLs in URLs are not read; name the file itself", about=shown(url))
    try:
        return cast(tuple[Any, str], fsspec.core.url_to_fs(url))
    except ImportError as problem:
        raise InputError(f"a Python package is missing: {one_line(problem)}", about=shown(url)) from problem
    except ValueError as problem:
        raise InputError(f"{one_line(problem)}", about=shown(url)) from problem
    except Exception as problem:  # each file system has its own
        raise InputError(f"cannot be reached: {one_line(problem)}", about=shown(url)) from problem


def open_stream(place: str) -> BinaryIO:
    """The bytes at a path or URL, to be read from the beginning on."""
    if not is_url(place):
        return open(place, "rb")
    fs, path = file_system(place)
    # Over HTTP without seeking: not each server can begin in the middle of a file.
    options = {"block_size": 0} if place.startswith(_HTTP) else {}
    return cast(BinaryIO, fs.open(path, "rb", **options))


def token_of(fs: Any, path: str, info: dict[str, Any]) -> str:
    """What identifies the file's content; begins with ``weak:`` where the other end tells nothing but its size."""
    import hashlib  # noqa: PLC0415  (late, as above)

    telling = sorted((key, str(value)) for key, value in info.items() if key.lower() in _TELLING and value is not None)
    told = hashlib.sha256(repr((path, info.get("size"), telling, fs.ukey(path) if telling else "")).encode())
    return f"{'' if telling else 'weak:'}{told.hexdigest()}"


def one_line(problem: BaseException) -> str:
    """What an exception says, or its name where it says nothing."""
    text = " ".join(str(problem).split())
    return text if text.isprintable() and text else type(problem).__name__
