#!/usr/bin/env bash
# engines.sh PROGRAM: real engines start gradsum's processes: Slurm's srun on two simulated nodes, torchrun on two
# nodes, Open MPI's mpirun, MPICH's mpiexec. Each training must end with the weights of `gradsum launch -n 4`, even if
# rank 1 is killed at a random operation and Slurm or torchrun restarts the ranks. A missing engine is skipped with a
# message (with GRADSUM_ENGINES=required it is an error, except for MPICH and torchrun; TORCHRUN=/path/to/torchrun names
# torchrun).
set -u
program=$(realpath "$1")
if [ "${ENGINES_INSIDE:-}" != 1 ]; then # with separate host names and processes, so that nothing is left of either
    own=(--mount --pid --fork --mount-proc --kill-child)
    if unshare "${own[@]}" true 2>/dev/null; then ENGINES_INSIDE=1 exec unshare "${own[@]}" "$0" "$@"; fi
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work GRADSUM_TIMEOUT=30 GRADSUM_SECRET_FILE=$work/secret
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$work/secret" && chmod 600 "$work/secret"
unset GRADSUM_RANK GRADSUM_WORLD_SIZE GRADSUM_RENDEZVOUS GRADSUM_TRANSPORT
training=(train --model softmax --steps 20 --threads 1 --batch 60 --exact)
left_out=0 wrong=0

hash_in() { sed -n 's/.*weights  sha256 \([0-9a-f]*\).*/\1/p' "$1" | sort -u; }

skip() { # name why
    echo "engines: $1: skipped: $2"
    left_out=$((left_out + 1))
}

check() { # name output
    if [ "$(hash_in "$2")" = "$wanted" ]; then
        echo "engines: $1: right"
    else
        echo "engines: $1: WRONG: wanted weights $wanted in:" && sed 's/^/    /' "$2"
        wrong=$((wrong + 1))
    fi
}

# A training run whose rank 1 is killed in the first attempt; the engine restarts the run. GRADSUM_ENGINES_SEED
# determines at which operation: 30 to 79 of about 87. Before that, rank 1 waits until step 3's checkpoint is written.
RANDOM=${GRADSUM_ENGINES_SEED:-20261128}
struck=(sh "$work/struck" "$program" "${training[@]}" --checkpoint-every 3 --resume auto --checkpoint)
cat >"$work/struck" <<'END'
[ "${TORCHELASTIC_RESTART_COUNT:-${SLURM_RESTART_COUNT:-0}}" != 0 ] ||
    export GRADSUM_FAULT="delay:rank=1,operation=25,seconds=3;kill:rank=1,operation=$ENGINES_OPERATION"
exec "$@"
END
draw() { export ENGINES_OPERATION=$((30 + RANDOM % 50)); }

# The run was killed, resumed from a checkpoint, and has the undisturbed run's weights.
check_struck() { # name output
    if grep -q 'kill at operation' "$2" && grep -q 'resume  .*safetensors' "$2"; then
        check "$1, struck at operation $ENGINES_OPERATION" "$2"
    else
        echo "engines: $1: WRONG: not killed, or not resumed:" && sed 's/^/    /' "$2"
        wrong=$((wrong + 1))
    fi
}

"$program" launch -n 4 -- "${training[@]}" >"$work/launch" 2>&1
wanted=$(hash_in "$work/launch")
[ -n "$wanted" ] || { cat "$work/launch"; exit 1; }

# ---- Slurm: a controller and two nodes on this machine ----

start_slurm() {
    local s=$work/slurm
    mkdir -p "$s/state" "$s/n1" "$s/n2"
    { cat /etc/hosts; echo "127.0.0.1 engine1 engine2"; } >"$s/hosts"
    mount --bind "$s/hosts" /etc/hosts 2>/dev/null || { echo "host names cannot be changed here"; return; }
    head -c 1024 /dev/urandom >"$s/key" && chmod 600 "$s/key" && chown munge "$s/key" 2>/dev/null
    chmod 755 "$work" "$s"
    munged --force --key-file="$s/key" --socket="$s/munge" --pid-file="$s/munge.pid" --log-file="$s/munge.log" \
        --seed-file="$s/seed" >"$s/out" 2>&1 || { echo "munged does not start: $(tail -1 "$s/out")"; return; }
    cat >"$s/slurm.conf" <<END
ClusterName=engines
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthType=auth/munge
AuthInfo=socket=$s/munge
CredType=cred/munge
SlurmctldPort=$((17000 + RANDOM % 1000))
StateSaveLocation=$s/state
SlurmdSpoolDir=$s/%n
SlurmctldPidFile=$s/slurmctld.pid
SlurmdPidFile=$s/slurmd-%n.pid
SlurmctldLogFile=$s/slurmctld.log
SlurmdLogFile=$s/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=sched_interval=1
NodeName=engine1 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=18001 CPUs=2
NodeName=engine2 NodeHostname=$(hostname) NodeAddr=127.0.0.1 Port=18002 CPUs=2
PartitionName=all Nodes=engine1,engine2 Default=YES OverSubscribe=FORCE:8
END
    export SLURM_CONF=$s/slurm.conf
    slurmctld -c >"$s/out" 2>&1
    slurmd -N engine1 >>"$s/out" 2>&1
    slurmd -N engine2 >>"$s/out" 2>&1
    for ((i = 0; i < 150; i++)); do
        [ "$(sinfo -h -t idle -o %D 2>/dev/null)" != 2 ] || return
        sleep 0.1
    done
    echo "its nodes do not come up: $(tail -n 2 "$s"/out "$s"/*.log 2>/dev/null | tr '\n' ' ')"
}

if [ "$(id -u)" != 0 ] || [ "${ENGINES_INSIDE:-}" != 1 ]; then
    skip Slurm "its daemons are started as root, in name spaces of their own"
elif ! command -v slurmctld slurmd srun munged >/dev/null; then
    skip Slurm "it is not installed (Debian: slurm-wlm, munge)"
else
    why=$(start_slurm)
    export SLURM_CONF=$work/slurm/slurm.conf
    if [ -n "$why" ]; then
        skip Slurm "$why"
    else
        timeout 100 srun -N 2 -n 4 "$program" "${training[@]}" >"$work/srun" 2>&1
        check "Slurm, 2 nodes with 2 processes each" "$work/srun"
        timeout 100 sbatch --wait -N 2 -n 4 -o "$work/batch" --wrap "'$program' ${training[*]}" >/dev/null 2>&1
        check "Slurm, a batch script that trains alone" "$work/batch"
        draw
        printf '#!/bin/sh\nsrun -K %s || scontrol requeue $SLURM_JOB_ID\n' \
            "$(printf "'%s' " "${struck[@]}" "$work/slurm-checkpoints")" >"$work/job"
        job=$(sbatch --parsable --requeue --open-mode=append -N 2 -n 4 -o "$work/again" "$work/job")
        # A requeued job waits for two minutes, because Slurm kills it within the second in which its credential was
        # revoked ("Job credential revoked"). Five seconds are enough.
        put_back= end=$((SECONDS + 300))
        while [ $SECONDS -lt $end ]; do
            state=$(squeue -h -j "$job" -o %T 2>/dev/null) && [ -z "$state" ] && break
            if [ -z "$put_back" ] && [ "$state" = PENDING ] && grep -qs 'kill at operation' "$work/again"; then
                scontrol update JobId="$job" StartTime=now+5 2>>"$work/again" && put_back=1
            fi
            sleep 0.3
        done
        grep -h "JobId=$job" "$work/slurm/slurmctld.log" >>"$work/again" # printed if it fails
        check_struck "Slurm, requeued" "$work/again"
    fi
fi

# ---- torchrun, one and two nodes ----

# With underscores, as versions before 2 name the options; later versions accept both. PyTorch 1.13 (Debian 12) turns
# its own defaults --redirects 0 and --tee 0 into None, since Python 3.11 omits 0 when it lists such an enumeration, and
# ends with "AttributeError: 'NoneType' object has no attribute 'get'". It accepts 1 for both.
torchrun=${TORCHRUN:-$(command -v torchrun)}
redirects=()
[ -z "$torchrun" ] || timeout 60 "$torchrun" --no_python --nproc_per_node 1 true >/dev/null 2>&1 ||
    redirects=(--redirects 1 --tee 1 --log_dir "$work/torchrun-logs")
if [ -z "$torchrun" ]; then
    echo "engines: torchrun: skipped: it is not installed (TORCHRUN=/path/to/torchrun names it)"
elif ! timeout 60 "$torchrun" --no_python "${redirects[@]}" --nproc_per_node 1 true >"$work/torchrun" 2>&1; then
    echo "engines: torchrun: skipped: it cannot start even true: $(tail -n 1 "$work/torchrun")"
else
    timeout 100 "$torchrun" --no_python "${redirects[@]}" --nproc_per_node 4 "$program" "${training[@]}" \
        >"$work/torchrun" 2>&1
    check "torchrun, 1 node" "$work/torchrun"
    port=$((30000 + RANDOM % 2000))
    for r in 0 1; do
        timeout 100 "$torchrun" --no_python "${redirects[@]}" --nproc_per_node 2 --nnodes 2 --node_rank $r \
            --master_addr 127.0.0.1 --master_port $port "$program" "${training[@]}" >"$work/torchrun$r" 2>&1 &
    done
    wait %1 %2 2>/dev/null || wait
    cat "$work/torchrun0" "$work/torchrun1" >"$work/torchrun"
    check "torchrun, 2 nodes with 2 processes each" "$work/torchrun"
    draw
    timeout 100 "$torchrun" --no_python "${redirects[@]}" --max_restarts 2 --nproc_per_node 4 "${struck[@]}" \
        "$work/torchrun-checkpoints" >"$work/torchrun" 2>&1
    check_struck "torchrun, restarted" "$work/torchrun"
fi

# ---- mpirun: by MPI ----

if ! command -v mpirun >/dev/null; then
    skip mpirun "it is not installed (Debian: openmpi-bin, libopenmpi-dev)"
else
    timeout 100 mpirun --allow-run-as-root --oversubscribe -n 4 "$program" "${training[@]}" >"$work/mpirun" 2>&1
    if grep -q 'was built without it' "$work/mpirun"; then
        skip mpirun "this gradsum was built without MPI"
    else
        check mpirun "$work/mpirun"
    fi
fi

# ---- MPICH's mpiexec: it does not say where the ranks meet ----

if ! command -v mpiexec.mpich >/dev/null; then
    echo "engines: MPICH: skipped: it is not installed (Debian: mpich)"
else
    mpich=(timeout 100 mpiexec.mpich -launcher fork -n 4 "$program" "${training[@]}")
    GRADSUM_RENDEZVOUS=tcp://127.0.0.1:$((28000 + RANDOM % 1000)) "${mpich[@]}" >"$work/mpich" 2>&1
    check "MPICH, told where" "$work/mpich"
    "${mpich[@]}" >"$work/mpich" 2>&1
    if [ $? = 2 ] && [ "$(grep -c 'as MPICH sets it, but GRADSUM_RENDEZVOUS' "$work/mpich")" -gt 0 ]; then
        echo "engines: MPICH, not told: right"
    else
        echo "engines: MPICH, not told: WRONG:" && cat "$work/mpich" && wrong=$((wrong + 1))
    fi
fi

# ---- the end ----

[ "${ENGINES_INSIDE:-}" != 1 ] || [ ! -e "$work/slurm/hosts" ] || umount /etc/hosts 2>/dev/null
[ $wrong -eq 0 ] && { [ $left_out -eq 0 ] || [ "${GRADSUM_ENGINES:-}" != required ]; }
