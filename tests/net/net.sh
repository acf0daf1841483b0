#!/usr/bin/env bash
# net.sh PROGRAM RELAY [PART...]: three hosts, each with a separate network, name and process space, and two ranks on
# each. All schemes except MPI's give the weights of one worker, over good lines and bad ones; a cable is unplugged and
# plugged in again; `gradsum doctor` names the problems. Without PART all of these:
#
#   schemes   each --sync and --zero, over interfaces of different names and MTUs
#   ipv6      the same hosts by IPv6
#   loopback  rank 0 opens the store at 127.0.0.1 or 127.0.1.1, where the others cannot reach it: messages say so
#   doctor    all is well; an absent rank, a wrong interface, a blocked connection
#   ssh       launch --hosts, from the first host
#   lines     delay, jitter, loss, reordering, corruption, a low rate: by the kernel's netem, else by RELAY
#   cable     unplugged, and plugged in before the timeout: the run continues; left unplugged: all ranks say why they
#             end; and a rank that is stopped next to another one on its machine
#   links     one rank per host, and the link between two hosts cut in one of three ways (net/links.sh)
#
# The hosts are Linux namespaces, created as root (or where users may create them). Elsewhere the test is skipped and
# says why; with GRADSUM_NET=required it fails. Everything is in the test's own namespaces, so nothing is left of it,
# however it ends; the test checks this too.
set -u
program=$(realpath "$1") relay=$(realpath "$2")
if [ "${NET_INSIDE:-}" != 1 ]; then
    own=(--net --mount --pid --fork --mount-proc --kill-child)
    [ "$(id -u)" = 0 ] || own+=(--user --map-root-user)
    skip() { echo "net: skipped: $1"; [ "${GRADSUM_NET:-}" != required ]; exit; }
    ip -V >/dev/null 2>&1 || skip "ip is not installed (Debian: iproute2)"
    why=$(unshare "${own[@]}" sh -c 'mount -t tmpfs none /run && mkdir /run/netns && ip netns add try &&
        ip link add name one type veth peer name other && ip link add name bridge type bridge' 2>&1) ||
        skip "no networks can be created here (${why%%$'\n'*})"
    around() { ip -o link | wc -l; ls /run/netns 2>/dev/null; }
    before=$(around) work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    NET_INSIDE=1 NET_WORK=$work unshare "${own[@]}" "$0" "$@"
    status=$?
    [ "$before" = "$(around)" ] || { echo "net: left behind by the test: $(ip -o link; ls /run/netns)"; exit 1; }
    exit $status
fi

shift 2
parts=${*:-schemes ipv6 loopback doctor ssh lines cable links}
work=$NET_WORK hosts=3 relay_id=
mount -t tmpfs none /run && mkdir /run/netns && ip link set lo up
for name in $(env | grep -o '^GRADSUM_[A-Z_]*'); do unset "$name"; done
export GRADSUM_SECRET=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n') HOME=$work
interface=(eth0 lan7 wlp3s0) mtu=(1500 9000 1280)
fail() { echo "net: WRONG: $1"; [ $# -lt 2 ] || tail -n 30 "${@:2}"; exit 1; }

# ---- hosts ----

address() { echo "10.98.0.$(($1 + 1))"; }
address6() { echo "fd00:98::$(($1 + 1))"; }

new_hosts() {
    local h
    for ((h = 0; h < hosts; h++)); do
        ip netns add host$h
        ip -n host$h link set lo up
    done
}

# Cables to a bridge; each host also has one that is not connected, "spare".
plug_in() {
    local h
    ip link add name switch type bridge && ip link set switch up mtu 9000
    for ((h = 0; h < hosts; h++)); do
        ip link add name port$h type veth peer name ${interface[h]} netns host$h
        ip link set port$h mtu 9000
        ip link set port$h master switch up
        ip -n host$h link set ${interface[h]} mtu ${mtu[h]} up
        ip -n host$h address add "$(address $h)/24" dev ${interface[h]}
        ip -n host$h address add "$(address6 $h)/64" dev ${interface[h]} nodad
        ip -n host$h link add name spare type veth peer name spare-end
        ip -n host$h link set spare up
        ip -n host$h link set spare-end up
        ip -n host$h address add "10.77.$h.1/24" dev spare
    done
}

plug_into_relay() { # its options
    local h
    : >"$work/relay" # otherwise the previous "ready" may still be read there
    "$relay" "$@" host0 host1 host2 >"$work/relay" 2>&1 &
    relay_id=$!
    for ((h = 0; h < 6000; h++)); do
        grep -qs ready "$work/relay" && break
        sleep 0.02
    done
    grep -q ready "$work/relay" || return 1
    for ((h = 0; h < hosts; h++)); do
        ip -n host$h link set eth0 up
        ip -n host$h address add "$(address $h)/24" dev eth0
    done
}

remove_hosts() {
    local h
    for ((h = 0; h < hosts; h++)); do ip netns delete host$h; done
    ip link delete switch 2>/dev/null
    for ((h = 0; h < hosts; h++)); do ip link delete port$h 2>/dev/null; done
    [ -z "$relay_id" ] || { kill $relay_id; wait $relay_id; }
    relay_id=
    for ((h = 0; h < 6000; h++)); do # a host's line ends disappear shortly after the host
        ip link show type veth | grep -q 'port[0-9]' || break
        sleep 0.02
    done
}

on_host() { # on_host host command...: runs with the host's network, name and processes
    local h=$1
    shift
    exec timeout -k 1 100 ip netns exec host$h unshare --uts --pid --fork --mount-proc --kill-child \
        sh -c 'hostname "$1"; shift; exec "$@"' sh host$h "$@"
}

# ---- a training run on all hosts ----

train="train --model softmax --batch 12 --threads 1 --lr 0.01"
steps=3 timeout=20 port=29400
base() { echo "tcp://$(address 0):$port"; }

start() { # address options-of-train...
    local h place=$1
    shift
    rm -rf "$work/run" "$work"/out* "$work"/err*
    process=()
    for ((h = 0; h < hosts; h++)); do
        on_host $h "$program" launch --nodes $hosts --node-rank $h --meet "$place" --timeout $timeout --bind none \
            -n 2 -- $train --steps $steps "$@" --digest "$work/run" >"$work/out$h" 2>"$work/err$h" &
        process[h]=$!
    done
}

finish() { # -> status[h]
    local h
    status=()
    for ((h = 0; h < hosts; h++)); do wait ${process[h]}; status[h]=$?; done
}

# The digests of each step, compared with those of one worker.
one_worker() {
    [ -d "$work/one$steps" ] || "$program" $train --steps $steps --digest "$work/one$steps" >"$work/one.out" 2>&1 ||
        fail "one worker" "$work/one.out"
}
is_as_one_worker() { # what
    one_worker
    [ "${status[*]}" = "0 0 0" ] || fail "$1: exit statuses ${status[*]}" "$work"/err*
    "$program" explain "$work/one$steps" "$work/run" >"$work/explained" 2>&1 ||
        fail "$1: the weights differ" "$work/explained"
    echo "net: right: $1: $(grep -h '^steps 1 to' "$work/explained")"
}

same() { # what address options-of-train...
    start "${@:2}"
    finish
    is_as_one_worker "$1"
}

# ---- the parts ----

schemes() {
    local s
    new_hosts && plug_in
    for s in $("$program" train --sync '?' 2>&1 | sed -n 's/.*choose one of: //p' | tr -d ',;'); do
        case "$s" in async | local) continue ;; esac # these do not compute what one worker computes
        same "--sync $s" "$(base)" --sync $s
    done
    grep -q "transport: two-level: shared memory in each" "$work/out0" ||
        fail "two ranks on each machine do not share memory" "$work/out0"
    same "--zero 3" "$(base)" --zero 3
    remove_hosts
}

ipv6() {
    new_hosts && plug_in
    same "IPv6" "tcp://[$(address6 0)]:$port" --sync ring
    grep -q "listen at $(address6 1) (lan7)" "$work/err1" ||
        fail "host 1 does not print its IPv6 address" "$work/err1"
    remove_hosts
}

only_here() { # what, host, sentence: printed while it waits, so not in the last lines
    for ((i = 0; i < 1200; i++)); do grep -q "^gradsum: $3" "$work/err$2" && break; sleep 0.05; done
    grep -q "^gradsum: $3" "$work/err$2" || fail "$1: host $2 does not say '$3'" "$work"/err*
    echo "net: right: $1: $(grep "^gradsum: $3" "$work/err$2")"
}

loopback() {
    local h i name meet="meet at tcp://$(address 0):"
    new_hosts && plug_in
    # Addresses as Kubeflow gives them.
    for h in 0 1; do
        [ $h = 0 ] && name=localhost || name=$(address 0)
        on_host $h env RANK=$h WORLD_SIZE=2 MASTER_ADDR=$name MASTER_PORT=$port GRADSUM_TIMEOUT=90 \
            "$program" $train --steps $steps >"$work/out$h" 2>"$work/err$h" &
        process[h]=$!
    done
    only_here "MASTER_ADDR=localhost" 0 "127.0.0.1 (localhost), where the ranks meet, is only this machine: .*$meet"
    kill ${process[0]} ${process[1]}; wait ${process[0]} ${process[1]}
    # The host file as Debian writes it.
    echo "127.0.1.1 anna" >"$work/hosts"
    on_host 0 sh -c 'mount --bind "$1" /etc/hosts; shift; exec "$@"' sh "$work/hosts" "$program" launch --nodes 2 \
        --node-rank 0 --meet tcp://anna:$port --timeout 90 -n 1 -- $train --steps $steps >"$work/out0" 2>"$work/err0" &
    process[0]=$!
    only_here "a name that is 127.0.1.1" 0 "127.0.1.1 (anna), where the ranks meet, is only this machine: .*$meet"
    kill ${process[0]}; wait ${process[0]}
    remove_hosts
}

. "$(dirname "$0")/doctor.sh"
. "$(dirname "$0")/links.sh"

# The properties of the lines, for tc's netem and for the relay.
bad_lines=("delay 3ms 1ms|--delay 3 --jitter 1" "loss 2%|--loss 2" "delay 2ms reorder 25%|--delay 2 --reorder 25"
           "corrupt 2%|--corrupt 2" "rate 20mbit|--rate 20")
lines() {
    local l h netem=false sync=ring
    ip link add name try type veth peer name other
    tc qdisc add dev try root netem delay 1ms 2>/dev/null && netem=true
    ip link delete try
    for l in "${bad_lines[@]}"; do
        new_hosts
        if [ $netem = true ]; then
            plug_in
            for ((h = 0; h < hosts; h++)); do tc qdisc add dev port$h root netem ${l%|*}; done
        elif ! plug_into_relay ${l#*|}; then
            echo "net: left out: lines: $(cat "$work/relay")"
            remove_hosts
            return
        fi
        same "${l%|*}" "$(base)" --sync $sync
        [ $sync = ring ] && sync=allreduce || sync=ring
        remove_hosts
        [ $netem = true ] || tail -1 "$work/relay"
    done
    new_hosts && plug_in
    for ((h = 0; h < hosts; h++)); do
        tc qdisc add dev port$h root tbf rate 20mbit burst 16kb latency 50ms || fail "there is no tbf"
    done
    same "tbf rate 20mbit" "$(base)" --sync allreduce
    remove_hosts
}

# The training has started when a step's digest exists.
await_training() {
    local i
    for ((i = 0; i < 6000; i++)); do [ -s "$work/run/rank-0.digest" ] && return; sleep 0.05; done
    fail "the training did not start" "$work"/err*
}

process_of() { # rank
    local p
    for p in /proc/[0-9]*; do
        grep -zqx "GRADSUM_RANK=$1" $p/environ 2>/dev/null && { echo ${p#/proc/}; return; }
    done
}

# All must end within the timeout plus 2 s, plus another 2 s because the machine may be busy.
in_time() { # what, the second in which it started
    [ $((SECONDS - $2)) -le $((timeout + 4)) ] || fail "$1: it took $((SECONDS - $2)) s to end" "$work"/err*
}

cable() {
    local h options stopped since
    new_hosts && plug_in
    steps=60 timeout=10
    start "$(base)" --sync ring --jitter 0:30ms
    await_training
    ip link set port1 down
    sleep 1
    ip link set port1 up
    finish
    is_as_one_worker "a cable that was pulled for 1 s"

    steps=100000 timeout=2
    for options in "--sync ring" "--sync allreduce"; do
        start "$(base)" $options --jitter 0:5ms
        await_training
        ip link set port1 down
        since=$SECONDS
        finish
        in_time "an unplugged cable, $options" $since
        [ "${status[*]}" = "1 1 1" ] || fail "an unplugged cable: exit statuses ${status[*]}" "$work"/err*
        for ((h = 0; h < hosts; h++)); do
            grep -q "nothing gets through .*$(address 1).*the network is cut there" "$work/err$h" ||
                fail "an unplugged cable: host $h does not say so" "$work"/err*
        done
        echo "net: right: an unplugged cable, $options: $(grep -h '^gradsum launch' "$work/err0" | tail -1)"
        ip link set port1 up
    done

    for options in "--sync ring" "--sync allreduce"; do
        start "$(base)" $options --jitter 0:5ms
        await_training
        stopped=$(process_of 3)
        kill -STOP $stopped
        since=$SECONDS
        finish
        in_time "a stopped rank, $options" $since
        [ "${status[*]}" = "1 1 1" ] || fail "a stopped rank, $options: exit statuses ${status[*]}" "$work"/err*
        for ((h = 0; h < hosts; h++)); do
            grep -qE "(from|waits? for) rank 3( |,|\$)|rank 3 hangs" "$work/err$h" ||
                fail "a stopped rank, $options: host $h does not name it" "$work"/err*
        done
        echo "net: right: a stopped rank, $options: $(grep -h '^gradsum launch' "$work/err2" | tail -1)"
    done
    steps=3 timeout=20
    remove_hosts
}

# launch --hosts, with an ssh that runs its command on one of these hosts.
ssh() {
    local starter i hosts_of="--hosts $(address 0),host1:1,host2:3"
    new_hosts && plug_in
    cat >"$work/ssh" <<'end'
#!/bin/sh
while :; do case $1 in -o) shift 2 ;; -*) shift ;; *) break ;; esac; done
host=$1
shift
ip netns list | grep -q "^$host\b" || { echo "ssh: no route to $host" >&2; exit 255; }
exec 3<&0 # the command is not a child of ssh that would end with it: it notices the end of its standard input
setsid ip netns exec "$host" unshare --uts --pid --fork --mount-proc --kill-child sh -c "hostname $host; $*" <&3 &
exec 3<&- </dev/null
wait $!
end
    chmod +x "$work/ssh"
    rm -rf "$work/run"
    from_host0() { exec timeout -k 1 100 ip netns exec host0 env PATH="$work:$PATH" "$program" launch "$@"; }
    ( from_host0 $hosts_of -n 2 --bind none --timeout $timeout -- $train --steps $steps --digest "$work/run" ) \
        >"$work/out0" 2>"$work/err0"
    status=($? 0 0)
    is_as_one_worker "launch --hosts with 2, 1 and 3 processes"
    grep -q "ssh host2 cd .* --node-rank 2 --ranks 2,1,3 " "$work/err0" ||
        fail "it does not print what it runs" "$work/err0"

    ( from_host0 --hosts $(address 0),host7 -n 1 --timeout 1 -- $train ) >"$work/out0" 2>"$work/err0" &&
        fail "a missing machine" "$work/err0"
    grep -q "node rank 1 (host7) failed with exit status 255: ssh could not reach it" "$work/err0" ||
        fail "a missing machine is not named" "$work/err0"
    ( from_host0 --hosts $(address 0),host1 -n 1 --program /no/such --timeout 1 -- $train ) >"$work/out0" 2>"$work/err0"
    grep -q "gradsum could not be started there; --program" "$work/err0" || fail "no gradsum there" "$work/err0"
    echo "net: right: launch --hosts names a machine that cannot be reached, and one without gradsum"

    rm -rf "$work/run"
    ( from_host0 $hosts_of -n 2 --bind none --timeout 60 -- $train --steps 1000000 --epochs 100000 --jitter 0:5ms \
        --digest "$work/run" ) >"$work/out0" 2>"$work/err0" &
    await_training
    for i in $(process_of 5) $(process_of 0); do [ -d /proc/$i ] || fail "the ranks are not running" "$work/err0"; done
    starter=$(pgrep -f "^$program launch --hosts" | head -1)
    kill -KILL $starter
    disown -a
    for ((i = 0; i < 300; i++)); do
        [ -z "$(process_of 0)$(process_of 2)$(process_of 5)" ] && break
        sleep 0.05
    done
    [ -z "$(process_of 0)$(process_of 2)$(process_of 5)" ] ||
        fail "ranks outlive the launch that started them" "$work/err0"
    echo "net: right: all ranks end when the launch that started them is killed"
    wait
    remove_hosts
}

for part in $parts; do
    began=$SECONDS
    $part
    echo "-- net: $part: $((SECONDS - began)) s"
done
