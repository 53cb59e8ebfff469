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


_OTHERS: tuple[Any, ...] = (None, True, -1, 1.5, 2.0, 10**9, "text", [], [1, 2, 3], {}, {"server": 1})


@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_the_quick_check_of_the_tests_refuses_what_the_schema_does(
    small: Callable[[], model.Report], data: st.DataObject
) -> None:
    """Wherever a report has another value, a key more or a key less, tests/valid.py says of it what jsonschema says."""
    document = small().to_dict()
    at: Any = document
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if not (isinstance(at[key], dict | list) and at[key] and data.draw(st.integers(0, 3))):
            break
        at = at[key]
    match data.draw(st.sampled_from(["other", "less", "more"])):
        case "less":
            del at[key]
        case "more" if isinstance(at, dict):
            at["extra"] = at[key]
        case _:
            at[key] = data.draw(st.sampled_from(_OTHERS))
    checks = validator(model.Report)
    assert checks.allows(document) == checks.whole.is_valid(document)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_not_a_number_is_an_error(small: Callable[[], model.Report], value: float) -> None:
    """NaN and infinity are not JSON, and are never written."""
    report = small()
    assert report.clock is not None
    report = dataclasses.replace(report, clock=dataclasses.replace(report.clock, theta_ms=value))
    with pytest.raises(ValueError, match="JSON compliant"):
        report.write_json(io.StringIO())
