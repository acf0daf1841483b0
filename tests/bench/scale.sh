#!/bin/sh
# scale.sh PROGRAM: how time and memory grow with the batch, the width of the layers and the number of workers, each
# varied separately, next to the growth of the work and of the stored numbers; and how long the program takes to start.
#
# The exponent e is fitted to y = c x^e over all rows (least squares of the logarithms): 1 means that y doubles with x.
# Memory is what a run needs beyond a run of softmax with batch 1. No cost should grow faster than its work: the script
# fails if the exponent of time exceeds that of the FLOPs, or that of memory exceeds that of the numbers to store
# (samples of a batch, parameters, copies of the model), by more than 0.1, which is noise.
set -u
gradsum=$1
here=$(dirname "$0")
unset OPENBLAS_CORETYPE
failed=0

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# run ARGUMENTS...: "milliseconds MB" of training: the median step, and memory
run() {
    "$gradsum" train --json --lr 0.001 --epochs 1000000 --threads 1 "$@" </dev/null | sed -n \
        's/.*"event":"end".*"step_median_ms":\([0-9.e-]*\).*"peak_memory_mb":\([0-9.]*\).*/\1 \2/p'
}

base=$(run --model softmax --batch 1 --steps 6 | cut -d ' ' -f 2)

# A table of lines "x FLOPs numbers ARGUMENTS..." on standard input; $1: the name of x, $2: the name of the numbers. The
# lines alternate, because a machine may be slower for some seconds; each line shows its fastest turn.
table() {
    cat >"$work/lines"
    for turn in 1 2 3 4 5; do
        while read -r x flops numbers arguments; do
            eval "echo $x $flops $numbers \$(run $arguments)"
        done <"$work/lines"
    done | sort -g -k 1,1 -k 4,4 | awk '!seen[$1]++' | awk -v title="$1" -v unit="$2" -v base="$base" '
        function fit(y, n,    i, sx, sy, sxx, sxy, a, b, k) {
            for (i = 1; i <= n; i++) if (y[i] > 0) {
                a = log(x[i]); b = log(y[i]); sx += a; sy += b; sxx += a * a; sxy += a * b; k++
            }
            return k > 1 ? (k * sxy - sx * sy) / (k * sxx - sx * sx) : 0
        }
        { n++; x[n] = $1; work[n] = $2; need[n] = $3; time[n] = $4 / 1e3; memory[n] = $5 - base }
        END {
            printf "\n%-14s %13s %11s %9s %13s %9s\n", title, "FLOPs a step", "ms a step", "ps/FLOP", unit, "MB"
            for (i = 1; i <= n; i++)
                printf "%-14d %13.4g %11.3f %9.2f %13.4g %9.1f\n", x[i], work[i], 1e3 * time[i], \
                    1e12 * time[i] / work[i], need[i], memory[i]
            if (n < 2) { print "failed"; exit 1 }
            for (i = 1; i <= n; i++)
                if (time[i] <= 0) { print "failed"; exit 1 }
            w = fit(work, n); t = fit(time, n); d = fit(need, n); m = fit(memory, n)
            printf "%-14s %13.2f %11.2f %9s %13.2f %9.2f\n", "exponent", w, t, "", d, m
            if (t > w + 0.1) { print "time grows faster than its work"; exit 1 }
            if (m > d + 0.1) { print "memory grows faster than what it holds"; exit 1 }
        }'
}

# of MODEL: FLOPs of a sample, forward + backward without the first layer's input gradient; parameters
flops() { "$gradsum" model "$1" | tr -d , | awk '/ total /{ f = $NF } $1 == "backward:" { print f + $2 }'; }
params() { "$gradsum" model "$1" | awk '/ total /{gsub(",", ""); print $(NF - 1)}'; }

for model in mlp lenet; do
    flops=$(flops $model)
    for batch in 1 4 16 64 256 1024 4096; do
        steps=$((4096 / batch)); [ $steps -gt 8 ] || steps=8
        echo "$batch $((flops * batch)) $batch --model $model --batch $batch --steps $steps"
    done | table "$model, batch" samples || failed=1
done

for width in 64 128 256 512 1024 2048 4096; do
    model="flatten, linear $width, relu, linear $width, relu, linear 10"
    steps=$((16384 / width)); [ $steps -gt 6 ] || steps=6
    echo "$width $(($(flops "$model") * 128)) $(params "$model") --model '$model' --steps $steps"
done | table "mlp, width" parameters || failed=1

# The same batch on more workers: the same work, and a copy of the model for each. Extra workers share the cores.
cores=$(nproc)
flops=$(flops lenet)
devices=cpu
for workers in 1 2 4 8; do
    echo "$workers $((flops * 128)) $workers --model lenet --devices $devices --steps 40"
    devices=$devices,$devices
done | table "lenet, workers" copies || failed=1
echo "(global batch 128 on $cores cores)"

# ---- the time to start ----

# median COMMAND...: milliseconds
median() {
    for i in 1 2 3 4 5 6 7 8 9; do
        from=$(date +%s%N)
        "$@" >/dev/null 2>&1 || { echo failed; return; }
        echo $((($(date +%s%N) - from) / 10000))
    done | sort -n | awk 'NR == 5 { printf "%.1f", $1 / 100 }'
}

printf '\n%-44s %10s\n' "start-up, median of 9" ms
printf '%-44s %10s\n' "/bin/true (a process, no more)" "$(median /bin/true)"
printf '%-44s %10s\n' "gradsum --help" "$(median "$gradsum" --help)"
printf '%-44s %10s\n' "gradsum model mlp" "$(median "$gradsum" model mlp)"
printf '%-44s %10s\n' "gradsum train, softmax, 1 step" "$(median "$gradsum" train --model softmax --steps 1)"
printf '%-44s %10s\n' "  of which gunzip of the same data" \
    "$(median gunzip -kc "$here"/../../datasets/fashion-mnist-small/*.gz)"
if "$gradsum" devices | grep -q '^cl:0.0'; then
    printf '%-44s %10s\n' "gradsum devices (the OpenCL platform alone)" "$(median "$gradsum" devices)"
    printf '%-44s %10s\n' "the same on cl" "$(median "$gradsum" train --model softmax --steps 1 --device cl)"
fi
exit $failed
