#!/bin/sh
# Makes the figure of this lesson on an idle machine: sh figures.sh [FILE with lab_serve]
cd "$(dirname "$0")/../.." || exit 1
make -s build/lessons/12/experiment LAB="${1:-lessons/12-inference/solution.c}" || exit 1
build/lessons/12/experiment > lessons/12-inference/figure-serve.txt

awk 'BEGIN {
        names = split("one at a time|at most 64, no waiting|at most 64, wait 1 ms|at most 64, wait 5 ms", name, "|")
        split("1 0.00|64 0.00|64 1.00|64 5.00", key, "|")
        print "set x load, %\nset y 99 % of the requests are answered within, ms"
        print "set y_log 1\nset x_ticks 10 40 70 90" }
    $2 == "%" { for (k in key) if (key[k] == $3 " " $4) points[k] = points[k] "\n" $1 " " $6 }
    END { for (k = 1; k <= names; k++) print "= both " name[k] points[k] }' lessons/12-inference/figure-serve.txt |
    awk -f lessons/curves.awk > lessons/12-inference/figure-serve.svg
