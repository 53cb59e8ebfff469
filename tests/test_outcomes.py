"""Ops with statuses, and made captures of servers that put requests off -> counts, joined tries, findings, verdict."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import wire
from captures import SHARED
from hypothesis import given
from hypothesis import strategies as st

from nfslat import api
from nfslat.answer.model import Finding
from nfslat.answer.outcomes import REASONS, SAYS, StatusRow
from nfslat.cli import main as cli
from nfslat.model.details import Failures, no_details
from nfslat.model.protocol import NFS, NULL
from nfslat.model.statuses import Says, says, status_name
from nfslat.model.tables import Connection, Kind, Ops
from nfslat.outcomes.counts import answered, failed_operation
from nfslat.outcomes.recovery import recoveries
from nfslat.outcomes.tries import PUT_OFF, Outcome, Request, fits_back_off, requests

MS = 1_000_000
GRACE, DELAY, DENIED, BADSESSION, STALE = 10013, 10008, 10010, 10052, 70
READ3, GETATTR3, LOCK, LOCKT, OPEN = (
    *(Kind(NFS, 3, NULL, number) for number in (6, 1)),
    *(Kind(NFS, 4, 1, number, (53, 22, number)) for number in (12, 13, 18)),
)
MAKES_STATE = tuple(Kind(NFS, 4, 1, number, (number,)) for number in (42, 43, 58))
KINDS = (READ3, GETATTR3, LOCK, LOCKT, OPEN, *MAKES_STATE)
CLIENTS = (Connection("tcp", "10.0.0.1", 700, "10.0.0.9", 2049), Connection("tcp", "10.0.0.2", 700, "10.0.0.9", 2049))


class Call(NamedTuple):
    """An op that takes 1 ms."""

    at_ms: float
    status: int
    kind: Kind = LOCK
    fh: int = 1
    conn: int = 0
    offset: int = 0


def _ops(calls: list[Call]) -> Ops:
    calls = sorted(calls, key=lambda one: one.at_ms)
    t0 = np.array([round(one.at_ms * MS) for one in calls], dtype=np.int64)
    return Ops.with_nulls(
        len(calls),
        conn=np.array([one.conn for one in calls], dtype=np.int32),
        direction=np.zeros(len(calls), dtype=np.int8),
        kind=np.array([KINDS.index(one.kind) for one in calls], dtype=np.int16),
        fh=np.array([one.fh for one in calls], dtype=np.uint32),
        offset=np.array([one.offset for one in calls], dtype=np.int64),
        status=np.array([one.status for one in calls], dtype=np.int16),
        t0=t0,
        t1=t0,
        t2=t0 + MS,
        t3=t0 + MS,
        kinds=KINDS,
        connections=CLIENTS,
    )


def _requests(calls: list[Call], end_ms: float = 1e6) -> list[Request]:
    ops = _ops(calls)
    return requests(ops, no_details(), np.ones(len(ops), dtype=np.bool_), round(end_ms * MS))


# --- Statuses ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "status", "name", "means"),
    [
        (3, 10008, "NFS3ERR_JUKEBOX", Says.DELAY),
        (4, 10008, "NFS4ERR_DELAY", Says.DELAY),
        (4, 10013, "NFS4ERR_GRACE", Says.GRACE),
        (4, 10024, "NFS4ERR_OLD_STATEID", Says.EVERYDAY),
        (4, 10052, "NFS4ERR_BADSESSION", Says.STATE),
        (4, 10063, "NFS4ERR_SEQ_MISORDERED", Says.STATE),
        (4, 10096, "NFS4ERR_XATTR2BIG", Says.EVERYDAY),
        (4, 10073, "NFS4ERR 10073", Says.OTHER),
        (3, 70, "NFS3ERR_STALE", Says.LOST),
        (2, 2, "NFSERR_NOENT", Says.EVERYDAY),
        (3, 5, "NFS3ERR_IO", Says.OTHER),
        (3, 0, "OK", Says.DONE),
    ],
)
def test_statuses_have_the_names_of_their_version(version: int, status: int, name: str, means: Says) -> None:
    """A number is what its RFC calls it, and says what that version means by it."""
    assert (status_name(version, status), says(version, status)) == (name, means)


def test_the_report_has_the_words_of_the_tables() -> None:
    """What statuses say has the same names in both places."""
    assert [one.value for one in Says] == SAYS
    assert {one.value for one in PUT_OFF} == set(REASONS)


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from([NULL, 0, 0, 2, STALE, GRACE, DELAY])), max_size=60))
def test_counts_by_status_sum_to_the_ops(drawn: list[tuple[Kind, int]]) -> None:
    """Every op is in exactly one count: of its operation, and of its status."""
    ops = _ops([Call(at, status, kind) for at, (kind, status) in enumerate(drawn)])
    bad = np.flatnonzero(ops.status > 0)
    failures = Failures(bad.astype(np.int32), np.full(len(bad), 1, dtype=np.uint32))
    for mask in (np.ones(len(ops), dtype=np.bool_), np.arange(len(ops)) % 3 > 0):
        rows = answered(ops, failures, mask)
        assert sum(row.ops for row in rows) == mask.sum()
        for kind in KINDS:
            for status in {status for _, status in drawn}:
                counted = sum(
                    row.ops
                    for row in rows
                    if row.kind.op == kind.op and row.status == status and row.kind.version == kind.version
                )
                assert counted == sum(
                    one == (kind, status) for one, counts in zip(drawn, mask.tolist(), strict=True) if counts
                )


def test_the_operation_that_failed_is_that_of_the_last_result() -> None:
    """A COMPOUND that got three results failed in its third operation; of NFSv3 there is none to name."""
    ops = _ops([Call(0, GRACE), Call(1, BADSESSION), Call(2, 5, READ3)])
    failures = Failures(np.array([0, 1], dtype=np.int32), np.array([3, 1], dtype=np.uint32))
    assert failed_operation(ops, failures, np.arange(3)).tolist() == [12, 53, NULL]


# --- Tries ------------------------------------------------------------------------------------------------------------


def test_tries_of_a_request_are_joined_up_to_its_success() -> None:
    """From the first call to the last reply; what passed between them is the sum of the waits."""
    (one,) = _requests([Call(0, GRACE), Call(101, GRACE), Call(302, GRACE), Call(703, 0)])
    assert (one.tries, one.outcome) == ((0, 1, 2, 3), Outcome.SUCCEEDED)
    assert one.waited_ns == 704 * MS
    assert one.waits_ns == (100 * MS, 200 * MS, 400 * MS)
    assert one.between_ns == 700 * MS
    assert fits_back_off(one) == (3, 3)


@pytest.mark.parametrize(
    "other", [Call(200, 0, fh=2), Call(200, 0, OPEN), Call(200, 0, conn=1), Call(200, 0, offset=8)]
)
def test_another_file_operation_client_or_offset_is_another_request(other: Call) -> None:
    """A success of something else ends no wait."""
    (one,) = _requests([Call(0, DELAY), other])
    assert (one.tries, one.outcome) == ((0,), Outcome.LEFT)


def test_several_who_wait_for_the_same_are_counted_and_so_is_the_sum_of_their_waits() -> None:
    """Three callers lock the same file at once: whose try is whose is not known, and the sum does not depend on it."""
    calls = [Call(at + caller, GRACE if at < 300 else 0) for caller in range(3) for at in (0, 101, 302)]
    found = _requests(calls)
    assert [one.outcome for one in found] == [Outcome.SUCCEEDED] * 3
    assert sum(one.waited_ns for one in found) == 3 * 303 * MS


def test_one_who_comes_again_sooner_than_linux_is_not_taken_for_several() -> None:
    """A client of another make that asks again after 10 ms, at even steps, is one that waits."""
    (one,) = _requests([Call(11 * at, DELAY) for at in range(40)] + [Call(440, 0)])
    assert len(one.tries) == 41
    assert one.waited_ns == 441 * MS


def test_what_is_still_put_off_as_the_capture_ends_is_open() -> None:
    """And not where the capture goes on for longer than any client waits: then nobody came again."""
    calls = [Call(0, GRACE), Call(101, GRACE)]
    (still,) = _requests(calls, end_ms=500)
    (left,) = _requests(calls, end_ms=60_000)
    assert (still.outcome, left.outcome) == (Outcome.OPEN, Outcome.LEFT)
    assert still.waited_ns == left.waited_ns == 102 * MS


def test_a_call_long_after_is_no_further_try() -> None:
    """Longer than any client waits: somebody asks for the same once more."""
    (one,) = _requests([Call(0, DELAY, READ3), Call(25_000, 0, READ3)])
    assert one.outcome is Outcome.LEFT
    (locked,) = _requests([Call(0, DENIED), Call(30_000, 0)])
    assert locked.outcome is Outcome.SUCCEEDED  # Linux waits 30 s for a lock


def test_a_request_that_ends_with_another_error_failed() -> None:
    """A status that is no reason to come again ends it."""
    (one,) = _requests([Call(0, DELAY, READ3), Call(5001, 5, READ3), Call(5100, 0, READ3)])
    assert (one.tries, one.outcome) == ((0, 1), Outcome.FAILED)
    assert fits_back_off(one) == (1, 1)  # 5 s, as Linux waits with NFSv3


@pytest.mark.parametrize(
    "call", [Call(0, 2, OPEN), Call(0, STALE, READ3), Call(0, DENIED, LOCKT), Call(0, GRACE, fh=NULL)]
)
def test_everyday_answers_are_no_waits(call: Call) -> None:
    """NOENT, what is gone for good, what LOCKT asks, and what has no known file."""
    ops = _ops([Call(0, 0), Call(0, 0)])
    fh = np.array([call.fh & 0xFFFFFFFF] * 2, dtype=np.uint32)
    status = np.array([call.status] * 2, dtype=np.int16)
    kind = np.array([KINDS.index(call.kind)] * 2, dtype=np.int16)
    times = {name: getattr(ops, name) + np.array([0, 200 * MS]) for name in ("t0", "t1", "t2", "t3")}
    ops = replace(ops, fh=fh, status=status, kind=kind, **times)
    assert requests(ops, no_details(), np.ones(2, dtype=np.bool_), 10**15) == []


@given(
    st.lists(
        st.builds(
            Call,
            at_ms=st.integers(0, 40_000),
            status=st.sampled_from([0, 0, 2, GRACE, DELAY, DENIED, BADSESSION, NULL]),
            kind=st.sampled_from([READ3, LOCK]),
            fh=st.integers(1, 2),
            conn=st.integers(0, 1),
            offset=st.just(0),
        ),
        max_size=40,
    )
)
def test_each_try_is_of_one_request(calls: list[Call]) -> None:
    """Whatever was answered: every answer that puts a request off is in exactly one, tries do not meet, and waits with
    the tries' own time make the whole."""
    ops = _ops(calls)
    found = _requests(calls)
    tries = [row for one in found for row in one.tries]
    assert len(tries) == len(set(tries))
    bad = {
        row
        for row, status in enumerate(ops.status.tolist())
        if says(ops.kinds[ops.kind[row]].version, status) in PUT_OFF
    }
    assert bad <= set(tries)
    for one in found:
        assert min(one.waits_ns, default=0) >= 0
        assert one.waited_ns == one.between_ns + MS * len(one.tries)
        assert len(one.says) == len(one.tries) - (
            one.outcome in (Outcome.SUCCEEDED, Outcome.FAILED) or not bad.issuperset(one.tries)
        )


# --- Recovery ---------------------------------------------------------------------------------------------------------


def test_a_recovery_follows_an_answer_that_state_is_gone() -> None:
    """From that answer to the last reply of a call that makes state; who was put off meanwhile waited for it."""
    lost = [Call(1000, BADSESSION), *(Call(1010 + at, 0, kind) for at, kind in enumerate(MAKES_STATE)), Call(1100, 0)]
    ops = _ops([Call(0, 0), *lost])
    every = np.ones(len(ops), dtype=np.bool_)
    (one,) = recoveries(ops, every, requests(ops, no_details(), every, 10**15))
    assert (one.begin_ns, one.end_ns) == (1001 * MS, 1013 * MS)
    assert one.rows == (1, 2, 3, 4)
    assert one.waited == 1


def test_a_mount_is_no_recovery() -> None:
    """The same calls, and nobody said that state was gone."""
    ops = _ops([*(Call(at, 0, kind) for at, kind in enumerate(MAKES_STATE)), Call(10, 0)])
    assert recoveries(ops, np.ones(len(ops), dtype=np.bool_), []) == []


# --- Reports ----------------------------------------------------------------------------------------------------------


class Reads(NamedTuple):
    """READs every 10 ms, 1 ms each; some are answered JUKEBOX and come again 5 s later."""

    healthy: int
    put_off: int
    times: int = 1
    wait_ms: float = 5000.0
    status: int = DELAY
    cut: bool = False  # before the last try

    def write(self, folder: Path) -> tuple[Path, Path]:
        tcp = wire.Tcp()
        lines: list[tuple[float, str, bytes]] = []
        for number in range(self.healthy + self.put_off):
            at, offset = 10.0 * number, 8192 * number
            tries = self.times + 1 if number >= self.healthy else 1
            for attempt in range(tries - self.cut if tries > 1 else 1):
                xid = 1 + number + 10_000 * attempt
                body = wire.read3() if attempt == tries - 1 else struct.pack(">II", self.status, 0)
                lines += [(at, ">", wire.read(xid, offset)), (at + 1, "<", wire.reply(xid, body))]
                at += 1 + self.wait_ms
        for at, way, message in sorted(lines, key=lambda line: line[0]):
            tcp.send(at, way, message)
        seen = tcp.seen_by("server", there_ms=0.1, back_ms=0.1), tcp.seen_by("client")
        server, client = (wire.write_pcap(folder / f"{n}.pcap", one) for n, one in zip("sc", seen, strict=True))
        return server, client


def _report(captures: tuple[Path, Path], **more: float) -> api.Report:
    return api.correlate(*map(str, captures), **more)  # type: ignore[arg-type]


def _found(report: api.Report, code: str) -> Finding | None:
    return next((one for one in report.figures.findings if one.code == code), None)


def test_eight_that_wait_five_seconds_each_are_the_verdict(tmp_path: Path) -> None:
    """Eight READs of 200 are answered JUKEBOX: the 40 s that they wait are the server's, and above the wire."""
    report = _report(Reads(192, 8).write(tmp_path))
    verdict = report.figures.verdict
    assert verdict is not None
    assert (verdict.layer, verdict.cause) == ("server", "server-delay")
    assert "8 requests took 5.0 s each" in verdict.text
    found = _found(report, "server-delay")
    assert found is not None
    assert (found.confidence, found.evidence["requests"], found.evidence["tries"]) == ("certain", 8, 16)
    assert found.evidence["total_between_ms"] == pytest.approx(8 * 5000, rel=0.01)
    assert found.share == pytest.approx(40_000 / (40_000 + 208 * 1.0), rel=0.01)
    text = report.text(full=True)
    assert "NFS3ERR_JUKEBOX" in text
    assert "NFS errors: ops by status" in text


def test_with_the_applications_time_nothing_is_left_to_the_client(tmp_path: Path) -> None:
    """What passed between tries is not the run queue's; the stack has it by itself."""
    mean_ms = (200 * 1.0 + 8 * 5001) / 200
    report = _report(Reads(192, 8).write(tmp_path), app_ms=mean_ms)
    assert report.figures.verdict is not None
    assert report.figures.verdict.cause == "server-delay"
    assert _found(report, "above-wire") is None
    (row,) = [row for row in report.figures.stack if row.layer.startswith("between tries")]
    assert row.ms == pytest.approx(200, rel=0.01)


def test_what_a_client_adds_beyond_the_tries_stays_the_clients(tmp_path: Path) -> None:
    """200 ms of the application's 1,000 ms pass between tries: the rest is above the wire, and nobody's so far."""
    report = _report(Reads(192, 8).write(tmp_path), app_ms=1000.0)
    assert report.figures.verdict is not None
    assert report.figures.verdict.layer == "client"
    above = [one for one in report.figures.findings if one.layer == "client"]
    assert [one.share for one in above] == [pytest.approx(0.8, abs=0.01)]
    assert "the server tells clients to try again later" in report.figures.verdict.text


def test_a_delegation_that_is_called_back_once_is_no_finding(tmp_path: Path) -> None:
    """One READ is put off once for 0.1 s: counted, shown in the table, and no more."""
    report = _report(Reads(60, 1, wait_ms=100).write(tmp_path))
    assert not [one for one in report.figures.findings if one.code.startswith(("server-delay", "server-grace"))]
    assert report.figures.outcomes is not None
    (again,) = report.figures.outcomes.tried_again
    assert (again.requests, again.tries, again.succeeded) == (1, 2, 1)
    assert report.figures.verdict is not None
    assert "tries" not in report.figures.verdict.text


def test_what_is_put_off_to_the_end_is_said_to_be_so(tmp_path: Path) -> None:
    """The capture ends before the last try: at least that long."""
    report = _report(Reads(60, 3, times=2, cut=True).write(tmp_path))
    found = _found(report, "server-delay")
    assert found is not None
    assert found.evidence["open"] == 3
    assert "at least that long" in found.text


def test_everyday_statuses_make_no_table_and_no_finding(tmp_path: Path) -> None:
    """Half of the calls ask for what is not there: counted in the JSON report, and that is all."""
    report = _report(Reads(60, 60, times=0).write(tmp_path))
    quiet = _report(Reads(60, 60, status=2, wait_ms=3).write(tmp_path))
    assert quiet.figures.outcomes is not None
    rows = quiet.figures.outcomes.statuses["client"]
    assert {(row.name, row.count) for row in rows} == {("OK", 120), ("NFS3ERR_NOENT", 60)}
    assert "NFS errors" not in quiet.text()
    assert [one.code for one in quiet.figures.findings] == [one.code for one in report.figures.findings]


def test_one_capture_tells_it_by_itself(tmp_path: Path) -> None:
    """The client's capture alone has the finding, the table, and no verdict."""
    _, client = Reads(192, 8).write(tmp_path)
    report = api.inspect(str(client))
    assert [one.code for one in report.figures.findings] == ["server-delay"]
    assert report.figures.verdict is None
    assert "8 requests took 5.0 s each" in " ".join(report.text(full=True).split())
    assert "JUKEBOX" in report.markdown()
    assert 'id="outcomes"' in report.html()


@pytest.mark.skipif(not (SHARED / "lab2").is_dir(), reason="no captures at ../shared")
@pytest.mark.parametrize("app_ms", [None, {"LOCK": 60_200.0}])
def test_a_real_grace_period_is_the_verdict(app_ms: dict[str, float] | None) -> None:
    """40 of 45 LOCKs are answered GRACE after nfsd was started anew: 60.2 s each, which are nobody else's."""
    folder = SHARED / "lab2" / "v4_grace_restart"
    report = api.correlate(str(folder / "server.pcap.gz"), str(folder / "client.pcap.gz"), app_ms=app_ms)
    assert report.figures.verdict is not None
    assert (report.figures.verdict.layer, report.figures.verdict.cause) == ("server", "server-grace")
    found = _found(report, "server-grace")
    assert found is not None
    assert (found.evidence["requests"], found.evidence["tries"], found.evidence["succeeded"]) == (4, 45, 4)
    assert found.evidence["mean_ms"] == pytest.approx(60_210, rel=0.001)  # as the application says
    assert found.share is not None
    assert found.share > 0.99
    assert report.figures.outcomes is not None
    rows: list[StatusRow] = report.figures.outcomes.statuses["client"]
    assert sum(row.count for row in rows) == 83
    (recovery,) = report.figures.outcomes.recoveries
    assert recovery.waited == 4


# --- Calls in series --------------------------------------------------------------------------------------------------


class Listing(NamedTuple):
    """An ls -l: GETATTRs of as many files, 1 ms each, `callers` of them at work at once."""

    files: int
    times: int = 1
    pause_ms: float = 0.05
    callers: int = 1

    def write(self, folder: Path) -> tuple[Path, Path]:
        tcp = wire.Tcp()
        lines: list[tuple[float, str, bytes]] = []
        for caller in range(self.callers):
            for number in range(self.files * self.times):
                xid = 1 + number + 10_000 * caller
                at = (1.2 + self.pause_ms) * number + 0.3 * caller
                handle = (number % self.files).to_bytes(32, "big")
                lines += [(at, ">", wire.getattr3(xid, handle)), (at + 1, "<", wire.reply(xid, wire.GETATTR3))]
        for at, way, message in sorted(lines, key=lambda line: line[0]):
            tcp.send(at, way, message)
        seen = tcp.seen_by("server", there_ms=0.1, back_ms=0.1), tcp.seen_by("client")
        server, client = (wire.write_pcap(folder / f"{n}.pcap", one) for n, one in zip("sc", seen, strict=True))
        return server, client


def test_one_caller_who_asks_one_after_the_other_is_told_of(tmp_path: Path) -> None:
    """300 GETATTRs of 100 files, each but the first sent as the answer before has come: of little weight, and not
    the verdict's."""
    report = _report(Listing(100, times=3).write(tmp_path))
    found = _found(report, "serial-calls")
    assert found is not None
    assert (found.severity, found.evidence["files"], found.evidence["again"]) == ("info", 100, 199)
    assert "less than 3 s before" in found.text
    assert report.figures.verdict is not None
    assert report.figures.verdict.cause != "serial-calls"


def test_calls_in_series_have_a_line_in_the_brief_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Questions that are not repeated are no sign of noac."""
    for times, repeats in ((3, True), (1, False)):
        (folder := tmp_path / str(times)).mkdir()
        assert cli.main([str(path) for path in Listing(300 // times, times=times).write(folder)]) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert text.count("serial-calls, likely: one caller asks what ") == 1
        assert "with 299 calls" in text
        assert ("noac or a short actimeo" in text) == repeats


@pytest.mark.parametrize("sides", [("server", "client"), ("server",), ("client",)])
def test_repeated_questions_of_one_caller_are_in_the_brief_report_of_either_capture(
    capsys: pytest.CaptureFixture[str], sides: tuple[str, ...]
) -> None:
    """1,050 LOOKUPs, GETATTRs and ACCESSes in a row on 60 names."""
    paths = [SHARED / "broken" / "public" / f"11_one_after_the_other_{side}.pcap.gz" for side in sides]
    if not all(path.exists() for path in paths):
        pytest.skip("the captures are not here")
    assert cli.main([str(path) for path in paths]) == 0
    text = " ".join(capsys.readouterr().out.split())
    assert "with 1,049 calls" in text
    assert "869 of them repeat a question answered less than 3 s before: noac or a short actimeo" in text


def test_callers_side_by_side_have_no_such_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two at once, and one that thinks in between."""
    for number, other in enumerate((Listing(100, times=3, callers=2), Listing(100, times=3, pause_ms=5))):
        (folder := tmp_path / str(number)).mkdir()
        assert cli.main([str(path) for path in other.write(folder)]) == 0
        assert "serial-calls" not in capsys.readouterr().out


@pytest.mark.parametrize("other", [Listing(300, callers=2), Listing(300, pause_ms=5), Listing(50)])
def test_what_is_not_one_caller_in_series_is_not_told_of(tmp_path: Path, other: Listing) -> None:
    """Two at once, one that thinks in between, and one that asks for little."""
    assert _found(_report(other.write(tmp_path)), "serial-calls") is None
