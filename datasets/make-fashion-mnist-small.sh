#!/bin/sh
# Makes fashion-mnist-small from the full Fashion-MNIST: the first 600 training images and the first 100 test images
# of each class, in their original order. Needs nothing but Debian's base system and the package
# dataset-fashion-mnist; the output is the same to the byte every time (gzip -n writes no date).
#
#     datasets/make-fashion-mnist-small.sh [FROM [TO]]
set -eu

from=${1:-/usr/share/datasets/fashion-mnist}
to=${2:-$(dirname "$0")/fashion-mnist-small}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Bytes to text and back: one record of $1 bytes becomes one line of hexadecimal digits.
to_lines() { od -An -v -tx1 "-w$1" | tr -d ' '; }
to_bytes() { tr -d '\n' | tr a-f A-F | basenc --base16 --decode; }

subset() # split, images per class
{
    zcat "$from/$1-labels-idx1-ubyte.gz" | tail -c +9 | to_lines 1 > "$work/labels"    # after a header of 8 bytes
    zcat "$from/$1-images-idx3-ubyte.gz" | tail -c +17 | to_lines 784 > "$work/images" # 16 bytes; 28 x 28 pixels
    paste -d ' ' "$work/labels" "$work/images" | awk -v most="$2" '++count[$1] <= most' > "$work/chosen"

    wanted=$(($2 * 10))
    found=$(wc -l < "$work/chosen")
    if [ "$found" -ne "$wanted" ]; then
        echo "$0: $from has $found images to choose for $1, $wanted are wanted" >&2
        exit 1
    fi
    { printf '00000801%08x\n' "$wanted"; cut -d ' ' -f 1 "$work/chosen"; } |
        to_bytes | gzip -9n > "$to/$1-labels-idx1-ubyte.gz"
    { printf '00000803%08x0000001c0000001c\n' "$wanted"; cut -d ' ' -f 2 "$work/chosen"; } |
        to_bytes | gzip -9n > "$to/$1-images-idx3-ubyte.gz"
}

mkdir -p "$to"
subset train 600
subset t10k 100
