#!/bin/sh
# run.sh BUILD PROGRAM FOLDER: lesson 22 as a whole. PROGRAM is gradsum with the solution in it.
#
#   - gradsum explain names each exhibit of the museum, and the student's explain names those of the lab
#   - neither reports anything about a correct run
#   - --draw shows the same exhibits in another order
#   - with --even, exhibits 5 and 8 show no difference, and all others show one
set -u
build=$1 program=$2 work=$3/museum wrong=0
fail() { echo "  FAILED: $1" >&2; wrong=1; }
unset MAKEFLAGS MAKELEVEL MFLAGS
make -s B="$build" "$build/lessons/22/museum" "$build/gradsum" || exit 1
museum=$build/lessons/22/museum

cause() { # PROGRAM EXHIBIT
    "$1" explain "$work/$2/exhibit" "$work/$2/right" | sed -n 's/^  cause  \([^:]*\):.*/\1/p'
}
check() { # EXHIBIT, THEIR NAME, THE STUDENT'S
    "$museum" "$1" "$work/$1" >"$work.log" 2>&1 || { cat "$work.log"; fail "exhibit $1 is not trained"; }
    [ "$(cause "$build/gradsum" "$1")" = "$2" ] || fail "exhibit $1 is called $(cause "$build/gradsum" "$1"), wanted $2"
    [ "$(cause "$program" "$1")" = "$3" ] || fail "the solution calls exhibit $1 $(cause "$program" "$1"), wanted $3"
    for one in "$build/gradsum" "$program"; do
        "$one" explain "$work/$1/right" "$work/$1/right" >"$work.log" || fail "$one explain: correct run of exhibit $1"
    done
}
check 0 "bucket missed" "it is no sum of what the ranks have to add"
check 1 "rank missing from the sum" "a rank is missing"
check 2 "norm counted by each rank" "the norm is not that of the summed gradient"
check 3 "same samples on all ranks" "the same on several ranks"
check 4 "stale weight" "yours to find"
check 5 "mean of means" "mean of means"
check 6 "summed twice" "summed twice"
check 7 "same dropout on all ranks" "the same on several ranks"
check 8 "ragged batch divided as a whole one" "yours to find"
check 9 "decay added by each rank" "yours to find"
check 10 "divided by workers twice" "divided by the ranks"

"$museum" 1 "$work/1" >"$work.log" 2>&1 || fail "an exhibit cannot be trained again into the same folder"
for n in 1 2 3 4 5 6 7 8 9 10; do
    cause "$build/gradsum" $n
    "$museum" $n "$work/drawn" --draw 5 >"$work.log" 2>&1 || fail "exhibit $n with --draw"
    cause "$build/gradsum" drawn >&3
done >"$work.usual" 3>"$work.drawn"
cmp -s "$work.usual" "$work.drawn" && fail "--draw 5 does not change the order"
sort "$work.usual" >"$work.a" && sort "$work.drawn" >"$work.b" && cmp -s "$work.a" "$work.b" ||
    fail "--draw 5 shows other exhibits"
# If everything divides evenly, two mistakes change nothing.
for n in 1 2 3 4 5 6 7 8 9 10; do
    "$museum" $n "$work/even" --even >"$work.log" 2>&1 || fail "exhibit $n with --even"
    grep -q '^no difference$' "$work.log" && echo $n
done >"$work.even"
[ "$(echo $(cat "$work.even"))" = "5 8" ] || fail "--even: no difference in $(cat "$work.even"), wanted 5 8"
for bad in "1 $work/x --eve" "11 $work/x" "x $work/x" "1" "--draw 3 4" "1 $work/x --draw 0"; do
    # shellcheck disable=SC2086
    "$museum" $bad >"$work.log" 2>&1 && fail "museum $bad is accepted"
    grep -q '^museum: wanted' "$work.log" || fail "museum $bad: no message says what was wanted"
done
exit $wrong
