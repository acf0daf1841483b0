/* Small cases first; then the loader's schedule (src/data/schedule.h), with the student's parts in it. */
#include "tasks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lab.h"

enum { MOST = 200 }; /* samples in a check */

/* Rows of drawn numbers (lab_number, lab_pick), one for each kind. */
enum { TOTALS_ROW = 10, WORKERS_ROW, SEEDS_ROW, EPOCHS_ROW, PARTS_ROW, XS_ROW, YS_ROW };

/* "3 1 0 2", at most 12 of them */
static const char *numbers(const uint32_t *x, size_t n) {
    static char text[4][160];
    static int next;
    char *t = text[next++ % 4];
    *t = '\0';
    for (size_t i = 0; i < n && i < 12; i++)
        snprintf(t + strlen(t), sizeof *text - strlen(t), "%s%u", i ? " " : "", (unsigned)x[i]);
    if (n > 12) strcat(t, " ...");
    return n == 0 ? "none" : t;
}

/* ---- 5.1 ---- */

static gs_status check_parts(size_t total, int size) {
    size_t expected_first = 0;
    for (int r = 0; r < size; r++) {
        gs_shard got = gs_shard_of(total, r, size);
        size_t count = total / (size_t)size + ((size_t)r < total % (size_t)size ? 1 : 0);
        LAB_CHECK(got.count == count && (got.first == expected_first || count == 0),
                  "%zu sample%s, part %d of %d: expected first %zu, count %zu; got first %zu, count %zu",
                  total, total == 1 ? "" : "s", r, size, expected_first, count, got.first, got.count);
        expected_first += count;
    }
    return GS_OK;
}

/* Counts how often the workers' schedules use each of `total` samples, in two epochs. */
static gs_status check_schedule(size_t total, size_t batch, int workers, int passes) {
    int used[2][MOST] = {{0}};
    for (int r = 0; r < workers; r++) {
        const gs_schedule s = {.count = total,
                               .batch = batch,
                               .parts = workers,
                               .first_part = r,
                               .mine = 1,
                               .passes = passes,
                               .most = 5,
                               .epochs = 2};
        gs_schedule_position at = {0};
        gs_micro_batch p;
        while (gs_schedule_next(&s, &at, &p))
            for (size_t i = p.first; i < p.first + p.n; i++) {
                LAB_CHECK(i < total,
                          "%zu sample%s, batch %zu, %d worker%s: worker %d takes number %zu of epoch %d",
                          total, gs_s(total), batch, workers, gs_s(workers), r, i, (int)p.epoch);
                used[p.epoch - 1][i]++;
            }
    }
    for (int epoch = 0; epoch < 2; epoch++)
        for (size_t i = 0; i < total; i++)
            LAB_CHECK(
                used[epoch][i] == 1,
                "%zu sample%s, batch %zu, %d worker%s, %d pass%s: number %zu of epoch %d is used %d time%s",
                total, gs_s(total), batch, workers, gs_s(workers), passes, gs_es(passes), i, epoch + 1,
                used[epoch][i], gs_s(used[epoch][i]));
    return GS_OK;
}

static gs_status check_shard_of(void) {
    for (int size = 1; size <= 9; size++)
        for (size_t total = 0; total <= 30; total++) GS_TRY(check_parts(total, size));
    GS_TRY(check_parts((size_t)1 << 40, 7));
    for (int workers = 1; workers <= 4; workers++)
        for (int passes = 1; passes <= 3; passes++) GS_TRY(check_schedule(50, 12, workers, passes));
    GS_TRY(check_schedule(MOST, MOST, 3, 2));
    for (size_t i = 0; i < 20; i++)
        GS_TRY(check_parts(lab_pick(TOTALS_ROW, i, 1000000), 1 + (int)lab_pick(WORKERS_ROW, i, 64)));
    for (size_t i = 0; i < 10; i++) {
        size_t total = 1 + lab_pick(TOTALS_ROW, 100 + i, MOST), batch = 1 + lab_pick(PARTS_ROW, i, total);
        GS_TRY(check_schedule(total, batch, 1 + (int)lab_pick(WORKERS_ROW, 100 + i, 6),
                              1 + (int)lab_pick(EPOCHS_ROW, i, 3)));
    }
    return GS_OK;
}

/* ---- 5.2 ---- */

static gs_status check_permutation(uint64_t seed, uint64_t epoch, size_t n) {
    uint32_t order[MOST];
    int seen[MOST] = {0};
    for (size_t i = 0; i < n; i++) order[i] = UINT32_MAX;
    gs_epoch_order(seed, epoch, n, order);
    for (size_t i = 0; i < n; i++)
        LAB_CHECK(order[i] < n && seen[order[i]]++ == 0,
                  "n = %zu, seed %d, epoch %d: order is %s; each of 0 .. %zu must be there once", n,
                  (int)seed, (int)epoch, numbers(order, n), n - 1);
    return GS_OK;
}

static gs_status check_same(bool same, uint64_t seed0, uint64_t epoch0, uint64_t seed1, uint64_t epoch1) {
    enum { N = 40 };
    uint32_t a[N], b[N];
    gs_epoch_order(seed0, epoch0, N, a);
    gs_epoch_order(seed1, epoch1, N, b);
    LAB_CHECK((memcmp(a, b, sizeof a) == 0) == same,
              "%d samples: seed %d, epoch %d gives %s; seed %d, epoch %d gives %s: they must%s be equal", N,
              (int)seed0, (int)epoch0, numbers(a, N), (int)seed1, (int)epoch1, numbers(b, N),
              same ? "" : " not");
    return GS_OK;
}

/* remote.c has another version for the checker, which does not send a message for each epoch. */
__attribute__((weak)) void lab_orders(uint64_t seed, uint64_t epochs, size_t n, uint32_t *orders) {
    for (uint64_t e = 0; e < epochs; e++) gs_epoch_order(seed, e + 1, n, orders + e * n);
}

/* All 6 orders of 3 samples are equally likely. The draws are fixed, so the verdict never varies. The margin is 5
 * standard deviations; a shuffle that swaps each element with any of the 3 is 12 off. */
static gs_status check_likely(uint64_t seed) {
    enum { EPOCHS = 60000, EACH = EPOCHS / 6, MARGIN = 456 };
    static uint32_t orders[3 * EPOCHS];
    int seen[3][3] = {{0}};
    lab_orders(seed, EPOCHS, 3, orders);
    for (const uint32_t *order = orders; order < orders + 3 * EPOCHS; order += 3) {
        LAB_CHECK(order[0] < 3 && order[1] < 3, "3 samples: order is %s", numbers(order, 3));
        seen[order[0]][order[1]]++;
    }
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t j = 0; j < 3; j++)
            LAB_CHECK(i == j || abs(seen[i][j] - EACH) <= MARGIN,
                      "3 samples, %d epochs: the order %u %u %u came %d time%s, expected %d, at most %d off",
                      EPOCHS, (unsigned)i, (unsigned)j, (unsigned)(3 - i - j), seen[i][j], gs_s(seen[i][j]),
                      EACH, MARGIN);
    return GS_OK;
}

static gs_status check_order(void) {
    for (size_t n = 0; n <= MOST; n += n < 9 ? 1 : 13)
        for (uint64_t epoch = 1; epoch <= 4; epoch++) GS_TRY(check_permutation(3, epoch, n));
    for (uint64_t epoch = 2; epoch <= 5; epoch++) GS_TRY(check_same(false, 1, 1, 1, epoch));
    GS_TRY(check_same(true, 1, 3, 1, 3)); /* no state in between */
    GS_TRY(check_same(false, 1, 1, 2, 1));
    GS_TRY(check_same(false, 1, 2, 2, 1));
    GS_TRY(check_same(false, 1, 6, 2, 3));
    for (size_t i = 0; i < 20; i++) {
        uint64_t seed = lab_pick(SEEDS_ROW, i, 1000), epoch = 1 + lab_pick(EPOCHS_ROW, 100 + i, 1000);
        GS_TRY(check_permutation(seed, epoch, lab_pick(TOTALS_ROW, 200 + i, MOST)));
        GS_TRY(check_same(true, seed, epoch, seed, epoch));
        GS_TRY(check_same(false, seed, epoch, seed, epoch + 1 + i));
        GS_TRY(check_same(false, seed, epoch, seed + 1 + i, epoch));
    }
    return check_likely(lab_pick(SEEDS_ROW, 100, 1000));
}

/* ---- 5.3 ---- */

/* An order for checks: rotated, and backwards in odd epochs. */
static void turned(uint64_t seed, uint64_t epoch, size_t n, uint32_t *order) {
    for (size_t i = 0; i < n; i++) {
        size_t at = (i + 3 * seed + 5 * epoch) % n;
        order[i] = (uint32_t)(epoch % 2 ? n - 1 - at : at);
    }
}

typedef struct uses {
    size_t count;
    uint64_t epoch[4 * MOST];
    uint32_t sample[4 * MOST];
} uses;

static void record_use(void *context, uint64_t epoch, uint32_t sample) {
    uses *d = context;
    if (d->count < 4 * MOST) d->epoch[d->count] = epoch, d->sample[d->count] = sample;
    d->count++;
}

static gs_status check_epochs_of(uint64_t seed, uint64_t epochs, size_t n) {
    static uses d;
    uint32_t order[MOST], room[MOST];
    d.count = 0;
    lab_epochs(seed, epochs, n, turned, room, record_use, &d);
    for (uint64_t e = 1; e <= epochs; e++) {
        size_t at = (size_t)(e - 1) * n;
        turned(seed, e, n, order);
        for (size_t i = 0; i < n && at + i < d.count; i++)
            LAB_CHECK(d.epoch[at + i] == e && d.sample[at + i] == order[i],
                      "%zu sample%s, epoch %d: expected the order %s; got %s", n, gs_s(n), (int)e,
                      numbers(order, n), numbers(d.sample + at, d.count - at < n ? d.count - at : n));
    }
    LAB_CHECK(d.count == (size_t)epochs * n, "%zu sample%s, %d epoch%s: used %zu sample%s, expected %zu", n,
              gs_s(n), (int)epochs, gs_s(epochs), d.count, gs_s(d.count), (size_t)epochs * n);
    return GS_OK;
}

static gs_status check_epochs(void) {
    for (uint64_t epochs = 0; epochs <= 4; epochs++)
        for (size_t n = 0; n <= MOST; n += n < 6 ? 1 : 97) GS_TRY(check_epochs_of(11, epochs, n));
    for (size_t i = 0; i < 10; i++)
        GS_TRY(check_epochs_of(lab_pick(SEEDS_ROW, 200 + i, 1000), 1 + lab_pick(EPOCHS_ROW, 200 + i, 4),
                               lab_pick(TOTALS_ROW, 300 + i, 40)));
    return GS_OK;
}

/* ---- 5.4 ---- */

static const char ONCE[] =
    "every sample belongs to exactly one of the two arrays. Write both down for 4 samples, of which 1 is "
    "held out, in the epochs 1 and 2.";

static gs_status check_split_of(uint64_t seed, size_t n, size_t held_out) {
    uint32_t room[MOST], train[MOST], validation[MOST], first[MOST], before[MOST];
    size_t m = n - held_out;
    for (uint64_t epoch = 1; epoch <= 3; epoch++) {
        bool held[MOST] = {false}, seen[MOST] = {false};
        for (size_t i = 0; i < MOST; i++) room[i] = train[i] = validation[i] = UINT32_MAX;
        lab_split(seed, epoch, n, held_out, turned, room, train, validation);
        if (epoch == 1) memcpy(first, validation, sizeof first);
        LAB_CHECK(memcmp(first, validation, held_out * sizeof *first) == 0,
                  "%zu sample%s, %zu held out: %s in epoch 1, %s in epoch %d: the network was trained on the "
                  "samples that are to judge it",
                  n, gs_s(n), held_out, numbers(first, held_out), numbers(validation, held_out), (int)epoch);
        for (size_t i = 0; i < held_out; i++) {
            LAB_CHECK_HINT(validation[i] < n && !held[validation[i]], ONCE,
                           "%zu sample%s, %zu held out: they are %s", n, gs_s(n), held_out,
                           numbers(validation, held_out));
            held[validation[i]] = true;
        }
        for (size_t i = 0; i < m; i++) {
            LAB_CHECK_HINT(train[i] < n && !held[train[i]] && !seen[train[i]], ONCE,
                           "%zu sample%s, %zu held out (%s): epoch %d trains on %s", n, gs_s(n), held_out,
                           numbers(validation, held_out), (int)epoch, numbers(train, m));
            seen[train[i]] = true;
        }
        LAB_CHECK_HINT(epoch == 1 || m < 8 || memcmp(before, train, m * sizeof *train) != 0,
                       "which samples are for training is the same in each epoch, but not their order.",
                       "%zu sample%s, %zu held out: epochs %d and %d train in the same order, %s", n, gs_s(n),
                       held_out, (int)epoch - 1, (int)epoch, numbers(train, m));
        memcpy(before, train, m * sizeof *train);
    }
    return GS_OK;
}

static gs_status check_split(void) {
    uint32_t room[MOST], train[MOST], one[MOST], other[MOST];
    for (size_t n = 0; n <= MOST; n += n < 12 ? 1 : 47)
        for (size_t held_out = 0; held_out <= n; held_out += 1 + n / 10)
            GS_TRY(check_split_of(4, n, held_out));
    for (size_t i = 0; i < 20; i++) {
        size_t n = lab_pick(TOTALS_ROW, 400 + i, MOST), held_out = lab_pick(PARTS_ROW, 400 + i, n + 1);
        GS_TRY(check_split_of(lab_pick(SEEDS_ROW, 400 + i, 1000), n, held_out));
    }
    lab_split(1, 1, 50, 5, turned, room, train, one);
    lab_split(2, 1, 50, 5, turned, room, train, other);
    LAB_CHECK_HINT(memcmp(one, other, 5 * sizeof *one) != 0,
                   "another seed holds out other samples: what in your code depends on the seed?",
                   "50 samples, 5 held out: with seed 1 and with seed 2 they are %s", numbers(one, 5));
    return GS_OK;
}

/* ---- 5.5 ---- */

static const double xs[] = {1, 2, -1, 0.5, 3, -2, 1.5, 0.25, -0.75, 2.5};
static const double ys[] = {2, 3, -1, 2, 5, -3, 4, 1, 0, 6};

/* Compares three steps on the same parts with one worker that has all samples. */
static gs_status check_step_of(int workers, const size_t *counts, const double *xs, const double *ys) {
    lab_part parts[4];
    double dw[4] = {0}, w = 0.5, expected = 0.5;
    size_t all = 0;
    char text[60] = "";
    for (int r = 0; r < workers; r++) {
        parts[r] = (lab_part){counts[r], xs + all, ys + all};
        all += counts[r];
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s%zu", r ? " + " : "", counts[r]);
    }
    for (int step = 1; step <= 3; step++) {
        double sum = 0;
        for (size_t i = 0; i < all; i++) sum += (expected * xs[i] - ys[i]) * xs[i];
        if (all > 0) expected -= 0.1 * sum / (double)all;
        w = lab_step(w, 0.1, workers, parts, dw);
        LAB_CHECK(fabs(w - expected) < 1e-12,
                  "%d worker%s, %s sample%s, step %d: expected w = %.9g, got %.9g", workers,
                  workers > 1 ? "s" : "", text, all == 1 ? "" : "s", step, expected, w);
    }
    return GS_OK;
}

enum { PART = 6 /* at most, of drawn parts */ };

static gs_status check_step(void) {
    static const size_t counts[][4] = {{1},    {2, 2},       {2, 1},       {3, 3, 2},
                                       {1, 0}, {5, 3, 1, 1}, {4, 0, 4, 0}, {0, 0}};
    static const int workers[] = {1, 2, 2, 3, 2, 4, 4, 2};
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++)
        GS_TRY(check_step_of(workers[i], counts[i], xs, ys));
    for (size_t i = 0; i < 20; i++) {
        double x[4 * PART], y[4 * PART];
        size_t drawn[4];
        for (size_t r = 0; r < 4; r++) drawn[r] = lab_pick(PARTS_ROW, 4 * i + r, PART + 1);
        for (size_t k = 0; k < 4 * PART; k++) {
            x[k] = (double)lab_number(XS_ROW, 4 * PART * i + k);
            y[k] = (double)lab_number(YS_ROW, 4 * PART * i + k);
        }
        GS_TRY(check_step_of(1 + (int)lab_pick(WORKERS_ROW, 200 + i, 4), drawn, x, y));
    }
    return GS_OK;
}

const char *const lab_may_call[] = {"gs_philox", NULL};

const lab_task lab_tasks[] = {
    {"5.1", "parts that differ by one sample at most", 2, check_shard_of,
     "7 samples, 3 workers: 3 + 2 + 2. Where does each part begin, and how does total % size say it?"},
    {"5.2", "an order for each epoch", 3, check_order,
     "which elements may element i be swapped with? Keep no state between calls."},
    {"5.3", "find the bug: the same order in each epoch", 1, check_epochs,
     "which line belongs inside which loop?"},
    {"5.4", "find the bug: judged by what it was trained on", 2, check_split,
     "the held-out samples may depend on the seed, but on nothing that changes during the run."},
    {"5.5", "find the bugs: one step of several workers", 2, check_step,
     "what does dw[r] hold when the second step begins? With which w does worker 1 compute its gradient?"},
    {0},
};
