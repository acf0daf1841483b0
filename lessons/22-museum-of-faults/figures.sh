#!/bin/sh
# figures.sh: makes all figures of this folder again, in ten seconds.
cd "$(dirname "$0")/../.." || exit 1
here=lessons/22-museum-of-faults
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
make -s build/gradsum build/lessons/22/museum || exit 1

# 1. the entrance: exhibit 0, and what explain says (its exit status is 1, because the records differ)
{
    build/lessons/22/museum 0 "$work/0"
    build/gradsum explain "$work/0/exhibit" "$work/0/right"
} | sed "s|$work|build/museum|g" > $here/figure-entrance.txt

# 2. the losses, with five seeds each
build/lessons/22/museum --losses > $here/figure-losses.txt

# 3. the list of exhibits
build/lessons/22/museum > $here/figure-museum.txt
