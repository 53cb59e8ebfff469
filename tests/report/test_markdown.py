"""What the Markdown promises: the verdict first, tables that parse, and nothing of the captures taken for markup."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nfslat.answer.model import Report
from nfslat.report.markdown import render

markdown_it = pytest.importorskip("markdown_it", reason="markdown-it-py is not installed")


def _tokens(text: str) -> list[object]:
    return list(markdown_it.MarkdownIt("commonmark", {"html": True}).enable("table").parse(text))


def _tables(text: str) -> list[list[int]]:
    """Of each table, how many cells each of its rows has."""
    tables: list[list[int]] = []
    for token in _tokens(text):
        kind = token.type  # type: ignore[attr-defined]
        if kind == "table_open":
            tables.append([])
        elif kind == "tr_open":
            tables[-1].append(0)
        elif kind in ("td_open", "th_open"):
            tables[-1][-1] += 1
    return tables


def test_the_verdict_is_the_heading(small: Callable[[], Report]) -> None:
    """The first line is the verdict as a heading; the figures of the report stand in the tables."""
    report = small()
    lines = render(report).splitlines()
    assert report.verdict is not None
    assert lines[0].replace("\\", "") == f"## {report.verdict.text}"
    assert _tables("\n".join(lines))


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_table_is_whole(data: st.DataObject, pictured: st.SearchStrategy[Report]) -> None:
    """Whatever the report holds, each table parses, with as many cells in each row as in its head."""
    text = render(data.draw(pictured))
    for table in _tables(text):
        assert len(set(table)) == 1
    assert text.count("\n\n\n") == 0


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "a|b", "`x`", "[x](http://y)", "*a*_b_", "x\ny", "# x"])
def test_names_are_no_markup(small: Callable[[], Report], name: str) -> None:
    """A file name or a note with Markdown or HTML in it adds no element to the page."""
    report = small()

    def kinds(notes: list[str], path: str) -> list[tuple[str, str]]:
        captures = {side: dataclasses.replace(one, path=path) for side, one in report.captures.items()}
        changed = dataclasses.replace(report, notes=notes, captures=captures)
        tokens = itertools.chain.from_iterable(
            [token, *(token.children or [])]  # type: ignore[attr-defined]
            for token in _tokens(render(changed))
        )
        return [(token.type, token.tag) for token in tokens if token.type != "softbreak"]  # type: ignore[attr-defined]

    assert kinds([name], name) == kinds(["plain"], "plain")
