#!/bin/sh
# figures.sh [meet] [schemes] [cost] [curves]: makes all figures of this folder again, in a minute or two, or the named
# ones. The scheme "hierarchical" is the solution's if there is one, otherwise your lab.c's; LAB=FILE: that file's.
# shellcheck disable=SC2086
. "$(dirname "$0")/../figures.sh"
export GRADSUM_SECRET=a-secret-of-lesson-20

# 1. one machine plays two: they meet, and a third never comes
train="train --model mlp --threads 1 --exact --epochs 1"
wanted meet && {
    meet="--nodes 2 --meet tcp://127.0.0.1:29420"
    echo "# GRADSUM_MACHINE=berta gradsum launch $meet --node-rank 1 -n 2 -- $train &"
    echo "# GRADSUM_MACHINE=anna gradsum launch $meet --node-rank 0 -n 2 -- $train"
    GRADSUM_MACHINE=berta $gradsum launch $meet --node-rank 1 -n 2 -- $train > "$work/berta" 2>&1 &
    GRADSUM_MACHINE=anna $gradsum launch $meet --node-rank 0 -n 2 -- $train > "$work/anna" 2>&1 || exit 1
    wait
    grep -h -e '^gradsum' -e '^workers' -e '^weights' "$work/anna"
    echo "# gradsum $train"
    $gradsum $train | grep '^weights'
    for seed in 2 3 4 5; do
        one=$($gradsum $train --seed $seed | sed -n 's/^weights *sha256 \(.\{12\}\).*/\1/p')
        GRADSUM_MACHINE=berta $gradsum launch $meet --node-rank 1 -n 2 -- $train --seed $seed > /dev/null 2>&1 &
        two=$(GRADSUM_MACHINE=anna $gradsum launch $meet --node-rank 0 -n 2 -- $train --seed $seed 2>&1 |
            sed -n 's/^weights *sha256 \(.\{12\}\).*/\1/p')
        wait
        echo "# --seed $seed: $one with one process, $two with four on two machines"
    done
    echo "# gradsum doctor --nodes 2 --node-rank 0 --meet tcp://127.0.0.1:29421 --timeout 2"
    $gradsum doctor --nodes 2 --node-rank 0 --meet tcp://127.0.0.1:29421 --timeout 2 2>&1 |
        sed -n '/^The machines of the run/p; /^ok     node/,/^$/p' | head -6 |
        sed 's/: [^ ,]*, listens/: anna, listens/'
} > "$here/figure-meet.txt"

link="--inside 1us,200GB/s --model resnet50 --flops 2.34TFLOP/s --input 3x224x224"

# 2. one sum on more and more hosts of 8 workers, by each scheme, over two latencies
wanted schemes && {
    make -s build/lessons/20/grade > "$work/make" 2>&1 || { cat "$work/make" >&2; exit 1; }
    [ -f "$here/solution.c" ] && lab=$here/solution.c || lab=$here/lab.c
    build/lessons/20/grade "${LAB:-$lab}" build/lessons/20 > /dev/null
    echo "# gradsum simulate --workers N --hosts N/8 --link LATENCY,12.5GB/s $link"
    echo "#                      5us                          100us"
    echo "#    N scheme               ms in sums   GB between      ms in sums"
    for n in 64 512 4096; do
        for scheme in ps tree recursive_doubling ring halving_doubling hierarchical; do
            [ $n$scheme = 4096ring ] && continue # two minutes
            for latency in 5us 100us; do
                build/lessons/20/gradsum simulate --workers $n --hosts $((n / 8)) --link $latency,12.5GB/s $link \
                    --sync $scheme --json | grep -o '"\(communication\|sent_between\)":[0-9.e+]*' | cut -d: -f2
            done | tr '\n' ' ' | awk -v n=$n -v s=$scheme '{ printf "%6d %-20s %12.1f %12.1f %15.1f\n",
                n, s, 1e3 * $1, $2 / 1e9, 1e3 * $3 }'
        done
    done
    echo "# by the formulas of task 20.3, where all wait in each round, in ms:"
    for case in "64 5" "64 100" "512 5" "512 100"; do
        echo "$case"
    done | awk '{ N = $1; H = N / 8; a = 1e-6 * $2; B = 4 * 25557032
        printf "%6d workers, %3d us: one ring %6.1f, in hosts and between them %5.1f\n", N, $2,
            1e3 * 2 * (N - 1) * (a + B / N / 12.5e9),
            1e3 * (2 * 7 * (1e-6 + B / 8 / 200e9) + 2 * (H - 1) * (a + B / H / 12.5e9)) }'
} > "$here/figure-schemes.txt"

# 3. hours and money for 90 epochs of ImageNet: a worker needs 14 days alone, and costs 1 an hour
wanted cost && {
    echo "# gradsum simulate --workers 4096 --hosts 512 --link 5us,12.5GB/s $link"
    echo "#     --sync halving_doubling --curve, and 90 epochs of 1,281,167 samples; a worker costs 1 an hour"
    echo "#                          every batch is as good       critical batch of 16,384"
    echo "# workers   batch  step, ms     hours      money           hours      money"
    $gradsum simulate --workers 4096 --hosts 512 --link 5us,12.5GB/s $link --sync halving_doubling --curve --json |
        sed 's/.*"curve"://' | sed 's/{"workers"/\n&/g' |
        sed -n 's/^{"workers":\([0-9]*\),.*"step":\([0-9.e+-]*\),.*/\1 \2/p' |
        awk '{ batch = 32 * $1; hours = 90 * 1281167 / batch * $2 / 3600; more = hours * (1 + batch / 16384)
               printf "%9d %7d %9.1f %9.2f %10.0f %15.2f %10.0f\n",
                      $1, batch, 1e3 * $2, hours, hours * $1, more, more * $1 }'
} > "$here/figure-cost.txt"

wanted curves || exit 0
awk -f lessons/curves.awk > "$here/figure-cost.svg" << END
set x hours
set y money
set x_log 1
set y_min 0
set y_max 3500
= both every batch is as good
from $here/figure-cost.txt 4 5
= both critical batch of 16,384, with its workers
$(awk '$1 ~ /^[0-9]/ { print $6, $7, ($1 >= 256 ? "=" $1 : "") }' "$here/figure-cost.txt")
END
