#!/bin/sh
# The figures of this lesson, from runs on this machine: sh figures.sh [FILE.cl]. The kernels are those of FILE.cl (from
# the top of the source tree), or of solution.cl, or else of lab.cl. Takes half a minute, in which nothing else should
# run.
. "$(dirname "$0")/../figures.sh"
kernels=$here/solution.cl
[ -f "$kernels" ] || kernels=$here/lab.cl
make -s build/lessons/04/experiment LAB="${1:-$kernels}" || exit 1
build/lessons/04/experiment > "$here/figure-ladder.txt" || exit 1

# name and GFLOP/s at the largest N
sed -n 's/ %//g; s/^   //p' "$here/figure-ladder.txt" | awk '
    { split($0, w, /  +/); gsub(" ", "_", w[1]); ticks = ticks " " 6 - NR "=" w[1]; v = $(NF - 1)
      points = points "\n" v " " 6 - NR " =" v }
    END { print "set y_ticks" ticks "\n= dots N = 960" points }' |
    awk -v peak="$(sed -n 's/^# peak \([0-9.]*\).*/\1/p' "$here/figure-ladder.txt")" '{ print }
    END { print "set x GFLOP/s\nset x_log 1\nset x_min 1\nset x_max 300\nset y_min 0.5\nset y_max 5.5\nset left 210"
          print "= line the peak\n" peak " 0.5\n" peak " 5.5" }' |
    awk -f lessons/curves.awk > "$here/figure-ladder.svg"
