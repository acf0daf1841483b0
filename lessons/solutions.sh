#!/bin/sh
# solutions.sh DIR: writes what a teacher needs and no student should see into a new folder:
#
#   solutions/NN/lab.c, lab.cl    the solved labs, laid out as a hand-in: `build/gradsum grade DIR` gives it all points
#   answers.md                    for each lesson: its questions, the answers, and how to mark them (rubric.md)
#   minutes.md                    for each lab: the number of lines its solution puts in the blanks, and the minutes to
#                                 allow: 5 for each task and 2 for each line (the table in TEACHING.md)
set -eu
out=$1
cd "$(dirname "$0")"

fail() {
    echo "solutions: $1" >&2
    exit 1
}

[ -n "$out" ] || fail "wants a folder: make solutions OUT=DIR"
case $out in /*) ;; *) out=../$out ;; esac # make runs in the folder above this one
[ ! -e "$out" ] || { [ -d "$out" ] && [ -z "$(ls -A "$out")" ]; } ||
    fail "${out#../} is there already, and is not an empty folder"

# section FILE HEADING: the lines below the heading "## HEADING", up to the next one.
section() {
    awk -v heading="## $2" '/^## / { inside = $0 == heading; next } inside' "$1"
}

# "lines | minutes | minutes of each task |". Lines: those between a task's markers, not counting the opening comment
# or blank lines.
minutes_of() {
    awk '/\/\* end of task/ { inside = 0 }
         inside && comment { comment = !/\*\//; next }
         inside && NF { lines[task]++ }
         match($0, /\/\* task [0-9]+\.[0-9]+:/) {
             task = substr($0, RSTART + 8, RLENGTH - 9)
             if (!(task in lines)) { order[n++] = task; lines[task] = 0 }
             inside = 1
             comment = !/\*\//
         }
         END {
             for (i = 0; i < n; i++) {
                 minutes = 5 + 2 * lines[order[i]]
                 tasks = tasks (i ? ", " : "") order[i] ": " minutes
                 all += lines[order[i]]
                 total += minutes
             }
             print all " | " total " | " tasks " |"
         }' "$1"
}

mkdir -p "$out/solutions"
printf '| lab | lines | minutes | of these for each task |\n|---|---|---|---|\n' >"$out/minutes.md"
for lesson in [0-9][0-9]-*; do
    number=${lesson%%-*}
    short=${number#0}
    kind=c
    [ ! -f "$lesson/lab.cl" ] || kind=cl
    mkdir "$out/solutions/$number"
    cp "$lesson/solution.$kind" "$out/solutions/$number/lab.$kind"
    echo "| $short | $(minutes_of "$lesson/solution.$kind")" >>"$out/minutes.md"

    section "$lesson/README.md" Questions >"$out/questions"
    section rubric.md "Lesson $short" >"$out/rubric"
    asked=$(grep -c '^[0-9][0-9]*\. ' "$out/questions" || true)
    marked=$(grep -c '^| [0-9][0-9]* |' "$out/rubric" || true)
    [ "$asked" -gt 0 ] || fail "$lesson/README.md has no questions"
    if grep -qx "## Lesson $short" rubric.md; then
        [ "$asked" = "$marked" ] || fail "$lesson asks $asked questions; rubric.md marks $marked"
    else
        echo "rubric.md has no marks for this lesson yet." >"$out/rubric"
        echo "solutions: rubric.md has no heading '## Lesson $short'" >&2
    fi
    {
        head -n 1 "$lesson/README.md"
        printf '\n## Questions\n'
        cat "$out/questions"
        printf '## Answers\n'
        tail -n +2 "$lesson/answers.md"
        printf '\n## Marking\n'
        sed 's/\[\([^]]*\)\](\.\.\/[^)]*)/`\1`/g' "$out/rubric" # links would break here, so keep only their text
    } >>"$out/answers.md"
    rm "$out/questions" "$out/rubric"
done
echo "solutions: $(ls "$out/solutions" | wc -l) labs, answers.md and minutes.md are in ${out#../}"
