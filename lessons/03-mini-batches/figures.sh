#!/bin/sh
# The figures of this lesson: sh figures.sh [looks] [all] [seeds] [noise]; without a word all of them, in about ten
# minutes.
. "$(dirname "$0")/../figures.sh"
runs="all --lr 0.05;all --lr 0.5;128 --lr 0.05;8 --lr 0.05 --momentum 0" # batches of softmax

# 1. every look at the test set
wanted looks && {
    $gradsum sweep --batch 16,128,1024 --epochs 5 --threads 1 --json > "$work/sweep" || exit 1
    printf 'set x epochs\nset y test accuracy, %%\nset y_min 30\n'
    for b in 16 128 1024; do
        echo "= both batch $b"
        grep "\"event\":\"run\",\"batch\":$b," "$work/sweep" | sed 's/{"step"/\n{"step"/g' |
            sed -n 's/^{"step":\([0-9]*\),.*"test_accuracy":\([0-9.]*\).*/\1 \2/p' |
            awk '{ printf "%6.2f %6.2f\n", $1 * '$b' / 6000, 100 * $2 }'
    done
} | awk -f lessons/curves.awk > "$here/figure-looks.svg"

# 2. full gradient descent beside mini-batches: the same number of epochs
wanted all && {
    echo "$runs" | tr ';' '\n' | while read -r run; do
        echo "\$ build/gradsum train --model softmax --epochs 10 --threads 1 --batch $run"
        $gradsum train --model softmax --epochs 10 --threads 1 --batch $run | # a line of over 80 columns is folded
            sed -e :a -e '$!N; s/\n  *test/  test/; s/\n  *peak/ peak/; ta' -e 'P; D' |
            grep -E "^epoch (1|2|5|10)/|^done"
    done > "$out/figure-all.txt"
}

# both with 7 seeds: steps to 80 %, and the test accuracy of softmax after each epoch
wanted seeds && {
    COLUMNS=70 $gradsum sweep --batch 16,32,...,2048 --seeds 7 --threads 1 > "$here/figure-sweep-seeds.txt" ||
        exit 1
    COLUMNS=70 $gradsum sweep --batch 16 --lr 0.01 --seeds 7 --threads 1 | grep "^rate\|^ *16" \
        >> "$here/figure-sweep-seeds.txt"
    echo "$runs" | tr ';' '\n' | while read -r run; do
        for seed in 1 2 3 4 5 6 7; do
            echo "--batch $run --seed $seed: $($gradsum train --model softmax --epochs 10 --threads 1 --seed $seed \
                --json --batch $run |
                sed -n 's/^{"event":"epoch".*"test_accuracy":\([0-9.]*\).*/\1/p' | awk '{ printf " %.1f", 100 * $1 }')"
        done
    done > "$out/figure-all-seeds.txt"
}

# 3. how much a mini-batch's gradient scatters
wanted noise && {
    make -s build/lessons/03/experiment && build/lessons/03/experiment > "$work/noise" || exit 1
    awk -f lessons/curves.awk > "$here/figure-noise.svg" << END
set x batch
set y mean squared distance from the whole gradient
set x_log 1
set y_log 1
set y_min 0.001
= dots measured, at the beginning
from $work/noise 1 2 1
= dots measured, after 5 epochs
from $work/noise 1 2 2
= line S / B (1 - B / N), at the beginning
from $work/noise 1 3 1
= dash S / B (1 - B / N), after 5 epochs
from $work/noise 1 3 2
END
}
exit 0
