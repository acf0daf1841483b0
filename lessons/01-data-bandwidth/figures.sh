#!/bin/sh
# The figures of this lesson, from runs on this machine: sh figures.sh [throttle] [crossover] [disks] [curves]; without
# a word all of them, in about three minutes. The machine should have nothing else to do. $GRADSUM: the program, if it
# is not build/gradsum.
cd "$(dirname "$0")/../.." || exit 1
gradsum=${GRADSUM:-build/gradsum} here=lessons/01-data-bandwidth
number() { grep -o "\"$1\":[0-9.e+-]*" | head -1 | cut -d: -f2; }
best() { # the highest of three: what disturbs a run makes it slower, never faster
    for i in 1 2 3; do "$@" --json | grep '"event":"end"' | number samples_per_s; done | sort -g | tail -1
}

wanted() { [ -z "$words" ] || echo " $words " | grep -q " $1 "; }
words=$*

# 0. as printed
wanted throttle && {
    $gradsum profile --model lenet --threads 1 > "$here/figure-profile.txt" || exit 1
    $gradsum profile --model lenet --threads 1 --throttle 5 > "$here/figure-throttled.txt" || exit 1
}

# 1. a disk of 4 to 32 MB/s beside one step; the best of three, as above
wanted throttle && {
    echo "# gradsum profile --model lenet --threads 1 --throttle X, the best of three runs"
    echo "#               samples/s                            % of the time waiting"
    echo "#   MB/s     loader       step   together  predicted    waits  predicted"
    for x in 4 8 12 16 24 32; do
        for i in 1 2 3; do
            $gradsum profile --model lenet --threads 1 --throttle $x --json > "$here/profile.tmp" || exit 1
            for name in loader_samples_per_s step_samples_per_s together_samples_per_s loader_wait; do
                number $name < "$here/profile.tmp"
            done | paste -s -d' ' | sed "s/^/$x /"
        done
    done | awk '
        $3 > step { step = $3 }
        !($1 in together) { mb[n++] = $1 }
        $2 > loader[$1] { loader[$1] = $2 }
        $4 > together[$1] { together[$1] = $4; waits[$1] = $5 }
        END { for (i = 0; i < n; i++) {
                  x = mb[i]
                  rate = loader[x] < step ? loader[x] : step
                  printf "%8d %10.0f %10.0f %10.0f %10.0f %8.1f %10.1f\n", x, loader[x], step, together[x], rate,
                      100 * waits[x], 100 * (1 - rate / step) } }'
    rm -f "$here/profile.tmp"
} > "$here/figure-throttle.txt"

# 2. one worker, two in one process, two processes over Gloo, for each global batch
wanted crossover && {
    echo "# gradsum train --model lenet --threads 1 --batch B: samples/s, the best of three runs"
    echo "#  batch  1 worker  2 threads  2 processes over Gloo"
    for b in 4 8 16 32 64 128 256 512; do
        steps=$((12288 / b))
        [ $steps -gt 250 ] && steps=250
        run="train --model lenet --threads 1 --epochs 1000 --steps $steps --batch $b"
        one=$(best $gradsum $run)
        two=$(best $gradsum $run --devices cpu,cpu)
        gloo=$(best $gradsum launch -n 2 --transport gloo -- $run)
        printf "%8d %9.0f %10.0f %10.0f\n" $b "$one" "$two" "$gloo"
    done
} > "$here/figure-crossover.txt"

# 3. the disk of each, one disk for all: two workers with half of it each
wanted disks && {
    for disk in 20 10 5; do
        echo "gradsum train --model lenet --threads 1 --epochs 3 ...   (a disk of $disk MB/s)"
        half=$(echo $disk | awk '{ print $1 / 2 }')
        run="train --model lenet --threads 1 --epochs 3"
        for how in "--throttle $disk" "--throttle $disk --devices cpu,cpu" "--throttle $half --devices cpu,cpu"; do
            printf "    %-36s %8.0f samples/s\n" "$how" "$(best $gradsum $run $how)"
        done
    done
} > "$here/figure-disks.txt"

wanted curves || exit 0
command -v gnuplot > /dev/null || { echo "figures.sh: no gnuplot (Debian: gnuplot-nox), so no curves"; exit 0; }
gnuplot << PLOT
set terminal svg size 640,400 font "sans-serif,13" background "white"
set style line 1 lc rgb "#0072B2" lw 2 pt 7 ps 0.6
set style line 2 lc rgb "#D55E00" lw 2 pt 5 ps 0.6
set style line 3 lc rgb "#009E73" lw 2 pt 9 ps 0.7
set style line 4 lc rgb "#666666" lw 1 dt 2
set grid lc rgb "#dddddd"
set key left top

set output "$here/figure-throttle.svg"
set xlabel "loader, MB/s"
set ylabel "samples/s"
set y2label "% of the time waiting"
set y2range [0:100]
set y2tics
set ytics nomirror
set yrange [0:*]
set key center right
plot "$here/figure-throttle.txt" using 1:4 with points ls 1 title "measured, samples/s", \
     "" using 1:5 with lines ls 4 title "min(loader, step)", \
     "" using 1:6 axes x1y2 with points ls 2 title "measured, waiting", \
     "" using 1:7 axes x1y2 with lines ls 4 dt 3 title "1 - min(loader, step) / step"

set output "$here/figure-crossover.svg"
unset y2label
unset y2tics
set ytics mirror
set logscale xy 2
set yrange [*:*]
set xtics 4,2,512
set format y "%.0f"
set xlabel "global batch"
set ylabel "samples/s"
set key right bottom
plot "$here/figure-crossover.txt" using 1:2 with linespoints ls 1 title "1 worker", \
     "" using 1:3 with linespoints ls 3 title "2 workers, threads", \
     "" using 1:4 with linespoints ls 2 title "2 workers, processes over Gloo"
PLOT
