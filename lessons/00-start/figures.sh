#!/bin/sh
# The figures of this lesson, from runs on this machine: sh figures.sh. Takes some seconds. $GRADSUM: the program, if it
# is not build/gradsum.
cd "$(dirname "$0")/../.." || exit 1
gradsum=${GRADSUM:-build/gradsum} here=lessons/00-start

$gradsum devices > "$here/figure-devices.txt" || exit 1
$gradsum train --model mlp --epochs 3 --threads 1 > "$here/figure-one-worker.txt" || exit 1
$gradsum train --model mlp --epochs 3 --threads 1 --devices cpu,cpu > "$here/figure-two-workers.txt" || exit 1
for devices in cpu cpu,cpu cpu,cpu,cpu,cpu; do
    echo "\$ build/gradsum train --model mlp --epochs 1 --threads 1 --exact --devices $devices"
    $gradsum train --model mlp --epochs 1 --threads 1 --exact --devices $devices | grep sha256
done > "$here/figure-exact.txt"
