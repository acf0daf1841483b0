#!/bin/sh
# Makes the figures of this lesson on this machine: sh figures.sh [sweeps] [rates] [warmup] [losses] [curves]; without
# a word all of them, in about twelve minutes. $GRADSUM: the program, if it is not build/gradsum.
. "$(dirname "$0")/../figures.sh"
export COLUMNS=70 # leaves out the column `seconds`

# The table that a sweep prints: FILE OPTIONS...
sweep() {
    file=$1
    shift
    { echo "\$ gradsum sweep $*"; $gradsum sweep "$@" --threads 1; } > "$here/$file" || exit 1
}
batches="--batch 32,64,...,2048 --seeds 7 --lr 0.0125"
wanted sweeps && {
    sweep figure-none.txt $batches
    sweep figure-linear.txt $batches --lr-rule linear --base-batch 32
    sweep figure-sqrt.txt $batches --lr-rule sqrt --base-batch 32
}

# One batch, three rates
wanted rates && {
    for lr in 0.1 0.2 0.3; do
        echo "\$ gradsum sweep --batch 1024 --seeds 5 --lr $lr"
        $gradsum sweep --batch 1024 --seeds 5 --lr $lr --threads 1 > "$work/sweep" || exit 1
        sed -n '/^  batch/,/^$/p' "$work/sweep"
    done
} > "$here/figure-rates.txt"

# A warm-up that does not help, and one that decides
warmup() { # FILE, MODEL AS TYPED, OPTIONS...
    file=$1 model=$2
    shift 2
    for warmup in 0 1 2; do
        eval "$gradsum sweep --model $model $* --warmup $warmup --threads 1" > "$work/sweep" || exit 1
        echo "\$ gradsum sweep --model $model $* --warmup $warmup"
        sed -n '/^  batch/,/^$/p' "$work/sweep"
    done > "$here/$file"
}
rule="--seeds 7 --lr-rule linear --base-batch 32"
wanted warmup && {
    warmup figure-warmup-deep.txt "\"\$(cat $here/deep.txt)\"" --batch 64,128,256,512 $rule --lr 0.04
    warmup figure-warmup-mlp.txt mlp --batch 256,512,1024 $rule --lr 0.0125
}

# The losses of the deep network's first steps, without a warm-up and with one, and that of step 24
wanted losses && {
    deep="--batch 256 --lr 0.04 --lr-rule linear --base-batch 32 --steps 24 --threads 1"
    for warmup in 0 2; do
        echo "\$ gradsum train --model \"\$(cat $here/deep.txt)\" $deep --warmup $warmup --seed S"
        echo "           step 1     2     3     4     5     6      24"
        for seed in 1 2 3 4 5; do
            rm -rf "$work/log"
            $gradsum train --model "$(cat $here/deep.txt)" $deep --warmup $warmup --seed $seed --log "$work/log" \
                > "$work/out" || exit 1
            grep -o '"loss":[0-9.]*' "$work/log/metrics.jsonl" | cut -d: -f2 | head -24 |
                awk -v seed=$seed 'BEGIN { printf "seed %s   ", seed }
                    NR <= 6 { printf " %5.2f", $1 } END { printf "   %5.2f\n", $1 }'
        done
    done
} > "$here/figure-losses.txt"

wanted curves || exit 0

# steps = least + samples / batch: least squares, a point weighs 1 / steps^2
points() { # RULE SHIFT: batch, median steps, least, most
    sed -n 's/^ *\([0-9]*\) *[0-9.e-]* *[0-9]*\/[0-9]* *\([0-9.]*\) *\([0-9]*\)-\([0-9]*\) .*/\1 \2 \3 \4/p' \
        "$here/figure-$1.txt" | awk -v shift="$2" '{ $1 *= shift; print }'
}
law=$(points linear 1 | awk '
    { w = 1 / $2 ^ 2; u = 1 / $1; s += w; su += w * u; suu += w * u * u; sy += w * $2; suy += w * u * $2 }
    END { b = (s * suy - su * sy) / (s * suu - su * su); print (sy - b * su) / s, b }')
awk -v law="$law" -v first="$(points linear 1 | awk 'NR == 1 { print $2 }')" '{ print }
    END { split(law, l, " "); printf "= line %.1f + %.0f / batch\n", l[1], l[2]
          for (b = 32; b <= 2048; b *= 1.4142) print b, l[1] + l[2] / b
          printf "= dash ideal: twice the batch, half the steps\n32 %s\n%s 4\n", first, first * 8
          printf "= dots critical batch %.0f\n%s %s\n", l[2] / l[1], l[2] / l[1], 2 * l[1] }' << END |
set x global batch
set y steps to 80 %: median of 7 seeds, least to most
set x_log 1
set y_log 1
set x_ticks 32 64 128 256 512 1024 2048
set y_ticks 4 8 16 32 64 128 256
set x_min 28
set y_min 4
set y_max 256
= dots linear
$(points linear 1)
= both sqrt
$(points sqrt 1.04)
= both the same rate for all
$(points none 0.96)
END
    awk -f lessons/curves.awk > "$here/figure-steps.svg"
