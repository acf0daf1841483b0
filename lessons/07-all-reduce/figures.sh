#!/bin/sh
# Makes the figures of this lesson, on an idle machine: sh figures.sh
set -eu
. "$(dirname "$0")/../figures.sh"

figure() { # NAME COMMAND...: what is typed, and what is printed
    name=$1
    shift
    { echo "\$ gradsum $*"; "$gradsum" "$@"; } >"$here/figure-$name.txt"
}

figure link schemes -n 8 --link 5ms,125MB/s
figure threads schemes -n 8
{
    echo "\$ gradsum collectives -n 4 --size 1048576 --link 5ms,125MB/s"
    $gradsum collectives -n 4 --size 1048576 --link 5ms,125MB/s 2>/dev/null | sed -n '1,/^barrier/p'
} >"$here/figure-collectives.txt"

# The table's own figures, so that table and picture are of one run.
points() {
    awk -v s="$1" 'BEGIN { split("1024 16384 262144 2097152 16777216", bytes, " ") }
        $1 == s { for (i = 1; i <= 5; i++) print bytes[i], ($(i + 1) + 0) / 1000 }' "$here/figure-link.txt"
}
awk -f lessons/curves.awk >"$here/crossing.svg" <<END
set x bytes of the array
set y milliseconds for one sum
set x_log 1
set y_log 1
set x_ticks 1024=1_KB 16384=16_KB 262144=256_KB 2097152=2_MB 16777216=16_MB
set y_min 5
= both recursive doubling: 3 rounds of B
$(points recursive_doubling)
= both ring: 14 rounds of B/8
$(points ring)
= both halving and doubling: 6 of B/2, B/4, B/8
$(points halving_doubling)
= both ps: 2 rounds, 7 B into rank 0 and out
$(points ps)
END
