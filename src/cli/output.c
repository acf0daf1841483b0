#include "cli/cli.h"
#include "cli/draw/compare_chart.h"
#include "io/json.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "core/clock.h"
#include "core/decimal.h"
#include "core/memory.h"
#include "core/text.h"
#include "model/model_text.h"

static void stop(int signal_number) {
    gs_stop_requested = signal_number;
    signal(signal_number, SIG_DFL); /* the second one ends the program at once */
}

void gs_stop_on_signals(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct sigaction now;
        if (sigaction(numbers[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN) /* nohup */
            signal(numbers[i], stop);
    }
    signal(SIGPIPE, SIG_IGN); /* gs_flush_output sees it too, and the weights are not lost */
}

void gs_flush_output(void) {
    if (fflush(stdout) != 0 && errno == EPIPE && !gs_stop_requested) gs_stop_requested = SIGPIPE;
}

/* ---- JSON: one object a line ---- */

void gs_json_print(cJSON *o) {
    char *text = cJSON_PrintUnformatted(o);
    if (text) printf("%s\n", text);
    gs_flush_output();
    cJSON_free(text);
    cJSON_Delete(o);
}

static void json_start(const gs_worker *w) {
    const gs_settings in_use = gs_settings_in_use(w);
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("event", "start"), GS_FIELD("version", GRADSUM_VERSION),
                              GS_FIELD("model", w->model->text), GS_FIELD("parameters", w->model->params),
                              GS_FIELD("train_samples", w->train_set->count),
                              GS_FIELD("test_samples", w->test_set->count),
                              GS_FIELD("device", w->device->description), GS_FIELD("workers", w->comm->size),
                              GS_FIELD("transport", w->comm->ops->name), GS_FIELD("bound_cpus", w->cpus));
    if (*w->sync->why)
        GS_JSON_ADD(o, GS_FIELD("sync_chosen", w->sync->scheme->name), GS_FIELD("sync_why", w->sync->why));
    GS_JSON_ADD(o, GS_FIELD("lr_first", gs_decimal(gs_lr_of_step(&w->rates, 0))),
                GS_FIELD("lr_scaled", gs_decimal((float)w->rates.plan.scaled)),
                GS_FIELD("warmup_steps", w->rates.warmup));
    gs_run_options_json(&in_use, GS_JSON_START, o);
    gs_json_print(o);
}

static void json_epoch(const gs_epoch_report *r) {
    cJSON *o =
        GS_JSON_OBJECT(GS_FIELD("event", "epoch"), GS_FIELD("epoch", r->epoch), GS_FIELD("steps", r->steps),
                       GS_FIELD("train_loss", r->train_loss), GS_FIELD("train_accuracy", r->train_accuracy),
                       GS_FIELD("test_loss", r->test_loss), GS_FIELD("test_accuracy", r->test_accuracy),
                       GS_FIELD("samples_per_s", r->samples_per_s));
    if (!isnan(r->gradient_norm)) cJSON_AddNumberToObject(o, "gradient_norm", r->gradient_norm);
    gs_json_print(o);
}

static void json_end(const gs_result *r, const char *sha256, const char *failure) {
    const char *how = failure ? "failed" : r->interrupted ? "interrupted" : "done";
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("event", "end"), GS_FIELD("status", how));
    if (failure) cJSON_AddStringToObject(o, "message", failure);
    GS_JSON_ADD(o, GS_FIELD("steps", r->steps), GS_FIELD("train_loss", r->train_loss),
                GS_FIELD("test_loss", r->tested_epoch ? r->test_loss : NAN),
                GS_FIELD("test_accuracy", r->tested_epoch ? r->test_accuracy : NAN),
                GS_FIELD("test_epoch", r->tested_epoch ? r->tested_epoch : NAN),
                GS_FIELD("samples_per_s", r->samples_per_s), GS_FIELD("step_median_ms", r->step_median * 1e3),
                GS_FIELD("loader_wait", r->waited), GS_FIELD("peak_memory_mb", gs_peak_memory() / 1e6),
                GS_FIELD("weights_sha256", sha256));
    if (r->kept_epoch)
        GS_JSON_ADD(o, GS_FIELD("kept_epoch", r->kept_epoch),
                    GS_FIELD("kept_test_accuracy", r->kept_accuracy));
    cJSON_AddBoolToObject(o, "interrupted", r->interrupted);
    gs_modes_json_end(r, o);
    gs_worker_json(r, o);
    gs_json_print(o);
}

void gs_json_failed(gs_status status, const gs_result *r) {
    bool interrupted = status == GS_E_INTERRUPTED || gs_stop_requested;
    const char *how = status == GS_E_DIVERGED ? "diverged" : interrupted ? "interrupted" : "failed";
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("event", "end"), GS_FIELD("status", how));
    if (r) GS_JSON_ADD(o, GS_FIELD("steps", r->steps));
    gs_json_print(GS_JSON_ADD(o, GS_FIELD("message", gs_message())));
}

/* ---- text ---- */

static bool is_constant(const gs_dataset *set) {
    size_t bytes = set->count * gs_shape_size(set->shape);
    for (size_t i = 1; i < bytes; i++)
        if (set->images[i] != set->images[0]) return false;
    return true;
}

typedef struct short_text {
    char text[80];
} short_text;

/* "0.286", or of colour "0.49/0.48/0.45". */
static short_text in_short(const gs_by_channel *x) {
    short_text s = {""};
    for (int c = 0; c < x->count; c++)
        gs_append(s.text, sizeof s.text, "%s%.4g", c ? "/" : "", (double)x->of[c]);
    return s;
}

/* Where --load, --mean or --std have made it another than the data's own. */
static void print_scaling(const gs_worker *w) {
    gs_scaling used = w->model->scaling;
    if (!w->input.scales) return;
    gs_scaling own = gs_dataset_scaling(w->train_set);
    if (gs_by_channel_same(&used.mean, &own.mean) && gs_by_channel_same(&used.std, &own.std)) return;
    printf("images   mean %s, std %s; the data's own are %s, %s\n", in_short(&used.mean).text,
           in_short(&used.std).text, in_short(&own.mean).text, in_short(&own.std).text);
}

static void text_workers(const gs_settings *s, const gs_worker *w) {
    gs_print_fact("workers", "%d (%s%s%s), %s", w->comm->size, s->devices,
                  s->processes && s->processes->size > 1 ? " in each process; transport: " : "; transport: ",
                  w->comm->ops->name, gs_modes_sum(s));
    gs_print_fact("", "%s: %s", w->device->name, w->device->description);
}

/* The optimiser with those of its numbers that it takes. */
static void print_step(const gs_settings *s, const gs_worker *w) {
    const gs_optimizer_ops *ops = s->optimizer;
    const gs_optimizer_numbers n = gs_settings_numbers(s);
    const struct {
        const char *name;
        float value;
    } number[] = {{"momentum", n.momentum}, {"beta1", n.beta1}, {"beta2", n.beta2}, {"epsilon", n.epsilon}};
    printf("step     global batch %zu, %s lr %g", w->batch, ops->title ? ops->title : ops->name,
           (double)n.lr);
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        if (!isnan(number[i].value)) printf(", %s %g", number[i].name, (double)number[i].value);
    printf(", weight decay %g, seed %llu\n", (double)n.weight_decay, (unsigned long long)s->seed);
}

static void text_start(const gs_settings *s, const gs_worker *w) {
    bool named = s->model && gs_model_is_name(s->model);
    printf("model    %s, %s parameters\n", named ? s->model : w->model->text,
           gs_thousands((double)w->model->params));
    const char *kind = w->train_set->kind;
    printf("data     %s%s%s%s: %s images to train on, %s to test\n", s->data, *kind ? " (" : "", kind,
           *kind ? ")" : "", gs_thousands((double)w->train_set->count),
           gs_thousands((double)w->test_set->count));
    print_scaling(w);
    if (w->comm->size == 1)
        printf("worker   %s: %s\n", s->devices, w->device->description);
    else
        text_workers(s, w);
    if (w->cpus > 0)
        printf("bound    each worker to %d CPU%s of its own (--bind none undoes it)\n", w->cpus,
               gs_s((unsigned)w->cpus));
    if (*w->sync->why) gs_print_fact("sync", "%s chose %s: %s", s->sync, w->sync->scheme->name, w->sync->why);
    print_step(s, w);
    gs_modes_print_rates(s, w);
    gs_modes_print(s, w->comm->size);
    gs_flush_output();
}

/* What is no error, but hardly meant. */
static void tell_of_data(const char *command, const gs_worker *w) {
    const gs_dataset *set = w->train_set;
    int outputs = w->model->out.c;
    if (!set->targets && set->classes < outputs && set->classes > 0)
        fprintf(stderr,
                "gradsum %s: note: %s has labels 0 to %d, but the model has %d outputs: it learns that the "
                "rest are never right\n",
                command, set->name, set->classes - 1, outputs);
    if (w->input.scales && is_constant(set))
        fprintf(stderr,
                "gradsum %s: note: all bytes of %s are %d: nothing can be learned from these images\n",
                command, set->name, set->images[0]);
}

static void on_start(void *context, const gs_worker *w) {
    gs_progress *p = context;
    p->started = gs_seconds();
    p->parts = w->way->apart ? w->comm->size : 1;
    p->answers = gs_model_answers(w->model);
    if (p->tells_scaling) gs_tell_scaling(p->tells_scaling, p->settings);
    if (p->tells_scaling) tell_of_data(p->tells_scaling, w);
    if (p->json)
        json_start(w);
    else
        text_start(p->settings, w);
}

/* "epoch 2/5 [=======>      ] loss 0.412 acc 85.1 % 41,200/s 3 s left", at most ten times a second. Where the
 * run's name stands before it, the bar is shorter and the loss is left out. */
static void on_step(void *context, int epoch, uint64_t done, uint64_t of, const gs_score *score) {
    enum { WIDTH = 20, SHORT = 8 };
    gs_progress *p = context;
    if (!p->bar) return;
    const int width = *p->run ? SHORT : WIDTH;
    double now = gs_seconds();
    if (done == 1) {
        p->started = now;
        p->samples_done = 0;
        return; /* a rate needs two moments */
    }
    p->samples_done += score->samples * p->parts / p->answers;
    if ((now - p->shown < 0.1 && done != of) || !(score->samples > 0)) return;
    p->shown = now;
    char bar[WIDTH + 1];
    int filled = (int)(done * (uint64_t)width / of);
    for (int i = 0; i < width; i++) bar[i] = i < filled ? '=' : i == filled ? '>' : ' ';
    bar[width] = 0;
    double passed = now - p->started, left = passed / (double)(done - 1) * (double)(of - done);
    char line[200], loss[32] = "";
    if (!*p->run) snprintf(loss, sizeof loss, " loss %.3f", gs_shown(score->loss / score->samples));
    snprintf(line, sizeof line, "%sepoch %d/%d [%s]%s acc %4.1f %% %s/s %.0f s left", p->run, epoch,
             p->settings->epochs, bar, loss, 100 * score->correct / score->samples,
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
    char test[100];
    int column = printf("epoch %d/%d  train loss %.4f, accuracy %.2f %%", r->epoch, p->settings->epochs,
                        gs_shown(r->train_loss), 100 * r->train_accuracy);
    column += snprintf(test, sizeof test, "  test %.2f %%  %s samples/s", 100 * r->test_accuracy,
                       gs_thousands(r->samples_per_s));
    /* two lines that are read, instead of one that is cut */
    printf("%s%s\n", p->screen.width < 80 || column > 80 ? "\n        " : "", test);
    gs_flush_output();
}

gs_observer gs_progress_observer(gs_progress *p) {
    p->bar = !p->json && isatty(STDERR_FILENO);
    p->bar_columns = gs_screen_of(stderr).width - 1;
    p->screen = gs_screen_of(stdout);
    return (gs_observer){.context = p, .start = on_start, .step = on_step, .epoch = on_epoch};
}

/* A run that was stopped has no accuracy of its last weights: it is tested after whole epochs. */
static void print_done(const gs_result *r) {
    printf("%-8s %s step%s", r->interrupted ? "stopped" : "done", gs_thousands((double)r->steps),
           gs_s(r->steps));
    if (!r->interrupted) printf(", test accuracy %.2f %%", 100 * r->test_accuracy);
    printf(", %s samples/s, peak memory %.0f MB\n", gs_thousands(r->samples_per_s), gs_peak_memory() / 1e6);
    if (r->interrupted && r->tested_epoch)
        printf("test     accuracy %.2f %% after epoch %d\n", 100 * r->test_accuracy, r->tested_epoch);
}

void gs_progress_end(gs_progress *p, const gs_result *r) {
    char sha256[65];
    gs_progress_clear(p);
    gs_sha256(r->weights, r->params * sizeof(float), sha256);
    if (p->json) {
        json_end(r, sha256, p->failure);
        return;
    }
    gs_modes_print_end(r);
    gs_worker_lines(stdout, &p->screen, r);
    print_done(r);
    printf("loader   workers waited for it %.1f %% of the time\n", 100 * r->waited);
    printf("weights  sha256 %s\n", sha256);
    if (!p->settings->save || p->failure) return;
    printf("saved    %s", p->settings->save);
    if (r->kept_epoch)
        printf(": the best, of epoch %d, test accuracy %.2f %%", r->kept_epoch, 100 * r->kept_accuracy);
    printf("\n");
}

void gs_tell_scaling(const char *command, const gs_settings *s) {
    gs_saved saved;
    if (!s->load || (s->processes && s->processes->rank != 0)) return;
    if (gs_safetensors_about(s->load, &saved) == GS_OK) {
        bool mean = saved.has_mean || s->mean.count, std = saved.has_std || s->std.count;
        if (!mean || !std)
            fprintf(stderr,
                    "gradsum %s: %s does not say how its training images were scaled (no %s%s%s); "
                    "assuming%s%s, in "
                    "(byte / 255 - mean) / std\n",
                    command, gs_printable(s->load), mean ? "" : "mean", mean || std ? "" : ", no ",
                    std ? "" : "std", mean ? "" : " --mean 0", std ? "" : " --std 1");
    }
    gs_saved_free(&saved);
}
