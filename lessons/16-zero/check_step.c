/* 16.2: what a rank has after two steps, and what it has sent. */
#include "check.h"

#include <math.h>
#include "lab.h"

enum { WEIGHTS_ROW = 20, GRADIENTS_ROW, SHAPES_ROW, VELOCITY_ROW, FACTORS_ROW };
enum { MOST_RANKS_HERE = 8, MOST_EACH = 9, MANY_EACH = 10000 };
enum { MOST = 2 * MANY_EACH, STEPS = 2 };

/* ---- a comm that counts ---- */

typedef struct counting {
    gs_comm comm, *inner;
    gs_transport ops;
    double sent; /* bytes */
} counting;

static gs_status count_send(gs_comm *c, const gs_envelope *e, const void *data, size_t bytes) {
    counting *k = c->state;
    k->sent += (double)bytes;
    return k->inner->ops->send(k->inner, e, data, bytes);
}

static gs_status count_recv(gs_comm *c, const gs_envelope *e, void *data, size_t bytes) {
    counting *k = c->state;
    return k->inner->ops->recv(k->inner, e, data, bytes);
}

/* What the best way to do it sends. */
static gs_status count_collective(gs_comm *c, const gs_call *call, const void *in, void *out) {
    counting *k = c->state;
    const double bytes = (double)(call->count * gs_type_size(call->type)), n = c->size;
    switch (call->operation) {
    case GS_REDUCE_SCATTER:
        k->sent += bytes * (n - 1) / n;
        break;
    case GS_ALL_GATHER:
        k->sent += bytes * (n - 1);
        break;
    case GS_ALL_REDUCE:
        k->sent += 2 * bytes * (n - 1) / n;
        break;
    default:
        k->sent += bytes;
    }
    return gs_call_run(k->inner, call, in, out);
}

static void count_abort(gs_comm *c, const char *message) {
    counting *k = c->state;
    k->inner->ops->abort(k->inner, message);
}

/* ---- the step ---- */

typedef struct step_case {
    int ranks;
    size_t count;
    double rate, momentum, scale;
} step_case;

/* Small multiples of 1/8 everywhere: no sum and no update of two steps rounds. The rate is never the momentum. */
static step_case case_of(size_t number, int ranks, size_t each) {
    return (step_case){ranks, each * (size_t)ranks,
                       .rate = (double)(1 + 2 * lab_pick(FACTORS_ROW, number, 4)) / 8,
                       .momentum = (double)(1 + lab_pick(FACTORS_ROW, 100 + number, 3)) / 4,
                       .scale = (double)(1 + lab_pick(FACTORS_ROW, 200 + number, 4)) / 4};
}

static double gradient(int step, int rank, size_t i) {
    return (double)lab_pick(GRADIENTS_ROW, (size_t)(step * 100000 + rank * 1000) + i, 33) / 8 - 2;
}

static double weight(size_t i) {
    return (double)lab_pick(WEIGHTS_ROW, i, 17) - 8;
}

/* Before the first step, as from a checkpoint: what a rank has not been given, it cannot know. */
static double velocity_before(size_t i) {
    return (double)lab_pick(VELOCITY_ROW, i, 33) / 8 - 2;
}

/* All weights and the whole velocity after so many steps, as one worker has them. */
static void expect(const step_case *k, int steps, double *weights, double *velocity) {
    for (size_t i = 0; i < k->count; i++) {
        weights[i] = weight(i);
        velocity[i] = velocity_before(i);
        for (int s = 0; s < steps; s++) {
            double sum = 0;
            for (int r = 0; r < k->ranks; r++) sum += gradient(s, r, i);
            velocity[i] = k->momentum * velocity[i] + k->scale * sum;
            weights[i] -= k->rate * velocity[i];
        }
    }
}

static gs_status compare(const step_case *k, const gs_comm *c, int steps, const float *weights,
                         const float *velocity) {
    double wanted[MOST], wanted_velocity[MOST];
    const gs_shard own = gs_shard_of(k->count, c->rank, c->size);
    expect(k, steps, wanted, wanted_velocity);
    for (size_t i = 0; i < own.count; i++)
        LAB_CHECK(velocity[i] == (float)wanted_velocity[own.first + i],
                  "%d rank%s, %zu weight%s, rate %g, momentum %g, scale %g, after step %d: velocity %zu, of "
                  "weight %zu: expected %g, got %g",
                  k->ranks, gs_s((unsigned)k->ranks), k->count, gs_s(k->count), k->rate, k->momentum,
                  k->scale, steps, i, own.first + i, wanted_velocity[own.first + i], (double)velocity[i]);
    for (size_t i = 0; i < k->count; i++)
        LAB_CHECK(
            weights[i] == (float)wanted[i],
            "%d rank%s, %zu weight%s, rate %g, momentum %g, scale %g, after step %d: weight %zu, which rank "
            "%zu updates: expected %g, got %g",
            k->ranks, gs_s((unsigned)k->ranks), k->count, gs_s(k->count), k->rate, k->momentum, k->scale,
            steps, i, i / own.count, wanted[i], (double)weights[i]);
    return GS_OK;
}

static gs_status run_rank(gs_comm *c, void *context) {
    const step_case *k = context;
    float weights[MOST], gradients[MOST], velocity[MANY_EACH];
    counting counts = {.inner = c,
                       .ops = {.name = c->ops->name,
                               .send = count_send,
                               .recv = count_recv,
                               .collective = count_collective,
                               .abort = count_abort}};
    counts.comm = *c;
    counts.comm.ops = &counts.ops;
    counts.comm.state = &counts;
    const gs_shard own = gs_shard_of(k->count, c->rank, c->size);
    for (size_t i = 0; i < k->count; i++) weights[i] = (float)weight(i);
    for (size_t i = 0; i < own.count; i++) velocity[i] = (float)velocity_before(own.first + i);
    for (int s = 0; s < STEPS; s++) {
        for (size_t i = 0; i < k->count; i++) gradients[i] = (float)gradient(s, c->rank, i);
        counts.sent = 0;
        GS_TRY(zero1_step(&counts.comm, weights, gradients, velocity, k->count, (float)k->rate,
                          (float)k->momentum, (float)k->scale));
        GS_TRY(compare(k, c, s + 1, weights, velocity));
        const double most = 2.0 * 4 * (double)k->count * (k->ranks - 1) / k->ranks;
        LAB_CHECK_HINT(
            counts.sent <= most + 1e-6, "who needs which part of the sum? And of the new weights?",
            "%d rank%s, %zu weight%s: a step sends %.0f bytes; wanted at most %.0f, as an all-reduce",
            k->ranks, gs_s((unsigned)k->ranks), k->count, gs_s(k->count), counts.sent, most);
        GS_TRY(lab_meet(c));
    }
    return GS_OK;
}

gs_status check_zero1_step(void) {
    size_t number = 0;
    for (int ranks = 1; ranks <= 4; ranks++)
        for (size_t each = 1; each <= 3; each++) {
            step_case k = case_of(number++, ranks, each);
            GS_TRY(lab_run_ranks(ranks, run_rank, &k));
        }
    step_case two = case_of(0, 2, 1);
    for (int works = 0; works < 4; works++) GS_TRY(lab_run_broken(2, works, run_rank, &two));
    for (size_t i = 0; i < 5; i++) {
        const int ranks = 1 + (int)lab_pick(SHAPES_ROW, i, MOST_RANKS_HERE);
        step_case k = case_of(number++, ranks, 1 + lab_pick(SHAPES_ROW, 100 + i, MOST_EACH));
        GS_TRY(lab_run_ranks(ranks, run_rank, &k));
    }
    step_case many = case_of(number, 2, MANY_EACH); /* as a model has them */
    return lab_run_ranks(2, run_rank, &many);
}
