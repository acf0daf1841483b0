/* gradsum schemes: the time of one sum, for every scheme and several sizes. In small sums the cost per message
 * dominates, so schemes with few rounds win; in large sums the cost per byte dominates, so schemes with few bytes win.
 *
 * The ranks are threads of this process. They exchange data in their own memory or, as separate processes do, in a
 * segment of shared memory or over Gloo's connections at 127.0.0.1. The schemes take turns, so that other load on the
 * machine affects them all; each figure is the median. With --link each figure is the minimum: a message over a link
 * spends nearly all its time asleep, which other load can only lengthen.
 */
#include "cli/cli.h"
#include "comm/ranks.h"
#include "io/json.h"

#include <stdlib.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/usable.h"
#include "core/median.h"

enum { MOST_RANKS = 16, MOST_SCHEMES = 16, SIZES = 5, TURNS = 7, TURNS_LINKED = 3 };
static const size_t sizes[SIZES] = {256, 4096, 65536, 1 << 19, 1 << 22}; /* floats */
static const char *const size_names[SIZES] = {"1 KB", "16 KB", "256 KB", "2 MB", "16 MB"};

typedef struct table {
    int ranks;
    const char *over;
    gs_link link;
    bool json, bind;
    double seconds_all; /* about how long all measurements take together */
    char folder[300];   /* where Gloo's ranks meet */
    const gs_sync_scheme *scheme[MOST_SCHEMES];
    int schemes;
    double seconds[SIZES][MOST_SCHEMES]; /* written only by rank 0 */
    gs_activity work;
} table;

typedef struct rank {
    table *t;
    gs_comm *comm;
    gs_sync *sync; /* shared by all schemes, so that its 16 MB for incoming data exist only once */
    float *data;
} rank;

/* "256 KB (3 of 5 sizes), turn 2 of 7: ring": shown before a turn's sums, so as not to disturb them. */
static void show(table *t, int size, int turn, int turns, int scheme) {
    if (!t->json)
        gs_show_activity(&t->work, (size + (double)turn / turns) / SIZES,
                         "%s (%d of %d sizes), turn %d of %d: %s", size_names[size], size + 1, SIZES,
                         turn + 1, turns, t->scheme[scheme]->name);
}

/* Seconds per call: the mean of `calls` calls, from the first rank's start to the last rank's end. */
static gs_status turn(rank *r, int scheme, size_t count, int calls, double *seconds) {
    r->sync->scheme = r->t->scheme[scheme];
    double start;
    GS_TRY(gs_ranks_begin(r->comm, &r->t->link, &start));
    for (int i = 0; i < calls; i++) GS_TRY(gs_sync_run(r->sync, r->data, count));
    double latest[2] = {gs_seconds(), -start};
    GS_TRY(gs_comm_all_reduce(r->comm, latest, 2, GS_F64, GS_MAX));
    *seconds = (latest[0] + latest[1]) / calls;
    return GS_OK;
}

/* Choose enough calls for a turn to take its share of the time. Over links each turn is a single call: a second call
 * right after the first would already use the free links while others still carry the first call's data. */
static gs_status count_calls(rank *r, int scheme, size_t count, int *calls) {
    const table *t = r->t;
    double once, each = t->seconds_all / (SIZES * TURNS * t->schemes);
    *calls = 1;
    if (gs_link_is_there(&t->link)) return GS_OK;
    GS_TRY(turn(r, scheme, count, 2, &once));
    double wanted = each / (once > 1e-7 ? once : 1e-7);
    *calls = wanted > 2000 ? 2000 : (int)wanted + 1;
    return GS_OK;
}

/* Rank r contributes the whole numbers r + 1 to r + 7, whose sums are exact in any order. */
static gs_status check(rank *r, int scheme, size_t count) {
    r->sync->scheme = r->t->scheme[scheme];
    int n = r->comm->size, ranks = n * (n + 1) / 2;
    for (size_t i = 0; i < count; i++) r->data[i] = (float)(r->comm->rank + 1 + (int)(i % 7));
    GS_TRY(gs_sync_run(r->sync, r->data, count));
    for (size_t i = 0; i < count; i++) {
        float sum = (float)(ranks + n * (int)(i % 7));
        if (r->data[i] != sum)
            return gs_fail(GS_E_SHAPE, "%s of %zu floats: element %zu is %g on rank %d, wanted %g",
                           r->sync->scheme->name, count, i, r->data[i], r->comm->rank, sum);
    }
    memset(r->data, 0, count * sizeof *r->data); /* zeros stay 0 however often they are summed */
    return GS_OK;
}

static gs_status measure(rank *r, int size) {
    table *t = r->t;
    double seconds[MOST_SCHEMES][TURNS];
    int calls[MOST_SCHEMES];
    int turns = t->seconds_all == 0 ? 1 : gs_link_is_there(&t->link) ? TURNS_LINKED : TURNS;
    for (int i = 0; i < t->schemes; i++) {
        GS_TRY(check(r, i, sizes[size]));
        GS_TRY(count_calls(r, i, sizes[size], &calls[i]));
    }
    for (int k = 0; k < turns; k++)
        for (int i = 0; i < t->schemes; i++) {
            if (r->comm->rank == 0) show(t, size, k, turns, i);
            GS_TRY(turn(r, i, sizes[size], calls[i], &seconds[i][k]));
        }
    for (int i = 0; i < t->schemes && r->comm->rank == 0; i++) {
        gs_sort_doubles(seconds[i], turns);
        t->seconds[size][i] = seconds[i][gs_link_is_there(&t->link) ? 0 : turns / 2];
    }
    return GS_OK;
}

/* ---- the ranks ---- */

/* Connect this rank to the others; called once per rank, in its own thread. */
static gs_status connect(rank *r, int number) {
    const table *t = r->t;
    gs_rendezvous rendezvous = {.rank = number,
                                .size = t->ranks,
                                .directory = t->folder,
                                .timeout = GS_TIMEOUT,
                                .transport = t->over};
    if (strcmp(t->over, "threads") != 0) {
        gs_comm_free(r->comm); /* the comm between threads */
        r->comm = NULL;
        GS_TRY(gs_comm_processes_create(&rendezvous, &r->comm)); /* connect as processes do */
    }
    return gs_comm_linked_create(r->comm, &t->link, &r->comm);
}

/* Block or unblock Ctrl-C and similar signals for this thread; how: SIG_BLOCK or SIG_UNBLOCK. */
static void signals(int how) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(how, &set, NULL);
}

static gs_status measure_all(rank *r, int number) {
    const table *t = r->t;
    GS_TRY(connect(r, number));
    GS_TRY(gs_comm_barrier(r->comm));
    signals(SIG_UNBLOCK); /* only now that the folder has been removed */
    if (t->bind) gs_cores_bind_share(number, t->ranks);
    GS_TRY(GS_NEW(r->data, sizes[SIZES - 1], "%zu floats", sizes[SIZES - 1]));
    GS_TRY(gs_sync_create(t->scheme[0], r->comm, sizes[SIZES - 1], &r->sync));
    for (int size = 0; size < SIZES; size++) GS_TRY(measure(r, size));
    return GS_OK;
}

static gs_status run_rank(void *context, int number, gs_comm **comm) {
    rank r = {.t = context, .comm = *comm};
    gs_status status = measure_all(&r, number);
    *comm = r.comm;
    gs_sync_free(r.sync);
    free(r.data);
    return status;
}

static void print_text(const table *t) {
    char link[80];
    printf("%d ranks over %s; microseconds per sum; *: the fastest except allreduce\n", t->ranks, t->over);
    if (gs_link_is_there(&t->link)) printf("a message takes %s\n", gs_link_text(&t->link, link, sizeof link));
    if (t->bind) printf("each rank is bound to its own CPUs (--bind none undoes it)\n");
    printf("\n%-20s", "");
    for (int k = 0; k < SIZES; k++) printf("%10s%s", size_names[k], k + 1 < SIZES ? " " : "\n");
    for (int i = 0; i < t->schemes; i++) {
        printf("%-20s", t->scheme[i]->name);
        for (int k = 0; k < SIZES; k++) {
            bool fastest = i > 0;
            for (int j = 1; j < t->schemes; j++) fastest = fastest && t->seconds[k][i] <= t->seconds[k][j];
            double us = 1e6 * t->seconds[k][i];
            printf("%*.*f%s", 10, us < 100 ? 1 : 0, us, fastest ? "*" : k + 1 < SIZES ? " " : "");
        }
        printf("\n");
    }
}

static void print_json(const table *t) {
    char link[80];
    for (int i = 0; i < t->schemes; i++)
        for (int k = 0; k < SIZES; k++) {
            cJSON *o =
                GS_JSON_OBJECT(GS_FIELD("scheme", t->scheme[i]->name), GS_FIELD("over", t->over),
                               GS_FIELD("ranks", t->ranks), GS_FIELD("bytes", (sizes[k] * sizeof(float))),
                               GS_FIELD("seconds", t->seconds[k][i]));
            if (gs_link_is_there(&t->link))
                cJSON_AddStringToObject(o, "link", gs_link_text(&t->link, link, sizeof link));
            gs_json_print(o);
        }
}

static gs_status run(table *t) {
    static const char *const names[] = {"threads", "shm", "gloo", NULL};
    int over = 0;
    while (names[over] && strcmp(names[over], t->over) != 0) over++;
    if (!names[over]) return gs_no_such("--over", t->over, names);
    t->bind = t->bind && t->ranks <= gs_cpu_cores() && gs_cores_may_bind(t->over);
    for (const gs_sync_scheme *const *s = gs_sync_schemes(); *s; s++)
        if (*s == &gs_sync_allreduce || (*s)->cost)
            t->scheme[t->schemes++] = *s; /* each scheme once, not again under another name */
    signals(SIG_BLOCK);
    bool meets = strcmp(t->over, "threads") != 0;
    gs_status status =
        meets ? gs_temporary_folder("gradsum-schemes-XXXXXX", t->folder, sizeof t->folder) : GS_OK;
    if (status == GS_OK) {
        status = gs_ranks_run(t->ranks, GS_TIMEOUT, run_rank, t);
        if (meets) rmdir(t->folder); /* if all ranks met there, the last one has already removed it */
    }
    signals(SIG_UNBLOCK);
    return status;
}

int gs_cmd_schemes(int argc, char **argv) {
    static table t;
    int exit_status;
    t = (table){.ranks = 4, .over = "threads", .seconds_all = 5, .bind = true};
    const gs_option options[] = {
        {"n", GS_OPTION_INT, &t.ranks, 2, MOST_RANKS, "RANKS", "number of ranks"},
        {"over", GS_OPTION_TEXT, &t.over, 0, 0, "NAME", "threads; as processes: shm, gloo (over 127.0.0.1)"},
        {"link", GS_OPTION_LINK, &t.link, 0, 0, "LATENCY,BANDWIDTH", GS_LINK_HELP},
        {"bind", GS_OPTION_BIND, &t.bind, 0, 0, "WHAT", GS_BIND_HELP_RANKS},
        {"seconds", GS_OPTION_DOUBLE, &t.seconds_all, 0, 3600, "S",
         "about how long to measure, without --link"},
        {"json", GS_OPTION_FLAG, &t.json, 0, 0, NULL, "one JSON object per figure"},
        {0},
    };
    const gs_help help = {"schemes [-n RANKS] [--over NAME] [--link L,B] [--json]",
                          "Time one sum with every scheme of --sync, for arrays of 1 KB to 16 MB. The ranks\n"
                          "are threads of this program; the first sum of each kind is checked. Each scheme\n"
                          "has its formulas in its file in src/sync/.",
                          "gradsum schemes -n 4 --over gloo", NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    gs_status status = run(&t);
    gs_show_activity(NULL, 0, NULL);
    if (status != GS_OK) return gs_exit_status("schemes", status);
    t.json ? print_json(&t) : print_text(&t);
    return GS_EXIT_OK;
}
