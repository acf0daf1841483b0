#!/usr/bin/env bash
# gradsum simulate against runs over networks: 2 to 8 hosts, which are name spaces of Linux, with a rank on each, and
# lines that tbf shapes in both directions. What `simulate` is told of a line is what `gradsum doctor` has measured
# between two of these hosts; and that all share this machine's cores.
# Usage: tests/bench_simulate_net.sh build/gradsum [LINES-OF-THE-TABLE-BELOW]
#
# Says why where no hosts can be made. CASES="..." in the environment takes others, STEPS other numbers of steps.
set -u
program=$(realpath "$1")
only=${2:-.}
if [ "${NET_INSIDE:-}" != 1 ]; then
    own=(--net --mount --pid --fork --mount-proc --kill-child)
    [ "$(id -u)" = 0 ] || own+=(--user --map-root-user)
    why=$(unshare "${own[@]}" sh -c 'mount -t tmpfs none /run && mkdir /run/netns && ip netns add try &&
        ip link add name one type veth peer name other && ip link add name bridge type bridge &&
        tc qdisc add dev one root tbf rate 1mbit burst 3kb limit 1mb' 2>&1) ||
        { echo "bench-simulate: left out: no networks can be made here (${why%%$'\n'*})"; exit; }
    work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
    NET_INSIDE=1 NET_WORK=$work unshare "${own[@]}" "$0" "$@"
    exit
fi

work=$NET_WORK port=29400 steps=${STEPS:-16} cores=$(nproc)
mount -t tmpfs none /run && mkdir /run/netns && ip link set lo up
for name in $(compgen -e GRADSUM_); do unset "$name"; done
export HOME=$work GRADSUM_SECRET
GRADSUM_SECRET=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
cases=${CASES:-$(cat <<END2
2 ring 50mbit
2 ps 50mbit
3 ring 50mbit
3 tree 50mbit
3 sharded_ps 50mbit
4 ring 50mbit
4 ps 50mbit
4 sharded_ps 50mbit
4 recursive_doubling 50mbit
4 halving_doubling 50mbit
4 ring 50mbit --bucket 50
6 ring 50mbit
6 halving_doubling 50mbit
8 ring 50mbit
8 sharded_ps 50mbit
8 tree 50mbit
8 recursive_doubling 50mbit
8 halving_doubling 50mbit
8 ps 100mbit
8 ring 100mbit
END2
)}

address() { echo "10.98.0.$(($1 + 1))"; }

plug_in() { # hosts rate
    local h
    ip link add name switch type bridge && ip link set switch up
    for ((h = 0; h < $1; h++)); do
        ip netns add host$h && ip -n host$h link set lo up
        ip link add name port$h type veth peer name eth0 netns host$h
        ip link set port$h master switch up
        ip -n host$h link set eth0 up
        ip -n host$h address add "$(address $h)/24" dev eth0
        # BBR, where a system has it, paces by what it thinks that the line carries: other times in each run
        ip netns exec host$h sysctl -qw net.ipv4.tcp_congestion_control=reno
        tc qdisc add dev port$h root tbf rate "$2" burst 4kb limit 4mb
        tc -n host$h qdisc add dev eth0 root tbf rate "$2" burst 4kb limit 4mb
    done
}

unplug() { # hosts
    local h
    for ((h = 0; h < $1; h++)); do ip netns delete host$h; ip link delete port$h 2>/dev/null; done
    ip link delete switch
}

on() { # host command...: with the host's network, name and processes, so that it is no other's machine
    local h=$1
    shift
    ip netns exec host$h unshare --uts --pid --fork --mount-proc --kill-child \
        sh -c 'hostname "$1"; shift; exec timeout 100 "$@"' sh host$h "$@"
}

number() { grep -o "\"$1\":[-+0-9.e]*" | head -1 | cut -d: -f2; }

# "50us,5.8MB/s": what the first two hosts have measured
measure_line() {
    on 1 "$program" doctor --nodes 2 --node-rank 1 --meet "tcp://$(address 0):$port" --timeout 10 >/dev/null 2>&1 &
    on 0 "$program" doctor --nodes 2 --node-rank 0 --meet "tcp://$(address 0):$port" --timeout 10 --json \
        2>/dev/null >"$work/line"
    wait
    awk -v trip="$(number round_trip_us <"$work/line")" -v a="$(number bytes_per_s <"$work/line")" \
        -v b="$(number bytes_per_s_back <"$work/line")" \
        'BEGIN { printf "%.0fus,%.4gMB/s", trip / 2, (a + b) / 2e6 }'
}

run() { # hosts options of train...: what it says at the end
    local h n=$1
    shift
    for ((h = 1; h < n; h++)); do
        on $h "$program" launch --nodes $n --node-rank $h --meet "tcp://$(address 0):$port" --bind none -n 1 -- \
            train "$@" >/dev/null 2>&1 &
    done
    on 0 "$program" launch --nodes $n --node-rank 0 --meet "tcp://$(address 0):$port" --bind none -n 1 -- \
        train "$@" --json 2>"$work/err" | tail -1
    wait
}

printf '%-36s %20s %10s %10s %8s\n' "ranks, scheme, rate" "line as measured" "measured" "predicted" "error"
errors= before=
while read -r n scheme rate options; do
    [[ "$n $scheme $rate${options:+ $options}" =~ $only ]] || continue
    plug_in "$n" "$rate"
    [ "$before" = "$rate" ] || line=$(measure_line)
    before=$rate
    # shellcheck disable=SC2086
    set -- --model lenet --data fashion-mnist-small --batch $((4 * n)) --threads 1 --sync "$scheme" --steps "$steps" \
        $options
    run=$(run "$n" "$@")
    simulated=$("$program" simulate --workers "$n" --link "$line" --tcp --cores "$cores/all" "$@" --json)
    measured=$(number step_median_ms <<<"$run") predicted=$(number step <<<"$simulated")
    unplug "$n"
    [ -n "$measured" ] && [ -n "$predicted" ] ||
        { echo "bench-simulate: $n $scheme $rate: no figures: $(tail -2 "$work/err")"; exit 1; }
    awk -v m="$measured" -v p="$predicted" -v w="$n $scheme $rate $options" -v l="$line" 'BEGIN { p *= 1000
        printf "%-36s %20s %7.2f ms %7.2f ms %+6.1f %%\n", w, l, m, p, 100 * (p - m) / m }'
    late=$(number step_late <<<"$simulated") # steps of unlike length, of which a median says little
    [ -z "$late" ] || awk -v l="$late" -v s="$(number samples_per_s <<<"$run")" -v b=$((4 * n)) 'BEGIN {
        printf "%-36s %20s %7.2f ms %7.2f ms\n", "   mean; once a worker was late", "", 1000 * b / s, 1000 * l }'
    errors+=$(awk -v m="$measured" -v p="$predicted" \
        'BEGIN { e = 100 * (1000 * p - m) / m; print e < 0 ? -e : e }')$'\n'
done <<<"$cases"
printf '%s' "$errors" | sort -g | awk '{ e[NR] = $1 } END {
    m = NR % 2 ? e[(NR + 1) / 2] : (e[NR / 2] + e[NR / 2 + 1]) / 2
    printf "%d cases over networks, median error %.1f %%, largest %.1f %%; ", NR, m, e[NR]
    print "wanted a median of at most 5 %"
    exit m > 5 }'
