#!/usr/bin/env bash
# bits.sh PROGRAM [record | cpu [STEPS [MODELS]]]: `train --exact` gives one SHA-256 of the weights for a command, on
# every machine. A row of tests/golden/bits.txt: the hash after 50 steps, the hash of a run of 5 steps, the options.
# Repeats each run in every way that this machine offers, and compares its hash with the table: 50 steps, but 5 where
# FMA is computed in software, and with the kernels for another kind of OpenCL device. "record" prints a new table.
# "cpu" runs each row once, on the CPU, or only those of some models, such as "mlp|gpt".
set -euo pipefail
here=$(dirname "$(realpath "$0")")
program=$(realpath "$1") only=${2-} steps=${3-${BITS_STEPS-50}} table=$here/../golden/bits.txt
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export GRADSUM_CACHE=$folder/cache
cd "$folder"
seq 2000 >numbers.txt
opencl=$("$program" devices --json | grep -c '"cl:' || true)
failed=0 count=0

# hash OPTIONS: of the weights after a run
hash() {
    rm -f weights
    # shellcheck disable=SC2086
    "$program" ${launch-} train --exact --tests 0 --steps "$steps" $1 --save weights >output 2>&1 ||
        { cat output >&2; echo "bits.sh: failed: $1" >&2; return 1; }
    sha256sum <weights | cut -c 1-64
}

if [ "$only" = record ]; then
    sed -n 's/^[^ ]* [^ ]* //p' "$table" | while read -r options; do
        echo "$(hash "$options") $(steps=5 hash "$options") $options"
    done
    exit
fi

# way NAME OPTIONS: one more way to run it
way() {
    local found wanted=$wanted50
    [ "$steps" = 50 ] || wanted=$wanted5
    found=$(hash "$options $2") || { failed=1; return; }
    count=$((count + 1))
    [ "$found" = "$wanted" ] && return
    echo "bits: $options --steps $steps: $1: ${found:0:8}, wanted ${wanted:0:8}"
    failed=1
}

while read -r wanted50 wanted5 options; do
    [[ $options =~ ${4-.} ]] || continue
    if [ "$only" = cpu ]; then
        way cpu "--devices cpu"
        continue
    fi
    for isa in v4 v3; do
        GRADSUM_ISA=$isa "$program" devices >/dev/null 2>&1 || continue
        GRADSUM_ISA=$isa way "GRADSUM_ISA=$isa" "--devices cpu"
    done
    steps=5 GRADSUM_ISA=baseline way "GRADSUM_ISA=baseline" "--devices cpu"
    OPENBLAS_CORETYPE=Prescott way "OPENBLAS_CORETYPE=Prescott" "--devices cpu"
    way "2 threads" "--devices cpu --threads 2"
    way "2 workers" "--devices cpu,cpu"
    way "8 workers" "--devices cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu"
    GRADSUM_TRANSPORT=shm launch="launch -n 2 --" way "2 processes" ""
    [ "$opencl" -gt 0 ] || continue
    for tiles in gpu cpu4 cpu8 cpu16; do
        steps=5 GRADSUM_CL_TILES=$tiles way "GRADSUM_CL_TILES=$tiles" "--devices cl"
    done
    way "2 workers on OpenCL" "--devices cl,cl"
    way "a CPU and OpenCL" "--devices cpu,cl"
done <"$table"

# gradsum doctor --exact holds short runs of the table.
held=$(grep -oE '"([0-9a-f]{64}|--model [^"]*)"' "$here/../../src/cli/doctor_exact.c" | tr -d '"' | paste -d ' ' - -)
if [ -z "$held" ] || grep -vxFf <(cut -d ' ' -f 2- "$table") <<<"$held"; then
    echo "bits: doctor_exact.c holds another row"
    failed=1
fi
[ $failed = 0 ] && echo "bits: $count runs have the hashes of the table"
exit $failed
