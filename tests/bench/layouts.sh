#!/bin/sh
# layouts.sh PROGRAM [bubble] [pipeline] [tensor] [zero]: the gain or cost of a layout, as ratios of steps in one run:
#
#     bubble     how long two stages wait, by cause (src/train/strategies/pipeline.c), relative to the formula, in the
#                run of TURNS that waited least: for a model of equal stages (also with --pipeline-schedule eager),
#                resnet20 and gpt
#     pipeline   resnet20, batch 128 in 8 micro-batches: two stages on two cores, relative to one core
#     tensor     a GPT of two blocks of width 512, 12 sequences: a group of two on two cores, relative to one core
#     zero       gpt, 12 sequences, AdamW: --zero 1, 2, 3 on two workers, relative to an all-reduce
#
# NEWEST=PYTHON, with a recent PyTorch, adds PyTorch's figures over Gloo on this machine (layouts.py):
# torch.distributed.pipelining (1F1B), torch.distributed.tensor.parallel, DDP with ZeroRedundancyOptimizer, FSDP. A
# figure is the median step of the fastest of TURNS (3) runs, which alternate.
set -u
gradsum=$1
shift
here=$(dirname "$0")
turns=${TURNS:-3}
unset OPENBLAS_CORETYPE # each side chooses its libraries' kernels itself

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

gpt512="block add N = linear N std 0.00707107; block layer = residual (layer_norm, linear 1536 std 0.02,
    attention 8 causal, add 512), residual (layer_norm, linear 2048 std 0.02, gelu, add 512);
    embedding 155 512 std 0.02, positions std 0.02, 2 x layer, layer_norm, tied"

# Two stages of four equal blocks; the first and the last layer are small.
equal="max_pool 7, flatten, linear 1024, relu, 8 x (linear 1024, relu), linear 10"

# waits NAME M OPTIONS...: prints a line for each run, with shares in %: the wait, its parts by cause, and the formula's
waits() {
    name=$1 m=$2
    shift 2
    "$gradsum" train --threads 1 --json --epochs 1000 --devices cpu,cpu --pipeline 2 --micro-batches "$m" "$@" |
        sed -n '/"event":"end"/s/[",{}]/ /gp' | awk -v name="$name" -v m="$m" '{
            for (i = 1; i < NF; i++) if (sub(/^bubble/, "", $i)) v[$i] = 100 * substr($(i + 1), 2)
            if (v["_formula"] > 0) printf "%s|%d|%g|%g|%g|%g|%g|%g\n", name, m, v[""], v["_fill_and_drain"],
                v["_unequal_stages"], v["_rest"], v["_fill_and_drain_alone"], v["_formula"] }'
}

# show_waits NAME M: the run that waited least
show_waits() {
    sort -t '|' -k 3 -g "$work/waits" | awk -F '|' -v n="$1" -v m="$2" '
        $1 == n && $2 == m && !found {
            found = 1
            printf "  %-12s %3d %6.1f = %5.1f %+5.1f %+5.1f %7.1f %7.1f %5.2f %5.2f\n", n, m, $3, $4, $5, $6,
                $7, $8, $7 / $8, $3 / $8
        }
        END { if (!found) { printf "  %-12s %3d failed\n", n, m; exit 1 } }' || failed=1
}

# ours OPTIONS...: prints the median step of a run, in ms
ours() {
    "$gradsum" train --threads 1 --json --epochs 1000 "$@" |
        sed -n '/"event":"end"/s/.*"step_median_ms":\([0-9.]*\).*/\1/p'
}

# theirs WHAT RANKS: the same for PyTorch
theirs() { "$NEWEST" "$here/layouts.py" "$@" 2>"$work/why" | tail -n 1; }

# note ROW FIGURE
note() { [ -n "$2" ] && echo "$1|$2" >>"$work/rows"; }
best() { sed -n "s/^$1|//p" "$work/rows" | sort -g | head -n 1; }

# show ROW BASE TEXT: ms, and how many times as fast as the base
show() {
    awk -v n="$3" -v t="$(best "$1")" -v b="$(best "$2")" 'BEGIN {
        if (t == "") { printf "  %-44s %10s\n", n, "failed"; exit 1 }
        printf "  %-44s %7.1f ms %6.2fx\n", n, t, b / t }' || failed=1
}

has_newest() { [ -n "${NEWEST:-}" ] && "$NEWEST" -c 'import torch' 2>/dev/null; }
say_newest() {
    has_newest && "$NEWEST" -c 'import torch; print("PyTorch", torch.__version__)' && return
    echo "no PyTorch beside it: NEWEST=PYTHON names one that has torch"
}

: >"$work/rows"
: >"$work/waits"
say_newest
for part in ${*:-bubble pipeline tensor zero}; do
    for turn in $(seq "$turns"); do
        case $part in
        bubble)
            for m in 4 8 16; do
                waits equal $m --model "$equal" --batch $((128 * m)) --pipeline-cut 12 --steps 8 >>"$work/waits"
            done
            waits "equal, eager" 8 --model "$equal" --batch 1024 --pipeline-cut 12 --steps 8 --pipeline-schedule eager \
                >>"$work/waits"
            waits resnet20 8 --model resnet20 --data colour-fashion-small --batch 128 --batch-norm local --steps 12 \
                >>"$work/waits"
            waits gpt 8 --model gpt --data jargon --batch 64 --steps 6 >>"$work/waits"
            ;;
        pipeline)
            set -- --model resnet20 --data colour-fashion-small --batch 128 --batch-norm local --steps 7
            note p1 "$(ours "$@" --device cpu)"
            note p2 "$(ours "$@" --devices cpu,cpu --pipeline 2 --micro-batches 8)"
            has_newest && note P1 "$(theirs pipeline 1)" && note P2 "$(theirs pipeline 2)"
            ;;
        tensor)
            set -- --model "$gpt512" --data jargon --batch 12 --optimizer adamw --steps 7
            note t1 "$(ours "$@" --device cpu)"
            note t2 "$(ours "$@" --devices cpu,cpu --tensor 2)"
            has_newest && note T1 "$(theirs tensor 1)" && note T2 "$(theirs tensor 2)"
            ;;
        zero)
            set -- --model gpt --data jargon --batch 12 --optimizer adamw --steps 15 --devices cpu,cpu
            note z0 "$(ours "$@")"
            for stage in 1 2 3; do note "z$stage" "$(ours "$@" --zero $stage)"; done
            has_newest && for way in ddp zero1 fsdp; do note "Z$way" "$(theirs $way 2)"; done
            ;;
        *) echo "layouts.sh: '$part' is none of: bubble pipeline tensor zero" >&2 && exit 2 ;;
        esac
    done
    case $part in
    bubble)
        echo "two stages on two cores: % of the time of forward and backward that they wait, by cause"
        columns="  %-12s %3s %6s   %5s %5s %5s %7s %7s %5s %5s\n"
        # shellcheck disable=SC2059
        printf "$columns" "" "" all fill, un- "" fill "" fill all \
            "" m waits drain equal rest alone formula /for. /for.
        for m in 4 8 16; do show_waits equal $m; done
        show_waits "equal, eager" 8
        show_waits resnet20 8
        show_waits gpt 8
        ;;
    pipeline)
        echo "resnet20, batch 128"
        show p1 p1 "gradsum, one core"
        show p2 p1 "gradsum, 2 stages, 8 micro-batches"
        has_newest && show P1 P1 "PyTorch, one core" && show P2 P1 "PyTorch, Schedule1F1B, 2 stages, 8 micro-batches"
        ;;
    tensor)
        echo "GPT, 2 blocks of width 512, 12 sequences of 64"
        show t1 t1 "gradsum, one core"
        show t2 t1 "gradsum, --tensor 2"
        has_newest && show T1 T1 "PyTorch, one core" && show T2 T1 "PyTorch, parallelize_module, 2 ranks"
        ;;
    zero)
        echo "gpt, 12 sequences of 64, two workers, AdamW"
        show z0 z0 "gradsum, all-reduce"
        for stage in 1 2 3; do show z$stage z0 "gradsum, --zero $stage"; done
        has_newest && show Zddp Zddp "PyTorch, DDP" && show Zzero1 Zddp "PyTorch, DDP, ZeroRedundancyOptimizer" &&
            show Zfsdp Zddp "PyTorch, FSDP (fully_shard)"
        ;;
    esac
done
[ -s "$work/why" ] && [ $failed -ne 0 ] && tail -n 3 "$work/why"
exit $failed
