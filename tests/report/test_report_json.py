"""What the JSON report promises: the published schema describes it, and it is read as it was written."""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from valid import validator

from nfslat.answer import model


@given(data=st.data())
@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_report_is_valid_and_survives_the_round_trip(
    pictured: st.SearchStrategy[model.Report], data: st.DataObject
) -> None:
    """Whatever is in a report, its JSON validates against the schema and reads back as the same report."""
    report = data.draw(pictured)
    stream = io.StringIO()
    report.write_json(stream)
    read = json.loads(stream.getvalue())
    validator(model.Report).validate(read)
    assert read == report.to_dict()
    assert list(read) == [field.name for field in dataclasses.fields(model.Report)]
    assert model.Report.from_json(stream.getvalue()) == report


@pytest.mark.parametrize(
    "spoil",
    [
        lambda d: d.update(extra=1),
        lambda d: d.pop("notes"),
        lambda d: d["captures"].clear(),
        lambda d: d["captures"]["server"]["messages"].update(LOST=1),
        lambda d: d["verdict"].update(layer="disk"),
        lambda d: d["clock"]["bound_ms"].append(1.0),
    ],
    ids=["unknown key", "missing key", "no side", "unknown state", "unknown layer", "three bounds"],
)
def test_the_schema_refuses_what_the_model_has_not(
    small: Callable[[], model.Report], spoil: Callable[[dict[str, Any]], object]
) -> None:
    """A report with one thing wrong does not validate."""
    document = small().to_dict()
    validator(model.Report).validate(document)
    spoil(document)
    with pytest.raises(jsonschema.ValidationError):
        validator(model.Report).validate(document)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_not_a_number_is_an_error(small: Callable[[], model.Report], value: float) -> None:
    """NaN and infinity are not JSON, and are never written."""
    report = small()
    assert report.clock is not None
    report = dataclasses.replace(report, clock=dataclasses.replace(report.clock, theta_ms=value))
    with pytest.raises(ValueError, match="JSON compliant"):
        report.write_json(io.StringIO())
