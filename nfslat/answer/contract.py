"""What every JSON report has in common: a `Document` is written, read back and described by its class alone.

Type hints say what JSON holds, `Must` what they cannot say, comments beside the fields are the descriptions in the
schema. The classes are msgspec's, which makes hundreds of them in the time that dataclasses take for a few. Its JSON is
not ours: it writes NaN as null, takes no descriptions from comments, and leaves keys with defaults out of `required`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self, TextIO, TypeVar, cast

from nfslat.model.record import Record

if TYPE_CHECKING:
    from collections.abc import Mapping

T = TypeVar("T")


class Must:
    """Keywords of JSON Schema that hold for a value beyond its type; `some_of` a dataclass: some of its fields."""

    def __init__(self, **keywords: Any) -> None:
        self.keywords: Mapping[str, Any] = keywords


Count = Annotated[int, Must(minimum=0)]
Positive = Annotated[int, Must(minimum=1)]
NotNegative = Annotated[float, Must(minimum=0)]
Share = Annotated[float, Must(minimum=0, maximum=1)]
Time = Annotated[str, Must(format="date-time")]  # ISO 8601 with zone

Severity = Annotated[str, Must(enum=["info", "warning"])]
Side = Annotated[str, Must(enum=["server", "client"])]
Layer = Annotated[str, Must(enum=["server", "network", "client"])]
LayerOrUnknown = Annotated[str, Must(enum=["server", "network", "client", "unknown"])]
LayerOrCapture = Annotated[str, Must(enum=["server", "network", "client", "capture"])]
OUTCOMES = ["fault", "no-fault", "undecided"]
VerdictOutcome = Annotated[str, Must(enum=OUTCOMES)]  # of a verdict
HowSure = Annotated[str, Must(enum=["high", "medium", "low"])]  # of a verdict
HowProven = Annotated[str, Must(enum=["certain", "likely"])]  # of a finding

_SIDES = ["server", "client"]
_NAMES = {"enum": [*_SIDES, "capture"]}
BothSides = Annotated[dict[str, T], Must(propertyNames={"enum": _SIDES}, required=_SIDES)]
Sides = Annotated[dict[str, T], Must(propertyNames=_NAMES)]
BothSidesOrCapture = Annotated[
    dict[str, T],
    Must(
        propertyNames=_NAMES,
        anyOf=[{"required": _SIDES, "maxProperties": 2}, {"minProperties": 1, "maxProperties": 1}],
    ),
]


class Document(Record):
    """A class that is a whole report; `schema`, its first field, names the contract: ``nfslat.report/2``.

    What only some need is imported late: whoever starts nfslat gets here.
    """

    made_by: ClassVar[str]  # the command

    def to_dict(self) -> dict[str, Any]:
        """Dictionaries, lists, strings and numbers; keys in the order in which the fields are declared."""
        from nfslat.answer.json import plain  # noqa: PLC0415

        return cast(dict[str, Any], plain(self))

    def write_json(self, out: TextIO) -> None:
        """Raises ``ValueError`` on NaN and infinity, which JSON does not have."""
        from nfslat.answer.json import text  # noqa: PLC0415

        out.write(text(self.to_dict()) + "\n")

    @classmethod
    def from_json(cls, text: str, name: str = "JSON") -> Self:
        """What `write_json` wrote, this version's or an earlier one's: keys that this one does not know are left out.

        Raises ``InputError``, in one line that begins with `name` and says which value is missing or wrong.
        """
        from nfslat.answer.read import from_json  # noqa: PLC0415

        return from_json(cls, text, name, cls.made_by)

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The JSON Schema (draft 2020-12) that every such report satisfies; scripts/generate makes it."""
        import json  # noqa: PLC0415
        from importlib import resources  # noqa: PLC0415

        package = cls.__module__.rpartition(".")[0]
        return cast(dict[str, Any], json.loads(resources.files(package).joinpath("schema.json").read_text("utf-8")))
