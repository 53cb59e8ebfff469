"""Blocks are laid out as text of a width; what does not fit gives way in the order that its block says."""

from __future__ import annotations

from nfslat.report.blocks import Command, Fitted, Gap, Item, Lines, Prose, Table, Title, indented
from nfslat.report.markdown import paragraphs
from nfslat.report.text_writer import write


def test_columns_are_no_wider_than_what_stands_in_them() -> None:
    """No padding of the library: a column has the width of its header or of its widest cell, an empty one none."""
    text = write([Table("lrl", ("op", "client\nms", ""), [["READ", "1", ""], [indented("of it", 1), "22", ""]])])
    assert text.splitlines() == [
        "op       client",
        "             ms",
        "-------  ------",
        "READ          1",
        "  of it      22",
    ]


def test_a_table_without_room_gives_way_to_its_narrower_one() -> None:
    """The first table is shown whole or not at all."""
    narrower = Table("ll", (), [["a", "b"]])
    wide, fits = (Table("ll", (), [["a", "x" * columns]], narrower=narrower) for columns in (78, 77))
    assert write([wide]) == "a  b\n"
    assert write([fits]) == f"a  {'x' * 77}\n"


def test_the_last_column_takes_the_room_that_is_left() -> None:
    """It is wrapped, or loses what stands at its left."""
    row = ["w" * 50, "/first/of/all " + "word " * 10 + "end"]
    wrapped = write([Table("ll", ("a", "b"), [row], last="wrapped")]).splitlines()
    cut = write([Table("ll", ("a", "b"), [row], last="cut")]).splitlines()
    assert max(map(len, wrapped)) <= 80
    assert " ".join(line[52:] for line in wrapped[2:]) == row[1]
    assert cut[2] == f"{row[0]}  ...{row[1][-25:]}"
    assert len(cut[2]) == 80


def test_remarks_stay_remarks_on_each_line() -> None:
    """Commands are broken with a backslash, remarks with a sign of their own: all of it can be pasted."""
    words = " ".join(["word"] * 20)
    assert [line.split()[0] for line in write([Command("", f"# {words}", 3)]).splitlines()] == ["#", "#"]
    first, second = write([Command("", words, 3)]).splitlines()
    assert first.endswith(" \\")
    assert second.startswith("     word")


def test_one_empty_line_stands_before_a_title() -> None:
    """However many gaps there are; and none at the top."""
    blocks = [Gap(), Title("first"), Gap(), Gap(), Title("second"), Item("entry", indent=2)]
    assert write(blocks) == "first\n\nsecond\n  - entry\n"


def test_what_is_fitted_knows_the_width() -> None:
    """Blocks that are put together for a width get that of the text, at least 80."""
    fitted = Fitted(lambda width: [Lines(["=" * width]), Prose("behind")])
    assert write([fitted], width=90) == f"{'=' * 90}\nbehind\n"
    assert write([fitted], width=20) == f"{'=' * 80}\nbehind\n"


def test_entries_and_prose_are_paragraphs_in_markdown() -> None:
    """Entries that follow each other are a list, prose without a gap is a paragraph; nothing is taken for markup."""
    blocks = [Prose("a *b*"), Prose("c"), Item("x"), Item("y"), Gap(), Item("note", style="accent"), Title("t")]
    assert paragraphs(blocks) == ["a \\*b\\* c", "- x\n- y", "> **Note** note  ", "### t"]
