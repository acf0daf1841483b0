#!/usr/bin/env bash
# sanitize.sh asan|tsan TEST-PROGRAM: runs the tests under AddressSanitizer and UBSan, or under ThreadSanitizer.
set -euo pipefail
# With full address randomisation (vm.mmap_rnd_bits=32) a sanitizer may find its own addresses taken, and end before
# main. Without randomisation it works.
grep -q '4....$' /proc/self/personality || ! setarch -R true 2>/dev/null || exec setarch -R "$0" "$@"
here=$(dirname "$(realpath "$0")")
kind=$1 program=$2
# Runs of 20 steps use a tenth of the samples, but still make 20 steps.
export GRADSUM_TEST_TENTH=1

# The kernels of cpu/ are instrumented for the best instruction set of this machine. The groups that test kernels use
# it, and test all shapes; whole trainings use the other one (tests/flags.mk).
sets=$(GRADSUM_ISA=none "${program%-test}" devices 2>&1 || true) # "... of this machine and build: v4, v3"
other=${sets##* }
[[ $other =~ ^(v4|v3|baseline)$ ]] || { echo "sanitize.sh: there is no instruction set in: $sets" >&2; exit 1; }

# Each group of tests runs in a separate process, four at a time: many of them mostly wait. Prints the whole output of a
# failing group, and the summary of the others.
check_groups() {
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    export folder program kind of_kernels other
    check() {
        local output=$folder/$1 failed try start=$SECONDS
        case $of_kernels in *" $1 "*) unset GRADSUM_TEST_SMALL ;; *) export GRADSUM_ISA=$other ;; esac
        for try in 1 2 3; do
            failed=0
            "$program" "$1" >"$output" 2>&1 </dev/null || failed=1
            # LeakSanitizer sometimes dies while PoCL's threads end. That says nothing about leaks: try again.
            grep -q 'LeakSanitizer has encountered a fatal error' "$output" || break
            echo "$kind: $1: LeakSanitizer itself failed, try $try of 3"
        done
        if [ "$failed" = 0 ]; then
            echo "$kind: $1: $(grep -c '       OK ' "$output" || true) passed," \
                "$(grep -c ' left out: ' "$output" || true) left out, $((SECONDS - start)) s"
        else
            cat "$output"
            touch "$folder/failed"
            echo "$kind: $1: FAILED, see above"
        fi
    }
    export -f check
    # shellcheck disable=SC2016
    printf '%s\n' "$@" | xargs -L 1 -P 4 bash -c 'check "$1"' check
    [ ! -e "$folder/failed" ] || exit 1
    echo "$kind: no findings in $# groups"
}

case $kind in
asan)
    # LLVM, inside PoCL, installs a signal stack in each thread, which would collide with AddressSanitizer's.
    export ASAN_OPTIONS=detect_leaks=1:use_sigaltstack=0
    export LSAN_OPTIONS=suppressions=$here/lsan.supp:print_suppressions=0
    export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
    list=$("$program" no-group 2>&1 || true) # "... the groups are:", then lines of FOLDER/ and names
    read -rd '' -a groups <<<"${list##*the groups are:}" || true
    of_kernels=$(awk '/\/$/ { tests = /(operators|layer|model|optim)\// } tests { printf " %s ", $0 }' <<<"$list")
    [ ${#groups[@]} -gt 50 ] || { echo "sanitize.sh: only ${#groups[@]} groups: $list" >&2; exit 1; }
    # The longest first, so that none of them ends last.
    first=(split pipeline layout collectives offload train checkpoint step_layouts in_one_file usage resume comm killed)
    # Leaves out long runs of code that other tests also cover.
    but=(accuracy bits bucket offload_memory)
    for group in "${groups[@]}"; do
        [[ $group = */ || " ${first[*]} ${but[*]} " = *" $group "* ]] || first+=("$group")
    done
    check_groups "${first[@]}"
    ;;
tsan)
    # PoCL is not built with ThreadSanitizer, which would take its locks for races: only the cpu backend. Only the parts
    # with threads: communication, schemes, training.
    export TSAN_OPTIONS=suppressions=$here/tsan.supp:halt_on_error=0:exitcode=66
    export GRADSUM_TEST_DEVICES=cpu GRADSUM_TEST_SMALL=1
    of_kernels=" operators pool "
    check_groups operators zero collectives train in_one_file async sync wire comm overlap trace pool gloo rendezvous \
        mismatched_calls shm wire_bytes loader zero_counts # the longest first, so that none of them ends last
    ;;
*)
    echo "sanitize.sh: '$kind' is neither asan nor tsan" >&2
    exit 2
    ;;
esac
