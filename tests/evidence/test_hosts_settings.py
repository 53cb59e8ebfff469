"""What hosts print: sysctl, configuration files, addresses and connections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from nfslat.evidence import configured, host, sysctl
from nfslat.evidence.records import Setting


def test_all_forms_of_sysctl() -> None:
    """Linux and FreeBSD print settings in three forms; what has nothing to do with NFS is left out."""
    text = (
        "net.ipv4.tcp_rmem = 4096\t131072\t6291456\nsunrpc.tcp_slot_table_entries=2\nvfs.nfsd.minthreads: 8\n"
        "kernel.ostype = Linux\nsysctl: permission denied on key 'fs.protected'\nfs.nfs.nfs_callback_tcpport = 0\n"
    )
    found = sysctl.read((f"s:{number}", line) for number, line in enumerate(text.split("\n"), 1))
    assert found == {
        "net.ipv4.tcp_rmem": Setting("4096 131072 6291456", "s:1"),
        "sunrpc.tcp_slot_table_entries": Setting("2", "s:2"),
        "vfs.nfsd.minthreads": Setting("8", "s:3"),
        "fs.nfs.nfs_callback_tcpport": Setting("0", "s:6"),
    }


@pytest.mark.parametrize(
    ("reader", "lines", "want"),
    [
        (
            configured.sysctl_conf,
            ["# sunrpc.x = 1", "-sunrpc.tpc_max_slot_table_entries=128", "net/ipv4/tcp_rmem = 1 2 3"],
            {"sunrpc.tpc_max_slot_table_entries": "128", "net.ipv4.tcp_rmem": "1 2 3"},
        ),
        (
            configured.modprobe,
            ["options sunrpc tcp_slot_table_entries=16 x=1", "install nfs /bin/true", "options", "#options a b=1"],
            {"sunrpc.tcp_slot_table_entries": "16", "sunrpc.x": "1"},
        ),
        (
            configured.nfs_conf,
            ["threads=1", "[general]", "[NFSD]", "; threads=8", "Threads = 64 # many", "[mountd]", "threads=4"],
            {"nfs.conf:nfsd.threads": "64", "nfs.conf:mountd.threads": "4"},
        ),
        (configured.etc_system, ["* set nfs:a=1", "set nfs:nfs3_max_threads = 64"], {"nfs:nfs3_max_threads": "64"}),
        (
            configured.shell_variables,
            ["RPCNFSDCOUNT=8 # eight", 'nfs_server_flags="-u -t -n 16"', "echo x"],
            {"RPCNFSDCOUNT": "8", "nfs_server_flags": "-u -t -n 16"},
        ),
        (configured.boot_parameters, ["sunrpc.tcp_slot_table_entries=128"], {"sunrpc.tcp_slot_table_entries": "128"}),
    ],
)
def test_configuration_files(
    reader: Callable[[list[configured.Line]], Any], lines: list[str], want: dict[str, str]
) -> None:
    """Each kind of file gives the knobs that it sets; comments set nothing, and a misspelt knob is kept."""
    found, warnings = configured.collect(reader([(f"/etc/f:{number}", line) for number, line in enumerate(lines, 1)]))
    assert {name: setting.value for name, setting in found.items()} == want
    assert all(lines[int(each.source.split(":")[1]) - 1].find(each.value) >= 0 for each in found.values())
    assert warnings == []


def test_sections_of_nfsmount_conf_keep_their_mount() -> None:
    """The options of one mount point are told from those of all; a file begins without a section."""
    lines = [
        ("/etc/nfsmount.conf:1", "[ NFSMount_Global_Options ]"),
        ("/etc/nfsmount.conf:2", "nconnect=4"),
        ("/etc/nfsmount.conf:3", '[ MountPoint "/mnt/db" ]'),
        ("/etc/nfsmount.conf:4", "rsize=32k"),
        ("/etc/nfsmount.conf.d/a.conf:1", "wsize=32k"),
    ]
    found, _ = configured.collect(configured.nfs_conf(lines))
    assert set(found) == {
        "nfsmount.conf:nfsmount_global_options.nconnect",
        'nfsmount.conf:mountpoint "/mnt/db".rsize',
    }


def test_a_knob_that_is_set_twice_is_told() -> None:
    """The later line counts; a warning names both places where they differ, and there is none where they agree."""
    lines = [("a:1", "sunrpc.x=1"), ("a:2", "sunrpc.x=1"), ("b:3", "sunrpc.x=2")]
    found, warnings = configured.collect(configured.sysctl_conf(lines))
    assert found["sunrpc.x"] == Setting("2", "b:3")
    assert warnings == ["sunrpc.x is set more than once: 1 in a:2, 2 in b:3"]


def test_addresses_and_clients_of_several_systems() -> None:
    """ip, ifconfig, ss and netstat of Linux, BSD and Solaris are read; loopback and link-local say nothing."""
    text = (
        "1: lo    inet 127.0.0.1/8 scope host lo\n2: eth0    inet6 fe80::1/64 scope link\n"
        "2: eth0    inet 10.0.0.1/24 brd 10.0.0.255 scope global eth0\n"
        "\tinet6 fd00::2%em0 prefixlen 64\n\tinet addr:10.0.0.3  Bcast:10.0.0.255\n\tinet 10.0.0.4 netmask ffffff00\n"
    )
    assert host.addresses(text) == ("10.0.0.1", "fd00::2", "10.0.0.3", "10.0.0.4")
    text = (
        "Recv-Q Send-Q Local Address:Port Peer Address:PortProcess\n"
        "0 0 10.0.0.1:2049 10.0.0.2:778\n0 0 [::ffff:10.0.0.1]:2049 [::ffff:10.0.0.5]:900\n"
        "0 0 [fd00::1]:2049 [fd00::9]:777\n0 0 10.0.0.1:777 10.0.0.9:2049\n0 0 10.0.0.1:2049 10.0.0.2:779\n"
        "tcp4 0 0 10.0.0.1.2049 10.0.0.7.800 ESTABLISHED\n"
    )
    assert host.clients(text) == ("10.0.0.2", "10.0.0.5", "fd00::9", "10.0.0.7")
