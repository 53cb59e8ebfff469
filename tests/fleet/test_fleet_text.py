"""What the fleet's text promises: the answer first, every client once, no line too wide, no name that steers it."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Callable

import pytest
from examples import examples
from fleet_by_hand import EVIL, few, fleets, hostile, mixed, story, without_server
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from nfslat.cli import main as cli
from nfslat.fleet.model import Client, Fleet
from nfslat.fleet.sections.all import markdown, render
from nfslat.fleet.sections.clients import arrange
from nfslat.fleet.sections.patterns import how_sure, sentence, who
from nfslat.fleet.sections.words import common_prefix, few_digits, moment, run_lines, server_line, span
from nfslat.report.text_layout import plain

_MAKERS: dict[str, Callable[[], Fleet]] = {
    "one": few,
    "two": lambda: story(2),
    "seven": lambda: story(7),
    "hundred": story,
    "hundred of IPv6": lambda: story(100, ipv6=True),
    "mixed": mixed,
    "all failed": without_server,
    "hostile": hostile,
}
_CELL = re.compile(r"(\S+) +([\d.]+) ([SNC?])(?=   |$)")
_ROW = re.compile(r"^(\d+) (\S+) +([\d,.MG]+) +([\d.]+) +([\d.]+) +([\d.]+) ")


def _section(text: str, begin: str) -> list[str]:
    """Lines of a section, its heading included."""
    lines = text.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(begin))
    after = next((i for i in range(first + 1, len(lines)) if not lines[i] and _is_title(lines, i + 1)), len(lines))
    return lines[first:after]


def _is_title(lines: list[str], i: int) -> bool:
    return lines[i].startswith(
        ("Clients:", "The server,", "Matched ops", "What ", "How this", "To look", "Every number")
    )


@pytest.mark.parametrize("width", [80, 100, 120, 200])
@pytest.mark.parametrize("name", _MAKERS)
def test_no_line_is_wider_than_asked_for(name: str, width: int) -> None:
    """Nor holds it anything but printable ASCII; a command that is pasted may be as long as it is."""
    fleet = _MAKERS[name]()
    for line in render(fleet, width=width).splitlines():
        assert line.isascii()
        assert line.isprintable()
        assert len(line) <= width or "'" in line or "/" in line, line
        assert line == line.rstrip()


@pytest.mark.parametrize("name", _MAKERS)
def test_the_answer_comes_first(name: str) -> None:
    """The verdict begins in the first line and its words are all there, before anything else."""
    fleet = _MAKERS[name]()
    text = " ".join(render(fleet, width=100).splitlines())
    assert text.startswith(plain(fleet.verdict.text)[:60])
    if name != "hostile":
        assert text.startswith(fleet.verdict.text)
        assert f"Confidence is {fleet.verdict.confidence}" in " ".join(render(fleet, width=100).splitlines()[:5])


def test_a_hundred_clients_fit_on_a_screen() -> None:
    """Answer, patterns and all clients: what a screen of 100 columns holds; each name once, with its mean and layer."""
    fleet = story(100)
    text = render(fleet, width=100)
    assert text[: text.index("The server, over")].count("\n") <= 57
    clients = _section(text, "Clients:")
    assert len(clients) <= 34
    assert clients[0] == "Clients: 8 of 100 stand out (means in ms)"
    rows = [found for line in clients if (found := _ROW.match(line))]
    grid = [cell for line in clients for cell in _CELL.findall(line)]
    shown = [found[2] for found in rows] + [f"10.9.{name}" for name, _, _ in grid]
    assert Counter(shown) == Counter(one.name for one in fleet.clients)
    means = {one.name: one.client_ms.mean for one in fleet.clients if one.client_ms}
    assert all(abs(means[f"10.9.{name}"] - float(mean)) < 0.06 for name, mean, _ in grid)
    assert {layer for _, _, layer in grid} == {"S"}


def test_the_figures_of_a_row_add_up() -> None:
    """Network and server are the mean client SRT to the printed digit, and ranks are those of the list."""
    fleet = story(100)
    found = [row for line in _section(render(fleet, width=120), "Clients:") if (row := _ROW.match(line))]
    assert len(found) == 8
    for row in found:
        assert round(float(row[5]) + float(row[6]), 4) == float(row[4])
        assert fleet.clients[int(row[1]) - 1].name == row[2]


def test_a_row_shows_what_is_known() -> None:
    """The first client and the one with slots, digit by digit; neighbours of which the same is said share the line."""
    lines = _section(render(story(100), width=120), "Clients:")
    assert [line.split() for line in (*lines[1:3], lines[4], lines[11])] == [
        "client ops client = net- + of it excess p99 lost clock slots layer and sure".split(),
        "SRT work server queue s ms +/- cause".split(),
        "1 10.9.3.15 13,411 29.62 17.13 12.49 9.40 223.7 133.3 224 0.08 no N net-loss high".split(),
        "18 10.9.5.18 13,473 13.07 0.42 12.65 9.56 1.7 41.81 1 0.08 2 C client-slots medium".split(),
    ]
    assert lines[12:14] == [
        "- 1 to 7: subnet 10.9.3.0/24, see above",
        "- 18: 2 slots hold it: calls wait above the wire",
    ]


def test_a_narrow_row_has_fewer_figures() -> None:
    """At 80 columns the parts of the mean, the cause and how sure it is are there."""
    lines = _section(render(story(100), width=80), "Clients:")
    assert lines[4].split() == "1 10.9.3.15 29.62 17.13 12.49 9.40 223.7 N net-loss high".split()


def test_a_long_reason_is_all_there() -> None:
    """In as many lines as it takes, once for neighbours."""
    fleet = story(12)
    clients = [dataclasses.replace(one, why="so much is to be said " * 9) for one in fleet.clients]
    text = render(dataclasses.replace(fleet, clients=clients, patterns=[]), width=100)
    assert "- 1 to 12: so much is to be said so much" in text
    assert " ".join(text.split()).count("so much") == 9


@pytest.mark.parametrize("name", [*_MAKERS, "thousand"])
@pytest.mark.parametrize("everybody", [False, True])
def test_every_client_is_in_one_place(name: str, everybody: bool) -> None:
    """Rows, grid, those that are only counted and those that could not be compared are all clients, once each."""
    fleet = story(1000) if name == "thousand" else _MAKERS[name]()
    found = arrange(fleet.clients, all_clients=everybody)
    placed = [client for _, client in [*found.rows, *found.grid, *found.left]]
    placed += [client for clients in found.apart.values() for client in clients]
    assert sorted(map(id, placed)) == sorted(map(id, fleet.clients))
    assert not (everybody and found.left)
    for part in (found.rows, found.grid, found.left):
        assert [rank for rank, _ in part] == sorted(rank for rank, _ in part)


def test_a_thousand_clients_are_summarized() -> None:
    """The worst 20 of the others are named, the rest counted by layer; --all-clients shows everybody."""
    fleet = story(1000)
    text = render(fleet, width=100)
    assert text.count("\n") < 130
    assert "and 972 more that suffer less" in text
    assert "S server 992" in " ".join(text.split())
    assert len([cell for line in _section(text, "Clients:") for cell in _CELL.findall(line)]) == 20
    whole = render(fleet, width=100, all_clients=True)
    assert len([cell for line in _section(whole, "Clients:") for cell in _CELL.findall(line)]) == 992
    assert "that suffer less" not in whole


def test_who_could_not_be_compared_is_named() -> None:
    """With the reason, by what there is of them."""
    text = render(mixed(), width=100)
    clients = mixed().clients
    assert f"Server only (no capture of their own), 2: {clients[90].name}, {clients[91].name}." in text
    assert f"Client only (no capture of the server), 1: {clients[92].name}." in text
    assert f"  {clients[92].name}: its packets have no TCP time stamps." in text
    assert f"Failed (could not be compared), 1: {clients[93].name}." in text
    assert "96 of 100 clients compared" in text


def test_what_is_inferred_is_marked() -> None:
    """On the first screen, in the rows, in the grid, and in the heading of the operations; nowhere where all is
    measured."""
    fleet = mixed()
    text = render(fleet, width=100)
    assert "For 3 of 100 clients there is one capture each" in " ".join(text.split())
    assert "means to +/- 0.210 to 1.40 ms" in " ".join(text.split())
    assert f"Ops of all clients, ms; of {fleet.captures.inferred_ops:,} one side is inferred" in text
    grid = "\n".join(_section(text, "Clients:"))
    assert grid.count("S~") == 3
    inferred = [one for one in fleet.clients if one.inferred is not None]
    rows = dataclasses.replace(fleet, clients=[*inferred, *fleet.clients[:5]])
    lines = _section(render(rows, width=160), "Clients:")
    assert [line for line in lines if "inferred" in line]
    assert sum(" 0.21 " in line or " 1.40 " in line or " 0.30 " in line for line in lines) == 3
    assert "inferred" not in "\n".join(_section(render(story(7), width=160), "Clients:"))


def test_nothing_at_all_is_a_report_too() -> None:
    """Without a server and without a client that could be compared there are the problems, and no empty tables."""
    text = render(without_server(), width=80)
    assert "Clients: none could be compared" in text
    assert "There is no capture of the server" in text
    assert "server/eth0.pcap: it is no capture. Missing: all that is the server's" in text
    assert "Matched ops of all" not in text
    assert "To look into one client" not in text


def test_what_is_common_has_when_who_how_much_and_how_sure() -> None:
    """A line of facts and a sentence a pattern: all, then groups, then single ones."""
    lines = _section(render(story(100), width=120), "What is common")
    facts = [line for line in lines if line.startswith("- ")]
    assert [line.partition(":")[0] for line in facts] == [
        "- all 100 clients",
        "- 7 of 7 clients with subnet 10.9.3.0/24",
        "- 10.9.5.18",
    ]
    joined = " ".join(line.strip() for line in lines)
    assert "server, server-threads; 09:05:00 to 09:10:00, 21.00 ms an op, 14,097 s, 72.0 % of the time" in joined
    assert "all the time, 16.00 ms an op, 1,487 s, 6.0 % of the time of all ops, confidence high (p = 0.0003)" in joined


@pytest.mark.parametrize("width", [80, 120])
def test_the_server_by_time(width: int) -> None:
    """Phases with their times; a character a stretch, fewer where the line has no room; nine tenths are a 9."""
    lines = _section(render(story(100), width=width), "The server,")
    strips = {line[:10].strip(): line[10:] for line in lines if re.match(r"(ops/s|in flight|queue ms|limited) ", line)}
    room = min(60, width - 26)
    assert {len(bar.split("  ")[0]) for bar in strips.values()} == {room}
    assert strips["limited"].startswith("." * (room // 2) + "#" * (room // 2))
    assert set(strips["queue ms"][: room // 2]) == {"."}
    assert "largest 2" in strips["queue ms"]
    text = " ".join(" ".join(lines).split())
    assert "09:00:00 to 09:05:00: not limited by threads; server SRT 3.10 ms; 738,726 ops" in text
    assert "09:05:00 to 09:10:00: limited by 8 threads (8 to 9), calls wait 21.04 ms; server SRT 24.14 ms" in text


def test_names_of_others_do_not_steer_the_terminal() -> None:
    """Controls, reversed writing and half characters stand as their numbers; colours are only ours."""
    text = render(hostile(), width=100, color=True)
    assert "\\x1b[31m" in text
    assert "\\u202egnp.exe\\udc80" in text
    assert set(re.findall("\x1b[^m]*m", text)) <= {"\x1b[0m", "\x1b[1m", "\x1b[2m", "\x1b[33m"}
    assert re.sub("\x1b\\[\\d+m", "", text) == render(hostile(), width=100)
    assert EVIL not in text


@given(fleet=fleets(), width=st.integers(40, 130), everybody=st.booleans())
@settings(
    max_examples=examples(60),
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
def test_any_fleet_is_a_text(fleet: Fleet, width: int, everybody: bool) -> None:
    """Whatever a fleet holds it is shown, in lines that fit, without a character that does not print."""
    for line in render(fleet, width=width, all_clients=everybody).splitlines():
        assert line.isprintable()
        assert len(line) <= max(width, 80) or set("'\"`\\") & set(line), line


@given(names=st.lists(st.from_regex(r"[a-c]{0,2}[.:-]?[0-9]{0,3}[.:-]?[0-9]{0,2}", fullmatch=True), max_size=6))
def test_a_common_beginning_leaves_names_that_differ(names: list[str]) -> None:
    """It ends with a separator, all names begin with it, and without it they are as many as before."""
    prefix = common_prefix(names)
    assert all(name.startswith(prefix) for name in names)
    assert not prefix or prefix[-1] in ".:_/-"
    assert len({name.removeprefix(prefix) for name in names}) == len(set(names))


def test_words_of_times_and_counts() -> None:
    """Of the same day a time has no date; a count keeps seven columns."""
    day = "2026-11-20T09:00:00Z"
    assert moment("2026-11-20T09:05:00.123456789Z", day) == "09:05:00"
    assert moment("2026-11-21T00:00:01+00:00", day) == "2026-11-21 00:00:01"
    assert moment(None, day) == "?"
    assert span(None, None, day) == "all the time"
    assert span("2026-11-20T09:05:00Z", None, day) == "from 09:05:00 on"
    assert [few_digits(n) for n in (0, 999_999, 1_000_000, 12_345_678_901)] == ["0", "999,999", "1M", "12.3G"]
    assert all(len(few_digits(10**n - k)) <= 7 for n in range(1, 19) for k in (0, 1))


def test_a_client_without_figures_has_dashes() -> None:
    """What is not known is no number."""
    fleet = story(3)
    first: Client = dataclasses.replace(
        fleet.clients[0], queue_ms=None, excess=None, lost_segments=None, sent_again_share=None, clock=None,
        verdict=None, set_apart=None, slots=None, slots_held="cannot tell", why="",
    )  # fmt: skip
    text = render(dataclasses.replace(fleet, clients=[first, *fleet.clients[1:]]), width=120)
    row = next(line for line in text.splitlines() if line.startswith(f"1 {first.name}"))
    assert re.search(r" [\d.]+ +- +- +[\d.]+ +- +- +\? +- +-$", row), row


def test_a_name_at_the_beginning_of_a_sentence_stays_as_it_is() -> None:
    """`db01` is no `Db01`; other sentences get their capital and full stop."""
    one = next(one for one in story(100).patterns if one.scope == "one")
    assert (
        sentence(dataclasses.replace(one, clients=["db01"], text="db01 keeps to 2 slots.")) == "db01 keeps to 2 slots."
    )
    assert sentence(dataclasses.replace(one, clients=["db01"], text="calls wait")) == "Calls wait."


def test_both_of_two_and_no_pattern_at_all() -> None:
    """In words that fit the number of clients."""
    first = story(100).patterns[0]
    assert who(dataclasses.replace(first, scope="all", clients=["a", "b"], of=2)) == "both clients"
    assert how_sure(dataclasses.replace(first, confidence="medium", p_value=0.1499)) == "medium (p = 0.15)"
    fleet = dataclasses.replace(story(7), patterns=[])
    assert "No pattern is found: nothing that lasts" in render(fleet)
    alone = dataclasses.replace(fleet, clients=fleet.clients[:1])
    assert "There is one client: its own report" in render(alone)


def test_what_is_gone_or_not_known_is_left_out() -> None:
    """The dashboard of a run without one; the wait for threads of which nobody knows how many there are."""
    fleet = story(7)
    there = dataclasses.replace(fleet.run, scheduler="tcp://head:8786", dashboard="http://head:8787/status")
    assert "Dashboard: http://head:8787/status" in run_lines(there)
    assert run_lines(there)[0].startswith("Scheduler tcp://head:8786: ")
    here = run_lines(dataclasses.replace(there, scheduler="local", dashboard=None))
    assert here[0].startswith("This machine: ")
    assert not any("Dashboard" in line for line in here)
    assert fleet.server is not None
    flying = dataclasses.replace(fleet.server.inflight, threads_estimate=None, threads_range=None, queue_ms=0.0)
    line = server_line(dataclasses.replace(fleet.server, inflight=flying))
    assert line.endswith("nothing shows how many there are.")


def test_the_fleet_as_markdown() -> None:
    """The answer is the title; confidence, the next measurement and all tables follow; names are no markup."""
    fleet = story(12)
    assert fleet.verdict.next is not None
    text = markdown(fleet)
    assert text.startswith("## From 09:05:00 on calls of all clients wait")
    assert f"Confidence is {fleet.verdict.confidence}" in text.split("###")[0]
    assert fleet.verdict.next.command in text.split("###")[0]
    assert text.count("| ---") + text.count("|---") >= 2
    outside_code = re.sub(r"`[^`]*`", "", markdown(hostile()))
    assert re.search(r"(?<!\\)<script", outside_code) is None


@pytest.mark.parametrize(("named", "status"), [("fault", 1), ("undecided", 0)])
def test_the_exit_status_tells_the_outcome(
    named: str, status: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of two captures: 1 where --fail-on names it."""
    monkeypatch.setattr("nfslat.cli.fleet._fleet", lambda *_: story(3))
    assert cli.main(["fleet", "a.pcap", "b.pcap", "--fail-on", named, "--markdown"]) == status
    assert capsys.readouterr().out.startswith("## From 09:05:00")
