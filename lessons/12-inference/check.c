/* Checks 12.1 against all ways to divide a few requests, and 12.4 against a simulation from event to event. */
#include "tasks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "lab.h"

/* Rows of drawn numbers (lab_number, lab_pick), one for each kind. */
enum {
    WORKERS_ROW,
    REQUESTS_ROW,
    SPEEDS_ROW,
    WIDTHS_ROW,
    ORDER_ROW,
    GIVEN_TO_ROW,
    VALUES_ROW,
    MARKS_ROW,
    TIMES_ROW,
    SERVERS_ROW,
    ARRIVALS_ROW
};

/* ---- 12.1 ---- */

static double last_answer(int workers, const double *speed, const size_t *count) {
    double last = 0;
    for (int r = 0; r < workers; r++) last = fmax(last, (double)count[r] / speed[r]);
    return last;
}

/* The earliest end of all divisions of `left` requests among the workers from r on. */
static double earliest(size_t left, int workers, const double *speed, int r, double until) {
    if (r == workers - 1) return fmax(until, (double)left / speed[r]);
    double best = INFINITY;
    for (size_t n = 0; n <= left; n++)
        best = fmin(best, earliest(left - n, workers, speed, r + 1, fmax(until, (double)n / speed[r])));
    return best;
}

static const char *speeds_text(int workers, const double *speed) {
    static char text[80];
    *text = '\0';
    for (int r = 0; r < workers; r++) lab_append(text, sizeof text, "%s%g", r ? ", " : "", speed[r]);
    return text;
}

static gs_status check_divide_of(size_t requests, int workers, const double *speed) {
    size_t count[4] = {99, 99, 99, 99}, sum = 0;
    lab_divide(requests, workers, speed, count);
    for (int r = 0; r < workers; r++) sum += count[r];
    LAB_CHECK(sum == requests, "%zu request%s, speeds %s: the counts add up to %zu", requests, gs_s(requests),
              speeds_text(workers, speed), sum);
    double got = last_answer(workers, speed, count), expected = earliest(requests, workers, speed, 0, 0);
    LAB_CHECK(got <= expected * (1 + 1e-12),
              "%zu request%s, speeds %s: worker 0 gets %zu, and the last answer arrives after %g ms; "
              "expected %g ms",
              requests, gs_s(requests), speeds_text(workers, speed), count[0], got, expected);
    return GS_OK;
}

/* True if no division answers all requests before `last`. */
static bool is_earliest(size_t requests, int workers, const double *speed, double last) {
    size_t before = 0;
    for (int r = 0; r < workers; r++) {
        size_t n = (size_t)(last * speed[r]) + 1;
        while (n > 0 && (double)n / speed[r] >= last * (1 - 1e-12)) n--;
        before += n;
    }
    return before < requests;
}

enum { MANY_WORKERS = 20 };

static gs_status check_divide_many(size_t i) {
    double speed[MANY_WORKERS];
    size_t count[MANY_WORKERS] = {0}, sum = 0, requests = 1000 + lab_pick(REQUESTS_ROW, 1000 + i, 4000);
    const int workers = 5 + (int)lab_pick(WORKERS_ROW, 1000 + i, MANY_WORKERS - 4);
    for (size_t r = 0; r < MANY_WORKERS; r++)
        speed[r] = 0.1 * (double)(1 + lab_pick(SPEEDS_ROW, 1000 + MANY_WORKERS * i + r, 400));
    lab_divide(requests, workers, speed, count);
    for (int r = 0; r < workers; r++) sum += count[r];
    const double last = last_answer(workers, speed, count);
    LAB_CHECK(sum == requests, "%zu requests, %d workers: the counts add up to %zu", requests, workers, sum);
    LAB_CHECK(is_earliest(requests, workers, speed, last),
              "%zu requests, %d workers, the first four of the speeds %s: the last answer arrives after %g "
              "ms, and could arrive earlier",
              requests, workers, speeds_text(4, speed), last);
    return GS_OK;
}

static gs_status check_divide(void) {
    static const double speeds[][4] = {
        {1},          {1, 1},        {2, 1},       {1, 2},        {3, 1, 1},
        {10, 1, 0.5}, {1.5, 1, 2.5}, {5, 4, 3, 2}, {1, 1 + 1e-8}, /* equal as floats */
    };
    static const int workers[] = {1, 2, 2, 2, 3, 3, 3, 4, 2};
    for (size_t requests = 0; requests <= 17; requests++)
        for (size_t i = 0; i < sizeof workers / sizeof *workers; i++)
            GS_TRY(check_divide_of(requests, workers[i], speeds[i]));
    for (size_t i = 0; i < 60; i++) {
        double speed[4];
        int drawn = 1 + (int)lab_pick(WORKERS_ROW, i, 4);
        for (size_t r = 0; r < 4; r++) speed[r] = (double)(1 + lab_pick(SPEEDS_ROW, 4 * i + r, 40)) / 8;
        GS_TRY(check_divide_of(lab_pick(REQUESTS_ROW, i, 20), drawn, speed));
    }
    for (size_t i = 0; i < 10; i++) GS_TRY(check_divide_many(i));
    return GS_OK;
}

/* ---- 12.2 ---- */

enum { WIDTH = 3, REQUESTS = 7 };

static gs_status check_gather_small(void) {
    /* no answer to 5; 9 and the last were never requested, and the last looks like 5 in 32 bits */
    static const size_t first[] = {4, 0, 2}, second[] = {6, 9, 1, 3, ((size_t)1 << 32) + 5};
    float answers[2][5 * WIDTH], out[REQUESTS * WIDTH];
    unsigned char seen[REQUESTS];
    for (size_t i = 0; i < 3 * WIDTH; i++) answers[0][i] = (float)(10 * first[i / WIDTH] + i % WIDTH);
    for (size_t i = 0; i < 5 * WIDTH; i++) answers[1][i] = (float)(10 * second[i / WIDTH] + i % WIDTH);
    const lab_answers from[] = {{3, first, answers[0]}, {0, NULL, NULL}, {5, second, answers[1]}};
    for (int workers = 0; workers <= 3; workers++) {
        for (size_t i = 0; i < REQUESTS * WIDTH; i++) out[i] = -1;
        memset(seen, 7, sizeof seen);
        size_t missing = lab_gather(workers, from, REQUESTS, WIDTH, out, seen);
        size_t expected = workers == 0 ? 7 : workers == 3 ? 1 : 4;
        LAB_CHECK(
            missing == expected,
            "7 requests; the first %d of three workers, which answer 4 0 2, none, 6 9 1 3 %zu: expected %zu "
            "missing, got %zu",
            workers, second[4], expected, missing);
        for (size_t q = 0; q < REQUESTS; q++) {
            bool there = workers > 0 && (q == 0 || q == 2 || q == 4 || (workers == 3 && q != 5));
            for (size_t k = 0; k < WIDTH; k++) {
                float wanted = there ? (float)(10 * q + k) : -1;
                LAB_CHECK(out[q * WIDTH + k] == wanted,
                          "the first %d of three workers: float %zu of the answer to request %zu: expected "
                          "%g, got %g",
                          workers, k, q, (double)wanted, (double)out[q * WIDTH + k]);
            }
        }
    }
    return GS_OK;
}

enum { MOST_WORKERS = 4, MOST_REQUESTS = 24, MOST_WIDTH = 5, STRANGERS = 3 };

/* Each request goes to a worker, or to none, in a shuffled order. Numbers from `requests` on were never requested. */
static gs_status check_gather_drawn(size_t i) {
    size_t request[MOST_WORKERS][MOST_REQUESTS + STRANGERS], count[MOST_WORKERS] = {0}, missing = 0;
    float answers[MOST_WORKERS][(MOST_REQUESTS + STRANGERS) * MOST_WIDTH], out[MOST_REQUESTS * MOST_WIDTH];
    float expected[MOST_REQUESTS * MOST_WIDTH];
    unsigned char seen[MOST_REQUESTS];
    size_t workers = 1 + lab_pick(WORKERS_ROW, i, MOST_WORKERS);
    size_t width = 1 + lab_pick(WIDTHS_ROW, i, MOST_WIDTH);
    size_t requests = 1 + lab_pick(REQUESTS_ROW, i, MOST_REQUESTS);
    size_t all = requests + STRANGERS, order[MOST_REQUESTS + STRANGERS] = {0};
    for (size_t q = 0; q < all; q++) { /* shuffles */
        size_t place = lab_pick(ORDER_ROW, 100 * i + q, q + 1);
        order[q] = order[place];
        order[place] = q;
    }
    for (size_t k = 0; k < requests * width; k++) out[k] = expected[k] = -1;
    for (size_t k = 0; k < all; k++) {
        size_t q = order[k], r = lab_pick(GIVEN_TO_ROW, 100 * i + k, workers + 1);
        if (r == workers) {
            missing += q < requests;
            continue;
        }
        for (size_t m = 0; m < width; m++) {
            float value = lab_number(VALUES_ROW, 200 * i + q * width + m);
            answers[r][count[r] * width + m] = value;
            if (q < requests) expected[q * width + m] = value;
        }
        request[r][count[r]++] = q;
    }
    lab_answers from[MOST_WORKERS];
    for (size_t r = 0; r < workers; r++) from[r] = (lab_answers){count[r], request[r], answers[r]};
    memset(seen, (int)lab_pick(MARKS_ROW, i, 256), sizeof seen);
    size_t got = lab_gather((int)workers, from, requests, width, out, seen);
    LAB_CHECK(got == missing, "%zu requests, %zu worker%s, width %zu: expected %zu missing, got %zu",
              requests, workers, gs_s(workers), width, missing, got);
    for (size_t k = 0; k < requests * width; k++)
        LAB_CHECK(
            out[k] == expected[k],
            "%zu requests, %zu worker%s, width %zu: float %zu of the answer to request %zu: expected %g, got "
            "%g",
            requests, workers, gs_s(workers), width, k % width, k / width, (double)expected[k],
            (double)out[k]);
    return GS_OK;
}

static gs_status check_gather(void) {
    GS_TRY(check_gather_small());
    for (size_t i = 0; i < 30; i++) GS_TRY(check_gather_drawn(i));
    return GS_OK;
}

/* ---- 12.3 ---- */

static gs_status check_bound(const lab_timing *table, size_t rows, double bound, size_t expected) {
    size_t got = lab_best_batch(rows, table, bound);
    char text[200] = "";
    for (size_t i = 0; i < rows; i++)
        lab_append(text, sizeof text, "%s%zu in %g ms", i ? ", " : "", table[i].batch, table[i].ms);
    LAB_CHECK(got == expected, "%s; at most %g ms: expected %zu, got %zu", rows ? text : "an empty table",
              bound, expected, got);
    return GS_OK;
}

/* Different sizes in any order; times in eighths, so that equal rates are equal to the bit. */
static gs_status check_bound_drawn(size_t i) {
    lab_timing table[8] = {0};
    size_t rows = lab_pick(WORKERS_ROW, i, 9), best = 0;
    double ms = 1, bound = (double)lab_pick(SPEEDS_ROW, i, 80) / 8;
    for (size_t k = 0; k < rows; k++) {
        size_t place = lab_pick(ORDER_ROW, 8 * i + k, k + 1);
        table[k] = table[place];
        table[place] = (lab_timing){1 + 4 * k + lab_pick(REQUESTS_ROW, 8 * i + k, 4),
                                    (double)(1 + lab_pick(TIMES_ROW, 8 * i + k, 80)) / 8};
    }
    for (size_t k = 0; k < rows; k++) {
        double here = (double)table[k].batch * ms, other = (double)best * table[k].ms;
        if (table[k].ms > bound || here < other || (here == other && table[k].batch > best)) continue;
        best = table[k].batch;
        ms = table[k].ms;
    }
    return check_bound(table, rows, bound, best);
}

static gs_status check_best_batch(void) {
    static const lab_timing table[] = {{1, 0.5}, {2, 0.6}, {4, 0.8}, {8, 2}, {16, 3}, {32, 8}};
    static const lab_timing turned[] = {{32, 8}, {8, 2}, {1, 0.5}, {4, 0.8}, {16, 4}, {2, 0.5}};
    static const double bounds[] = {0.4, 0.5, 0.7, 0.8, 1.9, 2, 3, 100};
    static const size_t best[] = {0, 1, 2, 4, 4, 4, 16, 16}, best_turned[] = {0, 2, 2, 4, 4, 4, 4, 4};
    GS_TRY(check_bound(NULL, 0, 1, 0));
    for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
        GS_TRY(check_bound(table, 6, bounds[i], best[i]));
        GS_TRY(check_bound(turned, 6, bounds[i], best_turned[i]));
    }
    static const lab_timing even[] = {{8, 4}, {2, 1}, {4, 2}};
    GS_TRY(check_bound(even, 3, 10, 2));
    /* too large for an int, and equal as floats */
    static const lab_timing large[] = {{((size_t)1 << 33) + 128, 1}, {(size_t)1 << 33, 1}, {7, 1}};
    GS_TRY(check_bound(large, 3, 10, large[0].batch));
    for (size_t i = 0; i < 200; i++) GS_TRY(check_bound_drawn(i));
    return GS_OK;
}

/* ---- 12.4 ---- */

/* From event to event: a request arrives, the oldest has waited long enough, the worker is free. */
static void serve_by_events(const lab_server *s, size_t requests, const double *arrival, double *done) {
    double now = 0, is_free = 0;
    size_t oldest = 0, come = 0;
    while (oldest < requests) {
        while (come < requests && arrival[come] <= now) come++;
        size_t waiting = come - oldest;
        bool begins =
            now >= is_free && waiting > 0 && (waiting >= s->most || now >= arrival[oldest] + s->wait);
        if (begins) {
            size_t n = waiting < s->most ? waiting : s->most;
            is_free = now + s->fixed + s->each * (double)n;
            while (n-- > 0) done[oldest++] = is_free;
            continue;
        }
        double next = INFINITY; /* the time of the next event */
        if (come < requests) next = arrival[come];
        if (waiting > 0 && arrival[oldest] + s->wait > now) next = fmin(next, arrival[oldest] + s->wait);
        if (waiting > 0 && is_free > now) next = fmin(next, is_free);
        now = next;
    }
}

enum { MOST = 300 };

static gs_status check_serve_of(const lab_server *s, size_t requests, const double *arrival) {
    double done[MOST], expected[MOST];
    for (size_t i = 0; i < requests; i++) done[i] = -1;
    serve_by_events(s, requests, arrival, expected);
    lab_serve(s, requests, arrival, done);
    char text[120] = "";
    for (size_t k = 0; k < requests && k < 8; k++) lab_append(text, sizeof text, " %.13g", arrival[k]);
    for (size_t i = 0; i < requests; i++)
        LAB_CHECK(fabs(done[i] - expected[i]) < 1e-9,
                  "most %zu, wait %g, fixed %g, each %g; arrivals%s%s: the answer to request %zu is ready at "
                  "%.13g, got %.13g",
                  s->most, s->wait, s->fixed, s->each, text, requests > 8 ? " ..." : "", i, expected[i],
                  done[i]);
    return GS_OK;
}

/* Times in eighths, so that sums are exact in any order. Every third server has run for 12 days. */
static gs_status check_serve_drawn(size_t i) {
    double arrival[MOST], now = i % 3 == 2 ? 0x1p30 : 0;
    const lab_server s = {1 + lab_pick(SERVERS_ROW, 4 * i, 8),
                          (double)lab_pick(SERVERS_ROW, 4 * i + 1, 40) / 8,
                          (double)(1 + lab_pick(SERVERS_ROW, 4 * i + 2, 24)) / 8,
                          (double)lab_pick(SERVERS_ROW, 4 * i + 3, 16) / 8};
    size_t requests = 1 + lab_pick(REQUESTS_ROW, i, i < 30 ? 8 : MOST),
           apart = 1 + lab_pick(WORKERS_ROW, i, 40);
    for (size_t k = 0; k < requests; k++) {
        now += (double)lab_pick(ARRIVALS_ROW, MOST * i + k, apart) / 8;
        arrival[k] = now;
    }
    return check_serve_of(&s, requests, arrival);
}

static gs_status check_serve(void) {
    static const double few[] = {1, 2, 2, 5, 6, 6.5, 7, 7, 20, 20};
    static const lab_server servers[] = {{1, 0, 1, 0},   {1, 5, 2, 1},   {2, 0, 1, 0.5},  {2, 3, 1, 0.5},
                                         {3, 1, 4, 0.5}, {4, 100, 1, 1}, {8, 2, 1, 0.25}, {100, 0, 3, 0.1}};
    enum { SERVERS = sizeof servers / sizeof *servers };
    for (size_t requests = 0; requests <= sizeof few / sizeof *few; requests++)
        for (size_t k = 0; k < SERVERS; k++) GS_TRY(check_serve_of(&servers[k], requests, few));
    double arrival[MOST] = {0};
    for (int busy = 1; busy <= 4; busy++) {
        for (size_t i = 1; i < MOST; i++)
            arrival[i] = arrival[i - 1] + (double)(i * i * 31 % 17) / (8.0 * busy);
        for (size_t k = 0; k < SERVERS; k++) GS_TRY(check_serve_of(&servers[k], MOST, arrival));
    }
    for (size_t i = 0; i < 60; i++) GS_TRY(check_serve_drawn(i));
    return GS_OK;
}

const char *const lab_may_call[] = {NULL};

const lab_task lab_tasks[] = {
    {"12.1", "divide requests among workers of unequal speed", 2, check_divide,
     "rounded shares by speed are not always the best: try 2 requests for the speeds 3, 1, 1."},
    {"12.2", "answers in the order of the requests", 2, check_gather,
     "the i-th answer of a worker is not the answer to request i."},
    {"12.3", "the best batch within a bound", 2, check_best_batch,
     "among the rows within the bound, most requests per ms, which is not always the largest batch; of "
     "equals, the smallest."},
    {"12.4", "a server that collects requests", 4, check_serve,
     "three times decide: `most` are waiting, the oldest has waited, the worker is free. While the worker is "
     "busy, more requests may arrive, and up to `most` join the batch."},
    {0},
};
