#!/bin/sh
# bench_jpeg.sh BUILD: JPEGs of 224 x 224 that one core decodes a second, by user CPU time, beside Pillow (Debian's
# python3-pil). PILLOW_SIMD=PYTHON adds a row: the python3 of an environment where Pillow-SIMD is installed
# (CC="cc -mavx2" pip install pillow-simd). Each figure is the best of three turns.
#     memory    from a file in memory to RGB
#     file      the same from a file
#     sample    and made 256 x 256, of which the middle 224 x 224 are kept
set -eu
build=$1 here=$(dirname "$0")
python=/usr/bin/python3
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
mkdir "$work/jpegs"
$python -c 'import numpy, PIL' 2>/dev/null || { echo "bench-images: needs python3-pil and python3-numpy"; exit 0; }
$python -B "$here/bench_jpeg.py" make "$work/jpegs"

best() { awk -v of="$2" '$1 == of && $2 > most { most = $2 } END { print most }' "$work/$1"; }
for _ in 1 2 3; do
    "$build/bench-jpeg" "$work"/jpegs/* >>"$work/gradsum"
    $python -B "$here/bench_jpeg.py" measure "$work"/jpegs/* >>"$work/pillow"
    [ -z "${PILLOW_SIMD:-}" ] || "$PILLOW_SIMD" -B "$here/bench_jpeg.py" measure "$work"/jpegs/* >>"$work/simd"
done
printf '%-24s %8s %8s %8s\n' "pictures/s a core" memory file sample
row() { printf '%-24s %8s %8s %8s\n' "$2" "$(best "$1" memory)" "$(best "$1" file)" "$(best "$1" sample)"; }
row gradsum gradsum
row pillow "Pillow $($python -B "$here/bench_jpeg.py" version)"
[ -z "${PILLOW_SIMD:-}" ] || row simd "Pillow-SIMD $("$PILLOW_SIMD" -B "$here/bench_jpeg.py" version)"
