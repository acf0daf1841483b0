#!/bin/bash
# handout.sh DIR [PROCESSOR...]: writes the students' copy of the source tree: no solutions, none of the teacher's
# answers and marks, and no wrong answers that test the checks.
#
# With processors (x86_64, aarch64) the copy is sealed: the files in sealed.list are included only as objects for these
# processors, and the library's own tests are left out. Without processors, it has all source and all tests.
set -euo pipefail
out=$1
shift
sealed=lessons/sealed

fail() {
    echo "handout: $1" >&2
    exit 1
}

[ -n "$out" ] || fail "wants a folder: make handout OUT=DIR"
[ ! -e "$out" ] || [ -z "$(ls -A "$out" 2>/dev/null || echo file)" ] ||
    fail "$out is there already, and is not an empty folder"
[ ! -e $sealed ] || fail "this tree is a sealed handout; make another one from the whole source"

# A teacher may have solved a lab in this tree.
for lab in lessons/[0-9][0-9]-*/lab.c lessons/[0-9][0-9]-*/lab.cl; do
    [ -f "$lab" ] || continue
    [ "$lab" = "${lab%.c}.c" ] && [ -f "${lab}l" ] && continue # lab.c beside lab.cl is given
    sed -n 's/.*\/\* task \([0-9]*\.[0-9]*\):.*/\1/p' "$lab" | sort -u | while read -r task; do
        grep -q "lab_blank(\"*$task[\") ]" "$lab" || fail "$lab: the blank of task $task is filled; git checkout $lab?"
    done
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# ---- which files ----------------------------------------------------------------------------------------------------
what="Makefile README.md .github .devcontainer LICENSE .clang-format .clang-tidy .gitignore"
what="$what src cl cpu lessons datasets tests"
# shellcheck disable=SC2086
if git rev-parse --show-toplevel >/dev/null 2>&1; then
    git ls-files --cached --others --exclude-standard -- $what
else
    find $what -type f
fi | sort -u >"$work/all"

: >"$work/sealed"
if [ $# -gt 0 ]; then
    sed 's/#.*//' lessons/sealed.list | while read -r pattern _; do
        [ -n "$pattern" ] || continue
        # shellcheck disable=SC2086
        ls -d $pattern || fail "lessons/sealed.list: there is no $pattern"
    done | sort -u >"$work/sealed"
    [ -s "$work/sealed" ] || fail "lessons/sealed.list names nothing"
fi

while read -r file; do
    case $file in
    tests/lessons/test_*) ;;
    lessons/*/solution.* | lessons/*/answers.md | lessons/rubric.md | tests/lessons/*) continue ;;
    lessons/handout.sh | lessons/solutions.sh | lessons/sealed.list) continue ;;
    esac
    if [ $# -gt 0 ]; then
        case $file in
        tests/packages.* | tests/flags.mk | tests/bench/* | tests/torch/peers.py | tests/torch/network.py | \
            tests/torch/generate.py | tests/torch/files.py | tests/system/weights.sh) ;;
        tests/* | lessons/TEACHING.md | lessons/grade/README.md | cl/sealed_files.c) continue ;;
        esac
        ! grep -qxF "$file" "$work/sealed" || continue
    elif [ "$file" = lessons/sealed_test.sh ]; then
        continue
    fi
    [ ! -f "$file" ] || echo "$file"
done <"$work/all" >"$work/files"

# ---- objects --------------------------------------------------------------------------------------------------------

# The objects of a source file, named as make names them.
objects_of() { # FILE ISA...
    file=$1
    shift
    case $file in
    lessons/examples/*) ;; # not linked
    lessons/[0-9][0-9]-*) name=${file#lessons/} && echo "lessons/${name%%-*}/$(basename "$file" .c).o" ;;
    cpu/plain/*) echo "${file%.c}.o" ;;
    cpu/*) for isa in "$@"; do echo "${file%.c}_$isa.o"; done ;;
    *) echo "${file%.c}.o" ;;
    esac
}

# The sealed kernels as a C source file.
write_kernels() {
    printf '#include "cl/sealed.h"\n'
    grep '^cl/.*\.clh*$' "$work/sealed" | while read -r kernel; do
        name=$(basename "$kernel") && id=${name//./_}
        gzip -9 -n -c "$kernel" >"$work/gz"
        printf 'static const unsigned char %s[] = {' "$id"
        od -An -v -tu1 "$work/gz" | sed 's/ *\([0-9][0-9]*\)/\1,/g'
        printf '};\n'
        printf '{"%s", %s, sizeof %s, %d},\n' "$name" "$id" "$id" "$(wc -c <"$kernel")" >>"$work/rows"
    done
    printf 'const gs_cl_sealed gs_cl_sealed_files[] = {\n%s\n{NULL, NULL, 0, 0}};\n' "$(cat "$work/rows")"
}

# Compiles the objects by this tree's own rules; they contain no trace of the folder.
seal() { # PROCESSOR ISA...
    processor=$1
    shift
    compiler=$processor-linux-gnu-gcc
    command -v "$compiler" >/dev/null ||
        fail "there is no $compiler (Debian: gcc-${processor/_/-}-linux-gnu); FOR=$(uname -m) leaves $processor out"
    grep '\.c$' "$work/sealed" | while read -r file; do objects_of "$file" "$@"; done >"$work/$processor.names"
    elsewhere=
    # Only the C library's headers depend on the processor; they come before other libraries' headers.
    [ "$processor" = "$(uname -m)" ] ||
        elsewhere="-idirafter /usr/include -idirafter /usr/include/$(uname -m)-linux-gnu"
    flags="$elsewhere -g0 -fno-ident -ffile-prefix-map=$PWD=. -ffile-prefix-map=$work=."
    ccache=$(command -v ccache >/dev/null && echo ccache || true)
    # shellcheck disable=SC2046
    env -u MAKEFLAGS -u MAKELEVEL -u MFLAGS -u WERROR make -s -j"$(nproc)" B="$work/$processor" ISAS="$*" \
        CC="$ccache $compiler" CFLAGS="$flags" PKG_CONFIG_PATH= WERROR= \
        $(sed "s|^|$work/$processor/|" "$work/$processor.names") >"$work/log" 2>&1 ||
        { tail -n 20 "$work/log" >&2; fail "$compiler failed"; }
    mkdir -p "$work/$processor/cl"
    # shellcheck disable=SC2086
    $compiler -std=c11 -O2 -fPIC $flags -Isrc -I. -c -o "$work/$processor/cl/sealed_files.o" "$work/sealed_files.c"
    echo cl/sealed_files.o >>"$work/$processor.names"
    while read -r object; do
        to=$out/$sealed/$processor/$object
        mkdir -p "$(dirname "$to")"
        "$processor-linux-gnu-objcopy" --strip-unneeded -R .comment "$work/$processor/$object" "$to"
    done <"$work/$processor.names"
}

# ---- the copy -------------------------------------------------------------------------------------------------------

absent="(not in this copy)"

# A link to a missing file becomes plain text; if the file was left out, the text says so.
unlink_missing() {
    find "$out" -name '*.md' | while read -r page; do
        folder=$(dirname "${page#"$out"/}")
        { grep -o '](\([^)]*\))' "$page" || true; } | sed 's/^](//; s/)$//' | sort -u | while read -r link; do
            path=${link%%#*} says=
            case $link in http* | '#'*) continue ;; esac
            [ ! -e "$out/$folder/$path" ] || continue
            [ ! -e "$folder/$path" ] || says=" $absent"
            sed -z -i "s|\[\([^]]*\)\](${link//./\\.})|\1$says|g" "$page"
        done
    done
}

# "`src/sync/ring.c` (not in this copy)": marks each left-out file that a page names between backquotes.
# tests/lessons/handout.sh checks that none was forgotten.
mark_missing() {
    find "$out" -name '*.md' ! -path "$out/.github/*" ! -path "$out/$sealed/*" | while read -r page; do
        folder=$(dirname "${page#"$out"/}")
        { grep -o '`[A-Za-z0-9_/.-]*\.[a-z]*`' "$page" || true; } | tr -d '`' | sort -u | while read -r path; do
            case $path in build/*) continue ;; esac # made, not left out
            here= left_out=
            for place in "$path" "$folder/$path" "src/$path"; do
                [ ! -f "$out/$place" ] || here=1
                [ ! -f "$place" ] || left_out=1
            done
            [ -n "$left_out" ] && [ -z "$here" ] || continue
            sed -i "s|\`${path//./\\.}\`\( $absent\)*|\`$path\` $absent|g" "$page"
        done
    done
}

# Leaves out sections for teachers, up to the next section, and commands that open a missing file.
leave_out_lines() {
    find "$out" -name '*.md' | while read -r page; do
        sed -i '/^## For teachers/,/^## /{/^## For teachers/d;/^## /!d}' "$page"
        { grep -o '^    less [a-z][^ ]*' "$page" || true; } | while read -r _ path; do
            [ -e "$out/$path" ] || [ ! -e "$path" ] || sed -i "\|^    less $path |d" "$page"
        done
    done
}

write_readme() {
    cat <<'END'
# What is sealed

The labs ask you to write parts of this framework yourself. So this copy has those parts as objects and not as source:
`make` links them. The checks of the labs and the kernels in OpenCL of which a lab could be copied are sealed too. All
commands work as with the source; what is for gradsum's own authors (`make lint`, `make fuzz` and most of `make
test-...`) is not here. Where a README names a file that was sealed or left out, "(not in this copy)" follows: ask your
teacher for the open source when a lab is done.

There are objects for these processors: PROCESSORS. Sealed, or left out:

END
    sed 's/^/    /' "$work/sealed"
}

# A public header, to which the labs send their readers, states all formulas; one of them is an answer.
hide_answers() {
    answer='dx\[i\]\[k\] = p\[i\]\[k\] - q\[i\]\[k\]'
    grep -q "/\* $answer \*/" "$out/src/backend.h" || fail "src/backend.h: where is the formula of task 2.3?"
    sed -i "s|$answer|dx = the derivative of that loss by x (lesson 2)|" "$out/src/backend.h"
}

mkdir -p "$out"
tar -cf - -T "$work/files" | tar -xf - -C "$out"
if [ $# = 0 ]; then
    echo "handout: $(wc -l <"$work/files") files are in $out; try 'make -C $out test', and 'make -C $out labs'"
    exit
fi
hide_answers
write_kernels >"$work/sealed_files.c"
for processor in "$@"; do
    case $processor in
    x86_64) seal x86_64 base soft v3 v4 ;;
    aarch64) seal aarch64 base ;;
    *) fail "unknown processor '$processor'; wanted x86_64 or aarch64" ;;
    esac
done
write_readme | sed "s/PROCESSORS/$*/" >"$out/$sealed/README.md"
for page in README.md lessons/README.md; do
    sed -i "1a\\
\\
> This copy is sealed: some files are here as objects, and cannot be read. Where the text names one, it says\\
> \"$absent\". [What is sealed]($([ $page = README.md ] && echo lessons/)sealed/README.md) lists them." "$out/$page"
done
leave_out_lines
unlink_missing
mark_missing
echo "handout: $(wc -l <"$work/files") files are in $out," \
    "and $(wc -l <"$work/sealed") are sealed ($sealed/README.md);" \
    "try 'make -C $out test', and 'make -C $out labs'"
