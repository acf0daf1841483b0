#!/usr/bin/env bash
# oclgrind.sh TEST-PROGRAM [few]: runs every kernel under Oclgrind, which continues after a finding and reports races
# between work-items, reads of uninitialised memory, accesses out of bounds and wrong use of the API. Any finding is a
# failure.
# few: checks narrow vectors and large products only for linear. With GPU tiles, whose products take longest, there are
# no finite differences and no comparisons of a kernel with itself, and conv2d and linear run only with a fused relu.
set -euo pipefail
program=$1 few=${2:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export program folder

# Oclgrind is about 100 times slower than a device: tiny shapes, which still reach every kernel and every branch.
check() {
    local tiles=$1 group=$2 verdict="no findings" start=$SECONDS
    local log="$folder/$group $tiles.log" output="$folder/$group $tiles.txt"
    GRADSUM_TEST_SMALL=1 GRADSUM_TEST_DEVICES=cl GRADSUM_CL_TILES=$tiles GRADSUM_CACHE=off \
        oclgrind --data-races --uninitialized --check-api --log "$log" "$program" "$group" \
        >"$output" 2>&1 </dev/null || verdict="the tests failed"
    [ ! -s "$log" ] || verdict="findings"
    if [ "$verdict" != "no findings" ]; then
        cat "$output" "$log"
        touch "$folder/failed"
    fi
    echo "oclgrind: $group, with $tiles tiles: $(grep -c '       OK ' "$output" || true) tests passed, $verdict," \
        "$((SECONDS - start)) s"
}
export -f check

# Without a device each test fails or is skipped, which does not matter here.
tests_called() { { GRADSUM_TEST_DEVICES=none "$program" "$1" 2>&1 || true; } | sed -n 's/^\[ RUN *\] //p'; }

# All families of tiles: those for CPUs, with narrow and wide vectors; those for GPUs; and the kernels for large
# products (pack=0). Operators without products depend only on whether the device is a GPU. Two checks at a time, the
# longest first; each operator is a separate check, so that none delays the others.
jobs() {
    local tiles group operators
    operators=$(tests_called operators | sed -n 's/^golden //p')
    [ "$(wc -w <<<"$operators")" -ge 19 ] ||
        { echo "oclgrind.sh: these are not all operators: $operators" >&2; exit 1; }
    for group in conv2d attention linear conv2d_groups; do
        for tiles in gpu cpu4 cpu16 "cpu8 pack=0"; do
            case $few,$group,$tiles in
            few,*,gpu)
                tests_called "* $group" | sed "s/.*/gpu '*&'/" | # without a * it would name a group
                    grep -v 'finite differences\|same_bits\|like plain\|is_rounded' |
                    grep -v 'golden conv2d.$\|golden linear.$' ;;
            few,linear,* | few,*,cpu16 | ,*) echo "'$tiles' '* $group'" ;;
            esac
        done
    done
    for group in $operators; do
        case $group in conv2d | attention | linear | conv2d_groups) continue ;; esac
        for tiles in cpu16 gpu; do echo "$tiles '* $group'"; done
    done
    for group in fused sequences backend softmax_part; do
        for tiles in ${few:-cpu4} cpu16 gpu; do [ "$tiles" = few ] || echo "$tiles $group"; done
    done
    for group in special_values sgd optimizers clip batch_norm; do
        for tiles in cpu16 gpu; do echo "$tiles $group"; done
    done
    echo "cpu16 half_storage_operators" # 16-bit tensors
    [ -n "$few" ] || echo "cpu16 half_storage" # 16-bit activations between layers
    echo "cpu16 precision" # the kernels of the groups above, after one that rounds
}
jobs >"$folder/jobs"
# shellcheck disable=SC2016
xargs -L 1 -P 2 bash -c 'check "$1" "$2"' check <"$folder/jobs"
[ ! -e "$folder/failed" ] || exit 1
echo "oclgrind: no findings"
