#!/bin/sh
# The figures of this lesson, from runs on this machine, in about two minutes. The machine should have nothing else to do.
# sh figures.sh [buckets] [wire] [curves]: only these. $GRADSUM: the program, if it is not build/gradsum.
cd "$(dirname "$0")/../.." || exit 1
gradsum=${GRADSUM:-build/gradsum} here=lessons/10-hiding-communication
number() { grep '"event":"end"' | grep -o "\"$1\":[0-9.e+-]*" | head -1 | cut -d: -f2; }
words=$*
wanted() { [ -z "$words" ] || echo " $words " | grep -q " $1 "; }

# 1. the hidden share by the size of buckets
wanted buckets && {
    echo "# gradsum launch -n 2 --transport gloo -- train --model cnn --sync ring --threads 1 --steps 30 --bucket KB"
    echo "#     KB  buckets  ms in sums  ms waited for  hidden %  samples/s"
    for kb in 1 16 1024 4096 100000; do
        $gradsum launch -n 2 --transport gloo -- train --model cnn --sync ring --threads 1 --steps 30 --bucket $kb --json \
            > "$here/run.tmp" || exit 1
        echo "$kb $(number buckets < "$here/run.tmp") $(number buckets_summed_ms < "$here/run.tmp")" \
            "$(number buckets_waited_ms < "$here/run.tmp") $(number samples_per_s < "$here/run.tmp")"
    done | awk '{ hidden = $4 < $3 ? 100 * (1 - $4 / $3) : 0
                  printf "%8d %8d %11.2f %14.2f %9.0f %10.0f\n", $1, $2, $3, $4, hidden, $5 }'
} > "$here/figure-buckets.txt"

# 2. bits on the wire: bytes, speed between two processes over Gloo, and accuracy
wanted wire && {
    echo "# gradsum launch -n 2 --transport gloo -- train --model mlp --sync ring --threads 1 --epochs 5 --wire W"
    echo "#  wire  bytes a step  samples/s  test accuracy, seeds 1, 2, 3"
    for wire in f32 f16 bf16; do
        line=
        for seed in 1 2 3; do
            $gradsum launch -n 2 --transport gloo -- train --model mlp --sync ring --threads 1 --epochs 5 --wire $wire \
                --seed $seed --json > "$here/run.tmp" || exit 1
            line="$line $(number test_accuracy < "$here/run.tmp")"
        done
        echo "$wire $(number sent_bytes_a_step < "$here/run.tmp") $(number samples_per_s < "$here/run.tmp") $line"
    done | awk '{ printf "%7s %13.0f %10.0f  %.2f %.2f %.2f\n", $1, $2, $3, 100 * $4, 100 * $5, 100 * $6 }'
} > "$here/figure-wire.txt"
rm -f "$here/run.tmp"
