/* Who this process is and how it meets the others, as `gradsum launch`, the user, or another program that starts
 * processes has put it into the environment. */
#include "comm/meet/store.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESSES = 4096 /* at most */, PORTS = 16 /* of which a store takes the first that is free */ };

/* ---- other programs that start processes ----
 *
 * A new one is a row in the table, and a function if it says where the processes meet.
 */

/* A whole number of the variable `name`, in its range. GS_E_USAGE: it is none. */
static gs_status whole_number(const char *name, const char *text, int least, int most, int *out) {
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
    if (text) (void)whole_number(name, text, least, most, &otherwise);
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
    r->ports = PORTS;
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
    int port = 0, each = number_or("LOCAL_WORLD_SIZE", 1, PROCESSES, 0);
    GS_TRY(whole_number("MASTER_PORT", text_of("MASTER_PORT"), 1, 65535, &port));
    if (strlen(host) > 200 || !*host)
        return gs_fail(GS_E_USAGE, "MASTER_ADDR is '%.100s'; it must be the name or address of a host", host);
    r->nodes = number_or("GROUP_WORLD_SIZE", 1, PROCESSES, each == r->size ? 1 : 0);
    snprintf(r->run, sizeof r->run, "torchrun %.60s %d, start %d", run ? run : "", port,
             number_or("TORCHELASTIC_RESTART_COUNT", 0, 1 << 30, 0));
    meet_at(r, host, port + PORTS < 65536 ? port + 1 : port - PORTS);
    return GS_OK;
}

/* ---- Slurm's srun ---- */

/* The first host in a list of Slurm's: "node[07-09,12],gpu1" -> "node07". False: there is none, or it is too long. */
static bool first_host(const char *list, char *host, size_t size) {
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
    if (!first_host(nodes, host, sizeof host))
        return gs_fail(GS_E_USAGE, "SLURM_STEP_NODELIST is '%.100s'; it must begin with the name of a host",
                       nodes);
    r->nodes = number_or("SLURM_STEP_NUM_NODES", 1, PROCESSES, number_or("SLURM_NNODES", 1, PROCESSES, 0));
    snprintf(r->run, sizeof r->run, "Slurm %d.%d", job, step);
    meet_at(r, host, 20000 + (int)(((long long)job * 97 + (long long)step * PORTS) % 10000));
    return GS_OK;
}

/* ---- the table ---- */

/* mpirun and torchrun come before Slurm, in whose jobs they run. All but the name are variables. */
typedef struct engine {
    const char *name, *rank, *size, *local, *needs[3];
    gs_status (*take)(gs_rendezvous *); /* where the ranks meet; NULL: only GRADSUM_RENDEZVOUS says that */
} engine;

static const engine engines[] = {
    {"Open MPI",
     "OMPI_COMM_WORLD_RANK",
     "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     {NULL},
     from_mpirun},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", {"MASTER_ADDR", "MASTER_PORT"}, from_torchrun},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", {NULL}, NULL}, /* and Intel MPI, MVAPICH, Flux */
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", {"SLURM_STEP_NODELIST"}, from_slurm},
};

static int rank_in(const engine *e) {
    return number_or(e->rank, 0, 1 << 30, -1);
}

static int size_in(const engine *e) {
    return number_or(e->size, 1, 1 << 30, -1);
}

/* The first of its variables that is not set, NULL: all are. */
static const char *missing_of(const engine *e) {
    const char *missing = !getenv(e->size) ? e->size : NULL;
    if (!getenv(e->rank)) missing = e->rank;
    for (const char *const *v = e->needs; *v && !missing; v++)
        if (!getenv(*v)) missing = *v;
    return missing;
}

static bool has_both(const engine *e) {
    return getenv(e->rank) && getenv(e->size);
}

/* Certainly one of several processes. */
static bool is_one_of_several(const engine *e) {
    return size_in(e) > 1 || (size_in(e) < 0 && (rank_in(e) > 0 || (rank_in(e) == 0 && has_both(e))));
}

static gs_status take(const engine *e, gs_rendezvous *r) {
    r->engine = e->name;
    GS_TRY(whole_number(e->size, text_of(e->size), 1, PROCESSES, &r->size));
    GS_TRY(whole_number(e->rank, text_of(e->rank), 0, r->size - 1, &r->rank));
    r->local = number_or(e->local, 0, PROCESSES, -1);
    return e->take && !missing_of(e) ? e->take(r) : GS_OK;
}

/* Processes that each train alone would all write the same files. */
static gs_status refuse(const engine *e) {
    const char *missing = missing_of(e), *one = getenv(e->rank) ? e->rank : e->size;
    char set[200];
    int size = 1 << 30, rank = 0;
    if (getenv(e->size)) GS_TRY(whole_number(e->size, text_of(e->size), 1, PROCESSES, &size));
    if (getenv(e->rank)) GS_TRY(whole_number(e->rank, text_of(e->rank), 0, size - 1, &rank));
    if (has_both(e))
        snprintf(set, sizeof set, "%s is %d and %s is %d, as %s sets them", e->rank, rank, e->size, size,
                 e->name);
    else
        snprintf(set, sizeof set, "%s is %.20s, as %s sets it", one, text_of(one), e->name);
    return gs_fail(
        GS_E_USAGE,
        "%s, but %s%s: set %sGRADSUM_RENDEZVOUS=tcp://HOST:PORT for all, HOST being rank 0's, or use "
        "gradsum launch; to train alone, unset %s",
        set, missing ? missing : "nothing says where they meet", missing ? " is not set" : "",
        has_both(e) ? "" : "GRADSUM_RANK, GRADSUM_WORLD_SIZE and ", one);
}

/* Fill in rank, size, and how to meet, if one of them has started this process; else nothing changes. GS_E_USAGE: its
 * variables make no sense, or this is one of several processes and neither they nor GRADSUM_RENDEZVOUS say where these
 * meet. */
static gs_status look_for_engine(gs_rendezvous *r) {
    const engine *half = NULL;
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        const engine *e = &engines[i];
        /* MPICH starts its processes from one process of Slurm's on each node, whose rank is not theirs. */
        const bool other =
            half && !half->take && (rank_in(half) != rank_in(e) || size_in(half) != size_in(e));
        if (e->take && !missing_of(e) && !other) return take(e, r);
        if (!(half && has_both(half)) && is_one_of_several(e)) half = e;
    }
    if (!half) return GS_OK;
    return has_both(half) && getenv("GRADSUM_RENDEZVOUS") ? take(half, r) : refuse(half);
}

/* ---- what gradsum itself says ---- */

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
    gs_meet_place place;
    if (*text == '\0')
        return gs_fail(GS_E_USAGE,
                       "GRADSUM_RENDEZVOUS is empty; it must name a folder or a store (tcp://HOST:PORT)");
    r->meet[0] = '\0';
    r->hosts = false;
    r->ports = 1;
    r->directory = strncmp(text, "file:", 5) == 0 ? text + 5 : text;
    if (gs_meet_is_folder(text)) return GS_OK;
    r->directory = NULL;
    GS_TRY(gs_context(gs_meet_place_read(text, &place), "GRADSUM_RENDEZVOUS"));
    if (place.port == 0 || strlen(text) >= sizeof r->meet)
        return gs_fail(GS_E_USAGE, "GRADSUM_RENDEZVOUS is '%.100s'; all processes must know the port", text);
    snprintf(r->meet, sizeof r->meet, "%s", text);
    r->hosts = r->rank == 0 && !getenv("GRADSUM_STORE"); /* else the launcher holds it */
    return GS_OK;
}

/* What holds for processes that gradsum itself knows how to call. */
static gs_status take_rest(gs_rendezvous *r) {
    const char *own = getenv("GRADSUM_OWN_CPUS"), *nodes = getenv("GRADSUM_NODES");
    const char *local = getenv("GRADSUM_LOCAL_RANK");
    r->address = getenv("GRADSUM_ADDRESS");
    r->interface = getenv("GRADSUM_INTERFACE");
    if (!r->transport) r->transport = getenv("GRADSUM_TRANSPORT");
    if (nodes) GS_TRY(whole_number("GRADSUM_NODES", nodes, 1, PROCESSES, &r->nodes));
    if (local) GS_TRY(whole_number("GRADSUM_LOCAL_RANK", local, 0, PROCESSES, &r->local));
    r->own_cpus = own && strcmp(own, "1") == 0;
    return GS_OK;
}

gs_status gs_rendezvous_from_environment(gs_rendezvous *r) {
    const char *rank = getenv("GRADSUM_RANK"), *size = getenv("GRADSUM_WORLD_SIZE");
    const char *place = getenv("GRADSUM_RENDEZVOUS");
    *r = (gs_rendezvous){.rank = 0, .size = 1, .timeout = GS_TIMEOUT, .local = -1};
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
        return gs_fail(GS_E_USAGE,
                       "%s is not set, but %s is; set all of GRADSUM_RANK, GRADSUM_WORLD_SIZE and "
                       "GRADSUM_RENDEZVOUS, or none",
                       !rank   ? "GRADSUM_RANK"
                       : !size ? "GRADSUM_WORLD_SIZE"
                               : "GRADSUM_RENDEZVOUS",
                       rank   ? "GRADSUM_RANK"
                       : size ? "GRADSUM_WORLD_SIZE"
                              : "GRADSUM_RENDEZVOUS");
    GS_TRY(whole_number("GRADSUM_WORLD_SIZE", size, 1, PROCESSES, &r->size));
    GS_TRY(whole_number("GRADSUM_RANK", rank, 0, r->size - 1, &r->rank));
    GS_TRY(take_rest(r));
    return take_place(r, place);
}
