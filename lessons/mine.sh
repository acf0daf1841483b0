#!/bin/bash
# mine.sh BUILD FOLDER EXACT: `make mine`. Grades the labs, links what is solved into one trainer (BUILD/mine/gradsum,
# mine.c), and trains with it, beside the library.
#
# FOLDER: labs are FOLDER/NN/lab.c (lab.cl) where there is such a file, else lessons/NN-*/lab.c.
# EXACT: if not empty, the runs that work with --exact, all with it.
#
# lessons.mk sets COMPILE, which compiles a lab, and LINK. A part is solved if the tasks that it consists of have all
# points. A file is graded again only when it has changed. A run is stopped after MINE_SECONDS (60) of CPU time, or ten
# times that by the clock, because what passes all checks may still not end. MINE_STEPS: the steps of most runs (47).
set -u
build=$1 folder=$2 exact=$3
work=$build/mine seconds=${MINE_SECONDS:-60} failed=0 other=0
mkdir -p "$work"

# lab, with a letter if it is not its first part | tasks that the trainer uses | part
parts='00|0.3|relu
02|2.1 2.2 2.3 2.5|backward: linear, softmax cross-entropy
03|3.1|the update of SGD
04|4.4|a product on OpenCL: dx = dy w
05|5.1 5.2|shards, and the order of each epoch
06|6.1 6.2 6.3|a parameter server
06b|6.4|every rank the server of one chunk
07|7.1 7.2 7.3|ring
07b|7.4 7.5|halving and doubling
08|8.1 8.2 8.3|--exact: gradients summed in one tree
09|9.1|the rate of each step
10|10.1 10.3 10.4|buckets; bf16 and f16 on the wire
11|11.4|local SGD: when to meet
13|13.1 13.2 13.3 13.4|the whole step
13b|13.1 13.2 13.3 13.4 13.5 13.6|the whole step, overlapped
14|14.2 14.3 14.4 14.5|batch norm over all workers
15|15.1 15.2 15.5|places in memory; the scale of the loss
16|16.2|the step of ZeRO, stage 1
17|17.1 17.2|pipeline: GPipe
17b|17.1 17.3|pipeline: 1F1B
18|18.1 18.2 18.3 18.4|layers and a loss cut over workers
19|19.2 19.3 19.4|attention, mean over tokens, clipping
20|20.2|a sum inside of hosts, and between them'

# run | parts that it trains with | works with --exact: yes, no, only | options
net='flatten, linear 64, layer_norm, relu, linear 10' # no pair of linear layers: --exact sums those in another operator
norm='conv 8 3x3 pad 1, batch_norm, relu, max_pool 2, flatten, linear 10'
two='--devices cpu,cpu --threads 1' four='--devices cpu,cpu,cpu,cpu --threads 1' some="--steps ${MINE_STEPS:-47}"
rate='--batch 256 --lr-rule linear --warmup 0.5'
runs="ring|00 02 03 05 07 09|no|--model '$net' $two $some --sync ring $rate
halving|00 02 03 05 07b 09|no|--model '$net' $four $some --sync halving_doubling $rate
server|03 05 06|no|--model mlp $two $some --sync ps
servers|03 05 06b|no|--model mlp $four $some --sync sharded_ps
buckets|05 07 10|no|--model lenet $two $some --sync ring --wire bf16 --bucket 16
step|05 07 13|no|--model lenet $two $some --sync ring
overlap|05 07 10 13b|no|--model lenet $two $some --sync ring --bucket 16
local SGD|03 05 07 11|no|--model mlp $two $some --sync local --every 4
batch norm|02 05 14|no|--model '$norm' $two $some
f16|05 15|no|--model lenet $two $some --precision f16
ZeRO|05 16|no|--model mlp $two $some --zero 1
tree|00 02 03 05 08 09|only|--model '$net' $two $some $rate
GPipe|03 05 17|yes|--model mlp $two $some --pipeline 2 --pipeline-cut flops --pipeline-schedule gpipe
1F1B|03 05 17b|yes|--model mlp $two $some --pipeline 2 --pipeline-cut flops --pipeline-schedule 1f1b
tensor|05 18|no|--model mlp $two $some --tensor 2
gpt|03 05 19|no|--model gpt --data text:LICENSE --context 16 --batch 8 $two --steps 6 --clip 0.5
hosts|03 05 20|no|--model mlp $four $some --sync hierarchical
OpenCL|04 05|no|--model mlp --device cl $some"

say() { printf '%s\n' "$1"; }
file_of() { # NN
    for f in ${folder:+"$folder/$1/lab.cl"} ${folder:+"$folder/$1/lab.c"} lessons/"$1"-*/lab.cl lessons/"$1"-*/lab.c; do
        [ ! -f "$f" ] || { say "$f"; return; }
    done
}

# ---- which parts are solved -----------------------------------------------------------------------------------------

grade() { # NN
    file=$(file_of "$1") json=$work/$1.json
    [ -s "$json" ] && [ "$json" -nt "$build/lessons/$1/grade" ] && cmp -s "$file" "$work/$1.graded" && return
    echo "GRADE lab $1" >&2
    rm -f "$json" "$work/$1.o"
    cp "$file" "$work/$1.graded"
    "$build/lessons/$1/grade" "$file" "$work/grade-$1" --json --no-program >"$json" 2>"$work/$1.err" || rm -f "$json"
}

# "", or why this part of lab NN is not linked. A lab whose other part is wrong is not linked either.
why_not() { # NN TASKS
    [ -s "$work/$1.json" ] || { say "cannot be graded"; return; }
    grep -q '"problem":""' "$work/$1.json" || { say "does not compile"; return; }
    blank=
    for task in $(say "$parts" | sed -n "s/^$1[b|]*|\([^|]*\)|.*/\1/p"); do
        case $(sed 's/{"task":/\n&/g' "$work/$1.json" | grep "^{\"task\":\"$task\"") in
        *'"note":"not written yet'*) case " $2 " in *" $task "*) blank="not written yet" ;; esac ;;
        *'"note":""'*) ;;
        *) say "$task is wrong" && return ;;
        esac
    done
    say "$blank"
}

# The object of a lab: what is theirs, and how it gets into the framework.
compile() { # NN
    [ "$work/$1.o" -nt "$work/$1.json" ] && return
    lesson=$(basename lessons/"$1"-*) source=$(file_of "$1")
    if [ "${source%.cl}" != "$source" ]; then
        rm -rf "$work/cl" && mkdir "$work/cl" &&
            cp cl/*.cl cl/*.clh "lessons/$lesson/kernels"/* "$work/cl" && cp "$source" "$work/cl/lab.cl" || return
        source=lessons/$lesson/lab.c
    fi
    sh -c "$COMPILE" sh "$source" "$work/$1.lab.o" "$lesson" && rm -f "$work/$1.a" &&
        ar rc "$work/$1.a" "$build/lessons/$1"/check*.o || return
    # shellcheck disable=SC2046
    ld -r -o "$work/$1.all.o" "$work/$1.lab.o" $(ls "$build/lessons/$1/given.o" 2>/dev/null) "$work/$1.a" &&
        objcopy --wildcard --redefine-sym lab_install="lab_install_$1" --keep-global-symbol='gs_*' \
            --keep-global-symbol="lab_install_$1" --keep-global-symbol=lab_product "$work/$1.all.o" "$work/$1.o"
}

for lab in $(say "$parts" | cut -c 1-2 | uniq); do
    grade "$lab" &
    [ "$(jobs -rp | wc -l)" -lt "$(nproc)" ] || wait -n
done
wait
echo " lab  part                                     whose"
solved=' ' linked='' all=0
while IFS='|' read -r id tasks part; do
    lab=${id:0:2} all=$((all + 1))
    why=$(why_not "$lab" "$tasks")
    [ -n "$why" ] || compile "$lab" 2>"$work/$lab.err" || why="cannot be linked"
    case $why in
    '') why=yours solved="$solved$id " linked="${linked% "$lab"} $lab" ;;
    not*) ;;
    *) why="$why: make lab-$lab${folder:+ LAB=$(file_of "$lab")}" ;;
    esac
    printf '  %s  %-39s  %s\n' "$lab" "$part" "$why"
done <<<"$parts"
# These have no place in a run: 1 predicts one, 12 comes after it, 21 mends it, 22 compares two.
echo "  --  1, 12, 21 and 22 are not parts of a trainer"
echo
[ -n "$linked" ] || { echo "No part is yours yet: all are the library's. Begin with make lab-00."; exit; }
echo "$(wc -w <<<"$solved") of $all parts are yours; the others are the library's."
echo

# ---- the trainer -----------------------------------------------------------------------------------------------------

link() { # PROGRAM OBJECT...
    sh -c "$LINK" sh "$@" 2>"$work/link.err" && return
    cat "$work/link.err" >&2
    echo "mine: the labs do not link with each other: $*" >&2
    exit 1
}
# The layers of 18 work in groups alone, and take the place of those that --exact uses without groups too.
for program in gradsum gradsum-18; do
    objects=()
    for lab in $linked; do [ "$program$lab" = gradsum18 ] || objects+=("$work/$lab.o"); done
    link "$work/$program" "${objects[@]}"
done

train() { # PROGRAM OPTION...: sets status; the last line of its report is $work/line
    {
        (ulimit -t "$seconds" -c 0; exec timeout -k 5 $((10 * seconds)) "$@" --json) \
            >"$work/lines" 2>"$work/err" </dev/null
    } 2>/dev/null
    status=$?
    tail -n 1 "$work/lines" >"$work/line"
}
value() { sed -n "s/.*\"$1\":\"*\([-0-9a-f.]*\).*/\1/p" "$work/line"; }
why_failed() {
    case $status in
    124 | 137 | 152) echo "not at an end after $seconds s (MINE_SECONDS=$((2 * seconds)) gives it more)" ;;
    1 | 2) tail -n 1 "$work/err" "$work/line" | grep . | tail -n 1 ;;
    *) echo "it crashed (status $status)" ;;
    esac
}

printf '  %-10s%-18s%8s %9s %9s\n' '' '' accuracy '' samples/s
printf '  %-10s%-18s%8s %9s %9s %9s  weights\n' run ' with labs' yours "library's" yours "library's"
while IFS='|' read -r run of works options; do
    theirs='' says='  other bits' program=$work/gradsum
    case $works$exact in only | no?*) continue ;; esac
    for id in $of; do [ "${solved#* "$id" }" = "$solved" ] || theirs="$theirs ${id:0:2}"; done
    # 3 and 5 are in nearly all runs: one that has no other part of theirs shows nothing new
    case $run${theirs// 0[35]/} in ring | tree) [ -n "$theirs" ] || continue ;; "$run") continue ;; esac
    [ "$run" != tensor ] || program=$program-18
    shown=1
    eval "set -- train $options ${exact:+--exact}"
    train "$build/gradsum" "$@"
    [ $status = 0 ] || { say "  $run, the library alone: $(why_failed)"; failed=1; continue; }
    library=$(value samples_per_s) accuracy=$(value test_accuracy) hash=$(value weights_sha256)
    MINE_LABS=$theirs train "$program" "$@"
    [ $status = 0 ] || { say "  $run, with yours of$theirs: $(why_failed)"; failed=1; continue; }
    if [ "$(value weights_sha256)" = "$hash" ]; then says='  same bits'; else other=1; fi
    printf '  %-10s%-18s %5.1f %% %7.1f %% %9.0f %9.0f%s\n' "$run" "$theirs" "$(value test_accuracy)e2" \
        "${accuracy}e2" "$(value samples_per_s)" "$library" "$says"
    [ -z "$exact" ] || say "    sha256 $(value weights_sha256)"
done <<<"$runs"
[ -n "${shown-}" ] || echo "  No run${exact:+ that works with --exact} has a part of yours."
[ $other = 0 ] || echo "  other bits: sums in another order are rounded otherwise (lesson 8)"
exit $failed
