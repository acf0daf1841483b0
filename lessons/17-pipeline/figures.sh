#!/bin/sh
# figures.sh [FIGURE...]: makes all figures of this folder again, or the named ones. Run it from the source tree; step,
# measured and cut are times, and need two idle cores.
# shellcheck disable=SC2046,SC2086
set -eu
. "$(dirname "$0")/../figures.sh"
[ $# -gt 0 ] || set -- bubble memory step measured cut

# Two stages of four layers each, for real runs.
small="flatten, 8 x (linear 784, relu), linear 10"
# Equal stages: the first layer, which needs no gradient of the images, is too small to matter.
equal="max_pool 7, flatten, linear 1024, relu, 8 x (linear 1024, relu), linear 10"

simulate() { # SCHEDULE M
    "$gradsum" simulate --workers 3 --layout pp3 --pipeline-schedule "$1" --micro-batches "$2" --batch 768 \
        --model resnet20 --input 3x32x32 --flops 1TFLOP/s --link 0us,1000GB/s
}

bubble() {
    echo "\$ gradsum simulate --workers 3 --layout pp3 --pipeline-schedule S --micro-batches M --batch 768 \\"
    echo "      --model resnet20 --input 3x32x32 --flops 1TFLOP/s --link 0us,1000GB/s"
    echo
    echo "   M   gpipe: ms of a step   1f1b: ms of a step   speed-up   workers wait   formula"
    for m in 1 2 4 8 16 32 64; do
        for schedule in gpipe 1f1b; do simulate $schedule $m | awk '$1 == "step" { print $2 }'; done | tr '\n' ' '
        simulate 1f1b $m | awk '$1 == "speed-up" { print $2 }'
    done | awk '{ m = 2 ^ (NR - 1)
        printf "%4d  %20s %20s %10s %11.1f %% %7.1f %%\n", m, $1, $2, $3, 100 - 100 * $3 / 3, 100 * 2 / (m + 2) }'
}

memory() {
    echo "\$ gradsum memory --devices cpu,cpu,cpu --pipeline 3 --pipeline-cut flops --pipeline-schedule S \\"
    echo "      --micro-batches M --batch 768 --model resnet20 --data colour-fashion-small --batch-norm local"
    echo
    echo "MB of activations          worker 0   worker 1   worker 2"
    for schedule in gpipe 1f1b interleaved:2; do
        for m in 6 12 24; do
            "$gradsum" memory --devices cpu,cpu,cpu --pipeline 3 --pipeline-cut flops --pipeline-schedule $schedule \
                --micro-batches $m --batch 768 --model resnet20 --data colour-fashion-small --batch-norm local |
                awk -v what="$schedule, M = $m" \
                    '$1 == "activations" { printf "%-24s %10s %10s %10s\n", what, $2, $3, $4 }'
        done
    done
}

# least FIND TIMES COMMAND...: the output of the run with the least number after FIND; other programs only add to
# times
least() {
    find=$1 times=$2
    shift 2
    runs=$(mktemp -d "$work/XXXXXX")
    for i in $(seq "$times"); do
        "$@" >"$runs/$i"
        echo "$(sed -n "s/^.*$find *\([0-9.]*\) .*/\1/p" "$runs/$i") $i" >>"$runs/all"
    done
    cat "$runs/$(sort -n "$runs/all" | sed -n '1s/.* //p')"
}

step() {
    for schedule in gpipe 1f1b; do
        echo "\$ gradsum step --model \"$small\" --pipeline 2 --micro-batches 4 \\"
        echo "      --batch 1024 --pipeline-schedule $schedule          (of ten runs the one with the shortest step)"
        least "of the step to" 10 "$gradsum" step --model "$small" --pipeline 2 --micro-batches 4 --batch 1024 \
            --pipeline-schedule $schedule
        echo
    done
}

# The run of three that waited least.
measured() {
    echo "\$ gradsum train --model MODEL --devices cpu,cpu --threads 1 --pipeline 2 --pipeline-cut C \\"
    echo "      --micro-batches M --batch B --steps 6      for M = 4, 8 and 16, with B = 64 M; three times"
    for model in "$small" "$equal"; do
        cut=9
        [ "$model" = "$small" ] || cut=12
        echo
        echo "MODEL  $model"
        echo "C      $cut"
        echo
        echo "        waits    fill and  the other  fill and        the"
        echo "   M   in all       drain     causes  drain alone  formula"
        for m in 4 8 16; do
            for _ in 1 2 3; do
                "$gradsum" train --model "$model" --devices cpu,cpu --threads 1 --pipeline 2 --pipeline-cut $cut \
                    --micro-batches $m --batch $((64 * m)) --steps 6 | sed -n '/^bubble/,$p' | tr '\n' ' ' |
                    awk -v m=$m '{ for (i = 1; i < NF; i++) if ($(i + 1) ~ /^%/) v[++n] = $i
                        printf "%4d %7s %% %9s %% %8.1f %% %10s %% %6s %%\n", m, v[1], v[2], v[5] + v[6], v[3], v[4] }'
            done | sort -k 2 -n | head -n 1
        done
    done
}

cut() {
    for cut in measured 7; do
        echo "\$ gradsum train --model lenet --devices cpu,cpu --threads 1 --pipeline 2 --micro-batches 8" \
            "--batch 512 \\"
        echo "      --steps 24 --pipeline-cut $cut          (of five runs the one that waited least)"
        least "bubble" 5 "$gradsum" train --model lenet --devices cpu,cpu --threads 1 --pipeline 2 --micro-batches 8 \
            --batch 512 --steps 24 --pipeline-cut $cut |
            awk '/^stage +layers/ { on = 1 } /^bound/ { on = 0 } /^bubble/ { on = 6 }
                 on || /^   [01] cpu .* all$/ { print; if (on > 1 && --on == 1) on = 0 }'
        echo
    done
}

for figure; do
    case $figure in bubble | memory) to=$here ;; *) to=$out ;; esac # the text holds the others
    $figure >"$work/figure"
    mv "$work/figure" "$to/figure-$figure.txt"
done
