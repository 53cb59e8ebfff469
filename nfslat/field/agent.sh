# shellcheck shell=sh
# What "nfslat capture" has a host do: sent over ssh to a plain sh, together with capture.sh and snapshot.sh
# (nfslat/field/link.py, which puts $token, $base, $limit and the function scripts in front of it).
#
# It takes lines of shell from standard input, each a call of a function below, until "bye" or the end. Standard output
# has what they print, each answer closed by a line "$token end STATUS", and at last the tar, behind "$token tar".
# Standard error has lines "$token WHAT" of what happens, among whatever else is said there.
#
# Whatever ends it (the end of standard input is what a lost connection looks like), nothing stays behind: it makes one
# folder, and removes that and what it started. A second process looks after the first, in case that one is killed.
: "${token:?}" "${base?}" "${limit:?}"
patience=60 # for how long a stream goes on while whoever reads it says nothing
LC_ALL=C PATH=/usr/xpg4/bin:$PATH:/usr/local/bin:/usr/sbin:/sbin
export LC_ALL PATH
umask 077
agent=$$

say() { echo "$token $*" >&2; }
have() { command -v "$1" >/dev/null 2>&1; }
alive() { kill -0 "$1" 2>/dev/null; }

# end STATUS: of an answer.
end() { echo "$token end $1"; }

# halt: capture.sh ends, without a tar, and gets some seconds to stop what it started.
halt() {
    [ -s "$dir/pid" ] || return 0
    [ ! -s "$dir/sender" ] || kill "$(cat "$dir/sender")" 2>/dev/null
    signal HUP
    for _ in 1 2 3 4 5 6 7 8; do
        [ ! -f "$dir/status" ] || return 0
        sleep 1
    done
    signal KILL
}

# signal NAME: to capture.sh, which runs as root where it can.
signal() { $as_root kill -"$1" "$(cat "$dir/pid")" 2>/dev/null; }

clean() {
    trap '' HUP INT TERM PIPE
    trap - EXIT
    [ -n "$dir" ] || return 0
    halt
    [ ! -s "$dir/work" ] || $as_root rm -rf "$(cat "$dir/work")"
    rm -rf "$dir" || $as_root rm -rf "$dir" # with what root made there
    [ -z "$guard" ] || kill -9 "$guard" 2>/dev/null # it would keep the connection open for another second
}

# guard: ends the agent when its time is over, but not in the middle of the transfer, which TCP ends if nobody reads;
# and cleans up in its place if it was killed. Says something now and then: without that, TCP would not find out that
# the network is gone.
guard() {
    trap '' HUP INT PIPE
    # One that was killed, below an sshd that stands still, looks alive for ever.
    while alive "$agent" && [ -d "$dir" ] && [ "$limit" -gt -30 ]; do
        sleep 1 2>/dev/null
        if [ ! -f "$dir/going" ]; then
            if [ -f "$dir/beat" ] && rm -f "$dir/beat"; then limit=$patience; fi
            limit=$((limit - 1))
            [ $((limit % 10)) -ne 0 ] || say alive
        fi
        [ "$limit" -ne 0 ] || kill "$agent" 2>/dev/null
        [ "$limit" -ne -20 ] || kill -9 "$agent" 2>/dev/null
    done
    [ ! -d "$dir" ] || clean
}

# probe PORT: facts of this host, and where its connections to that port of NFS go.
probe() {
    echo "system: $(uname -s)"
    echo "hostname: $(uname -n)"
    echo "uid: $(id -u)"
    if have sudo; then echo "sudo: $(if [ "$as_root" ]; then echo yes; else echo no; fi)"; fi
    for tool in tcpdump snoop; do
        if have "$tool"; then echo "tool: $(command -v "$tool")"; fi
    done
    # A tcpdump with the capability to capture needs no root. This opens an interface, and captures nothing.
    if [ "$(id -u)" = 0 ] || [ "$as_root" ] || tcpdump -p -L </dev/null >/dev/null 2>&1; then echo 'may: yes'; fi
    echo "boot: $(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
    echo "net: $(readlink /proc/self/ns/net 2>/dev/null)"
    if have ip; then ip -o addr show; else ifconfig -a; fi 2>/dev/null </dev/null | sed 's/^/address: /'
    if have ss; then
        ss -tn state established "( sport = :$1 or dport = :$1 )"
    else
        netstat -an | awk -v port="[.:]$1\$" '/ESTAB/ && ($4 ~ port || $5 ~ port || $1 ~ port || $2 ~ port)'
    fi 2>/dev/null </dev/null | sed 's/^/connection: /'
    awk '$3 ~ /^nfs4?$/ { print "mount: " $4 }' /proc/mounts 2>/dev/null
    end 0
}

# route ADDRESS: the way there, with the address that this host has on it.
route() {
    ip -o route get "$1" 2>/dev/null </dev/null
    end $?
}

# measure ARGUMENTS of capture.sh: what it prints.
measure() {
    sh "$dir/capture.sh" "$@" </dev/null
    end $?
}

# start FOLDER ARGUMENTS of capture.sh: captures, in a folder of its own in FOLDER. The tar waits until both hosts are
# done, so that it disturbs none of them.
start() {
    if ! { mkfifo "$dir/gate" && work=$(mktemp -d "$1/nfslat.XXXXXX"); }; then
        end 1
        return
    fi
    echo "$work" >"$dir/work"
    shift
    {
        # Itself as root, for its user may not send it a signal otherwise.
        # shellcheck disable=SC2016 # expanded there
        $as_root sh -c 'echo $$ >"$0/pid" && exec sh "$0/capture.sh" "$@"' "$dir" "$@" --dir "$work" --out - </dev/null
        status=$?
        # The file first: where the connection is gone, it is the last thing that this does.
        echo "$status" >"$dir/status"
        say "done $status"
    } | send &
    echo $! >"$dir/sender"
    # shellcheck disable=SC2016
    $as_root sh -c '
        until grep -q -e "listening on" -e "Using device" "$1"/*/tcpdump.txt || [ -f "$0/status" ] || [ ! -d "$0" ]; do
            sleep 0.1 || sleep 1
        done
        [ ! -f "$0/status" ] || exit
        echo "$2 ready"
        while [ -f "$1"/*/running ]; do sleep 0.5 || sleep 1; done
        echo "$2 captured"' "$dir" "$work" "$token" </dev/null >&2 2>/dev/null &
    end 0
}

# stream ARGUMENTS of capture.sh: packets, from now on, and nothing else, until standard input ends.
stream() {
    beat
    echo "$token stream"
    {
        # shellcheck disable=SC2016 # expanded there
        $as_root sh -c 'echo $$ >"$0/pid" && exec sh "$0/capture.sh" "$@"' "$dir" "$@" --dir "$dir" --stream "$token" </dev/null
        status=$?
        echo "$status" >"$dir/status"
        say "done $status"
    } &
    exec >/dev/null # of this shell: the stream ends with what writes it
}

# beat: whoever reads the stream is there.
beat() { : >"$dir/beat"; }

send() {
    read -r _ <"$dir/gate"
    echo "$token tar"
    cat
    say sent
}

# stop: the capture ends now, as if its time were over, unless it has ended.
stop() { [ ! -s "$dir/pid" ] || signal USR1; }

# go: the tar may come.
go() {
    : >"$dir/going"
    echo >"$dir/gate"
}

bye() { exit 0; }

as_root=
if [ "$(id -u)" != 0 ] && have sudo && sudo -n true </dev/null >/dev/null 2>&1; then as_root='sudo -n'; fi
dir='' guard='' wrong=folder
trap clean EXIT
trap 'exit 1' HUP INT TERM PIPE
# A disk that is full is one of the reasons to capture: any place for some files will do, unless the user chose one.
case $base in
'') set -- "${TMPDIR:-/tmp}" /var/tmp /dev/shm ;;
memory) set -- /dev/shm "${TMPDIR:-/tmp}" /var/tmp ;; # for a stream: gone with the power, too
*) set -- "$base" ;;
esac
for folder; do
    dir=$(mktemp -d "$folder/nfslat.XXXXXX") || continue
    if (TMPDIR=$folder && scripts); then break; fi # where bash puts here-documents
    rm -rf "$dir"
    dir='' wrong=full
done
[ -n "$dir" ] || { say "$wrong $*" && exit 1; }
guard </dev/null >/dev/null &
guard=$!
echo "$token hello"
while IFS= read -r line; do
    eval "$line"
done
