#!/bin/sh
# The figure of this lesson, from runs on this machine, in about ten seconds: sh figures.sh
cd "$(dirname "$0")/../.." || exit 1
make -s build/lessons/05/experiment || exit 1
build/lessons/05/experiment > lessons/05-splitting-the-data/figure-bugs.txt
