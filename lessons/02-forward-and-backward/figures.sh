#!/bin/sh
# The figures of this lesson, from runs on this machine: sh figures.sh. Takes some seconds. $GRADSUM: the program, if it
# is not build/gradsum.
cd "$(dirname "$0")/../.." || exit 1
gradsum=${GRADSUM:-build/gradsum} here=lessons/02-forward-and-backward

$gradsum model mlp > "$here/figure-model.txt" || exit 1
$gradsum profile --model mlp --threads 1 > "$here/figure-profile.txt" || exit 1
make -s build/lessons/02/experiment && build/lessons/02/experiment > "$here/figure-differences.txt" || exit 1
build/lessons/02/experiment seeds > "$here/figure-seeds.txt" || exit 1
build/lessons/02/experiment wrong > "$here/figure-wrong.txt" || exit 1

command -v gnuplot > /dev/null || { echo "figures.sh: no gnuplot (Debian: gnuplot-nox), so no curves"; exit 0; }
gnuplot << PLOT
set terminal svg size 640,400 font "sans-serif,13" background "white"
set style line 1 lc rgb "#0072B2" lw 2 pt 7 ps 0.6
set style line 2 lc rgb "#D55E00" lw 2 pt 5 ps 0.6
set grid lc rgb "#dddddd"
set output "$here/figure-differences.svg"
set logscale xy
set format "10^{%T}"
set xlabel "h"
set ylabel "how far off, as a part of the gradient"
set key center top
plot "$here/figure-differences.txt" using 1:2 with linespoints ls 2 title "one-sided", \
     "" using 1:3 with linespoints ls 1 title "central"
PLOT
