#!/bin/sh
# The figures of this lesson, in about three minutes on an idle machine: sh figures.sh [throttle] [crossover] [disks]
# [curves]; without a word all of them.
. "$(dirname "$0")/../figures.sh"
number_of() { grep -o "\"$1\":[0-9.e+-]*" | head -1 | cut -d: -f2; }
best() { # the highest of three: what disturbs a run makes it slower, never faster
    for i in 1 2 3; do "$@" --json | number samples_per_s; done | sort -g | tail -1
}

# 1. a disk of 4 to 32 MB/s beside one step; the best of three, as above
wanted throttle && {
    echo "# gradsum profile --model lenet --threads 1 --throttle X, the best of three runs"
    echo "#               samples/s                            % of the time waiting"
    echo "#   MB/s     loader       step   together  predicted    waits  predicted"
    for x in 4 8 12 16 24 32; do
        for i in 1 2 3; do
            $gradsum profile --model lenet --threads 1 --throttle $x --json > "$work/profile" || exit 1
            for name in loader_samples_per_s step_samples_per_s together_samples_per_s loader_wait; do
                number_of $name < "$work/profile"
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
} > "$out/figure-throttle.txt"

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
} > "$out/figure-crossover.txt"

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
step=$(awk '$1 ~ /^[0-9]/ && $3 > most { most = $3 } END { print most / 100 }' "$out/figure-throttle.txt")
share() { awk -v c="$1" -v of="$2" '$1 ~ /^[0-9]/ { print $1, $c / of }' "$out/figure-throttle.txt"; }
awk -f lessons/curves.awk > "$here/figure-throttle.svg" << END
set x loader, MB/s
set y %
set y_min 0
= dots samples/s, of the step's: measured
$(share 4 "$step")
= line min(loader, step)
$(share 5 "$step")
= dots of the time waiting: measured
$(share 6 1)
= dash 1 - min(loader, step) / step
$(share 7 1)
END
awk -f lessons/curves.awk > "$here/figure-crossover.svg" << END
set x global batch
set y samples/s
set x_log 1
set y_log 1
set x_ticks 4 8 16 32 64 128 256 512
set y_ticks 16000 32000 64000
set y_min 16000
= both 1 worker
from $out/figure-crossover.txt 1 2
= both 2 workers, processes over Gloo
from $out/figure-crossover.txt 1 4
= both 2 workers, threads
from $out/figure-crossover.txt 1 3
END
