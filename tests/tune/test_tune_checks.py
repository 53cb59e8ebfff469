"""What is found on hosts: the right change first, nothing on healthy ones, and both hosts against each other."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tune_snapshots import CONTENT, STARVED, a_client, a_mount, a_server, settings

from nfslat.answer.tune import Tuning
from nfslat.evidence.records import OpStats, Pool, Setting, Snapshot, Xprt
from nfslat.findings.tune.checks import check
from nfslat.findings.tune.hosts import hosts_of, needed_in_flight, uses_of


def _changes(*snapshots: Snapshot) -> list[tuple[str, str, bool]]:
    return [(change.host, change.advice.knob, change.measured) for change in check(snapshots).changes]


def _remarks(found: Tuning) -> str:
    return "\n".join(f"{remark.host}: {remark.text}" for remark in found.remarks)


def test_healthy_pair_needs_nothing() -> None:
    """Default slots, 16 threads, counters without a wait: no change, and the counters are cited."""
    found = check([a_client(), a_server()])
    assert found.changes == ()
    assert "1.00 threads were woken" in _remarks(found)
    assert "no lack of slots" in _remarks(found)


def test_two_slots_and_a_long_backlog() -> None:
    """2 slots and 18 waiting calls: the ceiling of the table is to be raised, and it is said to be measured."""
    found = check([a_client(slots=2, mount=STARVED), a_server()])
    (change,) = found.changes
    assert (change.host, change.measured) == ("dbclient", True)
    assert change.advice.knob == "sunrpc.tcp_max_slot_table_entries"
    assert (change.advice.value, change.advice.suggested) == ("2", "128")
    assert "18.0 calls wait for a slot" in " ".join(change.why)
    assert "16 threads for at most 2 calls in flight" in _remarks(found)


def test_two_threads_by_the_counters() -> None:
    """2 threads and nobody woken: the server's threads, measured, before and after as one host."""
    before = a_server(2, taken="2026-09-20T10:00:00Z")
    after = replace(before, taken="2026-09-20T10:00:10Z", pools=(Pool(0, 19481, 19481, 18823, 0),))
    for order in ([before, after], [after, before]):
        found = check([a_client(), *order])
        (change,) = found.changes
        assert (change.host, change.advice.knob, change.measured) == ("nfsserver", "nfsd.threads", True)
        assert "0.04 threads woken" in " ".join(change.why)
        assert [host.name for host in found.hosts] == ["dbclient", "nfsserver"]


def test_few_threads_without_counters() -> None:
    """2 threads are fewer than any default; without counters it is said, but not as measured."""
    assert _changes(a_server(2, pools=())) == [("nfsserver", "nfsd.threads", False)]
    assert _changes(a_server(8, pools=())) == []


def test_both_at_once_with_the_larger_loss_first() -> None:
    """A server and a client that both hold back are both named, the one that loses more first."""
    starving = a_server(2, woken=300)
    assert _changes(a_client(slots=2, mount=STARVED), starving) == [
        ("nfsserver", "nfsd.threads", True),
        ("dbclient", "sunrpc.tcp_max_slot_table_entries", True),
    ]


def test_more_threads_are_not_advised_where_clients_cannot_use_them() -> None:
    """4 threads for one client with 2 slots: the slots are what to change."""
    knobs = [knob for _, knob, _ in _changes(a_client(slots=2), a_server(4, pools=()))]
    assert knobs == ["sunrpc.tcp_max_slot_table_entries"]


def test_session_slots_by_the_queue_time() -> None:
    """An NFSv4.1 mount whose calls wait longer than their answer takes needs session slots; the backlog is 0 there."""
    waiting = a_mount(version="4.1", ops={"READ": OpStats(271, 271, 0, 1, 1, 167511, 5440, 172966)})
    few = {**a_client().settings, **settings(nfs__max_session_slots=2)}
    assert _changes(a_client(mount=waiting, settings=few)) == [("dbclient", "nfs.max_session_slots", True)]


def test_queue_time_of_resent_calls_proves_nothing() -> None:
    """Calls that were sent again have long queue times for another reason; that is said instead."""
    again = a_mount(version="4.1", ops={"READ": OpStats(271, 500, 200, 1, 1, 167511, 5440, 172966)})
    found = check([a_client(mount=again)])
    assert found.changes == ()
    assert "229 calls to 10.77.0.1 were retransmitted" in _remarks(found)


def test_wait_is_said_where_the_limit_is_not_known() -> None:
    """Bare mountstats show the wait without the settings: the advice is given all the same."""
    found = check([Snapshot("mountstats", "", mounts=(STARVED,))])
    (change,) = found.changes
    assert change.measured
    assert change.advice.value == "not known"
    assert "is not in the snapshot" in change.why[0]


def test_old_kernel_with_its_default_of_16_slots() -> None:
    """The fixed table's default is pointed out even where nothing was measured."""
    old = a_client(
        release="2.6.32-220.el6", distribution="rhel 6.2", settings=settings(sunrpc__tcp_slot_table_entries=16)
    )
    assert _changes(old) == [("dbclient", "sunrpc.tcp_slot_table_entries", False)]
    (row,) = [row for row in check([old]).rows if row.setting == "sunrpc.tcp_slot_table_entries"]
    assert (row.default, row.limit) == ("16", "128")


def test_solaris_server_of_the_article() -> None:
    """16 threads on Solaris: 512, by sharectl."""
    solaris = Snapshot(
        "s", "SunOS", "5.10", hostname="sol", settings={"nfs.servers": Setting("16", "sharectl get nfs")}
    )
    (change,) = check([solaris]).changes
    assert change.advice.how[0] == "sharectl set -p servers=512 nfs"


def test_freebsd_server_below_its_default() -> None:
    """Fewer than 8 threads a CPU on FreeBSD are pointed out with its own command."""
    host = Snapshot("f", "FreeBSD", "14.1", cpus=4, settings={"vfs.nfsd.maxthreads": Setting("4", "sysctl")})
    (change,) = check([host]).changes
    assert change.advice.how[0] == "sysctl vfs.nfsd.maxthreads=64"


@pytest.mark.parametrize(
    ("version", "connections", "table", "session", "limit"),
    [
        ("3", 1, 16, 64, 16),
        ("3", 4, 16, 64, 64),  # nconnect multiplies the slots
        ("4.0", 4, 16, 64, 64),
        ("4.1", 4, 65536, 64, 64),  # but not those of a session
        ("4.2", 4, 2, 64, 8),  # each request of a session needs a slot of its connection, too
    ],
)
def test_requests_in_flight_that_a_client_may_have(
    version: str, connections: int, table: int, session: int, limit: int
) -> None:
    """Slots x connections, and with NFSv4.1 not more than the session has."""
    xprts = tuple(Xprt("tcp", 700 + port, 9, 9, 0, 9, 0) for port in range(connections))
    known = settings(
        sunrpc__tcp_slot_table_entries=2, sunrpc__tcp_max_slot_table_entries=table, nfs__max_session_slots=session
    )
    client = a_client(mount=a_mount(version=version, xprts=xprts), settings=known)
    (host,), _ = hosts_of([client])
    (use,) = uses_of(host)
    assert (use.connections, use.limit) == (connections, limit)


def test_mounts_of_one_server_share_its_connections() -> None:
    """Each mount prints the connections of its server again; they are counted once, and so is what waited."""
    mounts = (STARVED, replace(STARVED, path="/mnt/other", device="10.77.0.1:/srv/other"))
    (host,), _ = hosts_of([a_client(slots=2, mounts=mounts)])
    (use,) = uses_of(host)
    assert use.connections == 1
    assert use.backlog == pytest.approx(9765 / 544)


def test_each_connection_has_a_backlog_of_its_own() -> None:
    """4 connections of 64 slots with 18 calls waiting on each: 328 are needed, 82 on a connection."""
    xprts = tuple(Xprt("tcp", 700 + port, 1000, 1000, 0, 64_000, 18_000) for port in range(4))
    client = a_client(slots=64, mount=replace(STARVED, xprts=xprts))
    (host,), _ = hosts_of([client])
    (use,) = uses_of(host)
    assert (use.limit, use.backlog, needed_in_flight(use)) == (256, 72, 328)
    (change,) = check([client]).changes
    assert "72.0 calls wait for a slot on average (18.0 on each of 4 connections)" in change.why[1]
    assert (change.advice.value, change.advice.suggested) == ("64", "128")


def test_a_connection_that_hardly_sent_does_not_propose_slots() -> None:
    """Half a call has to wait on each connection, on average, before more slots are proposed."""
    xprts = tuple(Xprt("tcp", 700 + port, 1000, 1000, 0, 64_000, 300) for port in range(4))
    mount = replace(CONTENT, xprts=xprts)
    assert _changes(a_client(slots=64, mount=mount)) == []


def test_slots_of_all_clients_against_threads() -> None:
    """Two clients of 16 slots against 16 threads: 32 calls, of which 16 wait; clients with no snapshot are counted."""
    second = a_client(16, hostname="db2", addresses=("10.77.0.3",))
    server = a_server(16, clients=("10.77.0.2", "10.77.0.3", "10.77.0.4", "10.77.0.5"))
    text = _remarks(check([a_client(16), second, server]))
    assert "16 threads for up to 32 calls in flight: dbclient 16 (NFSv3), db2 16 (NFSv3)" in text
    assert "2 more clients are connected" in text


def test_mounts_of_another_server_are_not_held_against_this_one() -> None:
    """A mount is matched to a server by its address; for others the limit of filers is mentioned."""
    text = _remarks(check([a_client(), a_server(addresses=("10.99.0.1",))]))
    assert "16 threads" not in text
    assert "10.77.0.1 is not among the snapshots. If it is ONTAP" in text


def test_limit_a_connection_of_the_server() -> None:
    """svc_rpc_per_connection_limit below what a client may send on one connection is pointed out."""
    limited = settings(nfsd__threads=16, sunrpc__svc_rpc_per_connection_limit=8)
    assert "takes 8 calls of a connection" in _remarks(check([a_client(), a_server(settings=limited)]))


def test_session_slots_that_were_not_granted() -> None:
    """64 asked for, 18 granted: it is said, with both numbers."""
    mount = a_mount(version="4.1", slots=18)
    assert "granted 18 of the 64 session slots" in _remarks(check([a_client(mount=mount)]))


def test_configured_otherwise_than_in_effect() -> None:
    """A line that the next start will take, or that was never applied, is said with file and line."""
    client = a_client(
        configured={"sunrpc.tcp_max_slot_table_entries": Setting("128", "/etc/sysctl.d/nfs.conf:3")},
    )
    server = a_server(configured={"nfs.conf:nfsd.threads": Setting("64", "/etc/nfs.conf:12")})
    text = _remarks(check([client, server]))
    assert "is 65536, but /etc/sysctl.d/nfs.conf:3 has 128" in text
    assert "use modprobe.d" in text
    assert "nfsd.threads is 16, but /etc/nfs.conf:12 has 64: the next start of the NFS server" in text


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("sunrpc.tcp_max_slot_entries", "sunrpc.tcp_max_slot_table_entries"),
        ("sunrpc.max_tcp_slot_table_entries", "sunrpc.tcp_max_slot_table_entries"),
        ("sunrpc.tcp_slot_table_entires", "sunrpc.tcp_slot_table_entries"),
        ("tcp_max_slot_table_entrys", "sunrpc.tcp_max_slot_table_entries"),
        ("nfs.max_sesion_slots", "nfs.max_session_slots"),
        ("nfs.conf:nfsd.thread", "nfs.conf:nfsd.threads"),
    ],
)
def test_misspelt_names(written: str, meant: str) -> None:
    """A name that is nearly one is corrected, with the line where it stands."""
    client = a_client(configured={written: Setting("128", "/etc/sysctl.d/nfs.conf:3")})
    (change,) = check([client]).changes
    assert (change.advice.knob, change.advice.suggested) == (written, f"{meant}=128")
    assert "/etc/sysctl.d/nfs.conf:3" in change.advice.how[0]


@pytest.mark.parametrize(
    "name",
    "sunrpc.tcp_fin_timeout sunrpc.min_resvport nfs.conf:nfsd.min-threads nfs.callback_nr_threads vm.dirty_ratio"
    " net.ipv4.tcp_moderate_rcvbuf kernel.pid_max nfs.conf:lockd.port RPCNFSDCOUNT sunrpc.something_else".split(),
)
def test_real_and_foreign_names_are_not_corrected(name: str) -> None:
    """What is a setting, or nothing like one, is left alone."""
    assert _changes(a_client(configured={name: Setting("1", "/etc/sysctl.conf:1")})) == []


def test_tcp_features_that_are_off() -> None:
    """Window scaling and SACK switched off are pointed out on either host."""
    off = settings(net__ipv4__tcp_window_scaling=0, net__ipv4__tcp_sack=0)
    assert {knob for _, knob, _ in _changes(a_client(settings={**a_client().settings, **off}))} == set(off)


def test_hosts_with_one_name_and_other_addresses_are_two() -> None:
    """Guests that were all called the same, or localhost, are not before and after of one host."""
    one, other = a_client(), a_client(addresses=("10.77.0.9",))
    assert [host.name for host in hosts_of([one, other])[0]] == ["dbclient", "dbclient (client.txt)"]
    assert len(hosts_of([a_client(hostname="localhost"), a_client(hostname="localhost")])[0]) == 2


def test_different_boots_are_not_compared() -> None:
    """Counters begin anew with a boot: then those of the later snapshot stand alone, and that is said."""
    first = a_client(boot="a", taken="2026-09-20T10:00:00Z")
    last = a_client(boot="b", taken="2026-09-20T11:00:00Z", name="after.txt")
    (host,), notes = hosts_of([first, last])
    assert not host.interval
    assert "different boots" in notes[0]


def test_nothing_to_judge() -> None:
    """A host without mounts and without a server is said to be that."""
    found = check([Snapshot("x", "Linux", settings=settings(net__ipv4__tcp_sack=1))])
    assert [host.roles for host in found.hosts] == [""]
    assert found.changes == ()


_counts = st.integers(0, 1 << 63)
_words = st.text(max_size=12)


@given(
    slots=_words | _counts.map(str),
    ops=st.lists(_counts, min_size=8, max_size=8),
    pool=st.lists(_counts, min_size=4, max_size=4),
    option=st.tuples(st.sampled_from(["nconnect", "rsize", "timeo", "addr", "proto"]), _words),
    version=_words,
    device=_words,
)
def test_whatever_a_snapshot_holds_there_is_an_answer(
    slots: str, ops: list[int], pool: list[int], option: tuple[str, str], version: str, device: str
) -> None:
    """Foreign values, absurd counters and empty names end in an answer, with every row and change of a known host."""
    mount = replace(CONTENT, version=version, device=device, options=dict([option]), ops={"READ": OpStats(*ops)})
    client = a_client(mount=mount, settings={"sunrpc.tcp_max_slot_table_entries": Setting(slots, "x")})
    found = check([client, a_server(pools=(Pool(0, *pool),))])
    names = {host.name for host in found.hosts}
    assert {row.host for row in found.rows} <= names
    assert {change.host for change in found.changes} <= names
    assert [change.weight for change in found.changes] == sorted((c.weight for c in found.changes), reverse=True)


@pytest.mark.parametrize(
    ("served", "most", "release", "says"),
    [
        (310, 0, "6.1.176", "nfsd keeps 380 ((16 threads + 3) x 20, as max_connections is 0)"),
        (300, 0, "6.1.176", ""),  # 79 %
        (80, 100, "6.1.176", "nfsd keeps 100 (max_connections)"),
        (310, None, "6.1.176", ""),  # only root may read it
        (None, 0, "6.1.176", ""),
        (5000, 0, "6.12.60", ""),  # all of them are kept
    ],
)
def test_a_server_near_its_number_of_connections_is_named(
    served: int | None, most: int | None, release: str, says: str
) -> None:
    """max_connections of nfsd, or what follows from its threads, against the connections that there are."""
    told = settings(nfsd__threads=16) | ({} if most is None else settings(nfsd__max_connections=most))
    found = _remarks(check([a_server(served=served, settings=told, release=release)]))
    assert ("to port 2049, and nfsd keeps" in found) == bool(says)
    assert says in found
