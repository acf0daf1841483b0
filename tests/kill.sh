#!/usr/bin/env bash
# kill.sh PROGRAM: every scheme and way to train, over every transport. One process of three (of four with --exact) is
# killed, or stopped, at a random moment of the training. All others must end with a status other than 0, and with
# messages that name this process alone. Nothing may be left: no process, no folder, no file in /dev/shm.
#   KILL_DRAWS=N   how many draws (24, the first of which have each scheme, way and transport once; "all": each
#                  combination once, about 200)
#   KILL_SEED=S    of the draws; it is printed
#   KILL_ONLY=P    only combinations that hold the text P, such as "gloo ring" or "stop"
#   KILL_TIMEOUT=T seconds that a process waits for another (2 where it is stopped; 30 where it is killed, which nobody
#                  may wait for)
#   KILL_COUNT=1   count wrong draws and go on, instead of ending at the first
set -u
program=$(realpath "$1")
draws=${KILL_DRAWS:-24} seed=${KILL_SEED:-$((RANDOM * 32768 + RANDOM))} only=${KILL_ONLY:-}
PROCESSES=3
unset GRADSUM_RANK GRADSUM_WORLD_SIZE GRADSUM_RENDEZVOUS GRADSUM_TIMEOUT GRADSUM_TRANSPORT
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
RANDOM=$((seed % 32768))
echo "kill: seed $seed (KILL_SEED)"

# ---- the combinations: how, transport, devices of a process, options of train ----

schemes=$("$program" train --sync ? --steps 1 2>&1 | sed -n 's/.*choose one of: //p' | tr -d , )
for way in auto local async; do schemes=${schemes//$way/}; done # a choice among the others; ways: below
[ -n "$schemes" ] || { echo "kill: no schemes are known"; exit 1; }
transports="shm gloo"
mpirun --version >/dev/null 2>&1 && ldd "$program" | grep -q libmpi && transports="$transports mpi" ||
    echo "kill: not over mpi: there is no mpirun, or the program was built without MPI"
ways=("--zero 1" "--zero 2" "--zero 3" "--sync local --every 3" "--sync async --staleness 2"
      "--sync ring --bucket 16" "--sync tree --verify 1" "--accumulate 3" "--sync halving_doubling --wire bf16"
      "--pipeline 3" "--exact" "--tensor 2" "--tensor 2 --exact")
all=()
for how in kill stop; do
    for transport in $transports; do
        for devices in cpu cpu,cpu; do
            for scheme in $schemes; do
                [ "$scheme" != gloo ] || [ "$transport" = gloo ] || continue
                all+=("$how $transport $devices --sync $scheme")
            done
            for way in "${ways[@]}"; do all+=("$how $transport $devices $way"); done
        done
    done
done
wanted=()
for one in "${all[@]}"; do case "$one" in *"$only"*) wanted+=("$one") ;; esac; done
for ((i = ${#wanted[@]} - 1; i > 0; i--)); do
    j=$((RANDOM % (i + 1))) t=${wanted[i]}
    wanted[i]=${wanted[j]} wanted[j]=$t
done
[ "$draws" = all ] && draws=${#wanted[@]}

# The first draws have everything once: each scheme and way, each transport with each end, one device and two.
declare -A seen=()
kinds_of() { read -r how transport devices way <<<"$1" && kinds=("$how $transport" "$devices" "$way"); }
count_new() {
    local kind
    kinds_of "$1" && new=0
    for kind in "${kinds[@]}"; do [ -n "${seen[$kind]:-}" ] || new=$((new + 1)); done
}
first=()
while :; do
    most=0
    for i in "${!wanted[@]}"; do
        count_new "${wanted[i]}"
        [ "$new" -le "$most" ] || most=$new best=$i
    done
    [ "$most" -gt 0 ] || break
    first+=("${wanted[best]}")
    kinds_of "${wanted[best]}"
    for kind in "${kinds[@]}"; do seen[$kind]=1; done
    unset "wanted[best]"
done
wanted=("${first[@]}" "${wanted[@]}")
[ "$draws" -ge ${#first[@]} ] || echo "kill: each kind once would be ${#first[@]} draws"

# ---- one draw ----

pids_of() { pgrep -P "$1"; }
rank_of() {
    tr '\0' '\n' <"/proc/$1/environ" 2>/dev/null | sed -n -E 's/^(GRADSUM_RANK|OMPI_COMM_WORLD_RANK)=//p' | head -1
}
lives() { [ -d "/proc/$1" ] && ! grep -qE '^State:\s*[ZX]' "/proc/$1/status" 2>/dev/null; }

# Whom a message blames: "rank 2"; the last of "no answer from rank 0, which waits for rank 2".
blamed() {
    sed -n -E 's/.*(no answer within .*), which waits? for ([^(;]*).*/\2/p; t
               s/.*no answer within [^ ]+ s from ([^(;]*).*/\1/p; t
               s/.*: ((rank|process)[^:]*) (was|were) lost.*/\1/p' <<<"$1" | sed 's/ *$//'
}

# kill.sh's verdict on the draw: prints what is wrong.
judge() {
    local how=$1 transport=$2 victim=$3 status=$4 line who last
    [ "$status" -ne 0 ] || echo "exit status 0"
    [ "$status" -ne 124 ] || echo "it did not end"
    while read -r line; do
        who=$(blamed "$line")
        [ "$who" = "rank $victim" ] || [ "$who" = "process $victim" ] || echo "blames '$who' for $victim: $line"
        [ "$how" = stop ] || [ "$transport" = mpi ] || [[ $line != *"no answer within"* ]] ||
            echo "has waited for the time-out: $line"
    done < <(grep '^gradsum train: ' "$work/err")
    if [ "$transport $how" = "mpi kill" ]; then # mpirun may end the others before they have seen it
        grep -q "process rank $victim with PID" "$work/err" ||
            echo "mpirun does not name rank $victim: $(tail -3 "$work/err")"
    else
        grep -q '^gradsum train: ' "$work/err" || echo "no message of a survivor"
    fi
    last=$(grep '^gradsum launch: ' "$work/err" | tail -1)
    case "$transport $how" in
        mpi*) ;;
        *kill) [[ $last == "gradsum launch: rank $victim was killed by signal 9"* ]] || echo "last line: $last" ;;
        *stop) [[ $last == "gradsum launch: rank $victim hangs: process $4"* ||
            $last == *"rank $victim hangs: process "*" is stopped"* ]] ||
            echo "last line: $last" ;;
    esac
}

# When mpirun ends, the ranks that it has killed may be on their way out still.
left_behind() {
    local pid tries=0
    for pid in "$@"; do
        while [ "$transport" = mpi ] && lives "$pid" && ((tries++ < 600)); do sleep 0.1; done
    done
    for pid in "$@"; do ! lives "$pid" || { echo "process $pid is left"; kill -KILL "$pid"; }; done
    ls -A "$work/tmp" | sed 's/^/in TMPDIR: /'
    comm -13 "$work/shm" <(ls -A /dev/shm | grep -i gradsum | sort) | sed 's,^,in /dev/shm: ,'
}

draw() {
    local how=$1 transport=$2 devices=$3 processes=$PROCESSES starter pid pids wait_ms=$((RANDOM % 500)) i victim_pid=
    shift 3
    case "$*" in *--exact* | *--tensor*) processes=4 ;; esac # of --exact that, or 1, 2 or 8
    local victim=$((RANDOM % processes)) timeout=${KILL_TIMEOUT:-2}
    [ -n "${KILL_TIMEOUT:-}" ] || [ "$how" = stop ] || timeout=30
    rm -rf "$work/tmp" "$work/out" "$work/err" && mkdir "$work/tmp"
    ls -A /dev/shm | grep -i gradsum | sort >"$work/shm"
    starter=("$program" launch -n $processes --timeout $timeout --transport "$transport" --)
    [ "$transport" != mpi ] || starter=(mpirun --allow-run-as-root --oversubscribe -n $processes "$program")
    local train=(train --model mlp --threads 1 --epochs 1000000 --batch 96 --devices "$devices" "$@")
    [ "$transport" != mpi ] || train+=(--timeout $timeout)
    TMPDIR="$work/tmp" timeout -k 2 60 "${starter[@]}" "${train[@]}" >"$work/out" 2>"$work/err" &
    local shell=$!
    for ((i = 0; i < 500; i++)); do
        grep -qs '^step ' "$work/out" && break
        kill -0 $shell 2>/dev/null || break
        sleep 0.05
    done
    local main=$(pids_of $shell)
    pids=$([ -z "$main" ] || pids_of "$main")
    for pid in $pids; do [ "$(rank_of "$pid")" != "$victim" ] || victim_pid=$pid; done
    sleep "0.$(printf %03d $wait_ms)"
    what="$how $transport $devices $* (process $victim after $wait_ms ms)"
    [ -n "$victim_pid" ] || {
        echo "it did not begin: $(tail -3 "$work/err")" >"$work/wrong"
        [ -z "$main" ] || kill -KILL $main $pids
        wait $shell
        return
    }
    if [ "$how" = kill ]; then kill -KILL "$victim_pid"; else kill -STOP "$victim_pid"; fi
    wait $shell 2>/dev/null
    judge "$how" "$transport" "$victim" $? >"$work/wrong"
    left_behind $main $pids >>"$work/wrong"
}

# ---- all draws ----

right=0 wrong=0
for ((k = 0; k < draws; k++)); do
    for try in 1 2 3; do # a busy machine may be too slow for so short a time-out before the training has begun
        draw ${wanted[k % ${#wanted[@]}]}
        grep -q '^it did not begin' "$work/wrong" || break
    done
    if [ -s "$work/wrong" ]; then
        wrong=$((wrong + 1))
        echo "kill: WRONG: $what"
        sed 's/^/    /' "$work/wrong"
        [ "${KILL_COUNT:-0}" = 1 ] || { echo "kill: all messages:"; cat "$work/err"; exit 1; }
    else
        right=$((right + 1))
    fi
done
echo "kill: $right of $draws draws were met as they should be"
[ $wrong -eq 0 ]
