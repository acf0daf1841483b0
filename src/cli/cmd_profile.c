#include "cli/cli.h"
#include "io/json.h"
#include "train/profile/profile_calls.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* gradsum profile with a layout: beside what one worker takes alone, what several send each other. */

enum { WORKERS = 64 }; /* of a layout, at most */

typedef struct profile_layout {
    bool wanted;
    char name[GS_LAYOUT_TEXT]; /* "dp2,zero3" */
    gs_profile_calls calls;
} profile_layout;

/* Is there one in these settings? Settles it. workers: 0, or as --workers says. GS_E_USAGE: options that need a
 * layout, without one. */
static gs_status settle_layout(gs_settings *s, int workers, int argc, char **argv, profile_layout *l) {
    static const char *const options[] = {"workers",           "bind",         "timeout",      "sequence",
                                          "pipeline-schedule", "pipeline-cut", "micro-batches"};
    *l = (profile_layout){.wanted = s->layout || s->zero || s->pipeline || s->tensor};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (!l->wanted && gs_option_is_given(options[i], argc, argv))
            return gs_fail(
                GS_E_USAGE,
                "--%s is for several workers, and profile has one; wanted a layout with it: --zero 1 "
                "to 3, --pipeline P, --tensor T, or --layout LIST",
                options[i]);
    GS_TRY(gs_layout_settle(s));
    if (!l->wanted) return GS_OK;
    const gs_layout layout = gs_layout_of(s, gs_layout_workers(s, workers));
    gs_layout_text(&layout, l->name);
    return GS_OK;
}

/* The same settings for one worker, on the first device. device: room for its name. */
static gs_status settings_alone(const gs_settings *s, char device[48], gs_settings *one) {
    GS_TRY(gs_devices_name(s->devices, 0, device));
    *one = *s;
    one->devices = device;
    one->layout = one->pipeline_schedule = one->pipeline_cut = NULL;
    one->zero = one->pipeline = one->tensor = one->micro_batches = 0;
    one->sequence = false;
    return GS_OK;
}

/* Make the run. Fails as gs_train would. */
static gs_status run_layout(const gs_settings *settings, int workers, profile_layout *l) {
    gs_settings s = *settings;
    char *devices = NULL;
    GS_TRY(gs_devices_for(&s, gs_layout_workers(&s, workers), WORKERS, &devices));
    s.devices = devices;
    const gs_status status = gs_context(gs_profile_calls_run(&s, &l->calls), "--layout %s", l->name);
    free(devices);
    return status;
}

static double percent(double part, double of) {
    return of > 0 ? 100 * part / of : 0;
}

static void print_layout(const profile_layout *l) {
    const gs_profile_calls *c = &l->calls;
    double seconds = 0, bytes = 0, hidden = 0;
    printf("\n");
    gs_print_fact("layout", "%s: what each of %d workers sends in a step, the mean of %d steps", l->name,
                  c->workers, c->steps);
    printf("\n");
    printf("%-28s %7s %9s %9s %9s\n", "", "calls", "ms", "MB sent", "hidden");
    for (int i = 0; i < GS_PROFILE_ACTS; i++) {
        if (!(c->act[i].calls > 0)) continue;
        printf("%-28s %7.1f %9.3f %9.3f %7.0f %%\n", gs_profile_act_names[i], c->act[i].calls,
               1e3 * c->act[i].seconds, c->act[i].bytes / 1e6, percent(c->act[i].hidden, c->act[i].seconds));
        seconds += c->act[i].seconds;
        bytes += c->act[i].bytes;
        hidden += c->act[i].hidden;
    }
    printf("%-28s %7s %9.3f %9.3f %7.0f %%\n\n", "all", "", 1e3 * seconds, bytes / 1e6,
           percent(hidden, seconds));
    char text[160];
    snprintf(text, sizeof text,
             "Layers take %.3f ms of a step of %.3f ms. Hidden: while the worker computes a layer; what it "
             "sends itself is not.",
             1e3 * c->layers, 1e3 * c->step);
    gs_print_wrapped(0, text);
}

static cJSON *json_layout(const profile_layout *l) {
    const gs_profile_calls *c = &l->calls;
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("layout", l->name), GS_FIELD("workers", c->workers),
                              GS_FIELD("steps", c->steps), GS_FIELD("step_seconds", c->step),
                              GS_FIELD("layers_seconds", c->layers));
    cJSON *calls = cJSON_AddArrayToObject(o, "calls");
    for (int i = 0; i < GS_PROFILE_ACTS; i++)
        if (c->act[i].calls > 0)
            cJSON_AddItemToArray(calls, GS_JSON_OBJECT(GS_FIELD("what", gs_profile_act_names[i]),
                                                       GS_FIELD("calls", c->act[i].calls),
                                                       GS_FIELD("seconds", c->act[i].seconds),
                                                       GS_FIELD("bytes", c->act[i].bytes),
                                                       GS_FIELD("hidden_seconds", c->act[i].hidden)));
    return o;
}

static const char *const directions[GS_DIRECTIONS] = {"forward", "backward"};

static const char *const precisions[GS_PRECISIONS] = {"f32", "bf16", "f16"};

/* ---- text ---- */

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
    if (!isnan(p->decoded)) {
        printf("decoding       %13s pictures/s a core", gs_thousands(p->decoded));
        if (isnan(p->cached))
            printf("; --cache memory shows what a cache brings\n\n");
        else
            printf("; from the cache %s\n\n", gs_thousands(p->cached));
    }
    char verdict[400];
    gs_profile_verdict(p, verdict, sizeof verdict);
    printf("%s\n\n", verdict);
    if (*p->busy) gs_print_fact("busy", "%s\n", p->busy);
}

/* "  0.123   104   1.23  12  80"; nothing where nothing is done */
static void print_cell(const gs_profile_cell *c, double all_seconds, bool last) {
    if (!(c->bytes > 0)) {
        printf("%*s", last ? 0 : 29, "");
        return;
    }
    /* A busy machine can make a time too small, or negative: it is the difference of two. Columns keep their widths. */
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

/* "    12.345    0.123   100"; nothing where nothing is done */
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

/* ---- JSON ---- */

static void add_cell(cJSON *o, const char *name, const gs_profile_cell *c, const double *plain) {
    cJSON *cell = cJSON_AddObjectToObject(o, name);
    GS_JSON_ADD(cell, GS_FIELD("seconds", c->seconds), GS_FIELD("flops", c->flops),
                GS_FIELD("bytes", c->bytes), GS_FIELD("least_seconds", c->least));
    if (plain) cJSON_AddNumberToObject(cell, "plain_seconds", *plain);
}

static void print_json(const gs_profile *p, bool plain, const profile_layout *l) {
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
                GS_FIELD("decoded_per_s", p->decoded), GS_FIELD("cached_per_s", p->cached),
                GS_FIELD("bound", p->loader < p->step ? "loader" : "step"));
    if (*p->busy) cJSON_AddStringToObject(o, "busy", p->busy);
    cJSON *rows = cJSON_AddArrayToObject(o, "layers");
    for (int i = 0; i < p->row_count; i++) {
        cJSON *row = GS_JSON_OBJECT(GS_FIELD("name", p->rows[i].name), GS_FIELD("what", p->rows[i].what));
        for (int k = 0; k < GS_DIRECTIONS; k++)
            add_cell(row, directions[k], &p->rows[i].cell[k], plain ? &p->rows[i].plain[k] : NULL);
        cJSON_AddItemToArray(rows, row);
    }
    if (l->wanted) cJSON_AddItemToObject(o, "layout", json_layout(l));
    gs_json_print(o);
}

/* ---- the command ---- */

typedef struct question {
    gs_settings settings;
    int workers;    /* of a layout; 0: as many as it needs */
    double seconds; /* that each measurement takes */
    bool plain, json;
} question;

static gs_status answer(question *q, int argc, char **argv) {
    gs_settings one;
    gs_profile profile;
    profile_layout layout;
    char device[48];
    GS_TRY(settle_layout(&q->settings, q->workers, argc, argv, &layout));
    one = q->settings;
    if (layout.wanted) {
        if (!q->json) gs_working(NULL, 0, "running %s, to measure its messages", layout.name);
        GS_TRY(run_layout(&q->settings, q->workers, &layout));
        GS_TRY(settings_alone(&q->settings, device, &one));
    }
    if (!q->json) gs_working(NULL, 0, "measuring the loader and the step, then each layer");
    GS_TRY(gs_profile_run(&one, q->seconds, &profile));
    const gs_status status = q->plain ? gs_profile_plain(&one, q->seconds, &profile) : GS_OK;
    gs_working(NULL, 0, NULL);
    if (status != GS_OK) {
        gs_profile_free(&profile);
        return status;
    }
    if (q->json) {
        print_json(&profile, q->plain, &layout);
    } else {
        print_speeds(&profile);
        print_rows(&profile);
        if (q->plain) print_plain(&profile);
        if (layout.wanted) print_layout(&layout);
    }
    gs_profile_free(&profile);
    return GS_OK;
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
        GS_RUN_OPTION("devices", "of a layout: one worker on each"),
        GS_RUN_OPTION("layout",
                      "after the layers of one worker: what the workers of such a layout send each other"),
        GS_RUN_OPTION("zero",
                      "the same with --zero 1, 2 or 3; of stages 2 and 3 most is hidden behind layers"),
        GS_RUN_OPTION("batch-norm", NULL),
        {"workers", GS_OPTION_INT, &q.workers, 1, WORKERS, "N",
         "of a layout: how many share the run (default: as many as it needs)"},
        {"seconds", GS_OPTION_DOUBLE, &q.seconds, 0.01, 60, "S",
         "how long each measurement takes; the longer, the steadier"},
        GS_REFUSED("load", "profile learns nothing; the weights do not matter"),
        GS_REFUSED("mean", "profile learns nothing; how images are scaled does not matter"),
        GS_REFUSED("std", "profile learns nothing; how images are scaled does not matter"),
        {"plain", GS_OPTION_FLAG, &q.plain, 0, 0, NULL,
         "also time each layer's plain loop (cpu/plain), on one core, to show what the rest of cpu/ gains"},
        {"json", GS_OPTION_FLAG, &q.json, 0, 0, NULL, "one JSON object"},
        {0},
    };
    const gs_option *options = gs_run_options(&q.settings, GS_BY_PROFILE, own);
    const gs_help help = {"profile [options]",
                          "Measure where training time goes. First the loader and the training step, each\n"
                          "alone: the slower of the two bounds a run. Then each layer, forward and\n"
                          "backward: its time, and how near it comes to what the device could do at most.",
                          "gradsum profile --model lenet --device cpu --threads 1", NULL};
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    return gs_exit_status("profile", answer(&q, argc, argv));
}
