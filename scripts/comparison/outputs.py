"""What a call of nfslat wrote -> text that can be compared: masked where two runs must differ, and where they do."""

from __future__ import annotations

import difflib
import hashlib
import importlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_SCRIPT = re.compile(r"(<(script|style)\b[^>]*>)(.*?)(</\2>)", re.DOTALL)
_POLICY = re.compile(r"'sha256-[A-Za-z0-9+/=]+'")
_LONG = 160
_WINDOW = 400  # lines: difflib takes the square of what it gets
_CONTEXT = 2
# What a fleet's run cost, and where its workers listened.
_FLEET_RUN = re.compile(r"((?:Scheduler \S+|This machine): [^;]*?workers?) on.*?(Tasks: .*? again\.)", re.DOTALL)
_MEASURED = re.compile(r'("(?:peak_rss_bytes|memory_limit_bytes|elapsed_s|wall_s)": )[\d.e+]+')
_WORKER_ROW = re.compile(r"(?<=tcp://127\.0\.0\.1:)\d+\s*</th>.*?</tr>", re.DOTALL)
_LISTENS = re.compile(r"(tcp://127\.0\.0\.1:)\d+")


@dataclass(frozen=True)
class Masks:
    """What differs between two runs of the same program: where it runs, names of scratch files, and its version."""

    places: tuple[tuple[str, str], ...]
    version: str

    def masked(self, text: str) -> str:
        """`text` without that."""
        for place, name in self.places:
            text = text.replace(place, name)
        # Its lines break where its figures end.
        text = _FLEET_RUN.sub(lambda match: " COST ".join(" ".join(part.split()) for part in match.groups()), text)
        text = _WORKER_ROW.sub(lambda match: re.sub(r"\d[\d,]{6,}", "MEASURED", match[0]), text)
        text = _LISTENS.sub(r"\1PORT", _MEASURED.sub(r"\1MEASURED", text))
        text = re.sub(r"(?<=nfslat-)[a-z0-9_]{8}\b", "SCRATCH", text)
        return re.sub(rf'((?:nfslat|native|"version":) "?){re.escape(self.version)}(?![\d.])', r"\1VERSION", text)


def as_text(path: Path) -> str:
    """A file as text, lossless but for Parquet, of which the table counts, and for a page's scripts and styles."""
    if path.suffix == ".parquet":
        return _table(path)
    data = path.read_bytes()
    if path.suffix in (".png", ".pcapng"):
        return "".join(data[at : at + 32].hex(" ", 4) + "\n" for at in range(0, len(data), 32))
    text = data.decode("utf-8", "surrogateescape")
    return page(text) if path.suffix == ".html" else text


def page(text: str) -> str:
    """A page, a line for each tag, its charts' specifications indented, its scripts and styles as their digests."""

    def shortened(match: re.Match[str]) -> str:
        begin, _, body, end = match.groups()
        try:
            body = json.dumps(json.loads(body), indent=1)
        except ValueError:
            digest = hashlib.sha256(body.encode("utf-8", "surrogateescape")).hexdigest()
            body = f"{len(body)} characters, sha256 {digest}" if body.strip() else ""
        return f"{begin}{body}{end}"

    return _POLICY.sub("'sha256'", _SCRIPT.sub(shortened, text)).replace("<", "\n<")


def _table(path: Path) -> str:
    # By its name: it is an extra, and most outputs need none.
    table = importlib.import_module("pyarrow.parquet").read_table(path)
    metadata = table.schema.metadata or {}
    lines = [f"{table.num_rows} rows", *(f"{key.decode()}: {value.decode()}" for key, value in metadata.items())]
    for column in table.schema:
        values = repr(table.column(column.name).to_pylist())
        digest = hashlib.sha256(values.encode("utf-8", "surrogateescape")).hexdigest()[:32]
        described = f"{column.name}: {column.type}, nullable {column.nullable}, {column.metadata or ''}"
        lines.append(f"{described} sha256 {digest} {values[:80]}")
    return "\n".join(lines) + "\n"


def difference(old: str, new: str, lines: int) -> list[str]:
    """The first difference of two texts as a short unified diff, at most so many lines; no line if they are equal."""
    if old == new:
        return []
    before, after = _lines(old), _lines(new)
    both = min(len(before), len(after))
    first = next((at for at in range(both) if before[at] != after[at]), both)
    begin = max(0, first - _CONTEXT)
    end = begin + _WINDOW
    diff = list(difflib.unified_diff(before[begin:end], after[begin:end], n=_CONTEXT, lineterm=""))
    shown = [line.encode("utf-8", "backslashreplace").decode() for line in diff[2:] if not line.startswith("@@")]
    found = [f"@@ line {first + 1} @@", *shown]
    return [*found[:lines], "..."] if len(found) > lines else found


def _lines(text: str) -> list[str]:
    """Lines that fit a terminal; what ends differently differs."""
    lines = []
    for line in text.splitlines(keepends=True):
        bare = line.removesuffix("\n")
        shown = bare if bare != line else bare + "\\ no newline"
        lines += [shown[at : at + _LONG] for at in range(0, max(1, len(shown)), _LONG)]
    return lines


class Count:
    """Outputs and cases that were compared."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.cases = self.equal = self.differ = 0

    def add(self, old: Mapping[str, str], new: Mapping[str, str], lines: int) -> list[str]:
        """The outputs of a case by their names: what is to be said of those that differ."""
        self.cases += 1
        said = []
        for name in sorted(old.keys() | new.keys()):
            if name not in old or name not in new:
                problem = [f"only the {'old' if name in old else 'new'} one writes it"]
            else:
                problem = difference(old[name], new[name], lines)
            self.equal += not problem
            self.differ += bool(problem)
            if problem:
                said += [f"  {name}", *(f"    {line}" for line in problem)]
        return said

    def __str__(self) -> str:
        """One line."""
        outputs = self.equal + self.differ
        return f"{outputs} outputs of {self.cases} cases: {self.equal} equal, {self.differ} differ"
