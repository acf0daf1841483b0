/* Lesson 10: the list of its tasks, and the checks of 10.1 and 10.2, also in training. check_rounding.c checks 10.3 and
 * 10.4. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows of drawn numbers (lab_pick); check_rounding.c has one more. */
enum { LAYERS_ROW, LEAST_ROW, SIZES_ROW, TIMES_ROW, ALPHA_ROW, BETA_ROW };

/* ---- 10.1 ---- */

enum { MOST_LAYERS = 6 };
#define MANY ((size_t)1 << 32) /* elements of a model that is too large for an int */

typedef struct plan_case {
    size_t count, least;
    int layers;
    size_t layer[MOST_LAYERS];
    int buckets;
    size_t first[MOST_LAYERS + 1]; /* of each expected bucket */
} plan_case;

static void list(char *text, size_t size, const size_t *number, int n) {
    text[0] = 0;
    for (int i = 0; i < n; i++) lab_append(text, size, i ? " %zu" : "%zu", number[i]);
}

static gs_status check_plan(const plan_case *k) {
    gs_bucket *bucket = calloc((size_t)k->layers + 1, sizeof *bucket);
    size_t first[MOST_LAYERS + 1] = {0}, end = k->count;
    char layers[100], got[100], wanted[100];
    if (!bucket) gs_bug("no memory");
    int buckets = lab_plan(k->layer, k->layers, k->count, k->least, bucket);
    bool right = buckets == k->buckets;
    for (int i = 0; i < buckets && i <= k->layers; i++) {
        first[i] = bucket[i].first;
        right = right && first[i] == k->first[i] && first[i] + bucket[i].count == end;
        end = first[i];
    }
    list(layers, sizeof layers, k->layer, k->layers);
    list(got, sizeof got, first, buckets < 0 ? 0 : buckets <= k->layers ? buckets : k->layers + 1);
    list(wanted, sizeof wanted, k->first, k->buckets);
    gs_bucket last = bucket[buckets > 0 && buckets <= k->layers + 1 ? buckets - 1 : 0];
    free(bucket);
    LAB_CHECK(right,
              "%zu element%s, layers at %s, at least %zu a bucket: got %d bucket%s, which begin at \"%s\" "
              "(the last has %zu element%s), expected %d, which begin at \"%s\" and end where the previous "
              "one begins",
              k->count, gs_s(k->count), layers, k->least, buckets, gs_s(buckets), got, last.count,
              gs_s(last.count), k->buckets, wanted);
    return GS_OK;
}

/* Layers of 0 to 11 elements, sometimes several empty ones; the last has at least one. */
static void draw_plan(plan_case *k, size_t i) {
    size_t end = 0;
    k->least = 1 + lab_pick(LEAST_ROW, i, 24);
    k->layers = 1 + (int)lab_pick(LAYERS_ROW, i, MOST_LAYERS);
    for (int l = 0; l < k->layers; l++) {
        size_t pick = lab_pick(SIZES_ROW, MOST_LAYERS * i + (size_t)l, 16);
        k->layer[l] = end;
        end += pick < 12 ? pick : 0;
    }
    if (k->layer[k->layers - 1] == end) end++;
    end = k->count = end + 4; /* the counts behind the gradients */
    for (int l = k->layers - 1; l >= 0; l--)
        if (k->layer[l] > 0 && k->layer[l] + k->least <= end) k->first[k->buckets++] = end = k->layer[l];
    k->buckets++; /* the last one begins at 0 */
}

static gs_status check_buckets_in_training(const char *model, int kb, int buckets) {
    gs_settings plain = lab_short_run(model, "cpu,cpu,cpu", 333, 6), s = plain;
    double difference;
    int got;
    plain.sync = s.sync = "ps";
    s.bucket = kb;
    GS_TRY(lab_train_both(&plain, &s, &difference, &got));
    LAB_CHECK(got == buckets, "train --bucket %d --model \"%s\": %d bucket%s, expected %d", kb, model, got,
              gs_s(got), buckets);
    LAB_CHECK(difference == 0,
              "train --bucket %d --model \"%s\": after 6 steps the weights differ by %g from those without "
              "buckets, expected the same weights",
              kb, model, difference);
    return GS_OK;
}

static gs_status the_plan_of_buckets(void) {
    static const plan_case cases[] = {
        {10, 4, 1, {0}, 1, {0}},
        {10, 100, 2, {0, 6}, 1, {0}},                 /* never enough */
        {10, 4, 2, {0, 6}, 2, {6, 0}},                /* just enough */
        {10, 5, 2, {0, 6}, 1, {0}},                   /* one too few */
        {10, 4, 3, {0, 4, 8}, 2, {4, 0}},             /* two layers together */
        {14, 4, 3, {0, 4, 8}, 3, {8, 4, 0}},          /* a large layer alone */
        {20, 3, 4, {0, 2, 9, 16}, 4, {16, 9, 2, 0}},  /* a small rest is a bucket too */
        {20, 4, 5, {0, 8, 8, 16, 16}, 3, {16, 8, 0}}, /* layers without weights */
        {20, 1, 4, {0, 0, 0, 12}, 2, {12, 0}},        /* layers without weights at the beginning */
        {MANY * 5, MANY, 3, {0, MANY * 2, MANY * 4}, 3, {MANY * 4, MANY * 2, 0}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) GS_TRY(check_plan(&cases[i]));
    for (size_t i = 0; i < 100; i++) {
        plan_case drawn = {0};
        draw_plan(&drawn, i);
        GS_TRY(check_plan(&drawn));
    }
    GS_TRY(check_buckets_in_training("mlp", 1, 3));
    GS_TRY(check_buckets_in_training("mlp", 100, 2));
    return check_buckets_in_training(SMALL_CNN, 1, 2);
}

/* ---- 10.2 ---- */

/* One step, with the buckets of a plan. */
typedef struct step_case {
    plan_case plan;
    double done[MOST_LAYERS], alpha, beta;
} step_case;

static void buckets_of(const plan_case *k, gs_bucket *bucket) {
    size_t end = k->count;
    for (int b = 0; b < k->buckets; b++) {
        bucket[b] = (gs_bucket){k->first[b], end - k->first[b]};
        end = k->first[b];
    }
}

/* The time when all gradients of a bucket are final. */
static double final_at(const step_case *k, gs_bucket bucket) {
    double moment = 0;
    for (int i = 0; i < k->plan.layers; i++) {
        size_t first = k->plan.layer[i];
        size_t end = i + 1 < k->plan.layers ? k->plan.layer[i + 1] : k->plan.count;
        if (first < end && first < bucket.first + bucket.count && end > bucket.first)
            moment = fmax(moment, k->done[i]);
    }
    return moment;
}

static const char *step_text(const step_case *k) {
    static char text[300];
    char layers[100], first[100];
    const plan_case *p = &k->plan;
    list(layers, sizeof layers, p->layer, p->layers);
    list(first, sizeof first, p->first, p->buckets);
    snprintf(text, sizeof text, "layers at %s, done after", layers);
    for (int i = 0; i < p->layers; i++) lab_append(text, sizeof text, " %g", k->done[i]);
    lab_append(text, sizeof text, " s; buckets begin at %s, of %zu floats; alpha %g s, beta %g s", first,
               p->count, k->alpha, k->beta);
    return text;
}

static gs_status check_step(const step_case *k) {
    gs_bucket bucket[MOST_LAYERS + 1];
    double over[MOST_LAYERS + 1], end = 0, sums = 0;
    buckets_of(&k->plan, bucket);
    for (int b = 0; b < k->plan.buckets; b++) over[b] = -1;
    const timeline t = {k->plan.layers, k->plan.layer, k->done, k->plan.buckets, bucket, k->alpha, k->beta};
    double share = hidden_share(&t, over);
    for (int b = 0; b < k->plan.buckets; b++) {
        double takes = k->alpha + k->beta * (double)(bucket[b].count * sizeof(float));
        end = fmax(end, final_at(k, bucket[b])) + takes;
        sums += takes;
        LAB_CHECK(fabs(over[b] - end) <= 1e-9 * end,
                  "%s: the sum of bucket %d is over after %.9g s, expected %.9g s", step_text(k), b, over[b],
                  end);
    }
    double wanted = 1 - fmax(0, end - k->done[0]) / sums;
    LAB_CHECK(fabs(share - wanted) <= 1e-9, "%s: the hidden share is %.9g, expected %.9g", step_text(k),
              share, wanted);
    return GS_OK;
}

/* Sums that sometimes wait for backward, sometimes for the previous sum. Times are in tenths, which binary fractions
 * cannot represent. */
static gs_status check_drawn_step(size_t i) {
    step_case k = {.alpha = 0.2 * (double)(1 + lab_pick(ALPHA_ROW, i, 8)),
                   .beta = 0.05 * (double)lab_pick(BETA_ROW, i, 4)};
    double now = 0;
    draw_plan(&k.plan, 1000 + i);
    for (int l = k.plan.layers - 1; l >= 0; l--)
        k.done[l] = now += 0.2 * (double)(1 + lab_pick(TIMES_ROW, MOST_LAYERS * i + (size_t)l, 12));
    return check_step(&k);
}

static gs_status when_sums_are_over(void) {
    static const step_case cases[] = {
        {{12, 99, 1, {0}, 1, {0}}, {2}, 1, 0},               /* nothing to hide behind */
        {{12, 4, 2, {0, 4}, 2, {4, 0}}, {5, 1}, 1, 0},       /* the first sum is hidden */
        {{12, 4, 2, {0, 4}, 2, {4, 0}}, {2, 1}, 3, 0},       /* the second waits for the first */
        {{12, 4, 2, {0, 4}, 2, {4, 0}}, {5, 1}, 1, 0.125},   /* bytes, not floats */
        {{14, 8, 3, {0, 2, 8}, 2, {2, 0}}, {6, 3, 1}, 1, 0}, /* a bucket of two layers */
        {{14, 99, 3, {0, 2, 8}, 1, {0}}, {6, 3, 1}, 1, 0},   /* a bucket of all layers */
        {{20, 3, 4, {0, 2, 9, 15}, 4, {15, 9, 2, 0}}, {9, 4, 2, 1}, 1, 0},
        {{20, 4, 4, {0, 8, 8, 14}, 3, {14, 8, 0}}, {9, 7, 3, 1}, 1, 0}, /* a layer without weights */
        {{12, 4, 3, {0, 0, 4}, 2, {4, 0}}, {9, 3, 1}, 1, 0}, /* the first has none: all is hidden */
        {{MANY * 2, MANY, 2, {0, MANY}, 2, {MANY, 0}}, {9, 3}, 1, 1e-10},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) GS_TRY(check_step(&cases[i]));
    for (size_t i = 0; i < 100; i++) GS_TRY(check_drawn_step(i));
    return GS_OK;
}

const char *const lab_may_call[] = {NULL};

const lab_task lab_tasks[] = {
    {"10.1", "the plan of buckets, and training with it", 3, the_plan_of_buckets,
     "a bucket extends from a layer's first element to the beginning of the previous bucket"},
    {"10.2", "when the sums of the buckets are over; the hidden share", 2, when_sums_are_over,
     "a sum waits for the last gradient of its bucket and for the previous sum"},
    {"10.3", "f32 to bf16, to nearest even", 2, lab_check_bf16,
     "work out the four lines of the README's drawing by hand: which addition carries exactly in the second "
     "and the fourth? Then try a NaN whose fraction is all in its lower 16 bits"},
    {"10.4", "f32 to f16, to nearest even", 3, lab_check_f16,
     "decide in this order: NaN, too large, below 2^-14 (lrintf() of the number in units of 2^-24), the "
     "rest"},
    {0},
};
