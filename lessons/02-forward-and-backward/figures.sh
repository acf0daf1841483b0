#!/bin/sh
# The picture of this lesson, in some seconds: sh figures.sh
. "$(dirname "$0")/../figures.sh"
make -s build/lessons/02/experiment && build/lessons/02/experiment > "$work/differences" || exit 1
awk -f lessons/curves.awk > "$here/figure-differences.svg" << END
set x h
set y how far off, as a part of the gradient
set x_log 1
set y_log 1
= both central
from $work/differences 1 3
= both one-sided
from $work/differences 1 2
END
