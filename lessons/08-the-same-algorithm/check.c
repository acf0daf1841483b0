/* Lesson 8: the checks of the tasks in tasks.h. Sums are compared bit for bit with additions that are written out
 * here; means with double precision; and training with training. */
#include "tasks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WORKERS = 8, MOST_FLOATS = 1000 };

/* ---- what is added, and what it gives ---- */

static const float SMALL = 0x1p-24f; /* 1 + SMALL is 1, but 1 + (SMALL + SMALL) is not */

static float number(int part, size_t i) {
    if (i == 0) return part == 0 ? 1 : SMALL;
    if (i == 1) return part == MOST_WORKERS - 1 ? 1 : SMALL;
    uint32_t word = (uint32_t)(i * 8 + (size_t)part) * 2654435761u;
    return (float)((double)(word >> 8) / (1 << 24) - 0.5) * (float)(1 << (word & 15));
}

static float pair(int first, size_t i) {
    return number(first, i) + number(first + 1, i);
}

static float four(int first, size_t i) {
    return pair(first, i) + pair(first + 2, i);
}

/* The sum in the tree of `leaves` neighbours from `first` on. */
static float reference(int first, int leaves, size_t i) {
    if (leaves == 1) return number(first, i);
    if (leaves == 2) return pair(first, i);
    return leaves == 4 ? four(first, i) : four(first, i) + four(first + 4, i);
}

static bool same_bits(float a, float b) {
    return memcmp(&a, &b, sizeof a) == 0;
}

static const size_t counts[] = {1, 2, 7, MOST_FLOATS};
enum { COUNTS = sizeof counts / sizeof *counts };

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
            float *part[8];
            for (int p = 0; p < parts; p++)
                if (!(part[p] = malloc(counts[c] * sizeof(float)))) gs_bug("no memory");
            gs_status status = check_tree(part, parts, counts[c]);
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
    for (int c = 0; c < COUNTS; c++)
        for (size_t workers = 1, rounds = 0; workers <= 8; workers *= 2, rounds++) {
            memset(messages, 0, sizeof messages);
            memset(bytes, 0, sizeof bytes);
            GS_TRY(gs_context(lab_run_ranks((int)workers, check_across, (void *)&counts[c]), "%zu worker%s",
                              workers, gs_s(workers)));
            for (size_t r = 0; r < workers; r++)
                if (messages[r] != rounds || bytes[r] != rounds * counts[c] * sizeof(float))
                    return gs_fail(
                        GS_E_DIFFER,
                        "%zu worker%s: worker %zu sends %zu message%s, %zu bytes; expected log2 N = "
                        "%zu message%s of all %zu float%s, %zu bytes",
                        workers, gs_s(workers), r, messages[r], gs_s(messages[r]), bytes[r], rounds,
                        gs_s(rounds), counts[c], gs_s(counts[c]), rounds * counts[c] * sizeof(float));
        }
    return GS_OK;
}

/* ---- training ---- */

/* 6000 samples in batches of 333: nothing divides, step 19 has 6 samples for 8 leaves. */
static gs_settings settings(const char *devices) {
    gs_settings s = gs_settings_default();
    s.model = "conv 4 3x3 stride 2 pad 1, tanh, avg_pool 2, flatten, linear 16, tanh, linear 10";
    s.devices = devices;
    s.batch = 333;
    s.steps = 20;
    s.threads = 1;
    s.timeout = 5;
    return s;
}

static double largest_difference(const gs_result *a, const gs_result *b) {
    double largest = 0;
    for (size_t i = 0; i < a->params; i++) {
        double d = fabs((double)a->weights[i] - (double)b->weights[i]);
        if (!(d <= largest)) largest = d;
    }
    return largest;
}

static gs_status compare_training(const gs_result *plain, const gs_result *one, const gs_result *r,
                                  int workers) {
    double d = largest_difference(plain, r);
    if (!(d <= 1e-6))
        return gs_fail(GS_E_DIFFER,
                       "%d worker%s, --exact: after 20 steps the weights differ by %g from those of plain "
                       "training; expected rounding alone, at most 1e-6",
                       workers, gs_s(workers), d);
    if (memcmp(one->weights, r->weights, r->params * sizeof(float)) != 0)
        return gs_fail(GS_E_DIFFER,
                       "%d worker%s, --exact: after 20 steps the weights differ by up to %g from those of 1 "
                       "worker; expected the same bits",
                       workers, gs_s(workers), largest_difference(one, r));
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
    gs_settings s = settings(devices[0]);
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
    float mean[COUNT + 1];
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

static gs_status the_mean_of_ragged_parts(void) {
    static const parts cases[] = {{1, {3}},       {2, {2, 2}},       {2, {3, 1}},          {2, {2, 0}},
                                  {3, {0, 4, 1}}, {4, {1, 1, 1, 0}}, {4, {84, 83, 83, 83}}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        GS_TRY(gs_context(lab_run_ranks(cases[i].workers, check_mean, (void *)&cases[i]), "%d worker%s",
                          cases[i].workers, gs_s(cases[i].workers)));
    return GS_OK;
}

/* ---- 8.5 ---- */

typedef struct checksums {
    int workers, tensors;
    uint32_t sum[12];
    int worker, tensor; /* -1: all are the same */
} checksums;

static gs_status check_checksums(const checksums *k) {
    int worker = -1, tensor = -1;
    char text[200] = "";
    for (int i = 0; i < k->workers * k->tensors; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%u",
                 i == 0               ? ""
                 : i % k->tensors > 0 ? " "
                                      : " | ",
                 k->sum[i]);
    bool found = first_different(k->sum, k->workers, k->tensors, &worker, &tensor);
    if (found == (k->worker >= 0) && (!found || (worker == k->worker && tensor == k->tensor))) return GS_OK;
    char got[60] = "all are the same", wanted[60] = "all are the same";
    if (found) snprintf(got, sizeof got, "worker %d, tensor %d", worker, tensor);
    if (k->worker >= 0) snprintf(wanted, sizeof wanted, "worker %d, tensor %d", k->worker, k->tensor);
    return gs_fail(GS_E_DIFFER, "checksums %s (by worker): got %s, expected %s", text, got, wanted);
}

static int harmed_rank, harmed_tensor;

/* After step 8: one bit of one weight. */
static void do_harm(gs_worker *w) {
    uint32_t bits;
    if (w->comm->rank != harmed_rank || w->step != 8) return;
    gs_mem at = gs_at(w->model->weights, w->model->param[harmed_tensor]->at);
    if (w->device->ops->read(w->device, &bits, at, sizeof bits) != GS_OK) gs_bug("%s", gs_message());
    bits ^= 1;
    if (w->device->ops->write(w->device, at, &bits, sizeof bits) != GS_OK) gs_bug("%s", gs_message());
}

/* Training with --verify 4: without harm it goes through; after it, it stops with this message. */
static gs_status check_verify(const char *devices, int rank, int tensor, const char *wanted) {
    gs_settings s = settings(devices);
    gs_result r = {0};
    s.steps = 12;
    s.verify = 4;
    GS_TRY(gs_context(gs_train(&s, NULL, &r), "a sound run with --verify 4"));
    gs_result_free(&r);
    s.test_hook = do_harm;
    harmed_rank = rank;
    harmed_tensor = tensor;
    gs_status status = gs_train(&s, NULL, &r);
    gs_result_free(&r);
    char message[400];
    snprintf(message, sizeof message, "%s", status == GS_OK ? "nothing was found" : gs_message());
    if (status == GS_E_DIFFER && strstr(message, wanted)) return GS_OK;
    return gs_fail(GS_E_DIFFER, "training with --verify 4 and one wrong bit: expected \"%s\", got \"%s\"",
                   wanted, message);
}

static gs_status who_differs(void) {
    static const checksums cases[] = {
        {1, 2, {5, 6}, -1, -1},
        {2, 1, {7, 7}, -1, -1},
        {2, 1, {7, 8}, 1, 0},
        {3, 1, {7, 8, 7}, 1, 0},
        {3, 1, {8, 7, 7}, 0, 0},          /* most workers have another one than worker 0 */
        {3, 2, {1, 2, 1, 2, 1, 3}, 2, 1}, /* the second tensor */
        {3, 2, {1, 2, 1, 3, 4, 2}, 2, 0}, /* the first tensor that differs, not the first worker */
        {4, 1, {1, 1, 2, 2}, 2, 0},       /* equally many: that of the lowest rank counts */
        {4, 1, {3, 2, 2, 1}, 0, 0},       /* three kinds */
        {4, 3, {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, -1, -1},
        {4, 3, {9, 4, 0, 9, 4, 0, 9, 4, 7, 9, 4, 0}, 2, 2},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) GS_TRY(check_checksums(&cases[i]));
    GS_TRY(check_verify("cpu,cpu,cpu", 2, 4, "step 8: worker 2's 6.weight differs"));
    return check_verify("cpu,cpu,cpu", 0, 0, "step 8: worker 0's 0.weight differs");
}

const lab_task lab_tasks[] = {
    {"8.1", "sum of one worker's leaves, in a tree of neighbours", 2, the_sum_of_a_tree,
     "1 + 2^-24 is 1 again, but 1 + (2^-24 + 2^-24) is not: which two are added first?"},
    {"8.2", "the levels of the tree between workers", 3, the_tree_between_workers,
     "in round k worker r and worker r xor 2^k exchange sums, and both add them"},
    {"8.3", "a worker's leaves; training: the same bits for 1 to 8 workers", 1, the_same_bits,
     "8 / N leaves per worker, side by side. The training needs 8.1 and 8.2 too"},
    {"8.4", "the mean over all samples from means of unequal parts", 2, the_mean_of_ragged_parts,
     "a mean times its number of samples is a sum again; a worker without samples contributes 0"},
    {"8.5", "the first tensor and worker that differ", 2, who_differs,
     "per tensor: which checksum do most workers have, and who is the first without it?"},
    {0},
};
