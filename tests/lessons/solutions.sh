#!/bin/sh
# solutions.sh BUILD: what `make solutions` gives to a teacher, and `make handout` in its open form does not give to
# students (tests/lessons/handout.sh tests the sealed form).
#
#   - each lab's solution is laid out as a hand-in, and gets all points (lab 07 stands for all: labs.sh grades each)
#   - the page contains each lesson's questions, answers and marks; a folder in use is refused
#   - TEACHING.md gives the minutes that follow from the solutions
#   - the handout contains no solutions, answers, marks or dead links
set -u
build=$1
work=$build/lessons/test/teacher
rm -rf "$work" && mkdir -p "$work" || exit 1
unset MAKEFLAGS MAKELEVEL MFLAGS # make -j tells its children about a job server that these do not use
failures=0
fail() {
    echo "  FAILED: $1" >&2
    failures=$((failures + 1))
}

make -s solutions OUT="$work/for-me" >"$work/log" 2>&1 || { cat "$work/log"; fail "make solutions"; }
grep -v '^solutions: [0-9]* labs, ' "$work/log" && fail "make solutions prints unexpected messages"
make -s solutions OUT="$work/for-me" >"$work/log" 2>&1 && fail "make solutions accepts a folder in use"
grep -q "is there already" "$work/log" || { cat "$work/log"; fail "make solutions: a folder in use"; }

"$build/gradsum" grade "$work/for-me" --labs 07 >"$work/points.csv" 2>"$work/log" ||
    { cat "$work/log"; fail "the solutions cannot be graded"; }
grep -q '^solutions,07,.*,10,10,$' "$work/points.csv" || { cat "$work/points.csv"; fail "the solutions as a hand-in"; }

for lesson in lessons/[0-9][0-9]-*; do
    number=${lesson#lessons/} && number=${number%%-*}
    [ -n "$(ls "$work/for-me/solutions/$number")" ] || fail "no solution of lab $number"
    for line in "$(head -n 1 "$lesson/README.md")" "$(tail -n 1 "$lesson/answers.md")" \
        "$(sed -n '/^## Questions/,$ { /^1\. /p; }' "$lesson/README.md")"; do
        grep -qxF -- "$line" "$work/for-me/answers.md" || fail "answers.md has no line '$line'"
    done
done
while read -r row; do
    grep -qxF -- "$row" lessons/TEACHING.md || fail "lessons/TEACHING.md has no row '$row' in its table of minutes"
done <"$work/for-me/minutes.md"

make -s handout OPEN=1 OUT="$work/for-students" >"$work/log" 2>&1 || { cat "$work/log"; fail "make handout"; }
for name in 'solution.*' answers.md rubric.md '*.patch'; do
    found=$(find "$work/for-students" -name "$name" -not -path '*/grader/*')
    [ -z "$found" ] || fail "the handout contains $found"
done
[ -f "$work/for-students/lessons/TEACHING.md" ] || fail "the handout lacks lessons/TEACHING.md"
(cd "$work/for-students" && tests/lint/readme.sh) || fail "the handout's README files"

[ $failures = 0 ] && echo "solutions: for the teacher, and not for students"
