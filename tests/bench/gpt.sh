#!/bin/sh
# gpt.sh BUILD: a small GPT (gpt.c) on all kinds of devices, with one thread and with two, and how its
# memory grows with the context. All take turns twice, since a machine may be slower for some seconds.
set -u
bench=$1/bench-gpt
unset OPENBLAS_CORETYPE # OpenBLAS is to run with the kernels that suit the CPU best, which gradsum chooses
cl=
if "$1/gradsum" devices | grep -q '^cl:0.0'; then cl=yes; fi

echo

all_devices() {
    "$bench" cpu 1 150
    "$bench" cpu 2 150
    "$bench" cpu,cpu 1 150
    [ -z "$cl" ] || "$bench" cl:0.0 1 150
}
all_devices
all_devices
echo "contexts of 64, 256 and 1024 tokens, one sequence a step:"
for context in 64 256 1024; do
    "$bench" cpu 2 20 sgd "$context" 1
done
