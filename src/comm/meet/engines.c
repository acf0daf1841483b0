#include "comm/meet/engines.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

gs_status gs_engine_number(const char *name, const char *text, int least, int most, int *out) {
    char *rest;
    long value = strtol(text, &rest, 10);
    if (rest == text || *rest != '\0' || value < least || value > most)
        return gs_fail(GS_E_USAGE, "%s is '%s'; it must be a whole number from %d to %d", name, text, least,
                       most);
    *out = (int)value;
    return GS_OK;
}

/* The variable's number; `otherwise` if it is not set, or is no such number: it does not matter then. */
static int number_or(const char *name, int least, int most, int otherwise) {
    const char *text = getenv(name);
    if (text) (void)gs_engine_number(name, text, least, most, &otherwise);
    return otherwise;
}

/* The table has seen to it that the variable is there. */
static const char *text_of(const char *name) {
    const char *text = getenv(name);
    return text ? text : "";
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
    GS_TRY(gs_engine_number("MASTER_PORT", text_of("MASTER_PORT"), 1, 65535, &port));
    if (strlen(host) > 200 || !*host)
        return gs_fail(GS_E_USAGE, "MASTER_ADDR is '%.100s'; it must be the name or address of a host", host);
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
    const char *nodes = text_of("SLURM_STEP_NODELIST");
    const int job = number_or("SLURM_JOB_ID", 0, 2147483647, 0),
              step = number_or("SLURM_STEP_ID", 0, 2147483647, 0);
    char host[200];
    if (!gs_engine_first_host(nodes, host, sizeof host))
        return gs_fail(GS_E_USAGE, "SLURM_STEP_NODELIST is '%.100s'; it must begin with the name of a host",
                       nodes);
    r->nodes =
        number_or("SLURM_STEP_NUM_NODES", 1, GS_PROCESSES, number_or("SLURM_NNODES", 1, GS_PROCESSES, 0));
    snprintf(r->run, sizeof r->run, "Slurm %d.%d", job, step);
    meet_at(r, host, 20000 + (int)(((long long)job * 97 + (long long)step * GS_ENGINE_PORTS) % 10000));
    return GS_OK;
}

/* ---- the table ---- */

/* mpirun and torchrun come before Slurm, in whose jobs they run. All but the name are variables; of two sizes the first
 * that is set counts. */
typedef struct engine {
    const char *name, *rank, *size[2], *local, *needs[3];
    gs_status (*take)(gs_rendezvous *); /* where the ranks meet; NULL: only GRADSUM_RENDEZVOUS says that */
    bool common;                        /* others use these names too */
} engine;

static const engine engines[] = {
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     {"OMPI_COMM_WORLD_SIZE"},
     .local = "OMPI_COMM_WORLD_LOCAL_RANK",
     .take = from_mpirun},
    {"torchrun",
     "RANK",
     {"WORLD_SIZE"},
     .local = "LOCAL_RANK",
     .needs = {"MASTER_ADDR", "MASTER_PORT"},
     .take = from_torchrun,
     .common = true},
    {"MVAPICH", "MV2_COMM_WORLD_RANK", {"MV2_COMM_WORLD_SIZE"}, .local = "MV2_COMM_WORLD_LOCAL_RANK"},
    {"MPICH", "PMI_RANK", {"PMI_SIZE"}, .local = "MPI_LOCALRANKID"}, /* and Intel MPI */
    {"Flux", "FLUX_TASK_RANK", {"FLUX_JOB_SIZE"}, .local = "FLUX_TASK_LOCAL_ID"},
    {"Slurm",
     "SLURM_PROCID",
     {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
     .local = "SLURM_LOCALID",
     .needs = {"SLURM_STEP_NODELIST"},
     .take = from_slurm},
    {"PALS", "PALS_RANKID", .local = "PALS_LOCAL_RANKID"},
    {"PMIx", "PMIX_RANK", .local = "PMIX_LOCAL_RANK"},
};

/* What an engine has set; of numbers -1: none. */
typedef struct seen {
    const engine *engine;
    const char *size_name, *missing; /* variables; NULL: none */
    int rank, size;
} seen;

static seen look_at(const engine *e) {
    seen s = {.engine = e, .rank = number_or(e->rank, 0, 1 << 30, -1), .size = -1};
    for (int i = 1; i >= 0; i--)
        if (e->size[i] && getenv(e->size[i])) s.size_name = e->size[i];
    if (s.size_name) s.size = number_or(s.size_name, 1, 1 << 30, -1);
    for (const char *const *v = e->needs; *v && !s.missing; v++)
        if (!getenv(*v)) s.missing = *v;
    return s;
}

/* Certainly one of several processes. SLURM_NTASKS is the job's: its shell has no rank, its batch script rank 0. */
static bool is_one_of_several(const seen *s) {
    const bool script = s->rank <= 0 && s->engine->size[1] && s->size_name != s->engine->size[0];
    if (s->rank < 0) return s->size > 1 && !script;
    return s->size != 1 && !script;
}

static bool is_whole(const seen *s) {
    return s->engine->take && getenv(s->engine->rank) && s->size_name && !s->missing;
}

static gs_status take(const seen *s, gs_rendezvous *r) {
    const engine *e = s->engine;
    r->engine = e->name;
    GS_TRY(gs_engine_number(s->size_name, text_of(s->size_name), 1, GS_PROCESSES, &r->size));
    GS_TRY(gs_engine_number(e->rank, text_of(e->rank), 0, r->size - 1, &r->rank));
    r->local = number_or(e->local, 0, GS_PROCESSES, -1);
    return is_whole(s) ? e->take(r) : GS_OK;
}

/* Processes that each train alone would all write the same files. */
static gs_status refuse(const seen *s) {
    const char *name = s->engine->name, *rank = s->engine->rank, *missing = s->missing;
    int number;
    if (s->size_name) GS_TRY(gs_engine_number(s->size_name, text_of(s->size_name), 1, GS_PROCESSES, &number));
    if (s->size > 0 && getenv(rank)) GS_TRY(gs_engine_number(rank, text_of(rank), 0, s->size - 1, &number));
    if (s->size < 0)
        return gs_fail(
            GS_E_USAGE,
            "%s is %d, as %s sets it, but nothing says how many processes there are: for each, set "
            "GRADSUM_RANK, GRADSUM_WORLD_SIZE and GRADSUM_RENDEZVOUS=tcp://HOST:PORT, or use gradsum launch; "
            "to train alone, unset %s",
            rank, s->rank, name, rank);
    if (s->rank < 0)
        return gs_fail(
            GS_E_USAGE,
            "%s is %d, as %s sets it, but %s is not set: nothing says which of them this process is; to "
            "train alone, unset %s",
            s->size_name, s->size, name, rank, s->size_name);
    return gs_fail(
        GS_E_USAGE,
        "%s is %d and %s is %d, as %s sets them, but %s%s: set GRADSUM_RENDEZVOUS=tcp://HOST:PORT for all, "
        "HOST being rank 0's, or use gradsum launch; to train alone, unset %s",
        rank, s->rank, s->size_name, s->size, name, missing ? missing : "nothing says where they meet",
        missing ? " is not set" : "", rank);
}

gs_status gs_engines_look(gs_rendezvous *r) {
    seen half = {.rank = -1};
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        const seen s = look_at(&engines[i]);
        /* MPICH starts its processes from one process of Slurm's on each node, whose rank is not theirs. */
        const bool other = half.engine && !half.engine->common && half.size > 0 &&
                           (half.rank != s.rank || half.size != s.size);
        if (is_whole(&s) && !other) return take(&s, r);
        if ((half.size < 0 || half.rank < 0) && is_one_of_several(&s)) half = s;
    }
    if (!half.engine) return GS_OK;
    return half.size > 0 && half.rank >= 0 && getenv("GRADSUM_RENDEZVOUS") ? take(&half, r) : refuse(&half);
}
