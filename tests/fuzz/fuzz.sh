#!/usr/bin/env bash
# fuzz.sh BUILD SECONDS: runs every harness of BUILD/bin for SECONDS, two at a time, and prints how often each one ran.
# Inputs that crash are saved as BUILD/found/NAME-*, and the corpus in BUILD/corpus/NAME, with which the next run
# starts. FUZZ_ONLY="idx cache" runs only these. FUZZ_RUNS=20000: also ends a harness after so many inputs. FUZZ_SEED=1:
# starts from the seeds alone, and feeds the same inputs in every run.
set -euo pipefail
# With full address randomisation (vm.mmap_rnd_bits=32) a sanitizer may find its own addresses taken, and end before
# main. Without randomisation it works.
grep -q '4....$' /proc/self/personality || ! setarch -R true 2>/dev/null || exec setarch -R "$0" "$@"
build=$(realpath "$1") seconds=$2 here=$(dirname "$(realpath "$0")")
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1:detect_stack_use_after_return=0
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export LC_ALL=C
mkdir -p "$build/found" "$build/log"
# Harnesses that test files write their inputs to files, in memory if possible.
TMPDIR=$(mktemp -d -p /dev/shm gradsum-fuzz-XXXXXX 2>/dev/null || mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT

fuzz() {
    local name=$1 seeds=$build/seeds/$1 corpus=$build/corpus/$1 number=0 line
    rm -rf "$seeds"
    [ -z "${FUZZ_SEED:-}" ] || corpus=$TMPDIR/$name/corpus
    mkdir -p "$seeds" "$corpus" "$TMPDIR/$name"
    local options=(-seed="${FUZZ_SEED:-0}" -runs="${FUZZ_RUNS:--1}" -max_total_time="$seconds" -timeout=20
        -rss_limit_mb=2560 -max_len=4096 -close_fd_mask=1 -print_final_stats=1 -reload=0
        -artifact_prefix="$build/found/$name-")
    [ ! -f "$here/$name.dict" ] || options+=(-dict="$here/$name.dict")
    while IFS= read -r line; do
        number=$((number + 1))
        [[ $line = "# "* ]] || printf %b "$line" >"$seeds/$number"
    done < <(cat "$here/$name.seeds" 2>/dev/null)
    # By name, since a folder lists its files in any order.
    [ $number = 0 ] || options+=(-seed_inputs="$(find "$seeds" -type f | sort -V | paste -sd,)")
    cd "$TMPDIR/$name" && TMPDIR=. "$build/bin/$name" "${options[@]}" "$corpus" >"$build/log/$name" 2>&1 </dev/null
}
export -f fuzz
export build seconds here

names=${FUZZ_ONLY:-$(cd "$build/bin" && ls)}
failed=0
# shellcheck disable=SC2016
tr ' ' '\n' <<<"$names" | xargs -P 2 -I NAME bash -c 'fuzz NAME || echo NAME >>"$TMPDIR/failed"'

sum=0
printf '%-16s %12s %10s %9s\n' harness executions a-second features
for name in $names; do
    log=$build/log/$name
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
    features=$(sed -n 's/.* ft: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    printf '%-16s %12s %10s %9s\n' "$name" "${runs:-0}" "${rate:--}" "${features:--}"
    sum=$((sum + ${runs:-0}))
    if grep -qxs "$name" "$TMPDIR/failed"; then
        failed=$((failed + 1))
        echo "FAILED: $name"
        grep -E -A 12 'ERROR:|runtime error:|^SUMMARY|Test unit written' "$log" | grep -v 'fuzzer::' | head -n 30
    fi
done
echo "$sum executions of $(wc -w <<<"$names") harnesses, $failed failed"
[ "$failed" = 0 ]
