# rows.sh: shared code of the training benchmarks; sourced, with $gradsum and $here set.
#
# Each figure is that of the fastest of many short runs, which alternate with all others. The figure of a run is the
# median of its steps, both for PyTorch and for gradsum. Other load on a machine makes a run slower, never faster, and a
# virtual machine's two cores may temporarily be one real core.

runs=3 # short ones in each turn

# batch_of MODEL: the global batch
batch_of() { case $1 in gpt) echo 12 ;; resnet50) echo 8 ;; *) echo 128 ;; esac; }

python=/usr/bin/python3
has_torch() { "$python" -c 'import torch' 2>/dev/null; }

# The OpenBLAS kernels that gradsum uses. PyTorch gets the same ones: without help OpenBLAS may choose the wrong ones on
# a new CPU, and gradsum would only seem to be faster.
kernels=$("$gradsum" devices | sed -n 's/.*OpenBLAS kernels: \([A-Za-z0-9]*\).*/\1/p' | head -n 1)

# steps_of MODEL: the steps of a run of about a quarter of a second
steps_of() {
    case $1 in mlp) echo 150 ;; lenet) echo 80 ;; cnn) echo 8 ;; resnet20) echo 2 ;; gpt) echo 5 ;; *) echo 1 ;; esac
}

# data_of MODEL: its training data here; resnet50 trains on noise, written to $work. The data do not affect the speed.
data_of() {
    case $1 in
    resnet20) echo colour-fashion-small ;;
    gpt) echo jargon ;;
    resnet50) [ -f "$work/noise/test-labels.npy" ] || noise "$work/noise" && echo "$work/noise" ;;
    *) echo fashion-mnist-small ;;
    esac
}

# npy FILE SIZES TYPE: a NumPy file with the bytes of standard input
npy() {
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '$3', 'fortran_order': False, 'shape': ($2,), }" >"$1"
    cat >>"$1"
}

# noise FOLDER: 64 pictures of 224 x 224 in 1,000 classes, for training and testing
noise() {
    mkdir -p "$1"
    for split in train test; do
        head -c $((64 * 3 * 224 * 224)) /dev/urandom | npy "$1/$split-images.npy" '64, 3, 224, 224' '|u1'
        head -c 64 /dev/zero | npy "$1/$split-labels.npy" 64 '|u1'
    done
}

# ours MODEL ARGUMENTS...: samples/s of all workers together, one line per run
ours() {
    model=$1
    shift
    i=0
    while [ $((i += 1)) -le $runs ]; do
        # shellcheck disable=SC2086
        "$gradsum" $LAUNCH train --model "$model" --data "$(data_of "$model")" --json --batch "$(batch_of "$model")" \
            --epochs 1000 --steps "$(steps_of "$model")" "$@" |
            sed -n '/"event":"end"/s/.*"step_median_ms":\([0-9.]*\).*/\1/p' |
            awk -v b="$(batch_of "$model")" '{ print 1000 * b / $1 }'
    done
}

# torch MODEL THREADS [RANKS]: the same for PyTorch, in one process for all runs, because it takes seconds to start
torch() { OPENBLAS_CORETYPE=$kernels "$python" "$here/step_torch.py" "$@" --batch "$(batch_of "$1")"; }
torch_as_installed() { "$python" "$here/step_torch.py" "$@" --batch "$(batch_of "$1")"; }
# Another PyTorch: NEWEST=venv/bin/python make bench
has_newest() { [ -n "${NEWEST:-}" ] && "$NEWEST" -c 'import torch' 2>/dev/null; }
newest() { "$NEWEST" "$here/step_torch.py" "$@" --batch "$(batch_of "$1")" 2>/dev/null; }

# row NUMBER NAME FIGURES: adds a line for each figure, for `name_of` and `value_of`. A figure is "" if the run failed.
row() { echo "$3" | while read -r figure; do echo "$1|$2|$figure"; done >>"$work/rows"; }
name_of() { sed -n "s/^$1|\(.*\)|.*/\1/p" "$work/rows" | head -n 1; }
value_of() { sed -n "s/^$1|.*|//p" "$work/rows" | sort -g | tail -n 1; }
