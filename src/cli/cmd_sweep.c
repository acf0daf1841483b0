#include "cli/cli.h"
#include "core/units.h"
#include "io/json.h"
#include "page/report.h"
#include "train/sweep.h"

#include <inttypes.h>
#include <math.h>

/* ---- JSON: one object per line ---- */

static uint64_t base_batch_of(const gs_settings *s) {
    return s->base_batch ? s->base_batch : GS_BASE_BATCH;
}

static void json_start(const gs_sweep *w) {
    const gs_settings *s = &w->settings;
    const gs_hyperparameters n = gs_settings_numbers(s);
    char schedule[GS_LR_SCHEDULE_TEXT];
    cJSON *o = GS_JSON_OBJECT(
        GS_FIELD("event", "start"), GS_FIELD("version", GRADSUM_VERSION), GS_FIELD("model", s->model),
        GS_FIELD("data", s->data), GS_FIELD("train_samples", w->samples), GS_FIELD("devices", s->devices),
        GS_FIELD("sync", s->sync), GS_FIELD("threads", s->threads), GS_FIELD("target_accuracy", w->target),
        GS_FIELD("epochs", s->epochs), GS_FIELD("tests_an_epoch", GS_SWEEP_TESTS), GS_FIELD("seed", s->seed),
        GS_FIELD("seeds", w->seeds), GS_FIELD("optimizer", s->optimizer->name),
        GS_FIELD("lr", gs_decimal(n.lr)), GS_FIELD("lr_rule", gs_lr_rule_name(s->lr_rule)),
        GS_FIELD("base_batch", base_batch_of(s)), GS_FIELD("warmup_epochs", s->warmup),
        GS_FIELD("schedule", gs_lr_schedule_text(&s->schedule, schedule, sizeof schedule)),
        GS_FIELD("final_lr", isnan(s->final_lr) ? 0 : gs_decimal(s->final_lr)),
        GS_FIELD("momentum", gs_decimal(n.momentum)), GS_FIELD("weight_decay", gs_decimal(n.weight_decay)));
    cJSON *batches = cJSON_AddArrayToObject(o, "batches");
    for (int i = 0; i < w->batches; i++) cJSON_AddItemToArray(batches, GS_JSON(w->batch[i]));
    gs_json_print(o);
}

enum { NAME = 64 };

/* "batch 64", or with several seeds "batch 64, seed 3" */
static const char *name_of(const gs_sweep *w, const gs_sweep_run *r, char name[NAME]) {
    snprintf(name, NAME, "batch %zu", r->batch);
    if (w->seeds > 1) gs_append(name, NAME, ", seed %" PRIu64, r->seed);
    return name;
}

static double epochs_of(const gs_sweep *w, const gs_sweep_run *r, uint64_t step) {
    size_t an_epoch = (w->samples + r->batch - 1) / r->batch;
    return (double)step / (double)an_epoch;
}

static void json_run(const gs_sweep *w, const gs_sweep_run *r) {
    cJSON *o = GS_JSON_OBJECT(
        GS_FIELD("event", "run"), GS_FIELD("batch", r->batch), GS_FIELD("seed", r->seed),
        GS_FIELD("workers", r->result.workers), GS_FIELD("lr_first", gs_decimal(gs_lr_of_step(&r->rates, 0))),
        GS_FIELD("lr_scaled", gs_decimal((float)r->rates.plan.scaled)),
        GS_FIELD("warmup_steps", r->rates.warmup), GS_FIELD("reached", r->reached),
        GS_FIELD("diverged", r->diverged), GS_FIELD("steps_to_target", r->reached ? (double)r->at.step : NAN),
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

static cJSON *json_spread(gs_spread s) {
    return GS_JSON_OBJECT(GS_FIELD("median", s.median), GS_FIELD("least", s.least), GS_FIELD("most", s.most));
}

/* One batch size with all its seeds; this object is also a row of the page (report_sweep.js). */
static cJSON *json_line(const gs_sweep_line *l) {
    return GS_JSON_OBJECT(GS_FIELD("event", "batch"), GS_FIELD("batch", l->batch),
                          GS_FIELD("lr", gs_decimal((float)l->rates.plan.scaled)), GS_FIELD("runs", l->runs),
                          GS_FIELD("reached", l->reached), GS_FIELD("diverged", l->diverged),
                          GS_FIELD("steps_to_target", json_spread(l->steps)),
                          GS_FIELD("epochs_to_target", json_spread(l->epochs)),
                          GS_FIELD("seconds_to_target", json_spread(l->seconds)),
                          GS_FIELD("test_accuracy", json_spread(l->accuracy)),
                          GS_FIELD("samples_per_s", json_spread(l->samples_per_s)));
}

/* ---- the table: at most 60 columns, and a note after them on a screen of 72 columns ---- */

static void one_head(const gs_sweep *w) {
    char target[40];
    snprintf(target, sizeof target, "to %g %% accuracy", 100 * w->target);
    printf("%7s %8s  %22s %8s\n", "", "", target, "final");
    printf("%7s %8s  %6s %7s %7s %8s %10s\n", "batch", "lr", "steps", "epochs", "seconds", "test %",
           "samples/s");
}

static void text_run(const gs_sweep *w, const gs_sweep_run *r) {
    printf("%7zu %8.4g  ", r->batch, r->rates.plan.scaled);
    if (r->reached)
        printf("%6llu %7.2f %7.2f", (unsigned long long)r->at.step, epochs_of(w, r, r->at.step),
               r->at.seconds);
    else
        printf("%6s %7s %7s", r->diverged ? "NaN" : "never", "-", "-");
    printf(" %8.2f %10s", 100 * r->result.test_accuracy, gs_thousands(r->result.samples_per_s));
    if (gs_screen_width(stdout) >= 72 && (r->diverged || !r->reached))
        printf("  %s", r->diverged ? "diverged" : "not reached");
    printf("\n");
    fflush(stdout);
}

/* ---- the table of several seeds: a line for each batch, with medians ---- */

enum { WITH_SECONDS = 72 /* columns */ };

static void seeds_head(const gs_sweep *w) {
    char target[60];
    bool seconds = gs_screen_width(stdout) >= WITH_SECONDS;
    snprintf(target, sizeof target, "to %g %% accuracy, %d seeds", 100 * w->target, w->seeds);
    printf("%7s %8s %33s%s %8s\n", "", "", target, seconds ? "        " : "", "final");
    printf("%7s %8s %7s %6s %11s %7s%s %8s\n", "batch", "lr", "reached", "steps", "least-most", "epochs",
           seconds ? " seconds" : "", "test %");
}

static void text_line(const gs_sweep_line *l) {
    char reached[32], steps[32] = "never", range[48] = "-", epochs[32] = "-", seconds[32] = "-";
    snprintf(reached, sizeof reached, "%d/%d", l->reached, l->runs);
    if (l->reached > 0) snprintf(range, sizeof range, "%.0f-%.0f", l->steps.least, l->steps.most);
    if (isfinite(l->steps.median)) {
        snprintf(steps, sizeof steps, "%.7g", l->steps.median);
        snprintf(epochs, sizeof epochs, "%.2f", l->epochs.median);
        snprintf(seconds, sizeof seconds, "%.2f", l->seconds.median);
    }
    printf("%7zu %8.4g %7s %6s %11s %7s", l->batch, l->rates.plan.scaled, reached, steps, range, epochs);
    if (gs_screen_width(stdout) >= WITH_SECONDS) printf(" %7s", seconds);
    printf(" %8.2f", 100 * l->accuracy.median);
    if (gs_screen_width(stdout) >= GS_SCREEN_DEFAULT && l->diverged > 0) printf(" %d diverged", l->diverged);
    printf("\n");
    fflush(stdout);
}

static void text_start(const gs_sweep *w) {
    char schedule[GS_LR_SCHEDULE_TEXT];
    const gs_settings *s = &w->settings;
    gs_print_line("model    %s on %s, %s", s->model ? s->model : "mlp", s->data, s->devices);
    printf("rate     lr %g", (double)gs_settings_numbers(s).lr);
    if (s->lr_rule != GS_LR_NONE)
        printf(" at batch %llu, %s rule", (unsigned long long)base_batch_of(s), gs_lr_rule_name(s->lr_rule));
    if (s->warmup > 0) printf(", warm-up %g epochs", s->warmup);
    if (s->warmup_steps) printf(", warm-up %" PRIu64 " steps", s->warmup_steps);
    if (s->schedule.kind != GS_SCHEDULE_CONSTANT)
        printf(", %s", gs_lr_schedule_text(&s->schedule, schedule, sizeof schedule));
    printf("\n\n");
    w->seeds > 1 ? seeds_head(w) : one_head(w);
    fflush(stdout);
}

static void text_notes(const gs_sweep *w) {
    const gs_settings *s = &w->settings;
    int never = 0, diverged = 0;
    for (int i = 0; i < w->count; i++) {
        const gs_sweep_run *r = &w->run[i];
        never += r->ran && !r->reached && !r->diverged;
        diverged += r->ran && r->diverged;
    }
    if (w->seeds > 1) {
        printf("\nseeds %llu to %llu. steps, epochs, test %%: the median; a run\n"
               "that did not reach the target in %d epoch%s counts as the\n"
               "slowest. least-most: of those that did. The test set was\nevaluated %d times per epoch.\n",
               (unsigned long long)s->seed, (unsigned long long)s->seed + (unsigned)w->seeds - 1, s->epochs,
               gs_s((unsigned)s->epochs), GS_SWEEP_TESTS);
        return;
    }
    printf("\nseconds: training only; the test set was evaluated\n%d times per epoch.", GS_SWEEP_TESTS);
    if (never > 0) printf(" never: not within %d epoch%s", s->epochs, gs_s(s->epochs));
    if (never > 0 && s->steps) printf(", or %llu steps", (unsigned long long)s->steps);
    if (never > 0) printf(".");
    if (diverged > 0) printf(" NaN: the loss is not a number.");
    printf("\n");
}

/* ---- the page ---- */

/* `sweep -o`: the table, a chart of the steps, and one curve per batch. With several seeds, the curve shows the
 * run with the median number of steps. */
static void add_devices(cJSON *about, const gs_settings *s) {
    cJSON *devices = cJSON_AddArrayToObject(about, "devices");
    char name[48];
    for (int i = 0; i < gs_devices_count(s->devices); i++)
        if (gs_devices_name(s->devices, i, name) == GS_OK)
            cJSON_AddItemToArray(
                devices, GS_JSON_OBJECT(GS_FIELD("worker", i), GS_FIELD("device", (const char *)name)));
}

/* Describe the run as a log's run.json does; lr is the scaled rate. */
static cJSON *about(const gs_sweep *w, const gs_sweep_run *r) {
    gs_settings s = gs_settings_with_numbers(&w->settings, r->batch);
    s.batch = r->batch;
    s.seed = r->seed;
    if (s.lr_rule != GS_LR_NONE) s.base_batch = base_batch_of(&s);
    s.lr = (float)r->rates.plan.scaled;
    cJSON *ended =
        GS_JSON_OBJECT(GS_FIELD("why", r->diverged ? "diverged" : "done"), GS_FIELD("steps", r->result.steps),
                       GS_FIELD("test_accuracy", gs_report_number(r->result.test_accuracy)));
    cJSON *o =
        GS_JSON_OBJECT(GS_FIELD("program", "gradsum " GRADSUM_VERSION),
                       GS_FIELD("host_cores", gs_cpu_cores()), GS_FIELD("model", s.model ? s.model : "mlp"),
                       GS_FIELD("workers", r->result.workers), GS_FIELD("ended", ended));
    gs_run_options_json(&s, GS_JSON_LOG, o);
    add_devices(o, &s);
    return o;
}

static gs_status add_run(cJSON *report, const gs_sweep *w, const gs_sweep_run *r) {
    gs_logged log = gs_logged_empty();
    char name[NAME];
    gs_status status = GS_OK;
    for (size_t i = 0; i < r->count && status == GS_OK; i++) {
        double *row = gs_logged_row(&log.epochs);
        if (!row) {
            status = gs_fail(GS_E_MEMORY, "no memory for the curves of batch %zu", r->batch);
            break;
        }
        row[GS_LOGGED_STEP] = (double)r->tests[i].step;
        row[GS_LOGGED_TIME] = r->tests[i].seconds;
        row[GS_LOGGED_TEST_LOSS] = r->tests[i].loss;
        row[GS_LOGGED_TEST_ACCURACY] = r->tests[i].accuracy;
    }
    log.run = about(w, r);
    if (status == GS_OK) status = gs_report_add(report, name_of(w, r, name), &log, w->batches);
    gs_logged_free(&log);
    GS_TRY(status);
    cJSON_ReplaceItemInObject(gs_report_last(report), "samples_per_s",
                              gs_report_number(r->result.samples_per_s));
    return GS_OK;
}

static gs_status write_page(const gs_sweep *w, const char *path, int argc, char *const *argv) {
    cJSON *report = gs_report_create(argc, argv), *sweep = cJSON_AddObjectToObject(report, "sweep");
    cJSON *runs = cJSON_AddArrayToObject(sweep, "runs");
    gs_status status = GS_OK;
    cJSON_AddItemToObject(sweep, "target", gs_report_number(w->target));
    cJSON_AddItemToObject(sweep, "seeds", GS_JSON(w->seeds));
    for (int i = 0; i < w->batches && status == GS_OK; i++) {
        gs_sweep_line line = gs_sweep_line_of(w, i);
        if (line.runs == 0) continue;
        cJSON_AddItemToArray(runs, json_line(&line));
        status = add_run(report, w, line.middle); /* one curve per batch: more would hide each other */
    }
    if (status == GS_OK) status = gs_report_write(report, "gradsum: a sweep over the global batch", path);
    cJSON_Delete(report);
    return status;
}

typedef struct shown {
    bool json;
    const char *report; /* the page's path, or NULL */
    int argc;
    char **argv;
    const gs_sweep *sweep;
    gs_shown_run now; /* now.run: the number of completed runs */
    char name[NAME];  /* of the run: now.what */
    gs_observer observer;
    bool began; /* the head has been shown */
    bool ended; /* the last JSON line has been printed */
    int lines;  /* lines shown so far, one per batch, if there are several seeds */
} shown;

/* Show the lines of all batches before `end` that are not shown yet. After a signal, a batch may lack some seeds. */
static void show_lines(shown *s, const gs_sweep *w, int end) {
    for (; s->lines < end; s->lines++) {
        gs_sweep_line line = gs_sweep_line_of(w, s->lines);
        if (line.runs > 0) s->json ? gs_json_print(json_line(&line)) : text_line(&line);
    }
}

static void show_head(shown *s) {
    if (!s->began) s->json ? json_start(s->sweep) : text_start(s->sweep);
    s->began = true;
}

/* Print the head only at the first step: until then the runs may be rejected. */
static void on_step(void *context, int epoch, uint64_t done, uint64_t of, const gs_score *score) {
    shown *s = context;
    show_head(s);
    if (s->json) return;
    s->now.what = name_of(s->sweep, &s->sweep->run[s->now.run], s->name);
    gs_show_run(&s->now, epoch, done, of, score);
}

static void on_done(void *context, const gs_sweep *w, const gs_sweep_run *r) {
    shown *s = context;
    s->now.run++;
    gs_show_activity(NULL, 0, NULL);
    if (s->json)
        json_run(w, r);
    else if (w->seeds == 1)
        text_run(w, r);
    int i = (int)(r - w->run);
    if (w->seeds > 1 && i % w->seeds == w->seeds - 1) show_lines(s, w, i / w->seeds + 1);
}

static gs_status count_samples(gs_sweep *w) {
    gs_dataset *set;
    GS_TRY(gs_load_set(&w->settings, GS_TRAIN, &set));
    w->samples = set->count;
    gs_dataset_free(set);
    return GS_OK;
}

static gs_status sweep(gs_sweep *w, shown *s) {
    s->observer = (gs_observer){.context = s, .step = on_step};
    s->sweep = w;
    w->observer = &s->observer;
    w->done = on_done;
    w->context = s;
    gs_stop_on_signals();
    GS_TRY(gs_sweep_prepare(w));
    s->now = (gs_shown_run){.settings = &w->settings, .runs = w->count, .work.tells = !s->json};
    gs_status status = gs_sweep_train(w);
    gs_show_activity(NULL, 0, NULL);
    if (status == GS_OK) show_head(s); /* a signal may have arrived before the first step */
    if (w->seeds > 1) show_lines(s, w, w->batches);
    if (!s->json && s->now.run > 0) text_notes(w);
    if (status == GS_OK && s->report && s->now.run > 0) {
        GS_TRY(write_page(w, s->report, s->argc, s->argv));
        if (!s->json) gs_print_line("\n%s: open it in a browser", s->report);
    }
    /* Even a stopped sweep reports its completed runs. After a failed run, gs_json_failed prints the last line. */
    const bool stopped = gs_stop_requested;
    s->ended = s->json && (status == GS_OK || stopped);
    if (s->ended)
        gs_json_print(GS_JSON_OBJECT(GS_FIELD("event", "end"),
                                     GS_FIELD("status", stopped ? "interrupted" : "done"),
                                     GS_FIELD("runs", s->now.run), GS_FIELD("interrupted", stopped)));
    if (status == GS_OK && s->now.run < w->count)
        return gs_fail(GS_E_INTERRUPTED, "stopped by a signal after %d of %d run%s", s->now.run, w->count,
                       gs_s((unsigned)w->count));
    return status;
}

static const gs_help help = {
    "sweep --batch LIST [options]",
    "Train once with each global batch, and show how many steps and seconds each\n"
    "needs to reach a target. \"32,64,...,2048\" continues by the same factor. --lr is\n"
    "the rate for a batch of --base-batch; --lr-rule scales it for the other batches.\n"
    "One run is an anecdote: --seeds 5 trains each batch with 5 seeds, from --seed\n"
    "on, and shows the median, the fewest and the most steps, and how many seeds\n"
    "reached the target.",
    "gradsum sweep --batch 32,64,...,2048 --lr-rule linear --warmup 1 --target 80", NULL};

int gs_cmd_sweep(int argc, char **argv) {
    static gs_sweep w; /* static: too large for the stack */
    shown s = {.argc = argc, .argv = argv};
    const char *batches = NULL;
    double target = 80;
    int exit_status;
    w = (gs_sweep){.settings = gs_settings_default(), .seeds = 1};
    w.settings.epochs = 10;
    const gs_option own[] = {
        {"batch", GS_OPTION_TEXT, &batches, 0, 0, "LIST", "the global batches: 32,64,...,2048"},
        {"target", GS_OPTION_DOUBLE, &target, 1, 100, "ACC", "target test accuracy in percent"},
        {"seeds", GS_OPTION_INT, &w.seeds, 1, GS_SWEEP_MOST, "N",
         "train each batch with N seeds, and show medians"},
        {"out", GS_OPTION_TEXT, &s.report, 0, 0, "FILE", "also write a page (.html) of all runs"},
        GS_REFUSED("save",
                   "sweep keeps no weights; to keep those of one batch, use train --batch B --save FILE"),
        {"json", GS_OPTION_FLAG, &s.json, 0, 0, NULL, "one JSON object per line"},
        {0},
    };
    const gs_option *options = gs_run_options(&w.settings, GS_TRAINING | GS_LEARNING, own);
    if (!gs_options_taken(options, &help, argc, argv, NULL, &exit_status)) return exit_status;
    gs_status status =
        batches ? count_samples(&w)
                : gs_fail(GS_E_USAGE, "--batch LIST is required: the global batches, such as 32,64,...,2048");
    if (status == GS_OK) status = gs_sweep_batches(&w, batches);
    w.target = target / 100;
    if (status == GS_OK && s.report) status = gs_file_check_target(s.report, GS_FILE_PAGE);
    if (status == GS_OK) status = sweep(&w, &s);
    gs_sweep_free(&w);
    if (status != GS_OK && s.json && !s.ended) gs_json_failed(status, NULL);
    return gs_exit_status("sweep", status);
}
