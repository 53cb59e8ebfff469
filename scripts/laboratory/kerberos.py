"""Guests of a scenario that mounts with Kerberos -> a KDC on the server, keys and the daemons of RPCSEC_GSS on each."""

from __future__ import annotations

import shutil

from laboratory import host
from laboratory.guest import Guest, LabError

# What this takes beside host.PROGRAMS.
PROGRAMS = {
    "krb5kdc": "krb5-kdc",
    "kadmin.local": "krb5-admin-server",
    "rpc.gssd": "nfs-common",
    "rpc.svcgssd": "nfs-common",
}
# Who is not in the server's /etc/passwd, as a host's own principal is not: root, who has no_root_squash with sec=sys.
EXPORT_OPTIONS = "anonuid=0,anongid=0"
_KDC = "/run/krb5kdc"
# The one kind of keys that every kernel with RPCSEC_GSS knows; names are those of /etc/hosts alone.
_CONFIGURATION = f"""
[libdefaults]
    default_realm = LAB
    dns_lookup_realm = false
    dns_lookup_kdc = false
    dns_canonicalize_hostname = false
    rdns = false
    permitted_enctypes = aes256-cts-hmac-sha1-96
[realms]
    LAB = {{
        kdc = server.lab
        database_name = {_KDC}/principal
        key_stash_file = {_KDC}/stash
        acl_file = {_KDC}/acl
        supported_enctypes = aes256-cts-hmac-sha1-96:normal
        master_key_type = aes256-cts-hmac-sha1-96
    }}
[domain_realm]
    .lab = LAB
"""


def start(server: Guest, clients: list[Guest]) -> None:
    """Everything that ``sec=`` needs but the options of export and mount; rpc_pipefs is mounted and nfsd runs.

    Raises ``LabError`` where the machine lacks a program.
    """
    if lacks := host.packages(PROGRAMS):
        raise LabError(f"Kerberos needs the packages {', '.join(lacks)}")
    keytabs = "\n".join(
        f"kadmin.local addprinc -randkey {kind}/{guest.name}.lab\n"
        f"kadmin.local ktadd -norandkey -k /lab/{guest.name}.keytab {kind}/{guest.name}.lab"
        for kind, guest in (("nfs", server), *(("host", guest) for guest in clients))
    )
    _configure(server)
    server.run(
        f"""
        mkdir -p {_KDC}
        export KRB5_KDC_PROFILE=/etc/krb5.conf
        kdb5_util create -s -r LAB -P lab
        krb5kdc
        {keytabs}
        mv /lab/{server.name}.keytab /etc/krb5.keytab
        rpc.svcgssd
        """
    )
    for guest in clients:
        shutil.move(server.folder / f"{guest.name}.keytab", guest.folder / "krb5.keytab")
        _configure(guest)
        guest.run("mv /lab/krb5.keytab /etc/krb5.keytab\nrpc.gssd")


def _configure(guest: Guest) -> None:
    """Where the kernel has modules, those that it would not load by itself."""
    guest.run(
        f"modprobe -a rpcsec_gss_krb5 cbc cts hmac 2>/dev/null || :\n"
        f"cat >/etc/krb5.conf <<'END'\n{_CONFIGURATION.strip()}\nEND"
    )
