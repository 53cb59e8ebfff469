"""Snapshots of a host: what scripts/snapshot.sh prints, bare texts, and two of them compared."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nfslat.errors import InputError
from nfslat.evidence import interval, snapshot
from nfslat.evidence.records import Mount, NfsdStats, Setting, Snapshot

DATA = Path(__file__).parent / "data"
SCRIPT = Path(__file__).parents[2] / "scripts" / "snapshot.sh"


def _read(name: str) -> Snapshot:
    return snapshot.read(str(DATA / name))


def _written(folder: Path, text: str | bytes, name: str = "s.txt") -> str:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def test_two_client_snapshots() -> None:
    """Between two snapshots of the lab's client with 2 slots, the wait for a slot makes nearly all of the latency."""
    delta = interval.difference(_read("client-before.txt"), _read("client-after.txt"))
    assert delta.seconds == 10
    assert delta.notes == ()
    means = {each.layer: each for each in delta.latencies if each.op == "READ"}
    assert means["client"].source == "mountstats /mnt/nfs"
    assert means["slot wait"].mean_ms > 0.9 * means["client"].mean_ms


def test_two_server_snapshots() -> None:
    """Between two snapshots of the lab's server with 2 threads, hardly a request found an idle thread."""
    delta = interval.difference(_read("server-before.txt"), _read("server-after.txt"))
    share = interval.woken_share(delta.pools)
    assert share is not None
    assert share < 0.05
    assert delta.latencies == ()


def test_snapshots_that_cannot_be_compared() -> None:
    """The wrong order, another host, another boot and nothing in common are each refused with what to do."""
    before, after = _read("client-before.txt"), _read("client-after.txt")
    server = _read("server-after.txt")
    with pytest.raises(InputError, match="wrong order"):
        interval.difference(after, before)
    with pytest.raises(InputError, match="wrong order"):
        interval.difference(server, _read("server-before.txt"))
    with pytest.raises(InputError, match="different hosts"):
        interval.difference(before, server)
    with pytest.raises(InputError, match="different boots"):
        interval.difference(before, replace(after, boot="else"))
    with pytest.raises(InputError, match="no counters in common"):
        interval.difference(before, replace(after, mounts=(), kernel={}))


def test_the_age_of_a_mount_tells_the_order_too() -> None:
    """Bare texts have no time: the wrong order is seen from the mounts. A clock that was set back does no harm."""
    before, after = _read("nconnect4-before.mountstats"), _read("nconnect4-after.mountstats")
    assert interval.difference(before, after).seconds == 10
    with pytest.raises(InputError, match="wrong order"):
        interval.difference(after, before)
    stepped = replace(_read("client-after.txt"), taken="2026-09-20T09:00:00Z")
    first = _read("client-before.txt")
    assert first.mounts[0].age_s is not None
    assert stepped.mounts[0].age_s is not None
    assert interval.difference(first, stepped).seconds == stepped.mounts[0].age_s - first.mounts[0].age_s


def test_the_same_snapshot_twice() -> None:
    """Nothing was done between a snapshot and itself, and a note says so."""
    same = _read("client-after.txt")
    assert interval.difference(same, same).notes == ("no NFS operation was done in between on any mount",)


def _sent_again(op: str, calls: int) -> interval.Interval:
    """Between the two snapshots of the lab's client, with so many calls of `op` sent again."""
    after = _read("client-after.txt")
    (mount,) = after.mounts
    stats = mount.ops[op]
    ops = {**mount.ops, op: replace(stats, transmissions=stats.transmissions + calls)}
    return interval.difference(_read("client-before.txt"), replace(after, mounts=(replace(mount, ops=ops),)))


def _slot_waits(found: interval.Interval) -> set[str]:
    return {each.op for each in found.latencies if each.layer == "slot wait"}


def test_slot_waits_with_calls_sent_again_are_left_out() -> None:
    """More than 1 % sent again: no slot wait of that operation, nor of reads and writes together; a note says so."""
    told = _slot_waits(_sent_again("READ", 0))
    found = _sent_again("READ", 1234)
    assert _slot_waits(found) == told - {"READ", ""}
    assert {"READ", ""} <= {each.op for each in found.latencies if each.layer == "client"}
    note = "/mnt/nfs: 1,234 calls were retransmitted; what they waited before counts as slot wait"
    assert found.notes == (f"{note}, so the slot wait of READ is left out",)
    assert _slot_waits(_sent_again("GETATTR", 1234)) == told - {"GETATTR"}


def test_slot_waits_with_hardly_a_call_sent_again_stay() -> None:
    """Up to 1 %, as in `nfslat tune`: the slot wait is told, and so is how many calls there were."""
    reads = _sent_again("READ", 0).mounts[0].ops["READ"].ops
    assert reads >= 100
    few = _sent_again("READ", reads // 100)
    assert _slot_waits(few) == _slot_waits(_sent_again("READ", 0))
    assert few.notes[0].endswith("counts as slot wait")
    assert "READ" not in _slot_waits(_sent_again("READ", reads // 100 + 1))


def test_resends_of_one_mount_say_nothing_of_another() -> None:
    """The rule is applied mount by mount, and each latency names its mount and server."""
    before, after = _read("client-before.txt"), _read("client-after.txt")
    (mount,) = after.mounts
    stats = mount.ops["READ"]
    again = replace(
        mount,
        path="/mnt/other",
        options={**mount.options, "addr": "10.99.0.9"},
        ops={"READ": replace(stats, transmissions=2 * stats.ops)},
    )
    found = interval.difference(before, replace(after, mounts=(mount, again)))
    waits = {(each.source, each.server) for each in found.latencies if (each.layer, each.op) == ("slot wait", "READ")}
    assert waits == {("mountstats /mnt/nfs", "10.77.0.1")}
    clients = {each.server for each in found.latencies if (each.layer, each.op) == ("client", "READ")}
    assert clients == {"10.77.0.1", "10.99.0.9"}


@pytest.mark.parametrize(
    ("device", "options", "server"),
    [
        ("10.0.0.1:/export", {"addr": "10.0.0.1"}, "10.0.0.1"),
        ("nas:/export", {"addr": "10.0.0.7"}, "10.0.0.7"),
        ("nas:/export", {}, "nas"),
        ("[fd00::1]:/", {}, "fd00::1"),
        ("[fd00::1]:/", {"addr": "fd00::1"}, "fd00::1"),
        ("strange", {}, "strange"),
    ],
)
def test_the_server_of_a_mount(device: str, options: dict[str, str], server: str) -> None:
    """The address that the kernel mounted; where it does not tell, what the device names."""
    assert Mount(device, "/m", "3", options).server == server


@pytest.mark.parametrize(
    ("known", "nfsd", "threads"),
    [
        ({"nfsd.threads": "16"}, None, 16),
        ({"nfs.servers": "1024"}, None, 1024),
        ({"vfs.nfsd.minthreads": "4", "vfs.nfsd.maxthreads": "64"}, None, 64),
        ({}, NfsdStats(8), 8),
        ({"nfsd.threads": "0"}, NfsdStats(8), 8),
        ({"nfsd.threads": "0"}, NfsdStats(0), None),
        ({"nfsd.threads": "many"}, None, None),
        ({}, None, None),
    ],
)
def test_threads_of_each_system(known: dict[str, str], nfsd: NfsdStats | None, threads: int | None) -> None:
    """Linux, Solaris and FreeBSD name them otherwise; a server with none, and a text that is no number, are None."""
    settings = {name: Setting(value, "x") for name, value in known.items()}
    assert Snapshot("x", "", settings=settings, nfsd=nfsd).threads == threads


@pytest.mark.parametrize(
    ("value", "number"), [("64", 64), (" 64\n", 64), ("0", 0), ("-1", None), ("²", None), ("9" * 19, None), ("", None)]
)
def test_a_setting_as_a_number(value: str, number: int | None) -> None:
    """Digits of ASCII, not too many, are a number; anything else is None, and so is a setting that is not there."""
    host = Snapshot("x", "Linux", settings={"a.b": Setting(value, "x")})
    assert host.setting("a.b") == number
    assert host.setting("a.c") is None


_BARE = {
    "# pool packets-arrived sockets-enqueued threads-woken threads-timedout\n0 5 4 3 0\n": "pools",
    "rc 0 1 2\nio 1 2\nth 8 0\nnet 9 0 9 3\nrpc 9 0 0 0 0\n": "nfsd",
    "kernel.x = 1\nsunrpc.tcp_slot_table_entries = 2\n": "settings",
    "vfs.nfsd.minthreads: 8\n": "settings",
    "servers=1024\nserver_versmin=2\n": "settings",
    "[nfsd]\nthreads=8\n": "configured",
    "options sunrpc tcp_slot_table_entries=128\n": "configured",
    "set nfs:nfs3_max_threads=64\n": "configured",
}


@pytest.mark.parametrize("text", _BARE)
def test_a_bare_text_is_known_by_what_is_in_it(text: str, tmp_path: Path) -> None:
    """Each text of a snapshot can be given on its own, with Windows line ends too; names of files do not matter."""
    for kind in (text, text.replace("\n", "\r\n")):
        found = snapshot.read(_written(tmp_path, kind))
        assert getattr(found, _BARE[text])


def test_a_file_of_settings_is_no_setting_in_effect(tmp_path: Path) -> None:
    """sysctl.conf says what will be, `sysctl -a` what is."""
    path = _written(tmp_path, "sunrpc.tcp_slot_table_entries = 128\n", "90-nfs.conf")
    found = snapshot.read(path)
    assert found.settings == {}
    assert found.configured == {"sunrpc.tcp_slot_table_entries": Setting("128", f"{path}:1")}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        (" \n\n", "is empty"),
        (b"\xd4\xc3\xb2\xa1\x02\0\x04\0", "is not a text"),
        (b"\x1f\x8b\x08ab", "is not a text"),
    ],
)
def test_what_is_no_snapshot_is_refused(text: str | bytes, said: str, tmp_path: Path) -> None:
    """Whatever is given instead of a snapshot: one line names the file and says what to give."""
    path = _written(tmp_path, text)
    with pytest.raises(InputError, match=said) as caught:
        snapshot.read(path)
    assert path in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_what_is_no_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A directory, a file that is not there, a name that cannot be one and a file without end are each one line."""
    for path in (str(tmp_path), str(tmp_path / "none"), "a\0b"):
        with pytest.raises(InputError, match="cannot be"):
            snapshot.read(path)
    monkeypatch.setattr(snapshot, "LIMIT_BYTES", 1 << 20)
    with pytest.raises(InputError, match="larger than 1 MiB"):
        snapshot.read("/dev/zero")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(200))
@given(st.sampled_from(["client-after.txt", "server-after.txt", "nconnect4-after.mountstats"]), st.data())
def test_a_damaged_snapshot_is_read_or_refused(tmp_path: Path, name: str, data: st.DataObject) -> None:
    """Cut off or overwritten anywhere, a snapshot is read (and compared), or refused: never a traceback."""
    raw = (DATA / name).read_bytes()
    start = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(start, len(raw)))
    noise = data.draw(st.one_of(st.binary(max_size=20), st.sampled_from([b"\n#### nfslat: ", b"9" * 5000, b""])))
    path = _written(tmp_path, raw[:start] + noise + raw[end:])
    try:
        found = snapshot.read(path)
        interval.difference(_read(name), found)
    except InputError as error:
        problem = str(error)
    else:
        problem = ""
    assert "\n" not in problem


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "ksh", "busybox"])
def test_the_script_prints_what_is_read(shell: str, tmp_path: Path) -> None:
    """scripts/snapshot.sh runs in every shell that is here, says nothing on standard error, and is read."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    command = [shell, "sh"] if shell == "busybox" else [shell]
    done = subprocess.run(
        [*command, str(SCRIPT)], capture_output=True, check=True, timeout=60, stdin=subprocess.DEVNULL
    )
    assert done.stderr == b""
    found = snapshot.read(_written(tmp_path, done.stdout))
    assert found.system
    assert found.hostname
    assert found.taken.endswith("Z")
    assert not any("cut short" in warning or "left out" in warning for warning in found.warnings)
    assert b"fastopen_key" not in done.stdout


def test_the_script_takes_no_other_option() -> None:
    """--help says what is collected and that nothing is changed; anything else is a usage error without output."""
    helped = subprocess.run(["sh", str(SCRIPT), "--help"], capture_output=True, check=True, text=True)
    assert "changes nothing" in helped.stdout
    wrong = subprocess.run(["sh", str(SCRIPT), "--else"], capture_output=True, check=False, text=True)
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "usage" in wrong.stderr
