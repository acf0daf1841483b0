#!/usr/bin/env bash
# failures.sh PROGRAM: draws a run (workers, transport, strategy), a fault, a rank and an operation, injects the fault
# there (GRADSUM_FAULT, src/comm/inject/inject.h), and checks what must hold for every run:
#   - if it can finish, it ends with the weights of the undisturbed run;
#   - else with exit status 1 and the right message: which rank, on which host, in which operation;
#   - in time: after a kill no rank waits for the timeout, which is long there; if a rank hangs,
#     is slow or is cut off, no rank waits for twice the timeout;
#   - nothing is left behind: no process, no folder, no file in /dev/shm;
#   - a failed run resumes from its checkpoints and ends with the weights of the undisturbed run.
# Over MPI less holds, because mpirun ends all ranks as soon as one fails, and the ranks have no other channel to tell
# each other for which rank they wait: the exit status is mpirun's (137 after a kill), and the rank that waits for a
# slow or cut-off one may be ended before it reports this.
#
# A timeout that must expire is short, and on a busy machine a living rank may exceed it too. So failures that this can
# explain (no fault occurred, another rank is named, it took too long) are tested again with four times the timeout.
#   DRAWS=N           how many draws (200)
#   FAILURES_SEED=S   their seed, which is printed
#   FAILURES_ONLY=P   only draws that contain the text P, such as "stop" or "gloo:3 --zero"
#   FAILURES_COUNT=1  count wrong draws and continue, instead of ending at the first one
#   FAILURES_JOBS=1   all draws in sequence; otherwise two halves in parallel, each with a separate seed
set -u
program=$(realpath "$1")
draws=${DRAWS:-200} seed=${FAILURES_SEED:-$((RANDOM * 32768 + RANDOM))} only=${FAILURES_ONLY:-}
if [ "${FAILURES_JOBS:-2}" != 1 ]; then # waiting for a timeout needs no core: two halves at once
    FAILURES_JOBS=1 DRAWS=$((draws / 2)) FAILURES_SEED=$seed "$0" "$@" &
    FAILURES_JOBS=1 DRAWS=$((draws - draws / 2)) FAILURES_SEED=$((seed + 7919)) "$0" "$@"
    half=$?
    wait $! && [ $half -eq 0 ]
    exit
fi
STEPS=6 LONG=60 SHORT=(1 4 16)
timeout=$LONG
for name in $(compgen -e GRADSUM_); do unset "$name"; done
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
export FAILURES_DRAW=$work
RANDOM=$((seed % 32768))
host=$(uname -n)
echo "failures: seed $seed (FAILURES_SEED)"

# ---- the draws ----

kinds=(kill kill kill delay delay stop slow drop)
places=(shm:2 shm:3 shm:4 gloo:2 gloo:3 gloo:4 threads:2 threads:3 threads:4 shm:2x2 gloo:2x2)
mpirun=(mpirun --allow-run-as-root --oversubscribe --bind-to none)
with_mpi=$("${mpirun[@]}" -n 2 "$program" train --model softmax --steps 1 --threads 1 2>&1)
if [[ $with_mpi == *"transport: mpi"* ]]; then
    places+=(mpi:2 mpi:4)
else
    echo "failures: over MPI: left out: there is no mpirun, or this gradsum was built without MPI"
fi
schemes=$("$program" train --sync ? --steps 1 2>&1 | sed -n 's/.*choose one of: //p' | tr -d ,)
[ -n "$schemes" ] || { echo "failures: it knows no schemes"; exit 1; }
ways=("--sync ring --bucket 1" "--sync ring --wire bf16" "--sync halving_doubling --wire bf16"
      "--sync allreduce --verify 1" "--sync tree --verify 1" "--sync allreduce --accumulate 3" "--zero 1" "--zero 2"
      "--zero 3" "--sync local --every 2" "--sync async --staleness 2" "--exact" "--tensor 2" "--tensor 2 --exact"
      "--pipeline 2 --pipeline-cut flops" "--pipeline 2 --pipeline-cut flops --exact")
for way in $schemes; do
    case $way in auto | local | async) ;; *) ways+=("--sync $way") ;; esac # auto chooses one of these; two are above
done

# Sets `run`, a run's command line, and `size`, its number of workers.
make_run() { # place way
    local transport=${1%:*} shape=${1#*:} processes threads devices=cpu i
    processes=${shape%x*} threads=1
    by=("$program")
    [ "$transport" != threads ] || { threads=$processes; processes=1; }
    [ "$transport" != mpi ] || by=("${mpirun[@]}" -n $processes "$program")
    [ "${shape#*x}" = "$shape" ] || threads=${shape#*x}
    for ((i = 1; i < threads; i++)); do devices=$devices,cpu; done
    size=$((processes * threads)) per=$threads
    run=(train)
    case $transport in
        shm | gloo) run=(launch -n $processes --transport $transport --timeout $timeout -- train) ;;
    esac
    run+=(--model "flatten, linear 16, tanh, linear 10" --batch 96 --epochs 1 --steps $STEPS --threads 1 --bind none
          --devices $devices $2)
    [ "${run[0]}" = launch ] || run+=(--timeout $timeout)
}

# ---- running ----

sha256_of() { sed -n 's/^weights *sha256 *//p' "$1"; }

# Runs with the value of GRADSUM_FAULT and further options: writes $work/out, and $work/err with the time of each line.
start() { # fault options
    local fault=$1
    shift
    rm -rf "$work/tmp" && mkdir "$work/tmp"
    GRADSUM_FAULT=$fault TMPDIR="$work/tmp" OMPI_MCA_btl_vader_backing_directory="$work/tmp" \
        timeout -k 2 $((timeout == LONG ? 40 : 20 + 4 * timeout)) "${by[@]}" "${run[@]}" "$@" 2>&1 >"$work/out" |
        while IFS= read -r line; do echo "$EPOCHREALTIME $line"; done >"$work/err"
    status=${PIPESTATUS[0]} ended=$EPOCHREALTIME
}

# The undisturbed run, made once for each kind of run. It counts each rank's operations, among which faults are drawn.
declare -A hash_of=() operations_of=()
undisturbed() { # key kind
    local counting= r
    [ -z "${hash_of[$1]:-}" ] || return 0
    for ((r = 0; r < size; r++)); do counting+="${counting:+;}$2:rank=$r,operation=1000000000"; done
    start "$counting"
    hash_of[$1]=$(sha256_of "$work/out")
    for ((r = 0; r < size; r++)); do
        operations_of[$1 $r]=$(sed -n "s/.*: rank $r made \([0-9]*\) operations: .*/\1/p" "$work/err")
    done
    [ $status = 0 ] && [ -n "${hash_of[$1]}" ]
}

# ---- checks: each prints what is wrong ----

is_mpi() { [[ $place == mpi:* ]]; }
says() { sed -n -E 's/^[0-9.]+ (gradsum train: )/\1/p' "$work/err"; }

# Every rank's message names the victim by one of its names and contains the pattern; at least one message must exist.
each_says() { # pattern
    local line
    [ -n "$(says)" ] || echo "no rank prints a message"
    says | while read -r line; do
        [[ $line =~ $named ]] || [ "$named" = anybody ] || echo "does not name the rank: $line"
        [[ $line =~ $1 ]] || echo "does not say '$1': $line"
    done
}

last_line() { tail -1 "$work/err" | cut -d' ' -f2-; }

judge_time() { # limit in s
    local took limit=$1
    ! is_mpi || limit=$((limit + 1)) # mpirun ends processes that do not end by themselves
    took=$(awk -v end="$ended" -v kind="$kind" '
        / GRADSUM_FAULT: / && !struck { struck = $1 }
        / gradsum train: / { last = $1 }
        END { if (struck) printf "%.2f", (kind == "slow" ? last : end) - struck }' "$work/err")
    awk -v took="${took:-0}" -v limit=$limit 'BEGIN { exit took > limit }' ||
        echo "it took $took s until all others had ended"
    echo "${took:-0}" >>"$work/took-$kind"
}

judge_finished() {
    [ "$status" = 0 ] || { echo "exit status $status"; cat "$work/err"; }
    [ "$(sha256_of "$work/out")" = "${hash_of[$key]}" ] || [[ $way == *async* ]] || echo "the weights differ"
}

judge_killed() {
    judge_time $((LONG / 4))
    if is_mpi; then
        named="$named|ranks [0-9, and]*$rank([^0-9]|\$)" # mpirun may have ended others before the check
        [ $status = 137 ] || echo "exit status $status of mpirun"
        grep -q "rank $rank with PID .* on node $host exited on signal 9" "$work/err" || echo "mpirun names no signal"
        [ -z "$(says)" ] || each_says "(lost|no answer within|has ended) .*on host $host"
    elif [ $per = "$size" ]; then
        [ $status = 137 ] || echo "exit status $status of a killed process"
    else
        [[ $(last_line) == "gradsum launch: rank $((rank / per)) was killed by signal 9"* ]] ||
            echo "last: $(last_line)"
        [ -z "$(says)" ] || each_says "lost .*on host $host"
    fi
}

judge_stopped() {
    judge_time $((2 * timeout + 1))
    if is_mpi; then
        each_says "is stopped\) on host $host"
    else
        [[ $(last_line) == *"rank $((rank / per)) hangs: process "*" is stopped"* ]] || echo "last: $(last_line)"
        [ -z "$(says)" ] || each_says "is stopped\) on host $host; .* (last began|was last heard of in) "
    fi
}

judge() {
    local process="(rank $rank|process $((rank / per)))([^0-9]|\$)" named finished=false by_signal=false
    named=$process
    [ "$status" != 0 ] || finished=true
    [ $kind != kill ] || { [ $per != "$size" ] && ! is_mpi; } || by_signal=true # no launcher changes it into 1
    [ $status != 124 ] && [ $status != 137 ] || $by_signal || echo "the run did not end by itself"
    case $kind in
        delay) judge_finished ;;
        kill) judge_killed ;;
        stop) judge_stopped ;;
        slow | drop)
            judge_time $((2 * timeout + 1))
            ! is_mpi || named=anybody
            if $finished; then
                judge_finished
            else
                each_says "no answer within"
            fi ;;
    esac
    if [ "$kind" != delay ] && ! $finished; then
        [ "$status" = 1 ] || [ $per = "$size" ] || $by_signal || echo "exit status $status"
    fi
}

processes_left() {
    local one pid
    for one in $(grep -lsz "^FAILURES_DRAW=$work\$" /proc/[0-9]*/environ); do
        pid=${one#/proc/} pid=${pid%/environ}
        [ "$pid" = $$ ] || [ "$pid" = $BASHPID ] || [ "$(ps -o ppid= -p "$pid" | tr -d ' ')" = $$ ] ||
            ! grep -qsa gradsum "/proc/$pid/cmdline" || echo "process $pid is left behind"
    done
}

# When mpirun has ended, ranks that it killed may still be ending.
left_behind() {
    local tries=0
    while [[ $place == mpi* ]] && [ -n "$(processes_left)" ] && ((tries++ < 600)); do sleep 0.1; done
    processes_left
    ls -A "$work/tmp" | sed 's/^/in TMPDIR: /'
    comm -13 "$work/shm" <(ls -A /dev/shm | grep -i gradsum | grep -v fuzz | sort) | sed 's,^,in /dev/shm: ,'
}

# Resumes from the checkpoints, without a fault, to the weights of the undisturbed run.
judge_resumed() {
    local never=
    [[ $way != *async* ]] || return
    # Collectives made of messages may add in another order, so they are used here too (src/comm/inject/inject.h).
    [ $kind != drop ] || never=drop:rank=0,operation=1000000000
    timeout=$LONG && make_run "$place" "$way" # no fault occurs now
    start "$never" --checkpoint "$work/kept" --resume "$work/kept"
    [ $status = 0 ] || { echo "the resumed run has exit status $status: $(says | tail -1) $(last_line)"; return; }
    [ "$(sha256_of "$work/out")" = "${hash_of[$key]}" ] || echo "the weights of the resumed run differ"
    ls "$work/kept" | grep -vE '^step-[0-9]{9}\.(json|safetensors)$' | sed 's/^/in the folder of checkpoints: /'
}

# ---- draws ----

one_of() { local -n from=$1; drawn=${from[RANDOM % ${#from[@]}]}; }

# Runs to disturb; all strategies are used before one repeats. Each run is first made undisturbed, for comparison.
runs=()
while [ ${#runs[@]} -lt $((draws < 30 ? draws : draws < 600 ? 30 : draws / 20)) ]; do
    one_of places && place=$drawn
    way=${ways[${#runs[@]} % ${#ways[@]}]}
    make_run "$place" "$way"
    case "$way" in
        *--tensor* | *--exact* | *--pipeline*) [ $size != 3 ] || continue ;;
        "--sync gloo") [[ $place == gloo:* ]] || continue ;;
    esac
    runs+=("$place $way")
done

draw() {
    while :; do
        one_of kinds && kind=$drawn
        one_of runs && place=${drawn%% *} way=${drawn#* }
        case "$kind $place" in "stop threads"*) continue ;; esac # no rank is left that could report it
        [[ "$kind $place $way" == *"$only"* ]] || continue
        break
    done
    timeout=$LONG && make_run "$place" "$way"
    rank=$((RANDOM % size)) counts=kill operation=$((RANDOM * 32768 + RANDOM))
    export GRADSUM_CHECK=0
    [ $kind != drop ] || { export GRADSUM_CHECK=1; counts=drop; }
    key="$place $way $GRADSUM_CHECK"
    what="$kind $place $way: rank $rank"
    undisturbed "$key" $counts || { echo "the undisturbed run failed: $(last_line)" >"$work/wrong"; return 1; }
    operation=$((1 + operation % operations_of[$key $rank]))
    what+=" of $size, operation $operation of ${operations_of[$key $rank]}"
}

strike() { # timeout
    local fault=$kind seconds= keep=(--checkpoint "$work/kept" --checkpoint-every 1 --keep 2)
    timeout=$1 && make_run "$place" "$way"
    case $kind in
        delay) seconds=,seconds=0.2 ;;
        slow) fault=delay seconds=,seconds=$((timeout * 2)).2 ;;
    esac
    ls -A /dev/shm | grep -i gradsum | grep -v fuzz | sort >"$work/shm"
    rm -rf "$work/kept"
    [[ $way != *async* ]] || keep=()
    start "$fault:rank=$rank,operation=$operation$seconds" "${keep[@]}"
    cp "$work/err" "$work/messages"
    if grep -q "GRADSUM_FAULT: rank $rank: $fault at operation $operation," "$work/err"; then
        judge >"$work/wrong"
    else
        echo "nothing was struck: $(says | tail -1) $(last_line)" >"$work/wrong"
    fi
    left_behind >>"$work/wrong"
    [ $status = 0 ] || judge_resumed >>"$work/wrong"
}

# Whether the timeout may have been too short for a busy machine.
may_be_too_short() { ! grep -qvE '^(nothing was struck|it took|last:|does not (say|name)) ?' "$work/wrong"; }

draw_and_strike() {
    local seconds=$LONG more=()
    draw || return
    case $kind in stop | slow | drop) seconds=${SHORT[0]} more=("${SHORT[@]:1}") ;; esac
    strike $seconds
    for seconds in "${more[@]}"; do
        [ -s "$work/wrong" ] && may_be_too_short || break
        again=$((again + 1))
        echo "failures: again, with a timeout of $seconds s: $what"
        sed 's/^/    /' "$work/wrong"
        strike $seconds
    done
}

declare -A right=()
wrong=0 again=0 began=$SECONDS
for ((k = 0; k < draws; k++)); do
    draw_and_strike
    if [ -s "$work/wrong" ]; then
        wrong=$((wrong + 1))
        echo "failures: WRONG: $what"
        sed 's/^/    /' "$work/wrong"
        [ "${FAILURES_COUNT:-0}" = 1 ] || { echo "failures: all messages:"; cat "$work/messages"; exit 1; }
    else
        right[$kind]=$((${right[$kind]:-0} + 1))
    fi
done
for kind in kill stop slow drop delay; do printf '%s %d, ' $kind "${right[$kind]:-0}"; done >"$work/counts"
counts=$(sed 's/, $//' "$work/counts")
longest=$(sort -n "$work/took-kill" 2>/dev/null | tail -1)
echo "failures: $((draws - wrong)) of $draws draws gave the expected result ($counts; $again again); at most" \
    "${longest:-0} s from a kill to the end of all; $((SECONDS - began)) s"
[ $wrong -eq 0 ]
