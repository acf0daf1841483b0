#!/bin/sh
# The figures of this lesson, from runs on this machine: sh figures.sh. Takes some seconds. $GRADSUM: the program, if it
# is not build/gradsum.
cd "$(dirname "$0")/../.." || exit 1
gradsum=${GRADSUM:-build/gradsum} here=lessons/02-forward-and-backward

$gradsum model mlp > "$here/figure-model.txt" || exit 1
$gradsum profile --model mlp --threads 1 > "$here/figure-profile.txt" || exit 1
make -s build/lessons/02/experiment && build/lessons/02/experiment > "$here/figure-differences.txt" || exit 1
build/lessons/02/experiment seeds > "$here/figure-seeds.txt" || exit 1
build/lessons/02/experiment wrong > "$here/figure-wrong.txt" || exit 1

awk -f lessons/curves.awk > "$here/figure-differences.svg" << END
set x h
set y how far off, as a part of the gradient
set x_log 1
set y_log 1
= both central
from $here/figure-differences.txt 1 3
= both one-sided
from $here/figure-differences.txt 1 2
END
