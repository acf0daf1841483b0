#!/bin/sh
# The figures of this lesson, from runs on this machine, in about two minutes. The machine should have nothing else to do.
# sh figures.sh [buckets] [wire]: only these. $GRADSUM: the program, if it is not build/gradsum.
cd "$(dirname "$0")/../.." || exit 1
gradsum=${GRADSUM:-build/gradsum} here=lessons/10-hiding-communication
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
number() { grep '"event":"end"' | grep -o "\"$1\":[0-9.e+-]*" | head -1 | cut -d: -f2; }
words=$*
wanted() { [ -z "$words" ] || echo " $words " | grep -q " $1 "; }

# The fastest of three runs: what disturbs one makes it slower, never faster. Its last event goes to $work/run.
fastest() {
    for i in 1 2 3; do
        $gradsum "$@" --json | grep '"event":"end"' > "$work/run.$i" || exit 1
        echo "$(number samples_per_s < "$work/run.$i") $i"
    done | sort -g | tail -1 | { read -r speed i && cp "$work/run.$i" "$work/run"; }
}

# 1. the hidden share by the size of buckets
wanted buckets && {
    echo "# gradsum launch -n 2 --transport gloo -- train --model cnn --sync ring --threads 1 --steps 20 --bucket KB"
    echo "# the fastest of three runs"
    echo "#     KB  buckets  ms in sums  ms waited for  hidden %  samples/s"
    for kb in 1 16 1024 100000; do
        fastest launch -n 2 --transport gloo -- train --model cnn --sync ring --threads 1 --steps 20 --bucket $kb
        echo "$kb $(number buckets < "$work/run") $(number buckets_summed_ms < "$work/run")" \
            "$(number buckets_waited_ms < "$work/run") $(number samples_per_s < "$work/run")"
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
                --seed $seed --json > "$work/run" || exit 1
            line="$line $(number test_accuracy < "$work/run")"
        done
        echo "$wire $(number sent_bytes_a_step < "$work/run") $(number samples_per_s < "$work/run") $line"
    done | awk '{ printf "%7s %13.0f %10.0f  %.2f %.2f %.2f\n", $1, $2, $3, 100 * $4, 100 * $5, 100 * $6 }'
} > "$here/figure-wire.txt"
