#!/bin/sh
# oclgrind.sh TEST-PROGRAM: every kernel under Oclgrind, which stops at nothing and reports races between work-items,
# reads of uninitialised memory, accesses out of bounds and wrong use of the API. Any finding fails.
set -u
program=$1
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT

# Oclgrind is about 100 times slower than a device: tiny shapes, which still reach every kernel and every branch. All
# families of tiles are run: those for CPUs, with narrow and wide vectors, and those for GPUs.
check() {
    tiles=$1 group=$2
    echo "oclgrind: $group, with $tiles tiles"
    GRADSUM_TEST_SMALL=1 GRADSUM_TEST_DEVICES=cl GRADSUM_CL_TILES="$tiles" GRADSUM_CACHE=off \
        oclgrind --data-races --uninitialized --check-api --log "$log" "$program" "$group" || {
        cat "$log"
        echo "oclgrind: the tests failed" >&2
        exit 1
    }
    [ -s "$log" ] || return 0
    cat "$log"
    echo "oclgrind: findings in $group with $tiles tiles, see above" >&2
    exit 1
}

for tiles in cpu4 cpu16 gpu; do
    for group in operators backend fused; do check $tiles $group; done
done
check "cpu8 pack=0" operators # the kernels for large products
echo "oclgrind: no findings"
