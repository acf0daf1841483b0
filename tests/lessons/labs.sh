#!/bin/sh
# labs.sh BUILD [PART...]: every lab as its students and its teacher use it, or only the named parts. A part is a lab's
# number, "grader", "hand-ins", "mine", "predict" or "handout" (tests/lessons/mine.sh and so on). Three parts run at a
# time, because grading often waits.
#
#   - lab.c and solution.c (or .cl) are the same file except for the blanks, and each task has a blank
#   - as handed out it compiles without a message, gets no points, and every task says "not written yet", by its number
#   - the solution gets all points, without a message
#   - its program, with the solution, runs each line of tests/lessons/NN/commands successfully, if that file exists,
#     and passes tests/lessons/NN/run.sh, if that file exists
#   - kernels are graded without Oclgrind too, and the grader says that it is missing
#   - each wrong answer of tests/lessons/NN/*.patch, made from the solution, loses exactly the tasks that it names:
#         loses: 7.1 7.2            the tasks
#         says: writes 4 bytes      what the note of one of them contains (optional)
#         seconds: 2                the time limit, if it must be reached (optional)
#         how: --sandbox --unchecked    options of the grader (optional): as for untrusted code; and without checking
#                                   the source, so that it runs
#     Each lab has at least three of them; those of tests/lessons/grader test the grader and change the solution of
#     lab 07. LABS_WRONG=few: of a lab's wrong answers only the first that loses each task
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
        set -- handout grader hand-ins mine predict "$@" # the longest first
    fi
    printf '%s\n' "$@" | xargs -n 1 -P 3 "$0" "$build" || { echo "labs: failures, see above" >&2; exit 1; }
    echo "labs: all results are as expected"
    exit
fi
part=$1
work=$build/lessons/test/$part
rm -rf "$work" && mkdir -p "$work" || exit 1
failures=0
export LAB_SECONDS=60 # the machine may be busy: correct code may take its time

fail() {
    echo "  FAILED: $1" >&2
    failures=$((failures + 1))
}

# "7.1 3 3 note" for each task in a line of JSON; the first line is "problem messages points of".
tasks_of() {
    sed 's/{"task":/\n&/g' "$1" |
        sed -n 's/^{"task":"\([^"]*\)".*"points":\([0-9]*\),"of":\([0-9]*\),"note":"\(.*\)"}.*/\1 \2 \3 \4/p'
}
total_of() { sed -n 's/.*"points":\([0-9]*\),"of":\([0-9]*\),"problem".*/\1\/\2/p' "$1"; }
is_silent() { grep -q '"problem":"","messages":""' "$1"; }

# grade NN FILE JSON [OPTION...]: the grader's line
grade() {
    lab=$1 text=$2 to=$3
    shift 3
    "$build/lessons/$lab/grade" "$text" "$work/$lab" --json "$@" >"$to" 2>"$to.err" || { cat "$to.err"; return 1; }
}

# Both files without the text between the markers.
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
        { cat "$work/diff"; fail "$1 and $2 differ outside the blanks"; }
}

check_handed_out() { # NN FILE
    json=$work/$1.lab.json
    grade "$1" "$2" "$json" || { fail "$2 cannot be graded"; return; }
    is_silent "$json" || { cat "$json"; fail "$2 compiles with messages"; }
    tasks_of "$json" | while read -r number points of note; do
        [ "$points" = 0 ] || echo "$2: task $number has $points points as handed out"
        case $note in
        "not written yet: task $number" | "not written yet: task $number ("*")") ;;
        *) echo "$2: unexpected note of task $number: $note" ;;
        esac
        [ "$of" -gt 0 ] || echo "$2: task $number gives no points"
        grep -q "task $number:" "$2" || echo "$2: task $number has no blank"
    done >"$work/found"
    grep -o 'lab_blank("[^"]*")' "$2" | sort | uniq -d |
        sed 's/$/ stands in several blanks: which function?/' >>"$work/found"
    [ -s "$work/found" ] && { cat "$work/found"; fail "$2 as handed out"; }
    [ -n "$(tasks_of "$json")" ] || fail "$2 has no tasks"
}

check_solution() { # NN FILE
    json=$work/$1.solution.json
    grade "$1" "$2" "$json" || { fail "$2 cannot be graded"; return; }
    is_silent "$json" || { cat "$json"; fail "$2 compiles with messages"; }
    tasks_of "$json" | while read -r number points of note; do
        [ "$points" = "$of" ] && [ -z "$note" ] || echo "$2: task $number: $points/$of $note"
    done >"$work/found"
    [ -s "$work/found" ] && { cat "$work/found"; fail "$2 does not get all points"; }
}

# The framework with the solution works as a whole. Runs after check_solution, which has built it.
check_commands() { # NN
    [ ! -f "tests/lessons/$1/run.sh" ] || "tests/lessons/$1/run.sh" "$build" "$work/$1/gradsum" "$work" ||
        fail "lab $1, with its solution: tests/lessons/$1/run.sh"
    [ -f "tests/lessons/$1/commands" ] || return
    while read -r arguments; do
        # shellcheck disable=SC2086
        timeout 120 "$work/$1/gradsum" $arguments >"$work/output" 2>&1 </dev/null ||
            { cat "$work/output"; fail "lab $1, with its solution: gradsum $arguments"; }
    done <"tests/lessons/$1/commands"
}

# Without Oclgrind, kernels still get their points, and the grader says what it could not check.
check_without_oclgrind() { # NN SOLUTION
    json=$work/$1.alone.json other=$work/without-oclgrind path=
    mkdir -p "$other" && ln -sf "$(dirname "$(command -v oclgrind)")"/* "$other" && rm "$other/oclgrind"
    for directory in $(echo "$PATH" | tr : ' '); do
        [ -x "$directory/oclgrind" ] && directory=$PWD/$other
        path=$path:$directory
    done
    PATH=${path#:} grade "$1" "$2" "$json" || { fail "$2 cannot be graded without Oclgrind"; return; }
    grep -q '"remark":"Oclgrind is not installed' "$json" ||
        { cat "$json"; fail "$2: no message says that Oclgrind is missing"; }
    [ "$(total_of "$json")" = "$(total_of "$work/$1.solution.json")" ] || { cat "$json"; fail "$2 without Oclgrind"; }
}

field() { sed -n "s/^$1: *//p" "$2" | head -n 1; }

check_wrong() { # NN SOLUTION PATCH
    wanted=$(field loses "$3") says=$(field says "$3") seconds=$(field seconds "$3") how=$(field how "$3")
    file=$work/$1/wrong.${2##*.} json=$work/$1.$(basename "$3" .patch).json
    rm -rf "${work:?}/$1" && mkdir -p "$work/$1"
    [ -n "$wanted" ] || { fail "$3 lacks a line 'loses: TASKS'"; return; }
    patch -s -o "$file" "$2" <"$3" >"$work/patch" 2>&1 || { cat "$work/patch"; fail "$3 does not fit $2"; return; }
    # shellcheck disable=SC2086
    LAB_SECONDS=${seconds:-60} grade "$1" "$file" "$json" --no-program $how || { fail "$3 cannot be graded"; return; }
    lost=$(tasks_of "$json" | awk '$2 < $3 { printf "%s%s", n++ ? " " : "", $1 }')
    [ "$lost" = "$wanted" ] || { tasks_of "$json"; fail "$3 loses '$lost', wanted '$wanted'"; }
    [ -z "$says" ] || grep -qF -- "$says" "$json" || { cat "$json"; fail "$3 does not say '$says'"; }
}

# Is this wrong answer the first one to lose one of its tasks?
loses_another() { # PATCH
    another=1
    for task in $(field loses "$1"); do
        case " $lost_before " in *" $task "*) ;; *) another=0 lost_before="$lost_before $task" ;; esac
    done
    return $another
}

check_lab() { # NN
    lost_before=
    lesson=$(echo lessons/"$1"-*) kind=c wrong=0 tried=0
    [ -f "$lesson/check.c" ] || { fail "there is no lab $1"; return; }
    [ -f "$lesson/lab.cl" ] && kind=cl
    check_blanks "$lesson/lab.$kind" "$lesson/solution.$kind"
    check_handed_out "$1" "$lesson/lab.$kind"
    check_solution "$1" "$lesson/solution.$kind"
    check_commands "$1"
    [ $kind = c ] || check_without_oclgrind "$1" "$lesson/solution.$kind"
    for patch in tests/lessons/"$1"/*.patch; do
        [ -f "$patch" ] || continue
        wrong=$((wrong + 1))
        [ "${LABS_WRONG:-}" != few ] || loses_another "$patch" || continue
        check_wrong "$1" "$lesson/solution.$kind" "$patch"
        tried=$((tried + 1))
    done
    [ $wrong -ge 3 ] || fail "lab $1 has $wrong wrong answers in tests/lessons/$1, wanted at least 3"
    [ $failures = 0 ] && echo "lab $1: handed out $(total_of "$work/$1.lab.json"), solution" \
        "$(total_of "$work/$1.solution.json"), $tried of $wrong wrong answers lose their points"
}

# If a hand-in dies before its main(), it is started again, because that is not the student's fault.
check_starts() {
    printf '#!/bin/sh\necho >>"$0.starts"\n[ $(wc -l <"$0.starts") -gt 3 ] || kill -SEGV $$\nexec "$@"\n' >"$work/start"
    chmod +x "$work/start"
    "$build/lessons/07/grade" lessons/07-all-reduce/solution.c "$work/starts" --json --no-program >"$work/starts.json"
    "$build/lessons/07/checker" 7.1 lab.c "$work/start" "$work/starts/hand-in" >"$work/starts.log" 2>&1 ||
        { cat "$work/starts.log"; fail "a hand-in whose first three starts die is not graded"; }
    # A program whose address the system chooses may fail to start (lessons.mk).
    readelf -h "$work/starts/hand-in" | grep -q "EXEC" || fail "a hand-in has no fixed address"
}

check_grader() {
    check_starts
    for patch in tests/lessons/grader/*.patch; do check_wrong 07 lessons/07-all-reduce/solution.c "$patch"; done
    [ $failures = 0 ] && echo "grader: contains and names what can go wrong"
}

case $part in
grader) check_grader ;;
hand-ins) tests/lessons/hand_ins.sh "$build" "$work" || failures=1 ;;
mine) tests/lessons/mine.sh "$build" "$work" || failures=1 ;;
predict) tests/lessons/predict.sh "$build" "$work" || failures=1 ;;
handout) tests/lessons/handout.sh "$build" || failures=1 ;;
*) check_lab "$part" ;;
esac
[ $failures = 0 ]
