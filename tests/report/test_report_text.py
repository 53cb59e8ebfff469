"""What the text report promises: the answer first, 80 columns, sums that add up, colour that changes nothing."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pytest
from examples import examples
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from verdicts import blames

from nfslat.answer.model import (
    AuditNote,
    CapInFlight,
    Charge,
    Level,
    MeanAndP99,
    NextStep,
    Outcome,
    Parts,
    Report,
    SessionInFlight,
    StackRow,
    WhatIf,
)
from nfslat.answer.words import adding_up, ms, shares_adding_up
from nfslat.api import Options, run
from nfslat.errors import UsageError
from nfslat.report import text as report_text
from nfslat.report.blocks import Cell
from nfslat.report.text_layout import plain, shorten
from nfslat.report.text_writer import table

_COLOR = re.compile(r"\x1b\[[\d;]+m")
_thorough = settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])

render = functools.partial(report_text.render, full=True)  # all sections; what fits a screen has tests of its own


@given(data=st.data())
@_thorough
def test_no_line_is_wider_than_80_columns(reports: st.SearchStrategy[Report], data: st.DataObject) -> None:
    """Whatever the names, paths and numbers are, a report renders, and nothing wraps on an 80-column terminal."""
    text = render(data.draw(reports)) + report_text.render(data.draw(reports), sections=["histograms"])
    too_wide = [line for line in text.splitlines() if len(line) > 80]
    assert not too_wide
    assert "\x1b" not in text
    assert all(line == line.rstrip() for line in text.splitlines())


@given(data=st.data(), width=st.integers(20, 200))
@_thorough
def test_colour_changes_no_character(reports: st.SearchStrategy[Report], data: st.DataObject, width: int) -> None:
    """With its colour codes taken out, the coloured report is the plain report, at any width."""
    report = data.draw(reports)
    assert _COLOR.sub("", render(report, width=width, color=True)) == render(report, width=width)


def test_colour_is_there_when_asked_for(small: Callable[[], Report]) -> None:
    """The headline is bold on a terminal."""
    assert render(small(), color=True).startswith("\x1b[1mOf 20.0 ms")


@given(data=st.data())
@_thorough
def test_the_answer_stands_in_the_first_five_lines(compared: st.SearchStrategy[Report], data: st.DataObject) -> None:
    """Verdict and both equations come before line six, for verdicts of up to 200 characters, then how sure it is."""
    report = data.draw(compared)
    verdict = blames("server", None, 0.9, 0.9, "high", "word " * 39 + "last.", [], ["reason " * 50])
    *first, then = render(dataclasses.replace(report, verdict=verdict)).splitlines()[:6]
    assert then.startswith(("Confidence is high", "With the "))
    assert "= network" in first[-2]
    assert first[-1].startswith("slowest 1 % ")


@given(data=st.data())
@_thorough
def test_the_printed_equation_adds_up(compared: st.SearchStrategy[Report], data: st.DataObject) -> None:
    """client SRT = network + server, to the last printed digit, for the mean and for the slowest 1 %."""
    report = data.draw(compared)
    equations = re.findall(r" ([-\d.]+) += network +([-\d.]+) +\+ server +([-\d.]+) ", render(report))
    assert len(equations) == 2
    for client, network, server in equations:
        assert Decimal(client) == Decimal(network) + Decimal(server)


_parts = st.lists(st.floats(-1e7, 1e7, allow_nan=False), min_size=1, max_size=6)


@given(_parts)
@example([0.05, 0.05, 0.05])
@example([1e-9])
@example([1e7, -1e7, 1e-5])
def test_parts_add_up_to_the_printed_total(parts: list[float]) -> None:
    """The total and each part is rounded, but for the largest part, which takes what rounding leaves."""
    shown, total = adding_up(parts)
    assert sum(map(Decimal, shown)) == Decimal(total)
    unit = 10.0 ** -len(total.partition(".")[2])
    assert abs(float(total) - math.fsum(parts)) <= unit / 2 + 1e-8
    off = sorted(abs(float(s) - part) for s, part in zip(shown, parts, strict=True))
    assert all(one <= unit / 2 + 1e-8 for one in off[:-1])
    assert off[-1] <= (len(parts) + 1) * unit / 2 + 1e-8


@given(_parts)
def test_shares_add_up_to_100_percent(parts: list[float]) -> None:
    """Printed shares sum to 100.0 %, or are dashes where the total is too small to divide by."""
    shown = shares_adding_up(parts)
    assert set(shown) == {"-"} or sum(Decimal(s.removesuffix(" %")) for s in shown) == Decimal(100)


@pytest.mark.parametrize(
    ("value_ms", "shown"),
    [
        (0.0, "0"),
        (0.0123, "0.0123"),
        (0.5, "0.500"),
        (1.234, "1.23"),
        (12.34, "12.34"),
        (203.14, "203.1"),
        (12345.6, "12345.6"),
        (-1.234, "-1.23"),
        (-0.00001, "0.0000"),
    ],
)
def test_durations_keep_three_digits(value_ms: float, shown: str) -> None:
    """Small durations keep three significant digits, large ones do not drown in decimals, nothing is minus zero."""
    assert ms(value_ms) == shown


def test_decimal_points_stand_below_each_other() -> None:
    """In a column of durations of different size every decimal point is at the same place."""
    lines = table("ld", ("op", "mean"), [["READ", 0.0123], ["WRITE", 203.1], ["LINK", 1.23]], 80)[2:]
    assert len({line.index(".") for line in lines}) == 1


def test_a_narrow_table_loses_decimals_before_names() -> None:
    """Where a table is too wide, decimals of the widest columns go first and operation names stay whole."""
    rows: list[list[Cell]] = [
        ["BIND_CONN_TO_SESSION", "4.1", 1_000_000, 0.0123, 99999.9, 0.0123, 99999.9, 1.0],
        ["READ", "4.1", 5, 12345.6, 0.0123, 12345.6, 0.0123, 1.0],
    ]
    lines = table("lrrddddd", ("op", "vers", "count", "mean", "p50", "p95", "p99", "max"), rows, 80)
    assert max(map(len, lines)) <= 80
    assert lines[2].startswith("BIND_CONN_TO_SESSION ")


def test_text_from_outside_cannot_steer_the_terminal() -> None:
    """Escape codes in a path are shown as escapes, and so are wide characters; line ends are blanks."""
    assert plain("a\x1b[31m\nb\u8cc7") == r"a\x1b[31m b\u8cc7"


@given(st.text(max_size=200), st.integers(10, 80))
def test_a_shortened_path_keeps_both_ends(text: str, width: int) -> None:
    """A long path is cut in the middle, never beyond the width."""
    short = shorten(text, width)
    assert len(short) <= width
    assert short[:3] == plain(text)[:3]
    assert short[-1:] == plain(text)[-1:]


def test_no_two_directions_where_the_clocks_do_not_allow_them(small: Callable[[], Report]) -> None:
    """Without call_net and reply_net the report says so and gives their sum."""
    report = small()
    assert report.matched is not None
    assert report.matched.total is not None
    parts = Parts(0.0041, None, 19.30, 0.0955, None, 0.6204, 0.4)
    total = dataclasses.replace(report.matched.total, parts_ms=parts)
    text = render(dataclasses.replace(report, matched=dataclasses.replace(report.matched, total=total)))
    assert "cannot be told: the clocks are known to +/- 0.400 ms only" in " ".join(text.split())
    assert re.search(r"^net_both: .* 0\.62 ", text, re.MULTILINE)
    assert "call_net: " not in text


def test_captures_that_share_no_op_are_said_to_share_none(small: Callable[[], Report]) -> None:
    """Without a matched op the first line says that there is no answer, and the misses say why."""
    report = small()
    assert report.matched is not None
    matched = dataclasses.replace(report.matched, ops=0, by_op=[], total=None, slowest=None)
    text = render(dataclasses.replace(report, matched=matched, verdict=None))
    assert text.startswith("No op is in both captures")
    assert "nothing of its connection" not in text
    assert "not in the server's capture" in text


def test_the_stack_is_indented_by_depth(small: Callable[[], Report]) -> None:
    """A part of a layer stands to the right of it, with its share and source."""
    stack = [
        StackRow("all", "application", 0, 58.0, None, "--app-ms"),
        StackRow("all", "above the wire", 1, 38.0, 0.655, "application - client SRT"),
        StackRow("all", "client SRT", 1, 20.0, 0.345, "captures"),
        StackRow("all", "server", 2, 19.3, 0.333, "server SRT"),
    ]
    text = render(dataclasses.replace(small(), stack=stack))
    assert re.search(r"^application +58\.00 +- +--app-ms$", text, re.MULTILINE)
    assert re.search(r"^  above the wire +38\.00 +65\.5 % +application - client SRT$", text, re.MULTILINE)
    assert re.search(r"^    server +19\.30 +33\.3 % ", text, re.MULTILINE)


def test_operations_keep_their_names_at_80_columns(small: Callable[[], Report]) -> None:
    """With figures as in real captures, the longest NFSv4 names stand whole in every table, callbacks too."""
    report = small()
    assert report.matched is not None
    names = [("NFS", "SETCLIENTID_CONFIRM"), ("NFS", "BIND_CONN_TO_SESSION"), ("NFS_CB", "CB_RECALLABLE_OBJ_AVAIL")]
    rows = [
        dataclasses.replace(report.matched.by_op[0], program=program, op=op, version="4.1", count=123_456)
        for program, op in [*names, ("NLM", "GRANTED_RES")]
    ]
    raw = [dataclasses.replace(report.raw["client"][0], program=row.program, op=row.op, count=123_456) for row in rows]
    text = render(
        dataclasses.replace(report, matched=dataclasses.replace(report.matched, by_op=rows), raw={"client": raw})
    )
    for label in (*(op for _, op in names), "NLM GRANTED_RES"):
        assert text.count(f"\n{label} ") == 4


def test_commands_can_be_pasted(small: Callable[[], Report]) -> None:
    """A line broken for 80 columns is the same for the shell: backslashes in commands, # in remarks, whole quotes."""
    report = small()
    command, quoted = "echo " + "word " * 20 + ">>/etc/file", f"echo '{'a b ' * 20}' >>/etc/file"
    remark = "# " + "say more " * 12
    how = {"knob": "a.b", "suggested": "1", "how": [command, remark, quoted]}
    text = render(dataclasses.replace(report, findings=[dataclasses.replace(report.findings[0], advice=how)]))
    lines = text[text.index("   how     ") + 11 : text.index("\ndocs/findings.md")]
    shell = [" ".join(line.split()) for line in lines.replace("\\\n", "").splitlines()]
    assert [line for line in shell if not line.startswith("#")] == [command, " ".join(quoted.split())]
    assert " ".join(line[2:] for line in shell if line.startswith("#")).split() == remark[2:].split()


def test_where_nothing_is_found_it_is_said_what_was_looked_for(small: Callable[[], Report]) -> None:
    """No finding is an answer, too; and what the packets could not tell is named."""
    report = small()
    assert report.inflight is not None
    server = dataclasses.replace(report.inflight.server, cannot="too few calls")
    inflight = dataclasses.replace(report.inflight, server=server)
    text = " ".join(render(dataclasses.replace(report, findings=[], inflight=inflight)).split())
    assert "What explains the time Nothing stands out. Looked for waiting for a server thread" in text
    assert "Whether calls wait for a server thread cannot be told: too few calls." in text


def test_what_was_found_is_not_among_what_was_looked_for(small: Callable[[], Report]) -> None:
    """A finding that matters little stands below: it was looked for, and found."""
    report = small()
    loss = dataclasses.replace(report.findings[0], layer="network", code="net-loss", severity="info")
    text = " ".join(render(dataclasses.replace(report, findings=[loss])).split())
    assert "distance, packets that are too large for the path, reordering, jitter, one slow direction" in text
    assert "- net-loss," in text


def test_findings_on_the_captures_stand_with_the_warnings(small: Callable[[], Report]) -> None:
    """What is wrong with a capture explains no time."""
    report = small()
    other = dataclasses.replace(report.findings[0], layer="capture", code="capture-drops")
    text = render(dataclasses.replace(report, findings=[other]))
    assert "capture-drops" not in text
    assert "Nothing stands out" in text


def test_sessions_and_limits_of_connections(small: Callable[[], Report]) -> None:
    """A session shows its slots; a connection whose window the server closed stands with the other connections' SRT."""
    report = small()
    assert report.inflight is not None
    session = SessionInFlight("17fc006b" * 4, False, 1, 477, 2, 2, 1, 2, 2, 0.99, 0.78, None, True)
    back = SessionInFlight("17fc006b" * 4, True, 1, 3, None, None, 0, 1, None, None, None, None, False)
    cap = CapInFlight("10.0.0.2:733", 991, 128, 0.8, 9, 120.0, 30.0, 3, 1.5, True)
    inflight = dataclasses.replace(report.inflight, sessions=[session, back], caps=[cap])
    text = render(dataclasses.replace(report, inflight=inflight))
    assert re.search(r"^17fc0...fc006b +477 +2 +2 +2 +2 +99.0 %$", text, re.MULTILINE)
    assert re.search(r"^17fc0...fc006b, callbacks +3 +- +- +- +1 +-$", text, re.MULTILINE)
    assert "\nCalls wait for a slot of session 17fc0...fc006b.\n" in text
    assert "9 times for 120.0 ms; median server SRT 30.00 ms, 1.50 ms on 3 other connections" in " ".join(text.split())
    assert "NFSv4.1 session: slots that CREATE_SESSION granted" in text


@pytest.mark.parametrize("top", [1, 2, 8, 9, 31, 511])
def test_levels_fit_into_eight_rows_and_lose_nothing(small: Callable[[], Report], top: int) -> None:
    """However many levels there are, the shares of the rows add up to all of the time, and the top stands alone."""
    report = small()
    assert report.inflight is not None
    levels = [Level(n, 1 / top, 100.0) for n in range(1, top + 1)]
    server = dataclasses.replace(report.inflight.server, levels=levels)
    client = dataclasses.replace(report.inflight.client, levels=levels, knee=None)
    text = render(
        dataclasses.replace(report, inflight=dataclasses.replace(report.inflight, server=server, client=client))
    )
    rows = text.partition("ops/s at")[2].partition("\n\n")[0].splitlines()[3:]
    assert len(rows) == min(top, 8)
    assert sum(float(row.split("%")[0].split()[-1]) for row in rows) == pytest.approx(100, abs=0.5)
    assert rows[-1].startswith(f"{top} ")
    assert rows[-1].split("%")[0].split()[-1] == f"{100 / top:.1f}"


def test_what_if_stands_beside_what_was_captured(small: Callable[[], Report]) -> None:
    """A replay shows the numbers in effect and those asked for, where an op waits then, and how far it may be off."""
    before = Outcome(4, None, 990, 1400.0, MeanAndP99(19.9, 55.0), None, 0.0, 14.1, 0.99, None, "threads")
    after = Outcome(64, None, 990, 5000.0, MeanAndP99(5.8, 9.0), None, 0.0, 0.0, 0.3, None, "load")
    now, then = MeanAndP99(20.02, 55.9), MeanAndP99(5.834, 9.1)
    off = (-0.006, 990, 990, 3, "Storage stays as it was.")
    one = WhatIf("threads=64", "", now, then, 31.0, 16.8, 14.13, before, after, *off)
    text = render(dataclasses.replace(small(), what_if=[one], evidence=["a.trc: 3 lines were not read"]))
    assert re.search(r"^client SRT, mean ms +20\.02 +5\.83$", text, re.MULTILINE)
    assert re.search(r"^application, mean ms +31\.00 +16\.80$", text, re.MULTILINE)
    assert re.search(r"^threads +4, 99\.0 % busy +64, 30\.0 % busy$", text, re.MULTILINE)
    assert re.search(r"^an op waits most for +a thread +nothing much$", text, re.MULTILINE)
    assert (
        "-0.6 % off its mean. Played are all 990 matched ops and 3 ops of the server besides. Storage stays"
        in " ".join(text.split())
    )
    assert "\n- a.trc: 3 lines were not read\n" in text


def test_warnings_stand_before_the_tables_and_notes_with_their_capture(small: Callable[[], Report]) -> None:
    """A warning of the audit limits the answer, so it comes right after it; a remark stands with its capture."""
    report = small()
    notes = [AuditNote("capture-drops", "warning", "9 packets lost", 9), AuditNote("reordered", "info", "2 late", 2)]
    server = dataclasses.replace(report.captures["server"], audit=notes)
    captures = {**report.captures, "server": server}
    text = render(dataclasses.replace(report, captures=captures, notes=["files were swapped"]))
    at = [text.index(part) for part in ("server's capture: 9 packets lost (capture-drops)", "- files were swapped")]
    assert max(at) < text.index("Raw data: SRT") < text.index("\nCaptures\n") < text.index("2 late (reordered)")


def test_one_capture_says_what_it_cannot_say(small: Callable[[], Report]) -> None:
    """The report of one capture has its raw data, and says at the top why it names no layer; what it shows for certain
    comes first."""
    two = small()
    one = dataclasses.replace(
        two,
        captures={"capture": two.captures["server"]},
        raw={"capture": two.raw["server"]},
        selection=dataclasses.replace(two.selection, excluded={}),
        matched=None,
        clock=None,
        verdict=None,
    )
    assert render(one).startswith("Calls wait for an NFS server thread.\nOne capture shows how long")
    one = dataclasses.replace(one, findings=[])
    text = render(one)
    assert text.splitlines()[0] == "One capture shows how long operations took, not where the time goes."
    assert "It cannot say: which layer adds the time." in text
    assert "READ v3 has the largest share" in text
    assert "Matched data" not in text


def test_a_small_report_reads_like_this(small: Callable[[], Report]) -> None:
    """The part of a small report that depends on the captures, up to the legend, word for word."""
    assert render(small()).partition("\nLegend\n")[0] + "\n" == GOLDEN


GOLDEN = """\
Of 20.0 ms mean client SRT the server adds 19.3 ms (96.4 %), and 98.7 % of the
slowest 1 %.
mean client SRT  20.02  = network  0.72  + server  19.30  ms, 990 ops
slowest 1 %      90.40  = network  1.20  + server  89.20  ms, 10 ops
Confidence is high: 99.0 % of the server's ops were matched; no warning from the
  captures.

What explains the time
1. server-threads, likely: 70.9 % of the mean, 88.8 % of the slowest 1 %
   calls wait 14.2 of the server's 19.3 ms for one of the server's 4 threads.
   set     nfsd.threads to 64 (now 4)
   how     rpc.nfsd 64
           # for the next start, in /etc/nfs.conf under [nfsd]: threads=64;
           # where that is not read, RPCNFSDCOUNT
           echo options a module with a parameter of its own \\
             some_parameter=64 >>/etc/modprobe.d/a-name.conf
   acts    at once, without a remount
   check   cat /proc/fs/nfsd/threads
   risk    the server and its storage get more requests at once; a slow back end
           stays slow, and has a longer queue
2. server-storage, likely: 25.0 % of the mean
   READ and WRITE take 5.1 ms in the server once a thread has them.
   look at the storage behind the server
   how     iostat -x 1 on the server
           nfslat ... --storage-ms
docs/findings.md explains each finding and what would refute it.
- net-delay, certain, 3.1 % of the mean: the round trip is 0.62 ms.

In flight: operations whose call has been seen and whose reply has not
server 10.0.0.1: at most 32 at once, 27.1 on average while there are any
  threads: at least 4 exist (seen 120 times), estimate 4 (between 4 and 5);
    calls wait for one
  mean wait for a thread 14.20 ms (between 13.40 and 14.20), in a thread 5.10
    ms; 96.0 % of the calls wait
  threads that served clients outside the server's capture are not counted
  12 calls of little work waited as long as the others, so the wait is not for
    storage

mean ms      vers  count  server  queue    in a  queue's
                             SRT         thread    share
-----------  ----  -----  ------  -----  ------  -------
READ            3    990   19.30  14.20    5.10   73.6 %
slowest 1 %           10   89.20  80.30    8.90   90.0 %

client: at most 32 at once, 27.5 on average while there are any
  10.0.0.2 to 10.0.0.1:2049: 991 ops, 1 connection at a time, held by: workers

connection    ops  most  level    time   behind   ms after it
                                 at it  a reply      p50, p75
------------  ---  ----  -----  ------  -------  ------------
10.0.0.2:733  991    32     32  70.0 %   41.0 %  0.162, 0.215

in flight     time at    ops/s at     time at    ops/s at
           the server  the server  the client  the client
---------  ----------  ----------  ----------  ----------
1 to 4          2.0 %        60.0       2.0 %        60.0
14 to 17       18.0 %         780      18.0 %         780
27 to 31       10.0 %         785      10.0 %         785
32             70.0 %         790      70.0 %         790
Throughput hardly grows from 16 in flight on at the client. That alone is no
limit: a load that arrives at a fixed rate looks the same.

Raw data: SRT at the server, ms, all ops of this capture
op    vers  count   mean    p50    p95    p99    max
----  ----  -----  -----  -----  -----  -----  -----
READ     3  1,000  19.30  18.00  30.00  55.00  111.0

Raw data: SRT at the client, ms, all ops of this capture
op    vers  count   mean    p50    p95    p99    max
----  ----  -----  -----  -----  -----  -----  -----
READ     3    991  20.02  18.70  30.80  55.90  112.4

Histogram of SRT: ops up to this time and above the one before

READ v3  server                           client
-------  ------  -----------------------  ------  -----------------------
   16m      400  ###############             381  ##############
   33m      590  #######################     600  #######################
   65m        0                                0
   .1s        0                                0
   .2s       10  #                            10  #

Matched data: ops seen in both captures, mean ms
op    vers  count  client  server  network  in server
----  ----  -----  ------  ------  -------  ---------
READ     3    990   20.02   19.30     0.72     96.4 %

Matched data: p99 and max, ms
op    vers  client  client  server  server  network  network
               p99     max     p99     max      p99      max
----  ----  ------  ------  ------  ------  -------  -------
READ     3   55.90   112.4   55.00   111.0     1.10     2.20

Processed, matched and missed ops
ops                                        server  client
-----------------------------------------  ------  ------
processed                                   1,000     991
matched                                       990     990
missed                                         10       1
  while the other capture was not running       8       0
  not in the server's capture                   0       1
  not in the client's capture                   2       0

Where the time goes, ms per matched op
part                           mean   share  slowest 1 %   share
----------------------------  -----  ------  -----------  ------  ---------
call_send: client sends it     0.00   0.0 %         0.00   0.0 %
call_net: call in transit      0.31   1.6 %         0.50   0.6 %  +/- 0.230
  until it was retransmitted                        0.02
server: call in to reply out  19.30  96.4 %        89.20  98.7 %
reply_send: server sends it    0.10   0.5 %         0.30   0.3 %
reply_net: reply in transit    0.31   1.5 %         0.40   0.4 %  +/- 0.230
sum, first to last byte       20.02                90.40
Which direction takes longer cannot be told: the two differ by less than their
combined error.

Percentiles of the parts, ms
part            p50      p95      p99       max
----------  -------  -------  -------  --------  -----------
call_send    0.0040   0.0050   0.0060    0.0070
call_net     0.305    0.400    0.500     1.10    +/- 0.250
server      18.00    30.00    55.00    111.0
reply_send   0.0900   0.100    0.200     0.400
reply_net                                        cannot tell

Clock
The server's clock is 7,000.125 ms ahead of the client's (theta between
6,999.900 and 7,000.350 ms). Client SRT, server SRT and their difference need no
clock; one-way figures carry the clock error.
No drift is seen; the bounds allow -3.2 to +4.5 ppm.

Excluded
ops excluded            server  client
----------------------  ------  ------
RPC program is not NFS       0       4

Captures
server: /data/server.pcap
  pcap, snaplen 512, 2,300 packets in 20.000 s, 1 flow, 1,000 ops
  2024-05-01T10:00:00.000000+00:00 to 2024-05-01T10:00:20.000000+00:00
client: /data/client.pcap
  pcap, snaplen 512, 2,280 packets in 20.000 s, 1 flow, 995 ops
  2024-05-01T10:00:00.000000+00:00 to 2024-05-01T10:00:20.000000+00:00

RPC messages by state
messages                                server  client
--------------------------------------  ------  ------
paired: the call or the reply of an op   2,000   1,990
call without a reply in the capture          0       3
retransmitted: sent or answered again        2       0
total                                    2,002   1,993

Packets by kind
packets    server  client
---------  ------  ------
RPC         2,290   2,270
other TCP      10      10
total       2,300   2,280
Also in the client capture, not shown (ops): MOUNT 4. See --all-programs.

"""


def _charge(part: str, cause: str, mean_ms: float, share: float | None, ops: int = 10) -> Charge:
    return Charge(part, cause, ops, 1000 * mean_ms, mean_ms, share, 10 * mean_ms, share)


def test_charges_have_rows_where_they_matter_and_the_rest_is_one_line(small: Callable[[], Report]) -> None:
    """What TCP did stands behind the parts: causes in words with the part, what is hardly any in a line, what no cause
    explains, and what is in no SRT in a sentence."""
    charges = [
        _charge("before", "zero-window", 0.7, None),
        _charge("call_net", "rto", 1.5, 0.15),
        _charge("call_net", "loss", 0.001, 0.0001),
        _charge("call_net", "reordering", 0.002, 0.0002),
        _charge("call_net", "unexplained", 0.5, 0.05),
        _charge("call_send", "unexplained", 0.0, 0.0),
        _charge("server", "behind-loss", 2.5, 0.25),
        _charge("after", "behind-loss", 0.3, None),
    ]
    text = render(dataclasses.replace(small(), charges=charges))
    section = text.split("What TCP did to the operations")[1].split("\n\n")[0]
    assert text.index("Where the time goes") < text.index("What TCP did") < text.index("Percentiles of the parts")
    lines = [" ".join(line.split()) for line in section.splitlines()]
    assert "lost: retransmission timeout call_net 10 1.50 15.0 % 15.00" in lines
    assert "arrived, queued behind lost data server 10 2.50 25.0 % 25.00" in lines
    assert any(line.startswith("causes of less than 1 % each 0.003") and "0.03 %" in line for line in lines)
    assert not any("lost: retransmitted" in line for line in lines)
    assert any(line.startswith("not explained by TCP call_net") for line in lines)
    assert not any(line.startswith("not explained by TCP call_send") for line in lines)
    words = " ".join(lines)
    assert "before the call's first byte, so in no SRT: 0.700 ms on average (10 ops), receiver's window closed" in words
    said = "after the reply's last byte, so in no SRT: 0.300 ms on average (10 ops), arrived, queued behind lost data"
    assert said in words


def test_where_only_the_distance_is_charged_nothing_is_printed(small: Callable[[], Report]) -> None:
    """A healthy pair has a round trip, and no section on TCP; nor has one of which nothing is known, or where
    no stall makes 1 % of the time."""
    healthy = [_charge("call_net", "distance", 1.0, 0.5), _charge("server", "unexplained", 1.0, 0.5)]
    small_stalls = [_charge("before", "zero-window", 0.001, None), _charge("call_send", "sender", 0.01, 0.005)]
    for charges in (None, [], healthy, [*healthy, *small_stalls]):
        assert "What TCP did" not in render(dataclasses.replace(small(), charges=charges))


# --- What fits a screen -----------------------------------------------------------------------------------------------


@given(data=st.data())
@_thorough
def test_the_default_report_fits_a_screen(compared: st.SearchStrategy[Report], data: st.DataObject) -> None:
    """Whatever the report holds: 80 columns, and no more lines than three causes, six operations and three notes take;
    commands alone, which cannot be broken, may be wider."""
    report = dataclasses.replace(data.draw(compared), what_if=[], pivots=[], intervals=None, called={})
    lines = report_text.render(report).splitlines()
    assert len(lines) <= _SCREEN


SAMPLES = Path(__file__).parents[2] / "samples"
_SCREEN = 110  # for texts of any length; real ones take 40: `scripts/lab judge --headlines`


def test_the_default_report_says_what_to_set_how_and_how_to_check_it(small: Callable[[], Report]) -> None:
    """The rest of the advice, and all other sections, are behind --full; the last line says so."""
    text = report_text.render(small())
    advice = ("   set     nfsd.threads to 64 (now 4)", "   how     rpc.nfsd 64", "   check   cat /proc/fs/nfsd/threads")
    assert "\n".join(advice) in text
    assert "risk" not in text
    assert "Raw data" not in text
    assert text.splitlines()[-1].startswith("All of it: --full.")
    assert "Operations in both captures" in text


def test_the_next_measurement_can_be_pasted(small: Callable[[], Report]) -> None:
    """A line of its own, with where it is to be run."""
    report = small()
    assert report.verdict is not None
    step = NextStep("iostat -x 1 30", "the server", "whether it is the disk", [])
    text = report_text.render(dataclasses.replace(report, verdict=dataclasses.replace(report.verdict, next=step)))
    assert "\nNext    iostat -x 1 30\n        the server: whether it is the disk\n" in text


def test_sections_are_printed_by_name(small: Callable[[], Report]) -> None:
    """Those that are asked for, in that order, and no others."""
    text = report_text.render(small(), sections=("clock", "matched"))
    assert text.startswith("Clock")
    assert text.index("Matched data") > 0
    assert "Causes" not in text
    every = report_text.render(small(), sections=tuple(report_text.NAMES))
    for title in ("What explains the time", "Raw data", "Legend", "In flight"):
        assert title in every


def test_a_section_that_there_is_not_is_refused_with_the_names() -> None:
    """And with what may have been meant."""
    assert report_text.parse_sections("clock, Parts") == ("clock", "parts")
    with pytest.raises(UsageError, match="did you mean clock") as refused:
        report_text.parse_sections("clocks")
    assert all(name in str(refused.value) for name in report_text.NAMES)
    with pytest.raises(UsageError):
        report_text.parse_sections(",")


def test_layers_have_colours_of_their_own_on_a_terminal_only(small: Callable[[], Report]) -> None:
    """Rows of the stack and titles of causes; without colour the text is the same."""
    layers = (("client SRT", 0), ("network", 1), ("server", 1))
    rows = [StackRow("READ", name, depth, 1.0, 0.5, "-") for name, depth in layers]
    report = dataclasses.replace(small(), stack=rows)
    coloured = report_text.render(report, color=True)
    assert re.search(r"\x1b\[1;35m  network .*\x1b\[0m", coloured)
    assert re.search(r"\x1b\[1;34m1\. server-threads", coloured)
    assert _COLOR.sub("", coloured) == report_text.render(report)


def test_what_is_said_is_never_cut(small: Callable[[], Report]) -> None:
    """The default report has the first sentence of a note or a cause, wrapped and whole, however long it is."""
    words = " ".join(f"word{number}" for number in range(60))
    report = small()
    cause = dataclasses.replace(next(one for one in report.findings if one.layer == "server"), text=f"{words}; more")
    shown = dataclasses.replace(report, notes=[f"{words}. And more"], findings=[cause], verdict=None, evidence=[words])
    text = " ".join(report_text.render(shown).split())
    assert text.count(words) == 3
    assert "And more" not in text


@pytest.mark.parametrize("folder", sorted(path.parent.name for path in SAMPLES.glob("*/server.pcap.gz")))
def test_real_reports_fit_a_screen_and_cut_nothing(folder: str) -> None:
    """Of two captures, and of either alone: some forty lines, 63 at most; no line ends in the middle of a sentence."""
    both = [str(SAMPLES / folder / f"{side}.pcap.gz") for side in ("server", "client")]
    for names in (both, both[:1], both[1:]):
        lines = report_text.render(run(names, Options()).figures).splitlines()
        assert len(lines) <= 63
        assert [line for line in lines if line.rstrip(".") + "..." == line] == []
