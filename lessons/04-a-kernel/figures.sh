#!/bin/sh
# The figures of this lesson, from runs on this machine: sh figures.sh [FILE.cl]. The kernels are those of FILE.cl (from
# the top of the source tree), or of solution.cl, or else of lab.cl. Takes half a minute, in which nothing else should
# run.
cd "$(dirname "$0")/../.." || exit 1
here=lessons/04-a-kernel
kernels=$here/solution.cl
[ -f "$kernels" ] || kernels=$here/lab.cl
make -s build/lessons/04/experiment LAB="${1:-$kernels}" || exit 1
build/lessons/04/experiment > "$here/figure-ladder.txt" || exit 1

command -v gnuplot > /dev/null || { echo "figures.sh: no gnuplot (Debian: gnuplot-nox), so no picture"; exit 0; }
peak=$(sed -n 's/^# peak \([0-9.]*\).*/\1/p' "$here/figure-ladder.txt")
# name and GFLOP/s at the largest N
sed -n 's/ %//g; s/^   //p' "$here/figure-ladder.txt" |
    awk -v OFS='\t' '{ split($0, w, /  +/); print "\"" w[1] "\"", $(NF - 1) }' > "$here/figure.tmp"
gnuplot << PLOT
set terminal svg size 640,300 font "sans-serif,13" background "white"
set output "$here/figure-ladder.svg"
set logscale x
set xrange [0.5:$peak * 2]
set yrange [4.6:-0.8]
set xlabel "GFLOP/s, N = 960 (logarithmic)"
set ytics nomirror
set grid lc rgb "#dddddd"
set arrow 1 from $peak, 4.6 to $peak, -0.8 nohead lc rgb "#D55E00" lw 2
set label 1 "peak " at $peak, -0.5 right tc rgb "#D55E00"
set datafile separator "\t"
plot "$here/figure.tmp" using 2:0:ytic(1) with points pt 7 ps 1 lc rgb "#0072B2" notitle, \
     "" using 2:0:(sprintf("%.1f  ", \$2)) with labels right notitle
PLOT
rm -f "$here/figure.tmp"
