#!/bin/sh
# opencl.sh BUILD: two figures that decide whether OpenCL on a CPU is worth it, on cl:0.0.
#   1. sgemm compared with OpenBLAS on all cores, and both with the FMA peak (sgemm.c)
#   2. a training of one step: with empty caches (ours and PoCL's), and again
# A figure is the best of several turns.
set -u
build=$1 gradsum=$1/gradsum
unset OPENBLAS_CORETYPE # gradsum chooses the OpenBLAS kernels that suit the CPU best
failed=0
if ! "$gradsum" devices | grep -q '^cl:0.0'; then
    echo "bench-cl: skipped: there is no OpenCL device cl:0.0"
    exit 0
fi

echo
"$build/bench-sgemm" cl:0.0 || failed=1

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
export GRADSUM_CACHE="$work/gradsum" POCL_CACHE_DIR="$work/pocl"

# best FILE: its smallest number
best() { sort -g "$1" | head -n 1; }
first() { # MODEL: seconds
    begin=$(date +%s%N)
    "$gradsum" train --model "$1" --device cl:0.0 --steps 1 --tests 0 >"$work/out" 2>&1 ||
        { cat "$work/out" >&2; return 1; }
    echo "$(($(date +%s%N) - begin))" | awk '{ printf "%.3f\n", $1 / 1e9 }'
}

printf '\n%-24s %12s %12s\n' "first step on cl:0.0, s" "cold cache" "warm cache"
for model in mlp lenet cnn; do
    : >"$work/cold"
    : >"$work/warm"
    for turn in 1 2 3; do
        rm -rf "$GRADSUM_CACHE" "$POCL_CACHE_DIR"
        mkdir "$GRADSUM_CACHE" "$POCL_CACHE_DIR"
        first $model >>"$work/cold" || failed=1
        first $model >>"$work/warm" || failed=1
    done
    printf '%-24s %12s %12s\n' $model "$(best "$work/cold")" "$(best "$work/warm")"
done
exit $failed
