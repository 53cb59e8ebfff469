"""A client's comparison -> its summary: figures against those of its report, sums against those of its ops."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
from captures import SAMPLES
from hypothesis import given
from hypothesis import strategies as st

import nfslat
from nfslat.answer import model
from nfslat.fleet.compare.attributes import Top, subnet_of, top_of, top_path, tops_of
from nfslat.fleet.compare.cells import NO_SIZE, OpClass, cells_of
from nfslat.fleet.compare.summary import ClientSummary, summarize, summarize_server_only
from nfslat.fleet.compare.windows import Windows
from nfslat.inflight.all_clients import ServerWide
from nfslat.model.protocol import DATA_OPS
from nfslat.results import Analysis
from nfslat.tally.sketch import RELATIVE_ERROR, Sketch

NAMES = ("client-slots", "packet-loss", "server-threads", "session-slots", "slow-network")
Both = tuple[Analysis, model.Report, ClientSummary]


def summarized(name: str, count: int = 6) -> Both:
    """A sample, its report, and the summary of it."""
    folder = next(path.parent for path in SAMPLES if path.parent.name == name)
    report = nfslat.correlate(str(folder / "server.pcap.gz"), str(folder / "client.pcap.gz"))
    c, figures = report.correlation, report.summary
    return c, figures, summarize(c, figures, windows(c, count), ["10.7.8.9"], {"rack": "B"}, name=name)


def windows(c: Analysis, count: int) -> Windows:
    t_ns = c.server.ops.t1
    return Windows(int(t_ns.min()), int(t_ns.max() - t_ns.min()) // count + 1, count)


@pytest.fixture(scope="module", params=NAMES)
def both(request: pytest.FixtureRequest) -> Both:
    return summarized(request.param)


def test_figures_are_those_of_the_report(both: Both) -> None:
    """By operation: counts, means and maxima exactly, percentiles within the sketch's error."""
    _, report, made = both
    assert report.matched is not None
    by_op = {row.label: row for row in made.by_op.rows()}
    assert {names: row.count for names, row in by_op.items()} == {
        (row.program, row.op, row.version): row.count for row in report.matched.by_op
    }
    for row in report.matched.by_op:
        own = by_op[row.program, row.op, row.version]
        for side, exact in (("client", row.client_ms), ("server", row.server_ms), ("network", row.network_ms)):
            found = own.summary(side)
            assert found is not None
            assert found.mean == pytest.approx(exact.mean)
            assert found.max == exact.max
            assert found.p95 == pytest.approx(exact.p95, rel=RELATIVE_ERROR) or exact.p95 <= 0
    total = report.matched.total
    assert total is not None
    assert (made.ops, made.client_ms, made.server_ms) == (total.count, total.client_ms, total.server_ms)
    assert made.queue_ms == (None if total.queue_ms is None else pytest.approx(total.queue_ms))


def test_sums_are_exact(both: Both) -> None:
    """Over time and classes."""
    c, _, made = both
    client, server = int(c.client_srt_ns.sum()), int(c.server_srt_ns.sum())
    assert (made.cells.total("client"), made.cells.total("server")) == (client, server)
    assert made.cells.total("ops") == len(c.matched)


def test_an_op_belongs_to_the_window_in_which_the_server_had_its_call(both: Both) -> None:
    """Counted by hand."""
    c, _, made = both
    at_ns = c.server.ops.t1[c.matched.server]
    own = windows(c, 6)
    expected = np.bincount((at_ns - own.begin_ns) // own.step_ns, minlength=6)
    assert made.cells.by_window("ops").tolist() == expected.tolist()
    assert made.cells.windows == 6


def test_sizes_part_what_moves_data(both: Both) -> None:
    """READs and WRITEs have a size, up to a factor of two; other operations have none."""
    _, _, made = both
    for one in made.cells.classes:
        assert (one.size_log2 == NO_SIZE) == (one.op not in DATA_OPS)
    assert len(set(made.cells.classes)) == len(made.cells.classes)


def test_what_the_report_says_besides_is_kept(both: Both) -> None:
    """Verdict, findings, clock and limits; and what may be common to clients."""
    c, report, made = both
    assert (made.verdict, made.clock) == (report.verdict, report.clock)
    assert [(one.code, one.share) for one in made.findings] == [(one.code, one.share) for one in report.findings]
    assert report.inflight is not None
    assert (made.slots_held, made.in_flight_max) == (report.inflight.client.held, report.inflight.client.max)
    assert {"subnet": "10.7.8.0/24", "rack": "B"}.items() <= made.groups.items()
    assert {"nfs", "connections", "server address"} <= made.groups.keys()
    assert made.groups["server address"] in str(c.server.ops.connections)


def test_a_summary_is_small(both: Both) -> None:
    """It goes from a worker to the process that compares all of them."""
    assert len(pickle.dumps(both[2])) < 200_000


def test_slots_and_loss_of_the_samples() -> None:
    """The number of slots where they hold the client; lost segments where some were lost."""
    assert summarized("client-slots")[2].slots == 2
    lost = summarized("packet-loss")[2]
    assert lost.lost_segments is not None
    assert lost.lost_segments > 0
    assert lost.sent_again_share is not None
    assert 0.0 < lost.sent_again_share < 0.1


def test_without_a_capture_of_the_client() -> None:
    """What the server shows is the same, the rest is not known; waits come from the analysis of all clients."""
    c, _, whole = summarized("server-threads")
    about = windows(c, 6), ["fd00::1"], dict[str, str]()
    made = summarize_server_only(c.server, *about, name="one")
    assert (made.state, made.client_ms, made.network_ms, made.queue_ms) == ("server only", None, None, None)
    assert made.groups["subnet"] == "fd00::/64"
    assert made.ops == int(np.count_nonzero(c.server.forward))
    assert made.server_ms is not None
    rows = np.flatnonzero(c.server.forward)
    assert made.server_ms.mean == pytest.approx((c.server.ops.t2[rows] - c.server.ops.t1[rows]).mean() / 1e6)
    wide = ServerWide(c.inflight.server, c.inflight.load)
    waiting = summarize_server_only(c.server, *about, wide, name="one")
    assert waiting.queue_ms == pytest.approx(whole.queue_ms, rel=0.05)
    assert made.in_flight_max == c.inflight.server.levels.max


# --- Cells ------------------------------------------------------------------------------------------------------------

_OP = st.tuples(
    st.integers(0, 2), st.integers(0, 3), st.integers(-(1 << 40), 1 << 61), st.integers(0, 1 << 40),
    st.integers(-1, 1 << 40),
)  # fmt: skip
_CLASSES = tuple(OpClass("NFS", name, "3") for name in ("READ", "WRITE", "GETATTR"))


@given(st.lists(_OP, max_size=30))
def test_cells_sum_to_the_ops(ops: list[tuple[int, int, int, int, int]]) -> None:
    """Each op in one cell, sums as of Python's integers; an unknown wait is not counted as none."""
    columns = np.array(ops, dtype=np.int64).reshape(-1, 5)
    of_op, window, client, server, queue = (columns[:, at].copy() for at in range(5))
    client %= 1 << 56
    made = cells_of(_CLASSES, of_op, window, 4, client, server, queue)
    for row in range(4):
        for column in range(3):
            own = [at for at in range(len(ops)) if (window[at], of_op[at]) == (row, column)]
            known = [int(queue[at]) for at in own if queue[at] >= 0]
            assert int(made.ops[row, column]) == len(own)
            assert int(made.client[row, column]) == sum(int(client[at]) for at in own)
            assert int(made.server[row, column]) == sum(int(server[at]) for at in own)
            assert (int(made.queue[row, column]), int(made.queues[row, column])) == (sum(known), len(known))


# --- Paths ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "top"),
    [
        ("/srv/db/redo/log1", "/srv/db"),
        ("/srv/file", "/srv/file"),
        ("/file", "/file"),
        (".../db/redo/file", ".../db"),
        (".../file", ".../file"),
        ("...", ""),
        ("/", ""),
        ("", ""),
    ],
)
def test_the_first_levels_of_a_path(path: str, top: str) -> None:
    """Two, of which what was mounted is one; by itself it says nothing."""
    assert top_path(path) == top


def test_the_path_of_a_client_is_where_most_of_its_ops_are() -> None:
    """Where there is one."""
    a, b = Top("/a", "READ", 70, 1), Top("/b", "READ", 30, 1)
    assert top_of((a, b)) == "/a"
    assert top_of((replace(a, ops=50), replace(b, ops=50))) is None
    assert top_of(()) is None


def test_paths_of_a_sample() -> None:
    """READs and WRITEs whose files have names; never more ops than there are."""
    c, _, made = summarized("server-threads")
    assert made.tops == tops_of(c)
    data = sum(c.ops_of.get(name, 0) for name in DATA_OPS)
    assert sum(one.ops for one in made.tops) <= data


@pytest.mark.parametrize(
    ("address", "subnet"), [("10.1.2.3", "10.1.2.0/24"), ("fd00:1:2:3:4::5", "fd00:1:2:3::/64"), ("db-1", "")]
)
def test_the_subnet_of_an_address(address: str, subnet: str) -> None:
    """The /24, of IPv6 the /64; a name has none."""
    assert subnet_of(address) == subnet


def test_percentiles_of_all_ops_of_a_real_capture_are_those_of_a_sketch() -> None:
    """Of all operations together, from those of each."""
    c, _, made = summarized("slow-network")
    (row,) = made.by_op.total().rows()
    assert row.summary("client") == Sketch.of(c.client_srt_ns).summary()
