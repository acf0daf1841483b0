/* Compares 17.1 and 17.2 with the only right lists. Checks that 17.3 ends as early as GPipe, with few micro-batches
 * alive. */
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include "lab.h"

enum { STAGES_ROW, MICRO_BATCHES_ROW, TIMES_ROW, NUMBER_ROW };

/* ---- 17.1 ---- */

enum { MOST = 8, TEXT = 100 };

static const char *name_of(gs_action a) {
    return (unsigned)a < GS_ACTIONS ? gs_action_names[a] : "no such action";
}

/* "'send activation' of micro-batch 3 to stage 1", or "'forward' of micro-batch 3". */
static const char *text_of(const gs_instruction *x, char text[TEXT]) {
    const int n = snprintf(text, TEXT, "'%s' of micro-batch %d", name_of(x->action), x->micro_batch);
    const bool is_message = gs_action_sends(x->action) || gs_action_receives(x->action);
    if (is_message || x->peer != 0)
        snprintf(text + n, TEXT - (size_t)n, " %s stage %d",
                 gs_action_sends(x->action)      ? "to"
                 : gs_action_receives(x->action) ? "from"
                                                 : "with",
                 x->peer);
    return text;
}

static gs_status check_instructions(const gs_instructions *got, const gs_instructions *wanted,
                                    const char *function, int p, int s, int k) {
    for (size_t i = 0; i < wanted->count && i < got->count; i++) {
        const gs_instruction *w = &wanted->list[i], *g = &got->list[i];
        char wanted_text[TEXT], got_text[TEXT];
        LAB_CHECK(w->action == g->action && w->micro_batch == g->micro_batch && w->peer == g->peer,
                  "%s, %d stage%s, stage %d, micro-batch %d: instruction %zu: expected %s; got %s", function,
                  p, gs_s((unsigned)p), s, k, i + 1, text_of(w, wanted_text), text_of(g, got_text));
    }
    LAB_CHECK(got->count == wanted->count,
              "%s, %d stage%s, stage %d, micro-batch %d: expected %zu instruction%s, got %zu", function, p,
              gs_s((unsigned)p), s, k, wanted->count, gs_s(wanted->count), got->count);
    return GS_OK;
}

static gs_status check_passes_of(int p, int s, int k) {
    gs_instruction room[2][MOST];
    gs_instructions got = {room[0], 0, MOST}, wanted = {room[1], 0, MOST};
    memset(room, 0, sizeof room);
    const bool first = s == 0, last = s == p - 1;
    if (!first) then(&wanted, GS_DO_RECV_ACTIVATION, k, s - 1);
    then(&wanted, GS_DO_FORWARD, k, 0);
    if (!last) then(&wanted, GS_DO_SEND_ACTIVATION, k, s + 1);
    stage_forward(&got, p, s, k);
    GS_TRY(check_instructions(&got, &wanted, "stage_forward", p, s, k));
    got.count = wanted.count = 0;
    memset(room, 0, sizeof room);
    if (!last) then(&wanted, GS_DO_RECV_GRADIENT, k, s + 1);
    then(&wanted, GS_DO_BACKWARD, k, 0);
    if (!first) then(&wanted, GS_DO_SEND_GRADIENT, k, s - 1);
    stage_backward(&got, p, s, k);
    return check_instructions(&got, &wanted, "stage_backward", p, s, k);
}

static gs_status check_stage_passes(void) {
    for (int p = 1; p <= 4; p++)
        for (int s = 0; s < p; s++) GS_TRY(check_passes_of(p, s, 2 * s + 1));
    for (size_t i = 0; i < 20; i++) {
        const int p = 1 + (int)lab_pick(STAGES_ROW, i, 12);
        GS_TRY(check_passes_of(p, (int)lab_pick(NUMBER_ROW, i, (size_t)p),
                               (int)lab_pick(NUMBER_ROW, 100 + i, 50)));
    }
    return GS_OK;
}

/* ---- 17.2, 17.3: each micro-batch goes once forward and once backward, in order ---- */

typedef struct step {
    pass room[CHECK_STAGES][CHECK_ROOM];
    passes lists[CHECK_STAGES];
} step;

/* Begins a message: "stage 1 of 3, 4 micro-batches: F0 F1 B0 ..." */
#define SHOWN "stage %d of %d, %d micro-batch%s: %s"
#define SHOW(l, p, m, s) s, p, m, (m) == 1 ? "" : "es", check_text(l)

static gs_status check_is_complete(const passes *l, int p, int m, int s) {
    int forward = 0, backward = 0;
    LAB_CHECK(l->count == 2 * (size_t)m, SHOWN ": expected %d passes, got %zu", SHOW(l, p, m, s), 2 * m,
              l->count);
    for (size_t i = 0; i < l->count; i++) {
        const pass *x = &l->list[i];
        const int expected = x->backward ? backward++ : forward++;
        const char *way = x->backward ? "backward" : "forward";
        LAB_CHECK(x->micro_batch == expected, SHOWN ": pass %zu is %s of micro-batch %d; expected %s of %d",
                  SHOW(l, p, m, s), i + 1, way, x->micro_batch, way, expected);
        LAB_CHECK(backward <= forward, SHOWN ": micro-batch %d goes backward before forward",
                  SHOW(l, p, m, s), x->micro_batch);
    }
    return GS_OK;
}

static void ask(step *t, void (*order)(passes *, int, int, int), int p, int m, int s) {
    for (size_t i = 0; i < CHECK_ROOM; i++) t->room[s][i] = (pass){false, -1};
    t->lists[s] = (passes){t->room[s], 0, CHECK_ROOM};
    order(&t->lists[s], p, m, s);
}

static gs_status check_gpipe_of(int p, int m) {
    step t;
    for (int s = 0; s < p; s++) {
        ask(&t, gpipe, p, m, s);
        GS_TRY(check_is_complete(&t.lists[s], p, m, s));
        for (int i = 0; i < m; i++)
            LAB_CHECK(!t.room[s][i].backward, SHOWN ": pass %d is backward, before all have gone forward",
                      SHOW(&t.lists[s], p, m, s), i + 1);
    }
    return GS_OK;
}

/* Checks small cases, then cases drawn from the seed. */
static gs_status for_shapes(gs_status (*check)(int p, int m)) {
    for (int p = 1; p <= 4; p++)
        for (int m = 1; m <= 5; m++) GS_TRY(check(p, m));
    for (size_t i = 0; i < 30; i++)
        GS_TRY(check(1 + (int)lab_pick(STAGES_ROW, 50 + i, CHECK_STAGES),
                     1 + (int)lab_pick(MICRO_BATCHES_ROW, i, CHECK_MICRO_BATCHES)));
    return GS_OK;
}

static gs_status check_gpipe(void) {
    return for_shapes(check_gpipe_of);
}

/* ---- 17.3 ---- */

static gs_status check_alive(const passes *l, int p, int m, int s) {
    int alive = 0;
    for (size_t i = 0; i < l->count; i++) {
        alive += l->list[i].backward ? -1 : 1;
        LAB_CHECK_HINT(
            alive <= p - s,
            "when the first micro-batch comes back to stage s, how many have gone forward there? Count in "
            "the README's picture.",
            SHOWN ": after pass %zu %d micro-batches are alive; wanted at most %d", SHOW(l, p, m, s), i + 1,
            alive, p - s);
    }
    return GS_OK;
}

/* If all stages take the same times, GPipe, and so the best schedule, ends after (m + p - 1) (f + b). */
static gs_status check_is_early(const step *t, int p, int m, double f, double b) {
    double forward[CHECK_STAGES], backward[CHECK_STAGES], end[CHECK_STAGES * CHECK_ROOM];
    for (int s = 0; s < p; s++) forward[s] = f, backward[s] = b;
    const double wanted = (m + p - 1) * (f + b), got = check_time(p, m, t->lists, forward, backward, end);
    LAB_CHECK_HINT(got >= 0, "which pass does each stage wait for?",
                   "%d stages, %d micro-batches: the stages wait for each other forever; stage 0: %s; stage "
                   "%d: %s",
                   p, m, check_text(&t->lists[0]), p - 1, check_text(&t->lists[p - 1]));
    LAB_CHECK_HINT(
        got <= wanted * (1 + 1e-9),
        "draw a clock for this case, a row for each stage: which stage waits, but could go forward with "
        "another micro-batch?",
        "%d stages, %d micro-batches; forward takes %g, backward %g: ready after %g; in GPipe after %g. "
        "Stage 0: %s; stage %d: %s",
        p, m, f, b, got, wanted, check_text(&t->lists[0]), p - 1, check_text(&t->lists[p - 1]));
    return GS_OK;
}

static gs_status check_1f1b_of(int p, int m) {
    step t;
    for (int s = 0; s < p; s++) {
        ask(&t, one_forward_one_backward, p, m, s);
        GS_TRY(check_is_complete(&t.lists[s], p, m, s));
        GS_TRY(check_alive(&t.lists[s], p, m, s));
    }
    GS_TRY(check_is_early(&t, p, m, 1, 2));
    const size_t i = (size_t)(20 * p + m);
    return check_is_early(&t, p, m, (double)(1 + lab_pick(TIMES_ROW, i, 40)) / 8,
                          (double)(1 + lab_pick(TIMES_ROW, 1000 + i, 40)) / 8);
}

static gs_status check_1f1b(void) {
    return for_shapes(check_1f1b_of);
}

const char *const lab_may_call[] = {NULL};

const lab_task lab_tasks[] = {
    {"17.1", "the messages of a pass", 1, check_stage_passes,
     "a stage in the middle has two messages in each pass, one in and one out. Which does the first stage "
     "have, and which the last?"},
    {"17.2", "GPipe", 1, check_gpipe, "in the README's picture, read a stage's row without the dots."},
    {"17.3", "1F1B: one forward, one backward", 3, check_1f1b,
     "in the README's picture, read a stage's row without the dots."},
    {"17.4", "a schedule on a clock", 2, check_pipeline_time,
     "a pass begins at the later of two moments: the end of the pass before it in its list, and the arrival "
     "of its input."},
    {"17.5", "how many micro-batches", 1, check_micro_batches,
     "GPipe keeps all m micro-batches of batch / m samples. How many does stage 0 keep in 1F1B?"},
    {"17.6", "where the stages begin", 2, check_cut,
     "three layers that take 1, 1 and 2: by hand, for two stages. What does the table `best` say for the "
     "first two layers?"},
    {0},
};
