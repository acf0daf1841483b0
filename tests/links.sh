#!/usr/bin/env bash
# links.sh PROGRAM: several hosts, each with a network, a name and processes of its own. In the middle of a training the
# link between two of them is cut, or a process is stopped. All ranks must end with status 1, and all must name the link
# (its two ranks and their addresses) or the stopped rank. No living rank may be called lost.
#
# The hosts are name spaces of Linux, made as root (or where users may make them). Elsewhere the test is skipped, and
# says why; with GRADSUM_LINKS=required it fails.
#   LINKS_DRAWS=N   how many draws (8; "all": each combination once)
#   LINKS_SEED=S    of the draws; it is printed
#   LINKS_ONLY=P    only combinations that hold the text P, such as "blackhole" or "3 --sync ring"
#   LINKS_TIMEOUT=T seconds that a process waits for another (2)
#   LINKS_COUNT=1   count wrong draws and go on, instead of ending at the first
set -u
program=$(realpath "$1")
if [ "${LINKS_INSIDE:-}" != 1 ]; then # in name spaces of its own: nothing is left of networks or processes
    own=(--net --mount --pid --fork --mount-proc)
    [ "$(id -u)" = 0 ] || own+=(--user --map-root-user)
    skip() { echo "links: skipped: $1"; [ "${GRADSUM_LINKS:-}" != required ]; exit; }
    ip -V >/dev/null 2>&1 || skip "there is no ip (Debian: iproute2)"
    why=$(unshare "${own[@]}" sh -c 'mount -t tmpfs none /run && mkdir /run/netns && ip netns add try &&
        ip link add one type veth peer name other && ip link add bridge type bridge' 2>&1) ||
        skip "no networks can be made here (${why%%$'\n'*})"
    LINKS_INSIDE=1 exec unshare "${own[@]}" "$0" "$@"
fi

draws=${LINKS_DRAWS:-8} seed=${LINKS_SEED:-$((RANDOM * 32768 + RANDOM))} only=${LINKS_ONLY:-}
timeout=${LINKS_TIMEOUT:-2}
unset GRADSUM_RANK GRADSUM_WORLD_SIZE GRADSUM_RENDEZVOUS GRADSUM_TIMEOUT GRADSUM_TRANSPORT GRADSUM_ADDRESS
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
mount -t tmpfs none /run && mkdir /run/netns
RANDOM=$((seed % 32768))
echo "links: seed $seed (LINKS_SEED)"

# ---- the combinations: how, hosts, options of train ----

ways=("--sync ps" "--sync allreduce" "--sync ring" "--sync tree" "--zero 1"
      "--sync async --staleness 2" "--sync local --every 3" "--sync ring --devices cpu,cpu")
all=()
for way in "${ways[@]}"; do
    for how in down blackhole away stop; do
        for hosts in 2 3; do all+=("$how $hosts $way"); done
    done
done
wanted=()
for one in "${all[@]}"; do case "$one" in *"$only"*) wanted+=("$one") ;; esac; done
for ((i = ${#wanted[@]} - 1; i > 0; i--)); do
    j=$((RANDOM % (i + 1))) t=${wanted[i]}
    wanted[i]=${wanted[j]} wanted[j]=$t
done
[ ${#wanted[@]} -gt 0 ] || { echo "links: no combination holds '$only'"; exit 1; }
[ "$draws" = all ] && draws=${#wanted[@]}

# ---- hosts, and what happens to them ----

address() { echo "10.99.0.$(($1 + 1))"; }

make_hosts() {
    local h
    ip link add switch type bridge && ip link set switch up && ip netns add nowhere
    for ((h = 0; h < $1; h++)); do
        ip netns add host$h
        ip link add port$h type veth peer name eth0 netns host$h
        ip link set port$h master switch up
        ip -n host$h link set lo up
        ip -n host$h link set eth0 up
        ip -n host$h address add "$(address $h)/24" dev eth0
    done
}

remove_hosts() {
    local h
    for ((h = 0; h < $1; h++)); do ip netns delete host$h; ip link delete port$h 2>/dev/null; done
    ip netns delete nowhere
    ip link delete switch
}

# The process of a rank, whose parents are unshare and timeout.
rank_process() {
    local starter=$(pgrep -P "${shell[$1]}")
    [ -z "$starter" ] || pgrep -P "$starter"
}

strike() { # how a b
    case "$1" in
        down) ip link set port$2 down ;;
        blackhole) ip -n host$2 route add blackhole "$(address $3)/32" ;;
        away) ip -n host$2 link set eth0 netns nowhere ;;
        stop) kill -STOP "$(rank_process $2)" ;;
    esac
}

# ---- one draw ----

# Of a host that is cut off from all, a rank may say less than another: that it is cut off from one of them. TCP finds
# out link by link, and the ranks do not give up at one moment.
is_a_part() { # how, what a rank says is cut
    [ "$1" != blackhole ] && [[ $2 != *"each of"* || $2 =~ between\ $with_address ]] && [[ $2 =~ $with_address ]]
}

# links.sh's verdict on the draw: prints what is wrong. `a` was struck; `b` is where a black hole leads.
judge() { # how a b hosts
    local r line cut first_cut= struck="(rank|process) $2" other="(rank|process) $3" named
    local with_address="$struck \\($(address $2)\\)" other_with="$other \\($(address $3)\\)"
    case "$1" in
        stop) named="(from|waits? for) $struck(,.*)? on host host$2(;|\$)" ;;
        blackhole) named="$with_address and $other_with|$other_with and $with_address" ;;
        *) named=$with_address ;; # cut off from all others
    esac
    for ((r = 0; r < $4; r++)); do
        [ "$1 $r" != "stop $2" ] || continue
        line=$(grep '^gradsum train: ' "$work/err$r" | tail -1)
        cut=$(grep -o 'nothing gets through.*' <<<"$line")
        [ $r != 0 ] || first_cut=$cut
        case "${status[r]}" in
            1) ;;
            124 | 137) echo "rank $r did not end" ;;
            *) echo "rank $r: exit status ${status[r]}" ;;
        esac
        [[ $line =~ $named ]] || echo "rank $r does not name it: $line"
        [[ $line != *" lost"* ]] || echo "rank $r says lost: $line"
        if [ "$1" = stop ]; then
            [ -z "$cut" ] || echo "rank $r takes a stopped process for a cut link: $line"
        else
            [ -n "$cut" ] || echo "rank $r does not say that it is cut: $line"
            [ "$cut" = "$first_cut" ] || is_a_part "$1" "$cut" ||
                echo "rank $r says something other than rank 0: $line"
        fi
    done
}

start_rank() { # rank hosts options of train
    local r=$1 hosts=$2
    shift 2
    GRADSUM_RANK=$r GRADSUM_WORLD_SIZE=$hosts GRADSUM_RENDEZVOUS="$work/meet" GRADSUM_ADDRESS=$(address $r) \
        GRADSUM_TIMEOUT=$timeout exec timeout -k 1 30 \
        ip netns exec host$r unshare --uts --pid --fork --mount-proc --kill-child \
        sh -c 'hostname "$1"; shift; exec "$@"' sh host$r "$program" train --model mlp --threads 1 --devices cpu \
        --epochs 1000000 --batch 96 "$@" >"$work/out$r" 2>"$work/err$r"
}

draw() {
    local how=$1 hosts=$2 r i a b wait_ms=$((RANDOM % 300)) began
    shift 2
    a=$((RANDOM % hosts)) b=$(((a + 1 + RANDOM % (hosts - 1)) % hosts))
    what="$how $hosts $* (rank $a, from rank $b, after $wait_ms ms)"
    rm -rf "$work/meet" "$work"/out* "$work"/err* && mkdir "$work/meet"
    make_hosts $hosts
    shell=() status=()
    for ((r = 0; r < hosts; r++)); do
        start_rank $r $hosts "$@" &
        shell[r]=$!
    done
    for ((i = 0; i < 400; i++)); do
        grep -qs '^step ' "$work/out0" && break
        kill -0 ${shell[0]} 2>/dev/null || break
        sleep 0.05
    done
    sleep "0.$(printf %03d $wait_ms)"
    begun=true
    for ((r = 0; r < hosts; r++)); do [ -n "$(rank_process $r)" ] || begun=false; done
    began=$(date +%s%N)
    [ $begun = false ] || strike $how $a $b
    for ((r = 0; r < hosts; r++)); do
        [ "$how $r" != "stop $a" ] || [ $begun = false ] || continue
        wait ${shell[r]}
        status[r]=$?
    done
    took=$((($(date +%s%N) - began) / 1000000))
    [ $begun = false ] || [ $how != stop ] || { kill -KILL "$(rank_process $a)"; wait ${shell[a]} 2>/dev/null; }
    remove_hosts $hosts
    if [ $begun = true ]; then
        judge $how $a $b $hosts >"$work/wrong"
    else
        echo "it did not begin: $(tail -1 "$work/err$a")" >"$work/wrong"
    fi
}

# ---- all draws ----

right=0 wrong=0 longest=0
for ((k = 0; k < draws; k++)); do
    for try in 1 2 3; do # a busy machine may be too slow for so short a time-out before the training has begun
        draw ${wanted[k % ${#wanted[@]}]}
        [ $begun = false ] || break
    done
    [ $took -le $longest ] || longest=$took
    if [ -s "$work/wrong" ]; then
        wrong=$((wrong + 1))
        echo "links: WRONG: $what ($took ms)"
        sed 's/^/    /' "$work/wrong"
        [ "${LINKS_COUNT:-0}" = 1 ] || { echo "links: all messages:"; cat "$work"/err*; exit 1; }
    else
        right=$((right + 1))
        [ "${LINKS_COUNT:-0}" = 1 ] || continue
        echo "links: right: $what ($took ms)"
        grep -h '^gradsum train: ' "$work"/err* | sed 's/^/    /'
    fi
done
echo "links: $right of $draws draws were met as they should be; at most $longest ms from the cut to the end of all"
[ $wrong -eq 0 ]
