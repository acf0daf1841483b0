#!/bin/sh
# The figures of this lesson, from runs on this machine, in about a minute. The machine should have nothing else to do.
# sh figures.sh [slow] [staleness]: only these. $GRADSUM: the program, if it is not build/gradsum.
cd "$(dirname "$0")/../.." || exit 1
gradsum=${GRADSUM:-build/gradsum} here=lessons/11-asynchronous
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
number() { grep '"event":"end"' | grep -o "\"$1\":[0-9.e+-]*" | head -1 | cut -d: -f2; }
best() { # the highest of three: what disturbs a run makes it slower, never faster
    for i in 1 2 3; do $gradsum "$@" --json | number samples_per_s; done | sort -g | tail -1
}
words=$*
wanted() { [ -z "$words" ] || echo " $words " | grep -q " $1 "; }

# 1. one slow worker among four: speed and accuracy of each way to wait
wanted slow && {
    echo "# gradsum train --model lenet --threads 1 --devices cpu,cpu,cpu,cpu --epochs 4 --sync ...: the best of"
    echo "# three; and the same with --slow 3:20, one run, with its test accuracy"
    echo "# sync                       samples/s  with --slow 3:20  test accuracy, %"
    for sync in "ps" "local --every 4" "local --every 16" "async --staleness 0" "async --staleness 1" "async --staleness 4" \
                "async --staleness 16"; do
        run="train --model lenet --threads 1 --devices cpu,cpu,cpu,cpu --epochs 4 --sync $sync"
        fast=$(best $run)
        $gradsum $run --slow 3:20 --json > "$work/run" || exit 1
        echo "$sync|$fast|$(number samples_per_s < "$work/run")|$(number test_accuracy < "$work/run")"
    done | awk -F'|' '{ printf "  %-26s %10.0f %17.0f %17.1f\n", $1, $2, $3, 100 * $4 }'
} > "$here/figure-slow.txt"

# 2. the distribution of staleness
wanted staleness && for k in 1 4; do
    $gradsum train --model lenet --threads 1 --devices cpu,cpu,cpu,cpu --epochs 4 --sync async --staleness $k --slow 3:20 \
        > "$work/run" || exit 1
    echo "\$ gradsum train --model lenet --threads 1 --devices cpu,cpu,cpu,cpu --epochs 4 --sync async"
    echo "      --staleness $k --slow 3:20"
    sed -n '/^stale/,/^mean/p' "$work/run"
    echo
done > "$here/figure-staleness.txt"
