#!/bin/sh
# The figures of this lesson, from runs on this machine: sh figures.sh [sweeps] [rates] [warmup] [losses] [curves];
# without a word all of them, in about twelve minutes. $GRADSUM: the program, if it is not build/gradsum.
cd "$(dirname "$0")/../.." || exit 1
gradsum=${GRADSUM:-build/gradsum} here=lessons/09-global-batch
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
words=$*
wanted() { [ -z "$words" ] || echo " $words " | grep -q " $1 "; }
export COLUMNS=70 # without the column `seconds`, which are another machine's

# The table that a sweep prints: FILE OPTIONS...
sweep() {
    file=$1
    shift
    { echo "\$ gradsum sweep $*"; $gradsum sweep "$@" --threads 1; } > "$here/$file" || exit 1
}
batches="--batch 32,64,...,2048 --seeds 7 --lr 0.0125"
wanted sweeps && {
    sweep figure-none.txt $batches
    sweep figure-linear.txt $batches --lr-rule linear --base-batch 32
    sweep figure-sqrt.txt $batches --lr-rule sqrt --base-batch 32
}

# One batch, three rates
wanted rates && {
    for lr in 0.1 0.2 0.3; do
        echo "\$ gradsum sweep --batch 1024 --seeds 5 --lr $lr"
        $gradsum sweep --batch 1024 --seeds 5 --lr $lr --threads 1 > "$work/sweep" || exit 1
        sed -n '/^  batch/,/^$/p' "$work/sweep"
    done
} > "$here/figure-rates.txt"

# A warm-up, where it is of no use and where nothing works without it
warmup() { # FILE, MODEL AS TYPED, OPTIONS...
    file=$1 model=$2
    shift 2
    for warmup in 0 1 2; do
        eval "$gradsum sweep --model $model $* --warmup $warmup --threads 1" > "$work/sweep" || exit 1
        echo "\$ gradsum sweep --model $model $* --warmup $warmup"
        sed -n '/^  batch/,/^$/p' "$work/sweep"
    done > "$here/$file"
}
rule="--seeds 7 --lr-rule linear --base-batch 32"
wanted warmup && {
    warmup figure-warmup-deep.txt "\"\$(cat $here/deep.txt)\"" --batch 64,128,256,512 $rule --lr 0.04
    warmup figure-warmup-mlp.txt mlp --batch 256,512,1024 $rule --lr 0.0125
}

# The losses of the deep network's first steps, without a warm-up and with one, and that of step 24
wanted losses && {
    deep="--batch 256 --lr 0.04 --lr-rule linear --base-batch 32 --steps 24 --threads 1"
    for warmup in 0 2; do
        echo "\$ gradsum train --model \"\$(cat $here/deep.txt)\" $deep --warmup $warmup --seed S"
        echo "           step 1     2     3     4     5     6      24"
        for seed in 1 2 3 4 5; do
            rm -rf "$work/log"
            $gradsum train --model "$(cat $here/deep.txt)" $deep --warmup $warmup --seed $seed --log "$work/log" \
                > "$work/out" || exit 1
            grep -o '"loss":[0-9.]*' "$work/log/metrics.jsonl" | cut -d: -f2 | head -24 |
                awk -v seed=$seed 'BEGIN { printf "seed %s   ", seed }
                    NR <= 6 { printf " %5.2f", $1 } END { printf "   %5.2f\n", $1 }'
        done
    done
} > "$here/figure-losses.txt"

wanted curves || exit 0

command -v gnuplot > /dev/null || { echo "figures.sh: no gnuplot (Debian: gnuplot-nox), so no curves"; exit 0; }
for rule in none linear sqrt; do # batch, median steps, least, most
    sed -n 's/^ *\([0-9]*\) *[0-9.e-]* *[0-9]*\/[0-9]* *\([0-9.]*\) *\([0-9]*\)-\([0-9]*\) .*/\1 \2 \3 \4/p' \
        "$here/figure-$rule.txt" > "$work/$rule"
done
gnuplot << PLOT
set terminal svg size 640,400 font "sans-serif,13" background "white"
set output "$here/figure-steps.svg"
set style line 1 lc rgb "#0072B2" lw 2 pt 7 ps 0.7
set style line 2 lc rgb "#D55E00" lw 2 pt 5 ps 0.7
set style line 3 lc rgb "#009E73" lw 2 pt 9 ps 0.8
set style line 4 lc rgb "#666666" lw 1 dt 2
set grid lc rgb "#dddddd"
set logscale xy 2
set xrange [24:2800]
set yrange [4:1024]
set xtics 32,2,2048
set xlabel "global batch"
set ylabel "steps to 80 %: median of 7 seeds, least to most"
set fit quiet nolog
least = 20
samples = 7000
law(x) = least + samples / x
fit law(x) "$work/linear" using 1:2:2 yerrors via least, samples
stats "$work/linear" using 2 every ::0::0 nooutput name "base"
plot "$work/none" using (\$1 * 0.96):2:3:4 with yerrorlines ls 3 title "the same rate for all", \
     "$work/sqrt" using (\$1 * 1.04):2:3:4 with yerrorlines ls 2 title "sqrt", \
     "$work/linear" using 1:2:3:4 with yerrorbars ls 1 title "linear", \
     law(x) ls 1 lw 1 title sprintf("%.1f + %.0f / batch", least, samples), \
     base_max * 32 / x ls 4 title "ideal: twice the batch, half the steps", \
     "+" using (samples / least):(law(samples / least)):(0):(-3) every ::0::0 with points pt 6 ps 1.4 lc rgb "#0072B2" \
         title sprintf("critical batch %.0f", samples / least)
PLOT
