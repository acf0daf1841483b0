#!/bin/bash
# handout.sh BUILD: the sealed handout (`make handout`, lessons/sealed.list).
#
#   - it contains no file of the list, no line that occurs only in sealed files, in text or in objects, and no line of
#     an answer, nor its formula in a header
#   - the lessons name no missing file, unless they say that it is missing (handout_names.sh)
#   - no object names a folder of this machine; those for the other processor define and use the same symbols
#   - it builds; each lab as handed out gets 0 points, and says "not written yet"; the solutions get all points
#   - a training run gives the same weights as with the whole source, on both kinds of device
#
# The objects of unsealed files are taken from BUILD. LABS="04 07" grades only these labs' solutions; LABS_WRONG=few
# (labs.sh) those of four labs, of which 04 is in OpenCL.
set -u
build=$(realpath "$1")
work=$build/lessons/test/handout
[ "${LABS_WRONG:-}" != few ] || LABS=${LABS:-04 07 13 16}
tree=$PWD
rm -rf "$work" && mkdir -p "$work" || exit 1
failures=0
fail() {
    echo "  FAILED: $1" >&2
    failures=$((failures + 1))
}
export LC_ALL=C LAB_SECONDS=60
unset MAKEFLAGS MAKELEVEL MFLAGS # this tree's settings are not those of the handout

make -s handout OUT="$work/h" >"$work/log" 2>&1 || { cat "$work/log"; fail "make handout"; exit 1; }
cd "$work/h" || exit 1
sed -n 's/^    //p' lessons/sealed/README.md >"$work/list"

# ---- nothing sealed can be read --------------------------------------------------------------------------------------

# Lines of code of at least $1 characters, without indentation and loop heads.
code() {
    sed 's/^[ \t]*//; s/[ \t]*$//; s/^for ([^;]*;[^;]*;[^)]*) *//' | awk -v least="$1" 'length >= least' |
        grep -v '^[/*#]' | sort -u
}
while read -r file; do
    [ ! -e "$file" ] || fail "$file is in the handout"
    code 40 <"$tree/$file"
done <"$work/list" | sort -u >"$work/sealed.lines"
(cd "$tree" && # the ones among these lines that also occur in other files
    find src cpu cl lessons -type f \( -name '*.[ch]' -o -name '*.cl' -o -name '*.clh' \) ! -name 'solution.*' |
    grep -vxFf "$work/list" | xargs grep -hoFf "$work/sealed.lines" | sort -u) >"$work/open.lines"
comm -23 "$work/sealed.lines" "$work/open.lines" >"$work/telling"
for lab in "$tree"/lessons/[0-9][0-9]-*/lab.c*; do
    [ -f "${lab%lab.*}solution.${lab##*.}" ] || continue
    code 40 <"${lab%lab.*}solution.${lab##*.}" >"$work/solution"
    code 1 <"$lab" >"$work/lab"
    comm -23 "$work/solution" "$work/lab" | while read -r line; do grep -qF -- "$line" "$lab" || echo "$line"; done
done >"$work/answers"
[ "$(wc -l <"$work/telling")" -ge 1000 ] && [ "$(wc -l <"$work/answers")" -ge 80 ] ||
    fail "only $(wc -l <"$work/telling") and $(wc -l <"$work/answers") lines to look for"
cat "$work/telling" "$work/answers" >"$work/wanted"
grep -rFna -f "$work/wanted" . | cut -c 1-200 >"$work/found"
[ ! -s "$work/found" ] || { cat "$work/found"; fail "the handout contains lines of sealed files or of answers"; }
grep -rnF -e 'p[i][k] -' -e '- (labels[i] == k)' --include='*.[ch]' --include='*.cl*' --include='*.md' . >"$work/found"
[ ! -s "$work/found" ] || { cat "$work/found"; fail "the handout contains the formula of task 2.3"; }
grep -q 'dx = the derivative of that loss by x (lesson 2)' src/backend.h ||
    fail "src/backend.h does not say what dx of the loss is"
# Everything that a page names exists, or the page says that it is missing.
find . -name '*.md' ! -path './.github/*' ! -path './lessons/sealed/*' ! -path './build/*' | while read -r page; do
    folder=$(dirname "$page")
    # shellcheck disable=SC2013
    for path in $(grep -o '`[A-Za-z0-9_/.-]*\.[a-z]*`' "$page" | tr -d '`' | sort -u); do
        case $path in build/*) continue ;; esac # made here
        [ ! -f "$path" ] && [ ! -f "$folder/$path" ] && [ ! -f "src/$path" ] || continue
        [ -f "$tree/$path" ] || [ -f "$tree/$folder/$path" ] || [ -f "$tree/src/$path" ] || continue
        sed "s|\`$path\` (not in this copy)||g" "$page" | grep -F "\`$path\`" | sed "s|^|$page: |"
    done
    grep -n '^## For teachers' "$page" | sed "s|^|$page: |"
    grep -o '^    less [a-z][^ ]*' "$page" | grep -v ' build/' | while read -r _ path; do
        [ -e "$path" ] || [ ! -e "$tree/$path" ] || echo "$page: less $path"
    done
done >"$work/found"
[ ! -s "$work/found" ] || { cat "$work/found"; fail "pages name files that are not in the handout"; }
for name in 'solution.*' answers.md rubric.md TEACHING.md check.c '*.patch' 'test_*.c'; do
    found=$(find . -name "$name")
    [ -z "$found" ] || fail "the handout contains $found"
done
grep -rlFa -e "$tree" -e "$work" -e /tmp/ lessons/sealed >"$work/found"
[ ! -s "$work/found" ] || { cat "$work/found"; fail "objects name a folder of this machine"; }
for link in $(find . -name '*.md' | while read -r page; do
    { grep -o '](\([^)]*\))' "$page" | sed 's/^](//; s/)$//; s/#.*//' | grep -v '^http' || true; } |
        sed "s|^.|$(dirname "$page")/&|"
done | sort -u); do
    [ -e "$link" ] || fail "a dead link in the handout: $link"
done
# shellcheck disable=SC2012,SC2046
"$tree/tests/lessons/handout_names.sh" . $(ls -d lessons/[0-9][0-9]-* | cut -c 9-10) ||
    fail "texts name files that the handout lacks"

# ---- both processors ------------------------------------------------------------------------------------------------
here=$(uname -m) other=aarch64
[ "$here" = x86_64 ] || other=x86_64
# The compiler itself may call a function on one processor and not on the other.
symbols() {
    "$1-linux-gnu-nm" -gP "$2" | awk '$2 != "U" || $1 ~ /^(gs|lab)_/ { print $1, ($2 == "U" ? "U" : "D") }' | sort
}
for object in $(cd "lessons/sealed/$here" && find . -name '*.o' ! -name '*_v[34].o' ! -name '*_soft.o'); do
    diff <(symbols "$here" "lessons/sealed/$here/$object") <(symbols "$other" "lessons/sealed/$other/$object") \
        >"$work/found" ||
        { cat "$work/found"; fail "the symbols of $object differ for $other"; }
done

# ---- it works -------------------------------------------------------------------------------------------------------
mkdir build && tar -C "$build" -cf - --exclude=lessons/test src cl cpu lessons prefix mpi | tar -C build -xf -
(cd "lessons/sealed/$here" && find . -name '*.o') |
    while read -r object; do rm -f "build/$object" "build/${object%.o}.d"; done
touch -r "$tree/src/backend.h" src/backend.h # only a comment differs, so what includes it need not be compiled again
make -s all labs >"$work/log" 2>&1 || { tail -n 20 "$work/log"; fail "make labs in the handout"; }
total=$(sed -n 's/^all labs 0\///p' "$work/log") tasks=$(grep -c 'not written yet: task' "$work/log")
[ "${total:-0}" = $((10 * $(find lessons -name remote.c | wc -l))) ] ||
    { tail -n 3 "$work/log"; fail "the labs as handed out"; }
[ "$tasks" = "$(cat lessons/[0-9][0-9]-*/lab.c* | grep -o '/\* task [0-9.]*:' | sort -u | wc -l)" ] ||
    fail "$tasks tasks say 'not written yet'"

mkdir -p "$work/few/08" && cp "$tree"/lessons/08-*/solution.c "$work/few/08/lab.c"
MINE_STEPS=5 make -s mine MINE="$work/few" EXACT=1 >"$work/log" 2>&1 && grep -q '^  tree .* same bits$' "$work/log" ||
    { cat "$work/log"; fail "make mine in the handout"; }

for solution in "$tree"/lessons/[0-9][0-9]-*/solution.*; do
    lesson=$(basename "$(dirname "$solution")") && number=${lesson%%-*}
    case " ${LABS:-$number} " in *" $number "*) ;; *) continue ;; esac
    cp "$solution" "lessons/$lesson/lab.${solution##*.}"
    echo "$number lessons/$lesson/lab.${solution##*.}"
done >"$work/solutions"
xargs -n 2 -P 2 sh -c 'build/lessons/$1/grade "$2" build/lessons/$1 --json' grade <"$work/solutions" \
    >"$work/points" 2>"$work/log" ||
    { cat "$work/log"; fail "solutions in the handout cannot be graded"; }
full=$(grep -c '"points":10,"of":10,"problem":""' "$work/points")
[ "$full" = "$(wc -l <"$work/solutions")" ] && [ "$full" -ge 1 ] ||
    { cat "$work/points"; fail "$full solutions get all points"; }

train() { # PROGRAM FILE OPTION...
    "$1" train --steps 10 --threads 1 --batch 60 --seed 3 --save "$work/$2" "${@:3}" >"$work/log" 2>&1 ||
        { cat "$work/log"; fail "train ${*:3}"; }
}
for options in "--model lenet" "--model lenet --device cl" \
    "--model mlp --devices cpu,cpu,cpu --sync ring --wire bf16"; do
    # shellcheck disable=SC2086
    train "$build/gradsum" open $options
    # shellcheck disable=SC2086
    train build/gradsum sealed $options
    cmp -s "$work/open" "$work/sealed" || fail "the weights differ from those of the whole source: train $options"
done
make -s test >"$work/log" 2>&1 || { tail -n 20 "$work/log"; fail "make test in the handout"; }
grep -q 'sealed handout' "$work/log" || fail "make test does not say that the handout is sealed"

[ $failures = 0 ] &&
    echo "handout: $(wc -l <"$work/list") files are sealed; $full solutions get all points," \
        "and trainings give the same weights"
