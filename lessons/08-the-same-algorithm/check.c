/* Lesson 8: the list of its tasks, and the checks of sums and means. Sums are compared bit for bit with those of a
 * recursion; means with double precision; and training with training. check_verify.c has 8.5. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORKERS = 8, MOST_FLOATS = 1000 };

/* ---- what is added, and what it gives ---- */

/* Rows of drawn numbers (lab_number, lab_pick); values and their sizes: one row for each part. */
enum {
    VALUES_ROW,
    SIZES_ROW = VALUES_ROW + MOST_WORKERS,
    COUNTS_ROW = SIZES_ROW + MOST_WORKERS,
    WORKERS_ROW,
    SAMPLES_ROW
};

static const float SMALL = 0x1p-24f; /* 1 + SMALL is 1, but 1 + (SMALL + SMALL) is not */

static float number(int part, size_t i) {
    if (i == 0) return part == 0 ? 1 : SMALL;
    if (i == 1) return part == MOST_WORKERS - 1 ? 1 : SMALL;
    return lab_number(VALUES_ROW + (unsigned)part, i) *
           (float)(1 << lab_pick(SIZES_ROW + (unsigned)part, i, 16));
}

/* The sum in the tree of `leaves` neighbours from `first` on. */
static float reference(int first, int leaves, size_t i) {
    const int half = leaves / 2;
    return half == 0 ? number(first, i) : reference(first, half, i) + reference(first + half, half, i);
}

static bool same_bits(float a, float b) {
    return memcmp(&a, &b, sizeof a) == 0;
}

enum { COUNTS = 7 };

/* How many floats: the first cases are always the same. */
static size_t count_of(size_t c) {
    static const size_t always[] = {1, 2, 7, MOST_FLOATS};
    size_t fixed = sizeof always / sizeof *always;
    return c < fixed ? always[c] : 3 + lab_pick(COUNTS_ROW, c, MOST_FLOATS - 3);
}

/* ---- 8.1 ---- */

static gs_status check_tree(float *const *part, int parts, size_t count) {
    for (int p = 0; p < parts; p++)
        for (size_t i = 0; i < count; i++) part[p][i] = number(p, i);
    tree_sum(part, parts, count);
    for (size_t i = 0; i < count; i++) {
        float wanted = reference(0, parts, i);
        if (!same_bits(part[0][i], wanted))
            return gs_fail(GS_E_DIFFER,
                           "%d part%s of %zu float%s%s: element %zu is %.9g (%a), expected %.9g (%a)", parts,
                           gs_s(parts), count, gs_s(count),
                           i == 0 ? ", which begin with 1, 2^-24, 2^-24, ..." : "", i, part[0][i], part[0][i],
                           wanted, wanted);
    }
    return GS_OK;
}

static gs_status the_sum_of_a_tree(void) {
    for (int parts = 1; parts <= 8; parts *= 2)
        for (int c = 0; c < COUNTS; c++) {
            size_t count = count_of((size_t)c);
            float *part[8];
            for (int p = 0; p < parts; p++)
                if (!(part[p] = malloc(count * sizeof(float)))) gs_bug("no memory");
            gs_status status = check_tree(part, parts, count);
            for (int p = 0; p < parts; p++) free(part[p]);
            GS_TRY(status);
        }
    return GS_OK;
}

/* ---- 8.2 ---- */

/* A transport that counts. Each rank changes its own numbers alone. */
static const gs_transport *inner[MOST_WORKERS];
static size_t messages[MOST_WORKERS], bytes[MOST_WORKERS];

static gs_status counted_send(gs_comm *c, const gs_envelope *e, const void *data, size_t size) {
    messages[c->rank]++;
    bytes[c->rank] += size;
    return inner[c->rank]->send(c, e, data, size);
}

/* A worker that sends `count` bytes has sent a quarter of its floats. */
static gs_status check_bytes(const gs_comm *c, size_t count) {
    const size_t sent = bytes[c->rank], each = count * sizeof(float);
    LAB_CHECK_HINT(
        messages[c->rank] == 0 || sent != messages[c->rank] * count,
        "gs_comm_send and gs_comm_recv want bytes, and a float has 4 of them: count * sizeof *sum.",
        "a message of %zu float%s has %zu bytes, got %zu", count, gs_s(count), each,
        sent / messages[c->rank]);
    return GS_OK;
}

static gs_status check_across(gs_comm *c, void *context) {
    size_t count = *(const size_t *)context;
    int leaves = 8 / c->size;
    float *sum = malloc(count * sizeof *sum), *arrived = malloc(count * sizeof *arrived);
    if (!sum || !arrived) gs_bug("no memory");
    for (size_t i = 0; i < count; i++) sum[i] = reference(c->rank * leaves, leaves, i);
    gs_transport counting = *(inner[c->rank] = c->ops);
    counting.send = counted_send;
    gs_comm mine = *c;
    mine.ops = &counting;
    gs_status status = tree_across(&mine, sum, arrived, count);
    if (status == GS_OK) status = check_bytes(c, count);
    for (size_t i = 0; i < count && status == GS_OK; i++) {
        float wanted = reference(0, 8, i);
        if (!same_bits(sum[i], wanted))
            status = gs_fail(GS_E_DIFFER, "element %zu of %zu is %.9g (%a), expected %.9g (%a)", i, count,
                             sum[i], sum[i], wanted, wanted);
    }
    free(sum);
    free(arrived);
    return status;
}

static gs_status the_tree_between_workers(void) {
    for (int c = 0; c < COUNTS; c++) {
        size_t count = count_of((size_t)c);
        for (size_t workers = 1, rounds = 0; workers <= 8; workers *= 2, rounds++) {
            memset(messages, 0, sizeof messages);
            memset(bytes, 0, sizeof bytes);
            GS_TRY(gs_context(lab_run_ranks((int)workers, check_across, (void *)&count), "%zu worker%s",
                              workers, gs_s(workers)));
            for (size_t r = 0; r < workers; r++)
                if (messages[r] != rounds || bytes[r] != rounds * count * sizeof(float))
                    return gs_fail(
                        GS_E_DIFFER,
                        "%zu worker%s: worker %zu sends %zu message%s, %zu bytes; expected log2 N = "
                        "%zu message%s of all %zu float%s, %zu bytes",
                        workers, gs_s(workers), r, messages[r], gs_s(messages[r]), bytes[r], rounds,
                        gs_s(rounds), count, gs_s(count), rounds * count * sizeof(float));
        }
    }
    size_t count = count_of(0);
    for (int works = 0; works < 6; works++) GS_TRY(lab_run_broken(4, works, check_across, &count));
    return GS_OK;
}

/* ---- training ---- */

gs_settings lab_run_on(const char *devices) {
    gs_settings s = gs_settings_default();
    s.model = "conv 4 3x3 stride 2 pad 1, tanh, avg_pool 2, flatten, linear 16, tanh, linear 10";
    s.devices = devices;
    s.batch = 333;
    s.steps = 20;
    s.threads = 1;
    s.timeout = 5;
    return s;
}

static gs_status compare_training(const gs_result *plain, const gs_result *one, const gs_result *r,
                                  int workers) {
    double d = lab_largest_difference(plain, r);
    if (!(d <= 1e-6))
        return gs_fail(GS_E_DIFFER,
                       "%d worker%s, --exact: after 20 steps the weights differ by %g from those of plain "
                       "training; expected rounding alone, at most 1e-6",
                       workers, gs_s(workers), d);
    if (memcmp(one->weights, r->weights, r->params * sizeof(float)) != 0)
        return gs_fail(GS_E_DIFFER,
                       "%d worker%s, --exact: after 20 steps the weights differ by up to %g from those of 1 "
                       "worker; expected the same bits",
                       workers, gs_s(workers), lab_largest_difference(one, r));
    return GS_OK;
}

static gs_status check_leaves(void) {
    for (int workers = 1; workers <= 8; workers *= 2)
        for (int r = 0; r < workers; r++) {
            gs_shard got = leaves_of(r, workers);
            size_t count = 8 / (size_t)workers, first = (size_t)r * count;
            LAB_CHECK(got.first == first && got.count == count,
                      "worker %d of %d: got %zu leaves from leaf %zu on, expected %zu from leaf %zu on", r,
                      workers, got.count, got.first, count, first);
        }
    return GS_OK;
}

static gs_status the_same_bits(void) {
    static const char *const devices[] = {"cpu", "cpu,cpu", "cpu,cpu,cpu,cpu",
                                          "cpu,cpu,cpu,cpu,cpu,cpu,cpu,cpu"};
    GS_TRY(check_leaves());
    gs_result plain = {0}, one = {0};
    gs_settings s = lab_run_on(devices[0]);
    gs_status status = gs_train(&s, NULL, &plain);
    s.exact = true;
    if (status == GS_OK) status = gs_train(&s, NULL, &one);
    for (int i = 0; i < 4 && status == GS_OK; i++) {
        gs_result r = {0};
        s.devices = devices[i];
        status = gs_train(&s, NULL, &r);
        if (status == GS_OK) status = compare_training(&plain, &one, &r, 1 << i);
        gs_result_free(&r);
    }
    gs_result_free(&plain);
    gs_result_free(&one);
    return status;
}

/* ---- 8.4 ---- */

typedef struct parts {
    int workers;
    size_t samples[4];
} parts;

static double mean_of(int rank, size_t i) {
    return i == 0 ? 1 + 4 * rank : (double)number(rank, i);
}

static gs_status check_mean(gs_comm *c, void *context) {
    const parts *p = context;
    enum { COUNT = 50 };
    float mean[COUNT + 1] = {0};
    size_t samples = p->samples[c->rank];
    for (size_t i = 0; i < COUNT; i++) mean[i] = samples > 0 ? (float)mean_of(c->rank, i) : NAN;
    GS_TRY(mean_of_parts(c, mean, COUNT, samples));
    for (size_t i = 0; i < COUNT; i++) {
        double sum = 0, sizes = 0, all = 0;
        for (int r = 0; r < p->workers; r++) {
            double part = p->samples[r] > 0 ? (double)p->samples[r] * mean_of(r, i) : 0;
            sum += part;
            sizes += fabs(part);
            all += (double)p->samples[r];
        }
        if (!(fabs((double)mean[i] - sum / all) <= 1e-6 * sizes / all)) {
            char text[100] = "";
            for (int r = 0; r < p->workers; r++)
                snprintf(text + strlen(text), sizeof text - strlen(text), "%s%zu", r > 0 ? ", " : "",
                         p->samples[r]);
            return gs_fail(GS_E_DIFFER, "%s samples%s: element %zu is %.7g, expected %.7g", text,
                           i == 0 ? " whose means are 1, 5, 9, ..." : "", i, mean[i], sum / all);
        }
    }
    return GS_OK;
}

static gs_status check_parts(const parts *p) {
    return gs_context(lab_run_ranks(p->workers, check_mean, (void *)p), "%d worker%s", p->workers,
                      gs_s(p->workers));
}

static gs_status the_mean_of_ragged_parts(void) {
    static const parts cases[] = {{1, {3}},       {2, {2, 2}},       {2, {3, 1}},          {2, {2, 0}},
                                  {3, {0, 4, 1}}, {4, {1, 1, 1, 0}}, {4, {84, 83, 83, 83}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) GS_TRY(check_parts(&cases[i]));
    for (size_t i = 0; i < 12; i++) {
        parts drawn = {1 + (int)lab_pick(WORKERS_ROW, i, 4), {0}};
        for (int r = 0; r < drawn.workers; r++)
            drawn.samples[r] = lab_pick(SAMPLES_ROW, 4 * i + (size_t)r, i < 6 ? 5 : 200);
        drawn.samples[i % (size_t)drawn.workers]++; /* somebody has one */
        GS_TRY(check_parts(&drawn));
    }
    for (int works = 0; works < 3; works++) GS_TRY(lab_run_broken(2, works, check_mean, (void *)&cases[2]));
    return GS_OK;
}

const char *const lab_may_call[] = {"gs_call_run", "gs_shard_of", "gs_fail", "gs_context", NULL};

const lab_task lab_tasks[] = {
    {"8.1", "sum of one worker's leaves, in a tree of neighbours", 2, the_sum_of_a_tree,
     "1 + 2^-24 is 1 again, but 1 + (2^-24 + 2^-24) is not: which two are added first?"},
    {"8.2", "the levels of the tree between workers", 3, the_tree_between_workers,
     "in round k worker r and worker r xor 2^k exchange sums, and both add them"},
    {"8.3", "a worker's leaves; training: the same bits for 1 to 8 workers", 1, the_same_bits,
     "8 / N leaves per worker, side by side. The training needs 8.1 and 8.2 too"},
    {"8.4", "the mean over all samples from means of unequal parts", 2, the_mean_of_ragged_parts,
     "a mean times its number of samples is a sum again; a worker without samples contributes 0"},
    {"8.5", "the first tensor and worker that differ", 2, lab_check_who_differs,
     "per tensor: which checksum do most workers have, and who is the first without it?"},
    {0},
};
