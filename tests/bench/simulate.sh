#!/bin/bash
# gradsum simulate compared with runs: the predicted step of this machine's workers, whose messages --link delays, and
# the step that `train` takes with them. Usage: tests/bench/simulate.sh build/gradsum [LINES-OF-THE-TABLE-BELOW]
#
# The links are slow enough that messages, not the two cores, determine the time of a step: the simulation does not
# model workers that share a core. CASES="..." in the environment replaces the cases.
set -euo pipefail
gradsum=$1
only=${2:-.}
steps=${STEPS:-16}
slow=5ms,20MB/s
fast=2ms,100MB/s
cases=${CASES:-$(cat <<END
2 ring $slow
2 ps $slow
2 halving_doubling $slow
3 ring $slow
3 tree $slow
3 sharded_ps $slow
4 ring $slow
4 ps $slow
4 sharded_ps $slow
4 recursive_doubling $slow
4 halving_doubling $slow
4 allreduce $slow
6 ring $slow
6 halving_doubling $slow
8 ring $slow
8 ps $slow
8 sharded_ps $slow
8 tree $slow
8 recursive_doubling $slow
8 halving_doubling $slow
8 allreduce $slow
4 ring $fast
8 halving_doubling $fast
4 ring $slow --bucket 50
4 tree $slow --wire f16
4 ring $slow --jitter 1:60ms@50%
4 ps $slow --jitter 2:30ms@100%,3:60ms@30%
END
)}

number() { # of a JSON line: the first field with this name
    grep -o "\"$1\":[-+0-9.e]*" | head -1 | cut -d: -f2
}

printf '%-44s %10s %10s %8s\n' "workers, scheme, --link" "measured" "predicted" "error"
errors=
while read -r workers scheme link options; do
    [[ "$workers $scheme $link $options" =~ $only ]] || continue
    devices=$(printf 'cpu,%.0s' $(seq "$workers"))
    # shellcheck disable=SC2086
    set -- --model lenet --data fashion-mnist-small --batch $((4 * workers)) --sync "$scheme" --link "$link" \
        --steps "$steps" --json $options
    measured=$("$gradsum" train --devices "${devices%,}" "$@" 2>/dev/null | tail -1 | number step_median_ms)
    predicted=$("$gradsum" simulate --workers "$workers" "$@" | number step)
    line=$(awk -v m="$measured" -v p="$predicted" -v w="$workers $scheme $link $options" \
        'BEGIN { p *= 1000; printf "%-44s %7.2f ms %7.2f ms %+6.1f %%", w, m, p, 100 * (p - m) / m }')
    echo "$line"
    errors+=$(awk -v m="$measured" -v p="$predicted" \
        'BEGIN { e = 100 * (1000 * p - m) / m; print e < 0 ? -e : e }')$'\n'
done <<<"$cases"
printf '%s' "$errors" | sort -g | awk '{ e[NR] = $1 } END {
    m = NR % 2 ? e[(NR + 1) / 2] : (e[NR / 2] + e[NR / 2 + 1]) / 2
    printf "%d cases, median error %.1f %%, largest %.1f %%; wanted a median of at most 5 %%\n", NR, m, e[NR]
    exit m > 5 }'
