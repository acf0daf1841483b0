#include "cli/draw/chart.h"
#include "cli/cli.h"
#include "cli/draw/sweep_page.h"
#include "core/decimal.h"
#include "io/file.h"
#include "page/report.h"
#include "train/sweep.h"
#include "io/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- JSON: one object a line ---- */

static uint64_t base_batch_of(const gs_settings *s) {
    return s->base_batch ? s->base_batch : GS_BASE_BATCH;
}

static void json_start(const gs_sweep *w) {
    const gs_settings *s = &w->settings;
    cJSON *o = GS_JSON_OBJECT(
        GS_FIELD("event", "start"), GS_FIELD("version", GRADSUM_VERSION), GS_FIELD("model", s->model),
        GS_FIELD("data", s->data), GS_FIELD("train_samples", w->samples), GS_FIELD("devices", s->devices),
        GS_FIELD("sync", s->sync), GS_FIELD("jobs", w->jobs), GS_FIELD("threads", s->threads),
        GS_FIELD("target_accuracy", w->target), GS_FIELD("epochs", s->epochs),
        GS_FIELD("tests_an_epoch", GS_SWEEP_TESTS), GS_FIELD("seed", s->seed),
        GS_FIELD("lr", gs_decimal(s->lr)), GS_FIELD("lr_rule", gs_lr_rule_name(s->lr_rule)),
        GS_FIELD("base_batch", base_batch_of(s)), GS_FIELD("warmup_epochs", s->warmup),
        GS_FIELD("momentum", gs_decimal(s->momentum)), GS_FIELD("weight_decay", gs_decimal(s->weight_decay)));
    cJSON *batches = cJSON_AddArrayToObject(o, "batches");
    for (int i = 0; i < w->count; i++) cJSON_AddItemToArray(batches, GS_JSON(w->run[i].batch));
    gs_json_print(o);
}

static double epochs_of(const gs_sweep *w, const gs_sweep_run *r, uint64_t step) {
    size_t an_epoch = (w->samples + r->batch - 1) / r->batch;
    return (double)step / (double)an_epoch;
}

static void json_run(const gs_sweep *w, const gs_sweep_run *r) {
    cJSON *o = GS_JSON_OBJECT(
        GS_FIELD("event", "run"), GS_FIELD("batch", r->batch), GS_FIELD("workers", r->result.workers),
        GS_FIELD("lr_first", gs_decimal((float)r->rates.first)),
        GS_FIELD("lr_scaled", gs_decimal((float)r->rates.scaled)), GS_FIELD("warmup_steps", r->rates.warmup),
        GS_FIELD("reached", r->reached), GS_FIELD("diverged", r->diverged),
        GS_FIELD("steps_to_target", r->reached ? (double)r->at.step : NAN),
        GS_FIELD("epochs_to_target", r->reached ? epochs_of(w, r, r->at.step) : NAN),
        GS_FIELD("seconds_to_target", r->reached ? r->at.seconds : NAN), GS_FIELD("steps", r->result.steps),
        GS_FIELD("train_loss", r->result.train_loss), GS_FIELD("test_loss", r->result.test_loss),
        GS_FIELD("test_accuracy", r->result.test_accuracy),
        GS_FIELD("samples_per_s", r->result.samples_per_s));
    cJSON *curve = cJSON_AddArrayToObject(o, "tests");
    for (size_t i = 0; i < r->count; i++) {
        cJSON_AddItemToArray(curve, GS_JSON_OBJECT(GS_FIELD("step", r->tests[i].step),
                                                   GS_FIELD("seconds", r->tests[i].seconds),
                                                   GS_FIELD("test_loss", r->tests[i].loss),
                                                   GS_FIELD("test_accuracy", r->tests[i].accuracy)));
    }
    gs_json_print(o);
}

static void json_end(int whole, bool interrupted) {
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("event", "end"), GS_FIELD("runs", whole),
                              GS_FIELD("interrupted", interrupted));
    gs_json_print(o);
}

/* ---- the table: at most 60 columns, and a word more where there are 70 ---- */

static void text_start(const gs_sweep *w) {
    const gs_settings *s = &w->settings;
    printf("model    %s on %s, %s\n", s->model ? s->model : "mlp", s->data, s->devices);
    printf("rate     lr %g", (double)s->lr);
    if (s->lr_rule != GS_LR_NONE)
        printf(" at batch %llu, %s rule", (unsigned long long)base_batch_of(s), gs_lr_rule_name(s->lr_rule));
    if (s->lr_rule != GS_LR_NONE && s->warmup > 0) printf(", warm-up %g epochs", s->warmup);
    char target[40];
    snprintf(target, sizeof target, "to %g %% accuracy", 100 * w->target);
    printf("\n\n%7s %8s  %22s %8s\n", "", "", target, "final");
    printf("%7s %8s  %6s %7s %7s %8s %10s\n", "batch", "lr", "steps", "epochs", "seconds", "test %",
           "samples/s");
    fflush(stdout);
}

static void text_run(const gs_sweep *w, const gs_sweep_run *r, const gs_screen *screen) {
    printf("%7zu %8.4g  ", r->batch, r->rates.scaled);
    if (r->reached)
        printf("%6llu %7.2f %7.2f", (unsigned long long)r->at.step, epochs_of(w, r, r->at.step),
               r->at.seconds);
    else
        printf("%6s %7s %7s", r->diverged ? "NaN" : "never", "-", "-");
    printf(" %8.2f %10s", 100 * r->result.test_accuracy, gs_thousands(r->result.samples_per_s));
    if (screen->width >= 72 && (r->diverged || !r->reached))
        printf("  %s", r->diverged ? "diverged" : "not reached");
    printf("\n");
    fflush(stdout);
}

/* What the numbers mean. */
static void text_notes(const gs_sweep *w, int never, int diverged) {
    const gs_settings *s = &w->settings;
    int threads = gs_way_of(s)->one_thread ? 1 : s->threads,
        all = threads * gs_devices_count(s->devices) * w->jobs;
    printf("\nseconds: training only; the test set was evaluated\n%d times per epoch.", GS_SWEEP_TESTS);
    if (never > 0) printf(" never: not within %d epoch%s.", s->epochs, gs_s(s->epochs));
    if (diverged > 0) printf(" NaN: the loss is not a number.");
    printf("\n");
    if (w->jobs == 1) return;
    printf("%d runs side by side, %d thread%s per worker: seconds and\nsamples/s come from runs that shared "
           "the machine",
           w->jobs, threads, gs_s((unsigned)threads));
    if (all > gs_cpu_cores())
        printf(",\nwith %d threads on %d core%s: longer than alone", all, gs_cpu_cores(),
               gs_s(gs_cpu_cores()));
    printf(".\n");
}

static void text_chart(const gs_sweep *w, const gs_screen *screen) {
    gs_chart_point points[GS_SWEEP_MOST];
    int count = 0, never = 0, diverged = 0;
    char title[80];
    for (int i = 0; i < w->count; i++) {
        const gs_sweep_run *r = &w->run[i];
        if (!r->ran) continue;
        points[count++] = (gs_chart_point){(double)r->batch, r->reached ? (double)r->at.step : INFINITY};
        never += !r->reached && !r->diverged;
        diverged += r->diverged;
    }
    if (count == 0) return;
    text_notes(w, never, diverged);
    snprintf(title, sizeof title, "steps to %g %% by global batch (both axes logarithmic)", 100 * w->target);
    printf("\n");
    gs_chart_draw(stdout, screen,
                  &(gs_chart){title, "ideal: twice the batch, half the steps", "not reached, or diverged",
                              points, count});
}

/* ---- the command ---- */

typedef struct shown {
    bool json;
    const char *report; /* the page, or NULL */
    int argc;
    char **argv;
    gs_screen screen;
    gs_progress progress;
    gs_observer observer;
    int whole; /* runs */
} shown;

/* For the bar: which batch is trained now, and how many remain after it. */
static void name_run(shown *s, const gs_sweep *w) {
    if (s->whole == w->count) return;
    snprintf(s->progress.run, sizeof s->progress.run, "batch %zu, %d to come: ", w->run[s->whole].batch,
             w->count - s->whole - 1);
}

static void on_done(void *context, const gs_sweep *w, const gs_sweep_run *r) {
    shown *s = context;
    s->whole++;
    gs_progress_clear(&s->progress);
    name_run(s, w);
    if (s->json)
        json_run(w, r);
    else
        text_run(w, r, &s->screen);
}

static gs_status count_samples(gs_sweep *w) {
    gs_dataset *set;
    GS_TRY(gs_dataset_load(w->settings.data, GS_TRAIN, &set));
    w->samples = set->count;
    gs_dataset_free(set);
    return GS_OK;
}

static gs_status sweep(gs_sweep *w, shown *s) {
    s->observer = gs_progress_observer(&s->progress);
    w->observer = &s->observer;
    w->done = on_done;
    w->context = s;
    gs_stop_on_signals();
    GS_TRY(gs_sweep_prepare(w));
    name_run(s, w);
    s->json ? json_start(w) : text_start(w);
    gs_status status = gs_sweep_train(w);
    gs_progress_clear(&s->progress);
    if (s->json)
        json_end(s->whole, gs_stop_requested);
    else
        text_chart(w, &s->screen);
    if (status == GS_OK && s->report && s->whole > 0) {
        GS_TRY(gs_sweep_page(w, s->report, s->argc, s->argv));
        if (!s->json) printf("\n%s: open it in a browser\n", s->report);
    }
    if (status == GS_OK && s->whole < w->count)
        return gs_fail(GS_E_INTERRUPTED, "stopped by a signal after %d of %d run%s", s->whole, w->count,
                       gs_s((unsigned)w->count));
    return status;
}

static const gs_help help = {
    "sweep --batch LIST [options]",
    "Train once with each global batch, and show how many steps and seconds each\n"
    "needs to reach a target, as a table and as a chart. \"32,64,...,2048\" continues\n"
    "by the same factor. --lr is the rate for a batch of --base-batch; --lr-rule says\n"
    "what it becomes for the others. --jobs divides the cores among concurrent runs.",
    "gradsum sweep --batch 32,64,...,2048 --lr-rule linear --warmup 1 --target 80", NULL};

int gs_cmd_sweep(int argc, char **argv) {
    static gs_sweep w; /* large */
    shown s = {.argc = argc, .argv = argv, .progress = {.settings = &w.settings, .parts = 1}};
    const char *batches = NULL;
    double target = 80;
    int exit_status;
    w = (gs_sweep){.settings = gs_settings_default(), .jobs = 1};
    w.settings.epochs = 10;
    const gs_option own[] = {
        {"batch", GS_OPTION_TEXT, &batches, 0, 0, "LIST", "the global batches: 32,64,...,2048"},
        {"target", GS_OPTION_DOUBLE, &target, 1, 100, "ACC", "target test accuracy in percent"},
        {"jobs", GS_OPTION_INT, &w.jobs, 1, GS_SWEEP_MOST, "J", "runs side by side, on cpu"},
        {"report", GS_OPTION_TEXT, &s.report, 0, 0, "FILE", "also write a page (.html) of all runs"},
        GS_REFUSED("save",
                   "sweep keeps no weights; to keep those of one batch, use train --batch B --save FILE"),
        {"json", GS_OPTION_FLAG, &s.json, 0, 0, NULL, "one JSON object per line"},
        {0},
    };
    const gs_option *options = gs_run_options(&w.settings, true, own);
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    gs_status status =
        batches ? count_samples(&w)
                : gs_fail(GS_E_USAGE, "--batch LIST is required: the global batches, such as 32,64,...,2048");
    if (status == GS_OK) status = gs_sweep_batches(&w, batches);
    w.target = target / 100;
    s.screen = gs_screen_of(stdout);
    s.progress.json = s.json || w.jobs > 1; /* no bar where several runs go */
    if (status == GS_OK && s.report) status = gs_file_check_target(s.report);
    if (status == GS_OK) status = sweep(&w, &s);
    gs_sweep_free(&w);
    return status == GS_OK ? GS_EXIT_OK : gs_failed("sweep", status);
}
