# shellcheck shell=sh
# A loose PEX in, a Debian package out: what scripts/build calls.
#   deb.sh PEX SOURCES VERSION DIR
set -eu
pex=$1 sources=$2 version=$3 out=$4
machine=$(dpkg --print-architecture)
tree=$(mktemp -d "$out/deb.XXXXXX")
chmod 755 "$tree"
mkdir -p "$tree/DEBIAN" "$tree/usr/bin" "$tree/usr/lib" "$tree/usr/share/man/man1" "$tree/usr/share/doc/nfslat" \
    "$tree/usr/share/bash-completion/completions" "$tree/usr/share/zsh/vendor-completions" \
    "$tree/usr/share/fish/vendor_completions.d"
cp -r "$pex" "$tree/usr/lib/nfslat"
shell=$sources/nfslat/cli/shell
gzip -9n <"$shell/nfslat.1" >"$tree/usr/share/man/man1/nfslat.1.gz"
cp "$shell/nfslat.bash" "$tree/usr/share/bash-completion/completions/nfslat"
cp "$shell/_nfslat" "$tree/usr/share/zsh/vendor-completions/_nfslat"
cp "$shell/nfslat.fish" "$tree/usr/share/fish/vendor_completions.d/nfslat.fish"
cp "$sources/LICENSE" "$tree/usr/share/doc/nfslat/copyright"
# What Python compiles for users who may not write here would be compiled in each run.
cat >"$tree/usr/bin/nfslat" <<'EOF'
#!/bin/sh
exec /usr/bin/python3 /usr/lib/nfslat "$@"
EOF
chmod 755 "$tree/usr/bin/nfslat"
cat >"$tree/DEBIAN/postinst" <<'EOF'
#!/bin/sh
set -e
# Some of the packages hold tests and templates that are no Python of this version.
[ "$1" != configure ] || python3 -m compileall -q -j 0 /usr/lib/nfslat >/dev/null 2>&1 || :
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
dpkg-deb --root-owner-group -Zxz --build "$tree" "$out/nfslat_${version}_$machine.deb" >/dev/null
rm -rf "$tree"
