"""What hosts print: mountstats, nfsiostat, /proc/net/rpc/nfsd, pool_stats; and hostile text for every reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import astuple, replace
from pathlib import Path
from typing import Any

import pytest
from captures import SHARED, needs_captures
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from nfslat.errors import InputError
from nfslat.evidence import counters, interval
from nfslat.evidence.host_texts import HOST_TEXTS
from nfslat.evidence.kinds import KINDS
from nfslat.evidence.records import Mount, NfsdStats, Snapshot

DATA = Path(__file__).parent / "data"
TRUTHS = sorted(SHARED.glob("lab/*/truth.json"))


def _data(name: str) -> str:
    return (DATA / name).read_text()


def _mount(xprt: str = "", ops: str = "READ: 10 10 0 1 2 30 40 80", opts: str = "rw,vers=3", age: int = 5) -> Mount:
    text = f"device s:/e mounted on /m with fstype nfs statvers=1.1\n\topts:\t{opts}\n\tage:\t{age}\n"
    (mount,) = counters.mounts(f"{text}{xprt}\n\tper-op statistics\n\t  {ops}\n\n", "m")
    return mount


# mountstats


@needs_captures
@pytest.mark.parametrize("path", TRUTHS, ids=lambda path: path.parent.name)
def test_mountstats_of_the_lab_give_its_figures(path: Path) -> None:
    """Counts and means of every operation between two readings are those that the lab computed itself."""
    truth: dict[str, Any] = json.loads(path.read_text())
    before, after = (counters.mounts(truth[when]["mountstats"], when) for when in ("before", "after"))
    (mount,), notes = interval.mounts_between(before, after)
    assert notes == []
    done = {op: stats for op, stats in mount.ops.items() if stats.ops}
    assert done.keys() == truth["mountstats_ops_delta"].keys()
    means = {(each.op, each.layer): each.mean_ms for each in interval.latencies(mount, "m")}
    for op, want in truth["mountstats_ops_delta"].items():
        assert (done[op].ops, done[op].transmissions, done[op].timeouts) == (
            want["ops"],
            want["trans"],
            want["timeouts"],
        )
        assert means[op, "slot wait"] == pytest.approx(want["avg_queue_ms"], abs=0.0006)
        assert means[op, "client wire"] == pytest.approx(want["avg_rtt_ms"], abs=0.0006)
        assert means[op, "client"] == pytest.approx(want["avg_exe_ms"], abs=0.0006)


@needs_captures
@pytest.mark.parametrize("path", TRUTHS, ids=lambda path: path.parent.name)
def test_pools_of_the_lab_tell_who_waits_for_a_thread(path: Path) -> None:
    """Hardly a wake-up for a queued request where threads were the limit, nearly always one where they were not."""
    truth = json.loads(path.read_text())
    before, after = (counters.pools(truth[when]["pool_stats"], when) for when in ("before", "after"))
    delta, notes = interval.pools_between(before, after)
    share = interval.woken_share(delta)
    if truth["cause"]["where"] == "server-restart":
        assert delta == ()
        assert "began anew" in notes[0]
    elif truth["cause"]["where"] == "server-threads":
        assert share is not None
        assert share < 0.05
    else:
        assert share is not None
        assert share > 0.85


@needs_captures
@pytest.mark.parametrize("path", TRUTHS, ids=lambda path: path.parent.name)
def test_nfsd_of_the_lab(path: Path) -> None:
    """The thread count is the one that the lab configured, and the calls are at least those that the client sent."""
    truth = json.loads(path.read_text())
    before, after = (counters.nfsd(truth[when]["server_rpc_nfsd"], when) for when in ("before", "after"))
    assert _nfsd_notes(before, after) == ()
    assert after.threads == truth["environment"]["nfsd_threads"]
    calls = after.counters["rpc.0"] - before.counters["rpc.0"]
    assert calls >= sum(each["ops"] for each in truth["mountstats_ops_delta"].values())


def _nfsd_notes(before: NfsdStats, after: NfsdStats) -> tuple[str, ...]:
    return interval.difference(Snapshot("a", "", nfsd=before), Snapshot("b", "", nfsd=after)).notes


def test_each_connection_of_nconnect_is_told() -> None:
    """Four xprt lines are four connections, with the growth of their counters and their greatest use of slots."""
    before, after = (counters.mounts(_data(f"nconnect4-{when}.mountstats"), "m") for when in ("before", "after"))
    (mount,), notes = interval.mounts_between(before, after)
    assert notes == []
    assert [xprt.source_port for xprt in mount.xprts] == [778, 994, 818, 771]
    assert [xprt.sends for xprt in mount.xprts] == [486, 485, 486, 479]
    assert [xprt.max_slots for xprt in mount.xprts] == [2, 2, 2, 2]
    assert mount.options["nconnect"] == "4"
    assert mount.age_s == 10
    assert mount.xprts[0].backlog_u == 0


def test_reads_and_writes_together_are_weighted_by_their_number() -> None:
    """The mean over reads and writes is the sum of the times over the sum of the operations, of these alone."""
    mount = _mount(ops="READ: 10 10 0 0 0 100 50 150\n\t WRITE: 30 31 0 0 0 0 90 90\n\t GETATTR: 9 9 0 0 0 9 9 9")
    both = {each.layer: (each.mean_ms, each.count) for each in interval.latencies(mount, "m") if each.op == ""}
    assert both == {"client": (6.0, 40), "slot wait": (2.5, 40), "client wire": (3.5, 40)}


def test_mounts_that_come_go_or_begin_anew_are_told() -> None:
    """A remount, a mount that is gone and one that is new each get a note; what began anew has no figures."""
    old, new = _mount(age=900), _mount(age=4)
    assert interval.mounts_between([old], [new])[0] == ()
    assert "was mounted again" in interval.mounts_between([old], [new])[1][0]
    reset = _mount(ops="READ: 9 9 0 1 2 30 40 80", age=901)
    assert "was mounted again" in interval.mounts_between([old], [reset])[1][0]
    assert "no longer mounted" in interval.mounts_between([old], [])[1][0]
    (came,), notes = interval.mounts_between([], [new])
    assert came.ops["READ"].ops == 10
    assert "mounted in between" in notes[0]
    _, notes = interval.mounts_between([old], [_mount(age=901, opts="rw,vers=3,timeo=10")])
    assert "other options" in notes[0]
    (fewer,), notes = interval.mounts_between([_mount("\txprt:\ttcp 1 1 1 0 0 5 5 0 5 0")], [_mount()])
    assert fewer.xprts == ()
    assert "other connections" in notes[0]


_COUNTS = st.lists(st.integers(0, 2**63), min_size=8, max_size=9)


@given(st.dictionaries(st.from_regex(r"[A-Z][A-Z0-9_]{0,12}", fullmatch=True), _COUNTS, max_size=5), st.data())
def test_a_difference_and_what_was_before_add_up(counts: dict[str, list[int]], data: st.DataObject) -> None:
    """Whatever is counted: the earlier reading plus the difference is the later reading."""
    more = {op: [each + data.draw(st.integers(0, 9)) for each in values] for op, values in counts.items()}
    first, last = (
        _mount(ops="\n\t".join(f"{op}: {' '.join(map(str, values))}" for op, values in each.items()))
        for each in (counts, more)
    )
    (delta,), _ = interval.mounts_between([first], [last])
    for op, stats in delta.ops.items():
        assert [a + b for a, b in zip(counts[op], astuple(stats), strict=False)] == more[op][:8]


# nfsd


def test_counters_of_the_server_that_went_back_are_left_out() -> None:
    """After a restart of nfsd a note says so; other threads than before are told, too."""
    late, early = (counters.nfsd(f"th 16 0\nnet 9 0 9 3\nrpc {calls} 0 0 0 0\n", "n") for calls in (9, 8))
    assert "went back" in _nfsd_notes(late, early)[0]
    assert _nfsd_notes(early, replace(late, threads=8)) == ("nfsd had 16 threads before and has 8 now",)
    assert interval.woken_share(()) is None


# hostile text


def _reader(read: Callable[..., object]) -> Callable[[str], object]:
    return lambda text: read(text, "t", (("t:1", line) for line in text.split("\n")))


_READERS = [_reader(row.read) for row in HOST_TEXTS if row.read is not None]
_READERS += [
    lambda text, kind=kind: kind.read(iter(text.split("\n")), "t") for kind in KINDS if kind.name == "nfsiostat"
]
_TEXTS = [path.read_text() for path in sorted(DATA.glob("*")) if path.suffix in (".txt", ".mountstats")]
_TEXTS = [text for text in _TEXTS if text.startswith(("# nfslat", "device", "\nserver:"))]


def _problem(reader: Callable[[str], object], text: str) -> str:
    """What is wrong with `text`, as its reader says it; "" where it was read."""
    try:
        reader(text)
    except InputError as error:
        return str(error)
    return ""


@settings(max_examples=examples(400))
@given(st.sampled_from(_READERS), st.sampled_from(_TEXTS), st.data())
def test_damaged_text_is_read_or_refused(reader: Callable[[str], object], text: str, data: st.DataObject) -> None:
    """Text that is cut off or overwritten anywhere is read, or refused in one line: never a traceback."""
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    noise = data.draw(st.one_of(st.just(""), st.text(max_size=20), st.sampled_from(["9" * 5000, " -1 ", "nan", "\n"])))
    assert "\n" not in _problem(reader, text[:start] + noise + text[data.draw(st.sampled_from([start, end])) :])


@given(st.sampled_from(_READERS), st.text(max_size=200))
def test_foreign_text_is_read_or_refused(reader: Callable[[str], object], text: str) -> None:
    """Any text at all is read, or refused in one line."""
    assert "\n" not in _problem(reader, text)
