#!/bin/sh
# Makes the figures of this lesson, in about two minutes. sh figures.sh [scaling] [workers] [samples] [link]: only
# these.
# shellcheck disable=SC2086
. "$(dirname "$0")/../figures.sh"

run="--data colour-fashion-small --threads 1"
images="conv 8 3x3 stride 2 pad 1 no_bias, batch_norm, relu, conv 16 3x3 stride 2 pad 1 no_bias, batch_norm, relu, \
flatten, linear 10"
smooth=$(echo "$images" | sed 's/relu/tanh/g')
vectors="flatten, linear 64 no_bias, batch_norm, relu, linear 10"
without="conv 8 3x3 stride 2 pad 1, relu, conv 16 3x3 stride 2 pad 1, relu, flatten, linear 10"

number() { grep "\"event\":\"$1\"" | tail -1 | grep -o "\"$2\":[0-9.e+-]*" | head -1 | cut -d: -f2; }

# train SEED OPTIONS...: test accuracy and training accuracy of the last epoch, in percent
train() {
    seed=$1
    shift
    $gradsum train $run --seed "$seed" "$@" --json >"$work/run" || exit 1
    awk -v t="$(number epoch test_accuracy <"$work/run")" -v s="$(number epoch train_accuracy <"$work/run")" \
        'BEGIN { print 100 * t, 100 * s }'
}

# 1. scaled inputs, with and without batch_norm
wanted scaling && {
    echo "# gradsum train $run --batch 16 --lr 0.01 --epochs 1 ..."
    echo "#                                     test accuracy, seeds 1, 2, 3, 4, 5"
    for net in with without; do
        for scale in "" "--mean 0,0,0 --std 1,1,1" "--mean 0,0,0 --std 0.04,0.04,0.04"; do
            model=$without
            [ $net = with ] && model=$images
            line=$(for seed in 1 2 3 4 5; do train $seed --model "$model" --batch 16 --lr 0.01 --epochs 1 $scale; done |
                awk '{ printf " %5.1f", $1 }')
            printf '%-8s %-36s%s\n' "$net" "${scale:-(the mean and std of each colour)}" "$line"
        done
    done
} >"$here/figure-scaling.txt"

# 2. N workers against one
wanted workers && {
    echo "# gradsum compare --devices-list \"cpu; cpu,cpu; cpu,cpu,cpu; cpu,cpu,cpu,cpu,cpu,cpu\" \\"
    echo "#     $run --batch 24 --lr 0.01 --steps 20 --batch-norm OVER"
    echo "# largest difference of a weight from that of one worker, seeds 1, 2, 3, 4, 5"
    for over in global local ghost:4; do
        for seed in 1 2 3 4 5; do
            $gradsum compare --devices-list "cpu; cpu,cpu; cpu,cpu,cpu; cpu,cpu,cpu,cpu,cpu,cpu" $run \
                --model "$smooth" --batch 24 --lr 0.01 --steps 20 --seed $seed --batch-norm $over --json |
                sed -n 's/.*"workers":\([0-9]*\).*"largest_difference":\([0-9.e+-]*\).*/\1 \2/p'
        done | awk -v over=$over '$1 > 1 { line[$1] = line[$1] sprintf("  %.0e", $2) }
            END { for (n = 2; n <= 6; n++) if (n in line) printf "%-8s %d workers %s\n", over, n, line[n] }'
    done
} >"$here/figure-workers.txt"

# 3. how many samples share statistics
wanted samples && {
    echo "# gradsum train $run --batch 16 --lr 0.01 --epochs 2 --batch-norm ghost:G"
    echo "#                  test accuracy, seeds 1, 2, 3, 4, 5     in training, median"
    for net in vectors images; do
        for g in 1 2 4 8 16; do
            model=$images
            [ $net = vectors ] && model=$vectors
            for seed in 1 2 3 4 5; do
                train $seed --model "$model" --batch 16 --lr 0.01 --epochs 2 --batch-norm ghost:$g
            done >"$work/five"
            printf '%-8s ghost:%-3d %s %17.1f\n' $net $g "$(awk '{ printf " %5.1f", $1 }' "$work/five")" \
                "$(cut -d' ' -f2 "$work/five" | sort -g | sed -n 3p)"
        done
    done
} >"$here/figure-samples.txt"

# 4. the cost over a network. Nearly all of this time is waiting for messages.
wanted link && {
    echo "# gradsum train $run --devices cpu,cpu --link 20ms,125MB/s --batch 32 --steps 8 --batch-norm OVER"
    echo "# model     batch_norm  OVER      sums a step  40 ms each   ms a step, median"
    for net in images resnet20; do
        for over in local ghost:16 global; do
            model=$net layers=21 sums=1
            [ $net = images ] && model=$images layers=2
            [ $over = global ] && sums=$((1 + 2 * layers))
            $gradsum train $run --model "$model" --devices cpu,cpu --link 20ms,125MB/s --batch 32 --steps 8 \
                --batch-norm $over --json >"$work/run" || exit 1
            printf '%-10s %10d   %-8s %12d %11d %19.0f\n' $net $layers $over $sums $((sums * 40)) \
                "$(number end step_median_ms <"$work/run")"
        done
    done
} >"$here/figure-link.txt"
exit 0
