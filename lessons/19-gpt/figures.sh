#!/bin/sh
# figures.sh: makes the figures of this folder again, in about two minutes. Run it from the source tree.
# shellcheck disable=SC2046,SC2086
set -eu
. "$(dirname "$0")/../figures.sh"
model=$(cat "$here/small.txt")
four=cpu,cpu,cpu,cpu

small() { "$gradsum" train --model "$model" --data jargon --threads 1 "$@" 2>&1; }

{
    for sizes in "64 48" "512 6"; do
        set -- $sizes
        echo "\$ gradsum memory --model gpt --data jargon --threads 1 --context $1 --batch $2"
        "$gradsum" memory --model gpt --data jargon --threads 1 --context "$1" --batch "$2" |
            grep -E '^(MB at|activations)'
    done
} >"$here/figure-memory.txt"

make -s build/lessons/19/experiment
build/lessons/19/experiment >"$out/figure-tokens.txt"

{
    echo "# small.txt, 60 steps of 7 windows of 64 tokens, --clip 0.5 --exact: the beginning of the weights' sha256"
    echo "# seed  --devices cpu      --devices $four   the same with --zero 2"
    for seed in 1 2 3 4 5; do
        for workers in "cpu" "$four" "$four --zero 2"; do
            small --batch 7 --steps 60 --clip 0.5 --exact --seed $seed --devices $workers |
                awk '/^weights/ { print substr($3, 1, 16) }'
        done | tr '\n' ' ' | awk -v seed=$seed '{ printf "  %-5s %-18s %-27s %s\n", seed, $1, $2, $3 }'
    done
} >"$here/figure-shards.txt"

# Prints the test's perplexity, or the step at which the loss stopped being a number.
clipped() {
    small --context 32 --batch 8 --steps 200 --momentum 0 --lr 1 "$@" |
        sed -n 's/^done.*perplexity \([0-9.]*\),.*/\1/p; s/.*diverged at step \([0-9]*\):.*/nan(\1)/p'
}
{
    echo "# small.txt, 200 steps of 8 windows of 32 tokens, --lr 1 --momentum 0: perplexity; nan(N): diverged at step N"
    echo "# seed  not clipped   --clip 0.5: 1 worker   8 workers, the sum   8 workers, each its own"
    for seed in 1 2 3 4 5; do
        printf '  %-7s %-13s %-22s %-20s %s\n' $seed "$(clipped --seed $seed)" "$(clipped --seed $seed --clip 0.5)" \
            "$(clipped --seed $seed --clip 0.5 --devices $four,$four)" \
            "$(clipped --seed $seed --clip 0.5 --devices $four,$four --sync local --every 1)"
    done
} >"$out/figure-clip.txt"

{
    echo "\$ gradsum train --model \"\$(cat lessons/19-gpt/small.txt)\" --data jargon --devices cpu,cpu --threads 1 \\"
    echo "      --batch 12 --steps 1500 --optimizer adamw --lr 3e-3 --clip 1 --save small.safetensors"
    small --devices cpu,cpu --batch 12 --steps 1500 --optimizer adamw --lr 3e-3 --clip 1 \
        --save "$work/small.safetensors" | grep '^done' | sed 's/, [0-9,]* tokens.*//'
    echo "\$ gradsum eval --load small.safetensors --data jargon"
    "$gradsum" eval --load "$work/small.safetensors" --data jargon | sed 's/, 1 worker.*//'
    echo "\$ gradsum generate --load small.safetensors --prompt \"The hacker \" --length 300 --temperature 0.7"
    "$gradsum" generate --load "$work/small.safetensors" --prompt "The hacker " --length 300 \
        --temperature 0.7 2>/dev/null
    echo
} >"$out/figure-text.txt"

{
    echo "# the same model, --lr 0: the norm of the gradient, mean of 20 steps, by the windows that it is the mean of"
    for batch in 1 8 64; do
        "$gradsum" train --load "$work/small.safetensors" --data jargon --threads 1 --lr 0 --steps 20 --batch $batch \
            --clip 1 --json | sed -n 's/.*"event":"epoch".*"gradient_norm":\([0-9.]*\).*/\1/p' |
            awk -v b=$batch '{ printf "%3d window%s   %.2f\n", b, (b > 1 ? "s" : " "), $1 }'
    done
} >"$here/figure-norms.txt"
