/* Whole steps of several ranks against one rank, in the run of check_run.h; then real training. */
#include "check_run.h"

#include <math.h>
#include <string.h>

/* ---- one rank, in double ---- */

typedef struct reference {
    double weights[MOST_PARAMS], velocity[MOST_PARAMS];
} reference;

static void reference_step(reference *r, const lab_sim *s, const lab_case *c, size_t number) {
    gs_shard batch = lab_batch_of(c->samples, c->batch, number);
    for (size_t i = 0; i < s->step.params; i++) {
        double g = 0;
        for (size_t k = 0; k < batch.count; k++) g += r->weights[i] - lab_says(s->order[batch.first + k], i);
        r->velocity[i] = (double)s->step.momentum * r->velocity[i] + g / (double)batch.count;
    }
    for (size_t i = 0; i < s->step.params; i++) r->weights[i] -= (double)s->step.rate * r->velocity[i];
}

static gs_status check_weights(const lab_sim *s, const reference *r, size_t number) {
    for (size_t i = 0; i < s->step.params; i++)
        LAB_CHECK(lab_near((double)s->weights[i], r->weights[i]),
                  "after step %zu weight %zu is %.7g, expected %.7g, as one rank would have it", number, i,
                  (double)s->weights[i], r->weights[i]);
    return GS_OK;
}

static gs_status check_same(gs_comm *comm, const lab_sim *s, size_t number) {
    float first[MOST_PARAMS];
    memcpy(first, s->weights, sizeof first);
    GS_TRY(lab_meet(comm));
    GS_TRY(gs_comm_broadcast(comm, first, s->step.params, GS_F32, 0));
    for (size_t i = 0; i < s->step.params; i++)
        LAB_CHECK(memcmp(&first[i], &s->weights[i], sizeof first[i]) == 0,
                  "after step %zu weight %zu is %.9g, and on rank 0 %.9g", number, i, (double)s->weights[i],
                  (double)first[i]);
    return GS_OK;
}

static gs_status check_sent(const lab_sim *s) {
    const gs_sync_cost wanted = lab_sim_cost(s);
    LAB_CHECK(s->sent.messages == wanted.messages && s->sent.bytes == wanted.bytes,
              "around a ring this rank sent %zu message%s with %zu bytes; expected %zu with %zu",
              s->sent.messages, gs_s(s->sent.messages), s->sent.bytes, wanted.messages, wanted.bytes);
    return GS_OK;
}

/* Checks the order of the calls. A rank without samples has no backward to hide a sum behind. */
static gs_status check_timeline(const lab_sim *s) {
    if (s->backwards == 0) return GS_OK;
    int end = lab_sim_find(s, BACKWARD, 0);
    for (int b = 0; b < s->step.buckets; b++) {
        int l = lab_sim_last_layer(s, b), began = lab_sim_find(s, BEGINS, b);
        LAB_CHECK(began > lab_sim_find(s, BACKWARD, l),
                  "the sum of bucket %d begins before backward of layer %d, whose gradients are in it; all "
                  "calls: %s",
                  b, l, lab_sim_text(s));
        LAB_CHECK(l == 0 || began < lab_sim_find(s, BACKWARD, l - 1),
                  "the sum of bucket %d begins only after backward of layer %d; it could after that of layer "
                  "%d; all calls: %s",
                  b, l - 1, l, lab_sim_text(s));
        LAB_CHECK(lab_sim_find(s, WAITS, b) > end,
                  "the wait for bucket %d comes before backward is through; all calls: %s", b,
                  lab_sim_text(s));
    }
    return GS_OK;
}

typedef struct whole_check {
    lab_case c;
    bool overlapped;
} whole_check;

static gs_status check_steps(gs_comm *comm, lab_sim *s, const whole_check *w) {
    reference r = {{0}, {0}};
    for (size_t i = 0; i < s->step.params; i++) r.weights[i] = (double)s->weights[i];
    for (size_t number = 0; number < lab_steps_of(&w->c); number++) {
        lab_sim_next(s, number);
        gs_status status = w->overlapped ? overlapped_step(&s->step) : plain_step(&s->step);
        GS_TRY(gs_context(lab_sim_ended(s, status), "step %zu", number));
        GS_TRY(gs_context(lab_sim_summed(s), "step %zu", number));
        if (w->overlapped) GS_TRY(gs_context(check_timeline(s), "step %zu", number));
        double samples = (double)s->gradients[s->step.params + GS_STAT_SAMPLES];
        LAB_CHECK(lab_near(samples, (double)lab_batch_of(w->c.samples, w->c.batch, number).count),
                  "step %zu: the ranks have computed %g samples together; the global batch has %zu", number,
                  samples, lab_batch_of(w->c.samples, w->c.batch, number).count);
        reference_step(&r, s, &w->c, number);
        GS_TRY(check_weights(s, &r, number));
        GS_TRY(gs_context(check_sent(s), "step %zu", number));
        GS_TRY(check_same(comm, s, number));
    }
    return GS_OK;
}

static gs_status steps_of_a_rank(gs_comm *comm, void *context) {
    const whole_check *w = context;
    lab_sim s;
    lab_sim_begin(&s, &w->c, comm->rank, w->overlapped);
    GS_TRY(gs_sync_create(&gs_sync_ring, comm, s.step.params + GS_STATS, &s.sync));
    gs_status status = check_steps(comm, &s, w);
    gs_sync_free(s.sync);
    return status;
}

gs_status lab_check_whole(bool overlapped) {
    for (size_t i = 0; i < CASES; i++) {
        whole_check w = {lab_case_of(i), overlapped};
        GS_TRY(gs_context(lab_run_ranks(w.c.ranks, steps_of_a_rank, &w), "%s", lab_case_text(&w.c)));
    }
    return GS_OK;
}

/* ---- real training ---- */

gs_status lab_check_training(int bucket) {
    gs_settings ours = lab_short_run("flatten, linear 16, relu, linear 10", "cpu,cpu,cpu", 333, 20),
                yours = ours;
    double difference;
    ours.zero = 1;
    yours.sync = "ring";
    yours.bucket = bucket;
    GS_TRY(gs_context(lab_train_both(&ours, &yours, &difference, NULL),
                      "train --devices cpu,cpu,cpu --sync ring --bucket %d", bucket));
    LAB_CHECK(difference <= 1e-6,
              "train --devices cpu,cpu,cpu --sync ring --bucket %d: after 20 steps the weights differ by %g "
              "from those of --zero 1, expected rounding, at most 1e-6",
              bucket, difference);
    return GS_OK;
}
