#include "cli/cli.h"
#include "cli/compare_chart.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "core/clock.h"

const char *gs_thousands(double number) {
    static char texts[4][40];
    static int next;
    char digits[32], *out = texts[next = (next + 1) % 4];
    int n = snprintf(digits, sizeof digits, "%.0f", number), used = 0;
    for (int i = 0; i < n && used < 38; i++) {
        out[used++] = digits[i];
        if ((n - i - 1) % 3 == 0 && i + 1 < n && digits[i] != '-') out[used++] = ',';
    }
    out[used] = 0;
    return out;
}

double gs_peak_memory_mb(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss * 1024 / 1e6;
}

static void stop(int signal_number) {
    gs_stop_requested = 1;
    signal(signal_number, SIG_DFL); /* the second one ends the program at once */
}

void gs_stop_on_signals(void) {
    signal(SIGINT, stop);
    signal(SIGTERM, stop);
}

/* ---- JSON: one object a line ---- */

static void print_json(cJSON *o) {
    char *text = cJSON_PrintUnformatted(o);
    if (text) {
        printf("%s\n", text);
        fflush(stdout);
        cJSON_free(text);
    }
    cJSON_Delete(o);
}

/* JSON has no NaN and no infinity: a diverged loss is null. */
static void add_number(cJSON *o, const char *name, double value) {
    if (isfinite(value))
        cJSON_AddNumberToObject(o, name, value);
    else
        cJSON_AddNullToObject(o, name);
}

static cJSON *event(const char *name) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "event", name);
    return o;
}

static void json_start(const gs_settings *s, const gs_worker *w) {
    cJSON *o = event("start");
    cJSON_AddStringToObject(o, "version", GRADSUM_VERSION);
    cJSON_AddStringToObject(o, "model", w->model->text);
    cJSON_AddNumberToObject(o, "parameters", (double)w->model->params);
    cJSON_AddStringToObject(o, "data", s->data);
    cJSON_AddNumberToObject(o, "train_samples", (double)w->train_set->count);
    cJSON_AddNumberToObject(o, "test_samples", (double)w->test_set->count);
    cJSON_AddStringToObject(o, "devices", s->devices);
    cJSON_AddStringToObject(o, "device", w->device->description);
    cJSON_AddNumberToObject(o, "workers", w->comm->size);
    cJSON_AddStringToObject(o, "transport", w->comm->ops->name);
    cJSON_AddStringToObject(o, "sync", s->sync);
    if (*w->sync->why) {
        cJSON_AddStringToObject(o, "sync_chosen", w->sync->scheme->name);
        cJSON_AddStringToObject(o, "sync_why", w->sync->why);
    }
    gs_modes_json(s, o);
    cJSON_AddNumberToObject(o, "batch", (double)w->batch);
    cJSON_AddNumberToObject(o, "epochs", s->epochs);
    cJSON_AddNumberToObject(o, "seed", (double)s->seed);
    cJSON_AddNumberToObject(o, "lr", (double)s->lr);
    gs_modes_json_rates(s, w, o);
    cJSON_AddNumberToObject(o, "momentum", (double)s->momentum);
    cJSON_AddNumberToObject(o, "weight_decay", (double)s->weight_decay);
    print_json(o);
}

static void json_epoch(const gs_epoch_report *r) {
    cJSON *o = event("epoch");
    cJSON_AddNumberToObject(o, "epoch", r->epoch);
    cJSON_AddNumberToObject(o, "steps", (double)r->steps);
    add_number(o, "train_loss", r->train_loss);
    cJSON_AddNumberToObject(o, "train_accuracy", r->train_accuracy);
    add_number(o, "test_loss", r->test_loss);
    cJSON_AddNumberToObject(o, "test_accuracy", r->test_accuracy);
    cJSON_AddNumberToObject(o, "samples_per_s", r->samples_per_s);
    print_json(o);
}

static void json_end(const gs_result *r, const char *sha256) {
    cJSON *o = event("end");
    cJSON_AddNumberToObject(o, "steps", (double)r->steps);
    add_number(o, "train_loss", r->train_loss);
    add_number(o, "test_loss", r->test_loss);
    cJSON_AddNumberToObject(o, "test_accuracy", r->test_accuracy);
    cJSON_AddNumberToObject(o, "samples_per_s", r->samples_per_s);
    cJSON_AddNumberToObject(o, "step_median_ms", r->step_median * 1e3);
    cJSON_AddNumberToObject(o, "loader_wait", r->waited);
    cJSON_AddNumberToObject(o, "peak_memory_mb", gs_peak_memory_mb());
    cJSON_AddStringToObject(o, "weights_sha256", sha256);
    cJSON_AddBoolToObject(o, "interrupted", r->interrupted);
    gs_modes_json_end(r, o);
    gs_worker_json(r, o);
    print_json(o);
}

/* ---- text ---- */

static void text_start(const gs_settings *s, const gs_worker *w) {
    printf("model    %s, %s parameters\n", s->model ? s->model : w->model->text,
           gs_thousands((double)w->model->params));
    printf("data     %s: %s images to train on, %s to test\n", s->data,
           gs_thousands((double)w->train_set->count), gs_thousands((double)w->test_set->count));
    if (w->comm->size == 1)
        printf("worker   %s: %s\n", s->devices, w->device->description);
    else
        printf("workers  %d (%s%s%s), %s\n         %s: %s\n", w->comm->size, s->devices,
               s->processes && s->processes->size > 1 ? " in each process; transport: " : "; transport: ",
               w->comm->ops->name, gs_modes_sum(s), w->device->name, w->device->description);
    if (*w->sync->why) printf("sync     %s chose %s: %s\n", s->sync, w->sync->scheme->name, w->sync->why);
    printf("step     global batch %zu, SGD lr %g, momentum %g, weight decay %g, seed %llu\n", w->batch,
           (double)s->lr, (double)s->momentum, (double)s->weight_decay, (unsigned long long)s->seed);
    gs_modes_print_rates(s, w);
    gs_modes_print(s, w->comm->size);
    fflush(stdout);
}

static void on_start(void *context, const gs_worker *w) {
    gs_progress *p = context;
    p->started = gs_seconds();
    p->parts = w->local || w->async ? w->comm->size : 1;
    if (p->json)
        json_start(p->settings, w);
    else
        text_start(p->settings, w);
}

/* "epoch 2/5 [=======>      ] loss 0.412 acc 85.1 % 41,200/s 3 s left", at most ten times a second */
static void on_step(void *context, int epoch, uint64_t done, uint64_t of, const gs_score *score) {
    enum { WIDTH = 20 };
    gs_progress *p = context;
    if (!p->bar) return;
    double now = gs_seconds();
    if (done == 1) {
        p->started = now;
        p->samples_done = 0;
        return; /* a rate needs two moments */
    }
    p->samples_done += score->samples * p->parts;
    if ((now - p->shown < 0.1 && done != of) || !(score->samples > 0)) return;
    p->shown = now;
    char bar[WIDTH + 1];
    int filled = (int)(done * WIDTH / of);
    for (int i = 0; i < WIDTH; i++) bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
    bar[WIDTH] = 0;
    double passed = now - p->started, left = passed / (double)(done - 1) * (double)(of - done);
    char line[160];
    snprintf(line, sizeof line, "epoch %d/%d [%s] loss %.3f acc %4.1f %% %s/s %.0f s left", epoch,
             p->settings->epochs, bar, score->loss / score->samples, 100 * score->correct / score->samples,
             gs_thousands(p->samples_done / passed), left);
    fprintf(stderr, "\r%.*s\033[K", p->bar_columns, line);
    fflush(stderr);
}

void gs_progress_clear(gs_progress *p) {
    if (p->bar && p->shown > 0) fprintf(stderr, "\r\033[K");
    p->shown = 0;
}

static void on_epoch(void *context, const gs_epoch_report *r) {
    gs_progress *p = context;
    gs_progress_clear(p);
    if (p->json) {
        json_epoch(r);
        return;
    }
    printf("epoch %d/%d  train loss %.4f, accuracy %.2f %%", r->epoch, p->settings->epochs, r->train_loss,
           100 * r->train_accuracy);
    if (p->screen.width < 80) printf("\n        "); /* two lines that are read, instead of one that is cut */
    printf("  test %.2f %%  %s samples/s\n", 100 * r->test_accuracy, gs_thousands(r->samples_per_s));
    fflush(stdout);
}

gs_observer gs_progress_observer(gs_progress *p) {
    p->bar = !p->json && isatty(STDERR_FILENO);
    p->bar_columns = gs_screen_of(stderr).width - 1;
    p->screen = gs_screen_of(stdout);
    return (gs_observer){.context = p, .start = on_start, .step = on_step, .epoch = on_epoch};
}

void gs_progress_end(gs_progress *p, const gs_result *r) {
    char sha256[65];
    gs_progress_clear(p);
    gs_sha256(r->weights, r->params * sizeof(float), sha256);
    if (p->json) {
        json_end(r, sha256);
        return;
    }
    gs_modes_print_end(r);
    gs_worker_lines(stdout, &p->screen, r);
    printf("done     %s step%s, test accuracy %.2f %%, %s samples/s, peak memory %.0f MB\n",
           gs_thousands((double)r->steps), gs_s(r->steps), 100 * r->test_accuracy,
           gs_thousands(r->samples_per_s), gs_peak_memory_mb());
    printf("loader   waited for it: %.1f %% of the time\n", 100 * r->waited);
    printf("weights  sha256 %s\n", sha256);
    if (p->settings->save) printf("saved    %s\n", p->settings->save);
}
