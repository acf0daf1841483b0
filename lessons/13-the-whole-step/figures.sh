#!/bin/sh
# Makes the figures of this lesson, in about three minutes on an idle machine. First `make` and `make lab-13
# SOLUTIONS=1`, or `make lab-13` with a finished lab.c. sh figures.sh [overlap] [timeline]: only these.
# shellcheck disable=SC2086
. "$(dirname "$0")/../figures.sh"
cnn="train --model cnn --devices cpu,cpu --threads 1 --sync ring --steps 16 --link 1ms,125MB/s"

# 1. the library's step and the lab's, without and with buckets: seeds 1 to 5
wanted overlap && {
    for seed in 1 2 3 4 5; do
        for program in build build/lessons/13; do
            for bucket in "" "--bucket 1024"; do
                $program/gradsum $cnn $bucket --seed $seed --json > "$work/run" || exit 1
                summed=$(number buckets_summed_ms < "$work/run") waited=$(number buckets_waited_ms < "$work/run")
                echo "$program${bucket:+-buckets} $(number samples_per_s < "$work/run") ${summed:-0} ${waited:-0}"
            done
        done
    done > "$work/runs"
    median() { awk -v p="$1" -v c="$2" '$1 == p { print $c }' "$work/runs" | sort -g | sed -n 3p; }
    row='{ printf "  %-27s %7s %11.2f %14.2f %9.0f %10.0f  %d of 5\n", $1, "1024 KB", $4, $5,
           $5 < $4 ? 100 * (1 - $5 / $4) : 0, $2, $3 }'
    echo "# ...gradsum $cnn [--bucket 1024]"
    echo "# medians of seeds 1 to 5, and of how many seeds the run was faster than without buckets"
    echo "# program                     buckets  ms in sums  ms waited for  hidden %  samples/s  faster"
    for program in build build/lessons/13; do
        printf '  %-27s %7s %46.0f\n' $program/gradsum none "$(median $program 2)"
        faster=$(awk -v p=$program '$1 == p { none[++n] = $2 } $1 == p "-buckets" { with[++m] = $2 }
            END { for (i = 1; i <= n; i++) f += with[i] > none[i]; print f + 0 }' "$work/runs")
        b=$program-buckets
        echo "$program/gradsum $(median $b 2) $faster $(median $b 3) $(median $b 4)" | awk "$row"
    done
} > "$here/figure-overlap.txt"

# 2. the timeline of worker 0 in one step of the lab
wanted timeline && {
    echo "\$ build/lessons/13/gradsum $cnn --bucket 1024 --log run13"
    build/lessons/13/gradsum $cnn --bucket 1024 --log "$work/run13" > "$work/log" || exit 1
    echo "step 5 of worker 0, in ms            (from run13/trace.json)"
    echo "  begins    ends   compute             sync"
    event='.*"tid":\([0-9]*\),"cat":"\([a-z]*\)","name":"\([^"]*\)","ts":\([0-9.]*\),"dur":\([0-9.]*\).*'
    grep '"ph":"X","pid":0' "$work/run13/trace.json" | grep '"step":5' | sed "s/$event/\1|\2|\3|\4|\5/" |
        sort -t '|' -k 4 -g | awk -F '|' '
            $3 == "step 5" { start = $4 }
            $1 > 1 || $2 == "message" || $2 == "step" || $3 == "forward" || $3 == "backward" { next }
            { printf "%8.1f %7.1f   %s%s\n", ($4 - start) / 1000, ($4 + $5 - start) / 1000,
                     $1 == 1 ? "                    " : "", $3 == "sync" ? "waits for the sums" : $3 }'
} > "$here/figure-timeline.txt"
wanted timeline && awk 'BEGIN { print "= step 5 of worker 0" }
    NR > 3 { lane = substr($0, 20, 1) == " " ? "sync" : "compute"; what = substr($0, 20); sub(/^ */, "", what)
             print $1, $2, lane, what }' "$here/figure-timeline.txt" |
    awk -f lessons/timeline.awk > "$here/figure-timeline.svg"
exit 0
