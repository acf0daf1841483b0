#!/bin/sh
# figures.sh [exact] [bytes] [memory] [layout]: makes all figures of this folder again, in about a minute, or the named
# ones. Run it from the source tree; layout needs an idle machine.
# shellcheck disable=SC2046,SC2086
set -eu
. "$(dirname "$0")/../figures.sh"
four=cpu,cpu,cpu,cpu

license() { "$gradsum" train --data text:LICENSE --threads 1 "$@" 2>&1; }
sent() { license --steps 1 "$@" | sed -n 's/^sent *\([0-9,]*\) bytes.*/\1/p'; }

wanted exact && {
    echo "# gpt, 3 steps of 2 windows of 64 tokens: test loss; the beginning of the weights' sha256"
    for workers in "cpu" "cpu,cpu --tensor 2" "cpu --exact" "cpu,cpu --tensor 2 --exact" "$four --tensor 4 --exact" \
        "$four --tensor 2 --exact"; do
        license --model gpt --batch 2 --steps 3 --devices $workers |
            awk -v w="--devices $workers" '/^done/ { loss = $6 }
                /^weights/ { printf "%-45s %s  %s\n", w, substr(loss, 1, 6), substr($3, 1, 16) }'
    done
    for seed in 2 3 4 5; do
        for workers in "cpu" "cpu,cpu --tensor 2" "$four --tensor 4" "$four --tensor 2"; do
            license --model gpt --batch 2 --steps 3 --exact --seed $seed --devices $workers |
                awk '/^weights/ { print substr($3, 1, 16) }'
        done | awk -v seed=$seed '{ line = line " " $1 } END { print "--exact --seed " seed ", the same four:" line }'
    done
} >"$here/figure-exact.txt"

wanted bytes && {
    echo "# gpt, what a worker sends in a step, in bytes"
    echo "# windows   2 workers --tensor 2   4 workers --tensor 4   2 workers, each its own windows"
    for batch in 2 4 8; do
        printf '  %-9d %-22s %-22s %s\n' $batch "$(sent --model gpt --batch $batch --devices cpu,cpu --tensor 2)" \
            "$(sent --model gpt --batch $batch --devices $four --tensor 4)" \
            "$(sent --model gpt --batch $batch --devices cpu,cpu --sync ring)"
    done
} >"$here/figure-bytes.txt"

wanted memory && {
    for workers in "cpu" "cpu,cpu --tensor 2" "$four --tensor 4"; do
        echo "\$ gradsum memory --model gpt --data jargon --batch 12 --threads 1 --devices $workers"
        "$gradsum" memory --model gpt --data jargon --batch 12 --threads 1 --devices $workers |
            grep -E '^(MB at|weights|gradients|optimizer|activations)'
    done
} >"$here/figure-memory.txt"

wanted layout && {
    echo "\$ gradsum layout --model gpt --data jargon --workers 4 --batch 12"
    "$gradsum" layout --model gpt --data jargon --workers 4 --batch 12
} >"$here/figure-layout.txt"
exit 0
