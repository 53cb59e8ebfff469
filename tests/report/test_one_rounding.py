"""A figure has the same digits wherever a report shows it, and the digits of parts add up to those of the whole."""

from __future__ import annotations

import dataclasses
import html
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from examples import examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import nfslat
from nfslat.answer.figures import Summary
from nfslat.answer.model import Report, StackRow
from nfslat.evidence.known import Known
from nfslat.figures.stack import Layer, layers
from nfslat.findings.diagnosis import Diagnosis
from nfslat.findings.layers import Layers
from nfslat.findings.leads import Ground
from nfslat.findings.server import Queue
from nfslat.findings.verdict import verdict
from nfslat.report import markdown, text
from nfslat.report.html.page import render as page

_SAMPLES = sorted(path.parent for path in (Path(__file__).parents[2] / "samples").glob("*/server.pcap.gz"))
_NUMBER = r"-?[\d.]+"
_WHERE = {"above the wire in the client": "above the wire", "in the server": "server", "in the network": "network"}
Printed = dict[str, set[str]]  # by the names of the latency stack, all forms in which a figure is printed


def _of_headline(said: str, printed: Printed, whole: str) -> None:
    """Where the time goes; and the figure of the cause, by the share that stands beside it."""
    if goes := re.search(rf"mean [\w ]+ takes ({_NUMBER}) ms: (.+?)\.(?: |$)", said):
        printed[whole].add(goes[1])
        for part in goes[2].split(", "):
            figure, where = part.split(" ", 1)
            printed[_WHERE[where]].add(figure)
    if cause := re.search(rf": (?:up to )?({_NUMBER}) of ({_NUMBER}) ms[\w' ]* \(({_NUMBER} %)\)", said):
        printed[whole].add(cause[2])
        printed[cause[3]].add(cause[1])


def _of_text(shown: str, printed: Printed) -> None:
    for client, network, server in re.findall(
        rf"^mean client SRT +({_NUMBER}) += network +({_NUMBER}) +\+ server +({_NUMBER}) ", shown, re.MULTILINE
    ):
        _add(printed, {"client SRT": client, "network": network, "server": server})
    stack = shown.partition("\nLatency stack, mean ms")[2].partition("\n\n")[0]
    for name, figure in re.findall(rf"^ *(\w[\w ]*?) +({_NUMBER}) +(?:{_NUMBER} %|-) ", stack, re.MULTILINE):
        printed[name].add(figure)


def _of_page(shown: str, printed: Printed) -> None:
    """Tiles, and the table of the stack. Below tiles of the application's time those of all operations stand."""
    names = {"above": "above the wire", "client": "client SRT"}
    tiles = re.findall(r'data-figure="(stack_|)(\w+?)_ms">([^<]+)</data>', shown)
    for prefix, key, figure in tiles:
        if prefix != max(one for one, *_ in tiles):
            continue
        if key in ("application", "above", "network", "server", "client"):
            printed[names.get(key, key)].add(figure)
    (table,) = re.findall(r'<table class="stack">(.*?)</table>', shown, re.DOTALL)
    for name, figure in re.findall(r'class="depth-\d">([^<]+)</th><td class="n"><data [^>]+>([^<]+)</data>', table):
        printed[html.unescape(name)].add(figure)


def _of_markdown(shown: str, printed: Printed) -> None:
    stack = shown.partition("### From application to storage")[2].partition("\n#")[0]
    for name, figure in re.findall(rf"^\| (?:- )*(\w[\w ]*?) +\| .*?\| +({_NUMBER}) \|", stack, re.MULTILINE):
        printed[name].add(figure)


def _add(printed: Printed, figures: dict[str, str]) -> None:
    for name, figure in figures.items():
        printed[name].add(figure)


def _printed(report: Report) -> Printed:
    printed: Printed = defaultdict(set)
    assert report.verdict is not None
    _of_text(text.render(report, full=True), printed)
    _of_text(text.render(report), printed)
    _of_page(page(report), printed)
    _of_markdown(markdown.render(report), printed)
    _of_headline(report.verdict.text, printed, "application" if "application" in printed else "client SRT")
    return printed


def _sums(printed: Printed) -> Iterator[tuple[str, tuple[str, ...]]]:
    yield "client SRT", ("network", "server")
    yield "application", ("above the wire", "client SRT")
    yield "server", ("waiting for a thread", "in a thread")


def _holds(report: Report, least: int) -> Printed:
    """At least so many figures are printed, each in one form, and they add up; so does the cause's with the stack's."""
    printed = _printed(report)
    assert {name: forms for name, forms in printed.items() if len(forms) > 1} == {}
    assert len(printed) >= least
    digits = {name: Decimal(next(iter(forms))) for name, forms in printed.items()}
    for whole, parts in _sums(printed):
        if whole in digits and set(parts) <= set(digits):
            assert digits[whole] == sum(digits[part] for part in parts), whole
    return printed


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("options", [{}, {"app_ms": 1000.0, "storage_ms": 0.05}], ids=["captures", "known"])
@pytest.mark.parametrize("sample", _SAMPLES, ids=lambda path: path.name)
def test_samples_print_a_figure_in_one_form(sample: Path, options: dict[str, object]) -> None:
    """Headline, proof, latency stack, tiles of the page, Markdown."""
    found = nfslat.correlate(sample / "server.pcap.gz", sample / "client.pcap.gz", **options)  # type: ignore[arg-type]
    _holds(found.figures, 6 if options else 3)


def test_the_causes_figure_is_that_of_the_stack() -> None:
    """As in the README: the wait for a thread is the same in the headline and in the stack."""
    sample = next(path for path in _SAMPLES if path.name == "server-threads")
    figures = nfslat.correlate(sample / "server.pcap.gz", sample / "client.pcap.gz").figures
    printed = _printed(figures)
    assert printed["89.0 %"] == printed["waiting for a thread"] == {"259.6"}


def test_an_operation_of_the_evidence_is_that_of_the_page() -> None:
    """What the other team looks up has the digits of the slowest operations, and they add up."""
    sample = next(path for path in _SAMPLES if path.name == "server-threads")
    shown = page(nfslat.correlate(sample / "server.pcap.gz", sample / "client.pcap.gz").figures)
    data = rf"<td[^>]*><data [^>]*>({_NUMBER})</data></td>"
    slowest = re.findall(rf"<code>(0x\w+)</code></th>\s*{data}{data}{data}", shown)
    named = re.findall(
        rf"XID (0x\w+), .*?: client ({_NUMBER})\sms = network ({_NUMBER}) \+ server ({_NUMBER})", html.unescape(shown)
    )
    assert len(slowest) >= 3
    assert {(xid, client, server, network) for xid, client, network, server in named} <= set(slowest)
    assert named
    assert all(Decimal(client) == Decimal(network) + Decimal(server) for _, client, server, network in slowest)


_ms = st.one_of(st.floats(0.001, 2), st.floats(0.5, 150), st.floats(50, 20_000), st.sampled_from([0.05, 99.95, 1.005]))


@settings(max_examples=examples(30), deadline=None, suppress_health_check=list(HealthCheck))
@given(network=_ms, queue=_ms, work=_ms, above=st.none() | _ms)
def test_made_reports_print_a_figure_in_one_form(
    small: Callable[[], Report], network: float, queue: float, work: float, above: float | None
) -> None:
    """Whatever the sizes of the parts are; and the figure of the cause is that of its row of the stack."""
    server = queue + work
    client = server + network
    mean = Layers(server, network, above, queue_ms=queue)
    share = queue / mean.total_ms
    assume(share >= 0.2)
    app = None if above is None else client + above
    rows, _ = layers(Layer("all", client, server, app=app, queue=queue, threads=2), Known())
    printed = _holds(_made(small(), mean, rows, share), 5)
    assert printed[f"{share * 100:.1f} %"] == printed["waiting for a thread"]


def _made(report: Report, mean: Layers, rows: list[StackRow], share: float) -> Report:
    """`report` with these means, and the verdict that they make."""
    assert report.matched is not None
    assert report.matched.total is not None
    evidence = Queue(queue_ms=share * mean.total_ms, in_thread_ms=1.0, server_ms=mean.server_ms, workers=None)
    cause = Diagnosis("server-threads", "server", "warning", share, None, "certain", "calls wait", evidence, None)
    client_ms = mean.server_ms + mean.network_ms
    total = dataclasses.replace(
        report.matched.total,
        client_ms=Summary(client_ms, *[client_ms] * 4),
        server_ms=Summary(mean.server_ms, *[mean.server_ms] * 4),
        network_ms=Summary(mean.network_ms, *[mean.network_ms] * 4),
        queue_ms=mean.queue_ms,
    )
    ground = Ground(ops=1000, complete=1.0, incomplete="", negative=0, clock_fits=True)
    return dataclasses.replace(
        report,
        matched=dataclasses.replace(report.matched, by_op=[total], total=total),
        stack=rows,
        findings=[cause.as_finding()],
        verdict=verdict(mean, mean, ground, [cause]),
    )
