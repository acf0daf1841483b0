/* The checks of lesson 1. They compare the functions' results with runs simulated sample by sample, on a virtual clock:
 * without a formula, and without measuring. */
#include <math.h>
#include "tasks.h"
#include "lab.h"

/* ---- the reference: a simulated run ---- */

enum { STEPS = 20000, SLOTS = 4, MOST_WORKERS = 16 };

typedef struct played {
    double rate, waits; /* samples/s of all workers, share of the time that a worker waits */
} played;

/* A step computes one sample. A disk loads sample after sample for its workers alternately, as long as the worker has a
 * free slot; a worker starts a sample when it is loaded and the one before is done. */
static played play(double loader, double step, int workers, bool shared) {
    static double done[MOST_WORKERS][SLOTS]; /* when worker w had finished its sample i: slot i % SLOTS */
    double disk[MOST_WORKERS] = {0}, waited = 0, end = 0;
    for (int w = 0; w < workers; w++)
        for (int i = 0; i < SLOTS; i++) done[w][i] = 0;
    for (int i = 0; i < STEPS; i++)
        for (int w = 0; w < workers; w++) {
            double *mine = &disk[shared ? 0 : w], before = done[w][(i + SLOTS - 1) % SLOTS];
            *mine = fmax(*mine, done[w][i % SLOTS]) + 1 / loader;
            double start = fmax(*mine, before);
            waited += start - before;
            done[w][i % SLOTS] = start + 1 / step;
            end = fmax(end, start + 1 / step);
        }
    return (played){(double)workers * STEPS / end, waited / (workers * end)};
}

/* The simulated run includes its start; a prediction does not. */
static const double TOLERANCE = 2e-3;

static bool close_to(double got, double wanted, double scale) {
    return fabs(got - wanted) <= TOLERANCE * scale;
}

/* Rows of lab_number and lab_pick. */
enum { DRAWN_SPEEDS, DRAWN_SHARES, DRAWN_DISKS, DRAWN_STEPS };

typedef struct speed {
    double loader, step;
} speed;

/* Case i: chosen ones, then drawn ones, from 10 to 10,000 samples/s. */
enum { GIVEN = 9, SPEEDS = GIVEN + 5 };
static speed speed_of(int i) {
    static const speed given[GIVEN] = {
        {100, 100}, {100, 200},     {200, 100}, {6289, 15100}, {1, 1000},
        {1000, 1},  {INFINITY, 30}, {99, 100},  {350, 100},
    };
    if (i < GIVEN) return given[i];
    const size_t at = 2 * (size_t)i;
    return (speed){floor(pow(10, 2.5 + 1.5 * (double)lab_number(DRAWN_SPEEDS, at))),
                   floor(pow(10, 2.5 + 1.5 * (double)lab_number(DRAWN_SPEEDS, at + 1)))};
}

static gs_status check_1_1(void) {
    for (int i = 0; i < SPEEDS; i++) {
        const speed s = speed_of(i);
        double waits = -1, rate = lab_together(s.loader, s.step, &waits);
        played real = play(s.loader, s.step, 1, true);
        LAB_CHECK(close_to(rate, real.rate, real.rate),
                  "loader %g samples/s, step %g: together %.5g samples/s, got %.5g", s.loader, s.step,
                  real.rate, rate);
        LAB_CHECK(
            close_to(waits, real.waits, 1),
            "loader %g samples/s, step %g: the step waits %.1f %% of the time (as a share: %.3f), got %.3f",
            s.loader, s.step, 100 * real.waits, real.waits, waits);
    }
    return GS_OK;
}

/* 1000 units of work; `serial` of them cannot be divided. */
static gs_status check_amdahl(int serial, int workers) {
    double time = serial + (1000.0 - serial) / workers;
    double got = lab_amdahl(serial / 1000.0, workers);
    LAB_CHECK(fabs(got - 1000 / time) <= 1e-9 * workers,
              "serial share %g, %d worker%s: the time falls from 1000 to %.6g, so they are %.6g times as "
              "fast, got %.6g",
              serial / 1000.0, workers, workers == 1 ? "" : "s", time, 1000 / time, got);
    return GS_OK;
}

static gs_status check_1_2(void) {
    for (int serial = 0; serial <= 1000; serial += 125)
        for (int workers = 1; workers <= 64; workers++) GS_TRY(check_amdahl(serial, workers));
    for (size_t i = 0; i < 100; i += 2)
        GS_TRY(
            check_amdahl((int)lab_pick(DRAWN_SHARES, i, 1001), 1 + (int)lab_pick(DRAWN_SHARES, i + 1, 1000)));
    return GS_OK;
}

static gs_status check_1_3(void) {
    for (int workers = 1; workers <= MOST_WORKERS; workers += workers < 4 ? 1 : 4)
        for (int i = 0; i < SPEEDS; i++)
            for (int shared = 0; shared < 2; shared++) {
                const double loader = speed_of(i).loader, step = speed_of(i).step;
                double wanted = play(loader, step, workers, shared).rate / play(loader, step, 1, shared).rate;
                double got = lab_speed_up(loader, step, workers, shared);
                LAB_CHECK(
                    close_to(got, wanted, wanted),
                    "loader %g samples/s, step %g, %d worker%s, %s: %.3f times as fast as one, got %.3f",
                    loader, step, workers, workers == 1 ? "" : "s",
                    shared ? "one disk for all" : "a disk for each", wanted, got);
            }
    return GS_OK;
}

typedef struct disk_case {
    double loader, step;
    int shared, own; /* wanted */
} disk_case;

static gs_status check_disks(disk_case c) {
    for (int shared = 1; shared >= 0; shared--) {
        int wanted = shared ? c.shared : c.own;
        int got = lab_data_bound_from(c.loader, c.step, shared);
        LAB_CHECK(got == wanted, "loader %g samples/s, step %g, %s: some wait from %d worker%s on%s, got %d",
                  c.loader, c.step, shared ? "one disk for all" : "a disk for each", wanted, gs_s(wanted),
                  wanted == 0 ? " (0: never)" : "", got);
    }
    return GS_OK;
}

static gs_status check_1_4(void) {
    static const disk_case cases[] = {
        {100, 200, 1, 1}, {100, 100, 2, 0},     {200, 100, 3, 0},        {250, 100, 3, 0},   {299, 100, 3, 0},
        {400, 100, 5, 0}, {99.5, 100, 1, 1},    {6710.25, 22.5, 299, 0}, {100.5, 100, 2, 0}, {1, 0.25, 5, 0},
        {1, 1024, 1, 1},  {INFINITY, 30, 0, 0}, {1e6, 15625, 65, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) GS_TRY(check_disks(cases[i]));
    /* in quarters of a sample, which round exactly; every second disk supplies exactly enough for some workers */
    for (size_t i = 0; i < 40; i += 2) {
        size_t step = 1 + lab_pick(DRAWN_DISKS, i, 400), loader = 1 + lab_pick(DRAWN_DISKS, i + 1, 4000);
        if (i % 4 == 0) loader = step * (1 + loader / 40);
        GS_TRY(check_disks(
            (disk_case){(double)loader / 4, (double)step / 4, (int)(loader / step) + 1, loader < step}));
    }
    return GS_OK;
}

/* Seconds of a step over `batch` samples, which are dealt out one by one. */
static double step_seconds(size_t batch, int workers, double step, double sum_seconds) {
    size_t longest = 0, part[MOST_WORKERS] = {0};
    for (size_t i = 0; i < batch; i++) {
        size_t *p = &part[i % (size_t)workers];
        if (++*p > longest) longest = *p;
    }
    return (double)longest / step + (workers > 1 ? sum_seconds : 0);
}

/* A sum that lasts as long as computing `samples`. */
static gs_status check_crossover(double step, int workers, double samples) {
    double sum = samples / step;
    size_t wanted = 1;
    while (!(step_seconds(wanted, workers, step, sum) < step_seconds(wanted, 1, step, sum))) wanted++;
    size_t got = lab_crossover(step, workers, sum);
    LAB_CHECK(got == wanted,
              "%g samples/s, %d worker%s, a sum as long as %g samples: they win from a batch of %zu on "
              "(steps of %g and %g samples' time), got %zu",
              step, workers, gs_s(workers), samples, wanted, step * step_seconds(wanted, workers, step, sum),
              step * step_seconds(wanted, 1, step, sum), got);
    return GS_OK;
}

static gs_status check_1_5(void) {
    /* powers of two and quarters round exactly, so "less" means less */
    static const double samples[] = {0, 0.5, 1, 1.5, 2, 7, 7.25, 64, 100, 333};
    const double step = 1024;
    for (int workers = 2; workers <= MOST_WORKERS; workers += workers < 5 ? 1 : 3)
        for (size_t i = 0; i < sizeof samples / sizeof *samples; i++)
            GS_TRY(check_crossover(step, workers, samples[i]));
    for (size_t i = 0; i < 45; i += 3)
        GS_TRY(check_crossover((double)(16 << lab_pick(DRAWN_STEPS, i, 10)),
                               2 + (int)lab_pick(DRAWN_STEPS, i + 1, MOST_WORKERS - 1),
                               (double)lab_pick(DRAWN_STEPS, i + 2, 1500) / 4));
    size_t got = lab_crossover(step, 1, 1 / step);
    LAB_CHECK(got == 0, "1 worker: it is never faster than itself, so 0; got %zu", got);
    got = lab_crossover(65536, 2, 8);
    LAB_CHECK(got == 1048578, "65536 samples/s, 2 workers, a sum of 8 s: from 1048578 on, got %zu", got);
    return GS_OK;
}

const char *const lab_may_call[] = {NULL};

const lab_task lab_tasks[] = {
    {"1.1", "a loader and a step at the same time", 2, check_1_1,
     "The step computes for rate / step of each second. What does it do in the rest?"},
    {"1.2", "Amdahl's law", 2, check_1_2,
     "time = the serial share + the rest / workers; the speed-up is 1 / time."},
    {"1.3", "speed-up by data", 2, check_1_3,
     "One disk for all limits the sum of what the workers consume. Compare with the rate that ONE worker "
     "really reaches: a slow disk limits it too."},
    {"1.4", "from how many workers on some of them wait", 2, check_1_4,
     "n workers of one disk wait if n x step is above loader; equal is not above."},
    {"1.5", "the batch from which several workers win", 2, check_1_5,
     "The largest part has ceil(B / workers) samples. Equal times are no gain yet."},
    {0},
};
