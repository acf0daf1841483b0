/* 16.2: checks what a rank holds after two steps, and what it sent. */
#include "check.h"

#include <math.h>
#include "lab.h"

enum { WEIGHTS_ROW = 20, GRADIENTS_ROW, SHAPES_ROW, VELOCITY_ROW, FACTORS_ROW };
enum { MOST_RANKS_HERE = 8, MOST_EACH = 9, MANY_EACH = 10000 };
enum { MOST = 2 * MANY_EACH, STEPS = 2 };

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

/* Before the first step, as from a checkpoint, so that a rank cannot know the velocity of another part. */
static double velocity_before(size_t i) {
    return (double)lab_pick(VELOCITY_ROW, i, 33) / 8 - 2;
}

/* All weights and the whole velocity after so many steps, as one worker computes them. */
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
    char text[200];
    const gs_shard own = gs_shard_of(k->count, c->rank, c->size);
    expect(k, steps, wanted, wanted_velocity);
    snprintf(text, sizeof text, "%d rank%s, %zu weight%s, rate %g, momentum %g, scale %g, after step %d",
             k->ranks, gs_s((unsigned)k->ranks), k->count, gs_s(k->count), k->rate, k->momentum, k->scale,
             steps);
    for (size_t i = 0; i < own.count; i++)
        LAB_CHECK(velocity[i] == (float)wanted_velocity[own.first + i],
                  "%s: velocity %zu, of weight %zu: expected %g, got %g", text, i, own.first + i,
                  wanted_velocity[own.first + i], (double)velocity[i]);
    for (size_t i = 0; i < k->count; i++)
        LAB_CHECK(weights[i] == (float)wanted[i],
                  "%s: weight %zu, which rank %zu updates: expected %g, got %g", text, i, i / own.count,
                  wanted[i], (double)weights[i]);
    return GS_OK;
}

static gs_status run_rank(gs_comm *c, void *context) {
    const step_case *k = context;
    float weights[MOST], gradients[MOST], velocity[MANY_EACH];
    const gs_shard own = gs_shard_of(k->count, c->rank, c->size);
    for (size_t i = 0; i < k->count; i++) weights[i] = (float)weight(i);
    for (size_t i = 0; i < own.count; i++) velocity[i] = (float)velocity_before(own.first + i);
    for (int s = 0; s < STEPS; s++) {
        for (size_t i = 0; i < k->count; i++) gradients[i] = (float)gradient(s, c->rank, i);
        GS_TRY(zero1_step(c, weights, gradients, velocity, k->count, (float)k->rate, (float)k->momentum,
                          (float)k->scale));
        GS_TRY(compare(k, c, s + 1, weights, velocity));
        const double most = 2.0 * 4 * (double)k->count * (k->ranks - 1) / k->ranks;
        const double sent = lab_calls_of(c).ring;
        lab_measure("bytes sent", (size_t)(sent + .5));
        LAB_CHECK_HINT(
            sent <= most + 1e-6, "which part of the sum does each rank need? And of the new weights?",
            "%d rank%s, %zu weight%s: a step sends %.0f bytes; wanted at most the %.0f of an all-reduce",
            k->ranks, gs_s((unsigned)k->ranks), k->count, gs_s(k->count), sent, most);
        GS_TRY(lab_meet(c));
    }
    return GS_OK;
}

gs_status check_zero1_step(void) {
    size_t number = 0;
    for (int ranks = 1; ranks <= 4; ranks++)
        for (size_t each = 1; each <= 3; each++) {
            step_case k = case_of(number++, ranks, each);
            GS_TRY(lab_run_counted(ranks, run_rank, &k));
        }
    step_case two = case_of(0, 2, 1);
    for (int works = 0; works < 4; works++) GS_TRY(lab_run_broken(2, works, run_rank, &two));
    for (size_t i = 0; i < 5; i++) {
        const int ranks = 1 + (int)lab_pick(SHAPES_ROW, i, MOST_RANKS_HERE);
        step_case k = case_of(number++, ranks, 1 + lab_pick(SHAPES_ROW, 100 + i, MOST_EACH));
        GS_TRY(lab_run_counted(ranks, run_rank, &k));
    }
    step_case many = case_of(number, 2, MANY_EACH); /* as many as in a model */
    return lab_run_counted(2, run_rank, &many);
}
