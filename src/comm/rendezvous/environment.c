/* Read the rank of this process, and how it meets the others, from the environment variables that `gradsum launch`, the
 * user, or another launcher has set. */
#include "comm/rendezvous/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { PROCESSES = 4096 /* maximum */, PORTS = 16 /* a store uses the first free one of this many */ };

/* ---- other launchers: each has a row in the table, and a function if it says where the processes meet ---- */

/* *out = the value of the variable `name`. GS_E_USAGE: it is not a whole number within the range. */
static gs_status whole_number(const char *name, const char *text, int least, int most, int *out) {
    char *rest;
    long value = strtol(text, &rest, 10);
    if (rest == text || *rest != '\0' || value < least || value > most)
        return gs_fail(GS_E_USAGE, "%s is '%s'; it must be a whole number from %d to %d", name, text, least,
                       most);
    *out = (int)value;
    return GS_OK;
}

/* The variable's value; `otherwise` if it is unset or out of range. */
static int number_or(const char *name, int least, int most, int otherwise) {
    const char *text = getenv(name);
    if (text) (void)whole_number(name, text, least, most, &otherwise);
    return otherwise;
}

static const char *text_of(const char *name) {
    const char *text = getenv(name);
    return text ? text : "";
}

/* Rank 0 holds a store on the first free one of several ports; on 127.0.0.1 if there is only one machine. */
static void set_endpoint(gs_rendezvous *r, const char *host, int port) {
    if (r->nodes == 1) host = "127.0.0.1";
    snprintf(r->endpoint, sizeof r->endpoint, strchr(host, ':') ? "tcp://[%s]:%d" : "tcp://%s:%d", host,
             port);
    r->ports = PORTS;
    r->holds_store = r->rank == 0;
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

/* ---- torchrun, and others that set PyTorch's variables ---- */

/* torchrun's own store listens on MASTER_PORT; ours listens on one of the next ports. */
static gs_status from_torchrun(gs_rendezvous *r) {
    const char *run = getenv("TORCHELASTIC_RUN_ID"), *host = text_of("MASTER_ADDR");
    int port = 0, each = number_or("LOCAL_WORLD_SIZE", 1, PROCESSES, 0);
    GS_TRY(whole_number("MASTER_PORT", text_of("MASTER_PORT"), 1, 65535, &port));
    if (strlen(host) > 200 || !*host)
        return gs_fail(GS_E_USAGE, "MASTER_ADDR is '%.100s'; it must be the name or address of a host", host);
    r->nodes = number_or("GROUP_WORLD_SIZE", 1, PROCESSES, each == r->size ? 1 : 0);
    snprintf(r->run, sizeof r->run, "torchrun %.60s %d, start %d", run ? run : "", port,
             number_or("TORCHELASTIC_RESTART_COUNT", 0, 1 << 30, 0));
    set_endpoint(r, host, port + PORTS < 65536 ? port + 1 : port - PORTS);
    return GS_OK;
}

/* ---- Slurm's srun ---- */

/* The first host in Slurm's list: "node[07-09,12],gpu1" -> "node07". False: there is none, or it is too long. */
static bool first_host(const char *list, char *host, size_t size) {
    const size_t stem = strcspn(list, "[,");
    const size_t first = list[stem] == '[' ? strcspn(list + stem + 1, "-,]") : 0;
    if (stem + first == 0 || stem + first >= size) return false;
    memcpy(host, list, stem);
    if (first > 0) memcpy(host + stem, list + stem + 1, first);
    host[stem + first] = '\0';
    return true;
}

/* The port depends on the job and step ids, so that two jobs on one machine rarely share it. */
static gs_status from_slurm(gs_rendezvous *r) {
    const char *nodes = text_of("SLURM_STEP_NODELIST");
    const int job = number_or("SLURM_JOB_ID", 0, 2147483647, 0),
              step = number_or("SLURM_STEP_ID", 0, 2147483647, 0);
    char host[200];
    if (!first_host(nodes, host, sizeof host))
        return gs_fail(GS_E_USAGE, "SLURM_STEP_NODELIST is '%.100s'; it must begin with the name of a host",
                       nodes);
    r->nodes = number_or("SLURM_STEP_NUM_NODES", 1, PROCESSES, number_or("SLURM_NNODES", 1, PROCESSES, 0));
    snprintf(r->run, sizeof r->run, "Slurm %d.%d", job, step);
    set_endpoint(r, host, 20000 + (int)(((long long)job * 97 + (long long)step * PORTS) % 10000));
    return GS_OK;
}

/* ---- the table ---- */

/* A row of the table. mpirun and torchrun precede Slurm, because they run inside its jobs. All strings except the name
 * are names of variables. Of the two sizes, the first that is set counts. */
typedef struct engine {
    const char *name, *rank, *size[2], *local, *needs[3];
    gs_status (*take)(gs_rendezvous *); /* fills in where the ranks meet; NULL: GRADSUM_RENDEZVOUS must say */
    bool common;                        /* unrelated programs use these names too */
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
    {"MPICH", "PMI_RANK", {"PMI_SIZE"}, .local = "MPI_LOCALRANKID"}, /* also Intel MPI */
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

/* What an engine has set. A number that is not set is -1. */
typedef struct seen {
    const engine *engine;
    const char *size_name; /* the variable; NULL: none */
    /* The first variable that is not set; NULL: all are set, and say where the ranks meet. */
    const char *missing;
    int rank, size;
} seen;

static seen look_at(const engine *e) {
    seen s = {.engine = e, .rank = number_or(e->rank, 0, 1 << 30, -1), .size = -1};
    for (int i = 1; i >= 0; i--)
        if (e->size[i] && getenv(e->size[i])) s.size_name = e->size[i];
    if (s.size_name) s.size = number_or(s.size_name, 1, 1 << 30, -1);
    if (!e->take) s.missing = "GRADSUM_RENDEZVOUS";
    for (int i = 2; i >= 0; i--)
        if (e->needs[i] && !getenv(e->needs[i])) s.missing = e->needs[i];
    if (!s.size_name) s.missing = e->size[0] ? e->size[0] : "GRADSUM_WORLD_SIZE";
    if (!getenv(e->rank)) s.missing = e->rank;
    return s;
}

/* True if this is certainly one of several processes. SLURM_NTASKS counts a job's tasks, but is also set in its shell,
 * which has no rank, and in its batch script, which has rank 0. */
static bool is_one_of_several(const seen *s) {
    const bool script = s->rank <= 0 && s->engine->size[1] && s->size_name != s->engine->size[0];
    if (s->rank < 0) return s->size > 1 && !script;
    return s->size != 1 && !script;
}

static gs_status take(const seen *s, gs_rendezvous *r) {
    const engine *e = s->engine;
    r->engine = e->name;
    GS_TRY(whole_number(s->size_name, text_of(s->size_name), 1, PROCESSES, &r->size));
    GS_TRY(whole_number(e->rank, text_of(e->rank), 0, r->size - 1, &r->rank));
    r->local_rank = number_or(e->local, 0, PROCESSES, -1);
    return s->missing ? GS_OK : e->take(r);
}

/* Refuse to run, because otherwise each process would train alone, and all would write the same files. */
static gs_status refuse(const seen *s) {
    const engine *e = s->engine;
    const bool knows_all = s->rank >= 0 && s->size >= 0;
    const char *set = s->rank >= 0 ? e->rank : s->size_name;
    int number;
    if (s->size_name) GS_TRY(whole_number(s->size_name, text_of(s->size_name), 1, PROCESSES, &number));
    if (s->size > 0 && getenv(e->rank))
        GS_TRY(whole_number(e->rank, text_of(e->rank), 0, s->size - 1, &number));
    return gs_fail(
        GS_E_USAGE,
        "%s is %d, as %s sets it, but %s is not set: set GRADSUM_RENDEZVOUS=tcp://HOST:PORT for all, "
        "HOST being rank 0's%s, or use gradsum launch; to train alone, unset %s",
        set, s->rank >= 0 ? s->rank : s->size, e->name, s->missing ? s->missing : "GRADSUM_RENDEZVOUS",
        knows_all ? "" : ", and GRADSUM_RANK and GRADSUM_WORLD_SIZE", set);
}

/* If an engine started this process, fill in rank, size and the meeting place; else change nothing. GS_E_USAGE: the
 * engine's variables are invalid, or this is one of several processes without a meeting place. */
static gs_status look_for_engine(gs_rendezvous *r) {
    seen half = {.rank = -1};
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        const seen s = look_at(&engines[i]);
        /* Under Slurm, MPICH starts its ranks from one task per node, and they inherit that task's Slurm rank. */
        const bool other = half.engine && !half.engine->common && half.size > 0 &&
                           (half.rank != s.rank || half.size != s.size);
        if (!s.missing && !other) return take(&s, r);
        if ((half.size < 0 || half.rank < 0) && is_one_of_several(&s)) half = s;
    }
    if (!half.engine) return GS_OK;
    return half.size > 0 && half.rank >= 0 && getenv("GRADSUM_RENDEZVOUS") ? take(&half, r) : refuse(&half);
}

/* ---- gradsum's own variables ---- */

static gs_status take_timeout(gs_rendezvous *r) {
    const char *timeout = getenv("GRADSUM_TIMEOUT");
    char *rest;
    if (!timeout) return GS_OK;
    r->timeout = strtod(timeout, &rest);
    if (rest == timeout || *rest != '\0' || !(r->timeout > 0) || !isfinite(r->timeout))
        return gs_fail(GS_E_USAGE, "GRADSUM_TIMEOUT is '%s'; it must be a number of seconds, more than 0",
                       timeout);
    return GS_OK;
}

/* GRADSUM_RENDEZVOUS: a folder, or a store. */
static gs_status take_place(gs_rendezvous *r, const char *text) {
    gs_endpoint endpoint;
    if (*text == '\0')
        return gs_fail(GS_E_USAGE,
                       "GRADSUM_RENDEZVOUS is empty; it must name a folder or a store (tcp://HOST:PORT)");
    r->endpoint[0] = '\0';
    r->holds_store = false;
    r->ports = 1;
    r->directory = strncmp(text, "file:", 5) == 0 ? text + 5 : text;
    if (gs_endpoint_is_folder(text)) return GS_OK;
    r->directory = NULL;
    GS_TRY(gs_context(gs_endpoint_read(text, &endpoint), "GRADSUM_RENDEZVOUS"));
    if (endpoint.port == 0 || strlen(text) >= sizeof r->endpoint)
        return gs_fail(GS_E_USAGE, "GRADSUM_RENDEZVOUS is '%.100s'; all processes must know the port", text);
    snprintf(r->endpoint, sizeof r->endpoint, "%s", text);
    r->holds_store = r->rank == 0 && !getenv("GRADSUM_STORE"); /* if set, the launcher holds the store */
    return GS_OK;
}

static gs_status take_rest(gs_rendezvous *r) {
    const char *own = getenv("GRADSUM_OWN_CPUS"), *nodes = getenv("GRADSUM_NODES");
    const char *local = getenv("GRADSUM_LOCAL_RANK");
    r->address = getenv("GRADSUM_ADDRESS");
    r->interface = getenv("GRADSUM_INTERFACE");
    if (!r->transport) r->transport = getenv("GRADSUM_TRANSPORT");
    if (nodes) GS_TRY(whole_number("GRADSUM_NODES", nodes, 1, PROCESSES, &r->nodes));
    if (local) GS_TRY(whole_number("GRADSUM_LOCAL_RANK", local, 0, PROCESSES, &r->local_rank));
    r->own_cpus = own && strcmp(own, "1") == 0;
    return GS_OK;
}

gs_status gs_rendezvous_from_environment(gs_rendezvous *r) {
    const char *rank = getenv("GRADSUM_RANK"), *size = getenv("GRADSUM_WORLD_SIZE");
    const char *place = getenv("GRADSUM_RENDEZVOUS");
    *r = (gs_rendezvous){.rank = 0, .size = 1, .timeout = GS_TIMEOUT, .local_rank = -1};
    GS_TRY(take_timeout(r));
    if (!rank && !size) {
        GS_TRY(look_for_engine(r));
        if (r->engine) {
            GS_TRY(take_rest(r));
            const bool by_mpi = r->transport && strcmp(r->transport, "mpi") == 0;
            return place && r->size > 1 && !by_mpi ? take_place(r, place) : GS_OK;
        }
        if (!place) return GS_OK;
    }
    if (!rank || !size || !place)
        return gs_fail(
            GS_E_USAGE,
            "%s is not set; set all of GRADSUM_RANK, GRADSUM_WORLD_SIZE and GRADSUM_RENDEZVOUS, or none",
            !rank   ? "GRADSUM_RANK"
            : !size ? "GRADSUM_WORLD_SIZE"
                    : "GRADSUM_RENDEZVOUS");
    GS_TRY(whole_number("GRADSUM_WORLD_SIZE", size, 1, PROCESSES, &r->size));
    GS_TRY(whole_number("GRADSUM_RANK", rank, 0, r->size - 1, &r->rank));
    GS_TRY(take_rest(r));
    return take_place(r, place);
}
