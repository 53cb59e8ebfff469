"""Situations that people ask about: what is right is what nfslat says, of both captures and of the client's alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from captures import needs_native
from situations import SITUATIONS, Right, Situation
from wire import write_pcap

from nfslat import api
from nfslat.errors import InputError

pytestmark = needs_native
CASES = [(one, sides, one.both if len(sides) == 2 else one.client) for one in SITUATIONS for sides in
         (("server", "client"), ("client",))]  # fmt: skip


def _case(situation: Situation, sides: tuple[str, ...], right: Right) -> Any:
    reason = pytest.mark.xfail(strict=True, raises=(AssertionError, InputError), reason=right.missing)
    name = f"{situation.name}-{len(sides)}"
    return pytest.param(situation, sides, right, id=name, marks=[reason] if right.missing else [])


@pytest.mark.parametrize(("situation", "sides", "right"), [_case(*case) for case in CASES])
def test_what_is_right_is_said(situation: Situation, sides: tuple[str, ...], right: Right, tmp_path: Path) -> None:
    """Outcome, layer and cause of the verdict, and of some a finding beside it."""
    world = situation.make()
    captures = [str(write_pcap(tmp_path / f"{side}.pcap", *world.seen_by(side))) for side in sides]
    summary = api.run(captures, api.Options()).summary
    verdict = summary.verdict
    assert verdict is not None
    assert verdict.outcome == right.outcome, verdict.text
    assert right.layer in (None, verdict.layer), verdict.text
    assert not right.causes or verdict.cause in right.causes, verdict.text
    assert not right.finding or right.finding in [finding.code for finding in summary.findings]
