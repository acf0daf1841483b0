#!/bin/sh
# Makes the figures of this lesson, in about a minute and a half. sh figures.sh [ledger] [recompute] [precision]
# [offload] [step]: only these.
# shellcheck disable=SC2086
. "$(dirname "$0")/../figures.sh"
deep="flatten, 64 x (linear 64, tanh), linear 10"

# 1. the ledger
wanted ledger && {
    echo "# gradsum memory --threads 1 ...                                        MB at the peak"
    echo "#                                                weights  gradients  optimizer  activations  total"
    for run in "--model mlp --batch 128" "--model resnet20 --data colour-fashion-small --batch 128" \
        "--model resnet20 --data colour-fashion-small --batch 64" \
        "--model resnet20 --data colour-fashion-small --batch 16" \
        "--model gpt --data jargon --batch 12 --optimizer adam"; do
        $gradsum memory --threads 1 $run | awk -v run="$run" 'NF == 2 { kind[$1] = $2 }
            END { printf "%s\n  %56.2f %10.2f %10.2f %12.2f %6.1f\n", run, kind["weights"], kind["gradients"],
                  kind["optimizer"], kind["activations"], kind["total"] }'
    done
} >"$here/figure-ledger.txt"

# 2. computing again
wanted recompute && {
    echo "# gradsum memory --model \"$deep\" --batch 256 --threads 1 --recompute K"
    echo "#     K  activations, MB  64 KB each: kept + inner  forward again"
    for k in none 2 4 8 16 32 64 128; do
        option=$([ $k = none ] || echo "--recompute $k")
        $gradsum memory --model "$deep" --batch 256 --threads 1 $option >"$work/out"
        again=$($gradsum train --model "$deep" --batch 256 --threads 1 --steps 1 $option 2>/dev/null |
            sed -n 's/.*backward repeats \([0-9]*\) %.*/\1 %/p')
        awk -v k=$k -v again="${again:-0 %}" '$1 == "activations" { mb = $2 }
            END { pairs = k == "none" ? 1 : k / 2
                  printf "%7s %16.2f %20d + %-9d %9s\n", k, mb, 64 / pairs, pairs - 1, again }' "$work/out"
    done
} >"$here/figure-recompute.txt"

# 3. accuracy with 16 bits
wanted precision && {
    echo "# gradsum train --model lenet --threads 1 --epochs 3 --precision P"
    echo "#     test accuracy, seeds 1, 2, 3, 4, 5      updates left out"
    for precision in f32 bf16 f16; do
        for seed in 1 2 3 4 5; do
            $gradsum train --model lenet --threads 1 --epochs 3 --seed $seed --precision $precision \
                >"$work/out" 2>"$work/err" || exit 1
            echo "$(sed -n 's/^done .* test accuracy \([0-9.]*\) %.*/\1/p' "$work/out")" \
                "$(grep -c 'update is left out' "$work/err")"
        done | awk -v p=$precision '{ line = line sprintf(" %5.1f", $1); out = out sprintf(" %d", $2) }
            END { printf "%-5s%s       %s\n", p, line, out }'
    done
} >"$here/figure-precision.txt"

# 4. keeping elsewhere: the system keeps the file in memory, so this measures copying
wanted offload && {
    echo "# gradsum train --model MODEL --threads 1 --batch B --steps 8 --offload activations, three runs each"
    echo "# model           B  peak of the ledger, MB: without, with    hidden %"
    for run in "$deep:256" "resnet20:64"; do
        model=${run%:*} batch=${run##*:} data= name=deep
        [ "$model" = resnet20 ] && data="--data colour-fashion-small" name=resnet20
        set -- --model "$model" $data --threads 1 --batch $batch
        without=$($gradsum memory "$@" | awk '$1 == "total" { print $2; exit }')
        with=$($gradsum memory "$@" --offload activations | awk '$1 == "total" { print $2; exit }')
        hidden=
        for i in 1 2 3; do
            $gradsum train "$@" --steps 8 --offload activations >"$work/out" || exit 1
            hidden="$hidden $(tr -s ' \n' '  ' <"$work/out" | sed -n 's/.*; \([0-9]*\) % of the time to bring.*/\1/p')"
        done
        printf '%-12s %6d %27s %7s         %s\n' "$name" "$batch" "$without" "$with" "$hidden"
    done
} >"$here/figure-offload.txt"

# 5. the memory of a step, at each change of it: step 5
wanted step && for option in "" "--recompute 16"; do
    $gradsum train --model "$deep" --batch 256 --threads 1 --steps 8 $option --log "$work/run$option" >"$work/out" ||
        exit 1
    echo "= steps ${option:-all kept}"
    sed -n 's/.*"name":"memory","ts":\([0-9.]*\),.*"activations":\([0-9]*\).*/\1 memory \2/p
        s/.*"name":"step 5","ts":\([0-9.]*\),"dur":\([0-9.]*\).*/\1 step \2/p' "$work/run$option/trace.json" | sort -g |
        awk '$2 == "step" { end = $1 + $3; next }
            end && $1 <= end && $3 != last { print ++n, $3 / 1e6; last = $3 }'
done | {
    printf 'set x allocations and releases of a step, in order\nset y activations in use, MB\nset y_min 0\n' && cat
} | awk -f lessons/curves.awk >"$here/figure-step.svg"
exit 0
