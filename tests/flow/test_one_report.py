"""Two captures in windows: one report, with the figures and the answer of the whole."""

from __future__ import annotations

import dataclasses
import io
import json
import os
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import wire
from captures import SHARED, needs_captures
from hanging_nfs import others, sent_again
from queue_captures import write_captures
from queues import one_after_another, simulate
from windowed import windowed
from wire import write_pcap

from nfslat import api
from nfslat.answer import model
from nfslat.cli.main import main
from nfslat.decode import memory
from nfslat.errors import InputError, UsageError
from nfslat.flow import run
from nfslat.select import make_filters
from nfslat.tally.sketch import RELATIVE_ERROR

SAMPLE = Path(__file__).parents[2] / "samples" / "server-threads"
SERVER, CLIENT = (SAMPLE / f"{side}.pcap.gz" for side in ("server", "client"))
# Ops that a capture lacks, losses, a reconnect, sessions, a stall, captures that began and ended at other times.
_LAB = (
    "lab/a_v3_baseline lab/d4_v3_loss2_full lab/f_v41_session_slots2 lab/j_v3_capture_drops lab/j_v3_partial_overlap "
    "lab/k_v3_dup lab/n_v3_nfsd_restart lab2/v4_grace_restart"
).split()
_LAB_LONG = [f"{lab}/{one.name}" for lab in ("lab", "lab2") for one in sorted((SHARED / lab).glob("*_*"))]
_MOVES_US = 2.0  # network means, by how well each window knows the clocks


def _hold(plain: model.Report, found: model.Report) -> None:
    """Counts are equal, means too, percentiles within the error; everything adds up."""
    a, b = plain.matched, found.matched
    assert a is not None
    assert b is not None
    assert (b.ops, b.untimed, b.processed) == (a.ops, a.untimed, a.processed)
    for name in ("server", "client"):
        assert b.processed[name] == b.ops + b.untimed + sum(b.unmatched[name].values())
        _hold_captures(plain.captures[name], found.captures[name])
        _hold_raw(plain.raw[name], found.raw[name])
        assert _answers(found, name) == _answers(plain, name)
    assert [(row.op, row.count) for row in b.by_op] == [(row.op, row.count) for row in a.by_op]
    assert a.total is not None
    assert b.total is not None
    for one, other in zip([*a.by_op, a.total], [*b.by_op, b.total], strict=True):
        for part in ("client_ms", "server_ms", "network_ms"):
            exact, near = getattr(one, part), getattr(other, part)
            assert near.mean == pytest.approx(exact.mean, rel=1e-3, abs=_MOVES_US / 1e3)
            for figure in ("p50", "p95", "p99"):
                wanted = max(getattr(exact, figure), 0.0)
                room = RELATIVE_ERROR + 1e-3 if part != "network_ms" else 0.02
                assert getattr(near, figure) == pytest.approx(wanted, rel=room, abs=_MOVES_US / 1e3)
    assert b.slowest is not None
    assert a.slowest is not None
    assert b.slowest.client_ms == a.slowest.client_ms
    assert _of_tcp(found) == _of_tcp(plain)


def _answers(report: model.Report, side: str) -> list[str]:
    return [] if report.outcomes is None else sorted(map(str, report.outcomes.statuses[side]))


def _of_tcp(report: model.Report) -> list[tuple[object, ...]]:
    """What was sent again and lost, way by way. The latest packets may be in one capture alone (bytes), and an op in
    flight when a window ends is told of one side only (ops_hit)."""
    return [
        (
            one.client,
            one.way,
            one.sent_again,
            one.arrived_again,
            one.arrived_late,
            one.lost_bytes,
            one.doubled,
            one.caveats,
        )
        for one in report.transport or ()
    ]


def _hold_captures(whole: model.Capture, found: model.Capture) -> None:
    for one in dataclasses.fields(model.Capture):
        if one.name not in ("audit", "unseen"):
            assert getattr(found, one.name) == getattr(whole, one.name), one.name
    counted = [f"capture-{one}" for one in "duplicates orphans drops truncated snaplen missing-calls".split()]
    notes = [{one.code: one.count for one in of.audit if one.code in counted} for of in (whole, found)]
    assert notes[1] == notes[0]


def _hold_raw(whole: list[model.RawRow], found: list[model.RawRow]) -> None:
    rows = [
        sorted((one.op, one.version, one.count, tuple(map(str, one.histogram))) for one in of) for of in (whole, found)
    ]
    assert rows[1] == rows[0]


@pytest.mark.parametrize("seconds", [1.0, 60.0])
def test_a_report_of_windows_is_that_of_the_whole(seconds: float) -> None:
    """However long the windows are: counts, means, percentiles, the slowest, and who is to blame."""
    plain, found = api.correlate(SERVER, CLIENT).summary, windowed(SERVER, CLIENT, seconds)
    _hold(plain, found)
    assert plain.verdict is not None
    assert found.verdict is not None
    assert (found.verdict.outcome, found.verdict.cause) == (plain.verdict.outcome, plain.verdict.cause)


def test_losses_of_windows_are_those_of_the_whole() -> None:
    """What TCP did between the last op of a window and its end is in the next one, though no op is held till then."""
    sample = SAMPLE.parent / "packet-loss"
    server, client = (sample / f"{side}.pcap.gz" for side in ("server", "client"))
    plain, found = api.correlate(server, client).summary, windowed(server, client, 1.0)
    assert _of_tcp(found) == _of_tcp(plain)
    assert max(one.lost_bytes for one in found.transport or ()) > 80_000


@needs_captures
@pytest.mark.parametrize("name", [*_LAB, *(pytest.param(one, marks=pytest.mark.long) for one in _LAB_LONG)])
def test_windows_of_the_lab_add_up(name: str) -> None:
    """The same of real kernels, in some seven windows: what one capture lacks is told from what neither has."""
    if name.endswith("g_clock_step3s"):
        pytest.skip("an op that was in flight when a clock was set between two windows has no time of its own")
    server, client = (next((SHARED / name).glob(f"{side}.*pcap*")) for side in ("server", "client"))
    plain = api.correlate(server, client).summary
    found = windowed(server, client, max(one.duration_s for one in plain.captures.values()) / 7)
    _hold(plain, found)
    assert plain.matched is not None
    assert found.matched is not None
    assert found.matched.completeness.share == pytest.approx(plain.matched.completeness.share, abs=0.01)


@needs_captures
def test_short_windows_count_the_calls_that_no_capture_shows() -> None:
    """Few calls of a window are no measure of how a client counts: gaps are looked for in many."""
    lab = SHARED / "lab" / "b4_v3_rpc_retransmit"
    server, client = (lab / f"{side}.pcap.gz" for side in ("server", "client"))
    plain, found = api.correlate(server, client).summary.matched, windowed(server, client, 0.25).matched
    assert plain is not None
    assert found is not None
    assert found.completeness.share == pytest.approx(plain.completeness.share, abs=0.002)


@needs_captures
def test_windows_behind_the_other_capture_s_end() -> None:
    """The client's capture goes on for many windows: none of their operations is in both, and all are counted."""
    server, client = (SHARED / "lab" / "j_v3_partial_overlap" / f"{side}.pcap.gz" for side in ("server", "client"))
    found = windowed(server, client, 0.5).matched
    assert found is not None
    assert found.unmatched["client"] == {"OUTSIDE_OVERLAP": 1304}
    assert found.processed["client"] == found.ops + 1304


@pytest.fixture(scope="module")
def changing(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A server that has plenty of threads, and then four."""
    first = simulate(threads=64, count=8_000, workers=48, connections=4, seed=2)
    then = simulate(threads=4, count=8_000, workers=48, connections=4, seed=3)
    return write_captures(one_after_another(first, then), tmp_path_factory.mktemp("changing"))


def test_phases_are_found_within_windows_and_joined_across_them(changing: tuple[Path, Path]) -> None:
    """The change lies within a window; those before and after are each one phase, with its cause and its threads."""
    found = windowed(*changing, 1.3)
    assert [(one.cause, one.threads_estimate) for one in found.phases if one.ops > 1000][-1] == ("server-threads", 4)
    whole = [one for one in found.phases if one.threads_estimate == 4]
    assert sum(one.ops for one in whole) == pytest.approx(8_000, rel=0.02)
    assert sum(one.ops for one in found.phases) == 16_000
    assert found.verdict is not None
    assert found.verdict.cause == "server-threads"
    assert found.inflight is not None
    assert found.inflight.server.threads_estimate == 4


def test_charges_and_parts_sum_to_the_response_time() -> None:
    """In windows, too: the parts to the mean, the charges of a part to the part."""
    found = windowed(SERVER, CLIENT, 1.0)
    assert found.matched is not None
    assert found.charges is not None
    total = found.matched.total
    assert total is not None
    parts = total.parts_ms
    assert parts.call_send + parts.net_both + parts.server + parts.reply_send == pytest.approx(total.client_ms.mean)
    of_server = sum(one.mean_ms for one in found.charges if one.part == "server")
    assert of_server == pytest.approx(parts.server)
    assert sum(row.count for row in found.matched.by_op) == total.count


def test_what_is_asked_for_is_judged() -> None:
    """--slo goes by the figures of all operations; one that is not there is not known."""
    found = windowed(SERVER, CLIENT, 2.0, slo=("all=1ms", "READ.p99=100s", "COMMIT=1ms"))
    assert found.verdict is not None
    assert [one.met for one in found.verdict.objectives] == [False, True, None]


def test_captures_in_the_other_order() -> None:
    """By the packets the first one is the client's: so they are read, and that is said."""
    found, plain = windowed(CLIENT, SERVER, 2.0), windowed(SERVER, CLIENT, 2.0)
    assert found.matched is not None
    assert plain.matched is not None
    assert found.matched.total == plain.matched.total
    assert "given client first" in found.notes[-1]


def test_pipes_cannot_be_read_again(tmp_path: Path) -> None:
    """Captures by pipe in the wrong order: one line that says what to do."""
    pipe = tmp_path / "s"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(CLIENT.read_bytes()), daemon=True)
    writer.start()
    with pytest.raises(InputError, match="give the server's capture first"):
        windowed(pipe, SERVER, 2.0)


@pytest.fixture
def in_stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Captures of more than 100 operations are judged in stretches of as many."""
    monkeypatch.setattr(api, "MOST_JOINED_OPS", 100)
    monkeypatch.setattr(run, "STRETCH_OPS", 100)


@pytest.mark.usefixtures("in_stretches")
def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The text says how captures were judged that are too large for a whole, the JSON is of the contract, the page and
    Markdown are made."""
    assert main([str(SERVER), str(CLIENT)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("Calls queue in the server for one of its 2 threads")
    assert "the captures were read in " in out
    assert main([str(SERVER), str(CLIENT), "--json", "-"]) == 0
    found = json.loads(capsys.readouterr().out)
    jsonschema.validate(found, model.Report.json_schema())
    assert found["matched"]["ops"] == 671
    assert main([str(SERVER), str(CLIENT), "--full"]) == 0
    assert main([str(SERVER), str(CLIENT), "--markdown"]) == 0
    page = tmp_path / "page.html"
    assert main([str(SERVER), str(CLIENT), "--html", str(page)]) == 0
    assert "Evidence for the other team" in page.read_text()


@pytest.mark.usefixtures("in_stretches")
@pytest.mark.parametrize("options", [["--perfetto", "ops.json"], ["--anonymize"]])
def test_what_needs_all_operations_at_once_gets_them(
    options: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many they are, as long as memory bears it."""
    monkeypatch.chdir(tmp_path)
    assert main([str(SERVER), str(CLIENT), *options]) == 0
    assert "were read in" not in capsys.readouterr().out


def _both(options: list[str], monkeypatch: pytest.MonkeyPatch, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """The report on all operations at once, and that on stretches of 100."""
    names = [folder / "whole.json", folder / "stretches.json"]
    for name in names:
        assert main([str(SERVER), str(CLIENT), *options, "-q", "--json", str(name)]) == 0
        monkeypatch.setattr(api, "MOST_JOINED_OPS", 100)
        monkeypatch.setattr(run, "STRETCH_OPS", 100)
    whole, found = (json.loads(name.read_text()) for name in names)
    assert not any("were read in" in note for note in whole["notes"])
    assert any("were read in" in note for note in found["notes"])
    return whole, found


_BY = "size client server connection file uid second slot".split()


def test_groups_of_stretches_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """--by: each group has its operations, means and percentiles; a file has the path of another stretch."""
    whole, found = _both([word for by in _BY for word in ("--by", by)], monkeypatch, tmp_path)
    assert [pivot["by"] for pivot in found["pivots"]] == _BY
    for one, other in zip(whole["pivots"], found["pivots"], strict=True):
        assert (other["groups"], other["others"]) == (one["groups"], one["others"])
        for row, near in zip(one["rows"], other["rows"], strict=True):
            assert {**near, "queue_ms": None, "client_ms": None} == {**row, "queue_ms": None, "client_ms": None}
            assert near["client_ms"] == pytest.approx(row["client_ms"])


@pytest.mark.parametrize("options", [["--start", "3", "--end", "9"], ["--end", "4"], ["--start", "5", "--op", "READ"]])
def test_a_part_of_the_time_of_stretches_is_that_of_the_whole(
    options: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """--start and --end go by the client's call, at the server, too: the same operations are selected and left out."""
    whole, found = _both(options, monkeypatch, tmp_path)
    assert found["selection"] == whole["selection"]
    for name, rows in whole["raw"].items():
        assert [(row["op"], row["count"], row["histogram"]) for row in found["raw"][name]] == [
            (row["op"], row["count"], row["histogram"]) for row in rows
        ]
    assert [(row["op"], row["count"]) for row in found["matched"]["by_op"]] == [
        (row["op"], row["count"]) for row in whole["matched"]["by_op"]
    ]
    for name in ("server", "client"):
        assert found["matched"]["processed"][name] == whole["matched"]["processed"][name]
        assert +Counter(found["matched"]["unmatched"][name]) == +Counter(whole["matched"]["unmatched"][name])


def test_what_is_known_from_outside_is_of_all_stretches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """--app-ms and --storage-ms: the stack is over all operations, and its rows are those of the whole."""
    whole, found = _both(["--app-ms", "600", "--storage-ms", "READ=5"], monkeypatch, tmp_path)
    assert found["verdict"]["cause"] == whole["verdict"]["cause"] == "server-threads"
    rows = [{(row["op"], row["layer"]): row["ms"] for row in of["stack"]} for of in (whole, found)]
    assert rows[1].keys() == rows[0].keys()
    for layer in ("application", "above the wire", "network", "server"):
        for about in [about for about in rows[0] if about[1] == layer]:
            assert rows[1][about] == pytest.approx(rows[0][about])


def test_replays_of_stretches_are_of_all_operations(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """--what-if: means over what each stretch would take."""
    whole, found = _both(["--what-if", "threads=64"], monkeypatch, tmp_path)
    (one,), (other,) = whole["what_if"], found["what_if"]
    assert (other["asked"], other["of"], other["client_ms"]) == (one["asked"], one["of"], one["client_ms"])
    assert other["before"]["threads"] == one["before"]["threads"] == 2
    assert other["expected_client_ms"]["mean"] == pytest.approx(one["expected_client_ms"]["mean"], rel=0.3)


def test_calls_of_all_programs_in_stretches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """--all-programs: who calls whom is counted over all of them."""
    whole, found = _both(["--all-programs"], monkeypatch, tmp_path)
    assert found["called"] == whole["called"] != {}


@needs_captures
def test_calls_whose_replies_earlier_windows_show_in_part_are_not_unanswered() -> None:
    """A call waits where it waits longer than is usual in any window, and no reply came later that cannot be read."""
    lab = SHARED / "lab" / "e_v3_slow_storage"
    found = windowed(lab / "server.pcap.gz", lab / "client.pcap.gz", 6.0)
    assert found.unanswered == []
    assert found.verdict is not None
    assert found.verdict.cause == "server-storage"


@pytest.mark.parametrize("captures", [[SERVER, CLIENT], [CLIENT]])
def test_memory_that_runs_out_while_captures_are_read(
    captures: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends the run in one line that says what to do, before the kernel ends it without any."""
    monkeypatch.setattr(memory, "_LOOK_S", 0.0)
    took = iter([0])
    monkeypatch.setattr(memory, "resident_memory", lambda: next(took, 10**12))
    assert main([*map(str, captures), "--what-if", "threads=64"]) == 3
    said = capsys.readouterr().err
    assert said.startswith("nfslat: memory is short: operations take 1,000.0 GB so far")
    assert "GB is free; cut a part of" in said
    assert len(said.splitlines()) == 1


@pytest.mark.usefixtures("in_stretches")
def test_the_library_says_what_is_not_kept() -> None:
    """The report is there; single operations raise what says why."""
    found = api.run([str(SERVER), str(CLIENT)], api.Options(in_stretches=True))
    assert found.verdict is not None
    assert "671" in repr(found)
    out = io.StringIO()
    found.write_json(out)
    assert json.loads(out.getvalue())["matched"]["ops"] == 671
    for what in (lambda: found.ops, lambda: found.write_csv(io.StringIO()), lambda: found.tables):
        with pytest.raises(UsageError, match="no single operation is kept"):
            what()
    assert not hasattr(found, "nothing_of_the_kind")


def test_a_connection_that_hangs_for_many_windows(tmp_path: Path) -> None:
    """It is told once, with the call that waits there since the first of them; its tries are compared in the last."""
    hanging, tries = sent_again()
    server, client = (
        write_pcap(tmp_path / side, *(flow.seen_by(side, without=lost) for flow in (hanging, others())))
        for side, lost in (("server", tries), ("client", ()))
    )
    plain, found = api.correlate(server, client).summary, windowed(server, client, 1.0)
    assert plain.hangs is not None
    assert found.hangs is not None
    assert [dataclasses.replace(one, compared=0) for one in found.hangs] == [
        dataclasses.replace(one, compared=0) for one in plain.hangs
    ]
    assert 1 <= found.hangs[0].compared <= plain.hangs[0].compared
    assert [one.calls for one in found.hangs] == [1]


def test_hosts_that_go_separate_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client turns to another server, and this one serves others: no end of the report, and every op is counted."""
    monkeypatch.setattr("nfslat.flow.pairs._MOST_HELD", 500)

    def flow(host: str, port: int, server: str, begin: int, end: int) -> wire.Tcp:
        tcp = wire.Tcp(client=(host, port), server=(server, 2049))
        for at in range(begin, end, 200):
            tcp.send(at, ">", wire.read(port * 1_000_000 + at, count=64))
            tcp.send(at + 1, "<", wire.reply(port * 1_000_000 + at, wire.read3(64)))
        return tcp

    both = flow("10.0.0.1", 700, "10.0.0.2", 0, 20_000)
    alone = {
        "server": flow("10.0.0.5", 701, "10.0.0.2", 20_000, 160_000),
        "client": flow("10.0.0.1", 702, "10.0.0.9", 20_000, 160_000),
    }
    server, client = (write_pcap(tmp_path / side, both.seen_by(side), alone[side].seen_by(side)) for side in alone)
    found = windowed(server, client, 5.0).matched
    assert found is not None
    assert found.ops == 100
    assert found.processed == {side: 100 + sum(found.unmatched[side].values()) for side in alone}
    whole = api.correlate(server, client).summary.matched
    assert whole is not None
    assert (found.unmatched, found.completeness) == (whole.unmatched, whole.completeness)


def test_captures_without_anything_in_common(tmp_path: Path) -> None:
    """One line, as for captures that are read at once."""
    other = write_captures(simulate(threads=4, count=300, seed=5), tmp_path)
    with pytest.raises(InputError):
        windowed(SERVER, other[1], 1.0)


def test_many_runs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where what is said changes with each window, neighbours become one, and nothing is lost."""
    monkeypatch.setattr("nfslat.flow.whole._MOST_STRETCHES", 3)
    found = windowed(SERVER, CLIENT, 0.4)
    assert len(found.phases) <= 4
    assert found.phases == [] or sum(one.ops for one in found.phases) == 671


def test_what_is_said_of_threads_is_of_one_time(changing: tuple[Path, Path]) -> None:
    """As many threads as are seen at work before the change are no bound for those behind it."""
    found = windowed(*changing, 1.3).inflight
    assert found is not None
    assert found.server.threads_lower_bound <= (found.server.threads_estimate or 0)


@pytest.mark.parametrize(
    ("filters", "seconds"),
    [({"op": ["READ"]}, 2.0), *(({"op": ["GETATTR", "WRITE"], "port": [2049]}, seconds) for seconds in (1e6, 0.2))],
)
def test_filters_are_those_of_the_whole(filters: dict[str, Any], seconds: float) -> None:
    """Of operations and addresses, in windows that have some and in such that have none."""
    whole, found = api.correlate(SERVER, CLIENT, **filters).summary, _filtered(seconds, **filters)
    _hold(whole, found)
    assert found.selection == whole.selection
    assert found.matched is not None
    assert whole.matched is not None
    assert found.matched.completeness == whole.matched.completeness


@needs_captures
@pytest.mark.parametrize("name", ["lab/j_v3_capture_drops", "lab/n_v3_nfsd_restart", "lab/f_v41_session_slots2"])
def test_filters_of_the_lab(name: str) -> None:
    """Where ops are lost, sent again, or of a session: what is left out of what is hidden is as much as of the rest."""
    server, client = (next((SHARED / name).glob(f"{side}.pcap*")) for side in ("server", "client"))
    whole = api.correlate(server, client, op=["READ"]).summary
    found = windowed(server, client, 1.5, filters=make_filters(op=["READ"]))
    _hold(whole, found)
    assert whole.matched is not None
    assert found.matched is not None
    assert found.matched.completeness.share == pytest.approx(whole.matched.completeness.share, abs=0.01)


@pytest.mark.parametrize("seconds", [100.0, 0.1])
def test_an_address_that_one_side_has(tmp_path: Path, seconds: float) -> None:
    """Behind NAT the client has another address at the server: what one side selects is selected at both."""
    tcp = wire.Tcp(client=("10.9.0.5", 900), server=("10.9.0.1", 2049))
    for number in range(60):
        tcp.send(20 * number, ">", wire.read(number + 1, offset=8192 * number))
        tcp.send(20 * number + 5, "<", wire.reply(number + 1))
    server, client = tmp_path / "s.pcap", tmp_path / "c.pcap"
    write_pcap(server, tcp.seen_by("server", swap_addresses={"10.9.0.5": "192.0.2.7"}))
    write_pcap(client, tcp.seen_by("client"))
    whole = api.correlate(server, client, client_addr=["10.9.0.5"]).summary.matched
    found = windowed(server, client, seconds, filters=make_filters(client_addr=["10.9.0.5"])).matched
    assert whole is not None
    assert found is not None
    assert found.processed == whole.processed == {"server": 60, "client": 60}
    assert found.unmatched == whole.unmatched


@pytest.mark.parametrize("seconds", [1.0, 60.0])
def test_intervals_are_those_of_the_whole(seconds: float) -> None:
    """--interval: as many operations in each, of each kind, with the means and bytes of all."""
    whole = api.correlate(SERVER, CLIENT, interval_s=0.5).figures.intervals
    found = windowed(SERVER, CLIENT, seconds, interval_s=0.5).intervals
    assert whole is not None
    assert found is not None
    for one, other in zip(whole.rows, found.rows, strict=True):
        for name in ("begin", "begin_s", "op", "ops", "bytes", "retrans", "client_ms"):
            assert getattr(other, name) == getattr(one, name), name
        assert (other.client_p99_ms or 0.0) == pytest.approx(one.client_p99_ms or 0.0, rel=RELATIVE_ERROR)


def test_filters_that_leave_nothing() -> None:
    """It is said as of a run at once."""
    with pytest.raises(InputError, match="no op is left by the filters"):
        _filtered(2.0, op=["COMMIT"])


def _filtered(seconds: float, **filters: Any) -> model.Report:
    return windowed(SERVER, CLIENT, seconds, filters=make_filters(**filters))


@needs_captures
def test_the_time_in_common_is_that_of_the_whole() -> None:
    """Captures of which one began late: how long both ran, and what happened while one did not."""
    folder = SHARED / "lab" / "j_v3_partial_overlap"
    server, client = (next(folder.glob(f"{side}.pcap*")) for side in ("server", "client"))
    whole, found = api.correlate(server, client).summary, windowed(server, client, 2.0)
    notes = [[one for one in of.audit if one.code == "captures-overlap"] for of in (whole, found)]
    assert notes[0] == notes[1] != []
    said = [[note for note in of.notes if "overlap only in part" in note] for of in (whole, found)]
    assert said[0] == said[1] != []


@needs_captures
@pytest.mark.parametrize("windows", [2, pytest.param(7, marks=pytest.mark.long), 50])
def test_a_pause_that_spans_the_border_of_two_windows(windows: int) -> None:
    """A client that was stopped for 1.2 s, wherever a window would end: it is seen, once, and how long it was."""
    folder = SHARED / "lab" / "j_v3_client_stall"
    server, client = (next(folder.glob(f"{side}.pcap*")) for side in ("server", "client"))
    whole = api.correlate(server, client).summary
    seconds = max(one.duration_s for one in whole.captures.values()) / windows
    found = windowed(server, client, seconds)
    of_pauses = [[one for one in of.findings if one.code == "host-pause"] for of in (whole, found)]
    (one,), (other,) = of_pauses
    for name in ("pauses", "total_ms", "longest_ms", "at", "frame"):
        assert other.evidence[name] == one.evidence[name]


def test_windows_end_where_nothing_pauses(tmp_path: Path) -> None:
    """Where ops come every 0.3 s all the time windows are as long as they were asked to be."""
    tcp = wire.Tcp()
    for number in range(200):
        tcp.send(300 * number, ">", wire.read(number + 1, offset=8192 * number))
        tcp.send(300 * number + 5, "<", wire.reply(number + 1))
    server, client = tmp_path / "s.pcap", tmp_path / "c.pcap"
    write_pcap(server, tcp.seen_by("server"))
    write_pcap(client, tcp.seen_by("client"))
    found = windowed(server, client, 2.0)
    assert found.matched is not None
    assert found.matched.ops == 200
    (note,) = (note for note in found.notes if "were read in" in note)
    assert int(note.split("were read in ")[1].split(" ")[0]) >= 20
