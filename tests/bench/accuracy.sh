#!/bin/sh
# accuracy.sh PROGRAM: resnet20 after EPOCHS (10) epochs of colour-fashion, trained by gradsum and by PyTorch, with each
# of the seeds SEEDS ("1 2 3"), on the same bytes and with the same recipe. It takes hours: about twenty minutes for
# each run on two cores. DEVICES="cpu,cpu" trains on other devices; NEWEST=PYTHON uses another PyTorch than Debian's.
set -eu
gradsum=$1
here=$(dirname "$0")
library=$(dirname "$gradsum")/libgradsum.so
python=${NEWEST:-/usr/bin/python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset OPENBLAS_CORETYPE
# Fails early if dataset-fashion-mnist is missing.
"$gradsum" train --model softmax --data colour-fashion --steps 1 >/dev/null

ours() { # SEED
    "$gradsum" train --model resnet20 --data colour-fashion --epochs "${EPOCHS:-10}" --lr 0.1 --weight-decay 1e-4 \
        --schedule cosine --augment crop:4,flip --devices "${DEVICES:-cpu}" --seed "$1" --json |
        sed -n 's/.*"event":"end".*"test_accuracy":\([0-9.]*\).*/\1/p' | awk '{ printf "%.2f", 100 * $1 }'
}

torch() { # SEED
    "$python" "$here/accuracy_torch.py" "$library" --seed "$1" --epochs "${EPOCHS:-10}" --threads "$(nproc)" |
        sed -n 's/^PyTorch.*: \([0-9.]*\) %$/\1/p'
}

printf '%6s %10s %10s\n' seed gradsum PyTorch
for seed in ${SEEDS:-1 2 3}; do
    a=$(ours "$seed") b=$(torch "$seed")
    [ "$a" ] && [ "$b" ] || exit 1 # `set -e` does not see a failure in a pipe
    printf '%6s %8s %% %8s %%\n' "$seed" "$a" "$b"
    echo "$a $b" >>"$work/all"
done
awk '{ a += $1; b += $2; n++ } END {
    printf "%6s %8.2f %% %8.2f %%   difference %+.2f points\n", "mean", a / n, b / n, (a - b) / n }' "$work/all"
