#!/bin/sh
# The figures of this lesson, from runs on this machine, in about two minutes. The machine should have nothing else to
# do. sh figures.sh [buckets] [wire]: only these. $GRADSUM: the program, if it is not build/gradsum.
cd "$(dirname "$0")/../.." || exit 1
gradsum=${GRADSUM:-build/gradsum} here=lessons/10-hiding-communication
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
number() { grep '"event":"end"' | grep -o "\"$1\":[0-9.e+-]*" | head -1 | cut -d: -f2; }
words=$*
wanted() { [ -z "$words" ] || echo " $words " | grep -q " $1 "; }

# 1. the hidden share by the size of buckets. Of five rounds the fastest run of each: what disturbs one makes it slower,
# never faster. 0: without buckets.
wanted buckets && {
    for round in 1 2 3 4 5; do
        for kb in 0 100000 1024 16 1; do
            bucket=$([ $kb = 0 ] || echo "--bucket $kb")
            $gradsum launch -n 2 --transport gloo -- train --model cnn --sync ring --threads 1 --steps 16 $bucket --json |
                grep '"event":"end"' > "$work/run" || exit 1
            echo "$(number samples_per_s < "$work/run") $kb $(number buckets < "$work/run")" \
                "$(number buckets_summed_ms < "$work/run") $(number buckets_waited_ms < "$work/run")"
        done
    done > "$work/rounds"
    echo "# gradsum launch -n 2 --transport gloo -- train --model cnn --sync ring --threads 1 --steps 16 --bucket KB"
    echo "# of five rounds the fastest run of each"
    echo "#     KB  buckets  ms in sums  ms waited for  hidden %  samples/s"
    for kb in 0 100000 1024 16 1; do
        awk -v kb=$kb '$2 == kb' "$work/rounds" | sort -g | tail -1
    done | awk '$2 == 0 { printf "    none %46s %9.0f\n", "", $1; next }
                { printf "%8d %8d %11.2f %14.2f %9.0f %10.0f\n", $2, $3, $4, $5, $5 < $4 ? 100 * (1 - $5 / $4) : 0, $1 }'
} > "$here/figure-buckets.txt"

# 2. bits on the wire: bytes, speed between two processes over Gloo, and accuracy
wanted wire && {
    echo "# gradsum launch -n 2 --transport gloo -- train --model mlp --sync ring --threads 1 --epochs 5 --wire W"
    echo "#  wire  bytes a step  samples/s  test accuracy, seeds 1, 2, 3"
    for wire in f32 f16 bf16; do
        line=
        for seed in 1 2 3; do
            $gradsum launch -n 2 --transport gloo -- train --model mlp --sync ring --threads 1 --epochs 5 --wire $wire \
                --seed $seed --json > "$work/run" || exit 1
            line="$line $(number test_accuracy < "$work/run")"
        done
        echo "$wire $(number sent_bytes_a_step < "$work/run") $(number samples_per_s < "$work/run") $line"
    done | awk '{ printf "%7s %13.0f %10.0f  %.2f %.2f %.2f\n", $1, $2, $3, 100 * $4, 100 * $5, 100 * $6 }'
} > "$here/figure-wire.txt"
exit 0
