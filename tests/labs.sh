#!/bin/sh
# labs.sh BUILD [PART...]: every lab, as its students and its teacher will meet it; or those parts that are named. A part
# is a lab's number, "grader" or "hand-ins". Two parts run at a time.
#
#   - lab.c and solution.c (or .cl) are the same file but for the blanks, and each task has a blank
#   - as handed out it compiles without a word, gets no points, and every task says "not written yet", and which
#   - the solution gets all points, without a word
#   - its program, with the solution in it, runs each line of tests/lessons/NN/commands with success, if there is one
#   - kernels are graded without Oclgrind too, and the grader says that it is missing
#   - each wrong answer of tests/lessons/NN/*.patch, made from the solution, loses exactly the tasks that it names:
#         loses: 7.1 7.2            the tasks
#         says: writes 4 bytes      what the note of one of them contains (optional)
#         seconds: 2                the limit on time, where it is to be reached (optional)
#     There are three of them at least for each lab; those of tests/lessons/grader are for the grader itself, and change
#     the solution of lab 07.
set -u
build=$1
shift
command -v patch >/dev/null || { echo "labs.sh: needs patch (Debian: patch)" >&2; exit 1; }
if [ $# != 1 ]; then
    if [ $# = 0 ]; then
        for check in lessons/[0-9][0-9]-*/check.c; do
            lesson=${check#lessons/}
            set -- "$@" "${lesson%%-*}"
        done
        set -- "$@" grader hand-ins
    fi
    printf '%s\n' "$@" | xargs -n 1 -P 2 "$0" "$build" || { echo "labs: failures, see above" >&2; exit 1; }
    echo "labs: all as they should be"
    exit
fi
part=$1
work=$build/lessons/test/$part
rm -rf "$work" && mkdir -p "$work" || exit 1
failures=0
export LAB_SECONDS=60 # the machine may be busy: what is right may take its time

fail() {
    echo "  FAILED: $1" >&2
    failures=$((failures + 1))
}

# "7.1 3 3 note" for each task of a line of JSON; the first line is "problem messages points of".
tasks_of() {
    sed 's/{"task":/\n&/g' "$1" | sed -n 's/^{"task":"\([^"]*\)".*"points":\([0-9]*\),"of":\([0-9]*\),"note":"\(.*\)"}.*/\1 \2 \3 \4/p'
}
total_of() { sed -n 's/.*"points":\([0-9]*\),"of":\([0-9]*\),"problem".*/\1\/\2/p' "$1"; }
is_silent() { grep -q '"problem":"","messages":""' "$1"; }

# grade NN FILE JSON: the grader's line
grade() {
    "$build/lessons/$1/grade" "$2" "$work/$1" --json >"$3" 2>"$3.err" || { cat "$3.err"; return 1; }
}

# Both files without what stands between the markers.
outside() {
    awk '/\/\* end of task/ { blank = 0 }
         !blank { print }
         /\/\* task [0-9]+\.[0-9]+:/ { blank = 1; comment = !/\*\//; next }
         blank && comment { print; if (/\*\//) comment = 0 }' "$1"
}

check_blanks() {
    outside "$1" >"$work/lab.outside"
    outside "$2" >"$work/solution.outside"
    diff "$work/lab.outside" "$work/solution.outside" >"$work/diff" ||
        { cat "$work/diff"; fail "$1 and $2 differ outside of the blanks"; }
}

check_handed_out() { # NN FILE
    json=$work/$1.lab.json
    grade "$1" "$2" "$json" || { fail "$2 cannot be graded"; return; }
    is_silent "$json" || { cat "$json"; fail "$2 does not compile in silence"; }
    tasks_of "$json" | while read -r number points of note; do
        [ "$points" = 0 ] || echo "$2: task $number has $points points as handed out"
        [ "$note" = "not written yet: task $number" ] || echo "$2: task $number says: $note"
        [ "$of" -gt 0 ] || echo "$2: task $number gives no points"
        grep -q "task $number:" "$2" || echo "$2: task $number has no blank"
    done >"$work/found"
    [ -s "$work/found" ] && { cat "$work/found"; fail "$2 as handed out"; }
    [ -n "$(tasks_of "$json")" ] || fail "$2 has no tasks"
}

check_solution() { # NN FILE
    json=$work/$1.solution.json
    grade "$1" "$2" "$json" || { fail "$2 cannot be graded"; return; }
    is_silent "$json" || { cat "$json"; fail "$2 does not compile in silence"; }
    tasks_of "$json" | while read -r number points of note; do
        [ "$points" = "$of" ] && [ -z "$note" ] || echo "$2: task $number: $points/$of $note"
    done >"$work/found"
    [ -s "$work/found" ] && { cat "$work/found"; fail "$2 does not get all points"; }
}

# What the solution is a part of works as a whole. Run after check_solution, which has built it.
check_commands() { # NN
    [ -f "tests/lessons/$1/commands" ] || return
    while read -r arguments; do
        # shellcheck disable=SC2086
        timeout 120 "$work/$1/gradsum" $arguments >"$work/output" 2>&1 </dev/null ||
            { cat "$work/output"; fail "lab $1, with its solution: gradsum $arguments"; }
    done <"tests/lessons/$1/commands"
}

# Where Oclgrind is missing, kernels still get their points, and the grader says what it could not check.
check_without_oclgrind() { # NN SOLUTION
    json=$work/$1.alone.json other=$work/without-oclgrind path=
    mkdir -p "$other" && ln -sf "$(dirname "$(command -v oclgrind)")"/* "$other" && rm "$other/oclgrind"
    for directory in $(echo "$PATH" | tr : ' '); do
        [ -x "$directory/oclgrind" ] && directory=$PWD/$other
        path=$path:$directory
    done
    PATH=${path#:} grade "$1" "$2" "$json" || { fail "$2 cannot be graded without Oclgrind"; return; }
    grep -q '"remark":"Oclgrind is not installed' "$json" || { cat "$json"; fail "$2: nobody says that Oclgrind is missing"; }
    [ "$(total_of "$json")" = "$(total_of "$work/$1.solution.json")" ] || { cat "$json"; fail "$2 without Oclgrind"; }
}

field() { sed -n "s/^$1: *//p" "$2" | head -n 1; }

check_wrong() { # NN SOLUTION PATCH
    wanted=$(field loses "$3") says=$(field says "$3") seconds=$(field seconds "$3")
    file=$work/$1/wrong.${2##*.} json=$work/$1.$(basename "$3" .patch).json
    mkdir -p "$work/$1"
    [ -n "$wanted" ] || { fail "$3 has no line 'loses: TASKS'"; return; }
    patch -s -o "$file" "$2" <"$3" >"$work/patch" 2>&1 || { cat "$work/patch"; fail "$3 does not fit $2"; return; }
    LAB_SECONDS=${seconds:-60} grade "$1" "$file" "$json" || { fail "$3 cannot be graded"; return; }
    lost=$(tasks_of "$json" | awk '$2 < $3 { printf "%s%s", n++ ? " " : "", $1 }')
    [ "$lost" = "$wanted" ] || { tasks_of "$json"; fail "$3 loses '$lost', wanted '$wanted'"; }
    [ -z "$says" ] || grep -qF -- "$says" "$json" || { cat "$json"; fail "$3 does not say '$says'"; }
}

check_lab() { # NN
    lesson=$(echo lessons/"$1"-*) kind=c wrong=0
    [ -f "$lesson/check.c" ] || { fail "there is no lab $1"; return; }
    [ -f "$lesson/lab.cl" ] && kind=cl
    check_blanks "$lesson/lab.$kind" "$lesson/solution.$kind"
    check_handed_out "$1" "$lesson/lab.$kind"
    check_solution "$1" "$lesson/solution.$kind"
    check_commands "$1"
    [ $kind = c ] || check_without_oclgrind "$1" "$lesson/solution.$kind"
    for patch in tests/lessons/"$1"/*.patch; do
        [ -f "$patch" ] || continue
        check_wrong "$1" "$lesson/solution.$kind" "$patch"
        wrong=$((wrong + 1))
    done
    [ $wrong -ge 3 ] || fail "lab $1 has $wrong wrong answers in tests/lessons/$1, wanted 3 at least"
    [ $failures = 0 ] && echo "lab $1: handed out $(total_of "$work/$1.lab.json"), solution" \
        "$(total_of "$work/$1.solution.json"), $wrong wrong answers lose their points"
}

check_grader() {
    for patch in tests/lessons/grader/*.patch; do check_wrong 07 lessons/07-all-reduce/solution.c "$patch"; done
    [ $failures = 0 ] && echo "grader: contains and names what can go wrong"
}

# A folder of hand-ins, good and bad, as one table.
check_hand_ins() {
    folder=$work/hand-ins
    echo "student,lab,tasks,points,of,note" >"$work/nothing.csv"
    mkdir -p "$folder/alice/07" "$folder/bob, jr" "$folder/carol/07" "$folder/dave"
    cp lessons/07-all-reduce/solution.c "$folder/alice/07/lab.c"
    cp lessons/07-all-reduce/lab.c "$folder/bob, jr/lab-07.c"
    ln -s ../../alice/07/lab.c "$folder/carol/07/lab.c"
    head -c 2000000 /dev/zero >"$folder/dave/lab-07.c"
    echo 'int main' >"$folder/dave/lab-06.c"
    cp lessons/07-all-reduce/lab.c "$folder/dave/lab-98.c"
    cat >"$work/wanted.csv" <<'END'
student,lab,tasks,points,of,note
alice,07,7.1=3 7.2=2 7.3=2 7.4=2 7.5=1,10,10,
"bob, jr",07,7.1=0 7.2=0 7.3=0 7.4=0 7.5=0,0,10,7.1: not written yet: task 7.1; 7.2: not written yet: task 7.2; 7.3: not written yet: task 7.3; 7.4: not written yet: task 7.4; 7.5: not written yet: task 7.5
carol,07,,0,,"is a link, not a file"
dave,06,6.1=0 6.2=0 6.3=0 6.4=0,0,10,it does not compile
dave,07,,0,,it has 2000000 bytes; a lab has at most 1048576
dave,98,,0,,unknown lab 98
END
    "$build/gradsum" grade "$folder" -o "$work/points.csv" 2>"$work/log" || { cat "$work/log"; fail "gradsum grade"; }
    diff "$work/wanted.csv" "$work/points.csv" || fail "gradsum grade: not the table that is wanted"
    [ -z "$(find "$build/lessons" -name 'hand-in-*')" ] || fail "gradsum grade leaves folders behind"
    "$build/gradsum" grade "$folder/alice" --labs 06 | cmp -s - "$work/nothing.csv" || fail "gradsum grade --labs"
    "$build/gradsum" grade "$folder/alice" --labs 06 >/dev/full 2>"$work/log" && fail "gradsum grade: a table that is lost is no success"
    grep -q "standard output could not be written" "$work/log" || { cat "$work/log"; fail "gradsum grade: a lost table"; }
    [ $failures = 0 ] && echo "hand-ins: a table of them"
}

case $part in
grader) check_grader ;;
hand-ins) check_hand_ins ;;
*) check_lab "$part" ;;
esac
[ $failures = 0 ]
