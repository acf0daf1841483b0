#!/bin/sh
# handout.sh DIR: the students' copy of the whole source tree: without solutions, without the teacher's answers, and
# without the wrong answers that test the checks. Everything else works there, its own `make test` too.
set -eu
out=$1

fail() {
    echo "handout: $1" >&2
    exit 1
}

[ -n "$out" ] || fail "wants a folder: make handout OUT=DIR"
[ ! -e "$out" ] || [ -z "$(ls -A "$out" 2>/dev/null || echo file)" ] || fail "$out is there already, and is not an empty folder"

# A teacher may have tried a lab in its place.
for lab in lessons/[0-9][0-9]-*/lab.c lessons/[0-9][0-9]-*/lab.cl; do
    [ -f "$lab" ] || continue
    [ "$lab" = "${lab%.c}.c" ] && [ -f "${lab}l" ] && continue # lab.c beside lab.cl is given
    sed -n 's/.*\/\* task \([0-9]*\.[0-9]*\):.*/\1/p' "$lab" | sort -u | while read -r task; do
        grep -q "lab_blank(\"*$task\"*)" "$lab" || fail "$lab: the blank of task $task is filled; git checkout $lab?"
    done
done

mkdir -p "$out"
list=$(mktemp)
trap 'rm -f "$list"' EXIT
what="Makefile README.md .github LICENSE .clang-format .clang-tidy .gitignore src cl cpu lessons datasets tests"
# shellcheck disable=SC2086
if git rev-parse --show-toplevel >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard -- $what
else
    find $what -type f
fi | sort -u >"$list.all"
while read -r file; do
    case $file in
    lessons/*/solution.* | lessons/*/answers.md | lessons/handout.sh | tests/lessons/* | tests/labs.sh) ;;
    *) [ -f "$file" ] && echo "$file" ;;
    esac
done <"$list.all" >"$list"
rm -f "$list.all"
tar -cf - -T "$list" | tar -xf - -C "$out"
echo "handout: $(wc -l <"$list") files are in $out; try 'make -C $out test', and 'make -C $out labs'"
