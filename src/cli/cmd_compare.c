#include "cli/cli.h"
#include "cli/compare_chart.h"
#include "cli/compare_page.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One set of devices of the list, and what its training gave. */
typedef struct gs_row {
    char devices[512];
    gs_result result;
    double difference; /* largest |weight - weight of the first row| */
} gs_row;

static const char *const phase_names[GS_PHASES] = {"data", "forward", "backward", "sync", "update"};

/* Cut "cpu; cpu,cpu" into rows. */
static gs_status rows_of(const char *list, gs_row **out, int *count) {
    *count = 1;
    for (const char *c = list; *c; c++) *count += *c == ';';
    gs_row *rows = calloc((size_t)*count, sizeof *rows);
    if (!rows) return gs_fail(GS_E_MEMORY, "no memory for %d rows", *count);
    const char *from = list;
    for (int i = 0; i < *count; i++) {
        from += strspn(from, " ");
        size_t length = strcspn(from, ";"), next = length;
        while (length > 0 && from[length - 1] == ' ') length--;
        if (length == 0 || length >= sizeof rows[i].devices) {
            free(rows);
            return gs_fail(GS_E_USAGE, "--devices-list: set %d of '%s' is %s", i + 1, list,
                           length ? "too long" : "empty");
        }
        memcpy(rows[i].devices, from, length);
        from += next + (from[next] == ';');
    }
    *out = rows;
    return GS_OK;
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
    return sum > 0 ? r->phase[phase] / sum : 0;
}

/* The table has 80 columns, with a column more for --bucket: what that takes is left out at the names. */
static int name_width(bool buckets) {
    return buckets ? 11 : 15;
}

/* Where there are fewer columns, the shares of time are left to the bars below the table. */
static bool is_narrow(void) {
    return gs_screen_of(stdout).width < GS_SCREEN_DEFAULT;
}

static void print_header(bool buckets) {
    int width = name_width(buckets);
    if (is_narrow()) {
        printf("%-*s %9s %5s %5s %7s %8s\n", width, "", "", "speed", "effi-", "final", "largest");
        printf("%-*s %9s %5s %5s %7s %8s\n", width, "devices", "samples/s", "-up", "c. %", "loss", "w diff.");
        return;
    }
    printf("%-*s %9s %5s %5s %-19s%s %4s %7s %8s\n", width, "", "", "speed", "effi-", "share of time in %",
           buckets ? " hid" : "", "wait", "final", "largest");
    printf("%-*s %9s %5s %5s %3s %3s %3s %3s %3s%s %4s %7s %8s\n", width, "devices", "samples/s", "-up",
           "c. %", "dat", "fwd", "bwd", "syn", "upd", buckets ? " den" : "", "%", "loss", "w diff.");
}

static void print_times(const gs_result *r, bool buckets) {
    for (int p = 0; p < GS_PHASES; p++) printf(" %3.0f", 100 * share(r, (gs_phase)p));
    if (buckets && r->overlap.buckets > 0)
        printf(" %3.0f", 100 * gs_overlap_hidden(r->overlap));
    else if (buckets)
        printf("   -");
    printf(" %4.1f", 100 * r->waited);
}

static void print_row(const gs_row *row, const gs_row *first, bool buckets) {
    const gs_result *r = &row->result;
    double speed_up = r->samples_per_s / first->result.samples_per_s;
    double efficiency = speed_up * first->result.workers / r->workers;
    int width = name_width(buckets);
    bool fits = strlen(row->devices) <= (size_t)width;
    if (!fits) printf("%s\n", row->devices);
    printf("%-*s %9s %5.2f %5.0f", width, fits ? row->devices : "", gs_thousands(r->samples_per_s), speed_up,
           100 * efficiency);
    if (!is_narrow()) print_times(r, buckets);
    printf(" %7.4f %8.1e\n", r->train_loss, row->difference);
    fflush(stdout);
}

/* A second table, where a row's messages are counted. */
static void print_sent(const gs_row *rows, int count, bool buckets) {
    bool begun = false;
    int width = name_width(buckets);
    for (int i = 0; i < count; i++) {
        const gs_result *r = &rows[i].result;
        if (!(r->sent > 0)) continue;
        if (!begun) printf("\n%-*s  bytes a step that a worker sends\n", width, "");
        if (!begun) printf("%-*s %14s %14s\n", width, "devices", "on average", "the busiest");
        begun = true;
        bool fits = strlen(rows[i].devices) <= (size_t)width;
        if (!fits) printf("%s\n", rows[i].devices);
        printf("%-*s %14s %14s\n", width, fits ? rows[i].devices : "", gs_thousands(r->sent),
               gs_thousands(r->sent_most));
    }
}

static void print_json(const gs_row *row, const gs_row *first) {
    const gs_result *r = &row->result;
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "devices", row->devices);
    cJSON_AddNumberToObject(o, "workers", r->workers);
    cJSON_AddNumberToObject(o, "samples_per_s", r->samples_per_s);
    double speed_up = r->samples_per_s / first->result.samples_per_s;
    cJSON_AddNumberToObject(o, "speed_up", speed_up);
    cJSON_AddNumberToObject(o, "efficiency", speed_up * first->result.workers / r->workers);
    cJSON *shares = cJSON_AddObjectToObject(o, "share");
    for (int p = 0; p < GS_PHASES; p++)
        cJSON_AddNumberToObject(shares, phase_names[p], share(r, (gs_phase)p));
    if (r->overlap.buckets > 0) cJSON_AddNumberToObject(o, "hidden", gs_overlap_hidden(r->overlap));
    if (r->sent > 0) cJSON_AddNumberToObject(o, "sent_bytes_a_step", r->sent);
    cJSON_AddNumberToObject(o, "loader_wait", r->waited);
    cJSON_AddNumberToObject(o, "train_loss", r->train_loss);
    cJSON_AddNumberToObject(o, "test_accuracy", r->test_accuracy);
    cJSON_AddNumberToObject(o, "largest_difference", row->difference);
    char *text = cJSON_PrintUnformatted(o);
    if (text) printf("%s\n", text);
    fflush(stdout);
    cJSON_free(text);
    cJSON_Delete(o);
}

/* page: NULL, or where the runs are shown too. */
static gs_status compare(gs_settings *s, gs_row *rows, int count, bool json, gs_compare_page *page) {
    for (int i = 0; i < count && !gs_stop_requested; i++) {
        gs_result *r = &rows[i].result;
        s->devices = rows[i].devices;
        gs_status status = page ? gs_compare_page_train(page, s, r) : gs_train(s, NULL, r);
        GS_TRY(gs_context(status, "%s", rows[i].devices));
        if (r->interrupted) return gs_fail(GS_E_INTERRUPTED, "stopped by a signal");
        rows[i].difference = largest_difference(r, &rows[0].result);
        if (page) GS_TRY(gs_compare_page_add(page, rows[i].devices, r, rows[i].difference));
        if (json)
            print_json(&rows[i], &rows[0]);
        else
            print_row(&rows[i], &rows[0], s->bucket > 0);
    }
    return GS_OK;
}

/* Speed-up and shares of time of all rows as bars. */
static gs_status draw(const gs_row *rows, int count) {
    gs_screen screen = gs_screen_of(stdout);
    gs_compare_bar *bars = calloc((size_t)count, sizeof *bars);
    if (!bars) return gs_fail(GS_E_MEMORY, "no memory for %d bars", count);
    for (int i = 0; i < count; i++) {
        const gs_result *r = &rows[i].result, *first = &rows[0].result;
        bars[i] = (gs_compare_bar){.name = rows[i].devices,
                                   .speed_up = r->samples_per_s / first->samples_per_s,
                                   .ideal = (double)r->workers / first->workers};
        for (int p = 0; p < GS_PHASES; p++) bars[i].share[p] = share(r, (gs_phase)p);
    }
    gs_compare_chart(stdout, &screen, bars, count);
    free(bars);
    return GS_OK;
}

/* All runs, and what is made of them; report: the page's file, or NULL. */
static gs_status run(gs_settings *s, gs_row *rows, int count, bool json, const char *report, int argc,
                     char **argv) {
    gs_compare_page page = {0};
    gs_status status = report ? gs_compare_page_open(&page, report, argc, argv, count) : GS_OK;
    if (status == GS_OK && !json) print_header(s->bucket > 0);
    if (status == GS_OK) status = compare(s, rows, count, json, report ? &page : NULL);
    if (status == GS_OK && !json) print_sent(rows, count, s->bucket > 0);
    if (status == GS_OK && !json) status = draw(rows, count);
    if (status == GS_OK && report) status = gs_compare_page_write(&page);
    if (status == GS_OK && report && !json) printf("\n%s: open it in a browser\n", report);
    gs_compare_page_free(&page);
    return status;
}

int gs_cmd_compare(int argc, char **argv) {
    gs_settings s = gs_settings_default();
    const char *list = "cpu; cpu,cpu", *report = NULL;
    bool json = false, help;
    int words, count = 0;
    gs_row *rows = NULL;
    s.epochs = 2;
    const gs_option own[] = {
        {"devices-list", GS_OPTION_TEXT, &list, 0, 0, "LISTS", "sets of devices, with ';' between them"},
        {"report", GS_OPTION_TEXT, &report, 0, 0, "FILE", "a page (.html) of all runs too"},
        {"json", GS_OPTION_FLAG, &json, 0, 0, NULL, "one JSON object a line"},
        {0},
    };
    const gs_option *options = gs_run_options(&s, true, own);
    gs_status status = gs_options_parse(options, argc, argv, &words, &help);
    if (status == GS_OK && help) {
        gs_options_help(
            "compare --devices-list LISTS [options]",
            "Run the same training on each set of devices and compare speed, shares of time,\n"
            "loss and weights with the first set. wait: how much of the time a worker waited\n"
            "for its loader (a part of the share of data).",
            "gradsum compare --devices-list \"cpu; cpu,cpu; cl:0.0/0of2,cl:0.0/1of2\" --threads 1", options);
        return GS_EXIT_OK;
    }
    if (status == GS_OK) status = gs_no_words(words, argv);
    if (status == GS_OK && s.save) status = gs_fail(GS_E_USAGE, "--save: compare does not save weights");
    if (status == GS_OK) status = rows_of(list, &rows, &count);
    if (status != GS_OK) return gs_failed("compare", status);
    s.measure = true;
    gs_stop_on_signals();
    status = run(&s, rows, count, json, report, argc, argv);
    for (int i = 0; i < count; i++) gs_result_free(&rows[i].result);
    free(rows);
    return status == GS_OK ? GS_EXIT_OK : gs_failed("compare", status);
}
