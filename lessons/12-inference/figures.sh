#!/bin/sh
# The figure of this lesson, from a run on this machine that has nothing else to do: sh figures.sh [FILE with lab_serve]
cd "$(dirname "$0")/../.." || exit 1
make -s build/lessons/12/experiment LAB="${1:-lessons/12-inference/solution.c}" || exit 1
build/lessons/12/experiment > lessons/12-inference/figure-serve.txt
