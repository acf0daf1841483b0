#!/bin/sh
# Makes the figures of this lesson, on an idle machine: sh figures.sh
set -eu
. "$(dirname "$0")/../figures.sh"

# Bytes: counted, so the same on every machine.
{
    echo "\$ gradsum train --model mlp --threads 1 --steps 3 --sync SCHEME --devices cpu,cpu,...   (its line 'sent')"
    echo
    printf '%-12s %8s %34s\n' "" workers "bytes a step: average, busiest"
    for scheme in ps sharded_ps ring; do
        devices=cpu,cpu
        for workers in 2 4 8; do
            $gradsum train --model mlp --threads 1 --steps 3 --sync $scheme --devices $devices --json |
                grep -o '"sent_bytes_a_step[a-z_]*":[0-9]*' | cut -d: -f2 |
                sed 's/\(.*[0-9]\)\([0-9]\{3\}\)/\1,\2/; s/^\([0-9]*[0-9]\)\([0-9]\{3\},\)/\1,\2/' |
                xargs printf '%-12s %8d %19s %14s\n' $scheme $workers
            devices=$devices,$devices
        done
    done
} >"$here/figure-bytes.txt"

# Time over a network, at 2 MB: nearly all of it is sleep, so other machines give the same.
{
    echo "\$ gradsum schemes -n WORKERS --link 5ms,125MB/s   (its column 2 MB: milliseconds for one sum)"
    echo
    printf '%-12s' workers
    for workers in 2 4 8 16; do
        printf '%10d' $workers
        $gradsum schemes -n $workers --link 5ms,125MB/s >"$work/$workers"
    done
    echo
    for scheme in ps sharded_ps ring; do
        printf '%-12s' $scheme
        for workers in 2 4 8 16; do awk -v s=$scheme '$1 == s { printf "%10.0f", $5 / 1000 }' "$work/$workers"; done
        echo
    done
} >"$here/figure-workers.txt"

# The same in training: of five seeds the median, the least and the most.
{
    echo "\$ gradsum train --model mlp --threads 1 --devices cpu,cpu,cpu,cpu --link 5ms,125MB/s --steps 20" \
        "--sync SCHEME"
    echo
    printf '%-12s %26s\n' "" "samples/s: median of seeds 1 to 5 (least to most)"
    for scheme in ps sharded_ps ring; do
        for seed in 1 2 3 4 5; do
            $gradsum train --model mlp --threads 1 --devices cpu,cpu,cpu,cpu --link 5ms,125MB/s --steps 20 \
                --sync $scheme --seed $seed --json | number samples_per_s
        done | sort -g |
            awk -v s=$scheme '{ x[NR] = $1 } END { printf "%-12s %10.0f (%.0f to %.0f)\n", s, x[3], x[1], x[5] }'
    done
} >"$out/figure-training.txt"

points() {
    awk -v s="$1" '$1 == s { for (i = 2; i <= NF; i++) print 2 ^ (i - 1), $i }' "$here/figure-workers.txt"
}
awk -f lessons/curves.awk >"$here/workers.svg" <<END
set x workers
set y milliseconds for one sum of 2 MB
set x_ticks 2 4 8 16
set y_min 0
= both sharded_ps: every rank serves one chunk
$(points sharded_ps)
= both ps: one server
$(points ps)
= both ring (lesson 7)
$(points ring)
END
