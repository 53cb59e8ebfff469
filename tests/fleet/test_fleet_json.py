"""What the fleet's JSON promises: the published schema describes it, and it is read as it was written."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from typing import Any

import fleet_by_hand
import jsonschema
import pytest
from examples import examples
from fleet_by_hand import few, fleets, mixed, story, without_server
from hypothesis import HealthCheck, Phase, given, settings
from valid import validator

from nfslat.answer.model import Report
from nfslat.fleet import model

_TAKEN = ["Tool", "Summary", "Level", "ServerInFlight", "ClockStep", "Clock", "Verdict"]  # of the two-sided report


@pytest.mark.parametrize("name", _TAKEN)
def test_what_both_contracts_have_is_the_same(name: str) -> None:
    """Whoever reads a clock or a verdict of the two-sided report can read the fleet's."""
    assert model.Fleet.json_schema()["$defs"][name] == Report.json_schema()["$defs"][name]


@pytest.mark.parametrize("make", [story, few, mixed, without_server], ids=lambda make: make.__name__)
def test_a_fleet_by_hand_is_valid(make: Callable[[], model.Fleet]) -> None:
    """The fleets of the renderers' tests are such as the contract allows, and read back as they were written."""
    stream = io.StringIO()
    make().write_json(stream)
    read = json.loads(stream.getvalue())
    validator(model.Fleet).validate(read)
    assert read == make().to_dict()
    assert model.Fleet.from_json(stream.getvalue()) == make()
    assert list(read) == [field.name for field in dataclasses.fields(model.Fleet)]


@given(fleet=fleets())
@settings(max_examples=examples(25), deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
def test_any_fleet_is_valid_and_survives_the_round_trip(fleet: model.Fleet) -> None:
    """Whatever is in a fleet, its JSON validates against the schema and reads back as the same values."""
    stream = io.StringIO()
    fleet.write_json(stream)
    stream.getvalue().encode("ascii")
    read = json.loads(stream.getvalue())
    validator(model.Fleet).validate(read)
    assert read == fleet.to_dict()
    assert model.Fleet.from_json(stream.getvalue()) == fleet


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.update(extra=1),
        lambda d: d.pop("problems"),
        lambda d: d["clients"][0].update(state="lost"),
        lambda d: d["verdict"].update(layer="disk"),
        lambda d: d["run"]["tasks"].update(late=1),
        lambda d: d["server"]["windows"][-1]["threads_range"].append(9),
        lambda d: d["patterns"][0].update(p_value=1.5),
    ],
    ids=["unknown key", "missing key", "unknown state", "unknown layer", "unknown task", "three bounds", "chance"],
)
def test_the_fleets_schema_refuses_what_the_model_has_not(spoil: Callable[[dict[str, Any]], object]) -> None:
    """A report with one thing wrong does not validate."""
    document = fleet_by_hand.story(2).to_dict()
    validator(model.Fleet).validate(document)
    spoil(document)
    with pytest.raises(jsonschema.ValidationError):
        validator(model.Fleet).validate(document)


def test_no_number_that_json_has_not_is_written() -> None:
    """NaN would be read by some programs and not by others."""
    fleet = dataclasses.replace(story(2), window_s=float("nan"))
    with pytest.raises(ValueError, match="JSON"):
        fleet.write_json(io.StringIO())
