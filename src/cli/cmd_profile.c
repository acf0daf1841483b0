#include "cli/cli.h"
#include "io/json.h"
#include "predict/profile.h"

#include <math.h>

static const char *const directions[GS_DIRECTIONS] = {"forward", "backward"};

static const char *const precisions[GS_PRECISIONS] = {"f32", "bf16", "f16"};

static void print_speeds(const gs_profile *p) {
    const gs_roofline *r = &p->roofline;
    int last = GS_ROOFLINE_SIZES - 1;
    gs_print_fact("model", "%s, %s parameters, %zu sample%s per step", p->model,
                  gs_thousands((double)p->params), p->batch, gs_s(p->batch));
    gs_print_fact("device", "%s", p->device);
    if (p->precision != GS_PRECISION_F32)
        printf("products %s (the peak is that of f32)\n", precisions[p->precision]);
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
    if (*p->busy) gs_print_fact("busy", "%s\n", p->busy);
}

/* "  0.123   104   1.23  12  80"; blank if there is no work */
static void print_cell(const gs_profile_cell *c, double all_seconds, bool last) {
    if (!(c->bytes > 0)) {
        printf("%*s", last ? 0 : 29, "");
        return;
    }
    /* A difference of two measurements can be negative on a busy machine: print 0, to keep the columns' widths. */
    const double ms = fmax(1e3 * c->seconds, 0), share = fmax(100 * c->seconds / all_seconds, 0);
    printf(" %7.3f", ms);
    if (ms > 0 && c->flops > 0)
        printf(" %5.*f", c->flops < 9.95e9 * c->seconds ? 1 : 0, fmin(c->flops / c->seconds / 1e9, 99999));
    else
        printf(" %5s", "");
    printf(" %6.*f %3.0f", c->bytes < 99.95e6 ? 2 : 0, c->bytes / 1e6, share);
    if (ms > 0)
        printf(" %3.0f", fmin(100 * c->least / c->seconds, 999));
    else
        printf("%*s", last ? 0 : 4, "");
}

enum { LABEL = 22 };

static void print_label(const gs_profile_row *r) {
    char label[200];
    snprintf(label, sizeof label, "%-6s %s", r->name, r->what);
    gs_print_name(stdout, label, LABEL);
}

static void print_rows(const gs_profile *p) {
    gs_profile_cell all = gs_profile_total(p);
    printf("%-22s %-28s backward\n", "", "forward");
    printf("%-22s %7s %5s %6s %3s %3s %7s %5s %6s %3s %3s\n", "layer", "ms", "GFL/s", "MB", "%", "rl", "ms",
           "GFL/s", "MB", "%", "rl");
    for (int i = 0; i < p->row_count; i++) {
        const gs_profile_row *r = &p->rows[i];
        print_label(r);
        for (int k = 0; k < GS_DIRECTIONS; k++) print_cell(&r->cell[k], all.seconds, k == GS_DIRECTIONS - 1);
        printf("\n");
    }
    printf("%-22s", "all");
    print_cell(&all, all.seconds, false);
    printf("   (%.3f ms not waiting)\n\n", 1e3 * (double)p->batch / p->step);
    printf("GFL/s: 10^9 floating-point operations per second; MB: 10^6 bytes, each operand\nonce; %%: share "
           "of the total; rl: the least time that the roofline allows, in %%\nof the time taken, at most 999 "
           "(above 100: a faster cache still held the\noperands, or a convolution multiplies less than is "
           "counted: cpu/winograd.h).\n");
}

/* "    12.345    0.123   100"; blank if there is no work */
static void print_plain_cell(const gs_profile_cell *c, double plain, bool last) {
    const double ms = fmax(1e3 * c->seconds, 0);
    if (!(c->bytes > 0)) {
        printf("%*s", last ? 0 : 28, "");
        return;
    }
    printf("  %9.3f %9.3f", 1e3 * fmax(plain, 0), ms);
    if (ms > 0)
        printf(" %6.*f", plain < 99.95 * c->seconds ? 1 : 0, fmin(fmax(plain / c->seconds, 0), 999999));
    else
        printf("%*s", last ? 0 : 7, "");
}

static void print_plain(const gs_profile *p) {
    gs_profile_cell all[GS_DIRECTIONS] = {{0}};
    double plain[GS_DIRECTIONS] = {0};
    printf("\n%-24s %-27s backward\n", "", "forward");
    printf("%-22s  %9s %9s %6s  %9s %9s %6s\n", "layer", "plain ms", "ms", "times", "plain ms", "ms",
           "times");
    for (int i = 0; i < p->row_count; i++) {
        const gs_profile_row *r = &p->rows[i];
        print_label(r);
        for (int k = 0; k < GS_DIRECTIONS; k++) {
            print_plain_cell(&r->cell[k], r->plain[k], k == GS_DIRECTIONS - 1);
            all[k].seconds += r->cell[k].seconds;
            all[k].bytes += r->cell[k].bytes;
            plain[k] += r->plain[k];
        }
        printf("\n");
    }
    printf("%-22s", "all");
    for (int k = 0; k < GS_DIRECTIONS; k++) print_plain_cell(&all[k], plain[k], k == GS_DIRECTIONS - 1);
    printf("\n\nplain ms: the plain loops of cpu/plain, on one core; times: how many times as\n"
           "fast the device is. A layer without figures is computed by an earlier one, and\nits plain ms are "
           "counted there.\n");
}

static void add_cell(cJSON *o, const char *name, const gs_profile_cell *c, const double *plain) {
    cJSON *cell = cJSON_AddObjectToObject(o, name);
    GS_JSON_ADD(cell, GS_FIELD("seconds", c->seconds), GS_FIELD("flops", c->flops),
                GS_FIELD("bytes", c->bytes), GS_FIELD("least_seconds", c->least));
    if (plain) cJSON_AddNumberToObject(cell, "plain_seconds", *plain);
}

static void print_json(const gs_profile *p, bool plain) {
    cJSON *o =
        GS_JSON_OBJECT(GS_FIELD("model", p->model), GS_FIELD("device", p->device),
                       GS_FIELD("precision", precisions[p->precision]), GS_FIELD("parameters", p->params),
                       GS_FIELD("batch", p->batch), GS_FIELD("sample_bytes", p->sample_bytes),
                       GS_FIELD("throttle_bytes_per_s", p->throttle > 0 ? p->throttle : NAN),
                       GS_FIELD("peak_flops", p->roofline.flops));
    cJSON *memory = cJSON_AddArrayToObject(o, "memory");
    for (int i = 0; i < GS_ROOFLINE_SIZES; i++)
        cJSON_AddItemToArray(memory, GS_JSON_OBJECT(GS_FIELD("bytes", p->roofline.bytes[i]),
                                                    GS_FIELD("bytes_per_s", p->roofline.rate[i])));
    GS_JSON_ADD(o, GS_FIELD("loader_samples_per_s", p->loader),
                GS_FIELD("loader_bytes_per_s", p->loader * p->sample_bytes),
                GS_FIELD("step_samples_per_s", p->step),
                GS_FIELD("step_bytes_per_s", p->step * p->sample_bytes),
                GS_FIELD("together_samples_per_s", p->together), GS_FIELD("loader_wait", p->waited),
                GS_FIELD("bound", p->loader < p->step ? "loader" : "step"));
    if (*p->busy) cJSON_AddStringToObject(o, "busy", p->busy);
    cJSON *rows = cJSON_AddArrayToObject(o, "layers");
    for (int i = 0; i < p->row_count; i++) {
        cJSON *row = GS_JSON_OBJECT(GS_FIELD("name", p->rows[i].name), GS_FIELD("what", p->rows[i].what));
        for (int k = 0; k < GS_DIRECTIONS; k++)
            add_cell(row, directions[k], &p->rows[i].cell[k], plain ? &p->rows[i].plain[k] : NULL);
        cJSON_AddItemToArray(rows, row);
    }
    gs_json_print(o);
}

typedef struct question {
    gs_settings settings;
    double seconds; /* per measurement */
    bool plain, json;
} question;

static gs_status answer(const question *q) {
    gs_profile profile;
    if (!q->json) gs_show_activity(NULL, 0, "measuring the loader and the step, then each layer");
    GS_TRY(gs_profile_run(&q->settings, q->seconds, &profile));
    const gs_status status = q->plain ? gs_profile_plain(&q->settings, q->seconds, &profile) : GS_OK;
    gs_show_activity(NULL, 0, NULL);
    if (status == GS_OK && q->json) {
        print_json(&profile, q->plain);
    } else if (status == GS_OK) {
        print_speeds(&profile);
        print_rows(&profile);
        if (q->plain) print_plain(&profile);
    }
    gs_profile_free(&profile);
    return status;
}

int gs_cmd_profile(int argc, char **argv) {
    question q = {.settings = gs_settings_default(), .seconds = 0.5};
    int exit_status;
    const gs_option own[] = {
        GS_RUN_OPTION("model", "a name such as mlp (gradsum model --help); or layers, in quotes: \"flatten, "
                               "linear 10\" (default mlp)"),
        GS_RUN_OPTION("batch", "samples per step; all: the whole set"),
        GS_RUN_OPTION("augment", "change images at random: resized_crop,crop:4,flip,cutout:8"),
        GS_RUN_OPTION("recompute",
                      "backward computes parts of forward again (train --help); that counts as forward"),
        GS_RUN_OPTION("precision",
                      "f32, bf16 or f16: what is multiplied (train --help); the limit stays that of f32"),
        GS_RUN_OPTION("throttle", "limit the loader to this rate, to see the effect"),
        {"seconds", GS_OPTION_DOUBLE, &q.seconds, 0.01, 60, "S",
         "how long each measurement takes; the longer, the steadier"},
        GS_REFUSED("timeout", "profile has one worker, which waits for nobody"),
        GS_REFUSED("bind", "profile has one worker, which is bound to no core"),
        GS_REFUSED("zero", "profile has one worker; gradsum step --zero 3 -o FILE shows what several send"),
        GS_REFUSED("layout",
                   "profile has one worker; gradsum step --layout dp2,tp2 -o FILE shows what several send"),
        GS_REFUSED("pipeline", "profile has one worker; gradsum step --pipeline 2 -o FILE shows several"),
        GS_REFUSED("tensor", "profile has one worker; gradsum step --tensor 2 -o FILE shows several"),
        GS_REFUSED("load", "profile learns nothing; the weights do not matter"),
        GS_REFUSED("mean", "profile learns nothing; how images are scaled does not matter"),
        GS_REFUSED("std", "profile learns nothing; how images are scaled does not matter"),
        {"plain", GS_OPTION_FLAG, &q.plain, 0, 0, NULL,
         "also time each layer's plain loop (cpu/plain), on one core, to show what the rest of cpu/ gains"},
        {"json", GS_OPTION_FLAG, &q.json, 0, 0, NULL, "one JSON object"},
        {0},
    };
    const gs_option *options = gs_run_options(&q.settings, GS_ALL_RUNS, own);
    const gs_help help = {"profile [options]",
                          "Measure where training time goes. First the loader and the training step, each\n"
                          "alone: the slower of the two bounds a run. Then each layer, forward and\n"
                          "backward: its time, and how close it comes to the peak of the device.",
                          "gradsum profile --model lenet --device cpu --threads 1", NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    return gs_exit_status("profile", answer(&q));
}
