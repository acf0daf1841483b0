#!/usr/bin/env bash
# gpt.sh BUILD: `--model gpt` (4 layers, 4 heads, width 128, nanoGPT's for a CPU) on all kinds of devices, with one
# thread and with two, and the growth of its memory with the context. All runs are made twice, alternately, because a
# machine may be slower for some seconds. The CPU time per sequence is measured over the whole run, because other
# programs on the same cores affect it less than they affect elapsed time.
set -eu
gradsum=$1/gradsum
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
unset OPENBLAS_CORETYPE # gradsum chooses the OpenBLAS kernels that suit the CPU best
TIMEFORMAT='%U %S'

measure() { # DEVICES THREADS STEPS BATCH OPTIONS...
    { time "$gradsum" train --model gpt --data jargon --devices "$1" --threads "$2" --steps "$3" --batch "$4" \
        --epochs 1000000 --tests 0 --lr 0.001 --json "${@:5}" >"$work/out" 2>"$work/err"; } 2>"$work/time" ||
        { cat "$work/err"; exit 1; }
    value() { sed -n "/\"event\":\"end\"/s/.*\"$1\":\([0-9.]*\).*/\1/p" "$work/out"; }
    awk -v what="$1, $2 threads" -v sequences=$(($3 * $4)) -v ms="$(value step_median_ms)" -v batch="$4" \
        -v mb="$(value peak_memory_mb)" '{
            printf "%-22s %9.3f ms a step, %7.1f sequences/s; %7.3f ms of processor a sequence; %.1f MB\n",
            what, ms, 1000 * batch / ms, 1000 * ($1 + $2) / sequences, mb }' "$work/time"
}

for turn in 1 2; do
    measure cpu 1 150 12
    measure cpu 2 150 12
    measure cpu,cpu 1 150 12
    ! "$gradsum" devices | grep -q '^cl:0.0' || measure cl:0.0 1 150 12
done
echo "contexts of 64, 256 and 1024 tokens, one sequence a step:"
for context in 64 256 1024; do measure cpu 2 20 1 --context $context; done
