"""scripts/words.py: which names and docstrings it counts, and that there are no more of them than it allows."""

from __future__ import annotations

import words

SOURCE = '''
"""All modules may begin as they like."""
_FEW = 3
_MOST_ROWS = 3
_LATE_NS: int = 5
LIMITS = [one.row for one in ()]


class _Told:
    """Of a stretch."""


class ThreadWait:
    """How long calls wait for a thread."""

    def of(self, given: int) -> int:
        """Those that are waited for by a call of the client."""
        found = given
        return found


def said() -> None:
    """Allowed are words that only begin like the others."""
'''


def test_each_kind_is_counted_where_it_stands() -> None:
    """Names with a noun, whole sentences and docstrings of modules are not among what is counted."""
    lines = SOURCE.split("\n")
    places: dict[str, list[str]] = {kind: [] for kind in words.CEILINGS}
    for word in words.words_in(SOURCE):
        assert word.text.split()[0] in lines[word.line - 1] + lines[word.line]
        places[word.kind].append(word.text)
    assert {kind: sorted(texts) for kind, texts in places.items()} == {
        words.SHORT: ["Of a stretch."],
        words.SUBJECTLESS: ["Of a stretch.", "Those that are waited for by a call of the client."],
        words.PARTICIPLE: ["_Told"],
        words.NOUNLESS: ["_FEW", "_LATE_NS"],
        words.BINDING: ["found", "given", "one", "said"],
    }


def test_there_are_not_more_than_before() -> None:
    """What is new is named well; whoever renames something old lowers the ceiling with `--lower`."""
    counts = {kind: len(texts) for kind, texts in words.places().items()}
    assert {kind: count for kind, count in counts.items() if count > words.CEILINGS[kind]} == {}
