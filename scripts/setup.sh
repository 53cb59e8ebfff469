# shellcheck shell=sh
# The set-up that the scripts beside this file share; they source it with $root, the checkout, and call
#   set_up run|dev
# which leaves $venv, a virtual environment that holds nfslat (dev: and the tools to test and check it), with tshark in
# PATH. Everything it says goes to standard error, for standard output belongs to nfslat. It exits with 3 if it cannot.
#
# The decoder in native/ is compiled; on Debian and its kin a Rust that is new enough is installed where that takes no
# password. Where there is none, or it does not compile, set-up ends with a line that says what to install. The function
# crate runs cargo on it.
#
# What is installed is what the locks say, each package and crate with its hash (scripts/lock makes them).
: "${root:?}"

say() { printf 'nfslat: %s\n' "$*" >&2; }
die() {
    say "$*"
    exit 3
}
have() { command -v "$1" >/dev/null 2>&1; }

# fits run|dev: whether $venv is complete for this checkout as it is now. This is all that a second run does, so it
# starts no Python. The stamp names the checkout (an environment cannot be moved), the very Python (one that the system
# replaced by the next version has other libraries), a sum of what the set-up depends on, and the level.
fits() {
    stamp='' origin='' wanted=''
    [ -x "$venv/bin/python" ] || return 1
    origin="$root $(readlink -f "$venv/bin/python")"
    wanted="$origin $(cd "$root" && cksum setup.cfg pyproject.toml locks/*.txt)"
    [ ! -r "$venv/.stamp" ] || stamp=$(cat "$venv/.stamp")
    [ "$stamp" = "$wanted dev" ] || [ "$stamp" = "$wanted $1" ]
}

# place: $source, the folder that is installed: the checkout, or what stands for one that cannot be written to.
place() {
    source=$root
    [ ! -d "$venv/src" ] || source=$venv/src
}

# shadow: makes $source stand for a checkout that cannot be written to. Installing writes beside setup.cfg, compiling
# into native/ and nfslat/, so these are folders of ours, and what is in them are links. Those that are there are left
# alone; so this costs next to nothing, and a second run can look whether the checkout has got new files.
shadow() {
    [ -d "$source/native/" ] || mkdir -p "$source/nfslat" "$source/native"
    for file in setup.cfg pyproject.toml MANIFEST.in LICENSE README.md samples tests; do shadow_one "$file"; done
    for file in "$root"/nfslat/* "$root"/native/*; do
        case ${file##*/} in
        __pycache__ | _native*.so | target | Cargo.lock) ;;
        *) shadow_one "${file#"$root"/}" ;;
        esac
    done
}
shadow_one() { [ -e "$source/$1" ] || ln -sfn "$root/$1" "$source/$1"; }

# native_fits: whether the decoder is compiled from the sources as they are now.
native_fits() {
    sources='' built_from=''
    place
    [ -r "$venv/.native" ] && read -r built_from <"$venv/.native" || return 1
    sum_sources
    [ "$built_from" = "$sources" ] && [ -e "$source/nfslat/_native.abi3.so" ]
}

# Names that start with a dot are those of editors at work.
sum_sources() {
    sources=$(cd "$root" && find native/Cargo.toml native/crates.lock native/src ! -name '.*' -type f -exec cksum {} + | cksum)
    sources=${sources%% *}
}

# The cargos that may be there: rustup puts its own where a shell that was started before does not look, Ubuntu those that
# are newer than the release where nobody looks.
cargos() {
    command -v cargo || :
    ls -d "${CARGO_HOME:-${HOME:-}/.cargo}/bin/cargo" /usr/lib/rust-*/bin/cargo 2>/dev/null || :
}

# find_cargo: $cargo, the first that is new enough for the crate; without one $why there is none.
find_cargo() {
    cargo='' why='no cargo is found'
    rust=$(sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$root/native/Cargo.toml")
    while read -r name; do
        # cargo 1.85.0 (d73d2caf9 2024-12-31)
        [ "$name" ] || continue
        if ! version=$(cd "$root/native" && "$name" --version 2>/dev/null); then
            why="$name does not run (with rustup: no toolchain?)"
            continue
        fi
        version=${version#cargo } version=${version%% *}
        if is_new_enough "$version"; then cargo=$name && return; fi
        why="Rust $version is too old"
    done <<EOF
$(cargos)
EOF
}

# is_new_enough VERSION: for the crate, which says 1.85; of Rust 1 there is no 2 in sight.
is_new_enough() {
    minor=${1#1.}
    [ "$minor" != "$1" ] && [ "${minor%%[!0-9]*}" -ge "${rust#1.}" ]
}

# crate ARGUMENTS: cargo on native/. What it makes goes where the environment is, since the checkout may be read-only.
crate() (
    [ "${cargo:-}" ] || find_cargo
    cd "$source/native" || exit
    # A build target of the user's, for another machine, would not be found again, nor run here.
    env -u CARGO_BUILD_TARGET PATH="${cargo%/*}:$PATH" CARGO_TARGET_DIR="$venv/native" PYO3_PYTHON="$venv/bin/python" \
        "$cargo" "$@"
)

# compile: the fast decoder, from $source/native into $source/nfslat, with what cargo says in $venv/native.log. Not by
# pip: that would fetch setuptools-rust again for each change, so it would need the network, and hide what fails.
compile() {
    # The names of libpython are resolved when the module is loaded, which has to be said on macOS.
    case $(uname) in
    Darwin) set -- -C link-arg=-undefined -C link-arg=dynamic_lookup && library=libnfslat_native.dylib ;;
    *) set -- && library=libnfslat_native.so ;;
    esac
    lock_crates >"$venv/native.log" 2>&1 || return 1
    crate rustc --locked --lib --crate-type cdylib --release --features python -- "$@" >>"$venv/native.log" 2>&1 ||
        return 1
    # One that runs has it mapped: it must get a new file, never new contents.
    cp "$venv/native/release/$library" "$source/nfslat/_native.new" &&
        mv -f "$source/nfslat/_native.new" "$source/nfslat/_native.abi3.so" &&
        (cd / && "$venv/bin/python" -c 'import nfslat._native') >>"$venv/native.log" 2>&1
}

# lock_crates: Cargo.lock from crates.lock, which has all of it but the lines that name a registry; no file of this
# repository does. What they are cargo says, when it makes a lock of its own.
lock_crates() {
    lock=$source/native/Cargo.lock
    ! grep -v '^source = ' "$lock" 2>/dev/null | cmp -s - "$root/native/crates.lock" || return 0
    crate generate-lockfile || return 1
    awk -v origin="$(grep -m 1 '^source = ' "$lock")" '/^checksum = / { print origin } { print }' \
        "$root/native/crates.lock" >"$lock.new" && mv -f "$lock.new" "$lock"
}

# find_compiler: $compiler, the packages with a Rust that is new enough as apt knows them, '' where it knows of none. The
# release's own comes first, then what Debian has for its browsers and Ubuntu under names with a version, oldest first.
find_compiler() {
    compiler=''
    for name in cargo cargo-web $(apt-cache pkgnames cargo-1. 2>/dev/null | sort -V); do
        case $name in cargo | cargo-web | cargo-*[0-9]) ;; *) continue ;; esac
        candidate=$(apt-cache policy "$name" 2>/dev/null | sed -n 's/^  Candidate: //p')
        if is_new_enough "${candidate#*:}"; then
            # The libc and the certificates are only recommended by what needs them.
            compiler="$name $(echo "$name" | sed s/cargo/rustc/) gcc libc6-dev ca-certificates"
            return
        fi
    done
}

# want_compiler: installs a Rust that is new enough where that is Debian's and takes no password; a minute's work for some
# hundred times the speed, and for the commands that tshark cannot stand in for.
want_compiler() {
    find_root
    if ! have apt-get; then return 0; fi
    if [ -z "$cargo" ]; then
        ! may_install || update_packages
        find_compiler
    elif ! have cc && ! have gcc && ! have clang; then
        compiler='gcc libc6-dev' why="$cargo has no C compiler to link with"
    else
        return 0
    fi
    if [ -z "$compiler" ]; then
        why="$why, and this release has none that is new enough"
    elif may_install; then
        say "$why: installing it with ${root_by}apt-get install $compiler (some 150 MB)"
        update_packages
        # What somebody chose to have stays: cargo-web and cargo, or rustup, exclude each other.
        # shellcheck disable=SC2086 # a list of packages
        if apt_get install -y -qq --no-install-recommends --no-remove -o DPkg::Lock::Timeout=300 $compiler; then
            find_cargo
        else
            why="$why, and this failed: ${root_by}apt-get install $compiler"
        fi
    else
        advice="${root_by}apt-get install $compiler, and run again"
    fi
}

# fill_native: compiles the decoder, or ends with why it cannot.
fill_native() {
    find_cargo
    advice="install Rust $rust or newer (rustup, or a package) and run again"
    want_compiler
    [ "$cargo" ] || die "the decoder has to be compiled, and $why: $advice"
    sum_sources # before the compiler reads the files: if they change under it, the next run sees it
    say 'compiling the decoder (once, one to two minutes; needs the network)'
    compile || die "the decoder does not compile: $(grep -m 1 -i error "$venv/native.log" || :) (see $venv/native.log)${compiler:+: $advice}"
    printf '%s\n' "$sources" >"$venv/.native"
}

# The first Python that is new enough and can make environments; python3 comes first, being the user's own choice.
# Without one, $venvless is one that only lacks venv or ensurepip (Debian packs them apart), $old one that is too old.
find_python() {
    python='' venvless='' old=''
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        found=$("$name" -c '
import sys
if sys.version_info < (3, 11):
    print("%d.%d" % sys.version_info[:2])
else:
    try:
        import ensurepip, venv
        print("ready")
    except ImportError:
        print("venvless")
' 2>/dev/null) || continue
        case $found in
        ready) python=$name && return ;;
        venvless) venvless=${venvless:-$name} ;;
        *) old=${old:-$found} ;;
        esac
    done
}

# $venvless, the package with a Python that is new enough, which apt knows; else ''.
find_debian_python() {
    have apt-get || return 0
    find_root
    ! may_install || update_packages
    for name in python3 python3.14 python3.13 python3.12 python3.11; do
        candidate=$(apt-cache policy "$name" 2>/dev/null | sed -n 's/^  Candidate: //p')
        case ${candidate#*:} in 3.1[1-9]*) venvless=$name && return ;; esac
    done
}

# install_packages WHAT DEBIAN FEDORA ARCH SUSE ALPINE BREW: on Debian and its kin installs the packages where that
# takes no password, and says so; elsewhere says what to type. WHAT is what is missing.
install_packages() {
    find_root
    if have apt-get; then
        command="apt-get install $2"
        if may_install; then
            say "$1: installing it with ${root_by}$command"
            update_packages
            # shellcheck disable=SC2086 # a list of packages
            apt_get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 $2 && return
            die "$1, and this failed: ${root_by}$command"
        fi
        # All that has to be asked for is asked for once.
        find_cargo
        [ "$cargo" ] || find_compiler
        command="$command${compiler:+ $compiler}"
    elif have dnf; then
        command="dnf install $3"
    elif have pacman; then
        command="pacman -S $4"
    elif have zypper; then
        command="zypper install $5"
    elif have apk; then
        command="apk add $6"
    elif have brew; then
        root_by='' command="brew install $7"
    else
        die "$1: install it with this system's package manager"
    fi
    die "$1: install it with: ${root_by}$command"
}
# Who installs: $root_by stands in front of the command.
find_root() {
    root_by=''
    [ "$(id -u)" -eq 0 ] || root_by='sudo '
}
may_install() { [ -z "$root_by" ] || { have sudo && sudo -n true 2>/dev/null; }; }
# A new container has no package lists; a new machine may be busy with its first upgrades. A stale list need not be in the
# way, so only the installation decides. Once a run.
update_packages() {
    [ -z "${updated:-}" ] || return 0
    updated=1
    apt_get update -qq || say 'apt-get update failed, going on with the package lists as they are'
}
apt_get() {
    # shellcheck disable=SC2086 # one word or none
    ${root_by:+sudo -n} env DEBIAN_FRONTEND=noninteractive apt-get -o Dpkg::Use-Pty=0 "$@"
}

# pip_install LOCK: what locks/LOCK.txt names, and nfslat itself from $source, built by what is locked. Which index pip
# asks, and how, is the user's configuration; only "user = true" in it cannot be meant for here. CARGO: setuptools-rust is
# not to compile the fast decoder, which comes next, and may do without it.
pip_install() {
    pip install --require-hashes --requirement "$root/locks/$1.txt" &&
        CARGO=false pip install --no-deps --no-build-isolation --editable "$source"
}
pip() {
    command=$1 && shift
    "$venv/bin/python" -m pip "$command" --quiet --disable-pip-version-check --no-user "$@"
}

# keep_byte_code: of nfslat, as pip does of packages. Python does so by itself, but not where it is told not to, as
# containers do: then each start would compile hundreds of modules. What is edited later is compiled anew at each start
# there, and is right all the same: byte code says of which file it is. A folder that cannot be written to stays as it is.
keep_byte_code() {
    "$venv/bin/python" -m compileall -qq "$source/nfslat" || :
}

# fill run|dev: makes $venv hold nfslat and what it needs, with $python.
fill() {
    say "setting up $venv (once; needs the network)"
    rm -f "$venv/.stamp.old"
    case $stamp in
    "$origin "*)
        # It was complete before setup.cfg changed, or for the lower level: what is there is kept, for an nfslat that
        # is still running in it. No stamp, no promise: an interruption from here on means a new start.
        mv "$venv/.stamp" "$venv/.stamp.old"
        ;;
    *)
        # All but the lock, which is held.
        find "$venv" -mindepth 1 -maxdepth 1 ! -name .lock -exec rm -rf {} +
        "$python" -m venv "$venv" || die "$python could not make a virtual environment in $venv"
        ;;
    esac
    fits "$1" || : # for $wanted, before pip reads the files: if they change under it, the next run sees it

    [ -w "$root" ] || mkdir -p "$venv/src"
    place
    [ "$source" = "$root" ] || shadow
    # A run has every output at hand, unless this system has no packages for some of them.
    if ! pip_install "$1" && { [ "$1" != run ] || ! pip_install core; }; then
        # pip takes back what it did when it fails by itself, so what was complete still is.
        [ ! -e "$venv/.stamp.old" ] || mv "$venv/.stamp.old" "$venv/.stamp"
        die "pip could not install nfslat's Python packages (see above)"
    fi
    [ "$1" != run ] || "$venv/bin/python" -c 'import jinja2, pyarrow, vl_convert' 2>/dev/null ||
        say 'what --html, --png and Parquet need could not be installed (see above): going on without these'
    keep_byte_code
    printf '%s\n' "$wanted $1" >"$venv/.stamp.new"
    mv "$venv/.stamp.new" "$venv/.stamp"
    rm -f "$venv/.stamp.old"
    say 'set-up complete'
}

# set_up_tools: $venv, an environment of its own for what makes packages and locks: 400 MB that few need; and $cargo.
set_up_tools() {
    venv=$root/.venv-tools source=$root
    find_cargo
    [ "$cargo" ] || die "$why: scripts/nfslat installs one where it can, and else says how"
    wanted=$(cksum <"$root/locks/tools.txt")
    [ "$(cat "$venv/.stamp" 2>/dev/null)" != "$wanted" ] || return 0
    find_python
    [ "$python" ] || die 'Python 3.11 or newer is needed, with its module venv'
    say "setting up $venv (once; needs the network)"
    "$python" -m venv --clear "$venv" || die "cannot make $venv"
    pip install --require-hashes --requirement "$root/locks/tools.txt" >&2 ||
        die 'pip could not install what makes packages (see above)'
    printf '%s\n' "$wanted" >"$venv/.stamp"
}

# find_browser: a Chromium, in which the tests open the page that nfslat writes; tests/browser looks for the same names.
find_browser() {
    for name in chromium-headless-shell chromium chromium-browser google-chrome google-chrome-stable; do
        have "$name" && return
    done
    return 1
}

# want_browser: installs one where that is Debian's and takes no password; without one those tests are skipped.
want_browser() {
    find_root
    if find_browser || ! have apt-get || [ "$root_by" ]; then return; fi
    say 'no Chromium is found: installing it with apt-get install chromium-headless-shell'
    update_packages
    apt_get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 chromium-headless-shell ||
        say 'there is none: what needs a browser is not tested'
}

# prepare run|dev: all that set_up does when there is something to do.
prepare() {
    if [ -w "$venv" ]; then
        # Two runs at once: the second waits, then finds the work done. Where there is no flock, the file only marks the
        # environment as ours.
        exec 9>"$venv/.lock"
        if have flock && ! flock -n 9; then
            say 'waiting for another set-up to end'
            flock 9
        fi
    fi

    # Everything that the system lacks is named at once.
    missing='' debian=''
    if ! have tshark; then missing='tshark is missing' debian=tshark; fi
    if ! fits "$1"; then
        find_python
        if [ -z "$python" ]; then
            if [ "$venvless" ]; then
                have apt-get || die "$venvless lacks its modules venv and ensurepip: install them, or another Python"
                lacks="$venvless lacks venv"
            else
                lacks="Python 3.11 or newer is needed, found ${old:-none}"
                find_debian_python
                [ "$venvless" ] || die "$lacks"
            fi
            missing="${missing:+$missing, }$lacks" debian="${debian:+$debian }$venvless $venvless-venv"
        fi
    fi
    if [ "$missing" ]; then
        install_packages "$missing" "$debian" wireshark-cli wireshark-cli wireshark tshark wireshark
        have tshark || die 'tshark was installed and still is not in PATH'
    fi

    if ! fits "$1"; then
        find_python
        [ "$python" ] || die "$venvless still cannot make virtual environments: is it another Python than Debian's?"
        fill "$1"
        [ "$1" = run ] || want_browser
    fi
    native_fits || fill_native
    exec 9>&-
}

set_up() {
    venv=$root/.venv ready=''
    if fits "$1" && native_fits; then
        ready=1
    elif [ ! -w "$root" ] || { [ -e "$venv" ] && [ ! -w "$venv" ]; }; then
        # A checkout of someone else's, or an environment that root made in it.
        [ "${XDG_CACHE_HOME:-}${HOME:-}" ] ||
            die "$root cannot be written to, and neither HOME nor XDG_CACHE_HOME is set"
        cache=${XDG_CACHE_HOME:-$HOME/.cache}
        venv=$cache/nfslat/venv-$(printf %s "$root" | cksum | cut -d ' ' -f 1)
        if fits "$1" && native_fits; then ready=1; fi
    fi
    if [ "$ready" ] && have tshark; then
        [ "$source" = "$root" ] || [ ! -w "$source" ] || shadow
        return
    fi

    # One that somebody made by hand is theirs: it would be cleared.
    [ ! -e "$venv/pyvenv.cfg" ] || [ -e "$venv/.lock" ] || die "$venv was not made by these scripts: move it away first"
    mkdir -p "$venv" || die "cannot make $venv"
    # pip turns Ctrl-C into an ordinary failure; it is none.
    trap 'exit 130' INT
    # What nfslat is given on standard input is not for the set-up.
    prepare "$1" </dev/null >&2
    trap - INT
}
