#include "cli/cli.h"
#include "core/text.h"
#include "io/json.h"
#include "io/mapped.h"
#include "layer/memory/recompute.h"
#include "train/offload/offload.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *gs_modes_sum(const gs_settings *s) {
    static char text[200];
    gs_strategy_describe(s, text, sizeof text);
    return text;
}

/* What follows the warm-up. */
static void add_schedule(const gs_lr_course *c, char *text, size_t size) {
    const gs_lr_schedule *s = &c->schedule;
    if (gs_lr_schedule_falls(s))
        gs_append(text, size, "; %s to %g at step %.0f",
                  s->kind == GS_SCHEDULE_COSINE ? "along a cosine" : "linearly", c->final_lr, c->steps);
    for (int i = 0; i < s->drops; i++)
        gs_append(text, size, "%s %g",
                  i > 0          ? ","
                  : s->drops > 1 ? "; after epochs"
                                 : "; after epoch",
                  s->drop[i]);
    if (s->drops > 0) gs_append(text, size, " x %g", s->factor);
}

void gs_modes_print_rates(const gs_settings *s, const gs_worker *w) {
    const gs_lr_course *c = &w->rates;
    const gs_lr_plan *p = &c->plan;
    const bool ruled = s->lr_rule != GS_LR_NONE, root = s->lr_rule == GS_LR_SQRT;
    uint64_t base = s->base_batch ? s->base_batch : GS_BASE_BATCH;
    char text[400] = "";
    const size_t size = sizeof text;
    if (!ruled && !(c->warmup > 0) && s->schedule.kind == GS_SCHEDULE_CONSTANT) return;
    gs_append(text, size, "lr %.4g", p->scaled);
    if (ruled)
        gs_append(text, size, " (%s rule: %g x %s%zu/%" PRIu64 "%s)", gs_lr_rule_name(s->lr_rule),
                  (double)gs_settings_numbers(s).lr, root ? "sqrt(" : "", w->batch, base, root ? ")" : "");
    if (p->warmup > 0)
        gs_append(text, size, ", after a warm-up from %.4g over %g steps", p->first, p->warmup);
    if (!ruled && c->warmup > 0) gs_append(text, size, ", after a warm-up over %g steps", c->warmup);
    if ((s->warmup > 0 || s->warmup_steps) && !(c->warmup > 0))
        gs_append(text, size, "; not higher: no warm-up");
    add_schedule(c, text, size);
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

void gs_modes_print_recompute(const gs_settings *s, const gs_worker *w) {
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

void gs_modes_print(const gs_settings *s, int workers) {
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
        gs_print_fact("alone",
                      "one worker has nobody to sum with: --bucket, --wire and --link change nothing");
    if (s->label_smoothing > 0)
        gs_print_fact("labels",
                      "%g of each is spread over all classes in training; the test loss is without that",
                      (double)s->label_smoothing);
    if (s->clip > 0)
        gs_print_fact("clip", "gradients are shortened to a norm of at most %g", (double)s->clip);
    if (s->accumulate > 1)
        gs_print_fact("passes", "%d over each worker's part of the batch, %s", s->accumulate,
                      s->zero > 1 ? "each with its sum" : "before one sum");
    if (s->slow.ms > 0 && s->slow.rank < workers)
        gs_print_fact("slow", "worker %d sleeps %g ms in each step", s->slow.rank, s->slow.ms);
    for (int i = 0; i < s->jitter.count; i++) {
        const gs_pause *p = &s->jitter.pause[i];
        if (p->rank >= workers) continue; /* it was lost (launch --elastic) */
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
    if (s->exact) gs_print_fact("exact", "the same bits for 1, 2, 4 and 8 workers on this kind of CPU");
    if (s->verify)
        gs_print_fact("verify", "all workers' weights are compared every %" PRIu64 " step%s", s->verify,
                      gs_s(s->verify));
}

/* ---- the end ---- */

/* "   3 .. 5     412   43.1 %  =========": at most LINES lines */
static void print_distribution(const uint64_t *count, size_t n) {
    enum { LINES = 12, BAR = 40 };
    size_t width = (n + LINES - 1) / LINES;
    uint64_t all = 0;
    for (size_t i = 0; i < n; i++) all += count[i];
    for (size_t i = 0; i < n && all > 0; i += width) {
        uint64_t here = 0;
        char range[48], bar[BAR + 1];
        for (size_t k = i; k < n && k < i + width; k++) here += count[k];
        double share = (double)here / (double)all;
        size_t last = (i + width < n ? i + width : n) - 1;
        int filled = (int)(share * BAR + 0.5);
        for (int k = 0; k < BAR; k++) bar[k] = k < filled ? '=' : 0;
        bar[BAR] = 0;
        if (last == i)
            snprintf(range, sizeof range, "%zu", i);
        else
            snprintf(range, sizeof range, "%zu..%zu", i, last);
        printf("%14s %9" PRIu64 " %5.1f %%  %s\n", range, here, 100 * share, bar);
    }
}

static double mean_of(const uint64_t *count, size_t n) {
    double sum = 0, all = 0;
    for (size_t i = 0; i < n; i++) {
        sum += (double)i * (double)count[i];
        all += (double)count[i];
    }
    return all > 0 ? sum / all : 0;
}

/* What a worker holds, which with stages 2 and 3 can be more than the model; and what it should have sent. */
static void print_zero(const gs_zero_report *z) {
    const double mb = 1e-6;
    if (z->stage == 0) return;
    if (z->replicas == 1) {
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
        z->stage > 2 ? 3 : 2, mb * z->model, z->replicas, gs_thousands(z->formula),
        z->stage > 1 ? " of one pass" : "");
}

static void print_tensor(const gs_tensor_report *t, const gs_result *r) {
    const double mb = 1e-6;
    const bool stages = r->bubble.stages > 0; /* then a worker's numbers are those of its stage */
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
    if (!c->on) return;
    if (c->written + c->failed == 0) return;
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

/* By cause: pipeline/waits.h. */
static void print_bubble(const gs_bubble *b) {
    if (b->stages == 0) return;
    printf("bubble   %.1f %% of the time of forward and backward the %d stages waited:\n"
           "         %6.1f %%  fill and drain; alone %.1f %%, %.1f %% by the formula\n"
           "         %6.1f %%  stages of unequal times\n"
           "         %6.1f %%  uneven times of a pass\n"
           "         %6.1f %%  messages, wake-ups and loads\n"
           "         in virtual time, with the mean times of these stages: %.1f %%\n",
           gs_percent(b->measured), b->stages, gs_percent(b->fill), gs_percent(b->alone),
           gs_percent(b->formula), gs_percent(b->unequal), gs_percent(b->uneven), gs_percent(b->messages),
           gs_percent(b->virtual_time));
}

void gs_modes_print_end(const gs_result *r) {
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
            "%.1f MB of a worker; %.0f %% of the time to bring and put back hidden behind its work (per "
            "step: %.1f MB brought; busy %.3f ms, waited for %.3f ms)",
            1e-6 * r->offload.bytes, 100 * gs_away_hidden(r->offload.in_step),
            1e-6 * r->offload.in_step.bytes, 1e3 * r->offload.in_step.busy, 1e3 * r->offload.in_step.waited);
    print_bubble(&r->bubble);
    if (!s->count) return;
    printf("stale    gradients, by how many others arrived after their weights were read\n");
    print_distribution(s->count, s->counts);
    printf("ahead    steps, by how far ahead of the slowest worker they began\n");
    print_distribution(s->lead, s->leads);
    printf("mean     staleness %.2f, %.2f steps ahead\n", mean_of(s->count, s->counts),
           mean_of(s->lead, s->leads));
}

static void add_array(cJSON *o, const char *name, const uint64_t *count, size_t n) {
    cJSON *array = cJSON_AddArrayToObject(o, name);
    for (size_t i = 0; i < n; i++) cJSON_AddItemToArray(array, cJSON_CreateNumber((double)count[i]));
}

void gs_modes_json_end(const gs_result *r, cJSON *o) {
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
                    GS_FIELD("offload_hidden", gs_away_hidden(r->offload.in_step)));
    const gs_checkpoint_report *c = &r->checkpoints;
    if (c->on)
        GS_JSON_ADD(o, GS_FIELD("checkpoints", c->written), GS_FIELD("checkpoints_failed", c->failed),
                    GS_FIELD("checkpoint_step", c->written ? (double)c->step : (double)NAN),
                    GS_FIELD("checkpoint_bytes", c->bytes), GS_FIELD("checkpoint_copy_ms", 1e3 * c->copied),
                    GS_FIELD("checkpoint_copy_most_ms", 1e3 * c->longest),
                    GS_FIELD("checkpoint_copy_share", c->share),
                    GS_FIELD("checkpoint_write_ms", 1e3 * c->wrote));
    if (r->bubble.stages > 0)
        GS_JSON_ADD(o, GS_FIELD("bubble", r->bubble.measured),
                    GS_FIELD("bubble_virtual_time", r->bubble.virtual_time),
                    GS_FIELD("bubble_formula", r->bubble.formula),
                    GS_FIELD("bubble_fill_and_drain", r->bubble.fill),
                    GS_FIELD("bubble_fill_and_drain_alone", r->bubble.alone),
                    GS_FIELD("bubble_unequal_stages", r->bubble.unequal),
                    GS_FIELD("bubble_uneven_times", r->bubble.uneven),
                    GS_FIELD("bubble_messages", r->bubble.messages));
    if (!s->count) return;
    add_array(o, "staleness", s->count, s->counts);
    add_array(o, "steps_ahead", s->lead, s->leads);
}
