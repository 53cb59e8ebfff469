#!/bin/sh
# Captures the NFS traffic of this host, server or client, with its settings, counters and clock, into one tar: see --help.
# Plain POSIX sh on purpose, without anything else of nfslat: it is copied to hosts that have neither bash nor Python.
set -u
# What programs print is read by another: no translations. The first folder has the POSIX tools of Solaris.
LC_ALL=C PATH=/usr/xpg4/bin:$PATH:/usr/sbin:/sbin
export LC_ALL PATH
umask 077

usage() {
    cat <<'END'
usage: capture.sh --peer HOST[,HOST] [--seconds 20] [--out FILE]
On the client --peer is its server, on the server its clients; start both at about the same time.

--peer HOST,...    addresses or names; "any": all, whose waiting calls take the server's threads too
--out FILE         the tar, "-" for standard output; else nfslat-NAME-TIME.tar here
--all-peers        NFS of all hosts, on the interface towards --peer
--seconds N        20; Ctrl-C ends it early, and the tar has what there is
--measure N        captures nothing, needs no root: prints packets/s and bytes/s over N seconds
--sudo             becomes root by "sudo -n", which must need no password
--side WHICH       server or client, if it cannot tell
--port N[,N]       2049
--interface IF     else the one towards the peers
--snaplen N        bytes of a packet that are kept; else all of it, as far as that can be borne
--max-mb N         keeps the last N MB only, in a ring of files
--keep-free-mb N   free disk that is left alone, 512
--dir DIR          for files meanwhile; else the roomiest of TMPDIR, /var/tmp and /tmp
--buffer-mb N      of the kernel; else by the memory, 2 to 64
--watch-stdin      ends when standard input does
--stream WORD      no tar and no end: packets to standard output as they come, and counts after WORD on standard error
--max-cpu N        of one processor, in percent, that a stream may take with what sends it; more ends it
--yes, --force     does not ask a terminal before it starts; goes on where it would refuse

Costs: a copy of each NFS packet, 5 % of one processor or less at 20,000 packets/s; the buffer; as much disk
as NFS moves, twice where FILE is on the disk of DIR. It measures first, says what it will take, lowers the
snaplen to 512 and less or refuses where that is too much, and stops before the disk is full. Behind a
snaplen lie headers of the slowest operations, where cards put packets together (GRO, LRO, TSO).
Collects: NFS packets, with names of files, user ids, file handles and data (--snaplen 512: little of these);
what snapshot.sh beside it prints, before and after; clock, load, drop counters of the network.
It changes no setting, and leaves nothing behind but the tar, however it ends.

Exit status: 0 all of it; 3 the tar is there, but the capture ended early. No tar: 1 failed; 2 usage; 4 it
would cost too much; 5 may not capture (needs root); 6 no tcpdump; 7 a stream took more than --max-cpu; 129
and more: ended by a signal.
END
}

# The limits. A packet costs 0.6 us where it is sent or received, for the copy, and 0.4 us in tcpdump, which is one process
# on one processor (measured: docs/capture.md); a slow machine takes more.
max_packets=300000   # a second
cost_ns=2500         # of all processors, for a packet
max_cpu_percent=25   # of all processors
max_write_mb=50      # a second: less than half of what one slow disk takes, for it may be the one that is exported
max_stream_mb=10     # a second of a stream: a twelfth of the network that it shares with NFS, where that is slow
usual_snaplen=512    # where whole packets are too much: the first header of each, and its arguments
floor_v4=256         # of the snaplen: Ethernet, IP, TCP 66, RPC with a long credential 150, then an NFSv4 COMPOUND
floor_v3=128         # the same up to the procedure; the offset of a READ is behind it and will be missed

peers='' all_peers='' out='' seconds=20 measure='' sudo='' side=unknown ports=2049 interface='' snaplen=0 max_mb='' keep_free_mb=512
buffer_mb='' dir='' force='' yes='' watch_stdin='' stream='' max_cpu=''
work='' tool_pid='' guard_pid='' watch_pid='' nap_pid='' partial='' phase=preparing ended_by=''
host=$(uname -n) system=$(uname -s)
tick=0.2
sleep 0.01 2>/dev/null || tick=1 # not every system has fractions

say() { printf 'nfslat: %s\n' "$*" >&2; }
die() {
    status=$1
    shift
    say "$*"
    exit "$status"
}
have() { command -v "$1" >/dev/null 2>&1; }
is_number() { case $1 in '' | *[!0-9]* | 0?* | ??????????*) return 1 ;; esac; } # 08 would be octal
fact() { [ -z "$2" ] || printf '%s: %s\n' "$1" "$2"; }

# --- Ending, however it ends ---------------------------------------------------------------------------------------------

# SIGINT, at which tcpdump prints its counts; what does not heed it gets more.
stop_tool() {
    [ -n "$tool_pid" ] || return 0
    for signal in INT TERM KILL; do
        kill -"$signal" "$tool_pid" 2>/dev/null || break
        for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
            kill -0 "$tool_pid" 2>/dev/null || break 2
            nap "$tick"
        done
    done
    wait "$tool_pid" 2>/dev/null
    tool_status=$? tool_pid=''
}

clean_up() {
    trap '' HUP INT TERM PIPE
    [ -z "$nap_pid" ] || kill "$nap_pid" 2>/dev/null
    stop_tool
    for pid in $guard_pid $watch_pid; do kill "$pid"; done 2>/dev/null
    [ -z "$work" ] || rm -rf "$work"
    [ -z "$partial" ] || rm -f "$partial"
}

# Ctrl-C and kill end the capture, and the tar is made all the same; a second one, or one at any other moment, ends all.
# So does a caller that has gone: there is nobody to give the tar to.
caught() {
    case $phase:$1 in
    capturing:INT | capturing:TERM) phase=stopping ended_by=interrupted ;;
    *) exit "$2" ;;
    esac
}

trap clean_up EXIT
trap 'caught HUP 129' HUP
trap 'caught INT 130' INT
trap 'caught PIPE 141' PIPE
trap 'caught TERM 143' TERM
# From whoever cannot know whether it still captures: nothing but the end of that.
trap '[ "$phase" != capturing ] || { phase=stopping && ended_by=interrupted; }' USR1

# A sleep that a signal ends at once.
nap() {
    sleep "$1" >/dev/null 2>&1 &
    nap_pid=$!
    wait "$nap_pid"
    kill "$nap_pid" 2>/dev/null
    nap_pid=''
}

# --- Arguments -----------------------------------------------------------------------------------------------------------

for argument; do
    case $argument in --help | -h) usage && exit ;; esac
done
given=
for argument; do [ "$argument" = --sudo ] || given="$given '$(printf '%s' "$argument" | sed "s/'/'\\\\''/g")'"; done
while [ $# -gt 0 ]; do
    case $1 in
    --sudo | --force | --yes | --watch-stdin | --all-peers) ;;
    --*) [ $# -gt 1 ] || die 2 "$1 needs a value; --help says more" ;;
    *) die 2 "what is $1? --help says more" ;;
    esac
    case $1 in
    --seconds | --snaplen | --buffer-mb | --max-mb | --keep-free-mb | --measure | --max-cpu)
        is_number "$2" || die 2 "$1 takes a whole number, not $2"
        ;;
    esac
    case $1 in
    --sudo) sudo=yes && shift && continue ;;
    --force) force=yes && shift && continue ;;
    --yes) yes=yes && shift && continue ;;
    --watch-stdin) watch_stdin=yes && shift && continue ;;
    --all-peers) all_peers=yes && shift && continue ;;
    --peer) peers="$peers,$2" ;;
    --out) out=$2 ;;
    --seconds) seconds=$2 ;;
    --measure) measure=$2 ;;
    --side) side=$2 ;;
    --port) ports=$2 ;;
    --interface) interface=$2 ;;
    --snaplen) snaplen=$2 ;;
    --max-mb) max_mb=$2 ;;
    --keep-free-mb) keep_free_mb=$2 ;;
    --buffer-mb) buffer_mb=$2 ;;
    --stream) stream=$2 out=- ;;
    --max-cpu) max_cpu=$2 ;;
    --dir) dir=$2 ;;
    *) die 2 "what is $1? --help says more" ;;
    esac
    shift 2
done
peers=$(printf '%s\n' "$peers" | tr ',' ' ') ports=$(printf '%s\n' "$ports" | tr ',' ' ')
case $peers in *[!\ ]*) ;; *) die 2 'say --peer HOST: the NFS server, if this is the client, else its clients' ;; esac
case $side in server | client | unknown) ;; *) die 2 "--side is server or client, not $side" ;; esac
case $peers$interface in *[!A-Za-z0-9._:%@\ -]*) die 2 'there are odd characters in --peer or --interface' ;; esac
case " $peers $interface" in *' -'*) die 2 'a host or an interface cannot begin with "-"' ;; esac
for port in $ports; do
    { is_number "$port" && [ "$port" -ge 1 ] && [ "$port" -le 65535 ]; } || die 2 "--port takes ports, not $port"
done
[ -n "${port-}" ] || die 2 '--port takes ports'
{ [ "$seconds" -ge 1 ] && [ "$seconds" -le 86400 ]; } || die 2 '--seconds takes 1 to 86400'
[ "$snaplen" = 0 ] || [ "$snaplen" -ge 96 ] || die 2 'a --snaplen below 96 shows no RPC'
[ -z "$max_mb" ] || [ "$max_mb" -ge 1 ] || die 2 '--max-mb takes 1 or more'
[ -z "$measure" ] || { [ "$measure" -ge 1 ] && [ "$measure" -le 3600 ]; } || die 2 '--measure takes 1 to 3600 seconds'

uid=$(id -u 2>/dev/null) || uid=
if [ -n "$sudo" ] && [ "$uid" != 0 ] && [ -z "$measure" ]; then
    have sudo || die 5 "there is no sudo on $host; capture as root"
    [ -f "$0" ] || die 2 '--sudo needs capture.sh as a file'
    # Everything as root, for the user may not send a signal to a tcpdump of root's.
    wrong=$(sudo -n true 2>&1) ||
        die 5 "sudo on $host: $(printf '%s\n' "$wrong" | sed q); it must allow this without a password"
    eval "exec sudo -n sh \"\$0\" $given"
fi

# --- Peers and interface -------------------------------------------------------------------------------------------------

# The addresses of a name, one a line.
resolve() {
    case $1 in
    *:*) printf '%s\n' "$1" | sed 's/^::[fF][fF][fF][fF]:\([0-9.]*\)$/\1/' && return ;;
    *[!0-9.]*) ;;
    *.*.*.*)
        printf '%s\n' "$1" | awk -F. 'NF == 4 && $1 < 256 && $2 < 256 && $3 < 256 && $4 < 256 && !/\.$|^\.|\.\./'
        return
        ;;
    esac
    if ! have getent; then
        awk -v name="$1" '!/^#/ { for (i = 2; i <= NF; i++) if ($i == name) print $1 }' /etc/hosts
    elif [ "$system" = Linux ] || [ "$system" = FreeBSD ]; then
        getent ahosts "$1" | awk '{ print $1 }'
    else
        getent ipnodes "$1" | awk '{ print $1 }'
    fi 2>/dev/null | sort -u
}

addresses=''
if [ "$peers" != ' any' ]; then
    for peer in $peers; do
        found=$(resolve "$peer" | tr '\n' ' ')
        [ -n "${found% }" ] || die 1 "$host does not know the host $peer; give its address"
        addresses="$addresses$found"
    done
fi

port_filter=$(for port in $ports; do printf '%s' "${or-( }sport = :$port or dport = :$port" && or=' or '; done)' )'
# TCP connections with these ports: "local-address peer-address local|remote", where the port is.
connections() {
    if have ss; then
        ss -tn state established "$port_filter" 2>/dev/null | awk '{ print $(NF - 1), $NF }'
    elif have netstat; then
        netstat -an 2>/dev/null |
            awk '/ESTAB/ { for (i = 1; i < NF; i++) if ($i ~ /[.:][0-9]+$/) { print $i, $(i + 1); next } }'
    fi </dev/null | awk -v ports=" $ports " '
        function port_of(end) { sub(/.*[.:]/, "", end); return " " end " " }
        function host_of(end) {
            sub(/[.:][0-9]+$/, "", end); gsub(/[][]|%.*/, "", end); sub(/^::ffff:/, "", end)
            return end
        }
        index(ports, port_of($1)) { print host_of($1), host_of($2), "local"; next }
        index(ports, port_of($2)) { print host_of($1), host_of($2), "remote" }' | sort -u
}

connected=$(connections)
ours=$(printf '%s\n' "$connected" | awk -v wanted=" $addresses" '$2 != "" && (wanted == " " || index(wanted, " " $2 " "))')
if [ "$side" = unknown ] && [ -n "$ours" ]; then
    case $ours in *local*) side=server ;; *) side=client ;; esac
fi

# No `ip`: the kernel's table, longest prefix first. Addresses in it are little-endian hex.
route_by_table() {
    awk -v address="$1" '
        function hex(text, i, n) {
            n = 0
            for (i = 1; i <= length(text); i++) n = n * 16 + index("0123456789ABCDEF", substr(text, i, 1)) - 1
            return n
        }
        function octet(text, i) { return hex(substr(text, 9 - 2 * i, 2)) }
        BEGIN { split(address, want, "."); best = -1; if (want[1] == 127) { print "lo"; exit } }
        FNR > 1 && length($2) == 8 && int(hex($4)) % 2 {
            fits = 1; bits = 0
            for (i = 1; i <= 4; i++) {
                mask = octet($8, i); bits += mask; size = 256 - mask
                if (int(want[i] / size) != int(octet($2, i) / size)) fits = 0
            }
            if (fits && bits > best) { best = bits; device = $1 }
        }
        END { if (device != "") print device }' /proc/net/route 2>/dev/null
}

# The interface towards an address, nothing if there is no way. What the route names is the bond, the bridge or the VLAN
# itself, which shows each packet once, and not a part of it.
towards() {
    case $1 in *%*) printf '%s\n' "${1#*%}" && return ;; esac
    if [ "$system" = Linux ] && have ip; then
        ip -o route get "$1" 2>/dev/null </dev/null |
            awk '!/^(unreachable|blackhole|prohibit)/ { for (i = 1; i < NF; i++) if ($i == "dev") { print $(i + 1); exit } }'
    elif [ "$system" = Linux ]; then
        case $1 in *:*) ;; *) route_by_table "$1" ;; esac
    else
        case $1 in *:*) family=-inet6 ;; *) family=-inet ;; esac
        route -n get "$family" "$1" 2>/dev/null </dev/null | awk '$1 == "interface:" { print $2 }'
    fi
}

routes='' # the interfaces towards the peers, each once
for address in ${addresses:-$(printf '%s\n' "$ours" | awk '{ print $2 }')}; do
    name=$(towards "$address")
    if [ -z "$name" ]; then
        # A name has addresses of both families, and often only one of them works; with the others all is well.
        [ -n "$interface" ] || skipped="${skipped-} $address"
        continue
    fi
    case " $routes " in *" $name "*) ;; *) routes="${routes:+$routes }$name" ;; esac
done
if [ -z "$interface" ]; then
    case $routes in
    '')
        [ -n "$addresses" ] || die 1 "$host has no connection with port $ports that would show the interface; say --interface"
        die 1 "$host has no route to$skipped; check the address, or say --interface"
        ;;
    *' '*)
        [ "$system" = Linux ] || die 1 "the peers are behind several interfaces: $routes; say --interface, or one peer"
        interface=any
        say "the peers are behind several interfaces: $routes; capturing on all, where a packet may show up twice"
        ;;
    *) interface=$routes ;;
    esac
    [ -z "${skipped-}" ] || say "no route to$skipped, and on with the others"
fi
if [ "$system" = Linux ] && [ "$interface" != any ] && [ -r /proc/net/dev ]; then
    all=$(awk -F: 'NF > 1 { gsub(/ /, "", $1); printf "%s ", $1 }' /proc/net/dev)
    case " $all" in *" $interface "*) ;; *) die 1 "there is no interface $interface on $host; it has ${all% }" ;; esac
fi
if [ "$interface" = lo ]; then say "the peer is $host itself: capturing on lo, which says nothing of a network"; fi

# Whole interfaces: the one that is captured on, or all towards the peers, and the ports and cards below them.
below() {
    for name; do
        printf '%s\n' "$name"
        for lower in /sys/class/net/"$name"/lower_*; do
            [ ! -e "$lower" ] || below "${lower##*/lower_}"
        done
    done
}
tops=$interface
[ "$interface" != any ] || tops=${routes:-lo}
# shellcheck disable=SC2086 # words
devices=$(below $tops | sort -u | tr '\n' ' ')

net=/sys/class/net/$interface kind=
[ ! -d "$net/bonding" ] || kind=bond
[ ! -d "$net/bridge" ] || kind=bridge
[ ! -f "/proc/net/vlan/$interface" ] || kind=vlan
if [ -e "$net/master" ]; then
    master=$(basename "$(readlink "$net/master")")
    kind="part of $master"
    say "$interface is a part of $master, and may show only a part of the traffic"
fi

if [ -z "$ours" ] && { have ss || have netstat; }; then
    others=$(printf '%s\n' "$connected" | awk '{ print $2 }' | sort -u | awk 'NF && NR <= 8 { printf " %s", $0 }')
    say "no connection with port $ports to ${addresses:-any host }now${others:+; there are with$others}"
fi

# The way to the peers is known; from here on addresses are those that are captured, none for all.
[ -z "$all_peers" ] || addresses=''

# --- Measuring -----------------------------------------------------------------------------------------------------------

now() {
    t=$(date +%s 2>/dev/null)
    is_number_long "$t" || t=$(awk 'BEGIN { srand(); print srand() }') # POSIX: the time of day
    printf '%s\n' "$t"
}
is_number_long() { case $1 in '' | *[!0-9]*) return 1 ;; esac; }
stamp() {
    t=$(date -u +%Y-%m-%dT%H:%M:%S.%N)
    case $t in *.*[!0-9]*) t=$(date -u +%Y-%m-%dT%H:%M:%S) ;; esac
    printf '%sZ\n' "${t%.}"
}

# "packets bytes" that went over whole interfaces so far.
interface_counts() {
    awk -v wanted=" $tops " '
        sub(/:/, " ") && index(wanted, " " $1 " ") { bytes += $2 + $10; packets += $3 + $11; some = 1 }
        END { if (some) printf "%.0f %.0f\n", packets, bytes }' /proc/net/dev 2>/dev/null
}

# "local peer packets bytes" of each TCP connection with NFS so far, as TCP counts segments and payload.
connection_counts() {
    ss -tin state established "$port_filter" 2>/dev/null </dev/null | awk -v ports=" $ports " -v wanted=" $addresses" '
        function port_of(end) { sub(/.*:/, "", end); return " " end " " }
        function host_of(end) {
            sub(/:[0-9]+$/, "", end); gsub(/[][]|%.*/, "", end); sub(/^::ffff:/, "", end)
            return " " end " "
        }
        /^[^ \t]/ {
            near = $(NF - 1); far = $NF
            ok = index(ports, port_of(near)) || index(ports, port_of(far))
            if (wanted != " " && !index(wanted, host_of(far))) ok = 0
            next
        }
        ok {
            segments = bytes = 0; known = 0
            for (i = 1; i <= NF; i++) {
                split($i, part, ":")
                if (part[1] == "segs_in" || part[1] == "segs_out") { segments += part[2]; known = 1 }
                if (part[1] == "bytes_sent" || part[1] == "bytes_received") bytes += part[2]
                if (part[1] == "bytes_acked") acked = part[2]
            }
            if ($0 !~ /bytes_sent/) bytes += acked # kernels before 4.19
            if (known) printf "%s %s %.0f %.0f\n", near, far, segments, bytes
        }'
}

cpu_counts() {
    awk '/^cpu / { for (i = 2; i <= 9; i++) all += $i; printf "%.0f %.0f\n", all, $5 + $6 }' /proc/stat 2>/dev/null
}
idle_between() { # two of cpu_counts
    printf '%s %s\n' "$1" "$2" | awk 'NF == 4 && $3 > $1 { printf "%.0f\n", 100 * ($4 - $2) / ($3 - $1) }'
}
v4_calls() { awk '$1 ~ /^proc4/' /proc/net/rpc/nfsd /proc/net/rpc/nfs 2>/dev/null; }
load() {
    if [ -r /proc/loadavg ]; then
        awk '{ print $1, $2, $3 }' /proc/loadavg
    else
        uptime | sed 's/.*average[s]*: *//' | tr -d ','
    fi
}
available_mb() {
    awk '/^MemAvailable:/ { a = $2 } /^MemFree:/ { f = $2 } END { if (NR) printf "%.0f\n", (a ? a : f) / 1024 }' \
        /proc/meminfo 2>/dev/null
}
cpus=$(getconf _NPROCESSORS_ONLN 2>/dev/null || getconf NPROCESSORS_ONLN 2>/dev/null || nproc 2>/dev/null || echo 1)

# What one processor's interrupt took in, lost for want of room, and left for later, over all of them (hex in the file).
softnet() {
    awk '
        function hex(text, i, n) {
            n = 0
            for (i = 1; i <= length(text); i++) n = n * 16 + index("0123456789abcdef", substr(text, i, 1)) - 1
            return n
        }
        { lost += hex($2); late += hex($3) }
        END { if (NR) printf "%.0f %.0f\n", lost, late }' /proc/net/softnet_stat 2>/dev/null
}

# Between measure_begin and measure_end lies as much time as wanted; then there are these, empty where not known:
# tcp_pps, tcp_bps (what TCP counts), if_pps, if_bps (the interfaces, with all else that they carry), pps, bps, source, idle.
measure_begin() {
    m_time=$(uptime_ms) m_if=$(interface_counts) m_cpu=$(cpu_counts) m_v4=$(v4_calls) m_tcp=''
    ! have ss || m_tcp=$(connection_counts)
}
uptime_ms() { awk '{ printf "%.0f\n", $1 * 1000 }' /proc/uptime 2>/dev/null || echo "$(now)000"; }
measure_end() {
    tcp_after=''
    ! have ss || tcp_after=$(connection_counts)
    elapsed_ms=$(($(uptime_ms) - m_time))
    [ "$elapsed_ms" -gt 0 ] || elapsed_ms=1000
    idle=$(idle_between "$m_cpu" "$(cpu_counts)") tcp_pps='' tcp_bps='' if_pps='' if_bps='' pps='' bps='' source=none
    # shellcheck disable=SC2046 # words
    set -- $(printf '%s %s\n' "$m_if" "$(interface_counts)" | awk -v ms="$elapsed_ms" '
        NF == 4 { printf "%.0f %.0f\n", ($3 - $1) * 1000 / ms, ($4 - $2) * 1000 / ms }')
    [ $# -lt 2 ] || { if_pps=$1 if_bps=$2 pps=$1 bps=$2 source=interface; }
    # A connection that began meanwhile counts from its beginning, one that ended no more.
    # shellcheck disable=SC2046 # words
    set -- $({ printf '%s\n' "$m_tcp" && echo "=" && printf '%s\n' "$tcp_after"; } | awk -v ms="$elapsed_ms" '
        $1 == "=" { second = 1; next }
        NF == 4 && !second { was[$1, $2] = $3; had[$1, $2] = $4 }
        NF == 4 && second { packets += $3 - was[$1, $2]; bytes += $4 - had[$1, $2]; some = 1 }
        END { if (some) printf "%.0f %.0f\n", packets * 1000 / ms, bytes * 1000 / ms }')
    [ $# -lt 2 ] || { tcp_pps=$1 tcp_bps=$2 pps=$1 bps=$2 source=connections; }
    v4=unknown
    if [ -n "$m_v4" ]; then if [ "$m_v4" = "$(v4_calls)" ]; then v4=no; else v4=yes; fi; fi
}
measured_facts() {
    fact measured_from "$source"
    fact packets_per_s "$pps"
    fact bytes_per_s "$bps"
    fact connections_packets_per_s "$tcp_pps"
    fact connections_bytes_per_s "$tcp_bps"
    fact interface_packets_per_s "$if_pps"
    fact interface_bytes_per_s "$if_bps"
    fact nfsv4 "$v4"
}
host_facts() {
    fact format 'nfslat-capture 1'
    fact host "$host"
    fact side "$side"
    fact system "$system"
    fact release "$(uname -r)"
    fact peers "${peers# }"
    fact addresses "${addresses% }"
    fact port "$ports"
    fact interface "$interface"
    fact interface_kind "$kind"
    fact interfaces_below "${devices% }"
    fact interface_speed_mbit "$(for name in $devices; do cat "/sys/class/net/$name/speed" 2>/dev/null; done |
        awk '$1 > most { most = $1 } END { if (most > 0) print most }')"
    fact cpus "$cpus"
}

# --- Where the files are -------------------------------------------------------------------------------------------------

# "free-MB mount-point" of a folder.
room() { df -Pk "$1" 2>/dev/null </dev/null | awk 'NR > 1 && NF >= 6 { printf "%.0f %s\n", int($4 / 1024), $6; exit }'; }
free_mb() {
    set -- "$(room "$work")"
    echo "${1%% *}"
}
type_of() { # of the file system at a mount point
    if [ -r /proc/mounts ]; then
        awk -v at="$1" '$2 == at { type = $3 } END { print type }' /proc/mounts
    else
        df -n "$1" 2>/dev/null | awk -F: '{ gsub(/ /, "", $2); print $2 }'
    fi
}
choose_dir() {
    if [ -n "$dir" ]; then
        { [ -d "$dir" ] && [ -w "$dir" ]; } || die 1 "cannot write in the folder $dir"
        return
    fi
    most=-1
    # What is in memory, and what is asked of an NFS server while it is being looked at, comes last.
    for candidate in "${TMPDIR:-/tmp}" /var/tmp /tmp; do
        { [ -d "$candidate" ] && [ -w "$candidate" ]; } || continue
        free=$(room "$candidate")
        case $(type_of "${free#* }") in tmpfs | ramfs | swap | nfs*) good=0 ;; *) good=1000000000 ;; esac
        free=${free%% *}
        is_number "$free" && free=$((free + good))
        if is_number_long "$free" && [ "$free" -gt "$most" ]; then most=$free dir=$candidate; fi
    done
    [ -n "$dir" ] || die 1 'neither TMPDIR nor /var/tmp nor /tmp can be written; say --dir'
}
choose_dir
dir=$(cd "$dir" && pwd) || die 1 "cannot go into the folder $dir"
free=$(room "$dir")
case $(type_of "${free#* }") in
nfs*) [ -n "$force" ] || die 4 "$dir is on NFS, so that the capture would capture itself; say --dir, or --force" ;;
tmpfs | ramfs | swap) [ -n "$stream" ] || say "$dir is in memory, of which the capture takes a part" ;;
esac

if [ -n "$measure" ]; then
    measure_begin
    nap "$measure"
    measure_end
    host_facts
    fact seconds "$measure"
    measured_facts
    fact cpu_idle_percent "$idle"
    fact load "$(load)"
    fact memory_available_mb "$(available_mb)"
    fact dir "$dir"
    fact disk_free_mb "${free%% *}"
    fact tool "$(if have tcpdump; then echo tcpdump; elif have snoop; then echo snoop; else echo none; fi)"
    exit 0
fi

# --- The tool ------------------------------------------------------------------------------------------------------------

if [ -z "$out" ]; then out=nfslat-$host-$(date -u +%Y%m%dT%H%M%SZ).tar; fi
if [ "$out" != - ]; then
    # A device, or the pipe of somebody who waits at its other end, is no file of an earlier incident.
    [ ! -f "$out" ] || [ -n "$force" ] || die 1 "$out is there already; --force overwrites it"
    # Root would write wherever somebody's link leads.
    [ ! -L "$out" ] || { [ -e "$out" ] && [ ! -f "$out" ]; } || die 1 "$out is a link; name the file itself"
    { [ -d "$(dirname "$out")" ] && [ -w "$(dirname "$out")" ]; } || die 1 "cannot write in $(dirname "$out")"
fi

either() { # "(host A or host B)"
    word=$1 text=''
    shift
    for item; do text="${text:+$text or }$word ${item%%%*}"; done
    [ $# -lt 2 ] || text="($text)"
    printf '%s' "$text"
}
# shellcheck disable=SC2086 # words
hosts=$(either host $addresses) service=$(either port $ports)
if have tcpdump; then
    tool=tcpdump
    # Fragments behind the first have no ports; of those there are few but with UDP. Behind a VLAN tag all offsets are
    # others, so the whole is said twice; where the card takes the tag off, the first half finds it.
    plain="($service or ip[6:2] & 0x1fff != 0 or ip6[6] == 44)"
    [ -z "$hosts" ] || plain="$hosts and $plain"
    filter="($plain) or (vlan and $plain)"
elif have snoop; then
    tool=snoop
    # What pfmod can do in the kernel; it knows tags by itself. Fragments would take every packet into snoop to be looked at.
    filter="${hosts:+$hosts and }$service"
else
    [ "$system" != SunOS ] || die 6 "there is no snoop on $host: pkg install network/snoop (or diagnostic/tcpdump)"
    die 6 "there is no tcpdump on $host: apt-get install tcpdump, dnf install tcpdump or zypper install tcpdump"
fi

work=$(mktemp -d "$dir/nfslat-capture.XXXXXXXX" 2>/dev/null) || {
    work=$dir/nfslat-capture.$$.$(now)
    mkdir "$work" 2>/dev/null || { work='' && die 1 "cannot make a folder in $dir"; }
}

# What is captured comes into a folder of its own, which is all that a tcpdump without root's rights can get at: it starts
# there, as it may not pass the folders above.
packets=$work/packets
mkdir "$packets" || die 1 "cannot make a folder in $work"

# The user that tcpdump becomes once it has the interface: its own, where its package made one. Nobody is no such user: what
# belongs to it is in the hands of everything else that runs as nobody. Tried with an empty capture, for containers and
# AppArmor may not let it change or write.
choose_user() {
    for user in tcpdump _tcpdump pcap; do
        is_number "$(id -u "$user" 2>/dev/null)" || continue
        chown "$user" "$packets" 2>/dev/null || continue
        if printf '\324\303\262\241\2\0\4\0\0\0\0\0\0\0\0\0\0\0\4\0\1\0\0\0' |
            (cd "$packets" && tcpdump -Z "$user" -r - -w capture.pcap) >/dev/null 2>&1 && [ -f "$packets/capture.pcap" ]; then
            rm -f "$packets/capture.pcap"
            return
        fi
        rm -f "$packets/capture.pcap"
    done
    user=root
    chown "$uid" "$packets"
}

# The first line in which the tool complains, as something to act on.
complaint() {
    line=$(grep -v -e '^tcpdump: listening' -e '^tcpdump: data link' -e 'verbose output' -e '^Using device' -e '^$' "$1" |
        sed '1s/^[a-z]*: //; q')
    case $line in
    *[Pp]ermission* | *'not permitted'* | *'ermission denied'*)
        case $line in
        *capture.pcap*) die 1 "tcpdump may not write in $dir: $line; say another --dir (AppArmor forbids some)" ;;
        esac
        die 5 "may not capture on $host: needs root (--sudo), or: setcap cap_net_raw+ep $(command -v "$tool")"
        ;;
    *'No such device'* | *'not up'*) die 1 "cannot capture on $interface of $host: $line" ;;
    *'No space'*) die 1 "the disk of $dir is full" ;;
    *) die 1 "$tool failed on $host: ${line:-it does not say why}" ;;
    esac
}

set --
if [ "$tool" = tcpdump ]; then
    tcpdump --help >"$work/help" 2>&1 </dev/null
    # Not promiscuous: what is wanted goes to or comes from this host.
    set -- -n -p -s "$snaplen"
    if [ "$uid" = 0 ] && grep -q -e '-Z ' "$work/help"; then
        choose_user
        set -- "$@" -Z "$user"
    fi
    ! grep -q -e '--nano' "$work/help" || set -- "$@" --nano
    # 64 MB are one second of the most that is let through: a busy disk holds tcpdump up for longer than the usual 2 MB
    # last. The kernel keeps them in memory that cannot be swapped, and clears them first: hence no more, and a small part.
    memory_mb=$(available_mb)
    if [ -z "$buffer_mb" ]; then
        buffer_mb=$((${memory_mb:-128} / 64))
        [ "$buffer_mb" -ge 2 ] || buffer_mb=2
        [ "$buffer_mb" -le 64 ] || buffer_mb=64
    fi
    [ "$buffer_mb" -ge 1 ] || die 2 '--buffer-mb takes 1 or more'
    set -- "$@" -B $((buffer_mb * 1024))
    # Opens the interface, compiles the filter, and captures nothing. Not every kind of interface knows VLANs.
    if ! tcpdump -i "$interface" "$@" -d "$filter" >/dev/null 2>"$work/tcpdump.txt" </dev/null; then
        filter=$plain
        tcpdump -i "$interface" "$@" -d "$filter" >/dev/null 2>"$work/tcpdump.txt" </dev/null || complaint "$work/tcpdump.txt"
    fi
    version=$(sed -n 's/^tcpdump version /tcpdump /p;s/^lib\(pcap version.*\)/lib\1/p' "$work/help" | tr '\n' ' ')
    rm -f "$work/help"
else
    buffer_mb='' version=snoop
    # Without a ring: the number of packets that take as much at most.
    # snoop has no word for whole packets, and takes no more than that of one.
    [ "$snaplen" != 0 ] || snaplen=$([ -n "$max_mb" ] && echo "$usual_snaplen" || echo 65535)
    [ -z "$max_mb" ] || set -- -c $((max_mb * 1048576 / (snaplen + 24) + 1))
fi

# --- What runs -----------------------------------------------------------------------------------------------------------

running() { kill -0 "$tool_pid" 2>/dev/null; }

# await_tool: until it captures.
await_tool() {
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        ! grep -q -e 'listening on' -e 'Using device' "$work/tcpdump.txt" || break
        if ! running || [ "$phase" = stopping ]; then break; fi
        nap "$tick"
    done
}

# guard [SECONDS]: if this shell is killed outright, or hangs for so long, somebody must still end the capture and take
# the files away.
guard() {
    {
        deadline=$(($(now) + ${1:-0}))
        while kill -0 $$; do
            sleep 1
            [ $# = 0 ] || [ ! -f "$work/running" ] || [ "$(now)" -lt "$deadline" ] || kill -INT "$tool_pid"
        done
        if [ -f "$work/running" ]; then
            kill -INT "$tool_pid"
            sleep 1
            kill -KILL "$tool_pid"
        fi
        rm -rf "$work"
    } </dev/null >/dev/null 2>&1 4>&- &
    guard_pid=$!
}

# spent_ms PID ...: processor time of processes so far.
spent_ms() {
    for pid; do cat "/proc/$pid/stat"; done 2>/dev/null | awk -v tick="$(getconf CLK_TCK 2>/dev/null || echo 100)" '
        { sub(/.*\) /, ""); sum += $12 + $13 } END { if (NR) printf "%.0f\n", sum * 1000 / tick }'
}

# sender: the sshd that this runs below, which encrypts what is sent; nothing where there is none.
sender() {
    up=$$
    while [ "$up" -gt 1 ] && IFS= read -r line <"/proc/$up/stat"; do
        case $line in *'(sshd'*) echo "$up" && return ;; esac
        # shellcheck disable=SC2086 # words
        set -- ${line##*) }
        up=$2
    done 2>/dev/null
}

# orphaned: whoever started this was killed, with all that looks after it; the folder that nfslat made is nobody's now.
orphaned() {
    case $dir/$0 in */nfslat.??????/"$dir"/capture.sh) work=$dir ;; esac
    exit 129
}

# stream: packets to standard output, until that is closed or this is ended; every 5 s, on standard error, "WORD counts":
# packets that came so far, those of them that the kernel dropped, and per cent of a processor meanwhile.
stream() {
    [ "$tool" = tcpdump ] || die 6 "there is no tcpdump on $host, and snoop makes no stream"
    : >"$work/running"
    exec 4>&1
    # Appended to, so that it can be emptied: this may run for months.
    (cd "$packets" && exec tcpdump -i "$interface" "$@" -s "$snaplen" -U -w - "$filter") >&4 2>>"$work/tcpdump.txt" </dev/null &
    tool_pid=$!
    guard
    exec >/dev/null 4>&-
    await_tool
    running || complaint "$work/tcpdump.txt"
    printf '%s ready %s %s\n' "$stream" "$snaplen" "$interface" >&2
    payer=$(sender) before_ms='' above=0
    before=$(uptime_ms)
    # shellcheck disable=SC2086 # none, or one
    before_ms=$(spent_ms "$tool_pid" $payer)
    while running; do
        nap 5
        kill -0 "$PPID" 2>/dev/null || orphaned
        : >"$work/tcpdump.txt"
        # It says its counts, and goes on.
        kill -USR1 "$tool_pid" 2>/dev/null || break
        nap "$tick"
        at=$(uptime_ms)
        # shellcheck disable=SC2086
        at_ms=$(spent_ms "$tool_pid" $payer)
        percent=
        if is_number_long "$before_ms" && is_number_long "$at_ms" && [ "$at" -gt "$before" ]; then
            percent=$((100 * (at_ms - before_ms) / (at - before)))
        fi
        before=$at before_ms=$at_ms
        printf '%s counts %s %s %s\n' "$stream" "$(count ' received by filter')" "$(count ' dropped by kernel')" "$percent" >&2
        # Twice in a row: what is over by the time that it is seen is no reason to end.
        if [ -n "$max_cpu" ] && [ "${percent:-0}" -gt "$max_cpu" ]; then above=$((above + 1)); else above=0; fi
        [ "$above" -lt 2 ] || die 7 "capturing took $percent % of a processor, and $max_cpu are allowed"
    done
    [ -z "$tool_pid" ] || wait "$tool_pid"
    status=$?
    tool_pid=''
    [ "$status" -lt 128 ] || exit 141 # nobody reads
    complaint "$work/tcpdump.txt"
}
# count WORDS: the number in front of them, in tcpdump's last words: a line each, or all in one.
count() {
    tr , '\n' <"$work/tcpdump.txt" | sed 's/^tcpdump: //' | awk -v what="$1" 'index($0, what) { n = $1 } END { print n }'
}

# --- Clock, counters, snapshot -------------------------------------------------------------------------------------------

# A daemon that does not answer must not hold us up.
briefly() {
    if have timeout; then
        timeout 3 "$@" </dev/null 2>&1
    else
        "$@" </dev/null 2>&1 &
        asked=$!
        { sleep 3 && kill "$asked"; } >/dev/null 2>&1 &
        wait "$asked"
        kill $! 2>/dev/null
    fi
}
clock() { # before|after: into clock.txt; facts into facts.more
    {
        printf '#### nfslat: clock %s\n' "$1"
        fact date "$(stamp)"
        for file in current_clocksource available_clocksource; do
            path=/sys/devices/system/clocksource/clocksource0/$file
            [ ! -r "$path" ] || fact "$file" "$(cat "$path")"
        done
    } >>"$work/clock.txt"
    : >"$work/clock.now"
    for question in 'chronyc -n tracking' 'ntpq -pn' 'timedatectl show' 'adjtimex --print' ntptime 'ntpctl -s status'; do
        have "${question%% *}" || continue
        printf '#### nfslat: %s\n' "$question"
        # shellcheck disable=SC2086 # words
        briefly $question
    done >>"$work/clock.now"
    cat "$work/clock.now" >>"$work/clock.txt"
    {
        fact "clock_source_$1" "$(cat /sys/devices/system/clocksource/clocksource0/current_clocksource 2>/dev/null)"
        awk -v when="$1" '
            /^NTPSynchronized=/ { state = substr($0, 17) }
            /^Leap status/ { state = /Not synchronised/ ? "no" : "yes" }
            /^\*/ { if (state == "") state = "yes" }
            /^System time/ { offset = ($6 == "slow" ? "-" : "") $4 }
            /^Reference ID/ { by = "chrony" }
            END {
                if (state != "") print "clock_synchronised_" when ": " state
                if (by != "") print "clock_offset_s_" when ": " offset
            }' "$work/clock.now"
    } >>"$work/facts.more"
    rm -f "$work/clock.now"
}
counters() { # before|after: into counters.txt
    printf '#### nfslat: counters %s\n' "$1"
    for name in $devices; do
        # Two dozen files of a number each: with one program, not with one for each.
        grep -s '' /sys/class/net/"$name"/statistics/* | sed 's/:/: /'
        ! have ethtool || briefly ethtool -S "$name" | awk -v name="$name" '
            /drop|miss|discard|err|fifo|no_buf/ && $NF > 0 { print "ethtool -S " name ":" $0 }'
    done
    [ ! -r /proc/net/softnet_stat ] || { printf '#### nfslat: /proc/net/softnet_stat\n' && cat /proc/net/softnet_stat; }
    if [ "$system" = SunOS ]; then briefly kstat -p -c net; elif [ "$system" != Linux ]; then briefly netstat -in; fi
}
# What the cards lost between two of counters: a line a name that changed, of all interfaces together.
lost() {
    awk '/^#### nfslat: counters/ { after = /after/ }
        /^\/sys\/class\/net\// {
            name = $1; sub(/.*\//, "", name); sub(/:$/, "", name)
            if (name ~ /(dropped|missed_errors|over_errors|fifo_errors|crc_errors|nohandler)$/) { sum[name] += after ? $2 : -$2 }
        }
        END { for (name in sum) printf "interface_%s: %.0f\n", name, sum[name] }' "$work/counters.txt" | sort
}
here=$(dirname "$0")
[ -f "$here/snapshot.sh" ] || say "there is no snapshot.sh beside capture.sh: settings and counters of NFS will be missing"
snapshot() { [ ! -f "$here/snapshot.sh" ] || sh "$here/snapshot.sh" >"$work/$1.txt" 2>/dev/null </dev/null; }

# Standard input belongs to whoever started this; a shell would give background jobs nothing in its place.
if [ -n "$watch_stdin" ]; then
    exec 3<&0
    { while read -r _; do :; done; kill -HUP $$; } <&3 >/dev/null 2>&1 &
    watch_pid=$!
    exec 3<&-
fi

measure_begin
if [ -z "$stream" ]; then
    load_before=$(load)
    snapshot before
    clock before
    counters before >"$work/counters.txt"
    softnet_before=$(softnet)
fi
while [ $(($(uptime_ms) - m_time)) -lt 900 ]; do nap "$tick"; done
measure_end

# --- What it will cost ---------------------------------------------------------------------------------------------------

# KB/s in the file at a snaplen (0: whole packets). Payload and 66 bytes of headers a packet; the mean's part below the snaplen is never less
# than the mean of the parts, so this is an upper bound.
kb_per_s() {
    each=$((pps > 0 ? bps / pps + 66 : 0))
    [ "$1" = 0 ] || [ "$each" -le "$1" ] || each=$1
    echo $((pps * (each + 16) / 1024))
}
asked_snaplen=$snaplen exact='at most ' trial_pps=''
[ -z "$stream" ] || max_write_mb=$max_stream_mb
: "${pps:=0}" "${bps:=0}"
[ "$source" != none ] || say "cannot measure the traffic on $host"
too_much() { [ "$(kb_per_s "$1")" -gt $((max_write_mb * 1024)) ]; }
too_fast() { [ "$pps" -gt "$max_packets" ] || [ $((pps * cost_ns / 10000000)) -gt $((max_cpu_percent * cpus)) ]; }
if [ "$tool" = tcpdump ] && { too_fast || too_much "$snaplen"; }; then
    # These are segments on the wire. tcpdump sees what the card and the kernel have put together, up to 64 KB, or will
    # take apart: often a tenth. One second of 64 bytes a packet, kept nowhere, tells.
    tcpdump -i "$interface" "$@" -s 64 -c $((max_packets * 2 + 2)) -w /dev/null "$filter" >/dev/null 2>"$work/trial" </dev/null &
    tool_pid=$!
    trial_ms=$(uptime_ms)
    nap 1
    trial_ms=$(($(uptime_ms) - trial_ms + 1))
    stop_tool
    trial_pps=$(awk -v ms="$trial_ms" '/packets? received by filter/ { printf "%.0f\n", $1 * 1000 / ms }' "$work/trial")
    rm -f "$work/trial"
    if is_number "$trial_pps" && [ "$trial_pps" -gt 0 ] && [ "$trial_pps" -lt "$pps" ]; then pps=$trial_pps exact=''; fi
fi
if too_fast && [ -z "$force" ]; then
    die 4 "$host has $pps NFS packets/s on $interface and $cpus processors: capturing would slow it down;" \
        "capture fewer peers, or say --force"
fi
floor=$floor_v4
[ "$v4" != no ] || floor=$floor_v3
shorter() {
    if [ "$snaplen" = 0 ] || [ "$snaplen" -gt $((usual_snaplen * 2)) ]; then
        snaplen=$usual_snaplen
    else
        snaplen=$((snaplen / 2))
        [ "$snaplen" -ge "$floor" ] || snaplen=$floor
    fi
}
while too_much "$snaplen" && { [ "$snaplen" = 0 ] || [ "$snaplen" -gt "$floor" ]; } && [ -z "$force" ]; do shorter; done
if too_much "$snaplen" && [ -z "$force" ]; then
    die 4 "$host would write $(($(kb_per_s "$snaplen") / 1024)) MB/s with $pps NFS packets/s;" \
        "capture fewer peers, or say --force"
fi
in_words() { [ "$1" = 0 ] && echo 'whole packets' || echo "$1 bytes of a packet"; }
[ "$snaplen" = "$asked_snaplen" ] ||
    say "keeping $(in_words "$snaplen") instead of $(in_words "$asked_snaplen"), or it would be more than $max_write_mb MB/s"

estimate() {
    estimate_mb=$((($(kb_per_s "$snaplen") * (seconds + 1) + 1023) / 1024))
    [ -z "$max_mb" ] || [ "$estimate_mb" -le "$max_mb" ] || estimate_mb=$max_mb
}
if [ -n "$stream" ]; then
    keep_free_mb=0 seconds=1
    say "$interface of $host: $exact$pps NFS packets/s, $((bps / 1000000)) MB/s;" \
        "about $(($(kb_per_s "$snaplen") / 1024)) MB/s of $(in_words "$snaplen")"
    stream "$@"
fi
estimate
# The tar is made while the files are still there.
copies=1
free=$(room "$work") there=none
[ "$out" = - ] || there=$(room "$(dirname "$out")")
[ "${there#* }" != "${free#* }" ] || copies=2
free=$(free_mb)
is_number "$free" || die 1 "cannot tell how much room is in $dir"
if [ "$snaplen" = 0 ] && [ -z "$max_mb" ] && [ "$free" -lt $((keep_free_mb + estimate_mb * copies)) ]; then
    shorter
    estimate
    say "keeping $(in_words "$snaplen") instead of whole packets, for which $dir has no room"
fi
[ "$snaplen" = 0 ] || [ "$asked_snaplen" != 0 ] ||
    say 'operations may be missing whose headers are not the first of their packet (GRO, LRO, TSO): often the slowest ones'
say "$interface of $host: $exact$pps NFS packets/s, $((bps / 1000000)) MB/s;" \
    "about $estimate_mb MB in $seconds s for $(in_words "$snaplen"); $free MB free in $dir"
if [ "$free" -lt $((keep_free_mb + estimate_mb * copies)) ]; then
    die 4 "$dir has $free MB free, and $keep_free_mb MB are to be left:" \
        "say --dir, --max-mb, --keep-free-mb or fewer --seconds"
fi
if [ -z "$yes" ] && [ -z "$watch_stdin" ] && [ -t 0 ] && [ -t 2 ]; then
    printf 'nfslat: start? [Y/n] ' >&2
    read -r answer || exit 1
    case $answer in [nN]*) exit 1 ;; esac
fi

# --- Capturing -----------------------------------------------------------------------------------------------------------

ring=''
if [ "$tool" = tcpdump ]; then
    if [ -n "$max_mb" ]; then
        # Ten files, so that a tenth is lost when the oldest one goes.
        files=10
        [ "$max_mb" -ge 10 ] || files=$max_mb
        [ "$files" -ge 2 ] || files=2
        ring="-C $(((max_mb + files - 1) / files)) -W $files"
    fi
    # The last -s counts. The name ends in .pcap, for AppArmor on Debian lets tcpdump write no other.
    # shellcheck disable=SC2086 # words
    set -- tcpdump -i "$interface" "$@" $ring -s "$snaplen" -w capture.pcap "$filter"
else
    # shellcheck disable=SC2046 # words
    set -- snoop -q -P -d "$interface" -s "$snaplen" "$@" -o "$packets/capture.pcap" $(printf '%s' "$filter" | sed 's/[()]/ & /g')
fi
command=$*
cpu_before=$(cpu_counts)
: >"$work/running"
phase=capturing
# What a shell starts in the background ignores SIGINT. tcpdump sets that right itself; of snoop it is not known, and job
# control makes up for it. (dash has none without a terminal; there it ends by the SIGTERM.)
[ "$tool" != snoop ] || set -m 2>/dev/null
(cd "$packets" && exec "$@") >/dev/null 2>"$work/tcpdump.txt" </dev/null &
tool_pid=$!
set +m
guard $((seconds + 60))

await_tool
started=$(stamp) start=$(now) tool_status=0
# One second more: tcpdump is given packets in blocks, and does not get the one that is being filled when it stops.
end=$((start + seconds + 1))

taken_kb() {
    # shellcheck disable=SC2012 # the names are ours
    ls -ln "$work" "$packets" | awk '/capture\.pcap/ { sum += $5 } END { printf "%.0f\n", sum / 1024 }'
}
was_kb=0 heavy=0
while [ "$phase" = capturing ]; do
    if ! running; then
        wait "$tool_pid"
        tool_status=$? tool_pid='' ended_by=$tool
        break
    fi
    if [ "$(now)" -ge "$end" ]; then ended_by='time' && break; fi
    taken=$(taken_kb) grown=0
    # In a ring the sum falls when a file is begun anew.
    [ "$taken" -le "$was_kb" ] || grown=$((taken - was_kb))
    was_kb=$taken
    # Room for the tar and for two seconds more, for tcpdump does not wait for us to look.
    need_mb=$((keep_free_mb + (taken * (copies - 1) + grown * copies * 2) / 1024))
    if [ "$(free_mb)" -le "$need_mb" ]; then ended_by=disk && break; fi
    if [ "$grown" -gt $((max_write_mb * 2048)) ]; then heavy=$((heavy + 1)); else heavy=0; fi
    if [ "$heavy" -ge 2 ] && [ -z "$force" ]; then ended_by=cost && break; fi
    nap 1
done
phase=stopping ended=$(stamp)
cpu_after=$(cpu_counts)
tool_cpu_s=$([ -z "$tool_pid" ] || awk -v tick="$(getconf CLK_TCK 2>/dev/null || echo 100)" '
    { sub(/.*\) /, ""); printf "%.2f\n", ($12 + $13) / tick }' "/proc/$tool_pid/stat" 2>/dev/null)
stop_tool
rm -f "$work/running"
# Root goes on with what has the names and the form that it asked for, whatever else the other user has put there.
for file in "$packets"/capture.pcap*; do
    case ${file##*/capture.pcap} in *[!0-9]*) continue ;; esac
    if [ -f "$file" ] && [ ! -L "$file" ]; then
        [ "$uid" != 0 ] || chown -h 0 "$file"
        mv "$file" "$work"
    fi
done
case $ended_by in
"$tool")
    if [ "$tool" = snoop ] && [ "$tool_status" = 0 ]; then
        ended_by=size
    elif [ "$(taken_kb)" = 0 ]; then
        complaint "$work/tcpdump.txt"
    elif grep -q 'No space' "$work/tcpdump.txt"; then
        ended_by=disk
    fi
    ;;
esac
# At once, so that whoever captures on the other host may end that as well.
early() { say "ended early, $*; the tar has what was captured until then"; }
case $ended_by in
time) ;;
interrupted) early 'by a signal' ;;
disk) early "before the disk of $dir was full" ;;
cost) early "for it wrote more than $((max_write_mb * 2)) MB/s" ;;
size) early "at $max_mb MB" ;;
*) early "for $tool stopped by itself ($(sed -n '$p' "$work/tcpdump.txt"))" ;;
esac

# --- The tar -------------------------------------------------------------------------------------------------------------

load_after=$(load)
counters after >>"$work/counters.txt"
snapshot after
clock after

received=$(count ' received by filter') kernel=$(count ' dropped by kernel')
chosen=$(cd "$work" && printf '%s ' capture.pcap*)
[ "$chosen" != 'capture.pcap* ' ] || die 1 'ended before anything was captured'
{
    host_facts
    fact command "$command"
    fact tool "${version% }"
    fact filter "$filter"
    fact snaplen "$snaplen"
    fact snaplen_asked "$asked_snaplen"
    fact buffer_mb "$buffer_mb"
    fact ring "$ring"
    fact seconds_asked "$seconds"
    fact started "$started"
    fact ended "$ended"
    fact end_reason "$ended_by"
    fact packets_captured "$(count 's captured')"
    fact packets_received "$received"
    fact packets_dropped_kernel "$kernel"
    fact packets_dropped_interface "$(count ' dropped by interface')"
    fact files "${chosen% }"
    fact capture_kb "$(taken_kb)"
    measured_facts
    fact trial_packets_per_s "$trial_pps"
    lost
    printf '%s %s\n' "$softnet_before" "$(softnet)" |
        awk 'NF == 4 { printf "softnet_dropped: %.0f\nsoftnet_squeezed: %.0f\n", $3 - $1, $4 - $2 }'
    fact load_before "$load_before"
    fact load_after "$load_after"
    fact cpu_idle_percent_before "$idle"
    fact cpu_idle_percent "$(idle_between "$cpu_before" "$cpu_after")"
    fact tool_cpu_s "$tool_cpu_s"
    fact memory_available_mb "$(available_mb)"
    fact disk_free_mb "$(free_mb)"
    cat "$work/facts.more"
} >"$work/facts.txt"
rm -f "$work/facts.more"

# shellcheck disable=SC2046,SC2086 # words: the names are ours
pack() {
    cd "$work" && tar cf - facts.txt $(ls before.txt after.txt 2>/dev/null) clock.txt counters.txt tcpdump.txt $chosen
}
if [ "$out" = - ]; then
    (pack) || die 1 'the tar could not be written'
else
    to=$out
    if [ -f "$out" ] || [ ! -e "$out" ]; then
        # Whole, or not at all. Its own name, as what appears under that of the tar meanwhile is not to be written to.
        partial=$(dirname "$out")/.nfslat-capture.$$.$(now)
        to=$partial
        (set -C && : >"$to") 2>/dev/null || die 1 "cannot write in $(dirname "$out")"
    fi
    (pack) >"$to" || die 1 "$out could not be written; is the disk full?"
    [ -z "${SUDO_UID-}" ] || [ "$uid" != 0 ] || chown -h "$SUDO_UID:${SUDO_GID:-0}" "$to" 2>/dev/null
    if [ "$to" != "$out" ] && [ -n "$force" ]; then
        mv -f "$to" "$out" || die 1 "$out could not be written"
    elif [ "$to" != "$out" ]; then
        # Not over what has come meanwhile; a file system without hard links cannot tell and do it in one.
        if ! ln "$to" "$out" 2>/dev/null; then
            if [ -e "$out" ] || [ -L "$out" ]; then
                say "$out is there now: this one is $out.$$"
                out=$out.$$
            fi
            mv "$to" "$out" || die 1 "$out could not be written"
        fi
        rm -f "$to"
    fi
    partial=''
fi

[ "${kernel:-0}" = 0 ] ||
    say "tcpdump lost $kernel packets for want of time or buffer: --buffer-mb, fewer peers or a smaller --snaplen help"
[ "${received:-1}" != 0 ] || say "no packet came by: is $interface right, and is there any NFS traffic?"
[ "$out" = - ] || say "done: $out"
[ "$ended_by" = time ] || exit 3
