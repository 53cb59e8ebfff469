"""Advice: the right knob for the system and version, the commands, and sources for everything."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tune_snapshots import STARVED, a_client, a_server, settings

from nfslat.evidence.records import Setting, Snapshot
from nfslat.findings.tune import advice
from nfslat.findings.tune.advice import with_headroom
from nfslat.findings.tune.checks import check
from nfslat.findings.tune.knobs import (
    BY_NAME,
    CONFIGURED_AS,
    FACTS,
    KNOBS,
    MOST_SLOTS,
    default_of,
    has_fixed_slots,
    limit_of,
)
from nfslat.report.tune import render

DOC = (Path(__file__).parents[2] / "docs" / "tuning.md").read_text()
SYSTEMS = ("", "Linux", "SunOS", "FreeBSD", "AIX", "Plan9")


def _on(system: str) -> Snapshot | None:
    return Snapshot("x", system) if system else None


def test_every_fact_has_its_row_in_the_document() -> None:
    """docs/tuning.md has each fact with the text and the source that the program has, and no other."""
    rows = dict(re.findall(r"^\| `([a-z0-9-]+)` \| (.*) \|$", DOC, re.MULTILINE))
    assert rows == {name: f"{fact.text} | {fact.source}" for name, fact in FACTS.items()}


def test_every_setting_has_its_row_in_the_document() -> None:
    """docs/tuning.md has each setting that is printed, with default, limit and facts."""
    for knob in KNOBS:
        facts = ", ".join(f"`{name}`" for name in knob.facts)
        assert f"| `{knob.name}` | {knob.side} | {knob.default} | {knob.limit or '-'} | {facts} |" in DOC
        assert set(knob.facts) <= set(FACTS)


def test_no_fact_is_without_a_use() -> None:
    """Each fact is named by a setting or somewhere in the code: nothing is kept because it is interesting."""
    code = "".join(path.read_text() for path in Path(advice.__file__).parent.iterdir() if path.is_file())
    assert [name for name in FACTS if len(re.findall(rf"\b{name}\b", code)) < 2] == []


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("needed", [None, 1, 55, 400, 5000])
def test_all_advice_is_complete_and_sourced(system: str, needed: int | None) -> None:
    """Whatever the system, every text is there, on one line, and every source is a row of docs/tuning.md."""
    snapshot = _on(system)
    given_advice = [
        advice.threads(snapshot, 16, needed),
        advice.connection_cap(snapshot, None, needed),
        advice.connection_cap(snapshot, 128, needed),
        *(advice.slots(snapshot, 16, needed, version) for version in ("3", "4.0", "4.1", "4.2")),
    ]
    for each in given_advice:
        values = each.as_dict()
        assert json.loads(json.dumps(values)) == values
        for name in ("knob", "value", "suggested", "takes_effect", "verify", "risk"):
            assert values[name], name
            assert "\n" not in values[name]
        assert each.how
        for source in each.sources:
            name, _, written = source.partition(": ")
            assert FACTS[name].source == written


def test_article_server_threads_on_solaris() -> None:
    """16 threads on Solaris: the command is the one of the 2013 article."""
    found = advice.threads(Snapshot("x", "SunOS"), 16, None)
    assert (found.value, found.suggested) == ("16", "512")
    assert found.how[0] == "sharectl set -p servers=512 nfs"


def test_article_client_slots_of_a_fixed_table() -> None:
    """16 slots on a kernel with the fixed table: the first knob, up to its limit, and a remount."""
    old = Snapshot("x", "Linux", "2.6.32-220.el6", "rhel 6.2")
    found = advice.slots(old, 16, None, "3")
    assert (found.knob, found.suggested) == ("sunrpc.tcp_slot_table_entries", "128")
    assert "sysctl -w sunrpc.tcp_slot_table_entries=128" in found.how
    assert "echo options sunrpc tcp_slot_table_entries=128 >>/etc/modprobe.d/sunrpc.conf" in found.how
    assert "unmount every mount" in found.takes_effect


def test_client_slots_of_a_growing_table() -> None:
    """A newer kernel has another knob for the same, whatever its value was before."""
    found = advice.slots(a_client(slots=16), 16, 55, "3")
    assert (found.knob, found.suggested) == ("sunrpc.tcp_max_slot_table_entries", "128")


@pytest.mark.parametrize(
    ("release", "distribution", "shown", "fixed"),
    [
        ("2.6.32-220.el6.x86_64", "rhel 6.2", (), True),
        ("2.6.32-279.el6.x86_64", "rhel 6.3", (), False),
        ("2.6.32-754.el6.x86_64", "centos 6.10", (), False),
        ("2.6.18-5", "", (), True),
        ("6.1.0-18-amd64", "debian 12", (), False),
        ("", "", (), False),
        # What the host shows goes before what its version lets expect.
        ("2.6.32-1", "", ("sunrpc__tcp_slot_table_entries", "sunrpc__tcp_max_slot_table_entries"), False),
        ("6.1.0", "", ("sunrpc__tcp_slot_table_entries",), True),
    ],
)
def test_which_hosts_have_a_fixed_table(release: str, distribution: str, shown: tuple[str, ...], fixed: bool) -> None:
    """The knobs that a host shows say which table it has; where it shows none, the version."""
    host = Snapshot("x", "Linux", release, distribution, settings=settings(**dict.fromkeys(shown, 16)))
    assert has_fixed_slots(host) is fixed
    knob = BY_NAME["sunrpc.tcp_slot_table_entries"]
    assert (default_of(knob, host), limit_of(knob, host)) == (("16", "128") if fixed else ("2", "65536"))


def test_session_slots_from_41_on_only() -> None:
    """NFSv4.1 and 4.2 have session slots; 4.0 waits for those of the connection, as NFSv3 does."""
    knobs = {version: advice.slots(a_client(), 64, 100, version).knob for version in ("3", "4.0", "4.1", "4.2")}
    assert knobs["3"] == knobs["4.0"] == "sunrpc.tcp_max_slot_table_entries"
    assert knobs["4.1"] == knobs["4.2"] == "nfs.max_session_slots"
    assert advice.slots(None, 64, 100, "4.1").suggested == "256"


def test_session_behind_a_small_table() -> None:
    """Requests of a session need a slot of the connection, too: where that table is the smaller, it is the knob."""
    assert advice.slots(a_client(slots=2), 2, 32, "4.1").knob == "sunrpc.tcp_max_slot_table_entries"


def test_slots_that_the_server_did_not_grant() -> None:
    """18 granted of 64 asked for: asking for more is no help, and the advice is about the server."""
    found = advice.slots(a_client(), 18, 100, "4.1")
    assert found.knob == "session slots granted by the server"
    assert all("max_session_slots" not in line for line in found.how)


def test_no_more_session_slots_than_the_server_granted_are_advised() -> None:
    """A client that keeps to 16 of the 30 slots that CREATE_SESSION granted can have 30; one that uses all of them is
    told how to see whether that is the server's maximum, unless it is known what the client asked for."""
    assert advice.slots(None, 16, 100, "4.1", 30).suggested == "30"
    at_most = advice.slots(None, 30, 100, "4.1", 30)
    assert at_most.how[0] == "cat /sys/module/nfs/parameters/max_session_slots"
    assert "above 30: that is all that the server grants" in at_most.how[1]
    assert not any("all that the server grants" in line for line in advice.slots(a_client(), 64, 100, "4.1", 64).how)


def test_fixed_table_says_when_it_is_too_small() -> None:
    """No kernel with a fixed table gives more than 128 slots; the advice says so, not a number that is refused."""
    found = advice.slots(Snapshot("x", "Linux", "2.6.18"), 16, 500, "3")
    assert found.suggested == "128"
    assert "500 are needed" in found.risk


def test_unknown_system_gets_the_linux_command_and_the_other_names() -> None:
    """Without a snapshot the Linux command comes first, and the others are named."""
    found = advice.threads(None, None, 30)
    assert found.how[0] == "rpc.nfsd 64"
    assert "Solaris" in found.how[-1]
    assert found.value == "not known"


def test_threads_for_the_next_start_stand_where_the_distribution_looks() -> None:
    """RHEL 6 and 7 read another file than newer systems do."""
    for distribution, file in (
        ("rhel 7.9", "/etc/sysconfig/nfs"),
        ("rhel 9.4", "/etc/nfs.conf"),
        ("", "/etc/nfs.conf"),
    ):
        found = advice.threads(Snapshot("x", "Linux", distribution=distribution), 8, None)
        assert file in found.how[-1]


def test_connection_cap_is_met_by_more_connections() -> None:
    """300 requests with 128 a connection: four connections, and no more slots than the server takes."""
    found = advice.connection_cap(None, 128, 300)
    assert found.suggested == "nconnect=4, and no more than 128 slots a connection"
    assert "sysctl -w sunrpc.tcp_max_slot_table_entries=128" in found.how


def test_connection_cap_of_a_linux_server_is_its_own_setting() -> None:
    """Where the server's snapshot shows its limit a connection, that is what to change."""
    server = a_server(settings={"sunrpc.svc_rpc_per_connection_limit": Setting("8", "/sys/module/sunrpc")})
    assert advice.connection_cap(server, 8, None).knob == "sunrpc.svc_rpc_per_connection_limit"


def test_connection_cap_that_is_not_known_is_not_made_up() -> None:
    """Where no limit was seen, the value is only said to be not known."""
    assert advice.connection_cap(None, None, 300).value == "not known"
    assert advice.connection_cap(None, 128, 300).value == "128 requests in flight on a connection"


@given(st.integers(0, 1 << 20))
def test_headroom_is_a_power_of_two_and_never_less_than_half_as_much_again(needed: int) -> None:
    """The suggestion is at least one and a half times the need, and not more than needed for that."""
    suggested = with_headroom(needed)
    assert suggested & (suggested - 1) == 0
    assert 2 * suggested >= 3 * needed
    assert suggested < 2 or suggested < 3 * needed + 2


@given(st.sampled_from(SYSTEMS), st.none() | st.integers(1, 1 << 17), st.none() | st.integers(0, 1 << 17))
@example("FreeBSD", 1, 0)
def test_suggestions_are_never_below_what_is_there(system: str, in_effect: int | None, needed: int | None) -> None:
    """Advice to raise something never lowers it, but to a limit that the system has."""
    snapshot = _on(system)
    for found, limit in (
        (advice.threads(snapshot, in_effect, needed), 3891 if system == "AIX" else 1 << 30),
        (advice.slots(snapshot, in_effect, needed, "3"), MOST_SLOTS if system in ("", "Linux") else 1 << 30),
        (advice.slots(snapshot, in_effect, needed, "4.1"), 1024),
    ):
        if found.suggested.isdecimal():
            assert int(found.suggested) >= min(in_effect or 0, limit) or system not in ("", "Linux", "SunOS", "FreeBSD")


def test_document_shows_a_real_answer() -> None:
    """The example of docs/tuning.md is what the program prints for a client with 2 slots."""
    shown = render(check([a_client(slots=2, mount=STARVED), a_server()]), width=80)
    assert DOC.split("```")[1].strip() == shown.partition("\nTo know")[0].strip()


def test_names_of_configuration_files_lead_to_settings() -> None:
    """What a file calls otherwise is compared with a setting that there is."""
    assert set(CONFIGURED_AS.values()) <= set(BY_NAME)
