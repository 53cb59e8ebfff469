"""Names of files become text that cannot fool anybody."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from nfslat.errors import UsageError
from nfslat.names.text import in_charset, no_formula, read_all, reader

JAPANESE = "日本語.txt"
RUSSIAN = "отчёт за год"


@pytest.mark.parametrize(
    ("name", "encoding", "text"),
    [
        (b"plain name.dat", None, "plain name.dat"),
        (JAPANESE.encode(), None, JAPANESE),
        (JAPANESE.encode(), "koi8-r", JAPANESE),  # valid UTF-8 is UTF-8
        (JAPANESE.encode("shift_jis"), "shift_jis", JAPANESE),
        (RUSSIAN.encode("koi8-r"), "koi8-r", RUSSIAN),
        ("中文".encode("gbk"), "gbk", "中文"),
        ("é".encode("latin-1"), "latin-1", "é"),
        ("é".encode("latin-1"), None, r"\xe9"),
        (b"a\xff\xfeb", "shift_jis", r"a\xff\xfeb"),  # neither
        (b"back\\slash", None, r"back\\slash"),
        (b"\n\r\t\x1b[2J\x7f\0", None, r"\n\r\t\x1b[2J\x7f\x00"),
        ("\u202egpj.exe".encode(), None, r"\u202egpj.exe"),
        ("a\u200bb\ufeff\u00ad".encode(), None, r"a\u200bb\ufeff\u00ad"),
        ("\u2028\u0085\u00a0\u3000".encode(), None, r"\u2028\u0085\u00a0\u3000"),
        ("\u3164\u2800\ufe0f\U000e0041".encode(), None, r"\u3164\u2800\ufe0f\U000e0041"),
        ("\u0301e\u0301".encode(), None, "\\u0301e\u0301"),  # no mark on the slash in front
        (b"\xed\xa0\x80", None, r"\xed\xa0\x80"),  # a surrogate is no character
        (b"+AC8-", "utf-7", "+AC8-"),
        (b"\xff+AC8-", "utf-7", r"\xff+AC8-"),
    ],
)
def test_names_are_shown(name: bytes, encoding: str | None, text: str) -> None:
    """UTF-8, else the code page, else bytes; what cannot be seen is spelled out."""
    assert reader(encoding)(name) == text
    assert read_all([b"plain", name], encoding) == ["plain", text]


@given(st.lists(st.binary(max_size=12), max_size=6))
@example([b"a/b", b"", b"/", b"c"])
def test_texts_are_harmless_and_tell_names_apart(names: list[bytes]) -> None:
    """Whatever the bytes are: no control, format or blank characters but the space; other bytes, another text."""
    texts = read_all(names, None)
    assert len(set(texts)) == len(set(names))
    for name, text in zip(names, texts, strict=True):
        assert text.count("/") == name.count(b"/")
        assert not {unicodedata.category(char) for char in text if char != " "} & {"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"}


@given(st.binary(max_size=12), st.sampled_from(["shift_jis", "euc_jp", "gbk", "big5", "koi8-r", "utf-7", "iso2022_jp"]))
def test_no_code_page_makes_a_name_two(name: bytes, encoding: str) -> None:
    """A slash in the text is a slash in the bytes, in every code page."""
    text = read_all([name], encoding)[0]
    assert text.count("/") == name.count(b"/")
    assert text.isprintable()


@pytest.mark.parametrize(
    "encoding", ["shift-jiss", "", "hex", "utf-16", "unicode_escape", "cp037", "a\0b", "undefined"]
)
def test_what_is_no_code_page_of_names_is_refused(encoding: str) -> None:
    """The error names the option and what was given, in one line."""
    with pytest.raises(UsageError, match=r"--name-encoding .*; (try|give)") as raised:
        reader(encoding)
    assert "\n" not in str(raised.value)


def test_formulas_are_defused() -> None:
    """What a spreadsheet would work out begins with its code instead; the rest stays as it is."""
    assert [no_formula(text) for text in ("=1+1", "+1", "-1", "@x", "＝1", "/a=b", "", "a")] == [
        r"\x3d1+1",
        r"\x2b1",
        r"\x2d1",
        r"\x40x",
        r"\uff1d1",
        "/a=b",
        "",
        "a",
    ]


def test_what_a_terminal_lacks_is_escaped() -> None:
    """Characters that a character set does not have are shown by their code, and never as a byte would be."""
    assert in_charset("a/é\U0001f600Ж", "ascii") == r"a/\u00e9\U0001f600\u0416"
    assert in_charset("é/Ж", "latin-1") == r"é/\u0416"
    assert in_charset("é/Ж", "utf-8") == "é/Ж"


def test_nothing_mounted_looks_like_an_unknown_directory() -> None:
    """Three dots at the front of a mounted path are no sign of a partial one."""
    assert [no_formula(text) for text in ("...", ".../a", "....", "..")] == [r"\x2e..", r"\x2e../a", "....", ".."]
