#include "cli/cli.h"
#include "io/json.h"

#include <math.h>
#include <stdlib.h>

/* One set of devices from the list, and the result of training on it. */
typedef struct gs_row {
    char devices[512];
    gs_result result;
    double difference; /* largest |difference| from the first row's weights */
} gs_row;

/* Split "cpu; cpu,cpu" into rows; the caller frees them, even after a failure. */
static gs_status rows_of(const char *list, gs_row **out, int *count) {
    *count = 1;
    for (const char *c = list; *c; c++) *count += *c == ';';
    GS_TRY(GS_NEW(*out, *count, "%d rows", *count));
    gs_row *rows = *out;
    const char *from = list;
    for (int i = 0; i < *count; i++) {
        from += strspn(from, " ");
        size_t length = strcspn(from, ";"), next = length;
        while (length > 0 && from[length - 1] == ' ') length--;
        if (length == 0 || length >= sizeof rows[i].devices)
            return gs_fail(GS_E_USAGE, "--devices-list: set %d of '%s' is %s", i + 1, list,
                           length ? "too long" : "empty");
        memcpy(rows[i].devices, from, length);
        from += next + (from[next] == ';');
    }
    return GS_OK;
}

/* The speed-up over the first row; *efficiency: the speed-up per worker, relative to the first row's workers. */
static double speed_up(const gs_row *rows, int i, double *efficiency) {
    const gs_result *r = &rows[i].result, *first = &rows[0].result;
    const double x = r->samples_per_s / first->samples_per_s;
    *efficiency = x * first->workers / r->workers;
    return x;
}

static double largest_difference(const gs_result *a, const gs_result *b) {
    double largest = 0;
    for (size_t i = 0; i < a->params; i++) {
        double d = fabs((double)a->weights[i] - (double)b->weights[i]);
        if (!(d <= largest)) largest = d; /* a NaN counts as the largest */
    }
    return largest;
}

static double share(const gs_result *r, gs_phase phase) {
    double sum = 0;
    for (int p = 0; p < GS_PHASES; p++) sum += r->phase[p];
    return sum > 0 ? r->phase[phase] / sum : (double)NAN; /* NaN: no step was measured */
}

/* The table is 80 columns wide, so --bucket's extra column leaves less room for names. */
static int name_width(bool buckets) {
    return buckets ? 11 : 15;
}

static void print_header(bool buckets) {
    int width = name_width(buckets);
    printf("%-*s %9s %5s %5s %-19s%s %4s %7s %8s\n", width, "", "", "speed", "effi-", "share of time in %",
           buckets ? " hid" : "", "wait", "final", "largest");
    printf("%-*s %9s %5s %5s %3s %3s %3s %3s %3s%s %4s %7s %8s\n", width, "devices", "samples/s", "-up",
           "c. %", "dat", "fwd", "bwd", "syn", "upd", buckets ? " den" : "", "%", "loss", "w diff.");
}

static void print_times(const gs_result *r, bool buckets) {
    for (int p = 0; p < GS_PHASES; p++) {
        double x = share(r, (gs_phase)p);
        isnan(x) ? printf("   -") : printf(" %3.0f", 100 * x);
    }
    if (buckets && r->overlap.buckets > 0)
        printf(" %3.0f", 100 * gs_overlap_hidden(r->overlap));
    else if (buckets)
        printf("   -");
    printf(" %4.1f", 100 * r->waited);
}

static void print_row(const gs_row *rows, int i, bool buckets) {
    const gs_result *r = &rows[i].result;
    double efficiency;
    const double faster = speed_up(rows, i, &efficiency);
    gs_print_name(stdout, rows[i].devices, name_width(buckets));
    printf(" %9s %5.2f %5.0f", gs_thousands(r->samples_per_s), faster, 100 * efficiency);
    print_times(r, buckets);
    printf(" %7.4f %8.1e\n", gs_shown(r->train_loss), gs_shown(rows[i].difference));
    fflush(stdout);
}

static void print_busy(const gs_row *rows, int count) {
    for (int i = 0, printed = 0; i < count; i++) {
        if (!*rows[i].result.busy) continue;
        if (!printed++) printf("\n");
        gs_print_fact("busy", "%s: %s", rows[i].devices, rows[i].result.busy);
    }
}

static void print_json(const gs_row *rows, int i) {
    const gs_result *r = &rows[i].result;
    double efficiency;
    const double faster = speed_up(rows, i, &efficiency);
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("devices", rows[i].devices), GS_FIELD("workers", r->workers),
                              GS_FIELD("threads", r->threads), GS_FIELD("samples_per_s", r->samples_per_s),
                              GS_FIELD("speed_up", faster), GS_FIELD("efficiency", efficiency));
    cJSON *shares = cJSON_AddObjectToObject(o, "share");
    for (int p = 0; p < GS_PHASES; p++)
        GS_JSON_ADD(shares, GS_FIELD(gs_phase_names[p], share(r, (gs_phase)p)));
    if (r->overlap.buckets > 0) cJSON_AddNumberToObject(o, "hidden", gs_overlap_hidden(r->overlap));
    if (r->sent > 0) cJSON_AddNumberToObject(o, "sent_bytes_a_step", r->sent);
    if (*r->busy) cJSON_AddStringToObject(o, "busy", r->busy);
    GS_JSON_ADD(o, GS_FIELD("loader_wait", r->waited), GS_FIELD("train_loss", r->train_loss),
                GS_FIELD("test_accuracy", r->test_accuracy),
                GS_FIELD("largest_difference", rows[i].difference));
    gs_json_print(o);
}

/* Two workers with one thread each are no faster than one worker with two. Only the number of workers should differ, so
 * every worker of every set gets the same number of threads: the cores per worker in the largest set. */
static int equal_threads(const gs_row *rows, int count) {
    int largest = 1;
    for (int i = 0; i < count; i++) {
        int workers = gs_devices_count(rows[i].devices);
        if (workers > largest) largest = workers;
    }
    int threads = gs_cpu_cores() / largest;
    return threads > 0 ? threads : 1;
}

static gs_status compare(gs_settings *s, gs_row *rows, int count, bool json) {
    gs_shown_run now = {.runs = count, .settings = s, .work.tells = !json};
    const gs_observer observer = {.context = &now, .step = gs_show_run};
    for (int i = 0; i < count && !gs_stop_requested; i++) {
        gs_result *r = &rows[i].result;
        now.what = s->devices = rows[i].devices;
        now.run = i;
        gs_show_activity(NULL, 0, "%s (%d of %d)", rows[i].devices, i + 1, count);
        const gs_status status = gs_train(s, &observer, r);
        gs_show_activity(NULL, 0, NULL);
        GS_TRY(gs_context(status, "%s", rows[i].devices));
        if (r->interrupted) return gs_fail(GS_E_INTERRUPTED, "stopped by a signal");
        rows[i].difference = largest_difference(r, &rows[0].result);
        if (json)
            print_json(rows, i);
        else
            print_row(rows, i, s->bucket > 0);
    }
    return GS_OK;
}

/* Check every set before training the first one. */
static gs_status check_sets(const gs_settings *s, const gs_row *rows, int count) {
    gs_status status = GS_OK;
    for (int i = 0; i < count && status == GS_OK; i++) {
        gs_settings of_set = *s;
        of_set.devices = rows[i].devices;
        status = gs_context(gs_train_check(&of_set), "%s", rows[i].devices);
    }
    return status;
}

static gs_status run(gs_settings *s, gs_row *rows, int count, bool json) {
    bool chosen = s->threads > 0;
    if (!chosen) s->threads = equal_threads(rows, count);
    gs_status status = check_sets(s, rows, count);
    if (status == GS_OK && !json) {
        printf("each cpu worker has %d thread%s%s\n\n", s->threads, gs_s((unsigned)s->threads),
               chosen ? "" : " (cores / largest set)");
        print_header(s->bucket > 0);
    }
    if (status == GS_OK) status = compare(s, rows, count, json);
    if (status != GS_OK || json) return status;
    print_busy(rows, count);
    return GS_OK;
}

int gs_cmd_compare(int argc, char **argv) {
    gs_settings s = gs_settings_default();
    const char *list = "cpu; cpu,cpu";
    bool json = false;
    int count = 0, exit_status;
    gs_row *rows = NULL;
    s.epochs = 2;
    const gs_option own[] = {
        {"devices-list", GS_OPTION_TEXT, &list, 0, 0, "LISTS", "sets of devices, with ';' between them"},
        GS_RUN_OPTION("threads", "CPU threads per worker; 0: the cores divided by the largest set"),
        GS_REFUSED("device", "compare trains on several sets of devices; use --devices-list \"cpu; cl\""),
        GS_REFUSED("devices",
                   "compare trains on several sets of devices; use --devices-list \"cpu; cpu,cpu\""),
        GS_REFUSED("save", "compare keeps no weights; to keep those of one set, use train --save FILE"),
        GS_RUN_OPTION("keep-going", NULL),
        {"json", GS_OPTION_FLAG, &json, 0, 0, NULL, "one JSON object per line"},
        {0},
    };
    const gs_option *options = gs_run_options(&s, GS_TRAINING | GS_LEARNING, own);
    const gs_help help = {"compare --devices-list LISTS [options]",
                          "Run the same training on each set of devices and compare speed, shares of time,\n"
                          "loss and weights with the first set. wait: how long a worker waited for its\n"
                          "loader (part of the share of data). Every worker has the same number of threads.",
                          "gradsum compare --devices-list \"cpu; cpu,cpu; cl:0.0\"", NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    gs_status status = rows_of(list, &rows, &count);
    s.measure = true;
    gs_stop_on_signals();
    if (status == GS_OK) status = run(&s, rows, count, json);
    for (int i = 0; i < count && rows; i++) gs_result_free(&rows[i].result);
    free(rows);
    if (status != GS_OK && json) gs_json_failed(status, NULL);
    return gs_exit_status("compare", status);
}
