"""`nfslat stack`: figures of each layer -> the layer, the cause and the advice, without captures."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfslat.cli import main as cli
from nfslat.cli.numbers import Numbers, answer
from nfslat.errors import UsageError

ms = st.integers(0, 10**8).map(lambda us: us / 1000)


@given(st.lists(ms, min_size=5, max_size=5), st.sets(st.sampled_from(("app_ms", "thread_ms", "storage_ms"))))
def test_rows_sum_whatever_is_known(figures: list[float], known: set[str]) -> None:
    """The rows below a row sum to it, for any figures that fit into each other, and the verdict names a layer."""
    storage, thread, server, client, app = sorted(figures)
    others = {"app_ms": app, "thread_ms": thread, "storage_ms": storage}
    found = answer(Numbers(client, server, **{name: value for name, value in others.items() if name in known}))
    for at, row in enumerate(found.stack):
        end = next((n for n in range(at + 1, len(found.stack)) if found.stack[n].depth <= row.depth), len(found.stack))
        below = [one.ms for one in found.stack[at + 1 : end] if one.depth == row.depth + 1]
        if below:
            assert sum(below) == pytest.approx(row.ms)
    assert found.verdict.largest_layer in ("server", "network", "client") or not found.stack[0].ms
    assert all(one.share is None or 0 <= one.share <= 1 + 1e-9 for one in found.findings)


@given(
    st.lists(ms, min_size=5, max_size=5),
    st.sets(st.sampled_from(("app_ms", "client_ms", "server_ms", "thread_ms", "storage_ms")), min_size=1),
)
def test_any_figures_make_a_stack(figures: list[float], known: set[str]) -> None:
    """Of whichever figures are given the stack sums up, a layer is named by figures that bound it alone, and what was
    not measured between them is a row that says so, with the measurement that fills it."""
    names = ("storage_ms", "thread_ms", "server_ms", "client_ms", "app_ms")
    given: dict[str, Any] = {name: value for name, value in zip(names, sorted(figures), strict=True) if name in known}
    found = answer(Numbers(**given))
    assert (
        sum(row.ms for row in found.stack if row.depth == 1) == pytest.approx(found.stack[0].ms)
        or len(found.stack) == 1
    )
    if {"client_ms", "server_ms"} <= known:
        return
    is_open = any(row.layer.startswith("not told: ") and row.ms > found.stack[0].ms / 2 for row in found.stack)
    verdict = found.verdict
    assert (verdict.outcome, verdict.layer) == ("undecided", None) or not is_open
    if is_open and known & {"app_ms", "client_ms"}:
        assert verdict.next is not None
        assert ("--client-ms" in verdict.next.decides) == ("client_ms" not in known)
    app, client = given.get("app_ms"), given.get("client_ms")
    if app is not None and client is not None and app - client > app / 2:
        assert verdict.largest_layer == "client"


def test_application_and_storage_alone(capsys: pytest.CaptureFixture[str]) -> None:
    """The case that nfslat is for: the hole between the two is shown, no layer is blamed, and the next measurement is
    named, as a command."""
    assert cli.main(["stack", "--app-ms", "50", "--storage-ms", "1"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert out.startswith("Cannot tell yet: 49.00 of the application's 50.00 ms (98.0 %) lie in the client above the ")
    assert "not told: client, network, server 49.00 98.0 %" in out
    assert "Next nfslat capture --server SERVER --client CLIENT --app-ms 50 \\ --storage-ms 1 " in out
    assert "nfslat client.pcap alone tells the client from the rest (--client-ms)" in out
    assert cli.main(["stack", "--app-ms", "50", "--storage-ms", "1", "--json", "-"]) == 0
    said = json.loads(capsys.readouterr().out)["verdict"]
    assert (said["outcome"], said["layer"], said["cause"]) == ("undecided", None, None)
    assert said["next"]["command"].startswith("nfslat capture ")


def test_without_a_figure_the_figures_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    """`nfslat stack` alone says in a few lines what it takes."""
    assert cli.main(["stack"]) == 0
    out = capsys.readouterr().out
    assert len(out.splitlines()) <= 12
    assert all(f"--{name}-ms" in out for name in ("app", "client", "server", "thread", "storage"))


@pytest.mark.parametrize(
    ("words", "layer", "cause"),
    [
        ("--app-ms 50 --client-ms 3 --slots 16", "client", "client-slots"),
        ("--app-ms 50 --server-ms 48 --thread-ms 1 --threads 8", "server", "server-threads"),
        ("--app-ms 50 --storage-ms 40", "server", "server-storage"),
        ("--app-ms 50 --client-ms 3", None, None),
        ("--client-ms 48 --storage-ms 1", None, None),
        ("--server-ms 48", None, None),
        ("--app-ms 0", None, None),
    ],
)
def test_what_some_figures_prove(
    capsys: pytest.CaptureFixture[str], words: str, layer: str | None, cause: str | None
) -> None:
    """A layer is named where the figures beside it leave nothing else, and only there."""
    assert cli.main(["stack", *words.split(), "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)["verdict"]
    assert (found["layer"], found["cause"], found["outcome"] == "fault") == (layer, cause, layer is not None)


@pytest.mark.parametrize("figures", [{"server_ms": 3.0}, {"thread_ms": 2.0}, {"storage_ms": 1.5}])
def test_a_part_is_no_larger_than_the_whole(figures: dict[str, float]) -> None:
    """A layer that takes longer than the one that contains it is refused, with both figures."""
    with pytest.raises(UsageError, match="which contains it"):
        answer(Numbers(**{"client_ms": 2.0, "server_ms": 1.0, **figures}))


def test_the_text_holds_the_answer_and_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    """The first line names the layer; the stack and the advice follow; no line is wider than 80 columns."""
    assert cli.main(["stack", "--client-ms", "49", "--server-ms", "48", "--thread-ms", "1", "--threads", "8"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Calls queue in the server for one of its 8 threads: 47.00 of 49.00 ms")
    assert "one of its 8 threads" in " ".join(out.split())
    assert "rpc.nfsd " in out
    assert max(map(len, out.splitlines())) <= 80


def test_a_network_that_adds_most_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """Client SRT far above server SRT is the network; nothing is said of threads or slots."""
    assert cli.main(["stack", "--client-ms", "20", "--server-ms", "1", "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["findings"]) == ("nfslat.stack/2", [])
    assert found["verdict"]["largest_layer"] == "network"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--app-ms", "1", "--storage-ms", "2"], "--app-ms 1, which contains it"),
        (["--app-ms", "1", "--server-ms", "2"], "--app-ms 1, which contains it"),
        (["--json", "-"], "--json needs a figure"),
        (["--client-ms", "x", "--server-ms", "1"], "give milliseconds"),
        (["--client-ms", "2", "--server-ms", "nan"], "give milliseconds"),
        (["--client-ms", "2", "--server-ms", "1", "--threads", "-1"], "give a whole number"),
        (["--client-ms", "1", "--server-ms", "2"], "which contains it"),
    ],
)
def test_figures_that_make_no_sense_are_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A wrong figure is a usage error, in one line."""
    assert cli.main(["stack", *arguments]) == 2
    err = capsys.readouterr().err
    assert says in err
    assert len(err.splitlines()) == 1
