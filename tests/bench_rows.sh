# bench_rows.sh: what the benches of training have in common; sourced, with $gradsum and $here set.
#
# A figure is the fastest of many short runs, taken in turns with all others. Each run counts by the median of its
# steps, for PyTorch as for gradsum. Other load on a machine makes a run slower, never faster, and a virtual machine's
# two cores may be one real core for a while.

batch=128 # the global one
runs=3    # short ones in each turn

python=/usr/bin/python3
has_torch() { "$python" -c 'import torch' 2>/dev/null; }

# The OpenBLAS kernels that gradsum computes with. PyTorch is given the same ones: on its own, OpenBLAS may choose the
# wrong ones on a new CPU, and gradsum would only seem to be fast.
kernels=$("$gradsum" devices | sed -n 's/.*OpenBLAS kernels: \([A-Za-z0-9]*\).*/\1/p' | head -n 1)

# steps_of MODEL: in a run of a quarter of a second or so
steps_of() { case $1 in mlp) echo 150 ;; lenet) echo 80 ;; cnn) echo 8 ;; esac; }

# ours MODEL ARGUMENTS...: samples/s of all workers together, a line for each run
ours() {
    model=$1
    shift
    i=0
    while [ $((i += 1)) -le $runs ]; do
        # shellcheck disable=SC2086
        "$gradsum" $LAUNCH train --model "$model" --json --batch $batch --epochs 1000 \
            --steps "$(steps_of "$model")" "$@" |
            sed -n '/"event":"end"/s/.*"step_median_ms":\([0-9.]*\).*/\1/p' | awk -v b=$batch '{ print 1000 * b / $1 }'
    done
}

# torch MODEL THREADS [RANKS]: the same; one process for all runs, as it takes seconds to start
torch() { OPENBLAS_CORETYPE=$kernels "$python" "$here/bench_torch.py" "$@"; }
torch_as_installed() { "$python" "$here/bench_torch.py" "$@"; }

# row NUMBER NAME FIGURES: adds to what `name_of` and `value_of` look up, a line each; "": it failed
row() { echo "$3" | while read -r figure; do echo "$1|$2|$figure"; done >>"$work/rows"; }
name_of() { sed -n "s/^$1|\(.*\)|.*/\1/p" "$work/rows" | head -n 1; }
value_of() { sed -n "s/^$1|.*|//p" "$work/rows" | sort -g | tail -n 1; }
