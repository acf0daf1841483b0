#include "cli/cli.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

static const double SECONDS = 0.5; /* that each measurement takes */

static const char *const directions[GS_DIRECTIONS] = {"forward", "backward"};

/* ---- text ---- */

static void print_speeds(const gs_profile *p) {
    const gs_roofline *r = &p->roofline;
    int last = GS_ROOFLINE_SIZES - 1;
    printf("model    %s, %s parameters, %zu sample%s a step\n", p->model, gs_thousands((double)p->params),
           p->batch, gs_s(p->batch));
    printf("device   %s\n", p->device);
    printf("peak     %s GFLOP/s (FMA loop)\n", gs_thousands(r->flops / 1e9));
    printf("         %.1f GB/s from memory (triad of %.0f MB), %.1f from caches (%.0f kB)\n\n",
           r->rate[last] / 1e9, r->bytes[last] / 1e6, r->rate[0] / 1e9, r->bytes[0] / 1e3);
    printf("%-14s %13s %13s\n", "", "samples/s", "MB/s");
    printf("%-14s %13s %13.1f", "loader alone", gs_thousands(p->loader), p->loader * p->sample_bytes / 1e6);
    if (p->throttle > 0) printf("   throttled to %g MB/s", p->throttle / 1e6);
    printf("\n%-14s %13s %13.1f\n", "step alone", gs_thousands(p->step), p->step * p->sample_bytes / 1e6);
    printf("%-14s %13s %13.1f   waits %.1f %% of the time\n\n", "together", gs_thousands(p->together),
           p->together * p->sample_bytes / 1e6, 100 * p->waited);
    char verdict[400];
    gs_profile_verdict(p, verdict, sizeof verdict);
    printf("%s\n\n", verdict);
}

/* "  0.123   104   1.23  12  80"; nothing where nothing is done */
static void print_cell(const gs_profile_cell *c, double all_seconds) {
    if (!(c->bytes > 0)) {
        printf("%29s", "");
        return;
    }
    printf(" %7.3f", 1e3 * c->seconds);
    c->flops > 0 ? printf(" %5.*f", c->flops < 9.95e9 * c->seconds ? 1 : 0, c->flops / c->seconds / 1e9)
                 : printf(" %5s", "");
    printf(" %6.*f %3.0f %3.0f", c->bytes < 99.95e6 ? 2 : 0, c->bytes / 1e6, 100 * c->seconds / all_seconds,
           100 * c->least / c->seconds);
}

static void print_rows(const gs_profile *p) {
    gs_profile_cell all = gs_profile_total(p);
    printf("%-22s %-28s backward\n", "", "forward");
    printf("%-22s %7s %5s %6s %3s %3s %7s %5s %6s %3s %3s\n", "layer", "ms", "GFL/s", "MB", "%", "rl", "ms",
           "GFL/s", "MB", "%", "rl");
    for (int i = 0; i < p->row_count; i++) {
        const gs_profile_row *r = &p->rows[i];
        char label[200];
        snprintf(label, sizeof label, "%-6s %s", r->name, r->what);
        printf("%-22.22s", label);
        for (int k = 0; k < GS_DIRECTIONS; k++) print_cell(&r->cell[k], all.seconds);
        printf("\n");
    }
    printf("%-22s", "all");
    print_cell(&all, all.seconds);
    printf("   (%.3f ms not waiting)\n\n", 1e3 * (double)p->batch / p->step);
    printf("GFL/s: 10^9 floating point operations a second; MB: 10^6 bytes, each operand\n"
           "once; %%: share of all; rl: the least time that the roofline allows, in %% of the\n"
           "time taken (above 100: operands that a faster cache still held, or a\n"
           "convolution that multiplies less than is counted: cpu/winograd.h).\n");
}

/* ---- JSON ---- */

static void add_cell(cJSON *o, const char *name, const gs_profile_cell *c) {
    cJSON *cell = cJSON_AddObjectToObject(o, name);
    cJSON_AddNumberToObject(cell, "seconds", c->seconds);
    cJSON_AddNumberToObject(cell, "flops", c->flops);
    cJSON_AddNumberToObject(cell, "bytes", c->bytes);
    cJSON_AddNumberToObject(cell, "least_seconds", c->least);
}

static void print_json(const gs_profile *p) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "model", p->model);
    cJSON_AddStringToObject(o, "device", p->device);
    cJSON_AddNumberToObject(o, "parameters", (double)p->params);
    cJSON_AddNumberToObject(o, "batch", (double)p->batch);
    cJSON_AddNumberToObject(o, "sample_bytes", p->sample_bytes);
    p->throttle > 0 ? cJSON_AddNumberToObject(o, "throttle_bytes_per_s", p->throttle)
                    : cJSON_AddNullToObject(o, "throttle_bytes_per_s");
    cJSON_AddNumberToObject(o, "peak_flops", p->roofline.flops);
    cJSON *memory = cJSON_AddArrayToObject(o, "memory");
    for (int i = 0; i < GS_ROOFLINE_SIZES; i++) {
        cJSON *size = cJSON_CreateObject();
        cJSON_AddNumberToObject(size, "bytes", p->roofline.bytes[i]);
        cJSON_AddNumberToObject(size, "bytes_per_s", p->roofline.rate[i]);
        cJSON_AddItemToArray(memory, size);
    }
    cJSON_AddNumberToObject(o, "loader_samples_per_s", p->loader);
    cJSON_AddNumberToObject(o, "loader_bytes_per_s", p->loader * p->sample_bytes);
    cJSON_AddNumberToObject(o, "step_samples_per_s", p->step);
    cJSON_AddNumberToObject(o, "step_bytes_per_s", p->step * p->sample_bytes);
    cJSON_AddNumberToObject(o, "together_samples_per_s", p->together);
    cJSON_AddNumberToObject(o, "loader_wait", p->waited);
    cJSON_AddStringToObject(o, "bound", p->loader < p->step ? "loader" : "step");
    cJSON *rows = cJSON_AddArrayToObject(o, "layers");
    for (int i = 0; i < p->row_count; i++) {
        cJSON *row = cJSON_CreateObject();
        cJSON_AddStringToObject(row, "name", p->rows[i].name);
        cJSON_AddStringToObject(row, "what", p->rows[i].what);
        for (int k = 0; k < GS_DIRECTIONS; k++) add_cell(row, directions[k], &p->rows[i].cell[k]);
        cJSON_AddItemToArray(rows, row);
    }
    char *text = cJSON_PrintUnformatted(o);
    if (text) printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(o);
}

int gs_cmd_profile(int argc, char **argv) {
    gs_settings s = gs_settings_default();
    bool json = false, help;
    int words;
    const gs_option own[] = {
        {"batch", GS_OPTION_BATCH, &s.batch, 1, 1e15, "B", "samples of a step; all: the whole set"},
        {"throttle", GS_OPTION_DOUBLE, &s.throttle, 0.001, 1e6, "MB/S",
         "slow the loader down to so much, to see it"},
        {"json", GS_OPTION_FLAG, &json, 0, 0, NULL, "one JSON object"},
        {0},
    };
    const gs_option *options = gs_run_options(&s, false, own);
    gs_status status = gs_options_parse(options, argc, argv, &words, &help);
    if (status == GS_OK && help) {
        gs_options_help("profile [options]",
                        "Measure where the time of training goes: the bandwidth of the loader and that of\n"
                        "the training step, each alone, and which of them bounds a run; then each layer,\n"
                        "forward and backward, next to what the device could do at most.",
                        "gradsum profile --model lenet --device cpu --threads 1", options);
        return GS_EXIT_OK;
    }
    if (status == GS_OK) status = gs_no_words(words, argv);
    if (status == GS_OK && s.load)
        status = gs_fail(GS_E_USAGE, "--load: profile learns nothing; its weights do not matter");
    gs_profile profile;
    if (status == GS_OK) status = gs_profile_run(&s, SECONDS, &profile);
    if (status != GS_OK) return gs_failed("profile", status);
    if (json) {
        print_json(&profile);
    } else {
        print_speeds(&profile);
        print_rows(&profile);
    }
    gs_profile_free(&profile);
    return GS_EXIT_OK;
}
