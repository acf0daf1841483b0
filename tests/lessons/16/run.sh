#!/bin/sh
# run.sh BUILD PROGRAM FOLDER: with the step of task 16.2, the running framework produces the weights of the library's
# stage 1, to the bit, even if the workers do not divide the model evenly.
set -u
build=$1 program=$2 work=$3/zero wrong=0
fingerprint() { sed -n 's/^weights *sha256 //p' "$1"; }
for devices in cpu cpu,cpu cpu,cpu,cpu cpu,cpu,cpu,cpu; do
    how="train --model mlp --devices $devices --threads 1 --steps 5 --batch 64 --zero 1"
    # shellcheck disable=SC2086
    "$program" $how >"$work.theirs" 2>&1 && "$build/gradsum" $how >"$work.ours" 2>&1 ||
        { cat "$work.theirs"; wrong=1; }
    [ -n "$(fingerprint "$work.ours")" ] && [ "$(fingerprint "$work.theirs")" = "$(fingerprint "$work.ours")" ] ||
        { echo "  FAILED: $devices: the weights are not those of --zero 1" >&2; wrong=1; }
done
exit $wrong
