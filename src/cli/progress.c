/* What `train` shows about a run, as text or as lines of JSON: the start, the epochs, and the final measurements. */
#include "cli/cli.h"
#include "cli/launch/shared.h"
#include "core/clock.h"
#include "core/units.h"
#include "core/memory.h"
#include "data/text_set.h"
#include "io/json.h"
#include "io/mapped.h"
#include "layer/memory/recompute.h"
#include "model/model_text.h"
#include "predict/layout_plan.h"
#include "train/offload.h"
#include "train/settings.h"
#include "train/worker_report.h"

#include <inttypes.h>
#include <math.h>
#include <unistd.h>

/* ---- JSON: one object per line ---- */

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

/* For text data: tokens per second, and the perplexity, exp(loss). */
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
    if (r->before) GS_JSON_ADD(o, GS_FIELD("steps_before", r->before));
    gs_json_print(o);
}

cJSON *gs_memory_json(const gs_memory_use *use) {
    cJSON *o = cJSON_CreateObject();
    for (int k = 0; k < GS_MEMORY_KINDS; k++)
        GS_JSON_ADD(o, GS_FIELD(gs_memory_word((gs_memory_kind)k), use->bytes[k]));
    return GS_JSON_ADD(o, GS_FIELD("total", gs_memory_total(use)));
}

static void add_workers(const gs_result *r, cJSON *o) {
    if (!r->worker) return;
    cJSON *array = cJSON_AddArrayToObject(o, "per_worker");
    for (int i = 0; i < r->workers; i++) {
        cJSON *w = GS_JSON_OBJECT(GS_FIELD("rank", i), GS_FIELD("device", r->worker[i].device),
                                  GS_FIELD("samples_per_s", r->worker[i].samples_per_s));
        double sum = 0;
        for (int p = 0; p < GS_PHASES; p++) sum += r->worker[i].share[p];
        cJSON *share = cJSON_AddObjectToObject(w, "share");
        for (int p = 0; p < GS_PHASES; p++)
            GS_JSON_ADD(share, GS_FIELD(gs_phase_names[p], sum > 0 ? r->worker[i].share[p]
                                                                   : NAN)); /* NAN: no step was measured */
        const gs_memory_use *used = r->worker[i].memory, *planned = r->worker[i].planned;
        GS_JSON_ADD(w, GS_FIELD("device_bytes", gs_memory_json(&used[GS_ON_DEVICE])),
                    GS_FIELD("host_bytes", gs_memory_json(&used[GS_ON_HOST])));
        if (r->offload.on) GS_JSON_ADD(w, GS_FIELD("offloaded_bytes", gs_memory_json(&used[GS_OFFLOADED])));
        if (gs_memory_total(&planned[GS_ON_DEVICE]) > 0)
            GS_JSON_ADD(w, GS_FIELD("device_bytes_predicted", gs_memory_json(&planned[GS_ON_DEVICE])),
                        GS_FIELD("host_bytes_predicted", gs_memory_json(&planned[GS_ON_HOST])));
        cJSON_AddItemToArray(array, w);
    }
}

static void add_array(cJSON *o, const char *name, const uint64_t *count, size_t n) {
    cJSON *array = cJSON_AddArrayToObject(o, name);
    for (size_t i = 0; i < n; i++) cJSON_AddItemToArray(array, cJSON_CreateNumber((double)count[i]));
}

static void add_measured(const gs_result *r, cJSON *o) {
    const gs_staleness *s = &r->staleness;
    if (r->sent > 0)
        GS_JSON_ADD(o, GS_FIELD("sent_bytes_a_step", r->sent),
                    GS_FIELD("sent_bytes_a_step_most", r->sent_most));
    if (r->zero.stage)
        GS_JSON_ADD(o, GS_FIELD("zero_weights_bytes", r->zero.weights),
                    GS_FIELD("zero_gradients_bytes", r->zero.gradients),
                    GS_FIELD("zero_optimizer_bytes", r->zero.vectors),
                    GS_FIELD("zero_sent_formula", r->zero.formula));
    if (r->tensor.workers)
        GS_JSON_ADD(o, GS_FIELD("tensor_weights_bytes", r->tensor.held),
                    GS_FIELD("tensor_sums_a_step", r->tensor.sums),
                    GS_FIELD("tensor_gathers_a_step", r->tensor.gathers),
                    GS_FIELD("tensor_gathered_bytes_a_step", r->tensor.gathered),
                    GS_FIELD("tensor_summed_bytes_a_step", r->tensor.bytes));
    if (r->overlap.buckets > 0)
        GS_JSON_ADD(o, GS_FIELD("buckets", r->overlap.buckets),
                    GS_FIELD("buckets_summed_ms", 1e3 * r->overlap.summed),
                    GS_FIELD("buckets_waited_ms", 1e3 * r->overlap.waited),
                    GS_FIELD("hidden", gs_overlap_hidden(r->overlap)));
    if (r->offload.on)
        GS_JSON_ADD(o, GS_FIELD("offloaded_bytes", r->offload.bytes),
                    GS_FIELD("offload_bytes_a_step", r->offload.in_step.bytes),
                    GS_FIELD("offload_busy_ms", 1e3 * r->offload.in_step.busy),
                    GS_FIELD("offload_waited_ms", 1e3 * r->offload.in_step.waited),
                    GS_FIELD("offload_hidden", gs_offload_hidden(r->offload.in_step)));
    const gs_checkpoint_report *c = &r->checkpoints;
    if (c->on)
        GS_JSON_ADD(o, GS_FIELD("checkpoints", c->written), GS_FIELD("checkpoints_failed", c->failed),
                    GS_FIELD("checkpoint_step", c->written ? (double)c->step : (double)NAN),
                    GS_FIELD("checkpoint_bytes", c->bytes), GS_FIELD("checkpoint_copy_ms", 1e3 * c->copied),
                    GS_FIELD("checkpoint_copy_most_ms", 1e3 * c->longest),
                    GS_FIELD("checkpoint_copy_share", c->share),
                    GS_FIELD("checkpoint_write_ms", 1e3 * c->wrote));
    if (r->bubble.stages > 0)
        GS_JSON_ADD(
            o, GS_FIELD("bubble", r->bubble.measured),
            GS_FIELD("bubble_virtual_time", r->bubble.virtual_time),
            GS_FIELD("bubble_formula", r->bubble.formula), GS_FIELD("bubble_fill_and_drain", r->bubble.fill),
            GS_FIELD("bubble_fill_and_drain_alone", r->bubble.alone),
            GS_FIELD("bubble_unequal_stages", r->bubble.unequal), GS_FIELD("bubble_rest", r->bubble.rest));
    if (!s->count) return;
    add_array(o, "staleness", s->count, s->counts);
    add_array(o, "steps_ahead", s->lead, s->leads);
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
                GS_FIELD("message_copies_bytes", r->message_copies), GS_FIELD("weights_sha256", sha256));
    add_text(o, p, r->train_loss, r->tested_epoch ? r->test_loss : NAN, r->samples_per_s);
    if (r->kept_epoch)
        GS_JSON_ADD(o, GS_FIELD("kept_epoch", r->kept_epoch),
                    GS_FIELD("kept_test_accuracy", r->kept_accuracy));
    if (r->kept_epoch && p->tokens) GS_JSON_ADD(o, GS_FIELD("kept_test_loss", r->kept_loss));
    if (*r->busy) cJSON_AddStringToObject(o, "busy", r->busy);
    if (r->skipped) cJSON_AddNumberToObject(o, "skipped_files", (double)r->skipped);
    cJSON_AddBoolToObject(o, "interrupted", r->interrupted);
    add_measured(r, o);
    add_workers(r, o);
    gs_json_print(o);
}

/* ---- the start: options other than the defaults ---- */

static void print_rates(const gs_settings *s, const gs_worker *w) {
    const gs_lr_rates *c = &w->rates;
    const gs_lr_plan *p = &c->plan;
    const bool ruled = s->lr_rule != GS_LR_NONE, root = s->lr_rule == GS_LR_SQRT;
    uint64_t base = s->base_batch ? s->base_batch : GS_BASE_BATCH;
    char text[400] = "", schedule[GS_LR_SCHEDULE_TEXT];
    const size_t size = sizeof text;
    if (!ruled && !(c->warmup > 0) && s->schedule.kind == GS_SCHEDULE_CONSTANT) return;
    gs_append(text, size, "lr %.4g", p->scaled);
    if (ruled)
        gs_append(text, size, " (%s rule: %g x %s%zu/%" PRIu64 "%s)", gs_lr_rule_name(s->lr_rule),
                  (double)gs_settings_numbers(s).lr, root ? "sqrt(" : "", w->batch, base, root ? ")" : "");
    if (p->warmup > 0)
        gs_append(text, size, ", after a warm-up from %.4g over %g steps", p->first, p->warmup);
    if (!ruled && c->warmup > 0) gs_append(text, size, ", after a warm-up over %g steps", c->warmup);
    if (c->warmup > c->steps) gs_append(text, size, ": not reached, the run ends after %g", c->steps);
    if ((s->warmup > 0 || s->warmup_steps) && !(c->warmup > 0))
        gs_append(text, size, "; not higher: no warm-up");
    if (s->schedule.kind != GS_SCHEDULE_CONSTANT)
        gs_append(text, size, "; %s", gs_lr_schedule_text(&c->schedule, schedule, sizeof schedule));
    if (gs_lr_schedule_falls(&c->schedule))
        gs_append(text, size, " to %g at step %.0f", c->final_lr, c->steps);
    gs_print_fact("rate", "%s", text);
}

static void print_offload(const gs_settings *s) {
    char text[GS_OFFLOAD_TEXT];
    const bool files = strstr(s->devices, "cpu") != NULL;
    gs_print_fact("offload", "%s: %s%s%s", gs_offload_text(s->offload, text, sizeof text),
                  files ? "in files in " : "in the host's memory",
                  files ? gs_mapped_folder(s->offload_dir) : "",
                  files && gs_mapped_is_memory(s->offload_dir)
                      ? ", which is memory itself: --offload-dir takes a folder on a disk"
                      : "");
}

static void print_recompute(const gs_settings *s, const gs_worker *w) {
    char text[16];
    if (!s->recompute) return;
    const gs_recomputed r = gs_worker_recomputes(w);
    const char *which = gs_recompute_text(s->recompute, text, sizeof text);
    const bool split = s->pipeline > 1;
    if (r.segments == 0)
        gs_print_fact("again",
                      "--recompute %s: nothing to compute again; no such part of the %s keeps more than its "
                      "input and output",
                      which, split ? "first stage" : "model");
    else
        gs_print_fact("again",
                      "--recompute %s: backward%s repeats %.0f %% of forward's operations, in %d "
                      "segment%s: a step has %.0f %% more",
                      which, split ? " of the first stage" : "", 100 * r.again / r.forward, r.segments,
                      gs_s((unsigned)r.segments), 100 * r.again / (r.forward + r.backward));
}

static void print_chosen(const gs_settings *s, const gs_worker *w) {
    const int workers = w->comm->size;
    char link[80], augment[GS_AUGMENT_TEXT];
    if (s->precision != GS_PRECISION_F32)
        gs_print_fact("products", "of %s in linear, conv2d and attention; sums and weights are f32%s",
                      s->precision == GS_PRECISION_F16 ? "f16" : "bf16",
                      s->precision == GS_PRECISION_F16 ? "; the loss is scaled" : "");
    if (s->offload) print_offload(s);
    if (s->bucket && workers > 1)
        gs_print_fact("buckets", "of at least %d KB, summed while backward continues with earlier layers",
                      s->bucket);
    if (s->wire != GS_WIRE_F32 && workers > 1)
        gs_print_fact("wire", "gradients travel as %s; they are summed in f32", gs_wire_name(s->wire));
    if ((s->bucket || s->wire != GS_WIRE_F32 || gs_link_is_there(&s->link)) && workers == 1)
        gs_print_fact("alone", "one worker has nobody to sum with: --bucket, --wire, --link change nothing");
    if (s->label_smoothing > 0)
        gs_print_fact("labels", "%g of each is spread over all classes in training, not in the test loss",
                      (double)s->label_smoothing);
    if (s->clip > 0)
        gs_print_fact("clip", "gradients are shortened to a norm of at most %g", (double)s->clip);
    if (s->accumulate > 1)
        gs_print_fact("passes", "%d over each worker's part of the batch, %s",
                      w->schedule.passes * w->schedule.mine / w->schedule.leaves,
                      s->zero > 1 ? "each with its sum" : "before one sum");
    for (int i = 0; i < s->jitter.count; i++) {
        const gs_pause *p = &s->jitter.pause[i];
        if (p->rank >= workers) continue; /* this rank was lost (launch --elastic) */
        gs_print_fact("jitter", "worker %d pauses %g ms in %g %% of its steps", p->rank, 1e3 * p->seconds,
                      100 * p->share);
    }
    if (gs_link_is_there(&s->link) && workers > 1)
        gs_print_fact("link", "%s: a message takes that latency, and its bytes at that rate",
                      gs_link_text(&s->link, link, sizeof link));
    if (gs_augment_is_on(&s->augment))
        gs_print_fact("augment", "%s, drawn for each training image in each epoch",
                      gs_augment_text(&s->augment, augment, sizeof augment));
    if (s->throttle > 0)
        gs_print_fact("throttle", "each worker's loader supplies %g MB of samples per second", s->throttle);
    if (s->exact) gs_print_fact("exact", "the same bits for 1, 2, 4 and 8 workers, on any device");
    if (s->verify)
        gs_print_fact("verify", "all workers' weights are compared every %" PRIu64 " step%s", s->verify,
                      gs_s(s->verify));
}

/* ---- the start: the workers, and what each holds ---- */

enum { ROWS = 64 };

static const char *share_text(int of, char text[16]) {
    snprintf(text, 16, of > 1 ? "1/%d" : "all", of);
    return text;
}

/* Print a line for each worker of the run, at most ROWS lines: its coordinates and its share of the model. */
static void print_layout(const gs_worker *w) {
    const gs_model *plan = gs_model_whole(w->model);
    const int workers = w->comm->size;
    const gs_layout l = gs_layout_of(w->settings, workers);
    char name[GS_LAYOUT_TEXT], weights[16], gradients[16], vectors[16];
    printf("layout   %s\n%4s %-11s %5s %4s %5s %-9s %10s %7s %9s %7s\n", gs_layout_text(&l, name), "rank",
           "device", "stage", "part", "repl.", "layers", "parameters", "weights", "gradients", "vectors");
    for (int rank = 0; rank < workers && rank < ROWS; rank++) {
        gs_layout_share share;
        if (gs_layout_share_of(w->settings, plan, workers, rank, &share) != GS_OK) return;
        const gs_coordinates at = gs_coordinates_of(&l, rank);
        printf("%4d %-11.11s %5d %4d %5d %-9.9s %10s %7s %9s %7s\n", rank, w->devices[rank].device, at.pp,
               at.tp, at.dp, share.layers, gs_thousands((double)share.params),
               share_text(l.zero > 2 ? l.dp : 1, weights), share_text(l.zero > 1 ? l.dp : 1, gradients),
               share_text(l.zero > 0 ? l.dp : 1, vectors));
    }
    if (workers > ROWS) printf("  ... and %d more\n", workers - ROWS);
}

static void print_cut(const gs_settings *s, const gs_cut_report *cut) {
    double all = 0;
    gs_print_fact(
        "cut",
        "by what the layers took, for a micro-batch of %zu sample%s on worker 0; --pipeline-cut %s would cut "
        "the same",
        cut->samples, gs_s(cut->samples), s->pipeline_cut);
    for (int r = 0; r < cut->runs; r++) all += cut->forward[r] + cut->backward[r];
    printf("%5s  %-10s %10s %11s %8s\n", "stage", "layers", "forward ms", "backward ms", "of all");
    for (int r = 0; r < cut->runs && r < ROWS; r++) {
        char layers[24];
        const int first = cut->first[r], last = cut->first[r + 1] - 1;
        snprintf(layers, sizeof layers, first < last ? "%d-%d" : "%d", first, last);
        printf("%5d  %-10s %10.3f %11.3f %6.1f %%\n", r % s->pipeline, layers, 1e3 * cut->forward[r],
               1e3 * cut->backward[r], all > 0 ? 100 * (cut->forward[r] + cut->backward[r]) / all : 0);
    }
    if (cut->runs > ROWS) printf("  ... and %d more\n", cut->runs - ROWS);
}

/* Print a line for each distinct device of the run; only for this worker's if workers do not know each other's. */
static void print_devices(const gs_worker *w) {
    const gs_device_report *d = gs_workers_differ(w) ? w->devices : NULL;
    if (!d) gs_print_fact("", "%s: %s", w->device->name, w->device->description);
    for (int r = 0; d && r < w->comm->size; r++) {
        int first = 0;
        while (strcmp(d[first].device, d[r].device) != 0 ||
               strcmp(d[first].description, d[r].description) != 0)
            first++;
        if (first == r) gs_print_fact("", "%s: %s", d[r].device, d[r].description);
    }
}

/* "0.286", or "0.49/0.48/0.45" for colour images. */
static const char *channels_text(const gs_by_channel *x, char text[80]) {
    *text = '\0';
    for (int c = 0; c < x->count; c++) gs_append(text, 80, "%s%.4g", c ? "/" : "", (double)x->of[c]);
    return text;
}

/* Print the scaling if --load, --mean or --std replaces the data's own scaling. */
static void print_scaling(const gs_worker *w) {
    gs_scaling used = w->model->scaling;
    char text[4][80];
    if (!w->input.scales) return;
    gs_scaling own = gs_dataset_scaling(w->train_set);
    if (gs_by_channel_same(&used.mean, &own.mean) && gs_by_channel_same(&used.std, &own.std)) return;
    gs_print_fact("images", "mean %s, std %s; the data's own are %s, %s", channels_text(&used.mean, text[0]),
                  channels_text(&used.std, text[1]), channels_text(&own.mean, text[2]),
                  channels_text(&own.std, text[3]));
}

static void text_workers(const gs_settings *s, const gs_worker *w) {
    char sums[GS_SUMS_TEXT], how[200];
    const bool two_level = strcmp(w->comm->ops->name, "two-level") == 0;
    gs_strategy_describe(s, how, sizeof how);
    gs_print_fact("workers", "%d (%s%s%s%s), %s", w->comm->size, s->devices,
                  s->processes && s->processes->size > 1 ? " in each process; transport: " : "; transport: ",
                  w->comm->ops->name, two_level ? ": shared memory in each machine, Gloo between them" : "",
                  how);
    print_devices(w);
    if (gs_model_parallel_size(s) > 1 || s->zero)
        gs_print_fact("sums", "of gradients: %s", gs_sums_text(w, sums));
}

/* Print the optimiser with its hyperparameters. */
static void print_step(const gs_settings *s, const gs_worker *w) {
    const gs_optimizer_ops *ops = s->optimizer;
    const gs_hyperparameters n = gs_settings_numbers(s);
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
    char what[64] = "images";
    const char *kind = w->train_set->kind;
    const gs_text *t = w->train_set->text;
    if (t)
        snprintf(what, sizeof what, "windows of %d %s", t->context,
                 gs_tokens_word(t->vocabulary.kind, (size_t)t->context));
    gs_print_fact("data", "%s%s%s%s: %s %s to train on, %s to test", s->data, *kind ? " (" : "", kind,
                  *kind ? ")" : "", gs_thousands((double)w->train_set->count), what,
                  gs_thousands((double)w->test_set->count));
}

static void text_start(const gs_progress *p, const gs_worker *w) {
    const gs_settings *s = p->settings;
    const char *given = s->model ? s->model : w->settings->model; /* mlp, if nothing is loaded */
    gs_print_fact("model", "%s, %s parameters", gs_model_named(given) ? given : w->model->text,
                  gs_thousands((double)gs_model_whole(w->model)->params));
    print_data(s, w);
    print_scaling(w);
    if (w->comm->size == 1)
        gs_print_fact("worker", "%s: %s", s->devices, w->device->description);
    else
        text_workers(s, w);
    if (gs_workers_differ(w)) print_layout(w);
    if (w->cut) print_cut(w->settings, w->cut);
    if (w->cpus > 0)
        printf("bound    each worker to %d CPU%s of its own (--bind none undoes it)\n", w->cpus,
               gs_s((unsigned)w->cpus));
    if (*w->sync->why) gs_print_fact("sync", "%s chose %s: %s", s->sync, w->sync->scheme->name, w->sync->why);
    print_step(s, w);
    if (w->settings->micro_batch)
        gs_print_fact("at once", "a worker computes at most %zu samples", w->schedule.most);
    if (w->fit && *w->fit) gs_print_fact("fit", "%s", w->fit);
    if (s->resume && !*p->ended)
        gs_print_fact("resume", "%s: after step %s, in epoch %" PRIu64 " of %d", s->resume,
                      gs_thousands((double)w->step),
                      1 + w->step / gs_steps_of_epoch(w->train_set->count, w->batch), s->epochs);
    if (w->settings->snapshots && w->settings->begin)
        gs_print_fact("elastic", "%d worker%s go%s on after step %s", w->comm->size,
                      gs_s((unsigned)w->comm->size), w->comm->size == 1 ? "es" : "",
                      gs_thousands((double)w->step));
    if (*p->ended) gs_print_fact("resume", "%s", p->ended);
    if (!*p->ended) print_rates(s, w);
    if (!*p->ended) print_recompute(s, w);
    if (!*p->ended) print_chosen(s, w);
    gs_flush_output();
}

static void on_start(void *context, const gs_worker *w) {
    gs_progress *p = context;
    gs_show_activity(NULL, 0, NULL);
    p->started = gs_seconds();
    p->parts = w->strategy->apart ? w->comm->size : 1;
    p->targets = gs_model_targets(w->model);
    p->bar_epoch = 0;
    p->tokens = w->train_set->text ? w->train_set->text->context : 0;
    p->perplexity = p->tokens && p->settings->loss == GS_SOFTMAX_CROSS_ENTROPY;
    gs_tell_scaling("train", p->settings);
    gs_tell_of_data(w);
    const gs_state *begin = w->settings->begin;
    if (!begin || !gs_state_has_ended(begin, w->settings, p->ended, sizeof p->ended)) *p->ended = 0;
    if (p->json)
        json_start(w);
    else
        text_start(p, w);
}

/* Shows "[====>     ] epoch 2/5 loss 0.412 acc 85.1 % 41,200/s, 3 s left"; the time left includes tests. */
static void on_step(void *context, int epoch, uint64_t done, uint64_t of, const gs_score *score) {
    gs_progress *p = context;
    gs_launch_note_step();
    if (score->skipped) /* only happens in f16 */
        gs_tell("",
                "epoch %d, step %" PRIu64
                ": a gradient is not finite with a loss scale of %g; the update is left out, "
                "and the scale is halved",
                epoch, done, (double)score->loss_scale);
    if (!p->bar) return;
    if (done == 1 || p->bar_epoch != epoch) {
        p->started = gs_seconds();
        p->samples_done = 0;
        p->bar_epoch = epoch;
        return; /* computing a rate takes two points in time */
    }
    p->samples_done += score->samples * p->parts / p->targets;
    if (!(score->samples > 0)) return;
    const gs_settings *s = p->settings;
    const double rate = p->samples_done * (p->tokens ? p->tokens : 1) / (gs_seconds() - p->started);
    char at[64];
    snprintf(at, sizeof at, "epoch %d/%d", epoch, s->epochs);
    if (s->steps)
        snprintf(at, sizeof at, "step %" PRIu64 "/%" PRIu64, (uint64_t)(epoch - 1) * of + done, s->steps);
    gs_show_activity(&p->work, gs_share_of_run(s, epoch, done, of), "%s loss %.3f acc %4.1f %% %s%s/s", at,
                     gs_shown(score->loss / score->samples), 100 * score->correct / score->samples,
                     gs_thousands(rate), p->tokens ? " tokens" : "");
}

static void on_testing(void *context, size_t done, size_t of) {
    gs_progress *p = context;
    if (!p->bar) return;
    if (done == 0) p->test = (gs_activity){0};
    gs_show_activity(&p->test, (double)done / (double)of, "epoch %d/%d, test",
                     p->bar_epoch ? p->bar_epoch : 1, p->settings->epochs);
}

/* "perplexity 8.36" or "accuracy 61.20 %". */
static const char *how_good(const gs_progress *p, double loss, double accuracy, char text[40]) {
    if (p->perplexity)
        snprintf(text, 40, "perplexity %.4g", gs_shown(exp(loss)));
    else
        snprintf(text, 40, "accuracy %.2f %%", 100 * accuracy);
    return text;
}

/* For text data, the rate counts tokens. */
static const char *rate(const gs_progress *p, double samples_per_s, char text[48]) {
    snprintf(text, 48, "%s %s/s", gs_thousands(samples_per_s * (p->tokens ? p->tokens : 1)),
             p->tokens ? "tokens" : "samples");
    return text;
}

static void on_epoch(void *context, const gs_epoch_report *r) {
    gs_progress *p = context;
    gs_show_activity(NULL, 0, NULL);
    if (p->json) {
        json_epoch(p, r);
        return;
    }
    char test[160], good[40], per_s[48];
    int column = printf("epoch %d/%d  train loss %.4f, %s", r->epoch, p->settings->epochs,
                        gs_shown(r->train_loss), how_good(p, r->train_loss, r->train_accuracy, good));
    if (r->before) column += printf(" without its first %" PRIu64 " step%s", r->before, gs_s(r->before));
    rate(p, r->samples_per_s, per_s);
    if (isnan(r->test_loss)) /* --tests 0 */
        column += snprintf(test, sizeof test, "  %s", per_s);
    else if (p->perplexity)
        column += snprintf(test, sizeof test, "  test loss %.4f, %s  %s", gs_shown(r->test_loss),
                           how_good(p, r->test_loss, 0, good), per_s);
    else
        column += snprintf(test, sizeof test, "  test %.2f %%  %s", 100 * r->test_accuracy, per_s);
    /* print two lines rather than one that the terminal would cut off */
    printf("%s%s\n", gs_screen_width(stdout) < 80 || column > 80 ? "\n        " : "", test);
    gs_flush_output();
}

static void on_note(void *context, const char *sentence) {
    (void)context;
    gs_tell("train", "%s", sentence);
}

gs_observer gs_progress_observer(gs_progress *p) {
    p->bar = !p->json && isatty(STDERR_FILENO);
    return (gs_observer){.context = p,
                         .start = on_start,
                         .step = on_step,
                         .testing = on_testing,
                         .epoch = on_epoch,
                         .note = on_note};
}

/* ---- the end ---- */

/* Print lines such as "   3..5     412   43.1 %  =========", at most LINES of them. Returns the mean. */
static double print_distribution(const uint64_t *count, size_t n) {
    static const char bar[] = "========================================";
    enum { LINES = 12 };
    size_t width = (n + LINES - 1) / LINES;
    double all = 0, sum = 0;
    for (size_t i = 0; i < n; i++) {
        all += (double)count[i];
        sum += (double)i * (double)count[i];
    }
    for (size_t i = 0; i < n && all > 0; i += width) {
        uint64_t here = 0;
        char range[48];
        for (size_t k = i; k < n && k < i + width; k++) here += count[k];
        double share = (double)here / all;
        size_t last = (i + width < n ? i + width : n) - 1;
        snprintf(range, sizeof range, "%zu", i);
        if (last > i) gs_append(range, sizeof range, "..%zu", last);
        printf("%14s %9" PRIu64 " %5.1f %%  %.*s\n", range, here, 100 * share,
               (int)(share * (double)strlen(bar) + 0.5), bar);
    }
    return all > 0 ? sum / all : 0;
}

/* Print what a worker holds, which with stages 2 and 3 can exceed the whole model, and how much it should have sent. */
static void print_zero(const gs_zero_report *z) {
    const double mb = 1e-6;
    if (z->stage == 0) return;
    if (z->dp == 1) {
        gs_print_fact("zero", "%d: nothing is divided, as there is one replica", z->stage);
        return;
    }
    gs_print_fact("zero",
                  "%d: each worker holds %.4g MB of weights, %.4g of gradients, %.4g of the optimiser; the "
                  "whole model has %.4g",
                  z->stage, mb * z->weights, mb * z->gradients, mb * z->vectors, mb * z->model);
    if (z->stage > 1)
        gs_print_fact("",
                      "(%s: its part, two windows as large as the largest layer, and with several passes "
                      "their sum)",
                      z->stage > 2 ? "weights, gradients" : "gradients");
    gs_print_fact(
        "formula",
        "%d (N - 1) / N x %.4g MB, with N = %d: a worker sends %s bytes, and the counts, in a step%s",
        z->stage > 2 ? 3 : 2, mb * z->model, z->dp, gs_thousands(z->formula),
        z->stage > 1 ? " of one pass" : "");
}

static void print_tensor(const gs_tensor_report *t, const gs_result *r) {
    const double mb = 1e-6;
    const bool stages = r->bubble.stages > 0; /* then a worker's numbers describe only its own stage */
    char which[24] = "each";
    if (t->workers == 0) return;
    if (stages) snprintf(which, sizeof which, "worker %d", r->rank);
    gs_print_fact("tensor",
                  "%d workers share each pair of linear layers: %s holds %.4g MB of the weights' %.4g; in a "
                  "step %s%.4g all-reduce%s in %s group, of %s bytes in all",
                  t->workers, which, mb * t->held, mb * t->model, stages ? "it makes " : "", t->sums,
                  t->sums == 1 ? "" : "s", stages ? "its" : "a", gs_thousands(t->bytes));
    if (t->gathers > 0)
        gs_print_fact("",
                      "(with --sequence most of them as reduce-scatters, and %.4g all-gathers of %s bytes)",
                      t->gathers, gs_thousands(t->gathered));
}

static void print_checkpoints(const gs_checkpoint_report *c) {
    if (!c->on || c->written + c->failed == 0) return;
    if (c->written > 0)
        gs_print_fact("wrote", "%d checkpoint%s of %.3g MB, the last of step %s", c->written,
                      gs_s((unsigned)c->written), 1e-6 * c->bytes, gs_thousands((double)c->step));
    if (c->lost) gs_print_fact("lost", "the last checkpoint could not be written");
    gs_print_fact(
        "",
        "(a step waited %.3g ms for a copy, at most %.3g ms: %.2g %% of the training; each was written "
        "in %.3g ms, beside it)",
        1e3 * c->copied, 1e3 * c->longest, 100 * c->share, 1e3 * c->wrote);
}

/* Print the bubble by cause; see strategies/pipeline.c. */
static void print_bubble(const gs_bubble *b) {
    if (b->stages == 0) return;
    printf("bubble   %.1f %% of the time of forward and backward the %d stages waited:\n"
           "         %6.1f %%  fill and drain; alone %.1f %%, %.1f %% by the formula\n"
           "         %6.1f %%  stages of unequal times\n"
           "         %6.1f %%  messages, wake-ups, loads, and uneven times of a pass\n"
           "         in virtual time, with the mean times of these stages: %.1f %%\n",
           gs_percent(b->measured), b->stages, gs_percent(b->fill), gs_percent(b->alone),
           gs_percent(b->formula), gs_percent(b->unequal), gs_percent(b->rest), gs_percent(b->virtual_time));
}

static void print_measured(const gs_result *r) {
    const gs_staleness *s = &r->staleness;
    print_checkpoints(&r->checkpoints);
    print_tensor(&r->tensor, r);
    print_zero(&r->zero);
    if (r->sent > 0 && r->sent_most > r->sent + 0.5)
        gs_print_fact("sent", "%s bytes per step by each worker on average, %s by the busiest",
                      gs_thousands(r->sent), gs_thousands(r->sent_most));
    else if (r->sent > 0)
        gs_print_fact("sent", "%s bytes per step by each worker", gs_thousands(r->sent));
    if (r->overlap.buckets > 0)
        gs_print_fact("overlap",
                      "%d bucket%s; %.0f %% of their summing time hidden behind backward (per step: sums "
                      "%.3f ms, waited for after backward %.3f ms)",
                      r->overlap.buckets, r->overlap.buckets > 1 ? "s" : "",
                      100 * gs_overlap_hidden(r->overlap), 1e3 * r->overlap.summed, 1e3 * r->overlap.waited);
    if (r->offload.on)
        gs_print_fact(
            "offload",
            "%.1f MB of a worker; %.0f %% of the time to fetch and write back hidden behind its work (per "
            "step: %.1f MB fetched; busy %.3f ms, waited for %.3f ms)",
            1e-6 * r->offload.bytes, 100 * gs_offload_hidden(r->offload.in_step),
            1e-6 * r->offload.in_step.bytes, 1e3 * r->offload.in_step.busy, 1e3 * r->offload.in_step.waited);
    print_bubble(&r->bubble);
    if (!s->count) return;
    printf("stale    gradients, by how many others arrived after their weights were read\n");
    const double staleness = print_distribution(s->count, s->counts);
    printf("ahead    steps, by how far ahead of the slowest worker they began\n");
    const double ahead = print_distribution(s->lead, s->leads);
    printf("mean     staleness %.2f, %.2f steps ahead\n", staleness, ahead);
}

static const char *const short_names[GS_PHASES] = {"data", "forw", "back", "sync", "upd."};

static void print_worker(const char *who, const char *device, int width, const gs_worker_report *r) {
    double computing = 1 - r->share[GS_PHASE_SYNC], sum = 0;
    for (int p = 0; p < GS_PHASES; p++) sum += r->share[p];
    printf("%4s %-*s %9s %8s", who, width, device, gs_thousands(r->samples_per_s),
           sum > 0 && computing > 0 ? gs_thousands(r->samples_per_s / computing) : "-");
    for (int p = 0; p < GS_PHASES; p++) sum > 0 ? printf(" %4.0f", 100 * r->share[p]) : printf(" %4s", "-");
    putchar('\n');
}

/* Print a line for each worker of a run and one for all workers; nothing for a single worker. Lines are at most 80
 * columns wide, or 60 if device names are short. */
static void print_workers(const gs_result *r) {
    if (r->workers < 2 || !r->worker) return;
    enum { NUMBERS = 49 }; /* columns after the name */
    const int screen = gs_screen_width(stdout);
    int width = 9, room = (screen < 80 ? screen : 80) - NUMBERS;
    for (int i = 0; i < r->workers; i++) {
        int length = (int)strlen(r->worker[i].device);
        if (length > width) width = length;
    }
    if (room < 9) room = 9;
    if (width > room) width = room;
    printf("\n%4s %-*s %9s %8s  share of the time in %%\n", "", width, "", "", "without");
    printf("%4s %-*s %9s %8s", "rank", width, "device", "samples/s", "sync");
    for (int p = 0; p < GS_PHASES; p++) printf(" %4s", short_names[p]);
    putchar('\n');
    for (int i = 0; i < r->workers; i++) {
        char who[16];
        const char *device = r->worker[i].device;
        int length = (int)strlen(device);
        snprintf(who, sizeof who, "%d", i);
        /* only the end of a long name tells devices apart: cl:0.0/1of2 */
        print_worker(who, length > width ? device + length - width : device, width, &r->worker[i]);
    }
    gs_worker_report all = {.samples_per_s = r->samples_per_s}; /* speeds are summed, shares averaged */
    for (int i = 0; i < r->workers; i++)
        for (int p = 0; p < GS_PHASES; p++) all.share[p] += r->worker[i].share[p] / r->workers;
    print_worker("all", gs_thousands(r->workers), width, &all);
    putchar('\n');
}

/* Tests follow whole epochs, so a run stopped within an epoch has no accuracy for its last weights. */
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

/* Print the memory of the worker that used most; predictions are in parentheses: "memory   12.3 MB (12.3 predicted):
 * activations 8.1 (8.1), data 2.2 (2.2), ...". */
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
    if (r->message_copies >= 0.05e6)
        gs_append(text, sizeof text, "; and %.1f MB of messages between all threads",
                  r->message_copies / 1e6);
    gs_print_fact("memory", "%s", text);
}

void gs_progress_end(gs_progress *p, const gs_result *r) {
    char sha256[65];
    gs_show_activity(NULL, 0, NULL);
    gs_sha256(r->weights, r->params * sizeof(float), sha256);
    if (p->json) {
        json_end(p, r, sha256);
        return;
    }
    if (!*p->ended) print_measured(r);
    if (!*p->ended) print_workers(r);
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
