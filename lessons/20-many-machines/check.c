/* Compares 20.3 with a sum over single rounds, and 20.4 with what every row costs. */
#include "check.h"

#include <math.h>
#include <stdio.h>

/* ---- 20.3 ---- */

/* The time of a message on a link that `share` ranks use. */
static double message(const lab_link *l, double bytes, int share) {
    return l->latency + bytes * share / l->bandwidth;
}

static double flat(const lab_cluster *c, double bytes) {
    const int ranks = c->hosts * c->each;
    double sum = 0;
    for (int round = 0; round < 2 * (ranks - 1); round++) {
        double slowest = 0;
        for (int r = 0; r < ranks; r++) {
            const bool out = r / c->each != (r + 1) % ranks / c->each;
            slowest = fmax(slowest, message(out ? &c->between : &c->inside, bytes / ranks, 1));
        }
        sum += slowest;
    }
    return sum;
}

static double hierarchical(const lab_cluster *c, double bytes) {
    double sum = 0;
    for (int way = 0; way < 2; way++) {
        for (int round = 1; round < c->each; round++) sum += message(&c->inside, bytes / c->each, 1);
        for (int round = 1; round < c->hosts; round++)
            sum += message(&c->between, bytes / c->each / c->hosts, c->each);
    }
    return sum;
}

static gs_status check_times_of(const lab_cluster *c, double bytes) {
    char text[200];
    snprintf(text, sizeof text, "%d host%s of %d, inside %g s and %g bytes/s, between %g s and %g, %g bytes",
             c->hosts, gs_s((unsigned)c->hosts), c->each, c->inside.latency, c->inside.bandwidth,
             c->between.latency, c->between.bandwidth, bytes);
    double wanted = flat(c, bytes), got = lab_flat_time(c, bytes);
    LAB_CHECK(fabs(got / wanted - 1) < 1e-9, "lab_flat_time: %s: expected %g s, got %g", text, wanted, got);
    wanted = hierarchical(c, bytes);
    got = lab_hierarchical_time(c, bytes);
    LAB_CHECK_HINT(fabs(got / wanted - 1) < 1e-9,
                   "between hosts each rank of a host sends its own piece of the array, all at once: who "
                   "shares the line?",
                   "lab_hierarchical_time: %s: expected %g s, got %g", text, wanted, got);
    return GS_OK;
}

static gs_status check_times(void) {
    static const lab_cluster few[] = {
        {2, 1, {1, 8}, {10, 4}}, {1, 2, {1, 8}, {10, 4}}, {2, 2, {1, 8}, {10, 4}}, {3, 2, {1, 8}, {10, 4}},
        {2, 4, {1, 8}, {10, 4}}, {2, 2, {10, 4}, {1, 8}}, {2, 1, {10, 4}, {1, 8}}};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++) GS_TRY(check_times_of(&few[i], 96));
    for (size_t i = 0; i < 60; i++) {
        const size_t at = 8 * i;
        lab_cluster c = {1 + (int)lab_pick(CLUSTERS_ROW, at, 64),
                         1 + (int)lab_pick(CLUSTERS_ROW, at + 1, 8),
                         {1e-6 * (double)(1 + lab_pick(CLUSTERS_ROW, at + 2, 20)),
                          1e9 * (double)(1 + lab_pick(CLUSTERS_ROW, at + 3, 200))},
                         {1e-6 * (double)(1 + lab_pick(CLUSTERS_ROW, at + 4, 100)),
                          1e9 * (double)(1 + lab_pick(CLUSTERS_ROW, at + 5, 25))}};
        c.hosts += c.hosts * c.each == 1;
        GS_TRY(check_times_of(&c, 1e3 * (double)(1 + lab_pick(CLUSTERS_ROW, at + 6, 400000))));
    }
    return GS_OK;
}

/* ---- 20.4 ---- */

enum { ROWS = 8 };

static double hours_of(const lab_job *j, const lab_row *r) {
    const double samples = j->samples + j->samples * r->batch / j->critical, steps = samples / r->batch;
    return steps * r->seconds / 3600;
}

static const char *table(const lab_job *j, int rows, const lab_row *row) {
    static char text[700];
    snprintf(text, sizeof text, "%g samples, critical batch %g, price %g;", j->samples, j->critical,
             j->price);
    for (int i = 0; i < rows; i++) {
        lab_append(text, sizeof text, "%s %d workers: %g samples in %g s", i ? "," : "", row[i].workers,
                   row[i].batch, row[i].seconds);
    }
    return text;
}

static int in_time(const lab_job *j, int rows, const lab_row *row, double deadline) {
    int best = -1;
    for (int i = rows - 1; i >= 0; i--) {
        const double money = hours_of(j, &row[i]) * row[i].workers;
        if (hours_of(j, &row[i]) > deadline) continue;
        if (best < 0 || money <= hours_of(j, &row[best]) * row[best].workers) best = i;
    }
    return best;
}

static int best_of(const lab_job *j, int rows, const lab_row *row, double worth) {
    for (int i = 0; i + 1 < rows; i++) {
        const double now = hours_of(j, &row[i]), then = hours_of(j, &row[i + 1]);
        const double all_now = now * worth + now * row[i].workers * j->price;
        if (then * worth + then * row[i + 1].workers * j->price >= all_now) return i;
    }
    return rows - 1;
}

static gs_status check_job_of(const lab_job *j, int rows, const lab_row *row, double deadline, double worth) {
    for (int i = 0; i < rows; i++) {
        const double wanted = hours_of(j, &row[i]), got = lab_hours(j, &row[i]);
        LAB_CHECK_HINT(fabs(got / wanted - 1) < 1e-9,
                       "lab_hours: compute samples, steps, seconds and hours, in this order.",
                       "lab_hours: %s: expected %g hours, got %g", table(j, 1, &row[i]), wanted, got);
    }
    const int first = in_time(j, rows, row, deadline), theirs = lab_in_time(j, rows, row, deadline);
    LAB_CHECK_HINT(theirs == first, "lab_in_time: money is workers x hours x price. Which rows are in time?",
                   "lab_in_time: %s; within %g hours: expected row %d, got %d", table(j, rows, row), deadline,
                   first, theirs);
    const int wanted = best_of(j, rows, row, worth), got = lab_best(j, rows, row, worth);
    LAB_CHECK_HINT(
        got == wanted,
        "lab_best: how much more money do more workers for fewer hours cost? Stop at the first doubling that "
        "does not pay.",
        "lab_best: %s; an hour is worth %g: expected row %d, got %d", table(j, rows, row), worth, wanted,
        got);
    return GS_OK;
}

static gs_status check_job_drawn(size_t i) {
    lab_row row[ROWS];
    const int rows = 1 + (int)lab_pick(JOBS_ROW, 8 * i, ROWS);
    const lab_job j = {1e6 * (double)(1 + lab_pick(JOBS_ROW, 8 * i + 1, 200)),
                       64.0 * (double)(1 + lab_pick(JOBS_ROW, 8 * i + 2, 400)),
                       (double)(1 + lab_pick(JOBS_ROW, 8 * i + 3, 40)) / 8};
    const double each = 32, compute = 0.05 + (double)lab_pick(JOBS_ROW, 8 * i + 4, 100) / 200;
    for (int k = 0; k < rows; k++) /* the sums take longer with more workers, sometimes much longer */
        row[k] = (lab_row){1 << k, each * (1 << k),
                           compute + 0.02 * k * (double)(1 + lab_pick(ROWS_ROW, ROWS * i + (size_t)k, 6))};
    const double hours = hours_of(&j, &row[rows - 1]);
    return check_job_of(&j, rows, row, hours * (1.5 + (double)lab_pick(JOBS_ROW, 8 * i + 5, 40)) / 8,
                        j.price * (double)(1 + lab_pick(JOBS_ROW, 8 * i + 6, 60)) / 4);
}

static gs_status check_jobs(void) {
    static const lab_row one = {1, 32, 1}, two[] = {{1, 32, 1}, {2, 64, 1}},
                         three[] = {{1, 32, 1}, {2, 64, 1.5}, {4, 128, 1.6}};
    const lab_job job = {3600 * 32, 1e30, 1}, critical = {3600 * 32, 64, 2};
    GS_TRY(check_job_of(&job, 1, &one, 1, 1));
    GS_TRY(check_job_of(&critical, 1, &one, 1, 1));
    GS_TRY(check_job_of(&job, 2, two, 0.75, 1));
    GS_TRY(check_job_of(&job, 3, three, 0.9, 2.5));
    GS_TRY(check_job_of(&critical, 3, three, 1.3, 5));
    /* Two rows for the same money; and an hour worth exactly its price. Steps of 1 or 1.5 hours make all sums exact. */
    static const lab_row same[] = {{1, 32, 3600}, {2, 64, 3600}}, even[] = {{1, 32, 3600}, {2, 64, 5400}};
    const lab_job step = {32, 1e30, 1};
    GS_TRY(check_job_of(&step, 2, same, 2, 1));
    GS_TRY(check_job_of(&step, 2, even, 2, 2));
    for (size_t i = 0; i < 150; i++) GS_TRY(check_job_drawn(i));
    return GS_OK;
}

// clang-format off
const char *const lab_may_call[] = {
    "store_set", "store_get", "gs_chunk_of", "gs_chunk_range", "gs_sync_round", "gs_sync_send", "gs_sync_recv",
    "gs_sync_recv_to", "gs_sync_recv_add", "gs_fail", "gs_context", "gs_shard_of", NULL};
// clang-format on

const lab_task lab_tasks[] = {
    {"20.1", "rendezvous: who tells whom which address", 2, check_rendezvous,
     "count the processes of the machines before this one. Who waits for which key, and who sets it, and "
     "when?"},
    {"20.2", "a sum inside of hosts, and between them", 3, check_sum,
     "draw 2 hosts of 2 ranks, and 4 chunks: which rank holds which sum after each of the four calls?"},
    {"20.3", "how long it takes, in one ring and in two", 2, check_times,
     "in each round all wait for the slowest message. How many rounds are there, and how large is a chunk?"},
    {"20.4", "hours and money", 3, check_jobs, "write one function at a time."},
    {0},
};
