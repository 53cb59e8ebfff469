#!/bin/sh
# Debian's Linux source -> a User-Mode Linux kernel for the guests of the lab that has the tracepoints of sunrpc (Debian's
# own has none) and ticks at 1000 Hz (there dm-delay makes 20 ms of 10). Its path is the last line on standard output.
#   scripts/laboratory/kernel.sh [--source linux-source-6.12.tar.xz]
# It is built once, in ~/.cache/nfslat; what is missing for that is installed where this is run by root on Debian.
set -eu
export LC_ALL=C

fail() {
	echo "kernel.sh: $*" >&2
	exit 1
}

self=$(readlink -f -- "$0")
wanted=${self%.sh}.config
cache=${XDG_CACHE_HOME:-${HOME:?is not set}/.cache}/nfslat
source=
case $#:${1-} in
0:) ;;
2:--source) source=$2 ;;
*) fail "usage: kernel.sh [--source linux-source-6.12.tar.xz]" ;;
esac

# The newest that was built of these options.
built() {
	for folder in "$cache"/uml-*; do
		if [ -x "$folder/linux" ] && cmp -s "$folder/wanted.config" "$wanted"; then echo "$folder/linux"; fi
	done | sort -V | tail -n 1
}
kernel=$(built)
if [ -n "$kernel" ] && [ -z "$source" ]; then
	echo "$kernel"
	exit
fi

[ -z "$source" ] || [ -f "$source" ] || fail "$source: no such file"
[ "$(uname -sm)" = "Linux x86_64" ] || fail "this kernel is built for Linux on x86_64, and here is $(uname -sm)"

# name of the newest package with the source, as far as this host knows
newest_source() { apt-cache search --names-only '^linux-source-[0-9.]+$' | cut -d' ' -f1 | sort -V | tail -n 1; }
newest_tar() { printf '%s\n' /usr/src/linux-source-*.tar.xz | sort -V | tail -n 1; }

packages=
for tool in gcc make flex bison bc xz:xz-utils; do
	command -v "${tool%:*}" >/dev/null || packages="$packages ${tool#*:}"
done
[ -e /usr/include/stdio.h ] || packages="$packages libc6-dev"
if [ -z "$source" ] && [ ! -f "$(newest_tar)" ]; then
	command -v apt-cache >/dev/null || fail "no Linux source: give one with --source linux-source-6.12.tar.xz"
	package=$(newest_source)
	packages="$packages ${package:-linux-source}"
fi
if [ -n "$packages" ]; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then fail "missing; as root: apt-get install$packages"; fi
	# shellcheck disable=SC2086 # names of packages
	DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $packages >&2 ||
		fail "cannot install; by hand: apt-get update && apt-get install$packages"
fi
[ -n "$source" ] || source=$(newest_tar)
[ -f "$source" ] || fail "no Linux source in /usr/src: give one with --source linux-source-6.12.tar.xz"

mkdir -p "$cache" || fail "$cache: cannot be made"
[ "$(df -Pk "$cache" | awk 'NR == 2 { print int($4 / 1024) }')" -ge 1200 ] || fail "$cache: 1200 MB are needed there"
work=$(mktemp -d "$cache/building.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' HUP INT TERM

# Drivers, other machines and texts are most of the source and nothing of this kernel; what Kconfig reads has to stay.
echo "kernel.sh: unpacks $source" >&2
mkdir "$work/source" "$work/new"
tar -xf "$source" -C "$work/source" --strip-components=1 --use-compress-program='xz -T0' --wildcards \
	--exclude='*/drivers/gpu/*.[ch]' --exclude='*/drivers/net/ethernet/*.[ch]' --exclude='*/drivers/net/wireless/*.[ch]' \
	--exclude='*/drivers/media/*.[ch]' --exclude='*/drivers/staging/*.[ch]' --exclude='*/sound/*.[ch]' \
	--exclude='*.dts' --exclude='*.dtsi' --exclude='*.rst' --exclude='*.yaml' --exclude='*/tools/testing' ||
	fail "$source: cannot be unpacked"
cd "$work/source"
[ -d arch/um ] || fail "$source: no source of Linux with arch/um"
# No configuration sets this: it has no prompt in arch/um.
sed -i '/^config HZ$/,/default/s/default 100$/default 1000/' arch/um/Kconfig
release=$(make -s kernelversion) || fail "$source: has no version"

run_make() {
	make -s ARCH=um O="$work/build" KBUILD_BUILD_USER=lab KBUILD_BUILD_HOST=nfslat "$@" >>"$work/log" 2>&1 || {
		mv "$work/log" "$cache/build.log"
		fail "make $* failed, $cache/build.log says why: $(grep -im 1 -e 'error' "$cache/build.log" || echo 'no error named')"
	}
}
mkdir "$work/build"
run_make KCONFIG_ALLCONFIG="$wanted" allnoconfig
not_set=$(grep '^CONFIG_' "$wanted" | grep -vxF -f "$work/build/.config" | tr '\n' ' ')
[ -z "$not_set" ] || fail "Linux $release has no $not_set- take a newer one with --source"
grep -qx CONFIG_HZ=1000 "$work/build/.config" || fail "Linux $release: arch/um/Kconfig has no HZ that could be changed"
echo "kernel.sh: builds Linux $release ($(nproc) at a time)" >&2
run_make -j "$(nproc)" linux

strip -o "$work/new/linux" "$work/build/linux"
cp "$work/build/.config" "$work/new/config"
cp "$wanted" "$work/new/wanted.config"
rm -rf "$cache/uml-$release"
mv "$work/new" "$cache/uml-$release"
echo "$cache/uml-$release/linux"
