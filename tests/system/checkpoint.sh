#!/usr/bin/env bash
# checkpoint.sh PROGRAM: runs that write checkpoints as often as possible are killed (SIGKILL) at random times and
# resume from their folder until all steps are done. Each must end with the weights of a run that was never killed, and
# leave only checkpoints in its folder.
#   KILL_DRAWS=N   how many runs (8; "all": 24); KILL_SEED=S their seed, which is printed
set -u
program=$(realpath "$1")
draws=${KILL_DRAWS:-8} seed=${KILL_SEED:-$((RANDOM * 32768 + RANDOM))}
[ "$draws" != all ] || draws=24
STEPS=40
unset GRADSUM_RANK GRADSUM_WORLD_SIZE GRADSUM_RENDEZVOUS GRADSUM_TIMEOUT GRADSUM_TRANSPORT
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
RANDOM=$((seed % 32768))
echo "checkpoint: seed $seed (KILL_SEED)"

ways=("train --threads 1 --optimizer adam" "launch -n 2 -- train --zero 2" "train --devices cpu,cpu --pipeline 2"
      "launch -n 2 -- train --exact --tensor 2" "train --devices cpu,cpu --sync local --every 3")

wrong() { echo "checkpoint: WRONG: $*"; exit 1; }
sha256_of() { sed -n 's/^weights *sha256 *//p' "$1"; }

# The process that writes: in a launch, rank 0's.
writer_of() {
    local pid
    for pid in $(pgrep -P "$1") "$1"; do
        { tr '\0' '\n' <"/proc/$pid/environ"; } 2>/dev/null | grep -qx 'GRADSUM_RANK=0' && { echo "$pid"; return; }
    done
    echo "$1"
}

kills=0
for ((k = 0; k < draws; k++)); do
    run=(${ways[k % ${#ways[@]}]} --model "flatten, linear 64, tanh, linear 10" --batch 600 --epochs 9 --steps $STEPS)
    "$program" "${run[@]}" >"$work/whole" 2>&1 || wrong "$(cat "$work/whole")"
    folder=$work/$k
    for ((try = 0; try < 30; try++)); do
        "$program" "${run[@]}" --jitter 0:8ms --checkpoint "$folder" --resume "$folder" --checkpoint-every 1 --keep 2 \
            >"$work/out" 2>"$work/err" &
        pid=$!
        if [ "$try" -lt 3 ]; then
            sleep "0.$(printf %03d $((80 + RANDOM % 400)))"
            kill -KILL "$(writer_of $pid)" 2>/dev/null && kills=$((kills + 1))
        fi
        wait $pid 2>/dev/null && break
        [ "$try" -lt 3 ] || wrong "run $k, try $try: $(cat "$work/err")"
    done
    [ "$(sha256_of "$work/out")" = "$(sha256_of "$work/whole")" ] || wrong "run $k (${run[*]}): the weights differ"
    ls "$folder" | grep -vE '^step-[0-9]{9}\.(json|safetensors)$' && wrong "run $k: unexpected files in its folder"
    [ "$(ls "$folder" | wc -l)" -le 4 ] || wrong "run $k: more than two checkpoints: $(ls "$folder")"
done
echo "checkpoint: $draws runs, killed $kills times, all ended with the same weights"
