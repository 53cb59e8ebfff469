"""What was injected, and lines of `nfslat live` -> what the lab says of them; and the scenario that it injects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from laboratory import live, live_judged, scenario

_CLOCK_S = 0.5  # the client's clock is so much ahead of that by which causes are injected
_TRUTH: dict[str, Any] = {
    "interval_s": 10.0,
    "begin_s": -_CLOCK_S,
    "end_s": 300.0,
    "clock_before": {"client_minus_host": {"offset_s": _CLOCK_S}, "client_minus_server_s": 0.0},
    "injected": [{"name": "delay", "right": ["net-delay"], "begin": [24.0, 24.5], "end": [64.0, 64.5]}],
    "busy": [[103.0, "server", 0.2]],
    "disk": [[101.0, 100, 500], [109.0, 200, 2500]],
}


def _moment(second: int) -> str:
    return f"1970-01-01T00:{second // 60:02d}:{second % 60:02d}.000000000Z"


def _lines(answers: dict[int, str], ended: dict[int, str]) -> str:
    """Stretches of 10 s from 0 on; without an answer nothing is at fault."""
    rows = []
    for begin in range(0, 120, 10):
        answer = answers.get(begin, "")
        outcome = {"": "no-fault", "?": "undecided"}.get(answer, "fault")
        over = [{"what": ended[begin]}] if begin in ended else []
        row = {"begin": _moment(begin), "end": _moment(begin + 10), "ops": 100, "confidence": "high", "ended": over}
        rows.append(json.dumps(row | {"outcome": outcome, "cause": answer or None}))
    return "\n".join(rows)


@pytest.mark.parametrize(
    ("answers", "ended", "said"),
    [
        (
            dict.fromkeys((20, 30, 40, 50, 60), "net-delay"),
            80,
            ["named in stretch 1, 5 s after", "end said 25 s after it"],
        ),
        (dict.fromkeys((30, 40), "net-delay"), 60, ["named in stretch 2, 15 s after", "end said 5 s after it"]),
        ({20: "net-delay", 30: "?", 40: "?"}, 40, ["end said 15 s TOO EARLY", "1 no fault"]),
        ({30: "net-loss"}, 50, ["NOT named", "OTHERS NAMED: 1 net-loss"]),
        ({30: "net-delay"}, None, ["end NOT said"]),
    ],
)
def test_when_a_cause_was_named_and_its_end_said(answers: dict[int, str], ended: int | None, said: list[str]) -> None:
    """In stretches and seconds from when it took effect, by the clock of the client."""
    over = {} if ended is None else {ended: "net-delay"}
    stretches = live_judged.stretches_of(_lines(answers, over))
    told = [line for line in live_judged.told(_TRUTH, stretches, []) if line.startswith("delay")]
    assert all(one in told[0] for one in said), told


def test_what_is_named_in_healthy_time_is_told_with_what_the_machine_did() -> None:
    """How long guests were held up then, and what the disk took; what a cause touches is no healthy stretch."""
    stretches = live_judged.stretches_of(_lines({20: "net-delay", 60: "net-loss", 100: "host-pause"}, {}))
    *_, counted, named = live_judged.told(_TRUTH, stretches, [])
    assert counted == "healthy: 7 stretches: 6 no fault, 1 host-pause"
    assert named.split(" ", 5)[-1] == (
        "host-pause; the server was held up once, for up to 200 ms; a request of its disk took 20.0 ms"
    )


def test_a_moment_is_right_where_plain_nfslat_names_the_cause() -> None:
    """Its packets, not the report that live wrote, are judged."""
    moments = [(22.0, "cannot tell", "net-delay"), (52.0, "net-delay", "cannot tell")]
    first, second = list(live_judged.told(_TRUTH, [], moments))[2:4]
    assert first.endswith("nfslat on its packets net-delay: right")
    assert second.endswith("nfslat on its packets cannot tell: WRONG")


def test_the_scenario_that_is_watched(tmp_path: Path) -> None:
    """Each cause begins and ends on guests that there are; a file that names another one is refused."""
    watched = scenario.read(live.FOLDER / "mixed.toml")
    assert [one.name for one in watched.inject] == ["threads", "storage", "delay", "loss", "disk stall", "reconnect"]
    assert all(one.right and one.begin and one.end for one in watched.inject)
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('description = ""\n[[inject]]\nname = "a"\nright = ["b"]\nbegin.host = "c"\nend.server = "d"\n')
    with pytest.raises(scenario.ScenarioError, match="'host' is none of server, client, client2"):
        scenario.read(wrong)
