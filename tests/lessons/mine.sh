#!/bin/sh
# mine.sh BUILD FOLDER: `make mine` (lessons/mine.sh).
#
#   - as handed out, no part is the student's, and it says so
#   - with the solutions all parts are, all runs train as well as with the library, and those whose sums have one order
#     get its bits; with EXACT=1 all runs do
#   - a wrong ring is named and not linked, and so is a file that does not compile: the library's part trains
#   - a ring that passes its checks, and then crashes or never ends, costs its own runs; the others go on
set -u
build=$1
work=$2
unset MAKEFLAGS MAKELEVEL MFLAGS # make -j tells its children about a job server that these do not use
failures=0
fail() {
    cat "$work/out"
    echo "  FAILED: make mine: $1" >&2
    failures=$((failures + 1))
}
mine() { MINE_STEPS=5 make -s B="$build" mine "$@" >"$work/out" 2>"$work/err"; }
has() { grep -qE -- "$1" "$work/out" || fail "no line '$1'"; }
rows() { grep -cE -- "$1" "$work/out"; }
# change NN SED: the solution, changed
change() {
    sed "$2" lessons/"$1"-*/solution.c >"$work/labs/$1/lab.c"
    ! cmp -s lessons/"$1"-*/solution.c "$work/labs/$1/lab.c" || fail "'$2' changes nothing in lab $1"
}

mine MINE="$work/labs" || fail "with the labs as handed out"
has '^No part is yours yet'
[ "$(rows 'not written yet$')" = 23 ] || fail "not all labs are blank"

# Lab 7 alone, and 3 that does not compile.
mkdir -p "$work/labs/07" "$work/labs/03"
patch -s -o "$work/labs/07/lab.c" lessons/07-all-reduce/solution.c <tests/lessons/07/overwrite-for-add.patch
change 03 's/^void lab_sgd/voyd lab_sgd/'
mine MINE="$work/labs" || fail "with a wrong ring"
has '^  07  .*  7.1 is wrong: make lab-07 LAB='
has '^  03  .*  does not compile: make lab-03'
has '^No part is yours yet'

body='^gs_status ring_reduce_scatter(.*{$/&\n    if (count > 51000 \&\& count < 52000) for (volatile int i = 1; i;) {}/'
change 07 "s/$body; s/^gs_status halving(.*{\$/&\n    if (count > 51000 \&\& count < 52000) __builtin_trap();/"
MINE_SECONDS=4 mine MINE="$work/labs" && fail "it succeeds although runs fail"
has '^  ring, with yours of 07: not at an end after 4 s'
has '^  halving, with yours of 07: it crashed'
has '^  buckets .*  same bits$'

for solution in lessons/[0-9][0-9]-*/solution.*; do
    lesson=${solution#lessons/} && to=$work/labs/${lesson%%-*}
    mkdir -p "$to" && cp "$solution" "$to/lab.${solution##*.}"
done
mine MINE="$work/labs" || fail "with the solutions"
has '^23 of 23 parts are yours'
for run in ring halving server buckets 'local SGD' f16 ZeRO GPipe 1F1B OpenCL; do has "^  $run .*  same bits$"; done
for run in servers step overlap 'batch norm' tensor gpt hosts; do has "^  $run .*  (same|other) bits$"; done
awk '/bits$/ { for (i = 1; i <= NF; i++) if ($i == "%") { x[n++ % 2] = $(i - 1) }
               if (x[0] - x[1] > 1 || x[1] - x[0] > 1) print }' "$work/out" >"$work/far"
[ ! -s "$work/far" ] || fail "an accuracy differs from the library's"
awk 'length > 80' "$work/out" | grep -q . && fail "a line has more than 80 characters"

mine MINE="$work/labs" EXACT=1 || fail "with the solutions and --exact"
for run in tree GPipe 1F1B; do has "^  $run .*  same bits$"; done
[ "$(rows ' bits$|^    sha256 [0-9a-f]{64}$')" = 6 ] || fail "not three runs with --exact"

[ $failures = 0 ] && echo "mine: all solved labs train as one"
