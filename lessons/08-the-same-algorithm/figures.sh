#!/bin/sh
# The figures of this lesson: sh figures.sh [bits] [drift] [seeds] [curves]; without a word all of them, in about five
# minutes on two cores.
. "$(dirname "$0")/../figures.sh"

# 1. what the runs of the experiment print
wanted bits && {
    for mode in "" " --exact"; do
        for devices in cpu cpu,cpu cpu,cpu,cpu,cpu; do
            run="train --model lenet --epochs 2 --threads 1 --devices $devices$mode"
            echo "\$ gradsum $run"
            $gradsum $run > "$work/out" || exit 1
            sed -n 's/  *[0-9,]* samples.s$//; /^epoch 2/p; /^weights/p' "$work/out"
        done
    done
} > "$out/figure-bits.txt"

# 2. how far apart the weights of 1 and of 4 workers are, after so many steps
weights() { # FILE: its floats, one a line; the first 8 bytes are the length of the text before them
    length=$(od -An -tu8 -N8 "$1" | tr -d ' ')
    od -An -v -w4 -tf4 -j $((8 + length)) "$1"
}
after() { # STEPS FILE OPTIONS...
    steps=$1 file=$2
    shift 2
    $gradsum train --model "$model" --epochs 1000 --threads 1 --steps $steps --save "$work/$file" "$@" \
        > "$work/out" || exit 1
    weights "$work/$file" > "$work/$file.txt"
}
largest() { # the largest difference of two columns
    paste "$work/$1.txt" "$work/$2.txt" |
        awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > most) most = d } END { print most + 0 }'
}
smooth="conv 6 5x5 pad 2, tanh, avg_pool 2, conv 16 5x5, tanh, avg_pool 2, flatten"
smooth="$smooth, linear 120, tanh, linear 84, tanh, linear 10"
wanted drift && {
    echo "# largest difference of any weight from those of 1 worker, after so many steps"
    echo "# lenet, but for \`smooth\`: tanh for relu, average for largest"
    echo "#          4 workers  1 worker in   4 workers   4 workers,     1 worker,"
    echo "# steps                  2 passes      smooth  --exact both     --seed 2"
    for steps in 1 2 5 10 20 50 100 200 400; do
        model=$smooth
        after $steps smooth1
        after $steps smooth4 --devices cpu,cpu,cpu,cpu
        model=lenet
        after $steps one
        after $steps four --devices cpu,cpu,cpu,cpu
        after $steps cut --accumulate 2
        after $steps seed --seed 2
        after $steps exact1 --exact
        after $steps exact4 --exact --devices cpu,cpu,cpu,cpu
        echo "$steps $(largest one four) $(largest one cut) $(largest smooth1 smooth4) $(largest exact1 exact4)" \
            "$(largest one seed)"
    done | awk '{ printf "%7d %12.1e %12.1e %11.1e %13.1e %12.1e\n", $1, $2, $3, $4, $5, $6 }'
} > "$out/figure-drift.txt"

# 3. both with five seeds: the accuracies of 1, 2 and 4 workers, and how far apart the weights are
wanted seeds && {
    echo "# gradsum train --model lenet --epochs 2 --threads 1 --seed S --devices cpu,...: test accuracy in %"
    echo "# seed  1 worker  2 workers  4 workers  most - least"
    for seed in 1 2 3 4 5; do
        echo $seed
        for devices in cpu cpu,cpu cpu,cpu,cpu,cpu; do
            $gradsum train --model lenet --epochs 2 --threads 1 --seed $seed --devices $devices |
                sed -n 's/^done.*accuracy \([0-9.]*\) %.*/\1/p'
        done
    done | paste - - - - | awk '{
        least = most = $2
        for (i = 3; i <= 4; i++) { if ($i < least) least = $i; if ($i > most) most = $i }
        printf "%6d %9.2f %10.2f %10.2f %13.2f\n", $1, $2, $3, $4, most - least }'
} > "$here/figure-bits-seeds.txt"
wanted seeds && {
    model=lenet
    echo "# lenet: largest difference of any weight from those of 1 worker with the same seed, after so many steps"
    echo "#       ------------ 4 workers -----------   ------ 1 worker in 2 passes -----"
    echo "# seed   5 steps        50       400           5 steps        50       400"
    for seed in 1 2 3 4 5; do
        echo $seed
        for steps in 5 50 400; do
            after $steps one --seed $seed
            after $steps four --devices cpu,cpu,cpu,cpu --seed $seed
            after $steps cut --accumulate 2 --seed $seed
            echo "$(largest one four) $(largest one cut)"
        done
    done | paste - - - - |
        awk '{ printf "%6d %9.1e %9.1e %9.1e %17.1e %9.1e %9.1e\n", $1, $2, $4, $6, $3, $5, $7 }'
} > "$here/figure-drift-seeds.txt"

wanted curves || exit 0
awk -f lessons/curves.awk > "$here/figure-drift.svg" << END
set x steps
set y largest difference of any weight
set x_log 1
set y_log 1
set y_min 1e-9
set y_max 10
= both 4 workers
from $out/figure-drift.txt 1 2
= both 4 workers, smooth network
from $out/figure-drift.txt 1 4
= both 1 worker, another seed
from $out/figure-drift.txt 1 6
END
