#!/usr/bin/env bash
# restarts.sh PROGRAM: launches with --restarts and with --elastic, with each strategy. Twice in a run a random process
# is killed, or stopped for longer than the timeout, at a random time. Each run must end with the weights of an
# undisturbed one and leave nothing behind: no process, no folder, no file in /dev/shm.
#   KILL_DRAWS=N   how many runs (6; "all": 24); KILL_SEED=S their seed, which is printed
set -u
program=$(realpath "$1")
draws=${KILL_DRAWS:-6} seed=${KILL_SEED:-$((RANDOM * 32768 + RANDOM))}
[ "$draws" != all ] || draws=24
STEPS=60
unset GRADSUM_RANK GRADSUM_WORLD_SIZE GRADSUM_RENDEZVOUS GRADSUM_TIMEOUT GRADSUM_TRANSPORT
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
RANDOM=$((seed % 32768))
echo "restarts: seed $seed (KILL_SEED)"

# --restarts with checkpoints, or from the start (again), or --elastic; then the fault; then options of launch and train
ways=("checkpoint kill -n2 --zero 2 --optimizer adam" "1:3 kill -n3 --optimizer adam" "again stop -n2 --exact"
      "2:4 stop -n4 --exact" "1 kill -n4 --exact" "checkpoint stop -n4 --exact --tensor 2"
      "checkpoint kill -n2 --sync local --every 3" "checkpoint stop -n2 --pipeline 2" "1:2 kill -n2 --exact --clip 1"
      "checkpoint kill -n4 --layout dp2,pp2,zero1 --micro-batches 3" "again kill -n3 --sync ring")

wrong() { echo "restarts: WRONG: $*"; cat "$work/err"; exit 1; }
sha256_of() { sed -n 's/^weights *sha256 *//p' "$1" | tail -1; }
segments() { ls -A /dev/shm | grep -i gradsum | sort; }

disturbances=0
for ((k = 0; k < draws; k++)); do
    read -r from how size way <<<"${ways[k % ${#ways[@]}]}"
    run=(train $way --threads 1 --model "flatten, linear 64, tanh, linear 10" --batch 600 --epochs 9 --steps $STEPS)
    "$program" launch $size -- "${run[@]}" >"$work/whole" 2>"$work/err" || wrong "$way"
    mkdir "$work/tmp" && segments >"$work/shm"
    timeout=30 && [ $how = kill ] || timeout=2 # after a kill no rank may wait for the timeout
    : >"$work/out"
    slow=(--jitter 0:25ms) again=(--restarts 5) said="restart 1 of 5: it"
    case $from in
        checkpoint) slow+=(--checkpoint "$work/$k" --checkpoint-every 1) ;;
        [0-9]*) again=(--elastic "$from") said="; generation 2: " ;;
    esac
    TMPDIR=$work/tmp "$program" launch $size --timeout $timeout "${again[@]}" -- "${run[@]}" "${slow[@]}" \
        >"$work/out" 2>"$work/err" &
    launcher=$! all=
    for ((i = 0; i < 2; i++)); do
        for ((j = 0; j < 600; j++)); do # until this attempt trains
            [ "$(grep -c '^step ' "$work/out")" -le $i ] || break
            kill -0 $launcher 2>/dev/null || break
            sleep 0.05
        done
        sleep "0.$(printf %03d $((50 + RANDOM % 400)))"
        pids=($(pgrep -P $launcher)) && all="$all ${pids[*]}"
        [ ${#pids[@]} -gt 0 ] || break # the run was faster
        signal=KILL && [ $how = kill ] || signal=STOP
        kill -$signal "${pids[RANDOM % ${#pids[@]}]}" 2>/dev/null && disturbances=$((disturbances + 1))
    done
    wait $launcher || wrong "run $k ($from $how $size $way): exit status $?"
    [ "$(sha256_of "$work/out")" = "$(sha256_of "$work/whole")" ] || wrong "run $k ($from $how $way): wrong weights"
    grep -q "$said" "$work/err" || wrong "run $k ($from $how $way): it did not continue"
    for pid in $all; do [ ! -d "/proc/$pid" ] || wrong "run $k ($way): process $pid is left behind"; done
    rmdir "$work/tmp" || wrong "run $k ($way): in TMPDIR: $(ls -A "$work/tmp")"
    [ "$(segments)" = "$(cat "$work/shm")" ] || wrong "run $k ($way): in /dev/shm: $(segments)"
done
echo "restarts: $draws runs, disturbed $disturbances times, all ended with the same weights"
