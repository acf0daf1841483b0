#!/bin/bash
# sync.sh BUILD: the cost of synchronisation, all measured in one run.
#   1. all-reduce of 1 KiB to 64 MiB: between processes, our schemes against Gloo's own ring; between threads, our
#      all-reduce against Open MPI between processes, if mpirun and Open MPI's development files are installed
#   2. training on two workers compared with one, and with PyTorch's DistributedDataParallel over Gloo
# The time of an all-reduce is the median of several turns; the training speed is that of the fastest of 24 short runs
# (eight turns of three). A ratio above 1 means that gradsum is faster.
set -u
build=$1 gradsum=$1/gradsum
here=$(dirname "$0")
unset OPENBLAS_CORETYPE # each side chooses its libraries' kernels itself
. "$here/rows.sh"
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failed=0

# ---- 1 ----
has_mpi() { [ -x "$build/bench-sync-mpi" ] && command -v mpirun >/dev/null; }

all_reduce() {
    ranks=$1
    : >"$work/lines"
    "$build/bench-sync" threads "$ranks" >>"$work/lines" || failed=1
    mkdir "$work/meet" "$work/raw" || exit 1
    for ((rank = 0; rank < ranks; rank++)); do
        GRADSUM_RANK=$rank GRADSUM_WORLD_SIZE=$ranks GRADSUM_RENDEZVOUS=$work/meet "$build/bench-sync" process \
            "$work/raw" \
            >>"$work/lines" &
        pids[rank]=$!
    done
    for ((rank = 0; rank < ranks; rank++)); do wait "${pids[rank]}" || failed=1; done
    rm -rf "$work/meet" "$work/raw"
    if has_mpi; then
        mpirun --oversubscribe --allow-run-as-root -n "$ranks" "$build/bench-sync-mpi" >>"$work/lines" || failed=1
    fi
    printf '\nall-reduce, %d ranks                      microseconds\n' "$ranks"
    printf '%9s  %9s  %-28s %7s  %9s %9s %7s\n' "" "raw Gloo" "processes: best of ours" "" threads "Open MPI" ""
    printf '%9s  %9s  %9s %-18s %7s  %9s %9s %7s\n' bytes ring "" scheme ratio allreduce "" ratio
    awk -F'|' '
        function us(x) { return x == "" ? "-" : sprintf(x < 100 ? "%.1f" : "%.0f", x) }
        { bytes[$4] = 1 }
        $1 == "raw" { raw[$4] = $5; next }
        $1 == "mpi" { mpi[$4] = $5; next }
        $1 == "threads" { if ($2 == "allreduce") threads[$4] = $5; next }
        { if (!(($4) in best) || $5 < best[$4]) { best[$4] = $5; name[$4] = $1 " " $2 } }
        END {
            n = split("1024 16384 262144 2097152 16777216 67108864", size, " ")
            for (i = 1; i <= n; i++) {
                b = size[i]
                printf "%9d  %9s  %9s %-18s %6.2fx  %9s %9s %s\n", b, us(raw[b]),
                    us(best[b]), name[b], raw[b] / best[b], us(threads[b]), us(mpi[b]),
                    mpi[b] == "" ? "" : sprintf("%6.2fx", mpi[b] / threads[b])
            }
        }' "$work/lines"
    printf 'every way (microseconds):\n'
    awk -F'|' '
        { k = $1 " " $2; if (!(k in seen)) { order[++n] = k; seen[k] = 1 } t[k, $4] = $5 }
        END {
            split("1024 16384 262144 2097152 16777216 67108864", size, " ")
            for (i = 1; i <= n; i++) {
                printf "  %-28s", order[i]
                for (j = 1; j <= 6; j++) printf " %9.1f", t[order[i], size[j]]
                printf "\n"
            }
        }' "$work/lines"
}

"$gradsum" devices | sed -n '1,4p'
for ranks in 2 4; do all_reduce $ranks; done

# ---- 2 ----
halves="cl:0.0/0of2,cl:0.0/1of2"
for model in mlp lenet cnn; do
    : >"$work/rows"
    for turn in 1 2 3 4 5 6 7 8; do
        LAUNCH=
        row 1 "1 worker" "$(ours $model --device cpu --threads 1)"
        row 2 "2 workers, threads of one process" "$(ours $model --devices cpu,cpu --threads 1)"
        row 8 "2 workers, the update sharded" "$(ours $model --devices cpu,cpu --threads 1 --zero 1)"
        LAUNCH="launch -n 2 --"
        row 3 "2 processes, shared memory" "$(ours $model --device cpu --threads 1)"
        row 4 "2 processes, Gloo's connections" "$(GRADSUM_TRANSPORT=gloo ours $model --device cpu --threads 1)"
        LAUNCH=
        has_torch && row 5 "PyTorch DDP over Gloo, 2 ranks" "$(torch $model 1 2)"
        if "$gradsum" devices | grep -q 'up to .* sub-devices'; then
            row 6 "${halves%,*}" "$(ours $model --device "${halves%,*}")"
            row 7 "$halves" "$(ours $model --devices $halves)"
        fi
    done
    printf '\n%-36s %12s %12s %12s\n' "training $model, global batch 128" samples/s "to 1 worker" "to DDP"
    one=$(value_of 1) ddp=$(value_of 5) half=$(value_of 6)
    for row in 1 2 8 3 4 5 6 7; do
        name=$(name_of $row) value=$(value_of $row) base=$one
        [ -n "$name" ] || continue
        case $row in 6 | 7) base=$half ;; esac
        [ -n "$value" ] || { printf '%-36s %12s\n' "$name" failed && failed=1 && continue; }
        awk -v n="$name" -v v="$value" -v b="$base" -v d="$ddp" \
            'BEGIN { printf "%-36s %12.0f %11.2fx %12s\n", n, v, v / b, (d > 0 ? sprintf("%.2fx", v / d) : "") }'
    done
done
exit $failed
