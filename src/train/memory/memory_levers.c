#include "train/memory/memory_levers.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "layer/memory/recompute.h"
#include "train/internal.h"
#include "train/offload/offload.h"

static void say(gs_memory_option *o, const char *option, const char *formula) {
    snprintf(o->option, sizeof o->option, "%s", option);
    snprintf(o->formula, sizeof o->formula, "%s", formula);
}

static const char smaller[] = "smaller products";

/* ---- fewer samples at once ---- */

static size_t largest_piece(const gs_memory_plan *p) {
    size_t most = 0;
    for (int i = 0; i < p->workers; i++)
        if (p->worker[i].piece > most) most = p->worker[i].piece;
    return most;
}

/* In a pipeline a batch is cut into micro-batches instead. With --exact, a virtual shard that takes several passes has
 * other bits. */
static int micro_batch_degrees(const gs_memory_plan *p) {
    return p->stages > 1 || p->settings.exact ? 0 : (int)largest_piece(p) - 1;
}

static int micro_batch_listed(const gs_memory_plan *p, int i) {
    const size_t all = largest_piece(p), before = (all + ((size_t)1 << i) - 1) >> i, m = (before + 1) / 2;
    return i < 4 && before > 1 ? (int)(all - 1 - m) : -1;
}

static void set_micro_batch(const gs_memory_plan *p, int degree, gs_settings *s, gs_memory_option *o) {
    const size_t all = largest_piece(p);
    o->costs = smaller;
    s->micro_batch = all - 1 - (size_t)degree;
    snprintf(o->option, sizeof o->option, "--micro-batch %zu", all - 1 - (size_t)degree);
    snprintf(o->formula, sizeof o->formula, "%zu sample%s at once instead of %zu", all - 1 - (size_t)degree,
             gs_s((unsigned)(all - 1 - (size_t)degree)), all);
}

/* ---- more micro-batches in a pipeline ---- */

static int micro_batches_degrees(const gs_memory_plan *p) {
    const int now = gs_passes(&p->settings),
              share = (int)(p->batch / (size_t)(p->all_workers / p->stages / p->tensor)),
              most = share < 8 * now ? share : 8 * now;
    return p->stages > 1 && !p->settings.exact ? most - now : 0;
}

static int micro_batches_listed(const gs_memory_plan *p, int i) {
    const int now = gs_passes(&p->settings), degree = (now << (i + 1)) - now - 1;
    return i < 3 && degree < micro_batches_degrees(p) ? degree : -1;
}

static void set_micro_batches(const gs_memory_plan *p, int degree, gs_settings *s, gs_memory_option *o) {
    const int now = gs_passes(&p->settings);
    o->costs = smaller;
    s->micro_batches = now + 1 + degree;
    snprintf(o->option, sizeof o->option, "--micro-batches %d", s->micro_batches);
    snprintf(o->formula, sizeof o->formula, "a batch in %d parts instead of %d", s->micro_batches, now);
}

/* ---- ZeRO ---- */

static int zero_degrees(const gs_memory_plan *p) {
    return p->all_workers > p->stages * p->tensor && !gs_strategy_of(&p->settings)->apart ? 3 - p->zero : 0;
}

static void set_zero(const gs_memory_plan *p, int degree, gs_settings *s, gs_memory_option *o) {
    const bool stages = p->stages > 1;
    const char *const what[] = {stages ? "vectors" : "vectors; no copy for sums", "gradients too; windows",
                                "weights too; windows"};
    const char *const costs[] = {"sum, update and gathering of weights one after the other",
                                 stages ? "sums in each micro-batch" : "sums of few layers at a time",
                                 stages ? "weights come twice in each micro-batch"
                                        : "half as many bytes again between workers"};
    const char *usual = gs_settings_default().sync;
    s->zero = p->zero + 1 + degree;
    s->sync = usual;
    snprintf(o->option, sizeof o->option, "--zero %d%s%.20s", s->zero,
             strcmp(p->settings.sync, usual) ? ", no --sync " : "",
             strcmp(p->settings.sync, usual) ? p->settings.sync : "");
    if (s->layout) { /* one word, that says the stage too */
        s->pipeline = p->settings.pipeline;
        const gs_layout l = gs_layout_of(s, p->all_workers);
        char text[GS_LAYOUT_TEXT];
        snprintf(o->option, sizeof o->option, "--layout %.50s", gs_layout_text(&l, text));
        s->layout = NULL;
    }
    snprintf(o->formula, sizeof o->formula, "1/%d of %s", p->all_workers / p->stages / p->tensor,
             what[s->zero - 1]);
    o->costs = costs[s->zero - 1];
}

/* ---- activations computed again ---- */

static int recompute_degrees(const gs_memory_plan *p) {
    return p->settings.recompute ? 0 : 5;
}

static void set_recompute(const gs_memory_plan *p, int degree, gs_settings *s, gs_memory_option *o) {
    static const int which[] = {GS_RECOMPUTE_BLOCKS, GS_RECOMPUTE_ALL, 2, 4, 8};
    char text[16];
    (void)p;
    s->recompute = which[degree];
    snprintf(o->option, sizeof o->option, "--recompute %s",
             gs_recompute_text(which[degree], text, sizeof text));
    snprintf(o->formula, sizeof o->formula, "y inside of segments, which backward computes again");
    o->costs = "a part of forward twice";
}

/* ---- what lies elsewhere ---- */

static bool may_offload(const gs_memory_plan *p, unsigned what) {
    gs_settings s = p->settings;
    s.offload |= what;
    return s.offload != p->settings.offload && gs_check_offload(&s) == GS_OK && gs_check_pairs(&s) == GS_OK;
}

static void set_offload(gs_settings *s, unsigned what, gs_memory_option *o, const char *formula) {
    char text[GS_OFFLOAD_TEXT];
    s->offload |= what;
    snprintf(o->option, sizeof o->option, "--offload %s", gs_offload_text(s->offload, text, sizeof text));
    snprintf(o->formula, sizeof o->formula, "%s", formula);
    o->costs = "what is brought from a disk, or from the host";
}

/* For the list: each kind alone. */
static int offload_optimizer_degrees(const gs_memory_plan *p) {
    return may_offload(p, GS_OFFLOAD_OPTIMIZER);
}
static void offload_optimizer(const gs_memory_plan *p, int degree, gs_settings *s, gs_memory_option *o) {
    (void)p, (void)degree;
    set_offload(s, GS_OFFLOAD_OPTIMIZER, o, "vectors x 4 bytes x parameters, except blocks of 1 MB");
}

static int offload_activations_degrees(const gs_memory_plan *p) {
    return may_offload(p, GS_OFFLOAD_ACTIVATIONS);
}
static void offload_activations(const gs_memory_plan *p, int degree, gs_settings *s, gs_memory_option *o) {
    (void)p, (void)degree;
    set_offload(s, GS_OFFLOAD_ACTIVATIONS, o, "y of all layers, except three in a row");
}

static int offload_weights_degrees(const gs_memory_plan *p) {
    return may_offload(p, GS_OFFLOAD_WEIGHTS);
}
static void offload_weights(const gs_memory_plan *p, int degree, gs_settings *s, gs_memory_option *o) {
    (void)p, (void)degree;
    set_offload(s, GS_OFFLOAD_WEIGHTS, o, "4 bytes x parameters, except the largest layers");
}

/* For --fit: as few kinds as suffice; of as many, those first that cost least (README.md). */
static const unsigned sets_of_offload[] = {
    GS_OFFLOAD_ACTIVATIONS,
    GS_OFFLOAD_OPTIMIZER,
    GS_OFFLOAD_WEIGHTS,
    GS_OFFLOAD_ACTIVATIONS | GS_OFFLOAD_OPTIMIZER,
    GS_OFFLOAD_ACTIVATIONS | GS_OFFLOAD_WEIGHTS,
    GS_OFFLOAD_OPTIMIZER | GS_OFFLOAD_WEIGHTS,
    GS_OFFLOADS,
};
enum { SETS = sizeof sets_of_offload / sizeof *sets_of_offload };

/* It adds all of these, and they are allowed. */
static bool is_new_set(const gs_memory_plan *p, int i) {
    return !(p->settings.offload & sets_of_offload[i]) && may_offload(p, sets_of_offload[i]);
}

static int offload_degrees(const gs_memory_plan *p) {
    int count = 0;
    for (int i = 0; i < SETS; i++) count += is_new_set(p, i);
    return count;
}

static int not_listed(const gs_memory_plan *p, int i) {
    (void)p, (void)i;
    return -1;
}

static void offload_set(const gs_memory_plan *p, int degree, gs_settings *s, gs_memory_option *o) {
    int i = 0;
    for (; i < SETS - 1; i++)
        if (is_new_set(p, i) && degree-- == 0) break;
    set_offload(s, sets_of_offload[i], o, "these, except what is there for a moment");
}

/* ---- what a run has beyond the plain one ---- */

static int save_state_degrees(const gs_memory_plan *p) {
    return p->settings.save_state;
}
static void no_save_state(const gs_memory_plan *p, int degree, gs_settings *s, gs_memory_option *o) {
    (void)p, (void)degree;
    s->save_state = false;
    say(o, "no --save-state", "vectors x 4 bytes x parameters, on rank 0");
}

static int bucket_degrees(const gs_memory_plan *p) {
    return p->settings.bucket > 0;
}
static void no_bucket(const gs_memory_plan *p, int degree, gs_settings *s, gs_memory_option *o) {
    (void)p, (void)degree;
    s->bucket = 0;
    say(o, "no --bucket", "a copy of the gradients on the host");
}

static int wire_degrees(const gs_memory_plan *p) {
    return p->settings.wire != GS_WIRE_F32;
}
static void wire_f32(const gs_memory_plan *p, int degree, gs_settings *s, gs_memory_option *o) {
    (void)p, (void)degree;
    s->wire = GS_WIRE_F32;
    say(o, "--wire f32", "gradients in 16 bits, twice");
}

static int exact_degrees(const gs_memory_plan *p) {
    return p->settings.exact;
}
static void no_exact(const gs_memory_plan *p, int degree, gs_settings *s, gs_memory_option *o) {
    (void)p, (void)degree;
    s->exact = false;
    say(o, "no --exact", "sums of all gradients, for its tree");
}

/* ---- another optimiser ---- */

static int vector_degrees(const gs_memory_plan *p) {
    return p->vectors;
}

static void set_vectors(const gs_memory_plan *p, int degree, gs_settings *s, gs_memory_option *o) {
    const int keeps = p->vectors - 1 - degree;
    s->resume = s->load = NULL;
    s->save_state = false;
    s->optimizer = gs_settings_default().optimizer;
    s->beta1 = s->beta2 = s->epsilon = (float)NAN;
    s->momentum = keeps == 0 ? 0.0f : (float)NAN;
    snprintf(o->option, sizeof o->option, "%s%s%s", p->vectors > 1 ? "--optimizer sgd" : "",
             p->vectors > 1 && keeps == 0 ? " " : "", keeps == 0 ? "--momentum 0" : "");
    snprintf(o->formula, sizeof o->formula, "%d x 4 bytes x parameters%s", degree + 1,
             p->zero > 0 || p->tensor > 1 ? ", a part of them" : "");
}

/* ---- the table ---- */

/* Cheapest in time first: smaller pieces need no message more; ZeRO's stages 1 and 2 send what an all-reduce sends, in
 * more messages, and stage 3 half as much again. What lies elsewhere is brought while operators compute, which hides
 * most of it. To compute activations again takes up to a third more operations. Both give the same bits. */
const gs_memory_lever gs_memory_levers[GS_MEMORY_LEVERS] = {
    {false, micro_batch_degrees, micro_batch_listed, set_micro_batch},
    {false, micro_batches_degrees, micro_batches_listed, set_micro_batches},
    {false, zero_degrees, NULL, set_zero},
    {false, offload_degrees, not_listed, offload_set},
    {false, recompute_degrees, NULL, set_recompute},
    {true, offload_optimizer_degrees, NULL, offload_optimizer},
    {true, offload_activations_degrees, NULL, offload_activations},
    {true, offload_weights_degrees, NULL, offload_weights},
    {true, save_state_degrees, NULL, no_save_state},
    {true, bucket_degrees, NULL, no_bucket},
    {true, wire_degrees, NULL, wire_f32},
    {true, exact_degrees, NULL, no_exact},
    {true, vector_degrees, NULL, set_vectors},
};

double gs_memory_with(const gs_memory_plan *plan, const gs_settings *changed, double *again) {
    gs_memory_plan other;
    double most = INFINITY;
    if (gs_memory_plan_again(plan, changed, &other) == GS_OK) most = gs_memory_most(&other, NULL);
    if (again) *again = other.again;
    gs_memory_plan_free(&other);
    return most;
}
