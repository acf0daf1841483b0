#!/bin/bash
# Predictions compared with measurements: memory with malloc, steps of layouts with real steps, steps over --link; and
# how long it takes to simulate a large cluster. Usage: tests/bench/predict.sh build [memory|layouts|links|large]
set -euo pipefail
build=$1
gradsum=$build/gradsum
only=${2:-.}
wrong=0

if [[ memory =~ $only ]]; then
    GRADSUM_TEST_DRAWS=20 "$build/gradsum-test" memory_plan | grep -E 'malloc|FAILED' || wrong=1
fi

# With two workers, because each has its own core; with more, shared cores would determine the time.
if [[ layouts =~ $only ]]; then
    printf '%-44s %10s %10s %8s\n' "model, layout" "measured" "predicted" "error"
    errors=
    while read -r run; do
        # shellcheck disable=SC2086
        layouts=$("$gradsum" layout --workers 2 --threads 1 $run --json 2>/dev/null)
        while read -r layout predicted; do
            # shellcheck disable=SC2086
            measured=$("$gradsum" train --devices cpu,cpu --threads 1 --layout "$layout" --steps 40 $run --json \
                2>/dev/null | tail -1 | grep -o '"step_median_ms":[0-9.]*' | cut -d: -f2)
            errors+=$(awk -v m="$measured" -v p="$predicted" -v w="$run $layout" 'BEGIN {
                printf "%-44.44s %7.2f ms %7.2f ms %+6.1f %%\n", substr(w, 9), m, p, 100 * (p - m) / m > "/dev/stderr"
                e = 100 * (p - m) / m; print e < 0 ? -e : e }')$'\n'
        done < <(grep -o '"layout":"[^"]*","sequence":[a-z]*,"step_ms":[0-9.]*' <<<"$layouts" |
            sed 's/"layout":"\([^"]*\)".*:\([0-9.]*\)$/\1 \2/')
    done <<'END'
--model lenet --batch 96
--model lenet --batch 192
--model lenet --batch 384
--model mlp --batch 256
--model resnet20 --batch 32
--model gpt --data jargon --batch 16 --context 64
END
    printf '%s' "$errors" | sort -g | awk '{ e[NR] = $1 } END {
        m = NR % 2 ? e[(NR + 1) / 2] : (e[NR / 2] + e[NR / 2 + 1]) / 2
        printf "%d layouts, median error %.1f %%, largest %.1f %%; wanted a median of at most 10 %%\n", NR, m, e[NR]
        exit m > 10 }' || wrong=1
fi

if [[ links =~ $only ]]; then
    tests/bench/simulate.sh "$gradsum" || wrong=1
fi

if [[ large =~ $only ]]; then
    while read -r workers scheme; do
        TIMEFORMAT="simulate --workers $workers --sync $scheme: %0R s"
        time "$gradsum" simulate --model mlp --link 5us,1GB/s --workers "$workers" --sync "$scheme" >/dev/null
    done <<'END'
4096 ring
65536 ring
65536 tree
65536 halving_doubling
END
fi
exit $wrong
