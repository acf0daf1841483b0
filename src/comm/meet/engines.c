#include "comm/meet/engines.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gs_status gs_engine_number(const char *name, const char *text, int least, int most, int *out) {
    char *rest;
    errno = 0;
    long value = strtol(text, &rest, 10);
    if (rest == text || *rest != '\0' || errno != 0 || value < least || value > most)
        return gs_fail(GS_E_USAGE, "%s is '%s'; it must be a whole number from %d to %d", name, text, least,
                       most);
    *out = (int)value;
    return GS_OK;
}

/* The variable's number; `otherwise` if it is not set, or is no such number: it does not matter then. */
static int number_or(const char *name, int least, int most, int otherwise) {
    const char *text = getenv(name);
    char *rest;
    if (!text) return otherwise;
    const long value = strtol(text, &rest, 10);
    return rest != text && *rest == '\0' && value >= least && value <= most ? (int)value : otherwise;
}

/* The table has seen to it that the variable is there. */
static const char *text_of(const char *name) {
    const char *text = getenv(name);
    return text ? text : "";
}

static gs_status take_rank(gs_rendezvous *r, const char *rank, const char *size) {
    GS_TRY(gs_engine_number(size, text_of(size), 1, GS_PROCESSES, &r->size));
    return gs_engine_number(rank, text_of(rank), 0, r->size - 1, &r->rank);
}

/* Rank 0 holds a store at the first of some ports that is free. On one machine nobody else needs to reach it. */
static void meet_at(gs_rendezvous *r, const char *host, int port) {
    if (r->nodes == 1) host = "127.0.0.1";
    snprintf(r->meet, sizeof r->meet, strchr(host, ':') ? "tcp://[%s]:%d" : "tcp://%s:%d", host, port);
    r->ports = GS_ENGINE_PORTS;
    r->hosts = r->rank == 0;
}

/* ---- Open MPI's mpirun: MPI itself connects the processes ---- */

static gs_status from_mpirun(gs_rendezvous *r) {
    const char *transport = getenv("GRADSUM_TRANSPORT");
    GS_TRY(take_rank(r, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"));
    r->local = number_or("OMPI_COMM_WORLD_LOCAL_RANK", 0, GS_PROCESSES, -1);
    if (r->size > 1 && transport && strcmp(transport, "mpi") != 0 && strcmp(transport, "auto") != 0)
        return gs_fail(GS_E_USAGE,
                       "mpirun started this process, but GRADSUM_TRANSPORT is '%s'; under mpirun it must be "
                       "mpi; without mpirun, use gradsum launch",
                       transport);
    r->transport = "mpi";
    return GS_OK;
}

/* ---- torchrun, and what else sets PyTorch's variables ---- */

/* At MASTER_PORT torchrun's own store listens, so ours is at one of the next ports. */
static gs_status from_torchrun(gs_rendezvous *r) {
    const char *run = getenv("TORCHELASTIC_RUN_ID"), *host = text_of("MASTER_ADDR");
    int port, each = number_or("LOCAL_WORLD_SIZE", 1, GS_PROCESSES, 0);
    GS_TRY(take_rank(r, "RANK", "WORLD_SIZE"));
    GS_TRY(gs_engine_number("MASTER_PORT", text_of("MASTER_PORT"), 1, 65535, &port));
    if (strlen(host) > 200 || !*host)
        return gs_fail(GS_E_USAGE, "MASTER_ADDR is '%.100s'; it must be the name or address of a host", host);
    r->local = number_or("LOCAL_RANK", 0, GS_PROCESSES, -1);
    r->nodes = number_or("GROUP_WORLD_SIZE", 1, GS_PROCESSES, each == r->size ? 1 : 0);
    snprintf(r->run, sizeof r->run, "torchrun %.60s %d, start %d", run ? run : "", port,
             number_or("TORCHELASTIC_RESTART_COUNT", 0, 1 << 30, 0));
    meet_at(r, host, port + GS_ENGINE_PORTS < 65536 ? port + 1 : port - GS_ENGINE_PORTS);
    return GS_OK;
}

/* ---- Slurm's srun ---- */

bool gs_engine_first_host(const char *list, char *host, size_t size) {
    const size_t stem = strcspn(list, "[,");
    const size_t first = list[stem] == '[' ? strcspn(list + stem + 1, "-,]") : 0;
    if (stem + first == 0 || stem + first >= size) return false;
    memcpy(host, list, stem);
    if (first > 0) memcpy(host + stem, list + stem + 1, first);
    host[stem + first] = '\0';
    return true;
}

/* The port follows from the numbers of job and step, so that two jobs on one machine rarely share it. */
static gs_status from_slurm(gs_rendezvous *r) {
    const char *nodes = text_of("SLURM_STEP_NODELIST"), *size = "SLURM_STEP_NUM_TASKS";
    const int job = number_or("SLURM_JOB_ID", 0, 2147483647, 0),
              step = number_or("SLURM_STEP_ID", 0, 2147483647, 0);
    char host[200];
    if (!getenv(size)) size = "SLURM_NTASKS";
    GS_TRY(take_rank(r, "SLURM_PROCID", size));
    if (!gs_engine_first_host(nodes, host, sizeof host))
        return gs_fail(GS_E_USAGE, "SLURM_STEP_NODELIST is '%.100s'; it must begin with the name of a host",
                       nodes);
    r->local = number_or("SLURM_LOCALID", 0, GS_PROCESSES, -1);
    r->nodes =
        number_or("SLURM_STEP_NUM_NODES", 1, GS_PROCESSES, number_or("SLURM_NNODES", 1, GS_PROCESSES, 0));
    snprintf(r->run, sizeof r->run, "Slurm %d.%d", job, step);
    meet_at(r, host, 20000 + (int)(((long long)job * 97 + (long long)step * GS_ENGINE_PORTS) % 10000));
    return GS_OK;
}

/* ---- the table ---- */

/* The first whose variables are all there counts. mpirun and torchrun come before Slurm, in whose jobs they run. */
static const struct engine {
    const char *name, *variable[5];
    gs_status (*take)(gs_rendezvous *);
} engines[] = {
    {"Open MPI", {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, from_mpirun},
    {"torchrun", {"RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"}, from_torchrun},
    {"Slurm", {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_NODELIST"}, from_slurm},
};

gs_status gs_engines_look(gs_rendezvous *r) {
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        bool all = true;
        for (const char *const *v = engines[i].variable; *v; v++) all = all && getenv(*v);
        if (!all) continue;
        r->engine = engines[i].name;
        return engines[i].take(r);
    }
    return GS_OK;
}
