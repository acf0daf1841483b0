/* The table of collectives, run and checked while it is printed.
 *
 * The ranks are threads of this process. Each has two comms, one over shared memory and one over Gloo and
 * 127.0.0.1, and its buffers once in the host's memory and once on an OpenCL device: four columns.
 */
#include "cli/cli.h"

#include <cjson/cJSON.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/clock.h"
#include "sync/call_check.h"
#include "sync/comm_device.h"

enum { MOST_RANKS = 64, COLUMNS = 4, MOST_RUNS = 20 };

static const struct {
    const char *transport, *buffers;
} columns[COLUMNS] = {{"threads", "cpu"}, {"gloo", "cpu"}, {"threads", "cl"}, {"gloo", "cl"}};

/* What one rank saw of one run of a cell. */
typedef struct outcome {
    gs_status status;
    char message[1024];
    double seconds;
} outcome;

typedef struct table {
    int ranks;
    uint64_t size; /* bytes */
    double timeout;
    const char *device; /* OpenCL's name for the last two columns */
    const char *spoil;  /* the operation whose results are made wrong; NULL: none */
    bool json, has_cl;
    int runs; /* of each cell */
    int cells, wrong;
    char folder[300]; /* where the ranks meet for Gloo */
    gs_comm *threads[MOST_RANKS];
    outcome outcome[MOST_RANKS];
    gs_status failed[MOST_RANKS]; /* why a rank could not begin or go on */
    char message[MOST_RANKS][1024];
} table;

typedef struct rank {
    table *t;
    int number;
    pthread_t thread;
    gs_comm *comm[2]; /* threads, gloo */
    gs_device *device[2];
    gs_mem in[2], out[2];
    unsigned char *host_in, *host_out;
} rank;

/* The array that an operation moves or reduces has --size bytes, of f32, at least one for each rank. */
static gs_call call_of(const table *t, gs_operation operation, int number) {
    size_t whole = (size_t)t->size / 4, part = whole / (size_t)t->ranks;
    bool parts = operation == GS_ALL_GATHER || operation == GS_GATHER || operation == GS_SCATTER ||
                 operation == GS_ALL_TO_ALL;
    size_t count = operation == GS_BARRIER ? 0 : parts ? part : whole;
    int root = 0;
    if (operation == GS_SEND) root = (number + 1) % t->ranks;
    if (operation == GS_RECV) root = (number + t->ranks - 1) % t->ranks;
    return (gs_call){operation, parts && count == 0 ? 1 : count, GS_F32, GS_SUM, root};
}

/* ---- one cell, on one rank ---- */

static gs_status run_call(rank *r, int column, const gs_call *call) {
    gs_comm *c = r->comm[column % 2];
    int kind = column / 2;
    if (kind == 0) return gs_call_run(c, call, r->host_in, r->host_out);
    return gs_call_run_on_device(c, r->device[kind], call, r->in[kind], r->out[kind]);
}

static gs_status to_device(rank *r, int column, gs_call_bytes bytes) {
    if (column < 2) return GS_OK;
    gs_device *d = r->device[1];
    GS_TRY(d->ops->write(d, r->in[1], r->host_in, bytes.in));
    GS_TRY(d->ops->write(d, r->out[1], r->host_out, bytes.out));
    return d->ops->finish(d);
}

static gs_status from_device(rank *r, int column, gs_call_bytes bytes) {
    if (column < 2) return GS_OK;
    gs_device *d = r->device[1];
    GS_TRY(d->ops->read(d, r->host_in, r->in[1], bytes.in));
    return d->ops->read(d, r->host_out, r->out[1], bytes.out);
}

/* Fill, bring to the device, wait for all, make the call, bring back. A message is sent to the next rank and
 * received from the last one: `seconds` is that of sending alone or of both. */
static gs_status run_once(rank *r, int column, gs_operation operation, double *seconds) {
    table *t = r->t;
    gs_comm *c = r->comm[column % 2];
    bool message = operation == GS_SEND || operation == GS_RECV;
    gs_call send = call_of(t, GS_SEND, r->number),
            call = call_of(t, message ? GS_RECV : operation, r->number);
    gs_call_bytes bytes = gs_call_bytes_of(&call, r->number, t->ranks);
    if (message) bytes.in = gs_call_bytes_of(&send, r->number, t->ranks).in;
    if (message) gs_call_fill(&send, r->number, t->ranks, r->host_in, NULL);
    gs_call_fill(&call, r->number, t->ranks, r->host_in, r->host_out);
    GS_TRY(to_device(r, column, bytes));
    GS_TRY(c->ops->barrier(c));
    double start = gs_seconds();
    if (message) GS_TRY(run_call(r, column, &send));
    if (operation == GS_SEND) *seconds = gs_seconds() - start;
    GS_TRY(run_call(r, column, &call));
    if (operation != GS_SEND) *seconds = gs_seconds() - start;
    GS_TRY(from_device(r, column, bytes));
    if (t->spoil && strcmp(t->spoil, gs_operation_name(operation)) == 0 && bytes.out > 0) r->host_out[0] ^= 1;
    return GS_OK;
}

/* GS_E_FORMAT: a result is wrong; other failures end the table. */
static gs_status run_cell(rank *r, int column, gs_operation operation) {
    table *t = r->t;
    outcome *mine = &t->outcome[r->number];
    gs_call call = call_of(t, operation == GS_SEND ? GS_RECV : operation, r->number);
    mine->status = GS_OK;
    mine->seconds = 1e30;
    gs_comm *threads = r->comm[0];
    for (int run = 0; run <= t->runs; run++) {
        double seconds, *all = calloc((size_t)t->ranks, sizeof *all);
        if (!all) return gs_fail(GS_E_MEMORY, "no memory for the times of %d ranks", t->ranks);
        gs_status status = run_once(r, column, operation, &seconds);
        if (status == GS_OK) status = threads->ops->all_gather(threads, &seconds, all, 1, GS_F64);
        for (int i = 0; i < t->ranks; i++)
            if (all[i] > seconds) seconds = all[i]; /* it is over when the last rank is done */
        free(all);
        GS_TRY(status);
        if (run > 0 && seconds < mine->seconds) mine->seconds = seconds; /* the first run warms up */
        if (mine->status != GS_OK) continue;
        mine->status = gs_call_verify(&call, r->number, t->ranks, r->host_in, r->host_out);
        if (mine->status != GS_OK) snprintf(mine->message, sizeof mine->message, "%s", gs_message());
    }
    return threads->ops->barrier(threads);
}

/* ---- printing, by rank 0 ---- */

static void print_time(double seconds, char text[16]) {
    double us = seconds * 1e6;
    if (us < 9995)
        snprintf(text, 16, "%.*f us", us < 99.95 ? 1 : 0, us);
    else
        snprintf(text, 16, "%.*f ms", us < 99950 ? 1 : 0, us / 1e3);
}

static double gb_per_s(const table *t, gs_operation operation, double seconds) {
    gs_call call = call_of(t, operation, 0);
    bool parts = operation == GS_ALL_GATHER || operation == GS_GATHER || operation == GS_SCATTER ||
                 operation == GS_ALL_TO_ALL;
    return 4e-9 * (double)call.count * (parts ? t->ranks : 1) / seconds;
}

static void print_header(const table *t) {
    printf("%d ranks, arrays of %s bytes; best time of %d runs, and GB/s of the array\n\n", t->ranks,
           gs_thousands((double)t->size), t->runs);
    printf("%-14s", "");
    for (int i = 0; i < COLUMNS && (i < 2 || t->has_cl); i++) {
        char name[24];
        snprintf(name, sizeof name, "%s, %s", columns[i].transport, columns[i].buffers);
        printf(" %15s", name);
    }
    printf("\n");
}

static void print_json_cell(const table *t, gs_operation operation, int column, bool right) {
    const outcome *o = &t->outcome[0];
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "operation", gs_operation_name(operation));
    cJSON_AddStringToObject(json, "transport", columns[column].transport);
    cJSON_AddStringToObject(json, "buffers", columns[column].buffers);
    cJSON_AddNumberToObject(json, "ranks", t->ranks);
    cJSON_AddBoolToObject(json, "right", right);
    cJSON_AddNumberToObject(json, "seconds", o->seconds);
    if (operation != GS_BARRIER)
        cJSON_AddNumberToObject(json, "gb_per_s", gb_per_s(t, operation, o->seconds));
    char *text = cJSON_PrintUnformatted(json);
    if (text) printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(json);
}

static void print_cell(table *t, gs_operation operation, int column) {
    const outcome *wrong = NULL;
    for (int r = t->ranks - 1; r >= 0; r--)
        if (t->outcome[r].status != GS_OK) wrong = &t->outcome[r];
    t->cells++;
    t->wrong += wrong != NULL;
    char time[16], rate[16] = "";
    print_time(t->outcome[0].seconds, time);
    if (operation != GS_BARRIER)
        snprintf(rate, sizeof rate, "%.2f", gb_per_s(t, operation, t->outcome[0].seconds));
    if (t->json)
        print_json_cell(t, operation, column, !wrong);
    else if (wrong)
        printf(" %15s", "WRONG");
    else
        printf(" %8s %6s", time, rate);
    fflush(stdout);
    if (wrong)
        fprintf(stderr, "%sgradsum collectives: %s, %s buffers: %s\n", t->json ? "" : "\n",
                columns[column].transport, columns[column].buffers, wrong->message);
}

/* ---- the ranks ---- */

static gs_status open_rank(rank *r) {
    table *t = r->t;
    size_t bytes = ((size_t)t->size / 4 + (size_t)t->ranks) * 4;
    gs_rendezvous meeting = {r->number, t->ranks, t->folder, NULL, t->timeout};
    r->comm[0] = t->threads[r->number];
    r->host_in = malloc(bytes);
    r->host_out = malloc(bytes);
    if (!r->host_in || !r->host_out)
        return gs_fail(GS_E_MEMORY, "no memory for two arrays of %zu bytes for each of %d ranks", bytes,
                       t->ranks);
    if (t->has_cl) {
        GS_TRY(gs_device_open(t->device, 1, &r->device[1]));
        GS_TRY(r->device[1]->ops->alloc(r->device[1], bytes, &r->in[1]));
        GS_TRY(r->device[1]->ops->alloc(r->device[1], bytes, &r->out[1]));
    }
    GS_TRY(r->comm[0]->ops->barrier(r->comm[0])); /* all have their memory */
    return gs_comm_gloo_create(&meeting, &r->comm[1]);
}

static gs_status run_table(rank *r) {
    table *t = r->t;
    for (int o = GS_SEND; o <= GS_BARRIER; o++) {
        gs_operation operation = (gs_operation)o;
        if (t->ranks == 1 && (operation == GS_SEND || operation == GS_RECV)) continue; /* to whom? */
        if (r->number == 0 && !t->json) printf("%-14s", gs_operation_name(operation));
        for (int column = 0; column < COLUMNS && (column < 2 || t->has_cl); column++) {
            GS_TRY(run_cell(r, column, operation));
            if (r->number == 0) print_cell(t, operation, column);
            GS_TRY(r->comm[0]->ops->barrier(r->comm[0]));
        }
        if (r->number == 0 && !t->json) printf("\n");
    }
    return GS_OK;
}

static void *rank_main(void *argument) {
    rank *r = argument;
    table *t = r->t;
    gs_status status = open_rank(r);
    if (status == GS_OK) status = run_table(r);
    if (status != GS_OK) {
        snprintf(t->message[r->number], sizeof t->message[r->number], "%s", gs_message());
        for (int i = 0; i < 2; i++)
            if (r->comm[i]) r->comm[i]->ops->abort(r->comm[i], t->message[r->number]);
    }
    t->failed[r->number] = status;
    if (r->device[1]) {
        r->device[1]->ops->free(r->device[1], r->in[1]);
        r->device[1]->ops->free(r->device[1], r->out[1]);
    }
    gs_device_close(r->device[1]);
    gs_comm_free(r->comm[1]);
    gs_comm_free(r->comm[0]);
    free(r->host_in);
    free(r->host_out);
    return NULL;
}

/* Of several failures the one that began it: not that of a rank which lost another. */
static gs_status first_failure(const table *t) {
    int told = -1;
    for (int r = t->ranks - 1; r >= 0; r--)
        if (t->failed[r] != GS_OK && (told < 0 || t->failed[told] == GS_E_PEER || t->failed[r] != GS_E_PEER))
            told = r;
    return told < 0 ? GS_OK : gs_fail(t->failed[told], "%s", t->message[told]);
}

static gs_status run_ranks(table *t) {
    static rank ranks[MOST_RANKS];
    int started = 0;
    GS_TRY(gs_comm_threads_create(t->ranks, t->timeout, t->threads));
    for (; started < t->ranks; started++) {
        ranks[started] = (rank){.t = t, .number = started};
        if (pthread_create(&ranks[started].thread, NULL, rank_main, &ranks[started]) != 0) break;
    }
    for (int r = started; r < t->ranks; r++) {
        t->failed[r] = GS_E_MEMORY;
        snprintf(t->message[r], sizeof t->message[r], "only %d of %d threads could be started", started,
                 t->ranks);
        t->threads[r]->ops->abort(t->threads[r], t->message[r]);
        gs_comm_free(t->threads[r]);
    }
    for (int r = 0; r < started; r++) pthread_join(ranks[r].thread, NULL);
    return first_failure(t);
}

static gs_status run_in_folder(table *t) {
    const char *tmp = getenv("TMPDIR");
    snprintf(t->folder, sizeof t->folder, "%.250s/gradsum-collectives-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (!mkdtemp(t->folder)) return gs_fail(GS_E_FILE, "cannot make the folder %s", t->folder);
    gs_status status = run_ranks(t);
    rmdir(t->folder); /* the last rank to come has done it already, if all came */
    return status;
}

/* ---- the command ---- */

/* Is there such an OpenCL device? Without any the last two columns are left out; a wrong name is an error. */
static gs_status find_cl(table *t) {
    gs_device *d;
    gs_status status = gs_device_open(t->device, 1, &d);
    t->has_cl = status == GS_OK;
    if (status == GS_OK) gs_device_close(d);
    if (status != GS_E_DEVICE || strcmp(t->device, "cl") != 0) return status;
    fprintf(stderr, "gradsum collectives: without OpenCL buffers: %s\n", gs_message());
    return GS_OK;
}

static gs_status check_spoil(const char *name) {
    for (int o = GS_BROADCAST; o < GS_BARRIER; o++)
        if (strcmp(gs_operation_name((gs_operation)o), name) == 0) return GS_OK;
    return gs_fail(GS_E_USAGE, "--spoil: '%s' is not a collective of the table", name);
}

int gs_cmd_collectives(int argc, char **argv) {
    static table t;
    t = (table){.ranks = 4, .size = 1 << 20, .timeout = GS_TIMEOUT, .device = "cl"};
    bool help;
    int words;
    const gs_option options[] = {
        {"n", GS_OPTION_INT, &t.ranks, 1, MOST_RANKS, "RANKS", "how many ranks (4)"},
        {"size", GS_OPTION_COUNT, &t.size, 4, 1e9, "BYTES", "of the array moved or reduced (1048576)"},
        {"device", GS_OPTION_TEXT, &t.device, 0, 0, "NAME", "the OpenCL device for cl buffers (cl)"},
        {"spoil", GS_OPTION_TEXT, &t.spoil, 0, 0, "NAME",
         "make this collective's results wrong: is it found?"},
        {"timeout", GS_OPTION_DOUBLE, &t.timeout, 0.1, 86400, "S", "seconds to wait for another rank (30)"},
        {"json", GS_OPTION_FLAG, &t.json, 0, 0, NULL, "one JSON object a cell"},
        {0},
    };
    gs_status status = gs_options_parse(options, argc, argv, &words, &help);
    if (status == GS_OK && help) {
        gs_options_help("collectives [-n RANKS] [--size BYTES] [--json]",
                        "Run every collective between threads of one process (threads) and over Gloo and\n"
                        "127.0.0.1 (gloo), on buffers of the host (cpu) and of an OpenCL device (cl).\n"
                        "Every element of every result is compared with a value computed in another\n"
                        "way, and each cell shows its time and bandwidth. Exit 1 if any cell is wrong.",
                        "gradsum collectives -n 4 --size 65536", options);
        return GS_EXIT_OK;
    }
    if (status == GS_OK) status = gs_no_words(words, argv);
    if (status == GS_OK && t.spoil) status = check_spoil(t.spoil);
    if (status == GS_OK && strncmp(t.device, "cl", 2) != 0)
        status = gs_fail(GS_E_USAGE, "--device: '%s': wanted an OpenCL device: cl, cl:P.D or cl:P.D/KofN",
                         t.device);
    if (status == GS_OK) status = find_cl(&t);
    if (status != GS_OK) return gs_failed("collectives", status);
    t.runs = t.size <= 65536 ? MOST_RUNS : t.size <= 4194304 ? 5 : 2;
    if (!t.json) print_header(&t);
    status = run_in_folder(&t);
    if (status != GS_OK) return gs_failed("collectives", status);
    if (!t.json && t.wrong == 0)
        printf("\nAll %d cells are right: every element was checked after every run.\n", t.cells);
    if (t.wrong > 0) fprintf(stderr, "gradsum collectives: %d of %d cells are wrong\n", t.wrong, t.cells);
    return t.wrong == 0 ? GS_EXIT_OK : GS_EXIT_FAILED;
}
