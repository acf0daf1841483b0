#!/bin/sh
# figures.sh [bits] [damage] [detector] [hosts] [interval] [curves]: makes all figures of this folder again, in about
# two minutes, or the named ones.
. "$(dirname "$0")/../figures.sh"
train="train --model mlp --threads 1 --exact --epochs 1"
weights() { sed -n 's/^weights *sha256 \(.\{12\}\).*/\1/p' "$work/run"; }
told() { grep -o "$1" "$work/run" | tr '\n' ',' | sed 's/,$//; s/,/, /g'; }

# 1. the weights of an undisturbed run, of one that restarts, and of two that go on
wanted bits && {
    echo "# gradsum $train --seed S, and where each goes on after a loss"
    echo "# seed  workers          weights (SHA-256)  goes on after step"
    for seed in 1 2 3 4 5; do
        $gradsum $train --seed $seed > "$work/run" 2>&1 || exit 1
        echo "$seed;1, undisturbed;$(weights);"
        GRADSUM_FAULT="kill:rank=1,operation=60" $gradsum launch --restarts 3 -n 2 -- $train --seed $seed \
            --checkpoint "$work/$seed" --checkpoint-every 5 > "$work/run" 2>&1 || exit 1
        echo "$seed;2, --restarts 3;$(weights);$(told 'after step [0-9]* (' | tr -dc '0-9,')"
        GRADSUM_FAULT="kill:rank=2,operation=60,generation=all" $gradsum launch --elastic 2:4 -n 4 -- $train \
            --seed $seed > "$work/run" 2>&1 || exit 1
        echo "$seed;4, --elastic 2:4;$(weights);$(told 'go on after step [0-9]*' | tr -dc '0-9, ' | tr -s ' ')"
        GRADSUM_FAULT="kill:rank=1,operation=80" $gradsum launch --elastic 2 -n 4 -- $train --seed $seed \
            > "$work/run" 2>&1 || exit 1
        echo "$seed;4, --elastic 2;$(weights);$(told 'go on after step [0-9]*' | tr -dc '0-9, ' | tr -s ' ')"
    done | awk -F ';' '{ gsub(/^ +| +$/, "", $4); printf "%6d  %-16s %-18s %s\n", $1, $2, $3, $4 }' | sed 's/ *$//'
} > "$here/figure-bits.txt"

# 2. a checkpoint that was damaged after it was written
wanted damage && (
    program=$(realpath "$gradsum")
    mkdir "$work/damage" && cd "$work/damage" || exit 1
    show() { echo "\$ $*"; }
    short="train --model mlp --threads 1 --exact --epochs 1 --checkpoint run"
    show gradsum $short --checkpoint-every 10 --steps 30
    "$program" $short --checkpoint-every 10 --steps 30 > out 2>&1 || exit 1
    show ls run
    ls run
    show truncate -s -1 run/step-000000030.safetensors
    truncate -s -1 run/step-000000030.safetensors
    show gradsum $short --resume run
    "$program" $short --resume run > out 2>&1 || exit 1
    grep -e damaged -e '^resume' -e '^weights' out | fold -s -w 100 | sed 's/ $//'
) > "$here/figure-damage.txt"

# 3. a rank that is stopped, and one that is slow, for a detector that waits 1 or 4 seconds
wanted detector && {
    echo "# GRADSUM_FAULT=FAULT gradsum launch --timeout S -n 4 -- train --model mlp --threads 1 --sync ring --steps 20"
    for seconds in 1 4; do
        for fault in "stop:rank=2,operation=40" "delay:rank=2,operation=40,seconds=2"; do
            GRADSUM_FAULT="$fault" $gradsum launch --timeout $seconds -n 4 -- train --model mlp --threads 1 \
                --sync ring --steps 20 > "$work/run" 2>&1
            echo
            echo "# --timeout $seconds, $fault"
            sed -n 's/^gradsum train: //p; s/^\(done  *[0-9]* steps\).*/\1/p' "$work/run" | sort -u | head -1 |
                sed 's/ (process [0-9]* / (process P /; s/ on host [^ ;]*//' | fold -s -w 100 | sed 's/ $//'
        done
    done
} > "$here/figure-detector.txt"

simulate="simulate --link 5us,12.5GB/s --flops 20TFLOP/s --sync tree --mtbf 264d --restart-cost 10min --work 30d"
field() { sed -n "s/^$1 *//p" "$work/run"; }

# 4. as many hosts again and again
wanted hosts && {
    echo "# gradsum $simulate"
    echo "#     --checkpoint-cost 1min --workers N"
    echo "#     N  a failure in    best interval    expected time   more"
    for n in 1 8 64 512 1024 2048 4096 8192 16384; do
        $gradsum $simulate --checkpoint-cost 1min --workers $n > "$work/run" || exit 1
        echo "$n;$(sed -n 's/^failures *one in \(.*\) of the cluster.*/\1/p' "$work/run");$(field 'Daly (2006)' |
            sed 's/  \+/;/g')"
    done | awk -F ';' '{ n = split($4, m, " "); printf "%7d  %-13s   %-14s   %-12s %s\n", $1, $2, $3, $4, $5 }'
} > "$here/figure-hosts.txt"

# 5. the interval
wanted interval && {
    echo "# gradsum $simulate"
    echo "#     --checkpoint-cost 1min --workers 2048 --checkpoint-every T; drawn: the mean of 1000 runs"
    echo "#      T     more, by formula   more, drawn"
    for t in 2min 5min 10min 15min 20min 25min 30min 45min 60min 90min 120min 180min; do
        $gradsum $simulate --checkpoint-cost 1min --workers 2048 --checkpoint-every $t > "$work/run" || exit 1
        echo "$t $(field 'as given' | awk '{ print $(NF - 1) }') $(field 'drawn' | awk 'NR == 1 { print $(NF - 1) }')"
    done | awk '{ printf "%8s %15.1f %% %13.1f %%\n", $1, $2, $3 }'
    for c in 15s 1min 4min; do
        $gradsum $simulate --checkpoint-cost $c --workers 2048 > "$work/run" || exit 1
        echo "# a checkpoint takes $c: Daly $(field 'Daly (2006)' | tr -s ' ')"
    done
} > "$here/figure-interval.txt"

wanted curves || exit 0
awk -f lessons/curves.awk > "$here/figure-interval.svg" << END
set x minutes of work between two checkpoints
set y more time than without failures, %
set x_log 1
set x_ticks 2 5 10 20 45 90 180
set y_min 0
= line by Daly's formula
$(awk 'BEGIN { m = 264 * 24 * 60 / 2048
    for (t = 1.8; t <= 200; t *= 1.1) print t, 100 * (m * exp(10 / m) * (exp((t + 1) / m) - 1) / t - 1) }')
= dots drawn: the mean of 1000 runs
from $here/figure-interval.txt 1 4
= dash delta / tau + tau / 2 M, as Young has it
$(awk 'BEGIN { m = 264 * 24 * 60 / 2048; for (t = 1.8; t <= 200; t *= 1.1) print t, 100 * (1 / t + t / (2 * m)) }')
END
