"""What applications and tracers print -> latencies: each source as it is printed, cut, and taken for another."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from nfslat.errors import InputError
from nfslat.evidence import dtrace, fio, folded, oracle_trace, oracle_waits, perf_sched
from nfslat.evidence.oracle_events import FILE_EVENTS, file_event
from nfslat.evidence.read import read
from nfslat.evidence.records import Evidence, Latency

DATA = Path(__file__).parent / "data"


def of(file: str) -> Evidence:
    return read(str(DATA / file))


def first(evidence: Evidence, op: str, layer: str = "application") -> Latency:
    return next(latency for latency in evidence.latencies if (latency.op, latency.layer) == (op, layer))


# --- Oracle 10046 -----------------------------------------------------------------------------------------------------


def test_a_10046_trace_gives_waits_by_event() -> None:
    """Count, sum, percentiles, histogram and blocks of each event, the longest total first."""
    oracle = of("app_10046.trc").record
    assert oracle is not None
    assert list(oracle.events)[:2] == ["SQL*Net message from client", "db file sequential read"]
    read_waits = oracle.events["db file sequential read"]
    assert (read_waits.count, read_waits.total_us, read_waits.max_us) == (3, 98_237, 50_213)
    assert (read_waits.p50_us, read_waits.p99_us) == (47_000, 50_213)
    assert read_waits.histogram == ((1024, 1), (65_536, 2))
    assert oracle.events["db file scattered read"].mean_blocks == 96
    assert oracle.events["direct path write temp"].mean_blocks == 31
    assert oracle.events["Disk file operations I/O"].mean_blocks is None
    assert (oracle.centiseconds, oracle.direct_nfs) == (False, False)


def test_the_waits_of_files_are_the_applications_latency() -> None:
    """Reads and writes of files only; those whose wait is the I/O come first, and notes tell of the others."""
    evidence = of("app_10046.trc")
    assert [(latency.op, latency.source.rpartition(", ")[2]) for latency in evidence.latencies] == [
        ("READ", "db file sequential read"),
        ("READ", "db file scattered read"),
        ("WRITE", "log file parallel write"),
        ("WRITE", "direct path write temp"),
    ]
    assert first(evidence, "READ").mean_ms == pytest.approx(98.237 / 3)
    assert any("96.0 blocks a wait" in note for note in evidence.notes)
    assert any(note.startswith("direct path write temp: the I/O is asynchronous") for note in evidence.notes)


def test_a_wait_that_the_end_of_the_file_cuts_is_not_read() -> None:
    """ "ela= 502" of 50213 is another number: it is counted as unreadable."""
    oracle = of("app_10046.trc").record
    assert oracle is not None
    assert oracle.unreadable == 1
    for cut in range(20, 90):
        whole = "WAIT #3: nam='db file sequential read' ela= 50213 file#=5 block#=12 blocks=1 obj#=-1 tim=1"
        try:
            assert oracle_trace.parse([whole[:cut]]).events["db file sequential read"].max_us == 50_213
        except InputError:
            assert cut <= whole.index("file#")


def test_traces_of_9i_and_of_8_are_read_in_their_units() -> None:
    """9i has p1 to p3 and microseconds, 8 has centiseconds and says so in its banner."""
    nine = ["WAIT #3: nam='db file scattered read' ela= 987 p1=13 p2=10 p3=8\n"]
    assert oracle_trace.parse(nine).events["db file scattered read"].mean_blocks == 8
    assert oracle_trace.parse(nine).events["db file scattered read"].total_us == 987
    eight = ["Oracle8i Enterprise Edition Release 8.1.7.4.0 - Production\n", nine[0].replace("987", "2")]
    trace = oracle_trace.parse(eight)
    assert trace.events["db file scattered read"].total_us == 20_000
    assert any("centiseconds" in note for note in oracle_trace.notes(trace))


def test_direct_nfs_is_pointed_out() -> None:
    """It bypasses the kernel's client, so that nothing of the slots can be said from mountstats."""
    lines = ["Oracle instance running with ODM: Oracle Direct NFS ODM Library Version 3.0\n"]
    trace = oracle_trace.parse([*lines, "WAIT #3: nam='db file sequential read' ela= 9 p1=1 p2=1 p3=1\n"])
    assert trace.direct_nfs
    assert any("bypasses" in note for note in oracle_trace.notes(trace))


def test_a_trace_without_waits_says_which_level_has_them(tmp_path: Path) -> None:
    """Level 1 or 4 prints no waits."""
    (tmp_path / "x.trc").write_text("PARSING IN CURSOR #1 len=3 dep=0\nselect 1\nEND OF STMT\n")
    with pytest.raises(InputError, match=r"without waits: trace at level 8 or 12"):
        read(str(tmp_path / "x.trc"))


# --- Oracle waits -----------------------------------------------------------------------------------------------------


def test_an_awr_report_gives_means_counts_and_a_percentile() -> None:
    """Units in the cells, K and M, names that are cut, the table of the sessions before that of the background."""
    evidence = of("app_awr_19c.txt")
    found = first(evidence, "READ")
    assert (found.mean_ms, found.count, found.p99_ms) == (50.0, 412_908, 1000.0)
    assert evidence.record is not None
    events = evidence.record.events
    assert (events["control file sequential re"].waits, events["control file sequential re"].mean_ms) == (1200, 0.65)
    assert (events["direct path read"].waits, events["direct path read"].mean_ms) == (4_200_000, 0.5)
    assert (events["log file parallel write"].mean_ms, events["log file sync"].mean_ms) == (1.2, 2.0)
    assert "DB CPU" not in events  # it waits for nothing
    assert evidence.record.complete


def test_the_more_exact_of_two_means_is_taken() -> None:
    """11g prints 47 ms, and 58,025 s for 1,234,567 waits, which is 47.0003 ms; a cut report is noted."""
    evidence = of("app_awr_11g.txt")
    assert first(evidence, "READ").mean_ms == pytest.approx(58_025e3 / 1_234_567)
    assert any("may be cut" in note for note in evidence.notes)


def test_decimal_commas_are_read() -> None:
    """1.000 waits of 65,0 s in all, as a German server prints them."""
    waits = of("app_awr_11g.txt").record
    assert waits is not None
    assert waits.events["db file scattered read"].waits == 1000
    assert waits.events["db file scattered read"].mean_ms == pytest.approx(65.0)


def test_a_histogram_of_counts_bounds_the_mean() -> None:
    """Buckets of powers of two: the mean is known to a factor of two, and the note says between what."""
    evidence = of("app_event_histogram.txt")
    assert evidence.record is not None
    event = evidence.record.events["db file sequential read"]
    assert event.waits == 1000
    assert event.mean_between_ms == pytest.approx(((32 * 800 + 64 * 100) / 1000, (100 + 64 * 800 + 128 * 100) / 1000))
    assert first(evidence, "READ").p99_ms == 128
    assert any("only to be between 32 and 64.1 ms" in note for note in evidence.notes)


@pytest.mark.parametrize("mark", [",", "|", ";", "\t"])
def test_a_histogram_may_be_delimited(mark: str) -> None:
    """SQL*Plus with markup csv, SQLcl and others; microseconds are told from milliseconds by the column's name."""
    cells = [["EVENT", "WAIT_TIME_MICRO", "WAIT_COUNT"], ['"db file sequential read"', "512", "10"]]
    waits = oracle_waits.parse(mark.join(row) + "\n" for row in cells)
    assert waits.events["db file sequential read"].histogram == ((0.512, 10.0),)


def test_html_without_tables_of_waits_is_refused(tmp_path: Path) -> None:
    """A page that is cut behind its heading."""
    (tmp_path / "awr.html").write_text("<html><head><title>AWR</title></head>\nWORKLOAD REPOSITORY report\n")
    with pytest.raises(InputError, match="no wait events can be read: give an AWR report, text or HTML"):
        read(str(tmp_path / "awr.html"))


def test_every_file_event_is_known_by_its_cut_name() -> None:
    """AWR cuts names at 26 characters; no cut name stands for two events that differ."""
    for name, event in FILE_EVENTS.items():
        assert file_event(name) == file_event(name[:26]) == event
    assert file_event("Disk file operations I/O") is None
    assert file_event("log file sync") is None
    assert file_event("") is None


# --- DTrace -----------------------------------------------------------------------------------------------------------


def test_histograms_of_nfsv3rwtime_are_read_in_their_unit() -> None:
    """The key stands above a histogram, the unit in the script's text; totals by file are no averages."""
    evidence = of("app_nfsv3rwtime.txt")
    assert [(latency.layer, latency.op, latency.count) for latency in evidence.latencies] == [
        ("server thread", "WRITE", 4),
        ("server thread", "READ", 100),
    ]
    assert first(evidence, "READ", "server thread").mean_ms == pytest.approx(1.152)
    assert any("between 0.768 and 1.54 ms" in note for note in evidence.notes)
    assert any("the wait for a thread is not in them" in note for note in evidence.notes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("OP AVG(us)\n op-read-done   1043\n", ("server thread", "READ", 1.043, None)),
        ("avg ns\n  rfs3_write    48000000\n", ("server thread", "WRITE", 48.0, None)),
        ("  op-getattr-done 12 ms\n", ("server thread", "GETATTR", 12.0, None)),
        ("OP   AVG_ms  MB/s  count\nR | nfs :  1.50  8.1  200\n", ("server thread", "READ", 1.5, 200)),
        ("I/O latency averages (ms)\nR io  0,10\n", ("storage", "READ", 0.1, None)),
        ("op   count  avg(us)\nread  12  48000\n", ("server thread", "READ", 48.0, 12)),
    ],
)
def test_tables_of_averages_are_read(text: str, expected: tuple[str, str, float, int | None]) -> None:
    """A unit in the heading or behind the number; the headings tell which number is the mean and which the count."""
    (found,) = dtrace.latencies(dtrace.parse(text.splitlines(keepends=True)), "x")
    assert (found.layer, found.op, found.mean_ms, found.count) == (
        *expected[:2],
        pytest.approx(expected[2]),
        expected[3],
    )


def test_layers_between_the_known_ones_are_left_out() -> None:
    """ioh and the like print a line a layer: disks, file system, NFS server. The file system's is neither."""
    lines = [
        "    avg_ms count\n",
        "R | io  : 0.10 5\n",
        "R | zfs : 0.50 5\n",
        "R | nfs : 1.00 5\n",
        "W | nfs : 2.00 5\n",
    ]
    found = dtrace.latencies(dtrace.parse(lines), "x")
    assert [(latency.layer, latency.op, latency.mean_ms) for latency in found] == [
        ("storage", "READ", 0.1),
        ("server thread", "READ", 1.0),
        ("server thread", "WRITE", 2.0),
    ]


def test_averages_of_several_intervals_are_weighted_by_their_counts() -> None:
    """Ten of 1 ms and thirty of 5 ms are 4 ms; without counts each interval counts as much."""
    (found,) = dtrace.latencies(dtrace.parse(["op avg(ms) count\n", "read 1 10\n", "read 5 30\n"]), "x")
    assert (found.mean_ms, found.count) == (4.0, 40)
    (found,) = dtrace.latencies(dtrace.parse(["op avg(ms)\n", "read 1\n", "read 5\n"]), "x")
    assert (found.mean_ms, found.count) == (3.0, None)


@pytest.mark.parametrize(
    "text",
    [
        "  op-read-done   1043\n",
        "  read\n   value  ------------- Distribution ------------- count\n     32 |@@@   4\n",
    ],
)
def test_a_unit_that_is_not_told_is_asked_for(text: str, tmp_path: Path) -> None:
    """DTrace prints none; a guess would be wrong by a factor of a thousand."""
    (tmp_path / "x").write_text(text)
    with pytest.raises(InputError, match=r"unit.*: add a line before it, such as"):
        read(str(tmp_path / "x"))


def test_lquantize_is_read_by_its_steps() -> None:
    """Buckets reach to the next value, the first one is below it."""
    rows = ["< 0 |    0", "0 |@@@@   10", "10 |@@   10", ">= 20 |    0"]
    head = ["latency (ms)", "  read", "  value  ------------- Distribution ------------- count"]
    (found,) = dtrace.parse(line + "\n" for line in [*head, *rows]).figures
    assert found.between_ms == (5.0, 15.0)


# --- perf, stacks, fio ------------------------------------------------------------------------------------------------


def test_perf_sched_of_several_versions() -> None:
    """The last columns differ; "(8)" are eight tasks of one name."""
    sched = of("app_perf_sched.txt").record
    assert sched is not None
    nfsd, oracle, _, kworker = sched.tasks
    assert (nfsd.name, nfsd.pid, nfsd.tasks, nfsd.switches) == ("nfsd", None, 8, 789)
    assert (nfsd.runtime_ms, nfsd.mean_delay_ms, nfsd.max_delay_ms) == (123.456, 0.524, 1.069)
    assert (oracle.name, oracle.pid) == ("oracle_4242_db1", 4242)
    assert kworker.name == "kworker/1:2-xfs"
    assert sched.unreadable == 0
    assert perf_sched.notes(sched)[0].startswith("nfsd waited 0.524 ms")


def test_stacks_are_grouped_by_what_their_functions_do() -> None:
    """A thread that waits for calls is idle; each sample is in one group, so that the shares sum to 1."""
    stacks = of("app_stacks.folded").record
    assert stacks is not None
    assert stacks.total == 1000
    assert stacks.groups == {
        "NFS server, idle": 300,
        "NFS server, serving": 200,
        "NFS client, waiting for an RPC": 90,
        "NUMA balancing": 10,
        "other": 400,
    }


def test_stacks_of_dtrace_have_modules_before_their_frames() -> None:
    """ "module`function", and perf's "_[k]" behind it; the frame next to the leaf says what the task does."""
    stacks = folded.parse(
        ["unix`thread_start;genunix`mutex_lock_slow;ip`tcp_output 7\n", "a;__mutex_lock.isra.0_[k] 3\n"]
    )
    assert (stacks.share("locks"), stacks.share("TCP")) == (0.3, 0.7)


def test_waits_for_pages_that_the_kernel_moves_are_no_io() -> None:
    """A database whose backends fault on pages in migration: NUMA balancing, with the knob, and neither block I/O nor
    page faults; io_schedule alone is no block I/O, submit_bio is; what compaction moves is not NUMA's."""
    fault = "postgres;asm_exc_page_fault;do_user_addr_fault;handle_mm_fault"
    stacks = folded.parse(
        [
            f"{fault};__migration_entry_wait;io_schedule;schedule 60\n",
            f"{fault};do_numa_page;migrate_misplaced_page;migrate_pages 10\n",
            f"{fault};filemap_fault;io_schedule;schedule 10\n",
            "postgres;vfs_read;ext4_file_read_iter;submit_bio;blk_mq_get_tag;io_schedule 12\n",
            "kcompactd0;kthread;kcompactd;compact_zone;migrate_pages;try_to_unmap 8\n",
        ]
    )
    assert stacks.groups == {"NUMA balancing": 70, "block I/O": 12, "page faults": 10, "memory compaction": 8}
    assert sum(stacks.groups.values()) == stacks.total
    said = " ".join(folded.notes(stacks))
    assert "70% of the samples move pages between NUMA nodes" in said
    assert "kernel.numa_balancing=0" in said


_PROC = """\
==> /proc/4711/stack <==
[<0>] __migration_entry_wait+0xbf/0xd0
[<0>] do_swap_page+0x2a5/0x6d0
[<0>] handle_mm_fault+0x15f/0x2a0
[<0>] asm_exc_page_fault+0x26/0x30

==> /proc/4712/stack <==
[<0>] rpc_wait_bit_killable+0x1e/0xa0 [sunrpc]
[<0>] nfs_file_direct_read+0x1e0/0x2b0 [nfs]
[<0>] do_syscall_64+0x55/0xb0
[<0>] entry_SYSCALL_64_after_hwframe+0x6e/0xd8
[<0>] svc_recv+0x6b1/0x9d0 [sunrpc]
[<0>] nfsd+0x8a/0xd0 [nfsd]
[<0>] kthread+0xda/0x100
[<0>] ret_from_fork+0x34/0x50
"""


@pytest.mark.parametrize("headings", [True, False])
def test_stacks_as_proc_shows_them_are_samples(headings: bool, tmp_path: Path) -> None:
    """`tail -n +1 /proc/*/stack`, or a loop of cat: each stack counts once, with or without a line between two."""
    text = _PROC if headings else "".join(line for line in _PROC.splitlines(keepends=True) if line.startswith("[<"))
    (tmp_path / "stacks.txt").write_text(text)
    found = read(str(tmp_path / "stacks.txt"))
    assert found.kind == "folded stacks"
    assert isinstance(found.record, folded.Stacks)
    assert found.record.groups == {
        "NUMA balancing": 1,
        "NFS client, waiting for an RPC": 1,
        "NFS server, idle": 1,
    }
    assert found.record.unreadable == 0


@pytest.mark.parametrize("file", ["app_fio.json", "app_fio.txt"])
def test_fio_gives_what_the_application_waited(file: str) -> None:
    """JSON and normal output, in whatever unit fio chose."""
    evidence = of(file)
    found, written = first(evidence, "READ"), first(evidence, "WRITE")
    assert (found.mean_ms, found.count) == (pytest.approx(303.8, abs=0.02), 394)
    assert (written.mean_ms, written.count) == (pytest.approx(354.057), 159)
    assert found.p99_ms == pytest.approx(625, abs=0.1)
    assert found.max_ms == pytest.approx(661, abs=1)


def test_several_jobs_of_fio_are_weighted_by_their_requests() -> None:
    """Percentiles of several jobs are not added up, and that is noted."""
    jobs = [
        {"read": {"total_ios": ios, "lat": {"mean": mean, "max": mean}}} for ios, mean in ((1, 1000.0), (3, 5000.0))
    ]
    printed = fio.parse(json.dumps({"fio version": "fio-2.2", "jobs": jobs}).splitlines(keepends=True))
    (found,) = fio.latencies(printed, "x")
    assert (found.mean_ms, found.count, found.p99_ms, found.max_ms) == (4.0, 4, None, 5.0)
    assert "percentiles" in fio.notes(printed)[0]


# --- Files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "kind"),
    [
        ("app_10046.trc", "10046 trace"),
        ("app_awr_11g.txt", "wait events"),
        ("app_awr_19c.txt", "wait events"),
        ("app_event_histogram.txt", "wait events"),
        ("app_nfsv3rwtime.txt", "DTrace"),
        ("app_sunrpc.txt", "sunrpc trace"),
        ("app_perf_sched.txt", "perf sched"),
        ("app_stacks.folded", "folded stacks"),
        ("app_fio.json", "fio"),
        ("app_fio.txt", "fio"),
    ],
)
def test_the_kind_is_told_by_the_text(file: str, kind: str, tmp_path: Path) -> None:
    """Not by the name; CRLF, a gzip file, UTF-16 and bytes that are no UTF-8 in a line give the same figures."""
    known = of(file)
    assert known.kind == kind
    text = (DATA / file).read_bytes()
    for other in (
        text.replace(b"\n", b"\r\n"),
        gzip.compress(text, mtime=0),
        text.decode().encode("utf-16"),
        b"\xef\xbb\xbf" + text,
    ):
        (tmp_path / file).write_bytes(other)
        again = read(str(tmp_path / file))
        assert (again.kind, again.latencies, again.notes) == (kind, known.latencies, known.notes)


def test_what_is_there_of_a_cut_gzip_file_is_read(tmp_path: Path) -> None:
    """And the notes say that it is cut."""
    lines = [f"WAIT #1: nam='db file sequential read' ela= {n * n} file#=1 block#=1 blocks=1\n" for n in range(5000)]
    packed = gzip.compress("".join(lines).encode())
    (tmp_path / "x.gz").write_bytes(packed[: len(packed) // 2])
    evidence = read(str(tmp_path / "x.gz"))
    assert 0 < evidence.latencies[0].count < 5000  # type: ignore[operator]
    assert "the file is cut off: what is there was read" in evidence.notes


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "holds no text"),
        (b"\n \n", "holds no text"),
        (b"\xd4\xc3\xb2\xa1\x02\0\x04\0", "is binary"),
        (b"hello\nworld\n", "is not an Oracle 10046 trace, AWR or wait histogram"),
        (gzip.compress(b"", mtime=0)[:9], "holds no text"),
        (b"WORKLOAD REPOSITORY report for\n", "no wait events can be read"),
        (b"# tracer: nop\n", "without rpc_stats_latency and svc_stats_latency"),
        (b"fio-3.33\nStarting 1 thread\n", "fio printed no latencies"),
        (b'{\n "fio version" : "fio-3.33",\n "jobs" : [\n', "cut off or no JSON"),
        (b"a;b 0\n", "no stack with samples"),
        (b"Latency averages (us)\nnothing\n", "no averages and no histograms"),
        (b"x ms | 1 | avg: | max: ms |\n ms | | avg:  ms | max: ms |", "no task"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(content: bytes, says: str, tmp_path: Path) -> None:
    """Empty, binary, foreign, and known but without figures: each has its own words, with the file's name."""
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(InputError) as problem:
        read(str(path))
    assert str(problem.value).startswith(f"{path}: ")
    assert says in str(problem.value)
    assert "\n" not in str(problem.value)


def test_what_is_no_file_is_said_in_one_line(tmp_path: Path) -> None:
    """A folder, nothing at all, a name with a NUL."""
    for path in (str(tmp_path), str(tmp_path / "none"), "a\0b", ""):
        with pytest.raises(InputError):
            read(path)
