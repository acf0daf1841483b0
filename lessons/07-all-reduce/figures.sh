#!/bin/sh
# figures.sh: makes the figures of this folder again. Run it from the source tree, on a machine that does nothing else.
set -eu
gradsum=${GRADSUM:-build/gradsum}
here=$(dirname "$0")

figure() { # NAME COMMAND...: what is typed, and what is printed
    name=$1
    shift
    { echo "\$ gradsum $*"; "$gradsum" "$@"; } >"$here/figure-$name.txt"
}

figure ring step --sync ring --workers 4 --size 8 --no-pause
figure link schemes -n 8 --link 5ms,125MB/s
figure threads schemes -n 8
{
    $gradsum collectives -n 4 --size 1048576 --link 5ms,125MB/s 2>/dev/null | sed -n '1,/^barrier/p' > "$here/all"
    echo "\$ gradsum collectives -n 4 --size 1048576 --link 5ms,125MB/s"
    cat "$here/all"
    rm -f "$here/all"
} >"$here/figure-collectives.txt"

command -v gnuplot >/dev/null || { echo "figures.sh: without gnuplot no curves" >&2; exit 0; }
data=$(mktemp -d)
trap 'rm -rf "$data"' EXIT
# The table's own figures, so that table and picture are of one run.
for scheme in ps ring recursive_doubling halving_doubling; do
    awk -v scheme=$scheme 'BEGIN { split("1024 16384 262144 2097152 16777216", bytes, " ") }
        $1 == scheme { for (i = 1; i <= 5; i++) print bytes[i], ($(i + 1) + 0) / 1000 }' "$here/figure-link.txt" \
            >"$data/$scheme"
done
gnuplot <<END
set terminal svg size 720,440 font "sans,13" noenhanced background "white"
set output "$here/crossing.svg"
set logscale xy
set xlabel "bytes of the array"
set ylabel "milliseconds for one sum"
set xtics ("1 KB" 1024, "16 KB" 16384, "256 KB" 262144, "2 MB" 2097152, "16 MB" 16777216)
set grid lc rgb "#dddddd"
set key left top spacing 1.1
set xrange [700:24e6]
set yrange [5:5000]
plot "$data/ps" with linespoints lw 2 pt 7 lc rgb "#000000" title "ps: 2 rounds, 7 B into rank 0 and out again", \
     "$data/recursive_doubling" with linespoints lw 2 pt 5 dt 2 lc rgb "#0072b2" \
         title "recursive doubling: 3 rounds of B", \
     "$data/ring" with linespoints lw 2 pt 9 lc rgb "#d55e00" title "ring: 14 rounds of B/8", \
     "$data/halving_doubling" with linespoints lw 2 pt 11 dt 4 lc rgb "#009e73" \
         title "halving and doubling: 6 rounds of B/2, B/4, B/8"
END
