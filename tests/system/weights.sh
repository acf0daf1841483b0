#!/usr/bin/env bash
# weights.sh PROGRAM [FILE]: trains in every way that promises the same bits each time, and prints the SHA-256 of the
# weights of each run. To check on one machine that a change, such as a refactoring, alters no results:
#   tests/system/weights.sh build/gradsum >before        then the change, make, and
#   tests/system/weights.sh build/gradsum before
# With FILE the sums are compared with those in it; any difference fails.
set -euo pipefail
program=$(realpath "$1") file=${2:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export GRADSUM_CACHE=$folder/cache

# run NAME COMMAND...: the SHA-256 of the saved weights.
run() {
    local name=$1
    shift
    rm -f "$folder/weights"
    "$program" "$@" --save "$folder/weights" >"$folder/output" 2>&1 ||
        { cat "$folder/output"; echo "weights.sh: failed: $*" >&2; exit 1; }
    echo "$(sha256sum <"$folder/weights" | cut -c 1-64) $name"
}

options=(--threads 1 --seed 3 --batch 60)
weights() { run "$1" train "${options[@]}" --steps 20 "${@:2}"; }

# layout NAME WORKERS OPTIONS...: a few steps of workers that are threads, then of the same number of processes.
layout() {
    local few=("${options[@]}" --steps 3 --tests 0 "${@:3}") devices
    devices=$(printf ',cpu%.0s' $(seq "$2"))
    run "$1, threads" train --devices "${devices#,}" "${few[@]}"
    GRADSUM_TRANSPORT=shm run "$1, processes" launch -n "$2" -- train "${few[@]}"
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
        GRADSUM_TRANSPORT=$processes run "lenet, 2 processes, $processes" \
            launch -n 2 -- train "${options[@]}" --steps 20 --model lenet
        GRADSUM_TRANSPORT=$processes run "lenet, 3 processes, $processes" \
            launch -n 3 -- train "${options[@]}" --steps 20 --model lenet
    done
    layouts
}

lenet=(--model lenet)
gpt=(--model gpt --data jargon --context 8 --batch 14 --optimizer adamw --lr 1e-3)
normed=(--model "conv 4 3 pad 1, batch_norm, relu, max_pool 4, conv 8 3, batch_norm, relu, flatten, linear 10")
layouts() {
    local parts stages zero device
    for parts in 2 3; do layout "lenet, dp3,tp$parts" $((3 * parts)) "${lenet[@]}" --layout dp3,tp$parts; done
    for stages in 2 3; do
        layout "lenet, dp3,pp$stages" $((3 * stages)) "${lenet[@]}" --layout dp3,pp$stages --pipeline-cut flops
        layout "gpt, tied, dp3,pp$stages" $((3 * stages)) "${gpt[@]}" --layout dp3,pp$stages --pipeline-cut flops \
            --micro-batches 3
    done
    layout "lenet, dp3,pp2,zero1, interleaved" 6 "${lenet[@]}" --layout dp3,pp2,zero1 --pipeline-cut flops \
        --pipeline-schedule interleaved
    layout "gpt, tied, exact, dp2,tp2,pp2" 8 "${gpt[@]}" --layout dp2,tp2,pp2 --pipeline-cut flops --exact
    layout "gpt, dp3,tp2" 6 "${gpt[@]}" --layout dp3,tp2
    layout "gpt, dp3,tp2, sequence" 6 "${gpt[@]}" --layout dp3,tp2 --sequence
    for zero in 1 2 3; do
        layout "lenet, dp3,zero$zero" 3 "${lenet[@]}" --layout dp3,zero$zero --accumulate 2
        layout "gpt, dp3,tp2,zero$zero" 6 "${gpt[@]}" --layout dp3,tp2,zero$zero
        layout "lenet, exact, dp2,zero$zero" 2 "${lenet[@]}" --layout dp2,zero$zero --exact
    done
    layout "batch norm, 3 workers" 3 "${normed[@]}"
    layout "batch norm, dp3,zero3" 3 "${normed[@]}" --layout dp3,zero3
    layout "batch norm, dp2,tp2" 4 "${normed[@]}" --layout dp2,tp2
    layout "batch norm, exact, 4 workers" 4 "${normed[@]}" --exact
    layout "batch norm, ghost, dp2,pp2" 4 "${normed[@]}" --layout dp2,pp2 --pipeline-cut flops --batch-norm ghost:3
    layout "lenet, lamb, clip, 3 workers" 3 "${lenet[@]}" --optimizer lamb --clip 0.1
    layout "lenet, lamb, clip, dp3,zero2" 3 "${lenet[@]}" --optimizer lamb --clip 0.1 --layout dp3,zero2
    layout "lenet, lamb, clip, dp3,tp2" 6 "${lenet[@]}" --optimizer lamb --clip 0.1 --layout dp3,tp2
    layout "lenet, lamb, clip, dp2,pp2" 4 "${lenet[@]}" --optimizer lamb --clip 0.1 --layout dp2,pp2 \
        --pipeline-cut flops
    for device in cl cl,cl,cl; do
        weights "lenet, f16, $device" "${lenet[@]}" --steps 6 --tests 0 --devices $device --precision f16
    done
    layout "gpt, offload" 2 "${gpt[@]}" --offload optimizer,activations,weights
    layout "gpt, recompute, dp3,zero3" 3 "${gpt[@]}" --layout dp3,zero3 --recompute blocks
    layout "gpt, recompute, dp2,pp2" 4 "${gpt[@]}" --layout dp2,pp2 --pipeline-cut flops --micro-batches 4 \
        --recompute all
}

if [ -z "$file" ]; then
    all
else
    all | diff "$file" - || { echo "weights.sh: the weights differ from those of $file" >&2; exit 1; }
    echo "weights.sh: all $(wc -l <"$file") as in $file"
fi
