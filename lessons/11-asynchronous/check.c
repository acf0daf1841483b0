/* Lesson 11: the list of its tasks, and the checks of the server's clocks: first in a simulation of workers of
 * different speeds, whose messages always arrive in the same order, then in training. The simulation also gives the
 * times for 11.3. check_local.c checks local SGD. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Rows of drawn numbers (lab_number, lab_pick). */
enum { WORKERS_ROW, BOUNDS_ROW, STEPS_ROW, TIMES_ROW, JITTER_ROW, CLOCKS_ROW, READ_ROW };

/* ---- the simulation ---- */

enum { MOST_WORKERS = 6, MOST_STEPS = 30, MOST_GRADIENTS = MOST_WORKERS * MOST_STEPS };

typedef struct race {
    int workers;
    size_t bound, steps;
    int duration[MOST_WORKERS]; /* of a step of each worker */
    int jitter;                 /* each step takes up to this much more */
} race;

/* Worker r computes until done[r]; then its gradient arrives. */
typedef struct simulation {
    const race *race;
    gs_clocks clocks;
    size_t clock[MOST_WORKERS];
    uint64_t read[MOST_WORKERS], count[MOST_GRADIENTS];
    bool waits[MOST_WORKERS];
    long done[MOST_WORKERS];
    long times[MOST_GRADIENTS];  /* [rank * steps + step]: when it ended */
    int arrived[MOST_GRADIENTS]; /* the workers whose gradients were applied, in order */
    size_t gradients;
    size_t read_at[MOST_WORKERS];    /* `gradients` when worker r read its weights */
    uint64_t wanted[MOST_GRADIENTS]; /* staleness, counted from this record */
} simulation;

static int duration_of(const race *k, int rank, size_t step) {
    uint32_t word = (uint32_t)(rank * 1000 + (int)step + 1) * 2654435761u;
    return k->duration[rank] + (k->jitter > 0 ? (int)((word >> 8) % (uint32_t)(k->jitter + 1)) : 0);
}

static void begin_step(simulation *s, int rank, long now) {
    s->waits[rank] = false;
    s->read_at[rank] = s->gradients;
    gs_clocks_read(&s->clocks, rank);
    s->done[rank] = now + duration_of(s->race, rank, s->clock[rank]);
}

static void begin(simulation *s, const race *k) {
    *s = (simulation){.race = k};
    s->clocks = (gs_clocks){k->workers, k->bound, k->steps, s->clock, s->read, 0, s->count};
    for (int r = 0; r < k->workers; r++) begin_step(s, r, 0);
}

/* The worker that arrives next; if two arrive together, the lower rank. -1: all wait or have done all steps. */
static int next_arrival(const simulation *s) {
    int next = -1;
    for (int r = 0; r < s->race->workers; r++)
        if (!s->waits[r] && s->clock[r] < s->race->steps && (next < 0 || s->done[r] < s->done[next]))
            next = r;
    return next;
}

static bool is_allowed(const race *k, const size_t *clock, int rank) {
    for (int r = 0; r < k->workers; r++)
        if (clock[rank] > clock[r] + (clock[rank] == k->steps ? 0 : k->bound)) return false;
    return true;
}

static const char *clocks_text(const race *k, const size_t *clock) {
    static char text[200];
    snprintf(text, sizeof text, "K = %zu, %zu step%s an epoch, clocks", k->bound, k->steps, gs_s(k->steps));
    for (int r = 0; r < k->workers; r++) lab_append(text, sizeof text, " %zu", clock[r]);
    return text;
}

static gs_status check_rule(const simulation *s, int rank) {
    bool got = gs_clocks_may_go_on(&s->clocks, rank), wanted = is_allowed(s->race, s->clock, rank);
    LAB_CHECK(got == wanted, "%s: worker %d: got %s, expected %s", clocks_text(s->race, s->clock), rank,
              got ? "go on" : "wait", wanted ? "go on" : "wait");
    return GS_OK;
}

/* All steps of one epoch. `rule`: check the student's 11.1; `book`: count with the student's 11.2. */
static gs_status run(simulation *s, const race *k, bool rule, bool book) {
    begin(s, k);
    for (int r; (r = next_arrival(s)) >= 0;) {
        long now = s->done[r];
        s->times[(size_t)r * k->steps + s->clock[r]] = now;
        s->wanted[s->gradients - s->read_at[r]]++;
        s->arrived[s->gradients++] = r;
        if (book)
            gs_clocks_apply(&s->clocks, &r, 1);
        else
            s->clocks.applied++;
        s->clock[r]++;
        s->waits[r] = true;
        for (int other = 0; other < k->workers; other++) { /* a step of the slowest may release several */
            if (!s->waits[other]) continue;
            if (rule) GS_TRY(check_rule(s, other));
            if (is_allowed(k, s->clock, other) && s->clock[other] < k->steps) begin_step(s, other, now);
        }
    }
    return GS_OK;
}

static const race races[] = {
    {1, 0, 3, {5}, 0},           {2, 0, 3, {5, 5}, 0},
    {2, 1, 6, {5, 5}, 0},        {2, 1, 6, {1, 4}, 0},
    {2, 1, 4, {1, 2}, 4},        {2, 3, 12, {1, 4}, 0},
    {3, 2, 12, {3, 3, 10}, 0},   {4, 4, 30, {7, 8, 9, 31}, 0},
    {4, 2, 30, {5, 5, 5, 5}, 9}, {6, 3, 30, {10, 11, 12, 13, 14, 40}, 20},
};
enum { RACES = sizeof races / sizeof *races, DRAWN_RACES = 20 };

/* The first ones are always the same. */
static race race_of(size_t i) {
    if (i < RACES) return races[i];
    race k = {.workers = 1 + (int)lab_pick(WORKERS_ROW, i, MOST_WORKERS),
              .bound = lab_pick(BOUNDS_ROW, i, 6),
              .steps = 1 + lab_pick(STEPS_ROW, i, MOST_STEPS),
              .jitter = (int)lab_pick(JITTER_ROW, i, 20)};
    for (size_t r = 0; r < MOST_WORKERS; r++)
        k.duration[r] = 1 + (int)lab_pick(TIMES_ROW, MOST_WORKERS * i + r, 40);
    return k;
}

/* ---- 11.1 ---- */

/* Independent clocks, further apart than in a race; sometimes one is at the end. */
static gs_status check_drawn_clocks(size_t i) {
    race k = race_of(RACES + i);
    simulation s;
    begin(&s, &k);
    for (size_t r = 0; r < MOST_WORKERS; r++)
        s.clock[r] = lab_pick(CLOCKS_ROW, MOST_WORKERS * i + r, k.steps + 1);
    for (int r = 0; r < k.workers; r++) GS_TRY(check_rule(&s, r));
    return GS_OK;
}

static gs_status who_may_go_on(void) {
    static const struct {
        race race;
        size_t clock[3];
    } cases[] = {
        {{1, 0, 9, {1}, 0}, {4}},
        {{2, 0, 9, {1, 1}, 0}, {1, 1}},
        {{2, 0, 9, {1, 1}, 0}, {1, 0}},
        {{2, 1, 9, {1, 1}, 0}, {1, 0}},
        {{2, 1, 9, {1, 1}, 0}, {2, 0}},
        {{2, 2, 9, {1, 1}, 0}, {0, 5}},
        {{3, 2, 9, {1, 1, 1}, 0}, {3, 4, 1}},
        {{3, 2, 9, {1, 1, 1}, 0}, {4, 4, 4}},
        {{2, 3, 9, {1, 1}, 0}, {9, 8}}, /* the end of the epoch */
        {{2, 3, 9, {1, 1}, 0}, {9, 9}},
        {{2, 3, (size_t)1 << 34, {1, 1}, 0}, {(size_t)1 << 33, 2}},
    };
    simulation s;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int r = 0; r < cases[i].race.workers; r++) {
            begin(&s, &cases[i].race);
            memcpy(s.clock, cases[i].clock, sizeof cases[i].clock);
            GS_TRY(check_rule(&s, r));
        }
    for (size_t i = 0; i < 50; i++) GS_TRY(check_drawn_clocks(i));
    for (size_t i = 0; i < RACES + DRAWN_RACES; i++) {
        race k = race_of(i);
        GS_TRY(run(&s, &k, true, false));
    }
    return GS_OK;
}

/* ---- 11.2 ---- */

/* As many counts as `count` or `other` needs. */
static const char *counts_text(const uint64_t *count, const uint64_t *other) {
    static char text[2][200];
    static int next;
    char *t = text[next++ % 2];
    t[0] = 0;
    int last = 0;
    for (int i = 0; i < MOST_GRADIENTS; i++)
        if (count[i] || other[i]) last = i;
    for (int i = 0; i <= last && i < 20; i++)
        lab_append(t, sizeof *text, "%s%llu", i > 0 ? " " : "", (unsigned long long)count[i]);
    return t;
}

static gs_status check_race(const race *k) {
    simulation s;
    char order[80] = "";
    GS_TRY(run(&s, k, false, true));
    for (size_t i = 0; i < s.gradients && strlen(order) < 40; i++)
        lab_append(order, sizeof order, "%d ", s.arrived[i]);
    LAB_CHECK(s.clocks.applied == s.gradients,
              "%d worker%s, K = %zu: %zu gradient%s arrived, of workers %s...: %llu were counted as applied",
              k->workers, gs_s(k->workers), k->bound, s.gradients, gs_s(s.gradients), order,
              (unsigned long long)s.clocks.applied);
    LAB_CHECK(memcmp(s.count, s.wanted, sizeof s.count) == 0,
              "%d worker%s, K = %zu, gradients in the order of workers %s...: staleness 0, 1, 2, ... was "
              "counted %s times, expected %s",
              k->workers, gs_s(k->workers), k->bound, order, counts_text(s.count, s.wanted),
              counts_text(s.wanted, s.count));
    return GS_OK;
}

/* K = 0: the gradients of all workers become one update, and none is stale. */
static gs_status check_one_update(void) {
    static const race k = {3, 0, 4, {1, 1, 1}, 0};
    static const int all[] = {0, 1, 2};
    simulation s;
    begin(&s, &k);
    for (int step = 1; step <= 2; step++) {
        gs_clocks_apply(&s.clocks, all, 3);
        for (int r = 0; r < 3; r++) gs_clocks_read(&s.clocks, r);
        uint64_t wanted[MOST_GRADIENTS] = {3 * (uint64_t)step};
        LAB_CHECK(s.clocks.applied == 3 * (uint64_t)step && memcmp(s.count, wanted, sizeof wanted) == 0,
                  "3 workers, update %d from the gradients of all 3: staleness 0, 1, 2, ... was counted %s "
                  "times, %llu applied; expected %s times, %d applied",
                  step, counts_text(s.count, wanted), (unsigned long long)s.clocks.applied,
                  counts_text(wanted, s.count), 3 * step);
    }
    return GS_OK;
}

/* Some workers, in any order; each read its weights at another time. */
static gs_status check_drawn_update(size_t i) {
    race k = race_of(RACES + i);
    simulation s;
    int ranks[MOST_WORKERS] = {0}, n = 1 + (int)lab_pick(READ_ROW, 20 * i, (size_t)k.workers);
    begin(&s, &k);
    s.clocks.applied = (lab_pick(READ_ROW, 20 * i + 1, 1000) << 30) + MOST_GRADIENTS;
    for (int r = 0; r < k.workers; r++) {
        const int place = (int)lab_pick(READ_ROW, 20 * i + 2 + (size_t)r, (size_t)r + 1);
        ranks[r] = ranks[place];
        ranks[place] = r;
        s.read[r] = s.clocks.applied - lab_pick(READ_ROW, 20 * i + 10 + (size_t)r, (size_t)k.workers);
    }
    for (int j = 0; j < n; j++) s.wanted[s.clocks.applied - s.read[ranks[j]]]++;
    const uint64_t wanted = s.clocks.applied + (uint64_t)n;
    gs_clocks_apply(&s.clocks, ranks, n);
    LAB_CHECK(
        s.clocks.applied == wanted && memcmp(s.count, s.wanted, sizeof s.count) == 0,
        "%d worker%s, one update from the gradients of %d: staleness 0, 1, 2, ... was counted %s times, %llu "
        "applied; expected %s times, %llu applied",
        k.workers, gs_s((unsigned)k.workers), n, counts_text(s.count, s.wanted),
        (unsigned long long)s.clocks.applied, counts_text(s.wanted, s.count), (unsigned long long)wanted);
    return GS_OK;
}

static gs_status check_staleness(const gs_result *r, size_t bound) {
    uint64_t gradients = 0;
    for (size_t i = 0; i < r->staleness.counts; i++) gradients += r->staleness.count[i];
    size_t most = 2 * (2 * bound + 1); /* steps that the others can do meanwhile */
    LAB_CHECK(gradients == 60 && r->staleness.counts <= most + 1,
              "train --devices cpu,cpu,cpu --sync async --staleness %zu --steps 20: counted %llu gradient%s, "
              "expected 60; the largest staleness is %zu, expected at most %zu",
              bound, (unsigned long long)gradients, gs_s(gradients), r->staleness.counts - 1, most);
    LAB_CHECK(r->staleness.leads == bound + 1 && r->staleness.lead[bound] > 0,
              "train --sync async --staleness %zu with a slow worker: the others ran only %zu step%s ahead",
              bound, r->staleness.leads - 1, gs_s(r->staleness.leads - 1));
    return GS_OK;
}

/* The server, with the student's functions: K = 2 keeps its bound, and K = 0 is the synchronous parameter server. */
static gs_status check_async_training(void) {
    gs_settings synchronous = lab_short_run(SMALL_MODEL, "cpu,cpu,cpu", BATCH, RUN_STEPS), s = synchronous;
    gs_result r = {0};
    double difference;
    s.sync = "async";
    s.staleness = 2;
    s.jitter = (gs_jitter){1, {{2, 10e-3, 1}}};
    gs_status status = gs_train(&s, NULL, &r);
    if (status == GS_OK) status = check_staleness(&r, 2);
    gs_result_free(&r);
    GS_TRY(status);
    s.jitter = synchronous.jitter;
    s.staleness = 0;
    synchronous.sync = "ps";
    GS_TRY(lab_train_both(&synchronous, &s, &difference, NULL));
    LAB_CHECK(
        difference == 0,
        "train --sync async --staleness 0: after 20 steps the weights differ by %g from those of --sync ps, "
        "expected the same weights",
        difference);
    return GS_OK;
}

static gs_status how_stale(void) {
    GS_TRY(check_one_update());
    for (size_t i = 0; i < DRAWN_RACES; i++) GS_TRY(check_drawn_update(i));
    for (size_t i = 0; i < RACES + DRAWN_RACES; i++) {
        race k = race_of(i);
        GS_TRY(check_race(&k));
    }
    return check_async_training();
}

/* ---- 11.3 ---- */

static const double tenth = 0.1; /* seconds in a unit of time; no binary fraction */

/* The first steps of each worker. */
static const char *epoch_text(const race *k) {
    static char text[400];
    snprintf(text, sizeof text, "%d worker%s, K = %zu, %zu step%s that take", k->workers, gs_s(k->workers),
             k->bound, k->steps, gs_s(k->steps));
    for (int r = 0; r < k->workers; r++) {
        for (size_t i = 0; i < k->steps && i < 6; i++)
            lab_append(text, sizeof text, " %g", tenth * duration_of(k, r, i));
        lab_append(text, sizeof text, "%s (worker %d)%s", k->steps > 6 ? " ..." : "", r,
                   r + 1 < k->workers ? "," : "");
    }
    return text;
}

static gs_status check_epoch(const race *k) {
    simulation s;
    double takes[MOST_GRADIENTS], done[MOST_GRADIENTS];
    epoch e = {k->workers, k->bound, k->steps, takes};
    long over = 0;
    for (int r = 0; r < k->workers; r++)
        for (size_t i = 0; i < k->steps; i++) {
            takes[(size_t)r * k->steps + i] = tenth * duration_of(k, r, i);
            done[(size_t)r * k->steps + i] = -1;
        }
    GS_TRY(run(&s, k, false, false));
    double got = epoch_takes(&e, done);
    for (size_t i = 0; i < k->steps; i++)
        for (int r = 0; r < k->workers; r++) {
            size_t at = (size_t)r * k->steps + i;
            LAB_CHECK(fabs(done[at] - tenth * (double)s.times[at]) <= 1e-9,
                      "%s: worker %d ends its step %zu after %.9g s, expected %.9g s", epoch_text(k), r, i,
                      done[at], tenth * (double)s.times[at]);
            if (s.times[at] > over) over = s.times[at];
        }
    LAB_CHECK(fabs(got - tenth * (double)over) <= 1e-9, "%s: the epoch takes %.9g s, expected %.9g s",
              epoch_text(k), got, tenth * (double)over);
    return GS_OK;
}

static gs_status how_long(void) {
    for (size_t i = 0; i < RACES + DRAWN_RACES; i++) {
        race k = race_of(i);
        GS_TRY(check_epoch(&k));
    }
    return GS_OK;
}

const char *const lab_may_call[] = {"gs_clocks_slowest", "gs_optimizer_update", "gs_call_run", "gs_shard_of",
                                    "gs_fail",           "gs_context",          NULL};

const lab_task lab_tasks[] = {
    {"11.1", "bounded staleness: which worker may go on", 3, who_may_go_on,
     "a worker may be 0 to K steps ahead of the slowest; at the end of an epoch 0"},
    {"11.2", "the distribution of staleness; training with its counts", 3, how_stale,
     "gradients of the same update do not make each other stale. The training needs 11.1 too"},
    {"11.3", "what the bound costs: which worker waits", 2, how_long,
     "a worker at step i has the clock i. How many steps must all workers have done before this worker may "
     "begin?"},
    {"11.4", "local SGD: a step alone, and when to meet", 2, lab_check_steps_alone,
     "divide by this worker's own samples; the H-th step has w->step = H - 1."},
    {0},
};
