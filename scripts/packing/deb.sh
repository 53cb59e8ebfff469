# shellcheck shell=sh
# The file that needs only Python in, a Debian package out: what scripts/build calls.
#   deb.sh PYZ SOURCES VERSION ARCHITECTURE DIR
set -eu
pyz=$1 sources=$2 version=$3 machine=$4 out=$5
tree=$(mktemp -d "$out/deb.XXXXXX")
chmod 755 "$tree"
mkdir -p "$tree/DEBIAN" "$tree/usr/bin" "$tree/usr/lib" "$tree/usr/share/man/man1" "$tree/usr/share/doc/nfslat" \
    "$tree/usr/share/bash-completion/completions" "$tree/usr/share/zsh/vendor-completions" \
    "$tree/usr/share/fish/vendor_completions.d"
python3 -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1]).extractall(sys.argv[2])' "$pyz" "$out/pyz"
mv "$out/pyz/.deps" "$tree/usr/lib/nfslat"
rm -rf "$out/pyz"
shell=$sources/nfslat/cli/shell
gzip -9n <"$shell/nfslat.1" >"$tree/usr/share/man/man1/nfslat.1.gz"
cp "$shell/nfslat.bash" "$tree/usr/share/bash-completion/completions/nfslat"
cp "$shell/_nfslat" "$tree/usr/share/zsh/vendor-completions/_nfslat"
cp "$shell/nfslat.fish" "$tree/usr/share/fish/vendor_completions.d/nfslat.fish"
cp "$sources/LICENSE" "$tree/usr/share/doc/nfslat/copyright"
cat >"$tree/usr/bin/nfslat" <<'EOF'
#!/usr/bin/python3 -I
"""nfslat with the packages that came with it, those of this version of Python."""

import os
import sys

_FITS = ("-none-any.whl", "-abi3-", "-cp%d%d-" % sys.version_info[:2])
with os.scandir("/usr/lib/nfslat") as _packages:
    sys.path[:0] = [one.path for one in _packages if any(fits in one.name for fits in _FITS)]

from nfslat.cli.main import main

sys.exit(main())
EOF
chmod 755 "$tree/usr/bin/nfslat"
cat >"$tree/DEBIAN/postinst" <<'EOF'
#!/bin/sh
set -e
[ "$1" = configure ] || exit 0
# Once for all users, who may not write there; what does not compile is a template or a test of a package.
cp=$(python3 -c 'import sys; print("cp%d%d" % sys.version_info[:2])')
cd /usr/lib/nfslat
python3 -m compileall -q *-none-any.whl *-abi3-* *-"$cp"-* >/dev/null 2>&1 || :
EOF
cat >"$tree/DEBIAN/prerm" <<'EOF'
#!/bin/sh
set -e
find /usr/lib/nfslat -name __pycache__ -prune -exec rm -rf {} +
EOF
chmod 755 "$tree/DEBIAN/postinst" "$tree/DEBIAN/prerm"
# 2.28 is what numpy's wheels need.
cat >"$tree/DEBIAN/control" <<EOF
Package: nfslat
Version: $version
Architecture: $machine
Maintainer: The nfslat authors <nfslat@localhost>
Installed-Size: $(du -sk "$tree/usr" | cut -f 1)
Depends: python3 (>= 3.11), python3 (<< 3.15), libc6 (>= 2.28)
Recommends: tshark
Section: net
Priority: optional
Description: says where the latency of NFS operations arises
 Pairs the calls and replies in captures of an NFS server and of its client,
 matches them across the hosts, and says who adds the time: client, network
 or server.
EOF
find "$tree" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
dpkg-deb --root-owner-group -Zzstd --threads-max=1 --build "$tree" "$out/nfslat_${version}_$machine.deb" >/dev/null
rm -rf "$tree"
