#!/bin/sh
# labs.sh BUILD [NN...]: every lab (or those named) as its students and its teacher will meet it.
#
#   - lab.c and solution.c (or .cl) are the same file but for the blanks, and each task has a blank
#   - as handed out it compiles without a word, gets no points, and every task says "not written yet", and which
#   - the solution gets all points, without a word
#   - each wrong answer of tests/lessons/NN/*.patch, made from the solution, loses exactly the tasks that it names:
#         loses: 7.1 7.2            the tasks
#         says: writes 4 bytes      what the note of one of them contains (optional)
#         seconds: 2                the limit on time, where it is to be reached (optional)
#     There are three of them at least for each lab; those of tests/lessons/grader are for the grader itself, and change
#     the solution of lab 07.
set -u
build=$1
shift
work=$build/lessons/test
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

command -v patch >/dev/null || { echo "labs.sh: needs patch (Debian: patch)" >&2; exit 1; }
for lesson in lessons/[0-9][0-9]-*/; do
    lesson=${lesson%/} number=$(basename "$lesson" | cut -c 1-2) kind=c wrong=0
    [ -f "$lesson/check.c" ] || continue
    [ $# = 0 ] || case " $* " in *" $number "*) ;; *) continue ;; esac
    [ -f "$lesson/lab.cl" ] && kind=cl
    before=$failures
    check_blanks "$lesson/lab.$kind" "$lesson/solution.$kind"
    check_handed_out "$number" "$lesson/lab.$kind"
    check_solution "$number" "$lesson/solution.$kind"
    for patch in tests/lessons/"$number"/*.patch; do
        [ -f "$patch" ] || continue
        check_wrong "$number" "$lesson/solution.$kind" "$patch"
        wrong=$((wrong + 1))
    done
    [ $wrong -ge 3 ] || fail "lab $number has $wrong wrong answers in tests/lessons/$number, wanted 3 at least"
    [ $failures = "$before" ] && echo "lab $number: handed out $(total_of "$work/$number.lab.json"), solution" \
        "$(total_of "$work/$number.solution.json"), $wrong wrong answers lose their points"
done
if [ $# = 0 ]; then
    before=$failures
    for patch in tests/lessons/grader/*.patch; do check_wrong 07 lessons/07-all-reduce/solution.c "$patch"; done
    [ $failures = "$before" ] && echo "grader: contains and names what can go wrong"
fi
[ $failures = 0 ] || { echo "labs: $failures failures" >&2; exit 1; }
echo "labs: all as they should be"
