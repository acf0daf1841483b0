#!/bin/sh
# Makes the figures of this lesson, in about four minutes on an idle machine. sh figures.sh [buckets] [wire] [passes]
# [overlap]: only these.
. "$(dirname "$0")/../figures.sh"

# 1. the hidden share by the size of buckets: the median of seeds 1 to 5 in each column. 0: without buckets.
cnn="train --model cnn --devices cpu,cpu --threads 1 --sync ring --steps 16 --link 1ms,125MB/s"
wanted buckets && {
    for seed in 1 2 3 4 5; do
        for kb in 0 100000 1024 16 1; do
            bucket=$([ $kb = 0 ] || echo "--bucket $kb")
            $gradsum $cnn $bucket --seed $seed --json | grep '"event":"end"' > "$work/run" || exit 1
            echo "$kb $(number samples_per_s < "$work/run") $(number buckets < "$work/run")" \
                "$(number buckets_summed_ms < "$work/run") $(number buckets_waited_ms < "$work/run")"
        done
    done > "$work/runs"
    median() { awk -v kb=$1 -v c=$2 '$1 == kb { print $c }' "$work/runs" | sort -g | sed -n 3p; }
    echo "# gradsum $cnn --bucket KB"
    echo "# medians of seeds 1 to 5, and of how many seeds the run was faster than without buckets"
    echo "#     KB  buckets  ms in sums  ms waited for  hidden %  samples/s  faster"
    for kb in 0 100000 1024 16 1; do
        faster=$(awk -v kb=$kb '$1 == 0 { none[++n] = $2 } $1 == kb { with[++m] = $2 }
            END { for (i = 1; i <= n; i++) f += with[i] > none[i]; print f + 0 }' "$work/runs")
        echo "$kb $(median $kb 2) $faster $(median $kb 3) $(median $kb 4) $(median $kb 5)"
    done | awk '$1 == 0 { printf "    none %46s %9.0f\n", "", $2; next }
                { printf "%8d %8d %11.2f %14.2f %9.0f %10.0f  %d of 5\n",
                         $1, $4, $5, $6, $6 < $5 ? 100 * (1 - $6 / $5) : 0, $2, $3 }'
} > "$here/figure-buckets.txt"

# 2. bits on the wire: bytes, speed over a link, and accuracy
mlp="train --model mlp --devices cpu,cpu --threads 1 --sync ring --link 1ms,125MB/s"
wanted wire && {
    echo "# gradsum $mlp --epochs 5 --wire W"
    echo "#  wire  bytes a step  samples/s, median  test accuracy, seeds 1, 2, 3, 4, 5"
    for wire in f32 f16 bf16; do
        line=
        : > "$work/speeds"
        for seed in 1 2 3 4 5; do
            $gradsum $mlp --epochs 5 --wire $wire --seed $seed --json > "$work/run" || exit 1
            line="$line $(number test_accuracy < "$work/run")"
            number samples_per_s < "$work/run" >> "$work/speeds"
        done
        echo "$wire $(number sent_bytes_a_step < "$work/run") $(sort -g "$work/speeds" | sed -n 3p) $line"
    done |
        awk '{ printf "%7s %13.0f %18.0f  %.2f %.2f %.2f %.2f %.2f\n",
            $1, $2, $3, 100*$4, 100*$5, 100*$6, 100*$7, 100*$8 }'
} > "$out/figure-wire.txt"

# 3. one sum for several passes
wanted passes && {
    echo "# gradsum train --model lenet --devices cpu,cpu --threads 1 --sync ring --link 5ms,125MB/s --epochs 1 ..."
    echo "#                                samples/s: median of seeds 1 to 5 (least to most)"
    for options in "--batch 128" "--batch 512 --accumulate 4"; do
        for seed in 1 2 3 4 5; do
            $gradsum train --model lenet --devices cpu,cpu --threads 1 --sync ring --link 5ms,125MB/s --epochs 1 \
                $options --seed $seed --json | number samples_per_s
        done | sort -g |
            awk -v o="$options" '{ x[NR] = $1 } END { printf "  %-30s %10.0f (%.0f to %.0f)\n", o, x[3], x[1], x[5] }'
    done
} > "$out/figure-passes.txt"

# 4. a step without and with buckets, in virtual time
wanted overlap && for bucket in "" "--bucket 1024"; do
    echo "= ${bucket:-one sum after backward}"
    $gradsum simulate --workers 2 --model cnn --batch 128 --flops 100GFLOP/s --sync ring --link 1ms,125MB/s $bucket \
        -o "$work/page.html" > "$work/out" || exit 1
    grep -o '"worker":0,"what":"[a-z]*","from":[^}]*' "$work/page.html" | awk -F '[:",]+' '
        { printf "%.1f %.1f %s %s\n", 1000 * $7, 1000 * $9, $5 == "sum" ? "sync" : "compute", $5 }'
done | awk -f lessons/timeline.awk > "$here/figure-overlap.svg"
exit 0
