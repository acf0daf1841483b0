#!/bin/sh
# install.sh BUILD: installs into a new folder, then uses the result as a new user would: the program (which must find
# its kernels and data), and the library from lessons/examples, built by pkg-config. Then uninstalls.
set -eu
build=$(cd "$1" && pwd)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
prefix=$root/opt/gradsum # the final location; packagers assemble it elsewhere
fail() { echo "install: $*"; exit 1; }
do_make() { MAKEFLAGS="" ${MAKE:-make} --no-print-directory -s "$@" B="$build" PREFIX="$prefix"; }
do_make install DESTDIR="$root/stage" >"$root/log" || { cat "$root/log"; exit 1; }
mv "$root/stage$root/opt" "$root/"
tree=$PWD
cd "$root"

# ---- the program ----
"$prefix/bin/gradsum" train --model softmax --steps 5 --threads 1 >log || { cat log; exit 1; }
"$prefix/bin/gradsum" devices | grep -q '^cl:' && "$prefix/bin/gradsum" train --model softmax --steps 5 --device cl >log

"$prefix/bin/gradsum" step -o step.html >log && grep -q '</html>' step.html
"$prefix/bin/gradsum" train --model softmax --steps 5 --threads 1 --log run >log
"$prefix/bin/gradsum" report run -o report.html >log && grep -q 'Chart.js v' report.html

# ---- a build folder outside the tree, and a program started elsewhere ----
(cd "$tree" && MAKEFLAGS="" ${MAKE:-make} -s B="$root/elsewhere" "$root/elsewhere/source-tree")
cp "$build/gradsum" elsewhere/
(cd / && "$root/elsewhere/gradsum" train --model softmax --steps 5 --threads 1 >"$root/log") ||
    fail "a build elsewhere fails"

# ---- the headers: gradsum.h, those that it names, all that these include, and no others ----
include=$prefix/include/gradsum
(cd "$include" && find . -name '*.h' | sort) >installed
sed -n 's|^ \*     \(\([a-z_/]*\.h,* *\)*\) .*|\1|p' "$include/gradsum.h" | tr -s ', ' '\n\n' | grep / >named
# shellcheck disable=SC2046
(cd "$include" && gcc -I. -MM gradsum.h backend.h $(cat "$root/named") | tr ' ' '\n' | grep '\.h$' | sed 's|^|./|' |
    sort -u) >included
cmp -s installed included ||
    fail "headers that gradsum.h does not name, or that are missing: $(diff installed included)"
while read -r header; do
    printf '#include <%s>\ntypedef int something;\n' "$header" >one.c
    gcc -std=c11 -Wall -Wextra -Werror -pedantic -I"$include" -fsyntax-only one.c || fail "$header needs others"
    g++ -std=c++17 -Wall -Wextra -Werror -I"$include" -fsyntax-only -x c++ one.c || fail "$header is not for C++"
done <installed

# ---- the exports of the shared library: exactly what the headers mark GS_API ----
sed 's/.*/#include <&>/' installed >all.c
echo 'int main(void) { return 0; }' >>all.c
gcc -I"$include" -E -P all.c | tr '\n' ' ' | tr ';' '\n' | grep 'visibility("default")' >api
nm -D --defined-only "$prefix/lib/libgradsum.so" | awk '{ print $3 }' | sort >exported
grep -o 'gs_[a-z0-9_]*' api | sort -u | comm -23 exported - >secret
test ! -s secret || fail "the library exports what no header marks GS_API: $(head -n 5 secret)"
sed -n 's/.*\b\(gs_[a-z0-9_]*\)(.*/\1/p' api | sort -u | comm -23 - exported >missing
test ! -s missing || fail "a header marks GS_API what the library does not export: $(head -n 5 missing)"
gcc -w -fkeep-static-functions -I"$include" -o all all.c -L"$prefix/lib" -lgradsum ||
    fail "an inline function of a header calls what the library does not export"

# ---- the shared library: a program looks for the soname, which is a link to the real file ----
version=$("$prefix/bin/gradsum" --version | sed 's/gradsum //')
test -f "$prefix/lib/libgradsum.so.$version" || fail "no libgradsum.so.$version"
test "$(readlink "$prefix/lib/libgradsum.so")" = "libgradsum.so.${version%%.*}"
test "$(readlink "$prefix/lib/libgradsum.so.${version%%.*}")" = "libgradsum.so.$version"
readelf -d "$prefix/lib/libgradsum.so" | grep -q "SONAME.*\[libgradsum.so.${version%%.*}\]" ||
    fail "the soname is another"
grep -q "^Version: $version\$" "$prefix/lib/pkgconfig/gradsum.pc" || fail "pkg-config has another version"

# ---- the library: lessons/examples, compiled as their first lines say, linked both ways, and their output ----
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
# works NAME 'awk program that exits 0 if the output is right' [ARGUMENT]
works() {
    echo "$1${3:+ $3}"
    # shellcheck disable=SC2046
    g++ -std=c++17 -Wall -Werror -x c++ -o plusplus "$tree/lessons/examples/$1.c" -x none \
        $(pkg-config --cflags --libs gradsum)
    # shellcheck disable=SC2046
    gcc -std=c11 -Wall -Wextra -Werror -pedantic -o shared "$tree/lessons/examples/$1.c" \
        $(pkg-config --cflags --libs gradsum) -lm
    # shellcheck disable=SC2046
    gcc -std=c11 -o static "$tree/lessons/examples/$1.c" $(pkg-config --cflags gradsum) "$prefix/lib/libgradsum.a" \
        $(pkg-config --static --libs-only-l gradsum | sed 's/-lgradsum//')
    readelf -d shared | grep -q "NEEDED.*libgradsum.so.${version%%.*}\]" || fail "$1 does not look for the soname"
    LD_LIBRARY_PATH=$prefix/lib ./shared ${3:+"$3"} >printed || fail "$1 fails: $(cat printed)"
    awk "$2" printed || fail "$1 prints $(cat printed)"
    ./static ${3:+"$3"} | cmp -s - printed || fail "$1 prints something else when it is linked statically"
    LD_LIBRARY_PATH=$prefix/lib ./plusplus ${3:+"$3"} | cmp -s - printed || fail "$1 prints something else in C++"
}
near='function near(x, want, most) { return x > want - most && x < want + most }'
works linear_regression "$near"' END { exit !(near($3, 3, 0.02) && near($5, -2, 0.02) && near($7 + 0, 1, 0.02)) }'
# lines NAME MOST
lines() {
    test "$(wc -l <"$tree/lessons/examples/$1.c")" -le "$2" || fail "$1.c has more than $2 lines"
}
right='/^epoch/ { n++; accuracy = $8 + 0 } END { exit !(n == 3 && accuracy > 80) }'
works train '/^epoch/ { n++; accuracy = $8 + 0 } END { exit !(n == 3 && accuracy > 75) }'
lines train 40
"$prefix/bin/gradsum" eval --load lenet.safetensors >log || fail "what train saves: $(cat log)"
works training_loop "$right"
right='/gradients of 8 slopes are right/ { n++ } /prelu, linear 1: loss/ { loss = $7 + 0 }
    END { exit !(n == 1 && loss > 0 && loss < 1e-4) }'
works own_layer "$right"
works two_workers '$2 $3 $4 $5 $6 == "t=4.0000x-3.0000" { n++ } END { exit n != 2 }'
if "$prefix/bin/gradsum" devices | grep -q '^cl:'; then
    works own_layer "$right" cl
fi
lines two_workers 60

# ---- manual pages: one per command, with the text of its help ----
man=$prefix/share/man/man1
"$prefix/bin/gradsum" help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | grep -v '^help$' >commands
test "$(find "$man" -name '*.1' | wc -l)" = "$(($(wc -l <commands) + 1))" || fail "not one manual page for each command"
while read -r command; do
    page=$man/gradsum-$command.1
    grep -q "gradsum.-$command (1)" "$man/gradsum.1" || fail "gradsum.1 does not name $command"
    "$prefix/bin/gradsum" "$command" --help-all >help
    sed -n '/^\.nf$/,/^\.fi$/p' "$page" | sed '1d; $d; s/\\-/-/g; s/^\\&//; s/\\e/\\/g' | cmp -s - help ||
        fail "the page of $command is not its help"
done <commands
grep -A1 '^\.SH EXIT STATUS$' "$man/gradsum.1" | grep -q '^0: done; 1: failed; 2: wrong usage; 128 and more' ||
    fail "gradsum.1 does not say what the exit status means"
printf '#!/bin/sh\ntest "$1" != train && exec "%s/bin/gradsum" "$@"\n' "$prefix" >failing && chmod +x failing
if sh "$tree/src/cli/options/manual.sh" ./failing pages 2>log; then fail "a page is made of no help"; fi
if command -v mandoc >/dev/null; then
    mandoc -Tlint -W warning "$man"/*.1 || fail "mandoc finds something"
else
    echo "install: skipped: the manual pages are not checked: there is no mandoc"
fi

# ---- completion: the same words, through the shells' own mechanisms ----
export PATH="$prefix/bin:$PATH"
cat >try.bash <<'END'
source "$1"
shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_gradsum
echo "${COMPREPLY[*]}"
END
completes() { # completes 'expected words' WORD...: the last word is the one at the cursor
    wanted=$1 && shift
    found=$(bash try.bash "$prefix/share/bash-completion/completions/gradsum" "$@")
    test "$found" = "$wanted" || fail "bash completes '$*' with '$found', not '$wanted'"
}
completes "train" gradsum t
completes "help" gradsum h
completes "train" gradsum help t
completes "--model --momentum" gradsum train --mo
completes "--model --momentum" gradsum launch -n 2 -- train --mo
completes "" gradsum train --load w # a file: left to bash
completes "--pipeline --pipeline-schedule" gradsum step --pi # of step's other form
completes "--zero" gradsum step --ze
completes "--pipeline --pipeline-schedule" gradsum step --zero 2 --pi
completes "" gradsum step --pipeline 2
# Names, from the tables of the program.
completes "ring" gradsum train --sync ri
completes "lenet" gradsum launch -n 2 -- train --model le
completes "colour-fashion colour-fashion-small" gradsum eval --data co
completes "adam adamw" gradsum train --optimizer ad
completes "cpu cl" gradsum train --devices ""
completes "dp2 dp2,zero1 dp2,zero2 dp2,zero3 dp2,tp2 dp2,pp2" gradsum memory --layout d
# Every option of every command, as its help names it.
sed 's/$/ /; s/^step $/&\nstep --zero 2/' commands >forms
while read -r command more; do
    # shellcheck disable=SC2086
    "$prefix/bin/gradsum" "$command" $more --help-all >help
    test "$command" != step || "$prefix/bin/gradsum" step --zero 1 --help-all >>help
    sed -n 's/^  -o, /  /; s/^  \(--[^ ]*\).*/\1/p' help | awk '!seen[$0]++' >named
    cat named >>all_named
    # shellcheck disable=SC2086
    completes "$(paste -s -d ' ' named)" gradsum "$command" $more --
done <forms
test "$(wc -l <all_named)" -gt 500 || fail "help names only $(wc -l <all_named) options"
if command -v zsh >/dev/null; then
    cat >try.zsh <<'END'
_describe() { print -l -- "${(P@)2}" }
_files() { print FILES }
file=$1; shift
words=("$@") CURRENT=$#
source $file
END
    zsh_finds() { zsh -f try.zsh "$prefix/share/zsh/site-functions/_gradsum" "$@"; }
    zsh_finds gradsum t | grep -q '^train:train a model' || fail "zsh does not complete commands"
    zsh_finds gradsum h | grep -q '^help:this list; help COMMAND' || fail "zsh does not complete help"
    zsh_finds gradsum help t | grep -q '^train:train a model' || fail "zsh does not complete help train"
    zsh_finds gradsum train --mo | grep -q '^--momentum:sgd, nesterov, lars: momentum' ||
        fail "zsh does not complete options"
    zsh_finds gradsum launch -n 2 -- train --mo | grep -q '^--momentum:' || fail "zsh does not complete launch -- train"
    test "$(zsh_finds gradsum train --wire '' | paste -s -d ' ')" = "f32 f16 bf16" || fail "zsh does not complete names"
    test "$(zsh_finds gradsum train --load w)" = FILES || fail "zsh does not complete the value of --load"
    zsh_finds gradsum step --ze | grep -q '^--zero:divide among .* 2 gradients too; 3 weights too (default 0)$' ||
        fail "zsh does not complete step --zero with its whole description"
    zsh_finds gradsum train -- | grep -q '^--checkpoint-every:a checkpoint every N steps, or' ||
        fail "zsh has no description of --checkpoint-every"
    while read -r command more; do
        # shellcheck disable=SC2086
        bash try.bash "$prefix/share/bash-completion/completions/gradsum" gradsum "$command" $more -- |
            tr ' ' '\n' >named
        # shellcheck disable=SC2086
        zsh_finds gradsum "$command" $more -- | sed -n 's/^\(--[^:]*\):.*/\1/p' | cmp -s - named ||
            fail "zsh does not complete all options of $command $more"
    done <forms
else
    echo "install: skipped: completion for zsh is not tried: there is no zsh"
fi

# ---- nothing is left behind ----
(cd "$tree" && do_make uninstall >"$root/log") || { cat log; exit 1; }
left=$(find "$prefix" ! -type d)
test -z "$left" || fail "uninstall leaves $left"
echo "install: the program, the library, the headers, the kernels, the data, the pages and the examples work;" \
    "all is removed again"
