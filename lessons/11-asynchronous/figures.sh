#!/bin/sh
# Makes the figures of this lesson, in about ten minutes on an idle machine. sh figures.sh [speed] [accuracy]
# [staleness]: only these.
. "$(dirname "$0")/../figures.sh"
of_seeds() { # FIELD ARGUMENTS...: the results of seeds 1 to 5
    field=$1
    shift
    for seed in 1 2 3 4 5; do $gradsum "$@" --seed $seed --json | number "$field"; done
}
median() { sed -n 3p; }
lenet="train --model lenet --threads 1 --devices cpu,cpu,cpu,cpu"
ways="ps:local --every 4:local --every 16:async --staleness 0:async --staleness 1"
ways="$ways:async --staleness 4:async --staleness 16"
each_way() { echo "$ways" | tr : '\n'; }

# 1. speed with a straggler and with hiccups. $work/CONDITION.WAY has a line for each seed.
wanted speed && {
    echo "# gradsum $lenet --epochs 2 \\"
    echo "#     --link 5ms,1GB/s --sync ...: samples/s, the median of seeds 1 to 5; of how many seeds faster than K = 0"
    echo "# straggler: --jitter 3:10ms    hiccups: --jitter 0:100ms@10%,1:100ms@10%,2:100ms@10%,3:100ms@10%"
    echo "# sync                           alone           straggler       hiccups"
    each_way | while read -r sync; do
        run="$lenet --epochs 2 --link 5ms,1GB/s --sync $sync"
        of_seeds samples_per_s $run > "$work/alone.$sync"
        of_seeds samples_per_s $run --jitter 3:10ms > "$work/straggler.$sync"
        of_seeds samples_per_s $run --jitter 0:100ms@10%,1:100ms@10%,2:100ms@10%,3:100ms@10% > "$work/hiccups.$sync"
    done
    each_way | while read -r sync; do
        line=$sync
        for condition in alone straggler hiccups; do
            faster=$(paste "$work/$condition.$sync" "$work/$condition.async --staleness 0" |
                awk '$1 > $2 { n++ } END { print n + 0 }')
            line="$line|$(sort -g "$work/$condition.$sync" | median)|$faster"
        done
        echo "$line"
    done | awk -F'|' '{ printf "  %-26s %8.0f %d of 5 %8.0f %d of 5 %8.0f %d of 5\n", $1, $2, $3, $4, $5, $6, $7 }' |
        sed '/staleness 0/s/0 of 5/      /g; s/ *$//'
} > "$out/figure-speed.txt"

# 2. accuracy: no link, which would only change the order of the gradients
wanted accuracy && {
    echo "# gradsum $lenet --epochs 4 --sync ...: test accuracy in %"
    echo "# sync                       seeds 1, 2, 3, 4, 5          median  lower than ps"
    each_way | while read -r sync; do
        of_seeds test_accuracy $lenet --epochs 4 --sync $sync > "$work/accuracy"
        [ "$sync" = ps ] && cp "$work/accuracy" "$work/ps"
        lower=$(paste "$work/accuracy" "$work/ps" | awk '$1 < $2 { n++ } END { print n + 0 }')
        echo "$sync|$(tr '\n' ' ' < "$work/accuracy")|$(sort -g "$work/accuracy" | median)|$lower"
    done | awk -F'|' '{ split($2, a, " ")
        printf "  %-26s %5.1f %5.1f %5.1f %5.1f %5.1f %8.1f %10s of 5\n",
            $1, 100*a[1], 100*a[2], 100*a[3], 100*a[4], 100*a[5], 100*$3, $4 }'
} > "$out/figure-accuracy.txt"

# 3. the distribution of staleness
wanted staleness && for k in 1 4; do
    run="$lenet --epochs 4 --sync async --staleness $k --jitter 3:20ms"
    $gradsum $run > "$work/run" || exit 1
    echo "\$ gradsum train --model lenet --threads 1 --devices cpu,cpu,cpu,cpu --epochs 4 --sync async"
    echo "      --staleness $k --jitter 3:20ms"
    sed -n '/^stale/,/^mean/p' "$work/run"
    echo
done > "$out/figure-staleness.txt"
exit 0
