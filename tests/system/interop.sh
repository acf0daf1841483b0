#!/bin/sh
# interop.sh PROGRAM FOLDER: other programs read logs of `gradsum train --log`. A JSON schema validator (Debian's
# python3-jsonschema) reads run.json, metrics.jsonl and the trace; TensorBoard (a Python package, which pip installs
# into FOLDER/venv) reads event files. A missing program is skipped with a message; with GRADSUM_INTEROP=required that
# is a failure.
set -eu
gradsum=$(realpath "$1") folder=$2 here=$(dirname "$0") python=/usr/bin/python3
mkdir -p "$folder"
rm -rf "$folder/logs"
mkdir "$folder/logs"

skip() {
    echo "test-interop: skipped: $1"
    [ "${GRADSUM_INTEROP:-}" != required ] || exit 1
}

# log NAME ARGUMENTS...: a short run, optionally with LAUNCH in front of it
log() {
    name=$1
    shift
    # shellcheck disable=SC2086
    "$gradsum" ${LAUNCH:-} train --threads 1 --log "$folder/logs/$name" "$@" >/dev/null
}

log alone --model lenet --epochs 2 --batch 333 --save "$folder/weights.safetensors" --lr-rule linear --warmup 1
log ring --model lenet --devices cpu,cpu --sync ring --epochs 2
log ps --model lenet --devices cpu,cpu,cpu --sync ps --steps 20 --trace-steps 1-20
log tree --devices cpu,cpu,cpu,cpu --sync tree --steps 20
log allreduce --devices cpu,cpu --steps 20 --accumulate 2
log residual --model "conv 4 3x3 pad 1, relu, residual(conv 4 3x3 pad 1, relu), max_pool 4, flatten, linear 10" \
    --steps 8
log bucket --model lenet --devices cpu,cpu --sync ring --bucket 16 --steps 20
log wire --model lenet --devices cpu,cpu,cpu --sync halving_doubling --wire bf16 --steps 20
log exact --model lenet --devices cpu,cpu --exact --steps 20
log async --model lenet --devices cpu,cpu,cpu --sync async --staleness 2 --steps 20
log local --model lenet --devices cpu,cpu --sync local --every 5 --steps 20
if "$gradsum" devices | grep -q '^cl:'; then log mixed --model lenet --devices cpu,cl --sync ring --steps 20; fi
LAUNCH="launch -n 2 --"
log processes --model lenet --devices cpu,cpu --sync ring --steps 20
LAUNCH="launch -n 2 --transport gloo --"
log gloo --model lenet --sync ring --steps 20

if "$python" -c 'import jsonschema' 2>/dev/null; then
    "$python" "$here/interop_log.py" "$gradsum" "$folder"/logs/*
else
    skip "no python3-jsonschema"
fi

tensorboard=$folder/venv/bin/python
can_read() { [ -x "$tensorboard" ] && "$tensorboard" -c 'import tensorboard' 2>/dev/null; }
if ! can_read; then
    { "$python" -m venv "$folder/venv" &&
        "$folder/venv/bin/pip" install --disable-pip-version-check --quiet --retries 1 --timeout 20 \
            'tensorboard>=2.16,<3'; } >"$folder/pip.log" 2>&1 ||
        true
fi
if can_read; then
    "$tensorboard" "$here/interop_tensorboard.py" "$folder/logs/alone" "$folder/weights.safetensors"
else
    tail -n 3 "$folder/pip.log"
    skip "the Python package tensorboard could not be installed"
fi
