#include "cli/cli.h"

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

static void print_header(void) {
    printf("%-20s %9s %6s %5s %4s %4s %4s %4s %4s %7s %8s\n", "", "", "speed-", "effi-", "share", "of",
           "time", "in", "%", "final", "largest");
    printf("%-20s %9s %6s %5s %4s %4s %4s %4s %4s %7s %8s\n", "devices", "samples/s", "up", "c. %", "data",
           "forw", "back", "sync", "upd.", "loss", "w diff.");
}

static void print_row(const gs_row *row, const gs_row *first) {
    const gs_result *r = &row->result;
    double speed_up = r->samples_per_s / first->result.samples_per_s;
    double efficiency = speed_up * first->result.workers / r->workers;
    if (strlen(row->devices) > 20) printf("%s\n", row->devices);
    printf("%-20s %9s %6.2f %5.0f", strlen(row->devices) > 20 ? "" : row->devices,
           gs_thousands(r->samples_per_s), speed_up, 100 * efficiency);
    for (int p = 0; p < GS_PHASES; p++) printf(" %4.0f", 100 * share(r, (gs_phase)p));
    printf(" %7.4f %8.1e\n", r->train_loss, row->difference);
    fflush(stdout);
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
    cJSON_AddNumberToObject(o, "train_loss", r->train_loss);
    cJSON_AddNumberToObject(o, "test_accuracy", r->test_accuracy);
    cJSON_AddNumberToObject(o, "largest_difference", row->difference);
    char *text = cJSON_PrintUnformatted(o);
    if (text) printf("%s\n", text);
    fflush(stdout);
    cJSON_free(text);
    cJSON_Delete(o);
}

static gs_status compare(gs_settings *s, gs_row *rows, int count, bool json) {
    for (int i = 0; i < count && !gs_stop_requested; i++) {
        s->devices = rows[i].devices;
        GS_TRY(gs_context(gs_train(s, NULL, &rows[i].result), "%s", rows[i].devices));
        if (rows[i].result.interrupted) return gs_fail(GS_E_INTERRUPTED, "stopped by a signal");
        rows[i].difference = largest_difference(&rows[i].result, &rows[0].result);
        json ? print_json(&rows[i], &rows[0]) : print_row(&rows[i], &rows[0]);
    }
    return GS_OK;
}

int gs_cmd_compare(int argc, char **argv) {
    gs_settings s = gs_settings_default();
    const char *list = "cpu; cpu,cpu";
    bool json = false, help;
    int words, count = 0;
    gs_row *rows = NULL;
    s.epochs = 2;
    const gs_option own[] = {
        {"devices-list", GS_OPTION_TEXT, &list, 0, 0, "LISTS", "sets of devices, with ';' between them"},
        {"json", GS_OPTION_FLAG, &json, 0, 0, NULL, "one JSON object a line"},
        {0},
    };
    const gs_option *options = gs_run_options(&s, true, own);
    gs_status status = gs_options_parse(options, argc, argv, &words, &help);
    if (status == GS_OK && help) {
        gs_options_help(
            "compare --devices-list LISTS [options]",
            "Run the same training on each set of devices and compare speed, shares of time,\n"
            "loss and weights with the first set.",
            "gradsum compare --devices-list \"cpu; cpu,cpu; cl:0.0/0of2,cl:0.0/1of2\" --threads 1", options);
        return GS_EXIT_OK;
    }
    if (status == GS_OK) status = gs_no_words(words, argv);
    if (status == GS_OK && s.save) status = gs_fail(GS_E_USAGE, "--save: compare does not save weights");
    if (status == GS_OK) status = rows_of(list, &rows, &count);
    if (status != GS_OK) return gs_failed("compare", status);
    s.measure = true;
    gs_stop_on_signals();
    if (!json) print_header();
    status = compare(&s, rows, count, json);
    for (int i = 0; i < count; i++) gs_result_free(&rows[i].result);
    free(rows);
    return status == GS_OK ? GS_EXIT_OK : gs_failed("compare", status);
}
