#!/usr/bin/env bash
# weights.sh PROGRAM [FILE]: train 40 times, in every way that promises the same bits twice, and print the SHA-256 of
# each run's weights. A change that must not alter results, such as a refactoring, is checked on one machine:
#   tests/weights.sh build/gradsum >before        then the change, make, and
#   tests/weights.sh build/gradsum before
# With FILE the sums are compared with those in it; any difference fails.
set -euo pipefail
program=$(realpath "$1") file=${2:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export GRADSUM_CACHE=$folder/cache

weights() {
    local name=$1
    shift
    rm -f "$folder/weights"
    "$program" train --steps 20 --threads 1 --batch 60 --seed 3 --save "$folder/weights" "$@" >"$folder/output" 2>&1 ||
        { cat "$folder/output"; echo "weights.sh: failed: train $*" >&2; exit 1; }
    echo "$(sha256sum <"$folder/weights" | cut -c 1-64) $name"
}

all() {
    local model device sync processes
    for model in mlp lenet cnn; do
        for device in cpu cl; do weights "$model $device" --model $model --device $device; done
        weights "$model cpu, 2 threads" --model $model --threads 2
        weights "$model cpu,cpu" --model $model --devices cpu,cpu
        weights "$model cpu,cl" --model $model --devices cpu,cl
    done
    for sync in ps sharded_ps allreduce ring tree recursive_doubling halving_doubling; do
        weights "mlp, 3 workers, $sync" --devices cpu,cpu,cpu --sync $sync
    done
    weights "mlp, 3 workers, zero 1" --devices cpu,cpu,cpu --zero 1
    weights "lenet, momentum 0, weight decay" --model lenet --momentum 0 --weight-decay 0.01
    weights "mlp, squared error" --loss squared_error
    weights "lenet, exact, 1 worker" --model lenet --exact
    weights "lenet, exact, 4 workers" --model lenet --exact --devices cpu,cpu,cpu,cpu
    weights "mlp, async, staleness 0" --devices cpu,cpu --sync async --staleness 0
    weights "mlp, async, staleness 0, cl" --devices cl,cl --sync async --staleness 0
    weights "lenet, local" --model lenet --devices cpu,cpu --sync local --every 4
    weights "lenet, overlap" --model lenet --devices cpu,cpu --bucket 16
    weights "lenet, overlap, ring, f16" --model lenet --devices cpu,cpu --bucket 16 --sync ring --wire f16
    weights "mlp, accumulate" --devices cpu,cpu --accumulate 3
    weights "mlp, f16" --devices cpu,cpu --wire f16
    weights "mlp, bf16, ring" --devices cpu,cpu,cpu --wire bf16 --sync ring
    weights "lenet, warm-up" --model lenet --devices cpu,cpu --lr-rule linear --warmup 1
    for device in cpu cl; do
        weights "gpt $device" --device $device --model gpt --data jargon --batch 12 --steps 6 --optimizer adamw \
            --lr 1e-3
    done
    for processes in shm gloo; do
        rm -f "$folder/weights"
        GRADSUM_TRANSPORT=$processes "$program" launch -n 2 -- train --steps 20 --threads 1 --batch 60 --seed 3 \
            --model lenet --save "$folder/weights" >"$folder/output" 2>&1 || { cat "$folder/output"; exit 1; }
        echo "$(sha256sum <"$folder/weights" | cut -c 1-64) lenet, 2 processes, $processes"
    done
}

if [ -z "$file" ]; then
    all
else
    all | diff "$file" - || { echo "weights.sh: the weights differ from those of $file" >&2; exit 1; }
    echo "weights.sh: all $(wc -l <"$file") as in $file"
fi
