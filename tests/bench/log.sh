#!/bin/bash
# log.sh PROGRAM [PAIRS]: the cost of train --log. Runs with and without a log alternate, so that the machine affects
# both equally. The cost is the time that the log adds to a whole run, as a share of the training time: once from the
# fastest run with a log and the fastest without (those were disturbed least), and once as the median over the pairs. On
# a machine that is busy with other work the figures are too high or too low: compare the spread.
set -u
gradsum=$1 pairs=${2:-31}
unset OPENBLAS_CORETYPE
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT

# run OPTIONS...: seconds of the whole run, and of its training
run() {
    local begin=$EPOCHREALTIME
    "$gradsum" train --threads 1 --json "$@" >"$work/out" || { cat "$work/out" >&2; exit 1; }
    sed -n '/"event":"end"/s/.*"steps":\([0-9]*\).*"samples_per_s":\([0-9.e+]*\).*/\1 \2/p' "$work/out" |
        awk -v begin="$begin" -v end="$EPOCHREALTIME" '{ printf "%.6f %.6f\n", end - begin, 128 * $1 / $2 }'
    rm -rf "$work/log"
}

measure() { # model devices epochs
    local i plain logged options=(--model "$1" --devices "$2" --epochs "$3")
    for ((i = 0; i < pairs; i++)); do
        ((i % 2 == 0)) || logged=$(run "${options[@]}" --log "$work/log")
        plain=$(run "${options[@]}")
        ((i % 2 == 1)) || logged=$(run "${options[@]}" --log "$work/log")
        echo "$plain $logged" | awk '{ print $1, $2, $3, 100 * ($3 - $1) / $2 }'
    done | sort -g -k 4,4 | awk -v what="$1 $2" -v n="$pairs" '
        { share[NR] = $4
          if (NR == 1 || $1 < plain) { plain = $1; training = $2 }
          if (NR == 1 || $3 < logged) logged = $3 }
        END { printf "%-16s %8.2f %% %8.2f %%   %6.2f to %.2f %%\n", what, 100 * (logged - plain) / training,
              share[int((n + 1) / 2)], share[int((n + 3) / 4)], share[int((3 * n + 1) / 4)] }'
}

echo "                   fastest     median   middle half of $pairs pairs"
for devices in cpu cpu,cpu; do
    measure mlp $devices 3
    measure lenet $devices 2
done
! "$gradsum" devices | grep -q '^cl:0.0' || measure lenet cl:0.0 2
