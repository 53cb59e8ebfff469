"""Names of files as bytes in, text that shows each of them, and nothing else, out."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from unicodedata import category

from nfslat.errors import UsageError

UNKNOWN = "..."  # stands, as a component, for the directories that are not known

_BLOCK = 1 << 10  # names
_AS_WRITTEN = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
# What counts as printable and leaves no ink, or changes what stands beside it: Default_Ignorable_Code_Point of Unicode
# (DerivedCoreProperties.txt) without those that `str.isprintable` finds, and the blank Braille pattern.
_NO_INK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U0001bca0-\U0001bca3\U000e0100-\U000e01ef]"
)
# Cells that begin like this are formulas to a spreadsheet; the wide forms too, in some languages.
_FORMULA = frozenset("=+-@\uff1d\uff0b\uff0d\uff20")
_LETTERS = b"/.abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def checked_encoding(name: str | None) -> str | None:
    """`name`, if it is a code page in which names of files can be; raises ``UsageError`` for anything else."""
    if name is None:
        return None
    try:
        # The second of them is for those that read the escapes of a programming language.
        fits = _LETTERS.decode(name) == _LETTERS.decode("ascii") and len(b"\\u0041\\n".decode(name)) == 8
    except (LookupError, ValueError) as problem:
        raise UsageError(
            f"--name-encoding {name!r}: no code page of that name; try shift_jis, gbk, koi8-r or latin-1, for example"
        ) from problem
    if not fits:
        raise UsageError(
            f"--name-encoding {name!r}: names in it would not have ASCII letters and '/' in them; "
            "give a code page like shift_jis, gbk, koi8-r or latin-1"
        )
    return name


def reader(encoding: str | None) -> Callable[[bytes], str]:
    """What makes text of names: UTF-8 where a name is valid UTF-8, else `encoding`, else its bytes stay visible.

    Two names with other bytes have other texts, unless one of them is in `encoding`. The text has no control
    characters, none that are invisible or turn the direction of writing, and no blanks but the ASCII one: they are
    ``\\n``, ``\\x1b``, ``\\u202e``, ``\\U000e0001``; a byte that is in no character is ``\\x9f``, a backslash ``\\\\``.
    Raises ``UsageError`` for an encoding that is not known.
    """
    encoding = checked_encoding(encoding)

    def read(name: bytes) -> str:
        try:
            text = name.decode()
        except UnicodeDecodeError:
            text = _otherwise(name, encoding)
        return text if _is_plain(text) else _visible(text)

    return read


def read_all(names: Sequence[bytes], encoding: str | None) -> list[str]:
    """What `reader` makes of each name; of one with slashes in it, what it makes of each part."""
    read, out = reader(encoding), []
    for begin in range(0, len(names), _BLOCK):
        block = names[begin : begin + _BLOCK]
        joined = b"/".join(block)
        # Nearly all names are like this, and many at once are quickly read.
        if joined.isascii() and b"\\" not in joined and (text := joined.decode()).isprintable():
            parts = text.split("/")
            if len(parts) == len(block):
                out += parts
                continue
        out += ["/".join(map(read, name.split(b"/"))) for name in block]
    return out


def in_charset(text: str, charset: str) -> str:
    """`text` (as `reader` makes it) with escapes like ``\\u00e9`` for the characters that `charset` has not."""
    try:
        text.encode(charset)
    except UnicodeEncodeError:
        return _hex(text) if len(text) == 1 else "".join(in_charset(char, charset) for char in text)
    return text


def no_formula(text: str) -> str:
    """`text` (as `reader` makes it) as the beginning of a path.

    So that no spreadsheet takes it for a formula ``=`` in front becomes ``\\x3d``, and what nobody calls so is not
    `UNKNOWN`.
    """
    is_other = text[:1] in _FORMULA or text.partition("/")[0] == UNKNOWN
    return _hex(text[0]) + text[1:] if is_other else text


def _otherwise(name: bytes, encoding: str | None) -> str:
    if encoding is not None:
        with contextlib.suppress(ValueError):  # not in that one either
            text = name.decode(encoding)
            # UTF-7 can write a '/' in other bytes: it would make one name two.
            if text.count("/") == name.count(b"/"):
                return text
    return name.decode("utf-8", "surrogateescape")


def _is_plain(text: str) -> bool:
    plain = text.isprintable() and "\\" not in text
    return plain and (text.isascii() or not (_NO_INK.search(text) or category(text[0])[0] == "M"))


def _visible(text: str) -> str:
    out = []
    for at, char in enumerate(text):
        if char in _AS_WRITTEN:
            out.append(_AS_WRITTEN[char])
        elif "\udc80" <= char <= "\udcff":
            out.append(f"\\x{ord(char) - 0xDC00:02x}")  # a byte that is in no character
        # A mark would stand on what is in front of the name.
        elif not char.isprintable() or _NO_INK.match(char) or (at == 0 and category(char)[0] == "M"):
            out.append(_hex(char))
        else:
            out.append(char)
    return "".join(out)


def _hex(char: str) -> str:
    code = ord(char)
    # From 0x80 on two digits are for bytes that are in no character.
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
