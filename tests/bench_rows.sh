# bench_rows.sh: what the benches of training have in common; sourced, with $gradsum and $here set.
#
# A figure is the fastest of several runs, taken in turns with all others: what else runs on a machine makes a run slower,
# never faster, and a virtual machine's two cores may be one real core for a while.

python=/usr/bin/python3
has_torch() { "$python" -c 'import torch' 2>/dev/null; }

# The kernels of OpenBLAS that gradsum computes with. PyTorch is given the same: alone, OpenBLAS may take the wrong ones on
# a new CPU, and gradsum would only seem to be fast.
kernels=$("$gradsum" devices | sed -n 's/.*OpenBLAS kernels: \([A-Za-z0-9]*\).*/\1/p' | head -n 1)

# ours MODEL STEPS ARGUMENTS...: samples/s of all workers together
ours() {
    model=$1 steps=$2
    shift 2
    # shellcheck disable=SC2086
    "$gradsum" $LAUNCH train --model "$model" --json --batch 128 --epochs 1000 --steps "$steps" "$@" |
        sed -n '/"event":"end"/{s/,"per_worker":.*//;s/.*"samples_per_s":\([0-9.]*\).*/\1/p;}'
}

# torch MODEL THREADS [RANKS]: samples/s
torch() { OPENBLAS_CORETYPE=$kernels "$python" "$here/bench_torch.py" "$@"; }
torch_as_installed() { "$python" "$here/bench_torch.py" "$@"; }

# row NUMBER NAME SAMPLES/S: adds to what `name_of` and `value_of` look up
row() { echo "$1|$2|$3" >>"$work/rows"; }
name_of() { sed -n "s/^$1|\(.*\)|.*/\1/p" "$work/rows" | head -n 1; }
value_of() { sed -n "s/^$1|.*|//p" "$work/rows" | sort -g | tail -n 1; }
