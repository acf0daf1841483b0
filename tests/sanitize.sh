#!/bin/sh
# sanitize.sh asan|tsan TEST-PROGRAM: the tests under AddressSanitizer and UBSan, or under ThreadSanitizer.
set -eu
here=$(dirname "$0")
kind=$1 program=$2

case $kind in
asan)
    # LLVM, inside PoCL, installs a signal stack of its own in each thread, which AddressSanitizer's would collide with.
    export ASAN_OPTIONS=detect_leaks=1:use_sigaltstack=0
    export LSAN_OPTIONS=suppressions=$(realpath "$here")/lsan.supp:print_suppressions=0
    export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
    "$program"
    ;;
tsan)
    # PoCL is not built with ThreadSanitizer, which would take its locks for races: the cpu backend only. Only the parts
    # with threads: communication, schemes, training.
    export TSAN_OPTIONS=suppressions=$(realpath "$here")/tsan.supp:halt_on_error=0:exitcode=66
    export GRADSUM_TEST_DEVICES=cpu
    for group in pool comm gloo meeting collectives checked shm sync wire wire_bytes overlap sharded_update loader train async trace; do "$program" $group; done
    ;;
*)
    echo "sanitize.sh: '$kind' is neither asan nor tsan" >&2
    exit 2
    ;;
esac
