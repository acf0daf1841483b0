/* The checks of lab 13: each piece alone, in a run with a toy model (check_run.h); then the pieces together
 * (check_whole.c). */
#include "check_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SUMS_ROW = 20, UPDATE_ROW, TRAFFIC_ROW };

/* ---- 13.1 ---- */

static const char *numbers(const size_t *x, size_t count) {
    static _Thread_local char text[4][200];
    static _Thread_local int next;
    char *t = text[next++ % 4];
    strcpy(t, count > 0 ? "" : "none");
    for (size_t i = 0; i < count && i < 20; i++) lab_append(t, sizeof *text, "%s%zu", i > 0 ? " " : "", x[i]);
    return t;
}

static gs_status check_samples(const lab_case *c, int rank, size_t number) {
    lab_sim s;
    size_t mine[MOST_SAMPLES] = {0};
    lab_sim_begin(&s, c, rank, false);
    lab_sim_next(&s, number);
    gs_shard batch = lab_batch_of(c->samples, c->batch, number),
             part = gs_shard_of(batch.count, rank, c->ranks);
    const size_t *wanted = s.order + batch.first + part.first;
    size_t count = my_samples(&s.step, mine);
    bool same = count == part.count;
    for (size_t i = 0; i < part.count && same; i++) same = mine[i] == wanted[i];
    LAB_CHECK(same,
              "%zu sample%s in batches of %zu, step %zu, rank %d of %d: %zu sample%s, %s; expected %zu, %s. "
              "The order of the epoch is %s",
              c->samples, gs_s(c->samples), c->batch, number, rank, c->ranks, count, gs_s(count),
              numbers(mine, count < c->batch ? count : c->batch), part.count, numbers(wanted, part.count),
              numbers(s.order, c->samples));
    return GS_OK;
}

static gs_status whose_samples(void) {
    for (size_t i = 0; i < CASES; i++) {
        const lab_case c = lab_case_of(i);
        for (size_t number = 0; number < lab_steps_of(&c); number++)
            for (int rank = 0; rank < c.ranks; rank++) GS_TRY(check_samples(&c, rank, number));
    }
    return GS_OK;
}

/* ---- 13.2 ---- */

/* The hook comes after the backward of its layer and before the next backward, for all layers, even without backward.
 */
static gs_status check_hooks(const lab_sim *s) {
    int layers = s->step.layers;
    for (int l = layers - 1; l >= 0; l--) {
        int at = lab_sim_find(s, HOOK, l), after = l + 1 < layers ? lab_sim_find(s, HOOK, l + 1) : -1;
        LAB_CHECK(at >= 0, "the hook is not called for layer %d; all calls: %s", l, lab_sim_text(s));
        LAB_CHECK(at > after && at > lab_sim_find(s, BACKWARD, l),
                  "the hook comes too early for layer %d; all calls: %s", l, lab_sim_text(s));
        int below = l > 0 ? lab_sim_find(s, BACKWARD, l - 1) : -1;
        LAB_CHECK(below < 0 || at < below, "the hook comes too late for layer %d; all calls: %s", l,
                  lab_sim_text(s));
    }
    return GS_OK;
}

/* Against the samples of my_samples, even if these are wrong. */
static gs_status check_gradient(const lab_case *c, int rank, size_t number, bool hooked) {
    lab_sim s;
    size_t mine[MOST_SAMPLES] = {0};
    lab_sim_begin(&s, c, rank, true);
    lab_sim_next(&s, number);
    GS_TRY(lab_sim_ended(&s, local_gradient(&s.step, hooked ? lab_hook : NULL)));
    size_t count = my_samples(&s.step, mine);
    LAB_CHECK(count <= c->batch, "my_samples gives %zu samples of a batch of %zu", count, c->batch);
    LAB_CHECK(s.count == count && memcmp(s.loaded, mine, count * sizeof *mine) == 0,
              "the samples are %s, loaded are %s", numbers(mine, count), numbers(s.loaded, s.count));
    LAB_CHECK(count == 0 || s.backwards == s.step.layers, "backward does not reach layer 0; all calls: %s",
              lab_sim_text(&s));
    for (size_t i = 0; i < s.step.params; i++) {
        double wanted = 0;
        for (size_t k = 0; k < count; k++) wanted += (double)s.weights[i] - lab_says(mine[k], i);
        LAB_CHECK(lab_near((double)s.gradients[i], wanted),
                  "gradient %zu of a rank with %zu sample%s is %g, expected %g, the sum over them", i, count,
                  gs_s(count), (double)s.gradients[i], wanted);
    }
    const float *counts = s.gradients + s.step.params;
    LAB_CHECK(counts[GS_STAT_SAMPLES] == (float)count, "the count of samples is %g, expected %zu",
              (double)counts[GS_STAT_SAMPLES], count);
    for (int i = 0; i < GS_STATS; i++)
        LAB_CHECK(counts[i] == s.counts[i], "count %d of a rank with %zu sample%s is %g, expected %g", i,
                  count, gs_s(count), (double)counts[i], (double)s.counts[i]);
    LAB_CHECK(lab_sim_find(&s, BEGINS, 0) < 0, "local_gradient begins a sum; all calls: %s",
              lab_sim_text(&s));
    return hooked ? check_hooks(&s) : GS_OK;
}

static gs_status gradient_of_a_rank(void) {
    for (size_t i = 0; i < CASES; i++) {
        const lab_case c = lab_case_of(i);
        for (size_t number = 0; number < lab_steps_of(&c); number++)
            for (int rank = 0; rank < c.ranks; rank++)
                for (int hooked = 0; hooked < 2; hooked++)
                    GS_TRY(gs_context(check_gradient(&c, rank, number, hooked), "%s: step %zu, rank %d%s",
                                      lab_case_text(&c), number, rank, hooked ? "" : ", hook NULL"));
    }
    GS_TRY(lab_check_broken(&(lab_piece){.run = lab_gradient_alone, .buckets = true}));
    return lab_check_broken(&(lab_piece){.run = lab_gradient_hooked, .buckets = true});
}

/* ---- 13.3 ---- */

/* Rank r holds 2^r in element 0, so that a wrong sum shows which ranks it contains. */
static float has(int rank, size_t i) {
    return i == 0 ? (float)(1 << rank) : lab_number(SUMS_ROW + 10 * (unsigned)rank, i);
}

static gs_status check_sum_of(lab_sim *s, const lab_case *c) {
    lab_sim_next(s, 0);
    size_t count = s->step.params + GS_STATS;
    for (size_t i = 0; i < count; i++) s->gradients[i] = has(s->step.rank, i);
    GS_TRY(lab_sim_ended(s, sum(&s->step)));
    GS_TRY(lab_sim_summed(s));
    for (size_t i = 0; i < count; i++) {
        double wanted = 0;
        for (int r = 0; r < c->ranks; r++) wanted += (double)has(r, i);
        LAB_CHECK(lab_near((double)s->gradients[i], wanted),
                  "%s %zu is %g, expected %g, the sum over the ranks",
                  i < s->step.params ? "gradient" : "count", i < s->step.params ? i : i - s->step.params,
                  (double)s->gradients[i], wanted);
    }
    return GS_OK;
}

static gs_status sum_of_a_rank(gs_comm *comm, void *context) {
    lab_sim s;
    lab_sim_begin(&s, context, comm->rank, true);
    GS_TRY(gs_sync_create(&gs_sync_ring, comm, s.step.params + GS_STATS, &s.sync));
    gs_status status = check_sum_of(&s, context);
    gs_sync_free(s.sync);
    return status;
}

static gs_status whole_sums(void) {
    for (size_t i = 1; i < CASES; i++) {
        lab_case c = lab_case_of(i);
        if (c.ranks > 1)
            GS_TRY(gs_context(lab_run_ranks(c.ranks, sum_of_a_rank, &c), "%s", lab_case_text(&c)));
    }
    return lab_check_broken(&(lab_piece){.run = sum, .buckets = true});
}

/* ---- 13.4 ---- */

static gs_status check_update(size_t k) {
    lab_sim s;
    const lab_case c = {1, 10, 10, 1, {1 + k % 8}, 1, k < 2 ? 0 : 0.5f};
    float samples = (float)(k < 2 ? 1 + k : 1 + lab_pick(UPDATE_ROW, k, 500));
    lab_sim_begin(&s, &c, 0, false);
    lab_sim_next(&s, 0);
    for (size_t i = 0; i < s.step.params; i++) {
        s.gradients[i] = samples * lab_number(UPDATE_ROW, 10 * k + i);
        s.velocity[i] = k < 2 ? 0 : lab_number(UPDATE_ROW + 100, 10 * k + i);
    }
    s.gradients[s.step.params + GS_STAT_SAMPLES] = samples;
    const lab_sim before = s;
    update(&s.step);
    for (size_t i = 0; i < s.step.params; i++) {
        double v =
            (double)c.momentum * (double)before.velocity[i] + (double)before.gradients[i] / (double)samples;
        double w = (double)before.weights[i] - (double)s.step.rate * v;
        LAB_CHECK(lab_near((double)s.velocity[i], v) && lab_near((double)s.weights[i], w),
                  "weight %g, velocity %g, gradient %g of %g sample%s, rate %g, momentum %g: update makes "
                  "weight %g, velocity %g; expected %g, %g",
                  (double)before.weights[i], (double)before.velocity[i], (double)before.gradients[i],
                  (double)samples, gs_s((size_t)samples), (double)s.step.rate, (double)c.momentum,
                  (double)s.weights[i], (double)s.velocity[i], w, v);
    }
    return GS_OK;
}

static gs_status the_plain_step(void) {
    for (size_t k = 0; k < 10; k++) GS_TRY(check_update(k));
    GS_TRY(lab_check_whole(false));
    static gs_status (*const of[])(lab_step *) = {lab_gradient_alone, sum, NULL};
    GS_TRY(lab_check_broken(&(lab_piece){.run = plain_step, .of = of}));
    return lab_check_training(0);
}

/* ---- 13.5 ---- */

/* Two ranks as threads of one process, with different models, so that static variables fail. */
static gs_status check_release(const lab_case *c, const lab_case *of_the_other) {
    lab_sim s, other;
    lab_sim_begin(&s, c, 0, true);
    lab_sim_next(&s, 0);
    lab_sim_begin(&other, of_the_other, 1, true);
    lab_sim_next(&other, 0);
    for (int l = c->layers - 1, m = of_the_other->layers - 1; l >= 0; l--, m--) {
        GS_TRY(lab_sim_ended(&s, release(&s.step, l)));
        if (m >= 0) (void)release(&other.step, m);
        for (int b = 0; b < s.step.buckets; b++) {
            bool wanted = lab_sim_last_layer(&s, b) >= l;
            LAB_CHECK(
                s.begun[b] == wanted,
                "release: after backward of layer %d, whose parameters begin at %zu, the sum of bucket %d, "
                "which begins at %zu, has %sbegun; expected that it has%s",
                l, s.layer[l].first, b, s.bucket[b].first, s.begun[b] ? "" : "not ", wanted ? "" : " not");
        }
    }
    return GS_OK;
}

/* `times` as many elements in each bucket. */
static gs_status check_traffic(const lab_case *c, int ranks, int rank, size_t times) {
    lab_sim s;
    lab_sim_begin(&s, c, rank, true);
    lab_sim_next(&s, 0);
    s.step.ranks = ranks;
    for (int b = 0; b < s.step.buckets; b++)
        s.bucket[b] = (gs_chunk){s.bucket[b].first * times, s.bucket[b].count * times};
    const gs_sync_cost wanted = lab_sim_cost(&s), got = traffic(&s.step);
    char sizes[100] = "";
    for (int b = 0; b < s.step.buckets; b++) lab_append(sizes, sizeof sizes, " %zu", s.bucket[b].count);
    LAB_CHECK(got.rounds == wanted.rounds && got.messages == wanted.messages && got.bytes == wanted.bytes,
              "traffic: rank %d of %d, bucket%s of%s floats: got %zu rounds, %zu message%s, %zu bytes; "
              "expected %zu rounds, %zu message%s, %zu bytes",
              rank, ranks, gs_s((size_t)s.step.buckets), sizes, got.rounds, got.messages, gs_s(got.messages),
              got.bytes, wanted.rounds, wanted.messages, gs_s(wanted.messages), wanted.bytes);
    return GS_OK;
}

static gs_status buckets(void) {
    for (size_t i = 0; i < CASES; i++) {
        const lab_case c = lab_case_of(i), other = lab_case_of((i + 1) % CASES);
        GS_TRY(gs_context(check_release(&c, &other), "%s", lab_case_text(&c)));
    }
    GS_TRY(lab_check_broken(&(lab_piece){.run = lab_all_released, .buckets = true}));
    for (size_t i = 0; i < CASES; i++) {
        const lab_case c = lab_case_of(i);
        int ranks = i < 3 ? 2 : 2 + (int)lab_pick(TRAFFIC_ROW, i, 7);
        for (int rank = 0; rank < ranks; rank++) GS_TRY(check_traffic(&c, ranks, rank, 1));
    }
    const lab_case large = lab_case_of(4);
    return check_traffic(&large, 3, 1, (size_t)1 << 29);
}

/* ---- 13.6 ---- */

static gs_status the_overlapped_step(void) {
    GS_TRY(lab_check_whole(true));
    static gs_status (*const of[])(lab_step *) = {lab_gradient_hooked, lab_all_released, NULL};
    GS_TRY(lab_check_broken(&(lab_piece){.run = overlapped_step, .buckets = true, .of = of}));
    return lab_check_training(1);
}

const char *const lab_may_call[] = {"lab_load",         "lab_forward",  "lab_loss",    "lab_backward",
                                    "lab_sum_begin",    "lab_sum_wait", "gs_shard_of", "gs_chunk_of",
                                    "gs_sync_cost_add", "gs_fail",      "gs_context",  NULL};

const lab_task lab_tasks[] = {
    {"13.1", "shard: which samples of this step are mine", 1, whose_samples,
     "the last step of an epoch has fewer samples than `batch`, maybe fewer than there are ranks. Give "
     "gs_shard_of the real number."},
    {"13.2", "forward, backward: the gradient of this rank", 2, gradient_of_a_rank,
     "write the calls of one step on paper, for 2 layers. Then: what must `gradients` hold without samples?"},
    {"13.3", "the sum over all ranks, with the counts", 1, whole_sums,
     "begin every bucket once, in the order 0, 1, 2, ..., and wait for every sum."},
    {"13.4", "the update, and the plain step: N ranks like one", 2, the_plain_step,
     "sums and counts travel, and the division comes last. This task needs 13.1 to 13.3."},
    {"13.5", "buckets that are final; messages and bytes", 2, buckets,
     "release: draw the flat array with its layers and buckets, and shade what is final after each backward. "
     "traffic: a ring for each bucket; chunks are cut from the bucket, not from the whole array."},
    {"13.6", "the overlapped step: its timeline", 2, the_overlapped_step,
     "the message shows the order of your calls. Which calls could come earlier, and which later? This task "
     "needs 13.1 to 13.5."},
    {0},
};
