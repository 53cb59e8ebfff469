"""Ops that are slow at times, by hand and from the lab -> which they are, how they come, what is said of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import wire
from captures import SHARED
from queue_captures import write_captures
from queues import MS, US, Traffic
from test_findings import STORAGE, UNKNOWN, row, server

import nfslat
from nfslat.answer.model import Finding
from nfslat.figures.slow_ops import late_of_all, very_long
from nfslat.findings.diagnosis import Diagnosis
from nfslat.findings.facts import Facts, SlowOps
from nfslat.findings.layers import Layers
from nfslat.findings.server import server_findings
from nfslat.findings.slow_ops import slow_finding
from nfslat.inflight.coming import Coming, coming
from nfslat.inflight.split import slow_from
from nfslat.model.tables import I64, Bool

Draw = Callable[[np.random.Generator, int], np.ndarray]

# ms of an op in a thread; none parts into two kinds
_ONE_KIND: dict[str, Draw] = {
    "exponential": lambda rng, n: rng.exponential(2, n),
    "log-normal": lambda rng, n: rng.lognormal(0, 1, n),
    "log-normal, wide": lambda rng, n: rng.lognormal(0, 2, n),
    "a power law": lambda rng, n: 0.1 * (1 + rng.pareto(0.8, n)),
    "all of one length": lambda rng, n: rng.normal(10, 0.1, n),
    "two rates": lambda rng, n: np.where(rng.random(n) < 0.1, rng.exponential(10, n), rng.exponential(1, n)),
}


def _some(share: float, slow: Draw, quick: Draw) -> Draw:
    return lambda rng, n: np.where(rng.random(n) < share, slow(rng, n), quick(rng, n))


_TWO_KINDS: dict[str, tuple[float, Draw]] = {
    "2 % take 250 ms": (0.02, lambda rng, n: rng.normal(250, 20, n)),
    "40 % take 30 ms": (0.4, lambda rng, n: rng.exponential(30, n)),
    "3 % up to 500 ms": (0.03, lambda rng, n: rng.uniform(0, 500, n)),
    "a disk behind a page cache": (0.3, lambda rng, n: rng.lognormal(2, 0.4, n)),
}


@pytest.mark.parametrize("name", _ONE_KIND)
def test_what_fades_out_is_of_one_kind(name: str) -> None:
    """However long a tail is, it does not part ops into quick and slow ones."""
    for seed in range(40):
        times_ms = _ONE_KIND[name](np.random.default_rng(1000 + seed), (60, 300, 1500)[seed % 3])
        assert slow_from((times_ms * MS).astype(np.int64)) is None


@pytest.mark.parametrize("name", _TWO_KINDS)
def test_two_kinds_are_told_apart(name: str) -> None:
    """As many are slow as were made so, to a tenth of them and two."""
    share, slow = _TWO_KINDS[name]
    draw = _some(share, slow, lambda rng, n: rng.exponential(0.2, n))
    for seed in range(20):
        times_ns = (draw(np.random.default_rng(2000 + seed), 1500) * MS).astype(np.int64)
        from_ns = slow_from(times_ns)
        assert from_ns is not None
        made = np.count_nonzero(times_ns > 2.5 * MS)
        assert np.count_nonzero(times_ns >= from_ns) == pytest.approx(made, rel=0.1, abs=2)


@pytest.mark.parametrize("name", _ONE_KIND)
def test_operations_of_several_kinds_are_not_slow_beside_each_other(name: str) -> None:
    """One operation that takes thirty times as long as another, whatever the law, leaves none that is late."""
    for seed in range(40):
        rng, count = np.random.default_rng(3000 + seed), (60, 300, 1500)[seed % 3]
        op = rng.integers(0, 1 + seed % 5, count)
        times_ms = np.maximum(_ONE_KIND[name](rng, count), 0) * 10 ** rng.uniform(-1, 1.5, 5)[op]
        assert not late_of_all((times_ms * MS).astype(np.int64), op)


def test_a_stall_that_holds_one_op_of_each_kind_is_seen() -> None:
    """Four stalls of 500 ms hold seven ops, none of a kind more than three: those are late, and only those."""
    rng = np.random.default_rng(4)
    op = rng.integers(0, 4, 6000)
    own_ns = (rng.lognormal(0, 1, 6000) * np.array([0.05, 0.4, 0.7, 0.9])[op] * MS).astype(np.int64)
    stalled = np.arange(500, 4000, 500)
    op[stalled], own_ns[stalled] = [1, 2, 2, 3, 1, 2, 3], rng.uniform(480, 520, 7) * MS
    assert all(slow_from(own_ns[op == one]) is None for one in range(4))
    from_ns = late_of_all(own_ns, op)
    assert set(from_ns) == {1, 2, 3}
    assert np.flatnonzero(own_ns >= next(iter(from_ns.values()))).tolist() == stalled.tolist()


def test_a_few_slow_ops_and_no_time_are_no_class() -> None:
    """Four ops are none, nor are those that take less than half of the time."""
    quick = np.random.default_rng(1).exponential(0.2 * MS, 1000).astype(np.int64)
    assert slow_from(np.append(quick, [250 * MS] * 4)) is None
    assert slow_from(np.append(quick, [250 * MS] * 5)) is not None
    assert slow_from(np.append(quick, [4 * MS] * 20)) is None
    assert slow_from(quick[:0]) is None


def _hung(hung_ms: float, *, of: int = 0, others_ms: float = 0.5, longest_ms: float = 10) -> dict[int, float]:
    """Whether an op of kind `of` that takes so long is seen, among 11,000 of kinds 0 and 1; kind 2 has none."""
    rng = np.random.default_rng(6)
    quick_ms = np.append(np.minimum(rng.exponential(others_ms, 11_000), longest_ms), longest_ms)
    own_ns = (np.append(quick_ms, hung_ms) * MS).astype(np.int64)
    return very_long(own_ns, np.append(np.arange(11_001) % 2, of))


def test_a_single_op_that_hangs_among_quick_ones_is_seen() -> None:
    """It takes a second or more and a quarter of all the time, and from half of that on an op counts as such."""
    assert _hung(1590, others_ms=0.4) == {0: 795 * MS}
    assert _hung(6000) == {0: 3000 * MS}


def test_a_long_op_that_may_be_as_it_should_is_none() -> None:
    """A cold open of 40 ms, a small share of the time, a tail that leads up to it, or an op with no others of its
    kind."""
    assert _hung(40) == {}
    assert _hung(1590, others_ms=0.6) == {}
    assert _hung(1590, others_ms=0.4, longest_ms=100) == {}
    assert _hung(6000, of=2) == {}


# --- How they come ----------------------------------------------------------------------------------------------------


def _closed(service_ms: Callable[[float, np.random.Generator], float], *, workers: int = 6, seconds: float = 12,
            seed: int = 1) -> tuple[I64, I64]:  # fmt: skip
    """Workers that each ask, wait for the answer and think for 10 ms: when calls came and were answered, ns."""
    rng = np.random.default_rng(seed)
    ends = []
    for _ in range(workers):
        now = rng.uniform(0, 10)
        while now < seconds * 1000:
            took = service_ms(now, rng)
            ends.append((now, now + took))
            now += took + rng.exponential(10)
    table = (np.array(sorted(ends)) * MS).astype(np.int64)
    return table[:, 0], table[:, 1]


def _quick(rng: np.random.Generator) -> float:
    return float(rng.exponential(0.2))


def _alone(_: float, rng: np.random.Generator) -> float:
    return float(rng.normal(250, 20)) if rng.random() < 0.02 else _quick(rng)


def _second_half(now: float, rng: np.random.Generator) -> float:
    return float(rng.exponential(30)) + 3 if now > 6000 and rng.random() < 0.8 else _quick(rng)


def _stalls(*at_ms: float) -> Callable[[float, np.random.Generator], float]:
    def served(now: float, rng: np.random.Generator) -> float:
        stall = next((at for at in at_ms if at <= now < at + 500), None)
        return _quick(rng) + (0 if stall is None else stall + 500 - now)

    return served


def _come(served: Callable[[float, np.random.Generator], float], seed: int) -> Coming:
    begin, end = _closed(served, seed=seed)
    from_ns = slow_from(end - begin)
    assert from_ns is not None
    return coming(begin, end, end - begin >= from_ns)


def test_ops_that_are_slow_by_chance_come_alone() -> None:
    """2 % at random: one by one in nine of ten runs, and nothing else is ever said of them."""
    said = [_come(_alone, seed) for seed in range(50, 70)]
    assert all(one in (Coming(), Coming(alone=True)) for one in said)
    assert sum(one.alone for one in said) >= 16


def test_a_part_of_the_time_has_a_beginning_and_an_end() -> None:
    """80 % are slow from the sixth second on: that is said, to a tenth of a second."""
    for seed in range(50, 60):
        part = _come(_second_half, seed).part_ns
        assert part is not None
        assert part[0] / 1e9 == pytest.approx(6.0, abs=0.1)
        assert part[1] / 1e9 == pytest.approx(12.0, abs=0.3)


@pytest.mark.parametrize(
    ("at_ms", "every_s"), [((1000, 4200, 9000), 0.0), ((1000, 3000, 5000, 7000, 9000), 2.0), ((5000,), 0.0)]
)
def test_stalls_are_counted_and_timed(at_ms: tuple[float, ...], every_s: float) -> None:
    """Times in which nothing is answered for half a second: how many, how long, and whether by a timer."""
    for seed in range(50, 55):
        come = _come(_stalls(*at_ms), seed)
        assert come.stalls == len(at_ms)
        assert come.stall_ns / MS == pytest.approx(500, rel=0.05)
        assert come.every_ns / 1e9 == pytest.approx(every_s, abs=0.05)
        assert come.part_ns is None
        assert not come.alone


def test_what_comes_by_a_timer_comes_regularly() -> None:
    """One op every two seconds is slow."""
    begin = np.arange(6000) * 2 * MS
    slow: Bool = np.arange(6000) % 1000 == 500
    come = coming(begin, begin + np.where(slow, 170 * MS, 200 * US), slow)
    assert come == Coming(every_ns=2_000 * MS)


# --- What is said -----------------------------------------------------------------------------------------------------

LATE = SlowOps(
    ops=("READ",), slow=31, of=1560, slow_ms=172.0, others_ms=0.2, mean_ms=3.4, slowest_ms=172.0, overtaken=1.0
)
FACTS = replace(STORAGE, mean=Layers(3.6, 0.4), by_op=(row("READ", 1560, 3.6),), slow_ops=LATE)


def _one(facts: Facts) -> Diagnosis:
    (found,) = server_findings(facts)
    return found


def test_how_many_take_how_long_is_said() -> None:
    """Number, share and medians, and who else was answered meanwhile: then it is the storage."""
    found = _one(FACTS)
    assert (found.code, found.confidence) == ("server-storage", "likely")
    assert found.text.startswith("31 of 1,560 READs (2.0 %) take 172.0 ms in the server, and the others 0.200 ms")
    assert "others that come meanwhile are answered at once" in found.text
    assert "in a thread of the server" in found.headline


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"part": ("10:00", "")}, "; they come from 10:00 on"),
        ({"part": ("", "11:00")}, "; they come until 11:00"),
        ({"part": ("10:00", "11:00")}, "; they come from 10:00 to 11:00"),
        ({"stalls": 1, "stall_ms": 500.0}, "; they come together, in one stall of 500.0 ms"),
        ({"stalls": 5, "stall_ms": 500.0, "every_s": 3.0}, "; they come together, in 5 stalls of 500.0 ms, every 3 s"),
        ({"every_s": 3.0}, "; they come every 3 s"),
        ({"alone": True}, "; they come one by one, as by chance"),
        ({"light_quick": 40}, ", while 40 ops that need no data are answered at once"),
        ({"overtaken": 0.0, "light_slow": 7}, "; 7 ops that need no data wait as well: the whole server is stalled"),
        ({"overtaken": 0.0}, "is not known"),
    ],
)
def test_how_they_come_is_said_where_it_is_known(changes: dict[str, object], said: str) -> None:
    """In one part of the time, together, regularly or alone; and whether the server went on meanwhile."""
    found = _one(replace(FACTS, slow_ops=LATE._replace(**changes)))  # type: ignore[arg-type]
    assert said in found.text
    assert found.code == ("server-slow-ops" if changes.get("overtaken") == 0.0 else "server-storage")
    assert found.confidence == "likely"


@pytest.mark.parametrize(("slow", "is_said"), [(375, False), (31, True)])
def test_many_that_come_as_by_chance_are_no_finding(slow: int, is_said: bool) -> None:
    """Of a queue that is busy half of the time half of the ops wait, one by one: only few are told apart by that."""
    facts = replace(FACTS, slow_ops=LATE._replace(slow=slow, of=851, alone=True, overtaken=0.0))
    assert (slow_finding(facts) is not None) == is_said


def test_light_ops_that_are_slow_are_no_storages() -> None:
    """LOOKUPs and GETATTRs that take long are the server's, whoever goes on meanwhile."""
    assert _one(replace(FACTS, slow_ops=LATE._replace(ops=("READ", "GETATTR")))).code == "server-slow-ops"


@pytest.mark.parametrize(("ops", "late_ms", "is_named"), [(("READ",), 20.0, False), (("READ",), 19.0, True),
                                                          (("READ", "WRITE"), 7.5, False), (("WRITE",), 7.0, True),
                                                          (("WRITE",), None, True)])  # fmt: skip
def test_what_comes_late_meanwhile_leaves_open_whether_it_is_the_processor(
    ops: tuple[str, ...], late_ms: float | None, is_named: bool
) -> None:
    """READs of 172 ms beside calls that are 20 ms late, or changes, which need the processor more often,
    beside 7.5 ms, may have waited for it: neither the storage nor the server's slowness is a finding then. Calls that
    come in time refute that, and so does the storage's own figure."""
    facts = replace(FACTS, slow_ops=LATE._replace(ops=ops, late_ms=late_ms))
    assert [one.code for one in server_findings(facts)] == ["server-storage"] * is_named
    assert _one(replace(facts, storage_ms=3.0)).confidence == "certain"


def test_the_storages_own_figure_decides() -> None:
    """It contains the time: certain; it is a tenth of it: the storage is not what they wait for."""
    found = _one(replace(FACTS, storage_ms=3.0))
    assert (found.code, found.confidence) == ("server-storage", "certain")
    assert _one(replace(FACTS, storage_ms=0.3)).code == "server-slow-ops"


@pytest.mark.parametrize(
    "changes",
    [
        {"slow_ops": LATE._replace(slow_ms=4.9)},
        {"slow_ops": LATE._replace(mean_ms=0.19)},
        {"unseen_share": 0.3},
        {"slow_ops": None},
    ],
)
def test_what_hardly_costs_anything_is_not_said(changes: dict[str, object]) -> None:
    """Less than 5 ms, or 5 % of the whole; or a fourth of the messages is not seen."""
    assert server_findings(replace(FACTS, **changes)) == []  # type: ignore[arg-type]


def test_the_same_time_is_claimed_once() -> None:
    """A slow server whose ops part into two kinds has one finding on its time, not two or three."""
    assert [one.code for one in server_findings(replace(STORAGE, slow_ops=LATE._replace(mean_ms=15.0)))] == [
        "server-storage"
    ]
    cannot = replace(UNKNOWN, slow_ops=LATE._replace(mean_ms=15.0, overtaken=0.0))
    (found,) = server_findings(cannot)
    assert found.code == "server-slow-ops"
    assert "cannot be told: too regular" in found.text


def test_ops_that_are_always_slow_are_said_before_those_that_are_so_at_times() -> None:
    """A third of the READs are slow and the others come from memory, and every WRITE is: that is most of the time."""
    mean = Layers(36.0, 1.0)
    some = SlowOps(
        ops=("READ",), slow=300, of=900, slow_ms=11.0, others_ms=0.1, mean_ms=3.0, slowest_ms=0.0, overtaken=1.0,
        light_quick=40,
    )  # fmt: skip
    facts = replace(STORAGE, mean=mean, by_op=(row("READ", 900, 3.7), row("WRITE", 300, 120.0)), slow_ops=some)
    every = _one(facts)
    assert (every.code, every.share) == ("server-storage", pytest.approx(35 / 36, abs=0.05))
    assert every.text.startswith("WRITE takes")
    at_times = _one(replace(facts, by_op=(row("READ", 900, 45.0), row("WRITE", 300, 8.0))))
    assert at_times.text.startswith("300 of 900 READs")


def test_a_handful_of_ops_makes_nothing_certain() -> None:
    """With 49 ops of those that take the time all is likely at most, and nobody is told to set a number of threads."""
    few = (row("READ", 49, 20, None),)
    assert _one(replace(UNKNOWN, by_op=few)).confidence == "likely"
    assert _one(replace(UNKNOWN, by_op=(row("READ", 50, 20, None),))).confidence == "certain"
    beside_others = (*few, row("GETATTR", 900, 0.1, None))
    assert _one(replace(UNKNOWN, by_op=beside_others)).confidence == "likely"
    queue = Facts(Layers(48, 1), queue_ms=47.0, server=server(witnesses=5), by_op=(row("READ", 49, 48, 47),))
    found = _one(queue)
    assert found.confidence == "likely"
    assert "look alike" in found.text


# --- Captures ---------------------------------------------------------------------------------------------------------


def _findings(server_pcap: Path, client_pcap: Path) -> dict[str, Finding]:
    report = nfslat.correlate(server_pcap, client_pcap).summary
    return {one.code: one for one in report.findings if one.layer == "server"}


@pytest.mark.parametrize("light_goes_on", [True, False])
def test_stalls_of_a_made_server(tmp_path: Path, light_goes_on: bool) -> None:
    """Reads wait for half a second three times: storage where GETATTRs go on, the whole server where they wait, too."""
    served = _stalls(1000, 2700, 5000)
    rng = np.random.default_rng(7)
    reads = _closed(served, seconds=6)
    begin = np.sort(rng.uniform(0, 6000 * MS, 600).astype(np.int64))
    light_ms = [_quick(rng) if light_goes_on else served(at / MS, rng) for at in begin]
    end = begin + (np.array(light_ms) * MS).astype(np.int64)
    arrival, reply = (np.concatenate(both) for both in ((reads[0], begin), (reads[1], end)))
    kind = np.array(["READ"] * len(reads[0]) + ["GETATTR"] * len(begin))
    order = np.argsort(arrival, kind="stable")
    arrival, reply, kind = arrival[order] + MS, reply[order] + MS, kind[order]
    conn, way = np.zeros(len(arrival), np.int64), 100 * US
    traffic = Traffic(
        conn, kind, arrival - way, arrival - way, arrival, arrival, arrival, reply, reply + way, reply - arrival
    )
    found = _findings(*write_captures(traffic, tmp_path))
    code = "server-storage" if light_goes_on else "server-slow-ops"
    assert list(found) == [code]
    assert "they come together, in 3 stalls of " in found[code].text
    assert ("is stalled" in found[code].text) == (not light_goes_on)


@pytest.mark.parametrize(("stable", "code"), [(0, "server-queue-unknown"), (2, "server-storage")])
def test_what_writes_ask_for_decides_whether_they_are_storages(tmp_path: Path, stable: int, code: str) -> None:
    """WRITEs that take 20 ms in the server, GETATTRs beside them none: FILE_SYNC waits for storage, UNSTABLE may be
    answered from memory."""
    tcp = wire.Tcp()
    for at in range(0, 120, 2):
        tcp.send(25 * at, ">", wire.write(at, offset=512 * at, count=512, stable=stable))
        tcp.send(25 * at + 20, "<", wire.reply(at, wire.WRITE3))
        tcp.send(25 * at + 30, ">", wire.getattr3(at + 1))
        tcp.send(25 * at + 30.1, "<", wire.reply(at + 1, wire.GETATTR3))
    server = wire.write_pcap(tmp_path / "server.pcap", tcp.seen_by("server", theta_ms=3))
    client = wire.write_pcap(tmp_path / "client.pcap", tcp.seen_by("client"))
    assert list(_findings(server, client)) == [code]


@pytest.mark.skipif(not (SHARED / "lab2").is_dir(), reason="no captures at ../shared/lab2")
@pytest.mark.parametrize(
    ("name", "code", "said"),
    [
        ("tail_disk", "server-storage", "99 of 3,241 READs (3.1 %) take 110.3 ms"),
        ("disk_stalls", "server-slow-ops", "in 5 stalls of 379.0 ms, every 1.66 s"),
        ("disk_stalls_full", "server-slow-ops", "in 5 stalls of 421.8 ms, every 1.76 s"),
        ("cached_client", None, ""),
        ("oltp_think_healthy", "server-slow-ops", "116 of 1,434 operations, which no capture shows, take 137.3 ms"),
    ],
)
def test_real_servers_that_are_slow_at_times(name: str, code: str | None, said: str) -> None:
    """A disk of which 2 % answer after 100 ms, one that answers nothing five times, one half of a run, and one that
    stalled by itself, with replies behind the snaplen."""
    folder = SHARED / "lab2" / name
    found = _findings(folder / "server.pcap.gz", folder / "client.pcap.gz")
    assert list(found) == ([] if code is None else [code])
    assert code is None or said in found[code].text
