#!/usr/bin/env bash
# elastic_nodes.sh PROGRAM: launch --elastic over two nodes of this machine. Three times in a run, once it has trained
# for a while, a rank drawn at random is killed or stopped for longer than the time-out, or the launch of node rank 1 is
# killed and comes again. Where that leaves two ranks, one of these may be lost before the new ones have the state: so
# one is enough to go on. Each run must end with the weights of one that was never disturbed, and leave nothing: no
# process, no folder, no file in /dev/shm.
#   KILL_DRAWS=N   how many runs (2; "all": 8); KILL_SEED=S of the draws; it is printed
set -u
program=$(realpath "$1")
draws=${KILL_DRAWS:-2} seed=${KILL_SEED:-$((RANDOM * 32768 + RANDOM))}
[ "$draws" != all ] || draws=8
for name in $(compgen -e GRADSUM_); do unset "$name"; done
export GRADSUM_SECRET=$(head -c 16 /dev/urandom | od -An -tx1 | tr -d ' \n')
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT
RANDOM=$((seed % 32768))
echo "elastic_nodes: seed $seed (KILL_SEED)"
train="train --exact --model softmax --threads 1 --batch 600 --epochs 13 --steps 120"

wrong() { echo "elastic_nodes: WRONG: $*"; tail -n 30 "$work"/err*; kill -KILL ${launch[@]} $all 2>/dev/null; exit 1; }
sha256_of() { sed -n 's/^weights *sha256 *//p' "$@" | tail -1; }
segments() { ls -A /dev/shm | grep -i gradsum | sort; }
start() { # node
    TMPDIR=$work/tmp "$program" launch --node-rank $1 --nodes 2 --meet tcp://127.0.0.1:$port -n 2 --timeout 2 \
        --elastic 1:4 -- $train --slow 0:60 >>"$work/out$1" 2>>"$work/err$1" &
    launch[$1]=$!
}
ranks() { pgrep -P ${launch[$1]}; } # node

launch=() all=
"$program" launch -n 4 -- $train >"$work/whole" 2>"$work/err" || wrong "a run that is not disturbed"
mkdir "$work/tmp" && segments >"$work/shm"
for ((k = 0; k < draws; k++)); do
    rm -f "$work"/out* "$work"/err*
    port=$((20000 + RANDOM % 10000)) log=
    start 0 && start 1
    for ((i = 0; i < 3; i++)); do
        for ((j = 0; j < 400; j++)); do # until the generation trains
            [ "$(cat "$work"/out* | grep -c '^step ')" -le $i ] || break
            sleep 0.05
        done
        sleep "0.$(printf %03d $((RANDOM % 400)))"
        node=$((RANDOM % 2)) some=($(ranks $node)) all="$all $(ranks 0) $(ranks 1)"
        [ ${#some[@]} -gt 0 ] || break # it was faster
        case $((RANDOM % 3)) in
            0) kill -KILL ${some[RANDOM % ${#some[@]}]} && log="$log, a rank of node $node killed" ;;
            1) kill -STOP ${some[RANDOM % ${#some[@]}]} && log="$log, a rank of node $node stopped" ;;
            2) kill -KILL ${launch[1]} || break # it was faster
               log="$log, node 1 killed" && wait ${launch[1]} 2>/dev/null
               sleep "0.$(printf %03d $((RANDOM % 600)))"
               start 1 ;;
        esac
    done 2>/dev/null
    for node in 0 1; do wait ${launch[node]} || wrong "run $k, node $node: exit status $?$log"; done
    grep -q 'generation 2: ' "$work"/err* || wrong "run $k: nobody noticed$log"
    [ "$(sha256_of "$work"/out*)" = "$(sha256_of "$work/whole")" ] || wrong "run $k: other weights$log"
    for pid in $all; do [ ! -d /proc/$pid ] || wrong "run $k: process $pid is left$log"; done
    rmdir "$work/tmp" && mkdir "$work/tmp" || wrong "run $k: in TMPDIR: $(ls -A "$work/tmp")$log"
    [ "$(segments)" = "$(cat "$work/shm")" ] || wrong "run $k: in /dev/shm: $(segments)$log"
    echo "elastic_nodes: run $k: right${log}"
done
