#!/bin/sh
# The figures of this lesson, from runs on this machine, in one or two minutes. $GRADSUM: the program, if it is not
# build/gradsum.
cd "$(dirname "$0")/../.." || exit 1
gradsum=${GRADSUM:-build/gradsum} here=lessons/09-global-batch
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# What a sweep prints, without the seconds, which are another machine's: FILE OPTIONS...
sweep() {
    file=$1
    shift
    { echo "\$ gradsum sweep $*"; $gradsum sweep "$@"; } > "$here/$file" || exit 1
}
batches="--batch 32,64,...,2048 --threads 1"
sweep figure-none.txt $batches --lr 0.0125
sweep figure-linear.txt $batches --lr 0.0125 --lr-rule linear --base-batch 32
sweep figure-sqrt.txt $batches --lr 0.0125 --lr-rule sqrt --base-batch 32
for warmup in 0 1 2; do
    $gradsum sweep --model lenet --batch 64,128,256,512 --threads 1 --lr 0.0125 --lr-rule linear --base-batch 32 \
        --warmup $warmup > "$work/sweep" || exit 1
    echo "\$ gradsum sweep --model lenet --batch 64,128,256,512 --threads 1 --lr 0.0125 --lr-rule linear"
    echo "      --base-batch 32 --warmup $warmup"
    sed -n '/^  batch/,/^$/p' "$work/sweep"
done > "$here/figure-warmup.txt"

command -v gnuplot > /dev/null || { echo "figures.sh: no gnuplot (Debian: gnuplot-nox), so no curves"; exit 0; }
for rule in none linear sqrt; do # batch, steps
    awk '/^ *[0-9]+ +[0-9]+\.[0-9]+ +[0-9,]+ / { gsub(",", ""); print $1, $3 }' "$here/figure-$rule.txt" > "$work/$rule"
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
set ylabel "steps to 80 %"
set fit quiet nolog
least = 20
samples = 7000
law(x) = least + samples / x
fit law(x) "$work/linear" using 1:2:2 yerrors via least, samples
set label sprintf("critical batch %.0f", samples / least) at samples / least, law(samples / least) * 1.25
plot "$work/none" with linespoints ls 3 title "the same rate for all", \
     "$work/sqrt" with linespoints ls 2 title "sqrt", \
     "$work/linear" with points ls 1 title "linear", \
     law(x) ls 1 lw 1 title sprintf("%.1f + %.0f / batch", least, samples), \
     235.0 * 32 / x ls 4 title "ideal: twice the batch, half the steps", \
     "+" using (samples / least):(law(samples / least)):(0):(-3) every ::0::0 with points pt 6 ps 1.2 lc rgb "#0072B2" notitle
PLOT
