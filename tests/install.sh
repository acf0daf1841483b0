#!/bin/sh
# install.sh: install into a new folder, then use what is there as a stranger would: the program (its kernels and its
# data must be found), and the library from a C program built by pkg-config, linked both ways.
set -eu
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
MAKEFLAGS="" ${MAKE:-make} --no-print-directory -s install DESTDIR="$root" PREFIX=/opt/gradsum >/dev/null
prefix=$root/opt/gradsum
cd "$root"

"$prefix/bin/gradsum" train --model softmax --steps 5 --threads 1 >log || { cat log; exit 1; }
"$prefix/bin/gradsum" devices | grep -q '^cl:' && "$prefix/bin/gradsum" train --model softmax --steps 5 --device cl >log

"$prefix/bin/gradsum" step -o step.html >log && grep -q '</html>' step.html
"$prefix/bin/gradsum" train --model softmax --steps 5 --threads 1 --log run >log
"$prefix/bin/gradsum" report run -o report.html >log && grep -q 'Chart.js v' report.html

cat >user.c <<'END'
#include <gradsum.h>
#include <stdio.h>

int main(void)
{
    gs_model *model;
    if (gs_model_plan("lenet", (gs_shape){1, 28, 28}, &model) != GS_OK) return 1;
    printf("%zu\n", model->params);
    gs_model_free(model);
    return 0;
}
END
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root"
# shellcheck disable=SC2046
gcc -Wall -Wextra -Werror -o shared user.c $(pkg-config --cflags --libs gradsum)
test "$(LD_LIBRARY_PATH=$prefix/lib ./shared)" = 61706
unset PKG_CONFIG_SYSROOT_DIR
gcc -o static user.c -I"$prefix/include/gradsum" "$prefix/lib/libgradsum.a" \
    $(pkg-config --static --libs-only-l gradsum | sed 's/-lgradsum//')
test "$(./static)" = 61706
echo "install: the program, the library, the headers, the kernels, the data and the pages are found"
