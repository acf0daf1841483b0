#include "cli/cli.h"
#include "cli/draw/compare_chart.h"
#include "cli/launch/shared.h"
#include "io/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "core/clock.h"
#include "core/decimal.h"
#include "core/memory.h"
#include "core/text.h"
#include "data/text_set.h"
#include "model/model_text.h"

/* ---- JSON: one object a line ---- */

void gs_json_print(cJSON *o) {
    char *text = gs_json_to_text(o, false);
    if (text) printf("%s\n", text);
    gs_flush_output();
    cJSON_free(text);
    cJSON_Delete(o);
}

static void json_start(const gs_worker *w) {
    const gs_settings in_use = gs_settings_in_use(w);
    char sums[GS_SUMS_TEXT];
    cJSON *o = GS_JSON_OBJECT(
        GS_FIELD("event", "start"), GS_FIELD("version", GRADSUM_VERSION), GS_FIELD("model", w->model->text),
        GS_FIELD("parameters", gs_model_whole(w->model)->params),
        GS_FIELD("train_samples", w->train_set->count), GS_FIELD("test_samples", w->test_set->count),
        GS_FIELD("device", w->device->description), GS_FIELD("workers", w->comm->size),
        GS_FIELD("transport", w->comm->ops->name), GS_FIELD("sums", gs_sums_text(w, sums)),
        GS_FIELD("bound_cpus", w->cpus));
    if (w->settings->resume || w->settings->begin) GS_JSON_ADD(o, GS_FIELD("resumed_after_step", w->step));
    if (*w->sync->why)
        GS_JSON_ADD(o, GS_FIELD("sync_chosen", w->sync->scheme->name), GS_FIELD("sync_why", w->sync->why));
    if (w->fit && *w->fit) GS_JSON_ADD(o, GS_FIELD("fit", w->fit));
    GS_JSON_ADD(o, GS_FIELD("lr_first", gs_decimal(gs_lr_of_step(&w->rates, 0))),
                GS_FIELD("lr_scaled", gs_decimal((float)w->rates.plan.scaled)),
                GS_FIELD("warmup_steps", w->rates.warmup));
    gs_run_options_json(&in_use, GS_JSON_START, o);
    gs_json_print(o);
}

/* Where the data are a text, what its tokens make of the losses and the rate: exp(loss) is the perplexity. */
static void add_text(cJSON *o, const gs_progress *p, double train_loss, double test_loss,
                     double samples_per_s) {
    if (!p->tokens) return;
    GS_JSON_ADD(o, GS_FIELD("tokens_per_s", samples_per_s * p->tokens));
    if (!p->perplexity) return;
    GS_JSON_ADD(o, GS_FIELD("train_perplexity", exp(train_loss)),
                GS_FIELD("test_perplexity", exp(test_loss)));
}

static void json_epoch(const gs_progress *p, const gs_epoch_report *r) {
    cJSON *o =
        GS_JSON_OBJECT(GS_FIELD("event", "epoch"), GS_FIELD("epoch", r->epoch), GS_FIELD("steps", r->steps),
                       GS_FIELD("train_loss", r->train_loss), GS_FIELD("train_accuracy", r->train_accuracy),
                       GS_FIELD("test_loss", r->test_loss), GS_FIELD("test_accuracy", r->test_accuracy),
                       GS_FIELD("samples_per_s", r->samples_per_s));
    add_text(o, p, r->train_loss, r->test_loss, r->samples_per_s);
    if (!isnan(r->gradient_norm)) cJSON_AddNumberToObject(o, "gradient_norm", r->gradient_norm);
    gs_json_print(o);
}

static void json_end(const gs_progress *p, const gs_result *r, const char *sha256) {
    const char *failure = p->failure;
    const char *how = failure ? "failed" : r->interrupted ? "interrupted" : "done";
    cJSON *o = GS_JSON_OBJECT(GS_FIELD("event", "end"), GS_FIELD("status", how));
    if (failure || *p->ended) cJSON_AddStringToObject(o, "message", failure ? failure : p->ended);
    GS_JSON_ADD(o, GS_FIELD("steps", r->steps), GS_FIELD("train_loss", r->train_loss),
                GS_FIELD("test_loss", r->tested_epoch ? r->test_loss : NAN),
                GS_FIELD("test_accuracy", r->tested_epoch ? r->test_accuracy : NAN),
                GS_FIELD("test_epoch", r->tested_epoch ? r->tested_epoch : NAN),
                GS_FIELD("samples_per_s", r->samples_per_s), GS_FIELD("step_median_ms", r->step_median * 1e3),
                GS_FIELD("loader_wait", r->waited), GS_FIELD("peak_memory_mb", gs_peak_memory() / 1e6),
                GS_FIELD("weights_sha256", sha256));
    add_text(o, p, r->train_loss, r->tested_epoch ? r->test_loss : NAN, r->samples_per_s);
    if (r->kept_epoch)
        GS_JSON_ADD(o, GS_FIELD("kept_epoch", r->kept_epoch),
                    GS_FIELD("kept_test_accuracy", r->kept_accuracy));
    if (r->kept_epoch && p->tokens) GS_JSON_ADD(o, GS_FIELD("kept_test_loss", r->kept_loss));
    if (*r->busy) cJSON_AddStringToObject(o, "busy", r->busy);
    if (r->skipped) cJSON_AddNumberToObject(o, "skipped_files", (double)r->skipped);
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
    gs_print_fact("images", "mean %s, std %s; the data's own are %s, %s", in_short(&used.mean).text,
                  in_short(&used.std).text, in_short(&own.mean).text, in_short(&own.std).text);
}

static void text_workers(const gs_settings *s, const gs_worker *w) {
    char sums[GS_SUMS_TEXT];
    const bool hosts = strcmp(w->comm->ops->name, "hosts") == 0;
    gs_print_fact("workers", "%d (%s%s%s%s), %s", w->comm->size, s->devices,
                  s->processes && s->processes->size > 1 ? " in each process; transport: " : "; transport: ",
                  w->comm->ops->name, hosts ? ": shared memory in each machine, Gloo between them" : "",
                  gs_modes_sum(s));
    gs_print_devices(w);
    if (gs_replica_size(s) > 1 || s->zero) gs_print_fact("sums", "of gradients: %s", gs_sums_text(w, sums));
}

/* The optimiser with those of its numbers that it takes. */
static void print_step(const gs_settings *s, const gs_worker *w) {
    const gs_optimizer_ops *ops = s->optimizer;
    const gs_optimizer_numbers n = gs_settings_numbers(s);
    const struct {
        const char *name;
        float value;
    } number[] = {{"momentum", n.momentum}, {"beta1", n.beta1}, {"beta2", n.beta2}, {"epsilon", n.epsilon}};
    char numbers[160] = "";
    for (size_t i = 0; i < sizeof number / sizeof *number; i++)
        if (!isnan(number[i].value))
            gs_append(numbers, sizeof numbers, ", %s %g", number[i].name, (double)number[i].value);
    gs_print_fact("step", "global batch %zu, %s lr %g%s, weight decay %g, seed %llu", w->batch,
                  ops->title ? ops->title : ops->name, (double)n.lr, numbers, (double)n.weight_decay,
                  (unsigned long long)s->seed);
}

static void print_data(const gs_settings *s, const gs_worker *w) {
    char what[64] = "images", numbers[2][32];
    const char *kind = w->train_set->kind;
    const gs_text *t = w->train_set->text;
    if (t)
        snprintf(what, sizeof what, "windows of %d %s", t->context,
                 gs_tokens_word(t->vocabulary.kind, (size_t)t->context));
    snprintf(numbers[0], sizeof numbers[0], "%s", gs_thousands((double)w->train_set->count));
    snprintf(numbers[1], sizeof numbers[1], "%s", gs_thousands((double)w->test_set->count));
    gs_print_fact("data", "%s%s%s%s: %s %s to train on, %s to test", s->data, *kind ? " (" : "", kind,
                  *kind ? ")" : "", numbers[0], what, numbers[1]);
}

static void text_start(const gs_progress *p, const gs_worker *w) {
    const gs_settings *s = p->settings;
    const char *given = s->model ? s->model : w->settings->model; /* mlp, if there is nothing to load */
    gs_print_fact("model", "%s, %s parameters", gs_model_is_name(given) ? given : w->model->text,
                  gs_thousands((double)gs_model_whole(w->model)->params));
    print_data(s, w);
    print_scaling(w);
    if (w->comm->size == 1)
        gs_print_fact("worker", "%s: %s", s->devices, w->device->description);
    else
        text_workers(s, w);
    if (w->devices) gs_print_layout(w);
    if (w->cut) gs_print_cut(w->settings, w->cut);
    if (w->cpus > 0)
        printf("bound    each worker to %d CPU%s of its own (--bind none undoes it)\n", w->cpus,
               gs_s((unsigned)w->cpus));
    if (*w->sync->why) gs_print_fact("sync", "%s chose %s: %s", s->sync, w->sync->scheme->name, w->sync->why);
    print_step(s, w);
    if (w->settings->micro_batch)
        gs_print_fact("pieces", "a worker computes at most %zu samples at once", w->schedule.most);
    if (w->fit && *w->fit) gs_print_fact("fit", "%s", w->fit);
    if (s->resume && !*p->ended)
        gs_print_fact("resume", "%s: after step %s, in epoch %" PRIu64 " of %d", s->resume,
                      gs_thousands((double)w->step),
                      1 + w->step / gs_steps_of_epoch(w->train_set->count, w->batch), s->epochs);
    if (w->settings->carry && w->settings->begin)
        gs_print_fact("elastic", "%d worker%s go%s on after step %s", w->comm->size,
                      gs_s((unsigned)w->comm->size), w->comm->size == 1 ? "es" : "",
                      gs_thousands((double)w->step));
    if (*p->ended) gs_print_fact("resume", "%s", p->ended);
    if (!*p->ended) gs_modes_print_rates(s, w);
    if (!*p->ended) gs_modes_print_recompute(s, w);
    if (!*p->ended) gs_modes_print(s, w->comm->size);
    gs_flush_output();
}

static void on_start(void *context, const gs_worker *w) {
    gs_progress *p = context;
    gs_working(NULL, 0, NULL);
    p->started = gs_seconds();
    p->parts = w->strategy->apart ? w->comm->size : 1;
    p->answers = gs_model_answers(w->model);
    p->bar_epoch = 0;
    p->tokens = w->train_set->text ? w->train_set->text->context : 0;
    p->perplexity = p->tokens && p->settings->loss == GS_SOFTMAX_CROSS_ENTROPY;
    if (p->tells_scaling) gs_tell_scaling(p->tells_scaling, p->settings);
    if (p->tells_scaling) gs_tell_of_data(p->tells_scaling, w);
    const gs_state *begin = w->settings->begin;
    if (!begin || !gs_state_has_ended(begin, w->settings, p->ended, sizeof p->ended)) *p->ended = 0;
    if (p->json)
        json_start(w);
    else
        text_start(p, w);
}

/* A step in f16 without an update: the record, if there is one, has it too. */
static void tell_skipped(int epoch, uint64_t done, const gs_score *score) {
    gs_tell("",
            "epoch %d, step %" PRIu64
            ": a gradient is not finite with a loss scale of %g; the update is left out, "
            "and the scale is halved",
            epoch, done, (double)score->loss_scale);
}

/* "3 s", "12 min", "1.5 h" */
static const char *time_text(double seconds, char text[24]) {
    if (seconds < 100)
        snprintf(text, 24, "%.0f s", seconds);
    else if (seconds < 6000)
        snprintf(text, 24, "%.0f min", seconds / 60);
    else
        snprintf(text, 24, "%.1f h", seconds / 3600);
    return text;
}

/* The seconds that are left; NAN: it began less than half a second ago. */
static double work_left(gs_work *w, double share) {
    const double now = gs_seconds();
    if (!(w->since > 0) || share < w->from) *w = (gs_work){.since = now, .from = share, .tells = w->tells};
    if (now - w->since < 0.5 || !(share > w->from)) return NAN;
    return (now - w->since) * (1 - share) / (share - w->from);
}

void gs_working(gs_work *w, double share, const char *format, ...) {
    enum { WIDTH = 10 };
    static bool shown;
    char line[200] = "", time[24];
    const double left = w ? work_left(w, share) : NAN, now = gs_seconds();
    const bool bar = isatty(STDERR_FILENO);
    if (bar ? (w ? now - w->shown < 0.1 : !format && !shown) : !w || !w->tells || !(left > 2)) return;
    const int filled = share < 1 ? (int)(share * WIDTH) : WIDTH;
    if (w && bar) gs_append(line, sizeof line, "[%.*s>%*s] ", filled, "==========", WIDTH - filled, "");
    if (w) w->shown = now;
    if (!bar) w->tells = false;
    shown = format != NULL;
    if (format) {
        va_list args;
        const size_t length = strlen(line);
        va_start(args, format);
        vsnprintf(line + length, sizeof line - length, format, args);
        va_end(args);
    }
    if (!isnan(left)) gs_append(line, sizeof line, ", %s%s left", bar ? "" : "about ", time_text(left, time));
    if (bar)
        fprintf(stderr, "\r%.*s\033[K", gs_screen_of(stderr).width - 1, line);
    else
        fprintf(stderr, "gradsum: %s\n", line);
    fflush(stderr);
}

void gs_testing(void *work, size_t done, size_t of) {
    gs_working(work, (double)done / (double)of, "computing with the test set");
}

gs_status gs_temporary_folder(const char *name, char *folder, size_t size) {
    const char *set = getenv("TMPDIR"), *above = set && *set ? set : "/tmp";
    const bool fits = snprintf(folder, size, "%s/%s", above, name) < (int)size;
    if (fits && mkdtemp(folder)) return GS_OK;
    *folder = 0;
    return gs_fail(GS_E_FILE, "cannot make a folder in %.200s (TMPDIR says where): %s", above,
                   strerror(fits ? errno : ENAMETOOLONG));
}

double gs_share_of_run(const gs_settings *s, int epoch, uint64_t done, uint64_t of) {
    const double whole = (double)of * s->epochs, all = s->steps ? fmin((double)s->steps, whole) : whole;
    return ((epoch - 1) * (double)of + (double)done) / all;
}

/* "[====>     ] epoch 2/5 loss 0.412 acc 85.1 % 41,200/s, 3 s left" of the run, its tests included. Behind the name of
 * a run there is no loss. */
static void on_step(void *context, int epoch, uint64_t done, uint64_t of, const gs_score *score) {
    gs_progress *p = context;
    gs_launch_has_stepped();
    if (score->skipped) tell_skipped(epoch, done, score);
    if (!p->bar) return;
    if (done == 1 || p->bar_epoch != epoch) {
        p->started = gs_seconds();
        p->samples_done = 0;
        p->bar_epoch = epoch;
        return; /* a rate needs two moments */
    }
    p->samples_done += score->samples * p->parts / p->answers;
    if (!(score->samples > 0)) return;
    const gs_settings *s = p->settings;
    const double rate = p->samples_done * (p->tokens ? p->tokens : 1) / (gs_seconds() - p->started);
    char loss[32] = "", at[64];
    if (!*p->run) snprintf(loss, sizeof loss, " loss %.3f", gs_shown(score->loss / score->samples));
    snprintf(at, sizeof at, "epoch %d/%d", epoch, s->epochs);
    if (s->steps)
        snprintf(at, sizeof at, "step %" PRIu64 "/%" PRIu64, (uint64_t)(epoch - 1) * of + done, s->steps);
    gs_working(&p->work, gs_share_of_run(s, epoch, done, of), "%s%s%s acc %4.1f %% %s%s/s", p->run, at, loss,
               100 * score->correct / score->samples, gs_thousands(rate), p->tokens ? " tokens" : "");
}

static void on_testing(void *context, size_t done, size_t of) {
    gs_progress *p = context;
    if (!p->bar) return;
    if (done == 0) p->test = (gs_work){0};
    gs_working(&p->test, (double)done / (double)of, "%sepoch %d/%d, test", p->run,
               p->bar_epoch ? p->bar_epoch : 1, p->settings->epochs);
}

/* "perplexity 8.36", or "accuracy 61.20 %". */
static const char *how_good(const gs_progress *p, double loss, double accuracy, char text[40]) {
    if (p->perplexity)
        snprintf(text, 40, "perplexity %.4g", gs_shown(exp(loss)));
    else
        snprintf(text, 40, "accuracy %.2f %%", 100 * accuracy);
    return text;
}

/* For a text, the rate counts tokens. */
static const char *rate(const gs_progress *p, double samples_per_s, char text[48]) {
    snprintf(text, 48, "%s %s/s", gs_thousands(samples_per_s * (p->tokens ? p->tokens : 1)),
             p->tokens ? "tokens" : "samples");
    return text;
}

static void on_epoch(void *context, const gs_epoch_report *r) {
    gs_progress *p = context;
    gs_working(NULL, 0, NULL);
    if (p->json) {
        json_epoch(p, r);
        return;
    }
    char test[160], good[40], per_s[48];
    int column = printf("epoch %d/%d  train loss %.4f, %s", r->epoch, p->settings->epochs,
                        gs_shown(r->train_loss), how_good(p, r->train_loss, r->train_accuracy, good));
    rate(p, r->samples_per_s, per_s);
    if (isnan(r->test_loss)) /* --tests 0 */
        column += snprintf(test, sizeof test, "  %s", per_s);
    else if (p->perplexity)
        column += snprintf(test, sizeof test, "  test loss %.4f, %s  %s", gs_shown(r->test_loss),
                           how_good(p, r->test_loss, 0, good), per_s);
    else
        column += snprintf(test, sizeof test, "  test %.2f %%  %s", 100 * r->test_accuracy, per_s);
    /* two lines that are read, instead of one that is cut */
    printf("%s%s\n", p->screen.width < 80 || column > 80 ? "\n        " : "", test);
    gs_flush_output();
}

static void on_note(void *context, const char *sentence) {
    (void)context;
    gs_tell("", "%s", sentence);
}

gs_observer gs_progress_observer(gs_progress *p) {
    p->bar = !p->json && isatty(STDERR_FILENO);
    p->screen = gs_screen_of(stdout);
    return (gs_observer){.context = p,
                         .start = on_start,
                         .step = on_step,
                         .testing = on_testing,
                         .epoch = on_epoch,
                         .note = on_note};
}

/* A run that was stopped has no accuracy of its last weights: it is tested after whole epochs. */
static void print_done(const gs_progress *p, const gs_result *r) {
    char good[40], per_s[48], loss[40] = "", text[300] = "";
    how_good(p, r->test_loss, r->test_accuracy, good);
    if (p->perplexity) snprintf(loss, sizeof loss, "loss %.4f, ", gs_shown(r->test_loss));
    gs_append(text, sizeof text, "%s step%s", gs_thousands((double)r->steps), gs_s(r->steps));
    if (!r->interrupted && !isnan(r->test_loss)) gs_append(text, sizeof text, ", test %s%s", loss, good);
    if (!*p->ended) gs_append(text, sizeof text, ", %s", rate(p, r->samples_per_s, per_s));
    gs_append(text, sizeof text, ", peak memory %.0f MB", gs_peak_memory() / 1e6);
    printf("%-8s ", r->interrupted ? "stopped" : "done");
    gs_print_items(9, text);
    if (r->interrupted && r->tested_epoch)
        printf("test     %s%s after epoch %d\n", loss, good, r->tested_epoch);
}

/* Of the worker that took most, and in brackets what was predicted: "memory   12.3 MB (12.3 predicted): activations 8.1
 * (8.1), data 2.2 (2.2), ...". */
static void print_memory(const gs_result *r) {
    const gs_worker_report *most = NULL;
    char text[400] = "";
    for (int i = 0; i < r->workers && r->worker; i++) {
        const gs_worker_report *w = &r->worker[i];
        if (!most || gs_memory_total(&w->memory[GS_ON_DEVICE]) > gs_memory_total(&most->memory[GS_ON_DEVICE]))
            most = w;
    }
    if (!most) return;
    const gs_memory_use *took = &most->memory[GS_ON_DEVICE], *planned = &most->planned[GS_ON_DEVICE];
    const bool was_planned = gs_memory_total(planned) > 0;
    gs_append(text, sizeof text, "%.1f MB%s", gs_memory_total(took) / 1e6,
              r->workers > 1 ? " of a worker" : "");
    if (was_planned) gs_append(text, sizeof text, " (%.1f predicted)", gs_memory_total(planned) / 1e6);
    const char *before = ": ";
    for (int k = 0; k < GS_MEMORY_KINDS; k++) {
        if (took->bytes[k] < 0.05e6 && planned->bytes[k] < 0.05e6) continue;
        gs_append(text, sizeof text, "%s%s %.1f", before, gs_memory_word((gs_memory_kind)k),
                  took->bytes[k] / 1e6);
        if (was_planned) gs_append(text, sizeof text, " (%.1f)", planned->bytes[k] / 1e6);
        before = ", ";
    }
    gs_print_fact("memory", "%s", text);
}

void gs_progress_end(gs_progress *p, const gs_result *r) {
    char sha256[65];
    gs_working(NULL, 0, NULL);
    gs_sha256(r->weights, r->params * sizeof(float), sha256);
    if (p->json) {
        json_end(p, r, sha256);
        return;
    }
    if (!*p->ended) gs_modes_print_end(r);
    if (!*p->ended) gs_worker_lines(stdout, &p->screen, r);
    print_done(p, r);
    if (!*p->ended) print_memory(r);
    if (*r->busy) gs_print_fact("busy", "%s", r->busy);
    if (!*p->ended) printf("loader   workers waited for it %.1f %% of the time\n", 100 * r->waited);
    printf("weights  sha256 %s\n", sha256);
    if (!p->settings->save || p->failure) return;
    char best[80] = "";
    if (r->kept_epoch && p->tokens)
        snprintf(best, sizeof best, ": the best, of epoch %d, test loss %.4f", r->kept_epoch,
                 gs_shown(r->kept_loss));
    else if (r->kept_epoch)
        snprintf(best, sizeof best, ": the best, of epoch %d, test accuracy %.2f %%", r->kept_epoch,
                 100 * r->kept_accuracy);
    gs_print_line("saved    %s%s", p->settings->save, best);
}

/* ---- signals ask a run to stop, or to write a checkpoint; so does an output that nobody reads any more ---- */

static void stop(int signal_number) {
    static const char note[] = "\ngradsum: stopping after the test; once more ends it now\n";
    gs_stop_requested = signal_number;
    if (gs_test_has_no_stop && write(STDERR_FILENO, note, sizeof note - 1) < 0)
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

static void ask(int signal_number) {
    (void)signal_number;
    gs_checkpoint_requested = (gs_checkpoint_requested + 1) & 0xffff;
}

void gs_checkpoint_on_signal(void) {
    signal(SIGUSR1, ask);
}

void gs_flush_output(void) {
    if (fflush(stdout) != 0 && errno == EPIPE && !gs_stop_requested) gs_stop_requested = SIGPIPE;
}
