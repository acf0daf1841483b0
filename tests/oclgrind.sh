#!/bin/sh
# oclgrind.sh TEST-PROGRAM: every kernel under Oclgrind, which stops at nothing and reports races between work-items,
# reads of uninitialised memory, accesses out of bounds and wrong use of the API. Any finding fails.
set -u
program=$1
log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT

# Oclgrind is about 100 times slower than a device: tiny shapes, which still reach every kernel and every branch. Both
# families of tiles are run, the one for CPUs and the one for GPUs.
for tiles in cpu gpu; do
    echo "oclgrind: the operators, with $tiles tiles"
    GRADSUM_TEST_SMALL=1 GRADSUM_TEST_DEVICES=cl GRADSUM_CL_TILES=$tiles \
        oclgrind --data-races --uninitialized --check-api --log "$log" "$program" operators || {
        cat "$log"
        echo "oclgrind: the tests failed" >&2
        exit 1
    }
    if [ -s "$log" ]; then
        cat "$log"
        echo "oclgrind: findings with $tiles tiles, see above" >&2
        exit 1
    fi
done
echo "oclgrind: no findings"
