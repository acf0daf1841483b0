#!/bin/sh
# exact.sh PROGRAM [MODEL...]: the time of a step with --exact relative to the ordinary mode, on the CPU with one thread
# and on OpenCL. Runs of both modes alternate; a figure is the fastest of three short runs in each of TURNS turns (5).
set -u
gradsum=$1
shift
here=$(dirname "$0")
unset OPENBLAS_CORETYPE # gradsum chooses the OpenBLAS kernels that suit the CPU best
. "$here/rows.sh"
LAUNCH='' failed=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# ratio NUMBER: the step of row NUMBER + 1, which is exact, relative to that of row NUMBER
ratio() {
    awk -v ordinary="$(value_of "$1")" -v exact="$(value_of $(($1 + 1)))" -v b="$(batch_of "$model")" 'BEGIN {
        if (!ordinary || !exact) { printf " %26s", "failed"; exit 1 }
        printf " %9.3f %9.3f %6.2f", 1000 * b / ordinary, 1000 * b / exact, ordinary / exact }' || failed=1
}

"$gradsum" devices | grep -q '^cl:0.0' && cl=yes || cl=no
columns=' ordinary     exact  ratio'
printf '%-10s %26s %26s\n' "" "cpu, 1 thread" "$([ $cl = no ] || echo cl:0.0)" \
    "ms a step" "$columns" "$([ $cl = no ] || echo "$columns")"
for model in ${*:-mlp lenet cnn resnet20 gpt}; do
    : >"$work/rows"
    for turn in $(seq "${TURNS:-5}"); do
        row 1 cpu "$(ours "$model" --device cpu --threads 1)"
        row 2 cpu "$(ours "$model" --device cpu --threads 1 --exact)"
        [ $cl = no ] && continue
        row 3 cl "$(ours "$model" --device cl:0.0)"
        row 4 cl "$(ours "$model" --device cl:0.0 --exact)"
    done
    printf '%-10s' "$model"
    ratio 1
    [ $cl = no ] || ratio 3
    echo
done
exit $failed
