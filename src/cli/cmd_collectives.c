/* gradsum collectives: runs and checks all collectives, printing the table of their times as it goes.
 *
 * The ranks are threads of this process. Each has one comm per transport: one between threads and, as for processes,
 * one in shared memory and one over Gloo at 127.0.0.1. Under mpirun the ranks are its processes, each with an MPI comm.
 */
#include "cli/cli.h"
#include "comm/call_check.h"
#include "comm/ranks.h"
#include "core/clock.h"
#include "core/usable.h"
#include "io/json.h"

#include <stdlib.h>
#include <unistd.h>

enum { GS_TABLE_RANKS = 64, GS_TABLE_TRANSPORTS = 3, GS_TABLE_RUNS = 20 };

/* One rank's result for a cell. */
typedef struct gs_outcome {
    gs_error error;
    double seconds;
} gs_outcome;

typedef struct gs_table {
    const char *const *transports; /* the first one's comm also carries the outcomes the ranks exchange */
    int transport_count;
    gs_rendezvous mpirun; /* size > 1: the ranks are mpirun's processes, including this one */
    int ranks;
    uint64_t size; /* bytes */
    gs_link link;
    bool json;
    bool bind;      /* bind each rank to its own CPUs */
    int runs;       /* minimum number of runs per cell */
    double seconds; /* repeat runs until they take this long in total; ignored with a link */
    int cells, wrong;
    char folder[300]; /* the folder where Gloo's ranks meet */
    gs_outcome outcome[GS_TABLE_RANKS];
} gs_table;

/* ---- output ---- */

/* True if a call's count is that of one rank's part, not of the whole array. */
static bool has_parts(gs_operation operation) {
    return operation == GS_ALL_GATHER || operation == GS_GATHER || operation == GS_SCATTER ||
           operation == GS_ALL_TO_ALL;
}

/* The array that an operation moves or reduces is --size bytes of f32, but at least one f32 per rank. */
static gs_call call_of(const gs_table *t, gs_operation operation, int number) {
    size_t whole = (size_t)t->size / 4, part = whole / (size_t)t->ranks;
    bool parts = has_parts(operation);
    size_t count = operation == GS_BARRIER ? 0 : parts ? part : whole;
    int root = 0;
    if (operation == GS_SEND) root = (number + 1) % t->ranks;
    if (operation == GS_RECV) root = (number + t->ranks - 1) % t->ranks;
    return (gs_call){operation, parts && count == 0 ? 1 : count, GS_F32, GS_SUM, root};
}

static void print_time(double seconds, char text[16]) {
    double us = seconds * 1e6;
    if (us < 9995)
        snprintf(text, 16, "%.*f us", us < 99.95 ? 1 : 0, us);
    else
        snprintf(text, 16, "%.*f ms", us < 99950 ? 1 : 0, us / 1e3);
}

static double gb_per_s(const gs_table *t, gs_operation operation, double seconds) {
    gs_call call = call_of(t, operation, 0);
    return 4e-9 * (double)call.count * (has_parts(operation) ? t->ranks : 1) / seconds;
}

static void print_head(const gs_table *t) {
    char link[80];
    printf("%d rank%s, arrays of %s bytes; best of %d run%s or more, GB/s of the array\n", t->ranks,
           gs_s(t->ranks), gs_thousands((double)t->size), t->runs, gs_s(t->runs));
    if (gs_link_is_there(&t->link))
        printf("a message takes %s; all collectives are made of messages\n",
               gs_link_text(&t->link, link, sizeof link));
    if (t->bind) printf("each rank is bound to its own CPUs, but not over gloo (--bind none undoes it)\n");
    printf("\n%-14s", "");
    for (int i = 0; i < t->transport_count; i++) printf(" %15s", t->transports[i]);
    printf("\n");
}

static void print_json_cell(const gs_table *t, gs_operation operation, int transport, bool right) {
    const gs_outcome *o = &t->outcome[0];
    char link[80];
    cJSON *json = GS_JSON_OBJECT(GS_FIELD("operation", gs_operation_name(operation)),
                                 GS_FIELD("transport", t->transports[transport]), GS_FIELD("ranks", t->ranks),
                                 GS_FIELD("right", right), GS_FIELD("seconds", o->seconds));
    if (operation != GS_BARRIER)
        cJSON_AddNumberToObject(json, "gb_per_s", gb_per_s(t, operation, o->seconds));
    if (gs_link_is_there(&t->link))
        cJSON_AddStringToObject(json, "link", gs_link_text(&t->link, link, sizeof link));
    gs_json_print(json);
}

static void print_cell(gs_table *t, gs_operation operation, int transport) {
    const gs_outcome *wrong = NULL;
    for (int r = t->ranks - 1; r >= 0; r--)
        if (t->outcome[r].error.status != GS_OK) wrong = &t->outcome[r];
    t->cells++;
    t->wrong += wrong != NULL;
    char time[16];
    print_time(t->outcome[0].seconds, time);
    if (t->json)
        print_json_cell(t, operation, transport, !wrong);
    else if (wrong)
        printf(" %15s", "WRONG");
    else if (operation == GS_BARRIER) /* avoid trailing blanks */
        printf("%*s %8s", transport > 0 ? 7 : 0, "", time);
    else
        printf(" %8s %6.2f", time, gb_per_s(t, operation, t->outcome[0].seconds));
    fflush(stdout);
    if (wrong)
        fprintf(stderr, "%sgradsum collectives: %s: %s\n", t->json ? "" : "\n", t->transports[transport],
                wrong->error.message);
}

enum { FIRST = 0, SHM = 1, GLOO = 2 };
static const char *const between_threads[] = {"threads", "shm", "gloo"};
static const char *const between_processes[] = {"mpi"};

typedef struct rank {
    gs_table *t;
    int number;
    gs_comm *comm[GS_TABLE_TRANSPORTS];
    unsigned char *in, *out;
    cpu_set_t all, own; /* the CPUs of the process, and this rank's share of them */
    bool bind;          /* bind the rank to its share, if the transport allows it */
} rank;

/* ---- one cell, on one rank ---- */

/* Fill the arrays, wait for all ranks, and make the call. For GS_SEND and GS_RECV, each rank sends to the next rank and
 * receives from the previous one; *seconds: the time of the send (GS_SEND) or of send and receive (GS_RECV). */
static gs_status run_once(rank *r, int transport, gs_operation operation, double *seconds) {
    gs_table *t = r->t;
    gs_comm *c = r->comm[transport];
    bool message = operation == GS_SEND || operation == GS_RECV;
    gs_call send = call_of(t, GS_SEND, r->number),
            call = call_of(t, message ? GS_RECV : operation, r->number);
    if (message) gs_call_fill(&send, r->number, t->ranks, r->in, NULL);
    gs_call_fill(&call, r->number, t->ranks, r->in, r->out);
    double start;
    GS_TRY(gs_ranks_begin(c, &t->link, &start));
    if (operation == GS_SEND) start = gs_seconds(); /* exclude the time until this rank woke up */
    if (message) GS_TRY(gs_call_run(c, &send, r->in, r->out));
    if (operation == GS_SEND) *seconds = gs_seconds() - start;
    GS_TRY(gs_call_run(c, &call, r->in, r->out));
    if (operation != GS_SEND) *seconds = gs_seconds() - start;
    return GS_OK;
}

/* The system may take some milliseconds to give each waiting rank its own core, so short calls are repeated for a
 * while. All ranks know the same times, so all do the same number of runs. */
static bool is_enough(const gs_table *t, int run, double spent) {
    enum { MOST = 200 };
    return run > t->runs && (spent > t->seconds || run > MOST || gs_link_is_there(&t->link));
}

/* GS_E_FORMAT: a result is wrong. Any other failure ends the table. */
static gs_status run_cell(rank *r, int transport, gs_operation operation) {
    gs_table *t = r->t;
    /* Gloo's threads, started earlier, keep all CPUs. */
    if (r->bind) gs_cores_bind(gs_cores_may_bind(t->transports[transport]) ? &r->own : &r->all);
    gs_outcome *mine = &t->outcome[r->number];
    gs_call call = call_of(t, operation == GS_SEND ? GS_RECV : operation, r->number);
    mine->error.status = GS_OK;
    mine->seconds = 1e30;
    gs_comm *first = r->comm[FIRST];
    double spent = 0;
    for (int run = 0; !is_enough(t, run, spent); run++) {
        double seconds, all[GS_TABLE_RANKS];
        GS_TRY(run_once(r, transport, operation, &seconds));
        GS_TRY(gs_comm_all_gather(first, &seconds, all, 1, GS_F64));
        for (int i = 0; i < t->ranks; i++)
            if (all[i] > seconds) seconds = all[i]; /* the call ends when the last rank is done */
        spent += seconds;
        if (run > 0 && seconds < mine->seconds) mine->seconds = seconds; /* the first run warms up */
        if (mine->error.status != GS_OK) continue;
        gs_error_keep(&mine->error, gs_call_verify(&call, r->number, t->ranks, r->in, r->out));
    }
    if (t->mpirun.size > 1) { /* threads share memory; processes send their outcomes to rank 0 */
        GS_TRY(gs_comm_gather(first, mine, t->outcome, sizeof *mine, GS_U8, 0));
        for (int i = 0; i < t->ranks; i++)
            t->outcome[i].error.message[sizeof mine->error.message - 1] =
                '\0'; /* a message from another process may lack the terminating 0 */
    }
    return gs_comm_barrier(first);
}

/* ---- the ranks ---- */

static gs_status meet(rank *r) {
    const gs_table *t = r->t;
    gs_rendezvous rendezvous = {
        .rank = r->number, .size = t->ranks, .directory = t->folder, .timeout = GS_TIMEOUT};
    char why[256];
    GS_TRY(gs_comm_gloo_create(&rendezvous, &r->comm[GLOO]));
    GS_TRY(gs_comm_shm_create(r->comm[GLOO], &r->comm[SHM], why, sizeof why));
    return r->comm[SHM] ? GS_OK : gs_fail(GS_E_DEVICE, "no memory can be shared here: %s", why);
}

static gs_status open_rank(rank *r) {
    gs_table *t = r->t;
    size_t bytes = ((size_t)t->size / 4 + (size_t)t->ranks) * 4;
    if (t->mpirun.size > 1) {
        GS_TRY(gs_comm_processes_create(&t->mpirun, &r->comm[FIRST]));
        GS_TRY(gs_comm_agree(r->comm[FIRST], &t->link));
    }
    GS_TRY(GS_NEW(r->in, bytes, "an array of %zu bytes for each of %d ranks", bytes, t->ranks));
    GS_TRY(GS_NEW(r->out, bytes, "two arrays of %zu bytes for each of %d ranks", bytes, t->ranks));
    GS_TRY(gs_comm_barrier(r->comm[FIRST])); /* all ranks have allocated their memory */
    if (t->mpirun.size <= 1) GS_TRY(meet(r));
    for (int i = 0; i < t->transport_count; i++)
        GS_TRY(gs_comm_linked_create(r->comm[i], &t->link, &r->comm[i]));
    return GS_OK;
}

static gs_status run_row(rank *r, gs_operation operation) {
    gs_table *t = r->t;
    if (r->number == 0 && !t->json) printf("%-14s", gs_operation_name(operation));
    for (int transport = 0; transport < t->transport_count; transport++) {
        GS_TRY(run_cell(r, transport, operation));
        if (r->number == 0) print_cell(t, operation, transport);
        GS_TRY(gs_comm_barrier(r->comm[FIRST]));
    }
    if (r->number == 0 && !t->json) printf("\n");
    return GS_OK;
}

static gs_status run_table(rank *r) {
    gs_table *t = r->t;
    if (r->number == 0 && !t->json) print_head(t);
    for (int o = t->ranks == 1 ? GS_BROADCAST : GS_SEND; o <= GS_BARRIER; o++) /* one rank has no peer */
        GS_TRY(run_row(r, (gs_operation)o));
    return GS_OK;
}

static gs_status run_rank(void *context, int number, gs_comm **thread) {
    rank r = {.t = context, .number = number, .comm = {*thread}};
    gs_table *t = r.t;
    gs_error error = {0};
    gs_status status = open_rank(&r);
    r.bind = t->bind && sched_getaffinity(0, sizeof r.all, &r.all) == 0 &&
             gs_cores_share(number, t->ranks, &r.own);
    if (status == GS_OK) status = run_table(&r);
    gs_error_keep(&error, status);
    for (int i = 0; i < t->transport_count && status != GS_OK; i++)
        if (r.comm[i]) gs_comm_abort(r.comm[i], error.message);
    for (int i = t->transport_count - 1; i > FIRST; i--) gs_comm_free(r.comm[i]);
    *thread = r.comm[FIRST];
    free(r.in);
    free(r.out);
    return gs_error_again(&error);
}

static gs_status run_in_folder(gs_table *t) {
    GS_TRY(gs_temporary_folder("gradsum-collectives-XXXXXX", t->folder, sizeof t->folder));
    gs_status status = gs_ranks_run(t->ranks, GS_TIMEOUT, run_rank, t);
    rmdir(t->folder); /* if all ranks arrived, the last one has already removed it */
    return status;
}

/* Decide whether the ranks are threads or mpirun's processes. n: the value of -n; 0: not given. */
static gs_status find_ranks(gs_table *t, int n) {
    GS_TRY(gs_rendezvous_from_environment(&t->mpirun));
    if (t->mpirun.directory)
        t->mpirun = (gs_rendezvous){.size = 1}; /* each process started by hand prints its own table */
    bool mpirun = t->mpirun.size > 1;
    if (mpirun && n > 0 && n != t->mpirun.size)
        return gs_fail(GS_E_USAGE, "-n %d, but mpirun started %d processes, which are the ranks", n,
                       t->mpirun.size);
    if (mpirun && t->mpirun.size > GS_TABLE_RANKS)
        return gs_fail(GS_E_USAGE, "mpirun started %d processes; wanted at most %d", t->mpirun.size,
                       GS_TABLE_RANKS);
    t->ranks = mpirun ? t->mpirun.size : n > 0 ? n : 4;
    t->mpirun.timeout = GS_TIMEOUT;
    t->transports = mpirun ? between_processes : between_threads;
    t->transport_count = mpirun ? 1 : GS_TABLE_TRANSPORTS;
    return GS_OK;
}

int gs_cmd_collectives(int argc, char **argv) {
    static gs_table t;
    int n = 0;
    t = (gs_table){.size = 1 << 20, .bind = true, .seconds = 20e-3};
    int exit_status;
    const gs_option options[] = {
        {"n", GS_OPTION_INT, &n, 1, GS_TABLE_RANKS, "RANKS", "number of ranks (default 4)"},
        {"size", GS_OPTION_COUNT, &t.size, 4, 1e9, "BYTES", "size of the array that is moved or reduced"},
        {"seconds", GS_OPTION_DOUBLE, &t.seconds, 0, 60, "S",
         "how long a short call is repeated, without --link"},
        {"link", GS_OPTION_LINK, &t.link, 0, 0, "LATENCY,BANDWIDTH", GS_LINK_HELP},
        {"bind", GS_OPTION_BIND, &t.bind, 0, 0, "WHAT", GS_BIND_HELP_RANKS},
        {"json", GS_OPTION_FLAG, &t.json, 0, 0, NULL, "one JSON object per cell"},
        {0},
    };
    const gs_help help = {"collectives [-n RANKS] [--size BYTES] [--link L,B] [--json]",
                          "Run every collective between threads of one process (threads), and in the two\n"
                          "ways that processes use: shared memory (shm) and Gloo over 127.0.0.1 (gloo).\n"
                          "Every element of every result is compared with a value computed in another\n"
                          "way, and each cell shows its time and bandwidth. Exit 1 if any cell is wrong.\n"
                          "Under mpirun the ranks are its processes, which talk over MPI (mpi).",
                          "gradsum collectives -n 4 --size 65536", NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    gs_status status = find_ranks(&t, n);
    if (status != GS_OK) return gs_exit_status("collectives", status);
    t.bind = t.bind && t.mpirun.size <= 1 && t.ranks > 1 && t.ranks <= gs_cpu_cores();
    t.runs = t.size <= 65536 ? GS_TABLE_RUNS : t.size <= 4194304 ? 5 : 2;
    if (gs_link_is_there(&t.link) || t.seconds == 0) t.runs = 2; /* with a link nearly all time is sleep */
    gs_comm *own = NULL;
    status = t.mpirun.size > 1 ? run_rank(&t, t.mpirun.rank, &own) : run_in_folder(&t);
    gs_comm_free(own);
    if (status != GS_OK) return gs_exit_status("collectives", status);
    if (!t.json && t.mpirun.rank == 0 && t.wrong == 0)
        printf("\nAll %d cells are right: every element was checked after every run.\n", t.cells);
    fflush(stdout); /* print the end of the table before the message */
    if (t.wrong > 0)
        gs_tell("collectives", "%d of %d cells %s wrong", t.wrong, t.cells, t.wrong == 1 ? "is" : "are");
    return t.wrong == 0 ? GS_EXIT_OK : GS_EXIT_FAILED;
}
