#!/bin/sh
# sanitize.sh asan|tsan TEST-PROGRAM: the tests under AddressSanitizer and UBSan, or under ThreadSanitizer.
set -eu
here=$(dirname "$0")
kind=$1 program=$2

# The OpenCL library and its compiler are not built with sanitizers, and leak or race in their own code: the tests run
# on the cpu backend there. Kernels have Oclgrind (oclgrind.sh); the host code of cl/ is run too where that is clean.
case $kind in
asan)
    export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=86
    export LSAN_OPTIONS=suppressions=$here/lsan.supp:print_suppressions=0
    export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
    "$program"
    ;;
tsan)
    export TSAN_OPTIONS=suppressions=$here/tsan.supp:halt_on_error=0:exitcode=66
    export GRADSUM_TEST_DEVICES=cpu
    for group in comm sync train; do "$program" $group; done
    ;;
*)
    echo "sanitize.sh: '$kind' is neither asan nor tsan" >&2
    exit 2
    ;;
esac
