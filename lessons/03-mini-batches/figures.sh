#!/bin/sh
# The figures of this lesson, from runs on this machine: sh figures.sh [sweep] [all] [seeds] [noise] [curves];
# without a word all of them, in about ten minutes. $GRADSUM: the program, if it is not build/gradsum.
cd "$(dirname "$0")/../.." || exit 1
gradsum=${GRADSUM:-build/gradsum} here=lessons/03-mini-batches
wanted() { [ -z "$words" ] || echo " $words " | grep -q " $1 "; }
words=$*
runs="all --lr 0.05;all --lr 0.5;128 --lr 0.05;8 --lr 0.05 --momentum 0" # batches of softmax

# 1. steps, epochs and seconds to 80 %, for each batch
wanted sweep && {
    $gradsum sweep --model mlp --batch 16,32,...,2048 --target 80 --threads 1 > "$here/figure-sweep.txt" || exit 1
    # the same as JSON: every look at the test set, as "batch epoch accuracy"
    $gradsum sweep --batch 16,128,1024 --epochs 5 --threads 1 --json > "$here/sweep.tmp" || exit 1
    for b in 16 128 1024; do
        echo "# batch $b: epoch, test accuracy in %"
        grep "\"event\":\"run\",\"batch\":$b," "$here/sweep.tmp" | sed 's/{"step"/\n{"step"/g' |
            sed -n 's/^{"step":\([0-9]*\),.*"test_accuracy":\([0-9.]*\).*/\1 \2/p' |
            awk '{ printf "%6.2f %6.2f\n", $1 * '$b' / 6000, 100 * $2 }'
        echo; echo
    done > "$here/figure-looks.txt"
    rm -f "$here/sweep.tmp"
}

# 2. full gradient descent beside mini-batches: the same number of epochs
wanted all && {
    echo "$runs" | tr ';' '\n' | while read -r run; do
        echo "\$ build/gradsum train --model softmax --epochs 10 --threads 1 --batch $run"
        $gradsum train --model softmax --epochs 10 --threads 1 --batch $run | # a line of over 80 columns is folded
            sed -e :a -e '$!N; s/\n  *test/  test/; s/\n  *peak/ peak/; ta' -e 'P; D' |
            grep -E "^epoch (1|2|5|10)/|^done"
    done > "$here/figure-all.txt"
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
    done > "$here/figure-all-seeds.txt"
}

# 3. how much a mini-batch's gradient scatters
wanted noise && {
    make -s build/lessons/03/experiment && build/lessons/03/experiment > "$here/figure-noise.txt" || exit 1
    build/lessons/03/experiment seeds > "$here/figure-noise-seeds.txt" || exit 1
}

wanted curves || exit 0
command -v gnuplot > /dev/null || { echo "figures.sh: no gnuplot (Debian: gnuplot-nox), so no curves"; exit 0; }
gnuplot << PLOT
set terminal svg size 640,400 font "sans-serif,13" background "white"
set style line 1 lc rgb "#0072B2" lw 2 pt 7 ps 0.6
set style line 2 lc rgb "#D55E00" lw 2 pt 5 ps 0.6
set style line 3 lc rgb "#009E73" lw 2 pt 9 ps 0.7
set grid lc rgb "#dddddd"

set output "$here/figure-noise.svg"
set logscale xy
set format y "10^{%T}"
set xlabel "batch"
set ylabel "mean squared distance from the whole gradient"
set yrange [0.001:*]
plot "$here/figure-noise.txt" index 0 using 1:2 with points ls 1 title "measured, at the beginning", \
     "" index 0 using 1:3 with lines ls 1 lw 1 title "S / B (1 - B / N)", \
     "" index 1 using 1:2 with points ls 2 title "measured, after 5 epochs", \
     "" index 1 using 1:3 with lines ls 2 lw 1 dt 2 title "S / B (1 - B / N)"

set output "$here/figure-looks.svg"
unset logscale
set format y "%g"
set yrange [30:90]
set xlabel "epochs"
set ylabel "test accuracy, %"
set key right bottom
plot "$here/figure-looks.txt" index 0 using 1:2 with linespoints ls 2 title "batch 16", \
     "" index 1 using 1:2 with linespoints ls 1 title "batch 128", \
     "" index 2 using 1:2 with linespoints ls 3 title "batch 1024"
PLOT
