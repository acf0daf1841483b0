#!/bin/sh
# figures.sh [FIGURE...]: makes all figures of this folder again, or the named ones. Run it from the source tree; the
# figure step needs two idle cores.
# shellcheck disable=SC2046,SC2086
set -eu
. "$(dirname "$0")/../figures.sh"
[ $# -gt 0 ] || set -- sent step

# Many units of one size, so that two windows are small.
deep="flatten, linear 256, 15 x (relu, linear 256), linear 10"
four="--devices cpu,cpu,cpu,cpu"

zero() { # STAGE [WITHOUT]: its option
    if [ "$1" = 0 ]; then echo "${2:-}"; else echo "--zero $1"; fi
}

sent() {
    echo "\$ gradsum train --model mlp $four --threads 1 --steps 4 --batch 64 --accumulate K --zero Z"
    echo
    echo "bytes that a worker sends in a step      K = 1       K = 4"
    for stage in 0 1 2 3; do
        for passes in 1 4; do
            "$gradsum" train --model mlp $four --threads 1 --steps 4 --batch 64 --accumulate $passes \
                $(zero $stage "--sync ring") | awk '$1 == "sent" { print $2 }'
        done | tr '\n' ' ' | awk -v what="$(zero $stage "--sync ring")" \
            '{ printf "%-32s %13s %11s\n", what, $1, $2 }'
    done
}

step() {
    for stage in 2 3; do
        echo "\$ gradsum step --model \"$deep\" --batch 512 --zero $stage"
        "$gradsum" step --model "$deep" --batch 512 --zero $stage | grep -v '^worker 1' | awk '
            /^worker 0 / { on = 1 } /^$/ && on { exit } { print }' | awk '
            /layer 1 / && seen++ { exit } { print }'
        echo
    done
}

for figure; do
    case $figure in sent) to=$here ;; *) to=$out ;; esac # the text holds the others
    $figure >"$work/figure"
    mv "$work/figure" "$to/figure-$figure.txt"
done
