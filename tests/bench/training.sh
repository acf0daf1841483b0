#!/bin/sh
# training.sh PROGRAM [MODEL...]: samples/s of training (batch 128; gpt: 12 sequences; resnet50: 8; forward + backward +
# update, momentum SGD, loading included) in every configuration of this machine, measured in one run, and as ratios to
# PyTorch where Debian's python3-torch is installed: rows of one thread relative to PyTorch with one, the others
# relative to PyTorch with all cores. NEWEST=PYTHON, with another PyTorch, adds rows for that, eager and compiled. Each
# figure is the fastest of three short runs in each of TURNS turns (7). The machine's peak rates are measured in the
# same turns, and the cpu rows are also shown as a share of its multiply-adds.
set -u
gradsum=$1
shift
here=$(dirname "$0")
cores=$(nproc)
unset OPENBLAS_CORETYPE # each side chooses its libraries' kernels itself
. "$here/rows.sh"

# flops MODEL: floating point operations of one sample, forward + backward without the first layer's input gradient
flops() {
    "$gradsum" model "$1" | tr -d , | awk '$1 == "total" { f = $NF } $1 == "backward:" { b = $2 } END { print f + b }'
}

# peak THREADS FIELD: a measured rate of the cpu; FIELD is peak_flops, or bytes_per_s of a triad larger than the caches
peak() { sed -n "s/^$1|.*\"$2\":\([0-9.e+]*\).*/\1/p" "$work/peaks" | sort -g | tail -n 1; }

echo "gradsum on this machine:"
"$gradsum" devices | sed 's/^/  /'
has_torch && "$python" -c 'import torch; print("  PyTorch", torch.__version__)'
has_newest && "$NEWEST" -c 'import torch; print("  newest: PyTorch", torch.__version__)'

failed=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
: >"$work/peaks"
halves="cl:0.0/0of2,cl:0.0/1of2"

for model in ${*:-mlp lenet cnn resnet20 gpt}; do
    : >"$work/rows"
    for turn in $(seq "${TURNS:-7}"); do
        LAUNCH=
        for threads in 1 $cores; do # without the layers' rows and the speeds of the loader
            "$gradsum" profile --model softmax --device cpu --threads "$threads" --json |
                sed "s/,\"loader_samples_per_s.*//; s/^/$threads|/" >>"$work/peaks"
        done
        has_torch && row 1 "PyTorch, 1 thread" "$(torch $model 1)"
        has_torch && row 2 "the same without OPENBLAS_CORETYPE" "$(torch_as_installed $model 1)"
        has_newest && row 13 "newest PyTorch, 1 thread" "$(newest $model 1)"
        has_newest && row 14 "the same, compiled" "$(newest $model 1 --compile)"
        row 3 "cpu, 1 thread" "$(ours $model --device cpu --threads 1)"
        if [ "$cores" -ge 2 ]; then
            has_torch && row 4 "PyTorch, 2 threads" "$(torch $model 2)"
            has_torch && row 12 "the same without OPENBLAS_CORETYPE" "$(torch_as_installed $model 2)"
            has_newest && row 15 "newest PyTorch, 2 threads" "$(newest $model 2)"
            has_newest && row 16 "the same, compiled" "$(newest $model 2 --compile)"
            row 5 "cpu, 2 threads" "$(ours $model --device cpu --threads 2)"
            row 6 "2 workers as threads" "$(ours $model --devices cpu,cpu --threads 1)"
            has_torch && row 7 "PyTorch DDP over Gloo, 2 ranks" "$(torch $model 1 2)"
            LAUNCH="launch -n 2 --"
            row 8 "2 processes, shared memory" "$(ours $model --device cpu --threads 1)"
            LAUNCH="launch -n 2 --transport gloo --"
            row 9 "2 processes over Gloo" "$(ours $model --device cpu --threads 1)"
            LAUNCH=
        fi
        if "$gradsum" devices | grep -q '^cl:0.0'; then
            row 10 cl:0.0 "$(ours $model --device cl:0.0)"
            if "$gradsum" devices | grep -q 'up to .* sub-devices'; then
                row 11 $halves "$(ours $model --devices $halves)"
            fi
        fi
    done
    printf '\n%-35s %10s %9s %14s %8s\n' "$model, global batch $(batch_of $model)" \
        samples/s "to PyTorch" "as installed" "of peak"
    flops=$(flops $model)
    for row in 1 2 13 14 3 4 12 15 16 5 6 7 8 9 10 11; do
        name=$(name_of $row) value=$(value_of $row)
        [ -n "$name" ] || continue
        [ -n "$value" ] || { printf '%-34s %14s\n' "$name" failed && failed=1 && continue; }
        case $row in
        1 | 2 | 3 | 13 | 14) limit=$(peak 1 peak_flops) torch=$(value_of 1) installed=$(value_of 2) ;;
        *) limit=$(peak "$cores" peak_flops) torch=$(value_of 4) installed=$(value_of 12) ;;
        esac
        case $row in 10 | 11) limit= ;; esac
        awk -v n="$name" -v v="$value" -v t="$torch" -v i="$installed" -v f="$flops" -v l="$limit" 'BEGIN {
            printf v < 100 ? "%-35s %10.2f" : "%-35s %10.0f", n, v
            printf t ? " %9.2fx" : " %10s", t ? v / t : ""
            printf i ? " %13.2fx" : " %14s", i ? v / i : ""
            if (l) printf " %6.0f %%", 100 * v * f / l
            printf "\n" }'
    done
    awk -v one="$(value_of 3)" -v two="$(value_of 5)" -v cl="$(value_of 10)" 'BEGIN {
        if (one && two) printf "cpu, 2 threads to 1: %.2fx", two / one
        if (two && cl) printf "; cl to 2 threads: %.2fx", cl / two
        if (one && two) printf "\n" }'
done
printf '\nthe cpu alone, the best of all turns\n'
for threads in $(sed 's/|.*//' "$work/peaks" | sort -nu); do
    awk -v t="$threads" -v f="$(peak "$threads" peak_flops)" -v b="$(peak "$threads" bytes_per_s)" \
        'BEGIN { printf "%2d threads: FMA loop %.0f GFLOP/s, triad in memory %.1f GB/s\n", t, f / 1e9, b / 1e9 }'
done
exit $failed
